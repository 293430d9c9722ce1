//! The gate's side of a bridge under test: it writes instructions and `.gate`, reads signed
//! requests, checks them and answers them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use spoolgate_client::KeyFile;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::signing::{SignKey, hex, sha256_hex};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::ExecEvent;

use super::exchange::{Exchange, plus};
use super::reports::{Alive, Report, Snapshot};
use super::trace::{Trace, What};

/// The bridge's name.
const BRIDGE: &str = "exchange";
/// Identity of the imitated home, which client order ids are made of.
const HOME_ID: &str = "bridge-test";
/// The action of reports.
const REPORT: &str = "venue.report";
/// The code of a request that no key of its source has signed.
const KEY_REFUSED: &str = "SIGNATURE_INVALID";
/// The status of an answer after which the same request is sent again.
const LATER: &str = "rate_limited";
/// Time between two writes of `.gate`.
const FRESH_EVERY: Duration = Duration::from_secs(1);
/// How long a `.gate` is valid, in ms.
const FRESH_MS: i64 = 30_000;

/// An instruction.
#[derive(Clone, Serialize)]
pub(super) struct Told {
    pub order_id: String,
    pub version: u32,
    pub client_order_id: String,
    pub instruction: &'static str,
    pub symbol: &'static str,
    pub side: Side,
    pub order_type: OrderType,
    pub size: Amount,
    pub price: Option<Amount>,
    pub trigger: Option<Amount>,
    pub time_in_force: TimeInForce,
    pub reduce_only: bool,
    pub valid_until: Option<Time>,
    pub epoch: u32,
    pub line: String,
}

impl Told {
    /// `<order>.<version>`.
    pub(super) fn label(&self) -> String {
        format!("{}.{}", self.order_id, self.version)
    }

    /// Name of its file.
    pub(super) fn file(&self) -> String {
        format!("{}.json", self.label())
    }

    /// The next version of the order.
    pub(super) fn next(&self, instruction: &'static str) -> Told {
        let version = self.version.saturating_add(1);
        let mut next = self.clone().with_version(version);
        next.instruction = instruction;
        if instruction == "cancel" {
            next.valid_until = None;
        }
        next
    }

    /// The same instruction as another version.
    pub(super) fn with_version(mut self, version: u32) -> Told {
        self.version = version;
        self.client_order_id = client_order_id(&self.order_id, version);
        self
    }
}

/// `s` and 17 characters of base32 of the hash that names an order's version.
fn client_order_id(order_id: &str, version: u32) -> String {
    let hash = sha256_hex(format!("{HOME_ID}|{order_id}|{version}").as_bytes());
    let first = hash.get(..32).unwrap_or_default();
    let bits = u128::from_str_radix(first, 16).unwrap_or_default();
    let digits = (1..=17_u32).map(|n| {
        let at = 128_u32.saturating_sub(n.saturating_mul(5));
        let digit = u8::try_from(bits >> at & 31).unwrap_or_default();
        char::from(match digit {
            0..26 => b'a'.saturating_add(digit),
            _ => b'2'.saturating_add(digit.saturating_sub(26)),
        })
    });
    std::iter::once('s').chain(digits).collect()
}

/// What the book has of an order.
struct Booked {
    newest: u32,
    size: Amount,
    filled: Amount,
    is_gone: bool,
}

/// How `.gate` is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// Valid.
    Valid,
    /// Its time is over.
    Past,
    /// There is none.
    Missing,
    /// Its epoch is lower than that of the instructions.
    LowEpoch,
}

/// The gate.
pub(super) struct Gate {
    home: PathBuf,
    key: SignKey,
    bridge: Principal,
    /// The epoch of instructions and of `.gate`.
    pub epoch: u32,
    sign: Sign,
    signed_at: Option<Instant>,
    /// Files that the bridge has not taken, with what they say.
    untaken: BTreeMap<String, (&'static str, String)>,
    orders: BTreeMap<String, Booked>,
    /// Every request as it came first: whether it is a report, and its bytes.
    first: BTreeMap<String, (bool, Vec<u8>)>,
    /// The answers, by request id.
    answers: BTreeMap<String, Value>,
    execs: BTreeSet<String>,
    newest_exec: Option<String>,
    /// Every report that was answered, in order.
    pub reports: Vec<Report>,
    /// Every snapshot that was accepted.
    pub snapshots: Vec<Snapshot>,
    /// Every content of `.alive` that was seen.
    pub alive: Vec<Alive>,
    /// Requests are left unanswered meanwhile.
    pub holds: bool,
    /// The next report is lost without an answer.
    pub loses: bool,
    /// The next snapshot is refused as `SNAPSHOT_STALE`.
    pub is_stale: bool,
    /// Codes with which the next reports are not booked.
    pub refusals: Vec<&'static str>,
    /// The `exec_id` of every report that was not booked for one of these.
    pub unbooked: BTreeSet<String>,
    /// Every request is refused as one whose signature is not by a key of the bridge.
    pub refuses_key: bool,
}

impl Gate {
    /// Makes the folders of a home and the bridge's key.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn make(root: &Path) -> anyhow::Result<Gate> {
        let (home, bridge) = (root.join("home"), Principal::parse(BRIDGE)?);
        for folder in ["in", "out", &format!("outbox/{BRIDGE}/taken")] {
            fs::create_dir_all(home.join("spool").join(folder))?;
        }
        fs::create_dir_all(root.join("state"))?;
        let secret = [7; 32];
        let file = KeyFile {
            principal: bridge.clone(),
            key_id: "bridge-test".to_owned(),
            algorithm: Algorithm::HmacSha256,
            secret: hex(&secret),
        };
        file.write(&root.join("bridge.key"))?;
        let mut gate = Gate {
            home,
            key: SignKey::Hmac(secret),
            bridge,
            epoch: 1,
            sign: Sign::Valid,
            signed_at: None,
            untaken: BTreeMap::new(),
            orders: BTreeMap::new(),
            first: BTreeMap::new(),
            answers: BTreeMap::new(),
            execs: BTreeSet::new(),
            newest_exec: None,
            reports: Vec::new(),
            snapshots: Vec::new(),
            alive: Vec::new(),
            holds: false,
            loses: false,
            is_stale: false,
            refusals: Vec::new(),
            unbooked: BTreeSet::new(),
            refuses_key: false,
        };
        gate.sign(Sign::Valid)?;
        Ok(gate)
    }

    /// The bridge's folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.home.join("spool/outbox").join(BRIDGE)
    }

    /// From now on `.gate` is written like this.
    pub(super) fn sign(&mut self, sign: Sign) -> io::Result<()> {
        self.sign = sign;
        self.signed_at = Some(Instant::now());
        let now = SystemClock::default().now();
        let (valid_until, epoch) = match sign {
            Sign::Missing => return fs::remove_file(self.folder().join(".gate")),
            Sign::Valid => (now.plus_ms(FRESH_MS), self.epoch),
            Sign::Past => (now.plus_ms(-1), self.epoch),
            Sign::LowEpoch => (now.plus_ms(FRESH_MS), self.epoch.saturating_sub(1)),
        };
        let body = json!({"at": now, "valid_until": valid_until, "epoch": epoch});
        self.put(&self.folder().join(".gate"), &body.to_string())
    }

    fn put(&self, path: &Path, text: &str) -> io::Result<()> {
        let hidden = self.home.join("spool/.tmp");
        fs::write(&hidden, text)?;
        fs::rename(hidden, path)
    }

    /// Writes an instruction, under a name of its own if need be.
    pub(super) fn write(&mut self, told: &Told, name: &str) -> io::Result<()> {
        let order = self.orders.entry(told.order_id.clone());
        let order = order.or_insert(Booked {
            newest: 0,
            size: Amount::ZERO,
            filled: Amount::ZERO,
            is_gone: false,
        });
        if told.version > order.newest {
            order.newest = told.version;
            order.size = order.size.max(told.size);
            // Only placing brings back an order that is gone.
            order.is_gone &= told.instruction == "cancel";
        }
        let text = serde_json::to_string(told)?;
        let said = (told.instruction, told.label());
        self.untaken.insert(name.to_owned(), said);
        self.put(&self.folder().join(name), &text)
    }

    /// Writes a ping.
    pub(super) fn ping(&mut self, line: &str) -> io::Result<()> {
        let name = format!("ping.{line}.json");
        let text = json!({"ping": line, "epoch": self.epoch}).to_string();
        self.untaken.insert(name.clone(), ("ping", line.to_owned()));
        self.put(&self.folder().join(name), &text)
    }

    /// Whether the bridge has taken a file.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        !self.untaken.contains_key(name)
    }

    /// Takes an instruction back, as the gate does when the order is not wanted any more. Returns
    /// whether it was still there.
    pub(super) fn take_back(&mut self, name: &str) -> io::Result<bool> {
        let done = fs::rename(self.folder().join(name), self.home.join("spool/.back"));
        match done {
            Ok(()) => {
                self.untaken.remove(name);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reports that wait for an answer.
    pub(super) fn waiting(&self) -> usize {
        let is_open = |id: &&String| !self.answers.contains_key(*id);
        let reports = self.first.iter().filter(|(_, (is_report, _))| *is_report);
        reports.map(|(id, _)| id).filter(is_open).count()
    }

    /// Keeps `.gate` fresh, and looks at everything that the bridge writes.
    pub(super) fn step(&mut self, trace: &mut Trace, exchange: &mut Exchange) -> io::Result<()> {
        let is_old = |at: Instant| at.elapsed() >= FRESH_EVERY;
        if self.sign != Sign::Missing && self.signed_at.is_none_or(is_old) {
            self.sign(self.sign)?;
        }
        let folder = self.folder();
        let is_gone = |name: &&String| !folder.join(name).exists();
        let taken: Vec<String> = self.untaken.keys().filter(is_gone).cloned().collect();
        for (verb, about) in taken.iter().filter_map(|name| self.untaken.remove(name)) {
            if trace.note(What::Taken, verb, &about) {
                return Ok(());
            }
        }
        self.look_at_alive(trace);
        self.look_at_requests(trace, exchange)
    }

    fn look_at_alive(&mut self, trace: &mut Trace) {
        let Ok(text) = fs::read_to_string(self.folder().join(".alive")) else {
            return;
        };
        match serde_json::from_str::<Alive>(&text) {
            Ok(alive) if (1..=64).contains(&alive.run.chars().count()) => {
                if self.alive.last() != Some(&alive) {
                    self.alive.push(alive);
                }
            }
            read => {
                let why = read.err().map_or("its run".to_owned(), |it| it.to_string());
                trace.fault(
                    "`.alive` has `at`, `run`, `venue` and `nonce`",
                    format!("`{}`: {why}", text.trim()),
                );
            }
        }
    }

    fn look_at_requests(&mut self, trace: &mut Trace, exchange: &mut Exchange) -> io::Result<()> {
        let mut requests = Vec::new();
        for file in fs::read_dir(self.home.join("spool/in"))? {
            let (path, name) = file.map(|file| (file.path(), file.file_name()))?;
            let name = name.to_string_lossy();
            // A bridge may take a snapshot back that nobody has read.
            if !name.starts_with('.')
                && let Ok(bytes) = fs::read(&path)
            {
                match self.read(&name, &bytes) {
                    Ok(envelope) => requests.push((envelope, path, bytes)),
                    Err(why) => trace.fault("requests are signed envelopes named by their id", why),
                }
            }
        }
        // Which of two came first cannot be seen; only a snapshot may wait while a report comes.
        requests.sort_by_key(|(envelope, ..)| envelope.action == REPORT);
        for (envelope, path, bytes) in requests {
            self.look_at_request(&envelope, &path, bytes, trace, exchange)?;
            if trace.is_killed() {
                break;
            }
        }
        Ok(())
    }

    fn look_at_request(
        &mut self,
        envelope: &Envelope,
        path: &Path,
        bytes: Vec<u8>,
        trace: &mut Trace,
        exchange: &mut Exchange,
    ) -> io::Result<()> {
        let (id, is_report) = (envelope.id.to_string(), envelope.action == REPORT);
        let is_new = !self.first.contains_key(&id);
        if is_new && self.waiting() > 0 {
            let seen = format!("`{id}` came while a report waited");
            trace.fault(
                "a request is sent after the answers to all reports before",
                seen,
            );
        }
        let first = self.first.entry(id.clone());
        let first = first.or_insert((is_report, bytes.clone()));
        if first.1 != bytes {
            let seen = format!("request `{id}` came with other bytes");
            trace.fault("a request that is sent again has the same bytes", seen);
        }
        let report = match Report::read(&envelope.payload) {
            Ok(report) if is_report => Some(report),
            Err(error) if is_report => {
                let seen = format!("`{}`: {error}", envelope.payload);
                trace.fault("reports have the members of `venue.report`", seen);
                return Ok(());
            }
            _ => None,
        };
        let (verb, about) = match &report {
            Some(report) => (report.kind, report.label()),
            None => ("snapshot", String::new()),
        };
        let is_killed = is_new && trace.note(What::Reported, verb, &about);
        // Lost, as with the power: it has to come again.
        if is_killed || is_report && std::mem::take(&mut self.loses) {
            return remove(path);
        }
        if self.holds {
            return Ok(());
        }
        let known = self.answers.get(&id);
        // A refused signature says nothing about the id.
        let answer = match known.filter(|it| !is_of_key(it)) {
            Some(known) => known.clone(),
            None => answer(&id, self.decide(report, envelope, trace, exchange)),
        };
        // Named by the file, as nobody has proved yet whose id it is.
        let ending = if is_of_key(&answer) {
            "json.error.json"
        } else {
            "json"
        };
        let out = self.home.join("spool/out").join(format!("{id}.{ending}"));
        self.put(&out, &format!("{answer}\n"))?;
        if answer.get("status").and_then(Value::as_str) != Some(LATER) {
            self.answers.insert(id, answer);
        }
        remove(path)?;
        trace.note(What::Booked, verb, &about);
        Ok(())
    }

    /// Decides a request. Returns the code if it is refused.
    fn decide(
        &mut self,
        report: Option<Report>,
        envelope: &Envelope,
        trace: &mut Trace,
        exchange: &mut Exchange,
    ) -> Option<&'static str> {
        if self.refuses_key {
            return Some(KEY_REFUSED);
        }
        let Some(report) = report else {
            return self.look_at_snapshot(&envelope.payload, trace);
        };
        let refused = self.refusals.pop();
        if refused.is_some() {
            self.unbooked.insert(report.report.exec_id.to_string());
            return refused;
        }
        self.book(report, trace, exchange)
    }

    /// Whether a report with this `exec_id` was booked.
    pub(super) fn has_booked(&self, exec_id: &str) -> bool {
        self.execs.contains(exec_id)
    }

    fn read(&self, name: &str, bytes: &[u8]) -> Result<Envelope, String> {
        let envelope = Envelope::parse(bytes).map_err(|error| format!("`{name}`: {error}"))?;
        let key = self.key.verify_key();
        let is_known = [REPORT, "venue.snapshot"].contains(&envelope.action.as_str());
        if format!("{}.json", envelope.id) != name {
            Err(format!("`{name}` holds request `{}`", envelope.id))
        } else if envelope.source != self.bridge || !is_known {
            let (action, source) = (&envelope.action, &envelope.source);
            Err(format!("`{name}` is `{action}` of `{source}`"))
        } else if !key.verifies(&envelope.signing_string(), &envelope.signature) {
            Err(format!(
                "the signature of `{name}` is not by the bridge's key"
            ))
        } else {
            Ok(envelope)
        }
    }

    /// Books a report, or says with which code the gate refuses it.
    fn book(
        &mut self,
        mut report: Report,
        trace: &mut Trace,
        exchange: &mut Exchange,
    ) -> Option<&'static str> {
        let exec = report.report.exec_id.to_string();
        let refused = if self.execs.contains(&exec) {
            Some("REPORT_DUPLICATE")
        } else {
            self.check(&report, trace, exchange)
        };
        if refused.is_none() {
            self.execs.insert(exec.clone());
            self.newest_exec = Some(exec);
        }
        report.refused = refused;
        self.reports.push(report);
        refused
    }

    fn check(
        &mut self,
        report: &Report,
        trace: &mut Trace,
        exchange: &mut Exchange,
    ) -> Option<&'static str> {
        let label = report.label();
        let Some(order) = self.orders.get_mut(&report.order_id) else {
            let seen = format!("a report of {label}");
            trace.fault("only orders of the gate are reported", seen);
            return Some("REPORT_UNKNOWN");
        };
        let mut last = Amount::ZERO;
        if let ExecEvent::Trade { last_qty, .. } = &report.report.event {
            last = *last_qty;
            if !match_trade(report, exchange) {
                let (kind, event) = (report.kind, &report.report.event);
                trace.fault(
                    "each trade of the exchange is reported once, as it was",
                    format!(
                        "{kind} of {label} that the exchange does not have, or not again: {event:?}"
                    ),
                );
            }
        } else if report.version.is_none_or(|version| version > order.newest) {
            trace.fault(
                "all reports but trades state a `version` that was instructed",
                format!("{} of {label}", report.kind),
            );
        }
        // The book has no order that is gone or filled, so all but a trade of it is no news.
        if last.is_zero() && (order.is_gone || order.filled >= order.size) {
            return Some("REPORT_UNKNOWN");
        }
        if plus(order.filled, last) != report.cum_qty {
            let seen = format!(
                "{} of {label} with {}, where {} was booked",
                report.kind, report.cum_qty, order.filled
            );
            trace.fault(
                "`cum_qty` is what was reported so far, this trade included",
                seen,
            );
            return Some("REPORT_OUT_OF_ORDER");
        }
        order.filled = report.cum_qty;
        let is_end = ["canceled", "expired", "rejected"].contains(&report.kind);
        let stays = report.text.as_deref() == Some("expired") && report.version != Some(1);
        order.is_gone |= is_end && !stays;
        None
    }

    fn look_at_snapshot(&mut self, payload: &str, trace: &mut Trace) -> Option<&'static str> {
        let snapshot: Snapshot = match serde_json::from_str(payload) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let seen = format!("`{payload}`: {error}");
                trace.fault("snapshots have the members of `venue.snapshot`", seen);
                return Some("PAYLOAD_INVALID");
            }
        };
        if snapshot.after_exec != self.newest_exec {
            trace.fault(
                "a snapshot states the newest booked report as `after_exec`",
                format!("{:?}, not {:?}", snapshot.after_exec, self.newest_exec),
            );
        }
        let is_ahead = snapshot.orders.iter().any(|it| {
            let booked = self.orders.get(&it.order_id).map(|order| order.filled);
            booked.is_some_and(|booked| it.cum_qty > booked)
        });
        if std::mem::take(&mut self.is_stale) || is_ahead {
            return Some("SNAPSHOT_STALE");
        }
        self.snapshots.push(snapshot);
        None
    }

    /// What was booked as filled of an order.
    pub(super) fn filled(&self, order_id: &str) -> Amount {
        self.orders
            .get(order_id)
            .map_or(Amount::ZERO, |order| order.filled)
    }
}

/// Finds the trade of the exchange that a report is about, and marks it as reported.
fn match_trade(report: &Report, exchange: &mut Exchange) -> bool {
    let ExecEvent::Trade {
        last_qty,
        last_px,
        fee,
        liquidity,
        ..
    } = &report.report.event
    else {
        return false;
    };
    let told = &exchange.told;
    let found = exchange.trades.iter_mut().find(|trade| {
        let id = trade.client_order_id.as_deref().unwrap_or_default();
        let order = told.get(id).map(|it| &it.order_id);
        let currency = report.fee_currency.as_deref();
        !trade.is_reported
            && order == Some(&report.order_id)
            && (trade.size, trade.price, trade.fee) == (*last_qty, *last_px, *fee)
            && trade.has(*liquidity)
            && currency.unwrap_or("USD") == trade.fee_currency
    });
    found.is_some_and(|trade| {
        trade.is_reported = true;
        true
    })
}

/// Removes a file that may be gone.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn answer(id: &str, refused: Option<&str>) -> Value {
    let now = SystemClock::default().now();
    let (status, data) = match refused {
        None => ("success", json!(null)),
        Some("RATE_LIMITED") => (LATER, json!({"retryAfterMs": 100})),
        Some(_) => ("error", json!(null)),
    };
    let error = refused.map(|code| json!({"code": code, "message": "refused by the suite"}));
    let mut answer = BTreeMap::from([
        ("requestId", json!(id)),
        ("timestamp", json!(now)),
        ("status", json!(status)),
        ("data", data),
        ("error", json!(error)),
        ("auditRef", json!("1")),
    ]);
    // Absent rather than null, as the gate writes it.
    answer.retain(|_, member| !member.is_null());
    json!(answer)
}

fn is_of_key(answer: &Value) -> bool {
    let code = answer.pointer("/error/code");
    code.and_then(Value::as_str) == Some(KEY_REFUSED)
}
