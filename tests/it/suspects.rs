//! Requests over which the gate has died: deaths that say nothing about a request never cost it its
//! decision, and a request that ends the process that tries it is refused, alone.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::kit::keys::add_key;
use crate::kit::process::{Running, answered, until};
use crate::kit::unlimited::lift_message_rates;
use crate::kit::world::World;
use crate::kit::{
    Dice, PROGRAM, Scratch, Sent, campaign, contents, decisions, names, setting, show, sign,
    spoolgate, succeed,
};
use spoolgate_home::suspect::by_program;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::SignKey;

/// Puts a claim into `spool/work` over which the gate has died this often.
fn claim(home: &Path, deaths: u32, file: &Sent) -> PathBuf {
    let name = file.name.to_str().unwrap();
    let path = home.join(format!("spool/work/{deaths}~9~flat~{name}"));
    fs::write(&path, &file.bytes).unwrap();
    path
}

/// However often the gate died, a watcher in the sandbox, a run and a command decide the request.
#[test]
fn deaths_alone_prove_nothing() {
    let scratch = Scratch::new();
    let home = scratch.home();
    succeed(&home, &["run", "--until-idle"]);
    for deaths in [1, 2, 7, 8, 9, 30] {
        let id = format!("run-{deaths}");
        claim(&home, deaths, &scratch.query(&id));
        succeed(&home, &["run", "--until-idle"]);
        assert_eq!(answered(&home, &format!("{id}.json"))["status"], "success");
        let id = format!("one-{deaths}");
        claim(&home, deaths, &scratch.query(&id));
        succeed(&home, &["account", "deposit", "5", "--reason", "more"]);
        assert_eq!(answered(&home, &format!("{id}.json"))["status"], "success");
    }
    claim(&home, 8, &scratch.query("watched"));
    let gate = Running::watch(&home);
    assert_eq!(answered(&home, "watched.json")["status"], "success");
    // The answer comes first, then the claim goes.
    until("the claim is gone", || {
        names(&home.join("spool/work")).is_empty()
    });
    drop(gate);
    let decided = decisions(&home).unwrap();
    assert!(
        decided
            .values()
            .all(|line| line.metadata.code != Some(Code::Internal))
    );
    succeed(&home, &["audit", "verify"]);
    succeed(&home, &["audit", "replay"]);
}

/// All files of a home with their bytes, but for what SQLite keeps beside an index that is read.
fn tree(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![home.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.to_string_lossy().ends_with("-shm") {
                found.push((path.clone(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_trial_writes_nothing() {
    let scratch = Scratch::new();
    let home = scratch.home();
    succeed(&home, &["run", "--until-idle"]);
    let order = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.002","order_type":"limit","price":"6740","thesis_slug":"btc-range-long","planned_entry":"6740","planned_stop":"6600","stop_price":"6600"}"#;
    for (id, action, payload) in [
        ("q1", "portfolio.get", "{}"),
        ("q2", "order.submit", order),
        ("q3", "halt.set", r#"{"reason":"a doubt"}"#),
        ("q4", "no.such_action", "{}"),
    ] {
        let bytes = scratch.request(id, action, payload);
        let path = claim(&home, 3, &Sent::new(&format!("{id}.json"), bytes));
        let before = tree(&home);
        let name = path.file_name().unwrap().to_str().unwrap();
        let told = succeed(&home, &["suspect", name]);
        assert!(told.contains("it can be decided"), "{told}");
        assert_eq!(tree(&home), before, "{id}");
        fs::remove_file(path).unwrap();
    }
    let gone = succeed(&home, &["suspect", "3~9~flat~gone.json"]);
    assert!(gone.contains("no such claim"), "{gone}");
    let bad = spoolgate(&home, &["suspect", "gone.json"]);
    assert_eq!(bad.status.code(), Some(2), "{}", show(&bad));
}

/// The process of the trial gets a signal when it reads the claim (strace), under a gate of the real
/// program: the request is refused, its bytes are kept, and the same file may be sent again.
#[test]
fn a_request_that_ends_its_trial_is_refused() {
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: there is no strace");
        return;
    }
    let scratch = Scratch::new();
    let home = scratch.home();
    succeed(&home, &["run", "--until-idle"]);
    let (poison, other) = (scratch.query("poison"), scratch.query("other"));
    claim(&home, 2, &poison);
    claim(&home, 2, &other);
    let run = |args: &[&str]| {
        Command::new("strace")
            .args(["-f", "-o"])
            .arg(scratch.beside("trace"))
            .arg("-P")
            .arg(home.join("spool/work/3~9~flat~poison.json"))
            .args(["-e", "trace=read", "-e", "inject=read:signal=ABRT", PROGRAM])
            .arg("--home")
            .arg(&home)
            .args(args)
            .output()
            .unwrap()
    };
    let done = run(&["run", "--until-idle"]);
    assert!(done.status.success(), "{}", show(&done));
    assert_eq!(answered(&home, "other.json")["status"], "success");
    let refused = answered(&home, "poison.json.error.json");
    assert_eq!(refused["error"]["code"], "INTERNAL", "{refused}");
    let message = refused["error"]["message"].as_str().unwrap();
    for part in [
        "ended 2 times",
        "a trial of it ended with signal 6",
        "may be sent again after an upgrade",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    let kept = contents(&home.join("spool/rejected"));
    assert!(kept.values().any(|bytes| *bytes == poison.bytes));
    // "After an upgrade": the same bytes are decided.
    poison.drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    assert_eq!(answered(&home, "poison.json")["status"], "success");
    succeed(&home, &["audit", "replay"]);
}

/// Starts the gate until it survives; returns how often it died. A trial runs the real program, or a
/// script that aborts if the file is named `poison`.
fn run_until_it_lives(world: &World) -> u32 {
    let script = world.root.join("abort.sh");
    fs::write(
        &script,
        "#!/bin/sh\necho 'out of luck' >&2\nkill -ABRT $$\n",
    )
    .unwrap();
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    for deaths in 0..40 {
        let real = by_program(world.root.clone(), PathBuf::from(PROGRAM));
        let aborts = by_program(world.root.clone(), script.clone());
        let lived = catch_unwind(AssertUnwindSafe(|| {
            let mut home = world.open();
            home.try_suspects_with(Box::new(move |claim| {
                if claim.file.contains("poison") {
                    aborts(claim)
                } else {
                    real(claim)
                }
            }));
            world.drain(&mut home);
        }));
        if lived.is_ok() {
            return deaths;
        }
    }
    panic!("it never comes to rest");
}

fn send(world: &mut World, id: &str) {
    let mut draft = world.draft("trend-bot", "orders.list", "{}");
    draft.id = id.to_owned();
    world.send(&draft);
}

/// The gate dies at every claim of a file named `unlucky`, 12 times in all, and at every claim of a
/// file named `poison`, which ends its trials too.
#[test]
fn the_poisoned_request_and_no_other() {
    let left = AtomicU32::new(12);
    let mut world = World::with_disk(
        91,
        Box::new(move |verb, path: &Path, _, is_after| {
            let name = path.to_string_lossy();
            let is_read = verb == "read" && path.starts_with("spool/work") && !is_after;
            let is_unlucky = name.contains("unlucky")
                && left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                        left.checked_sub(u32::from(is_read))
                    })
                    .is_ok();
            if is_read && (is_unlucky || name.contains("poison")) {
                panic!("killed by {}", path.display());
            }
            None
        }),
    );
    for n in 0..10 {
        send(&mut world, &format!("f-{n:02}"));
    }
    // A gate that died twice before claimed these.
    for (id, deaths) in [("f-05-unlucky", 1), ("f-06-poison", 1)] {
        send(&mut world, id);
        let file = world.root.join(format!("spool/in/{id}.json"));
        let claim = world
            .root
            .join(format!("spool/work/{deaths}~1~flat~{id}.json"));
        fs::rename(file, claim).unwrap();
    }
    assert_eq!(
        run_until_it_lives(&world),
        13,
        "12 deaths of bad luck, one more of the poison"
    );
    let home = world.open();
    let mut batches = Vec::new();
    for line in world
        .ledger()
        .iter()
        .filter(|line| line["kind"] == "decision")
    {
        let (batch, decision) = home.decision(line["seq"].as_u64().unwrap()).unwrap();
        if !decision.file.starts_with("f-") {
            continue;
        }
        let is_poison = decision.file.contains("poison");
        let code = is_poison.then_some(Code::Internal);
        assert_eq!(decision.metadata.code, code, "{}", decision.file);
        if is_poison {
            let message = decision.metadata.message.unwrap();
            assert!(
                message.contains("ended with signal 6: out of luck"),
                "{message}"
            );
        }
        batches.push((decision.file, batch));
    }
    assert_eq!(batches.len(), 12);
    let alone = |name: &str| {
        let batch = batches
            .iter()
            .find(|(file, _)| file.contains(name))
            .unwrap()
            .1;
        batches.iter().filter(|(_, other)| *other == batch).count() == 1
    };
    assert!(alone("unlucky") && alone("poison"), "{batches:?}");
}

/// Returns the highest number of deaths that a claim in `spool/work` shows; 0 if there is none.
fn deaths(home: &Path) -> u32 {
    let claims = names(&home.join("spool/work"));
    let deaths = claims.iter().filter_map(|name| ClaimName::parse(name));
    deaths.map(|claim| claim.attempt).max().unwrap_or(0)
}

/// Waits until `is_so` holds of the claims in `spool/work`, or nothing is left to decide, or the
/// gate has ended because a trial of the gate before it still holds the lock.
fn wait_for_claims(gate: &mut Running, home: &Path, is_so: impl Fn(&[ClaimName]) -> bool) {
    let mut looks = |_| {
        let claims = names(&home.join("spool/work"));
        let claims: Vec<_> = claims.iter().filter_map(|n| ClaimName::parse(n)).collect();
        let is_idle = || claims.is_empty() && names(&home.join("spool/in")).is_empty();
        is_so(&claims) || is_idle() || gate.0.try_wait().unwrap().is_some()
    };
    // A claim is there for less time than `until` waits between two looks.
    until("claims or an end", || (0..1_000).any(&mut looks));
}

/// Seven agents send while the gate is killed at random moments: no request is refused for it, and
/// each is decided once. It makes 60 kills, 500 with `SPOOLGATE_WHOLE=1`, others with
/// `SPOOLGATE_KILLS`. Before every tenth nothing is sent. Two of three kills wait until the
/// gate has claimed something or got past the claims of the gate before it, so that kills meet open
/// requests on a machine of any speed.
#[test]
fn kills_with_seven_agents() {
    let (kills, seed) = (
        setting("SPOOLGATE_KILLS", campaign(60, 500)),
        setting("SPOOLGATE_SEED", 1),
    );
    let scratch = Scratch::new();
    let home = scratch.home();
    let path = home.join("rules/principals.yaml");
    let mut principals = fs::read_to_string(&path).unwrap();
    for n in 0..7 {
        principals += &format!("  - name: agent-{n}\n    role: agent\n");
    }
    fs::write(&path, principals).unwrap();
    lift_message_rates(&home);
    succeed(&home, &["run", "--until-idle"]);
    let keys: Vec<SignKey> = (0..7)
        .map(|n| {
            add_key(
                &home,
                &format!("agent-{n}"),
                &scratch.beside(&format!("{n}.key")),
            )
        })
        .collect();
    let mut sent = Vec::new();
    let mut send = |round: u64| {
        for (n, key) in keys.iter().enumerate() {
            let id = format!("k{round}-{n}");
            let bytes = sign(key, &format!("agent-{n}"), &id, "orders.list", "{}");
            Sent::new(&format!("{id}.json"), bytes).drop_into(&home);
            sent.push(id);
        }
    };
    // How long a gate takes to answer seven requests says in which time to kill it.
    let took = |round: u64| {
        let begun = Instant::now();
        let gate = Running::watch(&home);
        (0..7).for_each(|n| drop(answered(&home, &format!("k{round}-{n}.json"))));
        let took = begun.elapsed();
        drop(gate);
        took
    };
    let rounds: Vec<Duration> = (0..3)
        .map(|round| {
            send(round);
            took(round)
        })
        .collect();
    let busy = rounds.into_iter().min().unwrap();
    let busy_us = u64::try_from(busy.as_micros()).unwrap();
    let mut dice = Dice::new(seed);
    let mut after: BTreeMap<u32, u32> = BTreeMap::new();
    for kill in 3..3 + kills {
        // Now and then nothing is sent, and the gate dies while it opens the home.
        if kill % 10 != 0 {
            send(kill);
        }
        let shown = deaths(&home);
        let mut gate = Running::watch(&home);
        let is_new = |claim: &ClaimName| claim.attempt > shown;
        let longest_us = match kill % 3 {
            0 => busy_us,
            1 => {
                wait_for_claims(&mut gate, &home, |claims| claims.iter().any(is_new));
                busy_us / 4
            }
            _ => {
                wait_for_claims(&mut gate, &home, |claims| claims.len() == 7);
                busy_us / 4
            }
        };
        std::thread::sleep(Duration::from_micros(dice.below(longest_us)));
        drop(gate);
        *after.entry(deaths(&home)).or_default() += 1;
    }
    succeed(&home, &["run", "--until-idle"]);
    println!("seed {seed}: {kills} kills; by the most deaths of a claim in work: {after:?}");
    let decided = decisions(&home).unwrap();
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for line in decided.values() {
        assert_ne!(
            line.metadata.code,
            Some(Code::Internal),
            "seed {seed}: {line:?}"
        );
        *times.entry(line.file.clone()).or_default() += 1;
    }
    for id in &sent {
        let file = format!("{id}.json");
        assert_eq!(
            answered(&home, &file)["status"],
            "success",
            "seed {seed}: {id}"
        );
        assert_eq!(times.get(&file), Some(&1), "seed {seed}: {id}");
    }
    assert!(names(&home.join("spool/work")).is_empty());
    // Kills that find nothing open would prove nothing.
    assert!(kills < 50 || after.range(1..).next().is_some(), "{after:?}");
    succeed(&home, &["audit", "verify"]);
}
