//! The body of an answer that refuses nothing, as far as words need it.

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use spoolgate_gate::proposals::Found;
use spoolgate_wire::checks::AnsweredRow;
use spoolgate_wire::control::ControlResponse;
use spoolgate_wire::council::{CouncilDecision, Stance};
use spoolgate_wire::time::Time;

use super::raw::Members;
use super::said::Asked;
use super::told::is_advice;

/// A list of which only the length matters.
pub(crate) type Rows = Vec<IgnoredAny>;

/// The body of an answer that refuses nothing, as far as words need it.
pub(crate) enum AnswerBody {
    Tagged(Tagged),
    Queried(Queried),
    Fills(Fills),
    Control(Box<ControlResponse>),
    Case(CaseOpened),
    Verdict(VerdictFiled),
    Decision(Box<CouncilDecision>),
    Admission(Admission),
    Settled(Settled),
    /// What an adapter reported.
    Result,
}

/// Bodies that are named by their only member.
#[derive(Deserialize)]
pub(crate) enum Tagged {
    Accepted {
        order_id: String,
        checks_passed: Vec<AnsweredRow<'static>>,
    },
    Held {
        hold_id: String,
        rules: Vec<String>,
        #[serde(default)]
        anomalies: Vec<String>,
        expires_at: Time,
    },
    ProposalAcknowledged {
        proposal_id: String,
        auto_approved: bool,
        rule_id: Option<String>,
        direction: Option<Found>,
        waits_because: Option<String>,
        would_allow: Option<String>,
    },
    HaltSet {
        principal: Option<String>,
        strategy: Option<String>,
    },
    Heartbeat {
        armed_again: bool,
    },
    PoliciesForgotten {
        domains: Rows,
    },
}

/// Bodies of queries that are named by their only member.
#[derive(Deserialize)]
pub(crate) enum Queried {
    AdmissionHealth {
        policies: Rows,
        rulebook_fault: Option<String>,
    },
    Portfolio {
        cash: String,
        equity: Option<String>,
        positions: Rows,
        limits: Vec<Limit>,
    },
    Orders(Rows),
    MarketData {
        symbol: String,
        bid: Option<String>,
        ask: Option<String>,
        stale: bool,
    },
    Strategies(Vec<Strategy>),
    Strategy(Strategy),
    Instruments(Vec<Instrument>),
    Theses(Vec<Thesis>),
    Cases(Vec<Case>),
    Proposals(Vec<Proposal>),
    Rules(Vec<Rule>),
}

#[derive(Deserialize)]
pub(crate) struct Fills {
    #[serde(rename = "Fills")]
    pub fills: Rows,
    pub next_since: Option<Time>,
}

#[derive(Deserialize)]
pub(crate) struct CaseOpened {
    pub case: String,
    pub roles: Vec<String>,
    pub deadline: Time,
    #[serde(default)]
    pub unstaffed: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct VerdictFiled {
    pub case: String,
    pub role: String,
    pub closes_at: Option<Time>,
    pub counts_as: Option<Stance>,
    #[serde(default)]
    pub notes: Vec<String>,
    #[serde(default)]
    pub waits_for: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct Admission {
    pub receipt: Receipt,
}

#[derive(Deserialize)]
pub(crate) struct Receipt {
    pub receipt_id: String,
    pub dry_run: bool,
}

#[derive(Deserialize)]
pub(crate) struct Settled {
    pub receipt_id: String,
}

#[derive(Deserialize)]
pub(crate) struct Limit {
    pub check: String,
    pub closed: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Strategy {
    pub name: String,
    pub status: String,
}

#[derive(Deserialize)]
pub(crate) struct Instrument {
    pub symbol: String,
    pub stale: bool,
}

#[derive(Deserialize)]
pub(crate) struct Thesis {
    pub slug: String,
    pub valid: bool,
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub case: String,
    pub outcome: Option<Stance>,
}

#[derive(Deserialize)]
pub(crate) struct Proposal {
    pub proposal_id: String,
    pub standing: String,
}

#[derive(Deserialize)]
pub(crate) struct Rule {
    pub id: String,
}

impl AnswerBody {
    /// Reads the body of an answer to this request, if the request is known.
    pub(crate) fn read(data: Option<&str>, asked: Option<Asked<'_>>) -> AnswerBody {
        // An adapter may report anything, also the body of another action.
        let is_foreign = asked.is_some_and(|asked| asked.action.is_outgoing());
        data.filter(|_| !is_foreign)
            .and_then(AnswerBody::own)
            .unwrap_or(AnswerBody::Result)
    }

    /// Reads a body that the gate has written.
    fn own(data: &str) -> Option<AnswerBody> {
        fn as_a<T: DeserializeOwned, B>(data: &str, body: fn(T) -> B) -> Option<B> {
            serde_json::from_str(data).ok().map(body)
        }
        // How to try again stands beside the body.
        let data = &Members::of(data)?.only(|name| !is_advice(name));
        as_a(data, AnswerBody::Tagged)
            .or_else(|| as_a(data, AnswerBody::Queried))
            .or_else(|| as_a(data, AnswerBody::Fills))
            .or_else(|| as_a(data, AnswerBody::Control))
            .or_else(|| as_a(data, AnswerBody::Case))
            .or_else(|| as_a(data, AnswerBody::Verdict))
            .or_else(|| as_a(data, AnswerBody::Decision))
            .or_else(|| as_a(data, AnswerBody::Admission))
            .or_else(|| as_a(data, AnswerBody::Settled))
    }
}
