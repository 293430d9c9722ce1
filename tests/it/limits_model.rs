//! Every check against a second, naive implementation, written from the documents in exact
//! rationals, over long random histories; the worst result that each accepted entry can have; that
//! nothing traps anybody in a position; the worst cases of random books; and that what is no longer
//! allowed is pulled.

mod draw;
mod home;
mod memory;
mod oracle;
mod paths;
mod probe;
mod reach;
mod standing;
mod sums;
mod tally;
mod world;

use crate::kit::{campaign, setting};
use home::LISTED;
use tally::Tally;
use world::World;

/// Turns of a history: several requests each, then the market.
const TURNS: usize = 40;

/// Rows of the table, without the rows that the oracle does not know.
const CHECKS: usize = 49;

/// `loss_budget` comes before these and fails whenever they do, because nothing is left to lose.
const BEHIND: [&str; 2] = ["daily_loss_halt", "weekly_loss_halt"];

/// Checks that have no unit.
const YES_OR_NO: [&str; 9] = [
    "arithmetic_range",
    "cancel_ok",
    "clock",
    "instrument_allowed",
    "manual_halt",
    "price_tick",
    "rulebook",
    "strategy_active",
    "symbol_halt",
];

/// What happens in histories besides decisions.
const EVENTS: [&str; 15] = [
    "accepted Entry",
    "accepted Exit",
    "Flip",
    "aimed",
    "cancel",
    "fill",
    "funding",
    "gap",
    "headroom",
    "held row",
    "probed cancel",
    "probed exit",
    "probed tighten",
    "reload",
    "tighten",
];

fn history(seed: u64, turns: usize) -> Tally {
    let mut world = World::new(seed);
    for turn in 0..turns {
        world.turn = turn;
        world.begin_batch();
        if world.random.one_in(3) {
            draw::event(&mut world);
        }
        if world.random.one_in(5) {
            world.fund();
        }
        for _ in 0..world.random.within(0, 6) {
            match world.random.within(0, 9) {
                0 => draw::cancel(&mut world),
                1 => draw::tighten(&mut world),
                _ => draw::submit(&mut world),
            }
            if world.random.one_in(4) {
                let more = world.random.within(1, 500);
                let by = *world.random.pick(&[1, more]);
                world.now = world.now.plus_ms(by);
            }
        }
        if world.random.one_in(2) {
            let masks = [
                0,
                1 << world.random.within(0, 13),
                world.random.within(0, (1 << 14) - 1),
            ];
            let mask = u32::try_from(*world.random.pick(&masks)).unwrap();
            probe::probe(&mut world, mask);
        }
        if world.random.one_in(6) {
            draw::pass_time(&mut world);
        } else {
            for listed in &LISTED {
                if !world.random.one_in(6) {
                    let is_wild = world.random.one_in(60);
                    world.rows(listed, is_wild);
                }
            }
        }
    }
    for _ in 0..world.memory.paper.merged {
        world.tally.count("merged");
    }
    world.tally
}

/// Runs the histories of these seeds, all of them, and names every one that fails.
fn histories(from: u64, count: u64, turns: usize) -> Tally {
    let mut all = Tally::default();
    let mut failed = Vec::new();
    for seed in from..from + count {
        match std::panic::catch_unwind(|| history(seed, turns)) {
            Ok(seen) => all.gather(&seen),
            Err(_) => failed.push(seed),
        }
    }
    assert!(
        failed.is_empty(),
        "seeds that failed: {failed:?}; the turn stands above, SPOOLGATE_TURNS ends sooner"
    );
    all
}

/// Checks that every check both passed and failed, and that everything was probed.
fn nothing_is_idle(seen: &Tally) {
    assert_eq!(seen.checks.len(), CHECKS, "{}", seen.shown());
    for (name, check) in &seen.checks {
        assert!(
            check.passed > 0 && (check.failed > 0 || name == "reject_streak"),
            "{name}\n{}",
            seen.shown()
        );
    }
    let wrong = probe::WRONG.iter().map(|what| format!("wrong: {what}"));
    for what in wrong.chain(EVENTS.iter().map(|what| (*what).to_owned())) {
        assert!(seen.of(&what) > 0, "{what}\n{}", seen.shown());
    }
}

#[test]
fn random_histories_are_decided_as_the_oracle_decides_them() {
    nothing_is_idle(&histories(161, campaign(40, 60), TURNS));
}

/// An entry beside a working one of the other side of its leg, whose limit had been lowered since;
/// a largest size whose next one is a duplicate; and an exit that is added to one that waits.
#[test]
fn histories_that_once_were_judged_wrongly() {
    let seeds = [
        204, 5248, 5249, 5366, 5458, 5503, 5592, 5602, 5726, 5794, 6030,
    ];
    let seen = seeds.map(|seed| histories(seed, 1, 2 * TURNS));
    assert!(seen.iter().any(|seen| seen.of("merged") > 0));
}

/// As many histories as time allows: `SPOOLGATE_SEED` is the first seed, `SPOOLGATE_HISTORIES`
/// their number, `SPOOLGATE_TURNS` their length. A history with fewer turns is the beginning of a
/// longer one.
#[test]
#[ignore = "minutes to hours"]
fn long_histories() {
    let (seed, count) = (
        setting("SPOOLGATE_SEED", 1),
        setting("SPOOLGATE_HISTORIES", 1000),
    );
    let turns = usize::try_from(setting("SPOOLGATE_TURNS", 2 * TURNS as u64)).unwrap();
    let seen = histories(seed, count, turns);
    println!(
        "{count} histories of {turns} turns from seed {seed}\n{}",
        seen.shown()
    );
    if count < 100 || turns < TURNS {
        return;
    }
    nothing_is_idle(&seen);
    assert!(seen.of("merged") > 0, "no market exit was added to another");
    for (name, check) in &seen.checks {
        let never_first = BEHIND.contains(&name.as_str());
        assert_eq!(
            check.decided == 0,
            never_first,
            "{name} decided {}",
            check.decided
        );
        assert_eq!(
            check.near == 0,
            YES_OR_NO.contains(&name.as_str()),
            "{name} was near {}",
            check.near
        );
    }
}
