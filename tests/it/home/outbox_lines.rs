//! Lines that instruct bridges without being about one of their orders: a day that ends, a strategy
//! that is paused, instructions that did not fit into their line. Over a home in memory, with a
//! clock that stands still and a disk that fails.

use std::fs;

use super::halts::replays;
use crate::kit::place::{Place, drain};
use crate::kit::venue::{PATIENT, hear};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_host::keyring::{SqliteKeyring, key_id};
use spoolgate_trading::market_row::Row;
use spoolgate_trading::market_row::write_blob;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Leg, OrderId};
use spoolgate_wire::signing::{SignKey, sha256_hex};

pub(super) struct Desk {
    pub(super) place: Place,
    pub(super) bot: SignKey,
    pub(super) bridge: SignKey,
}

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

impl Desk {
    /// Makes a home with BTC-USD behind the bridge `exchange`, quoted at 6800.
    pub(super) fn new() -> Desk {
        Desk::at("")
    }

    /// The same, with a venue that keeps orders that reduce within the position.
    fn enforcing() -> Desk {
        Desk::at("    reduce_only: true\n")
    }

    pub(super) fn at(more: &str) -> Desk {
        Desk::with(more, PATIENT)
    }

    /// The same with these lines in `rules/safety.yaml`.
    pub(super) fn with(more: &str, limits: &str) -> Desk {
        let place = Place::new(1);
        let edit = |name: &str, from: &str, to: &str| {
            let path = place.root.path().join(name);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(from), "{name}: {from}");
            fs::write(&path, text.replace(from, to)).unwrap();
        };
        edit(
            "rules/principals.yaml",
            "principals:\n",
            "principals:\n  - {name: exchange, role: bridge}\n",
        );
        edit(
            "rules/instruments.yaml",
            "    bar_s: 60\n",
            &format!("    bar_s: 60\n    venue: outbox\n    bridge: exchange\n{more}"),
        );
        edit(
            "rules/safety.yaml",
            "max_total_capital",
            &format!("{limits}max_total_capital"),
        );
        let mut home = place.open().unwrap();
        home.write_news().unwrap();
        let (bot, bridge) = (SignKey::Hmac([7; 32]), SignKey::Hmac([8; 32]));
        let keyring = SqliteKeyring::open(place.root.path(), false).unwrap();
        for (name, key) in [("trend-bot", &bot), ("exchange", &bridge)] {
            keyring.insert(&key.verify_key()).unwrap();
            let id = key_id(&key.verify_key());
            let payload = json!({"principal": name, "key_id": id, "algorithm": "hmac-sha256"});
            place.ask_as_owner(&format!("key-{name}"), "keys.add", &payload.to_string());
        }
        place.ask_as_owner(
            "fund",
            "account.adjust",
            r#"{"amount":"5000","reason":"start"}"#,
        );
        drain(&mut home).unwrap();
        hear(&place, &mut home, &bridge);
        drop(home);
        let desk = Desk { place, bot, bridge };
        desk.quote();
        desk
    }

    pub(super) fn open(&self) -> Home {
        self.place.open().unwrap()
    }

    fn quote(&self) {
        let mut home = self.open();
        let time_ms = self.place.clock.now().ms();
        let (open, high, low, close) = (a("6800"), a("6800"), a("6800"), a("6800"));
        let (open_ms, interval_ms) = (time_ms - 60_000, 60_000);
        let bar = Row::Bar {
            open_ms,
            interval_ms,
            open,
            high,
            low,
            close,
            volume: None,
        };
        let row = Row::Quote {
            time_ms,
            bid: a("6800"),
            ask: a("6800.01"),
            bid_size: None,
            ask_size: None,
        };
        let blob = write_blob(&[bar, row]);
        let digest = sha256_hex(blob.as_bytes());
        home.keep_blob(&digest, blob.as_bytes()).unwrap();
        let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 2,
            "file_sha256": digest,
            "file_name": "f"});
        self.place.ask_as_owner(
            &format!("rows-{time_ms}"),
            "market.import",
            &payload.to_string(),
        );
        assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    }

    /// Sends a limit order; returns its id.
    pub(super) fn order(
        &self,
        home: &mut Home,
        id: &str,
        side: &str,
        size: &str,
        more: Value,
    ) -> String {
        let mut order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": side, "size": size,
            "order_type": "limit", "price": "6790", "planned_entry": "6790", "stop_price": "6600",
            "planned_stop": "6600", "thesis_slug": "btc-range-long"});
        order
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.place.ask(
            &self.bot,
            "trend-bot",
            id,
            "order.submit",
            &order.to_string(),
        );
        let done = drain(home).unwrap();
        assert!(done[0].answer.error.is_none(), "{done:#?}");
        done[0].decision.order_id.unwrap().to_string()
    }

    pub(super) fn trade(&self, home: &mut Home, exec: &str, order: &str, size: &str, cum: &str) {
        let payload = json!({"order_id": order, "exec_id": exec, "exec_type": "trade",
            "transact_time": "2026-03-02T12:00:00Z", "last_qty": size, "last_px": "6790", "fee": 0,
            "liquidity": "taker", "cum_qty": cum});
        self.place.ask(
            &self.bridge,
            "exchange",
            exec,
            "venue.report",
            &payload.to_string(),
        );
        let done = drain(home).unwrap();
        assert!(done[0].answer.error.is_none(), "{done:#?}");
    }

    /// Returns the instructions in the outbox: `order.version verb line`, sorted.
    pub(super) fn told(&self) -> Vec<String> {
        let files = self.place.disk.files_below("spool/outbox/exchange");
        let read = |bytes: Vec<u8>| {
            let told: Value = serde_json::from_slice(&bytes).unwrap();
            format!(
                "{}.{} {}",
                told["order_id"], told["version"], told["instruction"]
            )
            .replace('"', "")
        };
        let is_shown = |path: &std::path::Path| {
            let mut names = path.iter().map(std::ffi::OsStr::to_string_lossy);
            names.all(|name| !name.starts_with('.') && !name.starts_with("ping"))
        };
        files
            .into_iter()
            .filter(|(path, _)| is_shown(path))
            .map(|(_, bytes)| read(bytes))
            .collect()
    }

    fn forget_files(&self) {
        for (path, _) in self.place.disk.files_below("spool/outbox") {
            if !path.ends_with(".alive") {
                self.place.disk.drop_file(path);
            }
        }
    }
}

#[test]
fn the_end_of_a_day_and_the_next_start() {
    let desk = Desk::new();
    let mut home = desk.open();
    let id = desk.order(
        &mut home,
        "r1",
        "buy",
        "0.01",
        json!({"time_in_force": "day"}),
    );
    home.mark_published().unwrap();
    desk.forget_files();
    desk.place.pass_s(86_400);
    home.write_news().unwrap();
    let expect = [format!("{id}.2 cancel")];
    assert_eq!(desk.told(), expect);
    // Only the tick line contains it.
    drop(home);
    desk.forget_files();
    drop(desk.open());
    assert_eq!(desk.told(), expect);
    // The same from the ledger alone, also when the mark is gone.
    desk.forget_files();
    desk.place.forget_state();
    let mut home = desk.open();
    assert_eq!(desk.told(), expect);
    home.mark_published().unwrap();
    drop(home);
    desk.forget_files();
    drop(desk.open());
    assert_eq!(desk.told(), [""; 0]);
}

#[test]
fn a_pause_takes_working_entries_out_of_the_venue() {
    let desk = Desk::new();
    let mut home = desk.open();
    let id = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
    // The bridge has taken it.
    desk.forget_files();
    let pause = json!({"decision_id": "d1", "concern_id": "paper:btc-usd", "account_id": "paper",
        "market_symbol": "btc-usd", "action": "pause", "reason": "why", "confidence": 0.9});
    desk.place.ask(
        &desk.bot,
        "trend-bot",
        "c1",
        "control.apply",
        &pause.to_string(),
    );
    let done = drain(&mut home).unwrap();
    assert!(done[0].answer.error.is_none(), "{done:#?}");
    assert_eq!(desk.told(), [format!("{id}.2 cancel")]);
    let book = &home.state().book;
    assert_eq!(
        book.orders.len(),
        1,
        "it is there until the venue has let go of it"
    );
    assert!(book.orders.values().all(|order| order.ending().is_some()));
}

#[test]
fn instructions_that_do_not_fit_are_in_the_next_line_of_the_same_batch() {
    let desk = Desk::new();
    let root = desk.place.root.path();
    let path = root.join("rules/safety.yaml");
    let limits = "max_open_orders: 100\nmax_entries_per_minute: 100\n\
        max_entries_per_minute_all: 100\nmax_total_capital: 1000000\nmax_single_position: 1\n\
        max_total_exposure: 100\nmax_same_direction_exposure: 100\nmax_correlated_group: 100\n\
        max_portfolio_risk: 1\nmax_single_trade_risk: 1";
    let key = |line: &str| line.split(':').next().unwrap().to_owned();
    let raised: Vec<String> = limits.lines().map(key).collect();
    let text = fs::read_to_string(&path).unwrap();
    let kept = text.lines().filter(|line| !raised.contains(&key(line)));
    let lines: Vec<&str> = kept.chain(limits.lines()).collect();
    fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
    for n in 0..36 {
        let text = format!(
            "---\nslug: t{n}\nstrategy: trend\nsymbol: BTC-USD\ndirection: long\n\
                expires: 2030-01-01T00:00:00Z\ninvalid_below: 100\n---\nWhy.\n"
        );
        fs::write(root.join(format!("proposals/theses/t{n}.md")), text).unwrap();
    }
    let mut home = desk.open();
    for _ in 0..3 {
        desk.place.pass_s(2);
        home.write_news().unwrap();
    }
    assert_eq!(home.rules_fault(), None);
    for n in 0..36 {
        let more = json!({"thesis_slug": format!("t{n}"), "price": format!("6790.{n:02}")});
        desk.order(&mut home, &format!("x{n}"), "buy", "0.002", more);
    }
    desk.forget_files();
    let before = home.position().seq;
    desk.place
        .ask_as_owner("halt", "halt.set", r#"{"reason":"drill"}"#);
    drain(&mut home).unwrap();
    assert_eq!(desk.told().len(), 36, "all entries are cancelled");
    assert!(desk.told().iter().all(|told| told.ends_with(".2 cancel")));
    // Decision, pull, tick, seal.
    assert_eq!(home.position().seq, before + 4);
    drop(home);
    desk.forget_files();
    drop(desk.open());
    let again = desk
        .told()
        .into_iter()
        .filter(|told| told.ends_with("cancel"))
        .count();
    assert_eq!(again, 36, "of pull and tick alike");
}

#[test]
fn a_disk_that_fails_ends_the_gate_and_the_next_start_writes_it() {
    let desk = Desk::new();
    let mut home = desk.open();
    desk.place.disk.faults.lock().unwrap().write_fails_for = Some("spool/outbox".to_owned());
    let order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.01",
        "order_type": "limit", "price": "6790", "planned_entry": "6790", "stop_price": "6600",
        "planned_stop": "6600", "thesis_slug": "btc-range-long"});
    desk.place.ask(
        &desk.bot,
        "trend-bot",
        "r1",
        "order.submit",
        &order.to_string(),
    );
    assert!(
        drain(&mut home)
            .unwrap_err()
            .to_string()
            .contains("spool/outbox")
    );
    assert_eq!(desk.told(), [""; 0]);
    drop(home);
    let mut home = desk.open();
    assert_eq!(desk.told().len(), 1);
    drain(&mut home).unwrap();
    assert_eq!(home.state().book.orders.len(), 2, "once");
}

#[test]
fn a_report_is_booked_however_old_it_is() {
    let desk = Desk::new();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
    desk.forget_files();
    let payload = json!({"order_id": entry, "exec_id": "T1", "exec_type": "canceled", "cum_qty": 0,
        "transact_time": "2026-03-02T12:00:00Z"});
    desk.place.ask(
        &desk.bridge,
        "exchange",
        "T1",
        "venue.report",
        &payload.to_string(),
    );
    desk.place.pass_s(10 * 86_400);
    let done = drain(&mut home).unwrap();
    assert!(done[0].answer.error.is_none(), "{done:#?}");
    assert!(home.state().book.orders.is_empty());
}

/// A close of a person that the venue drops beside a working stop closes no symbol, and a halt that
/// closes positions goes on from it.
#[test]
fn a_dropped_close_is_no_doubt_while_a_stop_works() {
    let desk = Desk::enforcing();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
    desk.trade(&mut home, "T1", &entry, "0.01", "0.01");
    let close = r#"{"strategy":"trend","symbol":"BTC-USD","reason":"r"}"#;
    desk.place.ask_as_owner("close", "position.close", close);
    assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    let closing = |home: &Home| {
        let orders = home.state().book.orders.keys();
        orders.copied().find(|id| id.leg == Leg::Flatten)
    };
    let payload = json!({"order_id": closing(&home), "exec_id": "R1", "exec_type": "rejected",
        "cum_qty": 0, "transact_time": "2026-03-02T12:00:00Z", "text": "too small"});
    let (key, payload) = (&desk.bridge, payload.to_string());
    desk.place
        .ask(key, "exchange", "R1", "venue.report", &payload);
    assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    assert!(home.state().book.doubted_symbols.is_empty());
    assert_eq!(closing(&home), None);
    let halt = r#"{"flatten":true,"reason":"drill"}"#;
    desk.place.ask_as_owner("halt", "halt.set", halt);
    assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    desk.place.pass_s(5);
    drain(&mut home).unwrap();
    assert!(closing(&home).is_some(), "5 s after the drop");
    replays(&desk.place, home);
}

/// The dead man's switch and a halt of a person close positions by the same code.
#[test]
fn a_venue_that_drops_what_closes_a_position_is_asked_three_times_more_and_then_a_person() {
    for is_halt in [false, true] {
        let desk = Desk::enforcing();
        let path = desk.place.root.path().join("rules/safety.yaml");
        let limits = fs::read_to_string(&path).unwrap();
        fs::write(
            &path,
            limits + "dead_man: {timeout_s: 60, action: liquidate_all}\n",
        )
        .unwrap();
        let mut home = desk.open();
        home.begin_watching();
        let entry = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
        desk.trade(&mut home, "T1", &entry, "0.01", "0.01");
        let works = json!({"order_id": format!("{entry}-stop"), "exec_id": "W1",
            "exec_type": "new", "version": 1, "cum_qty": 0,
            "transact_time": "2026-03-02T12:00:00Z"});
        let (key, works) = (&desk.bridge, works.to_string());
        desk.place
            .ask(key, "exchange", "W1", "venue.report", &works);
        assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
        let pass = |home: &mut Home, seconds: i64| {
            for _ in 0..seconds {
                desk.place.pass_s(1);
                drain(home).unwrap();
            }
        };
        if is_halt {
            let halt = r#"{"flatten":true,"reason":"drill"}"#;
            desk.place.ask_as_owner("halt", "halt.set", halt);
            assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
        } else {
            pass(&mut home, 70);
        }
        let flattens = || {
            let mut count = 0;
            for (path, log) in desk.place.disk.files_below("audit") {
                if path.to_string_lossy().contains("log-") {
                    let text = String::from_utf8_lossy(&log).into_owned();
                    count += text
                        .matches("\"version\":1,\"instruction\":\"place\"")
                        .count()
                        - text.matches("\"reduce_only\":false,\"at\"").count()
                        - text
                            .matches("-stop\",\"version\":1,\"instruction\":\"place\"")
                            .count();
                }
            }
            count
        };
        assert_eq!(flattens(), 1);
        let reject = |home: &mut Home, exec: &str| {
            let orders = &home.state().book.orders;
            let id = orders.keys().find(|id| id.leg == Leg::Flatten).unwrap();
            let payload = json!({"order_id": id, "exec_id": exec, "exec_type": "rejected",
                "cum_qty": 0, "transact_time": "2026-03-02T12:00:00Z", "text": "too small"});
            let (key, payload) = (&desk.bridge, payload.to_string());
            desk.place
                .ask(key, "exchange", exec, "venue.report", &payload);
            assert!(drain(home).unwrap()[0].answer.error.is_none());
        };
        let is_doubted = |home: &Home| !home.state().book.doubted_symbols.is_empty();
        for (nth, wait_s) in (1..).zip([5, 25, 125]) {
            reject(&mut home, &format!("R{nth}"));
            pass(&mut home, wait_s - 1);
            assert_eq!(flattens(), nth, "{wait_s} s are not over");
            pass(&mut home, 1);
            assert_eq!(flattens(), nth + 1);
            assert!(!is_doubted(&home));
        }
        reject(&mut home, "R4");
        assert!(is_doubted(&home), "a person looks first");
        pass(&mut home, 200);
        assert_eq!(flattens(), 4);
        drop(home);
        let mut home = desk.open();
        home.begin_watching();
        drain(&mut home).unwrap();
        assert_eq!(flattens(), 4, "so it is after a restart");
        desk.place.ask_as_owner(
            "clear",
            "halt.clear",
            r#"{"scope":{"symbol":"BTC-USD"},"reason":"seen"}"#,
        );
        assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
        assert_eq!(flattens(), 5);
        reject(&mut home, "R5");
        pass(&mut home, 4);
        assert_eq!((flattens(), is_doubted(&home)), (5, false), "counted anew");
        replays(&desk.place, home);
    }
}

/// A position without a stop whose first order was dropped is doubted, and still closed if a person
/// demands it.
#[test]
fn a_doubt_does_not_keep_a_halt_from_closing() {
    let desk = Desk::new();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
    desk.trade(&mut home, "T1", &entry, "0.01", "0.01");
    let mut report = |order: &OrderId, exec: &str, event: &str| {
        let payload = json!({"order_id": order, "exec_id": exec, "exec_type": event, "cum_qty": 0,
            "transact_time": "2026-03-02T12:00:00Z", "text": "no"});
        let mut payload = payload;
        if event == "canceled" {
            payload.as_object_mut().unwrap().remove("text");
        }
        let (key, payload) = (&desk.bridge, payload.to_string());
        desk.place
            .ask(key, "exchange", exec, "venue.report", &payload);
        assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
        let orders = home.state().book.orders.keys().copied();
        let closing: Vec<OrderId> = orders.filter(|id| id.leg == Leg::Flatten).collect();
        closing
    };
    let stop = OrderId::parse(&format!("{entry}-stop")).unwrap();
    let closing = report(&stop, "C1", "canceled");
    let [first] = closing[..] else {
        panic!("{closing:?}")
    };
    assert_eq!(report(&first, "R1", "rejected"), []);
    assert!(!home.state().book.doubted_symbols.is_empty());
    let halt = r#"{"flatten":true,"reason":"drill"}"#;
    desk.place.ask_as_owner("halt", "halt.set", halt);
    assert!(drain(&mut home).unwrap()[0].answer.error.is_none());
    let mut orders = home.state().book.orders.keys();
    assert!(orders.any(|id| id.leg == Leg::Flatten));
    replays(&desk.place, home);
}

#[test]
fn a_day_that_ends_cancels_what_its_venue_works() {
    let desk = Desk::enforcing();
    let path = desk.place.root.path().join("rules/instruments.yaml");
    let filters = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        filters.replace("min_size: 0.001", "min_size: 0.00004"),
    )
    .unwrap();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.036", json!({}));
    desk.trade(&mut home, "T1", &entry, "0.036", "0.036");
    let day = json!({"price": "6900", "time_in_force": "day"});
    // Only eight of them work, and the bridge was told of those alone.
    for n in 0..20 {
        desk.order(&mut home, &format!("x{n}"), "sell", "0.00004", day.clone());
    }
    desk.place.pass_s(86_400);
    home.write_news().unwrap();
    assert_eq!(
        desk.told()
            .iter()
            .filter(|told| told.ends_with(".2 cancel"))
            .count(),
        8
    );
}
