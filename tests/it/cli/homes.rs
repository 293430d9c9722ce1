//! Homes with faults.

use super::*;

#[test]
fn a_lost_checkpoint_is_named_and_renewed_by_the_next_start() {
    let scratch = Scratch::new();
    let home = scratch.home();
    fs::remove_file(home.join("audit/checkpoint")).unwrap();
    let done = spoolgate(&home, &["audit", "prove", "1"]);
    assert_eq!(done.status.code(), Some(6), "{}", show(&done));
    assert!(
        err(&done).contains("`checkpoint`: is not") && err(&done).contains("next start"),
        "{}",
        show(&done)
    );
}

/// Runs a shell script in a home.
#[track_caller]
fn sh(home: &Path, script: &str) {
    let mut sh = std::process::Command::new("sh");
    let done = sh.args(["-ec", script]).current_dir(home).status().unwrap();
    assert!(done.success(), "{script}");
}

/// A cache that cannot be read or written ends no start: it is kept under another name.
#[test]
fn what_is_in_the_place_of_a_cache_is_moved_aside() {
    for (script, told) in [
        (
            "rm audit/checkpoint; mkdir -p audit/checkpoint/full",
            "`audit/checkpoint.aside-1`",
        ),
        (
            "ln -sf nowhere audit/checkpoint",
            "`audit/checkpoint.aside-1`",
        ),
        (
            "rm -f audit/.checkpoint.tmp; mkdir -p audit/.checkpoint.tmp/full",
            "",
        ),
        ("rm -f audit/.reserve; mkdir -p audit/.reserve/full", ""),
        ("rm -rf state/watcher.json; mkdir state/watcher.json", ""),
    ] {
        let scratch = Scratch::new();
        let home = scratch.home();
        succeed(&home, &["run", "--until-idle"]);
        sh(&home, script);
        let said = show(&spoolgate(&home, &["run", "--until-idle"]));
        assert!(said.contains(told), "{script}: {said}");
        assert!(
            !said.contains("disk of the gate is full"),
            "{script}: {said}"
        );
        succeed(&home, &["account", "deposit", "5", "--reason", "more"]);
        // The newest head is published again.
        let head = fs::read_to_string(home.join("audit/checkpoint")).unwrap();
        let size: u64 = head.lines().nth(1).unwrap().parse().unwrap();
        assert!(size > 5, "{script}: {head}");
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert!(done.status.success(), "{script}: {}", show(&done));
        assert!(!err(&done).contains("aside"), "{}", show(&done));
        succeed(&home, &["audit", "verify"]);
    }
}

/// The checkpoint of another user, which the gate cannot read, is kept: it may name lines that the
/// log has lost.
#[test]
fn a_checkpoint_of_another_user_is_kept_and_told() {
    if let Some(what) = crate::kit::users::missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    succeed(&scratch.home(), &["run", "--until-idle"]);
    let place = crate::kit::folder();
    sh(place.path(), "chmod 0755 .");
    let home = place.path().join("home");
    crate::kit::users::settle(&scratch.home(), &home);
    sh(
        &home,
        "chown 0:0 audit/checkpoint; chmod 0640 audit/checkpoint",
    );
    let before = fs::read(home.join("audit/checkpoint")).unwrap();
    for told in [true, false] {
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert!(done.status.success(), "{}", show(&done));
        let is_told = err(&done).contains("`audit/checkpoint.aside-1`");
        assert_eq!(is_told, told, "{}", show(&done));
    }
    let kept = fs::read(home.join("audit/checkpoint.aside-1")).unwrap();
    assert_eq!(kept, before);
    // The next one gets a name of its own.
    sh(
        &home,
        "chown 0:0 audit/checkpoint; chmod 0640 audit/checkpoint",
    );
    let done = spoolgate(&home, &["run", "--until-idle"]);
    assert!(done.status.success(), "{}", show(&done));
    assert!(err(&done).contains("aside-2"), "{}", show(&done));
}

#[test]
fn init_reports_that_its_folder_is_not_empty() {
    let scratch = Scratch::new();
    let full = scratch.beside("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("letters"), "").unwrap();
    let made = succeed(&scratch.home(), &["init", full.to_str().unwrap()]);
    assert!(
        made.contains("not empty") && made.contains("`letters`"),
        "{made}"
    );
}

/// A gate starts only over folders of its own. The message names what is in the place of one, and
/// what is missing.
#[test]
fn an_object_in_the_place_of_a_folder_is_named() {
    let scratch = Scratch::new();
    let home = scratch.home();
    for (folder, program) in [
        ("spool/work", "run"),
        ("spool/in", "run"),
        ("council", "halt"),
    ] {
        let args: &[&str] = if program == "run" {
            &["run", "--until-idle"]
        } else {
            &["halt", "clear", "--reason", "x"]
        };
        let path = home.join(folder);
        let aside = home.join("aside");
        fs::rename(&path, &aside).unwrap();
        fs::write(&path, "").unwrap();
        let done = spoolgate(&home, args);
        assert_eq!(done.status.code(), Some(6), "{folder}: {}", show(&done));
        let told = format!("`{}` is a file or a link", path.display());
        assert!(
            err(&done).contains(&told) && err(&done).contains("move it away"),
            "{}",
            show(&done)
        );
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    // A full disk: this process may only write empty files.
    let full = "ulimit -f 0; trap '' XFSZ; exec \"$0\" init \"$1\"";
    let fresh = scratch.beside("fresh");
    let done = Command::new("sh")
        .args(["-c", full, PROGRAM, fresh.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(6), "{}", show(&done));
    assert!(
        err(&done).contains("/rules/safety.yaml`"),
        "{}",
        show(&done)
    );
    fs::rename(home.join("state"), home.join("aside")).unwrap();
    let done = spoolgate(&home, &["run", "--until-idle"]);
    assert!(
        err(&done).contains("state/keyring.db") && err(&done).contains("from a copy"),
        "{}",
        show(&done)
    );
    assert!(
        !err(&done).contains("spoolgate init"),
        "that refuses a home with a ledger: {}",
        show(&done)
    );
}

/// A home without limits refuses every entry, so `rules lint` must report a fault.
#[test]
fn rules_without_their_limits_are_a_fault() {
    let scratch = Scratch::new();
    let home = scratch.home();
    succeed(&home, &["rules", "lint"]);
    for all in [false, true] {
        if all {
            fs::remove_dir_all(home.join("rules")).unwrap();
            fs::create_dir(home.join("rules")).unwrap();
        } else {
            fs::remove_file(home.join("rules/safety.yaml")).unwrap();
        }
        let done = spoolgate(&home, &["rules", "lint"]);
        assert_eq!(done.status.code(), Some(2), "{}", show(&done));
        assert!(
            out(&done).contains("rules/safety.yaml: fault: missing"),
            "{}",
            show(&done)
        );
    }
    // Rules alone, which will be put into a home later, have none.
    let alone = scratch.beside("alone");
    fs::create_dir_all(alone.join("rules/core")).unwrap();
    succeed(&home, &["rules", "lint", alone.to_str().unwrap()]);
}

#[test]
fn looking_at_a_damaged_ledger_is_refused() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let log = home.join("audit/log-00000001.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("opening balance"));
    fs::write(&log, text.replace("opening balance", "opening balancE")).unwrap();
    fs::remove_file(home.join("state/state.db")).unwrap();
    let done = spoolgate(&home, &["portfolio"]);
    assert_eq!(done.status.code(), Some(5), "{}", show(&done));
    fs::write(&log, b"\xff\xfe\n").unwrap();
    let done = spoolgate(&home, &["audit", "tail"]);
    assert_eq!(done.status.code(), Some(5), "{}", show(&done));
}

#[test]
fn a_folder_without_a_log_is_named() {
    let empty = crate::kit::folder();
    let dir = empty.path().to_str().unwrap();
    let replayed = spoolgate(empty.path(), &["audit", "replay", dir]);
    assert_eq!(replayed.status.code(), Some(5));
    assert!(
        err(&replayed).contains(&format!("`{dir}` has no log")),
        "{}",
        err(&replayed)
    );
    let archived = spoolgate(empty.path(), &["audit", "archive"]);
    assert_eq!(archived.status.code(), Some(2));
    assert!(
        err(&archived).contains("is not a home"),
        "{}",
        err(&archived)
    );
}

#[test]
fn a_failed_init_can_be_repeated() {
    let dir = crate::kit::folder();
    let home = dir.path().join("home");
    let path = home.to_str().unwrap();
    let init = |args: &[&str]| {
        Command::new(PROGRAM)
            .args(["init", path])
            .args(args)
            .output()
            .unwrap()
    };
    for args in [
        &["--origin", "no name"][..],
        &["--person", "nobody"],
        &["--origin", ""],
    ] {
        let done = init(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", show(&done));
    }
    assert!(init(&[]).status.success());
    let again = init(&[]);
    assert_eq!(again.status.code(), Some(2), "{}", show(&again));
}

/// With a umask of 0, every agent on the machine could write the rules and the whole home.
#[test]
fn only_the_owner_may_write_a_home_whatever_the_umask_is() {
    let scratch = crate::kit::folder();
    let script = r#"umask 0; exec "$0" init "$1""#;
    let home = scratch.path().join("open");
    let done = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_spoolgate")])
        .arg(&home)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", err(&done));
    let mut folders = vec![home.clone()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            let mode = entry.metadata().unwrap().permissions().mode();
            // The lock contains nothing and is in a folder of mode 0700.
            if entry.file_name() != "lock" {
                assert_eq!(
                    mode & 0o022,
                    0,
                    "{} has mode {mode:o}",
                    entry.path().display()
                );
            }
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o022, 0);
}
