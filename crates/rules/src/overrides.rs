//! Overrides: for a while a person sets another value of a limit of `rules/safety.yaml`.
//!
//! A rulebook is derived from its files and from the overrides that are in force, in one place, so
//! that whatever reads a limit reads the value in force.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bounds::OutOfBounds;
use super::rulebook::Rulebook;
use super::safety::Safety;
use crate::approval::Enforce;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::{DAY_MS, Time};

/// How many times the value of the file an override may be.
pub const TIMES_MAX: i64 = 2;

/// How far ahead an override may end, milliseconds.
pub const AHEAD_MAX_MS: i64 = DAY_MS;

/// A limit's value for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The value, in the unit of the limit.
    pub value: Amount,
    /// When it ends.
    pub until: Time,
    /// Who set it.
    pub by: Principal,
    /// When it was set.
    pub at: Time,
    /// The ledger line that set it.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

impl Override {
    /// Whether it is over: its end has come, or it lies further ahead than any override may, because
    /// a person accepted a clock that was set back.
    pub fn is_over(&self, now: Time) -> bool {
        now >= self.until || self.until.since_ms(now) > AHEAD_MAX_MS
    }
}

/// The overrides in force, by limit.
pub type Overrides = BTreeMap<LimitName, Override>;

/// Returns the most that an override of a limit may be, where the file has this value. `None` if it
/// is not exact.
pub fn most(written: Amount) -> Option<Amount> {
    written.checked_mul(Amount::from_i64(TIMES_MAX))
}

impl Safety {
    /// Returns the value of a limit.
    pub fn limit(&self, name: LimitName) -> Amount {
        match name {
            LimitName::SinglePosition => *self.max_single_position,
            LimitName::SingleTradeRisk => *self.max_single_trade_risk,
            LimitName::TotalExposure => *self.max_total_exposure,
            LimitName::SameDirectionExposure => self.same_direction(),
            LimitName::CorrelatedGroup => self.correlated_group(),
            LimitName::PortfolioRisk => *self.max_portfolio_risk,
            LimitName::DailyLoss => *self.max_daily_loss,
            LimitName::WeeklyLoss => *self.max_weekly_loss,
            LimitName::DailyTurnover => *self.max_daily_turnover,
        }
    }

    /// Sets the value of a limit.
    ///
    /// # Errors
    /// Returns [`OutOfBounds`] if no file may have this value.
    pub fn set_limit(&mut self, name: LimitName, value: Amount) -> Result<(), OutOfBounds> {
        match name {
            LimitName::SinglePosition => self.max_single_position = value.try_into()?,
            LimitName::SingleTradeRisk => self.max_single_trade_risk = value.try_into()?,
            LimitName::TotalExposure => self.max_total_exposure = value.try_into()?,
            LimitName::SameDirectionExposure => {
                self.max_same_direction_exposure = Some(value.try_into()?);
            }
            LimitName::CorrelatedGroup => self.max_correlated_group = Some(value.try_into()?),
            LimitName::PortfolioRisk => self.max_portfolio_risk = value.try_into()?,
            LimitName::DailyLoss => self.max_daily_loss = value.try_into()?,
            LimitName::WeeklyLoss => self.max_weekly_loss = value.try_into()?,
            LimitName::DailyTurnover => self.max_daily_turnover = value.try_into()?,
        }
        Ok(())
    }

    /// Returns the limits with these overrides, each cut to what it may be at most.
    /// Where approvals of changed files are enforced, that is the value of the file.
    fn under(&self, overrides: &Overrides, is_enforced: bool) -> Safety {
        let mut safety = self.clone();
        for (name, set) in overrides {
            let written = self.limit(*name);
            let most = most(written).filter(|_| !is_enforced).unwrap_or(written);
            // A value that no file may have was refused when it was to be set.
            let _ = safety.set_limit(*name, set.value.min(most));
        }
        safety
    }
}

impl Rulebook {
    /// The limits as the file has them.
    pub fn limits_of_file(&self) -> &Safety {
        self.written.as_deref().unwrap_or(&self.safety)
    }

    /// Returns the rulebook with its limits under exactly these overrides. Where they are so
    /// already, it costs a comparison.
    pub fn under(&self, overrides: &Overrides) -> Cow<'_, Rulebook> {
        if self.overrides == *overrides {
            return Cow::Borrowed(self);
        }
        let mut book = self.clone();
        book.put_under(overrides);
        Cow::Owned(book)
    }

    /// Puts the limits under exactly these overrides.
    pub fn put_under(&mut self, overrides: &Overrides) {
        if self.overrides == *overrides {
            return;
        }
        let written = self.written.take();
        let written = written.map_or_else(|| self.safety.clone(), |written| *written);
        let is_enforced = self.approval.enforce == Enforce::Gate;
        self.safety = written.under(overrides, is_enforced);
        self.written = (!overrides.is_empty()).then(|| Box::new(written));
        self.overrides = overrides.clone();
    }

    /// Returns where the value of a limit in force comes from, in risk mode `reduced` or not.
    pub fn source(&self, name: LimitName, is_reduced: bool) -> Cow<'static, str> {
        // Without a value of its own the limit is that of everything.
        let written = self.limits_of_file();
        let name = match name {
            LimitName::SameDirectionExposure
                if written.max_same_direction_exposure.is_none()
                    && !self.overrides.contains_key(&name) =>
            {
                LimitName::TotalExposure
            }
            LimitName::CorrelatedGroup
                if written.max_correlated_group.is_none()
                    && !self.overrides.contains_key(&name) =>
            {
                LimitName::TotalExposure
            }
            name => name,
        };
        let Some(set) = self.overrides.get(&name) else {
            return Cow::Borrowed(if is_reduced {
                "safety.yaml (reduced)"
            } else {
                "safety.yaml"
            });
        };
        let reduced = if is_reduced { "reduced, " } else { "" };
        let (until, line) = (set.until.clock(), set.line);
        format!("safety.yaml ({reduced}override until {until}, line {line})").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bundle;

    const ALL: [&str; 9] = [
        "max_single_position",
        "max_single_trade_risk",
        "max_total_exposure",
        "max_same_direction_exposure",
        "max_correlated_group",
        "max_portfolio_risk",
        "max_daily_loss",
        "max_weekly_loss",
        "max_daily_turnover",
    ];

    fn rules() -> Rulebook {
        let files = [
            (
                "rules/safety.yaml",
                include_str!("../../../rules/safety.yaml"),
            ),
            (
                "rules/instruments.yaml",
                include_str!("../../../rules/instruments.yaml"),
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .unwrap()
    }

    fn a(text: &str) -> Amount {
        Amount::parse_exact(text).unwrap()
    }

    fn set(value: &str) -> Override {
        Override {
            value: a(value),
            until: Time::parse("2026-02-21T14:00:00Z").unwrap(),
            by: Principal::parse("operator").unwrap(),
            at: Time::parse("2026-02-21T12:00:00Z").unwrap(),
            line: 91,
            reason: "a test".to_owned(),
        }
    }

    fn of(name: LimitName, value: &str) -> Overrides {
        [(name, set(value))].into()
    }

    #[test]
    fn every_limit_that_can_be_overridden_is_read_and_set() {
        let text = include_str!("../../../rules/safety.yaml");
        assert_eq!(LimitName::ALL.map(LimitName::as_str), ALL);
        for name in LimitName::ALL {
            let own = format!("\n{}: ", name.as_str());
            let written = text.split(&own).nth(1).unwrap().split_whitespace().next();
            let book = rules();
            assert_eq!(book.safety.limit(name), a(written.unwrap()), "{name:?}");
            let under = book.under(&of(name, "0.0123"));
            assert_eq!(under.safety.limit(name), a("0.0123"), "{name:?}");
            assert_eq!(under.limits_of_file(), &book.safety);
            for other in LimitName::ALL.into_iter().filter(|other| *other != name) {
                let (one, same) = (under.safety.limit(other), book.safety.limit(other));
                assert_eq!(one, same, "{name:?} leaves {other:?}");
            }
        }
    }

    #[test]
    fn an_override_is_cut_to_twice_what_the_file_has_and_leaves_no_trace() {
        let mut book = rules();
        let plain = book.clone();
        // The file has 0.05.
        for (value, in_force) in [
            ("0.01", "0.01"),
            ("0.0999999999", "0.0999999999"),
            ("0.1", "0.1"),
            ("0.1000000001", "0.1"),
            ("3", "0.1"),
        ] {
            let overrides = of(LimitName::SinglePosition, value);
            book.put_under(&overrides);
            assert_eq!(*book.safety.max_single_position, a(in_force), "{value}");
            assert_eq!(book.under(&overrides).as_ref(), &book);
            // From one set of overrides straight to another, and back.
            let other = of(LimitName::DailyLoss, "300");
            let both = book.under(&other).into_owned();
            assert_eq!(*both.safety.max_single_position, a("0.05"));
            assert_eq!(*both.safety.max_daily_loss, a("300"));
            assert_eq!(both.under(&Overrides::new()).as_ref(), &plain);
        }
        book.put_under(&Overrides::new());
        assert_eq!(book, plain);
        assert!(matches!(book.under(&Overrides::new()), Cow::Borrowed(_)));
        // What no file may have changes nothing.
        let mut book = rules();
        book.safety.max_single_position = a("0.9").try_into().unwrap();
        book.put_under(&of(LimitName::SinglePosition, "1.5"));
        assert_eq!(*book.safety.max_single_position, a("0.9"));
    }

    #[test]
    fn a_source_names_the_override_also_where_a_limit_is_that_of_everything() {
        let book = rules();
        let total = LimitName::TotalExposure;
        assert_eq!(book.source(total, false), "safety.yaml");
        assert_eq!(book.source(total, true), "safety.yaml (reduced)");
        let mut under = book.under(&of(total, "0.6")).into_owned();
        let told = "safety.yaml (override until 14:00, line 91)";
        assert_eq!(under.source(total, false), told);
        let reduced = "safety.yaml (reduced, override until 14:00, line 91)";
        assert_eq!(under.source(total, true), reduced);
        for name in [LimitName::SameDirectionExposure, LimitName::CorrelatedGroup] {
            assert_eq!(under.source(name, false), "safety.yaml", "it has its own");
        }
        let mut bare = book.clone();
        bare.safety.max_same_direction_exposure = None;
        bare.safety.max_correlated_group = None;
        bare.put_under(&of(total, "0.6"));
        for name in [LimitName::SameDirectionExposure, LimitName::CorrelatedGroup] {
            assert_eq!(bare.source(name, false), told);
            assert_eq!(bare.safety.limit(name), a("0.6"));
        }
        let mut odd = set("0.6");
        odd.until = Time::parse("2026-02-21T14:00:05.25Z").unwrap();
        under.put_under(&[(total, odd)].into());
        let told = "safety.yaml (override until 14:00:05, line 91)";
        assert_eq!(under.source(total, false), told);
    }

    #[test]
    fn an_override_is_over_at_its_end_and_when_the_clock_went_back() {
        let set = set("0.06");
        let at = |ms: i64| set.until.plus_ms(ms);
        for (now, is_over) in [
            (at(-1), false),
            (at(0), true),
            (at(1), true),
            (at(-AHEAD_MAX_MS), false),
            (at(-AHEAD_MAX_MS - 1), true),
        ] {
            assert_eq!(set.is_over(now), is_over, "{now}");
        }
    }
}
