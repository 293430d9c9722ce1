//! Halts of entries: of everybody, of one principal, strategy, symbol or bridge, and by the file
//! `rules/HALT`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::state::State;
use spoolgate_rules::Rulebook;
use spoolgate_wire::admin::SetHalt;
use spoolgate_wire::ids::{Principal, StrategyName, Symbol};
use spoolgate_wire::time::Time;

/// Halts set by people, agents and the halt file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halts {
    /// Whether `rules/HALT` exists or cannot be checked.
    pub file: bool,
    /// Whether its first line is `flatten`, so that every position shall be flat.
    #[serde(default, skip_serializing_if = "is_false")]
    pub file_flattens: bool,
    /// A halt of all principals.
    pub all: Option<Halt>,
    /// Halts of single principals.
    pub principals: BTreeMap<Principal, Halt>,
    /// Halts of single strategies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub strategies: BTreeMap<StrategyName, Halt>,
    /// Halts of single symbols.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub symbols: BTreeMap<Symbol, Halt>,
    /// Halts of what goes through single bridges.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bridges: BTreeMap<Principal, Halt>,
}

/// One halt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Halt {
    /// Who set it.
    pub by: Principal,
    /// When it was set.
    pub at: Time,
    /// The reason.
    pub reason: String,
    /// Whether entries that work already stay.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_orders: bool,
    /// Whether the positions that it covers shall be flat.
    #[serde(default, skip_serializing_if = "is_false")]
    pub flatten: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
pub(super) fn is_false(flag: &bool) -> bool {
    !flag
}

/// A part of the account that a halt is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// A strategy.
    Strategy(StrategyName),
    /// A symbol.
    Symbol(Symbol),
    /// What goes through a bridge.
    Bridge(Principal),
}

impl fmt::Display for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            On::Strategy(name) => write!(f, "strategy `{name}`"),
            On::Symbol(symbol) => write!(f, "symbol `{symbol}`"),
            On::Bridge(name) => write!(f, "bridge `{name}`"),
        }
    }
}

impl On {
    /// Returns the part that a request names, if it names one.
    pub fn of(set: &SetHalt) -> Option<On> {
        let strategy = set.strategy.clone().map(On::Strategy);
        let symbol = set.symbol.clone().map(On::Symbol);
        strategy
            .or(symbol)
            .or_else(|| set.bridge.clone().map(On::Bridge))
    }

    /// The option of commands that names it.
    pub fn option(&self) -> String {
        match self {
            On::Strategy(name) => format!("--strategy {name}"),
            On::Symbol(symbol) => format!("--symbol {symbol}"),
            On::Bridge(name) => format!("--bridge {name}"),
        }
    }

    /// Whether an agent may halt it: a strategy that the rules give it.
    pub fn is_of(&self, rules: &Rulebook, agent: &Principal) -> bool {
        let rule = rules.principals.get(agent);
        matches!((rule, self), (Some(rule), On::Strategy(name)) if rule.strategies.contains(name))
    }
}

/// What a halt may cover.
#[derive(Clone, Copy, Debug)]
pub struct Covered<'a> {
    /// Who sent it.
    pub source: &'a Principal,
    /// Its strategy.
    pub strategy: &'a StrategyName,
    /// Its symbol.
    pub symbol: &'a Symbol,
    /// The bridge that it goes through; `None` on paper.
    pub bridge: Option<&'a Principal>,
}

impl Halt {
    /// Says who halted, when and why.
    pub fn told(&self) -> String {
        let stay = match (self.keep_orders, self.flatten) {
            (true, _) => "; working entries stay",
            (false, true) => "; positions are closed at the market",
            (false, false) => "",
        };
        format!(
            "halted by `{}` at {}: {}{stay}",
            self.by, self.at, self.reason
        )
    }
}

impl Halts {
    /// Returns the halt of exactly this: of everybody if nothing is named.
    pub fn of(&self, principal: Option<&Principal>, on: Option<&On>) -> Option<&Halt> {
        match (principal, on) {
            (_, Some(On::Strategy(name))) => self.strategies.get(name),
            (_, Some(On::Symbol(symbol))) => self.symbols.get(symbol),
            (_, Some(On::Bridge(name))) => self.bridges.get(name),
            (Some(name), None) => self.principals.get(name),
            (None, None) => self.all.as_ref(),
        }
    }

    /// Sets a halt. It stays as strict as it was: a person clears it first to make it weaker.
    pub(super) fn set(&mut self, principal: Option<&Principal>, on: Option<&On>, halt: &Halt) {
        let mut halt = halt.clone();
        if let Some(earlier) = self.of(principal, on) {
            halt.flatten |= earlier.flatten;
            halt.keep_orders &= earlier.keep_orders && !halt.flatten;
        }
        match (principal, on) {
            (_, Some(On::Strategy(name))) => drop(self.strategies.insert(name.clone(), halt)),
            (_, Some(On::Symbol(symbol))) => drop(self.symbols.insert(symbol.clone(), halt)),
            (_, Some(On::Bridge(name))) => drop(self.bridges.insert(name.clone(), halt)),
            (Some(name), None) => drop(self.principals.insert(name.clone(), halt)),
            (None, None) => self.all = Some(halt),
        }
    }

    pub(super) fn clear(&mut self, principal: Option<&Principal>, on: Option<&On>) {
        match (principal, on) {
            (_, Some(On::Strategy(name))) => drop(self.strategies.remove(name)),
            (_, Some(On::Symbol(symbol))) => drop(self.symbols.remove(symbol)),
            (_, Some(On::Bridge(name))) => drop(self.bridges.remove(name)),
            (Some(name), None) => drop(self.principals.remove(name)),
            (None, None) => self.all = None,
        }
    }

    /// Whether a halt demands that positions are flat.
    pub(super) fn flattens(&self) -> bool {
        let mut halts = self
            .all
            .iter()
            .chain(self.principals.values())
            .chain(self.strategies.values())
            .chain(self.symbols.values())
            .chain(self.bridges.values());
        self.file_flattens || halts.any(|halt| halt.flatten)
    }

    /// Lists the halts of strategies, symbols and bridges.
    pub fn parts(&self) -> impl Iterator<Item = (On, &Halt)> {
        let strategies = self.strategies.iter();
        let symbols = self.symbols.iter();
        let bridges = self.bridges.iter();
        strategies
            .map(|(name, halt)| (On::Strategy(name.clone()), halt))
            .chain(symbols.map(|(symbol, halt)| (On::Symbol(symbol.clone()), halt)))
            .chain(bridges.map(|(name, halt)| (On::Bridge(name.clone()), halt)))
    }

    fn of_sender(&self, principal: &Principal, is_working: bool) -> Option<String> {
        if self.file {
            return Some("rules/HALT exists; a person must remove the file".to_owned());
        }
        let own = self.principals.get(principal);
        let mut halts = self.all.iter().chain(own);
        halts
            .find(|halt| !(is_working && halt.keep_orders))
            .map(|halt| format!("{}; a person must clear the halt", halt.told()))
    }

    /// Returns why an entry is halted, if it is. With `is_working` the entry was accepted before, so
    /// halts that keep such orders do not count.
    pub fn covers(&self, entry: &Covered<'_>, is_working: bool) -> Option<String> {
        self.of_sender(entry.source, is_working).or_else(|| {
            let strategy = || On::Strategy(entry.strategy.clone());
            let symbol = || On::Symbol(entry.symbol.clone());
            let bridge = entry.bridge.map(|name| On::Bridge(name.clone()));
            let mut parts = [strategy(), symbol()].into_iter().chain(bridge);
            parts.find_map(|on| {
                let halt = self
                    .of(None, Some(&on))
                    .filter(|halt| !(is_working && halt.keep_orders))?;
                Some(format!(
                    "{on} is {}; a person must clear the halt",
                    halt.told()
                ))
            })
        })
    }
}

impl State {
    /// Returns why all entries of `principal` are halted, if they are.
    pub fn halted(&self, principal: &Principal) -> Option<String> {
        self.halts.of_sender(principal, false)
    }
}
