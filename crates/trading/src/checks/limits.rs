//! Limits that are fractions of the capital base (risk, position, exposure), and the loss left
//! before a halt. All are compared as money, by multiplication. A limit refuses only orders that
//! make things worse.

use std::borrow::Cow;

use super::halts::week_left;
use super::{CheckRow, OrderFacts, SAFETY, SAFETY_REDUCED, Subject, strategy_file};
use crate::lack::{Lack, NO_EQUITY, NO_INSTRUMENT, NO_MARKET, NOT_EXACT};
use crate::reach::Reach;
use crate::risk;
use crate::sums::{Unknown, notional};
use spoolgate_rules::instruments::Instrument;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::orders::Side;

const NO_BASE: &str = "the capital base is 0: equity is used up";

/// Where a limit comes from.
type Source = Cow<'static, str>;

/// Returns the limit `fraction x capital base`, reduced if the risk mode requires it, or why there
/// is none.
fn limit_of(subject: &Subject, facts: &OrderFacts, fraction: Amount) -> Result<Amount, Lack> {
    let base = facts.around.sums.capital_base().ok_or(NO_EQUITY)?;
    subject
        .reduced(fraction)
        .and_then(|fraction| base.checked_mul(fraction))
        .ok_or(NOT_EXACT)
}

/// Returns the source of a limit of safety.yaml in the current risk mode.
fn source_in_force(subject: &Subject, name: LimitName) -> Source {
    let is_reduced = subject.ctx.limit_factor.is_some();
    subject.rules.source(name, is_reduced)
}

/// Returns the source of the limits of safety.yaml that nobody overrides, in the current risk mode.
pub(super) fn source_of(subject: &Subject) -> &'static str {
    if subject.ctx.limit_factor.is_some() {
        SAFETY_REDUCED
    } else {
        SAFETY
    }
}

/// Possible loss of this order down to its stop, with slippage and fees both ways, plus the
/// possible loss of the position and the pending entries of the same strategy, symbol and direction
/// that it adds to. At most `max_single_trade_risk` x capital base.
pub(super) fn max_single_trade_risk(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = source_in_force(subject, LimitName::SingleTradeRisk);
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("usd", source);
    };
    let limit = match limit_of(subject, facts, *subject.rules.safety.max_single_trade_risk) {
        Ok(limit) => limit,
        Err(lack) => return lack.row("usd", source),
    };
    if facts.market.is_none() {
        return NO_MARKET.row("usd", source);
    }
    let others = || facts.around.risks(facts);
    let risk = own_risk(subject, facts, instrument).and_then(|own| {
        others()?
            .iter()
            .try_fold(own, |sum, other| sum.checked_add(*other))
    });
    let Some(risk) = risk else {
        return NOT_EXACT.row("usd", source);
    };
    judge(
        risk,
        limit,
        source,
        false,
        "the trade could lose too much down to its stop",
    )
}

/// Returns the possible loss of this order alone down to its stop.
fn own_risk(subject: &Subject, facts: &OrderFacts, instrument: &Instrument) -> Option<Amount> {
    let (stop, safety) = (facts.order.planned_stop, &subject.rules.safety);
    risk::of_entry(facts.worst_entry?, stop, facts.size, instrument, safety)
}

/// The worst case of the symbol with this order, max(long, short) x price x multiplier, where long
/// and short are what its legs may come to hold ([`crate::reach`]): at most `max_single_position` x
/// capital base.
pub(super) fn max_single_position(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = source_in_force(subject, LimitName::SinglePosition);
    let Some(instrument) = subject.instrument else {
        return NO_INSTRUMENT.row("usd", source);
    };
    let limit = match limit_of(subject, facts, *subject.rules.safety.max_single_position) {
        Ok(limit) => limit,
        Err(lack) => return lack.row("usd", source),
    };
    let Some(market) = facts.market else {
        return NO_MARKET.row("usd", source);
    };
    let Some((notional, is_worse)) = own_worst_case(facts, instrument, market.ask) else {
        return NOT_EXACT.row("usd", source);
    };
    judge(
        notional,
        limit,
        source,
        !is_worse,
        "the position in this symbol could grow too large",
    )
}

/// Returns the worst case of the order's own symbol, and whether this order makes it worse.
fn own_worst_case(
    facts: &OrderFacts,
    instrument: &Instrument,
    ask: Amount,
) -> Option<(Amount, bool)> {
    let before = facts.around.own(facts)?;
    let after = facts.added_to(before)?;
    grown([before, after], Reach::worst, instrument, ask)
}

/// Returns the money of the units that `of` counts after an order, and whether that is more than
/// before it.
fn grown(
    [before, after]: [Reach; 2],
    of: impl Fn(&Reach) -> Amount,
    instrument: &Instrument,
    ask: Amount,
) -> Option<(Amount, bool)> {
    let money = |reach: Reach| reach.money(of(&reach), instrument, ask);
    let (before, after) = (money(before)?, money(after)?);
    Some((after, after > before))
}

/// The worst cases of all symbols with this order: at most `max_total_exposure` x capital base. A
/// symbol with anything open needs a fresh price.
pub(super) fn max_total_exposure(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let reason = "all positions together could grow too large";
    exposure(
        subject,
        facts,
        LimitName::TotalExposure,
        reason,
        |instrument, ask| all_worst_cases(subject, facts, instrument, ask),
    )
}

/// What may come to be held in the direction of this order over all symbols, including this order:
/// the sum of long x price x multiplier for buys, of short x price x multiplier for sells. At most
/// `max_same_direction_exposure` x capital base.
pub(super) fn same_direction_exposure(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let reason = "too much could be held in one direction";
    let side = facts.order.side;
    exposure(
        subject,
        facts,
        LimitName::SameDirectionExposure,
        reason,
        |instrument, ask| {
            let others = match &facts.around.others(subject, facts).all {
                Ok(sides) if side == Side::Buy => Ok(sides.long),
                Ok(sides) => Ok(sides.short),
                Err(unknown) => Err(unknown.clone()),
            };
            let own = || {
                let before = facts.around.own(facts)?;
                let after = facts.added_to(before)?;
                grown([before, after], |reach| reach.on(side), instrument, ask)
            };
            (others, own())
        },
    )
}

/// The worst cases of all symbols in the `group` of this instrument, with this order: at most
/// `max_correlated_group` x capital base. No row for an instrument without a group.
pub(super) fn correlated_group(subject: &Subject, facts: &OrderFacts) -> Option<CheckRow> {
    subject.instrument?.group.as_ref()?;
    let reason = "what moves together could grow too large";
    Some(exposure(
        subject,
        facts,
        LimitName::CorrelatedGroup,
        reason,
        |instrument, ask| {
            let others = facts.around.others(subject, facts).group.clone();
            (others, own_worst_case(facts, instrument, ask))
        },
    ))
}

/// Compares a sum of worst cases with a fraction of the capital base.
fn exposure(
    subject: &Subject,
    facts: &OrderFacts,
    name: LimitName,
    reason: &'static str,
    sums: impl FnOnce(&Instrument, Amount) -> (Result<Amount, Unknown>, Option<(Amount, bool)>),
) -> CheckRow {
    let source = source_in_force(subject, name);
    let fraction = subject.rules.safety.limit(name);
    let limit = match limit_of(subject, facts, fraction) {
        Ok(limit) => limit,
        Err(lack) => return lack.row("usd", source),
    };
    match summed(subject, facts, &source, sums) {
        Ok((sum, is_worse)) => judge(sum, limit, source, !is_worse, reason),
        Err(unknown) => *unknown,
    }
}

/// Returns a sum of worst cases, and whether the order makes it worse. `sums` returns the sum over
/// the other symbols, and the order's own worst case with whether the order makes it worse.
fn summed(
    subject: &Subject,
    facts: &OrderFacts,
    source: &Source,
    sums: impl FnOnce(&Instrument, Amount) -> (Result<Amount, Unknown>, Option<(Amount, bool)>),
) -> Result<(Amount, bool), Unknown> {
    let unknown = |lack: Lack| Box::new(lack.row("usd", source.clone()));
    let (Some(market), Some(instrument)) = (facts.market, subject.instrument) else {
        return Err(unknown(NO_MARKET));
    };
    let (others, own) = sums(instrument, market.ask);
    let others = others?;
    let sum = own.and_then(|(own, is_worse)| Some((others.checked_add(own)?, is_worse)));
    sum.ok_or_else(|| unknown(NOT_EXACT))
}

/// Returns the sum of the worst cases of all symbols with this order, and whether the order makes it
/// worse.
fn all_worst_cases(
    subject: &Subject,
    facts: &OrderFacts,
    instrument: &Instrument,
    ask: Amount,
) -> (Result<Amount, Unknown>, Option<(Amount, bool)>) {
    let others = match &facts.around.others(subject, facts).all {
        Ok(sides) => Ok(sides.worst),
        Err(unknown) => Err(unknown.clone()),
    };
    (others, own_worst_case(facts, instrument, ask))
}

/// What a jump of the prices by `stress_gap`, past every stop, would lose: that fraction of the
/// worst cases of all symbols with this order. At most what may still be lost this week.
pub(super) fn gap_budget(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = source_in_force(subject, LimitName::WeeklyLoss);
    let left =
        week_left(&facts.around.sums).and_then(|left| subject.reduced(left).ok_or(NOT_EXACT));
    let limit = match left {
        Ok(limit) => limit,
        Err(lack) => return lack.row("usd", source),
    };
    let all = |instrument: &Instrument, ask| all_worst_cases(subject, facts, instrument, ask);
    let (sum, is_worse) = match summed(subject, facts, &source, all) {
        Ok(sum) => sum,
        Err(unknown) => return *unknown,
    };
    let Some(loss) = sum.checked_mul(*subject.rules.safety.stress_gap) else {
        return NOT_EXACT.row("usd", source);
    };
    CheckRow::compared(loss, limit, "usd", source).unless(
        limit.is_positive() && (loss <= limit || !is_worse),
        || "a jump past every stop could lose more than the week has left",
    )
}

/// The notional of the day's entry fills, of the working entries and of this order, each at the price
/// of its cost: at most `max_daily_turnover` x capital base. The risk mode does not change it.
pub(super) fn daily_turnover(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    // No risk mode reduces it.
    let source = subject.rules.source(LimitName::DailyTurnover, false);
    let unknown = |lack: Lack| lack.row("usd", source.clone());
    let sums = &facts.around.sums;
    let Some(base) = sums.capital_base() else {
        return unknown(NO_EQUITY);
    };
    let Some(limit) = base.checked_mul(*subject.rules.safety.max_daily_turnover) else {
        return unknown(NOT_EXACT);
    };
    let (Some(instrument), Some(price)) = (subject.instrument, facts.cost_price()) else {
        return unknown(NO_MARKET);
    };
    let others = match sums.turnover() {
        Ok(others) => others,
        Err(unknown) => return *unknown,
    };
    let own = notional(price, facts.size, instrument);
    let Some(sum) = own.and_then(|own| others.checked_add(own)) else {
        return unknown(NOT_EXACT);
    };
    let reason = "entries could turn over too much within the day";
    judge(sum, limit, source, false, reason)
}

/// The worst cases of all symbols for this strategy alone, with this order: at most the strategy's
/// `allocation` x capital base. No row for a strategy without an allocation.
pub(super) fn strategy_allocation(subject: &Subject, facts: &OrderFacts) -> Option<CheckRow> {
    let name = &facts.order.strategy;
    let allocation = subject.rules.strategies.get(name)?.allocation?;
    let mut source = strategy_file(name);
    if subject.ctx.limit_factor.is_some() {
        source.push_str(" (reduced)");
    }
    let limit = match limit_of(subject, facts, *allocation) {
        Ok(limit) => limit,
        Err(lack) => return Some(lack.row("usd", source)),
    };
    let (Some(market), Some(instrument)) = (facts.market, subject.instrument) else {
        return Some(NO_MARKET.row("usd", source));
    };
    let others = match facts.around.others_of_strategy(facts) {
        Ok(others) => others,
        Err(unknown) => return Some(*unknown),
    };
    let own = || {
        let before = facts.around.own_of_strategy(facts)?;
        let after = facts.added_to(before)?;
        let (own, is_worse) = grown([before, after], Reach::worst, instrument, market.ask)?;
        Some((others.checked_add(own)?, is_worse))
    };
    let Some((sum, is_worse)) = own() else {
        return Some(NOT_EXACT.row("usd", source));
    };
    let reason = "the strategy could hold more than it is allotted";
    Some(judge(sum, limit, source, !is_worse, reason))
}

/// Possible loss of all positions down to their stops (without a stop: the whole notional) and of
/// all pending entries, including this order: at most `max_portfolio_risk` x capital base.
pub(super) fn max_portfolio_risk(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let source = source_in_force(subject, LimitName::PortfolioRisk);
    let limit = match limit_of(subject, facts, *subject.rules.safety.max_portfolio_risk) {
        Ok(limit) => limit,
        Err(lack) => return lack.row("usd", source),
    };
    match all_risk(subject, facts, &source) {
        Ok(risk) => judge(
            risk,
            limit,
            source,
            false,
            "all trades together could lose too much",
        ),
        Err(unknown) => *unknown,
    }
}

/// The same risk, compared with what is left to lose before the day's or the week's loss halts,
/// whichever is less. So no trade can lose more than the halt allows.
pub(super) fn loss_budget(subject: &Subject, facts: &OrderFacts) -> CheckRow {
    let (left, name) = match facts.around.left_to_lose() {
        Ok(left) => left,
        Err(lack) => return lack.row("usd", source_of(subject)),
    };
    let source = source_in_force(subject, name);
    let Some(limit) = subject.reduced(left) else {
        return NOT_EXACT.row("usd", source);
    };
    let risk = match all_risk(subject, facts, &source) {
        Ok(risk) => risk,
        Err(unknown) => return *unknown,
    };
    CheckRow::compared(risk, limit, "usd", source).unless(
        limit.is_positive() && risk <= limit,
        || "all trades together could lose more than the day or the week has left",
    )
}

/// Returns the open risk plus the risk of this order.
fn all_risk(subject: &Subject, facts: &OrderFacts, source: &Source) -> Result<Amount, Unknown> {
    let unknown = |lack: Lack| Box::new(lack.row("usd", source.clone()));
    let (Some(instrument), Some(_)) = (subject.instrument, facts.market) else {
        return Err(unknown(NO_MARKET));
    };
    let open = facts.around.sums.open_risk()?;
    let risk = own_risk(subject, facts, instrument).and_then(|own| open.checked_add(own));
    risk.ok_or_else(|| unknown(NOT_EXACT))
}

/// Compares a value with its limit. If prices alone pushed the book over its limit, orders that do
/// not add exposure still pass; with a capital base of 0 nothing passes.
fn judge(
    value: Amount,
    limit: Amount,
    source: impl Into<Cow<'static, str>>,
    is_harmless: bool,
    reason: &'static str,
) -> CheckRow {
    let row = CheckRow::compared(value, limit, "usd", source);
    if !limit.is_positive() {
        return row.unless(false, || NO_BASE);
    }
    row.unless(value <= limit || is_harmless, || reason)
}
