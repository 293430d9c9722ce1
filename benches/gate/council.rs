//! Ten thousand cases open at once: what opening one, a verdict and a decision take, and the gate's
//! memory meanwhile, beside the bare loop over files of the same sizes.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use spoolgate_wire::signing::sha256_hex;

use crate::Bench;
use crate::bare::{LIMIT, Loop};
use crate::child::{self, PROGRAM, Usage};
use crate::figures::{Figure, Goal, Report, Unit, number};
use crate::homes;
use crate::requests::{Agent, Sent};

/// What the loop is called in the report.
const LOOP: &str = "bare loop, 600/800/700 B";
/// Who proposes.
const PROPOSER: &str = "research-bot";
/// Who answers, by role, in the order in which they do. The last verdict decides.
const ROLES: [(&str, &str); 5] = [
    ("risk-officer", "Risk Officer"),
    ("code-auditor", "Code Auditor"),
    ("integration-engineer", "Integration Engineer"),
    ("quant-researcher", "Quant Researcher"),
    ("realism-checker", "Realism Checker"),
];

/// The payload of a case: the contract's example under another name.
fn request(n: usize) -> String {
    format!(
        r#"{{"request_id":"case-{n}","timestamp":"2025-12-09T12:00:00Z","proposer":"QuantResearchAgent_v1","change_type":"DECLARE_PASS","context":{{"summary":"Declaring that Strategy v2.1 has passed validation based on new OOS tests.","files_changed":["notes/strategy_evaluation_checklist.md"],"key_metrics":{{"total_return":15.4,"sharpe":1.2,"max_dd":-4.5,"oos_win_rate":55.0}}}},"artifacts":{{"spec_content":"spec","diff_content":"diff","validation_report":"| sharpe | 1.2 |","monte_carlo_stats":"{{\"sharpe\":{{\"p5\":0.4,\"p95\":2.0}}}}"}}}}"#
    )
}

fn verdict(n: usize, role: &str) -> String {
    let sha256 = sha256_hex(request(n).as_bytes());
    format!(
        r#"{{"request_id":"case-{n}","request_sha256":"{sha256}","verdict":{{"role":"{role}","verdict":"APPROVE","confidence_score":0.9,"checklist_results":[{{"question":"Is it sound?","answer":"Yes","pass":true}}],"concerns":["One concern of the {role}."],"required_actions":["One action."]}}}}"#
    )
}

/// Runs the gate until nothing is left.
fn drain(bench: &Bench<'_>, home: &Path) -> Result<Usage> {
    rustix::fs::syncfs(fs::File::open(home)?)?;
    let named = home.display().to_string();
    child::measured(
        bench.scratch,
        PROGRAM,
        &["--home", &named, "run", "--until-idle"],
    )
}

/// Opens the cases, files the verdicts role by role, and counts what came of it.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let n = bench.args.cases();
    let dir = bench.scratch.join("council");
    let home = homes::new(&dir)?.home;
    let mut agents = Vec::new();
    for name in [PROPOSER].iter().chain(ROLES.iter().map(|(who, _)| who)) {
        let key_file = dir.join(format!("{name}.key"));
        child::succeed(
            &home,
            &[
                "keys",
                "add",
                name,
                "--out",
                &key_file.display().to_string(),
            ],
        )?;
        agents.push(Agent::of(name, &fs::read(key_file)?)?);
    }
    let mut figures = Vec::new();
    let mut steps: Vec<(String, Vec<Sent>)> = Vec::new();
    let opened: Result<Vec<Sent>> = (0..n)
        .map(|n| agents[0].sent(&format!("open-{n:06}"), "council.request", request(n)))
        .collect();
    steps.push((format!("open {n} cases, with five briefs each"), opened?));
    for (place, (_, role)) in ROLES.iter().enumerate() {
        let filed: Result<Vec<Sent>> = (0..n)
            .map(|n| {
                agents[place + 1].sent(
                    &format!("v{place}-{n:06}"),
                    "council.verdict",
                    verdict(n, role),
                )
            })
            .collect();
        let decides = if place + 1 == ROLES.len() {
            ", each decides its case"
        } else {
            ""
        };
        steps.push((
            format!("verdict {} of 5 on {n} open cases{decides}", place + 1),
            filed?,
        ));
    }
    for (what, requests) in steps {
        bench.args.say(&format!("council: {what}"));
        let root = bench.scratch.join("bare");
        let (wall, _) = Loop::new(&root, LIMIT)?.drain(n, 256)?;
        fs::remove_dir_all(&root)?;
        homes::drop_into(&home, &requests)?;
        let usage = drain(bench, &home)?;
        let (ours, peer) = ([usage.wall * 1e6 / n as f64], [wall * 1e6 / n as f64]);
        figures.push(
            Figure::alone(what.clone(), Unit::Microseconds, &ours).beside(LOOP, &ours, &peer),
        );
        let peak = Figure::alone(
            format!("{what}: peak memory"),
            Unit::Mebibytes,
            &[usage.peak_mib],
        );
        figures.push(peak.aim(Goal::AtMost(64.0)));
    }
    let mut decided = 0;
    for entry in fs::read_dir(home.join("spool/out"))? {
        decided += usize::from(
            entry?
                .file_name()
                .to_string_lossy()
                .ends_with(".decision.json"),
        );
    }
    ensure!(decided == n, "{decided} of {n} cases were decided");
    child::succeed(&home, &["audit", "verify"])?;
    child::succeed(&home, &["council", "show", "case-0"])?;
    let bytes: u64 = homes::segments(&home)?
        .iter()
        .map(|path| Ok(fs::metadata(path)?.len()))
        .sum::<Result<u64>>()?;
    report.note(format!(
        "council: {n} cases, {n} decisions, `audit verify` said yes; {} bytes of ledger a case",
        number(bytes as f64 / n as f64)
    ));
    report.section(
        "Council: wall time a request, all of them in one backlog",
        figures,
    );
    Ok(())
}
