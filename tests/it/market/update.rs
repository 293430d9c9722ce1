//! `market.update`: rows in a request have the effect of imported rows, are stored where the
//! request is, and need one line.

use std::collections::BTreeMap;

use crate::kit::place::{Keys, ORDER, Place, one};
use crate::kit::{Scratch, spoolgate, succeed, unsigned};
use serde_json::{Value, json};
use spoolgate_gate::actions::Body;
use spoolgate_gate::actions::market_import::MarketImport;
use spoolgate_gate::actions::market_update::MarketUpdate;
use spoolgate_gate::decide::{Decided, Lookups, decide};
use spoolgate_gate::prepare::{Authentic, Origin, Prepared};
use spoolgate_gate::record::Record;
use spoolgate_gate::{Change, State};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_host::rule_folder;
use spoolgate_rules::Rulebook;
use spoolgate_trading as trading;
use spoolgate_wire::admin::ImportMarket;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Code;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, Symbol};
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// A home with an account, a trader and a feed.
struct Desk {
    place: Place,
    keys: Keys,
}

impl Desk {
    fn new() -> Desk {
        let place = Place::new(77);
        let keys = place.ask_for_keys(["prices", "trend-bot"]);
        place.ask_for_funds();
        drop(place.settled());
        Desk { place, keys }
    }

    fn open(&self) -> Home {
        self.place.open().unwrap()
    }

    fn now(&self) -> Time {
        self.place.clock.now()
    }

    /// Decides one request alone in its batch.
    #[track_caller]
    fn one(&self, home: &mut Home, who: &str, id: &str, action: &str, payload: &str) -> Outcome {
        self.place.ask(&self.keys[who], who, id, action, payload);
        one(home)
    }

    /// Returns a bar that opened a minute ago and a current quote.
    fn rows(&self, low: &str, close: &str) -> Value {
        json!({
            "symbol": "BTC-USD",
            "bars": [{"open_time": self.now().plus_ms(-60_000), "interval_s": 60, "open": "6990",
                "high": "7000",
                      "low": low, "close": close, "volume": "12.5"}],
            "quotes": [{"time": self.now(), "bid": close, "ask": "6990.01", "bid_size": 1}],
        })
    }

    fn blobs(&self) -> usize {
        self.place.disk.files_below("audit/blobs").len()
    }
}

fn data(outcome: &Outcome, tag: &str) -> BTreeMap<String, Value> {
    assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
    let body: Value = serde_json::from_str(outcome.answer.data.as_ref().unwrap().get()).unwrap();
    serde_json::from_value(body[tag].clone()).unwrap()
}

/// Rows have the same effect whichever way they come; in a request they need one line and no file.
#[test]
fn rows_in_a_request_do_what_imported_rows_do() {
    let desk = Desk::new();
    let mut home = desk.open();
    let outcome = desk.one(
        &mut home,
        "prices",
        "u1",
        "market.update",
        &desk.rows("6985", "6990").to_string(),
    );
    let told = data(&outcome, "MarketUpdated");
    assert_eq!(
        (&told["rows"], &told["taken"], &told["lines"]),
        (&json!(2), &json!(2), &json!(0))
    );
    let order = ORDER.replace("7000", "6985");
    let placed = desk.one(&mut home, "trend-bot", "buy", "order.submit", &order);
    assert!(
        placed.decision.order_id.is_some(),
        "{:?}",
        placed.answer.error
    );
    drop(home);
    let twin = Desk {
        place: desk.place.fork(),
        keys: desk.keys.clone(),
    };
    for each in [&desk, &twin] {
        each.place.pass_s(60);
    }

    let mut home = desk.open();
    let before = home.position().seq;
    let outcome = desk.one(
        &mut home,
        "prices",
        "u2",
        "market.update",
        &desk.rows("6980", "6989").to_string(),
    );
    let told = data(&outcome, "MarketUpdated");
    assert_eq!(
        (&told["fills"], &told["left_open"], &told["regime"]),
        (&json!(1), &json!([]), &Value::Null)
    );
    // The decision and the seal of its batch.
    assert_eq!(home.position().seq - before, 2);
    assert_eq!(
        desk.blobs(),
        0,
        "an update of a few rows writes no file of its own"
    );
    assert_eq!(
        outcome.decision.payload.as_deref(),
        Some(desk.rows("6980", "6989").to_string().as_str())
    );
    assert_eq!(home.store().fills_since(Time::EPOCH, 10).unwrap().len(), 1);

    let mut other = twin.open();
    let open_ms = twin.now().ms() - 60_000;
    let rows = [
        format!("bar,{open_ms},60000,6990,7000,6980,6989,12.5\n"),
        format!("quote,{},6989,6990.01,1,\n", twin.now().ms()),
    ];
    let blob = rows.concat();
    let digest = sha256_hex(blob.as_bytes());
    other.keep_blob(&digest, blob.as_bytes()).unwrap();
    let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 2,
        "file_sha256": digest, "file_name": "f"});
    let outcome = twin.one(
        &mut other,
        "prices",
        "u2",
        "market.import",
        &payload.to_string(),
    );
    assert_eq!(data(&outcome, "MarketImported")["fills"], json!(1));
    assert_eq!(home.state().book, other.state().book);

    // The ledger alone gives the same state.
    let known = home.state().clone();
    drop(home);
    desk.place.forget_state();
    assert_eq!(desk.open().state(), &known);
}

#[test]
fn known_rows_are_skipped() {
    let desk = Desk::new();
    let mut home = desk.open();
    let rows = desk.rows("6980", "6990");
    desk.one(
        &mut home,
        "prices",
        "u1",
        "market.update",
        &rows.to_string(),
    );
    let known = home.state().book.clone();
    let outcome = desk.one(
        &mut home,
        "prices",
        "u2",
        "market.update",
        &rows.to_string(),
    );
    let told = data(&outcome, "MarketUpdated");
    assert_eq!((&told["rows"], &told["taken"]), (&json!(2), &json!(0)));
    assert!(outcome.decision.changes.is_empty());
    let mut more = rows;
    more["quotes"]
        .as_array_mut()
        .unwrap()
        .push(json!({"time": desk.now().plus_ms(1000), "bid": 1, "ask": 2}));
    let outcome = desk.one(
        &mut home,
        "prices",
        "u3",
        "market.update",
        &more.to_string(),
    );
    assert_eq!(data(&outcome, "MarketUpdated")["taken"], json!(1));
    assert_ne!(home.state().book, known);
}

#[test]
fn a_regime_holds_until_another_is_given() {
    let desk = Desk::new();
    let mut home = desk.open();
    let facts = |home: &mut Home, id: &str| {
        let outcome = desk.one(
            home,
            "trend-bot",
            id,
            "market.get",
            r#"{"symbol":"BTC-USD"}"#,
        );
        data(&outcome, "MarketData")["facts"].clone()
    };
    assert_eq!(facts(&mut home, "q1")["regime"], Value::Null);
    let calm = r#"{"symbol":"BTC-USD","regime":"calm"}"#;
    let outcome = desk.one(&mut home, "prices", "u1", "market.update", calm);
    assert_eq!(data(&outcome, "MarketUpdated")["regime"], json!("calm"));
    let since = desk.now();
    desk.place.pass_s(60);
    desk.one(
        &mut home,
        "prices",
        "u2",
        "market.update",
        &desk.rows("6980", "6990").to_string(),
    );
    let told = facts(&mut home, "q2");
    assert_eq!(
        (&told["regime"], &told["regime_since"]),
        (&json!("calm"), &json!(since))
    );
    assert_eq!(
        (&told["price"], &told["bid"], &told["volatility"]),
        (&json!("6990"), &json!("6990"), &Value::Null)
    );
    assert_eq!(told["minutes_since_open"], json!(721));
    let mut wild = desk.rows("6980", "6989");
    wild["regime"] = json!("wild");
    let outcome = desk.one(
        &mut home,
        "prices",
        "u3",
        "market.update",
        &wild.to_string(),
    );
    assert_eq!(data(&outcome, "MarketUpdated")["taken"], json!(0));
    assert_eq!(facts(&mut home, "q3")["regime"], json!("wild"));
}

#[test]
fn bad_rows_are_refused_whole_and_say_which() {
    let desk = Desk::new();
    let mut home = desk.open();
    let now = desk.now();
    let bar = |at: i64, high: &str| {
        json!({"open_time": now.plus_ms(at), "interval_s": 60,
        "open": 2, "high": high, "low": 1, "close": 2})
    };
    let quote =
        |at: i64, bid: &str, ask: &str| json!({"time": now.plus_ms(at), "bid": bid, "ask": ask});
    let cases = [
        (
            json!({"bars": [bar(-60_000, "1.5")]}),
            Code::MarketRefused,
            "`bars[0]`: the low is above, or the high below",
        ),
        (
            json!({"bars": [bar(-60_000, "0")]}),
            Code::MarketRefused,
            "`bars[0]`: a price is zero or below",
        ),
        (
            json!({"quotes": [quote(-2, "1", "2"), quote(-1, "2", "1.99")]}),
            Code::MarketRefused,
            "`quotes[1]`: the ask is below the bid",
        ),
        (
            json!({"quotes": [quote(-1, "1", "2"), quote(-1, "1", "2")]}),
            Code::MarketRefused,
            "`quotes[1]` is not later than the row before",
        ),
        (
            json!({"bars": [bar(-60_000, "3"), bar(-90_000, "3")]}),
            Code::MarketRefused,
            "`bars[1]` is not later",
        ),
        (
            json!({"bars": [bar(1, "3")]}),
            Code::MarketRefused,
            "a row is known only from",
        ),
        (
            json!({"quotes": [quote(60_001, "1", "2")]}),
            Code::MarketRefused,
            "a row is known only from",
        ),
        (json!({}), Code::MalformedPayload, "has no `bars`"),
        (
            json!({"quotes": [{"time": now, "bid": 1, "ask": 2, "mid": 1.5}]}),
            Code::MalformedPayload,
            "unknown field `/payload/quotes/0/mid`",
        ),
        (
            json!({"quotes": [quote(-1, "1", "2")], "source": "x"}),
            Code::MalformedPayload,
            "unknown field `/payload/source`",
        ),
    ];
    let known = home.state().book.clone();
    for (n, (fields, code, expect)) in cases.into_iter().enumerate() {
        let mut payload = fields;
        payload["symbol"] = json!("BTC-USD");
        let outcome = desk.one(
            &mut home,
            "prices",
            &format!("bad-{n}"),
            "market.update",
            &payload.to_string(),
        );
        let error = outcome.answer.error.unwrap_or_else(|| panic!("{payload}"));
        assert_eq!(error.code, code, "{payload}");
        assert!(
            error.message.contains(expect),
            "{payload}: {}",
            error.message
        );
        assert_eq!(home.state().book, known, "{payload}");
    }
    let other = json!({"symbol": "NONE", "quotes": [quote(-1, "1", "2")]}).to_string();
    let outcome = desk.one(&mut home, "prices", "symbol", "market.update", &other);
    assert!(
        outcome
            .answer
            .error
            .unwrap()
            .message
            .contains("is not in rules/instruments.yaml")
    );
    // A trader may not send prices.
    let outcome = desk.one(
        &mut home,
        "trend-bot",
        "mine",
        "market.update",
        &desk.rows("6980", "6990").to_string(),
    );
    assert_eq!(outcome.answer.error.unwrap().code, Code::NotPermitted);
}

fn prepared(body: Body, now: Time) -> Prepared {
    let name = body.rule.name.to_string();
    let envelope = Envelope {
        signature: "0".repeat(64),
        ..unsigned("prices", "r", &name, "{}", now)
    };
    Prepared {
        origin: Origin::Local,
        file: "r.json".to_owned(),
        file_sha256: None,
        file_bytes: None,
        request: Ok(Authentic {
            key_id: "0".repeat(16),
            payload_hash: envelope.payload_hash(),
            request_hash: envelope.request_hash(),
            envelope,
            body: Ok(body),
        }),
    }
}

/// A bar that fills more orders than one line holds is split, as an import is.
#[test]
fn changes_that_do_not_fit_the_line_of_the_decision_get_lines_of_their_own() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut rules = Rulebook::compile(&rule_folder::load(folder).unwrap()).unwrap();
    let now = Time::parse("2026-02-21T12:00:00Z").unwrap();
    let mut state = State::default();
    // Nothing that is open is too much, so nothing is pulled.
    let (safety, million) = (&mut rules.safety, Amount::from_i64(1_000_000));
    safety.max_total_capital = million.try_into().unwrap();
    safety.max_daily_loss = million.try_into().unwrap();
    safety.max_weekly_loss = million.try_into().unwrap();
    safety.max_portfolio_risk = Amount::ONE.try_into().unwrap();
    safety.max_single_trade_risk = Amount::ONE.try_into().unwrap();
    safety.max_open_orders = 1000;
    let deposit = trading::Change::AccountAdjusted { amount: million };
    state.apply(&Change::Book(deposit)).unwrap();
    state
        .apply(&Change::KeyAdded(spoolgate_gate::state::KeyRecord {
            key_id: "0".repeat(16),
            principal: Principal::parse("prices").unwrap(),
            algorithm: spoolgate_wire::admin::Algorithm::HmacSha256,
            added_at: now,
            ends_at: None,
            revoked_at: None,
        }))
        .unwrap();
    for n in 1..=200 {
        let order = format!(
            r#"{{"order_id":"o-{n}","source":"trend-bot","strategy":"trend","symbol":"BTC-USD","side":"buy","role":"entry","order_type":"market","size":"0.01","filled":"0","price":null,"trigger":null,"triggered":false,"thesis_slug":"btc-range-long","accepted_at":"2026-02-21T11:00:00Z"}}"#
        );
        let order = trading::Change::OrderPlaced(serde_json::from_str(&order).unwrap());
        state.apply(&Change::Book(order)).unwrap();
    }
    let open = now.plus_ms(-60_000);
    let update = format!(
        r#"{{"symbol":"BTC-USD","bars":[{{"open_time":"{open}","interval_s":60,"open":6800,"high":6800,"low":6800,"close":6800}}],"regime":"calm"}}"#
    );
    let update = prepared(
        Body::of::<MarketUpdate>(serde_json::from_str(&update).unwrap()),
        now,
    );
    let updated = decide(&state, &rules, &update, &Lookups::default(), now, 9);
    let answer: Value =
        serde_json::from_str(updated.decision.data.as_ref().unwrap().get()).unwrap();
    assert_eq!(answer["MarketUpdated"]["fills"], json!(200));
    assert!(updated.market.len() > 1, "{} lines", updated.market.len());
    assert_eq!(
        answer["MarketUpdated"]["lines"],
        json!(updated.market.len())
    );
    for line in &updated.market {
        assert_eq!(
            (&line.file_name, &line.file_sha256, &line.rows_sha256),
            (&None, &None, &None)
        );
        let body = Record::Market(line.clone()).body().unwrap();
        assert!(body.len() < 42_000, "{}", body.len());
        assert_eq!(
            Record::parse("market", &body)
                .unwrap()
                .unwrap()
                .body()
                .unwrap(),
            body
        );
    }
    let blob = format!("bar,{},60000,6800,6800,6800,6800,\n", open.ms());
    let import = ImportMarket {
        symbol: Symbol::parse("BTC-USD").unwrap(),
        rows_sha256: "0".repeat(64),
        row_count: 1,
        file_sha256: "0".repeat(64),
        file_name: "f".to_owned(),
    };
    let request = prepared(Body::of::<MarketImport>(import), now);
    let lookups = Lookups {
        rows: Some(blob.into_bytes()),
        ..Lookups::default()
    };
    let imported = decide(&state, &rules, &request, &lookups, now, 9);
    let changes = |decided: &Decided| -> Vec<Change> {
        let of_lines = decided.market.iter().flat_map(|line| line.changes.clone());
        of_lines.chain(decided.decision.changes.clone()).collect()
    };
    let (mut updated, imported) = (changes(&updated), changes(&imported));
    assert!(matches!(
        updated.pop(),
        Some(Change::Book(trading::Change::RegimeGiven { .. }))
    ));
    assert_eq!(updated, imported);
}

/// The example of docs/contracts.md, through `sign`, `handle -` and `submit`.
#[test]
fn the_documented_update_goes_through_handle_and_submit() {
    let docs = include_str!("../../../docs/contracts.md");
    let example = docs
        .split("```json\n")
        .find(|part| part.contains(r#""regime""#))
        .expect("no example");
    let example = example.split("```").next().unwrap();
    let scratch = Scratch::new();
    let home = scratch.home();
    let key = scratch.beside("prices.key");
    succeed(
        &home,
        &["keys", "add", "prices", "--out", key.to_str().unwrap()],
    );
    let payload = scratch.beside("rows.json");
    let signed = scratch.beside("update.json");
    for (n, way) in [["handle", "-"].as_slice(), ["submit"].as_slice()]
        .into_iter()
        .enumerate()
    {
        std::fs::write(&payload, example).unwrap();
        let id = format!("update-{n}");
        let signed_text = succeed(
            &home,
            &[
                "sign",
                payload.to_str().unwrap(),
                "--as",
                "prices",
                "--action",
                "market.update",
                "--key",
                key.to_str().unwrap(),
                "--id",
                &id,
            ],
        );
        std::fs::write(&signed, &signed_text).unwrap();
        let answer = if way[0] == "handle" {
            let mut child = crate::kit::command(&home, way)
                .stdin(std::fs::File::open(&signed).unwrap())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let mut text = String::new();
            std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut text).unwrap();
            assert!(child.wait().unwrap().success(), "{text}");
            text
        } else {
            let done = spoolgate(&home, &["submit", signed.to_str().unwrap()]);
            assert!(done.status.success());
            succeed(&home, &["run", "--until-idle"]);
            std::fs::read_to_string(home.join(format!("spool/out/{id}.json"))).unwrap()
        };
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let told = &answer["data"]["MarketUpdated"];
        assert_eq!(
            (&told["rows"], &told["regime"]),
            (&json!(2), &json!("calm")),
            "{answer}"
        );
        assert_eq!(told["taken"], json!(if n == 0 { 2 } else { 0 }));
    }
}
