//! Entries of a spool that the gate cannot move away or read: other users' directories without
//! write permission, mount points, files in a folder that belongs to somebody else, bad sectors.
//! Each is answered once per version, stays where it is, is looked at again ever more rarely, and
//! is counted.

use std::collections::BTreeMap;

use super::peek::{Room, Version};

/// After how many milliseconds an entry is looked at again, from the first look on.
const WAITS_MS: [u64; 5] = [1000, 5000, 25_000, 125_000, 600_000];
/// Number of looks before an entry is answered for whose error its sender may not be to blame.
const LOOKS_UNREAD: usize = 4;
/// Maximum number of entries that are remembered of one spool. Further ones are counted, but
/// neither answered nor spared a look.
const STUCK_MAX: usize = 1024;

#[derive(Debug)]
struct Entry {
    looks: usize,
    next_ms: u64,
    met: bool,
}

/// The entries of one spool that cannot be moved away.
#[derive(Debug, Default)]
pub(super) struct Stuck {
    entries: BTreeMap<Version, Entry>,
    /// Entries of this pass that are not remembered.
    beyond: usize,
    counted: usize,
}

impl Stuck {
    /// Whether none is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of entries at the end of the last pass.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// Whether this version is known and not looked at again yet.
    pub(super) fn rests(&mut self, version: &Version, now_ms: u64) -> bool {
        self.entries.get_mut(version).is_some_and(|entry| {
            entry.met = true;
            now_ms < entry.next_ms
        })
    }

    /// Records that this version could not be moved, or read if `is_unread`. Returns whether its
    /// sender is answered now.
    pub(super) fn stay(
        &mut self,
        version: Version,
        is_unread: bool,
        now_ms: u64,
        room: &mut Room,
    ) -> bool {
        let wait_ms = |looks: usize| {
            let most = WAITS_MS.len().saturating_sub(1);
            WAITS_MS.get(looks.min(most)).copied().unwrap_or_default()
        };
        if let Some(entry) = self.entries.get_mut(&version) {
            entry.looks = entry.looks.saturating_add(1);
            entry.next_ms = now_ms.saturating_add(wait_ms(entry.looks));
            entry.met = true;
            return is_unread && entry.looks + 1 == LOOKS_UNREAD;
        }
        if self.entries.len() >= STUCK_MAX || !room.take_stuck() {
            self.beyond = self.beyond.saturating_add(1);
            return false;
        }
        let entry = Entry {
            looks: 0,
            next_ms: now_ms.saturating_add(wait_ms(0)),
            met: true,
        };
        self.entries.insert(version, entry);
        !is_unread
    }

    /// Forgets a version that was moved after all.
    pub(super) fn forget(&mut self, version: &Version, room: &mut Room) {
        if self.entries.remove(version).is_some() {
            room.give_stuck();
        }
    }

    /// Forgets entries that were not met: all names were looked at, so they are gone or changed.
    pub(super) fn end_pass(&mut self, room: &mut Room) {
        self.entries.retain(|_, entry| {
            let met = std::mem::take(&mut entry.met);
            if !met {
                room.give_stuck();
            }
            met
        });
        self.counted = self
            .entries
            .len()
            .saturating_add(std::mem::take(&mut self.beyond));
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self, room: &mut Room) {
        self.end_pass(room);
        self.end_pass(room);
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    fn version(name: &str) -> Version {
        Version::of(OsStr::new(name), None)
    }

    #[test]
    fn an_entry_is_answered_once_and_looked_at_ever_more_rarely() {
        let (mut stuck, mut room) = (Stuck::default(), Room::default());
        let entry = version("a");
        assert!(!stuck.rests(&entry, 0) && stuck.stay(entry, false, 0, &mut room));
        let mut now_ms = 0;
        for wait_ms in [1000, 5000, 25_000, 125_000, 600_000, 600_000] {
            assert!(stuck.rests(&entry, now_ms + wait_ms - 1), "{wait_ms}");
            now_ms += wait_ms;
            assert!(!stuck.rests(&entry, now_ms), "{wait_ms}");
            assert!(
                !stuck.stay(entry, false, now_ms, &mut room),
                "answered once"
            );
        }
        // Another version is another entry.
        assert!(stuck.stay(version("b"), false, now_ms, &mut room));
        stuck.end_pass(&mut room);
        assert_eq!(stuck.counted(), 2);
        stuck.rests(&entry, now_ms);
        stuck.end_pass(&mut room);
        assert_eq!(stuck.counted(), 1);
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_answered_at_the_fourth_look() {
        let (mut stuck, mut room) = (Stuck::default(), Room::default());
        let told = (1..=6).map(|look| stuck.stay(version("a"), true, look * 600_000, &mut room));
        let told: Vec<bool> = told.collect();
        assert_eq!(told, [false, false, false, true, false, false]);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_rest_is_counted() {
        let (mut stuck, mut room) = (Stuck::default(), Room::default());
        for n in 1..=STUCK_MAX + 1 {
            let told = stuck.stay(version(&n.to_string()), false, 0, &mut room);
            assert_eq!(told, n <= STUCK_MAX, "{n}");
        }
        stuck.end_pass(&mut room);
        assert_eq!(stuck.counted(), STUCK_MAX + 1);
        stuck.clear(&mut room);
        assert_eq!(stuck.counted(), 0);
        // All room is back.
        let mut spools: Vec<Stuck> = (0..9).map(|_| Stuck::default()).collect();
        let told = spools.iter_mut().map(|stuck| {
            let mut stay = |n: usize| stuck.stay(version(&n.to_string()), false, 0, &mut room);
            (0..STUCK_MAX).filter(|n| stay(*n)).count()
        });
        assert_eq!(told.sum::<usize>(), 8 * STUCK_MAX);
    }
}
