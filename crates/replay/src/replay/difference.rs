//! Explains a line that differs: where, in which member, and which program wrote it.

use serde::Serialize;
use serde_json::Value;

/// Maximum length of a value that is shown, characters.
const SHOWN_CHARS_MAX: usize = 300;

/// A line that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Number of the line.
    pub line: u64,
    /// Kind of the line.
    pub kind: String,
    /// The request that it is about, if it names one.
    pub request_id: Option<String>,
    /// Offset of the first byte that differs, from the start of the line; `None` if there is
    /// nothing to compare with.
    pub offset: Option<u64>,
    /// The member that contains it, as in `changes[0].Book.OrderPlaced.size`.
    pub member: Option<String>,
    /// The recorded value, JSON; `None` if there is none.
    pub recorded: Option<String>,
    /// The recomputed value, JSON; `None` if there is none.
    pub recomputed: Option<String>,
    /// What is wrong, if it is not a member.
    pub why: Option<String>,
    /// Version of the program that wrote the line.
    pub written_by: String,
    /// Version of this program.
    pub recomputed_by: String,
}

/// A step of the path to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

/// The first difference of two bodies, which are JSON texts without white space: offset, member,
/// and its values.
pub(super) struct Apart {
    pub offset: usize,
    pub member: String,
    pub recorded: Option<String>,
    pub recomputed: Option<String>,
}

/// Finds the first difference of two bodies; `None` if they are equal.
pub(super) fn apart(recorded: &str, recomputed: &str) -> Option<Apart> {
    let common = recorded
        .bytes()
        .zip(recomputed.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    if common == recorded.len() && common == recomputed.len() {
        return None;
    }
    let values: [Option<Value>; 2] =
        [recorded, recomputed].map(|text| serde_json::from_str(text).ok());
    let read = |path: &[Step]| {
        values
            .each_ref()
            .map(|value| value.as_ref().and_then(|value| at(value, path)))
    };
    // If one text has a member that the other lacks, the byte is in different members of the two.
    let paths = [recorded, recomputed].map(|text| member_at(text, common));
    let mut found = None;
    // Where a number continues in one text, it has ended in the other. The deeper member is the
    // more precise one.
    let mut deepest_first: Vec<&Vec<Step>> = paths.iter().collect();
    deepest_first.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in deepest_first {
        let [a, b] = read(path);
        // An element that the line lacks is reported as the list without it.
        let is_element = matches!(path.last(), Some(Step::Index(_)));
        if a != b && !(is_element && a.is_none()) {
            let shown = [a, b].map(|value| value.map(|value| cut(&value.to_string())));
            found = Some((path, shown));
            break;
        }
    }
    let [own, _] = &paths;
    let (path, [a, b]) = found.unwrap_or((own, [None, None]));
    Some(Apart {
        offset: common,
        member: in_words(path),
        recorded: a,
        recomputed: b,
    })
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn in_words(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(key);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

fn at<'a>(value: &'a Value, path: &[Step]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get(key.as_str()),
        Step::Index(index) => value.get(*index),
    })
}

/// Returns the path of the member that contains byte `at` of a JSON text without white space.
fn member_at(text: &str, at: usize) -> Vec<Step> {
    let bytes = text.as_bytes();
    let mut path: Vec<Step> = Vec::new();
    // Whether the next string is a key.
    let mut wants_key = false;
    let mut index = 0;
    while index <= at {
        let Some(byte) = bytes.get(index) else { break };
        match byte {
            b'{' => {
                path.push(Step::Key(String::new()));
                wants_key = true;
            }
            b'[' => path.push(Step::Index(0)),
            b'}' | b']' => {
                path.pop();
            }
            b',' => match path.last_mut() {
                Some(Step::Index(index)) => *index = index.saturating_add(1),
                Some(Step::Key(key)) => {
                    // If the comma itself differs, the difference is in the member after it.
                    *key = if index == at {
                        key_at(text, index.saturating_add(1))
                    } else {
                        String::new()
                    };
                    wants_key = true;
                }
                None => {}
            },
            b'"' => {
                let end = end_of_string(bytes, index);
                if wants_key && let Some(Step::Key(key)) = path.last_mut() {
                    *key = text
                        .get(index.saturating_add(1)..end)
                        .unwrap_or_default()
                        .to_owned();
                    wants_key = false;
                }
                index = end;
            }
            _ => {}
        }
        index = index.saturating_add(1);
    }
    // At a brace or a comma no key was read yet.
    if path.last() == Some(&Step::Key(String::new())) {
        path.pop();
    }
    path
}

/// Returns the key that begins at `start`; empty if there is none.
fn key_at(text: &str, start: usize) -> String {
    let bytes = text.as_bytes();
    if bytes.get(start) != Some(&b'"') {
        return String::new();
    }
    let key = text.get(start.saturating_add(1)..end_of_string(bytes, start));
    key.unwrap_or_default().to_owned()
}

/// Returns the index of the closing quote of the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut index = start.saturating_add(1);
    while let Some(byte) = bytes.get(index) {
        match byte {
            b'"' => break,
            b'\\' => index = index.saturating_add(2),
            _ => index = index.saturating_add(1),
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(a: &str, b: &str) -> (usize, String, Option<String>, Option<String>) {
        let apart = apart(a, b).unwrap();
        (apart.offset, apart.member, apart.recorded, apart.recomputed)
    }

    #[test]
    fn the_first_difference_is_named_by_its_member() {
        let some = |text: &str| Some(text.to_owned());
        let a = r#"{"a":"x","c":[{"d":1},{"e":{"f":"p,\"{q"}}],"g":null}"#;
        assert!(apart(a, a).is_none());
        assert_eq!(
            told(a, &a.replace("\"x\"", "\"y\"")),
            (6, "a".to_owned(), some("\"x\""), some("\"y\""))
        );
        let b = a.replace("{q", "{r");
        let (offset, member, ..) = told(a, &b);
        assert_eq!(
            (offset, member.as_str()),
            (a.find("{q").unwrap() + 1, "c[1].e.f")
        );
        let longer = told(a, &a.replace("{\"d\":1}", "{\"d\":12}"));
        assert_eq!(longer.1, "c[0].d");
        let left_out = told(a, &a.replace("\"a\":\"x\",", ""));
        assert_eq!(left_out, (2, "a".to_owned(), some("\"x\""), None));
        let added = told(&a.replace("\"a\":\"x\",", ""), a);
        assert_eq!(added, (2, "a".to_owned(), None, some("\"x\"")));
        let shorter = told(a, &a.replace("{\"d\":1},", ""));
        assert_eq!(shorter.1, "c[0].d");
        let more = told(r#"{"c":[]}"#, r#"{"c":[{"d":1}]}"#);
        assert_eq!(more.1, "c");
        let ending = told(r#"{"a":1}"#, r#"{"a":1,"b":2}"#);
        assert_eq!(
            (ending.1.as_str(), ending.2, ending.3),
            ("b", None, some("2"))
        );
    }

    #[test]
    fn another_spelling_of_the_same_is_a_difference_without_values() {
        let (offset, _, a, b) = told(r#"{"a":"\u0041"}"#, r#"{"a":"A"}"#);
        assert_eq!((offset, a, b), (6, None, None));
    }
}
