//! Shortens the body of an answer for a model.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::checks::AnsweredRow;

use super::raw::{Members, array, object, quoted};
use super::told::shown;

/// Members of a body whose rows are check results, most of which passed in silence.
const ROWS: [&str; 2] = ["checks_passed", "checks"];

/// Shortens a body: of its check results, about forty, only those that failed or have a reason are
/// kept. The limits of a portfolio lose unit and source, and those that nothing uses `used` and
/// `left`.
pub(crate) fn quiet(data: &Members<'_>) -> String {
    // The body of admission has its check results beside the receipt.
    if data.get("receipt").is_some() {
        return with_telling_rows(data);
    }
    let members = data.0.iter().map(|(name, value)| {
        let inner = || Members::of(value.get());
        let text = match name.as_str() {
            "Accepted" | "Held" => inner().map(|body| with_telling_rows(&body)),
            "Portfolio" => inner().and_then(|portfolio| with_short_limits(&portfolio)),
            _ => None,
        };
        (
            name.as_str(),
            text.unwrap_or_else(|| value.get().to_owned()),
        )
    });
    object(members)
}

fn with_telling_rows(body: &Members<'_>) -> String {
    let is_telling = |row: &str| {
        serde_json::from_str::<AnsweredRow<'_>>(row)
            .map_or(true, |row| !row.passed || row.reason.is_some())
    };
    let mut members = Vec::new();
    for (name, value) in &body.0 {
        let rows = ROWS.contains(&name.as_str());
        let rows = rows.then(|| serde_json::from_str::<Vec<&RawValue>>(value.get()));
        let Some(Ok(rows)) = rows else {
            members.push((name.as_str(), value.get().to_owned()));
            continue;
        };
        let telling = rows
            .iter()
            .map(|row| row.get())
            .filter(|row| is_telling(row));
        members.push(("checks_count", rows.len().to_string()));
        members.push(("remarks", array(telling)));
    }
    object(members)
}

/// A limit of a portfolio, as far as it is shortened.
#[derive(Deserialize)]
struct Limit<'a> {
    #[serde(borrow)]
    check: Cow<'a, str>,
    #[serde(borrow)]
    of: Cow<'a, str>,
    used: Option<Amount>,
    limit: Option<Amount>,
    left: Option<Amount>,
    closed: Option<String>,
}

fn with_short_limits(portfolio: &Members<'_>) -> Option<String> {
    let limits: Vec<Limit<'_>> = serde_json::from_str(portfolio.text("limits")?).ok()?;
    let row = |limit: &Limit<'_>| {
        let is_used = limit.used != Some(Amount::ZERO);
        let amount =
            |name, amount: Option<Amount>| amount.map(|amount| (name, quoted(&shown(amount))));
        let members = [
            Some(("check", quoted(&limit.check))),
            Some(("of", quoted(&limit.of))),
            amount("used", limit.used).filter(|_| is_used),
            amount("limit", limit.limit),
            amount("left", limit.left).filter(|_| is_used),
            limit.closed.as_deref().map(|why| ("closed", quoted(why))),
        ];
        object(members.into_iter().flatten())
    };
    let short = array(limits.iter().map(row));
    let others = portfolio.0.iter().filter(|(name, _)| name != "limits");
    let others = others.map(|(name, value)| (name.as_str(), value.get()));
    Some(object(others.chain([("limits", short.as_str())])))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::told::Told;

    /// A portfolio with two positions that uses some of every limit.
    const PORTFOLIO: &str = include_str!("portfolio.json");

    #[test]
    fn a_portfolio_of_two_positions_has_at_most_4000_bytes() {
        let answer = format!(
            r#"{{"requestId":"r1","timestamp":"2026-02-20T14:42:00Z","status":"success","data":{PORTFOLIO},"auditRef":"1"}}"#
        );
        let text = Told::of(&serde_json::from_str(&answer).unwrap(), None).text();
        assert!(text.len() <= 4000, "{} bytes: {text}", text.len());
        let (words, data) = text.split_once("\n\n").unwrap();
        assert!(words.contains("2 positions"), "{words}");
        let (whole, short): (Value, Value) = (
            serde_json::from_str(PORTFOLIO).unwrap(),
            serde_json::from_str(data).unwrap(),
        );
        let (whole, short) = (&whole["Portfolio"], &short["Portfolio"]);
        assert_eq!(whole["positions"], short["positions"]);
        let limits = whole["limits"].as_array().unwrap().iter();
        let limits = limits.zip(short["limits"].as_array().unwrap());
        for (whole, short) in limits {
            for member in ["check", "of", "limit", "left", "used"] {
                assert_eq!(whole[member], short[member], "{short}");
            }
        }
    }

    #[test]
    fn an_unused_limit_has_neither_used_nor_left_and_an_unknown_one_says_why() {
        let portfolio = r#"{"Portfolio":{"cash":"1","limits":[
            {"check":"a","of":"account","used":"0","limit":"2.0","left":"2","unit":"usd","source":"s","warning":false,"closed":null},
            {"check":"b","of":"account","used":null,"limit":null,"left":null,"unit":"usd","source":"s","warning":false,"closed":"no price"}]}}"#;
        assert_eq!(
            quiet(&Members::of(portfolio).unwrap()),
            r#"{"Portfolio":{"cash":"1","limits":[{"check":"a","of":"account","limit":"2"},{"check":"b","of":"account","closed":"no price"}]}}"#
        );
    }
}
