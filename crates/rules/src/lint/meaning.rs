//! Finds valid rules that have no effect or not the intended one: rules that never act, that
//! another rule makes redundant, or that together refuse everything. What a rule acts on is
//! computed as in proofs.

use std::collections::BTreeSet;

use super::{Read, condition_lines, line_from, line_of_key, named_set};
use crate::nearest::nearest;
use crate::proof::{self, Direction};
use crate::rule::field::{self, Field, Kind, Missing};
use crate::rule::file::{ConditionFile, Operand, Scalar, Scope};
use crate::rule::ruleset::{Rule, missing};
use crate::rule::{
    Guard, Members, Program, Ranges, Reading, RuleFile, RuleSet, RuleStatus, Test, Then,
};
use crate::rulebook::RulebookError;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;
use spoolgate_wire::time::Time;

/// Step budget of one proof. Only a few rules are compared at a time, so little is enough.
const STEPS_EACH: u64 = 200_000;
/// Step budget of all proofs.
const STEPS_ALL: u64 = 400_000_000;
/// Most pairs of rules that are compared.
const PAIRS_MAX: u32 = 20_000;

/// What a warning is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The rule can never act.
    NeverActs,
    /// It acts only if a fact is not known.
    OnlyUnknown,
    /// A condition has no effect.
    SaysNothing,
    /// It refuses everything.
    RefusesAll,
    /// Another rule has at least the same effect on everything that it acts on.
    Shadowed,
    /// Two rules together refuse everything.
    Contradict,
    /// An entry of a set has expired.
    Expired,
    /// No rule names the set.
    Unused,
    /// The message names something that the rule does not read.
    Message,
    /// A name is in no file, which may still be right.
    UnknownName,
    /// A threshold is far from what the field usually is.
    UnusualValue,
    /// The rule has no hypothesis.
    Hypothesis,
    /// One signer may fill several seats of a council.
    OneSigner,
    /// All speakers of a council are of one family.
    OneFamily,
    /// The key of an approver is of a type that approves nothing.
    SkippedKey,
}

impl What {
    /// Returns the name for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            What::NeverActs => "never_acts",
            What::OnlyUnknown => "only_unknown",
            What::SaysNothing => "says_nothing",
            What::RefusesAll => "refuses_all",
            What::Shadowed => "shadowed",
            What::Contradict => "contradict",
            What::Expired => "expired",
            What::Unused => "unused",
            What::Message => "message",
            What::UnknownName => "unknown_name",
            What::UnusualValue => "unusual_value",
            What::Hypothesis => "hypothesis",
            What::OneSigner => "one_signer",
            What::OneFamily => "one_family",
            What::SkippedKey => "skipped_key",
        }
    }
}

/// A warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub what: What,
    /// File, line and message.
    pub at: RulebookError,
}

/// Returns all warnings, and whether some comparisons were skipped because there were too many.
pub fn warnings(read: &Read, now: Time) -> (Vec<Warning>, bool) {
    let mut looking = Looking {
        read,
        found: Vec::new(),
        steps: STEPS_ALL,
        pairs: PAIRS_MAX,
        cut: false,
    };
    let mut dull: BTreeSet<(RuleId, String)> = BTreeSet::new();
    for rule in read.rules.rules.values() {
        looking.message(rule);
        looking.hypothesis(rule);
        if !is_evaluated(rule) {
            continue;
        }
        looking.unusual(rule);
        for action in &rule.file.applies_to.action {
            if looking.alone(rule, action) {
                dull.insert((rule.file.id.clone(), action.clone()));
            }
        }
    }
    looking.pairs(&dull);
    looking.sets(now);
    looking
        .found
        .sort_by(|a, b| (&a.at.file, a.at.line, a.what).cmp(&(&b.at.file, b.at.line, b.what)));
    (looking.found, looking.cut)
}

struct Looking<'a> {
    read: &'a Read,
    found: Vec<Warning>,
    steps: u64,
    pairs: u32,
    cut: bool,
}

fn is_evaluated(rule: &Rule) -> bool {
    matches!(rule.file.status, RuleStatus::Active | RuleStatus::Shadow)
}

/// Returns the rule as an active rule that refuses, for this action alone.
fn refusing(rule: &Rule, action: &str) -> Rule {
    let applies_to = Scope {
        action: vec![action.to_owned()],
        ..rule.file.applies_to.clone()
    };
    let file = RuleFile {
        status: RuleStatus::Active,
        then: Then::Reject,
        applies_to,
        ..rule.file.clone()
    };
    Rule {
        file,
        ..rule.clone()
    }
}

/// Returns the rule with only the conditions for which `keep` returns true.
fn when(rule: &Rule, keep: impl Fn(usize) -> bool) -> Rule {
    let kept = rule
        .file
        .when
        .iter()
        .enumerate()
        .filter(|(at, _)| keep(*at));
    let when = kept.map(|(_, condition)| condition.clone()).collect();
    Rule {
        file: RuleFile {
            when,
            ..rule.file.clone()
        },
        ..rule.clone()
    }
}

/// Returns what messages call a request of this action.
fn requests(action: &str) -> &'static str {
    if action == ActionName::OrderSubmit {
        "entry"
    } else {
        "request"
    }
}

/// Returns whether no value of the fact satisfies all tests. Always false for arrays, because
/// different elements may satisfy different tests.
fn is_impossible(reading: &Reading, tests: &[&Test]) -> bool {
    if reading.is_many() || tests.is_empty() {
        return false;
    }
    if tests.contains(&&Test::Absent) {
        return tests.iter().any(|test| **test != Test::Absent);
    }
    let ends = reading.kind().ends();
    let mut numbers = Ranges::between(ends.low, ends.high);
    let mut texts: Option<BTreeSet<&str>> = match reading.kind() {
        Kind::Word(known) => Some(known.iter().copied().collect()),
        _ => None,
    };
    let mut not: BTreeSet<&str> = BTreeSet::new();
    let mut flags = vec![true, false];
    for test in tests {
        match test {
            Test::Number(ranges) => numbers = numbers.intersection(ranges),
            Test::Flag(wanted) => flags.retain(|flag| flag == wanted),
            Test::Member {
                of: Members::Listed(listed),
                is_in: true,
                ..
            } => {
                let listed = listed.iter().map(String::as_str);
                texts = Some(match texts {
                    Some(texts) => listed.filter(|text| texts.contains(text)).collect(),
                    None => listed.collect(),
                });
            }
            Test::Member {
                of: Members::Listed(listed),
                is_in: false,
                ..
            } => {
                not.extend(listed.iter().map(String::as_str));
            }
            _ => {}
        }
    }
    numbers.is_empty() || flags.is_empty() || texts.is_some_and(|texts| texts.is_subset(&not))
}

/// Returns whether a condition reads what the message names.
fn names(condition: &ConditionFile, bare: &str) -> bool {
    let field = condition
        .field
        .strip_suffix("[]")
        .unwrap_or(&condition.field);
    field == bare
        || bare.starts_with(&format!("{field}("))
        || bare == format!("first_seen({field})")
}

impl Looking<'_> {
    fn warn(&mut self, what: What, rule: &Rule, line: Option<usize>, message: String) {
        self.found.push(Warning {
            what,
            at: RulebookError::new(&rule.path, line, message),
        });
    }

    fn book(&self, rules: &[&Rule]) -> Option<RuleSet> {
        let mut book = RuleSet {
            sets: self.read.rules.sets.clone(),
            ..RuleSet::default()
        };
        for rule in rules {
            book = book.with((*rule).clone()).ok()?;
        }
        Some(book)
    }

    /// Returns whether it can be proved that both lists of rules refuse the same requests.
    fn is_same(&mut self, before: &[&Rule], after: &[&Rule]) -> bool {
        let (Some(before), Some(after)) = (self.book(before), self.book(after)) else {
            return false;
        };
        let budget = STEPS_EACH.min(self.steps);
        if budget == 0 {
            self.cut = true;
            return false;
        }
        let compared = proof::compare(&before, &after, budget);
        self.steps = self.steps.saturating_sub(compared.steps.max(1));
        compared.direction == Direction::Same
    }

    /// Warns about one rule; returns whether comparing it with other rules is pointless.
    fn alone(&mut self, written: &Rule, action: &str) -> bool {
        let rule = refusing(written, action);
        let lines = condition_lines(written);
        let line_of = |at: usize| lines.get(at).copied().flatten();
        let named = |at: usize| {
            rule.file
                .when
                .get(at)
                .map_or_else(String::new, |condition| format!("`{condition}`"))
        };
        let all = rule.file.when.len();
        let of = if written.file.applies_to.action.len() > 1 {
            format!(" on {action}")
        } else {
            String::new()
        };
        if self.is_same(&[], &[&rule]) {
            let impossible =
                (0..all).find(|at| self.is_same(&[], &[&when(&rule, |kept| kept == *at)]));
            let mut pairs = (0..all).flat_map(|a| (0..a).map(move |b| (b, a)));
            let (line, why) = match impossible {
                Some(at) => (line_of(at), format!("{} never holds", named(at))),
                None => match pairs.find(|(b, a)| {
                    self.is_same(&[], &[&when(&rule, |kept| kept == *a || kept == *b)])
                }) {
                    Some((b, a)) => (
                        line_of(a),
                        format!("{} and {} never hold together", named(b), named(a)),
                    ),
                    None => (
                        line_of_key(&written.text, "when"),
                        "its conditions never hold together".to_owned(),
                    ),
                },
            };
            self.warn(
                What::NeverActs,
                written,
                line,
                format!("never acts{of}: {why}"),
            );
            return true;
        }
        // Proofs assume that every fact may be unknown; most facts never are.
        if self.impossible(written, action, &of) {
            return true;
        }
        let bare = when(&rule, |_| false);
        let refuses = written.file.status == RuleStatus::Active && written.file.then != Then::Warn;
        let scope = &written.file.applies_to;
        if self.is_same(&[&rule], &[&bare]) {
            let line = line_of_key(&written.text, "when");
            if refuses && scope.strategy.is_none() && scope.principal.is_none() {
                let does = if written.file.then == Then::Hold {
                    "holds"
                } else {
                    "refuses"
                };
                let message = format!("{does} every {} of {action}", requests(action));
                self.warn(What::RefusesAll, written, line, message);
            } else if all > 0 {
                let message = format!(
                    "acts on everything that it applies to{of}: its conditions have no effect"
                );
                self.warn(What::SaysNothing, written, line, message);
            }
            return true;
        }
        let mut kept = rule.clone();
        for at in (0..all).rev() {
            let without = when(&kept, |other| other != at);
            if self.is_same(&[&kept], &[&without]) {
                let message = format!(
                    "{} has no effect{of}: the rule acts on the same requests without it",
                    named(at)
                );
                self.warn(What::SaysNothing, written, line_of(at), message);
                kept = without;
            }
        }
        false
    }

    /// Warns about conditions on one fact that no value satisfies; returns whether the rule can
    /// therefore never act.
    fn impossible(&mut self, rule: &Rule, action: &str, of: &str) -> bool {
        let Some((program, guard)) = self.guard(rule, action) else {
            return false;
        };
        let scope = guard.conditions.len().saturating_sub(rule.file.when.len());
        let lines = condition_lines(rule);
        let mut never = false;
        for (slot, reading) in program.readings.iter().enumerate() {
            let asking: Vec<usize> = guard
                .conditions
                .iter()
                .enumerate()
                .filter(|(_, condition)| condition.slot == slot)
                .map(|(at, _)| at)
                .collect();
            let tests = asking
                .iter()
                .filter_map(|at| guard.conditions.get(*at))
                .map(|it| &it.test);
            let tests: Vec<&Test> = tests.collect();
            if !is_impossible(reading, &tests) {
                continue;
            }
            let written = |at: &usize| at.checked_sub(scope).and_then(|at| rule.file.when.get(at));
            let named: Vec<String> = asking
                .iter()
                .filter_map(written)
                .map(|it| format!("`{it}`"))
                .collect();
            let line = asking
                .last()
                .and_then(|at| lines.get(at.checked_sub(scope)?).copied().flatten());
            let hold = if named.len() > 1 {
                "never hold together"
            } else {
                "never holds"
            };
            let named = named.join(" and ");
            let ends = reading.kind().ends();
            let is_beyond = |test: &&Test| matches!(test, Test::Number(ranges) if ranges.intersection(&Ranges::of(vec![ends])).is_empty());
            if missing(reading) == Missing::Unknown
                && matches!(reading.kind(), Kind::Number(..))
                && tests.iter().any(is_beyond)
            {
                let kind = reading.kind();
                let message = format!(
                    "never acts{of} on a known value: {named} {hold}, because `{reading}` is a {kind}"
                );
                self.warn(What::NeverActs, rule, line, message);
            } else if missing(reading) == Missing::Unknown {
                let message =
                    format!("acts{of} only while `{reading}` is not known: {named} {hold}");
                self.warn(What::OnlyUnknown, rule, line, message);
            } else {
                never = true;
                self.warn(
                    What::NeverActs,
                    rule,
                    line,
                    format!("never acts{of}: {named} {hold}"),
                );
            }
        }
        never
    }

    fn guard(&self, rule: &Rule, action: &str) -> Option<(Program, Guard)> {
        let program = self.read.rules.programs.get(action)?;
        let guard = program
            .guards
            .iter()
            .find(|guard| guard.id == rule.file.id)?;
        Some((program.clone(), guard.clone()))
    }

    /// Warns about pairs of rules of which one is redundant, or which together refuse everything.
    fn pairs(&mut self, dull: &BTreeSet<(RuleId, String)>) {
        let rules = &self.read.rules;
        for (action, program) in &rules.programs {
            let is_dull = |guard: &Guard| dull.contains(&(guard.id.clone(), action.clone()));
            let slots = |guard: &Guard| -> BTreeSet<usize> {
                guard
                    .conditions
                    .iter()
                    .map(|condition| condition.slot)
                    .collect()
            };
            let of: Vec<(&Rule, BTreeSet<usize>)> = program
                .guards
                .iter()
                .filter(|guard| !is_dull(guard))
                .filter_map(|guard| Some((rules.rules.get(&guard.id)?, slots(guard))))
                .collect();
            for (at, (rule, reads)) in of.iter().enumerate() {
                let mut idle = false;
                for (by_at, (by, by_reads)) in of.iter().enumerate() {
                    // A rule with a condition on a fact that this rule does not read lets some of
                    // its requests pass.
                    let may_cover = by_at != at
                        && !idle
                        && by.file.status == RuleStatus::Active
                        && by.file.then >= rule.file.then
                        && by_reads.is_subset(reads);
                    if !may_cover || !self.may_compare() {
                        continue;
                    }
                    let (a, b) = (refusing(rule, action), refusing(by, action));
                    if !self.is_same(&[&b], &[&b, &a]) {
                        continue;
                    }
                    // Of two equal rules, the later one is redundant.
                    let is_mutual = rule.file.then == by.file.then
                        && rule.file.status == by.file.status
                        && self.is_same(&[&a], &[&a, &b]);
                    if is_mutual && at < by_at {
                        continue;
                    }
                    idle = true;
                    let then = if by.file.then == rule.file.then {
                        "the same"
                    } else {
                        "more"
                    };
                    let message = format!(
                        "is redundant on {action}: `{}` ({}) does {then} to everything that it \
                            acts on",
                        by.file.id, by.path
                    );
                    self.warn(
                        What::Shadowed,
                        rule,
                        line_of_key(&rule.text, "when"),
                        message,
                    );
                }
                for (by, by_reads) in of.iter().take(at) {
                    let refuse = |rule: &Rule| {
                        rule.file.status == RuleStatus::Active && rule.file.then != Then::Warn
                    };
                    let may_clash = refuse(rule)
                        && refuse(by)
                        && rule.file.applies_to.strategy == by.file.applies_to.strategy
                        && rule.file.applies_to.principal == by.file.applies_to.principal
                        && !by_reads.is_disjoint(reads);
                    if may_clash && self.may_compare() {
                        self.clash(rule, by, action);
                    }
                }
            }
        }
    }

    fn may_compare(&mut self) -> bool {
        self.cut |= self.pairs == 0;
        self.pairs = self.pairs.saturating_sub(1);
        !self.cut
    }

    fn clash(&mut self, rule: &Rule, by: &Rule, action: &str) {
        let (a, b) = (refusing(rule, action), refusing(by, action));
        let names = ["everything", "everything-else", "everything-more"];
        let free = names.iter().filter_map(|name| RuleId::parse(name).ok());
        let Some(id) = free
            .into_iter()
            .find(|id| *id != a.file.id && *id != b.file.id)
        else {
            return;
        };
        let bare = when(&a, |_| false);
        let bare = Rule {
            file: RuleFile { id, ..bare.file },
            ..bare
        };
        if !self.is_same(&[&a, &b], &[&a, &b, &bare]) {
            return;
        }
        let scope = &rule.file.applies_to;
        let what = match (&scope.strategy, &scope.principal) {
            (None, None) => format!("every {} of {action}", requests(action)),
            _ => format!("every {} of {action} that both apply to", requests(action)),
        };
        let message = format!(
            "contradicts `{}` ({}): one of them acts on {what}",
            by.file.id, by.path
        );
        self.warn(
            What::Contradict,
            rule,
            line_of_key(&rule.text, "when"),
            message,
        );
    }

    /// Warns about names in the message that no condition of the rule reads, and about names that
    /// are not facts, which stay in the message as they are.
    fn message(&mut self, rule: &Rule) {
        let mut rest = rule.file.message.as_str();
        let line = line_of_key(&rule.text, "message");
        let readings: BTreeSet<String> = self
            .read
            .rules
            .programs
            .values()
            .flat_map(|program| program.readings.iter().map(ToString::to_string))
            .collect();
        while let Some((_, tail)) = rest.split_once('{') {
            let Some((name, after)) = tail.split_once('}') else {
                return;
            };
            rest = after;
            let bare = name.strip_suffix("[]").unwrap_or(name);
            let has_it = |action: &String| field::find(bare).is_some_and(|it| it.is_of(action));
            if !rule.file.applies_to.action.iter().all(has_it) && !readings.contains(bare) {
                let own = rule.file.when.iter().filter_map(|it| {
                    let (of, window_s) = (it.of.as_ref(), it.window_s?);
                    let of = of.map_or_else(String::new, |of| format!("{of}, "));
                    Some(format!("{}({of}{window_s}s)", it.field))
                });
                let own: Vec<String> = own.collect();
                let known = own
                    .iter()
                    .map(String::as_str)
                    .chain(field::known().map(|name| -> &str { name }));
                let known = known.filter(|known| *known != bare);
                let near = nearest(name, known).map_or_else(
                    || "; it stays as it is".to_owned(),
                    |near| format!("; did you mean `{{{near}}}`?"),
                );
                let message = format!("`{{{name}}}` is no fact of this rule{near}");
                self.warn(What::Message, rule, line, message);
            } else if !rule.file.when.iter().any(|it| names(it, bare)) {
                let message =
                    format!("the message names `{{{name}}}`, which no condition of the rule reads");
                self.warn(What::Message, rule, line, message);
            }
        }
    }

    /// Warns about missing hypotheses. Rules from proposals and rules in shadow are measured.
    fn hypothesis(&mut self, rule: &Rule) {
        let is_measured = !rule.is_core() || rule.file.status == RuleStatus::Shadow;
        if is_measured && is_evaluated(rule) && rule.file.hypothesis.is_none() {
            let message = "has no hypothesis, so nothing can show later whether it works";
            self.warn(
                What::Hypothesis,
                rule,
                line_of_key(&rule.text, "id"),
                message.to_owned(),
            );
        }
    }

    /// Warns about thresholds far from what their field usually is: fractions that are meant per
    /// cent.
    fn unusual(&mut self, rule: &Rule) {
        let lines = condition_lines(rule);
        for (condition, line) in rule.file.when.iter().zip(lines) {
            let of = condition.of.as_deref().unwrap_or(&condition.field);
            let Some(usual) = field::find(of).and_then(Field::usual) else {
                continue;
            };
            let values = match &condition.value {
                None => &[],
                Some(Operand::One(value)) => std::slice::from_ref(value),
                Some(Operand::Many(values)) => values.as_slice(),
            };
            let numbers = values.iter().filter_map(|value| match value {
                Scalar::Number(number) => Some(*number),
                Scalar::Text(text) => Amount::parse_wire(text).ok(),
                Scalar::Flag(_) => None,
            });
            let Some(far) = numbers.into_iter().find(|number| number.abs() > usual) else {
                continue;
            };
            let far = far.normalized();
            let per_cent = far.checked_mul(Amount::from_i64(100));
            let per_cent =
                per_cent.map_or_else(String::new, |it| format!(" is {} %", it.normalized()));
            let message = format!("`{condition}`: {far}{per_cent}; usual is up to {usual}");
            self.warn(What::UnusualValue, rule, line, message);
        }
    }

    fn sets(&mut self, now: Time) {
        let conditions = self
            .read
            .rules
            .rules
            .values()
            .flat_map(|rule| &rule.file.when);
        let used: BTreeSet<_> = conditions.filter_map(named_set).collect();
        let mut found = Vec::new();
        for (path, text, set) in &self.read.sets {
            let mut warn = |what: What, line: Option<usize>, message: String| {
                found.push(Warning {
                    what,
                    at: RulebookError::new(path, line, message),
                });
            };
            if !used.contains(&set.name) {
                let line = line_of_key(text, "name");
                warn(
                    What::Unused,
                    line,
                    format!("no rule names the set `{}`", set.name),
                );
            }
            let mut from = 0;
            for entry in &set.entries {
                let (line, after) = line_from(text, &entry.value, from);
                from = after;
                if let Some(until) = entry.expires.filter(|until| *until <= now) {
                    warn(
                        What::Expired,
                        line,
                        format!("`{}` expired at {until}", entry.value),
                    );
                }
            }
        }
        self.found.append(&mut found);
    }
}
