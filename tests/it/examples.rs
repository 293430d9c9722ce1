//! Every script of `examples/` as its reader runs it: in a scratch folder, with the program on
//! `PATH`, judged by the ledger afterwards. Scripts that no test here runs are run by the test that
//! `examples/README.md` names.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::kit::venue::MockVenue;
use crate::kit::{PROGRAM, Scratch, decisions, lines, show, succeed};
use serde_json::Value;
use spoolgate_gate::record::{Decision, Ruling};
use spoolgate_wire::code::Code;
use tempfile::TempDir;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Whether the programs are installed; prints what is missing.
fn have(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = programs
        .iter()
        .find(|name| !std::env::split_paths(&path).any(|dir| dir.join(name).is_file()));
    if let Some(name) = missing {
        println!("skipped: no {name}");
    }
    missing.is_none()
}

/// Returns a command of the system with this program first on its `PATH`.
fn with_program(name: &str) -> Command {
    let ours = Path::new(PROGRAM).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: OsString =
        std::env::join_paths([ours].into_iter().chain(std::env::split_paths(&path))).unwrap();
    let mut command = Command::new(name);
    command
        .env("PATH", path)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null());
    command
}

fn shell(script: &str) -> Command {
    let mut command = with_program("sh");
    command.arg(examples().join(script));
    command
}

/// Runs a script that takes a folder; its exit code must be 0.
#[track_caller]
fn walk(script: &str, dir: &TempDir, args: &[&str]) -> Output {
    let done = shell(script)
        .arg(dir.path().join("work"))
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{script}: {}", show(&done));
    done
}

fn home_of(dir: &TempDir) -> PathBuf {
    dir.path().join("work/home")
}

fn of_action(home: &Path, action: &str) -> Vec<Decision> {
    let decided = decisions(home).unwrap().into_values();
    decided
        .filter(|decision| decision.action.as_deref() == Some(action))
        .collect()
}

#[test]
fn the_agent_corrects_itself_tightens_and_leaves() {
    if !have(&["python3"]) {
        return;
    }
    let dir = crate::kit::folder();
    let done = walk("agent/run.sh", &dir, &[]);
    let home = home_of(&dir);
    let orders = of_action(&home, "order.submit");
    assert!(
        orders
            .iter()
            .all(|order| order.source.as_deref() == Some("trend-bot"))
    );
    // After each entry that was too large comes one of exactly the size that would have passed,
    // rounded to the agent's lot.
    let mut corrected = 0;
    for (first, second) in orders.iter().zip(orders.iter().skip(1)) {
        let Some(room) = first
            .headroom
            .as_ref()
            .filter(|_| first.metadata.code.is_some())
        else {
            continue;
        };
        let (asked, most) = (second.size.unwrap(), room.max_size);
        assert!(
            asked <= most,
            "{asked} was asked for where {most} would pass"
        );
        assert_eq!(
            second.decision,
            Some(Ruling::Accepted),
            "what would pass did not: {}",
            show(&done)
        );
        corrected += 1;
    }
    assert!(
        corrected >= 3,
        "{corrected} corrected entries: {}",
        show(&done)
    );
    let tightened = of_action(&home, "order.tighten_stop");
    assert!(
        tightened.len() >= 3 && tightened.iter().all(|one| one.metadata.code.is_none()),
        "{}",
        show(&done)
    );
    let fills = succeed(&home, &["--format", "json", "fills"]);
    let roles: Vec<String> = fills
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["role"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    for role in ["entry", "exit", "protective"] {
        assert!(
            roles.iter().any(|known| known == role),
            "no fill of an {role}: {roles:?}"
        );
    }
    let portfolio: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "portfolio"])).unwrap();
    assert_eq!(portfolio["positions"], serde_json::json!([]));
    // The feed delivered the whole day: 1,436 quotes and the last span once more.
    let fed = of_action(&home, "market.update");
    assert!(
        fed.len() > 140
            && fed
                .iter()
                .all(|one| one.source.as_deref() == Some("prices")),
        "{}",
        fed.len()
    );
    succeed(&home, &["audit", "verify"]);
}

#[test]
fn the_pipeline_requests_the_size_that_would_pass() {
    if !have(&["jq"]) {
        return;
    }
    let dir = crate::kit::folder();
    walk("pipeline.sh", &dir, &[]);
    let orders = of_action(&home_of(&dir), "order.submit");
    let [refused, accepted] = orders.as_slice() else {
        panic!("{orders:?}")
    };
    assert_eq!(refused.metadata.code, Some(Code::ChecksFailed));
    assert_eq!(accepted.decision, Some(Ruling::Accepted));
    assert_eq!(
        accepted.size,
        refused.headroom.as_ref().map(|room| room.max_size)
    );
}

/// A home with the jobs of a batch beside it.
struct Jobs {
    scratch: Scratch,
}

impl Jobs {
    fn new() -> Jobs {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.beside("jobs/todo")).unwrap();
        Jobs { scratch }
    }

    fn add(&self, name: &str, payload: &str) {
        fs::write(
            self.scratch.beside(&format!("jobs/todo/{name}.json")),
            payload,
        )
        .unwrap();
    }

    fn run(&self) -> Output {
        let mut batch = shell("cron/batch.sh");
        batch
            .arg(self.scratch.home())
            .arg(self.scratch.beside("bot.key"))
            .arg(self.scratch.beside("jobs"));
        batch.output().unwrap()
    }

    #[track_caller]
    fn ends_with(&self, code: i32) {
        let done = self.run();
        assert_eq!(done.status.code(), Some(code), "{}", show(&done));
    }

    fn is(&self, path: &str) -> bool {
        self.scratch.beside("jobs").join(path).exists()
    }
}

#[test]
fn the_batch_sorts_what_came_of_its_jobs_and_does_nothing_twice() {
    if !have(&["flock"]) {
        return;
    }
    let jobs = Jobs::new();
    let home = jobs.scratch.home();
    jobs.ends_with(0);
    jobs.add("look.market.get", r#"{"symbol":"BTC-USD"}"#);
    jobs.ends_with(0);
    assert!(jobs.is("done/look.market.get.json") && jobs.is("done/look.answer.json"));
    // A refusal and a file that is not JSON do not stop the other jobs.
    jobs.add("again.portfolio.get", "{}");
    jobs.add("broken.portfolio.get", "{");
    jobs.add("deny.safety.modify", r#"{"max_daily_loss":100000}"#);
    jobs.add("look.portfolio.get", "{}");
    jobs.ends_with(1);
    for path in [
        "done/again.answer.json",
        "refused/broken.portfolio.get.json",
        "refused/deny.answer.json",
    ] {
        assert!(jobs.is(path), "{path}");
    }
    assert!(
        jobs.is("refused/look.portfolio.get.json"),
        "an id that was used names another job"
    );
    let ours = |id: &str| {
        let decided = decisions(&home).unwrap().into_values();
        decided
            .filter(|one| one.request_id.as_deref() == Some(id))
            .count()
    };
    assert_eq!(
        (ours("look"), ours("again"), ours("deny"), ours("broken")),
        (1, 1, 1, 0)
    );
    assert_eq!(of_action(&home, "market.get").len(), 1);
    // Killed between the decision and the sorting: the same bytes again give the same answer and
    // one decision.
    jobs.add("killed.portfolio.get", "{}");
    let signed = [
        "sign",
        "-",
        "--as",
        "trend-bot",
        "--action",
        "portfolio.get",
        "--id",
        "killed",
    ];
    let mut signing = crate::kit::command(&home, &signed);
    let mut signing = signing
        .arg("--key")
        .arg(jobs.scratch.beside("bot.key"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    signing.stdin.take().unwrap().write_all(b"{}").unwrap();
    fs::write(
        jobs.scratch.beside("jobs/signed/killed.json"),
        signing.wait_with_output().unwrap().stdout,
    )
    .unwrap();
    succeed(
        &home,
        &[
            "handle",
            jobs.scratch
                .beside("jobs/signed/killed.json")
                .to_str()
                .unwrap(),
        ],
    );
    jobs.ends_with(0);
    let answers: Vec<Decision> = decisions(&home)
        .unwrap()
        .into_values()
        .filter(|one| one.request_id.as_deref() == Some("killed"))
        .collect();
    let replays = answers
        .iter()
        .filter(|one| one.metadata.replay_of.is_some())
        .count();
    assert_eq!(
        (answers.len(), replays),
        (2, 1),
        "decided once, answered again once"
    );
    assert!(jobs.is("done/killed.answer.json") && !jobs.is("signed/killed.json"));
}

#[test]
fn one_batch_at_a_time_and_beside_a_watcher() {
    if !have(&["flock"]) {
        return;
    }
    let jobs = Jobs::new();
    jobs.add("look.market.get", r#"{"symbol":"BTC-USD"}"#);
    let lock = jobs.scratch.beside("jobs/.lock");
    let mut holder = Command::new("flock");
    holder
        .arg(&lock)
        .args(["sh", "-c", "echo held; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut held = [0; 5];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held).unwrap();
    jobs.ends_with(75);
    assert!(jobs.is("todo/look.market.get.json"));
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let mut watcher = crate::kit::command(&jobs.scratch.home(), &["watch"]);
    let mut watcher = watcher
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = std::io::BufReader::new(watcher.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("watching") {
        line.clear();
        assert!(
            std::io::BufRead::read_line(&mut told, &mut line).unwrap() > 0,
            "the watcher ended"
        );
    }
    // A slow machine may leave it to the next run, as exit code 75 says.
    let done = (0..20)
        .map(|_| jobs.run())
        .find(|done| done.status.code() != Some(75))
        .unwrap();
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    assert!(
        done.status.success() && jobs.is("done/look.answer.json"),
        "{}",
        show(&done)
    );
}

#[test]
fn a_crontab_line_names_the_batch_s_arguments() {
    let crontab = fs::read_to_string(examples().join("cron/crontab")).unwrap();
    let jobs: Vec<&str> = crontab
        .lines()
        .filter(|line| line.starts_with(['*', '1']))
        .collect();
    assert_eq!(jobs.len(), 2, "{jobs:?}");
    let words: Vec<&str> = jobs[0].split_whitespace().skip(5).collect();
    assert_eq!(
        (words[0], words.len()),
        ("sh", 5),
        "batch.sh takes three arguments: {words:?}"
    );
}

fn decision_of(home: &Path, case: &str) -> Option<String> {
    let text = fs::read(home.join(format!("spool/out/{case}.decision.json"))).ok()?;
    let body: Value = serde_json::from_slice(&text).unwrap();
    Some(body["final_outcome"].as_str().unwrap().to_owned())
}

/// Runs one role with a brief, and a model in one mode.
fn ask(brief: &str, by_variable: bool, mode: &str) -> Output {
    let roles = examples().join("roles");
    let model = [
        OsString::from("python3"),
        roles.join("stand_in_model.py").into(),
        OsString::from(mode),
    ];
    let mut role = with_program("python3");
    role.arg(roles.join("llm_role.py"));
    if by_variable {
        let words: Vec<String> = model
            .iter()
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        role.env("COUNCIL_MODEL", words.join(" "));
    } else {
        role.arg("--").args(&model);
    }
    let mut child = role
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(brief.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_models_verdict_counts_and_other_text_does_not() {
    if !have(&["python3"]) {
        return;
    }
    let dir = crate::kit::folder();
    walk("roles/run.sh", &dir, &[]);
    let home = home_of(&dir);
    assert_eq!(decision_of(&home, "halve").as_deref(), Some("APPROVE"));
    assert_eq!(
        decision_of(&home, "double").as_deref(),
        Some("NEEDS_MORE_INFO")
    );
    let brief = succeed(
        &home,
        &["council", "brief", "halve", "Integration Engineer"],
    );
    let verdict = |done: &Output| {
        let told: Value = serde_json::from_slice(&done.stdout).ok()?;
        Some(told["verdict"].as_str().unwrap().to_owned())
    };
    for (by_variable, mode, expected) in [
        (false, "careful", "APPROVE"),
        (true, "careful", "APPROVE"),
        (false, "reject", "REJECT"),
    ] {
        let done = ask(&brief, by_variable, mode);
        assert_eq!(
            verdict(&done).as_deref(),
            Some(expected),
            "{mode}: {}",
            show(&done)
        );
    }
    for mode in [
        "obedient", "prose", "twice", "cut", "other", "hasty", "silent", "broken",
    ] {
        let done = ask(&brief, false, mode);
        assert_eq!(done.status.code(), Some(1), "{mode}: {}", show(&done));
        assert!(done.stdout.is_empty(), "{mode}: {}", show(&done));
        assert!(
            show(&done).contains("no verdict"),
            "{mode}: {}",
            show(&done)
        );
    }
    assert_eq!(
        ask("what do you think?", false, "careful").status.code(),
        Some(1)
    );
}

/// The same through the gate: an answer that is not a verdict leaves the seat empty, and the ledger
/// records why.
#[test]
fn a_garbled_model_approves_nothing() {
    if !have(&["python3"]) {
        return;
    }
    let dir = crate::kit::folder();
    let work = dir.path().join("work");
    let done = shell("roles/run.sh")
        .arg(&work)
        .args(["python3", "roles/stand_in_model.py", "prose"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1), "{}", show(&done));
    let home = home_of(&dir);
    for case in ["halve", "double"] {
        assert_eq!(
            decision_of(&home, case).as_deref(),
            Some("NEEDS_MORE_INFO"),
            "{}",
            show(&done)
        );
    }
    let told = succeed(&home, &["audit", "tail", "-n", "40"]);
    assert!(
        told.contains("no verdict: the model's answer is not one JSON object"),
        "{told}"
    );
}

#[test]
fn a_proposal_goes_through_review_into_force() {
    if !have(&["git", "ssh-keygen"]) {
        return;
    }
    let dir = crate::kit::folder();
    let done = walk("proposals/run.sh", &dir, &[]);
    let home = home_of(&dir);
    let told: Vec<String> = lines(&home)
        .unwrap()
        .into_iter()
        .filter(|(_, kind, _)| kind == "proposal")
        .map(|(_, _, record)| format!("{record:?}"))
        .collect();
    let [applied] = told.as_slice() else {
        panic!("{told:?} {}", show(&done))
    };
    assert!(
        applied.contains("Applied") && applied.contains("alice@example.com"),
        "{applied}"
    );
    let orders = of_action(&home, "order.submit");
    let [order] = orders.as_slice() else {
        panic!("{orders:?}")
    };
    assert!(
        order
            .checks
            .iter()
            .any(|row| !row.passed && row.name.contains("no-large-entries")),
        "{:?}",
        order.checks
    );
}

#[test]
fn the_bridge_and_its_exchange_end_flat() {
    if let Some(why) = MockVenue::missing() {
        println!("skipped: {why}");
        return;
    }
    let dir = crate::kit::folder();
    walk("bridge.sh", &dir, &[]);
    let reports = of_action(&home_of(&dir), "venue.report");
    assert!(
        reports
            .iter()
            .all(|one| one.source.as_deref() == Some("exchange"))
    );
    let booked = reports
        .iter()
        .filter(|one| one.metadata.code.is_none())
        .count();
    // At least four trades, and the exchange's reports on the orders that it accepted.
    assert!(booked >= 6, "{booked} of {}", reports.len());
}

#[test]
fn an_auditor_needs_the_ledger_and_a_key() {
    if !have(&["python3", "openssl"]) {
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    let early = scratch.beside("early");
    fs::write(&early, succeed(&home, &["audit", "checkpoint"])).unwrap();
    let last = decisions(&home)
        .unwrap()
        .into_keys()
        .next_back()
        .unwrap()
        .to_string();
    let receipt = scratch.beside("receipt");
    let out = receipt.to_str().unwrap();
    succeed(&home, &["audit", "prove", &last, "--out", out]);
    succeed(&home, &["halt", "set", "--reason", "lunch"]);
    let report: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "audit", "verify"])).unwrap();
    let vkey = report["log_key"].as_str().unwrap();
    let audit = |dir: &Path, vkey: &str, early: &Path| {
        let mut command = Command::new("sh");
        // On a machine without spoolgate.
        command
            .arg(examples().join("audit.sh"))
            .arg(dir)
            .arg(vkey)
            .arg(early)
            .arg(&receipt)
            .output()
            .unwrap()
    };
    let copy = scratch.beside("copy");
    let fresh = || {
        let _ = fs::remove_dir_all(&copy);
        fs::create_dir(&copy).unwrap();
        for name in ["log-00000001.jsonl", "checkpoint"] {
            fs::copy(home.join("audit").join(name), copy.join(name)).unwrap();
        }
    };
    fresh();
    let done = audit(&copy, vkey, &early);
    assert!(
        done.status.success() && String::from_utf8_lossy(&done.stdout).lines().count() == 5,
        "{}",
        show(&done)
    );
    // The log of a stranger is consistent, and only its own key vouches for it.
    let other = Scratch::new();
    let theirs: Value = serde_json::from_str(&succeed(
        &other.home(),
        &["--format", "json", "audit", "verify"],
    ))
    .unwrap();
    let log = copy.join("log-00000001.jsonl");
    let change = |from: &str, to: &str| {
        fresh();
        let text = fs::read_to_string(&log).unwrap();
        assert!(text.contains(from));
        fs::write(&log, text.replacen(from, to, 1)).unwrap();
    };
    let refuses = |why: &str, dir: &Path, vkey: &str, early: &Path| {
        let done = audit(dir, vkey, early);
        assert_eq!(done.status.code(), Some(1), "{why}: {}", show(&done));
        assert!(show(&done).contains(why), "{why}: {}", show(&done));
    };
    let another = "is of another log";
    let their_audit = other.home().join("audit");
    refuses(another, &their_audit, vkey, &early);
    fresh();
    refuses(another, &copy, theirs["log_key"].as_str().unwrap(), &early);
    refuses(another, &copy, vkey, &their_audit.join("checkpoint"));
    // A text that the key did not sign, under a signature that it made.
    let forged = scratch.beside("forged");
    let told = fs::read_to_string(&early).unwrap();
    let size = told.lines().nth(1).unwrap();
    fs::write(&forged, told.replacen(&format!("\n{size}\n"), "\n1\n", 1)).unwrap();
    refuses("VKEY did not make", &copy, vkey, &forged);
    change("5000", "9000");
    refuses("not consistent", &copy, vkey, &early);
    // Cut at a seal, it is consistent: its checkpoint shows the cut.
    fresh();
    let text = fs::read_to_string(&log).unwrap();
    let seal = text
        .rmatch_indices("\"kind\":\"seal\"")
        .map(|(at, _)| at)
        .nth(1)
        .unwrap();
    let end = seal + text[seal..].find('\n').unwrap() + 1;
    fs::write(&log, &text[..end]).unwrap();
    refuses("not consistent", &copy, vkey, &early);
    // With an older checkpoint beside it, nothing in it shows the cut; a newer head elsewhere does.
    fs::copy(&early, copy.join("checkpoint")).unwrap();
    refuses("or is missing", &copy, vkey, &home.join("audit/checkpoint"));
}

/// Lists the files below a folder, as paths relative to it.
fn files(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(root, &path, found);
        } else {
            found.push(
                path.strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
}

/// Returns the sources of a test: its file, its folder and the shared files.
fn sources(test: &str) -> String {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut paths = vec![format!("{test}.rs")];
    for folder in [test, "kit"] {
        if tests.join(folder).is_dir() {
            files(&tests, &tests.join(folder), &mut paths);
        }
    }
    paths
        .iter()
        .filter_map(|path| fs::read_to_string(tests.join(path)).ok())
        .collect()
}

/// Whether a test runs a file: the test, or a file that it runs, names it by its file name or as a
/// module.
fn is_run_by(test: &str, file: &str, all: &BTreeMap<String, Vec<String>>) -> bool {
    let own = sources(test);
    let mut run: BTreeSet<&str> = all
        .keys()
        .map(String::as_str)
        .filter(|it| own.contains(it.trim_end_matches(".rs")))
        .collect();
    loop {
        let texts: Vec<String> = run
            .iter()
            .map(|it| fs::read_to_string(examples().join(it)).unwrap())
            .collect();
        let is_named = |it: &&str| {
            let base = Path::new(it).file_name().unwrap().to_str().unwrap();
            let module = format!("from {} import", base.trim_end_matches(".py"));
            texts
                .iter()
                .any(|text| text.contains(base) || text.contains(&module))
        };
        let before = run.len();
        run.extend(all.keys().map(String::as_str).filter(is_named));
        if run.len() == before {
            return run.contains(file);
        }
    }
}

/// A day is no evidence: without a verdict the agent leaves its rule alone. By the sign of the day's
/// effect it proposes what follows, and the gate decides by the rules whether people are asked.
#[test]
fn the_agent_proposes_from_what_its_rule_would_have_saved() {
    if !have(&["python3"]) {
        return;
    }
    let dir = crate::kit::folder();
    let done = walk("learning/run.sh", &dir, &[]);
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        told.contains("by the verdict:\nlimit-entries-only: stays as it is\n"),
        "{told}"
    );
    let figures = fs::read_to_string(dir.path().join("work/figures.json")).unwrap();
    let figures: Value = serde_json::from_str(&figures).unwrap();
    let rules = figures["rules"].as_array().unwrap();
    let own = rules
        .iter()
        .find(|rule| rule["rule"] == "limit-entries-only");
    let effect = own.unwrap()["effect"].as_str().unwrap();
    assert!(effect.starts_with('-'), "the trial cost that day: {effect}");
    assert!(
        told.contains("Suspend") && told.contains("waits for an approver"),
        "{told}"
    );
    // A rule on trial that saved comes into force without people: it only tightens.
    let home = home_of(&dir);
    let saved = r#"{"rules":[{"rule":"limit-entries-only","status":"shadow","verdict":"VALIDATED",
        "effect":"3","day_count":25,"events":{"closed":40,"repeats":0,"instead":0}}]}"#;
    let mut watch = with_program("spoolgate");
    let mut watch = watch
        .args(["--home", home.to_str().unwrap(), "watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut propose = with_program("python3");
    propose
        .arg(examples().join("learning/propose.py"))
        .arg(&home)
        .arg(dir.path().join("work/bot.key"))
        .arg(examples().join("learning/limit-entries-only.json"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = propose.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(saved.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(done.status.success(), "{}", show(&done));
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        told.contains("Activate") && told.contains("applied by its proof"),
        "{told}"
    );
    let file = fs::read_to_string(home.join("rules/active/limit-entries-only.yaml")).unwrap();
    assert!(file.contains("status: active"), "{file}");
}

#[test]
fn every_example_is_listed_and_run_by_a_test() {
    let readme = fs::read_to_string(examples().join("README.md")).unwrap();
    // A row's first cell names files in backticks, and its last cell names tests.
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(|text| text.trim_start_matches("sh ").to_owned())
            .collect()
    };
    let mut tested: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in readme.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        for run in quoted(cells[0]) {
            let file = run.split(' ').next().unwrap().to_owned();
            assert!(
                examples().join(&file).is_file(),
                "examples/README.md names {file}, which is not there"
            );
            tested
                .entry(file)
                .or_default()
                .extend(quoted(cells[cells.len() - 1]));
        }
    }
    let mut there = Vec::new();
    files(&examples(), &examples(), &mut there);
    for file in there {
        let name = Path::new(&file);
        let is_run = matches!(
            name.extension().and_then(|it| it.to_str()),
            Some("py" | "sh" | "mjs")
        );
        let is_run = is_run || (file.ends_with(".rs") && !file.contains('/'));
        let Some(tests) = tested.get(&file) else {
            assert!(
                !is_run,
                "{file} can be run and examples/README.md does not list it"
            );
            continue;
        };
        let is_known = |test: &String| is_run_by(test, &file, &tested);
        assert!(
            !tests.is_empty() && tests.iter().all(is_known),
            "{file} is not run by all of {tests:?}"
        );
    }
}

#[test]
fn scripts_say_how_they_are_used() {
    for (script, args) in [("cron/batch.sh", &[][..]), ("audit.sh", &["only-one"][..])] {
        let done = shell(script).args(args).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{script}: {}", show(&done));
        assert!(show(&done).contains("usage"), "{script}: {}", show(&done));
    }
}
