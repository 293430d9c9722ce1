//! What a rulebook must be besides valid before it comes into force: its rules must be able to do
//! what they say. Compiling is more lenient, because replay compiles whatever old lines name.
//!
//! A registry without names checks nothing: a home without instruments, for example, accepts no order,
//! so it does not matter that no rule about orders acts. Suspended and retired rules may name what is
//! gone.

use std::collections::BTreeMap;
use std::fmt;

use serde_yaml::Value;

use crate::bundle::Bundle;
use crate::lint::meaning::{Warning, What as About};
use crate::lint::{line_of_key, named_set};
use crate::nearest::nearest;
use crate::rule::field::{self, Field, Kind};
use crate::rule::file::{ConditionFile, Op, Operand, Scalar, line_of, line_of_condition};
use crate::rule::registry::Registry;
use crate::rule::ruleset::Rule;
use crate::rule::{RuleFile, RuleStatus, historic};
use crate::rulebook::{Rulebook, RulebookError};
use spoolgate_wire::ids::SetName;

/// Most words of a file that are tried as bare numbers: each costs parsing the file again.
const TRIED_MAX: usize = 64;

/// Why a rulebook does not come into force, although it compiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path of the file below the home.
    pub file: String,
    /// Line, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: What,
    /// What to do about it.
    pub remedy: String,
}

/// What is wrong with a rule that compiles.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum What {
    /// No file has the name, so the condition never holds, or always does.
    #[error("{place}: there is no {} `{name}`", .registry.noun())]
    UnknownName {
        /// Where the rule names it.
        place: Place,
        /// The files that list such names.
        registry: Registry,
        /// The name.
        name: String,
    },
    /// No history is kept of the field, so the fact is never known and the rule always acts.
    #[error(
        "condition on `{field}`: no history is kept of {}requests of `{action}`",
        .of.map_or_else(String::new, |of| format!("`{}` in ", of.written()))
    )]
    NoHistory {
        /// The field of the condition.
        field: String,
        /// The field that it looks back at; `None` if it counts the requests.
        of: Option<&'static Field>,
        /// The action.
        action: String,
    },
    /// The field has another name now.
    #[error("`{0}` was renamed")]
    Renamed(&'static str),
    /// `when` has no value.
    #[error("`when` has no value")]
    NullWhen,
    /// A number that not every reader of YAML takes for this number.
    #[error("`{0}` is not a number to every reader of YAML")]
    BareNumber(String),
    /// A character that YAML takes for the end of a line.
    #[error("U+0085 ends a line in YAML and is not seen")]
    LineBreak,
}

/// Where a rule has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A key of `applies_to`.
    Scope(&'static str),
    /// The condition on this field.
    Condition(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Scope(key) => write!(f, "`applies_to.{key}`"),
            Place::Condition(field) => write!(f, "condition on `{field}`"),
        }
    }
}

impl From<Fault> for RulebookError {
    fn from(fault: Fault) -> RulebookError {
        let message = format!("{}; {}", fault.what, fault.remedy);
        RulebookError::new(fault.file, fault.line, message)
    }
}

impl Rulebook {
    /// Compiles a bundle that is to come into force.
    ///
    /// # Errors
    /// Returns the fault of [`Rulebook::compile`], or the first of [`Rulebook::admit`].
    pub fn compile_to_apply(bundle: &Bundle) -> Result<Rulebook, RulebookError> {
        let book = Rulebook::compile(bundle)?;
        match book.admit().into_iter().next() {
            Some(fault) => Err(fault.into()),
            None => Ok(book),
        }
    }

    /// Returns every fault for which this rulebook may not come into force, although it compiles.
    /// Replay never asks.
    pub fn admit(&self) -> Vec<Fault> {
        let rules = self.ruleset.rules.values();
        rules.flat_map(|rule| self.admit_rule(rule)).collect()
    }

    /// Returns the faults of one of its rules.
    pub fn admit_rule(&self, rule: &Rule) -> Vec<Fault> {
        let mut faults = written(rule);
        faults
            .extend(self.unknown_names(rule, |registry, known| registry.is_closed() && known > 0));
        faults
    }

    /// Returns warnings about names that no file lists where that is no fault: requests may bring
    /// such a name, or there are no such names at all.
    pub fn doubts(&self) -> Vec<Warning> {
        let rules = self.ruleset.rules.values();
        let doubted = rules.flat_map(|rule| {
            self.unknown_names(rule, |registry, known| {
                registry != Registry::Open && (!registry.is_closed() || known == 0)
            })
        });
        let doubted = doubted.map(RulebookError::from);
        let in_sets = self.doubted_entries();
        let warnings = doubted.chain(in_sets).map(|at| Warning {
            what: About::UnknownName,
            at,
        });
        warnings.collect()
    }

    /// Returns entries of sets that differ from names of the field that a rule compares only in the
    /// case of letters.
    fn doubted_entries(&self) -> Vec<RulebookError> {
        let mut found: BTreeMap<(&SetName, &str), RulebookError> = BTreeMap::new();
        let rules = self.ruleset.rules.values();
        for condition in rules
            .filter(|rule| is_evaluated(&rule.file))
            .flat_map(|rule| &rule.file.when)
        {
            let Some(Kind::Name(registry)) = field_in(&condition.field).map(|field| field.kind)
            else {
                continue;
            };
            let set = named_set(condition).and_then(|name| self.ruleset.sets.get(&name));
            let known = registry.names(self);
            if registry == Registry::Open || known.is_empty() {
                continue;
            }
            let Some(set) = set else { continue };
            for name in set.values.keys() {
                // A set may list more than this home has, but hardly the same in other letters.
                let other = known.iter().find(|it| it.eq_ignore_ascii_case(name));
                let Some(near) = other.filter(|_| !known.contains(name.as_str())) else {
                    continue;
                };
                let path = format!("rules/sets/{}.yaml", set.name);
                let line = self.files.files.get(&path);
                let line = line.and_then(|text| line_of(text, name));
                let (noun, field) = (registry.noun(), &condition.field);
                let message = format!(
                    "there is no {noun} `{name}`, and a rule compares `{field}` with it; did you \
                        mean `{near}`?"
                );
                found
                    .entry((&set.name, name.as_str()))
                    .or_insert_with(|| RulebookError::new(&path, line, message));
            }
        }
        found.into_values().collect()
    }

    /// Returns the names in a rule that no file lists, for registries that are wanted, given the
    /// number of names that they have.
    fn unknown_names(&self, rule: &Rule, wanted: impl Fn(Registry, usize) -> bool) -> Vec<Fault> {
        if !is_evaluated(&rule.file) {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for (place, line, registry, name) in names(rule) {
            let known = registry.names(self);
            if !wanted(registry, known.len()) || known.contains(name) {
                continue;
            }
            let remedy = match nearest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{} has no such name", registry.place()),
            };
            faults.push(Fault {
                file: rule.path.clone(),
                line,
                remedy,
                what: What::UnknownName {
                    place,
                    registry,
                    name: name.to_owned(),
                },
            });
        }
        faults
    }
}

fn is_evaluated(file: &RuleFile) -> bool {
    matches!(file.status, RuleStatus::Active | RuleStatus::Shadow)
}

/// Returns every name in a rule: where it stands, its line, and the files that should list it.
fn names(rule: &Rule) -> Vec<(Place, Option<usize>, Registry, &str)> {
    let scope = &rule.file.applies_to;
    let mut names = Vec::new();
    let line = line_of(&rule.text, "applies_to");
    for name in scope.strategy.iter().flatten() {
        let place = Place::Scope("strategy");
        names.push((place, line, Registry::Strategy, name.as_str()));
    }
    for name in scope.principal.iter().flatten() {
        let place = Place::Scope("principal");
        names.push((place, line, Registry::Principal, name.as_str()));
    }
    for (nth, condition) in rule.file.when.iter().enumerate() {
        let Some(Kind::Name(registry)) = field_in(&condition.field).map(|field| field.kind) else {
            continue;
        };
        let line = line_of_condition(&rule.text, nth, &condition.field);
        for name in compared(condition) {
            let place = Place::Condition(condition.field.clone());
            names.push((place, line, registry, name));
        }
    }
    names
}

/// Returns the texts that a condition compares with letter by letter.
fn compared(condition: &ConditionFile) -> Vec<&str> {
    let values = match (condition.op, &condition.value) {
        (Op::Eq | Op::Neq, Some(Operand::One(value))) => std::slice::from_ref(value),
        (Op::In | Op::NotIn, Some(Operand::Many(values))) => values.as_slice(),
        _ => &[],
    };
    let texts = values.iter().filter_map(|value| match value {
        Scalar::Text(text) => Some(text.as_str()),
        Scalar::Number(_) | Scalar::Flag(_) => None,
    });
    texts.collect()
}

fn field_in(written: &str) -> Option<&'static Field> {
    field::find(written.strip_suffix("[]").unwrap_or(written))
}

/// Returns the faults of a rule that can be found without the rest of the rulebook.
pub fn written(rule: &Rule) -> Vec<Fault> {
    let fault = |line, what, remedy: String| Fault {
        file: rule.path.clone(),
        line,
        what,
        remedy,
    };
    let mut faults = in_text(&rule.path, &rule.text);
    if let Some((line, number)) = bare_number(&rule.text) {
        let remedy = "write it in digits alone, such as `0.5`".to_owned();
        faults.push(fault(line, What::BareNumber(number.to_owned()), remedy));
    }
    if !is_evaluated(&rule.file) {
        return faults;
    }
    for (nth, condition) in rule.file.when.iter().enumerate() {
        let line = line_of_condition(&rule.text, nth, &condition.field);
        let read = [Some(condition.field.as_str()), condition.of.as_deref()];
        for field in read.into_iter().flatten().filter_map(field_in) {
            if let Some(now) = field.renamed() {
                let remedy = format!("write `{now}`");
                faults.push(fault(line, What::Renamed(field.name), remedy));
            }
        }
        for action in &rule.file.applies_to.action {
            let Some(of) = without_history(condition, action) else {
                continue;
            };
            let kept = historic::paths(action).unwrap_or_default();
            let remedy = match kept {
                [] => "this action has no history".to_owned(),
                kept => {
                    let kept: Vec<String> = kept
                        .iter()
                        .map(|(name, _)| field::find(name).map_or_else(String::new, Field::written))
                        .collect();
                    format!("it is kept of {}", kept.join(", "))
                }
            };
            let (field, action) = (condition.field.clone(), action.clone());
            faults.push(fault(line, What::NoHistory { field, of, action }, remedy));
        }
    }
    faults
}

/// Returns what a condition looks back at, if no history is kept of it: a field, or `None` for the
/// requests themselves.
fn without_history(condition: &ConditionFile, action: &str) -> Option<Option<&'static Field>> {
    let of = match (condition.field.as_str(), condition.op) {
        ("history.count", _) => return historic::paths(action).is_none().then_some(None),
        ("history.sum" | "history.distinct", _) => condition.of.as_deref()?,
        (field, Op::FirstSeen) => field,
        _ => return None,
    };
    let field = field_in(of)?;
    (!historic::is_kept(action, field.name)).then_some(Some(field))
}

/// Returns the faults of the text of a rule, in a file or in a proposal.
pub fn in_text(path: &str, text: &str) -> Vec<Fault> {
    let mut faults = Vec::new();
    let lines = (1..).zip(text.split('\n'));
    for (line, words) in lines {
        // Inside quotes, YAML folds it into a space.
        if words.contains('\u{85}') {
            faults.push(Fault {
                file: path.to_owned(),
                line: Some(line),
                what: What::LineBreak,
                remedy: "remove it".to_owned(),
            });
        }
    }
    // The library reads nothing at all as an empty list, and refuses `~` and `null`.
    let is_null = |value: Value| value.get("when").is_some_and(Value::is_null);
    if serde_yaml::from_str::<Value>(text).is_ok_and(is_null) {
        faults.push(Fault {
            file: path.to_owned(),
            line: line_of_key(text, "when"),
            what: What::NullWhen,
            remedy: "a rule that always acts has `when: []`".to_owned(),
        });
    }
    faults
}

/// Returns the first bare number that YAML 1.1 and 1.2 read differently, or that people do, with
/// its line.
fn bare_number(text: &str) -> Option<(Option<usize>, &str)> {
    let is_end = |c: char| c.is_whitespace() || ",:[]{}\"'#".contains(c);
    let numbers = numbers_in(text)?;
    let odd = text.split(is_end).filter(|word| is_odd(word));
    odd.take(TRIED_MAX).find_map(|word| {
        let at = word.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
        let (before, behind) = (text.get(..at)?, text.get(at.checked_add(word.len())?..)?);
        // It is a number if quotes make it another value, not another part of a text.
        let quoted = numbers_in(&format!("{before}\"{word}\"{behind}"))?;
        let line = before.matches('\n').count().saturating_add(1);
        (quoted < numbers).then_some((Some(line), word))
    })
}

/// Returns whether a word is such a number, if it is a number at all.
fn is_odd(word: &str) -> bool {
    let unsigned = word.strip_prefix(['-', '+']).unwrap_or(word);
    let is_number = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.contains(|c: char| c.is_ascii_digit());
    is_number
        && (word.starts_with('+')
            || unsigned.starts_with('.')
            || unsigned.contains(|c: char| c.is_ascii_alphabetic()))
}

/// Returns how many numbers a text has; `None` if it is not YAML.
fn numbers_in(text: &str) -> Option<usize> {
    fn count(value: &Value) -> usize {
        match value {
            Value::Number(_) => 1,
            Value::Sequence(values) => values.iter().map(count).sum(),
            Value::Mapping(members) => members.values().map(count).sum(),
            Value::Tagged(tagged) => count(&tagged.value),
            Value::Null | Value::Bool(_) | Value::String(_) => 0,
        }
    }
    serde_yaml::from_str::<Value>(text).ok().as_ref().map(count)
}

#[cfg(test)]
mod tests;
