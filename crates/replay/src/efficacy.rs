//! `rules efficacy`: what each rule blocked and let through, and how those trades would have ended
//! on the later market rows in the ledger.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use crate::history::{Line, each_decision};
use crate::replay_state::Past;
use spoolgate_gate::actions::{Body, Lane};
use spoolgate_gate::efficacy::{Against, SAMPLE_MIN, TooLarge, Trades, Verdict, metric, verdict};
use spoolgate_gate::fired::{Fate, Fired, Tally, of_rows};
use spoolgate_gate::market::rows;
use spoolgate_gate::prepare::Authentic;
use spoolgate_gate::record::Decision;
use spoolgate_home::error::HomeError;
use spoolgate_home::open::Seams;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::file::{Hypothesis, RuleStatus, Then};
use spoolgate_trading::counterfactual::{Entry, Progress, Replay};
use spoolgate_trading::market_row::{Row, parse_blob};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::ImportMarket;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal, RuleId, Symbol};
use spoolgate_wire::market::UpdateMarket;
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::time::Time;

/// Default of the maximum holding time of a trade, minutes: a day.
pub const TIME_STOP_MINUTES: u32 = 1440;

/// Name of the regime if no feed has given one.
const NO_REGIME: &str = "-";

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

/// What a rule did, and how the trades would have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Counts of what the rule did.
    pub tally: Tally,
    /// Entries that only this rule blocked, or would have blocked in shadow.
    pub blocked: Trades,
    /// Entries that it blocked together with something else, and that would be blocked without it
    /// too.
    pub joint: Trades,
    /// Accepted entries in its scope on which it did not fire.
    pub let_through: Trades,
}

/// A hypothesis and its test result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tested {
    /// The hypothesis as the rule states it.
    #[serde(flatten)]
    pub hypothesis: Hypothesis,
    /// The metric over trades that the rule let through.
    pub value: Option<Amount>,
    /// Number of these trades.
    pub sample: u64,
    /// Interval of the metric.
    pub interval: Option<(f64, f64)>,
    /// How the metric compares with the baseline.
    pub against: Against,
}

/// Report on one rule.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RuleReport {
    /// The rule.
    pub rule: RuleId,
    /// Status in the last rulebook that had the rule; `None` if no rulebook had it.
    pub status: Option<RuleStatus>,
    /// The verdict.
    pub verdict: Verdict,
    /// Number of closed trades blocked by this rule alone that a verdict needs.
    pub sample_min: u64,
    /// Figures over all regimes.
    #[serde(flatten)]
    pub all: Derived,
    /// Figures by regime at the decision; `-` if no feed had given one.
    pub regimes: BTreeMap<String, Derived>,
    /// Its hypothesis.
    pub hypothesis: Option<Tested>,
}

/// Figures and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Derived {
    /// What was counted.
    #[serde(flatten)]
    pub figures: Figures,
    /// Mean result of a trade without the rule: over trades that it alone blocked and trades it let
    /// through.
    pub expectancy_before: Option<Amount>,
    /// Mean result of a trade with the rule: over the trades that it let through.
    pub expectancy_after: Option<Amount>,
    /// Losses avoided less profits missed, account currency.
    pub savings: Option<Amount>,
    /// Share of winners among the trades that only it blocked.
    pub blocked_winners: Option<Amount>,
    /// Wilson interval of this share at 95%.
    pub interval: Option<(f64, f64)>,
    /// Share of winners at which these trades would have broken even.
    pub break_even: Option<Amount>,
}

/// Result of a study.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Maximum holding time of a trade, minutes.
    pub time_stop_minutes: u32,
    /// Every rule that fired or had entries in its scope, by id.
    pub rules: Vec<RuleReport>,
    /// Entries that a rule blocked, or would have blocked in shadow, and whose request cannot be
    /// rebuilt, so that their outcome is unknown.
    pub lost_entries: u64,
    /// Deliveries of market rows whose blob or rulebook is lost, so that trades could not follow
    /// them.
    pub lost_rows: u64,
}

/// How an entry counts for a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Blocked,
    Joint,
    LetThrough,
}

/// A rule for which an entry counts.
struct Tag {
    rule: RuleId,
    regime: String,
    part: Part,
}

/// An entry that is being followed through the market rows.
struct Waiting {
    replay: Replay,
    seq: u64,
    tags: Vec<Tag>,
}

/// What is known of one rule so far.
#[derive(Default)]
struct Known {
    status: Option<RuleStatus>,
    hypothesis: Option<Hypothesis>,
    regimes: BTreeMap<String, Figures>,
    /// Results of entries that only it blocked, by line.
    blocked: BTreeMap<u64, Progress>,
}

/// A study under way.
pub(super) struct Study<'a> {
    options: &'a Options,
    rules: BTreeMap<RuleId, Known>,
    waiting: BTreeMap<Symbol, Vec<Waiting>>,
    /// Hash of the rulebook whose rules were noted last.
    seen: String,
    lost_entries: u64,
    lost_rows: u64,
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
            seen: String::new(),
            lost_entries: 0,
            lost_rows: 0,
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
            known
                .regimes
                .entry(regime.clone())
                .or_default()
                .tally
                .count(what, alone);
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
        let tags = self.tags(rules.as_ref(), decision, order, &envelope.source, &regime);
        if tags.is_empty() {
            return Ok(());
        }
        let entry = Entry {
            order,
            source: &envelope.source,
            order_id: OrderId::of_line(line.seq),
            at: time,
        };
        let time_stop_ms = i64::from(self.options.time_stop_minutes).saturating_mul(60_000);
        match Replay::new(&entry, &past.state.book, time_stop_ms) {
            Ok(replay) => {
                let waiting = Waiting {
                    replay,
                    seq: line.seq,
                    tags,
                };
                self.waiting
                    .entry(order.symbol.clone())
                    .or_default()
                    .push(waiting);
            }
            Err(error) => return Err(HomeError::Record(format!("line {}: {error}", line.seq))),
        }
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

    /// Returns the rules for which an entry counts: those that fired on it and, if it was accepted,
    /// those that might have fired.
    fn tags(
        &self,
        rules: Option<&Arc<Rulebook>>,
        decision: &Decision,
        order: &SubmitOrder,
        source: &Principal,
        regime: &str,
    ) -> Vec<Tag> {
        let tag = |rule: RuleId, part: Part| Tag {
            rule,
            regime: regime.to_owned(),
            part,
        };
        let mut tags: Vec<Tag> = of_rows(&decision.checks)
            .filter(|(rule, what, _)| self.is_wanted(rule) && *what != Fired::Warned)
            .map(|(rule, _, alone)| tag(rule, if alone { Part::Blocked } else { Part::Joint }))
            .collect();
        if Fate::of(decision) != Fate::Accepted {
            return tags;
        }
        for (id, rule) in rules.into_iter().flat_map(|rules| &rules.ruleset.rules) {
            let scope = &rule.file.applies_to;
            let is_on = matches!(rule.file.status, RuleStatus::Active | RuleStatus::Shadow)
                && rule.file.then != Then::Warn
                && scope
                    .action
                    .iter()
                    .any(|action| *action == ActionName::OrderSubmit)
                && scope
                    .strategy
                    .as_ref()
                    .is_none_or(|names| names.contains(&order.strategy))
                && scope
                    .principal
                    .as_ref()
                    .is_none_or(|names| names.contains(source));
            if is_on && self.is_wanted(id) && tags.iter().all(|tag| tag.rule != *id) {
                tags.push(tag(id.clone(), Part::LetThrough));
            }
        }
        tags
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
                self.ended(waiting, progress).map_err(unsettled)?;
            }
        }
        Ok(())
    }

    fn ended(&mut self, waiting: Waiting, progress: Progress) -> Result<(), TooLarge> {
        for Tag { rule, regime, part } in waiting.tags {
            let known = self.rules.entry(rule).or_default();
            let figures = known.regimes.entry(regime).or_default();
            match part {
                Part::Blocked => {
                    figures.blocked.count(progress)?;
                    known.blocked.insert(waiting.seq, progress);
                }
                Part::Joint => figures.joint.count(progress)?,
                Part::LetThrough => figures.let_through.count(progress)?,
            }
        }
        Ok(())
    }

    /// Ends the study and returns its result.
    pub(super) fn report(mut self) -> Result<Report, HomeError> {
        for waiting in std::mem::take(&mut self.waiting).into_values().flatten() {
            self.ended(waiting, Progress::Open).map_err(unsettled)?;
        }
        let mut rules = Vec::new();
        for (rule, known) in self.rules {
            rules.push(known.report(rule).map_err(unsettled)?);
        }
        let Study {
            options,
            lost_entries,
            lost_rows,
            ..
        } = self;
        Ok(Report {
            time_stop_minutes: options.time_stop_minutes,
            rules,
            lost_entries,
            lost_rows,
        })
    }
}

impl Known {
    fn report(self, rule: RuleId) -> Result<RuleReport, TooLarge> {
        let mut all = Figures::default();
        let mut regimes = BTreeMap::new();
        for (regime, figures) in self.regimes {
            all = all.with(&figures)?;
            regimes.insert(regime, Derived::of(figures)?);
        }
        let closed: Vec<Progress> = self
            .blocked
            .into_values()
            .filter(|end| matches!(end, Progress::Closed(_)))
            .collect();
        let (older, newer) = closed.split_at(closed.len() / 2);
        let sum = |part: &[Progress]| {
            part.iter().try_fold(Trades::default(), |mut sum, end| {
                sum.count(*end).map(|()| sum)
            })
        };
        let wanted = self
            .hypothesis
            .as_ref()
            .map(|it| u64::from(it.review_after_n));
        let sample_min = wanted.unwrap_or(SAMPLE_MIN).max(1);
        let hypothesis = self.hypothesis.map(|hypothesis| {
            let (value, interval, against) = metric(
                &hypothesis.metric,
                &all.let_through,
                *hypothesis.baseline_value,
            );
            Tested {
                hypothesis,
                value,
                sample: all.let_through.closed,
                interval,
                against,
            }
        });
        Ok(RuleReport {
            rule,
            status: self.status,
            verdict: verdict(&sum(older)?, &sum(newer)?, sample_min)?,
            sample_min,
            all: Derived::of(all)?,
            regimes,
            hypothesis,
        })
    }
}

impl Figures {
    fn with(&self, other: &Figures) -> Result<Figures, TooLarge> {
        Ok(Figures {
            tally: self.tally.with(&other.tally),
            blocked: self.blocked.with(&other.blocked)?,
            joint: self.joint.with(&other.joint)?,
            let_through: self.let_through.with(&other.let_through)?,
        })
    }
}

impl Derived {
    fn of(figures: Figures) -> Result<Derived, TooLarge> {
        let Figures {
            blocked,
            let_through,
            ..
        } = &figures;
        Ok(Derived {
            expectancy_before: blocked.with(let_through)?.expectancy(),
            expectancy_after: let_through.expectancy(),
            savings: blocked.savings(),
            blocked_winners: blocked.share(),
            interval: blocked.interval(),
            break_even: blocked.break_even(),
            figures,
        })
    }
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
