//! `examples/verify_chain.py`, two dozen lines that share no code with this program: for a sound
//! ledger they print the size and root of its checkpoint, and for a ledger with one changed bit
//! they fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kit::kept::Then;
use crate::kit::ledger_files::{Files, small};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::{Place, drain};
use spoolgate_ledger::{recover, segment};

/// Runs the script over the files with one bit after the other changed, in one process, because
/// thousands of processes would be slow. Prints the places where it found nothing.
const EVERY_BIT: &str = r"
import contextlib, io, pathlib, runpy, sys
script, step, *names = sys.argv[1:]
def verdict():
    sys.argv = [script, *names]
    try:
        with contextlib.redirect_stdout(io.StringIO()): runpy.run_path(script, run_name='__main__')
        return 'ok'
    except SystemExit as end: return str(end.code)[:4]
assert verdict() == 'ok'
tried, passed = 0, []
for name in names:
    data = pathlib.Path(name).read_bytes()
    last = data[:-1].rindex(b'\n')
    for at in range(len(data)):
        if at % int(step) and at < last: continue
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        pathlib.Path(name).write_bytes(changed)
        tried += 1
        if verdict() != 'bad:': passed.append((name[-5:], at))
    pathlib.Path(name).write_bytes(data)
print(tried)
for _, at in passed: print(at)
";

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verify_chain.py")
}

/// Writes the files of a ledger to a real disk.
fn on_disk(files: &Files, dir: &Path, count: u32) -> Vec<PathBuf> {
    let write = |number: u32| {
        let path = dir.join(segment::file_name(number));
        std::fs::write(&path, files.segment(number)).unwrap();
        path
    };
    (1..=count).map(write).collect()
}

fn has_python() -> bool {
    let there = Command::new("python3").arg("--version").output().is_ok();
    if !there {
        println!("skipped: no python3");
    }
    there
}

#[test]
fn a_short_script_gives_the_checkpoint() {
    if !has_python() {
        return;
    }
    let place = Place::new(6);
    place.ask_for_agent_key("k1");
    drain(&mut place.open().unwrap()).unwrap();
    let files = Files::of(&place);
    let disk = std::sync::Arc::new(MemoryDisk::with(&files.files));
    let (mut ledger, _) =
        recover::open(disk.clone(), files.signer(), None, &mut |_| Ok(())).unwrap();
    ledger.cut(None).unwrap();
    let body = r#"{"timestamp":"2026-03-02T12:00:00.000Z","note":"n","changes":[]}"#.to_owned();
    ledger.append(&[("start", body)]).unwrap();
    ledger.publish_head().unwrap();
    let files = Files {
        files: disk.files_below(""),
        keys: files.keys.clone(),
    };
    let dir = crate::kit::folder();
    let out = Command::new("python3")
        .arg(script())
        .args(on_disk(&files, dir.path(), 2))
        .output()
        .unwrap();
    let checkpoint = String::from_utf8(files.checkpoint()).unwrap();
    let expected: Vec<&str> = std::iter::once("ok")
        .chain(checkpoint.lines().skip(1).take(2))
        .collect();
    assert_eq!(
        String::from_utf8(out.stdout)
            .unwrap()
            .lines()
            .collect::<Vec<_>>(),
        expected
    );
    // The files in the wrong order, and one alone.
    let mut paths = on_disk(&files, dir.path(), 2);
    paths.reverse();
    for paths in [&paths[..], &paths[..1]] {
        assert!(
            !Command::new("python3")
                .arg(script())
                .args(paths)
                .output()
                .unwrap()
                .status
                .success()
        );
    }
}

/// A killed gate leaves bytes that were never sealed; the next one freezes them. An honest ledger must
/// not look as if somebody had changed it.
#[test]
fn a_frozen_torn_rest_is_reported_as_such() {
    if !has_python() {
        return;
    }
    let kept = Then::V2.home("full");
    let audit = kept.path("audit");
    let archive = fs::File::open(audit.join("log-00000001.jsonl.zst")).unwrap();
    let first = zstd::stream::decode_all(archive).unwrap();
    fs::write(audit.join("log-00000001.jsonl"), first).unwrap();
    let logs = [1, 2, 3].map(|number| audit.join(segment::file_name(number)));
    let ends = |script: &str, args: &[PathBuf]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("examples")
            .join(script);
        let done = Command::new("python3")
            .arg(script)
            .args(args)
            .output()
            .unwrap();
        (
            done.status.success(),
            String::from_utf8(done.stdout).unwrap(),
        )
    };
    let told = "torn: log-00000002.jsonl: ";
    for (script, args) in [
        ("verify_chain.py", &logs[..]),
        ("verify_ledger.py", &[audit.clone()][..]),
    ] {
        let (is_sound, said) = ends(script, args);
        let said = said.replace(&format!("{}/", audit.display()), "");
        assert!(is_sound && said.contains(told), "{script}: {said}");
    }
    // The rest is not the one that the next file names.
    let mut changed = fs::read(&logs[1]).unwrap();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&logs[1], changed).unwrap();
    assert!(!ends("verify_chain.py", &logs).0);
    assert!(!ends("verify_ledger.py", &[audit]).0);
}

/// Every eighth byte, and every byte of the last line, with one bit changed. Hashes cannot see the
/// signature in the last line, which no line names yet.
#[test]
fn with_one_bit_changed_the_short_script_fails() {
    if !has_python() {
        return;
    }
    let (_place, files, _) = small();
    let dir = crate::kit::folder();
    let paths = on_disk(&files, dir.path(), 1);
    let run = Command::new("python3")
        .args(["-c", EVERY_BIT])
        .arg(script())
        .arg("8")
        .args(&paths)
        .output();
    let out = run.unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let text = String::from_utf8(out.stdout).unwrap();
    let numbers: Vec<usize> = text.lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers[0] > 1500, "{} bits were tried", numbers[0]);
    let log = files.segment(1);
    let signature = log.len() - 3 - 88..log.len() - 3;
    let expected: Vec<usize> = signature
        .filter(|at| log[*at] ^ (1 << (at % 8)) != b'\n')
        .collect();
    assert_eq!(&numbers[1..], expected);
}
