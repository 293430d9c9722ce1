//! Rule files that cannot be used: entries are refused, with file and line; exits are still
//! allowed; a repair reopens entries.

use spoolgate_home::Home;
use spoolgate_wire::code::Code;

use crate::kit::world::{World, code_of, message_of};

/// Checks that entries are refused with this place in the message, and that exits pass.
fn closed(world: &mut World, home: &mut Home, place: &str) {
    world.market(home, "6800");
    let entry = world.entry("trend-bot", 2, "0.003");
    let refused = world.decide(home, &entry);
    assert_eq!(
        code_of(&refused),
        Some(Code::RulebookInvalid),
        "{place}: {:?}",
        refused.answer.error
    );
    let message = message_of(&refused);
    assert!(
        message.contains(place) && message.ends_with(Code::RulebookInvalid.remedy()),
        "{message}"
    );
    let exit = world.exit("trend-bot", "0.001");
    let passed = world.decide(home, &exit);
    assert_eq!(code_of(&passed), None, "{place}: {}", message_of(&passed));
}

#[test]
fn broken_rules_close_entries_until_mended() {
    let mut world = World::new(51);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.025");
    let hash = home.rulebook().hash.clone();
    type Break = fn(&str) -> Option<String>;
    let cases: [(&str, &str, Break); 8] = [
        ("rules/safety.yaml", "rules/safety.yaml:10:", |text| {
            Some(text.replace("max_daily_loss:", "max_daily_los:"))
        }),
        ("rules/safety.yaml", "rules/safety.yaml: missing", |_| None),
        ("rules/safety.yaml", "rules/safety.yaml:6:", |text| {
            Some(text.replace("max_total_capital: 5000", "max_total_capital: [5000"))
        }),
        ("rules/safety.yaml", "rules/safety.yaml", |text| {
            Some(text.replace("max_total_capital: 5000", "max_total_capital: -5000"))
        }),
        (
            "rules/principals.yaml",
            "rules/principals.yaml:2:",
            |text| Some(text.replace("role: human", "role: root")),
        ),
        (
            "rules/instruments.yaml",
            "rules/strategies/alpha.yaml",
            |_| None,
        ),
        (
            "rules/strategies/trend.yaml",
            "rules/principals.yaml",
            |_| None,
        ),
        ("rules/note.txt", "rules/note.txt", |_| {
            Some("a stray file".to_owned())
        }),
    ];
    for (file, place, break_it) in cases {
        let path = world.root.join(file);
        let good = std::fs::read_to_string(&path).ok();
        match break_it(good.as_deref().unwrap_or_default()) {
            Some(bad) => std::fs::write(&path, bad).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        world.settle(&mut home);
        assert_eq!(home.rulebook().hash, hash, "the last good one");
        closed(&mut world, &mut home, place);
        drop(home);
        home = world.open();
        closed(&mut world, &mut home, place);
        match &good {
            Some(good) => std::fs::write(&path, good).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        world.settle(&mut home);
        world.market(&mut home, "6800");
        let entry = world.resting("trend-bot", 2, "0.002");
        let accepted = world.decide(&mut home, &entry);
        assert_eq!(
            code_of(&accepted),
            None,
            "{place}: mended, {}",
            message_of(&accepted)
        );
        let order_id = accepted.decision.order_id.unwrap();
        world.ask_ok(
            &mut home,
            "trend-bot",
            "order.cancel",
            &format!(r#"{{"order_id":"{order_id}"}}"#),
        );
        world.pass_ms(31_000);
        let lines: Vec<String> = world
            .ledger()
            .iter()
            .filter(|line| line["kind"] == "rulebook")
            .map(|line| line["changes"].to_string())
            .collect();
        let [.., faulted, loaded] = &lines[..] else {
            panic!("{lines:?}")
        };
        assert!(
            faulted.contains("RulebookFaulted") && faulted.contains(place),
            "{faulted}"
        );
        assert!(
            loaded.contains("RulebookLoaded") && loaded.contains(&hash),
            "{loaded}"
        );
    }
    let faults = world
        .ledger()
        .iter()
        .filter(|l| l["changes"].to_string().contains("RulebookFaulted"))
        .count();
    assert_eq!(
        faults, 8,
        "one line a fault, however often and by whom it is seen"
    );
}

#[test]
fn a_key_is_revoked_under_broken_rules_too() {
    let mut world = World::new(52);
    let mut home = world.open();
    std::fs::write(world.root.join("rules/safety.yaml"), "?").unwrap();
    world.settle(&mut home);
    assert!(home.state().rulebook.fault.is_some());
    let key_id = world.keys["trend-bot"].0.clone();
    world.ask_ok(
        &mut home,
        "owner",
        "keys.revoke",
        &format!(r#"{{"key_id":"{key_id}","reason":"r"}}"#),
    );
    let outcome = world.ask(&mut home, "trend-bot", "orders.list", "{}");
    assert_eq!(code_of(&outcome), Some(Code::SignatureInvalid));
}

/// A fault that quotes a very long text must still fit its ledger line; otherwise a bad file would
/// stop exits.
#[test]
fn a_fault_of_any_length_leaves_the_gate_running() {
    let mut world = World::new(53);
    let mut home = world.open();
    world.position(&mut home, "trend-bot", 0, "0.02");
    let path = world.root.join("rules/principals.yaml");
    let good = std::fs::read_to_string(&path).unwrap();
    std::fs::write(
        &path,
        good.replace("role: feed", &format!("role: {}", "k".repeat(100_000))),
    )
    .unwrap();
    world.settle(&mut home);
    closed(&mut world, &mut home, "rules/principals.yaml:");
}
