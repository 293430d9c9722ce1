//! The rule proposals of contract 1, and the requests by which people decide them. Shapes and names
//! follow the contract. The rule itself is kept as text for the reader of rule files.

#[cfg(feature = "schema")]
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::admin::{REASON_BYTES_MAX, is_digest};
use super::amount::{self, Amount};
use super::council::JsonText;
use super::ids::{ProposalId, RequestId};
use super::payload::PayloadError;

/// Longest summary of evidence, in bytes.
const SUMMARY_BYTES_MAX: usize = 1000;
/// Maximum number of ledger lines in a proposal.
const LEDGER_SEQS_MAX: usize = 200;
/// Longest rule id or parameter name that is accepted, in bytes; the gate checks whether it is
/// well-formed.
const NAME_BYTES_MAX: usize = 200;

/// `rule.propose`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub enum RuleProposal {
    /// Puts a rule in force, or replaces the rule with the same id.
    Activate(Activate),
    /// Puts a rule out of force.
    Suspend(Suspend),
    /// Changes the threshold of a rule.
    ModifyParameter(ModifyParameter),
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RuleProposal {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RuleProposal".into()
    }

    /// One object with one member: tool hosts do not accept `oneOf` at the top of a schema.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "Activate": generator.subschema_for::<Activate>(),
                "Suspend": generator.subschema_for::<Suspend>(),
                "ModifyParameter": generator.subschema_for::<ModifyParameter>(),
            },
            "minProperties": 1,
            "maxProperties": 1,
            "additionalProperties": false,
        })
    }
}

/// A rule to put in force.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Activate {
    /// The rule as in its file: an object of the schema `rules.rule`.
    #[schemars(schema_with = "crate::schema::any")]
    pub rule: JsonText,
    /// The evidence for the rule.
    pub evidence: Evidence,
}

/// A rule to put out of force.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// Id of the rule, as sent.
    #[schemars(schema_with = "crate::schema::short::<NAME_BYTES_MAX>")]
    pub rule_id: String,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
    /// The evidence for the reason.
    pub evidence: Evidence,
}

/// A threshold to change.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModifyParameter {
    /// Id of the rule, as sent.
    #[schemars(schema_with = "crate::schema::short::<NAME_BYTES_MAX>")]
    pub rule_id: String,
    /// The field of the one ordered condition.
    #[schemars(schema_with = "crate::schema::short::<NAME_BYTES_MAX>")]
    pub parameter: String,
    /// The current value.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub old_value: Amount,
    /// The new value.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub new_value: Amount,
    /// The evidence for the change.
    pub evidence: Evidence,
    /// Whether the proposer claims that this tightens the rule; compared with what is proved, and
    /// logged.
    pub is_tightening: bool,
}

/// The evidence of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Summary in the proposer's words.
    #[schemars(schema_with = "crate::schema::said::<SUMMARY_BYTES_MAX>")]
    pub summary: String,
    /// Number of decisions in which it was observed.
    pub sample_size: u32,
    /// Ledger lines of these decisions.
    #[schemars(length(max = LEDGER_SEQS_MAX), extend("uniqueItems" = true))]
    pub ledger_seqs: Vec<u64>,
    /// A council case that approved exactly this proposal.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "RequestId")]
    pub council_request_id: Option<RequestId>,
}

/// `proposal.approve`: a person approves exactly the proposal that the person saw.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveProposal {
    /// Id of the proposal.
    pub id: ProposalId,
    /// SHA-256 of its pending file, hex.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub sha256: String,
}

/// `proposal.decline` and `proposal.revert`, by a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndProposal {
    /// Id of the proposal.
    pub id: ProposalId,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

impl RuleProposal {
    /// The evidence of the proposal.
    pub fn evidence(&self) -> &Evidence {
        match self {
            RuleProposal::Activate(Activate { evidence, .. })
            | RuleProposal::Suspend(Suspend { evidence, .. })
            | RuleProposal::ModifyParameter(ModifyParameter { evidence, .. }) => evidence,
        }
    }

    /// Checks what the shape cannot express.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field and what is expected there.
    pub fn validate(&self) -> Result<(), PayloadError> {
        let name = |field, text: &str| {
            let most = NAME_BYTES_MAX;
            let is_short = text.len() <= most;
            is_short
                .then_some(())
                .ok_or(PayloadError::TooLong { field, most })
        };
        match self {
            RuleProposal::Activate(_) => {}
            RuleProposal::Suspend(Suspend {
                rule_id, reason, ..
            }) => {
                name("rule_id", rule_id)?;
                PayloadError::check_said("reason", reason, "say why in", REASON_BYTES_MAX)?;
            }
            RuleProposal::ModifyParameter(ModifyParameter {
                rule_id, parameter, ..
            }) => {
                name("rule_id", rule_id)?;
                name("parameter", parameter)?;
            }
        }
        let Evidence {
            summary,
            ledger_seqs,
            ..
        } = self.evidence();
        let (field, demand) = ("evidence.summary", "say what was seen in");
        PayloadError::check_said(field, summary, demand, SUMMARY_BYTES_MAX)?;
        if ledger_seqs.len() > LEDGER_SEQS_MAX {
            return Err(PayloadError::TooManyLines {
                field: "evidence.ledger_seqs",
                most: LEDGER_SEQS_MAX,
            });
        }
        let distinct: std::collections::BTreeSet<&u64> = ledger_seqs.iter().collect();
        if distinct.len() != ledger_seqs.len() {
            return Err(PayloadError::form(
                "evidence.ledger_seqs",
                "names a line twice",
            ));
        }
        Ok(())
    }
}

impl ApproveProposal {
    /// Checks what the shape cannot express.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] with the field and what is expected there.
    pub fn validate(&self) -> Result<(), PayloadError> {
        if is_digest(&self.sha256) {
            return Ok(());
        }
        let rule = "must be 64 lower-case hex digits: the SHA-256 of the pending file";
        Err(PayloadError::form("sha256", rule))
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestId>, D::Error> {
    RequestId::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIDENCE: &str = r#""evidence":{"summary":"s","sample_size":2,"ledger_seqs":[1,2]}"#;

    fn read(text: &str) -> Result<RuleProposal, String> {
        let proposal: RuleProposal =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        proposal.validate().map_err(|error| error.to_string())?;
        Ok(proposal)
    }

    #[test]
    fn the_contracts_three_shapes_and_no_other() {
        let modify = |more: &str| {
            format!(
                r#"{{"ModifyParameter":{{"rule_id":"r","parameter":"order.size","old_value":3,"new_value":"2.50","is_tightening":true,{EVIDENCE}{more}}}}}"#
            )
        };
        let RuleProposal::ModifyParameter(read_back) = read(&modify("")).unwrap() else {
            panic!()
        };
        assert_eq!(read_back.new_value.to_string(), "2.50");
        let activate = format!(r#"{{"Activate":{{"rule":{{"id":"a","value":0.10}},{EVIDENCE}}}}}"#);
        let RuleProposal::Activate(read_back) = read(&activate).unwrap() else {
            panic!()
        };
        assert_eq!(read_back.rule.as_str(), r#"{"id":"a","value":0.10}"#);
        assert!(
            read(&format!(
                r#"{{"Suspend":{{"rule_id":"r","reason":"x",{EVIDENCE}}}}}"#
            ))
            .is_ok()
        );
        for (text, why) in [
            (modify(r#","more":1"#), "unknown field"),
            (modify(r#","is_tightening":false"#), "duplicate field"),
            (
                format!(r#"{{"Suspend":{{"rule_id":"r","reason":" ",{EVIDENCE}}}}}"#),
                "say why",
            ),
            (
                format!(r#"{{"Suspend":{{"rule_id":null,"reason":"x",{EVIDENCE}}}}}"#),
                "null",
            ),
            (
                format!(r#"{{"Retire":{{"rule_id":"r",{EVIDENCE}}}}}"#),
                "unknown variant",
            ),
            (r#"{"Suspend":null}"#.to_owned(), "null"),
            (r#""Suspend""#.to_owned(), "unit variant"),
            (activate.replace("[1,2]", "[1,1]"), "twice"),
            (
                activate.replace("[1,2]", "[1],\"council_request_id\":null"),
                "null",
            ),
            (activate.replace("\"s\"", "\"\""), "summary"),
        ] {
            let told = read(&text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
