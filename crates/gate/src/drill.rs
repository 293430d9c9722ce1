//! A drill of the kill switch: what a halt that closes positions would end, without ending it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::flatten;
use super::halts::{Covered, Halt, Halts, On};
use super::state::State;
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// What a halt would end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Drill {
    /// Working entries that it would pull.
    pub entries: u64,
    /// Positions that it would close if it demanded that.
    pub positions: u64,
    /// Resting exits and targets that it would retire if it closed the positions.
    pub exits: u64,
    /// The bridges that would carry that out, by name.
    pub bridges: Vec<BridgeDrill>,
}

/// What a halt would ask of one bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BridgeDrill {
    /// The bridge.
    pub bridge: Principal,
    /// Entries and resting exits that it would have to cancel, and positions that it would close.
    pub instructions: u64,
    /// When it last reported; null if it never has, as far as the book remembers.
    pub heard_at: Option<Time>,
    /// How long ago that was, milliseconds.
    pub heard_ms: Option<u64>,
}

/// Counts what a halt of a principal, of a part of the account, or of everybody would end now.
pub fn drill(
    state: &State,
    rules: &Rulebook,
    principal: Option<&Principal>,
    on: Option<&On>,
    halt: &Halt,
) -> Drill {
    let mut halts = Halts::default();
    let halt = Halt {
        flatten: true,
        ..halt.clone()
    };
    halts.set(principal, on, &halt);
    let (mut drill, mut bridges) = (Drill::default(), BTreeMap::new());
    let mut ask = |bridge: Option<&Principal>| {
        if let Some(bridge) = bridge {
            let asked: &mut u64 = bridges.entry(bridge.clone()).or_default();
            *asked = asked.saturating_add(1);
        }
    };
    for order in state.book.orders.values() {
        let bridge = order.at_venue.as_ref().map(|venue| &venue.bridge);
        let entry = Covered {
            source: &order.source,
            strategy: &order.strategy,
            symbol: &order.symbol,
            bridge,
        };
        let is_pulled = order.role == OrderRole::Entry && halts.covers(&entry, true).is_some();
        if order.ending().is_none() && is_pulled {
            drill.entries = drill.entries.saturating_add(1);
            ask(bridge);
        }
    }
    for position in state.book.positions.values() {
        if position.is_dust() || flatten::demanded(&halts, rules, position).is_none() {
            continue;
        }
        drill.positions = drill.positions.saturating_add(1);
        ask(position.held_at.as_ref().map(|held_at| &held_at.bridge));
        for order in flatten::resting(&state.book, position) {
            drill.exits = drill.exits.saturating_add(1);
            ask(order.at_venue.as_ref().map(|venue| &venue.bridge));
        }
    }
    let heard = |bridge: &Principal| state.book.heard.get(bridge).copied();
    let bridges = bridges.into_iter();
    drill.bridges = bridges
        .map(|(bridge, instructions)| BridgeDrill {
            instructions,
            heard_at: heard(&bridge),
            heard_ms: heard(&bridge).map(|at| u64::try_from(halt.at.since_ms(at)).unwrap_or(0)),
            bridge,
        })
        .collect();
    drill
}
