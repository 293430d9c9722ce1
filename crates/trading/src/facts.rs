//! The facts about a market that rules may read. A fact that cannot be computed, or whose source is
//! missing or old, is absent and never 0: a rule that needs it evaluates to unknown.

use rust_decimal::{Decimal, RoundingStrategy};
use serde::Serialize;

use super::book::{Book, Given, Market, Traded, WINDOW};
use super::valuation::{TwoSided, is_fresh};
use super::venue::FUNDING_PERIOD_MS;
use spoolgate_rules::Rulebook;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Regime, Symbol};
use spoolgate_wire::time::Time;

/// Decimals of ratios.
const RATIO_PLACES: u32 = 10;

/// Decimals that a single return is rounded to, half to even, before it is squared.
const RETURN_PLACES: u32 = 12;

/// Maximum age of a funding rate: two periods of eight hours, as bars may be two bars old.
const RATE_AGE_MAX_MS: i64 = 2 * FUNDING_PERIOD_MS;

/// Facts about one market at one instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Facts {
    /// Price of the last trade, if it is fresh; the middle of bid and ask if no trade was ever
    /// known.
    pub price: Option<Amount>,
    /// Bid as the checks see it, if it is fresh.
    pub bid: Option<Amount>,
    /// Ask as the checks see it, if it is fresh.
    pub ask: Option<Amount>,
    /// (ask - bid) / ((ask + bid) / 2), a fraction.
    pub spread_pct: Option<Amount>,
    /// Volume of the last bar divided by the mean volume of the 20 bars before it. All 21 bars must
    /// be known with volumes, and the last must be fresh.
    pub volume_ratio: Option<Amount>,
    /// Realised volatility per bar: `sqrt(sum(r_i^2) / 20)` over the last 20 simple returns. The
    /// last bar must be fresh.
    pub volatility: Option<Amount>,
    /// The last funding rate, if it was due within 16 hours.
    pub funding_rate: Option<Amount>,
    /// (last rate - mean) / standard deviation, both over the 20 rates before it (n - 1 in the
    /// deviation). Absent if the rate is absent, if there are fewer than 21 rates, or if the 20 do
    /// not differ.
    pub funding_rate_zscore: Option<Amount>,
    /// The regime that a feed reported last.
    pub regime: Option<Regime>,
    /// Since when the regime applies.
    pub regime_since: Option<Time>,
    /// Whole minutes since 00:00 UTC, where each day of the gate begins.
    pub minutes_since_open: i64,
}

/// Returns the facts about `symbol`; `None` if it is not in instruments.yaml.
pub fn facts(book: &Book, rules: &Rulebook, symbol: &Symbol, now: Time) -> Option<Facts> {
    let view = View::of(book, rules, symbol, now)?;
    Some(Facts {
        price: view.price(),
        bid: view.seen.map(|seen| seen.bid),
        ask: view.seen.map(|seen| seen.ask),
        spread_pct: view.spread_pct(),
        volume_ratio: view.volume_ratio(),
        volatility: view.volatility(),
        funding_rate: view.funding_rate(),
        funding_rate_zscore: view.funding_rate_zscore(),
        regime: view.regime().map(|given| given.regime.clone()),
        regime_since: view.regime().map(|given| given.at),
        minutes_since_open: minutes_since_open(now),
    })
}

/// Returns the whole minutes since 00:00 UTC.
pub fn minutes_since_open(now: Time) -> i64 {
    now.since_ms(now.day_start()) / 60_000
}

/// One market at one instant. Each fact is computed on demand; [`Facts`] defines them.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    market: Option<&'a Market>,
    /// Bid and ask as the checks see them, if fresh.
    pub seen: Option<TwoSided>,
    is_last_fresh: bool,
    now: Time,
}

impl<'a> View<'a> {
    /// Creates the view of a symbol; `None` if it is not in instruments.yaml.
    pub fn of(book: &'a Book, rules: &Rulebook, symbol: &Symbol, now: Time) -> Option<View<'a>> {
        let instrument = rules.instruments.get(symbol)?;
        let fresh = |time: Time| is_fresh(time, now, instrument, &rules.safety);
        let market = book.markets.get(symbol);
        let seen = book.two_sided(instrument).filter(|seen| fresh(seen.time));
        let last = market.and_then(|market| market.last.as_ref());
        Some(View {
            market,
            seen,
            is_last_fresh: last.is_some_and(|last| fresh(last.time)),
            now,
        })
    }

    /// Price of the last trade, or the middle price.
    pub fn price(&self) -> Option<Amount> {
        match self.market.and_then(|market| market.last.as_ref()) {
            Some(last) => Some(last.price).filter(|_| self.is_last_fresh),
            None => self
                .seen
                .and_then(|seen| ratio(seen.bid.checked_add(seen.ask)?, Amount::from_i64(2))),
        }
    }

    /// Spread divided by the middle price.
    pub fn spread_pct(&self) -> Option<Amount> {
        let seen = self.seen?;
        let spread = seen.ask.checked_sub(seen.bid)?;
        ratio(spread.checked_add(spread)?, seen.bid.checked_add(seen.ask)?)
    }

    /// Volume of the last bar divided by the mean volume of the bars before it.
    pub fn volume_ratio(&self) -> Option<Amount> {
        self.bars().and_then(volume_ratio)
    }

    /// Realised volatility of one bar.
    pub fn volatility(&self) -> Option<Amount> {
        self.bars()
            .and_then(|market| volatility(market.bars.iter()))
    }

    /// The last funding rate.
    pub fn funding_rate(&self) -> Option<Amount> {
        self.rated().and_then(|market| market.rates.back().copied())
    }

    /// How unusual the last funding rate is.
    pub fn funding_rate_zscore(&self) -> Option<Amount> {
        self.rated().and_then(zscore)
    }

    /// The regime that a feed reported.
    pub fn regime(&self) -> Option<&'a Given> {
        self.market.and_then(|market| market.regime.as_ref())
    }

    fn bars(&self) -> Option<&'a Market> {
        self.market.filter(|_| self.is_last_fresh)
    }

    fn rated(&self) -> Option<&'a Market> {
        self.market.filter(|market| {
            market
                .funded
                .is_some_and(|time| (0..RATE_AGE_MAX_MS).contains(&self.now.since_ms(time)))
        })
    }
}

/// Computes last volume x 20 / sum of the 20 volumes before it.
fn volume_ratio(market: &Market) -> Option<Amount> {
    let (Traded(_, newest), before) = newest_and_window(&market.bars)?;
    let sum = before
        .into_iter()
        .try_fold(Amount::ZERO, |sum, bar| sum.checked_add(bar.1?))?;
    ratio((*newest)?.checked_mul(count())?, sum)
}

/// Computes the realised volatility per bar: the square root of the mean of the squared returns,
/// `sqrt(sum(r_i^2) / 20)` with `r_i = close_i / close_(i-1) - 1`, over the last 21 closes. This is
/// realised variance (Andersen, Bollerslev, Diebold and Labys, Modeling and Forecasting Realized
/// Volatility, Econometrica 71, 2003) per bar, with simple instead of logarithmic returns, because
/// decimals can represent them; the mean is taken as 0, and the result is not scaled to a year.
/// Returns are rounded half to even at 12 decimals; the mean and the root are rounded down, the
/// root to 10 decimals. The computation uses integers only, so every machine gets the same result.
/// Consecutive bars count whatever time lies between them. `None` if there are fewer bars, or if a
/// square exceeds 128 bits.
fn volatility<'a>(bars: impl Iterator<Item = &'a Traded>) -> Option<Amount> {
    let closes: Vec<Decimal> = bars.map(|bar| bar.0.decimal()).collect();
    if closes.len() <= WINDOW {
        return None;
    }
    let later = closes.iter().skip(1);
    let squares = later.zip(&closes).map(|(close, before)| {
        let change = close.checked_sub(*before)?.checked_div(*before)?;
        let units = units(change)?.unsigned_abs();
        units.checked_mul(units)
    });
    let sum = squares
        .into_iter()
        .try_fold(0_u128, |sum, square| sum.checked_add(square?))?;
    // The square of a unit of 10^-12 is a unit of 10^-24; its root is a unit of 10^-12 again.
    let root = sum.checked_div(u128::try_from(WINDOW).ok()?)?.isqrt();
    let shown = i128::try_from(root / 10_u128.pow(RETURN_PLACES - RATIO_PLACES)).ok()?;
    amount(Decimal::try_from_i128_with_scale(shown, RATIO_PLACES).ok()?)
}

/// Computes the z-score of the last rate against the 20 before it.
fn zscore(market: &Market) -> Option<Amount> {
    let (newest, before) = newest_and_window(&market.rates)?;
    let n = i128::try_from(WINDOW).ok()?;
    // With x and the n rates before it in whole units of 10^-12: z = (n x - S) / sqrt(n (n Q - S^2)
    // / (n - 1)), where S is the sum and Q the sum of squares. Nothing is rounded before the root.
    let rates: Option<Vec<i128>> = before
        .into_iter()
        .map(|rate| units(rate.decimal()))
        .collect();
    let (sum, squares) =
        rates?
            .into_iter()
            .try_fold((0_i128, 0_i128), |(sum, squares), rate| {
                Some((
                    sum.checked_add(rate)?,
                    squares.checked_add(rate.checked_mul(rate)?)?,
                ))
            })?;
    let spread = n.checked_mul(squares)?.checked_sub(sum.checked_mul(sum)?)?;
    // Scale both sides by 10^4, so that the root keeps its precision for rates that hardly differ.
    let scaled = n
        .checked_mul(spread)?
        .checked_mul(100_000_000)?
        .checked_div(n.checked_sub(1)?)?;
    let root = u128::try_from(scaled).ok()?.isqrt();
    let distance = n
        .checked_mul(units(newest.decimal())?)?
        .checked_sub(sum)?
        .checked_mul(10_000)?;
    let (distance, root) = (
        Decimal::try_from_i128_with_scale(distance, 0),
        i128::try_from(root).ok()?,
    );
    let root = Decimal::try_from_i128_with_scale(root, 0).ok()?;
    quotient(distance.ok()?, root)
}

/// Returns the newest element and the full window before it; `None` if the window is not full.
fn newest_and_window<T>(all: &std::collections::VecDeque<T>) -> Option<(&T, Vec<&T>)> {
    let newest = all.back()?;
    let before: Vec<&T> = all.iter().rev().skip(1).take(WINDOW).collect();
    (before.len() == WINDOW).then_some((newest, before))
}

fn count() -> Amount {
    Amount::from_i64(i64::try_from(WINDOW).unwrap_or(i64::MAX))
}

/// Converts a number to units of 10^-12, rounded half to even.
fn units(number: Decimal) -> Option<i128> {
    let mut rounded =
        number.round_dp_with_strategy(RETURN_PLACES, RoundingStrategy::MidpointNearestEven);
    rounded.rescale(RETURN_PLACES);
    // A number too large for that scale keeps a smaller scale.
    (rounded.scale() == RETURN_PLACES).then(|| rounded.mantissa())
}

/// Returns `part / whole`, rounded half to even at 10 decimals; `None` if `whole` is 0.
pub fn ratio(part: Amount, whole: Amount) -> Option<Amount> {
    quotient(part.decimal(), whole.decimal())
}

/// Returns a quotient, rounded half to even at 10 decimals; `None` if `whole` is 0.
fn quotient(part: Decimal, whole: Decimal) -> Option<Amount> {
    let quotient = part.checked_div(whole)?;
    amount(quotient.round_dp_with_strategy(RATIO_PLACES, RoundingStrategy::MidpointNearestEven))
}

fn amount(number: Decimal) -> Option<Amount> {
    let number = number.normalize();
    // A negative zero has no text as an amount.
    if number.is_zero() {
        Some(Amount::ZERO)
    } else {
        Amount::parse_exact(&number.to_string()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Change;
    use crate::testing::*;

    fn now(world: &World) -> Facts {
        facts(&world.book, &world.rules, &btc(), world.now).unwrap()
    }

    /// Adds bars, each opening at its own close.
    fn bars(world: &mut World, closes: &[(&str, Option<&str>)]) {
        for (close, volume) in closes {
            world.bar_of(close, close, close, close, *volume);
        }
    }

    #[test]
    fn unknown_facts_are_absent() {
        let mut world = World::new();
        world.book.markets.clear();
        let nothing = now(&world);
        assert_eq!(
            (nothing.price, nothing.spread_pct, nothing.volatility),
            (None, None, None)
        );
        assert_eq!((nothing.funding_rate, nothing.regime), (None, None));
        assert!(
            facts(
                &world.book,
                &world.rules,
                &Symbol::parse("NONE").unwrap(),
                world.now
            )
            .is_none()
        );
        bars(&mut world, &[("100", Some("2")); 20]);
        let few = now(&world);
        assert_eq!(
            (few.price, few.volume_ratio, few.volatility),
            (Some(a("100")), None, None)
        );
        bars(&mut world, &[("100", Some("2"))]);
        let enough = now(&world);
        // Known volatility of 0 is not the same as unknown volatility.
        assert_eq!(
            (enough.volume_ratio, enough.volatility),
            (Some(a("1")), Some(a("0")))
        );
        bars(&mut world, &[("100", None)]);
        assert_eq!(
            (now(&world).volume_ratio, now(&world).volatility),
            (None, Some(a("0")))
        );
        world.wait(120_000);
        assert!(now(&world).price.is_some(), "two bars old is fresh");
        world.wait(1);
        let old = now(&world);
        assert_eq!(
            (old.price, old.bid, old.ask, old.spread_pct),
            (None, None, None, None)
        );
        assert_eq!((old.volume_ratio, old.volatility), (None, None));
    }

    #[test]
    fn formulas_by_hand() {
        let mut world = World::new();
        world.book.markets.clear();
        let mut rows = vec![("100", Some("1")); 20];
        rows.push(("110", Some("7")));
        bars(&mut world, &rows);
        let facts = now(&world);
        // One return of 0.1 among 20: sqrt(0.01 / 20) = 0.02236067977...
        assert_eq!(facts.volatility, Some(a("0.0223606797")));
        assert_eq!(facts.volume_ratio, Some(a("7")));
        // From bars: close -/+ 0.0005 of the close.
        assert_eq!(
            (facts.bid, facts.ask),
            (Some(a("109.945")), Some(a("110.055")))
        );
        assert_eq!(facts.spread_pct, Some(a("0.001")));
        assert_eq!(facts.price, Some(a("110")));
        // Back to 100: a second return of -1/11.
        let mut back = World::new();
        back.book.markets.clear();
        rows.extend([("100", Some("1"))]);
        bars(&mut back, &rows);
        assert_eq!(now(&back).volatility, Some(a("0.030219582")));
        // The window moves: 100 -> 110 is its first return, then it drops out.
        bars(&mut world, &[("110", Some("1")); 19]);
        assert_eq!(now(&world).volatility, Some(a("0.0223606797")));
        bars(&mut world, &[("110", Some("1"))]);
        assert_eq!(now(&world).volatility, Some(a("0")));
        // 12:00 plus 42 bars.
        assert_eq!(now(&world).minutes_since_open, 12 * 60 + 42);
        assert_eq!(world.book.markets[&btc()].bars.len(), WINDOW + 1);
    }

    #[test]
    fn quotes_alone_give_the_middle() {
        let world = World::new();
        let seen = facts(&world.book, &world.rules, &eth(), world.now).unwrap();
        assert_eq!(
            (seen.price, seen.bid, seen.ask),
            (Some(a("200.1")), Some(a("200")), Some(a("200.2")))
        );
        // 0.2 / 200.1 = 0.00099950024...
        assert_eq!(seen.spread_pct, Some(a("0.0009995002")));
    }

    #[test]
    fn funding_rates_and_how_unusual_the_last_is() {
        let mut world = World::new();
        let mut due = world.now.day_start();
        let mut fund = |world: &mut World, rate: &str| {
            due = due.plus_ms(8 * 3_600_000);
            world.now = due;
            let (symbol, rate) = (btc(), a(rate));
            world.apply(&[Change::FundingCharged {
                symbol,
                rate,
                time: due,
                charges: Vec::new(),
            }]);
        };
        for n in 0..20 {
            fund(&mut world, if n % 2 == 0 { "0.0001" } else { "0.0003" });
            let few = now(&world);
            assert!(few.funding_rate.is_some() && few.funding_rate_zscore.is_none());
        }
        fund(&mut world, "0.0005");
        // Mean 0.0002, deviation 0.0001 x sqrt(20 / 19) = 0.000102597835...: 2.92403830...
        assert_eq!(now(&world).funding_rate, Some(a("0.0005")));
        let score = now(&world).funding_rate_zscore.unwrap();
        assert!(score > a("2.924038") && score < a("2.924039"), "{score}");
        for _ in 0..21 {
            fund(&mut world, "-0.0001");
        }
        let alike = now(&world);
        assert_eq!(
            (alike.funding_rate, alike.funding_rate_zscore),
            (Some(a("-0.0001")), None)
        );
        assert_eq!(world.book.markets[&btc()].rates.len(), WINDOW + 1);
        world.wait(RATE_AGE_MAX_MS - 1);
        assert!(now(&world).funding_rate.is_some());
        world.wait(1);
        assert_eq!(now(&world).funding_rate, None);
    }

    #[test]
    fn a_step_of_many_rows_leaves_the_same_windows_as_rows_one_by_one() {
        let row = |n: i64| crate::market_row::Row::Bar {
            open_ms: Time::parse(NOON).unwrap().ms() + n * 60_000,
            interval_ms: 60_000,
            open: Amount::from_i64(n),
            high: Amount::from_i64(n),
            low: Amount::from_i64(n),
            close: Amount::from_i64(n),
            volume: Some(Amount::from_i64(n + 1)),
        };
        for count in [1, 2, 20, 21, 22, 23, 50] {
            let rows: Vec<_> = (1..=count).map(|n| row(n + 1)).collect();
            let (mut at_once, mut singly) = (World::new(), World::new());
            // Without theses: refuting them would add changes, and this test is only about the
            // windows.
            at_once.rules.theses.clear();
            singly.rules.theses.clear();
            at_once.gap_of(&btc(), "1000000");
            singly.gap_of(&btc(), "1000000");
            at_once.wait(3_600_000);
            singly.wait(3_600_000);
            let steps = at_once.rows(&btc(), &rows);
            assert_eq!(steps.len(), 1);
            let bytes = serde_json::to_vec(&steps[0].changes).unwrap().len();
            assert!(bytes < 1000, "{bytes} bytes for {count} rows");
            rows.iter()
                .for_each(|row| drop(singly.rows(&btc(), &[*row])));
            assert_eq!(at_once.book.markets, singly.book.markets, "{count} rows");
        }
    }
}
