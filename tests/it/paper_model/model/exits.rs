//! The exits of a leg: at most eight that agents sent, two of them at the market.

use super::{Id, Kind, Lasts, Model, ORDER, Owner, Role, Working};
use crate::paper_model::rational::Rat;

impl Model {
    /// Returns the exits of agents that work on this side.
    fn sent(&self, owner: &Owner, buys: bool) -> Vec<&Working> {
        let is_sent = |o: &&Working| o.role == Role::Exit && o.id.1 == ORDER;
        let of_leg = |o: &&Working| o.owner == *owner && o.buys == buys;
        self.orders.iter().filter(is_sent).filter(of_leg).collect()
    }

    /// Returns the market exit that waits for another one; a further one is added to it.
    fn waiting_exit(&self, owner: &Owner, buys: bool) -> Option<Id> {
        let sent = self.sent(owner, buys).into_iter();
        let at_market: Vec<Id> = sent
            .filter(|o| o.kind == Kind::Market)
            .map(|o| o.id)
            .collect();
        at_market.get(1).copied()
    }

    /// Returns the resting exit that gives way to one more: of eight exits the newest.
    fn giving_way(&self, owner: &Owner, buys: bool, kind: Kind) -> Option<Id> {
        let sent = self.sent(owner, buys);
        let merges = kind == Kind::Market && self.waiting_exit(owner, buys).is_some();
        if merges || sent.len() < 8 {
            return None;
        }
        let resting = sent.into_iter().filter(|o| o.kind != Kind::Market);
        resting.map(|o| o.id).max()
    }

    /// Returns what an order of this kind may still reduce on this side.
    pub(crate) fn capacity(&self, owner: &Owner, buys: bool, kind: Kind) -> Rat {
        let size = self.position(owner);
        if size.is_zero() || size.is_negative() != buys {
            return Rat::zero();
        }
        let free = self.giving_way(owner, buys, kind);
        let exits = self.orders.iter().filter(|o| {
            o.role == Role::Exit && o.owner == *owner && o.buys == buys && Some(o.id) != free
        });
        let left = exits.fold(size.abs(), |left, order| left.minus(&order.leaves()));
        if left.is_positive() {
            left
        } else {
            Rat::zero()
        }
    }

    /// Lets an accepted exit join those of its leg. Returns whether it was added to another one.
    pub(super) fn joins(&mut self, order: &Working) -> bool {
        if order.role != Role::Exit || order.id.1 != ORDER {
            return false;
        }
        let waiting = self.waiting_exit(&order.owner, order.buys);
        if let Some(id) = waiting.filter(|_| order.kind == Kind::Market) {
            self.merged += 1;
            let waiting = self.change(id).unwrap();
            waiting.size = waiting.size.plus(&order.size);
            waiting.at_ms = order.at_ms;
            waiting.lasts = match (waiting.lasts, order.lasts) {
                (Lasts::Forever, _) | (_, Lasts::Forever) => Lasts::Forever,
                (Lasts::OneDay, _) | (_, Lasts::OneDay) => Lasts::OneDay,
                (Lasts::OneRow, Lasts::OneRow) => Lasts::OneRow,
            };
            return true;
        }
        if let Some(id) = self.giving_way(&order.owner, order.buys, order.kind) {
            self.gave_way += 1;
            self.drop_order(id);
        }
        false
    }
}
