//! The receipt of an admission decision. Every decision has exactly one, in its ledger line.

use serde::{Deserialize, Serialize};

use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Retry;
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::time::Time;

/// Longest `rejection_detail`, characters.
const DETAIL_CHARS_MAX: usize = 500;

/// Whether the task may come into being.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}

/// The receipt's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The phase of an ALLOW.
    Accepted,
    /// The phase of a DENY.
    Rejected,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $retry:ident;)*) => {
        /// Why a task was denied, in the order of the checks: the first that fails is the reason.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
            schemars::JsonSchema)]
        pub enum Reason {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Reason {
            /// All of them, in order.
            pub const ALL: &'static [Reason] = &[$(Reason::$variant),*];

            /// Returns its name in receipts, which is also the name of its check.
            pub fn name(self) -> &'static str {
                match self { $(Reason::$variant => $name),* }
            }

            /// Whether and how its sender may ask again.
            pub fn retry(self) -> Retry {
                match self { $(Reason::$variant => Retry::$retry),* }
            }

            /// Returns its doc comment, which says when it is given.
            pub fn meaning(self) -> &'static str {
                match self { $(Reason::$variant => concat!($($doc),*).trim_ascii()),* }
            }
        }
    };
}

reasons! {
    /// The body or the causality lacks a member, or has one that does not belong there.
    MissingFields = "missing_fields", SameId;
    /// Every payload kind needs causality; only a `lease` may come without, if the grant does not
    /// say `required: true`.
    MissingCausality = "missing_causality", NewId;
    /// More leases without causality within an hour than `leases_per_hour`.
    LeasesExceeded = "leases_exceeded", NewId;
    /// The key may not speak for this tenant, surface and profile.
    DomainDenied = "domain_denied", Never;
    /// There is no such policy, it cannot be read, or a command that it names returned no
    /// usable answer.
    PolicyUnavailable = "policy_unavailable", NewId;
    /// The parent is not recorded in the tree.
    UnknownParent = "unknown_parent", NewId;
    /// The tree is bound to another profile.
    ProfileMismatch = "profile_mismatch", NewId;
    /// The receipt does not belong to a task of the tree, or a root names a receipt.
    UnknownReceipt = "unknown_receipt", NewId;
    /// The tree was opened before, or the id is taken in it.
    TaskExists = "task_exists", NewId;
    /// More roots within an hour than the key may open.
    RootsExceeded = "roots_exceeded", NewId;
    /// The claimed depth is not the parent's recorded depth + 1, or a root claims a depth other
    /// than 0.
    DepthMismatch = "depth_mismatch", NewId;
    /// The tree's budget, or the claim, is 0 or less.
    BudgetExhausted = "budget_exhausted", Never;
    /// The tree is older than max_tree_age_s.
    TreeExpired = "tree_expired", Never;
    /// The task reserves more money than is left of the tree's budget, or an amount that cannot be
    /// read.
    MoneyExhausted = "money_exhausted", Never;
    /// The task reserves more tokens than are left of the tree's budget, or a number that cannot be
    /// read.
    TokensExhausted = "tokens_exhausted", Never;
    /// depth >= max_spawn_depth.
    DepthExceeded = "depth_exceeded", Never;
    /// Tasks below the root >= max_total_descendants.
    DescendantsExceeded = "descendants_exceeded", Never;
    /// Tasks of the capability in the tree >= max_repeats_per_capability.
    RepeatsExceeded = "repeats_exceeded", Never;
    /// The capability occurs max_repeats_in_ancestor_window times or more among the nearest
    /// ancestors.
    AncestorWindowViolated = "ancestor_window_violated", Never;
    /// On the denylist, or not on the allowlist.
    CapabilityDenied = "capability_denied", Never;
    /// There are allowed_targets, and the payload has no text at target_pointer or another one.
    TargetDenied = "target_denied", NewId;
    /// Larger than max_artifact_size_bytes.
    ArtifactTooLarge = "artifact_too_large", NewId;
    /// can_spawn is false, and the payload is not a lease.
    InvariantViolation = "invariant_violation", Never;
    /// Only for requests that carry causality: another check refused the request, so no task was
    /// created.
    RequestRefused = "request_refused", NewId;
}

/// Returns the table of reasons as it is in `docs/admission.md`.
pub fn markdown() -> String {
    let mut table = String::from("| reason | retry | when |\n|---|---|---|\n");
    for reason in Reason::ALL {
        table.push_str(&format!(
            "| `{}` | `{}` | {} |\n",
            reason.name(),
            reason.retry().as_str(),
            reason.meaning()
        ));
    }
    table
}

/// The counts that a decision is based on. If a lineage command reports a higher count, that
/// count applies.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Depth of the task.
    pub spawn_depth: Option<u64>,
    /// Tasks below the root, without this one.
    pub total_descendants: Option<u64>,
    /// Tasks of the capability in the tree, without this one.
    pub capability_repeats: Option<u64>,
    /// Occurrences of the capability among the nearest ancestors, within the policy's window.
    pub ancestor_repeats: Option<u64>,
    /// What is left of the tree's budget; after this task, if it was admitted.
    pub recursion_budget_remaining: Option<i64>,
    /// What is left of the tree's budget of money, USD; after this task, if it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Amount")]
    pub usd_left: Option<Amount>,
    /// What is left of the tree's budget of tokens; after this task, if it was admitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub tokens_left: Option<i64>,
    /// Whole seconds until the tree is too old; below 0 if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub seconds_left: Option<i64>,
}

/// What the request claimed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Claimed {
    /// `spawn_depth`.
    pub spawn_depth: Option<i64>,
    /// `recursion_budget_remaining`.
    pub recursion_budget_remaining: Option<i64>,
}

/// A receipt. Members that could not be read or do not apply are null.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// `r-<line>`: the ledger line that holds it.
    pub receipt_id: String,
    /// Accepted or rejected.
    pub phase: Phase,
    /// Allow or deny.
    pub decision: Verdict,
    /// Whether this was a dry run. Then nothing is reserved, and no task may name this receipt.
    pub dry_run: bool,
    /// Id of the signed request, which is the id of the task.
    pub request_id: RequestId,
    /// SHA-256 of what was signed, hex.
    pub request_hash: String,
    /// Tenant.
    pub tenant_id: Option<String>,
    /// Surface.
    pub surface_id: Option<String>,
    /// Profile.
    pub policy_profile_id: Option<String>,
    /// The policy's own version.
    pub policy_version: Option<String>,
    /// SHA-256 of the policy file's bytes, hex.
    pub policy_hash: Option<String>,
    /// SHA-256 of what its command delivered, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_policy_hash: Option<String>,
    /// The kind of work.
    pub payload_kind: Option<String>,
    /// Id of the root task, which names the tree.
    pub root_task_id: Option<String>,
    /// Id of the parent task.
    pub parent_task_id: Option<String>,
    /// The receipt that the request names as its cause.
    pub caused_by_receipt_id: Option<String>,
    /// The capability.
    pub capability_id: Option<String>,
    /// The counts that the decision is based on.
    pub effective_counters: Counters,
    /// The counts that the request claims.
    pub claimed_counters: Claimed,
    /// Why it was denied.
    pub rejection_reason_code: Option<Reason>,
    /// The reason in words.
    pub rejection_detail: Option<String>,
    /// Where it was forwarded to, a path below the spool.
    pub forwarded_to: Option<String>,
    /// When it was decided, by the gate's clock.
    pub evaluated_at: Time,
}

impl Receipt {
    /// Turns it into the receipt of a DENY, which reserves and forwards nothing.
    pub fn reject(&mut self, reason: Reason, detail: &str) {
        self.phase = Phase::Rejected;
        self.decision = Verdict::Deny;
        self.rejection_reason_code = Some(reason);
        self.rejection_detail = Some(detail.chars().take(DETAIL_CHARS_MAX).collect());
        self.forwarded_to = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../docs/admission.md");
        assert!(
            docs.contains(&markdown()),
            "docs/admission.md should hold:\n{}",
            markdown()
        );
    }

    #[test]
    fn names_on_the_wire_are_those_of_the_table() {
        for reason in Reason::ALL {
            assert_eq!(
                serde_json::to_string(reason).unwrap(),
                format!("\"{}\"", reason.name())
            );
        }
        assert!(Reason::ALL.is_sorted());
    }
}
