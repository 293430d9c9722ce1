//! What `doctor` finds in a home.

use super::*;

/// A home without faults. As root it belongs to another user, as it should.
struct Sound {
    dir: TempDir,
}

impl Sound {
    fn new() -> Sound {
        let dir = crate::kit::folder();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let sound = Sound { dir };
        succeed(&sound.home(), &["init", sound.home().to_str().unwrap()]);
        fs::write(sound.home().join("rules/notify.yaml"), TOLD).unwrap();
        sound.give_away();
        sound
    }

    /// As root: gives it to a user who is not root.
    fn give_away(&self) {
        if geteuid().is_root() {
            let all = walk(&self.home());
            all.iter()
                .for_each(|path| lchown(path, Some(GATE), Some(GATE)).unwrap());
        }
    }

    fn copy(&self) -> Sound {
        let dir = crate::kit::folder();
        mode(dir.path().to_owned(), 0o755);
        let done = Command::new("cp")
            .arg("-a")
            .arg(self.home())
            .arg(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
        Sound { dir }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    if folder.symlink_metadata().unwrap().is_dir() {
        found.extend(
            fs::read_dir(folder)
                .unwrap()
                .flat_map(|entry| walk(&entry.unwrap().path())),
        );
    }
    found
}

/// Returns findings worse than a note, as level, what and place.
fn bad(found: &[Finding]) -> Vec<(Level, &'static str, String)> {
    let bad = found.iter().filter(|finding| finding.level > Level::Note);
    for finding in bad.clone() {
        assert!(
            finding
                .remedy
                .as_ref()
                .is_some_and(|remedy| !remedy.is_empty()),
            "{finding:?}"
        );
    }
    bad.map(|finding| (finding.level, finding.what, finding.place.clone()))
        .collect()
}

fn rewrite(path: PathBuf, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let bytes = change(fs::read(&path).unwrap());
    fs::write(path, bytes).unwrap();
}

type Breaks = fn(&Path);

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_fault_is_found_and_nothing_else() {
    let cases: [(&str, Breaks, Level, &str, &str); 26] = [
        (
            "scripts of everybody",
            |home| mode(home.join("deploy"), 0o777),
            Level::Error,
            "mode",
            "deploy",
        ),
        (
            "schemas of everybody",
            |home| mode(home.join("schemas"), 0o777),
            Level::Error,
            "mode",
            "schemas",
        ),
        (
            "a ledger that is elsewhere",
            |home| {
                fs::rename(home.join("audit"), home.join("elsewhere")).unwrap();
                symlink("elsewhere", home.join("audit")).unwrap();
            },
            Level::Error,
            "link",
            "audit",
        ),
        (
            "a spool that is elsewhere",
            |home| {
                fs::rename(home.join("spool/in"), home.join("elsewhere")).unwrap();
                symlink("../elsewhere", home.join("spool/in")).unwrap();
            },
            Level::Error,
            "link",
            "spool/in",
        ),
        (
            "a file for a folder",
            |home| {
                fs::remove_dir_all(home.join("spool/out")).unwrap();
                fs::write(home.join("spool/out"), "").unwrap();
            },
            Level::Error,
            "home",
            "spool/out",
        ),
        (
            "rules without limits",
            |home| fs::remove_file(home.join("rules/safety.yaml")).unwrap(),
            Level::Error,
            "rules",
            "rules",
        ),
        (
            "a state to look into",
            |home| mode(home.join("state"), 0o750),
            Level::Error,
            "mode",
            "state",
        ),
        (
            "a ledger to look into",
            |home| mode(home.join("audit"), 0o755),
            Level::Error,
            "mode",
            "audit",
        ),
        (
            "rules of a group",
            |home| mode(home.join("rules"), 0o775),
            Level::Error,
            "mode",
            "rules",
        ),
        (
            "a rule of everybody",
            |home| mode(home.join("rules/safety.yaml"), 0o646),
            Level::Error,
            "mode",
            "rules/safety.yaml",
        ),
        (
            "a segment of a group",
            |home| mode(home.join("audit/log-00000001.jsonl"), 0o664),
            Level::Error,
            "mode",
            "audit/log-00000001.jsonl",
        ),
        (
            "a home of everybody",
            |home| mode(home.to_owned(), 0o777),
            Level::Error,
            "mode",
            ".",
        ),
        (
            "answers of everybody",
            |home| mode(home.join("spool/out"), 0o777),
            Level::Error,
            "mode",
            "spool/out",
        ),
        (
            "a spool without a sticky bit",
            |home| mode(home.join("spool/in"), 0o733),
            Level::Warning,
            "mode",
            "spool/in",
        ),
        (
            "a spool that the group can list",
            |home| mode(home.join("spool/in"), 0o1770),
            Level::Warning,
            "mode",
            "spool/in",
        ),
        (
            "a spool that everybody can list",
            |home| mode(home.join("spool/in"), 0o1737),
            Level::Warning,
            "mode",
            "spool/in",
        ),
        (
            "a script for root",
            |home| mode(home.join("deploy/users.sh"), 0o666),
            Level::Error,
            "mode",
            "deploy/users.sh",
        ),
        (
            "a key to read",
            |home| {
                fs::write(home.join("bot.key"), "{}").unwrap();
                mode(home.join("bot.key"), 0o644);
            },
            Level::Error,
            "key-file",
            "bot.key",
        ),
        (
            "a program to change",
            |home| adapter(home, "./act", 0o777),
            Level::Error,
            "program",
            "act",
        ),
        (
            "a program that cannot be run",
            |home| adapter(home, "./act", 0o644),
            Level::Warning,
            "program",
            "act",
        ),
        (
            "no program",
            |home| adapter(home, "bin/missing", 0o755),
            Level::Warning,
            "program",
            "bin/missing",
        ),
        (
            "a rule that is none",
            |home| rewrite(home.join("rules/safety.yaml"), |_| b"max: [".to_vec()),
            Level::Error,
            "rules",
            "rules",
        ),
        (
            "an index that is none",
            |home| rewrite(home.join("state/state.db"), |_| vec![7; 9000]),
            Level::Warning,
            "state",
            "state/state.db",
        ),
        (
            "no keys",
            |home| fs::remove_file(home.join("state/keyring.db")).unwrap(),
            Level::Error,
            "log-keys",
            "state/keyring.db",
        ),
        (
            "a ledger that is none",
            |home| rewrite(home.join("audit/log-00000001.jsonl"), |_| b"{}\n".to_vec()),
            Level::Error,
            "ledger",
            "audit",
        ),
        (
            "somebody's lock",
            |_| {},
            Level::Warning,
            "lock",
            "state/lock",
        ),
    ];
    let model = Sound::new();
    // An index and a lock file exist from the first run on.
    succeed(&model.home(), &["run", "--until-idle"]);
    model.give_away();
    for (name, breaks, level, what, place) in cases {
        let sound = model.copy();
        let home = sound.home();
        assert_eq!(bad(&examine(&home, None)), [], "before {name}");
        breaks(&home);
        let lock = (what == "lock").then(|| fs::File::open(home.join("state/lock")).unwrap());
        lock.iter().for_each(|lock| lock.lock().unwrap());
        assert_eq!(
            bad(&examine(&home, None)),
            [(level, what, place.to_owned())],
            "{name}"
        );
        let exit = if level == Level::Error { 1 } else { 0 };
        let done = spoolgate(&home, &["doctor"]);
        assert_eq!(done.status.code(), Some(exit), "{name}: {}", show(&done));
        // The advice is run exactly as it is printed, and helps.
        if ["mode", "link", "home", "key-file"].contains(&what) {
            let found = examine(&home, None);
            let remedies = found.iter().filter(|found| found.level > Level::Note);
            for remedy in remedies.filter_map(|found| found.remedy.as_deref()) {
                let typed = Command::new("sh").args(["-c", remedy]).output().unwrap();
                assert!(typed.status.success(), "{name}: {remedy}: {}", show(&typed));
            }
            assert_eq!(bad(&examine(&home, None)), [], "after {name}");
        }
    }
}

/// Leftovers of earlier runs, and credentials that fit no service any more.
#[test]
fn leftovers_and_stale_credentials_are_found() {
    let sound = Sound::new();
    let home = sound.home();
    let token = sound.dir.path().join("token");
    fs::write(&token, "secret").unwrap();
    mode(token.clone(), 0o600);
    let add = "services add bank api.bank.example --method GET";
    succeed(&home, &add.split(' ').collect::<Vec<_>>());
    // The command runs as the owner of the home.
    let owner = fs::metadata(home.join("state")).unwrap().uid();
    std::os::unix::fs::chown(&token, Some(owner), None).unwrap();
    succeed(
        &home,
        &[
            "services",
            "credential",
            "set",
            "bank",
            "--from",
            token.to_str().unwrap(),
        ],
    );
    sound.give_away();
    assert_eq!(bad(&examine(&home, None)), []);
    let told = |what: &str| -> Vec<Finding> {
        examine(&home, None)
            .into_iter()
            .filter(|found| found.what == what)
            .collect()
    };
    assert_eq!(told("leftover"), []);
    // No process has this number, and none of these requests was completed.
    let socket = home.join(".s7ffffff0.1");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    fs::write(home.join("spool/work/torn"), "{").unwrap();
    fs::remove_dir(home.join("spool/rejected")).unwrap();
    let left: Vec<String> = told("leftover")
        .iter()
        .map(|found| found.place.clone())
        .collect();
    assert_eq!(left, [".s7ffffff0.1", "spool/work"]);
    let gone: Vec<(Level, String)> = told("home")
        .into_iter()
        .map(|found| (found.level, found.place))
        .collect();
    assert_eq!(gone, [(Level::Note, "spool/rejected".to_owned())]);

    rewrite(home.join("rules/services.yaml"), |text| {
        String::from_utf8(text)
            .unwrap()
            .replace("api.bank.example", "api.other.example")
            .into_bytes()
    });
    succeed(&home, &["run", "--until-idle"]);
    let lent = told("credential");
    assert!(
        lent.len() == 1 && lent[0].message.contains("`api.bank.example`"),
        "{lent:?}"
    );
    assert_eq!(
        (lent[0].level, lent[0].place.as_str()),
        (Level::Warning, "rules/services.yaml")
    );
    rewrite(home.join("rules/services.yaml"), |_| {
        b"services: []\n".to_vec()
    });
    succeed(&home, &["run", "--until-idle"]);
    let lent = told("credential");
    assert!(
        lent.len() == 1 && lent[0].message.contains("is not a service"),
        "{lent:?}"
    );
    assert!(
        lent[0]
            .remedy
            .as_ref()
            .unwrap()
            .ends_with("services credential remove bank"),
        "{lent:?}"
    );

    // A file of root's, in the home of another user, whose gate may not be able to continue with it.
    if geteuid().is_root() {
        let checkpoint = home.join("audit/checkpoint");
        let text = fs::read(&checkpoint).unwrap();
        fs::remove_file(&checkpoint).unwrap();
        fs::write(&checkpoint, text).unwrap();
        let roots = told("owner");
        let places: BTreeSet<&str> = roots.iter().map(|found| found.place.as_str()).collect();
        assert!(
            places.contains("audit") && roots.iter().all(|found| found.level == Level::Error),
            "{roots:?}"
        );
        for remedy in roots.iter().filter_map(|found| found.remedy.as_deref()) {
            let typed = Command::new("sh").args(["-c", remedy]).output().unwrap();
            assert!(typed.status.success(), "{remedy}: {}", show(&typed));
        }
        assert_eq!(told("owner"), []);
    }
}

/// A volume of its own keeps agents from filling the disk of the ledger.
#[test]
fn the_spool_may_be_a_volume_and_its_folders_may_not() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root mounts");
        return;
    }
    let dir = crate::kit::folder();
    let home = dir.path().join("home");
    succeed(&home, &["init", home.to_str().unwrap()]);
    let places = || {
        let found = spoolgate(&home, &["--format", "json", "doctor"]).stdout;
        let lines = String::from_utf8(found).unwrap();
        let found = lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        found
            .filter(|found: &Value| found["what"] == "file-system" && found["level"] == "error")
            .map(|found| found["place"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for (folder, expect) in [
        ("spool", &[][..]),
        ("spool/in", &["spool/in"]),
        ("audit", &["audit"]),
    ] {
        let (place, aside) = (home.join(folder), dir.path().join("aside"));
        fs::rename(&place, &aside).unwrap();
        fs::create_dir(&place).unwrap();
        let script = "mount -t tmpfs -o size=32m tmpfs \"$1\" && cp -a \"$2\"/. \"$1\"";
        let sh = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-ec", script, "sh"]).args([&place, &aside]);
            command.output().unwrap()
        };
        let mounted = sh(script);
        if !mounted.status.success() {
            eprintln!("skipped: {}", show(&mounted));
            return;
        }
        let found = places();
        let worked = spoolgate(&home, &["halt", "set", "--reason", "a drill"]);
        let unmounted = sh("umount \"$1\" && rmdir \"$1\" && mv \"$2\" \"$1\"");
        assert!(unmounted.status.success(), "{}", show(&unmounted));
        assert_eq!(found, expect, "{folder}");
        assert!(worked.status.success(), "{folder}: {}", show(&worked));
    }
}

#[test]
fn a_clock_that_is_older_than_the_ledger_is_found() {
    let dir = crate::kit::folder();
    let home = dir.path().join("home");
    succeed(&home, &["init", home.to_str().unwrap()]);
    // The same home, made at a time far from now.
    fs::remove_dir_all(home.join("audit")).unwrap();
    fs::remove_dir_all(home.join("state")).unwrap();
    let mut seams = real_seams(&home).unwrap();
    seams.clock = Arc::new(ManualClock::at(
        Time::parse("2190-01-01T00:00:00Z").unwrap(),
    ));
    layout::found(
        &home,
        &seams,
        "gate.example",
        &Principal::parse("owner").unwrap(),
    )
    .unwrap();
    let found = bad(&examine(&home, None));
    assert!(
        found.contains(&(Level::Warning, "clock", "clock".to_owned())),
        "{found:?}"
    );
}

/// Agents that may write to the flat spool can make a folder there under the name of another agent, which
/// has no spool of its own yet.
#[test]
fn a_spool_that_an_agent_made_for_another_is_found() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root gives folders away");
        return;
    }
    let sound = Sound::new();
    let home = sound.home();
    let is_foreign = || {
        let found = examine(&home, None);
        let is_it = |f: &&Finding| f.message.contains("does not use it as a spool");
        assert!(found.iter().all(|f| f.level < Level::Error), "{found:?}");
        found.iter().filter(is_it).count()
    };
    let new = home.join("spool/in/hermes/new");
    let own = home.join("spool/in/hermes");
    fs::create_dir_all(&new).unwrap();
    let gate = home.metadata().unwrap().uid();
    for (path, uid, foreign) in [
        (&own, gate, 0),
        (&new, gate, 0),
        (&new, 61_999, 1),
        (&own, 61_999, 2),
    ] {
        chown(path, Some(uid), None).unwrap();
        assert_eq!(is_foreign(), foreign, "{} of {uid}", path.display());
    }
}

#[test]
fn doctor_finds_what_an_agent_could_do() {
    let stranger = || User {
        name: "stranger".to_owned(),
        uid: 61_999,
        gids: BTreeSet::from([61_888]),
    };
    let cases: [(&str, Breaks, &str); 6] = [
        ("nothing", |_| {}, ""),
        (
            "the keys",
            |home| {
                mode(home.join("state"), 0o711);
                mode(home.join("state/keyring.db"), 0o644);
            },
            "state/keyring.db",
        ),
        ("rules", |home| mode(home.join("rules"), 0o777), "rules"),
        (
            "a limit",
            |home| mode(home.join("rules/safety.yaml"), 0o666),
            "rules/safety.yaml",
        ),
        (
            "the whole home",
            |home| mode(home.parent().unwrap().to_owned(), 0o777),
            "/",
        ),
        ("a program", |home| adapter(home, "./act", 0o757), "act"),
    ];
    for (name, breaks, place) in cases {
        let sound = Sound::new();
        let home = sound.home();
        mode(home.join("spool/in"), 0o1733);
        breaks(&home);
        let found = examine(&home, Some(stranger()));
        let agents: Vec<_> = found
            .iter()
            .filter(|f| {
                f.level > Level::Note
                    && f.message.contains("agent") | f.message.contains("stranger")
            })
            .collect();
        if place.is_empty() {
            assert!(bad(&found).is_empty(), "{name}: {found:?}");
        } else {
            assert!(
                agents
                    .iter()
                    .any(|f| f.level == Level::Error && f.place.starts_with(place)),
                "{name}: {found:?}"
            );
        }
    }
    let sound = Sound::new();
    let shut = examine(&sound.home(), Some(stranger()));
    assert_eq!(
        bad(&shut),
        [(Level::Warning, "agent", "spool/in".to_owned())]
    );
    let own = User {
        name: "own".to_owned(),
        uid: fs::metadata(sound.home()).unwrap().uid(),
        gids: BTreeSet::new(),
    };
    assert_eq!(
        bad(&examine(&sound.home(), Some(own))),
        [(Level::Error, "agent", ".".to_owned())]
    );
    let nobody = spoolgate(&sound.home(), &["doctor", "--agent-user", "no-such-user"]);
    assert_eq!(nobody.status.code(), Some(2), "{}", show(&nobody));
}

#[test]
fn doctor_changes_nothing_beside_a_gate_or_without_a_home() {
    let shape = |folder: &Path| -> BTreeMap<PathBuf, (u32, u64, i64, i64)> {
        let of = |path: &PathBuf| path.symlink_metadata().unwrap();
        let all = walk(folder).into_iter().map(|path| (of(&path), path));
        all.map(|(meta, path)| {
            (
                path,
                (meta.mode(), meta.size(), meta.mtime(), meta.mtime_nsec()),
            )
        })
        .collect()
    };
    let scratch = Scratch::new();
    let home = scratch.home();
    let before = shape(&home);
    let done = spoolgate(&home, &["--format", "json", "doctor"]);
    assert_eq!(shape(&home), before);
    for line in String::from_utf8(done.stdout).unwrap().lines() {
        let finding: Value = serde_json::from_str(line).unwrap();
        assert!(
            ["ok", "note", "warning", "error"].contains(&finding["level"].as_str().unwrap()),
            "{line}"
        );
    }
    let gate = Gate::start(&home, &[]);
    let beside = succeed(&home, &["doctor"]);
    assert!(
        beside.contains(&format!("a gate is running: process {}", gate.child.id())),
        "{beside}"
    );
    gate.stop();
    let empty = scratch.beside("empty");
    fs::create_dir(&empty).unwrap();
    for nowhere in [empty.clone(), scratch.beside("nothing")] {
        let done = spoolgate(&nowhere, &["doctor"]);
        assert_eq!(done.status.code(), Some(1), "{}", show(&done));
        assert!(
            String::from_utf8_lossy(&done.stdout).contains("not a home"),
            "{}",
            show(&done)
        );
    }
    assert_eq!(walk(&empty).len(), 1);
}

/// Everything in a folder: modes and times, and bytes.
fn whole(folder: &Path) -> BTreeMap<PathBuf, ([i64; 3], Option<Vec<u8>>)> {
    let of = |path: PathBuf| {
        let meta = path.symlink_metadata().unwrap();
        let shape = [i64::from(meta.mode()), meta.mtime(), meta.mtime_nsec()];
        let bytes = meta.is_file().then(|| fs::read(&path).unwrap());
        (path, (shape, bytes))
    };
    walk(folder).into_iter().map(of).collect()
}

fn deposit(home: &Path) {
    let words = ["account", "deposit", "5", "--reason", "more"];
    succeed(home, &words);
}

#[test]
fn a_ledger_that_no_gate_starts_from_is_found_with_the_words_of_the_start() {
    for is_merged in [false, true] {
        let sound = Sound::new();
        let (home, older) = (sound.home(), sound.dir.path().join("older"));
        deposit(&home);
        fs::create_dir(&older).unwrap();
        for path in walk(&home.join("audit"))
            .iter()
            .filter(|path| path.is_file())
        {
            fs::copy(path, older.join(path.file_name().unwrap())).unwrap();
        }
        deposit(&home);
        if is_merged {
            succeed(&home, &["run", "--until-idle"]);
        }
        assert_eq!(home.join("state/state.db-wal").exists(), !is_merged);
        sound.give_away();
        assert_eq!(bad(&examine(&home, None)), []);
        for path in walk(&older).iter().filter(|path| path.is_file()) {
            fs::copy(path, home.join("audit").join(path.file_name().unwrap())).unwrap();
        }
        sound.give_away();
        let before = whole(&home);
        let found = examine(&home, None);
        assert!(whole(&home) == before, "doctor changed the home");
        let ledger = (Level::Error, "ledger", "audit".to_owned());
        assert_eq!(bad(&found), [ledger], "{found:?}");
        let row = found.iter().find(|row| row.what == "ledger").unwrap();
        assert!(
            row.remedy.as_ref().unwrap().contains("accept-rollback"),
            "{row:?}"
        );
        let start = spoolgate(&home, &["run", "--until-idle"]);
        assert_eq!(start.status.code(), Some(5), "{}", show(&start));
        let said = String::from_utf8_lossy(&start.stderr).into_owned();
        let (_, why) = row.message.split_once("no gate starts from it: ").unwrap();
        assert!(said.contains(why), "{why}\n{said}");
    }
}

#[test]
fn a_pruned_home_that_opens_is_sound_also_with_rows_beside_its_index() {
    let sound = Sound::new();
    let home = sound.home();
    succeed(&home, &["audit", "rotate", "--reason", "a test"]);
    succeed(&home, &["audit", "archive"]);
    succeed(
        &home,
        &["audit", "prune", "--before", "2", "--no-copy", "--yes"],
    );
    for has_rows_beside in [false, true] {
        if has_rows_beside {
            deposit(&home);
        }
        let beside = fs::metadata(home.join("state/state.db-wal"));
        assert_eq!(beside.is_ok_and(|file| file.len() > 0), has_rows_beside);
        sound.give_away();
        let before = whole(&home);
        let found = examine(&home, None);
        assert!(whole(&home) == before, "doctor changed the home");
        assert_eq!(bad(&found), [], "{found:?}");
    }
    // Without its index, such a home cannot start.
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(home.join("state").join(name));
    }
    let found = examine(&home, None);
    assert_eq!(bad(&found), [(Level::Error, "ledger", "audit".to_owned())]);
    assert!(!spoolgate(&home, &["run", "--until-idle"]).status.success());
}

/// Members that the ledger holds sealed are in clear in the files of held requests and of cases.
#[test]
fn files_with_sealed_members_are_kept_from_other_users() {
    let sound = Sound::new();
    let home = sound.home();
    let cases = home.join("council/cases");
    let pending = home.join("proposals/pending");
    let of = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((of(&cases), of(&pending)), (0o700, 0o755));
    let error = |place: &str| [(Level::Error, "mode", place.to_owned())];
    // As an older version made it; then opened for a group by its operator.
    mode(cases.clone(), 0o755);
    assert_eq!(bad(&examine(&home, None)), error("council/cases"));
    mode(cases.clone(), 0o2750);
    assert_eq!(bad(&examine(&home, None)), []);
    for name in ["h-7.yaml", "p-7.yaml", "h-7.md"] {
        fs::write(pending.join(name), "subject: \"x\"\n").unwrap();
        mode(pending.join(name), 0o644);
    }
    sound.give_away();
    let found = examine(&home, None);
    assert_eq!(bad(&found), error("proposals/pending"));
    let remedy = found
        .iter()
        .find_map(|row| row.remedy.as_ref().filter(|_| row.what == "mode"));
    let typed = Command::new("sh")
        .args(["-c", remedy.unwrap()])
        .output()
        .unwrap();
    assert!(typed.status.success(), "{}", show(&typed));
    assert_eq!(bad(&examine(&home, None)), []);
    let modes = ["h-7.yaml", "p-7.yaml"].map(|name| of(&pending.join(name)));
    assert_eq!(modes, [0o600, 0o644]);
}

#[test]
fn a_held_request_is_written_for_the_gate_alone() {
    let canary = Canary::new();
    let home = canary.scratch.home();
    fs::create_dir_all(home.join("rules/core")).unwrap();
    let rule = "id: ask-first\nstatus: active\napplies_to: {action: email.send}\nwhen:\n  - {field: \
        payload.subject, op: eq, value: hello}\nthen: hold\nmessage: \"ask first\"\n";
    fs::write(home.join("rules/core/ask-first.yaml"), rule).unwrap();
    let request = sign(&canary.core, "core", "held", "email.send", MAIL);
    Sent::new("held.json", request).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let files = walk(&home.join("proposals/pending"));
    let [_, held] = files.as_slice() else {
        panic!("{files:?}");
    };
    assert!(fs::read_to_string(held).unwrap().contains("a word"));
    assert_eq!(fs::metadata(held).unwrap().mode() & 0o7777, 0o600);
}
