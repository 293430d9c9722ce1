//! The table of tools: the name of each, what it does, and which requests it can sign. This program
//! can send no request that the table does not name.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::LazyLock;

use spoolgate_gate::actions::{self, Row};
use spoolgate_rules::nearest::did_you_mean;
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
    /// Lists the fields that rules may read.
    RuleFields,
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

/// A part of the tools, which `--allow` names as a whole.
pub(crate) struct Group {
    /// Its name.
    pub name: &'static str,
    /// The names of its tools.
    pub tools: &'static [&'static str],
}

/// The groups. `control` is exactly the contract's tools; `halt`, `heartbeat`, `check` and `explain`
/// are in every other one.
pub(crate) const GROUPS: [Group; 6] = [
    Group {
        name: "trading",
        tools: &[
            "submit_order",
            "cancel_order",
            "tighten_stop",
            "portfolio",
            "orders",
            "fills",
            "market_data",
            "list_instruments",
            "list_theses",
            "halt",
            "heartbeat",
            "check",
            "explain",
        ],
    },
    Group {
        name: "rules",
        tools: &[
            "propose_rule",
            "list_proposals",
            "list_rules",
            "rule_fields",
            "halt",
            "heartbeat",
            "check",
            "explain",
        ],
    },
    Group {
        name: "council",
        tools: &[
            "council_request",
            "council_verdict",
            "council_decision",
            "list_cases",
            "halt",
            "heartbeat",
            "check",
            "explain",
        ],
    },
    Group {
        name: "control",
        tools: &["apply_control_decision", "list_strategies", "get_strategy"],
    },
    Group {
        name: "admission",
        tools: &[
            "interrogate_health",
            "interrogate_evaluate",
            "interrogate_admit",
            "interrogate_check",
            "interrogate_cache_clear",
            "interrogate_cache_invalidate",
            "interrogate_settle",
            "halt",
            "heartbeat",
            "check",
            "explain",
        ],
    },
    Group {
        name: "assistant",
        tools: &["submit_action", "halt", "heartbeat", "check", "explain"],
    },
];

/// The beginning of the names of admission's tools, and the one that its contract gives them.
/// Clients refuse all tools of a server that lists a name with a dot.
const PLAIN: &str = "interrogate_";
const DOTTED: &str = "interrogate.";

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
const OWN: [Tool; 5] = [
    query(
        "council_decision",
        Does::CouncilDecision,
        "Read a council decision",
        "The council's decision on a case, once there is one.",
    ),
    query(
        "rule_fields",
        Does::RuleFields,
        "Fields of rules",
        "The fields that a rule about an action may read, for `propose_rule`. The schema of a rule \
            is the resource spoolgate:///schemas/rules.rule.",
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

/// Returns the tools that `--allow` names, in the order of the table: tools by either of their
/// names, and groups. Without a name, returns all tools.
///
/// # Errors
/// Returns the first name that is neither a tool nor a group.
pub(crate) fn offered(names: &[String]) -> Result<Vec<&'static Tool>, UnknownTool> {
    let mut allowed = BTreeSet::new();
    for name in names {
        let group = GROUPS.iter().find(|group| group.name == name);
        let tool = TOOLS.iter().find(|tool| tool.is_called(name));
        match (group, tool) {
            (Some(group), _) => allowed.extend(group.tools),
            (None, Some(tool)) => allowed.extend([tool.name]),
            (None, None) => return Err(UnknownTool::new(name)),
        }
    }
    let is_offered = |tool: &&Tool| names.is_empty() || allowed.contains(tool.name);
    Ok(TOOLS.iter().filter(is_offered).collect())
}

/// There is no tool or group of this name.
#[derive(Debug, thiserror::Error)]
#[error("`{name}` is neither a tool nor a group{near}")]
pub(crate) struct UnknownTool {
    name: String,
    near: String,
}

impl UnknownTool {
    fn new(name: &str) -> UnknownTool {
        let groups = GROUPS.map(|group| group.name);
        let known = groups.into_iter().chain(TOOLS.iter().map(|tool| tool.name));
        let otherwise = format!(
            "; the groups are {}, and docs/mcp.md lists the tools",
            groups.join(", ")
        );
        UnknownTool {
            name: name.escape_debug().take(64).collect(),
            near: did_you_mean(name, known, &otherwise),
        }
    }
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
    /// Returns the name that the contract gives it.
    pub(crate) fn contract_name(&self) -> Cow<'static, str> {
        match self.name.strip_prefix(PLAIN) {
            Some(rest) => format!("{DOTTED}{rest}").into(),
            None => self.name.into(),
        }
    }

    /// Returns whether a call by this name is a call of this tool.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        let rest = |name: &'static str| name.strip_prefix(PLAIN);
        self.name == name
            || name
                .strip_prefix(DOTTED)
                .is_some_and(|dotted| rest(self.name) == Some(dotted))
    }

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
            Does::Explain => vec![ActionName::OrdersList, ActionName::FillsList, CHECK],
            Does::CouncilDecision | Does::RuleFields => Vec::new(),
        }
    }

    fn signs(&self, action: &str) -> bool {
        self.actions().iter().any(|name| *action == *name)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{env, fs};

    use spoolgate_gate::actions::find as row;
    use spoolgate_rules::principals::Role;

    use super::*;

    /// Everything that this program can ever sign and that changes something.
    const CHANGING: [&str; 23] = [
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
        "halt.set",
        "health.fetch",
        "heartbeat",
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
            "services", "grant", "halt.c", "account", "clock", "market.i",
        ] {
            let clears =
                |name: &str| name == "admission.cache_clear" || name == "interrogate_cache_clear";
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
        let is_plain = |name: &&str| {
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                && (1..=64).contains(&name.len())
        };
        assert!(names.iter().all(is_plain), "{names:?}");
        for tool in TOOLS.iter() {
            let contract = tool.contract_name();
            assert!(tool.is_called(tool.name) && tool.is_called(&contract));
            assert_eq!(
                contract.contains('.'),
                tool.name.starts_with(PLAIN),
                "{contract}"
            );
        }
    }

    #[test]
    fn every_tool_is_in_a_group_and_every_group_has_only_tools() {
        let names = |names: &[&str]| -> Vec<&str> {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            offered(&names)
                .unwrap()
                .iter()
                .map(|tool| tool.name)
                .collect()
        };
        assert_eq!(names(&[]).len(), TOOLS.len());
        assert_eq!(names(&GROUPS.map(|group| group.name)), names(&[]));
        for group in GROUPS {
            let own = names(&[group.name]);
            assert_eq!(own.len(), group.tools.len(), "{}", group.name);
            for always in ["halt", "heartbeat", "check", "explain"] {
                assert_eq!(
                    own.contains(&always),
                    group.name != "control",
                    "{}",
                    group.name
                );
            }
        }
        assert_eq!(
            names(&["interrogate.check", "interrogate_health", "portfolio"]),
            ["portfolio", "interrogate_check", "interrogate_health"]
        );
        for (name, message) in [
            ("tradin", "did you mean `trading`?"),
            ("submit_orders", "did you mean `submit_order`?"),
            ("approve", "the groups are trading, rules, council, control"),
        ] {
            let error = offered(&[name.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
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
            let signs = match tool.actions().first() {
                Some(action) => format!("`{action}`"),
                None => "nothing".to_owned(),
            };
            let row = format!("| `{}` | {signs} | {} |\n", tool.name, tool.description);
            docs.insert_str(docs.find("| `submit_action` | one of").unwrap(), &row);
            fs::write(path, &docs).unwrap();
        }
    }
}
