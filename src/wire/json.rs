//! The strict JSON reader's front door: one linear pass that says whether hostile bytes are one well-formed
//! document.
//!
//! serde_json alone is not strict enough for signed requests: it keeps the last of two equal keys (so two
//! readers can see two orders in one file) and cannot tell a half-written file from a wrong one.

use std::borrow::Cow;
use std::collections::HashSet;

/// How many containers may be open at once: 64 nested ones pass, the 65th is refused.
pub const DEPTH_MAX: usize = 64;

/// Objects up to this many keys are compared one by one, which is faster than hashing; larger ones are
/// hashed, so that a hostile object costs linear time.
const KEYS_SCANNED_MAX: usize = 16;

/// How many characters of a key an error message repeats.
const KEY_PRINTED_CHARS_MAX: usize = 64;

/// What is wrong with a document, and where.
///
/// `Incomplete` and `Empty` point at the end of the input. `DuplicateKey`, `BadLiteral`, `BadNumber`,
/// `BadEscape` and `LoneSurrogate` point at the first byte of the key, literal, number or escape; every other
/// kind points at the byte that cannot stand where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at line {line}, column {column} (byte {offset})")]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Bytes before the fault, from 0.
    pub offset: usize,
    /// Line of the fault, from 1; lines end with a line feed.
    pub line: usize,
    /// Column of the fault in its line, from 1, in Unicode characters.
    pub column: usize,
}

/// The kinds of fault that [`check_object`] and [`check_value`] tell apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// No byte but white space: a file that was created and not written yet looks like this.
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
    /// The input ended inside the document, and nothing before the end was found wrong: a half-written file.
    #[error("the document ends too early")]
    Incomplete,
    /// Something other than white space follows the document.
    #[error("unexpected data after the document")]
    TrailingData,
    /// More than [`DEPTH_MAX`] containers are open.
    #[error("more than {DEPTH_MAX} nested containers")]
    TooDeep,
    /// A key occurs twice in one object; carries the unescaped key, escaped for printing and cut to 64
    /// characters.
    #[error("duplicate key `{0}`")]
    DuplicateKey(String),
    /// A `\u` escape names half of a surrogate pair without its other half.
    #[error("lone surrogate escape")]
    LoneSurrogate,
    /// A backslash is not followed by one of the escapes of RFC 8259.
    #[error("unknown escape in a string")]
    BadEscape,
    /// A byte below 0x20 stands unescaped in a string.
    #[error("unescaped control character in a string")]
    ControlCharacter,
    /// A number is not in the form of RFC 8259, for example `01`, `+1`, `.5` or `1.`.
    #[error("malformed number")]
    BadNumber,
    /// A bare word is not `true`, `false` or `null`.
    #[error("unknown literal, only true, false and null exist")]
    BadLiteral,
    /// A byte that cannot stand here.
    #[error("unexpected byte {}", printed_byte(*.0))]
    UnexpectedByte(u8),
}

/// Checks that `bytes` are one JSON object and nothing else, and returns them as text.
///
/// The whole grammar of RFC 8259 is checked, at every depth, and beyond it: UTF-8 without a byte order mark,
/// at most [`DEPTH_MAX`] nested containers, no key twice in one object (compared after unescaping), no lone
/// surrogate. Numbers may be of any size, also beyond the range of f64. Time is linear in the length; the
/// caller limits the size.
///
/// # Errors
/// The fault nearest to the start, as a [`JsonError`]; only `NotUtf8` and `ByteOrderMark` go before the
/// others.
pub fn check_object(bytes: &[u8]) -> Result<&str, JsonError> {
    check(bytes, true)
}

/// Checks that `bytes` are one JSON value of any kind and nothing else, and returns them as text.
///
/// The rules are those of [`check_object`]. A number at the end of the input counts as complete where it
/// could end.
///
/// # Errors
/// As [`check_object`], without `NotAnObject`.
pub fn check_value(bytes: &[u8]) -> Result<&str, JsonError> {
    check(bytes, false)
}

/// Removes the white space outside strings and changes nothing else: numbers, escapes and key order stay as
/// they are.
///
/// `text` must be valid JSON (see [`check_value`]); for other text the result means nothing. Nothing is
/// allocated when there is nothing to remove.
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

/// Where [`minify`] stands in valid JSON.
enum Place {
    Outside,
    InString,
    AfterBackslash,
}

impl Place {
    /// Moves over `c` and says whether it belongs to the minified text.
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
        // A file cut inside a character is half-written, not wrong; the reader decides, as it knows whether
        // the cut is in a string.
        Err(error) if error.error_len().is_none() => ("", true),
        Err(error) => return Err(JsonError::locate(bytes, JsonErrorKind::NotUtf8, error.valid_up_to())),
    };
    Reader::new(bytes)
        .document(only_object)
        .map_err(|fault| JsonError::locate(bytes, fault.kind, fault.offset))?;
    if cut_in_character {
        return Err(JsonError::locate(bytes, JsonErrorKind::NotUtf8, bytes.len()));
    }
    Ok(text)
}

impl JsonError {
    /// Line and column are counted only here, so that a good document does not pay for them.
    fn locate(bytes: &[u8], kind: JsonErrorKind, offset: usize) -> JsonError {
        let before = bytes.get(..offset).unwrap_or(bytes);
        let line_start = before.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        // Bytes 10xxxxxx continue a character and are not counted.
        let column = before.iter().skip(line_start).filter(|b| **b & 0xc0 != 0x80).count() + 1;
        JsonError { kind, offset, line, column }
    }
}

/// A fault before its line and column are counted.
struct Fault {
    kind: JsonErrorKind,
    offset: usize,
}

/// A container that is still open.
enum Open<'a> {
    Array,
    Object {
        /// Where its keys start in `Reader::keys`.
        keys_start: usize,
        /// All its keys, once there are too many to compare one by one; `Reader::keys` then has none of them.
        hashed: Option<HashSet<Cow<'a, [u8]>>>,
    },
}

/// What may come next.
#[derive(Clone, Copy)]
enum Expect {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    CommaOrEnd,
}

/// One pass over the bytes; containers are a list, not recursion, so depth cannot exhaust the stack.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    open: Vec<Open<'a>>,
    /// Unescaped keys of the open objects, innermost last: one list, so that a small object allocates
    /// nothing.
    keys: Vec<Cow<'a, [u8]>>,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0, open: Vec::new(), keys: Vec::new() }
    }

    fn document(&mut self, only_object: bool) -> Result<(), Fault> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return self.fail_here(JsonErrorKind::ByteOrderMark);
        }
        self.skip_white_space();
        match self.peek() {
            None => return self.fail_here(JsonErrorKind::Empty),
            Some(byte) if only_object && byte != b'{' => return self.fail_here(JsonErrorKind::NotAnObject),
            Some(_) => {}
        }
        let mut expect = self.value()?;
        while !self.open.is_empty() {
            self.skip_white_space();
            expect = self.step(expect)?;
        }
        self.skip_white_space();
        if self.peek().is_some() { self.fail_here(JsonErrorKind::TrailingData) } else { Ok(()) }
    }

    /// Reads the next part of the innermost open container.
    fn step(&mut self, expect: Expect) -> Result<Expect, Fault> {
        let in_object = matches!(self.open.last(), Some(Open::Object { .. }));
        match (expect, self.peek()) {
            (_, None) => self.fail_here(JsonErrorKind::Incomplete),
            (Expect::KeyOrEnd, Some(b'}')) | (Expect::ValueOrEnd, Some(b']')) => Ok(self.close()),
            (Expect::Value | Expect::ValueOrEnd, _) => self.value(),
            (Expect::Key | Expect::KeyOrEnd, _) => self.key(),
            (Expect::CommaOrEnd, Some(b'}')) if in_object => Ok(self.close()),
            (Expect::CommaOrEnd, Some(b']')) if !in_object => Ok(self.close()),
            (Expect::CommaOrEnd, Some(b',')) => {
                self.at += 1;
                Ok(if in_object { Expect::Key } else { Expect::Value })
            }
            (Expect::CommaOrEnd, Some(byte)) => self.fail_here(JsonErrorKind::UnexpectedByte(byte)),
        }
    }

    /// Reads a scalar, or the opening of a container.
    fn value(&mut self) -> Result<Expect, Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ())?,
            Some(b'{') => {
                self.open(Open::Object { keys_start: self.keys.len(), hashed: None })?;
                return Ok(Expect::KeyOrEnd);
            }
            Some(b'[') => {
                self.open(Open::Array)?;
                return Ok(Expect::ValueOrEnd);
            }
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number()?,
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.literal()?,
            Some(byte) => self.fail_here(JsonErrorKind::UnexpectedByte(byte))?,
            None => self.fail_here(JsonErrorKind::Incomplete)?,
        }
        Ok(Expect::CommaOrEnd)
    }

    fn open(&mut self, container: Open<'a>) -> Result<(), Fault> {
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
        Expect::CommaOrEnd
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<Expect, Fault> {
        let key_at = self.at;
        if let Some(byte) = self.peek().filter(|byte| *byte != b'"') {
            return self.fail_here(JsonErrorKind::UnexpectedByte(byte));
        }
        let (raw, has_escapes) = self.string()?;
        let key = if has_escapes { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) };
        if let Some(twice) = self.remember(key) {
            return Err(Fault { kind: JsonErrorKind::DuplicateKey(printed_key(&twice)), offset: key_at });
        }
        self.skip_white_space();
        match self.peek() {
            Some(b':') => {
                self.at += 1;
                Ok(Expect::Value)
            }
            Some(byte) => self.fail_here(JsonErrorKind::UnexpectedByte(byte)),
            None => self.fail_here(JsonErrorKind::Incomplete),
        }
    }

    /// Notes a key of the innermost object; gives it back when the object has it already.
    fn remember(&mut self, key: Cow<'a, [u8]>) -> Option<Cow<'a, [u8]>> {
        let Some(Open::Object { keys_start, hashed }) = self.open.last_mut() else {
            return None;
        };
        if let Some(seen) = hashed {
            return seen.replace(key);
        }
        let own_keys = self.keys.get(*keys_start..).unwrap_or_default();
        if own_keys.contains(&key) {
            return Some(key);
        }
        let grown_large = own_keys.len() >= KEYS_SCANNED_MAX;
        self.keys.push(key);
        if grown_large {
            *hashed = Some(self.keys.drain(*keys_start..).collect());
        }
        None
    }

    /// Reads a string; returns the bytes between its quotes and whether there are escapes among them.
    fn string(&mut self) -> Result<(&'a [u8], bool), Fault> {
        self.at += 1;
        let start = self.at;
        let mut has_escapes = false;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len());
            self.at += plain;
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
            Some(_) => return Err(Fault { kind: JsonErrorKind::BadEscape, offset: escape_at }),
        }
        let lone = Fault { kind: JsonErrorKind::LoneSurrogate, offset: escape_at };
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
                if (0xdc00..=0xdfff).contains(&low) { Ok(()) } else { Err(lone) }
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
                Some(None) => return Err(Fault { kind: JsonErrorKind::BadEscape, offset: escape_at }),
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
        // What still looks like a part of the number (`01`, `1.2.3`, `10k`, `0x1f`) is better called a bad
        // number than an unexpected byte.
        match self.peek() {
            Some(b'+' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                Err(Fault { kind: JsonErrorKind::BadNumber, offset: number_at })
            }
            _ => Ok(()),
        }
    }

    /// Reads one or more digits of the number that starts at `number_at`.
    fn digits(&mut self, number_at: usize) -> Result<(), Fault> {
        match self.peek() {
            None => return self.fail_here(JsonErrorKind::Incomplete),
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(Fault { kind: JsonErrorKind::BadNumber, offset: number_at }),
        }
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn literal(&mut self) -> Result<(), Fault> {
        let literal_at = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            self.at += 1;
        }
        let word = self.bytes.get(literal_at..self.at).unwrap_or_default();
        let literals: [&[u8]; 3] = [b"true", b"false", b"null"];
        if literals.contains(&word) {
            Ok(())
        } else if self.peek().is_none() && literals.iter().any(|literal| literal.starts_with(word)) {
            self.fail_here(JsonErrorKind::Incomplete)
        } else {
            Err(Fault { kind: JsonErrorKind::BadLiteral, offset: literal_at })
        }
    }

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
        Err(Fault { kind, offset: self.at })
    }
}

fn hex_digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(16)
}

/// Unescapes the bytes of a string that [`Reader::string`] accepted; only keys with escapes come here.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.iter().copied();
    let mut high_surrogate = 0;
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'u') => {
                let unit =
                    bytes.by_ref().take(4).filter_map(hex_digit).fold(0, |unit, digit| unit * 16 + digit);
                if (0xd800..=0xdbff).contains(&unit) {
                    high_surrogate = unit;
                    continue;
                }
                let is_low = (0xdc00..=0xdfff).contains(&unit);
                let code =
                    if is_low { 0x10000 + ((high_surrogate & 0x3ff) << 10) + (unit & 0x3ff) } else { unit };
                // INVARIANT: surrogates were checked to come in pairs, so every code is a character.
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
            Some(b'b') => out.push(0x08),
            Some(b'f') => out.push(0x0c),
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(b't') => out.push(b'\t'),
            Some(itself) => out.push(itself),
            None => {}
        }
    }
    out
}

/// A key as an error message may show it: nothing that moves a terminal's cursor, not more than a line, no
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
    if byte.is_ascii_graphic() { format!("`{}`", char::from(byte)) } else { format!("0x{byte:02x}") }
}

#[cfg(test)]
mod tests {
    use super::JsonErrorKind as Kind;
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn fault(bytes: &[u8]) -> (Kind, usize) {
        let error = check_value(bytes).expect_err(&String::from_utf8_lossy(bytes));
        (error.kind, error.offset)
    }

    fn duplicate(key: &str) -> Kind {
        Kind::DuplicateKey(key.to_owned())
    }

    #[test]
    fn good_documents_pass() {
        let deep = format!("{}1{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        for text in [
            "{}",
            " \t\r\n{ } \n",
            r#"{"a":{"a":[{"a":1},{"a":2}]},"b":"a"}"#,
            r#"{"":1,"\u0000":2," ":3}"#,
            "[]",
            "0",
            "-0",
            "-0.0e+00",
            "1e999",
            "123456789012345678901234567890.5E-7",
            r#""""#,
            r#""\ud83d\ude00\/\b\f\n\r\t""#,
            "\"\u{7f}\u{2028}é😀\"",
            "true",
            "false",
            "null ",
            "[[],{},[1,2]]",
            r#"{"a":1,"A":2,"á":3,"a ":4}"#,
            &deep,
        ] {
            assert_eq!(check_value(text.as_bytes()), Ok(text));
            let wrapped = format!("{{\"k\":[{text}]}}");
            if text != deep {
                assert_eq!(check_object(wrapped.as_bytes()), Ok(wrapped.as_str()));
            }
        }
    }

    #[test]
    fn each_fault_has_its_kind_and_offset() {
        use Kind::*;
        let too_deep = "[".repeat(DEPTH_MAX + 1);
        let too_deep_mixed = "[{\"a\":".repeat(DEPTH_MAX / 2) + "{";
        let cases: &[(&[u8], Kind, usize)] = &[
            (b"", Empty, 0),
            (b" \n ", Empty, 3),
            (b"{\"a\":\"caf\xe9\"}", NotUtf8, 9),
            (b"\xff\xfe{\0}\0", NotUtf8, 0),
            (b"\"\xed\xa0\x80\"", NotUtf8, 1),
            (b"\"\xc0\xaf\"", NotUtf8, 1),
            (b"\xef\xbb\xbf{}", ByteOrderMark, 0),
            (b"{", Incomplete, 1),
            (b"{\"a", Incomplete, 3),
            (b"{\"a\"", Incomplete, 4),
            (b"{\"a\":", Incomplete, 5),
            (b"{\"a\":-", Incomplete, 6),
            (b"{\"a\":1.", Incomplete, 7),
            (b"{\"a\":1e+", Incomplete, 8),
            (b"{\"a\":nul", Incomplete, 8),
            (b"{\"a\":1,", Incomplete, 7),
            (b"[\"\\", Incomplete, 3),
            (b"[\"\\ud83d\\ude", Incomplete, 12),
            (b"[\"\xf0\x9f", Incomplete, 4),
            (b"[\xf0\x9f", UnexpectedByte(0xf0), 1),
            (b"[] \xf0\x9f", TrailingData, 3),
            (b"{}{}", TrailingData, 2),
            (b"{} ,", TrailingData, 3),
            (b"1 2", TrailingData, 2),
            (b"{}\0", TrailingData, 2),
            (too_deep.as_bytes(), TooDeep, DEPTH_MAX),
            (too_deep_mixed.as_bytes(), TooDeep, DEPTH_MAX / 2 * 6),
            (br#"{"a":1,"a":2}"#, duplicate("a"), 7),
            (br#"{"a":1, "\u0061":2}"#, duplicate("a"), 8),
            (br#"{"\ud83d\ude00":1,"b":{"x":0},"#, Incomplete, 30),
            ("{\"\\ud83d\\ude00\":1,\"😀\":2}".as_bytes(), duplicate("😀"), 18),
            (br#"[{"x":{"/":1,"\/":1}}]"#, duplicate("/"), 13),
            (br#"{"\n\u202e":1,"\u000a\u202E":1}"#, duplicate("\\n\\u{202e}"), 14),
            (br#"["\ud83d"]"#, LoneSurrogate, 2),
            (br#"["a\ude00"]"#, LoneSurrogate, 3),
            (br#"["\ud83d\n"]"#, LoneSurrogate, 2),
            (br#"["\ud83d\ud83d"]"#, LoneSurrogate, 2),
            (br#"{"\ud83d":1}"#, LoneSurrogate, 2),
            (br#"["\x41"]"#, BadEscape, 2),
            (br#"["\u12"]"#, BadEscape, 2),
            (br#"["\u+123"]"#, BadEscape, 2),
            (br#"["\ud83d\u00zz"]"#, BadEscape, 8),
            (b"[\"\\\n\"]", BadEscape, 2),
            (b"[\"a\nb\"]", ControlCharacter, 3),
            (b"[\"\0\"]", ControlCharacter, 2),
            (b"[01]", BadNumber, 1),
            (b"[-01]", BadNumber, 1),
            (b"[+1]", BadNumber, 1),
            (b"[.5]", BadNumber, 1),
            (b"[1.]", BadNumber, 1),
            (b"[1e]", BadNumber, 1),
            (b"[1.5.5]", BadNumber, 1),
            (b"[1_000]", BadNumber, 1),
            (b"[0x1f]", BadNumber, 1),
            (b"[-]", BadNumber, 1),
            (b"[-Infinity]", BadNumber, 1),
            (b"[NaN]", BadLiteral, 1),
            (b"[True]", BadLiteral, 1),
            (b"[truee]", BadLiteral, 1),
            (b"[nul]", BadLiteral, 1),
            (b"[1,]", UnexpectedByte(b']'), 3),
            (b"[,1]", UnexpectedByte(b','), 1),
            (b"[1 2]", UnexpectedByte(b'2'), 3),
            (b"[1}", UnexpectedByte(b'}'), 2),
            (b"{\"a\":1]", UnexpectedByte(b']'), 6),
            (b"{\"a\":1,}", UnexpectedByte(b'}'), 7),
            (b"{a:1}", UnexpectedByte(b'a'), 1),
            (b"{'a':1}", UnexpectedByte(b'\''), 1),
            (b"{\"a\" 1}", UnexpectedByte(b'1'), 5),
            (b"{\"a\":}", UnexpectedByte(b'}'), 5),
            (b"[1]//", TrailingData, 3),
            (b"{/**/}", UnexpectedByte(b'/'), 1),
            (b"{\x0c}", UnexpectedByte(0x0c), 1),
            (b"{\xc2\xa0}", UnexpectedByte(0xc2), 1),
            (b"]", UnexpectedByte(b']'), 0),
        ];
        for (bytes, kind, offset) in cases {
            assert_eq!(fault(bytes), (kind.clone(), *offset), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn only_objects_are_requests() {
        for (text, offset) in [("[]", 0), ("  1", 2), ("\"{}\"", 0), ("null", 0), ("x", 0), ("}", 0)] {
            let error = check_object(text.as_bytes()).unwrap_err();
            assert_eq!((error.kind, error.offset), (Kind::NotAnObject, offset), "{text}");
        }
        assert_eq!(check_object(b" ").unwrap_err().kind, Kind::Empty);
    }

    #[test]
    fn messages_name_the_place() {
        let text = "{\n  \"size\": \"é\",\n \"é\": 1, \"size\": 2}";
        let error = check_object(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "duplicate key `size` at line 3, column 10 (byte 28)");
        let error = check_object(b"{\"a\": \x1b}").unwrap_err();
        assert_eq!(error.to_string(), "unexpected byte 0x1b at line 1, column 7 (byte 6)");
        let error = check_object(b"{;").unwrap_err();
        assert_eq!(error.to_string(), "unexpected byte `;` at line 1, column 2 (byte 1)");
    }

    #[test]
    fn printed_keys_are_short_and_whole() {
        let long = "k".repeat(1_000_000);
        assert_eq!(fault(format!(r#"{{"{long}":1,"{long}":1}}"#).as_bytes()).0, duplicate(&"k".repeat(64)));
        let escapes = "k".to_owned() + &"\\n".repeat(60);
        let printed = "k".to_owned() + &"\\n".repeat(31);
        assert_eq!(fault(format!(r#"{{"{escapes}":1,"{escapes}":1}}"#).as_bytes()).0, duplicate(&printed));
    }

    #[test]
    fn duplicates_are_found_in_objects_of_every_size() {
        for keys in (1..40).chain([1_000]) {
            for twice in [0, keys / 2, keys - 1] {
                let mut text = String::from("{");
                for key in 0..keys {
                    text += &format!("\"k{key}\":{{\"k0\":[]}},");
                }
                let good = format!("{}}}", text.trim_end_matches(','));
                assert_eq!(check_object(good.as_bytes()), Ok(good.as_str()));
                let offset = text.len();
                text += &format!("\"\\u006b{twice}\":1}}");
                assert_eq!(fault(text.as_bytes()), (duplicate(&format!("k{twice}")), offset));
            }
        }
    }

    /// A quadratic reader would take minutes on each of these.
    #[test]
    fn hostile_documents_take_linear_time() {
        let many: Vec<String> = (0..500_000).map(|n| format!("\"{n}\":0")).collect();
        let same_start = "x".repeat(200_000);
        let long: Vec<String> = (10..40).map(|n| format!("\"{same_start}{n}\":0")).collect();
        let objects = vec!["{\"a\":{}}"; 200_000].join(",");
        for text in [
            format!("{{{}}}", many.join(",")),
            format!("{{{}}}", long.join(",")),
            format!("{{\"k\":[{objects}]}}"),
            format!("{{\"k\":\"{}\"}}", "\\u0041".repeat(500_000)),
            format!("{{\"{}\":1}}", "\\n".repeat(500_000)),
            format!("{}{{}}", "\n".repeat(2_000_000)),
        ] {
            assert!(check_object(text.as_bytes()).is_ok());
        }
        assert_eq!(fault("[".repeat(5_000_000).as_bytes()).0, Kind::TooDeep);
    }

    fn arb_space() -> BoxedStrategy<String> {
        prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"].boxed()
    }

    fn arb_string() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            6 => "[a-c]",
            1 => Just("\\u0061".to_owned()),
            1 => Just("\\ud83d\\ude00".to_owned()),
            1 => "\\\\[\"\\\\/bfnrt]",
            1 => "[é😀 ,:{}\u{2028}]",
        ];
        prop::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
    }

    /// The text of a JSON value, with white space, escapes and now and then a key twice.
    fn arb_text() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("true".to_owned()),
            Just("false".to_owned()),
            Just("null".to_owned()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
            arb_string(),
        ];
        let value = scalar.prop_recursive(6, 40, 5, |inner| {
            let item = (arb_space(), inner.clone(), arb_space()).prop_map(|(a, b, c)| a + &b + &c).boxed();
            let member = (arb_space(), arb_string(), arb_space(), item.clone())
                .prop_map(|(a, key, b, item)| format!("{a}{key}{b}:{item}"));
            prop_oneof![
                prop::collection::vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        });
        (arb_space(), value, arb_space()).prop_map(|(a, value, b)| a + &value + &b)
    }

    fn arb_value() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        scalar.prop_recursive(5, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..20)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Both readers agree, but for what each alone refuses by design.
    fn agree_with_serde_json(bytes: &[u8]) -> Result<(), TestCaseError> {
        match (check_value(bytes), serde_json::from_slice::<Value>(bytes)) {
            (Ok(_), Err(theirs)) => prop_assert!(theirs.to_string().contains("out of range"), "{}", theirs),
            (Err(ours), Ok(_)) => {
                prop_assert!(matches!(ours.kind, Kind::DuplicateKey(_) | Kind::TooDeep), "{}", ours)
            }
            (Ok(text), Ok(_)) => prop_assert_eq!(text.as_bytes(), bytes),
            (Err(ours), Err(_)) => prop_assert!(ours.offset <= bytes.len()),
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn generated_texts_agree(text in arb_text()) {
            agree_with_serde_json(text.as_bytes())?;
        }

        #[test]
        fn mutated_texts_agree(
            text in arb_text(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3, prop_oneof![
                3 => prop::sample::select(br#"{}[],:"\/-+.eE019utrdD8 "#.to_vec()),
                1 => any::<u8>(),
            ]), 1..4),
        ) {
            let mut bytes = text.into_bytes();
            for (place, kind, byte) in edits {
                let at = place.index(bytes.len() + 1);
                match kind {
                    0 => bytes.insert(at, byte),
                    1 if at < bytes.len() => bytes[at] = byte,
                    _ if at < bytes.len() => drop(bytes.remove(at)),
                    _ => bytes.push(byte),
                }
            }
            agree_with_serde_json(&bytes)?;
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            agree_with_serde_json(&bytes)?;
        }

        #[test]
        fn every_prefix_of_an_object_is_incomplete(text in arb_text()) {
            let text = format!("{{\"k\":{text}}}");
            if check_object(text.as_bytes()).is_err() {
                return Ok(());
            }
            for cut in 0..text.len() {
                let error = check_object(&text.as_bytes()[..cut]).unwrap_err();
                let kind = if cut == 0 { Kind::Empty } else { Kind::Incomplete };
                prop_assert_eq!((error.kind, error.offset), (kind, cut));
            }
        }

        #[test]
        fn minify_keeps_the_meaning(text in arb_text()) {
            if check_value(text.as_bytes()).is_err() {
                return Ok(());
            }
            let small = minify(&text);
            prop_assert_eq!(minify(&small), small.clone());
            prop_assert!(matches!(minify(&small), Cow::Borrowed(_)));
            prop_assert!(check_value(small.as_bytes()).is_ok());
            if let Ok(value) = serde_json::from_str::<Value>(&text) {
                prop_assert_eq!(serde_json::from_str::<Value>(&small).unwrap(), value);
            }
        }

        #[test]
        fn minify_undoes_pretty_printing(value in arb_value()) {
            let pretty = serde_json::to_string_pretty(&value).unwrap();
            let compact = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(check_value(pretty.as_bytes()), Ok(pretty.as_str()));
            prop_assert_eq!(minify(&pretty), compact.as_str());
            prop_assert_eq!(minify(&compact), compact.as_str());
        }
    }

    #[test]
    fn minify_leaves_strings_alone() {
        for (text, small) in [
            (
                " { \"a b\" : \" \\\" \" , \"c\\\\\" : [ 1.50 , 1e5 ] }\n",
                r#"{"a b":" \" ","c\\":[1.50,1e5]}"#,
            ),
            ("\t\"\\\\\\\" \" ", r#""\\\" ""#),
            ("{}", "{}"),
            ("\" é 😀 \"\r\n", "\" é 😀 \""),
        ] {
            assert_eq!(minify(text), small);
        }
    }
}
