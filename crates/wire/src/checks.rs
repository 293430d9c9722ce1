//! Rows of check vectors: as checks make them and ledger lines have them, and as they are answered.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::amount::Amount;

/// One row of a check vector, as checks make it and a ledger line has it. Nearly all of its texts
/// are constants of the program, so that a row of a new decision allocates nothing.
///
/// The constructors leave the name empty: a check need not know under which name it is listed.
/// [`CheckRow::named`] adds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRow {
    /// Name of the check, such as `max_single_position`.
    pub name: Cow<'static, str>,
    /// Whether it passed. A check that could not be computed did not pass.
    pub passed: bool,
    /// The computed value; null if it could not be computed.
    pub value: Option<Amount>,
    /// The limit that the value was compared with; null if there is none.
    pub limit: Option<Amount>,
    /// Source of the limit, such as `safety.yaml`.
    pub source: Cow<'static, str>,
    /// Unit of value and limit: `usd`, `fraction`, `ms`, `bool`, `price`, `size`, `count`.
    pub unit: Cow<'static, str>,
    /// Why the check failed or could not be computed; or what an exempt check would have reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Whether the value has come near the limit, which refuses nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub warning: bool,
    /// The failed check whose cause left this one without an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows_from: Option<Cow<'static, str>>,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl CheckRow {
    /// Creates a yes-or-no row: value 1 or 0, limit 1. `fault` is the reason for a no.
    pub fn yes_no(fault: Option<String>, source: impl Into<Cow<'static, str>>) -> CheckRow {
        let value = if fault.is_none() {
            Amount::ONE
        } else {
            Amount::ZERO
        };
        CheckRow::compared(value, Amount::ONE, "bool", source).unless_fault(fault)
    }

    /// Creates a row for a computed comparison, passed so far.
    pub fn compared(
        value: Amount,
        limit: Amount,
        unit: &'static str,
        source: impl Into<Cow<'static, str>>,
    ) -> CheckRow {
        CheckRow::measured(Some(value), Some(limit), unit, source)
    }

    /// Creates a row for a comparison whose sides may be unknown, passed so far.
    pub fn measured(
        value: Option<Amount>,
        limit: Option<Amount>,
        unit: &'static str,
        source: impl Into<Cow<'static, str>>,
    ) -> CheckRow {
        CheckRow {
            name: Cow::Borrowed(""),
            passed: true,
            value,
            limit,
            source: source.into(),
            unit: Cow::Borrowed(unit),
            reason: None,
            warning: false,
            follows_from: None,
        }
    }

    /// Creates a row for a value that could not be computed, which is a failure.
    pub fn unknown(
        unit: &'static str,
        source: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> CheckRow {
        CheckRow::measured(None, None, unit, source).unless_fault(Some(reason))
    }

    /// Whether it failed by itself, and not because another check did.
    pub fn is_root(&self) -> bool {
        !self.passed && self.follows_from.is_none()
    }

    /// Returns the row under this name.
    #[must_use]
    pub fn named(self, name: &'static str) -> CheckRow {
        CheckRow {
            name: Cow::Borrowed(name),
            ..self
        }
    }

    /// Returns the row, failed with this reason unless `passed`.
    #[must_use]
    pub fn unless<Reason: Into<Cow<'static, str>>>(
        self,
        passed: bool,
        reason: impl FnOnce() -> Reason,
    ) -> CheckRow {
        self.unless_fault((!passed).then(reason))
    }

    /// Returns the row, failed if there is a fault, which is the reason.
    #[must_use]
    pub fn unless_fault(mut self, fault: Option<impl Into<Cow<'static, str>>>) -> CheckRow {
        if let Some(fault) = fault {
            self.passed = false;
            self.reason = Some(fault.into());
        }
        self
    }

    /// Returns the row with a warning if it passed and its value is at least `warn_at` of its limit. A
    /// limit below 0, as of profit, is reached from above.
    #[must_use]
    pub fn warned(mut self, warn_at: Amount) -> CheckRow {
        self.warning = self.passed && is_near(self.value, self.limit, warn_at);
        self
    }

    /// Returns the row with a remark that leaves its outcome as it is.
    #[must_use]
    pub fn remarked(self, remark: impl Into<Cow<'static, str>>) -> CheckRow {
        CheckRow {
            reason: Some(remark.into()),
            ..self
        }
    }

    /// Returns the row; if it failed, it passes nevertheless, and its reason begins with `why`.
    #[must_use]
    pub fn lifted(mut self, why: &str) -> CheckRow {
        if !self.passed {
            self.passed = true;
            self.reason = self.reason.map(|reason| format!("{why}: {reason}").into());
        }
        self
    }
}

/// Whether a value is at least `warn_at` of its limit, both below 0 or the limit above 0.
pub fn is_near(value: Option<Amount>, limit: Option<Amount>, warn_at: Amount) -> bool {
    let (Some(value), Some(limit)) = (value, limit) else {
        return false;
    };
    let (value, limit) = if limit.is_negative() {
        (-value, -limit)
    } else {
        (value, limit)
    };
    let from = limit.checked_mul(warn_at);
    limit.is_positive() && from.is_some_and(|from| value >= from)
}

/// A row of the check vector.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnsweredRow<'a> {
    /// Name of the check.
    pub check_name: Cow<'a, str>,
    /// Whether it passed. A check that could not be computed has not.
    pub passed: bool,
    /// The computed value, in `unit`; null where it could not be computed.
    pub value: Option<Amount>,
    /// The limit it was compared with, in `unit`; null where there is none.
    pub limit: Option<Amount>,
    /// Where the limit comes from, such as `safety.yaml`.
    pub source: Cow<'a, str>,
    /// Unit of value and limit: `usd`, `fraction`, `ms`, `bool`, `price`, `size`, `count`.
    pub unit: Cow<'a, str>,
    /// Why it failed or could not be computed, in words; or what an exempt check would have said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'a, str>>,
    /// Whether the value has come near the limit (`warn_at` of safety.yaml), which refuses nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub warning: bool,
    /// The failed check whose cause left this one without an input: mend that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows_from: Option<Cow<'a, str>>,
}

/// The only conversion of a row. It exists because the contract calls the same member `name` in a
/// ledger line and `check_name` in an answer.
impl<'a> From<&'a CheckRow> for AnsweredRow<'a> {
    fn from(row: &'a CheckRow) -> AnsweredRow<'a> {
        AnsweredRow {
            check_name: Cow::Borrowed(&row.name),
            passed: row.passed,
            value: row.value,
            limit: row.limit,
            source: Cow::Borrowed(&row.source),
            unit: Cow::Borrowed(&row.unit),
            reason: row.reason.as_deref().map(Cow::Borrowed),
            warning: row.warning,
            follows_from: row.follows_from.as_deref().map(Cow::Borrowed),
        }
    }
}
