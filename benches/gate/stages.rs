//! Nanoseconds of processor time of each step that one order takes, by library calls, without the
//! disk.

use std::collections::BTreeMap;
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use spoolgate_gate::prepare::{Delivery, Keyring, Origin};
use spoolgate_gate::pulls;
use spoolgate_gate::record::{Decision, Record, Ruling};
use spoolgate_gate::{Decided, Lookups, Prepared, State, decide, prepare};
use spoolgate_home::Home;
use spoolgate_home::read::real_seams;
use spoolgate_ledger::line;
use spoolgate_ledger::seal::Seal;
use spoolgate_ledger::tree::{Frontier, leaf_hash};
use spoolgate_rules::Rulebook;
use spoolgate_trading::order::OrderRole;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::signing::{SignKey, VerifyKey};
use spoolgate_wire::time::Time;

use crate::Bench;
use crate::child::thread_seconds;
use crate::figures::{Figure, Goal, Report, Unit};
use crate::homes::{self, Place};
use crate::requests::{Agent, Fate, Sent};

/// Open entries of a book that an agent could have.
const FEW: usize = 2;
/// And of one that shows how the time grows.
const MANY: usize = 50;
/// The peer of a step, in the report.
const BOUND: &str = "SHA-256 + HMAC, bare";

/// The keys that a state names.
struct Keys(BTreeMap<String, VerifyKey>);

impl Keyring for Keys {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        self.0.get(key_id).cloned()
    }
}

/// Nanoseconds a call of each of two functions, in turns, sample by sample.
pub(crate) fn by_turns(
    bench: &Bench<'_>,
    ours: &mut dyn FnMut(),
    peer: &mut dyn FnMut(),
) -> (Vec<f64>, Vec<f64>) {
    let samples = if bench.args.quick { 3 } else { 9 };
    let (mut taken, mut of_peer) = (Vec::new(), Vec::new());
    let calls = [calls_for(bench, ours), calls_for(bench, peer)];
    for _ in 0..samples {
        of_peer.push(nanoseconds(calls[1], peer));
        taken.push(nanoseconds(calls[0], ours));
    }
    (taken, of_peer)
}

/// Processor time, so that other work on the machine counts little.
fn nanoseconds(calls: u64, run: &mut dyn FnMut()) -> f64 {
    let started = thread_seconds();
    (0..calls).for_each(|_| run());
    (thread_seconds() - started) * 1e9 / calls as f64
}

/// How many calls fill a sample.
fn calls_for(bench: &Bench<'_>, run: &mut dyn FnMut()) -> u64 {
    let mut calls = 1;
    while nanoseconds(calls, run) * (calls as f64) < bench.args.sample_ms() as f64 * 1e5 {
        calls *= 2;
    }
    calls * 10
}

/// An order in front of the gate.
struct Stage<'a> {
    rules: &'a Rulebook,
    keys: &'a Keys,
    now: Time,
}

impl Stage<'_> {
    fn delivery(sent: &Sent) -> Delivery {
        let file = sent.name.clone();
        Delivery {
            origin: Origin::Flat,
            shown: file.clone(),
            file,
            content: Ok(sent.bytes.clone()),
        }
    }

    fn prepared(&self, state: &State, sent: &Sent) -> Prepared {
        prepare(Self::delivery(sent), state, self.keys, self.now)
    }

    fn decided(&self, state: &State, request: &Prepared) -> Decided {
        decide(
            state,
            self.rules,
            request,
            &Lookups::default(),
            self.now,
            1_000_000,
        )
    }

    /// The state with this many more entries open.
    fn with_entries(&self, state: &State, agent: &Agent, entries: usize) -> Result<State> {
        let mut state = state.clone();
        for n in 0..entries {
            let sent = agent.entry(&format!("open{n}"), n)?;
            let request = self.prepared(&state, &sent);
            let seq = 2_000_000 + u64::try_from(n)?;
            let decided = decide(
                &state,
                self.rules,
                &request,
                &Lookups::default(),
                self.now,
                seq,
            );
            let ruling = &decided.decision;
            ensure!(
                ruling.decision == Some(Ruling::Accepted),
                "entry {n}: {:?}",
                ruling.metadata.message
            );
            for change in &decided.decision.changes {
                state.apply(change)?;
            }
        }
        let open = state
            .book
            .orders
            .values()
            .filter(|order| order.role == OrderRole::Entry)
            .count();
        ensure!(open == entries, "{open} entries are open");
        Ok(state)
    }
}

/// The figures of the steps, each beside the peer.
struct Steps<'a> {
    bench: &'a Bench<'a>,
    bound: &'a mut dyn FnMut(),
    figures: Vec<Figure>,
}

impl Steps<'_> {
    fn add(&mut self, what: impl Into<String>, run: &mut dyn FnMut(), goal: Option<Goal>) {
        let what = what.into();
        self.bench.args.say(&format!("stages: {what}"));
        let (ours, peer) = by_turns(self.bench, run, self.bound);
        let mut figure = Figure::alone(what, Unit::Nanoseconds, &ours);
        // The goal is one of nanoseconds, not of the ratio.
        if let Some(goal) = goal {
            figure = figure.aim(goal);
        }
        self.figures.push(figure.beside(BOUND, &ours, &peer));
    }
}

/// Measures every step.
pub(crate) fn measure(bench: &Bench<'_>, report: &mut Report) -> Result<()> {
    let Place { home: root, agent } = homes::new(&bench.scratch.join("stages"))?;
    let home = Home::open(&root, real_seams(&root)?)?;
    // An hour on: requests that are signed while this runs must not come from the future.
    let now = real_seams(&root)?.clock.now().plus_ms(3_600_000);
    let verify = agent.key().verify_key();
    let keys = home
        .state()
        .keys
        .keys()
        .map(|id| (id.clone(), verify.clone()))
        .collect();
    let stage = Stage {
        rules: home.rulebook(),
        keys: &Keys(keys),
        now,
    };
    let few = stage.with_entries(home.state(), &agent, FEW)?;
    let many = stage.with_entries(home.state(), &agent, MANY)?;

    let sent = agent.order("an-order", 7, Fate::StopTooFar)?;
    let message = Envelope::parse(&sent.bytes)?.signing_string();
    let SignKey::Hmac(secret) = agent.key() else {
        anyhow::bail!("a shared key")
    };
    let mut bound = || {
        black_box(Sha256::digest(black_box(&sent.bytes)));
        let mac =
            Hmac::<Sha256>::new_from_slice(secret).map(|mac| mac.chain_update(&message).finalize());
        black_box(mac.is_ok());
    };
    let mut steps = Steps {
        bench,
        bound: &mut bound,
        figures: Vec::new(),
    };
    reading(&mut steps, &stage, &few, &sent, &verify)?;
    let checks = deciding(&mut steps, &stage, [(&few, FEW), (&many, MANY)], &agent)?;
    let decision = stage.decided(&few, &stage.prepared(&few, &sent)).decision;
    writing(&mut steps, decision)?;
    let figures = steps.figures;
    report.note(format!(
        "stages: an order of {} bytes, {checks} rows in its check vector, {FEW} or {MANY} entries \
         with their stops open; each ruling was looked at before it was timed; the peer is the \
         least that any gate must do: SHA-256 of the file and HMAC over its signing string",
        sent.bytes.len()
    ));
    report.section(
        "One order, step by step, processor time without the disk",
        figures,
    );
    drop(home);
    std::fs::remove_dir_all(root.parent().context("the folder of the home")?)?;
    Ok(())
}

/// The steps from the file to a prepared request.
fn reading(
    steps: &mut Steps<'_>,
    stage: &Stage<'_>,
    state: &State,
    sent: &Sent,
    verify: &VerifyKey,
) -> Result<()> {
    steps.add(
        "parse the envelope, strictly",
        &mut || drop(black_box(Envelope::parse(black_box(&sent.bytes)))),
        None,
    );
    let envelope = Envelope::parse(&sent.bytes)?;
    let message = envelope.signing_string();
    let signature = envelope.signature;
    steps.add(
        "verify HMAC-SHA256",
        &mut || {
            black_box(verify.verifies(black_box(&message), black_box(&signature)));
        },
        None,
    );
    let own = SignKey::Ed25519(Box::new(SigningKey::from_bytes(&[9; 32])));
    let (public, own_signature) = (own.verify_key(), own.sign(&message));
    ensure!(
        public.verifies(&message, &own_signature) && verify.verifies(&message, &signature),
        "a signature"
    );
    steps.add(
        "verify Ed25519",
        &mut || {
            black_box(public.verifies(black_box(&message), black_box(&own_signature)));
        },
        None,
    );
    let delivery = Stage::delivery(sent);
    steps.add(
        "prepare: parse, hash, verify, read the payload",
        &mut || {
            let delivery = delivery.clone();
            drop(black_box(prepare(delivery, state, stage.keys, stage.now)));
        },
        None,
    );
    Ok(())
}

/// Decisions with few and many entries open. Returns how many rows the last one has.
fn deciding(
    steps: &mut Steps<'_>,
    stage: &Stage<'_>,
    states: [(&State, usize); 2],
    agent: &Agent,
) -> Result<usize> {
    let mut checks = 0;
    for (fate, what) in [
        (Fate::Accepted, "accepted"),
        (Fate::StopTooFar, "refused, stop too far"),
        (
            Fate::TooLarge,
            "refused, and the largest size that passes found",
        ),
    ] {
        for (state, open) in states {
            let (asked, expected) = if fate == Fate::Accepted {
                (agent.entry("asked", MANY + 1)?, Ruling::Accepted)
            } else {
                (agent.order("asked", 7, fate)?, Ruling::Rejected)
            };
            let request = stage.prepared(state, &asked);
            let decision = stage.decided(state, &request).decision;
            let why = &decision.metadata.message;
            ensure!(
                decision.decision == Some(expected),
                "{what}, {open} open: {why:?}"
            );
            checks = decision.checks.len();
            let most = if open == FEW { 5000.0 } else { 15_000.0 };
            let goal = (fate == Fate::Accepted).then_some(Goal::AtMost(most));
            steps.add(
                format!("decide, {checks} checks, {open} entries open: {what}"),
                &mut || drop(black_box(stage.decided(state, black_box(&request)))),
                goal,
            );
        }
    }
    let [_, (many, open)] = states;
    let margin = *stage.rules.safety.pull_margin;
    let due = || pulls::due(many, stage.rules, margin, stage.now).len();
    ensure!(due() == 0, "every entry is still allowed");
    steps.add(
        format!("ask {open} entries again, as after every event"),
        &mut || {
            black_box(due());
        },
        Some(Goal::AtMost(10_000.0)),
    );
    Ok(checks)
}

/// The steps from a decision to its line, its answer and the seal.
fn writing(steps: &mut Steps<'_>, decision: Decision) -> Result<()> {
    let answer = decision
        .answer(None)
        .map_err(anyhow::Error::msg)?
        .to_bytes();
    let record = Record::Decision(Box::new(decision.clone()));
    let body = record.body().map_err(anyhow::Error::msg)?;
    let prev = leaf_hash(b"the line before");
    let text = line::render(&prev, 1_000_000, 4000, record.kind(), &body)?;
    steps.add(
        format!("render the line, {} bytes", text.len()),
        &mut || {
            let body = record.body().unwrap_or_default();
            drop(black_box(line::render(
                &prev,
                1_000_000,
                4000,
                record.kind(),
                &body,
            )));
        },
        None,
    );
    steps.add(
        "hash the line",
        &mut || {
            black_box(leaf_hash(black_box(text.as_bytes())));
        },
        None,
    );
    steps.add(
        format!("make the answer, {} bytes", answer.len()),
        &mut || {
            drop(black_box(
                decision.answer(None).map(|answer| answer.to_bytes()),
            ))
        },
        None,
    );
    let mut tree = Frontier::default();
    (0..1000).for_each(|_| tree.push(prev));
    let seal = SigningKey::from_bytes(&[3; 32]);
    steps.add(
        "root and seal of a batch, once a batch",
        &mut || {
            drop(black_box(Seal::sign(
                &seal,
                "example.org/log",
                1000,
                &tree.root(),
                &prev,
            )));
        },
        None,
    );
    Ok(())
}
