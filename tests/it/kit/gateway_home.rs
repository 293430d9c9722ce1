//! A home for outgoing actions: a mail service by `actions`, an API by name, adapters that are `sh
//! -c` scripts of the test or stubs, and the principal `core`, which may request all nine actions.
//! Rules and keys are in a temporary folder, spool and ledger are in memory, and the clock stands
//! still.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use spoolgate_gate::record::{Decision, Record, Response};
use spoolgate_home::batch::Outcome;
use spoolgate_home::{Home, sealed};
use spoolgate_host::clock::Clock;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_ledger::line;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::signing::SignKey;

use super::keys::add_key;
use super::place::Place;
use super::prepared::edit;
use super::{Scratch, succeed};

/// The services, unless a test writes others.
pub(crate) const SERVICES: &str = "\
services:
  - service: mail
    host: smtp.example.com
    port: 465
    protocol: smtp
    actions: [email.fetch, email.send, email.draft, calendar.fetch, calendar.create, \
        calendar.update, finance.fetch_transactions, health.fetch]
    added_at: 2026-01-01T00:00:00Z
    added_by: owner
    is_active: true
  - service: bank
    host: api.bank.example
    protocol: https
    methods: [GET, POST, PUT, DELETE, PATCH]
    added_at: 2026-01-01T00:00:00Z
    added_by: owner
    is_active: true
";

/// A script that reads its task and reports success.
pub(crate) const DONE: &str = r#"cat >/dev/null; echo '{"success":true}'"#;
/// A script that reports success and returns its task as data: what the adapter got.
pub(crate) const ECHO: &str = r#"printf '{"success":true,"data":'; cat; printf '}'"#;
/// A script that appends its task to the file `ran` in the home, one task per line, and reports
/// success.
pub(crate) const NOTED: &str = r#"t=$(cat); printf '%s\n' "$t" >>ran; echo '{"success":true}'"#;

/// Returns one adapter for rules/gateway.yaml: a script that `sh -c` runs in the home.
pub(crate) fn exec(actions: &[&str], script: &str, time_limit_s: u32) -> Value {
    let command = json!({
        "program": "sh", "args": ["-c", script], "time_limit_s": time_limit_s,
            "output_bytes_max": 65536,
    });
    json!({"actions": actions, "adapter": "exec", "command": command})
}

/// Returns one stub adapter.
pub(crate) fn stub(actions: &[&str]) -> Value {
    json!({"actions": actions, "adapter": "stub"})
}

/// Returns rules/gateway.yaml with these adapters and nothing else. JSON is YAML.
pub(crate) fn gateway(adapters: &[Value]) -> String {
    json!({"adapters": adapters}).to_string()
}

/// A home with services, adapters and `core`.
pub(crate) struct GatewayHome {
    /// The home; spool and ledger are on its disk in memory.
    pub place: Place,
    /// The key of `core`.
    pub core: SignKey,
}

impl GatewayHome {
    /// Makes a home in which this script does all nine actions, within 10 seconds.
    pub(crate) fn new(script: &str) -> GatewayHome {
        GatewayHome::with(SERVICES, &gateway(&[exec(&ACTIONS, script, 10)]))
    }

    /// Makes a home in which all nine actions are stubs.
    pub(crate) fn stubs() -> GatewayHome {
        GatewayHome::with(SERVICES, &gateway(&[stub(&ACTIONS)]))
    }

    /// Makes a home with these rule files.
    pub(crate) fn with(services: &str, gateway: &str) -> GatewayHome {
        GatewayHome::with_rules(services, gateway, "")
    }

    /// Makes a home that also has this rule, in rules/active/gateway.yaml.
    pub(crate) fn with_rules(services: &str, gateway: &str, rules: &str) -> GatewayHome {
        let place = Place::at(9, "2026-03-02T12:00:00Z", |root| {
            super::uncaged(root);
            fs::write(root.join("rules/services.yaml"), services).unwrap();
            fs::write(root.join("rules/gateway.yaml"), gateway).unwrap();
            if !rules.is_empty() {
                fs::write(root.join("rules/active/gateway.yaml"), rules).unwrap();
            }
            let path = root.join("rules/principals.yaml");
            let principals = fs::read_to_string(&path).unwrap();
            let core = format!(
                "  - name: core\n    role: agent\n    actions: [{}]\n",
                ACTIONS.join(", ")
            );
            fs::write(&path, format!("{principals}{core}")).unwrap();
        });
        let core = SignKey::Hmac([9; 32]);
        let keyring = SqliteKeyring::open(place.root.path(), false).unwrap();
        keyring.insert(&core.verify_key()).unwrap();
        let id = key_id(&core.verify_key());
        let payload =
            json!({"principal": "core", "key_id": id, "algorithm": "hmac-sha256"}).to_string();
        place.ask_as_owner("key-core", "keys.add", &payload);
        let home = GatewayHome { place, core };
        let mut opened = home.open();
        let outcomes = settle(&mut opened);
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.answer.error.is_none()),
            "{outcomes:?}"
        );
        home
    }

    /// Returns a path in the home's folder.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.place.root.path().join(below)
    }

    /// Changes a file of the home; the next opening reads it.
    pub(crate) fn edit(&self, path: &str, change: impl Fn(&str) -> String) {
        let path = self.path(path);
        let before = fs::read_to_string(&path).unwrap_or_default();
        let after = change(&before);
        assert_ne!(before, after, "{}", path.display());
        fs::write(path, after).unwrap();
    }

    /// Opens the home, whose rule files must be valid.
    pub(crate) fn open(&self) -> Home {
        let home = self.place.open().unwrap();
        assert_eq!(home.rules_fault(), None);
        home
    }

    /// Signs a request of `core` with the current time.
    pub(crate) fn envelope(&self, id: &str, action: &str, payload: &str) -> Envelope {
        super::signed(
            &self.core,
            "core",
            id,
            action,
            payload,
            self.place.clock.now(),
        )
    }

    /// Puts bytes into the flat spool as `<name>.json`.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) {
        self.place.disk.put(format!("spool/in/{name}.json"), bytes);
    }

    /// Puts a signed request of `core` into the flat spool as `<id>.json`.
    pub(crate) fn ask(&self, id: &str, action: &str, payload: &str) {
        self.put(id, self.envelope(id, action, payload).to_json().as_bytes());
    }

    /// Sends one request of `core` and returns its outcome; for a pending action, the outcome of
    /// its response.
    pub(crate) fn one(&self, home: &mut Home, id: &str, action: &str, payload: &str) -> Answer {
        self.ask(id, action, payload);
        settle(home);
        self.answer(id)
            .unwrap_or_else(|| panic!("no answer to `{id}`"))
    }

    /// Sends one request of the first person and returns its outcome.
    pub(crate) fn one_as_owner(
        &self,
        home: &mut Home,
        id: &str,
        action: &str,
        payload: &str,
    ) -> Answer {
        self.place.ask_as_owner(id, action, payload);
        settle(home);
        self.answer(id)
            .unwrap_or_else(|| panic!("no answer to `{id}`"))
    }

    /// Returns the answer to the file `<name>.json`, if there is one.
    pub(crate) fn answer(&self, name: &str) -> Option<Answer> {
        let bytes = self.place.disk.get(format!("spool/out/{name}.json"))?;
        Some(serde_json::from_slice(&bytes).unwrap())
    }

    /// Returns the log's bytes, segment after segment.
    pub(crate) fn log(&self) -> Vec<u8> {
        let files = self.place.disk.files_below("audit");
        let is_log = |path: &PathBuf| {
            path.file_name()
                .unwrap()
                .to_string_lossy()
                .starts_with("log-")
        };
        files
            .into_iter()
            .filter(|(path, _)| is_log(path))
            .flat_map(|(_, bytes)| bytes)
            .collect()
    }

    /// Returns number, kind and record of every line.
    pub(crate) fn lines(&self) -> Vec<(u64, String, Option<Record>)> {
        let log = self.log();
        let texts = log
            .split(|byte| *byte == b'\n')
            .filter(|text| !text.is_empty());
        texts
            .map(|text| {
                let line = line::parse(text).unwrap();
                (
                    line.seq,
                    line.kind.to_owned(),
                    Record::parse(line.kind, &line.body()).unwrap(),
                )
            })
            .collect()
    }

    /// Returns the decisions by line, including pending ones.
    pub(crate) fn decisions(&self) -> BTreeMap<u64, Decision> {
        let decision = |(seq, _, record)| match record {
            Some(Record::Decision(decision)) => Some((seq, *decision)),
            _ => None,
        };
        self.lines().into_iter().filter_map(decision).collect()
    }

    /// Returns the newest decision on a request.
    pub(crate) fn decision(&self, id: &str) -> Option<Decision> {
        let decisions = self.decisions();
        decisions
            .into_values()
            .rev()
            .find(|decision| decision.request_id.as_deref() == Some(id))
    }

    /// Returns the responses by line, with what is sealed in them.
    pub(crate) fn responses(&self) -> BTreeMap<u64, Response> {
        let response = |(seq, _, record)| match record {
            Some(Record::Response(response)) => {
                let revealed = sealed::response(self.place.disk.as_ref(), &response).unwrap();
                Some((seq, revealed.line))
            }
            _ => None,
        };
        self.lines().into_iter().filter_map(response).collect()
    }

    /// Returns the tasks that adapters with [`NOTED`] were given, oldest first.
    pub(crate) fn ran(&self) -> Vec<Value> {
        let noted = fs::read_to_string(self.path("ran")).unwrap_or_default();
        noted
            .lines()
            .map(|task| serde_json::from_str(task).unwrap())
            .collect()
    }
}

/// Gives a real home services, this rules/gateway.yaml and `core`, which may send mail, and returns
/// the key of `core`.
pub(crate) fn with_core(scratch: &Scratch, gateway: &str) -> SignKey {
    let home = scratch.home();
    fs::write(home.join("rules/services.yaml"), SERVICES).unwrap();
    fs::write(home.join("rules/gateway.yaml"), gateway).unwrap();
    edit(&home.join("rules/principals.yaml"), |text| {
        format!("{text}  - name: core\n    role: agent\n    actions: [email.send]\n")
    });
    succeed(&home, &["run", "--until-idle"]);
    add_key(&home, "core", &scratch.beside("core.key"))
}

/// Lets `trend-bot` of a real home request every action at these services, without a limit of
/// rates.
pub(crate) fn let_trend_bot_act(home: &Path) {
    fs::write(home.join("rules/services.yaml"), SERVICES).unwrap();
    let actions = format!(
        "  - name: trend-bot\n    actions: [{}]\n",
        ACTIONS.join(", ")
    );
    edit(&home.join("rules/principals.yaml"), |text| {
        text.replacen("  - name: trend-bot\n", &actions, 1)
    });
    edit(&home.join("rules/safety.yaml"), |text| {
        let kept: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("max_messages_per_minute"))
            .collect();
        let messages = "max_messages_per_minute: 100000\nmax_messages_per_minute_all: 100000";
        format!("{}\n{messages}\n", kept.join("\n"))
    });
}

/// Runs rounds until the spool is empty and every action has its response.
pub(crate) fn settle(home: &mut Home) -> Vec<Outcome> {
    let begun = Instant::now();
    let mut outcomes = Vec::new();
    loop {
        let round = home.round(false).unwrap();
        outcomes.extend(round.outcomes);
        if round.more {
            continue;
        }
        if home.state().actions.open.is_empty() {
            return outcomes;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "still open: {:?}",
            home.state().actions.open
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the code of an answer; empty for a success.
pub(crate) fn code(answer: &Answer) -> String {
    answer
        .error
        .as_ref()
        .map_or_else(String::new, |error| error.code.to_string())
}

/// Valid payloads as the contract has them, one per action.
pub(crate) const GOOD: [(&str, &str); 9] = [
    ("email.fetch", r#"{}"#),
    (
        "email.send",
        r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#,
    ),
    (
        "email.draft",
        r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#,
    ),
    (
        "calendar.fetch",
        r#"{"startDate":"2026-03-03T00:00:00Z","endDate":"2026-03-04T00:00:00Z"}"#,
    ),
    (
        "calendar.create",
        r#"{"title":"tea","startTime":"2026-03-03T15:00:00Z","endTime":"2026-03-03T16:00:00Z"}"#,
    ),
    (
        "calendar.update",
        r#"{"title":"tea","startTime":"2026-03-03T15:00:00Z","endTime":"2026-03-03T16:00:00Z"}"#,
    ),
    ("finance.fetch_transactions", r#"{}"#),
    ("health.fetch", r#"{"dataType":"steps"}"#),
    (
        "service.api_call",
        r#"{"service":"bank","endpoint":"/v1/balance","method":"GET"}"#,
    ),
];
