//! Building blocks of JSON Schemas: texts, numbers and amounts with the limits of their readers. A
//! schema never refuses what the reader accepts; its description explains what the schema cannot
//! express.

use schemars::{Schema, SchemaGenerator, json_schema};

/// At least one character that is not white space by the definition of `str::trim`; `\S` of ECMA
/// 262 differs in two characters.
const SAID: &str = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

/// An unsigned amount as written in requests and rule files: `Amount::parse_wire`.
const UNSIGNED: &str = r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,10})?";

/// The smallest power of ten that is too large for an amount in a request.
const AMOUNT_END: u64 = 1_000_000_000_000;

/// An amount: a JSON number or a string of its digits.
pub fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "exclusiveMinimum": -1_000_000_000_000_i64,
        "exclusiveMaximum": AMOUNT_END,
        "pattern": format!("^-?{UNSIGNED}$"),
    })
}

/// An amount, or null.
pub fn amount_or_null(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [amount(generator), {"type": "null"}]})
}

/// A value that is always there, or null.
pub fn or_null<T: schemars::JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<Option<T>>()
}

/// An amount above 0.
pub fn amount_above_0(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "exclusiveMaximum": AMOUNT_END,
        "pattern": format!("^{UNSIGNED}$"),
        "not": {"type": "string", "pattern": r"^0(\.0+)?$"},
    })
}

/// An amount other than 0.
pub fn amount_not_0(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = amount(generator);
    let zero = json_schema!({
        "anyOf": [{"const": 0}, {"type": "string", "pattern": r"^-?0(\.0+)?$"}],
    });
    schema.insert("not".to_owned(), zero.into());
    schema
}

/// An amount that is not below 0.
pub fn amount_from_0(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "minimum": 0,
        "exclusiveMaximum": AMOUNT_END,
        "pattern": format!(r"^(-0(\.0{{1,10}})?|{UNSIGNED})$"),
    })
}

/// An amount between -1 and 1, excluding both.
pub fn amount_within_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "exclusiveMinimum": -1,
        "exclusiveMaximum": 1,
        "pattern": r"^-?0(\.[0-9]{1,10})?$",
    })
}

/// An amount from 0 to 1.
pub fn amount_0_to_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "minimum": 0,
        "maximum": 1,
        "pattern": r"^(-?0(\.0{1,10})?|0\.[0-9]{1,10}|1(\.0{1,10})?)$",
    })
}

/// An amount above 0 and up to 1.
pub fn amount_above_0_to_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "maximum": 1,
        "pattern": r"^(0\.[0-9]{1,10}|1(\.0{1,10})?)$",
        "not": {"type": "string", "pattern": r"^0(\.0+)?$"},
    })
}

/// An amount above 0 and below 1.
pub fn amount_above_0_below_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "pattern": r"^0\.[0-9]{1,10}$",
        "not": {"type": "string", "pattern": r"^0(\.0+)?$"},
    })
}

/// A JSON number from 0 to 1, never a string.
pub fn number_0_to_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "number", "minimum": 0, "maximum": 1})
}

/// A text that is not blank, of at most `BYTES_MAX` bytes.
pub fn said<const BYTES_MAX: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": BYTES_MAX, "pattern": SAID})
}

/// A text that is not blank, of any length.
pub fn said_at_length(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "pattern": SAID})
}

/// A text of at most `BYTES_MAX` bytes.
pub fn short<const BYTES_MAX: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": BYTES_MAX})
}

/// A text of 1 to `BYTES_MAX` bytes.
pub fn filled<const BYTES_MAX: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": BYTES_MAX})
}

/// A host alone: a name, or an IPv6 address in brackets.
pub fn host(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^(\[[^\]]+\]|[^\[\]*./\\@:?# ][^\[\]*/\\@:?# ]*)$"})
}

/// A name of something outside, without spaces at its ends.
pub fn outside_name<const BYTES_MAX: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": BYTES_MAX,
        "pattern": "^[^ ]", "not": {"pattern": " $"},
    })
}

/// One line, which may be empty, without control characters.
pub fn line<const BYTES_MAX: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string", "maxLength": BYTES_MAX,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e]*$",
    })
}

/// Exactly `DIGITS` lower-case hex digits.
pub fn hex<const DIGITS: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": format!("^[0-9a-f]{{{DIGITS}}}$")})
}

/// Exactly `DIGITS` lower-case hex digits, or null.
pub fn hex_or_null<const DIGITS: usize>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": format!("^[0-9a-f]{{{DIGITS}}}$")})
}

/// A whole number from `LEAST` to `MOST`.
pub fn whole<const LEAST: u32, const MOST: u32>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": LEAST, "maximum": MOST})
}

/// Any JSON value.
pub fn any(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

/// Any JSON object.
pub fn object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

/// An id made of a prefix and a ledger line number, such as `h-12`.
pub fn numbered(prefix: &str) -> Schema {
    json_schema!({"type": "string", "pattern": format!("^{prefix}-(0|[1-9][0-9]{{0,19}})$")})
}

/// The id of a receipt.
pub fn receipt(_: &mut SchemaGenerator) -> Schema {
    numbered("r")
}

/// The id of a receipt, or null.
pub fn receipt_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "pattern": "^r-(0|[1-9][0-9]{0,19})$"})
}

/// An amount from 0 to 1, excluding 1.
pub fn amount_from_0_below_1(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": ["number", "string"],
        "minimum": 0,
        "exclusiveMaximum": 1,
        "pattern": r"^(-0(\.0{1,10})?|0(\.[0-9]{1,10})?)$",
    })
}

/// A reason of a rule file, or null.
pub fn said_or_null(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["string", "null"], "minLength": 1, "pattern": SAID})
}

/// A whole number from `LEAST` to `MOST`, or null.
pub fn whole_or_null<const LEAST: u32, const MOST: u32>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["integer", "null"], "minimum": LEAST, "maximum": MOST})
}

/// A whole number in a ledger line.
pub fn count<const LEAST: u64>(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "minimum": LEAST, "maximum": i64::MAX})
}

/// The name of a protocol, such as `https`.
pub fn protocol(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": r"^[a-z][a-z0-9+.-]{0,15}$"})
}

/// Some of these words, each at most once.
pub fn words(of: &[&str]) -> Schema {
    json_schema!({"type": "array", "items": {"type": "string", "enum": of}, "uniqueItems": true})
}
