//! Gate and sample bridge are each killed at random moments while orders go to a simulated
//! exchange: in the end the exchange has executed each version of each order at most once, nothing
//! is lost, and both hold the same.
//!
//! It makes 5 kills of each. For more, or for the same again: `SPOOLGATE_KILLS=200
//! SPOOLGATE_SEED=7 cargo test --test it outbox_kill:: -- --nocapture`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::kit::process::Running;
use crate::kit::venue::enable_outbox;
use crate::kit::{Dice, Scratch, Sent, campaign, decisions, lines, setting, succeed};
use rusqlite::Connection;
use serde_json::{Value, json};
use spoolgate_gate::Change;
use spoolgate_gate::record::Ruling;
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_trading as trading;
use spoolgate_wire::amount::Amount;

struct Desk {
    scratch: Scratch,
    dice: Dice,
    n: u64,
}

impl Desk {
    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    fn state(&self) -> PathBuf {
        self.scratch.beside("bridge")
    }

    fn gate(&self) -> Running {
        Running::watch(&self.home())
    }

    fn bridge_command(&self) -> Command {
        let mut bridge = Command::new("python3");
        bridge.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bridge.py"));
        bridge
            .arg(self.home())
            .arg(self.scratch.beside("exchange.key"));
        bridge.arg(self.scratch.beside("prices")).arg(self.state());
        bridge.args(["--every", "0.02", "--part", "0.003"]);
        bridge
    }

    fn bridge(&self) -> Running {
        Running(self.bridge_command().stdout(Stdio::null()).spawn().unwrap())
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

#[test]
fn gate_and_bridge_killed_at_random_moments() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let (kills, seed) = (
        setting("SPOOLGATE_KILLS", campaign(5, 12)),
        setting("SPOOLGATE_SEED", 1),
    );
    let scratch = Scratch::with_prices();
    enable_outbox(&scratch);
    let_it_trade(&scratch.home());
    // A market that sometimes falls through the stops.
    let prices: Vec<String> = (0..900_i64)
        .map(|n| (6800 + 25 * ((n % 9) - 4) - if n % 70 > 62 { 180 } else { 0 }).to_string())
        .collect();
    fs::write(scratch.beside("prices"), prices.join("\n")).unwrap();
    let mut desk = Desk {
        scratch,
        dice: Dice::new(seed),
        n: 0,
    };
    let (mut gate, mut bridge) = (desk.gate(), desk.bridge());
    let (mut gates, mut bridges) = (0, 0);
    while gates < kills || bridges < kills {
        for _ in 0..desk.dice.below(5) {
            desk.request();
        }
        std::thread::sleep(Duration::from_millis(50 + desk.dice.below(350)));
        if desk.dice.below(2) == 0 {
            drop(gate);
            gates += 1;
            std::thread::sleep(Duration::from_millis(desk.dice.below(40)));
            gate = desk.gate();
        } else {
            drop(bridge);
            bridges += 1;
            std::thread::sleep(Duration::from_millis(desk.dice.below(40)));
            bridge = desk.bridge();
        }
    }
    drop(bridge);
    drop(gate);
    // Both run until neither has anything to do; what was claimed is decided first.
    let gate = desk.gate();
    let done = desk.bridge_command().arg("--until-idle").output().unwrap();
    assert!(
        done.status.success(),
        "seed {seed}: {}",
        crate::kit::show(&done)
    );
    gate.stop();
    succeed(&desk.home(), &["run", "--until-idle"]);
    let told = check(&desk);
    println!("seed {seed}: {gates} kills of the gate, {bridges} of the bridge; {told}");
}

fn rows(path: &Path, sql: &str) -> Vec<Vec<String>> {
    let database = Connection::open(path).unwrap();
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

fn amount(value: &Value) -> Amount {
    Amount::parse_exact(value.as_str().unwrap()).unwrap()
}

/// Checks that every report was booked, or reported what the ledger had already, and that none was
/// lost or booked twice. Returns the number of trades and of reports, the position and the cash.
fn check_reports(exchange: &Path, journal: &Path) -> (usize, usize, Amount, Amount) {
    let answers = rows(
        journal,
        "SELECT n, coalesce(answer, 'none') FROM reports ORDER BY n",
    );
    let events = rows(exchange, "SELECT n, body FROM events ORDER BY n");
    assert_eq!(answers.len(), events.len());
    let numbers: Vec<String> = (1..=events.len()).map(|n| n.to_string()).collect();
    assert_eq!(
        answers.iter().map(|row| row[0].clone()).collect::<Vec<_>>(),
        numbers
    );
    let mut cash = Amount::ZERO;
    let mut position = Amount::ZERO;
    let mut working: BTreeMap<(String, String), u32> = BTreeMap::new();
    for (answer, event) in answers.iter().zip(&events) {
        let body: Value = serde_json::from_str(&event[1]).unwrap();
        let is_late = answer[1] == "REPORT_UNKNOWN" && body["exec_type"] != "trade";
        assert!(answer[1] == "booked" || is_late, "{answer:?} to {body}");
        if let Some(version) = body["version"].as_u64() {
            let id = body["order_id"].as_str().unwrap().to_owned();
            *working.entry((id, version.to_string())).or_default() += 1;
        }
        if body["exec_type"] == "trade" {
            let id = body["order_id"].as_str().unwrap();
            let (size, fee) = (amount(&body["last_qty"]), amount(&body["fee"]));
            let value = amount(&body["last_px"]).checked_mul(size).unwrap();
            let buys = rows(
                exchange,
                &format!("SELECT side FROM orders WHERE id = '{id}'"),
            )[0][0]
                == "buy";
            let (size, flow) = if buys { (size, -value) } else { (-size, value) };
            position = position.checked_add(size).unwrap();
            cash = cash.checked_add(flow).unwrap().checked_sub(fee).unwrap();
        }
    }
    assert!(
        working.values().all(|times| *times == 1),
        "a version was executed twice: {working:?}"
    );
    let trades = events
        .iter()
        .filter(|event| event[1].contains("\"trade\""))
        .count();
    (trades, events.len(), position, cash)
}

/// Checks that every instruction was taken, and that the exchange was asked for exactly what was
/// instructed. Returns their number.
fn check_instructions(home: &Path, exchange: &Path, journal: &Path) -> usize {
    let mut instructed: BTreeMap<(String, String), u32> = BTreeMap::new();
    for (_, _, record) in lines(home).unwrap() {
        for change in record.iter().flat_map(|record| record.changes()) {
            if let Change::Book(trading::Change::Instructed(told)) = change {
                *instructed
                    .entry((told.order_id.to_string(), told.version.to_string()))
                    .or_default() += 1;
            }
        }
    }
    assert!(instructed.values().all(|times| *times == 1));
    let taken = rows(
        journal,
        "SELECT order_id, version FROM instructions ORDER BY order_id",
    );
    let taken: BTreeMap<(String, String), u32> = taken
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].clone()), 1))
        .collect();
    assert_eq!(taken, instructed);
    assert_eq!(
        rows(journal, "SELECT count(*) FROM instructions WHERE done = 0")[0][0],
        "0"
    );
    for row in rows(exchange, "SELECT cl_ord_id FROM requests") {
        let (id, version) = row[0].rsplit_once('.').unwrap();
        assert!(
            instructed.contains_key(&(id.to_owned(), version.to_owned())),
            "{row:?}"
        );
    }
    instructed.len()
}

/// Checks what must hold once both are idle.
fn check(desk: &Desk) -> String {
    let home = desk.home();
    succeed(&home, &["audit", "verify"]);
    let (open, same) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert!(same, "made again from the ledger it is another state");
    let book = &open.state().book;
    assert_eq!(book.doubted_symbols, BTreeMap::new());
    let (exchange, journal) = (
        desk.state().join("exchange.db"),
        desk.state().join("journal.db"),
    );
    let (trades, reports, position, cash) = check_reports(&exchange, &journal);
    let instructed = check_instructions(&home, &exchange, &journal);
    // Both hold the same.
    let held = book.positions.values().fold(Amount::ZERO, |sum, held| {
        sum.checked_add(held.size).unwrap()
    });
    assert_eq!(held, position);
    assert_eq!(
        book.account
            .cash
            .checked_sub(book.account.net_deposits)
            .unwrap(),
        cash
    );
    let open_there = rows(
        &exchange,
        "SELECT id, size, filled, coalesce(trigger, '') FROM orders WHERE open = 1",
    );
    let number = |text: &str| Amount::parse_exact(text).unwrap();
    let open_there: BTreeMap<String, (Amount, Amount)> = open_there
        .into_iter()
        .map(|row| (row[0].clone(), (number(&row[1]), number(&row[2]))))
        .collect();
    let open_here: BTreeMap<String, (Amount, Amount)> = book
        .orders
        .values()
        .filter(|order| {
            order
                .at_venue
                .as_ref()
                .is_some_and(|venue| venue.version > 0)
        })
        .map(|order| (order.order_id.to_string(), (order.size, order.filled)))
        .collect();
    assert_eq!(open_here, open_there);
    assert!(
        trades > 5 && instructed > 10,
        "too little went on: {trades} trades"
    );
    format!("{instructed} instructions, {reports} reports, {trades} trades")
}
