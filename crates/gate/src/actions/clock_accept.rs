//! `clock.accept`.

use super::prelude::*;
use spoolgate_wire::admin::AcceptClock;

/// Accepts a step of the clock after a person has checked it.
pub struct ClockAccept;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `clock.accept`.
    ClockAccepted {},
}

impl Action for ClockAccept {
    type Payload = AcceptClock;
    type Answer = Answer;
    const ABOUT: &'static str = "Accepts a step of the clock.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row =
        Row::new(ActionName::ClockAccept, "AcceptClock", "reason", HUMAN).lane(Lane::Control);

    fn check(accept: &AcceptClock) -> Result<(), PayloadError> {
        check_reason(&accept.reason)
    }

    fn execute(_: &Turn<'_>, _: &Authentic, _: &AcceptClock) -> Result<Outcome, Refusal> {
        let changes = vec![Change::ClockAccepted {}];
        Ok(Outcome {
            data: data(&Answer::ClockAccepted {})?,
            changes,
            ..Outcome::default()
        })
    }
}
