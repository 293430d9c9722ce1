//! Schemas of answers and of their `data`.

use schemars::Schema;
use serde_json::{Map, Value, json};

use super::derive::{Body, variant, written};
use super::tidy;
use crate::actions::{Admission, ErasedAction, Rules};
use crate::record::{AdmissionAnswer, HeldAnswer, LimitedAnswer, OrderAnswer};
use spoolgate_wire::answer::Answer;
use spoolgate_wire::repair::Repair;

/// The answer to any request.
pub(super) fn answer() -> Body {
    Body {
        schema: written::<Answer>(),
        about: "The answer to a request, as it lies in `spool/out`. The schema of `data` is named \
            after the action, as `order.submit.answer`."
            .to_owned(),
        conditions: &[],
    }
}

/// The `data` of answers to an action.
pub(super) fn body(action: &'static dyn ErasedAction) -> Body {
    let row = action.row();
    let mut choices = Vec::new();
    add(&mut choices, action.answer_schema());
    let is_held = row.rules_apply != Rules::No;
    if is_held {
        add(&mut choices, written::<HeldAnswer<'_>>());
    }
    if row.admission != Admission::Warns {
        add(&mut choices, written::<AdmissionAnswer<'_>>());
    }
    // Every request can be refused by checks, and every counted request can be refused for now.
    add(&mut choices, variant::<OrderAnswer<'_>>("Rejected"));
    add(&mut choices, written::<LimitedAnswer<'_>>());
    add(&mut choices, retry());
    let advice = written::<Repair>();
    let advice = tidy::tidied(advice.to_value());
    let advice = advice.get("properties").and_then(Value::as_object).cloned();
    let advice = advice.unwrap_or_default();
    for choice in &mut choices {
        allow(choice, &advice);
    }
    let about = format!(
        "`data` of answers to `{}`: what was asked for, or why it is not to be had: refused, \
            held, or too much at a time. Every refusal says whether and how to try again.",
        row.name
    );
    let schema = schemars::json_schema!({"anyOf": choices, "properties": advice});
    Body {
        schema,
        about,
        conditions: &[],
    }
}

/// Allows these members in an object besides its own. Their schemas stand once, beside the choices.
fn allow(choice: &mut Value, members: &Map<String, Value>) {
    let is_closed = choice.get("additionalProperties") == Some(&Value::Bool(false));
    if let Some(Value::Object(own)) = choice.get_mut("properties").filter(|_| is_closed) {
        for (name, schema) in members {
            let about = json!({"description": schema.get("description")});
            own.entry(name.clone()).or_insert(about);
        }
    }
}

/// A body that states only whether and how to try again.
fn retry() -> Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "retryAfterMs": {
                "type": "integer", "minimum": 0, "maximum": u64::MAX,
                "description": "How long to wait before the same is sent again, milliseconds.",
            },
        },
        "additionalProperties": false,
    })
}

/// Adds a schema to the choices. A schema that is a choice itself is added part by part, without
/// duplicates.
fn add(choices: &mut Vec<Value>, schema: Schema) {
    let mut members = tidy::tidied(schema.to_value());
    members.remove("title");
    let parts = match members.get("oneOf") {
        Some(Value::Array(parts)) => parts.clone(),
        _ => vec![Value::Object(members)],
    };
    for part in parts {
        if !choices.contains(&part) {
            choices.push(part);
        }
    }
}
