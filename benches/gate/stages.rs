//! Nanoseconds of processor time of each step that one order takes, by library calls, without the
//! disk.

use std::collections::BTreeMap;
use std::hint::black_box;

use anyhow::{Context, Result, ensure};
use ed25519_dalek::SigningKey;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use spoolgate_gate::prepare::{Delivery, Keyring, Origin};
use spoolgate_gate::record::{Record, Ruling};
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

    let sent = agent.order("an-order", 7, Fate::StopTooFar)?;
    let envelope = Envelope::parse(&sent.bytes)?;
    let message = envelope.signing_string();
    let SignKey::Hmac(secret) = agent.key() else {
        anyhow::bail!("a shared key")
    };
    let mut bound = || {
        black_box(Sha256::digest(black_box(&sent.bytes)));
        let mac =
            Hmac::<Sha256>::new_from_slice(secret).map(|mac| mac.chain_update(&message).finalize());
        black_box(mac.is_ok());
    };
    let mut figures = Vec::new();
    let mut add = |what: String, run: &mut dyn FnMut(), goal: Option<Goal>| {
        bench.args.say(&format!("stages: {what}"));
        let (ours, peer) = by_turns(bench, run, &mut bound);
        let figure = Figure::alone(what, Unit::Nanoseconds, &ours);
        // The goal is one of nanoseconds, not of the ratio.
        let figure = if let Some(goal) = goal {
            figure.aim(goal)
        } else {
            figure
        };
        figures.push(figure.beside(BOUND, &ours, &peer));
    };

    add(
        "parse the envelope, strictly".to_owned(),
        &mut || drop(black_box(Envelope::parse(black_box(&sent.bytes)))),
        None,
    );
    let signature = envelope.signature.clone();
    add(
        "verify HMAC-SHA256".to_owned(),
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
    add(
        "verify Ed25519".to_owned(),
        &mut || {
            black_box(public.verifies(black_box(&message), black_box(&own_signature)));
        },
        None,
    );
    let delivery = Stage::delivery(&sent);
    add(
        "prepare: parse, hash, verify, read the payload".to_owned(),
        &mut || drop(black_box(prepare(delivery.clone(), &few, stage.keys, now))),
        None,
    );

    let many = stage.with_entries(home.state(), &agent, MANY)?;
    let mut checks = 0;
    for (fate, what) in [
        (Fate::Accepted, "accepted"),
        (Fate::StopTooFar, "refused, stop too far"),
        (
            Fate::TooLarge,
            "refused, and the largest size that passes found",
        ),
    ] {
        for (state, open) in [(&few, FEW), (&many, MANY)] {
            let asked = if fate == Fate::Accepted {
                agent.entry("asked", MANY + 1)?
            } else {
                agent.order("asked", 7, fate)?
            };
            let request = stage.prepared(state, &asked);
            let decided = stage.decided(state, &request);
            let expected = if fate == Fate::Accepted {
                Ruling::Accepted
            } else {
                Ruling::Rejected
            };
            let why = &decided.decision.metadata.message;
            ensure!(
                decided.decision.decision == Some(expected),
                "{what}, {open} open: {why:?}"
            );
            checks = decided.decision.checks.len();
            let goal = (fate == Fate::Accepted && open == FEW).then_some(Goal::AtMost(5000.0));
            add(
                format!("decide, {checks} checks, {open} entries open: {what}"),
                &mut || drop(black_box(stage.decided(state, black_box(&request)))),
                goal,
            );
        }
    }

    let request = stage.prepared(&few, &sent);
    let record = Record::Decision(Box::new(stage.decided(&few, &request).decision));
    let body = record.body().map_err(anyhow::Error::msg)?;
    let prev = leaf_hash(b"the line before");
    let text = line::render(&prev, 1_000_000, 4000, record.kind(), &body)?;
    add(
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
    add(
        "hash the line".to_owned(),
        &mut || {
            black_box(leaf_hash(black_box(text.as_bytes())));
        },
        None,
    );
    let Record::Decision(decision) = &record else {
        anyhow::bail!("a decision")
    };
    let answer = decision
        .answer(None)
        .map_err(anyhow::Error::msg)?
        .to_bytes();
    add(
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
    add(
        "root and seal of a batch, once a batch".to_owned(),
        &mut || {
            drop(black_box(Seal::sign(
                &seal,
                "example.org/log",
                1000,
                &tree.root(),
                &prev,
            )))
        },
        None,
    );
    report.note(format!(
        "stages: an order of {} bytes, {checks} rows in its check vector, {FEW} or {MANY} entries \
            with their stops open; \
         each ruling was looked at before it was timed; the peer is the least that any gate must \
             do: SHA-256 of the \
         file and HMAC over its signing string",
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
