//! Decisions over time, the reasons for refusals, and how useful each rule is.

use maud::{Markup, html};

use super::chart::{FULL, Span, cell_bar, share, svg, time_axis};
use super::table::{number, numbers, table, text};
use super::text::{amount, count, counted, outside, percent, seconds, signed, when, words};
use spoolgate_replay::efficacy::{DAYS_MIN, Report, RuleReport};
use spoolgate_replay::report::{By, Decisions, LedgerFigures, Refusal, Stretch, Tally};
use spoolgate_rules::rule::RuleStatus;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::DAY_MS;

/// Minimum number of places for bars: with fewer, the bars would be too wide.
const PLACES_MIN: i64 = 12;
/// Maximum number of causes of refusals that are shown unfolded.
const CAUSES_MAX: usize = 10;
/// Milliseconds per hour.
const HOUR_MS: i64 = 3_600_000;

/// Selects the count of one outcome from a tally.
type Part = fn(&Tally) -> u64;

/// Names the length of a stretch in words.
fn unit(stretch_ms: i64) -> String {
    match stretch_ms {
        HOUR_MS => "hour".to_owned(),
        DAY_MS => "day".to_owned(),
        ms => match ms / DAY_MS / 7 {
            1 => "week".to_owned(),
            weeks => format!("{weeks} weeks"),
        },
    }
}

/// Renders the section on decisions.
pub(crate) fn decisions(told: &LedgerFigures) -> Markup {
    let decisions = &told.decisions;
    html! {
        section id="decisions" {
            h2 { "Decisions" }
            @if decisions.stretches.is_empty() {
                p class="empty" { "No request was decided in this time." }
            } @else {
                (over_time(decisions))
            }
            (apart(told))
            (refusals(decisions))
        }
    }
}

/// Lists the decisions that no chart counts.
fn apart(told: &LedgerFigures) -> Markup {
    let decisions = &told.decisions;
    html! {
        p class="note" {
            "Not counted: " (counted(decisions.deliveries, "accepted delivery of market data",
                "accepted deliveries of market data"))
            ", and " (counted(decisions.repeated, "repeated request that got",
                "repeated requests that got"))
            " the stored answer. A held request counts when it is held, and once more when the \
                hold ends."
            @if !told.pruned.is_empty() {
                " The lines of " (counted(u64::try_from(told.pruned.len()).unwrap_or(u64::MAX),
                    "pruned \
                        segment", "pruned segments")) " are not in it."
            }
        }
    }
}

fn over_time(decisions: &Decisions) -> Markup {
    let (Some(first), Some(last)) = (decisions.stretches.first(), decisions.stretches.last())
    else {
        return html! {};
    };
    let width = decisions.stretch_ms.max(1);
    let places = (last.start.since_ms(first.start) / width)
        .saturating_add(1)
        .max(PLACES_MIN);
    let span = Span::new(
        first.start,
        first.start.plus_ms(places.saturating_mul(width)),
    );
    let most = |of: Part| {
        decisions
            .stretches
            .iter()
            .map(|it| of(&it.tally))
            .max()
            .unwrap_or(0)
    };
    let lanes: [(&str, &str, Part, u64); 3] = [
        (
            "accepted",
            "Accepted",
            |tally| tally.accepted,
            decisions.total.accepted,
        ),
        (
            "refused",
            "Refused",
            |tally| tally.refused,
            decisions.total.refused,
        ),
        ("held", "Held", |tally| tally.held, decisions.total.held),
    ];
    let top = lanes
        .iter()
        .map(|(_, _, of, _)| most(*of))
        .max()
        .unwrap_or(1)
        .max(1);
    let per = unit(width);
    let columns = [
        text("From"),
        number("Accepted"),
        number("Refused"),
        number("Held"),
    ];
    let rows: Vec<Vec<Markup>> = decisions
        .stretches
        .iter()
        .map(|Stretch { start, tally }| {
            let [accepted, refused, held] =
                [tally.accepted, tally.refused, tally.held].map(|value| html! { (count(value)) });
            vec![when(*start), accepted, refused, held]
        })
        .collect();
    html! {
        figure class="card" {
            figcaption {
                h3 { "Decisions by " (per) }
                p class="note" { "All three lanes have the same scale: the full height is "
                    (count(top)) " in one " (per) "." }
            }
            div class="lanes" {
                @for (class, name, of, all) in lanes {
                    div class="lane" {
                        div class="name" { b { (name) } " " span { (count(all)) } }
                        div class="area" { (bars(class, name, of, decisions, (places, top), &per)) }
                    }
                }
            }
            div class="lane axis" { div class="name" {} (time_axis(&span)) }
            (numbers("Numbers", &format!("Decisions by {per}"), &columns, &rows))
        }
    }
}

fn bars(
    class: &str,
    name: &str,
    of: Part,
    decisions: &Decisions,
    (places, top): (i64, u64),
    per: &str,
) -> Markup {
    let first = decisions
        .stretches
        .first()
        .map_or(0, |stretch| stretch.start.ms());
    let wide = FULL / places.max(1);
    let gap = wide / 6;
    let all: u64 = decisions
        .stretches
        .iter()
        .map(|stretch| of(&stretch.tally))
        .fold(0, u64::saturating_add);
    let description = format!("{} in all, at most {} in one {per}.", count(all), {
        count(
            decisions
                .stretches
                .iter()
                .map(|stretch| of(&stretch.tally))
                .max()
                .unwrap_or(0),
        )
    });
    svg(
        &format!("lane-{class}"),
        &format!("{name} by {per}"),
        &description,
        &html! {
            line class="base" x1="0" y1=(FULL) x2=(FULL) y2=(FULL) {}
            @for Stretch { start, tally } in &decisions.stretches {
                @let value = of(tally);
                @if value > 0 {
                    @let place = start.ms().saturating_sub(first) / decisions.stretch_ms.max(1);
                    // A minimum height keeps a single request visible beside very many.
                    @let height = share(value, top).max(400);
                    rect class=(format!("bar {class}"))
                        x=(place.saturating_mul(FULL) / places.max(1) + gap / 2) y=(FULL - height)
                        width=((wide - gap).max(1)) height=(height) {
                        title { (seconds(*start)) ": " (count(value)) " " (class) }
                    }
                }
            }
        },
    )
}

fn refusals(decisions: &Decisions) -> Markup {
    let refused = decisions.total.refused;
    let most = decisions
        .refusals
        .first()
        .map_or(1, |refusal| refusal.requests);
    let row = |Refusal {
                   by,
                   name,
                   requests,
                   alone,
               }: &Refusal| {
        let kind = match by {
            By::Check => "check",
            By::Rule => "rule",
            By::Code => "code",
        };
        vec![
            html! {
                (if *by == By::Code { outside(name) } else { outside(&words(name)) }) " "
                    span class="chip" { (kind) }
            },
            cell_bar("refused", share(*requests, most)),
            html! { (count(*requests)) },
            html! { (percent(*requests, refused).unwrap_or_else(|| "-".to_owned())) },
            html! { (count(*alone)) },
        ]
    };
    let columns = [
        text("What failed"),
        text("In comparison"),
        number("Requests"),
        number("Share of refusals"),
        number("Nothing else failed"),
    ];
    let rows: Vec<Vec<Markup>> = decisions.refusals.iter().map(row).collect();
    let (shown, rest) = rows.split_at(rows.len().min(CAUSES_MAX));
    html! {
        div class="card" {
            h3 { "What refused requests" }
            @if rows.is_empty() {
                p class="empty" { "No request was refused in this time." }
            } @else {
                p class="note" {
                    (counted(refused, "request was", "requests were"))
                        " refused. One that failed several checks counts for each of "
                    "them, so shares may add up to more than 100 %. A code is shown for a request \
                        that was refused before any check."
                }
                (table("What refused requests", &columns, shown))
                @if !rest.is_empty() {
                    (numbers(&format!("The rest: {}", rest.len()), "What else refused requests",
                        &columns, rest))
                }
            }
        }
    }
}

/// Renders the section on rules.
pub(crate) fn rules(told: &LedgerFigures) -> Markup {
    html! {
        section id="rules" {
            h2 { "Rules" }
            @match &told.history {
                None => p class="empty" { "Not shown: what rules did is computed by folding the \
                    ledger from its first line, and some of its contents were pruned." },
                Some(history) if history.efficacy.rules.is_empty() => p class="empty" {
                    "No rule has fired in this time, and none had entries in its scope."
                },
                Some(history) => { (efficacy(&history.efficacy)) }
            }
        }
    }
}

fn status(status: Option<RuleStatus>) -> &'static str {
    match status {
        Some(RuleStatus::Active) => "active",
        Some(RuleStatus::Shadow) => "shadow",
        Some(RuleStatus::Suspended) => "suspended",
        Some(RuleStatus::Retired) => "retired",
        None => "not seen",
    }
}

fn efficacy(report: &Report) -> Markup {
    let most = report
        .rules
        .iter()
        .map(|rule| rule.all.figures.tally.fired)
        .max()
        .unwrap_or(0);
    let fired: Vec<Vec<Markup>> = report
        .rules
        .iter()
        .map(|rule| fired_row(rule, most))
        .collect();
    let worth: Vec<Vec<Markup>> = report.rules.iter().map(worth_row).collect();
    let fired_columns = [
        text("Rule"),
        text("Status"),
        text("In comparison"),
        number("Fired on"),
        number("Blocked alone"),
        number("Blocked with others"),
        number("Would have, in shadow"),
        number("Warned"),
    ];
    let worth_columns = [
        text("Rule"),
        text("Verdict"),
        number("Events closed"),
        number("Days"),
        number("Repeats"),
        number("Instead"),
        number("Effect, R"),
        number("Money"),
        number("Mean without the rule"),
        number("Mean with it"),
    ];
    html! {
        div class="card" {
            h3 { "What each rule did" }
            p class="note" {
                "Numbers of requests on which the rule fired; blocked means refused or held."
            }
            (table("What each rule did", &fired_columns, &fired))
        }
        div class="card" {
            h3 { "How blocked trades would have ended" }
            p class="note" {
                "An event opens with an entry that only this rule blocked. The paper venue \
                    replays it on the rows that came after it, and holds it for "
                (report.time_stop_minutes) " minutes at most; until it ends, further entries of \
                    its strategy, symbol and side are repeats. R is the risk of the blocked order. \
                    An effect above 0 saved money. A verdict needs as many closed events as the \
                    rule's hypothesis states, or 30, on "
                (DAYS_MIN) " days."
                @if report.lost_entries > 0 {
                    " " (counted(report.lost_entries, "blocked entry", "blocked entries")) " could \
                        not be replayed."
                }
                @if report.not_followed > 0 {
                    " " (counted(report.not_followed, "entry was", "entries were")) " not \
                        replayed, because too many replays were open."
                }
                @if report.lost_rows > 0 {
                    " The rows of " (counted(report.lost_rows, "delivery", "deliveries")) " are \
                        lost and \
                            are left out."
                }
            }
            (table("How blocked trades would have ended", &worth_columns, &worth))
        }
    }
}

fn fired_row(rule: &RuleReport, most: u64) -> Vec<Markup> {
    let tally = rule.all.figures.tally;
    let shadow = tally.shadow_sole.saturating_add(tally.shadow_joint);
    vec![
        outside(rule.rule.as_str()),
        html! { span class="chip" { (status(rule.status)) } },
        cell_bar("", share(tally.fired, most.max(1))),
        html! { (count(tally.fired)) },
        html! { (count(tally.sole)) },
        html! { (count(tally.joint)) },
        html! { (count(shadow)) },
        html! { (count(tally.warned)) },
    ]
}

fn worth_row(rule: &RuleReport) -> Vec<Markup> {
    let of = &rule.all;
    let events = &of.figures.events;
    let signed_or = |value: Option<Amount>| value.map_or_else(|| "-".to_owned(), signed);
    vec![
        outside(rule.rule.as_str()),
        html! {
            span class="chip" { (rule.verdict.as_str().to_lowercase()) }
            @if let Some((low, high)) = of.interval {
                div class="note" { "winners " (format!("{low:.3}")) " to " (format!("{high:.3}"))
                    " at 95 %" }
            }
            @if let Some(even) = of.break_even {
                div class="note" { "even at " (amount(even)) }
            }
        },
        html! {
            (count(events.closed)) " of " (count(rule.sample_min))
            @if events.open > 0 || events.unfilled > 0 {
                div class="note" { (count(events.open)) " open, " (count(events.unfilled))
                    " never filled" }
            }
            @if events.displaced > 0 {
                div class="note" { (count(events.displaced)) " displaced" }
            }
        },
        html! { (count(of.day_count)) },
        html! { (count(events.repeats)) },
        html! { (count(events.instead)) },
        html! {
            b { (signed_or(of.effect)) }
            @if let Some((low, high)) = of.effect_interval {
                div class="note" { (signed(low)) " to " (signed(high)) " at 95 %" }
            }
        },
        html! { (signed_or(of.savings)) },
        html! { (signed_or(of.expectancy_before)) },
        html! { (signed_or(of.expectancy_after)) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_have_names() {
        let cases = [
            (HOUR_MS, "hour"),
            (DAY_MS, "day"),
            (7 * DAY_MS, "week"),
            (28 * DAY_MS, "4 weeks"),
        ];
        for (ms, expect) in cases {
            assert_eq!(unit(ms), expect);
        }
    }
}
