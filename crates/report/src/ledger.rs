//! The ledger: what was and was not checked when the page was made, and which rulebook is in force.

use maud::{Markup, html};

use super::table::{facts, number, numbers, text};
use super::text::{count, counted, outside, prose, when};
use spoolgate_ledger::verify::Report;
use spoolgate_replay::report::LedgerFigures;
use spoolgate_rules::rule::RuleStatus;

/// Renders the section on the ledger.
pub(crate) fn section(report: &Report, told: &LedgerFigures) -> Markup {
    html! {
        section id="ledger" {
            h2 { "Ledger and rulebook" }
            div class="card" {
                h3 { "Verified when this page was made" }
                (checked(report))
                (facts(&facts_of(report)))
                h4 { "What that does not show" }
                ul { @for what in &report.not_shown { li { (prose(what)) } } }
                p class="note" {
                    "The decisions themselves were not recomputed; "
                        code { "spoolgate audit replay" }
                        " does that. The figures above rest on the "
                    (counted(told.lines, "line", "lines")) " that the ledger had when its state \
                        was read; a running gate may have written more since."
                }
                (keys(report))
            }
            (rulebook(told))
        }
    }
}

fn checked(report: &Report) -> Markup {
    html! {
        p {
            "From the first byte on: every line names the hash of the one before it, every batch \
                is sealed under the log's own key with the root "
            "of all lines up to it"
            @if report.checkpoint.is_some() { ", and the checkpoint beside the log is on it" }
            "."
            @if report.checkpoint.is_none() {
                " There is no checkpoint beside the log that is on it." }
            @if report.unseen_lines > 0 {
                " For " (counted(report.unseen_lines, "line", "lines"))
                    " in pruned segments, only the \
                    hashes are here."
            }
            @if report.torn > 0 {
                " " (counted(report.torn, "torn batch was", "torn batches were"))
                    " frozen and accounted for."
            }
        }
    }
}

fn facts_of(report: &Report) -> Vec<(&'static str, Markup)> {
    let hash = |text: &str| html! { code { (text) } };
    vec![
        ("Log", html! { (outside(&report.origin)) }),
        ("Lines", html! { (count(report.lines)) }),
        ("Sealed batches", html! { (count(report.batches)) }),
        (
            "Segments",
            html! {
                (report.segments)
                @if report.archived > 0 { ", " (report.archived) " archived" }
                @if report.pruned > 0 { ", " (report.pruned) " pruned" }
            },
        ),
        ("Bytes", html! { (count(report.bytes)) }),
        ("Root in the last seal", hash(&report.root)),
        ("Head: hash of the last line", hash(&report.head)),
        (
            "Checkpoint",
            html! {
                @match &report.checkpoint { Some(told) => code { (outside(told)) },
                    None => "none on the log" }
            },
        ),
        ("Log key", html! { code { (outside(&report.log_key)) } }),
        (
            "Sealed fields",
            html! {
                (count(report.sealed.fields)) ": " (count(report.sealed.disclosed)) " disclosures \
                    match their commitments, "
                (count(report.sealed.redacted)) " redacted by a line"
                @if !report.sealed.unfinished.is_empty() {
                    ", " (report.sealed.unfinished.len()) " redacted by a line but not deleted"
                }
            },
        ),
    ]
}

fn keys(report: &Report) -> Markup {
    let rows: Vec<Vec<Markup>> = report
        .keys
        .iter()
        .map(|key| {
            vec![
                html! { (key.from_line) },
                html! { code { (outside(&key.log_key)) } },
            ]
        })
        .collect();
    html! {
        @if rows.len() > 1 {
            (numbers(&format!("Keys that the log had: {}", rows.len()), "Keys of the log",
                &[number("From line"), text("Key")], &rows))
        }
    }
}

fn rulebook(told: &LedgerFigures) -> Markup {
    let rulebook = &told.rulebook;
    let rules: Vec<String> = rulebook
        .rules
        .iter()
        .map(|(status, many)| {
            let name = match status {
                RuleStatus::Active => "active",
                RuleStatus::Shadow => "in shadow",
                RuleStatus::Suspended => "suspended",
                RuleStatus::Retired => "retired",
            };
            format!("{many} {name}")
        })
        .collect();
    let mut rows = vec![
        ("Hash", html! { code { (rulebook.hash) } }),
        ("Rules", html! { (rules.join(", ")) }),
        ("Instruments", html! { (rulebook.instruments) }),
        ("Strategies", html! { (rulebook.strategies) }),
        ("Principals", html! { (rulebook.principals) }),
    ];
    if let Some(history) = &told.history {
        if let Some((line, at)) = history.rulebook_since {
            rows.insert(
                1,
                ("In force since", html! { "line " (line) ", " (when(at)) }),
            );
        }
        rows.push((
            "Loaded in this time",
            html! { (counted(history.rulebooks, "rulebook", "rulebooks")) },
        ));
    }
    html! {
        div class="card" {
            h3 { "Rulebook in force" }
            (facts(&rows))
            @match &rulebook.fault {
                Some(fault) => div class="closed" role="note" {
                    h4 { "The files on disk cannot be used" } (prose(fault))
                },
                None => p class="note" { "As of the newest line; later edits of the files were not \
                    examined." },
            }
        }
    }
}

/// Renders the only section that is shown if the ledger does not verify.
pub(crate) fn broken(report: &Report) -> Markup {
    let rows: Vec<Vec<Markup>> = report
        .problems
        .iter()
        .take(100)
        .map(|problem| {
            vec![
                outside(&problem.file),
                html! { (count(problem.offset)) },
                prose(&problem.what),
            ]
        })
        .collect();
    html! {
        section id="ledger" {
            h2 { "The ledger does not verify" }
            div class="closed" role="alert" {
                p { b { "None of its content is \
                    shown." } " Stop the gate, keep a copy of the folder " code { "audit" }
                        " as it is, and run "
                    code { "spoolgate audit verify" } ". What was changed, cut or damaged is \
                        listed below, in the \
                            order of the ledger." }
            }
            div class="card" {
                h3 { "What is wrong" }
                (super::table::table("What is wrong with the ledger", &[text("File"),
                    number("Byte"), text("What")], &rows))
                (facts(&facts_of(report)))
                p class="note" { "Lines and batches are counted up to the first problem." }
            }
        }
    }
}
