//! Recomputes decision lines, with the market lines before them, from what was known then.

use std::borrow::Cow;
use std::sync::Arc;

use super::Class;
use super::recompute::{BLOB_LOST, Expected, Recompute, Should};
use super::scout::{Item, Known, NOT_KEPT, OfDecision};
use spoolgate_gate::again::{Held, NotAgain};
use spoolgate_gate::approvals::{self, End, Granted, Hold, Resolution, Verdict};
use spoolgate_gate::decide::{Untold, decide_untold};
use spoolgate_gate::handle::Turn;
use spoolgate_gate::record::{CaseDecision, Response, Status};
use spoolgate_gate::{Decided, Decision, Prepared, events, outbox};
use spoolgate_home::batch::{BLOBS_DIR, blob, refuse_instead, render};
use spoolgate_home::cases;
use spoolgate_home::error::HomeError;
use spoolgate_home::sealed;
use spoolgate_rules::Rulebook;
use spoolgate_wire::code::Code;

/// Why the line of a request that may be resent cannot be recomputed.
const FOR_LATER: &str = "its payload is not kept, because the client was to send it again";

/// The lines that should be there: their bodies in order, and what the decision is.
struct Made {
    decided: Decided,
    bodies: Vec<String>,
    class: Class,
    what: Cow<'static, str>,
}

impl<'a> Recompute<'a> {
    /// Recomputes a decision and the market lines `held` before it.
    pub(super) fn decision(
        &mut self,
        item: &'a Item,
        decision: &Decision,
        held: &[&'a Item],
    ) -> Result<(), HomeError> {
        self.report.decisions = self.report.decisions.saturating_add(1);
        let expected = self.next_expected(Some(decision.timestamp));
        let (Some(rules), Known::Decision(known)) = (item.rules.clone(), &item.known) else {
            self.report.missing.extend(item.lost.iter().cloned());
            let why = "its rulebook is lost";
            held.iter().chain([&item]).for_each(|line| {
                self.note(line, Should::Unknown(why.into()));
            });
            return Ok(());
        };
        let made = match expected {
            Some(Expected::End(resolution)) => {
                self.end(item, decision, known, &rules, held, &resolution)
            }
            Some(_) => {
                self.expected.clear();
                Err(Should::NotBe("another line belongs here".to_owned()))
            }
            None if decision.hold.is_some() => self.expiry(item, decision, &rules),
            None => self.again(item, decision, known, &rules, held),
        };
        // The recorded changes are applied anyway; only the reasons for the decision are unknown.
        let made = match (made, known.untold) {
            (Err(_), Some(why)) => Err(Should::Unknown(why.into())),
            (made, _) => made,
        };
        match made {
            Err(should) => {
                if matches!(should, Should::Unknown(_)) {
                    self.report.missing.extend(item.lost.iter().cloned());
                }
                held.iter().for_each(|rows| {
                    self.note(rows, Should::NotBe("its decision differs".to_owned()));
                });
                if matches!(should, Should::Unknown(_)) {
                    self.recorded_answer(item, decision, known)?;
                }
                self.note(item, should);
            }
            Ok(made) => self.compare(item, decision, known, &rules, held, made)?,
        }
        Ok(())
    }

    fn compare(
        &mut self,
        item: &'a Item,
        decision: &Decision,
        known: &OfDecision,
        rules: &Arc<Rulebook>,
        held: &[&'a Item],
        made: Made,
    ) -> Result<(), HomeError> {
        let Made {
            decided,
            bodies,
            class,
            what,
        } = made;
        let markets = decided.market.len();
        let is_same = markets == held.len()
            && held
                .iter()
                .zip(&bodies)
                .all(|(rows, body)| rows.body == *body)
            && bodies.get(markets) == Some(&item.body);
        if !is_same && !item.lost.is_empty() {
            self.report.missing.extend(item.lost.iter().cloned());
            held.iter().chain([&item]).for_each(|line| {
                self.note(line, Should::Unknown(BLOB_LOST.into()));
            });
            return Ok(());
        }
        if let Some(why) = known.untold.filter(|_| !is_same) {
            self.recorded_answer(item, decision, known)?;
            held.iter().chain([&item]).for_each(|line| {
                self.note(line, Should::Unknown(why.into()));
            });
            return Ok(());
        }
        let lacks = known
            .retold
            .as_ref()
            .ok()
            .and_then(|retold| match retold.held {
                Held::NotCausality => Some(NotAgain::NotWhole.as_str()),
                Held::NotPayload => Some(FOR_LATER),
                _ => None,
            });
        if let Some(why) = lacks.filter(|_| !is_same) {
            self.recorded_answer(item, decision, known)?;
            held.iter().chain([&item]).for_each(|line| {
                self.note(line, Should::Unknown(why.into()));
            });
            return Ok(());
        }
        let mut bodies = bodies.into_iter();
        for rows in held {
            let should = match bodies.next().filter(|_| markets == held.len()) {
                Some(body) => Should::Be {
                    body,
                    class: Class::Recomputed,
                    what: "market".into(),
                },
                None => Should::NotBe(format!(
                    "the decision has {markets} lines of rows, not {}",
                    held.len()
                )),
            };
            self.note(rows, should);
        }
        if markets != held.len() {
            let why = format!(
                "its rows have {markets} lines, but {} precede it",
                held.len()
            );
            self.note(item, Should::NotBe(why));
            return Ok(());
        }
        let body = bodies.next().unwrap_or_default();
        let is_granted = decision.hold.is_some();
        if !self.note(item, Should::Be { body, class, what }) {
            if item.concealed {
                self.recorded_answer(item, decision, known)?;
            }
            return Ok(());
        }
        self.answer(item, decision, known, &decided)?;
        if let Some(body) = bodies.next() {
            self.expected.push_back(Expected::Line {
                kind: "council",
                body,
                what: "council",
            });
        }
        // The gate only writes the line of a granted request: it ends no other hold and puts
        // nothing in force in turn.
        if !is_granted {
            let resolves = decided.resolves.filter(|resolution| {
                let held = self.state.approvals.get(resolution.hold);
                held.is_some()
            });
            self.expected.extend(resolves.map(Expected::End));
            self.expect_applied(rules, &decided.decision.changes, decision.timestamp)?;
        }
        Ok(())
    }

    /// Recomputes any decision except the end of a hold.
    fn again(
        &self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
        rules: &Rulebook,
        held: &[&Item],
    ) -> Result<Made, Should> {
        if let Some(why) = self.overdue(decision, rules) {
            return Err(Should::NotBe(why));
        }
        let retold = known
            .retold
            .as_ref()
            .map_err(|why| Should::NotBe(why.to_string()))?;
        let (decided, bodies) = self.decided(
            item,
            decision,
            known,
            rules,
            held,
            &retold.request,
            &retold.untold,
            None,
        )?;
        let (class, what) = match (
            retold.held,
            decision.metadata.replay_of,
            decision.metadata.code,
        ) {
            (Held::Refusal, _, code) if decision.key_id.is_none() => {
                let code = code.map_or("", Code::name);
                (
                    Class::NotAgain,
                    Cow::Owned(format!("{}: {code}", NotAgain::NoSignature.as_str())),
                )
            }
            (Held::Refusal, ..) => (Class::NotAgain, NOT_KEPT.into()),
            (_, Some(_), _) => (Class::Recomputed, "decision, an answer repeated".into()),
            (_, _, Some(Code::RequestIdConflict)) => {
                (Class::Recomputed, "decision, an id used before".into())
            }
            (Held::Enough, ..) => (
                Class::Recomputed,
                "decision, refused before its payload counted".into(),
            ),
            _ => (Class::Recomputed, "decision".into()),
        };
        Ok(Made {
            decided,
            bodies,
            class,
            what,
        })
    }

    /// Returns what the batch should have begun with and did not. Only checked if no line of this
    /// instant came before, because then nothing has changed since the gate looked.
    fn overdue(&self, decision: &Decision, rules: &Rulebook) -> Option<String> {
        let now = decision.timestamp;
        if !self.is_first || self.state.clock.last.is_none_or(|last| last >= now) {
            return None;
        }
        if let Some(hold) = approvals::expired(&self.state, now).first() {
            return Some(format!(
                "the line that ends {} is missing before it: its time has passed",
                hold.id
            ));
        }
        if events::overrides_end(&self.state, rules, now).is_some() {
            return Some("a `tick` line is missing before it: an override was over".to_owned());
        }
        let mut parts = events::new_day(&self.state, rules, now).into_iter();
        let is_due =
            parts.any(|part| !outbox::of_line(&self.state.book, rules, part, now).is_empty());
        is_due.then(|| "a `tick` line is missing before it: a new day has begun".to_owned())
    }

    #[expect(clippy::too_many_arguments, reason = "what one decision reads")]
    fn decided(
        &self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
        rules: &Rulebook,
        held: &[&Item],
        request: &Prepared,
        untold: &Untold,
        granted: Option<Granted<'_>>,
    ) -> Result<(Decided, Vec<String>), Should> {
        let seq = held.first().map_or(item.seq, |rows| rows.seq);
        let (lookups, now) = (&known.lookups, decision.timestamp);
        let turn = Turn {
            state: &self.state,
            rules,
            lookups,
            now,
            seq,
            granted,
        };
        let decided = decide_untold(turn, request, untold);
        match render(&decided) {
            Ok(bodies) => Ok((decided, bodies)),
            Err(why) => {
                let decided = decide_untold(turn, &refuse_instead(request, &why), untold);
                let bodies = render(&decided).map_err(|error| Should::NotBe(error.to_string()))?;
                Ok((decided, bodies))
            }
        }
    }

    /// Recomputes the end of a hold that expired.
    fn expiry(&self, item: &Item, decision: &Decision, rules: &Rulebook) -> Result<Made, Should> {
        let expired = approvals::expired(&self.state, decision.timestamp);
        let Some(hold) = expired.first() else {
            return Err(Should::NotBe(
                "no hold was granted or denied, and none has expired".to_owned(),
            ));
        };
        ended(
            item,
            decision,
            rules,
            hold,
            End::Expired,
            None,
            approvals::expiry(hold),
        )
    }

    /// Recomputes the end of a hold that the line before brought about.
    fn end(
        &self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
        rules: &Rulebook,
        held: &[&Item],
        resolution: &Resolution,
    ) -> Result<Made, Should> {
        let Resolution { hold, by, verdict } = resolution;
        let Some(hold) = self.state.approvals.get(*hold) else {
            return Err(Should::NotBe(format!("{hold} is no longer held")));
        };
        let remember = match verdict {
            Verdict::Denied { reason } => {
                let refusal = approvals::denial(by, reason.as_deref());
                return ended(item, decision, rules, hold, End::Denied, Some(by), refusal);
            }
            Verdict::Granted { remember } => *remember,
        };
        let granted = Some(Granted { hold, by, remember });
        if let Some(request) = &known.unverified {
            let untold = Untold::default();
            let (decided, bodies) = self.decided(
                item, decision, known, rules, held, request, &untold, granted,
            )?;
            let what = "decision, a hold granted whose key had ended".into();
            return Ok(Made {
                decided,
                bodies,
                class: Class::Recomputed,
                what,
            });
        }
        if decision.key_id.is_none() {
            // Whether the bytes could be read at the time is an input.
            let mut made = ended(
                item,
                decision,
                rules,
                hold,
                End::Granted,
                Some(by),
                approvals::bytes_lost(hold),
            )?;
            (made.class, made.what) =
                (Class::Record, "a hold granted whose bytes were lost".into());
            return Ok(made);
        }
        let retold = known
            .retold
            .as_ref()
            .map_err(|why| Should::NotBe(why.to_string()))?;
        let (decided, bodies) = self.decided(
            item,
            decision,
            known,
            rules,
            held,
            &retold.request,
            &retold.untold,
            granted,
        )?;
        Ok(Made {
            decided,
            bodies,
            class: Class::Recomputed,
            what: "decision, a hold granted".into(),
        })
    }

    /// Restores the answer from the line and from what was recomputed.
    fn answer(
        &mut self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
        decided: &Decided,
    ) -> Result<(), HomeError> {
        for (name, _) in &decided.blobs {
            if !sealed::is_kept(self.disk, name)? {
                self.report.missing.insert(format!("{BLOBS_DIR}/{name}"));
            }
        }
        let original = match (decision.metadata.replay_of, &known.original) {
            (Some(_), Some(original)) => original,
            (Some(_), None) => return Ok(()),
            (None, _) => decision,
        };
        if original.status == Status::Pending {
            return self.answer_of_copy(item, decision, known);
        }
        let of = |line: &Decision| -> Result<Option<Vec<u8>>, HomeError> {
            let data = line
                .data_blob
                .as_ref()
                .map(|digest| blob(self.disk, digest))
                .transpose()?
                .flatten();
            if data.is_none() && line.data_blob.is_some() {
                return Ok(None);
            }
            Ok(line
                .answer(data.as_deref())
                .ok()
                .map(|answer| answer.to_bytes()))
        };
        let Some(recorded) = of(original)? else {
            if original.data_blob.is_none() {
                self.note_unanswered(item);
            }
            return Ok(());
        };
        if let (None, Some(digest)) = (decision.metadata.replay_of, &decided.decision.data_blob) {
            let own = decided
                .blobs
                .iter()
                .find(|(name, _)| name == digest)
                .map(|(_, bytes)| bytes.as_slice());
            let answer = decided.decision.answer(own).map(|answer| answer.to_bytes());
            if answer.as_ref().ok() != Some(&recorded) {
                self.note_unanswered(item);
                return Ok(());
            }
        }
        self.report.answers = self.report.answers.saturating_add(1);
        if let Some(files) = self.answers {
            files.note(
                &mut self.report.answered,
                item.seq,
                &decision.answer,
                &recorded,
            );
        }
        Ok(())
    }

    /// Restores the answer of a line that cannot be recomputed, from the line alone: it is the
    /// answer that was given, even if its reasons are unknown.
    pub(super) fn recorded_answer(
        &mut self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
    ) -> Result<(), HomeError> {
        let original = match (decision.metadata.replay_of, &known.original) {
            (Some(_), Some(original)) => original,
            (Some(_), None) => return Ok(()),
            (None, _) => decision,
        };
        if original.status == Status::Pending {
            return self.answer_of_copy(item, decision, known);
        }
        let data = original
            .data_blob
            .as_ref()
            .map(|digest| blob(self.disk, digest))
            .transpose()?
            .flatten();
        if data.is_none() && original.data_blob.is_some() {
            return Ok(());
        }
        let Ok(answer) = original.answer(data.as_deref()) else {
            return Ok(());
        };
        self.report.answers = self.report.answers.saturating_add(1);
        if let Some(files) = self.answers {
            files.note(
                &mut self.report.answered,
                item.seq,
                &decision.answer,
                &answer.to_bytes(),
            );
        }
        Ok(())
    }

    /// Restores the answer of a decision on a case, which is not an answer to one request.
    pub(super) fn case_answer(
        &mut self,
        item: &Item,
        line: &CaseDecision,
    ) -> Result<(), HomeError> {
        for digest in line.decision_blob.iter().chain(&line.record_blob) {
            if blob(self.disk, digest)?.is_none() {
                self.report.missing.insert(format!("{BLOBS_DIR}/{digest}"));
            }
        }
        let decision = line.decision.as_ref().map(|raw| raw.get());
        let text = cases::text(self.disk, decision, line.decision_blob.as_deref())?;
        if let (Some(files), Some(text)) = (self.answers, text) {
            let bytes = format!("{text}\n").into_bytes();
            for answer in line.answers() {
                files.note(&mut self.report.answered, item.seq, answer, &bytes);
            }
        }
        Ok(())
    }

    /// Restores the answer of an outgoing action, which comes from its response. If there is no
    /// response yet, there is no answer either.
    fn answer_of_copy(
        &mut self,
        item: &Item,
        decision: &Decision,
        known: &OfDecision,
    ) -> Result<(), HomeError> {
        match &known.response {
            Some(response) => {
                self.response_answer(item, response, [decision.answer.as_str()].into_iter())
            }
            None => Ok(()),
        }
    }

    /// Restores the answer of a response at these places.
    pub(super) fn response_answer<'p>(
        &mut self,
        item: &Item,
        response: &Response,
        places: impl Iterator<Item = &'p str>,
    ) -> Result<(), HomeError> {
        let revealed = sealed::response(self.disk, response)?;
        let data = response
            .data_blob
            .as_ref()
            .map(|digest| blob(self.disk, digest))
            .transpose()?
            .flatten();
        // A lost blob is reported with its line.
        let Ok(mut answer) = revealed.line.answer(data.as_deref()) else {
            return Ok(());
        };
        answer.redacted = !revealed.is_whole;
        self.report.answers = self.report.answers.saturating_add(1);
        let bytes = answer.to_bytes();
        if let Some(files) = self.answers {
            places.for_each(|place| files.note(&mut self.report.answered, item.seq, place, &bytes));
        }
        Ok(())
    }

    fn note_unanswered(&mut self, item: &Item) {
        self.report.unanswered.insert(item.seq);
    }
}

/// Returns the final answer to a held request that was not decided again.
fn ended(
    item: &Item,
    decision: &Decision,
    rules: &Rulebook,
    hold: &Hold,
    end: End,
    by: Option<&spoolgate_wire::ids::Principal>,
    refusal: spoolgate_gate::prepare::Refusal,
) -> Result<Made, Should> {
    let decided = approvals::ended(
        hold,
        end,
        by,
        refusal,
        &rules.hash,
        decision.timestamp,
        item.seq,
    );
    let bodies = render(&decided).map_err(|error| Should::NotBe(error.to_string()))?;
    Ok(Made {
        decided,
        bodies,
        class: Class::Recomputed,
        what: "decision, the end of a hold".into(),
    })
}
