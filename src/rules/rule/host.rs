//! Hosts, mail addresses and links in texts, in the one form that they are compared in.

/// The host of a host name or URL: lower case, whole labels, no port. None where it is not one, or where letters could be
/// mistaken for others: it is then neither in nor out of any set.
pub fn host_of(text: &str) -> Option<String> {
    let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = after_scheme.split(['/', '?', '#']).next()?;
    let host = authority.split(':').next()?;
    is_host(host).then(|| host.to_ascii_lowercase())
}

/// A mail address, lower case. None where it is not one alone: a display name is no address.
pub fn address_of(text: &str) -> Option<String> {
    let (local, host) = text.split_once('@')?;
    let is_local = !local.is_empty()
        && local.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;:\"@\\()[]".contains(&byte));
    let host = is_local.then(|| host_of(host)).flatten().filter(|found| found.len() == host.len())?;
    Some(format!("{}@{host}", local.to_ascii_lowercase()))
}

/// The domain of a mail address, or the host of a URL or host name.
pub fn domain_of(text: &str) -> Option<String> {
    if text.contains('@') && !text.contains("://") {
        return address_of(text).and_then(|address| address.split_once('@').map(|(_, host)| host.to_owned()));
    }
    host_of(text)
}

/// The host of every link in a text, bare `www.` too; none in place of one that cannot be told.
pub fn links_of(text: &str) -> Vec<Option<String>> {
    text.split_whitespace()
        .filter(|word| word.contains("://") || word.to_ascii_lowercase().contains("www."))
        .map(host_of)
        .collect()
}

fn is_host(host: &str) -> bool {
    host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}
