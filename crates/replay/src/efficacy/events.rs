//! The events of one rule. An event opens with an entry that only this rule stops, or would stop in
//! shadow, and lasts until the replay of that entry has closed or ended unfilled. Later entries of
//! the same strategy, symbol and side meanwhile are repeats, whatever stopped them; the first that
//! the rule lets pass, and that nothing refused but an open entry before it, is the *instead*. So
//! retries count once, and the rule has the same events in force and in shadow.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use spoolgate_gate::efficacy::effect::{Days, Effect};
use spoolgate_gate::efficacy::{TooLarge, Trades};
use spoolgate_gate::fired::Tally;
use spoolgate_trading::counterfactual::Progress;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol};
use spoolgate_wire::orders::Side;
use spoolgate_wire::time::Time;

/// What entries of one event have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) strategy: StrategyName,
    pub(crate) symbol: Symbol,
    pub(crate) side: Side,
}

/// What a rule did to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    /// It refused or held the entry, or would have in shadow.
    Stops,
    /// The entry is in its scope, and it let the entry pass.
    Passes,
    /// The entry is not in its scope.
    Outside,
}

/// What refused or held an entry besides the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    /// Nothing.
    Nothing,
    /// Only `duplicate_order` and `thesis_valid`, as they do while an earlier entry is open.
    AlreadyOpen,
    /// Checks of the program, and among them one that is not of these two.
    Limits,
    /// Another rule, or something before the checks.
    Else,
}

/// An entry as it arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival<'a> {
    /// Its ledger line.
    pub(crate) seq: u64,
    pub(crate) key: &'a Key,
    pub(crate) at: Time,
    pub(crate) regime: &'a str,
    /// Its risk, account currency; `None` if it could not be computed.
    pub(crate) risk: Option<Amount>,
    /// Its size, units.
    pub(crate) size: Amount,
    pub(crate) was_accepted: bool,
    /// Whether its replay can be followed.
    pub(crate) has_room: bool,
}

impl Arrival<'_> {
    fn leg_if_accepted(&self) -> Option<(Symbol, StrategyName)> {
        let leg = || (self.key.symbol.clone(), self.key.strategy.clone());
        self.was_accepted.then(leg)
    }
}

/// What the replay of an entry is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It opened the event of this line.
    Blocked(u64),
    /// It came instead, in the event of this line.
    Instead(u64),
    /// The rule let it through, in this regime.
    LetThrough(String),
}

/// What becomes of an entry that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Its replay is to be followed for the rule.
    Followed(Part),
    /// Its replay would have to be followed, and there is no room.
    NotFollowed,
    /// It is not replayed for this rule.
    Ignored,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Events {
    /// Events that opened.
    pub opened: u64,
    /// Events whose effect is known, and in which the blocked entry was filled.
    pub closed: u64,
    /// Events that ended without a fill. They have no effect.
    pub unfilled: u64,
    /// Events whose effect is not known: the rows end first, the risk could not be computed, or the
    /// *instead* was not followed.
    pub open: u64,
    /// Entries that came while an event of their strategy, symbol and side was open.
    pub repeats: u64,
    /// Events with a repeat that came instead.
    pub instead: u64,
    /// Entries that would have counted if no limit had refused them, while an entry or a position
    /// was open that the rule, in shadow, had let in, or that was accepted as a repeat.
    pub displaced: u64,
}

/// What a rule did, and how the trades would have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Counts of requests that the rule fired on.
    pub tally: Tally,
    /// Counts of events.
    pub events: Events,
    /// The entries that opened events.
    pub blocked: Trades,
    /// The entries that came instead.
    pub instead: Trades,
    /// Accepted entries in its scope on which it did not fire, repeats left out.
    pub let_through: Trades,
    /// Effects of the closed events.
    #[serde(skip)]
    pub days: Days,
}

/// What came instead of the entry that opened an event.
#[derive(Clone, Copy, Debug)]
enum Instead {
    Nothing,
    Followed,
    /// It came, and its replay is not followed.
    NotFollowed,
    Ended(Progress),
}

/// An event whose effect is not known yet.
#[derive(Clone, Debug)]
struct Event {
    at: Time,
    regime: String,
    risk: Option<Amount>,
    size: Amount,
    key: Key,
    blocked: Progress,
    instead: Instead,
}

/// The events of one rule, and its figures by regime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tracker {
    regimes: BTreeMap<String, Figures>,
    /// The line of the event that is open.
    open: BTreeMap<Key, u64>,
    /// Events without an effect yet, by line: those that are open, and those whose *instead* is.
    events: BTreeMap<u64, Event>,
    /// Legs with an entry that would not be there if the status of the rule were another: one that
    /// it let in, in shadow, or an accepted repeat.
    let_in: BTreeSet<(Symbol, StrategyName)>,
}

fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}

impl Tracker {
    /// Returns the figures of a regime.
    pub(crate) fn of_regime(&mut self, regime: &str) -> &mut Figures {
        self.regimes.entry(regime.to_owned()).or_default()
    }

    /// Whether an event of this key is open.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.open.contains_key(key)
    }

    /// Forgets the legs that are flat again.
    pub(crate) fn forget(&mut self, is_held: impl Fn(&(Symbol, StrategyName)) -> bool) {
        self.let_in.retain(is_held);
    }

    /// Takes in an entry.
    pub(crate) fn arrive(&mut self, it: &Arrival<'_>, sight: Sight, others: Others) -> Arrived {
        let is_displaced = sight != Sight::Outside && !self.let_in.is_empty();
        let is_refused = matches!(others, Others::AlreadyOpen | Others::Limits);
        if let Some(line) = self.open.get(it.key).copied() {
            return self.repeat(line, it, sight, others);
        }
        match (sight, others) {
            (Sight::Stops, Others::Nothing) if it.has_room => Arrived::Followed(self.begin(it)),
            (Sight::Passes, Others::Nothing) if it.has_room => {
                Arrived::Followed(Part::LetThrough(it.regime.to_owned()))
            }
            (Sight::Stops | Sight::Passes, Others::Nothing) => Arrived::NotFollowed,
            (Sight::Stops | Sight::Passes | Sight::Outside, _) => {
                if is_displaced && is_refused {
                    add(&mut self.of_regime(it.regime).events.displaced);
                }
                Arrived::Ignored
            }
        }
    }

    /// Opens an event.
    fn begin(&mut self, it: &Arrival<'_>) -> Part {
        add(&mut self.of_regime(it.regime).events.opened);
        self.let_in.extend(it.leg_if_accepted());
        self.open.insert(it.key.clone(), it.seq);
        let event = Event {
            at: it.at,
            regime: it.regime.to_owned(),
            risk: it.risk,
            size: it.size,
            key: it.key.clone(),
            blocked: Progress::Open,
            instead: Instead::Nothing,
        };
        self.events.insert(it.seq, event);
        Part::Blocked(it.seq)
    }

    /// Takes in an entry while the event of this line is open.
    fn repeat(&mut self, line: u64, it: &Arrival<'_>, sight: Sight, others: Others) -> Arrived {
        let Some(event) = self.events.get_mut(&line) else {
            return Arrived::Ignored;
        };
        let events = &mut self.regimes.entry(event.regime.clone()).or_default().events;
        add(&mut events.repeats);
        self.let_in.extend(it.leg_if_accepted());
        // A larger one would weigh more than the blocked order, in whose R it is measured.
        let is_instead = sight == Sight::Passes && it.size <= event.size;
        if !is_instead || !matches!(event.instead, Instead::Nothing) {
            return Arrived::Ignored;
        }
        match others {
            Others::Nothing | Others::AlreadyOpen => {
                add(&mut events.instead);
                if it.has_room {
                    event.instead = Instead::Followed;
                    Arrived::Followed(Part::Instead(line))
                } else {
                    event.instead = Instead::NotFollowed;
                    Arrived::NotFollowed
                }
            }
            Others::Limits => {
                if !self.let_in.is_empty() {
                    add(&mut events.displaced);
                }
                Arrived::Ignored
            }
            Others::Else => Arrived::Ignored,
        }
    }

    /// Notes how the replay of an entry ended; `Open` if the rows ended first.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if a sum cannot be held exactly.
    pub(crate) fn ended(&mut self, part: &Part, progress: Progress) -> Result<(), TooLarge> {
        let line = match part {
            Part::LetThrough(regime) => {
                return self.of_regime(regime).let_through.count(progress);
            }
            Part::Blocked(line) | Part::Instead(line) => *line,
        };
        let Some(event) = self
            .events
            .get_mut(&line)
            .filter(|_| progress != Progress::Open)
        else {
            return Ok(());
        };
        if matches!(part, Part::Blocked(_)) {
            event.blocked = progress;
            self.open.remove(&event.key);
        } else {
            event.instead = Instead::Ended(progress);
        }
        let instead = match event.instead {
            Instead::Nothing => None,
            Instead::Ended(progress) => Some(progress),
            Instead::Followed | Instead::NotFollowed => return Ok(()),
        };
        if event.blocked == Progress::Open {
            return Ok(());
        }
        match self.events.remove(&line) {
            Some(event) => self.settle(&event, instead),
            None => Ok(()),
        }
    }

    /// Counts an event whose replays have all ended.
    fn settle(&mut self, event: &Event, instead: Option<Progress>) -> Result<(), TooLarge> {
        let net = |progress| match progress {
            Progress::Closed(trade) => Some(trade.net),
            Progress::Open | Progress::NeverFilled => None,
        };
        let (blocked, other) = (net(event.blocked), instead.and_then(net));
        let figures = self.of_regime(&event.regime);
        // An order that would have done nothing costs its sender nothing, so nothing follows from it.
        if let Some(blocked) = blocked {
            let other = other.unwrap_or(Amount::ZERO);
            let effect = event.risk.and_then(|risk| Effect::of(blocked, other, risk));
            let Some(effect) = effect else {
                return figures.leave_open();
            };
            figures.days.add(event.at, effect);
            add(&mut figures.events.closed);
        } else {
            add(&mut figures.events.unfilled);
        }
        figures.blocked.count(event.blocked)?;
        instead.map_or(Ok(()), |progress| figures.instead.count(progress))
    }

    /// Ends all events, and returns the figures by regime.
    ///
    /// # Errors
    /// Returns [`TooLarge`] if a sum cannot be held exactly.
    pub(crate) fn finish(mut self) -> Result<BTreeMap<String, Figures>, TooLarge> {
        for event in std::mem::take(&mut self.events).into_values() {
            self.of_regime(&event.regime).leave_open()?;
        }
        Ok(self.regimes)
    }
}

impl Figures {
    fn leave_open(&mut self) -> Result<(), TooLarge> {
        add(&mut self.events.open);
        self.blocked.count(Progress::Open)
    }

    /// Adds up both.
    pub(super) fn with(&self, other: &Figures) -> Result<Figures, TooLarge> {
        let mut days = self.days.clone();
        days.add_all(&other.days);
        Ok(Figures {
            tally: self.tally.with(&other.tally),
            events: self.events.with(&other.events),
            blocked: self.blocked.with(&other.blocked)?,
            instead: self.instead.with(&other.instead)?,
            let_through: self.let_through.with(&other.let_through)?,
            days,
        })
    }

    /// Losses avoided less profits missed, with what came instead, account currency.
    pub(super) fn savings(&self) -> Option<Amount> {
        let instead = self.instead.won.checked_sub(self.instead.lost)?;
        self.blocked.savings()?.checked_add(instead)
    }
}

impl Events {
    fn with(&self, other: &Events) -> Events {
        Events {
            opened: self.opened.saturating_add(other.opened),
            closed: self.closed.saturating_add(other.closed),
            unfilled: self.unfilled.saturating_add(other.unfilled),
            open: self.open.saturating_add(other.open),
            repeats: self.repeats.saturating_add(other.repeats),
            instead: self.instead.saturating_add(other.instead),
            displaced: self.displaced.saturating_add(other.displaced),
        }
    }
}

#[cfg(test)]
mod tests;
