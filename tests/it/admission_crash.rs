//! Watchers that get admission requests are killed at random moments; and changed files that the
//! real gate forwarded.
//!
//! For more kills, or other ones: `SPOOLGATE_KILLS=500 SPOOLGATE_SEED=7 cargo test --test it
//! admission_crash:: -- --nocapture`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kit::keys::add_key;
use crate::kit::process::Running;
use crate::kit::tasks::{Task, reserved};
use crate::kit::unlimited::lift_message_rates;
use crate::kit::{
    Dice, Scratch, Sent, check_home, check_killed, decisions, names, setting, sign, spoolgate,
    succeed,
};
use serde_json::json;
use serde_json::value::RawValue;
use spoolgate_gate::Decision;
use spoolgate_home::open::read_genesis;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::token::verify_forwarded;
use spoolgate_wire::signing::SignKey;

const DOMAIN: &str = "research/agents/default";
const POLICY: &str = "{max_spawn_depth: 4, max_total_descendants: 6, recursion_budget: 5, \
    capability_denylist: [shell], allowed_targets: [a]}";

/// A home in which `research-bot` may open any number of roots.
struct Lab {
    scratch: Scratch,
    bot: SignKey,
}

impl Lab {
    fn new() -> Lab {
        let scratch = Scratch::new();
        let home = scratch.home();
        let edit = |path: &str, text: &str| {
            fs::write(home.join(path), text).unwrap();
            fs::set_permissions(home.join(path), fs::Permissions::from_mode(0o644)).unwrap();
        };
        edit("rules/admission/research/agents/default.yaml", POLICY);
        lift_message_rates(&home);
        let principals = fs::read_to_string(home.join("rules/principals.yaml")).unwrap();
        let more = principals.replace("roots_per_hour: 20", "roots_per_hour: 10000");
        assert_ne!(principals, more);
        edit("rules/principals.yaml", &more);
        let key_file = scratch.beside("bot.key2");
        let bot = add_key(&home, "research-bot", &key_file);
        Lab { scratch, bot }
    }

    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn request(&self, way: &str, task: &Task, forward: Option<bool>) -> Vec<u8> {
        let mut body = task.body();
        if let Some(forward) = forward {
            body["forward"] = json!(forward);
        }
        sign(
            &self.bot,
            "research-bot",
            &task.id,
            &format!("admission.{way}"),
            &body.to_string(),
        )
    }

    fn key(&self) -> (VerifierKey, String) {
        let home = self.home();
        let genesis = read_genesis(&home, real_seams(&home).unwrap().disk.as_ref()).unwrap();
        (genesis.log_key.parse().unwrap(), genesis.origin)
    }
}

fn task(text: &str) -> Task {
    Task {
        domain: DOMAIN.to_owned(),
        ..Task::parse(text)
    }
}

/// Sends requests of every kind, some of them children of earlier ones.
struct Feeder<'a> {
    lab: &'a Lab,
    dice: Dice,
    n: u64,
    sent: Vec<Sent>,
}

impl Feeder<'_> {
    fn one(&mut self) {
        self.n += 1;
        let tree = self.n / 8;
        let mut task = task(&match self.n % 8 {
            0 => format!("r{}@tree-{tree}", self.n),
            place => {
                let parent = self.n - self.dice.below(place) - 1;
                format!("r{}<r{parent}@tree-{tree}", self.n)
            }
        });
        task.payload = json!({"target": "a", "note": "x".repeat(usize::try_from(self.dice.below(3) * 5000).unwrap())});
        let mut way = "admit";
        let mut forward = None;
        match self.dice.below(12) {
            0 => way = "check",
            1 => way = "evaluate",
            2 => (way, forward) = ("evaluate", Some(true)),
            3 => task.capability = "shell".to_owned(),
            4 => task.depth = Some(json!(77)),
            5 => task.budget = Some(json!(self.dice.below(3))),
            6 => task.payload = json!({"target": "b"}),
            7 if !self.sent.is_empty() => {
                // The same request under another file name.
                let place = usize::try_from(self.dice.below(self.sent.len() as u64)).unwrap();
                let bytes = self.sent[place].bytes.clone();
                self.sent
                    .push(Sent::new(&format!("again-{:05}.json", self.n), bytes));
                return;
            }
            _ => {}
        }
        let bytes = self.lab.request(way, &task, forward);
        self.sent
            .push(Sent::new(&format!("{:05}.json", self.n), bytes));
    }

    fn feed(&mut self, count: usize) {
        for _ in 0..count {
            self.one();
            self.sent[self.sent.len() - 1].drop_into(&self.lab.home());
        }
    }
}

fn forwarded_files(home: &Path) -> BTreeSet<String> {
    let root = home.join("spool/forward");
    let folders = names(&root)
        .into_iter()
        .map(|name| name.into_string().unwrap());
    folders
        .flat_map(|folder| {
            let files = names(&root.join(&folder));
            files
                .into_iter()
                .map(move |name| format!("forward/{folder}/{}", name.into_string().unwrap()))
        })
        .collect()
}

/// Every forwarded file has its ALLOW, even right after a kill.
fn nothing_is_forwarded_unsealed(lab: &Lab) {
    let decided = decisions(&lab.home()).unwrap();
    let (key, origin) = lab.key();
    let allowed: BTreeSet<&str> = decided
        .values()
        .filter_map(Decision::forwarded_to)
        .collect();
    for path in forwarded_files(&lab.home()) {
        if path.rsplit('/').next().unwrap().starts_with('.') {
            continue;
        }
        assert!(
            allowed.contains(path.as_str()),
            "{path} was forwarded before its line was sealed"
        );
        let bytes = fs::read(lab.home().join("spool").join(&path)).unwrap();
        verify_forwarded(&bytes, &key, &origin).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[test]
fn killed_at_random_moments() {
    let (kills, seed) = (setting("SPOOLGATE_KILLS", 20), setting("SPOOLGATE_SEED", 1));
    let lab = Lab::new();
    let home = lab.home();
    let started = Instant::now();
    let mut feeder = Feeder {
        lab: &lab,
        dice: Dice::new(seed),
        n: 0,
        sent: Vec::new(),
    };
    let (mut inside, mut window_us) = (0, 100_000);
    for kill in 0..kills {
        feeder.feed(20);
        let before = decisions(&home).unwrap().len();
        let mut watcher = Running::watch(&home);
        let delay = Duration::from_micros(feeder.dice.below(window_us));
        let begun = Instant::now();
        while begun.elapsed() < delay / 2 {
            std::thread::sleep(Duration::from_micros(200));
        }
        feeder.feed(4);
        std::thread::sleep(delay.saturating_sub(begun.elapsed()));
        watcher.0.kill().unwrap();
        watcher.0.wait().unwrap();
        let decided = decisions(&home).unwrap().len();
        let begun = !names(&home.join("spool/work")).is_empty();
        let is_late = !begun && names(&home.join("spool/in")).is_empty();
        inside += u64::from(begun || decided > before && !is_late);
        window_us = if is_late {
            window_us * 7 / 10
        } else {
            window_us * 11 / 10
        }
        .max(2000);
        check_killed(&home, &feeder.sent)
            .unwrap_or_else(|why| panic!("SPOOLGATE_SEED={seed}, kill {kill}: {why}"));
        nothing_is_forwarded_unsealed(&lab);
    }
    succeed(&home, &["run", "--until-idle"]);
    let counted = check_home(&home, &feeder.sent)
        .unwrap_or_else(|why| panic!("SPOOLGATE_SEED={seed}: {why}"));
    let time = started.elapsed().as_secs_f32();
    println!("{kills} kills, {inside} inside, {time:.1} s; {counted:?}");
    assert!(
        inside * 5 >= kills,
        "{inside} of {kills} kills landed inside a batch or between two"
    );
    check_receipts(&lab);
    nothing_is_forwarded_unsealed(&lab);
}

/// Six threads ask for tasks of one tree while watchers are killed: never is more reserved than the
/// tree's budget.
#[test]
fn killed_over_a_budget_of_money() {
    let seed = setting("SPOOLGATE_SEED", 1);
    let lab = Lab::new();
    let home = lab.home();
    let policy = "{max_spawn_depth: 4, budget_usd: 3.00, reserve_usd: 0.10, budget_tokens: 9000, \
        reserve_tokens: 1}";
    fs::write(
        home.join("rules/admission/research/agents/default.yaml"),
        policy,
    )
    .unwrap();
    let root = lab.request("admit", &task("root@tree"), None);
    Sent::new("root.json", root).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let mut dice = Dice::new(seed);
    let kills = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..6)
            .map(|thread| {
                let lab = &lab;
                scope.spawn(move || {
                    for n in 0..60 {
                        let mut task = task(&format!("t{thread}-{n}<root@tree"));
                        task.payload = json!({"budget": {"usd": format!("0.{:02}", n % 13)}});
                        let bytes = lab.request("admit", &task, None);
                        let name = format!("{n:02}-{thread}.json");
                        Sent::new(&name, bytes).drop_into(&lab.home());
                    }
                })
            })
            .collect();
        let mut kills = 0;
        while kills < 3 || !asking.iter().all(|thread| thread.is_finished()) {
            let mut watcher = Running::watch(&home);
            std::thread::sleep(Duration::from_micros(20_000 + dice.below(60_000)));
            watcher.0.kill().unwrap();
            watcher.0.wait().unwrap();
            kills += 1;
        }
        kills
    });
    succeed(&home, &["run", "--until-idle"]);
    let decided = decisions(&home).unwrap();
    let tasks: Vec<_> = decided.values().filter_map(reserved).collect();
    let cents = tasks.iter().map(|task| {
        let usd = task.reserved.usd.unwrap().to_string();
        usd.replace('.', "").parse::<u64>().unwrap()
    });
    let reserved_cents: u64 = cents.sum();
    println!(
        "{kills} kills, {} tasks, {reserved_cents} cents",
        tasks.len()
    );
    assert_eq!(
        decided.values().filter(|it| it.receipt.is_some()).count(),
        361
    );
    // The least that a task reserves is ten cents, so that less is left.
    assert!((291..=300).contains(&reserved_cents), "{reserved_cents}");
    let shown = spoolgate(&home, &["--format", "json", "admit", "tree", "tree"]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let left = format!("0.{:02}", 300 - reserved_cents);
    assert_eq!(shown[0]["usd"]["left"], left, "{shown}");
    assert_eq!(shown[0]["tokens"]["left"], 9000 - tasks.len(), "{shown}");
    assert_eq!(shown[0]["unsettled_tasks"], tasks.len(), "{shown}");
    succeed(&home, &["audit", "verify"]);
    succeed(&home, &["audit", "replay"]);
}

/// Checks that each request except replays has one decision and one receipt, and that exactly the
/// allowed tasks were forwarded.
fn check_receipts(lab: &Lab) {
    let decided = decisions(&lab.home()).unwrap();
    let mut receipts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut expected = BTreeSet::new();
    let (mut allowed, mut denied, mut replayed) = (0, 0, 0);
    for (seq, decision) in &decided {
        let is_asked = decision
            .action
            .as_deref()
            .is_some_and(|action| action.starts_with("admission."));
        if !is_asked || decision.metadata.replay_of.is_some() {
            assert!(decision.receipt.is_none() && reserved(decision).is_none());
            replayed += u64::from(decision.metadata.replay_of.is_some());
            continue;
        }
        crate::kit::tasks::check_receipt(decision);
        let receipt = decision
            .receipt
            .as_deref()
            .unwrap_or_else(|| panic!("line {seq} has no receipt"));
        let id = decision.request_id.as_deref().unwrap();
        assert!(receipts.insert(id, *seq).is_none(), "{id} has two receipts");
        match receipt.rejection_reason_code {
            None => allowed += 1,
            Some(_) => denied += 1,
        }
        if let Some(path) = decision.forwarded_to() {
            expected.insert(path.to_owned());
        }
        let is_admit = decision.action.as_deref() == Some("admission.admit");
        if is_admit && receipt.rejection_reason_code.is_none() {
            assert!(decision.forwarded_to().is_some(), "{id}");
        }
    }
    assert_eq!(
        forwarded_files(&lab.home()),
        expected,
        "and no half-written file is left"
    );
    println!(
        "{allowed} allowed, {denied} denied, {replayed} replayed, {} forwarded",
        expected.len()
    );
    // Each kind occurred. How often depends on the random moments.
    assert!(allowed > 10 && denied > 10 && replayed > 2 && expected.len() > 5);
}

/// Returns the place of a member in a text.
fn place_of(text: &str, pointer: &str) -> Range<usize> {
    let mut value = text.trim_end();
    for key in pointer.split('/').skip(1) {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(value).unwrap();
        value = members
            .get(key)
            .unwrap_or_else(|| panic!("there is no {pointer}"))
            .get();
    }
    let start = value.as_ptr().addr() - text.as_ptr().addr();
    start..start + value.len()
}

#[test]
fn a_forwarded_file_that_was_changed_is_found_out() {
    let lab = Lab::new();
    let home = lab.home();
    for text in ["one@A", "two<one@A"] {
        let mut task = task(text);
        task.payload = json!({"target": "a", "n": 0.1});
        Sent::new(
            &format!("{}.json", task.id),
            lab.request("admit", &task, None),
        )
        .drop_into(&home);
        succeed(&home, &["run", "--until-idle"]);
    }
    let files: Vec<String> = forwarded_files(&home)
        .iter()
        .map(|path| fs::read_to_string(home.join("spool").join(path)).unwrap())
        .collect();
    let [one, two] = files.as_slice() else {
        panic!("{} files", files.len())
    };
    let verify = |text: &str| {
        let path = lab.scratch.beside("looked-at.json");
        fs::write(&path, text).unwrap();
        spoolgate(&home, &["admit", "verify", path.to_str().unwrap()])
            .status
            .code()
    };
    assert_eq!((verify(one), verify(two)), (Some(0), Some(0)));
    let of_one = |pointer: &str| one[place_of(one, pointer)].to_owned();
    for (pointer, value) in [
        ("/envelope/payload/target", r#""b""#.to_owned()),
        ("/envelope/payload/n", "0.10".to_owned()),
        ("/envelope/payload", "{}".to_owned()),
        (
            "/envelope/causality/recursion_budget_remaining",
            "99".to_owned(),
        ),
        ("/envelope/causality/spawn_depth", "0".to_owned()),
        ("/envelope/tenant_id", r#""other""#.to_owned()),
        ("/receipt/receipt_id", of_one("/receipt_id")),
        (
            "/receipt/effective_counters/recursion_budget_remaining",
            "99".to_owned(),
        ),
        ("/receipt/surface_id", r#""other""#.to_owned()),
        ("/receipt_id", of_one("/receipt_id")),
        ("/request_id", of_one("/request_id")),
        ("/request_hash", of_one("/request_hash")),
        ("/token", of_one("/token")),
        ("/envelope", of_one("/envelope")),
        ("/receipt", of_one("/receipt")),
    ] {
        let mut forged = two.clone();
        forged.replace_range(place_of(two, pointer), &value);
        assert_ne!(forged, *two, "{pointer}");
        assert_eq!(verify(&forged), Some(1), "{pointer}");
    }
}
