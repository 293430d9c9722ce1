//! Conditions that stop every entry: an untrusted clock, broken rules, losses, a halt by a person.

use super::{CheckRow, OrderFacts, SAFETY, STATE, Subject, strategy_file};
use crate::book::{Baseline, Book, Bridge, Doubt, Silence};
use crate::lack::{Lack, NO_EQUITY};
use crate::sums::Sums;
use spoolgate_rules::hours::Window;
use spoolgate_rules::instruments::is_imitated;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::Time;

/// The gate's clock can be trusted.
pub(super) fn clock(subject: &Subject, _: &OrderFacts) -> CheckRow {
    CheckRow::yes_no(subject.ctx.clock_fault.map(str::to_owned), STATE)
}

/// The rule files are usable.
pub(super) fn rulebook(subject: &Subject, _: &OrderFacts) -> CheckRow {
    CheckRow::yes_no(subject.ctx.rulebook_fault.map(str::to_owned), STATE)
}

/// Profit and loss of the UTC day = equity - equity at its start - deposits since >
/// -max_daily_loss. Equality halts.
pub(super) fn daily_loss_halt(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    loss_halt(subject, facts, &Period::day(&facts.around.sums))
}

/// Profit and loss of the week, from Monday UTC, computed as for the day, > -max_weekly_loss.
/// Equality halts.
pub(super) fn weekly_loss_halt(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    loss_halt(subject, facts, &Period::week(&facts.around.sums))
}

/// A period over which losses are counted.
struct Period<'a> {
    baseline: Option<&'a Baseline>,
    start: Time,
    limit: LimitName,
    loss_max: Amount,
    no_baseline: Lack,
    inexact: Lack,
    halted: &'static str,
}

impl<'a> Period<'a> {
    fn day(sums: &Sums<'a>) -> Period<'a> {
        Period {
            baseline: sums.book.account.day.as_ref(),
            start: sums.now.day_start(),
            limit: LimitName::DailyLoss,
            loss_max: *sums.rules.safety.max_daily_loss,
            no_baseline: Lack::of("today's starting equity is not recorded yet"),
            inexact: Lack::of("the day's profit cannot be computed exactly"),
            halted: "the day's loss has reached its limit; entries are accepted again tomorrow",
        }
    }

    fn week(sums: &Sums<'a>) -> Period<'a> {
        Period {
            baseline: sums.book.account.week.as_ref(),
            start: sums.now.week_start(),
            limit: LimitName::WeeklyLoss,
            loss_max: *sums.rules.safety.max_weekly_loss,
            no_baseline: Lack::of("this week's starting equity is not recorded yet"),
            inexact: Lack::of("the week's profit cannot be computed exactly"),
            halted: "the week's loss has reached its limit; entries are accepted again next week",
        }
    }

    /// Returns the profit and loss, or why it is unknown. A baseline of another period does not
    /// count: the profit of that period could hide a loss of this one.
    fn profit(&self, book: &Book, equity: Amount) -> Result<Amount, Lack> {
        let baseline = self
            .baseline
            .filter(|baseline| baseline.start == self.start);
        book.profit_since(baseline.ok_or(self.no_baseline)?, equity)
            .ok_or(self.inexact)
    }

    fn left(&self, sums: &Sums) -> Result<Amount, Lack> {
        let profit = self.profit(sums.book, sums.equity().ok_or(NO_EQUITY)?)?;
        self.loss_max.checked_add(profit).ok_or(self.inexact)
    }
}

fn loss_halt(subject: &Subject, facts: &OrderFacts, period: &Period) -> CheckRow {
    let safety = subject.rules.source(period.limit, false);
    let Some(equity) = facts.around.sums.equity() else {
        return NO_EQUITY.row("usd", safety);
    };
    match period.profit(subject.book, equity) {
        Ok(profit) => CheckRow::compared(profit, -period.loss_max, "usd", safety)
            .unless(profit > -period.loss_max, || period.halted),
        Err(lack) => {
            let source = if lack == period.no_baseline {
                STATE.into()
            } else {
                safety
            };
            lack.row("usd", source)
        }
    }
}

/// Returns what may still be lost before the day's or the week's loss halts: the smaller of limit +
/// profit and loss, and which limit that is.
pub(crate) fn left_to_lose(sums: &Sums) -> Result<(Amount, LimitName), Lack> {
    let (day, week) = (Period::day(sums).left(sums)?, week_left(sums)?);
    Ok(if week < day {
        (week, LimitName::WeeklyLoss)
    } else {
        (day, LimitName::DailyLoss)
    })
}

/// Returns what may still be lost before the week's loss halts: limit + profit and loss.
pub(crate) fn week_left(sums: &Sums) -> Result<Amount, Lack> {
    Period::week(sums).left(sums)
}

/// Drawdown = peak - equity < max_drawdown x peak, and no earlier drawdown is still latched.
pub(super) fn drawdown_halt(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let account = &subject.book.account;
    let (Some(equity), Some(peak)) = (facts.around.sums.equity(), account.peak_equity) else {
        return CheckRow::unknown("usd", SAFETY, "equity or its peak is unknown");
    };
    let limit = peak.checked_mul(*subject.rules.safety.max_drawdown);
    let (Some(drawdown), Some(limit)) = (peak.checked_sub(equity), limit) else {
        return CheckRow::unknown("usd", SAFETY, "the drawdown cannot be computed exactly");
    };
    let row = CheckRow::compared(drawdown, limit, "usd", SAFETY);
    if let Some(since) = account.drawdown_since {
        return row.unless(false, || {
            format!("halted by a drawdown since {since}; a person must clear it")
        });
    }
    row.unless(drawdown < limit && peak > Amount::ZERO, || {
        "the drawdown has reached its limit".to_owned()
    })
}

/// Trading is not halted by a person, a file or the agent itself.
pub(super) fn manual_halt(subject: &Subject, _: &OrderFacts) -> CheckRow {
    CheckRow::yes_no(subject.ctx.halted.map(str::to_owned), STATE)
}

/// The sender is not closed by the dead man's switch.
pub(super) fn dead_man(subject: &Subject, _: &OrderFacts) -> CheckRow {
    CheckRow::yes_no(subject.ctx.unheard.map(str::to_owned), STATE)
}

/// How long a comparison of book and venue counts, milliseconds.
pub(crate) const RECONCILED_MS: i64 = 300_000;

/// The bridge to the order's venue gives signs of life, reaches the venue, and has sent a snapshot in
/// this run within 300 s. No row for orders on paper.
pub(super) fn venue_alive(subject: &Subject, _: &OrderFacts) -> Option<CheckRow> {
    let working = subject.book.orders.get(&subject.ctx.order_id);
    let own = working.and_then(|order| order.at_venue.as_ref());
    let configured = subject.instrument.and_then(|it| it.bridge.as_ref());
    let name = own.map(|venue| &venue.bridge).or(configured)?;
    if is_imitated(name) {
        let imitate = subject.instrument.and_then(|it| it.imitate.as_ref());
        let silence = imitate.and_then(|it| it.silence_at(subject.ctx.now));
        let fault = silence.map(|silent| {
            format!(
                "the imitated exchange is silent until {} (`silent` in rules/instruments.yaml)",
                silent.until
            )
        });
        return Some(CheckRow::yes_no(fault, STATE));
    }
    let fault = match subject.book.bridges.get(name) {
        None => Some(format!(
            "bridge `{name}` has given no sign of life yet; start it (docs/outbox.md)"
        )),
        Some(Bridge {
            silent: Some(Silence { since, why }),
            ..
        }) => Some(format!("bridge `{name}` is silent since {since}: {why}")),
        Some(bridge) => {
            let now = subject.ctx.now;
            let is_recent = |at: Time| (0..=RECONCILED_MS).contains(&now.since_ms(at));
            let fault = match bridge.reconciled_at {
                Some(at) if is_recent(at) => None,
                Some(at) => Some(format!("no snapshot of the venue since {at}")),
                None => Some("no snapshot of the venue in this run of its bridge".to_owned()),
            };
            fault.map(|fault| format!("{fault}; bridge `{name}` must send `venue.snapshot`"))
        }
    };
    Some(CheckRow::yes_no(fault, STATE))
}

/// The time is outside the restricted windows of safety.yaml and of the strategy.
pub(super) fn time_window(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let (now, name) = (subject.ctx.now, &facts.order.strategy);
    let fault = |window: &Window| Some(format!("entries are not accepted from {window}"));
    if let Some(window) = subject
        .rules
        .safety
        .restricted
        .iter()
        .find(|window| window.holds(now))
    {
        return CheckRow::yes_no(fault(window), SAFETY);
    }
    let strategy = subject.rules.strategies.get(name);
    let own =
        strategy.and_then(|strategy| strategy.restricted.iter().find(|window| window.holds(now)));
    match own {
        Some(window) => CheckRow::yes_no(fault(window), strategy_file(name)),
        None => CheckRow::yes_no(None, SAFETY),
    }
}

/// The symbol is halted neither by an implausible gap nor by a doubt about the venue.
pub(super) fn symbol_halt(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let gap = subject.book.halted_symbols.get(facts.symbol());
    let gap = gap.map(|gap| {
        format!(
            "the market opened at {} after {} at {}, an implausible gap; a person must check it \
                and clear the symbol",
            gap.open, gap.previous, gap.time
        )
    });
    let doubt =
        subject
            .book
            .doubted_symbols
            .get(facts.symbol())
            .map(|Doubt { at, what, .. }| {
                format!(
                    "book and venue may differ since {at}: {what}; a person must compare them and \
                        clear the symbol"
                )
            });
    // One command clears both, so report both.
    let faults: Vec<String> = gap.into_iter().chain(doubt).collect();
    let fault = (!faults.is_empty()).then(|| faults.join("; also, "));
    CheckRow::yes_no(fault, STATE)
}
