//! Finds out whether a text contains a secret, as it is or in one of the forms in which programs
//! write text. This catches accidental leaks; a program that wants to hide a secret in a text can
//! use a form that is not searched.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use memchr::memmem::Finder;

/// Shorter secrets are searched only as they are: their encoded forms appear in any text.
const OTHER_FORMS_FROM_BYTES: usize = 6;
/// How often a text is unescaped: JSON in a JSON string, nested.
const UNESCAPED_TIMES: usize = 4;

/// Whether `text` contains `secret`: as it is; JSON-escaped, also inside nested strings;
/// percent-encoded; in hex; in base64 of either alphabet, also in the middle of something longer.
pub(super) fn holds(text: &[u8], secret: &str) -> bool {
    let secret = secret.trim();
    if secret.is_empty() {
        return false;
    }
    let raw = Finder::new(secret);
    if secret.len() < OTHER_FORMS_FROM_BYTES {
        return raw.find(text).is_some();
    }
    let forms = Forms::of(secret.as_bytes());
    let mut text = text.to_vec();
    for _ in 0..=UNESCAPED_TIMES {
        let plain = decoded(&text, b'%', percent);
        if [text.as_slice(), plain.as_slice()]
            .iter()
            .any(|text| raw.find(text).is_some() || forms.are_in(text))
        {
            return true;
        }
        let unescaped = decoded(&text, b'\\', backslash);
        if unescaped.len() == text.len() {
            break;
        }
        text = unescaped;
    }
    false
}

/// A secret in hex and base64.
struct Forms {
    hex: String,
    /// Its base64 at byte offsets 0, 1 and 2 of a longer text, without the characters that depend
    /// on neighbouring bytes.
    base64: Vec<String>,
}

impl Forms {
    fn of(secret: &[u8]) -> Forms {
        let engine = GeneralPurpose::new(&alphabet::STANDARD, NO_PAD);
        let behind = |count: usize| {
            let mut bytes = vec![0; count];
            bytes.extend(secret);
            let (first, end) = ((count * 8).div_ceil(6), bytes.len() * 8 / 6);
            engine
                .encode(&bytes)
                .chars()
                .take(end)
                .skip(first)
                .collect()
        };
        Forms {
            hex: spoolgate_wire::signing::hex(secret),
            base64: (0..3).map(behind).collect(),
        }
    }

    fn are_in(&self, text: &[u8]) -> bool {
        // Base64 may be broken into lines, and bytes of hex may be separated.
        let base64: Vec<u8> = text
            .iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .map(as_standard)
            .collect();
        let hex = text
            .iter()
            .filter(|byte| !matches!(byte, b' ' | b':' | b'\t' | b'\r' | b'\n'));
        let hex: Vec<u8> = hex.map(u8::to_ascii_lowercase).collect();
        let is_in = |form: &String, text: &[u8]| Finder::new(form).find(text).is_some();
        is_in(&self.hex, &hex) || self.base64.iter().any(|form| is_in(form, &base64))
    }
}

fn as_standard(byte: &u8) -> u8 {
    match byte {
        b'-' => b'+',
        b'_' => b'/',
        other => *other,
    }
}

/// The decoded bytes of a sequence, and its length after the mark.
type Sequence = (Vec<u8>, usize);

/// Decodes every valid sequence that begins with `mark` in a text.
fn decoded(text: &[u8], mark: u8, read: fn(&[u8]) -> Option<Sequence>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(mark, rest) {
        let (before, behind) = rest.split_at(at);
        out.extend(before);
        match read(behind.get(1..).unwrap_or_default()) {
            Some((bytes, length)) => {
                out.extend(bytes);
                rest = behind.get(1 + length..).unwrap_or_default();
            }
            None => {
                out.push(mark);
                rest = behind.get(1..).unwrap_or_default();
            }
        }
    }
    out.extend(rest);
    out
}

/// Reads the two digits after `%`.
fn percent(text: &[u8]) -> Option<Sequence> {
    let code = digits(text, 2)?;
    Some((vec![u8::try_from(code).ok()?], 2))
}

/// Reads the characters after a backslash in JSON.
fn backslash(text: &[u8]) -> Option<Sequence> {
    let byte = match text.first()? {
        b'u' => {
            let mut utf8 = [0; 4];
            let first = digits(text.get(1..)?, 4)?;
            if let Some(letter) = char::from_u32(first) {
                return Some((letter.encode_utf8(&mut utf8).as_bytes().to_vec(), 5));
            }
            let second = text
                .get(5..)
                .filter(|rest| rest.starts_with(b"\\u"))
                .and_then(|rest| digits(rest.get(2..)?, 4))?;
            let letter =
                char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(second).ok()?])
                    .next()?
                    .ok()?;
            return Some((letter.encode_utf8(&mut utf8).as_bytes().to_vec(), 11));
        }
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        other @ (b'"' | b'\\' | b'/') => *other,
        _ => return None,
    };
    Some((vec![byte], 1))
}

fn digits(text: &[u8], count: usize) -> Option<u32> {
    let digits = text
        .get(..count)
        .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

    const SECRET: &str = "s3cr\"t/ü€😀\\x";

    #[test]
    fn every_form_of_a_secret_is_found_wherever_it_stands() {
        let json = serde_json::to_string(SECRET).unwrap();
        let twice = serde_json::to_string(&json).unwrap();
        let thrice = serde_json::to_string(&twice).unwrap();
        let all_escaped: String = SECRET
            .encode_utf16()
            .map(|unit| format!("\\u{unit:04X}"))
            .collect();
        let percent: String = SECRET.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let one_percent = SECRET.replace('s', "%73");
        let hex = spoolgate_wire::signing::hex(SECRET.as_bytes());
        let colons: Vec<String> = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect();
        let mut forms = vec![
            SECRET.to_owned(),
            json,
            twice,
            thrice,
            all_escaped,
            percent.clone(),
            percent.to_uppercase(),
            one_percent,
            hex.to_uppercase(),
            hex,
            colons.join(":"),
        ];
        for user in ["", "u", "us", "user:", "user7:"] {
            let pair = format!("{user}{SECRET}{user}");
            forms.push(STANDARD.encode(&pair));
            forms.push(URL_SAFE_NO_PAD.encode(&pair));
            let lines: Vec<String> = STANDARD
                .encode(&pair)
                .as_bytes()
                .chunks(7)
                .map(|line| String::from_utf8_lossy(line).into_owned())
                .collect();
            forms.push(lines.join("\r\n"));
        }
        for form in &forms {
            for text in [
                form.clone(),
                format!("before {form} behind"),
                format!("\u{1}{form}"),
            ] {
                assert!(holds(text.as_bytes(), SECRET), "{text}");
            }
            let escaped = serde_json::to_string(form).unwrap();
            assert!(
                holds(format!(r#"{{"a":[{{{escaped}:1}}]}}"#).as_bytes(), SECRET),
                "{escaped}"
            );
        }
        assert!(
            holds(b"the token hunter2 stands here", " hunter2\n"),
            "white space around a secret is none of it"
        );
    }

    #[test]
    fn other_text_is_not_taken_for_the_secret() {
        for text in [
            "",
            "\\",
            "%",
            "\\u",
            "\\ud83d",
            "%7",
            "s3cr",
            "S3CR\"T/Ü€😀\\X",
            r#"{"success":true,"data":[1,2]}"#,
        ] {
            assert!(!holds(text.as_bytes(), SECRET), "{text}");
        }
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        assert!(!holds(&bytes, SECRET));
        assert!(!holds(b"anything", ""), "no secret is in no text");
        assert!(
            holds(b"xpinx", "pin") && !holds(b"70696e cGlu %70in", "pin"),
            "a short one as it is only"
        );
    }
}
