//! The actions that can be requested. Each has one file with everything that the gate knows about
//! it, and one entry in [`ACTIONS`]; related actions share a file named after the common part of
//! their names. The tables in the docs, the JSON Schemas, the tools of models and the command line
//! are generated from [`ACTIONS`].

pub mod account_adjust;
pub mod admission_cache;
pub mod admission_health;
pub mod admission_judge;
pub mod admission_settle;
pub mod approval_deny;
pub mod approval_grant;
pub mod cases_list;
pub mod clock_accept;
pub mod control_apply;
pub mod council_request;
pub mod council_verdict;
pub mod examples;
pub mod fills_list;
pub mod funding_update;
pub mod grant_add;
pub mod grant_end;
pub mod halt_clear;
pub mod halt_set;
pub mod heartbeat;
pub mod instruments_list;
pub mod keys;
pub mod limits;
pub mod market_get;
pub mod market_import;
pub mod market_update;
pub mod order_cancel;
pub mod order_submit;
pub mod order_tighten_stop;
pub mod orders_list;
pub mod outgoing;
pub mod portfolio_get;
pub mod position_adjust;
pub mod position_close;
pub mod proposal;
pub mod proposals_list;
pub mod request_check;
mod row;
pub mod rule_propose;
pub mod rules_list;
pub mod services;
pub mod services_credential;
pub mod strategies;
pub mod theses_list;
pub mod venue_assume;
pub mod venue_report;
pub mod venue_snapshot;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

#[cfg(feature = "schema")]
use schemars::Schema;

pub use self::row::{
    AGENT, ANYBODY, Admission, FEEDS, Freshness, HUMAN, Lane, Rate, Row, Rules, SPEAKERS, Tool,
};
use super::decide::Needs;
use super::faults::{self, Complaint, Locate};
use super::handle::{Outcome, Turn};
use super::prepare::{Authentic, Refusal};
#[cfg(feature = "schema")]
use super::schemas;
use super::schemas::Condition;
use spoolgate_rules::Rulebook;
use spoolgate_rules::nearest::there_are;
use spoolgate_rules::principals::Role;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::REASON_BYTES_MAX;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::code::Code;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::envelope::{Envelope, REQUEST_BYTES_MAX};
use spoolgate_wire::faults::Faults;
use spoolgate_wire::ids::{Principal, StrategyName};
use spoolgate_wire::orders::Empty;
use spoolgate_wire::payload::{Payload, PayloadError};
use spoolgate_wire::schema::HasSchema;

/// Imports that most action files need.
mod prelude {
    pub(super) use schemars::JsonSchema;
    #[cfg(feature = "schema")]
    pub(super) use schemars::Schema;
    pub(super) use serde::Serialize;

    pub(super) use super::row::*;
    pub(super) use super::{Action, check_reason};
    pub(super) use crate::decide::Needs;
    pub(super) use crate::handle::{Outcome, Turn, answer, data};
    pub(super) use crate::prepare::{Authentic, Refusal};
    #[cfg(feature = "schema")]
    pub(super) use crate::schemas;
    pub(super) use crate::schemas::Condition;
    pub(super) use crate::schemas::about::*;
    pub(super) use crate::state::Change;
    pub(super) use spoolgate_rules::Rulebook;
    pub(super) use spoolgate_rules::principals::Role;
    pub(super) use spoolgate_wire::action_name::ActionName;
    pub(super) use spoolgate_wire::code::Code;
    pub(super) use spoolgate_wire::orders::Empty;
    pub(super) use spoolgate_wire::payload::PayloadError;
}

/// An action: its payload and answer, who may request it, and what it does.
pub trait Action: 'static {
    /// The payload.
    type Payload: Payload;
    /// The `data` of the answer to a request that is carried out. A refusal has other bodies.
    type Answer: HasSchema;
    /// Its row in the table of docs/contracts.md.
    const ROW: Row;
    /// The effect of a request, as the schemas describe it.
    const ABOUT: &'static str;
    /// What the reader refuses although the schema of the payload allows it.
    const CONDITIONS: &'static [Condition] = &[];

    /// The schema of the payload.
    #[cfg(feature = "schema")]
    fn schema() -> Schema {
        schemas::read::<Self::Payload>()
    }

    /// The schema of [`Action::Answer`].
    #[cfg(feature = "schema")]
    fn answer_schema() -> Schema {
        schemas::written::<Self::Answer>()
    }

    /// Checks what the payload's type cannot express.
    ///
    /// # Errors
    /// Describes what is wrong with the payload.
    fn check(_payload: &Self::Payload) -> Result<(), PayloadError> {
        Ok(())
    }

    /// Names the facts that must be looked up before the decision.
    fn needs(_rules: &Rulebook, _sender: &Authentic, _payload: &Self::Payload, _needs: &mut Needs) {
    }

    /// Carries out a request that is authentic, well-formed, permitted and fresh.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the contract does not answer with a check vector.
    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        payload: &Self::Payload,
    ) -> Result<Outcome, Refusal>;
}

/// An [`Action`] whose payload type is erased: an entry of [`ACTIONS`].
pub trait ErasedAction: Sync {
    /// Its row.
    fn row(&'static self) -> &'static Row;
    /// The effect of a request.
    fn about(&self) -> &'static str;
    /// What the reader refuses although the schema allows it.
    fn conditions(&self) -> &'static [Condition];
    /// The schema of its payload.
    #[cfg(feature = "schema")]
    fn schema(&self) -> Schema;
    /// The schema of the `data` in the answer to a request that is carried out.
    #[cfg(feature = "schema")]
    fn answer_schema(&self) -> Schema;
    /// Reads a payload, given as JSON text without insignificant white space.
    ///
    /// # Errors
    /// Describes what is wrong with the payload.
    fn read(&'static self, text: &str) -> Result<Body, PayloadError>;
}

/// A payload whose type is erased, together with its action.
trait ErasedPayload: fmt::Debug + Send + Sync {
    fn payload(&self) -> &dyn Any;
    fn needs(&self, rules: &Rulebook, sender: &Authentic, needs: &mut Needs);
    fn execute(&self, turn: &Turn<'_>, sender: &Authentic) -> Result<Outcome, Refusal>;
}

/// An action with its payload.
#[derive(Clone, Debug)]
pub struct Body {
    /// The action's row.
    pub rule: &'static Row,
    /// What is wrong with a request whose contract answers it nevertheless; empty for all others.
    pub malformed: Option<Arc<Malformed>>,
    /// What is wrong with the causality beside it; `None` also if its own contract reads none
    /// there.
    pub malformed_causality: Option<Arc<Malformed>>,
    payload: Arc<dyn ErasedPayload>,
}

/// What is wrong with a part of a request.
#[derive(Debug)]
pub struct Malformed {
    /// In one sentence.
    pub words: String,
    /// All faults.
    pub faults: Faults,
}

impl Body {
    /// A body of this action.
    pub fn of<A: Action>(payload: A::Payload) -> Body {
        Body {
            rule: const { &A::ROW },
            malformed: None,
            malformed_causality: None,
            payload: Arc::new(Of::<A>(payload)),
        }
    }

    /// A body for a payload that the ledger does not hold, because the request was refused before
    /// it counted.
    pub(super) fn unread(rule: &'static Row) -> Body {
        Body {
            rule,
            ..Body::of::<portfolio_get::PortfolioGet>(Empty {})
        }
    }

    /// What is wrong with a payload, of this text, whose contract answers it nevertheless.
    pub(super) fn complaint(&self, text: &str) -> Option<Complaint> {
        let decision = self
            .payload()
            .and_then(|it: &ControlAttempt| it.decision.as_ref().err());
        let task = self
            .payload()
            .and_then(|it: &AdmissionAttempt| it.body.as_ref().err());
        decision
            .map(|why| Complaint::of_decision(why, text))
            .or_else(|| task.map(|why| Complaint::of_payload(why, text)))
    }

    /// Adds what is wrong with a payload whose contract answers it nevertheless, and with the
    /// causality of the request.
    pub(super) fn with_faults(
        self,
        action: &'static dyn ErasedAction,
        envelope: &Envelope,
        locate: Locate<'_>,
    ) -> Body {
        let text = envelope.payload.as_str();
        let why = self.complaint(text);
        let read = why.map(|why| faults::in_payload(action, text, why, locate));
        let elsewhere = match self.payload::<AdmissionAttempt>() {
            Some(attempt) => faults::beside_task(self.rule.name, attempt, envelope, locate),
            None => Vec::new(),
        };
        let malformed = (read.is_some() || !elsewhere.is_empty()).then(|| {
            let (words, mut faults) = read.unwrap_or_default();
            faults.add(elsewhere);
            Arc::new(Malformed { words, faults })
        });
        // The contract of admission has the causality of a task in the payload.
        let causality = envelope.causality.as_deref();
        let causality = causality.filter(|_| self.payload::<AdmissionAttempt>().is_none());
        let malformed_causality = causality.and_then(|text| {
            let (words, faults) = faults::in_causality(text, locate)?;
            Some(Arc::new(Malformed { words, faults }))
        });
        Body {
            malformed,
            malformed_causality,
            ..self
        }
    }

    /// The payload, if it has this type.
    pub fn payload<T: 'static>(&self) -> Option<&T> {
        self.payload.payload().downcast_ref()
    }

    /// Names the facts that must be looked up before the decision.
    pub(super) fn needs(&self, rules: &Rulebook, sender: &Authentic, needs: &mut Needs) {
        self.payload.needs(rules, sender, needs);
    }

    /// Carries out the request, see [`Action::execute`].
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the contract does not answer with a check vector.
    pub fn execute(&self, turn: &Turn<'_>, sender: &Authentic) -> Result<Outcome, Refusal> {
        self.payload.execute(turn, sender)
    }
}

struct Of<A: Action>(A::Payload);

impl<A: Action> fmt::Debug for Of<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<A: Action> ErasedPayload for Of<A> {
    fn payload(&self) -> &dyn Any {
        &self.0
    }

    fn needs(&self, rules: &Rulebook, sender: &Authentic, needs: &mut Needs) {
        A::needs(rules, sender, &self.0, needs);
    }

    fn execute(&self, turn: &Turn<'_>, sender: &Authentic) -> Result<Outcome, Refusal> {
        A::execute(turn, sender, &self.0)
    }
}

impl<A: Action + Sync> ErasedAction for A {
    fn row(&'static self) -> &'static Row {
        const { &A::ROW }
    }

    fn about(&self) -> &'static str {
        A::ABOUT
    }

    fn conditions(&self) -> &'static [Condition] {
        A::CONDITIONS
    }

    #[cfg(feature = "schema")]
    fn schema(&self) -> Schema {
        A::schema()
    }

    #[cfg(feature = "schema")]
    fn answer_schema(&self) -> Schema {
        A::answer_schema()
    }

    fn read(&'static self, text: &str) -> Result<Body, PayloadError> {
        let payload = A::Payload::read(text)?;
        A::check(&payload)?;
        Ok(Body::of::<A>(payload))
    }
}

/// Every action, in the order of [`ActionName`]. A missing entry does not compile.
pub static ACTIONS: [&dyn ErasedAction; ActionName::ALL.len()] = [
    &order_submit::OrderSubmit,
    &order_cancel::OrderCancel,
    &order_tighten_stop::OrderTightenStop,
    &portfolio_get::PortfolioGet,
    &orders_list::OrdersList,
    &fills_list::FillsList,
    &market_get::MarketGet,
    &request_check::RequestCheck,
    &council_request::CouncilRequest,
    &council_verdict::CouncilVerdict,
    &admission_judge::AdmissionEvaluate,
    &admission_judge::AdmissionAdmit,
    &admission_judge::AdmissionCheck,
    &admission_health::AdmissionHealth,
    &admission_cache::AdmissionCacheClear,
    &admission_cache::AdmissionCacheInvalidate,
    &control_apply::ControlApply,
    &strategies::StrategiesList,
    &strategies::StrategiesGet,
    &rule_propose::RulePropose,
    &proposal::ProposalApprove,
    &proposal::ProposalDecline,
    &proposal::ProposalRevert,
    &outgoing::EMAIL_FETCH,
    &outgoing::EMAIL_SEND,
    &outgoing::EMAIL_DRAFT,
    &outgoing::CALENDAR_FETCH,
    &outgoing::CALENDAR_CREATE,
    &outgoing::CALENDAR_UPDATE,
    &outgoing::FINANCE_FETCH_TRANSACTIONS,
    &outgoing::HEALTH_FETCH,
    &outgoing::SERVICE_API_CALL,
    &market_import::MarketImport,
    &market_update::MarketUpdate,
    &funding_update::FundingUpdate,
    &venue_report::VenueReport,
    &halt_set::HaltSet,
    &halt_clear::HaltClear,
    &heartbeat::Heartbeat,
    &account_adjust::AccountAdjust,
    &clock_accept::ClockAccept,
    &keys::KeysAdd,
    &keys::KeysRotate,
    &keys::KeysRevoke,
    &services::ServicesAdd,
    &services::ServicesRemove,
    &services::ServicesDeactivate,
    &services::ServicesActivate,
    &services_credential::ServicesCredential,
    &approval_grant::ApprovalGrant,
    &approval_deny::ApprovalDeny,
    &grant_add::GrantAdd,
    &grant_end::GrantEnd,
    &position_close::PositionClose,
    &venue_assume::VenueAssume,
    &venue_snapshot::VenueSnapshot,
    &position_adjust::PositionAdjust,
    &limits::LimitsOverride,
    &limits::LimitsEnd,
    &admission_settle::AdmissionSettle,
    &instruments_list::InstrumentsList,
    &theses_list::ThesesList,
    &cases_list::CasesList,
    &proposals_list::ProposalsList,
    &rules_list::RulesList,
];

/// The action named `name`.
pub fn named(name: &str) -> Option<&'static dyn ErasedAction> {
    let name: ActionName = name.parse().ok()?;
    ACTIONS.get(name as usize).copied()
}

/// The row of the action named `name`.
pub fn find(name: &str) -> Option<&'static Row> {
    named(name).map(ErasedAction::row)
}

/// Every row.
pub fn rows() -> impl ExactSizeIterator<Item = &'static Row> {
    ACTIONS.iter().map(|action| action.row())
}

/// Checks the reason that a person gives.
fn check_reason(reason: &str) -> Result<(), PayloadError> {
    PayloadError::check_said("reason", reason, "say why in", REASON_BYTES_MAX)
}

/// Refuses a name that does not exist, lists names that do, and says which action lists them all.
pub(crate) fn no_such<'a>(
    kind: &str,
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    lists: Option<ActionName>,
) -> Refusal {
    let there = there_are(name, known, kind);
    let lists = lists.map_or_else(String::new, |action| format!("; `{action}` lists all"));
    let what = format!("{kind} `{name}` does not exist{there}{lists}");
    Refusal::new(Code::NotFound, what)
}

/// Whether a sender may see what belongs to this strategy: an agent what is its own, a person
/// everything.
fn is_shown(rules: &Rulebook, source: &Principal, strategy: &StrategyName) -> bool {
    let rule = rules.principals.get(source);
    rule.is_some_and(|rule| rule.role == Role::Human || rule.strategies.contains(strategy))
}

/// The table in `docs/contracts.md`.
pub fn markdown() -> String {
    let mut table = String::from(
        "| action | payload | who may send it | lane | largest file | freshness | rate | rules \
            and anomaly apply | a DENY of admission | sealed \
            |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows() {
        let senders: Vec<&str> = row.senders.iter().map(|role| role.as_str()).collect();
        table.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
            row.name,
            row.payload,
            senders.join(", "),
            row.lane.as_str(),
            if row.bytes_max == REQUEST_BYTES_MAX {
                format!("{},000,000 bytes", row.bytes_max / 1_000_000)
            } else {
                format!("{} KiB", row.bytes_max / 1024)
            },
            row.freshness.as_str(),
            if row.senders.contains(&Role::Agent) {
                row.rate.as_str()
            } else {
                "-"
            },
            row.rules_apply.as_str(),
            row.admission.as_str(),
            match row.sealed {
                [] => "-".to_owned(),
                pointers => pointers
                    .iter()
                    .map(|pointer| format!("`{pointer}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemas;

    #[test]
    fn every_name_has_its_entry_and_every_entry_says_what_it_is() {
        for (name, action) in ActionName::ALL.into_iter().zip(ACTIONS) {
            let row = action.row();
            assert_eq!(row.name, name, "ACTIONS is in the order of ActionName");
            assert!(
                !action.about().is_empty() && !row.payload.is_empty() && !row.senders.is_empty(),
                "{name}"
            );
            assert!(schemas::schema(name.as_str()).is_some(), "{name}");
            assert!(
                schemas::schema(&format!("{name}.answer")).is_some(),
                "{name}"
            );
            assert_eq!(
                row.rules_apply != Rules::No,
                ActionName::RULED.contains(&name),
                "{name}"
            );
        }
    }

    #[test]
    fn only_people_may_make_things_riskier() {
        for name in [
            "halt.clear",
            "position.close",
            "venue.assume",
            "limits.override",
            "limits.end",
            "account.adjust",
            "clock.accept",
            "keys.add",
            "keys.rotate",
            "keys.revoke",
            "approval.grant",
            "approval.deny",
            "grant.add",
            "grant.end",
            "services.add",
            "services.remove",
            "services.deactivate",
            "services.activate",
            "services.credential",
            "proposal.approve",
            "proposal.decline",
            "proposal.revert",
        ] {
            assert_eq!(find(name).unwrap().senders, HUMAN, "{name}");
        }
        for name in [
            "order.modify",
            "stop.loosen",
            "safety.modify",
            "rules.write",
            "risk.override",
        ] {
            assert!(find(name).is_none(), "{name}");
        }
    }

    #[test]
    fn protective_actions_are_in_the_protected_lane() {
        assert_eq!(find("order.cancel").unwrap().lane, Lane::Protected);
        assert_eq!(find("order.tighten_stop").unwrap().lane, Lane::Protected);
    }
}
