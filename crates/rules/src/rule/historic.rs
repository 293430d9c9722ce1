//! The fields that `history.*` and `first_seen` can read, with the place of their values in payloads.
//! Only fields of the payload itself have a history: a new rule must see requests that were accepted
//! before it existed.

use spoolgate_wire::action_name::ActionName;

/// A field by its name, with the paths of its values in the payload.
pub type Kept = (&'static str, &'static [&'static str]);

/// Fields with a history, by action, with their paths in its payload.
pub const HISTORIC: &[(&[ActionName], &[Kept])] = &[
    (
        &[ActionName::OrderSubmit],
        &[
            ("order.symbol", &["symbol"]),
            ("order.side", &["side"]),
            ("order.size", &["size"]),
            ("order.thesis", &["thesis_slug"]),
            ("strategy.name", &["strategy"]),
        ],
    ),
    (
        &[ActionName::CouncilRequest],
        &[
            ("council.change_type", &["change_type"]),
            ("council.proposer", &["proposer"]),
        ],
    ),
    (
        &[ActionName::ControlApply],
        &[
            ("control.action", &["action"]),
            ("control.concern", &["concern_id"]),
            ("control.target", &["target_strategy_id"]),
        ],
    ),
    (
        &[ActionName::AdmissionEvaluate, ActionName::AdmissionAdmit],
        &[
            ("admission.tenant", &["envelope.tenant_id"]),
            ("admission.surface", &["envelope.surface_id"]),
            ("admission.profile", &["envelope.policy_profile_id"]),
            ("admission.payload_kind", &["envelope.payload_kind"]),
            (
                "admission.capability",
                &["envelope.causality.capability_id"],
            ),
        ],
    ),
    (
        &[ActionName::EmailSend, ActionName::EmailDraft],
        &[
            ("payload.to", &["to"]),
            ("payload.cc", &["cc"]),
            ("payload.recipients", &["to", "cc"]),
        ],
    ),
    (
        &[ActionName::CalendarCreate, ActionName::CalendarUpdate],
        &[
            ("payload.attendees", &["attendees"]),
            ("payload.calendarId", &["calendarId"]),
        ],
    ),
    (
        &[ActionName::FinanceFetchTransactions],
        &[("payload.accountId", &["accountId"])],
    ),
    (
        &[ActionName::ServiceApiCall],
        &[
            ("payload.service", &["service"]),
            ("payload.endpoint", &["endpoint"]),
            ("payload.method", &["method"]),
        ],
    ),
];

/// Returns the fields of an action that have a history, with the paths of their values; `None` if
/// the action has no history.
pub fn paths(action: &str) -> Option<&'static [Kept]> {
    HISTORIC
        .iter()
        .find(|(actions, _)| actions.iter().any(|name| *action == *name))
        .map(|(_, fields)| *fields)
}

/// Returns whether a history is kept of a field.
pub fn is_kept(action: &str, name: &str) -> bool {
    paths(action).is_some_and(|fields| fields.iter().any(|(field, _)| *field == name))
}
