//! Finds all faults in a thesis. The gate refuses a rulebook at the first fault; reviewers want to
//! see all of them.

use std::collections::BTreeMap;
use std::fmt;

use serde_yaml::Value;

use super::{front_matter, read};
use crate::Rulebook;
use crate::strategies::{Direction, Strategy};
use crate::yaml;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::time::Time;

/// Lines before the front matter.
const LINES_BEFORE: usize = 1;

/// Every key of a thesis, and whether it must be there.
const KEYS: [(&str, bool); 8] = [
    ("slug", true),
    ("strategy", true),
    ("symbol", true),
    ("direction", true),
    ("since", false),
    ("expires", true),
    ("invalid_below", false),
    ("invalid_above", false),
];

/// A fault in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1, where known.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

/// A text that is not the name of a direction.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a direction; write `long` or `short`")]
struct NoDirection(String);

/// The result of linting one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Linted {
    /// The slug and its line, if the file has a valid slug.
    pub slug: Option<(ThesisSlug, Option<usize>)>,
    /// The faults by line; faults without a line come first.
    pub faults: Vec<Fault>,
}

/// Lints the text of a thesis. `path` is the path to show, `stem` the file name without its ending.
/// Without `rules`, references to instruments and strategies are not checked.
pub fn lint(path: &str, stem: &str, text: &str, rules: Option<&Rulebook>, now: Time) -> Linted {
    let strict = read(path, text);
    let Some(draft) = Draft::of(path, text) else {
        // There is no mapping to look into; the strict reader has the message.
        let error = strict.err();
        let faults = error.into_iter().map(|error| Fault {
            line: error.line,
            message: error.message,
        });
        return Linted {
            slug: None,
            faults: faults.collect(),
        };
    };
    let mut linter = Linter {
        draft,
        faults: Vec::new(),
    };
    linter.keys();
    let slug = linter.value("slug", ThesisSlug::parse);
    if let Some(slug) = slug.as_ref().filter(|slug| slug.as_str() != stem) {
        linter.fault(
            "slug",
            format!("names itself `{slug}`; file name and slug must agree"),
        );
    }
    let strategy = linter.value("strategy", StrategyName::parse);
    let symbol = linter.value("symbol", Symbol::parse);
    let direction = linter.value("direction", |text| match text {
        "long" => Ok(Direction::Long),
        "short" => Ok(Direction::Short),
        other => Err(NoDirection(other.to_owned())),
    });
    linter.times(now);
    linter.levels(direction);
    if let Some(rules) = rules {
        linter.references(rules, strategy.as_ref(), symbol.as_ref(), direction);
    }
    // Report at least one fault of a file that the gate refuses.
    if let (Err(error), true) = (strict, linter.faults.is_empty()) {
        linter.faults.push(Fault {
            line: error.line,
            message: error.message,
        });
    }
    let mut faults = linter.faults;
    faults.sort_by_key(|fault| fault.line);
    let line = linter.draft.line_of("slug");
    Linted {
        slug: slug.map(|slug| (slug, line)),
        faults,
    }
}

/// The front matter as texts by key.
struct Draft<'a> {
    front: &'a str,
    /// The text of each value; `None` if it is a list or a map.
    values: BTreeMap<String, Option<String>>,
}

impl<'a> Draft<'a> {
    /// Returns `None` if the text has no front matter that is one mapping.
    fn of(path: &str, text: &'a str) -> Option<Draft<'a>> {
        let front = front_matter(path, text).ok()?;
        // Read as strings, so that bare numbers keep all their digits.
        if let Ok(values) = yaml::read_at::<BTreeMap<String, String>>(path, front, LINES_BEFORE) {
            let values = values
                .into_iter()
                .map(|(key, value)| (key, Some(value)))
                .collect();
            return Some(Draft { front, values });
        }
        let values = yaml::read_at::<BTreeMap<String, Value>>(path, front, LINES_BEFORE).ok()?;
        let text_of = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Null => Some(String::new()),
            Value::Sequence(_) | Value::Mapping(_) | Value::Tagged(_) => None,
        };
        let values = values
            .into_iter()
            .map(|(key, value)| (key, text_of(value)))
            .collect();
        Some(Draft { front, values })
    }

    fn line_of(&self, key: &str) -> Option<usize> {
        self.lines_of(key).next()
    }

    fn lines_of(&self, key: &str) -> impl Iterator<Item = usize> {
        let is_key = move |line: &str| {
            let line = line.trim_start_matches(['"', '\'']);
            let rest = line
                .strip_prefix(key)
                .map(|rest| rest.trim_start_matches(['"', '\'']));
            rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
        };
        let found = self
            .front
            .lines()
            .enumerate()
            .filter(move |(_, line)| is_key(line));
        found.map(|(before, _)| before.saturating_add(LINES_BEFORE).saturating_add(1))
    }
}

struct Linter<'a> {
    draft: Draft<'a>,
    faults: Vec<Fault>,
}

impl Linter<'_> {
    fn fault(&mut self, key: &str, message: impl Into<String>) {
        let line = self.draft.line_of(key);
        self.faults.push(Fault {
            line,
            message: message.into(),
        });
    }

    fn keys(&mut self) {
        let known = KEYS.map(|(key, _)| key);
        let unknown = self
            .draft
            .values
            .keys()
            .filter(|key| !known.contains(&key.as_str()));
        for key in unknown.cloned().collect::<Vec<_>>() {
            self.fault(
                &key,
                format!("unknown key `{key}`; known are {}", known.join(", ")),
            );
        }
        for key in known {
            if let Some(line) = self.draft.lines_of(key).nth(1) {
                self.faults.push(Fault {
                    line: Some(line),
                    message: format!("`{key}` appears twice"),
                });
            }
        }
        for (key, _) in KEYS
            .iter()
            .filter(|(key, must)| *must && !self.draft.values.contains_key(*key))
        {
            self.faults.push(Fault {
                line: None,
                message: format!("`{key}` is missing"),
            });
        }
    }

    /// Returns the parsed value of a key; reports a fault if it cannot be parsed.
    fn value<T, E: fmt::Display>(
        &mut self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let why = match self.draft.values.get(key)?.as_deref().map(parse) {
            Some(Ok(value)) => return Some(value),
            Some(Err(error)) => error.to_string(),
            None => "it is a list or a map; write one value".to_owned(),
        };
        self.fault(key, format!("`{key}`: {why}"));
        None
    }

    fn times(&mut self, now: Time) {
        let (since, expires) = (
            self.value("since", Time::parse),
            self.value("expires", Time::parse),
        );
        let Some(expires) = expires else { return };
        if expires <= now {
            self.fault(
                "expires",
                format!("it expired at {expires} and allows no entries"),
            );
        }
        if since.is_some_and(|since| since >= expires) {
            self.fault("since", "`since` is not before `expires`");
        }
    }

    /// Checks the refuting prices. A fall refutes a long thesis, and a rise refutes a short
    /// thesis. If there are both levels, a price between them must be possible.
    fn levels(&mut self, direction: Option<Direction>) {
        let keys = ["invalid_below", "invalid_above"];
        let [below, above] = keys.map(|key| self.value(key, Amount::parse_wire));
        for (key, level) in keys.into_iter().zip([below, above]) {
            if let Some(level) = level.filter(|level| !level.is_positive()) {
                self.fault(
                    key,
                    format!("`{key}` is {level}, which no price reaches; it must be above 0"),
                );
            }
        }
        if let (Some(below), Some(above)) = (below, above)
            && below >= above
        {
            self.fault(
                "invalid_below",
                format!(
                    "`invalid_below` {below} is not below `invalid_above` {above}: every price \
                        refutes it"
                ),
            );
        }
        let has = |key: &str| self.draft.values.contains_key(key);
        let wrong = match direction {
            Some(Direction::Long) if has("invalid_above") && !has("invalid_below") => Some((
                "invalid_above",
                "a long thesis is refuted by a fall: `invalid_below` is missing",
            )),
            Some(Direction::Short) if has("invalid_below") && !has("invalid_above") => Some((
                "invalid_below",
                "a short thesis is refuted by a rise: `invalid_above` is missing",
            )),
            _ => None,
        };
        if let Some((key, what)) = wrong {
            self.fault(key, format!("`{key}` alone is on the wrong side: {what}"));
        }
    }

    fn references(
        &mut self,
        rules: &Rulebook,
        strategy: Option<&StrategyName>,
        symbol: Option<&Symbol>,
        direction: Option<Direction>,
    ) {
        if let Some(symbol) = symbol.filter(|symbol| !rules.instruments.contains_key(*symbol)) {
            self.fault(
                "symbol",
                format!("`{symbol}` is not in rules/instruments.yaml"),
            );
        }
        let Some(name) = strategy else { return };
        let Some(Strategy {
            instruments,
            directions,
            ..
        }) = rules.strategies.get(name)
        else {
            self.fault(
                "strategy",
                format!("strategy `{name}` has no file below rules/strategies"),
            );
            return;
        };
        let file = format!("rules/strategies/{name}.yaml");
        if let Some(symbol) = symbol.filter(|symbol| !instruments.contains(symbol)) {
            self.fault("symbol", format!("{file} does not list `{symbol}`"));
        }
        if let Some(direction) = direction.filter(|direction| !directions.contains(direction)) {
            self.fault(
                "direction",
                format!("{file} does not go {}", direction.as_str()),
            );
        }
    }
}

/// Returns the fault for a second file with the same slug; `path` is the first file.
pub fn same_slug(slug: &ThesisSlug, line: Option<usize>, path: &str) -> Fault {
    Fault {
        line,
        message: format!("`{slug}` is the slug of {path} too"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bundle;

    const NOW: &str = "2026-02-21T12:00:00Z";

    fn rules() -> Rulebook {
        let safety = include_str!("../../../../rules/safety.yaml");
        let instruments = include_str!("../../../../rules/instruments.yaml");
        let eth = instruments
            .split("instruments:\n")
            .nth(1)
            .unwrap()
            .replace("BTC-USD", "ETH-USD");
        let trend = include_str!("../../../../rules/strategies/trend.yaml");
        let files = [
            ("rules/safety.yaml", safety.to_owned()),
            ("rules/instruments.yaml", format!("{instruments}\n{eth}")),
            ("rules/strategies/trend.yaml", trend.to_owned()),
            (
                "rules/strategies/up.yaml",
                "name: up\nstatus: active\ninstruments: [BTC-USD]\ndirections: \
                [long]\nstop_distance: {min: 0.001, max: 0.1}\n"
                    .to_owned(),
            ),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text));
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .unwrap()
    }

    fn faults(text: &str) -> Vec<String> {
        let linted = lint(
            "t.md",
            "idea",
            text,
            Some(&rules()),
            Time::parse(NOW).unwrap(),
        );
        let line = |line: Option<usize>| line.map_or_else(String::new, |line| line.to_string());
        linted
            .faults
            .iter()
            .map(|fault| format!("{}:{}", line(fault.line), fault.message))
            .collect()
    }

    const GOOD: [(&str, &str); 6] = [
        ("slug", "idea"),
        ("strategy", "trend"),
        ("symbol", "BTC-USD"),
        ("direction", "long"),
        ("expires", "2027-01-01T00:00:00Z"),
        ("invalid_below", "6000"),
    ];

    /// Returns a valid thesis with these keys set; an empty value removes the key.
    fn with(changes: &[(&str, &str)]) -> String {
        let mut lines: Vec<(&str, &str)> = GOOD.to_vec();
        for (key, value) in changes {
            match lines.iter_mut().find(|(name, _)| name == key) {
                Some(line) => line.1 = value,
                None => lines.push((key, value)),
            }
        }
        let lines = lines.iter().filter(|(_, value)| !value.is_empty());
        let text: String = lines
            .map(|(key, value)| format!("{key}: {value}\n"))
            .collect();
        format!("---\n{text}---\nWhy.\n")
    }

    #[test]
    fn each_fault_is_reported_with_its_line() {
        assert_eq!(faults(&with(&[])), [""; 0]);
        assert_eq!(
            faults(&with(&[
                ("since", "2026-01-01T00:00:00Z"),
                ("invalid_above", "6000.01")
            ])),
            [""; 0]
        );
        for (changes, expect) in [
            (&[("slug", "ideas")][..], "2:names itself `ideas`"),
            (
                &[("slug", "An idea")],
                "2:`slug`: `An idea` is not a thesis slug",
            ),
            (&[("slug", "")], ":`slug` is missing"),
            (&[("strategy", "trendy")], "3:strategy `trendy` has no file"),
            (
                &[("strategy", "up"), ("symbol", "ETH-USD")],
                "4:rules/strategies/up.yaml does not list `ETH-USD`",
            ),
            (
                &[("symbol", "BTC-UDS")],
                "4:`BTC-UDS` is not in rules/instruments.yaml",
            ),
            (
                &[("direction", "up")],
                "5:`direction`: `up` is not a direction",
            ),
            (
                &[
                    ("strategy", "up"),
                    ("direction", "short"),
                    ("invalid_above", "7000"),
                ],
                "5:rules/strategies/up.yaml does not go short",
            ),
            (
                &[("expires", "2026-02-21T12:00:00Z")],
                "6:it expired at 2026-02-21T12:00:00.000Z",
            ),
            (&[("expires", "tomorrow")], "6:`expires`:"),
            (&[("expires", "")], ":`expires` is missing"),
            (
                &[("since", "2027-01-01T00:00:00Z")],
                "8:`since` is not before `expires`",
            ),
            (&[("since", "[2026]")], "8:`since`: it is a list or a map"),
            (&[("invalid_below", "0")], "7:`invalid_below` is 0"),
            (&[("invalid_below", "-1")], "7:`invalid_below` is -1"),
            (&[("invalid_below", "1e3")], "7:`invalid_below`:"),
            (
                &[("invalid_above", "6000")],
                "7:`invalid_below` 6000 is not below `invalid_above` 6000",
            ),
            (
                &[("invalid_below", ""), ("invalid_above", "7000")],
                "7:`invalid_above` alone is on the wrong side",
            ),
            (
                &[("direction", "short")],
                "7:`invalid_below` alone is on the wrong side",
            ),
            (
                &[("invalid_bellow", "5000")],
                "8:unknown key `invalid_bellow`",
            ),
        ] {
            let text = with(changes);
            let faults = faults(&text);
            assert!(
                faults.iter().any(|fault| fault.starts_with(expect)),
                "{expect}: {faults:?}"
            );
            assert!(
                expect.contains("does not list") || faults.len() <= 2,
                "{faults:?}"
            );
        }
    }

    #[test]
    fn all_faults_of_a_file_are_reported_not_only_the_first() {
        let text = with(&[
            ("slug", "other"),
            ("strategy", "nobody"),
            ("symbol", "XRP"),
            ("direction", "sideways"),
            ("expires", "2020-01-01T00:00:00Z"),
            ("invalid_below", "-6"),
            ("why", "because"),
        ]);
        let lines: Vec<String> = faults(&text)
            .iter()
            .map(|fault| fault.chars().take(2).collect())
            .collect();
        assert_eq!(lines, ["2:", "3:", "4:", "5:", "6:", "7:", "8:"]);
    }

    #[test]
    fn a_text_without_front_matter_gets_the_message_of_the_gate() {
        for text in [
            "",
            "# Idea\n",
            "---\nslug: idea\n",
            "---\n- a\n---\n",
            "---\nslug: [\n---\n",
        ] {
            let faults = faults(text);
            let gate = read("t.md", text).unwrap_err();
            assert_eq!(faults.len(), 1, "{text:?}: {faults:?}");
            assert!(faults[0].ends_with(&gate.message), "{faults:?} {gate}");
        }
    }

    #[test]
    fn nothing_that_the_gate_refuses_passes() {
        for changes in [
            &[("since", "null")][..],
            &[("invalid_below", "null")],
            &[("invalid_below", "\"\"")],
            &[("invalid_above", "~")],
            &[("slug", "!x idea")],
            &[("direction", "Long")],
            &[("expires", "2027-01-01")],
        ] {
            let text = with(changes);
            assert!(
                read("t.md", &text).is_ok() || !faults(&text).is_empty(),
                "{text}"
            );
        }
        let faults = faults(&with(&[("\"slug\"", "other")]));
        assert_eq!(faults[1], "8:`slug` appears twice", "{faults:?}");
        let shipped = include_str!("../../../../proposals/theses/btc-dip-long.md");
        assert!(
            lint(
                "t.md",
                "btc-dip-long",
                shipped,
                Some(&rules()),
                Time::parse(NOW).unwrap()
            )
            .faults
            .is_empty()
        );
    }
}
