//! Any JSON as the payload of any action, properly signed, through to the line of its decision.
//! Only known fields pass, none of them null, and every decision makes a line that reads back.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::Value;
use serde_json::value::RawValue;
use spoolgate_admission::lineage::{Funds, Lineage, Parent, Tree};
use spoolgate_gate::actions::ACTIONS;
use spoolgate_gate::prepare::{Authentic, Origin};
use spoolgate_gate::record::{Decision, Record};
use spoolgate_gate::{Delivery, Lookups, Prepared, State, decide, prepare};
use spoolgate_ledger::line;
use spoolgate_ledger::tree::Hash;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admission::{AdmissionAttempt, AdmissionBody};
use spoolgate_wire::code::Code;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::gateway::GatewayCall;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::proposals::RuleProposal;
use spoolgate_wire::time::Time;

use super::envelope::{check_message, keys, signed};
use super::rulebook;

const NOW: &str = "2018-04-05T12:00:00Z";

/// The first byte is the action, the rest its payload.
pub fn body(data: &[u8]) {
    let Some((action, payload)) = data.split_first() else {
        return;
    };
    let rule = ACTIONS[usize::from(*action) % ACTIONS.len()].row();
    let Ok(payload) = std::str::from_utf8(payload) else {
        return;
    };
    let source = match rule.senders[0] {
        // Who has a domain.
        _ if rule.name.as_str().starts_with("admission.") => "research-bot",
        Role::Human => "owner",
        Role::Agent => "trend-bot",
        Role::Feed => "prices",
        Role::Bridge => "exchange",
    };
    let file = format!(
        "{{\"id\":\"r\",\"timestamp\":\"{NOW}\",\"action\":\"{}\",\"payload\":{payload},\"source\":\"{source}\",\"signature\":\"0\"}}",
        rule.name
    );
    let Ok(envelope) = Envelope::parse(file.as_bytes()) else {
        return;
    };
    if envelope.action != rule.name || envelope.source.as_str() != source {
        return;
    }
    let now = Time::parse(NOW).unwrap();
    let (state, keyring) = keys(&["owner", "trend-bot", "prices", "research-bot", "exchange"]);
    let envelope = signed(envelope);
    let delivery = Delivery {
        origin: Origin::Flat,
        file: "r.json".to_owned(),
        shown: "r.json".to_owned(),
        content: Ok(envelope.to_json().into_bytes()),
    };
    let prepared = prepare(delivery, &state, &keyring, now);
    let authentic = prepared.request.as_ref().expect("signed and not authentic");
    match &authentic.body {
        Ok(body) => {
            assert_eq!(body.rule.name, rule.name);
            if body
                .payload()
                .is_some_and(|attempt: &ControlAttempt| attempt.decision.is_err())
            {
                // Of the wrong shape it is answered with the contract's body, which is checked with
                // the line.
            } else if let Some(attempt) = body.payload::<AdmissionAttempt>() {
                // What it lacks is a DENY, not a payload that cannot be read.
                check_attempt(attempt, &envelope.payload);
            } else if let Some(call) = body.payload::<GatewayCall>() {
                check_names(&envelope.payload, rule.payload);
                let given = call.to_json().expect("a payload that no adapter can get");
                let again = GatewayCall::read(rule.name.as_str(), &given)
                    .map(|call| call.to_json().ok())
                    .map_err(|error| error.to_string());
                assert_eq!(
                    again,
                    Ok(Some(given)),
                    "what an adapter gets is not a payload"
                );
            } else if body.payload::<RuleProposal>().is_some() {
                check_kind(&envelope.payload);
            } else if matches!(
                rule.name,
                ActionName::CouncilRequest | ActionName::CouncilVerdict | ActionName::MarketUpdate
            ) {
                check_names(&envelope.payload, rule.payload);
            } else {
                check_fields(&envelope.payload, rule.payload);
            }
        }
        Err(refusal) => {
            assert!(
                matches!(refusal.code, Code::MalformedPayload | Code::TooLarge),
                "{refusal:?}"
            );
            check_message(&refusal.message);
        }
    }
    for lineage in [Lineage::default(), opened()] {
        check_line(&state, &prepared, lineage, now);
    }
}

/// A tree with room for two more tasks, and any parent at depth 1 of it.
fn opened() -> Lineage {
    let task = RequestId::parse("a-task").unwrap();
    Lineage {
        tree: Some(Tree {
            task: task.clone(),
            budget: Some(2),
            descendants: 1,
            binding: None,
            left: Funds::default(),
        }),
        parent: Some(Parent { task, depth: 1 }),
        has_cause: true,
        repeats: 1,
        ..Lineage::default()
    }
}

/// The members of an object as text, because they may contain numbers that no reader can hold.
fn members(text: &str) -> BTreeMap<String, &RawValue> {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no object: {text}"))
}

/// What passes has every field and no other, and is echoed as it stands.
fn check_attempt(attempt: &AdmissionAttempt, payload: &str) {
    let Ok(AdmissionBody { envelope, .. }) = &attempt.body else {
        return;
    };
    check_names(payload, "envelope, forward?");
    let text = members(payload)["envelope"].get();
    check_names(
        text,
        "tenant_id, surface_id, policy_profile_id, payload_kind, payload, causality?",
    );
    let echo = &attempt.echo;
    assert_eq!(
        echo.tenant_id.as_deref(),
        Some(envelope.domain.tenant.as_str())
    );
    assert_eq!(
        echo.surface_id.as_deref(),
        Some(envelope.domain.surface.as_str())
    );
    assert_eq!(
        echo.policy_profile_id.as_deref(),
        Some(envelope.domain.profile.as_str())
    );
    assert_eq!(echo.payload_kind.as_ref(), Some(&envelope.payload_kind));
    assert_eq!(members(text)["payload"].get(), envelope.payload);
    if let Some(causality) = &envelope.causality {
        check_names(
            members(text)["causality"].get(),
            "root_task_id, parent_task_id, caused_by_receipt_id?, spawn_depth?, capability_id, \
                recursion_budget_remaining?",
        );
        assert_eq!(
            echo.root_task_id.as_deref(),
            Some(causality.root_task_id.as_str())
        );
        assert_eq!(
            echo.parent_task_id.as_deref(),
            causality.parent_task_id.as_ref().map(RequestId::as_str)
        );
        assert_eq!(
            echo.capability_id.as_deref(),
            Some(causality.capability_id.as_str())
        );
        assert_eq!(echo.caused_by_receipt_id, causality.caused_by_receipt_id);
        assert_eq!(echo.spawn_depth, causality.spawn_depth);
        assert_eq!(
            echo.recursion_budget_remaining,
            causality.recursion_budget_remaining
        );
    }
    let forwarded = envelope
        .forwarded(Some(1), Some(1))
        .expect("an envelope that cannot be forwarded");
    assert_eq!(members(&forwarded)["payload"].get(), envelope.payload);
}

/// Fields that are not named never pass; an absent one only if it is optional.
fn check_names(text: &str, fields: &str) {
    let found = members(text);
    let known: Vec<&str> = fields.split(", ").collect();
    for name in found.keys() {
        assert!(
            known
                .iter()
                .any(|field| field.trim_end_matches('?') == name),
            "unknown field `{name}`"
        );
    }
    for field in known.iter().filter(|field| !field.ends_with('?')) {
        assert!(found.contains_key(*field), "`{field}` is missing");
    }
}

/// A proposal is of one kind, under its name.
fn check_kind(payload: &str) {
    let found = members(payload);
    let kinds = [
        ("Activate", "rule, evidence"),
        ("Suspend", "rule_id, reason, evidence"),
        (
            "ModifyParameter",
            "rule_id, parameter, old_value, new_value, evidence, is_tightening",
        ),
    ];
    let (name, fields) = kinds
        .iter()
        .find(|(name, _)| found.contains_key(*name))
        .expect("no kind");
    assert_eq!(found.len(), 1, "more than `{name}`");
    check_names(found[*name].get(), fields);
}

/// Fields that the table of actions does not name never pass, nor does a null that means nothing;
/// an absent one only if it is optional.
fn check_fields(payload: &str, fields: &str) {
    let Ok(Value::Object(found)) = serde_json::from_str(payload) else {
        panic!("no object: {payload}")
    };
    let known: Vec<&str> = fields
        .split(", ")
        .filter(|field| *field != "(none)")
        .collect();
    for (name, value) in &found {
        assert!(
            known
                .iter()
                .any(|field| field.trim_end_matches('?') == name),
            "unknown field `{name}`"
        );
        let may_be_null = name == "expected_active_strategy_id";
        let may_be_boolean = ["dry_run", "override", "remember"].contains(&name.as_str());
        assert!(may_be_null || !value.is_null(), "`{name}` is {value}");
        assert!(
            !value.is_array() && (may_be_boolean || !value.is_boolean()),
            "`{name}` is {value}"
        );
        assert!(!value.is_object() || name == "scope", "`{name}` is {value}");
    }
    for field in known.iter().filter(|field| !field.ends_with('?')) {
        assert!(found.contains_key(*field), "`{field}` is missing");
    }
}

/// What holds of every decision of admission, computed from what was sent alone.
fn check_receipt(decision: &Decision, prepared: &Prepared, lineage: &Lineage) {
    let attempt = prepared
        .request
        .as_ref()
        .ok()
        .and_then(Authentic::payload::<AdmissionAttempt>);
    let Some(attempt) = attempt else { return };
    let receipt = decision.receipt.as_deref().expect("no receipt");
    let first = decision
        .checks
        .iter()
        .find(|row| !row.passed)
        .map(|row| &*row.name);
    assert_eq!(
        first,
        receipt.rejection_reason_code.map(|reason| reason.name())
    );
    assert!(
        first.is_none() || (decision.changes.is_empty() && receipt.forwarded_to.is_none()),
        "{receipt:?}"
    );
    let Ok(AdmissionBody { envelope, .. }) = &attempt.body else {
        assert_eq!(first, Some("missing_fields"));
        return;
    };
    if first.is_some() {
        return;
    }
    assert_eq!(envelope.domain.to_string(), "research/agents/default");
    // The profile has no `leases_per_hour`.
    let causality = envelope
        .causality
        .as_ref()
        .expect("a task without causality");
    assert!(
        !causality
            .capability_id
            .as_str()
            .eq_ignore_ascii_case("shell")
    );
    assert!(
        causality
            .recursion_budget_remaining
            .is_none_or(|claim| claim > 0),
        "{causality:?}"
    );
    let is_root = causality.parent_task_id.is_none();
    assert_eq!(is_root, lineage.tree.is_none(), "{causality:?}");
    assert!(
        !is_root || causality.caused_by_receipt_id.is_none(),
        "{causality:?}"
    );
    assert!(
        causality
            .spawn_depth
            .is_none_or(|claim| claim == if is_root { 0 } else { 2 }),
        "{causality:?}"
    );
    assert_eq!(decision.changes.len(), usize::from(!receipt.dry_run));
}

/// Decides, and reads the line back.
fn check_line(state: &State, prepared: &Prepared, lineage: Lineage, now: Time) {
    static RULES: OnceLock<Rulebook> = OnceLock::new();
    let rules = RULES.get_or_init(rulebook::compiled);
    let lookups = Lookups {
        lineage,
        ..Lookups::default()
    };
    let decided = decide(state, rules, prepared, &lookups, now, 1);
    check_receipt(&decided.decision, prepared, &lookups.lineage);
    let body = Record::Decision(Box::new(decided.decision)).body().unwrap();
    let line =
        line::render(&Hash::ZERO, 1, 1, "decision", &body).expect("a decision that no line holds");
    let read = line::parse(line.as_bytes()).expect("a line that does not read back");
    let Ok(Some(Record::Decision(again))) = Record::parse(read.kind, &read.body()) else {
        panic!("no decision: {line}")
    };
    let blobs: BTreeMap<_, _> = decided.blobs.iter().cloned().collect();
    let blob = again
        .data_blob
        .as_ref()
        .map(|digest| blobs[digest].as_slice());
    again.answer(blob).expect("a decision without an answer");
    assert_eq!(Record::Decision(again).body().unwrap(), body);
}
