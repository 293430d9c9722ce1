//! A home whose instrument is traded at the imitated exchange: without a bridge, its key or its files,
//! on the prices of the demo, over a home in memory.

use std::fs;

use super::halts::replays;
use crate::kit::place::{Place, drain};
use crate::kit::prices::kept;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_market::Row;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::signing::SignKey;

/// The first closes of the demo's trades, `examples/market`.
const DEMO: [&str; 6] = [
    "6778.01", "6779.47", "6775.64", "6775.65", "6771.95", "6775.65",
];

const NOTHING: [&str; 0] = [];

struct Desk {
    place: Place,
    bot: SignKey,
}

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

impl Desk {
    fn new(imitate: &str) -> Desk {
        let place = Place::new(1);
        let path = place.root.path().join("rules/instruments.yaml");
        let text = fs::read_to_string(&path).unwrap();
        let venue = format!(
            "    bar_s: 60\n    base: BTC\n    venue: imitated\n    imitate: {{{imitate}}}\n"
        );
        let text = text.replace("    bar_s: 60\n", &venue);
        let text = text.replace("fills_from: bars ", "fills_from: quotes ");
        fs::write(&path, text).unwrap();
        let mut home = place.open().unwrap();
        home.write_news().unwrap();
        let bot = place.ask_for_agent_key("key");
        place.ask_for_funds();
        drain(&mut home).unwrap();
        let desk = Desk { place, bot };
        desk.minute(&mut home, DEMO[0]);
        desk
    }

    /// A bar and a quote at this price, a minute later.
    fn minute(&self, home: &mut Home, price: &str) {
        self.place.pass_s(60);
        let rows = crate::kit::prices::minute(self.place.clock.now().ms(), price, price);
        self.rows(home, &rows);
    }

    fn quote(&self, home: &mut Home, bid: &str) {
        let ask = a(bid).checked_add(a("0.01")).unwrap();
        let row = Row::Quote {
            time_ms: self.place.clock.now().ms(),
            bid: a(bid),
            ask,
            bid_size: None,
            ask_size: None,
        };
        self.rows(home, &[row]);
    }

    fn rows(&self, home: &mut Home, rows: &[Row]) {
        let payload = kept(home, "BTC-USD", rows);
        let id = format!("rows-{}", self.place.clock.now().ms());
        self.place.ask_as_owner(&id, "market.import", &payload);
        let done = drain(home).unwrap();
        assert!(done[0].answer.error.is_none(), "{done:#?}");
    }

    /// Sends an order; returns the checks that refused it.
    fn order(&self, home: &mut Home, id: &str, payload: &Value) -> Vec<String> {
        let payload = payload.to_string();
        self.place
            .ask(&self.bot, "trend-bot", id, "order.submit", &payload);
        let done = drain(home).unwrap();
        let failed = done[0].decision.checks.iter().filter(|row| !row.passed);
        failed.map(|row| row.name.to_string()).collect()
    }

    fn entry(&self, home: &mut Home, id: &str) -> Vec<String> {
        let order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.02",
            "order_type": "limit", "price": "6790", "planned_entry": "6790", "stop_price": "6600",
            "planned_stop": "6600", "thesis_slug": "btc-range-long"});
        self.order(home, id, &order)
    }

    /// What the exchange works, as `leg size`.
    fn works(&self, home: &Home) -> Vec<String> {
        let orders = home.state().book.orders.values();
        let works = orders.filter_map(|order| {
            let works = order.at_venue.as_ref()?.works?;
            Some(format!("{:?} {}", order.role, works.size.normalized()))
        });
        works.collect()
    }
}

#[test]
fn a_trade_from_entry_to_stop_without_any_bridge() {
    let desk = Desk::new("");
    let mut home = desk.place.open().unwrap();
    assert_eq!(desk.entry(&mut home, "e1"), NOTHING);
    assert_eq!(desk.works(&home), NOTHING);
    // With time alone it reaches the exchange.
    desk.place.pass_s(1);
    home.write_news().unwrap();
    assert_eq!(desk.works(&home), ["Entry 0.02"]);
    desk.minute(&mut home, DEMO[1]);
    // 0.2% of the coins are the fee, and the stop is for the others.
    let position = |home: &Home| {
        let mut held = home.state().book.positions.values();
        held.next().map(|held| held.size.normalized().to_string())
    };
    assert_eq!(position(&home), Some("0.01996".to_owned()));
    desk.place.pass_s(1);
    home.write_news().unwrap();
    assert_eq!(desk.works(&home), ["Protective 0.01996"]);
    for price in &DEMO[2..] {
        desk.minute(&mut home, price);
    }
    desk.minute(&mut home, "6590");
    assert_eq!(position(&home), None);
    let book = &home.state().book;
    assert_eq!((book.orders.len(), book.doubted_symbols.len()), (0, 0));
    // No bridge is looked for, and none gets a file.
    assert!(book.bridges.is_empty());
    assert!(desk.place.disk.files_below("spool/outbox").is_empty());
    replays(&desk.place, home);
}

#[test]
fn a_silence_refuses_entries_lets_exits_in_and_is_told_afterwards() {
    let now = Place::new(1).clock.now();
    let (from, until) = (now.plus_ms(90_000), now.plus_ms(300_000));
    let desk = Desk::new(&format!("silent: [{{from: {from}, until: {until}}}]"));
    let mut home = desk.place.open().unwrap();
    assert_eq!(desk.entry(&mut home, "e1"), NOTHING);
    desk.place.pass_s(2);
    home.write_news().unwrap();
    desk.quote(&mut home, "6780");
    desk.place.pass_s(2);
    home.write_news().unwrap();
    assert_eq!(desk.works(&home), ["Protective 0.01996"]);
    // The stop trades in the silence, and nobody hears of it.
    desk.place.pass_s(60);
    desk.quote(&mut home, "6595");
    let refused = desk.entry(&mut home, "e2");
    assert!(refused.contains(&"venue_alive".to_owned()), "{refused:?}");
    let exit = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "sell", "size": "0.01996",
        "order_type": "market", "planned_entry": "6590", "stop_price": "6700",
        "planned_stop": "6700", "thesis_slug": "btc-range-long"});
    assert_eq!(desk.order(&mut home, "x1", &exit), NOTHING);
    assert_eq!(home.state().book.positions.len(), 1);
    // A stop that has not traded in its time closes the symbol and is alarmed, as at any venue.
    desk.place.pass_s(20);
    home.write_news().unwrap();
    assert_eq!(home.state().book.doubted_symbols.len(), 1);
    desk.place.pass_s(300);
    home.write_news().unwrap();
    let book = &home.state().book;
    assert!(book.positions.is_empty());
    let is_open = |role: OrderRole| book.orders.values().any(|order| order.role == role);
    assert!(!is_open(OrderRole::Exit) && !is_open(OrderRole::Protective));
    replays(&desk.place, home);
}

#[test]
fn a_halt_that_flattens_and_a_drill_need_no_bridge() {
    let desk = Desk::new("latency_s: 2");
    let mut home = desk.place.open().unwrap();
    assert_eq!(desk.entry(&mut home, "e1"), NOTHING);
    desk.place.pass_s(2);
    home.write_news().unwrap();
    desk.quote(&mut home, "6780");
    assert_eq!(home.state().book.positions.len(), 1);
    for (id, more) in [("drill", "drill"), ("halt", "flatten")] {
        let halt = json!({"reason": "why", more: true});
        desk.place.ask_as_owner(id, "halt.set", &halt.to_string());
        let done = drain(&mut home).unwrap();
        assert!(done[0].answer.error.is_none(), "{done:#?}");
    }
    for _ in 0..4 {
        desk.place.pass_s(2);
        home.write_news().unwrap();
        desk.quote(&mut home, "6780");
    }
    let book = &home.state().book;
    assert!(book.positions.is_empty(), "{:?}", book.orders);
    assert!(!book.orders.keys().any(|id| id.leg == Leg::Flatten));
    assert!(desk.place.disk.files_below("spool/outbox").is_empty());
    replays(&desk.place, home);
}
