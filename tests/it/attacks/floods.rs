//! Floods: many files by one sender, and many senders. Others are answered within a few batches.

use std::fmt::Write as _;
use std::fs;

use spoolgate_home::Home;
use spoolgate_host::spool::scan::BATCH_ENTRIES_MAX;

use crate::attacks::siege::Siege;
use crate::kit::world::code_of;

/// Returns the number of batches until this file of a quiet spool is answered.
fn batches_until(home: &mut Home, name: &str) -> usize {
    for batch in 1..=20 {
        let round = home.round(false).unwrap();
        assert!(
            round.outcomes.len() <= BATCH_ENTRIES_MAX,
            "{}",
            round.outcomes.len()
        );
        if round
            .outcomes
            .iter()
            .any(|outcome| outcome.decision.file == name)
        {
            return batch;
        }
    }
    panic!("{name} is not answered in 20 batches")
}

/// Fills a spool with files as fast as possible.
fn flood(siege: &Siege, spool: &str, count: usize, text: &str) {
    for n in 0..count {
        fs::write(
            siege
                .world
                .inbox(spool, format!("flood-{n}.json").as_bytes()),
            text,
        )
        .unwrap();
    }
}

/// One agent drops thousands of files; the requests of others, which come later, are in one of the
/// next two batches. Half-written files cost the most to keep waiting.
fn others_are_answered(count: usize) {
    for (flooded, text) in [("alpha-dir", "[]"), ("", r#"{"id":1}"#), ("alpha-dir", "{")] {
        let mut siege = Siege::new(151);
        let mut home = siege.world.open();
        flood(&siege, flooded, count, text);
        home.round(false).unwrap();
        let quiet = if flooded.is_empty() {
            ["alpha-bot", "beta-bot"]
        } else {
            ["trend-bot", "beta-bot"]
        };
        for agent in quiet {
            let draft = siege.query(agent);
            let batches = batches_until(&mut home, &format!("{}.json", draft.id));
            assert!(
                batches <= 2,
                "{agent} waited {batches} batches while `{flooded}` was flooded"
            );
            println!(
                "{count} files of {text:?} in `{flooded}`: {agent} is answered in batch {batches}"
            );
        }
    }
}

#[test]
fn one_agents_flood_of_1_500_files() {
    others_are_answered(1500);
}

/// `cargo test --release --test it one_agents_flood_of_50_000 -- --ignored --nocapture`
#[test]
#[ignore = "150,000 files"]
fn one_agents_flood_of_50_000_files() {
    others_are_answered(50_000);
}

/// Returns rules with this many agents that have spools of their own, named by number.
pub(super) fn thousand_agents(count: usize) -> String {
    let mut rules = "principals:\n  - {name: owner, role: human}\n".to_owned();
    for n in 0..count {
        writeln!(
            rules,
            "  - {{name: agent-{n}, role: agent, spool: agent-{n}}}"
        )
        .unwrap();
    }
    rules
}

/// A thousand agents have spools of their own: every spool has its turn.
#[test]
fn a_thousand_agents() {
    let mut siege = Siege::new(152);
    let path = siege.world.root.join("rules/principals.yaml");
    let rules = fs::read_to_string(&path).unwrap();
    let more = thousand_agents(1000);
    let agents = more
        .lines()
        .filter(|line| line.contains("agent-"))
        .collect::<Vec<_>>()
        .join("\n");
    fs::write(&path, format!("{}\n{agents}\n", rules.trim_end())).unwrap();
    let mut home = siege.world.open();
    for n in 0..1000 {
        fs::write(siege.world.inbox(&format!("agent-{n}"), b"r.json"), "[]").unwrap();
    }
    // Agent 0 also drops a flood.
    for n in 0..300 {
        fs::write(
            siege
                .world
                .inbox("agent-0", format!("flood-{n}.json").as_bytes()),
            "[]",
        )
        .unwrap();
    }
    let draft = siege.query("beta-bot");
    // A file that is not a request first waits for two seconds.
    while home.round(false).unwrap().more {}
    siege.world.pass_ms(2100);
    let mut answered = std::collections::BTreeSet::new();
    let mut batches = 0;
    while answered.len() < 1000 {
        batches += 1;
        assert!(
            batches <= 12,
            "{} of 1000 agents have an answer after {batches} batches",
            answered.len()
        );
        for outcome in home.round(false).unwrap().outcomes {
            if outcome.decision.file == "r.json" {
                answered.insert(outcome.decision.spool.clone());
            }
        }
    }
    println!("1,000 agents are answered in {batches} batches beside a flood");
    assert!(
        siege
            .world
            .answer_path("beta-dir", &format!("{}.json", draft.id))
            .is_file()
    );
    let outcomes = siege.world.drain(&mut home);
    assert!(outcomes.iter().all(|outcome| code_of(outcome).is_some()));
    siege.stands(home);
}
