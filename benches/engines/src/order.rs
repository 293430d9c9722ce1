//! Random orders with what is known of each, the same on every run.

use spoolgate_rules::rule::field::{Id, WEEKDAYS};

use crate::request::{Exact, Plain};

/// One order with its facts.
#[derive(Clone, Debug)]
pub struct Order {
    /// `order.side`
    pub side: &'static str,
    /// `order.symbol`
    pub symbol: &'static str,
    /// `order.order_type`
    pub order_type: &'static str,
    /// `order.size`
    pub size: Exact,
    /// `order.notional`
    pub notional: Exact,
    /// `order.price`
    pub price: Option<Exact>,
    /// `order.target_price`
    pub target_price: Option<Exact>,
    /// `market.spread`
    pub spread_pct: Exact,
    /// `market.volume_ratio`
    pub volume_ratio: Exact,
    /// `market.volatility`
    pub volatility: Exact,
    /// `market.funding_rate`
    pub funding_rate: Exact,
    /// `market.funding_rate_zscore`
    pub funding_rate_zscore: Exact,
    /// `market.regime`
    pub regime: &'static str,
    /// `strategy.name`
    pub strategy: &'static str,
    /// `portfolio.equity`
    pub equity: Exact,
    /// `portfolio.open_positions`
    pub open_positions: i64,
    /// `time.of_day`, minutes
    pub of_day: i64,
    /// `time.weekday`
    pub weekday: &'static str,
    /// `request.source`
    pub source: &'static str,
}

impl Order {
    /// The value of a field.
    ///
    /// # Panics
    /// For a field that the twenty rules do not read.
    pub fn plain(&self, id: Id) -> Plain<'static> {
        let optional = |number: Option<Exact>| number.map_or(Plain::Absent, Plain::Decimal);
        match id {
            Id::OrderSide => Plain::Text(self.side),
            Id::OrderSymbol => Plain::Text(self.symbol),
            Id::OrderOrderType => Plain::Text(self.order_type),
            Id::OrderSize => Plain::Decimal(self.size),
            Id::OrderNotional => Plain::Decimal(self.notional),
            Id::OrderPrice => optional(self.price),
            Id::OrderTargetPrice => optional(self.target_price),
            Id::MarketSpread => Plain::Decimal(self.spread_pct),
            Id::MarketVolumeRatio => Plain::Decimal(self.volume_ratio),
            Id::MarketVolatility => Plain::Decimal(self.volatility),
            Id::MarketFundingRate => Plain::Decimal(self.funding_rate),
            Id::MarketFundingRateZscore => Plain::Decimal(self.funding_rate_zscore),
            Id::MarketRegime => Plain::Text(self.regime),
            Id::StrategyName => Plain::Text(self.strategy),
            Id::PortfolioEquity => Plain::Decimal(self.equity),
            Id::PortfolioOpenPositions => Plain::Whole(self.open_positions),
            Id::TimeOfDay => Plain::Whole(self.of_day),
            Id::TimeWeekday => Plain::Text(self.weekday),
            Id::RequestSource => Plain::Text(self.source),
            other => panic!("no rule here reads {other:?}"),
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From `low` up to, and without, `high`.
    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high - low).expect("low is below high");
        low + i64::try_from(self.next() % span).expect("small")
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.next() % of.len() as u64).expect("small")]
    }

    /// Ten-thousandths between two bounds; now and then one of `edges` itself, where `gt` and `gte`
    /// part.
    fn number(&mut self, low: i64, high: i64, edges: &[i64]) -> Exact {
        let count = if !edges.is_empty() && self.next().is_multiple_of(8) {
            self.one(edges)
        } else {
            self.between(low, high)
        };
        Exact::ten_thousandths(count)
    }
}

const ONE: i64 = 10_000;

/// An order of which no rule has anything to say.
fn quiet(random: &mut Random) -> Order {
    let order_type = random.one(&["limit", "limit", "market", "stop"]);
    let price = (order_type != "market").then(|| random.number(ONE / 20, 900 * ONE, &[ONE / 20]));
    Order {
        side: random.one(&["buy", "buy", "sell"]),
        symbol: random.one(&["BTC-USD", "ETH-USD", "SOL-USD", "XRP-USD", "LTC-USD"]),
        order_type,
        size: random.number(1, 500 * ONE, &[500 * ONE]),
        notional: random.number(25 * ONE, 4_000 * ONE, &[25 * ONE, 5_000 * ONE]),
        price,
        target_price: Some(random.number(ONE, 1_000 * ONE, &[])),
        spread_pct: random.number(0, 25, &[24]),
        volume_ratio: random.number(3_001, 3 * ONE, &[3_001]),
        volatility: random.number(10, 401, &[400]),
        funding_rate: random.number(-20, 20, &[0]),
        funding_rate_zscore: random.number(-3 * ONE, 3 * ONE, &[35_000, -35_000]),
        regime: random.one(&["bull", "range", "calm"]),
        strategy: random.one(&["momentum", "breakout", "pairs", "hedge"]),
        equity: random.number(10_000 * ONE, 400_000 * ONE, &[10_000 * ONE]),
        open_positions: random.between(0, 8),
        of_day: random.between(9 * 60, 15 * 60),
        weekday: random.one(&WEEKDAYS[..5]),
        source: random.one(&["desk", "alpha", "night"]),
    }
}

/// Something else in one place of the order.
fn disturb(order: &mut Order, random: &mut Random) {
    match random.between(0, 18) {
        0 => order.size = random.number(400 * ONE, 700 * ONE, &[500 * ONE, 500 * ONE + 1]),
        1 => {
            let edges = [10_000 * ONE, 20_000 * ONE, 50_000 * ONE, 50_000 * ONE + 1];
            order.notional = random.number(3_000 * ONE, 80_000 * ONE, &edges);
        }
        2 => order.notional = random.number(0, 40 * ONE, &[25 * ONE - 1]),
        3 => order.symbol = random.one(&["DOGE-USD", "ADA-USD", "LINK-USD", "PEPE-USD", "btc-usd"]),
        4 => order.spread_pct = random.number(10, 60, &[25, 26]),
        5 => order.volatility = random.number(300, 900, &[400, 401]),
        6 => {
            order.funding_rate_zscore = random.number(2 * ONE, 6 * ONE, &[35_001, 35_000]);
        }
        7 => {
            order.funding_rate_zscore = random.number(-6 * ONE, -2 * ONE, &[-35_001, -35_000]);
            order.funding_rate = random.number(-40, 10, &[-1, 0]);
        }
        8 => order.regime = random.one(&["crash", "halted", "bear", "bear"]),
        9 => order.weekday = random.one(&WEEKDAYS[4..]),
        10 => {
            order.of_day = random.one(&[
                0, 4, 5, 359, 360, 475, 484, 485, 955, 964, 965, 1319, 1320, 1435, 1439,
            ])
        }
        11 => {
            order.of_day = random.between(0, 24 * 60);
            if random.next().is_multiple_of(2) {
                order.notional = random.number(15_000 * ONE, 45_000 * ONE, &[20_000 * ONE]);
            }
        }
        12 => order.equity = random.number(5_000 * ONE, 15_000 * ONE, &[10_000 * ONE - 1]),
        13 => order.open_positions = random.between(5, 12),
        14 => order.target_price = None,
        15 => order.source = "scout",
        16 => order.volume_ratio = random.number(0, ONE, &[3_000]),
        _ => order.price = Some(random.number(1, 1_000, &[499, 500])),
    }
    if random.next().is_multiple_of(4) {
        order.side = random.one(&["buy", "sell"]);
    }
}

/// So many orders: three in eight as quiet as they come, the others disturbed in one place or
/// several.
pub fn stream(seed: u64, count: usize) -> Vec<Order> {
    let mut random = Random(seed);
    let orders = (0..count).map(|_| {
        let mut order = quiet(&mut random);
        for _ in 0..random.one(&[0, 0, 0, 1, 1, 2, 3, 4]) {
            disturb(&mut order, &mut random);
        }
        order
    });
    orders.collect()
}
