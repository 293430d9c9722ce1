//! The market data that an entry needs.

use super::*;

#[test]
fn market_data_must_look_like_a_market() {
    for (bid, ask, passes) in [
        ("200", "200.2", true),
        ("200", "201.002506", true),
        ("200", "201.002507", false),
    ] {
        let mut world = World::new();
        world.wait(1);
        world.quote(bid, ask);
        let order = market_order("trend", "ETH-USD", "buy", "0.1", "197", 0);
        assert_eq!(
            world.row_of(&order, "market_data").passed,
            passes,
            "{bid} {ask}"
        );
    }
    let mut world = World::new();
    for (last, passes) in [("200", true), ("198", false)] {
        let last = crate::book::Last {
            price: a(last),
            volume: None,
            time: world.now,
        };
        world.apply(&[Change::MarketMoved {
            symbol: eth(),
            earlier: Vec::new(),
            last: Some(last),
            quote: None,
            reached: None,
        }]);
        let order = market_order("trend", "ETH-USD", "buy", "0.1", "197", 0);
        assert_eq!(world.row_of(&order, "market_data").passed, passes);
    }
}

/// Quotes that continue after the trades have stopped, on an instrument valued by quotes and filled
/// from bars.
#[test]
fn a_trade_must_be_fresh_where_bars_fill_what_quotes_show() {
    use spoolgate_rules::instruments::MarketSource;
    for (age_ms, fills_from, passes) in [
        (Some(120_000), MarketSource::Bars, true),
        (Some(120_001), MarketSource::Bars, false),
        (None, MarketSource::Bars, false),
        (Some(120_001), MarketSource::Quotes, true),
        (None, MarketSource::Quotes, true),
    ] {
        let mut world = World::new();
        world.rules.instruments.get_mut(&eth()).unwrap().fills_from = fills_from;
        let time = world.now;
        let last = age_ms.map(|_| crate::book::Last {
            price: a("200"),
            volume: None,
            time,
        });
        let (earlier, quote) = (Vec::new(), None);
        world.apply(&[Change::MarketMoved {
            symbol: eth(),
            earlier,
            last,
            quote,
            reached: None,
        }]);
        world.wait(age_ms.unwrap_or(1));
        world.quote("200", "200.2");
        let order = market_order("trend", "ETH-USD", "buy", "0.1", "197", 0);
        let row = world.row_of(&order, "market_data");
        assert_eq!(row.passed, passes, "{age_ms:?} {fills_from:?}: {row:?}");
        if !passes {
            assert_eq!(row.value, age_ms.map(Amount::from_i64));
        }
    }
}
