//! The one table of tools: what each is called, what it does, and which requests it can sign. What is not here cannot be asked
//! for through this program.

use spoolgate::rules::gateway;

/// What a call of a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// Signs a request of this action; the arguments are its payload.
    Ask(&'static str),
    /// Signs a request of one of the actions that leave the machine.
    Outgoing,
    /// Asks what would become of a request.
    Check,
    /// Tells what was decided on a request, and why.
    Explain,
    /// Reads the decision on a case.
    CouncilDecision,
}

/// A tool.
#[derive(Debug)]
pub struct Tool {
    /// Its name.
    pub name: &'static str,
    /// What a call does.
    pub does: Does,
    /// For people, in a list.
    pub title: &'static str,
    /// For the model.
    pub description: &'static str,
    /// The member of the arguments that names the request; a payload with a `request_id` of its own has another.
    pub id_member: Option<&'static str>,
    /// Whether it changes nothing.
    pub is_query: bool,
}

/// Member that names a request.
const ID: &str = "request_id";
/// The same, where the payload has a `request_id`.
const OTHER_ID: &str = "idempotency_id";

/// The action of `check`.
pub const CHECK: &str = "request.check";

const fn query(name: &'static str, does: Does, title: &'static str, description: &'static str) -> Tool {
    Tool { name, does, title, description, id_member: None, is_query: true }
}

const fn change(name: &'static str, does: Does, title: &'static str, description: &'static str) -> Tool {
    Tool { name, does, title, description, id_member: Some(ID), is_query: false }
}

const fn of_case(name: &'static str, does: Does, title: &'static str, description: &'static str) -> Tool {
    Tool { name, does, title, description, id_member: Some(OTHER_ID), is_query: false }
}

/// Every tool.
pub const TOOLS: &[Tool] = &[
    change(
        "submit_order",
        Does::Ask("order.submit"),
        "Submit an order",
        "Open or reduce a position. The gate checks it against limits that you cannot change. A refusal says which checks failed, with the measured value and the limit, and the headroom: the largest size that would pass. An order that only reduces a position is refused by no limit. Numbers may be strings; they are exact decimals.",
    ),
    change(
        "cancel_order",
        Does::Ask("order.cancel"),
        "Cancel an order",
        "Cancel a working order of your own. No halt or limit refuses it.",
    ),
    change(
        "tighten_stop",
        Does::Ask("order.tighten_stop"),
        "Tighten a stop",
        "Move a protective stop closer to the market. There is no way to loosen one.",
    ),
    query(
        "portfolio",
        Does::Ask("portfolio.get"),
        "Portfolio",
        "Cash, equity, positions, and what is left of every limit.",
    ),
    query("orders", Does::Ask("orders.list"), "Open orders", "Open orders, protective stops among them."),
    query("fills", Does::Ask("fills.list"), "Fills", "Executions since a time, as 2026-02-20T14:42:00Z."),
    query(
        "market_data",
        Does::Ask("market.get"),
        "Market data",
        "The newest price, quote and bar of one symbol.",
    ),
    change(
        "propose_rule",
        Does::Ask("rule.propose"),
        "Propose a rule",
        "Propose one change of a rule: exactly one of Activate, Suspend or ModifyParameter. What makes rules laxer waits for people; nobody else can approve it.",
    ),
    change(
        "apply_control_decision",
        Does::Ask("control.apply"),
        "Decide what runs",
        "Switch, pause or resume the strategy of a concern, or set its risk mode. With dry_run true nothing changes.",
    ),
    query(
        "list_strategies",
        Does::Ask("strategies.list"),
        "Strategies",
        "All strategies and whether they run.",
    ),
    query("get_strategy", Does::Ask("strategies.get"), "One strategy", "One strategy with its state."),
    of_case(
        "council_request",
        Does::Ask("council.request"),
        "Open a council case",
        "Put a change of research, specification, configuration or code before the council of roles. `request_id` is the name of the case.",
    ),
    of_case(
        "council_verdict",
        Does::Ask("council.verdict"),
        "File a verdict",
        "A role's verdict on a case of somebody else. `request_id` is the name of the case.",
    ),
    query(
        "council_decision",
        Does::CouncilDecision,
        "Read a council decision",
        "The council's decision on a case, once there is one.",
    ),
    query(
        "interrogate.health",
        Does::Ask("admission.health"),
        "Admission: health",
        "Whether the policies of admission are there.",
    ),
    change(
        "interrogate.evaluate",
        Does::Ask("admission.evaluate"),
        "Admission: evaluate",
        "May this task come into being? An ALLOW reserves its place in its tree.",
    ),
    change(
        "interrogate.admit",
        Does::Ask("admission.admit"),
        "Admission: admit",
        "May this task come into being? An ALLOW reserves its place and forwards the task.",
    ),
    query(
        "interrogate.check",
        Does::Ask("admission.check"),
        "Admission: check",
        "Would this task be admitted? Reserves nothing.",
    ),
    change(
        "interrogate.cache_clear",
        Does::Ask("admission.cache_clear"),
        "Admission: forget policies",
        "Policies that were delivered are asked for again.",
    ),
    change(
        "interrogate.cache_invalidate",
        Does::Ask("admission.cache_invalidate"),
        "Admission: forget one policy",
        "The policy of one profile is asked for again.",
    ),
    change(
        "submit_action",
        Does::Outgoing,
        "Do something outside",
        "An action that leaves the machine: mail, calendar, transactions, health data, calls of services. Rules may refuse it, or hold it until a person approves.",
    ),
    query(
        "check",
        Does::Check,
        "Dry run",
        "What would be answered to an order, a cancel, a tightened stop or an outgoing action, without doing it.",
    ),
    query(
        "explain",
        Does::Explain,
        "Explain an answer",
        "What was decided on a request of yours and why: failed checks with measured value and limit, headroom, what to send instead, and what became of its order.",
    ),
];

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Whether requests of this action change nothing.
pub fn is_query(action: &str) -> bool {
    TOOLS.iter().any(|tool| tool.is_query && tool.actions().contains(&action))
}

/// Whether requests of this action are ever signed here.
pub fn is_signed(action: &str) -> bool {
    TOOLS.iter().any(|tool| tool.actions().contains(&action))
}

impl Tool {
    /// Actions of the requests that a call can sign.
    pub fn actions(&self) -> Vec<&'static str> {
        match self.does {
            Does::Ask(action) => vec![action],
            Does::Outgoing => gateway::ACTIONS.to_vec(),
            Does::Check => vec![CHECK],
            Does::Explain => vec!["orders.list", "fills.list"],
            Does::CouncilDecision => Vec::new(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use spoolgate::gate::actions::{ACTIONS, find as row};
    use spoolgate::rules::principals::Role;

    use super::*;

    /// Everything that this program can ever sign.
    const SIGNED: [&str; 29] = [
        "admission.admit",
        "admission.cache_clear",
        "admission.cache_invalidate",
        "admission.check",
        "admission.evaluate",
        "admission.health",
        "calendar.create",
        "calendar.fetch",
        "calendar.update",
        "control.apply",
        "council.request",
        "council.verdict",
        "email.draft",
        "email.fetch",
        "email.send",
        "fills.list",
        "finance.fetch_transactions",
        "health.fetch",
        "market.get",
        "order.cancel",
        "order.submit",
        "order.tighten_stop",
        "orders.list",
        "portfolio.get",
        "request.check",
        "rule.propose",
        "service.api_call",
        "strategies.get",
        "strategies.list",
    ];

    #[test]
    fn nothing_but_these_actions_can_be_signed() {
        let signed: BTreeSet<&str> = TOOLS.iter().flat_map(Tool::actions).collect();
        assert_eq!(signed.into_iter().collect::<Vec<_>>(), SIGNED);
        for action in SIGNED.into_iter().filter(|action| *action != CHECK) {
            assert!(row(action).unwrap().senders.contains(&Role::Agent), "{action}");
        }
        for rule in ACTIONS.iter().filter(|rule| !rule.senders.contains(&Role::Agent)) {
            assert!(!SIGNED.contains(&rule.name), "{}", rule.name);
        }
        for never in [
            "approv", "deny", "decline", "revert", "override", "reload", "clear", "keys", "services",
            "grant", "halt", "account", "clock", "market.i",
        ] {
            let clears = |name: &str| name == "admission.cache_clear" || name == "interrogate.cache_clear";
            let mut names = SIGNED.into_iter().chain(TOOLS.iter().map(|tool| tool.name));
            assert_eq!(names.find(|name| name.contains(never) && !clears(name)), None, "{never}");
        }
    }

    #[test]
    fn names_are_those_of_the_protocol() {
        let names: BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), 23);
        assert!(
            names.iter().all(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b)))
        );
    }

    #[test]
    fn a_payload_with_a_request_id_keeps_it() {
        for tool in TOOLS {
            if let (Does::Ask(action), Some(member)) = (tool.does, tool.id_member) {
                let fields = row(action).unwrap().payload;
                let is_taken = fields.split(", ").any(|field| field.trim_end_matches('?') == member);
                assert!(!is_taken, "{}: {member} is a field of {action}", tool.name);
            }
        }
    }

    #[test]
    fn docs_name_every_tool() {
        let docs = include_str!("../../../docs/mcp.md");
        for tool in TOOLS {
            assert!(
                docs.contains(&format!("| `{}` |", tool.name)),
                "docs/mcp.md has no row of `{}`",
                tool.name
            );
        }
    }
}
