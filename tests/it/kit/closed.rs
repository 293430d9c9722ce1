//! Homes with closed segments, and a disk that dies at a chosen step.

use std::path::Path;
use std::sync::Arc;

use spoolgate_home::layout;
use spoolgate_ledger::archive;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::recover;
use spoolgate_ledger::segment::AUDIT_DIR;
use spoolgate_wire::signing::SignKey;

use super::layered::{Fuse, Layered};
use super::memory_disk::MemoryDisk;
use super::place::{ORIGIN, Place, drain};

/// Makes a home with four segments: one that ends cleanly, one with a torn rest, one with several
/// frames, and the last. The key is the agent's; each closed segment has one of its requests `l1`
/// to `l3`.
pub(crate) fn four_segments(seed: u64) -> (Place, SignKey) {
    let place = Place::new(seed);
    let bot = place.ask_for_agent_key("k1");
    drain(&mut place.open().unwrap()).unwrap();
    ask(&place, &bot, "l1");
    drain(&mut place.open().unwrap()).unwrap();
    cut(&place);
    ask(&place, &bot, "l2");
    drain(&mut place.open().unwrap()).unwrap();
    ask(&place, &bot, "torn");
    let mut home = place.open().unwrap();
    place.disk.faults.lock().unwrap().append_room = Some(700);
    drain(&mut home).unwrap_err();
    drop(home);
    let mut home = place.open().unwrap();
    assert!(
        matches!(home.found, recover::Found::Torn(_)),
        "{:?}",
        home.found
    );
    drain(&mut home).unwrap();
    ask(&place, &bot, "l3");
    for number in 0..300 {
        ask(&place, &bot, &format!("many{number}"));
    }
    drain(&mut home).unwrap();
    drop(home);
    cut(&place);
    (place, bot)
}

/// Has the agent request its orders.
pub(crate) fn ask(place: &Place, key: &SignKey, id: &str) {
    place.ask(key, "trend-bot", id, "orders.list", "{}");
}

/// Begins a new segment, as the gate does when a segment is full.
pub(crate) fn cut(place: &Place) {
    let signer = layout::log_signer(ORIGIN, &place.log_keys()).unwrap();
    let disk: Arc<dyn Disk> = place.disk.clone();
    let (mut ledger, _) = recover::open(disk, signer, None, &mut |_| Ok(())).unwrap();
    ledger.cut(None).unwrap();
    ledger.publish_head().unwrap();
}

/// Archives every closed segment except the newest `keep`.
pub(crate) fn archive_all(
    disk: &dyn Disk,
    keep: usize,
) -> Result<usize, spoolgate_ledger::LedgerError> {
    let dir = Path::new(AUDIT_DIR);
    let due = archive::due(&recover::kept(disk, dir)?, keep);
    for number in &due {
        archive::archive(disk, dir, *number, &mut |_| {})?;
    }
    archive::list_all(disk, dir)?;
    Ok(due.len())
}

/// Makes a disk that fails for good after this number of changes; half of the bytes of its last
/// write are kept.
pub(crate) fn dying(under: &Arc<MemoryDisk>, changes: i64) -> Layered {
    let (fuse, torn) = (Fuse::of(changes), Arc::clone(under));
    Layered::before(under.clone(), move |call| {
        let burnt = if call.is_change() {
            fuse.burn()
        } else {
            Ok(())
        };
        if burnt.is_err() && call.verb == "write" {
            torn.put(call.path, &call.bytes[..call.bytes.len() / 2]);
        }
        burnt
    })
}
