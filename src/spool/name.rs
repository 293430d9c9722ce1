//! Names in the spool: which are ignored, which are good, and how a claim is called.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::gate::prepare::Origin;
use crate::wire::ids::id_byte;
use crate::wire::signing::sha256_hex;

/// Batch numbers from here on stand in the names of claims that wait for something outside: no decision has one of
/// them, so none over the same spool and name is taken for theirs.
const SET_ASIDE_FROM: u64 = 1 << 62;

/// Longest file name: an id of 128 bytes and `.json`.
const NAME_BYTES_MAX: usize = 133;

/// Whether the gate leaves this name alone: hidden files and `*.tmp` are still being written.
pub fn is_ignored(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b".") || bytes.ends_with(b".tmp")
}

/// A file name as the ledger knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName {
    /// The name itself, or `=` and the first 16 hex digits of its SHA-256 if it is not a good one.
    pub known_as: String,
    /// For messages: escaped and cut.
    pub shown: String,
    /// Whether it is a good name.
    pub is_good: bool,
}

impl FileName {
    /// Judges a name by its bytes, before anything is done with it.
    pub fn of(name: &OsStr) -> FileName {
        let bytes = name.as_bytes();
        let good = name.to_str().filter(|text| {
            text.len() <= NAME_BYTES_MAX
                && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
                && text
                    .strip_suffix(".json")
                    .is_some_and(|stem| !stem.is_empty() && stem.bytes().all(id_byte))
        });
        match good {
            Some(text) => FileName { known_as: text.to_owned(), shown: text.to_owned(), is_good: true },
            None => {
                let digest = sha256_hex(bytes);
                let known_as = format!("={}", digest.get(..16).unwrap_or(&digest));
                let shown =
                    String::from_utf8_lossy(bytes).escape_debug().to_string().chars().take(120).collect();
                FileName { known_as, shown, is_good: false }
            }
        }
    }
}

/// The name of a claimed file in `spool/work`: `<attempt>~<batch>~<spool>~<name>`. None of its parts can
/// hold `~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimName {
    /// How often a gate has begun to decide it.
    pub attempt: u32,
    /// The batch that was next when it was claimed. Claims are retired before the next batch begins, or set aside, so
    /// a sealed decision over the same spool and name belongs to this claim if its batch is not an earlier one.
    pub batch: u64,
    /// Where it came from.
    pub origin: Origin,
    /// Its name as the ledger knows it.
    pub file: String,
}

impl ClaimName {
    /// The same claim while it waits; `number` tells those of one name apart.
    pub fn aside(&self, number: u64) -> ClaimName {
        ClaimName { batch: SET_ASIDE_FROM.saturating_add(number), ..self.clone() }
    }

    /// Whether it waits.
    pub fn is_aside(&self) -> bool {
        self.batch >= SET_ASIDE_FROM
    }

    /// As a file name.
    pub fn to_name(&self) -> String {
        format!("{}~{}~{}~{}", self.attempt, self.batch, self.origin.label(), self.file)
    }

    /// Reads a file name in `spool/work`.
    pub fn parse(name: &OsStr) -> Option<ClaimName> {
        let mut parts = name.to_str()?.splitn(4, '~');
        let attempt = parts.next()?.parse().ok().filter(|n| *n > 0)?;
        let batch = parts.next()?.parse().ok()?;
        let origin = Origin::from_label(parts.next()?)?;
        let file = parts.next()?.to_owned();
        let claim = ClaimName { attempt, batch, origin, file };
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
        assert!(!bad.is_good && bad.known_as.len() == 17 && !bad.shown.contains('\n'), "{bad:?}");
    }

    #[test]
    fn claims_read_back() {
        for origin in [Origin::Flat, Origin::Local, Origin::from_label("agent-bot").unwrap()] {
            let claim = ClaimName { attempt: 2, batch: 7, origin, file: "r1.json".to_owned() };
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
        for (name, ignored) in
            [(".r1.json", true), ("r1.json.tmp", true), ("r1.tmp.json", false), ("r1.json", false)]
        {
            assert_eq!(is_ignored(OsStr::new(name)), ignored, "{name}");
        }
    }
}
