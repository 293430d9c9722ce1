//! The proof vectors of transparency-dev/merkle, which are used to test Go's checksum database and
//! Certificate Transparency tools. Source and licence: tests/vectors/rfc6962/README.md.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use spoolgate_ledger::tree::{Frontier, Hash, leaf_hash, verify_consistency, verify_inclusion};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Inclusion {
    leaf_idx: u64,
    tree_size: u64,
    root: String,
    leaf_hash: String,
    proof: Option<Vec<String>>,
    #[serde(rename = "desc")]
    _description: String,
    want_err: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Consistency {
    size1: u64,
    size2: u64,
    root1: String,
    root2: String,
    proof: Option<Vec<String>>,
    #[serde(rename = "desc")]
    _description: String,
    want_err: bool,
}

/// How many cases of a kind there are, how many must verify, and how many have an empty leaf or
/// root.
#[derive(Debug, PartialEq, Eq, Default)]
struct Count {
    cases: usize,
    good: usize,
    empty: usize,
}

impl Count {
    fn add(&mut self, path: &Path, verified: Option<bool>, want_err: bool) {
        assert_eq!(verified.unwrap_or(false), !want_err, "{}", path.display());
        self.cases += 1;
        self.good += usize::from(verified == Some(true));
        self.empty += usize::from(verified.is_none());
    }
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            assert_eq!(path.extension().unwrap(), "json", "{}", path.display());
            files.push(path);
        }
    }
}

fn cases<T: DeserializeOwned>(kind: &str) -> Vec<(PathBuf, T)> {
    let mut files = Vec::new();
    collect(
        &Path::new("tests/vectors/rfc6962/testdata").join(kind),
        &mut files,
    );
    files.sort();
    let read = |path: PathBuf| {
        (
            path.clone(),
            serde_json::from_slice(&fs::read(path).unwrap()).unwrap(),
        )
    };
    files.into_iter().map(read).collect()
}

/// Some values are not 32 bytes long ("don't care 1", or empty garbage), and one case with such
/// roots must verify. A digest replaces them, which preserves the point of the case: which values
/// are equal, and how long the proof is.
fn hash_or_stand_in(text: &str) -> Hash {
    Hash::from_base64(text).unwrap_or_else(|| leaf_hash(&STANDARD.decode(text).unwrap()))
}

/// An empty root or leaf has no replacement: it can never become a `Hash`, which is its refusal.
fn hash(text: &str) -> Option<Hash> {
    (!text.is_empty()).then(|| hash_or_stand_in(text))
}

fn hashes(proof: &Option<Vec<String>>) -> Vec<Hash> {
    proof
        .iter()
        .flatten()
        .map(|text| hash_or_stand_in(text))
        .collect()
}

#[test]
fn inclusion_vectors() {
    let mut count = Count::default();
    for (path, case) in cases::<Inclusion>("inclusion") {
        let verify = || {
            let (leaf, proof, root) = (
                hash(&case.leaf_hash)?,
                hashes(&case.proof),
                hash(&case.root)?,
            );
            Some(verify_inclusion(
                &leaf,
                case.leaf_idx,
                case.tree_size,
                &proof,
                &root,
            ))
        };
        count.add(&path, verify(), case.want_err);
    }
    assert_eq!(
        count,
        Count {
            cases: 98,
            good: 6,
            empty: 11
        }
    );
}

#[test]
fn consistency_vectors() {
    let mut count = Count::default();
    for (path, case) in cases::<Consistency>("consistency") {
        let verify = || {
            let (root1, root2, proof) =
                (hash(&case.root1)?, hash(&case.root2)?, hashes(&case.proof));
            Some(verify_consistency(
                case.size1, case.size2, &root1, &root2, &proof,
            ))
        };
        count.add(&path, verify(), case.want_err);
    }
    assert_eq!(
        count,
        Count {
            cases: 98,
            good: 6,
            empty: 0
        }
    );
}

/// The leaves of the vectors are the eight of the original Certificate Transparency tests.
#[test]
fn frontier_reaches_the_roots_of_the_vectors() {
    let lines: [&[u8]; 8] = [
        b"",
        b"\x00",
        b"\x10",
        b" !",
        b"01",
        b"@ABC",
        b"PQRSTUVW",
        b"`abcdefghijklmno",
    ];
    let mut roots = vec![(
        0,
        Hash::from_base64("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=").unwrap(),
    )];
    for (_, case) in cases::<Inclusion>("inclusion")
        .into_iter()
        .filter(|(_, case)| !case.want_err)
    {
        roots.push((case.tree_size, Hash::from_base64(&case.root).unwrap()));
    }
    let mut found = Vec::new();
    let mut frontier = Frontier::new();
    for line in lines.iter().map(Some).chain([None]) {
        found.extend(
            roots
                .iter()
                .find(|known| **known == (frontier.size(), frontier.root()))
                .map(|(size, _)| *size),
        );
        frontier.extend(line.map(|line| leaf_hash(line)));
    }
    assert_eq!(found, [0, 1, 3, 5, 8]);
}
