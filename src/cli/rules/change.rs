//! Describes what would have to change so that a condition no longer holds: the nearest such value,
//! in words.

use spoolgate_rules::golden::{name_of, time_of_day};
use spoolgate_rules::rule::field::Kind;
use spoolgate_rules::rule::ranges::End;
use spoolgate_rules::rule::{Fact, Members, Ranges, Reading, Test, Value};
use spoolgate_wire::amount::Amount;

/// Maximum number of values of a list that are named.
const NAMED_MAX: usize = 5;

/// Describes what would make a condition that holds fail. `None` if there is no such value, or if
/// it does not hold.
pub(super) fn to_stop(reading: &Reading, test: &Test, fact: &Fact<'_>) -> Option<String> {
    let name = name_of(reading);
    let said = match (test, fact) {
        (Test::Number(ranges), Fact::Known(Value::Number(number))) => {
            format!("`{name}` {}", outside(reading.kind(), ranges, *number)?)
        }
        (Test::Number(ranges), Fact::Unknown(_)) => match ranges.complement().parts().first() {
            Some(_) => format!("`{name}` known and not {}", words(reading.kind(), ranges)),
            None => return None,
        },
        (Test::Number(_), _) => return None,
        (Test::Flag(wanted), _) => format!("`{name}` {}", !wanted),
        (Test::Member { of, is_in, .. } | Test::Domain { of, is_in }, _) => {
            let each = if reading.is_many() { "every " } else { "" };
            let which = match (is_in, members(of)) {
                (true, named) => format!("other than {named}"),
                (false, named) => named,
            };
            format!("{each}`{name}` {which}")
        }
        (Test::LinksNotIn(of), _) => format!("`{name}` with links to {} only", members(of)),
        (Test::Matches { pattern, wanted }, _) => {
            let which = if *wanted {
                "that does not match"
            } else {
                "that matches"
            };
            format!("`{name}` {which} /{}/", pattern.0.as_str())
        }
        (Test::Absent, _) => format!("`{name}` given"),
        (Test::Present, _) => format!("`{name}` left out"),
    };
    Some(said)
}

fn members(of: &Members) -> String {
    match of {
        Members::Named { set, .. } => format!("what the set `{}` holds", set.name),
        Members::Listed(listed) => {
            let named: Vec<String> = listed
                .iter()
                .take(NAMED_MAX)
                .map(|text| format!("\"{text}\""))
                .collect();
            let more = if listed.len() > NAMED_MAX {
                ", ..."
            } else {
                ""
            };
            format!("{}{more}", named.join(" or "))
        }
    }
}

fn number(kind: Kind, number: Amount) -> String {
    match kind {
        Kind::TimeOfDay => time_of_day(number),
        _ => number.normalized().to_string(),
    }
}

/// Describes the ranges.
fn words(kind: Kind, ranges: &Ranges) -> String {
    let part = |low: End, high: End| match (low, high) {
        (End::Open, End::Open) => "any number".to_owned(),
        (End::With(a), End::With(b)) if a == b => number(kind, a),
        (End::Open, End::With(b)) => format!("{} or less", number(kind, b)),
        (End::Open, End::Without(b)) => format!("below {}", number(kind, b)),
        (End::With(a), End::Open) => format!("{} or more", number(kind, a)),
        (End::Without(a), End::Open) => format!("above {}", number(kind, a)),
        (End::With(a) | End::Without(a), End::With(b) | End::Without(b)) => {
            format!("between {} and {}", number(kind, a), number(kind, b))
        }
    };
    let parts: Vec<String> = ranges
        .parts()
        .iter()
        .map(|range| part(range.low, range.high))
        .collect();
    parts.join(" or ")
}

/// Describes the nearest values outside the ranges, below or above `at`.
fn outside(kind: Kind, ranges: &Ranges, at: Amount) -> Option<String> {
    let range = ranges
        .parts()
        .iter()
        .find(|range| Ranges::between(range.low, range.high).holds(at))?;
    let far = |end: Amount| at.checked_sub(end).map(Amount::abs);
    let below = match range.low {
        End::Open => None,
        End::With(low) => Some((far(low), format!("below {}", number(kind, low)))),
        End::Without(low) => Some((far(low), format!("{} or less", number(kind, low)))),
    };
    let above = match range.high {
        End::Open => None,
        End::With(high) => Some((far(high), format!("above {}", number(kind, high)))),
        End::Without(high) => Some((far(high), format!("{} or more", number(kind, high)))),
    };
    match (below, above) {
        (Some((near, below)), Some((far, above))) => Some(if far < near { above } else { below }),
        (Some((_, told)), None) | (None, Some((_, told))) => Some(told),
        (None, None) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use spoolgate_rules::rule::ranges::Range;

    use super::*;

    #[test]
    fn the_nearer_side_is_named() {
        let amount = |text: &str| Amount::parse_wire(text).unwrap();
        let of = |low: End, high: End| Ranges::of(vec![Range { low, high }]);
        let decimal = Kind::Number(End::Open, End::Open);
        let told = |ranges: &Ranges, at: &str| outside(decimal, ranges, amount(at));
        let above = of(End::Without(amount("3.5")), End::Open);
        assert_eq!(told(&above, "4").unwrap(), "3.5 or less");
        assert_eq!(told(&above, "3.5"), None, "it does not hold");
        let between = of(End::With(amount("10")), End::Without(amount("20")));
        assert_eq!(told(&between, "12").unwrap(), "below 10");
        assert_eq!(told(&between, "19").unwrap(), "20 or more");
        assert_eq!(told(&Ranges::all(), "1"), None);
        let day = of(End::With(amount("1320")), End::Open);
        assert_eq!(
            outside(Kind::TimeOfDay, &day, amount("1325")).unwrap(),
            "below 22:00"
        );
    }
}
