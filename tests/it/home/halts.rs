//! Halts of single strategies, symbols and bridges: what each closes and pulls, what it leaves, who
//! may set it, and that a replay writes the same lines.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::kit::desk::{Desk, failed, order};
use crate::kit::place::Place;
use crate::kit::venue::{PATIENT, hear_anew};
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_home::closed::why_closed;
use spoolgate_replay::replay::{Options, replay};
use spoolgate_wire::code::Code;
use spoolgate_wire::ids::{OrderId, Principal};

/// A desk whose agent has the strategies `trend` and `range`, with the instruments BTC-USD and ETH-USD
/// and the bridge `exchange`. BTC-USD is traded there if `is_at_venue`.
pub(super) fn desk(is_at_venue: bool) -> Desk {
    let desk = Desk::with_limits(
        "max_correlated_group: 1\nmax_single_position: 0.10\nduplicate_window_s: 0",
    );
    desk.edit("rules/strategies/range.yaml", |text| {
        text.replace("market: btc-usd", "market: other")
            .replace("status: standby", "status: active")
    });
    for (thesis, slug) in [
        ("btc-range-long", "other"),
        ("btc-range-long", "other-2"),
        ("btc-range-long", "again"),
    ] {
        let path = format!("proposals/theses/{thesis}.md");
        let text = fs::read_to_string(desk.place.root.path().join(path)).unwrap();
        let strategy = if slug == "again" { "trend" } else { "range" };
        desk.edit(&format!("proposals/theses/{slug}.md"), |_| {
            text.replace(&format!("slug: {thesis}"), &format!("slug: {slug}"))
                .replace("strategy: trend", &format!("strategy: {strategy}"))
        });
    }
    desk.edit("rules/principals.yaml", |text| {
        text.replace(
            "principals:\n",
            "principals:\n  - {name: exchange, role: bridge}\n",
        )
    });
    desk.edit("rules/instruments.yaml", |text| {
        let (head, btc) = text.split_once("  - symbol").unwrap();
        let btc = format!("  - symbol{btc}");
        let eth = btc.replace("BTC-USD", "ETH-USD");
        let venue = if is_at_venue {
            "    venue: outbox\n    bridge: exchange\n"
        } else {
            ""
        };
        format!("{head}{btc}{venue}{eth}")
    });
    if is_at_venue {
        desk.edit("rules/safety.yaml", |text| format!("{text}{PATIENT}"));
        hear_anew(&desk.place, &mut desk.open());
    }
    desk
}

/// Rests a buy of each strategy; returns the ids of the orders of `trend` and `range`.
fn rest(desk: &Desk, home: &mut Home) -> (OrderId, OrderId) {
    let mut place = |id: &str, strategy: &str, thesis: &str| {
        let rest = order(strategy, "buy", "0.01", Some("6700"), thesis);
        let rest = desk.one(home, "trend-bot", id, "order.submit", &rest);
        assert_eq!(failed(&rest), [""; 0]);
        rest.decision.order_id.unwrap()
    };
    let trend = place("rest-1", "trend", "btc-range-long");
    (trend, place("rest-2", "range", "other"))
}

/// Whether the order still works and nobody asked the venue to end it.
fn works(home: &Home, id: OrderId) -> bool {
    let order = home.state().book.orders.get(&id);
    order.is_some_and(|order| order.ending().is_none())
}

pub(super) fn refusal(outcome: &Outcome) -> (Code, String) {
    let error = outcome.answer.error.as_ref().unwrap();
    (error.code, error.message.clone())
}

pub(crate) fn replays(place: &Place, mut home: Home) {
    home.finish("done").unwrap();
    drop(home);
    let options = Options {
        threads: 1,
        answers: None,
    };
    let disk = Arc::clone(&place.disk);
    let replayed = replay(disk, Path::new("audit"), &options, &mut |_| {}).unwrap();
    assert!(replayed.is_same(), "{replayed:?}");
}

#[test]
fn each_scope_pulls_and_refuses_what_it_names_and_nothing_else() {
    // Scope, whether BTC-USD is at the venue, whether it covers the orders of trend and of range.
    for (scope, is_at_venue, covers) in [
        (json!({"strategy": "trend"}), false, [true, false]),
        (json!({"strategy": "range"}), false, [false, true]),
        (json!({"symbol": "BTC-USD"}), false, [true, true]),
        (json!({"symbol": "ETH-USD"}), false, [false, false]),
        (json!({"bridge": "exchange"}), false, [false, false]),
        (json!({"bridge": "exchange"}), true, [true, true]),
        (json!({"symbol": "BTC-USD"}), true, [true, true]),
        (json!({"strategy": "trend"}), true, [true, false]),
    ] {
        for keep in [false, true] {
            let desk = desk(is_at_venue);
            let mut home = desk.open();
            let (trend, range) = rest(&desk, &mut home);
            let mut halt = scope.clone();
            halt["reason"] = json!("odd");
            halt["keep_orders"] = json!(keep);
            let set = desk.one_as_owner(&mut home, "halt", "halt.set", &halt.to_string());
            assert!(set.answer.error.is_none(), "{set:?}");
            let stay = [works(&home, trend), works(&home, range)];
            assert_eq!(stay, covers.map(|covered| !covered || keep), "{halt}");
            let told = why_closed(home.state()).join("\n");
            assert!(told.contains("halt clear --"), "{told}");
            assert_eq!(told.contains("working entries stay"), keep, "{told}");
            for (id, strategy, thesis, covered) in [
                ("new-1", "trend", "again", covers[0]),
                ("new-2", "range", "other-2", covers[1]),
            ] {
                let more = order(strategy, "buy", "0.003", Some("6710"), thesis);
                let more = desk.one(&mut home, "trend-bot", id, "order.submit", &more);
                let expect: &[&str] = if covered { &["manual_halt"] } else { &[] };
                assert_eq!(failed(&more), expect, "{halt} {strategy}");
            }
            let shown = desk.one(&mut home, "trend-bot", "show", "portfolio.get", "{}");
            let shown: Value =
                serde_json::from_str(shown.answer.data.as_ref().unwrap().get()).unwrap();
            let limits = shown["Portfolio"]["limits"].as_array().unwrap();
            let row = limits.iter().find(|row| row["check"] == "manual_halt");
            let (kind, name) = scope.as_object().unwrap().iter().next().unwrap();
            let of = format!("{kind} {}", name.as_str().unwrap());
            assert_eq!(row.unwrap()["of"], of);
            let clear = json!({"scope": scope, "reason": "looked"}).to_string();
            let cleared = desk.one_as_owner(&mut home, "clear", "halt.clear", &clear);
            assert!(cleared.answer.error.is_none(), "{cleared:?}");
            assert_eq!(why_closed(home.state()), [""; 0]);
            replays(&desk.place, home);
        }
    }
}

#[test]
fn an_agent_halts_itself_and_its_strategies_and_no_repetition_makes_a_halt_weaker() {
    let desk = desk(false);
    let mut home = desk.open();
    let (trend, range) = rest(&desk, &mut home);
    for (n, payload) in [
        json!({"symbol": "BTC-USD", "reason": "r"}),
        json!({"bridge": "exchange", "reason": "r"}),
        json!({"strategy": "nobody", "reason": "r"}),
        json!({"principal": "hermes", "reason": "r"}),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("no-{n}");
        let no = desk.one(
            &mut home,
            "trend-bot",
            &id,
            "halt.set",
            &payload.to_string(),
        );
        let (code, message) = refusal(&no);
        assert_eq!(code, Code::NotPermitted, "{message}");
    }
    let foreign = json!({"strategy": "trend", "reason": "r"}).to_string();
    let no = desk.one(&mut home, "research-bot", "foreign", "halt.set", &foreign);
    assert_eq!(refusal(&no).0, Code::NotPermitted);
    let mut own = json!({"strategy": "trend", "reason": "r"});
    let yes = desk.one(&mut home, "trend-bot", "own", "halt.set", &own.to_string());
    assert!(yes.answer.error.is_none(), "{yes:?}");
    assert!(!works(&home, trend) && works(&home, range));
    own["keep_orders"] = json!(true);
    desk.one(
        &mut home,
        "trend-bot",
        "weaker",
        "halt.set",
        &own.to_string(),
    );
    let halts = &home.state().halts.strategies;
    assert!(halts.values().all(|halt| !halt.keep_orders), "{halts:?}");
    let clear = json!({"scope": {"strategy": "trend"}, "reason": "r"}).to_string();
    let no = desk.one(&mut home, "trend-bot", "clear", "halt.clear", &clear);
    assert_eq!(refusal(&no).0, Code::NotPermitted);
    replays(&desk.place, home);
}

/// A halt of a person keeps that person's name and reason when an agent sets it again.
#[test]
fn a_halt_of_a_person_keeps_its_name_and_reason() {
    let desk = desk(false);
    let mut home = desk.open();
    let (trend, _) = rest(&desk, &mut home);
    let fraud = json!({"principal": "trend-bot", "keep_orders": true, "reason": "fraud"});
    desk.one_as_owner(&mut home, "fraud", "halt.set", &fraud.to_string());
    let bot = Principal::parse("trend-bot").unwrap();
    for (id, keep, is_working) in [("same", true, true), ("stricter", false, false)] {
        let own = json!({"keep_orders": keep, "reason": "a self-test"}).to_string();
        let set = desk.one(&mut home, "trend-bot", id, "halt.set", &own);
        assert!(set.answer.error.is_none(), "{set:?}");
        assert_eq!(set.decision.changes.is_empty(), keep, "{id}");
        let halt = &home.state().halts.principals[&bot];
        assert_eq!((halt.by.as_str(), halt.reason.as_str()), ("owner", "fraud"));
        assert_eq!(works(&home, trend), is_working, "{id}");
    }
    let nobody = json!({"scope": {"principal": "nobody"}, "reason": "r"}).to_string();
    let no = desk.one_as_owner(&mut home, "nobody", "halt.clear", &nobody);
    assert_eq!(refusal(&no).0, Code::NotFound);
    replays(&desk.place, home);
}

#[test]
fn a_halt_that_cannot_be_says_what_exists() {
    let desk = desk(true);
    let mut home = desk.open();
    for (n, (payload, code, expect)) in [
        (
            json!({"strategy": "nobody", "reason": "r"}),
            Code::NotFound,
            "`trend`",
        ),
        (
            json!({"principal": "nobody", "reason": "r"}),
            Code::NotFound,
            "`trend-bot`",
        ),
        (
            json!({"symbol": "XRP-USD", "reason": "r"}),
            Code::NotFound,
            "`BTC-USD`, `ETH-USD`",
        ),
        (
            json!({"bridge": "nowhere", "reason": "r"}),
            Code::NotFound,
            "there are: `exchange`",
        ),
        (
            json!({"bridge": "trend-bot", "reason": "r"}),
            Code::NotFound,
            "there are: `exchange`",
        ),
        (
            json!({"bridge": "exchange", "symbol": "BTC-USD", "reason": "r"}),
            Code::MalformedPayload,
            "name at most one",
        ),
        (
            json!({"principal": "trend-bot", "strategy": "trend", "reason": "r"}),
            Code::MalformedPayload,
            "name at most one",
        ),
        (
            json!({"strategy": null, "reason": "r"}),
            Code::MalformedPayload,
            "",
        ),
        (
            json!({"keep_orders": "yes", "reason": "r"}),
            Code::MalformedPayload,
            "true or false",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("h{n}");
        let no = desk.one_as_owner(&mut home, &id, "halt.set", &payload.to_string());
        let (found, message) = refusal(&no);
        assert_eq!(found, code, "{payload}: {message}");
        assert!(message.contains(expect), "{payload}: {message}");
    }
    for (n, (scope, expect)) in [
        (json!({"bridge": "exchange"}), "none is"),
        (json!({"symbol": "BTC-USD"}), "not halted"),
        (json!({"strategy": "nobody"}), "no file"),
    ]
    .into_iter()
    .enumerate()
    {
        let clear = json!({"scope": scope, "reason": "r"}).to_string();
        let no = desk.one_as_owner(&mut home, &format!("c{n}"), "halt.clear", &clear);
        let (found, message) = refusal(&no);
        assert_eq!(found, Code::NotFound, "{message}");
        assert!(message.contains(expect), "{message}");
    }
}

/// A halt that the gate takes late still halts, for as long as an exit may be late.
#[test]
fn a_late_halt_counts_until_it_is_older_than_an_exit_may_be() {
    for (more_s, is_taken) in [(-1, true), (0, true), (1, false)] {
        let desk = desk(false);
        let mut home = desk.open();
        // `exit_age_max_s` of rules/safety.yaml.
        let most_s = 86_400;
        let halt = json!({"strategy": "trend", "reason": "r"}).to_string();
        desk.place.ask_as_owner("late", "halt.set", &halt);
        desk.place.pass_s(most_s + more_s);
        let done = crate::kit::place::drain(&mut home).unwrap().remove(0);
        let code = done.answer.error.map(|error| error.code);
        assert_eq!(
            code,
            (!is_taken).then_some(Code::TimestampStale),
            "{more_s}"
        );
        let is_halted = home
            .state()
            .halts
            .strategies
            .keys()
            .any(|name| name.as_str() == "trend");
        assert_eq!(is_halted, is_taken, "{more_s}");
        replays(&desk.place, home);
    }
}
