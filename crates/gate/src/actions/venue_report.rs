//! `venue.report`.

use super::prelude::*;
use crate::flatten;
use spoolgate_trading::change;
use spoolgate_trading::venue::report::{Refused, Reporting, on_report};
use spoolgate_wire::ids::{ExecId, Leg, OrderId};
use spoolgate_wire::venue::VenueReport as Report;

/// Books what a bridge reports about an order at a venue.
pub struct VenueReport;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `venue.report`.
    ReportBooked {
        /// The order.
        order_id: OrderId,
        /// The venue's id of the report.
        exec_id: &'a ExecId,
    },
}

impl Action for VenueReport {
    type Payload = Report;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Reports what happened to an order at a venue.";
    const CONDITIONS: &'static [Condition] = &[REPORT, DIGITS, WHOLE, BYTES, CALENDAR, LINE];
    const ROW: Row = Row::new(
        ActionName::VenueReport,
        "VenueReport",
        "order_id, exec_type, exec_id, transact_time, cum_qty, version?, last_qty?, last_px?, \
            fee?, fee_currency?, fee_value?, liquidity?, text?",
        &[Role::Bridge],
    )
    .lane(Lane::Feed)
    .freshness(Freshness::Never);

    fn needs(_: &Rulebook, sender: &Authentic, report: &Report, needs: &mut Needs) {
        needs.report = Some((sender.envelope.source.clone(), report.exec_id.clone()));
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, report: &Report) -> Result<Outcome, Refusal> {
        let (bridge, booked_in) = (&sender.envelope.source, turn.lookups.booked_in);
        let by = Reporting {
            bridge,
            booked_in,
            now: turn.now,
            seq: turn.seq,
        };
        let (changes, refusal) = match on_report(&turn.state.book, turn.rules, report, &by) {
            Ok(changes) => (changes, None),
            Err(Refused {
                code,
                what,
                changes,
            }) => (changes, Some(Refusal::new(code, what))),
        };
        let changes = without_retried(turn, report.order_id, changes);
        let changes = changes.into_iter().map(Change::Book).collect();
        if let Some(refusal) = refusal {
            return Ok(Outcome {
                changes,
                ..Outcome::refused(refusal)
            });
        }
        let (order_id, exec_id) = (report.order_id, &report.exec_id);
        let data = data(&Answer::ReportBooked { order_id, exec_id })?;
        Ok(Outcome {
            data,
            changes,
            ..Outcome::default()
        })
    }
}

/// Leaves out the doubt about an order of the gate that the venue dropped, where the gate places
/// another one: the doubt comes when it gives up.
pub(super) fn without_retried(
    turn: &Turn<'_>,
    order_id: OrderId,
    mut changes: Vec<change::Change>,
) -> Vec<change::Change> {
    let book = &turn.state.book;
    let is_retried = order_id.leg == Leg::Flatten
        && book.orders.get(&order_id).is_some_and(|order| {
            flatten::is_wanted(turn.state, turn.rules, &order.symbol, &order.strategy)
        });
    changes.retain(|change| match change {
        change::Change::SymbolDoubted { doubt, .. } => {
            !is_retried || doubt.order_id != Some(order_id)
        }
        _ => true,
    });
    changes
}
