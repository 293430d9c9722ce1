//! `spoolgate rules efficacy`: estimates what the rules saved.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rust_decimal::{Decimal, RoundingStrategy};
use spoolgate_gate::efficacy::Against;
use spoolgate_gate::fired::Effects;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::segment;
use spoolgate_replay::efficacy::{
    DAYS_MIN, Derived, FOLLOWED_MAX, Options, Report, RuleReport, TIME_STOP_MINUTES, efficacy,
};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::ids::RuleId;

use super::backtest::effects;
use super::time;
use crate::cli::output::Output;
use crate::cli::progress::{Progress, log_bytes};

/// Show what each rule has blocked, and how the blocked trades would have ended.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules efficacy\n  spoolgate rules efficacy --rule \
        no-entries-high-funding\n  spoolgate rules efficacy --time-stop-minutes 240 --from \
        2026-01-01T00:00:00Z\n  spoolgate --format json rules efficacy | jq '.rules[] | {rule, \
        verdict, effect}'\n\nEach blocked entry is replayed by the paper venue on the rows after \
        it, and closed at its planned stop, its target or the\ntime stop. Retries of it until then \
        are repeats, which count nothing. Effects are in R, the risk of the blocked\norder. \
        docs/rules.md explains how figures and verdicts are computed."
)]
pub(crate) struct Args {
    /// Only this rule.
    #[arg(long, value_name = "ID")]
    rule: Option<String>,
    /// Only requests decided at or after this time, RFC 3339 UTC; later market rows are always
    /// used.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only requests decided before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Maximum time that a trade waits to fill, and that it is held.
    #[arg(long, value_name = "MINUTES", default_value_t = TIME_STOP_MINUTES,
        value_parser = clap::value_parser!(u32).range(1..))]
    time_stop_minutes: u32,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let seams = real_seams(home)?;
    let options = Options {
        rule: args
            .rule
            .as_deref()
            .map(RuleId::parse)
            .transpose()
            .context("--rule")?,
        from: time("from", args.from.as_deref())?,
        to: time("to", args.to.as_deref())?,
        time_stop_minutes: args.time_stop_minutes,
    };
    let progress = Progress::bytes(
        output,
        "looking back",
        log_bytes(&home.join(segment::AUDIT_DIR)),
    );
    let report = efficacy(home, &seams, &options, &mut |done| progress.at(done));
    drop(progress);
    let report = report?;
    if let Some(rule) = args.rule.as_ref().filter(|_| report.rules.is_empty()) {
        bail!("rule `{rule}` does not exist: it is in no rulebook of that time");
    }
    if output.is_json() {
        output.json(&report)?;
    } else {
        print(&report, output)?;
    }
    Ok(Exit::Success)
}

fn print(report: &Report, output: &Output) -> Result<()> {
    if report.rules.is_empty() {
        output.remark("no rule has fired, and none is in a rulebook of the time");
    }
    for rule in &report.rules {
        let name = format!("{} {}", rule.rule, rule.verdict.as_str());
        output.line(&events_of(&name, &rule.all))?;
        if rule.regimes.len() > 1 {
            for (regime, of) in &rule.regimes {
                let line = events_of(&format!("  in {regime}"), of);
                output.line(&crate::cli::output::plain(&line))?;
            }
        }
    }
    let header = [
        "rule", "blocked", "winners", "95%", "even at", "before", "after",
    ];
    let rows: Vec<Vec<String>> = report.rules.iter().flat_map(rows_of).collect();
    output.table(&header, header.get(1..).unwrap_or_default(), &rows)?;
    let tallies: BTreeMap<RuleId, _> = report
        .rules
        .iter()
        .filter(|rule| rule.all.figures.tally.fired > 0)
        .map(|rule| (rule.rule.clone(), rule.all.figures.tally))
        .collect();
    effects(
        output,
        &[(
            "recorded",
            &Effects {
                rules: tallies,
                ..Effects::default()
            },
        )],
    )?;
    for rule in &report.rules {
        for line in told_of(rule) {
            output.line(&crate::cli::output::plain(&line))?;
        }
    }
    if report.lost_entries > 0 {
        output.remark(&format!(
            "{} blocked entries cannot be replayed: their payload is not in the ledger",
            report.lost_entries
        ));
    }
    if report.not_followed > 0 {
        output.remark(&format!(
            "{} entries were not replayed: {FOLLOWED_MAX} replays were open; take a shorter time \
                with --from and --to",
            report.not_followed
        ));
    }
    if report.lost_rows > 0 {
        output.remark(&format!(
            "the rows of {} deliveries are lost and are left out",
            report.lost_rows
        ));
    }
    Ok(())
}

fn number(amount: Option<Amount>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| amount.normalized().to_string())
}

/// Writes R with one decimal. Exact values are in the JSON form.
fn in_r(amount: Amount) -> String {
    let rounded = amount
        .decimal()
        .round_dp_with_strategy(1, RoundingStrategy::MidpointNearestEven);
    // A decimal keeps the sign of a number that was rounded to 0.
    let rounded = if rounded.is_zero() {
        Decimal::ZERO
    } else {
        rounded
    };
    format!("{rounded:.1}")
}

/// Returns the line on events: `events 12  days 9  repeats 371  instead 3  effect +4.2 R (-1.1 to
/// 9.0)`, and the money beside it.
fn events_of(name: &str, of: &Derived) -> String {
    let events = &of.figures.events;
    let displaced = match events.displaced {
        0 => String::new(),
        displaced => format!("  displaced {displaced}"),
    };
    let effect = of.effect.zip(of.effect_interval).map_or_else(
        || "-".to_owned(),
        |(effect, (low, high))| {
            let sign = if effect.is_positive() { "+" } else { "" };
            let (low, high) = (in_r(low), in_r(high));
            format!("{sign}{} R ({low} to {high})", in_r(effect))
        },
    );
    format!(
        "{name}  events {}  days {}  repeats {}  instead {}{displaced}  effect {effect}  money {}",
        events.opened,
        of.day_count,
        events.repeats,
        events.instead,
        number(of.savings),
    )
}

fn rows_of(rule: &RuleReport) -> Vec<Vec<String>> {
    let row = |name: String, of: &Derived| {
        let blocked = of.figures.blocked;
        vec![
            name,
            blocked.closed.to_string(),
            blocked.winners.to_string(),
            of.interval.map_or_else(
                || "-".to_owned(),
                |(low, high)| format!("{low:.3} to {high:.3}"),
            ),
            number(of.break_even),
            number(of.expectancy_before),
            number(of.expectancy_after),
        ]
    };
    let mut rows = vec![row(rule.rule.to_string(), &rule.all)];
    if rule.regimes.len() > 1 {
        rows.extend(
            rule.regimes
                .iter()
                .map(|(name, of)| row(format!("  in {name}"), of)),
        );
    }
    rows
}

fn told_of(rule: &RuleReport) -> Vec<String> {
    let mut lines = Vec::new();
    let events = &rule.all.figures.events;
    if events.open > 0 || events.unfilled > 0 {
        lines.push(format!(
            "{}: of its events, {} have no known end, and {} ended unfilled",
            rule.rule, events.open, events.unfilled
        ));
    }
    if events.displaced > 0 {
        lines.push(format!(
            "{}: limits refused {} entries while a position was open that it let in, in shadow, or \
                that a repeat opened",
            rule.rule, events.displaced
        ));
    }
    let has_sample = events.closed >= rule.sample_min && rule.all.day_count >= DAYS_MIN;
    if !has_sample && rule.all.figures.tally.fired > 0 {
        lines.push(format!(
            "{}: {} closed events on {} days; a verdict needs {} on {DAYS_MIN}",
            rule.rule, events.closed, rule.all.day_count, rule.sample_min
        ));
    }
    if let Some(tested) = &rule.hypothesis {
        let against = match tested.against {
            Against::Above => "above the baseline",
            Against::Below => "below the baseline",
            Against::Unclear => "not distinguishable from the baseline",
            Against::NotComputed => "not computed; only win_rate and expectancy are",
        };
        lines.push(format!(
            "{}: {} is {} over {} trades, against {} over {}: {against}",
            rule.rule,
            tested.hypothesis.metric,
            number(tested.value),
            tested.sample,
            tested.hypothesis.baseline_value,
            tested.hypothesis.baseline_sample
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_replay::efficacy::{Events, Figures};

    fn a(text: &str) -> Amount {
        Amount::parse_exact(text).unwrap()
    }

    #[test]
    fn the_line_on_events() {
        let events = Events {
            opened: 12,
            repeats: 371,
            instead: 3,
            ..Events::default()
        };
        let mut of = Derived {
            figures: Figures {
                events,
                ..Figures::default()
            },
            day_count: 9,
            effect: Some(a("4.15000001")),
            effect_interval: Some((a("-1.06"), a("9"))),
            savings: Some(a("38.20")),
            expectancy_before: None,
            expectancy_after: None,
            blocked_winners: None,
            interval: None,
            break_even: None,
        };
        assert_eq!(
            events_of("no-big INCONCLUSIVE", &of),
            "no-big INCONCLUSIVE  events 12  days 9  repeats 371  instead 3  effect +4.2 R (-1.1 to \
                9.0)  money 38.2"
        );
        of.figures.events.displaced = 2;
        (of.effect, of.effect_interval, of.savings) = (None, None, None);
        assert_eq!(
            events_of("  in calm", &of),
            "  in calm  events 12  days 9  repeats 371  instead 3  displaced 2  effect -  money -"
        );
        of.effect = Some(a("-0.04"));
        of.effect_interval = of.effect.zip(of.effect);
        assert!(events_of("x", &of).contains("effect 0.0 R (0.0 to 0.0)"));
    }
}
