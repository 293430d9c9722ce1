//! `Amount`: money, prices and sizes as exact decimals. Nothing here rounds implicitly.

use std::cmp::Ordering;
use std::fmt;
use std::ops::Neg;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Maximum number of digits before the point in a request or a rule file.
const WIRE_INTEGER_DIGITS_MAX: usize = 12;

/// Maximum number of digits after the point in a request or a rule file. With 12 + 10 digits the
/// product of two amounts may still be out of range, in which case [`Amount::checked_mul`] returns
/// `None`.
const WIRE_FRACTION_DIGITS_MAX: usize = 10;

/// Largest mantissa of `Decimal`: 96 bits.
const MANTISSA_MAX: u128 = (1 << 96) - 1;

/// Largest scale of `Decimal`.
const SCALE_MAX: u32 = 28;

/// Longest text: a minus sign, 29 digits, the point and a 0 before it.
const TEXT_BYTES_MAX: usize = 32;

/// 10^19, the largest power of ten that fits 64 bits. Digits are taken in parts below it, to avoid
/// dividing 128 bits for each digit.
const TEN_TO_19: u128 = 10_000_000_000_000_000_000;

/// The powers of ten that fit 63 bits.
const TENS: [i64; 19] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
    100_000_000_000,
    1_000_000_000_000,
    10_000_000_000_000,
    100_000_000_000_000,
    1_000_000_000_000_000,
    10_000_000_000_000_000,
    100_000_000_000_000_000,
    1_000_000_000_000_000_000,
];

/// Decimal places of [`Amount::ratio_display`].
const RATIO_PLACES: u32 = 6;

/// Maximum number of characters of a refused text that an error message repeats.
const PRINTED_CHARS_MAX: usize = 40;

/// Why a text is not an [`Amount`]; the texts are escaped and truncated to 40 characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// The text does not have the form of requests and rule files.
    #[error(
        "`{text}` is not an amount: the form is -?(0|[1-9][0-9]{{0,11}})(\\.[0-9]{{1,10}})?, such \
            as 12, -0.5 or 1234.25"
    )]
    NotWire {
        /// The text.
        text: String,
    },
    /// The text does not have the form of ledger lines and state.
    #[error(
        "`{text}` is not an amount: the form is -?(0|[1-9][0-9]*)(\\.[0-9]+)?, such as 12, -0.5 or \
            1234.25"
    )]
    NotExact {
        /// The text.
        text: String,
    },
    /// The form is right, but there are more digits than 96 bits and 28 decimal places can hold.
    #[error("`{text}` has more digits than an amount can hold exactly")]
    OutOfRange {
        /// The text.
        text: String,
    },
}

/// An exact decimal: a price, a size, a sum of money or a fraction. The field that holds it defines
/// the unit.
///
/// Equality, order and hash depend on the value only (`1.10` equals `1.1`). Printing keeps the
/// decimal places that were read, never uses an exponent and never prints `-0`. Serialised as a
/// JSON string of the printed form; deserialised from strings only, by [`Amount::parse_exact`].
/// Fields of requests use [`wire`], fields of rule files [`yaml`].
///
/// ```
/// use spoolgate_wire::amount::Amount;
///
/// let size = Amount::parse_wire("0.30")?;
/// let price = Amount::parse_wire("6800.10")?;
/// assert_eq!(size.to_string(), "0.30");
/// assert_eq!(size, Amount::parse_wire("0.3")?);
/// assert_eq!(size.checked_mul(price), Some(Amount::parse_exact("2040.03")?));
/// assert!(Amount::parse_wire("1e3").is_err());
/// # Ok::<(), spoolgate_wire::amount::AmountError>(())
/// ```
// INVARIANT: zero has no minus sign; every constructor goes through `from_parts` or through a
// Decimal that keeps this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Amount(Decimal);

crate::text_schema!(
    Amount,
    schemars::json_schema!({"type": "string", "pattern": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"})
);

impl Amount {
    /// 0.
    pub const ZERO: Amount = Amount(Decimal::ZERO);

    /// 1.
    pub const ONE: Amount = Amount(Decimal::ONE);

    /// Reads the form of requests: `-?(0|[1-9]\d{0,11})(\.\d{1,10})?`, ASCII digits only; `-0`
    /// becomes `0`.
    ///
    /// # Errors
    /// Returns `NotWire` for any other text.
    pub fn parse_wire(text: &str) -> Result<Amount, AmountError> {
        Written::split(text)
            .filter(|written| {
                written.integer.len() <= WIRE_INTEGER_DIGITS_MAX
                    && written.fraction.len() <= WIRE_FRACTION_DIGITS_MAX
            })
            .and_then(|written| written.amount())
            .ok_or_else(|| AmountError::NotWire {
                text: printed(text),
            })
    }

    /// Reads the form of ledger lines and state, `-?(0|[1-9]\d*)(\.\d+)?`, if the value can be
    /// represented exactly.
    ///
    /// # Errors
    /// Returns `NotExact` for any other form, or `OutOfRange` if the digits, including trailing
    /// zeros, need more than 96 bits or more than 28 decimal places.
    pub fn parse_exact(text: &str) -> Result<Amount, AmountError> {
        let written = Written::split(text).ok_or_else(|| AmountError::NotExact {
            text: printed(text),
        })?;
        written.amount().ok_or_else(|| AmountError::OutOfRange {
            text: printed(text),
        })
    }

    /// Makes an amount without decimal places.
    pub fn from_i64(whole: i64) -> Amount {
        Amount(Decimal::from(whole))
    }

    /// The same value as a [`Decimal`], with the same decimal places.
    pub fn decimal(self) -> Decimal {
        self.0
    }

    /// Number of decimal places, 0 to 28, including trailing zeros.
    pub fn scale(self) -> u32 {
        self.0.scale()
    }

    /// The same value without trailing zeros after the point.
    pub fn normalized(self) -> Amount {
        Amount(self.0.normalize())
    }

    /// Whether this is 0.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    /// Whether this is above 0.
    pub fn is_positive(self) -> bool {
        !self.0.is_zero() && self.0.is_sign_positive()
    }

    /// Whether this is below 0.
    pub fn is_negative(self) -> bool {
        !self.0.is_zero() && self.0.is_sign_negative()
    }

    /// The value without its sign.
    pub fn abs(self) -> Amount {
        Amount(self.0.abs())
    }

    /// The exact sum, with the decimal places of the finer operand if they fit. `None` if the sum
    /// cannot be represented.
    #[inline]
    pub fn checked_add(self, other: Amount) -> Option<Amount> {
        short(self, other, i64::checked_add).or_else(|| self.long_sum(other))
    }

    /// The exact difference, by the rules of [`Amount::checked_add`].
    #[inline]
    pub fn checked_sub(self, other: Amount) -> Option<Amount> {
        short(self, other, i64::checked_sub).or_else(|| self.long_sum(-other))
    }

    /// The exact product, with the decimal places of both operands added up if they fit. `None` if
    /// the product cannot be represented.
    #[inline]
    pub fn checked_mul(self, other: Amount) -> Option<Amount> {
        short_product(self, other).or_else(|| self.long_product(other))
    }

    #[cold]
    fn long_sum(self, other: Amount) -> Option<Amount> {
        // Without trailing zeros, a sum of different scales has no trailing zeros to remove either,
        // so a further overflow means that it is out of range.
        let natural = add_parts(self.parts(), other.parts());
        natural.or_else(|| add_parts(self.normalized().parts(), other.normalized().parts()))
    }

    #[cold]
    fn long_product(self, other: Amount) -> Option<Amount> {
        let ((left, left_scale), (right, right_scale)) = (self.parts(), other.parts());
        if let Some(product) = left.checked_mul(right) {
            return from_parts(product, left_scale + right_scale);
        }
        // The product overflows 127 bits, but may end in zeros: from one operand, or from a factor
        // 2 in one and a factor 5 in the other. After removing these, a further overflow means that
        // it is out of range.
        let (mut left, mut right, mut scale) = (left, right, left_scale + right_scale);
        for (of_left, of_right) in [(10, 1), (1, 10), (2, 5), (5, 2)] {
            while scale > 0 && left % of_left == 0 && right % of_right == 0 {
                left /= of_left;
                right /= of_right;
                scale -= 1;
            }
        }
        from_parts(left.checked_mul(right)?, scale)
    }

    /// Whether this is a whole number of `step`s, whatever the signs; 0 always is. `None` if `step`
    /// is 0.
    pub fn is_multiple_of(self, step: Amount) -> Option<bool> {
        self.remainder(step).map(Amount::is_zero)
    }

    /// The largest multiple of `step` that is not above this amount, also for negative values (-1.2
    /// by 0.5 is -1.5). The sign of `step` does not matter. `None` if `step` is 0 or the multiple
    /// is out of range.
    pub fn round_down_to(self, step: Amount) -> Option<Amount> {
        let remainder = self.remainder(step)?;
        self.to_multiple(remainder, step.abs(), remainder.is_negative())
    }

    /// The smallest multiple of `step` that is not below this amount, also for negative values
    /// (-1.2 by 0.5 is -1.0). The sign of `step` does not matter. `None` if `step` is 0 or the
    /// multiple is out of range.
    pub fn round_up_to(self, step: Amount) -> Option<Amount> {
        let remainder = self.remainder(step)?;
        self.to_multiple(remainder, -step.abs(), remainder.is_positive())
    }

    /// Number of whole `step`s that fit into this amount. `None` if this is negative, `step` is not
    /// positive, or the count exceeds 64 bits.
    pub fn div_floor_count(self, step: Amount) -> Option<u64> {
        if self.is_negative() || !step.is_positive() {
            return None;
        }
        let mut division = Division::of(self, step, 0)?;
        let whole = division.whole;
        let count = division.try_fold(whole, |n, digit| {
            n.checked_mul(10)?.checked_add(u128::from(digit))
        })?;
        u64::try_from(count).ok()
    }

    /// Rounds to at most `places` decimal places, away from zero.
    pub fn round_dp_up(self, places: u32) -> Amount {
        // Dropping digits makes the mantissa smaller, so the carry always fits.
        Amount(
            self.0
                .round_dp_with_strategy(places, RoundingStrategy::AwayFromZero),
        )
    }

    /// This amount divided by `by`, truncated (not rounded) to 6 decimal places, for display only:
    /// rules compare by multiplication. `None` if `by` is 0.
    pub fn ratio_display(self, by: Amount) -> Option<String> {
        let division = Division::of(self, by, RATIO_PLACES)?;
        let mut digits = division.whole.to_string();
        digits.extend(division.map(|digit| char::from(b'0' + digit)));
        let significant = digits.trim_start_matches('0');
        let is_negative = self.is_negative() != by.is_negative() && !significant.is_empty();
        let padded = format!("{significant:0>7}");
        let (whole, fraction) =
            padded.split_at_checked(padded.len().saturating_sub(RATIO_PLACES as usize))?;
        Some(format!(
            "{}{whole}.{fraction}",
            if is_negative { "-" } else { "" }
        ))
    }

    /// Mantissa and scale.
    fn parts(self) -> (i128, u32) {
        (self.0.mantissa(), self.0.scale())
    }

    /// Writes the text that [`Amount::parse_exact`] reads, with all decimal places, to the end of a
    /// buffer. Fast, because every ledger line has dozens of amounts.
    fn text(self, buffer: &mut [u8; TEXT_BYTES_MAX]) -> &str {
        let (mantissa, scale) = self.parts();
        let absolute = mantissa.unsigned_abs();
        // INVARIANT: a mantissa has at most 29 digits, so that neither part is cut.
        let part = |part: u128| u64::try_from(part).unwrap_or(u64::MAX);
        let (mut high, mut rest) = match u64::try_from(absolute) {
            Ok(all) => (0, all),
            Err(_) => (part(absolute / TEN_TO_19), part(absolute % TEN_TO_19)),
        };
        let mut slots = buffer.iter_mut().rev();
        let mut put = |byte| slots.next().into_iter().for_each(|slot| *slot = byte);
        let mut digits = 0;
        while digits <= scale || rest > 0 || high > 0 {
            if digits == scale && scale > 0 {
                put(b'.');
            }
            put(b'0' + u8::try_from(rest % 10).unwrap_or(0));
            rest /= 10;
            digits += 1;
            if digits == 19 && high > 0 {
                rest = std::mem::take(&mut high);
            }
        }
        if mantissa < 0 {
            put(b'-');
        }
        let free = slots.len();
        buffer
            .get(free..)
            .and_then(|text| std::str::from_utf8(text).ok())
            .unwrap_or_default()
    }

    /// The remainder after subtracting whole `step`s towards 0, with the sign of this amount.
    /// `None` if `step` is 0. It always fits: its digits are fewer than those of `step`, or no more
    /// than those of this amount.
    fn remainder(self, step: Amount) -> Option<Amount> {
        let mut division = Division::of(self, step, 0)?;
        division.by_ref().for_each(drop);
        let rest = from_parts(
            i128::try_from(division.rest).ok()?,
            self.scale().max(step.scale()),
        )?;
        Some(if self.is_negative() { -rest } else { rest })
    }

    /// Subtracts the `remainder` by `step`, and one more `step` if `one_more`. The sign of `step`
    /// is the direction.
    fn to_multiple(self, remainder: Amount, step: Amount, one_more: bool) -> Option<Amount> {
        if remainder.is_zero() {
            return Some(self);
        }
        if remainder == self {
            // Closer to 0 than one step. A separate case, because `remainder + step` may be out of
            // range here.
            return Some(if one_more { -step } else { Amount::ZERO });
        }
        // Add up first: `self - remainder` alone may be out of range even if the result is not.
        let excess = if one_more {
            remainder.checked_add(step)?
        } else {
            remainder
        };
        self.checked_sub(excess)
    }
}

/// The amount `mantissa / 10^scale`. Removes as many trailing zeros as necessary to make it fit;
/// `None` if it does not.
fn from_parts(mut mantissa: i128, mut scale: u32) -> Option<Amount> {
    while mantissa.unsigned_abs() > MANTISSA_MAX || scale > SCALE_MAX {
        if scale == 0 || mantissa % 10 != 0 {
            return None;
        }
        mantissa /= 10;
        scale -= 1;
    }
    Decimal::try_from_i128_with_scale(mantissa, scale)
        .ok()
        .map(Amount)
}

/// The sum. Also `None` if the sum would fit but the operands' trailing zeros overflow on the way
/// to it.
fn add_parts((left, left_scale): (i128, u32), (right, right_scale): (i128, u32)) -> Option<Amount> {
    let scale = left_scale.max(right_scale);
    let left = left.checked_mul(10_i128.checked_pow(scale - left_scale)?)?;
    let right = right.checked_mul(10_i128.checked_pow(scale - right_scale)?)?;
    from_parts(left.checked_add(right)?, scale)
}

/// The sum or difference that `of` computes, if operands and result fit 63 bits. Nearly all of them
/// do, and this takes a tenth of the time.
#[inline]
fn short(left: Amount, right: Amount, of: fn(i64, i64) -> Option<i64>) -> Option<Amount> {
    let (left, right, scale) = short_mantissas(left, right)?;
    Some(of_mantissa(of(left, right)?, scale))
}

/// The mantissas at the scale of the finer amount, if they fit 63 bits, and that scale.
#[inline]
fn short_mantissas(left: Amount, right: Amount) -> Option<(i64, i64, u32)> {
    let (mut of_left, mut of_right) = (short_mantissa(left)?, short_mantissa(right)?);
    let (left, right) = (left.scale(), right.scale());
    let ten = |places: u32| TENS.get(usize::try_from(places).ok()?).copied();
    if left < right {
        of_left = of_left.checked_mul(ten(right - left)?)?;
    } else if right < left {
        of_right = of_right.checked_mul(ten(left - right)?)?;
    }
    Some((of_left, of_right, left.max(right)))
}

/// The mantissa, if it fits 63 bits.
#[inline]
fn short_mantissa(amount: Amount) -> Option<i64> {
    let parts = amount.0.unpack();
    if parts.hi > 0 {
        return None;
    }
    let absolute = i64::try_from(u64::from(parts.mid) << 32 | u64::from(parts.lo)).ok()?;
    Some(if parts.negative { -absolute } else { absolute })
}

/// The amount of a mantissa and a scale of at most 28.
#[inline]
fn of_mantissa(mantissa: i64, scale: u32) -> Amount {
    let [a, b, c, d, e, f, g, h] = mantissa.unsigned_abs().to_le_bytes();
    let (low, middle) = (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    );
    Amount(Decimal::from_parts(low, middle, 0, mantissa < 0, scale))
}

/// The product, if it fits 63 bits and 28 decimal places.
#[inline]
fn short_product(left: Amount, right: Amount) -> Option<Amount> {
    let scale = left.scale() + right.scale();
    let product = short_mantissa(left)?.checked_mul(short_mantissa(right)?)?;
    (scale <= SCALE_MAX).then(|| of_mantissa(product, scale))
}

/// Long division of two absolute values, digit by digit, because the whole quotient may need 200
/// bits.
///
/// The quotient, times 10^`extra_places` and truncated to a whole number, is `whole` followed by
/// the digits that this iterator yields.
struct Division {
    whole: u128,
    rest: u128,
    divisor: u128,
    digits_left: u32,
}

impl Division {
    /// `None` if `by` is 0.
    fn of(amount: Amount, by: Amount, extra_places: u32) -> Option<Division> {
        let ((mantissa, scale), (by_mantissa, by_scale)) = (amount.parts(), by.parts());
        let places = by_scale + extra_places;
        // A saturated divisor is still greater than every mantissa, which is all that matters.
        let divisor = by_mantissa
            .unsigned_abs()
            .saturating_mul(10_u128.saturating_pow(scale.saturating_sub(places)));
        let dividend = mantissa.unsigned_abs();
        Some(Division {
            whole: dividend.checked_div(divisor)?,
            rest: dividend.checked_rem(divisor)?,
            divisor,
            digits_left: places.saturating_sub(scale),
        })
    }
}

impl Iterator for Division {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        self.digits_left = self.digits_left.checked_sub(1)?;
        // INVARIANT: while digits are left the divisor is a bare mantissa, below 2^96, so ten times
        // the rest fits.
        let dividend = self.rest * 10;
        self.rest = dividend % self.divisor;
        u8::try_from(dividend / self.divisor).ok()
    }
}

/// The parts of a text of the form `-?(0|[1-9][0-9]*)(\.[0-9]+)?`.
struct Written<'a> {
    is_negative: bool,
    integer: &'a str,
    fraction: &'a str,
}

impl<'a> Written<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let digits = text.strip_prefix('-');
        let is_negative = digits.is_some();
        let digits = digits.unwrap_or(text);
        let (integer, fraction) = match digits.split_once('.') {
            Some((_, "")) => return None,
            Some(pieces) => pieces,
            None => (digits, ""),
        };
        let only_digits = integer
            .bytes()
            .chain(fraction.bytes())
            .all(|byte| byte.is_ascii_digit());
        let well_started = integer == "0" || !(integer.is_empty() || integer.starts_with('0'));
        (only_digits && well_started).then_some(Written {
            is_negative,
            integer,
            fraction,
        })
    }

    /// The amount. `None` if the digits as written do not fit.
    fn amount(&self) -> Option<Amount> {
        let scale = u32::try_from(self.fraction.len())
            .ok()
            .filter(|scale| *scale <= SCALE_MAX)?;
        let mut digits = self.integer.bytes().chain(self.fraction.bytes());
        let mantissa = digits.try_fold(0_u128, |mantissa, digit| {
            let longer = mantissa * 10 + u128::from(digit.saturating_sub(b'0'));
            (longer <= MANTISSA_MAX).then_some(longer)
        })?;
        let mantissa = i128::try_from(mantissa).ok()?;
        from_parts(
            if self.is_negative {
                -mantissa
            } else {
                mantissa
            },
            scale,
        )
    }
}

fn printed(text: &str) -> String {
    text.chars()
        .flat_map(char::escape_debug)
        .take(PRINTED_CHARS_MAX)
        .collect()
}

impl fmt::Display for Amount {
    /// Width, fill and sign flags apply; a precision is ignored, because it would round.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad_integral(
            !self.is_negative(),
            "",
            self.abs().text(&mut [0; TEXT_BYTES_MAX]),
        )
    }
}

impl Ord for Amount {
    #[inline]
    fn cmp(&self, other: &Amount) -> Ordering {
        match short_mantissas(*self, *other) {
            Some((left, right, _)) => left.cmp(&right),
            None => self.0.cmp(&other.0),
        }
    }
}

impl PartialOrd for Amount {
    #[inline]
    fn partial_cmp(&self, other: &Amount) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Neg for Amount {
    type Output = Amount;

    fn neg(self) -> Amount {
        if self.is_zero() {
            self
        } else {
            Amount(-self.0)
        }
    }
}

impl From<u32> for Amount {
    fn from(whole: u32) -> Amount {
        Amount(Decimal::from(whole))
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; TEXT_BYTES_MAX]))
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        struct LedgerForm;

        impl Visitor<'_> for LedgerForm {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount as a string, such as \"1234.25\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
                Amount::parse_exact(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(LedgerForm)
    }
}

/// Amounts in requests: JSON numbers or strings, read from their text, so that no digit passes
/// through an f64.
///
/// These functions work only while serde_json reads from a `str` or a slice. They deliberately fail
/// on a `serde_json::Value`, on a reader, and inside internally tagged, untagged or flattened
/// types: there a number has already become an f64.
pub mod wire {
    use super::{Amount, AmountError, printed};
    use serde::de::{Deserialize, Deserializer, Error};
    use serde_json::value::RawValue;

    /// For `deserialize_with`: reads a JSON number or string with [`Amount::parse_wire`].
    ///
    /// # Errors
    /// Returns an error that shows the form for everything else, including null, true and
    /// exponents.
    pub fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        from_json_text(raw.get()).map_err(D::Error::custom)
    }

    /// For `deserialize_with` together with `default`: as [`required`], but the field may be
    /// absent. Null is refused.
    ///
    /// # Errors
    /// As [`required`].
    pub fn optional<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Amount>, D::Error> {
        required(deserializer).map(Some)
    }

    /// For `deserialize_with`: as [`required`], but null is none.
    ///
    /// # Errors
    /// As [`required`].
    pub fn nullable<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Amount>, D::Error> {
        match <&RawValue>::deserialize(deserializer)?.get() {
            "null" => Ok(None),
            json => from_json_text(json).map(Some).map_err(D::Error::custom),
        }
    }

    fn from_json_text(json: &str) -> Result<Amount, AmountError> {
        match json
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'))
        {
            None => Amount::parse_wire(json),
            Some(text) if !text.contains('\\') => Amount::parse_wire(text),
            Some(_) => {
                let not_wire = |_| AmountError::NotWire {
                    text: printed(json),
                };
                Amount::parse_wire(&serde_json::from_str::<String>(json).map_err(not_wire)?)
            }
        }
    }
}

/// Amounts in rule files: YAML strings and numbers, read from their literal text.
///
/// A bare number keeps all its digits (`1.10` stays `1.10`), and YAML's other spellings of numbers,
/// such as `0x10` and `1e3`, are refused.
pub mod yaml {
    use super::Amount;
    use serde::de::{Deserializer, Error, Visitor};
    use std::fmt;

    /// For `deserialize_with`: reads a string or number with [`Amount::parse_wire`].
    ///
    /// # Errors
    /// Returns an error for every other text or type, including null.
    pub fn required<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        deserializer.deserialize_str(Bare)
    }

    /// For `deserialize_with` together with `default`: as [`required`], but the field may be
    /// absent. Null is refused.
    ///
    /// # Errors
    /// As [`required`].
    pub fn optional<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Amount>, D::Error> {
        required(deserializer).map(Some)
    }

    /// Reads the literal text of a rule file: if a string is requested, the YAML reader passes on a
    /// bare number's own characters. So no digit passes through a float, and `1e3`, `0x10` and
    /// `null` reach the parser as they are.
    struct Bare;

    impl Visitor<'_> for Bare {
        type Value = Amount;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an amount such as 12, -0.5 or \"1234.25\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
            Amount::parse_wire(text).map_err(E::custom)
        }
    }
}

#[cfg(test)]
mod tests;
