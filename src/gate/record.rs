//! The bodies of ledger lines that carry meaning, with fixed keys in a fixed order per kind. A decision
//! line alone can rebuild its answer; the changes in all lines, folded, are the state.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::actions::Lane;
use super::approvals;
use super::rates::Bucket;
use super::state::Change;
use crate::actions::anomaly::Anomaly;
use crate::admission::Receipt;
use crate::admission::receipt::Verdict;
use crate::rules::gateway::ACTIONS as OUTGOING;
use crate::wire::amount::Amount;
use crate::wire::answer::{Answer, AnswerError, AnswerStatus};
use crate::wire::approvals::HoldId;
use crate::wire::code::Code;
use crate::wire::council::Stance;
use crate::wire::heads::GivenUp;
use crate::wire::heads::Rotation;
use crate::wire::ids::{OrderId, Principal, RequestId, RuleId};
use crate::wire::orders::{CheckResult, Headroom};
use crate::wire::sealed::Field;
use crate::wire::time::Time;

/// How old an exit, cancel or tighten may be to say that its sender is there, milliseconds.
const LIFE_AGE_MAX_MS: i64 = 300_000;

/// First line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Genesis {
    /// The gate's clock.
    pub timestamp: Time,
    /// Version of the format: 1.
    pub format: u32,
    /// Name of the log in checkpoints: a schema-less URL.
    pub origin: String,
    /// Verifier key of checkpoints, C2SP signed-note form.
    pub log_key: String,
    /// Public key of seals, hex.
    pub seal_key: String,
    /// 32 random bytes, hex: no two logs share a first line.
    pub nonce: String,
    /// Hash of the first rulebook.
    pub rulebook: String,
    /// Version of the program.
    pub program: String,
    /// The first state: rulebook and the first person's key.
    pub changes: Vec<Change>,
}

/// A line that is not about one request: start, stop, rulebook, tick, halt, clock_step, dead_man, quota, proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The gate's clock.
    pub timestamp: Time,
    /// What happened, in words.
    pub note: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// Answers up to a line are durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The gate's clock.
    pub timestamp: Time,
    /// All answers of lines up to this one are on disk.
    pub up_to: u64,
}

/// Market rows and what they did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MarketRows {
    /// The gate's clock.
    pub timestamp: Time,
    /// Instrument.
    pub symbol: String,
    /// Name of the file they came from. Absent, with the next two, where they stand in the payload of the decision that
    /// follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
    /// SHA-256 of that file, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_sha256: Option<String>,
    /// The rows' digest: they lie in `audit/blobs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows_sha256: Option<String>,
    /// First row of this line, from 0.
    pub first_row: u64,
    /// How many rows.
    pub row_count: u64,
    /// What they did.
    pub changes: Vec<Change>,
}

/// Status of a request in the audit trail, in the words of the gateway's document: what is told to come later, or to wait for
/// a person, has the word of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Carried out.
    Success,
    /// Refused.
    Rejected,
    /// Refused for now: the same request may come again later.
    RateLimited,
    /// Held until a person approves: nothing is done yet.
    #[serde(rename = "requires_approval")]
    Held,
    /// About to be done outside: what came of it stands in a response line.
    Pending,
    /// Tried outside, and not known to be done.
    Error,
}

/// ACCEPTED or REJECTED, for requests with a check vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ruling {
    /// Every blocking check passed.
    #[serde(rename = "ACCEPTED")]
    Accepted,
    /// One did not.
    #[serde(rename = "REJECTED")]
    Rejected,
}

/// Direction of an audit entry; a decision is request and response in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// A request that is about to be carried out.
    Request,
    /// The answer to a request.
    Response,
}

/// One row of a check vector, as the audit trail names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRow {
    /// Name of the check.
    pub name: Cow<'static, str>,
    /// Whether it passed.
    pub passed: bool,
    /// Computed value.
    pub value: Option<Amount>,
    /// Limit.
    pub limit: Option<Amount>,
    /// Where the limit comes from.
    pub source: Cow<'static, str>,
    /// Unit of both.
    pub unit: Cow<'static, str>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
}

impl From<CheckResult> for CheckRow {
    fn from(row: CheckResult) -> CheckRow {
        let CheckResult { check_name: name, passed, value, limit, source, unit, reason } = row;
        CheckRow { name, passed, value, limit, source, unit, reason }
    }
}

/// A row of the check vector.
// As [`CheckResult`], without a copy of its texts.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct AnsweredRow<'a> {
    /// Name of the check.
    check_name: &'a str,
    /// Whether it passed. A check that could not be computed has not.
    passed: bool,
    /// The computed value, in `unit`; null where it could not be computed.
    value: Option<Amount>,
    /// The limit it was compared with, in `unit`; null where there is none.
    limit: Option<Amount>,
    /// Where the limit comes from, such as `safety.yaml`.
    source: &'a str,
    /// Unit of value and limit: `usd`, `fraction`, `ms`, `bool`, `price`, `size`, `count`.
    unit: &'a str,
    /// Why it failed or could not be computed, in words; or what an exempt check would have said.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

impl<'a> From<&'a CheckRow> for AnsweredRow<'a> {
    fn from(row: &'a CheckRow) -> AnsweredRow<'a> {
        let CheckRow { name: check_name, passed, value, limit, source, unit, reason } = row;
        let (passed, value, limit) = (*passed, *value, *limit);
        AnsweredRow { check_name, passed, value, limit, source, unit, reason: reason.as_deref() }
    }
}

/// The rows of a check vector that passed, or those that did not.
pub(super) struct AnsweredRows<'a> {
    rows: &'a [CheckRow],
    passed: bool,
}

impl schemars::JsonSchema for AnsweredRows<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnsweredRows".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        <Vec<AnsweredRow<'_>> as schemars::JsonSchema>::json_schema(generator)
    }
}

impl Serialize for AnsweredRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rows = self.rows.iter().filter(|row| row.passed == self.passed);
        serializer.collect_seq(rows.map(AnsweredRow::from))
    }
}

/// Why, exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Code of a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What, where and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The line whose stored answer was given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<u64>,
}

impl Metadata {
    /// The reason as it is answered.
    fn answered(&self) -> Option<AnswerError> {
        let message = |code: Code| self.message.clone().unwrap_or_else(|| code.remedy().to_owned());
        self.code.map(|code| AnswerError { code, message: message(code) })
    }
}

/// A request and its decision in one line: nothing outside happened in between.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The gate's clock.
    pub timestamp: Time,
    /// Id of this entry: its own seq.
    pub id: String,
    /// Id of the request, where it could be read.
    pub request_id: Option<String>,
    /// Its action.
    pub action: Option<String>,
    /// Who signed; before a good signature, who claimed to.
    pub source: Option<String>,
    /// `response`; `request` of one that is pending.
    pub direction: Flow,
    /// Outcome.
    pub status: Status,
    /// SHA-256 of the payload, hex.
    pub payload_hash: Option<String>,
    /// The signature as sent.
    pub signature: Option<String>,
    /// The key that verified it; null: none did.
    pub key_id: Option<String>,
    /// SHA-256 of the signing string, hex.
    pub request_hash: Option<String>,
    /// The signed timestamp as sent.
    pub requested_at: Option<String>,
    /// Spool it came through: `flat`, `local` or `agent-<name>`.
    pub spool: String,
    /// Name of its file; a name that is not one is given as `=` and a hash.
    pub file: String,
    /// SHA-256 of the file's bytes, hex; null: they were not read.
    pub file_sha256: Option<String>,
    /// Size of the file in bytes.
    pub file_bytes: Option<u64>,
    /// Lane it was decided in.
    pub lane: Lane,
    /// Where it counts among its sender's messages; none: nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Bucket>,
    /// The payload's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_type: Option<String>,
    /// Strategy of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// Symbol of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Side of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<String>,
    /// Size of an order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Amount>,
    /// The payload's text, as a string: what agents write never looks like a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// What is sealed: members of the payload, in whose places it holds `{"_sd": digest}`, the hashes of what was signed, and
    /// the file's bytes of a request that is held. Where there are any, `payload_hash` and `request_hash` are those of the
    /// payload as it stands here, and signature and file hash are null.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sealed: Vec<Field>,
    /// The full check vector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckRow>,
    /// The ruling over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Ruling>,
    /// The order it is about, or that it made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order_id: Option<OrderId>,
    /// What would pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headroom: Option<Headroom>,
    /// The answer's body, where it does not follow from the check vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_blob: Option<String>,
    /// The receipt of admission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Box<Receipt>>,
    /// The exact reason.
    pub metadata: Metadata,
    /// Where the answer is, below the spool.
    pub answer: String,
    /// Where bytes that are no request are kept, below the spool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
    /// The hold that it ends: this is the final answer to a request that was held, decided again or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldId>,
    /// What its rules read: values by the names of fields. Texts of numbers, names and texts, `true` and `false`, lists
    /// of these, null where the request leaves the field out, `{"unknown": why}`, and `{"sha256", "bytes"}` of a long
    /// text. Absent: no rules were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Box<RawValue>>,
    /// Their digest instead, where they are larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts_blob: Option<String>,
    /// Hash of the rulebook it was decided under.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// Why a case was decided when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    /// Every seat that could still be filled was.
    Seats,
    /// Its deadline had passed.
    Deadline,
}

/// The council's decision on a case, with all that it rests on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseDecision {
    /// The gate's clock.
    pub timestamp: Time,
    /// The case.
    pub request_id: RequestId,
    /// Payload hash of its request.
    pub request_sha256: String,
    /// Line of its request.
    pub request_line: u64,
    /// Lines of the verdicts that counted, oldest first.
    pub verdict_lines: Vec<u64>,
    /// Why now.
    pub closed_by: ClosedBy,
    /// The outcome.
    pub outcome: Stance,
    /// The contract's object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_blob: Option<String>,
    /// Rules, seats, dissent and computed evidence behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record_blob: Option<String>,
    /// Where the decision is, below the spool.
    pub answer: String,
    /// Hash of the rulebook it was decided under.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// What came back from outside about a council case: the answer of a role's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The gate's clock.
    pub timestamp: Time,
    /// The case.
    pub request_id: RequestId,
    /// The role whose command it was.
    pub role: String,
    /// How the command ended, and what is wrong with its output.
    pub note: String,
    /// The RoleVerdict it wrote, as text; none: the seat stays empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// Hash of the rulebook that named the command.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// What admission asked a command about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AskedFor {
    /// The policy of a domain.
    Policy {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// SHA-256 of the policy file that named the command, hex.
        policy: String,
    },
    /// The lineage of the task that one request asks for. The next decision over the same request and file rests on it.
    Lineage {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// Who signed.
        source: Principal,
        /// Id of the request.
        request_id: RequestId,
        /// SHA-256 of its file's bytes, hex.
        file_sha256: String,
    },
}

/// What came back from outside for admission. Like that of a role it is a line of kind `input`, and `about` tells them
/// apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmissionInput {
    /// The gate's clock.
    pub timestamp: Time,
    /// What was asked.
    pub about: AskedFor,
    /// How the command ended, and what is wrong with its output.
    pub note: String,
    /// What it wrote, as text; none: it was of no use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_blob: Option<String>,
    /// Hash of the rulebook in force.
    pub rulebook: String,
    /// What it does to the state: a policy is kept, lineage does nothing.
    pub changes: Vec<Change>,
}

/// What came of an outgoing action.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The gate's clock.
    pub timestamp: Time,
    /// Id of this entry: its own seq.
    pub id: String,
    /// Id of the request.
    pub request_id: String,
    /// Its action.
    pub action: String,
    /// Who signed it.
    pub source: String,
    /// Always `response`.
    pub direction: Flow,
    /// `success` or `error`.
    pub status: Status,
    /// SHA-256 of the payload, hex, as its request line has it.
    pub payload_hash: Option<String>,
    /// The signature as its request line has it.
    pub signature: Option<String>,
    /// Its request line.
    pub request_line: u64,
    /// `stub` or `exec`.
    pub adapter: String,
    /// How the adapter ended, in words.
    pub note: String,
    /// What it complained of, for people: it is not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// What the adapter says came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// Its digest instead, where it is larger than 8 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_blob: Option<String>,
    /// The exact reason.
    pub metadata: Metadata,
    /// Spool the request came through.
    pub spool: String,
    /// Where the answer is, below the spool.
    pub answer: String,
    /// Where else it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// Hash of the rulebook in force.
    pub rulebook: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

impl Response {
    /// The answer this line stands for, byte for byte, given the bytes of `data_blob` if it has one.
    ///
    /// # Errors
    /// A message if a blob is needed and missing or is not JSON.
    pub fn answer(&self, blob: Option<&[u8]>) -> Result<Answer, String> {
        let data = match (&self.data, &self.data_blob) {
            (Some(data), _) => Some(data.clone()),
            (None, Some(digest)) => Some(from_blob(digest, blob)?),
            (None, None) => None,
        };
        Ok(Answer {
            request_id: self.request_id.clone(),
            timestamp: self.timestamp,
            status: if self.status == Status::Success { AnswerStatus::Success } else { AnswerStatus::Error },
            data,
            error: self.metadata.answered(),
            audit_ref: self.id.clone(),
        })
    }

    /// Every place below the spool that the answer goes to.
    pub fn answers(&self) -> impl Iterator<Item = &str> {
        [self.answer.as_str()].into_iter().chain(self.also.iter().map(String::as_str))
    }
}

/// The JSON in a blob.
fn from_blob(digest: &str, blob: Option<&[u8]>) -> Result<Box<RawValue>, String> {
    let bytes = blob.ok_or_else(|| format!("audit/blobs/{digest} is missing"))?;
    let text = std::str::from_utf8(bytes).map_err(|_| format!("audit/blobs/{digest} is not UTF-8"))?;
    let raw = RawValue::from_string(text.to_owned());
    raw.map_err(|error| format!("audit/blobs/{digest} is not JSON: {error}"))
}

/// Disclosures of a line's sealed fields that are deleted from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    /// The gate's clock.
    pub timestamp: Time,
    /// Who did it, as the gate's machine knows them.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The line.
    pub line: u64,
    /// What of it.
    pub fields: Vec<Field>,
}

/// The contract's answer to an order request, externally tagged.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) enum OrderAnswer<'a> {
    /// The order is open, or has filled.
    Accepted {
        /// Its id.
        order_id: OrderId,
        /// Every check that was made.
        checks_passed: AnsweredRows<'a>,
    },
    /// A check or a rule refused it.
    Rejected(RejectedBody<'a>),
}

/// What did not pass, and what did.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct RejectedBody<'a> {
    /// Checks that did not pass.
    checks_failed: AnsweredRows<'a>,
    /// Those that did.
    checks_passed: AnsweredRows<'a>,
    /// What would pass; null where that is nothing that has a size. Absent of outgoing actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<Option<&'a Headroom>>,
}

/// The answer's body of what is to come again, as its line has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Retry {
    retry_after_ms: u64,
}

/// The answer to an outgoing action that is to come again.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct LimitedAnswer<'a> {
    /// How long to wait before the same is sent again, milliseconds.
    #[serde(rename = "retryAfterMs")]
    retry_after_ms: u64,
    /// What did not pass.
    #[serde(rename = "Rejected")]
    rejected: RejectedBody<'a>,
}

/// The interim answer to a held request.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) enum HeldAnswer<'a> {
    /// It waits for a person.
    Held {
        /// Its name, as `h-12`.
        hold_id: HoldId,
        /// SHA-256 of its signing string, hex: what is approved.
        request_sha256: &'a str,
        /// Rules that hold it.
        rules: &'a [RuleId],
        /// What is out of the ordinary.
        #[serde(skip_serializing_if = "<[Anomaly]>::is_empty")]
        anomalies: &'a [Anomaly],
        /// Until when it may be approved.
        expires_at: Time,
        /// Checks that did not pass.
        checks_failed: AnsweredRows<'a>,
        /// Those that did.
        checks_passed: AnsweredRows<'a>,
    },
}

/// The answer to what admission alone decided.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct AdmissionAnswer<'a> {
    /// Allow or deny.
    decision: Verdict,
    /// The receipt.
    receipt: &'a Receipt,
    /// Every check that was made.
    checks: Vec<AnsweredRow<'a>>,
}

/// Bytes that most decision lines of orders fit into.
const BODY_BYTES_USUAL: usize = 6 * 1024;

impl Decision {
    /// The line's `kind`: `request` of what is about to be done outside.
    pub fn kind(&self) -> &'static str {
        if self.status == Status::Pending { "request" } else { "decision" }
    }

    /// The line's body as a JSON object.
    ///
    /// # Errors
    /// The serialiser's message.
    pub fn body(&self) -> Result<String, String> {
        let mut body = Vec::with_capacity(BODY_BYTES_USUAL);
        serde_json::to_writer(&mut body, self).map_err(|error| error.to_string())?;
        String::from_utf8(body).map_err(|error| error.to_string())
    }

    /// The answer this line stands for, byte for byte, given the bytes of `data_blob` if it has one.
    /// For a replay this is not what was answered: that is the answer of line `replay_of`.
    ///
    /// # Errors
    /// A message if a blob is needed and missing or is not JSON.
    pub fn answer(&self, blob: Option<&[u8]>) -> Result<Answer, String> {
        let data = match (&self.data, &self.data_blob, self.decision) {
            _ if self.status == Status::Pending => {
                return Err(format!("line {}: what came of it stands in its response", self.id));
            }
            _ if self.status == Status::Held => self.held_answer()?,
            (None, None, _) if self.is_about_admission() => self.admission_answer()?,
            (Some(data), _, Some(_)) if self.status == Status::RateLimited => {
                Some(self.limited_answer(data)?)
            }
            (Some(data), _, _) => Some(data.clone()),
            (None, Some(digest), _) => Some(from_blob(digest, blob)?),
            (None, None, Some(ruling)) => Some(self.order_answer(ruling)?),
            (None, None, None) => None,
        };
        let error = self.metadata.answered();
        Ok(Answer {
            request_id: self.request_id.clone().unwrap_or_default(),
            timestamp: self.timestamp,
            status: match self.status {
                Status::Success => AnswerStatus::Success,
                Status::RateLimited => AnswerStatus::RateLimited,
                Status::Rejected | Status::Pending | Status::Error => AnswerStatus::Error,
                Status::Held => AnswerStatus::RequiresApproval,
            },
            data,
            error,
            audit_ref: self.id.clone(),
        })
    }

    /// Whether its id is used up: only a good signature uses one up, and neither does an answer that leaves another one
    /// standing, nor one that says to send the same again.
    pub fn uses_up_its_id(&self) -> bool {
        let is_left_over = |code: Code| code.stands_aside() || code.is_for_later();
        self.key_id.is_some() && !self.metadata.code.is_some_and(is_left_over)
    }

    /// Who has shown by it to be there: whoever signed it, but neither by a copy of an earlier request nor by one that
    /// somebody has held back. Exits, cancels and tightens are carried out a day late; that late nobody is there.
    pub fn is_sign_of_life_of(&self) -> Option<&str> {
        let is_late = || {
            let signed = self.requested_at.as_deref().and_then(|text| Time::parse(text).ok());
            signed.is_none_or(|signed| self.timestamp.since_ms(signed).saturating_abs() > LIFE_AGE_MAX_MS)
        };
        let is_fresh = self.metadata.replay_of.is_none()
            && self.metadata.code != Some(Code::TimestampStale)
            && self.hold.is_none()
            && (self.lane != Lane::Protected || !is_late());
        self.source.as_deref().filter(|_| is_fresh && self.uses_up_its_id())
    }

    /// Whether it opened a council case.
    pub fn opens_a_case(&self) -> bool {
        self.did("CouncilRequest")
    }

    /// Whether it opened a council case or filed a verdict in one.
    pub fn is_on_a_case(&self) -> bool {
        self.opens_a_case() || self.did("CouncilVerdict")
    }

    fn did(&self, request_type: &str) -> bool {
        self.status == Status::Success
            && self.metadata.replay_of.is_none()
            && self.request_type.as_deref() == Some(request_type)
    }

    /// Where an ALLOW was forwarded to, below the spool.
    pub fn forwarded_to(&self) -> Option<&str> {
        self.receipt.as_ref()?.forwarded_to.as_deref()
    }

    /// Whether admission alone decided it.
    fn is_about_admission(&self) -> bool {
        matches!(self.request_type.as_deref(), Some("Admission" | "AdmissionCheck"))
            || self.metadata.code == Some(Code::AdmissionDenied)
    }

    fn admission_answer(&self) -> Result<Option<Box<RawValue>>, String> {
        let Some(receipt) = self.receipt.as_deref() else { return Ok(None) };
        let checks = self.checks.iter().map(AnsweredRow::from).collect();
        let body = AdmissionAnswer { decision: receipt.decision, receipt, checks };
        serde_json::value::to_raw_value(&body).map(Some).map_err(|error| error.to_string())
    }

    /// What it does about held requests.
    pub fn of_approvals(&self) -> impl Iterator<Item = &approvals::Change> {
        self.changes.iter().filter_map(|change| match change {
            Change::Approvals(change) => Some(change),
            _ => None,
        })
    }

    /// Whether files of rules or proposals, or secrets in force, are what it says: made again after a crash.
    pub fn changes_rules(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Proposal(_) | Change::Services(_)))
    }

    fn held_answer(&self) -> Result<Option<Box<RawValue>>, String> {
        let held = self.of_approvals().find_map(|change| match change {
            approvals::Change::Held(hold) => Some(hold),
            _ => None,
        });
        let Some(hold) = held else { return Err(format!("line {}: held without a hold", self.id)) };
        let rows = |passed: bool| AnsweredRows { rows: &self.checks, passed };
        let body = HeldAnswer::Held {
            hold_id: hold.id,
            request_sha256: &hold.request_sha256,
            rules: &hold.rules,
            anomalies: &hold.anomalies,
            expires_at: hold.expires_at,
            checks_failed: rows(false),
            checks_passed: rows(true),
        };
        serde_json::value::to_raw_value(&body).map(Some).map_err(|error| error.to_string())
    }

    /// What of the check vector stands in the answer to a request that sends nothing out.
    fn rejected(&self) -> RejectedBody<'_> {
        let rows = |passed: bool| AnsweredRows { rows: &self.checks, passed };
        // There is no size of a mail that would pass.
        let has_size = !self.action.as_deref().is_some_and(|action| OUTGOING.contains(&action));
        RejectedBody {
            checks_failed: rows(false),
            checks_passed: rows(true),
            headroom: has_size.then_some(self.headroom.as_ref()),
        }
    }

    fn limited_answer(&self, data: &RawValue) -> Result<Box<RawValue>, String> {
        let retry: Retry = serde_json::from_str(data.get()).map_err(|error| error.to_string())?;
        let body = LimitedAnswer { retry_after_ms: retry.retry_after_ms, rejected: self.rejected() };
        serde_json::value::to_raw_value(&body).map_err(|error| error.to_string())
    }

    fn order_answer(&self, ruling: Ruling) -> Result<Box<RawValue>, String> {
        let rows = |passed: bool| AnsweredRows { rows: &self.checks, passed };
        let body = match (ruling, self.order_id) {
            (Ruling::Accepted, Some(order_id)) => {
                OrderAnswer::Accepted { order_id, checks_passed: rows(true) }
            }
            (Ruling::Accepted, None) => {
                return Err(format!("line {}: accepted without an order id", self.id));
            }
            (Ruling::Rejected, _) => OrderAnswer::Rejected(self.rejected()),
        };
        serde_json::value::to_raw_value(&body).map_err(|error| error.to_string())
    }
}

/// Body of an `admin` line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// The gate's clock.
    pub timestamp: Time,
    /// The person.
    pub by: Principal,
    /// Why, in the person's words.
    pub reason: String,
    /// What was done.
    pub note: String,
    /// What it does to the state.
    pub changes: Vec<Change>,
}

/// Any line but the ledger's own (`segment`, `seal`).
#[derive(Clone, Debug)]
pub enum Record {
    /// `genesis`.
    Genesis(Genesis),
    /// `start`: a watcher or drain began.
    Start(Event),
    /// `stop`: it ended in order.
    Stop(Event),
    /// `rulebook`: one came into force, or the files cannot be used.
    Rulebook(Event),
    /// `tick`: a new day.
    Tick(Event),
    /// `halt`: the halt file appeared or went.
    Halt(Event),
    /// `clock_step`.
    ClockStep(Event),
    /// `dead_man`: an agent is not heard of.
    DeadMan(Event),
    /// `quota`: files of a spool wait over its quota, or no longer.
    Quota(Event),
    /// `proposal`: one was approved by a signature.
    Proposal(Event),
    /// `rotate`: the log's own keys were handed over.
    Rotate(Rotation),
    /// `admin`: what a person did to the ledger's folder, under the lock.
    Admin(Admin),
    /// `published`.
    Published(Published),
    /// `market`.
    Market(MarketRows),
    /// `input`: what a role's command answered.
    Input(Input),
    /// `input` too: what a command answered to admission.
    AdmissionInput(Box<AdmissionInput>),
    /// `council`: the decision on a case.
    Council(Box<CaseDecision>),
    /// `decision`.
    Decision(Box<Decision>),
    /// `response`: what came of an outgoing action.
    Response(Box<Response>),
    /// `redact`.
    Redact(Redaction),
}

impl Record {
    /// The line's `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Record::Genesis(_) => "genesis",
            Record::Start(_) => "start",
            Record::Stop(_) => "stop",
            Record::Rulebook(_) => "rulebook",
            Record::Tick(_) => "tick",
            Record::Halt(_) => "halt",
            Record::ClockStep(_) => "clock_step",
            Record::DeadMan(_) => "dead_man",
            Record::Quota(_) => "quota",
            Record::Proposal(_) => "proposal",
            Record::Rotate(_) => "rotate",
            Record::Admin(_) => "admin",
            Record::Published(_) => "published",
            Record::Market(_) => "market",
            Record::Input(_) | Record::AdmissionInput(_) => "input",
            Record::Council(_) => "council",
            Record::Decision(decision) => decision.kind(),
            Record::Response(_) => "response",
            Record::Redact(_) => "redact",
        }
    }

    /// Whether it gives instructions to a bridge.
    pub fn instructs(&self) -> bool {
        super::outbox::instructs(self.changes())
    }

    /// What it says was given up by accepting rollbacks.
    pub fn given_up(&self) -> impl Iterator<Item = &GivenUp> {
        self.changes().iter().filter_map(|change| match change {
            Change::HeadsGivenUp(given_up) => Some(given_up),
            _ => None,
        })
    }

    /// Whether the index remembers where the line stands: every line that says something. Answers, cases, instructions and
    /// rules are made again from it, and people look for it.
    pub fn is_indexed(&self) -> bool {
        !matches!(self, Record::Published(_))
    }

    /// The line's body as a JSON object.
    ///
    /// # Errors
    /// The serialiser's message.
    pub fn body(&self) -> Result<String, String> {
        match self {
            Record::Genesis(body) => serde_json::to_string(body),
            Record::Start(body)
            | Record::Stop(body)
            | Record::Rulebook(body)
            | Record::Tick(body)
            | Record::Halt(body)
            | Record::ClockStep(body)
            | Record::DeadMan(body)
            | Record::Quota(body)
            | Record::Proposal(body) => serde_json::to_string(body),
            Record::Rotate(body) => serde_json::to_string(body),
            Record::Admin(body) => serde_json::to_string(body),
            Record::Published(body) => serde_json::to_string(body),
            Record::Market(body) => serde_json::to_string(body),
            Record::Input(body) => serde_json::to_string(body),
            Record::AdmissionInput(body) => serde_json::to_string(body),
            Record::Council(body) => serde_json::to_string(body),
            Record::Redact(body) => serde_json::to_string(body),
            Record::Response(body) => serde_json::to_string(body),
            Record::Decision(body) => return body.body(),
        }
        .map_err(|error| error.to_string())
    }

    /// Reads a body back; none for the ledger's own kinds.
    ///
    /// # Errors
    /// What is wrong with the body, or an unknown kind.
    pub fn parse(kind: &str, body: &str) -> Result<Option<Record>, String> {
        fn read<'a, T: Deserialize<'a>>(body: &'a str) -> Result<T, String> {
            serde_json::from_str(body).map_err(|error| error.to_string())
        }
        Ok(Some(match kind {
            "genesis" => Record::Genesis(read(body)?),
            "start" => Record::Start(read(body)?),
            "stop" => Record::Stop(read(body)?),
            "rulebook" => Record::Rulebook(read(body)?),
            "tick" => Record::Tick(read(body)?),
            "halt" => Record::Halt(read(body)?),
            "clock_step" => Record::ClockStep(read(body)?),
            "dead_man" => Record::DeadMan(read(body)?),
            "quota" => Record::Quota(read(body)?),
            "proposal" => Record::Proposal(read(body)?),
            "rotate" => Record::Rotate(read(body)?),
            "admin" => Record::Admin(read(body)?),
            "published" => Record::Published(read(body)?),
            "market" => Record::Market(read(body)?),
            "input" => match read(body) {
                Ok(input) => Record::Input(input),
                Err(why) => Record::AdmissionInput(
                    read(body).map_err(|other| format!("{why}; as an input of admission: {other}"))?,
                ),
            },
            "council" => Record::Council(Box::new(read(body)?)),
            "decision" | "request" => {
                let decision: Decision = read(body)?;
                if (decision.status == Status::Pending) != (kind == "request") {
                    return Err("a request line is pending, and no decision is".to_owned());
                }
                Record::Decision(Box::new(decision))
            }
            "response" => Record::Response(Box::new(read(body)?)),
            "redact" => Record::Redact(read(body)?),
            "seal" | "segment" => return Ok(None),
            other => return Err(format!("unknown kind `{other}`")),
        }))
    }

    /// The gate's clock when it was written.
    pub fn timestamp(&self) -> Time {
        match self {
            Record::Genesis(body) => body.timestamp,
            Record::Start(body)
            | Record::Stop(body)
            | Record::Rulebook(body)
            | Record::Tick(body)
            | Record::Halt(body)
            | Record::ClockStep(body)
            | Record::DeadMan(body)
            | Record::Quota(body)
            | Record::Proposal(body) => body.timestamp,
            Record::Rotate(body) => body.timestamp,
            Record::Admin(body) => body.timestamp,
            Record::Published(body) => body.timestamp,
            Record::Market(body) => body.timestamp,
            Record::Input(body) => body.timestamp,
            Record::AdmissionInput(body) => body.timestamp,
            Record::Council(body) => body.timestamp,
            Record::Decision(body) => body.timestamp,
            Record::Response(body) => body.timestamp,
            Record::Redact(body) => body.timestamp,
        }
    }

    /// What it does to the state.
    pub fn changes(&self) -> &[Change] {
        match self {
            Record::Genesis(body) => &body.changes,
            Record::Start(body)
            | Record::Stop(body)
            | Record::Rulebook(body)
            | Record::Tick(body)
            | Record::Halt(body)
            | Record::ClockStep(body)
            | Record::DeadMan(body)
            | Record::Quota(body)
            | Record::Proposal(body) => &body.changes,
            Record::Rotate(_) | Record::Published(_) | Record::Redact(_) => &[],
            Record::Admin(body) => &body.changes,
            Record::Market(body) => &body.changes,
            Record::Input(body) => &body.changes,
            Record::AdmissionInput(body) => &body.changes,
            Record::Council(body) => &body.changes,
            Record::Decision(body) => &body.changes,
            Record::Response(body) => &body.changes,
        }
    }
}
