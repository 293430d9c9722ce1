//! JSON Schemas of arguments and results. They tell a model what to send; the types that read the
//! payload enforce it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};
use spoolgate_gate::actions::{self, request_check};
use spoolgate_gate::schemas;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Retry;

use super::arguments::CAUSALITY;
use super::tools::{Does, TOOLS, Tool};

/// Longest text of an input schema, in characters. Longer ones cost a model more than they tell it.
const TEXT_CHARS_MAX: usize = 80;

/// Keywords that input schemas leave out: a model gains nothing from them, and the reader of the
/// payload checks them anyway. `not` has only patterns.
const LEFT_OUT: [&str; 15] = [
    "$schema",
    "$id",
    "title",
    "pattern",
    "not",
    "examples",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
];

/// Keywords whose members are names with a schema each.
const NAMED: [&str; 2] = ["properties", "$defs"];

/// Members of a payload that only people may give.
const OF_PEOPLE: [(ActionName, &[&str]); 2] = [
    (
        ActionName::HaltSet,
        &["principal", "symbol", "bridge", "flatten", "drill"],
    ),
    (ActionName::Heartbeat, &["principal"]),
];

/// Keywords that combine schemas. The interfaces of models refuse them at the top level.
const COMBINED: [&str; 3] = ["oneOf", "anyOf", "allOf"];

fn an_object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Returns the schema of a tool's arguments.
pub(crate) fn input(tool: &Tool) -> JsonObject {
    let mut schema = match tool.does {
        Does::Ask(action) => of_payload(action),
        Does::Outgoing => with_action(&ActionName::OUTGOING),
        Does::Check => with_action(&request_check::checked().collect::<Vec<_>>()),
        Does::Explain => with_request_id("the id of one of your requests"),
        Does::CouncilDecision => with_request_id("the name of the case"),
        Does::RuleFields => an_object(json!({
            "type": "object",
            "properties": {"action": {"type": "string", "enum": ActionName::RULED}},
            "required": ["action"],
            "additionalProperties": false,
        })),
    };
    if tool.id_member.is_some() {
        // The id and the task are added beside the payload here, so a maximum of members cannot
        // stay; the types enforce it.
        schema.remove("maxProperties");
    }
    let own = schema.entry("properties").or_insert_with(|| json!({}));
    if let (Some(properties), Some(member)) = (own.as_object_mut(), tool.id_member) {
        let about = "an id of your choice: calls under one id are done once";
        properties.insert(
            member.to_owned(),
            json!({"type": "string", "description": about}),
        );
        let about = "the task behind the request, where admission is required";
        properties.insert(
            CAUSALITY.to_owned(),
            json!({"type": "object", "description": about}),
        );
    }
    schema
}

/// Returns the schema of an action's payload, flattened at the top level.
fn of_payload(action: ActionName) -> JsonObject {
    let mut schema = an_object(schemas::schema(action.as_str()).unwrap_or_else(|| json!({})));
    slim(&mut schema);
    // The tool's own description says it.
    schema.remove("description");
    let branches: Vec<Value> = COMBINED
        .iter()
        .filter_map(|name| schema.remove(*name))
        .filter_map(|branches| branches.as_array().cloned())
        .flatten()
        .collect();
    let of_branches = branches
        .iter()
        .filter_map(|branch| branch.get("properties")?.as_object())
        .flatten();
    let of_branches: Vec<(String, Value)> = of_branches
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if let Some(own) = schema
        .entry("properties")
        .or_insert_with(|| json!({}))
        .as_object_mut()
    {
        of_branches.into_iter().for_each(|(name, value)| {
            own.entry(name).or_insert(value);
        });
    }
    let hidden = OF_PEOPLE.iter().find(|(of, _)| *of == action);
    if let (Some((_, hidden)), Some(own)) = (hidden, schema.get_mut("properties"))
        && let Some(own) = own.as_object_mut()
    {
        own.retain(|name, _| !hidden.contains(&name.as_str()));
    }
    schema.insert("type".to_owned(), "object".into());
    schema
}

/// Leaves out of a schema what a model does not need to make a request, at every depth.
fn slim(schema: &mut JsonObject) {
    schema.retain(|keyword, _| !LEFT_OUT.contains(&keyword.as_str()));
    if let Some(Value::String(text)) = schema.get("description") {
        // The first sentence may say it in short.
        let first = text.split_inclusive(". ").next().unwrap_or_default().trim();
        let first = first.to_owned();
        if first.chars().count() <= TEXT_CHARS_MAX {
            schema.insert("description".to_owned(), first.into());
        } else {
            schema.remove("description");
        }
    }
    for (keyword, value) in schema.iter_mut() {
        match value {
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => {
                named.values_mut().for_each(slim_value);
            }
            other => slim_value(other),
        }
    }
}

fn slim_value(value: &mut Value) {
    match value {
        Value::Object(schema) => slim(schema),
        Value::Array(items) => items.iter_mut().for_each(slim_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn with_request_id(about: &str) -> JsonObject {
    an_object(json!({
        "type": "object",
        "properties": {"request_id": {"type": "string", "description": about}},
        "required": ["request_id"],
        "additionalProperties": false,
    }))
}

/// Returns the schema of `{"action", "payload"}`; [`description`] has the fields of the payloads.
fn with_action(names: &[ActionName]) -> JsonObject {
    an_object(json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": names},
            "payload": {"type": "object", "description": "the fields of the action"},
        },
        "required": ["action", "payload"],
        "additionalProperties": false,
    }))
}

/// Returns what a model reads about a tool; for `submit_action` with the fields of each action.
pub(crate) fn description(tool: &Tool) -> Cow<'static, str> {
    match tool.does {
        Does::Outgoing => {
            let fields = ActionName::OUTGOING.iter().filter_map(|name| {
                let row = actions::find(name.as_str())?;
                Some(format!("{name}: {}", row.payload))
            });
            let fields: Vec<String> = fields.collect();
            format!("{} Fields: {}.", tool.description, fields.join("; ")).into()
        }
        Does::Ask(_) | Does::Check | Does::Explain | Does::CouncilDecision | Does::RuleFields => {
            tool.description.into()
        }
    }
}

/// Names of schemas besides those of payloads: a rule file, and the result of a tool.
const RULE: &str = "rules.rule";
const RESULT: &str = "result";

/// Returns the names of the schemas that a model may read: the payload of every action that it can
/// send, a rule file, and the result of a tool.
pub(crate) fn published() -> impl Iterator<Item = &'static str> {
    let actions: BTreeSet<&str> = TOOLS
        .iter()
        .flat_map(Tool::actions)
        .map(ActionName::as_str)
        .collect();
    actions.into_iter().chain([RULE, RESULT])
}

/// Returns the text of a published schema.
pub(crate) fn text(name: &str) -> Option<String> {
    if !published().any(|known| known == name) {
        return None;
    }
    match name {
        RESULT => serde_json::to_string_pretty(&output()).ok(),
        _ => schemas::text(name).map(str::to_owned),
    }
}

/// Returns the schema of every tool's result.
pub(crate) fn output() -> JsonObject {
    let amount = json!({"type": ["string", "null"], "description": "an exact decimal"});
    let refused = json!({
        "type": "object",
        "description": "why it was not carried out",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "failed_checks": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "check": {"type": "string"}, "measured": amount, "limit": amount,
                    "unit": {"type": "string"},
                    "source": {"type": "string"}, "message": {"type": "string"},
                },
                "required": ["check", "measured", "limit", "message"],
            }},
            "headroom": {
                "type": "object",
                "description": "the largest size that would pass, and the check that refuses more",
                "properties": {"max_size": {"type": "string"}, "binding_check": {"type": "string"}},
                "required": ["max_size", "binding_check"],
            },
            "retry": {
                "enum": Retry::ALL.map(Retry::as_str),
                "description": "same_id: repair it and send it under the same id; new_id: send a \
                    new request; after: send the same request again; never: not until a person or \
                    the state has changed what refuses it, or somebody has looked whether it was \
                    done",
            },
            "faults": {"type": "array", "description": "everything that is wrong with it", "items": {
                "type": "object",
                "properties": {
                    "pointer": {"type": "string"}, "got": {"type": "string"},
                    "expected": {"type": "string"}, "example": {},
                    "at": {"type": "object"},
                },
                "required": ["pointer", "got", "expected"],
            }},
        },
        "required": ["code", "message"],
    });
    an_object(json!({
        "type": "object",
        "properties": {
            "status": {"enum": [
                "success", "error", "requires_approval", "rate_limited", "not_sent", "unknown",
                "open",
            ]},
            "request_id": {"type": "string", "description": "the id of the request"},
            "audit_ref": {"type": "string", "description": "number of the ledger line"},
            "data": {"description": "what the gate answered"},
            "refused": refused,
            "retry_after_ms": {"type": "integer", "description": "how long to wait before trying \
                again"},
            "note": {"type": "string"},
            "would_be": {"type": "object", "description": "the result that would be given"},
            "decision": {"type": "string", "description": "the status of the explained request"},
            "needs": {"type": "array", "items": {"type": "string"}, "description": "what to send \
                instead"},
            "order": {"type": "object", "description": "what has happened to the order"},
            "earlier": {
                "type": "object",
                "description": "with REQUEST_ID_CONFLICT: the result under this id; the request \
                    behind it is not known here and may have been another one",
            },
        },
        "required": ["status"],
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn every_published_schema_can_be_read() {
        for name in published() {
            let schema: Value = serde_json::from_str(&text(name).unwrap()).unwrap();
            jsonschema::validator_for(&schema).unwrap();
        }
        assert!(published().any(|name| name == "order.submit"));
        assert_eq!(text("halt.clear"), None);
    }

    /// Asserts that no schema within this value has a keyword or text that is left out.
    fn is_slim(value: &Value, is_names: bool) {
        if let Some(object) = value.as_object() {
            for (name, value) in object {
                assert!(
                    is_names || !LEFT_OUT.contains(&name.as_str()),
                    "{name}: {value}"
                );
                is_slim(value, !is_names && NAMED.contains(&name.as_str()));
            }
        }
        if let Some(items) = value.as_array() {
            items.iter().for_each(|item| is_slim(item, false));
        }
        if let Some(text) = value.as_str() {
            assert!(text.chars().count() <= TEXT_CHARS_MAX, "{text}");
        }
    }

    #[test]
    fn texts_of_80_characters_stay_and_longer_ones_go() {
        for (long, stays) in [(79, true), (80, true), (81, false)] {
            let about = "x".repeat(long);
            let mut schema = an_object(json!({
                "title": "a", "description": about,
                "properties": {"title": {"type": "string", "pattern": "^a$", "title": "A"}},
            }));
            slim(&mut schema);
            assert_eq!(schema.contains_key("description"), stays, "{long}");
            assert_eq!(
                schema.get("properties"),
                Some(&json!({"title": {"type": "string"}}))
            );
        }
        let mut schema = an_object(json!({"description": format!("In short. {}", "x".repeat(90))}));
        slim(&mut schema);
        assert_eq!(schema.get("description"), Some(&json!("In short.")));
    }

    #[test]
    fn every_tool_has_a_plain_object_at_the_top() {
        for tool in TOOLS.iter() {
            let schema = input(tool);
            assert_eq!(schema.get("type"), Some(&json!("object")), "{}", tool.name);
            assert!(
                COMBINED.iter().all(|name| !schema.contains_key(*name)),
                "{}",
                tool.name
            );
            let properties = schema.get("properties").unwrap().as_object().unwrap();
            if let Some(member) = tool.id_member {
                assert!(
                    properties.contains_key(member) && properties.contains_key(CAUSALITY),
                    "{}",
                    tool.name
                );
            }
            let schema = Value::Object(schema);
            is_slim(&schema, false);
            jsonschema::validator_for(&schema).unwrap();
        }
        jsonschema::validator_for(&Value::Object(output())).unwrap();
    }
}
