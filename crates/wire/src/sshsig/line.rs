//! One line of the list of signers.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{ED25519, FIDO, Key, Signer};
use crate::text::is_printable;
use crate::time::Time;

/// Longest identity, in characters.
const IDENTITY_CHARS_MAX: usize = 200;

/// What is wrong with a line of the list. Texts are without control characters, and truncated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignerFault {
    /// A member of the line is missing, or a quote around one is not closed.
    #[error("it ends too early")]
    Short,
    /// The identity is a list, a pattern or quoted, or is not printable.
    #[error(
        "`{0}` is not one identity: write one for each line, such as ann@example.org, without \
            commas, quotes, `*`, `?` and `!`"
    )]
    Identity(String),
    /// The key is not one in base64, or not of the type that its line names.
    #[error("the key cannot be read")]
    Key,
    /// An earlier line has the key for this identity.
    #[error("its key is the key of `{0}`, too; a key has one identity")]
    SharedKey(String),
    /// An option is given twice.
    #[error("option `{0}` is given twice")]
    Twice(String),
    /// The value of an option is not in quotes, or something follows it.
    #[error("write options as name=\"value\", with commas between them")]
    Quotes,
    /// An option that this program does not know.
    #[error("unknown option `{0}`")]
    UnknownOption(String),
    /// The key may certify other keys.
    #[error("certificates are not accepted: name the key itself")]
    Certificate,
    /// The value of an option is not a time.
    #[error("`{0}` is not a time such as 20270101 or 202701011200Z")]
    Time(String),
    /// The key is never valid.
    #[error("`valid-before` is not after `valid-after`")]
    Never,
}

/// Reads a line: identity, options if there are any, type of key, key, comment. The inner `Err` is
/// the type of a key that does not count.
pub(super) fn signer(line: &str) -> Result<Result<Signer, String>, SignerFault> {
    let (identity, rest) = word(line)?;
    let is_plain = |c: char| is_printable(c) && !" ,*?!\"".contains(c);
    if !identity.chars().all(is_plain) || identity.chars().count() > IDENTITY_CHARS_MAX {
        return Err(SignerFault::Identity(short(identity)));
    }
    let (next, after) = word(rest)?;
    let (options, key_type, rest) = if is_key_type(next) {
        (None, next, after)
    } else {
        let (key_type, after) = word(after)?;
        (Some(next), key_type, after)
    };
    let mut signer = Signer {
        identity: identity.to_owned(),
        namespaces: None,
        valid_after: None,
        valid_before: None,
        key: Key {
            point: [0; 32],
            application: None,
        },
    };
    if let Some(options) = options {
        read_options(options, &mut signer)?;
    }
    if key_type != ED25519 && key_type != FIDO {
        return if is_key_type(key_type) {
            Ok(Err(short(key_type)))
        } else {
            Err(SignerFault::Key)
        };
    }
    let (text, _) = word(rest)?;
    let blob = STANDARD.decode(text).ok();
    signer.key = blob
        .and_then(|blob| Key::read(&blob))
        .filter(|key| key.key_type() == key_type)
        .ok_or(SignerFault::Key)?;
    Ok(Ok(signer))
}

/// Reads options by the rules of ssh: `name="value"` with `\"` for a quote, and commas between.
fn read_options(mut text: &str, signer: &mut Signer) -> Result<(), SignerFault> {
    let mut named = BTreeSet::new();
    loop {
        let end = text.find(['=', ',']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "namespaces" | "valid-after" | "valid-before" => {}
            "cert-authority" => return Err(SignerFault::Certificate),
            _ => return Err(SignerFault::UnknownOption(short(name))),
        }
        let (value, rest) = rest
            .strip_prefix("=\"")
            .and_then(quoted)
            .ok_or(SignerFault::Quotes)?;
        match lower.as_str() {
            "valid-after" => signer.valid_after = Some(time(&value)?),
            "valid-before" => signer.valid_before = Some(time(&value)?),
            _ => signer.namespaces = Some(value.split(',').map(str::to_owned).collect()),
        }
        if !named.insert(lower) {
            return Err(SignerFault::Twice(short(name)));
        }
        if rest.is_empty() {
            break;
        }
        text = rest.strip_prefix(',').ok_or(SignerFault::Quotes)?;
    }
    if let (Some(after), Some(before)) = (signer.valid_after, signer.valid_before)
        && before <= after
    {
        return Err(SignerFault::Never);
    }
    Ok(())
}

/// Returns the text up to the next quote that has no backslash before it, and what follows the
/// quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' if chars.as_str().starts_with('"') => value.extend(chars.next()),
            c => value.push(c),
        }
    }
}

fn short(text: &str) -> String {
    text.chars()
        .filter(|c| is_printable(*c))
        .take(IDENTITY_CHARS_MAX)
        .collect()
}

fn is_key_type(word: &str) -> bool {
    ["ssh-", "ecdsa-", "sk-"]
        .iter()
        .any(|start| word.starts_with(start))
}

/// Returns the first word and the rest; blanks between quotes belong to the word, and a quote behind
/// a backslash is not a quote.
fn word(text: &str) -> Result<(&str, &str), SignerFault> {
    let text = text.trim_start_matches([' ', '\t']);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' if !is_escaped => is_quoted = !is_quoted,
            ' ' | '\t' if !is_quoted => return Ok(text.split_at(at)),
            _ => {}
        }
        is_escaped = c == '\\';
    }
    if is_quoted || text.is_empty() {
        Err(SignerFault::Short)
    } else {
        Ok((text, ""))
    }
}

/// Reads `YYYYMMDD`, `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, with or without `Z`: UTC in both cases.
fn time(text: &str) -> Result<Time, SignerFault> {
    let fail = || SignerFault::Time(short(text));
    let digits = text.strip_suffix('Z').unwrap_or(text);
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) || !matches!(digits.len(), 8 | 12 | 14) {
        return Err(fail());
    }
    let filled = format!("{digits:0<14}");
    let part = |from: usize, to: usize| filled.get(from..to).unwrap_or_default();
    let (date, clock) = (
        format!("{}-{}-{}", part(0, 4), part(4, 6), part(6, 8)),
        format!("{}:{}:{}", part(8, 10), part(10, 12), part(12, 14)),
    );
    // For ssh, 0 seconds and less are not a time.
    let time = Time::parse(&format!("{date}T{clock}Z")).ok();
    time.filter(|time| *time > Time::EPOCH).ok_or_else(fail)
}

/// Whether a pattern with `*` and `?` matches, by the rules of ssh.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // The last star in the pattern, and the position in the text up to which it matches.
    let (mut p, mut t) = (0_usize, 0_usize);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p = p.saturating_add(1);
            }
            Some(byte) if *byte == b'?' || text.get(t) == Some(byte) => {
                p = p.saturating_add(1);
                t = t.saturating_add(1);
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken = taken.saturating_add(1);
                    (p, t) = (at.saturating_add(1), *taken);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}
