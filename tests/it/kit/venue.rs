//! A home in which BTC-USD is traded at a venue behind the bridge `exchange`, and ETH-USD on paper;
//! and the bridge of `bridges/python` with its simulated exchange.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_trading::Book;
use spoolgate_wire::signing::SignKey;
use spoolgate_wire::time::Time;

use super::keys::add_key;
use super::place::{Place, drain};
use super::process::{Running, until};
use super::{Scratch, Sent, sign, succeed};

/// Limits of bridges under which nothing becomes too old while a test runs.
pub(crate) const PATIENT: &str =
    "bridges: {timeout_s: 3600, entry_valid_s: 3600, instructions_per_s: 100}\n";

/// The sign of life of a bridge.
pub(crate) fn alive(at: Time) -> Vec<u8> {
    let alive = json!({"at": at, "run": "r1", "venue": "ok", "nonce": null});
    alive.to_string().into_bytes()
}

/// What a bridge says of a venue that agrees with the book.
pub(crate) fn snapshot_of(book: &Book, now: Time) -> Value {
    let orders = book.orders.values().filter_map(|order| {
        let venue = order.at_venue.as_ref().filter(|venue| venue.is_out())?;
        let stated = venue.sizes.first()?;
        Some(
            json!({"order_id": order.order_id, "version": stated.0, "cum_qty": order.filled,
            "size": stated.1, "price": order.price, "trigger": stated.2}),
        )
    });
    let positions = book
        .positions
        .values()
        .filter(|held| held.held_at.is_some());
    let mut sums = std::collections::BTreeMap::new();
    for held in positions {
        let sum: &mut spoolgate_wire::amount::Amount = sums
            .entry(&held.symbol)
            .or_insert(spoolgate_wire::amount::Amount::ZERO);
        *sum = sum.checked_add(held.size).unwrap();
    }
    let balance = |currency: &str, total: &spoolgate_wire::amount::Amount| json!({"currency": currency, "total": total, "available": "0"});
    let coins = sums.iter().map(|(symbol, total)| {
        let (coin, _) = symbol.as_str().split_once('-').unwrap();
        balance(coin, total)
    });
    let mut balances: Vec<Value> = coins.collect();
    balances.push(balance("USD", &book.account.cash));
    let positions = sums.into_iter();
    let positions = positions.map(|(symbol, size)| json!({"symbol": symbol, "size": size}));
    let booked = book
        .bridges
        .values()
        .find_map(|bridge| bridge.booked.clone());
    json!({"run": "r1", "taken_at": now, "after_exec": booked, "balances": balances,
        "positions": positions.collect::<Vec<_>>(), "orders": orders.collect::<Vec<_>>(),
        "foreign": []})
}

/// Shows a home in memory that the bridge `exchange` is there and agrees with it.
pub(crate) fn hear(place: &Place, home: &mut Home, key: &SignKey) {
    let now = place.clock.now();
    place.disk.put("spool/outbox/exchange/.alive", &alive(now));
    let snapshot = snapshot_of(&home.state().book, now).to_string();
    let id = format!("snapshot-{}", now.ms());
    place.ask(key, "exchange", &id, "venue.snapshot", &snapshot);
    for outcome in drain(home).unwrap() {
        assert!(outcome.answer.error.is_none(), "{outcome:?}");
    }
}

/// The same, with a key that the bridge gets for it.
pub(crate) fn hear_anew(place: &Place, home: &mut Home) -> SignKey {
    let key = place.ask_for_key("exchange", 99, "key-exchange");
    drain(home).unwrap();
    hear(place, home, &key);
    key
}

/// Puts BTC-USD behind a bridge, and adds ETH-USD at the same prices. Returns the bridge's key,
/// which is also in `exchange.key` beside the home.
pub(crate) fn enable_outbox(scratch: &Scratch) -> SignKey {
    let home = scratch.home();
    let edit = |name: &str, change: &dyn Fn(&str) -> String| {
        let path = home.join(name);
        fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
    };
    edit("rules/principals.yaml", &|text| {
        text.replace(
            "principals:\n",
            "principals:\n  - {name: exchange, role: bridge}\n",
        )
    });
    edit("rules/instruments.yaml", &|text| {
        let (head, btc) = text.split_once("  - symbol").unwrap();
        let btc = format!("  - symbol{btc}");
        let eth = btc.replace("BTC-USD", "ETH-USD");
        format!("{head}{btc}    venue: outbox\n    bridge: exchange\n{eth}")
    });
    edit("rules/strategies/trend.yaml", &|text| {
        text.replace("instruments: [BTC-USD]", "instruments: [BTC-USD, ETH-USD]")
    });
    let thesis = fs::read_to_string(home.join("proposals/theses/btc-range-long.md")).unwrap();
    let thesis = thesis
        .replace("btc-range-long", "eth-range-long")
        .replace("BTC-USD", "ETH-USD");
    fs::write(home.join("proposals/theses/eth-range-long.md"), thesis).unwrap();
    for kind in ["quote", "trade"] {
        let file = format!(
            "{}/examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip",
            env!("CARGO_MANIFEST_DIR")
        );
        succeed(
            &home,
            &[
                "market",
                "import",
                &file,
                "--symbol",
                "ETH-USD",
                "--end-now",
            ],
        );
    }
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    fs::write(&safety, text + PATIENT).unwrap();
    let key_file = scratch.beside("exchange.key");
    let key = add_key(&home, "exchange", &key_file);
    let folder = home.join("spool/outbox/exchange");
    fs::create_dir_all(&folder).unwrap();
    let now = Time::from_ms(
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_millis()
            .try_into()
            .unwrap(),
    )
    .unwrap();
    fs::write(folder.join(".alive"), alive(now)).unwrap();
    let snapshot = snapshot_of(&Book::default(), now).to_string();
    let snapshot = sign(&key, "exchange", "snapshot", "venue.snapshot", &snapshot);
    Sent::new("snapshot.json", snapshot).drop_into(&home);
    let done = succeed(&home, &["run", "--until-idle"]);
    assert!(!done.contains("refused"), "{done}");
    key
}

/// A home that is traded at the simulated exchange of `bridges/python`.
pub(crate) struct MockVenue<'a>(pub &'a Scratch);

impl MockVenue<'_> {
    /// Returns why it cannot be used on this machine. `None` if it can.
    pub(crate) fn missing() -> Option<&'static str> {
        let is_new = "import sys; sys.exit(sys.version_info < (3, 10))";
        let found = Command::new("python3").args(["-c", is_new]).status();
        match found {
            Ok(status) if status.success() => None,
            _ => Some("there is no python3 of 3.10 or newer"),
        }
    }

    /// States in the rules that the venue is a spot exchange for BTC and USD, and that stops count as
    /// confirmed however long a busy machine takes.
    pub(crate) fn is_spot(&self) {
        let instruments = self.0.home().join("rules/instruments.yaml");
        let text = fs::read_to_string(&instruments).unwrap();
        let spot = "    venue: outbox\n    base: BTC\n    quote: USD\n";
        fs::write(&instruments, text.replacen("    venue: outbox\n", spot, 1)).unwrap();
        let safety = self.0.home().join("rules/safety.yaml");
        let text = fs::read_to_string(&safety).unwrap();
        let patient = PATIENT.replace('}', ", stop_confirm_s: 3600}");
        fs::write(&safety, text.replace(PATIENT, &patient)).unwrap();
    }

    /// Returns the file with the prices of the exchange.
    pub(crate) fn prices(&self) -> PathBuf {
        self.0.beside("prices")
    }

    /// Returns the books of the exchange.
    pub(crate) fn books(&self) -> PathBuf {
        self.0.beside("exchange-books/exchange.db")
    }

    /// Returns the journal of the bridge.
    pub(crate) fn journal(&self) -> PathBuf {
        self.0.beside("exchange-state/journal.db")
    }

    /// Starts the exchange. A new account has 5000 USD, as the home's.
    pub(crate) fn exchange(&self, options: &[&str]) -> Running {
        let mut command = self.python("spoolgate_bridge.exchange", "exchange.log");
        command.arg(self.0.beside("socket"));
        command.arg("--prices").arg(self.prices());
        command.arg("--state").arg(self.0.beside("exchange-books"));
        command.args(options);
        Running::start(command)
    }

    /// Starts the bridge.
    pub(crate) fn bridge(&self) -> Running {
        let mut command = self.python("spoolgate_bridge", "bridge.log");
        command.arg("--home").arg(self.0.home());
        command.arg("--key").arg(self.0.beside("exchange.key"));
        command.arg("--state").arg(self.0.beside("exchange-state"));
        let mut venue = OsStr::new("mock:").to_owned();
        venue.push(self.0.beside("socket"));
        command.arg("--venue").arg(venue);
        Running::start(command)
    }

    fn python(&self, module: &str, log: &str) -> Command {
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.0.beside(log))
            .unwrap();
        let mut command = Command::new("python3");
        command
            .args(["-m", module])
            .env(
                "PYTHONPATH",
                concat!(env!("CARGO_MANIFEST_DIR"), "/bridges/python"),
            )
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    /// Returns the run of the bridge that gave the last sign of life.
    pub(crate) fn run(&self) -> String {
        let alive = self.0.home().join("spool/outbox/exchange/.alive");
        let alive: Value = serde_json::from_slice(&fs::read(alive).unwrap()).unwrap();
        alive["run"].as_str().unwrap().to_owned()
    }

    /// Waits until the gate takes entries: a run of the bridge other than `before` is alive, and has
    /// sent a snapshot that the gate has compared with its book.
    #[track_caller]
    pub(crate) fn until_reconciled(&self, before: &str) {
        until("the bridge and the gate agree", || {
            self.is_reconciled(before)
        });
    }

    /// Whether the gate takes entries.
    pub(crate) fn is_reconciled(&self, before: &str) -> bool {
        let run = self.run();
        let status = succeed(&self.0.home(), &["--format", "json", "status"]);
        let status: Value = serde_json::from_str(&status).unwrap();
        let bridge = &status["bridges"][0];
        run != before
            && bridge["run"] == run.as_str()
            && bridge["alive"] == true
            && !bridge["reconciled_at"].is_null()
    }
}
