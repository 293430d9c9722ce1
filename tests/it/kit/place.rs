//! A home with rules, keys and index in a temporary folder, and spool and ledger in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, HomeError, Seams, layout};
use spoolgate_host::clock::{Clock, ManualClock};
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_host::keyring::{LogKeys, SqliteKeyring, key_id};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;

use super::layered::{Fuse, Layered};
use super::memory_disk::MemoryDisk;
use super::signed;

/// The name of the test log.
pub(crate) const ORIGIN: &str = "spoolgate.invalid/damage";

/// A home.
pub(crate) struct Place {
    /// Holds rules, keyring and index.
    pub root: tempfile::TempDir,
    /// Holds spool and ledger.
    pub disk: Arc<MemoryDisk>,
    /// Stands still until a test moves it.
    pub clock: Arc<ManualClock>,
    /// The key of the first person.
    pub owner: SignKey,
}

/// Copies a folder with all its contents.
pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn seams(disk: &Arc<MemoryDisk>, clock: &Arc<ManualClock>, seed: u64) -> Seams {
    Seams {
        disk: disk.clone(),
        clock: clock.clone(),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

impl Place {
    /// Makes a home under this project's own rules, with keys drawn from `seed`.
    pub(crate) fn new(seed: u64) -> Place {
        Place::at(seed, "2026-03-02T12:00:00Z", |_| {})
    }

    /// Makes a home at another time, under rules that `edit` changes in the folder that it is
    /// given.
    pub(crate) fn at(seed: u64, time: &str, edit: impl FnOnce(&Path)) -> Place {
        let root = super::folder();
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["rules", "proposals/theses"] {
            copy_tree(&project.join(folder), &root.path().join(folder));
        }
        edit(root.path());
        fs::create_dir(root.path().join("state")).unwrap();
        let disk = Arc::new(MemoryDisk::default());
        let clock = Arc::new(ManualClock::at(Time::parse(time).unwrap()));
        let person = Principal::parse("owner").unwrap();
        layout::found(root.path(), &seams(&disk, &clock, seed), ORIGIN, &person).unwrap();
        let place = Place {
            root,
            disk,
            clock,
            owner: SignKey::Hmac([0; 32]),
        };
        let home = place.open().unwrap();
        let owner = layout::own_sign_key(home.keyring(), home.state(), &person, place.clock.now())
            .unwrap()
            .unwrap();
        drop(home);
        let _ = fs::remove_file(place.root.path().join("state/state.db"));
        Place { owner, ..place }
    }

    /// Copies the home, without the faults of its disk.
    pub(crate) fn fork(&self) -> Place {
        let root = super::folder();
        copy_tree(self.root.path(), root.path());
        Place {
            root,
            disk: Arc::new(self.disk.copy()),
            clock: Arc::new(ManualClock::at(self.clock.now())),
            owner: self.owner.clone(),
        }
    }

    /// Returns the seams to the outside.
    pub(crate) fn seams(&self) -> Seams {
        seams(&self.disk, &self.clock, 0)
    }

    /// Returns seams with which a home dies at a call of the disk, before or after the call is
    /// made; the fuse counts the calls.
    pub(crate) fn mortal(&self, calls: i64, after: bool) -> (Seams, Arc<Fuse>) {
        let fuse = Fuse::of(calls);
        let burns = Arc::clone(&fuse);
        let disk = Layered::around(self.disk.clone(), move |call| {
            if call.verb == "sync_dir" || !(call.is_change() || call.is_of_log()) {
                return Ok(());
            }
            if !call.is_done {
                let _ = burns.burn();
            }
            assert!(
                burns.left() != 0 || call.is_done != after,
                "killed at {}, after it: {after}",
                call.verb
            );
            Ok(())
        });
        (
            Seams {
                disk: Arc::new(disk),
                ..self.seams()
            },
            fuse,
        )
    }

    /// Opens the home.
    pub(crate) fn open(&self) -> Result<Home, HomeError> {
        self.open_with(self.seams())
    }

    /// Opens the home with other seams.
    pub(crate) fn open_with(&self, seams: Seams) -> Result<Home, HomeError> {
        Home::open(self.root.path(), seams)
    }

    /// Returns the keys that the log is written with.
    pub(crate) fn log_keys(&self) -> LogKeys {
        SqliteKeyring::open(self.root.path(), false)
            .unwrap()
            .log_keys()
            .unwrap()
    }

    /// Removes the index, so that everything is read from the first line on.
    pub(crate) fn forget_state(&self) {
        for ending in ["", "-wal", "-shm"] {
            let _ = fs::remove_file(self.root.path().join(format!("state/state.db{ending}")));
        }
    }

    /// Moves the clock.
    pub(crate) fn pass_s(&self, seconds: i64) {
        self.clock.set(self.clock.now().plus_ms(seconds * 1000));
    }

    /// Puts a signed request into the flat spool.
    pub(crate) fn ask(&self, key: &SignKey, source: &str, id: &str, action: &str, payload: &str) {
        self.ask_in("spool/in", key, (source, id, action, payload));
    }

    /// Drops a signed request of `(source, id, action, payload)` into this folder.
    pub(crate) fn ask_in(
        &self,
        folder: &str,
        key: &SignKey,
        (source, id, action, payload): (&str, &str, &str, &str),
    ) {
        let envelope = signed(key, source, id, action, payload, self.clock.now());
        let path = format!("{folder}/{id}.json");
        self.disk.put(path, envelope.to_json().as_bytes());
    }

    /// Puts a request that the first person signed into the flat spool.
    pub(crate) fn ask_as_owner(&self, id: &str, action: &str, payload: &str) {
        self.ask(&self.owner, "owner", id, action, payload);
    }

    /// Gives the agent a key: stores it in the keyring and requests `keys.add`.
    pub(crate) fn ask_for_agent_key(&self, id: &str) -> SignKey {
        self.ask_for_key("trend-bot", 7, id)
    }

    /// Gives a principal the key of this seed: stores it in the keyring and requests `keys.add`.
    pub(crate) fn ask_for_key(&self, name: &str, seed: u8, id: &str) -> SignKey {
        let key = SignKey::Hmac([seed; 32]);
        SqliteKeyring::open(self.root.path(), false)
            .unwrap()
            .insert(&key.verify_key())
            .unwrap();
        let key_id = key_id(&key.verify_key());
        let payload =
            json!({"principal": name, "key_id": key_id, "algorithm": "hmac-sha256"}).to_string();
        self.ask_as_owner(id, "keys.add", &payload);
        key
    }

    /// Gives each of these principals a key of its own.
    pub(crate) fn ask_for_keys(&self, names: impl IntoIterator<Item = &'static str>) -> Keys {
        (1..)
            .zip(names)
            .map(|(n, name)| (name, self.ask_for_key(name, n, &format!("key-{name}"))))
            .collect()
    }

    /// Requests an account of 5000.
    pub(crate) fn ask_for_funds(&self) {
        self.ask_as_owner(
            "fund",
            "account.adjust",
            r#"{"amount":"5000","reason":"start"}"#,
        );
    }

    /// Opens the home and decides everything that waits; nothing of it may be refused.
    pub(crate) fn settled(&self) -> Home {
        let mut home = self.open().unwrap();
        let outcomes = drain(&mut home).unwrap();
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.answer.error.is_none()),
            "{outcomes:?}"
        );
        home
    }

    /// Lists the names of the published answers.
    pub(crate) fn answers(&self) -> Vec<String> {
        let files = self.disk.files_below("spool/out");
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        files
            .iter()
            .map(|(path, _)| name(path))
            .filter(|name| !name.starts_with('.'))
            .collect()
    }
}

/// Keys by the names of the principals that sign with them.
pub(crate) type Keys = BTreeMap<&'static str, SignKey>;

/// Decides what waits, which must be one request.
#[track_caller]
pub(crate) fn one(home: &mut Home) -> Outcome {
    let mut outcomes = drain(home).unwrap();
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    outcomes.remove(0)
}

/// Runs rounds until nothing is left.
pub(crate) fn drain(home: &mut Home) -> Result<Vec<Outcome>, HomeError> {
    let mut outcomes = Vec::new();
    loop {
        let round = home.round(false)?;
        outcomes.extend(round.outcomes);
        if !round.more {
            return Ok(outcomes);
        }
    }
}

/// An order of the agent, in the form of the contract.
pub(crate) const ORDER: &str = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.01","order_type":"limit","price":"7000","stop_price":"6900","thesis_slug":"btc-range-long","planned_entry":"7000","planned_stop":"6900"}"#;
