//! Secrets at rest: what is in the keyring's file and in the memory of a gate, and what commands say
//! without its key.

use std::fs::{self, File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::kit::gateway_home::{DONE, exec, gateway, with_core};
use crate::kit::process::{Running, answered};
use crate::kit::{Scratch, Sent, command, show, sign, spoolgate, succeed};
use serde_json::Value;
use spoolgate_rules::gateway::ACTIONS;

const MAIL: &str = r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#;

/// Returns what a command that must fail with exit code 6 says.
#[track_caller]
fn storage(home: &Path, args: &[&str]) -> String {
    let done = spoolgate(home, args);
    assert_eq!(done.status.code(), Some(6), "{args:?}: {}", show(&done));
    String::from_utf8(done.stderr).unwrap()
}

fn private(file: &Path) {
    fs::set_permissions(file, Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_missing_or_other_key_is_told_with_what_to_do() {
    let scratch = Scratch::new();
    let (home, aside) = (scratch.home(), scratch.beside("aside"));
    let key = home.join("state/keyring.key");
    let orders: [&[&str]; 3] = [
        &["run", "--until-idle"],
        &["account", "deposit", "5", "--reason", "a test"],
        &["keys", "reseal", "--to", aside.to_str().unwrap()],
    ];
    let own = fs::read(&key).unwrap();
    fs::remove_file(&key).unwrap();
    for args in &orders[..2] {
        let told = storage(&home, args);
        assert!(
            told.contains("state/keyring.key`: is missing") && told.contains("--keyring-key"),
            "{told}"
        );
    }
    fs::write(&key, format!("{}\n", "ab".repeat(32))).unwrap();
    private(&key);
    for args in orders {
        let told = storage(&home, args);
        assert!(
            told.contains("state/keyring.key`: is ") && told.contains("--keyring-key"),
            "{told}"
        );
    }
    assert!(
        !aside.exists(),
        "no key is made for a keyring that does not open"
    );
    for text in ["", "ab", &"AB".repeat(32), &"ab".repeat(33)] {
        fs::write(&key, text).unwrap();
        assert!(
            storage(&home, orders[0]).contains("64 lower-case hex digits"),
            "{text}"
        );
    }
    fs::write(&key, &own).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o640)).unwrap();
    assert!(storage(&home, orders[0]).contains("chmod 600"));
    private(&key);
    succeed(&home, orders[0]);
    fs::rename(&key, &aside).unwrap();
    let named = ["--keyring-key", aside.to_str().unwrap()];
    succeed(&home, &[&named[..], orders[0]].concat());
    // systemd names a folder of credentials.
    let folder = scratch.beside("credentials");
    fs::create_dir(&folder).unwrap();
    fs::rename(&aside, folder.join("spoolgate-keyring")).unwrap();
    let mut gate = command(&home, orders[0]);
    let done = gate.env("CREDENTIALS_DIRECTORY", &folder).output().unwrap();
    assert!(done.status.success(), "{}", show(&done));
}

#[test]
fn a_key_without_end_is_not_read() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let named = |file: &Path| {
        let named = ["--keyring-key", file.to_str().unwrap()];
        storage(&home, &[&named[..], &["run", "--until-idle"]].concat())
    };
    for path in ["/dev/zero", "/dev/full", "/dev"] {
        let told = named(Path::new(path));
        assert!(
            told.contains("is neither a regular file nor a pipe"),
            "{told}"
        );
    }
    // No disk has room for what it holds.
    let endless = scratch.beside("endless.key");
    let file = File::create(&endless).unwrap();
    private(&endless);
    file.set_len(1 << 40).unwrap();
    let told = named(&endless);
    assert!(told.contains("64 lower-case hex digits"), "{told}");
}

#[test]
fn reseal_moves_the_key_out_of_the_home() {
    let scratch = Scratch::new();
    let (home, new) = (scratch.home(), scratch.beside("keyring.key"));
    let own = home.join("state/keyring.key");
    let doctor = |more: &[&str]| {
        let done = spoolgate(&home, &[more, &["doctor"]].concat());
        String::from_utf8(done.stdout).unwrap()
    };
    assert!(doctor(&[]).contains("a copy of this home has the key to its keyring"));
    let old = (
        fs::read(&own).unwrap(),
        fs::read(home.join("state/keyring.db")).unwrap(),
    );
    let to = new.to_str().unwrap();
    let reseal = ["keys", "reseal", "--to", to];
    {
        let _gate = Running::watching(&home);
        let busy = spoolgate(&home, &reseal);
        assert_eq!(busy.status.code(), Some(7), "{}", show(&busy));
        assert!(!new.exists());
    }
    succeed(&home, &reseal);
    assert!(!own.exists());
    storage(&home, &["run", "--until-idle"]);
    let named = ["--keyring-key", to];
    let run = [&named[..], &["run", "--until-idle"]].concat();
    succeed(&home, &run);
    assert!(!doctor(&named).contains("has the key to its keyring"));
    assert!(storage(&home, &[&named[..], &reseal].concat()).contains("already"));
    // Interrupted after the rows were rewritten, and before the old key was removed.
    fs::write(&own, &old.0).unwrap();
    private(&own);
    storage(&home, &["run", "--until-idle"]);
    succeed(&home, &reseal);
    assert!(!own.exists());
    succeed(&home, &run);
    // Interrupted after the new key was made, and before the rows were rewritten.
    fs::write(&own, &old.0).unwrap();
    private(&own);
    fs::write(home.join("state/keyring.db"), &old.1).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    storage(&home, &run);
    succeed(&home, &reseal);
    succeed(&home, &run);
    succeed(&home, &["audit", "verify"]);
}

#[test]
fn doctor_finds_a_key_inside_the_home_under_any_name() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let inside = home.join("proposals/a key");
    succeed(&home, &["keys", "reseal", "--to", inside.to_str().unwrap()]);
    let finding = |key: &Path| {
        let named = ["--keyring-key", key.to_str().unwrap()];
        let done = spoolgate(
            &home,
            &[&named[..], &["--format", "json", "doctor"]].concat(),
        );
        let told = String::from_utf8(done.stdout).unwrap();
        let mut found = told.lines().map(|line| serde_json::from_str(line).unwrap());
        found.find(|finding: &Value| finding["what"] == "keyring-key")
    };
    let found = finding(&inside).unwrap();
    assert_eq!(found["place"], "proposals/a key");
    let link = scratch.beside("folder");
    std::os::unix::fs::symlink(home.join("proposals"), &link).unwrap();
    assert!(finding(&link.join("a key")).is_some());
    let outside = scratch.beside("home.key");
    fs::rename(&inside, &outside).unwrap();
    assert_eq!(finding(&outside), None);
}

/// Whether a process has these bytes in memory. `None` if its memory may not be read.
fn is_in_memory(pid: u32, needle: &[u8]) -> Option<bool> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let mut memory = File::open(format!("/proc/{pid}/mem")).ok()?;
    let finder = memchr::memmem::Finder::new(needle);
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        memory.seek(SeekFrom::Start(from)).ok()?;
        let mut bytes = vec![0; usize::try_from(to - from).unwrap()];
        // Some areas, such as those of the kernel, cannot be read.
        if memory.read_exact(&mut bytes).is_ok() && finder.find(&bytes).is_some() {
            return Some(true);
        }
    }
    Some(false)
}

#[test]
fn after_thirty_runs_no_unused_credential_is_in_the_file_or_in_memory_in_clear() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mut rules: Value = serde_json::from_str(&gateway(&[exec(&ACTIONS, DONE, 30)])).unwrap();
    rules["anomalies"] = serde_json::json!({"burst_max": 1000});
    rules["rates"] = serde_json::json!({"per_hour": {"email.send": 1000}, "all_per_hour": 1000});
    let core = with_core(&scratch, &rules.to_string());
    let secrets = [
        ("mail", "a-secret-that-is-used"),
        ("bank", "a-secret-that-is-never-used"),
    ];
    for (service, secret) in secrets {
        let file = scratch.beside(service);
        fs::write(&file, secret).unwrap();
        private(&file);
        let set = [
            "services",
            "credential",
            "set",
            service,
            "--from",
            file.to_str().unwrap(),
        ];
        succeed(&home, &set);
    }
    let gate = Running::watching(&home);
    let pid = gate.0.id();
    for n in 0..30 {
        let id = format!("m{n}");
        let sent = Sent::new(
            &format!("{id}.json"),
            sign(&core, "core", &id, "email.send", MAIL),
        );
        sent.drop_into(&home);
        let answer = answered(&home, &format!("{id}.json"));
        assert_eq!(answer["status"], "success", "{answer}");
    }
    for (_, secret) in secrets {
        let file = fs::read(home.join("state/keyring.db")).unwrap();
        assert!(
            !file
                .windows(secret.len())
                .any(|part| part == secret.as_bytes())
        );
    }
    if is_in_memory(pid, b"spoolgate") != Some(true) {
        println!("skipped: the memory of another process cannot be read here");
        return;
    }
    for (_, secret) in secrets {
        assert_eq!(
            is_in_memory(pid, secret.as_bytes()),
            Some(false),
            "{secret}"
        );
    }
}
