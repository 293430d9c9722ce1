//! Strict parsing of one YAML rule file. Every error has the file and the line.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use super::nearest::nearest;
use super::rulebook::RulebookError;
use spoolgate_wire::payload::type_in_words;

/// Largest rule file, in bytes.
pub const RULE_FILE_BYTES_MAX: usize = 1024 * 1024;

/// Most `[` and `{` that may be open at the same time. The YAML library walks through all open
/// brackets for every token, so a file of nothing but brackets would block the gate for seconds.
/// The bound is far above any real nesting, because brackets in comments and quoted text count too.
const OPEN_BRACKETS_MAX: usize = 1000;

/// Deserialises an optional key that must have a value if it is present. A key without a value is
/// refused, because it looks like a limit but is not one.
///
/// # Errors
/// Returns the deserialiser's error.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Parses `text` as a `T`, whose structs must refuse unknown keys.
///
/// # Errors
/// Returns [`RulebookError`] with the file, the line and the fault.
pub fn read<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, RulebookError> {
    read_at(path, text, 0)
}

/// Like [`read`], for text that starts after `lines_before` lines of its file.
///
/// # Errors
/// Returns [`RulebookError`] with the file, the line and the fault.
pub fn read_at<T: DeserializeOwned>(
    path: &str,
    text: &str,
    lines_before: usize,
) -> Result<T, RulebookError> {
    if text.len() > RULE_FILE_BYTES_MAX {
        return Err(RulebookError::new(
            path,
            None,
            format!("larger than {RULE_FILE_BYTES_MAX} bytes"),
        ));
    }
    if text.starts_with('\u{feff}') {
        let message =
            "begins with a byte order mark, which would be part of its first key; save it without";
        return Err(RulebookError::new(
            path,
            Some(lines_before.saturating_add(1)),
            message,
        ));
    }
    if let Some(line) = line_of_too_many_brackets(text) {
        let message = format!("more than {OPEN_BRACKETS_MAX} brackets are open");
        return Err(RulebookError::new(
            path,
            Some(line.saturating_add(lines_before)),
            message,
        ));
    }
    serde_yaml::from_str(text).map_err(|error| {
        let line = error.location().map(|location| location.line());
        let message = error.to_string();
        // The library appends the location, which the error already has.
        let message = message.split(" at line ").next().unwrap_or(&message);
        let (line, message) = in_words(text, line, message);
        RulebookError::new(
            path,
            line.map(|line| line.saturating_add(lines_before)),
            message,
        )
    })
}

/// Rewrites a message of the YAML library for authors of rule files.
fn in_words(text: &str, line: Option<usize>, message: &str) -> (Option<usize>, String) {
    const NUMBERS: [&str; 5] = ["u8", "u16", "u32", "u64", "usize"];
    // In some places the library appends its context after a comma.
    let fault = message.split(", while ").next().unwrap_or(message);
    if fault.ends_with("cannot start any token") {
        let there = line.and_then(|line| text.lines().nth(line.saturating_sub(1)));
        let what = match there {
            Some(there) if there.contains('\t') => {
                "YAML indents by spaces, and this line has a tab"
            }
            _ => "put the value in quotes",
        };
        return (line, format!("{fault}; {what}"));
    }
    if let Some((found, expected)) = message.rsplit_once(", expected ")
        && let Some((before, kind @ ("sequence" | "map"))) = found.rsplit_once("invalid type: ")
    {
        let (kind, expected) = (type_in_words(kind), type_in_words(expected));
        return (line, format!("{before}it is {kind}, expected {expected}"));
    }
    if let Some((found, number)) = message.rsplit_once(", expected ")
        && NUMBERS.contains(&number)
    {
        return (line, format!("{found}, expected a whole number, 0 or more"));
    }
    if let Some((found, expected)) = message.rsplit_once(", expected struct ")
        && !expected.contains(' ')
    {
        return (line, format!("{found}, expected an object"));
    }
    if let Some(key) = message.strip_suffix(": invalid type: unit value, expected a sequence") {
        return (line, format!("`{key}` has no value; an empty list is `[]`"));
    }
    if let Some(near) = nearest_expected(message) {
        return (line, format!("{message}; did you mean `{near}`?"));
    }
    // The library writes the key before what `OutOfBounds` says.
    if let Some((key, fault)) = message.split_once(": is `")
        && !key.contains(char::is_whitespace)
    {
        return (line, format!("`{key}` is `{fault}"));
    }
    // The library reports the first line of the mapping, so look for the second key.
    let twice = message
        .rsplit_once("duplicate field `")
        .and_then(|(_, key)| key.strip_suffix('`'));
    let second = twice.and_then(|key| {
        let is_key = |line: &str| {
            line.strip_prefix(key)
                .is_some_and(|rest| rest.starts_with(':'))
        };
        let mut on = (1_usize..)
            .zip(text.lines())
            .filter(|(_, line)| is_key(line))
            .map(|(number, _)| number);
        on.nth(1)
    });
    (second.or(line), message.to_owned())
}

/// Returns the key or word that an unknown one is nearest to.
fn nearest_expected(message: &str) -> Option<&str> {
    let (fault, expected) = message.split_once(", expected ")?;
    let (what, name) = fault.split_once('`')?;
    if !what.ends_with("unknown field ") && !what.ends_with("unknown variant ") {
        return None;
    }
    // Every second part is in backticks.
    nearest(
        name.strip_suffix('`')?,
        expected.split('`').skip(1).step_by(2),
    )
}

/// Returns the line, from 1, at which more than [`OPEN_BRACKETS_MAX`] brackets are open.
fn line_of_too_many_brackets(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    let mut line = 1;
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            b'\n' => line += 1,
            _ => {}
        }
        if open > OPEN_BRACKETS_MAX {
            return Some(line);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agents send rules too, and know no types of this program.
    #[test]
    fn types_are_named_in_the_words_of_json() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Inner {
            #[expect(dead_code, reason = "only read")]
            n: u32,
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Outer {
            #[expect(dead_code, reason = "only read")]
            inner: Inner,
        }
        for (text, expect) in [
            ("inner: [5]", "f:1: inner: it is a list, expected an object"),
            (
                "inner: 5",
                "f:1: inner: invalid type: integer `5`, expected an object",
            ),
            ("[]", "f:1: it is a list, expected an object"),
            (
                "inner: {n: {}}",
                "f:1: inner.n: it is an object, expected a whole number",
            ),
        ] {
            let error = read::<Outer>("f", text).unwrap_err().to_string();
            assert_eq!(error, expect, "{text}");
        }
    }

    #[test]
    fn faults_are_reported_with_their_line_and_a_remedy() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Limits {
            #[serde(rename = "a")]
            _a: u32,
            #[serde(rename = "b", default)]
            _b: String,
        }
        for (text, expected) in [
            (
                "\ta: 1",
                "f:1: found character that cannot start any token; YAML indents by spaces, and \
                    this line has a tab",
            ),
            (
                "a: 1\nb: @x",
                "f:2: found character that cannot start any token; put the value in quotes",
            ),
            (
                "a: 5m",
                "f:1: a: invalid type: string \"5m\", expected a whole number, 0 or more",
            ),
            (
                "a: -1",
                "f:1: a: invalid type: integer `-1`, expected a whole number, 0 or more",
            ),
            ("# first\na: 1\nb: x\na: 2", "f:4: duplicate field `a`"),
        ] {
            assert_eq!(
                read::<Limits>("f", text).unwrap_err().to_string(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_of_brackets_is_refused_before_the_library_reads_it() {
        let nested = |open: usize| format!("\n\n{}{}", "[".repeat(open), "]".repeat(open));
        let message = |text: &str| {
            read_at::<Vec<String>>("f", text, 1)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(&nested(OPEN_BRACKETS_MAX + 1)),
            "f:4: more than 1000 brackets are open"
        );
        assert!(
            message(&nested(OPEN_BRACKETS_MAX)).contains("expected a text"),
            "not the library's own words"
        );
        let many = "- {a}\n".repeat(OPEN_BRACKETS_MAX + 1);
        assert!(
            message(&many).contains("expected a text"),
            "closed brackets count"
        );
        // Without the bound this takes 12 s.
        assert!(message(&"[".repeat(RULE_FILE_BYTES_MAX)).contains("brackets"));
    }
}
