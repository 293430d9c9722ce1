//! Positions of values: from JSON pointers (RFC 6901) to positions in the text, and back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::repair::Place;

/// The members of an object, in their order, each as its text.
pub(crate) struct Members<'a>(pub Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'a>, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Object).map(Members)
    }
}

/// Appends a segment to a JSON pointer.
pub(crate) fn push(pointer: &mut String, segment: &str) {
    pointer.push('/');
    pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
}

/// Splits a JSON pointer into its segments.
pub(crate) fn segments(pointer: &str) -> impl Iterator<Item = String> {
    let segments = pointer.split('/').skip(1);
    segments.map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// The values directly inside a value, each with its segment.
fn inside(value: &RawValue) -> Inside<'_> {
    let text = value.get();
    if let Ok(Members(members)) = serde_json::from_str(text) {
        return members;
    }
    let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    let numbered = items.into_iter().enumerate();
    numbered.map(|(at, item)| (at.to_string(), item)).collect()
}

/// Number of bytes of `text` before `part`, which is a part of it.
fn offset_of(text: &str, part: &RawValue) -> usize {
    part.get()
        .as_ptr()
        .addr()
        .saturating_sub(text.as_ptr().addr())
}

/// Finds the value at a JSON pointer and returns where it begins; see [`Locator::find`].
///
/// ```
/// use spoolgate_wire::json::locate;
/// use spoolgate_wire::repair::Place;
///
/// let file = b"{\n  \"a\": {\"\xc3\xa9\": [1, 2]}\n}";
/// assert_eq!(locate(file, "/a/\u{e9}/1"), Some(Place { line: 2, column: 18 }));
/// assert_eq!(locate(file, "/a/missing"), Some(Place { line: 2, column: 8 }));
/// assert_eq!(locate(b"{", ""), None);
/// ```
pub fn locate(bytes: &[u8], pointer: &str) -> Option<Place> {
    Locator::new(bytes).find(pointer)
}

/// Finds values of one file. Each value that it has looked into is read once.
pub struct Locator<'t> {
    bytes: &'t [u8],
    known: RefCell<BTreeMap<usize, Rc<Inside<'t>>>>,
}

/// The values directly inside a value, each with its segment.
type Inside<'t> = Vec<(String, &'t RawValue)>;

impl<'t> Locator<'t> {
    /// A locator of this file.
    pub fn new(bytes: &'t [u8]) -> Locator<'t> {
        let known = RefCell::default();
        Locator { bytes, known }
    }

    /// Returns where the value at a JSON pointer begins. Of what is missing, returns where the
    /// nearest value around it begins. `None` if the bytes are not JSON.
    pub fn find(&self, pointer: &str) -> Option<Place> {
        let text = std::str::from_utf8(self.bytes).ok()?;
        let mut value: &'t RawValue = serde_json::from_str(text).ok()?;
        for segment in segments(pointer) {
            let offset = offset_of(text, value);
            let own = || Rc::new(inside(value));
            let members = Rc::clone(self.known.borrow_mut().entry(offset).or_insert_with(own));
            let found = members.iter().find(|(own, _)| *own == segment);
            let Some((_, inner)) = found else {
                break;
            };
            value = inner;
        }
        Some(place_of(self.bytes, offset_of(text, value)))
    }
}

/// Returns line and column of the byte behind `offset` bytes.
pub(super) fn place_of(bytes: &[u8], offset: usize) -> Place {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let line_start = before
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at.saturating_add(1));
    // Bytes 10xxxxxx continue a character and are not counted.
    let line = before.iter().skip(line_start);
    let columns = line.filter(|b| **b & 0xc0 != 0x80).count();
    let lines = before.iter().filter(|b| **b == b'\n').count();
    let from_1 = |count: usize| u64::try_from(count).unwrap_or(u64::MAX).saturating_add(1);
    Place {
        line: from_1(lines),
        column: from_1(columns),
    }
}

/// Returns the value at a JSON pointer.
pub(crate) fn value_at<'t>(text: &'t str, pointer: &str) -> Option<&'t RawValue> {
    let whole = serde_json::from_str(text).ok()?;
    segments(pointer).try_fold(whole, |value, segment| {
        let mut members = inside(value).into_iter();
        members
            .find(|(own, _)| *own == segment)
            .map(|(_, inner)| inner)
    })
}

/// Returns the JSON pointer of the innermost value of a minified text that has the byte before
/// `offset`: a reader that refuses a value has read up to there.
pub(crate) fn pointer_at(text: &str, offset: usize) -> String {
    let mut pointer = String::new();
    let Ok(mut value) = serde_json::from_str::<&RawValue>(text) else {
        return pointer;
    };
    let has_it = |value: &RawValue| {
        let start = offset_of(text, value);
        start < offset && offset <= start.saturating_add(value.get().len())
    };
    while let Some((segment, inner)) = inside(value).into_iter().find(|(_, inner)| has_it(inner)) {
        push(&mut pointer, &segment);
        value = inner;
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_at_an_offset_is_found() {
        let text = r#"{"a":[1,{"b~/":"xy"}],"c":{}}"#;
        for (offset, expect) in [
            (0, ""),
            (1, ""),
            (7, "/a/0"),
            (8, "/a"),
            (19, "/a/1/b~0~1"),
            (20, "/a/1"),
            (21, "/a"),
            (28, "/c"),
            (29, ""),
            (99, ""),
        ] {
            assert_eq!(pointer_at(text, offset), expect, "{offset}");
        }
        assert_eq!(pointer_at("{", 1), "");
    }

    #[test]
    fn positions_are_those_of_an_editor() {
        let text = "\n {\"a\"\t:\r\n\t\"\u{1f600}\", \"b\":\"\u{1f600}\", \"c\" : [true]}";
        for (pointer, line, column) in [
            ("", 2, 2),
            ("/a", 3, 2),
            ("/b", 3, 11),
            ("/c", 3, 22),
            ("/c/0", 3, 23),
            ("/c/1", 3, 22),
            ("/d/e", 2, 2),
        ] {
            let place = Place { line, column };
            assert_eq!(locate(text.as_bytes(), pointer), Some(place), "{pointer}");
        }
    }
}
