//! What a request needs and lacks.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use spoolgate_rules::roles::{Placeholders, Roles};
use spoolgate_wire::council::CouncilRequest;

/// What is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missing {
    /// Required roles that did not answer.
    pub roles: Vec<String>,
    /// Required artifacts that are absent, empty, a placeholder, or not of their form.
    pub artifacts: Vec<String>,
    /// Those among them that are only not of their form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub malformed: Vec<String>,
    /// Required figures that are absent, empty or a placeholder.
    pub metrics: Vec<String>,
}

impl Missing {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty() && self.artifacts.is_empty() && self.metrics.is_empty()
    }
}

/// Returns what a request lacks, including these empty seats.
pub(super) fn missing(request: &CouncilRequest, empty_seats: &[String], roles: &Roles) -> Missing {
    let change = roles.change(request.change_type);
    let nothing = |text: &str| roles.placeholders.stand_for_nothing(text);
    let (mut artifacts, mut malformed) = (Vec::new(), Vec::new());
    for name in &change.required_artifacts {
        let text = request.artifacts.get(name);
        let is_there = text.is_some_and(|text| says_something(name, text, &roles.placeholders));
        if text.is_none_or(|text| !is_there || !has_form(name, text)) {
            artifacts.push(name.clone());
            malformed.extend(is_there.then(|| name.clone()));
        }
    }
    let has_figure = |name: &String| match request.context.key_metrics.get(name) {
        Some(value) => is_figure(value.as_str(), &nothing),
        None => false,
    };
    let metrics = change
        .required_metrics
        .iter()
        .filter(|name| !has_figure(name))
        .cloned()
        .collect();
    Missing {
        roles: empty_seats.to_vec(),
        artifacts,
        malformed,
        metrics,
    }
}

const DIFF: &str = "diff_content";

/// Whether an artifact is more than a placeholder. Only the added lines of a diff count: the others
/// are the old text.
fn says_something(name: &str, text: &str, placeholders: &Placeholders) -> bool {
    if name != DIFF {
        return !placeholders.stand_for_nothing(text);
    }
    let added = text.lines().filter_map(|line| line.strip_prefix('+'));
    !placeholders.are_all_of(text) && !placeholders.begin_one_of(added)
}

/// Whether an artifact has the least that its kind consists of: [`formless`] says what that is.
fn has_form(name: &str, text: &str) -> bool {
    match name {
        DIFF => text.lines().any(|line| line.starts_with(['+', '-'])),
        "validation_report" => has_table_row(text),
        "monte_carlo_stats" => serde_json::from_str::<serde_json::Map<String, Value>>(text)
            .is_ok_and(|object| object.values().any(has_number)),
        _ => {
            let words = text.split_whitespace();
            let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
            words.filter(is_word).count() >= SPEC_WORDS_MIN
        }
    }
}

/// Whether a Markdown text has a row of a table with a number: a line that begins with a bar and has
/// another, or one with a bar below a line of bars and dashes, in which a word begins with a digit, signs
/// aside.
fn has_table_row(text: &str) -> bool {
    let is_rule = |line: &str| {
        line.contains('|')
            && line.contains('-')
            && line
                .chars()
                .all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t'))
    };
    let begins_with_digit = |word: &str| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
        word.starts_with(|c: char| c.is_ascii_digit())
    };
    let mut is_within = false;
    for line in text.lines().map(str::trim) {
        if is_rule(line) {
            is_within = true;
        } else if !line.contains('|') {
            is_within = false;
        } else if (is_within || line.starts_with('|') && line.matches('|').count() > 1)
            && line.split(['|', ' ', '\t']).any(begins_with_digit)
        {
            return true;
        }
    }
    false
}

/// Says what an artifact that is not of its form lacks.
pub(super) fn formless(name: &str) -> String {
    match name {
        DIFF => "has no line that begins with + or -".to_owned(),
        "validation_report" => "has no table row with a number".to_owned(),
        "monte_carlo_stats" => "is not a JSON object with a number".to_owned(),
        _ => format!("has fewer than {SPEC_WORDS_MIN} words"),
    }
}

/// Fewest words of a specification.
const SPEC_WORDS_MIN: usize = 20;

/// Whether a JSON value is or contains a number. Its depth is bounded by the parser.
fn has_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(values) => values.iter().any(has_number),
        Value::Object(members) => members.values().any(has_number),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// Whether the value is a number, or a text that is not a placeholder; the evidence roles judge its
/// content.
fn is_figure(json: &str, nothing: &impl Fn(&str) -> bool) -> bool {
    if json.starts_with('"') {
        return serde_json::from_str::<String>(json).is_ok_and(|text| !nothing(&text));
    }
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::has_table_row;

    #[test]
    fn a_table_row_has_bars_and_a_number() {
        for row in [
            "| sharpe | 1.2 |",
            "| metric | value |\n|---|---|\n| drawdown | -4.5 % |",
            "metric | value\n--- | ---\nsharpe | +1.2",
            "text before\n\n| return | ($15.4) |",
        ] {
            assert!(has_table_row(row), "{row}");
        }
        for other in [
            "",
            "| a1 | b2 |\n|---|---|",
            "use a|b 3 times",
            "| 5",
            "sharpe 1.2",
            "| metric | value |\n|---|---|\n\nsharpe 1.2 or more",
        ] {
            assert!(!has_table_row(other), "{other}");
        }
    }
}
