//! The order of work in a batch, the conditions under which exits still pass, and agents that take
//! nobody else's turn.

use spoolgate_gate::actions::Lane;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;

use crate::kit::world::{Draft, World, code_of, message_of};

fn place(outcomes: &[Outcome], draft: &Draft) -> usize {
    outcomes
        .iter()
        .position(|o| o.decision.request_id.as_deref() == Some(&draft.id))
        .unwrap()
}

/// Opens a position with a stop, and a resting entry of the same agent.
fn position_and_resting(world: &mut World, home: &mut Home) -> (String, String) {
    let position = world.position(home, "trend-bot", 0, "0.02");
    let draft = world.resting(home_bot(), 1, "0.002");
    let resting = world.decide(home, &draft);
    assert_eq!(code_of(&resting), None, "{:?}", resting.answer.error);
    (position, resting.decision.order_id.unwrap().to_string())
}

fn home_bot() -> &'static str {
    "trend-bot"
}

fn tighten(world: &mut World, order_id: &str, stop: &str) -> Draft {
    let payload = format!(r#"{{"order_id":"{order_id}","new_stop":"{stop}"}}"#);
    world.draft(home_bot(), "order.tighten_stop", &payload)
}

#[test]
fn protected_lane() {
    let mut world = World::new(31);
    let mut home = world.open();
    let (position, resting) = position_and_resting(&mut world, &mut home);
    // File names are ids: requests that must be decided late get names that sort first.
    let mut entry = world.entry("trend-bot", 2, "0.003");
    entry.id = "aaa-entry".to_owned();
    let mut query = world.draft("trend-bot", "portfolio.get", "{}");
    query.id = "aab-query".to_owned();
    let mut exit = world.exit("trend-bot", "0.001");
    exit.id = "zx-exit".to_owned();
    let mut cancel = world.draft(
        "trend-bot",
        "order.cancel",
        &format!(r#"{{"order_id":"{resting}"}}"#),
    );
    cancel.id = "zy-cancel".to_owned();
    let mut tight = tighten(&mut world, &position, "6750");
    tight.id = "zz-tighten".to_owned();
    let mut control = world.draft(
        "owner",
        "account.adjust",
        r#"{"amount":"1","reason":"more"}"#,
    );
    control.id = "zzz-control".to_owned();
    let mut feed = world.import_draft(&home, "6801");
    feed.id = "zzzz-feed".to_owned();
    for draft in [&entry, &query, &exit, &cancel, &tight, &control, &feed] {
        world.send(draft);
    }
    let outcomes = world.drain(&mut home);
    assert_eq!(outcomes.len(), 7);
    let lanes: Vec<Lane> = outcomes
        .iter()
        .map(|outcome| outcome.decision.lane)
        .collect();
    let expect = [
        Lane::Feed,
        Lane::Control,
        Lane::Protected,
        Lane::Protected,
        Lane::Protected,
    ];
    assert_eq!(lanes[..5], expect);
    assert_eq!(lanes[5..], [Lane::Ordinary, Lane::Ordinary]);
    assert_eq!(
        (place(&outcomes, &feed), place(&outcomes, &control)),
        (0, 1)
    );
    assert_eq!((place(&outcomes, &entry), place(&outcomes, &query)), (5, 6));
    for outcome in &outcomes {
        assert_eq!(code_of(outcome), None, "{:?}", outcome.answer);
    }
    let batches: std::collections::BTreeSet<u64> = outcomes
        .iter()
        .map(|outcome| home.decision(outcome.seq).unwrap().0)
        .collect();
    assert_eq!(batches.len(), 1, "all in one batch");
}

#[test]
fn a_halt_in_the_batch_stops_its_entries_and_no_exit() {
    let mut world = World::new(32);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    let entry = world.entry("trend-bot", 2, "0.003");
    let exit = world.exit("trend-bot", "0.001");
    let mut halt = world.draft("owner", "halt.set", r#"{"reason":"look"}"#);
    halt.id = "zzz-halt".to_owned();
    for draft in [&entry, &exit, &halt] {
        world.send(draft);
    }
    let outcomes = world.drain(&mut home);
    let code = |draft| code_of(&outcomes[place(&outcomes, draft)]);
    assert_eq!(
        (code(&entry), code(&exit), code(&halt)),
        (Some(Code::ChecksFailed), None, None)
    );
}

/// Checks that this check refuses an entry, and that exit, cancel and tighten pass.
fn only_exits(
    world: &mut World,
    home: &mut Home,
    check: &str,
    orders: &(String, String),
    stop: &str,
) {
    let entry = world.entry("trend-bot", 2, "0.003");
    let refused = world.decide(home, &entry);
    let failed: Vec<&str> = refused
        .decision
        .checks
        .iter()
        .filter(|row| !row.passed)
        .map(|row| &*row.name)
        .collect();
    assert!(failed.contains(&check), "{check}: {failed:?}");
    assert!(
        matches!(
            code_of(&refused),
            Some(Code::ChecksFailed | Code::RulebookInvalid)
        ),
        "{check}"
    );
    let tight = tighten(world, &orders.0, stop);
    let cancel = world.draft(
        "trend-bot",
        "order.cancel",
        &format!(r#"{{"order_id":"{}"}}"#, orders.1),
    );
    for draft in [world.exit("trend-bot", "0.001"), tight, cancel] {
        let passed = world.decide(home, &draft);
        assert_eq!(
            code_of(&passed),
            None,
            "{check}: {} {}",
            draft.action,
            message_of(&passed)
        );
        assert_eq!(passed.decision.lane, Lane::Protected);
    }
}

#[test]
fn exits_pass_under_every_halt_and_limit() {
    let mut world = World::new(33);
    let mut home = world.open();
    let orders = position_and_resting(&mut world, &mut home);
    let rule = |name: &str| world.root.join("rules").join(name);
    let (halt_file, safety) = (rule("HALT"), rule("safety.yaml"));
    let good = std::fs::read_to_string(&safety).unwrap();

    world.ask_ok(&mut home, "owner", "halt.set", r#"{"reason":"all"}"#);
    only_exits(&mut world, &mut home, "manual_halt", &orders, "6710");
    world.ask_ok(
        &mut home,
        "owner",
        "halt.clear",
        r#"{"scope":"all","reason":"seen"}"#,
    );
    world.ask_ok(
        &mut home,
        "owner",
        "halt.set",
        r#"{"principal":"trend-bot","reason":"one"}"#,
    );
    only_exits(&mut world, &mut home, "manual_halt", &orders, "6711");
    world.ask_ok(
        &mut home,
        "owner",
        "halt.clear",
        r#"{"scope":{"principal":"trend-bot"},"reason":"seen"}"#,
    );

    std::fs::write(&halt_file, "").unwrap();
    only_exits(&mut world, &mut home, "manual_halt", &orders, "6712");
    std::fs::remove_file(&halt_file).unwrap();

    world.pass_ms(600_000);
    only_exits(&mut world, &mut home, "market_data", &orders, "6713");
    world.market(&mut home, "6800");

    std::fs::write(&safety, good.replace("max_daily_loss", "max_daily_los")).unwrap();
    world.settle(&mut home);
    only_exits(&mut world, &mut home, "rulebook", &orders, "6714");

    // Over every limit at once: the position is much too large for these limits.
    let mut strict = good.clone();
    for (from, to) in [
        ("max_single_position: 0.05", "max_single_position: 0.00001"),
        (
            "max_single_trade_risk: 0.02",
            "max_single_trade_risk: 0.0000001",
        ),
        ("max_total_exposure: 0.50", "max_total_exposure: 0.00001"),
        ("max_daily_loss: 250", "max_daily_loss: 0.01"),
        ("max_drawdown: 0.15", "max_drawdown: 0.000001"),
        ("max_order_value: 1000", "max_order_value: 0.01"),
    ] {
        assert!(strict.contains(from), "{from}");
        strict = strict.replace(from, to);
    }
    std::fs::write(&safety, strict).unwrap();
    world.settle(&mut home);
    world.market(&mut home, "6799");
    for check in [
        "max_single_position",
        "max_single_trade_risk",
        "max_total_exposure",
        "daily_loss_halt",
        "drawdown_halt",
        "max_order_value",
    ] {
        only_exits(&mut world, &mut home, check, &orders, "6715");
    }
    std::fs::write(&safety, good).unwrap();
    world.settle(&mut home);
    world.market(&mut home, "6800");
    world.ask_ok(
        &mut home,
        "owner",
        "halt.clear",
        r#"{"scope":"drawdown","reason":"seen"}"#,
    );
    let entry = world.entry("trend-bot", 2, "0.003");
    let accepted = world.decide(&mut home, &entry);
    assert_eq!(code_of(&accepted), None, "{:?}", accepted.answer.error);
}

#[test]
fn a_strategy_that_keeps_losing_waits_for_a_person() {
    let mut world = World::new(36);
    let mut home = world.open();
    for size in ["0.02", "0.021", "0.022"] {
        world.position(&mut home, "trend-bot", 0, size);
        let exit = world.exit("trend-bot", size);
        let passed = world.decide(&mut home, &exit);
        assert_eq!(code_of(&passed), None, "{}", message_of(&passed));
        world.market(&mut home, "6790");
        world.market(&mut home, "6800");
    }
    drop(home);
    home = world.open();
    let entry = world.entry("trend-bot", 1, "0.019");
    let refused = world.decide(&mut home, &entry);
    assert!(
        message_of(&refused).contains("check `loss_streak` failed"),
        "{}",
        message_of(&refused)
    );
    let others = world.entry("other-bot", 1, "0.002");
    assert_eq!(code_of(&world.decide(&mut home, &others)), None);
    let clear = |name: &str| format!(r#"{{"scope":{{"strategy":"{name}"}},"reason":"seen"}}"#);
    for (who, name, code) in [
        ("trend-bot", "trend", Code::NotPermitted),
        ("owner", "nobody", Code::NotFound),
    ] {
        let outcome = world.ask(&mut home, who, "halt.clear", &clear(name));
        assert_eq!(code_of(&outcome), Some(code), "{who} {name}");
    }
    world.ask_ok(&mut home, "owner", "halt.clear", &clear("trend"));
    drop(home);
    home = world.open();
    let entry = world.entry("trend-bot", 1, "0.018");
    let accepted = world.decide(&mut home, &entry);
    assert_eq!(code_of(&accepted), None, "{}", message_of(&accepted));
}

#[test]
fn fairness() {
    let mut world = World::new(34);
    let mut home = world.open();
    let query = |world: &mut World, source| world.draft(source, "orders.list", "{}");
    let many: Vec<Draft> = (0..800).map(|_| query(&mut world, "alpha-bot")).collect();
    many.iter().for_each(|draft| world.send(draft));
    let one = query(&mut world, "beta-bot");
    let flat = query(&mut world, "trend-bot");
    world.send(&one);
    world.send(&flat);
    let first = home.round(false).unwrap().outcomes;
    assert!(first.len() <= 256);
    let answered = |outcomes: &[Outcome], draft: &Draft| {
        outcomes
            .iter()
            .any(|outcome| outcome.decision.request_id.as_deref() == Some(&draft.id))
    };
    assert!(
        answered(&first, &one) && answered(&first, &flat),
        "both in the first batch"
    );

    // The same while more files arrive, some so large that one closes a batch.
    let mut rounds = 0;
    for n in 0..4 {
        let padded = |text: String| text + &" ".repeat(1_000_000);
        for k in 0..5 {
            world.inbox("alpha-dir", b"");
            let draft = query(&mut world, "alpha-bot");
            world.drop_file(
                "alpha-dir",
                &format!("big-{n}-{k}.json"),
                padded(world.sign(&draft)),
            );
        }
        let one = query(&mut world, "beta-bot");
        world.send(&one);
        let mut waited = 0;
        while !answered(&home.round(false).unwrap().outcomes, &one) {
            waited += 1;
            assert!(waited < 12, "beta-bot waits behind alpha-bot's files");
        }
        rounds = rounds.max(waited);
    }
    println!("beta-bot waited at most {rounds} batches behind others");
    let rest = world.drain(&mut home);
    assert!(world.drain(&mut home).is_empty() && !rest.is_empty());
}

/// A gap that the rules call implausible waits for a person, per symbol. Funding comes from feeds,
/// once per time, and is reported.
#[test]
fn gaps_wait_for_persons_and_funding_comes_from_feeds() {
    let mut world = World::new(37);
    let mut home = world.open();
    let orders = position_and_resting(&mut world, &mut home);
    let path = world.root.join("rules/instruments.yaml");
    let plain = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        plain.replace("bar_s: 60", "bar_s: 60\n    max_gap: 0.001"),
    )
    .unwrap();
    world.settle(&mut home);
    world.market(&mut home, "6807");
    only_exits(&mut world, &mut home, "symbol_halt", &orders, "6710");
    let clear = |symbol: &str| format!(r#"{{"scope":{{"symbol":"{symbol}"}},"reason":"seen"}}"#);
    let other = world.ask(&mut home, "owner", "halt.clear", &clear("ETH-USD"));
    assert_eq!(code_of(&other), Some(Code::NotFound));
    let agent = world.ask(&mut home, "trend-bot", "halt.clear", &clear("BTC-USD"));
    assert_eq!(code_of(&agent), Some(Code::NotPermitted));
    world.ask_ok(&mut home, "owner", "halt.clear", &clear("BTC-USD"));
    let entry = world.entry("trend-bot", 3, "0.003");
    let accepted = world.decide(&mut home, &entry);
    assert_eq!(code_of(&accepted), None, "{:?}", accepted.answer.error);

    let rate = |rate: &str, time: &str| {
        format!(r#"{{"symbol":"BTC-USD","rate":{rate},"time":"2026-02-21T{time}:00:00Z"}}"#)
    };
    for (source, payload, code) in [
        ("trend-bot", rate("0.0001", "08"), Code::NotPermitted),
        ("prices", rate("1", "08"), Code::MalformedPayload),
        ("prices", rate("null", "08"), Code::MalformedPayload),
        ("prices", rate("0.0001", "09"), Code::MarketRefused),
        (
            "prices",
            rate("0.0001", "08").replace("BTC", "DOGE"),
            Code::MarketRefused,
        ),
    ] {
        let refused = world.ask(&mut home, source, "funding.update", &payload);
        assert_eq!(code_of(&refused), Some(code), "{payload}");
    }
    let before = home.state().book.account.clone();
    world.ask_ok(&mut home, "prices", "funding.update", &rate("0.0001", "08"));
    let account = home.state().book.account.clone();
    assert!(account.funding.is_positive());
    assert_eq!(before.cash.checked_sub(account.cash), Some(account.funding));
    let again = world.ask(&mut home, "prices", "funding.update", &rate("0.0001", "08"));
    assert_eq!(code_of(&again), Some(Code::MarketRefused));
    assert_eq!(home.state().book.account, account);
    // The ledger alone gives the same book.
    let book = home.state().book.clone();
    drop(home);
    assert_eq!(world.open().state().book, book);
}
