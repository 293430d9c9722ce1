//! A large backlog drains in batches. Its memory is measured in `tests/it/bounds.rs`.

use std::fs;

use spoolgate_host::spool::scan::BATCH_ENTRIES_MAX;
use spoolgate_wire::code::Code;
use spoolgate_wire::signing::{SignKey, signing_string};

use crate::kit::unlimited::lift_message_rates;
use crate::kit::world::{World, code_of};

/// Half of the files have forged signatures, half are good queries.
fn fill(
    count: usize,
    timestamp: &str,
    source: &str,
    key: &SignKey,
    mut put: impl FnMut(&str, &str),
) {
    for n in 0..count {
        let id = format!("q{n:06}");
        let signature = match n % 2 {
            0 => key.sign(&signing_string(&id, timestamp, "orders.list", "{}", None)),
            _ => "0".repeat(64),
        };
        let text = format!(
            r#"{{"id":"{id}","timestamp":"{timestamp}","action":"orders.list","payload":{{}},"source":"{source}","signature":"{signature}"}}"#
        );
        put(&format!("{id}.json"), &text);
    }
}

#[test]
fn a_backlog_of_1_500_files() {
    let world = World::new(21);
    lift_message_rates(&world.root);
    let mut home = world.open();
    let key = SignKey::Hmac(world.keys["trend-bot"].1);
    let now = world.now().to_string();
    fill(1500, &now, "trend-bot", &key, |name, text| {
        world.drop_file("", name, text)
    });
    let (mut good, mut forged) = (0, 0);
    loop {
        let round = home.round(false).unwrap();
        assert!(round.outcomes.len() <= BATCH_ENTRIES_MAX);
        for outcome in &round.outcomes {
            match code_of(outcome) {
                None => good += 1,
                Some(code) => {
                    assert_eq!(code, Code::SignatureInvalid);
                    forged += 1;
                }
            }
            assert!(
                world
                    .root
                    .join("spool")
                    .join(&outcome.decision.answer)
                    .is_file()
            );
        }
        if !round.more {
            break;
        }
    }
    assert_eq!((good, forged), (750, 750));
    assert_eq!(
        fs::read_dir(world.root.join("spool/rejected"))
            .unwrap()
            .count(),
        750
    );
}
