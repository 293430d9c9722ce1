//! `git cat-file --batch`, which finds and unpacks objects. What it answers is checked by the
//! caller; it is kept from running anything that the repository names.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

/// Bytes of git's complaints that are kept.
const COMPLAINT_BYTES_MAX: u64 = 2048;
/// Longest first line of an answer, which may repeat the request, in bytes.
const HEAD_BYTES_MAX: u64 = 8192;

/// A running `git cat-file --batch`.
pub(crate) struct Batch {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    complaint: Option<JoinHandle<String>>,
}

/// The answer to a request.
pub(crate) enum Found {
    /// An object, its type and its size in bytes. [`Batch::data`] reads its bytes.
    Object { id: String, kind: String, size: u64 },
    /// There is no such object, or several.
    Missing,
}

impl Batch {
    /// Starts git over a repository's git folder.
    pub(crate) fn start(git_dir: &Path) -> io::Result<Batch> {
        let mut command = Command::new("git");
        command.env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        // With GIT_DIR, git searches no folder and demands no owner (safe.directory): the objects
        // are checked here, so it does not matter who wrote them.
        command.env("GIT_DIR", git_dir).current_dir(git_dir);
        for (name, value) in [
            ("LC_ALL", "C"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_GRAFT_FILE", "/dev/null"),
            ("GIT_NO_LAZY_FETCH", "1"),
            // No transport, for a git that does not know GIT_NO_LAZY_FETCH.
            ("GIT_ALLOW_PROTOCOL", ""),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ] {
            command.env(name, value);
        }
        command.args(["--no-replace-objects", "--no-optional-locks", "--no-pager"]);
        // These outweigh the repository's own configuration.
        for setting in [
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.sshCommand=false",
            "protocol.allow=never",
        ] {
            command.args(["-c", setting]);
        }
        let mut child = command
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("git has no pipe");
        let requests = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let errors = child.stderr.take().ok_or_else(missing)?;
        let complaint = thread::spawn(move || {
            let mut kept = Vec::new();
            let mut errors = errors.take(COMPLAINT_BYTES_MAX);
            // What cannot be read is left out of a message.
            let _ = errors.read_to_end(&mut kept);
            let _ = io::copy(&mut errors.into_inner(), &mut io::sink());
            String::from_utf8_lossy(&kept).trim().to_owned()
        });
        Ok(Batch {
            child,
            requests,
            answers,
            complaint: Some(complaint),
        })
    }

    /// Asks for an object. The name has no line break.
    pub(crate) fn ask(&mut self, name: &str) -> io::Result<Found> {
        self.requests.write_all(format!("{name}\n").as_bytes())?;
        self.requests.flush()?;
        let mut head = Vec::new();
        let mut answers = self.answers.by_ref().take(HEAD_BYTES_MAX);
        answers.read_until(b'\n', &mut head)?;
        let head = head
            .strip_suffix(b"\n")
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = String::from_utf8_lossy(head);
        if let [id, kind, size] = head.split(' ').collect::<Vec<_>>()[..]
            && let Ok(size) = size.parse()
        {
            return Ok(Found::Object {
                id: id.to_owned(),
                kind: kind.to_owned(),
                size,
            });
        }
        Ok(Found::Missing)
    }

    /// Reads the bytes of the object that was just found.
    pub(crate) fn data(&mut self, size: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; size];
        self.answers.read_exact(&mut data)?;
        let mut end = [0];
        self.answers.read_exact(&mut end)?;
        if end != *b"\n" {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(data)
    }

    /// Ends git, and returns its complaints.
    pub(crate) fn end(mut self) -> String {
        let _ = self.child.kill();
        let complaint = self.complaint.take().map(JoinHandle::join);
        complaint.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // It has usually ended by itself, at the end of its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
