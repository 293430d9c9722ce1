//! Parses a confidence from the text of a JSON number, without using floats.

use crate::amount::Amount;

/// Number of decimal places that are kept. Truncation can only lower a confidence, and no minimum
/// in a rule file has as many places.
const PLACES: usize = 28;

/// Reads a JSON number from 0 to 1, exponents included. `None` for any other JSON.
pub(super) fn parse(text: &str) -> Option<Amount> {
    let (is_negative, text) = text
        .strip_prefix('-')
        .map_or((false, text), |rest| (true, rest));
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let leading = i64::try_from(all.len().checked_sub(digits.len())?).ok()?;
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() {
        return Some(Amount::ZERO);
    }
    // The number is 0.<digits> times ten to the `point`.
    let before_point = i64::try_from(whole.len()).ok()?.checked_sub(leading)?;
    let point = match exponent.parse::<i64>() {
        Ok(exponent) => exponent.checked_add(before_point),
        Err(_) => exponent.starts_with('-').then_some(i64::MIN),
    };
    match point {
        _ if is_negative => None,
        Some(1) if digits == "1" => Some(Amount::ONE),
        Some(point) if point <= 0 => {
            let zeros = usize::try_from(point.unsigned_abs())
                .unwrap_or(PLACES)
                .min(PLACES);
            let kept: String = std::iter::repeat_n('0', zeros)
                .chain(digits.chars())
                .take(PLACES)
                .collect();
            Amount::parse_exact(&format!("0.{kept}"))
                .ok()
                .map(Amount::normalized)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_json_number_from_0_to_1_and_nothing_else() {
        for (text, expect) in [
            ("0", Some("0")),
            ("-0", Some("0")),
            ("0.0e7", Some("0")),
            ("0e99999999999999999999", Some("0")),
            ("0.83", Some("0.83")),
            ("1", Some("1")),
            ("1e0", Some("1")),
            ("10E-1", Some("1")),
            ("0.1e+1", Some("1")),
            ("1.000", Some("1")),
            ("1e-07", Some("0.0000001")),
            ("8.30e-1", Some("0.83")),
            ("1e-28", Some("0.0000000000000000000000000001")),
            ("1e-29", Some("0")),
            ("1e-99999999999999999999", Some("0")),
            (
                "0.99999999999999999999999999999999999",
                Some("0.9999999999999999999999999999"),
            ),
            ("1.0001", None),
            ("1.00000000000000000000000000000000000001", None),
            ("2", None),
            ("1e1", None),
            ("1e99999999999999999999", None),
            ("-0.1", None),
            ("-1e-99999999999999999999", None),
            ("\"0.8\"", None),
            ("true", None),
            ("null", None),
            ("[0.5]", None),
            ("{}", None),
        ] {
            assert_eq!(
                parse(text).map(|amount| amount.to_string()).as_deref(),
                expect,
                "{text}"
            );
        }
    }
}
