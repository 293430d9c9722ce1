//! Carrying out one permitted request: one arm an action.

use serde::Serialize;
use serde_json::value::RawValue;

use super::admission::PolicyHealth;
use super::approvals::{Granted, Resolution};
use super::control;
use super::council::Closing;
use super::decide::{FILLS_MAX, Lookups};
use super::gateway::Begins;
use super::market::{RowSource, Run};
use super::portfolio::portfolio;
use super::prepare::{Authentic, Body, Payload, Refusal};
use super::record::MarketRows;
use super::state::{Change, Halt, KeyRecord, State};
use crate::actions::anomaly::Anomaly;
use crate::admission::Receipt;
use crate::admission::receipt::Counters;
use crate::rules::Rulebook;
use crate::rules::principals::Role;
use crate::trading::market::row;
use crate::trading::order::Fill;
use crate::trading::requests::{Context, Messages, Verdict};
use crate::trading::venue::report::{Refused, Reporting, on_report};
use crate::trading::venue::{self, LeftOpen};
use crate::trading::{self, views};
use crate::wire::admin::{
    AddKey, AdjustAccount, ClearHalt, HaltScope, ImportMarket, RevokeKey, SetHalt, UpdateFunding,
};
use crate::wire::amount::Amount;
use crate::wire::approvals::HoldId;
use crate::wire::code::Code;
use crate::wire::ids::{
    ExecId, OrderId, Principal, Regime, RequestId, RuleId, SetName, StrategyName, Symbol, TaskName,
};
use crate::wire::orders::CheckResult;
use crate::wire::time::Time;
use crate::wire::venue::VenueReport;

/// What one decision reads.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// What the gate knows.
    pub state: &'a State,
    /// The rulebook in force, or the last good one.
    pub rules: &'a Rulebook,
    /// Unbounded facts.
    pub lookups: &'a Lookups,
    /// One instant a batch.
    pub now: Time,
    /// Number of the first line that this decision writes.
    pub seq: u64,
    /// The hold that is granted, where a held request is decided again.
    pub granted: Option<Granted<'a>>,
}

/// What carrying out came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The check vector and ruling of order requests.
    pub verdict: Option<Verdict>,
    /// The order made or meant.
    pub order_id: Option<OrderId>,
    /// The answer's body of everything else.
    pub data: Option<Box<RawValue>>,
    /// What it does.
    pub changes: Vec<Change>,
    /// Lines of market rows.
    pub market: Vec<MarketRows>,
    /// The council's decision that it brings about.
    pub closing: Option<Closing>,
    /// The check vector of what is answered with a body of its own.
    pub judged: Option<Judged>,
    /// The receipt of admission.
    pub receipt: Option<Receipt>,
    /// What the receipt would count without the task.
    pub without_task: Option<Counters>,
    /// What rules have read, as JSON.
    pub facts: Option<String>,
    /// What is out of the ordinary and holds it, where nothing else keeps it from being carried out.
    pub anomalies: Vec<Anomaly>,
    /// What is to be done outside once its line is durable.
    pub begins: Option<Box<Begins>>,
    /// Rules that hold it, where nothing else keeps it from being carried out.
    pub holds: Vec<RuleId>,
    /// What is to become of a held request.
    pub resolves: Option<Resolution>,
}

impl Outcome {
    /// Of a request that is refused with nothing but words.
    pub fn refused(refusal: Refusal) -> Outcome {
        let judged = Some(Judged { rows: Vec::new(), refusal: Some(refusal) });
        Outcome { judged, ..Outcome::default() }
    }

    /// Why it is refused, where that stands beside a body.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.judged.as_ref()?.refusal.as_ref()
    }
}

/// A check vector beside an answer's body.
#[derive(Debug)]
pub struct Judged {
    /// The rows.
    pub rows: Vec<CheckResult>,
    /// Why the answer is an error, if it is one.
    pub refusal: Option<Refusal>,
}

/// Bodies of answers, externally tagged as the contract writes them.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) enum AnswerBody<'a> {
    /// Of `portfolio.get`.
    Portfolio(views::PortfolioState),
    /// Of `orders.list`.
    Orders(Vec<views::OrderView>),
    /// Of `fills.list`.
    Fills(&'a [Fill]),
    /// Of `market.get`.
    MarketData(views::MarketState),
    /// Of `market.import`.
    MarketImported {
        /// The instrument.
        symbol: String,
        /// How many rows came.
        rows: usize,
        /// How many `market` lines they took before their own.
        lines: usize,
        /// How many executions there were.
        fills: usize,
        /// Orders that the market reached and the venue could not fill; nothing of that is silent.
        left_open: Vec<LeftOpen>,
    },
    /// Of `market.update`.
    MarketUpdated {
        /// The instrument.
        symbol: &'a Symbol,
        /// How many rows came.
        rows: usize,
        /// Those that were newer than what was known; the others were passed over.
        taken: usize,
        /// How many `market` lines they took before their own.
        lines: usize,
        /// How many executions there were.
        fills: usize,
        /// Orders that the market reached and the venue could not fill.
        left_open: Vec<LeftOpen>,
        /// What the market is like; null: it was not said.
        regime: Option<&'a Regime>,
    },
    /// Of `admission.health`.
    AdmissionHealth {
        /// SHA-256 of the rulebook in force, hex.
        rulebook: &'a str,
        /// Why the rule files cannot be read; null: they can.
        rulebook_fault: Option<&'a str>,
        /// Every policy.
        policies: Vec<PolicyHealth<'a>>,
    },
    /// Of `admission.cache_clear` and `admission.cache_invalidate`.
    PoliciesForgotten {
        /// Whose were forgotten, as `tenant/surface/profile`.
        domains: &'a [String],
    },
    /// Of `funding.update`.
    FundingCharged {
        /// The instrument.
        symbol: &'a Symbol,
        /// When it was due.
        time: Time,
        /// What positions pay together; below 0 they are paid.
        charged: Amount,
        /// How many positions pay or are paid.
        positions: usize,
    },
    /// Of `venue.report`.
    ReportBooked {
        /// The order.
        order_id: OrderId,
        /// The venue's id of the report.
        exec_id: &'a ExecId,
    },
    /// Of `halt.set`.
    HaltSet {
        /// Who.
        principal: Option<&'a Principal>,
    },
    /// Of `halt.clear`.
    HaltCleared {
        /// What was cleared.
        scope: &'a str,
    },
    /// Of `heartbeat`.
    Heartbeat {
        /// Who.
        principal: &'a Principal,
        /// Whether its entries were closed until now.
        armed_again: bool,
    },
    /// Of `account.adjust`.
    AccountAdjusted {
        /// Cash afterwards, account currency.
        cash: crate::wire::amount::Amount,
    },
    /// Of `clock.accept`.
    ClockAccepted {},
    /// Of `keys.add` and `keys.rotate`.
    KeyAdded {
        /// The key.
        key_id: &'a str,
        /// Who.
        principal: &'a Principal,
    },
    /// Of `keys.revoke`.
    KeyRevoked {
        /// The key.
        key_id: &'a str,
        /// Since when.
        at: Time,
    },
    /// Of `approval.grant`.
    ApprovalGranted {
        /// The held request.
        id: HoldId,
        /// Its answer says what came of it.
        request_id: &'a RequestId,
    },
    /// Of `approval.deny`.
    ApprovalDenied {
        /// The held request.
        id: HoldId,
        /// The id of its request; its answer says what came of it.
        request_id: &'a RequestId,
    },
    /// Of `grant.add`.
    GrantAdded {
        /// The set.
        set: &'a SetName,
        /// The value.
        value: &'a str,
        /// The task; null: everything.
        task: &'a TaskName,
    },
    /// Of `grant.end`.
    GrantEnded {
        /// The set.
        set: &'a SetName,
        /// The value.
        value: &'a str,
        /// The task; null: everything.
        task: Option<&'a TaskName>,
    },
}

pub(super) fn data(body: &AnswerBody<'_>) -> Result<Option<Box<RawValue>>, Refusal> {
    serde_json::value::to_raw_value(body)
        .map(Some)
        .map_err(|error| Refusal::new(Code::Internal, format!("the answer cannot be written: {error}")))
}

/// A row of a check vector: a yes or no, with its fault. One that only warns has passed.
pub(super) fn yes_no(
    check: &'static str,
    fault: Option<String>,
    only_warns: bool,
    source: &'static str,
) -> CheckResult {
    CheckResult {
        check_name: check.into(),
        passed: fault.is_none() || only_warns,
        value: Some(if fault.is_some() { Amount::ZERO } else { Amount::ONE }),
        limit: Some(Amount::ONE),
        source: source.into(),
        unit: "bool".into(),
        reason: fault.map(Into::into),
    }
}

/// Carries out a request that is authentic, well-formed, permitted and fresh.
///
/// # Errors
/// A [`Refusal`] where the contract's answer is not a check vector.
pub fn carry_out(turn: &Turn<'_>, authentic: &Authentic, body: &Body) -> Result<Outcome, Refusal> {
    let source = &authentic.envelope.source;
    let book = &turn.state.book;
    match &body.payload {
        Payload::Submit(order) => {
            let entries = Some(&order.strategy);
            Ok(turn.order(
                authentic,
                |context| trading::submit(book, turn.rules, order, context),
                entries,
                None,
            ))
        }
        Payload::Cancel(cancel) => Ok(turn.order(
            authentic,
            |context| trading::cancel(book, turn.rules, cancel, context),
            None,
            Some(cancel.order_id),
        )),
        Payload::Tighten(tighten) => Ok(turn.order(
            authentic,
            |context| trading::tighten(book, turn.rules, tighten, context),
            None,
            Some(tighten.order_id),
        )),
        Payload::Portfolio => answer(&AnswerBody::Portfolio(portfolio(turn.state, turn.rules, turn.now))),
        Payload::Orders => answer(&AnswerBody::Orders(views::orders(book, |_| true))),
        Payload::Fills(_) => turn.fills(),
        Payload::Market(market) => match views::market(book, turn.rules, &market.symbol, turn.now) {
            Some(view) => answer(&AnswerBody::MarketData(view)),
            None => {
                Err(Refusal::new(Code::NotFound, format!("there is no market data for `{}`", market.symbol)))
            }
        },
        Payload::Check(asked) => turn.check(authentic, asked),
        Payload::Council(request) => turn.open_case(authentic, request),
        Payload::Verdict(submit) => turn.file_verdict(source, submit),
        Payload::Admission(way, attempt) => Ok(turn.admission(authentic, *way, attempt)),
        Payload::AdmissionHealth => turn.admission_health(source),
        Payload::ForgetPolicies(which) => turn.forget_policies(source, which.as_ref()),
        Payload::Control(attempt) => turn.control(authentic, attempt),
        Payload::Strategies => turn.show_strategies(None),
        Payload::Strategy(get) => turn.show_strategies(Some(&get.strategy_id)),
        Payload::Propose(proposal) => turn.propose(authentic, proposal),
        Payload::ApproveProposal(approve) => turn.approve_proposal(source, approve),
        Payload::DeclineProposal(end) => turn.decline_proposal(source, end),
        Payload::RevertProposal(end) => turn.revert_proposal(authentic, end),
        Payload::Gateway(call) => turn.begin_action(authentic, call),
        Payload::Import(import) => turn.import(import),
        Payload::Update(update) => turn.update(update),
        Payload::Funding(update) => turn.fund(update),
        Payload::Report(report) => turn.report(source, report),
        Payload::SetHalt(set) => turn.set_halt(source, set),
        Payload::ClearHalt(clear) => turn.clear_halt(clear),
        Payload::Heartbeat(beat) => turn.heartbeat(source, beat),
        Payload::Adjust(adjust) => turn.adjust(adjust),
        Payload::AcceptClock(_) => {
            let changes = vec![Change::ClockAccepted {}];
            Ok(Outcome { data: data(&AnswerBody::ClockAccepted {})?, changes, ..Outcome::default() })
        }
        Payload::AddKey(add) => turn.add_key(add),
        Payload::RevokeKey(revoke) => turn.revoke_key(revoke),
        Payload::Services(asked) => turn.edit_services(source, asked),
        Payload::Credential(set) => turn.set_credential(source, set),
        Payload::GrantApproval(grant) => turn.grant_approval(source, grant),
        Payload::DenyApproval(deny) => turn.deny_approval(source, deny),
        Payload::AddGrant(add) => turn.add_grant(source, add),
        Payload::EndGrant(end) => turn.end_grant(end),
    }
}

pub(super) fn answer(body: &AnswerBody<'_>) -> Result<Outcome, Refusal> {
    Ok(Outcome { data: data(body)?, ..Outcome::default() })
}

impl Turn<'_> {
    /// When a request was signed, on the ledger's clock. After a step back the ledger's clock waits for the
    /// machine's, and what is signed now would look as old as the step is wide: exits and `clock.accept`
    /// would be refused just then. Senders may have stepped with the gate or not, so the nearer reading of
    /// the two counts; entries are closed until a person has looked.
    pub(super) fn signed_at(&self, signed: Time) -> Time {
        let Some(fault) = &self.state.clock.fault else { return signed };
        let step_ms = fault.from.since_ms(fault.to);
        let stepped = signed.plus_ms(step_ms.max(0));
        let distance = |time: Time| self.now.since_ms(time).unsigned_abs();
        if distance(stepped) < distance(signed) { stepped } else { signed }
    }

    /// What an order request is decided with besides the book. `may_enter` is the strategy of one that may open.
    pub(super) fn in_context<T>(
        &self,
        authentic: &Authentic,
        may_enter: Option<&StrategyName>,
        decide: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let source = &authentic.envelope.source;
        let halted = self.state.halted(source);
        let clock_fault = self.state.clock_fault();
        let unheard = self.state.dead_man.closes(source);
        let control = may_enter.map(|strategy| control::of_entries(self.state, self.rules, strategy));
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
            paused: paused.as_deref(),
            limit_factor,
        };
        decide(&context)
    }

    fn order(
        &self,
        authentic: &Authentic,
        decide: impl Fn(&Context<'_>) -> Verdict,
        may_enter: Option<&StrategyName>,
        about: Option<OrderId>,
    ) -> Outcome {
        let mut verdict = self.in_context(authentic, may_enter, decide);
        let changes = std::mem::take(&mut verdict.changes).into_iter().map(Change::Book).collect();
        Outcome {
            verdict: Some(verdict),
            order_id: Some(about.unwrap_or_else(|| OrderId::of_line(self.seq))),
            changes,
            ..Outcome::default()
        }
    }

    fn fills(&self) -> Result<Outcome, Refusal> {
        let fills = &self.lookups.fills;
        if fills.len() > FILLS_MAX {
            let what = format!("more than {FILLS_MAX} fills since then");
            return Err(Refusal::new(Code::ResultTooLarge, what));
        }
        answer(&AnswerBody::Fills(fills))
    }

    fn import(&self, import: &ImportMarket) -> Result<Outcome, Refusal> {
        let refuse = |what: String| Refusal::new(Code::MarketRefused, what);
        let bytes = self
            .lookups
            .rows
            .as_ref()
            .ok_or_else(|| refuse(format!("audit/blobs has no intact rows `{}`", import.rows_sha256)))?;
        let rows = row::parse_blob(bytes)
            .map_err(|error| refuse(format!("rows `{}`: {error}", import.rows_sha256)))?;
        if u32::try_from(rows.len()) != Ok(import.row_count) {
            return Err(refuse(format!(
                "the request says {} rows, the blob holds {}",
                import.row_count,
                rows.len()
            )));
        }
        let Run { steps, fills, left_open } = self.run(&import.symbol, &rows)?;
        let source = RowSource::Blob {
            file_name: import.file_name.clone(),
            file_sha256: import.file_sha256.clone(),
            rows_sha256: import.rows_sha256.clone(),
        };
        let market = self.market_lines(&import.symbol, &source, steps);
        let symbol = import.symbol.to_string();
        let (rows, lines) = (rows.len(), market.len());
        let data = data(&AnswerBody::MarketImported { symbol, rows, lines, fills, left_open })?;
        Ok(Outcome { data, market, ..Outcome::default() })
    }

    fn fund(&self, update: &UpdateFunding) -> Result<Outcome, Refusal> {
        let UpdateFunding { symbol, rate, time } = update;
        let book = &self.state.book;
        let changes = venue::on_funding(book, self.rules, symbol, *rate, *time, self.now)
            .map_err(|error| Refusal::new(Code::MarketRefused, error.to_string()))?;
        let charges = changes.iter().filter_map(|change| match change {
            trading::Change::FundingCharged { charges, .. } => Some(charges),
            _ => None,
        });
        let amounts: Vec<_> = charges.flatten().map(|charge| charge.amount).collect();
        // The fold has added the same up.
        let charged = amounts.iter().try_fold(Amount::ZERO, |sum, amount| sum.checked_add(*amount));
        let charged = charged.unwrap_or(Amount::ZERO);
        let (time, positions) = (*time, amounts.len());
        let data = data(&AnswerBody::FundingCharged { symbol, time, charged, positions })?;
        let changes = changes.into_iter().map(Change::Book).collect();
        Ok(Outcome { data, changes, ..Outcome::default() })
    }

    fn report(&self, source: &Principal, report: &VenueReport) -> Result<Outcome, Refusal> {
        let by =
            Reporting { bridge: source, booked_in: self.lookups.booked_in, now: self.now, seq: self.seq };
        let (changes, refusal) = match on_report(&self.state.book, self.rules, report, &by) {
            Ok(changes) => (changes, None),
            Err(Refused { code, what, changes }) => (changes, Some(Refusal::new(code, what))),
        };
        let changes = changes.into_iter().map(Change::Book).collect();
        if let Some(refusal) = refusal {
            return Ok(Outcome { changes, ..Outcome::refused(refusal) });
        }
        let (order_id, exec_id) = (report.order_id, &report.exec_id);
        let data = data(&AnswerBody::ReportBooked { order_id, exec_id })?;
        Ok(Outcome { data, changes, ..Outcome::default() })
    }

    fn set_halt(&self, source: &Principal, set: &SetHalt) -> Result<Outcome, Refusal> {
        let is_human = self.rules.role(source) == Some(Role::Human);
        let principal = match (&set.principal, is_human) {
            (None, true) => None,
            (None, false) => Some(source.clone()),
            (Some(named), true) => Some(named.clone()),
            (Some(named), false) if named == source => Some(named.clone()),
            (Some(named), false) => {
                let what = format!("an agent may halt itself; `{named}` is not `{source}`");
                return Err(Refusal::new(Code::NotPermitted, what));
            }
        };
        if let Some(missing) = principal.as_ref().filter(|name| !self.rules.principals.contains_key(name)) {
            return Err(Refusal::new(Code::NotFound, format!("`{missing}` is not in rules/principals.yaml")));
        }
        let data = data(&AnswerBody::HaltSet { principal: principal.as_ref() })?;
        let halt = Halt { by: source.clone(), at: self.now, reason: set.reason.clone() };
        Ok(Outcome { data, changes: vec![Change::HaltSet { principal, halt }], ..Outcome::default() })
    }

    fn clear_halt(&self, clear: &ClearHalt) -> Result<Outcome, Refusal> {
        let book = &self.state.book;
        let (scope, change) = match &clear.scope {
            HaltScope::All => ("all", Change::HaltCleared { principal: None }),
            HaltScope::Principal(name) => {
                ("principal", Change::HaltCleared { principal: Some(name.clone()) })
            }
            HaltScope::Strategy(name) => {
                if !self.rules.strategies.contains_key(name) && !book.conduct.contains_key(name) {
                    return Err(Refusal::new(Code::NotFound, format!("strategy `{name}` has no file")));
                }
                let strategy = name.clone();
                ("strategy", Change::Book(trading::Change::StrategyCleared { strategy }))
            }
            HaltScope::Symbol(symbol) => {
                if !book.halted_symbols.contains_key(symbol) && !book.doubted_symbols.contains_key(symbol) {
                    let what = format!("`{symbol}` is halted by no gap and no doubt of its venue");
                    return Err(Refusal::new(Code::NotFound, what));
                }
                ("symbol", Change::Book(trading::Change::SymbolCleared { symbol: symbol.clone() }))
            }
            HaltScope::Drawdown => {
                let peak = book.equity_last_known(self.rules).ok_or_else(|| {
                    Refusal::new(
                        Code::StateConflict,
                        "equity is unknown, so the drawdown cannot start again from it",
                    )
                })?;
                ("drawdown", Change::Book(trading::Change::DrawdownCleared { peak }))
            }
        };
        Ok(Outcome {
            data: data(&AnswerBody::HaltCleared { scope })?,
            changes: vec![change],
            ..Outcome::default()
        })
    }

    fn adjust(&self, adjust: &AdjustAccount) -> Result<Outcome, Refusal> {
        let conflict = |what: String| Refusal::new(Code::StateConflict, what);
        let account = &self.state.book.account;
        if adjust.amount.is_zero() {
            return Err(conflict("an adjustment of 0 changes nothing".to_owned()));
        }
        let cash =
            account.cash.checked_add(adjust.amount).filter(|cash| !cash.is_negative()).ok_or_else(|| {
                conflict(format!(
                    "the account holds {}; an adjustment of {} would leave less than nothing",
                    account.cash, adjust.amount
                ))
            })?;
        let data = data(&AnswerBody::AccountAdjusted { cash })?;
        let change = trading::Change::AccountAdjusted { amount: adjust.amount };
        // Net deposits and the peak move too, and must be held as exactly as cash.
        self.state.book.clone().apply(&change).map_err(|error| conflict(error.to_string()))?;
        let changes = vec![Change::Book(change)];
        Ok(Outcome { data, changes, ..Outcome::default() })
    }

    fn add_key(&self, add: &AddKey) -> Result<Outcome, Refusal> {
        if !self.rules.principals.contains_key(&add.principal) {
            let what =
                format!("`{}` is not in rules/principals.yaml; a person adds it there first", add.principal);
            return Err(Refusal::new(Code::NotFound, what));
        }
        if self.state.keys.contains_key(&add.key_id) {
            return Err(Refusal::new(Code::StateConflict, format!("key {} was added before", add.key_id)));
        }
        if !self.lookups.key_is_held {
            let what = format!("the keyring of this home does not hold key {}", add.key_id);
            return Err(Refusal::new(Code::NotFound, what));
        }
        let mut changes: Vec<Change> = Vec::new();
        if let Some(at) = add.others_end {
            let others = self.state.active_keys(&add.principal, self.now);
            changes.extend(others.map(|key_id| Change::KeyEnds { key_id: key_id.to_owned(), at }));
        }
        changes.push(Change::KeyAdded(KeyRecord {
            key_id: add.key_id.clone(),
            principal: add.principal.clone(),
            algorithm: add.algorithm,
            added_at: self.now,
            ends_at: None,
            revoked_at: None,
        }));
        let data = data(&AnswerBody::KeyAdded { key_id: &add.key_id, principal: &add.principal })?;
        Ok(Outcome { data, changes, ..Outcome::default() })
    }

    fn revoke_key(&self, revoke: &RevokeKey) -> Result<Outcome, Refusal> {
        let key = self
            .state
            .keys
            .get(&revoke.key_id)
            .ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no key {}", revoke.key_id)))?;
        if !key.is_active(self.now) {
            return Err(Refusal::new(
                Code::StateConflict,
                format!("key {} has ended already", revoke.key_id),
            ));
        }
        // Whoever revokes the last key of the last person locks everybody out of halts and keys.
        let is_human = |name: &Principal| self.rules.role(name) == Some(Role::Human);
        let another = self.state.keys.values().any(|other| {
            // One that ends by rotation is none to stay with.
            let lasts = other.ends_at.is_none() && other.revoked_at.is_none();
            other.key_id != key.key_id && lasts && is_human(&other.principal)
        });
        if is_human(&key.principal) && !another {
            let what = "this is the last key of a person; add another one first";
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let changes = vec![Change::KeyRevoked { key_id: revoke.key_id.clone(), at: self.now }];
        let data = data(&AnswerBody::KeyRevoked { key_id: &revoke.key_id, at: self.now })?;
        Ok(Outcome { data, changes, ..Outcome::default() })
    }
}
