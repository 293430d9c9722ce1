//! `proposals/theses/<slug>.md`: why a trade is made; reviewed by people in git. The gate checks
//! the YAML front matter; the text below it is for readers.

pub mod lint;

use serde::Deserialize;

use super::bounds::AnyAmount;
use super::rulebook::RulebookError;
use super::strategies::Direction;
use super::yaml;
use spoolgate_wire::ids::{StrategyName, Symbol, ThesisSlug};
use spoolgate_wire::time::Time;

/// The front matter of a thesis.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thesis {
    /// Its name; equals the file name without its ending.
    pub slug: ThesisSlug,
    /// The strategy that may trade it.
    pub strategy: StrategyName,
    /// The instrument.
    pub symbol: Symbol,
    /// The direction.
    pub direction: Direction,
    /// When the thesis began. Market rows before this instant do not refute it. If absent, every
    /// row that comes in while the thesis is loaded counts, however old it is.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "Time")]
    pub since: Option<Time>,
    /// When the thesis expires. From this instant on it allows no entries.
    pub expires: Time,
    /// Refuted once the market trades at or below this.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "AnyAmount")]
    pub invalid_below: Option<AnyAmount>,
    /// Refuted once the market trades at or above this.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "AnyAmount")]
    pub invalid_above: Option<AnyAmount>,
}

/// Reads the front matter, which is between the first line `---` and the next one.
///
/// # Errors
/// Returns [`RulebookError`] with file and line if there is no valid front matter.
pub fn read(path: &str, text: &str) -> Result<Thesis, RulebookError> {
    yaml::read_at(path, front_matter(path, text)?, 1)
}

fn front_matter<'a>(path: &str, text: &'a str) -> Result<&'a str, RulebookError> {
    let missing = || {
        RulebookError::new(
            path,
            Some(1),
            "a thesis starts with YAML between two lines `---`",
        )
    };
    let body = text.strip_prefix("---\n").ok_or_else(missing)?;
    let end = body
        .find("\n---\n")
        .or_else(|| body.strip_suffix("\n---").map(str::len))
        .ok_or_else(missing)?;
    body.get(..=end).ok_or_else(missing)
}
