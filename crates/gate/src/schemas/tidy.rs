//! Turns a derived schema into the published one.

use serde_json::{Map, Value, json};

/// The members of a schema, tidied at every level.
pub(super) fn tidied(schema: Value) -> Map<String, Value> {
    match tidy(schema) {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn tidy(value: Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.into_iter().map(tidy).collect()),
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| {
                // These members hold values, not schemas.
                let is_value = matches!(
                    key.as_str(),
                    "default" | "const" | "enum" | "examples" | "required"
                );
                (key, if is_value { value } else { tidy(value) })
            });
            Value::Object(tidy_one(members.collect()))
        }
        other => other,
    }
}

fn tidy_one(mut schema: Map<String, Value>) -> Map<String, Value> {
    // A key that is left out is not the same as null.
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // A type accepts no members besides its own.
    let is_object = schema
        .get("type")
        .is_some_and(|kind| *kind == "object" || *kind == json!(["object", "null"]));
    if is_object && schema.contains_key("properties") {
        schema.entry("additionalProperties").or_insert(json!(false));
    }
    bound(&mut schema);
    collapse(&mut schema);
    describe(&mut schema);
    if let Some(Value::String(text)) = schema.get("description") {
        let text = text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace("[`", "`")
            .replace("`]", "`");
        schema.insert("description".to_owned(), text.into());
    }
    schema
}

/// The only member of a body takes the description of the body.
fn describe(schema: &mut Map<String, Value>) {
    let Some(about) = schema.get("description").cloned() else {
        return;
    };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return;
    };
    if properties.len() > 1 {
        return;
    }
    for property in properties.values_mut().filter_map(Value::as_object_mut) {
        property.entry("description").or_insert(about.clone());
    }
}

/// Turns the widths of numbers into bounds, which every validator knows.
fn bound(schema: &mut Map<String, Value>) {
    let (least, most) = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (json!(0), json!(u8::MAX)),
        Some("uint16") => (json!(0), json!(u16::MAX)),
        Some("uint32") => (json!(0), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(0), json!(u64::MAX)),
        Some("int64") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    schema.remove("format");
    schema.entry("minimum").or_insert(least);
    schema.entry("maximum").or_insert(most);
}

/// Merges words with a description each into one list of words with one description.
fn collapse(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.get("oneOf") else {
        return;
    };
    let mut words = Vec::new();
    let mut meanings = Vec::new();
    for choice in choices {
        let listed = choice.get("enum").and_then(Value::as_array).cloned();
        let Some(these) = choice
            .get("const")
            .map(|word| vec![word.clone()])
            .or(listed)
        else {
            return;
        };
        let meaning = choice.get("description").and_then(Value::as_str);
        if let (Some(meaning), Some(word)) = (meaning, these.first().and_then(Value::as_str)) {
            meanings.push(format!("`{word}`: {meaning}"));
        }
        words.extend(these);
    }
    let own = schema
        .get("description")
        .and_then(Value::as_str)
        .map(ToOwned::to_owned);
    let about: Vec<String> = own.into_iter().chain(meanings).collect();
    schema.remove("oneOf");
    schema.insert("type".to_owned(), "string".into());
    schema.insert("enum".to_owned(), words.into());
    if !about.is_empty() {
        schema.insert("description".to_owned(), about.join(" ").into());
    }
}
