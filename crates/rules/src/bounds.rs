//! Numbers with bounds. A field's type says what its values may be; check, message and JSON Schema
//! follow from the type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use spoolgate_wire::amount::Amount;

#[cfg(feature = "schema")]
mod schema;

/// Decimal places of amounts in rule files.
const PLACES: u32 = 10;

/// 1 in the unit of the bounds of [`Within`], which is the finest step of an amount in a rule file.
pub const ONE: i128 = 10_i128.pow(PLACES);

/// The least amount above 0.
const ABOVE_0: i128 = 1;

/// The largest amount below 1.
const BELOW_1: i128 = ONE - 1;

/// The largest amount of a rule file: 12 digits before the point.
const LARGEST: i128 = 1_000_000_000_000 * ONE - 1;

/// An amount of a rule file from `MIN` to `MAX`, both in units of 10^-10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Within<const MIN: i128, const MAX: i128>(Amount);

/// An amount above 0.
pub type Positive = Within<ABOVE_0, LARGEST>;
/// An amount that is not below 0.
pub type NotNegative = Within<0, LARGEST>;
/// A fraction above 0 and at most 1.
pub type Fraction = Within<ABOVE_0, ONE>;
/// A fraction above 0 and below 1.
pub type ProperFraction = Within<ABOVE_0, BELOW_1>;
/// A fraction from 0 to below 1, such as an assumed slippage.
pub type Slippage = Within<0, BELOW_1>;
/// A fraction from 0 to 1.
pub type Share = Within<0, ONE>;
/// Any amount that a rule file can hold.
pub type AnyAmount = Within<{ -LARGEST }, LARGEST>;

/// A whole number from `MIN` to `MAX`, kept as a `T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bounded<const MIN: u32, const MAX: u32, T = u32>(T);

/// A whole number from `MIN` up.
pub type AtLeast<const MIN: u32> = Bounded<MIN, { u32::MAX }>;

/// A whole number of 64 bits from `MIN` to `MAX`, at most as large as a number of a ledger line may
/// be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count<const MIN: u64, const MAX: u64 = { i64::MAX.unsigned_abs() }>(u64);

/// A value outside the bounds of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is `{value}`; use {permitted}")]
pub struct OutOfBounds {
    value: String,
    permitted: String,
}

impl OutOfBounds {
    fn new(value: impl fmt::Display, permitted: impl fmt::Display) -> OutOfBounds {
        OutOfBounds {
            value: value.to_string(),
            permitted: permitted.to_string(),
        }
    }

    /// Returns the error for a whole number that may be from 1 to `most` here, although its type
    /// permits more.
    pub(crate) fn above(value: u32, most: u32) -> OutOfBounds {
        OutOfBounds::new(value, format!("a whole number from 1 to {most}"))
    }
}

impl<const MIN: i128, const MAX: i128> Within<MIN, MAX> {
    /// Returns the amount.
    pub const fn get(self) -> Amount {
        self.0
    }

    /// Returns the least amount that the bounds permit.
    pub fn least() -> Self {
        Within(amount_of(MIN))
    }

    /// Returns the amount of `UNITS`, which is a default value. It does not compile if it is out of
    /// bounds.
    pub fn usual<const UNITS: i128>() -> Self {
        const { assert!(MIN <= UNITS && UNITS <= MAX) }
        Within(amount_of(UNITS))
    }

    fn permitted() -> String {
        let amount = if MIN >= 0 && MAX <= ONE {
            "a fraction"
        } else {
            "an amount"
        };
        let least = match MIN {
            ABOVE_0 => "above 0".to_owned(),
            _ => format!("from {}", amount_of(MIN)),
        };
        let (and, most) = match (MIN, MAX) {
            (0, LARGEST) => return format!("{amount} that is not below 0"),
            (_, LARGEST) => ("", String::new()),
            (ABOVE_0, BELOW_1) => (" and ", "below 1".to_owned()),
            (_, BELOW_1) => (" to ", "below 1".to_owned()),
            (ABOVE_0, _) => (" and ", format!("at most {}", amount_of(MAX))),
            _ => (" to ", amount_of(MAX).to_string()),
        };
        format!("{amount} {least}{and}{most}")
    }
}

/// Returns the amount of so many units, without trailing zeros.
fn amount_of(units: i128) -> Amount {
    let (sign, size) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
    let one = ONE.unsigned_abs();
    let text = format!("{sign}{}.{:010}", size / one, size % one);
    Amount::parse_exact(&text)
        .unwrap_or(Amount::ZERO)
        .normalized()
}

/// Returns how many units an amount is, or `None` if it is finer or larger than in a rule file.
fn units_of(amount: Amount) -> Option<i128> {
    let decimal = amount.normalized().decimal();
    let finer = PLACES.checked_sub(decimal.scale())?;
    decimal.mantissa().checked_mul(10_i128.pow(finer))
}

impl<const MIN: i128, const MAX: i128> TryFrom<Amount> for Within<MIN, MAX> {
    type Error = OutOfBounds;

    fn try_from(value: Amount) -> Result<Self, OutOfBounds> {
        match units_of(value) {
            Some(units) if (MIN..=MAX).contains(&units) => Ok(Within(value)),
            _ => Err(OutOfBounds::new(value, Self::permitted())),
        }
    }
}

impl<const MIN: i128, const MAX: i128> Deref for Within<MIN, MAX> {
    type Target = Amount;

    fn deref(&self) -> &Amount {
        &self.0
    }
}

impl<const MIN: i128, const MAX: i128> From<Within<MIN, MAX>> for Amount {
    fn from(value: Within<MIN, MAX>) -> Amount {
        value.0
    }
}

impl<const MIN: i128, const MAX: i128> fmt::Display for Within<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: i128, const MAX: i128> Serialize for Within<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MIN: i128, const MAX: i128> Deserialize<'de> for Within<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<const MIN: i128, const MAX: i128>;

        impl<const MIN: i128, const MAX: i128> Visitor<'_> for Text<MIN, MAX> {
            type Value = Within<MIN, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&Within::<MIN, MAX>::permitted())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                let amount = Amount::parse_wire(text).map_err(E::custom)?;
                amount.try_into().map_err(E::custom)
            }
        }

        // The YAML reader passes on a bare number's own characters if a string is requested, so no
        // digit passes through a float. See `spoolgate_wire::amount::yaml`.
        deserializer.deserialize_str(Text)
    }
}

impl<const MIN: u32, const MAX: u32> Bounded<MIN, MAX> {
    /// Returns `VALUE`, which is a default value. It does not compile if it is out of bounds.
    pub const fn usual<const VALUE: u32>() -> Self {
        const { assert!(MIN <= VALUE && VALUE <= MAX) }
        Bounded(VALUE)
    }
}

impl<const MIN: u32, const MAX: u32, T: From<u32>> Bounded<MIN, MAX, T> {
    /// Returns the least number that the bounds permit.
    pub fn least() -> Self {
        Bounded(MIN.into())
    }
}

impl<const MIN: u32, const MAX: u32, T: Copy> Bounded<MIN, MAX, T> {
    /// Returns the number.
    pub const fn get(self) -> T {
        self.0
    }
}

impl<const MIN: u32, const MAX: u32, T: TryFrom<u64> + Copy> TryFrom<u64> for Bounded<MIN, MAX, T> {
    type Error = OutOfBounds;

    fn try_from(value: u64) -> Result<Self, OutOfBounds> {
        let is_within = (u64::from(MIN)..=u64::from(MAX)).contains(&value);
        let number = T::try_from(value).ok().filter(|_| is_within);
        number
            .map(Bounded)
            .ok_or_else(|| match u32::try_from(value) {
                Ok(_) => OutOfBounds::new(value, permitted::<MIN, MAX>()),
                Err(_) => OutOfBounds::new(value, format!("a whole number from {MIN} to {MAX}")),
            })
    }
}

fn permitted<const MIN: u32, const MAX: u32>() -> String {
    match MAX {
        u32::MAX => format!("a whole number from {MIN}"),
        _ => format!("a whole number from {MIN} to {MAX}"),
    }
}

impl<const MIN: u32, const MAX: u32, T> Deref for Bounded<MIN, MAX, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<const MIN: u32, const MAX: u32, T: fmt::Display> fmt::Display for Bounded<MIN, MAX, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u32, const MAX: u32, T: Serialize> Serialize for Bounded<MIN, MAX, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MIN: u32, const MAX: u32, T> Deserialize<'de> for Bounded<MIN, MAX, T>
where
    T: TryFrom<u64> + Copy,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Whole::new(permitted::<MIN, MAX>()))
    }
}

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// Returns `VALUE`, which is a default value. It does not compile if it is out of bounds.
    pub const fn usual<const VALUE: u64>() -> Self {
        const { assert!(MIN <= VALUE && VALUE <= MAX) }
        Count(VALUE)
    }

    /// Returns the number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> TryFrom<u64> for Count<MIN, MAX> {
    type Error = OutOfBounds;

    fn try_from(value: u64) -> Result<Self, OutOfBounds> {
        if (MIN..=MAX).contains(&value) {
            Ok(Count(value))
        } else {
            Err(OutOfBounds::new(value, Self::permitted()))
        }
    }
}

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    fn permitted() -> String {
        format!("a whole number from {MIN} to {MAX}")
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Count<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Count<MIN, MAX> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(Whole::new(Self::permitted()))
    }
}

/// Reads a whole number. It checks the bounds itself, because the YAML reader adds key and line to
/// errors of a visitor only.
struct Whole<T> {
    permitted: String,
    of: PhantomData<T>,
}

impl<T> Whole<T> {
    fn new(permitted: String) -> Whole<T> {
        Whole {
            permitted,
            of: PhantomData,
        }
    }
}

impl<T: TryFrom<u64, Error = OutOfBounds>> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.permitted)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        value.try_into().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::DeserializeOwned;

    /// Asserts what the type does with each value: `Ok`, or what it permits instead.
    fn check<T: DeserializeOwned + fmt::Display>(values: &[(&str, Result<(), &str>)]) {
        for (text, expected) in values {
            let read = crate::yaml::read::<std::collections::BTreeMap<String, T>>(
                "f",
                &format!("limit: {text}"),
            );
            let said = read
                .map(|map| map["limit"].to_string())
                .map_err(|error| error.to_string());
            let expected = match expected {
                Ok(()) => Ok((*text).to_owned()),
                Err(permitted) => Err(format!("f:1: `limit` is `{text}`; use {permitted}")),
            };
            assert_eq!(said, expected);
        }
    }

    const UNIT: &str = "0.0000000001";
    const BELOW: &str = "0.9999999999";
    const ABOVE: &str = "1.0000000001";
    const MOST: &str = "999999999999.9999999999";

    #[test]
    fn the_bounds_of_amounts_are_exact_to_one_unit() {
        let limits = "an amount above 0";
        check::<Positive>(&[
            ("0", Err(limits)),
            (UNIT, Ok(())),
            (MOST, Ok(())),
            ("-1", Err(limits)),
        ]);
        let limits = "an amount that is not below 0";
        check::<NotNegative>(&[
            ("-0.0000000001", Err(limits)),
            ("0", Ok(())),
            (MOST, Ok(())),
        ]);
        let limits = "a fraction above 0 and at most 1";
        check::<Fraction>(&[
            ("0", Err(limits)),
            (UNIT, Ok(())),
            ("1.0", Ok(())),
            (ABOVE, Err(limits)),
        ]);
        let limits = "a fraction above 0 and below 1";
        check::<ProperFraction>(&[("0", Err(limits)), (UNIT, Ok(())), (BELOW, Ok(()))]);
        check::<ProperFraction>(&[("1", Err(limits)), ("-0.5", Err(limits))]);
        let limits = "a fraction from 0 to below 1";
        check::<Slippage>(&[
            ("-0.0000000001", Err(limits)),
            ("0", Ok(())),
            (BELOW, Ok(())),
        ]);
        check::<Slippage>(&[("1", Err(limits))]);
        let limits = "a fraction from 0 to 1";
        check::<Share>(&[("-0.0000000001", Err(limits)), ("0", Ok(())), ("1", Ok(()))]);
        check::<Share>(&[(ABOVE, Err(limits))]);
        let limits = "an amount from -2 to 0.5";
        type Odd = Within<{ -2 * ONE }, { ONE / 2 }>;
        check::<Odd>(&[
            ("-2.0000000001", Err(limits)),
            ("-2", Ok(())),
            ("0.5", Ok(())),
        ]);
        check::<Odd>(&[("0.5000000001", Err(limits))]);
        check::<AnyAmount>(&[
            (MOST, Ok(())),
            ("-999999999999.9999999999", Ok(())),
            ("0", Ok(())),
        ]);
    }

    #[test]
    fn an_amount_one_unit_beyond_the_largest_does_not_have_the_form() {
        for beyond in ["1000000000000", "-1000000000000"] {
            let error = crate::yaml::read::<AnyAmount>("f", beyond).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains(&format!("`{beyond}` is not an amount")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_bounds_of_whole_numbers_are_exact() {
        let limits = "a whole number from 2 to 5";
        check::<Bounded<2, 5>>(&[
            ("1", Err(limits)),
            ("2", Ok(())),
            ("5", Ok(())),
            ("6", Err(limits)),
        ]);
        check::<Bounded<2, 5>>(&[
            ("4294967296", Err(limits)),
            ("18446744073709551615", Err(limits)),
        ]);
        check::<Bounded<0, 100, u8>>(&[("0", Ok(())), ("100", Ok(()))]);
        let limits = "a whole number from 0 to 100";
        check::<Bounded<0, 100, u8>>(&[("101", Err(limits)), ("256", Err(limits))]);
        let limits = "a whole number from 1";
        check::<Bounded<1, { u32::MAX }>>(&[("0", Err(limits)), ("4294967295", Ok(()))]);
        let limits = "a whole number from 1 to 4294967295";
        check::<AtLeast<1>>(&[("4294967296", Err(limits))]);
        let limits = "a whole number from 1 to 9223372036854775807";
        check::<Count<1>>(&[
            ("0", Err(limits)),
            ("1", Ok(())),
            ("9223372036854775807", Ok(())),
        ]);
        check::<Count<1>>(&[("9223372036854775808", Err(limits))]);
    }

    #[test]
    fn other_types_are_refused_with_what_is_permitted() {
        for (text, expected) in [
            (
                "5m",
                "f:1: invalid type: string \"5m\", expected a whole number from 1 to 9",
            ),
            (
                "-1",
                "f:1: invalid type: integer `-1`, expected a whole number from 1 to 9",
            ),
            (
                "1.5",
                "f:1: invalid type: floating point `1.5`, expected a whole number from 1 to 9",
            ),
        ] {
            let error = crate::yaml::read::<Bounded<1, 9>>("f", text).unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
