//! Full disks, and paths where another object is in the way.

use super::*;

// --- storage ---

/// Runs the program with a limit on the size of the files that it writes, in KiB.
fn limited(home: &Path, kib: u64, args: &str) -> Output {
    let script = format!("ulimit -c 0; ulimit -f {kib}; exec \"$0\" --home \"$1\" {args}");
    Command::new("bash")
        .args(["-c", &script, PROGRAM])
        .arg(home)
        .output()
        .unwrap()
}

/// Runs a script with a small file system mounted over `$folder`, which starts with the folder's
/// content and whose final content is copied back. `None` where that is not allowed.
fn on_small_disk(home: &Path, folder: &str, kib: u64, script: &str) -> Option<Output> {
    let script = format!(
        "set -eu\nfolder=\"$1/{folder}\"\nmkdir \"$1/copy\"\ncp -a \"$folder/.\" \"$1/copy\"\n\
            mount -t tmpfs -o size={kib}k none \"$folder\" || exit 77\ncp -a \"$1/copy/.\" \
            \"$folder\"\nrm -r \"$1/copy\"\n\
            fill() {{ head -c 100M /dev/zero > \"$1\" 2>/dev/null || true; }}\n{script}\n\
            cp -a \"$folder\" \"$1/after\"\n"
    );
    let done = Command::new("unshare")
        .args(["-Urm", "--", "bash", "-c", &script, PROGRAM])
        .arg(home)
        .output()
        .unwrap_or_else(|error| panic!("unshare: {error}"));
    if done.status.code() == Some(77) || stderr(&done).starts_with("unshare:") {
        eprintln!("skipped: no file system of our own here: {}", show(&done));
        return None;
    }
    assert!(done.status.success(), "{}", show(&done));
    fs::remove_dir_all(home.join(folder)).unwrap();
    fs::rename(home.join("after"), home.join(folder)).unwrap();
    Some(done)
}

fn queries(scratch: &Scratch, sent: &mut Vec<Sent>, n: usize) {
    for _ in 0..n {
        let query = scratch.query(&format!("q{}", sent.len()));
        query.drop_into(&scratch.home());
        sent.push(query);
    }
}

/// Makes a home whose log is longer than the files of its index, so that a limit on file size
/// affects the log first.
fn home_with_a_long_log() -> (Scratch, Vec<Sent>) {
    let scratch = Scratch::new();
    let mut sent = Vec::new();
    queries(&scratch, &mut sent, 400);
    succeed(&scratch.home(), &["run", "--until-idle"]);
    (scratch, sent)
}

fn log_kib(home: &Path) -> u64 {
    fs::metadata(segments(home).last().unwrap()).unwrap().len() / 1024
}

#[track_caller]
fn check_nothing_was_released(home: &Path, sent: &[Sent], new: usize, done: &Output) {
    assert_eq!(done.status.code(), Some(6), "{}", show(done));
    assert_eq!(
        contents(&home.join("spool/out")).len(),
        sent.len() - new,
        "an answer was released"
    );
    let kept = names(&home.join("spool/in")).len() + names(&home.join("spool/work")).len();
    assert_eq!(kept, new, "requests were lost");
    check_killed(home, sent).unwrap();
}

// Beyond the limit on file sizes the kernel sends SIGXFSZ, which used to end the gate without a
// message.
#[test]
fn storage_the_log_reaches_the_file_size_limit() {
    for args in ["run --until-idle", "watch"] {
        let (scratch, mut sent) = home_with_a_long_log();
        let home = scratch.home();
        queries(&scratch, &mut sent, 30);
        let done = limited(&home, log_kib(&home) + 1, args);
        check_nothing_was_released(&home, &sent, 30, &done);
        assert!(
            stderr(&done).contains("ledger `audit/log-"),
            "{args}: {}",
            show(&done)
        );
        let done = spoolgate(&home, &["run", "--until-idle"]);
        assert!(done.status.success(), "{args}: {}", show(&done));
        assert_eq!(check(&home, &sent).torn, 1, "{args}");
    }
}

#[test]
fn storage_handle_meets_the_file_size_limit() {
    let (scratch, mut sent) = home_with_a_long_log();
    let home = scratch.home();
    queries(&scratch, &mut sent, 30);
    // Less than a KiB is left, and a line with its seal needs more.
    let request = file(
        &scratch,
        "r.json",
        &scratch.request("handled", "portfolio.get", "{}"),
    );
    let done = limited(
        &home,
        log_kib(&home) + 1,
        &format!("handle '{}'", request.display()),
    );
    assert_eq!(done.status.code(), Some(6), "{}", show(&done));
    assert!(done.stdout.is_empty(), "{}", show(&done));
    check_killed(&home, &sent).unwrap();
    succeed(&home, &["run", "--until-idle"]);
    check(&home, &sent);
    let decided = decisions(&home).unwrap();
    let lines = decided
        .values()
        .filter(|d| d.request_id.as_deref() == Some("handled"))
        .count();
    assert_eq!(lines, 1, "decided exactly once");
}

#[test]
fn storage_the_disk_of_the_log_is_full() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mut sent = Vec::new();
    queries(&scratch, &mut sent, 20);
    let script = r#"
        fill "$folder/ballast"
        code=0; "$0" --home "$1" run --until-idle > /dev/null 2> "$1/said" || code=$?
        test $code = 6 || { echo "exit $code"; cat "$1/said"; exit 1; }
        grep -q 'free some space' "$1/said" || { cat "$1/said"; exit 1; }
        test "$(ls "$1/spool/out" "$1/spool/rejected" | grep -c json)" = 0
        rm "$folder/ballast" "$1/said""#;
    if on_small_disk(&home, "audit", 1024, script).is_some() {
        check_killed(&home, &sent).unwrap();
        succeed(&home, &["run", "--until-idle"]);
        check(&home, &sent);
    }
}

#[test]
fn storage_the_disk_of_the_answers_is_full() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mut sent = Vec::new();
    queries(&scratch, &mut sent, 20);
    let script = r#"
        fill "$folder/ballast"
        code=0; "$0" --home "$1" run --until-idle > /dev/null 2> "$1/said" || code=$?
        test $code = 6 || { echo "exit $code"; cat "$1/said"; exit 1; }
        grep -q 'free some space' "$1/said" || { cat "$1/said"; exit 1; }
        grep -c '"kind":"decision"' "$1/audit/log-00000001.jsonl"
        ls "$1/spool/work" | wc -l
        rm "$folder/ballast" "$1/said""#;
    if let Some(done) = on_small_disk(&home, "spool/out", 64, script) {
        // The key and the deposit, then all 20; their answers wait for room.
        assert_eq!(String::from_utf8_lossy(&done.stdout), "22\n0\n");
        succeed(&home, &["run", "--until-idle"]);
        check(&home, &sent);
    }
}

// It used to end the gate at every start, so that nobody got an answer.
#[test]
fn a_directory_in_an_answers_place_is_moved_aside() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let mut sent = Vec::new();
    queries(&scratch, &mut sent, 20);
    fs::create_dir_all(home.join("spool/out/q7.json/inside")).unwrap();
    fs::create_dir_all(home.join("spool/out/.q8.json.tmp/inside")).unwrap();
    let done = spoolgate(&home, &["run", "--until-idle"]);
    assert!(done.status.success(), "{}", show(&done));
    for aside in [
        "spool/out/.aside-0-q7.json",
        "spool/out/.aside-0-.q8.json.tmp",
    ] {
        assert!(stderr(&done).contains(aside), "{}", show(&done));
        // The directory is neither entered nor removed.
        assert!(home.join(aside).join("inside").is_dir());
        fs::remove_dir_all(home.join(aside)).unwrap();
    }
    check(&home, &sent);
}

// `handle` and `submit` used to end with exit code 2, as if the request were wrong.
#[test]
fn storage_the_disk_of_the_spool_is_full() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let request = file(
        &scratch,
        "r.json",
        &scratch.request("r", "portfolio.get", "{}"),
    );
    for (command, folder) in [("submit", "spool/in"), ("handle", "spool/local/in")] {
        let script = format!(
            r#"
            fill "$folder/.ballast"
            code=0; "$0" --home "$1" {command} '{}' > /dev/null 2> "$1/said" || code=$?
            test $code = 6 || {{ echo "{command}: exit $code"; cat "$1/said"; exit 1; }}
            grep -q 'No space left on device' "$1/said" || {{ cat "$1/said"; exit 1; }}
            rm "$folder/.ballast" "$1/said""#,
            request.display()
        );
        if on_small_disk(&home, folder, 64, &script).is_some() {
            assert_eq!(
                fs::read_dir(home.join(folder)).unwrap().count(),
                0,
                "{folder}"
            );
        }
    }
    let done = handle(&home, &request);
    assert!(done.status.success(), "{}", show(&done));
    check(&home, &[]);
}
