//! The JSON Schemas of the types with bounds.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use spoolgate_wire::schema;

use super::{ABOVE_0, BELOW_1, Bounded, Count, LARGEST, ONE, Within, amount_of};

impl<const MIN: i128, const MAX: i128> JsonSchema for Within<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Within".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match (MIN, MAX) {
            (ABOVE_0, LARGEST) => schema::amount_above_0(generator),
            (0, LARGEST) => schema::amount_from_0(generator),
            (ABOVE_0, ONE) => schema::amount_above_0_to_1(generator),
            (ABOVE_0, BELOW_1) => schema::amount_above_0_below_1(generator),
            (0, BELOW_1) => schema::amount_from_0_below_1(generator),
            (0, ONE) => schema::amount_0_to_1(generator),
            _ => {
                let mut any = schema::amount(generator);
                if MIN > -LARGEST {
                    any.remove("exclusiveMinimum");
                    any.insert("minimum".to_owned(), number(MIN));
                }
                if MAX < LARGEST {
                    any.remove("exclusiveMaximum");
                    any.insert("maximum".to_owned(), number(MAX));
                }
                any
            }
        }
    }
}

/// Returns the number of so many units. Its decimal places are those of a literal in this crate.
fn number(units: i128) -> serde_json::Value {
    serde_json::from_str(&amount_of(units).to_string()).unwrap_or_default()
}

impl<const MIN: u32, const MAX: u32, T> JsonSchema for Bounded<MIN, MAX, T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Bounded".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut count = schema::count::<MIN>(generator);
        if MAX < i64::MAX.unsigned_abs() {
            count.insert("maximum".to_owned(), MAX.into());
        }
        count
    }
}
