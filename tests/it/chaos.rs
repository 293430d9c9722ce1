//! A gate as `spoolgate init` deploys it, under a user of its own and in the sandbox, while agents
//! of other users flood the spool, fill the disk and plant what is no file, and while it is killed
//! again and again. An agent sends exits meanwhile: each must be answered once, and the test
//! prints the longest time that one waited. docs/testing.md has the figure.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::kit::prepared::edit;
use crate::kit::process::{answered, until};
use crate::kit::users::{
    DOOR, FILLER, FLOODER, Group, LINKER, Mount, TRADER, as_user, missing, settle, watch,
};
use crate::kit::{Dice, Scratch, decisions, setting, succeed};
use spoolgate_host::clock::{Clock, SystemClock};

/// Gives the strategy a long position of 4 BTC, so that it can be sold in two thousand parts.
fn take_position(scratch: &Scratch) {
    let home = scratch.home();
    edit(&home.join("rules/safety.yaml"), |text| {
        let mut text = text.replace("quote_age_floor_s: 120 ", "quote_age_floor_s: 500000 ");
        for (key, value) in [
            ("max_total_capital", "1000000"),
            ("max_order_value", "100000"),
            ("max_daily_loss", "100000"),
            ("max_weekly_loss", "100000"),
        ] {
            let line = text
                .lines()
                .find(|line| line.starts_with(&format!("{key}:")))
                .unwrap()
                .to_owned();
            text = text.replace(&line, &format!("{key}: {value}"));
        }
        text
    });
    // Bars of a second fill the entry without waiting for a minute.
    edit(&home.join("rules/instruments.yaml"), |text| {
        text.replacen("bar_s: 60", "bar_s: 1", 1)
    });
    succeed(
        &home,
        &["account", "deposit", "1000000", "--reason", "chaos"],
    );
    let entry = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","order_type":"market","planned_entry":"6790","planned_stop":"6600","stop_price":"6600","size":"4","thesis_slug":"btc-dip-long"}"#;
    fs::write(
        home.join("spool/in/entry.json"),
        scratch.request("entry", "order.submit", entry),
    )
    .unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let entered = answered(&home, "entry.json");
    assert_eq!(entered["status"], "success", "{entered}");
    std::thread::sleep(Duration::from_millis(1100));
    let now = SystemClock::default().now();
    let bars = scratch.beside("bars.csv");
    let text = format!("time,open,high,low,close,volume\n{now},6784,6785,6783,6784,100\n");
    fs::write(&bars, text).unwrap();
    std::thread::sleep(Duration::from_millis(1100));
    let bars = bars.to_str().unwrap();
    let args = [
        "market",
        "import",
        bars,
        "--symbol",
        "BTC-USD",
        "--interval",
        "1s",
    ];
    let told = succeed(&home, &args);
    assert!(told.contains(" 1 fills"), "{told}");
}

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
    let exit = r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","order_type":"market","size":"0.002"}"#;
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
                let code = ended.code();
                // The unit would not start it again.
                assert!(
                    !matches!(code, Some(2 | 5 | 7)),
                    "the gate ended for good: {ended}"
                );
                break;
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
    let Some(disk) = Mount::new(scratch.beside("disk"), 256 << 20) else {
        return;
    };
    let (home, pool) = (disk.0.join("home"), disk.0.join("pool"));
    settle(&scratch.home(), &home);
    let most = usize::try_from(seconds * 4).unwrap().min(1900);
    prepared_exits(&scratch, &pool, most);

    let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut waits = Vec::new();
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
            fs::rename(pool.join(&name), home.join("spool/in").join(&name)).unwrap();
            let dropped = Instant::now();
            let answer = home.join("spool/out").join(&name);
            until(&format!("{name} is answered"), || answer.exists());
            waits.push(dropped.elapsed());
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
    waits.sort();
    let longest = waits.last().copied().unwrap_or_default();
    eprintln!(
        "chaos: {} exits in {seconds} s, {kills} kills: half of them waited {} ms or less, the longest {} ms",
        waits.len(),
        waits[waits.len() / 2].as_millis(),
        longest.as_millis()
    );
}
