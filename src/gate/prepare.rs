//! From claimed bytes to an authenticated request: strict JSON, envelope, signature, payload. What fails
//! before its signature verified is answered under its file name only, so that a forged request cannot
//! take anybody's answer.

use std::borrow::Borrow;

use serde::Deserialize;

use super::actions::{self, Action, ActionRule, Lane};
use super::admission::Way;
use super::check;
use super::sealing;
use super::services;
use super::state::State;
use crate::trading::class::{self, Class};
use crate::wire::admin::{
    AcceptClock, AddKey, AdjustAccount, ClearHalt, Heartbeat, ImportMarket, REASON_BYTES_MAX, RevokeKey,
    SetHalt, UpdateFunding, is_digest,
};
use crate::wire::admission::{AdmissionAttempt, InvalidatePolicy};
use crate::wire::amount::Amount;
use crate::wire::approvals::{AddGrant, DenyApproval, EndGrant, GrantApproval};
use crate::wire::code::Code;
use crate::wire::control::{ControlAttempt, GetStrategy};
use crate::wire::council::{CouncilRequest, SubmitVerdict};
use crate::wire::envelope::{Envelope, EnvelopeError};
use crate::wire::gateway::GatewayCall;
use crate::wire::ids::Principal;
use crate::wire::market::UpdateMarket;
use crate::wire::orders::{CancelOrder, Empty, GetMarket, ListFills, SubmitOrder, TightenStop};
use crate::wire::proposals::{ApproveProposal, EndProposal, RuleProposal};
use crate::wire::requests::CheckRequest;
use crate::wire::services::{AddService, NameService, SetCredential};
use crate::wire::shape;
use crate::wire::signing::{self, VerifyKey};
use crate::wire::time::Time;
use crate::wire::venue::VenueReport;

/// Which spool a file came through; the answer goes the same way back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `spool/local/in`: the gate's own user at a command line.
    Local,
    /// `spool/in`.
    Flat,
    /// `spool/in/<agent>/new`.
    Agent(Principal),
    /// No file: a frame of the socket.
    Socket,
}

impl Origin {
    /// `local`, `flat`, `agent-<name>` or `socket`.
    pub fn label(&self) -> String {
        match self {
            Origin::Local => "local".to_owned(),
            Origin::Flat => "flat".to_owned(),
            Origin::Agent(name) => format!("agent-{name}"),
            Origin::Socket => "socket".to_owned(),
        }
    }

    /// Reads a label back.
    pub fn from_label(label: &str) -> Option<Origin> {
        match label {
            "local" => Some(Origin::Local),
            "flat" => Some(Origin::Flat),
            "socket" => Some(Origin::Socket),
            other => Principal::parse(other.strip_prefix("agent-")?).ok().map(Origin::Agent),
        }
    }

    /// Whether a principal whose own spool folder is `bound` may use this one.
    pub fn is_for(&self, bound: Option<&Principal>) -> bool {
        match (self, bound) {
            (Origin::Local, _) | (Origin::Flat | Origin::Socket, None) => true,
            (Origin::Agent(used), Some(own)) => used == own,
            (Origin::Flat | Origin::Socket, Some(_)) | (Origin::Agent(_), None) => false,
        }
    }

    /// Folder of the answers, below the spool. Those of the socket are no files.
    pub fn answer_dir(&self) -> String {
        match self {
            Origin::Local => "local/out".to_owned(),
            Origin::Flat => "out".to_owned(),
            Origin::Agent(name) => format!("out/{name}"),
            Origin::Socket => "socket".to_owned(),
        }
    }
}

/// Longest text of a refusal before the remedy, in characters.
const REFUSAL_CHARS_MAX: usize = 1000;

/// Why something was refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code.
    pub code: Code,
    /// What, where and what to do.
    pub message: String,
}

impl Refusal {
    /// A refusal whose message ends with the code's remedy. What senders wrote may stand in `what`, so it
    /// is cut to a length that a ledger line holds, and what a terminal obeys is escaped.
    pub fn new(code: Code, what: impl AsRef<str>) -> Refusal {
        let what = escaped(what.as_ref());
        Refusal { code, message: format!("{what}; {}", code.remedy()) }
    }
}

/// Text with what a terminal obeys escaped: control characters, C1 ones included, which JSON leaves as they
/// are, and what turns the direction of writing.
pub fn escaped(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.len() <= REFUSAL_CHARS_MAX && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars().take(REFUSAL_CHARS_MAX) {
        if obeyed(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// A claimed file.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Where it came from.
    pub origin: Origin,
    /// Its name; `=` and 16 hex digits for a name that is not one.
    pub file: String,
    /// Its name for messages: escaped, cut.
    pub shown: String,
    /// Its bytes, or why there are none to decide on.
    pub content: Result<Vec<u8>, Refusal>,
}

/// A delivery after authentication.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Where it came from.
    pub origin: Origin,
    /// Its file name.
    pub file: String,
    /// SHA-256 of its bytes, if they were read.
    pub file_sha256: Option<String>,
    /// Their number.
    pub file_bytes: Option<u64>,
    /// The request, or why it is none.
    pub request: Result<Authentic, Box<Unverified>>,
}

/// A request whose signature is good.
#[derive(Clone, Debug)]
pub struct Authentic {
    /// Its envelope.
    pub envelope: Envelope,
    /// The key that verified it.
    pub key_id: String,
    /// SHA-256 of its payload, hex.
    pub payload_hash: String,
    /// SHA-256 of its signing string, hex.
    pub request_hash: String,
    /// What it asks for, or why that cannot be read.
    pub body: Result<Body, Refusal>,
}

/// An action with its payload.
#[derive(Clone, Debug)]
pub struct Body {
    /// The action's row.
    pub rule: &'static ActionRule,
    /// The payload.
    pub payload: Payload,
}

/// What is known of bytes that are no verified request.
#[derive(Clone, Debug)]
pub struct Unverified {
    /// The envelope, if it is one.
    pub envelope: Option<Envelope>,
    /// Why it is refused.
    pub refusal: Refusal,
}

/// One payload an action.
#[derive(Clone, Debug)]
pub enum Payload {
    /// `order.submit`.
    Submit(SubmitOrder),
    /// `order.cancel`.
    Cancel(CancelOrder),
    /// `order.tighten_stop`.
    Tighten(TightenStop),
    /// `portfolio.get`.
    Portfolio,
    /// `orders.list`.
    Orders,
    /// `fills.list`.
    Fills(ListFills),
    /// `market.get`.
    Market(GetMarket),
    /// `request.check`.
    Check(Box<CheckRequest>),
    /// `council.request`.
    Council(Box<CouncilRequest>),
    /// `council.verdict`.
    Verdict(SubmitVerdict),
    /// `admission.evaluate`, `admission.admit`, `admission.check`.
    Admission(Way, Box<AdmissionAttempt>),
    /// `admission.health`.
    AdmissionHealth,
    /// `admission.cache_clear`, or `admission.cache_invalidate` of one profile.
    ForgetPolicies(Option<InvalidatePolicy>),
    /// `control.apply`, whatever its payload is: of the wrong shape it has the contract's answer too.
    Control(Box<ControlAttempt>),
    /// `strategies.list`.
    Strategies,
    /// `strategies.get`.
    Strategy(GetStrategy),
    /// `rule.propose`.
    Propose(Box<RuleProposal>),
    /// `proposal.approve`.
    ApproveProposal(ApproveProposal),
    /// `proposal.decline`.
    DeclineProposal(EndProposal),
    /// `proposal.revert`.
    RevertProposal(EndProposal),
    /// One of the nine that leave the machine.
    Gateway(Box<GatewayCall>),
    /// `market.import`.
    Import(ImportMarket),
    /// `market.update`.
    Update(UpdateMarket),
    /// `funding.update`.
    Funding(UpdateFunding),
    /// `venue.report`.
    Report(VenueReport),
    /// `halt.set`.
    SetHalt(SetHalt),
    /// `halt.clear`.
    ClearHalt(ClearHalt),
    /// `heartbeat`.
    Heartbeat(Heartbeat),
    /// `account.adjust`.
    Adjust(AdjustAccount),
    /// `clock.accept`.
    AcceptClock(AcceptClock),
    /// `keys.add`, and `keys.rotate` where `others_end` is given.
    AddKey(AddKey),
    /// `keys.revoke`.
    RevokeKey(RevokeKey),
    /// `services.add`, `services.remove`, `services.deactivate`, `services.activate`.
    Services(Box<services::Asked>),
    /// `services.credential`.
    Credential(SetCredential),
    /// `approval.grant`.
    GrantApproval(GrantApproval),
    /// `approval.deny`.
    DenyApproval(DenyApproval),
    /// `grant.add`.
    AddGrant(AddGrant),
    /// `grant.end`.
    EndGrant(EndGrant),
}

/// Where verification finds the keys that the state names.
pub trait Keyring {
    /// What verifies signatures of this key, if the keyring has it.
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey>;
}

/// Authenticates a delivery under the keys active at `now`. Of a borrowed one the bytes are not copied: they
/// can be the largest there are.
pub fn prepare(delivery: impl Borrow<Delivery>, state: &State, keyring: &dyn Keyring, now: Time) -> Prepared {
    let Delivery { origin, file, shown, content } = delivery.borrow();
    let bytes = content.as_ref().ok();
    let file_sha256 = bytes.map(|bytes| signing::sha256_hex(bytes));
    let file_bytes = bytes.and_then(|bytes| u64::try_from(bytes.len()).ok());
    let request = match content {
        Ok(bytes) => authenticate(bytes, shown, state, keyring, now),
        Err(refusal) => Err(Box::new(Unverified { envelope: None, refusal: refusal.clone() })),
    };
    Prepared { origin: origin.clone(), file: file.clone(), file_sha256, file_bytes, request }
}

fn authenticate(
    bytes: &[u8],
    shown: &str,
    state: &State,
    keyring: &dyn Keyring,
    now: Time,
) -> Result<Authentic, Box<Unverified>> {
    let envelope = Envelope::parse(bytes).map_err(|error| {
        let code = match error {
            EnvelopeError::Json(_) => Code::MalformedJson,
            EnvelopeError::Shape(_) => Code::MalformedEnvelope,
        };
        Box::new(Unverified {
            envelope: None,
            refusal: Refusal::new(code, format!("file `{shown}`: {error}")),
        })
    })?;
    let payload_hash = envelope.payload_hash();
    let message = envelope.signing_string_of(&payload_hash);
    let verified = state.active_keys(&envelope.source, now).find(|key_id| {
        keyring.verify_key(key_id).is_some_and(|key| key.verifies(&message, &envelope.signature))
    });
    let Some(key_id) = verified.map(str::to_owned) else {
        // The same words for a source without keys and for a wrong signature: who has keys is not for
        // strangers to learn.
        let what =
            format!("file `{shown}`: the signature is not one of `{}` over this request", envelope.source);
        let refusal = Refusal::new(Code::SignatureInvalid, what);
        return Err(Box::new(Unverified { envelope: Some(envelope), refusal }));
    };
    let request_hash = signing::sha256_hex(message.as_bytes());
    let body = read_body(&envelope, bytes.len());
    Ok(Authentic { envelope, key_id, payload_hash, request_hash, body })
}

pub(super) fn read_body(envelope: &Envelope, file_bytes: usize) -> Result<Body, Refusal> {
    let rule = actions::find(&envelope.action).ok_or_else(|| {
        Refusal::new(Code::UnknownAction, format!("there is no action `{}`", envelope.action))
    })?;
    if file_bytes > rule.bytes_max {
        let what =
            format!("the file has {file_bytes} bytes, `{}` takes at most {}", rule.name, rule.bytes_max);
        return Err(Refusal::new(Code::TooLarge, what));
    }
    let payload = read_payload(rule, &envelope.payload).map_err(|why| {
        // The refusal stands in the ledger for ever.
        let why = if rule.sealed.is_empty() { why.into() } else { sealing::without_values(&why) };
        Refusal::new(Code::MalformedPayload, format!("payload of `{}`: {why}", rule.name))
    })?;
    Ok(Body { rule, payload })
}

fn read_payload(rule: &ActionRule, text: &str) -> Result<Payload, String> {
    let action = rule.action;
    fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
        shape::from_json(text).map_err(|error| error.to_string())
    }
    let payload = match action {
        Action::OrderSubmit => {
            let order: SubmitOrder = read(text)?;
            order.validate()?;
            Payload::Submit(order)
        }
        Action::OrderCancel => Payload::Cancel(read(text)?),
        Action::OrderTightenStop => {
            let tighten: TightenStop = read(text)?;
            if !tighten.new_stop.is_positive() {
                return Err(format!("`new_stop` is {}; it must be above 0", tighten.new_stop));
            }
            Payload::Tighten(tighten)
        }
        Action::PortfolioGet => read::<Empty>(text).map(|Empty {}| Payload::Portfolio)?,
        Action::OrdersList => read::<Empty>(text).map(|Empty {}| Payload::Orders)?,
        Action::FillsList => Payload::Fills(read(text)?),
        Action::MarketGet => Payload::Market(read(text)?),
        Action::RequestCheck => {
            let asked: CheckRequest = read(text)?;
            if !check::is_checked(&asked.action) {
                let known: Vec<&str> = check::checked().collect();
                return Err(format!(
                    "`action` is none of those that can be asked about: {}",
                    known.join(", ")
                ));
            }
            if !asked.payload.get().starts_with('{') {
                return Err("`payload` must be an object: that of the action that is asked about".to_owned());
            }
            Payload::Check(Box::new(asked))
        }
        Action::CouncilRequest => {
            let request: CouncilRequest = read(text)?;
            request.validate()?;
            Payload::Council(Box::new(request))
        }
        Action::CouncilVerdict => {
            let submit: SubmitVerdict = read(text)?;
            submit.validate()?;
            Payload::Verdict(submit)
        }
        Action::AdmissionEvaluate => {
            Payload::Admission(Way::Evaluate, Box::new(AdmissionAttempt::read(text)))
        }
        Action::AdmissionAdmit => Payload::Admission(Way::Admit, Box::new(AdmissionAttempt::read(text))),
        Action::AdmissionCheck => Payload::Admission(Way::Check, Box::new(AdmissionAttempt::read(text))),
        Action::AdmissionHealth => read::<Empty>(text).map(|Empty {}| Payload::AdmissionHealth)?,
        Action::AdmissionCacheClear => read::<Empty>(text).map(|Empty {}| Payload::ForgetPolicies(None))?,
        Action::AdmissionCacheInvalidate => Payload::ForgetPolicies(Some(read(text)?)),
        Action::ControlApply => Payload::Control(Box::new(ControlAttempt::read(text))),
        Action::StrategiesList => read::<Empty>(text).map(|Empty {}| Payload::Strategies)?,
        Action::StrategiesGet => Payload::Strategy(read(text)?),
        Action::RulePropose => {
            let proposal: RuleProposal = read(text)?;
            proposal.validate()?;
            Payload::Propose(Box::new(proposal))
        }
        Action::ProposalApprove => {
            let approve: ApproveProposal = read(text)?;
            approve.validate()?;
            Payload::ApproveProposal(approve)
        }
        Action::ProposalDecline => {
            Payload::DeclineProposal(with_reason(read(text)?, |p: &EndProposal| &p.reason)?)
        }
        Action::ProposalRevert => {
            Payload::RevertProposal(with_reason(read(text)?, |p: &EndProposal| &p.reason)?)
        }
        Action::EmailSend
        | Action::EmailDraft
        | Action::EmailFetch
        | Action::CalendarFetch
        | Action::CalendarCreate
        | Action::CalendarUpdate
        | Action::FinanceFetchTransactions
        | Action::HealthFetch
        | Action::ServiceApiCall => Payload::Gateway(Box::new(GatewayCall::read(rule.name, text)?)),
        Action::MarketImport => {
            let import: ImportMarket = read(text)?;
            if !is_digest(&import.rows_sha256) || !is_digest(&import.file_sha256) {
                return Err("`rows_sha256` and `file_sha256` are 64 lower-case hex digits".to_owned());
            }
            if import.file_name.len() > 255 {
                return Err("`file_name` is longer than 255 bytes".to_owned());
            }
            Payload::Import(import)
        }
        Action::MarketUpdate => {
            let update: UpdateMarket = read(text)?;
            update.validate()?;
            Payload::Update(update)
        }
        Action::FundingUpdate => {
            let update: UpdateFunding = read(text)?;
            if update.rate.abs() >= Amount::ONE {
                return Err(format!("`rate` is {}; it must be between -1 and 1, as 0.0001", update.rate));
            }
            Payload::Funding(update)
        }
        Action::VenueReport => Payload::Report(read(text)?),
        Action::HaltSet => Payload::SetHalt(with_reason(read(text)?, |p: &SetHalt| &p.reason)?),
        Action::HaltClear => Payload::ClearHalt(with_reason(read(text)?, |p: &ClearHalt| &p.reason)?),
        Action::Heartbeat => Payload::Heartbeat(read(text)?),
        Action::AccountAdjust => Payload::Adjust(with_reason(read(text)?, |p: &AdjustAccount| &p.reason)?),
        Action::ClockAccept => Payload::AcceptClock(with_reason(read(text)?, |p: &AcceptClock| &p.reason)?),
        Action::KeysAdd | Action::KeysRotate => {
            let add: AddKey = read(text)?;
            check_key_id(&add.key_id)?;
            match (action, add.others_end) {
                (Action::KeysAdd, Some(_)) => return Err("`others_end` belongs to keys.rotate".to_owned()),
                (Action::KeysRotate, None) => return Err("`others_end` is missing".to_owned()),
                _ => Payload::AddKey(add),
            }
        }
        Action::KeysRevoke => {
            let revoke: RevokeKey = with_reason(read(text)?, |p: &RevokeKey| &p.reason)?;
            check_key_id(&revoke.key_id)?;
            Payload::RevokeKey(revoke)
        }
        Action::ServicesAdd => {
            let add: AddService = read(text)?;
            services::check_added(&add)?;
            Payload::Services(Box::new(services::Asked::Add(add)))
        }
        Action::ServicesRemove => {
            let NameService { service } = read(text)?;
            Payload::Services(Box::new(services::Asked::Remove(service)))
        }
        Action::ServicesDeactivate | Action::ServicesActivate => {
            let NameService { service } = read(text)?;
            let is_active = action == Action::ServicesActivate;
            Payload::Services(Box::new(services::Asked::Allow(service, is_active)))
        }
        Action::ServicesCredential => {
            let set: SetCredential = read(text)?;
            let is_id = |id: &String| id.len() == 32 && signing::unhex(id).is_some();
            if !set.credential_id.as_ref().is_none_or(is_id) {
                return Err("`credential_id` is not 32 lower-case hex digits".to_owned());
            }
            Payload::Credential(set)
        }
        Action::ApprovalGrant => {
            let grant: GrantApproval = read(text)?;
            check_approval(&grant.request_sha256, grant.reason.as_deref())?;
            Payload::GrantApproval(grant)
        }
        Action::ApprovalDeny => {
            let deny: DenyApproval = read(text)?;
            check_approval(&deny.request_sha256, deny.reason.as_deref())?;
            Payload::DenyApproval(deny)
        }
        Action::GrantAdd => Payload::AddGrant(read(text)?),
        Action::GrantEnd => Payload::EndGrant(read(text)?),
    };
    Ok(payload)
}

fn with_reason<T>(payload: T, reason: impl Fn(&T) -> &String) -> Result<T, String> {
    let text = reason(&payload);
    if text.trim().is_empty() || text.len() > REASON_BYTES_MAX {
        return Err(format!("`reason` has {} bytes; say why in 1 to {REASON_BYTES_MAX}", text.len()));
    }
    Ok(payload)
}

fn check_approval(request_sha256: &str, reason: Option<&str>) -> Result<(), String> {
    if !is_digest(request_sha256) {
        return Err("`request_sha256` is 64 lower-case hex digits".to_owned());
    }
    if reason.is_some_and(|text| text.trim().is_empty() || text.len() > REASON_BYTES_MAX) {
        return Err(format!("`reason` is 1 to {REASON_BYTES_MAX} bytes, or left out"));
    }
    Ok(())
}

fn check_key_id(key_id: &str) -> Result<(), String> {
    if key_id.len() == 16 && signing::unhex(key_id).is_some() {
        return Ok(());
    }
    Err("`key_id` is not 16 lower-case hex digits".to_owned())
}

impl Authentic {
    /// A request that nobody signed, for looking at what would become of it.
    pub fn unsigned(envelope: Envelope) -> Authentic {
        let payload_hash = envelope.payload_hash();
        let request_hash = signing::sha256_hex(envelope.signing_string_of(&payload_hash).as_bytes());
        let body = read_body(&envelope, envelope.payload.len());
        Authentic { envelope, key_id: String::new(), payload_hash, request_hash, body }
    }
}

impl Prepared {
    /// Whether it opens a council case or files a verdict in one: deciding a case can take long.
    pub fn is_on_a_case(&self) -> bool {
        let Ok(Authentic { body: Ok(body), .. }) = &self.request else { return false };
        matches!(body.payload, Payload::Council(_) | Payload::Verdict(_))
    }

    /// The lane as things stand: an order that only reduces is protected. Computed when its turn comes,
    /// because an earlier decision of the batch can change it.
    pub fn lane(&self, state: &State) -> Lane {
        let Ok(Authentic { body: Ok(body), .. }) = &self.request else { return Lane::Ordinary };
        match &body.payload {
            Payload::Submit(order) => {
                let capacity = class::capacity(&state.book, &order.strategy, &order.symbol, order.side);
                match class::classify(order.size, capacity) {
                    Class::Exit => Lane::Protected,
                    Class::Entry | Class::Flip { .. } => body.rule.lane,
                }
            }
            _ => body.rule.lane,
        }
    }
}
