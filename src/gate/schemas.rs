//! JSON Schemas of requests, answers and rule files, by name, from the types that read them. What a schema cannot say its
//! description does: a schema never refuses what the reader takes.

mod about;
mod answers;
mod payloads;
mod rules;
mod tidy;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::actions::ACTIONS;
use crate::wire::envelope;

/// The dialect of all schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// What a reader refuses although the schema takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub name: &'static str,
    /// What must hold, in words.
    pub text: &'static str,
}

/// A schema without its head.
struct Body {
    /// The schema.
    schema: Schema,
    /// What it is of.
    about: String,
    /// What its reader refuses besides.
    conditions: Vec<Condition>,
}

/// Names of all schemas, sorted.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = ACTIONS.iter().map(|rule| rule.name).collect();
    names.extend(answers::names());
    names.extend(rules::NAMES);
    names.extend(["request", "answer"]);
    names.sort_unstable();
    names
}

/// Whether the schema of this name is that of a file of a home.
pub fn is_of_file(name: &str) -> bool {
    rules::NAMES.contains(&name)
}

/// The schema of this name (JSON Schema 2020-12), complete in itself: that of an action's payload under the action's name.
/// None where there is no such schema.
pub fn schema(name: &str) -> Option<Value> {
    let body = body(name)?;
    let mut members = tidy::tidied(body.schema.to_value());
    let mut about = body.about;
    if !body.conditions.is_empty() {
        let conditions: Vec<&str> = body.conditions.iter().map(|condition| condition.text).collect();
        about =
            format!("{about} What this schema cannot say and is refused besides: {}", conditions.join(" "));
    }
    let head = [
        ("$schema", DIALECT.to_owned()),
        ("$id", format!("https://spoolgate.invalid/schemas/{name}.json")),
        ("title", name.to_owned()),
        ("description", about),
    ];
    members.extend(head.map(|(key, text)| (key.to_owned(), Value::String(text))));
    Some(Value::Object(members))
}

/// What the reader behind this schema refuses although the schema takes it; none of a name that is not known.
pub fn conditions(name: &str) -> Vec<Condition> {
    body(name).map(|body| body.conditions).unwrap_or_default()
}

fn body(name: &str) -> Option<Body> {
    match name {
        "request" => Some(request()),
        "answer" => Some(answers::answer()),
        _ => payloads::body(name).or_else(|| answers::body(name)).or_else(|| rules::body(name)),
    }
}

/// The envelope, with the payload of each action.
fn request() -> Body {
    let mut schema = read::<envelope::Fields<'_>>();
    let names: Vec<&str> = ACTIONS.iter().map(|rule| rule.name).collect();
    let payloads = names.iter().filter_map(|name| Some((*name, payloads::body(name)?)));
    let defs: Map<String, Value> = payloads
        .map(|(name, body)| {
            let mut members = tidy::tidied(body.schema.to_value());
            members.insert("description".to_owned(), body.about.into());
            (name.to_owned(), Value::Object(members))
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
    if let Some(action) = schema.pointer_mut("/properties/action").and_then(Value::as_object_mut) {
        action.remove("pattern");
        action.insert("enum".to_owned(), json!(names));
    }
    let conditions = vec![about::CALENDAR, about::CAUSALITY, about::SIGNATURE, about::PAYLOAD];
    Body { schema, about: "A request as it lies in `spool/in`: the signed envelope.".to_owned(), conditions }
}

/// The schema of what a reader of this type takes.
fn read<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12())
}

/// The schema of what this type is written as.
fn written<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn generated<T: JsonSchema>(settings: SchemaSettings) -> Schema {
    // Tools of models follow no references.
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    SchemaGenerator::new(settings).into_root_schema_for::<T>()
}
