//! A large backlog drains in batches. What it takes in memory is measured in `tests/bounds.rs`.

use std::fs;
use std::path::Path;

use spoolgate::spool::scan::BATCH_ENTRIES_MAX;
use spoolgate::wire::code::Code;
use spoolgate::wire::signing::{SignKey, signing_string};

use crate::world::{World, code_of};

/// Half forged signatures, half good queries.
fn fill(count: usize, timestamp: &str, source: &str, key: &SignKey, mut put: impl FnMut(&str, &str)) {
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

/// Lets agents send as much as they like: how much that may be is for another test. Rule files are taken when the home
/// is opened.
fn lift_message_rates(home: &Path) {
    let path = home.join("rules/safety.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let of_one = text.replace("max_messages_per_minute: 600 ", "max_messages_per_minute: 1000000 ");
    let of_all =
        of_one.replace("max_messages_per_minute_all: 3000 ", "max_messages_per_minute_all: 1000000 ");
    assert!(of_one != text && of_all != of_one, "the limits are spelled otherwise");
    fs::write(&path, of_all).unwrap();
}

#[test]
fn a_backlog_of_5_000_files() {
    let world = World::new(21);
    lift_message_rates(&world.root);
    let mut home = world.open();
    let key = SignKey::Hmac(world.keys["trend-bot"].1);
    let now = world.now().to_string();
    fill(5000, &now, "trend-bot", &key, |name, text| world.drop_file("", name, text));
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
            assert!(world.root.join("spool").join(&outcome.decision.answer).is_file());
        }
        if !round.more {
            break;
        }
    }
    assert_eq!((good, forged), (2500, 2500));
    assert_eq!(fs::read_dir(world.root.join("spool/rejected")).unwrap().count(), 2500);
}
