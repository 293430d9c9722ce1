//! Mutants of rules: the same rule with one condition changed. Cases that notice no change do not
//! test the condition.

use serde::Serialize;

use crate::golden::Passed;
use crate::hours::Minute;
use crate::proof::{self, Direction, Witness};
use crate::rule::evaluate::Around;
use crate::rule::field::{Kind, LAST_MINUTE, Missing};
use crate::rule::file::{ConditionFile, Op, Operand, Scalar};
use crate::rule::ruleset::{Rule, missing};
use crate::rule::{
    Condition, Entries, Fact, Guard, Program, RuleFile, RuleSet, RuleStatus, Then, Truth,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;

/// Most steps of the proof that a mutant is no mutant.
const STEPS_EACH: u64 = 1_000_000;

/// Most digits behind the point of a number.
const PLACES_MAX: u32 = 10;

spoolgate_wire::named! {
    /// How a mutant differs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Change {
        /// Another operator.
        Operator = "operator",
        /// A threshold is moved: by 1 if the numbers are whole, else by a tenth of its last digit.
        Threshold = "threshold",
        /// A condition is dropped.
        Dropped = "dropped",
    }
}

/// A rule with one condition changed.
#[derive(Clone, Debug)]
pub struct Mutant {
    /// The rule.
    pub rule: RuleId,
    /// How it differs.
    pub change: Change,
    /// Position of the changed condition in `when`.
    pub nth: usize,
    /// The condition as it is.
    pub was: ConditionFile,
    /// The condition as changed; `None` if it is dropped.
    pub is: Option<ConditionFile>,
    /// The changed rule alone.
    book: RuleSet,
}

impl std::fmt::Display for Mutant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.is {
            Some(is) => write!(f, "`{}` becomes `{is}`", self.was),
            None => write!(f, "`{}` is dropped", self.was),
        }
    }
}

impl Mutant {
    /// Returns the changed rule over the readings of a program that has the rule; `None` if it is
    /// not for this action.
    pub(crate) fn guard(&self, action: &str, program: &Program) -> Option<Guard> {
        let alone = self.book.programs.get(action)?;
        let guard = alone.guards.first()?;
        let conditions = guard.conditions.iter().map(|condition| {
            let reading = alone.readings.get(condition.slot)?;
            let slot = program.readings.iter().position(|it| it == reading)?;
            Some(Condition {
                slot,
                ..condition.clone()
            })
        });
        Some(Guard {
            conditions: conditions.collect::<Option<_>>()?,
            ..guard.clone()
        })
    }

    /// Returns whether a case that passes would fail with this mutant in place of its rule.
    pub fn is_noticed(&self, rules: &RuleSet, passed: &[Passed]) -> bool {
        let entries = Entries::default();
        passed.iter().any(|case| {
            let Some(program) = rules.programs.get(&case.action) else {
                return false;
            };
            let own = program.guards.iter().find(|it| it.id == self.rule);
            let (Some(own), Some(mutant)) = (own, self.guard(&case.action, program)) else {
                return false;
            };
            let around = Around {
                now: case.now,
                entries: &entries,
                task: None,
            };
            let acts = |guard: &Guard| guard.truth(&case.facts, &around) != Truth::False;
            if acts(own) == acts(&mutant) {
                return false;
            }
            match (own.status == RuleStatus::Active, case.names_rules) {
                (true, true) => true,
                (false, _) => case.names_rules && case.sees_shadow,
                // Only the outcome is compared: no other rule may do as much.
                (true, false) => {
                    let mut others = program.guards.iter().filter(|it| it.id != self.rule);
                    !others.any(|it| {
                        it.status == RuleStatus::Active && it.then >= own.then && acts(it)
                    })
                }
            }
        })
    }
}

/// Returns the mutants of a rule, without those that are proved to act on the same requests.
pub fn mutants(rules: &RuleSet, rule: &Rule) -> Vec<Mutant> {
    let alone = |when: Vec<ConditionFile>| {
        let file = RuleFile {
            when,
            ..rule.file.clone()
        };
        let empty = RuleSet {
            sets: rules.sets.clone(),
            ..RuleSet::default()
        };
        let changed = Rule {
            file,
            ..rule.clone()
        };
        empty.with(changed).ok()
    };
    let Some(own) = alone(rule.file.when.clone()).map(refusing) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (nth, was) in rule.file.when.iter().enumerate() {
        for (change, is) in changes(was, kind_of(&own, rule, nth)) {
            let mut when = rule.file.when.clone();
            when.splice(nth..nth.saturating_add(1), is.clone());
            // A value that the field cannot have makes no rule.
            let Some(book) = alone(when) else { continue };
            let compared = proof::compare(&own, &refusing(book.clone()), STEPS_EACH);
            let shown = [&compared.loosens, &compared.tightens];
            let differs = compared.direction == Direction::Unproved
                || shown.into_iter().flatten().any(may_happen);
            if !differs {
                continue;
            }
            found.push(Mutant {
                rule: rule.file.id.clone(),
                change,
                nth,
                was: was.clone(),
                is,
                book,
            });
        }
    }
    found
}

/// Returns whether only facts that may be unknown are. Proofs assume that any may; a difference that
/// needs it of another shows that a condition never holds.
fn may_happen(witness: &Witness) -> bool {
    let mut facts = witness.facts.iter();
    facts.all(|(reading, fact)| {
        !matches!(fact, Fact::Unknown(_)) || missing(reading) == Missing::Unknown
    })
}

/// Makes every rule refuse, so that the prover compares what they act on.
fn refusing(mut book: RuleSet) -> RuleSet {
    for guard in book.programs.values_mut().flat_map(|it| &mut it.guards) {
        guard.status = RuleStatus::Active;
        guard.then = Then::Reject;
    }
    book
}

/// Returns what the values of a condition are.
fn kind_of(book: &RuleSet, rule: &Rule, nth: usize) -> Option<Kind> {
    let program = book.programs.values().next()?;
    let guard = program.guards.first()?;
    let scope = guard.conditions.len().checked_sub(rule.file.when.len())?;
    let condition = guard.conditions.get(scope.checked_add(nth)?)?;
    Some(program.readings.get(condition.slot)?.kind())
}

fn changes(was: &ConditionFile, kind: Option<Kind>) -> Vec<(Change, Option<ConditionFile>)> {
    let bare = ConditionFile {
        min: None,
        max: None,
        ..was.clone()
    };
    let mut found = Vec::new();
    for op in flipped(was.op) {
        let is = ConditionFile {
            op: *op,
            ..bare.clone()
        };
        found.push((Change::Operator, Some(is)));
    }
    if let (Some(kind), Some(value)) = (kind.filter(Kind::is_number), &was.value) {
        for value in moved(kind, value) {
            let is = ConditionFile {
                value: Some(value),
                ..bare.clone()
            };
            found.push((Change::Threshold, Some(is)));
        }
    }
    found.push((Change::Dropped, None));
    found
}

/// Returns the operators that a slip of the pen may put in place of this one.
fn flipped(op: Op) -> &'static [Op] {
    match op {
        Op::Eq => &[Op::Neq],
        Op::Neq => &[Op::Eq],
        Op::Gt => &[Op::Gte, Op::Lte],
        Op::Gte => &[Op::Gt, Op::Lt],
        Op::Lt => &[Op::Lte, Op::Gte],
        Op::Lte => &[Op::Lt, Op::Gt],
        Op::In => &[Op::NotIn],
        Op::NotIn => &[Op::In],
        Op::DomainIn => &[Op::DomainNotIn],
        Op::DomainNotIn => &[Op::DomainIn],
        Op::Matches => &[Op::NotMatches],
        Op::NotMatches => &[Op::Matches],
        Op::Absent => &[Op::Present],
        Op::Present => &[Op::Absent],
        Op::LinksNotIn | Op::FirstSeen => &[],
    }
}

/// Returns the smallest distance that thresholds are moved by: 1 for whole numbers and minutes, else
/// a tenth of the last digit.
pub(crate) fn step(kind: Kind, number: Amount) -> Amount {
    if matches!(kind, Kind::Whole(..) | Kind::TimeOfDay) {
        return Amount::ONE;
    }
    let places = number
        .normalized()
        .scale()
        .saturating_add(1)
        .min(PLACES_MAX);
    let zeros = usize::try_from(places).unwrap_or(1).saturating_sub(1);
    Amount::parse_wire(&format!("0.{}1", "0".repeat(zeros))).unwrap_or(Amount::ONE)
}

/// Returns the numbers one [`step`] beside this one that the field can have.
pub(crate) fn beside(kind: Kind, number: Amount) -> Vec<Amount> {
    let step = step(kind, number);
    let both = [number.checked_sub(step), number.checked_add(step)];
    both.into_iter().flatten().collect()
}

/// Returns an operand with one number moved, in every way.
fn moved(kind: Kind, value: &Operand) -> Vec<Operand> {
    match value {
        Operand::One(one) => scalars(kind, one).into_iter().map(Operand::One).collect(),
        Operand::Many(values) => {
            let each = values.iter().enumerate().flat_map(|(at, one)| {
                scalars(kind, one).into_iter().map(move |moved| {
                    let mut values = values.clone();
                    if let Some(place) = values.get_mut(at) {
                        *place = moved;
                    }
                    Operand::Many(values)
                })
            });
            each.collect()
        }
    }
}

fn scalars(kind: Kind, value: &Scalar) -> Vec<Scalar> {
    if let (Kind::TimeOfDay, Scalar::Text(text)) = (kind, value) {
        return match text.split_once('-') {
            None => minutes(text).into_iter().map(Scalar::Text).collect(),
            Some((from, to)) => {
                let begins = minutes(from).into_iter().map(|from| format!("{from}-{to}"));
                let ends = minutes(to).into_iter().map(|to| format!("{from}-{to}"));
                begins.chain(ends).map(Scalar::Text).collect()
            }
        };
    }
    let number = match value {
        Scalar::Number(number) => Some(*number),
        Scalar::Text(text) => Amount::parse_wire(text).ok(),
        Scalar::Flag(_) => None,
    };
    let moved = number.into_iter().flat_map(|number| beside(kind, number));
    moved.map(Scalar::Number).collect()
}

/// Returns the times one minute before and after this one.
fn minutes(text: &str) -> Vec<String> {
    let minute = match text {
        "24:00" => LAST_MINUTE.saturating_add(1),
        text => match Minute::parse(text) {
            Some(minute) => i64::from(minute.minutes()),
            None => return Vec::new(),
        },
    };
    let both = [minute.saturating_sub(1), minute.saturating_add(1)];
    let within = both.into_iter().filter(|at| (0..=LAST_MINUTE).contains(at));
    let shown = within.map(|at| crate::golden::time_of_day(Amount::from_i64(at)));
    shown.collect()
}
