//! Equity and drawdown over time, positions with their stops, open orders, and the headroom of
//! every limit.

use maud::{Markup, html};
use rust_decimal::Decimal;

use super::chart::{
    FULL, Range, Span, cell_bar, css, grid, legend, steps, svg, time_axis, value_axis,
};
use super::table::{facts, number, numbers, table, text};
use super::text::{amount, amount_or, count, counted, outside, percent_of, signed, when, words};
use spoolgate_replay::report::{History, LedgerFigures, Point};
use spoolgate_trading::order::OrderRole;
use spoolgate_trading::usage::LimitUse;
use spoolgate_trading::views::{OrderView, PositionView};
use spoolgate_wire::amount::Amount;

/// Renders the section on equity.
pub(crate) fn equity(told: &LedgerFigures) -> Markup {
    html! {
        section id="account" {
            h2 { "Equity and drawdown" }
            @match &told.history {
                None => p class="empty" {
                    "Not shown: equity over time is computed by folding the ledger from its first \
                        line, and the contents of "
                    (counted(u64::try_from(told.pruned.len()).unwrap_or(u64::MAX), "segment",
                        "segments"))
                    " were pruned. Restore them as docs/evidence.md describes, and make the page \
                        again."
                },
                Some(history) if history.points.is_empty() => p class="empty" {
                    "The account held no money in this time."
                },
                Some(history) => { (charts(history)) }
            }
            (money(told))
        }
    }
}

fn charts(history: &History) -> Markup {
    let points = &history.points;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return html! {};
    };
    let span = Span::new(first.time, last.time);
    let values = points
        .iter()
        .flat_map(|point| [point.equity.decimal(), point.net_deposits.decimal()]);
    let Some(range) = Range::of(values) else {
        return html! {
            p class="empty" { "The amounts are too far apart to be drawn." } (points_table(history))
        };
    };
    html! {
        figure class="card" {
            figcaption {
                h3 { "Equity" }
                p class="note" {
                    "Cash and positions after every line that moved the account, a position or a \
                        price, at the last marks known then: "
                    (counted(history.points_seen, "such line", "such lines"))
                    @if history.points_seen > u64::try_from(points.len()).unwrap_or(u64::MAX) {
                        ", thinned to " (points.len())
                            " with the lowest, the highest and the deepest \
                                drawdown of every stretch kept"
                    }
                    ". Price moves between two lines are not in it."
                    @if history.unknown > 0 {
                        " After " (counted(history.unknown, "line", "lines")) " equity could not \
                            be computed."
                    }
                }
                (legend(&[("equity", "equity"), ("deposits", "deposits less withdrawals")]))
            }
            div class="plot" {
                (value_axis(&range))
                div class="area tall" {
                    (equity_svg(points, &range, &span))
                    (dot("last", span.along(last.time), range.below_top(last.equity.decimal())))
                }
                (drawdown(history, &span))
                (time_axis(&span))
            }
            (points_table(history))
        }
    }
}

/// Draws a dot as HTML, outside the stretched SVG, so that it stays round at any chart width.
fn dot(class: &str, x: i64, y: i64) -> Markup {
    html! {
        i class=(format!("dot {class}")) aria-hidden="true"
            style=(format!("left:{};top:{}", css(x), css(y))) {}
    }
}

fn equity_svg(points: &[Point], range: &Range, span: &Span) -> Markup {
    let line = |of: fn(&Point) -> Decimal| {
        steps(
            points
                .iter()
                .map(|point| (span.along(point.time), range.below_top(of(point)))),
        )
    };
    let (lowest, highest) = (
        points
            .iter()
            .map(|point| point.equity)
            .min()
            .unwrap_or(Amount::ZERO),
        points
            .iter()
            .map(|point| point.equity)
            .max()
            .unwrap_or(Amount::ZERO),
    );
    let last = points.last().map_or(Amount::ZERO, |point| point.equity);
    let description = format!(
        "From {} at the lowest to {} at the highest, {} at the end.",
        amount(lowest),
        amount(highest),
        amount(last)
    );
    svg(
        "equity",
        "Equity over time",
        &description,
        &html! {
            (grid(range, span))
            path class="deposits" d=(line(|point| point.net_deposits.decimal())) {}
            path class="equity" d=(line(|point| point.equity.decimal())) {}
        },
    )
}

fn drawdown(history: &History, span: &Span) -> Markup {
    let down = |point: &Point| point.drawdown.unwrap_or(Amount::ZERO).decimal();
    let below = history
        .points
        .iter()
        .map(|point| Decimal::ZERO.checked_sub(down(point)).unwrap_or_default());
    let range = Range::of(below.chain([Decimal::ZERO]));
    let Some(deepest) = history
        .deepest
        .filter(|point| point.drawdown.is_some_and(Amount::is_positive))
    else {
        return html! {
            p class="wide note" { "No drawdown: after every line, equity was at its peak." }
        };
    };
    let Some(range) = range else {
        return html! { p class="wide note" { "The drawdown is too deep to be drawn." } };
    };
    let place = |point: &Point| {
        (
            span.along(point.time),
            range.below_top(Decimal::ZERO.checked_sub(down(point)).unwrap_or_default()),
        )
    };
    let top = range.below_top(Decimal::ZERO);
    let line = steps(history.points.iter().map(place));
    let start = history.points.first().map_or(0, |point| place(point).0);
    let (x, y) = place(&deepest);
    let deepest_down = deepest.drawdown.unwrap_or(Amount::ZERO);
    let share = deepest.peak.and_then(|peak| percent_of(deepest_down, peak));
    let told = html! {
        "Deepest: " b { (amount(deepest_down)) }
        @if let Some(share) = &share { ", " (share) " of the peak" }
        @if let Some(peak) = deepest.peak { " of " (amount(peak)) }
        ", after line " (deepest.line) " at " (when(deepest.time)) "."
    };
    let description = format!(
        "The deepest drawdown is {} after line {}.",
        amount(deepest_down),
        deepest.line
    );
    html! {
        div class="wide" {
            h3 { "Drawdown" }
            p class="note" {
                (told) " It is peak less equity. The gate updates the peak after every row of \
                    prices, and deposits and withdrawals move it."
            }
        }
        (value_axis(&range))
        div class="area low" {
            (svg("drawdown", "Drawdown over time", &description, &html! {
                (grid(&range, span))
                path class="down" d=(format!("{line}V{top}H{start}Z")) {}
            }))
            (dot("deepest", x, y))
        }
    }
}

fn points_table(history: &History) -> Markup {
    let columns = [
        text("Time"),
        number("Line"),
        number("Equity"),
        number("Deposits less withdrawals"),
        number("Peak"),
        number("Drawdown"),
    ];
    let rows: Vec<Vec<Markup>> = history
        .points
        .iter()
        .map(|point| {
            vec![
                when(point.time),
                html! { (point.line) },
                html! { (amount(point.equity)) },
                html! { (amount(point.net_deposits)) },
                html! { (amount_or(point.peak)) },
                html! { (amount_or(point.drawdown)) },
            ]
        })
        .collect();
    let flows: Vec<Vec<Markup>> = history
        .flows
        .iter()
        .map(|flow| {
            vec![
                when(flow.time),
                html! { (flow.line) },
                html! { (signed(flow.amount)) },
            ]
        })
        .collect();
    html! {
        (numbers(&format!("Numbers: {} points", rows.len()), "Equity and drawdown", &columns,
            &rows))
        @if !flows.is_empty() {
            @let summary = format!("Deposits and withdrawals: {}", count(history.flow_count));
            (numbers(&summary, "Deposits and withdrawals, the newest 100 at most", &[text("Time"),
                number("Line"), number("Amount")], &flows))
        }
    }
}

fn money(told: &LedgerFigures) -> Markup {
    let portfolio = &told.portfolio;
    let signed_or = |value: Option<Amount>| value.map_or_else(|| "unknown".to_owned(), signed);
    let row = |name: &'static str, value: String| (name, html! { (value) });
    let rows = [
        row("Equity", amount_or(portfolio.equity)),
        row("Cash", amount(portfolio.cash)),
        row("Deposits less withdrawals", amount(portfolio.net_deposits)),
        row("Realised, before fees", signed(portfolio.realised)),
        row("Unrealised", signed_or(portfolio.unrealised)),
        row("Fees", amount(portfolio.fees)),
        row("Funding paid", amount(portfolio.funding)),
        row("Profit and loss of the day", signed_or(portfolio.day_pnl)),
        row("Profit and loss of the week", signed_or(portfolio.week_pnl)),
        row("Peak equity", amount_or(portfolio.peak_equity)),
        row("Worst-case exposure", amount_or(portfolio.exposure)),
        row("Risk down to the stops", amount_or(portfolio.open_risk)),
    ];
    html! {
        div class="card" {
            h3 { "The account as of " (when(portfolio.time)) }
            (facts(&rows))
            @if portfolio.equity.is_none() {
                p class="note" { "A value is unknown if it depends on a price that was missing, or \
                    too old for the rules, at that time." }
            }
        }
    }
}

/// Renders the section on positions, orders and limits.
pub(crate) fn positions(told: &LedgerFigures) -> Markup {
    let portfolio = &told.portfolio;
    html! {
        section id="positions" {
            h2 { "Positions and limits" }
            @if portfolio.positions.is_empty() && told.orders.is_empty() {
                p class="empty" { "No position is held and no order is open." }
            }
            @if !portfolio.positions.is_empty() {
                div class="card" { h3 { "Positions" } (positions_table(&portfolio.positions)) }
            }
            @if !told.orders.is_empty() {
                div class="card" { h3 { "Open orders" } (orders_table(&told.orders)) }
            }
            (limits(&portfolio.limits))
        }
    }
}

fn positions_table(positions: &[PositionView]) -> Markup {
    let columns = [
        text("Strategy"),
        text("Symbol"),
        text("Direction"),
        number("Size"),
        number("Average price"),
        number("Mark"),
        number("Unrealised"),
        text("Protective stops"),
    ];
    let rows: Vec<Vec<Markup>> = positions
        .iter()
        .map(|position| {
            vec![
                outside(position.strategy.as_str()),
                outside(position.symbol.as_str()),
                html! { (position.direction) @if position.dust { " (dust)" } },
                html! { (amount(position.size)) },
                html! { (position.average_price.as_deref().unwrap_or("unknown")) },
                html! { (amount_or(position.mark)) },
                html! { (position.unrealised.map_or_else(|| "unknown".to_owned(), signed)) },
                html! {
                    @if position.stops.is_empty() { b { "none" } }
                    @for stop in &position.stops {
                        div { (amount(stop.size)) " at " (amount_or(stop.trigger)) " ("
                            (stop.order_id) ")" }
                    }
                },
            ]
        })
        .collect();
    table("Positions", &columns, &rows)
}

fn orders_table(orders: &[OrderView]) -> Markup {
    let columns = [
        text("Order"),
        text("Strategy"),
        text("Symbol"),
        text("Role"),
        text("Side"),
        text("Type"),
        number("Left of size"),
        number("Price"),
        number("Trigger"),
        text("Accepted"),
    ];
    let price = |value: Option<Amount>| value.map_or_else(|| "-".to_owned(), amount);
    let rows: Vec<Vec<Markup>> = orders
        .iter()
        .map(|OrderView { order, leaves }| {
            let role = match order.role {
                OrderRole::Entry => "entry",
                OrderRole::Exit => "exit",
                OrderRole::Protective => "protective stop",
                OrderRole::Target => "target",
                OrderRole::Adjust => "adjustment",
            };
            vec![
                html! { (order.order_id) },
                outside(order.strategy.as_str()),
                outside(order.symbol.as_str()),
                html! { (role) },
                html! { (order.side.as_str()) },
                html! { (order.order_type.as_str()) },
                html! { (amount(*leaves)) " of " (amount(order.size)) },
                html! { (price(order.price)) },
                html! { (price(order.trigger)) },
                when(order.accepted_at),
            ]
        })
        .collect();
    table("Open orders", &columns, &rows)
}

/// Returns the used share of a limit in ten-thousandths, or `None` if it is unknown.
fn used(row: &LimitUse) -> Option<i64> {
    let (used, limit) = (row.used?, row.limit?);
    let share = used
        .decimal()
        .checked_div(limit.decimal())?
        .checked_mul(Decimal::from(FULL))?;
    i64::try_from(share.round().clamp(Decimal::ZERO, Decimal::from(FULL))).ok()
}

fn limits(limits: &[LimitUse]) -> Markup {
    let row = |row: &LimitUse| {
        let share = used(row);
        let is_full = row.closed.is_some();
        // Yes-or-no limits have no amount that could be used up.
        let is_counted = row.unit != "bool";
        vec![
            html! { (words(row.check)) },
            outside(&row.of),
            html! {
                @if let Some(share) = share { (cell_bar(if is_full { "full" } else { "" }, share)) }
            },
            html! {
                @if is_counted { (amount_or(row.used)) " of " (amount_or(row.limit))
                    @if row.unit != "count" { " " (row.unit) } } @else { "-" }
            },
            html! { @if is_counted { b { (amount_or(row.left)) } } @else { "-" } },
            html! {
                @if let Some(why) = &row.closed { span class="stop" { "closed: " } (outside(why)) }
            },
        ]
    };
    let columns = [
        text("Limit"),
        text("Of"),
        text("Share used"),
        number("Used"),
        number("Left"),
        text("State"),
    ];
    let is_told =
        |row: &&LimitUse| row.closed.is_some() || row.used.is_none_or(|used| !used.is_zero());
    let (touched, idle): (Vec<&LimitUse>, Vec<&LimitUse>) = limits.iter().partition(is_told);
    let touched: Vec<Vec<Markup>> = touched.into_iter().map(row).collect();
    let idle: Vec<Vec<Markup>> = idle.into_iter().map(row).collect();
    html! {
        div class="card" {
            h3 { "What is left of every limit" }
            p class="note" { "As the checks themselves compute it for an entry of size zero. A \
                closed limit accepts no entry." }
            @if limits.is_empty() { p class="empty" { "The rules set no numeric limit." } }
            @if !touched.is_empty() { (table("Limits in use", &columns, &touched)) }
            @if !idle.is_empty() {
                (numbers(&format!("Unused limits: {}", idle.len()), "Unused limits", &columns,
                    &idle))
            }
        }
    }
}
