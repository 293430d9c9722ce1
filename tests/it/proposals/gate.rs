//! A home on a real disk with a clock that stands still: the gate reads the rule files that it
//! writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::{Change, Record};
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, Seams, layout};
use spoolgate_host::clock::{Clock, ManualClock};
use spoolgate_host::entropy::SeededEntropy;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_host::real_disk::RealDisk;
use spoolgate_ledger::disk::Disk;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;
use tempfile::TempDir;

use crate::kit::desk::{failed, order};
use crate::kit::place::{drain, one};
use crate::kit::prices::{kept, minute};
use crate::kit::signed;

/// Theses that no entry uses.
pub(crate) const SPARE: [&str; 3] = ["spare-a", "spare-b", "spare-c"];

pub(crate) struct Gate {
    pub root: TempDir,
    pub clock: Arc<ManualClock>,
    pub owner: SignKey,
    pub bot: SignKey,
    asked: std::cell::Cell<u32>,
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate::under(|_| {})
    }

    /// Makes a gate under rules that `edit` changes.
    pub(crate) fn under(edit: impl FnOnce(&Path)) -> Gate {
        let root = crate::kit::folder();
        let project = Path::new(env!("CARGO_MANIFEST_DIR"));
        for folder in ["rules", "proposals/theses"] {
            copy_tree(&project.join(folder), &root.path().join(folder));
        }
        // Remove the shipped rules.
        for folder in [
            "rules/active",
            "rules/core",
            "rules/sets",
            "rules/tests",
            "state",
        ] {
            let _ = fs::remove_dir_all(root.path().join(folder));
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        edit(root.path());
        let clock = Arc::new(ManualClock::at(
            Time::parse("2026-03-02T12:00:00Z").unwrap(),
        ));
        let seams = Seams {
            disk: Arc::new(RealDisk::open(root.path()).unwrap()),
            clock: clock.clone(),
            entropy: Arc::new(SeededEntropy::new(5)),
        };
        let person = Principal::parse("owner").unwrap();
        layout::found(root.path(), &seams, "test.invalid/proposals", &person).unwrap();
        let home = Home::open(root.path(), seams).unwrap();
        let owner = layout::own_sign_key(home.keyring(), home.state(), &person, clock.now())
            .unwrap()
            .unwrap();
        drop(home);
        let bot = SignKey::Hmac([7; 32]);
        let gate = Gate {
            root,
            clock,
            owner,
            bot,
            asked: std::cell::Cell::new(0),
        };
        let keyring = SqliteKeyring::open(gate.root.path(), false).unwrap();
        keyring.insert(&gate.bot.verify_key()).unwrap();
        let id = key_id(&gate.bot.verify_key());
        let payload = json!({"principal": "trend-bot", "key_id": id, "algorithm": "hmac-sha256"});
        let mut home = gate.open();
        gate.owner_asks(&mut home, "keys.add", &payload);
        home.finish("made").unwrap();
        drop(home);
        gate
    }

    /// Makes the same gate over a copy of its folder.
    pub(crate) fn elsewhere(&self, root: TempDir) -> Gate {
        let clock = Arc::new(ManualClock::at(self.clock.now()));
        let (owner, bot) = (self.owner.clone(), self.bot.clone());
        Gate {
            root,
            clock,
            owner,
            bot,
            asked: self.asked.clone(),
        }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn read(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    pub(crate) fn seams(&self) -> Seams {
        self.seams_with(Arc::new(RealDisk::open(self.root.path()).unwrap()))
    }

    pub(crate) fn seams_with(&self, disk: Arc<dyn Disk>) -> Seams {
        Seams {
            disk,
            clock: self.clock.clone(),
            entropy: Arc::new(SeededEntropy::new(0)),
        }
    }

    pub(crate) fn open(&self) -> Home {
        Home::open(self.root.path(), self.seams()).unwrap()
    }

    pub(crate) fn pass_s(&self, seconds: i64) {
        self.clock.set(self.clock.now().plus_ms(seconds * 1000));
    }

    /// Has the gate look at the files twice, as a watcher does.
    pub(crate) fn settle(&self, home: &mut Home) {
        for _ in 0..3 {
            self.pass_s(2);
            home.write_news().unwrap();
        }
    }

    pub(crate) fn drop_in(
        &self,
        key: &SignKey,
        source: &str,
        action: &str,
        payload: &str,
    ) -> String {
        let n = self.asked.get() + 1;
        self.asked.set(n);
        let id = format!("r{n:05}");
        let envelope = signed(key, source, &id, action, payload, self.clock.now());
        let hidden = self.path(&format!("spool/in/.{id}"));
        fs::write(&hidden, envelope.to_json()).unwrap();
        fs::rename(hidden, self.path(&format!("spool/in/{id}.json"))).unwrap();
        id
    }

    /// Decides one request alone in its batch, a minute after the one before it.
    pub(crate) fn asks(
        &self,
        home: &mut Home,
        key: &SignKey,
        source: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        // The number of messages per minute is limited.
        self.pass_s(61);
        self.drop_in(key, source, action, payload);
        one(home)
    }

    /// Adds a key for another principal.
    pub(crate) fn key_of(&self, home: &mut Home, name: &str, n: u8) -> SignKey {
        let key = SignKey::Hmac([n; 32]);
        SqliteKeyring::open(self.root.path(), false)
            .unwrap()
            .insert(&key.verify_key())
            .unwrap();
        let id = key_id(&key.verify_key());
        let payload = json!({"principal": name, "key_id": id, "algorithm": "hmac-sha256"});
        assert!(
            self.owner_asks(home, "keys.add", &payload)
                .answer
                .error
                .is_none()
        );
        key
    }

    pub(crate) fn bot_asks(&self, home: &mut Home, action: &str, payload: &Value) -> Outcome {
        self.asks(home, &self.bot, "trend-bot", action, &payload.to_string())
    }

    pub(crate) fn owner_asks(&self, home: &mut Home, action: &str, payload: &Value) -> Outcome {
        self.asks(home, &self.owner, "owner", action, &payload.to_string())
    }

    pub(crate) fn propose(&self, home: &mut Home, proposal: &Value) -> Outcome {
        self.bot_asks(home, "rule.propose", proposal)
    }
}

impl Gate {
    /// Sends a bar that opens and closes at `price`, and a quote at its end, which is now.
    pub(crate) fn bar(&self, home: &mut Home, price: &str) {
        self.pass_s(60);
        for row in minute(self.clock.now().ms(), price, price) {
            let payload = kept(home, "BTC-USD", &[row]);
            self.drop_in(&self.owner, "owner", "market.import", &payload);
            let outcomes = drain(home).unwrap();
            assert!(outcomes[0].answer.error.is_none(), "{outcomes:?}");
        }
    }

    /// Sends one order of `trend-bot` after a new bar.
    pub(crate) fn order(&self, home: &mut Home, order: &str) -> Outcome {
        self.bar(home, "6800");
        self.drop_in(&self.bot, "trend-bot", "order.submit", order);
        drain(home).unwrap().pop().unwrap()
    }

    /// Makes a gate with money and prices, in which `trend-bot` holds 0.02 BTC with a stop and has
    /// a resting entry.
    pub(crate) fn holding() -> (Gate, Home) {
        let gate = Gate::under(|root| {
            // A thesis serves one entry at a time.
            let folder = root.join("proposals/theses");
            let text = fs::read_to_string(folder.join("btc-range-long.md")).unwrap();
            for name in SPARE {
                fs::write(
                    folder.join(format!("{name}.md")),
                    text.replace("btc-range-long", name),
                )
                .unwrap();
            }
        });
        let mut home = gate.open();
        let adjust = json!({"amount": "5000", "reason": "start"});
        assert!(
            gate.owner_asks(&mut home, "account.adjust", &adjust)
                .answer
                .error
                .is_none()
        );
        let held = gate.order(
            &mut home,
            &order("trend", "buy", "0.02", None, "btc-range-long"),
        );
        assert_eq!(failed(&held), [""; 0]);
        let rest = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
        let rest = gate.order(&mut home, &rest);
        assert_eq!(failed(&rest), [""; 0]);
        gate.bar(&mut home, "6800");
        (gate, home)
    }
}

/// Returns `(proposal_id, auto_approved)` of an answer, which must say why it waits exactly if it does.
pub(crate) fn acknowledged(outcome: &Outcome) -> (String, bool) {
    assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer);
    let data: Value = serde_json::from_str(outcome.answer.data.as_ref().unwrap().get()).unwrap();
    let body = data["ProposalAcknowledged"].as_object().unwrap();
    let auto_approved = body["auto_approved"].as_bool().unwrap();
    assert_eq!(
        body.contains_key("waits_because"),
        !auto_approved,
        "{body:?}"
    );
    assert!(
        body["rule_id"].is_string() && body["direction"].is_string(),
        "{body:?}"
    );
    let id = body["proposal_id"].as_str().unwrap().to_owned();
    (id, auto_approved)
}

pub(crate) fn code(outcome: &Outcome) -> Option<Code> {
    outcome.decision.metadata.code
}

pub(crate) fn message(outcome: &Outcome) -> &str {
    outcome
        .decision
        .metadata
        .message
        .as_deref()
        .unwrap_or_default()
}

/// Returns the step in the line of an outcome.
pub(crate) fn step(outcome: &Outcome) -> Step {
    let mut steps = outcome
        .decision
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Proposal(step) => Some(step.clone()),
            _ => None,
        });
    steps
        .next()
        .unwrap_or_else(|| panic!("no step: {outcome:?}"))
}

/// Returns the steps in the whole ledger, by line, and the hashes of rulebooks that came into
/// force.
pub(crate) fn ledger(gate: &Gate) -> (Vec<(u64, Step)>, Vec<String>) {
    let (mut steps, mut hashes) = (Vec::new(), Vec::new());
    for (seq, _, record) in crate::kit::lines(gate.root.path()).unwrap() {
        for change in record.iter().flat_map(Record::changes) {
            match change {
                Change::Proposal(step) => steps.push((seq, step.clone())),
                Change::RulebookLoaded { hash, .. } => hashes.push(hash.clone()),
                _ => {}
            }
        }
    }
    (steps, hashes)
}

pub(crate) fn evidence() -> Value {
    json!({"summary": "seen", "sample_size": 0, "ledger_seqs": []})
}

/// Returns a rule that affects only the agent.
pub(crate) fn own_rule(id: &str, value: &str) -> Value {
    json!({
        "id": id, "status": "active",
        "applies_to": {"action": "order.submit", "principal": ["trend-bot"]},
        "when": [{"field": "order.size", "op": "gt", "value": value}],
        "then": "reject", "message": "too large",
    })
}

pub(crate) fn activate(rule: Value) -> Value {
    json!({"Activate": {"rule": rule, "evidence": evidence()}})
}

pub(crate) fn modify(id: &str, old: &str, new: &str, claim: bool) -> Value {
    json!({"ModifyParameter": {
        "rule_id": id, "parameter": "order.size", "old_value": old, "new_value": new,
        "evidence": evidence(), "is_tightening": claim,
    }})
}

pub(crate) fn suspend(id: &str) -> Value {
    json!({"Suspend": {"rule_id": id, "reason": "it blocks winners", "evidence": evidence()}})
}
