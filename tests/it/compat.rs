//! What earlier versions wrote can always be opened. The homes, proofs and answers in
//! `tests/compat/v1` and `v2` are never changed; the README beside them describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::kit::kept::{Kept, Then, files};
use serde_json::Value;
use spoolgate_gate::state::SEMANTICS;

/// Every kind of line.
const KINDS: &str = "genesis segment rotate admin seal start stop rulebook tick halt clock_step \
    dead_man quota proposal published market input council decision request response redact";

/// Every change of state except `ProgramChanged`, which only a later version writes.
const CHANGES: &str = "\
    Book.OrderPlaced Book.OrderFilled Book.OrderTriggered Book.StopResized Book.StopMoved \
        Book.OrderClosed \
    Book.OrderRefused Book.OrderEnding Book.Instructed Book.VenueReported Book.SymbolDoubted \
        Book.MarketMoved \
    Book.RegimeGiven Book.SymbolHalted Book.SymbolCleared Book.ThesisRefuted Book.FundingCharged \
        Book.AccountAdjusted \
    Book.DayOpened Book.WeekOpened Book.PeakRaised Book.DrawdownLatched Book.StrategyDisabled \
        Book.StrategyCleared \
    Book.DrawdownCleared Council.CaseOpened Council.VoteFiled Council.RoleSilent Council.CaseFull \
        Council.CaseClosed \
    Admission.Admitted Admission.PolicyDelivered Admission.PoliciesForgotten Control.Decided \
        Control.Concern \
    Actions.opened Actions.first_use Actions.also_answer Actions.closed Services.edited \
        Services.credential \
    DeadMan.Tripped DeadMan.Beat DeadMan.Unheard Approvals.held Approvals.ended \
        Approvals.entry_added \
    Approvals.entry_ended Proposal.Pended Proposal.Applied Proposal.Declined KeyAdded KeyEnds \
        KeyRevoked HaltFile \
    HaltSet HaltCleared ClockFaulted ClockAccepted RulebookLoaded RulebookFaulted HeadsGivenUp";

/// Changes that contain the changes of a part of the program.
const PARTS: [&str; 9] = [
    "Book",
    "Council",
    "Admission",
    "Control",
    "Actions",
    "Services",
    "DeadMan",
    "Approvals",
    "Proposal",
];

/// Files and folders of the homes besides the ledger.
const FILES: &str = "\
    audit/checkpoint audit/SEGMENTS audit/blobs audit/rulebooks audit/log-00000001.jsonl.zst \
        state/state.db \
    state/state.db-wal state/keyring.db spool/out spool/rejected spool/outbox/exchange \
        spool/forward/agents \
    council/cases/req-1/briefs council/cases/req-1/verdicts council/cases/req-1/decision.json \
    council/cases/req-1/record.json proposals/pending proposals/approved proposals/applied \
        proposals/declined \
    rules/active rules/services.yaml rules/approvers";

macro_rules! for_each_version {
    ($($test:ident),* $(,)?) => {
        mod v1 {
            $(#[test] fn $test() { super::$test(crate::kit::kept::Then::V1); })*
        }
        mod v2 {
            $(#[test] fn $test() { super::$test(crate::kit::kept::Then::V2); })*
        }
    };
}

for_each_version!(
    every_kind_of_line_and_of_change_is_kept,
    every_file_that_a_line_implies_is_kept,
    the_ledgers_verify_to_the_letter,
    disclosures_of_outgoing_actions_are_checked,
    the_state_of_then_opens_and_is_what_the_ledger_says,
    lines_of_the_same_semantics_are_recomputed_and_all_answers_are_found,
    every_shape_of_answer_is_the_one_that_was_given,
    an_old_request_sent_again_gets_its_old_answer,
    a_home_goes_on_where_it_ended,
    open_actions_and_holds_end_correctly,
    old_agents_and_bridges_continue_with_their_keys,
    files_that_the_last_lines_imply_are_written_again_unchanged,
    a_decided_case_is_shown_as_it_was,
    a_lost_index_is_rebuilt,
    a_pruned_home_replays_once_its_segments_are_back,
    a_proof_by_id_says_that_the_first_line_may_be_pruned,
    a_pruned_home_is_sound_for_doctor_too,
    receipts_and_checkpoints_hold,
    an_approver_signature_of_then_verifies,
    lines_are_found_with_and_without_the_index,
    reports_and_explanations_are_written,
);

fn every_kind_of_line_and_of_change_is_kept(then: Then) {
    let (mut kinds, mut changes, mut statuses) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for line in [then.home("demo"), then.home("full")]
        .iter()
        .flat_map(Kept::lines)
    {
        let kind = line["kind"].as_str().unwrap();
        kinds.insert(kind.to_owned());
        if let Some(about) = line["about"].as_object() {
            statuses.extend(about.keys().map(|what| format!("input {what}")));
        }
        if let Some(status) = line["status"].as_str() {
            statuses.insert(format!("{kind} {status}"));
        }
        for change in line["changes"].as_array().into_iter().flatten() {
            let (name, body) = change.as_object().unwrap().iter().next().unwrap();
            let inner = PARTS
                .contains(&name.as_str())
                .then(|| body.as_object().unwrap().keys().next().unwrap());
            changes.insert(inner.map_or(name.clone(), |inner| format!("{name}.{inner}")));
        }
    }
    let all = |words: &str| {
        words
            .split_whitespace()
            .map(str::to_owned)
            .collect::<BTreeSet<String>>()
    };
    assert_eq!(kinds, all(KINDS));
    assert_eq!(changes, all(CHANGES));
    let expected = [
        "decision rate_limited",
        "decision rejected",
        "decision requires_approval",
        "decision success",
        "input lineage",
        "input policy",
        "request pending",
        "response error",
        "response success",
    ];
    assert_eq!(statuses, expected.into_iter().map(str::to_owned).collect());
}

fn every_file_that_a_line_implies_is_kept(then: Then) {
    let full = then.home("full");
    for name in FILES.split_whitespace() {
        let path = full.path(name);
        let is_there = if path.is_dir() {
            !files(&path).is_empty()
        } else {
            path.metadata().unwrap().len() > 0
        };
        assert!(is_there, "{name}");
    }
    assert!(then.home("pruned").path("audit/log-00000001.stub").exists());
    for (path, mode) in [
        ("state/keyring.db", 0o600),
        ("audit", 0o700),
        ("state", 0o700),
    ] {
        assert_eq!(
            full.path(path).metadata().unwrap().permissions().mode() & 0o777,
            mode,
            "{path}"
        );
    }
}

fn the_ledgers_verify_to_the_letter(then: Then) {
    for (name, archived, pruned, torn) in
        [("demo", 0, 0, 0), ("full", 1, 0, 1), ("pruned", 0, 1, 1)]
    {
        let verified = then.home(name).verifies();
        let counts = ["archived", "pruned", "torn"].map(|count| verified[count].as_u64().unwrap());
        assert_eq!(counts, [archived, pruned, torn], "{name}");
    }
}

/// Outgoing actions commit to sealed fields in their `request` lines. A held action does so in its
/// earlier decision.
fn disclosures_of_outgoing_actions_are_checked(then: Then) {
    let home = then.home("full");
    let lines = home.lines();
    let digests = |member: &str, kinds: &[&str]| -> BTreeSet<String> {
        let of_kind = lines
            .iter()
            .filter(|line| kinds.contains(&line["kind"].as_str().unwrap()));
        let fields = of_kind.filter_map(|line| line[member].as_array()).flatten();
        fields
            .map(|field| field["sd"].as_str().unwrap().to_owned())
            .collect()
    };
    let (decided, sent) = (
        digests("sealed", &["decision"]),
        digests("sealed", &["request"]),
    );
    assert!(decided.intersection(&sent).count() > 0 && sent.difference(&decided).count() > 0);
    let (all, redacted) = (decided.union(&sent).count(), digests("fields", &["redact"]));
    assert!(redacted.intersection(&sent).count() > 0);
    let sealed = home.verifies()["sealed"].clone();
    assert_eq!(
        (&sealed["fields"], &sealed["redacted"]),
        (&all.into(), &redacted.len().into()),
        "{sealed}"
    );
    assert_eq!(sealed["disclosed"], all - redacted.len(), "{sealed}");

    let is_mail = |line: &&Value| line["kind"] == "request" && line["request_id"] == "mail-1";
    let mail = lines.iter().find(is_mail).unwrap();
    let subject = mail["sealed"]
        .as_array()
        .unwrap()
        .iter()
        .find(|field| field["field"] == "/subject")
        .unwrap();
    let file = format!("blobs/sd-{}", subject["sd"].as_str().unwrap());
    fs::remove_file(home.path("audit").join(&file)).unwrap();
    let verified = home.ends(&["--format", "json", "audit", "verify"]);
    assert!(!verified.status.success());
    let verified: Value = serde_json::from_slice(&verified.stdout).unwrap();
    let what = format!(
        "`/subject` of line {} has no disclosure, and no line records its redaction",
        mail["seq"]
    );
    assert_eq!(
        verified["problems"],
        serde_json::json!([{"file": file, "offset": 0, "what": what}])
    );
}

fn the_state_of_then_opens_and_is_what_the_ledger_says(then: Then) {
    for name in ["demo", "full"] {
        let home = then.home(name);
        let then = home.state();
        assert!(
            then.values().filter(|shown| shown.len() > 10).count() > 6,
            "{name}: {then:?}"
        );
        let said = home.gate(&["rebuild"]);
        assert!(said.contains("it is the same as before"), "{name}: {said}");
        assert_eq!(home.state(), then, "{name}");
    }
}

fn lines_of_the_same_semantics_are_recomputed_and_all_answers_are_found(then: Then) {
    for (name, answers) in [("demo", 100), ("full", 70)] {
        let replayed = then.home(name).replays();
        assert!(
            replayed["files"]["same"].as_u64().unwrap() > answers,
            "{name}: {replayed}"
        );
        let others = replayed["of_other_semantics"].as_u64().unwrap();
        let is_right = if then.semantics == SEMANTICS {
            others == 0
        } else {
            others > answers
        };
        assert!(is_right, "{name}: {replayed}");
    }
}

fn every_shape_of_answer_is_the_one_that_was_given(then: Then) {
    let home = then.home("full");
    for id in then.answered_ids() {
        assert_eq!(
            fs::read(home.answer(&id)).unwrap(),
            then.kept_answer(&id),
            "{id}"
        );
    }
    home.replays();
}

fn an_old_request_sent_again_gets_its_old_answer(then: Then) {
    let home = then.home("full");
    // The first three used up no id, the redacted one cannot be compared, and the key of the last
    // two has ended.
    let others = ["call-3", "forged", "half", "mail-1", "pause", "pause-again"];
    let ids: Vec<String> = then
        .answered_ids()
        .into_iter()
        .filter(|id| !others.contains(&id.as_str()))
        .collect();
    for id in &ids {
        fs::remove_file(home.answer(id)).unwrap();
        let request = then.fixtures().join(format!("answers/{id}.request.json"));
        fs::copy(request, home.path(&format!("spool/in/{id}.json"))).unwrap();
    }
    home.idle();
    for id in &ids {
        let answer = fs::read(home.answer(id)).unwrap();
        assert_eq!(
            String::from_utf8(answer).unwrap(),
            String::from_utf8(then.kept_answer(id)).unwrap(),
            "{id}"
        );
    }
}

fn a_home_goes_on_where_it_ended(then: Then) {
    for name in ["demo", "full", "pruned"] {
        let home = then.home(name);
        let then = files(&home.path("audit"));
        let before = home.verifies()["lines"].as_u64().unwrap();
        home.idle();
        home.gate(&["clock", "accept", "--reason", "years later"]);
        home.gate(&["account", "deposit", "1", "--reason", "it goes on"]);
        home.idle();
        let after = home.verifies()["lines"].as_u64().unwrap();
        assert!(after > before + 3, "{name}: {before} lines, then {after}");
        for (path, bytes) in then
            .iter()
            .filter(|(path, _)| path.to_string_lossy().contains(".jsonl"))
        {
            assert!(
                fs::read(path).unwrap().starts_with(bytes),
                "{}",
                path.display()
            );
        }
        if name != "pruned" {
            home.replays();
            let said = home.gate(&["rebuild"]);
            assert!(said.contains("it is the same as before"), "{name}: {said}");
        }
    }
}

fn open_actions_and_holds_end_correctly(then: Then) {
    let home = then.home("full");
    home.idle();
    assert_eq!(home.answered("fetch")["error"]["code"], "UNKNOWN_OUTCOME");
    home.gate(&["clock", "accept", "--reason", "years later"]);
    home.idle();
    assert_eq!(
        home.answered("held-open")["error"]["code"],
        "APPROVAL_EXPIRED"
    );
    assert_eq!(
        home.json(&["council", "show", "req-2"])["outcome"],
        "NEEDS_MORE_INFO"
    );
    let pending = home.gate(&["proposals", "list", "--pending"]);
    let proposal = pending
        .split_whitespace()
        .find(|word| word.starts_with("p-"))
        .unwrap();
    home.gate(&["proposals", "decline", proposal, "--reason", "years later"]);
}

fn old_agents_and_bridges_continue_with_their_keys(then: Then) {
    let home = then.home("full");
    let asked = home.ask("now-1", "trend-bot", "portfolio.get", "{}");
    assert_eq!(asked["status"], "success", "{asked}");
    let orders = home.gate(&["--format", "json", "orders"]);
    let orders: Vec<Value> = orders
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let stop = orders
        .iter()
        .find(|order| order["role"] == "protective")
        .unwrap();
    let (id, mark) = (stop["order_id"].as_str().unwrap(), "2026-01-06T02:30:00Z");
    let payload = format!("{{\"order_id\":\"{id}\",\"new_stop\":391}}");
    let tightened = home.ask("now-2", "trend-bot", "order.tighten_stop", &payload);
    assert_eq!(tightened["status"], "success", "{tightened}");
    let payload = format!(
        "{{\"order_id\":\"{id}\",\"exec_type\":\"replaced\",\"exec_id\":\"now\",\"transact_time\":\"{mark}\",\
         \"cum_qty\":\"0\",\"version\":3}}"
    );
    let reported = home.ask("now-3", "exchange", "venue.report", &payload);
    assert_eq!(reported["status"], "success", "{reported}");
}

fn files_that_the_last_lines_imply_are_written_again_unchanged(then: Then) {
    let home = then.home("full");
    let folders = [
        "spool/outbox",
        "spool/forward",
        "proposals/pending",
        "council/cases",
    ];
    let then = folders.map(|folder| files(&home.path(folder)));
    for path in then.iter().flat_map(BTreeMap::keys) {
        fs::remove_file(path).unwrap();
    }
    home.idle();
    for (folder, then) in folders.iter().zip(&then) {
        let now = files(&home.path(folder));
        assert!(!now.is_empty(), "{folder}");
        // Entries that this version no longer allows are pulled, which adds instructions.
        for (path, bytes) in now.iter().filter(|(path, _)| then.contains_key(*path)) {
            // What stands around the quotes of a brief are this version's own words.
            if path
                .parent()
                .is_some_and(|folder| folder.ends_with("briefs"))
            {
                // They tell no judge any more whose request it is.
                let is_told = |line: &&str| {
                    let names = ["\"request_id\": \"withheld", "\"proposer\":", "\"signer\":"];
                    !names.iter().any(|name| line.trim_start().starts_with(name))
                };
                let quotes = |page: &[u8]| {
                    let page = String::from_utf8(page.to_vec()).unwrap();
                    let page = page.lines().filter(is_told).collect::<Vec<_>>().join("\n");
                    let parts = page.split("```").map(str::to_owned);
                    parts.skip(1).step_by(2).collect::<Vec<_>>()
                };
                let then = then.get(path).map(|page| quotes(page));
                assert_eq!(Some(quotes(bytes)), then, "{}", path.display());
                continue;
            }
            assert_eq!(Some(bytes), then.get(path), "{}", path.display());
        }
    }
}

/// It is not held against a ledger that today the council decides by other rules.
fn a_decided_case_is_shown_as_it_was(then: Then) {
    let home = then.home("full");
    let shown = home.json(&["council", "show", "req-1"]);
    assert_eq!(shown["recomputes"], Value::Null);
    let file = fs::read(home.path("spool/out/req-1.decision.json")).unwrap();
    let file: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(shown["decision"], file);
    let said = home.gate(&["council", "show", "req-1"]);
    assert!(said.contains("not recomputed"), "{said}");
}

fn a_lost_index_is_rebuilt(then: Then) {
    for name in ["demo", "full"] {
        let home = then.home(name);
        let then = home.state();
        for file in ["state.db", "state.db-wal", "state.db-shm"] {
            let _ = fs::remove_file(home.path(&format!("state/{file}")));
        }
        home.gate(&["rebuild"]);
        for (view, shown) in home.state() {
            assert_eq!(Some(&shown), then.get(view), "{name}: {view}");
        }
    }
}

fn a_pruned_home_replays_once_its_segments_are_back(then: Then) {
    let home = then.home("pruned");
    assert_eq!(home.ends(&["audit", "replay"]).status.code(), Some(6));
    let archive = "audit/log-00000001.jsonl.zst";
    fs::copy(then.home("full").path(archive), home.path(archive)).unwrap();
    home.replays();
    home.verifies();
    let said = home.gate(&["rebuild"]);
    assert!(said.contains("it is the same as before"), "{said}");
}

fn a_proof_by_id_says_that_the_first_line_may_be_pruned(then: Then) {
    let home = then.home("pruned");
    // Its first line is pruned, so it is refused, in a line that names it too.
    let request = then.fixtures().join("answers/entry-1.request.json");
    fs::copy(request, home.path("spool/in/entry-1.json")).unwrap();
    home.idle();
    let done = home.ends(&["audit", "prove", "entry-1"]);
    let said = String::from_utf8_lossy(&done.stderr);
    let warns = said.contains("they may hold other lines of `entry-1`");
    assert!(done.status.success() && warns, "{said}");
}

fn a_pruned_home_is_sound_for_doctor_too(then: Then) {
    let home = then.home("pruned");
    home.gate(&[
        "account",
        "deposit",
        "1",
        "--reason",
        "rows beside the index",
    ]);
    assert!(fs::metadata(home.path("state/state.db-wal")).unwrap().len() > 0);
    let told = home.ends(&["--format", "json", "doctor"]);
    let told = String::from_utf8(told.stdout).unwrap();
    let rows: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|row: &Value| ["ledger", "state"].contains(&row["what"].as_str().unwrap()))
        .collect();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["level"], "ok", "{rows:?}");
}

fn receipts_and_checkpoints_hold(then: Then) {
    let home = then.home("full");
    let proofs = then.fixtures().join("proofs");
    let file = |name: &str| proofs.join(name).into_os_string().into_string().unwrap();
    let key = |name: &str| {
        fs::read_to_string(proofs.join(name))
            .unwrap()
            .trim_end()
            .to_owned()
    };
    let (before, after) = (key("before.vkey"), key("after.vkey"));
    for (receipt, key, other) in [
        ("genesis", &before, &after),
        ("entry-1", &before, &after),
        ("prop-signed", &after, &before),
    ] {
        let receipt = file(&format!("{receipt}.tlog-proof"));
        home.gate(&["audit", "check-proof", &receipt, "--key", key]);
        assert_eq!(
            home.ends(&["audit", "check-proof", &receipt, "--key", other])
                .status
                .code(),
            Some(5)
        );
    }
    for head in [
        "before.checkpoint",
        "after.checkpoint",
        "entry-1.tlog-proof",
    ] {
        for key in [&before, &after] {
            home.gate(&["audit", "verify", "--head", &file(head), "--key", key]);
        }
    }
    // The same proofs can be made today.
    let made = home.gate(&[
        "audit",
        "prove",
        "entry-1",
        "--checkpoint",
        &file("before.checkpoint"),
    ]);
    assert_eq!(
        made,
        fs::read_to_string(file("entry-1.tlog-proof")).unwrap()
    );
    let (old, new) = (file("before.checkpoint"), file("after.checkpoint"));
    let made = home.gate(&["audit", "consistency", &old, &new]);
    assert_eq!(
        made,
        fs::read_to_string(file("before-after.consistency")).unwrap()
    );
    let proof = file("before-after.consistency");
    home.gate(&[
        "audit",
        "consistency",
        &old,
        "--check",
        &proof,
        "--key",
        &before,
        "--key",
        &after,
    ]);
    for (path, _) in files(&home.path("spool/forward/agents")) {
        home.gate(&["admit", "verify", path.to_str().unwrap()]);
    }
}

fn an_approver_signature_of_then_verifies(then: Then) {
    let home = then.home("full");
    let approved = files(&home.path("proposals/approved"));
    let file = approved
        .keys()
        .find(|path| path.extension().is_some_and(|is| is == "yaml"))
        .unwrap();
    let said = home.gate(&[
        "proposals",
        "verify",
        file.to_str().unwrap(),
        "--approvers",
        "rules/approvers",
    ]);
    assert!(said.contains("approver@example.com"), "{said}");
}

fn lines_are_found_with_and_without_the_index(then: Then) {
    let homes = [then.home("demo"), then.home("full")];
    for kind in KINDS.split_whitespace() {
        let mut found = 0;
        for home in &homes {
            let query = [
                "--format", "json", "audit", "query", "--all", "--kind", kind,
            ];
            let lines = home.gate(&query);
            assert_eq!(
                lines,
                home.gate(&[&query[..], &["--no-index"]].concat()),
                "{kind}"
            );
            found += lines.lines().count();
        }
        assert!(found > 0, "{kind}");
    }
    let lines = homes[1].gate(&["--format", "json", "audit", "query", "--request", "entry-1"]);
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

fn reports_and_explanations_are_written(then: Then) {
    for (name, origin) in [
        ("demo", "spoolgate.invalid/demo"),
        ("full", "spoolgate.invalid/compat-v1"),
    ] {
        let home = then.home(name);
        home.gate(&["report", "--html", "report.html"]);
        assert!(
            fs::read_to_string(home.path("report.html"))
                .unwrap()
                .contains(origin),
            "{name}"
        );
    }
    let home = then.home("full");
    for id in then
        .answered_ids()
        .iter()
        .filter(|id| !["forged", "half"].contains(&id.as_str()))
    {
        home.gate(&["explain", id]);
    }
}
