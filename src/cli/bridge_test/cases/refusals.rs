//! What the exchange does not answer or refuses.

use spoolgate_host::clock::{Clock, SystemClock};

use super::super::exchange::Fault;
use super::super::rig::{Outcome, Rig, amount};
use super::super::trace::What;

/// How long an order is valid whose answer is lost, in ms: it has to be sent before, and the case
/// waits for the end.
const SHORT_MS: i64 = 1500;

pub(super) fn lost_answer_worked(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.faults.push(("place", Fault::CloseAfter));
    let told = rig.entry();
    rig.work(&told)?;
    let due = "the order is placed once, and asked for";
    let asked = rig.trace.count(What::Asked, "order", &told.label());
    rig.check(rig.placed(&told.label()) == 1 && asked > 0, due)?;
    rig.exchange.faults.push(("cancel", Fault::CloseAfter));
    rig.cancel(&told)?;
    // The answer is lost, and the time over when the exchange is back: the order works all the same.
    rig.exchange.faults.push(("place", Fault::CloseAfter));
    let mut short = rig.entry();
    let mut valid_ms = SHORT_MS;
    loop {
        let end = SystemClock::default().now().plus_ms(valid_ms);
        short.valid_until = Some(end);
        rig.tell(&short)?;
        let label = short.label();
        let is_sent = rig.until("the bridge places the order or refuses it", |rig| {
            let mut reports = rig.gate.reports.iter();
            let is_late = reports.any(|it| it.kind == "rejected" && it.label() == label);
            let works = rig.exchange.works(&short.client_order_id);
            (works || is_late).then_some(works)
        })?;
        if is_sent {
            rig.exchange.go_down();
            rig.pass_time(end)?;
            break;
        }
        // This machine was too slow.
        valid_ms = valid_ms.saturating_mul(2);
        short = rig.entry();
    }
    rig.exchange.come_up()?;
    rig.report(&short, "working").map(|_| ())
}

pub(super) fn lost_answer_not_worked(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.faults.push(("place", Fault::CloseBefore));
    let told = rig.entry();
    rig.work(&told)?;
    for fault in [
        Fault::CloseBefore,
        Fault::Refuse("rejected"),
        Fault::Refuse("unavailable"),
    ] {
        rig.exchange.faults.push(("cancel", fault));
    }
    rig.cancel(&told).map(|_| ())
}

pub(super) fn not_booked(rig: &mut Rig<'_>) -> Outcome {
    for code in ["INTERNAL", "TIMESTAMP_STALE", "RATE_LIMITED"] {
        let told = rig.entry();
        rig.gate.refusals.push(code);
        rig.work(&told)?;
        rig.gate.refusals.push(code);
        rig.fill(&told, "0.01");
        rig.filled(&told, "0.01")?;
    }
    let mut unbooked = rig.gate.unbooked.iter();
    let is_same = unbooked.all(|exec_id| rig.gate.has_booked(exec_id));
    rig.check(is_same, "a report that comes again has the same `exec_id`")
}

pub(super) fn key_refused(rig: &mut Rig<'_>) -> Outcome {
    let (entry, stop) = (rig.entry(), rig.stop());
    rig.work(&entry)?;
    rig.work(&stop)?;
    (rig.gate.refuses_key, rig.may_end) = (true, true);
    rig.fill(&entry, "0.01");
    let due = "the bridge ends with status 2 if the gate refuses its key";
    let status = rig.until(due, |rig| rig.trace.has_ended())?;
    rig.check(status.code() == Some(2), due)?;
    let works = [&entry, &stop].map(|told| rig.exchange.works(&told.client_order_id));
    let due = "before it ends it takes entries out of the market, and leaves stops";
    rig.check(works == [false, true], due)?;
    (rig.gate.refuses_key, rig.may_end) = (false, false);
    rig.restart()?;
    rig.filled(&entry, "0.01")?;
    rig.canceled(&entry).map(|_| ())
}

pub(super) fn replace_refused(rig: &mut Rig<'_>) -> Outcome {
    let first = rig.stop();
    rig.work(&first)?;
    let mut second = first.next("replace");
    second.trigger = Some(amount("6700"));
    rig.exchange
        .faults
        .push(("place", Fault::Refuse("rejected")));
    rig.tell(&second)?;
    rig.rejected(&second, "venue: ")?;
    let works = rig.exchange.open().next().is_some();
    rig.check(
        !works,
        "the order is out of the market when its replacement is refused",
    )?;
    rig.work(&second.next("place"))?;
    // One that is over cannot grow.
    let mut small = rig.entry();
    small.size = amount("0.01");
    rig.work(&small)?;
    rig.fill(&small, "0.01");
    rig.filled(&small, "0.01")?;
    let mut larger = small.next("replace");
    larger.size = amount("0.02");
    rig.tell(&larger)?;
    let end = rig.report(&larger, "rejected")?;
    let is_own = end.text.as_deref() != Some("expired");
    let sent = rig.placed(&larger.label());
    rig.check(
        is_own && sent == 0,
        "a `replace` that makes a filled order larger is `rejected`",
    )
}

pub(super) fn stop_refused(rig: &mut Rig<'_>) -> Outcome {
    let (stop, exit) = (rig.stop(), rig.exit());
    rig.exchange
        .faults
        .push(("place", Fault::Refuse("rejected")));
    rig.tell(&stop)?;
    rig.rejected(&stop, "venue: ")?;
    rig.tell(&exit)?;
    rig.filled(&exit, "0.02")
}

pub(super) fn balance_locked(rig: &mut Rig<'_>) -> Outcome {
    rig.exchange.balances.insert("BTC", amount("0.02"));
    let (stop, early, exit) = (rig.stop(), rig.exit(), rig.exit());
    rig.work(&stop)?;
    rig.tell(&early)?;
    rig.rejected(&early, "venue: ")?;
    let mut tighter = stop.next("replace");
    tighter.trigger = Some(amount("6700"));
    rig.work(&tighter)?;
    rig.cancel(&tighter)?;
    rig.tell(&exit)?;
    rig.filled(&exit, "0.02")
}

pub(super) fn rate_limit(rig: &mut Rig<'_>) -> Outcome {
    let (entries, exit) = ([rig.entry(), rig.entry(), rig.entry()], rig.exit());
    rig.exchange.limited_until = Some(exit.client_order_id.clone());
    for entry in &entries {
        rig.tell(entry)?;
    }
    let refused = |rig: &Rig<'_>| rig.trace.count(What::Answered, "place", "");
    rig.wait("the bridge sends an entry", |rig| refused(rig) > 0)?;
    rig.tell(&exit)?;
    rig.taken(&exit.file())?;
    let before = refused(rig);
    rig.wait("the exit is sent under the rate limit", |rig| {
        rig.placed(&exit.label()) > 0
    })?;
    // The exit itself, and an entry that was on its way when the exit came.
    let between = refused(rig).saturating_sub(before);
    rig.check(between <= 2, "the exit goes before the entries that wait")?;
    rig.filled(&exit, "0.02")?;
    for entry in &entries {
        rig.report(entry, "working")?;
    }
    Ok(())
}
