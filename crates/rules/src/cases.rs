//! Golden cases made from rules: for each condition just inside, just outside, left out and not
//! known, while the other conditions hold. What the cases expect is what the rules do; a person
//! reads them once, and from then on they notice every change.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::golden::{Case, Expect, Passed, name_of, show, time_of_day};
use crate::mutants::{self, beside};
use crate::rule::field::{Kind, Missing};
use crate::rule::file::{Operand, Scalar};
use crate::rule::ranges::End;
use crate::rule::ruleset::{Rule, missing};
use crate::rule::{
    Around, Condition, Entries, Fact, Guard, Program, Ranges, Reading, RuleSet, RuleStatus, Test,
    Then, Truth, Value,
};
use crate::search::{Found, Search, with};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;
use spoolgate_wire::time::Time;

/// Most steps of the search for one case.
const STEPS_EACH: u64 = 1_000_000;

/// Most digits of a bare number.
const DIGITS_MAX: usize = 15;

/// Cases, and what there is none for.
#[derive(Clone, Debug, Default)]
pub struct Made {
    /// The cases.
    pub cases: Vec<Case>,
    /// What no request was found for, such as a text that an expression matches.
    pub unmade: Vec<String>,
}

/// Makes cases for all rules that are evaluated, or for one; the same for the same rules.
pub fn cases(rules: &RuleSet, only: Option<&RuleId>) -> Made {
    let entries = Entries::default();
    let around = Around {
        now: Time::EPOCH,
        entries: &entries,
        task: None,
    };
    let mut made = Made::default();
    let wanted = |rule: &&Rule| only.is_none_or(|id| *id == rule.file.id);
    for rule in rules.rules.values().filter(wanted) {
        let mut passed = Vec::new();
        let actions = &rule.file.applies_to.action;
        let makers = actions.iter().filter_map(|action| {
            let program = rules.programs.get(action)?;
            let guard = program.guards.iter().find(|it| it.id == rule.file.id)?;
            Some(Maker {
                action,
                program,
                guard,
                around,
                is_only_action: actions.len() == 1,
            })
        });
        let makers: Vec<Maker> = makers.collect();
        for maker in &makers {
            maker.conditions(rule, &mut made, &mut passed);
        }
        for mutant in mutants::mutants(rules, rule) {
            if mutant.is_noticed(rules, &passed) {
                continue;
            }
            for maker in &makers {
                maker.against(&mutant, &mut made, &mut passed);
            }
        }
    }
    number_names(&mut made.cases);
    made
}

/// Makes the names of cases unique.
fn number_names(cases: &mut [Case]) {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for case in cases {
        let count = seen.entry(case.name.clone()).or_default();
        *count = count.saturating_add(1);
        if *count > 1 {
            let _ = write!(case.name, " ({count})");
        }
    }
}

/// One way in which a condition may hold or not.
struct Probe {
    /// In words.
    said: String,
    /// What its fact must be besides.
    extra: Option<Test>,
    /// Whether the condition holds.
    holds: bool,
}

/// Makes the cases of one rule and one action.
struct Maker<'a> {
    action: &'a str,
    program: &'a Program,
    guard: &'a Guard,
    around: Around<'a>,
    is_only_action: bool,
}

impl Maker<'_> {
    /// Makes the cases of all conditions.
    fn conditions(&self, rule: &Rule, made: &mut Made, passed: &mut Vec<Passed>) {
        let written = &rule.file.when;
        // The conditions of the rule's scope come before its own.
        let scope = self.guard.conditions.len().saturating_sub(written.len());
        if self.guard.conditions.is_empty() {
            let found = self.search(&[], None, &|_| true);
            self.add("always", found, made, passed);
        }
        for (at, condition) in self.guard.conditions.iter().enumerate() {
            let Some(reading) = self.program.readings.get(condition.slot) else {
                continue;
            };
            let own = at.checked_sub(scope).and_then(|at| written.get(at));
            let named = own.map_or_else(
                || format!("scope of {}", name_of(reading)),
                |it| it.to_string(),
            );
            for probe in probes(reading, &condition.test, &named) {
                let found = self.probe(at, condition, &probe);
                self.add(&probe.said, found, made, passed);
            }
            let lost = match missing(reading) {
                Missing::Never => continue,
                Missing::Absent => Fact::Absent,
                Missing::Unknown => Fact::Unknown("the case says so".into()),
            };
            let is_absent = lost == Fact::Absent;
            let said = if is_absent { "left out" } else { "not known" };
            let said = format!("{} {said}", name_of(reading));
            let others = self.guard.conditions.iter();
            let others = others.filter(|it| it.slot != condition.slot);
            let others: Vec<Condition> = others.cloned().collect();
            let mut found = self.search(&others, None, &|_| true);
            if let Some(fact) = found.as_mut().and_then(|it| it.get_mut(condition.slot)) {
                *fact = lost;
            }
            self.add(&said, found, made, passed);
        }
    }

    /// Returns facts for which all other conditions hold, and this one as the probe says.
    fn probe(&self, at: usize, condition: &Condition, probe: &Probe) -> Option<Vec<Fact<'static>>> {
        let all = self.guard.conditions.iter().enumerate();
        let kept = all.filter(|(other, _)| probe.holds || *other != at);
        let mut conditions: Vec<Condition> = kept.map(|(_, it)| it.clone()).collect();
        conditions.extend(probe.extra.iter().map(|test| Condition {
            slot: condition.slot,
            test: test.clone(),
            threshold: None,
        }));
        let unless = (!probe.holds).then(|| vec![condition.clone()]);
        // Texts that an expression should match are guessed.
        let is_so = |facts: &[Fact]| {
            let mut all = self.guard.conditions.iter().enumerate();
            all.all(|(other, condition)| {
                let truth = facts.get(condition.slot);
                let truth = truth.map(|fact| condition.test.of(fact, &self.around));
                match (other == at, probe.holds) {
                    (true, true) => truth == Some(Truth::True),
                    (true, false) => truth == Some(Truth::False),
                    (false, _) => truth != Some(Truth::False),
                }
            })
        };
        self.search(&conditions, unless.as_deref(), &is_so)
    }

    /// Makes a case that notices a mutant.
    fn against(&self, mutant: &mutants::Mutant, made: &mut Made, passed: &mut Vec<Passed>) {
        let Some(changed) = mutant.guard(self.action, self.program) else {
            return;
        };
        let own = &self.guard.conditions;
        let acts = |guard: &Guard, facts: &[Fact]| guard.truth(facts, &self.around) != Truth::False;
        let differs = |facts: &[Fact]| acts(self.guard, facts) != acts(&changed, facts);
        for (hard, soft) in [(own, &changed.conditions), (&changed.conditions, own)] {
            if let Some(facts) = self.search(hard, Some(soft), &differs) {
                let said = format!("not if {mutant}").replace('`', "");
                self.add(&said, Some(facts), made, passed);
                return;
            }
        }
    }

    /// Returns facts that a case can say, for which all of the first conditions hold and not all of
    /// the second; of other rules none acts, if possible.
    fn search(
        &self,
        all: &[Condition],
        unless: Option<&[Condition]>,
        is_wanted: &dyn Fn(&[Fact]) -> bool,
    ) -> Option<Vec<Fact<'static>>> {
        let search = Search {
            program: self.program,
            action: self.action,
            budget: STEPS_EACH,
        };
        let refusing =
            |guard: &Guard, all: &[Condition]| with(guard, Then::Reject, all, &self.around);
        let unless: Vec<Guard> = unless
            .map(|all| refusing(self.guard, all))
            .into_iter()
            .collect();
        let others = self.program.guards.iter();
        let others = others.filter(|it| it.id != self.guard.id);
        let others = others.map(|it| refusing(it, &it.conditions));
        [
            unless.iter().cloned().chain(others).collect(),
            unless.clone(),
        ]
        .into_iter()
        .find_map(|soft| {
            let Found::Some(witness) = search.harder(vec![refusing(self.guard, all)], soft) else {
                return None;
            };
            let facts = witness.facts.into_iter().map(|(reading, fact)| {
                if name_of(&reading) == "request.action" {
                    Fact::text(self.action.to_owned())
                } else {
                    fact
                }
            });
            let facts: Vec<Fact> = facts.collect();
            (is_wanted(&facts) && self.case("", &facts).is_some()).then_some(facts)
        })
    }

    /// Adds a case with these facts, unless another has them.
    fn add(
        &self,
        said: &str,
        facts: Option<Vec<Fact<'static>>>,
        made: &mut Made,
        passed: &mut Vec<Passed>,
    ) {
        let action = match self.is_only_action {
            true => String::new(),
            false => format!(" of {}", self.action),
        };
        let name = format!("{}{action}: {said}", self.guard.id);
        let case = facts.as_ref().and_then(|facts| self.case(&name, facts));
        let (Some(case), Some(facts)) = (case, facts) else {
            made.unmade.push(name);
            return;
        };
        let same = |other: &Case| {
            Case {
                name: name.clone(),
                ..other.clone()
            } == case
        };
        if !made.cases.iter().any(same) {
            made.cases.push(case);
            passed.push(Passed {
                action: self.action.to_owned(),
                now: self.around.now,
                facts,
                names_rules: true,
                sees_shadow: true,
            });
        }
    }

    /// Returns a case with these facts, or `None` if a case cannot say them.
    fn case(&self, name: &str, facts: &[Fact<'static>]) -> Option<Case> {
        let mut facts = facts.to_vec();
        let acting = self.acting(&facts);
        let mut case = Case {
            name: name.to_owned(),
            action: self.action.to_owned(),
            at: None,
            source: None,
            request: None,
            facts: BTreeMap::new(),
            absent: Vec::new(),
            unknown: Vec::new(),
            expect: Expect::of(self.effect(&acting)),
            rules: ids(&acting, RuleStatus::Active),
            shadow: Some(ids(&acting, RuleStatus::Shadow)),
        };
        for (slot, reading) in self.program.readings.iter().enumerate() {
            let said = name_of(reading);
            if said == "request.action" {
                continue;
            }
            let fact = facts.get(slot)?.clone();
            // What is the same without the fact does not need it.
            let is_read = |guard: &&Guard| guard.conditions.iter().any(|it| it.slot == slot);
            if !is_read(&self.guard) && !acting.iter().any(is_read) {
                let lost = match missing(reading) {
                    Missing::Absent => Fact::Absent,
                    Missing::Never | Missing::Unknown => Fact::Unknown("it is not given".into()),
                };
                let mut without = facts.clone();
                *without.get_mut(slot)? = lost;
                if self.acting(&without) == acting {
                    facts = without;
                    continue;
                }
            }
            match (&fact, missing(reading)) {
                (Fact::Absent, Missing::Absent) => case.absent.push(said),
                (Fact::Unknown(_), Missing::Unknown) => case.unknown.push(said),
                (Fact::Absent | Fact::Unknown(_), _) => return None,
                (Fact::Known(value), _) => {
                    case.facts
                        .insert(said, Operand::One(scalar(reading, value)?));
                }
                (Fact::Many(values), _) => {
                    let values = values.iter().map(|value| scalar(reading, value));
                    case.facts
                        .insert(said, Operand::Many(values.collect::<Option<_>>()?));
                }
            }
        }
        Some(case)
    }

    fn acting(&self, facts: &[Fact<'static>]) -> Vec<&Guard> {
        let all = self.program.guards.iter();
        all.filter(|guard| guard.truth(facts, &self.around) != Truth::False)
            .collect()
    }

    fn effect(&self, acting: &[&Guard]) -> Option<Then> {
        let active = acting.iter().filter(|it| it.status == RuleStatus::Active);
        active.map(|it| it.then).max()
    }
}

fn ids(acting: &[&Guard], status: RuleStatus) -> Vec<RuleId> {
    let of = acting.iter().filter(|guard| guard.status == status);
    of.map(|guard| guard.id.clone()).collect()
}

/// Returns a value as a case says it; `None` if the form of amounts has no such number.
fn scalar(reading: &Reading, value: &Value) -> Option<Scalar> {
    Some(match value {
        Value::Number(minutes) if reading.kind() == Kind::TimeOfDay => {
            Scalar::Text(time_of_day(*minutes))
        }
        Value::Number(number) => {
            let number = number.normalized();
            let digits = number.to_string();
            Amount::parse_wire(&digits).ok()?;
            match digits.bytes().filter(u8::is_ascii_digit).count() > DIGITS_MAX {
                true => Scalar::Text(digits),
                false => Scalar::Number(number),
            }
        }
        Value::Text(text) => Scalar::Text(text.to_string()),
        Value::Flag(flag) => Scalar::Flag(*flag),
    })
}

/// Returns the ways in which a condition may hold and not hold: numbers at every end of its ranges
/// and one step beside, of everything else one value each.
fn probes(reading: &Reading, test: &Test, named: &str) -> Vec<Probe> {
    let Test::Number(ranges) = test else {
        return vec![
            Probe {
                said: named.to_owned(),
                extra: None,
                holds: true,
            },
            Probe {
                said: format!("not {named}"),
                extra: None,
                holds: false,
            },
        ];
    };
    let kind = reading.kind();
    let ends = ranges.parts().iter().flat_map(|part| [part.low, part.high]);
    let mut numbers = Vec::new();
    for end in ends {
        if let End::With(at) | End::Without(at) = end {
            numbers.push(at);
            numbers.extend(beside(kind, at));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.retain(|number| kind.ends().holds(*number));
    let probes = numbers.into_iter().map(|number| {
        let fact = show(reading, &Fact::number(number));
        let is_long = fact.bytes().filter(u8::is_ascii_digit).count() > DIGITS_MAX;
        let fact = if is_long { "near its end" } else { &fact };
        Probe {
            said: format!("{} {fact}", name_of(reading)),
            extra: Some(Test::Number(Ranges::only(number))),
            holds: ranges.holds(number),
        }
    });
    probes.collect()
}

/// Returns the cases as a file in `rules/tests`.
pub fn file(cases: &[Case]) -> String {
    let mut text = String::from("cases:\n");
    if cases.is_empty() {
        text = String::from("cases: []\n");
    }
    for case in cases {
        let Case {
            name,
            action,
            at: _,
            source: _,
            request: _,
            facts,
            absent,
            unknown,
            expect,
            rules,
            shadow,
        } = case;
        let facts: Vec<String> = facts
            .iter()
            .map(|(name, value)| format!("{}: {}", quoted(name), operand(value)))
            .collect();
        let names = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            names.join(", ")
        };
        let ids = |ids: &[RuleId]| {
            let ids: Vec<String> = ids.iter().map(|id| quoted(id.as_str())).collect();
            ids.join(", ")
        };
        let _ = writeln!(text, "  - name: {}", quoted(name));
        let _ = writeln!(text, "    action: {action}");
        let _ = writeln!(text, "    facts: {{{}}}", facts.join(", "));
        for (key, listed) in [("absent", absent), ("unknown", unknown)] {
            if !listed.is_empty() {
                let _ = writeln!(text, "    {key}: [{}]", names(listed));
            }
        }
        let _ = writeln!(text, "    expect: {expect}");
        let _ = writeln!(text, "    rules: [{}]", ids(rules));
        if let Some(shadow) = shadow {
            let _ = writeln!(text, "    shadow: [{}]", ids(shadow));
        }
    }
    text
}

/// Returns a text in double quotes, which YAML reads as JSON does.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            ' '..='~' => out.push(letter),
            _ if u32::from(letter) > 0xFFFF => {
                let _ = write!(out, "\\U{:08x}", u32::from(letter));
            }
            _ => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
        }
    }
    out.push('"');
    out
}

fn operand(value: &Operand) -> String {
    let one = |value: &Scalar| match value {
        Scalar::Number(number) => number.normalized().to_string(),
        Scalar::Flag(flag) => flag.to_string(),
        Scalar::Text(text) => quoted(text),
    };
    match value {
        Operand::One(value) => one(value),
        Operand::Many(values) => {
            let values: Vec<String> = values.iter().map(one).collect();
            format!("[{}]", values.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
