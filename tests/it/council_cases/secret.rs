//! Until a case is decided, nobody but the gate sees a vote, who voted, or whose case it is.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::RequestId;

use crate::kit::chamber::Chamber;
use crate::kit::court::{Court, opinion, request, speaker, verdict};
use crate::kit::{show, spoolgate};

const ROLES: [&str; 2] = ["Code Auditor", "Integration Engineer"];

fn data(outcome: &Outcome) -> Value {
    let data = outcome.answer.data.as_ref().map(|raw| raw.get());
    data.map_or(Value::Null, |text| serde_json::from_str(text).unwrap())
}

fn message(outcome: &Outcome) -> (Option<Code>, String) {
    let error = outcome.answer.error.as_ref();
    let text = error.map(|error| error.message.clone());
    (error.map(|error| error.code), text.unwrap_or_default())
}

/// Everything below a folder, as one text.
fn shown(court: &Court, folder: &str) -> String {
    let files = court.place.disk.files_below(folder);
    let texts = files
        .iter()
        .map(|(path, bytes)| format!("{}\n{}\n", path.display(), String::from_utf8_lossy(bytes)));
    texts.collect()
}

#[test]
fn an_open_case_shows_its_briefs_and_nothing_else() {
    let court = Court::new();
    let mut home = court.open();
    court.propose(&mut home, "req_1", "CODE_REFACTOR");
    let before = shown(&court, "council/cases");
    let asked = request("req_1", "CODE_REFACTOR");
    let says = opinion("Code Auditor", "REJECT");
    let done = court.ask(
        &mut home,
        "code-auditor",
        "f3b0",
        "council.verdict",
        &verdict("req_1", &asked, &says),
    );
    assert_eq!(
        data(&done),
        json!({"case": "req_1", "role": "Code Auditor"})
    );
    assert_eq!(shown(&court, "council/cases"), before);
    for secret in [
        "req_1",
        "research-bot",
        "QuantResearchAgent_v1",
        "a worry of",
    ] {
        assert!(!before.contains(secret), "{secret}:\n{before}");
    }
    let answers = shown(&court, "spool/out/f3b0.json");
    for secret in [
        "REJECT",
        "code-auditor",
        "a worry of",
        "counts_as",
        "waiting",
    ] {
        assert!(!answers.contains(secret), "{secret}:\n{answers}");
    }
    // The decision shows everything at once.
    court.vote(&mut home, "v", "req_1", &asked, ROLES[1], "APPROVE");
    court.files_stand(&ROLES).unwrap();
    let after = shown(&court, "council/cases");
    assert!(after.contains("a worry of Code Auditor") && after.contains("req_1"));
}

#[test]
fn a_verdict_may_name_the_alias_and_learns_no_more() {
    let court = Court::new();
    let mut home = court.open();
    let asked = request("req_1", "CODE_REFACTOR");
    let opened = court.ask(&mut home, "research-bot", "o", "council.request", &asked);
    let alias = data(&opened)["alias"].as_str().unwrap().to_owned();
    let sha256 = data(&opened)["request_sha256"].clone();
    assert_eq!(
        alias,
        RequestId::alias_of(sha256.as_str().unwrap()).as_str()
    );
    let vote = |home: &mut _, id: &str, role: &str, stance: &str, sha256: &Value| {
        let payload = json!({
            "request_id": alias, "request_sha256": sha256, "verdict": opinion(role, stance),
        });
        let payload = payload.to_string();
        court.ask(home, speaker(role), id, "council.verdict", &payload)
    };
    // About other bytes, for a role of somebody else, and well.
    let other = json!("ab".repeat(32));
    let refused = vote(&mut home, "v0", ROLES[0], "APPROVE", &other);
    let (code, text) = message(&refused);
    assert_eq!(code, Some(Code::StateConflict));
    assert!(text.contains(&alias) && !text.contains("req_1"), "{text}");
    let done = vote(&mut home, "v1", ROLES[0], "APPROVE", &sha256);
    assert_eq!(data(&done), json!({"case": alias, "role": ROLES[0]}));
    let done = vote(&mut home, "v2", ROLES[1], "APPROVE", &sha256);
    assert_eq!(data(&done)["case"], json!(alias));
    let told = court.told();
    let (_, ruling) = told.ruling("req_1");
    assert_eq!(ruling.verdict_lines.len(), 2);
    let late = vote(&mut home, "v3", ROLES[1], "APPROVE", &sha256);
    let (code, text) = message(&late);
    assert_eq!(code, Some(Code::StateConflict));
    assert!(text.contains(&alias) && !text.contains("req_1"), "{text}");
    let unknown = json!({
        "request_id": "c-0123456789abcdef", "request_sha256": sha256,
        "verdict": opinion(ROLES[0], "APPROVE"),
    });
    let done = court.ask(
        &mut home,
        "code-auditor",
        "v4",
        "council.verdict",
        &unknown.to_string(),
    );
    assert_eq!(message(&done).0, Some(Code::NotFound));
    // The names that a brief withholds are in the record.
    let record = court
        .file(told.folder("req_1").join("record.json"))
        .unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    let expected =
        json!({"signer": "research-bot", "claimed": "QuantResearchAgent_v1", "differs": true});
    assert_eq!(record["proposed_by"], expected);
}

/// Who could name a case like another one's alias could take the verdicts on that one.
#[test]
fn no_case_is_named_like_an_alias() {
    let court = Court::new();
    let mut home = court.open();
    for (n, (id, is_refused)) in [
        ("c-0123456789abcdef", true),
        ("c-0123456789abcde", false),
        ("c-0123456789abcdeff", false),
        ("c-0123456789abcdeF", false),
        ("C-0123456789abcdef", false),
    ]
    .into_iter()
    .enumerate()
    {
        let payload = request(id, "CODE_REFACTOR");
        let done = court.ask(
            &mut home,
            "research-bot",
            &format!("o{n}"),
            "council.request",
            &payload,
        );
        let expected = is_refused.then_some(Code::MalformedPayload);
        assert_eq!(message(&done).0, expected, "{id}");
    }
}

/// What a judge may read of a home: the briefs of the case and the rules of the council.
fn judge(chamber: &Chamber, alias: &str) -> PathBuf {
    let home = chamber.home();
    let judge = chamber.scratch.beside("judge");
    let briefs = Path::new("council/cases").join(alias).join("briefs");
    fs::create_dir_all(judge.join(&briefs)).unwrap();
    for entry in fs::read_dir(home.join(&briefs)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), judge.join(&briefs).join(entry.file_name())).unwrap();
    }
    fs::copy(
        home.join("council/roles.yaml"),
        judge.join("council/roles.yaml"),
    )
    .unwrap();
    judge
}

#[test]
fn what_a_verdict_would_count_as() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let asked = request("req_1", "CODE_REFACTOR");
    let opened = chamber.beside(
        "request.json",
        chamber.signed("research-bot", "o", "council.request", &asked),
    );
    let done = spoolgate(&home, &["handle", &opened]);
    assert!(done.status.success(), "{}", show(&done));
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    let alias = answer["data"]["alias"].as_str().unwrap();
    let whole = |verdict: &Value| {
        json!({
            "request_id": alias, "request_sha256": answer["data"]["request_sha256"],
            "verdict": verdict,
        })
    };
    let judge = judge(&chamber, alias);
    let check = |name: &str, verdict: &Value| {
        let file = chamber.beside(name, serde_json::to_string_pretty(verdict).unwrap());
        let args = ["--format", "json", "council", "check", alias, &file];
        let done = spoolgate(&judge, &args);
        let told: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|_| panic!("{name}: {}", show(&done)));
        (done.status.code().unwrap(), told)
    };
    let good = opinion("Code Auditor", "APPROVE");
    for verdict in [good.clone(), whole(&good)] {
        let (code, told) = check("good", &verdict);
        assert_eq!((code, &told["counts_as"]), (0, &json!("APPROVE")), "{told}");
        assert_eq!(
            (&told["says"], &told["notes"]),
            (&json!("APPROVE"), &json!([]))
        );
    }
    let mut unsure = good.clone();
    unsure["confidence_score"] = json!(0.59);
    let (code, told) = check("unsure", &whole(&unsure));
    assert_eq!(
        (code, &told["counts_as"]),
        (1, &json!("NEEDS_MORE_INFO")),
        "{told}"
    );
    assert!(
        told["notes"][0].as_str().unwrap().contains("confidence"),
        "{told}"
    );
    // By its id, which the ledger knows and a judge believes.
    let mut by_id = whole(&good);
    by_id["request_id"] = json!("req_1");
    assert_eq!(check("by-id", &by_id).0, 0);
    // A signed request, about other bytes, for a role that is not asked.
    let signed = chamber.signed(
        "code-auditor",
        "v",
        "council.verdict",
        &whole(&good).to_string(),
    );
    let (code, told) = check("signed", &serde_json::from_slice(&signed).unwrap());
    assert_eq!(code, 0, "{told}");
    let mut other = whole(&good);
    other["request_sha256"] = json!("ab".repeat(32));
    let (code, told) = check("other", &other);
    assert_eq!((code, &told["counts_as"]), (1, &Value::Null), "{told}");
    let (code, told) = check("foreign", &opinion("Risk Officer", "APPROVE"));
    assert_eq!(code, 0);
    assert!(
        told["notes"][0].as_str().unwrap().contains("not ask"),
        "{told}"
    );
    // Every fault at once, where an editor shows it.
    let mut broken = good.clone();
    broken["concerns"] = json!("none");
    broken.as_object_mut().unwrap().remove("verdict");
    for verdict in [broken.clone(), whole(&broken)] {
        let (code, told) = check("broken", &verdict);
        let faults = told["faults"].as_array().unwrap();
        assert_eq!((code, faults.len()), (1, 2), "{told}");
        let concerns = &faults[0];
        assert_eq!(concerns["pointer"], json!("/payload/verdict/concerns"));
        let text = serde_json::to_string_pretty(&verdict).unwrap();
        let place = text
            .lines()
            .position(|line| line.contains("\"concerns\""))
            .unwrap()
            + 1;
        assert_eq!(concerns["at"]["line"], json!(place), "{told}");
    }
    // It decides nothing.
    let listed = spoolgate(&home, &["--format", "json", "council", "show", "req_1"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["votes"], json!([]));
    // Its id is for those who may read the ledger.
    let file = chamber.beside("good", whole(&good).to_string());
    let by_id = spoolgate(&judge, &["council", "check", "req_1", "-"]);
    assert!(!by_id.status.success());
    let by_id = spoolgate(&home, &["council", "check", "req_1", &file]);
    assert!(by_id.status.success(), "{}", show(&by_id));
}
