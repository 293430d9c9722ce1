//! Hosts and mail addresses in the one form in which they are compared. If programs disagree about
//! a text, or if its letters look like others, it has no such form and is neither in nor out of any
//! set.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::borrow::Cow;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use unicode_security::RestrictionLevelDetection;
use unicode_security::confusable_detection::skeleton;
use unicode_security::restriction_level::RestrictionLevel;

/// Longest host that is examined, in bytes: four times the longest name, because a non-ASCII letter
/// has up to four bytes.
const HOST_BYTES_MAX: usize = 4 * 253;

/// ASCII characters that are not allowed in host names: all but letters, digits, `-`, `.` and `_`.
const DENIED: AsciiDenyList = AsciiDenyList::new(true, "!\"#$%&'()*+,/:;<=>?@[\\]^`{|}~");

/// Schemes whose URLs have a host however many slashes follow, and for which browsers read `\` as
/// `/`.
pub const WEB: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];

/// Normalises a bare host name or IP address: lower case, IDNA to ASCII, whole labels, no dot at
/// the end. Addresses get their usual form, whatever base their parts are written in.
pub fn name_of(host: &str) -> Option<Cow<'_, str>> {
    if let Some(inner) = host.strip_prefix('[') {
        let address: Ipv6Addr = inner.strip_suffix(']')?.parse().ok()?;
        return Some(Cow::Owned(match address.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4).to_string(),
            None => format!("[{address}]"),
        }));
    }
    if host.len() > HOST_BYTES_MAX || host.chars().any(is_hidden) {
        return None;
    }
    let name = match plain(host) {
        Some(name) => name,
        None => {
            let hyphens = Hyphens::CheckFirstLast;
            let ascii = Uts46::new().to_ascii(
                host.as_bytes(),
                DENIED,
                hyphens,
                DnsLength::VerifyAllowRootDot,
            );
            let ascii = ascii.ok()?;
            let (shown, sound) = Uts46::new().to_unicode(ascii.as_bytes(), DENIED, hyphens);
            if sound.is_err() || shown.split('.').any(looks_like_another) {
                return None;
            }
            Cow::Owned(ascii.strip_suffix('.').unwrap_or(&ascii).to_owned())
        }
    };
    if ends_in_number(&name) {
        return Some(Cow::Owned(v4_of(&name)?.to_string()));
    }
    Some(name)
}

/// Returns an ASCII name without punycode in lower case. `None` for any other name or text.
fn plain(host: &str) -> Option<Cow<'_, str>> {
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
            && !label
                .get(..4)
                .is_some_and(|head| head.eq_ignore_ascii_case("xn--"))
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    let has_upper = name.bytes().any(|byte| byte.is_ascii_uppercase());
    Some(if has_upper {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    })
}

/// Whether a character is invisible or changes the writing direction: some programs drop such
/// characters, others do not.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
                | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a label mixes alphabets or could be mistaken for an ASCII label.
fn looks_like_another(label: &str) -> bool {
    !label.is_ascii()
        && (!label.check_restriction_level(RestrictionLevel::HighlyRestrictive)
            || skeleton(label).all(|c| c.is_ascii()))
}

/// Whether browsers would take the name for an IPv4 address, or reject it.
fn ends_in_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_digits = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    is_digits
        || last
            .strip_prefix("0x")
            .is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Reads one to four numbers: decimal, octal with a `0` prefix, or hexadecimal with `0x`. The last
/// one fills the remaining bytes.
fn v4_of(name: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u64>> = name.split('.').map(number_of).collect();
    let parts = parts?;
    let (last, before) = parts.split_last()?;
    let left = 4_usize.checked_sub(before.len()).filter(|left| *left > 0)?;
    let mut bits: u64 = 0;
    for part in before {
        bits = (bits << 8) | Some(*part).filter(|part| *part < 256)?;
    }
    let width = u32::try_from(left).ok()?.checked_mul(8)?;
    let last = Some(*last).filter(|last| *last < 1_u64 << width)?;
    Some(Ipv4Addr::from_bits(
        u32::try_from((bits << width) | last).ok()?,
    ))
}

fn number_of(part: &str) -> Option<u64> {
    let (digits, radix) = match part.strip_prefix("0x") {
        Some("") => return Some(0),
        Some(hex) => (hex, 16),
        None if part.len() > 1 && part.starts_with('0') => (part, 8),
        None => (part, 10),
    };
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| is_digits)
}

/// The host in the authority of a URL, which is the part between the slashes and the path. `None`
/// if programs disagree: a backslash, more than one `@`, a `%`, or an invalid port.
pub fn host_of_authority(authority: &str) -> Option<Cow<'_, str>> {
    if authority.contains(['\\', '%']) || authority.chars().any(is_hidden) {
        return None;
    }
    let host = match authority.split_once('@') {
        Some((_, host)) if host.contains('@') => return None,
        Some((_, host)) => host,
        None => authority,
    };
    let end = if host.starts_with('[') {
        host.find(']')?.checked_add(1)?
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (host, port) = host.split_at_checked(end)?;
    let is_port = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => {
            digits.is_empty()
                || (digits.bytes().all(|byte| byte.is_ascii_digit())
                    && digits.parse::<u16>().is_ok())
        }
    };
    is_port.then(|| name_of(host)).flatten()
}

/// The host of a URL, or of a host name with or without a port.
pub fn host_of(text: &str) -> Option<Cow<'_, str>> {
    let authority = match split_scheme(text) {
        Some((scheme, rest)) if WEB.iter().any(|web| web.eq_ignore_ascii_case(scheme)) => rest
            .strip_prefix("//")
            .filter(|rest| !rest.starts_with(['/', '\\']))?,
        Some((_, rest)) if rest.starts_with("//") => rest.strip_prefix("//")?,
        // A name with a port looks like a scheme.
        Some((name, rest))
            if !(name.contains('.') || name == "localhost") || !starts_with_port(rest) =>
        {
            return None;
        }
        Some(_) => text,
        None => text.strip_prefix("//").unwrap_or(text),
    };
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    host_of_authority(authority.get(..end)?)
}

/// Splits a text into a scheme and the text after its colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some((scheme, rest))
}

fn starts_with_port(rest: &str) -> bool {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    (1..=5).contains(&digits)
        && rest
            .get(digits..)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Normalises a mail address: lower case, with its host in the form of [`name_of`]. `None` unless
/// the text is exactly one bare address: display names, comments, quotes, lists and routes (`%`,
/// `!`) mean different things to different programs.
pub fn address_of(text: &str) -> Option<String> {
    let (local, host) = split_address(text)?;
    let mut address = local.to_ascii_lowercase();
    address.push('@');
    address.push_str(&host);
    Some(address)
}

/// Splits a mail address into the part before its `@`, unchanged, and its host in the form of
/// [`name_of`]. `None` as in [`address_of`].
pub fn split_address(text: &str) -> Option<(&str, Cow<'_, str>)> {
    let (local, host) = text.split_once('@')?;
    let is_local = (1..=64).contains(&local.len())
        && local
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".!#$&'*+-/=?^_`{|}~".contains(&byte))
        && !local.contains('!')
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..");
    let name = is_local.then(|| name_of(host)).flatten()?;
    let is_name = !host.starts_with('[') && !ends_in_number(&name);
    is_name.then_some((local, name))
}

/// The domain of a mail address, or the host of a URL or host name.
pub fn domain_of(text: &str) -> Option<Cow<'_, str>> {
    if text.contains('@') && split_scheme(text).is_none() && !text.starts_with("//") {
        return split_address(text).map(|(_, host)| host);
    }
    host_of(text)
}
