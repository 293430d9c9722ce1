//! Peak memory of the real watcher, measured: backlogs, 10 MB requests, deep JSON, a thousand
//! agents, all of it at once, and a long history. The budget of the architecture is 64 MiB.
//!
//! Small versions run by default. Those measured for docs/testing.md: `cargo test --release --test
//! it bounds:: -- --ignored --nocapture --test-threads 1`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::kit::process::{Running, until, until_durable};
use crate::kit::unlimited::lift_message_rates;
use crate::kit::{Scratch, command, names, sign, succeed};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_wire::signing::{SignKey, sha256_hex, unhex};

/// The memory that the watcher may use, in KiB.
const BUDGET_KIB: u64 = 64 * 1024;
/// The largest request, in bytes.
const LARGEST: usize = 10_000_000;

/// A watcher whose peak memory can be read while it runs.
struct Watched {
    gate: Running,
    began: Instant,
}

impl Watched {
    fn over(home: &Path) -> Watched {
        Watched {
            gate: Running::watch(home),
            began: Instant::now(),
        }
    }

    /// Returns the peak of resident memory so far, in KiB. A debug build has 30 MB of code, several
    /// times as much as the release build that the budget is for; so for a debug build, pages that
    /// are mapped from files are left out.
    fn peak_kib(&self) -> u64 {
        let (peak, of_files) = self.gate.memory_kib();
        if cfg!(debug_assertions) {
            peak.saturating_sub(of_files)
        } else {
            peak
        }
    }

    /// Waits until no request is left in these folders, not even a partial one, and returns the
    /// peak.
    fn drains(mut self, what: &str, home: &Path, folders: &[PathBuf], requests: usize) -> u64 {
        let work = home.join("spool/work");
        let is_request = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".json");
        loop {
            assert!(self.gate.is_running(), "{what}: the watcher ended");
            let waiting = folders
                .iter()
                .any(|folder| names(folder).iter().any(is_request));
            if !waiting && names(&work).is_empty() {
                break;
            }
            assert!(
                self.began.elapsed() < Duration::from_secs(1200),
                "{what}: 20 minutes are over"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        until_durable(home);
        let peak = self.peak_kib();
        let seconds = self.began.elapsed().as_secs();
        println!(
            "{what}: {requests} requests, {seconds} s, peak {}.{} MiB",
            peak / 1024,
            peak % 1024 * 10 / 1024
        );
        self.gate.stop();
        peak
    }
}

#[track_caller]
fn within_budget(what: &str, peak: u64) {
    assert!(
        peak <= BUDGET_KIB,
        "{what}: peak {peak} KiB of {BUDGET_KIB}"
    );
}

fn flat(home: &Path) -> PathBuf {
    home.join("spool/in")
}

fn answers(home: &Path) -> usize {
    names(&home.join("spool/out"))
        .iter()
        .filter(|name| name.to_string_lossy().ends_with(".json"))
        .count()
}

/// Half of the requests are good queries, half are forged.
fn backlog(scratch: &Scratch, count: usize) {
    lift_message_rates(&scratch.home());
    let forger = SignKey::Hmac([9; 32]);
    for n in 0..count {
        let id = format!("q{n:06}");
        let key = if n % 2 == 0 { &scratch.bot } else { &forger };
        let text = sign(key, "trend-bot", &id, "orders.list", "{}");
        fs::write(flat(&scratch.home()).join(format!("{id}.json")), text).unwrap();
    }
}

/// Returns requests of 10 MB, each the worst case for another part of reading: a description and
/// the text.
fn large(scratch: &Scratch, n: usize) -> (&'static str, String) {
    let id = format!("large-{n}");
    let signed = |payload: &str| {
        String::from_utf8(sign(&scratch.bot, "trend-bot", &id, "market.get", payload)).unwrap()
    };
    let room = LARGEST - 1000;
    let many = |part: &dyn Fn(usize) -> String| {
        let mut text = String::with_capacity(LARGEST);
        let mut k = 0;
        while text.len() < room {
            text.push_str(&part(k));
            k += 1;
        }
        text.pop();
        text
    };
    match n % 10 {
        0 => (
            "one signed string",
            signed(&format!(r#"{{"symbol":"{}"}}"#, "A".repeat(room))),
        ),
        1 => (
            "signed, all escapes",
            signed(&format!(r#"{{"symbol":"{}"}}"#, r"\u0041".repeat(room / 6))),
        ),
        2 => (
            "signed, short keys",
            signed(&format!("{{{}}}", many(&|k| format!("\"{k:x}\":1,")))),
        ),
        3 => (
            "signed, empty lists",
            signed(&format!(r#"{{"a":[{}]}}"#, many(&|_| "[],".to_owned()))),
        ),
        4 => (
            "signed, small objects",
            signed(&format!(
                r#"{{"a":[{}]}}"#,
                many(&|_| r#"{"a":0},"#.to_owned())
            )),
        ),
        5 => (
            "signed, escaped keys",
            signed(&format!(
                "{{{}}}",
                many(&|k| format!("\"\\u0041{k:x}\":1,"))
            )),
        ),
        6 => {
            let spaces = " ".repeat(room);
            (
                "signed, white space",
                signed("{}").replacen("{}", &format!("{{{spaces}}}"), 1),
            )
        }
        7 => {
            let text = signed(&format!(r#"{{"symbol":"{}"}}"#, "A".repeat(room)));
            ("forged", text.replace("market.get", "orders.list"))
        }
        8 => ("no JSON", "[".to_owned() + &"1,".repeat(room / 2)),
        _ => ("too large", "x".repeat(LARGEST + 1)),
    }
}

fn send_large(scratch: &Scratch, numbers: std::ops::Range<usize>) {
    for n in numbers {
        let (_, text) = large(scratch, n);
        let folder = flat(&scratch.home());
        fs::write(folder.join(format!(".large-{n}")), text).unwrap();
        fs::rename(
            folder.join(format!(".large-{n}")),
            folder.join(format!("large-{n}.json")),
        )
        .unwrap();
    }
}

/// Sends JSON at the limit of 64 levels, in every shape, and beyond it.
fn send_deep(scratch: &Scratch, count: usize) {
    for n in 0..count {
        let levels = [62, 63, 200, 100_000][n % 4];
        let (open, close) = [("[", "]"), ("{\"a\":", "}")][n / 4 % 2];
        let core = if open == "[" { "" } else { "0" };
        // As wide as it is deep: the same structure again and again.
        let deep = format!("{}{core}{}", open.repeat(levels), close.repeat(levels));
        let times = (60_000 / deep.len()).max(1);
        let payload = format!(r#"{{"deep":[{}]}}"#, vec![deep; times].join(","));
        let text = sign(
            &scratch.bot,
            "trend-bot",
            &format!("deep-{n}"),
            "market.get",
            &payload,
        );
        fs::write(flat(&scratch.home()).join(format!("deep-{n}.json")), text).unwrap();
    }
}

/// Keys of agents with spools of their own.
struct Agents(Vec<SignKey>);

impl Agents {
    fn found(scratch: &Scratch, count: usize) -> Agents {
        let home = scratch.home();
        lift_message_rates(&home);
        let path = home.join("rules/principals.yaml");
        let mut rules = fs::read_to_string(&path).unwrap().trim_end().to_owned();
        for n in 0..count {
            write!(
                rules,
                "\n  - {{name: agent-{n}, role: agent, spool: agent-{n}}}"
            )
            .unwrap();
        }
        fs::write(&path, rules + "\n").unwrap();
        let keyring = SqliteKeyring::open(&home, false).unwrap();
        let keys = (0..count)
            .map(|n| {
                let key = SignKey::Hmac(
                    unhex(&sha256_hex(format!("agent {n}").as_bytes()))
                        .unwrap()
                        .try_into()
                        .unwrap(),
                );
                let key_id = keyring.insert(&key.verify_key()).unwrap();
                let payload = format!(
                    r#"{{"principal":"agent-{n}","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#
                );
                let text = sign(
                    &scratch.owner,
                    "owner",
                    &format!("key-{n}"),
                    "keys.add",
                    &payload,
                );
                fs::write(flat(&home).join(format!("key-{n}.json")), text).unwrap();
                key
            })
            .collect();
        succeed(&home, &["run", "--until-idle"]);
        Agents(keys)
    }

    fn folders(&self, home: &Path) -> Vec<PathBuf> {
        (0..self.0.len())
            .map(|n| home.join(format!("spool/in/agent-{n}/new")))
            .collect()
    }

    fn send(&self, home: &Path, each: usize) {
        for (n, (key, folder)) in self.0.iter().zip(self.folders(home)).enumerate() {
            for k in 0..each {
                let text = sign(
                    key,
                    &format!("agent-{n}"),
                    &format!("r{k}"),
                    "orders.list",
                    "{}",
                );
                fs::write(folder.join(format!("r{k}.json")), text).unwrap();
            }
        }
    }

    fn answered(&self, home: &Path, each: usize) {
        for n in 0..self.0.len() {
            for k in 0..each {
                let path = home.join(format!("spool/out/agent-{n}/r{k}.json"));
                let answer =
                    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
                assert!(answer.contains("\"status\":\"success\""), "{answer}");
            }
        }
    }
}

fn a_backlog(count: usize) -> u64 {
    let scratch = Scratch::new();
    let home = scratch.home();
    backlog(&scratch, count);
    let peak = Watched::over(&home).drains("backlog", &home, &[flat(&home)], count);
    assert_eq!(answers(&home), count);
    assert_eq!(names(&home.join("spool/rejected")).len(), count / 2);
    peak
}

fn large_requests(count: usize) {
    let scratch = Scratch::new();
    let home = scratch.home();
    send_large(&scratch, 0..count);
    let peak = Watched::over(&home).drains("requests of 10 MB", &home, &[flat(&home)], count);
    assert_eq!(answers(&home), count);
    within_budget("requests of 10 MB", peak);
}

fn deep_requests(count: usize) {
    let scratch = Scratch::new();
    let home = scratch.home();
    send_deep(&scratch, count);
    let peak = Watched::over(&home).drains("deep JSON", &home, &[flat(&home)], count);
    assert_eq!(answers(&home), count);
    within_budget("deep JSON", peak);
}

fn many_agents(count: usize, each: usize) {
    let scratch = Scratch::new();
    let home = scratch.home();
    let agents = Agents::found(&scratch, count);
    agents.send(&home, each);
    let what = format!("{count} agents");
    let peak = Watched::over(&home).drains(&what, &home, &agents.folders(&home), count * each);
    agents.answered(&home, each);
    within_budget(&what, peak);
}

fn all_at_once(files: usize, larges: usize, deeps: usize, count: usize, each: usize) {
    let scratch = Scratch::new();
    let home = scratch.home();
    let agents = Agents::found(&scratch, count);
    agents.send(&home, each);
    backlog(&scratch, files);
    send_deep(&scratch, deeps);
    send_large(&scratch, 0..larges);
    let folders: Vec<PathBuf> = agents
        .folders(&home)
        .into_iter()
        .chain([flat(&home)])
        .collect();
    let requests = files + larges + deeps + count * each;
    let peak = Watched::over(&home).drains("all at once", &home, &folders, requests);
    assert_eq!(
        answers(&home),
        files + larges + deeps + count,
        "those to the requests for keys included"
    );
    agents.answered(&home, each);
    within_budget("all at once", peak);
}

/// Opening and running over this many lines needs as much as over a few.
fn long_history(count: usize, grows_kib: u64) {
    let scratch = Scratch::new();
    let home = scratch.home();
    let step = |requests: usize, name: &str| {
        for n in 0..requests {
            let query = scratch.query(&format!("{name}-{n}"));
            query.drop_into(&home);
        }
        Watched::over(&home).drains(name, &home, &[flat(&home)], requests)
    };
    let few = count.min(1000) / 3;
    let fresh = step(few, "fresh");
    step(count, "making-history");
    let lines: usize = crate::kit::log_bytes(&home)
        .iter()
        .map(|log| log.iter().filter(|byte| **byte == b'\n').count())
        .sum();
    assert!(lines > count);
    let old = step(few, "after-history");
    println!("{lines} lines of history: {fresh} KiB before, {old} KiB after");
    assert!(
        old <= fresh + grows_kib,
        "memory grows with history: {fresh} KiB, {old} KiB"
    );
    within_budget("a long history", old);
    // The same if everything is folded from the first line on.
    fs::remove_file(home.join("state/state.db")).unwrap();
    let rebuilt = step(1, "rebuilt");
    within_budget("folding all of it", rebuilt);
}

/// Sends a file as one frame and waits for the answer.
const ONE_FRAME: &str = "import socket, struct, sys\n\
    body = open(sys.argv[2], 'rb').read()\n\
    s = socket.socket(socket.AF_UNIX)\n\
    s.connect(sys.argv[1])\n\
    s.sendall(struct.pack('>I', len(body)) + body)\n\
    print(len(s.recv(4, socket.MSG_WAITALL)))\n";

/// Users who send frames of 10 MB at the same time take turns: the gate holds one of them.
#[test]
fn frames_of_10_mb_of_fourteen_users() {
    let mut python = Command::new("setpriv");
    python.args(["--reuid=64920", "--clear-groups", "python3", "-c", ""]);
    if !python.output().is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: needs root, setpriv and python3");
        return;
    }
    let users = 64_920_u32..64_934;
    let scratch = Scratch::new();
    let home = scratch.home();
    let path = home.join("rules/principals.yaml");
    let mut rules = fs::read_to_string(&path).unwrap().trim_end().to_owned();
    for user in users.clone() {
        write!(
            rules,
            "\n  - {{name: user-{user}, role: agent, unix_user: \"{user}\"}}"
        )
        .unwrap();
    }
    fs::write(&path, rules + "\n").unwrap();
    let outside = tempfile::tempdir().unwrap();
    let socket = outside.path().join("gate.sock");
    let frame = outside.path().join("frame");
    fs::write(&frame, large(&scratch, 2).1).unwrap();
    for path in [outside.path(), &frame] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let gate = command(&home, &["watch", "--socket", socket.to_str().unwrap()]);
    let gate = Watched {
        gate: Running::begun(&home, gate),
        began: Instant::now(),
    };
    let is_open = || fs::metadata(&socket).is_ok_and(|it| it.mode() & 0o777 == 0o666);
    until("users can connect", is_open);
    let sent: Vec<Child> = users
        .map(|user| {
            let mut sends = Command::new("setpriv");
            let user = format!("--reuid={user}");
            sends.args([&user, "--clear-groups", "python3", "-c", ONE_FRAME]);
            sends.args([&socket, &frame]).stdout(Stdio::piped());
            sends.spawn().unwrap()
        })
        .collect();
    for sends in sent {
        let done = sends.wait_with_output().unwrap();
        assert_eq!(String::from_utf8(done.stdout).unwrap(), "4\n");
    }
    let peak = gate.peak_kib();
    println!("14 users, frames of 10 MB: peak {} MiB", peak / 1024);
    within_budget("frames of 14 users", peak);
}

#[test]
fn a_backlog_of_3_000_files() {
    within_budget("backlog", a_backlog(3000));
}

#[test]
fn ten_requests_of_10_mb() {
    large_requests(10);
}

#[test]
fn deep_json() {
    deep_requests(16);
}

#[test]
fn a_hundred_agents() {
    many_agents(100, 3);
}

#[test]
fn a_little_of_all_at_once() {
    all_at_once(500, 3, 8, 20, 3);
}

#[test]
fn a_history_of_3_000_lines() {
    long_history(3000, 8 * 1024);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_a_backlog_of_100_000_files() {
    let small = a_backlog(10_000);
    let large = a_backlog(100_000);
    assert!(
        large <= small * 3 / 2 + 8 * 1024,
        "memory grows with the backlog: {small} KiB, {large} KiB"
    );
    within_budget("backlog", large);
}

#[test]
#[ignore = "measured for docs/testing.md: 2 GB of requests"]
fn measured_200_requests_of_10_mb() {
    large_requests(200);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_deep_json() {
    deep_requests(1000);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_a_thousand_agents() {
    many_agents(1000, 10);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_all_at_once() {
    all_at_once(20_000, 50, 200, 1000, 5);
}

#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_a_history_of_200_000_lines() {
    long_history(200_000, 8 * 1024);
}

/// Measures each kind of 10 MB request.
#[test]
#[ignore = "measured for docs/testing.md"]
fn measured_one_request_of_10_mb_of_each_kind() {
    let peaks: Vec<(&str, u64)> = (0..10)
        .map(|n| {
            let scratch = Scratch::new();
            let home = scratch.home();
            let (kind, _) = large(&scratch, n);
            send_large(&scratch, n..n + 1);
            (
                kind,
                Watched::over(&home).drains(kind, &home, &[flat(&home)], 1),
            )
        })
        .collect();
    peaks
        .into_iter()
        .for_each(|(kind, peak)| within_budget(kind, peak));
}
