//! Fields: what a rule may read, and how its values are compared. `table.rs` has the list.

use std::borrow::Cow;
use std::fmt;

use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;

use super::historic;
use super::ranges::{End, Range};
use super::registry::Registry;
pub use super::table::{FIELDS, Id, RULED_ACTIONS, WEEKDAYS};
use super::table::{RENAMED, USUAL};

/// The last minute of a day.
pub const LAST_MINUTE: i64 = 1439;

/// What the values of a field are, and how they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A decimal number between these ends. A fact outside them counts as unknown.
    Number(End, End),
    /// A whole number between these bounds, inclusive.
    Whole(i64, i64),
    /// Minutes since 00:00 UTC; `in` and `not_in` take windows such as `22:00-06:00`.
    TimeOfDay,
    /// One of these words, compared letter by letter.
    Word(&'static [&'static str]),
    /// A name or id, compared letter by letter. The registry has the names that exist.
    Name(Registry),
    /// A text, compared without regard to case.
    Text,
    /// A host name, or a URL, of which only the host counts.
    Host,
    /// A mail address.
    Address,
    /// True or false.
    Flag,
}

/// Why a fact may have no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It always has a value.
    Never,
    /// The request may leave it out.
    Absent,
    /// It may not be known: its source is missing, old, or out of range.
    Unknown,
}

/// A field that rules may read.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Its identity in code.
    pub id: Id,
    /// Its name, without the `[]` of arrays.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Its unit, for readers.
    pub unit: &'static str,
    /// Its meaning, for readers.
    pub meaning: &'static str,
    /// Whether it is an array. Conditions on arrays name `field[]` and hold if any element
    /// satisfies them.
    pub is_many: bool,
    /// Why it may have no value.
    pub missing: Missing,
    /// Actions whose requests have it; empty if all ruled actions have it.
    pub actions: &'static [ActionName],
}

/// What a condition reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A field.
    Field(&'static Field),
    /// Whether the sender never had a request of this action accepted with this value of the field.
    FirstSeen(&'static Field),
    /// Number of the sender's requests of this action that were accepted within the window
    /// before this one.
    Count {
        /// The window, seconds.
        window_s: u32,
    },
    /// Sum of a field over this request and those accepted within the window before it.
    Sum {
        /// The field.
        of: &'static Field,
        /// The window, seconds.
        window_s: u32,
    },
    /// Number of distinct values of a field in this request and those accepted within the
    /// window before it.
    Distinct {
        /// The field.
        of: &'static Field,
        /// The window, seconds.
        window_s: u32,
    },
}

impl Field {
    /// Whether requests of this action have it.
    pub fn is_of(&self, action: &str) -> bool {
        self.actions.is_empty() || self.actions.iter().any(|name| *action == *name)
    }

    /// Returns the present name of a field that only rules of earlier versions name.
    pub fn renamed(&self) -> Option<&'static str> {
        let mut renamed = RENAMED.iter();
        renamed
            .find(|(id, _)| *id == self.id)
            .map(|(_, name)| *name)
    }

    /// Returns up to which absolute value its numbers are usual.
    pub fn usual(&self) -> Option<Amount> {
        let (_, most) = USUAL.iter().find(|(id, _)| *id == self.id)?;
        Amount::parse_wire(most).ok()
    }

    /// Returns whether a history is kept of it, for any of its actions.
    pub fn has_history(&self) -> bool {
        let mut actions = self.actions.iter();
        actions.any(|action| historic::is_kept(action.as_str(), self.name))
    }

    /// Returns whether it is a number that is never below 0.
    pub fn is_never_negative(&self) -> bool {
        matches!(self.kind, Kind::Number(End::With(low) | End::Without(low), _) if low >= Amount::ZERO)
    }
}

impl Reading {
    /// Returns what its values are.
    pub fn kind(&self) -> Kind {
        match self {
            Reading::Field(field) => field.kind,
            Reading::FirstSeen(_) => Kind::Flag,
            Reading::Count { .. } => Kind::Whole(0, i64::MAX),
            Reading::Distinct { of, .. } => {
                // The value of the request itself counts; an optional field or an array may have
                // none.
                let has_own = of.missing != Missing::Absent && !of.is_many;
                Kind::Whole(i64::from(has_own), i64::MAX)
            }
            Reading::Sum { of, .. } => {
                // An optional field may have no addend at all.
                let low = match of.kind {
                    _ if !of.is_never_negative() => End::Open,
                    Kind::Number(low, _) if of.missing != Missing::Absent => low,
                    _ => End::With(Amount::ZERO),
                };
                Kind::Number(low, End::Open)
            }
        }
    }

    /// Returns whether it reads an array, so that a condition holds if any element satisfies it.
    pub fn is_many(&self) -> bool {
        matches!(self, Reading::Field(field) if field.is_many)
    }
}

/// Returns whether some rule may read a fact of this name, as [`Reading`] displays it: a field (an
/// array with `[]`), or the past of a field, such as `history.count(3600s)`.
pub fn is_fact(name: &str) -> bool {
    let of = |name: &str| find(name).is_some_and(Field::has_history);
    let is_window = |text: &str| {
        let seconds = text.strip_suffix('s').and_then(|text| text.parse().ok());
        seconds.is_some_and(|seconds: u32| seconds > 0 && format!("{seconds}s") == text)
    };
    let is_of_past = |inside: &str| {
        let parts = inside.split_once(", ");
        parts.is_some_and(|(field, window)| of(field) && is_window(window))
    };
    let inside = |prefix: &str| name.strip_prefix(prefix)?.strip_suffix(')');
    let field = find(name.strip_suffix("[]").unwrap_or(name));
    field.is_some_and(|field| field.written() == name)
        || inside("history.count(").is_some_and(is_window)
        || inside("history.sum(").is_some_and(is_of_past)
        || inside("history.distinct(").is_some_and(is_of_past)
        || inside("first_seen(").is_some_and(of)
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Field(field) => f.write_str(field.name),
            Reading::FirstSeen(field) => write!(f, "first_seen({})", field.name),
            Reading::Count { window_s } => write!(f, "history.count({window_s}s)"),
            Reading::Sum { of, window_s } => write!(f, "history.sum({}, {window_s}s)", of.name),
            Reading::Distinct { of, window_s } => {
                write!(f, "history.distinct({}, {window_s}s)", of.name)
            }
        }
    }
}

impl Kind {
    /// Returns the text in the form in which it is compared, or `None` if it is not of this kind
    /// and cannot be compared.
    pub fn fold<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Kind::Word(_) | Kind::Name(_) => Some(Cow::Borrowed(text)),
            Kind::Text
                if text
                    .bytes()
                    .any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) =>
            {
                Some(Cow::Owned(text.to_lowercase()))
            }
            Kind::Text => Some(Cow::Borrowed(text)),
            Kind::Host => super::host::host_of(text),
            Kind::Address => super::host::address_of(text).map(Cow::Owned),
            Kind::Number(..) | Kind::Whole(..) | Kind::TimeOfDay | Kind::Flag => None,
        }
    }

    /// Returns a value of a set or list in the form in which texts are compared with it. A URL is
    /// not valid as a host entry, because its path would be ignored.
    pub fn entry<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Kind::Host => super::host::name_of(text),
            _ => self.fold(text),
        }
    }

    /// Returns the ends of its numbers; open if it has no numbers.
    pub fn ends(&self) -> Range {
        let whole = |low, high| Range {
            low: End::With(Amount::from_i64(low)),
            high: End::With(Amount::from_i64(high)),
        };
        match self {
            Kind::Number(low, high) => Range {
                low: *low,
                high: *high,
            },
            Kind::Whole(low, high) => whole(*low, *high),
            Kind::TimeOfDay => whole(0, LAST_MINUTE),
            Kind::Word(_)
            | Kind::Name(_)
            | Kind::Text
            | Kind::Host
            | Kind::Address
            | Kind::Flag => Range {
                low: End::Open,
                high: End::Open,
            },
        }
    }

    /// Returns whether its values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(self, Kind::Number(..) | Kind::Whole(..) | Kind::TimeOfDay)
    }
}

/// Returns the names that conditions may read.
pub fn known() -> impl Iterator<Item = &'static str> {
    let fields = FIELDS.iter().filter(|field| field.renamed().is_none());
    let history = ["history.count", "history.sum", "history.distinct"];
    fields.map(|field| field.name).chain(history)
}

/// Returns the field of this name.
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

impl Field {
    /// Returns its name as conditions write it, with `[]` if it is an array.
    pub fn written(&self) -> String {
        if self.is_many {
            format!("{}[]", self.name)
        } else {
            self.name.to_owned()
        }
    }
}

/// Returns the table of fields as it is in `docs/rules.md`.
pub fn markdown() -> String {
    let mut table = String::from(
        "| field | of | values | unit | may be missing | history | meaning |\n\
            |---|---|---|---|---|---|---|\n",
    );
    for field in FIELDS.iter().filter(|field| field.renamed().is_none()) {
        let actions = if field.actions.is_empty() {
            vec!["every action"]
        } else {
            field.actions.iter().map(|name| name.as_str()).collect()
        };
        let missing = match field.missing {
            Missing::Never => "no",
            Missing::Absent => "left out",
            Missing::Unknown => "unknown",
        };
        let (written, values) = (field.written(), field.kind);
        let history = if field.has_history() { "yes" } else { "no" };
        let Field { unit, meaning, .. } = field;
        table.push_str(&format!(
            "| `{written}` | {} | {values} | {unit} | {missing} | {history} | {meaning} |\n",
            actions.join(", ")
        ));
    }
    table
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Number(low, high) => {
                f.write_str("number")?;
                match low {
                    End::Open => {}
                    End::With(low) => write!(f, " from {low}")?,
                    End::Without(low) => write!(f, " above {low}")?,
                }
                match high {
                    End::Open => Ok(()),
                    End::With(high) => write!(f, " to {high}"),
                    End::Without(high) => write!(f, " below {high}"),
                }
            }
            Kind::Whole(i64::MIN, i64::MAX) => f.write_str("whole number"),
            Kind::Whole(from, i64::MAX) => write!(f, "whole number from {from}"),
            Kind::Whole(from, to) => write!(f, "whole number from {from} to {to}"),
            Kind::TimeOfDay => f.write_str("time of day"),
            Kind::Name(_) => f.write_str("name"),
            Kind::Word(known) => f.write_str(&known.join(", ")),
            Kind::Text => f.write_str("text"),
            Kind::Host => f.write_str("host"),
            Kind::Address => f.write_str("mail address"),
            Kind::Flag => f.write_str("true or false"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../../docs/rules.md");
        assert!(
            docs.contains(&markdown()),
            "docs/rules.md should hold:\n{}",
            markdown()
        );
    }

    #[test]
    fn names_are_unique_and_belong_to_ruled_actions() {
        let names: BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
        assert_eq!(names.len(), FIELDS.len());
        for field in FIELDS {
            assert_eq!(find(field.name), Some(field));
            assert!(
                field
                    .actions
                    .iter()
                    .all(|name| ActionName::RULED.contains(name)),
                "{}",
                field.name
            );
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
            assert!(
                field.name.chars().all(is_plain) && field.name.contains('.'),
                "{}",
                field.name
            );
            assert!(
                !field.meaning.is_empty() && !field.meaning.contains('|'),
                "{}",
                field.name
            );
        }
        assert_eq!(
            RULED_ACTIONS.iter().collect::<BTreeSet<_>>().len(),
            RULED_ACTIONS.len()
        );
    }
}
