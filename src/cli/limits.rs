//! `spoolgate limits`: sets another value of a limit for a while, and shows which have one.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_rules::overrides::Override;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::code::Exit;
use spoolgate_wire::limits::LimitName;
use spoolgate_wire::time::Time;

use super::handover::{self, Person};
use super::look;
use super::output::{Output, short};

/// The commands.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Set another value of a limit for at most 24 hours.
    #[command(
        after_help = "Examples:\n  spoolgate limits override max_single_position 0.08 --until 2h \
            --reason \"the roll of the future\"\n  spoolgate limits override max_daily_loss 100 \
            --until 20h --reason \"a release is due\"\n\nThe value is in the unit of \
            rules/safety.yaml and at most twice the value there. At its end the value of the\nfile \
            applies again, and working entries beyond it are pulled."
    )]
    Override(OverrideArgs),
    /// Show the limits that can be overridden, and their overrides.
    #[command(
        after_help = "Examples:\n  spoolgate limits list\n  spoolgate --format json limits list | jq \
            -r 'select(.until).limit'"
    )]
    List,
    /// End an override now.
    #[command(
        after_help = "Examples:\n  spoolgate limits end max_single_position\n  spoolgate limits end \
            max_daily_loss --reason \"done earlier\""
    )]
    End(EndArgs),
}

/// Overrides a limit.
#[derive(clap::Args)]
pub(super) struct OverrideArgs {
    /// The limit, by its name in rules/safety.yaml.
    #[arg(value_parser = limit)]
    limit: LimitName,
    /// Its value for that time.
    #[arg(value_parser = Amount::parse_wire)]
    value: Amount,
    /// When it ends: a time, RFC 3339 UTC, or how long it lasts, such as 90s, 30m or 2h.
    #[arg(long, value_name = "TIME", value_parser = until)]
    until: Until,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    by: Person,
}

/// Ends an override.
#[derive(clap::Args)]
pub(super) struct EndArgs {
    /// The limit, by its name in rules/safety.yaml.
    #[arg(value_parser = limit)]
    limit: LimitName,
    /// The reason; it is recorded in the ledger.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    by: Person,
}

/// The end of an override.
#[derive(Clone, Copy)]
enum Until {
    At(Time),
    /// Milliseconds from now.
    In(i64),
}

impl Until {
    fn time(self) -> Time {
        match self {
            Until::At(time) => time,
            Until::In(ms) => SystemClock::default().now().plus_ms(ms),
        }
    }
}

fn limit(text: &str) -> Result<LimitName, String> {
    let mut all = LimitName::ALL.into_iter();
    all.find(|name| name.as_str() == text).ok_or_else(|| {
        let names = LimitName::ALL.map(LimitName::as_str);
        format!("it cannot be overridden; use one of {}", names.join(", "))
    })
}

fn until(text: &str) -> Result<Until, String> {
    let units = [("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
    for (unit, ms) in units {
        let Some(count) = text.strip_suffix(unit) else {
            continue;
        };
        // `parse` would also read a plus sign.
        let count = (!count.starts_with('+')).then(|| count.parse::<u32>());
        let count = count.and_then(Result::ok).map(i64::from);
        let lasts = count.and_then(|count| count.checked_mul(ms));
        return lasts.filter(|ms| *ms > 0).map(Until::In).ok_or_else(|| {
            "use a whole number of seconds, minutes or hours, such as 90s, 30m or 2h".to_owned()
        });
    }
    Time::parse(text).map(Until::At).map_err(|error| {
        format!("{error}; use a time such as 2026-03-02T18:00:00Z, or 90s, 30m or 2h from now")
    })
}

/// A limit as JSON output.
#[derive(Serialize)]
struct Shown<'a> {
    limit: LimitName,
    /// Its value in force.
    value: Amount,
    /// Its value in rules/safety.yaml.
    in_file: Amount,
    /// When that applies again; null if it does now, like the members below.
    until: Option<Time>,
    line: Option<u64>,
    by: Option<&'a str>,
    reason: Option<&'a str>,
}

/// Runs a command.
pub(super) fn run(home: &Path, command: &Command, output: &Output) -> Result<Exit> {
    match command {
        Command::List => list(home, output),
        Command::Override(args) => {
            let (name, until) = (args.limit.as_str(), args.until.time());
            let payload = serde_json::json!({
                "limit": name, "value": args.value, "until": until, "reason": args.reason,
            });
            handover::administer(
                home,
                &args.by.person,
                ActionName::LimitsOverride,
                &payload,
                output,
                |answer| {
                    let (value, line) = (args.value, &answer.audit_ref);
                    format!("`{name}` is {value} until {until} (ledger line {line})")
                },
            )
        }
        Command::End(args) => {
            let name = args.limit.as_str();
            let payload = match &args.reason {
                Some(reason) => serde_json::json!({"limit": name, "reason": reason}),
                None => serde_json::json!({"limit": name}),
            };
            handover::administer(
                home,
                &args.by.person,
                ActionName::LimitsEnd,
                &payload,
                output,
                |answer| {
                    let line = &answer.audit_ref;
                    format!(
                        "`{name}` has the value of rules/safety.yaml again (ledger line {line})"
                    )
                },
            )
        }
    }
}

fn list(home: &Path, output: &Output) -> Result<Exit> {
    let (view, now) = look::view(home)?;
    let mut overrides = view.state.overrides.clone();
    // Where no gate runs, nobody has written yet that one is over.
    overrides.retain(|_, set| !set.is_over(now));
    let rules = view.rulebook.under(&overrides);
    let file = rules.limits_of_file();
    let shown = LimitName::ALL.map(|limit| {
        let set: Option<&Override> = overrides.get(&limit);
        Shown {
            limit,
            value: rules.safety.limit(limit),
            in_file: file.limit(limit),
            until: set.map(|set| set.until),
            line: set.map(|set| set.line),
            by: set.map(|set| set.by.as_str()),
            reason: set.map(|set| set.reason.as_str()),
        }
    });
    if output.is_json() {
        shown.iter().try_for_each(|limit| output.json(limit))?;
        return Ok(Exit::Success);
    }
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|of| {
            vec![
                of.limit.as_str().to_owned(),
                of.value.normalized().to_string(),
                of.in_file.normalized().to_string(),
                or_dash(of.until.map(|until| until.to_string())),
                or_dash(of.line.map(|line| line.to_string())),
                or_dash(of.by.map(str::to_owned)),
                or_dash(of.reason.map(|reason| short(reason, 60))),
            ]
        })
        .collect();
    let header = [
        "limit",
        "in force",
        "in the file",
        "until",
        "line",
        "by",
        "reason",
    ];
    output.table(&header, &["in force", "in the file"], &rows)?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_a_time_or_how_long_it_lasts() {
        for (text, expected) in [
            ("90s", 90_000),
            ("30m", 1_800_000),
            ("2h", 7_200_000),
            ("24h", 86_400_000),
            ("4294967295h", 15_461_882_262_000_000),
        ] {
            assert!(
                matches!(until(text), Ok(Until::In(ms)) if ms == expected),
                "{text}"
            );
        }
        let at = Time::parse("2026-03-02T18:00:00Z").unwrap();
        assert!(matches!(until("2026-03-02T18:00:00Z"), Ok(Until::At(time)) if time == at));
        for wrong in [
            "0s",
            "-1h",
            "+1h",
            "1.5h",
            "h",
            "2",
            "2d",
            "",
            "4294967296s",
            "18:00",
            "2026-03-02",
        ] {
            assert!(until(wrong).is_err(), "{wrong}");
        }
        assert!(limit("max_single_position").is_ok());
        assert!(
            limit("max_drawdown")
                .unwrap_err()
                .contains("max_daily_loss")
        );
    }
}
