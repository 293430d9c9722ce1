//! The bodies of answers about council cases, and the list of the cases that a sender opened or has a
//! seat in.

use serde::Serialize;

use super::{granted, operator, waits_for};
use spoolgate_council::case::Docket;
use spoolgate_rules::Rulebook;
use spoolgate_rules::roles::RoleRule;
use spoolgate_wire::council::{ChangeType, Stance};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::time::Time;

/// The answer to `council.request`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CaseOpened<'a> {
    /// The case.
    pub(super) case: &'a RequestId,
    /// The name by which its judges know it, and the name of its folder in `council/cases`.
    pub(super) alias: &'a RequestId,
    /// Roles that must answer.
    pub(super) roles: &'a [&'a str],
    /// When the case must be decided.
    pub(super) deadline: Time,
    /// SHA-256 of the request, hex; a verdict must name it.
    pub(super) request_sha256: &'a str,
    /// Required roles that no principal may fill in this case: it can only wait for its deadline.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unstaffed: Vec<&'a str>,
}

/// The answer to `council.verdict`.
#[derive(Serialize, schemars::JsonSchema)]
pub struct VerdictFiled<'a> {
    /// The case, as the verdict names it.
    pub(super) case: &'a RequestId,
    /// The role, by its name in the roster.
    pub(super) role: &'a str,
    /// The last time at which a verdict still counts, if the case waits for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) closes_at: Option<Time>,
    /// The stance that the verdict counts as, which can be weaker than the one it states. Only in a
    /// spool of the sender's own: others can read the answers of the flat spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counts_as: Option<Stance>,
    /// Why it counts as less; in a spool of the sender's own.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(super) notes: &'a [String],
    /// Roles whose verdict the case still waits for; in a spool of the sender's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) waits_for: Vec<&'a str>,
}

/// A case as its proposer or the holder of a seat sees it.
#[derive(Serialize, schemars::JsonSchema)]
pub struct CaseView<'a> {
    /// Its name; for the holder of a seat its alias.
    case: &'a RequestId,
    /// The kind of change.
    change_type: ChangeType,
    /// Whether the sender opened it.
    own: bool,
    /// Roles that the sender may speak for in it.
    seats: Vec<&'a str>,
    /// SHA-256 of the request, hex; a verdict must name it.
    request_sha256: &'a str,
    /// When it was opened.
    opened_at: Time,
    /// When it must be decided.
    deadline: Time,
    /// Roles whose verdict it waits for; none once it is decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    waits_for: Vec<&'a str>,
    /// How it was decided; null while it is open.
    outcome: Option<Stance>,
}

/// Returns the cases that a sender opened or has a seat in, in their order.
pub fn cases<'a>(
    rules: &'a Rulebook,
    dockets: &'a [Docket],
    source: &Principal,
) -> Vec<CaseView<'a>> {
    let view = |docket: &'a Docket| {
        let case = &docket.case;
        let own = case.proposer == *source;
        let is_partial = operator(rules, source) == operator(rules, &case.proposer);
        let required = rules.roles.required(case.change_type);
        let is_seat =
            |role: &&RoleRule| !is_partial && granted(rules, source, &role.name).is_some();
        let seats: Vec<&str> = required
            .filter(is_seat)
            .map(|role| role.name.as_str())
            .collect();
        (own || !seats.is_empty()).then(|| CaseView {
            case: if own { &case.id } else { case.shown() },
            change_type: case.change_type,
            own,
            seats,
            request_sha256: &case.request_sha256,
            opened_at: case.opened_at,
            deadline: case.deadline,
            waits_for: match docket.closed {
                None => waits_for(rules, docket),
                Some(_) => Vec::new(),
            },
            outcome: docket.closed.map(|closed| closed.outcome),
        })
    };
    dockets.iter().filter_map(view).collect()
}
