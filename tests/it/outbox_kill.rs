//! The gate, the bridge of `bridges/python` and its simulated exchange are each killed at random
//! moments: in the end the exchange has worked each version of each order at most once, nothing is
//! lost, and exchange, journal, ledger and book hold the same.
//!
//! It makes 5 kills each of gate and bridge, and some of the exchange. With an even seed the exchange
//! keeps the fee of a purchase back from the coins. For more, or for the same again: `SPOOLGATE_KILLS=200 SPOOLGATE_SEED=7 cargo test --test it outbox_kill:: -- --nocapture`

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::kit::process::{Running, until};
use crate::kit::venue::{MockVenue, enable_outbox};
use crate::kit::{Dice, Scratch, Sent, campaign, decisions, lines, names, setting, succeed};
use rusqlite::Connection;
use serde_json::{Value, json};
use spoolgate_gate::Change;
use spoolgate_gate::record::Ruling;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_trading as trading;
use spoolgate_trading::order::{Instruction, Verb};
use spoolgate_wire::amount::Amount;

/// The price at which everything comes to rest: beyond every limit, and above every stop.
const LAST_PRICE: &str = "6800";
/// What the account holds at the exchange at first.
const BALANCE: &str = "5000";

struct Desk {
    scratch: Scratch,
    dice: Dice,
    n: u64,
    /// Whether the exchange keeps the fee of a purchase back from the coins.
    is_base_fee: bool,
    /// The run of the bridge before the one that runs now.
    before: String,
}

/// The three processes.
struct Processes {
    gate: Running,
    bridge: Running,
    exchange: Running,
}

impl Desk {
    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn venue(&self) -> MockVenue<'_> {
        MockVenue(&self.scratch)
    }

    fn gate(&self) -> Running {
        Running::watch(&self.home())
    }

    fn bridge(&mut self) -> Running {
        self.before = self.venue().run();
        self.venue().bridge()
    }

    fn exchange(&self) -> Running {
        let balance = format!("USD={BALANCE}");
        let mut options = vec!["--every", "0.02", "--part", "0.003", "--balance", &balance];
        if self.is_base_fee {
            options.push("--base-fee");
        }
        self.venue().exchange(&options)
    }

    fn start(&mut self) -> Processes {
        Processes {
            gate: self.gate(),
            exchange: self.exchange(),
            bridge: self.bridge(),
        }
    }

    fn drop(&mut self, action: &str, payload: &Value) {
        self.n += 1;
        let id = format!("k{}", self.n);
        let bytes = self.scratch.request(&id, action, &payload.to_string());
        Sent::new(&format!("{id}.json"), bytes).drop_into(&self.home());
    }

    fn order(&mut self, side: &str, size: &str, extra: Value) {
        let mut order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": side, "size": size,
            "order_type": "market", "stop_price": "6600", "planned_entry": "6800",
            "planned_stop": "6600"});
        order["thesis_slug"] = json!(format!("t{}", self.dice.below(THESES)));
        order
            .as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        self.drop("order.submit", &order);
    }

    /// Sends any request that an agent may send, sensible or not.
    fn request(&mut self) {
        let size = format!("0.0{:02}", 5 + self.dice.below(20));
        match self.dice.below(6) {
            0 => self.order("buy", &size, json!({})),
            1 => self.order(
                "buy",
                &size,
                json!({"order_type": "limit", "price": "6750", "planned_entry": "6750"}),
            ),
            2 => self.order("buy", &size, json!({"target_price": "6900"})),
            3 => self.order("sell", &size, json!({})),
            kind => {
                let Ok(decided) = decisions(&self.home()) else {
                    return;
                };
                let placed: Vec<u64> = decided
                    .iter()
                    .filter(|(_, it)| it.decision == Some(Ruling::Accepted) && it.side.is_some())
                    .map(|(seq, _)| *seq)
                    .collect();
                let back = usize::try_from(self.dice.below(3)).unwrap();
                let Some(seq) = placed.iter().rev().nth(back) else {
                    return;
                };
                let id = format!("o-{seq}");
                if kind == 4 {
                    self.drop("order.cancel", &json!({"order_id": id}));
                } else {
                    self.drop(
                        "order.tighten_stop",
                        &json!({"order_id": id, "new_stop": "6650"}),
                    );
                }
            }
        }
    }
}

impl Drop for Desk {
    /// Keeps what a failed campaign leaves, because the same seed does not kill at the same moments.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let kept = std::env::temp_dir().join(format!("outbox_kill-{}", std::process::id()));
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(self.scratch.beside("")).arg(&kept);
            let _ = copy.status();
            eprintln!("home, journal and exchange are kept in {}", kept.display());
        }
    }
}

/// Lifts limits that would soon close everything, and adds theses, because each carries only one
/// entry at a time.
fn let_it_trade(home: &Path) {
    let path = home.join("rules/safety.yaml");
    let mut text = fs::read_to_string(&path).unwrap();
    for (key, value) in [
        ("max_single_position", "1"),
        ("max_total_exposure", "1"),
        ("max_same_direction_exposure", "1"),
        ("max_correlated_group", "1"),
        ("max_portfolio_risk", "1"),
        ("max_daily_loss", "4000"),
        ("max_weekly_loss", "4000"),
        ("max_drawdown", "1"),
        ("max_entries_per_minute", "1000"),
        ("max_entries_per_minute_all", "1000"),
        ("max_executions", "1000"),
        ("max_losing_trades", "1000"),
        ("max_daily_turnover", "1000"),
        ("max_rejects", "1000"),
        ("cooldown_s", "0"),
        ("duplicate_window_s", "0"),
        ("quote_age_floor_s", "86400"),
    ] {
        let lines = text.lines().map(|line| match line.split_once(':') {
            Some((name, _)) if name == key => format!("{key}: {value}\n"),
            _ => format!("{line}\n"),
        });
        text = lines.collect();
    }
    fs::write(&path, text).unwrap();
    let thesis = fs::read_to_string(home.join("proposals/theses/btc-range-long.md")).unwrap();
    for n in 0..THESES {
        let named = thesis.replace("btc-range-long", &format!("t{n}"));
        fs::write(home.join(format!("proposals/theses/t{n}.md")), named).unwrap();
    }
}

/// How many entries may be open at once.
const THESES: u64 = 12;

/// Lets entries expire while a bridge is dead.
fn be_quick(home: &Path) {
    let path = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("entry_valid_s: 3600"));
    let quick = text.replace("entry_valid_s: 3600", "entry_valid_s: 2");
    fs::write(&path, quick).unwrap();
    // Under broken rules nothing would be traded, and nothing could go wrong.
    succeed(home, &["rules", "lint"]);
}

impl Processes {
    fn assert_running(&mut self) {
        for (process, name) in [
            (&mut self.gate, "gate"),
            (&mut self.bridge, "bridge"),
            (&mut self.exchange, "exchange"),
        ] {
            assert!(process.is_running(), "the {name} ended by itself");
        }
    }

    fn until_reconciled(&mut self, desk: &Desk) {
        until("the bridge and the gate agree", || {
            self.assert_running();
            desk.venue().is_reconciled(&desk.before)
        });
    }

    /// Kills one of them and starts it again. Returns which.
    fn kill_one(&mut self, desk: &mut Desk) -> &'static str {
        let pause = |desk: &mut Desk| {
            std::thread::sleep(Duration::from_millis(desk.dice.below(40)));
        };
        self.assert_running();
        match desk.dice.below(5) {
            0 | 1 => {
                self.gate.0.kill().unwrap();
                self.gate.0.wait().unwrap();
                pause(desk);
                self.gate = desk.gate();
                "gate"
            }
            2 | 3 => {
                self.bridge.0.kill().unwrap();
                self.bridge.0.wait().unwrap();
                pause(desk);
                // Instructions that nobody takes yet are taken back by what follows them.
                for _ in 0..desk.dice.below(4) {
                    desk.request();
                }
                pause(desk);
                self.bridge = desk.bridge();
                "bridge"
            }
            _ => {
                self.exchange.0.kill().unwrap();
                self.exchange.0.wait().unwrap();
                pause(desk);
                self.exchange = desk.exchange();
                "exchange"
            }
        }
    }
}

#[test]
fn gate_bridge_and_exchange_killed_at_random_moments() {
    if let Some(why) = MockVenue::missing() {
        eprintln!("skipped: {why}");
        return;
    }
    let (kills, seed) = (
        setting("SPOOLGATE_KILLS", campaign(5, 12)),
        setting("SPOOLGATE_SEED", 1),
    );
    let scratch = Scratch::with_prices();
    enable_outbox(&scratch);
    let_it_trade(&scratch.home());
    MockVenue(&scratch).is_spot();
    be_quick(&scratch.home());
    let mut desk = Desk {
        scratch,
        dice: Dice::new(seed),
        n: 0,
        is_base_fee: seed % 2 == 0,
        before: String::new(),
    };
    // A market that sometimes falls through the stops, for as long as a kill may take.
    let prices = (0..500 * i64::try_from(kills).unwrap())
        .map(|n| 6800 + 25 * ((n % 9) - 4) - if n % 70 > 62 { 180 } else { 0 })
        .map(|price| format!("{price}\n"));
    fs::write(desk.venue().prices(), prices.collect::<String>()).unwrap();
    let mut processes = desk.start();
    let mut killed: BTreeMap<&str, u64> = BTreeMap::new();
    let least = |killed: &BTreeMap<&str, u64>| {
        ["gate", "bridge"].map(|name| *killed.get(name).unwrap_or(&0))
    };
    while least(&killed).iter().any(|count| *count < kills) {
        // Entries are taken only after the snapshot of a run: without this, hardly any would be.
        if desk.dice.one_in(2) {
            processes.until_reconciled(&desk);
        }
        for _ in 0..desk.dice.below(5) {
            desk.request();
        }
        std::thread::sleep(Duration::from_millis(50 + desk.dice.below(350)));
        *killed.entry(processes.kill_one(&mut desk)).or_default() += 1;
    }
    drop(processes);
    settle(&mut desk);
    let told = check(&desk);
    println!("seed {seed}: killed {killed:?}; {told}");
}

/// Lets all three run until none has anything to do.
fn settle(desk: &mut Desk) {
    fs::write(desk.venue().prices(), format!("{LAST_PRICE}\n")).unwrap();
    loop {
        let mut processes = desk.start();
        processes.until_reconciled(desk);
        until("nobody has anything to do", || is_quiet(desk));
        let Processes {
            gate,
            bridge,
            exchange,
        } = processes;
        drop((bridge, exchange));
        gate.stop();
        // What was claimed is decided, and what that brings about is for another round.
        succeed(&desk.home(), &["run", "--until-idle"]);
        if is_quiet(desk) {
            return;
        }
    }
}

/// Whether no message is under way between the three, and the price reaches no order.
fn is_quiet(desk: &Desk) -> bool {
    let (home, venue) = (desk.home(), desk.venue());
    let outbox = home.join("spool/outbox/exchange");
    let waits = |folder: &Path| {
        let names = names(folder).into_iter();
        names
            .filter(|name| name.to_string_lossy().ends_with(".json"))
            .count()
    };
    let folders = [home.join("spool/in"), outbox.clone(), outbox.join("taken")];
    let is_told = folders.iter().all(|folder| waits(folder) == 0);
    let newest = "SELECT max(version) FROM instructions WHERE order_id = one.order_id";
    let nothing_of = |file: &Path, sql: &str| rows(file, sql).is_empty();
    let journal = venue.journal();
    is_told
        && nothing_of(&journal, "SELECT 1 FROM reports WHERE answer IS NULL")
        && nothing_of(&journal, "SELECT 1 FROM pending")
        && nothing_of(
            &journal,
            "SELECT 1 FROM attempts WHERE state IN ('sending', 'disowned') OR booked <> filled",
        )
        && nothing_of(
            &journal,
            &format!("SELECT 1 FROM instructions AS one WHERE done = 0 AND version = ({newest})"),
        )
        && nothing_of(
            &venue.books(),
            &format!(
                "SELECT 1 FROM orders WHERE status = 'open' AND NOT (type = 'limit' AND side = 'buy' \
                    AND CAST(price AS REAL) < {LAST_PRICE} OR type = 'limit' AND side = 'sell' AND \
                    CAST(price AS REAL) > {LAST_PRICE} OR type = 'stop' AND NOT triggered)"
            ),
        )
        && rows(&venue.books(), "SELECT count(*) FROM trades")
            == rows(&journal, "SELECT count(*) FROM trades")
}

fn rows(path: &Path, sql: &str) -> Vec<Vec<String>> {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::from_secs(60)).unwrap();
    let mut statement = database.prepare(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| {
        (0..columns)
            .map(|n| {
                Ok(match row.get_ref(n)? {
                    rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                    rusqlite::types::ValueRef::Text(text) => {
                        String::from_utf8_lossy(text).into_owned()
                    }
                    _ => String::new(),
                })
            })
            .collect::<Result<Vec<String>, rusqlite::Error>>()
    };
    statement
        .query_map([], read)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

fn number(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn plus(one: Amount, other: Amount) -> Amount {
    one.checked_add(other).unwrap()
}

/// An order and its version.
type Key = (String, u32);

fn key(order_id: &str, version: &str) -> Key {
    (order_id.to_owned(), version.parse().unwrap())
}

/// What the ledger says.
#[derive(Default)]
struct Ledger {
    instructed: BTreeMap<Key, Instruction>,
    taken_back: BTreeSet<Key>,
    /// What each order filled at the exchange.
    filled: BTreeMap<String, Amount>,
}

impl Ledger {
    fn read(home: &Path) -> Ledger {
        let mut ledger = Ledger::default();
        for (_, _, record) in lines(home).unwrap() {
            for change in record.iter().flat_map(|record| record.changes()) {
                match change {
                    Change::Book(trading::Change::Instructed(told)) => {
                        let key = (told.order_id.to_string(), told.version);
                        let first = ledger.instructed.insert(key, told.clone());
                        assert_eq!(first, None, "instructed twice");
                    }
                    Change::Book(trading::Change::TakenBack { order_id, version }) => {
                        let key = (order_id.to_string(), *version);
                        assert!(
                            ledger.taken_back.insert(key),
                            "taken back twice: {change:?}"
                        );
                    }
                    Change::Book(trading::Change::OrderFilled(fill)) => {
                        let sum = ledger.filled.entry(fill.order_id.to_string());
                        let sum = sum.or_insert(Amount::ZERO);
                        *sum = plus(*sum, fill.size);
                    }
                    _ => {}
                }
            }
        }
        ledger
    }

    fn newest(&self, order_id: &str) -> u32 {
        let versions = self
            .instructed
            .range(key(order_id, "0")..key(order_id, "4294967295"));
        versions.map(|((_, version), _)| *version).max().unwrap()
    }
}

/// An order at the exchange.
struct AtExchange {
    order: Key,
    size: Amount,
    filled: Amount,
    trigger: String,
    is_open: bool,
}

/// The orders of the exchange by client order id, each with what the bridge's journal says it is for.
fn at_exchange(desk: &Desk) -> BTreeMap<String, AtExchange> {
    let venue = desk.venue();
    let attempts = rows(
        &venue.journal(),
        "SELECT client_order_id, order_id, version FROM attempts",
    );
    let attempts = attempts.into_iter();
    let attempts: BTreeMap<String, Key> = attempts
        .map(|row| (row[0].clone(), key(&row[1], &row[2])))
        .collect();
    let orders = rows(
        &venue.books(),
        "SELECT client_order_id, size, filled, coalesce(trigger, ''), status FROM orders",
    );
    let count = orders.len();
    let orders = orders.into_iter().map(|row| {
        let order = attempts.get(&row[0]);
        let order = order.unwrap_or_else(|| panic!("nobody placed {row:?}"));
        let at = AtExchange {
            order: order.clone(),
            size: number(&row[1]),
            filled: number(&row[2]),
            trigger: row[3].clone(),
            is_open: row[4] == "open",
        };
        (row[0].clone(), at)
    });
    let orders: BTreeMap<String, AtExchange> = orders.collect();
    assert_eq!(orders.len(), count, "a client order id was used twice");
    orders
}

/// Checks that every report was booked, or reported the end of an order whose end the ledger had, and
/// that every trade of the exchange was reported once, as it was. Returns how many reports and trades
/// there were.
fn check_reports(desk: &Desk, ledger: &Ledger) -> (usize, usize) {
    let venue = desk.venue();
    let reports = rows(
        &venue.journal(),
        "SELECT exec_id, exec_type, coalesce(answer, 'none'), CAST(bytes AS TEXT) FROM reports",
    );
    let mut trades: BTreeMap<String, Value> = BTreeMap::new();
    for row in &reports {
        let is_late = row[2] == "REPORT_UNKNOWN" && row[1] != "trade";
        assert!(row[2] == "booked" || is_late, "{row:?}");
        if row[1] == "trade" {
            let request: Value = serde_json::from_str(&row[3]).unwrap();
            let first = trades.insert(row[0].clone(), request["payload"].clone());
            assert_eq!(first, None, "reported twice");
        }
    }
    let count = trades.len();
    let done = rows(
        &venue.books(),
        "SELECT trades.n, trades.size, trades.price, fee, client_order_id FROM trades JOIN orders \
            ON orders.n = order_n",
    );
    let orders = at_exchange(desk);
    let mut filled: BTreeMap<String, Amount> = BTreeMap::new();
    for row in &done {
        let order_id = &orders[&row[4]].order.0;
        let told = trades.remove(&format!("t-T{}", row[0]));
        let told = told.unwrap_or_else(|| panic!("trade {row:?} was not reported"));
        let members = ["order_id", "last_qty", "last_px", "fee"].map(|name| told[name].as_str());
        let due = [order_id, &row[1], &row[2], &row[3]].map(|text| Some(text.as_str()));
        assert_eq!(members, due);
        let sum = filled.entry(order_id.clone()).or_insert(Amount::ZERO);
        *sum = plus(*sum, number(&row[1]));
    }
    assert_eq!(trades, BTreeMap::new(), "trades that never were");
    assert_eq!(ledger.filled, filled);
    (reports.len(), count)
}

/// Checks what became of every instruction: the bridge has carried it out, refused it as too late, or
/// skipped it for a newer one, or the gate has taken it back. Returns how many there were of each.
fn check_instructions(desk: &Desk, ledger: &Ledger, open: &BTreeSet<String>) -> Counts {
    let venue = desk.venue();
    let kept = rows(
        &venue.journal(),
        "SELECT order_id, version FROM instructions",
    );
    let kept: BTreeSet<Key> = kept.iter().map(|row| key(&row[0], &row[1])).collect();
    assert!(kept.iter().all(|key| ledger.instructed.contains_key(key)));
    let answered = rows(
        &venue.journal(),
        "SELECT order_id, version, CAST(bytes AS TEXT) FROM reports WHERE version IS NOT NULL",
    );
    let answered: BTreeMap<Key, String> = answered
        .iter()
        .map(|row| (key(&row[0], &row[1]), row[2].clone()))
        .collect();
    let sent: BTreeSet<Key> = at_exchange(desk).into_values().map(|at| at.order).collect();
    for key in &sent {
        let told = &ledger.instructed[key];
        assert_ne!(told.instruction, Verb::Cancel, "{key:?} was a cancel");
        assert!(
            !ledger.taken_back.contains(key),
            "{key:?} was taken back, and sent"
        );
    }
    let mut counts = Counts::new();
    for key in ledger.instructed.keys() {
        let newer = kept.range((key.0.clone(), key.1 + 1)..(key.0.clone(), u32::MAX));
        let answer = answered.get(key);
        let is_late = answer.is_some_and(|answer| answer.contains("\"expired\""));
        let what = match (kept.contains(key), answer) {
            (true, Some(_)) if is_late => "too late",
            (true, Some(_)) => "carried out",
            (true, None) => {
                assert!(
                    newer.count() > 0,
                    "{key:?} was taken, and nothing came of it"
                );
                "skipped"
            }
            (false, _) if ledger.taken_back.contains(key) => "taken back",
            (false, _) => {
                let is_newest = key.1 == ledger.newest(&key.0);
                assert!(!is_newest || !open.contains(&key.0), "{key:?} was lost");
                "outdated"
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

type Counts = BTreeMap<&'static str, usize>;

/// Checks what must hold once all are idle.
fn check(desk: &Desk) -> String {
    let home = desk.home();
    succeed(&home, &["audit", "verify"]);
    let (open, same) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert!(same, "made again from the ledger it is another state");
    let book = &open.state().book;
    assert_eq!(book.doubted_symbols, BTreeMap::new());
    let ledger = Ledger::read(&home);
    let (reports, trades) = check_reports(desk, &ledger);
    let at_venue = book.orders.values().filter_map(|order| {
        let venue = order.at_venue.as_ref().filter(|venue| venue.is_out())?;
        Some((order, venue))
    });
    let mut open_here: BTreeMap<String, (Amount, String)> = BTreeMap::new();
    for (order, venue) in at_venue {
        let told = venue.told.as_ref();
        let told = told.unwrap_or_else(|| panic!("{} is to end", order.order_id));
        let left = told.size.checked_sub(order.filled).unwrap();
        let trigger = told.trigger.map(|trigger| trigger.to_string());
        let id = order.order_id.to_string();
        open_here.insert(id, (left, trigger.unwrap_or_default()));
    }
    let mut open_there = BTreeMap::new();
    for at in at_exchange(desk).into_values().filter(|at| at.is_open) {
        let left = at.size.checked_sub(at.filled).unwrap();
        let first = open_there.insert(at.order.0.clone(), (left, at.trigger));
        assert_eq!(first, None, "{} works twice", at.order.0);
    }
    assert_eq!(open_here, open_there);
    let counts = check_instructions(desk, &ledger, &open_here.into_keys().collect());
    // Both hold the same.
    let held = book.positions.values().map(|held| held.size);
    let held = held.fold(Amount::ZERO, plus);
    let cash = book.account.cash.checked_sub(book.account.net_deposits);
    let cash = plus(cash.unwrap(), number(BALANCE));
    let balance = |currency: &str| {
        let sql = format!("SELECT total FROM balances WHERE currency = '{currency}'");
        let found = rows(&desk.venue().books(), &sql);
        found.first().map_or(Amount::ZERO, |row| number(&row[0]))
    };
    assert_eq!((held, cash), (balance("BTC"), balance("USD")));
    let carried_out = counts.get("carried out").copied().unwrap_or_default();
    assert!(
        trades > 5 && carried_out > 10,
        "too little went on: {trades} trades, {counts:?}"
    );
    format!("instructions {counts:?}, {reports} reports, {trades} trades")
}
