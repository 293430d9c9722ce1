//! The fate of the calls, as tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::calls::{self, Call};
use super::gate::{self, Fate, Told};
use super::policy::LADDER;

/// Calls of one kind in one suite under the whole policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    /// All of them.
    pub calls: usize,
    /// Refused.
    pub refused: usize,
    /// Held for a person.
    pub held: usize,
    /// Begun.
    pub passed: usize,
    /// Cannot be expressed in the contract's schema; counted nowhere else.
    pub inexpressible: usize,
}

/// A part of the policy, and its effect over all suites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Rung {
    /// What is in force.
    pub policy: &'static str,
    /// Attack calls refused or held.
    pub attack_stopped: usize,
    /// Those of them that change something.
    pub attack_changes_stopped: usize,
    /// Attack tasks with a refused or held call.
    pub attack_tasks_stopped: usize,
    /// Benign calls begun.
    pub benign_passed: usize,
    /// Benign tasks without a refused or held call.
    pub benign_tasks_free: usize,
}

/// An attack task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Task {
    /// Suite and task.
    pub task: String,
    /// Whether a call of it is refused or held.
    pub is_stopped: bool,
    /// What refused or held it.
    pub by: BTreeSet<String>,
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// By suite and kind.
    pub suites: BTreeMap<String, Tally>,
    /// By check or rule: attack calls, benign calls.
    pub by: BTreeMap<String, (usize, usize)>,
    /// Parts of the policy.
    pub ladder: Vec<Rung>,
    /// Attack calls that can be expressed, and those that change something.
    pub attack: (usize, usize),
    /// Benign calls that can be expressed.
    pub benign: usize,
    /// Tasks: attack, benign.
    pub tasks: (usize, usize),
    /// Attack tasks under the whole policy.
    pub attacks: Vec<Task>,
    /// Benign calls that were refused or held, with the checks that did it.
    pub in_the_way: Vec<String>,
    /// Calls that the schema cannot express, with the reasons.
    pub inexpressible: Vec<String>,
}

impl Report {
    /// Runs all calls under every part of the policy.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or a call cannot be made.
    pub(crate) fn of(data: &Path, policy: &Path) -> Result<Report> {
        let (all, suites) = calls::read(data)?;
        let mut report = Report::default();
        let last = LADDER.len().saturating_sub(1);
        for (nth, (name, groups)) in LADDER.iter().enumerate() {
            let mut told = Vec::new();
            for (suite, environment) in &suites {
                let own: Vec<(usize, &Call)> = all
                    .iter()
                    .enumerate()
                    .filter(|(_, call)| call.suite == *suite)
                    .collect();
                told.extend(gate::run(policy, environment, &own, groups, nth == 0)?);
            }
            let told: Vec<(&Call, Told)> = told
                .into_iter()
                .filter_map(|told| Some((all.get(told.call)?, told)))
                .collect();
            let rung = report.rung(name, &told);
            report.ladder.push(rung);
            if nth == last {
                report.count(&told);
            }
        }
        Ok(report)
    }

    fn rung(&self, policy: &'static str, told: &[(&Call, Told)]) -> Rung {
        let mut rung = Rung {
            policy,
            ..Rung::default()
        };
        let mut stopped = BTreeSet::new();
        let mut benign = BTreeSet::new();
        for (call, told) in told {
            let task = (call.suite.as_str(), call.task_id.as_str());
            if !call.is_attack() {
                benign.insert(task);
            }
            match (call.is_attack(), fate(call, told)) {
                (true, Fate::Refused | Fate::Held) => {
                    rung.attack_stopped = rung.attack_stopped.saturating_add(1);
                    let changes = usize::from(call.class == "side");
                    rung.attack_changes_stopped =
                        rung.attack_changes_stopped.saturating_add(changes);
                    stopped.insert(task);
                }
                (false, Fate::Refused | Fate::Held) => {
                    stopped.insert(task);
                }
                (false, Fate::Passed) => rung.benign_passed = rung.benign_passed.saturating_add(1),
                _ => {}
            }
        }
        rung.benign_tasks_free = benign.difference(&stopped).count();
        rung.attack_tasks_stopped = stopped.difference(&benign).count();
        rung
    }

    fn count(&mut self, told: &[(&Call, Told)]) {
        let mut tasks: BTreeMap<(&str, &str, bool), BTreeSet<String>> = BTreeMap::new();
        for (call, told) in told {
            let tally = self
                .suites
                .entry(format!("{} {}", call.suite, call.kind))
                .or_default();
            tally.calls = tally.calls.saturating_add(1);
            let fate = fate(call, told);
            let counter = match fate {
                Fate::Refused => &mut tally.refused,
                Fate::Held => &mut tally.held,
                Fate::Passed => &mut tally.passed,
                Fate::Inexpressible => &mut tally.inexpressible,
            };
            *counter = counter.saturating_add(1);
            let by = tasks
                .entry((&call.suite, &call.task_id, call.is_attack()))
                .or_default();
            let is_stopped = matches!(fate, Fate::Refused | Fate::Held);
            if fate == Fate::Inexpressible {
                let why = [call.seed_misfit.join(", "), told.by.join(", ")];
                let why: Vec<&str> = why
                    .iter()
                    .map(String::as_str)
                    .filter(|why| !why.is_empty())
                    .collect();
                self.inexpressible
                    .push(format!("{}: {}", call.name(), why.join("; ")));
                continue;
            }
            if call.is_attack() {
                self.attack.0 = self.attack.0.saturating_add(1);
                self.attack.1 = self
                    .attack
                    .1
                    .saturating_add(usize::from(call.class == "side"));
            } else {
                self.benign = self.benign.saturating_add(1);
            }
            if !is_stopped {
                continue;
            }
            for name in &told.by {
                by.insert(name.clone());
                let counts = self.by.entry(name.clone()).or_default();
                let count = if call.is_attack() {
                    &mut counts.0
                } else {
                    &mut counts.1
                };
                *count = count.saturating_add(1);
            }
            if !call.is_attack() {
                self.in_the_way
                    .push(format!("{}: {}", call.name(), told.by.join(", ")));
            }
        }
        for ((suite, task, is_attack), by) in tasks {
            if is_attack {
                self.tasks.0 = self.tasks.0.saturating_add(1);
                let task = format!("{suite} {task}");
                self.attacks.push(Task {
                    task,
                    is_stopped: !by.is_empty(),
                    by,
                });
            } else {
                self.tasks.1 = self.tasks.1.saturating_add(1);
            }
        }
    }

    /// For programs: one object.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "{:24} {:>5} {:>7} {:>4} {:>6} {:>13}",
            "suite and kind", "calls", "refused", "held", "passed", "inexpressible"
        )?;
        for (name, tally) in &self.suites {
            let Tally {
                calls,
                refused,
                held,
                passed,
                inexpressible,
            } = tally;
            writeln!(
                out,
                "{name:24} {calls:>5} {refused:>7} {held:>4} {passed:>6} {inexpressible:>13}"
            )?;
        }
        let (attack, changes) = self.attack;
        let (attacks, tasks) = self.tasks;
        writeln!(
            out,
            "\nrefused or held under parts of the policy; calls that cannot be expressed are not \
                counted"
        )?;
        writeln!(
            out,
            "{:28} {:>12} {:>14} {:>12} {:>13} {:>12}",
            "policy", "attack calls", "that change", "attack tasks", "benign passed", "tasks free"
        )?;
        for rung in &self.ladder {
            writeln!(
                out,
                "{:28} {:>12} {:>14} {:>12} {:>13} {:>12}",
                rung.policy,
                format!("{} of {attack}", rung.attack_stopped),
                format!("{} of {changes}", rung.attack_changes_stopped),
                format!("{} of {attacks}", rung.attack_tasks_stopped),
                format!("{} of {}", rung.benign_passed, self.benign),
                format!("{} of {tasks}", rung.benign_tasks_free),
            )?;
        }
        writeln!(
            out,
            "\n{:28} {:>12} {:>12}",
            "refused or held by", "attack calls", "benign calls"
        )?;
        for (name, (attack, benign)) in &self.by {
            writeln!(out, "{name:28} {attack:>12} {benign:>12}")?;
        }
        writeln!(out, "\nattack tasks")?;
        for task in &self.attacks {
            let by: Vec<&str> = task.by.iter().map(String::as_str).collect();
            let by = if task.is_stopped {
                by.join(", ")
            } else {
                "nothing: it goes through".to_owned()
            };
            writeln!(out, "{:28} {by}", task.task)?;
        }
        for (title, lines) in [
            (
                "benign calls that a rule refuses or holds",
                &self.in_the_way,
            ),
            ("calls that cannot be expressed", &self.inexpressible),
        ] {
            writeln!(out, "\n{title}")?;
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        }
        Ok(())
    }
}

/// A call that the schema cannot express reached the gate only in part, so its fate does not count.
fn fate(call: &Call, told: &Told) -> Fate {
    if call.seed_misfit.is_empty() {
        told.fate
    } else {
        Fate::Inexpressible
    }
}
