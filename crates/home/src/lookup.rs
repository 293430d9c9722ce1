//! What a decision looks up, written once: [`fill`] determines which facts a request needs, and a
//! [`Lookup`] provides them.
//!
//! A gate asks its index and the lines that are still on their way into the ledger; `audit replay`
//! asks the lines before the decision. The two differ only in facts that no line records.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use super::batch::{Pending, blob};
use super::cases;
use super::core::Core;
use super::error::HomeError;
use super::open::Home;
use super::proposals::{applied, steps};
use super::rule_files::holds_any;
use super::sealed;
use crate::index::decisions::UsedId;
use crate::index::proposals::{ProposalRow, Standing};
use crate::index::{Store, StoreError};
use spoolgate_admission::lineage::{Lineage, Query};
use spoolgate_admission::settle::Task;
use spoolgate_control::Earlier;
use spoolgate_council::case::Docket;
use spoolgate_gate::council::Said;
use spoolgate_gate::decide::{CASES_MAX, FILLS_MAX, Lookups, Needs, needs};
use spoolgate_gate::history::{self, History};
use spoolgate_gate::prepare::{Keyring, Origin, Prepared};
use spoolgate_gate::proposals::Change as Step;
use spoolgate_gate::{Record, Seen};
use spoolgate_host::keyring::CachedKeyring;
use spoolgate_ledger::LedgerError;
use spoolgate_ledger::disk::Disk;
use spoolgate_rules::{Rulebook, services};
use spoolgate_trading::order::Fill;
use spoolgate_trading::requests::ClosedOrder;
use spoolgate_wire::ids::{
    ControlId, ExecId, OrderId, Principal, ProposalId, RequestId, ServiceName,
};
use spoolgate_wire::time::Time;

/// A source of facts. What an index knows is the same for all; each source provides the rest
/// itself.
pub trait Lookup {
    /// Returns the rulebook to decide by.
    fn rules(&self) -> &Rulebook;

    /// Returns the disk with the files of the home.
    fn disk(&self) -> &dyn Disk;

    /// Returns the index as of the request.
    fn store(&self) -> &Store;

    /// Returns the time at which the request is decided.
    fn now(&self) -> Time;

    /// Returns a line that exists if the index refers to it; `None` if its content is lost.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the line cannot be read.
    fn record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError>;

    /// Returns a line that a sender names; `None` if there is no line of this number.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index or the line cannot be read.
    fn named_record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        self.record(seq)
    }

    /// Returns the payload of a line; `None` if it is lost.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the line or its blob cannot be read.
    fn payload(&self, seq: u64) -> Result<Option<String>, HomeError> {
        match self.record(seq)? {
            Some(record) => cases::payload(self.disk(), &record),
            None => Ok(None),
        }
    }

    /// Returns the content with this digest; `None` if it is lost.
    ///
    /// # Errors
    /// Returns the disk's error.
    fn blob(&self, digest: &str) -> Result<Option<Vec<u8>>, HomeError> {
        blob(self.disk(), digest)
    }

    /// Reports whether the answer of an earlier request cannot be rebuilt. No line records this and
    /// the next three facts; `None` keeps what was known before.
    ///
    /// # Errors
    /// Returns [`HomeError`] if segments with that answer were pruned.
    fn answer_is_lost(&self, _seen: &Seen) -> Result<Option<bool>, HomeError> {
        Ok(None)
    }

    /// Reports whether the keyring holds a key or a credential.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the keyring cannot be read.
    fn is_held(&self, _secret: &Secret<'_>) -> Result<Option<bool>, HomeError> {
        Ok(None)
    }

    /// Reports whether only signatures approve proposals.
    fn only_signatures_approve(&self) -> Option<bool> {
        None
    }

    /// Reports whether a rule's file differs from the rulebook in force.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index or the ledger cannot be read.
    fn rule_file_differs(&self, _path: &str) -> Result<Option<bool>, HomeError> {
        Ok(None)
    }

    /// Returns the request with this source and id.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn seen(&self, source: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        self.store().seen(source, id)
    }

    /// Returns the request with this id in a spool, from any source.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn seen_in_spool(&self, spool: &str, id: &str) -> Result<Option<Seen>, StoreError> {
        self.store().seen_in_spool(spool, id)
    }

    /// Returns how an order ended.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn closed_order(&self, id: OrderId) -> Result<Option<ClosedOrder>, StoreError> {
        self.store().closed_order(id)
    }

    /// Returns the oldest fills since a time, at most one more than [`FILLS_MAX`].
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn fills_since(&self, since: Time) -> Result<Vec<Fill>, StoreError> {
        self.store().fills_since(since, FILLS_MAX + 1)
    }

    /// Returns the lineage of a task.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be read.
    fn lineage(&self, query: &Query) -> Result<Lineage, HomeError> {
        Ok(self.store().lineage(query)?)
    }

    /// Returns the task that a line admitted.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the index cannot be read.
    fn task_of_line(&self, line: u64) -> Result<Option<Task>, HomeError> {
        Ok(self.store().task_of_line(line)?)
    }

    /// Returns what was accepted from a sender before.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn history(&self, query: &history::Query) -> Result<History, StoreError> {
        self.store().history(query, self.now())
    }

    /// Returns the line that booked a report.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn booked_in(&self, bridge: &Principal, exec_id: &ExecId) -> Result<Option<u64>, StoreError> {
        self.store().booked_in(bridge, exec_id)
    }

    /// Returns what a sender's decision id was used for.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn used_id(&self, source: &Principal, id: &ControlId) -> Result<Option<UsedId>, StoreError> {
        self.store().used_id(source, id)
    }

    /// Returns the standing of a proposal.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StoreError> {
        self.store().proposal(id)
    }

    /// Returns what is known about a council case.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn docket(&self, id: &RequestId) -> Result<Option<Docket>, StoreError> {
        self.store().docket(id)
    }

    /// Returns the oldest open council cases and the newest of all, newest first, at most
    /// [`CASES_MAX`] of each.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the index cannot be read.
    fn dockets(&self) -> Result<Vec<Docket>, StoreError> {
        let mut ids: BTreeSet<RequestId> = BTreeSet::new();
        ids.extend(self.store().open_cases(CASES_MAX)?);
        ids.extend(self.store().newest_cases(CASES_MAX)?);
        let mut found = Vec::new();
        for id in ids {
            found.extend(self.docket(&id)?);
        }
        found.sort_by_key(|docket| Reverse(docket.request));
        Ok(found)
    }

    /// Returns the payload hash of a case's request as it was signed, if the request has sealed
    /// members.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the line or a blob cannot be read.
    fn signed_case(&self, docket: &Docket) -> Result<Option<String>, HomeError> {
        sealed::signed_hash(self.disk(), self.record(docket.request)?.as_deref())
    }

    /// Returns what was said in a case so far.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a line or a blob cannot be read.
    fn said(&self, docket: &Docket) -> Result<Said, HomeError> {
        cases::said(docket, |seq| self.payload(seq))
    }
}

/// A secret that may be in the keyring.
pub enum Secret<'a> {
    /// A key, by its id.
    Key(&'a str),
    /// The credential of a service, by its id.
    Credential(&'a ServiceName, &'a str),
}

impl Secret<'_> {
    /// Reports whether a keyring holds it.
    ///
    /// # Errors
    /// Returns [`HomeError::Keyring`] if the keyring cannot be read.
    pub(super) fn is_in(&self, keyring: &CachedKeyring) -> Result<bool, HomeError> {
        Ok(match self {
            Secret::Key(key_id) => {
                let is_held = keyring.verify_key(key_id).is_some();
                keyring.check()?;
                is_held
            }
            Secret::Credential(service, id) => keyring.inner().credential(service, id)?.is_some(),
        })
    }
}

/// Fills in what deciding `request` reads. Facts that were filled in before an error stay.
///
/// # Errors
/// Returns [`HomeError`] if a look-up fails.
pub fn fill(
    lookups: &mut Lookups,
    request: &Prepared,
    from: &impl Lookup,
) -> Result<(), HomeError> {
    let Ok(authentic) = &request.request else {
        return Ok(());
    };
    let (source, id) = (
        authentic.envelope.source.as_str(),
        authentic.envelope.id.as_str(),
    );
    lookups.seen = from.seen(source, id)?;
    if request.origin != Origin::Local {
        lookups.seen_in_spool = from.seen_in_spool(&request.origin.label(), id)?;
    }
    if let Some(seen) = &lookups.seen {
        lookups.answer_is_lost = from.answer_is_lost(seen)?.unwrap_or(lookups.answer_is_lost);
    }
    let needs = needs(request, from.rules());
    if let Some(order_id) = needs.closed_order {
        lookups.closed_order = from.closed_order(order_id)?;
    }
    if let Some(since) = needs.fills_since {
        lookups.fills = from.fills_since(since)?;
    }
    if needs.cases {
        lookups.cases = from.dockets()?;
    }
    if let Some(digest) = &needs.rows {
        lookups.rows = from.blob(digest)?;
    }
    let key = needs.key.as_deref().map(Secret::Key);
    let credential = needs
        .credential
        .as_ref()
        .map(|(service, id)| Secret::Credential(service, id));
    for secret in key.iter().chain(&credential) {
        lookups.key_is_held = from.is_held(secret)?.unwrap_or(lookups.key_is_held);
    }
    if let Some(query) = &needs.lineage {
        lookups.lineage = from.lineage(query)?;
    }
    if let Some(line) = needs.task {
        lookups.task = from.task_of_line(line)?;
    }
    if let Some(query) = &needs.history {
        lookups.history = Some(from.history(query)?);
    }
    if let Some((bridge, exec_id)) = &needs.report {
        lookups.booked_in = from.booked_in(bridge, exec_id)?;
    }
    fill_proposal(lookups, &needs, from)?;
    if let Some((source, id)) = &needs.control
        && let Some(used) = from.used_id(source, id)?
    {
        let record = from.record(used.seq)?;
        lookups.decided = Some(earlier(from.disk(), used, record.as_deref())?);
    }
    if let Some(id) = &needs.case {
        lookups.docket = from.docket(id)?;
        if let (None, Some(alias)) = (&lookups.docket, &needs.case_of_alias) {
            lookups.docket = from.docket(alias)?;
        }
        if let Some(docket) = &lookups.docket {
            lookups.signed_case = from.signed_case(docket)?;
        }
    }
    Ok(())
}

/// Fills in what deciding on a proposal reads.
fn fill_proposal(
    lookups: &mut Lookups,
    needs: &Needs,
    from: &impl Lookup,
) -> Result<(), HomeError> {
    let mut path = needs.rule_file.as_deref();
    if let Some(id) = needs.proposal {
        lookups.only_signatures_approve = from
            .only_signatures_approve()
            .unwrap_or(lookups.only_signatures_approve);
        lookups.proposal = last_step(from, id)?;
        if let Some(Step::Pended { proposed, .. } | Step::Applied { proposed, .. }) =
            &lookups.proposal
        {
            path = Some(&proposed.path);
        }
    }
    if let Some(path) = path {
        lookups.rule_file_differs = from
            .rule_file_differs(path)?
            .unwrap_or(lookups.rule_file_differs);
    }
    for seq in &needs.evidence {
        let is_decision = matches!(
            from.named_record(*seq)?.as_deref(),
            Some(Record::Decision(_))
        );
        lookups.evidence_found = lookups
            .evidence_found
            .saturating_add(usize::from(is_decision));
    }
    if let Some(id) = &needs.citation
        && let Some(docket) = from.docket(id)?
    {
        let request = from.said(&docket)?.request;
        lookups.citation = Some((docket, request));
    }
    Ok(())
}

/// Returns the last step of a proposal.
///
/// # Errors
/// Returns [`HomeError`] if the index or the line cannot be read.
pub(super) fn last_step(from: &impl Lookup, id: ProposalId) -> Result<Option<Step>, HomeError> {
    match from.proposal(id)? {
        Some(row) => step_in(&row, |line| from.record(line)),
        None => Ok(None),
    }
}

/// Returns the last step of a proposal, from the line that the index names.
///
/// # Errors
/// Returns the error of `record`.
pub fn step_in<'a>(
    row: &ProposalRow,
    record: impl FnOnce(u64) -> Result<Option<Cow<'a, Record>>, HomeError>,
) -> Result<Option<Step>, HomeError> {
    let line = if row.standing == Standing::Reverted {
        row.record
    } else {
        Some(row.seq)
    };
    let record = line.map(record).transpose()?.flatten();
    let mut own = record.iter().flat_map(|record| steps(record.changes()));
    Ok(own.find(|step| step.proposal_id() == row.id).cloned())
}

/// Returns what an id was used for, from the line that used it.
///
/// # Errors
/// Returns [`HomeError`] if a blob cannot be read.
fn earlier(disk: &dyn Disk, used: UsedId, record: Option<&Record>) -> Result<Earlier, HomeError> {
    let mut earlier = Earlier {
        seq: used.seq,
        payload_hash: used.payload_hash,
        status: used.status,
        payload: None,
        data: None,
        message: None,
    };
    if let Some(Record::Decision(decision)) = record {
        earlier.payload = cases::text(
            disk,
            decision.payload.as_deref(),
            decision.payload_blob.as_deref(),
        )?;
        let data = decision.data.as_ref().map(|raw| raw.get());
        earlier.data = cases::text(disk, data, decision.data_blob.as_deref())?;
        earlier.message = decision.metadata.message.clone();
    }
    Ok(earlier)
}

/// An open home, with the lines of a batch that are still on their way into the ledger.
pub(super) struct Live<'a> {
    pub(super) core: &'a Core,
    pub(super) pending: &'a Pending,
    pub(super) now: Time,
}

impl Lookup for Live<'_> {
    fn rules(&self) -> &Rulebook {
        &self.core.rulebook
    }

    fn disk(&self) -> &dyn Disk {
        self.core.seams.disk.as_ref()
    }

    fn store(&self) -> &Store {
        &self.core.store
    }

    fn now(&self) -> Time {
        self.now
    }

    fn record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        self.core.record_with(self.pending, seq)
    }

    fn named_record(&self, seq: u64) -> Result<Option<Cow<'_, Record>>, HomeError> {
        let is_known =
            seq >= self.core.ledger.position().seq || self.core.store.line(seq)?.is_some();
        if is_known { self.record(seq) } else { Ok(None) }
    }

    fn answer_is_lost(&self, seen: &Seen) -> Result<Option<bool>, HomeError> {
        // The answer of a request in this batch does not exist yet.
        if seen.seq >= self.core.ledger.position().seq {
            return Ok(None);
        }
        Ok(Some(match self.core.answer_if_any(seen.seq) {
            Err(HomeError::AnswerLost(_)) => true,
            Err(error @ HomeError::Ledger(LedgerError::Pruned(_))) => return Err(error),
            _ => false,
        }))
    }

    fn is_held(&self, secret: &Secret<'_>) -> Result<Option<bool>, HomeError> {
        secret.is_in(&self.core.keyring).map(Some)
    }

    fn only_signatures_approve(&self) -> Option<bool> {
        Some(self.core.rulebook.approvers.is_some())
    }

    fn rule_file_differs(&self, path: &str) -> Result<Option<bool>, HomeError> {
        let in_force = self.core.rulebook.files.files.get(path).map(String::as_str);
        // Rule files that lines of this batch change are written only after the seal.
        let ahead = self
            .pending
            .records
            .iter()
            .flat_map(|record| applied(record.changes()));
        let ahead = ahead.filter(|(proposed, _)| proposed.path == path);
        let mut known: Vec<Option<&str>> =
            ahead.map(|(proposed, _)| proposed.old.as_deref()).collect();
        let is_services = path == services::PATH;
        let before = if is_services {
            self.core.services_before(self.pending)?
        } else {
            Vec::new()
        };
        known.extend(before.iter().map(Option::as_deref));
        known.push(in_force);
        Ok(Some(!holds_any(self.disk(), Path::new(path), &known)))
    }
}

impl Home {
    /// Returns a look-up over the home and the batch so far.
    pub(super) fn live<'a>(&'a self, pending: &'a Pending, now: Time) -> Live<'a> {
        Live {
            core: &self.core,
            pending,
            now,
        }
    }

    /// Looks up what deciding a request reads besides the state.
    ///
    /// # Errors
    /// Returns [`HomeError`] if a look-up fails for another reason than pruning.
    pub(super) fn look_up(
        &self,
        pending: &Pending,
        request: &Prepared,
        now: Time,
    ) -> Result<Lookups, HomeError> {
        let mut lookups = Lookups::default();
        match fill(&mut lookups, request, &self.live(pending, now)) {
            // A request is not decided on half of its facts: its decision names the missing files.
            Err(HomeError::Ledger(LedgerError::Pruned(missing))) => {
                lookups.pruned = Some(missing.files())
            }
            other => other?,
        }
        Ok(lookups)
    }
}
