//! Collects what the report shows, without the lock, even while a gate is running: verifies the
//! whole ledger, takes the state as of its last sealed line, and reads the lines up to there once
//! for decisions and once to fold them again.

mod cases;
mod decisions;
mod series;

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::efficacy::{self, Study, TIME_STOP_MINUTES};
use crate::history::{Step, each_step};
use crate::query::{Books, Filter};
use spoolgate_gate::approvals::Hold;
use spoolgate_gate::proposals::Proposed;
use spoolgate_gate::record::canonical;
use spoolgate_gate::{Change, Record, control, portfolio};
use spoolgate_home::closed::why_closed;
use spoolgate_home::error::HomeError;
use spoolgate_home::open::Seams;
use spoolgate_home::read::{self, View};
use spoolgate_ledger::segment::AUDIT_DIR;
use spoolgate_ledger::verify::{self, Report, VerifyError};
use spoolgate_outgoing::OpenAction;
use spoolgate_rules::rule::RuleStatus;
use spoolgate_trading as trading;
use spoolgate_trading::order::Order;
use spoolgate_trading::views::{self, OrderView, PortfolioState};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

pub use cases::{AxisRow, Case, Decided, SeatRow};
pub use decisions::{By, Decisions, Refusal, Stretch, Tally};
pub use series::{Point, Thinned};

/// How often a ledger that fails verification is verified again before the failure counts as
/// damage; a running gate may be writing a batch.
const LIVE_TRIES: usize = 20;
/// Wait between two attempts.
const LIVE_WAIT: Duration = Duration::from_millis(50);
/// Number of threads that verify.
const THREADS: usize = 2;
/// Maximum number of cases that are counted.
const CASES_COUNTED_MAX: usize = 1000;
/// Maximum number of cases that are shown in full.
const CASES_SHOWN_MAX: usize = 12;
/// Maximum number of deposits and withdrawals that are shown.
const FLOWS_MAX: usize = 100;
/// Maximum number of proposals that are shown.
const PROPOSALS_MAX: usize = 256;

/// The period of a report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Start of the period, inclusive.
    pub since: Option<Time>,
    /// End of the period, exclusive.
    pub until: Option<Time>,
}

impl Options {
    fn wants(&self, time: Time) -> bool {
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(|until| time < until)
    }
}

/// Everything that the report shows.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// When it was collected, by the machine's clock.
    pub made_at: Time,
    /// Requested start of the period, inclusive.
    pub since: Option<Time>,
    /// Requested end of the period, exclusive.
    pub until: Option<Time>,
    /// The ledger, as verified just now.
    pub ledger: Report,
    /// The figures from the ledger; `None` if it does not verify.
    pub told: Option<LedgerFigures>,
}

/// Figures from the ledger of a home.
#[derive(Debug, Serialize)]
pub struct LedgerFigures {
    /// Number of ledger lines that these figures are based on.
    pub lines: u64,
    /// Time of the last of these lines; all current values are as of then.
    pub as_of: Time,
    /// Why entries are refused.
    pub closed: Vec<String>,
    /// Whether one of these reasons refuses every entry.
    pub closed_to_all: bool,
    /// The account, its positions and the rest of every limit.
    pub portfolio: PortfolioState,
    /// Equity at the last known marks, whatever their age.
    pub equity_last_known: Option<Amount>,
    /// Open orders.
    pub orders: Vec<OrderView>,
    /// The strategies.
    pub strategies: Vec<StrategyRow>,
    /// Decisions in the period.
    pub decisions: Decisions,
    /// Results of folding the lines again; `None` if segments are pruned.
    pub history: Option<History>,
    /// Pruned segments.
    pub pruned: Vec<String>,
    /// Council cases opened in the period, newest first.
    pub cases: Vec<Case>,
    /// How many of these there are, within the number that is counted.
    pub case_count: usize,
    /// Whether there are more cases than are counted.
    pub more_cases: bool,
    /// Held requests.
    pub holds: Vec<Hold>,
    /// Proposals that wait for an approver.
    pub proposals: Vec<ProposalView>,
    /// Open cases, whenever they were opened.
    pub open_cases: Vec<Case>,
    /// Outgoing actions that have begun and not ended.
    pub actions: Vec<OpenAction>,
    /// The rulebook in force.
    pub rulebook: RulebookView,
}

/// A strategy.
#[derive(Debug, Serialize)]
pub struct StrategyRow {
    /// Its name in orders.
    pub name: String,
    /// Its id for controllers.
    pub strategy_id: String,
    /// Its concern.
    pub concern: Option<String>,
    /// `active`, `paused` or `standby`.
    pub status: &'static str,
    /// The mode in force.
    pub risk_mode: &'static str,
    /// Whether it can run.
    pub runnable: bool,
    /// Why its execution is not trusted.
    pub degraded: Vec<String>,
    /// The instruments that it may enter.
    pub instruments: Vec<String>,
}

/// Results of folding the lines again.
#[derive(Debug, Serialize)]
pub struct History {
    /// Equity over time, thinned.
    pub points: Vec<Point>,
    /// How many points there were before thinning.
    pub points_seen: u64,
    /// Number of lines after which equity could not be computed.
    pub unknown: u64,
    /// The deepest drawdown; `None` if there was no peak yet.
    pub deepest: Option<Point>,
    /// Deposits and withdrawals, oldest first.
    pub flows: Vec<Flow>,
    /// How many deposits and withdrawals there were.
    pub flow_count: u64,
    /// Line and time at which the rulebook in force was loaded.
    pub rulebook_since: Option<(u64, Time)>,
    /// How many rulebooks came into force in the period.
    pub rulebooks: u64,
    /// What rules did, and what would have happened without them.
    pub efficacy: efficacy::Report,
}

/// A deposit or withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Its time.
    pub time: Time,
    /// The ledger line.
    pub line: u64,
    /// Positive for a deposit, negative for a withdrawal.
    pub amount: Amount,
}

/// A proposal that waits for an approver.
#[derive(Debug, Serialize)]
pub struct ProposalView {
    /// Its id.
    pub id: String,
    /// When it was made.
    pub at: Time,
    /// The proposer.
    pub by: String,
    /// The rule.
    pub rule: String,
    /// The proposed change, in words.
    pub what: String,
    /// The proved relation of the rulebook with the proposal to the one without it.
    pub direction: &'static str,
    /// The evidence, as the proposer summarised it.
    pub summary: Option<String>,
}

/// The rulebook in force.
#[derive(Debug, Serialize)]
pub struct RulebookView {
    /// Its hash.
    pub hash: String,
    /// Why the files on disk cannot be used, as the gate last recorded.
    pub fault: Option<String>,
    /// Number of rules per status.
    pub rules: Vec<(RuleStatus, usize)>,
    /// Number of instruments.
    pub instruments: usize,
    /// Number of strategies.
    pub strategies: usize,
    /// Number of principals.
    pub principals: usize,
}

/// Collects everything. `progress` receives the number of bytes of lines folded.
///
/// # Errors
/// Returns [`HomeError`]. A ledger that does not verify is not an error: then [`Figures::told`] is
/// `None`.
pub fn collect(
    root: &Path,
    seams: &Seams,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<Figures, HomeError> {
    // Fails if there is no home at all.
    spoolgate_home::open::read_genesis(root, seams.disk.as_ref())?;
    let ledger = verified(seams)?;
    let told = if ledger.ok {
        Some(told(root, seams, options, progress)?)
    } else {
        None
    };
    let (since, until) = (options.since, options.until);
    Ok(Figures {
        made_at: seams.clock.now(),
        since,
        until,
        ledger,
        told,
    })
}

/// Verifies the ledger from its first byte. Retries on failure, because a batch may be
/// half-written.
#[allow(
    clippy::disallowed_methods,
    reason = "waits for a running gate to finish its batch; no decision is made here"
)]
fn verified(seams: &Seams) -> Result<Report, HomeError> {
    let options = verify::Options {
        strict: Some(canonical),
        threads: THREADS,
        ..verify::Options::default()
    };
    let once = || {
        verify::verify(seams.disk.as_ref(), Path::new(AUDIT_DIR), &options, &|_| ()).map_err(
            |error| match error {
                VerifyError::Disk { path, source } => HomeError::disk(&path, source),
                other => HomeError::Record(other.to_string()),
            },
        )
    };
    let mut report = once()?;
    for _ in 0..LIVE_TRIES {
        if report.ok {
            break;
        }
        thread::sleep(LIVE_WAIT);
        report = once()?;
    }
    Ok(report)
}

fn told(
    root: &Path,
    seams: &Seams,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> Result<LedgerFigures, HomeError> {
    let view = read::read(root, seams)?;
    let (state, rules) = (&view.state, &view.rulebook);
    let as_of = state.clock.last.unwrap_or(Time::EPOCH);
    let books = Books::of_home(root, seams)?;
    let pruned = books.pruned()?;
    let history = if pruned.is_empty() {
        Some(history(root, seams, options, &view, progress)?)
    } else {
        None
    };
    let dockets = view.dockets(CASES_COUNTED_MAX.saturating_add(1), false)?;
    let wanted: Vec<_> = dockets
        .iter()
        .filter(|docket| options.wants(docket.case.opened_at))
        .collect();
    let shown = wanted.iter().take(CASES_SHOWN_MAX);
    let open = view.dockets(CASES_COUNTED_MAX, true)?;
    Ok(LedgerFigures {
        lines: view.position.seq,
        as_of,
        closed: why_closed(state),
        closed_to_all: state.halts.file
            || state.halts.all.is_some()
            || state.clock.fault.is_some()
            || state.rulebook.fault.is_some()
            || state.book.account.drawdown_since.is_some(),
        portfolio: portfolio::portfolio(state, rules, as_of),
        equity_last_known: state.book.equity_last_known(rules),
        orders: views::orders(&state.book, |_: &Order| true),
        strategies: strategies(&view, as_of),
        decisions: decisions(&books, options, view.position.seq)?,
        history,
        pruned,
        cases: shown
            .map(|docket| cases::case(&view, docket))
            .collect::<Result<_, _>>()?,
        case_count: wanted.len(),
        more_cases: dockets.len() > CASES_COUNTED_MAX,
        holds: state.approvals.iter().cloned().collect(),
        proposals: view
            .proposals(PROPOSALS_MAX, true)?
            .into_iter()
            .map(|(_, it)| proposal(it))
            .collect(),
        open_cases: open
            .iter()
            .map(|docket| cases::case(&view, docket))
            .collect::<Result<_, _>>()?,
        actions: state.actions.open.values().cloned().collect(),
        rulebook: rulebook(&view),
    })
}

fn strategies(view: &View, now: Time) -> Vec<StrategyRow> {
    let all = control::strategies(&view.state, &view.rulebook, now);
    all.into_iter()
        .map(|strategy| StrategyRow {
            name: strategy.name.to_string(),
            strategy_id: strategy.strategy_id.to_owned(),
            concern: strategy.concern_id.map(ToString::to_string),
            status: strategy.status,
            risk_mode: strategy.risk_mode.as_str(),
            runnable: strategy.runnable,
            degraded: strategy.degraded_reasons,
            instruments: strategy
                .instruments
                .iter()
                .map(ToString::to_string)
                .collect(),
        })
        .collect()
}

fn proposal(proposed: Proposed) -> ProposalView {
    ProposalView {
        id: proposed.proposal_id.to_string(),
        at: proposed.at,
        by: proposed.by.to_string(),
        rule: proposed.rule_id.to_string(),
        what: proposed.kind.in_words(),
        direction: proposed.direction.as_str(),
        summary: proposed.evidence.map(|evidence| evidence.summary),
    }
}

fn rulebook(view: &View) -> RulebookView {
    let rules = &view.rulebook;
    let all = [
        RuleStatus::Active,
        RuleStatus::Shadow,
        RuleStatus::Suspended,
        RuleStatus::Retired,
    ];
    let count = |status: RuleStatus| {
        rules
            .ruleset
            .rules
            .values()
            .filter(|rule| rule.file.status == status)
            .count()
    };
    RulebookView {
        hash: rules.hash.clone(),
        fault: view.state.rulebook.fault.clone(),
        rules: all
            .into_iter()
            .map(|status| (status, count(status)))
            .collect(),
        instruments: rules.instruments.len(),
        strategies: rules.strategies.len(),
        principals: rules.principals.len(),
    }
}

/// Counts the decisions before line `end`.
fn decisions(books: &Books, options: &Options, end: u64) -> Result<Decisions, HomeError> {
    let filter = Filter {
        kinds: vec!["decision".to_owned(), "request".to_owned()],
        from: options.since,
        to: options.until,
        lines: 0..end,
        ..Filter::default()
    };
    let mut counting = decisions::Counting::default();
    books.find(&filter, None, &mut |line| -> Result<(), HomeError> {
        let told = serde_json::from_str(&line.body())
            .map_err(|error| HomeError::Record(format!("line {}: {error}", line.seq)))?;
        counting.count(&told);
        Ok(())
    })?;
    Ok(counting.finish())
}

/// Values gathered while the lines are folded again.
struct Gathering<'a> {
    options: &'a Options,
    points: Thinned,
    unknown: u64,
    deepest: Option<Point>,
    flows: Vec<Flow>,
    flow_count: u64,
    rulebook_since: Option<(u64, Time)>,
    rulebooks: u64,
}

/// Folds the lines that `view` is based on again, for equity over time and for the effects of
/// rules.
fn history(
    root: &Path,
    seams: &Seams,
    options: &Options,
    view: &View,
    progress: &mut dyn FnMut(u64),
) -> Result<History, HomeError> {
    let of_rules = efficacy::Options {
        rule: None,
        from: options.since,
        to: options.until,
        time_stop_minutes: TIME_STOP_MINUTES,
    };
    let mut study = Study::new(&of_rules);
    let mut gathering = Gathering {
        options,
        points: Thinned::default(),
        unknown: 0,
        deepest: None,
        flows: Vec::new(),
        flow_count: 0,
        rulebook_since: None,
        rulebooks: 0,
    };
    let end = view.position.seq;
    each_step(root, seams, progress, &mut |past, step| match step {
        Step::Before(line) if line.seq < end => study.line(past, line),
        Step::After(seq, record) if seq < end => gathering.line(past, seq, record),
        // A running gate has written more lines meanwhile.
        Step::Before(_) | Step::After(..) => Ok(()),
    })?;
    Ok(History {
        points: gathering.points.points(),
        points_seen: gathering.points.count(),
        unknown: gathering.unknown,
        deepest: gathering.deepest,
        flows: gathering.flows,
        flow_count: gathering.flow_count,
        rulebook_since: gathering.rulebook_since,
        rulebooks: gathering.rulebooks,
        efficacy: study.report()?,
    })
}

impl Gathering<'_> {
    fn line(
        &mut self,
        past: &mut crate::replay_state::Past,
        line: u64,
        record: &Record,
    ) -> Result<(), HomeError> {
        let time = record.timestamp();
        let is_wanted = self.options.wants(time);
        let mut is_moved = false;
        for change in record.changes() {
            match change {
                Change::RulebookLoaded { .. } => {
                    self.rulebook_since = Some((line, time));
                    self.rulebooks = self.rulebooks.saturating_add(u64::from(is_wanted));
                    is_moved = true;
                }
                Change::Book(trading::Change::AccountAdjusted { amount }) => {
                    is_moved = true;
                    if is_wanted {
                        self.flow_count = self.flow_count.saturating_add(1);
                        if self.flows.len() == FLOWS_MAX {
                            self.flows.remove(0);
                        }
                        self.flows.push(Flow {
                            time,
                            line,
                            amount: *amount,
                        });
                    }
                }
                Change::Book(_) => is_moved = true,
                _ => {}
            }
        }
        if is_moved && is_wanted {
            self.worth(past, line, time)?;
        }
        Ok(())
    }

    /// Records what the account is worth after a line.
    fn worth(
        &mut self,
        past: &mut crate::replay_state::Past,
        line: u64,
        time: Time,
    ) -> Result<(), HomeError> {
        let account = &past.state.book.account;
        let is_untouched = account.cash.is_zero()
            && account.net_deposits.is_zero()
            && account.realised.is_zero()
            && past.state.book.positions.is_empty();
        if is_untouched {
            // Nothing was deposited yet; a line at 0 would only flatten the rest of the chart.
            return Ok(());
        }
        let hash = past.state.rulebook.hash.clone();
        let equity = past
            .rulebook(&hash)?
            .and_then(|rules| past.state.book.equity_last_known(rules.as_ref()));
        let Some(equity) = equity else {
            self.unknown = self.unknown.saturating_add(1);
            return Ok(());
        };
        let account = &past.state.book.account;
        let (net_deposits, peak) = (account.net_deposits, account.peak_equity);
        let drawdown = peak
            .and_then(|peak| peak.checked_sub(equity))
            .map(|down| down.max(Amount::ZERO));
        let point = Point {
            time,
            line,
            equity,
            net_deposits,
            peak,
            drawdown,
        };
        if drawdown.is_some_and(|down| {
            self.deepest
                .and_then(|deepest| deepest.drawdown)
                .is_none_or(|deepest| down > deepest)
        }) {
            self.deepest = Some(point);
        }
        self.points.push(point);
        Ok(())
    }
}
