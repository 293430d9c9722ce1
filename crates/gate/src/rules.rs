//! The step that asks the rules. It can only restrict: what it refuses or holds changes nothing,
//! and what an action's own checks refuse stays refused.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value as Json;

use super::actions::Body;
use super::actions::{Lane, Rules};
use super::approvals::{self, ENTRIES_MAX, Granted};
use super::facts::{Source, is_by_size};
use super::handle::{Judged, Outcome, Turn};
use super::prepare::{Authentic, Refusal, escaped};
use super::sealing;
use super::state::Change;
use spoolgate_admission::receipt::{Phase, Reason};
use spoolgate_control::registry::makes_safer;
use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::evaluate::{Around, Finding, Truth};
use spoolgate_rules::rule::field::{self, Field, Reading};
use spoolgate_rules::rule::links::links_of;
use spoolgate_rules::rule::ruleset::Rule;
use spoolgate_rules::rule::set::Grows;
use spoolgate_rules::rule::{Fact, Guard, Members, Program, RuleStatus, Test, Then, Value, host};
use spoolgate_trading::checks::Subject;
use spoolgate_trading::class::{self, Class};
use spoolgate_trading::headroom::{headroom, headroom_under};
use spoolgate_trading::requests::Verdict;
use spoolgate_wire::admission::AdmissionAttempt;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::CheckRow;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::control::ControlStatus;
use spoolgate_wire::ids::{RuleId, SetName, TaskName};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::signing::sha256_hex;

/// Maximum bytes for the rows of all rules in a line; rows that do not fit are summarised in one
/// row.
const ROWS_BYTES_MAX: usize = 16 * 1024;
/// Longest text that is written out as a fact, bytes.
const TEXT_BYTES_MAX: usize = 200;
/// Approximate bytes that a fact takes in a line, with its name.
const FACT_BYTES: usize = 48;
/// Maximum number of array elements that are written out.
const ELEMENTS_MAX: usize = 50;
/// Longest value in a message, characters.
const SHOWN_CHARS_MAX: usize = 60;
/// Maximum number of entries that one grant adds to sets.
const REMEMBERED_MAX: usize = 50;
/// Name of the row that summarises others.
const OTHERS: &str = "rules";

/// The results of all rules for one request.
#[derive(Clone, Debug, Default)]
pub struct Ruled {
    /// One row per rule, by id.
    pub rows: Vec<CheckRow>,
    /// The most severe effect of any rule in force.
    pub act: Option<Then>,
    /// Rules that hold it.
    pub holds: Vec<RuleId>,
    /// The facts that they have read, as JSON.
    pub facts: String,
}

/// Whether a row of a check vector comes from a rule.
pub fn is_of_rule(row: &CheckRow) -> bool {
    row.source.starts_with("rules/") && (row.source.ends_with(".yaml") || row.source.ends_with("*"))
}

/// The rules that a request has to pass; `None` if rules do not apply to it or there are none.
fn program<'a>(
    turn: &Turn<'a>,
    authentic: &Authentic,
    body: &Body,
    lane: Lane,
) -> Option<&'a Program> {
    let rules: &'a spoolgate_rules::Rulebook = turn.rules;
    let program = rules
        .ruleset
        .programs
        .get(body.rule.name.as_str())
        .filter(|program| !program.guards.is_empty())?;
    let applies = match body.rule.rules_apply {
        Rules::No => false,
        Rules::Refuses => true,
        Rules::Entries => lane != Lane::Protected,
        Rules::UnlessSafer => body.payload().is_none_or(|attempt: &ControlAttempt| {
            // An earlier control decision is only answered again.
            let earlier = turn.lookups.decided.as_ref();
            let is_told_again = earlier.is_some_and(|earlier| {
                earlier.payload_hash == authentic.payload_hash
                    && earlier.status != ControlStatus::Failed
            });
            let decision = attempt.decision.as_ref();
            !is_told_again
                && decision.is_ok_and(|decision| !makes_safer(rules, &turn.state.control, decision))
        }),
    };
    applies.then_some(program)
}

/// Carries out a request and applies the rules to the outcome. `task` is the task tree to which
/// admission has assigned the request.
///
/// # Errors
/// Returns the [`Refusal`] of `Action::execute`: the rules are not asked about such a request.
pub(super) fn carry_out(
    turn: &Turn<'_>,
    authentic: &Authentic,
    body: &Body,
    lane: Lane,
    task: Option<&TaskName>,
) -> Result<Outcome, Refusal> {
    let outcome = body.execute(turn, authentic)?;
    let Some(program) = program(turn, authentic, body, lane) else {
        return Ok(held_for_anomalies(outcome));
    };
    let of_body = body
        .payload()
        .and_then(|attempt: &AdmissionAttempt| attempt.body.as_ref().ok());
    let claimed = of_body.and_then(|body| {
        let causality = body.envelope.causality.as_ref()?;
        Some(TaskName::of(
            &body.envelope.domain.tenant,
            &causality.root_task_id,
        ))
    });
    let around = Around {
        now: turn.now,
        entries: &turn.state.entries,
        task: task.or(claimed.as_ref()),
    };
    let mut source = Source::new(turn, authentic);
    let facts = source.facts(&program.readings);
    let satisfied = turn
        .granted
        .map_or_else(Vec::new, |granted| granted.satisfied(turn.rules));
    let other = |field| source.fact(&Reading::Field(field));
    let ruled = rule(program, &facts, &around, &other, &satisfied);
    let remembered = match turn.granted.filter(|granted| granted.remember) {
        Some(granted) => remembered(turn, granted, &satisfied, program, &facts, &around),
        None => Vec::new(),
    };
    let outcome = Ok(match (body.payload::<SubmitOrder>(), outcome.verdict) {
        (Some(order), Some(verdict)) => {
            let SubmitOrder {
                strategy,
                symbol,
                side,
                order_type,
                ..
            } = order;
            let capacity = class::capacity(&turn.state.book, strategy, symbol, *side, *order_type);
            let mut facts = facts;
            let mut refused = |size: Amount| {
                if class::classify(size, capacity) == Class::Exit {
                    return None;
                }
                source.resize(size);
                for (reading, fact) in program.readings.iter().zip(&mut facts) {
                    if is_by_size(reading) {
                        *fact = source.fact(reading);
                    }
                }
                blocking(program, &facts, &around, &satisfied).map(|guard| guard.id.to_string())
            };
            let passes = verdict.accepted;
            let blocks = ruled.blocks();
            let verdict = judge_order(
                turn,
                authentic,
                order,
                verdict,
                blocks,
                ruled.rows,
                &mut refused,
            );
            let changes = if verdict.accepted {
                outcome.changes
            } else {
                Vec::new()
            };
            let is_held = passes && ruled.act == Some(Then::Hold);
            let holds = if is_held { ruled.holds } else { Vec::new() };
            Outcome {
                verdict: Some(verdict),
                changes,
                holds,
                facts: Some(ruled.facts),
                ..outcome
            }
        }
        (_, verdict) => held_for_anomalies(judge(Outcome { verdict, ..outcome }, ruled)),
    });
    outcome.map(|mut outcome: Outcome| {
        let is_done =
            outcome.refusal().is_none() && outcome.verdict.as_ref().is_none_or(|v| v.accepted);
        outcome
            .changes
            .extend(remembered.into_iter().filter(|_| is_done));
        outcome
    })
}

/// The values that satisfied rules missed in their sets, as new entries of the sets that grow on
/// approval. Only rules of the operator count: an agent may propose a rule that is applied by itself
/// and holds any request of the agent's, and would choose by it which set grows, and by what.
fn remembered(
    turn: &Turn<'_>,
    granted: Granted<'_>,
    satisfied: &[RuleId],
    program: &Program,
    facts: &[Fact<'_>],
    around: &Around<'_>,
) -> Vec<Change> {
    let is_core = |id| turn.rules.ruleset.rules.get(id).is_some_and(Rule::is_core);
    let mut found: BTreeSet<(SetName, String)> = BTreeSet::new();
    for guard in program
        .guards
        .iter()
        .filter(|guard| satisfied.contains(&guard.id) && is_core(&guard.id))
    {
        for condition in &guard.conditions {
            let (kind, of) = match &condition.test {
                Test::Member {
                    kind,
                    of,
                    is_in: false,
                } => (Some(*kind), of),
                Test::Domain { of, is_in: false } | Test::LinksNotIn(of) => (None, of),
                _ => continue,
            };
            let Members::Named { set, .. } = of else {
                continue;
            };
            if set.grows != Grows::OnApproval {
                continue;
            }
            let values = match facts.get(condition.slot) {
                Some(Fact::Known(value)) => std::slice::from_ref(value),
                Some(Fact::Many(values)) => values.as_slice(),
                _ => &[],
            };
            for value in values {
                let Value::Text(text) = value else { continue };
                let texts = match (kind, &condition.test) {
                    (Some(kind), _) => kind.fold(text).map(Cow::into_owned).into_iter().collect(),
                    (None, Test::LinksNotIn(_)) => links_of(text)
                        .into_iter()
                        .flatten()
                        .map(Cow::into_owned)
                        .collect(),
                    (None, _) => host::domain_of(text)
                        .map(Cow::into_owned)
                        .into_iter()
                        .collect::<Vec<String>>(),
                };
                let missing = texts.into_iter().filter(|text| !of.holds(text, around));
                found.extend(missing.map(|text| (set.name.clone(), text)));
            }
        }
    }
    let room = ENTRIES_MAX
        .saturating_sub(turn.state.entries.iter().count())
        .min(REMEMBERED_MAX);
    let entry = Entry {
        by: granted.by.clone(),
        until: None,
        task: None,
    };
    let added = |(set, value)| approvals::Change::EntryAdded {
        set,
        value,
        entry: entry.clone(),
        at: turn.now,
    };
    found
        .into_iter()
        .take(room)
        .map(|found| Change::Approvals(added(found)))
        .collect()
}

/// Evaluates the rules of a program. `other` looks up fields that only messages name; `satisfied`
/// are rules whose hold was granted.
pub fn rule<'a>(
    program: &Program,
    facts: &[Fact<'a>],
    around: &Around<'_>,
    other: &dyn Fn(&'static Field) -> Fact<'a>,
    satisfied: &[RuleId],
) -> Ruled {
    let findings = program.findings(facts, around);
    let is_satisfied = |finding: &Finding<'_>| {
        finding.act() == Some(Then::Hold) && satisfied.contains(&finding.guard.id)
    };
    let in_force = findings.iter().filter(|finding| !is_satisfied(finding));
    let act = in_force.clone().filter_map(Finding::act).max();
    let held = in_force.filter(|finding| finding.act() == Some(Then::Hold));
    let holds = held.map(|finding| finding.guard.id.clone()).collect();
    let rows = findings.iter().map(|finding| {
        let mut row = row(program, facts, other, finding);
        if let Some(why) = row.reason.as_mut().filter(|_| is_satisfied(finding)) {
            *why = format!("approved: {why}").into();
            row.passed = true;
        }
        row
    });
    let rows = rows.collect();
    Ruled {
        rows: shortened(rows),
        act,
        holds,
        facts: noted(program, facts),
    }
}

impl Ruled {
    /// Whether a rule keeps the request from being carried out.
    fn blocks(&self) -> bool {
        self.act.is_some_and(|act| act != Then::Warn)
    }
}

/// Adds the rules' rows to an order's verdict, and computes the headroom under all checks and
/// rules.
fn judge_order(
    turn: &Turn<'_>,
    authentic: &Authentic,
    order: &SubmitOrder,
    mut verdict: Verdict,
    blocks: bool,
    rows: Vec<CheckRow>,
    refused: &mut dyn FnMut(Amount) -> Option<String>,
) -> Verdict {
    if blocks || !verdict.accepted {
        verdict.headroom = Some(turn.in_context(authentic, Some(order), |context| {
            let subject = Subject::of_order(&turn.state.book, turn.rules, order, context);
            let found = verdict
                .headroom
                .take()
                .unwrap_or_else(|| headroom(&subject, &verdict.checks));
            headroom_under(&subject, found, refused)
        }));
    }
    verdict.accepted &= !blocks;
    verdict.checks.extend(rows);
    verdict
}

/// The first rule that keeps a request with these facts from being carried out.
fn blocking<'p>(
    program: &'p Program,
    facts: &[Fact<'_>],
    around: &Around<'_>,
    satisfied: &[RuleId],
) -> Option<&'p Guard> {
    program.guards.iter().find(|guard| {
        guard.status == RuleStatus::Active
            && guard.then != Then::Warn
            && !(guard.then == Then::Hold && satisfied.contains(&guard.id))
            && guard.truth(facts, around) != Truth::False
    })
}

/// Adds the rules' rows to any request but an order; it has no effect if a rule refuses or holds
/// it.
fn judge(outcome: Outcome, ruled: Ruled) -> Outcome {
    let mut judged = outcome.judged.unwrap_or(Judged {
        rows: Vec::new(),
        refusal: None,
    });
    let blocks = ruled.blocks();
    // If a rule refuses the request, rules that would only hold it are not the reason.
    let only_holds = |row: &CheckRow| {
        ruled.act == Some(Then::Reject) && ruled.holds.iter().any(|id| id.as_str() == row.name)
    };
    let first = ruled
        .rows
        .iter()
        .find(|row| !row.passed && !only_holds(row))
        .cloned();
    judged.rows.extend(ruled.rows);
    let facts = Some(ruled.facts);
    if judged.refusal.is_some() || !blocks {
        return Outcome {
            judged: Some(judged),
            facts,
            ..outcome
        };
    }
    let refusal = first.as_ref().map(super::decide::refusal_of);
    let mut receipt = outcome.receipt;
    if let (Some(receipt), Some(refusal)) = (&mut receipt, &refusal)
        && receipt.phase == Phase::Accepted
    {
        receipt.reject(Reason::RequestRefused, &refusal.message);
        if let Some(counters) = outcome.without_task {
            receipt.effective_counters = counters;
        }
    }
    let (holds, anomalies) = match ruled.act {
        Some(Then::Hold) => (ruled.holds, outcome.anomalies),
        _ => Default::default(),
    };
    Outcome {
        anomalies,
        judged: Some(Judged { refusal, ..judged }),
        receipt,
        facts,
        holds,
        ..Outcome::default()
    }
}

/// Drops the effects of a request that nothing refuses and an anomaly holds.
fn held_for_anomalies(outcome: Outcome) -> Outcome {
    let Some(judged) = outcome
        .judged
        .as_ref()
        .filter(|judged| judged.refusal.is_none())
    else {
        return outcome;
    };
    if outcome.anomalies.is_empty() {
        return outcome;
    }
    let refusal = judged
        .rows
        .iter()
        .find(|row| !row.passed)
        .map(super::decide::refusal_of);
    let judged = outcome.judged.map(|judged| Judged { refusal, ..judged });
    Outcome {
        judged,
        changes: Vec::new(),
        begins: None,
        ..outcome
    }
}

fn row<'a>(
    program: &Program,
    facts: &[Fact<'a>],
    other: &dyn Fn(&'static Field) -> Fact<'a>,
    finding: &Finding<'_>,
) -> CheckRow {
    let guard = finding.guard;
    let ordered = guard
        .conditions
        .iter()
        .find(|condition| condition.threshold.is_some());
    let reading = ordered.and_then(|condition| program.readings.get(condition.slot));
    let unit = match reading {
        Some(Reading::Field(field) | Reading::Sum { of: field, .. }) => field.unit,
        Some(Reading::Count { .. } | Reading::Distinct { .. }) => "count",
        Some(Reading::FirstSeen(_)) | None => "bool",
    };
    let said = || {
        let message = message(&guard.message, &program.readings, facts, other);
        let missing = if finding.truth == Truth::Unknown {
            missing(program, facts, finding)
        } else {
            None
        };
        escaped(&missing.map_or_else(
            || message.clone(),
            |missing| format!("{missing}; {message}"),
        ))
    };
    let (passed, reason) = match (finding.truth, guard.status, guard.then) {
        (Truth::False, ..) => (true, None),
        (_, RuleStatus::Active, Then::Warn) => (true, Some(format!("warn: {}", said()))),
        (_, RuleStatus::Active, Then::Hold | Then::Reject) => (false, Some(said())),
        (_, _, then) => (
            true,
            Some(format!("shadow: would {}: {}", verb(then), said())),
        ),
    };
    CheckRow {
        name: Cow::Owned(guard.id.as_str().to_owned()),
        passed,
        value: finding.value,
        limit: ordered.and_then(|condition| condition.threshold),
        source: Cow::Owned(["rules/", guard.id.as_str(), ".yaml"].concat()),
        unit: Cow::Borrowed(unit),
        reason: reason.map(Cow::Owned),
        warning: false,
        follows_from: None,
    }
}

fn verb(then: Then) -> &'static str {
    match then {
        Then::Warn => "warn",
        Then::Hold => "hold",
        Then::Reject => "reject",
    }
}

/// The first fact that the rule needs and that is unknown.
fn missing(program: &Program, facts: &[Fact<'_>], finding: &Finding<'_>) -> Option<String> {
    let unknown =
        finding
            .guard
            .conditions
            .iter()
            .find_map(|condition| match facts.get(condition.slot) {
                Some(Fact::Unknown(why)) => Some((condition.slot, why.as_ref())),
                _ => None,
            });
    let (slot, why) = unknown.or_else(|| {
        let slot = finding.guard.conditions.first()?.slot;
        Some((
            slot,
            "its value cannot be compared with the value in the rule",
        ))
    })?;
    Some(format!(
        "cannot be evaluated: {} is unknown: {why}",
        program.readings.get(slot)?
    ))
}

/// A rule's message with `{field}` replaced by the field's value.
fn message<'a>(
    template: &str,
    readings: &[Reading],
    facts: &[Fact<'a>],
    other: &dyn Fn(&'static Field) -> Fact<'a>,
) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let named = after.split_once('}').and_then(|(name, after)| {
            let wanted = name.strip_suffix("[]").unwrap_or(name);
            let slot = readings.iter().position(|reading| match reading {
                Reading::Field(field) => field.name == wanted,
                other => other.to_string() == wanted,
            });
            let shown = |fact: &Fact<'_>| match (fact, sealing::pointer_of(wanted)) {
                (Fact::Known(_) | Fact::Many(_), Some(_)) => "(sealed)".to_owned(),
                _ => shown(fact),
            };
            let read = slot.and_then(|slot| facts.get(slot).map(shown));
            Some((
                read.or_else(|| Some(shown(&other(field::find(wanted)?))))?,
                after,
            ))
        });
        match named {
            Some((value, after)) => {
                text.push_str(&value);
                rest = after;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

fn shown(fact: &Fact<'_>) -> String {
    let one = |value: &Value<'_>| match value {
        Value::Number(number) => number.normalized().to_string(),
        Value::Flag(flag) => flag.to_string(),
        Value::Text(text) if text.chars().count() > SHOWN_CHARS_MAX => text
            .chars()
            .take(SHOWN_CHARS_MAX)
            .chain("...".chars())
            .collect(),
        Value::Text(text) => text.to_string(),
    };
    match fact {
        Fact::Known(value) => one(value),
        Fact::Many(values) => {
            let mut text = String::new();
            for value in values.iter().take(3) {
                let comma = if text.is_empty() { "" } else { ", " };
                // Writing into a string does not fail.
                let _ = write!(text, "{comma}{}", one(value));
            }
            if values.len() > 3 {
                text + ", ..."
            } else {
                text
            }
        }
        Fact::Absent => "(absent)".to_owned(),
        Fact::Unknown(_) => "(unknown)".to_owned(),
    }
}

/// As many rows as a line has room for: first rows of rules that refuse or hold, then of rules with
/// a reason. One more row summarises the rest.
fn shortened(rows: Vec<CheckRow>) -> Vec<CheckRow> {
    let size = |row: &CheckRow| {
        let texts = [&row.name, &row.source, &row.unit]
            .into_iter()
            .chain(&row.reason);
        texts
            .map(|text| text.len())
            .fold(120, usize::saturating_add)
    };
    let total = rows.iter().map(size).fold(0, usize::saturating_add);
    if total <= ROWS_BYTES_MAX {
        return rows;
    }
    let mut left = ROWS_BYTES_MAX;
    let mut is_kept = vec![false; rows.len()];
    for wanted in [
        |row: &CheckRow| !row.passed,
        |row: &CheckRow| row.passed && row.reason.is_some(),
    ] {
        for (row, kept) in rows.iter().zip(&mut is_kept).filter(|(row, _)| wanted(row)) {
            let room = left.checked_sub(size(row));
            *kept = room.is_some();
            left = room.unwrap_or(left);
        }
    }
    let omitted = rows.iter().zip(&is_kept).filter(|(_, kept)| !**kept);
    let (count, failed) = omitted.fold((0_i64, 0_i64), |(count, failed), (row, _)| {
        (
            count.saturating_add(1),
            failed.saturating_add(i64::from(!row.passed)),
        )
    });
    let others = CheckRow {
        name: Cow::Borrowed(OTHERS),
        passed: failed == 0,
        value: Some(Amount::from_i64(failed)),
        limit: Some(Amount::ZERO),
        source: Cow::Borrowed("rules/*"),
        unit: Cow::Borrowed("count"),
        reason: Some(Cow::Owned(format!(
            "{count} more rules, of which {failed} refuse or hold the request"
        ))),
        warning: false,
        follows_from: None,
    };
    let kept = rows
        .into_iter()
        .zip(is_kept)
        .filter(|(_, kept)| *kept)
        .map(|(row, _)| row);
    kept.chain([others]).collect()
}

/// The facts for the ledger: JSON without white space, members sorted by name.
fn noted(program: &Program, facts: &[Fact<'_>]) -> String {
    let mut noted = String::with_capacity(facts.len().saturating_mul(FACT_BYTES));
    for (name, fact) in program.named(facts) {
        noted.push_str(if noted.is_empty() { "{" } else { "," });
        note_text(&mut noted, name);
        noted.push(':');
        let sealed =
            sealing::pointer_of(name).filter(|_| matches!(fact, Fact::Known(_) | Fact::Many(_)));
        if let Some(pointer) = sealed {
            noted.push_str(r#"{"sealed":"#);
            note_text(&mut noted, pointer);
            noted.push('}');
            continue;
        }
        match fact {
            Fact::Known(value) => note(&mut noted, value),
            Fact::Many(values) if values.len() > ELEMENTS_MAX => {
                let mut all = String::new();
                note_all(&mut all, values);
                let (digest, elements) = (sha256_hex(all.as_bytes()), values.len());
                // Writing into a string does not fail, here and below.
                let _ = write!(noted, r#"{{"elements":{elements},"sha256":"{digest}"}}"#);
            }
            Fact::Many(values) => note_all(&mut noted, values),
            Fact::Absent => noted.push_str("null"),
            Fact::Unknown(why) => {
                noted.push_str(r#"{"unknown":"#);
                note_text(&mut noted, why);
                noted.push('}');
            }
        }
    }
    noted.push_str(if noted.is_empty() { "{}" } else { "}" });
    noted
}

fn note_all(noted: &mut String, values: &[Value<'_>]) {
    noted.push('[');
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            noted.push(',');
        }
        note(noted, value);
    }
    noted.push(']');
}

fn note(noted: &mut String, value: &Value<'_>) {
    match value {
        Value::Number(number) => {
            let _ = write!(noted, r#""{number}""#);
        }
        Value::Flag(flag) => noted.push_str(if *flag { "true" } else { "false" }),
        Value::Text(text) if text.len() > TEXT_BYTES_MAX => {
            let (digest, bytes) = (sha256_hex(text.as_bytes()), text.len());
            let _ = write!(noted, r#"{{"bytes":{bytes},"sha256":"{digest}"}}"#);
        }
        Value::Text(text) => note_text(noted, text),
    }
}

/// Writes a text as JSON. Nearly all texts are names and words and need no escapes.
fn note_text(noted: &mut String, text: &str) {
    if text
        .bytes()
        .any(|byte| byte < b' ' || byte == b'"' || byte == b'\\')
    {
        noted.push_str(&Json::from(text).to_string());
        return;
    }
    noted.push('"');
    noted.push_str(text);
    noted.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use spoolgate_rules::rule::RuleSet;

    #[test]
    fn facts_are_noted_as_json_whatever_they_are() {
        let rule = "id: r\nstatus: active\napplies_to: {action: council.request}\nthen: \
            warn\nmessage: no\nwhen:\n\
            - {field: council.summary, op: present}\n- {field: 'council.files_changed[]', op: \
            present}\n\
            - {field: history.count, window_s: 60, op: gt, value: 1}\n\
            - {field: request.has_causality, op: eq, value: true}\n\
            - {field: council.proposer, op: present}\n- {field: 'council.metrics[]', op: \
            present}\n\
            - {field: council.change_type, op: present}\n- {field: council.diff, op: present}\n";
        let set = RuleSet::compile([("rules/core/r.yaml", rule)], []).unwrap();
        let program = set.programs.get("council.request").unwrap();
        let wicked = "a \"b\" \\ \n\u{1}\u{7f} \u{e9}\u{1f600}";
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let many: Vec<Value<'_>> = (0..=ELEMENTS_MAX)
            .map(|_| Value::Text("y".into()))
            .collect();
        let of_many = Json::from(vec!["y"; ELEMENTS_MAX + 1]).to_string();
        let facts = [
            Fact::text(wicked),
            Fact::Many(vec![Value::Text("a@b.c".into()), Value::Text("\"".into())]),
            Fact::number(Amount::parse_exact("-1.50").unwrap()),
            Fact::flag(true),
            Fact::text(long.as_str()),
            Fact::Many(many),
            Fact::Unknown("\"why\"".into()),
            Fact::text("+ a secret"),
        ];
        let expected = json!({
            "council.summary": wicked,
            "council.files_changed": ["a@b.c", "\""],
            "history.count(60s)": "-1.50",
            "request.has_causality": true,
            "council.proposer": {"sha256": sha256_hex(long.as_bytes()), "bytes": long.len()},
            "council.metrics": {"sha256": sha256_hex(of_many.as_bytes()),
                "elements": ELEMENTS_MAX + 1},
            "council.change_type": {"unknown": "\"why\""},
            "council.diff": {"sealed": "/artifacts/diff_content"},
        });
        assert_eq!(noted(program, &facts), expected.to_string());
        assert_eq!(
            noted(program, &vec![Fact::Absent; 8])
                .matches(":null")
                .count(),
            8
        );
        assert_eq!(noted(&Program::default(), &[]), "{}");
    }
}
