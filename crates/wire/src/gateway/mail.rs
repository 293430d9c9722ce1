//! Payloads of `email.send`, `email.draft` and `email.fetch`.

use serde::Serialize;

use super::read::Fields;
use super::{LIMIT_MAX, PEOPLE_MAX};
#[cfg(feature = "schema")]
use super::{NAME_BYTES_MAX, TEXT_BYTES_MAX};
use crate::payload::PayloadError;
use crate::time::Time;

/// The folder that `email.fetch` uses if none is named.
pub const FOLDER: &str = "INBOX";
/// The limit that `email.fetch` uses if none is given.
pub const LIMIT: u32 = 50;

/// `email.send`, `email.draft`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct EmailSend {
    /// Recipients as bare addresses. With `cc` at most [`PEOPLE_MAX`]; a draft may have none.
    #[schemars(schema_with = "super::read::addresses")]
    pub to: Vec<String>,
    /// Recipients of copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "super::read::addresses")]
    pub cc: Option<Vec<String>>,
    /// Subject, one line.
    #[schemars(schema_with = "crate::schema::line::<TEXT_BYTES_MAX>")]
    pub subject: String,
    /// Text of the mail.
    pub body: String,
    /// The message that this mail replies to.
    #[serde(rename = "replyToMessageId", skip_serializing_if = "Option::is_none")]
    #[schemars(default, schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>")]
    pub reply_to_message_id: Option<String>,
}

impl EmailSend {
    pub(super) fn read(payload: &str, is_draft: bool) -> Result<EmailSend, PayloadError> {
        let fields = Fields::read(
            payload,
            &["to", "cc", "subject", "body", "replyToMessageId"],
        )?;
        let mail = EmailSend {
            to: fields.addresses("to")?,
            cc: fields.addresses_if_any("cc")?,
            subject: fields.line("subject")?,
            body: fields.text("body")?,
            reply_to_message_id: fields.name_if_any("replyToMessageId")?,
        };
        let people = mail
            .cc
            .as_ref()
            .map_or(0, Vec::len)
            .saturating_add(mail.to.len());
        if people > PEOPLE_MAX {
            return Err(PayloadError::Recipients {
                found: people,
                most: PEOPLE_MAX,
            });
        }
        if people == 0 && !is_draft {
            return Err(PayloadError::Forms {
                fields: ["to", "cc"],
                rule: "are empty: a mail that is sent needs a recipient",
            });
        }
        Ok(mail)
    }
}

/// `email.fetch`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct EmailFetch {
    /// Folder; if absent, [`FOLDER`].
    #[schemars(
        default = "folder",
        schema_with = "crate::schema::outside_name::<NAME_BYTES_MAX>"
    )]
    pub folder: String,
    /// Maximum number of mails, 1 to [`LIMIT_MAX`]; if absent, [`LIMIT`].
    #[schemars(
        default = "limit",
        schema_with = "crate::schema::whole::<1, LIMIT_MAX>"
    )]
    pub limit: u32,
    /// Only mails that are not older than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default, with = "Time")]
    pub since: Option<Time>,
}

fn folder() -> String {
    FOLDER.to_owned()
}

#[cfg(feature = "schema")]
fn limit() -> u32 {
    LIMIT
}

impl EmailFetch {
    pub(super) fn read(payload: &str) -> Result<EmailFetch, PayloadError> {
        let fields = Fields::read(payload, &["folder", "limit", "since"])?;
        Ok(EmailFetch {
            folder: fields.name_if_any("folder")?.unwrap_or_else(folder),
            limit: fields.limit("limit", LIMIT_MAX)?.unwrap_or(LIMIT),
            since: fields.time_if_any("since")?,
        })
    }
}
