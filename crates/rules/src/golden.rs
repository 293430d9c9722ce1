//! Golden cases: facts with the expected effect of the rules. They are in `rules/tests`, which is
//! not part of the rulebook.

mod given;
mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use given::{FactError, known, may_be, parse};
pub use matrix::Matrix;
use serde::{Deserialize, Serialize};

use super::lint::line_from;
use super::rule::field::{self, Kind, Missing, RULED_ACTIONS};
use super::rule::file::{Operand, line_of_long_number};
use super::rule::ruleset::missing;
use super::rule::{
    Around, Entries, Fact, Guard, Program, Reading, RuleSet, RuleStatus, Then, Truth, Value,
};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, RuleId};
use spoolgate_wire::time::Time;

spoolgate_wire::named! {
    /// The expected outcome of a request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum Expect {
        /// No rule acts.
        Accept = "accept",
        /// It is accepted, with a warning.
        Warn = "warn",
        /// It is held.
        Hold = "hold",
        /// It is refused.
        Reject = "reject",
    }
}

/// `rules/tests/<name>.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Facts of every case that does not give them itself and whose action has them.
    #[serde(default)]
    pub facts: BTreeMap<String, Operand>,
    /// The cases; may be left out beside `matrix`.
    #[serde(default)]
    pub cases: Vec<Case>,
    /// A table of cases.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Matrix")]
    pub matrix: Option<Matrix>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// What it shows; unique within the file.
    #[schemars(schema_with = "spoolgate_wire::schema::said_at_length")]
    pub name: String,
    /// The action of the request.
    #[schemars(schema_with = "action_schema")]
    pub action: String,
    /// The instant, which gives the facts `time.*` and decides which entries of sets have expired.
    /// If absent, no entry has expired.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Time")]
    pub at: Option<Time>,
    /// The sender; gives `request.source`.
    #[serde(default, rename = "as", deserialize_with = "yaml::present")]
    #[schemars(with = "Principal")]
    pub source: Option<Principal>,
    /// The payload; gives the facts that depend only on the request.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(schema_with = "spoolgate_wire::schema::any")]
    pub request: Option<serde_json::Value>,
    /// Facts, named as in conditions, such as `history.count(3600s)` or `first_seen(order.symbol)`.
    #[serde(default)]
    pub facts: BTreeMap<String, Operand>,
    /// Fields that the request leaves out.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Fields that are not known.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// What the active rules do.
    pub expect: Expect,
    /// All active rules that act.
    #[schemars(extend("uniqueItems" = true))]
    pub rules: Vec<RuleId>,
    /// All rules in status `shadow` that would act; if absent, they are not checked.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Vec<RuleId>")]
    pub shadow: Option<Vec<RuleId>>,
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// File of the case, below a home.
    pub file: String,
    /// Its line, from 1.
    pub line: Option<usize>,
    /// The name of the case.
    pub name: String,
    /// The outcome that the case expects.
    pub expect: Expect,
    /// What the active rules do.
    pub got: Expect,
    /// Active rules that act.
    pub rules: Vec<RuleId>,
    /// Differences from what the case expects; empty if it passes.
    pub faults: Vec<String>,
}

/// How often a rule acted or not, and how often each of its conditions held or not, over all cases.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Covered {
    /// Cases in which it acts, or would act if it were active.
    pub acts: u32,
    /// Cases in which it does not act.
    pub lets_pass: u32,
    /// Coverage of each condition, in the order of the file.
    pub conditions: Vec<ConditionCovered>,
}

/// How often a condition held or not. Unknown counts as neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConditionCovered {
    /// The condition.
    pub condition: String,
    /// Cases in which it holds.
    pub held: u32,
    /// Cases in which it does not.
    pub did_not: u32,
}

/// The results of all cases of a rulebook.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Every case.
    pub tried: Vec<Tried>,
    /// Coverage of every rule that is evaluated.
    pub coverage: BTreeMap<RuleId, Covered>,
    /// The facts of the cases that pass.
    pub passed: Vec<Passed>,
}

/// The facts of a case that passes.
#[derive(Clone, Debug)]
pub struct Passed {
    /// The action of the request.
    pub action: String,
    /// The instant.
    pub now: Time,
    /// The facts, in the order of the program's readings.
    pub facts: Vec<Fact<'static>>,
    /// Whether the case names the rules that act, and not only the outcome.
    pub names_rules: bool,
    /// Whether the case names the rules that act in shadow.
    pub sees_shadow: bool,
}

/// Computes the facts that a request itself gives, in the order of the readings; `None` for a fact
/// that it does not give.
pub type Computed<'a, E> = &'a dyn Fn(&Case, &[Reading]) -> Result<Vec<Option<Fact<'static>>>, E>;

#[cfg(feature = "schema")]
fn action_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "enum": RULED_ACTIONS})
}

impl Expect {
    /// Returns the outcome if this is the hardest effect of the active rules.
    pub(crate) fn of(then: Option<Then>) -> Expect {
        match then {
            None => Expect::Accept,
            Some(Then::Warn) => Expect::Warn,
            Some(Then::Hold) => Expect::Hold,
            Some(Then::Reject) => Expect::Reject,
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Covered {
    /// Returns how many outcomes were seen, and how many there are.
    pub fn seen(&self) -> (u32, u32) {
        let mut seen = vec![self.acts > 0];
        if !self.conditions.is_empty() {
            seen.push(self.lets_pass > 0);
        }
        seen.extend(
            self.conditions
                .iter()
                .flat_map(|each| [each.held > 0, each.did_not > 0]),
        );
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (
            count(seen.iter().filter(|seen| **seen).count()),
            count(seen.len()),
        )
    }
}

impl Report {
    /// Returns the share of outcomes of rules and conditions that were seen, in whole percent.
    pub fn percent(&self) -> u32 {
        let (seen, all) = self
            .coverage
            .values()
            .map(Covered::seen)
            .fold((0_u32, 0_u32), |(seen, all), (a, b)| {
                (seen.saturating_add(a), all.saturating_add(b))
            });
        seen.saturating_mul(100).checked_div(all).unwrap_or(100)
    }
}

/// Parses a file of cases.
///
/// # Errors
/// Returns every [`RulebookError`], not only the first.
pub fn read(path: &str, text: &str) -> Result<CaseFile, Vec<RulebookError>> {
    if let Some(line) = line_of_long_number(text) {
        let message = "a bare number has too many digits; put it in quotes, so that none is lost";
        return Err(vec![RulebookError::new(path, Some(line), message)]);
    }
    let file: CaseFile = yaml::read(path, text).map_err(|fault| vec![fault])?;
    // Maps take the last of two values of one key, so read the file once more as what does not.
    let keys: serde_yaml::Value = yaml::read(path, text).map_err(|fault| vec![fault])?;
    let mut faults = Vec::new();
    if file.matrix.is_none() && keys.get("cases").is_none() {
        faults.push(RulebookError::new(
            path,
            None,
            "it has neither `cases` nor `matrix`",
        ));
    }
    for name in file.facts.keys().filter(|name| !field::is_fact(name)) {
        let message = format!(
            "fact `{name}` of the file: there is no such field; `spoolgate rules fields` lists them"
        );
        faults.push(RulebookError::new(
            path,
            line_from(text, name, 0).0,
            message,
        ));
    }
    for (near, what) in file.matrix.iter().flat_map(Matrix::faults) {
        let line = line_from(text, &near, line_from(text, "matrix:", 0).1).0;
        let line = line.or_else(|| line_from(text, "matrix:", 0).0);
        faults.push(RulebookError::new(path, line, format!("matrix: {what}")));
    }
    let mut names = BTreeSet::new();
    for (case, line) in file.cases.iter().zip(lines(text, &file)) {
        let mut fail = |what: String| {
            faults.push(RulebookError::new(
                path,
                line,
                format!("`{}`: {what}", case.name),
            ))
        };
        if case.name.trim().is_empty() {
            fail("`name` is empty".to_owned());
        } else if !names.insert(case.name.as_str()) {
            fail("an earlier case has the same name".to_owned());
        }
        if !RULED_ACTIONS.contains(&case.action.as_str()) {
            fail(format!(
                "rules do not apply to `{}`, but to {}",
                case.action,
                RULED_ACTIONS.join(", ")
            ));
        }
        let acting: BTreeSet<&RuleId> = case.rules.iter().collect();
        if acting.len() != case.rules.len() {
            fail("`rules` names a rule twice".to_owned());
        }
        if case.rules.is_empty() != (case.expect == Expect::Accept) {
            fail("`expect: accept` goes with `rules: []`, and nothing else does".to_owned());
        }
    }
    if faults.is_empty() {
        Ok(file)
    } else {
        Err(faults)
    }
}

/// Returns the line of each case, from 1.
pub fn lines(text: &str, file: &CaseFile) -> Vec<Option<usize>> {
    let mut from = 0;
    let each = file.cases.iter().map(|case| {
        let (line, after) = line_from(text, &case.name, from);
        from = after;
        line
    });
    each.collect()
}

/// Returns empty coverage for every rule that is evaluated.
pub fn nothing_seen(rules: &RuleSet) -> BTreeMap<RuleId, Covered> {
    let evaluated = rules
        .rules
        .values()
        .filter(|rule| matches!(rule.file.status, RuleStatus::Active | RuleStatus::Shadow));
    let covered = evaluated.map(|rule| {
        let conditions = rule.file.when.iter().map(|written| ConditionCovered {
            condition: written.to_string(),
            ..ConditionCovered::default()
        });
        (
            rule.file.id.clone(),
            Covered {
                conditions: conditions.collect(),
                ..Covered::default()
            },
        )
    });
    covered.collect()
}

/// Runs the cases of a file and counts coverage.
pub fn try_file<E: fmt::Display>(
    rules: &RuleSet,
    (path, text): (&str, &str),
    file: &CaseFile,
    computed: Computed<'_, E>,
    report: &mut Report,
) {
    let named = file.cases.iter().cloned().zip(lines(text, file));
    let named = named.map(|(case, line)| (case, line, true));
    let cells = file.matrix.iter().flat_map(|matrix| matrix.cases(text));
    let cells = cells.map(|(case, line)| (case, line, false));
    for (case, line, names_rules) in named.chain(cells) {
        let case = &case;
        let none = Program::default();
        let program = rules.programs.get(&case.action).unwrap_or(&none);
        let mut tried = Tried {
            file: path.to_owned(),
            line,
            name: case.name.clone(),
            expect: case.expect,
            got: Expect::Accept,
            rules: Vec::new(),
            faults: Vec::new(),
        };
        let facts = match computed(case, &program.readings) {
            Ok(facts) => stated(&file.facts, case, program, facts, &mut tried.faults),
            Err(why) => {
                tried.faults.push(why.to_string());
                Vec::new()
            }
        };
        if let Some(now) = case
            .at
            .or(Time::from_ms(0).ok())
            .filter(|_| tried.faults.is_empty())
        {
            let complete = facts.iter().map(|fact| {
                let why = "the case does not give it";
                fact.clone().unwrap_or(Fact::Unknown(why.into()))
            });
            let facts = Stated {
                now,
                names_rules,
                given: facts.iter().map(Option::is_some).collect(),
                facts: complete.collect(),
            };
            judge(
                rules,
                program,
                case,
                &facts,
                &mut tried,
                &mut report.coverage,
            );
            if tried.faults.is_empty() {
                report.passed.push(Passed {
                    action: case.action.clone(),
                    now,
                    facts: facts.facts,
                    names_rules,
                    sees_shadow: case.shadow.is_some(),
                });
            }
        }
        report.tried.push(tried);
    }
}

/// What a case says, in the order of the program's readings.
struct Stated {
    now: Time,
    /// Whether it names the rules that act.
    names_rules: bool,
    facts: Vec<Fact<'static>>,
    /// Whether the case gives each of the facts.
    given: Vec<bool>,
}

fn judge(
    rules: &RuleSet,
    program: &Program,
    case: &Case,
    Stated {
        now,
        names_rules,
        facts,
        given,
    }: &Stated,
    tried: &mut Tried,
    coverage: &mut BTreeMap<RuleId, Covered>,
) {
    let entries = Entries::default();
    let around = Around {
        now: *now,
        entries: &entries,
        task: None,
    };
    let mut shadow = Vec::new();
    let mut then = None;
    for guard in &program.guards {
        let truth = guard.truth(facts, &around);
        see(guard, facts, &around, truth, coverage);
        if truth == Truth::False {
            continue;
        }
        let not_given = guard.conditions.iter().map(|condition| condition.slot);
        let not_given: BTreeSet<usize> = not_given
            .filter(|slot| given.get(*slot) == Some(&false))
            .collect();
        let is_looked_at = guard.status == RuleStatus::Active || case.shadow.is_some();
        for reading in not_given
            .into_iter()
            .filter(|_| is_looked_at)
            .filter_map(|slot| program.readings.get(slot))
        {
            let name = name_of(reading);
            tried.faults.push(format!(
                "rule `{}` reads `{name}`, which the case does not give",
                guard.id
            ));
        }
        if guard.status == RuleStatus::Active {
            then = then.max(Some(guard.then));
            tried.rules.push(guard.id.clone());
        } else {
            shadow.push(guard.id.clone());
        }
    }
    tried.got = Expect::of(then);
    if !tried.faults.is_empty() {
        return;
    }
    if tried.got != case.expect {
        tried
            .faults
            .push(format!("expected {}, got {}", case.expect, tried.got));
    }
    if !names_rules {
        return;
    }
    let wants = [
        (&case.rules, &tried.rules, ""),
        (
            case.shadow.as_ref().unwrap_or(&shadow),
            &shadow,
            " in shadow",
        ),
    ];
    for (wanted, acting, how) in wants {
        for id in wanted.iter().filter(|id| !acting.contains(id)) {
            let why = match rules.rules.get(id) {
                None => "there is no such rule".to_owned(),
                Some(rule) => why_not(program, rule.file.status, id, facts, &around),
            };
            tried
                .faults
                .push(format!("rule `{id}` does not act{how}: {why}"));
        }
        for id in acting.iter().filter(|id| !wanted.contains(id)) {
            tried
                .faults
                .push(format!("rule `{id}` acts{how} and is not named"));
        }
    }
}

fn why_not(
    program: &Program,
    status: RuleStatus,
    id: &RuleId,
    facts: &[Fact<'static>],
    around: &Around<'_>,
) -> String {
    let Some(guard) = program.guards.iter().find(|guard| guard.id == *id) else {
        return "it does not apply to this action, or is suspended".to_owned();
    };
    let of = |slot: usize| facts.get(slot);
    let failed = guard.conditions.iter().find(|condition| {
        of(condition.slot).is_some_and(|fact| condition.test.of(fact, around) == Truth::False)
    });
    match failed
        .and_then(|condition| Some((program.readings.get(condition.slot)?, of(condition.slot)?)))
    {
        Some((reading, fact)) => format!("`{}` is {}", name_of(reading), show(reading, fact)),
        None => match status {
            RuleStatus::Active => "it is in force, not in shadow".to_owned(),
            _ => "it is in shadow".to_owned(),
        },
    }
}

fn see(
    guard: &Guard,
    facts: &[Fact<'static>],
    around: &Around<'_>,
    truth: Truth,
    coverage: &mut BTreeMap<RuleId, Covered>,
) {
    let Some(covered) = coverage.get_mut(&guard.id) else {
        return;
    };
    let count = |counter: &mut u32| *counter = counter.saturating_add(1);
    count(if truth == Truth::False {
        &mut covered.lets_pass
    } else {
        &mut covered.acts
    });
    // The conditions of the rule's scope come before its own.
    let scope = guard
        .conditions
        .len()
        .saturating_sub(covered.conditions.len());
    for (condition, covered) in guard
        .conditions
        .iter()
        .skip(scope)
        .zip(&mut covered.conditions)
    {
        match facts
            .get(condition.slot)
            .map(|fact| condition.test.of(fact, around))
        {
            Some(Truth::True) => count(&mut covered.held),
            Some(Truth::False) => count(&mut covered.did_not),
            _ => {}
        }
    }
}

/// Returns the name of a reading as conditions and cases write it.
pub fn name_of(reading: &Reading) -> String {
    let brackets = if reading.is_many() { "[]" } else { "" };
    format!("{reading}{brackets}")
}

/// Formats a fact for readers.
pub fn show(reading: &Reading, fact: &Fact<'_>) -> String {
    let one = |value: &Value<'_>| match (reading.kind(), value) {
        (Kind::TimeOfDay, Value::Number(number)) => time_of_day(*number),
        (_, Value::Number(number)) => number.normalized().to_string(),
        (_, Value::Text(text)) => format!("\"{text}\""),
        (_, Value::Flag(flag)) => flag.to_string(),
    };
    match fact {
        Fact::Known(value) => one(value),
        Fact::Many(values) => format!(
            "[{}]",
            values.iter().map(one).collect::<Vec<_>>().join(", ")
        ),
        Fact::Absent => "left out".to_owned(),
        Fact::Unknown(why) => format!("not known: {why}"),
    }
}

/// Formats minutes since midnight as `HH:MM`.
pub fn time_of_day(minutes: Amount) -> String {
    let minutes: Option<u32> = minutes.normalized().to_string().parse().ok();
    minutes.map_or_else(
        || "?".to_owned(),
        |all| {
            format!(
                "{:02}:{:02}",
                all.checked_div(60).unwrap_or(0),
                all.checked_rem(60).unwrap_or(0)
            )
        },
    )
}

/// Adds the facts that the case or its file states to the computed `facts`. They are in the order
/// of the program's readings; `None` for a fact that the case does not give.
fn stated(
    usual: &BTreeMap<String, Operand>,
    case: &Case,
    program: &Program,
    mut facts: Vec<Option<Fact<'static>>>,
    faults: &mut Vec<String>,
) -> Vec<Option<Fact<'static>>> {
    let mut given: BTreeMap<&str, Option<Fact<'static>>> = BTreeMap::new();
    let lists = [
        (&case.absent, Fact::Absent),
        (&case.unknown, Fact::Unknown("the case says so".into())),
    ];
    for (name, value) in &case.facts {
        match known(program, &case.action, name)
            .and_then(|reading| Ok((reading, parse(&reading, value)?)))
        {
            Ok((_, fact)) => {
                given.insert(name, Some(fact));
            }
            Err(why) => faults.push(format!("fact `{name}`: {why}")),
        }
    }
    for (names, fact) in lists {
        for name in names {
            let found =
                known(program, &case.action, name).and_then(|reading| may_be(&reading, &fact));
            match found {
                Err(why) => faults.push(format!("fact `{name}`: {why}")),
                Ok(()) => {
                    if given.insert(name, Some(fact.clone())).is_some() {
                        faults.push(format!("fact `{name}` is given twice"));
                    }
                }
            }
        }
    }
    for (slot, reading) in program.readings.iter().enumerate() {
        let name = name_of(reading);
        let Some(fact) = facts.get_mut(slot) else {
            continue;
        };
        if !given.contains_key(name.as_str())
            && fact.is_none()
            && let Some(value) = usual.get(&name)
        {
            match parse(reading, value) {
                Ok(usual) => *fact = Some(usual),
                Err(why) => faults.push(format!("fact `{name}` of the file: {why}")),
            }
            continue;
        }
        match given.remove(name.as_str()) {
            Some(_) if fact.is_some() => {
                faults.push(format!(
                    "fact `{name}` comes from `request`, `as` or `at`; do not give it again"
                ));
            }
            Some(value) => *fact = value,
            None if fact.is_none() && missing(reading) == Missing::Absent => {
                *fact = Some(Fact::Absent)
            }
            None => {}
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
        let of = |facts: &str, own: &str, side: &str| {
            format!(
                "facts:\n  order.size: 1\n{facts}cases:\n- name: a\n  action: order.submit\n  \
                    request: {{symbol: S{side}}}\n  facts:\n    order.side: buy\n{own}  expect: \
                    accept\n  rules: []\n"
            )
        };
        assert!(read("f", &of("", "", "")).is_ok());
        for (text, key) in [
            (of("  order.size: 2\n", "", ""), "order.size"),
            (of("", "    order.side: sell\n", ""), "order.side"),
            (of("", "", ", symbol: T"), "symbol"),
        ] {
            let faults = read("f", &text).unwrap_err();
            let [fault] = faults.as_slice() else {
                panic!("{faults:?}");
            };
            let names_it = fault.message.contains("duplicate") && fault.message.contains(key);
            assert!(names_it && fault.line.is_some(), "{fault}");
        }
    }
}
