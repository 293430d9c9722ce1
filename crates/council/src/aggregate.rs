//! Computes one decision from votes and evidence: a pure function of what was filed, whatever the
//! order.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::complete::{self, Missing};
use super::finding::Evidence;
use super::seats::{self, Seat, Seating};
use super::signers::{self, Filed};
use super::{axes, text};
use spoolgate_rules::roles::Roles;
use spoolgate_wire::council::{Axis, AxisScores, CouncilDecision, CouncilRequest, Stance};

spoolgate_wire::named! {
    /// The rules whose results make the decision.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Rule {
        /// Whether a role with a veto rejects.
        Veto = "veto",
        /// How many seats reject.
        Seats = "seats",
        /// Whether everything required is present.
        Completeness = "completeness",
        /// Whether a seat needs more information.
        OpenQuestions = "open_questions",
        /// Whether a role without a seat does not approve.
        ForeignObjection = "foreign_objection",
        /// Whether every seat that approves has a signer of its own.
        DistinctSigners = "distinct_signers",
        /// Whether the signers are of as many families as the change demands.
        Panel = "panel",
        /// Whether a covered axis is too low.
        AxisFloor = "axis_floor",
        /// What an earlier decision of the case allows, if there is one.
        EarlierDecision = "earlier_decision",
    }
}

/// The result of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleResult {
    /// The rule.
    pub rule: Rule,
    /// The best outcome that it allows.
    pub result: Stance,
    /// Why it is not better; empty for APPROVE.
    pub why: Vec<String>,
}

/// A seat whose verdict differs from the outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dissent {
    /// The role.
    pub role: String,
    /// Its verdict.
    pub verdict: Stance,
}

/// How a decision came about, as recorded with it in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliberation {
    /// Every rule; the outcome is the worst of their results.
    pub rules: Vec<RuleResult>,
    /// The required roles that answered, in roster order.
    pub seats: Vec<Seat>,
    /// The other roles that answered.
    pub foreign: Vec<Seat>,
    /// Seats whose verdict is not the outcome.
    pub dissent: Vec<Dissent>,
    /// What was missing.
    pub missing: Missing,
    /// Axes that no required role covers; their scores are caps, not judgements.
    pub not_assessed: Vec<Axis>,
}

/// A decision and how it came about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ruling {
    /// The published decision.
    pub decision: CouncilDecision,
    /// How it came about.
    pub deliberation: Deliberation,
}

/// Decides a case.
///
/// `votes` are the votes over the bytes of this request whose signers may speak for the role, in
/// any order. A vote of a role that this change does not require counts as foreign: its objection
/// keeps the question open, its approval has no effect. `evidence` is what the gate computed for
/// roles that the change requires; evidence of any other role would also count as foreign. `earlier`
/// is the outcome of an earlier decision of the case: an objection never raises it.
pub fn decide(
    request: &CouncilRequest,
    votes: &[Filed],
    evidence: &[Evidence],
    roles: &Roles,
    earlier: Option<Stance>,
) -> Ruling {
    let change = request.change_type;
    let seating = seats::seat(change, votes, evidence, roles);
    let missing = complete::missing(request, &seating.empty, roles);
    let axis_scores = axes::scores(change, &seating, roles);
    let mut rules = vec![
        veto(request, &seating, roles),
        rejections(&seating),
        completeness(&missing),
        open_questions(&seating),
        foreign_objection(&seating),
        distinct_signers(request, &seating, roles),
        panel(request, &seating, roles),
        axis_floor(request, &axis_scores, roles),
    ];
    rules.extend(earlier.map(|earlier| {
        let why = format!("An earlier decision of this case is {}.", earlier.as_str());
        let is_lower = earlier != Stance::Approve;
        unless(
            Rule::EarlierDecision,
            earlier,
            is_lower.then_some(why).into_iter().collect(),
        )
    }));
    let final_outcome = rules
        .iter()
        .map(|rule| rule.result)
        .fold(Stance::Approve, Stance::min);
    let not_assessed = Axis::ALL
        .into_iter()
        .filter(|axis| !roles.covers(change, *axis))
        .collect();
    let case = text::Case {
        change,
        outcome: final_outcome,
        scores: &axis_scores,
        rules: &rules,
        seating: &seating,
        missing: &missing,
        roles,
    };
    let decision = CouncilDecision {
        request_id: request.request_id.clone(),
        final_outcome,
        axis_scores,
        summary_reasoning: case.summary(),
        blocking_issues: case.blocking_issues(),
        next_steps: case.next_steps(),
    };
    let dissent = seating
        .seats
        .iter()
        .filter(|seat| seat.verdict != final_outcome)
        .map(|seat| Dissent {
            role: seat.role.clone(),
            verdict: seat.verdict,
        })
        .collect();
    let Seating { seats, foreign, .. } = seating;
    Ruling {
        decision,
        deliberation: Deliberation {
            rules,
            seats,
            foreign,
            dissent,
            missing,
            not_assessed,
        },
    }
}

/// Creates a rule's result from its reasons; without reasons the rule approves.
fn unless(rule: Rule, result: Stance, why: Vec<String>) -> RuleResult {
    let result = if why.is_empty() {
        Stance::Approve
    } else {
        result
    };
    RuleResult { rule, result, why }
}

fn veto(request: &CouncilRequest, seating: &Seating, roles: &Roles) -> RuleResult {
    let veto_roles = &roles.change(request.change_type).veto_roles;
    let rejecting = seating.names(Stance::Reject).into_iter();
    let why = rejecting.filter(|name| veto_roles.iter().any(|veto| veto == name));
    unless(
        Rule::Veto,
        Stance::Reject,
        why.map(|name| format!("{name} rejects and has a veto."))
            .collect(),
    )
}

fn rejections(seating: &Seating) -> RuleResult {
    let why: Vec<String> = seating
        .names(Stance::Reject)
        .into_iter()
        .map(|name| format!("{name} rejects."))
        .collect();
    let result = if why.len() > 1 {
        Stance::Reject
    } else {
        Stance::NeedsMoreInfo
    };
    unless(Rule::Seats, result, why)
}

fn completeness(missing: &Missing) -> RuleResult {
    unless(
        Rule::Completeness,
        Stance::NeedsMoreInfo,
        text::missing_lines(missing),
    )
}

fn open_questions(seating: &Seating) -> RuleResult {
    let unsure = seating.names(Stance::NeedsMoreInfo).into_iter();
    let why = unsure
        .map(|name| format!("{name} needs more information."))
        .collect();
    unless(Rule::OpenQuestions, Stance::NeedsMoreInfo, why)
}

fn foreign_objection(seating: &Seating) -> RuleResult {
    let objecting = seating
        .foreign
        .iter()
        .filter(|seat| seat.verdict != Stance::Approve);
    let why =
        objecting.map(|seat| format!("{}, which has no seat here, does not approve.", seat.role));
    unless(Rule::ForeignObjection, Stance::NeedsMoreInfo, why.collect())
}

/// Each seat that approves needs a signer of its own; rejections count from anybody.
fn distinct_signers(request: &CouncilRequest, seating: &Seating, roles: &Roles) -> RuleResult {
    let mut why = Vec::new();
    let approving = seating.approving(roles);
    let signers: Vec<BTreeSet<&str>> = approving
        .iter()
        .map(|(_, speakers)| speakers.iter().map(|by| by.signer.as_str()).collect())
        .collect();
    let short = signers::short_of(&signers);
    if roles.change(request.change_type).distinct_signers && !short.is_empty() {
        let seats = short.iter().filter_map(|place| approving.get(*place));
        let names: Vec<&str> = seats.map(|(name, _)| *name).collect();
        let of_short = short.iter().filter_map(|place| signers.get(*place));
        let count = of_short.flatten().collect::<BTreeSet<_>>().len();
        let (names, plural) = (text::listed(&names), if count == 1 { "" } else { "s" });
        why.push(format!(
            "{names} have {count} signer{plural} between them; each approving seat needs its own."
        ));
    }
    unless(Rule::DistinctSigners, Stance::NeedsMoreInfo, why)
}

/// The signers that can represent the approving seats come from as many families as the change
/// demands. Signers that declare none are one family. A largest matching of seats with families gives
/// the number: the signers that it uses can always be completed to representatives of all seats, as
/// the sets of signers that can sit together form a matroid.
fn panel(request: &CouncilRequest, seating: &Seating, roles: &Roles) -> RuleResult {
    let wanted = *roles.change(request.change_type).families_min;
    let families: Vec<BTreeSet<Option<&String>>> = seating
        .approving(roles)
        .into_iter()
        .map(|(_, speakers)| speakers.iter().map(|by| by.family.as_ref()).collect())
        .collect();
    let count = signers::most_apart(&families).max(1);
    let is_short = u32::try_from(count).is_ok_and(|count| count < wanted);
    let why = is_short.then(|| {
        format!("The approving signers are of {count} declared families; {wanted} are needed.")
    });
    unless(
        Rule::Panel,
        Stance::NeedsMoreInfo,
        why.into_iter().collect(),
    )
}

fn axis_floor(request: &CouncilRequest, scores: &AxisScores, roles: &Roles) -> RuleResult {
    let change = request.change_type;
    let mut result = Stance::Approve;
    let mut why = Vec::new();
    for axis in Axis::ALL
        .into_iter()
        .filter(|axis| roles.covers(change, *axis))
    {
        let (score, floor) = (scores.get(axis), roles.floor(change, axis));
        let (below, stance) = if score.tenths() < *floor.reject_below {
            (floor.reject_below, Stance::Reject)
        } else if score.tenths() < *floor.unsure_below {
            (floor.unsure_below, Stance::NeedsMoreInfo)
        } else {
            continue;
        };
        result = result.min(stance);
        why.push(format!(
            "Axis {} ({}) is {score}, below {}.",
            axis.number(),
            axis.as_str(),
            text::tenths(*below)
        ));
    }
    unless(Rule::AxisFloor, result, why)
}
