//! What the ledger knows of a tree of tasks, and what an admission adds to it.
//!
//! Counts in changes are absolute: what a line did can be put into an index again, and into one that lacks the lines
//! before it.

use serde::{Deserialize, Serialize};

use crate::rules::admission::Profile;
use crate::wire::ids::{Capability, DomainPart, Principal, RequestId};
use crate::wire::time::Time;

/// What one decision wants to know of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Whose tree.
    pub tenant: DomainPart,
    /// The tree.
    pub root: RequestId,
    /// The task that would be admitted.
    pub task: RequestId,
    /// Its parent, by task id or by the name of the tree; none opens the tree.
    pub parent: Option<RequestId>,
    /// Its capability.
    pub capability: Capability,
    /// The line of the receipt that it names.
    pub cause: Option<u64>,
    /// How many ancestors' capabilities are wanted.
    pub window: u32,
}

/// A tree as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The id of its root task: that of the request that opened it.
    pub task: RequestId,
    /// Tasks that may still be admitted in it; none: nobody has issued a budget.
    pub budget: Option<i64>,
    /// Tasks admitted below the root.
    pub descendants: u64,
}

/// A task as far as its children need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub task: RequestId,
    /// Its depth; roots have 0.
    pub depth: u64,
}

/// What the ledger says to a [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The tree, if it was opened.
    pub tree: Option<Tree>,
    /// The parent, if it is recorded in the tree.
    pub parent: Option<Parent>,
    /// Whether the id of the task is taken in the tree, by a task or as the tree's name.
    pub is_taken: bool,
    /// Whether the receipt is that of a task of the tree.
    pub has_cause: bool,
    /// Tasks of the capability in the tree.
    pub repeats: u64,
    /// Capabilities of the nearest ancestors, the parent's first.
    pub ancestors: Vec<Capability>,
}

/// What a lineage command knows beyond the ledger. Every count holds only where it is stricter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reported {
    /// Depth of the task.
    #[serde(default)]
    pub current_depth: Option<u32>,
    /// Tasks below the root.
    #[serde(default)]
    pub total_descendants: Option<u32>,
    /// Tasks of the capability in the tree.
    #[serde(default)]
    pub capability_repeat_count: Option<u32>,
    /// Capabilities of the ancestors, the nearest first.
    #[serde(default)]
    pub ancestor_capability_ids: Vec<Capability>,
}

/// A task that was admitted, with what its tree is afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// Whose tree.
    pub tenant: DomainPart,
    /// The tree.
    pub root: RequestId,
    /// The task.
    pub task: RequestId,
    /// Its parent; none: it is the root.
    pub parent: Option<RequestId>,
    /// Its depth.
    pub depth: u64,
    /// Its capability.
    pub capability: Capability,
    /// Tasks of that capability in the tree, this one included.
    pub repeats: u64,
    /// Tasks below the root, this one included.
    pub descendants: u64,
    /// What is left of the budget.
    pub budget: Option<i64>,
    /// Who opened the tree, of a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<Principal>,
    /// When, on the gate's clock.
    pub at: Time,
}

/// What a policy command delivered, or how it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// The profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// SHA-256 of what the command wrote, hex.
    pub sha256: String,
    /// SHA-256 of the policy file that named the command, hex: another file asks again.
    pub policy: String,
    /// When, on the gate's clock.
    pub at: Time,
}

/// One step of admission's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A task was admitted.
    Admitted(Admitted),
    /// A policy command answered.
    PolicyDelivered {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// What it said.
        delivered: Delivered,
    },
    /// Delivered policies were forgotten.
    PoliciesForgotten {
        /// Their domains.
        domains: Vec<String>,
    },
}
