//! The bodies of answers that follow from a decision line.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::decision::{Decision, Ruling, Status};
use super::error::LineAnswerError;
use crate::approvals;
use spoolgate_admission::Receipt;
use spoolgate_admission::receipt::Verdict;
use spoolgate_outgoing::anomaly::Anomaly;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::approvals::HoldId;
use spoolgate_wire::checks::AnsweredRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, RuleId};
use spoolgate_wire::orders::Headroom;
use spoolgate_wire::time::Time;

/// The contract's answer to an order request, externally tagged.
#[derive(Serialize, schemars::JsonSchema)]
pub enum OrderAnswer<'a> {
    /// The order is open, or has filled.
    Accepted {
        /// Its id.
        order_id: OrderId,
        /// Every check that was made.
        checks_passed: Vec<AnsweredRow<'a>>,
    },
    /// A check or a rule refused it.
    Rejected(RejectedBody<'a>),
}

/// What did not pass, and what did.
#[derive(Serialize, schemars::JsonSchema)]
pub struct RejectedBody<'a> {
    /// Checks that did not pass.
    checks_failed: Vec<AnsweredRow<'a>>,
    /// Those that did.
    checks_passed: Vec<AnsweredRow<'a>>,
    /// What would pass; null if no size would pass. Absent for outgoing actions.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<Option<&'a Headroom>>,
}

/// The body of an answer that asks the sender to try again later, as its line contains it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Retry {
    retry_after_ms: u64,
}

/// The answer to an outgoing action that may be sent again later.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct LimitedAnswer<'a> {
    /// How long to wait before the same is sent again, milliseconds.
    #[serde(rename = "retryAfterMs")]
    retry_after_ms: u64,
    /// What did not pass.
    #[serde(rename = "Rejected")]
    rejected: RejectedBody<'a>,
}

/// The interim answer to a held request.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) enum HeldAnswer<'a> {
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
        checks_failed: Vec<AnsweredRow<'a>>,
        /// Those that did.
        checks_passed: Vec<AnsweredRow<'a>>,
    },
}

/// The answer to what admission alone decided.
#[derive(Serialize, schemars::JsonSchema)]
pub struct AdmissionAnswer<'a> {
    /// Allow or deny.
    decision: Verdict,
    /// The receipt.
    receipt: &'a Receipt,
    /// Every check that was made.
    checks: Vec<AnsweredRow<'a>>,
}

impl Decision {
    /// Rebuilds the answer byte for byte. `blob` holds the bytes of `data_blob`, if the line has
    /// one. A request that was sent again was answered with the answer of line `replay_of` instead.
    ///
    /// # Errors
    /// Returns [`LineAnswerError`] if a blob is needed and missing or is not JSON.
    pub fn answer(&self, blob: Option<&[u8]>) -> Result<Answer, LineAnswerError> {
        let data = match (&self.data, &self.data_blob, self.decision) {
            _ if self.status == Status::Pending => {
                return Err(LineAnswerError::Pending(self.id.clone()));
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
            data: self.metadata.with_repair(data)?,
            removed: None,
            redacted: false,
            error,
            audit_ref: self.id.clone(),
        })
    }

    /// Whether admission alone decided it.
    fn is_about_admission(&self) -> bool {
        matches!(
            self.request_type.as_deref(),
            Some("Admission" | "AdmissionCheck")
        ) || self.metadata.code == Some(Code::AdmissionDenied)
    }

    fn admission_answer(&self) -> Result<Option<Box<RawValue>>, LineAnswerError> {
        let Some(receipt) = self.receipt.as_deref() else {
            return Ok(None);
        };
        let checks = self.checks.iter().map(AnsweredRow::from).collect();
        let body = AdmissionAnswer {
            decision: receipt.decision,
            receipt,
            checks,
        };
        Ok(Some(serde_json::value::to_raw_value(&body)?))
    }

    /// The rows of the check vector that passed, or those that did not.
    fn answered_rows(&self, passed: bool) -> Vec<AnsweredRow<'_>> {
        self.checks
            .iter()
            .filter(|row| row.passed == passed)
            .map(AnsweredRow::from)
            .collect()
    }

    fn held_answer(&self) -> Result<Option<Box<RawValue>>, LineAnswerError> {
        let held = self.of_approvals().find_map(|change| match change {
            approvals::Change::Held(hold) => Some(hold),
            _ => None,
        });
        let Some(hold) = held else {
            return Err(LineAnswerError::NoHold(self.id.clone()));
        };
        let body = HeldAnswer::Held {
            hold_id: hold.id,
            request_sha256: &hold.request_sha256,
            rules: &hold.rules,
            anomalies: &hold.anomalies,
            expires_at: hold.expires_at,
            checks_failed: self.answered_rows(false),
            checks_passed: self.answered_rows(true),
        };
        Ok(Some(serde_json::value::to_raw_value(&body)?))
    }

    /// Returns how long its sender is told to wait, milliseconds; `None` if it is not.
    pub(crate) fn waits_ms(&self) -> Option<u64> {
        let retry = |data: &RawValue| serde_json::from_str::<Retry>(data.get()).ok();
        let data = self
            .data
            .as_deref()
            .filter(|_| self.status == Status::RateLimited);
        data.and_then(retry).map(|retry| retry.retry_after_ms)
    }

    /// The check vector and the headroom, as an answer shows them.
    fn rejected(&self) -> RejectedBody<'_> {
        // An outgoing action has no size, so no headroom either.
        let has_size = !self
            .action
            .as_deref()
            .is_some_and(|action| action.parse().is_ok_and(ActionName::is_outgoing));
        RejectedBody {
            checks_failed: self.answered_rows(false),
            checks_passed: self.answered_rows(true),
            headroom: has_size.then_some(self.headroom.as_ref()),
        }
    }

    fn limited_answer(&self, data: &RawValue) -> Result<Box<RawValue>, LineAnswerError> {
        let retry: Retry = serde_json::from_str(data.get())?;
        let body = LimitedAnswer {
            retry_after_ms: retry.retry_after_ms,
            rejected: self.rejected(),
        };
        Ok(serde_json::value::to_raw_value(&body)?)
    }

    fn order_answer(&self, ruling: Ruling) -> Result<Box<RawValue>, LineAnswerError> {
        let body = match (ruling, self.order_id) {
            (Ruling::Accepted, Some(order_id)) => OrderAnswer::Accepted {
                order_id,
                checks_passed: self.answered_rows(true),
            },
            (Ruling::Accepted, None) => {
                return Err(LineAnswerError::NoOrder(self.id.clone()));
            }
            (Ruling::Rejected, _) => OrderAnswer::Rejected(self.rejected()),
        };
        Ok(serde_json::value::to_raw_value(&body)?)
    }
}

/// The JSON in a blob.
pub(super) fn from_blob(
    digest: &str,
    blob: Option<&[u8]>,
) -> Result<Box<RawValue>, LineAnswerError> {
    let digest = || digest.to_owned();
    let bytes = blob.ok_or_else(|| LineAnswerError::BlobMissing(digest()))?;
    let text = std::str::from_utf8(bytes).map_err(|_| LineAnswerError::BlobNotText(digest()))?;
    let raw = RawValue::from_string(text.to_owned());
    raw.map_err(|error| LineAnswerError::BlobNotJson {
        digest: digest(),
        error,
    })
}
