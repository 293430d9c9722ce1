//! `limits.override`, `limits.end`: for a while a person sets another value of a limit.

use super::prelude::*;
use crate::enforced;
use spoolgate_rules::overrides::{AHEAD_MAX_MS, Override, TIMES_MAX, most};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::limits::{EndOverride, LimitName, OverrideLimit};
use spoolgate_wire::time::Time;

/// Overrides a limit.
pub struct LimitsOverride;

/// Ends an override.
pub struct LimitsEnd;

/// The answers.
#[derive(Serialize, JsonSchema)]
pub enum Overridden {
    /// The answer to `limits.override`.
    LimitOverridden {
        /// The limit.
        limit: LimitName,
        /// Its value in force.
        value: Amount,
        /// Its value in `rules/safety.yaml`.
        in_file: Amount,
        /// When that applies again.
        until: Time,
    },
}

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Ended {
    /// The answer to `limits.end`.
    OverrideEnded {
        /// The limit.
        limit: LimitName,
        /// Its value in `rules/safety.yaml`, which applies again.
        value: Amount,
    },
}

impl Action for LimitsOverride {
    type Payload = OverrideLimit;
    type Answer = Overridden;
    const ABOUT: &'static str = "Sets another value of a limit for at most 24 h: at most twice the \
        value in `rules/safety.yaml`. Working entries beyond a smaller value are pulled.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, CALENDAR, BYTES];
    const ROW: Row = Row::new(
        ActionName::LimitsOverride,
        "OverrideLimit",
        "limit, value, until, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(set: &OverrideLimit) -> Result<(), PayloadError> {
        if !set.value.is_positive() {
            return Err(PayloadError::Range {
                field: "value",
                found: set.value,
                rule: "it must be above 0",
            });
        }
        check_reason(&set.reason)
    }

    fn execute(turn: &Turn<'_>, by: &Authentic, set: &OverrideLimit) -> Result<Outcome, Refusal> {
        let conflict = |what: String| Err(Refusal::new(Code::StateConflict, what));
        let (name, until, file) = (set.limit.as_str(), set.until, turn.rules.limits_of_file());
        let in_file = file.limit(set.limit);
        let bound = most(in_file).unwrap_or(in_file);
        if set.value > bound {
            return conflict(format!(
                "`value` {} is above {}, which is {TIMES_MAX} times the {in_file} of `{name}` in \
                    rules/safety.yaml",
                set.value,
                bound.normalized()
            ));
        }
        if set.value > in_file {
            enforced::check_loosening(turn.rules, &format!("`{name}` above its {in_file}"))?;
        }
        if let Err(error) = file.clone().set_limit(set.limit, set.value) {
            return conflict(format!("`value` of `{name}` {error}"));
        }
        if until <= turn.now {
            return conflict(format!("`until` {until} has passed"));
        }
        if until.since_ms(turn.now) > AHEAD_MAX_MS {
            let latest = turn.now.plus_ms(AHEAD_MAX_MS);
            return conflict(format!(
                "`until` {until} is more than 24 h ahead; it may be {latest} at most"
            ));
        }
        let change = Change::LimitOverridden {
            limit: set.limit,
            set: Override {
                value: set.value,
                until,
                by: by.envelope.source.clone(),
                at: turn.now,
                line: turn.seq,
                reason: set.reason.clone(),
            },
        };
        Ok(Outcome {
            data: data(&Overridden::LimitOverridden {
                limit: set.limit,
                value: set.value,
                in_file,
                until,
            })?,
            changes: vec![change],
            ..Outcome::default()
        })
    }
}

impl Action for LimitsEnd {
    type Payload = EndOverride;
    type Answer = Ended;
    const ABOUT: &'static str = "Ends that: the value in `rules/safety.yaml` applies again.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row = Row::new(
        ActionName::LimitsEnd,
        "EndOverride",
        "limit, reason?",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(end: &EndOverride) -> Result<(), PayloadError> {
        end.reason.as_deref().map_or(Ok(()), check_reason)
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, end: &EndOverride) -> Result<Outcome, Refusal> {
        let EndOverride { limit, .. } = *end;
        if !turn.state.overrides.contains_key(&limit) {
            let set: Vec<String> = turn
                .state
                .overrides
                .keys()
                .map(|name| format!("`{}`", name.as_str()))
                .collect();
            let set = match set.as_slice() {
                [] => "no limit is".to_owned(),
                set => format!("overridden are: {}", set.join(", ")),
            };
            let what = format!("`{}` is not overridden; {set}", limit.as_str());
            return Err(Refusal::new(Code::NotFound, what));
        }
        let value = turn.rules.limits_of_file().limit(limit);
        Ok(Outcome {
            data: data(&Ended::OverrideEnded { limit, value })?,
            changes: vec![Change::OverrideEnded { limit }],
            ..Outcome::default()
        })
    }
}
