//! Reads structs from JSON objects only. Derived readers also accept an array as a struct, with its
//! members in the order of their declaration: `["a","b"]` would have a meaning that no reader can
//! see and no schema describes. (The YAML reader refuses that.)

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

/// Reads JSON text, with structs from objects only, at every depth.
///
/// Readers that buffer their input first (untagged and internally tagged enums, flattened members)
/// decide themselves what they accept inside.
///
/// ```
/// #[derive(serde::Deserialize)]
/// struct Point {
///     x: u8,
///     y: u8,
/// }
///
/// let point: Point = spoolgate_wire::shape::from_json(r#"{"x":1,"y":2}"#)?;
/// assert_eq!((point.x, point.y), (1, 2));
/// assert!(spoolgate_wire::shape::from_json::<Point>("[1,2]").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of `serde_json`, and an invalid type for an array in place of an object.
pub fn from_json<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(Shaped(&mut json))?;
    json.end()?;
    Ok(value)
}

/// Reads a text with its parser. A JSON reader then refuses a text where it stands, and not behind the
/// object that ends with it.
pub(crate) fn parsed<'de, D: Deserializer<'de>, T, E: fmt::Display>(
    deserializer: D,
    parse: fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    struct Text<T, E>(fn(&str) -> Result<T, E>);
    impl<T, E: fmt::Display> Visitor<'_> for Text<T, E> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string")
        }

        fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
            (self.0)(text).map_err(F::custom)
        }
    }
    deserializer.deserialize_str(Text(parse))
}

/// A reader, or a part of one, that accepts structs only as maps.
struct Shaped<T>(T);

/// A visitor that passes the same restriction on to everything it visits.
struct Within<V> {
    visitor: V,
    /// Whether it visits a struct.
    object: bool,
}

fn anything<V>(visitor: V) -> Within<V> {
    Within {
        visitor,
        object: false,
    }
}

fn object<V>(visitor: V) -> Within<V> {
    Within {
        visitor,
        object: true,
    }
}

macro_rules! forward {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(anything(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Shaped<D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string
        deserialize_bytes
        deserialize_byte_buf deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, anything(visitor))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, anything(visitor))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, anything(visitor))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0
            .deserialize_tuple_struct(name, len, anything(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, object(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, anything(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident: $value:ty),* $(,)?) => {
        $(fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(formatter)
    }

    visit! {
        visit_bool: bool, visit_i8: i8, visit_i16: i16, visit_i32: i32, visit_i64: i64,
        visit_i128: i128,
        visit_u8: u8, visit_u16: u16, visit_u32: u32, visit_u64: u64, visit_u128: u128,
        visit_f32: f32,
        visit_f64: f64, visit_char: char, visit_str: &str, visit_borrowed_str: &'de str,
        visit_string: String,
        visit_bytes: &[u8], visit_borrowed_bytes: &'de [u8], visit_byte_buf: Vec<u8>,
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Shaped(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Shaped(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        if self.object {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.visitor.visit_seq(Shaped(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Shaped(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, choice: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Shaped(choice))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Shaped<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Shaped(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Shaped<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Shaped(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Shaped<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(Shaped(seed))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Shaped(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for Shaped<A> {
    type Error = A::Error;
    type Variant = Shaped<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let (name, rest) = self.0.variant_seed(Shaped(seed))?;
        Ok((name, Shaped(rest)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Shaped<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Shaped(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, anything(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, object(visitor))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        a: u8,
        #[serde(default)]
        b: Option<String>,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    enum Choice {
        Word,
        One(Inner),
        Two(u8, Inner),
        Named { inner: Inner },
    }

    #[derive(Debug, serde::Deserialize)]
    struct Outer<'a> {
        #[serde(default)]
        list: Vec<Inner>,
        #[serde(default)]
        map: std::collections::BTreeMap<String, Inner>,
        #[serde(default)]
        maybe: Option<Box<Inner>>,
        #[serde(default)]
        choice: Option<Choice>,
        #[serde(default)]
        pair: Option<(u8, Inner)>,
        #[serde(borrow, default)]
        raw: Option<&'a RawValue>,
    }

    /// Every place where a struct can occur, marked `{}` in the text.
    const PLACES: [&str; 8] = [
        r#"{"list":[{}]}"#,
        r#"{"map":{"x":{}}}"#,
        r#"{"maybe":{}}"#,
        r#"{"choice":{"One":{}}}"#,
        r#"{"choice":{"Two":[1,{}]}}"#,
        r#"{"choice":{"Named":{"inner":{}}}}"#,
        r#"{"pair":[1,{}]}"#,
        r#"{"list":[{"a":1},{}]}"#,
    ];

    #[test]
    fn structs_are_objects_at_every_depth() {
        for place in PLACES {
            let object = place.replace("{}", r#"{"a":1,"b":"x"}"#);
            let array = place.replace("{}", r#"[1,"x"]"#);
            from_json::<Outer<'_>>(&object).unwrap();
            let refused = from_json::<Outer<'_>>(&array).unwrap_err().to_string();
            assert!(
                refused.starts_with("invalid type: sequence, expected struct Inner"),
                "{refused}"
            );
            assert!(refused.contains(" at line 1 column "), "{refused}");
            // The reason for this module: the derived reader accepts the array.
            serde_json::from_str::<Outer<'_>>(&array).unwrap();
        }
        assert!(from_json::<Inner>("[1]").is_err());
        assert!(from_json::<Outer<'_>>(r#"{"choice":{"Named":[{"a":1}]}}"#).is_err());
    }

    #[test]
    fn everything_else_is_read_as_ever() {
        let text = r#"{"list":[{"a":1,"b":null}],"map":{"x":{"a":2}},"choice":"Word","pair":[7,{"a":3}],"raw":[1, 2.50]}"#;
        let outer: Outer<'_> = from_json(text).unwrap();
        assert_eq!(outer.list, [Inner { a: 1, b: None }]);
        assert_eq!(outer.map["x"], Inner { a: 2, b: None });
        assert_eq!((outer.choice, outer.maybe), (Some(Choice::Word), None));
        assert_eq!(outer.pair, Some((7, Inner { a: 3, b: None })));
        assert_eq!(outer.raw.map(RawValue::get), Some("[1, 2.50]"));
        for refused in [
            r#"{"a":1} x"#,
            r#"{"a":1,"c":2}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":256}"#,
            "{}",
            "",
        ] {
            let strict = from_json::<Inner>(refused).unwrap_err().to_string();
            assert_eq!(
                strict,
                serde_json::from_str::<Inner>(refused)
                    .unwrap_err()
                    .to_string(),
                "{refused}"
            );
        }
    }
}
