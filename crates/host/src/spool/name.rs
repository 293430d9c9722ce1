//! Names in the spool: which are ignored, which are valid, and the names of claims.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use spoolgate_gate::prepare::Origin;
use spoolgate_wire::ids::id_byte;
use spoolgate_wire::signing::sha256_hex;

/// Batch numbers from here on mark claims that wait for something outside. No decision has such a
/// batch number, so no decision with the same spool and name is taken for the decision of a waiting
/// claim.
const SET_ASIDE_FROM: u64 = 1 << 62;

/// Longest file name in bytes: `+`, an id of 128 bytes and `.json`.
const NAME_BYTES_MAX: usize = 134;

/// Whether the gate ignores this name: hidden files and `*.tmp` are still being written.
pub fn is_ignored(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b".") || bytes.ends_with(b".tmp")
}

/// A file name in the form that the ledger uses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// The name itself, or, if it is not valid, `=` and the first 16 hex digits of its SHA-256.
    pub known_as: String,
    /// The name for messages: escaped and truncated.
    pub shown: String,
    /// Whether the name is valid.
    pub is_good: bool,
}

impl FileName {
    /// Judges a name by its bytes, before the file is touched.
    pub fn of(name: &OsStr) -> FileName {
        let bytes = name.as_bytes();
        let good = name.to_str().filter(|text| {
            // An id that begins with `-` or `_` has a `+` before it, as in the names of answers.
            let (text, begins) = match text.strip_prefix('+') {
                Some(rest) => (rest, rest.starts_with(['-', '_'])),
                None => (*text, text.starts_with(|c: char| c.is_ascii_alphanumeric())),
            };
            begins
                && text.len() < NAME_BYTES_MAX
                && text
                    .strip_suffix(".json")
                    .is_some_and(|stem| stem.bytes().all(id_byte))
        });
        match good {
            Some(text) => FileName {
                known_as: text.to_owned(),
                shown: text.to_owned(),
                is_good: true,
            },
            None => {
                let digest = sha256_hex(bytes);
                let known_as = format!("={}", digest.get(..16).unwrap_or(&digest));
                let shown = String::from_utf8_lossy(bytes)
                    .escape_debug()
                    .to_string()
                    .chars()
                    .take(120)
                    .collect();
                FileName {
                    known_as,
                    shown,
                    is_good: false,
                }
            }
        }
    }
}

/// The name of a claimed file in `spool/work`: `<attempt>~<batch>~<spool>~<name>`. None of the
/// parts can contain `~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    /// Number of times that a gate has begun to decide it.
    pub attempt: u32,
    /// The next batch at the time of the claim. Claims are retired or set aside before the next
    /// batch begins. So a sealed decision with the same spool and name belongs to this claim if its
    /// batch is not an earlier one.
    pub batch: u64,
    /// The spool it came from.
    pub origin: Origin,
    /// Its name in the form that the ledger uses.
    pub file: String,
}

impl ClaimName {
    /// The name of the claim while it waits; `number` distinguishes claims with the same name.
    pub fn aside(&self, number: u64) -> ClaimName {
        ClaimName {
            batch: SET_ASIDE_FROM.saturating_add(number),
            ..self.clone()
        }
    }

    /// Whether the claim is waiting.
    pub fn is_aside(&self) -> bool {
        self.batch >= SET_ASIDE_FROM
    }

    /// Renders the claim as a file name.
    pub fn to_name(&self) -> String {
        format!(
            "{}~{}~{}~{}",
            self.attempt,
            self.batch,
            self.origin.label(),
            self.file
        )
    }

    /// Reads a file name in `spool/work`.
    pub fn parse(name: &OsStr) -> Option<ClaimName> {
        let mut parts = name.to_str()?.splitn(4, '~');
        let attempt = parts.next()?.parse().ok().filter(|n| *n > 0)?;
        let batch = parts.next()?.parse().ok()?;
        let origin = Origin::from_label(parts.next()?)?;
        let file = parts.next()?.to_owned();
        let claim = ClaimName {
            attempt,
            batch,
            origin,
            file,
        };
        (OsString::from(claim.to_name()) == name).then_some(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_are_ids_with_json() {
        let long = format!("{}.json", "a".repeat(128));
        for (name, good) in [
            ("r1.json", true),
            ("A.b_c:d-1.json", true),
            (long.as_str(), true),
            ("a.json.json", true),
            (".json", false),
            ("r1.JSON", false),
            ("r1", false),
            ("-rf.json", false),
            ("+-rf.json", true),
            ("+_rf.json", true),
            ("+rf.json", false),
            ("+.json", false),
            ("++-rf.json", false),
            ("a b.json", false),
            ("a\nb.json", false),
            ("a~b.json", false),
            ("é.json", false),
            ("=0123456789abcdef", false),
        ] {
            assert_eq!(FileName::of(OsStr::new(name)).is_good, good, "{name}");
        }
        assert!(!FileName::of(OsStr::new(&format!("a{long}"))).is_good);
        let bad = FileName::of(OsStr::from_bytes(b"\xff\n.json"));
        assert!(
            !bad.is_good && bad.known_as.len() == 17 && !bad.shown.contains('\n'),
            "{bad:?}"
        );
    }

    #[test]
    fn claims_read_back() {
        for origin in [
            Origin::Flat,
            Origin::Local,
            Origin::from_label("agent-bot").unwrap(),
        ] {
            let claim = ClaimName {
                attempt: 2,
                batch: 7,
                origin,
                file: "r1.json".to_owned(),
            };
            assert_eq!(ClaimName::parse(OsStr::new(&claim.to_name())), Some(claim));
        }
        for name in [
            "r1.json",
            "0~1~flat~r1.json",
            "01~1~flat~r1.json",
            "1~+1~flat~r1.json",
            "1~1~else~r1.json",
            "1~1~agent-A~r1.json",
        ] {
            assert_eq!(ClaimName::parse(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn unfinished_files_are_left_alone() {
        for (name, ignored) in [
            (".r1.json", true),
            ("r1.json.tmp", true),
            ("r1.tmp.json", false),
            ("r1.json", false),
        ] {
            assert_eq!(is_ignored(OsStr::new(name)), ignored, "{name}");
        }
    }
}
