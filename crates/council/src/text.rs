//! The decision's text, built from templates: the same case gives the same words. Text from a vote
//! never takes the place of the council's own words; it is only quoted in lists, and cleaned.

use std::collections::BTreeSet;

use super::aggregate::{Rule, RuleResult};
use super::complete::{self, Missing};
use super::seats::{Seat, Seating};
use spoolgate_rules::roles::Roles;
use spoolgate_wire::council::{Axis, AxisScores, ChangeType, Severity, Stance, Tenths};
use spoolgate_wire::text::fold;

/// The inputs of the text.
pub(super) struct Case<'a> {
    pub change: ChangeType,
    pub outcome: Stance,
    pub scores: &'a AxisScores,
    pub rules: &'a [RuleResult],
    pub seating: &'a Seating,
    pub missing: &'a Missing,
    pub roles: &'a Roles,
}

/// Formats a score from the rules for a message.
pub(super) fn tenths(tenths: u8) -> Tenths {
    Tenths::new(tenths)
}

/// Returns one sentence for each missing item.
pub(super) fn missing_lines(missing: &Missing) -> Vec<String> {
    named(missing, |kind, name| {
        if missing.malformed.iter().any(|known| known == name) {
            return format!("The {kind} {name} {}.", complete::formless(name));
        }
        format!("The {kind} {name} is missing.")
    })
}

fn named(missing: &Missing, line: impl Fn(&str, &str) -> String) -> Vec<String> {
    let Missing {
        roles,
        artifacts,
        metrics,
        malformed: _,
    } = missing;
    let kinds = [
        ("verdict of the", roles),
        ("artifact", artifacts),
        ("metric", metrics),
    ];
    kinds
        .iter()
        .flat_map(|(kind, names)| names.iter().map(|name| line(kind, name)))
        .collect()
}

/// Formats a list: `a`, `a and b`, `a, b and c`.
pub(super) fn listed(names: &[&str]) -> String {
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

fn noun(axis: Axis) -> &'static str {
    match axis {
        Axis::Assumptions => "assumption",
        Axis::Applicability => "applicability",
        Axis::CodeCorrectness => "code correctness",
        Axis::RealisticNewness => "realism",
        Axis::Overfitting => "overfitting",
        Axis::Implications => "implication",
    }
}

/// Removes lines that repeat an earlier one.
fn each_once(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    lines
        .into_iter()
        .filter(|line| seen.insert(fold(line)))
        .collect()
}

impl Case<'_> {
    /// Returns a few sentences: the outcome, the lowest axis and the roles that flagged it, what is
    /// missing, and the headline finding.
    pub(crate) fn summary(&self) -> String {
        let mut sentences = vec![self.outcome_sentence().to_owned()];
        let (axis, score) = self.lowest();
        if self.outcome == Stance::Approve {
            let seats = self.seating.seats.len();
            let (number, noun) = (axis.number(), axis.as_str());
            let who = if seats == 1 {
                "The required role approves".to_owned()
            } else {
                format!("All {seats} required roles approve")
            };
            sentences.push(format!(
                "{who}; the lowest axis is {noun} (Axis {number} score: {score})."
            ));
        } else {
            sentences.push(self.lowest_axis_sentence(axis, score));
        }
        if self.outcome == Stance::NeedsMoreInfo {
            let missing = named(self.missing, |kind, name| format!("the {kind} {name}"));
            if !missing.is_empty() {
                sentences.push(format!("Missing: {}.", missing.join(", ")));
            }
            let unsure = self.seating.names(Stance::NeedsMoreInfo);
            if !unsure.is_empty() {
                sentences.push(format!("Open questions: {}.", unsure.join(", ")));
            }
        }
        sentences.extend(self.headline());
        sentences.join(" ")
    }

    fn outcome_sentence(&self) -> &'static str {
        match self.outcome {
            Stance::Reject => "The council REJECTS this proposal.",
            Stance::NeedsMoreInfo => "The council NEEDS MORE INFORMATION on this proposal.",
            Stance::Approve => "The council APPROVES this proposal.",
        }
    }

    /// Returns the covered axis with the lowest score; the first one if several are equal.
    fn lowest(&self) -> (Axis, Tenths) {
        let covered = Axis::ALL
            .into_iter()
            .filter(|axis| self.roles.covers(self.change, *axis));
        let scored = covered.map(|axis| (axis, self.scores.get(axis)));
        scored
            .min_by_key(|(axis, score)| (*score, axis.number()))
            .unwrap_or((Axis::Assumptions, self.scores.assumptions))
    }

    fn lowest_axis_sentence(&self, axis: Axis, score: Tenths) -> String {
        let (noun, number, size) = (noun(axis), axis.number(), self.size(score));
        let sound = self.sound(axis);
        let the = if sound.is_empty() {
            "The".to_owned()
        } else {
            format!("While the code is {sound}, the")
        };
        let flagged = self.roles_that(|seat, primary, _| {
            let rejects = seat.verdict == Stance::Reject && primary == axis;
            rejects || seat.failed_checks.iter().any(|check| check.axis == axis)
        });
        if !flagged.is_empty() {
            return format!(
                "{the} {} flagged {size} {noun} risks (Axis {number} score: {score}).",
                listed(&flagged)
            );
        }
        let doubting = self.roles_that(|seat, primary, concern| {
            let unsure = seat.verdict == Stance::NeedsMoreInfo && primary == axis;
            unsure || (concern == axis && !seat.concerns.is_empty())
        });
        if !doubting.is_empty() {
            let who = listed(&doubting);
            return format!(
                "{the} {who} left {size} {noun} risks open (Axis {number} score: {score})."
            );
        }
        format!(
            "{the} lowest axis is {} (Axis {number} score: {score}).",
            axis.as_str()
        )
    }

    /// Names the axes that are good enough to mention first, except the axis that the sentence is
    /// about. A sentence about the code itself mentions none.
    fn sound(&self, about: Axis) -> String {
        if about == Axis::CodeCorrectness {
            return String::new();
        }
        let words = [
            (Axis::CodeCorrectness, "correct"),
            (Axis::Applicability, "applicable"),
        ];
        let sound = words.iter().filter(|(axis, _)| {
            *axis != about && self.scores.get(*axis).tenths() >= *self.roles.text.sound_from
        });
        listed(&sound.map(|(_, word)| *word).collect::<Vec<_>>())
    }

    fn size(&self, score: Tenths) -> &'static str {
        let rules = self.roles.text;
        match score.tenths() {
            low if low < *rules.significant_below => "significant",
            low if low < *rules.material_below => "material",
            _ => "minor",
        }
    }

    /// Returns the roles whose seats satisfy a condition on their first primary axis and their
    /// concern axis.
    fn roles_that(&self, holds: impl Fn(&Seat, Axis, Axis) -> bool) -> Vec<&str> {
        let roles = self.roles.required(self.change).filter(|role| {
            let seat = self.seating.of(role);
            seat.is_some_and(|seat| holds(seat, role.fail_axis(), role.concern_axis))
        });
        roles.map(|role| role.name.as_str()).collect()
    }

    /// Returns the message of the first failed check that may head the text.
    fn headline(&self) -> Option<String> {
        let checks = self
            .seating
            .seats
            .iter()
            .flat_map(|seat| &seat.failed_checks);
        let mut heads = checks.filter(|check| check.headline && !check.message.is_empty());
        heads.next().map(|check| check.message.clone())
    }

    /// Returns what blocks the case; empty for an approval.
    pub(crate) fn blocking_issues(&self) -> Vec<String> {
        if self.outcome == Stance::Approve {
            return Vec::new();
        }
        let mut issues = Vec::new();
        for seat in self
            .seating
            .seats
            .iter()
            .filter(|seat| seat.verdict == Stance::Reject)
        {
            issues.extend(
                seat.concerns
                    .iter()
                    .map(|concern| detected_by(concern, &seat.role)),
            );
            let blockers = seat
                .failed_checks
                .iter()
                .filter(|check| check.severity == Severity::Blocker);
            issues.extend(
                blockers
                    .filter(|check| !check.headline)
                    .map(|check| check.message.clone()),
            );
        }
        if self.outcome == Stance::NeedsMoreInfo {
            issues.extend(missing_lines(self.missing));
            let of_signers =
                |rule: &&RuleResult| matches!(rule.rule, Rule::DistinctSigners | Rule::Panel);
            let of_signers = self.rules.iter().filter(of_signers);
            issues.extend(of_signers.flat_map(|rule| rule.why.clone()));
            let unsure = self
                .seating
                .seats
                .iter()
                .filter(|seat| seat.verdict == Stance::NeedsMoreInfo);
            issues.extend(unsure.flat_map(open_questions));
        }
        issues.retain(|issue| !issue.is_empty());
        if issues.is_empty() {
            let deciding = self.rules.iter().filter(|rule| rule.result == self.outcome);
            issues.extend(deciding.flat_map(|rule| rule.why.clone()));
        }
        each_once(issues)
    }

    /// Returns the actions that the deciding roles require, then what must be supplied.
    pub(crate) fn next_steps(&self) -> Vec<String> {
        let seats = &self.seating.seats;
        let anyone = self.outcome == Stance::Approve
            || !seats.iter().any(|seat| seat.verdict == self.outcome);
        let deciding = seats
            .iter()
            .filter(|seat| anyone || seat.verdict == self.outcome);
        let actions = deciding.flat_map(|seat| seat.required_actions.iter().cloned());
        let supplies = named(self.missing, |kind, name| {
            let verb = if kind.starts_with("verdict") {
                "Obtain"
            } else {
                "Supply"
            };
            format!("{verb} the {kind} {name}.")
        });
        each_once(actions.chain(supplies))
    }
}

/// Appends the role to its concern, unless the concern names the role itself.
fn detected_by(concern: &str, role: &str) -> String {
    if fold(concern).contains(&fold(role)) {
        return concern.to_owned();
    }
    let words = concern.trim_end_matches(['.', '!', '?', ';', ',', ':', ' ']);
    let words = if words.is_empty() { concern } else { words };
    format!("{words} detected by {role}.")
}

/// Returns the open questions of a seat that needs more information.
fn open_questions(seat: &Seat) -> Vec<String> {
    let role = &seat.role;
    let failed = seat.failed_checks.iter().map(|check| &check.message);
    let open: Vec<String> = seat
        .concerns
        .iter()
        .chain(failed)
        .chain(&seat.notes)
        .filter(|text| !text.is_empty())
        .map(|text| format!("{role}: {text}"))
        .collect();
    if open.is_empty() {
        vec![format!("{role} needs more information.")]
    } else {
        open
    }
}
