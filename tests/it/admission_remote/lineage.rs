//! What a lineage command reports: it can only make things stricter.

use serde_json::Value;
use spoolgate_gate::record::AskedFor;
use spoolgate_wire::signing::sha256_hex;

use super::desk::{COMMAND, Desk, LINEAGE, WIDE, body, child, drain, root, said, say};

#[test]
fn higher_counts_deny_and_lower_ones_change_nothing() {
    let policy = "max_spawn_depth: 4\nmax_total_descendants: 5\nmax_repeats_per_capability: \
        5\nmax_repeats_in_ancestor_window: 2\nancestor_window_size: 3\n";
    let desk = Desk::new(&format!("{policy}{LINEAGE}"));
    let mut home = desk.open();
    desk.says("lineage", "{}");
    assert_eq!(said(&desk.root(&mut home, "r1")), "ALLOW");
    let asked: Value = serde_json::from_str(desk.read("bin/lineage.asked").trim()).unwrap();
    let expect = serde_json::json!({"tenant_id": "research", "root_task_id": "tree-r1",
        "parent_task_id": null,
        "capability_id": "reader", "task_id": "r1", "spawn_depth": 0});
    assert_eq!(asked, expect);
    let mut runs = 1;
    for (id, reported, expect) in [
        ("depth", r#"{"current_depth": 4}"#, "depth_exceeded"),
        (
            "descendants",
            r#"{"total_descendants": 5}"#,
            "descendants_exceeded",
        ),
        (
            "repeats",
            r#"{"capability_repeat_count": 5}"#,
            "repeats_exceeded",
        ),
        (
            "window",
            r#"{"ancestor_capability_ids": ["reader", "x", "reader"]}"#,
            "ancestor_window_violated",
        ),
        (
            "outside",
            r#"{"ancestor_capability_ids": ["x", "x", "x", "reader", "reader"]}"#,
            "ALLOW",
        ),
        (
            "nulls",
            r#"{"current_depth": null, "ancestor_capability_ids": []}"#,
            "ALLOW",
        ),
        (
            "lower",
            r#"{"current_depth": 0, "total_descendants": 0, "capability_repeat_count": 0}"#,
            "ALLOW",
        ),
        ("unknown", r#"{"current_deph": 0}"#, "policy_unavailable"),
        (
            "twice",
            r#"{"current_depth": 0, "current_depth": 0}"#,
            "policy_unavailable",
        ),
        ("negative", r#"{"current_depth": -1}"#, "policy_unavailable"),
        ("yaml", "current_depth: 0", "policy_unavailable"),
    ] {
        desk.says("lineage", reported);
        desk.evaluate("research-bot", id, &child("r1", "r1", "reader"));
        drain(&mut home);
        runs += 1;
        let (seq, decision) = desk.line_of(id);
        assert!(
            said(&decision).starts_with(expect),
            "{id}: {}",
            said(&decision)
        );
        let inputs = desk.inputs();
        let (line, input) = inputs.last().unwrap();
        assert_eq!(
            (line + 1, inputs.len(), desk.runs("lineage")),
            (seq, runs, runs),
            "{id}"
        );
        let AskedFor::Lineage {
            domain,
            source,
            request_id,
            file_sha256,
        } = &input.about
        else {
            panic!("{input:?}")
        };
        assert_eq!(
            (domain.as_str(), source.as_str(), request_id.as_str()),
            ("research/agents/default", "research-bot", id)
        );
        assert_eq!(Some(file_sha256), decision.file_sha256.as_ref());
        assert_eq!(
            input.payload.is_some(),
            expect != "policy_unavailable",
            "{id}"
        );
        assert!(input.changes.is_empty());
    }
    let counters = desk.decision("lower").receipt.unwrap().effective_counters;
    assert_eq!(
        (counters.spawn_depth, counters.total_descendants),
        (Some(1), Some(2)),
        "{counters:?}"
    );
    drop(home);
    desk.is_settled();
}

#[test]
fn a_failure_denies_that_request_alone() {
    let desk = Desk::new(&format!("{WIDE}leases_per_hour: 1\n{LINEAGE}"));
    let mut home = desk.open();
    desk.program(
        "lineage",
        "if grep -q bad bin/lineage.asked; then : > bin/lineage.asked; echo why >&2; exit 4; \
            fi\necho '{}'",
    );
    let told = said(&desk.root(&mut home, "bad"));
    assert!(
        told.starts_with("policy_unavailable: `bin/lineage` ended with exit code 4: why"),
        "{told}"
    );
    assert_eq!(said(&desk.root(&mut home, "good")), "ALLOW");
    // A lease without causality has no lineage, and neither has another request without causality.
    let lease = body("null")
        .replace("work_order", "lease")
        .replace(",\"causality\":null", "");
    desk.send("research-bot", "lease", "admission.evaluate", &lease, None);
    desk.send(
        "research-bot",
        "none",
        "admission.evaluate",
        &body("null"),
        None,
    );
    drain(&mut home);
    assert_eq!(said(&desk.decision("lease")), "ALLOW");
    assert!(said(&desk.decision("none")).starts_with("missing_causality"));
    assert_eq!(desk.runs("lineage"), 2);
}

/// A large report goes to a blob; the line names it.
#[test]
fn a_large_report_is_kept_apart() {
    let desk = Desk::new(&format!("{WIDE}{}", LINEAGE.replace("4096", "100000")));
    let mut home = desk.open();
    let many: Vec<String> = (0..2000).map(|n| format!("\"c-{n}\"")).collect();
    desk.says(
        "lineage",
        &format!("{{\"ancestor_capability_ids\": [{}]}}", many.join(", ")),
    );
    assert_eq!(said(&desk.root(&mut home, "r1")), "ALLOW");
    let digest = desk.inputs().remove(0).1.payload_blob.unwrap();
    assert_eq!(
        sha256_hex(desk.read(&format!("audit/blobs/{digest}")).as_bytes()),
        digest
    );
}

/// Both commands: lineage is requested for each request, the policy once, and the policy is still
/// fresh when lineage took long.
// Otherwise its children would be denied because of the depth in the forwarded file.
#[test]
fn a_forwarded_task_has_the_depth_of_the_ledger() {
    let desk = Desk::new(&format!(
        "max_spawn_depth: 4\nrecursion_budget: 9\n{LINEAGE}"
    ));
    let mut home = desk.open();
    desk.says("lineage", "{}");
    desk.root(&mut home, "r1");
    desk.says("lineage", r#"{"current_depth": 3}"#);
    desk.send(
        "research-bot",
        "deep",
        "admission.admit",
        &body(&child("r1", "r1", "reader")),
        None,
    );
    drain(&mut home);
    let receipt = desk.decision("deep").receipt.unwrap();
    assert_eq!(
        receipt.effective_counters.spawn_depth,
        Some(3),
        "what it was measured by"
    );
    let file: Value =
        serde_json::from_str(&desk.read(&format!("spool/{}", receipt.forwarded_to.unwrap())))
            .unwrap();
    let causality = &file["envelope"]["causality"];
    assert_eq!(
        (
            &causality["spawn_depth"],
            &causality["recursion_budget_remaining"]
        ),
        (&1.into(), &7.into())
    );
}

#[test]
fn a_policy_does_not_get_old_while_lineage_is_asked() {
    let desk = Desk::new(&format!("{WIDE}cache_ttl_seconds: 1\n{COMMAND}{LINEAGE}"));
    let mut home = desk.open();
    desk.says("policy", "max_spawn_depth: 3");
    desk.program(
        "lineage",
        &format!("until [ -e bin/go ]; do sleep 0.02; done\n{}", say("{}")),
    );
    desk.evaluate("research-bot", "r1", &root("r1", "reader"));
    super::desk::rounds(&mut home);
    desk.pass_s(20);
    desk.write("bin/go", "");
    drain(&mut home);
    assert_eq!(said(&desk.decision("r1")), "ALLOW");
    assert_eq!(said(&desk.root(&mut home, "r2")), "ALLOW");
    assert_eq!((desk.runs("lineage"), desk.runs("policy")), (2, 1));
    drop(home);
    desk.is_settled();
}
