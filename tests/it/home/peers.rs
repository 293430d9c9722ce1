//! What went wrong in other trading gates and bots, one test each, in a whole home: the list at the
//! end of the specification of trading.

mod rule_files;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::kit::place::{Place, drain};
use crate::kit::{Scratch, succeed};
use serde_json::{Value, json};
use spoolgate_gate::portfolio::portfolio;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_market::{Row, write_blob};
use spoolgate_trading::views::PortfolioState;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::Leg;
use spoolgate_wire::signing::{SignKey, sha256_hex};

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

/// A home with an agent, 5000 in the account and a price of 6800.
struct Desk {
    place: Place,
    bot: SignKey,
    next: std::cell::Cell<u32>,
}

impl Desk {
    fn new() -> (Desk, Home) {
        let place = Place::new(77);
        let bot = place.ask_for_agent_key("key");
        place.ask_as_owner(
            "fund",
            "account.adjust",
            r#"{"amount":"5000","reason":"start"}"#,
        );
        let desk = Desk {
            place,
            bot,
            next: 0.into(),
        };
        let mut home = desk.place.open().unwrap();
        let outcomes = drain(&mut home).unwrap();
        assert!(
            outcomes
                .iter()
                .all(|outcome| outcome.answer.error.is_none()),
            "{outcomes:?}"
        );
        desk.flat(&mut home, "6800");
        (desk, home)
    }

    /// The cash that neither shorts nor working entries need.
    fn free(&self, home: &Home) -> Amount {
        let (book, now) = (&home.state().book, self.place.clock.now());
        let sums = spoolgate_trading::sums::Sums::new(book, home.rulebook(), now);
        sums.free().unwrap()
    }

    fn name(&self) -> String {
        self.next.set(self.next.get() + 1);
        format!("n{:04}", self.next.get())
    }

    /// Decides one request of the agent alone in its batch.
    fn ask(&self, home: &mut Home, action: &str, payload: &str) -> Outcome {
        self.place
            .ask(&self.bot, "trend-bot", &self.name(), action, payload);
        self.one(home)
    }

    fn ask_as_owner(&self, home: &mut Home, action: &str, payload: &str) -> Outcome {
        self.place.ask_as_owner(&self.name(), action, payload);
        self.one(home)
    }

    fn one(&self, home: &mut Home) -> Outcome {
        let mut outcomes = drain(home).unwrap();
        if outcomes.is_empty() {
            // A file that does not parse may still be incomplete.
            self.place.pass_s(3);
            outcomes = drain(home).unwrap();
        }
        assert_eq!(outcomes.len(), 1);
        outcomes.pop().unwrap()
    }

    /// A minute later, sends a bar and a quote at its close.
    fn bar(&self, home: &mut Home, [open, high, low, close]: [&str; 4]) {
        let open_ms = self.place.clock.now().ms();
        self.place.pass_s(60);
        let (volume, interval_ms) = (None, 60_000);
        let ask = a(close).checked_add(a("0.01")).unwrap();
        let (open, high, low, close) = (a(open), a(high), a(low), a(close));
        let bar = Row::Bar {
            open_ms,
            interval_ms,
            open,
            high,
            low,
            close,
            volume,
        };
        let quote = Row::Quote {
            time_ms: open_ms + 60_000,
            bid: close,
            ask,
            bid_size: None,
            ask_size: None,
        };
        for row in [bar, quote] {
            let blob = write_blob(&[row]);
            let digest = sha256_hex(blob.as_bytes());
            home.keep_blob(&digest, blob.as_bytes()).unwrap();
            let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 1,
                "file_sha256": digest, "file_name": "f"});
            let outcome = self.ask_as_owner(home, "market.import", &payload.to_string());
            assert!(outcome.answer.error.is_none(), "{outcome:?}");
        }
    }

    fn flat(&self, home: &mut Home, price: &str) {
        self.bar(home, [price; 4]);
    }

    /// Opens a position by an entry that fills.
    fn hold(&self, home: &mut Home, side: &str, size: &str, stop: &str) {
        let outcome = self.ask(home, "order.submit", &order(side, size, stop, thesis(side)));
        assert!(outcome.answer.error.is_none(), "{:?}", failed(&outcome));
        self.flat(home, "6800");
        assert_eq!(self.view(home).positions[0].size.abs(), a(size));
    }

    fn view(&self, home: &Home) -> PortfolioState {
        portfolio(home.state(), home.rulebook(), self.place.clock.now())
    }

    fn path(&self, file: &str) -> PathBuf {
        self.place.root.path().join(file)
    }

    /// Changes a rule file, and lets the gate load it.
    fn edit(&self, home: &mut Home, file: &str, change: impl FnOnce(&str) -> String) {
        let text = fs::read_to_string(self.path(file)).unwrap();
        let changed = change(&text);
        assert_ne!(changed, text, "{file}");
        fs::write(self.path(file), changed).unwrap();
        for _ in 0..3 {
            self.place.pass_s(2);
            home.write_news().unwrap();
        }
    }

    fn restart(&self, home: Home) -> Home {
        drop(home);
        self.place.forget_state();
        self.place.open().unwrap()
    }
}

fn thesis(side: &str) -> &'static str {
    if side == "buy" {
        "btc-range-long"
    } else {
        "btc-range-short"
    }
}

fn order(side: &str, size: &str, stop: &str, thesis: &str) -> String {
    json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": side, "size": size,
            "order_type": "market",
        "stop_price": stop, "thesis_slug": thesis, "planned_entry": "6800", "planned_stop": stop,
    })
    .to_string()
}

fn exit(side: &str, size: &str) -> String {
    let mut order: Value =
        serde_json::from_str(&order(side, size, "6600", "btc-range-long")).unwrap();
    order.as_object_mut().unwrap().remove("stop_price");
    order.to_string()
}

fn failed(outcome: &Outcome) -> Vec<String> {
    outcome
        .decision
        .checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| row.name.to_string())
        .collect()
}

fn code(outcome: &Outcome) -> Option<Code> {
    outcome.answer.error.as_ref().map(|error| error.code)
}

#[track_caller]
fn accepted(outcome: &Outcome) {
    assert_eq!(
        code(outcome),
        None,
        "{:?} {:?}",
        outcome.answer.error,
        failed(outcome)
    );
}

#[track_caller]
fn refused(outcome: &Outcome, check: &str) {
    assert_eq!(
        code(outcome),
        Some(Code::ChecksFailed),
        "{:?}",
        outcome.answer
    );
    assert!(
        failed(outcome).iter().any(|name| name == check),
        "{:?}",
        failed(outcome)
    );
}

/// Returns a small entry with the other thesis.
fn another() -> String {
    order("buy", "0.002", "6400", "btc-dip-long")
}

const DRILL: &str = r#"{"reason":"a drill"}"#;

#[test]
fn exit_blocked_by_a_halt() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    desk.place.disk.put("rules/HALT", b"");
    home.write_news().unwrap();
    accepted(&desk.ask_as_owner(&mut home, "halt.set", DRILL));
    accepted(&desk.ask(&mut home, "halt.set", DRILL));
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "manual_halt",
    );
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.02")));
    desk.flat(&mut home, "6800");
    assert!(desk.view(&home).positions.is_empty());
}

#[test]
fn exit_blocked_by_cash() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "sell", "0.02", "7000");
    // What a short ties up cannot be withdrawn: its proceeds, and as much again.
    let cash = desk.view(&home).cash;
    let out =
        |amount: Amount| json!({"amount": (-amount).to_string(), "reason": "out"}).to_string();
    let refusal = desk.ask_as_owner(&mut home, "account.adjust", &out(cash));
    assert_eq!(refusal.answer.error.unwrap().code, Code::StateConflict);
    let free = desk.free(&home);
    let more = free.checked_add(a("0.00000001")).unwrap();
    let refusal = desk.ask_as_owner(&mut home, "account.adjust", &out(more));
    assert_eq!(refusal.answer.error.unwrap().code, Code::StateConflict);
    accepted(&desk.ask_as_owner(&mut home, "account.adjust", &out(free)));
    assert_eq!(desk.free(&home), Amount::ZERO);
    let more = order("sell", "0.002", "7000", thesis("sell"));
    refused(&desk.ask(&mut home, "order.submit", &more), "buying_power");
    accepted(&desk.ask(&mut home, "order.submit", &exit("buy", "0.02")));
    desk.flat(&mut home, "6800");
    assert!(desk.view(&home).positions.is_empty());
}

#[test]
fn exit_blocked_by_the_smallest_notional() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    desk.edit(&mut home, "rules/instruments.yaml", |text| {
        text.replace("min_notional: 10", "min_notional: 240")
            .replace("min_size: 0.001", "min_size: 0.019")
    });
    assert_eq!(home.state().rulebook.fault, None);
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "min_notional",
    );
    // Its value is below the minimum; then a rest below the smallest size.
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.019")));
    desk.flat(&mut home, "6800");
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.001")));
    desk.flat(&mut home, "6800");
    assert!(desk.view(&home).positions.is_empty());
}

#[test]
fn a_halted_state_that_passes_any_order_when_flat() {
    let (desk, mut home) = Desk::new();
    accepted(&desk.ask_as_owner(&mut home, "halt.set", DRILL));
    for side in ["buy", "sell"] {
        let stop = if side == "buy" { "6600" } else { "7000" };
        let outcome = desk.ask(
            &mut home,
            "order.submit",
            &order(side, "0.01", stop, thesis(side)),
        );
        refused(&outcome, "manual_halt");
        refused(
            &desk.ask(&mut home, "order.submit", &exit(side, "0.01")),
            "manual_halt",
        );
    }
    assert!(home.state().book.orders.is_empty());
}

#[test]
fn a_halted_state_that_lets_a_sell_of_10_flip_a_long_of_1() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.002", "6600");
    for is_halted in [false, true] {
        if is_halted {
            accepted(&desk.ask_as_owner(&mut home, "halt.set", DRILL));
        }
        let outcome = desk.ask(&mut home, "order.submit", &exit("sell", "0.02"));
        refused(&outcome, "reduce_only");
        assert_eq!(
            outcome.decision.headroom.as_ref().unwrap().max_size,
            a("0.002")
        );
    }
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.002")));
}

#[test]
fn two_pending_orders_each_within_and_jointly_over() {
    let (desk, mut home) = Desk::new();
    let payloads = [
        order("buy", "0.03", "6600", "btc-range-long"),
        order("buy", "0.029", "6600", "btc-dip-long"),
    ];
    for payload in &payloads {
        desk.place.ask(
            &desk.bot,
            "trend-bot",
            &desk.name(),
            "order.submit",
            payload,
        );
    }
    // Both in one batch.
    let outcomes = drain(&mut home).unwrap();
    let passed = outcomes
        .iter()
        .filter(|outcome| code(outcome).is_none())
        .count();
    assert_eq!((outcomes.len(), passed), (2, 1));
    let over = outcomes
        .iter()
        .find(|outcome| code(outcome).is_some())
        .unwrap();
    assert_eq!(failed(over), ["max_single_position"]);
}

#[test]
fn a_stop_moved_away_by_modify() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    let stop = home
        .state()
        .book
        .orders
        .keys()
        .find(|id| id.leg == Leg::Stop)
        .copied()
        .unwrap();
    let to = |price: &str| json!({"order_id": stop.to_string(), "new_stop": price}).to_string();
    accepted(&desk.ask(&mut home, "order.tighten_stop", &to("6700")));
    // Nearer to the entry than before, but farther from the market.
    for price in ["6699.99", "6600", "1"] {
        refused(
            &desk.ask(&mut home, "order.tighten_stop", &to(price)),
            "tighten_ok",
        );
    }
    let cancel = json!({"order_id": stop.to_string()}).to_string();
    refused(&desk.ask(&mut home, "order.cancel", &cancel), "cancel_ok");
    for action in ["order.modify", "order.replace", "order.loosen_stop"] {
        assert_eq!(
            code(&desk.ask(&mut home, action, &to("6600"))),
            Some(Code::UnknownAction)
        );
    }
    assert_eq!(home.state().book.orders[&stop].trigger, Some(a("6700")));
}

/// Long 0.03, with an unrealised loss of 20, where 20 per day may be lost.
fn twenty_lost() -> (Desk, Home) {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.03", "6130");
    desk.edit(&mut home, "rules/safety.yaml", |text| {
        text.replace("max_daily_loss: 250", "max_daily_loss: 20")
    });
    assert_eq!(home.state().rulebook.fault, None);
    desk.flat(&mut home, "6133");
    let view = desk.view(&home);
    assert!(
        view.realised.is_zero() && view.day_pnl.unwrap() < a("-20"),
        "{view:?}"
    );
    (desk, home)
}

#[test]
fn a_daily_loss_that_counts_only_what_is_realised() {
    let (desk, mut home) = twenty_lost();
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "daily_loss_halt",
    );
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.03")));
}

#[test]
fn a_baseline_reset_by_a_restart() {
    let (desk, home) = twenty_lost();
    let before = desk.view(&home).day_pnl;
    let mut home = desk.restart(home);
    assert_eq!(desk.view(&home).day_pnl, before);
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "daily_loss_halt",
    );
}

#[test]
fn deposits_read_as_profit() {
    let (desk, mut home) = twenty_lost();
    let before = desk.view(&home).day_pnl;
    accepted(&desk.ask_as_owner(
        &mut home,
        "account.adjust",
        r#"{"amount":"1000","reason":"more"}"#,
    ));
    assert_eq!(desk.view(&home).day_pnl, before);
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "daily_loss_halt",
    );
    // Nor does a withdrawal count as a loss, of the day or from the peak.
    let (desk, mut home) = Desk::new();
    accepted(&desk.ask_as_owner(
        &mut home,
        "account.adjust",
        r#"{"amount":"-3000","reason":"less"}"#,
    ));
    assert_eq!(desk.view(&home).day_pnl, Some(Amount::ZERO));
    desk.flat(&mut home, "6800");
    accepted(&desk.ask(
        &mut home,
        "order.submit",
        &another().replace("6400", "6600"),
    ));
}

#[test]
fn a_missing_price_that_disables_a_check() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    // Two minutes and a millisecond later, no value is known.
    desk.place.pass_s(121);
    let outcome = desk.ask(&mut home, "order.submit", &another());
    refused(&outcome, "market_data");
    for name in [
        "max_single_trade_risk",
        "max_total_exposure",
        "loss_budget",
        "daily_loss_halt",
        "drawdown_halt",
        "buying_power",
    ] {
        let row = outcome
            .decision
            .checks
            .iter()
            .find(|row| row.name == name)
            .unwrap();
        assert!(
            !row.passed && row.value.is_none() && row.reason.is_some(),
            "{row:?}"
        );
    }
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.02")));
}

#[test]
fn a_nan_that_disables_a_check() {
    let (desk, mut home) = Desk::new();
    for (from, to) in [
        (r#""size":"0.002""#, r#""size":NaN"#),
        (r#""size":"0.002""#, r#""size":"NaN""#),
        (r#""size":"0.002""#, r#""size":null"#),
        (r#""size":"0.002""#, r#""size":"1e999""#),
        (r#""planned_stop":"6400""#, r#""planned_stop":"Infinity""#),
        (r#""planned_stop":"6400""#, r#""planned_stop":null"#),
    ] {
        let payload = another().replace(from, to);
        assert!(payload.contains(to), "{payload}");
        let code = code(&desk.ask(&mut home, "order.submit", &payload)).unwrap();
        assert!(
            matches!(code, Code::MalformedJson | Code::MalformedPayload),
            "{to}: {code}"
        );
    }
    // Nor can one get in through market rows or a rule file.
    let (bid, ask) = (a("6789.5"), a("6790.5"));
    let blob = write_blob(&[Row::Quote {
        time_ms: 0,
        bid,
        ask,
        bid_size: None,
        ask_size: None,
    }]);
    let blob = blob.replace("6789.5", "NaN");
    assert!(blob.contains("NaN"), "{blob}");
    let digest = sha256_hex(blob.as_bytes());
    home.keep_blob(&digest, blob.as_bytes()).unwrap();
    let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 1,
        "file_sha256": digest, "file_name": "f"});
    let outcome = desk.ask_as_owner(&mut home, "market.import", &payload.to_string());
    assert_eq!(code(&outcome), Some(Code::MarketRefused));
    for number in [".nan", ".inf", "~", "\"\""] {
        desk.edit(&mut home, "rules/safety.yaml", |text| {
            text.replace("max_daily_loss: 250", &format!("max_daily_loss: {number}"))
        });
        assert!(
            home.state()
                .rulebook
                .fault
                .as_ref()
                .unwrap()
                .contains("safety.yaml"),
            "{number}"
        );
        desk.edit(&mut home, "rules/safety.yaml", |text| {
            text.replace(&format!("max_daily_loss: {number}"), "max_daily_loss: 250")
        });
        assert_eq!(home.state().rulebook.fault, None);
    }
}

#[test]
fn a_drawdown_that_clears_itself_because_a_fetch_failed() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.03", "6130");
    desk.edit(&mut home, "rules/safety.yaml", |text| {
        text.replace("max_drawdown: 0.15", "max_drawdown: 0.004")
    });
    desk.flat(&mut home, "6133");
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "drawdown_halt",
    );
    // No prices for an hour, then a recovery past the old peak, then a restart.
    desk.place.pass_s(3600);
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "drawdown_halt",
    );
    desk.flat(&mut home, "6990");
    let mut home = desk.restart(home);
    desk.flat(&mut home, "6990");
    assert!(desk.view(&home).equity > Some(a("5000")));
    let entry = another().replace("6800", "6990");
    let outcome = desk.ask(&mut home, "order.submit", &entry);
    assert!(
        failed(&outcome).contains(&"drawdown_halt".to_owned()),
        "{:?}",
        failed(&outcome)
    );
    let clear = r#"{"scope":"drawdown","reason":"reviewed"}"#;
    assert_eq!(
        code(&desk.ask(&mut home, "halt.clear", clear)),
        Some(Code::NotPermitted)
    );
    accepted(&desk.ask_as_owner(&mut home, "halt.clear", clear));
    let outcome = desk.ask(&mut home, "order.submit", &entry);
    assert!(
        !failed(&outcome).contains(&"drawdown_halt".to_owned()),
        "{:?}",
        failed(&outcome)
    );
}

#[test]
fn a_resting_exit_that_fills_after_the_position_shrank() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    let mut resting: Value = serde_json::from_str(&exit("sell", "0.02")).unwrap();
    (resting["order_type"], resting["price"]) = (json!("limit"), json!("7000"));
    accepted(&desk.ask(&mut home, "order.submit", &resting.to_string()));
    // The stop closes the position; then the market reaches the resting exit.
    desk.bar(&mut home, ["6700", "6700", "6500", "6600"]);
    assert!(desk.view(&home).positions.is_empty());
    desk.bar(&mut home, ["6800", "7100", "6800", "7050"]);
    let view = desk.view(&home);
    assert!(
        view.positions.is_empty() && home.state().book.orders.is_empty(),
        "{view:?}"
    );
}

#[test]
fn one_trade_able_to_lose_three_daily_limits() {
    let (desk, mut home) = Desk::new();
    desk.edit(&mut home, "rules/safety.yaml", |text| {
        text.replace("max_daily_loss: 250", "max_daily_loss: 5")
    });
    desk.flat(&mut home, "6800");
    let outcome = desk.ask(
        &mut home,
        "order.submit",
        &order("buy", "0.03", "6130", "btc-range-long"),
    );
    assert_eq!(failed(&outcome), ["loss_budget"]);
    let row = outcome
        .decision
        .checks
        .iter()
        .find(|row| row.name == "loss_budget")
        .unwrap();
    assert!(
        row.value.unwrap() > a("15") && row.limit == Some(a("5")),
        "{row:?}"
    );
    let fits = outcome
        .decision
        .headroom
        .as_ref()
        .unwrap()
        .max_size
        .to_string();
    accepted(&desk.ask(
        &mut home,
        "order.submit",
        &order("buy", &fits, "6130", "btc-range-long"),
    ));
}
