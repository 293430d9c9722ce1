//! Changes of rule files that need approvals: the statements and signatures that people commit, and
//! the judgement, which is made once a change.

use std::collections::BTreeMap;
use std::path::Path;

use super::core::Core;
use spoolgate_gate::enforced::{Ruling, judged, ruling};
use spoolgate_ledger::disk::{Disk, Kind};
use spoolgate_rules::Rulebook;
use spoolgate_rules::review::Judgement;
use spoolgate_rules::review::statement::{APPROVALS, SIGNATURES_MAX, STATEMENT_BYTES_MAX};
use spoolgate_wire::time::Time;

/// Most statements that are looked at. Folders of changes that are in force may be removed.
const STATEMENTS_MAX: usize = 1000;

/// A judgement, with the hashes of the rulebook in force and of the changed one.
#[derive(Debug, Default)]
pub(super) struct Judged(Option<(String, String, Judgement)>);

impl Core {
    /// Rules on a rulebook that is to come into force.
    pub(super) fn ruling(&self, known: &mut Judged, new: &Rulebook, now: Time) -> Ruling {
        let state = &self.state.rulebook;
        if state.freed.as_ref() == Some(&new.hash) {
            return Ruling::Free;
        }
        let in_force = &self.rulebook;
        let is_of = |(from, to, _): &&(String, String, Judgement)| {
            (from, to) == (&in_force.hash, &new.hash)
        };
        if known.0.as_ref().filter(is_of).is_none() {
            known.0 = judged(in_force, new)
                .map(|judgement| (in_force.hash.clone(), new.hash.clone(), judgement));
        }
        let Some((_, _, judgement)) = &known.0 else {
            return Ruling::Free;
        };
        let files = approvals(self.seams.disk.as_ref());
        ruling((in_force, new), judgement, &files, &state.nonces, now)
    }
}

/// Reads the statements and signatures of a home. What cannot be read is no approval.
pub fn approvals(disk: &dyn Disk) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in names(disk, Path::new(APPROVALS), Kind::Directory)
        .into_iter()
        .take(STATEMENTS_MAX)
    {
        let path = format!("{APPROVALS}/{folder}");
        let mut own = names(disk, Path::new(&path), Kind::File);
        own.truncate(SIGNATURES_MAX.saturating_mul(2));
        for name in own {
            let path = format!("{path}/{name}");
            let read = disk.read(Path::new(&path), STATEMENT_BYTES_MAX);
            let whole = read
                .ok()
                .filter(|file| file.bytes.len() <= STATEMENT_BYTES_MAX);
            files.extend(whole.map(|file| (path, file.bytes)));
        }
    }
    files
}

/// Returns the names of the entries of a folder that are of this kind, in order.
fn names(disk: &dyn Disk, folder: &Path, kind: Kind) -> Vec<String> {
    let entries = disk.read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.name.into_string().ok())
        .filter(|name| {
            let stat = disk.stat(&folder.join(name));
            matches!(stat, Ok(Some(stat)) if stat.kind == kind)
        })
        .collect();
    names.sort();
    names
}
