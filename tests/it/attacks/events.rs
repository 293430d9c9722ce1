//! Lost events, and no events at all: the scan finds every file, and the heartbeat is enough.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::attacks::folders::watch;
use crate::kit::process::{Running, until};
use crate::kit::{PROGRAM, Scratch, check_home};

fn limit(name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).unwrap();
    text.trim().parse().unwrap()
}

/// The watcher is stopped while more happens in its folders than the kernel's queue holds. `count`
/// requests are among the lost events.
fn overflow(count: usize) {
    let scratch = Scratch::new();
    let home = scratch.home();
    let gate = watch(&home);
    let queue = limit("max_queued_events");
    gate.signal(Signal::STOP);
    let folder = home.join("spool/in");
    let mut sent = Vec::new();
    let half = queue / 2 + 500;
    for round in 0..2 {
        // Ignored names cause as many events as others.
        fs::write(folder.join(".a"), "").unwrap();
        for _ in 0..half / 2 {
            fs::rename(folder.join(".a"), folder.join(".b")).unwrap();
            fs::rename(folder.join(".b"), folder.join(".a")).unwrap();
        }
        fs::remove_file(folder.join(".a")).unwrap();
        for n in 0..count / 2 {
            let query = scratch.query(&format!("q{round}-{n}"));
            query.drop_into(&home);
            sent.push(query);
        }
    }
    gate.signal(Signal::CONT);
    let out = home.join("spool/out");
    for file in &sent {
        until("an answer after the overflow", || {
            out.join(&file.name).exists()
        });
    }
    // Later files are noticed as usual.
    let after = scratch.query("after");
    after.drop_into(&home);
    until("an answer after that", || out.join("after.json").exists());
    sent.push(after);
    gate.stop();
    check_home(&home, &sent).unwrap_or_else(|error| panic!("{error}"));
    println!("{} requests among more than {queue} events", sent.len());
}

#[test]
fn more_events_than_the_queue_holds() {
    overflow(200);
}

/// `cargo test --release --test it more_files_than_the_queue_holds -- --ignored --nocapture`
#[test]
#[ignore = "more files than the event queue holds: a minute"]
fn more_files_than_the_queue_holds() {
    overflow(usize::try_from(limit("max_queued_events")).unwrap() + 2000);
}

/// Answers are made durable once the spool is quiet. A sender that causes events without end must
/// not delay that for everybody.
#[test]
fn events_without_end_do_not_put_off_durable_answers() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let gate = watch(&home);
    let log = home.join("audit/log-00000001.jsonl");
    let published = || {
        fs::read_to_string(&log)
            .unwrap()
            .matches("\"kind\":\"published\"")
            .count()
    };
    let before = published();
    let folder = home.join("spool/in");
    fs::write(folder.join(".a"), "").unwrap();
    let query = scratch.query("q");
    query.drop_into(&home);
    let mut count = 0;
    let began = Instant::now();
    until("a published line among events", || {
        for _ in 0..10 {
            fs::rename(folder.join(".a"), folder.join(".b")).unwrap();
            fs::rename(folder.join(".b"), folder.join(".a")).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            count += 2;
        }
        published() > before
    });
    let took = began.elapsed();
    fs::remove_file(folder.join(".a")).unwrap();
    gate.stop();
    check_home(&home, &[query]).unwrap_or_else(|error| panic!("{error}"));
    println!("durable after {took:?} and {count} events");
}

/// Runs the watcher in a user namespace with this many inotify instances and watches, which needs
/// no privilege and does not affect others. `None` where such namespaces are disabled.
fn starved(home: &Path, instances: u32, watches: u32) -> Option<Running> {
    let user = Path::new("/proc/sys/user/max_inotify_watches");
    let probe = Command::new("unshare")
        .args(["-Ur", "test", "-w"])
        .arg(user)
        .output();
    if !probe.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: user namespaces are off here, or have no limits of inotify");
        return None;
    }
    let script = r#"
        echo "$2" > /proc/sys/user/max_inotify_instances && echo "$3" > /proc/sys/user/max_inotify_watches &&
        exec "$0" --home "$1" watch"#;
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", script, PROGRAM]).arg(home);
    command.args([instances.to_string(), watches.to_string()]);
    command
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    Some(Running::begun(home, command))
}

/// Returns the processor time that a process has used, in ticks of 10 ms.
fn cpu_ticks(gate: &Running) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", gate.0.id())).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    // utime and stime, the 14th and 15th fields of the whole line.
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Without events every request is answered within one or two heartbeats, and the watcher reports
/// the reason once.
#[test]
fn no_events_at_all() {
    for (instances, watches, words) in [
        (0, 1000, "no file events ("),
        (10, 0, "no file events for `spool"),
    ] {
        let scratch = Scratch::new();
        let home = scratch.home();
        let Some(gate) = starved(&home, instances, watches) else {
            return;
        };
        let mut sent = Vec::new();
        let mut longest = Duration::ZERO;
        for n in 0..4 {
            let query = scratch.query(&format!("q{n}"));
            let at = Instant::now();
            query.drop_into(&home);
            let path = home.join("spool/out").join(&query.name);
            until("an answer without events", || path.exists());
            longest = longest.max(at.elapsed());
            sent.push(query);
        }
        // The watcher waits and does not poll: two idle seconds take almost no processor time.
        let before = cpu_ticks(&gate);
        std::thread::sleep(Duration::from_secs(2));
        let used = cpu_ticks(&gate) - before;
        assert!(
            used < 30,
            "{instances} instances: {used} ticks of 10 ms in two idle seconds"
        );
        let said = gate.stop();
        let warnings: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("no file events"))
            .collect();
        assert!(
            warnings.len() == 1 && warnings[0].contains(words),
            "{instances} {watches}: {said}"
        );
        check_home(&home, &sent).unwrap_or_else(|error| panic!("{error}"));
        println!("{instances} instances, {watches} watches: answered within {longest:?}");
    }
}
