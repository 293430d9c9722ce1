//! Contract 4 on the wire: the InterroGate envelope, causality, and the forwarded envelope.
//!
//! Names follow the contract and SPEC-IG-0000. A body is also read leniently: an error in it leads
//! to a DENY with a receipt, and the receipt contains whatever could be read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::amount::{self, Amount};
use super::ids::{Capability, DomainPart, RequestId};
use super::payload::PayloadError;
use super::shape;

/// The payload kind that spawns nothing. Every other kind needs causality and is subject to
/// `can_spawn`; a lease needs causality unless its profile has `leases_per_hour`.
pub const LEASE: &str = "lease";
/// The largest number of tokens that one task can be settled with: with it, sums over millions of
/// tasks are exact.
pub const SPENT_TOKENS_MAX: i64 = 999_999_999_999;
/// The kind of a request with bare causality.
pub const TASK: &str = "task";
/// Longest payload kind, in bytes.
const KIND_BYTES_MAX: usize = 64;

/// Place of a task in its tree. The claims (`spawn_depth`, `recursion_budget_remaining`) are only
/// compared with the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Causality {
    /// Id of the tree's root.
    pub root_task_id: RequestId,
    /// The task that spawned this one; null begins a new tree. Required: a child that omits its
    /// parent is not a root.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schemars(schema_with = "parent_schema")]
    pub parent_task_id: Option<RequestId>,
    /// The receipt that led to this task.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::receipt_id")]
    pub caused_by_receipt_id: Option<String>,
    /// Claimed depth; a root has depth 0.
    #[serde(default)]
    pub spawn_depth: Option<i64>,
    /// Capability that the task uses.
    pub capability_id: Capability,
    /// Claimed remaining budget of the tree.
    #[serde(default)]
    pub recursion_budget_remaining: Option<i64>,
}

/// A policy domain.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Tenant that owns the tasks.
    pub tenant: DomainPart,
    /// Surface: the boundary that the tasks cross.
    pub surface: DomainPart,
    /// Policy profile that applies there.
    pub profile: DomainPart,
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.tenant, self.surface, self.profile)
    }
}

/// The contract's envelope.
#[derive(Clone, Debug)]
pub struct AdmissionEnvelope {
    /// Tenant, surface and profile.
    pub domain: Domain,
    /// Kind of work.
    pub payload_kind: String,
    /// The payload's text without insignificant white space.
    pub payload: String,
    /// Value of `payload.target`.
    pub target: Option<String>,
    /// Value of `payload.artifact_size_bytes`.
    pub artifact_size_bytes: Option<u64>,
    /// Place of the task in its tree.
    pub causality: Option<Causality>,
}

/// The body of `admission.evaluate`, `admit` and `check`.
#[derive(Clone, Debug)]
pub struct AdmissionBody {
    /// The envelope.
    pub envelope: AdmissionEnvelope,
    /// Whether to forward an ALLOW, if the body says so.
    pub forward: Option<bool>,
}

/// The parts of a body that could be read, for its receipt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    /// `tenant_id`.
    pub tenant_id: Option<String>,
    /// `surface_id`.
    pub surface_id: Option<String>,
    /// `policy_profile_id`.
    pub policy_profile_id: Option<String>,
    /// `payload_kind`.
    pub payload_kind: Option<String>,
    /// `causality.root_task_id`.
    pub root_task_id: Option<String>,
    /// `causality.parent_task_id`.
    pub parent_task_id: Option<String>,
    /// `causality.caused_by_receipt_id`.
    pub caused_by_receipt_id: Option<String>,
    /// `causality.capability_id`.
    pub capability_id: Option<String>,
    /// `causality.spawn_depth`.
    pub spawn_depth: Option<i64>,
    /// `causality.recursion_budget_remaining`.
    pub recursion_budget_remaining: Option<i64>,
}

/// A body as it was sent.
#[derive(Clone, Debug)]
pub struct AdmissionAttempt {
    /// The parts that could be read.
    pub echo: Echo,
    /// The body, or what is missing or not allowed in it.
    pub body: Result<AdmissionBody, PayloadError>,
}

/// `admission.cache_invalidate`: the policy to forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InvalidatePolicy {
    /// The profile, in every domain that has a profile of this name.
    pub policy_profile_id: DomainPart,
}

/// What a task has spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Money, USD; not below 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_from_0")]
    pub usd: Amount,
    /// Tokens, from 0 to 999999999999.
    #[schemars(range(min = 0, max = SPENT_TOKENS_MAX))]
    pub tokens: i64,
}

/// `admission.settle`: what a task has spent. It says nothing of whether the task is finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The receipt of the task's ALLOW.
    #[schemars(schema_with = "crate::schema::receipt")]
    pub receipt_id: String,
    /// Everything that the task has spent so far.
    pub spent: Spent,
}

impl Settle {
    /// Checks what the types of the members cannot express.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] that names the member.
    pub fn check(&self) -> Result<(), PayloadError> {
        if !is_receipt_id(&self.receipt_id) {
            return Err(PayloadError::form(
                "receipt_id",
                "must be `r-` and a line number",
            ));
        }
        if self.spent.usd.is_negative() {
            return Err(PayloadError::Range {
                field: "spent.usd",
                found: self.spent.usd,
                rule: "use a number that is not below 0",
            });
        }
        if !(0..=SPENT_TOKENS_MAX).contains(&self.spent.tokens) {
            return Err(PayloadError::Range {
                field: "spent.tokens",
                found: Amount::from_i64(self.spent.tokens),
                rule: "use a whole number from 0 to 999999999999",
            });
        }
        Ok(())
    }
}

/// The body as it is sent.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BodyFields<'a> {
    /// The envelope of the contract.
    #[serde(borrow)]
    #[schemars(with = "EnvelopeFields")]
    envelope: &'a RawValue,
    /// Whether to forward an ALLOW; absent or null selects the action's default.
    #[serde(default)]
    forward: Option<bool>,
}

#[derive(Deserialize, schemars::JsonSchema)]
/// The envelope as it is sent.
#[serde(deny_unknown_fields)]
struct EnvelopeFields<'a> {
    /// Tenant that owns the tasks.
    tenant_id: DomainPart,
    /// Surface: the boundary that the tasks cross.
    surface_id: DomainPart,
    /// Policy profile that applies there.
    policy_profile_id: DomainPart,
    /// Kind of work: 1 to 64 of a-z and `_`; `lease` spawns nothing.
    #[schemars(schema_with = "kind_schema")]
    payload_kind: String,
    /// The task itself: any object. The gate reads only `target`, `artifact_size_bytes` and, where
    /// the profile has budgets, `budget`.
    #[serde(borrow)]
    #[schemars(with = "Declared")]
    payload: &'a RawValue,
    /// Place of the task in its tree; required unless the kind is `lease` and the profile has
    /// `leases_per_hour`.
    #[serde(default)]
    causality: Option<Causality>,
}

/// The members that the gate reads of an otherwise opaque payload.
#[derive(Deserialize, schemars::JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
struct Declared {
    /// Target of the task.
    #[serde(default)]
    target: Option<String>,
    /// Size of the artifact, bytes.
    #[serde(default)]
    artifact_size_bytes: Option<u64>,
}

impl AdmissionAttempt {
    /// Reads a payload: any JSON object without insignificant white space.
    pub fn read(text: &str) -> AdmissionAttempt {
        let body = members(text);
        let envelope = members(body.get("envelope").map_or("", |value| value.get()));
        let mut echo =
            Echo::of_causality(envelope.get("causality").map_or("", |value| value.get()));
        echo.tenant_id = readable::<DomainPart>(&envelope, "tenant_id");
        echo.surface_id = readable::<DomainPart>(&envelope, "surface_id");
        echo.policy_profile_id = readable::<DomainPart>(&envelope, "policy_profile_id");
        echo.payload_kind = text_of(&envelope, "payload_kind").filter(|kind| is_kind(kind));
        AdmissionAttempt {
            echo,
            body: read_body(text),
        }
    }
}

impl Echo {
    /// Reads what can be read of a causality object.
    pub fn of_causality(text: &str) -> Echo {
        let causality = members(text);
        let number = |key: &str| {
            causality
                .get(key)
                .and_then(|value| serde_json::from_str(value.get()).ok())
        };
        Echo {
            root_task_id: readable::<RequestId>(&causality, "root_task_id"),
            parent_task_id: readable::<RequestId>(&causality, "parent_task_id"),
            caused_by_receipt_id: text_of(&causality, "caused_by_receipt_id")
                .filter(|id| is_receipt_id(id)),
            capability_id: readable::<Capability>(&causality, "capability_id"),
            spawn_depth: number("spawn_depth"),
            recursion_budget_remaining: number("recursion_budget_remaining"),
            ..Echo::default()
        }
    }
}

type Members<'a> = BTreeMap<String, &'a RawValue>;

/// The members of an object, each as its text, so that a number in the payload that no reader can
/// hold does not prevent the echo of the others. Empty if the text is not an object.
fn members(text: &str) -> Members<'_> {
    serde_json::from_str(text).unwrap_or_default()
}

fn text_of(members: &Members<'_>, key: &str) -> Option<String> {
    serde_json::from_str(members.get(key)?.get()).ok()
}

/// The text of a member that is a valid name of type `T`: receipts contain only checked names.
fn readable<T: for<'de> Deserialize<'de>>(members: &Members<'_>, key: &str) -> Option<String> {
    let text = text_of(members, key)?;
    serde_json::from_str::<T>(members.get(key)?.get())
        .is_ok()
        .then_some(text)
}

/// Schema of a task id or null.
#[cfg(feature = "schema")]
fn parent_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    <Option<RequestId> as schemars::JsonSchema>::json_schema(generator)
}

#[cfg(feature = "schema")]
fn kind_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "pattern": format!("^[a-z_]{{1,{KIND_BYTES_MAX}}}$")})
}

fn is_kind(kind: &str) -> bool {
    (1..=KIND_BYTES_MAX).contains(&kind.len())
        && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
}

/// The line that wrote a receipt. `None` unless the text is `r-` and a line number without leading
/// zeros.
pub fn receipt_line(receipt_id: &str) -> Option<u64> {
    let digits = receipt_id.strip_prefix("r-")?;
    let line: u64 = digits.parse().ok()?;
    (line.to_string() == digits).then_some(line)
}

/// The id of the receipt that line `seq` writes.
pub fn receipt_id(seq: u64) -> String {
    format!("r-{seq}")
}

fn is_receipt_id(text: &str) -> bool {
    receipt_line(text).is_some()
}

/// The part of a payload that the gate reads.
const DECLARED: &str = "envelope.payload (target, artifact_size_bytes)";

fn read_body(text: &str) -> Result<AdmissionBody, PayloadError> {
    let fields: BodyFields<'_> = shape::from_json(text)?;
    let envelope: EnvelopeFields<'_> = shape::from_json(fields.envelope.get())
        .map_err(|error| PayloadError::within("envelope", error))?;
    if !is_kind(&envelope.payload_kind) {
        let kind = PayloadError::Kind {
            most: KIND_BYTES_MAX,
        };
        return Err(PayloadError::within("envelope", kind));
    }
    if !envelope.payload.get().starts_with('{') {
        let fault = PayloadError::form("payload", "is not an object");
        return Err(PayloadError::within("envelope", fault));
    }
    let declared: Declared = shape::from_json(envelope.payload.get())
        .map_err(|error| PayloadError::within(DECLARED, error))?;
    if let Some(causality) = &envelope.causality {
        causality.validate()?;
    }
    let domain = Domain {
        tenant: envelope.tenant_id,
        surface: envelope.surface_id,
        profile: envelope.policy_profile_id,
    };
    let envelope = AdmissionEnvelope {
        domain,
        payload_kind: envelope.payload_kind,
        payload: envelope.payload.get().to_owned(),
        target: declared.target,
        artifact_size_bytes: declared.artifact_size_bytes,
        causality: envelope.causality,
    };
    Ok(AdmissionBody {
        envelope,
        forward: fields.forward,
    })
}

impl Causality {
    /// Reads the `causality` member of a signed request.
    ///
    /// # Errors
    /// Returns a [`PayloadError`] that says what is missing or not allowed.
    pub fn read(text: &str) -> Result<Causality, PayloadError> {
        let causality: Causality =
            shape::from_json(text).map_err(|error| PayloadError::within("causality", error))?;
        causality.validate()?;
        Ok(causality)
    }

    fn validate(&self) -> Result<(), PayloadError> {
        match &self.caused_by_receipt_id {
            Some(id) if !is_receipt_id(id) => {
                let rule = "must be `r-` and a line number";
                let fault = PayloadError::form("caused_by_receipt_id", rule);
                Err(PayloadError::within("causality", fault))
            }
            _ => Ok(()),
        }
    }
}

impl AdmissionEnvelope {
    /// Renders the envelope for forwarding: as it was sent, except for depth and budget.
    ///
    /// # Errors
    /// Returns the serialiser's message.
    pub fn forwarded(
        &self,
        spawn_depth: Option<i64>,
        recursion_budget_remaining: Option<i64>,
    ) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Forwarded<'a> {
            tenant_id: &'a DomainPart,
            surface_id: &'a DomainPart,
            policy_profile_id: &'a DomainPart,
            payload_kind: &'a str,
            payload: &'a RawValue,
            #[serde(skip_serializing_if = "Option::is_none")]
            causality: Option<Causality>,
        }
        let causality = self.causality.clone().map(|causality| Causality {
            spawn_depth,
            recursion_budget_remaining,
            ..causality
        });
        let payload: &RawValue = serde_json::from_str(&self.payload)?;
        serde_json::to_string(&Forwarded {
            tenant_id: &self.domain.tenant,
            surface_id: &self.domain.surface,
            policy_profile_id: &self.domain.profile,
            payload_kind: &self.payload_kind,
            payload,
            causality,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"envelope":{"tenant_id":"tenant-123","surface_id":"api-gateway","policy_profile_id":"default-policy","payload_kind":"work_order","payload":{"n":0.10000000000000000001},"causality":{"root_task_id":"task-001","parent_task_id":null,"caused_by_receipt_id":null,"spawn_depth":0,"capability_id":"document-processor","recursion_budget_remaining":10}},"forward":true}"#;

    #[test]
    fn the_contracts_envelope_is_read_and_forwarded_unchanged_but_for_depth_and_budget() {
        let body = AdmissionAttempt::read(GOOD).body.unwrap();
        assert_eq!(body.forward, Some(true));
        let forwarded = body.envelope.forwarded(Some(0), Some(9)).unwrap();
        let sent = GOOD
            .strip_prefix(r#"{"envelope":"#)
            .unwrap()
            .strip_suffix(r#","forward":true}"#)
            .unwrap();
        assert_eq!(
            forwarded,
            sent.replace(
                "\"recursion_budget_remaining\":10",
                "\"recursion_budget_remaining\":9"
            )
        );
    }

    #[test]
    fn every_deviation_is_named_and_the_rest_echoed() {
        for (from, to, expect) in [
            (
                r#""tenant_id":"tenant-123","#,
                "",
                "missing field `tenant_id`",
            ),
            (
                r#""tenant-123""#,
                r#""../etc""#,
                "not a tenant, surface or profile",
            ),
            (r#""tenant-123""#, "null", "expected a text"),
            (
                r#""work_order""#,
                r#""Work Order""#,
                "`payload_kind` must be",
            ),
            (
                r#"{"n":0.10000000000000000001}"#,
                "[1]",
                "`payload` is not an object",
            ),
            (
                r#"{"n":0.10000000000000000001}"#,
                r#"{"target":1}"#,
                "envelope.payload",
            ),
            (
                r#"{"n":0.10000000000000000001}"#,
                r#"{"artifact_size_bytes":-1}"#,
                "envelope.payload",
            ),
            (
                r#""parent_task_id":null,"#,
                "",
                "missing field `parent_task_id`",
            ),
            (
                r#""spawn_depth":0"#,
                r#""spawn_depth":0.5"#,
                "expected a whole number",
            ),
            (
                r#""spawn_depth":0"#,
                r#""spawn_depth":"0""#,
                "expected a whole number",
            ),
            (
                r#""spawn_depth":0"#,
                r#""spawn_depth":99999999999999999999"#,
                "expected a whole number",
            ),
            (
                r#""spawn_depth":0"#,
                r#""depth":0"#,
                "unknown field `depth`",
            ),
            (
                r#""caused_by_receipt_id":null"#,
                r#""caused_by_receipt_id":"r-01""#,
                "caused_by_receipt_id",
            ),
            (
                r#""forward":true"#,
                r#""forward":1"#,
                "expected true or false",
            ),
            (
                r#""forward":true"#,
                r#""forward":true,"override":true"#,
                "unknown field `override`",
            ),
        ] {
            let attempt = AdmissionAttempt::read(&GOOD.replace(from, to));
            let error = attempt.body.unwrap_err().to_string();
            assert!(error.contains(expect), "{to}: {error}");
            assert_eq!(
                attempt.echo.capability_id.as_deref(),
                Some("document-processor"),
                "{to}"
            );
        }
        assert_eq!(AdmissionAttempt::read("{}").echo, Echo::default());
    }

    // A number that no reader could hold used to empty the whole echo: an ALLOW was forwarded to no
    // surface, and its receipt had no tenant, tree or capability.
    #[test]
    fn a_payload_hides_nothing_of_its_envelope() {
        let whole = AdmissionAttempt::read(GOOD).echo;
        let deep = format!("{}1{}", "[".repeat(60), "]".repeat(60));
        for payload in [
            "{\"n\":1e999}",
            "{\"n\":-1e999,\"target\":null}",
            &format!("{{\"n\":{deep}}}"),
        ] {
            let attempt =
                AdmissionAttempt::read(&GOOD.replace(r#"{"n":0.10000000000000000001}"#, payload));
            assert!(attempt.body.is_ok(), "{payload}");
            assert_eq!(attempt.echo, whole, "{payload}");
        }
        assert_eq!(whole.tenant_id.as_deref(), Some("tenant-123"));
    }

    #[test]
    fn receipt_ids() {
        assert_eq!(receipt_line(&receipt_id(42)), Some(42));
        for text in [
            "r-",
            "r-042",
            "r-+4",
            "42",
            "o-42",
            "r-99999999999999999999",
        ] {
            assert_eq!(receipt_line(text), None, "{text}");
        }
    }
}
