//! A rule file as it is written; proposals carry it in the same form.

use std::fmt;

use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::field::RULED_ACTIONS;
use super::set::Provenance;
use crate::bounds::AnyAmount;
use crate::rulebook::RulebookError;
use crate::yaml;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, RuleId, StrategyName};
use spoolgate_wire::time::Time;

/// Significant digits of a bare number that survive parsing as a float.
const BARE_DIGITS_MAX: usize = 15;

/// The status of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleStatus {
    /// In force.
    Active,
    /// Evaluated and logged, but without effect.
    Shadow,
    /// Not in force for now.
    Suspended,
    /// No longer in force. `lesson` says why, so that the rule is not proposed again.
    Retired,
}

/// What a rule does when all of its conditions hold.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Adds a warning.
    Warn,
    /// Holds the request until an approver grants it.
    Hold,
    /// Refuses the request.
    Reject,
}

/// What a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// One action or several.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub action: Vec<String>,
    /// Strategies; if absent, all.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<StrategyName>", length(min = 1))]
    pub strategy: Option<Vec<StrategyName>>,
    /// Senders; if absent, all.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Vec<Principal>", length(min = 1))]
    pub principal: Option<Vec<Principal>>,
}

spoolgate_wire::named! {
    /// Operators.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    pub enum Op {
        /// Equal.
        Eq = "eq",
        /// Not equal.
        Neq = "neq",
        /// Greater.
        Gt = "gt",
        /// Greater or equal.
        Gte = "gte",
        /// Less.
        Lt = "lt",
        /// Less or equal.
        Lte = "lte",
        /// In a list or a named set.
        In = "in",
        /// Not in a list or a named set.
        NotIn = "not_in",
        /// Its domain is in a list or a named set of hosts.
        DomainIn = "domain_in",
        /// Its domain is not in a list or a named set of hosts.
        DomainNotIn = "domain_not_in",
        /// It has a link whose host is not in a list or a named set of hosts.
        LinksNotIn = "links_not_in",
        /// A regular expression matches somewhere in it.
        Matches = "matches",
        /// A regular expression matches nowhere in it.
        NotMatches = "not_matches",
        /// The sender never had a request with this value accepted before.
        FirstSeen = "first_seen",
        /// The request leaves the field out.
        Absent = "absent",
        /// The request has the field.
        Present = "present",
    }
}

/// A single value as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Scalar {
    /// A bare number.
    Number(Amount),
    /// True or false.
    Flag(bool),
    /// A text.
    Text(String),
}

/// What a condition compares with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Operand {
    /// One value, or the name of a set.
    One(Scalar),
    /// A list.
    Many(Vec<Scalar>),
}

/// A condition as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConditionFile {
    /// A field from the list of fields, followed by `[]` if it is an array.
    pub field: String,
    /// The operator.
    pub op: Op,
    /// What it compares with.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Operand")]
    pub value: Option<Operand>,
    /// The smallest `value` that a proposal may set.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "AnyAmount")]
    pub min: Option<AnyAmount>,
    /// The largest `value` that a proposal may set.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "AnyAmount")]
    pub max: Option<AnyAmount>,
    /// How far `history.*` looks back, seconds.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "u32")]
    pub window_s: Option<u32>,
    /// The field that `history.sum` and `history.distinct` read.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "String")]
    pub of: Option<String>,
    /// With `seen`, entries of a named set that were only seen count too.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Provenance")]
    pub provenance: Option<Provenance>,
}

/// What a rule is meant to achieve, for `rules efficacy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hypothesis {
    /// The figure that should improve, such as `win_rate`.
    pub metric: String,
    /// The trades that it is measured on.
    pub population: String,
    /// Its value before the rule.
    pub baseline_value: AnyAmount,
    /// Number of trades behind that value.
    pub baseline_sample: u32,
    /// Number of further trades after which the rule is reviewed.
    pub review_after_n: u32,
}

/// `rules/core/<id>.yaml` or `rules/active/<id>.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleFile {
    /// Its id; equals the file name without its ending.
    pub id: RuleId,
    /// Its status.
    pub status: RuleStatus,
    /// What it applies to.
    pub applies_to: Scope,
    /// Every one of these must hold.
    #[schemars(length(max = super::ruleset::CONDITIONS_MAX))]
    pub when: Vec<ConditionFile>,
    /// What it does if all conditions hold.
    pub then: Then,
    /// Message of the rule; `{field}` is replaced by the field's value.
    pub message: String,
    /// When the rule was made.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Time")]
    pub created: Option<Time>,
    /// What led to the rule, such as a trade or a proposal.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "String")]
    pub created_from: Option<String>,
    /// What it is meant to achieve.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Hypothesis")]
    pub hypothesis: Option<Hypothesis>,
    /// What was learnt; only and always in a retired rule.
    #[serde(
        default,
        deserialize_with = "yaml::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "String")]
    pub lesson: Option<String>,
}

impl fmt::Display for ConditionFile {
    /// Formats the condition on one line, for readers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.field)?;
        match (&self.of, self.window_s) {
            (Some(of), Some(window_s)) => write!(f, "({of}, {window_s}s)")?,
            (None, Some(window_s)) => write!(f, "({window_s}s)")?,
            _ => {}
        }
        write!(f, " {}", self.op.as_str())?;
        match &self.value {
            None => Ok(()),
            Some(Operand::One(value)) => write!(f, " {value}"),
            Some(Operand::Many(values)) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, " [{}]", values.join(", "))
            }
        }
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Number(number) => write!(f, "{}", number.normalized()),
            Scalar::Flag(flag) => write!(f, "{flag}"),
            Scalar::Text(text) => f.write_str(text),
        }
    }
}

impl RuleFile {
    /// Parses YAML, or JSON, which is a subset of YAML.
    ///
    /// # Errors
    /// Returns [`RulebookError`] with the line.
    pub fn read(path: &str, text: &str) -> Result<RuleFile, RulebookError> {
        if let Some(line) = line_of_long_number(text) {
            let message = format!(
                "a bare number of more than {BARE_DIGITS_MAX} digits, or with an exponent that is \
                    far below 0; write it out in quotes, so that no digit is lost"
            );
            return Err(RulebookError::new(path, Some(line), message));
        }
        yaml::read(path, text)
    }

    /// Returns the rule as YAML; equal rules have equal texts.
    ///
    /// # Errors
    /// Returns the serialiser's error.
    pub fn to_yaml(&self) -> Result<String, serde_yaml::Error> {
        serde_yaml::to_string(self)
    }
}

/// Returns the first line, from 1, that contains `what`.
pub fn line_of(text: &str, what: &str) -> Option<usize> {
    text.lines()
        .position(|line| line.contains(what))
        .map(|at| at.saturating_add(1))
}

/// Returns the line of the `field` key of the nth condition, from 0.
pub fn line_of_condition(text: &str, nth: usize, field: &str) -> Option<usize> {
    let mut seen: usize = 0;
    let mut is_when = false;
    for (line, words) in (1..).zip(text.lines()) {
        let words = words
            .split(" #")
            .next()
            .filter(|words| !words.trim_start().starts_with('#'));
        let Some(mut words) = words else { continue };
        if !is_when {
            let Some((_, behind)) = after_key(words, "when") else {
                continue;
            };
            (is_when, words) = (true, behind);
        }
        while let Some((_, behind)) = after_key(words, "field") {
            if seen == nth {
                return Some(line);
            }
            (seen, words) = (seen.saturating_add(1), behind);
        }
    }
    line_of(text, field)
}

/// Returns the text before a key, and the text after its colon.
fn after_key<'a>(line: &'a str, key: &str) -> Option<(&'a str, &'a str)> {
    line.match_indices(key).find_map(|(at, _)| {
        let (before, behind) = (line.get(..at)?, line.get(at.checked_add(key.len())?..)?);
        let begins = before.is_empty() || before.ends_with([' ', '{', ',', '-', '"', '\'', '?']);
        let behind = behind
            .trim_start_matches(['"', '\''])
            .trim_start()
            .strip_prefix(':')?;
        begins.then_some((before, behind))
    })
}

/// Returns the first line, from 1, with a bare number that would lose precision as a float.
pub fn line_of_long_number(text: &str) -> Option<usize> {
    text.lines()
        .position(has_long_number)
        .map(|at| at.saturating_add(1))
}

/// Returns whether the line has a bare number that a float cannot keep: one with too many digits,
/// or one so near to 0 that it becomes 0.
fn has_long_number(line: &str) -> bool {
    let is_tiny = |token: &str| {
        let token = token.strip_prefix('-').unwrap_or(token);
        token
            .split_once(['e', 'E'])
            .is_some_and(|(digits, exponent)| {
                let exponent = exponent.strip_prefix('-').unwrap_or_default();
                !digits.is_empty()
                    && digits
                        .bytes()
                        .all(|byte| byte.is_ascii_digit() || byte == b'.')
                    && exponent.len() >= 3
                    && exponent.bytes().all(|byte| byte.is_ascii_digit())
            })
    };
    if line.split([' ', ',', ':', '[', ']', '{', '}']).any(is_tiny) {
        return true;
    }
    let mut before = ' ';
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let head = rest.get(..start).unwrap_or_default();
        before = head
            .strip_suffix(['-', '+'])
            .unwrap_or(head)
            .chars()
            .last()
            .unwrap_or(before);
        let tail = rest.get(start..).unwrap_or_default();
        let end = tail
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(tail.len());
        let number = tail.get(..end).unwrap_or_default();
        let digits = number.bytes().filter(u8::is_ascii_digit).count();
        if number.contains('.') && digits > BARE_DIGITS_MAX && !matches!(before, '"' | '\'') {
            return true;
        }
        before = number.chars().last().unwrap_or(before);
        rest = tail.get(end..).unwrap_or_default();
    }
    false
}

#[cfg(feature = "schema")]
fn one_or_many_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [
        {"type": "string", "enum": RULED_ACTIONS},
        {"type": "array", "items": {"type": "string", "enum": RULED_ACTIONS}, "minItems": 1},
    ]})
}

spoolgate_wire::text_schema!(
    Operand,
    schemars::json_schema!({
        "type": ["number", "string", "boolean", "array"],
        "items": {"type": ["number", "string", "boolean"]},
    })
);

fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Actions;
    impl<'de> Visitor<'de> for Actions {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an action or a list of actions")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<String>, E> {
            Ok(vec![text.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
            let mut actions = Vec::new();
            while let Some(action) = list.next_element()? {
                actions.push(action);
            }
            Ok(actions)
        }
    }
    deserializer.deserialize_any(Actions)
}

/// Deserialises scalars; [`Operand`] deserialises lists.
struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text, true or false")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        self.visit_str(&number.to_string()).and_then(as_number)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        self.visit_str(&number.to_string()).and_then(as_number)
    }

    /// Numbers of up to 15 digits keep their digits; files with longer ones were refused before.
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        self.visit_str(&number.to_string()).and_then(as_number)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }
}

fn as_number<E: de::Error>(scalar: Scalar) -> Result<Scalar, E> {
    match scalar {
        Scalar::Text(text) => Amount::parse_wire(&text)
            .map(Scalar::Number)
            .map_err(E::custom),
        other => Ok(other),
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl<'de> Deserialize<'de> for Operand {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Operand, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Operand;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a text, true, false, or a list of these")
            }

            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Operand, E> {
                ScalarVisitor.visit_bool(flag).map(Operand::One)
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Operand, E> {
                ScalarVisitor.visit_i64(number).map(Operand::One)
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Operand, E> {
                ScalarVisitor.visit_u64(number).map(Operand::One)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Operand, E> {
                ScalarVisitor.visit_f64(number).map(Operand::One)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Operand, E> {
                ScalarVisitor.visit_str(text).map(Operand::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Operand, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = list.next_element()? {
                    values.push(value);
                }
                Ok(Operand::Many(values))
            }
        }
        deserializer.deserialize_any(Either)
    }
}
