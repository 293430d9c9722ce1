//! Sealed artifacts of a case: logged as salted digests, restored byte for byte wherever they are
//! needed, gone for good once they are redacted, whenever the gate is killed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::{Value, json};
use spoolgate_gate::again::NotAgain;
use spoolgate_gate::record::{Decision, Record};
use spoolgate_home::redact::{Asked, Plan, RedactError};
use spoolgate_home::{Home, HomeError, sealed};
use spoolgate_ledger::redacted::Sealed;
use spoolgate_ledger::verify::{self, Options, Report};
use spoolgate_replay::history::each_decision;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::{SignKey, sha256_hex};

use crate::kit::court::{Court, opinion, speaker, verdict};

/// Is in every artifact and nowhere else; JSON escapes none of its characters.
const SECRET: &str = "the-password-is-hunter2";
const ROLES: [&str; 2] = ["Code Auditor", "Integration Engineer"];

fn request(id: &str) -> String {
    json!({
        "request_id": id, "timestamp": "2026-03-02T11:59:00Z", "proposer": "QuantResearchAgent_v1",
        "change_type": "CODE_REFACTOR",
        "context": {"summary": "A cleaner loader.", "files_changed": ["loader.rs"],
            "key_metrics": {}},
        "artifacts": {
            "spec_content": format!("# Spec\n{SECRET} \"quoted\" é"),
                "diff_content": format!("+ {SECRET}\n"),
        },
    })
    .to_string()
}

fn asked(lines: Vec<u64>, fields: &[&str]) -> Asked {
    Asked {
        lines,
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        reason: "a customer asked for it".to_owned(),
        by: "owner (uid 0)".to_owned(),
    }
}

/// Opens a case and has it decided, with the request named as in the answer. Returns its line.
fn decided(court: &Court, home: &mut Home, id: &str) -> u64 {
    let opened = court.ask(
        home,
        "research-bot",
        &format!("open-{id}"),
        "council.request",
        &request(id),
    );
    assert!(opened.answer.error.is_none(), "{:?}", opened.answer.error);
    let told: Value = serde_json::from_str(opened.answer.data.as_ref().unwrap().get()).unwrap();
    for role in ROLES {
        let mut says: Value =
            serde_json::from_str(&verdict(id, &request(id), &opinion(role, "APPROVE"))).unwrap();
        says["request_sha256"] = told["request_sha256"].clone();
        let vote = format!("{id}-{}", speaker(role));
        let done = court.ask(
            home,
            speaker(role),
            &vote,
            "council.verdict",
            &says.to_string(),
        );
        assert!(done.answer.error.is_none(), "{:?}", done.answer.error);
    }
    opened.seq
}

fn decision(home: &Home, seq: u64) -> Decision {
    home.decision(seq).unwrap().1
}

fn is_within(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Returns the files of the whole home, including those of SQLite, that contain one of these texts.
fn holding(court: &Court, texts: &[String]) -> Vec<String> {
    let mut files = court.place.disk.files_below("");
    let mut folders = vec![court.place.root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path)
            } else {
                files.push((path.clone(), fs::read(path).unwrap()))
            }
        }
    }
    assert!(files.len() > 20, "nothing was searched");
    let holds = |bytes: &[u8]| texts.iter().any(|text| is_within(bytes, text.as_bytes()));
    files
        .into_iter()
        .filter(|(_, bytes)| holds(bytes))
        .map(|(path, _)| path.display().to_string())
        .collect()
}

/// Returns every text that would reveal the secret, or would confirm a guess.
fn tell_tales(court: &Court, home: &Home, line: u64, id: &str) -> Vec<String> {
    let decision = decision(home, line);
    let payload = request(id);
    let mut texts = vec![SECRET.to_owned(), sha256_hex(payload.as_bytes())];
    for text in [
        format!("# Spec\n{SECRET} \"quoted\" é"),
        format!("+ {SECRET}\n"),
    ] {
        texts.push(sha256_hex(text.as_bytes()));
        texts.push(sha256_hex(Value::from(text).to_string().as_bytes()));
    }
    for field in &decision.sealed {
        let file = court.file(sealed::path_of(&field.sd)).unwrap();
        texts.push(String::from_utf8(file).unwrap());
        let sealed::Standing::Disclosed(opened) =
            sealed::disclosure(court.place.disk.as_ref(), field).unwrap()
        else {
            panic!("{field:?}")
        };
        if field.field == "digests" {
            let digests: Value = serde_json::from_str(&opened.value).unwrap();
            for name in ["payload_hash", "request_hash", "signature", "file_sha256"] {
                texts.push(digests[name].as_str().unwrap().to_owned());
            }
            assert_eq!(digests["payload_hash"], sha256_hex(payload.as_bytes()));
        }
    }
    texts
}

fn report(court: &Court) -> Report {
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        threads: 2,
        ..Options::default()
    };
    verify::verify(
        court.place.disk.as_ref(),
        Path::new("audit"),
        &options,
        &|_| (),
    )
    .unwrap()
}

fn counts(court: &Court) -> (u64, u64, u64) {
    let report = report(court);
    assert!(report.ok, "{:?}", report.problems);
    let Sealed {
        fields,
        disclosed,
        redacted,
        not_seen,
        ..
    } = report.sealed;
    assert!(!not_seen);
    let told = format!("the former content of {redacted} sealed fields");
    let is_told = report.not_shown.iter().any(|what| what.starts_with(&told));
    assert_eq!(is_told, redacted > 0, "{:?}", report.not_shown);
    (fields, disclosed, redacted)
}

/// Decides each request with artifacts again, as replay does: whether the line is the same, or why
/// it cannot be decided.
fn again(court: &Court) -> Vec<Result<bool, NotAgain>> {
    let mut found = Vec::new();
    let mut visit = |past: &mut spoolgate_replay::replay_state::Past,
                     line: &spoolgate_replay::history::Line| {
        if line.decision.action.as_deref() == Some("council.request") {
            found.push(match &line.request {
                Ok(request) => {
                    let rules = past.rulebook(&line.decision.rulebook)?.unwrap();
                    let made = past.decide_again(&rules, line, request)?;
                    let (made, told) =
                        (made.decision.body().unwrap(), line.decision.body().unwrap());
                    if made != told {
                        println!("made {made}\ntold {told}");
                    }
                    Ok(made == told)
                }
                Err(why) => Err(*why),
            });
        }
        Ok(())
    };
    each_decision(
        court.place.root.path(),
        &court.place.seams(),
        &mut |_| (),
        &mut visit,
    )
    .unwrap();
    found
}

#[test]
fn sealed_text_is_only_in_disclosures_and_the_folder_of_the_case() {
    let court = Court::new();
    let mut home = court.open();
    let line = decided(&court, &mut home, "req_1");
    decided(&court, &mut home, "req_2");
    home.mark_published().unwrap();
    let before = decision(&home, line);
    let names: Vec<&str> = before
        .sealed
        .iter()
        .map(|field| field.field.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "/artifacts/diff_content",
            "/artifacts/spec_content",
            "digests"
        ]
    );
    assert_eq!((&before.signature, &before.file_sha256), (&None, &None));
    let hash = before
        .payload
        .as_ref()
        .map(|text| sha256_hex(text.as_bytes()));
    assert_eq!(before.payload_hash, hash);
    let whole = sealed::payload(court.place.disk.as_ref(), &before).unwrap();
    assert_eq!(whole, Some(request("req_1")));
    let all = holding(&court, &tell_tales(&court, &home, line, "req_1"));
    let may =
        |path: &String| path.starts_with("audit/blobs/sd-") || path.starts_with("council/cases/");
    assert!(!all.is_empty() && all.iter().all(may), "{all:?}");
    assert_eq!(counts(&court), (6, 6, 0));
    assert_eq!(again(&court), [Ok(true), Ok(true)]);
}

#[test]
fn a_redacted_text_is_nowhere_in_the_home() {
    let court = Court::new();
    let mut home = court.open();
    let line = decided(&court, &mut home, "req_1");
    let kept = decided(&court, &mut home, "req_2");
    home.mark_published().unwrap();
    let before = decision(&home, line);
    let texts = tell_tales(&court, &home, line, "req_1");
    let answer = home.answer(line).unwrap().to_bytes();
    let log = court.file("audit/log-00000001.jsonl").unwrap();
    let head = String::from_utf8(court.file("audit/checkpoint").unwrap()).unwrap();
    // Facts cannot be redacted, and neither can fields that do not exist.
    for (pointer, expect) in [
        ("/context/summary", "was logged in clear as a fact"),
        ("/artifacts/monte_carlo_stats", "the request has no"),
        ("digests", "the request has no"),
    ] {
        match home.redact(&asked(vec![line], &[pointer])) {
            Err(RedactError::Refused(why)) => assert!(why.contains(expect), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    // One field, together with the hashes of the whole request.
    let Plan::Delete(fields) = home
        .redact(&asked(vec![line], &["/artifacts/diff_content"]))
        .unwrap()
    else {
        panic!()
    };
    assert_eq!(fields[&line].len(), 2);
    let (left, is_whole) = sealed::payload_left(court.place.disk.as_ref(), &before)
        .unwrap()
        .unwrap();
    assert!(
        !is_whole && left.contains("# Spec") && left.contains("\"_sd\""),
        "{left}"
    );
    assert_eq!(
        court
            .file(court.told().folder("req_1").join("request.json"))
            .unwrap(),
        format!("{left}\n").into_bytes()
    );
    let mut redact = |line, fields: &[&str]| home.redact(&asked(vec![line], fields));
    let again_one = redact(line, &["/artifacts/diff_content"]);
    assert!(matches!(again_one, Ok(Plan::Done(_))));
    assert!(matches!(redact(line, &[]), Ok(Plan::Delete(_))));
    assert!(matches!(redact(line, &[]), Ok(Plan::Done(_))));
    // The other case is not affected: only its own copy of the text is left.
    let others: Vec<String> = holding(&court, &texts);
    let other = court.told().folder("req_2");
    let may =
        |path: &String| Path::new(path).starts_with(&other) || path.starts_with("audit/blobs/sd-");
    assert!(others.iter().all(may), "{others:?}");
    assert!(matches!(redact(kept, &[]), Ok(Plan::Delete(_))));
    assert_eq!(holding(&court, &texts), Vec::<String>::new());
    // Neither a start nor a rebuilt index brings anything back.
    home.finish("redacted").unwrap();
    drop(home);
    drop(court.open());
    court.place.forget_state();
    let mut home = court.open();
    assert_eq!(holding(&court, &texts), Vec::<String>::new());
    assert_eq!(counts(&court), (6, 0, 6));
    let redacted = Err(NotAgain::Redacted);
    assert_eq!(again(&court), [redacted, redacted]);
    // Every proof holds: no byte of the log changed, and the old head is on it.
    let now = court.file("audit/log-00000001.jsonl").unwrap();
    assert!(now.starts_with(&log));
    let options = Options {
        strict: Some(spoolgate_gate::record::canonical),
        heads: vec![("before".to_owned(), head)],
        ..Options::default()
    };
    let noted = verify::verify(
        court.place.disk.as_ref(),
        Path::new("audit"),
        &options,
        &|_| (),
    )
    .unwrap();
    assert!(noted.ok && noted.heads.len() == 1, "{:?}", noted.problems);
    assert_eq!(home.answer(line).unwrap().to_bytes(), answer);
    assert!(matches!(
        home.redact(&asked(vec![line], &[])),
        Ok(Plan::Done(_))
    ));
    // The same request is not decided again: nobody can tell any more that it is the same.
    let sent = court.ask(
        &mut home,
        "research-bot",
        "open-req_1",
        "council.request",
        &request("req_1"),
    );
    assert_eq!(sent.answer.error.unwrap().code, Code::RequestIdConflict);
    assert_eq!(court.file("spool/out/open-req_1.json").unwrap(), answer);
    let refused = decision(&home, sent.seq);
    assert_eq!(
        (
            refused.payload_hash,
            refused.request_hash,
            refused.signature
        ),
        (None, None, None)
    );
    assert_eq!(holding(&court, &texts), Vec::<String>::new());
}

/// A request with artifacts that is sent again gets its stored answer, whichever index is used;
/// another request under its id does not.
#[test]
fn a_request_sent_again_is_recognised() {
    let court = Court::new();
    let mut home = court.open();
    let send = |court: &Court, home: &mut Home, summary: &str| {
        let payload = request("req_1").replace("A cleaner loader.", summary);
        court.ask(
            home,
            "research-bot",
            "open-req_1",
            "council.request",
            &payload,
        )
    };
    let first = send(&court, &mut home, "A cleaner loader.");
    // Also two with one id in one batch.
    court.send(
        "research-bot",
        "open-req_3",
        "council.request",
        &request("req_3"),
    );
    let bytes = court.file("spool/in/open-req_3.json").unwrap();
    court.place.disk.put("spool/in/twice.json", &bytes);
    let both = court.drain(&mut home);
    assert_eq!(
        both[1].decision.metadata.replay_of,
        Some(both[0].seq),
        "{both:?}"
    );
    for round in 0..3 {
        let same = send(&court, &mut home, "A cleaner loader.");
        assert_eq!(same.decision.metadata.replay_of, Some(first.seq), "{round}");
        assert_eq!(same.answer.to_bytes(), first.answer.to_bytes());
        assert!(same.decision.sealed.is_empty() && same.decision.payload.is_none());
        assert_eq!(same.decision.request_hash, first.decision.request_hash);
        let other = send(&court, &mut home, "Another change.");
        assert_eq!(other.answer.error.unwrap().code, Code::RequestIdConflict);
        drop(home);
        if round == 1 {
            court.place.forget_state();
        }
        home = court.open();
    }
}

#[test]
fn redaction_leaves_open_held_and_unsealed_cases() {
    let hold = "id: look-first\nstatus: active\napplies_to: {action: council.request}\nwhen: \
        [{field: council.diff, op: matches, value: hunter2}]\nthen: hold\nmessage: \"it says \
        {council.diff}\"\n";
    let court = Court::under(|root| {
        fs::create_dir_all(root.join("rules/core")).unwrap();
        fs::write(root.join("rules/core/look-first.yaml"), hold).unwrap();
    });
    let mut home = court.open();
    let held = court.ask(
        &mut home,
        "research-bot",
        "open-req_1",
        "council.request",
        &request("req_1"),
    );
    assert_eq!(held.answer.error.as_ref().unwrap().code, Code::Held);
    let line = decision(&home, held.seq);
    assert_eq!(
        line.facts.as_ref().unwrap().get(),
        r#"{"council.diff":{"sealed":"/artifacts/diff_content"}}"#
    );
    assert_eq!(line.checks[0].reason.as_deref(), Some("it says (sealed)"));
    assert!(line.sealed.iter().any(|field| field.field == "file"));
    let texts = tell_tales(&court, &home, held.seq, "req_1");
    let refuse = |home: &mut Home, expect: &str| match home.redact(&asked(vec![held.seq], &[])) {
        Err(RedactError::Home(HomeError::Unsettled(why))) => {
            assert!(why.contains(expect), "{why}");
        }
        other => panic!("{other:?}"),
    };
    refuse(&mut home, "is held as");
    let hold = home.state().approvals.iter().next().unwrap().clone();
    let grant = json!({"id": hold.id, "request_sha256": hold.request_sha256}).to_string();
    court.place.ask_as_owner("grant", "approval.grant", &grant);
    let done = court.drain(&mut home);
    let last = done.last().unwrap();
    assert_eq!(
        (last.decision.hold, last.decision.metadata.code),
        (Some(hold.id), None),
        "{done:?}"
    );
    // It is the same request with the same salts.
    assert_eq!(last.decision.request_hash, line.request_hash);
    assert_eq!(last.decision.sealed, line.sealed[..3]);
    assert_eq!(again(&court), [Ok(true), Ok(true)]);
    refuse(&mut home, "its roles still need the request");
    for role in ROLES {
        let payload = verdict("req_1", &request("req_1"), &opinion(role, "APPROVE"));
        // By the hash of the signed bytes, which a signer without a brief knows.
        let vote = court.ask(
            &mut home,
            speaker(role),
            speaker(role),
            "council.verdict",
            &payload,
        );
        assert!(vote.answer.error.is_none(), "{:?}", vote.answer.error);
    }
    let again_sent = court.ask(
        &mut home,
        "research-bot",
        "open-req_1",
        "council.request",
        &request("req_1"),
    );
    assert_eq!(again_sent.decision.metadata.replay_of, Some(last.seq));
    let lines = home.lines_of_request(held.seq).unwrap();
    assert_eq!(lines, [held.seq, last.seq]);
    assert_eq!(home.lines_of_request(last.seq).unwrap(), lines);
    let Ok(Plan::Delete(fields)) = home.redact(&asked(lines.clone(), &[])) else {
        panic!()
    };
    assert_eq!(fields.len(), 2);
    assert_eq!(home.verdicts_naming_the_hash(&lines).unwrap().len(), 2);
    // Those verdicts name the one unsalted hash; nothing else reveals anything.
    let payload_hash = sha256_hex(request("req_1").as_bytes());
    let texts: Vec<String> = texts
        .into_iter()
        .filter(|text| *text != payload_hash)
        .collect();
    assert_eq!(holding(&court, &texts), Vec::<String>::new());
    let redacted = Err(NotAgain::Redacted);
    assert_eq!(again(&court), [redacted, redacted, Err(NotAgain::Repeated)]);
    // A request without such members has nothing sealed.
    let other = court.ask(&mut home, "trend-bot", "beat", "heartbeat", "{}");
    match home.redact(&asked(vec![other.seq], &[])) {
        Err(RedactError::Refused(why)) => {
            assert!(why.contains("this request has no sealed fields"), "{why}")
        }
        done => panic!("{done:?}"),
    }
}

/// A refusal quotes nothing of what was sealed, whatever was wrong.
#[test]
fn refusals_quote_no_sealed_value() {
    let court = Court::new();
    let mut home = court.open();
    let wrong = [
        request("req_1").replace(&format!("\"+ {SECRET}\\n\""), &format!("[\"{SECRET}\"]")),
        json!({"artifacts": SECRET}).to_string(),
        json!({"artifacts": {"other": SECRET}}).to_string(),
        json!({"request_id": "req_1", "artifacts": [{"a": SECRET}], "more": SECRET}).to_string(),
        json!({"artifacts": {"spec_content": format!("{SECRET}{}", "x".repeat(9000))},
            "context": 1})
        .to_string(),
    ];
    for (n, payload) in wrong.iter().enumerate() {
        let done = court.ask(
            &mut home,
            "research-bot",
            &format!("wrong-{n}"),
            "council.request",
            payload,
        );
        assert_eq!(
            done.answer.error.as_ref().unwrap().code,
            Code::MalformedPayload,
            "{n}"
        );
        let again = court.ask(
            &mut home,
            "research-bot",
            &format!("wrong-{n}"),
            "council.request",
            payload,
        );
        assert_eq!(again.decision.metadata.replay_of, Some(done.seq), "{n}");
        let left = sealed::payload(court.place.disk.as_ref(), &done.decision).unwrap();
        assert_eq!(
            left.as_ref(),
            Some(payload).filter(|payload| payload.len() < 8192),
            "{n}"
        );
    }
    court.place.ask(
        &SignKey::Hmac([99; 32]),
        "research-bot",
        "forged",
        "council.request",
        &request("req_1"),
    );
    let forged = court.drain(&mut home).remove(0).decision;
    assert_eq!(
        (forged.payload_hash, forged.request_hash, forged.file_sha256),
        (None, None, None)
    );
    let log = court.file("audit/log-00000001.jsonl").unwrap();
    let mut texts: Vec<String> = wrong
        .iter()
        .map(|payload| sha256_hex(payload.as_bytes()))
        .collect();
    texts.extend([SECRET.to_owned(), sha256_hex(request("req_1").as_bytes())]);
    for text in &texts {
        assert!(!is_within(&log, text.as_bytes()), "{text}");
    }
    home.mark_published().unwrap();
    // Except for files that were not requests, it is kept only in the disclosures.
    let found = holding(&court, &texts);
    assert!(
        found
            .iter()
            .all(|path| path.starts_with("audit/blobs/sd-") || path.starts_with("spool/rejected/")),
        "{found:?}"
    );
}

/// Missing, wrong and undeleted disclosures are reported by name.
#[test]
fn verify_reports_disclosures_that_no_line_redacted() {
    let court = Court::new();
    let mut home = court.open();
    let line = decided(&court, &mut home, "req_1");
    let fields = decision(&home, line).sealed;
    let path = sealed::path_of(&fields[0].sd);
    let good = court.file(&path).unwrap();
    for (bytes, expect) in [
        (None, "has no disclosure, and no line records its redaction"),
        (
            Some(b"WyJ4Il0".to_vec()),
            "its bytes are not the bytes that the line commits to",
        ),
        (
            Some(Vec::new()),
            "its bytes are not the bytes that the line commits to",
        ),
    ] {
        match bytes {
            None => court.place.disk.drop_file(&path),
            Some(bytes) => court.place.disk.put(&path, &bytes),
        }
        let report = report(&court);
        let told: Vec<String> = report
            .problems
            .iter()
            .map(|problem| problem.what.clone())
            .collect();
        assert!(
            !report.ok && told.len() == 1 && told[0].contains(expect),
            "{told:?}"
        );
        assert!(
            told[0].starts_with(&format!("`/artifacts/diff_content` of line {line}")),
            "{told:?}"
        );
    }
    court.place.disk.put(&path, &good);
    assert_eq!(counts(&court), (3, 3, 0));
    home.redact(&asked(vec![line], &[])).unwrap();
    court.place.disk.put(&path, &good);
    let found = report(&court);
    let [left] = &found.sealed.unfinished[..] else {
        panic!("{:?}", found.sealed)
    };
    assert!(found.ok && left.what.contains("still exists"), "{left:?}");
    assert_eq!(counts(&court), (3, 0, 2));
    court.place.disk.put(&path, b"WyJ4Il0");
    assert!(!report(&court).ok, "other bytes than the line commits to");
    drop(home);
    drop(court.open());
    assert_eq!(counts(&court), (3, 0, 3));
}

/// After a kill at any call of the disk, a redaction either has its line and is completed by the
/// next start, or has no line and deleted nothing.
#[test]
fn a_redaction_is_finished_or_was_never_begun() {
    let base = Court::new();
    let mut home = base.open();
    let line = decided(&base, &mut home, "req_1");
    home.mark_published().unwrap();
    let texts = tell_tales(&base, &home, line, "req_1");
    // What a killed process leaves behind: a disclosure that no line names, and one that was being
    // written.
    let litter = spoolgate_wire::sealed::Disclosure::new(
        [9; 16],
        "diff_content",
        &Value::from(SECRET).to_string(),
    );
    base.place
        .disk
        .put(sealed::path_of(&litter.digest), litter.text.as_bytes());
    base.place.disk.put(
        format!("audit/blobs/.sd-{}.tmp", litter.digest),
        &litter.text.as_bytes()[..40],
    );
    home.finish("decided").unwrap();
    drop(home);
    let redact = |court: &Court, calls: i64, after: bool| {
        let (seams, fuse) = court.place.mortal(i64::MAX, after);
        let mut home = court.place.open_with(seams).unwrap();
        fuse.set(calls);
        home.redact(&asked(vec![line], &[])).unwrap();
        fuse.set(i64::MAX)
    };
    let calls = i64::MAX - redact(&base.fork(), i64::MAX, false);
    assert!(calls > 8, "{calls}");
    let (mut begun, mut never) = (0, 0);
    for at in 1..=calls {
        for after in [false, true] {
            let what = format!("call {at} of {calls}, after: {after}");
            let court = base.fork();
            let died = catch_unwind(AssertUnwindSafe(|| redact(&court, at, after)));
            assert!(died.is_err(), "{what}: it lived");
            drop(court.open());
            let log = court.file("audit/log-00000001.jsonl").unwrap();
            let is_told = is_within(&log, br#""kind":"redact""#) && counts(&court).2 > 0;
            if is_told {
                begun += 1;
                assert_eq!(counts(&court), (3, 0, 3), "{what}");
                assert_eq!(holding(&court, &texts), Vec::<String>::new(), "{what}");
                assert_eq!(court.file(sealed::path_of(&litter.digest)), None, "{what}");
            } else {
                never += 1;
                assert_eq!(counts(&court), (3, 3, 0), "{what}");
                let mut home = court.open();
                assert!(
                    matches!(home.redact(&asked(vec![line], &[])), Ok(Plan::Delete(_))),
                    "{what}"
                );
                assert_eq!(holding(&court, &texts), Vec::<String>::new(), "{what}");
            }
        }
    }
    assert!(begun > 4 && never > 0, "{begun} {never}");
}

/// The line of a redaction says who, why and what, and changes nothing else.
#[test]
fn a_redaction_is_a_line_of_its_own() {
    let court = Court::new();
    let mut home = court.open();
    let line = decided(&court, &mut home, "req_1");
    let state = home.state().clone();
    let next = home.position().seq;
    home.redact(&asked(vec![line], &["/artifacts/spec_content"]))
        .unwrap();
    let (_, Record::Redact(told)) = home.record(next).unwrap() else {
        panic!()
    };
    let names: Vec<&str> = told
        .fields
        .iter()
        .map(|field| field.field.as_str())
        .collect();
    assert_eq!(
        (told.line, told.by.as_str(), names),
        (
            line,
            "owner (uid 0)",
            vec!["/artifacts/spec_content", "digests"]
        )
    );
    let after = home.state().clone();
    assert_eq!(
        spoolgate_gate::State {
            clock: after.clock.clone(),
            ..state
        },
        after
    );
    let nothing = home.redact(&Asked {
        reason: " ".to_owned(),
        ..asked(vec![line], &[])
    });
    assert!(matches!(nothing, Err(RedactError::Refused(_))));
}
