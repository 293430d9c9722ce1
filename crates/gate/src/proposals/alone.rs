//! What a change would do if its rule were the only one in force.

use serde::Serialize;

use spoolgate_rules::proof::{STEPS_MAX, compare};
use spoolgate_rules::rule::ruleset::Rule;
use spoolgate_rules::rule::{RuleFile, RuleSet, RuleStatus, Then};
use spoolgate_wire::ids::RuleId;

use super::Found;

/// Most other rules of which the fewest that cover the rule are looked for.
const TOGETHER_MAX: usize = 64;

/// A change that loosens its rule, which does not show because of something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Masked {
    /// The direction of the change if the rule were the only one in force.
    pub direction: Found,
    /// The rules that refuse and hold what the rule did before; empty if the rule is on trial, or if
    /// too many rules do so together.
    pub covered_by: Vec<RuleId>,
    /// Whether the rule is on trial in shadow, so that it refuses nothing either way.
    pub on_trial: bool,
}

/// Returns what masks a change of a rule that loosens it, if the change is proved to loosen nothing
/// among the other rules; `None` if the rule is new, or nothing is masked.
pub fn masked(before: &RuleSet, after: &RuleSet, id: &RuleId) -> Option<Masked> {
    let old = before.rules.get(id)?;
    let empty = RuleSet {
        sets: after.sets.clone(),
        ..RuleSet::default()
    };
    let was = empty.with(in_force(old)).ok()?;
    let is = match after.rules.get(id) {
        Some(new) => empty.with(in_force(new)).ok()?,
        None => empty,
    };
    let compared = compare(&was, &is, STEPS_MAX);
    if compared.may_apply_itself() {
        return None;
    }
    let on_trial = old.file.status == RuleStatus::Shadow;
    let is_near = |rule: &&Rule| {
        let RuleFile {
            id: other,
            status,
            then,
            applies_to,
            ..
        } = &rule.file;
        let mut actions = applies_to.action.iter();
        *other != *id
            && *status == RuleStatus::Active
            && *then > Then::Warn
            && actions.any(|action| old.file.applies_to.action.contains(action))
    };
    let mut covering: Vec<&Rule> = Vec::new();
    if !on_trial {
        covering = after.rules.values().filter(is_near).collect();
        let covers = |others: &[&Rule]| {
            let mut others = others.iter();
            let book = others.try_fold(is.clone(), |book, rule| book.with((*rule).clone()));
            book.is_ok_and(|book| compare(&was, &book, STEPS_MAX).may_apply_itself())
        };
        if let Some(one) = covering.iter().find(|rule| covers(&[rule])) {
            covering = vec![*one];
        } else if covering.len() > TOGETHER_MAX {
            covering.clear();
        } else {
            for at in (0..covering.len()).rev() {
                let mut fewer = covering.clone();
                fewer.remove(at);
                if covers(&fewer) {
                    covering = fewer;
                }
            }
        }
    }
    Some(Masked {
        direction: compared.direction.into(),
        covered_by: covering.iter().map(|rule| rule.file.id.clone()).collect(),
        on_trial,
    })
}

/// Returns the rule as it would be if its trial had ended.
fn in_force(rule: &Rule) -> Rule {
    let mut rule = rule.clone();
    if rule.file.status == RuleStatus::Shadow {
        rule.file.status = RuleStatus::Active;
    }
    rule
}

impl Masked {
    /// A description for lists.
    pub fn in_words(&self) -> String {
        let does = match self.direction {
            Found::Loosening => "loosens",
            Found::Incomparable => "loosens and tightens",
            Found::Unproved => "may loosen",
            Found::Same | Found::Tightening => "does not loosen",
        };
        let ids: Vec<&str> = self.covered_by.iter().map(RuleId::as_str).collect();
        let by = match (self.on_trial, ids.as_slice()) {
            (true, _) => "it is on trial in shadow".to_owned(),
            (false, []) => "covered by many rules together".to_owned(),
            (false, ids) => format!("covered by {}", ids.join(", ")),
        };
        format!("masked: alone it {does} ({by})")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn book(rules: &[(&str, &str, &str, &str)]) -> RuleSet {
        let rules: Vec<(String, String)> = rules
            .iter()
            .map(|(id, status, test, then)| {
                let text = format!(
                    "id: {id}\nstatus: {status}\napplies_to: {{action: order.submit}}\nwhen: \
                        [{{field: order.size, {test}}}]\nthen: {then}\nmessage: no\n"
                );
                (format!("rules/active/{id}.yaml"), text)
            })
            .collect();
        let rules = rules
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        RuleSet::compile(rules, []).unwrap()
    }

    #[test]
    fn what_covers_a_loosened_rule_is_named() {
        let cap = |value: &'static str| ("cap", "active", value, "reject");
        let words = |before: &[(&str, &str, &str, &str)], after: &[(&str, &str, &str, &str)]| {
            let id = RuleId::parse("cap").unwrap();
            masked(&book(before), &book(after), &id).map(|it| it.in_words())
        };
        let covering = ("cap-2", "active", "op: gt, value: 1", "reject");
        let (was, is) = (cap("op: gt, value: 2"), cap("op: gt, value: 9"));
        let alone = "masked: alone it loosens";
        assert_eq!(
            words(&[was, covering], &[is, covering]),
            Some(format!("{alone} (covered by cap-2)"))
        );
        assert_eq!(
            words(&[is, covering], &[was, covering]),
            None,
            "a tightening"
        );
        assert_eq!(words(&[covering], &[was, covering]), None, "a new rule");
        assert_eq!(words(&[was, covering], &[was, covering]), None);
        // Two rules together, of which neither covers it, and one that has no part in it.
        let low = ("low", "active", "op: lte, value: 5", "reject");
        let high = ("high", "active", "op: gt, value: 5", "reject");
        let other = ("other", "active", "op: lt, value: 1", "reject");
        let (was_lower, is_lower) = (cap("op: gt, value: 0.5"), cap("op: gt, value: 9"));
        assert_eq!(
            words(
                &[was_lower, low, high, other],
                &[is_lower, low, high, other]
            ),
            Some(format!("{alone} (covered by high, low)"))
        );
        let suspended = ("cap", "suspended", "op: gt, value: 2", "reject");
        assert_eq!(
            words(&[was, covering], &[suspended, covering]),
            Some(format!("{alone} (covered by cap-2)"))
        );
        let (trial, longer) = (
            ("cap", "shadow", "op: gt, value: 2", "reject"),
            ("cap", "shadow", "op: gt, value: 9", "reject"),
        );
        assert_eq!(
            words(&[trial], &[longer]),
            Some(format!("{alone} (it is on trial in shadow)"))
        );
        let held = ("cap-2", "active", "op: gt, value: 1", "hold");
        let softer = ("cap", "active", "op: gt, value: 2", "hold");
        assert_eq!(
            words(
                &[softer, held],
                &[("cap", "active", "op: lt, value: 0.1", "hold"), held]
            ),
            Some("masked: alone it loosens and tightens (covered by cap-2)".to_owned())
        );
    }
}
