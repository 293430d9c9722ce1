//! A home whose policy names commands, a clock that stands still, and requests with causality.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use spoolgate_gate::record::{AdmissionInput, Decision, Record};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::read::real_seams;
use spoolgate_host::clock::{Clock, ManualClock, SystemClock};
use spoolgate_ledger::disk::Disk;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::SignKey;

use crate::kit::chamber::Chamber;
use crate::kit::{Sent, decisions, lines, names, place, succeed};

/// The policy file of the domain.
pub(super) const POLICY: &str = "rules/admission/research/agents/default.yaml";
/// A policy command with limits that no test reaches.
pub(super) const COMMAND: &str =
    "policy_command: {program: bin/policy, time_limit_s: 60, output_bytes_max: 4096}\n";
/// The same for a lineage command.
pub(super) const LINEAGE: &str =
    "lineage_command: {program: bin/lineage, time_limit_s: 60, output_bytes_max: 4096}\n";
/// A policy that allows what the tests request.
pub(super) const WIDE: &str = "max_spawn_depth: 4\ncapability_denylist: [shell]\n";

pub(super) struct Desk {
    pub chamber: Chamber,
    pub clock: Arc<ManualClock>,
}

impl Desk {
    /// Makes a home in which `trend-bot`, `research-bot` and the council's agents may open roots
    /// under this policy.
    pub(super) fn new(policy: &str) -> Desk {
        let chamber = Chamber::new();
        crate::kit::uncaged(&chamber.home());
        let desk = Desk {
            chamber,
            clock: Arc::new(ManualClock::at(SystemClock::default().now())),
        };
        desk.write(POLICY, policy);
        let path = desk.home().join("rules/principals.yaml");
        let text = fs::read_to_string(&path)
            .unwrap()
            .replace("roots_per_hour: 20", "roots_per_hour: 1000");
        let grant = "    admission: {domains: [{tenant: research, surface: agents, profile: \
            default}], roots_per_hour: 1000}\n";
        let mut granted = String::new();
        for line in text.split_inclusive('\n') {
            granted.push_str(line);
            if line.starts_with("    strategies:") || line.starts_with("    council_roles:") {
                granted.push_str(grant);
            }
        }
        fs::write(path, granted).unwrap();
        desk
    }

    pub(super) fn home(&self) -> PathBuf {
        self.chamber.home()
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.home().join(path)).unwrap_or_default()
    }

    pub(super) fn is_there(&self, path: &str) -> bool {
        self.home().join(path).exists()
    }

    /// Writes a program that records its input and the fact that it ran, and then does this.
    pub(super) fn program(&self, name: &str, text: &str) {
        let noting = format!(
            "cat >> bin/{name}.asked; echo >> bin/{name}.asked; echo $$ >> bin/{name}.runs\n{text}"
        );
        crate::kit::chamber::script(&self.home().join("bin").join(name), &noting);
    }

    /// Writes a program that prints `text`.
    pub(super) fn says(&self, name: &str, text: &str) {
        self.program(name, &say(text));
    }

    /// Writes a program that waits for the file `bin/go` and then prints `text`.
    pub(super) fn says_late(&self, name: &str, text: &str) {
        self.program(
            name,
            &format!("until [ -e bin/go ]; do sleep 0.02; done\n{}", say(text)),
        );
    }

    pub(super) fn runs(&self, name: &str) -> usize {
        self.read(&format!("bin/{name}.runs")).lines().count()
    }

    pub(super) fn pass_s(&self, seconds: i64) {
        self.clock.set(self.clock.now().plus_ms(seconds * 1000));
    }

    /// Opens the home with the clock that stands still.
    pub(super) fn open(&self) -> Home {
        self.open_on(real_seams(&self.home()).unwrap().disk)
    }

    /// Opens the home on this disk.
    pub(super) fn open_on(&self, disk: Arc<dyn Disk>) -> Home {
        let seams = spoolgate_home::Seams {
            clock: self.clock.clone(),
            disk,
            ..real_seams(&self.home()).unwrap()
        };
        Home::open(&self.home(), seams).unwrap()
    }

    fn key(&self, source: &str) -> &SignKey {
        match source {
            "owner" => &self.chamber.scratch.owner,
            "trend-bot" => &self.chamber.scratch.bot,
            other => self.chamber.key(other),
        }
    }

    /// Returns a request that is signed now.
    pub(super) fn signed(
        &self,
        source: &str,
        id: &str,
        action: &str,
        payload: &str,
        causality: Option<&str>,
    ) -> Vec<u8> {
        let timestamp = self.clock.now();
        let mut envelope = Envelope {
            id: RequestId::parse(id).unwrap(),
            timestamp_text: timestamp.to_string(),
            timestamp,
            action: action.to_owned(),
            payload: payload.to_owned(),
            source: Principal::parse(source).unwrap(),
            signature: String::new(),
            causality: causality.map(str::to_owned),
        };
        envelope.signature = self.key(source).sign(&envelope.signing_string());
        envelope.to_json().into_bytes()
    }

    /// Signs a request and drops it under a name of its own.
    pub(super) fn send(
        &self,
        source: &str,
        id: &str,
        action: &str,
        payload: &str,
        causality: Option<&str>,
    ) {
        let bytes = self.signed(source, id, action, payload, causality);
        Sent::new(&format!("{id}.json"), bytes).drop_into(&self.home());
    }

    /// Sends a request to admit a task.
    pub(super) fn evaluate(&self, source: &str, id: &str, causality: &str) {
        self.send(source, id, "admission.evaluate", &body(causality), None);
    }

    /// Sends a request for one root, and runs until it is decided.
    pub(super) fn root(&self, home: &mut Home, id: &str) -> Decision {
        self.evaluate("research-bot", id, &root(id, "reader"));
        drain(home);
        self.decision(id)
    }

    pub(super) fn decisions_on(&self, id: &str) -> Vec<(u64, Decision)> {
        let mut found: Vec<_> = decisions(&self.home()).unwrap().into_iter().collect();
        found.retain(|(_, decision)| decision.request_id.as_deref() == Some(id));
        found
    }

    /// Returns the one decision on each request, with its line.
    #[track_caller]
    pub(super) fn decided(&self) -> BTreeMap<String, (u64, Decision)> {
        let mut found = BTreeMap::new();
        for (seq, decision) in decisions(&self.home()).unwrap() {
            let Some(id) = decision.request_id.clone() else {
                continue;
            };
            let before = found.insert(id, (seq, decision));
            assert!(before.is_none(), "two decisions: {before:?} and line {seq}");
        }
        found
    }

    /// Returns the one decision on a request.
    #[track_caller]
    pub(super) fn decision(&self, id: &str) -> Decision {
        self.line_of(id).1
    }

    #[track_caller]
    pub(super) fn line_of(&self, id: &str) -> (u64, Decision) {
        let mut found = self.decisions_on(id);
        assert_eq!(found.len(), 1, "decisions on {id}: {found:?}");
        found.remove(0)
    }

    /// Returns what commands answered, by line.
    pub(super) fn inputs(&self) -> Vec<(u64, AdmissionInput)> {
        let found = lines(&self.home()).unwrap().into_iter();
        found
            .filter_map(|(seq, kind, record)| match record {
                Some(Record::AdmissionInput(input)) => {
                    assert_eq!(kind, "input");
                    Some((seq, *input))
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the code in the answer under a request's id or its file's name.
    pub(super) fn answer_code(&self, id: &str) -> String {
        let paths = [
            format!("spool/out/{id}.json"),
            format!("spool/out/{id}.json.error.json"),
        ];
        let text = paths
            .iter()
            .map(|path| self.read(path))
            .find(|text| !text.is_empty())
            .unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["error"]["code"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Returns the claims in `spool/work`.
    pub(super) fn claims(&self) -> Vec<String> {
        names(&self.home().join("spool/work"))
            .into_iter()
            .map(|name| name.into_string().unwrap())
            .collect()
    }

    /// Checks that nothing is left over, that the ledger verifies and that the state follows from
    /// it.
    #[track_caller]
    pub(super) fn is_settled(&self) {
        assert_eq!(
            (self.claims(), names(&self.home().join("spool/in")).len()),
            (Vec::new(), 0)
        );
        succeed(&self.home(), &["audit", "verify"]);
        let seams = real_seams(&self.home()).unwrap();
        let seams = spoolgate_home::Seams {
            clock: self.clock.clone(),
            ..seams
        };
        let (_, same) = Home::rebuild(&self.home(), seams).unwrap();
        assert!(same, "the state made again from the ledger is another one");
    }
}

pub(super) fn say(text: &str) -> String {
    format!("cat <<'END'\n{text}\nEND")
}

/// Runs until nothing is left.
pub(super) fn drain(home: &mut Home) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    home.until_idle(false, &AtomicBool::new(false), &mut |decided| {
        outcomes.extend_from_slice(decided)
    })
    .unwrap();
    outcomes
}

/// Runs rounds without waiting for any command.
pub(super) fn rounds(home: &mut Home) -> Vec<Outcome> {
    place::drain(home).unwrap()
}

/// Returns causality of a root.
pub(super) fn root(tree: &str, capability: &str) -> String {
    format!(
        r#"{{"root_task_id":"tree-{tree}","parent_task_id":null,"spawn_depth":0,"capability_id":"{capability}"}}"#
    )
}

/// Returns causality of a child.
pub(super) fn child(tree: &str, parent: &str, capability: &str) -> String {
    format!(
        r#"{{"root_task_id":"tree-{tree}","parent_task_id":"{parent}","capability_id":"{capability}"}}"#
    )
}

/// Returns an InterroGate envelope.
pub(super) fn body(causality: &str) -> String {
    format!(
        r#"{{"envelope":{{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{{"what":"read"}},"causality":{causality}}}}}"#
    )
}

/// Returns ALLOW, or the reason of a DENY with its detail.
pub(super) fn said(decision: &Decision) -> String {
    let receipt = decision
        .receipt
        .as_ref()
        .unwrap_or_else(|| panic!("no receipt: {decision:?}"));
    match receipt.rejection_reason_code {
        None => "ALLOW".to_owned(),
        Some(reason) => {
            format!(
                "{}: {}",
                reason.name(),
                receipt.rejection_detail.as_deref().unwrap_or_default()
            )
        }
    }
}

/// Returns the answer to a query.
pub(super) fn data(decision: &Decision) -> Value {
    serde_json::from_str(decision.data.as_ref().unwrap().get()).unwrap()
}
