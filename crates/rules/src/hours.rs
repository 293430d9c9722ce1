//! Times of day at which entries are not allowed.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use super::rulebook::RulebookError;
use spoolgate_wire::time::Time;

const DAY_MINUTES: u32 = 24 * 60;
const MINUTE_MS: i64 = 60_000;

/// A restricted window in UTC, from the start of `from` up to the start of `to`. It spans midnight
/// if `to` is earlier than `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its first minute.
    pub from: Minute,
    /// The first minute after it.
    pub to: Minute,
}

/// A minute of the day, `HH:MM`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute(u32);

impl Window {
    /// Returns whether the instant is in the window.
    pub fn holds(&self, time: Time) -> bool {
        let into_day_ms = time.since_ms(time.day_start());
        let (from, to) = (self.from.ms(), self.to.ms());
        if from < to {
            (from..to).contains(&into_day_ms)
        } else {
            into_day_ms >= from || into_day_ms < to
        }
    }

    /// Returns whether both ends are equal, which could mean an empty window or the whole day.
    pub fn is_ambiguous(&self) -> bool {
        self.from == self.to
    }
}

/// Checks that no window has the same beginning and end.
///
/// # Errors
/// Returns [`RulebookError`] for the first such window of the file.
pub(super) fn check(path: &str, windows: &[Window]) -> Result<(), RulebookError> {
    let Some(window) = windows.iter().find(|window| window.is_ambiguous()) else {
        return Ok(());
    };
    let message =
        format!("`restricted` from {window}: give it another end, or pause what is not to run");
    Err(RulebookError::new(path, None, message))
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} UTC", self.from, self.to)
    }
}

impl Minute {
    /// Parses `HH:MM`.
    pub fn parse(text: &str) -> Option<Minute> {
        let (hours, minutes) = text.split_once(':')?;
        let number = |digits: &str| {
            let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_two.then(|| digits.parse::<u32>().ok()).flatten()
        };
        let minute = number(minutes).filter(|minute| *minute < 60)?;
        let minutes = number(hours)?.checked_mul(60)?.checked_add(minute)?;
        (minutes < DAY_MINUTES).then_some(Minute(minutes))
    }

    /// Returns the minutes since 00:00.
    pub fn minutes(self) -> u32 {
        self.0
    }

    fn ms(self) -> i64 {
        i64::from(self.0).saturating_mul(MINUTE_MS)
    }
}

spoolgate_wire::text_schema!(
    Minute,
    schemars::json_schema!({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})
);

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

impl<'de> Deserialize<'de> for Minute {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Minute, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Minute;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time of day such as 21:55")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Minute, E> {
                let unexpected = serde::de::Unexpected::Str(text);
                Minute::parse(text).ok_or_else(|| E::invalid_value(unexpected, &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_two_and_two_digits_of_one_day() {
        for (text, expect) in [("00:00", 0), ("09:05", 545), ("23:59", 1439)] {
            assert_eq!(Minute::parse(text), Some(Minute(expect)), "{text}");
            assert_eq!(Minute(expect).to_string(), text);
        }
        for text in [
            "24:00", "23:60", "9:05", "09:5", "0905", "+9:05", "09:05:00", "", ":", "ab:cd",
        ] {
            assert_eq!(Minute::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_window_holds_its_beginning_and_not_its_end_and_may_pass_midnight() {
        let at = |text: &str| Time::parse(&format!("2026-02-21T{text}Z")).unwrap();
        let window = |from: &str, to: &str| Window {
            from: Minute::parse(from).unwrap(),
            to: Minute::parse(to).unwrap(),
        };
        for (from, to, text, expect) in [
            ("12:00", "12:30", "11:59:59.999", false),
            ("12:00", "12:30", "12:00:00", true),
            ("12:00", "12:30", "12:29:59.999", true),
            ("12:00", "12:30", "12:30:00", false),
            ("23:55", "00:05", "23:54:59.999", false),
            ("23:55", "00:05", "23:55:00", true),
            ("23:55", "00:05", "00:00:00", true),
            ("23:55", "00:05", "00:04:59.999", true),
            ("23:55", "00:05", "00:05:00", false),
            ("23:55", "00:00", "00:00:00", false),
        ] {
            assert_eq!(
                window(from, to).holds(at(text)),
                expect,
                "{from} {to} {text}"
            );
        }
    }
}
