//! Amounts against whole numbers of any size: the two grammars, what is printed, and arithmetic
//! that is exact or says that it is not.

use num_bigint::BigInt;
use serde::Deserialize;
use spoolgate_wire::amount::{self, Amount};
use spoolgate_wire::json::check_value;

#[derive(Deserialize)]
struct Wire {
    #[serde(deserialize_with = "amount::wire::required")]
    value: Amount,
}

/// Texts, a line each: every one is read, neighbours are calculated with.
pub fn body(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut before = None;
    for line in text.split('\n').take(8) {
        check_text(line);
        let Ok(amount) = Amount::parse_exact(line) else {
            continue;
        };
        if let Some((other, other_line)) = before {
            check_pair(other, amount, &Exact::of(other_line), &Exact::of(line));
            check_pair(amount, other, &Exact::of(line), &Exact::of(other_line));
        }
        before = Some((amount, line));
    }
}

/// `number / 10^scale`.
#[derive(Clone, Debug)]
struct Exact {
    number: BigInt,
    scale: u32,
}

fn tens(n: u32) -> BigInt {
    BigInt::from(10).pow(n)
}

impl Exact {
    /// Of a text of the grammar.
    fn of(text: &str) -> Exact {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let number: BigInt = format!("{whole}{fraction}").parse().unwrap();
        Exact {
            number,
            scale: u32::try_from(fraction.len()).unwrap(),
        }
    }

    fn at(&self, scale: u32) -> BigInt {
        &self.number * tens(scale - self.scale)
    }

    /// Whether an amount can hold it: 96 bits and 28 places once its trailing zeros are gone.
    fn fits(&self) -> bool {
        let Exact {
            mut number,
            mut scale,
        } = self.clone();
        while scale > 0 && (&number % BigInt::from(10)) == BigInt::from(0) {
            number /= 10;
            scale -= 1;
        }
        scale <= 28 && number.magnitude().bits() <= 96
    }

    fn is(&self, amount: Amount) -> bool {
        let other = Exact::of(&amount.to_string());
        let scale = self.scale.max(other.scale);
        self.at(scale) == other.at(scale)
    }
}

/// The grammar, by hand: an optional minus, no leading zeros, digits on both sides of a point.
fn grammar(text: &str) -> Option<(usize, usize)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mut parts = digits.splitn(2, '.');
    let (whole, fraction) = (parts.next().unwrap_or(""), parts.next());
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| (48..58).contains(&b));
    let good = all_digits(whole)
        && fraction.is_none_or(all_digits)
        && (whole.len() == 1 || !whole.starts_with('0'));
    good.then(|| (whole.len(), fraction.map_or(0, str::len)))
}

fn check_text(text: &str) {
    let lengths = grammar(text);
    let wire = Amount::parse_wire(text);
    assert_eq!(
        wire.is_ok(),
        lengths.is_some_and(|(whole, fraction)| whole <= 12 && fraction <= 10),
        "{text:?}"
    );
    let exact = Amount::parse_exact(text);
    let holds = lengths.is_some_and(|(_, fraction)| {
        fraction <= 28 && Exact::of(text).number.magnitude().bits() <= 96
    });
    assert_eq!(exact.is_ok(), holds, "{text:?}: {exact:?}");
    for error in [wire.as_ref().err(), exact.as_ref().err()]
        .into_iter()
        .flatten()
    {
        let shown = error.to_string();
        assert!(
            !shown.contains(char::is_control) && shown.len() < 600,
            "{shown:?}"
        );
    }
    if let Ok(amount) = exact {
        let is_zero = Exact::of(text).number == BigInt::from(0);
        let printed = if is_zero {
            text.trim_start_matches('-')
        } else {
            text
        };
        assert_eq!(
            amount.to_string(),
            printed,
            "printed otherwise than it was written"
        );
        assert_eq!(Amount::parse_exact(printed), Ok(amount));
        assert!(
            wire.is_ok_and(|wire| wire.to_string() == printed) || Amount::parse_wire(text).is_err()
        );
        let stored = serde_json::to_string(&amount).unwrap();
        assert_eq!(
            serde_json::from_str::<Amount>(&stored).unwrap().to_string(),
            printed
        );
        assert!(Exact::of(text).is(amount.normalized()));
    }
    check_wire(text);
}

/// A field of a request: a JSON number or string, read from its text.
fn check_wire(json: &str) {
    if check_value(json.as_bytes()).is_err() {
        return;
    }
    let Ok(read) = serde_json::from_str::<Wire>(&format!("{{\"value\":{json}}}")) else {
        return;
    };
    let json = json.trim_matches([' ', '\t', '\n', '\r']);
    let text = match serde_json::from_str::<serde_json::Value>(json) {
        Ok(serde_json::Value::String(text)) => text,
        _ => json.to_owned(),
    };
    assert_eq!(Amount::parse_wire(&text), Ok(read.value), "{json}");
    assert_eq!(
        Amount::parse_wire(&text).map(|amount| amount.to_string()),
        Ok(read.value.to_string())
    );
}

/// What is exact must be returned, and nothing else.
#[track_caller]
fn agree(result: Option<Amount>, exact: &Exact) {
    match result {
        Some(amount) => assert!(exact.is(amount), "{amount} is not {exact:?}"),
        None => assert!(!exact.fits(), "{exact:?} fits and was not returned"),
    }
}

fn check_pair(a: Amount, b: Amount, x: &Exact, y: &Exact) {
    let scale = x.scale.max(y.scale);
    let (m, n) = (x.at(scale), y.at(scale));
    assert_eq!(a.cmp(&b), m.cmp(&n));
    assert_eq!(a == b, m == n);
    agree(
        a.checked_add(b),
        &Exact {
            number: &m + &n,
            scale,
        },
    );
    agree(
        a.checked_sub(b),
        &Exact {
            number: &m - &n,
            scale,
        },
    );
    agree(
        a.checked_mul(b),
        &Exact {
            number: &x.number * &y.number,
            scale: x.scale + y.scale,
        },
    );
    agree(
        Some(-a),
        &Exact {
            number: -x.number.clone(),
            scale: x.scale,
        },
    );
    let zero = BigInt::from(0);
    if n == zero {
        assert_eq!(
            (a.is_multiple_of(b), a.round_down_to(b), a.round_up_to(b)),
            (None, None, None)
        );
        assert_eq!((a.div_floor_count(b), a.ratio_display(b)), (None, None));
        return;
    }
    let step = BigInt::from(n.magnitude().clone());
    // Rust cuts towards zero.
    let rest = &m % &step;
    let down = if rest < zero {
        &m - &rest - &step
    } else {
        &m - &rest
    };
    let up = if rest > zero {
        &m - &rest + &step
    } else {
        &m - &rest
    };
    assert_eq!(a.is_multiple_of(b), Some(rest == zero));
    agree(
        a.round_down_to(b),
        &Exact {
            number: down,
            scale,
        },
    );
    agree(a.round_up_to(b), &Exact { number: up, scale });
    let count = (m >= zero && n > zero)
        .then(|| &m / &n)
        .and_then(|count| u64::try_from(count).ok());
    assert_eq!(a.div_floor_count(b), count);
    let ratio = &m * tens(6) / &n;
    let digits = format!("{:0>7}", ratio.magnitude().to_string());
    let (whole, fraction) = digits.split_at(digits.len() - 6);
    let sign = if ratio < zero { "-" } else { "" };
    assert_eq!(
        a.ratio_display(b),
        Some(format!("{sign}{whole}.{fraction}"))
    );
}
