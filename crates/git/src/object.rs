//! Ids of git objects, and the forms of commits and trees.

use std::collections::BTreeSet;
use std::fmt;

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The id of an object: the hash of its bytes. A repository has ids of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectId {
    /// SHA-1.
    Sha1([u8; 20]),
    /// SHA-256.
    Sha256([u8; 32]),
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A commit.
    Commit,
    /// A folder.
    Tree,
    /// The contents of a file.
    Blob,
}

/// What an entry of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A file, mode 100644.
    File,
    /// A file that can be run, mode 100755.
    Executable,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A commit of another repository.
    Submodule,
    /// Any other mode, which git does not write today.
    Other(u32),
}

/// The parts of a commit that say where it is in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
}

/// An entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub mode: Mode,
    /// The id of its contents.
    pub id: ObjectId,
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Commit => "commit",
            Kind::Tree => "tree",
            Kind::Blob => "blob",
        })
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::File => f.write_str("100644"),
            Mode::Executable => f.write_str("100755"),
            Mode::Folder => f.write_str("40000"),
            Mode::Link => f.write_str("120000"),
            Mode::Submodule => f.write_str("160000"),
            Mode::Other(mode) => write!(f, "{mode:o}"),
        }
    }
}

impl ObjectId {
    /// Returns the bytes of the hash.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ObjectId::Sha1(bytes) => bytes,
            ObjectId::Sha256(bytes) => bytes,
        }
    }

    /// Reads 40 or 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<ObjectId> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let bytes = text.as_bytes().chunks(2).map(|pair| match pair {
            &[high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        });
        ObjectId::of(&bytes.collect::<Option<Vec<u8>>>()?)
    }

    fn of(bytes: &[u8]) -> Option<ObjectId> {
        let sha1 = bytes.try_into().ok().map(ObjectId::Sha1);
        sha1.or_else(|| bytes.try_into().ok().map(ObjectId::Sha256))
    }

    /// Returns whether the id is the hash of an object with these bytes.
    pub(crate) fn is_of(&self, kind: Kind, data: &[u8]) -> bool {
        let head = format!("{kind} {}\0", data.len());
        match self {
            ObjectId::Sha1(id) => {
                Sha1::new().chain_update(head).chain_update(data).finalize()[..] == id[..]
            }
            ObjectId::Sha256(id) => {
                let hash = Sha256::new().chain_update(head).chain_update(data);
                hash.finalize()[..] == id[..]
            }
        }
    }

    fn is_like(&self, other: &ObjectId) -> bool {
        self.bytes().len() == other.bytes().len()
    }
}

impl Commit {
    /// Reads a commit; `like` has the kind of the repository's ids.
    pub(crate) fn parse(data: &[u8], like: &ObjectId) -> Option<Commit> {
        let mut lines = data.split(|byte| *byte == b'\n');
        let id = |line: &[u8], key: &[u8]| {
            let text = std::str::from_utf8(line.strip_prefix(key)?).ok()?;
            ObjectId::parse(text).filter(|id| id.is_like(like))
        };
        let tree = id(lines.next()?, b"tree ")?;
        let mut parents = Vec::new();
        for line in lines {
            if !line.starts_with(b"parent ") {
                // The authors follow, and have no say.
                return Some(Commit { tree, parents });
            }
            parents.push(id(line, b"parent ")?);
        }
        None
    }
}

/// Reads a tree: names and entries, in git's order. `like` has the kind of the repository's ids.
/// Returns `None` for a tree that git would not write, such as one with two entries of one name, of
/// which a checkout takes only one.
pub(crate) fn parse_tree<'a>(
    mut data: &'a [u8],
    like: &ObjectId,
) -> Option<Vec<(&'a [u8], Entry)>> {
    let mut entries = Vec::new();
    let mut names = BTreeSet::new();
    let mut last: Vec<u8> = Vec::new();
    while !data.is_empty() {
        let (mode, rest) = data.split_at(data.iter().position(|byte| *byte == b' ')?);
        let rest = rest.get(1..)?;
        let (name, rest) = rest.split_at(rest.iter().position(|byte| *byte == 0)?);
        let (id, rest) = rest.get(1..)?.split_at_checked(like.bytes().len())?;
        let is_octal = mode.iter().all(|byte| matches!(byte, b'0'..=b'7'));
        let mode = std::str::from_utf8(mode).ok().filter(|_| is_octal)?;
        let mode = match u32::from_str_radix(mode, 8).ok()? {
            0o100_644 => Mode::File,
            0o100_755 => Mode::Executable,
            0o40_000 => Mode::Folder,
            0o120_000 => Mode::Link,
            0o160_000 => Mode::Submodule,
            other => Mode::Other(other),
        };
        // For the order, the name of a folder ends in `/`.
        let mut key = name.to_vec();
        if mode == Mode::Folder {
            key.push(b'/');
        }
        if key <= last || !names.insert(name) {
            return None;
        }
        last = key;
        let id = ObjectId::of(id)?;
        entries.push((name, Entry { mode, id }));
        data = rest;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: ObjectId = ObjectId::Sha1([0xab; 20]);

    fn tree(entries: &[(&str, &str)]) -> Vec<u8> {
        let entry = |(mode, name): &(&str, &str)| {
            [mode.as_bytes(), b" ", name.as_bytes(), b"\0", TREE.bytes()].concat()
        };
        entries.iter().flat_map(entry).collect()
    }

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in ["ab".repeat(20), "0f".repeat(32)] {
            assert_eq!(ObjectId::parse(&text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "ab",
            &"AB".repeat(20),
            &"ab".repeat(21),
            &"a".repeat(39),
        ] {
            assert_eq!(ObjectId::parse(text), None, "{text}");
        }
        // `git hash-object -t tree /dev/null`
        let empty = ObjectId::parse("4b825dc642cb6eb9a060e54bf8d69288fbee4904").unwrap();
        assert!(empty.is_of(Kind::Tree, b""));
        assert!(!empty.is_of(Kind::Blob, b"") && !empty.is_of(Kind::Tree, b"x"));
        let empty = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";
        assert!(ObjectId::parse(empty).unwrap().is_of(Kind::Tree, b""));
    }

    #[test]
    fn a_commit_has_a_tree_and_parents_of_one_kind() {
        let line = |key: &str, digits: usize| format!("{key} {}\n", "ab".repeat(digits / 2));
        let end = "author a\ncommitter b\n\nparent x\n";
        for (head, parents) in [
            (line("tree", 40), Some(0)),
            (line("tree", 40) + &line("parent", 40).repeat(2), Some(2)),
            (line("tree", 64), None),
            (line("tree", 40) + &line("parent", 64), None),
            (line("tree", 40) + "parent HEAD\n", None),
            (line("parent", 40), None),
        ] {
            let commit = Commit::parse((head.clone() + end).as_bytes(), &TREE);
            assert_eq!(commit.map(|it| it.parents.len()), parents, "{head}");
            assert_eq!(Commit::parse(head.trim_end().as_bytes(), &TREE), None);
        }
        assert_eq!(Commit::parse(b"", &TREE), None);
    }

    #[test]
    fn a_tree_is_in_order_and_has_each_name_once() {
        for (entries, is_good) in [
            (&[("100644", "a"), ("40000", "b")][..], true),
            (&[("100644", "a.b"), ("40000", "a"), ("100755", "a0")], true),
            (&[("40000", "a"), ("100644", "a.b")], false),
            (&[("100644", "b"), ("100644", "a")], false),
            (&[("100644", "a"), ("100644", "a")], false),
            (&[("100644", "a"), ("100644", "a.b"), ("40000", "a")], false),
            (&[("100648", "a")], false),
            (&[("", "a")], false),
            (&[("100644", "")], false),
        ] {
            let bytes = tree(entries);
            let read = parse_tree(&bytes, &TREE);
            assert_eq!(read.is_some(), is_good, "{entries:?}");
            for end in 1..bytes.len() {
                let cut = parse_tree(&bytes[..end], &TREE);
                assert!(cut.is_none_or(|it| it.len() < entries.len()), "{end}");
            }
        }
    }
}
