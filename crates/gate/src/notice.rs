//! Notices: what the gate reports to operators about a ledger line. A notice depends only on its line
//! and contains none of its sealed members.

use serde::Serialize;

use super::approvals::{self, End, Hold};
use super::dead_man;
use super::halts::{Halt, On};
use super::prepare::escaped;
use super::proposals;
use super::record::{Decision, EventKind, Record, Response, Ruling, Status};
use super::state::Change;
use super::storage;
use spoolgate_council::case as council;
use spoolgate_outgoing as actions;
use spoolgate_rules::notify::Kind;
use spoolgate_trading as trading;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::time::Time;

/// Version of the form of a notice.
const VERSION: u32 = 1;

/// Maximum number of characters of a text that somebody else wrote.
const QUOTED_CHARS_MAX: usize = 300;

/// Checks of a loss that closes entries for the rest of its day or week.
const LOSS_STOPS: [&str; 2] = ["daily_loss_halt", "weekly_loss_halt"];

/// Checks that close a strategy until a person clears it, with what has happened to it.
const STREAKS: [(&str, &str); 2] = [
    ("loss_streak", "its trades have lost too often in a row"),
    (
        "reject_streak",
        "its orders were refused by their venue too often in a row",
    ),
];

/// How much a notice presses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing is to be done.
    Info,
    /// A person should act.
    Act,
    /// Something is closed, in doubt, or near its limit.
    Alarm,
}

/// One notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What it is about.
    pub kind: Kind,
    /// How much it presses.
    pub level: Level,
    /// What it names, such as `h-9`.
    pub about: Option<String>,
    /// What happened, in a few words.
    pub title: String,
    /// What else the line says.
    pub text: String,
    /// What to do, as a command where there is one.
    pub remedy: String,
    /// If set, a receiver is told once of all notices with this text.
    pub once: Option<String>,
    /// Of a `not_told` notice: the receiver that it is about, which is not told of it.
    pub not_to: Option<String>,
}

/// A notice as a program reads it.
#[derive(Serialize)]
struct Told<'a> {
    version: u32,
    id: &'a str,
    kind: &'a str,
    level: Level,
    at: Time,
    line: u64,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    about: Option<&'a str>,
    title: &'a str,
    text: &'a str,
    remedy: &'a str,
}

impl Notice {
    fn new(kind: Kind, level: Level, title: impl Into<String>) -> Notice {
        Notice {
            kind,
            level,
            about: None,
            title: title.into(),
            text: String::new(),
            remedy: String::new(),
            once: None,
            not_to: None,
        }
    }

    fn about(self, about: impl ToString) -> Notice {
        let about = Some(about.to_string());
        Notice { about, ..self }
    }

    fn text(self, text: impl Into<String>) -> Notice {
        let text = text.into();
        Notice { text, ..self }
    }

    fn remedy(self, remedy: impl Into<String>) -> Notice {
        let remedy = remedy.into();
        Notice { remedy, ..self }
    }

    /// Returns a notice that counts others of its kind, which were too many to tell each.
    pub fn of_many(kind: Kind, level: Level, count: u64, lines: (u64, u64)) -> Notice {
        let (first, last) = lines;
        let title = format!("{count} more notices `{}`", kind.as_str());
        let text = format!("of the lines {first} to {last}, within a short time");
        let remedy = format!("spoolgate audit tail -n {}", count.min(100));
        Notice::new(kind, level, title).text(text).remedy(remedy)
    }

    /// Returns the one line of JSON that a program reads, with a line feed.
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn to_line(&self, id: &str, at: Time, line: u64) -> Result<String, serde_json::Error> {
        line_of(&Told {
            version: VERSION,
            id,
            kind: self.kind.as_str(),
            level: self.level,
            at,
            line,
            about: self.about.as_deref(),
            title: &self.title,
            text: &self.text,
            remedy: &self.remedy,
        })
    }
}

fn line_of(told: &Told<'_>) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string(told)?;
    text.push('\n');
    Ok(text)
}

/// Returns the line of JSON by which a person tries a receiver.
///
/// # Errors
/// Returns the serialiser's error.
pub fn test_line(at: Time) -> Result<String, serde_json::Error> {
    line_of(&Told {
        version: VERSION,
        id: "n-0-0",
        kind: "test",
        level: Level::Info,
        at,
        line: 0,
        about: None,
        title: "a test by `spoolgate notify test`",
        text: "somebody tries whether notices of this gate arrive",
        remedy: "nothing is to be done",
    })
}

/// A text of somebody else: cut, and without characters that a terminal obeys.
fn quoted(text: &str) -> String {
    let text = escaped(text);
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Returns the notices of a line, in the order of its changes.
pub fn of(record: &Record) -> Vec<Notice> {
    let mut notices: Vec<Notice> = Vec::new();
    match record {
        Record::Event(kind, event) => notices.extend(of_event(*kind, &event.note)),
        Record::Response(line) => notices.extend(of_response(line)),
        Record::Decision(line) => notices.extend(of_checks(line)),
        Record::Genesis(_)
        | Record::Rotate(_)
        | Record::Admin(_)
        | Record::Published(_)
        | Record::Market(_)
        | Record::Input(_)
        | Record::AdmissionInput(_)
        | Record::Council(_)
        | Record::Redact(_) => {}
    }
    notices.extend(pulled_beside(record));
    let day = record.timestamp().day_start();
    for change in record.changes() {
        // No match here has a wildcard, so that adding a change forces a decision on its notice.
        notices.extend(match change {
            Change::Approvals(change) => of_approvals(change, record),
            Change::Book(change) => of_book(change, day),
            Change::Proposal(change) => of_proposal(change),
            Change::Council(change) => of_council(change),
            Change::DeadMan(change) => of_dead_man(change),
            Change::Actions(change) => of_actions(change),
            Change::Control(_) | Change::Admission(_) | Change::Services(_) => None,
            own => of_own(own),
        });
    }
    notices
}

/// The notice of entries that a line of another kind withdraws, such as a row of market data.
fn pulled_beside(record: &Record) -> Option<Notice> {
    if matches!(record, Record::Event(EventKind::Pull, _)) {
        return None;
    }
    let changes = record.changes().iter();
    let pulled = changes.filter_map(|change| match change {
        Change::Book(change) => change.why(),
        _ => None,
    });
    let checks: Vec<&str> = pulled.map(|why| why.check.as_str()).collect();
    let check = checks.first()?;
    Some(
        Notice::new(Kind::Pull, Level::Act, "working entries were withdrawn")
            .text(format!("{} entries, the first by `{check}`", checks.len()))
            .remedy("spoolgate orders"),
    )
}

/// The notice of an event, if it is not about one of its changes.
fn of_event(kind: EventKind, note: &str) -> Option<Notice> {
    let (kind, level, title, remedy) = match kind {
        EventKind::Start => (Kind::Start, Level::Info, "the watcher started", ""),
        EventKind::Stop => (
            Kind::Stop,
            Level::Info,
            "the gate stopped in order",
            "spoolgate watch",
        ),
        EventKind::Quota => (
            Kind::Quota,
            Level::Info,
            "a quota of a spool",
            "spoolgate status",
        ),
        EventKind::Pull => (
            Kind::Pull,
            Level::Act,
            "working entries were withdrawn",
            "spoolgate orders",
        ),
        EventKind::NotTold => (
            Kind::NotTold,
            Level::Alarm,
            "a notice was not told",
            "spoolgate notify test",
        ),
        EventKind::Rulebook
        | EventKind::Bridge
        | EventKind::Tick
        | EventKind::Halt
        | EventKind::ClockStep
        | EventKind::DeadMan
        | EventKind::Proposal
        | EventKind::Storage => return None,
    };
    let notice = Notice::new(kind, level, title)
        .text(quoted(note))
        .remedy(remedy);
    Some(match kind {
        Kind::NotTold => Notice {
            not_to: receiver_of(note).map(str::to_owned),
            ..notice
        },
        _ => notice,
    })
}

/// Returns the note of the line that a notice did not reach a receiver. What the program wrote is
/// not in it, because it may hold secrets.
pub fn not_told(receiver: &str, id: &str, kind: Kind, tries: usize) -> String {
    let kind = kind.as_str();
    format!("receiver `{receiver}` was not told of {id} (`{kind}`): {tries} tries failed")
}

/// The receiver that such a note names.
fn receiver_of(note: &str) -> Option<&str> {
    let (name, _) = note.strip_prefix("receiver `")?.split_once('`')?;
    Some(name)
}

fn of_response(line: &Response) -> Option<Notice> {
    // Each of these says that it is unknown whether the action was done.
    let is_unknown = matches!(
        line.metadata.code,
        Some(
            Code::UnknownOutcome
                | Code::AdapterCrashed
                | Code::AdapterTimedOut
                | Code::AdapterOutput
        )
    );
    if !is_unknown {
        return None;
    }
    let title = format!("it is unknown how {} of {} ended", line.action, line.source);
    Some(
        Notice::new(Kind::ActionUnknown, Level::Act, title)
            .about(&line.request_id)
            .text(format!("request line {}", line.request_line))
            .remedy(Code::UnknownOutcome.remedy()),
    )
}

/// Notices of a decided entry: a loss that closes entries, and limits that it comes near.
fn of_checks(line: &Decision) -> Vec<Notice> {
    let day = line.timestamp.day_start();
    if line.metadata.replay_of.is_some() {
        return Vec::new();
    }
    let is_accepted = line.status == Status::Success && line.decision == Some(Ruling::Accepted);
    let near = |row: &CheckRow| {
        let (value, limit) = (row.value?, row.limit?);
        (is_accepted && row.warning).then(|| {
            let title = format!("`{}` is at {value} of {limit} {}", row.name, row.unit);
            Notice {
                once: Some(format!("{} {day}", row.name)),
                ..Notice::new(Kind::LimitNear, Level::Alarm, title)
                    .about(&row.name)
                    .text("an accepted entry has come to `warn_at` of the limit; nothing is refused for it")
                    .remedy("spoolgate portfolio")
            }
        })
    };
    let lost = |row: &CheckRow| {
        let is_lost = !row.passed && row.value.is_some() && row.limit.is_some();
        let name = row.name.as_ref();
        let streak = STREAKS
            .iter()
            .find(|(check, _)| *check == name && !row.passed);
        if let (Some((_, what)), Some(strategy)) = (streak, line.strategy.as_deref()) {
            let title = format!("strategy {strategy} takes no entries");
            return Some(Notice {
                once: Some(format!("{name} {strategy} {day}")),
                ..Notice::new(Kind::EntriesClosed, Level::Alarm, title)
                    .about(strategy)
                    .text(*what)
                    .remedy(format!(
                        "spoolgate halt clear --strategy {strategy} --reason WHY"
                    ))
            });
        }
        (is_lost && LOSS_STOPS.contains(&name)).then(|| loss_stop(name, day))
    };
    let checks = line.checks.iter();
    checks
        .filter_map(|row| near(row).or_else(|| lost(row)))
        .collect()
}

fn loss_stop(check: &str, day: Time) -> Notice {
    let title = format!("`{check}` refuses entries");
    Notice {
        once: Some(format!("{check} {day}")),
        ..Notice::new(Kind::LossStop, Level::Alarm, title)
            .about(check)
            .text("the loss has reached its limit in rules/safety.yaml")
            .remedy("spoolgate portfolio")
    }
}

fn of_approvals(change: &approvals::Change, record: &Record) -> Option<Notice> {
    match change {
        approvals::Change::Held(hold) => Some(of_hold(hold, record)),
        approvals::Change::Ended {
            id,
            end: End::Expired,
            ..
        } => Some(
            Notice::new(Kind::HoldExpired, Level::Info, format!("{id} expired"))
                .about(id)
                .text("nobody granted or denied it in time; the request is refused")
                .remedy(format!("spoolgate approvals show {id}")),
        ),
        approvals::Change::Ended { .. }
        | approvals::Change::EntryAdded { .. }
        | approvals::Change::EntryEnded { .. } => None,
    }
}

fn of_hold(hold: &Hold, record: &Record) -> Notice {
    let order = match record {
        Record::Decision(line) => {
            let size = line.size.map(|size| size.to_string());
            let parts = [line.side.as_ref(), size.as_ref(), line.symbol.as_ref()];
            let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
            parts.join(" ")
        }
        _ => String::new(),
    };
    let space = if order.is_empty() { "" } else { " " };
    let title = format!("{} asks: {}{space}{order}", hold.source, hold.action);
    let rules: Vec<&str> = hold.rules.iter().map(|rule| rule.as_str()).collect();
    let by = if rules.is_empty() {
        "it is out of the ordinary".to_owned()
    } else {
        format!("held by {}", rules.join(", "))
    };
    Notice::new(Kind::Hold, Level::Act, quoted(&title))
        .about(hold.id)
        .text(quoted(&format!("{by}; waits until {}", hold.expires_at)))
        .remedy(format!("spoolgate approvals show {}", hold.id))
}

fn of_proposal(change: &proposals::Change) -> Option<Notice> {
    match change {
        proposals::Change::Pended { proposed, .. } => {
            let id = proposed.proposal_id;
            let title = format!(
                "{} proposes a change of rule {}",
                proposed.by, proposed.rule_id
            );
            Some(
                Notice::new(Kind::Proposal, Level::Act, title)
                    .about(id)
                    .text(quoted(proposed.why_people.as_deref().unwrap_or_default()))
                    .remedy(format!("spoolgate proposals show {id}")),
            )
        }
        proposals::Change::Applied { .. } | proposals::Change::Declined { .. } => None,
    }
}

fn of_council(change: &council::Change) -> Option<Notice> {
    let (case, title, text) = match change {
        council::Change::CaseOpened(case) => (
            &case.id,
            format!("{} opened case {}", case.proposer, case.id),
            format!("it is decided by {}", case.deadline),
        ),
        council::Change::CaseClosed { case, outcome, .. } => (
            case,
            format!("case {case}: {}", outcome.as_str()),
            "the council has decided".to_owned(),
        ),
        council::Change::CaseReopened { case } => (
            case,
            format!("case {case}: an objection"),
            "it came after the decision, and the case is decided again".to_owned(),
        ),
        council::Change::VoteFiled(_)
        | council::Change::RoleSilent { .. }
        | council::Change::CaseFull { .. } => return None,
    };
    let notice = Notice::new(Kind::Case, Level::Info, title)
        .about(case)
        .text(text);
    Some(notice.remedy(format!("spoolgate council show {case}")))
}

fn of_dead_man(change: &dead_man::Change) -> Option<Notice> {
    match change {
        dead_man::Change::Tripped { principal, tripped } => {
            let seconds = tripped.unheard_ms / 1000;
            Some(
                Notice::new(
                    Kind::DeadMan,
                    Level::Alarm,
                    format!("nothing is heard from {principal}"),
                )
                .about(principal)
                .text(format!(
                    "for {seconds} s; action `{}`",
                    tripped.action.as_str()
                ))
                .remedy(format!("spoolgate heartbeat {principal}")),
            )
        }
        dead_man::Change::Beat { .. } | dead_man::Change::Unheard { .. } => None,
    }
}

fn of_actions(change: &actions::Change) -> Option<Notice> {
    match change {
        actions::Change::FirstUse {
            service,
            destination,
        } => Some(
            Notice::new(
                Kind::FirstUse,
                Level::Info,
                format!("an action goes to {service} for the first time"),
            )
            .about(service)
            .text(quoted(&format!("host {}", destination.host)))
            .remedy("spoolgate services list"),
        ),
        actions::Change::Opened(_)
        | actions::Change::AlsoAnswer { .. }
        | actions::Change::Closed { .. } => None,
    }
}

fn of_book(change: &trading::Change, day: Time) -> Option<Notice> {
    use trading::Change as Book;
    let clear = |symbol| format!("spoolgate halt clear --symbol {symbol} --reason WHY");
    let (kind, about, title, text, remedy) = match change {
        Book::SymbolDoubted { symbol, doubt } => (
            Kind::SymbolClosed,
            symbol.to_string(),
            format!("{symbol}: book and venue may differ"),
            match doubt.order_id {
                Some(order_id) => quoted(&format!("{order_id}: {}", doubt.what)),
                None => quoted(&doubt.what),
            },
            clear(symbol),
        ),
        Book::SymbolHalted { symbol, gap } => (
            Kind::SymbolClosed,
            symbol.to_string(),
            format!("{symbol}: a gap from {} to {}", gap.previous, gap.open),
            "the symbol takes no entries until a person clears it".to_owned(),
            clear(symbol),
        ),
        Book::BridgeSilent { bridge, why, .. } => (
            Kind::Bridge,
            bridge.to_string(),
            format!("bridge {bridge} is silent: entries at its venue are refused"),
            quoted(why),
            "spoolgate status".to_owned(),
        ),
        Book::Unanswered { order_id, .. } => (
            Kind::Bridge,
            order_id.to_string(),
            format!("{order_id}: its bridge does not answer"),
            "look at the venue, then say what became of the order".to_owned(),
            format!("spoolgate order assume {order_id} --gone --reason WHY"),
        ),
        Book::BridgeHeard { bridge, .. } => {
            let title = format!("bridge {bridge} gives signs of life");
            return Some(Notice::new(Kind::Bridge, Level::Info, title).about(bridge.to_string()));
        }
        Book::StrategyDisabled { strategy, .. } => (
            Kind::EntriesClosed,
            strategy.to_string(),
            format!("strategy {strategy} takes no entries"),
            "it has executed as often as it may".to_owned(),
            format!("spoolgate halt clear --strategy {strategy} --reason WHY"),
        ),
        Book::DrawdownLatched { equity, .. } => (
            Kind::LossStop,
            "drawdown_halt".to_owned(),
            "the drawdown has closed entries".to_owned(),
            format!("equity {equity}"),
            "spoolgate halt clear --drawdown --reason WHY".to_owned(),
        ),
        Book::OrderClosed { why: Some(why), .. } | Book::OrderEnding { why: Some(why), .. } => {
            let is_loss = LOSS_STOPS.contains(&why.check.as_str());
            return is_loss.then(|| loss_stop(&why.check, day));
        }
        Book::OrderPlaced(_)
        | Book::OrderFilled(_)
        | Book::OrderTriggered { .. }
        | Book::StopResized { .. }
        | Book::StopMoved { .. }
        | Book::OrderReleased { .. }
        | Book::OrderClosed { .. }
        | Book::OrderRefused { .. }
        | Book::OrderEnding { .. }
        | Book::Instructed(_)
        | Book::VenueReported { .. }
        | Book::TakenBack { .. }
        | Book::TradedUntold { .. }
        | Book::Reconciled { .. }
        | Book::PingAnswered { .. }
        | Book::MarketMoved { .. }
        | Book::RowHeld { .. }
        | Book::RowDropped { .. }
        | Book::RegimeGiven { .. }
        | Book::SymbolCleared { .. }
        | Book::ThesisRefuted { .. }
        | Book::FundingCharged { .. }
        | Book::AccountAdjusted { .. }
        | Book::DayOpened(_)
        | Book::WeekOpened(_)
        | Book::PeakRaised { .. }
        | Book::StrategyCleared { .. }
        | Book::DrawdownCleared { .. }
        | Book::ExitMerged(_) => return None,
    };
    let notice = Notice::new(kind, Level::Alarm, title).about(about);
    Some(notice.text(text).remedy(remedy))
}

/// Notices of the changes that the gate's own state has.
fn of_own(change: &Change) -> Option<Notice> {
    let key = |key_id: &str, title: String| {
        Notice::new(Kind::Key, Level::Info, title)
            .about(key_id)
            .remedy("spoolgate keys list")
    };
    Some(match change {
        Change::KeyAdded(record) => key(
            &record.key_id,
            format!("{} has a new key", record.principal),
        ),
        Change::KeyEnds { key_id, at } => {
            key(key_id, format!("a key was rotated; it ends at {at}"))
        }
        Change::KeyRevoked { key_id, .. } => key(key_id, "a key was revoked".to_owned()),
        Change::HaltFile {
            present: true,
            flatten,
        } => {
            let flat = flat(*flatten);
            let title = format!("rules/HALT exists: entries are refused{flat}");
            Notice::new(Kind::Halt, Level::Alarm, title).remedy("remove the file rules/HALT")
        }
        Change::HaltFile { present: false, .. } => {
            Notice::new(Kind::HaltCleared, Level::Info, "rules/HALT was removed")
        }
        Change::HaltSet {
            principal,
            on,
            halt,
        } => of_halt(principal.as_ref(), on.as_ref(), halt),
        Change::HaltCleared { principal, on } => {
            let whose = whose(principal.as_ref(), on.as_ref());
            let title = format!("the halt of {whose} ended");
            Notice::new(Kind::HaltCleared, Level::Info, title)
        }
        Change::ClockFaulted(fault) => {
            let title = format!("the clock stepped from {} to {}", fault.from, fault.to);
            Notice::new(Kind::Clock, Level::Alarm, title)
                .text("entries are refused until a person accepts the clock")
                .remedy("spoolgate clock accept --reason WHY")
        }
        Change::ClockAccepted {} => {
            Notice::new(Kind::Clock, Level::Info, "a person accepted the clock")
        }
        Change::RulebookFaulted { fault } => {
            let title = "the rule files cannot be used: entries are refused";
            Notice::new(Kind::RulesFault, Level::Alarm, title)
                .text(quoted(fault))
                .remedy("spoolgate rules lint")
        }
        Change::RulebookRefused(refused) => {
            let title = "changed rules lack approvals: those before them stay in force";
            Notice::new(Kind::RulesFault, Level::Alarm, title)
                .text(quoted(&refused.in_words()))
                .remedy("spoolgate doctor")
        }
        Change::RulebookFreed { .. } => {
            let title =
                "the owner of the machine lets a rulebook come into force without approvals";
            Notice::new(Kind::RulesFault, Level::Alarm, title)
        }
        Change::StorageLevel { level } => of_storage(*level),
        Change::LimitOverridden { limit, set } => {
            let (name, until) = (limit.as_str(), set.until);
            let title = format!("`{name}` is {} until {until}", set.value);
            Notice::new(Kind::LimitOverridden, Level::Info, title)
                .about(name)
                .text(quoted(&format!("by {}: {}", set.by, set.reason)))
                .remedy(format!("spoolgate limits end {name}"))
        }
        Change::OverrideEnded { limit } => {
            let name = limit.as_str();
            let title = format!("`{name}` has the value of rules/safety.yaml again");
            Notice::new(Kind::LimitOverridden, Level::Info, title).about(name)
        }
        Change::Book(_)
        | Change::Council(_)
        | Change::Admission(_)
        | Change::Control(_)
        | Change::Actions(_)
        | Change::Services(_)
        | Change::DeadMan(_)
        | Change::Approvals(_)
        | Change::Proposal(_)
        | Change::RulebookLoaded { .. }
        | Change::Drilled { .. }
        | Change::HeadsGivenUp(_)
        | Change::ProgramChanged { .. } => return None,
    })
}

fn whose(principal: Option<&Principal>, on: Option<&On>) -> String {
    match (principal, on) {
        (_, Some(on)) => on.to_string(),
        (Some(principal), None) => principal.to_string(),
        (None, None) => "everybody".to_owned(),
    }
}

fn flat(flatten: bool) -> &'static str {
    if flatten {
        ", and positions are closed at the market"
    } else {
        ""
    }
}

fn of_halt(principal: Option<&Principal>, on: Option<&On>, halt: &Halt) -> Notice {
    let (whose, flat) = (whose(principal, on), flat(halt.flatten));
    let title = format!("entries of {whose} are halted{flat}");
    let option = match (principal, on) {
        (_, Some(on)) => format!(" {}", on.option()),
        (Some(principal), None) => format!(" --principal {principal}"),
        (None, None) => String::new(),
    };
    let notice = Notice::new(Kind::Halt, Level::Alarm, title);
    let notice = match (principal, on) {
        (None, None) => notice,
        _ => notice.about(whose),
    };
    notice
        .text(quoted(&format!("by {}: {}", halt.by, halt.reason)))
        .remedy(format!("spoolgate halt clear{option} --reason WHY"))
}

fn of_storage(level: storage::Level) -> Notice {
    let (level, title) = match level {
        storage::Level::Normal => (Level::Info, "the disk has room again"),
        storage::Level::Low => (Level::Act, "the disk of the ledger has little room"),
        storage::Level::Reserve => (Level::Alarm, "the disk of the ledger is full"),
    };
    Notice::new(Kind::StorageLow, level, title).remedy("spoolgate status")
}

#[cfg(test)]
mod tests;
