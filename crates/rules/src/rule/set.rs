//! Named sets: lists of values that rules refer to. Each value has a provenance.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::field::Kind;
use super::registry::Registry;
use crate::rulebook::RulebookError;
use crate::yaml;
use spoolgate_wire::ids::SetName;
use spoolgate_wire::time::Time;

/// What the values of a set are, which decides how they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetKind {
    /// Names and ids, compared letter by letter.
    Word,
    /// Texts, compared without regard to case.
    Text,
    /// Host names.
    Host,
    /// Mail addresses.
    Address,
}

/// Where an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// A person wrote it.
    UserEstablished,
    /// A person approved it in answer to a request.
    Approved,
    /// It was only seen. It does not count unless a condition says so.
    Seen,
}

/// Whether entries may be added to a set while the gate runs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Grows {
    /// None may.
    #[default]
    Never,
    /// Those that a person approves or grants. Rules may then only act on values that are
    /// not in the set.
    OnApproval,
}

/// An entry in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetEntry {
    /// The value.
    pub value: String,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Until when it counts.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Time")]
    pub expires: Option<Time>,
    /// Why it is there.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "String")]
    pub note: Option<String>,
}

/// `rules/sets/<name>.yaml`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetFile {
    /// Its name; equals the file name without its ending.
    pub name: SetName,
    /// What its values are.
    pub kind: SetKind,
    /// Whether entries may be added while the gate runs.
    #[serde(default)]
    pub grows: Grows,
    /// Its entries.
    pub entries: Vec<SetEntry>,
}

/// A compiled set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSet {
    /// Its name.
    pub name: SetName,
    /// What its values are.
    pub kind: SetKind,
    /// Whether entries may be added while the gate runs.
    pub grows: Grows,
    /// Normalised values, with their provenance and the time until which they count.
    pub values: BTreeMap<String, (Provenance, Option<Time>)>,
}

impl SetKind {
    /// Returns the kind of field that its values are compared with.
    pub fn kind(self) -> Kind {
        match self {
            SetKind::Word => Kind::Name(Registry::Open),
            SetKind::Text => Kind::Text,
            SetKind::Host => Kind::Host,
            SetKind::Address => Kind::Address,
        }
    }
}

impl NamedSet {
    /// Compiles a set file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] for a value that cannot be normalised or is a duplicate.
    pub fn compile(path: &str, text: &str) -> Result<NamedSet, RulebookError> {
        let SetFile {
            name,
            kind,
            grows,
            entries,
        } = yaml::read(path, text)?;
        let mut values = BTreeMap::new();
        for SetEntry {
            value,
            provenance,
            expires,
            ..
        } in entries
        {
            let fail = |what: &str| {
                let line = super::file::line_of(text, &value);
                Err(RulebookError::new(path, line, format!("`{value}` {what}")))
            };
            let Some(folded) = kind.kind().entry(&value) else {
                return fail(
                    "cannot be compared with anything: not of the set's kind, or with look-alike \
                        letters",
                );
            };
            if values
                .insert(folded.into_owned(), (provenance, expires))
                .is_some()
            {
                return fail("appears twice");
            }
        }
        Ok(NamedSet {
            name,
            kind,
            grows,
            values,
        })
    }

    /// Returns whether the normalised value counts at `now`. With `seen_too`, values that were only
    /// seen count as well.
    pub fn holds(&self, value: &str, now: Time, seen_too: bool) -> bool {
        self.values.get(value).is_some_and(|(provenance, until)| {
            (seen_too || *provenance != Provenance::Seen) && until.is_none_or(|until| now < until)
        })
    }
}
