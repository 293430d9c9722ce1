//! How a value of a rule file may move: each kind of key has one function, and
//! [`directed`](crate::review::directed) gives each key of a struct one of them.

use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use crate::rule::table::Id;

/// Most members of a list that a move shows.
const SHOWN_MAX: usize = 8;

/// What a move does to the requests that come after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// None is treated more leniently.
    Tighter,
    /// Nobody proved that none is treated more leniently: a change for people.
    Open,
    /// Some may be treated more leniently.
    Looser,
}

/// A changed key of a rule file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Move {
    /// Path of the file below a home.
    pub file: String,
    /// The key and what became of it, in words.
    pub what: String,
    /// What it does.
    pub way: Way,
    /// Fields of rules that are computed with it.
    #[serde(skip)]
    pub feeds: &'static [Id],
}

/// The moves of one file.
#[derive(Debug)]
pub(super) struct Moves<'a> {
    file: &'a str,
    /// Keys that lead to the part that is compared.
    within: String,
    pub(super) found: Vec<Move>,
}

impl<'a> Moves<'a> {
    /// Begins with the moves of a file.
    pub(super) fn of(file: &'a str) -> Moves<'a> {
        Moves {
            file,
            within: String::new(),
            found: Vec::new(),
        }
    }

    /// Adds a move.
    pub(super) fn add(&mut self, what: impl Display, way: Way, feeds: &'static [Id]) {
        self.found.push(Move {
            file: self.file.to_owned(),
            what: format!("{}{what}", self.within),
            way,
            feeds,
        });
    }

    /// Compares a part, whose keys are shown after its name.
    pub(super) fn within(&mut self, part: impl Display, compare: impl FnOnce(&mut Moves<'a>)) {
        let outer = self.within.len();
        // Writing to a string does not fail.
        let _ = write!(self.within, "{part}.");
        compare(self);
        self.within.truncate(outer);
    }

    /// Two values of a key in an order in which smaller is tighter.
    fn ordered<T: Display>(&mut self, key: Key, old: &T, new: &T, is_tighter: bool) {
        let way = if is_tighter {
            Way::Tighter
        } else {
            Way::Looser
        };
        self.add(format!("{} {old} -> {new}", key.name), way, key.feeds);
    }
}

/// A key that is compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Its name.
    pub name: &'static str,
    /// Fields of rules that are computed with it.
    pub feeds: &'static [Id],
}

/// Smaller is tighter.
pub(super) fn down<T: PartialOrd + Display>(moves: &mut Moves<'_>, key: Key, old: &T, new: &T) {
    if old != new {
        moves.ordered(key, old, new, new < old);
    }
}

/// Larger is tighter.
pub(super) fn up<T: PartialOrd + Display>(moves: &mut Moves<'_>, key: Key, old: &T, new: &T) {
    if old != new {
        moves.ordered(key, old, new, new > old);
    }
}

/// Smaller is tighter, and a key that is absent limits nothing.
pub(super) fn down_or_none<T: PartialOrd + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<T>,
    new: &Option<T>,
) {
    limit(moves, key, old, new, |old, new| new < old);
}

/// Larger is tighter, and a key that is absent limits nothing.
pub(super) fn up_or_none<T: PartialOrd + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<T>,
    new: &Option<T>,
) {
    limit(moves, key, old, new, |old, new| new > old);
}

fn limit<T: PartialOrd + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<T>,
    new: &Option<T>,
    is_tighter: impl FnOnce(&T, &T) -> bool,
) {
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            moves.ordered(key, old, new, is_tighter(old, new));
        }
        (None, Some(new)) => moves.ordered(key, &"absent", &&*new.to_string(), true),
        (Some(old), None) => moves.ordered(key, &&*old.to_string(), &"absent", false),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// Smaller is tighter, and a key that is absent allows nothing.
pub(super) fn down_to_none<T: PartialOrd + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<T>,
    new: &Option<T>,
) {
    match (old, new) {
        (Some(old), Some(new)) if old != new => moves.ordered(key, old, new, new < old),
        (None, Some(new)) => moves.ordered(key, &"absent", &&*new.to_string(), false),
        (Some(old), None) => moves.ordered(key, &&*old.to_string(), &"absent", true),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// Fewer members are tighter.
pub(super) fn subset<T: Ord + Display>(moves: &mut Moves<'_>, key: Key, old: &[T], new: &[T]) {
    members(moves, key, (old, new), Way::Tighter, Way::Looser);
}

/// More members are tighter.
pub(super) fn superset<T: Ord + Display>(moves: &mut Moves<'_>, key: Key, old: &[T], new: &[T]) {
    members(moves, key, (old, new), Way::Looser, Way::Tighter);
}

/// Fewer members are tighter, and a list that is absent has all of them.
pub(super) fn subset_or_all<T: Ord + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
) {
    match (old, new) {
        (Some(old), Some(new)) => subset(moves, key, old, new),
        (None, Some(_)) => moves.ordered(key, &"absent", &"a list", true),
        (Some(_), None) => moves.ordered(key, &"a list", &"absent", false),
        (None, None) => {}
    }
}

/// More members are tighter, and a list that is absent has none.
pub(super) fn superset_or_none<T: Ord + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    old: &Option<Vec<T>>,
    new: &Option<Vec<T>>,
) {
    let [old, new] = [old, new].map(|list| list.as_deref().unwrap_or_default());
    superset(moves, key, old, new);
}

fn members<T: Ord + Display>(
    moves: &mut Moves<'_>,
    key: Key,
    (old, new): (&[T], &[T]),
    lost: Way,
    won: Way,
) {
    let [old, new] = [old, new].map(|list| list.iter().collect::<BTreeSet<&T>>());
    for (mut from, to, what, way) in [
        (old.clone(), &new, "loses", lost),
        (new.clone(), &old, "gets", won),
    ] {
        from.retain(|member| !to.contains(member));
        if !from.is_empty() {
            let shown: Vec<String> = from
                .iter()
                .take(SHOWN_MAX)
                .map(ToString::to_string)
                .collect();
            let more = match from.len().saturating_sub(SHOWN_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let text = format!("{} {what} {}{more}", key.name, shown.join(", "));
            moves.add(text, way, key.feeds);
        }
    }
}

/// False is tighter.
pub(super) fn off(moves: &mut Moves<'_>, key: Key, old: &bool, new: &bool) {
    down(moves, key, old, new);
}

/// Every change is for people.
pub(super) fn equal<T: PartialEq>(moves: &mut Moves<'_>, key: Key, old: &T, new: &T) {
    if old != new {
        moves.add(format!("{} changes", key.name), Way::Open, key.feeds);
    }
}

/// A text for readers, which decides nothing.
pub(super) fn free<T>(_: &mut Moves<'_>, _: Key, _: &T, _: &T) {}

/// A struct all of whose keys have a direction.
pub(super) trait Directed {
    /// Adds the moves from `self` to `new`.
    fn moves(&self, new: &Self, moves: &mut Moves<'_>);
}

/// A part whose keys have directions of their own.
pub(super) fn part<T: Directed>(moves: &mut Moves<'_>, key: Key, old: &T, new: &T) {
    moves.within(key.name, |moves| old.moves(new, moves));
}

/// Implements [`Directed`]: each key has the function that compares it and, after `feeds`, the
/// fields of rules that are computed with it. A key that is missing here does not compile.
macro_rules! directed {
    ($name:ident { $($key:ident: $how:expr $(, feeds $feeds:expr)?;)* }) => {
        impl $crate::review::moves::Directed for $name {
            fn moves(&self, new: &Self, moves: &mut $crate::review::moves::Moves<'_>) {
                let $name { $($key),* } = self;
                $({
                    let feeds: &'static [$crate::rule::table::Id] = directed!(@ $($feeds)?);
                    let key = $crate::review::moves::Key { name: stringify!($key), feeds };
                    $how(moves, key, $key, &new.$key);
                })*
            }
        }
    };
    (@) => { &[] };
    (@ $feeds:expr) => { $feeds };
}
pub(super) use directed;
