//! The rulebook that a proposal would make, and the direction of the change.

use super::{Kind, OWN_RULES_MAX, OWN_SEARCHES_MAX, Proposed, RULE_BYTES_MAX};
use crate::actions::no_such;
use crate::prepare::Refusal;
use spoolgate_rules::nearest::did_you_mean;
use spoolgate_rules::proof::{Comparison, STEPS_MAX, compare};
use spoolgate_rules::rule::file::{ConditionFile, Op, Operand, RuleFile, RuleStatus, Scalar, Then};
use spoolgate_rules::rule::ruleset::{PROPOSED_PATTERN_SIZE_MAX, RULES_MAX, Rule, compiled};
use spoolgate_rules::rule::{Reading, RuleSet, field};
use spoolgate_rules::{Rulebook, RulebookError, admit};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Principal, RuleId};
use spoolgate_wire::proposals::{Activate, ModifyParameter, RuleProposal, Suspend};
use spoolgate_wire::signing::sha256_hex;

/// A rule as a proposal would make it.
pub(super) struct Wanted {
    pub rule_id: RuleId,
    pub kind: Kind,
    pub path: String,
    pub old: Option<Rule>,
    pub file: RuleFile,
}

/// A proposed change with the resulting rulebook.
pub(super) struct Judged {
    pub new: Option<String>,
    pub after: Rulebook,
    pub comparison: Comparison,
}

/// The file of the rule that a proposal is about, whether it exists yet or not. `None` if the
/// rule's id is invalid.
pub fn path_of(rules: &Rulebook, proposal: &RuleProposal) -> Option<String> {
    let id = match proposal {
        RuleProposal::Activate(Activate { rule, .. }) => id_in(rule.as_str())?,
        RuleProposal::Suspend(Suspend { rule_id, .. })
        | RuleProposal::ModifyParameter(ModifyParameter { rule_id, .. }) => rule_id.clone(),
    };
    RuleId::parse(&id).ok().map(|id| place(rules, &id))
}

fn id_in(text: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    value.get("id")?.as_str().map(str::to_owned)
}

fn place(rules: &Rulebook, id: &RuleId) -> String {
    rules.ruleset.rules.get(id).map_or_else(
        || format!("rules/active/{id}.yaml"),
        |rule| rule.path.clone(),
    )
}

fn rule_id(text: &str) -> Result<RuleId, Refusal> {
    RuleId::parse(text).map_err(|error| Refusal::new(Code::RuleIdInvalid, error.to_string()))
}

/// The change that a proposal requests.
pub(super) fn wanted(rules: &Rulebook, proposal: &RuleProposal) -> Result<Wanted, Refusal> {
    match proposal {
        RuleProposal::Activate(Activate { rule, .. }) => {
            activate(rules, &without_pairs(rule.as_str()))
        }
        RuleProposal::Suspend(Suspend {
            rule_id: id,
            reason,
            ..
        }) => suspend(rules, &rule_id(id)?, reason.clone()),
        RuleProposal::ModifyParameter(modify) => {
            let ModifyParameter {
                rule_id: id,
                parameter,
                old_value,
                new_value,
                ..
            } = modify;
            modified(rules, &rule_id(id)?, parameter, *old_value, *new_value)
        }
    }
}

/// The change of a waiting proposal, under the present rulebook.
pub(super) fn wanted_again(rules: &Rulebook, proposed: &Proposed) -> Result<Wanted, Refusal> {
    match &proposed.kind {
        Kind::Suspend { reason } => suspend(rules, &proposed.rule_id, reason.clone()),
        Kind::ModifyParameter {
            parameter,
            old_value,
            new_value,
        } => modified(rules, &proposed.rule_id, parameter, *old_value, *new_value),
        Kind::Activate | Kind::Revert { .. } => {
            activate(rules, proposed.new.as_deref().unwrap_or_default())
        }
    }
}

/// Rewrites JSON so that YAML reads it: a surrogate pair of escapes becomes the character itself.
fn without_pairs(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (head, tail) = rest.split_at(at);
        out.push_str(head);
        let unit = |from: usize| {
            let digits = tail.get(from..)?.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let pair = unit(0).zip(unit(6)).map(|(high, low)| [high, low]);
        // Only a surrogate pair is one character; two other escapes are two characters.
        let whole = pair.and_then(|units| String::from_utf16(&units).ok());
        let whole = whole.filter(|text| text.chars().nth(1).is_none());
        let length = whole.as_ref().map_or(2, |_| 12);
        out.push_str(whole.as_deref().or_else(|| tail.get(..2)).unwrap_or(tail));
        rest = tail.get(length..).unwrap_or_default();
    }
    out + rest
}

fn activate(rules: &Rulebook, text: &str) -> Result<Wanted, Refusal> {
    let malformed = |what: String| Refusal::new(Code::RuleMalformed, what);
    if text.len() > RULE_BYTES_MAX {
        return Err(malformed(format!(
            "the rule has more than {RULE_BYTES_MAX} bytes"
        )));
    }
    // An invalid id gets its own refusal code: paths and look-alike letters are not typing errors.
    if let Some(id) = id_in(text) {
        rule_id(&id)?;
    }
    let file = RuleFile::read("rule", text).map_err(|error| malformed(error.to_string()))?;
    if let Some(fault) = admit::in_text("rule", text).into_iter().next() {
        return Err(malformed(RulebookError::from(fault).to_string()));
    }
    check_fields(&file)?;
    check_patterns(&file)?;
    let (old, path) = (rules.ruleset.rules.get(&file.id), place(rules, &file.id));
    match old {
        Some(old) if old.is_core() => return Err(in_core(old)),
        Some(Rule {
            file: RuleFile {
                lesson: Some(lesson),
                ..
            },
            ..
        }) => {
            let what = format!("rule `{}` was retired: {lesson}", file.id);
            return Err(Refusal::new(Code::RuleRetired, what));
        }
        None if rules.ruleset.rules.len() >= RULES_MAX => {
            return Err(Refusal::new(
                Code::RulesFull,
                format!("there are already {RULES_MAX} rules, the maximum"),
            ));
        }
        _ => {}
    }
    Ok(Wanted {
        rule_id: file.id.clone(),
        kind: Kind::Activate,
        path,
        old: old.cloned(),
        file,
    })
}

fn in_core(rule: &Rule) -> Refusal {
    Refusal::new(
        Code::RuleIdTaken,
        format!("rule `{}` is in `{}`", rule.file.id, rule.path),
    )
}

fn known<'a>(rules: &'a Rulebook, id: &RuleId) -> Result<&'a Rule, Refusal> {
    let rule = rules.ruleset.rules.get(id);
    let rule = rule.ok_or_else(|| {
        let known = rules.ruleset.rules.keys().map(RuleId::as_str);
        no_such("rule", id.as_str(), known, Some(ActionName::RulesList))
    })?;
    if rule.is_core() {
        return Err(in_core(rule));
    }
    if let Some(lesson) = &rule.file.lesson {
        return Err(Refusal::new(
            Code::RuleRetired,
            format!("rule `{id}` was retired: {lesson}"),
        ));
    }
    Ok(rule)
}

fn suspend(rules: &Rulebook, id: &RuleId, reason: String) -> Result<Wanted, Refusal> {
    let old = known(rules, id)?;
    if old.file.status == RuleStatus::Suspended {
        return Err(Refusal::new(
            Code::StateConflict,
            format!("rule `{id}` is suspended"),
        ));
    }
    let file = RuleFile {
        status: RuleStatus::Suspended,
        ..old.file.clone()
    };
    let (rule_id, path) = (id.clone(), old.path.clone());
    Ok(Wanted {
        rule_id,
        kind: Kind::Suspend { reason },
        path,
        old: Some(old.clone()),
        file,
    })
}

fn modified(
    rules: &Rulebook,
    id: &RuleId,
    parameter: &str,
    old_value: Amount,
    new_value: Amount,
) -> Result<Wanted, Refusal> {
    let old = known(rules, id)?;
    let mut file = old.file.clone();
    let is_ordered =
        |condition: &ConditionFile| matches!(condition.op, Op::Gt | Op::Gte | Op::Lt | Op::Lte);
    let mut named = file
        .when
        .iter_mut()
        .filter(|c| c.field == parameter && is_ordered(c));
    let (Some(condition), None) = (named.next(), named.next()) else {
        let what = format!(
            "rule `{id}` does not have exactly one ordered condition on \
            `{parameter}`"
        );
        return Err(Refusal::new(Code::ParameterAmbiguous, what));
    };
    let value = match &condition.value {
        Some(Operand::One(Scalar::Number(number))) => Some(*number),
        Some(Operand::One(Scalar::Text(text))) => Amount::parse_wire(text).ok(),
        _ => None,
    };
    let Some(value) = value else {
        let what = format!("the condition of rule `{id}` on `{parameter}` has no plain number");
        return Err(Refusal::new(Code::ParameterAmbiguous, what));
    };
    if value.cmp(&old_value).is_ne() {
        let what = format!("`{parameter}` of rule `{id}` is {value}, not {old_value}");
        return Err(Refusal::new(Code::StaleValue, what));
    }
    if new_value.cmp(&value).is_eq() {
        let what = format!("`{parameter}` of rule `{id}` is already {value}");
        return Err(Refusal::new(Code::StateConflict, what));
    }
    let is_below = condition.min.is_some_and(|min| new_value < *min);
    if is_below || condition.max.is_some_and(|max| new_value > *max) {
        let show =
            |bound: Option<Amount>| bound.map_or_else(|| "open".to_owned(), |b| b.to_string());
        let (min, max) = (
            show(condition.min.map(|bound| bound.get())),
            show(condition.max.map(|bound| bound.get())),
        );
        let what = format!(
            "{new_value} is outside the bounds of `{parameter}` of rule `{id}`, which are \
                {min} to {max}"
        );
        return Err(Refusal::new(Code::ValueOutOfBounds, what));
    }
    condition.value = Some(Operand::One(Scalar::Number(new_value)));
    let kind = Kind::ModifyParameter {
        parameter: parameter.to_owned(),
        old_value,
        new_value,
    };
    Ok(Wanted {
        rule_id: id.clone(),
        kind,
        path: old.path.clone(),
        old: Some(old.clone()),
        file,
    })
}

fn check_fields(file: &RuleFile) -> Result<(), Refusal> {
    let names = file
        .when
        .iter()
        .flat_map(|c| [Some(c.field.as_str()), c.of.as_deref()])
        .flatten();
    for name in names {
        let bare = name.strip_suffix("[]").unwrap_or(name);
        let is_history = matches!(name, "history.count" | "history.sum" | "history.distinct");
        if !is_history && field::find(bare).is_none() {
            return Err(Refusal::new(
                Code::RuleFieldUnknown,
                format!(
                    "field `{name}` does not exist{}",
                    did_you_mean(bare, field::known(), "")
                ),
            ));
        }
    }
    Ok(())
}

fn check_patterns(file: &RuleFile) -> Result<(), Refusal> {
    for condition in &file.when {
        if let (Op::Matches | Op::NotMatches, Some(Operand::One(Scalar::Text(text)))) =
            (condition.op, &condition.value)
            && let Err(why) = compiled(text, PROPOSED_PATTERN_SIZE_MAX)
        {
            let what = format!(
                "the expression of the condition on `{}`: {why}",
                condition.field
            );
            return Err(Refusal::new(Code::RulePatternRefused, what));
        }
    }
    Ok(())
}

/// The rulebook with the change, and its comparison with the rulebook without it.
pub(super) fn judged(rules: &Rulebook, wanted: &Wanted) -> Result<Judged, Refusal> {
    let malformed = |what: String| Refusal::new(Code::RuleMalformed, what);
    let text = wanted.file.to_yaml();
    let new = text.map_err(|error| malformed(error.to_string()))?;
    let old_bytes = wanted.old.as_ref().map_or(0, |old| old.text.len());
    if new.len().max(old_bytes) > RULE_BYTES_MAX {
        return Err(malformed(format!(
            "the rule's file has more than {RULE_BYTES_MAX} bytes"
        )));
    }
    if wanted.old.as_ref().is_some_and(|old| old.text == new) {
        return Err(Refusal::new(
            Code::StateConflict,
            format!("rule `{}` is already like this", wanted.rule_id),
        ));
    }
    let after = with_rule(rules, &wanted.path, Some(&new))?;
    let comparison = compare(&rules.ruleset, &after.ruleset, STEPS_MAX);
    Ok(Judged {
        new: Some(new),
        after,
        comparison,
    })
}

/// The rulebook with another file of a rule, which may come into force.
pub(super) fn with_rule(
    rules: &Rulebook,
    path: &str,
    text: Option<&str>,
) -> Result<Rulebook, Refusal> {
    let malformed = |error: RulebookError| Refusal::new(Code::RuleMalformed, error.to_string());
    let after = rules.with_rule(path, text).map_err(malformed)?;
    let mut changed = after
        .ruleset
        .rules
        .values()
        .filter(|rule| rule.path == path);
    let fault = changed.find_map(|rule| after.admit_rule(rule).into_iter().next());
    match fault {
        Some(fault) => Err(malformed(fault.into())),
        None => Ok(after),
    }
}

/// Returns why the change needs an approver; `None` if it applies itself.
pub(super) fn why_people(
    rules: &Rulebook,
    by: &Principal,
    wanted: &Wanted,
    judged: &Judged,
) -> Option<String> {
    let Wanted {
        kind, rule_id, old, ..
    } = wanted;
    // The file as it reads back, because that is what was proved and what will be in force.
    let Some(Rule { file, .. }) = judged.after.ruleset.rules.get(rule_id) else {
        return Some("the rule would not exist".to_owned());
    };
    let comparison = &judged.comparison;
    if matches!(kind, Kind::Suspend { .. } | Kind::Revert { .. }) {
        return Some("only a person may put a rule out of force".to_owned());
    }
    let is_new = old.is_none();
    match file.status {
        RuleStatus::Active => {}
        RuleStatus::Shadow if is_new => {}
        _ => return Some("only a person may put a rule out of force".to_owned()),
    }
    if is_new && file.then == Then::Warn {
        return Some("a rule that only warns does not tighten anything".to_owned());
    }
    if let Some(Rule { file: old, .. }) = old {
        if !matches!(old.status, RuleStatus::Active | RuleStatus::Shadow) {
            return Some("a person put this rule out of force".to_owned());
        }
        if !keeps_what_is_not_decided(old, file) {
            return Some("it changes bounds, hypothesis or origin of the rule".to_owned());
        }
    }
    if !comparison.may_apply_itself() {
        return Some("it is not proved that no request is treated more leniently".to_owned());
    }
    if old
        .as_ref()
        .is_some_and(|old| !is_tighter_alone(rules, old, file))
    {
        return Some(
            "only other rules, or its trial, keep the rule from treating requests more leniently"
                .to_owned(),
        );
    }
    let touched = old.iter().map(|rule| &rule.file).chain([file]);
    if let Some(why) = touched.filter_map(|file| not_own(rules, by, file)).next() {
        return Some(why);
    }
    let own = rules.ruleset.rules.values().map(|rule| &rule.file);
    let own = own.filter(|other| not_own(rules, by, other).is_none());
    if is_new && own.clone().count() >= OWN_RULES_MAX {
        return Some(format!("`{by}` has {OWN_RULES_MAX} rules of its own"));
    }
    let others = own.filter(|other| other.id != file.id);
    if searches(file) > 0
        && others
            .map(searches)
            .fold(searches(file), usize::saturating_add)
            > OWN_SEARCHES_MAX
    {
        return Some(format!(
            "with this rule, more than {OWN_SEARCHES_MAX} conditions of the rules of `{by}` would \
                search texts or look back"
        ));
    }
    None
}

/// Number of conditions whose cost grows with the length of a text or with the sender's history.
fn searches(file: &RuleFile) -> usize {
    let is_search = |c: &&ConditionFile| {
        c.field.starts_with("history.")
            || matches!(c.op, Op::Matches | Op::NotMatches | Op::LinksNotIn)
    };
    file.when.iter().filter(is_search).count()
}

/// Whether the rule alone, in force, still refuses and holds everything that it did. Otherwise an
/// agent's rule that refuses everything would hide that another rule was loosened, until a person
/// removes the first.
fn is_tighter_alone(rules: &Rulebook, old: &Rule, new: &RuleFile) -> bool {
    let sets = RuleSet {
        sets: rules.ruleset.sets.clone(),
        ..RuleSet::default()
    };
    let alone = |file: &RuleFile| {
        let file = RuleFile {
            status: RuleStatus::Active,
            lesson: None,
            ..file.clone()
        };
        sets.with(Rule {
            file,
            ..old.clone()
        })
    };
    match (alone(&old.file), alone(new)) {
        (Ok(before), Ok(after)) => compare(&before, &after, STEPS_MAX).may_apply_itself(),
        _ => false,
    }
}

/// Whether bounds, hypothesis and origin stay the same. Bounds are what a person allows proposals
/// to change, and the hypothesis is what the rule is measured by.
fn keeps_what_is_not_decided(old: &RuleFile, new: &RuleFile) -> bool {
    let bounds = |file: &RuleFile| {
        let bounded = file
            .when
            .iter()
            .filter(|c| c.min.is_some() || c.max.is_some());
        bounded
            .map(|c| (c.field.clone(), c.op, c.min, c.max))
            .collect::<Vec<_>>()
    };
    bounds(old) == bounds(new)
        && old.hypothesis == new.hypothesis
        && old.created == new.created
        && old.created_from == new.created_from
}

/// Returns why the rule can refuse requests of other principals than the proposer; `None` if it
/// cannot.
fn not_own(rules: &Rulebook, by: &Principal, file: &RuleFile) -> Option<String> {
    let scope = &file.applies_to;
    if scope
        .principal
        .as_ref()
        .is_some_and(|names| names.iter().all(|name| name == by))
    {
        return None;
    }
    let is_owned = |name| {
        let owners = rules
            .principals
            .values()
            .filter(|rule| rule.strategies.contains(name));
        owners.map(|rule| &rule.name).eq([by])
    };
    let has_strategies = scope
        .action
        .iter()
        .all(|action| *action == ActionName::OrderSubmit);
    if has_strategies
        && scope
            .strategy
            .as_ref()
            .is_some_and(|names| names.iter().all(is_owned))
    {
        return None;
    }
    Some(format!(
        "the rule can refuse requests of others than `{by}`; `applies_to` would have to name only \
            `{by}` or its strategies"
    ))
}

impl Proposed {
    /// SHA-256 of the file's path and new text, hex: equal for equal changes.
    pub fn change_sha256(&self) -> String {
        sha256_hex(format!("{}\n{}", self.path, self.new.as_deref().unwrap_or_default()).as_bytes())
    }
}

/// The reading's name as it is written in rules.
pub(super) fn name_of(reading: &Reading) -> String {
    let brackets = if reading.is_many() { "[]" } else { "" };
    format!("{reading}{brackets}")
}
