//! Turns votes into seats: each vote is read as the worst that it can mean, and all votes of a role
//! become one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::confidence::{self, Confidence};
use super::finding::{Evidence, Finding};
use super::signers::{Filed, Speaker};
use spoolgate_rules::roles::{RoleRule, Roles};
use spoolgate_wire::council::{Axis, ChangeType, ChecklistItem, RoleVerdict, Severity, Stance};
use spoolgate_wire::text;

/// Maximum length of a role's name that is shown, in characters.
const NAME_CHARS_MAX: usize = 64;

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedCheck {
    /// Its id, or its question if it has no id.
    pub check: String,
    /// The message about the failure.
    pub message: String,
    /// The axis on which it counts.
    pub axis: Axis,
    /// Its severity.
    pub severity: Severity,
    /// Whether the message may head the decision's text.
    pub headline: bool,
}

/// All votes of one role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seat {
    /// The role as the roster names it, or as it names itself.
    pub role: String,
    /// The worst of its votes.
    pub verdict: Stance,
    /// Whether evidence computed by the gate is among them.
    pub computed: bool,
    /// How many different votes were filed.
    pub votes: usize,
    /// Why votes count for less than they state.
    pub notes: Vec<String>,
    /// Its concerns.
    pub concerns: Vec<String>,
    /// The actions it requires.
    pub required_actions: Vec<String>,
    /// Checks that failed, computed ones first.
    pub failed_checks: Vec<FailedCheck>,
}

/// The seats of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seating {
    /// Seats of required roles that are filled, in roster order.
    pub seats: Vec<Seat>,
    /// Names of required roles without a vote, in roster order.
    pub empty: Vec<String>,
    /// Votes of all other roles, by folded name.
    pub foreign: Vec<Seat>,
    /// Who spoke for a role, by folded name.
    speakers: BTreeMap<String, BTreeSet<Speaker>>,
}

impl Seating {
    /// Returns the seat of a role in the roster.
    pub(crate) fn of(&self, role: &RoleRule) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.role == role.name)
    }

    /// Returns the seats that approve by filed verdicts alone, with all who spoke for each. Nobody
    /// signs what the gate computes.
    pub(crate) fn approving(&self, roles: &Roles) -> Vec<(&str, Vec<&Speaker>)> {
        let by_verdicts = |seat: &&Seat| seat.verdict == Stance::Approve && !seat.computed;
        let seats = self.seats.iter().filter(by_verdicts);
        seats
            .map(|Seat { role, .. }| {
                let speakers = self.speakers.get(&roles.key(role)).into_iter().flatten();
                (role.as_str(), speakers.collect())
            })
            .collect()
    }

    /// Returns the names of the seats with this verdict.
    pub(crate) fn names(&self, verdict: Stance) -> Vec<&str> {
        self.seats
            .iter()
            .filter(|seat| seat.verdict == verdict)
            .map(|seat| seat.role.as_str())
            .collect()
    }
}

/// Assigns every vote to a seat. Neither the order nor the number of equal votes matters.
pub(super) fn seat(
    change: ChangeType,
    votes: &[Filed],
    evidence: &[Evidence],
    roles: &Roles,
) -> Seating {
    let mut speakers: BTreeMap<String, BTreeSet<Speaker>> = BTreeMap::new();
    for Filed { verdict, by } in votes {
        let of_role = speakers.entry(roles.key(&verdict.role)).or_default();
        of_role.insert(by.clone());
    }
    let mut by_key: BTreeMap<String, Merger<'_>> = BTreeMap::new();
    for computed in in_canonical_order(evidence) {
        merger(&mut by_key, &computed.role, roles).compute(computed);
    }
    for vote in in_canonical_order(votes.iter().map(|filed| &filed.verdict)) {
        merger(&mut by_key, &vote.role, roles).file(vote);
    }
    let (mut seats, mut empty) = (Vec::new(), Vec::new());
    for role in roles.required(change) {
        match by_key.remove(&roles.key(&role.name)) {
            Some(merger) => seats.push(merger.finish()),
            None => empty.push(role.name.clone()),
        }
    }
    Seating {
        seats,
        empty,
        foreign: by_key.into_values().map(Merger::finish).collect(),
        speakers,
    }
}

/// Returns how one verdict counts on its own.
pub fn reading(change: ChangeType, vote: &RoleVerdict, roles: &Roles) -> Option<Seat> {
    let Seating { seats, foreign, .. } = seat(change, &Filed::apart([vote.clone()]), &[], roles);
    seats.into_iter().chain(foreign).next()
}

/// Returns each distinct value once, ordered by its bytes as JSON.
fn in_canonical_order<'a, T: Serialize + 'a>(
    values: impl IntoIterator<Item = &'a T>,
) -> impl Iterator<Item = &'a T> {
    // Values that were parsed from JSON, and strings and numbers, always serialise.
    let by_bytes: BTreeMap<Vec<u8>, &T> = values
        .into_iter()
        .map(|value| (serde_json::to_vec(value).unwrap_or_default(), value))
        .collect();
    by_bytes.into_values()
}

fn merger<'a, 'b>(
    by_key: &'b mut BTreeMap<String, Merger<'a>>,
    spelling: &str,
    roles: &'a Roles,
) -> &'b mut Merger<'a> {
    by_key
        .entry(roles.key(spelling))
        .or_insert_with(|| Merger::new(spelling, roles))
}

/// A seat under construction.
struct Merger<'a> {
    seat: Seat,
    role: Option<&'a RoleRule>,
    roles: &'a Roles,
    concerns: BTreeSet<String>,
    /// The actions that the gate's own rows require, each with the stance of these rows alone.
    computed_actions: Vec<(Stance, &'a [String])>,
    filed_actions: Vec<&'a [String]>,
    /// Positions of the failed checks. The axis is part of the key: a copy of a check on another
    /// axis must not replace the first.
    checks: BTreeMap<(String, Axis), usize>,
}

impl<'a> Merger<'a> {
    fn new(spelling: &str, roles: &'a Roles) -> Merger<'a> {
        let role = roles.resolve(spelling);
        let shown = text::clean(spelling, NAME_CHARS_MAX);
        let name = role
            .map(|role| role.name.clone())
            .or_else(|| Some(shown).filter(|shown| !shown.is_empty()));
        let seat = Seat {
            role: name.unwrap_or_else(|| "a role without a name".to_owned()),
            verdict: Stance::Approve,
            computed: false,
            votes: 0,
            notes: Vec::new(),
            concerns: Vec::new(),
            required_actions: Vec::new(),
            failed_checks: Vec::new(),
        };
        let (concerns, checks) = (BTreeSet::new(), BTreeMap::new());
        let (computed_actions, filed_actions) = (Vec::new(), Vec::new());
        Merger {
            seat,
            role,
            roles,
            concerns,
            computed_actions,
            filed_actions,
            checks,
        }
    }

    /// Adds the rows that the gate computed.
    fn compute(&mut self, evidence: &'a Evidence) {
        self.seat.computed = true;
        let failed = |least: Severity| {
            evidence
                .findings
                .iter()
                .any(|row| row.pass == Some(false) && row.severity >= least)
        };
        let mut stance = evidence.verdict;
        if failed(Severity::Blocker) {
            stance = Stance::Reject;
        }
        if failed(Severity::Major) {
            stance = stance.min(Stance::NeedsMoreInfo);
        }
        // Not only if there are no rows at all: otherwise adding a failed minor row, which has no
        // effect by itself, would turn the result into an approval.
        if !evidence.findings.iter().any(|row| row.pass == Some(true)) {
            stance = stance.min(Stance::NeedsMoreInfo);
            self.weaken(
                Some(evidence.verdict),
                "approves and no computed check passed".to_owned(),
            );
        }
        self.lower(stance);
        for row in evidence
            .findings
            .iter()
            .filter(|row| row.pass == Some(false))
        {
            let check = self.computed_check(row);
            self.fail(&row.check_id, &row.question, check);
        }
        self.computed_actions
            .push((stance, &evidence.required_actions));
    }

    /// Adds a filed vote.
    fn file(&mut self, vote: &'a RoleVerdict) {
        self.seat.votes += 1;
        let stance = Stance::parse(&vote.verdict);
        if stance.is_none() {
            let word = text::clean(&vote.verdict, NAME_CHARS_MAX);
            self.note(format!(
                "`{word}` is not a verdict: it counts as NEEDS_MORE_INFO"
            ));
        }
        self.lower(stance.unwrap_or(Stance::NeedsMoreInfo));
        let floor = self.roles.confidence_floor(self.role);
        match confidence::read(vote.confidence_score.as_ref(), floor) {
            Confidence::Enough => {}
            Confidence::Absent => self.weaken(stance, "approves without a confidence".to_owned()),
            Confidence::Invalid => self.weaken(
                stance,
                "approves with a confidence that is not from 0 to 1".to_owned(),
            ),
            Confidence::Low => {
                self.weaken(stance, format!("approves with a confidence below {floor}"))
            }
        }
        let says = |text: &String| !self.roles.placeholders.stand_for_nothing(text);
        let rows = &vote.checklist_results;
        if !rows
            .iter()
            .any(|row| row.pass == Some(true) && says(&row.question) && says(&row.answer))
        {
            let why = "approves and no row of its checklist is answered and passed";
            self.weaken(stance, why.to_owned());
        }
        if rows
            .iter()
            .any(|row| row.pass.is_none() && !says(&row.answer))
        {
            let why = "approves and leaves a row of its checklist open without a reason";
            self.weaken(stance, why.to_owned());
        }
        for item in vote
            .checklist_results
            .iter()
            .filter(|item| item.pass == Some(false))
        {
            self.weaken(
                stance,
                "approves against a failed check of its own".to_owned(),
            );
            // A role outside the roster has no axis of its own, so its checks count on none.
            if let Some(role) = self.role {
                let check = self.filed_check(item, role);
                self.fail(
                    item.check_id.as_deref().unwrap_or_default(),
                    &item.question,
                    check,
                );
            }
        }
        for concern in &vote.concerns {
            let concern = self.clean(concern);
            if !concern.is_empty() && self.concerns.insert(text::fold(&concern)) {
                self.seat.concerns.push(concern);
            }
        }
        self.filed_actions.push(&vote.required_actions);
    }

    /// Builds the seat. If a filed vote is worse than the gate's own result, the actions that the
    /// gate requires are left out, because they are not what blocks the case.
    fn finish(mut self) -> Seat {
        let verdict = self.seat.verdict;
        let computed = self
            .computed_actions
            .iter()
            .filter(|(stance, _)| *stance == verdict);
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut wanted: Vec<String> = Vec::new();
        for action in computed
            .map(|(_, actions)| *actions)
            .chain(self.filed_actions.iter().copied())
            .flatten()
        {
            let action = self.clean(action);
            if !action.is_empty() && seen.insert(text::fold(&action)) {
                wanted.push(action);
            }
        }
        self.seat.required_actions = wanted;
        self.seat
    }

    fn lower(&mut self, stance: Stance) {
        self.seat.verdict = self.seat.verdict.min(stance);
    }

    /// Turns an approval into NEEDS_MORE_INFO.
    fn weaken(&mut self, stance: Option<Stance>, why: String) {
        if stance == Some(Stance::Approve) {
            self.lower(Stance::NeedsMoreInfo);
            self.note(format!("{why}: it counts as NEEDS_MORE_INFO"));
        }
    }

    fn note(&mut self, note: String) {
        if !self.seat.notes.contains(&note) {
            self.seat.notes.push(note);
        }
    }

    fn computed_check(&self, row: &Finding) -> FailedCheck {
        FailedCheck {
            check: self.clean(&row.check_id),
            message: self.clean(row.message.as_deref().unwrap_or(&row.question)),
            axis: row.axis,
            severity: row.severity,
            headline: row.headline,
        }
    }

    /// The gate chooses axis, severity and headline: a voter who files a check must not choose what
    /// it costs.
    fn filed_check(&self, item: &ChecklistItem, role: &RoleRule) -> FailedCheck {
        FailedCheck {
            check: self.clean(item.check_id.as_deref().unwrap_or(&item.question)),
            message: self.clean(&item.question),
            axis: role.fail_axis(),
            severity: Severity::Major,
            headline: false,
        }
    }

    /// Adds a failed check; of two equal checks on one axis, the worse severity counts, with the
    /// text of the first.
    fn fail(&mut self, check_id: &str, question: &str, failed: FailedCheck) {
        let id = Some(text::fold(check_id)).filter(|id| !id.is_empty());
        let key = (id.unwrap_or_else(|| text::fold(question)), failed.axis);
        let known = self
            .checks
            .get(&key)
            .and_then(|place| self.seat.failed_checks.get_mut(*place));
        if let Some(known) = known {
            known.severity = known.severity.max(failed.severity);
            known.headline |= failed.headline;
            return;
        }
        self.checks.insert(key, self.seat.failed_checks.len());
        self.seat.failed_checks.push(failed);
    }

    fn clean(&self, text: &str) -> String {
        text::clean(text, usize::from(*self.roles.text.chars_max))
    }
}
