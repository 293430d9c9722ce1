//! Which requests only make things safer: exits, cancels, tightens, halts, stricter control
//! decisions, and revocations of keys, grants and services. The gate serves them when it can serve
//! nothing else.

use super::actions::Body;
use super::control;
use super::state::State;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::{PrincipalRule, Role};
use spoolgate_trading::class::{self, Class};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, StrategyName, Symbol};
use spoolgate_wire::orders::{CancelOrder, OrderType, Side, SubmitOrder, TightenStop};

/// Whether a request only makes things safer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Safer {
    /// It does, in the present state.
    Yes,
    /// It would if it reduced something of its sender's.
    Once(Waiting),
    /// It does not.
    No,
}

/// A request that makes things safer once it reduces something.
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
        order_type: OrderType,
    },
    /// A cancel or tighten: passes while this order works.
    Working(OrderId),
}

impl Waiting {
    /// Whether it reduces something of the sender's own by now, or for a person of anybody's. Positions and orders of others do
    /// not count: ownership refuses such a request later, and without this check an agent could
    /// flood the gate with exits of positions that it does not own.
    pub fn passes(&self, state: &State, rules: &Rulebook) -> bool {
        let rule = rules.principals.get(&self.source);
        let owned = rule.map_or(&[][..], |rule| &rule.strategies);
        let is_human = rule.is_some_and(|rule| rule.role == Role::Human);
        match &self.about {
            About::Order {
                strategy,
                symbol,
                side,
                size,
                order_type,
            } => {
                let capacity = class::capacity(&state.book, strategy, symbol, *side, *order_type);
                owned.contains(strategy) && class::classify(*size, capacity) == Class::Exit
            }
            About::Working(id) => state
                .book
                .orders
                .get(id)
                .is_some_and(|order| is_human || owned.contains(&order.strategy)),
        }
    }
}

impl Safer {
    /// Judges a request of `source`, whose rule is `rule`, in the present state. Whether the sender
    /// may send such a request at all is checked elsewhere.
    pub fn of(
        source: &Principal,
        rule: &PrincipalRule,
        body: &Body,
        state: &State,
        rules: &Rulebook,
    ) -> Safer {
        let about = if let Some(SubmitOrder {
            strategy,
            symbol,
            side,
            size,
            order_type,
            ..
        }) = body.payload()
        {
            About::Order {
                strategy: strategy.clone(),
                symbol: symbol.clone(),
                side: *side,
                size: *size,
                order_type: *order_type,
            }
        } else if let Some(cancel) = body.payload::<CancelOrder>() {
            About::Working(cancel.order_id)
        } else if let Some(tighten) = body.payload::<TightenStop>() {
            About::Working(tighten.order_id.stop())
        } else {
            let is_safer = match body.payload() {
                Some(attempt) => control::passes_quota(attempt, state, rules, source, rule),
                None => matches!(
                    body.rule.name,
                    ActionName::HaltSet
                        | ActionName::PositionClose
                        | ActionName::KeysRevoke
                        | ActionName::GrantEnd
                        | ActionName::ServicesRemove
                        | ActionName::ServicesDeactivate
                ),
            };
            return if is_safer { Safer::Yes } else { Safer::No };
        };
        let waiting = Waiting {
            source: source.clone(),
            about,
        };
        if waiting.passes(state, rules) {
            Safer::Yes
        } else {
            Safer::Once(waiting)
        }
    }
}
