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
