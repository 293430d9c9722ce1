//! A sender's earlier accepted requests, as `history.*` and `first_seen` read them. The values of a
//! request are taken from its payload when its line is folded, whatever rules were in force then,
//! so that a new rule sees earlier requests.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::actions::Lane;
use super::record::{Decision, Status};
use spoolgate_rules::rule::field::{self, Field, Kind};
use spoolgate_rules::rule::historic::{is_kept, paths};
use spoolgate_rules::rule::ruleset::WINDOW_S_MAX;
use spoolgate_rules::rule::{Fact, Program, Reading, Value};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::sha256_hex;
use spoolgate_wire::time::Time;

/// Maximum number of requests read in a window; beyond it the fact is unknown.
pub const ROWS_MAX: usize = 5000;
/// Longer texts are kept as their beginning and the digest of the whole text. Bytes.
const VALUE_BYTES_MAX: usize = 300;
/// Maximum number of values kept per field of a request: more than a line has room for. The other
/// values of a request that is too large for its line are never known.
const VALUES_MAX: usize = 3000;
/// Prefix of kept texts that are not a host or an address; no host or address begins with it.
const INCOMPARABLE: &str = " ";
/// How long requests are kept for windows, milliseconds.
pub const KEPT_MS: i64 = WINDOW_S_MAX as i64 * 1000;
/// A batch may last this long: rows are fetched from this much before the window. Milliseconds.
const MARGIN_MS: i64 = 3_600_000;

/// Values by field: numbers as texts, and texts in the form in which they are compared.
pub type Values = BTreeMap<String, Vec<String>>;

/// Members of an object with their texts.
type Members<'a> = BTreeMap<String, &'a RawValue>;

/// A request as the index keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line.
    pub seq: u64,
    /// When it was accepted.
    pub at: Time,
    /// Its values; `None` if its payload is not in the line.
    pub values: Option<Values>,
}

/// A query to the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// The sender.
    pub source: String,
    /// The action.
    pub action: String,
    /// How far back to read, milliseconds; `None` if no window is read.
    pub window_ms: Option<i64>,
    /// Fields and values to look up, to see whether they are new.
    pub firsts: Vec<(&'static str, String)>,
}

impl Query {
    /// The time from which on requests are fetched.
    pub fn since(&self, now: Time) -> Option<Time> {
        self.window_ms
            .map(|window_ms| now.plus_ms(window_ms.saturating_add(MARGIN_MS).saturating_neg()))
    }
}

/// The index's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Requests, newest first, at most [`ROWS_MAX`] + 1.
    pub rows: Vec<Row>,
    /// The queried values that were accepted before.
    pub known: BTreeSet<(&'static str, String)>,
}

impl History {
    /// Merges the answer of another index, which may hold some of the same lines.
    pub fn with(mut self, other: History) -> History {
        self.rows.extend(other.rows);
        self.rows
            .sort_by_key(|row| std::cmp::Reverse((row.at, row.seq)));
        self.rows.dedup_by_key(|row| row.seq);
        self.known.extend(other.known);
        self
    }
}

/// The history that the rules of a program need; `None` if they need none.
pub fn query(program: &Program, source: &Principal, action: &str, payload: &str) -> Option<Query> {
    if program
        .readings
        .iter()
        .all(|reading| matches!(reading, Reading::Field(_)))
    {
        return None;
    }
    let mut query = Query {
        source: source.to_string(),
        action: action.to_owned(),
        ..Query::default()
    };
    let mut own = None;
    for reading in &program.readings {
        match reading {
            Reading::Field(_) => {}
            Reading::FirstSeen(field) => {
                let values = own.get_or_insert_with(|| values(action, payload));
                let found = values.get(field.name).into_iter().flatten();
                query
                    .firsts
                    .extend(found.map(|value| (field.name, value.clone())));
                query.window_ms = query.window_ms.or(Some(0));
            }
            Reading::Count { window_s }
            | Reading::Sum { window_s, .. }
            | Reading::Distinct { window_s, .. } => {
                let window_ms = i64::from(*window_s).saturating_mul(1000);
                query.window_ms = query.window_ms.max(Some(window_ms));
            }
        }
    }
    query.window_ms.is_some().then_some(query)
}

/// The part of a line that belongs to the history of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted<'a> {
    /// The sender.
    pub source: &'a str,
    /// Its action.
    pub action: &'a str,
    /// Its values; `None` if its payload is not in the line.
    pub values: Option<Values>,
    /// Whether its values count as known from now on.
    pub makes_known: bool,
}

/// The part of a line that belongs to the history of its sender; `None` if the request was not
/// accepted or its action has no history.
pub fn of_line(decision: &Decision) -> Option<Accepted<'_>> {
    let (source, action) = (decision.source.as_deref()?, decision.action.as_deref()?);
    let is_accepted = matches!(decision.status, Status::Success | Status::Pending)
        && decision.metadata.replay_of.is_none()
        // Exits are not counted: rules are not asked about them.
        && decision.lane != Lane::Protected;
    paths(action).filter(|_| is_accepted)?;
    let payload = decision.payload.as_deref();
    let makes_known = payload
        .is_some_and(|payload| *action != ActionName::ControlApply || changes_who_trades(payload));
    Some(Accepted {
        source,
        action,
        values: payload.map(|payload| values(action, payload)),
        makes_known,
    })
}

/// Whether rules always apply to this control decision and it has an effect. Otherwise a sender
/// could make values known that no rule accepted, with a pause, which is never refused, or with a
/// dry run.
fn changes_who_trades(payload: &str) -> bool {
    #[derive(Deserialize)]
    struct Said {
        action: String,
        #[serde(default)]
        dry_run: bool,
    }
    let said = serde_json::from_str::<Said>(payload);
    said.is_ok_and(|said| matches!(said.action.as_str(), "switch" | "resume") && !said.dry_run)
}

/// The historic values of a payload.
pub fn values(action: &str, payload: &str) -> Values {
    let mut found = Values::new();
    let Ok(members) = serde_json::from_str::<Members>(payload) else {
        return found;
    };
    for (name, sources) in paths(action).unwrap_or_default() {
        let Some(field) = field::find(name) else {
            continue;
        };
        let mut of_field: Vec<String> = Vec::new();
        for path in *sources {
            let texts = at(&members, path);
            of_field.extend(texts.into_iter().map(|text| {
                kept(field.kind, &text)
                    .unwrap_or_else(|| [INCOMPARABLE, cut(text).as_str()].concat())
            }));
        }
        of_field.truncate(VALUES_MAX);
        if !of_field.is_empty() {
            found.insert((*name).to_owned(), of_field);
        }
    }
    found
}

/// Texts at a path: a text, a number, or the elements of an array.
fn at(members: &Members<'_>, path: &str) -> Vec<String> {
    let (first, below) = path
        .split_once('.')
        .map_or((path, None), |(first, below)| (first, Some(below)));
    let text = members
        .get(first)
        .map(|value| value.get())
        .filter(|text| *text != "null");
    let Some(text) = text else { return Vec::new() };
    if let Some(below) = below {
        let deeper = serde_json::from_str::<Members>(text);
        return deeper.map_or_else(|_| Vec::new(), |deeper| at(&deeper, below));
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Read {
        One(String),
        Many(Vec<String>),
    }
    match serde_json::from_str(text) {
        Ok(Read::One(one)) => vec![one],
        Ok(Read::Many(many)) => many,
        Err(_) => vec![text.to_owned()],
    }
}

/// A value in the form in which it is kept and compared; `None` if it is not of this kind.
fn kept(kind: Kind, text: &str) -> Option<String> {
    if kind.is_number() {
        // Text that is not a number stays as it is, so that a sum over it is unknown instead of too
        // small.
        let number = Amount::parse_wire(text).map(|number| number.to_string());
        return Some(number.unwrap_or_else(|_| text.to_owned()));
    }
    kind.fold(text).map(|folded| cut(folded.into_owned()))
}

/// Shortens a text so that different texts stay different.
fn cut(mut text: String) -> String {
    if text.len() <= VALUE_BYTES_MAX {
        return text;
    }
    let digest = sha256_hex(text.as_bytes());
    let end = (0..=VALUE_BYTES_MAX)
        .rev()
        .find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text.push_str(&digest);
    text
}

const NOT_LOOKED_UP: &str = "history is not looked up";
const NOT_KEPT: &str = "no history of this field is kept";
const TOO_MANY: &str = "the window has more accepted requests than the gate compares";
const NOT_IN_LINE: &str = "the values of an earlier request are not in its ledger line";
const NOT_COMPARED: &str = "a value of an earlier request cannot be compared";
const NOT_EXACT: &str = "the sum cannot be computed exactly";

/// Evaluates a reading of the past. `own` is the value of its field in the present request.
pub fn fact<'a>(
    history: Option<&History>,
    action: &str,
    reading: &Reading,
    own: impl FnOnce(&'static Field) -> Fact<'a>,
    now: Time,
) -> Fact<'a> {
    let unknown = |why: &'static str| Fact::Unknown(why.into());
    let Some(history) = history else {
        return unknown(NOT_LOOKED_UP);
    };
    let of = match reading {
        Reading::Field(field) => return own(field),
        Reading::Count { .. } => None,
        Reading::FirstSeen(of) | Reading::Sum { of, .. } | Reading::Distinct { of, .. } => {
            Some(*of)
        }
    };
    if of.is_some_and(|of| !is_kept(action, of.name)) {
        return unknown(NOT_KEPT);
    }
    let window_s = match reading {
        Reading::Count { window_s }
        | Reading::Sum { window_s, .. }
        | Reading::Distinct { window_s, .. } => *window_s,
        Reading::Field(_) | Reading::FirstSeen(_) => 0,
    };
    let from = now.plus_ms(i64::from(window_s).saturating_mul(-1000));
    // A request exactly as old as the window does not count. One with a later time, from before a
    // clock was set back, counts.
    let within: Vec<&Row> = history.rows.iter().filter(|row| row.at > from).collect();
    if within.len() > ROWS_MAX {
        return unknown(TOO_MANY);
    }
    match (reading, of) {
        (Reading::FirstSeen(_), Some(of)) => first_seen(history, of, &own(of)),
        (Reading::Sum { .. }, Some(of)) => sum(&within, of, &own(of)),
        (Reading::Distinct { .. }, Some(of)) => distinct(&within, of, &own(of)),
        _ => Fact::number(Amount::from_i64(
            i64::try_from(within.len()).unwrap_or(i64::MAX),
        )),
    }
}

fn first_seen<'a>(history: &History, of: &'static Field, own: &Fact<'_>) -> Fact<'a> {
    let is_new = |value: &Value<'_>| match value {
        // A value that cannot be compared was never seen.
        Value::Text(text) => {
            kept(of.kind, text).is_none_or(|value| !history.known.contains(&(of.name, value)))
        }
        Value::Number(_) | Value::Flag(_) => true,
    };
    match own {
        Fact::Known(value) => Fact::flag(is_new(value)),
        Fact::Many(values) => Fact::flag(values.iter().any(is_new)),
        Fact::Absent => Fact::Absent,
        Fact::Unknown(why) => Fact::Unknown(why.to_string().into()),
    }
}

fn sum<'a>(within: &[&Row], of: &Field, own: &Fact<'_>) -> Fact<'a> {
    let unknown = |why: &'static str| Fact::Unknown(why.into());
    let mut sum = match own {
        Fact::Known(Value::Number(number)) => *number,
        Fact::Absent => Amount::ZERO,
        Fact::Unknown(why) => return Fact::Unknown(why.to_string().into()),
        Fact::Known(_) | Fact::Many(_) => return unknown(NOT_EXACT),
    };
    for row in within {
        let Some(values) = &row.values else {
            return unknown(NOT_IN_LINE);
        };
        for value in values.get(of.name).into_iter().flatten() {
            let added = Amount::parse_exact(value)
                .ok()
                .and_then(|value| sum.checked_add(value));
            match added {
                Some(added) => sum = added,
                None => return unknown(NOT_EXACT),
            }
        }
    }
    Fact::number(sum)
}

fn distinct<'a>(within: &[&Row], of: &Field, own: &Fact<'_>) -> Fact<'a> {
    let mut values: BTreeSet<String> = BTreeSet::new();
    let one = |value: &Value<'_>| match value {
        Value::Text(text) => kept(of.kind, text),
        Value::Number(number) => Some(number.normalized().to_string()),
        Value::Flag(flag) => Some(flag.to_string()),
    };
    let unknown = |why: &'static str| Fact::Unknown(why.into());
    let own: Option<Vec<String>> = match own {
        Fact::Known(value) => one(value).map(|value| vec![value]),
        Fact::Many(values) => values.iter().map(one).collect(),
        Fact::Absent => Some(Vec::new()),
        Fact::Unknown(why) => return Fact::Unknown(why.to_string().into()),
    };
    match own {
        Some(own) => values.extend(own),
        None => return unknown("a value of this request cannot be compared"),
    }
    for row in within {
        let Some(found) = &row.values else {
            return unknown(NOT_IN_LINE);
        };
        let found = found.get(of.name).into_iter().flatten();
        if matches!(of.kind, Kind::Host | Kind::Address)
            && found.clone().any(|value| value.starts_with(INCOMPARABLE))
        {
            return unknown(NOT_COMPARED);
        }
        values.extend(found.map(|value| match Amount::parse_exact(value) {
            Ok(number) if of.kind.is_number() => number.normalized().to_string(),
            _ => value.clone(),
        }));
    }
    Fact::number(Amount::from_i64(
        i64::try_from(values.len()).unwrap_or(i64::MAX),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_rules::rule::historic::HISTORIC;

    fn at_s(seconds: i64) -> Time {
        Time::from_ms(1_772_000_000_000 + seconds * 1000).unwrap()
    }

    fn row(seconds: i64, size: &str) -> Row {
        let payload = format!(r#"{{"symbol":"BTC-USD","size":{size},"strategy":"trend"}}"#);
        Row {
            seq: 0,
            at: at_s(seconds),
            values: Some(values("order.submit", &payload)),
        }
    }

    fn size() -> &'static Field {
        field::find("order.size").unwrap()
    }

    fn ask(history: &History, reading: &Reading, own: &str) -> Fact<'static> {
        let own = Amount::parse_exact(own).unwrap();
        fact(
            Some(history),
            "order.submit",
            reading,
            |_| Fact::number(own),
            at_s(1000),
        )
    }

    fn number(text: &str) -> Fact<'static> {
        Fact::number(Amount::parse_exact(text).unwrap())
    }

    #[test]
    fn a_request_counts_until_exactly_its_window_has_passed() {
        let history = History {
            rows: vec![
                row(1000, "1"),
                row(941, "\"0.30\""),
                row(940, "5"),
                row(939, "7"),
            ],
            ..History::default()
        };
        for (window_s, count, sum) in [
            (1, "1", "2"),
            (59, "1", "2"),
            (60, "2", "2.30"),
            (61, "3", "7.30"),
            (62, "4", "14.30"),
        ] {
            assert_eq!(
                ask(&history, &Reading::Count { window_s }, "1"),
                number(count),
                "{window_s}"
            );
            assert_eq!(
                ask(
                    &history,
                    &Reading::Sum {
                        of: size(),
                        window_s
                    },
                    "1"
                ),
                number(sum),
                "{window_s}"
            );
        }
        assert_eq!(
            ask(
                &history,
                &Reading::Distinct {
                    of: size(),
                    window_s: 62
                },
                "1.0"
            ),
            number("4")
        );
    }

    #[test]
    fn an_undecidable_fact_is_unknown() {
        let sum = Reading::Sum {
            of: size(),
            window_s: 100,
        };
        let is_unknown = |history: &History, reading: &Reading| {
            matches!(ask(history, reading, "1"), Fact::Unknown(_))
        };
        let lost = History {
            rows: vec![Row {
                seq: 0,
                at: at_s(1000),
                values: None,
            }],
            ..History::default()
        };
        assert!(is_unknown(&lost, &sum));
        assert_eq!(
            ask(&lost, &Reading::Count { window_s: 100 }, "1"),
            number("1")
        );
        let huge = "79228162514264337593543950335";
        let over = History {
            rows: vec![row(1000, &format!("\"{huge}\""))],
            ..History::default()
        };
        assert!(is_unknown(&over, &sum));
        for (rows, expect) in [(ROWS_MAX, false), (ROWS_MAX + 1, true)] {
            let many = History {
                rows: vec![row(1000, "1"); rows],
                ..History::default()
            };
            assert_eq!(is_unknown(&many, &Reading::Count { window_s: 100 }), expect);
        }
        let price = Reading::Sum {
            of: field::find("order.price").unwrap(),
            window_s: 100,
        };
        assert!(
            is_unknown(&History::default(), &price),
            "no history is kept of prices"
        );
        assert!(matches!(
            fact(None, "order.submit", &sum, |_| number("1"), at_s(0)),
            Fact::Unknown(_)
        ));
    }

    fn known(action: &str, name: &str, payload: &str) -> BTreeSet<String> {
        values(action, payload)
            .remove(name)
            .unwrap_or_default()
            .into_iter()
            .collect()
    }

    /// Long texts used to be kept as their beginning alone, so that accepting one accepted all with
    /// it.
    #[test]
    fn long_texts_are_the_same_only_if_all_of_them_is() {
        let call = |end: &str| {
            let payload = format!(r#"{{"endpoint":"/{}{end}"}}"#, "a".repeat(VALUE_BYTES_MAX));
            known("service.api_call", "payload.endpoint", &payload)
        };
        assert_eq!(call("x"), call("x"));
        assert!(call("x").is_disjoint(&call("y")));
        assert!(
            call("x")
                .iter()
                .all(|value| value.len() == VALUE_BYTES_MAX + 64)
        );
    }

    /// The 101st recipient used to be dropped.
    #[test]
    fn all_values_of_a_line_are_kept() {
        let to: Vec<String> = (0..1000).map(|n| format!("{n}@b.c")).collect();
        let payload = serde_json::json!({ "to": to }).to_string();
        assert_eq!(known("email.send", "payload.to", &payload).len(), 1000);
    }

    #[test]
    fn who_wrote_to_something_that_is_no_address_is_not_known_to_have_written_to_few() {
        let of = field::find("payload.to").unwrap();
        let asked = |payload: &str| {
            let row = Row {
                seq: 0,
                at: at_s(999),
                values: Some(values("email.send", payload)),
            };
            let history = History {
                rows: vec![row],
                ..History::default()
            };
            let own = |_| Fact::Many(vec![Value::Text("a@b.c".into())]);
            fact(
                Some(&history),
                "email.send",
                &Reading::Distinct { of, window_s: 100 },
                own,
                at_s(1000),
            )
        };
        assert_eq!(asked(r#"{"to":["x@y.z"]}"#), number("2"));
        assert!(matches!(
            asked(r#"{"to":["x@y.z","X <x@y.z>"]}"#),
            Fact::Unknown(_)
        ));
    }

    #[test]
    fn every_field_with_a_history_is_a_field_of_its_action() {
        for (actions, fields) in HISTORIC {
            for (name, _) in *fields {
                let field = field::find(name).unwrap_or_else(|| panic!("{name}"));
                assert!(
                    actions.iter().all(|action| field.actions.contains(action)),
                    "{name}"
                );
            }
        }
    }
}
