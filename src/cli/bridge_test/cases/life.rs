//! Crashes, silence on either side, signs of life and snapshots.

use super::super::gate::Sign;
use super::super::reports::{Foreign, Reach};
use super::super::rig::{Outcome, Rig, amount, failure};
use super::super::trace::What;

/// The moments at which the bridge is killed: what the suite sees just then, and of what.
const KILLS: [(What, &str); 12] = [
    (What::Taken, "place"),
    (What::Asked, "place"),
    (What::Worked, "place"),
    (What::Answered, "place"),
    (What::Reported, "working"),
    (What::Booked, "working"),
    (What::Reported, "trade"),
    (What::Booked, "trade"),
    (What::Taken, "cancel"),
    (What::Worked, "cancel"),
    (What::Reported, "canceled"),
    (What::Booked, "canceled"),
];

pub(super) fn sigkill(rig: &mut Rig<'_>) -> Outcome {
    for kill in KILLS {
        rig.trace.kill_at = Some(kill);
        let told = rig.entry();
        let played = (|| {
            rig.work(&told)?;
            rig.fill(&told, "0.005");
            rig.filled(&told, "0.005")?;
            rig.fill(&told, "0.005");
            rig.cancel(&told)
        })();
        let at = format!("killed at {:?} of `{}`", kill.0, kill.1).to_lowercase();
        let end = played.map_err(|why| failure(&why.due, &format!("{at}: {}", why.seen)))?;
        let due = format!("{at}, the order ends with 0.01 filled");
        rig.check(end.cum_qty == amount("0.01"), &due)?;
        rig.check(
            rig.trace.kill_at.is_none(),
            "the bridge passes every moment",
        )?;
    }
    // What was taken and not journaled is read at the next start.
    let told = rig.entry();
    rig.trace.kill();
    rig.tell(&told)?;
    let folder = rig.gate.folder();
    let taken = folder.join("taken").join(told.file());
    std::fs::rename(folder.join(told.file()), &taken)?;
    rig.report(&told, "working")?;
    let due = "what lies in `taken/` is unlinked once it is journaled";
    rig.check(!taken.exists(), due)
}

pub(super) fn gate_silent(rig: &mut Rig<'_>) -> Outcome {
    rig.gate.epoch = 2;
    rig.gate.sign(Sign::Valid)?;
    let stop = rig.stop();
    rig.work(&stop)?;
    for sign in [Sign::Past, Sign::Missing, Sign::LowEpoch] {
        let (entry, late, exit) = (rig.entry(), rig.entry(), rig.exit());
        rig.work(&entry)?;
        rig.gate.sign(sign)?;
        rig.canceled(&entry)?;
        rig.tell(&late)?;
        rig.rejected(&late, "expired")?;
        rig.tell(&exit)?;
        rig.filled(&exit, "0.02")?;
        let sent = rig.placed(&late.label());
        rig.check(sent == 0, "no entry is placed without a valid `.gate`")?;
        let works = rig.exchange.works(&stop.client_order_id);
        rig.check(works, "stops go on working without a valid `.gate`")?;
        rig.gate.sign(Sign::Valid)?;
    }
    rig.gate.sign(Sign::Past)?;
    rig.cancel(&stop).map(|_| ())
}

/// The run of the newest `.alive`.
fn run_of(rig: &Rig<'_>) -> String {
    let newest = rig.gate.alive.last();
    newest.map_or_else(String::new, |it| it.run.clone())
}

pub(super) fn alive_and_ping(rig: &mut Rig<'_>) -> Outcome {
    for n in 1..=3 {
        rig.wait("`.alive` is written anew", |rig| rig.gate.alive.len() >= n)?;
    }
    let run = run_of(rig);
    let first = rig.gate.alive.first();
    let is_one_run = first.is_some_and(|it| it.run == run && it.nonce.is_none());
    rig.check(
        is_one_run,
        "`run` stays the same, and `nonce` is null before a ping",
    )?;
    let age_ms = rig.gate.alive.last().map(|it| {
        use spoolgate_host::clock::{Clock, SystemClock};
        SystemClock::default().now().since_ms(it.at).abs()
    });
    let is_now = age_ms.is_some_and(|ms| ms < 5000);
    rig.check(is_now, "`at` is the time of writing")?;
    rig.snapshot(0, "snapshots state the run of `.alive`", |_, it| {
        it.run == run
    })?;
    for line in ["7", "31"] {
        rig.gate.ping(line)?;
        rig.wait("`.alive` states the line of a ping as `nonce`", |rig| {
            let newest = rig.gate.alive.last();
            newest.is_some_and(|it| it.nonce.as_deref() == Some(line))
        })?;
        rig.taken(&format!("ping.{line}.json"))?;
    }
    rig.restart()?;
    rig.wait("a new start has a new `run`", |rig| run_of(rig) != run)
}

fn reaches(rig: &mut Rig<'_>, reach: Reach) -> Outcome {
    rig.wait("`.alive` says whether the exchange is there", |rig| {
        rig.gate.alive.last().is_some_and(|it| it.venue == reach)
    })
}

pub(super) fn venue_down(rig: &mut Rig<'_>) -> Outcome {
    let (told, other) = (rig.entry(), rig.entry());
    rig.work(&told)?;
    reaches(rig, Reach::Ok)?;
    rig.exchange.go_down();
    reaches(rig, Reach::Down)?;
    rig.fill(&told, "0.01");
    rig.tell(&other)?;
    rig.taken(&other.file())?;
    rig.exchange.come_up()?;
    reaches(rig, Reach::Ok)?;
    rig.filled(&told, "0.01")?;
    rig.report(&other, "working")?;
    // One that does not answer does not make the bridge look dead.
    rig.exchange.is_silent = true;
    rig.fill(&told, "0.01");
    let seen = rig.gate.alive.len().saturating_add(2);
    rig.wait(
        "`.alive` is written again and again while the exchange does not answer",
        |rig| rig.gate.alive.len() > seen,
    )?;
    rig.exchange.is_silent = false;
    rig.exchange.disconnect();
    rig.filled(&told, "0.02")
}

pub(super) fn snapshot(rig: &mut Rig<'_>) -> Outcome {
    let first = rig.snapshot(0, "a snapshot after the start", |rig, it| {
        it.balances() == rig.balances() && it.positions.is_empty() && it.orders.is_empty()
    })?;
    let (mut entry, mut stop) = (rig.entry(), rig.stop());
    rig.work(&entry)?;
    rig.work(&stop)?;
    stop = stop.next("replace");
    rig.work(&stop)?;
    rig.fill(&entry, "0.005");
    rig.filled(&entry, "0.005")?;
    entry = entry.next("replace");
    rig.work(&entry)?;
    for is_stale in [false, true] {
        rig.gate.is_stale = is_stale;
        let looks = |rig: &Rig<'_>| rig.trace.count(What::Asked, "balances", "");
        let before = looks(rig);
        rig.exchange.disconnect();
        let due = match is_stale {
            false => "a snapshot after a reconnect, with the orders that work",
            true => "another snapshot after `SNAPSHOT_STALE`",
        };
        // One that was taken before the connection was lost may still be on its way.
        rig.wait(due, |rig| looks(rig) > before)?;
        let seen = rig.gate.snapshots.len();
        let next = rig.snapshot(seen, due, |rig, it| {
            it.orders() == rig.working(&[&entry, &stop]) && it.balances() == rig.balances()
        })?;
        rig.check(next.run == first.run, "a reconnect is the same run")?;
    }
    let seen = rig.gate.snapshots.len();
    rig.restart()?;
    let next = rig.snapshot(seen, "a snapshot after a start", |rig, it| {
        it.orders() == rig.working(&[&entry, &stop])
    })?;
    rig.check(next.run != first.run, "a new start has a new `run`")
}

pub(super) fn foreign_order(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.place_foreign(None, amount("0.3"));
    rig.exchange.place_foreign(Some("by-hand"), amount("0.4"));
    let seen = rig.gate.snapshots.len();
    rig.restart()?;
    let due = "a snapshot with both foreign orders";
    rig.snapshot(seen, due, |rig, it| {
        let is_there = |order: &super::super::exchange::Order| {
            it.foreign.contains(&Foreign {
                venue_id: order.venue_id.clone(),
                symbol: order.symbol.clone(),
                side: order.side,
                size: order.size,
            })
        };
        it.foreign.len() == 2 && rig.exchange.open().all(is_there)
    })?;
    rig.exchange.fill("by-hand", amount("0.1"));
    let entry = rig.entry();
    rig.work(&entry)?;
    rig.gate.sign(Sign::Past)?;
    rig.canceled(&entry)?;
    let left = rig.exchange.open().count();
    rig.check(left == 2, "orders of others are not cancelled")
}

pub(super) fn timer_while_flat(rig: &mut Rig<'_>) -> Outcome {
    let (entry, stop) = (rig.entry(), rig.stop());
    rig.work(&entry)?;
    let due = "cancel-on-disconnect is armed while an entry works and no stop does";
    rig.wait(due, |rig| rig.exchange.is_armed)?;
    rig.work(&stop)?;
    rig.polls(3)?;
    let with_stop = rig.exchange.armed_with_stop;
    rig.check(
        !with_stop,
        "it is disarmed before a stop is placed, and stays so",
    )?;
    rig.cancel(&stop)?;
    rig.wait(due, |rig| rig.exchange.is_armed)
}
