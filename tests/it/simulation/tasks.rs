//! The invariants of task trees and control decisions right after every recovery.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use spoolgate_admission::receipt::Phase;
use spoolgate_gate::record::{Record, Status};
use spoolgate_home::Home;
use spoolgate_ledger::note::VerifierKey;
use spoolgate_ledger::{line, token};
use spoolgate_rules::admission::Policy;
use spoolgate_wire::control::{ControlFault, ControlResponse, ControlStatus};

use super::check::ensure;
use super::life::{Life, ORIGIN};

/// The policy of the simulated tasks.
const POLICY: &str = include_str!("../../../rules/admission/research/agents/default.yaml");

impl Life {
    /// Every admission has one receipt, no tree grows beyond its policy, and exactly the forwarded
    /// files exist and are genuine.
    pub(super) fn trees_stand(&self) -> Result<(), String> {
        let log_key = &self.log_key()?;
        let policy = Policy::read("rules/admission/research/agents/default.yaml", POLICY)
            .map_err(|error| error.to_string())?;
        let budget = policy
            .profile
            .recursion_budget
            .map_or(u64::MAX, |budget| budget.get());
        let mut tasks: BTreeMap<String, u64> = BTreeMap::new();
        let mut depths: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut forwarded: BTreeSet<PathBuf> = BTreeSet::new();
        for (seq, decision) in &self.reader.decisions {
            let Some(receipt) = &decision.receipt else {
                let asked = decision
                    .request_type
                    .as_deref()
                    .is_some_and(|kind| kind.starts_with("Admission"));
                let decided =
                    decision.status == Status::Success && decision.metadata.replay_of.is_none();
                ensure!(
                    !(asked && decided),
                    "line {seq} decides an admission without a receipt"
                );
                continue;
            };
            ensure!(
                receipt.receipt_id == format!("r-{seq}"),
                "line {seq} holds {}",
                receipt.receipt_id
            );
            if receipt.phase != Phase::Accepted || receipt.dry_run {
                ensure!(
                    decision.changes.is_empty(),
                    "line {seq} admits nothing and reserves something"
                );
                continue;
            }
            let (Some(root), Some(depth)) = (
                &receipt.root_task_id,
                receipt.effective_counters.spawn_depth,
            ) else {
                return Err(format!("line {seq} admits a task of no tree"));
            };
            let count = tasks.entry(root.clone()).or_default();
            *count += 1;
            ensure!(*count <= budget, "line {seq} is task {count} of {root}");
            ensure!(
                depth < u64::from(policy.profile.max_spawn_depth.get()),
                "line {seq} has depth {depth}"
            );
            let parents = match &receipt.parent_task_id {
                None => None,
                Some(parent) if parent == root => Some(0),
                Some(parent) => {
                    Some(*depths.get(&(root.clone(), parent.clone())).ok_or_else(|| {
                        format!("line {seq} is a child of `{parent}`, which nobody admitted")
                    })?)
                }
            };
            ensure!(
                depth == parents.map_or(0, |parent| parent + 1),
                "line {seq} has depth {depth}"
            );
            let task = (root.clone(), receipt.request_id.to_string());
            ensure!(
                depths.insert(task, depth).is_none(),
                "line {seq} admits a task for the second time"
            );
            let Some(place) = &receipt.forwarded_to else {
                continue;
            };
            let path = Path::new("spool").join(place);
            let bytes = self
                .disk
                .get(&path)
                .ok_or_else(|| format!("{place} of line {seq} is missing"))?;
            let genuine = token::verify_forwarded(&bytes, log_key, ORIGIN);
            let genuine = genuine.map_err(|error| format!("{place} of line {seq}: {error}"))?;
            ensure!(
                genuine.claim.receipt_id == receipt.receipt_id,
                "{place} is of another line"
            );
            forwarded.insert(path);
        }
        let mut stray = None;
        self.disk
            .each_in(Path::new("spool/forward/agents"), |name, _| {
                let path = Path::new("spool/forward/agents").join(name);
                if !name.starts_with('.') && !forwarded.contains(&path) {
                    stray = Some(path);
                }
            });
        ensure!(
            stray.is_none(),
            "{stray:?} was forwarded, and no line says so"
        );
        Ok(())
    }

    /// Returns the key in the ledger's first line.
    fn log_key(&self) -> Result<VerifierKey, String> {
        let log = self
            .disk
            .get(Path::new("audit/log-00000001.jsonl"))
            .ok_or("there is no log")?;
        let first = log.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line::parse(first).map_err(|error| error.to_string())?;
        match Record::parse(line.kind, &line.body()).map_err(|error| error.to_string())? {
            Some(Record::Genesis(genesis)) => {
                genesis.log_key.parse().map_err(|error| format!("{error}"))
            }
            other => Err(format!("the first line is {other:?}")),
        }
    }

    /// A decision_id has one outcome, and what runs is what the last applied decision says.
    pub(super) fn control_stands(&self, home: &Home) -> Result<(), String> {
        let mut outcomes: BTreeMap<String, String> = BTreeMap::new();
        let mut last = None;
        for (seq, decision) in &self.reader.decisions {
            if decision.request_type.as_deref() != Some("ControlDecision")
                || decision.metadata.replay_of.is_some()
            {
                continue;
            }
            // A stale request is not decided yet.
            let Some(text) = decision.data.as_ref().map(|raw| raw.get()) else {
                continue;
            };
            let said: ControlResponse =
                serde_json::from_str(text).map_err(|error| format!("line {seq}: {error}"))?;
            let Some(id) = said.decision_id.map(|id| id.to_string()) else {
                continue;
            };
            if said.dry_run == Some(true) || said.errors.contains(&ControlFault::DecisionIdConflict)
            {
                continue;
            }
            if let Some(first) = outcomes.get(&id) {
                ensure!(first == text, "line {seq} tells {id} otherwise than before");
                ensure!(
                    decision.changes.is_empty(),
                    "line {seq} carries {id} out for the second time"
                );
                continue;
            }
            outcomes.insert(id, text.to_owned());
            if said.status == ControlStatus::Applied {
                last = Some((seq, decision.changes.clone()));
            }
        }
        if let Some((seq, changes)) = last {
            let mut state = home.state().clone();
            for change in changes
                .iter()
                .filter(|change| format!("{change:?}").starts_with("Control"))
            {
                state.apply(change).map_err(|error| error.to_string())?;
            }
            ensure!(
                state.control == home.state().control,
                "what line {seq} decided is not what runs"
            );
        }
        Ok(())
    }
}
