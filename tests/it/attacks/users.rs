//! What an agent's user can make in the flat spool, against a gate that is another user, in the
//! sandbox, as the shipped unit starts it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;
use spoolgate_host::spool::name::FileName;

use crate::kit::process::{answered, until};
use crate::kit::users::{DOOR, Group, LINKER, Mount, TRADER, as_user, missing, settle, watch};
use crate::kit::{Scratch, decisions, names, show, succeed};

/// Makes everything that is no request, each under its name at once. A step may fail: without Python
/// there is no socket.
const PLANT: &str = "\
    mknod w.json c 0 0
    mkfifo f.json
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s.json\")'
    mkdir d.json
    mkdir .full && touch .full/x && mv .full full.json
    mkdir -m 0 closed.json
    mkdir .fixed && touch .fixed/y && chmod 0700 .fixed && mv .fixed fixed.json
    ln -s /etc/passwd l.json
    ln -s . loop.json
    ln -s nothing dangling.json
    echo '{}' > .u && chmod 0 .u && mv .u unread.json
    echo '{}' > .two && ln .two two.json && ln .two too.json && rm .two";

/// Names that are no names of requests.
fn hostile_names() -> Vec<OsString> {
    let long = "z".repeat(250);
    let names: [&[u8]; 22] = [
        b"a b.json",
        b"a\nb.json",
        b"a\tb.json",
        b"-rf",
        b"--help",
        b"$(id).json",
        b"`id`.json",
        b"a;b.json",
        b"a'b.json",
        b"a\"b.json",
        b"*.json",
        b"?.json",
        b"~",
        b"a~b.json",
        b"\\x.json",
        b"\xff\xfe.json",
        b"\xe2\x80\xaenosj.x",
        b"\x1b[31m.json",
        b"\x7f.json",
        b"x.JSON",
        b"no ending",
        long.as_bytes(),
    ];
    names.map(|name| OsString::from_vec(name.to_vec())).to_vec()
}

#[test]
fn whatever_a_user_makes_in_the_spool_is_answered_or_told() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let scratch = Scratch::new();
    fs::set_permissions(scratch.beside(""), fs::Permissions::from_mode(0o755)).unwrap();
    let home = scratch.beside("deployed");
    settle(&scratch.home(), &home);
    let (inbox, told) = (home.join("spool/in"), |name: &str| {
        let line = succeed(&home, &["--format", "json", "status"]);
        let told: Value = serde_json::from_str(&line).unwrap();
        told[name].clone()
    });
    let mount = Mount::new(inbox.join("m.json"), 1 << 20);
    let mut gate = Group::start(watch(&home));
    until("the gate is there", || !told("spool_left").is_null());

    let planted = as_user(LINKER, PLANT, &inbox).output().unwrap();
    assert!(planted.status.success(), "{}", show(&planted));
    for name in hostile_names() {
        let made = Command::new("setpriv")
            .args([
                format!("--reuid={LINKER}"),
                format!("--regid={DOOR}"),
                "--clear-groups".into(),
            ])
            .args(["touch", "--"])
            .arg(inbox.join(&name))
            .status()
            .unwrap();
        assert!(made.success(), "{name:?}");
    }
    let mut planted: BTreeSet<OsString> = hostile_names().into_iter().collect();
    planted.extend(
        "w f d full closed fixed l loop dangling unread two too"
            .split(' ')
            .map(|name| OsString::from(format!("{name}.json"))),
    );
    planted.extend(mount.is_some().then(|| OsString::from("m.json")));

    // Another user's cancel does not wait for any of that.
    let cancel = scratch.request("cancel", "order.cancel", r#"{"order_id":"o-1"}"#);
    let prepared = scratch.beside("cancel.json");
    fs::write(&prepared, cancel).unwrap();
    fs::set_permissions(&prepared, fs::Permissions::from_mode(0o640)).unwrap();
    chown(&prepared, Some(TRADER), Some(DOOR)).unwrap();
    let dropped = Instant::now();
    fs::rename(&prepared, inbox.join("cancel.json")).unwrap();
    answered(&home, "cancel.json");
    eprintln!(
        "a cancel was answered in {} ms",
        dropped.elapsed().as_millis()
    );

    let count = |name: &OsString| {
        let known_as = FileName::of(name).known_as;
        let decided = decisions(&home).unwrap();
        decided.values().filter(|it| it.file == known_as).count()
    };
    for name in &planted {
        until(&format!("{name:?} is answered"), || count(name) > 0);
    }
    until("what stays is counted", || {
        let left = names(&inbox).len() as u64;
        told("spool_left")["flat"].as_u64().unwrap_or(0) == left
    });
    for name in &planted {
        assert_eq!(count(name), 1, "{name:?}");
    }
    assert!(gate.0.try_wait().unwrap().is_none(), "the gate ended");
    drop(gate);
    drop(mount);
    succeed(&home, &["audit", "verify"]);
}
