//! Watched folders that are removed, replaced and created again under the real watcher.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::keys::add_key;

use crate::attacks::siege::{CANARY, has_canary};
use crate::kit::process::{Running, until};
use crate::kit::world::walk;
use crate::kit::{Scratch, command, decisions, sign, succeed};

/// Starts a watcher whose standard error is read when it is stopped.
pub(super) fn watch(home: &Path) -> Running {
    let mut command = command(home, &["watch"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    Running::begun(home, command)
}

/// An agent renames its watched folder away, puts a link, a file or nothing in its place, and
/// creates it again. Its requests are answered whenever the folder is a folder; the folder behind
/// the link is not touched; everybody else is answered all the time.
#[test]
fn an_agents_watched_folder_is_replaced() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let outside = scratch.beside("outside");
    fs::create_dir(&outside).unwrap();
    let rules = home.join("rules/principals.yaml");
    let text = fs::read_to_string(&rules).unwrap();
    fs::write(
        &rules,
        format!(
            "{}\n  - {{name: own-bot, role: agent, spool: own-bot}}\n",
            text.trim_end()
        ),
    )
    .unwrap();
    let key = add_key(&home, "own-bot", &scratch.beside("own.key"));
    let request = |id: &str| sign(&key, "own-bot", id, "orders.list", "{}");

    fs::write(outside.join("secret.json"), CANARY).unwrap();
    fs::write(outside.join("bait.json"), request("bait")).unwrap();
    let before = walk(&outside);

    let gate = watch(&home);
    let own = home.join("spool/in/own-bot");
    let new = own.join("new");
    until("the agent's spool", || new.is_dir());
    let ask = |id: &str| {
        let hidden = own.join("tmp").join(id);
        fs::write(&hidden, request(id)).unwrap();
        fs::rename(hidden, new.join(format!("{id}.json"))).unwrap();
        let answer = home.join("spool/out/own-bot").join(format!("{id}.json"));
        let at = Instant::now();
        until(id, || answer.exists());
        at.elapsed()
    };
    let others = |id: &str| {
        let query = scratch.query(id);
        query.drop_into(&home);
        until(id, || home.join("spool/out").join(&query.name).exists());
    };
    let first = ask("first");
    let mut waits = vec![first];
    for what in [
        "nothing",
        "link",
        "file",
        "link to nothing",
        "link to itself",
        "fifo",
    ] {
        fs::rename(&new, own.join("old")).unwrap();
        match what {
            "link" => symlink(&outside, &new).unwrap(),
            "file" => fs::write(&new, "").unwrap(),
            "link to nothing" => symlink(outside.join("nothing"), &new).unwrap(),
            "link to itself" => symlink("new", &new).unwrap(),
            "fifo" => {
                assert!(Command::new("mkfifo").arg(&new).status().unwrap().success());
            }
            _ => {}
        }
        others(&format!("while-{}", what.replace(' ', "-")));
        // Wait longer than a heartbeat.
        std::thread::sleep(Duration::from_millis(1100));
        others(&format!("after-{}", what.replace(' ', "-")));
        if fs::symlink_metadata(&new).is_ok() {
            fs::remove_file(&new).unwrap();
        }
        fs::create_dir(&new).unwrap();
        waits.push(ask(&format!("again-{}", what.replace(' ', "-"))));
        fs::remove_dir_all(own.join("old")).unwrap();
    }
    // The folder above it is renamed, with everything in it.
    fs::rename(&own, home.join("spool/in/own-bot.tmp")).unwrap();
    symlink(&outside, &own).unwrap();
    others("above");
    std::thread::sleep(Duration::from_millis(1100));
    // A link in the flat spool is neither a request nor an agent's folder, so it is removed.
    until("the link to be refused", || {
        fs::symlink_metadata(&own).is_err()
    });
    fs::rename(home.join("spool/in/own-bot.tmp"), &own).unwrap();
    waits.push(ask("last"));
    println!("answered after: {waits:?}");

    let said = gate.stop();
    assert_eq!(walk(&outside), before, "{said}");
    for top in ["spool", "audit"] {
        for path in walk(&home.join(top))
            .into_keys()
            .filter(|path| path.is_file())
        {
            assert!(!has_canary(&fs::read(&path).unwrap()), "{}", path.display());
        }
    }
    let decided = decisions(&home).unwrap();
    let mut all = decided.values();
    assert!(all.all(|decision| decision.request_id.as_deref() != Some("bait")));
    let own = decided
        .values()
        .filter(|decision| decision.spool == "agent-own-bot");
    assert_eq!(own.count(), 8);
    succeed(&home, &["audit", "verify"]);
}
