//! The exchange that a bridge under test talks to: JSON lines on a Unix socket, balances that are
//! locked as on spot, and faults on demand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::TradeLiquidity;

use super::gate::Told;
use super::trace::{Trace, What};

/// The instrument of all cases, its base and its quote.
pub(super) const SYMBOL: &str = "BTC-USD";
const BASE: &str = "BTC";
const QUOTE: &str = "USD";
/// Price of market orders and of fills.
const MARK: i64 = 6795;
/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 65_536;

/// Something to go wrong with the next request of an operation.
pub(super) enum Fault {
    /// The connection closes before the request was carried out.
    CloseBefore,
    /// The request is carried out, and the connection closes before the answer.
    CloseAfter,
    /// The request is refused with this code.
    Refuse(&'static str),
    /// The order fills by this size before the answer: a cancel comes too late for it.
    FillFirst(Amount),
}

/// A request, as a bridge sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    id: u64,
    op: String,
    client_order_id: Option<String>,
    symbol: Option<String>,
    side: Option<Side>,
    #[serde(rename = "type")]
    kind: Option<OrderType>,
    size: Option<Amount>,
    price: Option<Amount>,
    trigger: Option<Amount>,
    time_in_force: Option<String>,
    since: Option<Time>,
    seconds: Option<u32>,
}

/// An order at the exchange.
#[derive(Clone, Serialize)]
pub(super) struct Order {
    pub client_order_id: Option<String>,
    pub venue_id: String,
    pub symbol: String,
    pub side: Side,
    #[serde(rename = "type")]
    pub kind: OrderType,
    pub size: Amount,
    pub price: Option<Amount>,
    pub trigger: Option<Amount>,
    pub time_in_force: String,
    pub status: &'static str,
    pub filled: Amount,
    pub at: Time,
}

impl Order {
    fn is_open(&self) -> bool {
        self.status == "open"
    }

    fn left(&self) -> Amount {
        minus(self.size, self.filled)
    }
}

/// A trade at the exchange.
#[derive(Clone, Serialize)]
pub(super) struct Trade {
    pub trade_id: String,
    pub client_order_id: Option<String>,
    pub venue_id: String,
    pub symbol: String,
    pub side: Side,
    pub size: Amount,
    pub price: Amount,
    pub fee: Amount,
    pub fee_currency: &'static str,
    pub liquidity: &'static str,
    pub at: Time,
    /// Not published yet.
    #[serde(skip)]
    pub is_hidden: bool,
    /// The bridge has reported it.
    #[serde(skip)]
    pub is_reported: bool,
}

impl Trade {
    pub(super) fn has(&self, liquidity: TradeLiquidity) -> bool {
        self.liquidity
            == match liquidity {
                TradeLiquidity::Maker => "maker",
                TradeLiquidity::Taker => "taker",
            }
    }
}

struct Connection {
    stream: UnixStream,
    read: Vec<u8>,
}

enum Reply {
    /// The answer, and the operation and the order that it is about.
    Line(String, String, String),
    Close,
    Nothing,
}

/// Code and words of a refusal.
type Refused = (&'static str, &'static str);

/// The exchange.
#[derive(Default)]
pub(super) struct Exchange {
    path: PathBuf,
    listener: Option<UnixListener>,
    connections: Vec<Connection>,
    pub orders: Vec<Order>,
    pub trades: Vec<Trade>,
    /// Everything held, by currency.
    pub balances: BTreeMap<&'static str, Amount>,
    /// The instruction of every client order id that the gate has given out.
    pub told: BTreeMap<String, Told>,
    /// Faults that wait for the next request of an operation.
    pub faults: Vec<(&'static str, Fault)>,
    /// Orders whose fate the bridge cannot know until it has asked for them.
    unknown: BTreeSet<String>,
    /// Every `place` is answered with `rate_limited` until one with this client order id arrives.
    pub limited_until: Option<String>,
    /// Requests get no answer.
    pub is_silent: bool,
    /// How far its clock is ahead of the machine's, in ms.
    pub clock_ms: i64,
    /// Every answer holds all trades since ever, each twice and the newest first.
    pub repeats: bool,
    /// Purchases pay their fee in the base currency.
    pub base_fee: bool,
    /// The exchange pays the fees.
    pub rebate: bool,
    /// Cancel-on-disconnect is armed.
    pub is_armed: bool,
    /// It was armed while a stop worked.
    pub armed_with_stop: bool,
}

impl Exchange {
    /// Opens the exchange at a socket.
    ///
    /// # Errors
    /// The system's error if the socket cannot be made.
    pub(super) fn listen(path: PathBuf) -> io::Result<Exchange> {
        let mut exchange = Exchange {
            path,
            balances: BTreeMap::from([(BASE, Amount::ONE), (QUOTE, Amount::from_i64(1_000_000))]),
            ..Exchange::default()
        };
        exchange.come_up()?;
        Ok(exchange)
    }

    /// Accepts connections again.
    pub(super) fn come_up(&mut self) -> io::Result<()> {
        let listener = UnixListener::bind(&self.path)?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Closes every connection and accepts none.
    pub(super) fn go_down(&mut self) {
        self.listener = None;
        self.connections.clear();
        // Connecting fails then as it does with an exchange that is not there.
        let _ = fs::remove_file(&self.path);
    }

    /// Closes every connection.
    pub(super) fn disconnect(&mut self) {
        self.connections.clear();
    }

    /// Serves what has arrived.
    pub(super) fn step(&mut self, trace: &mut Trace) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) {
            if stream.set_nonblocking(true).is_ok() {
                let read = Vec::new();
                self.connections.push(Connection { stream, read });
            }
        }
        for mut connection in std::mem::take(&mut self.connections) {
            if self.serve(&mut connection, trace) && self.listener.is_some() {
                self.connections.push(connection);
            }
        }
    }

    /// Serves a connection. Returns whether it stays open.
    fn serve(&mut self, connection: &mut Connection, trace: &mut Trace) -> bool {
        let (mut part, mut is_open) = ([0; 4096], true);
        loop {
            match connection.stream.read(&mut part) {
                // What was sent before the end still counts.
                Ok(0) => {
                    is_open = false;
                    break;
                }
                Ok(n) => connection.read.extend(part.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        while let Some(end) = connection.read.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = connection.read.drain(..=end).collect();
            match self.answer(&line, trace) {
                Reply::Line(text, op, about) => {
                    // An answer fits into the socket's buffer.
                    let is_sent = writeln!(connection.stream, "{text}").is_ok();
                    if trace.note(What::Answered, &op, &about) || !is_sent {
                        // Whether the bridge had read it before it died is unknown.
                        self.unknown.extend(self.id_of(&about));
                        return false;
                    }
                }
                Reply::Close => return false,
                Reply::Nothing => {}
            }
        }
        is_open && connection.read.len() <= REQUEST_BYTES_MAX
    }

    fn answer(&mut self, line: &[u8], trace: &mut Trace) -> Reply {
        let request: Request = match serde_json::from_slice(line) {
            Ok(request) => request,
            Err(error) => {
                let line = String::from_utf8_lossy(line);
                trace.fault(
                    "requests to the exchange have the members of the protocol",
                    format!("`{}`: {error}", line.trim()),
                );
                return Reply::Close;
            }
        };
        let id = request.client_order_id.clone().unwrap_or_default();
        let about = self.told.get(&id).map(Told::label).unwrap_or_default();
        let op = request.op.as_str();
        if trace.note(What::Asked, op, &about) {
            return Reply::Close;
        }
        if op == "place" {
            self.check_place(&request, &id, trace);
        } else if op == "order" {
            self.unknown.remove(&id);
        }
        if self.is_silent {
            return Reply::Nothing;
        }
        let fault = self.faults.iter().position(|(of, _)| *of == op);
        let fault = fault.map(|at| self.faults.remove(at).1);
        let (refused, fill) = match &fault {
            Some(Fault::CloseBefore) => return Reply::Close,
            Some(Fault::Refuse(code)) => (Some(*code), None),
            Some(Fault::FillFirst(size)) => (None, Some(*size)),
            _ => (None, None),
        };
        let done = match refused {
            Some(code) => Err((code, "refused by the suite")),
            None => self.carry_out(&request, &id, fill),
        };
        if trace.note(What::Worked, op, &about) || matches!(fault, Some(Fault::CloseAfter)) {
            return Reply::Close;
        }
        self.unknown.remove(&id);
        let body = match done {
            Ok(body) => json!({"id": request.id, "ok": body}),
            Err((code, text)) => {
                json!({"id": request.id, "error": {"code": code, "text": text}})
            }
        };
        Reply::Line(body.to_string(), request.op, about)
    }

    fn id_of(&self, label: &str) -> Option<String> {
        let found = self.told.iter().find(|(_, told)| told.label() == label);
        found.map(|(id, _)| id.clone())
    }

    fn check_place(&mut self, request: &Request, id: &str, trace: &mut Trace) {
        let Some(told) = self.told.get(id) else {
            trace.fault(
                "orders carry the `client_order_id` of their instruction",
                format!("`{id}` was placed, which is in no instruction"),
            );
            return;
        };
        let label = told.label();
        if !self.unknown.insert(id.to_owned()) {
            trace.fault(
                "after a lost answer the bridge asks for the order (`order`) before it sends again",
                format!("{label} was sent again without asking"),
            );
        }
        let order_id = &told.order_id;
        let is_of_it = |it: &&Order| {
            let told = it.client_order_id.as_ref().and_then(|id| self.told.get(id));
            told.is_some_and(|told| told.order_id == *order_id)
        };
        let left = self.orders.iter().filter(is_of_it);
        let left = left.fold(told.size, |left, it| minus(left, it.filled));
        let is_ioc = request.time_in_force.as_deref() == Some("ioc");
        let sent = (request.symbol.as_deref(), request.side, request.kind);
        let terms = (request.price, request.trigger, request.size);
        if sent != (Some(told.symbol), Some(told.side), Some(told.order_type))
            || terms != (told.price, told.trigger, Some(left))
            || is_ioc != (told.time_in_force == TimeInForce::Ioc)
        {
            trace.fault(
                "an order is placed as its instruction says, for what of it has not filled",
                format!("{label} as {sent:?} {terms:?}, with {left} left"),
            );
        }
    }

    fn carry_out(
        &mut self,
        request: &Request,
        id: &str,
        fill: Option<Amount>,
    ) -> Result<Value, Refused> {
        let value = |order: &Order| json!(order);
        match request.op.as_str() {
            "place" => self.place(request, fill).map(|order| value(&order)),
            "cancel" => {
                if let Some(size) = fill {
                    self.fill(id, size);
                }
                let order = self.orders.iter_mut().find(|it| it.is(id) && it.is_open());
                let order = order.ok_or(("not_found", "no such order works"))?;
                order.status = "canceled";
                Ok(value(order))
            }
            "order" => {
                let order = self.order(id).ok_or(("not_found", "no such order"))?;
                Ok(value(order))
            }
            "open_orders" => Ok(self.open().map(value).collect()),
            "trades" => Ok(self.trades_since(request.since)),
            "balances" => {
                let rows = self.balances.iter().map(|(currency, total)| {
                    let available = self.available(currency);
                    json!({"currency": currency, "total": total, "available": available})
                });
                Ok(rows.collect())
            }
            "time" => Ok(json!({"time": self.now()})),
            "timer" => {
                self.is_armed = request.seconds.unwrap_or_default() > 0;
                self.look_at_timer();
                Ok(json!({}))
            }
            _ => Err(("rejected", "no such operation")),
        }
    }

    fn place(&mut self, request: &Request, fill: Option<Amount>) -> Result<Order, Refused> {
        let id = request.client_order_id.clone();
        if self.limited_until.is_some() && self.limited_until != id {
            return Err(("rate_limited", "too many requests"));
        }
        self.limited_until = None;
        let malformed = ("rejected", "a member is missing");
        let id = id.ok_or(malformed)?;
        if self.order(&id).is_some() {
            return Err(("duplicate", "the client order id is known"));
        }
        let mut order = self.new_order(
            Some(&id),
            request.side.ok_or(malformed)?,
            request
                .size
                .filter(|it| it.is_positive())
                .ok_or(malformed)?,
        );
        order.symbol = request.symbol.clone().ok_or(malformed)?;
        order.kind = request.kind.ok_or(malformed)?;
        (order.price, order.trigger) = (request.price, request.trigger);
        order.time_in_force = request.time_in_force.clone().unwrap_or_default();
        let (currency, need) = lock(&order);
        if need > self.available(currency) {
            return Err(("insufficient", "the balance is locked or not there"));
        }
        let (kind, is_ioc, size) = (order.kind, order.time_in_force == "ioc", order.size);
        self.orders.push(order);
        self.look_at_timer();
        if let Some(size) = fill.or((kind == OrderType::Market).then_some(size)) {
            self.fill(&id, size);
        }
        let order = self.orders.last_mut().ok_or(malformed)?;
        if is_ioc && order.is_open() {
            order.status = "expired";
        }
        Ok(order.clone())
    }

    /// Adds an order that no bridge has placed.
    pub(super) fn place_foreign(&mut self, client_order_id: Option<&str>, size: Amount) {
        let order = self.new_order(client_order_id, Side::Buy, size);
        self.orders.push(order);
    }

    /// Makes a limit order, which is not there yet.
    fn new_order(&self, client_order_id: Option<&str>, side: Side, size: Amount) -> Order {
        Order {
            client_order_id: client_order_id.map(str::to_owned),
            venue_id: format!("v-{}", self.orders.len()),
            symbol: SYMBOL.to_owned(),
            side,
            kind: OrderType::Limit,
            size,
            price: Some(Amount::from_i64(MARK)),
            trigger: None,
            time_in_force: "gtc".to_owned(),
            status: "open",
            filled: Amount::ZERO,
            at: self.now(),
        }
    }

    fn look_at_timer(&mut self) {
        let has_stop = self.open().any(|it| it.kind == OrderType::Stop);
        self.armed_with_stop |= self.is_armed && has_stop;
    }

    /// Fills an open order by `size`, or by what is left of it.
    pub(super) fn fill(&mut self, id: &str, size: Amount) {
        let (at, trade_id) = (self.now(), format!("{}", self.trades.len()));
        let order = self.orders.iter_mut().find(|it| it.is(id) && it.is_open());
        let Some(order) = order else { return };
        let size = size.min(order.left());
        order.filled = plus(order.filled, size);
        if order.left().is_zero() {
            order.status = "closed";
        }
        let price = Amount::from_i64(MARK);
        let value = times(size, price);
        let in_base = self.base_fee && order.side == Side::Buy;
        let (of, fee_currency) = if in_base {
            (size, BASE)
        } else {
            (value, QUOTE)
        };
        let rate = if self.rebate { "-0.001" } else { "0.001" };
        let fee = times(of, Amount::parse_exact(rate).unwrap_or(Amount::ZERO));
        self.trades.push(Trade {
            trade_id,
            client_order_id: order.client_order_id.clone(),
            venue_id: order.venue_id.clone(),
            symbol: order.symbol.clone(),
            side: order.side,
            size,
            price,
            fee,
            fee_currency,
            liquidity: match order.kind {
                OrderType::Limit => "maker",
                _ => "taker",
            },
            at,
            is_hidden: false,
            is_reported: false,
        });
        let (gets, pays) = match order.side {
            Side::Buy => ((BASE, size), (QUOTE, value)),
            Side::Sell => ((QUOTE, value), (BASE, size)),
        };
        for (currency, change) in [gets, (pays.0, -pays.1), (fee_currency, -fee)] {
            let held = self.balances.entry(currency).or_insert(Amount::ZERO);
            *held = plus(*held, change);
        }
    }

    fn trades_since(&self, since: Option<Time>) -> Value {
        let is_due = |it: &&Trade| {
            !it.is_hidden && (self.repeats || since.is_none_or(|since| it.at >= since))
        };
        let due = self.trades.iter().filter(is_due);
        if self.repeats {
            return due.rev().flat_map(|it| [json!(it), json!(it)]).collect();
        }
        due.map(|it| json!(it)).collect()
    }

    /// What its clock shows.
    pub(super) fn now(&self) -> Time {
        SystemClock::default().now().plus_ms(self.clock_ms)
    }

    /// The order with a client order id.
    pub(super) fn order(&self, id: &str) -> Option<&Order> {
        self.orders.iter().find(|it| it.is(id))
    }

    /// The orders that work.
    pub(super) fn open(&self) -> impl Iterator<Item = &Order> {
        self.orders.iter().filter(|it| it.is_open())
    }

    /// Whether the order with a client order id works.
    pub(super) fn works(&self, id: &str) -> bool {
        self.order(id).is_some_and(Order::is_open)
    }

    /// What is not locked by orders.
    pub(super) fn available(&self, currency: &str) -> Amount {
        let locked = self.open().map(lock).filter(|(of, _)| *of == currency);
        let total = self.balances.get(currency).copied();
        locked.fold(total.unwrap_or(Amount::ZERO), |left, (_, by)| {
            minus(left, by)
        })
    }
}

impl Order {
    fn is(&self, id: &str) -> bool {
        self.client_order_id.as_deref() == Some(id)
    }
}

/// The currency that an order locks, and how much of it.
fn lock(order: &Order) -> (&'static str, Amount) {
    match order.side {
        Side::Sell => (BASE, order.left()),
        Side::Buy => {
            let price = order.price.unwrap_or(Amount::from_i64(MARK));
            (QUOTE, times(order.left(), price))
        }
    }
}

/// Sums, differences and products of the sizes in the cases, which are far from every bound.
pub(super) fn plus(a: Amount, b: Amount) -> Amount {
    a.checked_add(b).unwrap_or(a)
}

pub(super) fn minus(a: Amount, b: Amount) -> Amount {
    plus(a, -b)
}

fn times(a: Amount, b: Amount) -> Amount {
    a.checked_mul(b).unwrap_or(a).normalized()
}
