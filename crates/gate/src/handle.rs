//! The inputs of one decision, and the outcome of carrying out a permitted request.

use serde::Serialize;
use serde_json::value::RawValue;

use super::approvals::{Granted, Resolution};
use super::control;
use super::decide::Lookups;
use super::gateway::Begins;
use super::halts::Covered;
use super::prepare::{Authentic, Refusal};
use super::record::MarketRows;
use super::state::{Change, State};
use spoolgate_admission::Receipt;
use spoolgate_admission::receipt::Counters;
use spoolgate_outgoing::anomaly::Anomaly;
use spoolgate_rules::Rulebook;
use spoolgate_trading::requests::{Context, Messages, Verdict};
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, RuleId};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::repair::Repair;
use spoolgate_wire::time::Time;

/// The inputs of one decision.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// The gate's state.
    pub state: &'a State,
    /// The rulebook in force, or the last good one.
    pub rules: &'a Rulebook,
    /// Unbounded facts that were looked up.
    pub lookups: &'a Lookups,
    /// The time of the batch.
    pub now: Time,
    /// Number of the first line that this decision writes.
    pub seq: u64,
    /// The granted hold, if a held request is decided again.
    pub granted: Option<Granted<'a>>,
}

/// The outcome of carrying out a request.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The check vector and ruling of order requests.
    pub verdict: Option<Verdict>,
    /// The order that it makes or is about.
    pub order_id: Option<OrderId>,
    /// How to try again after a verdict that refuses, if its first failed check has its own word.
    pub repair: Option<Repair>,
    /// The body of the answer to any other request.
    pub data: Option<Box<RawValue>>,
    /// Its changes to the state.
    pub changes: Vec<Change>,
    /// Lines of market rows.
    pub market: Vec<MarketRows>,
    /// The check vector of requests that are answered with a body.
    pub judged: Option<Judged>,
    /// The receipt of admission.
    pub receipt: Option<Receipt>,
    /// The receipt's counters without the task.
    pub without_task: Option<Counters>,
    /// The facts that rules have read, as JSON.
    pub facts: Option<String>,
    /// Anomalies that hold it, if nothing else keeps it from being carried out.
    pub anomalies: Vec<Anomaly>,
    /// The outgoing action to start once its line is durable.
    pub begins: Option<Box<Begins>>,
    /// Rules that hold it, if nothing else keeps it from being carried out.
    pub holds: Vec<RuleId>,
    /// The hold that it ends.
    pub resolves: Option<Resolution>,
}

impl Outcome {
    /// The outcome of a request that is refused with a message only.
    pub fn refused(refusal: Refusal) -> Outcome {
        let judged = Some(Judged {
            rows: Vec::new(),
            refusal: Some(refusal),
        });
        Outcome {
            judged,
            ..Outcome::default()
        }
    }

    /// Why it is refused, if it also has a body.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.judged.as_ref()?.refusal.as_ref()
    }
}

/// A check vector beside an answer's body.
#[derive(Debug)]
pub struct Judged {
    /// The rows.
    pub rows: Vec<CheckRow>,
    /// Why the answer is an error, if it is one.
    pub refusal: Option<Refusal>,
}

/// Serialises the body of an answer, externally tagged as in the contract.
pub(super) fn data(body: &impl Serialize) -> Result<Option<Box<RawValue>>, Refusal> {
    serde_json::value::to_raw_value(body)
        .map(Some)
        .map_err(|error| {
            Refusal::new(
                Code::Internal,
                format!("the answer cannot be written: {error}"),
            )
        })
}

/// The outcome of a query.
pub(super) fn answer(body: &impl Serialize) -> Result<Outcome, Refusal> {
    Ok(Outcome {
        data: data(body)?,
        ..Outcome::default()
    })
}

impl Turn<'_> {
    /// When a request was signed, on the ledger's clock. After the machine's clock stepped back,
    /// the ledger's clock waits for it to catch up, and new requests would look as old as the step
    /// is wide: exits and `clock.accept` would be refused when they are needed most. Senders may
    /// have stepped with the gate or not, so the nearer of both readings counts; entries stay
    /// closed until a person has checked the clock.
    pub(super) fn signed_at(&self, signed: Time) -> Time {
        let Some(fault) = &self.state.clock.fault else {
            return signed;
        };
        let step_ms = fault.from.since_ms(fault.to);
        let stepped = signed.plus_ms(step_ms.max(0));
        let distance = |time: Time| self.now.since_ms(time).unsigned_abs();
        if distance(stepped) < distance(signed) {
            stepped
        } else {
            signed
        }
    }

    /// Runs `decide` with the context of an order request. `may_enter` is an order that may
    /// open a position.
    pub(super) fn in_context<T>(
        &self,
        authentic: &Authentic,
        may_enter: Option<&SubmitOrder>,
        decide: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let source = &authentic.envelope.source;
        let halted = match may_enter {
            None => self.state.halted(source),
            Some(order) => {
                let instrument = self.rules.instruments.get(&order.symbol);
                let entry = Covered {
                    source,
                    strategy: &order.strategy,
                    symbol: &order.symbol,
                    bridge: instrument.and_then(|of| of.bridge.as_ref()),
                };
                self.state.halts.covers(&entry, false)
            }
        };
        let clock_fault = self.state.clock_fault();
        let unheard = self.state.dead_man.closes(source);
        let control =
            may_enter.map(|order| control::of_entries(self.state, self.rules, &order.strategy));
        let (paused, limit_factor) = control.unwrap_or_default();
        let context = Context {
            now: self.now,
            requested_at: match self.granted {
                // It was fresh when it was held.
                Some(_) => self.now,
                None => self.signed_at(authentic.envelope.timestamp),
            },
            source,
            order_id: OrderId::of_line(self.seq),
            halted: halted.as_deref(),
            unheard: unheard.as_deref(),
            messages: match self.granted {
                // It was counted when it was held.
                Some(_) => Messages::default(),
                None => self.state.rates.with_one_more(source, self.now),
            },
            clock_fault: clock_fault.as_deref(),
            rulebook_fault: self.state.rulebook.fault.as_deref(),
            closed_order: self.lookups.closed_order.as_ref(),
            key_id: Some(&authentic.key_id),
            key_fault: None,
            paused: paused.as_deref(),
            limit_factor,
        };
        decide(&context)
    }

    pub(super) fn order(
        &self,
        authentic: &Authentic,
        decide: impl Fn(&Context<'_>) -> Verdict,
        may_enter: Option<&SubmitOrder>,
        about: Option<OrderId>,
    ) -> Outcome {
        let mut verdict = self.in_context(authentic, may_enter, decide);
        // A market exit that merges into one that waits has no order of its own.
        let merged = verdict.changes.iter().find_map(|change| match change {
            spoolgate_trading::Change::ExitMerged(merged) => Some(merged.order_id),
            _ => None,
        });
        let changes = std::mem::take(&mut verdict.changes)
            .into_iter()
            .map(Change::Book)
            .collect();
        Outcome {
            verdict: Some(verdict),
            order_id: about
                .or(merged)
                .or_else(|| Some(OrderId::of_line(self.seq))),
            changes,
            ..Outcome::default()
        }
    }
}
