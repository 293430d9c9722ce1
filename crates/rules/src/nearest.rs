//! "Did you mean": the name that is nearest to one that does not exist.

/// Most letters that may be wrong.
const DISTANCE_MAX: usize = 2;

/// Shortest name that may stand for a longer one that begins with it.
const BEGINNING_MIN: usize = 3;

/// Returns the nearest of the known names: the same but for case, or at most two letters apart, or
/// one that begins like it. Of several, returns the first in the order given.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    let mut best: Option<(usize, &str)> = None;
    for candidate in known {
        let other = candidate.to_lowercase();
        let shorter = lower.chars().count().min(other.chars().count());
        let apart = strsim::osa_distance(&lower, &other);
        let begins = shorter >= BEGINNING_MIN
            && (lower.starts_with(other.as_str()) || other.starts_with(lower.as_str()));
        // If every letter of a short name may be wrong, any name is near.
        let distance = if apart <= DISTANCE_MAX && apart < shorter {
            apart
        } else if begins {
            DISTANCE_MAX + 1
        } else {
            continue;
        };
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, name)| name)
}

/// Returns the end of a message about a name that does not exist: the nearest one, or else
/// `otherwise`.
pub fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    nearest(name, known).map_or_else(
        || otherwise.to_owned(),
        |near| format!("; did you mean `{near}`?"),
    )
}

/// Most names that a message lists.
const LISTED_MAX: usize = 8;

/// Most names that are compared with one that does not exist; a rulebook may have any number.
const COMPARED_MAX: usize = 1000;

/// Returns the end of a message about a name that does not exist: the known names, the nearest ones
/// first and at most `LISTED_MAX`, or else that there is no such thing, which is a `kind`.
pub fn there_are<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, kind: &str) -> String {
    let lower = name.to_lowercase();
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_unstable();
    known.dedup();
    let compared = known.len().min(COMPARED_MAX);
    if let Some(compared) = known.get_mut(..compared) {
        compared.sort_by_key(|other| strsim::osa_distance(&lower, &other.to_lowercase()));
    }
    let listed = known.iter().take(LISTED_MAX);
    let listed: Vec<String> = listed.map(|name| format!("`{name}`")).collect();
    match known.len().checked_sub(LISTED_MAX) {
        _ if listed.is_empty() => format!("; there is no {kind}"),
        Some(more @ 1..) => format!("; there are: {} and {more} more", listed.join(", ")),
        Some(0) | None => format!("; there are: {}", listed.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_eight_names_are_listed_and_the_nearest_first() {
        let names: Vec<String> = (10..19).map(|n| format!("s-{n}")).collect();
        let first = |many: usize| names.iter().take(many).map(String::as_str);
        assert_eq!(
            there_are("s-1", first(0), "strategy"),
            "; there is no strategy"
        );
        assert_eq!(
            there_are("S-11", first(2), "strategy"),
            "; there are: `s-11`, `s-10`"
        );
        let eight = there_are("s-17", first(8), "strategy");
        assert!(eight.starts_with("; there are: `s-17`, `s-10`,") && eight.ends_with("`s-16`"));
        assert!(there_are("s-17", first(9), "strategy").ends_with("`s-16` and 1 more"));
    }

    #[test]
    fn two_wrong_letters_are_near_and_three_are_not() {
        let known = ["order.submit", "email.send", "BTC-USD", "fri", "reject"];
        for (name, near) in [
            ("order.sumbit", Some("order.submit")),
            ("order.sumbi", Some("order.submit")),
            ("ordr.sumbi", None),
            ("btc-usd", Some("BTC-USD")),
            ("Friday", Some("fri")),
            ("deny", None),
            ("emial.sned", Some("email.send")),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(nearest("a", ["b"]), None, "every letter of it is wrong");
        assert_eq!(nearest("ab", ["ac"]), Some("ac"));
        assert_eq!(nearest("bot", ["boy", "bots", "bot-2"]), Some("boy"));
    }
}
