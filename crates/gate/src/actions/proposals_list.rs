//! `proposals.list`.

use super::prelude::*;
use crate::proposals::{ProposalView, views};

/// Lists the proposals of the sender.
pub struct ProposalsList;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `proposals.list`.
    Proposals(Vec<ProposalView<'a>>),
}

impl Action for ProposalsList {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Lists the sender's proposals that wait, and what became of its \
        last 16 others since version 0.3.0. People see those of everybody.";
    const ROW: Row = Row::new(
        ActionName::ProposalsList,
        "ListProposals",
        "(none)",
        SPEAKERS,
    )
    .query(
        "list_proposals",
        "Proposals",
        "Your proposals of rules: which wait for people, and what became of the others.",
    );

    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let own = (turn.rules.role(source) != Some(Role::Human)).then_some(source);
        answer(&Answer::Proposals(views(&turn.state.proposals, own)))
    }
}
