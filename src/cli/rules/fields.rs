//! `spoolgate rules fields`: the whitelist of what rules may read.

use anyhow::Result;
use spoolgate_rules::rule::field::RULED_ACTIONS;
use spoolgate_rules::rule::listed::{self, FieldView};
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

/// Longest list of words in the table.
const WORDS_SHOWN_MAX: usize = 4;

/// Runs the command.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    let views = listed::fields(args.action.as_deref())?;
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
