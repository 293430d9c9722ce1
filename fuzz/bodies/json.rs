//! The strict reader against serde_json: it takes exactly what serde_json takes, less what two
//! readers could see differently (a key twice, more than 64 levels), and what it calls incomplete
//! is a beginning of something.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use spoolgate_wire::json::{DEPTH_MAX, JsonErrorKind, check_object, check_value, minify};
use spoolgate_wire::sealed::{self, Disclosure};

/// What serde_json sees: how deep it goes, and whether a key stands twice in one object.
#[derive(Default)]
struct Shape {
    depth: usize,
    has_twice: bool,
}

impl Shape {
    fn around(&mut self, inner: &Shape) {
        self.depth = self.depth.max(inner.depth + 1);
        self.has_twice |= inner.has_twice;
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shape, D::Error> {
        deserializer.deserialize_any(Shape::default())
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = Shape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Shape, A::Error> {
        self.depth = 1;
        while let Some(inner) = seq.next_element::<Shape>()? {
            self.around(&inner);
        }
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Shape, A::Error> {
        self.depth = 1;
        let mut keys = HashSet::new();
        while let Some((key, inner)) = map.next_entry::<String, Shape>()? {
            self.has_twice |= !keys.insert(key);
            self.around(&inner);
        }
        Ok(self)
    }
}

/// Numbers beyond f64 are JSON, and serde_json refuses them.
fn is_range(error: &serde_json::Error) -> bool {
    error.to_string().contains("number out of range")
}

/// Any bytes.
pub fn body(data: &[u8]) {
    let strict = check_value(data);
    let shape = serde_json::from_slice::<Shape>(data);
    match (&strict, &shape) {
        (Ok(_), Ok(shape)) => {
            assert!(!shape.has_twice, "a key twice was let through");
            assert!(shape.depth <= DEPTH_MAX, "too deep and let through");
        }
        (Ok(_), Err(error)) => assert!(is_range(error), "serde_json refuses: {error}"),
        (Err(_), Ok(shape)) => {
            assert!(
                shape.has_twice || shape.depth > DEPTH_MAX,
                "refused without a reason: {strict:?}"
            );
        }
        (Err(_), Err(_)) => {}
    }
    let object = check_object(data);
    let starts_as_object = data.trim_ascii_start().first() == Some(&b'{');
    assert_eq!(
        object.is_ok(),
        strict.is_ok() && starts_as_object,
        "{object:?}"
    );
    match strict {
        Ok(text) => {
            assert_eq!(text.as_bytes(), data);
            check_minified(text);
            check_beginnings(text);
            check_cut(text);
        }
        Err(error) => {
            assert!(error.offset <= data.len());
            let shown = error.to_string();
            assert!(
                !shown.contains(char::is_control),
                "steers a terminal: {shown:?}"
            );
            assert!(shown.len() < 1000, "{} bytes of message", shown.len());
            if matches!(error.kind, JsonErrorKind::Empty | JsonErrorKind::Incomplete) {
                assert_eq!(error.offset, data.len());
            }
        }
    }
}

fn check_minified(text: &str) {
    let small = minify(text);
    assert_eq!(check_value(small.as_bytes()), Ok(small.as_ref()));
    assert_eq!(minify(&small), small, "minified twice");
    match (
        serde_json::from_str::<Value>(text),
        serde_json::from_str::<Value>(&small),
    ) {
        (Ok(before), Ok(after)) => {
            assert_eq!(before, after, "minifying changed the value");
            check_value(before.to_string().as_bytes()).expect("written by serde_json and refused");
        }
        (Err(before), Err(after)) => assert!(is_range(&before) && is_range(&after)),
        (before, after) => panic!("minifying: {before:?}, then {after:?}"),
    }
}

/// What is cut out of a text comes back byte for byte, and nothing of it stays.
fn check_cut(text: &str) {
    for pointers in [
        &["/a"][..],
        &["/*"],
        &["/a/*", "/*/b"],
        &["/*/*/*", "/_sd"],
        &[""],
    ] {
        let mut salts = 0_u8;
        let mut salt = || {
            salts = salts.wrapping_add(1);
            Ok::<_, ()>([salts; 16])
        };
        let cut = sealed::cut(text, pointers, &mut salt).unwrap();
        let opened: Vec<_> = cut
            .disclosures
            .iter()
            .map(|d| Disclosure::open(&d.text, &d.digest).unwrap())
            .collect();
        let values: Vec<_> = cut
            .fields
            .iter()
            .zip(&opened)
            .map(|(field, opened)| (field, Some(opened.value.as_str())))
            .collect();
        assert_eq!(
            sealed::put_back(&cut.text, &values).as_deref(),
            Some(text),
            "{pointers:?}"
        );
        check_value(cut.text.as_bytes()).expect("cut, it is no JSON any more");
    }
}

/// A file that is still being written must not be taken for a wrong one. A number alone may be
/// complete anywhere.
fn check_beginnings(text: &str) {
    let bytes = text.trim_end_matches([' ', '\t', '\n', '\r']).as_bytes();
    if !matches!(bytes.last(), Some(b'}' | b']' | b'"')) {
        return;
    }
    for part in 0..8 {
        let cut = &bytes[..bytes.len() * part / 8];
        let kind = check_value(cut)
            .expect_err("a part of a document passes for a whole one")
            .kind;
        assert!(
            matches!(kind, JsonErrorKind::Empty | JsonErrorKind::Incomplete),
            "{cut:?}: {kind}"
        );
    }
}
