//! What a bridge may put into its folder, where the gate has files of its own. Over a real disk.

use super::outbox_lines::Desk;
use crate::kit::place::drain;
use crate::kit::succeed;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::Seams;
use spoolgate_host::real_disk::RealDisk;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

const FOLDER: &str = "spool/outbox/exchange";

impl Desk {
    /// Moves what is in memory to the disk, below the rules and keys.
    fn land(&self) {
        for (path, bytes) in self.place.disk.files_below("") {
            let path = self.place.root.path().join(&path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// Opens the home over the disk.
    fn landed(&self) -> Home {
        let disk = RealDisk::open(self.place.root.path()).unwrap();
        let seams = Seams {
            disk: Arc::new(disk),
            ..self.place.seams()
        };
        self.place.open_with(seams).unwrap()
    }

    fn at_disk(&self, name: &str) -> PathBuf {
        self.place.root.path().join(FOLDER).join(name)
    }

    /// Decides a request over the disk; nothing of it may be refused.
    fn decide(&self, home: &mut Home, id: &str, action: &str, payload: &serde_json::Value) {
        let payload = payload.to_string();
        self.place.ask(&self.bot, "trend-bot", id, action, &payload);
        let name = format!("spool/in/{id}.json");
        let bytes = self.place.disk.get(&name).unwrap();
        self.place.disk.drop_file(&name);
        fs::write(self.place.root.path().join(&name), bytes).unwrap();
        let done = drain(home).unwrap();
        assert_eq!(done.len(), 1);
        assert!(done[0].answer.error.is_none(), "{done:#?}");
    }
}

#[test]
fn directories_named_like_instructions_end_no_gate() {
    let desk = Desk::new();
    let mut home = desk.open();
    let order = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    drop(home);
    desk.land();
    let file = format!("{order}.1.json");
    let next = order.replace(|c: char| c.is_ascii_digit(), "");
    let number: u64 = order.trim_start_matches(&next).parse().unwrap();
    let names = (0..40).flat_map(|more| {
        let order = format!("{next}{}", number + more);
        ["", "-stop", "-target"].map(|leg| format!("{order}{leg}.1.json"))
    });
    let names: Vec<String> = names.filter(|name| *name != file).collect();
    for name in names.iter().chain([&format!("{order}.2.json")]) {
        fs::create_dir_all(desk.at_disk(name).join("full")).unwrap();
    }
    for name in names.iter().chain([&file]) {
        fs::create_dir_all(desk.at_disk(".back").join(name).join("full")).unwrap();
    }
    let mut home = desk.landed();
    home.write_news().unwrap();
    desk.decide(&mut home, "c1", "order.cancel", &json!({"order_id": order}));
    home.write_news().unwrap();
    // The cancel came before its bridge took the order: it reached nobody.
    assert!(!desk.at_disk(&file).exists());
    assert!(home.state().book.orders.is_empty());
    let body = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.002",
        "order_type": "limit", "price": "6780", "planned_entry": "6780", "stop_price": "6600",
        "planned_stop": "6600", "thesis_slug": "btc-range-long"});
    desk.decide(&mut home, "r2", "order.submit", &body);
    let second = home.state().book.orders.keys().next().unwrap().to_string();
    let told = desk.at_disk(&format!("{second}.1.json"));
    assert!(told.is_file(), "{}", told.display());
    drop(home);
    let mut home = desk.landed();
    home.write_news().unwrap();
    assert!(told.is_file());
}

#[test]
fn files_of_orders_that_do_not_exist_hold_nothing_up() {
    let desk = Desk::new();
    let mut home = desk.open();
    let order = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    drop(home);
    desk.land();
    for number in 0..1000 {
        fs::write(desk.at_disk(&format!("o-{}.1.json", 10_000 + number)), "{}").unwrap();
    }
    let count = || fs::read_dir(desk.at_disk("")).unwrap().count();
    let before = count();
    let mut home = desk.landed();
    desk.decide(&mut home, "c1", "order.cancel", &json!({"order_id": order}));
    assert!(
        home.state().book.orders.is_empty(),
        "the cancel waits for nothing"
    );
    let after = count();
    assert!((before - 300..before).contains(&after), "{before} {after}");
    // All of them are removed in the end.
    for _ in 0..20 {
        home.write_news().unwrap();
    }
    assert!(count() < 20, "{}", count());
    let back = desk.at_disk(".back");
    assert_eq!(fs::read_dir(back).unwrap().count(), 0);
}

#[test]
fn status_does_not_call_a_bridge_alive_that_no_gate_has_looked_at() {
    let desk = Desk::with("", "bridges: {timeout_s: 60}\n");
    drop(desk.open());
    desk.land();
    let root = desk.place.root.path();
    let alive = desk.at_disk(".alive");
    let state = |age_s: u64| {
        let file = fs::File::options().write(true).open(&alive).unwrap();
        let at = SystemTime::now() - Duration::from_secs(age_s);
        file.set_modified(at).unwrap();
        let shown = succeed(root, &["status"]);
        let line = shown.lines().find(|line| line.contains("bridge exchange"));
        let json: Value =
            serde_json::from_str(&succeed(root, &["--format", "json", "status"])).unwrap();
        (
            line.unwrap().to_owned(),
            json["bridges"][0]["alive"].clone(),
        )
    };
    let (line, alive) = state(0);
    assert!(line.contains("alive; "), "{line}");
    assert_eq!(alive, true);
    let (line, alive) = state(600);
    assert!(
        line.contains("no sign of life for 6") && line.contains("is one running?"),
        "{line}"
    );
    assert_eq!(alive, false);
}
