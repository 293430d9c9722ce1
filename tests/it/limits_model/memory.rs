//! What checks read besides positions, orders and cash: the oracle keeps it itself, from what the
//! documents say.

use std::collections::{BTreeMap, BTreeSet};

use crate::paper_model::model::{Model, Owner, Print, Role};
use crate::paper_model::rational::Rat;

const DAY_MS: i64 = 86_400_000;

/// An accepted entry.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    pub at_ms: i64,
    pub source: String,
    pub owner: Owner,
    pub buys: bool,
    pub kind: crate::paper_model::model::Kind,
    pub size: Rat,
    /// Limit price or trigger.
    pub own: Option<Rat>,
}

/// Close, volume and time of the newest bar.
#[derive(Clone, Debug)]
pub(super) struct Trade {
    pub price: Rat,
    pub volume: Option<Rat>,
    pub ms: i64,
}

/// When a day or a week began, and with what.
#[derive(Clone, Debug)]
pub(super) struct Began {
    pub start_ms: i64,
    pub equity: Rat,
    pub deposits: Rat,
}

/// The record of a strategy.
#[derive(Clone, Debug, Default)]
pub(super) struct Doing {
    pub lost_in_a_row: u32,
    pub stopped_out_ms: Option<i64>,
    pub executed_ms: Vec<i64>,
    pub is_closed: bool,
}

/// What the oracle knows about a position besides size and cost.
#[derive(Clone, Debug)]
pub(super) struct Story {
    pub result: Rat,
    pub grown_ms: i64,
    pub theses: BTreeSet<String>,
}

#[derive(Default)]
pub(super) struct Memory {
    pub paper: Model,
    /// Sender and thesis by sequence number.
    pub sent: BTreeMap<u64, (String, String)>,
    pub accepted: Vec<Accepted>,
    pub stories: BTreeMap<Owner, Story>,
    pub doing: BTreeMap<String, Doing>,
    pub last: BTreeMap<String, Trade>,
    pub day: Option<Began>,
    pub week: Option<Began>,
    /// What entries have filled since the day began; nothing before anything filled.
    pub turned_over: Option<Rat>,
    pub peak: Option<Rat>,
    pub is_drawn_down: bool,
    /// Theses that were refuted for good, because a row reached their level while they were loaded.
    pub refuted: BTreeSet<String>,
}

/// Returns the midnight and the Monday, UTC, before an instant. 1 January 1970 was a Thursday.
pub(super) fn periods(ms: i64) -> (i64, i64) {
    let day = ms.div_euclid(DAY_MS);
    let monday = day - (day + 3).rem_euclid(7);
    (day * DAY_MS, monday * DAY_MS)
}

impl Memory {
    pub(super) fn deposits(&self) -> Rat {
        self.paper.deposits.clone().unwrap_or_else(Rat::zero)
    }

    /// A person deposits or withdraws: this is not profit or loss, so the peak moves by the same
    /// amount.
    pub(super) fn adjust(&mut self, amount: &Rat) {
        self.paper.deposit(amount);
        self.peak = self.peak.take().map(|peak| peak.plus(amount));
    }

    /// What happens at the beginning of a batch.
    pub(super) fn begin(&mut self, now_ms: i64) {
        self.paper.end_day(now_ms);
        self.begin_periods(now_ms);
    }

    /// Days and weeks are counted from the equity at their beginning.
    pub(super) fn begin_periods(&mut self, now_ms: i64) {
        let (day, week) = periods(now_ms);
        let Some(equity) = self.paper.equity() else {
            return;
        };
        let deposits = self.deposits();
        let renew = |known: &mut Option<Began>, start_ms: i64| {
            if known
                .as_ref()
                .is_none_or(|known| known.start_ms != start_ms)
            {
                *known = Some(Began {
                    start_ms,
                    equity: equity.clone(),
                    deposits: deposits.clone(),
                });
            }
        };
        if self.day.as_ref().is_none_or(|known| known.start_ms != day) {
            self.turned_over = None;
        }
        renew(&mut self.day, day);
        renew(&mut self.week, week);
    }

    /// Returns the profit or loss since then: the change of equity without deposits and
    /// withdrawals.
    pub(super) fn profit(&self, began: &Began, equity: &Rat) -> Rat {
        equity
            .minus(&began.equity)
            .minus(&self.deposits().minus(&began.deposits))
    }

    /// Applies a row, decided at `now_ms`, with the current limits. Returns how much filled.
    pub(super) fn row(
        &mut self,
        symbol: &str,
        print: &Print,
        now_ms: i64,
        executions: (u32, i64),
        max_drawdown: &Rat,
    ) -> usize {
        self.paper.row(symbol, print);
        let fills = std::mem::take(&mut self.paper.fills);
        let count = fills.len();
        for fill in fills {
            if fill.role == Role::Entry {
                let before = self.turned_over.take().unwrap_or_else(Rat::zero);
                self.turned_over = Some(before.plus(&fill.notional));
            }
            let doing = self.doing.entry(fill.owner.1.clone()).or_default();
            match fill.role {
                Role::Stop => doing.stopped_out_ms = Some(fill.ms),
                Role::Entry if fill.is_first => doing.executed_ms.push(fill.ms),
                _ => {}
            }
            // This applies to every fill, because the limit may have changed.
            let within = doing
                .executed_ms
                .iter()
                .filter(|ms| fill.ms - **ms < executions.1 * 1000);
            doing.is_closed |= within.count() >= usize::try_from(executions.0).unwrap();
            let story = self
                .stories
                .entry(fill.owner.clone())
                .or_insert_with(|| Story {
                    result: Rat::zero(),
                    grown_ms: now_ms,
                    theses: BTreeSet::new(),
                });
            story.result = story.result.plus(&fill.result);
            if !fill.closes {
                story.grown_ms = now_ms;
                story.theses.insert(self.sent[&fill.id.0].1.clone());
            }
            if fill.is_flat {
                let is_lost = story.result.is_negative();
                doing.lost_in_a_row = if is_lost { doing.lost_in_a_row + 1 } else { 0 };
                self.stories.remove(&fill.owner);
            }
        }
        if let Print::Bar {
            open_ms,
            length_ms,
            close,
            volume,
            ..
        } = print
        {
            let ms = open_ms + length_ms;
            self.last.insert(
                symbol.to_owned(),
                Trade {
                    price: close.clone(),
                    volume: volume.clone(),
                    ms,
                },
            );
        }
        self.watch(max_drawdown);
        count
    }

    /// Charges funding in a symbol; peak and drawdown follow.
    pub(super) fn fund(&mut self, symbol: &str, rate: &Rat, max_drawdown: &Rat) {
        self.paper.fund(symbol, rate);
        self.watch(max_drawdown);
    }

    fn watch(&mut self, max_drawdown: &Rat) {
        let Some(equity) = self.paper.equity() else {
            return;
        };
        // Nobody has looked at the gap in the price of a position.
        let is_gapped = self
            .paper
            .held
            .keys()
            .any(|(symbol, _)| self.paper.halted.contains(symbol));
        let may_rise = self.peak.is_none() || !is_gapped;
        if may_rise && self.peak.as_ref().is_none_or(|peak| *peak < equity) {
            self.peak = Some(equity.clone());
        }
        let peak = self.peak.clone().unwrap();
        if peak.is_positive() && peak.minus(&equity) >= peak.times(max_drawdown) {
            self.is_drawn_down = true;
        }
    }

    /// A person clears a strategy's record; a cooldown continues.
    pub(super) fn clear_strategy(&mut self, strategy: &str) {
        if let Some(doing) = self.doing.get_mut(strategy) {
            *doing = Doing {
                stopped_out_ms: doing.stopped_out_ms,
                ..Doing::default()
            };
        }
    }

    pub(super) fn clear_drawdown(&mut self) {
        self.peak = self.paper.equity();
        self.is_drawn_down = false;
    }

    /// Returns the theses of working entries and open positions.
    pub(super) fn is_in_use(&self, thesis: &str) -> bool {
        let entries = self
            .paper
            .orders
            .iter()
            .filter(|order| order.role == Role::Entry);
        let mut working = entries.map(|order| self.sent[&order.id.0].1.as_str());
        let mut held = self.stories.values().flat_map(|story| &story.theses);
        working.any(|used| used == thesis) || held.any(|used| used == thesis)
    }
}
