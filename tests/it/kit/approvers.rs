//! Approvers with keys of the real ssh-keygen, and git repositories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use spoolgate_wire::signing::sha256_hex;
use tempfile::TempDir;

use super::show;

/// Keys of approvers, by name.
pub(crate) struct Keys(TempDir);

impl Keys {
    /// Makes a key for each name. `None`, and a word about it, if there is no ssh-keygen.
    pub(crate) fn of(names: &[&str]) -> Option<Keys> {
        let keys = Keys(super::folder());
        names.iter().all(|name| keys.make(name)).then_some(keys)
    }

    fn make(&self, name: &str) -> bool {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"])
            .arg(self.path().join(name))
            .stdin(Stdio::null())
            .status();
        let is_made = made.is_ok_and(|status| status.success());
        if !is_made {
            println!("skipped: no ssh-keygen");
        }
        is_made
    }

    /// The folder of the keys.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the line of `rules/approvers` with this identity for a key.
    pub(crate) fn line(&self, identity: &str, name: &str) -> String {
        let public = fs::read_to_string(self.path().join(name).with_extension("pub")).unwrap();
        format!("{identity} {public}")
    }

    /// Signs a file; the signature is beside it.
    pub(crate) fn sign(&self, name: &str, file: &Path) -> PathBuf {
        let mut signature = file.as_os_str().to_owned();
        signature.push(".sig");
        let signature = PathBuf::from(signature);
        // ssh-keygen asks before it overwrites.
        let _ = fs::remove_file(&signature);
        let status = Command::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", "spoolgate", "-f"])
            .arg(self.path().join(name))
            .arg(file)
            .status();
        assert!(status.unwrap().success());
        signature
    }

    /// Puts a statement with signatures of these keys into its folder below `root`.
    pub(crate) fn approve(&self, root: &Path, statement: &[u8], names: &[&str]) -> PathBuf {
        let folder = root.join("proposals/approvals").join(sha256_hex(statement));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("statement.json");
        fs::write(&file, statement).unwrap();
        for name in names {
            let signature = self.sign(name, &file);
            fs::rename(signature, folder.join(format!("{name}.sig"))).unwrap();
        }
        folder
    }
}

/// Runs git in a repository.
#[track_caller]
pub(crate) fn git(repo: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(repo)
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args([
            "-c",
            "commit.gpgsign=false",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .output()
        .unwrap();
    assert!(done.status.success(), "{args:?}: {}", show(&done));
}
