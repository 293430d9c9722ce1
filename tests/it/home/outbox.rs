//! The outbox of a real home: files for a bridge, its signed reports, crashes in between, and paper
//! trading beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::kit::process::{Running, answered, until};
use crate::kit::venue::{MockVenue, enable_outbox};
use crate::kit::{Scratch, Sent, lines, sign, spoolgate, succeed};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_wire::signing::SignKey;

struct Desk {
    scratch: Scratch,
    bridge: SignKey,
    n: u64,
}

impl Desk {
    /// Makes a home with BTC at a venue behind `exchange`, and ETH on paper at the same prices.
    fn new() -> Desk {
        let scratch = Scratch::with_prices();
        let bridge = enable_outbox(&scratch);
        Desk {
            scratch,
            bridge,
            n: 0,
        }
    }

    fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    /// Hands over a request and returns its answer.
    fn ask(&mut self, key: &SignKey, source: &str, action: &str, payload: &Value) -> Value {
        self.n += 1;
        let id = format!("q{}", self.n);
        let bytes = sign(key, source, &id, action, &payload.to_string());
        let file = self.scratch.beside(&format!("{id}.json"));
        fs::write(&file, bytes).unwrap();
        let done = spoolgate(
            &self.home(),
            &["--format", "json", "handle", file.to_str().unwrap()],
        );
        serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", crate::kit::show(&done)))
    }

    fn submit(&mut self, symbol: &str, side: &str, size: &str, slug: &str) -> String {
        let order = entry_of(symbol, side, size, slug);
        let bot = self.scratch.bot.clone();
        let answer = self.ask(&bot, "trend-bot", "order.submit", &order);
        answer["data"]["Accepted"]["order_id"]
            .as_str()
            .unwrap_or_else(|| panic!("{answer:#}"))
            .to_owned()
    }

    fn report(&mut self, id: &str, exec: &str, rest: Value) -> Value {
        let mut report =
            json!({"order_id": id, "exec_id": exec, "transact_time": "2026-02-21T12:00:30Z"});
        report
            .as_object_mut()
            .unwrap()
            .extend(rest.as_object().unwrap().clone());
        let key = self.bridge.clone();
        self.ask(&key, "exchange", "venue.report", &report)
    }

    fn trade(&mut self, id: &str, exec: &str, size: &str, cum: &str) -> Value {
        let rest = json!({"exec_type": "trade", "last_qty": size, "last_px": "6790", "fee": "0.01",
            "liquidity": "taker", "cum_qty": cum});
        self.report(id, exec, rest)
    }

    /// Returns the instructions in the outbox, by file name.
    fn told(&self) -> BTreeMap<String, Value> {
        let folder = self.home().join("spool/outbox/exchange");
        let Ok(files) = fs::read_dir(folder) else {
            return BTreeMap::new();
        };
        let read = |path: PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (
                name,
                serde_json::from_slice(&fs::read(path).unwrap()).unwrap(),
            )
        };
        let paths = files.map(|file| file.unwrap().path());
        let is_told = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
        paths.filter(is_told).map(read).collect()
    }

    fn names(&self) -> Vec<String> {
        self.told().into_keys().collect()
    }

    fn positions(&self) -> Vec<(String, String)> {
        let shown = succeed(&self.home(), &["--format", "json", "portfolio"]);
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let positions = shown["positions"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        positions
            .iter()
            .map(|held| (text(&held["symbol"]), text(&held["size"])))
            .collect()
    }
}

fn entry_of(symbol: &str, side: &str, size: &str, slug: &str) -> Value {
    let stop = if side == "buy" { "6500" } else { "7100" };
    json!({"strategy": "trend", "symbol": symbol, "side": side, "size": size,
        "order_type": "market", "stop_price": stop, "thesis_slug": slug, "planned_entry": "6800",
        "planned_stop": stop})
}

fn code(answer: &Value) -> &str {
    answer["error"]["code"].as_str().unwrap_or("none")
}

#[test]
fn from_an_entry_to_its_stop_through_files() {
    let mut desk = Desk::new();
    assert_eq!(desk.names(), [""; 0]);
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    let first = format!("{entry}.1.json");
    assert_eq!(desk.names(), [first.as_str()]);
    let line = entry.trim_start_matches("o-");
    assert_eq!(
        desk.told()[&first],
        json!({"order_id": entry, "version": 1, "instruction": "place", "symbol": "BTC-USD",
            "side": "buy",
            "order_type": "market", "size": "0.02", "price": null, "trigger": null,
                "time_in_force": "gtc",
            "reduce_only": false, "line": line, "epoch": 1,
            "client_order_id": desk.told()[&first]["client_order_id"],
            "valid_until": desk.told()[&first]["valid_until"]})
    );
    let answer = desk.trade(&entry, "T1", "0.01", "0.01");
    assert_eq!(
        answer["data"],
        json!({"ReportBooked": {"order_id": entry, "exec_id": "T1"}})
    );
    let stop = format!("{entry}-stop.1.json");
    assert_eq!(desk.told()[&stop]["trigger"], "6500");
    assert_eq!(desk.told()[&stop]["reduce_only"], true);
    desk.trade(&entry, "T2", "0.01", "0.02");
    let grown = format!("{entry}-stop.2.json");
    // Whether the bridge still has it at the venue or not.
    assert_eq!(desk.told()[&grown]["instruction"], "place");
    assert_eq!(desk.told()[&grown]["size"], "0.02");
    assert_eq!(
        desk.positions(),
        [("BTC-USD".to_owned(), "0.02".to_owned())]
    );
    // The same report again, under another request id and under its own.
    assert_eq!(
        code(&desk.trade(&entry, "T2", "0.01", "0.03")),
        "REPORT_DUPLICATE"
    );
    assert_eq!(
        code(&desk.report(
            &entry,
            "T9",
            json!({"exec_type": "canceled", "cum_qty": "0.02"})
        )),
        "REPORT_UNKNOWN"
    );
    assert_eq!(
        desk.positions(),
        [("BTC-USD".to_owned(), "0.02".to_owned())]
    );
    assert_the_state_is_that_of_the_ledger(&desk.home());
}

#[test]
fn the_same_request_again_has_the_same_answer() {
    let mut desk = Desk::new();
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    let trade = |cum: &str| {
        format!(
            r#"{{"order_id":"{entry}","exec_id":"T1","exec_type":"trade","transact_time":"2026-02-21T12:00:30Z","last_qty":"0.01","last_px":"6790","fee":0,"liquidity":"taker","cum_qty":"{cum}"}}"#
        )
    };
    // The bridge has taken it.
    fs::remove_file(
        desk.home()
            .join(format!("spool/outbox/exchange/{entry}.1.json")),
    )
    .unwrap();
    for (id, cum, expect) in [
        ("r1", "0.02", "REPORT_OUT_OF_ORDER"),
        ("r2", "0.01", "none"),
    ] {
        let bytes = sign(&desk.bridge, "exchange", id, "venue.report", &trade(cum));
        let mut answers = Vec::new();
        for _ in 0..2 {
            fs::write(desk.home().join(format!("spool/in/{id}.json")), &bytes).unwrap();
            succeed(&desk.home(), &["run", "--until-idle"]);
            answers.push(
                fs::read_to_string(desk.home().join(format!("spool/out/{id}.json"))).unwrap(),
            );
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(code(&serde_json::from_str(&answers[0]).unwrap()), expect);
    }
    assert_eq!(
        desk.positions(),
        [("BTC-USD".to_owned(), "0.01".to_owned())]
    );
    // The report that did not fit closed the symbol until a person clears it.
    let order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.01",
        "order_type": "market", "stop_price": "6500", "thesis_slug": "btc-dip-long",
            "planned_entry": "6800",
        "planned_stop": "6500"});
    let bot = desk.scratch.bot.clone();
    let answer = desk.ask(&bot, "trend-bot", "order.submit", &order);
    let failed = answer["data"]["Rejected"]["checks_failed"].to_string();
    assert!(failed.contains("\"symbol_halt\""), "{answer:#}");
    let status = succeed(&desk.home(), &["portfolio"]);
    assert!(
        status.contains("book and venue may differ in `BTC-USD`"),
        "{status}"
    );
    succeed(
        &desk.home(),
        &["halt", "clear", "--symbol", "BTC-USD", "--reason", "looked"],
    );
    // The rest of the entry was pulled meanwhile, and until the venue has reported what became of it
    // and of its stop it counts whole.
    let answer = desk.ask(&bot, "trend-bot", "order.submit", &order);
    let failed = answer["data"]["Rejected"]["checks_failed"].to_string();
    assert!(!failed.contains("\"symbol_halt\""), "{answer:#}");
    assert_the_state_is_that_of_the_ledger(&desk.home());
}

#[test]
fn only_the_bridge_may_report() {
    let mut desk = Desk::new();
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    let report = json!({"order_id": entry, "exec_id": "T1", "exec_type": "canceled",
        "transact_time": "2026-02-21T12:00:30Z", "cum_qty": 0});
    let (bot, owner, bridge) = (
        desk.scratch.bot.clone(),
        desk.scratch.owner.clone(),
        desk.bridge.clone(),
    );
    assert_eq!(
        code(&desk.ask(&bot, "trend-bot", "venue.report", &report)),
        "NOT_PERMITTED"
    );
    assert_eq!(
        code(&desk.ask(&owner, "owner", "venue.report", &report)),
        "NOT_PERMITTED"
    );
    for (action, payload) in [
        ("orders.list", json!({})),
        ("order.cancel", json!({"order_id": entry})),
    ] {
        assert_eq!(
            code(&desk.ask(&bridge, "exchange", action, &payload)),
            "NOT_PERMITTED",
            "{action}"
        );
    }
    let malformed = json!({"order_id": entry, "exec_id": "T1", "exec_type": "canceled",
        "transact_time": "2026-02-21T12:00:30Z", "cum_qty": 0, "last_qty": 1});
    assert_eq!(
        code(&desk.ask(&bridge, "exchange", "venue.report", &malformed)),
        "MALFORMED_PAYLOAD"
    );
    assert_eq!(
        code(&desk.ask(&bridge, "exchange", "venue.report", &report)),
        "none"
    );
}

#[test]
fn paper_and_a_venue_in_one_home() {
    let mut desk = Desk::new();
    let (btc, eth) = (
        desk.submit("BTC-USD", "buy", "0.02", "btc-range-long"),
        desk.submit("ETH-USD", "buy", "0.02", "eth-range-long"),
    );
    assert_eq!(desk.names(), [format!("{btc}.1.json")]);
    let rows = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/examples/market/lean-coinbase-minute-btcusd_20180405_quote.zip"
    );
    std::thread::sleep(std::time::Duration::from_millis(5));
    succeed(
        &desk.home(),
        &["market", "import", rows, "--symbol", "BTC-USD", "--end-now"],
    );
    assert_eq!(
        desk.positions(),
        [] as [(String, String); 0],
        "rows fill nothing at a venue"
    );
    desk.trade(&btc, "T1", "0.02", "0.02");
    assert_eq!(
        desk.positions(),
        [("BTC-USD".to_owned(), "0.02".to_owned())]
    );
    let orders = succeed(&desk.home(), &["--format", "json", "orders"]);
    let at_venue = |id: &str| {
        let of = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let found = orders
            .lines()
            .map(of)
            .find(|order| order["order_id"] == id)
            .unwrap();
        found.get("at_venue").is_some()
    };
    assert!(at_venue(&format!("{btc}-stop")) && !at_venue(&eth));
    assert_the_state_is_that_of_the_ledger(&desk.home());
}

#[test]
fn instructions_of_lines_that_are_not_marked_come_again() {
    let mut desk = Desk::new();
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    desk.trade(&entry, "T1", "0.01", "0.01");
    let before = desk.told();
    assert_eq!(before.len(), 2);
    // The bridge took one, a power cut tore another, and of the third only the line exists.
    fs::remove_file(
        desk.home()
            .join(format!("spool/outbox/exchange/{entry}.1.json")),
    )
    .unwrap();
    fs::write(
        desk.home()
            .join(format!("spool/outbox/exchange/{entry}-stop.1.json")),
        b"",
    )
    .unwrap();
    let reopened = Home::open(&desk.home(), real_seams(&desk.home()).unwrap()).unwrap();
    drop(reopened);
    // Whoever took the first may have sent it, so what is written again has another name.
    let told = |desk: &Desk| {
        let files = desk.told().into_iter();
        let named = files.map(|(name, told)| (name.replace(".again", ""), told));
        named.collect::<BTreeMap<String, Value>>()
    };
    assert_eq!(told(&desk), before, "made again by the next start");
    let names = [
        format!("{entry}-stop.1.json"),
        format!("{entry}.1.again.json"),
    ];
    assert_eq!(desk.names(), names);
    fs::remove_dir_all(desk.home().join("spool/outbox")).unwrap();
    drop(Home::open(&desk.home(), real_seams(&desk.home()).unwrap()).unwrap());
    assert_eq!(told(&desk), before);
    // After a mark they belong to the bridge.
    succeed(&desk.home(), &["run", "--until-idle"]);
    fs::remove_dir_all(desk.home().join("spool/outbox/exchange")).unwrap();
    drop(Home::open(&desk.home(), real_seams(&desk.home()).unwrap()).unwrap());
    assert_eq!(desk.names(), [""; 0]);
    assert_the_state_is_that_of_the_ledger(&desk.home());
}

#[test]
fn an_obstacle_costs_only_the_file_that_it_blocks() {
    let mut desk = Desk::new();
    let folder = desk.home().join("spool/outbox/exchange");
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    fs::rename(&folder, folder.with_extension("aside")).unwrap();
    fs::write(&folder, b"in the way").unwrap();
    desk.trade(&entry, "T1", "0.02", "0.02");
    // What is pulled and fills all the same has not been filled by what pulled it.
    let told = succeed(&desk.home(), &["explain", &entry]);
    let filled = format!("{entry} filled completely\n");
    assert!(told.contains(&filled), "{told}");
    assert!(desk.home().join("spool/outbox/exchange").is_file());
    fs::remove_file(desk.home().join("spool/outbox/exchange")).unwrap();
    drop(Home::open(&desk.home(), real_seams(&desk.home()).unwrap()).unwrap());
    // Without the folder its bridge is silent: the entry was pulled, so what it bought is sold.
    let names = desk.names();
    assert!(
        names.len() == 1 && names[0].ends_with("-flatten.1.again.json"),
        "{names:?}"
    );
}

#[test]
fn a_blocked_file_is_written_once_the_obstacle_is_gone() {
    for restarts in [false, true] {
        let mut desk = Desk::new();
        let folder = desk.home().join("spool/outbox/exchange");
        let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
        fs::rename(&folder, folder.with_extension("aside")).unwrap();
        fs::write(&folder, b"in the way").unwrap();
        desk.trade(&entry, "T1", "0.02", "0.02");
        let said = spoolgate(&desk.home(), &["run", "--until-idle"]);
        // Without the folder its bridge is silent: the entry was pulled, so what it bought is sold.
        assert!(
            crate::kit::show(&said).contains("-flatten.1.again.json` cannot be written"),
            "{}",
            crate::kit::show(&said)
        );
        let open =
            |desk: &Desk| Home::open(&desk.home(), real_seams(&desk.home()).unwrap()).unwrap();
        let mut home = open(&desk);
        // An idle gate marks what it has published, and nothing before a mark is written again.
        home.mark_published().unwrap();
        if restarts {
            drop(home);
            home = open(&desk);
        }
        fs::remove_file(&folder).unwrap();
        home.write_news().unwrap();
        let names = desk.names();
        assert!(
            names.len() == 1 && names[0].contains("-flatten.1."),
            "{restarts}: {names:?}"
        );
        home.mark_published().unwrap();
        drop(home);
        fs::remove_dir_all(&folder).unwrap();
        drop(open(&desk));
        assert_eq!(desk.names(), [""; 0], "behind the mark it is the bridge's");
    }
}

#[test]
fn an_order_that_closes_a_position_is_explained_by_its_line() {
    let mut desk = Desk::new();
    let entry = desk.submit("BTC-USD", "buy", "0.02", "btc-range-long");
    assert_eq!(code(&desk.trade(&entry, "E1", "0.02", "0.02")), "none");
    let rest = json!({"exec_type": "canceled", "cum_qty": 0});
    assert_eq!(
        code(&desk.report(&format!("{entry}-stop"), "E2", rest)),
        "none"
    );
    let name = desk
        .names()
        .into_iter()
        .find(|name| name.contains("flatten"))
        .unwrap();
    let id = name.strip_suffix(".1.json").unwrap();
    let told = succeed(&desk.home(), &["explain", id]);
    let instructed = format!("told `exchange` to place {id} (version 1)");
    let words = ["asked for venue.report", "placed the exit", &instructed];
    for words in words
        .into_iter()
        .chain([format!("{id} is open, 0.02 unfilled").as_str()])
    {
        assert!(told.contains(words), "no {words:?} in\n{told}");
    }
}

#[test]
fn the_bridge_trades_against_the_simulated_exchange() {
    if let Some(why) = MockVenue::missing() {
        eprintln!("skipped: {why}");
        return;
    }
    let desk = Desk::new();
    let home = desk.home();
    let venue = MockVenue(&desk.scratch);
    venue.is_spot();
    let before = venue.run();
    fs::write(venue.prices(), "6800\n").unwrap();
    let gate = Running::watching(&home);
    let exchange = venue.exchange(&["--every", "0.05", "--part", "0.01"]);
    let bridge = venue.bridge();
    venue.until_reconciled(&before);
    let order = entry_of("BTC-USD", "buy", "0.02", "btc-range-long").to_string();
    let bytes = desk.scratch.request("entry", "order.submit", &order);
    Sent::new("entry.json", bytes).drop_into(&home);
    let answer = answered(&home, "entry.json");
    let entry = answer["data"]["Accepted"]["order_id"].as_str();
    let entry = entry.unwrap_or_else(|| panic!("{answer:#}")).to_owned();
    let orders = || json_lines(&succeed(&home, &["--format", "json", "orders"]));
    until("the exchange works a stop for the whole entry", || {
        orders().iter().any(|order| {
            order["role"] == "protective" && order["at_venue"]["works"]["size"] == "0.02"
        })
    });
    let mut prices = fs::OpenOptions::new()
        .append(true)
        .open(venue.prices())
        .unwrap();
    writeln!(prices, "6499").unwrap();
    let fills = || json_lines(&succeed(&home, &["--format", "json", "fills"]));
    until("the stop has sold", || fills().len() >= 4);
    // In order: the bridge reports the end of what it takes out, so the gate is the last.
    bridge.stop();
    exchange.stop();
    gate.stop();
    assert_eq!(desk.positions(), [] as [(String, String); 0]);
    let told = |fill: &Value| {
        format!("{} {}@{}", fill["order_id"], fill["size"], fill["price"]).replace('"', "")
    };
    let fills: Vec<String> = fills().iter().map(told).collect();
    let bought = format!("{entry} 0.01@6800");
    let sold = format!("{entry}-stop 0.01@6499");
    assert_eq!(fills, [bought.clone(), bought, sold.clone(), sold]);
    assert_the_state_is_that_of_the_ledger(&home);
    let (open, _) = Home::rebuild(&home, real_seams(&home).unwrap()).unwrap();
    assert_eq!(open.state().book.doubted_symbols, BTreeMap::new());
}

fn json_lines(text: &str) -> Vec<Value> {
    let lines = text.lines().map(serde_json::from_str);
    lines.map(Result::unwrap).collect()
}

fn assert_the_state_is_that_of_the_ledger(home: &Path) {
    succeed(home, &["audit", "verify"]);
    let (_, same) = Home::rebuild(home, real_seams(home).unwrap()).unwrap();
    assert!(same, "made again from the ledger it is another state");
    assert!(!lines(home).unwrap().is_empty());
}
