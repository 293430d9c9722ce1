//! Bridges that are silent, dead or back: what the gate notices of them, what it takes back, and what
//! people are told. Over a home in memory.

use super::halts::replays;
use super::outbox_lines::Desk;
use crate::kit::ledger_files::lines_of;
use crate::kit::place::{drain, one};
use crate::kit::venue::{alive, hear, snapshot_of};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::closed::closed_for_now;
use spoolgate_host::clock::Clock;
use spoolgate_trading::book::Bridge;
use spoolgate_trading::views;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::time::Time;

const FOLDER: &str = "spool/outbox/exchange";

impl Desk {
    fn now(&self) -> Time {
        self.place.clock.now()
    }

    /// The bridge shows that it is there, with these members otherwise.
    fn show(&self, more: &Value) {
        let mut sign: Value = serde_json::from_slice(&alive(self.now())).unwrap();
        let members = sign.as_object_mut().unwrap();
        members.extend(more.as_object().unwrap().clone());
        let path = format!("{FOLDER}/.alive");
        self.place.disk.put(path, sign.to_string().as_bytes());
    }

    /// A second passes, and the gate looks.
    fn tick(&self, home: &mut Home) {
        self.place.pass_s(1);
        home.write_news().unwrap();
    }

    /// The bridge takes a file, as the protocol says.
    fn take(&self, name: &str) -> Value {
        let path = format!("{FOLDER}/{name}");
        let told = self
            .place
            .disk
            .get(&path)
            .unwrap_or_else(|| panic!("no {path}"));
        self.place.disk.drop_file(&path);
        serde_json::from_slice(&told).unwrap()
    }

    fn is_there(&self, name: &str) -> bool {
        self.place.disk.get(format!("{FOLDER}/{name}")).is_some()
    }

    fn report(&self, home: &mut Home, exec: &str, rest: &Value) -> Option<Code> {
        let mut report = json!({"exec_id": exec, "transact_time": self.now(), "cum_qty": "0"});
        let members = report.as_object_mut().unwrap();
        members.extend(rest.as_object().unwrap().clone());
        let payload = report.to_string();
        self.place
            .ask(&self.bridge, "exchange", exec, "venue.report", &payload);
        one(home).answer.error.map(|error| error.code)
    }

    /// Sends an order that may be refused; returns the checks that failed.
    fn try_order(&self, home: &mut Home, id: &str) -> Vec<String> {
        let order = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": "0.002",
            "order_type": "limit", "price": "6780", "planned_entry": "6780", "stop_price": "6600",
            "planned_stop": "6600", "thesis_slug": "btc-range-long"});
        self.place.ask(
            &self.bot,
            "trend-bot",
            id,
            "order.submit",
            &order.to_string(),
        );
        let outcome = one(home);
        let checks = outcome.decision.checks.into_iter();
        let failed = checks.filter(|row| !row.passed);
        failed.map(|row| row.name.into_owned()).collect()
    }

    /// The notes of the `bridge` lines of the ledger.
    fn bridge_lines(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (path, log) in self.place.disk.files_below("audit") {
            if !path.to_string_lossy().contains("log-") {
                continue;
            }
            for line in lines_of(&log) {
                let line: Value = serde_json::from_slice(&line).unwrap();
                if line["kind"] == "bridge" {
                    notes.push(line["note"].as_str().unwrap().to_owned());
                }
            }
        }
        notes
    }
}

fn known(home: &Home) -> Bridge {
    let bridges = &home.state().book.bridges;
    bridges[&Principal::parse("exchange").unwrap()].clone()
}

fn order_is_open(home: &Home, id: &str) -> bool {
    let id = OrderId::parse(id).unwrap();
    home.state().book.orders.contains_key(&id)
}

#[test]
fn a_bridge_that_is_dead_for_six_hours_never_carries_out_an_old_entry() {
    let desk = Desk::with("", "");
    let mut home = desk.open();
    hear(&desk.place, &mut home, &desk.bridge);
    let entry = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    let file = format!("{entry}.1.json");
    let told: Value =
        serde_json::from_slice(&desk.place.disk.get(format!("{FOLDER}/{file}")).unwrap()).unwrap();
    assert_eq!(told["valid_until"], json!(desk.now().plus_ms(10_000)));
    assert_eq!(told["epoch"], 1);
    let client = told["client_order_id"].as_str().unwrap();
    assert!(client.len() == 18 && client.starts_with('s'), "{client}");
    for _ in 0..14 {
        desk.tick(&mut home);
    }
    assert_eq!(known(&home).silent, None);
    assert!(desk.is_there(&file), "its time and 5 s have not passed");
    desk.tick(&mut home);
    let silence = known(&home).silent.unwrap();
    assert_eq!(silence.why, "its last sign of life is too old");
    assert_eq!(desk.try_order(&mut home, "r2"), ["venue_alive"]);
    let closed = closed_for_now(home.state(), home.rulebook(), desk.now());
    let [why] = closed.as_slice() else {
        panic!("{closed:?}");
    };
    assert!(
        why.starts_with("`venue_alive`: bridge `exchange` is silent since"),
        "{why}"
    );
    assert!(!desk.is_there(&file) && !order_is_open(&home, &entry));
    for hours in [2, 4, 6] {
        desk.place.pass_s(7200);
        home.write_news().unwrap();
        let failed = desk.try_order(&mut home, &format!("late-{hours}"));
        assert!(failed.contains(&"venue_alive".to_owned()), "{failed:?}");
    }
    // It is back, and finds nothing of that.
    hear(&desk.place, &mut home, &desk.bridge);
    assert_eq!(desk.told(), [""; 0]);
    assert_eq!(known(&home).silent, None);
    replays(&desk.place, home);
}

#[test]
fn what_a_halt_pulls_is_gone_at_once_if_the_bridge_has_not_taken_it() {
    let desk = Desk::new();
    let mut home = desk.open();
    let untaken = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    let taken = desk.order(
        &mut home,
        "r2",
        "buy",
        "0.002",
        json!({"price": "6791", "thesis_slug": "btc-dip-long"}),
    );
    desk.take(&format!("{taken}.1.json"));
    let halt = json!({"reason": "r"}).to_string();
    desk.place.ask_as_owner("halt", "halt.set", &halt);
    drain(&mut home).unwrap();
    assert!(!order_is_open(&home, &untaken), "nobody can have sent it");
    assert!(order_is_open(&home, &taken), "it may be at the venue");
    assert_eq!(desk.told(), [format!("{taken}.2 cancel")]);
    let expect = "an instruction that its bridge had not taken was taken back";
    assert_eq!(desk.bridge_lines().last().unwrap(), expect);
    desk.tick(&mut home);
    assert_eq!(
        desk.place.disk.files_below(&format!("{FOLDER}/.back")),
        [],
        "nothing is left of what was taken back"
    );
    // The bridge sends nothing of the other one.
    let expired = json!({"order_id": taken, "exec_type": "rejected", "text": "expired",
        "version": 1});
    assert_eq!(desk.report(&mut home, "X1", &expired), None);
    assert!(!order_is_open(&home, &taken));
    replays(&desk.place, home);
}

#[test]
fn a_crash_between_the_renaming_and_its_line_loses_nothing() {
    let desk = Desk::new();
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    let cancel = json!({"order_id": entry}).to_string();
    drop(home);
    // The gate has renamed the file, and died before the line.
    let bytes = desk
        .place
        .disk
        .get(format!("{FOLDER}/{entry}.1.json"))
        .unwrap();
    desk.take(&format!("{entry}.1.json"));
    let back = format!("{FOLDER}/.back/{entry}.1.json");
    desk.place.disk.put(&back, &bytes);
    let mut home = desk.open();
    home.write_news().unwrap();
    assert!(!order_is_open(&home, &entry));
    desk.place
        .ask(&desk.bot, "trend-bot", "c1", "order.cancel", &cancel);
    drain(&mut home).unwrap();
    assert!(desk.place.disk.get(&back).is_none());
    replays(&desk.place, home);
}

#[test]
fn a_file_that_was_written_again_after_a_crash_proves_nothing() {
    let desk = Desk::new();
    let mut home = desk.open();
    home.mark_published().unwrap();
    let entry = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    drop(home);
    // The bridge has it, and the gate cannot know that.
    desk.take(&format!("{entry}.1.json"));
    let mut home = desk.open();
    assert!(desk.is_there(&format!("{entry}.1.again.json")));
    desk.place
        .ask_as_owner("halt", "halt.set", &json!({"reason": "r"}).to_string());
    drain(&mut home).unwrap();
    desk.tick(&mut home);
    assert!(!desk.is_there(&format!("{entry}.1.again.json")));
    assert!(
        order_is_open(&home, &entry),
        "the first file may have been carried out"
    );
    replays(&desk.place, home);
}

#[test]
fn signs_that_are_none_and_clocks_that_are_off() {
    let desk = Desk::with("", "");
    let mut home = desk.open();
    hear(&desk.place, &mut home, &desk.bridge);
    let path = format!("{FOLDER}/.alive");
    let put = |bytes: &[u8]| desk.place.disk.put(&path, bytes);
    let large = format!("{{\"at\":\"{}\"{}}}", desk.now(), " ".repeat(5000));
    let other = |more: &Value| desk.show(more);
    type Case<'a> = (&'a dyn Fn(), &'a str);
    let cases: [Case<'_>; 7] = [
        (&|| put(b""), "is not a sign of life"),
        (&|| put(b"{}"), "is not a sign of life"),
        (&|| put(large.as_bytes()), "is not a sign of life"),
        (&|| other(&json!({"run": ""})), "is not a sign of life"),
        (&|| other(&json!({"more": 1})), "is not a sign of life"),
        (
            &|| other(&json!({"venue": "down"})),
            "does not reach its venue",
        ),
        (
            &|| other(&json!({"at": desk.now().plus_ms(15_000)})),
            "its clock is ahead",
        ),
    ];
    for (make, says) in cases {
        make();
        home.write_news().unwrap();
        let silence = known(&home).silent.unwrap_or_else(|| panic!("{says}"));
        assert!(silence.why.contains(says), "{}", silence.why);
        other(&json!({"at": desk.now().plus_ms(14_999)}));
        home.write_news().unwrap();
        assert_eq!(known(&home).silent, None, "{says}");
        assert_eq!(known(&home).reconciled_at, None, "it must be compared anew");
    }
    desk.place.disk.drop_file(&path);
    home.write_news().unwrap();
    assert!(known(&home).silent.unwrap().why.contains("it writes no"));
    replays(&desk.place, home);
}

#[test]
fn a_drill_is_answered_by_a_bridge_that_is_there() {
    let desk = Desk::new();
    let mut home = desk.open();
    let drill = |id: &str| {
        let payload = json!({"drill": true, "reason": "quarterly"}).to_string();
        desk.place.ask_as_owner(id, "halt.set", &payload);
    };
    drill("d1");
    let first = one(&mut home).seq;
    drill("d2");
    let line = one(&mut home).seq;
    desk.tick(&mut home);
    assert!(
        !desk.is_there(&format!("ping.{first}.json")),
        "the newest is enough"
    );
    assert_eq!(
        desk.take(&format!("ping.{line}.json")),
        json!({"ping": line.to_string(), "epoch": 1})
    );
    desk.show(&json!({"nonce": line.to_string()}));
    desk.tick(&mut home);
    desk.tick(&mut home);
    assert_eq!(known(&home).pinged, Some(line));
    let told = format!("bridge `exchange` answered the ping of line {line}");
    let lines = desk.bridge_lines();
    assert_eq!(
        lines.iter().filter(|note| **note == told).count(),
        1,
        "{lines:?}"
    );
    replays(&desk.place, home);
}

#[test]
fn a_gate_that_watches_shows_itself_and_a_command_does_not() {
    let desk = Desk::new();
    let mut home = desk.open();
    home.write_news().unwrap();
    assert!(!desk.is_there(".gate"));
    home.begin_watching();
    desk.tick(&mut home);
    let read = || -> Value {
        serde_json::from_slice(&desk.place.disk.get(format!("{FOLDER}/.gate")).unwrap()).unwrap()
    };
    let at = desk.now();
    assert_eq!(
        read(),
        json!({"at": at, "valid_until": at.plus_ms(30_000), "epoch": 1})
    );
    home.write_news().unwrap();
    desk.tick(&mut home);
    assert_eq!(read()["at"], json!(desk.now()));
}

#[test]
fn snapshots_are_compared_once_and_only_a_bridge_sends_them() {
    let desk = Desk::new();
    let mut home = desk.open();
    let now = desk.now();
    let agreeing = snapshot_of(&home.state().book, now);
    let send = |home: &mut Home, id: &str, snapshot: &Value, by_bot: bool| {
        let (key, who) = match by_bot {
            true => (&desk.bot, "trend-bot"),
            false => (&desk.bridge, "exchange"),
        };
        desk.place
            .ask(key, who, id, "venue.snapshot", &snapshot.to_string());
        one(home).answer
    };
    let code = |answer: spoolgate_wire::answer::Answer| answer.error.map(|error| error.code);
    let with = |member: &str, value: Value| {
        let mut snapshot = agreeing.clone();
        snapshot[member] = value;
        snapshot
    };
    assert_eq!(code(send(&mut home, "s1", &agreeing, false)), None);
    assert_eq!(
        code(send(&mut home, "s2", &agreeing, true)),
        Some(Code::NotPermitted)
    );
    let other_run = with("run", json!("r2"));
    assert_eq!(
        code(send(&mut home, "s3", &other_run, false)),
        Some(Code::SnapshotStale)
    );
    for (nth, snapshot) in [
        with("more", json!(1)),
        with("run", json!("")),
        with(
            "balances",
            json!(vec![
                json!({"currency": "BTC", "total": "1", "available": "1"});
                101
            ]),
        ),
        with("positions", json!(null)),
        with("taken_at", json!("yesterday")),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = code(send(&mut home, &format!("m{nth}"), &snapshot, false));
        assert_eq!(refused, Some(Code::MalformedPayload), "{snapshot}");
    }
    let foreign = with(
        "foreign",
        json!([{"venue_id": "X1", "symbol": "BTC-USD", "side": "sell", "size": "1"}]),
    );
    let answer = send(&mut home, "s4", &foreign, false);
    let data: Value = serde_json::from_str(answer.data.unwrap().get()).unwrap();
    let differences = &data["Reconciled"]["differences"];
    assert!(
        differences[0].as_str().unwrap().contains("foreign order"),
        "{data}"
    );
    assert_eq!(desk.try_order(&mut home, "r1"), ["symbol_halt"]);
    replays(&desk.place, home);
}

#[test]
fn a_stop_that_no_venue_confirms_protects_nothing_after_15_s() {
    let desk = Desk::with("", "");
    let mut home = desk.open();
    hear(&desk.place, &mut home, &desk.bridge);
    let entry = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    desk.trade(&mut home, "X1", &entry, "0.002", "0.002");
    let tick = |home: &mut Home| {
        desk.place.pass_s(1);
        desk.show(&json!({}));
        home.write_news().unwrap();
    };
    for _ in 0..14 {
        tick(&mut home);
    }
    let stop = |home: &Home| {
        let (book, rules) = (&home.state().book, home.rulebook());
        let shown = views::portfolio(book, rules, desk.now(), &Default::default());
        let stop = &shown.positions[0].stops[0];
        (stop.size.to_string(), stop.confirmed.to_string())
    };
    let shown = ("0.002".to_owned(), "0".to_owned());
    assert_eq!(stop(&home), shown, "at once, not only after 15 s");
    assert!(home.state().book.doubted_symbols.is_empty());
    tick(&mut home);
    let doubt = home
        .state()
        .book
        .doubted_symbols
        .values()
        .next()
        .unwrap()
        .clone();
    assert_eq!(doubt.order_id.unwrap().to_string(), format!("{entry}-stop"));
    assert!(doubt.what.contains("has not confirmed"), "{}", doubt.what);
    // People are told of the silence about it, and again after an hour.
    let alarms = |desk: &Desk| {
        let lines = desk.bridge_lines();
        lines
            .iter()
            .filter(|note| note.as_str() == "bridges have not answered in time")
            .count()
    };
    let first = alarms(&desk);
    for _ in 0..5 {
        tick(&mut home);
    }
    assert_eq!(alarms(&desk), first, "once is enough");
    desk.place.pass_s(3600);
    tick(&mut home);
    assert!(alarms(&desk) > first);
    let works = json!({"order_id": format!("{entry}-stop"), "exec_type": "new", "version": 1,
        "cum_qty": "0"});
    assert_eq!(desk.report(&mut home, "X2", &works), None);
    assert_eq!(stop(&home).1, "0.002");
    replays(&desk.place, home);
}

#[test]
fn a_flood_of_changes_reaches_the_bridge_slowly_and_an_exit_at_once() {
    let patient = "bridges: {timeout_s: 3600, entry_valid_s: 3600}\n";
    let desk = Desk::with("", patient);
    let mut home = desk.open();
    let entry = desk.order(&mut home, "r1", "buy", "0.01", json!({}));
    desk.trade(&mut home, "X1", &entry, "0.01", "0.01");
    let stop = format!("{entry}-stop");
    let works = json!({"order_id": stop, "exec_type": "new", "version": 1});
    assert_eq!(desk.report(&mut home, "X2", &works), None);
    let before = desk.place.disk.files_below(FOLDER).len();
    let mut answered = 0;
    for nth in 0..200 {
        let level = format!("{}.{:02}", 6601 + nth / 100, nth % 100);
        let payload = json!({"order_id": entry, "new_stop": level}).to_string();
        let id = format!("t{nth:03}");
        desk.place
            .ask(&desk.bot, "trend-bot", &id, "order.tighten_stop", &payload);
    }
    let exit = json!({"strategy": "trend", "symbol": "BTC-USD", "side": "sell", "size": "0.01",
        "order_type": "market", "thesis_slug": "btc-range-long", "planned_entry": "6800",
        "planned_stop": "6900"});
    desk.place.ask(
        &desk.bot,
        "trend-bot",
        "zz-exit",
        "order.submit",
        &exit.to_string(),
    );
    for outcome in drain(&mut home).unwrap() {
        assert!(outcome.answer.error.is_none(), "{outcome:?}");
        answered += 1;
    }
    assert_eq!(answered, 201);
    let given = home
        .state()
        .book
        .bridges
        .values()
        .map(|bridge| bridge.paced.len());
    let given: usize = given.sum();
    assert!((1..=20).contains(&given), "{given}");
    assert!(desk.place.disk.files_below(FOLDER).len() <= before + 22);
    // The stop makes room for the exit in spite of that.
    let told = desk.told();
    assert!(
        told.iter()
            .any(|told| told.contains("stop") && told.ends_with("cancel")),
        "{told:?}"
    );
    replays(&desk.place, home);
}

#[test]
fn rules_without_a_bridge_that_has_something_open_are_refused() {
    let desk = Desk::new();
    let mut home = desk.open();
    let order = desk.order(&mut home, "r1", "buy", "0.002", json!({}));
    desk.take(&format!("{order}.1.json"));
    let hash = home.rulebook().hash.clone();
    drop(home);
    let rename = |file: &str, from: &str, to: &str| {
        let path = desk.place.root.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        std::fs::write(path, text.replace(from, to)).unwrap();
    };
    rename("rules/principals.yaml", "name: exchange,", "name: other,");
    rename(
        "rules/instruments.yaml",
        "bridge: exchange",
        "bridge: other",
    );
    let mut home = desk.open();
    let fault = home.rules_fault().unwrap().to_owned();
    let expect = format!("bridge `exchange` was removed, but order `{order}` is at its venue");
    assert!(fault.contains(&expect), "{fault}");
    assert_eq!(home.rulebook().hash, hash, "the last good one");
    // So its reports are still booked, and without orders the rules come into force.
    let gone = json!({"order_id": order, "exec_type": "canceled", "version": 1});
    assert_eq!(desk.report(&mut home, "e1", &gone), None);
    drop(home);
    let home = desk.open();
    assert_eq!(home.rules_fault(), None);
    assert_ne!(home.rulebook().hash, hash);
}
