//! Quotas of spools at their limits, with 1,000 agents, and the rule file that sets them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;

use spoolgate_gate::prepare::Origin;
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::ids::Principal;

use crate::fairness::tree::{Tree, agent, claims, drain, quota, round, scanner};

#[test]
fn a_spool_gets_its_quota_and_the_rest_stays() {
    for (files, claimed) in [(9, 9), (10, 10), (11, 10)] {
        for origin in [agent(0), Origin::Flat] {
            let tree = Tree::default();
            (0..files).for_each(|n| tree.put(&origin, &format!("f{n:02}.json"), 100, true));
            let mut scanner = scanner(1, Some(quota(10, 1_000_000)));
            let (served, news) = drain(&mut scanner, &tree, 0);
            assert_eq!(
                (served.len(), tree.left(&origin)),
                (claimed, files - claimed),
                "{files} {origin:?}"
            );
            assert_eq!(
                (news.len(), scanner.has_waiting()),
                (files - claimed, files > claimed),
                "{news:?}"
            );
        }
    }
    // The same by bytes.
    for (last, claimed) in [(99, 10), (100, 10), (101, 9)] {
        let tree = Tree::default();
        (0..9).for_each(|n| tree.put(&agent(0), &format!("f{n:02}.json"), 100, true));
        tree.put(&agent(0), "last.json", last, true);
        let mut scanner = scanner(1, Some(quota(100, 1000)));
        assert_eq!(drain(&mut scanner, &tree, 0).0.len(), claimed, "{last}");
    }
}

#[test]
fn commands_have_no_quota() {
    let tree = Tree::default();
    (0..50).for_each(|n| tree.put(&Origin::Local, &format!("f{n:02}.json"), 100, true));
    let mut scanner = scanner(1, Some(quota(1, 1)));
    assert_eq!(drain(&mut scanner, &tree, 0).0.len(), 50);
}

#[test]
fn quotas_refill_evenly_and_are_reported_twice() {
    let tree = Tree::default();
    (0..40).for_each(|n| tree.put(&agent(0), &format!("f{n:02}.json"), 100, true));
    let mut scanner = scanner(1, Some(quota(10, 1_000_000)));
    let mut told = Vec::new();
    let mut served = 0;
    for second in 0..300 {
        let (now, news) = drain(&mut scanner, &tree, second * 1000);
        served += now.len();
        told.extend(news.into_iter().map(|news| (second, news)));
        let allowed = 10 + usize::try_from(second / 6).unwrap();
        assert_eq!(served, allowed.min(40), "after {second} s");
    }
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].0 == 0
            && told[0]
                .1
                .contains("over its quota of 10 requests and 1000000 bytes a minute")
    );
    // Nothing waits from 180 s on; half of ten is there 30 s later.
    assert!(
        told[1].0 == 210 && told[1].1.contains("within its quota again"),
        "{told:?}"
    );
}

#[test]
fn a_large_file_is_not_starved_by_small_ones() {
    let tree = Tree::default();
    // The second is larger than a whole minute's bytes.
    for (spool, size) in [(0, 900), (1, 5000)] {
        (0..20).for_each(|n| tree.put(&agent(spool), &format!("f{n:02}.json"), 100, true));
        tree.put(&agent(spool), "large.json", size, true);
    }
    let mut scanner = scanner(2, Some(quota(1000, 1000)));
    let mut at = BTreeMap::new();
    let mut bytes = 0;
    for second in 0..300 {
        for spool in [0, 1] {
            // These sort before all others, and there are more than fit.
            (0..5)
                .for_each(|n| tree.put(&agent(spool), &format!("a{second:03}{n}.json"), 100, true));
        }
        for (origin, name, size) in drain(&mut scanner, &tree, second * 1000).0 {
            bytes += if origin == agent(1) { size } else { 0 };
            at.entry((origin, name)).or_insert(second);
        }
    }
    let at = |spool: usize| at[&(agent(spool), "large.json".to_owned())];
    // More than two minutes' worth waited before the first, of which one came in advance.
    assert!(at(0) <= 180 && at(1) <= 240, "{} s, {} s", at(0), at(1));
    assert!(
        (5_000..=10_000).contains(&bytes),
        "{bytes} bytes in 5 minutes of 1,000 and what came in advance"
    );
}

/// A file that waits first and is then removed, or changed by its sender, delays nobody for ever.
#[test]
fn a_file_that_goes_away_holds_nothing_up() {
    let tree = Tree::default();
    tree.put(&agent(0), "a-small.json", 500, true);
    tree.put(&agent(0), "large.json", 1000, true);
    let mut scanner = scanner(1, Some(quota(1000, 1000)));
    assert_eq!(drain(&mut scanner, &tree, 0).0.len(), 1);
    // It is smaller now, and there is room for it.
    tree.put(&agent(0), "large.json", 100, true);
    tree.put(&agent(0), "other.json", 100, true);
    drain(&mut scanner, &tree, 1);
    drain(&mut scanner, &tree, 2);
    assert_eq!(tree.left(&agent(0)), 0);
    // It is gone before there is room for it.
    tree.put(&agent(0), "larger.json", 10_000, true);
    drain(&mut scanner, &tree, 3);
    assert!(scanner.has_waiting());
    tree.remove(&agent(0), "larger.json");
    tree.put(&agent(0), "small.json", 100, true);
    drain(&mut scanner, &tree, 4);
    drain(&mut scanner, &tree, 5);
    assert_eq!(tree.left(&agent(0)), 0);
}

#[test]
fn a_thousand_agents_over_their_quotas() {
    const AGENTS: usize = 1000;
    let tree = Tree::default();
    for n in 0..AGENTS {
        (0..30).for_each(|k| tree.put(&agent(n), &format!("f{k:02}.json"), 300, true));
        tree.put(&agent(n), "z-exit.json", 300, true);
    }
    let mut scanner = scanner(AGENTS, Some(quota(10, 1_000_000)));
    let (served, news) = drain(&mut scanner, &tree, 0);
    let exits = served
        .iter()
        .filter(|(_, name, _)| name == "z-exit.json")
        .count();
    assert_eq!(
        (served.len(), exits, news.len()),
        (AGENTS * 11, AGENTS, AGENTS)
    );
    let reads = tree.reads.load(SeqCst);
    // Files that were left are not read again.
    let (served, news) = drain(&mut scanner, &tree, 10);
    assert_eq!(
        (served.len(), news.len(), tree.reads.load(SeqCst)),
        (0, 0, reads)
    );
    // A minute later: what passed anyway was charged too, so one fewer is claimed.
    let (served, _) = drain(&mut scanner, &tree, 60_000);
    assert_eq!(served.len(), AGENTS * 9);
}

/// More spools with more names than stay open: each file is read once, and the scan ends.
#[test]
fn more_floods_than_folders_are_held_open() {
    const AGENTS: usize = 270;
    let tree = Tree::default();
    for n in 0..AGENTS {
        // More than one turn looks at, sorted before everything else.
        (0..1100).for_each(|k| tree.put(&agent(n), &format!("a{k:04}.tmp"), 100, true));
        (0..69).for_each(|k| tree.put(&agent(n), &format!("f{k:04}.json"), 100, true));
        tree.put(&agent(n), "z-exit.json", 100, true);
    }
    let mut scanner = scanner(AGENTS, Some(quota(10, 1_000_000)));
    let (served, _) = drain(&mut scanner, &tree, 0);
    assert_eq!(served.len(), AGENTS * 11);
    assert!(
        tree.open.1.load(SeqCst) <= 256,
        "{} open",
        tree.open.1.load(SeqCst)
    );
    assert_eq!(tree.reads.load(SeqCst), u64::try_from(AGENTS).unwrap() * 70);
}

/// No request that passes is as large, so it is not worth reading.
#[test]
fn large_files_over_a_quota_are_not_read() {
    for (size, reads) in [(64 * 1024 - 1, 2), (64 * 1024, 2), (64 * 1024 + 1, 1)] {
        let tree = Tree::default();
        tree.put(&agent(0), "a-first.json", 100, true);
        tree.put(&agent(0), "z-exit.json", size, true);
        let mut scanner = scanner(1, Some(quota(1, 1_000_000)));
        let (served, _) = drain(&mut scanner, &tree, 0);
        assert_eq!(
            (served.len() as u64, tree.reads.load(SeqCst)),
            (reads, reads),
            "{size}"
        );
    }
}

/// Going through waiting files takes at most half of the gate's time.
#[test]
fn a_flood_is_not_gone_through_without_a_rest() {
    let tree = Tree::default();
    (0..2000).for_each(|n| tree.put(&agent(0), &format!("f{n:04}.json"), 300, true));
    let mut scanner = scanner(1, Some(quota(60, 1_000_000)));
    let mut now_ms = 0;
    while round(&mut scanner, &tree, now_ms).more {
        now_ms += 100;
    }
    let took_ms = now_ms;
    assert!(took_ms >= 500, "{took_ms}");
    let names = tree.names.load(SeqCst);
    let mut served = 0;
    while now_ms < 2 * took_ms {
        assert_eq!(tree.names.load(SeqCst), names, "at {now_ms} of {took_ms}");
        served += round(&mut scanner, &tree, now_ms).claimed.len();
        now_ms += 20;
    }
    // Meanwhile the files that have waited longest are claimed, one per second.
    assert!(served <= 1, "{served}");
    round(&mut scanner, &tree, now_ms);
    assert!(tree.names.load(SeqCst) > names);
}

#[test]
fn an_exit_passes_a_flood_of_any_size() {
    let tree = Tree::default();
    for n in 0..100_000 {
        tree.put(&agent(0), &format!("f{n:06}.json"), 300, true);
    }
    tree.put(&agent(0), "f050000-.json", 300, true);
    let mut scanner = scanner(2, Some(quota(60, 1_000_000)));
    let (served, _) = drain(&mut scanner, &tree, 0);
    assert_eq!(served.len(), 60);
    tree.put(&agent(0), "z-exit.json", 300, true);
    tree.put(&agent(1), "one.json", 300, true);
    let mut rounds = 0;
    let mut found_at = BTreeMap::new();
    while found_at.len() < 2 {
        rounds += 1;
        assert!(rounds < 1000, "{found_at:?}");
        let before = tree.reads.load(SeqCst);
        for (_, name, _) in claims(&round(&mut scanner, &tree, 1)) {
            found_at.insert(name, rounds);
        }
        assert!(
            tree.reads.load(SeqCst) - before <= 2 * 256,
            "each round reads so many files"
        );
    }
    assert!(
        found_at["one.json"] <= 2,
        "{found_at:?}: the other agent waits for nothing"
    );
}

const PRINCIPALS: &str = "principals:
  - {name: owner, role: human}
  - {name: trend-bot, role: agent}
  - {name: alpha-bot, role: agent, spool: alpha-dir}
  - {name: beta-bot, role: agent, spool: alpha-dir}
  - {name: gamma-bot, role: agent, spool: gamma-dir}
";

fn compile(rates: Option<&str>) -> Result<Rulebook, String> {
    let safety = include_str!("../../../rules/safety.yaml").to_owned();
    let mut files = BTreeMap::from([
        ("rules/safety.yaml".to_owned(), safety),
        ("rules/principals.yaml".to_owned(), PRINCIPALS.to_owned()),
    ]);
    files.extend(rates.map(|text| ("rules/rates.yaml".to_owned(), text.to_owned())));
    Rulebook::compile(&Bundle { files }).map_err(|error| error.to_string())
}

#[test]
fn the_rule_file_is_read_strictly() {
    let good = "spool:
  requests_per_minute: 600
  bytes_per_minute: 10000000
  flat: {requests_per_minute: 6000, bytes_per_minute: 100000000}
  principals:
    - {name: alpha-bot, requests_per_minute: 60, bytes_per_minute: 1000000}
";
    let rulebook = compile(Some(good)).unwrap();
    let rates = rulebook.rates.as_ref().unwrap();
    let of = |spool: &str| rates.of_spool(&Principal::parse(spool).unwrap());
    assert_eq!(rates.of_flat(), quota(6000, 100_000_000));
    assert_eq!(
        (of("alpha-dir"), of("gamma-dir")),
        (quota(60, 1_000_000), quota(600, 10_000_000))
    );
    let none = compile(None).unwrap();
    assert!(
        none.rates.is_none() && none.hash != rulebook.hash,
        "part of the rulebook's hash"
    );

    let each = "spool:\n  requests_per_minute: 1\n  bytes_per_minute: 1\n";
    for (text, told) in [
        ("", "rules/rates.yaml:1: missing field `spool`"),
        (
            "spool:\n  requests_per_minute: 1\n",
            "rules/rates.yaml:2: spool: missing field `bytes_per_minute`",
        ),
        (
            &good.replace("  flat:", "  flats:"),
            "rules/rates.yaml:4: spool: unknown field `flats`",
        ),
        (
            &good.replace("spool:\n", "spol:\n"),
            "rules/rates.yaml:1: unknown field `spol`",
        ),
        (
            &good.replace(": 600\n", ": 0\n"),
            "rules/rates.yaml:2: `spool.requests_per_minute` is `0`; use a whole number from 1",
        ),
        (
            &good.replace(": 600\n", ": -1\n"),
            "rules/rates.yaml:2: spool.requests_per_minute: invalid type: integer `-1`",
        ),
        (
            &good.replace(": 600\n", ": 1.5\n"),
            "rules/rates.yaml:2: spool.requests_per_minute: invalid type: floating",
        ),
        (
            &good.replace(": 600\n", ": 4294967296\n"),
            "rules/rates.yaml:2: `spool.requests_per_minute` is `4294967296`; use a whole number from \
                1 to 4294967295",
        ),
        (
            &good.replace("name: alpha-bot", "name: Alpha"),
            "rules/rates.yaml:6: ",
        ),
        (
            &format!("{each}  bytes_per_minute: 2\n"),
            "rules/rates.yaml:",
        ),
        (
            &good.replace("name: alpha-bot", "name: nobody"),
            "rules/rates.yaml: principal `nobody` is not in rules/principals.yaml",
        ),
        (
            &good.replace("name: alpha-bot", "name: trend-bot"),
            "rules/rates.yaml: principal `trend-bot` has no spool of its own",
        ),
        (
            &format!(
                "{good}    - {{name: alpha-bot, requests_per_minute: 60, bytes_per_minute: 1}}\n"
            ),
            "rules/rates.yaml: principal `alpha-bot` appears twice",
        ),
        (
            &format!(
                "{good}    - {{name: beta-bot, requests_per_minute: 60, bytes_per_minute: 1}}\n"
            ),
            "rules/rates.yaml: principal `beta-bot` shares its spool",
        ),
    ] {
        let error = compile(Some(text)).err().unwrap_or_default();
        assert!(
            error.starts_with(told),
            "{text}\nsaid: {error}\nnot:  {told}"
        );
    }
    compile(Some(each)).unwrap();
}
