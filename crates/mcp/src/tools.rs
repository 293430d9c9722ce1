//! The table of tools: the name of each, what it does, and which requests it can sign. This program
//! can send no request that the table does not name.

use std::sync::LazyLock;

use spoolgate_gate::actions::{self, Row};
use spoolgate_wire::action_name::ActionName;

/// What a call of a tool does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Signs a request of this action; the arguments are its payload.
    Ask(ActionName),
    /// Signs a request of one of the actions that leave the machine.
    Outgoing,
    /// Asks the gate how it would answer a request.
    Check,
    /// Explains what was decided on a request.
    Explain,
    /// Reads the decision on a case.
    CouncilDecision,
}

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The name that a client calls it by.
    pub name: &'static str,
    /// What a call does.
    pub does: Does,
    /// Name for people, shown in a list.
    pub title: &'static str,
    /// What the model reads about it.
    pub description: &'static str,
    /// The member of the arguments that is the request's id; it has another name if the payload has
    /// a `request_id` of its own.
    pub id_member: Option<&'static str>,
    /// Whether it changes nothing.
    pub is_query: bool,
}

/// The member that is the request's id.
const ID: &str = "request_id";
/// The same, for tools whose payload has a `request_id` of its own.
const OTHER_ID: &str = "idempotency_id";

/// The action behind the tool `check`.
pub(crate) const CHECK: ActionName = ActionName::RequestCheck;

const fn query(
    name: &'static str,
    does: Does,
    title: &'static str,
    description: &'static str,
) -> Tool {
    Tool {
        name,
        does,
        title,
        description,
        id_member: None,
        is_query: true,
    }
}

/// Tools that do more than sign requests of one action.
const OWN: [Tool; 4] = [
    query(
        "council_decision",
        Does::CouncilDecision,
        "Read a council decision",
        "The council's decision on a case, once there is one.",
    ),
    Tool {
        name: "submit_action",
        does: Does::Outgoing,
        title: "Do something outside",
        description: "An action that leaves the machine: mail, calendar, transactions, health \
            data, calls of services. Rules may refuse it, or hold it until a person approves it.",
        id_member: Some(ID),
        is_query: false,
    },
    query(
        "check",
        Does::Check,
        "Dry run",
        "What the gate would answer to an order, a cancel, a tightened stop or an outgoing action, \
            without doing it.",
    ),
    query(
        "explain",
        Does::Explain,
        "Explain an answer",
        "What was decided on a request of yours and why: failed checks with measured value and \
            limit, headroom, what to send instead, and what became of its order.",
    ),
];

/// Every tool: those that rows of the table of actions name, and [`OWN`].
pub(crate) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    actions::rows()
        .filter_map(Tool::of_row)
        .chain(OWN)
        .collect()
});

/// Returns the tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// Returns whether requests of this action change nothing.
pub(crate) fn is_query(action: &str) -> bool {
    TOOLS.iter().any(|tool| tool.is_query && tool.signs(action))
}

/// Returns whether this program may sign requests of this action.
pub(crate) fn is_signed(action: &str) -> bool {
    TOOLS.iter().any(|tool| tool.signs(action))
}

impl Tool {
    fn of_row(row: &Row) -> Option<Tool> {
        let actions::Tool {
            name,
            title,
            description,
            is_query,
        } = row.tool?;
        let has_id = row.payload.split(", ").any(|field| field == ID);
        let id_member = (!is_query).then_some(if has_id { OTHER_ID } else { ID });
        Some(Tool {
            name,
            does: Does::Ask(row.name),
            title,
            description,
            id_member,
            is_query,
        })
    }

    /// Returns the actions of all requests that a call can sign.
    pub(crate) fn actions(&self) -> Vec<ActionName> {
        match self.does {
            Does::Ask(action) => vec![action],
            Does::Outgoing => ActionName::OUTGOING.to_vec(),
            Does::Check => vec![CHECK],
            Does::Explain => vec![ActionName::OrdersList, ActionName::FillsList],
            Does::CouncilDecision => Vec::new(),
        }
    }

    fn signs(&self, action: &str) -> bool {
        self.actions().iter().any(|name| *action == *name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;
    use std::{env, fs};

    use spoolgate_gate::actions::find as row;
    use spoolgate_rules::principals::Role;

    use super::*;

    /// Everything that this program can ever sign and that changes something.
    const CHANGING: [&str; 21] = [
        "admission.admit",
        "admission.cache_clear",
        "admission.cache_invalidate",
        "admission.evaluate",
        "admission.settle",
        "calendar.create",
        "calendar.fetch",
        "calendar.update",
        "control.apply",
        "council.request",
        "council.verdict",
        "email.draft",
        "email.fetch",
        "email.send",
        "finance.fetch_transactions",
        "health.fetch",
        "order.cancel",
        "order.submit",
        "order.tighten_stop",
        "rule.propose",
        "service.api_call",
    ];

    #[test]
    fn nothing_but_these_actions_can_be_signed() {
        let of = |tool: &Tool| {
            tool.actions()
                .into_iter()
                .map(ActionName::as_str)
                .collect::<Vec<_>>()
        };
        let changing: BTreeSet<&str> = TOOLS
            .iter()
            .filter(|tool| !tool.is_query)
            .flat_map(of)
            .collect();
        assert_eq!(changing.into_iter().collect::<Vec<_>>(), CHANGING);
        for action in TOOLS.iter().flat_map(of) {
            assert!(
                row(action).unwrap().senders.contains(&Role::Agent),
                "{action}"
            );
        }
        for never in [
            "approv", "deny", "decline", "revert", "override", "reload", "clear", "keys",
            "services", "grant", "halt", "account", "clock", "market.i",
        ] {
            let clears =
                |name: &str| name == "admission.cache_clear" || name == "interrogate.cache_clear";
            let names = TOOLS
                .iter()
                .filter(|tool| !tool.is_query)
                .map(|tool| tool.name);
            let mut names = CHANGING.into_iter().chain(names);
            assert_eq!(
                names.find(|name| name.contains(never) && !clears(name)),
                None,
                "{never}"
            );
        }
    }

    #[test]
    fn names_are_those_of_the_protocol() {
        let names: BTreeSet<&str> = TOOLS.iter().map(|tool| tool.name).collect();
        assert_eq!(names.len(), TOOLS.len(), "two tools have the same name");
        assert!(names.iter().all(|name| {
            name.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        }));
    }

    #[test]
    fn a_payload_with_a_request_id_keeps_it() {
        for tool in TOOLS.iter() {
            if let (Does::Ask(action), Some(member)) = (tool.does, tool.id_member) {
                let fields = row(action.as_str()).unwrap().payload;
                let is_taken = fields
                    .split(", ")
                    .any(|field| field.trim_end_matches('?') == member);
                assert!(!is_taken, "{}: {member} is a field of {action}", tool.name);
            }
        }
    }

    /// With `UPDATE_DOCS=1` the test adds the rows that are missing.
    #[test]
    fn the_table_of_tools_in_the_docs_names_every_tool() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md");
        let mut docs = fs::read_to_string(path).unwrap();
        for tool in TOOLS.iter() {
            if docs.contains(&format!("| `{}` |", tool.name)) {
                continue;
            }
            assert!(
                env::var_os("UPDATE_DOCS").is_some(),
                "docs/mcp.md has no row of `{}` (UPDATE_DOCS=1 adds it)",
                tool.name
            );
            let row = format!(
                "| `{}` | `{}` | {} |\n",
                tool.name,
                tool.actions()[0],
                tool.description
            );
            docs.insert_str(docs.find("| `submit_action` |").unwrap(), &row);
            fs::write(path, &docs).unwrap();
        }
    }
}
