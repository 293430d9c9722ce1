//! Executes a tool call: signs a request from its arguments, sends it to the gate, and turns the
//! answer into a result.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spoolgate_client::{self as agent, Door};
use spoolgate_gate::actions::request_check;
use spoolgate_gate::prepare::Authentic;
use spoolgate_rules::rule::listed::{self, FieldView};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::answer::Answer;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::json;
use spoolgate_wire::signing::SignKey;

use super::arguments::{self, Arguments, ArgumentsError, Inner};
use super::explain;
use super::raw::{array, object, quoted};
use super::resources::Shelf;
use super::said::{Asked, said};
use super::told::{Refused, Told};
use super::tools::{self, Does, Tool};

/// Maximum number of remembered requests. A repeated call under a remembered id sends the same
/// bytes.
const REMEMBERED_MAX: usize = 256;
/// Maximum size of the remembered requests, in bytes.
const REMEMBERED_BYTES_MAX: usize = 16 << 20;
/// Maximum number of bytes read of an answer file.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why a request was not signed.
#[derive(Debug, thiserror::Error)]
enum UnsignedError {
    /// No tool sends this action.
    #[error("no tool signs `{0}`")]
    NoTool(ActionName),
    /// The request is not valid.
    #[error(transparent)]
    Sign(#[from] agent::SignError),
}

/// A request that was sent.
struct Sent {
    request: Envelope,
    answer: Option<Answer>,
}

impl Sent {
    /// Returns whether the id is free again, so that a repeated call is signed anew: the old bytes
    /// would be stale by then, or have to be repaired.
    fn left_its_id(&self) -> bool {
        let answer = self.answer.as_ref();
        let code = answer
            .and_then(|answer| answer.error.as_ref())
            .map(|error| error.code);
        code.is_some_and(|code| code.is_for_later() || code.stands_aside())
            || answer.and_then(Answer::retry) == Some(Retry::SameId)
    }
}

/// The signing principal with its key, and the way to the gate.
pub(crate) struct Desk {
    home: PathBuf,
    principal: Principal,
    key: SignKey,
    door: Door,
    wait: Duration,
    sent: Mutex<VecDeque<Sent>>,
}

/// A request and its answer.
pub(crate) struct Answered {
    /// What was asked.
    pub request: Envelope,
    /// The answer.
    pub answer: Answer,
}

impl Answered {
    fn told(&self) -> Told {
        Told::of(&self.answer, Asked::of(&self.request))
    }
}

/// The outcome of a request.
pub(crate) enum Outcome {
    /// The gate answered.
    Answered(Box<Answered>),
    /// There is no answer of the gate; this is the result to report instead.
    Told(Box<Told>),
}

impl Outcome {
    /// Turns the outcome into a result.
    pub(crate) fn told(self) -> Told {
        match self {
            Outcome::Answered(answered) => answered.told(),
            Outcome::Told(told) => *told,
        }
    }
}

fn told(told: Told) -> Outcome {
    Outcome::Told(Box::new(told))
}

impl Desk {
    /// Creates a desk that signs as this principal.
    pub(crate) fn new(
        home: PathBuf,
        principal: Principal,
        key: SignKey,
        door: Door,
        wait: Duration,
    ) -> Desk {
        Desk {
            home,
            principal,
            key,
            door,
            wait,
            sent: Mutex::default(),
        }
    }

    /// Returns the files that the model may read.
    pub(crate) fn shelf(&self) -> Shelf<'_> {
        Shelf::of(&self.home)
    }

    fn sent(&self) -> MutexGuard<'_, VecDeque<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a call of a tool.
    pub(crate) fn call(&self, tool: &Tool, arguments: &str) -> Told {
        let has_payload = matches!(tool.does, Does::Check | Does::Outgoing);
        let read = match Arguments::read(arguments, tool.id_member, has_payload) {
            Ok(read) => read,
            Err(why) => {
                return Told::refused_here("MALFORMED_JSON", format!("the arguments: {why}"), None);
            }
        };
        let malformed = |why: ArgumentsError| {
            Told::refused_here("MALFORMED_PAYLOAD", format!("the arguments: {why}"), None)
        };
        match tool.does {
            Does::Ask(action) => self.told_of(self.ask(action, &read)),
            Does::Outgoing => match Inner::read(&read.payload, &ActionName::OUTGOING) {
                Ok(inner) => self.told_of(self.ask(
                    inner.action,
                    &Arguments {
                        payload: inner.payload,
                        ..read
                    },
                )),
                Err(why) => malformed(why),
            },
            Does::Check => {
                match Inner::read(&read.payload, &request_check::checked().collect::<Vec<_>>()) {
                    Ok(inner) => self.check(&inner),
                    Err(why) => malformed(why),
                }
            }
            Does::Explain => match arguments::request_id(&read.payload) {
                Ok(id) => explain::explain(self, &id),
                Err(why) => malformed(why),
            },
            Does::CouncilDecision => match arguments::request_id(&read.payload) {
                Ok(case) => self.decision(&case),
                Err(why) => malformed(why),
            },
            Does::RuleFields => match arguments::ruled(&read.payload) {
                Ok(action) => fields_of(action),
                Err(why) => malformed(why),
            },
        }
    }

    /// Signs a request, sends it and waits for the answer.
    pub(crate) fn ask(&self, action: ActionName, asked: &Arguments) -> Outcome {
        let id = asked.id.as_ref().map(RequestId::as_str);
        let request = match self.signed(action, asked, id) {
            Ok(request) => request,
            Err(why) => {
                return told(Told::refused_here(
                    "MALFORMED_ENVELOPE",
                    why.to_string(),
                    id.map(str::to_owned),
                ));
            }
        };
        // Read the request as the gate would: a malformed one is refused here, in the gate's words,
        // before it costs anything.
        if let Err(refusal) = Authentic::unsigned(request.clone()).body
            && action != tools::CHECK
        {
            let id = request.id.to_string();
            return told(Told::refused_here(
                refusal.code.name(),
                refusal.message,
                Some(id),
            ));
        }
        let id = request.id.to_string();
        // Repeating a query does no harm, and its id cannot be chosen: there is nothing to reserve.
        if tools::is_query(action.as_str()) {
            return self.send(request, false);
        }
        match self.reserve(request) {
            Some((request, is_first)) => self.send(request, is_first),
            None => {
                let why = format!(
                    "another request was sent under id `{id}` before, and it counts; `explain` \
                        shows the decision on it. {}",
                    Code::RequestIdConflict.remedy()
                );
                told(Told::refused_here(
                    Code::RequestIdConflict.name(),
                    why,
                    Some(id),
                ))
            }
        }
    }

    /// Signs the request of a call.
    fn signed(
        &self,
        action: ActionName,
        asked: &Arguments,
        id: Option<&str>,
    ) -> Result<Envelope, UnsignedError> {
        // INVARIANT: the key signs nothing that the table of tools does not name.
        if !tools::is_signed(action.as_str()) {
            return Err(UnsignedError::NoTool(action));
        }
        let causality = asked.causality.as_deref();
        Ok(agent::sign(
            &self.key,
            &self.principal,
            action.as_str(),
            &asked.payload,
            causality,
            id,
            None,
        )?)
    }

    /// Reserves the id of a request before it is sent.
    ///
    /// Returns the request to send, and whether it is the first under its id. If the same request
    /// was sent under this id before, its old bytes are returned. `None` if a different request
    /// was: both would wait for the same answer file, and one could be given the answer to the
    /// other.
    fn reserve(&self, request: Envelope) -> Option<(Envelope, bool)> {
        let mut sent = self.sent();
        if let Some(known) = sent
            .iter()
            .find(|sent| sent.request.id == request.id && !sent.left_its_id())
        {
            let is_same = known.request.action == request.action
                && known.request.payload == request.payload
                && known.request.causality == request.causality;
            return is_same.then(|| (known.request.clone(), false));
        }
        sent.retain(|known| known.request.id != request.id);
        sent.push_back(Sent {
            request: request.clone(),
            answer: None,
        });
        keep_few(&mut sent);
        Some((request, true))
    }

    /// Sends a request. `is_first`: nothing was sent under its id before, so that the id becomes
    /// free again if sending fails.
    fn send(&self, request: Envelope, is_first: bool) -> Outcome {
        let asked = self.door.ask(&request, self.wait);
        let id = request.id.to_string();
        match asked {
            Ok(answer) => {
                self.remember(&request, &answer);
                // The gate answers without an id if it could not read the request.
                let answer = Answer {
                    request_id: id,
                    ..answer
                };
                Outcome::Answered(Box::new(Answered { request, answer }))
            }
            Err(error) if error.may_be_decided() => {
                let note = match tools::is_query(&request.action) {
                    true => "it changes nothing: call again".to_owned(),
                    false => format!(
                        "call again with the same arguments and the id `{id}`, so that the same \
                            bytes are sent, or call `explain` with that id later"
                    ),
                };
                told(Told {
                    status: "unknown",
                    request_id: Some(id),
                    words: error.to_string(),
                    note: Some(note),
                    ..Told::default()
                })
            }
            Err(error) => {
                if is_first {
                    self.sent().retain(|known| known.request.id != request.id);
                }
                told(Told {
                    status: "not_sent",
                    request_id: Some(id),
                    words: error.to_string(),
                    note: Some("nothing was sent; a person has to look at the gate".to_owned()),
                    ..Told::default()
                })
            }
        }
    }

    fn remember(&self, request: &Envelope, answer: &Answer) {
        let mut sent = self.sent();
        if let Some(known) = sent.iter_mut().find(|known| known.request.id == request.id) {
            known.answer = Some(answer.clone());
        }
        keep_few(&mut sent);
    }

    /// Turns an outcome into a result. If the id was used before, the result contains the earlier
    /// answer as well: a model that only took a fresh id would repeat what is already done.
    fn told_of(&self, outcome: Outcome) -> Told {
        let mut told = outcome.told();
        let is_conflict = |refused: &Refused| refused.code == Code::RequestIdConflict.name();
        if told.status != "error" || !told.refused.as_ref().is_some_and(is_conflict) {
            return told;
        }
        told.note = Some(
            "a request under this id was sent before, perhaps this very one by an earlier run of \
                this program. Find out what was decided (`explain` with this id, `orders`, \
                `fills`) before you send anything under a fresh id: it may be done already"
                .to_owned(),
        );
        let id = told
            .request_id
            .as_deref()
            .and_then(|id| RequestId::parse(id).ok());
        let stands = id
            .and_then(|id| self.answer_to(&id))
            .map(|answer| Told::of(&answer, None));
        if let Some(stands) = stands.filter(|stands| stands.audit_ref != told.audit_ref) {
            told.words = format!("{}\nthe result under this id: {}", told.words, stands.words);
            told.more.push(("earlier", stands.json()));
        }
        told
    }

    /// Asks the gate how it would answer a request.
    pub(crate) fn check(&self, inner: &Inner) -> Told {
        let payload = object([
            ("action", quoted(inner.action.as_str())),
            ("payload", inner.payload.clone()),
        ]);
        let trial = agent::sign(
            &self.key,
            &self.principal,
            inner.action.as_str(),
            &inner.payload,
            None,
            None,
            None,
        );
        if let Ok(Err(refusal)) = trial.map(|trial| Authentic::unsigned(trial).body) {
            return Told::refused_here(refusal.code.name(), refusal.message, None);
        }
        let asked = Arguments {
            payload,
            id: None,
            causality: None,
        };
        match self.ask(tools::CHECK, &asked) {
            Outcome::Answered(answered) => answered.told().checked(Asked::of(&answered.request)),
            Outcome::Told(told) => *told,
        }
    }

    /// Returns the request under this id, if this process sent it.
    pub(crate) fn request(&self, id: &RequestId) -> Option<Envelope> {
        let sent = self.sent();
        let known = sent.iter().find(|sent| sent.request.id == *id)?;
        Some(known.request.clone())
    }

    /// Returns the answer to a request: from the spool, else from memory.
    pub(crate) fn answer_to(&self, id: &RequestId) -> Option<Answer> {
        let file = match &self.door {
            Door::Spool(spool) => read(spool.out().join(format!("{}.json", id.file_stem())))
                .ok()
                .flatten(),
            Door::Socket(_) => None,
        };
        let filed = file.and_then(|text| serde_json::from_str(&text).ok());
        filed.or_else(|| {
            self.sent()
                .iter()
                .find(|sent| sent.request.id == *id)?
                .answer
                .clone()
        })
    }

    /// Returns whether a request was sent under this id and its answer is unknown.
    pub(crate) fn is_unanswered(&self, id: &RequestId) -> bool {
        self.sent()
            .iter()
            .any(|sent| sent.request.id == *id && sent.answer.is_none())
    }

    /// Reads the decision on a case from the file that the gate wrote beside the answers.
    fn decision(&self, case: &RequestId) -> Told {
        let out = match &self.door {
            Door::Spool(spool) => spool.out().to_owned(),
            Door::Socket(_) => self.home.join("spool/out"),
        };
        let path = out.join(format!("{}.decision.json", case.file_stem()));
        match read(path.clone()) {
            Ok(Some(text)) => match json::check_object(text.as_bytes()) {
                Ok(text) => {
                    let text = json::minify(text).into_owned();
                    Told {
                        status: "success",
                        words: said(Some(&text), None),
                        data: Some(text),
                        ..Told::default()
                    }
                }
                // The gate replaces its files atomically, so another program wrote this one.
                Err(error) => unreadable(format!("`{}`: {error}", path.display())),
            },
            Ok(None) => {
                let words = format!("case `{case}` is open: nothing is decided");
                let note = "ask again later, because roles may take hours or days; if you never \
                    brought this case before the council, it does not exist"
                    .to_owned();
                Told {
                    status: "open",
                    words,
                    note: Some(note),
                    ..Told::default()
                }
            }
            Err(error) => unreadable(format!("`{}`: {error}", path.display())),
        }
    }
}

/// Lists the fields that rules about an action may read.
fn fields_of(action: ActionName) -> Told {
    let fields = listed::fields(Some(action.as_str())).unwrap_or_default();
    let row = |field: &FieldView| {
        let mut members = vec![
            ("field", quoted(&field.field)),
            ("kind", quoted(&field.kind)),
            ("meaning", quoted(field.meaning)),
        ];
        if !field.unit.is_empty() {
            members.push(("unit", quoted(field.unit)));
        }
        if !field.one_of.is_empty() {
            let words = field.one_of.iter().map(|word| quoted(word));
            members.push(("one_of", array(words)));
        }
        object(members)
    };
    let words = format!("rules about {action} may read {} fields", fields.len());
    Told {
        status: "success",
        data: Some(object([("Fields", array(fields.iter().map(row)))])),
        words,
        ..Told::default()
    }
}

/// Forgets the oldest requests until the limits are met.
fn keep_few(sent: &mut VecDeque<Sent>) {
    let size = |sent: &Sent| {
        let data = sent.answer.as_ref().and_then(|answer| answer.data.as_ref());
        sent.request
            .payload
            .len()
            .saturating_add(data.map_or(0, |data| data.get().len()))
    };
    let mut bytes: usize = sent.iter().map(size).sum();
    while sent.len() > REMEMBERED_MAX || (bytes > REMEMBERED_BYTES_MAX && sent.len() > 1) {
        bytes = bytes.saturating_sub(sent.pop_front().as_ref().map_or(0, size));
    }
}

fn unreadable(why: String) -> Told {
    Told {
        status: "error",
        words: format!("it cannot be read: {why}"),
        ..Told::default()
    }
}

/// Reads a file of the spool; `None` if it does not exist.
fn read(path: PathBuf) -> std::io::Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}
