//! Lines and the outbox: what a line's changes mean for orders at venues, and which instructions it
//! gives.

use super::state::Change;
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::Instruction;
use spoolgate_trading::venue::outbox;
use spoolgate_trading::{self as trading, Book};
use spoolgate_wire::time::Time;

/// The changes of a line over `book`, with orders at venues handed over (see
/// [`outbox::hand_over`]).
pub fn of_line(book: &Book, rules: &Rulebook, changes: Vec<Change>, at: Time) -> Vec<Change> {
    let places = |change: &Change| {
        matches!(change, Change::Book(trading::Change::OrderPlaced(order))
            if order.at_venue.is_some())
    };
    if !book.orders.values().any(|order| order.at_venue.is_some()) && !changes.iter().any(places) {
        return changes;
    }
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for change in changes {
        match change {
            Change::Book(change) => own.push(change),
            other => others.push(other),
        }
    }
    let own = outbox::hand_over(book, &rules.safety.bridges, own, at)
        .into_iter()
        .map(Change::Book);
    own.chain(others).collect()
}

/// The instructions that earlier lines postponed, if there are any.
pub fn owed(book: &Book, rules: &Rulebook, at: Time) -> Vec<Change> {
    outbox::owed(book, &rules.safety.bridges, at)
        .into_iter()
        .map(Change::Book)
        .collect()
}

/// The instructions in the changes of a line.
pub fn instructions(changes: &[Change]) -> impl Iterator<Item = &Instruction> {
    changes.iter().filter_map(|change| match change {
        Change::Book(trading::Change::Instructed(instruction)) => Some(instruction),
        _ => None,
    })
}

/// Whether the changes of a line include an instruction.
pub fn instructs(changes: &[Change]) -> bool {
    instructions(changes).next().is_some()
}
