//! One case: a scratch home, the exchange, the gate's side and a bridge between them.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::orders::{OrderType, Side, TimeInForce};
use spoolgate_wire::time::Time;

use super::exchange::{Exchange, SYMBOL};
use super::gate::{Gate, Told};
use super::reports::{Balance, Report, Snapshot, Working};
use super::trace::{Failure, Trace, What};

/// Time between two looks at what the bridge does.
const LOOK_EVERY: Duration = Duration::from_millis(4);
/// How long instructions of the cases are valid, in ms.
const VALID_MS: i64 = 600_000;

/// How a case ends.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

/// What a case works with.
pub(super) struct Rig<'a> {
    pub trace: Trace,
    pub exchange: Exchange,
    pub gate: Gate,
    patience: Duration,
    is_stopped: &'a AtomicBool,
    next: u32,
    /// The bridge may end by itself.
    pub may_end: bool,
}

impl<'a> Rig<'a> {
    /// Makes everything but the bridge's process.
    ///
    /// # Errors
    /// The system's error.
    pub(super) fn make(
        command: &[OsString],
        root: &Path,
        patience: Duration,
        is_stopped: &'a AtomicBool,
    ) -> anyhow::Result<Rig<'a>> {
        fs::DirBuilder::new().mode(0o700).create(root)?;
        let gate = Gate::make(root)?;
        let socket = root.join("venue");
        let exchange = Exchange::listen(socket.clone())?;
        let mut words = command.to_vec();
        for (name, value) in [
            ("--home", "home"),
            ("--key", "bridge.key"),
            ("--state", "state"),
        ] {
            words.extend([name.into(), root.join(value).into_os_string()]);
        }
        let mut venue = OsString::from("mock:");
        venue.push(socket);
        words.extend(["--venue".into(), venue]);
        Ok(Rig {
            trace: Trace::new(words, root.join("bridge.log")),
            exchange,
            gate,
            patience,
            is_stopped,
            next: 1,
            may_end: false,
        })
    }

    /// Lets everything move on once.
    pub(super) fn step(&mut self) -> Outcome {
        if self.is_stopped.load(Ordering::Relaxed) {
            return self.fail("the suite ends", "it was stopped");
        }
        // The gate first: a file is taken before what it says is sent.
        self.gate.step(&mut self.trace, &mut self.exchange)?;
        self.exchange.step(&mut self.trace);
        if let Some(fault) = self.trace.fault.clone() {
            return Err(fault);
        }
        if self.trace.is_killed() {
            return self.start();
        }
        match self.trace.has_ended() {
            Some(_) if !self.may_end => {
                let seen = self.trace.tail();
                self.fail("the bridge runs until it is stopped", &seen)
            }
            _ => Ok(()),
        }
    }

    /// Waits until `found` returns something; `due` says what.
    pub(super) fn until<T>(
        &mut self,
        due: &str,
        mut found: impl FnMut(&mut Rig<'a>) -> Option<T>,
    ) -> Outcome<T> {
        let begin = Instant::now();
        loop {
            self.step()?;
            if let Some(found) = found(self) {
                return Ok(found);
            }
            // A bridge that was killed meanwhile has had no time since.
            let begin = self.trace.started.map_or(begin, |at| at.max(begin));
            if begin.elapsed() >= self.patience {
                let seen = format!(
                    "not in {} s; {}",
                    self.patience.as_secs(),
                    self.trace.tail()
                );
                return Err(failure(due, &seen));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until `is_so`.
    pub(super) fn wait(&mut self, due: &str, is_so: impl Fn(&Rig<'a>) -> bool) -> Outcome {
        self.until(due, |rig| is_so(rig).then_some(()))
    }

    /// Lets everything move on until this time has passed.
    pub(super) fn pass_time(&mut self, end: Time) -> Outcome {
        while SystemClock::default().now() <= end {
            self.step()?;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// A failure unless `is_so`.
    pub(super) fn check(&mut self, is_so: bool, due: &str) -> Outcome {
        if is_so {
            return Ok(());
        }
        let seen = self.trace.tail();
        self.fail(due, &seen)
    }

    /// A failure.
    pub(super) fn fail<T>(&self, due: &str, seen: &str) -> Outcome<T> {
        Err(failure(due, seen))
    }

    /// Starts the bridge.
    pub(super) fn start(&mut self) -> Outcome {
        let started = self.trace.start();
        started.map_err(|error| failure("the bridge starts", &error.to_string()))
    }

    /// Ends the bridge with SIGKILL and starts it again.
    pub(super) fn restart(&mut self) -> Outcome {
        self.trace.kill();
        self.start()
    }

    /// Waits for the bridge's first sign, so that it is known to have started.
    pub(super) fn first_sign(&mut self) -> Outcome {
        self.wait("the bridge asks the exchange or writes `.alive`", |rig| {
            !rig.trace.events.is_empty() || !rig.gate.alive.is_empty()
        })
    }

    /// An entry that buys 0.02 at a limit.
    pub(super) fn entry(&mut self) -> Told {
        let line = self.next;
        self.next = line.saturating_add(1);
        Told {
            order_id: format!("o-{line}"),
            version: 0,
            client_order_id: String::new(),
            instruction: "place",
            symbol: SYMBOL,
            side: Side::Buy,
            order_type: OrderType::Limit,
            size: amount("0.02"),
            price: Some(amount("6795")),
            trigger: None,
            time_in_force: TimeInForce::Gtc,
            reduce_only: false,
            valid_until: Some(SystemClock::default().now().plus_ms(VALID_MS)),
            epoch: self.gate.epoch,
            line: line.to_string(),
        }
        .with_version(1)
    }

    /// A protective stop that sells 0.02.
    pub(super) fn stop(&mut self) -> Told {
        let mut stop = self.entry();
        stop.order_id.push_str("-stop");
        stop.order_type = OrderType::Stop;
        (stop.price, stop.trigger) = (None, Some(amount("6600")));
        (stop.side, stop.reduce_only) = (Side::Sell, true);
        stop.with_version(1)
    }

    /// An exit that sells 0.02 at the market.
    pub(super) fn exit(&mut self) -> Told {
        let mut exit = self.entry();
        (exit.order_type, exit.price) = (OrderType::Market, None);
        (exit.side, exit.reduce_only) = (Side::Sell, true);
        exit
    }

    /// Writes an instruction.
    pub(super) fn tell(&mut self, told: &Told) -> Outcome {
        self.tell_as(told, &told.file())
    }

    /// Writes an instruction under another name.
    pub(super) fn tell_as(&mut self, told: &Told, name: &str) -> Outcome {
        let id = told.client_order_id.clone();
        self.exchange.told.insert(id, told.clone());
        Ok(self.gate.write(told, name)?)
    }

    /// Waits until the bridge has taken the instruction's file.
    pub(super) fn taken(&mut self, name: &str) -> Outcome {
        let due = format!("the bridge takes {name}");
        self.wait(&due, |rig| rig.gate.is_taken(name))
    }

    /// Waits for a report of this version; of a trade, of its order.
    pub(super) fn report(&mut self, told: &Told, kind: &str) -> Outcome<Report> {
        let due = format!("the bridge reports `{kind}` of {}", told.label());
        let (id, version) = (told.order_id.clone(), told.version);
        self.until(&due, |rig| {
            let is_it = |it: &&Report| {
                it.order_id == id && it.kind == kind && it.version.is_none_or(|it| it == version)
            };
            rig.gate.reports.iter().rev().find(is_it).cloned()
        })
    }

    /// Writes an instruction and waits until it works, at the exchange and by the reports.
    pub(super) fn work(&mut self, told: &Told) -> Outcome {
        self.tell(told)?;
        self.report(told, "working")?;
        let due = format!("the exchange works {}", told.label());
        self.check(self.exchange.works(&told.client_order_id), &due)
    }

    /// Writes an instruction that cancels the order, and waits until that is reported.
    pub(super) fn cancel(&mut self, told: &Told) -> Outcome<Report> {
        let cancel = told.next("cancel");
        self.tell(&cancel)?;
        self.canceled(&cancel)
    }

    /// Waits for a report that this version has ended; the exchange must not work it any more.
    pub(super) fn canceled(&mut self, told: &Told) -> Outcome<Report> {
        let report = self.report(told, "canceled")?;
        let exchange = &self.exchange;
        let works = exchange
            .told
            .iter()
            .any(|(id, it)| it.order_id == told.order_id && exchange.works(id));
        let due = format!(
            "a `canceled` {} does not work at the exchange",
            told.order_id
        );
        self.check(!works, &due)?;
        Ok(report)
    }

    /// Waits for a rejection of this version whose text begins like this.
    pub(super) fn rejected(&mut self, told: &Told, text: &str) -> Outcome {
        let report = self.report(told, "rejected")?;
        let said = report.text.unwrap_or_default();
        let is_so = match text {
            "expired" => said == text,
            _ => said.starts_with(text),
        };
        if is_so {
            return Ok(());
        }
        let due = format!("{} is `rejected` with the text `{text}`", told.label());
        self.fail(&due, &format!("the text `{said}`"))
    }

    /// Fills an order at the exchange.
    pub(super) fn fill(&mut self, told: &Told, size: &str) {
        self.exchange.fill(&told.client_order_id, amount(size));
    }

    /// Waits until the gate has booked that much of the order as filled.
    pub(super) fn filled(&mut self, told: &Told, cum_qty: &str) -> Outcome {
        let due = format!(
            "the bridge reports trades of {cum_qty} of {}",
            told.order_id
        );
        let (id, cum_qty) = (told.order_id.clone(), amount(cum_qty));
        self.wait(&due, |rig| rig.gate.filled(&id) == cum_qty)
    }

    /// Waits until the exchange has answered `n` more polls.
    pub(super) fn polls(&mut self, n: usize) -> Outcome {
        let polls = |rig: &Rig| {
            let count = |op: &str| rig.trace.count(What::Answered, op, "");
            let counts = ["trades", "open_orders", "order"].map(count);
            counts
                .iter()
                .fold(0, |sum: usize, n| sum.saturating_add(*n))
        };
        for _ in 0..n {
            let before = polls(self);
            self.wait("the bridge polls the exchange", |rig| polls(rig) > before)?;
        }
        Ok(())
    }

    /// Has another entry carried out, so that everything that was written before had its turn.
    pub(super) fn pass_over(&mut self) -> Outcome {
        let other = self.entry();
        self.work(&other)?;
        self.polls(1)
    }

    /// Number of requests to place a version, or any version for an order id.
    pub(super) fn placed(&self, about: &str) -> usize {
        self.trace.count(What::Asked, "place", about)
    }

    /// Waits for a snapshot after the first `seen` that `is_it`.
    pub(super) fn snapshot(
        &mut self,
        seen: usize,
        due: &str,
        is_it: impl Fn(&Rig<'a>, &Snapshot) -> bool,
    ) -> Outcome<Snapshot> {
        let found = self.until(due, |rig| {
            let new = rig.gate.snapshots.iter().skip(seen);
            new.rev().find(|it| is_it(rig, it)).cloned()
        });
        found.map_err(|mut why| {
            let last = self.gate.snapshots.last();
            let last = last.map(|it| format!("{:?} {:?} {:?}", it.orders, it.balances, it.foreign));
            let last = last.unwrap_or_else(|| "none".to_owned());
            why.seen = format!("{}; newest snapshot: {last}", why.seen);
            why
        })
    }

    /// Waits until every trade of the gate's orders is booked: nothing is lost.
    pub(super) fn settle(&mut self) -> Outcome {
        self.wait("every trade of the exchange is reported", |rig| {
            let told = &rig.exchange.told;
            let is_ours = |id: &Option<String>| id.as_ref().is_some_and(|id| told.contains_key(id));
            let mut trades = rig.exchange.trades.iter();
            trades.all(|it| it.is_reported || !is_ours(&it.client_order_id))
                && rig.gate.waiting() == 0
        })
    }

    /// What the exchange holds, as a snapshot lists it.
    pub(super) fn balances(&self) -> Vec<Balance> {
        let rows = self
            .exchange
            .balances
            .iter()
            .map(|(currency, total)| Balance {
                currency: (*currency).to_owned(),
                total: *total,
                available: self.exchange.available(currency),
            });
        rows.filter(|it| !it.total.is_zero()).collect()
    }

    /// The orders that the exchange works, as a snapshot lists them.
    pub(super) fn working(&self, told: &[&Told]) -> Vec<Working> {
        let mut rows: Vec<Working> = told
            .iter()
            .filter(|it| self.exchange.works(&it.client_order_id))
            .map(|it| Working {
                order_id: it.order_id.clone(),
                version: it.version,
                cum_qty: self.gate.filled(&it.order_id),
                size: it.size,
                price: it.price,
                trigger: it.trigger,
            })
            .collect();
        rows.sort();
        rows
    }
}

/// Makes a failure.
pub(super) fn failure(due: &str, seen: &str) -> Failure {
    let (due, seen) = (due.to_owned(), seen.to_owned());
    Failure { due, seen }
}

/// An amount of the cases; all of them are well-formed.
pub(super) fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap_or(Amount::ZERO)
}
