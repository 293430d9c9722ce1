//! `venue.snapshot`.

use super::prelude::*;
use spoolgate_trading::venue::snapshot::compare;
use spoolgate_wire::venue::Snapshot;

/// Compares what a venue holds and works with the book.
pub struct VenueSnapshot;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `venue.snapshot`.
    Reconciled {
        /// What differs between book and venue, in words.
        differences: Vec<String>,
    },
}

impl Action for VenueSnapshot {
    type Payload = Snapshot;
    type Answer = Answer;
    const ABOUT: &'static str = "Compares what a venue holds and works with the book. Each difference \
        closes its symbol for entries until a person clears it.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, WHOLE, BYTES, CALENDAR, LINE];
    const ROW: Row = Row::new(
        ActionName::VenueSnapshot,
        "Snapshot",
        "run, taken_at, after_exec, balances, positions, orders, foreign",
        &[Role::Bridge],
    )
    .lane(Lane::Feed);

    fn check(snapshot: &Snapshot) -> Result<(), PayloadError> {
        snapshot.check()
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        snapshot: &Snapshot,
    ) -> Result<Outcome, Refusal> {
        let bridge = &sender.envelope.source;
        let compared = compare(&turn.state.book, turn.rules, snapshot, bridge, turn.now)
            .map_err(|stale| Refusal::new(Code::SnapshotStale, stale.to_string()))?;
        let data = data(&Answer::Reconciled {
            differences: compared.differences,
        })?;
        Ok(Outcome {
            data,
            changes: compared.changes.into_iter().map(Change::Book).collect(),
            ..Outcome::default()
        })
    }
}
