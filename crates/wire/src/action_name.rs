//! The names of all actions, once. The gate has a row for each of them (`gate::actions`).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($name:ident = $text:literal,)*) => {
        /// An action that can be requested. Add new ones at the end: tables, schemas and the corpus
        /// of the fuzzer count actions in this order.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum ActionName {
            $(#[doc = concat!("`", $text, "`")] #[serde(rename = $text)] $name,)*
        }

        impl ActionName {
            /// Every action, in the order of the table in docs/contracts.md.
            pub const ALL: [ActionName; [$($text),*].len()] = [$(ActionName::$name),*];

            /// Its name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(ActionName::$name => $text,)*
                }
            }
        }

        impl FromStr for ActionName {
            type Err = UnknownAction;

            fn from_str(text: &str) -> Result<ActionName, UnknownAction> {
                match text {
                    $($text => Ok(ActionName::$name),)*
                    _ => Err(UnknownAction),
                }
            }
        }
    };
}

names! {
    OrderSubmit = "order.submit",
    OrderCancel = "order.cancel",
    OrderTightenStop = "order.tighten_stop",
    PortfolioGet = "portfolio.get",
    OrdersList = "orders.list",
    FillsList = "fills.list",
    MarketGet = "market.get",
    RequestCheck = "request.check",
    CouncilRequest = "council.request",
    CouncilVerdict = "council.verdict",
    AdmissionEvaluate = "admission.evaluate",
    AdmissionAdmit = "admission.admit",
    AdmissionCheck = "admission.check",
    AdmissionHealth = "admission.health",
    AdmissionCacheClear = "admission.cache_clear",
    AdmissionCacheInvalidate = "admission.cache_invalidate",
    ControlApply = "control.apply",
    StrategiesList = "strategies.list",
    StrategiesGet = "strategies.get",
    RulePropose = "rule.propose",
    ProposalApprove = "proposal.approve",
    ProposalDecline = "proposal.decline",
    ProposalRevert = "proposal.revert",
    EmailFetch = "email.fetch",
    EmailSend = "email.send",
    EmailDraft = "email.draft",
    CalendarFetch = "calendar.fetch",
    CalendarCreate = "calendar.create",
    CalendarUpdate = "calendar.update",
    FinanceFetchTransactions = "finance.fetch_transactions",
    HealthFetch = "health.fetch",
    ServiceApiCall = "service.api_call",
    MarketImport = "market.import",
    MarketUpdate = "market.update",
    FundingUpdate = "funding.update",
    VenueReport = "venue.report",
    HaltSet = "halt.set",
    HaltClear = "halt.clear",
    Heartbeat = "heartbeat",
    AccountAdjust = "account.adjust",
    ClockAccept = "clock.accept",
    KeysAdd = "keys.add",
    KeysRotate = "keys.rotate",
    KeysRevoke = "keys.revoke",
    ServicesAdd = "services.add",
    ServicesRemove = "services.remove",
    ServicesDeactivate = "services.deactivate",
    ServicesActivate = "services.activate",
    ServicesCredential = "services.credential",
    ApprovalGrant = "approval.grant",
    ApprovalDeny = "approval.deny",
    GrantAdd = "grant.add",
    GrantEnd = "grant.end",
    PositionClose = "position.close",
    VenueAssume = "venue.assume",
    VenueSnapshot = "venue.snapshot",
    PositionAdjust = "position.adjust",
    LimitsOverride = "limits.override",
    LimitsEnd = "limits.end",
    AdmissionSettle = "admission.settle",
    InstrumentsList = "instruments.list",
    ThesesList = "theses.list",
    CasesList = "cases.list",
    ProposalsList = "proposals.list",
    RulesList = "rules.list",
}

/// There is no action of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this action does not exist")]
pub struct UnknownAction;

impl ActionName {
    /// Actions that leave the machine, in the order in which messages and schemas list them.
    pub const OUTGOING: [ActionName; 9] = [
        ActionName::EmailFetch,
        ActionName::EmailSend,
        ActionName::EmailDraft,
        ActionName::CalendarFetch,
        ActionName::CalendarCreate,
        ActionName::CalendarUpdate,
        ActionName::FinanceFetchTransactions,
        ActionName::HealthFetch,
        ActionName::ServiceApiCall,
    ];

    /// Actions whose requests rules apply to, in the order in which messages and schemas list them.
    /// For orders that is entries, for control decisions what does not only make things safer.
    pub const RULED: [ActionName; 14] = [
        ActionName::OrderSubmit,
        ActionName::CouncilRequest,
        ActionName::ControlApply,
        ActionName::AdmissionEvaluate,
        ActionName::AdmissionAdmit,
        ActionName::EmailFetch,
        ActionName::EmailSend,
        ActionName::EmailDraft,
        ActionName::CalendarFetch,
        ActionName::CalendarCreate,
        ActionName::CalendarUpdate,
        ActionName::FinanceFetchTransactions,
        ActionName::HealthFetch,
        ActionName::ServiceApiCall,
    ];

    /// Whether it leaves the machine.
    pub fn is_outgoing(self) -> bool {
        ActionName::OUTGOING.contains(&self)
    }

    /// The names on the wire of these actions.
    pub const fn names<const N: usize>(actions: [ActionName; N]) -> [&'static str; N] {
        let mut names = [""; N];
        let (mut left, mut places): (&[ActionName], &mut [&str]) = (&actions, &mut names);
        while let ([action, actions @ ..], [place, others @ ..]) = (left, places) {
            *place = action.as_str();
            (left, places) = (actions, others);
        }
        names
    }
}

impl fmt::Display for ActionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<ActionName> for str {
    fn eq(&self, other: &ActionName) -> bool {
        self == other.as_str()
    }
}

impl PartialEq<ActionName> for &str {
    fn eq(&self, other: &ActionName) -> bool {
        *self == other.as_str()
    }
}

impl PartialEq<ActionName> for String {
    fn eq(&self, other: &ActionName) -> bool {
        self == other.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for name in ActionName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
        }
        assert_eq!("order.modify".parse::<ActionName>(), Err(UnknownAction));
        assert_eq!(
            ActionName::names(ActionName::OUTGOING)[8],
            "service.api_call"
        );
    }
}
