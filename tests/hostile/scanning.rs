//! What senders can do to the scan itself: files that never finish, that may not be opened or moved, and
//! spool folders that are no folders. None of it may end the gate or cost anybody else an answer.

use spoolgate::wire::code::Code;

use crate::world::{World, code_of};

/// Files in a full batch used to hide the unfinished ones before them: their first sight was forgotten, and
/// a run ended with them unanswered.
#[test]
fn unfinished_files_before_a_full_batch_are_answered() {
    let world = World::new(61);
    let mut home = world.open();
    for n in 0..20 {
        world.drop_file("", &format!("half-{n}.json"), r#"{"id":"#);
    }
    for n in 0..256 {
        world.drop_file("", &format!("whole-{n}.json"), r#"{"id":1}"#);
    }
    let outcomes = world.drain(&mut home);
    let unfinished = outcomes.iter().filter(|outcome| code_of(outcome) == Some(Code::MalformedJson)).count();
    assert_eq!((outcomes.len(), unfinished), (276, 20));
}

/// The same under a load that never ends: patience is two seconds, whatever else comes in.
#[test]
fn patience_ends_under_steady_load() {
    let world = World::new(62);
    let mut home = world.open();
    for n in 0..20 {
        world.drop_file("", &format!("half-{n}.json"), r#"{"id":"#);
    }
    let mut refused = 0;
    for round in 0..40 {
        for n in 0..300 {
            world.drop_file("", &format!("w-{round}-{n}.json"), r#"{"id":1}"#);
        }
        let outcomes = home.round(false).unwrap().outcomes;
        refused += outcomes.iter().filter(|outcome| code_of(outcome) == Some(Code::MalformedJson)).count();
        world.pass_ms(200);
    }
    assert_eq!(refused, 20, "after 8 s");
}

/// More unfinished files than are remembered: nothing is refused early, everything is in the end.
#[test]
fn more_unfinished_files_than_are_remembered() {
    let world = World::new(63);
    let mut home = world.open();
    for n in 0..4500 {
        world.drop_file("", &format!("half-{n}.json"), "{");
    }
    let start = world.now();
    assert!(home.round(false).unwrap().outcomes.is_empty(), "not before two seconds");
    let outcomes = world.drain(&mut home);
    assert_eq!(outcomes.len(), 4500);
    assert!(outcomes.iter().all(|outcome| outcome.decision.timestamp.since_ms(start) >= 2000));
}
