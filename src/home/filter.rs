//! Which lines of a ledger are meant, and what of a line says so. Reading is `query.rs`.

use std::ops::Range;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::open::HomeError;
use crate::admission::receipt::Verdict;
use crate::gate::record::{AskedFor, CheckRow, Metadata, Status};
use crate::ledger::batches::Line;
use crate::state::lines::{Column, Conditions};
use crate::wire::amount::Amount;
use crate::wire::code::Code;
use crate::wire::council::Stance;
use crate::wire::ids::OrderId;
use crate::wire::time::Time;

/// Kinds of lines that the ledger writes for itself: found only where they are asked for.
const OWN_KINDS: [&str; 3] = ["segment", "seal", "published"];

/// How a line came out, in every word that answers and lines have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every blocking check passed.
    Accepted,
    /// Refused, whatever for.
    Rejected,
    /// Held until a person approves.
    Held,
    /// Carried out.
    Success,
    /// About to be done outside.
    Pending,
    /// Answered `error`.
    Error,
    /// Answered `requires_approval`.
    RequiresApproval,
    /// Answered `rate_limited`.
    RateLimited,
    /// A task was admitted.
    Allow,
    /// One was not.
    Deny,
    /// The council says yes.
    Approve,
    /// The council says no.
    Reject,
    /// The council wants more.
    NeedsMoreInfo,
}

impl Outcome {
    /// All of them.
    pub const ALL: [Outcome; 13] = [
        Outcome::Accepted,
        Outcome::Rejected,
        Outcome::Held,
        Outcome::Success,
        Outcome::Pending,
        Outcome::Error,
        Outcome::RequiresApproval,
        Outcome::RateLimited,
        Outcome::Allow,
        Outcome::Deny,
        Outcome::Approve,
        Outcome::Reject,
        Outcome::NeedsMoreInfo,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Accepted => "accepted",
            Outcome::Rejected => "rejected",
            Outcome::Held => "held",
            Outcome::Success => "success",
            Outcome::Pending => "pending",
            Outcome::Error => "error",
            Outcome::RequiresApproval => "requires_approval",
            Outcome::RateLimited => "rate_limited",
            Outcome::Allow => "allow",
            Outcome::Deny => "deny",
            Outcome::Approve => "approve",
            Outcome::Reject => "reject",
            Outcome::NeedsMoreInfo => "needs_more_info",
        }
    }

    /// Its columns in the index: lines of this outcome have one of these, others may too.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Outcome::Accepted => &["ACCEPTED"],
            Outcome::Rejected => &["rejected", "rate_limited", "REJECTED"],
            Outcome::Held | Outcome::RequiresApproval => &["requires_approval"],
            Outcome::Success => &["success"],
            Outcome::Pending => &["pending"],
            Outcome::Error => &["rejected", "error"],
            Outcome::RateLimited => &["rate_limited"],
            // A line has either beside the ruling over its check vector.
            Outcome::Allow => &["ALLOW", "ACCEPTED", "REJECTED"],
            Outcome::Deny => &["DENY", "ACCEPTED", "REJECTED"],
            Outcome::Approve => &["APPROVE"],
            Outcome::Reject => &["REJECT"],
            Outcome::NeedsMoreInfo => &["NEEDS_MORE_INFO"],
        }
    }
}

/// What of a receipt counts here.
#[derive(Clone, Debug, Deserialize)]
struct Received {
    decision: Verdict,
}

/// What of a line people look for and tables show. Members that a line does not have are none.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entry<'a> {
    /// The gate's clock; none: the ledger's own lines have no time.
    pub timestamp: Option<Time>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Its action.
    pub action: Option<String>,
    /// Who signed, or claimed to.
    pub source: Option<String>,
    /// Outcome of a request.
    pub status: Option<Status>,
    #[serde(borrow)]
    decision: Option<&'a RawValue>,
    receipt: Option<Received>,
    outcome: Option<Stance>,
    about: Option<AskedFor>,
    /// Why, exactly.
    #[serde(default)]
    pub metadata: Metadata,
    /// What happened, in words, of a line that is about no request.
    pub note: Option<String>,
    /// Strategy of an order.
    pub strategy: Option<String>,
    /// Symbol of an order or of market rows.
    pub symbol: Option<String>,
    /// Side of an order.
    pub side: Option<String>,
    /// Size of an order.
    pub size: Option<Amount>,
    /// The order it is about, or that it made.
    pub order_id: Option<OrderId>,
    /// The check vector.
    #[serde(default)]
    pub checks: Vec<CheckRow>,
    /// Hash of the rulebook it was decided under.
    pub rulebook: Option<String>,
    #[serde(borrow)]
    changes: Option<&'a RawValue>,
}

impl<'a> Entry<'a> {
    /// Reads what is in the body of a line.
    ///
    /// # Errors
    /// [`HomeError::Record`] if that is not what lines of its kind have.
    pub fn read(line: &Line, body: &'a str) -> Result<Entry<'a>, HomeError> {
        // Their members have the names of others and mean something else.
        if matches!(line.kind.as_str(), "segment" | "seal") {
            return Ok(Entry::default());
        }
        let mut entry: Entry<'a> = serde_json::from_str(body).map_err(|error| {
            HomeError::Record(format!("line {}: {error}; run `spoolgate audit verify`", line.seq))
        })?;
        if let Some(AskedFor::Lineage { source, request_id, .. }) = &entry.about {
            entry.source = Some(source.to_string());
            entry.request_id = Some(request_id.to_string());
        }
        Ok(entry)
    }

    /// What was ruled: ACCEPTED or REJECTED over a check vector, else ALLOW or DENY of a task, else what the council says.
    pub fn verdict(&self) -> Option<&'static str> {
        match (self.ruling(), self.receipt.as_ref().map(|receipt| receipt.decision)) {
            (Some(ruling), _) => Some(ruling),
            (None, Some(Verdict::Allow)) => Some("ALLOW"),
            (None, Some(Verdict::Deny)) => Some("DENY"),
            (None, None) => self.outcome.map(Stance::as_str),
        }
    }

    fn ruling(&self) -> Option<&'static str> {
        // Of the council's lines it is an object.
        match self.decision?.get() {
            r#""ACCEPTED""# => Some("ACCEPTED"),
            r#""REJECTED""# => Some("REJECTED"),
            _ => None,
        }
    }

    /// The status as lines write it.
    pub fn status_word(&self) -> Option<&'static str> {
        self.status.map(|status| match status {
            Status::Success => "success",
            Status::Rejected => "rejected",
            Status::RateLimited => "rate_limited",
            Status::Held => "requires_approval",
            Status::Pending => "pending",
            Status::Error => "error",
        })
    }

    fn came_out(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Accepted => self.ruling() == Some("ACCEPTED"),
            Outcome::Rejected => {
                matches!(self.status, Some(Status::Rejected | Status::RateLimited))
                    || self.ruling() == Some("REJECTED")
            }
            Outcome::Held | Outcome::RequiresApproval => self.status == Some(Status::Held),
            Outcome::Success => self.status == Some(Status::Success),
            Outcome::Pending => self.status == Some(Status::Pending),
            Outcome::Error => matches!(self.status, Some(Status::Rejected | Status::Error)),
            Outcome::RateLimited => self.status == Some(Status::RateLimited),
            Outcome::Allow => self.receipt.as_ref().is_some_and(|receipt| receipt.decision == Verdict::Allow),
            Outcome::Deny => self.receipt.as_ref().is_some_and(|receipt| receipt.decision == Verdict::Deny),
            Outcome::Approve => self.outcome == Some(Stance::Approve),
            Outcome::Reject => self.outcome == Some(Stance::Reject),
            Outcome::NeedsMoreInfo => self.outcome == Some(Stance::NeedsMoreInfo),
        }
    }

    /// Whether the line is about an order, or does something to it.
    fn touches(&self, order: OrderId) -> bool {
        let quoted = format!("\"{order}\"");
        self.order_id == Some(order) || self.changes.is_some_and(|changes| changes.get().contains(&quoted))
    }
}

/// Which lines are meant. Conditions of several kinds must all hold; of several values of one kind, one must.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Ids of requests.
    pub request_ids: Vec<String>,
    /// Recorded at this time or later.
    pub from: Option<Time>,
    /// Recorded before this time.
    pub to: Option<Time>,
    /// Actions: a name, or the start of names with `*` behind it.
    pub actions: Vec<String>,
    /// Who signed, or claimed to.
    pub sources: Vec<String>,
    /// How it came out.
    pub outcomes: Vec<Outcome>,
    /// Codes of refusals.
    pub codes: Vec<Code>,
    /// Checks that are in the vector.
    pub checks: Vec<String>,
    /// Checks that failed.
    pub failed_checks: Vec<String>,
    /// Symbols.
    pub symbols: Vec<String>,
    /// Strategies.
    pub strategies: Vec<String>,
    /// Orders that the line is about, or does something to.
    pub orders: Vec<OrderId>,
    /// Kinds of lines; none: every kind but those that the ledger writes for itself.
    pub kinds: Vec<String>,
    /// Also those.
    pub own_kinds: bool,
    /// Numbers of lines.
    pub lines: Range<u64>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            request_ids: Vec::new(),
            from: None,
            to: None,
            actions: Vec::new(),
            sources: Vec::new(),
            outcomes: Vec::new(),
            codes: Vec::new(),
            checks: Vec::new(),
            failed_checks: Vec::new(),
            symbols: Vec::new(),
            strategies: Vec::new(),
            orders: Vec::new(),
            kinds: Vec::new(),
            own_kinds: false,
            lines: 0..u64::MAX,
        }
    }
}

fn is_one_of(wanted: &[String], found: Option<&str>) -> bool {
    wanted.is_empty() || found.is_some_and(|found| wanted.iter().any(|wanted| wanted == found))
}

fn is_action(wanted: &str, action: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(start) => action.starts_with(start),
        None => action == wanted,
    }
}

/// Bytes that a line must have somewhere to match: most lines are passed over without being read.
pub(super) struct Sieve<'f> {
    filter: &'f Filter,
    needles: Vec<Vec<Finder<'static>>>,
}

impl Sieve<'_> {
    /// Whether it is worth reading.
    pub(super) fn may_match(&self, line: &Line) -> bool {
        let text = line.text.as_bytes();
        self.filter.is_of_kind(&line.kind)
            && self.needles.iter().all(|either| either.iter().any(|needle| needle.find(text).is_some()))
    }
}

/// A member as lines are written: without white space, escaped in one way.
fn member(name: &str, value: &str) -> Finder<'static> {
    let value = serde_json::Value::from(value).to_string();
    Finder::new(format!("\"{name}\":{value}").as_bytes()).into_owned()
}

impl Filter {
    fn is_of_kind(&self, kind: &str) -> bool {
        if self.kinds.is_empty() {
            return self.own_kinds || !OWN_KINDS.contains(&kind);
        }
        self.kinds.iter().any(|wanted| wanted == kind)
    }

    /// Whether it asks for lines that no index has.
    pub(super) fn wants_own_kinds(&self) -> bool {
        self.own_kinds || self.kinds.iter().any(|kind| OWN_KINDS.contains(&kind.as_str()))
    }

    /// Whether the index can tell most of the lines apart.
    pub(super) fn is_told_by_index(&self) -> bool {
        !self.wants_own_kinds() && !self.conditions().is_empty()
    }

    /// What the index can tell. Every line that matches fulfils it.
    pub(super) fn conditions(&self) -> Conditions {
        let mut conditions = Conditions::default();
        let codes: Vec<String> = self.codes.iter().map(|code| code.name().to_owned()).collect();
        for (column, values) in [
            (Column::Kind, &self.kinds),
            (Column::Source, &self.sources),
            (Column::RequestId, &self.request_ids),
            (Column::Code, &codes),
            (Column::Strategy, &self.strategies),
            (Column::Symbol, &self.symbols),
        ] {
            conditions.one_of(column, values, &[]);
        }
        let names: Vec<String> =
            self.actions.iter().filter(|action| !action.ends_with('*')).cloned().collect();
        let starts: Vec<&str> = self.actions.iter().filter_map(|action| action.strip_suffix('*')).collect();
        conditions.one_of(Column::Action, &names, &starts);
        conditions.recorded(self.from.map(Time::ms), self.to.map(Time::ms));
        let outcomes: Vec<&str> =
            self.outcomes.iter().flat_map(|outcome| outcome.columns()).copied().collect();
        conditions.decided(&outcomes);
        conditions
    }

    pub(super) fn sieve(&self) -> Sieve<'_> {
        let of = |name: &str, values: &[String]| values.iter().map(|value| member(name, value)).collect();
        let codes: Vec<String> = self.codes.iter().map(|code| code.name().to_owned()).collect();
        let mut needles: Vec<Vec<Finder<'static>>> = vec![
            of("request_id", &self.request_ids),
            of("source", &self.sources),
            of("code", &codes),
            of("symbol", &self.symbols),
            of("strategy", &self.strategies),
            of("name", &self.checks),
            of("name", &self.failed_checks),
        ];
        if !self.actions.iter().any(|action| action.ends_with('*')) {
            needles.push(of("action", &self.actions));
        }
        let quoted = |order: &OrderId| Finder::new(format!("\"{order}\"").as_bytes()).into_owned();
        needles.push(self.orders.iter().map(quoted).collect());
        needles.retain(|either| !either.is_empty());
        Sieve { filter: self, needles }
    }

    /// Whether nothing but kind and number is asked for.
    fn is_open(&self) -> bool {
        self.conditions().is_empty()
            && self.checks.is_empty()
            && self.failed_checks.is_empty()
            && self.orders.is_empty()
    }

    /// Whether a line is meant.
    ///
    /// # Errors
    /// [`HomeError::Record`] of a line that cannot be read.
    pub fn matches(&self, line: &Line) -> Result<bool, HomeError> {
        if !self.is_of_kind(&line.kind) || !self.lines.contains(&line.seq) {
            return Ok(false);
        }
        if self.is_open() {
            return Ok(true);
        }
        let body = line.body();
        Ok(self.is_met_by(&Entry::read(line, &body)?))
    }

    fn is_met_by(&self, entry: &Entry<'_>) -> bool {
        let code = entry.metadata.code;
        let action = entry.action.as_deref();
        let has = |name: &String, failed: bool| {
            entry.checks.iter().any(|check| check.name == *name && !(failed && check.passed))
        };
        is_one_of(&self.request_ids, entry.request_id.as_deref())
            && self.from.is_none_or(|from| entry.timestamp.is_some_and(|time| time >= from))
            && self.to.is_none_or(|to| entry.timestamp.is_some_and(|time| time < to))
            && (self.actions.is_empty()
                || action.is_some_and(|action| self.actions.iter().any(|wanted| is_action(wanted, action))))
            && is_one_of(&self.sources, entry.source.as_deref())
            && (self.outcomes.is_empty() || self.outcomes.iter().any(|outcome| entry.came_out(*outcome)))
            && (self.codes.is_empty() || code.is_some_and(|code| self.codes.contains(&code)))
            && (self.checks.is_empty() || self.checks.iter().any(|name| has(name, false)))
            && (self.failed_checks.is_empty() || self.failed_checks.iter().any(|name| has(name, true)))
            && is_one_of(&self.symbols, entry.symbol.as_deref())
            && is_one_of(&self.strategies, entry.strategy.as_deref())
            && (self.orders.is_empty() || self.orders.iter().any(|order| entry.touches(*order)))
    }
}
