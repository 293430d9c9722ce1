//! Reading one YAML rule file: strict, and every complaint with file and line.

use serde::de::DeserializeOwned;

use super::rulebook::RulebookError;

/// Largest rule file, in bytes.
pub const RULE_FILE_BYTES_MAX: usize = 1024 * 1024;

/// Reads `text` as a `T` whose structs refuse unknown keys.
///
/// # Errors
/// [`RulebookError`] with the file, the line and what is wrong there.
pub fn read<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, RulebookError> {
    read_at(path, text, 0)
}

/// As [`read`], for text that starts after `lines_before` lines of its file.
///
/// # Errors
/// [`RulebookError`] with the file, the line and what is wrong there.
pub fn read_at<T: DeserializeOwned>(path: &str, text: &str, lines_before: usize) -> Result<T, RulebookError> {
    if text.len() > RULE_FILE_BYTES_MAX {
        return Err(RulebookError::new(path, None, format!("larger than {RULE_FILE_BYTES_MAX} bytes")));
    }
    serde_yaml::from_str(text).map_err(|error| {
        let line = error.location().map(|location| location.line().saturating_add(lines_before));
        let message = error.to_string();
        // The library appends its own place, which the error already carries.
        let message = message.split(" at line ").next().unwrap_or(&message).to_owned();
        RulebookError::new(path, line, message)
    })
}
