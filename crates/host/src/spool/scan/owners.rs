//! Turns by owner in the flat spool.
//!
//! The owner of a file (`st_uid`) is known without opening it, and no sender can choose it. Each
//! owner with files in the flat spool is a spool of its own in the scanner's ring, so its requests
//! wait for at most one turn of each other owner and spool, however many files others put there.
//!
//! The order in which a folder shows its names is arbitrary, so one file of a quiet owner can come
//! after any number of files of another. Therefore each round begins with a look at the folder: one
//! pass over its names, with one `stat` each, which lists for every owner the first names of that
//! owner. What a look holds is bounded, whatever is in the folder:
//!
//! - at most [`OWNERS_MAX`] owners have a place. All further ones share one more, like one owner; an
//!   owner without files gives up its place.
//! - [`LIST_MIN`] names of each owner, as many files as a turn has at most, and up to [`LIST_MAX`]
//!   if less than [`LISTED_MAX`] are listed in all.
//!
//! An owner with more names reads the folder itself, from its start to its end, as an open stream
//! that passes over the files of others. It is not listed meanwhile, so each of its names has its
//! turn even if it adds names without end. A look ends after [`NAMES_ROUND`] names and
//! [`NAMES_PER_CLAIM`] more for each request of the round before, and goes on in the next round: it
//! takes about as long as the batch. While the spool is over its quota, a look is followed by a pause
//! of the same length.

use std::collections::BTreeMap;
use std::io;

use super::{Gate, NAMES_ROUND, Scanner, is_agents_folder};
use crate::spool::allowance::Allowance;
use crate::spool::name::is_ignored;
use crate::spool::source::Source;
use spoolgate_gate::prepare::Origin;
use spoolgate_ledger::disk::{DirStream, Disk};

/// Maximum number of owners that have a place of their own.
const OWNERS_MAX: usize = 256;
/// Number of names that are listed of each owner.
const LIST_MIN: usize = 64;
/// Maximum number of names that are listed of one owner.
const LIST_MAX: usize = 1024;
/// Number of listed names from which on no owner has more than [`LIST_MIN`].
const LISTED_MAX: usize = 4096;
/// Number of names that each claimed request adds to the next look.
const NAMES_PER_CLAIM: usize = 256;
/// Place of the flat spool in the ring, for owners without a place of their own.
const SHARED: usize = 1;

/// The look at the flat spool.
#[derive(Default)]
pub(super) struct Look {
    stream: Option<DirStream>,
    /// The place of each owner in the ring.
    places: BTreeMap<u32, usize>,
    /// Number of requests that the last round claimed.
    claimed: usize,
    began_ms: u64,
    rests_until_ms: u64,
}

impl Look {
    /// The place in the ring of files of this user.
    pub(super) fn place(&self, uid: Option<u32>) -> usize {
        let own = uid.and_then(|uid| self.places.get(&uid));
        own.copied().unwrap_or(SHARED)
    }

    /// Whether the folder was not read to its end yet.
    pub(super) fn is_going_on(&self) -> bool {
        self.stream.is_some()
    }

    /// Records how many requests a round claimed.
    pub(super) fn claimed(&mut self, requests: usize) {
        self.claimed = requests;
    }

    /// Begins anew, with the owners that are in the ring.
    pub(super) fn begin_again(&mut self, sources: &[Source]) {
        let owners = sources.iter().enumerate();
        *self = Look {
            places: owners
                .filter_map(|(place, source)| Some((source.owner?, place)))
                .collect(),
            ..Look::default()
        };
    }
}

impl Scanner {
    /// Looks at the names of the flat spool and lists the first ones of each owner.
    pub(super) fn look_ahead(
        &mut self,
        (disk, gate): (&dyn Disk, Gate),
        now_ms: u64,
    ) -> io::Result<()> {
        let is_over = self
            .quotas
            .get(&Origin::Flat)
            .is_some_and(Allowance::is_over);
        let dir = super::folder(&Origin::Flat);
        let mut stream = match self.look.stream.take() {
            Some(stream) => stream,
            None if is_over && now_ms < self.look.rests_until_ms => return Ok(()),
            None => {
                self.look.began_ms = now_ms;
                self.in_flat(Source::begin_list);
                match disk.read_dir(&dir) {
                    Ok(stream) => stream,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        Box::new(std::iter::empty())
                    }
                    Err(error) => return Err(error),
                }
            }
        };
        let mut listed: usize = self.sources.iter().map(Source::listed).sum();
        let names = self.look.claimed.saturating_mul(NAMES_PER_CLAIM);
        for _ in 0..names.saturating_add(NAMES_ROUND) {
            let Some(entry) = stream.next() else {
                self.in_flat(Source::end_list);
                let took_ms = now_ms.saturating_sub(self.look.began_ms);
                self.look.rests_until_ms = now_ms.saturating_add(took_ms);
                return Ok(());
            };
            let entry = entry?;
            if is_ignored(&entry.name)
                || is_agents_folder((disk, gate), &self.agents, &entry.name, entry.kind)?
            {
                continue;
            }
            let (uid, kind) = match disk.stat(&dir.join(&entry.name)) {
                Ok(None) => continue,
                Ok(Some(stat)) => (Some(stat.uid), Some(stat.kind)),
                // Only when its turn comes, an error matters.
                Err(_) => (None, entry.kind),
            };
            let place = self.place_for(uid);
            if let Some(source) = self.sources.get_mut(place) {
                let most = if listed < LISTED_MAX {
                    LIST_MAX
                } else {
                    LIST_MIN
                };
                let has_room = source.listed() < most;
                listed += usize::from(source.list(entry.name, kind, has_room));
            }
        }
        self.look.stream = Some(stream);
        Ok(())
    }

    fn in_flat(&mut self, change: fn(&mut Source)) {
        let flat = self.sources.iter_mut();
        flat.filter(|source| source.origin == Origin::Flat)
            .for_each(change);
    }

    /// The place of files of this user, made if there is room.
    fn place_for(&mut self, uid: Option<u32>) -> usize {
        let known = self.look.place(uid);
        let Some(uid) = uid.filter(|_| known == SHARED) else {
            return known;
        };
        let mut new = Source::new(Origin::Flat, Some(uid));
        new.begin_list();
        if self.look.places.len() < OWNERS_MAX {
            self.sources.push(new);
            let place = self.sources.len() - 1;
            self.look.places.insert(uid, place);
            return place;
        }
        let places = self.look.places.iter();
        let idle = places
            .map(|(uid, place)| (*uid, *place))
            .find(|(_, place)| self.sources.get(*place).is_some_and(Source::is_idle));
        let Some((old, place)) = idle else {
            return SHARED;
        };
        if let Some(source) = self.sources.get_mut(place) {
            source.clear(&mut self.room);
            *source = new;
        }
        if let Some(allowance) = self.quotas.get_mut(&Origin::Flat) {
            allowance.forget(Some(old));
        }
        self.look.places.remove(&old);
        self.look.places.insert(uid, place);
        self.forget_unfinished();
        place
    }
}
