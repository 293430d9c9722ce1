//! How the changes about bridges and orders at venues fold into the book.

use super::book::{Book, Bridge, PACED_MAX, Silence};
use super::change::Change;
use super::fold::ApplyError;
use super::imitated::Untold;
use super::order::{Instruction, Order, OrderRole};
use super::venue::imitated::is_of_new_entry;
use super::venue::outbox::is_paced;
use spoolgate_wire::ids::{ExecId, OrderId, Principal, Symbol};
use spoolgate_wire::orders::{OrderType, Side};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::ASSUMED;

impl Book {
    /// Folds a change of an order at a venue in; ignores any other change.
    pub(super) fn apply_at_venue(&mut self, change: &Change) -> Result<(), ApplyError> {
        match change {
            Change::Instructed(instruction) => self.instruct(instruction)?,
            Change::VenueReported {
                order_id,
                bridge,
                exec_id,
                working,
                ended,
                gone,
                at,
            } => {
                self.note_unfilled(*order_id, at.filter(|_| *gone));
                self.count_imitated(*order_id, exec_id);
                let venue = self.order_at_venue(*order_id, "reported on")?;
                venue.report(*working, *gone, *at);
                venue.end_up_to(*ended);
                if let Some(imitated) = &mut venue.imitated {
                    imitated.tell(exec_id);
                }
                if working.is_some() {
                    self.note_taken(*order_id);
                }
                self.heard.extend(at.map(|at| (bridge.clone(), at)));
                let is_assumed = exec_id.as_str().starts_with(ASSUMED);
                if let Some(bridge) = self.bridges.get_mut(bridge).filter(|_| !is_assumed) {
                    bridge.booked = Some(exec_id.clone());
                }
            }
            Change::TakenBack { order_id, version } => {
                self.order_at_venue(*order_id, "taken back")?
                    .take_back(*version);
            }
            Change::TradedUntold { order_id, traded } => {
                let venue = self.order_at_venue(*order_id, "traded")?;
                let imitated = venue.imitated.get_or_insert_default();
                imitated.untold.push(Untold::clone(traded));
            }
            Change::Unanswered { order_id, at } => {
                self.order_at_venue(*order_id, "missed")?.alarmed_at = Some(*at);
            }
            _ => {}
        }
        Ok(())
    }

    /// Folds what was noticed of a bridge in; ignores any other change.
    pub(super) fn apply_to_bridge(&mut self, change: &Change) {
        match change {
            Change::BridgeSilent { bridge, since, why } => {
                let bridge = self.bridge(bridge);
                let (since, why) = (*since, why.clone());
                (bridge.silent, bridge.reconciled_at) = (Some(Silence { since, why }), None);
            }
            Change::BridgeHeard { bridge, run, .. } => {
                let bridge = self.bridge(bridge);
                (bridge.silent, bridge.reconciled_at) = (None, None);
                bridge.run.clone_from(run);
            }
            Change::Reconciled { bridge, at, .. } => {
                self.bridge(bridge).reconciled_at = Some(*at);
            }
            Change::PingAnswered { bridge, line, .. } => self.bridge(bridge).pinged = Some(*line),
            _ => {}
        }
    }

    fn bridge(&mut self, name: &Principal) -> &mut Bridge {
        self.bridges.entry(name.clone()).or_default()
    }

    /// Records an instruction, and that it counts for the pace of its bridge.
    fn instruct(&mut self, instruction: &Instruction) -> Result<(), ApplyError> {
        let order = self.open_order(instruction.order_id, "instructed")?;
        let is_paced = is_paced(order, instruction);
        self.order_at_venue(instruction.order_id, "instructed")?
            .instruct(instruction);
        let bridge = self.bridges.get_mut(&instruction.bridge);
        if let (Some(bridge), Some(at), true) = (bridge, instruction.at, is_paced) {
            if bridge.paced.len() >= PACED_MAX {
                bridge.paced.pop_front();
            }
            bridge.paced.push_back(at);
        }
        Ok(())
    }

    /// Notes when the market passed the triggers of stops at venues, which should trade then.
    pub(super) fn pass_stops(&mut self, symbol: &Symbol) {
        let Some(market) = self.markets.get(symbol) else {
            return;
        };
        let (last, quote) = (market.last.as_ref(), market.quote.as_ref());
        let price = |side: Side| {
            let quoted = quote.map(|quote| match side {
                Side::Buy => (quote.time, quote.ask),
                Side::Sell => (quote.time, quote.bid),
            });
            let traded = last.map(|last| (last.time, last.price));
            quoted
                .into_iter()
                .chain(traded)
                .max_by_key(|(time, _)| *time)
        };
        let (buys, sells) = (price(Side::Buy), price(Side::Sell));
        for order in self.orders.values_mut() {
            let is_stop = order.role == OrderRole::Protective && order.symbol == *symbol;
            let (Some(trigger), true) = (order.trigger, is_stop) else {
                continue;
            };
            let Some((time, price)) = (if order.side == Side::Buy { buys } else { sells }) else {
                continue;
            };
            let is_passed = match order.side {
                Side::Buy => price >= trigger,
                Side::Sell => price <= trigger,
            };
            if let Some(venue) = order
                .at_venue
                .as_mut()
                .filter(|venue| is_passed && venue.is_out() && venue.told_at.is_some())
            {
                venue.passed_at.get_or_insert(time);
            }
        }
    }

    /// Counts an entry that reached the imitated exchange.
    fn count_imitated(&mut self, order_id: OrderId, exec_id: &ExecId) {
        let order = self.orders.get(&order_id);
        if let Some(order) = order.filter(|order| is_of_new_entry(order, exec_id)) {
            let symbol = order.symbol.clone();
            let count = self.imitated_entries.entry(symbol).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Notes that a venue took an entry.
    fn note_taken(&mut self, order_id: OrderId) {
        let order = self.orders.get(&order_id);
        let Some(order) = order.filter(|order| order.role == OrderRole::Entry) else {
            return;
        };
        if let Some(conduct) = self.conduct.get_mut(&order.strategy) {
            conduct.taken(order.accepted_at);
        }
    }

    /// Notes when an exit with a price of its own, for which stops had made room, is gone unfilled.
    fn note_unfilled(&mut self, order_id: OrderId, at: Option<Time>) {
        let order = self.orders.get(&order_id);
        let has_price = |order: &&Order| order.order_type != OrderType::Market && !order.triggered;
        let order = order.filter(|order| order.takes_room() && order.leaves().is_positive());
        let Some(order) = order.filter(has_price) else {
            return;
        };
        let key = (order.symbol.clone(), order.strategy.clone());
        if let Some(position) = self.positions.get_mut(&key) {
            position.unfilled_at = at.or(position.unfilled_at);
        }
    }
}
