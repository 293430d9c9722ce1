//! What a start does with the ledger before it changes anything: the same checks, read only.

use std::path::Path;

use crate::error::HomeError;
use crate::index::fold::Outstanding;
use crate::index::{Store, StoreError};
use crate::open::{Folded, Seams, read_genesis};
use crate::read::{self, View};
use crate::rotation::Pairs;
use crate::{pruning, released, rollback, rulebook};
use spoolgate_gate::State;
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_host::rule_folder::RuleFolder;
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::heads::{Heads, Remembered};
use spoolgate_ledger::log::Position;
use spoolgate_ledger::recover;
use spoolgate_rules::Rulebook;

/// What a gate would start with.
pub(super) struct Opened {
    pub(super) state: State,
    /// The rulebook in force.
    pub(super) rulebook: Rulebook,
}

/// A home with its index, to be looked at.
struct Place<'a> {
    seams: &'a Seams,
    origin: &'a str,
    pairs: &'a Pairs,
    /// Whether a gate is running over the home.
    runs: bool,
}

/// Reads what a start reads, and refuses what it refuses. If the log's keys cannot be read, which
/// is a finding of its own, only the ledger is read.
///
/// # Errors
/// Returns the error that a start would return.
pub(super) fn look(root: &Path, store: Option<Store>, runs: bool) -> Result<Opened, HomeError> {
    let seams = &read::real_seams(root)?;
    let keyring = SqliteKeyring::open_read_only(root).map_err(HomeError::from);
    let Ok(pairs) = keyring.and_then(|keyring| Pairs::of(&keyring)) else {
        let View {
            state, rulebook, ..
        } = read::read_with(root, seams, store)?;
        return Ok(Opened { state, rulebook });
    };
    let disk = seams.disk.as_ref();
    // Read what is remembered before the ledger, which a running gate extends. A folder of answers
    // that cannot be read is a finding of its own.
    let mut heads = rollback::newest_receipts(disk).unwrap_or_default();
    let genesis = read_genesis(root, disk)?;
    let place = Place {
        seams,
        origin: &genesis.origin,
        pairs: &pairs,
        runs,
    };
    let state = match place.folded(store.as_ref(), heads.clone()) {
        Err(
            HomeError::Ledger(LedgerError::NotOnLog)
            | HomeError::Store(StoreError::Damaged(_))
            | HomeError::Record(_),
        ) => {
            pruning::demand_contents(disk)?;
            heads.extend(store.iter().flat_map(rollback::of_index));
            place.folded(None, heads)?
        }
        folded => folded?,
    };
    let rules = RuleFolder::of(root);
    let (rulebook, _) = rulebook::kept_or_read(disk, &state.rulebook.hash, &rules)?;
    Ok(Opened { state, rulebook })
}

impl Place<'_> {
    /// Folds the lines after the snapshot of this index; without an index, all lines.
    fn folded(
        &self,
        store: Option<&Store>,
        mut remembered: Vec<Remembered>,
    ) -> Result<State, HomeError> {
        let disk = self.seams.disk.as_ref();
        let damaged =
            || StoreError::Damaged("a position in the index contradicts itself".to_owned());
        let snapshot = store.map_or(Ok(None), Store::snapshot)?;
        if let Some(tip) = store.map_or(Ok(None), Store::tip)? {
            let tip = Position::from_stored(&tip).ok_or_else(damaged)?;
            recover::check_anchor(disk, &tip)?;
        }
        let (anchor, state) = match snapshot {
            Some(snapshot) => {
                let position = Position::from_stored(&snapshot.position).ok_or_else(damaged)?;
                (Some(position), snapshot.state)
            }
            None => (None, State::default()),
        };
        remembered.extend(
            released::newest(disk, state.clock.last, self.seams.clock.now()).unwrap_or_default(),
        );
        let heads = Heads {
            remembered,
            given_up: state.given_up.clone(),
        };
        let known = self.pairs.known(self.origin, heads)?;
        let newest = Store::in_memory()?;
        let mut folded = Folded::from(state, Outstanding::new());
        let inspected = recover::inspect(disk, known, anchor, self.runs, &mut |line| {
            folded.line(&newest, line)
        });
        match (inspected, folded.failure.take()) {
            (Err(_), Some(failure)) => Err(failure),
            (Err(error), None) => Err(error.into()),
            (Ok(_), _) => Ok(folded.state),
        }
    }
}
