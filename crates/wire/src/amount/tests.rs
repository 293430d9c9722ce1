//! Tests of `wire::amount`.

use super::*;
use num_bigint::{BigInt, Sign};
use proptest::prelude::*;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

const LARGEST: &str = "79228162514264337593543950335";

fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).expect(text)
}

#[test]
fn wire_form() {
    for (text, shown) in [
        ("0", "0"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        ("7", "7"),
        ("-1.10", "-1.10"),
        ("0.0000000001", "0.0000000001"),
        ("999999999999.9999999999", "999999999999.9999999999"),
        ("-999999999999", "-999999999999"),
    ] {
        assert_eq!(Amount::parse_wire(text).unwrap().to_string(), shown);
    }
    for text in [
        "",
        "-",
        "--1",
        "+1",
        ".",
        ".5",
        "1.",
        "-.5",
        "01",
        "00",
        "-01",
        "00.5",
        "1e3",
        "1E3",
        "1.0e0",
        "1_000",
        "1,5",
        "1.2.3",
        "1.-2",
        "NaN",
        "nan",
        "inf",
        "-Infinity",
        "0x10",
        " 1",
        "1 ",
        "1\n",
        "1\0",
        "١",
        "１",
        "1.٢",
        "−1",
        "null",
        "true",
        "1000000000000",
        "-1000000000000.0",
        "0.00000000001",
        "0.00000000000",
    ] {
        let error = Amount::parse_wire(text).unwrap_err();
        assert!(matches!(error, AmountError::NotWire { .. }), "{text}");
    }
    assert_eq!(
        Amount::parse_wire("\u{1b}[1e3").unwrap_err().to_string(),
        "`\\u{1b}[1e3` is not an amount: the form is -?(0|[1-9][0-9]{0,11})(\\.[0-9]{1,10})?, \
            such as 12, -0.5 or 1234.25"
    );
}

#[test]
fn exact_form() {
    let most_places = format!("-0.{}1", "0".repeat(27));
    let largest_places = format!("7.{}", &LARGEST[1..]);
    for text in [
        "0",
        "1.10",
        "-12.50",
        LARGEST,
        "1000000000000.00000000001",
        &most_places,
        &largest_places,
    ] {
        assert_eq!(amount(text).to_string(), text);
    }
    assert_eq!(amount("-0.0").to_string(), "0.0");
    let over = "79228162514264337593543950336";
    let long = "9".repeat(1_000_000);
    for text in [
        over,
        "7.9228162514264337593543950336",
        &format!("0.{}", "0".repeat(29)),
        &long,
    ] {
        assert!(matches!(
            Amount::parse_exact(text),
            Err(AmountError::OutOfRange { .. })
        ));
    }
    for text in [
        "", "-", "+1", ".5", "1.", "01", "1e3", "1_000", "NaN", "١", "1 ", "1.2.3",
    ] {
        assert!(
            matches!(Amount::parse_exact(text), Err(AmountError::NotExact { .. })),
            "{text}"
        );
    }
    assert!(Amount::parse_exact(&long).unwrap_err().to_string().len() < 120);
}

/// Digits are taken off a mantissa in 64-bit parts: try every length, with zeros and nines at the
/// boundary.
#[test]
fn texts_of_every_length() {
    for digits in 1..=28_usize {
        let tens = format!("1{}", "0".repeat(digits));
        let nines = "9".repeat(digits);
        for whole in [
            &tens,
            &nines,
            &"18446744073709551615".to_owned(),
            &"18446744073709551616".to_owned(),
        ] {
            for scale in 0..=28 {
                let mantissa: i128 = whole.parse().unwrap();
                let Some(value) = from_parts(mantissa, scale) else {
                    continue;
                };
                for value in [value, -value] {
                    assert_eq!(value.to_string(), value.decimal().to_string());
                    assert_eq!(
                        serde_json::to_string(&value).unwrap(),
                        format!("\"{}\"", value.decimal())
                    );
                }
            }
        }
    }
}

#[test]
fn printing_and_signs() {
    assert_eq!(
        format!(
            "[{:>8}|{:<8}|{:+}|{:.1}]",
            amount("-1.10"),
            amount("1.10"),
            amount("1"),
            amount("1.19")
        ),
        "[   -1.10|1.10    |+1|1.19]"
    );
    assert_eq!((-Amount::ZERO).to_string(), "0");
    assert_eq!((-amount("0.0")).abs().to_string(), "0.0");
    assert_eq!(
        amount("5").checked_sub(amount("5.00")).unwrap().to_string(),
        "0.00"
    );
    assert_eq!(
        amount("-5").checked_mul(amount("0.0")).unwrap().to_string(),
        "0.0"
    );
    assert_eq!(amount("-1200.500").normalized().to_string(), "-1200.5");
    assert_eq!(amount("0.000").normalized().to_string(), "0");
    assert_eq!(
        Amount::from_i64(i64::MIN).to_string(),
        "-9223372036854775808"
    );
    assert_eq!(Amount::from(7_u32), amount("7.0"));
    for (text, zero, positive, negative) in [
        ("0.0", true, false, false),
        ("0.1", false, true, false),
        ("-0.1", false, false, true),
    ] {
        let value = amount(text);
        assert_eq!(
            (value.is_zero(), value.is_positive(), value.is_negative()),
            (zero, positive, negative)
        );
    }
    assert_eq!(
        amount("1.5").max(Amount::ONE).min(amount("1.25")),
        amount("1.25")
    );
}

#[test]
fn arithmetic_is_exact_or_none() {
    let tiny = "0.0000000000000000000000000001";
    let shown = |value: Option<Amount>| value.map(|value| value.to_string());
    for (left, right, sum, product) in [
        ("1.10", "2.2", Some("3.30"), Some("2.420")),
        (LARGEST, "1", None, Some(LARGEST)),
        (
            LARGEST,
            "0.0000000000000000000000000000",
            Some(LARGEST),
            Some("0.0000000000000000000000000000"),
        ),
        (LARGEST, "0.1", None, Some("7922816251426433759354395033.5")),
        (LARGEST, tiny, None, Some("7.9228162514264337593543950335")),
        (tiny, tiny, Some("0.0000000000000000000000000002"), None),
        (
            tiny,
            "10000000000000000000000000000",
            None,
            Some("1.0000000000000000000000000000"),
        ),
        // 2^90 and 5^38 / 10^28: the product needs 178 bits before the zeros that 2 and 5 make are
        // stripped.
        (
            "1237940039285380274899124224",
            "0.0363797880709171295166015625",
            None,
            Some("45035996273704960000000000"),
        ),
    ] {
        assert_eq!(
            shown(amount(left).checked_add(amount(right))).as_deref(),
            sum,
            "{left} + {right}"
        );
        assert_eq!(
            shown(amount(left).checked_mul(amount(right))).as_deref(),
            product,
            "{left} * {right}"
        );
    }
}

#[test]
fn steps_and_ratios() {
    for (value, step, down, up, count) in [
        ("1.27", "0.05", "1.25", "1.30", Some(25)),
        ("-1.27", "0.05", "-1.30", "-1.25", None),
        ("0.3", "0.1", "0.3", "0.3", Some(3)),
        ("0", "7", "0", "0", Some(0)),
        ("3", "7", "0", "7", Some(0)),
        ("-3", "7", "-7", "0", None),
        ("100", "0.3", "99.9", "100.2", Some(333)),
        (LARGEST, "1", LARGEST, LARGEST, None),
    ] {
        let (value, step) = (amount(value), amount(step));
        assert_eq!(value.round_down_to(step).unwrap(), amount(down));
        assert_eq!(value.round_up_to(step).unwrap(), amount(up));
        assert_eq!(value.div_floor_count(step), count);
    }
    assert_eq!(amount("1.3").is_multiple_of(amount("0.05")), Some(true));
    assert_eq!(amount("1.3").is_multiple_of(Amount::ZERO), None);
    assert_eq!(Amount::ONE.round_up_to(amount("0.0")), None);
    assert_eq!(Amount::ONE.div_floor_count(-Amount::ONE), None);
    assert_eq!(
        amount("18446744073709551615.9").div_floor_count(Amount::ONE),
        Some(u64::MAX)
    );
    assert_eq!(amount("1.001").round_dp_up(2).to_string(), "1.01");
    assert_eq!(amount("-1.001").round_dp_up(2).to_string(), "-1.01");
    assert_eq!(amount("1.1").round_dp_up(40).to_string(), "1.1");
    for (left, right, ratio) in [
        ("1", "3", "0.333333"),
        ("-2", "3", "-0.666666"),
        ("2", "-0.5", "-4.000000"),
        ("-0.0000001", "1", "0.000000"),
        ("1234.5", "1", "1234.500000"),
        ("0.0000000000000000000000000001", LARGEST, "0.000000"),
    ] {
        assert_eq!(
            amount(left).ratio_display(amount(right)).as_deref(),
            Some(ratio)
        );
    }
    assert_eq!(Amount::ONE.ratio_display(Amount::ZERO), None);
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(deserialize_with = "wire::required")]
    size: Amount,
    #[serde(default, deserialize_with = "wire::optional")]
    limit: Option<Amount>,
}

// These types only have to fail to deserialise, so nothing reads their fields.
#[derive(Debug, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
enum Tagged {
    Order {
        #[serde(rename = "size", deserialize_with = "wire::required")]
        _size: Amount,
    },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Order {
        #[serde(rename = "size", deserialize_with = "wire::required")]
        _size: Amount,
    },
}

#[derive(Debug, Deserialize)]
struct Flattened {
    #[serde(flatten)]
    _order: Request,
}

#[test]
fn requests_are_read_from_their_text() {
    for (json, size, limit) in [
        (r#"{"size":1.10}"#, "1.10", None),
        (
            r#"{"size": 999999999999.9999999999 ,"limit":"0.30"}"#,
            "999999999999.9999999999",
            Some("0.30"),
        ),
        (r#"{"size":"\u0031.\u0030","limit":-0}"#, "1.0", Some("0")),
    ] {
        for request in [
            serde_json::from_str::<Request>(json),
            serde_json::from_slice(json.as_bytes()),
        ] {
            let request = request.unwrap();
            assert_eq!(request.size.to_string(), size);
            assert_eq!(
                request.limit.map(|limit| limit.to_string()).as_deref(),
                limit
            );
        }
    }
    for bad in [
        "null",
        "true",
        "[]",
        "[1]",
        "{}",
        "1e3",
        "1E0",
        "1.0e-2",
        "12345678901234",
        "\"\"",
        "\"null\"",
        "\" 1\"",
        "\"1e3\"",
        "\"+1\"",
        "\"\\u002b1\"",
        "\"\\\"1\"",
        "\"\\n\"",
        "0.00000000001",
    ] {
        for json in [
            format!(r#"{{"size":{bad}}}"#),
            format!(r#"{{"size":1,"limit":{bad}}}"#),
        ] {
            let error = serde_json::from_str::<Request>(&json)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("is not an amount: the form is -?(0|[1-9]"),
                "{json}: {error}"
            );
        }
    }
    let error = serde_json::from_str::<Request>("{}")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("missing field `size`"), "{error}");
    // A Value already holds an f64 and a reader cannot lend its text: both must fail rather than
    // lose digits.
    assert!(serde_json::from_value::<Request>(serde_json::json!({"size": 1.5})).is_err());
    assert!(serde_json::from_reader::<_, Request>(&br#"{"size":1.5}"#[..]).is_err());
    assert!(serde_json::from_str::<Tagged>(r#"{"action":"order","size":"1.5"}"#).is_err());
    assert!(serde_json::from_str::<Untagged>(r#"{"size":"1.5"}"#).is_err());
    assert!(serde_json::from_str::<Flattened>(r#"{"size":"1.5"}"#).is_err());
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(deserialize_with = "yaml::required")]
    max: Amount,
    #[serde(default, deserialize_with = "yaml::optional")]
    min: Option<Amount>,
}

fn rule(scalar: &str) -> Result<String, String> {
    let required =
        serde_yaml::from_str::<Rule>(&format!("max: {scalar}\n")).map(|rule| rule.max.to_string());
    let optional = serde_yaml::from_str::<Rule>(&format!("max: 1\nmin: {scalar}\n"))
        .map(|rule| rule.min.expect("min was given").to_string());
    assert_eq!(required.is_ok(), optional.is_ok(), "{scalar}");
    required.map_err(|error| error.to_string())
}

#[test]
fn rule_files_are_read_without_losing_digits() {
    for (scalar, shown) in [
        ("5", "5"),
        ("-5", "-5"),
        ("0.05", "0.05"),
        ("'1.10'", "1.10"),
        ("1.10", "1.10"),
        ("-0.0", "0.0"),
        ("12345678901.2345", "12345678901.2345"),
        ("'123456789012.3456789012'", "123456789012.3456789012"),
        ("123456789012.3456789012", "123456789012.3456789012"),
        ("999999999999", "999999999999"),
        ("0.0000000001", "0.0000000001"),
    ] {
        assert_eq!(rule(scalar).as_deref(), Ok(shown), "{scalar}");
    }
    for scalar in [
        "null",
        "~",
        "",
        "'null'",
        "1000000000000",
        "'123456789012345.6789'",
        "18446744073709551616",
        "1e300",
        ".nan",
        ".inf",
        "0.00000000001",
        "'1e3'",
        "'+5'",
        "'010'",
        "'1_000'",
        "1_000",
        "123456789012345.6789",
        "100.00000000000000001",
        "0x10",
        "0o17",
        "0b11",
        "+5",
        ".5",
        "5.",
        "00.5",
        "010",
        "1e3",
        "1.5e-3",
        "true",
        "abc",
        "''",
    ] {
        let error = rule(scalar).unwrap_err();
        assert!(error.contains("is not an amount"), "{scalar}: {error}");
    }
    for scalar in ["[1]", "{a: 1}"] {
        let error = rule(scalar).unwrap_err();
        assert!(
            error.contains("expected an amount such as"),
            "{scalar}: {error}"
        );
    }
    assert!(
        serde_yaml::from_str::<Rule>("max: 1")
            .unwrap()
            .min
            .is_none()
    );
    assert!(
        serde_yaml::from_str::<Rule>("min: 1")
            .unwrap_err()
            .to_string()
            .contains("missing field `max`")
    );
}

#[test]
fn ledger_form_is_strings_only() {
    assert_eq!(serde_json::to_string(&amount("1.10")).unwrap(), "\"1.10\"");
    assert_eq!(
        serde_json::from_str::<Amount>("\"1234567890123.00\"")
            .unwrap()
            .to_string(),
        "1234567890123.00"
    );
    for json in [
        "1", "1.5", "null", "true", "\"1e3\"", "\"\"", "\"+1\"", "[\"1\"]",
    ] {
        assert!(serde_json::from_str::<Amount>(json).is_err(), "{json}");
    }
}

// The oracle: value = mantissa / 10^scale on big integers.

fn big(value: Amount) -> (BigInt, u32) {
    (BigInt::from(value.decimal().mantissa()), value.scale())
}

fn ten(power: u32) -> BigInt {
    BigInt::from(10).pow(power)
}

fn is_nothing(number: &BigInt) -> bool {
    number.sign() == Sign::NoSign
}

/// The operands' mantissas at their common scale.
fn aligned(left: Amount, right: Amount) -> (BigInt, BigInt, u32) {
    let ((left, left_scale), (right, right_scale)) = (big(left), big(right));
    let scale = left_scale.max(right_scale);
    (
        left * ten(scale - left_scale),
        right * ten(scale - right_scale),
        scale,
    )
}

fn floor_div(number: &BigInt, by: &BigInt) -> BigInt {
    let quotient = number / by;
    if !is_nothing(&(number % by)) && (number.sign() == Sign::Minus) != (by.sign() == Sign::Minus) {
        quotient - 1
    } else {
        quotient
    }
}

/// `got` must be the value if an amount can represent it, and `None` otherwise.
fn must_be(got: Option<Amount>, mut mantissa: BigInt, mut scale: u32) -> Result<(), TestCaseError> {
    while scale > 0 && is_nothing(&(&mantissa % BigInt::from(10))) {
        mantissa /= 10;
        scale -= 1;
    }
    let fits = *mantissa.magnitude() <= MANTISSA_MAX.into() && scale <= SCALE_MAX;
    prop_assert_eq!(got.is_some(), fits, "{:?} for {}e-{}", got, mantissa, scale);
    if let Some(got) = got {
        let (got_mantissa, got_scale) = big(got);
        prop_assert_eq!(got_mantissa * ten(scale), mantissa * ten(got_scale));
        prop_assert!(!got.to_string().starts_with("-0") || got.is_negative());
        prop_assert!(!got.is_zero() || !got.decimal().is_sign_negative());
    }
    Ok(())
}

fn arb_amount() -> impl Strategy<Value = Amount> {
    let mantissa = prop_oneof![
        2 => 0..1_000_i128,
        2 => 0..=MANTISSA_MAX as i128,
        1 => (MANTISSA_MAX as i128 - 20)..=MANTISSA_MAX as i128,
        2 => (0..96_usize, 0..42_usize, 1..100_i128).prop_map(|(twos, fives, odd)| {
            // Multiply by as many of the factors as fit.
            let factors = [2].repeat(twos).into_iter().chain([5].repeat(fives));
            factors.fold(odd, |product, factor| {
                let longer = product * factor;
                if longer.unsigned_abs() <= MANTISSA_MAX { longer } else { product }
            })
        }),
        1 => (0..29_u32).prop_map(|power| 10_i128.pow(power)),
        1 => (0..96_u32).prop_map(|power| 1_i128 << power),
        // Around the limit of 64 bits, where the arithmetic switches to another path.
        1 => (-2..3_i128).prop_map(|beside| i128::from(i64::MAX) + beside),
        1 => (0..42_u32).prop_map(|power| 5_i128.pow(power)),
    ];
    (
        mantissa,
        any::<bool>(),
        prop_oneof![0..4_u32, 0..=SCALE_MAX],
    )
        .prop_map(|(mantissa, negative, scale)| {
            from_parts(if negative { -mantissa } else { mantissa }, scale).expect("it fits")
        })
}

/// Both paths must agree on every pair of numbers around the limits of 63 and 64 bits.
#[test]
fn the_quick_way_and_the_other_meet() {
    assert!(
        TENS.iter()
            .zip(0..)
            .all(|(ten, places)| *ten == 10_i64.pow(places))
    );
    let beside = |whole: i128| (-2..3).map(move |by| whole + by);
    let mantissas: Vec<i128> = [
        0,
        i128::from(i64::MAX),
        i128::from(u64::MAX),
        1_000_000_000_000_000_000,
    ]
    .into_iter()
    .flat_map(beside)
    .flat_map(|mantissa| [mantissa, -mantissa])
    .collect();
    for (left, right) in mantissas
        .iter()
        .flat_map(|left| mantissas.iter().map(move |right| (*left, *right)))
    {
        for (left_scale, right_scale) in [(0, 0), (0, 1), (18, 0), (19, 0), (0, 28), (10, 9)] {
            let (a, b) = (
                from_parts(left, left_scale).unwrap(),
                from_parts(right, right_scale).unwrap(),
            );
            let (a_big, b_big, scale) = aligned(a, b);
            must_be(a.checked_add(b), &a_big + &b_big, scale).unwrap();
            must_be(a.checked_sub(b), &a_big - &b_big, scale).unwrap();
            let product = BigInt::from(left) * BigInt::from(right);
            must_be(a.checked_mul(b), product, left_scale + right_scale).unwrap();
            assert_eq!((a.is_positive(), a.is_negative()), (left > 0, left < 0));
        }
    }
}

fn hash(value: Amount) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn sums_and_products_match_the_oracle(left in arb_amount(), right in arb_amount()) {
        let (left_big, right_big, scale) = aligned(left, right);
        must_be(left.checked_add(right), &left_big + &right_big, scale)?;
        must_be(left.checked_sub(right), left_big - right_big, scale)?;
        let ((left_big, left_scale), (right_big, right_scale)) = (big(left), big(right));
        must_be(left.checked_mul(right), left_big * right_big, left_scale + right_scale)?;
    }

    #[test]
    fn rounding_matches_the_oracle(value in arb_amount(), step in arb_amount(),
        places in 0..32_u32) {
        let (value_big, step_big, scale) = aligned(value, step.abs());
        if step.is_zero() {
            prop_assert_eq!(value.round_down_to(step), None);
            prop_assert_eq!(value.is_multiple_of(step), None);
            prop_assert_eq!(value.ratio_display(step), None);
            prop_assert_eq!(value.div_floor_count(step), None);
            return Ok(());
        }
        let down = floor_div(&value_big, &step_big);
        let up = -floor_div(&-&value_big, &step_big);
        must_be(value.round_down_to(step), &down * &step_big, scale)?;
        must_be(value.round_up_to(step), &up * &step_big, scale)?;
        prop_assert_eq!(value.is_multiple_of(step), Some(down == up));
        let countable = !value.is_negative() && !step.is_negative();
        let count = u64::try_from(&down).ok().filter(|_| countable);
        prop_assert_eq!(value.div_floor_count(step), count);

        let (mantissa, own_scale) = big(value);
        if own_scale > places {
            let unit = ten(own_scale - places);
            let away = -floor_div(&-BigInt::from(mantissa.magnitude().clone()), &unit);
            let signed = if value.is_negative() { -away } else { away };
            must_be(Some(value.round_dp_up(places)), signed, places)?;
            prop_assert_eq!(value.round_dp_up(places).scale(), places);
        } else {
            must_be(Some(value.round_dp_up(places)), mantissa, own_scale)?;
        }
    }

    #[test]
    fn ratios_match_the_oracle(value in arb_amount(), by in arb_amount()) {
        if by.is_zero() {
            return Ok(());
        }
        let (value_big, by_big, _) = aligned(value, by);
        let millionths = value_big * ten(RATIO_PLACES) / by_big;
        let text = value.ratio_display(by).unwrap();
        prop_assert_eq!(text.replace('.', "").parse::<BigInt>().unwrap(), millionths.clone());
        prop_assert_eq!(text.starts_with('-'), millionths.sign() == Sign::Minus);
        prop_assert_eq!(text.len() - text.find('.').unwrap(), 7);
        prop_assert!(!text.trim_start_matches('-').starts_with("00"));
    }

    #[test]
    fn comparison_goes_by_value(left in arb_amount(), right in arb_amount()) {
        let (left_big, right_big, _) = aligned(left, right);
        prop_assert_eq!(left.cmp(&right), left_big.cmp(&right_big));
        prop_assert_eq!(left == right, left_big == right_big);
        prop_assert_eq!(left.normalized(), left);
        prop_assert_eq!(hash(left.normalized()), hash(left));
        prop_assert_eq!(-(-left), left);
        prop_assert_eq!(left.abs() == left, !left.is_negative());
    }

    #[test]
    fn trailing_zeros_do_not_change_equality_or_hash(whole in any::<i64>(), zeros in 0..9_usize) {
        let plain = Amount::from_i64(whole);
        let long = amount(&format!("{whole}.{}", "0".repeat(zeros + 1)));
        prop_assert_eq!(plain, long);
        prop_assert_eq!(hash(plain), hash(long));
    }

    #[test]
    fn texts_come_back(value in arb_amount()) {
        let back = amount(&value.to_string());
        prop_assert_eq!((back, back.scale()), (value, value.scale()));
        prop_assert_eq!(value.to_string(), value.decimal().to_string());
        let json = serde_json::to_string(&value).unwrap();
        let back: Amount = serde_json::from_str(&json).unwrap();
        prop_assert_eq!((back, back.scale()), (value, value.scale()));
        let yaml = serde_yaml::to_string(&value).unwrap();
        let back: Amount = serde_yaml::from_str(&yaml).unwrap();
        prop_assert_eq!((back, back.scale()), (value, value.scale()));
    }

    #[test]
    fn wire_texts_are_kept(text in "-?(0|[1-9][0-9]{0,11})(\\.[0-9]{1,10})?") {
        let value = Amount::parse_wire(&text).unwrap();
        let shown = if value.is_zero() { text.trim_start_matches('-') } else { &text };
        prop_assert_eq!(value.to_string(), shown);
        prop_assert_eq!(Amount::parse_exact(&text), Ok(value));
        let json = format!(r#"{{"size":{text},"limit":"{text}"}}"#);
        let request: Request = serde_json::from_str(&json).unwrap();
        prop_assert_eq!((request.size, request.limit), (value, Some(value)));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+.0-9eE_]{0,8}|.{0,6}") {
        let matches_form = |text: &str| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
            [whole, fraction].iter().all(|part| !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_digit()))
                && (whole == "0" || !whole.starts_with('0'))
        };
        prop_assert_eq!(Amount::parse_wire(&text).is_ok(), matches_form(&text));
        prop_assert_eq!(Amount::parse_exact(&text).is_ok(), matches_form(&text));
    }

    #[test]
    fn short_bare_yaml_numbers_keep_their_value(whole in 0..1_000_000_000_u64,
        cents in 0..1_000_000_u32) {
        let text = format!("{whole}.{cents:06}");
        prop_assert_eq!(rule(&text).map(|shown| amount(&shown)), Ok(amount(&text)));
    }
}
