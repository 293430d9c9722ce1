//! Compares regular expressions of one field by automata: finds every combination of matches that
//! some text has, for each named text and for all other texts.
//!
//! Each expression is a dense automaton. A breadth-first walk through their product with the
//! automaton of UTF-8, and with one that recognises how named texts are spelled, meets every
//! combination, first with its shortest text. A match is final: whether an expression matches
//! somewhere in a text is decided by its first match.

use std::collections::{BTreeMap, HashSet};

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, util::start};

use super::cover::{Exhausted, Steps};
use crate::rule::field::Kind;

/// Most expressions of a field that are compared with each other.
pub(super) const EXPRESSIONS_MAX: usize = 6;
/// Most named texts of a field whose matches are calculated.
pub(super) const NAMES_MAX: usize = 64;
/// Most states of a product.
const STATES_MAX: usize = 100_000;
/// Steps that a state of the product counts as, without its transitions.
const STATE_STEPS: u64 = 16;
/// Largest automaton of an expression, bytes.
const AUTOMATON_BYTES_MAX: u64 = 1 << 20;
/// How many times this size may be used while the automaton is built.
const BUILDING: u64 = 4;
/// Steps that building a byte of an automaton counts as.
const BYTE_STEPS: u64 = 2;
/// Steps that building an automaton counts as at least.
const BUILD_STEPS: u64 = 2_000;

/// An automaton that decides whether an expression matches somewhere in a text.
#[derive(Debug)]
pub(super) struct Expression {
    dfa: dense::DFA<Vec<u32>>,
    start: StateID,
}

impl Expression {
    /// Builds the automaton within half of the remaining budget. Returns `None` if there is none of
    /// this size, or none at all because of a Unicode `\b`.
    pub(super) fn build(text: &str, steps: &mut Steps) -> Result<Option<Expression>, Exhausted> {
        steps.take(BUILD_STEPS)?;
        let bytes_max = (steps.left() / 2 / BYTE_STEPS).min(AUTOMATON_BYTES_MAX);
        let size = |bytes: u64| Some(usize::try_from(bytes).unwrap_or(usize::MAX));
        let config = dense::Config::new()
            .start_kind(StartKind::Unanchored)
            .accelerate(false)
            .dfa_size_limit(size(bytes_max))
            .determinize_size_limit(size(bytes_max.saturating_mul(BUILDING)));
        let built = dense::Builder::new().configure(config).build(text);
        let Ok(dfa) = built else {
            let has_no_automaton = built.is_err_and(|fault| !fault.is_size_limit_exceeded());
            steps.take(if has_no_automaton {
                0
            } else {
                bytes_max.saturating_mul(BYTE_STEPS)
            })?;
            return Ok(None);
        };
        steps.take((dfa.memory_usage() as u64).saturating_mul(BYTE_STEPS))?;
        let start = start::Config::new().anchored(Anchored::No);
        let start = dfa.start_state(&start);
        Ok(start.ok().map(|start| Expression { dfa, start }))
    }
}

/// Where a text is among the spellings of the named texts.
type Place = u32;

/// The place of a text that no named text is spelled like.
const ELSEWHERE: Place = u32::MAX;

/// Recognises the spellings of named texts: the texts that fold to them.
#[derive(Debug)]
pub(super) struct Spellings {
    nodes: Vec<Node>,
    /// Named cells of which any text may be a spelling.
    any: Vec<u32>,
    /// Whether a text that is spelled like a named one may still be another text.
    is_loose: bool,
}

#[derive(Debug, Default)]
struct Node {
    next: BTreeMap<u8, Place>,
    /// Cells whose texts are spelled like this.
    ends: Vec<u32>,
    /// Whether all texts that begin like this are at this place.
    has_any_end: bool,
}

impl Spellings {
    /// Creates the automaton of these names, the texts of the first cells.
    pub(super) fn of(kind: Kind, named: &[&str]) -> Spellings {
        let mut spellings = Spellings {
            nodes: vec![Node::default()],
            any: Vec::new(),
            is_loose: matches!(kind, Kind::Address),
        };
        for (cell, name) in (0..).zip(named) {
            match (kind, name.split_once('@')) {
                (Kind::Name(_) | Kind::Word(_), _) => {
                    spellings.add(name.bytes(), false, cell);
                }
                (Kind::Text, _) if is_folded(name) => {
                    spellings.add(name.bytes(), true, cell);
                }
                // A host has many spellings: all begin with the part before it.
                (Kind::Address, Some((local, _))) if is_folded(local) => {
                    let end = spellings.add(local.bytes().chain([b'@']), true, cell);
                    if let Some(node) = spellings.nodes.get_mut(end as usize) {
                        node.has_any_end = true;
                    }
                }
                _ => spellings.any.push(cell),
            }
        }
        spellings
    }

    fn add(&mut self, bytes: impl Iterator<Item = u8>, folds: bool, cell: u32) -> Place {
        let mut at = 0;
        for byte in bytes {
            let next = self.step(at, byte);
            let to = if next == ELSEWHERE { self.node() } else { next };
            self.link(at, byte, to);
            if folds {
                self.link(at, byte.to_ascii_uppercase(), to);
            }
            if folds && byte == b'k' && next == ELSEWHERE {
                // The Kelvin sign is the only other character whose lower case is in ASCII.
                let (one, two) = (self.node(), self.node());
                self.link(at, 0xe2, one);
                self.link(one, 0x84, two);
                self.link(two, 0xaa, to);
            }
            at = to;
        }
        if let Some(node) = self.nodes.get_mut(at as usize) {
            node.ends.push(cell);
        }
        at
    }

    fn node(&mut self) -> Place {
        self.nodes.push(Node::default());
        Place::try_from(self.nodes.len().saturating_sub(1)).unwrap_or(ELSEWHERE)
    }

    fn link(&mut self, from: Place, byte: u8, to: Place) {
        if let Some(node) = self.nodes.get_mut(from as usize) {
            node.next.insert(byte, to);
        }
    }

    fn step(&self, at: Place, byte: u8) -> Place {
        match self.nodes.get(at as usize) {
            Some(node) if node.has_any_end => at,
            Some(node) => node.next.get(&byte).copied().unwrap_or(ELSEWHERE),
            None => ELSEWHERE,
        }
    }

    fn ends(&self, at: Place) -> &[u32] {
        self.nodes
            .get(at as usize)
            .map_or(&[], |node| node.ends.as_slice())
    }

    fn letters(&self) -> [bool; 256] {
        let mut letters = [false; 256];
        for byte in self.nodes.iter().flat_map(|node| node.next.keys()) {
            if let Some(letter) = letters.get_mut(usize::from(*byte)) {
                *letter = true;
            }
        }
        letters
    }
}

/// Returns whether the spellings of a text are those in ASCII without regard to case, and those
/// with Kelvin signs.
fn is_folded(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase())
}

/// The combinations of matches that texts have. Bit n of a combination is whether the expression
/// with this number matches.
#[derive(Debug, Default)]
pub(super) struct Combinations {
    /// For each named cell, the combinations of its texts, with the shortest one found.
    pub named: BTreeMap<(u32, u8), String>,
    /// The combinations of all texts that may be none of the named ones.
    pub others: BTreeMap<u8, String>,
    /// Named cells whose texts may have every combination of any text.
    pub any: Vec<u32>,
}

/// A state of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    /// The states of the expressions that have not matched.
    at: [StateID; EXPRESSIONS_MAX],
    /// The expressions that have matched.
    matched: u8,
    /// The state of UTF-8.
    unit: Unit,
    place: Place,
}

/// Within a character of UTF-8, by what must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unit {
    /// Between two characters.
    Between,
    /// One to three more bytes.
    More(u8),
    /// A byte from `low` to `high`, then this many more.
    Within { low: u8, high: u8, then: u8 },
}

impl Unit {
    /// Returns the state after a byte; `None` if it is not UTF-8.
    fn after(self, byte: u8) -> Option<Unit> {
        let more = |left: u8| match left {
            0 => Unit::Between,
            left => Unit::More(left),
        };
        match (self, byte) {
            (Unit::Between, 0..=0x7f) => Some(Unit::Between),
            (Unit::Between, 0xc2..=0xdf) => Some(Unit::More(1)),
            (Unit::Between, 0xe0) => Some(Unit::Within {
                low: 0xa0,
                high: 0xbf,
                then: 1,
            }),
            // These would be halves of surrogate pairs.
            (Unit::Between, 0xed) => Some(Unit::Within {
                low: 0x80,
                high: 0x9f,
                then: 1,
            }),
            (Unit::Between, 0xe1..=0xef) => Some(Unit::More(2)),
            (Unit::Between, 0xf0) => Some(Unit::Within {
                low: 0x90,
                high: 0xbf,
                then: 2,
            }),
            (Unit::Between, 0xf1..=0xf3) => Some(Unit::More(3)),
            (Unit::Between, 0xf4) => Some(Unit::Within {
                low: 0x80,
                high: 0x8f,
                then: 2,
            }),
            (Unit::More(left), 0x80..=0xbf) => Some(more(left.saturating_sub(1))),
            (Unit::Within { low, high, then }, _) if (low..=high).contains(&byte) => {
                Some(more(then))
            }
            (Unit::Between | Unit::More(_) | Unit::Within { .. }, _) => None,
        }
    }
}

/// Returns how readable a byte is; the least is the best.
fn rank(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'0'..=b'9' => 1,
        b'A'..=b'Z' => 2,
        b' '..=b'~' => 3,
        // The bytes of a letter.
        0xc3 | 0xa9 => 4,
        0x80.. => 5,
        _ => 6,
    }
}

/// Returns one byte of every class that the automata tell apart, the most readable ones first.
fn representatives(expressions: &[Expression], spellings: &Spellings) -> Vec<u8> {
    let letters = spellings.letters();
    let mut classes: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
    for byte in 0..=u8::MAX {
        let of_names = letters.get(usize::from(byte)).is_some_and(|letter| *letter);
        let of_utf8 = match byte {
            0..=0x7f => 0x7f,
            0x80..=0x8f => 0x8f,
            0x90..=0x9f => 0x9f,
            0xa0..=0xbf => 0xbf,
            0xc0..=0xc1 | 0xf5.. => continue,
            0xc2..=0xdf => 0xdf,
            0xe0 | 0xed | 0xf0 | 0xf4 => byte,
            0xe1..=0xef => 0xef,
            0xf1..=0xf3 => 0xf3,
        };
        let mut class = vec![of_utf8, if of_names { byte } else { u8::MAX }];
        class.extend(
            expressions
                .iter()
                .map(|expression| expression.dfa.byte_classes().get(byte)),
        );
        let best = classes.entry(class).or_insert(byte);
        if rank(byte) < rank(*best) {
            *best = byte;
        }
    }
    let mut bytes: Vec<u8> = classes.into_values().collect();
    bytes.sort_by_key(|byte| (rank(*byte), *byte));
    bytes
}

/// A walk through the product.
struct Walk<'e> {
    expressions: &'e [Expression],
    spellings: &'e Spellings,
    /// Whether there are texts that are not named.
    has_others: bool,
    known: HashSet<State>,
    states: Vec<State>,
    /// The state and the byte from which each state was reached first.
    from: Vec<(usize, u8)>,
}

/// Returns the combinations of matches of at most [`EXPRESSIONS_MAX`] expressions; `None` if they
/// cannot be compared within the bounds.
pub(super) fn combinations(
    expressions: &[Expression],
    spellings: &Spellings,
    has_others: bool,
    steps: &mut Steps,
) -> Result<Option<Combinations>, Exhausted> {
    let mut at = [StateID::ZERO; EXPRESSIONS_MAX];
    for (place, expression) in at.iter_mut().zip(expressions) {
        *place = expression.start;
    }
    let mut walk = Walk {
        expressions,
        spellings,
        has_others: has_others || !spellings.any.is_empty(),
        known: HashSet::new(),
        states: Vec::new(),
        from: Vec::new(),
    };
    walk.reach(
        State {
            at,
            matched: 0,
            unit: Unit::Between,
            place: 0,
        },
        (0, 0),
    );
    let bytes = representatives(expressions, spellings);
    let mut found = Combinations {
        any: spellings.any.clone(),
        ..Combinations::default()
    };
    let mut next = 0;
    while let Some(state) = walk.states.get(next).copied() {
        steps.take(STATE_STEPS.saturating_add(bytes.len() as u64))?;
        if state.unit == Unit::Between {
            walk.end(next, &state, &mut found);
        }
        let mut last = None;
        for byte in &bytes {
            let Some(unit) = state.unit.after(*byte) else {
                continue;
            };
            let Some(after) = walk.after(&state, unit, *byte) else {
                return Ok(None);
            };
            if last != Some(after) {
                walk.reach(after, (next, *byte));
                last = Some(after);
            }
        }
        if walk.states.len() > STATES_MAX {
            return Ok(None);
        }
        next = next.saturating_add(1);
    }
    Ok(Some(found))
}

impl Walk<'_> {
    fn reach(&mut self, state: State, from: (usize, u8)) {
        let leads_nowhere = state.place == ELSEWHERE && !self.has_others;
        if !leads_nowhere && self.known.insert(state) {
            self.states.push(state);
            self.from.push(from);
        }
    }

    /// Returns the state after a byte; `None` if it cannot be computed with.
    fn after(&self, state: &State, unit: Unit, byte: u8) -> Option<State> {
        let mut after = State {
            unit,
            place: self.spellings.step(state.place, byte),
            ..*state
        };
        for (bit, (expression, at)) in (0..).zip(self.expressions.iter().zip(&mut after.at)) {
            let dfa = &expression.dfa;
            if dfa.is_dead_state(*at) {
                continue;
            }
            let next = dfa.next_state(*at, byte);
            if dfa.is_quit_state(next) {
                return None;
            }
            *at = next;
            if dfa.is_match_state(next) {
                // The match ended before this byte. Within a character it is an empty one, which
                // does not count; what would have matched behind it is not known.
                if state.unit != Unit::Between {
                    return None;
                }
                after.matched |= 1 << bit;
                *at = StateID::ZERO;
            }
        }
        Some(after)
    }

    /// Records the combination of the texts that end in a state.
    fn end(&self, number: usize, state: &State, found: &mut Combinations) {
        let mut combination = state.matched;
        for (bit, (expression, at)) in (0..).zip(self.expressions.iter().zip(&state.at)) {
            let dfa = &expression.dfa;
            if !dfa.is_dead_state(*at) && dfa.is_match_state(dfa.next_eoi_state(*at)) {
                combination |= 1 << bit;
            }
        }
        let ends = self.spellings.ends(state.place);
        for cell in ends {
            found
                .named
                .entry((*cell, combination))
                .or_insert_with(|| self.text(number));
        }
        if self.has_others && (ends.is_empty() || self.spellings.is_loose) {
            found
                .others
                .entry(combination)
                .or_insert_with(|| self.text(number));
        }
    }

    /// Returns the text by which a state was reached first.
    fn text(&self, mut number: usize) -> String {
        let mut bytes = Vec::new();
        while let Some((from, byte)) = self.from.get(number).filter(|_| number != 0) {
            bytes.push(*byte);
            number = *from;
        }
        bytes.reverse();
        String::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounded(limit: u64) -> Steps {
        Steps { used: 0, limit }
    }

    fn built(expressions: &[&str]) -> Vec<Expression> {
        let steps = &mut bounded(u64::MAX);
        let build = |text: &&str| Expression::build(text, steps).unwrap().unwrap();
        expressions.iter().map(build).collect()
    }

    fn others(expressions: &[&str]) -> BTreeMap<u8, String> {
        let none = Spellings::of(Kind::Text, &[]);
        let steps = &mut bounded(u64::MAX);
        let found = combinations(&built(expressions), &none, true, steps);
        found.unwrap().unwrap().others
    }

    #[test]
    fn every_combination_has_its_shortest_text() {
        let of = |pairs: &[(u8, &str)]| {
            let owned = pairs.iter().map(|(at, text)| (*at, (*text).to_owned()));
            owned.collect::<BTreeMap<u8, String>>()
        };
        assert_eq!(others(&[]), of(&[(0, "")]));
        assert_eq!(others(&[""]), of(&[(1, "")]));
        assert_eq!(others(&["^$"]), of(&[(0, "a"), (1, "")]));
        assert_eq!(others(&["a", "ab"]), of(&[(0, ""), (1, "a"), (3, "ab")]));
        assert_eq!(
            others(&["^a", "b$"]),
            of(&[(0, ""), (1, "a"), (2, "b"), (3, "ab")])
        );
        assert_eq!(others(&["(?i)k"]), of(&[(0, ""), (1, "k")]));
        assert_eq!(others(&["[^[:ascii:]]"]), of(&[(0, ""), (1, "é")]));
        assert_eq!(
            others(&["a.c", "[^b]"]),
            of(&[(0, ""), (2, "a"), (3, "aac")])
        );
    }

    #[test]
    fn spellings_are_those_that_fold_to_the_name() {
        let names = Spellings::of(Kind::Text, &["kg", "über"]);
        assert_eq!(names.any, [1]);
        for (text, ends) in [
            ("kg", true),
            ("KG", true),
            ("\u{212a}g", true),
            ("k", false),
        ] {
            let end = text.bytes().fold(0, |at, byte| names.step(at, byte));
            assert_eq!(!names.ends(end).is_empty(), ends, "{text}");
            assert_eq!(text.to_lowercase() == "kg", ends, "{text}");
        }
    }

    #[test]
    fn characters_are_those_of_utf8() {
        let is_text = |bytes: &[u8]| {
            let end = bytes
                .iter()
                .try_fold(Unit::Between, |unit, byte| unit.after(*byte));
            end == Some(Unit::Between)
        };
        for c in char::MIN..=char::MAX {
            assert!(is_text(c.encode_utf8(&mut [0; 4]).as_bytes()), "{c:?}");
        }
        for first in 0..=u8::MAX {
            for second in [0, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff] {
                for rest in [&[][..], &[0x80], &[0x80, 0x80], &[0xbf, 0xbf, 0xbf]] {
                    let bytes = [&[first, second], rest].concat();
                    let is_utf8 = std::str::from_utf8(&bytes).is_ok();
                    assert_eq!(is_text(&bytes), is_utf8, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn an_empty_match_within_a_character_is_left_open() {
        let none = Spellings::of(Kind::Text, &[]);
        let steps = &mut bounded(u64::MAX);
        // It matches within `é`, which the engine that decides does not count.
        let within = built(&[r"(?-u:\B)"]);
        assert!(combinations(&within, &none, true, steps).unwrap().is_none());
        assert!(!regex::Regex::new(r"^a(?-u:\B)").unwrap().is_match("aé"));
    }
}
