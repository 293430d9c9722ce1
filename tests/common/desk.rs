//! A [`Place`] with agents, an account and prices that go on minute by minute, over limits of the test's own.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;
use spoolgate::home::Home;
use spoolgate::home::batch::Outcome;
use spoolgate::host::clock::Clock;
use spoolgate::host::keyring::{SqliteKeyring, key_id};
use spoolgate::trading::market::{Row, write_blob};
use spoolgate::wire::amount::Amount;
use spoolgate::wire::signing::{SignKey, sha256_hex};

use super::place::{Place, drain};

/// Its agents.
pub const AGENTS: [&str; 3] = ["hermes", "trend-bot", "research-bot"];

/// A home with agents and prices of this minute.
pub struct Desk {
    /// The home.
    pub place: Place,
    keys: BTreeMap<&'static str, SignKey>,
}

impl Desk {
    /// With these lines at the end of safety.yaml, in place of those of the same keys.
    pub fn with_limits(lines: &str) -> Desk {
        let place = Place::new(31);
        let keyring = SqliteKeyring::open(place.root.path(), false).unwrap();
        let mut keys = BTreeMap::new();
        for (n, name) in (1..).zip(AGENTS.into_iter().chain(["prices"])) {
            let key = SignKey::Hmac([n; 32]);
            keyring.insert(&key.verify_key()).unwrap();
            let id = key_id(&key.verify_key());
            let payload = json!({"principal": name, "key_id": id, "algorithm": "hmac-sha256"}).to_string();
            place.ask_as_owner(&format!("key-{name}"), "keys.add", &payload);
            keys.insert(name, key);
        }
        place.ask_as_owner("fund", "account.adjust", r#"{"amount":"5000","reason":"start"}"#);
        let desk = Desk { place, keys };
        desk.edit("rules/safety.yaml", |text| {
            let key = |line: &str| line.split(':').next().unwrap().to_owned();
            let replaced: Vec<String> = lines.lines().map(key).collect();
            let kept: Vec<&str> = text.lines().filter(|line| !replaced.contains(&key(line))).collect();
            format!("{}\n{lines}\n", kept.join("\n"))
        });
        let mut home = desk.open();
        let outcomes = drain(&mut home).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.answer.error.is_none()), "{outcomes:?}");
        desk.bar(&mut home, "6800", "6800");
        drop(home);
        desk
    }

    /// Changes a file of the home; the next opening takes it.
    pub fn edit(&self, path: &str, change: impl Fn(&str) -> String) {
        let path = self.place.root.path().join(path);
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, change(&text)).unwrap();
    }

    /// Opens it; the rule files must be good.
    pub fn open(&self) -> Home {
        let home = self.place.open().unwrap();
        assert_eq!(home.rules_fault(), None);
        home
    }

    /// Puts a signed request into the spool.
    pub fn ask(&self, who: &str, id: &str, action: &str, payload: &str) {
        self.place.ask(&self.keys[who], who, id, action, payload);
    }

    /// One request alone in its batch.
    pub fn one(&self, home: &mut Home, who: &str, id: &str, action: &str, payload: &str) -> Outcome {
        self.ask(who, id, action, payload);
        let mut outcomes = drain(home).unwrap();
        assert_eq!(outcomes.len(), 1);
        outcomes.pop().unwrap()
    }

    /// The same by the first person.
    pub fn one_as_owner(&self, home: &mut Home, id: &str, action: &str, payload: &str) -> Outcome {
        self.place.ask_as_owner(id, action, payload);
        drain(home).unwrap().pop().unwrap()
    }

    /// A minute later, a bar that opens and closes at `price` with this low, and a quote at its close.
    pub fn bar(&self, home: &mut Home, price: &str, low: &str) {
        let open_ms = self.place.clock.now().ms();
        self.place.pass_s(60);
        let amount = |text: &str| Amount::parse_exact(text).unwrap();
        let (price, low) = (amount(price), amount(low));
        let (open, high, close) = (price, price, price);
        let rows = [
            Row::Bar { open_ms, interval_ms: 60_000, open, high, low, close, volume: None },
            Row::Quote {
                time_ms: open_ms + 60_000,
                bid: price,
                ask: price.checked_add(amount("0.01")).unwrap(),
                bid_size: None,
                ask_size: None,
            },
        ];
        for (n, row) in rows.into_iter().enumerate() {
            let blob = write_blob(&[row]);
            let digest = sha256_hex(blob.as_bytes());
            home.keep_blob(&digest, blob.as_bytes()).unwrap();
            let payload = json!({"symbol": "BTC-USD", "rows_sha256": digest, "row_count": 1, "file_sha256": digest, "file_name": "f"});
            let id = format!("rows-{open_ms}-{n}");
            let outcome = self.one_as_owner(home, &id, "market.import", &payload.to_string());
            assert!(outcome.answer.error.is_none(), "{outcome:?}");
        }
    }
}

/// An order of `trend-bot` with its stop at 6600: at the market, or at a price.
pub fn order(strategy: &str, side: &str, size: &str, price: Option<&str>, thesis: &str) -> String {
    let mut order = json!({
        "strategy": strategy, "symbol": "BTC-USD", "side": side, "size": size, "order_type": "market",
        "stop_price": "6600", "thesis_slug": thesis, "planned_entry": "6800", "planned_stop": "6600",
    });
    if let Some(price) = price {
        order["order_type"] = json!("limit");
        order["price"] = json!(price);
        order["planned_entry"] = json!(price);
    }
    order.to_string()
}

/// Names of the checks that failed.
pub fn failed(outcome: &Outcome) -> Vec<String> {
    let rows = outcome.decision.checks.iter().filter(|row| !row.passed);
    rows.map(|row| row.name.to_string()).collect()
}
