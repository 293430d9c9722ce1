//! Parses prices and sizes from the text of a file, digit by digit: no float is involved.

use super::error::FieldError;
use super::text::shown;
use spoolgate_wire::amount::Amount;

/// Maximum number of decimals of a wire amount.
const DECIMALS_MAX: usize = 10;
/// Maximum number of digits before the point of a wire amount.
const WHOLE_DIGITS_MAX: usize = 12;
/// Maximum length of a number; no exporter writes longer ones.
const TEXT_BYTES_MAX: usize = 64;
/// Ten to the power of [`DECIMALS_MAX`].
const UNIT: u128 = 10_000_000_000;

/// A number taken from a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    /// Its value, exactly as written if possible.
    pub(super) amount: Amount,
    /// Whether it had more than 10 decimals and was rounded (half to even).
    pub(super) rounded: bool,
}

/// Parses a price: the wire grammar, rounded to 10 decimals if it has more.
pub(super) fn price(text: &str) -> Result<Number, FieldError> {
    decimal(text, false).ok_or_else(|| FieldError::Price(shown(text)))
}

/// Parses a volume or size: like a price, but exponents (`5e-08`) are accepted too, because
/// exporters write small volumes through floats.
pub(super) fn size(text: &str) -> Result<Number, FieldError> {
    decimal(text, true).ok_or_else(|| FieldError::Size(shown(text)))
}

/// Parses a decimal with at most 12 digits before the point, rounding half to even at 10 decimals.
fn decimal(text: &str, exponent_allowed: bool) -> Option<Number> {
    if let Ok(amount) = Amount::parse_wire(text) {
        // A float printed as `-0.0` is zero; its sign would give the stored row a second spelling.
        let unsigned = text.strip_prefix('-').filter(|_| amount.is_zero());
        let amount = unsigned
            .and_then(|zero| Amount::parse_wire(zero).ok())
            .unwrap_or(amount);
        return Some(Number {
            amount,
            rounded: false,
        });
    }
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) if exponent_allowed => (mantissa, read_exponent(exponent)?),
        Some(_) => return None,
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (unsigned, ""),
    };
    let whole_ok = !whole.is_empty() && (whole == "0" || !whole.starts_with('0'));
    if !whole_ok
        || !whole
            .bytes()
            .chain(fraction.bytes())
            .all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let (whole, fraction) = shift(whole, fraction, exponent);
    let (scaled, rounded) = scale(&whole, &fraction)?;
    let sign = if unsigned.len() < mantissa.len() && scaled > 0 {
        "-"
    } else {
        ""
    };
    let amount = Amount::parse_wire(&format!("{sign}{}", plain(scaled))).ok()?;
    Some(Number { amount, rounded })
}

/// Parses the exponent after `e`: an optional sign and one or two digits.
fn read_exponent(text: &str) -> Option<i32> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || digits.len() > 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// Moves the decimal point by `exponent` places; returns the digits before it (no leading zeros)
/// and after it.
fn shift(whole: &str, fraction: &str, exponent: i32) -> (String, String) {
    let places = usize::try_from(exponent.unsigned_abs()).unwrap_or(0);
    let zeros = "0".repeat(places);
    let (mut before, mut after) = (whole.to_owned(), fraction.to_owned());
    if exponent > 0 {
        after.push_str(&zeros);
        let moved: String = after.drain(..places).collect();
        before.push_str(&moved);
        // The zeros were only added to be moved; the rest would count as decimals.
        after.truncate(fraction.len().saturating_sub(places));
    } else if exponent < 0 {
        before.insert_str(0, &zeros);
        let moved = before.split_off(before.len().saturating_sub(places));
        after.insert_str(0, &moved);
    }
    (before.trim_start_matches('0').to_owned(), after)
}

/// Returns the value in units of 1e-10, and whether decimals were rounded away. `None` if there are
/// more than 12 whole digits.
fn scale(whole: &str, fraction: &str) -> Option<(u128, bool)> {
    if whole.len() > WHOLE_DIGITS_MAX {
        return None;
    }
    let (kept, cut) = fraction
        .split_at_checked(DECIMALS_MAX)
        .unwrap_or((fraction, ""));
    let digits = format!("{whole}{kept:0<DECIMALS_MAX$}");
    let value: u128 = digits.parse().ok()?;
    let up = match cut.as_bytes() {
        [] | [b'0'..=b'4', ..] => false,
        [b'5', rest @ ..] if rest.iter().all(|byte| *byte == b'0') => value % 2 == 1,
        _ => true,
    };
    Some((value + u128::from(up), !cut.is_empty()))
}

/// Writes a value in units of 1e-10 without trailing zeros: rounded digits were noise, and so is
/// their scale.
fn plain(scaled: u128) -> String {
    let (whole, fraction) = (scaled / UNIT, scaled % UNIT);
    let text = format!("{whole}.{fraction:0>DECIMALS_MAX$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, price_expect: &str, size_expect: &str) {
        let told = |read: Result<Number, FieldError>| match read {
            Ok(number) if number.rounded => format!("{} rounded", number.amount),
            Ok(number) => number.amount.to_string(),
            Err(_) => "no".to_owned(),
        };
        assert_eq!(told(price(text)), price_expect, "price {text}");
        assert_eq!(told(size(text)), size_expect, "size {text}");
    }

    #[test]
    fn numbers_are_read_by_their_digits() {
        check("127.0", "127.0", "127.0");
        check("0.00020030", "0.00020030", "0.00020030");
        check("-1.5", "-1.5", "-1.5");
        check(
            "0.029768000000000003",
            "0.029768 rounded",
            "0.029768 rounded",
        );
        check(
            "10.344205490000018",
            "10.34420549 rounded",
            "10.34420549 rounded",
        );
        check("1.500000000000", "1.5 rounded", "1.5 rounded");
        check("1.00000000005", "1 rounded", "1 rounded");
        check(
            "1.00000000015",
            "1.0000000002 rounded",
            "1.0000000002 rounded",
        );
        check(
            "1.00000000025",
            "1.0000000002 rounded",
            "1.0000000002 rounded",
        );
        check(
            "1.000000000250",
            "1.0000000002 rounded",
            "1.0000000002 rounded",
        );
        check(
            "1.0000000002500001",
            "1.0000000003 rounded",
            "1.0000000003 rounded",
        );
        check("0.99999999999", "1 rounded", "1 rounded");
        check("0.00000000001", "0 rounded", "0 rounded");
        check("-0.00000000001", "0 rounded", "0 rounded");
        check("999999999999.99999999999", "no", "no");
        check("5e-08", "no", "0.00000005");
        check("5E-8", "no", "0.00000005");
        check("1.25e+3", "no", "1250");
        check("1.25e1", "no", "12.5");
        check("1.234567890123e2", "no", "123.4567890123");
        check("1.2345678901234e2", "no", "123.4567890123 rounded");
        check("-0.0", "0.0", "0.0");
        check("0e0", "no", "0");
        check("0.5e-10", "no", "0 rounded");
        check("1.5e-10", "no", "0.0000000002 rounded");
        check("9e11", "no", "900000000000");
        check("1e12", "no", "no");
        check("5e-99", "no", "0 rounded");
        check("-5e-08", "no", "-0.00000005");
    }

    #[test]
    fn other_spellings_are_refused() {
        let long = "1".repeat(70);
        for text in [
            "", "-", ".", ".5", "5.", "+1", "007", "00.5", "1,000", "1 000", "nan", "inf", "0x10",
            "1e", "e5",
        ] {
            check(text, "no", "no");
        }
        for text in [
            "1e+",
            "1e999",
            "1e1e1",
            "1.2.3",
            "--1",
            "1.-5",
            "1000000000000",
            "\u{0661}",
            &long,
        ] {
            check(text, "no", "no");
        }
    }
}
