//! A [`Place`] with agents, an account and prices that advance minute by minute, under limits that
//! the test chooses.

use std::fs;

use serde_json::json;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;

use super::place::{Keys, Place, drain, one};
use super::prices::{kept, minute};

/// The agents of a [`Desk`].
pub(crate) const AGENTS: [&str; 3] = ["hermes", "trend-bot", "research-bot"];

/// A home with agents and current prices.
pub(crate) struct Desk {
    /// The home.
    pub place: Place,
    /// Keys of the agents and of the feed `prices`.
    pub keys: Keys,
}

impl Desk {
    /// Makes a home with these lines at the end of safety.yaml; they replace lines with the same
    /// keys.
    pub(crate) fn with_limits(lines: &str) -> Desk {
        let place = Place::new(31);
        let keys = place.ask_for_keys(AGENTS.into_iter().chain(["prices"]));
        place.ask_for_funds();
        let desk = Desk { place, keys };
        desk.edit("rules/safety.yaml", |text| {
            let key = |line: &str| line.split(':').next().unwrap().to_owned();
            let replaced: Vec<String> = lines.lines().map(key).collect();
            let kept: Vec<&str> = text
                .lines()
                .filter(|line| !replaced.contains(&key(line)))
                .collect();
            format!("{}\n{lines}\n", kept.join("\n"))
        });
        let mut home = desk.place.settled();
        assert_eq!(home.rules_fault(), None);
        desk.bar(&mut home, "6800", "6800");
        drop(home);
        desk
    }

    /// Changes a file of the home; the next opening reads it.
    pub(crate) fn edit(&self, path: &str, change: impl Fn(&str) -> String) {
        let path = self.place.root.path().join(path);
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, change(&text)).unwrap();
    }

    /// Opens the home, whose rule files must be valid.
    pub(crate) fn open(&self) -> Home {
        let home = self.place.open().unwrap();
        assert_eq!(home.rules_fault(), None);
        home
    }

    /// Puts a signed request into the spool.
    pub(crate) fn ask(&self, who: &str, id: &str, action: &str, payload: &str) {
        self.place.ask(&self.keys[who], who, id, action, payload);
    }

    /// Decides one request alone in its batch.
    pub(crate) fn one(
        &self,
        home: &mut Home,
        who: &str,
        id: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        self.ask(who, id, action, payload);
        one(home)
    }

    /// Decides one request of the first person.
    pub(crate) fn one_as_owner(
        &self,
        home: &mut Home,
        id: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        self.place.ask_as_owner(id, action, payload);
        drain(home).unwrap().pop().unwrap()
    }

    /// Moves the clock by a minute and sends a bar that opens and closes at `price` with this low,
    /// and a quote at its close.
    pub(crate) fn bar(&self, home: &mut Home, price: &str, low: &str) {
        let open_ms = self.place.clock.now().ms();
        self.place.pass_s(60);
        for (n, row) in minute(open_ms + 60_000, price, low).into_iter().enumerate() {
            let payload = kept(home, "BTC-USD", &[row]);
            let outcome = self.one_as_owner(
                home,
                &format!("rows-{open_ms}-{n}"),
                "market.import",
                &payload,
            );
            assert!(outcome.answer.error.is_none(), "{outcome:?}");
        }
    }
}

/// Returns an order of `trend-bot` with its stop at 6600: at the market, or at a price.
pub(crate) fn order(
    strategy: &str,
    side: &str,
    size: &str,
    price: Option<&str>,
    thesis: &str,
) -> String {
    let mut order = json!({
        "strategy": strategy, "symbol": "BTC-USD", "side": side, "size": size,
            "order_type": "market",
        "stop_price": "6600", "thesis_slug": thesis, "planned_entry": "6800",
            "planned_stop": "6600",
    });
    if let Some(price) = price {
        order["order_type"] = json!("limit");
        order["price"] = json!(price);
        order["planned_entry"] = json!(price);
    }
    order.to_string()
}

/// Returns the names of the checks that failed.
pub(crate) fn failed(outcome: &Outcome) -> Vec<String> {
    let rows = outcome.decision.checks.iter().filter(|row| !row.passed);
    rows.map(|row| row.name.to_string()).collect()
}
