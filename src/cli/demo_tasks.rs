//! The demo's tree of tasks: at most five tasks are admitted, including the root, whatever they
//! claim and spawn.

use super::demo_script::{Act, Step, step};
use spoolgate_wire::action_name::ActionName;

const AGENT: &str = "research-bot";

/// The steps of the tasks, at times of the same day.
pub(super) const TASKS: &[Step] = &[
    step(
        "23:00:00",
        "an agent opens a tree of tasks",
        Act::Request(
            AGENT,
            "task-001",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"goal":"read the day's trades"},"causality":{"root_task_id":"task-001","parent_task_id":null,"spawn_depth":0,"capability_id":"plan"}}}"##,
        ),
    ),
    step(
        "23:01:00",
        "it spawns a task",
        Act::Request(
            AGENT,
            "task-002",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"gaps"},"causality":{"root_task_id":"task-001","parent_task_id":"task-001","spawn_depth":1,"capability_id":"search"}}}"##,
        ),
    ),
    step(
        "23:02:00",
        "which claims to be the root's child and is not",
        Act::Request(
            AGENT,
            "task-003",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"gaps again"},"causality":{"root_task_id":"task-001","parent_task_id":"task-002","spawn_depth":1,"capability_id":"search"}}}"##,
        ),
    ),
    step(
        "23:03:00",
        "and claims more budget than is left",
        Act::Request(
            AGENT,
            "task-004",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"gaps again"},"causality":{"root_task_id":"task-001","parent_task_id":"task-002","spawn_depth":2,"capability_id":"search","recursion_budget_remaining":1000}}}"##,
        ),
    ),
    step(
        "23:04:00",
        "a third search in a row",
        Act::Request(
            AGENT,
            "task-005",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"gaps once more"},"causality":{"root_task_id":"task-001","parent_task_id":"task-004","spawn_depth":3,"capability_id":"search"}}}"##,
        ),
    ),
    step(
        "23:05:00",
        "a capability on the denylist",
        Act::Request(
            AGENT,
            "task-006",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"command":"ls"},"causality":{"root_task_id":"task-001","parent_task_id":"task-002","spawn_depth":2,"capability_id":"shell"}}}"##,
        ),
    ),
    step(
        "23:06:00",
        "a sibling",
        Act::Request(
            AGENT,
            "task-007",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"of":"task-002"},"causality":{"root_task_id":"task-001","parent_task_id":"task-001","spawn_depth":1,"capability_id":"summarise"}}}"##,
        ),
    ),
    step(
        "23:07:00",
        "the last of the budget",
        Act::Request(
            AGENT,
            "task-008",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"spreads"},"causality":{"root_task_id":"task-001","parent_task_id":"task-001","spawn_depth":1,"capability_id":"search"}}}"##,
        ),
    ),
    step(
        "23:08:00",
        "the tree has run out of budget",
        Act::Request(
            AGENT,
            "task-009",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"query":"volumes"},"causality":{"root_task_id":"task-001","parent_task_id":"task-001","spawn_depth":1,"capability_id":"search","recursion_budget_remaining":5}}}"##,
        ),
    ),
    step(
        "23:09:00",
        "and cannot be opened again",
        Act::Request(
            AGENT,
            "task-010",
            ActionName::AdmissionAdmit,
            r##"{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"goal":"start over"},"causality":{"root_task_id":"task-001","parent_task_id":null,"spawn_depth":0,"capability_id":"plan"}}}"##,
        ),
    ),
];
