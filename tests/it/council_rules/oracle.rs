//! A second implementation of the aggregation, written from the specification alone: slow, with its
//! numbers in the text, over JSON values, and without any of the program's own helpers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::random::Council;

/// The decision on a case.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub outcome: String,
    /// In tenths, in the contract's order.
    pub scores: Vec<i64>,
    /// Veto, seats, completeness, open questions, foreign objection, distinct signers, panel, axis
    /// floor.
    pub rules: Vec<String>,
    pub absent: Vec<String>,
    pub missing: Vec<String>,
    pub dissent: Vec<String>,
    pub concerns: Vec<Vec<String>>,
    pub next_steps: Vec<String>,
}

const AXES: [&str; 6] = [
    "assumptions",
    "applicability",
    "code_correctness",
    "realistic_newness",
    "overfitting",
    "implications",
];

/// Name, aliases, primary axes, concern axis.
const ROSTER: [(&str, &[&str], &[&str], &str); 5] = [
    (
        "Quant Researcher",
        &["QR", "Quant", "Quantitative Researcher"],
        &["overfitting"],
        "overfitting",
    ),
    (
        "Risk Officer",
        &["RO", "Risk", "Risk Manager"],
        &["applicability", "assumptions"],
        "assumptions",
    ),
    (
        "Code Auditor",
        &["CA", "Auditor", "Code Reviewer"],
        &["code_correctness"],
        "code_correctness",
    ),
    (
        "Realism Checker",
        &["RC", "Realism", "Reality Checker"],
        &["realistic_newness"],
        "assumptions",
    ),
    (
        "Integration Engineer",
        &["IE", "Integrator", "Integration"],
        &["implications"],
        "implications",
    ),
];

fn required(change: &str) -> &'static [usize] {
    match change {
        "DECLARE_PASS" => &[0, 1, 2, 3, 4],
        "FREEZE_SPEC" => &[0, 1, 2],
        "UPDATE_CONFIG" => &[1, 2, 4],
        _ => &[2, 4],
    }
}

fn vetoes(change: &str) -> &'static [usize] {
    match change {
        "DECLARE_PASS" => &[0, 1, 3],
        "FREEZE_SPEC" | "UPDATE_CONFIG" => &[1],
        _ => &[2],
    }
}

fn hidden(c: char) -> bool {
    let other = "\u{ad}\u{34f}\u{61c}\u{6dd}\u{70f}\u{8e2}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{2800}\u{3164}\u{feff}\u{ffa0}";
    let ranges = [
        '\u{600}'..='\u{605}',
        '\u{890}'..='\u{891}',
        '\u{180b}'..='\u{180f}',
        '\u{200b}'..='\u{200f}',
        '\u{2028}'..='\u{202e}',
        '\u{2060}'..='\u{206f}',
        '\u{e000}'..='\u{f8ff}',
        '\u{fdd0}'..='\u{fdef}',
        '\u{fe00}'..='\u{fe0f}',
        '\u{fff0}'..='\u{fffb}',
        '\u{fffe}'..='\u{ffff}',
        '\u{110bd}'..='\u{110bd}',
        '\u{110cd}'..='\u{110cd}',
        '\u{13430}'..='\u{1343f}',
        '\u{1bca0}'..='\u{1bca3}',
        '\u{1d173}'..='\u{1d17a}',
        '\u{1fffe}'..='\u{1ffff}',
        '\u{e0000}'..='\u{10ffff}',
    ];
    c.is_control()
        || c.is_whitespace()
        || other.contains(c)
        || ranges.iter().any(|range| range.contains(&c))
}

fn cleaned(text: &str) -> String {
    let spaced: String = text
        .chars()
        .map(|c| if hidden(c) { ' ' } else { c })
        .collect();
    let words: Vec<&str> = spaced.split(' ').filter(|word| !word.is_empty()).collect();
    let cut: String = words.join(" ").chars().take(400).collect();
    cut.trim_end().to_owned()
}

fn key(text: &str) -> String {
    let seen: String = text.chars().filter(|c| !hidden(*c)).collect();
    seen.to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric())
        .collect()
}

fn role_of(text: &str) -> Option<usize> {
    let wanted = key(text);
    ROSTER.iter().position(|(name, aliases, ..)| {
        key(name) == wanted || aliases.iter().any(|alias| key(alias) == wanted)
    })
}

fn strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// 0 REJECT, 1 NEEDS_MORE_INFO, 2 APPROVE.
fn rank(word: &str) -> i64 {
    match word {
        "REJECT" => 0,
        "APPROVE" => 2,
        _ => 1,
    }
}

fn word(rank: i64) -> String {
    ["REJECT", "NEEDS_MORE_INFO", "APPROVE"][usize::try_from(rank).unwrap()].to_owned()
}

/// Floats are good enough for an oracle whose councils avoid the last digit of a double.
fn confident(text: Option<&str>) -> bool {
    let exactly_below = text == Some("0.5999999999999999999");
    let value = text.and_then(|text| text.parse::<f64>().ok());
    value.is_some_and(|value| (0.6..=1.0).contains(&value)) && !exactly_below
}

#[derive(Default)]
struct Seat {
    filled: bool,
    rank: i64,
    concerns: Vec<String>,
    /// With the rank of the evidence that requests them; filed votes have none.
    actions: Vec<(Option<i64>, Vec<String>)>,
    /// Check, axis, whether it is minor.
    failed: Vec<(String, String, bool)>,
}

impl Seat {
    fn add(&mut self, rank: i64) {
        self.rank = if self.filled {
            self.rank.min(rank)
        } else {
            rank
        };
        self.filled = true;
    }

    /// Evidence requests something only if the seat is no worse than what the evidence itself
    /// found.
    fn wanted(&self) -> Vec<String> {
        let mut all = Vec::new();
        let counts = |of: &Option<i64>| of.is_none_or(|rank| rank == self.rank);
        self.actions
            .iter()
            .filter(|(of, _)| counts(of))
            .for_each(|(_, actions)| union(&mut all, actions));
        all
    }

    fn fail(&mut self, check: String, axis: &str, minor: bool) {
        match self
            .failed
            .iter_mut()
            .find(|(name, on, _)| *name == check && on == axis)
        {
            Some(known) => known.2 = known.2 && minor,
            None => self.failed.push((check, axis.to_owned(), minor)),
        }
    }
}

fn union(into: &mut Vec<String>, more: &[String]) {
    for text in more {
        let text = cleaned(text);
        if !text.is_empty() && !into.iter().any(|other| key(other) == key(&text)) {
            into.push(text);
        }
    }
}

fn sorted(values: Vec<String>) -> Vec<String> {
    values
        .into_iter()
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

/// Fills the seats with the computed evidence.
fn weigh_evidence(council: &Council, seats: &mut [Seat]) {
    for text in sorted(
        council
            .evidence
            .iter()
            .map(|one| serde_json::to_string(one).unwrap())
            .collect(),
    ) {
        let one: Value = serde_json::from_str(&text).unwrap();
        let seat = &mut seats[role_of(one["role"].as_str().unwrap()).unwrap()];
        let mut own = rank(one["verdict"].as_str().unwrap());
        let rows = one["findings"].as_array().unwrap();
        if rows.iter().all(|row| row["pass"] != Value::Bool(true)) {
            own = own.min(1);
        }
        for row in rows.iter().filter(|row| row["pass"] == Value::Bool(false)) {
            let severity = row["severity"].as_str().unwrap();
            own = own.min(match severity {
                "blocker" => 0,
                "major" => 1,
                _ => 2,
            });
            let id = key(row["check_id"].as_str().unwrap());
            let name = if id.is_empty() {
                key(row["question"].as_str().unwrap())
            } else {
                id
            };
            seat.fail(name, row["axis"].as_str().unwrap(), severity == "minor");
        }
        seat.add(own);
        seat.actions
            .push((Some(own), strings(&one["required_actions"])));
    }
}

/// Fills the seats with the votes. Returns whether a role without a seat objects.
fn weigh_votes(council: &Council, needed: &[usize], seats: &mut [Seat]) -> bool {
    let mut objection = false;
    for text in sorted(
        council
            .votes
            .iter()
            .map(|vote| serde_json::to_string(vote).unwrap())
            .collect(),
    ) {
        let vote: Value = serde_json::from_str(&text).unwrap();
        let confidence = council
            .votes
            .iter()
            .find(|one| serde_json::to_string(one).unwrap() == text)
            .unwrap();
        let confidence = confidence
            .confidence_score
            .as_ref()
            .map(|score| score.as_str());
        let items = vote["checklist_results"].as_array().unwrap();
        let failed: Vec<&Value> = items
            .iter()
            .filter(|item| item["pass"] == Value::Bool(false))
            .collect();
        let mut own = rank(vote["verdict"].as_str().unwrap());
        let says = |item: &Value, member: &str| !nothing(item[member].as_str().unwrap());
        let is_checked = items.iter().any(|item| {
            item["pass"] == Value::Bool(true) && says(item, "question") && says(item, "answer")
        }) && items
            .iter()
            .all(|item| !item["pass"].is_null() || says(item, "answer"));
        if own == 2 && (!confident(confidence) || !is_checked || !failed.is_empty()) {
            own = 1;
        }
        let seated = role_of(vote["role"].as_str().unwrap()).filter(|place| needed.contains(place));
        let Some(place) = seated else {
            objection |= own < 2;
            continue;
        };
        let seat = &mut seats[place];
        seat.add(own);
        union(&mut seat.concerns, &strings(&vote["concerns"]));
        seat.actions
            .push((None, strings(&vote["required_actions"])));
        for item in failed {
            let id = key(item["check_id"].as_str().unwrap_or(""));
            let name = if id.is_empty() {
                key(item["question"].as_str().unwrap())
            } else {
                id
            };
            seat.fail(name, ROSTER[place].2[0], false);
        }
    }
    objection
}

fn scores(needed: &[usize], seats: &[Seat], covered: &[&str]) -> Vec<i64> {
    let mut scores = Vec::new();
    for axis in AXES {
        let mut left = 100;
        let mut caps = vec![100];
        if !covered.contains(&axis) {
            caps.push(50);
        }
        for place in needed {
            let (seat, (_, _, primary, concern)) = (&seats[*place], &ROSTER[*place]);
            if !seat.filled {
                if primary.contains(&axis) {
                    caps.push(50);
                }
                continue;
            }
            if primary[0] == axis && seat.rank == 0 {
                left -= 30;
                caps.push(40);
            }
            if primary[0] == axis && seat.rank == 1 {
                left -= 10;
                caps.push(60);
            }
            for (_, on, minor) in &seat.failed {
                if on == axis {
                    left -= if *minor { 10 } else { 20 };
                }
            }
            if *concern == axis {
                left -= 10 * i64::try_from(seat.concerns.len().min(3)).unwrap();
            }
        }
        scores.push(left.max(0).min(*caps.iter().min().unwrap()));
    }
    scores
}

/// Decides from the specification.
pub(super) fn decide(council: &Council) -> Verdict {
    let request: Value = serde_json::to_value(&council.request).unwrap();
    let change = request["change_type"].as_str().unwrap();
    let needed = required(change);
    let mut seats: Vec<Seat> = (0..5).map(|_| Seat::default()).collect();
    weigh_evidence(council, &mut seats);
    let objection = weigh_votes(council, needed, &mut seats);
    let covered: Vec<&str> = needed
        .iter()
        .flat_map(|place| ROSTER[*place].2.iter().copied())
        .collect();
    let scores = scores(needed, &seats, &covered);
    let rejecting: Vec<usize> = needed
        .iter()
        .copied()
        .filter(|place| seats[*place].filled && seats[*place].rank == 0)
        .collect();
    let veto = if rejecting.iter().any(|place| vetoes(change).contains(place)) {
        0
    } else {
        2
    };
    let count = match rejecting.len() {
        0 => 2,
        1 => 1,
        _ => 0,
    };
    let absent: Vec<String> = needed
        .iter()
        .filter(|place| !seats[**place].filled)
        .map(|place| ROSTER[*place].0.to_owned())
        .collect();
    let missing = missing(&request, change);
    let complete = if absent.is_empty() && missing.is_empty() {
        2
    } else {
        1
    };
    let open = if needed
        .iter()
        .any(|place| seats[*place].filled && seats[*place].rank == 1)
    {
        1
    } else {
        2
    };
    let foreign = if objection { 1 } else { 2 };
    let lowest = AXES
        .iter()
        .zip(&scores)
        .filter(|(axis, _)| covered.contains(axis))
        .map(|(_, score)| *score)
        .min();
    let floor = match lowest.unwrap() {
        ..30 => 0,
        30..60 => 1,
        _ => 2,
    };
    // Every vote has a signer of its own, and a family.
    let rules = [veto, count, complete, open, foreign, 2, 2, floor];
    let outcome = *rules.iter().min().unwrap();

    let filled: Vec<usize> = needed
        .iter()
        .copied()
        .filter(|place| seats[*place].filled)
        .collect();
    let dissent = filled.iter().filter(|place| seats[**place].rank != outcome);
    let dissent = dissent
        .map(|place| format!("{} {}", ROSTER[*place].0, word(seats[*place].rank)))
        .collect();
    let mut deciding: Vec<usize> = filled
        .iter()
        .copied()
        .filter(|place| seats[*place].rank == outcome)
        .collect();
    if deciding.is_empty() || outcome == 2 {
        deciding.clone_from(&filled);
    }
    let mut next_steps = Vec::new();
    for place in deciding {
        union(&mut next_steps, &seats[place].wanted());
    }
    let obtain = absent
        .iter()
        .map(|name| format!("Obtain the verdict of the {name}."));
    let supply = missing.iter().map(|name| format!("Supply the {name}."));
    union(&mut next_steps, &obtain.chain(supply).collect::<Vec<_>>());
    let concerns = filled
        .iter()
        .map(|place| seats[*place].concerns.clone())
        .collect();
    let rules = rules.iter().map(|rank| word(*rank)).collect();
    Verdict {
        outcome: word(outcome),
        scores,
        rules,
        absent,
        missing,
        dissent,
        concerns,
        next_steps,
    }
}

fn nothing(text: &str) -> bool {
    ["", "todo", "na", "tbd", "null"].contains(&key(text).as_str()) || text.starts_with("[MISSING")
}

/// Only the placeholders that the random councils use.
fn missing(request: &Value, change: &str) -> Vec<String> {
    let artifacts: &[&str] = match change {
        "DECLARE_PASS" => &["validation_report", "monte_carlo_stats"],
        "FREEZE_SPEC" => &["spec_content"],
        _ => &["diff_content"],
    };
    let metrics: &[&str] = if change == "DECLARE_PASS" {
        &["total_return", "sharpe", "max_dd", "oos_win_rate"]
    } else {
        &[]
    };
    let mut missing = Vec::new();
    for name in artifacts {
        let formed = |text: &str| match *name {
            "diff_content" => {
                let mut lines = text.split('\n');
                let added = text.split('\n').filter(|line| line.starts_with('+'));
                lines.any(|line| line.starts_with('+') || line.starts_with('-'))
                    && added.map(|line| &line[1..]).all(|line| key(line) != "todo")
            }
            "validation_report" => text
                .split('\n')
                .any(|line| line.contains('|') && line.chars().any(|c| c.is_ascii_digit())),
            "monte_carlo_stats" => {
                text.starts_with('{') && (text.contains(": 1") || text.contains("[1]"))
            }
            _ => {
                text.split_whitespace()
                    .filter(|word| !key(word).is_empty())
                    .count()
                    >= 20
            }
        };
        let is_nothing = |text: &str| match *name {
            "diff_content" => ["", "todo", "na", "tbd", "null"].contains(&key(text).as_str()),
            _ => nothing(text),
        };
        if request["artifacts"][name]
            .as_str()
            .is_none_or(|text| is_nothing(text) || !formed(text))
        {
            missing.push(format!("artifact {name}"));
        }
    }
    for name in metrics {
        let there = match &request["context"]["key_metrics"][name] {
            Value::Number(_) => true,
            Value::String(text) => !nothing(text),
            _ => false,
        };
        if !there {
            missing.push(format!("metric {name}"));
        }
    }
    missing
}
