//! `halt.set`.

use super::no_such;
use super::prelude::*;
use crate::drill::{Drill, drill};
use crate::state::{Halt, On};
use spoolgate_trading::Book;
use spoolgate_wire::admin::SetHalt;
use spoolgate_wire::ids::{Principal, StrategyName, Symbol};

/// Halts entries.
pub struct HaltSet;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `halt.set`.
    HaltSet {
        /// The principal; null for all, or if it is about a part of the account.
        principal: Option<&'a Principal>,
        /// The strategy, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        strategy: Option<&'a StrategyName>,
        /// The symbol, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        symbol: Option<&'a Symbol>,
        /// The bridge, if it is about one.
        #[serde(skip_serializing_if = "Option::is_none")]
        bridge: Option<&'a Principal>,
        /// What the halt would end, if this is a drill.
        #[serde(skip_serializing_if = "Option::is_none")]
        drill: Option<Drill>,
    },
}

impl Action for HaltSet {
    type Payload = SetHalt;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Stops entries, and pulls those that work unless they are kept.";
    const CONDITIONS: &'static [Condition] = &[BYTES, SCOPE];
    const ROW: Row = Row::new(
        ActionName::HaltSet,
        "SetHalt",
        "principal?, strategy?, symbol?, bridge?, keep_orders?, flatten?, drill?, reason",
        SPEAKERS,
    )
    .lane(Lane::Control)
    .freshness(Freshness::Halt)
    .rate(Rate::Free)
    .tool(
        "halt",
        "Halt own entries",
        "Stop your own entries, or those of one strategy, with a reason. Only a person ends a halt. \
            Exits, cancels and tightened stops go on.",
    );

    fn check(set: &SetHalt) -> Result<(), PayloadError> {
        if let [first, second, ..] = set.scopes()[..] {
            return Err(PayloadError::Exclude {
                fields: [first, second],
                rule: "name at most one of `principal`, `strategy`, `symbol` \
                    and `bridge`, or none to halt everybody",
            });
        }
        if set.keep_orders && set.flatten {
            return Err(PayloadError::Exclude {
                fields: ["keep_orders", "flatten"],
                rule: "entries that stay would open what is to be closed",
            });
        }
        check_reason(&set.reason)
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, set: &SetHalt) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_human = turn.rules.role(source) == Some(Role::Human);
        if set.flatten && !is_human {
            let what =
                "only a person may halt with `flatten`; an agent closes its positions by exits";
            return Err(Refusal::new(Code::NotPermitted, what));
        }
        if set.drill && !is_human {
            let what = "only a person may drill a halt; leave `drill` away to halt yourself";
            return Err(Refusal::new(Code::NotPermitted, what));
        }
        let on = On::of(set);
        let principal = match (&set.principal, is_human) {
            (None, true) => None,
            (None, false) if on.is_some() => None,
            (None, false) => Some(source.clone()),
            (Some(named), true) => Some(named.clone()),
            (Some(named), false) if named == source => Some(named.clone()),
            (Some(named), false) => {
                let what = format!("an agent may halt only itself: `{named}` is not `{source}`");
                return Err(Refusal::new(Code::NotPermitted, what));
            }
        };
        if let Some(missing) = principal
            .as_ref()
            .filter(|name| !turn.rules.principals.contains_key(name))
        {
            let known = turn.rules.principals.keys().map(Principal::as_str);
            return Err(no_such("principal", missing.as_str(), known, None));
        }
        if let Some(on) = &on {
            if !is_human && !on.is_of(turn.rules, source) {
                let what = format!(
                    "an agent may halt only itself and its strategies: {on} is not its own; ask a \
                        person"
                );
                return Err(Refusal::new(Code::NotPermitted, what));
            }
            exists(&turn.state.book, turn.rules, on)?;
        }
        let halt = Halt {
            by: source.clone(),
            at: turn.now,
            reason: set.reason.clone(),
            keep_orders: set.keep_orders,
            flatten: set.flatten,
        };
        let (principal_of, on_of) = (principal.as_ref(), on.as_ref());
        let drill = set
            .drill
            .then(|| drill(turn.state, turn.rules, principal_of, on_of, &halt));
        let is_drill = drill.is_some();
        let data = data(&Answer::HaltSet {
            principal: principal.as_ref(),
            strategy: set.strategy.as_ref(),
            symbol: set.symbol.as_ref(),
            bridge: set.bridge.as_ref(),
            drill,
        })?;
        // An agent does not take a halt of somebody else over: it stays theirs, with its reason.
        let earlier = turn.state.halts.of(principal.as_ref(), on.as_ref());
        let halt = match earlier.filter(|_| !is_human) {
            Some(earlier) if halt.keep_orders || !earlier.keep_orders => None,
            Some(earlier) => Some(Halt {
                keep_orders: false,
                ..earlier.clone()
            }),
            None => Some(halt),
        };
        let is_whole = principal.is_none() && on.is_none();
        let change = match (is_drill, halt) {
            // What a drill of a part shows is not what a stop of everything needs.
            (true, _) => is_whole.then_some(Change::Drilled { at: turn.now }),
            (false, halt) => halt.map(|halt| Change::HaltSet {
                principal,
                on,
                halt,
            }),
        };
        Ok(Outcome {
            data,
            changes: change.into_iter().collect(),
            ..Outcome::default()
        })
    }
}

/// Refuses a part of the account that neither the rules nor open positions and orders know.
fn exists(book: &Book, rules: &Rulebook, on: &On) -> Result<(), Refusal> {
    let (orders, positions) = (book.orders.values(), book.positions.values());
    let known: Vec<String> = match on {
        On::Strategy(_) => {
            let ruled = rules.strategies.keys().map(ToString::to_string);
            let open = orders.map(|order| order.strategy.to_string());
            let held = positions.map(|held| held.strategy.to_string());
            ruled.chain(open).chain(held).collect()
        }
        On::Symbol(_) => {
            let ruled = rules.instruments.keys().map(ToString::to_string);
            let open = orders.map(|order| order.symbol.to_string());
            let held = positions.map(|held| held.symbol.to_string());
            ruled.chain(open).chain(held).collect()
        }
        On::Bridge(_) => {
            let ruled = rules.principals.values();
            let ruled = ruled.filter(|rule| rule.role == Role::Bridge);
            let open = orders.filter_map(|order| order.at_venue.as_ref());
            let held = positions.filter_map(|held| held.held_at.as_ref());
            ruled
                .map(|rule| rule.name.to_string())
                .chain(open.map(|venue| venue.bridge.to_string()))
                .chain(held.map(|venue| venue.bridge.to_string()))
                .collect()
        }
    };
    let Named(kind, name) = Named::of(on);
    if known.contains(&name) {
        return Ok(());
    }
    let known = known.iter().map(String::as_str);
    Err(no_such(kind, &name, known, None))
}

/// What a part is called, and its name.
struct Named(&'static str, String);

impl Named {
    fn of(on: &On) -> Named {
        match on {
            On::Strategy(name) => Named("strategy", name.to_string()),
            On::Symbol(symbol) => Named("symbol", symbol.to_string()),
            On::Bridge(name) => Named("bridge", name.to_string()),
        }
    }
}
