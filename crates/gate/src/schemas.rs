//! JSON Schemas of requests, answers and rule files, by name, derived from the types that read
//! them. What a schema cannot express is in its description: a schema never refuses what the reader
//! accepts.

pub(super) mod about;
mod answers;
mod rules;
mod tidy;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::actions::{self, ErasedAction};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::envelope;

/// The dialect of all schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Suffix of the names of answer schemas: `order.submit.answer`.
const ANSWER: &str = ".answer";

/// A condition that the reader checks and the schema cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub name: &'static str,
    /// The condition, in words.
    pub text: &'static str,
}

/// A schema without its head.
struct Body {
    /// The schema.
    schema: Schema,
    /// Its description.
    about: String,
    /// Conditions that its reader checks as well.
    conditions: Vec<Condition>,
}

/// Names of all schemas, sorted.
pub fn names() -> Vec<String> {
    let of_action = |name: ActionName| [name.to_string(), format!("{name}{ANSWER}")];
    let mut names: Vec<String> = ActionName::ALL.into_iter().flat_map(of_action).collect();
    names.extend(
        rules::NAMES
            .iter()
            .chain(&["request", "answer"])
            .map(|name| (*name).to_owned()),
    );
    names.sort_unstable();
    names
}

/// Whether the schema of this name describes a file of a home.
pub fn is_of_file(name: &str) -> bool {
    rules::NAMES.contains(&name)
}

/// Returns the schema of this name (JSON Schema 2020-12), complete in itself. The schema of an
/// action's payload has the action's name. `None` if there is no such schema.
pub fn schema(name: &str) -> Option<Value> {
    let body = body(name)?;
    let mut members = tidy::tidied(body.schema.to_value());
    let mut about = body.about;
    if !body.conditions.is_empty() {
        let conditions: Vec<&str> = body
            .conditions
            .iter()
            .map(|condition| condition.text)
            .collect();
        about = format!(
            "{about} What this schema cannot say and is refused besides: {}",
            conditions.join(" ")
        );
    }
    let head = [
        ("$schema", DIALECT.to_owned()),
        (
            "$id",
            format!("https://spoolgate.invalid/schemas/{name}.json"),
        ),
        ("title", name.to_owned()),
        ("description", about),
    ];
    members.extend(head.map(|(key, text)| (key.to_owned(), Value::String(text))));
    Some(Value::Object(members))
}

/// The conditions that the reader checks although the schema cannot express them; empty for an
/// unknown name.
pub fn conditions(name: &str) -> Vec<Condition> {
    body(name).map(|body| body.conditions).unwrap_or_default()
}

fn body(name: &str) -> Option<Body> {
    match name {
        "request" => Some(request()),
        "answer" => Some(answers::answer()),
        _ => match name.strip_suffix(ANSWER) {
            Some(action) => actions::named(action).map(answers::body),
            None => actions::named(name)
                .map(payload)
                .or_else(|| rules::body(name)),
        },
    }
}

/// The payload of an action.
fn payload(action: &'static dyn ErasedAction) -> Body {
    let row = action.row();
    let senders: Vec<&str> = row.senders.iter().map(|role| role.as_str()).collect();
    let about = format!(
        "{} Payload of `{}`, sent by: {}.",
        action.about(),
        row.name,
        senders.join(", ")
    );
    Body {
        schema: action.schema(),
        about,
        conditions: action.conditions().to_vec(),
    }
}

/// The envelope, with the payload of each action.
fn request() -> Body {
    let mut schema = read::<envelope::Fields<'_>>();
    let names = ActionName::names(ActionName::ALL);
    let defs: Map<String, Value> = actions::ACTIONS
        .into_iter()
        .map(|action| {
            let (name, body) = (action.row().name, payload(action));
            let mut members = tidy::tidied(body.schema.to_value());
            members.insert("description".to_owned(), body.about.into());
            (name.to_string(), Value::Object(members))
        })
        .collect();
    let of = |name: &&str| {
        json!({
            "if": {"properties": {"action": {"const": name}}, "required": ["action"]},
            "then": {"properties": {"payload": {"$ref": format!("#/$defs/{name}")}}},
        })
    };
    schema.insert("allOf".to_owned(), names.iter().map(of).collect());
    schema.insert("$defs".to_owned(), Value::Object(defs));
    if let Some(action) = schema
        .pointer_mut("/properties/action")
        .and_then(Value::as_object_mut)
    {
        action.remove("pattern");
        action.insert("enum".to_owned(), json!(names.as_slice()));
    }
    let conditions = vec![
        about::CALENDAR,
        about::CAUSALITY,
        about::SIGNATURE,
        about::PAYLOAD,
    ];
    Body {
        schema,
        about: "A request as it lies in `spool/in`: the signed envelope.".to_owned(),
        conditions,
    }
}

/// The schema of what the reader of this type accepts.
pub(super) fn read<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12())
}

/// The schema of what this type is serialised as.
pub(super) fn written<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of one variant of an externally tagged enum, as it is serialised.
pub(super) fn variant<T: JsonSchema>(tag: &str) -> Schema {
    let schema = written::<T>();
    let parts = schema
        .get("oneOf")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let is_it = |part: &Value| part.pointer(&format!("/properties/{tag}")).is_some();
    schemars::json_schema!({"oneOf": parts.into_iter().filter(is_it).collect::<Vec<_>>()})
}

fn generated<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    // The tools of models do not follow references.
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    SchemaGenerator::new(settings).into_root_schema_for::<T>()
}
