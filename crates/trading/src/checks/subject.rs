//! What the checks look at, computed once. Everything that does not depend on the size of the order
//! is computed here, so that headroom can try many sizes.

use super::around::Around;
use crate::book::Book;
use crate::class::{Class, capacity, classify};
use crate::order::Order;
use crate::pricing::{Terms, notional_price, worst_entry};
use crate::reach::Reach;
use crate::requests::Context;
use crate::sums::Sums;
use crate::valuation::{TwoSided, is_fresh};
use spoolgate_rules::Rulebook;
use spoolgate_rules::instruments::Instrument;
use spoolgate_rules::principals::Role;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, StrategyName, Symbol};
use spoolgate_wire::orders::{OrderType, Side, SubmitOrder};

/// The kind of request that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An order that opens or adds to a position.
    Entry,
    /// An order that reduces a position.
    Exit,
    /// An order that would do both.
    Flip,
    /// A cancel.
    Cancel,
    /// A tighten.
    Tighten,
}

/// A request as the checks see it.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// The book.
    pub book: &'a Book,
    /// The rulebook; the last good one if `ctx.rulebook_fault` is set.
    pub rules: &'a Rulebook,
    /// Clock, sender, faults.
    pub ctx: &'a Context<'a>,
    /// What kind of request it is.
    pub kind: Kind,
    /// The strategy of the request; `None` if it names an unknown order.
    pub strategy: Option<&'a StrategyName>,
    /// The instrument, if it is known and configured.
    pub instrument: Option<&'a Instrument>,
    /// Every price in the request that must lie on the tick, with the name of its field.
    pub prices: Vec<(&'static str, Amount)>,
    /// The order of `order.submit`.
    pub order: Option<OrderFacts<'a>>,
    /// The order id of a cancel or tighten (for tightens always the id of the stop).
    pub target_id: Option<OrderId>,
    /// The open order with that id.
    pub target: Option<&'a Order>,
    /// The price of a tighten.
    pub new_stop: Option<Amount>,
    /// Whether a working entry is asked again, so that its own use of a thesis does not count.
    pub is_again: bool,
}

/// An order with the values derived from it and from the market.
#[derive(Clone, Debug)]
pub struct OrderFacts<'a> {
    /// The payload. Its size is not used: see `size`.
    pub order: &'a SubmitOrder,
    /// The size that is checked.
    pub size: Amount,
    /// What the strategy may still reduce on this side.
    pub capacity: Option<Amount>,
    /// Whether it reduces, opens or would do both.
    pub class: Class,
    /// Side, type and own price.
    pub terms: Terms,
    /// Bid and ask, if known and fresh.
    pub market: Option<TwoSided>,
    /// The price that its notional is computed with. `None` if the market is unknown.
    pub notional_price: Option<Amount>,
    /// The worst price it may get. `None` if the market is unknown or the price is not exact.
    pub worst_entry: Option<Amount>,
    /// The other open positions and orders that limits count.
    pub around: Around<'a>,
}

impl<'a> Subject<'a> {
    /// Creates the subject of an order to be submitted.
    pub fn of_order(
        book: &'a Book,
        rules: &'a Rulebook,
        order: &'a SubmitOrder,
        ctx: &'a Context<'a>,
    ) -> Subject<'a> {
        let instrument = rules.instruments.get(&order.symbol);
        let facts = order_facts(book, rules, order, instrument, ctx);
        let mut subject = Subject::new(book, rules, ctx, kind_of(facts.class));
        subject.strategy = Some(&order.strategy);
        subject.instrument = instrument;
        subject.prices = order_prices(order, subject.kind);
        subject.order = Some(facts);
        subject
    }

    /// Creates the subject of a working entry that is asked again. `order` has its strategy, symbol,
    /// side and thesis.
    pub(crate) fn of_entry(
        order: &'a SubmitOrder,
        ctx: &'a Context<'a>,
        sums: Sums<'a>,
    ) -> Subject<'a> {
        let mut subject = Subject::new(sums.book, sums.rules, ctx, Kind::Entry);
        subject.strategy = Some(&order.strategy);
        subject.instrument = sums.rules.instruments.get(&order.symbol);
        subject.is_again = true;
        subject.order = Some(OrderFacts {
            order,
            size: order.size,
            capacity: None,
            class: Class::Entry,
            terms: Terms::asked(order),
            market: None,
            notional_price: None,
            worst_entry: None,
            around: Around::new(sums),
        });
        subject
    }

    /// Creates the subject of a request about an order that may or may not be in the book.
    pub fn of_target(
        book: &'a Book,
        rules: &'a Rulebook,
        target_id: OrderId,
        kind: Kind,
        ctx: &'a Context<'a>,
    ) -> Subject<'a> {
        let target = book.orders.get(&target_id);
        let mut subject = Subject::new(book, rules, ctx, kind);
        let closed = ctx
            .closed_order
            .filter(|closed| closed.order_id == target_id);
        subject.strategy = target
            .map(|order| &order.strategy)
            .or_else(|| closed.map(|order| &order.strategy));
        subject.instrument = target.and_then(|order| rules.instruments.get(&order.symbol));
        subject.target_id = Some(target_id);
        subject.target = target;
        subject
    }

    fn new(book: &'a Book, rules: &'a Rulebook, ctx: &'a Context<'a>, kind: Kind) -> Subject<'a> {
        Subject {
            book,
            rules,
            ctx,
            kind,
            strategy: None,
            instrument: None,
            prices: Vec::new(),
            order: None,
            target_id: None,
            target: None,
            new_stop: None,
            is_again: false,
        }
    }

    /// Whether a person sent the request.
    pub(super) fn is_of_person(&self) -> bool {
        self.rules.role(self.ctx.source) == Some(Role::Human)
    }

    /// Returns a limit on size or risk, reduced by the current risk mode. `None` if it is not
    /// exact.
    pub fn reduced(&self, limit: Amount) -> Option<Amount> {
        match self.ctx.limit_factor {
            Some(factor) => limit.checked_mul(factor),
            None => Some(limit),
        }
    }

    /// Changes the size of the order and classifies it again.
    pub fn resize(&mut self, size: Amount) {
        if let Some(facts) = &mut self.order {
            facts.size = size;
            facts.class = classify(size, facts.capacity);
            self.kind = kind_of(facts.class);
        }
    }
}

fn kind_of(class: Class) -> Kind {
    match class {
        Class::Entry => Kind::Entry,
        Class::Exit => Kind::Exit,
        Class::Flip { .. } => Kind::Flip,
    }
}

fn order_facts<'a>(
    book: &'a Book,
    rules: &'a Rulebook,
    order: &'a SubmitOrder,
    instrument: Option<&'a Instrument>,
    ctx: &Context<'_>,
) -> OrderFacts<'a> {
    let capacity = capacity(
        book,
        &order.strategy,
        &order.symbol,
        order.side,
        order.order_type,
    );
    let terms = Terms::asked(order);
    let market = instrument.and_then(|instrument| {
        book.two_sided(instrument)
            .filter(|seen| is_fresh(seen.time, ctx.now, instrument, &rules.safety))
    });
    OrderFacts {
        order,
        size: order.size,
        capacity,
        class: classify(order.size, capacity),
        terms,
        market,
        notional_price: market.map(|market| notional_price(&terms, &market)),
        worst_entry: market
            .and_then(|market| worst_entry(&terms, &market, *rules.safety.entry_slippage)),
        around: Around::new(Sums::new(book, rules, ctx.now)),
    }
}

/// Returns the prices of an order that must lie on the tick. The protective stop of an exit is only
/// schema-checked, so it is not among them.
fn order_prices(order: &SubmitOrder, kind: Kind) -> Vec<(&'static str, Amount)> {
    let mut prices = Vec::new();
    prices.extend(order.price.map(|price| ("price", price)));
    if order.order_type == OrderType::Stop {
        prices.extend(order.stop_price.map(|trigger| ("stop_price", trigger)));
    }
    if kind == Kind::Entry {
        prices.push(("planned_stop", order.planned_stop));
    }
    prices
}

impl OrderFacts<'_> {
    /// size x notional price x multiplier, account currency.
    pub fn notional(&self, instrument: &Instrument) -> Option<Amount> {
        self.notional_price?
            .checked_mul(self.size)?
            .checked_mul(*instrument.multiplier)
    }

    /// The price with which the cash that it needs is computed: the worst entry of a buy, the notional
    /// price of a sale. `None` if the market is unknown or the price is not exact.
    pub(super) fn cost_price(&self) -> Option<Amount> {
        match self.order.side {
            Side::Buy => self.worst_entry,
            Side::Sell => self.notional_price,
        }
    }

    /// Returns what may come to be held with this order added. `None` if it is not exact.
    pub(super) fn added_to(&self, reach: Reach) -> Option<Reach> {
        reach.with(self.order.side, self.size, self.terms.own_price)
    }

    /// The symbol.
    pub fn symbol(&self) -> &Symbol {
        &self.order.symbol
    }
}
