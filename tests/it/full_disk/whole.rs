//! A full disk: a user of another spool takes every byte, and keeps it. Exits, cancels and halts are
//! answered from what the gate took in advance; everything else waits until there is room.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use crate::kit::prepared::edit;
use crate::kit::process::{answered, until};
use crate::kit::users::{
    DOOR, FILLER, Group, Mount, TRADER, as_user, missing, rest_an_order, settle, take_position,
    watch,
};
use crate::kit::{Scratch, decisions, setting, succeed};

/// Takes all room of the disk, and whatever becomes free later.
const FILL: &str = "exec 3>> .fill; while :; do dd if=/dev/zero bs=1M >&3 2> /dev/null; \
    dd if=/dev/zero bs=1 count=4096 >&3 2> /dev/null; sleep 0.02; done";

/// A home on a small disk of its own, with requests beside it that only have to be renamed.
struct Place {
    scratch: Scratch,
    disk: Mount,
    resting: String,
}

impl Place {
    fn new() -> Option<Place> {
        let scratch = Scratch::with_prices();
        let beside = scratch.home().parent().unwrap().to_owned();
        fs::set_permissions(beside, fs::Permissions::from_mode(0o755)).unwrap();
        edit(&scratch.home().join("rules/safety.yaml"), |text| {
            text.replace(
                "{reserve_bytes: 16777216, floor_bytes: 268435456}",
                "{reserve_bytes: 4194304, floor_bytes: 16777216}",
            )
        });
        take_position(&scratch);
        let resting = rest_an_order(&scratch);
        let disk = Mount::new(scratch.beside("disk"), 64 << 20)?;
        let place = Place {
            scratch,
            disk,
            resting,
        };
        settle(&place.scratch.home(), &place.home());
        fs::create_dir(place.disk.0.join("pool")).unwrap();
        Some(place)
    }

    fn home(&self) -> PathBuf {
        self.disk.0.join("home")
    }

    /// Writes a request beside the spool while there is room.
    fn prepare(&self, id: &str, action: &str, payload: &str) {
        let path = self.disk.0.join("pool").join(format!("{id}.json"));
        fs::write(&path, self.scratch.request(id, action, payload)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        chown(&path, Some(TRADER), Some(DOOR)).unwrap();
    }

    fn answer(&self, id: &str) -> PathBuf {
        self.home().join("spool/out").join(format!("{id}.json"))
    }

    fn drop_in(&self, id: &str) {
        let name = format!("{id}.json");
        let (from, to) = (
            self.disk.0.join("pool").join(&name),
            self.home().join("spool/in").join(&name),
        );
        fs::rename(from, to).unwrap();
    }

    /// Drops a request, and waits for its answer.
    fn serve(&self, gate: &mut Group, id: &str) {
        self.drop_in(id);
        until(&format!("{id} is answered"), || {
            assert_eq!(gate.0.try_wait().unwrap(), None, "the gate goes on");
            self.answer(id).exists()
        });
        let answer = answered(&self.home(), &format!("{id}.json"));
        assert_eq!(answer["status"], "success", "{answer}");
    }

    fn is_full(&self) -> bool {
        rustix::fs::statvfs(&self.disk.0).unwrap().f_bavail == 0
    }
}

const EXIT: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"sell","order_type":"market","size":"0.002","planned_entry":"6790","planned_stop":"6600","thesis_slug":"btc-dip-long"}"#;
const ENTRY: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","order_type":"limit","price":"6740","planned_entry":"6740","planned_stop":"6600","stop_price":"6600","size":"0.002","thesis_slug":"btc-dip-long"}"#;

#[test]
fn exits_cancels_and_halts_are_answered_while_others_take_every_byte() {
    if let Some(what) = missing() {
        eprintln!("skipped: {what}");
        return;
    }
    let Some(place) = Place::new() else { return };
    let exits = usize::try_from(setting("SPOOLGATE_FULL_DISK_EXITS", 24)).unwrap();
    let exit = |n: usize| format!("x-{n}");
    (0..exits + 4).for_each(|n| place.prepare(&exit(n), "order.submit", EXIT));
    let cancel = format!(r#"{{"order_id":"{}"}}"#, place.resting);
    place.prepare("cancel", "order.cancel", &cancel);
    place.prepare("halt", "halt.set", r#"{"reason":"the disk is full"}"#);
    let entries: Vec<String> = (0..3).map(|n| format!("entry-{n}")).collect();
    entries
        .iter()
        .for_each(|id| place.prepare(id, "order.submit", ENTRY));

    let mut gate = Group::start(watch(&place.home()));
    place.serve(&mut gate, &exit(0));
    let filler = Group::start(as_user(FILLER, FILL, &place.home().join("spool/in")));
    until("the disk is full", || place.is_full());
    // The gate may still think that its disk is only low.
    place.serve(&mut gate, &exit(1));
    place.drop_in(&entries[0]);
    for n in 2..exits {
        place.serve(&mut gate, &exit(n));
        if n == exits / 2 {
            // A gate that is killed meanwhile starts on the full disk.
            drop(gate);
            until("the disk is full", || place.is_full());
            gate = Group::start(watch(&place.home()));
        }
        if n == exits * 3 / 4 {
            place.serve(&mut gate, "cancel");
        }
    }
    place.serve(&mut gate, "halt");
    place.drop_in(&entries[1]);
    place.serve(&mut gate, &exit(exits));
    until("the disk is full", || place.is_full());
    assert!(!place.answer(&entries[1]).exists(), "an entry waits");

    // As soon as there is room, everything else goes on by itself.
    drop(filler);
    fs::remove_file(place.home().join("spool/in/.fill")).unwrap();
    place.drop_in(&entries[2]);
    for id in &entries {
        until(&format!("{id} is answered"), || place.answer(id).exists());
    }
    place.serve(&mut gate, &exit(exits + 1));
    drop(gate);
    check(&place.home(), exits + 2);
}

/// Checks that each exit was decided once, and that the ledger is sound.
fn check(home: &Path, exits: usize) {
    succeed(home, &["run", "--until-idle"]);
    succeed(home, &["audit", "verify"]);
    succeed(home, &["audit", "replay"]);
    let decided = decisions(home).unwrap();
    for id in (0..exits).map(|n| format!("x-{n}")) {
        let of_id = decided
            .values()
            .filter(|line| line.request_id.as_deref() == Some(&id));
        assert_eq!(of_id.count(), 1, "{id}");
    }
}
