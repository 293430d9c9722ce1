//! `audit replay` beside the bare fold of the same lines, which is what `rebuild` does.

use anyhow::{Result, ensure};

use crate::Bench;
use crate::child::{self, PROGRAM};
use crate::figures::{Figure, Report, Unit};
use crate::homes::{self, Fill};

/// Replays a large home in one thread and in two, by turns with `rebuild`.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let say = |text: &str| bench.args.say(text);
    let place = homes::filled(
        &bench.args.kept_homes(),
        Fill::Bytes(bench.args.ledger_bytes()),
        &say,
    )?;
    let home = place.home.display().to_string();
    let audit = place.home.join("audit").display().to_string();
    let told = child::succeed(&place.home, &["--format", "json", "audit", "replay"])?;
    let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
    let count = |name: &str| told[name].as_f64().unwrap_or_default();
    let (lines, decisions) = (count("lines"), count("decisions"));
    ensure!(
        count("differences") == 0.0 && decisions > 0.0,
        "the home does not replay: {told}"
    );
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads: Vec<usize> = [1, 2, 3]
        .into_iter()
        .filter(|count| *count <= cores + 1)
        .collect();
    let mut seconds = vec![Vec::new(); threads.len()];
    let (mut peaks, mut folds) = (vec![0.0_f64; threads.len()], Vec::new());
    for round in 1..=bench.args.rounds() {
        bench.args.say(&format!("replay: round {round}"));
        let rebuild = ["--home", &home, "rebuild"].map(str::to_owned);
        folds.push(child::measured(bench.scratch, PROGRAM, &rebuild)?.wall);
        for (at, count) in threads.iter().enumerate() {
            let count = count.to_string();
            let replay = ["audit", "replay", &audit, "--threads", &count].map(str::to_owned);
            // It ends with success only if every line comes out the same.
            let usage = child::measured(bench.scratch, PROGRAM, &replay)?;
            seconds[at].push(usage.wall);
            peaks[at] = peaks[at].max(usage.peak_mib);
        }
    }
    let rate = |count: f64, seconds: &[f64]| seconds.iter().map(|s| count / s).collect::<Vec<_>>();
    let mut figures = Vec::new();
    for ((count, seconds), peak) in threads.iter().zip(&seconds).zip(&peaks) {
        let name = format!("decisions replayed, threads {count}");
        figures.push(Figure::alone(
            name,
            Unit::PerSecond,
            &rate(decisions, seconds),
        ));
        let name = format!("lines replayed, threads {count}");
        let (own, fold) = (rate(lines, seconds), rate(lines, &folds));
        figures.push(Figure::alone(name, Unit::PerSecond, &own).beside("rebuild", &own, &fold));
        figures.push(Figure::alone(
            format!("its peak memory, threads {count}"),
            Unit::Mebibytes,
            &[*peak],
        ));
    }
    report.note("replay: every run said that all lines come out the same, byte for byte");
    report.section("Every line recomputed", figures);
    Ok(())
}
