//! Finds all faults in rule files and sets. The gate refuses a rulebook at the first fault; authors
//! want to see all of them.

pub mod council;
pub mod meaning;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::rule::file::{ConditionFile, Operand, Scalar};
use crate::rule::ruleset::Rule;
use crate::rule::set::SetFile;
use crate::rule::{NamedSet, RuleFile, RuleSet};
use crate::rulebook::RulebookError;
use crate::yaml;
use spoolgate_wire::ids::{RuleId, SetName};

/// A fault in a file.
pub type Fault = RulebookError;

/// A rule file, a set file or a file of golden cases.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Path below the home, such as `rules/core/x.yaml`.
    pub path: &'a str,
    /// Its text.
    pub text: &'a str,
}

/// The result of reading rule files and sets.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The rules and sets without faults.
    pub rules: RuleSet,
    /// Every set file that could be parsed, with its path and text.
    pub sets: Vec<(String, String, SetFile)>,
    /// All faults, file by file.
    pub faults: Vec<Fault>,
}

/// Returns whether the path is the path of a rule file.
pub fn is_rule(path: &str) -> bool {
    is_directly_below(path, "rules/core/") || is_directly_below(path, "rules/active/")
}

/// Returns whether the path is the path of a set file.
pub fn is_set(path: &str) -> bool {
    is_directly_below(path, "rules/sets/")
}

fn is_directly_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.ends_with(".yaml") && !rest.contains('/'))
}

/// Reads each file by itself, then compiles all sound files together.
pub fn read(files: &[File<'_>]) -> Read {
    let mut read = Read::default();
    let mut broken = BTreeSet::new();
    for file in files.iter().filter(|file| is_set(file.path)) {
        if !read_set(&mut read, file) {
            let stem = file
                .path
                .rsplit('/')
                .next()
                .and_then(|name| name.strip_suffix(".yaml"));
            broken.extend(stem.map(str::to_owned));
        }
    }
    let mut sound: Vec<Rule> = Vec::new();
    let mut by_id: BTreeMap<RuleId, String> = BTreeMap::new();
    for file in files.iter().filter(|file| is_rule(file.path)) {
        match RuleFile::read(file.path, file.text) {
            Err(fault) => read.faults.push(fault),
            Ok(rule) => {
                let rule = Rule {
                    path: file.path.to_owned(),
                    text: file.text.to_owned(),
                    file: rule,
                };
                let mut faults = faults_of(&read.rules, &rule, &broken);
                if let Some(other) = by_id.get(&rule.file.id) {
                    let message = format!("rule `{}` is in `{other}` too", rule.file.id);
                    faults.push(Fault::new(file.path, line_of_key(file.text, "id"), message));
                }
                by_id
                    .entry(rule.file.id.clone())
                    .or_insert_with(|| file.path.to_owned());
                let names_broken = rule
                    .file
                    .when
                    .iter()
                    .any(|condition| names_one_of(condition, &broken));
                if faults.is_empty() && !names_broken {
                    sound.push(rule);
                }
                read.faults.append(&mut faults);
            }
        }
    }
    let texts = |is_wanted: fn(&str) -> bool| files.iter().filter(move |file| is_wanted(file.path));
    let of_rules = sound
        .iter()
        .map(|rule| (rule.path.as_str(), rule.text.as_str()));
    let of_sets = texts(is_set).filter(|file| !broken.iter().any(|stem| has_name(file.path, stem)));
    match RuleSet::compile(of_rules, of_sets.map(|file| (file.path, file.text))) {
        Ok(rules) => read.rules = rules,
        Err(fault) => read.faults.push(fault),
    }
    read
}

/// Reads a set file; returns whether the set can be used.
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
        read.faults.push(Fault::new(
            file.path,
            line_from(file.text, near, from).0,
            message,
        ));
    };
    if !has_name(file.path, set.name.as_str()) {
        fail(
            "name",
            0,
            format!(
                "says it is `{}`; file name and name must be the same",
                set.name
            ),
        );
    }
    let mut folded = BTreeSet::new();
    let mut from = 0;
    for entry in &set.entries {
        let value = &entry.value;
        match set.kind.kind().entry(value) {
            None => {
                let what = "cannot be compared with anything: not of the set's kind, or with \
                    look-alike letters";
                fail(value, from, format!("`{value}` {what}"));
            }
            Some(text) => {
                if !folded.insert(text.into_owned()) {
                    fail(value, from, format!("`{value}` appears twice"));
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
    read.sets
        .push((file.path.to_owned(), file.text.to_owned(), set));
    read.faults.len() == before
}

/// Returns the faults of one rule: first of its head, then of each condition.
fn faults_of(sets: &RuleSet, rule: &Rule, broken: &BTreeSet<String>) -> Vec<Fault> {
    let alone = |when: Vec<ConditionFile>| {
        let sets = RuleSet {
            sets: sets.sets.clone(),
            ..RuleSet::default()
        };
        let file = RuleFile {
            when,
            ..rule.file.clone()
        };
        sets.with(Rule {
            file,
            ..rule.clone()
        })
        .err()
    };
    let mut faults = Vec::new();
    if !has_name(&rule.path, rule.file.id.as_str()) {
        let message = format!(
            "says it is `{}`; file name and name must be the same",
            rule.file.id
        );
        faults.push(Fault::new(
            &rule.path,
            line_of_key(&rule.text, "id"),
            message,
        ));
    }
    if let Some(fault) = alone(Vec::new()) {
        // Conditions can be checked only if the head is sound.
        faults.push(fault);
        return faults;
    }
    let lines = condition_lines(rule);
    for (condition, line) in rule.file.when.iter().zip(lines) {
        // The fault is reported for the set.
        if names_one_of(condition, broken) {
            continue;
        }
        if let Some(fault) = alone(vec![condition.clone()]) {
            faults.push(Fault {
                line: line.or(fault.line),
                ..fault
            });
        }
    }
    if faults.is_empty()
        && !rule
            .file
            .when
            .iter()
            .any(|condition| names_one_of(condition, broken))
        && let Some(fault) = alone(rule.file.when.clone())
    {
        faults.push(fault);
    }
    faults
}

fn names_one_of(condition: &ConditionFile, names: &BTreeSet<String>) -> bool {
    named_set(condition).is_some_and(|name| names.contains(name.as_str()))
}

/// Returns the set that a condition names, if its operator takes a list and its value is
/// a single text.
pub fn named_set(condition: &ConditionFile) -> Option<SetName> {
    use crate::rule::file::Op;
    match (condition.op, &condition.value) {
        (
            Op::In | Op::NotIn | Op::DomainIn | Op::DomainNotIn | Op::LinksNotIn,
            Some(Operand::One(Scalar::Text(name))),
        ) => SetName::parse(name).ok(),
        _ => None,
    }
}

/// Returns the line of each condition, from 1, by searching for the fields in their
/// order after `when`.
pub fn condition_lines(rule: &Rule) -> Vec<Option<usize>> {
    let mut from = rule.text.find("when").unwrap_or(0);
    let lines = rule.file.when.iter().map(|condition| {
        let (line, after) = line_from(&rule.text, &condition.field, from);
        from = after;
        line
    });
    lines.collect()
}

/// Returns the line of a top-level key.
pub fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let is_key = |line: &str| {
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    text.lines().position(is_key).map(|at| at.saturating_add(1))
}

/// Returns the line of the first `what` at or after the byte `from`, and the byte after it.
pub fn line_from(text: &str, what: &str, from: usize) -> (Option<usize>, usize) {
    let found = text.get(from..).and_then(|rest| rest.find(what));
    let Some(at) = found.map(|at| from.saturating_add(at)) else {
        return (None, from);
    };
    let before = text.get(..at).unwrap_or_default();
    let line = before
        .bytes()
        .filter(|byte| *byte == b'\n')
        .count()
        .saturating_add(1);
    (Some(line), at.saturating_add(what.len()))
}

fn has_name(path: &str, name: &str) -> bool {
    path.rsplit('/')
        .next()
        .and_then(|file| file.strip_suffix(".yaml"))
        == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_in_a_set_of_hosts_is_a_fault() {
        let text = "name: hosts\nkind: host\nentries:
  - {value: \"https://a.example/x\", provenance: user_established}
  - {value: b.example, provenance: user_established}
  - {value: \"https://c.example\", provenance: user_established}
";
        let path = "rules/sets/hosts.yaml";
        let faults = read(&[File { path, text }]).faults;
        let lines: Vec<Option<usize>> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [Some(4), Some(6)], "{faults:?}");
    }

    fn warned(when: &str) -> Vec<(meaning::What, String)> {
        let text = format!(
            "id: r\nstatus: active\napplies_to: {{action: order.submit}}\nwhen:\n{when}then: \
                reject\nmessage: \"{{history.count}}\"\n"
        );
        let files = [File {
            path: "rules/core/r.yaml",
            text: &text,
        }];
        let read = read(&files);
        assert_eq!(read.faults, []);
        let (warnings, _) = meaning::warnings(&read, spoolgate_wire::time::Time::EPOCH);
        let warnings = warnings.into_iter();
        warnings.map(|it| (it.what, it.at.to_string())).collect()
    }

    #[test]
    fn thresholds_beyond_what_a_field_can_be_are_warned_of() {
        use meaning::What;
        for (condition, what, message) in [
            (
                "order.size, op: gt, value: 0",
                What::RefusesAll,
                "refuses every entry",
            ),
            (
                "portfolio.drawdown, op: gt, value: 5",
                What::NeverActs,
                "rules/core/r.yaml:5: never acts on a known value: `portfolio.drawdown gt 5` never \
                    holds, because `portfolio.drawdown` is a number from 0 to 1",
            ),
            (
                "order.size, op: lte, value: 0",
                What::NeverActs,
                "never holds",
            ),
            (
                "market.spread, op: gt, value: 0.5",
                What::UnusualValue,
                "rules/core/r.yaml:5: `market.spread gt 0.5`: 0.5 is 50 %; usual is up to 0.05",
            ),
            (
                "market.funding_rate, op: lt, value: -5",
                What::UnusualValue,
                "-5 is -500 %; usual is up to 0.05",
            ),
        ] {
            let found = warned(&format!("  - {{field: {condition}}}\n"));
            let has_it = |(kind, at): &(What, String)| *kind == what && at.contains(message);
            assert!(found.iter().any(has_it), "{condition}: {found:?}");
        }
        for condition in [
            "order.size, op: gt, value: 0.01",
            "portfolio.drawdown, op: gte, value: 0.5",
            "market.spread, op: gt, value: 0.05",
        ] {
            let found = warned(&format!("  - {{field: {condition}}}\n"));
            assert!(
                found.iter().all(|(what, _)| *what == What::Message),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_placeholder_without_its_window_names_the_one_that_is_meant() {
        let found = warned("  - {field: history.count, window_s: 86400, op: gt, value: 9}\n");
        assert_eq!(
            found,
            [(
                meaning::What::Message,
                "rules/core/r.yaml:7: `{history.count}` is no fact of this rule; did you mean \
                    `{history.count(86400s)}`?"
                    .to_owned()
            )]
        );
    }
}
