//! A table of cases: each row is a value of one fact, each column a value of another, and each cell
//! the expected outcome.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Case, Expect};
use crate::lint::line_from;
use crate::nearest::did_you_mean;
use crate::rule::field::{self, Field, RULED_ACTIONS};
use crate::rule::file::{Operand, Scalar};

/// `matrix` in a file of cases. The cells say what becomes of a request, not which rules act.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// The action of every request.
    #[schemars(schema_with = "super::action_schema")]
    pub action: String,
    /// One fact, with the value of each row.
    #[schemars(schema_with = "rows_schema")]
    pub rows: BTreeMap<String, Vec<Scalar>>,
    /// Another fact, with the value of each column.
    #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
    pub columns: BTreeMap<String, Vec<Operand>>,
    /// The outcomes of each row, in the order of the columns.
    pub expect: BTreeMap<String, Vec<Expect>>,
}

#[cfg(feature = "schema")]
fn rows_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object", "minProperties": 1, "maxProperties": 1,
        "additionalProperties": {
            "type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]},
        },
    })
}

impl Matrix {
    /// Returns what is wrong with it, each with the text beside which it stands.
    pub(super) fn faults(&self) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fail = |near: &str, what: String| faults.push((near.to_owned(), what));
        if !RULED_ACTIONS.contains(&self.action.as_str()) {
            let near = did_you_mean(&self.action, RULED_ACTIONS.iter().copied(), "");
            fail(
                &self.action,
                format!("rules do not apply to `{}`{near}", self.action),
            );
        }
        let sides = [
            ("rows", self.rows.keys().collect::<Vec<_>>()),
            ("columns", self.columns.keys().collect()),
        ];
        for (side, names) in sides {
            if names.len() != 1 {
                fail(side, format!("`{side}` names one fact, with its values"));
            }
            for name in names {
                if !field::is_fact(name) {
                    let known = field::FIELDS
                        .iter()
                        .filter(|field| field.renamed().is_none());
                    let known: Vec<String> = known.map(Field::written).collect();
                    let near = did_you_mean(
                        name,
                        known.iter().map(String::as_str),
                        "; `spoolgate rules fields` lists them",
                    );
                    fail(name, format!("there is no field `{name}`{near}"));
                }
            }
        }
        if self.rows.keys().any(|name| self.columns.contains_key(name)) {
            fail("columns", "rows and columns are of one fact".to_owned());
        }
        let rows: Vec<String> = self
            .rows
            .values()
            .flatten()
            .map(Scalar::to_string)
            .collect();
        let columns = self.columns.values().map(Vec::len).sum::<usize>();
        if rows.is_empty() || columns == 0 {
            fail("matrix", "it has no rows, or no columns".to_owned());
        }
        let named: BTreeSet<&String> = rows.iter().collect();
        if named.len() != rows.len() {
            fail("rows", "two rows have the same value".to_owned());
        }
        for row in rows.iter().filter(|row| !self.expect.contains_key(*row)) {
            fail("expect", format!("`expect` says nothing of `{row}`"));
        }
        for (row, outcomes) in &self.expect {
            if !named.contains(row) {
                let near = did_you_mean(row, rows.iter().map(String::as_str), "");
                fail(row, format!("there is no row `{row}`{near}"));
            } else if outcomes.len() != columns {
                let count = outcomes.len();
                fail(
                    row,
                    format!("`{row}` has {count} outcomes for {columns} columns"),
                );
            }
        }
        faults
    }

    /// Returns a case for each cell, with its line in `text`.
    pub(super) fn cases(&self, text: &str) -> Vec<(Case, Option<usize>)> {
        let mut cases = Vec::new();
        let (_, expect) = line_from(text, "expect:", line_from(text, "matrix:", 0).1);
        let cells = self.rows.iter().zip(&self.columns);
        for ((row_name, rows), (column_name, columns)) in cells {
            for row in rows {
                let outcomes = self.expect.get(&row.to_string());
                let (line, _) = line_from(text, &row.to_string(), expect);
                for (column, outcome) in columns.iter().zip(outcomes.into_iter().flatten()) {
                    let facts = [
                        (row_name.clone(), Operand::One(row.clone())),
                        (column_name.clone(), column.clone()),
                    ];
                    let case = Case {
                        name: format!("{row}, {}", shown(column)),
                        action: self.action.clone(),
                        at: None,
                        source: None,
                        request: None,
                        facts: facts.into(),
                        absent: Vec::new(),
                        unknown: Vec::new(),
                        expect: *outcome,
                        rules: Vec::new(),
                        shadow: None,
                    };
                    cases.push((case, line));
                }
            }
        }
        cases
    }
}

fn shown(value: &Operand) -> String {
    match value {
        Operand::One(value) => value.to_string(),
        Operand::Many(values) => {
            let values: Vec<String> = values.iter().map(Scalar::to_string).collect();
            format!("[{}]", values.join(", "))
        }
    }
}
