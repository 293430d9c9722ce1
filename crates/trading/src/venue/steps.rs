//! Cuts the work of the venue into steps that each fit one ledger line.

use serde::Serialize;

use std::collections::{BTreeMap, VecDeque};

use crate::book::{Last, Quote, Traded, WINDOW};
use crate::change::Change;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Symbol};
use spoolgate_wire::time::Time;

/// Maximum bytes of JSON for the changes of a step.
const STEP_BYTES_MAX: usize = 40_000;

/// Bytes reserved for the end of a step: the market with its window, the peak and the drawdown.
const CLOSING_BYTES: usize = 2_500;

/// What some of the rows did to the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the first row that this step completes.
    pub first_row: usize,
    /// How many rows this step completes; 0 if the fills of one row continue in the next step.
    pub row_count: usize,
    /// The changes, in order; at most 40,000 bytes as JSON.
    pub changes: Vec<Change>,
    /// Orders that the market reached, with the reason why they did not fill.
    pub left_open: Vec<LeftOpen>,
}

/// An order that the market reached and the venue could not fill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LeftOpen {
    /// The order.
    pub order_id: OrderId,
    /// Why it could not be filled.
    pub reason: String,
}

/// Collects changes. Market, peak and drawdown are written once per step, with their final values:
/// no change folded in between reads them.
pub(super) struct Steps {
    symbol: Symbol,
    done: Vec<Step>,
    changes: Vec<Change>,
    bytes: usize,
    first_row: usize,
    rows_done: usize,
    earlier: VecDeque<Traded>,
    last: Option<Last>,
    quote: Option<Quote>,
    reached: Option<Time>,
    peak: Option<Amount>,
    latched: Option<Change>,
    left_open: BTreeMap<OrderId, String>,
}

impl Steps {
    pub(super) fn new(symbol: Symbol) -> Steps {
        Steps {
            symbol,
            done: Vec::new(),
            changes: Vec::new(),
            bytes: 2,
            first_row: 0,
            rows_done: 0,
            earlier: VecDeque::new(),
            last: None,
            quote: None,
            reached: None,
            peak: None,
            latched: None,
            left_open: BTreeMap::new(),
        }
    }

    /// Adds a change, to a new step if the current one is full.
    pub(super) fn push(&mut self, change: Change) {
        // A change always serialises; if it did not, counting it as a full step would still
        // separate the others.
        let bytes =
            serde_json::to_vec(&change).map_or(STEP_BYTES_MAX, |json| json.len().saturating_add(1));
        let room = STEP_BYTES_MAX.saturating_sub(CLOSING_BYTES);
        if self.bytes.saturating_add(bytes) > room && !self.changes.is_empty() {
            self.cut();
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.changes.push(change);
    }

    /// Adds a change that must follow what the rows before it did to the market.
    pub(super) fn push_in_order(&mut self, change: Change) {
        let room = STEP_BYTES_MAX.saturating_sub(CLOSING_BYTES.saturating_mul(2));
        if self.bytes > room {
            self.cut();
        }
        if let Some(moved) = self.moved() {
            self.push(moved);
        }
        self.push(change);
    }

    pub(super) fn market(
        &mut self,
        last: Option<Last>,
        quote: Option<Quote>,
        reached: Option<Time>,
    ) {
        if let Some(last) = last
            && let Some(before) = self.last.replace(last)
        {
            // The window of the book holds at most these and the newest one.
            while self.earlier.len() >= WINDOW {
                self.earlier.pop_front();
            }
            self.earlier.push_back(Traded(before.price, before.volume));
        }
        self.quote = quote.or_else(|| self.quote.take());
        self.reached = reached.or(self.reached);
    }

    pub(super) fn peak(&mut self, equity: Amount) {
        self.peak = Some(equity);
    }

    pub(super) fn latched(&mut self, change: Change) {
        self.latched = Some(change);
    }

    pub(super) fn left_open(&mut self, order_id: OrderId, reason: String) {
        self.left_open.insert(order_id, reason);
    }

    pub(super) fn row_done(&mut self) {
        self.rows_done = self.rows_done.saturating_add(1);
    }

    /// Takes what the rows did to the market.
    fn moved(&mut self) -> Option<Change> {
        if self.last.is_none() && self.quote.is_none() {
            return None;
        }
        Some(Change::MarketMoved {
            symbol: self.symbol.clone(),
            earlier: std::mem::take(&mut self.earlier).into(),
            last: self.last.take(),
            quote: self.quote.take(),
            reached: self.reached.take(),
        })
    }

    /// Starts a new step if what follows from a report might not fit the current one.
    pub(super) fn make_room(&mut self) {
        if self.bytes > STEP_BYTES_MAX / 4 {
            self.cut();
        }
    }

    /// Returns how many steps are closed.
    pub(super) fn lines(&self) -> u64 {
        u64::try_from(self.done.len()).unwrap_or(u64::MAX)
    }

    /// Closes the current step.
    pub(super) fn cut(&mut self) {
        let moved = self.moved();
        self.changes.extend(moved);
        if let Some(equity) = self.peak.take() {
            self.changes.push(Change::PeakRaised { equity });
        }
        self.changes.extend(self.latched.take());
        let left_open = std::mem::take(&mut self.left_open);
        self.done.push(Step {
            first_row: self.first_row,
            row_count: self.rows_done,
            changes: std::mem::take(&mut self.changes),
            left_open: left_open
                .into_iter()
                .map(|(order_id, reason)| LeftOpen { order_id, reason })
                .collect(),
        });
        self.first_row = self.first_row.saturating_add(self.rows_done);
        self.rows_done = 0;
        self.bytes = 2;
    }

    /// Returns all steps. Rows that changed nothing do not make a step of their own.
    pub(super) fn finish(mut self) -> Vec<Step> {
        let is_idle = self.changes.is_empty() && self.last.is_none() && self.quote.is_none();
        if !is_idle {
            self.cut();
        } else if let Some(step) = self.done.last_mut() {
            step.row_count = step.row_count.saturating_add(self.rows_done);
        }
        self.done
    }
}
