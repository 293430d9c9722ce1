//! A home with a council for the real program: keys of all role principals, files, a watcher.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use spoolgate_gate::record::{Input, Record};
use spoolgate_host::keyring::SqliteKeyring;
use spoolgate_wire::signing::SignKey;

use super::court::{SEATS, Told};
use super::process::until;
use super::{Scratch, Sent, names, sign, spoolgate, succeed};

pub(crate) struct Chamber {
    pub scratch: Scratch,
    keys: BTreeMap<&'static str, SignKey>,
}

/// Writes an executable shell script.
pub(crate) fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

impl Chamber {
    pub(crate) fn new() -> Chamber {
        let scratch = Scratch::new();
        let home = scratch.home();
        let keyring = SqliteKeyring::open(&home, false).unwrap();
        let mut keys = BTreeMap::new();
        for (n, name) in (1..).zip(SEATS.iter().map(|(name, _)| *name).chain(["research-bot"])) {
            let key = SignKey::Hmac([n; 32]);
            let key_id = keyring.insert(&key.verify_key()).unwrap();
            let payload = format!(
                r#"{{"principal":"{name}","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#
            );
            let id = format!("key-{name}");
            Sent::new(
                &format!("{id}.json"),
                sign(&scratch.owner, "owner", &id, "keys.add", &payload),
            )
            .drop_into(&home);
            keys.insert(name, key);
        }
        drop(keyring);
        succeed(&home, &["run", "--until-idle"]);
        Chamber { scratch, keys }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    /// Returns a principal's key.
    pub(crate) fn key(&self, source: &str) -> &SignKey {
        &self.keys[source]
    }

    /// Returns the bytes of a signed request.
    pub(crate) fn signed(&self, source: &str, id: &str, action: &str, payload: &str) -> Vec<u8> {
        sign(self.key(source), source, id, action, payload)
    }

    /// Signs a request and drops it into the spool.
    pub(crate) fn send(&self, source: &str, id: &str, action: &str, payload: &str) {
        Sent::new(
            &format!("{id}.json"),
            self.signed(source, id, action, payload),
        )
        .drop_into(&self.home());
    }

    /// Writes a file beside the home.
    pub(crate) fn beside(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.scratch.beside(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn told(&self) -> Told {
        Told::of(super::log_bytes(&self.home()))
    }

    /// Returns what the commands of roles answered, in the order of their lines.
    pub(crate) fn inputs(&self) -> Vec<Input> {
        let lines = super::lines(&self.home()).unwrap().into_iter();
        lines
            .filter_map(|(_, _, record)| {
                if let Some(Record::Input(input)) = record {
                    Some(input)
                } else {
                    None
                }
            })
            .collect()
    }

    /// Waits for a case to be opened and returns its folder.
    #[track_caller]
    pub(crate) fn folder(&self, case: &str) -> PathBuf {
        let show = || spoolgate(&self.home(), &["--format", "json", "council", "show", case]);
        until(&format!("case {case}"), || show().status.success());
        let alias = self.shown(case)["alias"].as_str().unwrap().to_owned();
        self.home().join("council/cases").join(alias)
    }

    pub(crate) fn decision_path(&self, case: &str) -> PathBuf {
        self.home().join(format!("spool/out/{case}.decision.json"))
    }

    #[track_caller]
    pub(crate) fn wait_for_decision(&self, case: &str) -> Value {
        let path = self.decision_path(case);
        until(&format!("the decision on {case}"), || path.exists());
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    /// Runs `council show` on a case and returns its JSON; fails if the command fails.
    #[track_caller]
    pub(crate) fn shown(&self, case: &str) -> Value {
        serde_json::from_str(&succeed(
            &self.home(),
            &["--format", "json", "council", "show", case],
        ))
        .unwrap()
    }

    /// Checks that ledger, files and commands agree on a decided case, with and without the index.
    #[track_caller]
    pub(crate) fn agrees(&self, case: &str) {
        let home = self.home();
        let bytes = fs::read(self.decision_path(case)).unwrap();
        assert_eq!(
            bytes,
            fs::read(self.folder(case).join("decision.json")).unwrap()
        );
        let told = self.told();
        let (seq, ruling) = told.ruling(case);
        assert_eq!(bytes, super::court::decision_bytes(ruling));
        let check = || {
            let shown = self.shown(case);
            assert_eq!(
                (&shown["recomputes"], &shown["decision_line"]),
                (&Value::Bool(true), &seq.into())
            );
            let decision: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(shown["decision"], decision);
        };
        check();
        succeed(&home, &["audit", "verify"]);
        let rebuilt: Value =
            serde_json::from_str(&succeed(&home, &["--format", "json", "rebuild"])).unwrap();
        assert_eq!(rebuilt["same_as_before"], Value::Bool(true));
        for name in names(&home.join("state")) {
            if name.to_string_lossy().starts_with("state.db") {
                fs::remove_file(home.join("state").join(name)).unwrap();
            }
        }
        check();
        assert!(spoolgate(&home, &["run", "--until-idle"]).status.success());
        check();
        assert_eq!(fs::read(self.decision_path(case)).unwrap(), bytes);
    }
}
