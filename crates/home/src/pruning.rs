//! Prunes the ledger of a home. It refuses to remove segments that are still needed, and to open a
//! home without its full state.

use std::path::Path;
use std::sync::Arc;

use super::core::Core;
use super::error::HomeError;
use super::open::{Home, Seams};
use crate::index::Store;
use crate::index::store::STATE_FILE;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::disk::Disk;
use spoolgate_ledger::prune;
use spoolgate_ledger::recover;
use spoolgate_ledger::segment::{self, AUDIT_DIR};
use spoolgate_ledger::stub::Stub;

/// Which segments to prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpTo {
    /// All segments before this one.
    Before(u32),
    /// All closed segments except this many of the newest.
    Keep(usize),
}

/// A segment that was pruned, or would be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Pruned {
    /// The plain file's name.
    pub file: String,
    /// Number of its lines.
    pub lines: u64,
    /// SHA-256 of its plain bytes, hex.
    pub sha256: String,
}

/// Refuses if contents of any segment were pruned, because the caller reads all of them.
///
/// # Errors
/// Returns [`HomeError::Ledger`] with the segments to bring back.
pub(super) fn demand_contents(disk: &dyn Disk) -> Result<(), HomeError> {
    let dir = Path::new(AUDIT_DIR);
    Ok(recover::demand_contents(
        disk,
        dir,
        &recover::kept(disk, dir)?,
        1,
    )?)
}

/// Refuses if state.db cannot be used and cannot be filled from the ledger, before it is created
/// anew.
///
/// # Errors
/// Returns [`HomeError::Ledger`] with the segments to bring back.
pub(super) fn demand_state(root: &Path, disk: &dyn Disk) -> Result<(), HomeError> {
    // Pruning starts with the first segment, and stubs stay.
    let first = Path::new(AUDIT_DIR).join(segment::stub_name(1));
    if disk
        .stat(&first)
        .map_err(|source| HomeError::disk(&first, source))?
        .is_none()
    {
        return Ok(());
    }
    let snapshot = Store::open_read_only(root).and_then(|store| store.snapshot());
    if matches!(snapshot, Ok(Some(_))) {
        Ok(())
    } else {
        demand_contents(disk)
    }
}

impl Home {
    /// Prunes archived segments, oldest first. With `copies`, each must have a copy in that folder.
    ///
    /// All of them are checked before anything is removed. With `only_look`, nothing is removed.
    ///
    /// # Errors
    /// Returns [`HomeError`] with the reason why a segment cannot be pruned.
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
        // From here on no answer has to be rebuilt, and the snapshot covers every line.
        home.mark_published()?;
        home.core.lines_since_snapshot = home.core.lines_since_snapshot.saturating_add(1);
        home.core.save_snapshot()?;
        let dir = Path::new(AUDIT_DIR);
        let kept = recover::kept(disk.as_ref(), dir)?;
        if let (UpTo::Before(number), Some((newest, _))) = (up_to, kept.last())
            && number > *newest
        {
            return Err(HomeError::NotAllowed(format!(
                "the log has no segment `{}`: its newest is `{}`",
                segment::file_name(number),
                segment::file_name(*newest)
            )));
        }
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
            found.push((
                number,
                prune::check(disk.as_ref(), dir, (number, kept), copies)?,
            ));
            progress(u64::try_from(found.len()).unwrap_or(u64::MAX));
        }
        home.core.demand_unneeded(&found)?;
        if !only_look {
            let state = Path::new(STATE_FILE).parent().unwrap_or(Path::new(""));
            home.core.store.rest()?;
            // The index cannot be rebuilt after pruning, so it must survive a power cut.
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
}

impl Core {
    /// Refuses if something unfinished still needs a line of these segments.
    fn demand_unneeded(&self, found: &[(u32, Stub)]) -> Result<(), HomeError> {
        let mut needed: Vec<(u64, String)> = Vec::new();
        needed.extend(self.outstanding.keys().map(|seq| {
            (
                *seq,
                "an answer that could not be made durable (something blocks the place of its files)"
                    .to_owned(),
            )
        }));
        needed.extend(
            self.state
                .approvals
                .iter()
                .map(|hold| (hold.id.0, format!("held request {}", hold.id))),
        );
        needed.extend(self.state.actions.open.keys().map(|id| {
            (
                id.0,
                format!(
                    "outgoing action {id}, which is open until a gate runs again (`spoolgate run \
                --until-idle`)"
                ),
            )
        }));
        for id in self.store.open_cases(usize::MAX)? {
            if let Some(docket) = self.store.docket(&id)? {
                let lines = docket
                    .votes
                    .iter()
                    .map(|(seq, _)| *seq)
                    .chain([docket.request]);
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
                    "`{}` cannot be pruned: its line {seq} is needed by {what}; nothing was \
                        removed",
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
