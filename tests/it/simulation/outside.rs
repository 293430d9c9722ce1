//! Outgoing actions: an adapter that counts its runs and checks the medium before it acts. Then the
//! gate is killed at every step between the claim of such a request and its answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spoolgate_gate::gateway::{Ending, Ran};
use spoolgate_gate::prepare::Origin;
use spoolgate_gate::record::Status;
use spoolgate_home::Home;
use spoolgate_host::adapters::{Adapters, Task};
use spoolgate_rules::gateway::AdapterRule;
use spoolgate_wire::code::Code;

use super::check::ensure;
use super::disk::{Fault, SimDisk};
use super::life::Life;
use crate::kit::campaign;

pub(super) const PRINCIPAL: &str =
    "  - name: core\n    role: agent\n    actions: [email.send, health.fetch, service.api_call]\n";
pub(super) const SERVICES: &str = "services:
  - {service: mail, host: smtp.example.com, protocol: smtp, actions: [email.send, health.fetch], \
      added_at: 2026-01-01T00:00:00Z, added_by: owner, is_active: true}
  - {service: bank, host: api.bank.example, protocol: https, methods: [GET], added_at: \
      2026-01-01T00:00:00Z, added_by: owner, is_active: true}
";
/// One worker, so that actions end in a fixed order.
pub(super) const GATEWAY: &str = "workers: 1
anomalies: {burst_max: 100000}
rates: {per_hour: {email.send: 5}}
adapters:
  - {actions: [email.send, health.fetch, service.api_call], adapter: stub}
";

/// An adapter that counts its runs.
#[derive(Debug)]
pub(super) struct Outside {
    disk: Arc<SimDisk>,
    runs: Mutex<BTreeMap<String, u32>>,
    /// Actions that began before their line was durable.
    hasty: Mutex<Vec<String>>,
    waits: AtomicBool,
}

impl Outside {
    /// Starts without any run.
    pub(super) fn over(disk: Arc<SimDisk>) -> Outside {
        Outside {
            disk,
            runs: Mutex::default(),
            hasty: Mutex::default(),
            waits: AtomicBool::new(false),
        }
    }

    /// Sets whether running actions wait for ever.
    pub(super) fn keep_waiting(&self, waits: bool) {
        self.waits.store(waits, Ordering::SeqCst);
    }

    /// Whether running actions wait for ever.
    pub(super) fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// Returns how often this request was carried out.
    fn runs(&self, id: &str) -> u32 {
        self.runs.lock().unwrap().get(id).copied().unwrap_or(0)
    }

    /// Whether the request line, with a seal after it, would survive a power cut.
    fn is_durable(&self, id: &str) -> bool {
        let name = format!("\"request_id\":\"{id}\"");
        let segments = (1..).map(|n| PathBuf::from(format!("audit/log-{n:08}.jsonl")));
        let logs = segments.map_while(|path| self.disk.on_medium(&path));
        let mut is_there = false;
        for log in logs {
            for line in String::from_utf8_lossy(&log).lines() {
                if line.contains("\"kind\":\"request\"") && line.contains(&name) {
                    is_there = true;
                } else if is_there && line.contains("\"kind\":\"seal\"") {
                    return true;
                }
            }
        }
        false
    }
}

impl Adapters for Outside {
    fn execute(&self, _: &AdapterRule, task: &Task<'_>, stop: &AtomicBool) -> Ran {
        let id = task.request_id.to_string();
        if !self.is_durable(&id) {
            self.hasty.lock().unwrap().push(id.clone());
        }
        *self.runs.lock().unwrap().entry(id.clone()).or_default() += 1;
        while self.is_waiting() {
            if stop.load(Ordering::SeqCst) {
                return Ran {
                    cage: None,
                    ending: Ending::Lost,
                    note: "stopped".to_owned(),
                    output: None,
                    complaint: Vec::new(),
                };
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        let n = id.bytes().map(u64::from).sum::<u64>() % 7;
        let (ending, output) = match n {
            0 => (Ending::TimedOut, None),
            1 => (Ending::Answered, Some("garbage".to_owned())),
            2 => (
                Ending::Answered,
                Some(r#"{"success":false,"error":{"code":"NO","message":"not today"}}"#.to_owned()),
            ),
            3 => (
                Ending::Answered,
                Some(format!(
                    r#"{{"success":true,"data":"{}"}}"#,
                    "x".repeat(9000)
                )),
            ),
            _ => (
                Ending::Answered,
                Some(format!(r#"{{"success":true,"data":{{"id":"{id}"}}}}"#)),
            ),
        };
        Ran {
            cage: None,
            ending,
            note: "the double".to_owned(),
            output: output.map(String::into_bytes),
            complaint: Vec::new(),
        }
    }
}

impl Life {
    /// Whether this line began an action whose outcome is not known yet.
    pub(super) fn is_open(&self, line: u64) -> bool {
        let is_begun = |status| status == Status::Pending;
        self.reader
            .decisions
            .get(&line)
            .is_some_and(|decision| is_begun(decision.status))
            && !self.reader.responses.contains_key(&line)
    }

    /// (7) An action is done at most once, after its line, and an unknown outcome is never reported
    /// as done.
    pub(super) fn actions_stand(&self, home: &Home) -> Result<(), String> {
        let hasty = self.outside.hasty.lock().unwrap();
        ensure!(
            hasty.is_empty(),
            "{hasty:?} were done before their lines were durable"
        );
        let mut begun: BTreeMap<&str, u64> = BTreeMap::new();
        for (seq, decision) in &self.reader.decisions {
            if decision.status == Status::Pending {
                begun.insert(decision.request_id.as_deref().unwrap_or_default(), *seq);
            }
        }
        for (id, runs) in self.outside.runs.lock().unwrap().iter() {
            ensure!(*runs == 1, "{id} was done {runs} times");
            ensure!(
                begun.contains_key(id.as_str()),
                "{id} was done, and no line says so"
            );
        }
        for (id, line) in &begun {
            let Some((seq, response)) = self.reader.responses.get(line) else {
                continue;
            };
            let is_known = !matches!(
                response.metadata.code,
                Some(Code::UnknownOutcome | Code::AdapterNotRun)
            );
            let runs = self.outside.runs(id);
            ensure!(
                !is_known || runs == 1,
                "line {seq} says what came of {id}, which was done {runs} times"
            );
        }
        for line in home.state().actions.open.keys() {
            ensure!(self.is_open(line.0), "{line} is open, its line is not");
        }
        Ok(())
    }

    /// No action is open after a start and a batch.
    pub(super) fn actions_are_over(&self) -> Result<(), String> {
        let mut begun = self
            .reader
            .decisions
            .iter()
            .filter(|(_, decision)| decision.status == Status::Pending);
        match begun.find(|(line, _)| self.is_open(**line)) {
            Some((line, _)) => Err(format!("the action of line {line} is still open")),
            None => Ok(()),
        }
    }
}

/// Runs rounds until nothing is left; `None` if the process died, or left the rest because its disk
/// was full.
fn work(life: &Life) -> Option<()> {
    let mut home = life.open().ok()?;
    loop {
        let round = home.round(false).ok()?;
        home.until_actions_end();
        if home.is_disk_full() || !round.more && home.state().actions.open.is_empty() {
            break;
        }
    }
    let is_full = home.is_disk_full();
    home.finish("stopped").ok().filter(|()| !is_full)
}

/// What happens to a process at a call of the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Hurt {
    Killed,
    PowerCut,
    Fails,
}

/// At every call of the disk that the gate makes from its start until it stops in order, with
/// requests of an agent and of a command, and a copy of each.
#[test]
fn hurt_at_every_step() {
    let (mut unknown, mut known, mut steps) = (0, 0, 0);
    // By default one call in five, different calls for each kind of fault.
    let step = campaign(5, 1);
    for (hurt, first) in [(Hurt::Killed, 1), (Hurt::PowerCut, 2), (Hurt::Fails, 3)] {
        for at in (first.min(step as u64)..).step_by(step) {
            let mut life = Life::new(1000 + at % 2, None);
            work(&life).unwrap();
            let now = life.now();
            for (origin, id) in [(Origin::Flat, "r-agent"), (Origin::Local, "r-command")] {
                let bytes = life.agents.outgoing(id, now);
                life.agents.drop_file(
                    &life.disk,
                    origin,
                    &format!("{id}.json"),
                    bytes.clone(),
                    true,
                );
                life.agents.drop_file(
                    &life.disk,
                    Origin::Local,
                    &format!("{id}-copy.json"),
                    bytes,
                    true,
                );
            }
            match hurt {
                Hurt::Fails => life
                    .disk
                    .start_process(None, Some(Fault { at, count: 1 }), None),
                _ => life.disk.start_process(Some(at), None, None),
            }
            let lived = work(&life).is_some();
            let is_through = life.disk.calls() < at;
            if hurt == Hurt::PowerCut {
                life.power_cut();
            }
            life.end()
                .unwrap_or_else(|why| panic!("{hurt:?} at call {at}: {why}"));
            let what = format!("{hurt:?} at call {at}");
            for id in ["r-agent", "r-command"] {
                let ended: Vec<_> = life
                    .reader
                    .responses
                    .values()
                    .filter(|(_, response)| response.request_id == id)
                    .collect();
                // A file that cannot be read counts as the worst case, for example as a halt; one
                // that cannot be written may be refused for want of room.
                let mut lines = life.reader.decisions.values();
                let is_refused = lines.any(|line| {
                    let is_late = line.metadata.code == Some(Code::StorageLow);
                    line.request_id.as_deref() == Some(id)
                        && (line.status == Status::Rejected || is_late)
                });
                if ended.is_empty() && hurt == Hurt::Fails && is_refused {
                    assert_eq!(life.outside.runs(id), 0, "{what}: {id}");
                    continue;
                }
                assert_eq!(ended.len(), 1, "{what}: {id}");
                let (_, response) = ended[0];
                let runs = life.outside.runs(id);
                assert!(runs == 1 || !lived, "{what}: {id} was done {runs} times");
                match response.metadata.code {
                    Some(Code::UnknownOutcome) => unknown += 1,
                    _ => known += 1,
                }
            }
            steps += 1;
            if is_through {
                break;
            }
        }
    }
    assert!(
        unknown > campaign(15, 30) && known > 30 && steps > campaign(60, 100),
        "{unknown} unknown, {known} known, {steps} steps"
    );
    println!("{steps} steps, {unknown} outcomes unknown, {known} known");
}
