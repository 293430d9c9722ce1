//! Whatever parses is decided: broken texts of the contract's own objects, under any rules that
//! load.

use super::decide;
use spoolgate_council::brief::brief;
use spoolgate_council::case::Case;
use spoolgate_rules::roles::{PATH, Roles, SHIPPED};
use spoolgate_wire::council::{Axis, CouncilRequest, RoleVerdict};
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::text::is_printable;

use super::{example, properties, random};
use crate::kit::dice::Dice;

/// Pieces that a broken text may consist of.
const PIECES: [&str; 16] = [
    "null",
    "true",
    "0",
    "-1",
    "1e400",
    "1e-999999999999999999999",
    "\"\"",
    "[]",
    "{}",
    "\"\\u202e\\u0000\\ud83d\\ude00\"",
    "\"APPROVE\"",
    "\"REJECT\"",
    "\"CODE_REFACTOR\"",
    "\"Realism Checker\"",
    "99999999999999999999999999999999",
    "\"`````\\n```\"",
];

/// Replaces some values or bytes of a JSON text.
fn broken(dice: &mut Dice, text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..=dice.below(3) {
        let places: Vec<usize> = text
            .match_indices([':', ',', '['])
            .map(|(place, _)| place + 1)
            .collect();
        if places.is_empty() {
            break;
        }
        let start = *random::pick(dice, &places);
        let end = text[start..]
            .find([',', '}', ']'])
            .map_or(text.len(), |length| start + length);
        text.replace_range(start..end, random::pick::<&str>(dice, &PIECES));
    }
    text
}

#[test]
fn whatever_parses_is_decided() {
    let shipped = Roles::shipped().unwrap();
    let request = serde_json::to_string(&example::request()).unwrap();
    let votes: Vec<String> = example::votes()
        .iter()
        .map(|vote| serde_json::to_string(vote).unwrap())
        .collect();
    let (mut decided, mut refused) = (0, 0);
    for seed in 0..crate::kit::campaign(1_000, 3_000) {
        let mut dice = Dice::apart(seed);
        let roles = strange_rules(&mut dice).unwrap_or_else(|| shipped.clone());
        let sent = if dice.one_in(2) {
            broken(&mut dice, &request)
        } else {
            request.clone()
        };
        let Ok(request) = serde_json::from_str::<CouncilRequest>(&sent) else {
            refused += 1;
            continue;
        };
        let votes: Vec<RoleVerdict> = votes
            .iter()
            .filter_map(|vote| serde_json::from_str(&broken(&mut dice, vote)).ok())
            .collect();
        let evidence = if dice.one_in(2) {
            vec![example::implausible()]
        } else {
            Vec::new()
        };
        let ruling = decide(&request, &votes, &evidence, &roles);
        decided += 1;
        for axis in Axis::ALL {
            assert!(
                ruling.decision.axis_scores.get(axis).tenths() <= 100,
                "seed {seed}"
            );
        }
        let council = random::Council {
            request: request.clone(),
            votes,
            evidence,
        };
        for (name, check) in properties::ALL
            .iter()
            .filter(|(name, _)| name.contains("hostile") || name.contains("read back"))
        {
            check(&council, &ruling, &mut dice, &roles)
                .unwrap_or_else(|what| panic!("seed {seed}: {name}: {what}"));
        }
        let role = random::pick(&mut dice, &roles.roster);
        let case = case_of(&request);
        let page = brief(&request, &case, role, &roles);
        let hidden = page.chars().find(|c| *c != '\n' && !is_printable(*c));
        assert_eq!(hidden, None, "seed {seed}: in the brief");
    }
    assert!(
        decided > 300 && refused > 300,
        "{decided} decided, {refused} refused: the breaking is one-sided"
    );
}

fn case_of(request: &CouncilRequest) -> Case {
    let request_sha256 = "ab".repeat(32);
    Case {
        id: request.request_id.clone(),
        alias: Some(RequestId::alias_of(&request_sha256)),
        change_type: request.change_type,
        proposer: Principal::parse("research-bot").unwrap(),
        request_sha256,
        answer: "out/req_1.decision.json".to_owned(),
        opened_at: request.timestamp,
        deadline: request.timestamp,
    }
}

/// Returns the shipped rules with other numbers, if they still load.
fn strange_rules(dice: &mut Dice) -> Option<Roles> {
    let numbers = ["0", "1", "20", "50", "100"];
    let mut text = SHIPPED.to_owned();
    for key in [
        "deduct: 30",
        "cap: 40",
        "failed_check: 20",
        "per_role_max: 3",
        "not_assessed_cap: 50",
        "confidence_floor: 0.6",
    ] {
        if dice.one_in(3) {
            let (name, _) = key.split_once(' ').unwrap();
            text = text.replacen(
                key,
                &format!("{name} {}", random::pick::<&str>(dice, &numbers)),
                1,
            );
        }
    }
    Roles::read(PATH, &text).ok()
}
