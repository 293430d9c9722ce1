//! What waits for a person, why entries are closed, and which strategies run.

use maud::{Markup, html};

use super::table::{number, table, text};
use super::text::{counted, outside, prose, when, words};
use spoolgate_replay::report::LedgerFigures;

/// Counts what waits for a person.
pub(crate) fn count(told: &LedgerFigures) -> u64 {
    let all = [
        told.holds.len(),
        told.proposals.len(),
        told.open_cases.len(),
        told.actions.len(),
    ];
    all.into_iter()
        .map(|length| u64::try_from(length).unwrap_or(u64::MAX))
        .fold(0, u64::saturating_add)
}

/// Renders the section: why entries are closed, then every list that is not empty.
pub(crate) fn section(told: &LedgerFigures) -> Markup {
    html! {
        section id="waiting" {
            h2 { "Waiting for people" }
            @if !told.closed.is_empty() {
                div class="closed" role="note" {
                    h3 { @if told.closed_to_all { "Entries are closed" }
                        @else { "Some entries are closed" } }
                    ul { @for reason in &told.closed { li { (prose(reason)) } } }
                    p class="note" { "Exits, cancels and tightened stops are still allowed." }
                }
            }
            @if count(told) == 0 {
                p class="empty" { "Nothing is held, no proposal and no case is open, and no action \
                    is under way." }
            }
            (holds(told)) (proposals(told)) (open_cases(told)) (actions(told))
        }
    }
}

fn holds(told: &LedgerFigures) -> Markup {
    let columns = [
        text("Held request"),
        text("Action"),
        text("Sender"),
        text("Request"),
        text("Held by"),
        text("Since"),
        text("Until"),
    ];
    let rows: Vec<Vec<Markup>> = told
        .holds
        .iter()
        .map(|hold| {
            vec![
                html! { (hold.id) },
                outside(&hold.action),
                outside(hold.source.as_str()),
                outside(hold.request_id.as_str()),
                html! {
                    @for rule in &hold.rules { span class="chip" { (rule) } " " }
                    @for anomaly in &hold.anomalies { span class="chip" {
                        (words(anomaly.check_name())) } " " }
                },
                when(hold.held_at),
                when(hold.expires_at),
            ]
        })
        .collect();
    list(
        "Requests held for approval",
        "Decide them with spoolgate approvals grant or deny.",
        &columns,
        &rows,
    )
}

fn proposals(told: &LedgerFigures) -> Markup {
    let columns = [
        text("Proposal"),
        text("Rule"),
        text("What"),
        text("Direction"),
        text("By"),
        text("Since"),
        text("In the proposer's words"),
    ];
    let rows: Vec<Vec<Markup>> = told
        .proposals
        .iter()
        .map(|proposal| {
            vec![
                html! { (proposal.id) },
                outside(&proposal.rule),
                outside(&proposal.what),
                html! { (proposal.direction) },
                outside(&proposal.by),
                when(proposal.at),
                proposal
                    .summary
                    .as_deref()
                    .map_or_else(|| html! { "-" }, outside),
            ]
        })
        .collect();
    let note = "Decide them with spoolgate proposals approve or decline. The direction is what the \
        gate proved, not what the proposer claims.";
    list("Proposals to change rules", note, &columns, &rows)
}

fn open_cases(told: &LedgerFigures) -> Markup {
    let columns = [
        text("Case"),
        text("Change"),
        text("Proposer"),
        text("Waits for"),
        text("Opened"),
        text("Decided by"),
    ];
    let rows: Vec<Vec<Markup>> = told
        .open_cases
        .iter()
        .map(|case| {
            vec![
                outside(&case.case),
                html! { (case.change_type) },
                outside(&case.proposer),
                html! {
                    @if case.waiting_for.is_empty() { "nobody" }
                    @for role in &case.waiting_for { span class="chip" { (outside(role)) } " " }
                },
                when(case.opened_at),
                when(case.deadline),
            ]
        })
        .collect();
    list(
        "Open cases before the council",
        "Without an answer a role's seat stays empty at the deadline.",
        &columns,
        &rows,
    )
}

fn actions(told: &LedgerFigures) -> Markup {
    let columns = [
        text("Action"),
        text("What"),
        text("Sender"),
        text("Request"),
        text("Goes to"),
        text("Adapter"),
        text("Begun"),
    ];
    let rows: Vec<Vec<Markup>> = told
        .actions
        .iter()
        .map(|action| {
            vec![
                html! { (action.id) },
                outside(&action.action),
                outside(action.source.as_str()),
                outside(action.request_id.as_str()),
                html! { (outside(action.service.as_str())) " (" (outside(&action.host)) ")" },
                outside(&action.adapter),
                when(action.begun_at),
            ]
        })
        .collect();
    let note =
        "Begun, with no outcome yet. Only the running gate can tell whether an adapter is working.";
    list("Actions under way", note, &columns, &rows)
}

fn list(
    heading: &str,
    note: &str,
    columns: &[super::table::Column],
    rows: &[Vec<Markup>],
) -> Markup {
    html! {
        @if !rows.is_empty() {
            div class="card" {
                h3 { (heading) }
                p class="note" { (note) }
                (table(heading, columns, rows))
            }
        }
    }
}

/// Renders the section on strategies.
pub(crate) fn strategies(told: &LedgerFigures) -> Markup {
    let columns = [
        text("Strategy"),
        text("Concern"),
        text("Status"),
        text("Risk mode"),
        text("Runnable"),
        text("Instruments"),
        text("Degraded because"),
    ];
    let rows: Vec<Vec<Markup>> = told
        .strategies
        .iter()
        .map(|strategy| {
            vec![
                html! {
                    (outside(&strategy.name))
                    @if strategy.strategy_id != strategy.name { " ("
                        (outside(&strategy.strategy_id)) ")" }
                },
                strategy
                    .concern
                    .as_deref()
                    .map_or_else(|| html! { "-" }, outside),
                html! { span class="chip" { (words(strategy.status)) } },
                html! { (words(strategy.risk_mode)) },
                html! { @if strategy.runnable { "yes" } @else { "no" } },
                html! { (strategy.instruments.join(", ")) },
                html! {
                    @if strategy.degraded.is_empty() { "-" }
                    @for reason in &strategy.degraded { div { (outside(reason)) } }
                },
            ]
        })
        .collect();
    html! {
        section id="strategies" {
            h2 { "Strategies" }
            @if rows.is_empty() {
                p class="empty" { "The rules contain no strategy." }
            } @else {
                div class="card" {
                    p class="note" {
                        (counted(u64::try_from(rows.len()).unwrap_or(u64::MAX), "strategy",
                            "strategies"))
                        ", according to the rule files and control decisions."
                    }
                    (table("Strategies", &columns, &rows))
                }
            }
            @if !told.portfolio.unheard.is_empty() {
                div class="card" {
                    h3 { "Silent for" }
                    (table("Silent agents", &[text("Agent"), text("Since"), number("Action")],
                        &told.portfolio.unheard.iter().map(|agent| vec![
                            outside(agent.principal.as_str()), when(agent.since), html! {
                                (words(agent.action))
                            },
                        ]).collect::<Vec<_>>()))
                }
            }
        }
    }
}
