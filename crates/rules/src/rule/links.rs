//! Finds links in plain text, Markdown and HTML. Links are found even if they are written so that a
//! reader or another program would overlook them. A link whose host cannot be determined is
//! reported as such.

use std::borrow::Cow;

use super::host::{self, WEB, host_of_authority};

/// Longest authority of a link, characters. Host names have at most 253; the host of a longer
/// authority counts as undetermined.
const AUTHORITY_CHARS_MAX: usize = 300;

/// Last labels that make a bare name a link by itself, as in mail programs. Names with other
/// endings need a path, a port, a scheme or `www.`; otherwise every file name would be a link.
const ENDINGS: [&str; 60] = [
    "ai", "app", "at", "au", "be", "biz", "br", "ca", "cc", "cf", "ch", "click", "cloud", "club",
    "cn", "co", "com", "de", "dev", "dk", "edu", "es", "eu", "finance", "fr", "ga", "gg", "gov",
    "gq", "icu", "in", "info", "io", "it", "jp", "kr", "link", "live", "ly", "me", "ml", "net",
    "news", "nl", "nu", "one", "online", "org", "pro", "pw", "ru", "shop", "site", "store", "tech",
    "tk", "top", "uk", "us", "xyz",
];

/// Returns the host of every link in the form of [`host::name_of`], or `None` for a link whose host
/// cannot be determined.
pub fn links_of(text: &str) -> Vec<Option<Cow<'_, str>>> {
    let mut links = Vec::new();
    scan(text, &mut links);
    if let Some(decoded) = decoded(text) {
        let mut of_decoded = Vec::new();
        scan(&decoded, &mut of_decoded);
        links.extend(
            of_decoded
                .into_iter()
                .map(|link| link.map(|host| Cow::Owned(host.into_owned()))),
        );
    }
    links
}

/// Returns whether the text can contain a link at all. A cheap first pass.
fn may_have_links(text: &str) -> bool {
    text.bytes()
        .any(|byte| matches!(byte, b'.' | b':' | b'/' | b'\\') || byte >= 0x80)
}

fn scan<'a>(text: &'a str, links: &mut Vec<Option<Cow<'a, str>>>) {
    if !may_have_links(text) {
        return;
    }
    // Browsers treat full-width forms and other full stops like their ASCII equivalents.
    if text.chars().any(|c| narrow(c) != c) {
        let narrowed: String = text.chars().map(narrow).collect();
        let mut of_narrowed = Vec::new();
        scan_narrow(&narrowed, &mut of_narrowed);
        links.extend(
            of_narrowed
                .into_iter()
                .map(|link| link.map(|host| Cow::Owned(host.into_owned()))),
        );
    }
    scan_narrow(text, links);
}

fn narrow(c: char) -> char {
    match c {
        '\u{3002}' | '\u{ff0e}' | '\u{ff61}' => '.',
        '\u{ff01}'..='\u{ff5e}' => u32::from(c)
            .checked_sub(0xfee0)
            .and_then(char::from_u32)
            .unwrap_or(c),
        _ => c,
    }
}

fn scan_narrow<'a>(text: &'a str, links: &mut Vec<Option<Cow<'a, str>>>) {
    scan_scripts(text, links);
    // End of the path of the last link. Dotted names within a path are not links themselves.
    let mut path_end = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let found = match c {
            ':' => at_colon(text, at),
            '/' | '\\' => at_slashes(text, at, before),
            'w' | 'W' if is_boundary(before) => at_www(text, at),
            _ if at >= path_end
                && is_word(c)
                && !before.is_some_and(|c| is_word(c) || "@.-_".contains(c)) =>
            {
                at_name(text, at)
            }
            _ => None,
        };
        if let Some((start, link)) = found {
            links.push(link);
            if start < path_end {
                before = Some(c);
                continue;
            }
            let rest = text.get(start..).unwrap_or_default();
            let length = rest
                .find(|c: char| c.is_whitespace() || "\"'<>".contains(c))
                .unwrap_or(rest.len());
            path_end = path_end.max(start.saturating_add(length));
        }
        before = Some(c);
    }
}

/// Start of the link's host in the text, and the host.
type Found<'a> = (usize, Option<Cow<'a, str>>);

/// Finds a link at `scheme:`: `https://host`, also written `http:\\host` or `https:host`, and
/// schemes without a host that may do anything.
fn at_colon(text: &str, colon: usize) -> Option<Found<'_>> {
    let head = text.get(..colon)?;
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    // The schemes that matter have at most six letters; others are recognised by their slashes.
    let start = head
        .char_indices()
        .rev()
        .take(12)
        .take_while(|(_, c)| is_scheme(*c))
        .last()
        .map_or(colon, |(at, _)| at);
    let scheme = head.get(start..)?;
    let after = colon.checked_add(1)?;
    let rest = text.get(after..)?;
    let skip = |also: &[char]| {
        let length = rest
            .find(|c: char| !(matches!(c, '/' | '\\') || also.contains(&c)))
            .unwrap_or(rest.len());
        after.saturating_add(length)
    };
    let opener = head.get(..start)?.trim_end().chars().next_back();
    let is_web = WEB.iter().any(|web| {
        scheme.len() >= web.len()
            && scheme
                .get(scheme.len().saturating_sub(web.len())..)
                .is_some_and(|tail| tail.eq_ignore_ascii_case(web))
    });
    if is_web {
        let host_at = skip(&['\t', '\r', '\n']);
        let has_slash = text.get(after..host_at)?.contains(['/', '\\']);
        let next = text.get(host_at..)?.chars().next()?;
        let follows = has_slash || (host_at == after && (is_word(next) || next == '['));
        return follows.then(|| (host_at, authority_at(text, host_at, opener)));
    }
    let has = |name: &str| scheme.eq_ignore_ascii_case(name);
    if has("mailto") {
        let end = rest
            .find(|c: char| !(is_word(c) || "@.-_+%,;".contains(c)))
            .unwrap_or(rest.len());
        let domain = rest.get(..end).filter(|address| !address.is_empty())?;
        return Some((
            after,
            host::address_of(domain.trim_end_matches('.')).and_then(|address| {
                address
                    .split_once('@')
                    .map(|(_, host)| Cow::Owned(host.to_owned()))
            }),
        ));
    }
    // In ordinary sentences, a space follows the colon.
    if has("data") && rest.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, ',' | ';'))
    {
        return Some((after, None));
    }
    if has("file") && rest.starts_with(['/', '\\']) {
        return Some((after, None));
    }
    let host_at = skip(&[]);
    (rest.starts_with("//") && !scheme.is_empty())
        .then(|| (host_at, authority_at(text, host_at, opener)))
}

/// Finds `javascript:` and `vbscript:`, even with control characters between the letters, which
/// browsers drop.
fn scan_scripts<'a>(text: &'a str, links: &mut Vec<Option<Cow<'a, str>>>) {
    let kept = |c: &char| !c.is_control();
    for (at, _) in text.match_indices(':') {
        let head = text.get(..at).unwrap_or_default();
        let mut back = head.chars().rev().take(40).filter(kept);
        let is = |back: &mut dyn Iterator<Item = char>, name: &str| {
            name.chars().rev().all(|c| {
                back.next()
                    .is_some_and(|found| found.eq_ignore_ascii_case(&c))
            })
        };
        if is(&mut back, "script") {
            let rest: String = back.take(4).collect();
            let rest = rest.to_ascii_lowercase();
            if rest == "avaj" || rest.starts_with("bv") {
                links.push(None);
            }
        }
    }
}

/// Finds `//host`, `\\host` and `/\host` without a scheme.
fn at_slashes(text: &str, at: usize, before: Option<char>) -> Option<Found<'_>> {
    let second = at.checked_add(1)?;
    if !text.get(second..)?.starts_with(['/', '\\']) {
        return None;
    }
    if before.is_some_and(|c| {
        is_word(c)
            || matches!(
                c,
                '/' | '\\' | ':' | '.' | '-' | '_' | '%' | '?' | '&' | '~'
            )
    }) {
        return None;
    }
    let rest = text.get(at..)?;
    let host_at = at.checked_add(
        rest.find(|c: char| !matches!(c, '/' | '\\'))
            .unwrap_or(rest.len()),
    )?;
    let next = text.get(host_at..)?.chars().next()?;
    if next.is_whitespace() {
        return None;
    }
    let opener = text.get(..at)?.trim_end().chars().next_back();
    let link = authority_at(text, host_at, opener);
    let is_quoted = before.is_some_and(|c| matches!(c, '"' | '\'' | '=' | '(' | '<' | '`'));
    let is_sure = match &link {
        Some(host) => {
            let after = text
                .get(host_at..)?
                .get(host.len()..)
                .and_then(|rest| rest.chars().next());
            is_quoted || host.contains(['.', ':']) || after.is_some_and(|c| matches!(c, '/' | '\\'))
        }
        // Comments and patterns are not hosts; anything that could be a host is reported.
        None => {
            is_quoted || token(text, host_at, opener).contains(['.', '\u{2024}', '@', '%', '['])
        }
    };
    is_sure.then_some((host_at, link))
}

/// Finds a bare `www.`.
fn at_www(text: &str, at: usize) -> Option<Found<'_>> {
    let is_www = text
        .get(at..)?
        .get(..4)
        .is_some_and(|head| head.eq_ignore_ascii_case("www."));
    let next = text.get(at.checked_add(4)?..)?.chars().next();
    (is_www && next.is_some_and(|c| is_word(c) || !c.is_ascii()))
        .then(|| (at, authority_at(text, at, None)))
}

/// Finds a bare dotted name with a path, a port or one of [`ENDINGS`].
fn at_name(text: &str, at: usize) -> Option<Found<'_>> {
    let rest = text.get(at..)?;
    let length = rest
        .find(|c: char| !(is_word(c) || matches!(c, '.' | '-' | '_')))
        .unwrap_or(rest.len());
    let behind = rest.get(length..)?;
    let name = rest.get(..length)?.trim_end_matches('.');
    let (_, last) = name.rsplit_once('.')?;
    if name.len() > AUTHORITY_CHARS_MAX || behind.starts_with('@') {
        return None;
    }
    let is_ending = ENDINGS
        .iter()
        .any(|ending| last.eq_ignore_ascii_case(ending))
        || last
            .get(..4)
            .is_some_and(|head| head.eq_ignore_ascii_case("xn--"))
        || !last.is_ascii();
    let is_alphabetic = last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    let has_path = behind.starts_with(['/', '?', '#'])
        || behind
            .strip_prefix(':')
            .is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    (is_ending || (is_alphabetic && has_path)).then(|| {
        (
            at,
            host::name_of(name).map(|name| Cow::Owned(name.into_owned())),
        )
    })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric()
}

/// Returns whether a bare link may start after this character.
fn is_boundary(before: Option<char>) -> bool {
    !before.is_some_and(|c| is_word(c) || matches!(c, '.' | '-' | '_' | '@'))
}

/// Returns the text up to the path, to white space, or to the counterpart of the bracket or quote
/// before the link.
fn token(text: &str, at: usize, opener: Option<char>) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    let closer = match opener {
        Some('(') => ')',
        Some('[') => ']',
        Some('{') => '}',
        Some(quote @ ('"' | '\'' | '`' | '*' | '_' | '|')) => quote,
        _ => '"',
    };
    let ends = |c: char| {
        c.is_whitespace() || c == closer || matches!(c, '/' | '?' | '#' | '"' | '<' | '>')
    };
    let mut looked_at = rest
        .char_indices()
        .take(AUTHORITY_CHARS_MAX.saturating_add(1));
    let end = looked_at
        .find(|(at, c)| ends(*c) || *at > 4 * AUTHORITY_CHARS_MAX)
        .map(|(at, _)| at);
    let end = end
        .or_else(|| {
            rest.char_indices()
                .nth(AUTHORITY_CHARS_MAX)
                .map(|(at, _)| at)
        })
        .unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

/// Returns the host of the authority that starts at `at`.
fn authority_at(text: &str, at: usize, opener: Option<char>) -> Option<Cow<'_, str>> {
    let token = token(text, at, opener);
    let behind = text.get(at..)?.get(token.len()..)?.chars().next();
    // In attributes browsers drop line ends and tabs, so the host may continue after them.
    if matches!(behind, Some('\t' | '\r' | '\n'))
        && matches!(opener, Some('"' | '\'' | '=' | '`' | '(' | '<'))
    {
        return None;
    }
    let is_path = matches!(behind, Some('/' | '?' | '#'));
    let authority = if is_path {
        token
    } else {
        token.trim_end_matches(|c: char| ".,;:!?)]}'*_~|".contains(c))
    };
    if authority.is_empty() || authority.len() >= AUTHORITY_CHARS_MAX {
        return None;
    }
    host_of_authority(authority)
}

/// Returns the text with HTML character references resolved, or `None` if it has none.
fn decoded(text: &str) -> Option<String> {
    let mut rest = text;
    let mut out = String::new();
    let mut has_any = false;
    while let Some(at) = rest.find('&') {
        let (head, tail) = rest.split_at_checked(at)?;
        out.push_str(head);
        match reference(tail) {
            Some((c, length)) => {
                out.push(c);
                rest = tail.get(length..)?;
                has_any = true;
            }
            None => {
                out.push('&');
                rest = tail.get(1..)?;
            }
        }
    }
    out.push_str(rest);
    has_any.then_some(out)
}

/// Named HTML references for characters that occur in links.
const NAMED: [(&str, char); 14] = [
    ("colon;", ':'),
    ("sol;", '/'),
    ("bsol;", '\\'),
    ("period;", '.'),
    ("commat;", '@'),
    ("Tab;", '\t'),
    ("NewLine;", '\n'),
    ("amp;", '&'),
    ("quot;", '"'),
    ("apos;", '\''),
    ("lt;", '<'),
    ("gt;", '>'),
    ("nbsp;", '\u{a0}'),
    ("shy;", '\u{ad}'),
];

/// Returns the character of a reference, and the reference's length.
fn reference(text: &str) -> Option<(char, usize)> {
    let body = text.strip_prefix('&')?;
    if let Some((name, c)) = NAMED.iter().find(|(name, _)| body.starts_with(name)) {
        return Some((*c, name.len().checked_add(1)?));
    }
    let number = body.strip_prefix('#')?;
    let (digits, radix, head) = match number.strip_prefix(['x', 'X']) {
        Some(hex) => (hex, 16, 3_usize),
        None => (number, 10, 2),
    };
    let length = digits
        .bytes()
        .take_while(|byte| char::from(*byte).is_digit(radix))
        .count();
    let value = u32::from_str_radix(digits.get(..length)?.trim_start_matches('0'), radix).ok()?;
    let semicolon = usize::from(digits.get(length..)?.starts_with(';'));
    Some((
        char::from_u32(value)?,
        head.checked_add(length)?.checked_add(semicolon)?,
    ))
}
