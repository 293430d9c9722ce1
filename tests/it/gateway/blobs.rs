//! What lines name by digest is durable before the lines are, with one sync per batch.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::kit::gateway_home::{DONE, GOOD, GatewayHome, settle};
use crate::kit::layered::Layered;
use spoolgate_home::{Home, Seams};

/// Opens a home and returns a switch that makes syncs of blobs fail, and the list of what is done
/// below `audit/blobs` and to logs, in order.
fn watched(home: &GatewayHome) -> (Home, Arc<AtomicBool>, Arc<Mutex<Vec<String>>>) {
    let (fails, noted) = (
        Arc::<AtomicBool>::default(),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let (switch, notes) = (Arc::clone(&fails), Arc::clone(&noted));
    let disk = Layered::before(home.place.disk.clone(), move |call| {
        let is_blob = call.target().starts_with("audit/blobs");
        let what = match call.verb {
            "rename" => "rename",
            "write" if call.durable => "write and sync",
            "write" => "write",
            "write_again" => "sync file",
            "sync_dir" => "sync folder",
            "sync_fs" => "sync all",
            "append" => "append",
            _ => return Ok(()),
        };
        if is_blob || what == "append" {
            notes.lock().unwrap().push(what.to_owned());
        }
        let is_bad = is_blob && what == "sync all" && switch.load(Ordering::SeqCst);
        if is_bad {
            Err(io::Error::other("the medium fails"))
        } else {
            Ok(())
        }
    });
    (
        home.place
            .open_with(Seams {
                disk: Arc::new(disk),
                ..home.place.seams()
            })
            .unwrap(),
        fails,
        noted,
    )
}

/// Returns what was done up to the first append since the last call.
fn until_append(noted: &Mutex<Vec<String>>) -> Vec<String> {
    let done = std::mem::take(&mut *noted.lock().unwrap());
    done.into_iter()
        .take_while(|what| what != "append")
        .collect()
}

#[test]
fn a_batch_syncs_once_whatever_it_seals() {
    let home = GatewayHome::new(DONE);
    let (mut gate, _, noted) = watched(&home);
    until_append(&noted);
    for count in [1, 5] {
        for nth in 0..count {
            home.ask(&format!("r{count}-{nth}"), "email.send", GOOD[1].1);
        }
        settle(&mut gate);
        let done = until_append(&noted);
        // Subject, text and hashes: three blobs per mail, each written and renamed.
        assert_eq!(
            done.iter().filter(|what| *what == "rename").count(),
            3 * count,
            "{done:?}"
        );
        assert_eq!(
            done.last().map(String::as_str),
            Some("sync all"),
            "{done:?}"
        );
        assert_eq!(
            done.iter().filter(|what| what.contains("sync")).count(),
            1,
            "{done:?}"
        );
    }
}

#[test]
fn one_content_alone_is_synced_alone() {
    // Nothing of the request is sealed, and of the result only its data.
    let large = r#"cat >/dev/null; printf '{"success":true,"data":"'; head -c 30000 /dev/zero | tr '\0' x; printf '"}'"#;
    let home = GatewayHome::new(large);
    let (mut gate, _, noted) = watched(&home);
    until_append(&noted);
    home.ask("r1", "email.fetch", "{}");
    settle(&mut gate);
    let line = home.responses().into_values().next().unwrap();
    assert!(line.is_sealed("data") && line.data_blob.is_none());
    let done = std::mem::take(&mut *noted.lock().unwrap());
    assert_eq!(
        done,
        [
            "append",
            "write",
            "rename",
            "sync file",
            "sync folder",
            "append"
        ]
    );
}

#[test]
fn a_sync_that_fails_keeps_the_lines_back() {
    let home = GatewayHome::new(DONE);
    let (mut gate, fails, _) = watched(&home);
    let before = home.log();
    home.ask("r1", "email.send", GOOD[1].1);
    fails.store(true, Ordering::SeqCst);
    let error = gate.round(false).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("audit/blobs"), "{error}");
    assert_eq!(home.log(), before, "a line names what may not be there");
    assert!(home.answer("r1").is_none() && home.responses().is_empty());
    drop(gate);
    // The next gate decides it once.
    let mut gate = home.open();
    settle(&mut gate);
    assert!(
        home.answer("r1")
            .is_some_and(|answer| answer.error.is_none())
    );
    assert_eq!(home.responses().len(), 1);
}
