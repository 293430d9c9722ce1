//! Histories that nobody tampered with, drawn from a seed: every action, holds, grants, keys that end,
//! rights, services and rules that change, redaction, rotation and pruning. `audit replay` accepts
//! each.
//!
//! It draws 8 histories, 300 with `SPOOLGATE_WHOLE=1`, from `SPOOLGATE_SEED` on.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::signing::SignKey;

use crate::kit::gateway_home::{GOOD, let_trend_bot_act};
use crate::kit::keys::add_key;
use crate::kit::prepared::order;
use crate::kit::process::until;
use crate::kit::{Dice, Scratch, campaign, names, setting, show, sign, spoolgate, succeed};

/// A home whose history is drawn.
struct Life {
    scratch: Scratch,
    home: PathBuf,
    key: SignKey,
    sent: Vec<String>,
    /// What was done, for the message of a failure.
    story: Vec<String>,
}

/// Rules that hold these actions of the agent.
fn hold(home: &Path, actions: &[&str]) {
    fs::create_dir_all(home.join("rules/core")).unwrap();
    for action in actions {
        let id = format!("hold-{}", action.replace(['.', '_'], "-"));
        let rule = format!(
            "id: {id}\nstatus: active\napplies_to: {{action: {action}}}\nwhen: [{{field: \
                request.source, op: eq, value: trend-bot}}]\nthen: hold\nmessage: \"look\"\n"
        );
        fs::write(home.join(format!("rules/core/{id}.yaml")), rule).unwrap();
    }
}

impl Life {
    fn new() -> Life {
        let scratch = Scratch::with_prices();
        let home = scratch.home();
        let_trend_bot_act(&home);
        let adapters = json!({"adapters": [{"actions": ACTIONS, "adapter": "stub"}]});
        fs::write(home.join("rules/gateway.yaml"), adapters.to_string()).unwrap();
        let key = scratch.bot.clone();
        Life {
            home,
            key,
            scratch,
            sent: Vec::new(),
            story: Vec::new(),
        }
    }

    /// Runs a command that may be refused, but may not fail.
    fn may(&mut self, args: &[&str]) {
        let done = spoolgate(&self.home, args);
        self.story
            .push(format!("{args:?} {:?}", done.status.code()));
        assert!(
            matches!(done.status.code(), Some(0..=4)),
            "{:#?}: {}",
            self.story,
            show(&done)
        );
    }

    fn run(&mut self) {
        self.may(&["run", "--until-idle"]);
    }

    fn send(&mut self, action: &str, payload: &str) -> String {
        let id = format!("x{}", self.sent.len());
        let bytes = sign(&self.key, "trend-bot", &id, action, payload);
        fs::write(self.home.join(format!("spool/in/{id}.json")), bytes).unwrap();
        self.story.push(format!("{id} is {action}"));
        self.sent.push(id.clone());
        id
    }

    /// Returns the number of the hold on a request, if there is one.
    fn hold_of(&self, id: &str) -> Option<String> {
        let answer = fs::read(self.home.join(format!("spool/out/{id}.json"))).ok()?;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        Some(answer["data"]["Held"]["hold_id"].as_str()?.to_owned())
    }

    /// Returns the code of the newest answer to a request; empty if it succeeded.
    fn code_of(&self, id: &str) -> String {
        let answer = fs::read(self.home.join(format!("spool/out/{id}.json"))).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        answer["error"]["code"].as_str().unwrap_or("").to_owned()
    }

    /// Holds that begin from now on end after this many seconds.
    fn expire_after_s(&mut self, seconds: u32) {
        self.edit("safety.yaml", |text| {
            let others = text
                .lines()
                .filter(|line| !line.starts_with("hold_expires_s:"));
            let others: Vec<&str> = others.collect();
            format!("{}\nhold_expires_s: {seconds}\n", others.join("\n"))
        });
    }

    /// Sends an order, which is held, and runs the gate until nobody has granted it in time.
    fn let_a_hold_expire(&mut self) {
        self.expire_after_s(1);
        let id = self.send("order.submit", &order("0.002", "btc-range-long"));
        self.run();
        if self.hold_of(&id).is_some() {
            until("the hold expires", || {
                self.run();
                self.code_of(&id) == "APPROVAL_EXPIRED"
            });
            self.story.push(format!("the hold of {id} expired"));
        }
        self.expire_after_s(86_400);
    }

    /// Runs the gate until nothing is held any more.
    fn wait_for_expiry(&mut self) {
        until("the holds expire", || {
            self.run();
            let pending = names(&self.home.join("proposals/pending"));
            !pending
                .iter()
                .any(|name| name.to_string_lossy().starts_with("h-"))
        });
    }

    /// Ends the agent's keys and gives it another.
    fn revoke(&mut self, with_another: bool) {
        let listed = succeed(&self.home, &["--format", "json", "keys", "list"]);
        let keys: Vec<Value> = listed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        for key in keys.iter().filter(|key| key["principal"] == "trend-bot") {
            let id = key["key_id"].as_str().unwrap();
            self.may(&["keys", "revoke", id, "--reason", "lost"]);
        }
        if with_another {
            let file = self.scratch.beside(&format!("key-{}", self.story.len()));
            self.key = add_key(&self.home, "trend-bot", &file);
            self.story.push("another key".to_owned());
        }
    }

    fn edit(&mut self, file: &str, change: impl Fn(&str) -> String) {
        let path = self.home.join("rules").join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, change(&text)).unwrap();
        self.story.push(format!("{file} changed"));
    }

    fn drop_right(&mut self, action: &str) {
        self.edit("principals.yaml", |text| {
            text.replace(&format!("{action}, "), "")
                .replace(&format!(", {action}]"), "]")
                .replace(&format!("[{action}]"), "[]")
        });
    }

    fn vault(&self) -> PathBuf {
        self.scratch.beside("vault")
    }

    /// Prunes all closed segments, with a copy in the vault.
    fn prune(&mut self) {
        let vault = self.vault();
        fs::create_dir_all(&vault).unwrap();
        self.may(&["audit", "archive"]);
        for name in names(&self.home.join("audit")) {
            if name.to_string_lossy().ends_with(".zst") {
                fs::copy(self.home.join("audit").join(&name), vault.join(&name)).unwrap();
            }
        }
        let to = vault.to_str().unwrap().to_owned();
        self.may(&["audit", "prune", "--keep", "1", "--copied-to", &to, "--yes"]);
    }

    /// Redacts these requests; ends with one of these codes each time.
    fn redact(&mut self, ids: &[String], codes: &[i32]) {
        for id in ids {
            let done = spoolgate(
                &self.home,
                &["audit", "redact", id, "--reason", "asked", "--yes"],
            );
            let code = done.status.code();
            self.story.push(format!("redact {id} {code:?}"));
            assert!(
                code.is_some_and(|code| codes.contains(&code)),
                "{:#?}: {}",
                self.story,
                show(&done)
            );
        }
    }

    /// One step that the dice choose.
    fn step(&mut self, dice: &mut Dice) {
        let some_action = |dice: &mut Dice| GOOD[dice.up_to(GOOD.len() - 1)];
        match dice.below(21) {
            0..=5 => {
                let (action, payload) = some_action(dice);
                self.send(action, payload);
            }
            6 | 7 => {
                self.send("order.submit", &order("0.002", "btc-range-long"));
            }
            8 => {
                let all = ActionName::ALL;
                let action = all[dice.up_to(all.len() - 1)].to_string();
                let payload = ["{}", r#"{"reason":"r"}"#, r#"{"symbol":"BTC-USD"}"#, "[]"];
                self.send(&action, payload[dice.up_to(3)]);
            }
            9 => {
                let (action, payload) = some_action(dice);
                let asked = json!({"action": action, "payload": payload}).to_string();
                self.send("request.check", &asked);
            }
            10..=12 => {
                self.run();
                let held: Vec<String> =
                    self.sent.iter().filter_map(|id| self.hold_of(id)).collect();
                if held.is_empty() {
                    return;
                }
                let hold = held[dice.up_to(held.len() - 1)].clone();
                let verb = ["grant", "deny"][dice.up_to(1)];
                self.may(&["approvals", verb, &hold, "--reason", "looked at it"]);
            }
            13 => self.revoke(true),
            14 => {
                let (action, _) = some_action(dice);
                self.drop_right(action);
            }
            15 => {
                let verb = ["activate", "deactivate"][dice.up_to(1)];
                let service = ["mail", "bank"][dice.up_to(1)];
                self.may(&["services", verb, service]);
            }
            16 => {
                let (action, _) = some_action(dice);
                hold(&self.home, &[action]);
                self.story.push(format!("{action} is held from now on"));
            }
            17 => {
                self.run();
                if let Some(id) = self.sent.get(dice.up_to(self.sent.len())).cloned() {
                    // While something is held or open, this waits (7).
                    self.redact(&[id], &[0, 1, 2, 3, 4, 7]);
                }
            }
            18 => self.may(&["audit", "rotate", "--reason", "yearly"]),
            19 => self.let_a_hold_expire(),
            _ => self.prune(),
        }
    }

    #[track_caller]
    fn replays(&mut self, what: &str) {
        self.run();
        // Replay needs the contents of all segments.
        for name in fs::read_dir(self.vault()).map_or_else(|_| Vec::new(), Iterator::collect) {
            let path = name.unwrap().path();
            fs::copy(
                &path,
                self.home.join("audit").join(path.file_name().unwrap()),
            )
            .unwrap();
        }
        let done = spoolgate(&self.home, &["audit", "replay"]);
        assert!(
            done.status.success(),
            "{what}, {:#?}: {}",
            self.story,
            show(&done)
        );
        succeed(&self.home, &["audit", "verify"]);
    }
}

#[test]
fn drawn_histories_replay_the_same() {
    let first = setting("SPOOLGATE_SEED", 1);
    let mut stories = String::new();
    for seed in first..first + campaign(8, 300) {
        let mut dice = Dice::new(seed);
        let mut life = Life::new();
        let (held, _) = GOOD[dice.up_to(GOOD.len() - 1)];
        hold(&life.home, &[held, "order.submit"]);
        life.run();
        for _ in 0..28 {
            life.step(&mut dice);
        }
        life.replays(&format!("SPOOLGATE_SEED={seed}"));
        stories += &life.story.join("\n");
    }
    // Each of these was done at least once.
    for done in [
        r#""approvals", "grant""#,
        r#""approvals", "deny""#,
        r#""audit", "rotate""#,
        r#""audit", "prune""#,
        "redact x",
        "another key",
        "is held from now on",
        "expired",
    ] {
        let is_done = |line: &str| {
            line.contains(done) && (line.ends_with("Some(0)") || !line.contains("Some("))
        };
        assert!(stories.lines().any(is_done), "{done} never: {stories}");
    }
}

/// The code of the answer to a request that was held, after this change and this end; empty if it
/// succeeded.
fn code_after(change: &str, end: &str, action: &str) -> &'static str {
    let is_order = action == "order.submit";
    match (end, change) {
        ("nobody", _) => "HELD",
        ("deny", _) => "APPROVAL_DENIED",
        ("expires", _) => "APPROVAL_EXPIRED",
        (_, "key") => "SIGNATURE_INVALID",
        // An order needs neither a right nor a service.
        _ if is_order => "",
        (_, "right") => "NOT_PERMITTED",
        (_, "service") => "NOT_ALLOWLISTED",
        _ => "STUB_ADAPTER",
    }
}

/// Each action is held, then the key, a right, the service, the rule or the payload goes, and then
/// a person grants or denies, or nobody does, or the hold expires.
#[test]
fn holds_that_end_after_something_changed() {
    let mut all: Vec<(&str, String)> = GOOD
        .iter()
        .map(|(action, payload)| (*action, (*payload).to_owned()))
        .collect();
    all.push(("order.submit", order("0.002", "btc-range-long")));
    let actions: Vec<&str> = all.iter().map(|(action, _)| *action).collect();
    for change in ["nothing", "key", "right", "service", "rule", "redaction"] {
        for end in ["grant", "deny", "nobody", "grant twice", "expires"] {
            let mut life = Life::new();
            hold(&life.home, &actions);
            if end == "expires" {
                life.expire_after_s(1);
            }
            life.run();
            let sent: Vec<String> = all
                .iter()
                .map(|(action, payload)| life.send(action, payload))
                .collect();
            life.run();
            let holds: Vec<String> = sent.iter().filter_map(|id| life.hold_of(id)).collect();
            assert_eq!(holds.len(), 10, "{change}, {end}: {:#?}", life.story);
            match change {
                "key" => life.revoke(false),
                "right" => actions.iter().for_each(|action| life.drop_right(action)),
                "service" => ["mail", "bank"]
                    .iter()
                    .for_each(|name| life.may(&["services", "deactivate", name])),
                "rule" => fs::remove_dir_all(life.home.join("rules/core")).unwrap(),
                // While a request is held, it waits (7), and comes after the end.
                "redaction" => life.redact(&sent, &[0, 1, 2, 3, 4, 7]),
                _ => {}
            }
            let verbs: &[&str] = match end {
                "grant" => &["grant"],
                "deny" => &["deny"],
                "grant twice" => &["grant", "grant"],
                _ => &[],
            };
            for verb in verbs {
                for hold in &holds {
                    life.may(&["approvals", verb, hold, "--reason", "looked at it"]);
                }
            }
            if end == "expires" {
                life.wait_for_expiry();
            }
            for (id, action) in sent.iter().zip(&actions) {
                let expect = code_after(change, end, action);
                assert_eq!(life.code_of(id), expect, "{change}, {end}, {action}");
            }
            if change == "redaction" && end != "nobody" {
                life.redact(&sent, &[0, 1, 2]);
            }
            life.replays(&format!("{change}, {end}"));
        }
    }
}
