//! Which requests are exempt from the quota of a spool: those that can only reduce risk, control
//! the gate, or come from a person. Evaluated before a file is claimed, on exactly what a batch
//! would decide; the decision itself comes later and does not depend on it.

use super::actions::Lane;
use super::control;
use super::prepare::{Authentic, Prepared};
use super::state::State;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_trading::class::{self, Class};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{CancelOrder, Side, SubmitOrder, TightenStop};
use spoolgate_wire::venue::VenueReport;

/// Whether a request passes a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not held back.
    Passes,
    /// It waits. A request that may become exempt when the book changes is kept for that.
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
    Order {
        strategy: StrategyName,
        symbol: Symbol,
        side: Side,
        size: Amount,
    },
    /// A cancel or tighten: passes while this order works.
    Working(OrderId),
}

impl Waiting {
    /// Whether it reduces something of the sender's own by now. Positions and orders of others do
    /// not count: ownership refuses such a request later, and without this check an agent could
    /// flood the gate with exits of positions that it does not own.
    pub fn passes(&self, state: &State, rules: &Rulebook) -> bool {
        let owned = rules
            .principals
            .get(&self.source)
            .map_or(&[][..], |rule| &rule.strategies);
        match &self.about {
            About::Order {
                strategy,
                symbol,
                side,
                size,
            } => {
                let capacity = class::capacity(&state.book, strategy, symbol, *side);
                owned.contains(strategy) && class::classify(*size, capacity) == Class::Exit
            }
            About::Working(id) => state
                .book
                .orders
                .get(id)
                .is_some_and(|order| owned.contains(&order.strategy)),
        }
    }
}

impl Standing {
    /// The standing of a prepared request in the present state.
    pub fn of(request: &Prepared, state: &State, rules: &Rulebook) -> Standing {
        let Ok(Authentic { envelope, body, .. }) = &request.request else {
            return Standing::Waits(None);
        };
        let source = &envelope.source;
        let Some(rule) = rules.principals.get(source) else {
            return Standing::Waits(None);
        };
        if !request
            .origin
            .is_for(rule.spool.as_ref(), rule.unix_user.as_ref())
        {
            return Standing::Waits(None);
        }
        if rule.role == Role::Human {
            return Standing::Passes;
        }
        let Ok(body) = body else {
            return Standing::Waits(None);
        };
        if !body.rule.senders.contains(&rule.role) {
            return Standing::Waits(None);
        }
        let about = if let Some(SubmitOrder {
            strategy,
            symbol,
            side,
            size,
            ..
        }) = body.payload()
        {
            About::Order {
                strategy: strategy.clone(),
                symbol: symbol.clone(),
                side: *side,
                size: *size,
            }
        } else if let Some(cancel) = body.payload::<CancelOrder>() {
            About::Working(cancel.order_id)
        } else if let Some(tighten) = body.payload::<TightenStop>() {
            About::Working(tighten.order_id.stop())
        } else {
            let passes = match body.payload() {
                Some(attempt) => control::passes_quota(attempt, state, rules, source, rule),
                // Venue reports cannot wait: what they report has happened.
                None => body.rule.lane == Lane::Control || body.payload::<VenueReport>().is_some(),
            };
            return if passes {
                Standing::Passes
            } else {
                Standing::Waits(None)
            };
        };
        let waiting = Waiting {
            source: source.clone(),
            about,
        };
        if waiting.passes(state, rules) {
            Standing::Passes
        } else {
            Standing::Waits(Some(Box::new(waiting)))
        }
    }
}
