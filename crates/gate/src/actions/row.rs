//! The row of an action: who may send it, in which lane, its limits on size and age, and what may
//! refuse it.

use serde::{Deserialize, Serialize};

use spoolgate_rules::principals::Role;
use spoolgate_wire::action_name::ActionName;

spoolgate_wire::named! {
    /// Order of work within a batch.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum Lane {
        /// Market data, so that everything after it is decided on the newest prices.
        Feed = "feed",
        /// Halts, keys, the account, the clock.
        Control = "control",
        /// Exits, cancels, tightens: no halt, limit, rule or backlog of entries delays them.
        Protected = "protected",
        /// Everything else, by spool and file name.
        #[default]
        Ordinary = "ordinary",
    }
}

/// Which bound on the age of a request applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// `request_age_max_s` of the principal or safety.yaml.
    Request,
    /// `exit_age_max_s`, a row of the check vector: a late request that makes things safer is better
    /// than none.
    Exit,
    /// `exit_age_max_s`, for the same reason, where there is no check vector.
    Halt,
    /// No age limit: reports of past events are accepted however late they arrive.
    Never,
    /// `Request` for entries, `Exit` for exits; a row of the check vector.
    ByClass,
}

impl Freshness {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Freshness::Request => "request",
            Freshness::Exit | Freshness::Halt => "exit",
            Freshness::Never => "any",
            Freshness::ByClass => "entries request, exits exit",
        }
    }
}

/// Which limit on the messages of an agent a request counts against. People and feeds have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// The gate refuses it beyond the limit.
    Ordinary,
    /// `Ordinary` for entries, `Protected` for exits.
    ByClass,
    /// Counted separately and never refused for its rate.
    Protected,
    /// `Free` if it only makes things safer, otherwise `Ordinary`.
    UnlessSafer,
    /// Not counted.
    Free,
}

impl Rate {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Rate::Ordinary => "ordinary",
            Rate::ByClass => "entries ordinary, exits protected",
            Rate::Protected => "protected",
            Rate::UnlessSafer => "ordinary, unless it only makes safer",
            Rate::Free => "none",
        }
    }
}

/// What a DENY of admission means for a request that carries causality.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The gate refuses the request.
    Refuses,
    /// The gate refuses entries and notes the DENY of exits.
    Entries,
    /// The gate only notes it: requests that make things safer or report news are never held up.
    Warns,
}

impl Admission {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Admission::Refuses => "refuses",
            Admission::Entries => "refuses entries",
            Admission::Warns => "warns",
        }
    }
}

/// Whether rules and anomaly detection may refuse or hold a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Yes.
    Refuses,
    /// Orders that open or increase a position; exits never.
    Entries,
    /// Yes, unless the request only makes things safer.
    UnlessSafer,
    /// Never: the request makes things safer, reports news, comes from people or is a query.
    No,
}

impl Rules {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Rules::Refuses => "yes",
            Rules::Entries => "entries",
            Rules::UnlessSafer => "unless it only makes safer",
            Rules::No => "no",
        }
    }
}

/// The tool of `spoolgate-mcp` that signs requests of an action.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// A title for lists of tools.
    pub title: &'static str,
    /// A description for the model.
    pub description: &'static str,
    /// Whether the action changes nothing.
    pub is_query: bool,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The action.
    pub name: ActionName,
    /// Its payload's name in the ledger's `request_type`.
    pub request_type: &'static str,
    /// The payload's fields, as the docs show them.
    pub payload: &'static str,
    /// The roles that may send it.
    pub senders: &'static [Role],
    /// Its lane; exits among the orders go to the protected one.
    pub lane: Lane,
    /// Largest file, bytes.
    pub bytes_max: usize,
    /// The bound on its age.
    pub freshness: Freshness,
    /// Where it counts among the messages of an agent.
    pub rate: Rate,
    /// Whether rules and anomaly detection may refuse or hold it.
    pub rules_apply: Rules,
    /// What a DENY of admission means for it.
    pub admission: Admission,
    /// JSON pointers to the members whose values are sealed. `*` matches every member or element.
    pub sealed: &'static [&'static str],
    /// The tool with which a model requests it.
    pub tool: Option<Tool>,
}

/// Largest file of most actions, bytes.
const SMALL: usize = 64 * 1024;

/// Only agents.
pub const AGENT: &[Role] = &[Role::Agent];
/// Only persons.
pub const HUMAN: &[Role] = &[Role::Human];
/// Persons and agents.
pub const SPEAKERS: &[Role] = &[Role::Human, Role::Agent];
/// Sources of market data: persons and feeds.
pub const FEEDS: &[Role] = &[Role::Human, Role::Feed];
/// Every role but bridges.
pub const ANYBODY: &[Role] = &[Role::Human, Role::Agent, Role::Feed];

impl Row {
    /// A row with the usual values: small files, the ordinary lane, the usual age bound, no rules.
    pub const fn new(
        name: ActionName,
        request_type: &'static str,
        payload: &'static str,
        senders: &'static [Role],
    ) -> Row {
        Row {
            name,
            request_type,
            payload,
            senders,
            lane: Lane::Ordinary,
            bytes_max: SMALL,
            freshness: Freshness::Request,
            rate: Rate::Ordinary,
            rules_apply: Rules::No,
            admission: Admission::Warns,
            sealed: &[],
            tool: None,
        }
    }

    /// The row with this lane.
    pub const fn lane(self, lane: Lane) -> Row {
        Row { lane, ..self }
    }

    /// The row with this limit on the size of a file.
    pub const fn bytes_max(self, bytes_max: usize) -> Row {
        Row { bytes_max, ..self }
    }

    /// The row with this age bound.
    pub const fn freshness(self, freshness: Freshness) -> Row {
        Row { freshness, ..self }
    }

    /// The row with this place among the messages of an agent.
    pub const fn rate(self, rate: Rate) -> Row {
        Row { rate, ..self }
    }

    /// The row of a request that rules may refuse. Its action is in [`ActionName::RULED`].
    pub const fn rules_apply(self, rules_apply: Rules) -> Row {
        Row {
            rules_apply,
            ..self
        }
    }

    /// The row with this meaning of a DENY.
    pub const fn admission(self, admission: Admission) -> Row {
        Row { admission, ..self }
    }

    /// The row with these members sealed.
    pub const fn sealed(self, sealed: &'static [&'static str]) -> Row {
        Row { sealed, ..self }
    }

    /// The row of an action that a model can request with this tool.
    pub const fn tool(
        self,
        name: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Row {
        self.offered_by(Tool {
            name,
            title,
            description,
            is_query: false,
        })
    }

    /// The row of an action that changes nothing, and that a model can request with this tool.
    pub const fn query(
        self,
        name: &'static str,
        title: &'static str,
        description: &'static str,
    ) -> Row {
        self.offered_by(Tool {
            name,
            title,
            description,
            is_query: true,
        })
    }

    const fn offered_by(self, tool: Tool) -> Row {
        Row {
            tool: Some(tool),
            ..self
        }
    }
}
