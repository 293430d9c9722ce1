//! `rules.list`.

use super::{is_shown, prelude::*};
use spoolgate_rules::rule::RuleFile;
use spoolgate_wire::ids::Principal;

/// Lists the rules that apply to the sender.
pub struct RulesList;

/// The answer.
#[derive(Serialize)]
pub enum Answer<'a> {
    /// The answer to `rules.list`.
    Rules(Vec<&'a RuleFile>),
}

#[cfg(feature = "schema")]
impl JsonSchema for Answer<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rules".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "Rules": {
                    "type": "array",
                    "description": "The rules as in their files: objects of the schema \
                        `rules.rule`.",
                    "items": {"type": "object"},
                },
            },
            "required": ["Rules"],
            "additionalProperties": false,
        })
    }
}

impl Action for RulesList {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the rules that can apply to the sender, with their \
        conditions. People see all.";
    const ROW: Row = Row::new(ActionName::RulesList, "ListRules", "(none)", SPEAKERS).query(
        "list_rules",
        "Rules",
        "The rules that can apply to you, with their conditions, thresholds and status.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let rules = turn.rules.ruleset.rules.values().map(|rule| &rule.file);
        let own = rules.filter(|rule| applies(turn.rules, rule, source));
        answer(&Answer::Rules(own.collect()))
    }
}

/// Whether a rule may be about requests of this sender.
fn applies(rules: &Rulebook, rule: &RuleFile, source: &Principal) -> bool {
    if rules.role(source) == Some(Role::Human) {
        return true;
    }
    let scope = &rule.applies_to;
    let is_named = |names: &Vec<Principal>| names.contains(source);
    scope.principal.as_ref().is_none_or(is_named)
        && scope.strategy.as_ref().is_none_or(|strategies| {
            strategies
                .iter()
                .any(|strategy| is_shown(rules, source, strategy))
        })
}
