//! Pruning a home: what of its ledger has to stay, and that it is never opened with less than all of its state.

use std::path::Path;
use std::sync::Arc;

use super::open::{Home, HomeError, Seams};
use crate::host::disk::Disk;
use crate::host::real_disk::RealDisk;
use crate::ledger::prune;
use crate::ledger::recover;
use crate::ledger::segment::{self, AUDIT_DIR};
use crate::ledger::stub::Stub;
use crate::state::Store;
use crate::state::store::STATE_FILE;

/// Which segments to prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpTo {
    /// All before this one.
    Before(u32),
    /// All closed ones but the newest so many.
    Keep(usize),
}

/// One segment that was pruned, or would be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    /// The plain file's name.
    pub file: String,
    /// Its lines.
    pub lines: u64,
    /// SHA-256 of its plain bytes, hex.
    pub sha256: String,
}

/// Refuses if contents of any segment were pruned: whoever calls this reads them all.
///
/// # Errors
/// [`HomeError::Ledger`] with those to bring back.
pub(super) fn demand_contents(disk: &dyn Disk) -> Result<(), HomeError> {
    let dir = Path::new(AUDIT_DIR);
    Ok(recover::demand_contents(disk, dir, &recover::kept(disk, dir)?, 1)?)
}

/// Refuses where state.db cannot be used, before it is made anew, if it could not be filled from the ledger.
///
/// # Errors
/// [`HomeError::Ledger`] with the segments to bring back.
pub(super) fn demand_state(root: &Path, disk: &dyn Disk) -> Result<(), HomeError> {
    // Pruning goes from the first segment on, and stubs stay.
    let first = Path::new(AUDIT_DIR).join(segment::stub_name(1));
    if disk.stat(&first).map_err(|source| HomeError::disk(&first, source))?.is_none() {
        return Ok(());
    }
    let snapshot = Store::open_read_only(root).and_then(|store| store.snapshot());
    if matches!(snapshot, Ok(Some(_))) { Ok(()) } else { demand_contents(disk) }
}

impl Home {
    /// Prunes archived segments, oldest first; with `copies`, only those of which a copy lies in that folder. All of
    /// them are checked before anything is removed, and with `only_look` nothing is.
    ///
    /// # Errors
    /// [`HomeError`] with what is in the way.
    pub fn prune(
        root: &Path,
        seams: Seams,
        up_to: UpTo,
        copies: Option<&dyn Disk>,
        only_look: bool,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Pruned>, HomeError> {
        let disk = Arc::clone(&seams.disk);
        let mut home = Home::open(root, seams)?;
        // From here on no answer has to be made again, and the snapshot is behind everything.
        home.mark_published()?;
        home.lines_since_snapshot = home.lines_since_snapshot.saturating_add(1);
        home.save_snapshot()?;
        let dir = Path::new(AUDIT_DIR);
        let kept = recover::kept(disk.as_ref(), dir)?;
        let last = match up_to {
            UpTo::Before(number) => number.saturating_sub(1),
            UpTo::Keep(count) => {
                let closed = kept.len().saturating_sub(1).saturating_sub(count);
                u32::try_from(closed).unwrap_or(u32::MAX)
            }
        };
        let mut found: Vec<(u32, Stub)> = Vec::new();
        let due = prune::due(&kept, last);
        for (number, kept) in kept.into_iter().filter(|(number, _)| due.contains(number)) {
            found.push((number, prune::check(disk.as_ref(), dir, (number, kept), copies)?));
            progress(u64::try_from(found.len()).unwrap_or(u64::MAX));
        }
        home.demand_unneeded(&found)?;
        if !only_look {
            let state = Path::new(STATE_FILE).parent().unwrap_or(Path::new(""));
            home.store.rest()?;
            // The index cannot be made again from here on: it must survive a power cut.
            sync_folder(&root.join(state)).map_err(|source| HomeError::disk(state, source))?;
            for (number, stub) in &found {
                prune::prune(disk.as_ref(), dir, *number, stub)?;
            }
        }
        let told = found.into_iter().map(|(_, Stub { header, .. })| Pruned {
            file: header.file,
            lines: header.lines,
            sha256: header.sha256,
        });
        Ok(told.collect())
    }

    /// Refuses if a line of these segments is needed by something that is not over.
    fn demand_unneeded(&self, found: &[(u32, Stub)]) -> Result<(), HomeError> {
        let mut needed: Vec<(u64, String)> = Vec::new();
        needed.extend(self.outstanding.keys().map(|seq| {
            (
                *seq,
                "an answer that could not be made durable (an obstacle stands where its files go)".to_owned(),
            )
        }));
        needed
            .extend(self.state.approvals.iter().map(|hold| (hold.id.0, format!("held request {}", hold.id))));
        needed.extend(self.state.actions.open.keys().map(|id| {
            (id.0, format!("outgoing action {id}, which is open until a gate runs again (`spoolgate run --until-idle`)"))
        }));
        for id in self.store.open_cases(usize::MAX)? {
            if let Some(docket) = self.store.docket(&id)? {
                let lines = docket.votes.iter().map(|(seq, _)| *seq).chain([docket.request]);
                needed.extend(lines.map(|seq| (seq, format!("open council case {id}"))));
            }
        }
        for id in self.store.pending_proposals()? {
            if let Some(row) = self.store.proposal(id)? {
                needed.extend(
                    row.record
                        .into_iter()
                        .chain([row.seq])
                        .map(|seq| (seq, format!("pending proposal {id}"))),
                );
            }
        }
        for (_, Stub { header, .. }) in found {
            let lines = header.first_line..header.first_line.saturating_add(header.lines);
            if let Some((seq, what)) = needed.iter().find(|(seq, _)| lines.contains(seq)) {
                return Err(HomeError::Unsettled(format!(
                    "`{}` cannot be pruned: its line {seq} is needed by {what}; nothing was removed",
                    header.file
                )));
            }
        }
        Ok(())
    }
}

/// Makes everything on the file system of a folder durable.
fn sync_folder(folder: &Path) -> std::io::Result<()> {
    RealDisk::open(folder)?.sync_fs(Path::new(""))
}
