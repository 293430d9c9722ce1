//! Self-reported confidence: compared exactly, and only ever with a floor.

use spoolgate_wire::amount::Amount;
use spoolgate_wire::council::JsonText;

/// The confidence that a vote states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confidence {
    /// No confidence is stated.
    Absent,
    /// The value is not a number from 0 to 1.
    Invalid,
    /// Below the floor of its role.
    Low,
    /// At or above the floor of its role.
    Enough,
}

/// Compares a confidence with its floor.
pub(super) fn read(confidence: Option<&JsonText>, floor: Amount) -> Confidence {
    let Some(confidence) = confidence else {
        return Confidence::Absent;
    };
    let (value, one) = (Magnitude::parse(confidence.as_str()), Magnitude::parse("1"));
    match value {
        Some(value) if Some(&value) <= one.as_ref() => match Magnitude::parse(&floor.to_string()) {
            Some(floor) if value >= floor => Confidence::Enough,
            _ => Confidence::Low,
        },
        _ => Confidence::Invalid,
    }
}

/// A non-negative decimal number: `0.<digits>` times ten to the `exponent`.
// INVARIANT: the digits neither begin nor end with 0; the number 0 has no digits and the smallest
// exponent. So the derived order of the fields is the order of the numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Magnitude {
    exponent: i64,
    digits: String,
}

impl Magnitude {
    /// Parses a JSON number; `None` for other values, for negative numbers and for exponents beyond
    /// 64 bits.
    fn parse(text: &str) -> Option<Magnitude> {
        let (negative, text) = text
            .strip_prefix('-')
            .map_or((false, text), |rest| (true, rest));
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let leading = all.len() - all.trim_start_matches('0').len();
        let digits = all.trim_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Magnitude {
                exponent: i64::MIN,
                digits,
            });
        }
        let before_point = i64::try_from(whole.len())
            .ok()?
            .checked_sub(i64::try_from(leading).ok()?)?;
        let exponent = exponent.parse::<i64>().ok()?.checked_add(before_point)?;
        (!negative).then_some(Magnitude { exponent, digits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_at_its_bounds() {
        use Confidence::{Absent, Enough, Invalid, Low};
        let floor = Amount::parse_wire("0.6").unwrap();
        let cases = [
            ("0.6", Enough),
            ("0.60", Enough),
            ("6e-1", Enough),
            ("60.0E-2", Enough),
            ("0.0006e+3", Enough),
            ("0.61", Enough),
            ("1", Enough),
            ("1.000", Enough),
            ("10e-1", Enough),
            ("0.5999999999999999999999999999999999", Low),
            ("0.59", Low),
            ("0", Low),
            ("-0.0", Low),
            ("0e5", Low),
            ("6e-2", Low),
            ("1.0000000000000000000000000000000001", Invalid),
            ("1.01", Invalid),
            ("6", Invalid),
            ("-0.6", Invalid),
            ("1e400", Invalid),
            ("1e99999999999999999999", Invalid),
            ("\"0.9\"", Invalid),
            ("true", Invalid),
            ("[0.9]", Invalid),
            ("{}", Invalid),
        ];
        for (text, expect) in cases {
            let text: JsonText = serde_json::from_str(text).unwrap();
            assert_eq!(read(Some(&text), floor), expect, "{}", text.as_str());
        }
        assert_eq!(read(None, floor), Absent);
        let zero: JsonText = serde_json::from_str("0.0").unwrap();
        assert_eq!(read(Some(&zero), Amount::ZERO), Enough);
    }
}
