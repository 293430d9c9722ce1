//! The list of fields that rules may read, for people and programs.

use serde::Serialize;

use super::field::{FIELDS, Field, Kind, Missing, RULED_ACTIONS};
use super::historic;
use spoolgate_wire::action_name::ActionName;

/// A field that rules may read.
#[derive(Debug, Serialize)]
pub struct FieldView {
    /// Its name; with `[]` if it is an array.
    pub field: String,
    /// What its values are.
    pub kind: String,
    /// The words that it may be, if it is one of some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub one_of: Vec<&'static str>,
    /// Its unit.
    pub unit: &'static str,
    /// Whether it may have no value: `never`, `absent` or `unknown`.
    pub missing: &'static str,
    /// Whether `first_seen`, `history.sum` and `history.distinct` can read it.
    pub history: bool,
    /// Actions whose requests have it.
    pub actions: Vec<&'static str>,
    /// Its meaning.
    pub meaning: &'static str,
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

/// Rules do not apply to this action.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rules do not apply to `{0}`; they apply to {known}", known = RULED_ACTIONS.join(", "))]
pub struct NotRuled(pub String);

/// Returns the fields that rules may read in requests of an action, or all of them.
///
/// # Errors
/// Returns [`NotRuled`] if rules do not apply to the action.
pub fn fields(action: Option<&str>) -> Result<Vec<FieldView>, NotRuled> {
    if let Some(action) = action
        && !RULED_ACTIONS.contains(&action)
    {
        return Err(NotRuled(action.to_owned()));
    }
    let own = FIELDS
        .iter()
        .filter(|field| field.renamed().is_none())
        .filter(|field| action.is_none_or(|action| field.is_of(action)));
    let mut views: Vec<FieldView> = own.map(|field| view(field, action)).collect();
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
    Ok(views)
}

fn view(field: &Field, action: Option<&str>) -> FieldView {
    let (kind, one_of) = kind_of(field.kind);
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
        missing: match field.missing {
            Missing::Never => "never",
            Missing::Absent => "absent",
            Missing::Unknown => "unknown",
        },
        history: match action {
            Some(action) => historic::is_kept(action, field.name),
            None => field.has_history(),
        },
        actions: actions.iter().map(|action| action.as_str()).collect(),
        meaning: field.meaning,
    }
}

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
