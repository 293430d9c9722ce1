//! What the ledger knows about a tree of tasks, and what an admission adds.
//!
//! Counts in changes are absolute. A line can therefore be put into an index twice, or into an
//! index that lacks the lines before it.

use serde::{Deserialize, Serialize};

use spoolgate_rules::admission::Profile;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Capability, DomainPart, Principal, RequestId};
use spoolgate_wire::time::Time;

/// What one decision needs to know about a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The tenant that owns the tree.
    pub tenant: DomainPart,
    /// The name of the tree.
    pub root: RequestId,
    /// The task that requests admission.
    pub task: RequestId,
    /// Its parent, by task id or by the name of the tree; `None` if the task opens the tree.
    pub parent: Option<RequestId>,
    /// Its capability.
    pub capability: Capability,
    /// Ledger line of the receipt that the task names as its cause.
    pub cause: Option<u64>,
    /// How many ancestors' capabilities are needed.
    pub window: u32,
}

/// Money and tokens. A member is `None` where no budget limits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Funds {
    /// Money, USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<Amount>,
    /// Tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<i64>,
}

impl Funds {
    /// Returns whether no budget limits anything.
    pub fn is_unlimited(&self) -> bool {
        *self == Funds::default()
    }
}

/// The present state of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The id of its root task, which is the id of the request that opened it.
    pub task: RequestId,
    /// Tasks that may still be admitted in it; `None` if no policy has issued a budget.
    pub budget: Option<i64>,
    /// Tasks admitted below the root.
    pub descendants: u64,
    /// The profile that it is bound to; `None` until the next task of a tree that an earlier
    /// version opened.
    pub binding: Option<Binding>,
    /// What is left of its budgets of money and tokens; below 0 if its tasks spent more than they
    /// reserved.
    pub left: Funds,
}

/// What binds a tree to a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The profile, as `tenant/surface/profile`.
    pub profile: String,
    /// Who opened the tree; `None` if an earlier version opened it.
    pub opened_by: Option<Principal>,
    /// When its root was admitted; if an earlier version opened it, when it was bound.
    pub since: Time,
}

/// What children need to know about their parent task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub task: RequestId,
    /// Its depth; roots have 0.
    pub depth: u64,
}

/// The ledger's answer to a [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The tree, if it exists.
    pub tree: Option<Tree>,
    /// The parent, if it is recorded in the tree.
    pub parent: Option<Parent>,
    /// Whether the task's id is taken in the tree, by a task or as the tree's name.
    pub is_taken: bool,
    /// Whether the named receipt belongs to a task of the tree.
    pub has_cause: bool,
    /// Tasks of the capability in the tree.
    pub repeats: u64,
    /// Capabilities of the nearest ancestors, starting with the parent's.
    pub ancestors: Vec<Capability>,
}

/// What a lineage command reported. A count has an effect only where it is stricter
/// than the ledger's.
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
    /// Capabilities of the ancestors, starting with the nearest.
    #[serde(default)]
    pub ancestor_capability_ids: Vec<Capability>,
}

/// A task that was admitted, with the state of its tree afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// The tenant that owns the tree.
    pub tenant: DomainPart,
    /// The name of the tree.
    pub root: RequestId,
    /// The task.
    pub task: RequestId,
    /// Its parent; `None` if it is the root.
    pub parent: Option<RequestId>,
    /// Its depth.
    pub depth: u64,
    /// Its capability.
    pub capability: Capability,
    /// Tasks of that capability in the tree, including this one.
    pub repeats: u64,
    /// Tasks below the root, including this one.
    pub descendants: u64,
    /// What is left of the budget.
    pub budget: Option<i64>,
    /// What is left of the budgets of money and tokens.
    #[serde(default, skip_serializing_if = "Funds::is_unlimited")]
    pub left: Funds,
    /// What the task has reserved of them.
    #[serde(default, skip_serializing_if = "Funds::is_unlimited")]
    pub reserved: Funds,
    /// The profile that the tree is bound to, as `tenant/surface/profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Who requested the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Principal>,
    /// Who opened the tree; only for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_by: Option<Principal>,
    /// When it was admitted, by the gate's clock.
    pub at: Time,
}

/// A lease without causality that was admitted. It belongs to no tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leased {
    /// Who requested it.
    pub by: Principal,
    /// The domain, as `tenant/surface/profile`.
    pub domain: String,
    /// When it was admitted, by the gate's clock.
    pub at: Time,
}

/// What a task has spent, with the state of its tree afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The tenant that owns the tree.
    pub tenant: DomainPart,
    /// The name of the tree.
    pub root: RequestId,
    /// The task.
    pub task: RequestId,
    /// Money that it has spent, USD.
    pub usd: Amount,
    /// Tokens that it has spent.
    pub tokens: i64,
    /// Whether a settler said so, which is final.
    pub is_final: bool,
    /// How often the task's own key has settled it so far.
    pub raises: u32,
    /// What is left of the tree's budgets.
    #[serde(default, skip_serializing_if = "Funds::is_unlimited")]
    pub left: Funds,
}

/// What a policy command delivered, or how it failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivered {
    /// The profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Why there is no profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// SHA-256 of the command's output, hex.
    pub sha256: String,
    /// SHA-256 of the policy file that named the command, hex. If the file changes, the
    /// command runs again.
    pub policy: String,
    /// When it was delivered, by the gate's clock.
    pub at: Time,
}

/// One change of the admission state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Change {
    /// A task was admitted.
    Admitted(Box<Admitted>),
    /// A lease without causality was admitted.
    Leased(Leased),
    /// A task's spending was reported.
    Settled(Box<Settled>),
    /// A policy command answered.
    PolicyDelivered {
        /// The domain, as `tenant/surface/profile`.
        domain: String,
        /// The result of the command.
        delivered: Box<Delivered>,
    },
    /// Kept policies were dropped.
    PoliciesForgotten {
        /// Their domains.
        domains: Vec<String>,
    },
}
