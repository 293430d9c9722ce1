//! A home with canaries around it, and what must hold whatever happens to its spool.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::spool::name::FileName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::sha256_hex;

use crate::kit::spoolgate;
use crate::kit::world::{Draft, Meddle, World, code_of, walk};

/// The content of files outside the home, which the gate must never read.
pub(super) const CANARY: &str = "canary-51d0c7-of-a-file-outside";

/// Whether these bytes contain it.
pub(super) fn has_canary(bytes: &[u8]) -> bool {
    bytes
        .windows(CANARY.len())
        .any(|window| window == CANARY.as_bytes())
}

/// A home that is attacked.
pub(super) struct Siege {
    /// The home and its principals.
    pub world: World,
    /// A folder beside the home, with canaries.
    pub outside: PathBuf,
    before: BTreeMap<PathBuf, String>,
}

/// One hostile file: the spool it went through, its name, the code it must be refused with (`None`
/// for success).
pub(super) type Case<'a> = (&'a str, &'a [u8], Option<Code>);

impl Siege {
    pub(super) fn new(seed: u64) -> Siege {
        Siege::around(World::new(seed))
    }

    pub(super) fn with_disk(seed: u64, meddle: Meddle) -> Siege {
        Siege::around(World::with_disk(seed, meddle))
    }

    fn around(world: World) -> Siege {
        let outside = world.root.join("../outside");
        fs::create_dir_all(outside.join("folder")).unwrap();
        fs::write(outside.join("secret.json"), CANARY).unwrap();
        fs::write(outside.join("folder/r1.json"), CANARY).unwrap();
        let before = walk(&outside);
        Siege {
            world,
            outside,
            before,
        }
    }

    /// Records what is outside now, which must not change.
    pub(super) fn look_again(&mut self) {
        self.before = walk(&self.outside);
    }

    /// Returns the path of the secret file outside.
    pub(super) fn secret(&self) -> PathBuf {
        self.outside.join("secret.json")
    }

    /// Drops a signed query of this agent and returns its draft.
    pub(super) fn query(&mut self, agent: &str) -> Draft {
        let draft = self.world.draft(agent, "orders.list", "{}");
        self.world.send(&draft);
        draft
    }

    /// Checks that a good request of every agent is answered.
    pub(super) fn goes_on(&mut self, home: &mut Home) {
        for agent in ["trend-bot", "alpha-bot", "beta-bot"] {
            let draft = self.query(agent);
            // A batch that was full may have read only half of the folder before this file was
            // there.
            let mut outcomes = self.world.drain(home);
            outcomes.extend(self.world.drain(home));
            let answered = outcomes.iter().find(|o| o.answer.request_id == draft.id);
            assert_eq!(answered.map(code_of), Some(None), "{agent}: {outcomes:?}");
            let path = self
                .world
                .answer_path(World::spool_of(agent), &format!("{}.json", draft.id));
            assert!(path.is_file(), "{agent} has no answer");
        }
    }

    /// Checks that every file has exactly one line and one answer and has left the spool, and that
    /// the kept copy of a file that was read has the hash of its line.
    pub(super) fn one_each(&self, cases: &[Case<'_>]) {
        let ledger = self.world.ledger();
        for (spool, name, code) in cases {
            let file = FileName::of(OsStr::from_bytes(name));
            let label = if spool.is_empty() {
                "flat".to_owned()
            } else {
                format!("agent-{spool}")
            };
            let lines: Vec<_> = ledger
                .iter()
                .filter(|line| {
                    line["kind"] == "decision"
                        && line["spool"] == *label
                        && line["file"] == *file.known_as
                })
                .collect();
            let [line] = &lines[..] else {
                panic!("{} in `{spool}`: {lines:?}", file.shown)
            };
            let answer = self
                .world
                .root
                .join("spool")
                .join(line["answer"].as_str().unwrap());
            let bytes =
                fs::read(&answer).unwrap_or_else(|error| panic!("{}: {error}", answer.display()));
            let answer: Answer = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(
                answer.error.map(|error| error.code),
                *code,
                "{} in `{spool}`",
                file.shown
            );
            assert_eq!(answer.audit_ref, line["seq"].to_string(), "{}", file.shown);
            let path = self.world.inbox(spool, name);
            assert!(
                fs::symlink_metadata(&path).is_err(),
                "{} is still there",
                file.shown
            );
            if let (Some(sha256), Some(kept)) =
                (line["file_sha256"].as_str(), line["kept"].as_str())
            {
                let kept = fs::read(self.world.root.join("spool").join(kept)).unwrap();
                assert_eq!(
                    sha256_hex(&kept),
                    sha256,
                    "{}: other bytes are kept",
                    file.shown
                );
            }
        }
    }

    /// Checks that nothing outside was changed, moved or read, that nothing is left incomplete, and
    /// that the ledger verifies.
    pub(super) fn stands(&mut self, mut home: Home) {
        self.goes_on(&mut home);
        home.finish("the test ended").unwrap();
        drop(home);
        assert_eq!(
            walk(&self.outside),
            self.before,
            "something outside changed"
        );
        let canary_sha256 = sha256_hex(CANARY.as_bytes());
        for top in ["spool", "audit", "state"] {
            for (path, what) in walk(&self.world.root.join(top)) {
                // A second name of the file outside is moved unread; its content stays where it
                // was.
                let is_moved = path.starts_with(self.world.root.join("spool/rejected"))
                    && what == canary_sha256;
                if what.len() != 64 || is_moved {
                    continue;
                }
                let bytes = fs::read(&path).unwrap();
                let holds =
                    has_canary(&bytes) || String::from_utf8_lossy(&bytes).contains(&canary_sha256);
                assert!(!holds, "{} holds the canary or its hash", path.display());
            }
        }
        assert_eq!(
            fs::read_dir(self.world.root.join("spool/work"))
                .unwrap()
                .count(),
            0
        );
        let done = spoolgate(&self.world.root, &["audit", "verify"]);
        assert!(done.status.success(), "{done:?}");
    }
}

/// Returns the only outcome for this file.
pub(super) fn about<'a>(outcomes: &'a [Outcome], name: &str) -> &'a Outcome {
    let found: Vec<&Outcome> = outcomes
        .iter()
        .filter(|outcome| outcome.decision.file == name)
        .collect();
    let [outcome] = &found[..] else {
        panic!("{name}: {outcomes:?}")
    };
    outcome
}

/// Whether the tests run as root; prints what is skipped if not.
pub(super) fn is_root(what: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: {what} needs root");
    }
    is_root
}

/// Makes a special file with mknod(1). Returns whether it exists, and prints the reason if not.
pub(super) fn mknod(path: &Path, kind: &[&str]) -> bool {
    let done = std::process::Command::new("mknod")
        .arg(path)
        .args(kind)
        .output();
    match done {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            eprintln!(
                "skipped: mknod {kind:?}: {}",
                String::from_utf8_lossy(&done.stderr)
            );
            false
        }
        Err(error) => {
            eprintln!("skipped: mknod: {error}");
            false
        }
    }
}
