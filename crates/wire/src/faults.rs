//! Every fault of a payload at once. The typed reader decides; where it refuses, [`all`] walks the
//! payload with the JSON Schema of the same type and says what a sender has to repair.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::json::{Members, push, segments, value_at};
use super::repair::{FAULTS_MAX, Fault};
use words::{expected, kind_of, shown};

/// Longest JSON pointer in a fault, bytes: what is deeper is named by its parent.
const POINTER_BYTES_MAX: usize = 256;
/// Longest unknown key that a pointer repeats, bytes.
const KEY_BYTES_MAX: usize = 64;
/// Bytes of all faults together: a ledger line holds them.
const FAULTS_BYTES_MAX: usize = 8 * 1024;

/// What is known about the requests of an action.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Schema of the value.
    pub schema: &'a Value,
    /// A value that is accepted; null if there is none.
    pub example: &'a Value,
    /// JSON pointer of the value within the request.
    pub root: &'a str,
    /// JSON pointers below the root whose values are never repeated; `*` matches every segment.
    pub sealed: &'a [&'static str],
    /// Whether nothing but the types of values is repeated: others may read the answer.
    pub hides_values: bool,
}

/// The faults of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// At most [`FAULTS_MAX`] of them, in the order of the value.
    pub listed: Vec<Fault>,
    /// How many there are besides.
    pub more: u64,
}

impl Fault {
    /// Whether the value is a member that its object does not know.
    pub fn is_unknown(&self) -> bool {
        self.expected.starts_with(words::NO_MEMBER)
    }

    /// Whether it is such a member, and its pointer is that of the object.
    pub fn is_unnamed(&self) -> bool {
        self.got == words::UNNAMED
    }
}

impl Faults {
    fn count(&self) -> u64 {
        u64::try_from(self.listed.len())
            .unwrap_or(u64::MAX)
            .saturating_add(self.more)
    }

    /// Adds faults of another part of the request.
    pub fn add(&mut self, faults: impl IntoIterator<Item = Fault>) {
        faults.into_iter().for_each(|fault| self.push(fault));
    }

    fn push(&mut self, fault: Fault) {
        let is_known =
            |known: &Fault| known.pointer == fault.pointer && known.expected == fault.expected;
        if self.listed.iter().any(is_known) {
            // Of members without a pointer of their own, the first stands for all.
            self.more = self.more.saturating_add(u64::from(fault.is_unnamed()));
            return;
        }
        let bytes = |fault: &Fault| {
            let example = fault
                .example
                .as_ref()
                .map_or(0, |value| value.to_string().len());
            [&fault.pointer, &fault.got, &fault.expected]
                .map(String::len)
                .into_iter()
                .fold(example, usize::saturating_add)
        };
        let so_far: usize = self.listed.iter().map(bytes).sum();
        if self.listed.len() < FAULTS_MAX
            && so_far.saturating_add(bytes(&fault)) <= FAULTS_BYTES_MAX
        {
            self.listed.push(fault);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }
}

/// Finds everything in a JSON text without insignificant white space that its schema refuses.
/// Empty if the schema accepts it: a reader may know more than a schema can express.
///
/// ```
/// use serde_json::{Value, json};
/// use spoolgate_wire::faults::{Subject, all};
///
/// let schema = json!({"type": "object", "required": ["id"], "additionalProperties": false,
///     "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}});
/// let subject = Subject { schema: &schema, example: &json!({"id": "r-1"}), root: "/payload",
///     sealed: &[], hides_values: false };
/// let faults = all(&subject, r#"{"n":"x","m":1}"#).listed;
/// let pointers: Vec<&str> = faults.iter().map(|fault| fault.pointer.as_str()).collect();
/// assert_eq!(pointers, ["/payload/n", "/payload/m", "/payload/id"]);
/// assert_eq!((faults[0].got.as_str(), &faults[0].example), ("a text, `x`", &None));
/// assert_eq!(faults[2].example, Some(Value::from("r-1")));
/// ```
pub fn all(subject: &Subject<'_>, text: &str) -> Faults {
    let Ok(value) = serde_json::from_str::<&RawValue>(text) else {
        return Faults::default();
    };
    let mut walk = Walk {
        subject: *subject,
        patterns: BTreeMap::new(),
        found: Faults::default(),
    };
    walk.value(subject.schema, value, &mut String::new());
    walk.found
}

/// Returns the one fault of a value that a reader refuses for a reason that no schema expresses.
/// `pointer` is below the root; `why` is the reason as a sentence.
pub fn one(subject: &Subject<'_>, text: &str, pointer: &str, why: &str, instead: Instead) -> Fault {
    let got = value_at(text, pointer).map(Kind::of);
    let expected = match (&instead, &got) {
        (Instead::Nothing, _) => format!("no such member: {why}"),
        (Instead::Example | Instead::Value(_), None) => format!("a value: {why}"),
        (Instead::Example | Instead::Value(_), Some(_)) => format!("another value: {why}"),
    };
    let fault = subject.fault(pointer, got.as_ref(), expected, None);
    let example = match instead {
        Instead::Nothing => None,
        Instead::Example => fault.example,
        Instead::Value(value) => Some(value),
    };
    Fault { example, ..fault }
}

/// What repairs a value that a reader refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The value of the example.
    Example,
    /// No value: the member must be left out.
    Nothing,
    /// This value.
    Value(Value),
}

/// A JSON value, read one level deep, so that no number is ever rounded.
enum Kind<'t> {
    Null,
    Bool(bool),
    Number(&'t str),
    Text(String),
    List(Vec<&'t RawValue>),
    Object(Vec<(String, &'t RawValue)>),
}

impl<'t> Kind<'t> {
    fn of(value: &'t RawValue) -> Kind<'t> {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'{') => Kind::Object(
                serde_json::from_str(text).map_or_else(|_| Vec::new(), |Members(members)| members),
            ),
            Some(b'[') => Kind::List(serde_json::from_str(text).unwrap_or_default()),
            Some(b'"') => Kind::Text(serde_json::from_str(text).unwrap_or_default()),
            Some(b't') => Kind::Bool(true),
            Some(b'f') => Kind::Bool(false),
            Some(b'n') => Kind::Null,
            _ => Kind::Number(text),
        }
    }

    /// Whether it is of a type that JSON Schema calls `name`.
    fn is(&self, name: &str) -> bool {
        match self {
            Kind::Null => name == "null",
            Kind::Bool(_) => name == "boolean",
            Kind::Number(text) => {
                let digits = text.strip_prefix('-').unwrap_or(text);
                let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
                name == "number" || name == "integer" && is_whole
            }
            Kind::Text(_) => name == "string",
            Kind::List(_) => name == "array",
            Kind::Object(_) => name == "object",
        }
    }
}

impl Subject<'_> {
    /// Makes a fault; `got` is `None` for what is missing. What is inside a sealed member is named
    /// by that member.
    fn fault(
        &self,
        pointer: &str,
        got: Option<&Kind<'_>>,
        expected: String,
        schema: Option<&Map<String, Value>>,
    ) -> Fault {
        let place = self.place(pointer);
        let got = match got {
            None => "nothing".to_owned(),
            Some(kind) if self.hides_values => kind_of(kind).to_owned(),
            Some(kind) => shown(kind),
        };
        let example = self.example_at(&place);
        let own = || {
            schema
                .filter(|_| place.len() == pointer.len())
                .and_then(words::example)
        };
        Fault {
            pointer: format!("{}{place}", self.root),
            at: None,
            got,
            expected,
            example: example.or_else(own),
        }
    }

    /// The pointer, cut at a sealed member that it leads into.
    fn place(&self, pointer: &str) -> String {
        let parts: Vec<&str> = pointer.split('/').collect();
        let inside = |sealed: &&str| {
            let own: Vec<&str> = sealed.split('/').collect();
            let fits = own
                .iter()
                .zip(&parts)
                .all(|(own, part)| *own == "*" || own == part);
            (fits && own.len() < parts.len()).then_some(own.len())
        };
        let depth = self.sealed.iter().filter_map(inside).min();
        let depth = depth.unwrap_or(parts.len());
        parts.get(..depth).unwrap_or_default().join("/")
    }

    /// The value of the example at a pointer; of a list that is shorter, its first element.
    fn example_at(&self, pointer: &str) -> Option<Value> {
        let mut value = self.example;
        for segment in segments(pointer) {
            value = match value {
                Value::Object(members) => members.get(&segment)?,
                Value::Array(items) => {
                    let at = segment.parse::<usize>().ok();
                    at.and_then(|at| items.get(at)).or_else(|| items.first())?
                }
                _ => return None,
            };
        }
        Some(value.clone()).filter(|value| !value.is_null())
    }
}

struct Walk<'a> {
    subject: Subject<'a>,
    /// Compiled patterns; `None` for one that this engine does not know, which refuses nothing.
    patterns: BTreeMap<&'a str, Option<Regex>>,
    found: Faults,
}

impl<'a> Walk<'a> {
    fn report(&mut self, schema: &Map<String, Value>, pointer: &str, got: &Kind<'_>) {
        let fault = self
            .subject
            .fault(pointer, Some(got), expected(schema), Some(schema));
        self.found.push(fault);
    }

    fn value(&mut self, schema: &'a Value, value: &RawValue, pointer: &mut String) {
        let Value::Object(schema) = schema else {
            return;
        };
        let choices = ["anyOf", "oneOf"]
            .iter()
            .find_map(|name| schema.get(*name)?.as_array());
        if let Some(choices) = choices {
            self.choice(schema, choices, value, pointer);
        }
        let kind = Kind::of(value);
        if !self.accepts(schema, &kind) {
            self.report(schema, pointer, &kind);
            return;
        }
        match kind {
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {}
            Kind::List(items) => {
                let Some(of_items) = schema.get("items") else {
                    return;
                };
                for (at, item) in items.into_iter().enumerate() {
                    self.within(pointer, &at.to_string(), |walk, pointer| {
                        walk.value(of_items, item, pointer);
                    });
                }
            }
            Kind::Object(members) => self.members(schema, &members, pointer),
        }
    }

    /// Runs `inner` with the pointer to a member or an element.
    fn within(
        &mut self,
        pointer: &mut String,
        segment: &str,
        inner: impl FnOnce(&mut Self, &mut String),
    ) {
        let length = pointer.len();
        if length.saturating_add(segment.len()) < POINTER_BYTES_MAX {
            push(pointer, segment);
        }
        inner(self, pointer);
        pointer.truncate(length);
    }

    fn members(
        &mut self,
        schema: &'a Map<String, Value>,
        members: &[(String, &RawValue)],
        pointer: &mut String,
    ) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
        if words::is_variant(schema) && !members.iter().any(|(name, _)| is_known(name)) {
            // Without the unknown member it would be empty.
            let kind = Kind::Object(members.to_vec());
            self.report(schema, pointer, &kind);
            return;
        }
        for (name, value) in members {
            let own = known.and_then(|known| known.get(name));
            let is_plain = name.len() <= KEY_BYTES_MAX && name.chars().all(is_shown_in_names);
            if let Some(own) = own {
                self.within(pointer, name, |walk, pointer| {
                    walk.value(own, value, pointer)
                });
            } else if others == Some(&Value::Bool(false)) {
                let known = known.into_iter().flat_map(Map::keys).map(String::as_str);
                let words = words::no_such_member(known);
                let kind = Kind::of(value);
                if is_plain {
                    self.within(pointer, name, |walk, pointer| {
                        let mut fault = walk.subject.fault(pointer, Some(&kind), words, None);
                        fault.example = None;
                        walk.found.push(fault);
                    });
                } else {
                    let mut fault = self.subject.fault(pointer, Some(&kind), words, None);
                    fault.got = words::UNNAMED.to_owned();
                    fault.example = None;
                    self.found.push(fault);
                }
            } else if let Some(others) = others {
                if is_plain {
                    self.within(pointer, name, |walk, pointer| {
                        walk.value(others, value, pointer)
                    });
                } else {
                    self.value(others, value, pointer);
                }
            }
        }
        let required = schema.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if members.iter().any(|(own, _)| own == name) {
                continue;
            }
            let own = known.and_then(|known| known.get(name)?.as_object());
            let words = own.map_or_else(|| "a value".to_owned(), expected);
            self.within(pointer, name, |walk, pointer| {
                let fault = walk.subject.fault(pointer, None, words, own);
                walk.found.push(fault);
            });
        }
    }

    /// Reports what is wrong with a value of several allowed forms: nothing if one of them fits;
    /// what the nearest of them refuses otherwise.
    fn choice(
        &mut self,
        schema: &Map<String, Value>,
        choices: &'a [Value],
        value: &RawValue,
        pointer: &mut String,
    ) {
        let before = std::mem::take(&mut self.found);
        let kind = Kind::of(value);
        let mut nearest: Option<Faults> = None;
        for choice in choices {
            self.value(choice, value, pointer);
            let found = std::mem::take(&mut self.found);
            let is_of_type = choice.as_object().is_some_and(|choice| {
                types(choice).is_empty() || types(choice).iter().any(|name| kind.is(name))
            });
            if found.count() == 0 {
                self.found = before;
                return;
            }
            if is_of_type
                && nearest
                    .as_ref()
                    .is_none_or(|best| found.count() < best.count())
            {
                nearest = Some(found);
            }
        }
        self.found = before;
        match nearest {
            Some(Faults { listed, more }) => {
                listed.into_iter().for_each(|fault| self.found.push(fault));
                self.found.more = self.found.more.saturating_add(more);
            }
            None => self.report(schema, pointer, &kind),
        }
    }

    /// Whether the value itself, without what is inside it, is as the schema says.
    fn accepts(&mut self, schema: &'a Map<String, Value>, kind: &Kind<'_>) -> bool {
        let types = types(schema);
        if !types.is_empty() && !types.iter().any(|name| kind.is(name)) {
            return false;
        }
        let listed = schema.get("enum").and_then(Value::as_array);
        if listed.is_some_and(|listed| !listed.iter().any(|value| is_equal(value, kind)))
            || schema
                .get("const")
                .is_some_and(|value| !is_equal(value, kind))
        {
            return false;
        }
        let count = |name: &str| schema.get(name).and_then(Value::as_u64);
        let fits = |found: usize, least: &str, most: &str| {
            let found = u64::try_from(found).unwrap_or(u64::MAX);
            count(least).is_none_or(|least| found >= least)
                && count(most).is_none_or(|most| found <= most)
        };
        let has_size = match kind {
            Kind::Text(text) => fits(text.chars().count(), "minLength", "maxLength"),
            Kind::List(items) => {
                fits(items.len(), "minItems", "maxItems") && {
                    let distinct: BTreeSet<&str> = items.iter().map(|item| item.get()).collect();
                    schema.get("uniqueItems").is_none() || distinct.len() == items.len()
                }
            }
            Kind::Object(members) => fits(members.len(), "minProperties", "maxProperties"),
            Kind::Number(text) => is_within(schema, text),
            Kind::Null | Kind::Bool(_) => true,
        };
        // The pattern of an amount also holds for a number: its reader takes both alike.
        let written = match kind {
            Kind::Text(text) => Some(text.as_str()),
            Kind::Number(text) if types.contains(&"string") => Some(*text),
            _ => None,
        };
        let pattern = schema.get("pattern").and_then(Value::as_str);
        let matches = match (written, pattern) {
            (Some(text), Some(pattern)) => self.matches(pattern, text),
            _ => true,
        };
        let names = schema
            .get("propertyNames")
            .and_then(|names| names.get("pattern")?.as_str());
        let has_names = match (kind, names) {
            (Kind::Object(members), Some(pattern)) => {
                members.iter().all(|(name, _)| self.matches(pattern, name))
            }
            _ => true,
        };
        has_size && matches && has_names && !self.is_excluded(schema, kind)
    }

    fn is_excluded(&mut self, schema: &'a Map<String, Value>, kind: &Kind<'_>) -> bool {
        let Some(not) = schema.get("not").and_then(Value::as_object) else {
            return false;
        };
        match not.get("anyOf").and_then(Value::as_array) {
            Some(choices) => {
                let mut choices = choices.iter().filter_map(Value::as_object);
                choices.any(|choice| self.accepts(choice, kind))
            }
            None => self.accepts(not, kind),
        }
    }

    fn matches(&mut self, pattern: &'a str, text: &str) -> bool {
        let compiled = self.patterns.entry(pattern);
        let compiled = compiled.or_insert_with(|| Regex::new(pattern).ok());
        compiled.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

/// Whether a character of an unknown key is repeated: it must not control the reader's terminal.
fn is_shown_in_names(c: char) -> bool {
    c == ' ' || c.is_ascii_graphic() || !c.is_ascii() && c.is_alphanumeric()
}

/// The types that a schema allows; empty if it names none.
fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn is_equal(value: &Value, kind: &Kind<'_>) -> bool {
    match (value, kind) {
        (Value::Null, Kind::Null) => true,
        (Value::Bool(own), Kind::Bool(other)) => own == other,
        (Value::String(own), Kind::Text(other)) => own == other,
        (Value::Number(own), Kind::Number(other)) => {
            own.to_string() == **other || own.as_f64() == other.parse().ok()
        }
        _ => false,
    }
}

/// Whether a number is within the bounds of a schema. Binary floats are precise enough: the reader
/// has decided already.
fn is_within(schema: &Map<String, Value>, text: &str) -> bool {
    let Ok(number) = text.parse::<f64>() else {
        return true;
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("exclusiveMinimum").is_none_or(|end| number > end)
        && bound("exclusiveMaximum").is_none_or(|end| number < end)
}
