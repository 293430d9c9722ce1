//! `rules/retention.yaml`: how long files stay that others have had time to read.

use serde::Deserialize;

use super::bounds::Bounded;
use super::rulebook::RulebookError;
use super::yaml;

/// Path below the home.
pub const PATH: &str = "rules/retention.yaml";

/// The file as a new home gets it.
pub const SHIPPED: &str = "\
# yaml-language-server: $schema=../schemas/rules.retention.json
# How long the gate keeps the files of answers to outgoing actions, in seconds, counted from the
# ledger line that they answer for. Without this file it keeps them for ever. docs/gateway.md says
# what is not removed.
outgoing_answers_s: 2592000  # 30 days
";

/// How long files stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Seconds for which the answers to outgoing actions stay in the spool, at most ten years.
    pub outgoing_answers_s: Bounded<60, 315_360_000>,
}

impl Retention {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if the YAML is not valid.
    pub fn read(path: &str, text: &str) -> Result<Retention, RulebookError> {
        yaml::read(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_keeps_answers_for_30_days() {
        let shipped = Retention::read(PATH, SHIPPED).unwrap();
        assert_eq!(*shipped.outgoing_answers_s, 30 * 24 * 3600);
    }

    #[test]
    fn bounds_and_keys_are_checked_with_the_line() {
        for (value, is_good) in [
            ("59", false),
            ("60", true),
            ("86400", true),
            ("315360000", true),
            ("315360001", false),
            ("-1", false),
            ("1.5", false),
            ("1d", false),
        ] {
            let read = Retention::read(PATH, &format!("\noutgoing_answers_s: {value}\n"));
            assert_eq!(read.is_ok(), is_good, "{value}");
            if let Err(error) = read {
                let error = error.to_string();
                assert!(error.starts_with("rules/retention.yaml:2: "), "{error}");
            }
        }
        let other = "outgoing_answers_s: 60\ndecisions_s: 60\n";
        let error = Retention::read(PATH, other).unwrap_err().to_string();
        assert!(
            error.starts_with("rules/retention.yaml:2: unknown field"),
            "{error}"
        );
        assert!(Retention::read(PATH, "{}").is_err());
    }
}
