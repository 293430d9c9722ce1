//! JSON Schemas of arguments and results. They tell a model what to send; the types that read the
//! payload enforce it.

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};
use spoolgate_gate::actions::{self, request_check};
use spoolgate_gate::schemas;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Retry;

use super::arguments::CAUSALITY;
use super::tools::{Does, Tool};

/// Keywords that combine schemas. The interfaces of models refuse them at the top level.
const COMBINED: [&str; 3] = ["oneOf", "anyOf", "allOf"];

/// Pattern of request ids. It allows two endings that are reserved for the gate.
const ID: &str = "^[0-9A-Za-z][0-9A-Za-z._:-]{0,127}$";

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
        Does::Explain => an_object(json!({
            "type": "object",
            "properties": {"request_id": {"type": "string", "pattern": ID, "description": "the id \
                of one of your requests"}},
            "required": ["request_id"],
            "additionalProperties": false,
        })),
        Does::CouncilDecision => an_object(json!({
            "type": "object",
            "properties": {"request_id": {"type": "string", "pattern": ID, "description": "the \
                name of the case"}},
            "required": ["request_id"],
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
        let about = "an id that you choose for this request and use once: the same call under the \
            same id is done once, even if messages are lost. Absent: a random one";
        properties.insert(
            member.to_owned(),
            json!({"type": "string", "pattern": ID, "description": about}),
        );
        let about = "the task behind the request and what caused it, where admission is required";
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
    // Names of the document itself are no use within another.
    for name in ["$schema", "$id", "title"] {
        schema.remove(name);
    }
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
    schema.insert("type".to_owned(), "object".into());
    schema
}

/// Returns the schema of `{"action", "payload"}`, with each payload described in words.
fn with_action(names: &[ActionName]) -> JsonObject {
    let fields: Vec<String> = names
        .iter()
        .filter_map(|name| actions::find(name.as_str()))
        .map(|rule| format!("{}: {}", rule.name, rule.payload))
        .collect();
    an_object(json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": names},
            "payload": {"type": "object", "description": format!("the fields of the action. \
                {}", fields.join("; "))},
        },
        "required": ["action", "payload"],
        "additionalProperties": false,
    }))
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
    use crate::tools::TOOLS;

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
            jsonschema::validator_for(&Value::Object(schema)).unwrap();
        }
        jsonschema::validator_for(&Value::Object(output())).unwrap();
    }
}
