//! Values and schemas in words.

use serde_json::{Map, Value};

use super::{Kind, types};
use crate::text::{QUOTED_CHARS_MAX, quoted};

/// Longest description of what is expected, characters.
const EXPECTED_CHARS_MAX: usize = 300;
/// Bounds from here on go without saying.
const BOUND_END: f64 = 1e12;
/// What is there instead of a member whose name is not repeated.
pub(super) const UNNAMED: &str = "a member whose name is too long or cannot be shown";
/// How the words for an unknown member begin.
pub(super) const NO_MEMBER: &str = "no member of this name";
/// How the pattern of a text begins that must have a visible character.
const VISIBLE: &str = r"[^\t-\r";
/// How the pattern of a text begins that must not have control characters.
const NO_CONTROL: &str = r"^[^\u0000-\u001f";

/// The type of a value.
pub(super) fn kind_of(kind: &Kind<'_>) -> &'static str {
    match kind {
        Kind::Null => "null",
        Kind::Bool(_) => "true or false",
        Kind::Number(_) => "a number",
        Kind::Text(_) => "a text",
        Kind::List(_) => "a list",
        Kind::Object(_) => "an object",
    }
}

/// The type of a value and the beginning of it.
pub(super) fn shown(kind: &Kind<'_>) -> String {
    match kind {
        Kind::Null | Kind::Object(_) => kind_of(kind).to_owned(),
        Kind::Bool(value) => value.to_string(),
        Kind::Number(text) => format!("a number, {}", quoted(text, QUOTED_CHARS_MAX)),
        Kind::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Kind::Text(text) if text.trim().is_empty() => {
            "a text that has no visible character".to_owned()
        }
        Kind::Text(text) if text.chars().count() > QUOTED_CHARS_MAX => {
            let (characters, bytes) = (text.chars().count(), text.len());
            let size = match characters == bytes {
                true => format!("{characters} characters"),
                false => format!("{characters} characters in {bytes} bytes"),
            };
            format!("a text of {size}, {}", quoted(text, QUOTED_CHARS_MAX))
        }
        Kind::Text(text) => format!("a text, {}", quoted(text, QUOTED_CHARS_MAX)),
        Kind::List(items) if items.is_empty() => "an empty list".to_owned(),
        Kind::List(items) => format!("a list of {}", counted(items.len(), "elements")),
    }
}

/// What a schema accepts.
pub(super) fn expected(schema: &Map<String, Value>) -> String {
    let words = in_words(schema);
    match words.char_indices().nth(EXPECTED_CHARS_MAX) {
        Some((end, _)) => format!("{}...", words.get(..end).unwrap_or_default()),
        None => words,
    }
}

fn in_words(schema: &Map<String, Value>) -> String {
    let one_of = |values: &[Value]| {
        let values: Vec<String> = values.iter().map(value_in_words).collect();
        match values.as_slice() {
            [one] => one.clone(),
            many => format!("one of {}", many.join(", ")),
        }
    };
    if let Some(value) = schema.get("const") {
        return value_in_words(value);
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return one_of(values);
    }
    let choices = ["anyOf", "oneOf"]
        .iter()
        .find_map(|name| schema.get(*name)?.as_array());
    if let Some(choices) = choices {
        let choices = choices.iter().filter_map(Value::as_object).map(in_words);
        return choices.collect::<Vec<_>>().join(", or ");
    }
    let types = types(schema);
    let is_amount = types.contains(&"number") && types.contains(&"string");
    let names: Vec<String> = types
        .iter()
        .filter(|name| !(is_amount && **name == "string"))
        .map(|name| match *name {
            "string" => text(schema),
            "number" if is_amount => {
                let (digits, bounds) = (digits(schema), bounds(schema));
                format!("a number{bounds} without an exponent{digits}, or a text of its digits")
            }
            "number" => format!("a number{}", bounds(schema)),
            "integer" => format!("a whole number{}", bounds(schema)),
            "boolean" => "true or false".to_owned(),
            "array" => list(schema),
            "object" => object(schema),
            other => other.to_owned(),
        })
        .collect();
    match names.is_empty() {
        true => "a value".to_owned(),
        false => names.join(", or "),
    }
}

fn value_in_words(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    }
}

/// `1 thing`, `2 things`.
fn counted(count: usize, things: &str) -> String {
    match count == 1 {
        true => format!("1 {}", things.trim_end_matches('s')),
        false => format!("{count} {things}"),
    }
}

/// ` of 1 to 5 things`, from the bounds on a size; empty if there are none.
fn size(schema: &Map<String, Value>, least: &str, most: &str, things: &str) -> String {
    let bound = |name: &str| {
        let bound = schema.get(name).and_then(Value::as_u64)?;
        usize::try_from(bound).ok()
    };
    match (bound(least), bound(most)) {
        (Some(least), Some(most)) if least == most => format!(" of {}", counted(most, things)),
        (Some(least), Some(most)) => format!(" of {least} to {}", counted(most, things)),
        (None, Some(most)) => format!(" of at most {}", counted(most, things)),
        (Some(least), None) => format!(" of at least {}", counted(least, things)),
        (None, None) => String::new(),
    }
}

/// How many digits the pattern of an amount allows; empty if it does not count them.
fn digits(schema: &Map<String, Value>) -> String {
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let after = |begin: &str| {
        pattern?
            .split_once(begin)?
            .1
            .split_once('}')?
            .0
            .parse()
            .ok()
    };
    // The first digit stands before the counted ones.
    let before_point = after("[0-9]{0,").map(|more: u64| more.saturating_add(1));
    match (before_point, after("[0-9]{1,")) {
        (Some(before), Some(behind)) => {
            format!(", with at most {before} digits before the point and {behind} after it")
        }
        _ => String::new(),
    }
}

/// ` above 0` and the like, without bounds that no sender comes near.
fn bounds(schema: &Map<String, Value>) -> String {
    let near = |bound: &&Value| bound.as_f64().is_none_or(|end| end.abs() < BOUND_END);
    let bound = |name: &str, word: &str| {
        let bound = schema.get(name).filter(near)?;
        Some(format!("{word} {bound}"))
    };
    let above = bound("exclusiveMinimum", "above");
    let nonzero = schema.get("not").map(|_| "other than 0".to_owned());
    let nonzero = nonzero.filter(|_| above.as_deref() != Some("above 0"));
    let bounds = [
        bound("minimum", "from"),
        above,
        bound("maximum", "to"),
        bound("exclusiveMaximum", "below"),
        nonzero,
    ];
    let bounds: Vec<String> = bounds.into_iter().flatten().collect();
    match bounds.is_empty() {
        true => String::new(),
        false => format!(" {}", bounds.join(" ")),
    }
}

fn text(schema: &Map<String, Value>) -> String {
    let size = size(schema, "minLength", "maxLength", "characters");
    let format = schema.get("format").and_then(Value::as_str);
    if format == Some("date-time") {
        return "a time in UTC, such as `2026-03-02T12:00:00Z`".to_owned();
    }
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let form = match pattern {
        Some(pattern) if pattern.starts_with(VISIBLE) => " with a visible character".to_owned(),
        Some(pattern) if pattern.starts_with(NO_CONTROL) => {
            " without control characters".to_owned()
        }
        Some(pattern) => format!(" of the form `{pattern}`"),
        None => String::new(),
    };
    let not = schema
        .get("not")
        .and_then(|not| not.get("pattern")?.as_str());
    let not = not.map(|pattern| format!(" and not of the form `{pattern}`"));
    format!("a text{size}{form}{}", not.unwrap_or_default())
}

fn list(schema: &Map<String, Value>) -> String {
    let of_items = schema.get("items").and_then(Value::as_object);
    let kind = of_items.and_then(|items| types(items).first().copied());
    let things = match kind {
        Some("string") => "texts",
        Some("number" | "integer") => "numbers",
        Some("object") => "objects",
        Some("array") => "lists",
        _ => "values",
    };
    let size = size(schema, "minItems", "maxItems", things);
    let distinct = schema
        .get("uniqueItems")
        .map_or("", |_| ", none of them twice");
    match size.is_empty() {
        true => format!("a list of {things}{distinct}"),
        false => format!("a list{size}{distinct}"),
    }
}

fn object(schema: &Map<String, Value>) -> String {
    if is_variant(schema) {
        let names = schema.get("properties").and_then(Value::as_object);
        let names = names.into_iter().flat_map(Map::keys);
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        return format!(
            "an object with exactly one of the members {}",
            names.join(", ")
        );
    }
    let size = size(schema, "minProperties", "maxProperties", "members");
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().map(value_in_words);
    let names = names.collect::<Vec<_>>().join(", ");
    let names_match = schema
        .get("propertyNames")
        .and_then(|names| names.get("pattern")?.as_str())
        .map(|pattern| format!(" with names of the form `{pattern}`"));
    let with = match names.is_empty() {
        true => names_match.unwrap_or_default(),
        false => format!(" with {names}"),
    };
    format!("an object{size}{with}")
}

/// Whether an object has exactly one member, whose name says what it is.
pub(super) fn is_variant(schema: &Map<String, Value>) -> bool {
    let is_one = |name: &str| schema.get(name).and_then(Value::as_u64) == Some(1);
    schema.contains_key("properties") && is_one("minProperties") && is_one("maxProperties")
}

/// What is expected in place of a member that does not exist.
pub(super) fn no_such_member<'n>(known: impl Iterator<Item = &'n str>) -> String {
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let words = match known.is_empty() {
        true => format!("{NO_MEMBER}; there are none here"),
        false => format!("{NO_MEMBER}; there are {}", known.join(", ")),
    };
    words.chars().take(EXPECTED_CHARS_MAX).collect()
}

/// A value that a schema names and accepts.
pub(super) fn example(schema: &Map<String, Value>) -> Option<Value> {
    let first = |name: &str| schema.get(name)?.as_array()?.first().cloned();
    let named = schema.get("const").cloned();
    let named = named
        .or_else(|| first("enum"))
        .or_else(|| first("examples"));
    named.or_else(|| schema.get("default").cloned())
}
