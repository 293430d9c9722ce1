//! Time on the wire: whole milliseconds since the Unix epoch, written as RFC 3339 in UTC with `Z`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape;

/// Milliseconds in a UTC day.
pub const DAY_MS: i64 = 86_400_000;

/// An instant in milliseconds since 1970-01-01T00:00:00Z.
///
/// INVARIANT: lies within the years 0000 to 9999, so that it can always be printed as RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(i64);

crate::text_schema!(
    Time,
    schemars::json_schema!({
        "type": "string",
        "format": "date-time",
        "pattern": r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z$",
        "examples": ["2026-02-20T14:42:00Z"],
    })
);

/// Why a text is not a valid time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimeError {
    /// The text does not have the shape `YYYY-MM-DDTHH:MM:SS[.fraction]Z`.
    #[error("`{0}` is not a time of the form `2026-02-20T14:42:00Z` (RFC 3339, UTC, with `Z`)")]
    Shape(String),
    /// The shape is right, but the calendar has no such instant.
    #[error("`{0}` is not a time of the calendar")]
    Calendar(String),
    /// Outside the years 0000 to 9999.
    #[error("{0} ms since 1970 is outside the years 0000 to 9999")]
    Range(i64),
}

/// First and last representable millisecond: 0000-01-01 and 9999-12-31.
const MIN_MS: i64 = -62_167_219_200_000;
const MAX_MS: i64 = 253_402_300_799_999;

impl Time {
    /// The Unix epoch.
    pub const EPOCH: Time = Time(0);

    /// Makes a time from milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// [`TimeError::Range`] outside the years 0000 to 9999.
    pub fn from_ms(ms: i64) -> Result<Time, TimeError> {
        if (MIN_MS..=MAX_MS).contains(&ms) {
            Ok(Time(ms))
        } else {
            Err(TimeError::Range(ms))
        }
    }

    /// Milliseconds since the Unix epoch.
    pub fn ms(self) -> i64 {
        self.0
    }

    /// Signed milliseconds from `earlier` to `self`.
    pub fn since_ms(self, earlier: Time) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This instant moved by `ms`, kept inside the calendar.
    pub fn plus_ms(self, ms: i64) -> Time {
        Time(self.0.saturating_add(ms).clamp(MIN_MS, MAX_MS))
    }

    /// The UTC midnight at or before this instant.
    pub fn day_start(self) -> Time {
        Time(self.0.saturating_sub(self.0.rem_euclid(DAY_MS)).max(MIN_MS))
    }

    /// The UTC midnight of the Monday at or before this instant.
    pub fn week_start(self) -> Time {
        // The epoch was a Thursday: weeks count from the Monday three days before it.
        let into_week = self.0.saturating_add(3 * DAY_MS).rem_euclid(7 * DAY_MS);
        Time(self.0.saturating_sub(into_week).max(MIN_MS))
    }

    /// Day of the month, UTC, from 1.
    pub fn day_of_month(self) -> u8 {
        // INVARIANT: an instant of the years 0000 to 9999 is a timestamp.
        let instant =
            jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        u8::try_from(jiff::tz::Offset::UTC.to_datetime(instant).day()).unwrap_or_default()
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.f{1,9}]Z`. Truncates digits below the millisecond: the result is
    /// for the order and age of requests, and the signature covers the text itself.
    ///
    /// ```
    /// use spoolgate_wire::time::Time;
    ///
    /// let asked = Time::parse("2026-03-02T12:00:00.5Z")?;
    /// assert_eq!(asked.to_string(), "2026-03-02T12:00:00.500Z");
    /// assert_eq!(asked.since_ms(asked.day_start()), 12 * 3_600_000 + 500);
    /// // No other zone, no other spelling.
    /// assert!(Time::parse("2026-03-02T12:00:00+00:00").is_err());
    /// # Ok::<(), spoolgate_wire::time::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`TimeError::Shape`] or [`TimeError::Calendar`].
    pub fn parse(text: &str) -> Result<Time, TimeError> {
        if !has_wire_shape(text) {
            return Err(TimeError::Shape(text.chars().take(64).collect()));
        }
        let instant: jiff::Timestamp = text
            .parse()
            .map_err(|_| TimeError::Calendar(text.to_owned()))?;
        let ms = i64::try_from(instant.as_nanosecond().div_euclid(1_000_000))
            .map_err(|_| TimeError::Calendar(text.to_owned()))?;
        Time::from_ms(ms)
    }
}

/// Whether `text` is `dddd-dd-ddTdd:dd:dd[.d{1,9}]Z`, the only accepted form. Libraries differ in
/// the other forms they accept (lower case, spaces, offsets, leap seconds).
fn has_wire_shape(text: &str) -> bool {
    let Some(body) = text.strip_suffix('Z') else {
        return false;
    };
    let (seconds, fraction) = match body.split_once('.') {
        Some((seconds, fraction)) => (seconds, Some(fraction)),
        None => (body, None),
    };
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let matches = seconds.len() == shape.len()
        && seconds.bytes().zip(shape).all(|(byte, want)| match want {
            b'd' => byte.is_ascii_digit(),
            other => byte == *other,
        });
    // A clock that counts milliseconds has no leap second (`:60`).
    let leap = seconds.ends_with(":60");
    let fraction_ok = fraction.is_none_or(|digits| {
        (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
    });
    matches && !leap && fraction_ok
}

impl Time {
    /// Returns the time of day, UTC, as `14:00`, or as `14:00:05` where the seconds are not 0.
    pub fn clock(self) -> String {
        let text = self.to_string();
        let of_day = text.get(11..19).unwrap_or(&text);
        of_day.strip_suffix(":00").unwrap_or(of_day).to_owned()
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        shape::parsed(deserializer, Time::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints_the_wire_form() {
        for (text, printed) in [
            ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
            ("2026-02-20T14:42:00.123Z", "2026-02-20T14:42:00.123Z"),
            ("2026-02-20T14:42:00.123456789Z", "2026-02-20T14:42:00.123Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
            ("9999-12-30T21:59:59.999Z", "9999-12-30T21:59:59.999Z"),
        ] {
            let time = Time::parse(text).unwrap();
            assert_eq!(time.to_string(), printed, "{text}");
            assert_eq!(Time::parse(printed).unwrap(), time);
        }
    }

    #[test]
    fn refuses_every_other_form() {
        for text in [
            "",
            "2026-02-20",
            "2026-02-20T14:42:00",
            "2026-02-20T14:42:00+00:00",
            "2026-02-20 14:42:00Z",
            "2026-02-20t14:42:00z",
            "2026-02-20T14:42:00.Z",
            "2026-02-20T14:42:00.1234567890Z",
            "2026-02-20T14:42:60Z",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-02-20T24:00:00Z",
            " 2026-02-20T14:42:00Z",
            "2026-02-20T14:42:00Z ",
            "+2026-02-20T14:42:00Z",
            "２026-02-20T14:42:00Z",
        ] {
            assert!(Time::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn weeks_start_on_monday_at_utc_midnight() {
        for (text, expect) in [
            ("2026-02-22T23:59:59.999Z", "2026-02-16T00:00:00Z"),
            ("2026-02-23T00:00:00Z", "2026-02-23T00:00:00Z"),
            ("2026-02-23T00:00:00.001Z", "2026-02-23T00:00:00Z"),
            ("2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z"),
            ("1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z"),
            ("1969-12-28T23:59:59Z", "1969-12-22T00:00:00Z"),
        ] {
            assert_eq!(
                Time::parse(text).unwrap().week_start(),
                Time::parse(expect).unwrap(),
                "{text}"
            );
        }
    }

    #[test]
    fn days_start_at_utc_midnight() {
        let check = |text: &str, expect: &str| {
            assert_eq!(
                Time::parse(text).unwrap().day_start(),
                Time::parse(expect).unwrap()
            );
        };
        check("2018-04-05T00:00:00Z", "2018-04-05T00:00:00Z");
        check("2018-04-05T23:59:59.999Z", "2018-04-05T00:00:00Z");
        check("1969-12-31T23:59:59Z", "1969-12-31T00:00:00Z");
    }
}
