//! The log has lost a line for which something was released: the gate refuses to start, names the
//! file and the end of the log, and carries nothing out again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, SystemTime};

use crate::kit::gateway_home::{NOTED, exec, gateway, let_trend_bot_act};
use crate::kit::process::until;
use crate::kit::{Scratch, Sent, names, segments, show, spoolgate, succeed};

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;
const INDEX: [&str; 3] = ["state/state.db", "state/state.db-wal", "state/state.db-shm"];

/// A home whose adapter has sent one mail, with copies of what was there before.
struct Sending {
    scratch: Scratch,
    home: PathBuf,
    mail: Sent,
    log: PathBuf,
    log_bytes: u64,
    before: Vec<(PathBuf, Option<Vec<u8>>)>,
}

fn sending() -> Sending {
    let scratch = Scratch::new();
    let home = scratch.home();
    crate::kit::uncaged(&home);
    let_trend_bot_act(&home);
    fs::write(
        home.join("rules/gateway.yaml"),
        gateway(&[exec(&["email.send"], NOTED, 10)]),
    )
    .unwrap();
    succeed(&home, &["run", "--until-idle"]);
    let mail = Sent::new("m1.json", scratch.request("m1", "email.send", MAIL));
    let mut sending = Sending {
        scratch,
        home,
        mail,
        log: PathBuf::new(),
        log_bytes: 0,
        before: Vec::new(),
    };
    sending.remember();
    sending.mail.drop_into(&sending.home);
    succeed(&sending.home, &["run", "--until-idle"]);
    assert_eq!(ran(&sending.home), 1);
    sending
}

fn ran(home: &Path) -> usize {
    let ran = fs::read_to_string(home.join("ran")).unwrap_or_default();
    ran.lines().count()
}

impl Sending {
    /// Copies what is there now, for the next loss.
    fn remember(&mut self) {
        let kept = INDEX.iter().chain(&["audit/checkpoint"]);
        self.before = kept
            .map(|name| self.home.join(name))
            .map(|path| (path.clone(), fs::read(path).ok()))
            .collect();
        self.log = segments(&self.home).pop().unwrap();
        self.log_bytes = fs::metadata(&self.log).unwrap().len();
    }

    /// Takes from the log all that was written since, but for some bytes of the first batch, and
    /// puts everything else back but the answers, as if the medium had lost it.
    fn lose(&self, keep_bytes: u64) {
        let log = File::options().write(true).open(&self.log).unwrap();
        log.set_len(self.log_bytes + keep_bytes).unwrap();
        for (path, bytes) in &self.before {
            let _ = fs::remove_file(path);
            if let Some(bytes) = bytes {
                fs::write(path, bytes).unwrap();
            }
        }
    }

    fn run(&self) -> Output {
        spoolgate(&self.home, &["run", "--until-idle"])
    }

    #[track_caller]
    fn is_refused(&self, args: &[&str], file: &str) {
        let refused = spoolgate(&self.home, args);
        assert_eq!(
            refused.status.code(),
            Some(5),
            "{args:?}: {}",
            show(&refused)
        );
        for part in [file, "the log ends before line", "accept-rollback"] {
            assert!(show(&refused).contains(part), "{part}: {}", show(&refused));
        }
        assert_eq!(ran(&self.home), 1, "{args:?}: it was carried out again");
    }
}

#[test]
fn an_answer_for_a_line_that_the_log_lost() {
    // The log ends at a seal, or within the batch of the request.
    for keep_bytes in [0, 1, 200] {
        let home = sending();
        home.lose(keep_bytes);
        home.mail.drop_into(&home.home);
        let answer = home.home.join("spool/out/m1.json");
        for _ in 0..2 {
            home.is_refused(&["run", "--until-idle"], "spool/out/m1.json");
        }
        home.is_refused(&["rebuild"], "spool/out/m1.json");
        let doctor = spoolgate(&home.home, &["doctor"]);
        assert!(
            show(&doctor).contains("spool/out/m1.json"),
            "{}",
            show(&doctor)
        );
        assert!(names(&home.home.join("spool/in")).contains(&home.mail.name));
        let head = answer.to_str().unwrap();
        let accepted = [
            "audit",
            "accept-rollback",
            "--head",
            head,
            "--reason",
            "a disk was lost",
        ];
        assert!(succeed(&home.home, &accepted).contains("resumed from"));
        // A person has decided, and the file that is still there does not stop the next starts.
        for _ in 0..2 {
            assert!(home.run().status.success(), "{}", show(&home.run()));
        }
        assert_eq!(ran(&home.home), 2);
        let verified = succeed(&home.home, &["audit", "verify"]);
        let is_torn = verified.contains("torn batches (not known to be answered)");
        assert_eq!(is_torn, keep_bytes > 0, "{verified}");
        for path in INDEX {
            let _ = fs::remove_file(home.home.join(path));
        }
        assert!(home.run().status.success(), "{}", show(&home.run()));
    }
}

/// After a person gave up a loss, the log loses lines once more. Their numbers are those of lines that
/// were given up, so only the time of the file tells.
#[test]
fn a_second_loss_after_an_accepted_rollback() {
    let mut home = sending();
    let accept = |home: &Sending, file: &str| {
        let head = home.home.join(file);
        let head = head.to_str().unwrap();
        let args = ["--head", head, "--reason", "a disk was lost"];
        succeed(
            &home.home,
            &[&["audit", "accept-rollback"][..], &args].concat(),
        );
    };
    for n in 0..8 {
        home.scratch.query(&format!("q{n}")).drop_into(&home.home);
        assert!(home.run().status.success());
    }
    home.lose(0);
    home.is_refused(&["run", "--until-idle"], "spool/out/q7.json");
    accept(&home, "spool/out/q7.json");
    for _ in 0..2 {
        assert!(home.run().status.success(), "{}", show(&home.run()));
    }
    home.remember();
    // A file counts as newer than the log from two seconds on.
    let newer = SystemTime::now() + Duration::from_millis(2001);
    until("the clock goes on", || SystemTime::now() > newer);
    home.scratch.query("second").drop_into(&home.home);
    assert!(home.run().status.success());
    home.lose(0);
    home.is_refused(&["run", "--until-idle"], "spool/out/second.json");
    let doctor = spoolgate(&home.home, &["doctor"]);
    assert!(
        show(&doctor).contains("spool/out/second.json"),
        "{}",
        show(&doctor)
    );
    accept(&home, "spool/out/second.json");
    for _ in 0..2 {
        assert!(home.run().status.success(), "{}", show(&home.run()));
    }
    // Without the index nothing is known before the scan, which reads both decisions.
    for path in INDEX {
        let _ = fs::remove_file(home.home.join(path));
    }
    assert!(home.run().status.success(), "{}", show(&home.run()));
    succeed(&home.home, &["audit", "verify"]);
}

/// A command that decides one request does not list the answers each time, but does so after a
/// death: if there is a torn tail, or a claim.
#[test]
fn commands_refuse_after_a_death() {
    let deposit = ["account", "deposit", "5", "--reason", "more"];
    let torn = sending();
    torn.lose(10);
    torn.is_refused(&deposit, "spool/out/m1.json");
    let claimed = sending();
    claimed.lose(0);
    let claim = claimed.home.join("spool/work/1~9~flat~m1.json");
    fs::write(&claim, &claimed.mail.bytes).unwrap();
    claimed.is_refused(&deposit, "spool/out/m1.json");
    fs::remove_file(claim).unwrap();
    succeed(&claimed.home, &deposit);
}

/// Instructions and forwarded tasks count like answers, also if somebody set their time back; other
/// files, older files and files of other users do not.
#[test]
fn which_files_count() {
    let answer = r#"{"requestId":"x","timestamp":"2026-03-02T12:00:00.000Z","status":"success","auditRef":"90000"}"#;
    let home = sending();
    let old = home.scratch.beside("old");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("x.json"), answer).unwrap();
    // A file counts as older than a line from two seconds on.
    let newer = SystemTime::now() + Duration::from_millis(2001);
    until("the clock goes on", || SystemTime::now() > newer);
    home.lose(0);
    fs::remove_file(home.home.join("spool/out/m1.json")).unwrap();
    let is_fine = |what: &str| {
        let done = home.run();
        assert!(done.status.success(), "{what}: {}", show(&done));
    };
    is_fine("nothing was released");
    let agents = home.home.join("spool/out/trend-bot");
    fs::rename(&old, &agents).unwrap();
    is_fine("an older file");
    fs::remove_dir_all(&agents).unwrap();
    let put = |path: &str, text: &str| {
        let path = home.home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    };
    for (path, text) in [
        ("spool/out/x.json", answer),
        ("spool/out/trend-bot/x.json", answer),
        ("spool/local/out/x.json", answer),
        (
            "spool/outbox/kraken/o-1.1.json",
            r#"{"order_id":"o-1","version":1,"line":"90000"}"#,
        ),
        (
            "spool/forward/agents/r-90000.json",
            r#"{"receipt_id":"r-90000","request_id":"x"}"#,
        ),
    ] {
        let put = put(path, text);
        home.is_refused(&["run", "--until-idle"], path);
        let year = SystemTime::now() - Duration::from_secs(365 * 86_400);
        File::options()
            .write(true)
            .open(&put)
            .unwrap()
            .set_modified(year)
            .unwrap();
        home.is_refused(&["run", "--until-idle"], path);
        fs::remove_file(&put).unwrap();
    }
    for (path, text) in [
        ("spool/out/.x.json.tmp", answer),
        ("spool/out/.x.json", answer),
        (
            "spool/out/x.decision.json",
            r#"{"final_outcome":"APPROVE"}"#,
        ),
        ("spool/out/x.json", "{"),
        ("spool/out/x.json", r#"{"auditRef":"a"}"#),
        ("spool/out/x.json", r#"{"auditRef":90000}"#),
        ("spool/out/trend-bot/below/x.json", answer),
    ] {
        let put = put(path, text);
        is_fine(path);
        fs::remove_file(&put).unwrap();
    }
    let linked = home.scratch.beside("x.json");
    fs::write(&linked, answer).unwrap();
    std::os::unix::fs::symlink(&linked, home.home.join("spool/out/x.json")).unwrap();
    is_fine("a link");
    fs::remove_file(home.home.join("spool/out/x.json")).unwrap();
    // Only the superuser can give a file away.
    let of_others = put("spool/out/x.json", answer);
    if std::os::unix::fs::chown(&of_others, Some(12_345), None).is_ok() {
        is_fine("a file of another user");
    }
}

/// The line before the end of the log is there, and the line at its end is not.
#[test]
fn at_the_end_of_the_log() {
    let home = sending();
    let lines = || {
        let told = succeed(&home.home, &["--format", "json", "audit", "verify"]);
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told["lines"].as_u64().unwrap()
    };
    let put = |line: u64| {
        let text = format!(
            r#"{{"requestId":"x","timestamp":"2026-03-02T12:00:00.000Z","status":"success","auditRef":"{line}"}}"#
        );
        fs::write(home.home.join("spool/out/x.json"), text).unwrap();
    };
    put(lines() - 1);
    assert!(home.run().status.success());
    for behind in [0, 1] {
        put(lines() + behind);
        home.is_refused(&["run", "--until-idle"], "spool/out/x.json");
    }
}
