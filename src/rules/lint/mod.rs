//! Everything that is wrong with rule files and sets, not only the first of it. The gate itself refuses a rulebook over
//! the first; people who write rules want to see all.

pub mod meaning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::rules::rule::file::{ConditionFile, Operand, Scalar};
use crate::rules::rule::ruleset::Rule;
use crate::rules::rule::set::SetFile;
use crate::rules::rule::{NamedSet, RuleFile, RuleSet};
use crate::rules::rulebook::RulebookError;
use crate::rules::yaml;
use crate::wire::ids::{RuleId, SetName};

/// One fault of a file.
pub type Fault = RulebookError;

/// A file of rules, golden cases or a set: path below a home, and text.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Such as `rules/core/x.yaml`.
    pub path: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// What rule files and sets came to.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// Rules without fault, with the sets without fault.
    pub rules: RuleSet,
    /// Every set file of the right shape, with its path and text.
    pub sets: Vec<(String, String, SetFile)>,
    /// Every fault, file by file.
    pub faults: Vec<Fault>,
}

/// Whether the path is that of a rule.
pub fn is_rule(path: &str) -> bool {
    is_directly_below(path, "rules/core/") || is_directly_below(path, "rules/active/")
}

/// Whether the path is that of a set.
pub fn is_set(path: &str) -> bool {
    is_directly_below(path, "rules/sets/")
}

fn is_directly_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.ends_with(".yaml") && !rest.contains('/'))
}

/// Reads each file on its own, then all together.
pub fn read(files: &[File<'_>]) -> Read {
    let mut read = Read::default();
    let mut broken = BTreeSet::new();
    for file in files.iter().filter(|file| is_set(file.path)) {
        if !read_set(&mut read, file) {
            let stem = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".yaml"));
            broken.extend(stem.map(str::to_owned));
        }
    }
    let mut sound: Vec<Rule> = Vec::new();
    let mut by_id: BTreeMap<RuleId, String> = BTreeMap::new();
    for file in files.iter().filter(|file| is_rule(file.path)) {
        match RuleFile::read(file.path, file.text) {
            Err(fault) => read.faults.push(fault),
            Ok(rule) => {
                let rule = Rule { path: file.path.to_owned(), text: file.text.to_owned(), file: rule };
                let mut faults = faults_of(&read.rules, &rule, &broken);
                if let Some(other) = by_id.get(&rule.file.id) {
                    let message = format!("rule `{}` is in `{other}` too", rule.file.id);
                    faults.push(Fault::new(file.path, line_of_key(file.text, "id"), message));
                }
                by_id.entry(rule.file.id.clone()).or_insert_with(|| file.path.to_owned());
                let names_broken = rule.file.when.iter().any(|condition| names_one_of(condition, &broken));
                if faults.is_empty() && !names_broken {
                    sound.push(rule);
                }
                read.faults.append(&mut faults);
            }
        }
    }
    let texts = |is_wanted: fn(&str) -> bool| files.iter().filter(move |file| is_wanted(file.path));
    let of_rules = sound.iter().map(|rule| (rule.path.as_str(), rule.text.as_str()));
    let of_sets = texts(is_set).filter(|file| !broken.iter().any(|stem| has_name(file.path, stem)));
    match RuleSet::compile(of_rules, of_sets.map(|file| (file.path, file.text))) {
        Ok(rules) => read.rules = rules,
        Err(fault) => read.faults.push(fault),
    }
    read
}

/// Reads a set; tells whether it can be used.
fn read_set(read: &mut Read, file: &File<'_>) -> bool {
    let before = read.faults.len();
    let set: SetFile = match yaml::read(file.path, file.text) {
        Ok(set) => set,
        Err(fault) => {
            read.faults.push(fault);
            return false;
        }
    };
    let mut fail = |near: &str, from: usize, message: String| {
        read.faults.push(Fault::new(file.path, line_from(file.text, near, from).0, message));
    };
    if !has_name(file.path, set.name.as_str()) {
        fail("name", 0, format!("says it is `{}`; file name and name must be the same", set.name));
    }
    let mut folded = BTreeSet::new();
    let mut from = 0;
    for entry in &set.entries {
        let value = &entry.value;
        match set.kind.kind().fold(value) {
            None => {
                let what =
                    "cannot be compared with anything: not of the set's kind, or with look-alike letters";
                fail(value, from, format!("`{value}` {what}"));
            }
            Some(text) => {
                if !folded.insert(text.into_owned()) {
                    fail(value, from, format!("`{value}` stands twice"));
                }
            }
        }
        from = line_from(file.text, value, from).1;
    }
    let is_sound = read.faults.len() == before;
    if is_sound {
        match NamedSet::compile(file.path, file.text) {
            Ok(compiled) => {
                read.rules.sets.insert(set.name.clone(), Arc::new(compiled));
            }
            Err(fault) => read.faults.push(fault),
        }
    }
    read.sets.push((file.path.to_owned(), file.text.to_owned(), set));
    read.faults.len() == before
}

/// Faults of one rule: of its head, then of each condition.
fn faults_of(sets: &RuleSet, rule: &Rule, broken: &BTreeSet<String>) -> Vec<Fault> {
    let alone = |when: Vec<ConditionFile>| {
        let sets = RuleSet { sets: sets.sets.clone(), ..RuleSet::default() };
        let file = RuleFile { when, ..rule.file.clone() };
        sets.with(Rule { file, ..rule.clone() }).err()
    };
    let mut faults = Vec::new();
    if !has_name(&rule.path, rule.file.id.as_str()) {
        let message = format!("says it is `{}`; file name and name must be the same", rule.file.id);
        faults.push(Fault::new(&rule.path, line_of_key(&rule.text, "id"), message));
    }
    if let Some(fault) = alone(Vec::new()) {
        // Without a sound head nothing can be said of conditions.
        faults.push(fault);
        return faults;
    }
    let lines = condition_lines(rule);
    for (condition, line) in rule.file.when.iter().zip(lines) {
        // What is wrong with the set is said there.
        if names_one_of(condition, broken) {
            continue;
        }
        if let Some(fault) = alone(vec![condition.clone()]) {
            faults.push(Fault { line: line.or(fault.line), ..fault });
        }
    }
    if faults.is_empty()
        && !rule.file.when.iter().any(|condition| names_one_of(condition, broken))
        && let Some(fault) = alone(rule.file.when.clone())
    {
        faults.push(fault);
    }
    faults
}

fn names_one_of(condition: &ConditionFile, names: &BTreeSet<String>) -> bool {
    named_set(condition).is_some_and(|name| names.contains(name.as_str()))
}

/// The set that a condition names, if its value is a single text and its operator takes a list.
pub fn named_set(condition: &ConditionFile) -> Option<SetName> {
    use crate::rules::rule::file::Op;
    match (condition.op, &condition.value) {
        (
            Op::In | Op::NotIn | Op::DomainIn | Op::DomainNotIn | Op::LinksNotIn,
            Some(Operand::One(Scalar::Text(name))),
        ) => SetName::parse(name).ok(),
        _ => None,
    }
}

/// The line of each condition, from 1: fields in the order that they stand in behind `when`.
pub fn condition_lines(rule: &Rule) -> Vec<Option<usize>> {
    let mut from = rule.text.find("when").unwrap_or(0);
    let lines = rule.file.when.iter().map(|condition| {
        let (line, after) = line_from(&rule.text, &condition.field, from);
        from = after;
        line
    });
    lines.collect()
}

/// The line of the top-level key.
pub fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    text.lines().position(is_key).map(|at| at.saturating_add(1))
}

/// The line of the first `what` at or after the byte `from`, and the byte behind it.
pub fn line_from(text: &str, what: &str, from: usize) -> (Option<usize>, usize) {
    let found = text.get(from..).and_then(|rest| rest.find(what));
    let Some(at) = found.map(|at| from.saturating_add(at)) else { return (None, from) };
    let before = text.get(..at).unwrap_or_default();
    let line = before.bytes().filter(|byte| *byte == b'\n').count().saturating_add(1);
    (Some(line), at.saturating_add(what.len()))
}

fn has_name(path: &str, name: &str) -> bool {
    path.rsplit('/').next().and_then(|file| file.strip_suffix(".yaml")) == Some(name)
}
