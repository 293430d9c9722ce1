//! The result of a call: one shape for every tool, and the same in words.

use spoolgate_wire::amount::Amount;
use spoolgate_wire::answer::{Answer, AnswerStatus};
use spoolgate_wire::checks::AnsweredRow;
use spoolgate_wire::code::{Code, Retry};
use spoolgate_wire::json;
use spoolgate_wire::orders::Headroom;
use spoolgate_wire::repair::{Fault, MEMBERS};

use super::quiet::quiet;
use super::raw::{Members, array, object, quoted};
use super::said::{Asked, WouldBe, said, would_be as would_be_said};
use super::tools::{Does, TOOLS};

/// The outcome of a call, before it is written as JSON.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// `success`, `error`, `requires_approval`, `rate_limited`, `unknown` or `not_sent`; also
    /// `open` or `pending`.
    pub status: &'static str,
    /// Id of the request.
    pub request_id: Option<String>,
    /// Number of the ledger line of the answer.
    pub audit_ref: Option<String>,
    /// The answer's body, as JSON.
    pub data: Option<String>,
    /// Why the request was refused, if it was.
    pub refused: Option<Refused>,
    /// After how many milliseconds to send the same request again, as JSON.
    pub retry_after_ms: Option<String>,
    /// Advice for the model.
    pub note: Option<String>,
    /// Further members, with their values as JSON.
    pub more: Vec<(&'static str, String)>,
    /// The first line of the result in words.
    pub words: String,
}

/// Why a request was not carried out.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// The stable code.
    pub code: String,
    /// What happened, where, and what to do.
    pub message: String,
    /// The check results that failed.
    pub failed: Vec<AnsweredRow<'static>>,
    /// The order that would pass.
    pub headroom: Option<Headroom>,
    /// Whether and how to try again; `None` if the answer does not say.
    pub retry: Option<Retry>,
    /// What is wrong with the request, as JSON.
    pub faults: Option<String>,
}

/// Whether a member of `data` says whether and how to try again.
pub(crate) fn is_advice(name: &str) -> bool {
    name == "retryAfterMs" || MEMBERS.contains(&name)
}

/// Formats an amount without trailing zeros.
pub(crate) fn shown(amount: Amount) -> String {
    amount.normalized().to_string()
}

impl Refused {
    fn json(&self) -> String {
        let amount = |amount: Option<Amount>| {
            amount.map_or("null".to_owned(), |amount| quoted(&amount.to_string()))
        };
        let row = |row: &AnsweredRow<'_>| {
            object([
                ("check", quoted(&row.check_name)),
                ("measured", amount(row.value)),
                ("limit", amount(row.limit)),
                ("unit", quoted(&row.unit)),
                ("source", quoted(&row.source)),
                (
                    "message",
                    quoted(row.reason.as_deref().unwrap_or("it refuses")),
                ),
            ])
        };
        let headroom = self.headroom.as_ref().map(|headroom| {
            object([
                ("max_size", quoted(&headroom.max_size.to_string())),
                ("binding_check", quoted(&headroom.binding_check)),
            ])
        });
        let members = [
            Some(("code", quoted(&self.code))),
            Some(("message", quoted(&self.message))),
            (!self.failed.is_empty())
                .then(|| ("failed_checks", array(self.failed.iter().map(row)))),
            headroom.map(|text| ("headroom", text)),
            self.retry.map(|retry| ("retry", quoted(retry.as_str()))),
            self.faults.clone().map(|faults| ("faults", faults)),
        ];
        object(members.into_iter().flatten())
    }

    /// Describes the failed checks, the faults and the headroom, one per line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.failed.iter().map(row_in_words).collect();
        let faults = self
            .faults
            .as_deref()
            .map(serde_json::from_str::<Vec<Fault>>);
        lines.extend(
            faults
                .and_then(Result::ok)
                .iter()
                .flatten()
                .map(fault_in_words),
        );
        if let Some(headroom) = &self.headroom {
            let check = &headroom.binding_check;
            lines.push(match headroom.max_size.is_positive() {
                true => format!(
                    "headroom: a size of at most {} would pass; `{check}` refuses more",
                    shown(headroom.max_size)
                ),
                false => format!("headroom: no size would pass while `{check}` refuses"),
            });
        }
        lines
    }

    /// Describes what to do about the failed checks and the code, one step per line.
    pub(crate) fn needs(&self) -> Vec<String> {
        let mut needs = Vec::new();
        if let Some(headroom) = self
            .headroom
            .as_ref()
            .filter(|headroom| headroom.max_size.is_positive())
        {
            needs.push(format!(
                "send the same order with a size of at most {} under a fresh id",
                shown(headroom.max_size)
            ));
        }
        for row in self
            .failed
            .iter()
            .filter(|row| row.unit == "bool" || row.value.is_none() || row.limit.is_none())
        {
            needs.push(format!(
                "`{}` ({}) has to pass first: {}",
                row.check_name,
                row.source,
                row.reason.as_deref().unwrap_or("it refuses")
            ));
        }
        if needs.is_empty() {
            needs.push(self.message.clone());
        }
        needs
    }
}

fn fault_in_words(fault: &Fault) -> String {
    let example = fault.example.as_ref();
    let example = example
        .map(|value| format!(", such as {value}"))
        .unwrap_or_default();
    let (got, expected) = (&fault.got, &fault.expected);
    format!("`{}`: {got}; expected {expected}{example}", fault.pointer)
}

fn row_in_words(row: &AnsweredRow<'_>) -> String {
    let why = row.reason.as_deref().unwrap_or("it refuses");
    let unit = match row.unit.as_ref() {
        "price" | "bool" => String::new(),
        unit => format!(" {unit}"),
    };
    match (row.value, row.limit) {
        (Some(value), Some(limit)) if row.unit != "bool" => format!(
            "`{}`: measured {}{unit}, limit {}{unit} ({}): {why}",
            row.check_name,
            shown(value),
            shown(limit),
            row.source
        ),
        _ => format!("`{}` ({}): {why}", row.check_name, row.source),
    }
}

/// Data and error of a real or hypothetical answer.
struct Body<'a> {
    data: Option<&'a str>,
    code: Option<String>,
    message: Option<String>,
}

/// The parts of a result that come from a body.
struct Parts {
    data: Option<String>,
    refused: Option<Refused>,
    retry_after_ms: Option<String>,
}

/// `is_foreign`: an adapter has reported the data, which stay as they are.
fn parts(body: &Body<'_>, is_foreign: bool) -> Parts {
    let minified = body.data.map(|data| json::minify(data).into_owned());
    let members = minified.as_deref().and_then(Members::of);
    let rejected = members
        .as_ref()
        .and_then(|data| Members::of(data.text("Rejected")?));
    // `admission.admit` lists all check results, passed or not, as `checks`.
    let rows = rejected
        .as_ref()
        .and_then(|rejected| rejected.text("checks_failed"));
    let rows = rows.or_else(|| members.as_ref()?.text("checks"));
    let rows = rows
        .and_then(|rows| serde_json::from_str::<Vec<AnsweredRow<'static>>>(rows).ok())
        .unwrap_or_default();
    let refused = body.code.as_ref().map(|code| Refused {
        code: code.clone(),
        message: body.message.as_deref().map(in_place).unwrap_or_default(),
        // What follows from another check is mended with that one.
        failed: rows
            .into_iter()
            .filter(|row| !row.passed && row.follows_from.is_none())
            .collect(),
        headroom: rejected
            .as_ref()
            .and_then(|rejected| serde_json::from_str(rejected.text("headroom")?).ok()),
        retry: members
            .as_ref()
            .and_then(|data| serde_json::from_str(data.text("retry")?).ok()),
        faults: members
            .as_ref()
            .and_then(|data| data.text("faults"))
            .map(str::to_owned),
    });
    let data = match &members {
        Some(data) => {
            let is_left = |name: &str| refused.is_none() || !is_advice(name);
            let rest = data.only(|name| name != "Rejected" && is_left(name));
            let rest = match Members::of(&rest).filter(|_| !is_foreign) {
                Some(rest) => quiet(&rest),
                None => rest,
            };
            (rest != "{}").then_some(rest)
        }
        None => minified.clone(),
    };
    let retry_after_ms = members
        .as_ref()
        .and_then(|data| {
            data.text("retry_after_ms")
                .or_else(|| data.text("retryAfterMs"))
        })
        .map(str::to_owned);
    Parts {
        data,
        refused,
        retry_after_ms,
    }
}

/// The path of the failed checks in an answer.
const THEIR_PLACE: &str = "data.Rejected.checks_failed";

/// Rewrites a message of the gate in the words of the tools: the failed checks are in
/// `failed_checks`, and queries have the names of tools.
fn in_place(message: &str) -> String {
    let mut remedies = Code::ALL.iter().map(|code| code.remedy());
    let remedy = remedies.find(|remedy| remedy.contains(THEIR_PLACE) && message.ends_with(remedy));
    let mut words = match remedy {
        Some(_) => message.replace(THEIR_PLACE, "failed_checks"),
        None => message.to_owned(),
    };
    for tool in TOOLS.iter().filter(|tool| tool.is_query) {
        if let Does::Ask(action) = tool.does {
            words = words.replace(&format!("`{action}`"), &format!("`{}`", tool.name));
        }
    }
    words
}

impl Told {
    /// Builds the result from an answer of the gate. `asked` is the request, if it is known.
    pub(crate) fn of(answer: &Answer, asked: Option<Asked<'_>>) -> Told {
        let body = Body {
            data: answer.data.as_ref().map(|data| data.get()),
            code: answer
                .error
                .as_ref()
                .map(|error| error.code.name().to_owned()),
            message: answer.error.as_ref().map(|error| error.message.clone()),
        };
        let is_outgoing = asked.is_some_and(|asked| asked.action.is_outgoing());
        let is_foreign = is_outgoing && answer.status == AnswerStatus::Success;
        let Parts {
            data,
            refused,
            retry_after_ms,
        } = parts(&body, is_foreign);
        let (code, message) = refused.as_ref().map_or(("", ""), |refused| {
            (refused.code.as_str(), refused.message.as_str())
        });
        let (status, words) = match answer.status {
            AnswerStatus::Success => ("success", said(body.data, asked)),
            AnswerStatus::Error => ("error", format!("refused: {code}: {message}")),
            // The hold is the gate's own, whatever is held.
            AnswerStatus::RequiresApproval => ("requires_approval", said(body.data, None)),
            AnswerStatus::RateLimited => (
                "rate_limited",
                format!("not decided, too much was sent: {message}"),
            ),
        };
        Told {
            status,
            request_id: Some(answer.request_id.clone()).filter(|id| !id.is_empty()),
            audit_ref: Some(answer.audit_ref.clone()),
            data,
            words: format!("{words} (line {})", answer.audit_ref),
            refused,
            retry_after_ms,
            ..Told::default()
        }
    }

    /// Builds the result of a check from `would_be`, the answer that the checked request would get.
    pub(crate) fn checked(self, asked: Option<Asked<'_>>) -> Told {
        let would_be = self.data.as_deref().and_then(Members::of);
        let would_be = would_be.and_then(|data| data.text("would_be").map(str::to_owned));
        let Some(members) = would_be.as_deref().and_then(Members::of) else {
            return self;
        };
        let error = members.text("error").and_then(Members::of);
        let body = Body {
            data: members.text("data"),
            code: error.as_ref().and_then(|error| error.string("code")),
            message: error.as_ref().and_then(|error| error.string("message")),
        };
        let Parts {
            data,
            refused,
            retry_after_ms,
        } = parts(&body, false);
        let (code, message) = refused.as_ref().map_or(("", ""), |refused| {
            (refused.code.as_str(), refused.message.as_str())
        });
        let (status, answer) = match members.string("status").as_deref() {
            Some("success") => ("success", WouldBe::Accepted(body.data)),
            Some("requires_approval") => ("requires_approval", WouldBe::Held(body.data)),
            Some("rate_limited") => ("rate_limited", WouldBe::Limited(message)),
            Some("pending") => ("pending", WouldBe::Begun),
            _ => ("error", WouldBe::Refused(code, message)),
        };
        let words = would_be_said(&answer, asked);
        let inner = Told {
            status,
            data,
            refused,
            retry_after_ms,
            ..Told::default()
        };
        let lines = inner
            .refused
            .as_ref()
            .map(Refused::lines)
            .unwrap_or_default();
        Told {
            data: None,
            more: vec![("would_be", inner.json())],
            words: [vec![words], lines].concat().join("\n"),
            ..self
        }
    }

    /// Builds the result of a request that was refused here, before it was sent.
    pub(crate) fn refused_here(code: &str, message: String, id: Option<String>) -> Told {
        let words = format!("refused before it was sent: {code}: {message}");
        let refused = Refused {
            code: code.to_owned(),
            message,
            ..Refused::default()
        };
        Told {
            status: "not_sent",
            request_id: id,
            refused: Some(refused),
            words,
            ..Told::default()
        }
    }

    /// Returns whether the protocol counts the result as an error: a refusal, or an unknown
    /// outcome. A hold is neither.
    pub(crate) fn is_error(&self) -> bool {
        !matches!(
            self.status,
            "success" | "requires_approval" | "pending" | "open"
        )
    }

    /// Writes the result as JSON.
    pub(crate) fn json(&self) -> String {
        let text = |text: &Option<String>| text.as_deref().map(quoted);
        let members = [
            Some(("status", quoted(self.status))),
            text(&self.request_id).map(|id| ("request_id", id)),
            text(&self.audit_ref).map(|line| ("audit_ref", line)),
            self.data.clone().map(|data| ("data", data)),
            self.refused
                .as_ref()
                .map(|refused| ("refused", refused.json())),
            self.retry_after_ms.clone().map(|ms| ("retry_after_ms", ms)),
            text(&self.note).map(|note| ("note", note)),
        ];
        object(
            members
                .into_iter()
                .flatten()
                .chain(self.more.iter().map(|(name, value)| (*name, value.clone()))),
        )
    }

    /// Says whether, how and when to try again.
    fn advice(&self) -> Option<String> {
        let after = self.retry_after_ms.as_deref();
        let after = after.map_or_else(String::new, |ms| format!(" after {ms} ms"));
        match self.refused.as_ref()?.retry {
            Some(Retry::SameId) => Some(format!(
                "repair it and call again{after}; the same `request_id` may be used"
            )),
            Some(Retry::NewId) => Some(format!("call again{after}, as a new request")),
            Some(Retry::After) => Some(format!("call again{after} with the same arguments")),
            Some(Retry::Never) => Some(
                "do not call again until a person or the state has changed what refuses it; if it \
                    is unknown whether it was done, look there first"
                    .to_owned(),
            ),
            None => (!after.is_empty()).then(|| format!("call again{after}")),
        }
    }

    /// Writes the result as one text: words, a blank line, and the JSON of `data`.
    pub(crate) fn text(&self) -> String {
        let lines = self.refused.as_ref().map(Refused::lines);
        let words = [self.words.clone()].into_iter();
        let words = words.chain(lines.unwrap_or_default());
        let rest: Vec<String> = self.advice().into_iter().chain(self.note.clone()).collect();
        let rest_bytes: usize = rest.iter().map(|line| line.len().saturating_add(1)).sum();
        let words = match self.is_error() {
            true => short_of(words, ERROR_BYTES_MAX.saturating_sub(rest_bytes)),
            false => words.collect(),
        };
        let words = [words, rest].concat().join("\n");
        let data = self.shown_data().filter(|data| {
            let bytes = words.len().saturating_add(data.len()).saturating_add(2);
            !self.is_error() || bytes <= ERROR_BYTES_MAX
        });
        match data {
            Some(data) => format!("{words}\n\n{data}"),
            None => words,
        }
    }

    /// Returns the JSON that the text shows: `data`, or the data that a checked request would have.
    fn shown_data(&self) -> Option<String> {
        let would_be = || {
            let (_, would_be) = self.more.iter().find(|(name, _)| *name == "would_be")?;
            Members::of(would_be)?.text("data").map(str::to_owned)
        };
        self.data.clone().or_else(would_be)
    }
}

/// Longest text of an error, in bytes. The structure has everything.
const ERROR_BYTES_MAX: usize = 1500;
/// Longest line of such a text, in bytes.
const LINE_BYTES_MAX: usize = 400;
/// Space for the line that counts what is left out, in bytes.
const MORE_BYTES: usize = 60;

/// Shortens the words of an error to a number of bytes: long lines are cut, and lines beyond the
/// limit are counted.
fn short_of(lines: impl Iterator<Item = String>, bytes_max: usize) -> Vec<String> {
    let (mut shown, mut more) = (Vec::new(), 0_usize);
    let mut left = bytes_max.saturating_sub(MORE_BYTES);
    for line in lines {
        let line = match line.floor_char_boundary(LINE_BYTES_MAX) {
            at if at < line.len() => format!("{}...", line.get(..at).unwrap_or_default()),
            _ => line,
        };
        match left.checked_sub(line.len().saturating_add(1)) {
            Some(rest) => {
                left = rest;
                shown.push(line);
            }
            None => more = more.saturating_add(1),
        }
    }
    if more > 0 {
        shown.push(format!("and {more} more, in `refused` and by `explain`"));
    }
    shown
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use serde_json::Value;

    use super::*;

    const REJECTED: &str = r#"{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"error","data":{"Rejected":{"checks_failed":[{"check_name":"max_order_value","passed":false,"value":"2034.783","limit":"1000","source":"safety.yaml","unit":"usd","reason":"too much"}],"checks_passed":[],"headroom":{"max_size":"0.0368","binding_check":"max_single_position"}}},"error":{"code":"CHECKS_FAILED","message":"no; see data.Rejected.checks_failed and headroom"},"auditRef":"13"}"#;

    #[test]
    fn a_refusal_says_what_failed_and_what_would_pass() {
        let told = Told::of(&serde_json::from_str(REJECTED).unwrap(), None);
        assert!(told.is_error());
        let json: Value = serde_json::from_str(&told.json()).unwrap();
        assert_eq!(json["refused"]["failed_checks"][0]["measured"], "2034.783");
        assert_eq!(json["refused"]["headroom"]["max_size"], "0.0368");
        assert_eq!(
            json["refused"]["message"],
            "no; see failed_checks and headroom"
        );
        assert_eq!(
            (json.get("data"), &json["audit_ref"]),
            (None, &Value::from("13"))
        );
        let text = told.text();
        for part in [
            "CHECKS_FAILED",
            "measured 2034.783 usd, limit 1000 usd",
            "at most 0.0368 would pass",
            "line 13",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn failed_checks_are_reported_as_failed() {
        let row = |name: &str, passed: bool| {
            format!(
                r#"{{"check_name":"{name}","passed":{passed},"value":"3","limit":"2","source":"s","unit":"count","reason":"r"}}"#
            )
        };
        let answer = format!(
            r#"{{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"error","data":{{"decision":"deny","receipt":{{}},"checks":[{},{}]}},"error":{{"code":"ADMISSION_DENIED","message":"no"}},"auditRef":"9"}}"#,
            row("domain_denied", true),
            row("depth_exceeded", false)
        );
        let told = Told::of(&serde_json::from_str(&answer).unwrap(), None);
        let json: Value = serde_json::from_str(&told.json()).unwrap();
        assert_eq!(
            json["refused"]["failed_checks"].as_array().unwrap().len(),
            1
        );
        assert_eq!(
            json["refused"]["failed_checks"][0]["check"],
            "depth_exceeded"
        );
        let data = &json["data"];
        assert_eq!(
            (&data["checks_count"], &data["decision"]),
            (&2.into(), &"deny".into())
        );
        assert!(data.get("checks").is_none());
        assert!(
            told.text()
                .contains("`depth_exceeded`: measured 3 count, limit 2 count"),
            "{}",
            told.text()
        );
    }

    #[test]
    fn a_dry_run_has_the_shape_of_the_answer() {
        let refused: Value = serde_json::from_str(REJECTED).unwrap();
        let answer = serde_json::json!({
            "requestId": "r2", "timestamp": "2026-02-20T14:42:00Z", "status": "success",
            "auditRef": "14",
            "data": {"would_be": {"status": "error", "data": refused["data"],
                "error": refused["error"]}},
        });
        let told =
            Told::of(&serde_json::from_str(&answer.to_string()).unwrap(), None).checked(None);
        assert!(!told.is_error());
        let json: Value = serde_json::from_str(&told.json()).unwrap();
        assert_eq!(
            (&json["status"], &json["would_be"]["status"]),
            (&Value::from("success"), &Value::from("error"))
        );
        assert_eq!(
            json["would_be"]["refused"]["headroom"]["max_size"],
            "0.0368"
        );
        assert!(told.text().contains("would be refused") && told.text().contains("at most 0.0368"));
    }

    #[test]
    fn rows_that_passed_silently_are_counted_and_numbers_kept() {
        let row = |reason: &str| {
            format!(
                r#"{{"check_name":"c","passed":true,"value":"1","limit":"1","source":"s","unit":"bool"{reason}}}"#
            )
        };
        let accepted = format!(
            r#"{{"Accepted":{{"order_id":"o-1","n":0.10000000000000000001,"checks_passed":[{},{}]}}}}"#,
            row(""),
            row(r#","reason":"warn: look""#)
        );
        let answer = format!(
            r#"{{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"success","data":{accepted},"auditRef":"1"}}"#
        );
        let data = Told::of(&serde_json::from_str(&answer).unwrap(), None)
            .data
            .unwrap();
        assert!(
            data.contains(r#""n":0.10000000000000000001"#) && data.contains(r#""checks_count":2"#)
        );
        assert_eq!(
            (
                data.matches("check_name").count(),
                data.matches("warn: look").count()
            ),
            (1, 1)
        );
    }

    #[test]
    fn rows_of_a_hold_are_counted_also_if_it_is_only_checked() {
        let row = r#"{"check_name":"c","passed":true,"value":"1","limit":"1","source":"s","unit":"bool"}"#;
        let held = format!(
            r#"{{"Held":{{"hold_id":"h-9","request_sha256":"","rules":["ask-first"],"expires_at":"2026-02-21T00:00:00Z","checks_failed":[],"checks_passed":[{row},{row}]}}}}"#
        );
        let answer = |status: &str, data: &str| {
            let text = format!(
                r#"{{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"{status}","data":{data},"auditRef":"1"}}"#
            );
            Told::of(&serde_json::from_str(&text).unwrap(), None)
        };
        let told = answer("requires_approval", &held);
        let checked = format!(r#"{{"would_be":{{"status":"requires_approval","data":{held}}}}}"#);
        let checked = answer("success", &checked).checked(None);
        for (told, says) in [
            (told, "held as h-9 by ask-first"),
            (checked, "dry run: would be held by ask-first"),
        ] {
            let text = told.text();
            let (words, data) = text.split_once("\n\n").unwrap();
            assert!(words.starts_with(says), "{text}");
            let data: Value = serde_json::from_str(data).unwrap();
            let held = &data["Held"];
            assert_eq!(
                (&held["checks_count"], &held["remarks"]),
                (&2.into(), &serde_json::json!([]))
            );
            assert!(!text.contains("check_name"), "{text}");
        }
    }

    #[test]
    fn a_refusal_has_at_most_1500_bytes_and_counts_what_it_leaves_out() {
        let told = |failed: usize, reason: &str| {
            let row = AnsweredRow {
                check_name: "max_order_value".into(),
                passed: false,
                value: None,
                limit: None,
                source: "safety.yaml".into(),
                unit: "usd".into(),
                reason: Some(reason.to_owned().into()),
                warning: false,
                follows_from: None,
            };
            let row = serde_json::to_string(&row).unwrap();
            let failed = (0..failed).map(|_| serde_json::from_str(&row).unwrap());
            Told {
                status: "error",
                words: "refused: CHECKS_FAILED: no".to_owned(),
                refused: Some(Refused {
                    failed: failed.collect(),
                    retry: Some(Retry::Never),
                    ..Refused::default()
                }),
                ..Told::default()
            }
        };
        for (failed, reason) in [(1, 10), (40, 10), (40, 100), (3, 5000)] {
            for letter in ["x", "\u{1f980}"] {
                let text = told(failed, &letter.repeat(reason)).text();
                assert!(
                    text.len() <= ERROR_BYTES_MAX,
                    "{failed} {reason}: {}",
                    text.len()
                );
                let shown = text.matches("`max_order_value`").count();
                let more = format!("and {} more", failed - shown);
                assert_eq!(text.contains(&more), shown < failed, "{text}");
            }
        }
    }

    #[test]
    fn a_rate_limit_says_when_to_come_again() {
        let answer = r#"{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"rate_limited","data":{"retryAfterMs":1500},"error":{"code":"RATE_LIMITED","message":"wait"},"auditRef":"1"}"#;
        let told = Told::of(&serde_json::from_str(answer).unwrap(), None);
        assert!(told.is_error() && told.json().contains(r#""retry_after_ms":1500"#));
        assert!(told.text().contains("after 1500 ms"));
    }

    #[test]
    fn a_decision_that_is_too_soon_says_when_and_keeps_its_response() {
        let answer = r#"{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"error","data":{"ok":false,"errors":["too_soon"],"result":{"mode_change":"none","retry_after_ms":1500},"retry":"new_id","retry_after_ms":1500},"error":{"code":"CONTROL_REJECTED","message":"wait"},"auditRef":"1"}"#;
        let told = Told::of(&serde_json::from_str(answer).unwrap(), None);
        let json: Value = serde_json::from_str(&told.json()).unwrap();
        assert_eq!(
            (&json["retry_after_ms"], &json["refused"]["retry"]),
            (&Value::from(1500), &Value::from("new_id"))
        );
        let own = serde_json::json!({"ok": false, "errors": ["too_soon"],
            "result": {"mode_change": "none", "retry_after_ms": 1500}});
        assert_eq!(json["data"], own);
        assert!(told.text().contains("after 1500 ms"), "{}", told.text());
    }
}
