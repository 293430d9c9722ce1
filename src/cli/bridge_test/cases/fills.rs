//! What fills, and how it is reported.

use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_wire::orders::TimeInForce;

use super::super::exchange::Fault;
use super::super::rig::{Outcome, Rig, amount};
use super::super::trace::What;

/// Polls after which a bridge has made up its mind about what it has polled.
const POLLS: usize = 3;

pub(super) fn fill_before_ack(rig: &mut Rig<'_>) -> Outcome {
    for (size, cum_qty) in [("0.01", "0.01"), ("0.02", "0.02")] {
        let fault = Fault::FillFirst(amount(size));
        rig.exchange.faults.push(("place", fault));
        let told = rig.entry();
        rig.tell(&told)?;
        rig.filled(&told, cum_qty)?;
        if size != "0.02" {
            rig.report(&told, "working")?;
        }
    }
    Ok(())
}

pub(super) fn fill_during_cancel(rig: &mut Rig<'_>) -> Outcome {
    for size in ["0.01", "0.02"] {
        let told = rig.entry();
        rig.work(&told)?;
        let fault = Fault::FillFirst(amount(size));
        rig.exchange.faults.push(("cancel", fault));
        let end = rig.cancel(&told)?;
        let due = format!("the end states {size} as filled");
        rig.check(end.cum_qty == amount(size), &due)?;
    }
    Ok(())
}

pub(super) fn partial_fills(rig: &mut Rig<'_>) -> Outcome {
    let (mut told, other) = (rig.entry(), rig.entry());
    // No binary float adds these up to the sizes that were booked.
    told.size = amount("0.8");
    rig.work(&told)?;
    rig.fill(&told, "0.1");
    rig.filled(&told, "0.1")?;
    // The gate takes its time: the next report waits, and orders do not.
    rig.gate.holds = true;
    rig.fill(&told, "0.2");
    rig.wait("the bridge reports the second fill", |rig| {
        rig.gate.waiting() == 1
    })?;
    rig.fill(&told, "0.3");
    rig.tell(&other)?;
    rig.wait("orders go on while a report waits", |rig| {
        rig.exchange.works(&other.client_order_id)
    })?;
    rig.polls(POLLS)?;
    rig.gate.holds = false;
    rig.filled(&told, "0.6")?;
    rig.report(&other, "working")?;
    rig.gate.loses = true;
    rig.fill(&told, "0.2");
    rig.filled(&told, "0.8")?;
    // What an immediate order does not fill expires.
    let mut ioc = rig.entry();
    ioc.time_in_force = TimeInForce::Ioc;
    rig.exchange
        .faults
        .push(("place", Fault::FillFirst(amount("0.01"))));
    rig.tell(&ioc)?;
    let end = rig.report(&ioc, "expired")?;
    rig.check(
        end.cum_qty == amount("0.01"),
        "the end states 0.01 as filled",
    )
}

pub(super) fn polls_out_of_order(rig: &mut Rig<'_>) -> Outcome {
    let told = rig.entry();
    rig.work(&told)?;
    rig.fill(&told, "0.01");
    let late = hide_last(rig);
    rig.fill(&told, "0.01");
    rig.filled(&told, "0.01")?;
    rig.polls(POLLS)?;
    publish(rig, late);
    rig.filled(&told, "0.02")?;
    let told = rig.entry();
    rig.work(&told)?;
    rig.fill(&told, "0.01");
    let late = hide_last(rig);
    let cancel = told.next("cancel");
    rig.tell(&cancel)?;
    rig.wait("the bridge cancels the order", |rig| {
        !rig.exchange.works(&told.client_order_id)
    })?;
    rig.polls(POLLS)?;
    publish(rig, late);
    let end = rig.canceled(&cancel)?;
    rig.check(
        end.cum_qty == amount("0.01"),
        "the end states 0.01 as filled",
    )
}

/// Keeps the last trade from being published, as one of 5 s ago.
fn hide_last(rig: &mut Rig<'_>) -> usize {
    if let Some(trade) = rig.exchange.trades.last_mut() {
        trade.is_hidden = true;
        trade.at = trade.at.plus_ms(-5000);
    }
    rig.exchange.trades.len().saturating_sub(1)
}

fn publish(rig: &mut Rig<'_>, trade: usize) {
    if let Some(trade) = rig.exchange.trades.get_mut(trade) {
        trade.is_hidden = false;
    }
}

pub(super) fn repeated_trades(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.repeats = true;
    let told = rig.entry();
    rig.work(&told)?;
    for (n, cum_qty) in ["0.005", "0.01", "0.015", "0.02"].iter().enumerate() {
        rig.fill(&told, "0.005");
        rig.filled(&told, cum_qty)?;
        if n == 1 {
            rig.restart()?;
        }
        rig.polls(POLLS)?;
    }
    let sent = rig.trace.count(What::Reported, "trade", &told.order_id);
    rig.check(sent == 4, "each of the 4 trades is reported once")
}

pub(super) fn base_fee(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.base_fee = true;
    let (told, exit) = (rig.entry(), rig.exit());
    rig.work(&told)?;
    // A fee of so little is written with an exponent by many programs.
    rig.fill(&told, "0.00001");
    rig.fill(&told, "0.00999");
    rig.filled(&told, "0.01")?;
    rig.exchange.rebate = true;
    rig.fill(&told, "0.01");
    rig.filled(&told, "0.02")?;
    rig.tell(&exit)?;
    rig.filled(&exit, "0.02")
}

pub(super) fn clock_off(rig: &mut Rig<'_>) -> Outcome {
    let told = rig.entry();
    rig.work(&told)?;
    // It is set back in between, so trades are older than ones that were polled before.
    for (clock_ms, cum_qty) in [(3000, "0.01"), (-3000, "0.02")] {
        rig.exchange.clock_ms = clock_ms;
        rig.fill(&told, "0.01");
        rig.filled(&told, cum_qty)?;
    }
    let mut late = rig.entry();
    late.valid_until = Some(SystemClock::default().now().plus_ms(-1000));
    rig.tell(&late)?;
    rig.rejected(&late, "expired")
}
