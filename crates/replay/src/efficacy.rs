//! `rules efficacy`: what each rule blocked and let through, and how those trades would have ended
//! on the later market rows in the ledger.
//!
//! Memory is bounded by the rulebooks and the days, not by the number of requests: at most
//! [`FOLLOWED_MAX`] entries are followed at once, and what remains of those that have ended are
//! sums: one figure per rule and regime, and one per rule, regime and UTC day with an event.

mod events;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub use self::events::{Events, Figures};
pub use self::report::{Derived, Report, RuleReport, Tested};
pub use spoolgate_gate::efficacy::effect::DAYS_MIN;

use self::events::{Arrival, Arrived, Key, Others, Part, Sight, Tracker};
use crate::history::{Line, each_decision};
use crate::replay_state::Past;
use spoolgate_gate::actions::{Body, Lane};
use spoolgate_gate::efficacy::TooLarge;
use spoolgate_gate::fired::{Fate, Fired, is_of_rule, of_rows};
use spoolgate_gate::market::rows;
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::record::Decision;
use spoolgate_home::error::HomeError;
use spoolgate_home::open::Seams;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::file::{Hypothesis, RuleFile, RuleStatus, Then};
use spoolgate_trading::book::Book;
use spoolgate_trading::counterfactual::{Entry, Progress, Replay};
use spoolgate_trading::market_row::{Row, parse_blob};
use spoolgate_trading::order::OrderRole;
use spoolgate_trading::risk;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::ImportMarket;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::ids::{OrderId, Principal, RuleId, StrategyName, Symbol};
use spoolgate_wire::market::UpdateMarket;
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::Time;

/// Default of the maximum holding time of a trade, minutes: a day.
pub const TIME_STOP_MINUTES: u32 = 1440;

/// Maximum number of entries that are followed through the market rows at once.
pub const FOLLOWED_MAX: usize = 8192;

/// Name of the regime if no feed has given one.
const NO_REGIME: &str = "-";

/// The checks that refuse an entry because an earlier one like it is open.
const OF_AN_OPEN_ENTRY: [&str; 2] = ["duplicate_order", "thesis_valid"];

/// What to study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this rule.
    pub rule: Option<RuleId>,
    /// Only requests decided at or after this time; later market rows count in any case.
    pub from: Option<Time>,
    /// Only requests decided before this time.
    pub to: Option<Time>,
    /// Maximum holding time of a trade, minutes.
    pub time_stop_minutes: u32,
}

/// An entry that is being followed through the market rows.
struct Waiting {
    replay: Replay,
    parts: Vec<(RuleId, Part)>,
}

/// What is known of one rule so far.
#[derive(Default)]
struct Known {
    status: Option<RuleStatus>,
    hypothesis: Option<Hypothesis>,
    tracker: Tracker,
}

/// An entry and its sender.
#[derive(Clone, Copy)]
struct Sent<'a> {
    seq: u64,
    order: &'a SubmitOrder,
    source: &'a Principal,
}

/// A study under way.
pub(super) struct Study<'a> {
    options: &'a Options,
    rules: BTreeMap<RuleId, Known>,
    waiting: BTreeMap<Symbol, Vec<Waiting>>,
    /// How many entries are in `waiting`.
    followed: usize,
    /// Hash of the rulebook whose rules were noted last.
    seen: String,
    lost_entries: u64,
    lost_rows: u64,
    not_followed: u64,
}

fn unsettled(error: TooLarge) -> HomeError {
    HomeError::Unsettled(error.to_string())
}

/// Studies the rules of a home. Calls `progress` with the number of bytes of lines read so far.
///
/// # Errors
/// Returns [`HomeError`] if the ledger cannot be read or a sum becomes too large.
pub fn efficacy(
    root: &Path,
    seams: &Seams,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, HomeError> {
    let mut study = Study::new(options);
    each_decision(root, seams, progress, &mut |past, line| {
        study.line(past, line)
    })?;
    study.report()
}

impl<'a> Study<'a> {
    /// Creates a study that has seen nothing yet.
    pub(super) fn new(options: &'a Options) -> Study<'a> {
        Study {
            options,
            rules: BTreeMap::new(),
            waiting: BTreeMap::new(),
            followed: 0,
            seen: String::new(),
            lost_entries: 0,
            lost_rows: 0,
            not_followed: 0,
        }
    }
}

impl Study<'_> {
    /// Takes in a decision, before it is folded.
    pub(super) fn line(&mut self, past: &mut Past, line: &Line) -> Result<(), HomeError> {
        let decision = &line.decision;
        let request = line
            .request
            .as_ref()
            .ok()
            .and_then(|prepared| prepared.request.as_ref().ok());
        if let Some(Authentic { body: Ok(body), .. }) = request
            && Fate::of(decision) == Fate::Accepted
        {
            self.market(past, body, decision.timestamp)?;
        }
        let time = decision.timestamp;
        let is_asked_for = self.options.from.is_none_or(|from| from <= time)
            && self.options.to.is_none_or(|to| time < to)
            && decision.metadata.replay_of.is_none()
            // The end of a held request is not a second request.
            && decision.hold.is_none();
        if !is_asked_for {
            return Ok(());
        }
        let regime = regime_of(past, decision);
        for (rule, what, alone) in of_rows(&decision.checks) {
            if !self.is_wanted(&rule) {
                continue;
            }
            let known = self.rules.entry(rule).or_default();
            known.tracker.of_regime(&regime).tally.count(what, alone);
        }
        if decision
            .action
            .as_deref()
            .is_none_or(|action| *action != ActionName::OrderSubmit)
            || decision.lane == Lane::Protected
        {
            return Ok(());
        }
        let rules = past.rulebook(&decision.rulebook)?;
        if let Some(rules) = rules.as_ref().filter(|_| self.seen != decision.rulebook) {
            self.see(rules);
            self.seen.clone_from(&decision.rulebook);
        }
        let order = request
            .and_then(|request| Some((&request.envelope, request.payload::<SubmitOrder>()?)));
        let Some((envelope, order)) = order else {
            let is_blocked = of_rows(&decision.checks).any(|(_, what, _)| what != Fired::Warned);
            self.lost_entries = self.lost_entries.saturating_add(u64::from(is_blocked));
            return Ok(());
        };
        let sent = Sent {
            seq: line.seq,
            order,
            source: &envelope.source,
        };
        let parts = self.arrive(&past.state.book, rules.as_ref(), decision, sent, &regime);
        if parts.is_empty() {
            return Ok(());
        }
        self.follow(&past.state.book, sent, time, parts)
    }

    /// Follows an entry through the market rows that come.
    fn follow(
        &mut self,
        book: &Book,
        sent: Sent<'_>,
        at: Time,
        parts: Vec<(RuleId, Part)>,
    ) -> Result<(), HomeError> {
        let Sent { seq, order, source } = sent;
        let entry = Entry {
            order,
            source,
            order_id: OrderId::of_line(seq),
            at,
        };
        let time_stop_ms = i64::from(self.options.time_stop_minutes).saturating_mul(60_000);
        let replay = Replay::new(&entry, book, time_stop_ms)
            .map_err(|error| HomeError::Record(format!("line {seq}: {error}")))?;
        let waiting = self.waiting.entry(order.symbol.clone()).or_default();
        waiting.push(Waiting { replay, parts });
        self.followed = self.followed.saturating_add(1);
        Ok(())
    }

    fn is_wanted(&self, rule: &RuleId) -> bool {
        self.options
            .rule
            .as_ref()
            .is_none_or(|wanted| wanted == rule)
    }

    /// Notes the status and hypothesis of each rule in a rulebook.
    fn see(&mut self, rules: &Rulebook) {
        for (id, rule) in &rules.ruleset.rules {
            if self.is_wanted(id) {
                let known = self.rules.entry(id.clone()).or_default();
                known.status = Some(rule.file.status);
                known.hypothesis.clone_from(&rule.file.hypothesis);
            }
        }
    }

    /// Passes an entry to every rule. Returns the rules for which its replay is to be followed.
    fn arrive(
        &mut self,
        book: &Book,
        rules: Option<&Arc<Rulebook>>,
        decision: &Decision,
        sent: Sent<'_>,
        regime: &str,
    ) -> Vec<(RuleId, Part)> {
        let (order, now) = (sent.order, decision.timestamp);
        let key = Key {
            strategy: order.strategy.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
        };
        let stopped_by: BTreeSet<RuleId> = of_rows(&decision.checks)
            .filter(|(_, what, _)| *what != Fired::Warned)
            .map(|(rule, _, _)| rule)
            .collect();
        let failed: Vec<&CheckRow> = decision.checks.iter().filter(|row| !row.passed).collect();
        let was_accepted = Fate::of(decision) == Fate::Accepted;
        let arrival = Arrival {
            seq: sent.seq,
            key: &key,
            at: now,
            regime,
            risk: rules.and_then(|rules| risk::of_order(book, rules, order, now)),
            size: order.size,
            was_accepted,
            has_room: self.followed < FOLLOWED_MAX,
        };
        let is_held = |leg: &(Symbol, StrategyName)| {
            let (symbol, strategy) = leg;
            let mut orders = book.orders.values();
            book.positions.contains_key(leg)
                || orders.any(|it| it.role == OrderRole::Entry && it.is_of(strategy, symbol))
        };
        let (mut parts, mut is_not_followed) = (Vec::new(), false);
        for (id, known) in &mut self.rules {
            let file = rules.and_then(|rules| rules.ruleset.rules.get(id));
            let sight = if stopped_by.contains(id) {
                Sight::Stops
            } else if file.is_some_and(|rule| is_in_scope(&rule.file, sent)) {
                Sight::Passes
            } else {
                Sight::Outside
            };
            if sight == Sight::Outside && !known.tracker.is_open(&key) {
                continue;
            }
            known.tracker.forget(is_held);
            match known
                .tracker
                .arrive(&arrival, sight, others(id, &failed, was_accepted))
            {
                Arrived::Followed(part) => parts.push((id.clone(), part)),
                Arrived::NotFollowed => is_not_followed = true,
                Arrived::Ignored => {}
            }
        }
        let missed = u64::from(is_not_followed);
        self.not_followed = self.not_followed.saturating_add(missed);
        parts
    }

    /// Follows waiting entries through delivered market rows, if the request delivers any.
    fn market(&mut self, past: &mut Past, body: &Body, now: Time) -> Result<(), HomeError> {
        let is_waited_for = |symbol: &Symbol| self.waiting.contains_key(symbol);
        let (symbol, given): (&Symbol, Vec<Row>) =
            if let Some(update) = body.payload::<UpdateMarket>() {
                if !is_waited_for(&update.symbol) {
                    return Ok(());
                }
                (&update.symbol, rows(update).unwrap_or_default())
            } else if let Some(import) = body.payload::<ImportMarket>() {
                if !is_waited_for(&import.symbol) {
                    return Ok(());
                }
                let stored = past.blob(&import.rows_sha256)?;
                let Some(Ok(rows)) = stored.map(|bytes| parse_blob(&bytes)) else {
                    self.lost_rows = self.lost_rows.saturating_add(1);
                    return Ok(());
                };
                (&import.symbol, rows)
            } else {
                return Ok(());
            };
        let hash = past.state.rulebook.hash.clone();
        let Some(rules) = past.rulebook(&hash)? else {
            self.lost_rows = self.lost_rows.saturating_add(1);
            return Ok(());
        };
        for mut waiting in self.waiting.remove(symbol).unwrap_or_default() {
            let mut progress = Progress::Open;
            for row in &given {
                // If the venue cannot compute a row, the entry stays open, as orders do at the
                // venue.
                progress = waiting
                    .replay
                    .row(&rules, row, now)
                    .unwrap_or(Progress::Open);
                if progress != Progress::Open {
                    break;
                }
            }
            if progress == Progress::Open {
                self.waiting
                    .entry(symbol.clone())
                    .or_default()
                    .push(waiting);
            } else {
                self.followed = self.followed.saturating_sub(1);
                self.ended(&waiting, progress).map_err(unsettled)?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, waiting: &Waiting, progress: Progress) -> Result<(), TooLarge> {
        for (rule, part) in &waiting.parts {
            if let Some(known) = self.rules.get_mut(rule) {
                known.tracker.ended(part, progress)?;
            }
        }
        Ok(())
    }

    /// Ends the study and returns its result.
    pub(super) fn report(mut self) -> Result<Report, HomeError> {
        for waiting in std::mem::take(&mut self.waiting).into_values().flatten() {
            self.ended(&waiting, Progress::Open).map_err(unsettled)?;
        }
        let mut rules = Vec::new();
        for (rule, known) in self.rules {
            let figures = known.tracker.finish().map_err(unsettled)?;
            let report = RuleReport::of(rule, known.status, known.hypothesis, figures);
            rules.push(report.map_err(unsettled)?);
        }
        Ok(Report {
            time_stop_minutes: self.options.time_stop_minutes,
            rules,
            lost_entries: self.lost_entries,
            lost_rows: self.lost_rows,
            not_followed: self.not_followed,
        })
    }
}

/// Whether the rule, in force or in shadow, could stop this entry.
fn is_in_scope(rule: &RuleFile, sent: Sent<'_>) -> bool {
    let scope = &rule.applies_to;
    let mut actions = scope.action.iter();
    matches!(rule.status, RuleStatus::Active | RuleStatus::Shadow)
        && rule.then != Then::Warn
        && actions.any(|action| *action == ActionName::OrderSubmit)
        && scope
            .strategy
            .as_ref()
            .is_none_or(|names| names.contains(&sent.order.strategy))
        && scope
            .principal
            .as_ref()
            .is_none_or(|names| names.contains(sent.source))
}

/// Returns what refused an entry besides this rule. `failed` are the rows that did not pass.
fn others(rule: &RuleId, failed: &[&CheckRow], was_accepted: bool) -> Others {
    let is_own = |row: &CheckRow| is_of_rule(row) && row.name == rule.as_str();
    let mut others = failed.iter().filter(|row| !is_own(row)).peekable();
    if others.peek().is_none() {
        // A request that was refused without a row was refused before its checks.
        let is_judged = was_accepted || !failed.is_empty();
        return if is_judged {
            Others::Nothing
        } else {
            Others::Else
        };
    }
    let mut found = Others::AlreadyOpen;
    for row in others {
        if is_of_rule(row) {
            return Others::Else;
        }
        if !OF_AN_OPEN_ENTRY.contains(&row.name.as_ref()) {
            found = Others::Limits;
        }
    }
    found
}

/// Returns the regime of the order's market, as the feed gave it.
fn regime_of(past: &Past, decision: &Decision) -> String {
    let symbol = decision
        .symbol
        .as_deref()
        .and_then(|symbol| Symbol::parse(symbol).ok());
    let market = symbol.and_then(|symbol| past.state.book.markets.get(&symbol));
    let given = market.and_then(|market| market.regime.as_ref());
    given.map_or_else(|| NO_REGIME.to_owned(), |given| given.regime.to_string())
}
