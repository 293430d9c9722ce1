//! Named sets: lists of values that rules refer to, each with where it comes from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::field::Kind;
use crate::rules::rulebook::RulebookError;
use crate::rules::yaml;
use crate::wire::ids::SetName;
use crate::wire::time::Time;

/// What the values of a set are: how they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetKind {
    /// Names and ids, letter by letter.
    Word,
    /// Texts, without regard to case.
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
    /// A person approved it when it was asked for.
    Approved,
    /// It was only seen; does not count unless a condition says so.
    Seen,
}

/// What may come into a set while the gate runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grows {
    /// Nothing.
    #[default]
    Never,
    /// What a person approves or grants. Rules may then only refuse what is not in it.
    OnApproval,
}

/// One entry of the file.
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
    /// Its name; equals the file name.
    pub name: SetName,
    /// What its values are.
    pub kind: SetKind,
    /// What may come into it while the gate runs.
    #[serde(default)]
    pub grows: Grows,
    /// Its entries.
    pub entries: Vec<SetEntry>,
}

/// A set, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSet {
    /// Its name.
    pub name: SetName,
    /// What its values are.
    pub kind: SetKind,
    /// What may come into it while the gate runs.
    pub grows: Grows,
    /// Values, normalised, with where they come from and until when they count.
    pub values: BTreeMap<String, (Provenance, Option<Time>)>,
}

impl SetKind {
    /// How texts are compared with its values.
    pub fn kind(self) -> Kind {
        match self {
            SetKind::Word => Kind::Word(&[]),
            SetKind::Text => Kind::Text,
            SetKind::Host => Kind::Host,
            SetKind::Address => Kind::Address,
        }
    }
}

impl NamedSet {
    /// Compiles a file.
    ///
    /// # Errors
    /// [`RulebookError`]: a value that cannot be normalised or stands twice.
    pub fn compile(path: &str, text: &str) -> Result<NamedSet, RulebookError> {
        let SetFile { name, kind, grows, entries } = yaml::read(path, text)?;
        let mut values = BTreeMap::new();
        for SetEntry { value, provenance, expires, .. } in entries {
            let fail = |what: &str| {
                let line = super::file::line_of(text, &value);
                Err(RulebookError::new(path, line, format!("`{value}` {what}")))
            };
            let Some(folded) = kind.kind().entry(&value) else {
                return fail(
                    "cannot be compared with anything: not of the set's kind, or with look-alike letters",
                );
            };
            if values.insert(folded.into_owned(), (provenance, expires)).is_some() {
                return fail("stands twice");
            }
        }
        Ok(NamedSet { name, kind, grows, values })
    }

    /// Whether it holds the normalised value at `now`. `seen_too`: what was only seen counts as well.
    pub fn holds(&self, value: &str, now: Time, seen_too: bool) -> bool {
        self.values.get(value).is_some_and(|(provenance, until)| {
            (seen_too || *provenance != Provenance::Seen) && until.is_none_or(|until| now < until)
        })
    }
}
