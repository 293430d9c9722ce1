//! `rule.propose`.

use super::prelude::*;
use crate::proposals::{self, Answered};
use spoolgate_wire::proposals::RuleProposal;

/// Proposes a change of a rule.
pub struct RulePropose;

impl Action for RulePropose {
    type Payload = RuleProposal;
    type Answer = Answered<'static>;
    const ABOUT: &'static str = "Proposes that a rule comes into force, is suspended, or has \
        another threshold. Give exactly one of the three members. People decide on what loosens.";
    const CONDITIONS: &'static [Condition] = &[DIGITS, WHOLE, BYTES];
    const ROW: Row = Row::new(
        ActionName::RulePropose,
        "ProposeRule",
        "one of Activate {rule, evidence}, Suspend {rule_id, reason, evidence}, ModifyParameter \
            {rule_id, parameter, old_value, new_value, evidence, is_tightening}",
        SPEAKERS,
    )
    .admission(Admission::Refuses)
    .tool(
        "propose_rule",
        "Propose a rule",
        "Propose one change of a rule: exactly one of Activate, Suspend or ModifyParameter. A \
            change that makes rules laxer waits for an approver; an agent cannot approve it.",
    );

    #[cfg(feature = "schema")]
    fn answer_schema() -> Schema {
        schemas::variant::<Answered<'_>>("ProposalAcknowledged")
    }

    fn check(proposal: &RuleProposal) -> Result<(), PayloadError> {
        proposal.validate()
    }

    fn needs(rules: &Rulebook, _: &Authentic, proposal: &RuleProposal, needs: &mut Needs) {
        needs.rule_file = proposals::path_of(rules, proposal);
        needs.evidence = proposal.evidence().ledger_seqs.clone();
        needs.citation = proposal.evidence().council_request_id.clone();
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        proposal: &RuleProposal,
    ) -> Result<Outcome, Refusal> {
        turn.propose(sender, proposal)
    }
}
