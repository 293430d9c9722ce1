//! The council's aggregation: each threshold one unit below, at and above it; the contract's own
//! example field by field; every property over random councils; and a second, naive implementation
//! beside it.

pub(crate) mod example;
mod junk;
mod oracle;
mod properties;
mod random;
mod tables;

use std::collections::BTreeMap;

use crate::kit::dice::Dice;
use spoolgate_council::aggregate::{self, Ruling};
use spoolgate_council::finding::Evidence;
use spoolgate_council::signers::Filed;
use spoolgate_rules::roles::{PATH, Roles, SHIPPED};
use spoolgate_wire::council::{CouncilRequest, RoleVerdict, Stance};

/// The number of councils in a normal run.
const FEW: u64 = 500;

/// The number of councils in the long run.
const MANY: u64 = 100_000;

/// Another council: axes that several roles share, an axis without a role, other weights, and own
/// floors for one change type.
fn other_rules() -> Roles {
    let mut text = SHIPPED.to_owned();
    for (from, to) in [
        ("[code_correctness]", "[code_correctness, implications]"),
        ("[realistic_newness]", "[overfitting, applicability]"),
        (
            "reject: {deduct: 30, cap: 40}",
            "reject: {deduct: 25, cap: 35}",
        ),
        (
            "unsure: {deduct: 10, cap: 60}",
            "unsure: {deduct: 5, cap: 75}",
        ),
        ("failed_check: 20", "failed_check: 13"),
        ("failed_minor: 10", "failed_minor: 3"),
        (
            "{deduct: 10, per_role_max: 3}",
            "{deduct: 7, per_role_max: 4}",
        ),
        ("absent_cap: 50", "absent_cap: 55"),
        (
            "deadline_s: 86400",
            "deadline_s: 60\n    floors: [{axis: implications, reject_below: 45, unsure_below: \
                72}]",
        ),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replacen(from, to, 1);
    }
    Roles::read(PATH, &text).unwrap()
}

/// Decides as if every role had a signer of its own.
fn decide(
    request: &CouncilRequest,
    votes: &[RoleVerdict],
    evidence: &[Evidence],
    roles: &Roles,
) -> Ruling {
    let votes = Filed::apart(votes.iter().cloned());
    aggregate::decide(request, &votes, evidence, roles, None)
}

fn every_property(councils: u64) {
    let (shipped, other) = (Roles::shipped().unwrap(), other_rules());
    let mut outcomes: BTreeMap<Stance, u64> = BTreeMap::new();
    for seed in 0..councils {
        let mut dice = Dice::apart(seed);
        let roles = if seed % 5 == 4 { &other } else { &shipped };
        let council = random::council(&mut dice, roles);
        let ruling = decide(&council.request, &council.votes, &council.evidence, roles);
        *outcomes.entry(ruling.decision.final_outcome).or_default() += 1;
        for (name, check) in properties::ALL {
            // The second implementation knows only the shipped numbers.
            if name == properties::SECOND_TIME && *roles == other {
                continue;
            }
            if let Err(what) = check(&council, &ruling, &mut dice, roles) {
                panic!("seed {seed}: not true that {name}\n{what}\n{council:#?}");
            }
        }
    }
    println!(
        "{councils} councils, {} properties each: {outcomes:?}",
        properties::ALL.len()
    );
    // Properties of approvals would prove little if no council approved.
    for stance in [Stance::Reject, Stance::NeedsMoreInfo, Stance::Approve] {
        let share = outcomes.get(&stance).copied().unwrap_or_default();
        assert!(
            share * 10 >= councils,
            "{share} of {councils} are {}",
            stance.as_str()
        );
    }
}

#[test]
fn every_property_over_500_councils() {
    every_property(FEW);
}

#[test]
#[ignore = "three minutes in release: cargo test --release --test it council_rules:: -- --ignored \
    --nocapture"]
fn every_property_over_100_000_councils() {
    every_property(MANY);
}
