//! Whether strategies can enter: a probe is an order like any other, and what the gate would decide
//! on it is the answer. There is no second list of reasons.

use serde::Serialize;
use serde_json::json;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_rules::strategies::Direction;
use spoolgate_trading::smallest;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId, StrategyName, Symbol};
use spoolgate_wire::orders::{Side, SubmitOrder};
use spoolgate_wire::time::Time;

use crate::record::{Decision, Status};
use crate::state::State;

/// Most legs that are probed; the rest is counted.
pub const LEGS_MAX: usize = 2_000;
/// Most theses that are tried for a leg.
const THESES_MAX: usize = 8;

/// Checks that refuse a probe because of what its sender has just done, and pass by themselves.
const PASSING: [&str; 2] = ["duplicate_order", "message_rate"];

/// A strategy that may enter in one direction of an instrument, as far as its file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leg {
    /// The strategy.
    pub strategy: StrategyName,
    /// The instrument.
    pub symbol: Symbol,
    /// The direction.
    pub direction: Direction,
}

spoolgate_wire::named! {
    /// What would become of an entry.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    pub enum Standing {
        /// It would be accepted.
        Open = "open",
        /// A rule would hold it until a person decides.
        Held = "held",
        /// It would be refused.
        Closed = "closed",
    }
}

/// Why an entry would be held or refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The check or rule, or what is missing for an order.
    pub check: String,
    /// In words.
    pub why: String,
}

/// What would become of an entry of one leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// The leg.
    #[serde(flatten)]
    pub leg: Leg,
    /// What would become of it.
    pub entries: Standing,
    /// Why, unless it would be accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

/// Returns the legs of all strategies.
pub fn legs(rules: &Rulebook) -> impl Iterator<Item = Leg> {
    rules.strategies.values().flat_map(|strategy| {
        let legs = strategy.instruments.iter().flat_map(|symbol| {
            let directions = strategy.directions.iter();
            directions.map(move |direction| (symbol, *direction))
        });
        legs.map(|(symbol, direction)| Leg {
            strategy: strategy.name.clone(),
            symbol: symbol.clone(),
            direction,
        })
    })
}

/// Returns unsigned requests for the smallest entry of a leg, one for each thesis that it may have,
/// or why there are none. They differ from those of an agent in nothing but the signature.
///
/// # Errors
/// Returns the [`Cause`] if no order of this leg can be made.
pub fn probes(
    state: &State,
    rules: &Rulebook,
    leg: &Leg,
    now: Time,
) -> Result<Vec<Envelope>, Cause> {
    let Leg {
        strategy,
        symbol,
        direction,
    } = leg;
    let none = |check: &str, why: String| Cause {
        check: check.to_owned(),
        why,
    };
    let owner = rules
        .principals
        .values()
        .find(|rule| rule.role == Role::Agent && rule.strategies.contains(strategy));
    let owner = owner.ok_or_else(|| {
        let why = "no agent of rules/principals.yaml has the strategy".to_owned();
        none("strategy_active", why)
    })?;
    let Some(instrument) = rules.instruments.get(symbol) else {
        let why = format!("`{symbol}` is not in rules/instruments.yaml");
        return Err(none("instrument_allowed", why));
    };
    if state.book.two_sided(instrument).is_none() {
        let why = format!("no price of `{symbol}` is known; import or feed prices");
        return Err(none("market_data", why));
    }
    let theses = rules.theses.values().filter(|thesis| {
        thesis.strategy == *strategy && thesis.symbol == *symbol && thesis.direction == *direction
    });
    // Those that last longest first.
    let mut theses: Vec<_> = theses.collect();
    theses.sort_by_key(|thesis| std::cmp::Reverse(thesis.expires));
    if theses.is_empty() {
        let why = format!(
            "no thesis of proposals/theses is {} `{symbol}` for `{strategy}`",
            direction.as_str()
        );
        return Err(none("thesis_valid", why));
    }
    let side = match direction {
        Direction::Long => Side::Buy,
        Direction::Short => Side::Sell,
    };
    let orders = theses.into_iter().take(THESES_MAX).filter_map(|thesis| {
        let order = smallest::entry(&state.book, rules, (strategy, symbol, side), &thesis.slug)?;
        envelope(&owner.name, payload(&order), now)
    });
    let orders: Vec<Envelope> = orders.collect();
    match orders.is_empty() {
        true => {
            let why = "no smallest order can be computed exactly at this price".to_owned();
            Err(none("arithmetic_range", why))
        }
        false => Ok(orders),
    }
}

/// Returns the payload of an order, as an agent would write it.
fn payload(order: &SubmitOrder) -> String {
    let price = |price: Amount| price.normalized().to_string();
    let payload = json!({
        "strategy": order.strategy,
        "symbol": order.symbol,
        "side": order.side.as_str(),
        "size": price(order.size),
        "order_type": order.order_type.as_str(),
        "price": order.price.map(price),
        "stop_price": order.stop_price.map(price),
        "thesis_slug": order.thesis_slug,
        "planned_entry": price(order.planned_entry),
        "planned_stop": price(order.planned_stop),
    });
    payload.to_string()
}

fn envelope(source: &Principal, payload: String, now: Time) -> Option<Envelope> {
    // An id that nobody has used, so that the decision is not one that was made before.
    let id = format!("-probe-{}", now.ms());
    Some(Envelope {
        id: RequestId::parse(&id).ok()?,
        timestamp_text: now.to_string(),
        timestamp: now,
        action: ActionName::OrderSubmit.as_str().to_owned(),
        payload,
        source: source.clone(),
        signature: String::new(),
        causality: None,
    })
}

/// Returns what a decision on a probe says of its leg.
pub fn standing(decision: &Decision) -> (Standing, Option<Cause>) {
    let said = |row: &CheckRow| Cause {
        check: row.name.to_string(),
        why: row.reason.as_deref().unwrap_or("it refuses").to_owned(),
    };
    let lasts = |row: &&CheckRow| row.is_root() && !PASSING.contains(&row.name.as_ref());
    let first = decision.checks.iter().find(lasts).map(said);
    match (decision.status, first) {
        (Status::Success, _) => (Standing::Open, None),
        (Status::Held, first) => (Standing::Held, first),
        (_, Some(first)) => (Standing::Closed, Some(first)),
        // Nothing but what passes by itself refuses it.
        (_, None) if !decision.checks.is_empty() => (Standing::Open, None),
        (_, None) => {
            let code = decision.metadata.code;
            let cause = Cause {
                check: code.map_or_else(String::new, |code| code.to_string()),
                why: decision.metadata.message.clone().unwrap_or_default(),
            };
            (Standing::Closed, Some(cause))
        }
    }
}
