//! `venue.assume`: a person answers for a venue that says nothing about an order.

use super::prelude::*;
use super::venue_report::without_retried;
use spoolgate_trading::order::AtVenue;
use spoolgate_trading::venue::report::{Reporting, on_report};
use spoolgate_trading::{Book, Change as BookChange};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{ExecId, OrderId};
use spoolgate_wire::venue::{
    ASSUMED, AssumeOrder, AssumedState, ExecEvent, Gone, TradeLiquidity, VenueReport,
};

/// Books what a person says about an order of which the venue says nothing.
pub struct VenueAssume;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer {
    /// The answer to `venue.assume`.
    VenueAssumed {
        /// The order.
        order_id: OrderId,
        /// What it has filled, units.
        filled: Amount,
    },
}

impl Action for VenueAssume {
    type Payload = AssumeOrder;
    type Answer = Answer;
    const ABOUT: &'static str = "States what became of an order at a venue that does not answer. It is \
        booked as a report of the order's bridge would be.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, LINE, BYTES];
    const ROW: Row = Row::new(
        ActionName::VenueAssume,
        "AssumeOrder",
        "order_id, state, filled?, px?, fee?, reason",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(assumed: &AssumeOrder) -> Result<(), PayloadError> {
        let range = |field, found, rule| Err(PayloadError::Range { field, found, rule });
        if let Some(found) = assumed.filled.filter(|filled| filled.is_negative()) {
            return range("filled", found, "it must not be below 0");
        }
        if let Some(found) = assumed.px.filter(|px| !px.is_positive()) {
            return range("px", found, "it must be above 0");
        }
        let members = [assumed.filled, assumed.px, assumed.fee];
        if let (AssumedState::Working, Some(found)) =
            (assumed.state, members.into_iter().flatten().next())
        {
            return range(
                "filled",
                found,
                "an order that works takes no `filled`, `px` and `fee`",
            );
        }
        check_reason(&assumed.reason)
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, assumed: &AssumeOrder) -> Result<Outcome, Refusal> {
        let id = assumed.order_id;
        let known = turn.state.book.orders.get(&id).and_then(|order| {
            let venue = order.at_venue.as_ref().filter(|venue| venue.is_out())?;
            Some((order, venue))
        });
        let Some((order, venue)) = known else {
            let what = format!(
                "no venue works `{id}`; `spoolgate orders` shows the open orders and their bridges"
            );
            return Err(Refusal::new(Code::NotFound, what));
        };
        let changes = match assumed.state {
            AssumedState::Working => {
                let version = venue.version;
                let mut book = Assuming::new(turn, venue);
                book.report(id, "", order.filled, ExecEvent::Working { version })?;
                book.changes
            }
            AssumedState::Gone => gone(turn, assumed, order.filled, venue)?,
        };
        let data = data(&Answer::VenueAssumed {
            order_id: id,
            filled: assumed.filled.unwrap_or(order.filled),
        })?;
        let changes = without_retried(turn, id, changes);
        Ok(Outcome {
            data,
            changes: changes.into_iter().map(Change::Book).collect(),
            ..Outcome::default()
        })
    }
}

/// Returns the changes of an order that is gone, after what it filled besides what the book knows.
fn gone(
    turn: &Turn<'_>,
    assumed: &AssumeOrder,
    booked: Amount,
    venue: &AtVenue,
) -> Result<Vec<BookChange>, Refusal> {
    let id = assumed.order_id;
    let filled = assumed.filled.unwrap_or(booked);
    let last_qty = filled
        .checked_sub(booked)
        .filter(|more| !more.is_negative());
    let Some(last_qty) = last_qty else {
        let what = format!("`{id}` has filled {booked} in the book, so `filled` is at least that");
        return Err(Refusal::new(Code::StateConflict, what));
    };
    let mut book = Assuming::new(turn, venue);
    if last_qty.is_positive() {
        let Some(last_px) = assumed.px else {
            let what =
                format!("`{id}` filled {last_qty} more than the book has: name its price, `px`");
            return Err(Refusal::new(Code::StateConflict, what));
        };
        let trade = ExecEvent::Trade {
            last_qty,
            last_px,
            fee: assumed.fee.unwrap_or(Amount::ZERO),
            fee_currency: None,
            fee_value: None,
            liquidity: TradeLiquidity::Taker,
        };
        book.report(id, "", filled, trade)?;
    }
    // What has filled whole is over already.
    if book.book.orders.contains_key(&id) {
        let end = ExecEvent::Gone {
            how: Gone::Canceled,
            version: Some(venue.version),
        };
        book.report(id, ".end", filled, end)?;
    }
    Ok(book.changes)
}

/// Reports in the name of a bridge, one after the other.
struct Assuming<'a> {
    turn: &'a Turn<'a>,
    venue: &'a AtVenue,
    /// The book after the reports so far.
    book: Book,
    changes: Vec<BookChange>,
}

impl<'a> Assuming<'a> {
    fn new(turn: &'a Turn<'a>, venue: &'a AtVenue) -> Assuming<'a> {
        let (book, changes) = (turn.state.book.clone(), Vec::new());
        Assuming {
            turn,
            venue,
            book,
            changes,
        }
    }

    /// Books one. Its `exec_id` names the ledger line, `by-<line>`, with a suffix.
    fn report(
        &mut self,
        order_id: OrderId,
        suffix: &str,
        cum_qty: Amount,
        event: ExecEvent,
    ) -> Result<(), Refusal> {
        let Turn {
            rules, now, seq, ..
        } = *self.turn;
        let exec_id = ExecId::parse(&format!("{ASSUMED}{seq}{suffix}"));
        let exec_id = exec_id.map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
        let report = VenueReport {
            order_id,
            exec_id,
            transact_time: now,
            cum_qty,
            event,
        };
        let by = Reporting {
            bridge: &self.venue.bridge,
            booked_in: None,
            now,
            seq,
        };
        let booked = on_report(&self.book, rules, &report, &by);
        let changes = booked.map_err(|refused| Refusal::new(refused.code, refused.what))?;
        for change in &changes {
            let applied = self.book.apply(change);
            applied.map_err(|error| Refusal::new(Code::ReportImpossible, error.to_string()))?;
        }
        self.changes.extend(changes);
        Ok(())
    }
}
