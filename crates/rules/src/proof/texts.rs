//! What is known of one text at once: whether it is a named one, its domain, and which expressions
//! match it.
//!
//! A piece is possible only if one text has all of these: the matches of the expressions are
//! compared by automata, and the domain of a mail address follows from it. Expressions that cannot
//! be compared within the bounds are treated as independent of the text and of one another.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use regex::Regex;

use super::area::Piece;
use super::cells::Cells;
use super::cover::{Exhausted, Steps};
use super::expressions::{self, Combinations, EXPRESSIONS_MAX, Expression, NAMES_MAX, Spellings};
use super::space::{Dimension, Values, View};
use crate::rule::field::Kind;
use crate::rule::host;

/// The dimensions of one text.
#[derive(Debug)]
pub(super) struct Text<'a> {
    kind: Kind,
    /// Its value.
    pub plain: u32,
    /// Its domain.
    domain: Option<u32>,
    /// For each cell of the value, the cell of its domain; empty if the domain is independent.
    domains: Vec<Domain>,
    expressions: Vec<(u32, &'a Regex)>,
    /// Calculated when a piece first depends on it.
    matches: OnceCell<Matches>,
}

/// The domain of the texts in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Domain {
    /// This cell.
    Cell(u32),
    /// Some cell with a value.
    Some,
    /// Any cell with a value, or that of a domain that cannot be compared.
    Any,
}

/// Which expressions match which texts.
#[derive(Debug, Default)]
struct Matches {
    /// The dimensions of the compared expressions, in the order of their bits.
    of: Vec<u32>,
    /// For each cell of the value, the combinations of its texts: bit n stands for combination n.
    cells: Vec<u64>,
    /// Texts by cell and combination.
    texts: BTreeMap<(u32, u8), String>,
}

impl<'a> Text<'a> {
    /// Creates the dimensions of a text whose value is the dimension `plain`, with those derived
    /// from it. Returns `None` if nothing is derived from it.
    pub(super) fn of<'d>(
        kind: Kind,
        plain: (&'d Dimension<'a>, u32),
        derived: impl Iterator<Item = (&'d Dimension<'a>, u32)>,
    ) -> Option<Text<'a>>
    where
        'a: 'd,
    {
        let (value, plain) = plain;
        let mut text = Text {
            kind,
            plain,
            domain: None,
            domains: Vec::new(),
            expressions: Vec::new(),
            matches: OnceCell::new(),
        };
        for (dimension, number) in derived {
            match (&dimension.view, &dimension.values) {
                (View::Domain, _) => {
                    text.domain = Some(number);
                    text.domains = domains(kind, value, dimension);
                }
                (View::Expression(_), Values::Expression(regex)) => {
                    text.expressions.push((number, *regex));
                }
                _ => {}
            }
        }
        (text.domain.is_some() || !text.expressions.is_empty()).then_some(text)
    }

    fn derived(&self) -> impl Iterator<Item = u32> {
        let expressions = self.expressions.iter().map(|(number, _)| *number);
        expressions.chain(self.domain)
    }

    /// Returns whether some text, or a text that is absent or not known, is in the piece.
    pub(super) fn allows(
        &self,
        dimensions: &[Dimension<'a>],
        universes: &[Cells],
        piece: &Piece,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        steps.take(1)?;
        if self.derived().all(|number| piece.side(number).is_none()) {
            return Ok(true);
        }
        let sides = Sides { universes, piece };
        let Some(plain) = dimensions.get(self.plain as usize) else {
            return Ok(true);
        };
        let is_unknown = |number: u32| {
            let unknown = dimensions.get(number as usize).map(Dimension::unknown);
            unknown.is_some_and(|cell| sides.hold(number, cell))
        };
        if sides.hold(self.plain, plain.absent())
            || self.derived().chain([self.plain]).all(is_unknown)
        {
            return Ok(true);
        }
        if let Some(domain) = self.domain {
            let of_texts = dimensions.get(domain as usize).map_or(0, Dimension::odd);
            if !sides.meet(domain, &Cells::span(0, of_texts.saturating_add(1))) {
                return Ok(false);
            }
        }
        if self
            .expressions
            .iter()
            .any(|(number, _)| !sides.meet(*number, &Cells::span(0, 2)))
        {
            return Ok(false);
        }
        let depends = self
            .expressions
            .iter()
            .any(|(number, _)| piece.side(*number).is_some());
        let matches = if depends {
            Some(self.matches(plain, steps)?)
        } else {
            None
        };
        let wanted = matches.map_or(u64::MAX, |matches| matches.wanted(&sides));
        let Some(values) = sides.get(self.plain) else {
            return Ok(true);
        };
        for cell in values.each().take_while(|cell| *cell <= plain.odd()) {
            steps.take(1)?;
            let is_matched = matches.is_none_or(|matches| matches.of_cell(cell) & wanted != 0);
            if is_matched && self.has_domain(dimensions, &sides, cell) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_domain(&self, dimensions: &[Dimension], sides: &Sides, cell: u32) -> bool {
        let Some(domain) = self.domain else {
            return true;
        };
        match self.domains.get(cell as usize) {
            Some(Domain::Cell(at)) => sides.hold(domain, *at),
            Some(Domain::Some) => {
                let count = dimensions.get(domain as usize).map_or(0, |of| of.count);
                sides.meet(domain, &Cells::span(0, count))
            }
            Some(Domain::Any) | None => true,
        }
    }

    /// Returns texts that have matches as the piece allows them, the named ones first.
    pub(super) fn examples(&self, universes: &[Cells], piece: &Piece) -> Vec<&str> {
        let Some(matches) = self.matches.get() else {
            return Vec::new();
        };
        let sides = Sides { universes, piece };
        let wanted = matches.wanted(&sides);
        let fitting = matches.texts.iter().filter(|((cell, combination), _)| {
            sides.hold(self.plain, *cell) && wanted >> combination & 1 == 1
        });
        fitting.map(|(_, text)| text.as_str()).collect()
    }

    fn matches(&self, plain: &Dimension<'a>, steps: &mut Steps) -> Result<&Matches, Exhausted> {
        if let Some(known) = self.matches.get() {
            return Ok(known);
        }
        // Half of the rest of the budget: what needs more is treated as independent.
        let mut own = Steps {
            used: 0,
            limit: steps.left() / 2,
        };
        let made = self.compare(plain, &mut own).unwrap_or_default();
        steps.take(own.used.min(own.limit))?;
        Ok(self.matches.get_or_init(|| made))
    }

    /// Compares the expressions; the result is empty if the bounds do not suffice.
    fn compare(&self, plain: &Dimension<'a>, steps: &mut Steps) -> Result<Matches, Exhausted> {
        let Values::Texts { named, has_others } = &plain.values else {
            return Ok(Matches::default());
        };
        if self.expressions.len() > EXPRESSIONS_MAX || named.len() > NAMES_MAX {
            return Ok(Matches::default());
        }
        let (mut of, mut automata) = (Vec::new(), Vec::new());
        for (number, regex) in &self.expressions {
            if let Some(automaton) = Expression::build(regex.as_str(), steps)? {
                automata.push(automaton);
                of.push((*number, *regex));
            }
        }
        let spellings = Spellings::of(self.kind, named);
        let found = expressions::combinations(&automata, &spellings, *has_others, steps)?;
        let Some(found) = found.filter(|found| is_confirmed(found, &of)) else {
            return Ok(Matches::default());
        };
        let of = of.into_iter().map(|(number, _)| number).collect();
        Ok(Matches::of(of, plain, found))
    }
}

/// Checks the automata against the engine that decides.
fn is_confirmed(found: &Combinations, of: &[(u32, &Regex)]) -> bool {
    let named = found.named.iter().map(|((_, at), text)| (*at, text));
    let mut all = named.chain(found.others.iter().map(|(at, text)| (*at, text)));
    all.all(|(combination, text)| {
        (0..)
            .zip(of)
            .all(|(bit, (_, regex))| regex.is_match(text) == (combination >> bit & 1 == 1))
    })
}

impl Matches {
    fn of(of: Vec<u32>, plain: &Dimension, found: Combinations) -> Matches {
        let bit = |combination: u8| 1_u64 << combination;
        let others = found.others.keys().fold(0, |bits, at| bits | bit(*at));
        // Every named cell, that of the other texts, and that of texts that cannot be compared.
        let mut cells = vec![others; plain.odd().saturating_add(1) as usize];
        let names = match &plain.values {
            Values::Texts { named, .. } => named.len(),
            Values::Numbers(_) | Values::Flag | Values::Expression(_) => 0,
        };
        cells.iter_mut().take(names).for_each(|bits| *bits = 0);
        let all = found
            .named
            .keys()
            .fold(others, |bits, (_, at)| bits | bit(*at));
        for cell in found.any {
            if let Some(bits) = cells.get_mut(cell as usize) {
                *bits = all;
            }
        }
        let mut texts = found.named;
        for (cell, combination) in texts.keys() {
            if let Some(bits) = cells.get_mut(*cell as usize) {
                *bits |= bit(*combination);
            }
        }
        let rest = u32::try_from(names).unwrap_or(u32::MAX);
        for (combination, text) in found.others {
            texts.insert((rest, combination), text);
        }
        Matches { of, cells, texts }
    }

    /// Returns the combinations of a cell; all if they are not known.
    fn of_cell(&self, cell: u32) -> u64 {
        self.cells.get(cell as usize).copied().unwrap_or(u64::MAX)
    }

    /// Returns the combinations in which each expression matches as the sides want it.
    fn wanted(&self, sides: &Sides) -> u64 {
        let mut wanted = u64::MAX;
        for (bit, number) in (0..).zip(&self.of) {
            let with = (0..64_u32).filter(|at| at >> bit & 1 == 1);
            let with = with.fold(0_u64, |bits, at| bits | 1 << at);
            if !sides.hold(*number, 1) {
                wanted &= !with;
            }
            if !sides.hold(*number, 0) {
                wanted &= with;
            }
        }
        wanted
    }
}

/// The sides of a piece, with all cells of those that it does not restrict.
struct Sides<'p> {
    universes: &'p [Cells],
    piece: &'p Piece,
}

impl Sides<'_> {
    fn get(&self, number: u32) -> Option<&Cells> {
        let side = self.piece.side(number).map(Rc::as_ref);
        side.or(self.universes.get(number as usize))
    }

    fn hold(&self, number: u32, cell: u32) -> bool {
        self.get(number).is_some_and(|cells| cells.holds(cell))
    }

    fn meet(&self, number: u32, cells: &Cells) -> bool {
        self.get(number).is_some_and(|side| !side.is_apart(cells))
    }
}

/// Returns the domain of every cell of a value; empty if it is independent.
///
/// The domain of a mail address follows from it. No request has an address that starts with `//` or
/// a text that is no address, whose domains would be read as those of a URL: its payload would not
/// be accepted.
fn domains(kind: Kind, value: &Dimension, domain: &Dimension) -> Vec<Domain> {
    let Values::Texts { named, .. } = &value.values else {
        return Vec::new();
    };
    if !matches!(kind, Kind::Address | Kind::Text) || named.len() > NAMES_MAX {
        return Vec::new();
    }
    let of_name = |name: &&str| match (kind, name.split_once('@')) {
        (Kind::Address, Some((_, host))) => domain.cell_of(host).map_or(Domain::Any, Domain::Cell),
        // Only case tells the spellings of such a text apart, which hosts do not depend on.
        (Kind::Text, _)
            if name.is_ascii() && !name.contains('k') && !name.contains("localhost") =>
        {
            match host::domain_of(name) {
                Some(host) => domain.cell_of(&host).map_or(Domain::Any, Domain::Cell),
                None => Domain::Cell(domain.odd()),
            }
        }
        _ => Domain::Any,
    };
    let mut domains: Vec<Domain> = named.iter().map(of_name).collect();
    if kind == Kind::Address {
        domains.extend([Domain::Some, Domain::Cell(domain.odd())]);
    }
    domains
}

#[cfg(test)]
mod tests {
    use super::super::Direction::{self, Incomparable, Loosening, Same, Tightening};
    use super::super::{Comparison, STEPS_MAX, compare};
    use crate::rule::{Fact, RuleSet, Value};
    use spoolgate_wire::gateway::GatewayCall;

    /// Compares rules of `email.send`: each text is the conditions of one.
    fn compared(before: &[&str], after: &[&str]) -> Comparison {
        let book = |rules: &[&str]| {
            let files: Vec<(String, String)> = (0..)
                .zip(rules)
                .map(|(nth, when): (u32, _)| {
                    let text = format!(
                        "id: r{nth}\nstatus: active\napplies_to: {{action: email.send}}\nwhen: \
                            [{when}]\nthen: reject\nmessage: no\n"
                    );
                    (format!("rules/core/r{nth}.yaml"), text)
                })
                .collect();
            let files = files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str()));
            RuleSet::compile(files, []).unwrap()
        };
        compare(&book(before), &book(after), STEPS_MAX)
    }

    fn subject(op: &str, value: &str) -> String {
        format!("{{field: payload.subject, op: {op}, value: {value}}}")
    }

    fn matches(expression: &str) -> String {
        subject("matches", &format!("'{expression}'"))
    }

    fn to(op: &str, value: &str) -> String {
        format!("{{field: 'payload.to[]', op: {op}, value: {value}}}")
    }

    /// Returns the texts of the witnesses, which must show what they claim.
    fn shown(found: &Comparison) -> Vec<String> {
        let witnesses = [&found.loosens, &found.tightens].into_iter().flatten();
        let facts = witnesses.flat_map(|witness| {
            assert!(witness.feasible, "{witness:?}");
            witness.facts.iter().flat_map(|(_, fact)| match fact {
                Fact::Known(value) => vec![value.clone()],
                Fact::Many(values) => values.clone(),
                Fact::Absent | Fact::Unknown(_) => Vec::new(),
            })
        });
        facts
            .map(|value| match value {
                Value::Text(text) => text.into_owned(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    fn assert_both_ways(before: &[&str], after: &[&str], expect: Direction) {
        let found = compared(before, after);
        assert_eq!(
            found.direction, expect,
            "{before:?} -> {after:?} {found:#?}"
        );
        shown(&found);
        let reverse = match expect {
            Tightening => Loosening,
            Loosening => Tightening,
            same => same,
        };
        let found = compared(after, before);
        assert_eq!(
            found.direction, reverse,
            "{after:?} -> {before:?} {found:#?}"
        );
        shown(&found);
    }

    #[test]
    fn expressions_are_compared_by_what_they_match() {
        let other = matches("foo");
        for (before, after, expect) in [
            ("foo", "foo|bar", Tightening),
            ("foo", "(?i)foo", Tightening),
            ("foo", "fo", Tightening),
            ("foo", "fo+", Tightening),
            ("^foo$", "foo", Tightening),
            ("foo|bar", "bar|(?:foo)", Same),
            ("[ab]", "a|b", Same),
            ("a{2,}", "aa", Same),
            ("foo", "bar", Incomparable),
            ("(?i)foo", "FOO|foo", Loosening),
            (r"[0-9]{13,16}", r"[0-9]{13}", Same),
            (r"(?-u:\b)foo(?-u:\b)", "foo", Tightening),
            // The digits of all scripts.
            ("[0-9]{3}", r"\d{3}", Tightening),
        ] {
            assert_both_ways(&[&matches(before)], &[&matches(after)], expect);
        }
        let (one, two) = (matches("fo+"), matches("bar"));
        assert_both_ways(&[&matches("fo+|bar")], &[&one, &two], Same);
        let found = compared(&[&other], &[&matches("foo|bar")]);
        assert_eq!(shown(&found), ["bar"]);
    }

    #[test]
    fn a_unicode_word_boundary_has_no_automaton() {
        let found = compared(&[&matches(r"\bfoo\b")], &[&matches("foo")]);
        assert_eq!(found.direction, Incomparable);
        let same = [matches(r"\bfoo\b")];
        let split = [
            format!("{}, {}", same[0], matches("a")),
            format!("{}, {}", same[0], subject("not_matches", "a")),
        ];
        assert_both_ways(&[&same[0]], &[&split[0], &split[1]], Same);
    }

    #[test]
    fn hostile_expressions_end_within_the_budget() {
        let nested = r"(((a{0,9}){0,9}){0,9}){0,3}b";
        let nasty = [
            "[ab]*a[ab]{15}",
            "x*y*z*(x|y|z){9}[xyz]{9}q",
            r"(?i)\w+\w+\w+x",
            r"(\w+\.)*\w+@(\w+\.)+\w+",
            "(?s)^.*b.{8}c.*d.{8}e",
            nested,
        ];
        let long = "([a-z]+[0-9]+){9}[^a-z]".repeat(21);
        let other = matches("foo");
        for expression in nasty.into_iter().chain([long.as_str()]) {
            let found = compared(&[&matches(expression)], &[&other]);
            assert_eq!(found.direction, Incomparable, "{expression}");
            assert!(found.steps <= STEPS_MAX, "{expression}: {}", found.steps);
        }
        let all: Vec<String> = nasty.iter().map(|text| matches(text)).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let found = compared(&all, &all[1..]);
        assert_eq!(found.direction, Loosening);
        assert!(found.steps <= STEPS_MAX, "{}", found.steps);
    }

    #[test]
    fn a_listed_text_matches_as_all_its_spellings_do() {
        let equal = subject("eq", "foo");
        assert_both_ways(&[&equal], &[&matches("(?i)^foo$")], Same);
        assert_both_ways(&[&equal], &[&matches("(?i)foo")], Tightening);
        // FOO is equal, too.
        assert_both_ways(&[&equal], &[&matches("^foo$")], Loosening);
        // The sign of Kelvin is a `k` in both, a long s only in the expression.
        assert_both_ways(&[&subject("eq", "kg")], &[&matches("(?i)^kg$")], Same);
        assert_both_ways(
            &[&subject("eq", "kg")],
            &[&matches("^[kK][gG]$")],
            Loosening,
        );
        assert_both_ways(&[&subject("eq", "is")], &[&matches("(?i)^is$")], Tightening);
        let two = subject("in", "[foo, bar]");
        assert_both_ways(&[&two], &[&matches("(?i)^(foo|bar)$")], Same);
        // Names are compared letter by letter.
        let name = |op: &str, value: &str| {
            format!("{{field: payload.replyToMessageId, op: {op}, value: {value}}}")
        };
        let exactly = name("matches", "'^m-1$'");
        assert_both_ways(&[&name("eq", "m-1")], &[&exactly], Same);
        assert_both_ways(
            &[&name("eq", "m-1")],
            &[&name("matches", "'(?i)^m-1$'")],
            Tightening,
        );
        let method =
            |op: &str, value: &str| format!("{{field: request.role, op: {op}, value: {value}}}");
        assert_both_ways(
            &[&method("eq", "agent")],
            &[&method("matches", "'^ag'")],
            Same,
        );
    }

    #[test]
    fn only_one_other_character_folds_to_ascii() {
        let mut others = (char::MIN..=char::MAX)
            .filter(|c| !c.is_ascii() && c.to_lowercase().all(|lower| lower.is_ascii()));
        assert_eq!((others.next(), others.next()), (Some('\u{212a}'), None));
    }

    #[test]
    fn the_domain_of_a_listed_address_is_known() {
        let one = to("in", "[a@x.example]");
        let domain = to("domain_in", "[x.example]");
        assert_both_ways(&[&one], &[&domain], Tightening);
        assert_both_ways(&[&one], &[&to("domain_in", "[y.example]")], Incomparable);
        assert_both_ways(
            &[&to("domain_not_in", "[x.example]")],
            &[&to("not_in", "[a@x.example]")],
            Tightening,
        );
        // A text that is no address is neither in nor out, and this expression does not match it.
        assert_both_ways(&[&one], &[&to("matches", "'(?i)^a@'")], Incomparable);
        let others = to("not_in", "[a@x.example]");
        assert_both_ways(&[&to("matches", "^z")], &[&others], Tightening);
    }

    /// The proof relies on it: the domain of such a text is not that of its address.
    #[test]
    fn no_request_has_a_text_with_a_domain_that_is_no_address() {
        for text in [
            "x.example",
            "https://x.example/",
            "//a@x.example",
            "//a/b@x.example",
            "Ann <a@x.example>",
        ] {
            let mail = format!(r#"{{"to":["{text}"],"subject":"s","body":"b"}}"#);
            assert!(GatewayCall::read("email.send", &mail).is_err(), "{text}");
            let cc =
                format!(r#"{{"to":["a@x.example"],"cc":["{text}"],"subject":"s","body":"b"}}"#);
            assert!(GatewayCall::read("email.send", &cc).is_err(), "{text}");
        }
        let mail = r#"{"to":["a@x.example"],"subject":"s","body":"b"}"#;
        assert!(GatewayCall::read("email.send", mail).is_ok());
    }

    #[test]
    fn the_domain_of_a_listed_text_is_known() {
        let with = |text: &str, host: &str| {
            let domain = subject("domain_in", &format!("[{host}]"));
            format!("{}, {domain}", subject("eq", text))
        };
        let named = "www.x.example/a";
        let one = subject("eq", named);
        assert_both_ways(&[&one], &[&with(named, "www.x.example")], Same);
        assert_both_ways(&[&one], &[&with(named, "y.example")], Loosening);
        // The port of `LOCALHOST:80` would be read as something else.
        let found = compared(
            &[&subject("eq", "'localhost:80'")],
            &[&with("'localhost:80'", "localhost")],
        );
        assert_eq!(found.direction, Loosening);
    }

    #[test]
    fn recipients_are_those_of_to_and_cc() {
        let of = |field: &str, op: &str| {
            format!("{{field: 'payload.{field}[]', op: {op}, value: [a@x.example]}}")
        };
        for op in ["in", "not_in"] {
            assert_both_ways(&[&of("to", op)], &[&of("recipients", op)], Tightening);
            assert_both_ways(&[&of("cc", op)], &[&of("recipients", op)], Tightening);
            let both = [of("to", op), of("cc", op)];
            assert_both_ways(&[&both[0], &both[1]], &[&of("recipients", op)], Same);
        }
        let [to, cc, all] = ["to", "cc", "recipients"]
            .map(|field| move |op: &str| format!("{{field: 'payload.{field}[]', op: {op}}}"));
        assert_both_ways(&[&to("present"), &cc("present")], &[&all("present")], Same);
        // If the copies are not known, neither are all recipients.
        let none = format!("{}, {}", to("absent"), cc("absent"));
        assert_both_ways(&[&none], &[&all("absent")], Tightening);
        assert_both_ways(&[&all("absent")], &[&to("absent")], Incomparable);
    }
}
