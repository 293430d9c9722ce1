//! What a proposal would have done to the requests before it.

use serde_json::json;
use spoolgate_gate::proposals::{Change as Step, Proposed};
use spoolgate_home::Home;
use spoolgate_home::read::read;
use spoolgate_replay::rehearsal::{Rehearsal, rehearse};

use super::gate::{Gate, SPARE, acknowledged, activate, modify, own_rule, step};
use crate::kit::desk::{failed, order};
use crate::kit::spoolgate;

fn buys(gate: &Gate, home: &mut Home, sizes: &[(&str, &str)]) {
    for (size, thesis) in sizes {
        let outcome = gate.order(home, &order("trend", "buy", size, None, thesis));
        assert_eq!(failed(&outcome), [""; 0], "{size}");
    }
}

fn over(gate: &Gate, until: u64, proposed: &Proposed, lines: u64) -> Rehearsal {
    let view = read(gate.root.path(), &gate.seams()).unwrap();
    let before = view.rulebook_of(&proposed.base).unwrap();
    let after = before
        .with_rule(&proposed.path, proposed.new.as_deref())
        .unwrap();
    let books = (&before, &after);
    rehearse(
        gate.root.path(),
        &gate.seams(),
        books,
        (until, lines),
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn it_counts_the_requests_before_it_that_would_flip() {
    let (gate, mut home) = Gate::holding();
    buys(
        &gate,
        &mut home,
        &[("0.002", SPARE[0]), ("0.003", SPARE[1])],
    );
    // Held because of the size.
    let mut rule = own_rule("all", "0.002");
    (rule["applies_to"], rule["then"]) = (json!({"action": "order.submit"}), json!("hold"));
    let outcome = gate.propose(&mut home, &activate(rule));
    let (id, auto) = acknowledged(&outcome);
    assert!(!auto);
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    let told = over(&gate, outcome.seq, &proposed, 1000);
    assert_eq!(
        (told.newly_held, told.newly_refused, told.newly_accepted),
        (2, 0, 0),
        "{told:?}"
    );
    assert_eq!(told.again, told.requests);
    assert!(
        told.in_words()
            .starts_with(&format!("2 of {} decisions would flip (", told.again))
    );
    // Later requests do not matter, and neither do requests too far back.
    buys(&gate, &mut home, &[("0.004", SPARE[2])]);
    assert_eq!(over(&gate, outcome.seq, &proposed, 1000), told);
    let last = over(&gate, outcome.seq, &proposed, 3);
    assert!(
        last.requests < told.requests && last.newly_held == 1,
        "{last:?}"
    );
    // The command prints the same, and writes nothing.
    home.finish("done").unwrap();
    drop(home);
    let shown = |args: &[&str]| {
        let done = spoolgate(gate.root.path(), args);
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let text = shown(&["proposals", "show", &id]);
    assert!(
        text.ends_with(&format!("replay: {}\n", told.in_words())),
        "{text}"
    );
    assert!(!shown(&["proposals", "show", &id, "--replay", "0"]).contains("replay:"));
    let text = shown(&["--format", "json", "proposals", "show", &id]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["replay"], serde_json::to_value(&told).unwrap());
}

#[test]
fn a_loosening_would_have_accepted_what_was_refused() {
    let (gate, mut home) = Gate::holding();
    assert!(acknowledged(&gate.propose(&mut home, &activate(own_rule("cap", "0.002")))).1);
    let refused = gate.order(&mut home, &order("trend", "buy", "0.003", None, SPARE[0]));
    assert_eq!(failed(&refused), ["cap"]);
    let outcome = gate.propose(&mut home, &modify("cap", "0.002", "0.004", false));
    let Step::Pended { proposed, .. } = step(&outcome) else {
        panic!()
    };
    let told = over(&gate, outcome.seq, &proposed, 1000);
    // Under the rule as it was, also for requests before it: both refuse the first entry.
    assert_eq!(
        (told.newly_accepted, told.newly_refused, told.newly_held),
        (1, 0, 0),
        "{told:?}"
    );
}
