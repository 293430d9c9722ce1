//! Parses times and intervals from the text of a file. A time is UTC unless the text has an offset.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{Timestamp, civil::Date};

use super::error::FieldError;
use super::text::shown;
use spoolgate_trading::market_row::in_range;

/// One minute in milliseconds.
pub(super) const MINUTE_MS: i64 = 60_000;
/// One hour in milliseconds.
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;
/// One day in milliseconds.
pub(super) const DAY_MS: i64 = 24 * HOUR_MS;
/// The longest interval a bar may have: 31 days.
pub(super) const INTERVAL_MS_MAX: i64 = 31 * DAY_MS;

/// Why a text is not an interval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text} is not an interval; write a number and s, m, h or d, as in `1m`, `5m`, `1h`, `1d`, up \
        to `31d`"
)]
pub struct IntervalError {
    /// The text, shortened and escaped.
    pub text: String,
}

/// Parses an interval such as `1m`, `5m`, `1h` or `1d` (also `30s`) as milliseconds, 1 s to 31 d.
/// Units are lower case, because exchanges write a month as `1M`.
///
/// # Errors
/// Returns [`IntervalError`] for any other text.
pub fn parse_interval(text: &str) -> Result<i64, IntervalError> {
    let wrong = || IntervalError { text: shown(text) };
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let unit_ms = match unit {
        's' => 1000,
        'm' => MINUTE_MS,
        'h' => HOUR_MS,
        'd' => DAY_MS,
        _ => return Err(wrong()),
    };
    let digits = text.strip_suffix(unit).unwrap_or_default();
    if digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let count: i64 = digits.parse().map_err(|_| wrong())?;
    count
        .checked_mul(unit_ms)
        .filter(|interval_ms| *interval_ms <= INTERVAL_MS_MAX)
        .ok_or_else(wrong)
}

/// Writes an interval in its largest whole unit, as `parse_interval` reads it (`1500ms` if none
/// fits).
pub(super) fn write_interval(interval_ms: i64) -> String {
    for (unit_ms, unit) in [(DAY_MS, 'd'), (HOUR_MS, 'h'), (MINUTE_MS, 'm'), (1000, 's')] {
        if interval_ms > 0 && interval_ms % unit_ms == 0 {
            return format!("{}{unit}", interval_ms / unit_ms);
        }
    }
    format!("{interval_ms}ms")
}

/// Parses a time: an epoch in s, ms, us or ns, distinguished by magnitude, or an ISO date or time,
/// including `YYYYMMDD` and `YYYYMMDD HH:MM`. Parts of a millisecond round up, so that no row is
/// known before its source states.
pub(super) fn stamp(text: &str) -> Result<i64, FieldError> {
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let read = if all_digits && text.len() > 8 {
        epoch(text)
    } else if text.len() > 40 {
        None
    } else if all_digits {
        date(text)
    } else {
        iso(text)
    };
    read.filter(|time_ms| in_range(*time_ms))
        .ok_or_else(|| FieldError::Time(shown(text)))
}

/// Converts an epoch to milliseconds. Each unit covers 1973 to 5138, so the ranges do not overlap;
/// the caller refuses years after 2199. Texts of up to eight digits do not get here: they are dates
/// (`20180405`), not 1970.
fn epoch(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok()?;
    match value {
        100_000_000..100_000_000_000 => value.checked_mul(1000),
        100_000_000_000..100_000_000_000_000 => Some(value),
        100_000_000_000_000..100_000_000_000_000_000 => Some(ceil_div(value, 1000)),
        100_000_000_000_000_000.. => Some(ceil_div(value, 1_000_000)),
        _ => None,
    }
}

/// Divides and rounds up, for a positive value.
fn ceil_div(value: i64, by: i64) -> i64 {
    value / by + i64::from(value % by != 0)
}

/// Returns midnight of `YYYYMMDD`, in milliseconds.
pub(super) fn date(text: &str) -> Option<i64> {
    if text.len() != 8 || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |range: std::ops::Range<usize>| {
        text.get(range)
            .and_then(|digits| digits.parse::<i16>().ok())
    };
    let month = i8::try_from(part(4..6)?).ok()?;
    let day = i8::try_from(part(6..8)?).ok()?;
    let midnight = Date::new(part(0..4)?, month, day).ok()?.at(0, 0, 0, 0);
    Some(Offset::UTC.to_timestamp(midnight).ok()?.as_millisecond())
        .filter(|time_ms| in_range(*time_ms))
}

/// Parses an ISO date or time; without an offset it is UTC.
fn iso(text: &str) -> Option<i64> {
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    // jiff also parses zone annotations and drops them from a civil time; such a text is not a
    // plain UTC time.
    let known = |byte: u8| byte.is_ascii_digit() || b"-:.+TtZz ".contains(&byte);
    if !text.bytes().all(known) || !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    // The first ten characters hold the date in either spelling; a sign after them belongs to an
    // offset.
    let has_offset = text.get(10..)?.contains(['Z', 'z', '+', '-']);
    let timestamp: Timestamp = if has_offset {
        text.parse().ok()?
    } else {
        Offset::UTC
            .to_timestamp(text.parse::<DateTime>().ok()?)
            .ok()?
    };
    let time_ns = timestamp.as_nanosecond();
    i64::try_from(time_ns.div_euclid(1_000_000) + i128::from(time_ns.rem_euclid(1_000_000) != 0))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 1_522_886_400_000; // 2018-04-05T00:00:00Z

    #[test]
    fn times_are_read_in_every_common_form() {
        for (text, expect) in [
            ("2018-04-05", DAY),
            ("20180405", DAY),
            ("20180405 00:00", DAY),
            ("20180405 12:34", DAY + 45_240_000),
            ("2018-04-05T00:00:00Z", DAY),
            ("2018-04-05T00:00Z", DAY),
            ("2018-04-05 00:00", DAY),
            ("2018-04-05 00:00:00", DAY),
            ("2018-04-05 00:00:00+00:00", DAY),
            ("2018-04-05 00:00:00 UTC", DAY),
            ("2018-04-05T02:00:00+02:00", DAY),
            ("2018-04-04T19:00:00-05:00", DAY),
            ("2018-04-05T00:00:00.500Z", DAY + 500),
            ("2018-04-05T00:00:00.5000001", DAY + 501),
            ("1522886400", DAY),
            ("1522886400000", DAY),
            ("1522886400000000", DAY),
            ("1522886400000001", DAY + 1),
            ("1522886400000000000", DAY),
            ("1950-01-03", -630_979_200_000),
            ("2000-03-01", 951_868_800_000),
        ] {
            assert_eq!(stamp(text), Ok(expect), "{text}");
        }
    }

    #[test]
    fn other_times_are_refused() {
        for text in [
            "",
            "0",
            "1",
            "43195",
            "201804",
            "20181305",
            "20180230",
            "04/05/2018",
            "2018-13-01",
            "2018-02-30",
            "noon",
            "2018-04-05T25:00:00Z",
            "2018-04-05T00:00:00[America/New_York]",
            "2018-04-05T00:00:00+99:00",
            "-1522886400",
            "1522886400.5",
            "20180405000000",
            "9223372036854775808",
            "1850-01-01",
            "2200-01-01",
            "12:00:00",
            "2018-04-05T00:00:00-05:00-06:00",
            "99999999999999999999999999",
            "2018-04-05 00:00:00 +",
        ] {
            assert!(stamp(text).is_err(), "{text} gave {:?}", stamp(text));
        }
    }

    #[test]
    fn intervals_are_read_and_written() {
        for (text, expect) in [
            ("1m", 60_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("30s", 30_000),
        ] {
            assert_eq!(parse_interval(text), Ok(expect));
            assert_eq!(write_interval(expect), text);
        }
        for text in [
            "",
            "m",
            "0m",
            "01m",
            "1M",
            "-1m",
            "+1m",
            "1",
            "1.5h",
            "32d",
            "99999999999999999999d",
            "1\u{e9}",
        ] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
        assert_eq!(write_interval(1500), "1500ms");
    }
}
