//! `rules.list`.

use super::{is_shown, prelude::*};
use spoolgate_rules::rule::RuleFile;
use spoolgate_wire::ids::{Principal, StrategyName};

/// Lists the rules that are about the sender in particular.
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
    const ABOUT: &'static str = "Lists the rules that name the sender or only strategies of its, \
        with their conditions. People see all.";
    const ROW: Row = Row::new(ActionName::RulesList, "ListRules", "(none)", SPEAKERS).query(
        "list_rules",
        "Rules",
        "The rules that name you or only your strategies, with conditions, thresholds and status.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let rules = turn.rules.ruleset.rules.values().map(|rule| &rule.file);
        let own = rules.filter(|rule| applies(turn.rules, rule, source));
        answer(&Answer::Rules(own.collect()))
    }
}

/// Whether a sender may read a rule: an agent only one that is about itself, because what the rules
/// for everybody look for would help it to go around them.
fn applies(rules: &Rulebook, rule: &RuleFile, source: &Principal) -> bool {
    if rules.role(source) == Some(Role::Human) {
        return true;
    }
    let (principals, strategies) = (&rule.applies_to.principal, &rule.applies_to.strategy);
    let is_named = principals.as_ref().map(|names| names.contains(source));
    let is_own = |name: &StrategyName| is_shown(rules, source, name);
    match (is_named, strategies) {
        (Some(is_named), _) => is_named,
        (None, Some(strategies)) => strategies.iter().all(is_own),
        (None, None) => false,
    }
}
