//! The schema of rules with what a home has: for each field its operators and values, and the names
//! that its files have, so that an editor completes and checks them.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use spoolgate_rules::Rulebook;
use spoolgate_rules::rule::Field;
use spoolgate_rules::rule::field::{FIELDS, Kind, Missing};

use super::rules::Folder;

/// What is no field and has no kind of its own.
const HISTORY: [&str; 3] = ["history.count", "history.sum", "history.distinct"];

/// Adds what the home has to the schema of a rule. Conditions that it refuses are faults of `rules
/// lint`, too; not the other way round.
pub(super) fn of_home(home: &Path, mut schema: Value) -> Result<Value> {
    let folder = Folder::read(home, None)?;
    let book = match folder.meant_rulebook() {
        Some(book) => Some(book.map_err(|fault| anyhow!(folder.shown(fault)))?),
        None => None,
    };
    let known = FIELDS.iter().filter(|field| field.renamed().is_none());
    let mut fields: Vec<Value> = known.map(|field| condition(field, book.as_ref())).collect();
    fields.extend(
        HISTORY
            .iter()
            .map(|name| json!({"properties": {"field": {"const": name}}})),
    );
    set(
        &mut schema,
        "/properties/when/items",
        "anyOf",
        json!(fields),
    )?;
    let scopes = book.iter().flat_map(|book| {
        let principals: Vec<&str> = book.principals.keys().map(|name| name.as_str()).collect();
        let strategies: Vec<&str> = book.strategies.keys().map(|name| name.as_str()).collect();
        [("principal", principals), ("strategy", strategies)]
    });
    for (scope, names) in scopes {
        let place = format!("/properties/applies_to/properties/{scope}/items");
        set(&mut schema, &place, "enum", json!(names))?;
    }
    Ok(schema)
}

/// Sets a member of a part of the schema.
fn set(schema: &mut Value, place: &str, member: &str, value: Value) -> Result<()> {
    let part = schema.pointer_mut(place).and_then(Value::as_object_mut);
    let part = part.with_context(|| format!("the schema of rules has no `{place}`"))?;
    part.insert(member.to_owned(), value);
    Ok(())
}

/// The alternative of one field.
fn condition(field: &Field, book: Option<&Rulebook>) -> Value {
    let mut operators = match field.kind {
        Kind::Flag => vec!["eq", "neq"],
        Kind::Number(..) | Kind::Whole(..) | Kind::TimeOfDay => {
            vec!["eq", "neq", "gt", "gte", "lt", "lte", "in", "not_in"]
        }
        Kind::Word(_) | Kind::Name(_) => vec!["eq", "neq", "in", "not_in"],
        Kind::Text | Kind::Host | Kind::Address => vec![
            "eq",
            "neq",
            "in",
            "not_in",
            "matches",
            "not_matches",
            "domain_in",
            "domain_not_in",
            "links_not_in",
        ],
    };
    operators.push("first_seen");
    if field.missing == Missing::Absent || field.is_many {
        operators.extend(["absent", "present"]);
    }
    // `true` takes any value.
    let value = value(field.kind, book).unwrap_or(Value::Bool(true));
    json!({
        "title": field.written(),
        "description": field.meaning,
        "properties": {
            "field": {"const": field.written()},
            "op": {"enum": operators},
            "value": value,
        },
    })
}

/// The values of a kind; `None` if any will do, or an expression.
fn value(kind: Kind, book: Option<&Rulebook>) -> Option<Value> {
    let words = match (kind, book) {
        (Kind::Flag, _) => return Some(json!({"type": "boolean"})),
        (Kind::Word(known), _) => known.iter().copied().collect(),
        (Kind::Name(registry), Some(book)) if registry.is_closed() => registry.names(book),
        _ => return None,
    };
    let sets = book.map(|book| book.ruleset.sets.keys().map(|name| name.as_str()));
    let sets: BTreeSet<&str> = sets.into_iter().flatten().collect();
    Some(json!({"anyOf": [
        {"enum": words},
        {"type": "array", "items": {"enum": words}},
        {"enum": sets},
    ]}))
}
