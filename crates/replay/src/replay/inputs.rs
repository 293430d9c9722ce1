//! Lines that are not about a request. What follows from the state is recomputed. What was noticed
//! outside is written again from what the line says about it, so that the line can neither say nor
//! do more than a line of its kind may.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use super::Class;
use super::recompute::{BLOB_LOST, Expected, RULEBOOK_LOST, Recompute, Should, be};
use super::scout::{Item, Known};
use spoolgate_admission::lineage;
use spoolgate_gate::again::{self, NotAgain};
use spoolgate_gate::council::{self, Heard, RoleAnswer};
use spoolgate_gate::elsewhere::{self, CommandAnswer};
use spoolgate_gate::enforced::{Agreement, Unapproved, judged};
use spoolgate_gate::proposals::{Approver, Change as Step, approve};
use spoolgate_gate::record::{
    AdmissionInput, AskedFor, CaseDecision, Event, EventKind, Genesis, Input, Published, Record,
    Response,
};
use spoolgate_gate::state::KeyRecord;
use spoolgate_gate::{Change, bridges, dead_man, events, flatten, outbox, pulls};
use spoolgate_home::error::HomeError;
use spoolgate_home::rulebook::kept;
use spoolgate_home::sealed::Revealed;
use spoolgate_rules::Rulebook;
use spoolgate_rules::approval::Enforce;
use spoolgate_rules::review::Judgement;
use spoolgate_rules::review::statement::{Need, needs};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::signing::{sha256_hex, unhex};
use spoolgate_wire::time::Time;

/// Returns what such a line should be.
pub(super) fn should_be(
    own: &mut Recompute<'_>,
    item: &Item,
    record: &Record,
    rules: &Arc<Rulebook>,
) -> Result<Should, HomeError> {
    let state = &own.state;
    Ok(match record {
        Record::Genesis(line) => genesis(item, line, rules),
        Record::Event(EventKind::Start, line) => start(own, line),
        Record::Event(EventKind::Stop, line) => stop(own, line, rules),
        Record::Event(EventKind::Rulebook, line) => rulebook(own, line, rules)?,
        Record::Event(EventKind::Halt, line) => match line.changes.as_slice() {
            [Change::HaltFile { present, flatten }]
                if (*present, *flatten) != (state.halts.file, state.halts.file_flattens) =>
            {
                let event = events::halt_file(*present, *flatten, line.timestamp);
                input(&Record::Event(EventKind::Halt, event))
            }
            _ => flattening(own, item, EventKind::Halt, line, rules),
        },
        Record::Event(EventKind::ClockStep, line) => clock_step(own, line),
        Record::Event(EventKind::Quota | EventKind::NotTold, line) if line.changes.is_empty() => {
            input(record)
        }
        Record::Event(EventKind::Quota | EventKind::NotTold, _) => {
            Should::NotBe(format!("a `{}` line changes nothing", record.kind()))
        }
        Record::Event(EventKind::Storage, line) => match line.changes.as_slice() {
            [Change::StorageLevel { level }] if *level != state.storage => input(record),
            _ => Should::NotBe(
                "a `storage` line records that the gate serves less or more".to_owned(),
            ),
        },
        Record::Event(EventKind::Bridge, line) => bridge(own, item, line, rules),
        Record::Event(EventKind::Tick, line) => tick(own, line, rules),
        Record::Event(EventKind::DeadMan, line) => dead_man_line(own, item, line, rules),
        Record::Event(EventKind::Proposal, line) => proposal(own, item, line, rules)?,
        Record::Event(EventKind::Pull, line) => pull(own, line, rules),
        Record::Published(line) => match item.known {
            Known::Published(Some(up_to)) => {
                let timestamp = line.timestamp;
                be(
                    &Record::Published(Published { timestamp, up_to }),
                    Class::Recomputed,
                    "published",
                )
            }
            _ => Should::NotBe("there was nothing to publish".to_owned()),
        },
        // Its signatures were checked with the chain; it does not change the state.
        Record::Rotate(_) => input(record),
        // The disclosures that it names are checked elsewhere.
        Record::Redact(_) => input(record),
        Record::Admin(line) => match line.changes.as_slice() {
            [Change::HeadsGivenUp(_) | Change::RulebookFreed { .. }] => input(record),
            _ => Should::NotBe(
                "an `admin` line records which heads were given up, or which rulebook needs no \
                    approvals"
                    .to_owned(),
            ),
        },
        Record::Input(line) => role(item, line, rules),
        Record::AdmissionInput(line) => admission(item, line, rules),
        Record::Council(line) => council_line(own, item, line, rules),
        Record::Response(line) => response(own, item, line, rules),
        Record::Market(_) | Record::Decision(_) => {
            Should::NotBe("it is decided elsewhere".to_owned())
        }
    })
}

/// Expects the line as it is, given what it says was noticed.
fn input(record: &Record) -> Should {
    be(record, Class::Record, record.kind())
}

/// Recomputes a line about a bridge, given which signs of life were noticed or which instructions
/// were taken back.
fn bridge(own: &Recompute<'_>, item: &Item, line: &Event, rules: &Rulebook) -> Should {
    let noticed = match line.changes.as_slice() {
        [Change::Book(change)] => bridges::noticed(change.clone(), line.timestamp),
        _ => None,
    };
    let files = bridges::taken_back_by(&line.changes);
    let event = noticed.or_else(|| {
        let now = line.timestamp;
        if bridges::is_about_missing(line) {
            return bridges::missing(&own.state, rules, now);
        }
        if bridges::is_of_imitated(line) {
            return bridges::imitated(&own.state, rules, item.seq, now);
        }
        bridges::taken_back(&own.state, rules, &files, now)
    });
    match event {
        Some(event) => be(
            &Record::Event(EventKind::Bridge, event),
            Class::Record,
            "bridge",
        ),
        None => Should::NotBe("nothing was noticed of a bridge".to_owned()),
    }
}

/// Recomputes the result of an outgoing action.
fn response(own: &mut Recompute<'_>, item: &Item, line: &Response, rules: &Rulebook) -> Should {
    let Known::Response(data, revealed) = &item.known else {
        return Should::NotBe("it is not a response".to_owned());
    };
    let Some(open) = own.state.actions.open.get(&ActionId(line.request_line)) else {
        return Should::NotBe(format!("no action of line {} is open", line.request_line));
    };
    if line.data_blob.is_some() && data.is_none() {
        own.report.missing.extend(item.lost.iter().cloned());
        return Should::Unknown(BLOB_LOST.into());
    }
    let stubs = match again::response(open, line, data.clone(), &rules.hash, item.seq) {
        Ok(made) => made,
        Err(why) => return Should::NotBe(why.to_string()),
    };
    let Revealed {
        line: clear,
        salts,
        is_whole,
    } = revealed.as_ref();
    if line.sealed.is_empty() {
        return input(&Record::Response(Box::new(stubs)));
    }
    let stubs = input(&Record::Response(Box::new(stubs)));
    if !is_whole {
        // All but the sealed members was recomputed.
        return match stubs {
            Should::Be { body, .. } if body == item.body => {
                Should::Unknown(NotAgain::Redacted.as_str().into())
            }
            other => other,
        };
    }
    let mut made = match again::revealed(open, clear, &rules.hash, item.seq) {
        Ok(made) => made,
        Err(why) => return Should::NotBe(why.to_string()),
    };
    let mut salts = salts.iter();
    match made.seal(&mut || salts.next().copied().ok_or(())) {
        Ok(_) => input(&Record::Response(Box::new(made))),
        Err(()) => Should::NotBe("another number of its members is sealed".to_owned()),
    }
}

fn genesis(item: &Item, line: &Genesis, rules: &Rulebook) -> Should {
    let [Change::RulebookLoaded { .. }, Change::KeyAdded(key)] = line.changes.as_slice() else {
        return Should::NotBe("a log begins with a rulebook and the key of a person".to_owned());
    };
    let is_hex = |text: &str| unhex(text).is_some_and(|bytes| bytes.len() == 32);
    if item.seq != 0 || line.format != 1 || !is_hex(&line.seal_key) || !is_hex(&line.nonce) {
        return Should::NotBe("it is not the first line of a log of format 1".to_owned());
    }
    let key = KeyRecord {
        algorithm: Algorithm::HmacSha256,
        added_at: line.timestamp,
        ends_at: None,
        revoked_at: None,
        ..key.clone()
    };
    let hash = rules.hash.clone();
    let changes = vec![
        Change::RulebookLoaded {
            hash: hash.clone(),
            approved: None,
        },
        Change::KeyAdded(key),
    ];
    input(&Record::Genesis(Genesis {
        rulebook: hash,
        changes,
        ..line.clone()
    }))
}

fn start(own: &Recompute<'_>, line: &Event) -> Should {
    match line.changes.as_slice() {
        [] => input(&Record::Event(EventKind::Start, line.clone())),
        [Change::ProgramChanged { version, semantics }]
            if *version != own.state.program || *semantics != own.state.semantics() =>
        {
            let event =
                events::program_changed(&own.state.program, version, *semantics, line.timestamp);
            input(&Record::Event(EventKind::Start, event))
        }
        _ => Should::NotBe(
            "a `start` line records another version of the program, or changes nothing".to_owned(),
        ),
    }
}

fn stop(own: &Recompute<'_>, line: &Event, rules: &Rulebook) -> Should {
    let earlier = &own.state.dead_man.unheard_ms;
    let is_news = |change: &Change| match change {
        Change::DeadMan(dead_man::Change::Unheard { principal, ms }) => {
            earlier.get(principal).copied().unwrap_or(0) != *ms
                && dead_man::awaited(&own.state, rules).any(|agent| agent == principal)
        }
        _ => false,
    };
    if line.changes.iter().all(is_news) {
        input(&Record::Event(EventKind::Stop, line.clone()))
    } else {
        Should::NotBe("a `stop` line records only how long expected agents were silent".to_owned())
    }
}

fn rulebook(own: &Recompute<'_>, line: &Event, rules: &Rulebook) -> Result<Should, HomeError> {
    let now = &own.state.rulebook;
    let event = match line.changes.as_slice() {
        [Change::RulebookLoaded { hash, approved }]
            if *hash != now.hash
                || now.fault.is_some()
                || now.refused.is_some()
                || now.freed.is_some() =>
        {
            if let Some(should) = unlike_ruling(own, rules, hash, |judgement| {
                approves(own, rules, judgement, (hash, approved.as_deref()))
            })? {
                return Ok(should);
            }
            match approved {
                Some(agreement) => events::rulebook_approved(hash, agreement, line.timestamp),
                None => events::rulebook_loaded(hash, None, line.timestamp),
            }
        }
        [Change::RulebookRefused(refused)] if now.refused.as_ref() != Some(refused.as_ref()) => {
            if let Some(should) = unlike_ruling(own, rules, &refused.hash, |judgement| {
                refuses(rules, judgement, refused)
            })? {
                return Ok(should);
            }
            events::rulebook_refused(refused, line.timestamp)
        }
        [Change::RulebookFaulted { fault }] if now.fault.as_ref() != Some(fault) => {
            events::rulebook_faulted(fault, line.timestamp)
        }
        _ => {
            return Ok(Should::NotBe(
                "a `rulebook` line records that another rulebook is in force, lacks approvals or \
                    cannot be used"
                    .to_owned(),
            ));
        }
    };
    Ok(input(&Record::Event(EventKind::Rulebook, event)))
}

/// Judges the rulebook of this hash again, and returns what the line should be if the judgement,
/// which is `None` if none is needed, does not lead to what it says.
fn unlike_ruling(
    own: &Recompute<'_>,
    rules: &Rulebook,
    hash: &str,
    is_right: impl FnOnce(Option<&Judgement>) -> bool,
) -> Result<Option<Should>, HomeError> {
    if rules.approval.enforce == Enforce::Review {
        return Ok((!is_right(None)).then(wrong_ruling));
    }
    let new = match kept(own.disk, hash) {
        Ok(new) => new,
        Err(HomeError::Disk { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(Should::Unknown(RULEBOOK_LOST.into())));
        }
        Err(error) => return Err(error),
    };
    Ok((!is_right(judged(rules, &new).as_ref())).then(wrong_ruling))
}

fn wrong_ruling() -> Should {
    Should::NotBe(
        "the rulebook in force demands other approvals of this change than the line names"
            .to_owned(),
    )
}

/// Whether a rulebook comes into force with this agreement.
fn approves(
    own: &Recompute<'_>,
    rules: &Rulebook,
    judgement: Option<&Judgement>,
    (hash, agreement): (&String, Option<&Agreement>),
) -> bool {
    let open = judgement.filter(|judgement| !judgement.may_apply_itself());
    match (open, agreement) {
        (None, agreement) => agreement.is_none(),
        (Some(_), None) => own.state.rulebook.freed.as_ref() == Some(hash),
        (Some(judgement), Some(agreement)) => {
            let signed = |need: Need| {
                let by = agreement.by.keys();
                let own = by.filter(|who| need.approvers.contains(*who)).count();
                usize::try_from(need.need).is_ok_and(|need| own >= need)
            };
            agreement.verdict == judgement.verdict
                && !own.state.rulebook.nonces.contains(&agreement.nonce)
                && areas(rules, judgement).into_iter().all(signed)
        }
    }
}

/// Whether a rulebook is refused with these areas.
fn refuses(rules: &Rulebook, judgement: Option<&Judgement>, refused: &Unapproved) -> bool {
    let Some(judgement) = judgement.filter(|judgement| !judgement.may_apply_itself()) else {
        return false;
    };
    let named = refused.areas.iter().map(|it| (it.area.as_str(), it.need));
    let own = areas(rules, judgement);
    let is_short = refused.areas.iter().any(|it| it.have < it.need);
    refused.verdict == judgement.verdict
        && named.eq(own.iter().map(|need| (need.area.as_str(), need.need)))
        && is_short
}

fn areas(rules: &Rulebook, judgement: &Judgement) -> Vec<Need> {
    needs(&rules.approval, judgement, &BTreeSet::new(), &[])
}

fn clock_step(own: &Recompute<'_>, line: &Event) -> Should {
    let clock = &own.state.clock;
    match (line.changes.as_slice(), clock.last) {
        ([Change::ClockFaulted(fault)], Some(last)) if clock.fault.is_none() && !clock.accepted => {
            input(&Record::Event(
                EventKind::ClockStep,
                events::clock_step(last, fault.to),
            ))
        }
        _ => Should::NotBe("a `clock_step` line records where a trusted clock has gone".to_owned()),
    }
}

fn tick(own: &mut Recompute<'_>, line: &Event, rules: &Arc<Rulebook>) -> Should {
    let now = line.timestamp;
    if line.note == events::OWED {
        let event = Event {
            timestamp: now,
            note: events::OWED.to_owned(),
            changes: outbox::owed(&own.state.book, rules, now),
            cage: None,
        };
        return be(
            &Record::Event(EventKind::Tick, event),
            Class::Recomputed,
            "tick",
        );
    }
    if matches!(line.changes.first(), Some(Change::OverrideEnded { .. })) {
        return match events::overrides_end(&own.state, rules, now) {
            Some(event) => be(
                &Record::Event(EventKind::Tick, event),
                Class::Recomputed,
                "tick",
            ),
            None => Should::NotBe("no override was over".to_owned()),
        };
    }
    let note = events::NEW_DAY.to_owned();
    let parts = events::new_day(&own.state, rules, now);
    first_part(own, EventKind::Tick, note, parts, rules, now)
}

/// Expects the entries that are no longer allowed: beyond the limits after a change of rules or
/// control, and otherwise beyond the margin too.
fn pull(own: &mut Recompute<'_>, line: &Event, rules: &Rulebook) -> Should {
    let made = |margin| pulls::next(&own.state, rules, margin, line.timestamp);
    let by_margin = made(*rules.safety.pull_margin);
    let event = match by_margin {
        Some(event) if event == *line => Some(event),
        other => made(Amount::ZERO).or(other),
    };
    match event {
        Some(event) => be(
            &Record::Event(EventKind::Pull, event),
            Class::Recomputed,
            "pull",
        ),
        None => Should::NotBe("every working entry was allowed".to_owned()),
    }
}

/// Expects the first part that is not empty, and queues the others.
fn first_part(
    own: &mut Recompute<'_>,
    kind: EventKind,
    note: String,
    parts: Vec<Vec<Change>>,
    rules: &Arc<Rulebook>,
    now: Time,
) -> Should {
    let parts = parts.into_iter().map(|changes| Expected::Part {
        kind,
        note: note.clone(),
        changes,
        rules: Arc::clone(rules),
    });
    own.expected.extend(parts);
    match own.next_expected(Some(now)) {
        Some(Expected::Part { changes, note, .. }) => {
            let made = Record::Event(
                kind,
                Event {
                    timestamp: now,
                    note,
                    changes,
                    cage: None,
                },
            );
            be(&made, Class::Recomputed, kind.name())
        }
        _ => Should::NotBe("there was nothing to do".to_owned()),
    }
}

fn dead_man_line(own: &mut Recompute<'_>, item: &Item, line: &Event, rules: &Rulebook) -> Should {
    let now = line.timestamp;
    let tripped = line.changes.iter().find_map(|change| match change {
        Change::DeadMan(dead_man::Change::Tripped { principal, tripped }) => {
            Some((principal.clone(), tripped.unheard_ms))
        }
        _ => None,
    });
    if let Some((agent, unheard_ms)) = tripped {
        if !dead_man::awaited(&own.state, rules).any(|other| *other == agent) {
            return Should::NotBe(format!("no dead man's switch waits for `{agent}`"));
        }
        return match events::trip(rules, &agent, unheard_ms, now) {
            Some(event) => be(
                &Record::Event(EventKind::DeadMan, event),
                Class::Recomputed,
                "dead_man",
            ),
            None => Should::NotBe(format!("`{agent}` was heard from in time")),
        };
    }
    flattening(own, item, EventKind::DeadMan, line, rules)
}

/// Expects the next line that brings a position closer to flat.
fn flattening(
    own: &Recompute<'_>,
    item: &Item,
    kind: EventKind,
    line: &Event,
    rules: &Rulebook,
) -> Should {
    match flatten::next(&own.state, rules, item.seq, line.timestamp) {
        Some((of, event)) if of == kind => {
            be(&Record::Event(kind, event), Class::Recomputed, kind.name())
        }
        _ => Should::NotBe("nothing demands that a position is closed".to_owned()),
    }
}

fn proposal(
    own: &mut Recompute<'_>,
    item: &Item,
    line: &Event,
    rules: &Arc<Rulebook>,
) -> Result<Should, HomeError> {
    let no = |why: &str| Ok(Should::NotBe(why.to_owned()));
    let (Known::Proposal(Some(Step::Pended { proposed, .. })), [Change::Proposal(step)]) =
        (&item.known, line.changes.as_slice())
    else {
        return no("a `proposal` line is a step of a proposal that waits");
    };
    let id = proposed.proposal_id;
    let Some(waits) = own.state.proposals.pending.get(&id) else {
        return no("the proposal does not wait");
    };
    // The line says whose signature it was; if the proposal only waits again, nobody is named.
    let by = match step {
        Step::Applied {
            by: by @ Approver::Signature { .. },
            ..
        } => by.clone(),
        Step::Pended { .. } => Approver::Proof,
        _ => return no("a `proposal` line is about a signature"),
    };
    if own.state.rulebook.fault.is_some() {
        return no("nothing is applied while the rule files cannot be used");
    }
    let event = match approve(rules, proposed, by.clone(), waits.file_sha256.clone()) {
        Ok(made) => events::approved(id, made, &by, line.timestamp),
        Err(why) => return Ok(Should::NotBe(why.message)),
    };
    own.expect_applied(rules, &event.changes, line.timestamp)?;
    Ok(be(
        &Record::Event(EventKind::Proposal, event),
        Class::Recomputed,
        "proposal",
    ))
}

/// Recomputes the decision on a case that was due.
fn council_line(own: &Recompute<'_>, item: &Item, line: &CaseDecision, rules: &Rulebook) -> Should {
    let Known::Case {
        docket: Some(docket),
        said: Some(said),
        due,
    } = &item.known
    else {
        return Should::NotBe("there is no such case".to_owned());
    };
    let now = line.timestamp;
    if docket.closed.is_some_and(|closed| !closed.is_reopened)
        || due.as_ref() != Some(&docket.case.id)
        || own.state.clock.fault.is_some()
    {
        return Should::NotBe("this case is not the one that is due".to_owned());
    }
    match council::close(rules, docket, said, now) {
        Ok(_) if !item.lost.is_empty() => Should::Unknown(BLOB_LOST.into()),
        Ok(closing) => {
            let made = Record::Council(Box::new(closing.line));
            be(&made, Class::Recomputed, "council")
        }
        Err(refusal) => Should::NotBe(refusal.message),
    }
}

/// Recomputes the answer of a role's command.
fn role(item: &Item, line: &Input, rules: &Rulebook) -> Should {
    let Known::Role {
        docket: Some(docket),
    } = &item.known
    else {
        return Should::NotBe("there is no such case".to_owned());
    };
    let now = line.timestamp;
    if line.payload_blob.is_some() && item.payload.is_none() {
        return Should::Unknown(BLOB_LOST.into());
    }
    let answer = RoleAnswer {
        case: line.request_id.clone(),
        role: line.role.clone(),
        note: line.note.clone(),
        output: item.payload.as_ref().map(|text| text.as_bytes().to_vec()),
        cage: line.cage.clone(),
    };
    let Heard { mut input, .. } = council::hear(rules, docket, &answer, now);
    // If the output was no verdict, or came late, the line has only its note.
    if item.payload.is_none() {
        input.note.clone_from(&line.note);
    }
    let full = council::fills(rules, docket.clone(), item.seq, &input);
    input.changes.extend(full.map(Change::Council));
    be(&Record::Input(input), Class::Record, "input")
}

/// Recomputes the answer of a command to admission.
fn admission(item: &Item, line: &AdmissionInput, rules: &Rulebook) -> Should {
    if line.payload_blob.is_some() && item.payload.is_none() {
        return Should::Unknown(BLOB_LOST.into());
    }
    let now = line.timestamp;
    let output = item.payload.as_ref().map(|text| text.as_bytes().to_vec());
    let answer = CommandAnswer {
        note: line.note.clone(),
        output,
        cage: line.cage.clone(),
    };
    let made = match &line.about {
        AskedFor::Lineage { .. } => {
            let reads = |text: &String| serde_json::from_str::<lineage::Reported>(text).is_ok();
            if !line.changes.is_empty() || item.payload.as_ref().is_some_and(|text| !reads(text)) {
                return Should::NotBe(
                    "a lineage consists of counts and changes nothing".to_owned(),
                );
            }
            AdmissionInput {
                rulebook: rules.hash.clone(),
                ..line.clone()
            }
        }
        AskedFor::Policy { domain, .. } => {
            let policy = rules
                .admission
                .iter()
                .find(|(name, _)| name.to_string() == *domain);
            let [
                Change::Admission(lineage::Change::PolicyDelivered {
                    delivered: recorded,
                    ..
                }),
            ] = line.changes.as_slice()
            else {
                return Should::NotBe(
                    "the answer of a policy command delivers the policy, or the reason why not"
                        .to_owned(),
                );
            };
            let Some((domain, policy)) =
                policy.filter(|(_, policy)| policy.profile.policy_command.is_some())
            else {
                return Should::NotBe(format!("no policy for {domain} comes from a command"));
            };
            let mut heard = elsewhere::hear_policy(rules, domain, policy, &answer, now).input;
            // If the output was no profile, the line has only its note and the digest of the
            // output.
            if item.payload.is_none()
                && let [Change::Admission(lineage::Change::PolicyDelivered { delivered, .. })] =
                    heard.changes.as_mut_slice()
            {
                let digest = recorded.sha256.as_str();
                let is_digest = unhex(digest).is_some_and(|bytes| bytes.len() == 32);
                delivered.sha256 = if is_digest {
                    digest.to_owned()
                } else {
                    sha256_hex(b"")
                };
            }
            heard
        }
    };
    be(
        &Record::AdmissionInput(Box::new(made)),
        Class::Record,
        "input",
    )
}
