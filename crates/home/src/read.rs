//! Reads a home without its lock: the state up to the last sealed batch, even while a gate is
//! running.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::error::HomeError;
use super::open::{Seams, read_genesis};
use super::rulebook;
use super::sealed;
use crate::index::fold::{Outstanding, fold};
use crate::index::lineage::TreeSums;
use crate::index::proposals::{ProposalRow, Standing};
use crate::index::{Store, StoreError, cases, proposals};
use spoolgate_council::case::Docket;
use spoolgate_gate::council::Said;
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::proposals::{Change as Step, Proposed};
use spoolgate_gate::record::{Genesis, Response};
use spoolgate_gate::{Change, Record, State};
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::log::{self, CHECKPOINT_FILE, Position};
use spoolgate_ledger::recover;
use spoolgate_ledger::rotation::LogIdentity;
use spoolgate_ledger::scan::{SealedLine, scan_segment};
use spoolgate_ledger::segment;
use spoolgate_ledger::{line, note};
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::ids::{OrderId, ProposalId, RequestId};
use spoolgate_wire::time::Time;

/// A home as of a sealed batch.
pub struct View {
    /// The state as of that batch.
    pub state: State,
    /// The rulebook in force as of that batch.
    pub rulebook: Rulebook,
    /// An index of the lines after the snapshot.
    pub(super) newest: Store,
    /// The committed index; `None` if it could not be used.
    pub(super) on_disk: Option<Store>,
    pub(super) disk: Arc<dyn Disk>,
    /// The end of the ledger.
    pub position: Position,
}

impl View {
    /// Returns the fills recorded at or after `since`, oldest first.
    pub fn fills_since(&self, since: Time) -> Result<Vec<Fill>, StoreError> {
        let mut fills: BTreeMap<(u64, u32), Fill> = BTreeMap::new();
        for store in self.on_disk.iter().chain([&self.newest]) {
            fills.extend(store.numbered_fills_since(since, usize::MAX)?);
        }
        Ok(fills.into_values().collect())
    }

    /// Returns how an order ended; `None` if it is open or there is no such order.
    pub fn closed_order(&self, id: OrderId) -> Result<Option<ClosedOrder>, StoreError> {
        // Newer rows are in the index of the lines after the snapshot.
        for store in self.stores().into_iter().rev() {
            if let Some(closed) = store.closed_order(id)? {
                return Ok(Some(closed));
            }
        }
        Ok(None)
    }

    /// Returns the lines that answered a verified request of this id, one per spool it came
    /// through.
    pub fn request_lines(&self, id: &str) -> Result<Vec<u64>, StoreError> {
        let own = self
            .rulebook
            .principals
            .values()
            .filter_map(|rule| rule.spool.clone())
            .map(Origin::Agent);
        let mut lines = BTreeSet::new();
        for origin in [Origin::Flat, Origin::Local].into_iter().chain(own) {
            for store in self.stores() {
                lines.extend(
                    store
                        .seen_in_spool(&origin.label(), id)?
                        .map(|seen| seen.seq),
                );
            }
        }
        Ok(lines.into_iter().collect())
    }

    pub(super) fn stores(&self) -> Vec<&Store> {
        self.on_disk.iter().chain([&self.newest]).collect()
    }

    /// Returns the index that knows a tree. The one on disk does, except for lines that a gate died
    /// before indexing.
    ///
    /// # Errors
    /// Returns [`HomeError::Unsettled`] if each index knows a part of the tree.
    pub(super) fn index_of(&self, tenant: &str, root: &str) -> Result<&Store, HomeError> {
        let Some(on_disk) = &self.on_disk else {
            return Ok(&self.newest);
        };
        let tip = on_disk
            .tip()?
            .and_then(|stored| Position::from_stored(&stored));
        let is_whole = tip.is_some_and(|tip| tip.seq >= self.position.seq);
        if is_whole || !self.newest.mentions(tenant, root)? {
            return Ok(on_disk);
        }
        if on_disk.mentions(tenant, root)? {
            let what = "the index is behind the ledger on this task's tree; `spoolgate run \
                --until-idle` updates it";
            return Err(HomeError::Unsettled(what.to_owned()));
        }
        Ok(&self.newest)
    }

    /// Returns the trees of this name, in the order of their tenants, with what their tasks have
    /// reserved and spent.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be read or is behind the ledger on one of them.
    pub fn trees(&self, root: &RequestId) -> Result<Vec<TreeSums>, HomeError> {
        let mut tenants = BTreeSet::new();
        for store in self.stores() {
            tenants.extend(store.tenants_of(root)?);
        }
        let mut trees = Vec::new();
        for tenant in tenants {
            let index = self.index_of(tenant.as_str(), root.as_str())?;
            trees.extend(index.tree_sums(&tenant, root)?);
        }
        Ok(trees)
    }

    /// Returns the first answer that an index has: the one on disk is asked first, then the one of
    /// the lines after it.
    ///
    /// # Errors
    /// Returns the error of `ask`.
    pub(super) fn first<T>(
        &self,
        ask: impl Fn(&Store) -> Result<Option<T>, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.stores()
            .into_iter()
            .find_map(|store| ask(store).transpose())
            .transpose()
    }

    /// Returns what is known of a council case.
    pub fn docket(&self, id: &RequestId) -> Result<Option<Docket>, StoreError> {
        cases::docket(&self.stores(), id)
    }

    /// Returns council cases, newest first.
    pub fn dockets(&self, limit: usize, only_open: bool) -> Result<Vec<Docket>, StoreError> {
        let mut ids: BTreeSet<RequestId> = BTreeSet::new();
        for store in self.stores() {
            // A case that is open in one index may have ended in the next.
            ids.extend(if only_open {
                store.open_cases(usize::MAX)?
            } else {
                store.newest_cases(limit)?
            });
        }
        let mut found = Vec::new();
        for id in ids {
            found.extend(
                self.docket(&id)?
                    .filter(|docket| !only_open || docket.closed.is_none()),
            );
        }
        found.sort_by_key(|docket| std::cmp::Reverse(docket.request));
        found.truncate(limit);
        Ok(found)
    }

    /// Returns a proposal and its standing.
    pub fn proposal(&self, id: ProposalId) -> Result<Option<(ProposalRow, Proposed)>, HomeError> {
        let Some(row) = proposals::proposal(&self.stores(), id)? else {
            return Ok(None);
        };
        let Some(line) = row.record else {
            return Ok(None);
        };
        let record = self.record(line)?;
        let steps = record.iter().flat_map(Record::changes);
        let proposed = steps.filter_map(|change| match change {
            Change::Proposal(Step::Pended { proposed, .. } | Step::Applied { proposed, .. }) => {
                Some(proposed)
            }
            _ => None,
        });
        let mut own = proposed.filter(|proposed| proposed.proposal_id == id);
        Ok(own.next().map(|proposed| (row, proposed.as_ref().clone())))
    }

    /// Returns proposals, newest first.
    pub fn proposals(
        &self,
        limit: usize,
        only_pending: bool,
    ) -> Result<Vec<(ProposalRow, Proposed)>, HomeError> {
        let mut ids: BTreeSet<ProposalId> = BTreeSet::new();
        for store in self.stores() {
            // A proposal that is pending in one index may have ended in the next.
            let newest = if only_pending {
                store.pending_proposals()
            } else {
                store.newest_proposals(limit)
            };
            ids.extend(newest?);
        }
        let newest = ids
            .into_iter()
            .rev()
            .filter_map(|id| match self.proposal(id) {
                // It was decided on long ago. Looking it up by its id reports which segment to
                // bring back.
                Err(HomeError::Ledger(LedgerError::Pruned(_))) => None,
                other => other.transpose(),
            });
        let is_shown = |found: &Result<(ProposalRow, Proposed), HomeError>| {
            let waits = |row: &ProposalRow| row.standing == Standing::Pending;
            !only_pending || found.as_ref().map_or(true, |(row, _)| waits(row))
        };
        newest.filter(is_shown).take(limit).collect()
    }

    /// Returns the line of this number if it is indexed: decisions, council decisions and inputs
    /// are.
    pub fn record(&self, seq: u64) -> Result<Option<Record>, HomeError> {
        for store in self.stores() {
            if let Some(record) = record_in(self.disk.as_ref(), store, seq)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// Returns the result of the outgoing action that a line began, without what was redacted;
    /// `None` if it is open or the line began none.
    pub fn response_to(&self, line: u64) -> Result<Option<Response>, HomeError> {
        for store in self.stores() {
            if let Some(seq) = store.response_to(line)?
                && let Some(Record::Response(response)) = self.record(seq)?
            {
                return Ok(Some(sealed::response(self.disk.as_ref(), &response)?.line));
            }
        }
        Ok(None)
    }

    /// Returns a text of a line, from its member or its blob; `None` if the blob is missing or
    /// damaged.
    pub fn text(
        &self,
        member: Option<&str>,
        digest: Option<&str>,
    ) -> Result<Option<String>, HomeError> {
        super::cases::text(self.disk.as_ref(), member, digest)
    }

    /// Returns the payload of line `seq`.
    pub fn payload(&self, seq: u64) -> Result<Option<String>, HomeError> {
        match self.record(seq)? {
            Some(record) => super::cases::payload(self.disk.as_ref(), &record),
            None => Ok(None),
        }
    }

    /// Returns the payload hash that was signed in the request of line `seq`; `None` unless the
    /// request has sealed members and they are disclosed.
    pub fn signed_hash(&self, seq: u64) -> Result<Option<String>, HomeError> {
        sealed::signed_hash(self.disk.as_ref(), self.record(seq)?.as_ref())
    }

    /// Returns the rulebook that was kept under this hash when it was in force.
    ///
    /// # Errors
    /// Returns [`HomeError`] if it is missing or damaged.
    pub fn rulebook_of(&self, hash: &str) -> Result<Rulebook, HomeError> {
        rulebook::kept(self.disk.as_ref(), hash)
    }

    /// Returns the statements made in a council case.
    pub fn said(&self, docket: &Docket) -> Result<Said, HomeError> {
        super::cases::said(docket, |seq| self.payload(seq))
    }
}

/// Returns a line that this index knows.
///
/// # Errors
/// Returns [`HomeError`] if the line cannot be read.
pub(super) fn record_in(
    disk: &dyn Disk,
    store: &Store,
    seq: u64,
) -> Result<Option<Record>, HomeError> {
    let Some(location) = store.line(seq)? else {
        return Ok(None);
    };
    let bytes = log::read_line(disk, location)?;
    let fail = |error: String| HomeError::Record(format!("line {seq}: {error}"));
    let line = line::parse(&bytes).map_err(|error| fail(error.to_string()))?;
    Record::parse(line.kind, &line.body()).map_err(|error| fail(error.to_string()))
}

/// Reads a home from its snapshot and the lines after it. Takes no lock and changes nothing.
pub fn read(root: &Path, seams: &Seams) -> Result<View, HomeError> {
    read_with(root, seams, Store::open_read_only(root).ok())
}

/// As [`read`], with this index. Without an index, folds everything from the first line.
pub(super) fn read_with(
    root: &Path,
    seams: &Seams,
    index: Option<Store>,
) -> Result<View, HomeError> {
    let genesis = read_genesis(root, seams.disk.as_ref())?;
    let identity = identity_of(&genesis)?;
    // Folding fills an index of its own, with what the snapshot lacks; look-ups ask both.
    let store = Store::in_memory()?;
    // Without a usable index, or with one of another log, everything is folded from the first line.
    let snapshot = index.and_then(|on_disk| {
        let snapshot = on_disk.snapshot().ok()??;
        let position = Position::from_stored(&snapshot.position)?;
        recover::check_anchor(seams.disk.as_ref(), &position).ok()?;
        Some((on_disk, position, snapshot.state))
    });
    let (on_disk, position, mut state) = match snapshot {
        Some((on_disk, position, state)) => (Some(on_disk), position, state),
        None => (None, Position::start(identity), State::default()),
    };
    // A snapshot of an earlier version lacks it.
    state.log = genesis.origin;
    let mut outstanding = Outstanding::new();
    let position = each_sealed_line(seams.disk.as_ref(), position, &mut |line| {
        let record = Record::parse(&line.kind, &line.body)
            .map_err(|error| HomeError::Record(error.to_string()))?;
        let Some(record) = record else { return Ok(()) };
        fold(&mut state, &store, &mut outstanding, line.seq, &record)?;
        if record.is_indexed() {
            store.insert_line(line.seq, line.location(), &record)?;
        }
        Ok(())
    })?;
    let rulebook = rulebook::kept(seams.disk.as_ref(), &state.rulebook.hash)?;
    Ok(View {
        state,
        rulebook,
        newest: store,
        on_disk,
        disk: Arc::clone(&seams.disk),
        position,
    })
}

/// Returns the keys that a log begins with, by its first line.
pub fn identity_of(genesis: &Genesis) -> Result<LogIdentity, HomeError> {
    LogIdentity::new(&genesis.origin, &genesis.log_key, &genesis.seal_key)
        .map_err(|error| HomeError::Record(format!("genesis line: {error}")))
}

/// Returns the number of lines that a checkpoint states; `None` if it cannot be read. This number
/// is not trusted: it can only show that lines are missing.
pub fn size_of_checkpoint(disk: &dyn Disk, checkpoint: &Path) -> Option<u64> {
    let file = disk.read(checkpoint, note::NOTE_BYTES_MAX).ok()?;
    String::from_utf8_lossy(&file.bytes)
        .lines()
        .nth(1)
        .and_then(|size| size.parse().ok())
}

/// Passes every line from `position` on to `visit`, with chain and seals checked, and returns the
/// end of the log.
///
/// # Errors
/// Returns [`HomeError`] if a line cannot be used, or if the checkpoint counts more lines than can
/// be read.
pub fn each_sealed_line(
    disk: &dyn Disk,
    mut position: Position,
    visit: &mut dyn FnMut(&SealedLine) -> Result<(), HomeError>,
) -> Result<Position, HomeError> {
    // Read before the log: a running gate may extend the log meanwhile, and the log must include
    // this head.
    let checkpoint = Path::new(CHECKPOINT_FILE);
    let newest = size_of_checkpoint(disk, checkpoint);
    let dir = Path::new(segment::AUDIT_DIR);
    let kept = recover::kept(disk, dir)?;
    recover::demand_contents(disk, dir, &kept, position.segment)?;
    let last = kept.last().map_or(1, |(number, _)| *number);
    loop {
        let path = segment::path(position.segment);
        let fail = |source| HomeError::disk(&path, source);
        let file =
            segment::open(disk, Path::new(segment::AUDIT_DIR), position.segment).map_err(fail)?;
        let mut failure = None;
        let scanned = scan_segment(file.as_ref(), &position, &mut |line| {
            visit(line).map_err(|error| {
                // The scan can only return io::Error; keep the actual error here.
                failure = Some(error);
                io::Error::other("a line cannot be used")
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let end = scanned.map_err(fail)?.position;
        let number = end.segment;
        position = end;
        if number >= last {
            break;
        }
        position.segment = number.saturating_add(1);
        position.offset = 0;
        position.lines = 0;
    }
    if let Some(size) = newest.filter(|size| position.seq < *size) {
        return Err(HomeError::Record(format!(
            "`{}` covers {size} lines, but only {} can be read; run `spoolgate audit verify`",
            checkpoint.display(),
            position.seq
        )));
    }
    Ok(position)
}

/// Makes the seams of a real home.
///
/// # Errors
/// Returns [`HomeError::NotAHome`] if `root` is not a folder, or the system's error.
pub fn real_seams(root: &Path) -> Result<Seams, HomeError> {
    let disk =
        spoolgate_host::real_disk::RealDisk::open(root).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                HomeError::NotAHome(root.to_owned())
            }
            _ => HomeError::disk(root, source),
        })?;
    Ok(Seams {
        disk: Arc::new(disk),
        clock: Arc::new(spoolgate_host::clock::SystemClock::default()),
        entropy: Arc::new(spoolgate_host::entropy::SystemEntropy),
    })
}
