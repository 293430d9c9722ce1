//! Conditions on ledger lines, and the members of a line that they test.
//!
//! `query.rs` reads the lines.

use std::ops::Range;

use memchr::memmem::Finder;
use serde::Deserialize;
use serde_json::value::RawValue;

use spoolgate_admission::receipt::Verdict;
use spoolgate_gate::record::{AskedFor, Metadata, Status};
use spoolgate_home::error::HomeError;
use spoolgate_home::index::lines::{Column, Conditions};
use spoolgate_ledger::batches::Line;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::code::Code;
use spoolgate_wire::council::Stance;
use spoolgate_wire::ids::OrderId;
use spoolgate_wire::time::Time;

/// Kinds of lines that the ledger writes for itself; a filter finds them only on request.
const OWN_KINDS: [&str; 3] = ["segment", "seal", "published"];

/// Outcome of a line, in every word that answers and lines use for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every blocking check passed.
    Accepted,
    /// Refused for any reason.
    Rejected,
    /// Held until a person approves.
    Held,
    /// Carried out.
    Success,
    /// An outgoing action that is not answered yet.
    Pending,
    /// Answered `error`.
    Error,
    /// Answered `requires_approval`.
    RequiresApproval,
    /// Answered `rate_limited`.
    RateLimited,
    /// A task was admitted.
    Allow,
    /// A task was not admitted.
    Deny,
    /// The council approved.
    Approve,
    /// The council rejected.
    Reject,
    /// The council needs more information.
    NeedsMoreInfo,
}

impl Outcome {
    /// All outcomes.
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

    /// Returns its word.
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

    /// Values in the index that lines of this outcome have; other lines may have them too.
    fn columns(self) -> &'static [&'static str] {
        match self {
            Outcome::Accepted => &["ACCEPTED"],
            Outcome::Rejected => &["rejected", "rate_limited", "REJECTED"],
            Outcome::Held | Outcome::RequiresApproval => &["requires_approval"],
            Outcome::Success => &["success"],
            Outcome::Pending => &["pending"],
            Outcome::Error => &["rejected", "error"],
            Outcome::RateLimited => &["rate_limited"],
            // The index has the ruling over the check vector instead, if the line has one.
            Outcome::Allow => &["ALLOW", "ACCEPTED", "REJECTED"],
            Outcome::Deny => &["DENY", "ACCEPTED", "REJECTED"],
            Outcome::Approve => &["APPROVE"],
            Outcome::Reject => &["REJECT"],
            Outcome::NeedsMoreInfo => &["NEEDS_MORE_INFO"],
        }
    }
}

/// The part of a receipt that a filter tests.
#[derive(Clone, Debug, Deserialize)]
struct Received {
    decision: Verdict,
}

/// The members of a line that filters test and tables show; `None` or empty if the line has none.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Entry<'a> {
    /// The gate's time; `None` for the ledger's own lines.
    pub timestamp: Option<Time>,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Its action.
    pub action: Option<String>,
    /// Principal that signed the request, or is named in it without a valid signature.
    pub source: Option<String>,
    /// Outcome of a request.
    pub status: Option<Status>,
    #[serde(borrow)]
    decision: Option<&'a RawValue>,
    receipt: Option<Received>,
    outcome: Option<Stance>,
    about: Option<AskedFor>,
    /// Exact reason of the outcome.
    #[serde(default)]
    pub metadata: Metadata,
    /// What happened, for a line that is about no request.
    pub note: Option<String>,
    /// Strategy of an order.
    pub strategy: Option<String>,
    /// Symbol of an order or of market rows.
    pub symbol: Option<String>,
    /// Side of an order.
    pub side: Option<String>,
    /// Size of an order.
    pub size: Option<Amount>,
    /// The order that the line is about, or that it created.
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
    /// Reads the body of a line.
    ///
    /// # Errors
    /// Returns [`HomeError::Record`] if the body does not fit the kind of the line.
    pub fn read(line: &Line, body: &'a str) -> Result<Entry<'a>, HomeError> {
        // Their members share names with members of other lines and mean something else.
        if matches!(line.kind.as_str(), "segment" | "seal") {
            return Ok(Entry::default());
        }
        let mut entry: Entry<'a> = serde_json::from_str(body).map_err(|error| {
            HomeError::Record(format!(
                "line {}: {error}; run `spoolgate audit verify`",
                line.seq
            ))
        })?;
        if let Some(AskedFor::Lineage {
            source, request_id, ..
        }) = &entry.about
        {
            entry.source = Some(source.to_string());
            entry.request_id = Some(request_id.to_string());
        }
        Ok(entry)
    }

    /// Returns the verdict: ACCEPTED or REJECTED for a check vector, else ALLOW or DENY for a task,
    /// else the stance of the council.
    pub fn verdict(&self) -> Option<&'static str> {
        match (
            self.ruling(),
            self.receipt.as_ref().map(|receipt| receipt.decision),
        ) {
            (Some(ruling), _) => Some(ruling),
            (None, Some(Verdict::Allow)) => Some("ALLOW"),
            (None, Some(Verdict::Deny)) => Some("DENY"),
            (None, None) => self.outcome.map(Stance::as_str),
        }
    }

    fn ruling(&self) -> Option<&'static str> {
        // In a council line, this member is an object.
        match self.decision?.get() {
            r#""ACCEPTED""# => Some("ACCEPTED"),
            r#""REJECTED""# => Some("REJECTED"),
            _ => None,
        }
    }

    /// Returns the status as lines write it.
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
            Outcome::Allow => self
                .receipt
                .as_ref()
                .is_some_and(|receipt| receipt.decision == Verdict::Allow),
            Outcome::Deny => self
                .receipt
                .as_ref()
                .is_some_and(|receipt| receipt.decision == Verdict::Deny),
            Outcome::Approve => self.outcome == Some(Stance::Approve),
            Outcome::Reject => self.outcome == Some(Stance::Reject),
            Outcome::NeedsMoreInfo => self.outcome == Some(Stance::NeedsMoreInfo),
        }
    }

    /// Reports whether the line is about an order or changes it.
    fn touches(&self, order: OrderId) -> bool {
        let quoted = format!("\"{order}\"");
        self.order_id == Some(order)
            || self
                .changes
                .is_some_and(|changes| changes.get().contains(&quoted))
    }
}

/// Conditions on lines. Conditions of different kinds must all hold; of several values of one kind,
/// one must match.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Ids of requests.
    pub request_ids: Vec<String>,
    /// Recorded at this time or later.
    pub from: Option<Time>,
    /// Recorded before this time.
    pub to: Option<Time>,
    /// Actions: a name, or the start of names followed by `*`.
    pub actions: Vec<String>,
    /// Principals that signed, or are named without a valid signature.
    pub sources: Vec<String>,
    /// Outcomes.
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
    /// Orders that the line is about or changes.
    pub orders: Vec<OrderId>,
    /// Kinds of lines; empty for every kind except those that the ledger writes for itself.
    pub kinds: Vec<String>,
    /// Whether to include the kinds that the ledger writes for itself.
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

/// Byte strings of which a matching line contains some; most lines are skipped without being
/// parsed.
pub(super) struct Sieve<'f> {
    filter: &'f Filter,
    needles: Vec<Vec<Finder<'static>>>,
}

impl Sieve<'_> {
    /// Reports whether the line is worth parsing.
    pub(super) fn may_match(&self, line: &Line) -> bool {
        let text = line.text.as_bytes();
        self.filter.is_of_kind(&line.kind)
            && self
                .needles
                .iter()
                .all(|either| either.iter().any(|needle| needle.find(text).is_some()))
    }
}

/// Returns a member as lines write it: without white space, and escaped in one way.
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

    /// Reports whether it requests lines that no index has.
    pub(super) fn wants_own_kinds(&self) -> bool {
        self.own_kinds
            || self
                .kinds
                .iter()
                .any(|kind| OWN_KINDS.contains(&kind.as_str()))
    }

    /// Reports whether the index can rule out most of the lines.
    pub(super) fn is_told_by_index(&self) -> bool {
        !self.wants_own_kinds() && !self.conditions().is_empty()
    }

    /// Returns the conditions that the index can test. Every matching line fulfils them.
    pub(super) fn conditions(&self) -> Conditions {
        let mut conditions = Conditions::default();
        let codes: Vec<String> = self
            .codes
            .iter()
            .map(|code| code.name().to_owned())
            .collect();
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
        let names: Vec<String> = self
            .actions
            .iter()
            .filter(|action| !action.ends_with('*'))
            .cloned()
            .collect();
        let starts: Vec<&str> = self
            .actions
            .iter()
            .filter_map(|action| action.strip_suffix('*'))
            .collect();
        conditions.one_of(Column::Action, &names, &starts);
        conditions.recorded(self.from.map(Time::ms), self.to.map(Time::ms));
        let outcomes: Vec<&str> = self
            .outcomes
            .iter()
            .flat_map(|outcome| outcome.columns())
            .copied()
            .collect();
        conditions.decided(&outcomes);
        conditions
    }

    pub(super) fn sieve(&self) -> Sieve<'_> {
        let of = |name: &str, values: &[String]| {
            values.iter().map(|value| member(name, value)).collect()
        };
        let codes: Vec<String> = self
            .codes
            .iter()
            .map(|code| code.name().to_owned())
            .collect();
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
        Sieve {
            filter: self,
            needles,
        }
    }

    /// Reports whether only the line number is restricted, so that no member has to be tested.
    fn is_open(&self) -> bool {
        self.conditions().is_empty()
            && self.checks.is_empty()
            && self.failed_checks.is_empty()
            && self.orders.is_empty()
    }

    /// Reports whether a line matches.
    ///
    /// # Errors
    /// Returns [`HomeError::Record`] if the line cannot be read.
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
            entry
                .checks
                .iter()
                .any(|check| check.name == *name && !(failed && check.passed))
        };
        is_one_of(&self.request_ids, entry.request_id.as_deref())
            && self
                .from
                .is_none_or(|from| entry.timestamp.is_some_and(|time| time >= from))
            && self
                .to
                .is_none_or(|to| entry.timestamp.is_some_and(|time| time < to))
            && (self.actions.is_empty()
                || action.is_some_and(|action| {
                    self.actions.iter().any(|wanted| is_action(wanted, action))
                }))
            && is_one_of(&self.sources, entry.source.as_deref())
            && (self.outcomes.is_empty()
                || self.outcomes.iter().any(|outcome| entry.came_out(*outcome)))
            && (self.codes.is_empty() || code.is_some_and(|code| self.codes.contains(&code)))
            && (self.checks.is_empty() || self.checks.iter().any(|name| has(name, false)))
            && (self.failed_checks.is_empty()
                || self.failed_checks.iter().any(|name| has(name, true)))
            && is_one_of(&self.symbols, entry.symbol.as_deref())
            && is_one_of(&self.strategies, entry.strategy.as_deref())
            && (self.orders.is_empty() || self.orders.iter().any(|order| entry.touches(*order)))
    }
}
