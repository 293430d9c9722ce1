//! The dead man's switch in a home: when it trips and when it does not, what it leaves alone, and
//! what it knows after a restart.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::kit::desk::{Desk, failed, order};
use crate::kit::place::drain;
use crate::kit::{Scratch, Sent, command, succeed};
use serde_json::{Value, json};
use spoolgate_gate::{EventKind, Record};
use spoolgate_home::Home;
use spoolgate_host::clock::Clock;
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{Leg, Principal};

const A_MINUTE: &str = "dead_man: {timeout_s: 60, action: close_new_only}";

fn bot() -> Principal {
    Principal::parse("trend-bot").unwrap()
}

fn is_tripped(home: &Home) -> bool {
    home.state().dead_man.tripped.contains_key(&bot())
}

/// The gate looks every second for this long.
fn watch(desk: &Desk, home: &mut Home, ms: i64) {
    let mut left_ms = ms;
    while left_ms > 0 {
        let step_ms = left_ms.min(1000);
        desk.place
            .clock
            .set(desk.place.clock.now().plus_ms(step_ms));
        drain(home).unwrap();
        left_ms -= step_ms;
    }
}

/// `trend-bot` has 0.02 BTC and a resting entry and has just sent a request; the gate watches.
fn holding(limits: &str) -> (Desk, Home) {
    let desk = Desk::with_limits(limits);
    let mut home = desk.open();
    home.begin_watching();
    let buy = order("trend", "buy", "0.02", None, "btc-range-long");
    assert_eq!(
        failed(&desk.one(&mut home, "trend-bot", "buy", "order.submit", &buy)),
        [""; 0]
    );
    desk.bar(&mut home, "6800", "6800");
    let rest = order("trend", "buy", "0.002", Some("6700"), "btc-dip-long");
    assert_eq!(
        failed(&desk.one(&mut home, "trend-bot", "rest", "order.submit", &rest)),
        [""; 0]
    );
    assert_eq!(home.state().book.positions.len(), 1);
    (desk, home)
}

fn entry(desk: &Desk, home: &mut Home, id: &str) -> Vec<String> {
    let order = order("trend", "buy", "0.003", Some("6750"), "btc-dip-long");
    failed(&desk.one(home, "trend-bot", id, "order.submit", &order))
}

fn dead_man_lines(desk: &Desk) -> Vec<Vec<u8>> {
    let logs = desk.place.disk.files_below("audit");
    let text: Vec<u8> = logs
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("log-"))
        .flat_map(|(_, bytes)| bytes)
        .collect();
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec);
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(r#""kind":"dead_man""#))
        .collect()
}

#[test]
fn it_trips_at_its_timeout_and_not_a_millisecond_before() {
    for (ms, tripped) in [(59_999, false), (60_000, true), (60_001, true)] {
        let (desk, mut home) = holding(A_MINUTE);
        watch(&desk, &mut home, ms);
        assert_eq!(is_tripped(&home), tripped, "{ms}");
        assert_eq!(dead_man_lines(&desk).len(), usize::from(tripped));
    }
}

#[test]
fn entries_are_closed_and_everything_else_goes_on_until_a_heartbeat() {
    let (desk, mut home) = holding(A_MINUTE);
    let resting = home
        .state()
        .book
        .orders
        .values()
        .find(|order| order.price.is_some())
        .unwrap()
        .order_id;
    watch(&desk, &mut home, 60_000);
    assert!(is_tripped(&home));
    assert!(
        !home.state().book.orders.contains_key(&resting),
        "nobody would look after what it opens"
    );
    let stop = home
        .state()
        .book
        .orders
        .keys()
        .find(|id| id.leg == Leg::Stop)
        .copied()
        .unwrap();
    assert_eq!(
        home.state().book.orders.len(),
        1,
        "the stop of what is held stays"
    );
    desk.bar(&mut home, "6800", "6800");
    // Other requests are answered and arm nothing.
    assert_eq!(entry(&desk, &mut home, "e-1"), ["dead_man"]);
    let shown = desk.one(&mut home, "trend-bot", "show", "portfolio.get", "{}");
    let shown: Value = serde_json::from_str(shown.answer.data.unwrap().get()).unwrap();
    assert_eq!(shown["Portfolio"]["unheard"][0]["principal"], "trend-bot");
    assert_eq!(entry(&desk, &mut home, "e-2"), ["dead_man"]);
    let exit = order("trend", "sell", "0.001", None, "btc-range-long");
    assert_eq!(
        failed(&desk.one(&mut home, "trend-bot", "exit", "order.submit", &exit)),
        [""; 0]
    );
    let tighten = json!({"order_id": stop, "new_stop": "6650"}).to_string();
    assert_eq!(
        failed(&desk.one(
            &mut home,
            "trend-bot",
            "tight",
            "order.tighten_stop",
            &tighten
        )),
        [""; 0]
    );
    // It survives restart and rebuild.
    drop(home);
    let (again, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same && is_tripped(&again));
    drop(again);
    let mut home = desk.open();
    home.begin_watching();
    assert_eq!(entry(&desk, &mut home, "e-3"), ["dead_man"]);
    let beat = desk.one(&mut home, "trend-bot", "beat", "heartbeat", "{}");
    let data: Value = serde_json::from_str(beat.answer.data.unwrap().get()).unwrap();
    assert_eq!(
        data,
        json!({"Heartbeat": {"principal": "trend-bot", "armed_again": true}})
    );
    assert_eq!(entry(&desk, &mut home, "e-4"), [""; 0]);
    // Armed again, and the count starts from zero.
    watch(&desk, &mut home, 59_999);
    assert!(!is_tripped(&home));
    watch(&desk, &mut home, 1);
    assert!(is_tripped(&home));
    drop(home);
    let (again, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same && is_tripped(&again));
}

#[test]
fn which_principals_may_send_a_heartbeat_for_which() {
    let (desk, mut home) = holding(A_MINUTE);
    watch(&desk, &mut home, 60_000);
    for (n, (who, payload, expect)) in [
        (
            "hermes",
            r#"{"principal":"trend-bot"}"#,
            Some(Code::NotPermitted),
        ),
        ("prices", "{}", Some(Code::NotPermitted)),
        ("hermes", "{}", None),
        ("owner", "{}", Some(Code::MalformedPayload)),
        ("owner", r#"{"principal":"owner"}"#, Some(Code::NotFound)),
        ("owner", r#"{"principal":"prices"}"#, Some(Code::NotFound)),
        ("owner", r#"{"principal":"nobody"}"#, Some(Code::NotFound)),
        (
            "owner",
            r#"{"principal":null}"#,
            Some(Code::MalformedPayload),
        ),
        (
            "owner",
            r#"{"agent":"trend-bot"}"#,
            Some(Code::MalformedPayload),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("b-{n}");
        let outcome = match who {
            "owner" => desk.one_as_owner(&mut home, &id, "heartbeat", payload),
            who => desk.one(&mut home, who, &id, "heartbeat", payload),
        };
        assert_eq!(outcome.decision.metadata.code, expect, "{who} {payload}");
        assert!(is_tripped(&home), "{who} {payload}");
    }
    desk.one_as_owner(
        &mut home,
        "for",
        "heartbeat",
        r#"{"principal":"trend-bot"}"#,
    );
    assert!(!is_tripped(&home));
    watch(&desk, &mut home, 59_999);
    let own = desk.one(
        &mut home,
        "trend-bot",
        "own",
        "heartbeat",
        r#"{"principal":"trend-bot"}"#,
    );
    assert_eq!(own.decision.metadata.code, None);
    watch(&desk, &mut home, 59_999);
    assert!(!is_tripped(&home));
}

#[test]
fn without_a_setting_or_an_open_position_the_switch_never_trips() {
    let (desk, mut home) = holding("");
    watch(&desk, &mut home, 200_000);
    assert!(home.state().dead_man.tripped.is_empty());
    let desk = Desk::with_limits(A_MINUTE);
    let mut home = desk.open();
    home.begin_watching();
    assert!(
        desk.one(&mut home, "trend-bot", "q", "portfolio.get", "{}")
            .answer
            .error
            .is_none()
    );
    watch(&desk, &mut home, 200_000);
    assert!(home.state().dead_man.tripped.is_empty());
    assert!(dead_man_lines(&desk).is_empty());
}

#[test]
fn any_new_request_is_a_sign_of_life_and_neither_a_copy_nor_a_stale_one_is() {
    let (desk, mut home) = holding(A_MINUTE);
    // A refused request was signed all the same.
    watch(&desk, &mut home, 50_000);
    desk.ask(
        "trend-bot",
        "odd",
        "order.cancel",
        r#"{"order_id":"o-999999"}"#,
    );
    let copy = desk.place.disk.get("spool/in/odd.json").unwrap();
    desk.ask("trend-bot", "held", "portfolio.get", "{}");
    let held = desk.place.disk.get("spool/in/held.json").unwrap();
    desk.place.disk.drop_file("spool/in/held.json");
    desk.ask(
        "trend-bot",
        "late",
        "order.cancel",
        r#"{"order_id":"o-999998"}"#,
    );
    let late = desk.place.disk.get("spool/in/late.json").unwrap();
    desk.place.disk.drop_file("spool/in/late.json");
    assert_eq!(
        drain(&mut home).unwrap()[0].decision.metadata.code,
        Some(Code::ChecksFailed)
    );
    watch(&desk, &mut home, 50_000);
    assert!(!is_tripped(&home));
    desk.place.disk.put("spool/in/copy.json", &copy);
    assert!(
        drain(&mut home).unwrap()[0]
            .decision
            .metadata
            .replay_of
            .is_some()
    );
    watch(&desk, &mut home, 9_999);
    assert!(!is_tripped(&home));
    watch(&desk, &mut home, 1);
    assert!(is_tripped(&home));
    // A request that was delayed until it is stale does not count for today.
    desk.one(&mut home, "trend-bot", "beat", "heartbeat", "{}");
    desk.place.pass_s(400);
    drain(&mut home).unwrap();
    watch(&desk, &mut home, 30_000);
    desk.place.disk.put("spool/in/held.json", &held);
    let outcome = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(outcome.decision.metadata.code, Some(Code::TimestampStale));
    // Neither does a cancel that is executed a day late.
    desk.place.disk.put("spool/in/late.json", &late);
    let outcome = drain(&mut home).unwrap().pop().unwrap();
    assert_eq!(outcome.decision.metadata.code, Some(Code::ChecksFailed));
    watch(&desk, &mut home, 20_000);
    assert!(is_tripped(&home));
}

#[test]
fn only_time_in_which_a_gate_watched_counts() {
    let (desk, mut home) = holding(A_MINUTE);
    watch(&desk, &mut home, 30_000);
    // While stopped for an hour, the gate counts only a little of it.
    desk.place.pass_s(3600);
    drain(&mut home).unwrap();
    assert!(!is_tripped(&home));
    home.finish("stop").unwrap();
    let kept = home.state().dead_man.unheard_ms.get(&bot()).copied();
    assert_eq!(kept, Some(40_000));
    drop(home);
    desk.place.pass_s(7200);
    // One-shot commands do not count as watching.
    let mut home = desk.open();
    for n in 0..100 {
        desk.place.pass_s(1);
        assert!(
            desk.one_as_owner(&mut home, &format!("o-{n}"), "portfolio.get", "{}")
                .answer
                .error
                .is_none()
        );
    }
    assert!(!is_tripped(&home));
    drop(home);
    let (again, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same && again.state().dead_man.unheard_ms.get(&bot()) == Some(&40_000));
    drop(again);
    // The next watch continues the count of the previous one; after a kill it continues from the
    // value that was last written.
    let mut home = desk.open();
    home.begin_watching();
    watch(&desk, &mut home, 15_000);
    drop(home);
    let mut home = desk.open();
    home.begin_watching();
    watch(&desk, &mut home, 19_999);
    assert!(!is_tripped(&home));
    watch(&desk, &mut home, 1);
    assert!(is_tripped(&home));
    // A sign of life counts too if it arrives in a process that does not watch.
    desk.one(&mut home, "trend-bot", "beat", "heartbeat", "{}");
    watch(&desk, &mut home, 50_000);
    home.finish("stop").unwrap();
    drop(home);
    let mut home = desk.open();
    desk.one(&mut home, "trend-bot", "q", "portfolio.get", "{}");
    assert!(home.state().dead_man.unheard_ms.is_empty());
    home.begin_watching();
    watch(&desk, &mut home, 59_999);
    assert!(!is_tripped(&home));
}

#[test]
fn a_busy_gate_watches_too_and_a_request_at_the_last_moment_counts() {
    let (desk, mut home) = holding(A_MINUTE);
    for n in 0..59 {
        desk.place.pass_s(1);
        desk.ask("hermes", &format!("h-{n}"), "portfolio.get", "{}");
        home.round(false).unwrap();
    }
    desk.place.pass_s(1);
    desk.one(&mut home, "trend-bot", "last", "portfolio.get", "{}");
    assert!(!is_tripped(&home));
    for n in 0..60 {
        assert!(!is_tripped(&home), "{n}");
        desk.place.pass_s(1);
        desk.ask("hermes", &format!("i-{n}"), "portfolio.get", "{}");
        assert!(home.round(false).unwrap().more, "it is busy");
    }
    assert!(is_tripped(&home));
}

#[test]
fn liquidation_closes_each_position_by_a_line_of_its_own() {
    let desk = Desk::with_limits(
        "dead_man: {timeout_s: 60, action: liquidate_all}\nmax_correlated_group: \
            1\nmax_single_position: 0.10",
    );
    desk.edit("rules/strategies/range.yaml", |text| {
        text.replace("market: btc-usd", "market: other")
            .replace("status: standby", "status: active")
    });
    let thesis = fs::read_to_string(
        desk.place
            .root
            .path()
            .join("proposals/theses/btc-range-long.md"),
    )
    .unwrap();
    desk.edit("proposals/theses/other.md", |_| {
        thesis
            .replace("slug: btc-range-long", "slug: other")
            .replace("strategy: trend", "strategy: range")
    });
    let mut home = desk.open();
    home.begin_watching();
    for (n, (strategy, thesis)) in [("trend", "btc-range-long"), ("range", "other")]
        .into_iter()
        .enumerate()
    {
        let size = ["0.02", "0.03"][n];
        let buy = order(strategy, "buy", size, None, thesis);
        assert_eq!(
            failed(&desk.one(
                &mut home,
                "trend-bot",
                &format!("buy-{n}"),
                "order.submit",
                &buy
            )),
            [""; 0]
        );
    }
    desk.bar(&mut home, "6800", "6800");
    assert_eq!(home.state().book.positions.len(), 2);
    desk.one(&mut home, "trend-bot", "beat", "heartbeat", "{}");
    watch(&desk, &mut home, 60_000);
    assert!(is_tripped(&home));
    assert_eq!(dead_man_lines(&desk).len(), 3);
    let flatten = |home: &Home| {
        let orders = home
            .state()
            .book
            .orders
            .values()
            .filter(|order| order.order_id.leg == Leg::Flatten);
        orders
            .map(|order| (order.order_id, order.size.to_string()))
            .collect::<Vec<_>>()
    };
    let placed = flatten(&home);
    let mut sizes: Vec<&str> = placed.iter().map(|(_, size)| size.as_str()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, ["0.02", "0.03"]);
    assert_ne!(placed[0].0, placed[1].0);
    // There are no other orders for the same position, whatever happens; nobody can cancel them;
    // stops stay meanwhile.
    let cancel = json!({"order_id": placed[0].0}).to_string();
    assert_eq!(
        failed(&desk.one(&mut home, "trend-bot", "no", "order.cancel", &cancel)),
        ["cancel_ok"]
    );
    drop(home);
    let (again, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
    drop(again);
    let mut home = desk.open();
    home.begin_watching();
    watch(&desk, &mut home, 100_000);
    assert_eq!(flatten(&home), placed);
    assert_eq!(
        home.state()
            .book
            .orders
            .keys()
            .filter(|id| id.leg == Leg::Stop)
            .count(),
        2
    );
    desk.bar(&mut home, "6790", "6790");
    assert!(home.state().book.positions.is_empty() && home.state().book.orders.is_empty());
    watch(&desk, &mut home, 100_000);
    assert_eq!(dead_man_lines(&desk).len(), 3);
    drop(home);
    let (_, same) = Home::rebuild(desk.place.root.path(), desk.place.seams()).unwrap();
    assert!(same);
}

/// A strategy that has another agent is not liquidated.
#[test]
fn a_strategy_is_liquidated_when_the_last_of_its_agents_is_gone() {
    let desk = Desk::with_limits("dead_man: {timeout_s: 60, action: liquidate_all}");
    desk.edit("rules/principals.yaml", |text| {
        text.replace(
            "  - name: research-bot\n    role: agent\n",
            "  - name: research-bot\n    role: agent\n    strategies: [trend]\n",
        )
    });
    let mut home = desk.open();
    home.begin_watching();
    let buy = order("trend", "buy", "0.02", None, "btc-range-long");
    assert_eq!(
        failed(&desk.one(&mut home, "trend-bot", "buy", "order.submit", &buy)),
        [""; 0]
    );
    desk.bar(&mut home, "6800", "6800");
    for n in 0..5 {
        desk.one(
            &mut home,
            "research-bot",
            &format!("q-{n}"),
            "portfolio.get",
            "{}",
        );
        watch(&desk, &mut home, 30_000);
    }
    assert!(is_tripped(&home) && home.state().dead_man.tripped.len() == 1);
    let is_closing = |home: &Home| {
        home.state()
            .book
            .orders
            .keys()
            .any(|id| id.leg == Leg::Flatten)
    };
    assert!(!is_closing(&home));
    watch(&desk, &mut home, 30_000);
    assert!(home.state().dead_man.tripped.len() == 2 && is_closing(&home));
}

/// The real program: an idle watcher trips by itself; persons see it and send a heartbeat for the
/// agent.
#[test]
fn an_idle_watcher_trips_by_itself() {
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let order = r#"{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.002","order_type":"limit","price":"6740","thesis_slug":"btc-range-long","planned_entry":"6740","planned_stop":"6600","stop_price":"6600"}"#;
    Sent::new("buy.json", scratch.request("buy", "order.submit", order)).drop_into(&home);
    succeed(&home, &["run", "--until-idle"]);
    let answer = fs::read_to_string(home.join("spool/out/buy.json")).unwrap();
    assert!(answer.contains("Accepted"), "{answer}");
    let safety = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&safety).unwrap();
    fs::write(
        &safety,
        format!("{text}\ndead_man: {{timeout_s: 2, action: close_new_only}}\n"),
    )
    .unwrap();
    let mut watcher = command(&home, &["watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let shows = |what: &str| succeed(&home, &["portfolio"]).contains(what);
    while !shows("`trend-bot` has been silent") {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never trips");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(
        succeed(&home, &["--format", "json", "orders"]),
        "",
        "the resting entry is gone"
    );
    let told = succeed(&home, &["heartbeat", "trend-bot"]);
    assert!(told.contains("armed for `trend-bot`"), "{told}");
    assert!(!shows("has been silent"));
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    succeed(&home, &["rebuild"]);
    let lines = crate::kit::lines(&home).unwrap();
    let tripped = lines
        .iter()
        .filter(|(_, _, record)| matches!(record, Some(Record::Event(EventKind::DeadMan, _))))
        .count();
    assert_eq!(tripped, 1);
}
