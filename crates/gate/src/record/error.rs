//! Why a line cannot be written, read, or turned into its answer.

/// Why the body of a line cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not the JSON of its kind.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The serialiser wrote something else than text.
    #[error(transparent)]
    Text(#[from] std::string::FromUtf8Error),
    /// An input that is neither an answer of a role nor an answer to admission.
    #[error("{role}; as an input of admission: {admission}")]
    Input {
        /// Why it is not an answer of a role.
        role: serde_json::Error,
        /// Why it is not an answer to admission.
        admission: serde_json::Error,
    },
    /// Its kind contradicts its status.
    #[error("a `request` line has the status `pending`, and a `decision` line has another")]
    Pending,
    /// A later version of the program may know this kind.
    #[error("unknown kind `{0}`")]
    Kind(String),
}

/// Why the answer of a line cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineAnswerError {
    /// The result of the action is in another line.
    #[error("line {0}: its answer is in its `response` line")]
    Pending(String),
    /// A held request whose line has no hold.
    #[error("line {0}: its status is `requires_approval`, and it has no hold")]
    NoHold(String),
    /// An accepted order whose line has no order id.
    #[error("line {0}: it accepts an order and has no order id")]
    NoOrder(String),
    /// The blob was not given.
    #[error("audit/blobs/{0} is missing")]
    BlobMissing(String),
    /// The blob is not text.
    #[error("audit/blobs/{0} is not UTF-8")]
    BlobNotText(String),
    /// The blob is text of another kind.
    #[error("audit/blobs/{digest} is not JSON: {error}")]
    BlobNotJson {
        /// The name of the blob.
        digest: String,
        /// What is wrong with it.
        error: serde_json::Error,
    },
    /// A member of the line is not JSON, or the answer cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}
