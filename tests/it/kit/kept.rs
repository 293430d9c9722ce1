//! Homes, proofs and answers of earlier versions, as `tests/compat` keeps them.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Commands that print parts of the state.
const VIEWS: [&str; 12] = [
    "orders",
    "fills",
    "portfolio",
    "approvals list",
    "grants list",
    "proposals list",
    "strategies list",
    "keys list",
    "council list",
    "actions list",
    "services list",
    "theses list",
];

/// A version whose homes, proofs and answers are kept.
#[derive(Clone, Copy)]
pub(crate) struct Then {
    folder: &'static str,
    pub(crate) semantics: u32,
}

impl Then {
    pub(crate) const V1: Then = Then {
        folder: "v1",
        semantics: 1,
    };
    pub(crate) const V2: Then = Then {
        folder: "v2",
        semantics: 2,
    };

    pub(crate) fn fixtures(self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/compat")
            .join(self.folder)
    }

    /// A copy of a kept home, in a folder of its own.
    pub(crate) fn home(self, name: &str) -> Kept {
        let folder = super::folder();
        let archive = fs::File::open(self.fixtures().join(format!("{name}.tar.zst"))).unwrap();
        unpack(&zstd::stream::decode_all(archive).unwrap(), folder.path());
        Kept(folder)
    }

    pub(crate) fn answered_ids(self) -> Vec<String> {
        let folder = fs::read_dir(self.fixtures().join("answers")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let ids: Vec<String> = names
            .filter_map(|name| name.strip_suffix(".answer.json").map(str::to_owned))
            .collect();
        assert!(ids.len() > 30);
        ids
    }

    pub(crate) fn kept_answer(self, id: &str) -> Vec<u8> {
        fs::read(self.fixtures().join(format!("answers/{id}.answer.json"))).unwrap()
    }
}

/// A copy of a kept home, in a folder of its own.
pub(crate) struct Kept(pub(crate) TempDir);

impl Kept {
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    pub(crate) fn ends(&self, line: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spoolgate"));
        command
            .args(line)
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command.output().unwrap()
    }

    /// Returns the output of a command that must succeed.
    pub(crate) fn gate(&self, line: &[&str]) -> String {
        let output = self.ends(line);
        let (out, err) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(
            output.status.success(),
            "{line:?} ends with {}: {out}{err}",
            output.status
        );
        out
    }

    /// Returns the JSON output of a command.
    pub(crate) fn json(&self, line: &[&str]) -> Value {
        serde_json::from_str(&self.gate(&[&["--format", "json"], line].concat())).unwrap()
    }

    pub(crate) fn idle(&self) {
        self.gate(&["run", "--until-idle"]);
    }

    /// Returns every line of the ledger.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let all = self.gate(&[
            "audit",
            "export",
            "--format",
            "jsonl",
            "--all",
            "--no-index",
        ]);
        all.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Returns the state as the commands print it.
    pub(crate) fn state(&self) -> BTreeMap<&'static str, String> {
        let view = |line: &'static str| {
            let words: Vec<&str> = ["--format", "json"]
                .into_iter()
                .chain(line.split(' '))
                .collect();
            let shown = self.gate(&words);
            // The portfolio begins with the time of the query.
            (
                line,
                shown
                    .split_once("\"equity\"")
                    .map_or(shown.clone(), |(_, rest)| rest.to_owned()),
            )
        };
        VIEWS.into_iter().map(view).collect()
    }

    pub(crate) fn verifies(&self) -> Value {
        let verified = self.json(&["audit", "verify"]);
        assert_eq!(verified["problems"], Value::Array(Vec::new()), "{verified}");
        verified
    }

    /// Replays the ledger and compares the answers.
    pub(crate) fn replays(&self) -> Value {
        let replayed = self.json(&["audit", "replay", "--answers", "spool/out"]);
        for nothing in [
            "/differences",
            "/missing",
            "/files/changed",
            "/files/missing",
            "/files/unknown",
        ] {
            assert_eq!(
                replayed.pointer(nothing),
                Some(&Value::from(0)),
                "{nothing}: {replayed}"
            );
        }
        replayed
    }

    /// Returns the path of the answer to a request or, if the file is not a request, of the answer
    /// to the file.
    pub(crate) fn answer(&self, id: &str) -> PathBuf {
        let answer = self.path(&format!("spool/out/{id}.json"));
        if answer.exists() {
            answer
        } else {
            self.path(&format!("spool/out/{id}.json.error.json"))
        }
    }

    pub(crate) fn answered(&self, id: &str) -> Value {
        serde_json::from_slice(&fs::read(self.answer(id)).unwrap()).unwrap()
    }

    /// Signs a request with a key in the home, has it decided, and reads the answer.
    pub(crate) fn ask(&self, id: &str, who: &str, action: &str, payload: &str) -> Value {
        fs::write(self.path("payload.json"), payload).unwrap();
        let key = format!("{who}.key");
        let signed = self.gate(&[
            "sign",
            "payload.json",
            "--as",
            who,
            "--action",
            action,
            "--key",
            &key,
            "--id",
            id,
        ]);
        fs::write(self.path(&format!("spool/in/{id}.json")), signed).unwrap();
        self.idle();
        self.answered(id)
    }
}

/// Unpacks a tar archive of files and folders, with their modes.
fn unpack(mut archive: &[u8], into: &Path) {
    let text = |field: &[u8]| {
        String::from_utf8_lossy(field)
            .trim_end_matches(['\0', ' '])
            .to_owned()
    };
    let octal = |field: &[u8]| u32::from_str_radix(&text(field), 8).unwrap();
    while archive.first().is_some_and(|byte| *byte != 0) {
        let (header, rest) = archive.split_at(512);
        let size = octal(&header[124..136]) as usize;
        let path = into
            .join(text(&header[345..500]))
            .join(text(&header[..100]));
        match header[156] {
            b'5' => fs::create_dir_all(&path).unwrap(),
            b'0' => fs::write(&path, &rest[..size]).unwrap(),
            // A link that an agent of the demo planted: a name, wherever it leads.
            b'2' => symlink(text(&header[157..257]), &path).unwrap(),
            other => panic!("{} is neither file nor folder: {other}", path.display()),
        }
        if header[156] != b'2' {
            fs::set_permissions(&path, Permissions::from_mode(octal(&header[100..108]))).unwrap();
        }
        archive = &rest[size.next_multiple_of(512)..];
    }
}

/// Returns every file below a folder with its content.
pub(crate) fn files(below: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}
