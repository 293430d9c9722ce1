//! What strategies that may not enter any more have working in the market: entries go, positions stay.

use super::book::Book;
use super::cancel::close;
use super::change::Change;
use super::fold::ApplyError;
use super::order::{OrderEnd, OrderRole};
use crate::wire::ids::{OrderId, StrategyName, Symbol};
use crate::wire::time::Time;

/// What reconciling comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Entries that are cancelled, by id.
    pub cancelled: Vec<OrderId>,
    /// Positions that stay, with their stops.
    pub kept: Vec<(StrategyName, Symbol)>,
    /// What it does to the book.
    pub changes: Vec<Change>,
}

/// Cancels the working entries of these strategies, and the stops that protect nothing of them. What has filled keeps
/// its stop; exits go on.
///
/// # Errors
/// [`ApplyError`] if the book does not take the changes: nothing may be done then.
pub fn reconcile(book: &Book, strategies: &[&StrategyName], now: Time) -> Result<Reconciled, ApplyError> {
    let mut done = Reconciled::default();
    let entries = book.orders.values().filter(|order| order.role == OrderRole::Entry);
    for order in entries.filter(|order| strategies.contains(&&order.strategy)) {
        done.cancelled.push(order.order_id);
        done.changes.extend(close(book, order, OrderEnd::Cancelled, now));
    }
    let mut trial = book.clone();
    for change in &done.changes {
        trial.apply(change)?;
    }
    let held = book.positions.values().filter(|position| strategies.contains(&&position.strategy));
    done.kept = held.map(|position| (position.strategy.clone(), position.symbol.clone())).collect();
    Ok(done)
}
