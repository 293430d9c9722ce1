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
use spoolgate_wire::time::Time;

use crate::Bench;
use crate::figures::{Figure, Goal, Report, Unit};
use crate::homes::{self, Place};
use crate::requests::{Agent, Fate, Sent};
use crate::stages::by_turns;

/// How many rules there are.
const RULES: usize = 20;
/// Their conditions, by turns: none fires for the order that is asked about, most say so with their
/// last condition.
const WHEN: [&str; 5] = [
    "{field: order.side, op: eq, value: buy}, {field: market.spread, op: gt, value: 0.9}",
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
    let keys = home
        .state()
        .keys
        .keys()
        .map(|id| (id.clone(), verify.clone()));
    let lane = Lane {
        bench,
        home: &home,
        keys: Keys(keys.collect()),
        lookups: Lookups::default(),
        now,
    };
    let texts: Vec<(String, String)> = (0..RULES)
        .map(|n| (format!("rules/core/r{n}.yaml"), text(n)))
        .collect();
    let files = texts
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()));
    let set = RuleSet::compile(files, [])?;
    let mut figures = Vec::new();
    lane.asked(&set, &agent, &mut figures)?;
    let mut ruled = home.rulebook().clone();
    ruled.ruleset = set;
    for (sent, what) in [
        (agent.entry("asked", 1)?, "accepted"),
        (
            agent.order("asked", 7, Fate::StopTooFar)?,
            "refused, stop too far",
        ),
    ] {
        lane.decided(&ruled, &sent, what, &mut figures)?;
    }
    report.section("Rules of an order", figures);
    Ok(())
}

/// A home in which orders are prepared and decided.
struct Lane<'a> {
    bench: &'a Bench<'a>,
    home: &'a Home,
    keys: Keys,
    lookups: Lookups,
    now: Time,
}

impl Lane<'_> {
    fn prepared(&self, sent: &Sent) -> Prepared {
        let delivery = Delivery {
            origin: Origin::Flat,
            shown: sent.name.clone(),
            file: sent.name.clone(),
            content: Ok(sent.bytes.clone()),
        };
        prepare(delivery, self.home.state(), &self.keys, self.now)
    }

    fn figure(
        &self,
        what: String,
        run: &mut dyn FnMut(),
        (beside, peer): (&str, &mut dyn FnMut()),
        goal: f64,
    ) -> Figure {
        self.bench.args.say(&format!("rules: {what}"));
        let (ours, peers) = by_turns(self.bench, run, peer);
        let figure = Figure::alone(what, Unit::Nanoseconds, &ours).aim(Goal::AtMost(goal));
        figure.beside(beside, &ours, &peers)
    }

    /// Measures the facts and the rules by themselves.
    fn asked(&self, set: &RuleSet, agent: &Agent, figures: &mut Vec<Figure>) -> Result<()> {
        let request = self.prepared(&agent.entry("asked", 1)?).request;
        let authentic = request.ok().context("the order is not signed well")?;
        let turn = Turn {
            state: self.home.state(),
            rules: self.home.rulebook(),
            lookups: &self.lookups,
            now: self.now,
            seq: 1_000_000,
            granted: None,
        };
        let program = set.programs.get("order.submit").context("no program")?;
        let found = facts(&turn, &authentic, &program.readings);
        let entries = Entries::default();
        let around = Around {
            now: self.now,
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
        let facts = "finding their facts";
        let what = format!("{RULES} rules asked of an order, none fires");
        figures.push(self.figure(what, &mut ask, (facts, &mut extract), 400.0));
        let what = "the same, with what each came to".to_owned();
        figures.push(self.figure(what, &mut findings, (facts, &mut extract), 600.0));
        let what = format!("the {} facts that they read", program.readings.len());
        figures.push(self.figure(what, &mut extract, ("asking the rules", &mut ask), 2000.0));
        Ok(())
    }

    /// Measures a decision with the rules beside one without.
    fn decided(
        &self,
        ruled: &Rulebook,
        sent: &Sent,
        what: &str,
        figures: &mut Vec<Figure>,
    ) -> Result<()> {
        let (state, lookups, now) = (self.home.state(), &self.lookups, self.now);
        let decided = |rules: &Rulebook, request: &Prepared| {
            decide(state, rules, request, lookups, now, 1_000_000).decision
        };
        let bare = self.home.rulebook();
        let request = self.prepared(sent);
        let (with, without) = (decided(ruled, &request), decided(bare, &request));
        let (rows, all) = (without.checks.len(), with.checks.len());
        let message = &with.metadata.message;
        ensure!(with.decision == without.decision, "{what}: {message:?}");
        let accepted = with.decision == Some(Ruling::Accepted);
        ensure!(accepted || what != "accepted", "{message:?}");
        ensure!(all == rows + RULES, "{all} rows, {rows} without rules");
        let mut ours = || drop(black_box(decided(ruled, black_box(&request))));
        let mut peer = || drop(black_box(decided(bare, black_box(&request))));
        let what = format!("decide, {rows} checks and {RULES} rules: {what}");
        figures.push(self.figure(what, &mut ours, ("without rules", &mut peer), 5000.0));
        Ok(())
    }
}

fn text(n: usize) -> String {
    let when = WHEN.get(n % WHEN.len()).copied().unwrap_or_default();
    format!(
        "id: r{n}\nstatus: active\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
            reject\nmessage: no\n"
    )
}
