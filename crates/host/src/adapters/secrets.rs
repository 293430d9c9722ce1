//! Finds out whether a text contains a secret, as it is or in one of the forms in which programs
//! write text. This catches accidental leaks; a program that wants to hide a secret in a text can
//! use a form that is not searched.

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use memchr::memmem::Finder;
use spoolgate_wire::text::without_hidden;

/// Shorter secrets are searched only as they are: their encoded forms appear in any text.
const OTHER_FORMS_FROM_BYTES: usize = 6;
/// How much of the beginning of a secret is searched in a text that was cut, characters.
const BEGINNING_CHARS: usize = 12;
/// How often a text is unescaped: JSON in a JSON string, nested.
const UNESCAPED_TIMES: usize = 4;

/// Whether `text` contains `secret`, or the part of a pair `user:secret` behind the colon: as it is;
/// JSON-escaped, also inside nested strings; with hidden characters in between; percent-encoded; with HTML entities; as UTF-16; in hex;
/// in base32, and in base64 of either alphabet, also in the middle of something longer.
pub(super) fn holds(text: &[u8], secret: &str) -> bool {
    let behind = secret.split_once(':').map(|(_, behind)| behind.trim());
    // A short part is a word of any text.
    let behind = behind.filter(|behind| behind.len() >= OTHER_FORMS_FROM_BYTES);
    holds_one(text, secret) || behind.is_some_and(|behind| holds_one(text, behind))
}

fn holds_one(text: &[u8], secret: &str) -> bool {
    let secret = secret.trim();
    if secret.is_empty() {
        return false;
    }
    let raw = Finder::new(secret);
    if secret.len() < OTHER_FORMS_FROM_BYTES {
        return raw.find(text).is_some();
    }
    let forms = Forms::of(secret);
    let masked = (!secret.is_ascii()).then(|| without_names(secret));
    let is_named = |text: &[u8]| {
        let masked = masked.as_ref();
        masked.is_some_and(|secret| without_names(&String::from_utf8_lossy(text)).contains(secret))
    };
    let is_in = |text: &[u8]| raw.find(text).is_some() || forms.are_in(text);
    // The gate removes hidden characters after this search: what is left counts too, at every step.
    let with_visible = |text: Vec<u8>| {
        let visible = without_hidden(&String::from_utf8_lossy(&text));
        let visible = visible.map(|(visible, _)| visible.into_bytes());
        [Some(text), visible].into_iter().flatten()
    };
    let mut texts: Vec<Vec<u8>> = with_visible(text.to_vec()).collect();
    for _ in 0..=UNESCAPED_TIMES {
        for text in &texts {
            let page = decoded(text, b'&', entity);
            let is_page = page.len() != text.len();
            let mut pages = [decoded(text, b'%', percent), page]
                .into_iter()
                .flat_map(with_visible);
            if is_in(text) || pages.any(|text| is_in(&text) || is_page && is_named(&text)) {
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

/// A text with [`NOT_ASCII`] for every character that HTML may have written by its name.
fn without_names(text: &str) -> String {
    let named = |c: char| if c.is_ascii() { c } else { NOT_ASCII };
    text.chars().map(named).collect()
}

/// Whether a text that was cut may hold the beginning of a secret: a longer form of it than the text
/// has room for.
pub(super) fn may_begin(text: &[u8], secret: &str) -> bool {
    let beginning: String = secret.trim().chars().take(BEGINNING_CHARS).collect();
    holds(text, &beginning)
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

/// The ASCII characters that HTML names, but for those that also need no semicolon.
const NAMED: [(&str, char); 37] = [
    ("Tab", '\t'),
    ("NewLine", '\n'),
    ("excl", '!'),
    ("num", '#'),
    ("dollar", '$'),
    ("percnt", '%'),
    ("apos", '\''),
    ("lpar", '('),
    ("rpar", ')'),
    ("ast", '*'),
    ("midast", '*'),
    ("plus", '+'),
    ("comma", ','),
    ("period", '.'),
    ("sol", '/'),
    ("colon", ':'),
    ("semi", ';'),
    ("equals", '='),
    ("quest", '?'),
    ("commat", '@'),
    ("lsqb", '['),
    ("lbrack", '['),
    ("bsol", '\\'),
    ("rsqb", ']'),
    ("rbrack", ']'),
    ("Hat", '^'),
    ("lowbar", '_'),
    ("UnderBar", '_'),
    ("grave", '`'),
    ("DiacriticalGrave", '`'),
    ("lcub", '{'),
    ("lbrace", '{'),
    ("verbar", '|'),
    ("vert", '|'),
    ("VerticalLine", '|'),
    ("rcub", '}'),
    ("rbrace", '}'),
];
/// Those that need none.
const BARE: [(&str, char); 8] = [
    ("amp", '&'),
    ("AMP", '&'),
    ("lt", '<'),
    ("LT", '<'),
    ("gt", '>'),
    ("GT", '>'),
    ("quot", '"'),
    ("QUOT", '"'),
];

/// Stands for any character that HTML names and that is not ASCII: there are two thousand names.
const NOT_ASCII: char = '\u{fffd}';

/// Reads the name or number of an HTML entity, and its semicolon if there is one.
fn entity(text: &[u8]) -> Option<Sequence> {
    let with_semicolon = |length: usize| {
        let has_one = text.get(length) == Some(&b';');
        length.saturating_add(usize::from(has_one))
    };
    let (letter, read) = if let Some(number) = text.strip_prefix(b"#") {
        let (number, radix, start) = match number {
            [b'x' | b'X', digits @ ..] => (digits, 16, 2),
            digits => (digits, 10, 1),
        };
        let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
        let length = number.iter().take_while(is_digit).count();
        let digits = std::str::from_utf8(number.get(..length)?).ok()?;
        let letter = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
        (letter, with_semicolon(length.saturating_add(start)))
    } else {
        let named = |(name, letter): &(&str, char)| {
            let is_it = text.starts_with(name.as_bytes()) && text.get(name.len()) == Some(&b';');
            is_it.then_some((*letter, name.len().saturating_add(1)))
        };
        let bare = |(name, letter): &(&str, char)| {
            let is_it = text.starts_with(name.as_bytes());
            is_it.then(|| (*letter, with_semicolon(name.len())))
        };
        let other = || {
            let length = text
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric())
                .count();
            let is_name = text.first()?.is_ascii_alphabetic() && text.get(length) == Some(&b';');
            is_name.then_some((NOT_ASCII, length.saturating_add(1)))
        };
        NAMED
            .iter()
            .find_map(named)
            .or_else(|| BARE.iter().find_map(bare))
            .or_else(other)?
    };
    Some((letter.to_string().into_bytes(), read))
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
        texts.push("%68un%E2%80%8Bter2-hunter2".to_owned());
        texts.push("&#104;un&#x200b;ter2-hunter2".to_owned());
        texts.push("h\\u0075n\\u200bter2-hunter2".to_owned());
        for text in texts {
            assert!(holds(text.as_bytes(), "hunter2-hunter2"), "{text:?}");
        }
    }

    #[test]
    fn every_name_of_a_letter_is_found() {
        let secret = "p\u{e4}ssw\u{f6}rd\u{20ac}42";
        assert!(holds(b"it is p&auml;ssw&ouml;rd&euro;42!", secret));
        assert!(holds("p\u{e4}ssw&ouml;rd&#8364;42".as_bytes(), secret));
        assert!(!holds(b"p&amp;ssw&ouml;rd&euro;42", secret));
        assert!(!holds("p\u{e5}ssw\u{f6}rd\u{20ac}42".as_bytes(), secret));
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
