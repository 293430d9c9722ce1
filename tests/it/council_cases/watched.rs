//! The real program: an idle watcher that decides a case at its deadline, and changes to the
//! folders of cases while it runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use spoolgate_host::clock::{Clock, SystemClock};

use crate::kit::chamber::Chamber;
use crate::kit::court::{edit_roles, opinion, request, speaker, verdict};
use crate::kit::process::{Running, until, until_durable};
use crate::kit::{show, spoolgate, succeed};

const ROLES: [&str; 2] = ["Code Auditor", "Integration Engineer"];

#[test]
fn an_idle_watcher_closes_a_case_at_its_deadline() {
    let chamber = Chamber::new();
    let home = chamber.home();
    edit_roles(&home, |text| {
        text.replace("deadline_s: 86400", "deadline_s: 2")
    });
    let watcher = Running::watch(&home);
    chamber.send(
        "research-bot",
        "open",
        "council.request",
        &request("req_1", "CODE_REFACTOR"),
    );
    let path = home.join("spool/out/open.json");
    until("the case", || path.exists());
    assert!(!chamber.decision_path("req_1").exists());
    assert_eq!(
        chamber.wait_for_decision("req_1")["final_outcome"],
        "NEEDS_MORE_INFO"
    );
    watcher.stop();
    let told = chamber.told();
    let (_, ruling) = told.ruling("req_1");
    let opened = told
        .decisions
        .values()
        .find(|decision| decision.opens_a_case())
        .unwrap();
    let late_ms = ruling.timestamp.since_ms(opened.timestamp) - 2000;
    assert!(
        (0..20_000).contains(&late_ms),
        "{late_ms} ms after its deadline"
    );
    // No gate ran when this one was due: the next run decides it first.
    chamber.send(
        "research-bot",
        "again",
        "council.request",
        &request("req_2", "CODE_REFACTOR"),
    );
    succeed(&home, &["run", "--until-idle"]);
    let opened = chamber
        .told()
        .decisions
        .values()
        .map(|decision| decision.timestamp)
        .max()
        .unwrap();
    until("its deadline is over", || {
        SystemClock::default().now() > opened.plus_ms(2000)
    });
    succeed(&home, &["run", "--until-idle"]);
    assert!(chamber.decision_path("req_2").exists());
    chamber.agrees("req_1");
}

/// A change that somebody makes: its description, and a function over the folder of a case and a
/// folder beside the home.
type Damage = (&'static str, fn(&Path, &Path));

/// Changes to the files of a case, in its folder.
const DAMAGES: [Damage; 9] = [
    ("the case is gone", |case, _| {
        fs::remove_dir_all(case).unwrap()
    }),
    ("all cases are gone", |case, _| {
        fs::remove_dir_all(case.parent().unwrap()).unwrap()
    }),
    ("the council is gone", |case, _| {
        fs::remove_dir_all(case.parent().unwrap().parent().unwrap()).unwrap()
    }),
    ("the case is a file", |case, _| {
        fs::remove_dir_all(case).unwrap();
        fs::write(case, "x").unwrap();
    }),
    ("the case is a link", |case, beside| {
        fs::remove_dir_all(case).unwrap();
        symlink(beside, case).unwrap();
    }),
    ("the verdicts are a link", |case, beside| {
        symlink(beside, case.join("verdicts")).unwrap()
    }),
    ("the verdicts are a file", |case, _| {
        fs::write(case.join("verdicts"), "").unwrap()
    }),
    ("the decision is a link", |case, beside| {
        symlink(beside.join("target"), case.join("decision.json")).unwrap()
    }),
    ("the decision is a folder", |case, _| {
        fs::create_dir_all(case.join("decision.json/full")).unwrap()
    }),
];

#[test]
fn objects_planted_among_cases_never_stop_the_gate() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let beside = chamber.scratch.beside("elsewhere");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("target"), "mine").unwrap();
    let mut watcher = Running::watch(&home);
    for (n, (what, damage)) in DAMAGES.iter().enumerate() {
        let case = format!("req_{n}");
        let asked = request(&case, "CODE_REFACTOR");
        chamber.send(
            "research-bot",
            &format!("open-{n}"),
            "council.request",
            &asked,
        );
        let folder = chamber.folder(&case);
        until(what, || {
            folder.join("briefs/integration-engineer.md").exists()
        });
        damage(&folder, &beside);
        for role in ROLES {
            let payload = verdict(&case, &asked, &opinion(role, "APPROVE"));
            chamber.send(
                speaker(role),
                &format!("{}-{n}", speaker(role)),
                "council.verdict",
                &payload,
            );
        }
        assert_eq!(
            chamber.wait_for_decision(&case)["final_outcome"],
            "APPROVE",
            "{what}"
        );
        until_durable(&home);
        assert!(watcher.is_running(), "{what}: the watcher ended");
        let there: Vec<_> = fs::read_dir(&beside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(there, ["target"], "{what}: it followed a link");
        assert_eq!(
            fs::read_to_string(beside.join("target")).unwrap(),
            "mine",
            "{what}"
        );
        assert_eq!(chamber.shown(&case)["recomputes"], true, "{what}");
    }
    watcher.stop();
    let done = spoolgate(&home, &["run", "--until-idle"]);
    assert!(done.status.success(), "{}", show(&done));
    succeed(&home, &["audit", "verify"]);
}

/// The same while the gate is down after a kill, so that the next start finds it when it rebuilds
/// the files.
#[test]
fn objects_planted_among_cases_never_stop_a_start() {
    for (what, damage) in DAMAGES {
        let chamber = Chamber::new();
        let home = chamber.home();
        let beside = chamber.scratch.beside("elsewhere");
        fs::create_dir(&beside).unwrap();
        fs::write(beside.join("target"), "mine").unwrap();
        let asked = request("req_1", "CODE_REFACTOR");
        let mut open =
            spoolgate_home::Home::open(&home, spoolgate_home::read::real_seams(&home).unwrap())
                .unwrap();
        for (source, id, action, payload) in [
            ("research-bot", "o", "council.request", asked.clone()),
            (
                "code-auditor",
                "v",
                "council.verdict",
                verdict("req_1", &asked, &opinion("Code Auditor", "APPROVE")),
            ),
        ] {
            chamber.send(source, id, action, &payload);
            crate::kit::place::drain(&mut open).unwrap();
        }
        drop(open);
        let case = chamber.folder("req_1");
        damage(&case, &beside);
        chamber.send(
            "integration-engineer",
            "w",
            "council.verdict",
            &verdict("req_1", &asked, &opinion("Integration Engineer", "APPROVE")),
        );
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert!(done.status.success(), "{what}: {}", show(&done));
        assert_eq!(
            chamber.wait_for_decision("req_1")["final_outcome"],
            "APPROVE",
            "{what}"
        );
        assert_eq!(fs::read_dir(&beside).unwrap().count(), 1, "{what}");
        if what.ends_with("gone") {
            let brief = case.join("briefs/code-auditor.md");
            assert!(brief.exists(), "{what}: the start makes them again");
            chamber.agrees("req_1");
        }
    }
}
