//! The bodies of the fuzz targets (`fuzz/bodies`) on a stable compiler: every kept input, every
//! input that once failed, and some thousands made from them by mutation.
//! `fuzz/regressions/README.md` describes each regression.
//!
//! `FUZZED_SEED=n` starts from another seed, `FUZZED_CASES=n` makes n times as many. The ignored
//! test writes the seeds of the corpora.

#[path = "../../fuzz/bodies/mod.rs"]
pub(crate) mod bodies;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::kit::setting;
use bodies::{Body, TARGETS, seeds};

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz")
        .join(kind)
        .join(target)
}

fn files(kind: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = fs::read_dir(folder(kind, target)) else {
        return Vec::new();
    };
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (
                format!(
                    "fuzz/{kind}/{target}/{}",
                    path.file_name().unwrap().display()
                ),
                fs::read(path).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n.max(1) as u64).unwrap()
    }
}

/// Bytes that have a meaning in one format or another.
const TOKENS: [&str; 24] = [
    "\"",
    "\\u0000",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "-0",
    "1e999",
    "0.00000000001",
    "\n",
    "\n\n",
    "\u{0}",
    "|",
    "9223372036854775807",
    "18446744073709551615",
    "&a",
    "*a",
    "\u{2014} ",
    "\u{202e}",
    "é",
    "2018-04-05T12:00:00Z",
];

fn mutate(inputs: &[(String, Vec<u8>)], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = inputs[dice.below(inputs.len())].1.clone();
    for _ in 0..=dice.below(4) {
        let at = dice.below(bytes.len() + 1);
        let length = dice.below(8).min(bytes.len() - at);
        match dice.below(7) {
            0 => bytes.insert(at, dice.next() as u8),
            1 => bytes.truncate(at),
            2 => drop(bytes.splice(at..at + length, TOKENS[dice.below(TOKENS.len())].bytes())),
            3 => drop(bytes.drain(at..at + length)),
            4 => {
                let other = &inputs[dice.below(inputs.len())].1;
                let from = dice.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            5 => {
                let again = bytes[at..at + length].to_vec();
                drop(bytes.splice(at..at, again));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.below(8);
                }
            }
        }
    }
    bytes.truncate(16 * 1024);
    bytes
}

fn run(body: Body, input: &[u8], what: &str) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| body(input))) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        panic!(
            "{what}: {}\ninput: {:?}",
            text.unwrap_or_default(),
            String::from_utf8_lossy(input)
        );
    }
}

/// Runs all kept inputs of a target, then `cases` more.
fn check(target: &str, cases: u64) {
    let body = TARGETS.iter().find(|(name, _)| *name == target).unwrap().1;
    let mut inputs = files("corpus", target);
    assert!(!inputs.is_empty(), "no corpus of `{target}`");
    inputs.extend(files("regressions", target));
    for (name, input) in &inputs {
        run(body, input, name);
    }
    let seed = setting("FUZZED_SEED", 1);
    for case in 0..cases * setting("FUZZED_CASES", 1) {
        let input = mutate(&inputs, &mut Dice(seed.wrapping_shl(32) ^ case));
        run(
            body,
            &input,
            &format!("{target}, FUZZED_SEED={seed}, case {case}"),
        );
    }
}

macro_rules! targets {
    ($($target:ident: $cases:literal;)*) => {
        $(#[test]
        fn $target() {
            check(stringify!($target), $cases);
        })*

        #[test]
        fn every_target_is_tested() {
            assert_eq!(TARGETS.map(|(name, _)| name), [$(stringify!($target)),*]);
        }
    };
}

targets! {
    recovery: 500;
    ledger_line: 5000;
    json: 10000;
    envelope: 10000;
    yaml_rules: 1000;
    payload: 5000;
    decide: 150;
    amount: 10000;
    market_file: 2000;
    note: 10000;
    signing_string: 10000;
}

#[test]
#[ignore = "writes fuzz/corpus: where fuzzing starts"]
fn write_seeds() {
    for (target, body) in TARGETS {
        let folder = folder("corpus", target);
        fs::create_dir_all(&folder).unwrap();
        for (n, seed) in seeds::of(target).into_iter().enumerate() {
            run(body, &seed, &format!("seed {n} of {target}"));
            fs::write(folder.join(format!("seed-{n:03}")), seed).unwrap();
        }
    }
}
