//! Compiled rules and sets. For every action there is a program: the facts that its rules read,
//! each once, and the rules over these facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::RegexBuilder;

use super::error::{ConditionError, PatternError};
use super::fact::Fact;
use super::field::{self, Field, Kind, Missing, RULED_ACTIONS, Reading};
use super::file::{
    ConditionFile, Op, Operand, RuleFile, RuleStatus, Scalar, Then, line_of, line_of_condition,
};
use super::ranges::{End, Range, Ranges};
use super::set::{Grows, NamedSet, Provenance};
use super::test::{Members, Pattern, Test};
use crate::hours::Minute;
use crate::nearest::did_you_mean;
use crate::rulebook::RulebookError;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{RuleId, SetName};

/// Most rules of a rulebook.
pub const RULES_MAX: usize = 2000;
/// Most conditions of a rule.
pub const CONDITIONS_MAX: usize = 32;
/// Longest regular expression, bytes.
pub const PATTERN_BYTES_MAX: usize = 500;
/// Largest compiled regular expression, bytes.
pub const PATTERN_SIZE_MAX: usize = 256 * 1024;
/// Largest compiled regular expression of a proposal, bytes.
pub const PROPOSED_PATTERN_SIZE_MAX: usize = 64 * 1024;
/// Longest window of `history.*`, seconds.
pub const WINDOW_S_MAX: u32 = 31 * 86_400;
/// Longest message, bytes.
const MESSAGE_BYTES_MAX: usize = 500;

/// A compiled condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Index of the fact that it tests, in [`Program::readings`].
    pub slot: usize,
    /// The test.
    pub test: Test,
    /// Its threshold, if its operator is an ordered one.
    pub threshold: Option<Amount>,
}

/// A rule within the program of one action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Its id.
    pub id: RuleId,
    /// Its status.
    pub status: RuleStatus,
    /// What it does.
    pub then: Then,
    /// Its message.
    pub message: String,
    /// Its conditions; those of its scope come first.
    pub conditions: Vec<Condition>,
}

/// The rules of one action, and the facts that they read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The facts, in the order in which they are passed for evaluation.
    pub readings: Vec<Reading>,
    /// The rules, by id, without suspended and retired ones.
    pub guards: Vec<Guard>,
    /// Names of the facts in rising order, with their index in `readings`. Ledger lines
    /// use these names.
    // INVARIANT: complete, because only `slot` adds readings.
    named: Vec<(String, usize)>,
}

/// A rule with its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Path of its file below the home.
    pub path: String,
    /// The file's text.
    pub text: String,
    /// The parsed file.
    pub file: RuleFile,
}

impl Rule {
    /// Parses the file at `path`.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if it is not a valid rule, or if its id differs from
    /// the file name.
    pub fn read(path: &str, text: &str) -> Result<Rule, RulebookError> {
        let file = RuleFile::read(path, text)?;
        same_name(path, file.id.as_str())?;
        Ok(Rule {
            path: path.to_owned(),
            text: text.to_owned(),
            file,
        })
    }

    /// Returns whether only the operator may change it.
    pub fn is_core(&self) -> bool {
        self.path.starts_with("rules/core/")
    }
}

/// All rules and sets of a rulebook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// Rules by id.
    pub rules: BTreeMap<RuleId, Rule>,
    /// Sets by name.
    pub sets: BTreeMap<SetName, Arc<NamedSet>>,
    /// Programs by action. An action without a program has no rules.
    pub programs: BTreeMap<String, Program>,
}

impl RuleSet {
    /// Compiles rule and set files, each given as `(path, text)`.
    ///
    /// # Errors
    /// Returns the first [`RulebookError`].
    pub fn compile<'a>(
        rules: impl IntoIterator<Item = (&'a str, &'a str)>,
        sets: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<RuleSet, RulebookError> {
        let mut book = RuleSet::default();
        for (path, text) in sets {
            let set = NamedSet::compile(path, text)?;
            same_name(path, set.name.as_str())?;
            book.sets.insert(set.name.clone(), Arc::new(set));
        }
        let mut read = Vec::new();
        for (path, text) in rules {
            read.push(Rule::read(path, text)?);
        }
        // Sort by id, not by path, so that a rulebook changed by a proposal equals one compiled
        // from its files.
        read.sort_by(|a, b| a.file.id.cmp(&b.file.id));
        read.into_iter().try_for_each(|rule| book.insert(rule))?;
        Ok(book)
    }

    /// Returns the rules with `rule` added, or put in place of the rule with the same id.
    ///
    /// # Errors
    /// Returns an error as [`RuleSet::compile`] does.
    pub fn with(&self, rule: Rule) -> Result<RuleSet, RulebookError> {
        let mut rules = self.rules.clone();
        rules.insert(rule.file.id.clone(), rule);
        let mut book = RuleSet {
            sets: self.sets.clone(),
            ..RuleSet::default()
        };
        rules.into_values().try_for_each(|rule| book.insert(rule))?;
        Ok(book)
    }

    /// Returns the rules without the one with this id.
    ///
    /// # Errors
    /// Returns an error as [`RuleSet::compile`] does.
    pub fn without(&self, id: &RuleId) -> Result<RuleSet, RulebookError> {
        let mut book = RuleSet {
            sets: self.sets.clone(),
            ..RuleSet::default()
        };
        let left = self.rules.values().filter(|rule| rule.file.id != *id);
        left.cloned().try_for_each(|rule| book.insert(rule))?;
        Ok(book)
    }

    fn insert(&mut self, rule: Rule) -> Result<(), RulebookError> {
        let fail = |what: String| Err(RulebookError::new(&rule.path, None, what));
        if let Some(other) = self.rules.get(&rule.file.id) {
            return fail(format!(
                "rule `{}` is in `{}` too",
                rule.file.id, other.path
            ));
        }
        if self.rules.len() >= RULES_MAX {
            return fail(format!("more than {RULES_MAX} rules"));
        }
        self.check(&rule)?;
        for action in &rule.file.applies_to.action {
            let mut program = self.programs.remove(action).unwrap_or_default();
            let added = self.add(&mut program, action, &rule);
            self.programs.insert(action.clone(), program);
            added?;
        }
        self.rules.insert(rule.file.id.clone(), rule);
        Ok(())
    }

    fn check(&self, rule: &Rule) -> Result<(), RulebookError> {
        let RuleFile {
            applies_to,
            when,
            message,
            status,
            lesson,
            ..
        } = &rule.file;
        let fail = |near: &str, what: String| {
            Err(RulebookError::new(
                &rule.path,
                line_of(&rule.text, near),
                what,
            ))
        };
        if applies_to.action.is_empty() {
            return fail(
                "applies_to",
                "`applies_to.action` names no action".to_owned(),
            );
        }
        if let Some(unknown) = applies_to
            .action
            .iter()
            .find(|name| !RULED_ACTIONS.contains(&name.as_str()))
        {
            let known = RULED_ACTIONS.join(", ");
            let near = did_you_mean(unknown, RULED_ACTIONS.iter().copied(), "");
            return fail(
                unknown,
                format!("rules do not apply to `{unknown}`, but to {known}{near}"),
            );
        }
        let distinct: BTreeSet<&String> = applies_to.action.iter().collect();
        if distinct.len() != applies_to.action.len() {
            return fail(
                "applies_to",
                "`applies_to.action` names an action twice".to_owned(),
            );
        }
        if applies_to.strategy.as_ref().is_some_and(Vec::is_empty)
            || applies_to.principal.as_ref().is_some_and(Vec::is_empty)
        {
            return fail(
                "applies_to",
                "`applies_to` has an empty list: the rule would apply to nothing".to_owned(),
            );
        }
        if when.len() > CONDITIONS_MAX {
            return fail("when", format!("more than {CONDITIONS_MAX} conditions"));
        }
        let is_printable = |text: &str| text.chars().all(spoolgate_wire::text::is_printable);
        if message.is_empty() || message.len() > MESSAGE_BYTES_MAX || !is_printable(message) {
            return fail(
                "message",
                format!("`message` is 1 to {MESSAGE_BYTES_MAX} bytes of printable text"),
            );
        }
        if (*status == RuleStatus::Retired) != lesson.is_some() {
            return fail(
                "status",
                "a retired rule, and no other, has a `lesson`".to_owned(),
            );
        }
        Ok(())
    }

    /// Adds a rule to the program of an action.
    fn add(&self, program: &mut Program, action: &str, rule: &Rule) -> Result<(), RulebookError> {
        let scope = &rule.file.applies_to;
        let mut conditions = Vec::new();
        let principals: Option<BTreeSet<String>> = scope
            .principal
            .as_ref()
            .map(|names| names.iter().map(|name| name.to_string()).collect());
        let strategies = scope
            .strategy
            .as_ref()
            .map(|names| names.iter().map(|name| name.to_string()).collect());
        for (name, listed) in [
            ("request.source", principals),
            ("strategy.name", strategies),
        ] {
            let Some(listed) = listed else { continue };
            let field = field_of(name, action).map_err(|what| {
                RulebookError::new(&rule.path, line_of(&rule.text, "applies_to"), what)
            })?;
            let reading = Reading::Field(field);
            let test = Test::Member {
                kind: reading.kind(),
                of: Members::Listed(listed.into()),
                is_in: true,
            };
            conditions.push(Condition {
                slot: program.slot(reading),
                test,
                threshold: None,
            });
        }
        for (nth, written) in rule.file.when.iter().enumerate() {
            let (reading, test, threshold) = self.condition(written, action).map_err(|what| {
                let line = line_of_condition(&rule.text, nth, &written.field);
                let message = match what {
                    ConditionError::Pattern(what @ PatternError::TooLarge { .. }) => {
                        what.to_string()
                    }
                    what => format!("condition on `{}`: {what}", written.field),
                };
                RulebookError::new(&rule.path, line, message)
            })?;
            conditions.push(Condition {
                slot: program.slot(reading),
                test,
                threshold,
            });
        }
        if matches!(rule.file.status, RuleStatus::Active | RuleStatus::Shadow) {
            let RuleFile {
                id,
                status,
                then,
                message,
                ..
            } = &rule.file;
            let (id, status, then, message) = (id.clone(), *status, *then, message.clone());
            program.guards.push(Guard {
                id,
                status,
                then,
                message,
                conditions,
            });
        }
        Ok(())
    }

    fn condition(
        &self,
        written: &ConditionFile,
        action: &str,
    ) -> Result<(Reading, Test, Option<Amount>), ConditionError> {
        let reading = reading(written, action)?;
        let kind = reading.kind();
        let test = match (written.op, &written.value) {
            (Op::FirstSeen, None) => return Ok((first_seen(reading)?, Test::Flag(true), None)),
            (Op::Absent, None) => Test::Absent,
            (Op::Present, None) => Test::Present,
            (Op::FirstSeen | Op::Absent | Op::Present, Some(_)) => {
                return Err(ConditionError::NoValue);
            }
            (_, None) => return Err(ConditionError::Is("value", "missing")),
            (Op::Matches | Op::NotMatches, Some(value)) => {
                let pattern = pattern(kind, value)?;
                Test::Matches {
                    pattern,
                    wanted: written.op == Op::Matches,
                }
            }
            (Op::DomainIn | Op::DomainNotIn, Some(value)) => {
                let is_in = written.op == Op::DomainIn;
                let of = self.members(Kind::Host, value, written.provenance, is_in)?;
                if !matches!(kind, Kind::Text | Kind::Host | Kind::Address) {
                    return Err(ConditionError::NoDomain);
                }
                Test::Domain { of, is_in }
            }
            (Op::LinksNotIn, Some(value)) if kind == Kind::Text => {
                Test::LinksNotIn(self.members(Kind::Host, value, written.provenance, false)?)
            }
            (Op::LinksNotIn, Some(_)) => return Err(ConditionError::NoLinks),
            (op, Some(value)) if kind.is_number() => Test::Number(numbers(kind, op, value)?),
            (Op::Eq | Op::Neq, Some(Operand::One(Scalar::Flag(flag)))) if kind == Kind::Flag => {
                Test::Flag(*flag == (written.op == Op::Eq))
            }
            (Op::Eq | Op::Neq, Some(Operand::One(Scalar::Text(text)))) if kind != Kind::Flag => {
                let of = listed(kind, std::slice::from_ref(text))?;
                Test::Member {
                    kind,
                    of,
                    is_in: written.op == Op::Eq,
                }
            }
            (Op::In | Op::NotIn, Some(value)) if kind != Kind::Flag => {
                let is_in = written.op == Op::In;
                let of = self.members(kind, value, written.provenance, is_in)?;
                Test::Member { kind, of, is_in }
            }
            _ => return Err(ConditionError::Unfit),
        };
        if written.provenance.is_some() && !uses_a_set(&test) {
            return Err(ConditionError::NoSet);
        }
        let threshold = match (&test, written.op, &written.value) {
            (Test::Number(_), Op::Gt | Op::Gte | Op::Lt | Op::Lte, Some(Operand::One(value))) => {
                Some(number(kind, value)?)
            }
            _ => None,
        };
        check_bounds(written, threshold)?;
        Ok((reading, test, threshold))
    }

    /// Returns the listed texts, or the named set.
    fn members(
        &self,
        kind: Kind,
        value: &Operand,
        provenance: Option<Provenance>,
        is_in: bool,
    ) -> Result<Members, ConditionError> {
        let name = match value {
            Operand::Many(values) => {
                let texts: Option<Vec<String>> = values
                    .iter()
                    .map(|value| match value {
                        Scalar::Text(text) => Some(text.clone()),
                        _ => None,
                    })
                    .collect();
                return listed(kind, &texts.ok_or(ConditionError::NotTexts)?);
            }
            Operand::One(Scalar::Text(name)) => SetName::parse(name)?,
            Operand::One(_) => {
                return Err(ConditionError::Is("value", "a list, or the name of a set"));
            }
        };
        let Some(set) = self.sets.get(&name) else {
            let known = self.sets.keys().map(|name| name.as_str());
            let near = did_you_mean(name.as_str(), known, "");
            return Err(ConditionError::UnknownSet(name, near));
        };
        let same_kind = match (set.kind.kind(), kind) {
            (Kind::Word(_) | Kind::Name(_), Kind::Word(_) | Kind::Name(_)) => true,
            (of_set, wanted) => of_set == wanted,
        };
        if !same_kind {
            return Err(ConditionError::SetKind(name));
        }
        // Otherwise an approval for one request would make rules act on other requests.
        if is_in && set.grows != Grows::Never {
            return Err(ConditionError::SetGrows(name));
        }
        let seen_too = match provenance {
            None => false,
            Some(Provenance::Seen) => true,
            Some(_) => return Err(ConditionError::NotSeen),
        };
        Ok(Members::Named {
            set: Arc::clone(set),
            seen_too,
        })
    }
}

impl Program {
    /// Returns the index of a fact, which is added if it is new.
    fn slot(&mut self, reading: Reading) -> usize {
        self.readings
            .iter()
            .position(|known| *known == reading)
            .unwrap_or_else(|| {
                let slot = self.readings.len();
                let name = reading.to_string();
                let place = self.named.partition_point(|(other, _)| *other < name);
                self.named.insert(place, (name, slot));
                self.readings.push(reading);
                slot
            })
    }

    /// Returns the facts of a request with their names, in the order of names.
    pub fn named<'f, 'a>(
        &self,
        facts: &'f [Fact<'a>],
    ) -> impl Iterator<Item = (&str, &'f Fact<'a>)> {
        self.named
            .iter()
            .filter_map(|(name, slot)| Some((name.as_str(), facts.get(*slot)?)))
    }
}

fn uses_a_set(test: &Test) -> bool {
    matches!(
        test,
        Test::Member {
            of: Members::Named { .. },
            ..
        } | Test::Domain {
            of: Members::Named { .. },
            ..
        } | Test::LinksNotIn(Members::Named { .. })
    )
}

fn same_name(path: &str, name: &str) -> Result<(), RulebookError> {
    let stem = path
        .rsplit('/')
        .next()
        .and_then(|file| file.strip_suffix(".yaml"));
    if stem == Some(name) {
        return Ok(());
    }
    Err(RulebookError::new(
        path,
        None,
        format!("says it is `{name}`; file name and name must be the same"),
    ))
}

/// Returns the field of this name if requests of this action have it.
fn field_of(name: &str, action: &str) -> Result<&'static Field, ConditionError> {
    let bare = name.strip_suffix("[]");
    let field = field::find(bare.unwrap_or(name))
        .ok_or_else(|| ConditionError::NoField(name.to_owned()))?;
    match (field.is_many, bare) {
        (true, None) => Err(ConditionError::Array(field.name)),
        (false, Some(_)) => Err(ConditionError::NotArray(field.name)),
        _ if field.is_of(action) => Ok(field),
        _ => Err(ConditionError::OtherAction {
            action: action.to_owned(),
            field: field.name,
        }),
    }
}

fn reading(written: &ConditionFile, action: &str) -> Result<Reading, ConditionError> {
    let window = || match written.window_s {
        Some(window_s) if (1..=WINDOW_S_MAX).contains(&window_s) => Ok(window_s),
        Some(_) => Err(ConditionError::WindowLength),
        None => Err(ConditionError::Is("window_s", "missing")),
    };
    let of = || match &written.of {
        Some(of) => field_of(of, action),
        None => Err(ConditionError::Is("of", "missing")),
    };
    let reading = match written.field.as_str() {
        "history.count" if written.of.is_none() => Reading::Count {
            window_s: window()?,
        },
        "history.count" => return Err(ConditionError::CountOf),
        "history.sum" => {
            let of = of()?;
            if !matches!(of.kind, Kind::Number(..)) || of.is_many {
                return Err(ConditionError::Is("of", "no single number"));
            }
            Reading::Sum {
                of,
                window_s: window()?,
            }
        }
        "history.distinct" => Reading::Distinct {
            of: of()?,
            window_s: window()?,
        },
        name => {
            if written.window_s.is_some() || written.of.is_some() {
                return Err(ConditionError::NotHistory);
            }
            Reading::Field(field_of(name, action)?)
        }
    };
    Ok(reading)
}

fn first_seen(reading: Reading) -> Result<Reading, ConditionError> {
    match reading {
        Reading::Field(field) if !field.kind.is_number() && field.kind != Kind::Flag => {
            Ok(Reading::FirstSeen(field))
        }
        _ => Err(ConditionError::NeverFirst),
    }
}

fn listed(kind: Kind, texts: &[String]) -> Result<Members, ConditionError> {
    let mut folded = BTreeSet::new();
    for text in texts {
        if let Kind::Word(known) = kind
            && !known.contains(&text.as_str())
        {
            let text = text.clone();
            return Err(ConditionError::UnknownWord { text, known });
        }
        let value = kind
            .entry(text)
            .ok_or_else(|| ConditionError::NotComparable(text.clone()))?;
        if !folded.insert(value.into_owned()) {
            return Err(ConditionError::Twice(text.clone()));
        }
    }
    if folded.is_empty() {
        return Err(ConditionError::EmptyList);
    }
    Ok(Members::Listed(folded.into()))
}

fn pattern(kind: Kind, value: &Operand) -> Result<Pattern, ConditionError> {
    let Operand::One(Scalar::Text(text)) = value else {
        return Err(ConditionError::Is("value", "a regular expression"));
    };
    if kind.is_number() || kind == Kind::Flag {
        return Err(ConditionError::NotMatched);
    }
    Ok(compiled(text, PATTERN_SIZE_MAX)?)
}

/// Compiles a regular expression, within bounds that keep matching time and memory small.
///
/// # Errors
/// Returns [`PatternError`] if the expression is too long, too large or not valid.
pub fn compiled(text: &str, bytes_max: usize) -> Result<Pattern, PatternError> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(PatternError::TooLong);
    }
    let build = |text: &str| {
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(bytes_max).nest_limit(32).build()
    };
    build(text).map(Pattern).map_err(|fault| match fault {
        regex::Error::CompiledTooBig(_) => PatternError::TooLarge {
            bytes_max,
            hint: smaller(text, |text| build(text).is_ok()),
        },
        fault => PatternError::Invalid(fault),
    })
}

/// Classes that have the letters of all scripts, with what they mean and what has ASCII's alone.
const WIDE: [(&str, &str, &str); 4] = [
    (r"\d", "the digits of all scripts", "[0-9]"),
    (r"\w", "the letters of all scripts", "[0-9A-Za-z_]"),
    (r"\b", "the ends of words of all scripts", r"(?-u:\b)"),
    (r"\s", "the spaces of all scripts", r"[ \t]"),
];

/// Returns what would make an expression fit, as the end of a message.
fn smaller(text: &str, fits: impl Fn(&str) -> bool) -> String {
    let mut narrow = text.to_owned();
    for (wide, means, ascii) in WIDE {
        if !text.contains(wide) {
            continue;
        }
        if fits(&text.replace(wide, ascii)) {
            return format!(": `{wide}` means {means}; `{ascii}` would fit");
        }
        narrow = narrow.replace(wide, ascii);
        if fits(&narrow) {
            return format!(": its classes mean the letters of all scripts; `{narrow}` would fit");
        }
    }
    "; make it shorter".to_owned()
}

fn number(kind: Kind, value: &Scalar) -> Result<Amount, ConditionError> {
    let number = match (kind, value) {
        (Kind::TimeOfDay, Scalar::Text(text)) => {
            let minute =
                Minute::parse(text).ok_or_else(|| match Minute::parse(&format!("0{text}")) {
                    Some(_) => ConditionError::OneDigit(text.clone()),
                    None => ConditionError::TimeOfDay("21:55"),
                })?;
            Amount::from_i64(i64::from(minute.minutes()))
        }
        (Kind::TimeOfDay, _) => return Err(ConditionError::TimeOfDay("\"21:55\"")),
        (_, Scalar::Number(number)) => *number,
        (_, Scalar::Text(text)) => Amount::parse_wire(text)?,
        (_, Scalar::Flag(_)) => return Err(ConditionError::Is("value", "a number")),
    };
    if matches!(kind, Kind::Whole(..)) && number.is_multiple_of(Amount::ONE) != Some(true) {
        return Err(ConditionError::Is("value", "a whole number"));
    }
    Ok(number)
}

fn numbers(kind: Kind, op: Op, value: &Operand) -> Result<Ranges, ConditionError> {
    let one = || match value {
        Operand::One(value) => number(kind, value),
        Operand::Many(_) => Err(ConditionError::Is("value", "one number")),
    };
    let ranges = match op {
        Op::Eq => Ranges::only(one()?),
        Op::Neq => Ranges::only(one()?).complement(),
        Op::Gt => Ranges::between(End::Without(one()?), End::Open),
        Op::Gte => Ranges::between(End::With(one()?), End::Open),
        Op::Lt => Ranges::between(End::Open, End::Without(one()?)),
        Op::Lte => Ranges::between(End::Open, End::With(one()?)),
        Op::In | Op::NotIn => {
            let Operand::Many(values) = value else {
                return Err(ConditionError::Is("value", "a list"));
            };
            if values.is_empty() {
                return Err(ConditionError::EmptyList);
            }
            let mut parts = Vec::new();
            for value in values {
                match (kind, value) {
                    (Kind::TimeOfDay, Scalar::Text(text)) if text.contains('-') => {
                        parts.extend(window(text)?)
                    }
                    _ => {
                        let number = End::With(number(kind, value)?);
                        parts.push(Range {
                            low: number,
                            high: number,
                        });
                    }
                }
            }
            let ranges = Ranges::of(parts);
            if op == Op::In {
                ranges
            } else {
                ranges.complement()
            }
        }
        _ => return Err(ConditionError::NumberOperator),
    };
    Ok(ranges)
}

/// The end of a window that lasts until the end of the day.
const MIDNIGHT: &str = "24:00";

/// Parses `HH:MM-HH:MM`: from the first minute up to, but not including, the second. The window
/// spans midnight if the second is earlier.
fn window(text: &str) -> Result<Vec<Range>, ConditionError> {
    let (from, to) = text.split_once('-').ok_or(ConditionError::Window)?;
    let minute = |text: &str| number(Kind::TimeOfDay, &Scalar::Text(text.to_owned()));
    let from = minute(from)?;
    if to == MIDNIGHT {
        return Ok(vec![Range {
            low: End::With(from),
            high: End::Open,
        }]);
    }
    let to = minute(to)?;
    if from == to {
        return Err(ConditionError::AmbiguousWindow);
    }
    let (begins, ends) = (End::With(from), End::Without(to));
    if from < to {
        return Ok(vec![Range {
            low: begins,
            high: ends,
        }]);
    }
    Ok(vec![
        Range {
            low: begins,
            high: End::Open,
        },
        Range {
            low: End::Open,
            high: ends,
        },
    ])
}

fn check_bounds(written: &ConditionFile, threshold: Option<Amount>) -> Result<(), ConditionError> {
    if written.min.is_none() && written.max.is_none() {
        return Ok(());
    }
    let Some(threshold) = threshold else {
        return Err(ConditionError::NoThreshold);
    };
    let is_within = written.min.is_none_or(|min| *min <= threshold)
        && written.max.is_none_or(|max| threshold <= *max);
    if is_within {
        Ok(())
    } else {
        Err(ConditionError::Is("value", "not between `min` and `max`"))
    }
}

/// Returns why the fact of a reading may have no value.
pub fn missing(reading: &Reading) -> Missing {
    match reading {
        Reading::Field(field) => field.missing,
        // If the request may leave the field out, this fact may be absent too; otherwise the
        // history may be unknown.
        Reading::FirstSeen(field) if field.missing == Missing::Absent => Missing::Absent,
        Reading::FirstSeen(_)
        | Reading::Count { .. }
        | Reading::Sum { .. }
        | Reading::Distinct { .. } => Missing::Unknown,
    }
}
