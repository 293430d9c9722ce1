//! The page: its head, the figures at the top, and the order of its sections.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::text::{SHORT, amount, count, counted, percent_of, plain, signed, when};
use super::{account, council, ledger, requests, waiting};
use spoolgate_replay::report::{Figures, LedgerFigures};
use spoolgate_wire::VERSION;
use spoolgate_wire::amount::Amount;

/// The first bytes of every page. A command that overwrites a page checks for them first.
pub const MARK: &str = "<!DOCTYPE html><html lang=\"en\" data-made-by=\"spoolgate report\">";

/// The content security policy: the page loads nothing and runs nothing, whatever it contains.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri \
    'none'; form-action 'none'";
const STYLE: &str = include_str!("style.css");

/// Anchors and names of the sections.
const SECTIONS: [(&str, &str); 8] = [
    ("waiting", "Waiting for people"),
    ("account", "Equity"),
    ("positions", "Positions and limits"),
    ("decisions", "Decisions"),
    ("rules", "Rules"),
    ("council", "Council"),
    ("strategies", "Strategies"),
    ("ledger", "Ledger"),
];

/// Renders the page of these figures.
pub fn page(figures: &Figures, title: &str) -> String {
    let title = plain(title, SHORT);
    let page = html! {
        (DOCTYPE)
        html lang="en" data-made-by="spoolgate report" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="robots" content="noindex";
                meta name="generator" content=(format!("spoolgate {VERSION}"));
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#main" { "Skip to the figures" }
                header { (head(figures, &title)) }
                main id="main" {
                    @match &figures.told {
                        Some(told) => { (body(figures, told)) }
                        None => { (ledger::broken(&figures.ledger)) }
                    }
                }
                footer { (foot(figures)) }
            }
        }
    };
    page.into_string()
}

fn head(figures: &Figures, title: &str) -> Markup {
    html! {
        p class="brand" { "spoolgate report" }
        h1 { (title) }
        p class="about" {
            "Log " b { (super::text::outside(&figures.ledger.origin)) }
            @if let Some(told) = &figures.told {
                " · as of " b { (when(told.as_of)) } ", the newest of "
                    (counted(told.lines, "line", "lines"))
            }
            " · made " (when(figures.made_at)) " · all times UTC"
        }
        @if figures.since.is_some() || figures.until.is_some() {
            p class="about" {
                "Equity, decisions, rules and cases are those"
                @if let Some(since) = figures.since { " from " b { (when(since)) } " on" }
                @if let Some(until) = figures.until { " before " b { (when(until)) } }
                ". Waiting requests, positions, limits and strategies are as of the newest line."
            }
        }
        @if figures.told.is_some() {
            nav aria-label="Sections" {
                ul { @for (anchor, name) in SECTIONS {
                    li { a href=(format!("#{anchor}")) { (name) } }
                } }
            }
        }
    }
}

fn body(figures: &Figures, told: &LedgerFigures) -> Markup {
    html! {
        (tiles(figures, told))
        (waiting::section(told))
        (account::equity(told))
        (account::positions(told))
        (requests::decisions(told))
        (requests::rules(told))
        (council::section(told))
        (waiting::strategies(told))
        (ledger::section(&figures.ledger, told))
    }
}

/// Renders one figure at the top of the page: its name, its value, and a note.
fn tile(class: &str, name: &str, value: &Markup, note: &Markup) -> Markup {
    html! {
        div class=(format!("tile {class}")) {
            dt { (name) }
            dd { span class="value" { (value) } span class="note" { (note) } }
        }
    }
}

fn tiles(figures: &Figures, told: &LedgerFigures) -> Markup {
    let total = &told.decisions.total;
    let open = waiting::count(told);
    let report = &figures.ledger;
    html! {
        dl class="tiles" {
            (equity_tile(told))
            (drawdown_tile(told))
            (tile("", "Decisions", &html! { (count(total.all())) }, &html! {
                (count(total.accepted)) " accepted · " (count(total.refused)) " refused · "
                    (count(total.held)) " held"
            }))
            (tile(if told.closed.is_empty() { "" } else { "alert" }, "Entries", &html! {
                @if told.closed_to_all { "closed" } @else if told.closed.is_empty() { "open" }
                    @else { "partly closed" }
            }, &html! {
                @if told.closed.is_empty() { "no halt in force" }
                @else { (counted(u64::try_from(told.closed.len()).unwrap_or(u64::MAX), "reason",
                    "reasons")) " below" }
            }))
            (tile(if open > 0 { "wait" } else { "" }, "Waiting for people",
                &html! { (count(open)) }, &html! {
                (told.holds.len()) " held · " (told.proposals.len()) " proposed · "
                (told.open_cases.len()) " before the council · " (told.actions.len()) " under way"
            }))
            (tile("good", "Ledger", &html! { "verified" }, &html! {
                (counted(report.lines, "line", "lines")) ", chain and seals"
                @if report.unseen_lines > 0 { "; " (count(report.unseen_lines)) " by hash alone" }
            }))
        }
    }
}

fn equity_tile(told: &LedgerFigures) -> Markup {
    let portfolio = &told.portfolio;
    let equity = portfolio.equity.or(told.equity_last_known);
    let profit = equity.and_then(|equity| equity.checked_sub(portfolio.net_deposits));
    tile(
        "",
        "Equity",
        &html! { @match equity { Some(equity) => (amount(equity)), None => "unknown" } },
        &html! {
            @match profit {
                Some(profit) => { (signed(profit)) " on " (amount(portfolio.net_deposits)) " put \
                    in" }
                None => "a price of an open position is missing",
            }
            @if portfolio.equity.is_none() && equity.is_some() { "; at marks that were not fresh" }
        },
    )
}

fn drawdown_tile(told: &LedgerFigures) -> Markup {
    let equity = told.portfolio.equity.or(told.equity_last_known);
    let peak = told.portfolio.peak_equity;
    let down = peak
        .zip(equity)
        .and_then(|(peak, equity)| peak.checked_sub(equity));
    let down = down.map(|down| down.max(Amount::ZERO));
    let deepest = told.history.as_ref().and_then(|history| history.deepest);
    tile(
        if told.portfolio.drawdown_since.is_some() {
            "alert"
        } else {
            ""
        },
        "Drawdown from peak",
        &html! { @match down { Some(down) => (amount(down)), None => "none yet" } },
        &html! {
            @if let Some((down, peak)) = down.zip(peak) && let Some(share)
                = percent_of(down, peak) {
                (share) " of " (amount(peak))
            }
            @if let Some(deepest) = deepest && let Some(down) = deepest.drawdown {
                "; deepest " (amount(down))
            }
        },
    )
}

fn foot(figures: &Figures) -> Markup {
    html! {
        p {
            "Made by spoolgate " (VERSION) " from the ledger of a home. The page loads nothing and \
                runs nothing. It holds private "
            "figures: give it only to people who may see them. Its content can be checked with "
            code { "spoolgate audit verify" } " and " code { "spoolgate audit replay" } "."
        }
        @if figures.told.is_some() {
            p { "Amounts are in the account's currency, with every digit that counts; only \
                percentages are rounded." }
        }
    }
}
