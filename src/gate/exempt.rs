//! Which requests no quota of a spool holds back: what can only make things safer, what controls the gate,
//! and people. Asked before a file is claimed, of exactly what a batch would decide on; the decision itself
//! follows later and knows nothing of it.

use super::actions::Lane;
use super::control;
use super::prepare::{Authentic, Payload, Prepared};
use super::state::State;
use crate::rules::Rulebook;
use crate::rules::principals::Role;
use crate::trading::class::{self, Class};
use crate::wire::amount::Amount;
use crate::wire::ids::{OrderId, Principal, StrategyName, Symbol};
use crate::wire::orders::Side;

/// Whether a request passes a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not held back.
    Passes,
    /// It waits. What may come to pass when the book changes is kept, to be asked again.
    Waits(Option<Box<Waiting>>),
}

/// An authentic request that would pass if it reduced something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    source: Principal,
    about: About,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    /// An order: passes as an exit.
    Order { strategy: StrategyName, symbol: Symbol, side: Side, size: Amount },
    /// A cancel or tighten: passes while this order works.
    Working(OrderId),
}

impl Waiting {
    /// Whether it reduces something of the sender's own by now. That of others is refused by ownership
    /// later, so it must not pass here either: who owns nothing could flood with somebody else's exits.
    pub fn passes(&self, state: &State, rules: &Rulebook) -> bool {
        let owned = rules.principals.get(&self.source).map_or(&[][..], |rule| &rule.strategies);
        match &self.about {
            About::Order { strategy, symbol, side, size } => {
                let capacity = class::capacity(&state.book, strategy, symbol, *side);
                owned.contains(strategy) && class::classify(*size, capacity) == Class::Exit
            }
            About::Working(id) => {
                state.book.orders.get(id).is_some_and(|order| owned.contains(&order.strategy))
            }
        }
    }
}

impl Standing {
    /// The standing of a prepared request as things are.
    pub fn of(request: &Prepared, state: &State, rules: &Rulebook) -> Standing {
        let Ok(Authentic { envelope, body, .. }) = &request.request else { return Standing::Waits(None) };
        let source = &envelope.source;
        let Some(rule) = rules.principals.get(source) else { return Standing::Waits(None) };
        if !request.origin.is_for(rule.spool.as_ref()) {
            return Standing::Waits(None);
        }
        if rule.role == Role::Human {
            return Standing::Passes;
        }
        let Ok(body) = body else { return Standing::Waits(None) };
        if !body.rule.senders.contains(&rule.role) {
            return Standing::Waits(None);
        }
        let about = match &body.payload {
            Payload::Submit(order) => About::Order {
                strategy: order.strategy.clone(),
                symbol: order.symbol.clone(),
                side: order.side,
                size: order.size,
            },
            // What has happened at a venue is no load that could wait.
            Payload::Report(_) => return Standing::Passes,
            Payload::Cancel(cancel) => About::Working(cancel.order_id),
            Payload::Tighten(tighten) => About::Working(tighten.order_id.stop()),
            Payload::Control(attempt) if control::passes_quota(attempt, state, rules, source, rule) => {
                return Standing::Passes;
            }
            Payload::Control(_) => return Standing::Waits(None),
            _ if body.rule.lane == Lane::Control => return Standing::Passes,
            _ => return Standing::Waits(None),
        };
        let waiting = Waiting { source: source.clone(), about };
        if waiting.passes(state, rules) { Standing::Passes } else { Standing::Waits(Some(Box::new(waiting))) }
    }
}
