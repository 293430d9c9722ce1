//! Random councils: duplicates, aliases, junk words, foreign roles, hostile text, filed and
//! computed items.

use spoolgate_council::finding::{Evidence, Finding};
use spoolgate_rules::roles::Roles;
use spoolgate_wire::council::{
    Axis, ChangeType, ChecklistItem, CouncilRequest, JsonText, RoleVerdict, Severity, Stance,
};

use crate::kit::dice::Dice;

/// One case with everything that was filed and computed.
#[derive(Clone, Debug)]
pub(super) struct Council {
    pub request: CouncilRequest,
    pub votes: Vec<RoleVerdict>,
    pub evidence: Vec<Evidence>,
}

pub(super) fn pick<'a, T>(dice: &mut Dice, of: &'a [T]) -> &'a T {
    &of[usize::try_from(dice.below(of.len() as u64)).unwrap()]
}

/// Spellings of the roster's roles, by role.
pub(super) const SPELLINGS: [(&str, &[&str]); 5] = [
    (
        "Quant Researcher",
        &[
            "Quant Researcher",
            "quant_researcher",
            "QR",
            " q.r. ",
            "Quant",
        ],
    ),
    (
        "Risk Officer",
        &[
            "Risk Officer",
            "RISK OFFICER",
            "ro",
            "Risk\u{200b}Officer",
            "Risk-Manager",
        ],
    ),
    (
        "Code Auditor",
        &["Code Auditor", "codeauditor", "CA", "Auditor!"],
    ),
    (
        "Realism Checker",
        &[
            "Realism Checker",
            "rc",
            "Reality Checker",
            "realism\tchecker",
        ],
    ),
    (
        "Integration Engineer",
        &["Integration Engineer", "IE", "integrator"],
    ),
];

const FOREIGN: [&str; 7] = [
    "Compliance",
    "compliance!",
    "Chair",
    "R\u{456}sk Officer",
    "",
    "\u{202e}\u{1b}[2J",
    "Risk Officers",
];

const WORDS: [&str; 12] = [
    "approve",
    "Approve",
    "APPROVED",
    "APPROVE ",
    "YES",
    "",
    "ABSTAIN",
    "CONDITIONAL",
    "null",
    "\u{202e}REJECT",
    "reject",
    "MAYBE",
];

const CONFIDENCES: [&str; 17] = [
    "0.6",
    "0.59",
    "0.5999999999999999999",
    "6e-1",
    "0.61",
    "0.95",
    "1",
    "1.0",
    "1.0000001",
    "0",
    "-0.1",
    "2",
    "1e9",
    "\"0.9\"",
    "true",
    "[1]",
    "1e-400",
];

const TEXTS: [&str; 18] = [
    "Leverage seems high for this volatility regime.",
    "leverage seems high, for this volatility regime",
    "In-Sample data leakage",
    "Costs are not stated",
    "Nobody owns the rollback",
    "the Risk Officer is not told",
    "No test fails without the change",
    "Run stress test with 2x volatility.",
    "Re-run backtest.",
    "RE-RUN BACKTEST",
    "",
    " \t\n",
    "!!!",
    "?",
    "\u{1b}[31mred\u{1b}[0m\u{7}",
    "\u{202e}evorppa\u{202c} \u{2066}x\u{2069}",
    "line one\nline two\r\nthree\u{2028}four\u{85}five",
    "zero\u{200b}width\u{feff} \u{e0041}\u{e0042} tag \u{0}nul \u{ad}shy",
];

const CHECK_IDS: [&str; 8] = [
    "RC-01", "RC-02", "rc 05", "RC-05", "QR-01", "QR-09", "", "…",
];

/// Returns a JSON value as it would arrive.
pub(super) fn json(text: &str) -> JsonText {
    serde_json::from_str(text).unwrap()
}

fn text(dice: &mut Dice) -> String {
    match dice.below(12) {
        0 => "long ".repeat(120),
        1 => (0..dice.below(30))
            .filter_map(|_| char::from_u32(u32::try_from(dice.below(0x2_0000)).unwrap()))
            .collect(),
        _ => (*pick(dice, &TEXTS)).to_owned(),
    }
}

fn texts(dice: &mut Dice, most: u64) -> Vec<String> {
    (0..dice.below(most + 1)).map(|_| text(dice)).collect()
}

/// How benign a council is: the less benign, the more obstacles it has.
#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Good,
    Mixed,
    Wild,
}

pub(super) fn item(dice: &mut Dice, pass: Option<bool>) -> ChecklistItem {
    let check_id = dice.one_in(2).then(|| (*pick(dice, &CHECK_IDS)).to_owned());
    ChecklistItem {
        check_id,
        question: text(dice),
        answer: text(dice),
        pass,
    }
}

/// Returns a row that passes and is answered.
fn answered(dice: &mut Dice) -> ChecklistItem {
    ChecklistItem {
        question: "Is it so?".to_owned(),
        answer: "Yes.".to_owned(),
        ..item(dice, Some(true))
    }
}

/// Returns any vote for a role under one of its spellings.
pub(super) fn vote(dice: &mut Dice, role: &str) -> RoleVerdict {
    vote_in(dice, role, Mood::Wild)
}

/// Returns an approval that nothing weakens.
pub(super) fn approval(dice: &mut Dice, role: &str) -> RoleVerdict {
    let mut vote = vote_in(dice, role, Mood::Good);
    vote.verdict = "APPROVE".to_owned();
    vote.confidence_score = Some(json("0.9"));
    vote.checklist_results = vec![answered(dice)];
    vote
}

fn vote_in(dice: &mut Dice, role: &str, mood: Mood) -> RoleVerdict {
    let bad = |dice: &mut Dice| match mood {
        Mood::Good => dice.one_in(60),
        Mood::Mixed => dice.one_in(5),
        Mood::Wild => dice.one_in(2),
    };
    let verdict = if bad(dice) {
        match dice.below(3) {
            0 => "REJECT",
            1 => "NEEDS_MORE_INFO",
            _ => pick::<&str>(dice, &WORDS),
        }
    } else {
        "APPROVE"
    };
    let confidence_score = if bad(dice) {
        (!dice.one_in(4)).then(|| json(pick::<&str>(dice, &CONFIDENCES)))
    } else {
        Some(json(
            ["0.6", "0.8", "0.95", "1"][usize::try_from(dice.below(4)).unwrap()],
        ))
    };
    let empty = bad(dice) && dice.one_in(3);
    let count = if empty { 0 } else { dice.below(3) + 1 };
    let checklist_results = (0..count)
        .map(|_| {
            let failed = bad(dice) && dice.one_in(2);
            let pass = if failed {
                Some(false)
            } else {
                Some(true).filter(|_| !dice.one_in(6))
            };
            if pass == Some(true) && !bad(dice) {
                answered(dice)
            } else {
                item(dice, pass)
            }
        })
        .collect();
    let most = if mood == Mood::Wild { 5 } else { 2 };
    RoleVerdict {
        role: role.to_owned(),
        verdict: verdict.to_owned(),
        confidence_score,
        checklist_results,
        concerns: texts(dice, most),
        required_actions: texts(dice, most),
    }
}

pub(super) fn finding(dice: &mut Dice, pass: Option<bool>) -> Finding {
    Finding {
        check_id: (*pick(dice, &CHECK_IDS)).to_owned(),
        question: text(dice),
        answer: text(dice),
        pass,
        severity: *pick(dice, &[Severity::Minor, Severity::Major, Severity::Blocker]),
        axis: *pick(dice, &Axis::ALL),
        headline: dice.one_in(3),
        message: dice.one_in(2).then(|| text(dice)),
        value: None,
        threshold: None,
        source: String::new(),
    }
}

/// Returns computed rows whose verdict does not always follow from them.
pub(super) fn evidence(dice: &mut Dice, role: &str) -> Evidence {
    let calm = !dice.one_in(3);
    let findings: Vec<Finding> = (0..dice.below(5) + u64::from(calm))
        .map(|_| {
            let pass = if calm || dice.one_in(2) {
                Some(true)
            } else {
                Some(false).filter(|_| !dice.one_in(3))
            };
            finding(dice, pass)
        })
        .collect();
    let verdict = if calm {
        Stance::Approve
    } else {
        *pick(
            dice,
            &[
                Stance::Reject,
                Stance::NeedsMoreInfo,
                Stance::Approve,
                Stance::Approve,
            ],
        )
    };
    Evidence {
        role: role.to_owned(),
        verdict,
        findings,
        required_actions: texts(dice, 2),
    }
}

/// The artifacts in their forms.
const FORMED: [(&str, &str); 4] = [
    (
        "spec_content",
        "# Spec\n\nBuy what rose over ninety days, sell what fell, size by risk, stop at two ranges, \
            and never hold more than three at once.",
    ),
    ("diff_content", " TODO\n-old\n+new\n"),
    ("validation_report", "| a | 1 |"),
    ("monte_carlo_stats", "{\"p5\": [1]}"),
];

const ARTIFACTS: [&str; 12] = [
    "| a | b |",
    "| a | 1 |",
    "# Spec\n\nText",
    "--- a\n+++ b\n",
    "+TODO\n",
    "-TODO\n",
    "{\"p5\": 1}",
    "{\"p5\": \"1\"}",
    "",
    "TODO",
    "[MISSING FILE: report.md]",
    "n/a",
];

const METRICS: [&str; 10] = [
    "1.2", "15.4", "-4.5", "55.0", "\"55 %\"", "null", "\"\"", "\"N/A\"", "[]", "true",
];

fn request(dice: &mut Dice, mood: Mood) -> CouncilRequest {
    let change = *pick(dice, &ChangeType::ALL);
    let good = mood != Mood::Wild || dice.one_in(2);
    let value = |dice: &mut Dice, all: &[&str]| {
        (*pick(dice, if good { &all[..4] } else { all })).to_owned()
    };
    let present = |dice: &mut Dice| good || !dice.one_in(8);
    let mut artifacts = serde_json::Map::new();
    for (name, formed) in FORMED {
        if present(dice) {
            let text = if good {
                formed
            } else {
                *pick(dice, &ARTIFACTS)
            };
            artifacts.insert(name.to_owned(), text.into());
        }
    }
    let mut metrics = serde_json::Map::new();
    for name in [
        "total_return",
        "sharpe",
        "max_dd",
        "oos_win_rate",
        "payoff_ratio",
    ] {
        if present(dice) {
            metrics.insert(
                name.to_owned(),
                serde_json::from_str(&value(dice, &METRICS)).unwrap(),
            );
        }
    }
    let whole = serde_json::json!({
        "request_id": "req_123456789", "timestamp": "2025-12-09T12:00:00Z", "proposer": text(dice),
        "change_type": change.as_str(),
        "context": {"summary": text(dice), "files_changed": texts(dice, 2), "key_metrics": metrics},
        "artifacts": artifacts,
    });
    serde_json::from_str(&whole.to_string()).unwrap()
}

/// Returns any spelling of one of the roster's roles.
pub(super) fn spelling(dice: &mut Dice, role: &str) -> String {
    let (_, spellings) = SPELLINGS.iter().find(|(name, _)| *name == role).unwrap();
    (*pick(dice, spellings)).to_owned()
}

/// Returns the name of an unknown role, or of a role that this change does not require.
pub(super) fn foreign(dice: &mut Dice, change: ChangeType, roles: &Roles) -> String {
    let (role, spellings) = pick(dice, &SPELLINGS);
    let required = roles.required(change).any(|rule| rule.name == *role);
    if required || dice.one_in(2) {
        (*pick(dice, &FOREIGN)).to_owned()
    } else {
        (*pick(dice, spellings)).to_owned()
    }
}

/// Returns any council.
pub(super) fn council(dice: &mut Dice, roles: &Roles) -> Council {
    let mood = *pick(
        dice,
        &[Mood::Good, Mood::Good, Mood::Good, Mood::Mixed, Mood::Wild],
    );
    let request = request(dice, mood);
    let (mut votes, mut evidences) = (Vec::new(), Vec::new());
    for role in roles.required(request.change_type) {
        let mut filled = false;
        if role.computed.is_some() && dice.one_in(2) {
            evidences.push(evidence(dice, &role.name));
            filled = true;
        }
        let absent = if mood == Mood::Good {
            dice.one_in(40)
        } else {
            dice.one_in(8)
        };
        let count = if absent {
            0
        } else {
            1 + u64::from(dice.one_in(5)) + u64::from(dice.one_in(9))
        };
        for _ in u64::from(filled && dice.one_in(2))..count {
            let spelling = spelling(dice, &role.name);
            votes.push(vote_in(dice, &spelling, mood));
        }
    }
    let stray = if mood == Mood::Good { 12 } else { 3 };
    while dice.one_in(stray) {
        let name = foreign(dice, request.change_type, roles);
        votes.push(vote_in(dice, &name, mood));
    }
    if !votes.is_empty() && dice.one_in(5) {
        let copy = pick(dice, &votes).clone();
        votes.push(copy);
    }
    let mut council = Council {
        request,
        votes,
        evidence: evidences,
    };
    shuffle(dice, &mut council.votes);
    council
}

/// Shuffles the values.
pub(super) fn shuffle<T>(dice: &mut Dice, values: &mut [T]) {
    for last in (1..values.len()).rev() {
        values.swap(last, dice.up_to(last));
    }
}
