//! What rules cost an order: finding the facts that they read, and asking them.

use std::collections::BTreeMap;
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use spoolgate_gate::facts::facts;
use spoolgate_gate::handle::Turn;
use spoolgate_gate::prepare::Keyring;
use spoolgate_gate::prepare::{Delivery, Origin};
use spoolgate_gate::record::Ruling;
use spoolgate_gate::{Lookups, Prepared, decide, prepare};
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::{Around, Entries, RuleSet};
use spoolgate_wire::signing::VerifyKey;

use crate::Bench;
use crate::figures::{Figure, Goal, Report, Unit};
use crate::homes::{self, Place};
use crate::requests::{Fate, Sent};
use crate::stages::by_turns;

/// How many rules there are.
const RULES: usize = 20;
/// Their conditions, by turns: none fires for the order that is asked about, most say so with their
/// last condition.
const WHEN: [&str; 5] = [
    "{field: order.side, op: eq, value: buy}, {field: market.spread_pct, op: gt, value: 0.9}",
    "{field: order.symbol, op: in, value: [BTC-USD, ETH-USD, SOL-USD]}, {field: order.size, op: \
        gt, value: 900}",
    "{field: order.notional, op: gte, value: 0}, {field: portfolio.open_positions, op: gt, value: \
        50}",
    "{field: time.of_day, op: in, value: ['00:00-23:59']}, {field: strategy.loss_streak, op: gt, \
        value: 9}",
    "{field: portfolio.equity, op: gt, value: 1}, {field: order.stop_distance, op: gt, value: \
        0.8}, {field: order.price, op: present}",
];

struct Keys(BTreeMap<String, VerifyKey>);

impl Keyring for Keys {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        self.0.get(key_id).cloned()
    }
}

/// Measures both.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let Place { home: root, agent } = homes::new(&bench.scratch.join("rules"))?;
    let home = Home::open(&root, real_seams(&root)?)?;
    let now = real_seams(&root)?.clock.now().plus_ms(3_600_000);
    let verify = agent.key().verify_key();
    let keys = Keys(
        home.state()
            .keys
            .keys()
            .map(|id| (id.clone(), verify.clone()))
            .collect(),
    );
    let sent = agent.entry("asked", 1)?;
    let delivery = |sent: &Sent| Delivery {
        origin: Origin::Flat,
        shown: sent.name.clone(),
        file: sent.name.clone(),
        content: Ok(sent.bytes.clone()),
    };
    let request = prepare(delivery(&sent), home.state(), &keys, now);
    let authentic = request
        .request
        .ok()
        .context("the order is not signed well")?;
    let lookups = Lookups::default();
    let turn = Turn {
        state: home.state(),
        rules: home.rulebook(),
        lookups: &lookups,
        now,
        seq: 1_000_000,
        granted: None,
    };

    let texts: Vec<(String, String)> = (0..RULES)
        .map(|n| (format!("rules/core/r{n}.yaml"), text(n)))
        .collect();
    let set = RuleSet::compile(
        texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str())),
        [],
    )?;
    let program = set.programs.get("order.submit").context("no program")?;
    let (found, entries) = (
        facts(&turn, &authentic, &program.readings),
        Entries::default(),
    );
    let around = Around {
        now,
        entries: &entries,
        task: None,
    };
    ensure!(
        program.act(&found, &around).is_none(),
        "a rule acts: {found:?}"
    );
    ensure!(
        program.guards.len() == RULES,
        "{} rules",
        program.guards.len()
    );

    let readings = program.readings.len();
    let mut figures = Vec::new();
    let mut add =
        |what: String, run: &mut dyn FnMut(), peer: &mut dyn FnMut(), beside: &str, goal| {
            bench.args.say(&format!("rules: {what}"));
            let (ours, peers) = by_turns(bench, run, peer);
            let figure = Figure::alone(what, Unit::Nanoseconds, &ours).aim(goal);
            figures.push(figure.beside(beside, &ours, &peers));
        };
    let mut extract = || {
        drop(black_box(facts(
            &turn,
            black_box(&authentic),
            &program.readings,
        )))
    };
    let mut ask = || {
        black_box(program.act(black_box(&found), &around));
    };
    let mut findings = || drop(black_box(program.findings(black_box(&found), &around)));
    let what = format!("{RULES} rules asked of an order, none fires");
    add(
        what,
        &mut ask,
        &mut extract,
        "finding their facts",
        Goal::AtMost(400.0),
    );
    add(
        "the same, with what each came to".to_owned(),
        &mut findings,
        &mut extract,
        "finding their facts",
        Goal::AtMost(600.0),
    );
    let what = format!("the {readings} facts that they read");
    add(
        what,
        &mut extract,
        &mut ask,
        "asking the rules",
        Goal::AtMost(2000.0),
    );
    let mut ruled = home.rulebook().clone();
    ruled.ruleset = set.clone();
    let decided = |rules: &Rulebook, request: &Prepared| {
        decide(home.state(), rules, request, &lookups, now, 1_000_000).decision
    };
    for (sent, what) in [
        (agent.entry("asked", 1)?, "accepted"),
        (
            agent.order("asked", 7, Fate::StopTooFar)?,
            "refused, stop too far",
        ),
    ] {
        let request = prepare(delivery(&sent), home.state(), &keys, now);
        let (with, without) = (
            decided(&ruled, &request),
            decided(home.rulebook(), &request),
        );
        let rows = without.checks.len();
        ensure!(
            with.decision == without.decision,
            "{what}: {:?}",
            with.metadata.message
        );
        ensure!(
            with.decision == Some(Ruling::Accepted) || what != "accepted",
            "{:?}",
            with.metadata.message
        );
        ensure!(
            with.checks.len() == rows + RULES,
            "{} rows, {rows} without rules",
            with.checks.len()
        );
        let (mut ours, mut bare) = (
            || drop(black_box(decided(&ruled, black_box(&request)))),
            || drop(black_box(decided(home.rulebook(), black_box(&request)))),
        );
        let what = format!("decide, {rows} checks and {RULES} rules: {what}");
        add(
            what,
            &mut ours,
            &mut bare,
            "without rules",
            Goal::AtMost(5000.0),
        );
    }
    report.section("Rules of an order", figures);
    Ok(())
}

fn text(n: usize) -> String {
    let when = WHEN.get(n % WHEN.len()).copied().unwrap_or_default();
    format!(
        "id: r{n}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
            reject\nmessage: no\n"
    )
}
