//! Everything that this log gives out, judged by programs of other authors: crates that implement
//! C2SP notes, checkpoints and RFC 6962 proofs, stock openssl, and a Python script. Each must
//! accept it unchanged, and refuse it when any one bit is changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kit::campaign;
use crate::kit::place::{ORIGIN, Place, drain};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use signed_note::{Note, StandardVerifier, Verifier, VerifierList};
use spoolgate_ledger::find::Finder;
use spoolgate_ledger::line;
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::prove::Prover;
use spoolgate_ledger::seal::Seal;
use tempfile::TempDir;
use tlog_tiles::{Checkpoint, Hash, HashReader, check_record, check_tree, record_hash};

/// What a home with some decisions gives out.
struct Evidence {
    /// The key that verifies it.
    key: VerifierKey,
    /// The lines, without LF.
    lines: Vec<Vec<u8>>,
    /// An earlier head.
    old: String,
    /// The newest head.
    new: String,
    /// The receipt of a decision under the newest head.
    receipt: String,
    /// The line of that decision.
    seq: u64,
    /// The proof from the earlier head to the newest.
    extension: String,
}

fn evidence() -> Evidence {
    let place = Place::new(11);
    let mut home = place.open().unwrap();
    let read =
        |place: &Place| String::from_utf8(place.disk.get("audit/checkpoint").unwrap()).unwrap();
    let mut old = String::new();
    for n in 0..7 {
        place.ask_as_owner(&format!("ask-{n}"), "portfolio.get", "{}");
        drain(&mut home).unwrap();
        if n == 2 {
            old = read(&place);
        }
    }
    let audit = Path::new("audit");
    let prover = Prover::open(place.disk.as_ref(), audit).unwrap();
    let (new, before) = (prover.newest().unwrap(), prover.head(&old).unwrap());
    let size = new.checkpoint.size;
    let finder = Finder::open(place.disk.as_ref(), audit).unwrap();
    let lines: Vec<Vec<u8>> = (0..=size)
        .map(|seq| finder.line(seq).unwrap().unwrap())
        .collect();
    let seq = lines
        .iter()
        .position(|line| String::from_utf8_lossy(line).contains("\"request_id\":\"ask-4\""))
        .unwrap() as u64;
    Evidence {
        key: new.key.clone(),
        receipt: prover.receipt(seq, &new).unwrap().text(),
        extension: prover.extension(&before, &new).unwrap().text(),
        new: new.note,
        lines,
        old,
        seq,
    }
}

/// One bit in this many is changed. Seven and eight have no common divisor, so every position in a
/// byte has its turn.
fn step() -> usize {
    campaign(7, 1)
}

/// Returns every text that differs in one bit.
fn flipped(text: &str) -> impl Iterator<Item = Vec<u8>> + '_ {
    (0..text.len() * 8).map(|bit| {
        let mut bytes = text.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    })
}

/// Returns a checkpoint as the two crates read it, if they accept it.
fn judge_head(note: &[u8], key: &VerifierKey) -> Option<Checkpoint> {
    let verifier: Box<dyn Verifier> = Box::new(StandardVerifier::new(&key.to_string()).ok()?);
    let note = Note::from_bytes(note).ok()?;
    let (verified, _) = note.verify(&VerifierList::new(vec![verifier])).ok()?;
    assert_eq!(verified.len(), 1);
    let head = Checkpoint::from_bytes(note.text()).ok()?;
    (head.origin() == key.name() && head.extension().is_empty()).then_some(head)
}

fn hash(text: &str) -> Option<Hash> {
    Some(Hash(STANDARD.decode(text).ok()?.try_into().ok()?))
}

fn number(text: &str) -> Option<u64> {
    text.parse()
        .ok()
        .filter(|number: &u64| number.to_string() == text)
}

/// Returns path and checkpoint.
fn split(proof: &str) -> Option<(Vec<&str>, &str)> {
    let (lines, note) = proof.split_once("\n\n")?;
    Some((lines.split('\n').collect(), note))
}

/// Returns the line and its number, if the crates accept the receipt. Only the parsing is done
/// here, because no crate of another author reads this format.
fn judge_receipt(receipt: &[u8], key: &VerifierKey) -> Option<(u64, Vec<u8>)> {
    let (lines, note) = split(std::str::from_utf8(receipt).ok()?)?;
    let [header, extra, index, path @ ..] = lines.as_slice() else {
        return None;
    };
    let line = STANDARD.decode(extra.strip_prefix("extra ")?).ok()?;
    let index =
        number(index.strip_prefix("index ")?).filter(|_| *header == "c2sp.org/tlog-proof@v1")?;
    let path = path
        .iter()
        .map(|text| hash(text))
        .collect::<Option<Vec<Hash>>>()?;
    let head = judge_head(note.as_bytes(), key)?;
    check_record(&path, head.size(), *head.hash(), index, record_hash(&line)).ok()?;
    Some((index, line))
}

/// Returns old and new size, if the crates accept the proof.
fn judge_extension(proof: &[u8], old: &Checkpoint, key: &VerifierKey) -> Option<(u64, u64)> {
    let (lines, note) = split(std::str::from_utf8(proof).ok()?)?;
    let (first, path) = lines.split_first()?;
    let size = number(first.strip_prefix("old ")?).filter(|size| *size == old.size())?;
    let path = path
        .iter()
        .map(|text| hash(text))
        .collect::<Option<Vec<Hash>>>()?;
    let head = judge_head(note.as_bytes(), key)?;
    check_tree(&path, head.size(), *head.hash(), size, *old.hash()).ok()?;
    Some((size, head.size()))
}

#[test]
fn crates_of_another_author_accept_it_and_no_bit_less() {
    let Evidence {
        key,
        old,
        new,
        receipt,
        seq,
        extension,
        lines,
        ..
    } = evidence();
    let before = judge_head(old.as_bytes(), &key).unwrap();
    let after = judge_head(new.as_bytes(), &key).unwrap();
    assert!(before.size() < after.size() && after.size() == lines.len() as u64 - 1);
    assert_eq!(
        judge_receipt(receipt.as_bytes(), &key),
        Some((seq, lines[seq as usize].clone()))
    );
    assert_eq!(
        judge_extension(extension.as_bytes(), &before, &key),
        Some((before.size(), after.size()))
    );
    for changed in flipped(&new).step_by(step()) {
        assert!(
            judge_head(&changed, &key).is_none(),
            "{}",
            String::from_utf8_lossy(&changed)
        );
    }
    for changed in flipped(&receipt).step_by(step()) {
        assert!(
            judge_receipt(&changed, &key).is_none(),
            "{}",
            String::from_utf8_lossy(&changed)
        );
    }
    for changed in flipped(&extension).step_by(step()) {
        assert!(
            judge_extension(&changed, &before, &key).is_none(),
            "{}",
            String::from_utf8_lossy(&changed)
        );
    }
}

/// This program refuses the same changed bits.
#[test]
fn this_program_accepts_no_bit_less_either() {
    use spoolgate_ledger::note::open_checkpoint;
    use spoolgate_ledger::proof::{Extension, Receipt};
    let Evidence {
        key,
        old,
        new,
        receipt,
        extension,
        ..
    } = evidence();
    let before = open_checkpoint(&old, &key, ORIGIN).unwrap();
    let head = |note: &[u8]| open_checkpoint(std::str::from_utf8(note).ok()?, &key, ORIGIN).ok();
    let line = |receipt: &[u8]| {
        Receipt::parse(receipt)
            .ok()?
            .check(&key)
            .ok()
            .map(|proved| proved.line.seq)
    };
    let joined = |proof: &[u8]| Extension::parse(proof).ok()?.check(&before, &key).ok();
    assert!(head(new.as_bytes()).is_some());
    assert!(line(receipt.as_bytes()).is_some());
    assert!(joined(extension.as_bytes()).is_some());
    assert!(flipped(&new).all(|changed| head(&changed).is_none()));
    assert!(flipped(&receipt).all(|changed| line(&changed).is_none()));
    assert!(flipped(&extension).all(|changed| joined(&changed).is_none()));
}

/// A witness signs after the log. A reader that does not know the witness sees the same head,
/// whatever happens to its line.
#[test]
fn a_line_of_an_unknown_signer_changes_nothing() {
    let Evidence { key, new, .. } = evidence();
    let line = format!("— witness.example/w1 {}\n", STANDARD.encode([7; 76]));
    let with = format!("{new}{line}");
    let same = judge_head(new.as_bytes(), &key).unwrap();
    for (bit, changed) in flipped(&with).enumerate() {
        match judge_head(&changed, &key) {
            Some(head) => {
                assert!(bit / 8 >= new.len(), "bit {bit} is covered");
                assert_eq!((head.size(), head.hash()), (same.size(), same.hash()));
            }
            None => {
                let ours = std::str::from_utf8(&changed).ok();
                let ours = ours.and_then(|text| {
                    spoolgate_ledger::note::open_checkpoint(text, &key, ORIGIN).ok()
                });
                assert!(
                    ours.is_none(),
                    "bit {bit}: this program accepts what the other refuses"
                );
            }
        }
    }
}

/// The tree that the crate computes from the lines.
struct Tree(Vec<Hash>);

impl HashReader for Tree {
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        Ok(indexes
            .iter()
            .map(|index| self.0[*index as usize])
            .collect())
    }
}

/// The crate not only accepts what this program made, but makes the same.
#[test]
fn the_crate_computes_the_same_root_and_the_same_proofs() {
    let Evidence {
        key,
        lines,
        old,
        new,
        receipt,
        seq,
        extension,
    } = evidence();
    let mut tree = Tree(Vec::new());
    for (number, line) in (0_u64..).zip(&lines) {
        let more = tlog_tiles::stored_hashes(number, line, &tree).unwrap();
        tree.0.extend(more);
    }
    let (before, after) = (
        judge_head(old.as_bytes(), &key).unwrap(),
        judge_head(new.as_bytes(), &key).unwrap(),
    );
    assert_eq!(
        tlog_tiles::tree_hash(before.size(), &tree).unwrap(),
        *before.hash()
    );
    assert_eq!(
        tlog_tiles::tree_hash(after.size(), &tree).unwrap(),
        *after.hash()
    );
    let text = |path: Vec<Hash>| -> Vec<String> {
        path.iter().map(|hash| STANDARD.encode(hash.0)).collect()
    };
    let made = text(tlog_tiles::prove_record(after.size(), seq, &tree).unwrap());
    assert_eq!(split(&receipt).unwrap().0[3..], made);
    let made = text(tlog_tiles::prove_tree(after.size(), before.size(), &tree).unwrap());
    assert_eq!(split(&extension).unwrap().0[1..], made);
}

fn has(program: &str, argument: &str) -> bool {
    let there = Command::new(program)
        .arg(argument)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !there {
        eprintln!("skipped: there is no {program}");
    }
    there
}

/// Whether openssl accepts an Ed25519 signature.
struct Openssl(TempDir);

impl Openssl {
    fn new(public_key: &[u8; 32]) -> Openssl {
        let dir = crate::kit::folder();
        let prefix = [
            0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
        ];
        fs::write(dir.path().join("key"), [&prefix[..], public_key].concat()).unwrap();
        Openssl(dir)
    }

    fn accepts(&self, text: &[u8], signature: &[u8]) -> bool {
        fs::write(self.0.path().join("text"), text).unwrap();
        fs::write(self.0.path().join("signature"), signature).unwrap();
        let arguments =
            "pkeyutl -verify -pubin -keyform DER -inkey key -rawin -in text -sigfile signature";
        let mut openssl = Command::new("openssl");
        openssl
            .args(arguments.split(' '))
            .current_dir(self.0.path());
        openssl
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
    }

    /// Checks that openssl accepts this, and refuses it with every thirteenth bit changed.
    fn demand(&self, text: &[u8], signature: &[u8]) {
        assert!(self.accepts(text, signature));
        let mut looked = 0;
        for bit in (0..(text.len() + signature.len()) * 8).step_by(13) {
            let mut both = [text, signature].concat();
            both[bit / 8] ^= 1 << (bit % 8);
            let (text, signature) = both.split_at(text.len());
            assert!(!self.accepts(text, signature), "bit {bit}");
            looked += 1;
        }
        assert!(looked > 80, "{looked}");
    }
}

#[test]
fn openssl_accepts_the_signatures_of_checkpoint_and_seal() {
    if !has("openssl", "version") {
        return;
    }
    let Evidence {
        key, lines, new, ..
    } = evidence();
    let (text, block) = new.split_at(new.rfind("\n\n").unwrap() + 1);
    let signature = STANDARD
        .decode(block.trim_end().rsplit(' ').next().unwrap())
        .unwrap();
    Openssl::new(key.public_key()).demand(text.as_bytes(), &signature[4..]);

    // A seal as docs/ledger.md describes it, from the last line.
    let genesis: serde_json::Value = serde_json::from_slice(&lines[0]).unwrap();
    let seal_key = spoolgate_wire::signing::unhex(genesis["seal_key"].as_str().unwrap()).unwrap();
    let last = line::parse(lines.last().unwrap()).unwrap();
    let seal: Seal = serde_json::from_str(&last.body()).unwrap();
    let text = format!(
        "spoolgate-seal/v1\n{ORIGIN}\n{}\n{}\n{}\n",
        seal.size, seal.root, last.prev
    );
    let signature = STANDARD.decode(&seal.sig).unwrap();
    Openssl::new(&seal_key.try_into().unwrap()).demand(text.as_bytes(), &signature);
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/check_receipt.py")
}

/// The script as a user runs it.
#[test]
fn a_script_of_a_page_accepts_the_receipt() {
    if !has("python3", "--version") || !has("openssl", "version") {
        return;
    }
    let Evidence {
        key,
        lines,
        receipt,
        seq,
        ..
    } = evidence();
    let dir = crate::kit::folder();
    let file = dir.path().join("receipt");
    let run = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let done = Command::new("python3")
            .arg(script())
            .arg(&file)
            .arg(key.to_string())
            .output()
            .unwrap();
        (done.status.success(), done.stdout)
    };
    let (good, told) = run(receipt.as_bytes());
    assert!(good);
    assert_eq!(told.strip_suffix(b"\n"), Some(&lines[seq as usize][..]));
    for changed in flipped(&receipt).step_by(campaign(1999, 499)) {
        let (good, told) = run(&changed);
        assert!(
            !good && told.is_empty(),
            "{}",
            String::from_utf8_lossy(&changed)
        );
    }
}

/// Calls the script's own function with every bit changed: a change that it lets pass must be for
/// openssl to refuse, because text or signature differ.
const EVERY_BIT: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from check_receipt import hashes
text = open(sys.argv[2], "rb").read()
signed, signatures, key, line = hashes(text.decode(), sys.argv[3])
passed = refused = 0
for bit in range(0, len(text) * 8, int(sys.argv[4])):
    changed = bytearray(text)
    changed[bit // 8] ^= 1 << bit % 8
    try:
        one = hashes(changed.decode(), sys.argv[3])
    except Exception:
        refused += 1
        continue
    passed += 1
    assert one[:2] != (signed, signatures) and one[2:] == (key, line), bit
print(passed, refused)
"#;

#[test]
fn the_script_lets_no_changed_bit_pass() {
    if !has("python3", "--version") {
        return;
    }
    let Evidence { key, receipt, .. } = evidence();
    let dir = crate::kit::folder();
    let file = dir.path().join("receipt");
    fs::write(&file, &receipt).unwrap();
    let done = Command::new("python3")
        .args(["-c", EVERY_BIT])
        .arg(script().parent().unwrap())
        .arg(&file)
        .arg(key.to_string())
        .arg(step().to_string())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", crate::kit::show(&done));
    let told = String::from_utf8(done.stdout).unwrap();
    let counts: Vec<usize> = told
        .split_whitespace()
        .map(|count| count.parse().unwrap())
        .collect();
    assert_eq!(
        counts.iter().sum::<usize>(),
        (receipt.len() * 8).div_ceil(step())
    );
    // Only changes of the checkpoint reach openssl.
    let checkpoint = receipt.len() - receipt.find("\n\n").unwrap();
    assert!(counts[0] < checkpoint * 8, "{told}");
}
