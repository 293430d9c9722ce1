//! Reconciles the working orders of strategies that may no longer enter: entries are cancelled,
//! positions stay.

use super::book::Book;
use super::cancel::close;
use super::change::Change;
use super::fold::ApplyError;
use super::order::{OrderEnd, OrderRole};
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::time::Time;

/// The result of reconciling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// The ids of the cancelled entries.
    pub cancelled: Vec<OrderId>,
    /// Positions that stay, with their stops.
    pub kept: Vec<(StrategyName, Symbol)>,
    /// The changes to the book.
    pub changes: Vec<Change>,
}

/// Cancels the working entries of these strategies, and the stops that protect no part of them.
/// Whatever has filled keeps its stop; exits stay.
///
/// # Errors
/// Returns [`ApplyError`] if the book does not take the changes; the caller must then change
/// nothing.
pub fn reconcile(
    book: &Book,
    strategies: &[&StrategyName],
    now: Time,
) -> Result<Reconciled, ApplyError> {
    let mut done = Reconciled::default();
    let entries = book
        .orders
        .values()
        .filter(|order| order.role == OrderRole::Entry);
    for order in entries.filter(|order| strategies.contains(&&order.strategy)) {
        done.cancelled.push(order.order_id);
        done.changes
            .extend(close(book, order, OrderEnd::Cancelled, now));
    }
    let mut trial = book.clone();
    for change in &done.changes {
        trial.apply(change)?;
    }
    let held = book
        .positions
        .values()
        .filter(|position| strategies.contains(&&position.strategy));
    done.kept = held
        .map(|position| (position.strategy.clone(), position.symbol.clone()))
        .collect();
    Ok(done)
}
