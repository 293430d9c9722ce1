//! Lines that are not about a request, as they are written and as a replay writes them again. The
//! host notices what happened; its note and its effect on the state are decided here.

use super::dead_man;
use super::enforced::{Agreement, Unapproved};
use super::proposals::{Approved, Approver, Change as Step};
use super::record::Event;
use super::state::{Change, ClockFault, State};
use spoolgate_rules::Rulebook;
use spoolgate_trading::venue::paper;
use spoolgate_wire::ids::{Principal, ProposalId};
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::Time;

/// Maximum number of changes per line that is not about a request: many orders may end at once, and
/// the line has to fit.
pub const CHANGES_PER_LINE: usize = 100;
/// The note of a `tick` that ends a day.
pub const NEW_DAY: &str = "a new day";
/// The note of a `tick` that sends bridges the instructions that earlier lines postponed.
pub const OWED: &str = "the instructions that bridges had not received yet";
/// The note of a `dead_man` line that closes a position.
pub const LIQUIDATED: &str = "the dead man's switch closes this position at the market";

fn event(timestamp: Time, note: String, changes: Vec<Change>) -> Event {
    Event {
        timestamp,
        note,
        changes,
        cage: None,
    }
}

/// Another version of the program continues the log.
pub fn program_changed(before: &str, version: &str, semantics: u32, now: Time) -> Event {
    let note = format!("spoolgate {version} continues the log that {before} wrote");
    event(
        now,
        note,
        vec![Change::ProgramChanged {
            version: version.to_owned(),
            semantics,
        }],
    )
}

/// A rulebook came into force. `applied` names a file that the gate changed itself, and the cause:
/// a proposal, or a person's request about the allowlist.
pub fn rulebook_loaded(hash: &str, applied: Option<(&str, &str)>, now: Time) -> Event {
    let by = applied
        .map(|(path, by)| format!(": `{path}` by {by}"))
        .unwrap_or_default();
    let changes = vec![Change::RulebookLoaded {
        hash: hash.to_owned(),
        approved: None,
    }];
    event(now, format!("rulebook {hash} is in force{by}"), changes)
}

/// A rulebook came into force that people approved by a statement.
pub fn rulebook_approved(hash: &str, approved: &Agreement, now: Time) -> Event {
    let by: Vec<&str> = approved.by.keys().map(String::as_str).collect();
    let note = format!("rulebook {hash} is in force: approved by {}", by.join(", "));
    let changes = vec![Change::RulebookLoaded {
        hash: hash.to_owned(),
        approved: Some(Box::new(approved.clone())),
    }];
    event(now, note, changes)
}

/// A rulebook does not come into force because approvals of its change are missing.
pub fn rulebook_refused(refused: &Unapproved, now: Time) -> Event {
    let note = format!(
        "rulebook {} lacks approvals ({}): the one before it stays in force",
        refused.hash,
        refused.verdict.as_str()
    );
    let change = Change::RulebookRefused(Box::new(refused.clone()));
    event(now, note, vec![change])
}

/// The rule files cannot be used.
pub fn rulebook_faulted(fault: &str, now: Time) -> Event {
    let note = "the rule files cannot be used: entries are refused, exits are decided under the \
        last good rulebook"
        .to_owned();
    event(
        now,
        note,
        vec![Change::RulebookFaulted {
            fault: fault.to_owned(),
        }],
    )
}

/// The halt file appeared, disappeared, or demands otherwise than before that positions are closed.
pub fn halt_file(present: bool, flatten: bool, now: Time) -> Event {
    let note = match (present, flatten) {
        (true, false) => "rules/HALT exists: entries are refused",
        (true, true) => "rules/HALT demands it: entries are refused, and positions are closed",
        (false, _) => "rules/HALT was removed",
    };
    let change = Change::HaltFile { present, flatten };
    event(now, note.to_owned(), vec![change])
}

/// The machine's clock stepped away from the ledger's clock.
pub fn clock_step(last: Time, machine: Time) -> Event {
    let note = format!(
        "the machine's clock stepped from {last} to {machine}: entries are refused until a person \
            accepts the clock"
    );
    let changes = vec![Change::ClockFaulted(ClockFault {
        from: last,
        to: machine,
    })];
    event(last.max(machine), note, changes)
}

/// The changes of a new day, one part per line. The outbox adds to each part when its line is
/// written.
pub fn new_day(state: &State, rules: &Rulebook, now: Time) -> Vec<Vec<Change>> {
    let mut day = paper::end_day(&state.book, now);
    day.extend(paper::open_periods(&state.book, rules, now));
    let day: Vec<Change> = day.into_iter().map(Change::Book).collect();
    day.chunks(CHANGES_PER_LINE)
        .map(<[Change]>::to_vec)
        .collect()
}

/// The line that ends the overrides whose end has come; `None` if there are none.
pub fn overrides_end(state: &State, rules: &Rulebook, now: Time) -> Option<Event> {
    let over = state.overrides.iter().filter(|(_, set)| set.is_over(now));
    let names: Vec<LimitName> = over.map(|(name, _)| *name).collect();
    let told: Vec<String> = names
        .iter()
        .map(|name| {
            let value = rules.limits_of_file().limit(*name);
            let name = name.as_str();
            format!("the override of `{name}` ended: {value} of safety.yaml applies again")
        })
        .collect();
    let changes = names.into_iter();
    let changes: Vec<Change> = changes
        .map(|limit| Change::OverrideEnded { limit })
        .collect();
    (!changes.is_empty()).then(|| event(now, told.join("; "), changes))
}

/// The line of a dead man's switch that trips for an agent; `None` before its timeout.
pub fn trip(rules: &Rulebook, agent: &Principal, unheard_ms: u64, now: Time) -> Option<Event> {
    let tripped = dead_man::trip(rules, agent, unheard_ms, now)?;
    let note =
        format!("nothing is heard from `{agent}`: its entries are refused until a heartbeat");
    Some(event(now, note, vec![Change::DeadMan(tripped)]))
}

/// The line for a proposal whose pending file was approved by a signature.
pub fn approved(id: ProposalId, approved: Approved, by: &Approver, now: Time) -> Event {
    let (step, note) = match approved {
        Approved::Applied(step) => (
            step,
            format!("{id} was applied: approved by {}", by.in_words()),
        ),
        Approved::Again(why, step) => (
            step,
            format!(
                "{id} waits for approval again: \
            {}",
                why.message
            ),
        ),
    };
    event(now, note, vec![Change::Proposal(step)])
}

/// The rulebooks made by the changes of a line: the proposal, its rule's file, that file's content
/// afterwards, and the rulebook's hash.
pub fn applied(changes: &[Change]) -> impl Iterator<Item = (ProposalId, &str, Option<&str>, &str)> {
    changes.iter().filter_map(|change| match change {
        Change::Proposal(Step::Applied {
            proposed, rulebook, ..
        }) => Some((
            proposed.proposal_id,
            proposed.path.as_str(),
            proposed.new.as_deref(),
            rulebook.as_str(),
        )),
        _ => None,
    })
}
