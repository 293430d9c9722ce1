//! `spoolgate rules fields`: the whitelist of what rules may read.

use anyhow::{Result, bail};
use serde::Serialize;
use spoolgate_rules::rule::field::{FIELDS, Kind, Missing, RULED_ACTIONS};
use spoolgate_rules::rule::historic;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::code::Exit;

use crate::cli::output::Output;

/// Show every field that a rule may read.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules fields\n  spoolgate rules fields --action \
        order.submit\n  spoolgate --format json rules fields | jq -r \
        'select(.kind==\"host\").field'\n\nMISSING shows why a fact may have no value: `absent` \
        if the request may leave it out (conditions on it then do not\nhold), `unknown` if its \
        source may be missing or old (a rule that depends on it then acts).\nHISTORY \
        is `yes` if `first_seen`, `history.sum` and `history.distinct` can read the field."
)]
pub(crate) struct Args {
    /// Only fields of requests of this action.
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
}

/// A field as programs read it.
#[derive(Serialize)]
struct FieldView {
    field: String,
    kind: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    one_of: Vec<&'static str>,
    unit: &'static str,
    missing: &'static str,
    /// Whether `first_seen`, `history.sum` and `history.distinct` can read it.
    history: bool,
    actions: Vec<&'static str>,
    meaning: &'static str,
}

/// Values that conditions compute from fields.
const HISTORY: [(&str, &str, &str, &str); 4] = [
    (
        "first_seen",
        "flag",
        "",
        "operator on a name, text, host or address: the sender never had a request with this value \
            accepted",
    ),
    (
        "history.count",
        "whole number",
        "",
        "requests of this action that the sender had accepted within `window_s` before this one",
    ),
    (
        "history.sum",
        "number",
        "unit of `of`",
        "sum of the number `of` over this request and those accepted within `window_s` before it",
    ),
    (
        "history.distinct",
        "whole number",
        "",
        "distinct values of `of` in this request and those accepted within `window_s` before it",
    ),
];

/// Longest list of words in the table.
const WORDS_SHOWN_MAX: usize = 4;

fn kind_of(kind: Kind) -> (String, Vec<&'static str>) {
    let name = match kind {
        Kind::Number(..) => kind.to_string(),
        Kind::Whole(least, i64::MAX) => format!("whole number from {least}"),
        Kind::Whole(least, most) => format!("whole number {least} to {most}"),
        Kind::TimeOfDay => "time of day".to_owned(),
        Kind::Word(known) => return ("word".to_owned(), known.to_vec()),
        Kind::Name(_) => "word".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Host => "host".to_owned(),
        Kind::Address => "address".to_owned(),
        Kind::Flag => "flag".to_owned(),
    };
    (name, Vec::new())
}

/// Runs the command.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    if let Some(action) = &args.action
        && !RULED_ACTIONS.contains(&action.as_str())
    {
        bail!(
            "rules do not apply to `{action}`; they apply to {}",
            RULED_ACTIONS.join(", ")
        );
    }
    let mut views: Vec<FieldView> = FIELDS
        .iter()
        .filter(|field| field.renamed().is_none())
        .filter(|field| {
            args.action
                .as_ref()
                .is_none_or(|action| field.is_of(action))
        })
        .map(|field| {
            let (kind, one_of) = kind_of(field.kind);
            let missing = match field.missing {
                Missing::Never => "never",
                Missing::Absent => "absent",
                Missing::Unknown => "unknown",
            };
            let actions = if field.actions.is_empty() {
                &ActionName::RULED
            } else {
                field.actions
            };
            let brackets = if field.is_many { "[]" } else { "" };
            FieldView {
                field: format!("{}{brackets}", field.name),
                kind,
                one_of,
                unit: field.unit,
                missing,
                history: match &args.action {
                    Some(action) => historic::is_kept(action, field.name),
                    None => field.has_history(),
                },
                actions: actions.iter().map(|action| action.as_str()).collect(),
                meaning: field.meaning,
            }
        })
        .collect();
    views.extend(HISTORY.iter().map(|(name, kind, unit, meaning)| FieldView {
        field: (*name).to_owned(),
        kind: (*kind).to_owned(),
        one_of: Vec::new(),
        unit,
        missing: "unknown",
        history: false,
        actions: ActionName::RULED.map(ActionName::as_str).to_vec(),
        meaning,
    }));
    if output.is_json() {
        views.iter().try_for_each(|view| output.json(view))?;
        return Ok(Exit::Success);
    }
    let rows: Vec<Vec<String>> = views
        .into_iter()
        .map(|view| {
            let FieldView {
                field,
                kind,
                one_of,
                unit,
                missing,
                history,
                actions,
                meaning,
            } = view;
            let kind = match one_of.len() {
                0 => kind,
                1..=WORDS_SHOWN_MAX => one_of.join("|"),
                known => format!("word, one of {known}"),
            };
            let actions = if actions.len() == RULED_ACTIONS.len() {
                "all".to_owned()
            } else {
                actions.join(", ")
            };
            vec![
                field,
                kind,
                unit.to_owned(),
                missing.to_owned(),
                if history { "yes" } else { "" }.to_owned(),
                actions,
                meaning.to_owned(),
            ]
        })
        .collect();
    output.table(
        &[
            "field", "kind", "unit", "missing", "history", "actions", "meaning",
        ],
        &[],
        &rows,
    )?;
    Ok(Exit::Success)
}
