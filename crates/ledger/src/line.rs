//! One ledger line: `{"prev":"<64 hex>","seq":N,"batch":B,"kind":"…",<body>}` and an LF.

use std::fmt::Write;

use super::tree::Hash;
use spoolgate_wire::json;

/// Longest line without its LF, in bytes: the longest entry of a tlog-tiles log.
pub const LINE_BYTES_MAX: usize = 65_535;

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Leaf hash of the line before.
    pub prev: Hash,
    /// Number of the line, from 0.
    pub seq: u64,
    /// Number of its batch, from 0.
    pub batch: u64,
    /// Its kind.
    pub kind: &'a str,
    /// The members after `kind`, with the closing brace but without an opening one.
    tail: &'a str,
}

/// Why bytes are not a ledger line, or a line cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Longer than [`LINE_BYTES_MAX`].
    #[error("the line has {0} bytes; at most {LINE_BYTES_MAX} are allowed")]
    TooLong(usize),
    /// Does not have the fixed start of a line.
    #[error("the line does not start with prev, seq, batch, kind")]
    Prefix,
    /// Not strict JSON.
    #[error("the line is not strict JSON: {0}")]
    Json(#[from] json::JsonError),
    /// The body to write is not an object with members.
    #[error("the body of a `{0}` line is not an object with members")]
    Body(String),
}

const PREV: &str = "{\"prev\":\"";
const SEQ: &str = "\",\"seq\":";
const BATCH: &str = ",\"batch\":";
const KIND: &str = ",\"kind\":\"";

/// Writes a line, without its LF. `body` is a JSON object with at least one member.
///
/// # Errors
/// [`LineError::TooLong`] or [`LineError::Body`].
pub fn render(
    prev: &Hash,
    seq: u64,
    batch: u64,
    kind: &str,
    body: &str,
) -> Result<String, LineError> {
    let mut line = String::new();
    render_into(&mut line, prev, seq, batch, kind, body)?;
    Ok(line)
}

/// As [`render`], but appends the line to `lines`. Returns the number of bytes appended.
///
/// # Errors
/// As [`render`]; the content of `lines` is then unusable.
pub fn render_into(
    lines: &mut String,
    prev: &Hash,
    seq: u64,
    batch: u64,
    kind: &str,
    body: &str,
) -> Result<usize, LineError> {
    let members = body
        .strip_prefix('{')
        .filter(|rest| rest.len() > 1 && rest.ends_with('}') && !rest.contains('\n'))
        .ok_or_else(|| LineError::Body(kind.to_owned()))?;
    let start = lines.len();
    // Writing to a String cannot fail.
    let _ = write!(lines, "{PREV}{prev}{SEQ}{seq}{BATCH}{batch}{KIND}{kind}\",");
    lines.push_str(members);
    let length = lines.len().saturating_sub(start);
    if length > LINE_BYTES_MAX {
        Err(LineError::TooLong(length))
    } else {
        Ok(length)
    }
}

/// The fixed start of a line, without interpretation of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start<'a> {
    /// The 64 bytes that should be the hash of the line before.
    pub prev: &'a [u8; 64],
    /// Number of the line.
    pub seq: u64,
    /// Number of its batch.
    pub batch: u64,
    /// Its kind.
    pub kind: &'a [u8],
    /// The rest, without an opening brace.
    pub tail: &'a [u8],
}

/// Splits off the fixed start of a line. Checks neither the value of `prev` nor the body.
pub fn start(bytes: &[u8]) -> Option<Start<'_>> {
    let rest = bytes.strip_prefix(PREV.as_bytes())?;
    let (prev, rest) = rest.split_first_chunk::<64>()?;
    let (seq, rest) = number(rest.strip_prefix(SEQ.as_bytes())?)?;
    let (batch, rest) = number(rest.strip_prefix(BATCH.as_bytes())?)?;
    let rest = rest.strip_prefix(KIND.as_bytes())?;
    let end = rest
        .iter()
        .position(|b| !b.is_ascii_lowercase() && *b != b'_')
        .filter(|end| *end > 0)?;
    let (kind, rest) = rest.split_at_checked(end)?;
    Some(Start {
        prev,
        seq,
        batch,
        kind,
        tail: rest.strip_prefix(b"\",")?,
    })
}

/// Parses the fixed start of a line. Does not check the body.
pub fn parse_prefix(text: &str) -> Option<Line<'_>> {
    let Start {
        prev,
        seq,
        batch,
        kind,
        tail,
    } = start(text.as_bytes())?;
    let prev = Hash::from_hex(std::str::from_utf8(prev).ok()?)?;
    let tail = text.get(text.len().checked_sub(tail.len())?..)?;
    Some(Line {
        prev,
        seq,
        batch,
        kind: std::str::from_utf8(kind).ok()?,
        tail,
    })
}

/// Parses digits without leading zeros, and returns the number and the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    let (first, _) = digits.split_first()?;
    if *first == b'0' && digits.len() > 1 {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |value, digit| {
        value
            .checked_mul(10)?
            .checked_add(u64::from(digit.wrapping_sub(b'0')))
    })?;
    Some((value, rest))
}

/// Reads a line (without its LF) strictly: the fixed start and one strict JSON object.
///
/// ```
/// use spoolgate_ledger::line;
/// use spoolgate_ledger::tree::{Hash, leaf_hash};
///
/// let written = line::render(&Hash::ZERO, 0, 0, "stop", r#"{"note":"the run ended"}"#)?;
/// let read = line::parse(written.as_bytes())?;
/// assert_eq!((read.seq, read.kind), (0, "stop"));
/// // The next line names this one by its hash.
/// let next = line::render(&leaf_hash(written.as_bytes()), 1, 0, "stop", &read.body())?;
/// assert!(line::parse(next.replace("\"seq\":1", "\"seq\": 1").as_bytes()).is_err());
/// # Ok::<(), line::LineError>(())
/// ```
///
/// # Errors
/// Returns [`LineError`] if the bytes are not a line.
pub fn parse(bytes: &[u8]) -> Result<Line<'_>, LineError> {
    if bytes.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong(bytes.len()));
    }
    let text = json::check_object(bytes)?;
    // A line that ends in white space would be a second spelling of the same line.
    parse_prefix(text)
        .filter(|_| text.ends_with('}'))
        .ok_or(LineError::Prefix)
}

impl Line<'_> {
    /// The body as a JSON object.
    pub fn body(&self) -> String {
        format!("{{{}", self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renders_and_reads_back() {
        let line = render(&Hash::ZERO, 3, 1, "stop", r#"{"note":"{\"prev\":\""}"#).unwrap();
        let read = parse(line.as_bytes()).unwrap();
        assert_eq!(
            (read.prev, read.seq, read.batch, read.kind),
            (Hash::ZERO, 3, 1, "stop")
        );
        assert_eq!(read.body(), r#"{"note":"{\"prev\":\""}"#);
    }

    #[test]
    fn length_at_its_limit() {
        let empty = render(&Hash::ZERO, 0, 0, "stop", r#"{"note":""}"#)
            .unwrap()
            .len();
        let body = |n: usize| format!(r#"{{"note":"{}"}}"#, "x".repeat(n));
        assert!(render(&Hash::ZERO, 0, 0, "stop", &body(LINE_BYTES_MAX - empty)).is_ok());
        let over = render(&Hash::ZERO, 0, 0, "stop", &body(LINE_BYTES_MAX - empty + 1));
        assert_eq!(over, Err(LineError::TooLong(LINE_BYTES_MAX + 1)));
        let line = render(&Hash::ZERO, 0, 0, "stop", &body(LINE_BYTES_MAX - empty)).unwrap();
        assert!(parse(format!("{line}x").as_bytes()).is_err());
    }

    #[test]
    fn refuses_every_other_start() {
        let good = render(&Hash::ZERO, 10, 2, "stop", r#"{"note":"n"}"#).unwrap();
        for (from, to) in [
            ("\"seq\":10", "\"seq\":010"),
            ("\"seq\":10", "\"seq\":-1"),
            ("\"seq\":10", "\"seq\": 10"),
            ("\"seq\":10", "\"seq\":1e1"),
            ("\"seq\":10", "\"seq\":"),
            ("\"seq\":10", "\"seq\":18446744073709551616"),
            ("\"seq\":10,\"batch\":2", "\"batch\":2,\"seq\":10"),
            ("\"kind\":\"stop\"", "\"kind\":\"Stop\""),
            ("\"kind\":\"stop\"", "\"kind\":\"\""),
            ("\"note\":\"n\"", "\"note\":\"n\",\"note\":\"m\""),
            ("{\"prev\"", " {\"prev\""),
            ("\"n\"}", "\"n\"} "),
            ("\"prev\":\"0", "\"prev\":\"A"),
        ] {
            assert!(
                parse(good.replacen(from, to, 1).as_bytes()).is_err(),
                "{to}"
            );
        }
    }
}
