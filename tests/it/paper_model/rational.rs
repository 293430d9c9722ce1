//! Exact rationals with the few operations that the model needs.

use std::cmp::Ordering;

use num_bigint::BigInt;

/// `n / d` with `d` above 0, not reduced.
#[derive(Clone, Debug)]
pub(crate) struct Rat {
    n: BigInt,
    d: BigInt,
}

fn floor_div(n: &BigInt, d: &BigInt) -> BigInt {
    let (quotient, rest) = (n / d, n % d);
    if rest < BigInt::ZERO {
        quotient - 1
    } else {
        quotient
    }
}

impl Rat {
    pub(crate) fn of(text: &str) -> Rat {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let n = format!("{whole}{fraction}").parse().unwrap();
        Rat {
            n,
            d: BigInt::from(10).pow(u32::try_from(fraction.len()).unwrap()),
        }
    }

    pub(crate) fn zero() -> Rat {
        Rat::of("0")
    }

    pub(crate) fn one() -> Rat {
        Rat::of("1")
    }

    pub(crate) fn plus(&self, other: &Rat) -> Rat {
        let (wide, narrow) = if self.d >= other.d {
            (self, other)
        } else {
            (other, self)
        };
        if (&wide.d % &narrow.d) == BigInt::ZERO {
            return Rat {
                n: &wide.n + &narrow.n * (&wide.d / &narrow.d),
                d: wide.d.clone(),
            };
        }
        Rat {
            n: &self.n * &other.d + &other.n * &self.d,
            d: &self.d * &other.d,
        }
    }

    pub(crate) fn negated(&self) -> Rat {
        Rat {
            n: -&self.n,
            d: self.d.clone(),
        }
    }

    pub(crate) fn minus(&self, other: &Rat) -> Rat {
        self.plus(&other.negated())
    }

    pub(crate) fn times(&self, other: &Rat) -> Rat {
        Rat {
            n: &self.n * &other.n,
            d: &self.d * &other.d,
        }
    }

    pub(crate) fn over(&self, other: &Rat) -> Rat {
        let (n, d) = (&self.n * &other.d, &self.d * &other.n);
        if d < BigInt::ZERO {
            Rat { n: -n, d: -d }
        } else {
            Rat { n, d }
        }
    }

    pub(crate) fn abs(&self) -> Rat {
        if self.is_negative() {
            self.negated()
        } else {
            self.clone()
        }
    }

    pub(crate) fn is_positive(&self) -> bool {
        self.n > BigInt::ZERO
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.n < BigInt::ZERO
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.n == BigInt::ZERO
    }

    /// Returns the largest multiple of `step` that is not above this.
    pub(crate) fn floor_to(&self, step: &Rat) -> Rat {
        let count = self.over(step);
        Rat {
            n: floor_div(&count.n, &count.d) * &step.n,
            d: step.d.clone(),
        }
    }

    /// Returns the smallest multiple of `step` that is not below this.
    pub(crate) fn ceil_to(&self, step: &Rat) -> Rat {
        self.negated().floor_to(step).negated()
    }

    /// Whether a decimal of 96 bits and 28 places can hold this.
    pub(crate) fn is_held(&self) -> bool {
        let (ten, mut n, mut d) = (BigInt::from(10), self.n.clone(), self.d.clone());
        while (&n % &ten) == BigInt::ZERO && (&d % &ten) == BigInt::ZERO {
            (n, d) = (n / &ten, d / &ten);
        }
        n.bits() <= 96 && d <= ten.pow(28)
    }

    /// Renders this many decimals, rounded down.
    pub(crate) fn text(&self, places: u32) -> String {
        let scale = BigInt::from(10).pow(places);
        let count = floor_div(&(&self.n * &scale), &self.d);
        let (whole, rest) = (
            &count.magnitude().clone() / scale.magnitude(),
            count.magnitude() % scale.magnitude(),
        );
        let sign = if count < BigInt::ZERO { "-" } else { "" };
        let width = usize::try_from(places).unwrap();
        format!("{sign}{whole}.{rest:0>width$}", rest = rest.to_string())
    }

    /// Rounds to a multiple of `step`, halves to the even multiple.
    pub(crate) fn half_even_to(&self, step: &Rat) -> Rat {
        let low = self.floor_to(step);
        let twice = self.minus(&low).plus(&self.minus(&low));
        let is_even = low.floor_to(&step.plus(step)) == low;
        match twice.cmp(step) {
            Ordering::Less => low,
            Ordering::Equal if is_even => low,
            _ => low.plus(step),
        }
    }
}

impl PartialEq for Rat {
    fn eq(&self, other: &Rat) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Rat {}

impl PartialOrd for Rat {
    fn partial_cmp(&self, other: &Rat) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rat {
    fn cmp(&self, other: &Rat) -> Ordering {
        (&self.n * &other.d).cmp(&(&other.n * &self.d))
    }
}
