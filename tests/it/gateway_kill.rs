//! The gate is killed by SIGKILL at random moments while adapters are at work: each request is done
//! at most once and has one final answer, and nothing is done before its line can be read.
//!
//! It makes 12 kills. For more, or for the same again: `SPOOLGATE_KILLS=200 SPOOLGATE_SEED=7 cargo
//! test --test it gateway_kill:: -- --nocapture`

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::kit::gateway_home::{exec, gateway, with_core};
use crate::kit::process::{Running, until};
use crate::kit::{
    Dice, Scratch, Sent, command, lines, names, setting, show, sign, spoolgate, succeed,
};
use serde_json::Value;
use spoolgate_gate::Record;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::signing::SignKey;

/// Ends if the gate died before the script had its task. Looks for the line of the task (1: it is
/// not there; a look that ended with the gate does not count), records the task, and needs a
/// moment.
const SCRIPT: &str = r#"t=$(cat); [ -n "$t" ] || exit 1; id=${t#*\"id\":\"}; id=${id%%\"*}
grep -q "\"kind\":\"request\".*\"request_id\":\"$id\"" audit/log-*.jsonl
[ $? -eq 1 ] && echo "$id" >>hasty
echo "$id" >>ran
sleep 0.0$((${#t} % 4))
echo '{"success":true}'"#;

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;

/// Makes a home on a real disk with `core` and this script as its adapter.
fn home(script: &str) -> (Scratch, SignKey) {
    let scratch = Scratch::new();
    crate::kit::uncaged(&scratch.home());
    let mut rules: Value = serde_json::from_str(&gateway(&[exec(&ACTIONS, script, 30)])).unwrap();
    rules["anomalies"] = serde_json::json!({"burst_max": 10_000});
    rules["rates"] =
        serde_json::json!({"per_hour": {"email.send": 10_000}, "all_per_hour": 10_000});
    let key = with_core(&scratch, &rules.to_string());
    (scratch, key)
}

fn ran(home: &Path) -> BTreeMap<String, u32> {
    let mut ran = BTreeMap::new();
    for id in fs::read_to_string(home.join("ran"))
        .unwrap_or_default()
        .lines()
    {
        *ran.entry(id.to_owned()).or_default() += 1;
    }
    ran
}

#[test]
fn killed_at_random_moments() {
    let (kills, seed) = (setting("SPOOLGATE_KILLS", 12), setting("SPOOLGATE_SEED", 1));
    let (scratch, core) = home(SCRIPT);
    let home = scratch.home();
    let mut dice = Dice::new(seed);
    let mut sent = Vec::new();
    for _ in 0..kills {
        let gate = Running::watch(&home);
        for _ in 0..4 + dice.below(6) {
            let id = format!("m{}", sent.len());
            Sent::new(
                &format!("{id}.json"),
                sign(&core, "core", &id, "email.send", MAIL),
            )
            .drop_into(&home);
            sent.push(id);
            std::thread::sleep(Duration::from_millis(dice.below(30)));
        }
        std::thread::sleep(Duration::from_millis(dice.below(150)));
        drop(gate);
    }
    let last = spoolgate(&home, &["run", "--until-idle"]);
    assert!(last.status.success(), "{}", show(&last));
    let ran = ran(&home);
    let hasty = fs::read_to_string(home.join("hasty")).unwrap_or_default();
    assert_eq!(
        hasty, "",
        "begun before its line could be read, of {sent:?}"
    );
    let mut outcomes: BTreeMap<String, u32> = BTreeMap::new();
    for id in &sent {
        let out = |name: String| fs::read(home.join("spool/out").join(name));
        let answer = out(format!("{id}.json")).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        let code = answer["error"]["code"]
            .as_str()
            .unwrap_or("success")
            .to_owned();
        let runs = ran.get(id).copied().unwrap_or(0);
        assert!(
            runs <= 1 && (code != "success" || runs == 1),
            "seed {seed}: {id} is {code}, done {runs} times"
        );
        // However often the gate was killed over it, no request is blamed.
        let known = ["success", "UNKNOWN_OUTCOME", "ADAPTER_CRASHED"];
        assert!(known.contains(&code.as_str()), "{id}: {answer}");
        *outcomes.entry(code).or_default() += 1;
    }
    let mut ends: BTreeMap<u64, u32> = BTreeMap::new();
    let mut begun = 0;
    for (_, kind, record) in lines(&home).unwrap() {
        begun += u32::from(kind == "request");
        if let Some(Record::Response(line)) = record {
            *ends.entry(line.request_line).or_default() += 1;
        }
    }
    let expected = sent.len();
    assert!(
        ends.len() == expected
            && begun as usize == expected
            && ends.values().all(|times| *times == 1)
    );
    assert!(names(&home.join("spool/work")).is_empty());
    succeed(&home, &["audit", "verify"]);
    succeed(
        &home,
        &[
            "audit",
            "replay",
            "--answers",
            home.join("spool/out").to_str().unwrap(),
        ],
    );
    let (_, same) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert!(same);
    println!(
        "seed {seed}: {kills} kills, {} requests, {outcomes:?}",
        sent.len()
    );
}

/// A command is killed while its adapter is at work: the next one closes what was left open,
/// reports it, and leaves nothing behind.
#[test]
fn a_command_killed_midway_is_closed_by_the_next() {
    let (scratch, core) = home("cat >/dev/null; echo x >>begun; exec sleep 30");
    let home = scratch.home();
    let file = scratch.beside("one.json");
    fs::write(&file, sign(&core, "core", "one", "email.send", MAIL)).unwrap();
    let file = file.to_str().unwrap();
    let waiting = Running::silent(command(&home, &["handle", file]));
    until("it begins", || home.join("begun").exists());
    let open = succeed(&home, &["actions", "open"]);
    assert!(
        open.contains("email.send") && open.contains("begun") && open.contains("one"),
        "{open}"
    );
    let open: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "actions", "open"])).unwrap();
    let id = open["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&open["state"], &open["host"]),
        (&"begun".into(), &"smtp.example.com".into())
    );
    drop(waiting);
    let next = spoolgate(&home, &["handle", file]);
    let (told, said) = (
        String::from_utf8_lossy(&next.stdout),
        String::from_utf8_lossy(&next.stderr),
    );
    assert!(told.contains("UNKNOWN_OUTCOME"), "{}", show(&next));
    assert!(
        said.contains(&format!(
            "the gate ended while an action was open: {id} email.send of core"
        )),
        "{said}"
    );
    assert_eq!(
        fs::read_to_string(home.join("begun")).unwrap(),
        "x\n",
        "begun once"
    );
    assert_eq!(succeed(&home, &["--format", "json", "actions", "open"]), "");
    let listed: Value =
        serde_json::from_str(&succeed(&home, &["--format", "json", "actions", "list"])).unwrap();
    assert_eq!(
        (&listed["id"], &listed["code"]),
        (&id.as_str().into(), &"UNKNOWN_OUTCOME".into())
    );
    let explained = succeed(&home, &["explain", &id]);
    assert!(
        explained.contains("UNKNOWN_OUTCOME") && explained.contains("Since then"),
        "{explained}"
    );
    for filter in [["--action", "email.send"], ["--principal", "core"]] {
        let found = succeed(
            &home,
            &["audit", "query", filter[0], filter[1], "--format", "json"],
        );
        let kinds: Vec<Value> = found
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
            .collect();
        assert!(
            kinds.contains(&"request".into()) && kinds.contains(&"response".into()),
            "{kinds:?}"
        );
    }
    let found = succeed(
        &home,
        &["audit", "query", "--verdict", "pending", "--format", "json"],
    );
    assert_eq!(found.lines().count(), 1, "{found}");
    let database = rusqlite::Connection::open(home.join("state/state.db")).unwrap();
    let row: (String, String, f64) = database
        .query_row("SELECT status, code, seconds FROM actions", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .unwrap();
    assert!(
        row.0 == "error" && row.1 == "UNKNOWN_OUTCOME" && row.2 > 0.0,
        "{row:?}"
    );
    drop(database);
    for folder in ["spool/work", "spool/local/out", "spool/local/in"] {
        let left: Vec<_> = names(&home.join(folder)).into_iter().collect();
        // What the killed command would have fetched is removed an hour later.
        assert!(
            left.len() <= usize::from(folder == "spool/local/out"),
            "{folder}: {left:?}"
        );
    }
    succeed(&home, &["audit", "verify"]);
    succeed(&home, &["audit", "replay"]);
}
