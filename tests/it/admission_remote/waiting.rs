//! Requests that wait: what happens meanwhile, how many may wait, and that each is decided once,
//! whatever ends the gate.

use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_market::Row;
use spoolgate_wire::amount::Amount;

use super::desk::{COMMAND, Desk, LINEAGE, POLICY, WIDE, body, drain, root, rounds, said};
use crate::kit::layered::Layered;
use crate::kit::prices::kept;
use crate::kit::process::{Running, find, until};
use crate::kit::{Sent, show, spoolgate, succeed};

fn waiting_desk() -> Desk {
    let desk = Desk::new(&format!("{WIDE}{COMMAND}"));
    desk.says_late("policy", "max_spawn_depth: 3");
    desk
}

/// Returns a market order near 6,780.
fn order(side: &str) -> String {
    let stop = if side == "buy" { "6600" } else { "6900" };
    format!(
        r#"{{"strategy":"trend","symbol":"BTC-USD","side":"{side}","size":"0.002","order_type":"market","stop_price":"{stop}","thesis_slug":"btc-range-long","planned_entry":"6780","planned_stop":"{stop}"}}"#
    )
}

/// Imports a day of prices that ends now.
fn import_prices(desk: &Desk) {
    for kind in ["quote", "trade"] {
        let file = format!(
            "{}/examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip",
            env!("CARGO_MANIFEST_DIR")
        );
        succeed(
            &desk.home(),
            &[
                "market",
                "import",
                &file,
                "--symbol",
                "BTC-USD",
                "--end-now",
            ],
        );
    }
    desk.clock.set(SystemClock::default().now());
}

/// Imports a quote and a bar that closes in a second.
fn next_prices(desk: &Desk, home: &Home) {
    let opened_ms = desk.clock.now().ms();
    let price = Amount::parse_exact("6780").unwrap();
    let mut rows = [
        Row::Quote {
            time_ms: opened_ms,
            bid: price,
            ask: price,
            bid_size: None,
            ask_size: None,
        },
        Row::Bar {
            open_ms: opened_ms,
            interval_ms: 1000,
            open: price,
            high: price,
            low: price,
            close: price,
            volume: Some(price),
        },
    ];
    rows.sort_by_key(Row::known_ms);
    let payload = kept(home, "BTC-USD", &rows);
    desk.pass_s(1);
    desk.send("owner", "prices", "market.import", &payload, None);
}

/// Exits, cancels, queries, halts and requests of persons never wait, even with causality; entries
/// do.
#[test]
fn requests_that_make_things_safer_never_wait() {
    let desk = waiting_desk();
    import_prices(&desk);
    let mut home = desk.open();
    desk.send("trend-bot", "buy", "order.submit", &order("buy"), None);
    drain(&mut home);
    // It is filled at the next prices.
    next_prices(&desk, &home);
    drain(&mut home);
    desk.evaluate("research-bot", "waits", &root("waits", "reader"));
    desk.send(
        "trend-bot",
        "entry",
        "order.submit",
        &order("buy"),
        Some(&root("entry", "trader")),
    );
    assert!(rounds(&mut home).is_empty());
    assert_eq!(desk.claims().len(), 2);
    until("the command runs", || desk.runs("policy") == 1);
    let of = |name: &str| root(name, "trader");
    desk.send(
        "trend-bot",
        "exit",
        "order.submit",
        &order("sell"),
        Some(&of("exit")),
    );
    desk.send(
        "trend-bot",
        "cancel",
        "order.cancel",
        r#"{"order_id":"1"}"#,
        Some(&of("cancel")),
    );
    desk.send(
        "trend-bot",
        "query",
        "portfolio.get",
        "{}",
        Some(&of("query")),
    );
    desk.send(
        "trend-bot",
        "halt",
        "halt.set",
        r#"{"reason":"look"}"#,
        Some(&of("halt")),
    );
    desk.send(
        "trend-bot",
        "bare",
        "order.cancel",
        r#"{"order_id":"o-1"}"#,
        None,
    );
    desk.send(
        "owner",
        "clear",
        "halt.clear",
        r#"{"scope":{"principal":"trend-bot"},"reason":"seen"}"#,
        None,
    );
    desk.send("trend-bot", "health", "admission.health", "{}", None);
    rounds(&mut home);
    let exit = desk.decision("exit");
    assert!(exit.metadata.code.is_none(), "{:?}", exit.metadata);
    assert!(
        said(&exit).starts_with("policy_unavailable"),
        "{}",
        said(&exit)
    );
    let others =
        ["exit", "cancel", "bare", "query", "halt", "clear", "health"].map(|id| desk.line_of(id).0);
    assert_eq!((desk.inputs().len(), desk.claims().len()), (0, 2));
    desk.write("bin/go", "");
    drain(&mut home);
    assert_eq!(said(&desk.decision("waits")), "ALLOW");
    assert!(desk.decision("entry").receipt.is_some());
    let input = desk.inputs()[0].0;
    assert!(others.iter().all(|seq| *seq < input), "{others:?} {input}");
    assert!(
        ["waits", "entry"]
            .iter()
            .all(|id| desk.line_of(id).0 > input)
    );
    assert_eq!(desk.runs("policy"), 1);
    drop(home);
    desk.is_settled();
}

/// Requests beyond the limit are answered at once: denied.
#[test]
fn a_flood_is_answered() {
    let desk = waiting_desk();
    let mut home = desk.open();
    let agents = [
        "research-bot",
        "trend-bot",
        "risk-officer",
        "code-auditor",
        "quant-researcher",
    ];
    let mut ids = Vec::new();
    for n in 0..60 {
        for agent in agents {
            let id = format!("{agent}-{n}");
            desk.evaluate(agent, &id, &root(&id, "reader"));
            ids.push(id);
        }
    }
    let denied = rounds(&mut home);
    assert_eq!((denied.len(), desk.claims().len()), (300 - 256, 256));
    for outcome in &denied {
        assert_eq!(
            said(&outcome.decision),
            "policy_unavailable: the policy command has not answered"
        );
    }
    desk.write("bin/go", "");
    drain(&mut home);
    let decided = desk.decided();
    let allowed = ids
        .iter()
        .filter(|id| said(&decided[*id].1) == "ALLOW")
        .count();
    assert_eq!((allowed, desk.runs("policy")), (256, 1));
    drop(home);
    desk.is_settled();
}

/// Nor can one principal take all the places, or all the commands.
#[test]
fn one_principals_flood_leaves_room() {
    let desk = Desk::new(&format!("{WIDE}{LINEAGE}"));
    let mut home = desk.open();
    desk.program(
        "lineage",
        "read -r _ < /dev/null; touch bin/begun; until [ -e bin/go ] || tail -n 1 \
        bin/lineage.asked | grep -q other; do sleep 0.02; done; echo '{}'",
    );
    for n in 0..80 {
        let id = format!("flood-{n}");
        desk.evaluate("research-bot", &id, &root(&id, "reader"));
    }
    assert_eq!(rounds(&mut home).len(), 80 - 64);
    until("four commands run", || desk.runs("lineage") == 4);
    desk.evaluate("trend-bot", "other", &root("other", "reader"));
    assert!(rounds(&mut home).is_empty(), "it waits");
    assert_eq!(desk.claims().len(), 65);
    desk.write("bin/go", "");
    drain(&mut home);
    let decided = desk.decided();
    let lines: Vec<u64> = (0..80).map(|n| decided[&format!("flood-{n}")].0).collect();
    let other = decided["other"].0;
    let before = lines.iter().filter(|seq| **seq < other).count();
    assert!(before < 16 + 24, "{before} of the flood came first");
    assert_eq!(desk.runs("lineage"), 65);
    drop(home);
    desk.is_settled();
}

#[test]
fn a_killed_watcher_decides_once() {
    let desk = Desk::new(&format!("{WIDE}{COMMAND}"));
    desk.program(
        "policy",
        "if [ ! -e bin/begun ]; then echo $$ > bin/pid; mv bin/pid bin/begun; exec sleep 300; \
        fi\necho 'max_spawn_depth: 3'",
    );
    desk.evaluate("research-bot", "r1", &root("r1", "reader"));
    let watcher = Running::watch(&desk.home());
    until("the command runs", || desk.is_there("bin/begun"));
    assert_eq!(desk.claims().len(), 1);
    watcher.kill();
    let pid = Pid::from_raw(desk.read("bin/begun").trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(desk.decisions_on("r1").is_empty());
    succeed(&desk.home(), &["run", "--until-idle"]);
    assert_eq!(said(&desk.decision("r1")), "ALLOW");
    assert_eq!(desk.runs("policy"), 2);
    succeed(&desk.home(), &["run", "--until-idle"]);
    desk.decision("r1");
    desk.pass_s(60);
    desk.is_settled();
}

/// An orderly stop does not count as an attempt of the waiting requests; a crash does.
#[test]
fn how_attempts_count() {
    let desk = waiting_desk();
    desk.evaluate("research-bot", "r1", &root("r1", "reader"));
    for _ in 0..4 {
        let mut home = desk.open();
        rounds(&mut home);
        home.finish("stopped").unwrap();
        let claims = desk.claims();
        assert!(
            claims.len() == 1 && claims[0].starts_with("1~"),
            "{claims:?}"
        );
    }
    let mut home = desk.open();
    desk.write("bin/go", "");
    drain(&mut home);
    assert_eq!(said(&desk.decision("r1")), "ALLOW");
    drop(home);
    fs::remove_file(desk.home().join("bin/go")).unwrap();
    desk.pass_s(301);
    desk.evaluate("research-bot", "r2", &root("r2", "reader"));
    for attempt in 1..3 {
        let mut home = desk.open();
        rounds(&mut home);
        let claims = desk.claims();
        assert!(
            claims.len() == 1 && claims[0].starts_with(&format!("{attempt}~")),
            "{claims:?}"
        );
    }
    drain(&mut desk.open());
    assert_eq!(desk.answer_code("r2"), "INTERNAL");
    desk.is_settled();
}

/// A file of the same name is another request: it does not wait, and the first is not treated as
/// decided with it.
#[test]
fn a_name_that_is_used_again_meanwhile() {
    for dies in [false, true] {
        let desk = waiting_desk();
        let mut home = desk.open();
        let drop_as = |id: &str, action: &str, payload: &str| {
            let bytes = desk.signed("research-bot", id, action, payload, None);
            Sent::new("same.json", bytes).drop_into(&desk.home());
        };
        drop_as("r1", "admission.evaluate", &body(&root("r1", "reader")));
        rounds(&mut home);
        drop_as("r2", "admission.evaluate", &body(&root("r2", "reader")));
        rounds(&mut home);
        drop_as("query", "portfolio.get", "{}");
        rounds(&mut home);
        desk.decision("query");
        assert_eq!(desk.claims().len(), 2, "{:?}", desk.claims());
        if dies {
            drop(home);
            home = desk.open();
            rounds(&mut home);
            assert_eq!(desk.claims().len(), 2, "{:?}", desk.claims());
        }
        desk.write("bin/go", "");
        drain(&mut home);
        for id in ["r1", "r2"] {
            assert_eq!(said(&desk.decision(id)), "ALLOW");
        }
        drop(home);
        desk.is_settled();
    }
}

#[test]
fn one_shot_commands_wait_for_their_own() {
    let desk = Desk::new(&format!("{WIDE}{COMMAND}"));
    desk.program("policy", "sleep 0.3; echo 'max_spawn_depth: 3'");
    let request = desk.signed(
        "research-bot",
        "r1",
        "admission.admit",
        &body(&root("r1", "reader")),
        None,
    );
    let file = desk.chamber.beside("r1.json", request);
    let done = spoolgate(&desk.home(), &["handle", &file]);
    assert!(done.status.success(), "{}", show(&done));
    assert_eq!(said(&desk.decision("r1")), "ALLOW");
    assert!(desk.decision("r1").receipt.unwrap().forwarded_to.is_some());
    // What an earlier gate left behind waits too.
    desk.program("policy", "exec sleep 300");
    desk.write(POLICY, &format!("# changed\n{}", desk.read(POLICY)));
    desk.pass_s(5);
    desk.evaluate("research-bot", "r2", &root("r2", "reader"));
    let mut home = desk.open();
    rounds(&mut home);
    assert_eq!(desk.claims().len(), 1);
    drop(home);
    desk.says("policy", "max_spawn_depth: 3");
    let query = desk.signed("research-bot", "q1", "portfolio.get", "{}", None);
    let file = desk.chamber.beside("q1.json", query);
    let done = spoolgate(&desk.home(), &["handle", &file]);
    assert!(done.status.success(), "{}", show(&done));
    assert_eq!(said(&desk.decision("r2")), "ALLOW");
}

/// A key that must carry causality also waits for the policy, and is then told what is missing; its
/// exits need neither.
#[test]
fn a_key_that_requires_causality_waits_too() {
    let desk = waiting_desk();
    let path = "rules/principals.yaml";
    let required = desk.read(path).replace(
        "roots_per_hour: 1000}",
        "roots_per_hour: 1000, required: true}",
    );
    desk.write(path, &required);
    let mut home = desk.open();
    desk.send("trend-bot", "entry", "order.submit", &order("buy"), None);
    desk.send(
        "trend-bot",
        "cancel",
        "order.cancel",
        r#"{"order_id":"o-1"}"#,
        None,
    );
    rounds(&mut home);
    desk.decision("cancel");
    assert!(desk.decisions_on("entry").is_empty() && desk.claims().len() == 1);
    desk.write("bin/go", "");
    drain(&mut home);
    assert!(said(&desk.decision("entry")).starts_with("missing_causality"));
    drop(home);
    desk.is_settled();
}

/// What a command printed needs a blob, which finds no room: it is recorded once there is room, and
/// the command runs once.
#[test]
fn an_output_without_room_waits_in_memory() {
    let names: Vec<String> = (0..700).map(|n| format!("capability-{n}")).collect();
    let profile = format!(
        "max_spawn_depth: 3\ncapability_allowlist: [reader, {}]",
        names.join(", ")
    );
    let lineage = serde_json::json!({"ancestor_capability_ids": names}).to_string();
    for (what, limit) in [("policy", COMMAND), ("lineage", LINEAGE)] {
        let limit = limit.replace("4096", "200000");
        let desk = Desk::new(&format!("{WIDE}{limit}"));
        let output = if what == "policy" { &profile } else { &lineage };
        desk.says(what, output);
        let is_full = Arc::new(AtomicBool::new(false));
        let fails = Arc::clone(&is_full);
        let disk = real_seams(&desk.home()).unwrap().disk;
        let mut home = desk.open_on(Arc::new(Layered::before(disk, move |call| {
            let is_blob = call.verb == "write"
                && (call.path.starts_with("audit/blobs") || call.path.ends_with(".probe.tmp"));
            if is_blob && fails.load(Ordering::SeqCst) {
                Err(ErrorKind::StorageFull.into())
            } else {
                Ok(())
            }
        })));
        rounds(&mut home);
        is_full.store(true, Ordering::SeqCst);
        desk.evaluate("research-bot", "r1", &root("r1", "reader"));
        find(&format!("the output of {what} finds no room"), || {
            home.round(false).unwrap();
            home.is_disk_full().then_some(())
        });
        for _ in 0..3 {
            assert!(!home.round(false).unwrap().more, "{what}");
        }
        assert!(desk.inputs().is_empty() && desk.decisions_on("r1").is_empty());
        is_full.store(false, Ordering::SeqCst);
        desk.pass_s(120);
        drain(&mut home);
        assert_eq!(said(&desk.decision("r1")), "ALLOW", "{what}");
        assert_eq!((desk.runs(what), desk.inputs().len()), (1, 1));
        assert!(desk.inputs()[0].1.payload_blob.is_some(), "{what}");
        drop(home);
        desk.is_settled();
    }
}
