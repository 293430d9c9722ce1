//! What can be wrong with `council/roles.yaml`.

use super::Start;
use super::check::{LINE_CHARS_MAX, LINES_MAX, NAME_CHARS_MAX, ROLES_MAX};
use crate::command::CommandError;
use crate::evidence::EvidenceError;
use spoolgate_wire::council::{Artifacts, Axis, ChangeType};

/// Why the council cannot be compiled, or why a principal cannot speak for a role.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RolesError {
    #[error(
        "`{0}` is not the name of a role: 1 to {NAME_CHARS_MAX} printable characters, one of them a \
            letter or digit, single spaces"
    )]
    Name(String),
    #[error("council role `{0}` appears twice")]
    CouncilRoleTwice(String),
    #[error("`roles` has {0} entries; it needs 1 to {ROLES_MAX}")]
    Count(usize),
    #[error("two roles are called `{0}`; case and punctuation do not tell them apart")]
    SameName(String),
    /// A fault of one role.
    #[error("role `{0}`: {1}")]
    Role(String, #[source] Box<RolesError>),
    #[error("another role is computed in the same way")]
    SameComputed,
    #[error("`primary_axes` is empty")]
    NoAxes,
    #[error("axis `{}` appears twice in `primary_axes`", .0.as_str())]
    AxisTwice(Axis),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("`{0}` has {1} lines, the limit is {LINES_MAX}")]
    Lines(&'static str, usize),
    #[error("`{0}`: `{1}` must be 1 to {LINE_CHARS_MAX} printable characters, single spaces")]
    Line(&'static str, String),
    #[error("weights: `{0}` must be at most `{1}`")]
    Weights(&'static str, &'static str),
    #[error("{0}: it needs reject_below <= unsure_below <= {1} (`weights.start`)")]
    Floor(String, Start),
    #[error("text: it needs significant_below <= material_below")]
    Text,
    #[error("evidence: {0}")]
    Evidence(#[from] EvidenceError),
    #[error("placeholders: `whole` has a word without letters; such texts are missing in any case")]
    Placeholder,
    /// A fault of one type of change.
    #[error("changes: {}: {}", .0.as_str(), .1)]
    Change(ChangeType, #[source] Box<RolesError>),
    #[error("`{0}` names `{1}`, which is not in `roles`")]
    UnknownRole(&'static str, String),
    #[error("`{0}` names `{1}` twice")]
    RoleTwice(&'static str, String),
    #[error("`required_roles` is empty; nobody would have to approve")]
    NoRoles,
    #[error("`veto_roles` names `{0}`, which is not required")]
    Veto(String),
    #[error("there is no artifact `{}`; there are {}", .0, Artifacts::NAMES.join(", "))]
    UnknownArtifact(String),
    #[error("`{0}` appears twice")]
    Twice(String),
    #[error("axis `{}` has two floors", .0.as_str())]
    TwoFloors(Axis),
    #[error("floor of `{}`: no required role has it among its `primary_axes`", .0.as_str())]
    NotCovered(Axis),
}
