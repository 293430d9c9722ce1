//! The strict JSON reader: checks in one linear pass whether hostile bytes are one well-formed
//! document.
//!
//! serde_json alone is not strict enough for signed requests: it keeps the last of two equal keys
//! (so two readers can see two orders in one file) and cannot tell a half-written file from a wrong
//! one.

mod keys;
mod place;

use std::borrow::Cow;

use super::text;
use keys::{KeySet, mark, unescape};
pub use place::{Locator, locate};
pub(crate) use place::{Members, pointer_at, push, segments, value_at};

/// Maximum number of open containers: 64 nested ones pass, the 65th is refused.
pub const DEPTH_MAX: usize = 64;

/// Objects with up to this many keys compare a key with those that have the same [`mark`], which is
/// faster than hashing. Larger objects hash their keys, so that a hostile object costs linear time.
const KEYS_SCANNED_MAX: usize = 64;

/// Initial room for keys and open containers, sufficient for most documents.
const KEYS_AT_FIRST: usize = 32;
const OPEN_AT_FIRST: usize = 8;

/// Maximum number of characters of a key that an error message repeats.
const KEY_PRINTED_CHARS_MAX: usize = 64;

/// What is wrong with a document, and where.
///
/// `Incomplete` and `Empty` point at the end of the input. `DuplicateKey`, `BadLiteral`,
/// `BadNumber`, `BadEscape` and `LoneSurrogate` point at the first byte of the key, literal, number
/// or escape. Every other kind points at the byte that is not allowed there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at line {line}, column {column} (byte {offset})")]
#[non_exhaustive]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Number of bytes before the fault.
    pub offset: usize,
    /// Line of the fault, from 1; lines end with a line feed.
    pub line: u64,
    /// Column of the fault in its line, from 1, in Unicode characters.
    pub column: u64,
}

/// The kinds of fault that [`check_object`] and [`check_value`] distinguish.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// There are only white-space bytes: a file that was created but not written yet looks like
    /// this.
    #[error("the document is empty")]
    Empty,
    /// A byte sequence that no later byte can turn into UTF-8.
    #[error("the document is not UTF-8")]
    NotUtf8,
    /// The document starts with the UTF-8 byte order mark.
    #[error("the document starts with a byte order mark")]
    ByteOrderMark,
    /// The first byte after white space is not `{`; only [`check_object`] gives this.
    #[error("the document is not an object")]
    NotAnObject,
    /// The input ended inside the document, and everything before the end was correct: a
    /// half-written file.
    #[error("the document ends too early")]
    Incomplete,
    /// Something other than white space follows the document.
    #[error("unexpected data after the document")]
    TrailingData,
    /// More than [`DEPTH_MAX`] containers are open.
    #[error("more than {DEPTH_MAX} nested containers")]
    TooDeep,
    /// A key occurs twice in one object. Contains the unescaped key, escaped for printing and
    /// truncated to 64 characters.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// A `\u` escape names half of a surrogate pair without its other half.
    #[error("lone surrogate escape")]
    LoneSurrogate,
    /// A backslash is not followed by one of the escapes of RFC 8259.
    #[error("unknown escape in a string")]
    BadEscape,
    /// A byte below 0x20 is unescaped in a string.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// A number is not in the form of RFC 8259, for example `01`, `+1`, `.5` or `1.`.
    #[error("malformed number")]
    BadNumber,
    /// A bare word is not `true`, `false` or `null`.
    #[error("unknown literal, only true, false and null exist")]
    BadLiteral,
    /// A byte that is not allowed here.
    #[error("unexpected byte {}", printed_byte(*.0))]
    UnexpectedByte(u8),
}

impl JsonErrorKind {
    /// What is expected at the position of the error.
    pub fn expected(&self) -> &'static str {
        match self {
            JsonErrorKind::Empty | JsonErrorKind::NotAnObject => "one JSON object",
            JsonErrorKind::NotUtf8 => "UTF-8",
            JsonErrorKind::ByteOrderMark => "one JSON object, and nothing before it",
            JsonErrorKind::Incomplete => "the rest of the object",
            JsonErrorKind::TrailingData => "nothing after the object",
            JsonErrorKind::TooDeep => "objects and lists within each other, at most 64 deep",
            JsonErrorKind::DuplicateKey(_) => "every key at most once in an object",
            JsonErrorKind::LoneSurrogate => "both halves of the character",
            JsonErrorKind::BadEscape => "an escape of JSON, such as `\\n` or `\\u00e9`",
            JsonErrorKind::ControlCharacter => "an escape, such as `\\n`",
            JsonErrorKind::BadNumber => "a number of JSON, such as `0.5`, `-1` or `2e3`",
            JsonErrorKind::BadLiteral => "`true`, `false`, `null`, a number or a quoted text",
            JsonErrorKind::UnexpectedByte(_) => "the next part of a JSON object",
        }
    }
}

/// Checks that `bytes` are one JSON object and nothing else, and returns them as text.
///
/// Checks the whole grammar of RFC 8259, at every depth, and more: UTF-8 without a byte order mark,
/// at most [`DEPTH_MAX`] nested containers, no duplicate key in one object (compared after
/// unescaping), no lone surrogate. Numbers may have any size, also beyond the range of f64. Time is
/// linear in the length; the caller limits the size.
///
/// ```
/// use spoolgate_wire::json::{JsonErrorKind, check_object, minify};
///
/// assert_eq!(minify(check_object(br#"{ "size": 0.50 }"#)?), r#"{"size":0.50}"#);
/// let twice = check_object(br#"{"size": 1, "si\u007ae": 2}"#).unwrap_err();
/// assert_eq!(twice.kind, JsonErrorKind::DuplicateKey("size".to_owned()));
/// # Ok::<(), spoolgate_wire::json::JsonError>(())
/// ```
///
/// # Errors
/// Returns the first fault as a [`JsonError`], except that `NotUtf8` and `ByteOrderMark` take
/// precedence over the others.
pub fn check_object(bytes: &[u8]) -> Result<&str, JsonError> {
    check(bytes, true)
}

/// Checks that `bytes` are one JSON value of any kind and nothing else, and returns them as text.
///
/// The rules are those of [`check_object`]. A number at the end of the input counts as complete if
/// it could end there.
///
/// # Errors
/// As [`check_object`], without `NotAnObject`.
pub fn check_value(bytes: &[u8]) -> Result<&str, JsonError> {
    check(bytes, false)
}

/// Removes white space outside of strings and changes nothing else: numbers, escapes and key order
/// stay as they are.
///
/// `text` must be valid JSON (see [`check_value`]); for other text the result is meaningless. Does
/// not allocate if there is nothing to remove.
pub fn minify(text: &str) -> Cow<'_, str> {
    let mut place = Place::Outside;
    if text.chars().all(|c| place.keeps(c)) {
        return Cow::Borrowed(text);
    }
    let mut place = Place::Outside;
    let mut out = String::with_capacity(text.len());
    for run in text.split(|c| !place.keeps(c)) {
        out.push_str(run);
    }
    Cow::Owned(out)
}

/// Removes the hidden characters of every text, names included, as [`text::without_hidden`] does,
/// and changes nothing else; also returns how many they were, `None` if there are none. Texts that
/// it changes are escaped anew.
///
/// `text` must be valid JSON (see [`check_value`]). Two names of one object may become the same.
pub fn without_hidden(text: &str) -> Option<(String, u64)> {
    // Escaped characters are hidden too.
    if text.is_ascii() && !text.contains("\\u") {
        return None;
    }
    let (mut out, mut removed) = (String::with_capacity(text.len()), 0_u64);
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('"') {
        let mut place = Place::InString;
        let is_end = |c: char| {
            place.keeps(c);
            matches!(place, Place::Outside)
        };
        let (inside, next) = match behind.find(is_end) {
            Some(end) => (behind.get(..end), behind.get(end..).unwrap_or_default()),
            None => break,
        };
        out.push_str(before);
        let quoted = ["\"", inside.unwrap_or_default(), "\""].concat();
        let left = serde_json::from_str(&quoted)
            .ok()
            .and_then(|text: String| text::without_hidden(&text));
        match left {
            Some((left, count)) => {
                removed = removed.saturating_add(count);
                out.push_str(&serde_json::Value::from(left).to_string());
            }
            None => out.push_str(&quoted),
        }
        rest = next.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    (removed > 0).then_some((out, removed))
}

/// Position of [`minify`] in valid JSON.
enum Place {
    Outside,
    InString,
    AfterBackslash,
}

impl Place {
    /// Moves past `c`. Returns whether it belongs to the minified text.
    fn keeps(&mut self, c: char) -> bool {
        let was_outside = matches!(self, Place::Outside);
        *self = match (&*self, c) {
            (Place::Outside, '"') | (Place::AfterBackslash, _) => Place::InString,
            (Place::InString, '"') => Place::Outside,
            (Place::InString, '\\') => Place::AfterBackslash,
            (Place::InString, _) => Place::InString,
            (Place::Outside, _) => Place::Outside,
        };
        !(was_outside && matches!(c, ' ' | '\t' | '\n' | '\r'))
    }
}

fn check(bytes: &[u8], only_object: bool) -> Result<&str, JsonError> {
    let (text, cut_in_character) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, false),
        // A file that ends inside a character is half-written, not wrong. The reader decides,
        // because it knows whether the end is in a string.
        Err(error) if error.error_len().is_none() => ("", true),
        Err(error) => {
            return Err(JsonError::locate(
                bytes,
                JsonErrorKind::NotUtf8,
                error.valid_up_to(),
            ));
        }
    };
    Reader::new(bytes)
        .document(only_object)
        .map_err(|fault| JsonError::locate(bytes, fault.kind, fault.offset))?;
    if cut_in_character {
        return Err(JsonError::locate(
            bytes,
            JsonErrorKind::NotUtf8,
            bytes.len(),
        ));
    }
    Ok(text)
}

impl JsonError {
    /// Counts line and column only here, so that a valid document does not pay for it.
    fn locate(bytes: &[u8], kind: JsonErrorKind, offset: usize) -> JsonError {
        let place = place::place_of(bytes, offset);
        JsonError {
            kind,
            offset,
            line: place.line,
            column: place.column,
        }
    }
}

/// A fault whose line and column are not counted yet.
struct Fault {
    kind: JsonErrorKind,
    offset: usize,
}

/// A container that is still open.
enum Open {
    Array,
    Object {
        /// Where its keys start in `Reader::keys`.
        keys_start: usize,
        /// The [`mark`]s of its keys.
        marks: u64,
        /// All its keys, once there are too many to compare one by one; `Reader::keys` then has
        /// none of them.
        hashed: Option<KeySet>,
    },
}

/// What may come next in the innermost open container, other than its end.
#[derive(Clone, Copy)]
enum Expect {
    Element,
    Member,
    Comma,
}

/// Makes one pass over the bytes. Containers are in a list instead of on the call stack, so depth
/// cannot exhaust it.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open>,
    /// Unescaped keys of the open objects with their offsets, innermost last. One list, so that a
    /// small object allocates nothing.
    keys: Vec<(usize, Cow<'a, [u8]>)>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Reader {
            bytes,
            at: 0,
            open: Vec::with_capacity(OPEN_AT_FIRST),
            keys: Vec::with_capacity(KEYS_AT_FIRST),
        }
    }

    fn document(&mut self, only_object: bool) -> Result<(), Fault> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return self.fail_here(JsonErrorKind::ByteOrderMark);
        }
        self.skip_white_space();
        match self.peek() {
            None => return self.fail_here(JsonErrorKind::Empty),
            Some(byte) if only_object && byte != b'{' => {
                return self.fail_here(JsonErrorKind::NotAnObject);
            }
            Some(_) => {}
        }
        let mut expect = self.value()?;
        while !self.open.is_empty() {
            self.skip_white_space();
            expect = self.step(expect)?;
        }
        self.skip_white_space();
        if self.peek().is_some() {
            self.fail_here(JsonErrorKind::TrailingData)
        } else {
            Ok(())
        }
    }

    /// Reads the next member or element of the innermost open container, including the comma before
    /// it, or the container's end.
    fn step(&mut self, expect: Expect) -> Result<Expect, Fault> {
        let in_object = matches!(self.open.last(), Some(Open::Object { .. }));
        match (expect, self.peek()) {
            (_, None) => self.fail_here(JsonErrorKind::Incomplete),
            (Expect::Member, Some(b'}')) | (Expect::Element, Some(b']')) => Ok(self.close()),
            (Expect::Element, _) => self.value(),
            (Expect::Member, _) => self.member(),
            (Expect::Comma, Some(b'}')) if in_object => Ok(self.close()),
            (Expect::Comma, Some(b']')) if !in_object => Ok(self.close()),
            (Expect::Comma, Some(b',')) => {
                self.at += 1;
                self.skip_white_space();
                if in_object {
                    self.member()
                } else {
                    self.value()
                }
            }
            (Expect::Comma, Some(byte)) => self.fail_here(JsonErrorKind::UnexpectedByte(byte)),
        }
    }

    /// Reads a scalar, or the opening of a container.
    fn value(&mut self) -> Result<Expect, Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ())?,
            Some(b'{') => {
                self.open(Open::Object {
                    keys_start: self.keys.len(),
                    marks: 0,
                    hashed: None,
                })?;
                return Ok(Expect::Member);
            }
            Some(b'[') => {
                self.open(Open::Array)?;
                return Ok(Expect::Element);
            }
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.literal()?,
            Some(byte) => self.fail_here(JsonErrorKind::UnexpectedByte(byte))?,
            None => self.fail_here(JsonErrorKind::Incomplete)?,
        }
        Ok(Expect::Comma)
    }

    fn open(&mut self, container: Open) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            return self.fail_here(JsonErrorKind::TooDeep);
        }
        self.open.push(container);
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) -> Expect {
        self.at += 1;
        if let Some(Open::Object { keys_start, .. }) = self.open.pop() {
            self.keys.truncate(keys_start);
        }
        Expect::Comma
    }

    /// Reads a key, its colon, and its value like [`Reader::value`].
    fn member(&mut self) -> Result<Expect, Fault> {
        let key_at = self.at;
        match self.peek() {
            Some(b'"') => {}
            Some(byte) => return self.fail_here(JsonErrorKind::UnexpectedByte(byte)),
            None => return self.fail_here(JsonErrorKind::Incomplete),
        }
        let (raw, has_escapes) = self.string()?;
        let key = if has_escapes {
            Cow::Owned(unescape(raw))
        } else {
            Cow::Borrowed(raw)
        };
        if let Some(twice) = self.remember(key_at + 1, key) {
            return Err(Fault {
                kind: JsonErrorKind::DuplicateKey(printed_key(&twice)),
                offset: key_at,
            });
        }
        self.skip_white_space();
        match self.peek() {
            Some(b':') => {
                self.at += 1;
                self.skip_white_space();
                self.value()
            }
            Some(byte) => self.fail_here(JsonErrorKind::UnexpectedByte(byte)),
            None => self.fail_here(JsonErrorKind::Incomplete),
        }
    }

    /// Records a key of the innermost object. Returns the key if the object already has it.
    fn remember(&mut self, start: usize, key: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        let bytes = self.bytes;
        let Some(Open::Object {
            keys_start,
            marks,
            hashed,
        }) = self.open.last_mut()
        else {
            return None;
        };
        if let Some(seen) = hashed {
            return if seen.insert(bytes, start, &key) {
                None
            } else {
                Some(key)
            };
        }
        let own_keys = self.keys.get(*keys_start..).unwrap_or_default();
        let own_mark = mark(&key);
        if *marks & own_mark != 0 && own_keys.iter().any(|(_, own)| *own == key) {
            return Some(key);
        }
        *marks |= own_mark;
        let grown_large = own_keys.len() >= KEYS_SCANNED_MAX;
        self.keys.push((start, key));
        if grown_large {
            let mut seen = KeySet::default();
            for (start, key) in self.keys.drain(*keys_start..) {
                seen.insert(bytes, start, &key);
            }
            *hashed = Some(seen);
        }
        None
    }

    /// Reads a string. Returns the bytes between its quotes, and whether they contain escapes.
    fn string(&mut self) -> Result<(&'a [u8], bool), Fault> {
        self.at += 1;
        let start = self.at;
        let mut has_escapes = false;
        // Most strings are short names and end here.
        let rest = self.bytes.get(start..).unwrap_or_default();
        let plain = plain_run(rest);
        if let Some((raw, [b'"', ..])) = rest.split_at_checked(plain) {
            self.at = start + plain + 1;
            return Ok((raw, false));
        }
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            self.at += plain_run(rest);
            match self.peek() {
                None => return self.fail_here(JsonErrorKind::Incomplete),
                Some(b'"') => {
                    let raw = self.bytes.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok((raw, has_escapes));
                }
                Some(b'\\') => {
                    has_escapes = true;
                    self.escape()?;
                }
                Some(_) => return self.fail_here(JsonErrorKind::ControlCharacter),
            }
        }
    }

    /// Reads one escape, or two that make a surrogate pair.
    fn escape(&mut self) -> Result<(), Fault> {
        let escape_at = self.at;
        self.at += 1;
        match self.take() {
            None => return self.fail_here(JsonErrorKind::Incomplete),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => return Ok(()),
            Some(b'u') => {}
            Some(_) => {
                return Err(Fault {
                    kind: JsonErrorKind::BadEscape,
                    offset: escape_at,
                });
            }
        }
        let lone = Fault {
            kind: JsonErrorKind::LoneSurrogate,
            offset: escape_at,
        };
        match self.four_hex_digits(escape_at)? {
            0xdc00..=0xdfff => Err(lone),
            0xd800..=0xdbff => {
                let low_at = self.at;
                for wanted in [b'\\', b'u'] {
                    match self.take() {
                        None => return self.fail_here(JsonErrorKind::Incomplete),
                        Some(byte) if byte == wanted => {}
                        Some(_) => return Err(lone),
                    }
                }
                let low = self.four_hex_digits(low_at)?;
                if (0xdc00..=0xdfff).contains(&low) {
                    Ok(())
                } else {
                    Err(lone)
                }
            }
            _ => Ok(()),
        }
    }

    fn four_hex_digits(&mut self, escape_at: usize) -> Result<u32, Fault> {
        let mut unit = 0;
        for _ in 0..4 {
            match self.take().map(hex_digit) {
                None => return self.fail_here(JsonErrorKind::Incomplete),
                Some(Some(digit)) => unit = unit * 16 + digit,
                Some(None) => {
                    return Err(Fault {
                        kind: JsonErrorKind::BadEscape,
                        offset: escape_at,
                    });
                }
            }
        }
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), Fault> {
        let number_at = self.at;
        self.skip_if(b"-");
        if !self.skip_if(b"0") {
            self.digits(number_at)?;
        }
        if self.skip_if(b".") {
            self.digits(number_at)?;
        }
        if self.skip_if(b"eE") {
            self.skip_if(b"+-");
            self.digits(number_at)?;
        }
        // Text that still looks like a part of the number (`01`, `1.2.3`, `10k`, `0x1f`) is better
        // reported as a bad number than as an unexpected byte.
        match self.peek() {
            Some(b'+' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                Err(Fault {
                    kind: JsonErrorKind::BadNumber,
                    offset: number_at,
                })
            }
            _ => Ok(()),
        }
    }

    /// Reads one or more digits of the number that starts at `number_at`.
    fn digits(&mut self, number_at: usize) -> Result<(), Fault> {
        match self.peek() {
            None => return self.fail_here(JsonErrorKind::Incomplete),
            Some(b'0'..=b'9') => {}
            Some(_) => {
                return Err(Fault {
                    kind: JsonErrorKind::BadNumber,
                    offset: number_at,
                });
            }
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<(), Fault> {
        let literal_at = self.at;
        while self
            .peek()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            self.at += 1;
        }
        let word = self.bytes.get(literal_at..self.at).unwrap_or_default();
        let literals: [&[u8]; 3] = [b"true", b"false", b"null"];
        if literals.contains(&word) {
            Ok(())
        } else if self.peek().is_none() && literals.iter().any(|literal| literal.starts_with(word))
        {
            self.fail_here(JsonErrorKind::Incomplete)
        } else {
            Err(Fault {
                kind: JsonErrorKind::BadLiteral,
                offset: literal_at,
            })
        }
    }

    #[inline]
    fn skip_white_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn skip_if(&mut self, any_of: &[u8]) -> bool {
        let found = self.peek().is_some_and(|byte| any_of.contains(&byte));
        self.at += usize::from(found);
        found
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn fail_here<T>(&self, kind: JsonErrorKind) -> Result<T, Fault> {
        Err(Fault {
            kind,
            offset: self.at,
        })
    }
}

/// Number of bytes before the first quote, backslash or control character. Examines eight at a
/// time, because most of a document is inside of strings.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = 0x80 * ONES;
    let mut plain = 0;
    for eight in bytes.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*eight);
        // Sets the high bit of each byte below `limit`; above the lowest such byte, borrows may set
        // others.
        let below = |word: u64, limit: u64| word.wrapping_sub(limit * ONES) & !word & HIGH_BITS;
        let is = |byte: u8| below(word ^ (u64::from(byte) * ONES), 1);
        let found = is(b'"') | is(b'\\') | below(word, 0x20);
        if found != 0 {
            return plain + usize::try_from(found.trailing_zeros() / 8).unwrap_or(0);
        }
        plain += 8;
    }
    let rest = bytes.get(plain..).unwrap_or_default();
    plain
        + rest
            .iter()
            .position(|b| matches!(b, b'"' | b'\\' | 0..0x20))
            .unwrap_or(rest.len())
}

fn hex_digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(16)
}

/// Renders a key for an error message: nothing that moves a terminal's cursor, at most one line, no
/// half escape.
fn printed_key(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key);
    let mut printed = String::new();
    let mut printed_chars = 0;
    for escaped in text.chars().map(char::escape_debug) {
        printed_chars += escaped.len();
        if printed_chars > KEY_PRINTED_CHARS_MAX {
            break;
        }
        printed.extend(escaped);
    }
    printed
}

fn printed_byte(byte: u8) -> String {
    if byte.is_ascii_graphic() {
        format!("`{}`", char::from(byte))
    } else {
        format!("0x{byte:02x}")
    }
}

#[cfg(test)]
mod tests;
