//! JSON Schemas of requests, answers and rule files, by name. The program holds the published files
//! of `examples/schemas`; only a build with the feature `schema` derives them from the types, in a
//! test that compares the two.

pub(super) mod about;
#[cfg(feature = "schema")]
mod answers;
#[cfg(feature = "schema")]
mod derive;
pub mod files;
#[cfg(feature = "schema")]
mod tidy;

use serde_json::Value;

#[cfg(feature = "schema")]
pub use self::derive::derived;
#[cfg(feature = "schema")]
pub(crate) use self::derive::{read, variant, written};
use self::files::FILES;
use self::published::PUBLISHED;
use super::actions;

/// Suffix of the names of answer schemas: `order.submit.answer`.
#[cfg(feature = "schema")]
const ANSWER: &str = ".answer";

/// A condition that the reader checks and the schema cannot express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its name.
    pub name: &'static str,
    /// The condition, in words.
    pub text: &'static str,
}

macro_rules! published {
    ($($name:literal,)*) => {
        /// Names and texts of the published schemas, sorted by name.
        pub(super) static PUBLISHED: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/schemas/",
                $name,
                ".json"
            )),
        )),*];
    };
}
mod published;

/// Names of all schemas, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    PUBLISHED.iter().map(|(name, _)| *name)
}

/// Whether the schema of this name describes a file of a home.
pub fn is_of_file(name: &str) -> bool {
    FILES.iter().any(|file| file.name == name)
}

/// Returns the text of the schema of this name, complete in itself. The schema of an action's
/// payload has the action's name. `None` if there is no such schema.
pub fn text(name: &str) -> Option<&'static str> {
    let found = PUBLISHED.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text)
}

/// Returns the schema of this name, see [`text`].
pub fn schema(name: &str) -> Option<Value> {
    serde_json::from_str(text(name)?).ok()
}

/// The conditions that the reader checks although the schema cannot express them; empty for an
/// unknown name.
pub fn conditions(name: &str) -> &'static [Condition] {
    if name == "request" {
        return about::REQUEST;
    }
    let of_action = actions::named(name).map(|action| action.conditions());
    let of_file = || {
        FILES
            .iter()
            .find(|file| file.name == name)
            .map(|file| file.conditions)
    };
    of_action.or_else(of_file).unwrap_or_default()
}
