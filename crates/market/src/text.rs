//! Lines and fields of a text file, and safe display of foreign text in messages.

use std::borrow::Cow;

use super::error::FieldError;
use spoolgate_wire::text::{QUOTED_CHARS_MAX, quoted};

/// Maximum length of a line; the widest known row (klines) is under 200 bytes.
pub(super) const LINE_BYTES_MAX: usize = 4096;

/// One non-blank line of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// The line number in the file, from 1, including blank lines.
    pub(super) number: u64,
    /// Its bytes without the line end.
    pub(super) bytes: &'a [u8],
}

/// Iterates over the lines of a file, without byte-order mark, line ends (LF or CRLF) and blank
/// lines.
///
/// Lines are split before quotes are parsed, on purpose: no market value spans lines, and a stray
/// quote then spoils one row instead of swallowing the rest of the file.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let body = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    (1u64..)
        .zip(body.split(|byte| *byte == b'\n'))
        .map(|(number, line)| Line {
            number,
            bytes: line.strip_suffix(b"\r").unwrap_or(line),
        })
        .filter(|line| !line.bytes.trim_ascii().is_empty())
}

/// Splits a line into fields, trimmed of blanks and without CSV quotes.
pub(super) fn fields<'a>(line: Line<'a>) -> Result<Vec<Cow<'a, str>>, FieldError> {
    if line.bytes.len() > LINE_BYTES_MAX {
        return Err(FieldError::LineLength(line.bytes.len()));
    }
    let text = std::str::from_utf8(line.bytes).map_err(|_| FieldError::NotUtf8)?;
    if !text.contains('"') {
        return Ok(text
            .split(',')
            .map(|field| Cow::Borrowed(field.trim()))
            .collect());
    }
    split_quoted(text).ok_or(FieldError::Quotes)
}

/// Splits a line with quotes; `None` if the quotes do not enclose whole fields. Stricter than CSV
/// readers, on purpose: they read `"1"00` as 100.
fn split_quoted(text: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        let Some(mut tail) = rest.trim_start().strip_prefix('"') else {
            let (field, after) = rest
                .split_once(',')
                .map_or((rest, None), |(field, after)| (field, Some(after)));
            if field.contains('"') {
                return None;
            }
            out.push(Cow::Borrowed(field.trim()));
            let Some(after) = after else { return Some(out) };
            rest = after;
            continue;
        };
        let mut value = String::new();
        loop {
            let (part, after) = tail.split_once('"')?;
            value.push_str(part);
            tail = after;
            // A doubled quote is a literal quote.
            let Some(after) = tail.strip_prefix('"') else {
                break;
            };
            value.push('"');
            tail = after;
        }
        out.push(Cow::Owned(value.trim().to_owned()));
        if tail.trim().is_empty() {
            return Some(out);
        }
        rest = tail.trim_start().strip_prefix(',')?;
    }
}

/// Formats foreign text for a message: in backticks, control characters escaped (a file must not
/// control the reader's terminal), cut to 40 characters.
pub(super) fn shown(text: &str) -> String {
    quoted(text, QUOTED_CHARS_MAX)
}

/// Like [`shown`], for the name of a file, which is only useful whole: cut to 240 characters.
pub(super) fn shown_name(name: &str) -> String {
    quoted(name, 240)
}

/// Like [`shown`], for bytes that may not be text.
pub(super) fn shown_bytes(bytes: &[u8]) -> String {
    // At most four bytes per character, and one character more than is shown, so that the cut is
    // still marked.
    let head = bytes.get(..4 * (QUOTED_CHARS_MAX + 1)).unwrap_or(bytes);
    shown(&String::from_utf8_lossy(head))
}

/// Returns the words of a file's name: the last part of the path, split at every character that is
/// not a letter or digit.
pub(super) fn name_words(file_name: &str) -> Vec<&str> {
    let base = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    base.split(|character: char| !character.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&[&str]>) {
        let got = fields(Line {
            number: 1,
            bytes: text.as_bytes(),
        })
        .ok();
        let got: Option<Vec<&str>> = got
            .as_ref()
            .map(|fields| fields.iter().map(AsRef::as_ref).collect());
        assert_eq!(got.as_deref(), expect, "{text}");
    }

    #[test]
    fn fields_are_split_strictly() {
        check("a, b ,", Some(&["a", "b", ""]));
        check("\"a\",b", Some(&["a", "b"]));
        check(" \"a,b\" , \"\" ", Some(&["a,b", ""]));
        check("\"a\"\"b\",\"\"\"\",", Some(&["a\"b", "\"", ""]));
        check(",\"a\"", Some(&["", "a"]));
        for text in [
            "\"",
            "\"a",
            "\"1\"00",
            "1\"00\"",
            "a,\"b\"\"",
            "\"a\",b\"",
            "\"\"\"",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let got: Vec<(u64, &[u8])> = lines(b"\xef\xbb\xbfa\r\n\n \nb")
            .map(|line| (line.number, line.bytes))
            .collect();
        assert_eq!(got, [(1, &b"a"[..]), (4, b"b")]);
    }

    #[test]
    fn foreign_text_is_shown_cut_and_escaped() {
        assert_eq!(shown("a\tb\u{202e}"), "`a\\tb\\u{202e}`");
        assert_eq!(shown(&"x".repeat(41)), format!("`{}...`", "x".repeat(40)));
        assert_eq!(
            shown_bytes(&[b'x'; 1000]),
            format!("`{}...`", "x".repeat(40))
        );
    }
}
