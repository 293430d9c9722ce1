//! Finds out whether a text contains a secret, as it is or in one of the forms in which programs
//! write text. This catches accidental leaks; a program that wants to hide a secret in a text can
//! use a form that is not searched.

use std::borrow::Cow;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use htmlize::{Context, unescape_bytes_in};
use memchr::memmem::Finder;
use spoolgate_wire::text::only_visible;

/// Shorter secrets are searched only as they are: their encoded forms appear in any text.
const OTHER_FORMS_FROM_BYTES: usize = 6;
/// How much of the beginning of a secret is searched in a text that was cut, characters.
const BEGINNING_CHARS: usize = 12;
/// How often a text is unescaped: JSON in a JSON string, nested.
const UNESCAPED_TIMES: usize = 4;

/// Whether `text` contains `secret`, or the part of a pair `user:secret` behind the colon: as it is;
/// JSON-escaped, also inside nested strings; percent-encoded; with HTML entities; as UTF-16; in hex;
/// in base32, and in base64 of either alphabet, also in the middle of something longer; and each of
/// these with hidden characters anywhere.
pub(super) fn holds(text: &[u8], secret: &str) -> bool {
    parts(secret).any(|part| holds_one(text, &part))
}

/// Whether a text that was cut may hold the beginning of a secret: a longer form of it than the text
/// has room for.
pub(super) fn may_begin(text: &[u8], secret: &str) -> bool {
    parts(secret).any(|part| {
        let beginning: String = part.chars().take(BEGINNING_CHARS).collect();
        holds_one(text, &beginning)
    })
}

/// What is searched of a secret: itself and the part behind the colon, both also without hidden
/// characters.
fn parts(secret: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let behind = secret.split_once(':').map(|(_, behind)| behind.trim());
    // A short part is a word of any text.
    let behind = behind.filter(|behind| behind.len() >= OTHER_FORMS_FROM_BYTES);
    let parts = [Some(secret.trim()), behind].into_iter().flatten();
    parts.flat_map(|part| {
        let visible = only_visible(part).map(Cow::Owned);
        [Some(part.into()), visible].into_iter().flatten()
    })
}

fn holds_one(text: &[u8], secret: &str) -> bool {
    if secret.is_empty() {
        return false;
    }
    let raw = Finder::new(secret);
    let forms = (secret.len() >= OTHER_FORMS_FROM_BYTES).then(|| Forms::of(secret));
    let in_forms = |text: &[u8]| forms.as_ref().is_some_and(|forms| forms.are_in(text));
    let is_in = |text: &[u8]| raw.find(text).is_some() || in_forms(text);
    let mut texts: Vec<Vec<u8>> = with_visible(text.to_vec()).collect();
    for _ in 0..=UNESCAPED_TIMES {
        for text in &texts {
            let page = unescape_bytes_in(&text[..], Context::General).into_owned();
            let pages = [decoded(text, b'%', percent), page].into_iter();
            let mut pages = pages.filter(|page| page != text).flat_map(with_visible);
            if is_in(text) || forms.is_some() && pages.any(|text| is_in(&text)) {
                return true;
            }
        }
        let unescaped = |text: &Vec<u8>| {
            let unescaped = decoded(text, b'\\', backslash);
            (unescaped.len() != text.len()).then_some(unescaped)
        };
        let next: Vec<Vec<u8>> = texts.iter().filter_map(unescaped).collect();
        texts = next.into_iter().flat_map(with_visible).collect();
        texts.sort_unstable();
        texts.dedup();
    }
    false
}

/// A text, and the same without hidden characters if it has any: the gate removes most of them after
/// the search, and nobody sees those that it leaves.
fn with_visible(text: Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    let visible = only_visible(&String::from_utf8_lossy(&text)).map(String::into_bytes);
    [Some(text), visible].into_iter().flatten()
}

/// A secret in other forms.
struct Forms {
    /// Its UTF-16, either byte first.
    utf16: [Vec<u8>; 2],
    hex: String,
    /// Its base32 at byte offsets 0 to 4 of a longer text, without the characters that depend on
    /// neighbouring bytes.
    base32: Vec<String>,
    /// Its base64 at byte offsets 0, 1 and 2 of a longer text, without the characters that depend
    /// on neighbouring bytes.
    base64: Vec<String>,
}

impl Forms {
    fn of(secret: &str) -> Forms {
        let utf16 = [u16::to_le_bytes, u16::to_be_bytes]
            .map(|bytes| secret.encode_utf16().flat_map(bytes).collect());
        let secret = secret.as_bytes();
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
            utf16,
            base32: (0..5).map(|count| base32_behind(count, secret)).collect(),
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
        let base32: Vec<u8> = base64.iter().map(u8::to_ascii_uppercase).collect();
        let is_in = |form: &[u8], text: &[u8]| Finder::new(form).find(text).is_some();
        self.utf16.iter().any(|form| is_in(form, text))
            || is_in(self.hex.as_bytes(), &hex)
            || self
                .base64
                .iter()
                .any(|form| is_in(form.as_bytes(), &base64))
            || self
                .base32
                .iter()
                .any(|form| is_in(form.as_bytes(), &base32))
    }
}

/// The base32 of a text behind `count` other bytes, without the characters that depend on them or
/// on what follows.
fn base32_behind(count: usize, text: &[u8]) -> String {
    let bits = std::iter::repeat_n(&0, count)
        .chain(text)
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1));
    let bits: Vec<u8> = bits.collect();
    let digits = bits.chunks_exact(5).skip((count * 8).div_ceil(5));
    digits
        .map(|digit| digit.iter().fold(0, |sum, bit| sum << 1 | bit))
        .map(|digit| {
            char::from(if digit < 26 {
                b'A' + digit
            } else {
                b'2' + (digit - 26)
            })
        })
        .collect()
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
    use spoolgate_wire::text::without_hidden;

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
        let entities: String = SECRET
            .chars()
            .map(|c| format!("&#{};", u32::from(c)))
            .collect();
        let hex_entities: String = SECRET
            .chars()
            .map(|c| format!("&#x{:X};", u32::from(c)))
            .collect();
        let mut forms = vec![
            entities,
            hex_entities,
            SECRET.replace('"', "&quot;"),
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
    fn entities_need_no_number_and_no_semicolon() {
        let secret = "user:Pa5+w0/rd&x<y9";
        for form in [
            "user&colon;Pa5&plus;w0&sol;rd&AMP;x&LT;y9",
            "user&colon;Pa5&plus;w0&sol;rd&ampx&lty9",
            "&#117&#115;&#101&#x72:Pa5&#43w0/rd&#38x&#x3Cy9",
        ] {
            assert!(holds(form.as_bytes(), secret), "{form}");
        }
    }

    #[test]
    fn hidden_characters_do_not_hide_an_encoded_secret() {
        let mut texts: Vec<String> = Vec::new();
        for hidden in ["\u{200b}", "\u{ad}", "\u{fe0f}"] {
            for form in [
                "%68un{}ter2-h%75nter2",
                "%{}68unter2-hunter2",
                "&#104;un{}ter2-hunte&#x72;2",
                "&#1{}04;unter2-hunter2",
                "h\\u0075n{}ter2-h\\u0075nter2",
                "h\\u{}0075nter2-hunter2",
            ] {
                texts.push(form.replace("{}", hidden));
            }
        }
        for name in ["shy", "ZeroWidthSpace", "zwj", "NoBreak", "lrm"] {
            texts.push(format!("hun&{name};ter2-hunter2"));
        }
        texts.push("%68un%E2%80%8Bter2-hunter2".to_owned());
        texts.push("&#104;un&#x200b;ter2-hunter2".to_owned());
        texts.push("h\\u0075n\\u200bter2-hunter2".to_owned());
        for text in texts {
            assert!(holds(text.as_bytes(), "hunter2-hunter2"), "{text:?}");
        }
    }

    #[test]
    fn html_is_read_as_browsers_read_it() {
        let secret = "p\u{e4}ssw\u{f6}rd\u{20ac}42";
        for text in [
            "it is p&auml;ssw&ouml;rd&euro;42!",
            "p\u{e4}ssw&ouml;rd&#8364;42",
            "p&aumlssw&oumlrd&euro;42",
            "p&#228ssw&#xf6rd&#128;42",
            "p\\u0026auml;ssw\\u0026ouml;rd\\u0026euro;42",
        ] {
            assert!(holds(text.as_bytes(), secret), "{text}");
        }
        for text in [
            "p&amp;ssw&ouml;rd&euro;42",
            "p&auml;ssw&ouml;rd&euro42",
            "p&aring;ssw&ouml;rd&euro;42",
        ] {
            assert!(!holds(text.as_bytes(), secret), "{text}");
        }
        // One name of two letters, and one of two characters.
        assert!(holds(b"&fjlig;ord-hunter2", "fjord-hunter2"));
        assert!(holds(
            b"a&NotEqualTilde;-hunter2",
            "a\u{2242}\u{338}-hunter2"
        ));
    }

    #[test]
    fn the_beginning_of_a_long_secret_is_found_where_a_text_was_cut() {
        let secret = "0123456789abcdef".repeat(30);
        let escaped: String = secret
            .bytes()
            .map(|byte| format!("\\u{:04x}", u32::from(byte)))
            .collect();
        let cut = &escaped.as_bytes()[..300];
        assert!(!holds(cut, &secret) && may_begin(cut, &secret));
        assert!(!may_begin(b"another text", &secret));
        // A user's name takes none of what is searched of the secret behind it.
        for user in ["u", "someone@example.com"] {
            assert!(may_begin(cut, &format!("{user}:{secret}")), "{user}");
        }
        assert!(!may_begin(b"another text", &format!("ann:{secret}")));
    }

    #[test]
    fn utf16_and_base32_are_found() {
        let units: Vec<u16> = format!("it is {SECRET}!").encode_utf16().collect();
        for bytes in [u16::to_le_bytes, u16::to_be_bytes] {
            let text: Vec<u8> = units.iter().copied().flat_map(bytes).collect();
            assert!(holds(&text, SECRET));
        }
        // RFC 4648, section 10.
        assert_eq!(base32_behind(0, b"foobar"), "MZXW6YTBO");
        for before in ["", "u", "us", "use", "user", "user:"] {
            let text = format!("{before}{SECRET}");
            let whole = base32_behind(0, format!("{text}-and-more").as_bytes());
            for form in [whole.clone(), whole.to_lowercase()] {
                assert!(holds(format!("x {form}").as_bytes(), SECRET), "{before}");
            }
            let other = base32_behind(0, text.replace('c', "C").as_bytes());
            assert!(!holds(other.as_bytes(), SECRET), "{before}");
        }
    }

    #[test]
    fn a_secret_with_hidden_characters_between_its_own_is_found() {
        for text in [
            "hun\u{200b}ter2",
            "h\u{e0041}unter\u{ad}2",
            "hunt\\u202eer2",
        ] {
            assert!(holds(text.as_bytes(), "hunter2"), "{text:?}");
        }
    }

    /// A selector and a joiner behind a letter that is not ASCII stay in what is delivered.
    #[test]
    fn hidden_characters_that_stay_do_not_hide_a_secret() {
        for (text, secret) in [
            ("p\u{e4}\u{fe0f}ss-hunter2", "p\u{e4}ss-hunter2"),
            ("\u{e4}\u{200d}\u{f6}-hunter2", "\u{e4}\u{f6}-hunter2"),
            ("\u{2764}-hunter2", "\u{2764}\u{fe0f}-hunter2"),
            (
                "\u{2764}\u{fe0f}-hun\u{200b}ter2",
                "\u{2764}\u{fe0f}-hunter2",
            ),
            ("4p2kLWh1bnRlcjI", "\u{2764}\u{fe0f}-hunter2"),
        ] {
            let stays = !text.contains('\u{200b}');
            assert_eq!(without_hidden(text).is_none(), stays, "{text:?}");
            assert!(holds(text.as_bytes(), secret), "{text:?}");
        }
    }

    /// Of a short one no other form is searched, but what the gate itself makes of a text is.
    #[test]
    fn a_short_secret_with_hidden_characters_is_found() {
        for text in ["p\u{200b}in4", "p\\u200bin4", "\\u0070in\\u00ad4"] {
            assert!(holds(text.as_bytes(), "pin4"), "{text:?}");
        }
        for text in ["%70in4", "&#112;in4", "70696e34", "cGluNA"] {
            assert!(!holds(text.as_bytes(), "pin4"), "{text:?}");
        }
    }

    #[test]
    fn the_part_behind_the_colon_of_a_pair_is_found() {
        for text in ["it is hunter2", "aHVudGVyMg", "&#104;unter2", "hunter2:ann"] {
            assert!(holds(text.as_bytes(), "ann:hunter2"), "{text}");
        }
        for text in ["ann", "hunter", "ann:"] {
            assert!(!holds(text.as_bytes(), "ann:hunter2"), "{text}");
        }
        // Shorter than six bytes, it may be a word of any text.
        assert!(holds(b"hunter", "ann:hunter") && !holds(b"hunte", "ann:hunte"));
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
            "&",
            "&;",
            "&#;",
            "&#x110000;",
            "&quot",
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
