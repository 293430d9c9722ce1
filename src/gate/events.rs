//! Lines that are about no request, as they are written and written again: what happened is noticed by the host, what is
//! said of it and what it does to the state is decided here.

use super::dead_man;
use super::proposals::{Approved, Approver, Change as Step};
use super::record::Event;
use super::state::{Change, ClockFault, State};
use crate::rules::Rulebook;
use crate::trading::venue::paper;
use crate::wire::ids::{Principal, ProposalId};
use crate::wire::time::Time;

/// Most changes of a line that is about no request: many orders may end at once, and it has to fit.
pub const CHANGES_PER_LINE: usize = 100;
/// What a `tick` says that ends a day.
pub const NEW_DAY: &str = "a new day";
/// What a `tick` says that tells bridges what earlier lines left for later.
pub const OWED: &str = "what bridges were still to be told";
/// What a `dead_man` line says that closes a position.
pub const LIQUIDATED: &str = "nobody is there for this position: it is closed at the market";

fn event(timestamp: Time, note: String, changes: Vec<Change>) -> Event {
    Event { timestamp, note, changes }
}

/// Another version of the program goes on.
pub fn program_changed(before: &str, version: &str, now: Time) -> Event {
    let note = format!("spoolgate {version} goes on where {before} has written");
    event(now, note, vec![Change::ProgramChanged { version: version.to_owned() }])
}

/// A rulebook came into force. `applied` is the file that the gate changes itself, and what has it changed: a proposal, or
/// a person's request about the allowlist.
pub fn rulebook_loaded(hash: &str, applied: Option<(&str, &str)>, now: Time) -> Event {
    let by = applied.map(|(path, by)| format!(": `{path}` by {by}")).unwrap_or_default();
    let changes = vec![Change::RulebookLoaded { hash: hash.to_owned() }];
    event(now, format!("rulebook {hash} is in force{by}"), changes)
}

/// The rule files cannot be used.
pub fn rulebook_faulted(fault: &str, now: Time) -> Event {
    let note = "the rule files cannot be used: entries are refused, exits go on under the last good rulebook"
        .to_owned();
    event(now, note, vec![Change::RulebookFaulted { fault: fault.to_owned() }])
}

/// The halt file appeared or went.
pub fn halt_file(present: bool, now: Time) -> Event {
    let note = if present { "rules/HALT is there: no entries" } else { "rules/HALT is gone" };
    event(now, note.to_owned(), vec![Change::HaltFile { present }])
}

/// The machine's clock stepped away from the ledger's.
pub fn clock_step(last: Time, machine: Time) -> Event {
    let note =
        format!("the machine's clock stepped from {last} to {machine}: no entries until a person accepts it");
    let changes = vec![Change::ClockFaulted(ClockFault { from: last, to: machine })];
    event(last.max(machine), note, changes)
}

/// What a new day does, in parts of a line each. Of each part the outbox has its say when its line is written.
pub fn new_day(state: &State, rules: &Rulebook, now: Time) -> Vec<Vec<Change>> {
    let mut day = paper::end_day(&state.book, now);
    day.extend(paper::open_periods(&state.book, rules, now));
    let day: Vec<Change> = day.into_iter().map(Change::Book).collect();
    day.chunks(CHANGES_PER_LINE).map(<[Change]>::to_vec).collect()
}

/// What is said, and done in parts of a line each, if the dead man's switch trips for an agent.
pub fn trip(
    state: &State,
    rules: &Rulebook,
    agent: &Principal,
    unheard_ms: u64,
    now: Time,
) -> (String, Vec<Vec<Change>>) {
    let changes = dead_man::trip(state, rules, agent, unheard_ms, now);
    let note = format!("`{agent}` is not heard of: no entries of it until a heartbeat");
    (note, changes.chunks(CHANGES_PER_LINE).map(<[Change]>::to_vec).collect())
}

/// What a signature over a pending file makes of its proposal.
pub fn approved(id: ProposalId, approved: Approved, by: &Approver, now: Time) -> Event {
    let (step, note) = match approved {
        Approved::Applied(step) => (step, format!("{id} is applied: approved by {}", by.in_words())),
        Approved::Again(why, step) => (step, format!("{id} waits again: {}", why.message)),
    };
    event(now, note, vec![Change::Proposal(step)])
}

/// The rulebooks that the changes of a line make: proposal, its rule's file, what it holds then, and the hash.
pub fn applied(changes: &[Change]) -> impl Iterator<Item = (ProposalId, &str, Option<&str>, &str)> {
    changes.iter().filter_map(|change| match change {
        Change::Proposal(Step::Applied { proposed, rulebook, .. }) => {
            Some((proposed.proposal_id, proposed.path.as_str(), proposed.new.as_deref(), rulebook.as_str()))
        }
        _ => None,
    })
}
