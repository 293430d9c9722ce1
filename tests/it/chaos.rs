//! A gate as `spoolgate init` deploys it, under a user of its own and in the sandbox, while agents
//! of other users flood the spool, fill the disk and plant what is no file, and while it is killed
//! again and again. An agent sends exits meanwhile: each must be answered once, and the test
//! prints the longest time that one waited. docs/testing.md has the figure.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kit::process::until;
use crate::kit::users::{
    DOOR, FILLER, FLOODER, Group, LINKER, Mount, TRADER, as_user, missing, said_by_watchers,
    settle, take_position, watch,
};
use crate::kit::{Dice, Scratch, decisions, setting, succeed};

/// The attackers: what each runs in `spool/in`, again and again.
const ATTACKS: [(u32, &str); 3] = [
    // Two thousand files at once, most of them no requests.
    (
        FLOODER,
        "i=0; while :; do i=$((i+1)); n=0; while [ $n -lt 2000 ]; do n=$((n+1)); \
         printf '{\"id\":\"f-%s\"}' $i-$n > f-$i-$n.json; done 2> /dev/null; sleep 2; done",
    ),
    // All room of the disk, for three seconds of every eight.
    (
        FILLER,
        "while :; do dd if=/dev/zero of=.fill bs=1M 2> /dev/null; sleep 3; rm -f .fill; sleep 5; \
         done",
    ),
    (
        LINKER,
        "while :; do ln -s /etc/passwd l.json; mkfifo p.json; mknod d.json c 0 0; mkdir -p m.json/x; \
         mkdir -m 0 o.json; mkdir hermes other; ln f-1-1.json h.json; : > $(printf 'a\\nb'); sleep 0.2; \
         rm -rf l.json p.json h.json m.json; done 2> /dev/null",
    ),
];

/// Returns exits that were signed now, in a folder on the same disk, so that dropping one needs no
/// room.
fn prepared_exits(scratch: &Scratch, pool: &Path, count: usize) {
    fs::create_dir(pool).unwrap();
    let exit = r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","order_type":"market","size":"0.002","planned_entry":"6790","planned_stop":"6600","thesis_slug":"btc-dip-long"}"#;
    for n in 0..count {
        let path = pool.join(format!("x-{n}.json"));
        fs::write(
            &path,
            scratch.request(&format!("x-{n}"), "order.submit", exit),
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        chown(&path, Some(TRADER), Some(DOOR)).unwrap();
    }
}

/// Keeps a gate running as the unit does, and kills it at random moments. Returns the number of
/// kills.
fn supervise(home: &Path, stop: &AtomicBool, seed: u64) -> usize {
    let (mut dice, mut kills) = (Dice::new(seed), 0);
    while !stop.load(Ordering::Relaxed) {
        let mut gate = Group::start(watch(home));
        let life = Instant::now();
        let until_ms = 2000 + dice.below(6000);
        loop {
            if let Some(ended) = gate.0.try_wait().unwrap() {
                let said = fs::read_to_string(said_by_watchers(home)).unwrap();
                panic!("the gate ended by itself: {ended}: {said}");
            }
            if life.elapsed() > Duration::from_millis(until_ms) {
                kills += 1;
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return kills;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(gate);
        std::thread::sleep(Duration::from_secs(1));
    }
    kills
}

#[test]
fn exits_are_answered_whatever_agents_do() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let seconds = setting("SPOOLGATE_CHAOS_S", 10);
    let scratch = Scratch::with_prices();
    fs::set_permissions(
        scratch.home().parent().unwrap(),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    take_position(&scratch);
    // Room for what floods and refusals add to the ledger, or nothing is left at the end.
    let bytes = (256 << 20).max(seconds * (12 << 20));
    let Some(disk) = Mount::new(scratch.beside("disk"), bytes) else {
        return;
    };
    let (home, pool) = (disk.0.join("home"), disk.0.join("pool"));
    settle(&scratch.home(), &home);
    let most = usize::try_from(seconds * 4).unwrap().min(1900);
    prepared_exits(&scratch, &pool, most);

    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut waits, mut said) = (Vec::new(), Vec::new());
    let kills = std::thread::scope(|scope| {
        let supervisor = scope.spawn(|| supervise(&home, &stop, 7));
        let attackers: Vec<Group> = ATTACKS
            .iter()
            .map(|(user, script)| Group::start(as_user(*user, script, &home.join("spool/in"))))
            .collect();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) {
            let n = sent.fetch_add(1, Ordering::Relaxed);
            let name = format!("x-{n}.json");
            if n >= most {
                break;
            }
            // On a full disk the folder may have no room for one more name; the sender tries again.
            until(&format!("{name} is dropped"), || {
                fs::rename(pool.join(&name), home.join("spool/in").join(&name)).is_ok()
            });
            let dropped = Instant::now();
            let answer = home.join("spool/out").join(&name);
            until(&format!("{name} is answered"), || answer.exists());
            waits.push(dropped.elapsed());
            said.push(fs::read(&answer).unwrap());
            std::thread::sleep(Duration::from_millis(200));
        }
        drop(attackers);
        stop.store(true, Ordering::Relaxed);
        supervisor.join().unwrap()
    });
    // The rest is decided once nobody attacks any more.
    let _ = fs::remove_file(home.join("spool/in/.fill"));
    succeed(&home, &["run", "--until-idle"]);
    succeed(&home, &["audit", "verify"]);
    let decided = decisions(&home).unwrap();
    for n in 0..waits.len() {
        let id = format!("x-{n}");
        let count = decided
            .values()
            .filter(|line| line.request_id.as_deref() == Some(&id))
            .count();
        assert_eq!(count, 1, "{id}");
    }
    for said in said {
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(said["status"], "success", "{said}");
    }
    waits.sort();
    let longest = waits.last().copied().unwrap_or_default();
    eprintln!(
        "chaos: {} exits in {seconds} s, {kills} kills: half of them waited {} ms or less, the longest {} ms",
        waits.len(),
        waits[waits.len() / 2].as_millis(),
        longest.as_millis()
    );
}
