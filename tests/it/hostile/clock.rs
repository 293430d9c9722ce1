//! Time: how old a request may be, what a clock step closes, and when keys end.

use spoolgate_home::Home;
use spoolgate_wire::code::Code;

use crate::kit::world::{World, code_of, message_of};

#[test]
fn requests_at_the_limits_of_age() {
    let mut world = World::new(41);
    let mut home = world.open();
    let age_max_ms = 300_000;
    for (at_ms, expect) in [
        (-age_max_ms + 1, None),
        (-age_max_ms, None),
        (-age_max_ms - 1, Some(Code::TimestampStale)),
        (29_999, None),
        (30_000, None),
        (30_001, Some(Code::TimestampStale)),
    ] {
        let mut query = world.draft("trend-bot", "orders.list", "{}");
        query.at_ms = at_ms;
        let outcome = world.decide(&mut home, &query);
        assert_eq!(
            code_of(&outcome),
            expect,
            "query signed at {at_ms}: {}",
            message_of(&outcome)
        );
        world.market(&mut home, "6800");
        let mut entry = world.resting("trend-bot", 0, "0.002");
        entry.at_ms = at_ms;
        let outcome = world.decide(&mut home, &entry);
        assert_eq!(
            code_of(&outcome),
            expect,
            "entry signed at {at_ms}: {}",
            message_of(&outcome)
        );
        if let Some(order_id) = outcome.decision.order_id.filter(|_| expect.is_none()) {
            let cancel = format!(r#"{{"order_id":"{order_id}"}}"#);
            world.ask_ok(&mut home, "trend-bot", "order.cancel", &cancel);
        }
        world.pass_ms(31_000);
    }
}

#[test]
fn late_exits_pass_until_a_day_old() {
    let mut world = World::new(42);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    world.pass_ms(2 * 86_400_000);
    world.market(&mut home, "6800");
    for (at_ms, expect) in [
        (-86_400_000 + 1, None),
        (-86_400_000, None),
        (-86_400_001, Some(Code::TimestampStale)),
    ] {
        let mut exit = world.exit("trend-bot", "0.001");
        exit.at_ms = at_ms;
        let outcome = world.decide(&mut home, &exit);
        assert_eq!(
            code_of(&outcome),
            expect,
            "exit signed at {at_ms}: {}",
            message_of(&outcome)
        );
    }
}

/// The row `clock` refuses entries and not exits; persons reopen entries, agents cannot.
fn closed_until_accepted(world: &mut World, home: &mut Home) {
    world.market(home, "6800");
    let entry = world.entry("trend-bot", 2, "0.003");
    let refused = world.decide(home, &entry);
    assert_eq!(code_of(&refused), Some(Code::ChecksFailed));
    assert!(
        message_of(&refused).contains("check `clock` failed"),
        "{}",
        message_of(&refused)
    );
    let exit = world.exit("trend-bot", "0.001");
    let passed = world.decide(home, &exit);
    assert_eq!(code_of(&passed), None, "{}", message_of(&passed));
    for source in ["trend-bot", "prices"] {
        let outcome = world.ask(home, source, "clock.accept", r#"{"reason":"mine"}"#);
        assert_eq!(code_of(&outcome), Some(Code::NotPermitted), "{source}");
    }
    let entry = world.entry("trend-bot", 2, "0.003");
    assert!(message_of(&world.decide(home, &entry)).contains("check `clock` failed"));
    world.ask_ok(home, "owner", "clock.accept", r#"{"reason":"looked"}"#);
    world.market(home, "6800");
    let entry = world.entry("trend-bot", 2, "0.003");
    let accepted = world.decide(home, &entry);
    assert_eq!(code_of(&accepted), None, "{}", message_of(&accepted));
    assert!(
        world
            .ledger()
            .iter()
            .any(|line| line["kind"] == "clock_step")
    );
}

#[test]
fn a_clock_stepped_back_closes_entries() {
    let mut world = World::new(43);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    let line = home.state().clock.last.unwrap();
    world.clock.set(line.plus_ms(-1500));
    home.write_news().unwrap();
    assert_eq!(home.state().clock.fault, None, "less than 2 s is jitter");
    world.clock.set(line.plus_ms(-3000));
    closed_until_accepted(&mut world, &mut home);
}

#[test]
fn a_start_after_eight_days_closes_entries() {
    let mut world = World::new(44);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    drop(home);
    world.pass_ms(8 * 86_400_000);
    let mut home = world.open();
    closed_until_accepted(&mut world, &mut home);
    drop(home);
    // Six days are an ordinary pause.
    world.pass_ms(6 * 86_400_000);
    let mut home = world.open();
    home.write_news().unwrap();
    assert_eq!(home.state().clock.fault, None);
}

#[test]
fn agents_get_no_rights_of_persons() {
    let mut world = World::new(45);
    let mut home = world.open();
    let (key_id, _) = world.new_key();
    let own = world.keys["trend-bot"].0.clone();
    let add =
        format!(r#"{{"principal":"trend-bot","key_id":"{key_id}","algorithm":"hmac-sha256"}}"#);
    let rotate = format!(
        r#"{{"principal":"trend-bot","key_id":"{key_id}","algorithm":"hmac-sha256","others_end":"2030-01-01T00:00:00Z"}}"#
    );
    let before = home.state().clone();
    for source in ["trend-bot", "alpha-bot", "prices"] {
        for (action, payload) in [
            ("clock.accept", r#"{"reason":"r"}"#),
            ("halt.clear", r#"{"scope":"all","reason":"r"}"#),
            ("halt.clear", r#"{"scope":"drawdown","reason":"r"}"#),
            ("account.adjust", r#"{"amount":"1","reason":"r"}"#),
            ("keys.add", &add),
            ("keys.rotate", &rotate),
            (
                "keys.revoke",
                &format!(r#"{{"key_id":"{own}","reason":"r"}}"#),
            ),
        ] {
            let outcome = world.ask(&mut home, source, action, payload);
            assert_eq!(
                code_of(&outcome),
                Some(Code::NotPermitted),
                "{source} {action}"
            );
        }
    }
    for payload in [
        r#"{"principal":"alpha-bot","reason":"r"}"#,
        r#"{"principal":"owner","reason":"r"}"#,
    ] {
        let outcome = world.ask(&mut home, "trend-bot", "halt.set", payload);
        assert_eq!(code_of(&outcome), Some(Code::NotPermitted), "{payload}");
    }
    for (source, action) in [("prices", "order.cancel"), ("prices", "halt.set")] {
        let payload = if action == "halt.set" {
            r#"{"reason":"r"}"#
        } else {
            r#"{"order_id":"o-1"}"#
        };
        let outcome = world.ask(&mut home, source, action, payload);
        assert_eq!(
            code_of(&outcome),
            Some(Code::NotPermitted),
            "{source} {action}"
        );
    }
    assert_eq!(
        (&before.halts, &before.keys),
        (&home.state().halts, &home.state().keys)
    );
    assert_eq!(before.book.account.cash, home.state().book.account.cash);
    // Without a name an agent halts itself, and only itself.
    world.ask_ok(&mut home, "trend-bot", "halt.set", r#"{"reason":"r"}"#);
    let halted: Vec<&str> = home
        .state()
        .halts
        .principals
        .keys()
        .map(|name| name.as_str())
        .collect();
    assert_eq!(
        (halted, &home.state().halts.all),
        (vec!["trend-bot"], &None)
    );
}

#[test]
fn a_revoked_key_stops_at_once_and_a_rotated_one_at_its_end() {
    let mut world = World::new(46);
    let mut home = world.open();
    let (new_id, new_secret) = world.new_key();
    let (old_id, old_secret) = world.keys["trend-bot"].clone();
    let end = world.now().plus_ms(60_000);
    let rotate = format!(
        r#"{{"principal":"trend-bot","key_id":"{new_id}","algorithm":"hmac-sha256","others_end":"{end}"}}"#
    );
    world.ask_ok(&mut home, "owner", "keys.rotate", &rotate);
    let mut with = |world: &mut World, secret: &[u8; 32]| {
        let draft = world.draft("trend-bot", "orders.list", "{}");
        world.drop_file(
            "",
            &format!("{}.json", draft.id),
            world.sign_with(&draft, secret),
        );
        let mut outcomes = world.drain(&mut home);
        assert_eq!(outcomes.len(), 1);
        code_of(&outcomes.remove(0))
    };
    world.clock.set(end.plus_ms(-1));
    assert_eq!(
        (with(&mut world, &old_secret), with(&mut world, &new_secret)),
        (None, None)
    );
    world.clock.set(end);
    assert_eq!(with(&mut world, &old_secret), Some(Code::SignatureInvalid));
    assert_eq!(with(&mut world, &new_secret), None);
    // A step back of the clock does not revive an ended key.
    world.clock.set(end.plus_ms(-30_000));
    assert_eq!(with(&mut world, &old_secret), Some(Code::SignatureInvalid));
    world.clock.set(end.plus_ms(1000));

    // A revocation counts for requests of its own batch that were prepared before it was decided.
    world
        .keys
        .insert("trend-bot".to_owned(), (new_id.clone(), new_secret));
    let mut waiting = Vec::new();
    for n in 0..5 {
        let mut draft = world.draft(
            "trend-bot",
            if n == 0 { "halt.set" } else { "orders.list" },
            "{}",
        );
        if n == 0 {
            draft.payload = r#"{"reason":"zz"}"#.to_owned();
            // This one is decided after the revocation, in the same lane.
            draft.id = "zzzz".to_owned();
        }
        world.send(&draft);
        waiting.push((draft.id.clone(), world.sign(&draft)));
    }
    let revoke = format!(r#"{{"key_id":"{new_id}","reason":"stolen"}}"#);
    let revoke = world.draft("owner", "keys.revoke", &revoke);
    world.send(&revoke);
    let outcomes = world.drain(&mut home);
    assert_eq!(outcomes.len(), 6);
    for (id, bytes) in &waiting {
        let outcome = outcomes
            .iter()
            .find(|o| o.decision.request_id.as_deref() == Some(id))
            .unwrap();
        assert_eq!(code_of(outcome), Some(Code::SignatureInvalid), "{id}");
        assert_eq!(outcome.decision.answer, format!("out/{id}.json.error.json"));
        assert!(!world.answer_path("", &format!("{id}.json")).exists());
        let kept = outcome
            .decision
            .kept
            .as_ref()
            .expect("bytes without a good signature are kept");
        assert_eq!(
            std::fs::read_to_string(world.root.join("spool").join(kept)).unwrap(),
            *bytes
        );
    }
    assert_ne!(old_id, new_id);
    let mut after = world.draft("trend-bot", "orders.list", "{}");
    after.at_ms = -1000;
    assert_eq!(
        code_of(&world.decide(&mut home, &after)),
        Some(Code::SignatureInvalid)
    );
    // The last key of the last person stays; otherwise nobody could lift a halt.
    let second = world.keys["second"].0.clone();
    let first = world.keys["owner"].0.clone();
    let payload = |id: &str| format!(r#"{{"key_id":"{id}","reason":"r"}}"#);
    world.ask_ok(&mut home, "owner", "keys.revoke", &payload(&second));
    let outcome = world.ask(&mut home, "owner", "keys.revoke", &payload(&first));
    assert_eq!(code_of(&outcome), Some(Code::StateConflict));
}

/// After a large step back, new requests looked as old as the step: exits were refused, and so was
/// the request that accepts the clock.
#[test]
fn exits_and_persons_are_accepted_after_any_step_back() {
    for hours in [1, 20, 25, 24 * 400] {
        let mut world = World::new(47);
        let mut home = world.open();
        world.position(&mut home, "trend-bot", 0, "0.02");
        let line = home.state().clock.last.unwrap();
        world.clock.set(line.plus_ms(-hours * 3_600_000));
        let query = world.draft("trend-bot", "orders.list", "{}");
        let halt = world.draft("trend-bot", "halt.set", r#"{"reason":"r"}"#);
        let accept = world.draft("owner", "clock.accept", r#"{"reason":"r"}"#);
        let mut with_its_own_clock = world.exit("trend-bot", "0.001");
        with_its_own_clock.at_ms = hours * 3_600_000 + 2000;
        let exit = world.exit("trend-bot", "0.001");
        for draft in [exit, with_its_own_clock, query, halt, accept] {
            let outcome = world.decide(&mut home, &draft);
            assert_eq!(
                code_of(&outcome),
                None,
                "{hours} h: {} {}",
                draft.action,
                message_of(&outcome)
            );
        }
        let entry = world.entry("trend-bot", 2, "0.003");
        assert!(code_of(&world.decide(&mut home, &entry)).is_some());
        // A request that is older than the step is as old as before.
        let mut query = world.draft("trend-bot", "orders.list", "{}");
        query.at_ms = -302_000;
        assert_eq!(
            code_of(&world.decide(&mut home, &query)),
            Some(Code::TimestampStale),
            "{hours} h"
        );
    }
}

/// The ledger's clock never went back, so the batch after `clock.accept` found the same step again:
/// entries stayed closed until the machine's clock had caught up. Also, a key that a person had
/// revoked must not become valid with the earlier time.
#[test]
fn an_accepted_clock_counts_from_the_next_batch_on() {
    let mut world = World::new(48);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    let (bot_key, _) = world.keys["other-bot"].clone();
    let revoke = format!(r#"{{"key_id":"{bot_key}","reason":"stolen"}}"#);
    world.ask_ok(&mut home, "owner", "keys.revoke", &revoke);
    let before = home.state().clock.last.unwrap();
    world.clock.set(before.plus_ms(-2 * 3_600_000));
    home.write_news().unwrap();
    assert!(home.state().clock.fault.is_some());
    world.ask_ok(&mut home, "owner", "clock.accept", r#"{"reason":"looked"}"#);
    world.pass_ms(1000);
    home.write_news().unwrap();
    let query = world.draft("trend-bot", "orders.list", "{}");
    assert_eq!(code_of(&world.decide(&mut home, &query)), None);
    let after = home.state().clock.clone();
    assert_eq!((after.fault, after.accepted), (None, false));
    assert!(after.last.unwrap() < before, "the machine's time counts");
    let revoked = world.draft("other-bot", "orders.list", "{}");
    assert_eq!(
        code_of(&world.decide(&mut home, &revoked)),
        Some(Code::SignatureInvalid)
    );
    // From here on, a step back counts again.
    world.clock.set(after.last.unwrap().plus_ms(-3000));
    home.write_news().unwrap();
    assert!(home.state().clock.fault.is_some());
    drop(home);
    assert!(
        world.open().state().clock.fault.is_some(),
        "folded from the ledger it is the same"
    );
}
