//! Derives the schemas from the types that read and write. What a schema cannot express is in its
//! description: a schema never refuses what the reader accepts.

use std::collections::BTreeMap;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::files::{FILES, HomeFile};
use super::{ANSWER, Condition, about, answers, tidy};
use crate::actions::{self, ErasedAction};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::envelope;

/// The dialect of all schemas.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A schema without its head.
pub(super) struct Body {
    /// The schema.
    pub(super) schema: Schema,
    /// Its description.
    pub(super) about: String,
    /// Conditions that its reader checks as well.
    pub(super) conditions: &'static [Condition],
}

/// Every schema by name, in the text of its file.
pub fn derived() -> BTreeMap<String, String> {
    let of_actions = actions::ACTIONS.into_iter().flat_map(|action| {
        let name = action.row().name;
        [
            (name.to_string(), payload(action)),
            (format!("{name}{ANSWER}"), answers::body(action)),
        ]
    });
    let of_files = FILES
        .iter()
        .map(|file| (file.name.to_owned(), of_file(file)));
    let of_both = [
        ("request".to_owned(), request()),
        ("answer".to_owned(), answers::answer()),
    ];
    of_actions
        .chain(of_files)
        .chain(of_both)
        .map(|(name, body)| {
            let text = text(&name, body);
            (name, text)
        })
        .collect()
}

/// A schema (JSON Schema 2020-12), complete in itself.
fn text(name: &str, body: Body) -> String {
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
    format!("{:#}\n", Value::Object(members))
}

/// A file of a home.
fn of_file(file: &HomeFile) -> Body {
    Body {
        schema: (file.schema)(),
        about: file.about.to_owned(),
        conditions: file.conditions,
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
        conditions: action.conditions(),
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
    Body {
        schema,
        about: "A request as it lies in `spool/in`: the signed envelope.".to_owned(),
        conditions: about::REQUEST,
    }
}

/// The schema of what the reader of this type accepts.
pub(crate) fn read<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12())
}

/// The schema of what this type is serialised as.
pub(crate) fn written<T: JsonSchema>() -> Schema {
    generated::<T>(SchemaSettings::draft2020_12().for_serialize())
}

/// The schema of one variant of an externally tagged enum, as it is serialised.
pub(crate) fn variant<T: JsonSchema>(tag: &str) -> Schema {
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
