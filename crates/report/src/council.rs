//! Council cases: the outcome, a radar of the six axes, the verdict of each role, and what blocks
//! approval.

use maud::{Markup, html};

use super::chart::legend;
use super::radar::{floor, radar, short_of};
use super::table::{number, numbers, table, text};
use super::text::{counted, outside, prose, when, words};
use spoolgate_replay::report::{Case, Decided, LedgerFigures, SeatRow};
use spoolgate_wire::council::Stance;

/// Renders the section on council cases.
pub(crate) fn section(told: &LedgerFigures) -> Markup {
    let shown = told.cases.len();
    html! {
        section id="council" {
            h2 { "Council" }
            @if told.cases.is_empty() {
                p class="empty" { "No case was opened in this time." }
            } @else if shown < told.case_count {
                p class="note" {
                    "The newest " (shown) " of " @if told.more_cases { "more than " }
                    (counted(u64::try_from(told.case_count).unwrap_or(u64::MAX), "case", "cases"))
                    "; spoolgate council list shows all."
                }
            }
            @for (index, case) in told.cases.iter().enumerate() { (shown_case(index, case)) }
        }
    }
}

/// Renders an outcome as a word with its own symbol, so that it does not depend on colour.
fn outcome(stance: Option<Stance>) -> Markup {
    let (class, mark, name) = match stance {
        Some(Stance::Approve) => ("approve", "\u{2713}", "approve"),
        Some(Stance::NeedsMoreInfo) => ("unsure", "?", "needs more info"),
        Some(Stance::Reject) => ("reject", "\u{2715}", "reject"),
        None => ("open", "\u{2026}", "open"),
    };
    html! {
        span class=(format!("outcome {class}")) { span aria-hidden="true" { (mark) } " " (name) }
    }
}

fn shown_case(index: usize, case: &Case) -> Markup {
    html! {
        article class="card case" {
            div class="title" {
                h3 { (outside(&case.case)) }
                (outcome(case.outcome))
            }
            p class="note" {
                (words(&case.change_type.to_lowercase())) " by " (outside(&case.proposer)) ", \
                    opened " (when(case.opened_at))
                @match &case.decided {
                    Some(decided) => {
                        ", decided " (when(decided.at)) " in line " (decided.line) " because "
                        @if decided.closed_by == "seats" { "every seat that could be filled \
                            was" } @else { "its deadline had passed" }
                    }
                    None if case.outcome.is_none() => { ", decided by " (when(case.deadline))
                        " at the latest" }
                    None => {}
                }
                "."
            }
            @match &case.summary {
                Some(summary) => div class="asked" { (prose(summary)) },
                None => p class="note" { "The request can no longer be read here: it is sealed, or \
                    its segment was pruned." },
            }
            @match &case.decided {
                Some(decided) => { (told_of(index, case, decided)) }
                None if case.outcome.is_some() => p class="empty" { "The decision can no longer be \
                    read here." },
                None => p { "Waits for " @if case.waiting_for.is_empty() { "nobody" }
                    @for role in &case.waiting_for { span class="chip" { (outside(role)) } " " } },
            }
        }
    }
}

fn told_of(index: usize, case: &Case, decided: &Decided) -> Markup {
    let dissent: Vec<&SeatRow> = decided.seats.iter().filter(|seat| seat.dissents).collect();
    html! {
        div class="split" {
            figure {
                (radar(&format!("radar-{index}"), &super::text::plain(&case.case,
                    super::text::SHORT), &decided.axes))
                figcaption {
                    (legend(&[("score", "score"), ("floor-reject", "rejects below"),
                        ("floor-unsure", "not approved below")]))
                }
            }
            div {
                (seats(&decided.seats))
                p { b { "Dissent: " }
                    @if dissent.is_empty() { "none" }
                    @for (at, seat) in dissent.iter().enumerate() {
                        @if at > 0 { ", " }
                        (outside(&seat.role))
                    }
                }
                (prose(&decided.reasoning))
                (listed("Blocking issues", &decided.blocking))
                (listed("Next steps", &decided.next_steps))
            }
        }
        (axes(decided))
    }
}

fn seats(seats: &[SeatRow]) -> Markup {
    let rows: Vec<Vec<Markup>> = seats
        .iter()
        .map(|seat| {
            vec![
                html! {
                    (outside(&seat.role))
                    @if seat.foreign { " " span class="chip" { "not asked" } }
                    @if seat.computed { " " span class="chip" { "computed" } }
                },
                html! { @match seat.verdict { Some(_) => { (outcome(seat.verdict)) }, None => "no \
                answer" } },
                html! { @for note in &seat.notes { div class="note" { (outside(note)) } } },
            ]
        })
        .collect();
    let columns = [
        text("Seat"),
        text("Counts as"),
        text("Counts for less because"),
    ];
    // If no seat has notes, the last column is dropped.
    let has_notes = seats.iter().any(|seat| !seat.notes.is_empty());
    table(
        "Seats",
        columns
            .get(..if has_notes { 3 } else { 2 })
            .unwrap_or_default(),
        &rows,
    )
}

fn listed(heading: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            h4 { (heading) }
            ul { @for line in lines { li { (prose(line)) } } }
        }
    }
}

fn axes(decided: &Decided) -> Markup {
    let columns = [
        text("Axis"),
        number("Score"),
        number("Rejects below"),
        number("Not approved below"),
        text("State"),
    ];
    let rows: Vec<Vec<Markup>> = decided
        .axes
        .iter()
        .map(|row| {
            vec![
                html! { (row.axis.number()) " " (words(row.axis.as_str())) },
                html! { (row.score) },
                html! { (floor(row.reject_below)) },
                html! { (floor(row.unsure_below)) },
                html! { (short_of(row).unwrap_or("well enough")) },
            ]
        })
        .collect();
    numbers("Numbers: the six axes", "The six axes", &columns, &rows)
}
