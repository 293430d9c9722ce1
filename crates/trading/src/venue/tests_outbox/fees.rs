//! Fees in coins, dust, and what a person adjusts.

use proptest::prelude::*;

use super::*;
use crate::order::{Order, OrderEnd, Position, Stated};
use crate::venue::{AdjustError, Adjusting, on_adjust};
use crate::{absent, views};
use spoolgate_wire::ids::Currency;
use spoolgate_wire::orders::{AdjustPosition, Side};
use spoolgate_wire::time::Time;

fn coin(name: &str) -> Currency {
    Currency::parse(name).unwrap()
}

/// A desk whose BTC has a coin, a lot and a smallest size.
fn coins(reduce_only: bool, lot: &str, min_size: &str) -> Desk {
    let mut desk = Desk::at(reduce_only);
    let btc = desk.world.rules.instruments.get_mut(&btc()).unwrap();
    (btc.base, btc.quote) = (Some(coin("BTC")), Some(coin("USD")));
    (btc.lot, btc.min_size) = (a(lot).try_into().unwrap(), a(min_size).try_into().unwrap());
    desk
}

impl Desk {
    fn paid(&mut self, id: &str, size: &str, cum: &str, fee: &str) -> Result<Vec<String>, String> {
        let rest = format!(
            r#""exec_type":"trade","last_qty":"{size}","last_px":"6800","liquidity":"taker","cum_qty":"{cum}",{fee}"#
        );
        self.report(id, &rest)
    }

    fn adjust(&mut self, size: &str, price: &str) -> Result<Vec<String>, AdjustError> {
        self.adjust_of("trend", "BTC-USD", size, price)
    }

    fn adjust_of(
        &mut self,
        strategy: &str,
        symbol: &str,
        size: &str,
        price: &str,
    ) -> Result<Vec<String>, AdjustError> {
        let text = format!(
            r#"{{"strategy":"{strategy}","symbol":"{symbol}","size":"{size}","price":"{price}","reason":"snapshot"}}"#
        );
        let adjust: AdjustPosition = serde_json::from_str(&text).unwrap();
        self.world.seq += 1;
        let by = Adjusting {
            source: &bridge("ops"),
            now: self.world.now,
            seq: self.world.seq,
        };
        let changes = on_adjust(&self.world.book, &self.world.rules, &adjust, &by)?;
        Ok(self.line(changes))
    }

    fn account(&self) -> [Amount; 3] {
        let account = &self.world.book.account;
        [account.cash, account.fees, account.realised]
    }

    fn cost(&self) -> Amount {
        let held = self.world.book.positions.get(&(btc(), trend()));
        held.map_or(Amount::ZERO, |held| held.cost)
    }
}

const IN_BTC: &str = r#""fee":"0.00002","fee_currency":"BTC""#;

#[test]
fn a_purchase_pays_its_fee_in_coins() {
    for reduce_only in [true, false] {
        let mut desk = coins(reduce_only, "0.00001", "0.001");
        desk.submit(&buy("0.02"));
        desk.works("o-1", 1);
        assert_eq!(
            desk.paid("o-1", "0.02", "0.02", IN_BTC).unwrap(),
            [
                "filled o-1 buy 0.02@6800",
                "closed o-1 filled",
                "place o-1-stop.1 sell 0.01998 at 6700"
            ]
        );
        assert_eq!(desk.world.position(), a("0.01998"));
        // 5000 - 0.02 x 6800; 0.00002 x 6800; 0.01998 x 6800.
        assert_eq!(desk.account(), [a("4864"), a("0.136"), a("0")]);
        assert_eq!(desk.cost(), a("135.864"));
        desk.works("o-1-stop", 1);
        assert_eq!(
            desk.trade("o-1-stop", "0.01998", "0.01998", "6700")[2],
            "closed o-1-stop filled"
        );
        // 4864 + 0.01998 x 6700 - 0.01; -0.01998 x 100.
        assert_eq!(desk.account(), [a("4997.856"), a("0.146"), a("-1.998")]);
        assert!(desk.world.book.positions.is_empty());
    }
}

#[test]
fn how_each_fee_is_booked() {
    for (side, fee, position, cash, fees) in [
        // What is bought for 136.
        ("buy", r#""fee":"0.1""#, "0.02", "-136.1", "0.1"),
        (
            "buy",
            r#""fee":"0.1","fee_currency":"USD""#,
            "0.02",
            "-136.1",
            "0.1",
        ),
        (
            "buy",
            r#""fee":"0.1","fee_currency":"USD","fee_value":"7""#,
            "0.02",
            "-136.1",
            "0.1",
        ),
        ("buy", IN_BTC, "0.01998", "-136", "0.136"),
        // A value that is not needed is not used.
        (
            "buy",
            r#""fee":"0.00002","fee_currency":"BTC","fee_value":"7""#,
            "0.01998",
            "-136",
            "0.136",
        ),
        (
            "buy",
            r#""fee":"-0.00002","fee_currency":"BTC""#,
            "0.02002",
            "-136",
            "-0.136",
        ),
        (
            "buy",
            r#""fee":"0.01999","fee_currency":"BTC""#,
            "0.00001",
            "-136",
            "135.932",
        ),
        (
            "buy",
            r#""fee":"0","fee_currency":"BTC""#,
            "0.02",
            "-136",
            "0",
        ),
        (
            "buy",
            r#""fee":"0.3","fee_currency":"BNB","fee_value":"0.17""#,
            "0.02",
            "-136.17",
            "0.17",
        ),
        (
            "buy",
            r#""fee":"-0.3","fee_currency":"BNB","fee_value":"-0.17""#,
            "0.02",
            "-135.83",
            "-0.17",
        ),
        // A sale takes the coins from elsewhere.
        ("sell", IN_BTC, "-0.02", "135.864", "0.136"),
        (
            "sell",
            r#""fee":"-0.00002","fee_currency":"BTC""#,
            "-0.02",
            "136.136",
            "-0.136",
        ),
    ] {
        let mut desk = coins(true, "0.00001", "0.001");
        desk.submit(&if side == "buy" {
            buy("0.02")
        } else {
            sell("0.02")
        });
        desk.works("o-1", 1);
        desk.paid("o-1", "0.02", "0.02", fee).unwrap();
        assert_eq!(desk.world.position(), a(position), "{side} {fee}");
        let [now, paid, _] = desk.account();
        assert_eq!(now.checked_sub(a("5000")), Some(a(cash)), "{side} {fee}");
        assert_eq!(paid, a(fees), "{side} {fee}");
    }
}

#[test]
fn what_buys_a_short_back_values_its_fee_and_the_rest_pays_it_in_coins() {
    // A short of 0.01 and a purchase that turns it around.
    let mut desk = coins(true, "0.00001", "0.001");
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.submit(&limit(sell("0.01"), "6810"));
    desk.works("o-1", 1);
    desk.works("o-2", 1);
    desk.trade("o-2", "0.01", "0.01", "6800");
    assert_eq!(desk.world.position(), a("-0.01"));
    desk.paid("o-1", "0.004", "0.004", IN_BTC).unwrap();
    assert_eq!(desk.world.position(), a("-0.006"), "all of it closes");
    desk.paid("o-1", "0.008", "0.012", IN_BTC).unwrap();
    assert_eq!(
        desk.world.position(),
        a("0.00198"),
        "the part that opens paid"
    );
    let stop = &desk.world.book.orders[&oid("o-1-stop")];
    assert_eq!(stop.size, a("0.00198"));
}

#[test]
fn fees_that_are_not_booked() {
    let mut desk = coins(true, "0.00001", "0.001");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    let before = desk.world.book.clone();
    // Only the bridge has to say more: nothing differs yet.
    let unknown = r#""fee":"0.3","fee_currency":"BNB""#;
    let error = desk.paid("o-1", "0.02", "0.02", unknown).unwrap_err();
    assert_eq!(error, "MALFORMED_PAYLOAD");
    assert_eq!(desk.world.book, before);
    for fee in ["0.02", "0.021", "-0.02", "-0.021"] {
        desk.world.book = before.clone();
        let fee = format!(r#""fee":"{fee}","fee_currency":"BTC""#);
        let error = desk.paid("o-1", "0.02", "0.02", &fee).unwrap_err();
        assert_eq!(error, "REPORT_IMPOSSIBLE; doubted BTC-USD", "{fee}");
    }
    desk.world.book = before;
    desk.paid(
        "o-1",
        "0.02",
        "0.02",
        r#""fee":"0.3","fee_currency":"BNB","fee_value":"0.1""#,
    )
    .unwrap();
}

#[test]
fn the_coin_of_an_order_outlives_the_rules() {
    let mut desk = coins(true, "0.00001", "0.001");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    let text = serde_json::to_string(&desk.world.book.orders[&oid("o-1")]).unwrap();
    let units = r#""units":{"base":"BTC","lot":"0.00001","min_size":"0.001"}"#;
    assert!(text.contains(units), "{text}");
    desk.world.rules.instruments.remove(&btc());
    desk.paid("o-1", "0.02", "0.02", IN_BTC).unwrap();
    assert_eq!(desk.world.position(), a("0.01998"));
    let held = serde_json::to_string(&desk.world.book.positions[&(btc(), trend())]).unwrap();
    assert!(held.contains(units), "{held}");
    // An order of an earlier version: the rules say what its coin is.
    let mut desk = coins(true, "0.00001", "0.001");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    for order in desk.world.book.orders.values_mut() {
        order.at_venue.as_mut().unwrap().units = None;
    }
    desk.paid("o-1", "0.02", "0.02", IN_BTC).unwrap();
    assert_eq!(desk.world.position(), a("0.01998"));
}

#[test]
fn sizes_at_the_venue_are_whole_lots_and_stops_take_the_rest_along() {
    // Fees of 0.00007 leave 0.00993 of each 0.01; the lot is 0.0001.
    let fee = r#""fee":"0.00007","fee_currency":"BTC""#;
    for reduce_only in [true, false] {
        let mut desk = coins(reduce_only, "0.0001", "0.0001");
        desk.submit(&with_target(buy("0.02"), "6900"));
        desk.works("o-1", 1);
        let told = desk.paid("o-1", "0.01", "0.01", fee).unwrap();
        assert!(
            told.contains(&"place o-1-stop.1 sell 0.0099 at 6700".to_owned()),
            "{told:?}"
        );
        desk.works("o-1-stop", 1);
        desk.paid("o-1", "0.01", "0.02", fee).unwrap();
        assert_eq!(desk.world.position(), a("0.01986"));
        let sizes = ["o-1-stop", "o-1-target"].map(|id| desk.world.book.orders[&oid(id)].size);
        assert_eq!(
            sizes,
            [a("0.0198"), a("0.0198")],
            "not twice 0.0099 and no more"
        );
        assert_eq!(desk.unprotected(), Amount::ZERO);
        desk.works("o-1-stop", 2);
        // The agent may ask for all that it sees.
        desk.submit(&sell("0.01986"));
        let exit = desk
            .world
            .book
            .orders
            .values()
            .find(|it| it.role == OrderRole::Exit);
        assert_eq!(exit.unwrap().size, a("0.0198"));
    }
}

#[test]
fn what_the_stop_leaves_is_dust() {
    let mut desk = coins(false, "0.001", "0.001");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    desk.paid("o-1", "0.02", "0.02", IN_BTC).unwrap();
    desk.works("o-1-stop", 1);
    desk.trade("o-1-stop", "0.019", "0.019", "6700");
    assert_eq!(desk.world.position(), a("0.00098"));
    assert_eq!(desk.orders(), [""; 0], "nothing is left that could sell it");
    let (book, rules, now) = (&desk.world.book, &desk.world.rules, desk.world.now);
    // At risk and shown, and not an open position.
    let shown = views::portfolio(book, rules, now, &std::collections::BTreeMap::new());
    assert!(shown.positions[0].dust);
    assert!(shown.exposure.unwrap().is_positive() && shown.open_risk.unwrap().is_positive());
    let open = shown
        .limits
        .iter()
        .find(|it| it.check == "max_open_positions");
    assert_eq!(open.unwrap().used, Some(Amount::ZERO));
    let held = &book.positions[&(btc(), trend())];
    assert_eq!(absent::left_to_close(book, held), Some(Amount::ZERO));
    // Orders against it are refused, and its thesis is free.
    assert_eq!(desk.world.refused(&sell("0.00098")), ["size_lot"]);
    assert_eq!(desk.world.refused(&sell("0.01")), ["reduce_only"]);
    desk.world.wait(600_000);
    desk.world.flat("6800");
    // The next entry takes it along.
    desk.submit(&buy("0.02"));
    let id = format!("o-{}", desk.world.seq);
    desk.works(&id, 1);
    desk.paid(&id, "0.02", "0.02", IN_BTC).unwrap();
    // 0.00098 + 0.01998 = 0.02096.
    let stop = &desk.world.book.orders[&oid(&id).stop()];
    assert_eq!(stop.size, a("0.02"));
}

#[test]
fn a_leg_below_the_smallest_order_gets_its_stop_once_it_is_larger() {
    let mut desk = coins(true, "0.001", "0.004");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    for (size, cum, expect) in [
        ("0.003", "0.003", vec![]),
        (
            "0.001",
            "0.004",
            vec!["place o-1-stop.1 sell 0.004 at 6700"],
        ),
        (
            "0.001",
            "0.005",
            vec!["replace o-1-stop.2 sell 0.005 at 6700"],
        ),
    ] {
        let told = desk.trade("o-1", size, cum, "6800");
        assert_eq!(told[1..], expect, "{cum}");
    }
    // The rest of the entry is cancelled while only dust has filled: nothing can close that.
    let mut desk = coins(true, "0.001", "0.004");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    desk.trade("o-1", "0.003", "0.003", "6800");
    desk.ended("o-1", "canceled", "0.003");
    assert_eq!((desk.orders(), desk.world.position()), (vec![], a("0.003")));
    assert!(desk.world.book.doubted_symbols.is_empty());
}

#[test]
fn stops_and_targets_follow_an_adjustment() {
    for reduce_only in [true, false] {
        let mut desk = coins(reduce_only, "0.0001", "0.0001");
        desk.submit(&with_target(buy("0.02"), "6900"));
        desk.works("o-1", 1);
        desk.paid("o-1", "0.02", "0.02", r#""fee":"0.01""#).unwrap();
        desk.works("o-1-stop", 1);
        let size = |desk: &Desk, id: &str| desk.world.book.orders[&oid(id)].size;
        // Sold 0.0101 at 6795: it had cost 6800 each.
        let told = desk.adjust("-0.0101", "6795").unwrap();
        assert_eq!(
            told[..2],
            ["filled o-5 sell 0.0101@6795", "closed o-5 filled"]
        );
        assert_eq!(desk.world.position(), a("0.0099"));
        assert_eq!(desk.account()[2], a("-0.0505"));
        assert_eq!(
            [size(&desk, "o-1-stop"), size(&desk, "o-1-target")],
            [a("0.0099"); 2]
        );
        // Bought: the stop grows, by whole lots.
        let stop_version = desk.world.book.orders[&oid("o-1-stop")]
            .at_venue
            .clone()
            .unwrap();
        desk.works("o-1-stop", stop_version.version);
        desk.adjust("0.00515", "6805").unwrap();
        assert_eq!(
            [size(&desk, "o-1-stop"), size(&desk, "o-1-target")],
            [a("0.015"); 2]
        );
        assert_eq!(desk.unprotected(), Amount::ZERO);
        assert!(desk.world.book.doubted_symbols.is_empty());
        // All of it is gone.
        desk.adjust("-0.01505", "6800").unwrap();
        assert!(desk.world.book.positions.is_empty());
        let orders = desk.world.book.orders.values();
        assert!(
            orders
                .into_iter()
                .all(|order| order.ending() == Some(OrderEnd::Retired))
        );
    }
}

#[test]
fn an_adjustment_without_a_stop_is_doubted() {
    let mut desk = coins(true, "0.0001", "0.0001");
    // Dust alone needs no stop.
    assert_eq!(desk.adjust("0.0007", "6800").unwrap().len(), 2);
    assert_eq!(
        desk.adjust("0.0001", "6800").unwrap(),
        [
            "filled o-2 buy 0.0001@6800",
            "closed o-2 filled",
            "doubted BTC-USD"
        ]
    );
    let doubt = &desk.world.book.doubted_symbols[&btc()];
    assert!(doubt.what.contains("no stop protects"), "{}", doubt.what);
    // It is held at the bridge, and can be closed there.
    let held = desk.world.book.positions[&(btc(), trend())].clone();
    assert_eq!(held.held_at.unwrap().bridge, bridge("exchange"));
    // Through flat to the other side.
    let told = desk.adjust("-0.001", "6800").unwrap();
    assert_eq!(
        told[..2],
        ["filled o-3 sell 0.0008@6800", "filled o-3 sell 0.0002@6800"]
    );
    assert_eq!(desk.world.position(), a("-0.0002"));
}

#[test]
fn adjustments_that_are_refused() {
    let mut desk = coins(true, "0.0001", "0.0001");
    let before = desk.world.book.clone();
    for (strategy, symbol, size, price, expect) in [
        (
            "nobody",
            "BTC-USD",
            "0.01",
            "6800",
            "strategy `nobody` has no file",
        ),
        ("trend", "DOGE-USD", "0.01", "6800", "`DOGE-USD` is not in"),
        ("trend", "ETH-USD", "0.01", "6800", "is traded on paper"),
        ("trend", "BTC-USD", "0", "6800", "changes nothing"),
        ("trend", "BTC-USD", "99999999999", "0.0000000001", ""),
        (
            "trend",
            "BTC-USD",
            "99999999999.9999999999",
            "99999999999.9999999999",
            "28 digits",
        ),
    ] {
        match desk.adjust_of(strategy, symbol, size, price) {
            Err(error) => {
                assert!(
                    !expect.is_empty() && error.to_string().contains(expect),
                    "{error}"
                );
            }
            Ok(_) => assert!(expect.is_empty(), "{expect}"),
        }
        desk.world.book = before.clone();
    }
    // Its instrument has moved to another bridge since.
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.world.rules.instruments.get_mut(&btc()).unwrap().bridge = Some(bridge("other"));
    let error = desk.adjust("0.01", "6800").unwrap_err().to_string();
    assert!(error.contains("is at another venue"), "{error}");
    // Where a position is, its venue counts, and the rules need not know it.
    let mut desk = coins(true, "0.0001", "0.0001");
    desk.submit(&buy("0.02"));
    desk.works("o-1", 1);
    desk.trade("o-1", "0.02", "0.02", "6800");
    desk.world.rules.instruments.remove(&btc());
    desk.world.rules.strategies.clear();
    desk.adjust("-0.001", "6800").unwrap();
    assert_eq!(desk.world.position(), a("0.019"));
}

/// An entry of 100,000 at the venue, with its stop.
fn endless(id: &str, side: Side) -> [Order; 2] {
    let mut desk = coins(true, "0.001", "0.002");
    desk.submit(&buy("0.01"));
    let mut orders = ["o-1", "o-1-stop"].map(|id| desk.world.book.orders[&oid(id)].clone());
    for order in &mut orders {
        order.order_id = OrderId {
            seq: oid(id).seq,
            ..order.order_id
        };
        let is_stop = order.role == OrderRole::Protective;
        order.side = if is_stop { side.opposite() } else { side };
    }
    let entry = &mut orders[0];
    entry.size = a("100000");
    let venue = entry.at_venue.as_mut().unwrap();
    (venue.version, venue.sizes) = (1, vec![Stated(1, entry.size, None)]);
    orders
}

/// A trade: whether it sells, its size, its price, its fee and in what it is paid.
type Traded = (bool, u16, u32, i32, u8);

/// What the account and the position must be after it.
struct Expected {
    cash: Amount,
    fees: Amount,
    position: Amount,
}

impl Expected {
    /// Follows a trade as the venue books it.
    fn trade(
        &mut self,
        (sells, size, price): (bool, Amount, Amount),
        fee: Amount,
        kind: u8,
    ) -> String {
        let notional = |units: Amount| units.checked_mul(price).unwrap();
        let plus = |sum: &mut Amount, more: Amount| *sum = sum.checked_add(more).unwrap();
        plus(
            &mut self.cash,
            if sells {
                notional(size)
            } else {
                -notional(size)
            },
        );
        let before = self.position;
        plus(&mut self.position, if sells { -size } else { size });
        let (value, name) = match kind % 3 {
            0 => (fee, "USD"),
            1 => (notional(fee), "BTC"),
            _ => (fee.checked_mul(a("3")).unwrap(), "BNB"),
        };
        plus(&mut self.fees, value);
        let opens = size.min(before.checked_add(size).unwrap());
        if name == "BTC" && !sells && fee.abs() < opens {
            plus(&mut self.position, -fee);
        } else {
            plus(&mut self.cash, -value);
        }
        let stated = if name == "BNB" {
            format!(r#","fee_value":"{value}""#)
        } else {
            String::new()
        };
        format!(r#""fee":"{fee}","fee_currency":"{name}"{stated}"#)
    }
}

fn the_identity_holds(template: &Book, rules: &spoolgate_rules::Rulebook, trades: &[Traded]) {
    let mut book = template.clone();
    let mut expected = Expected {
        cash: book.account.cash,
        fees: Amount::ZERO,
        position: Amount::ZERO,
    };
    let mut filled = [Amount::ZERO; 2];
    for (seq, (sells, size, price, fee, kind)) in trades.iter().enumerate() {
        let thousandth = |units: i64| Amount::from_i64(units).checked_mul(a("0.001")).unwrap();
        let (size, price) = (
            thousandth(i64::from(*size) + 1),
            thousandth(i64::from(*price) + 1),
        );
        let mut fee = Amount::from_i64(i64::from(*fee))
            .checked_mul(a("0.00000001"))
            .unwrap();
        if kind % 3 == 1 && fee.abs() >= size {
            fee = Amount::ZERO;
        }
        let fee = expected.trade((*sells, size, price), fee, *kind);
        let of = usize::from(*sells);
        filled[of] = filled[of].checked_add(size).unwrap();
        let text = format!(
            r#"{{"order_id":"o-{}","exec_type":"trade","exec_id":"E{seq}","transact_time":"2026-02-21T12:00:30Z","last_qty":"{size}","last_px":"{price}","liquidity":"maker","cum_qty":"{}",{fee}}}"#,
            of + 1,
            filled[of]
        );
        let report: VenueReport = serde_json::from_str(&text).unwrap();
        let by = Reporting {
            bridge: &bridge("exchange"),
            booked_in: None,
            now: Time::parse(NOON).unwrap(),
            seq: u64::try_from(seq).unwrap() + 10,
        };
        for change in on_report(&book, rules, &report, &by).unwrap() {
            book.apply(&change).unwrap();
        }
        let account = &book.account;
        let held = book.positions.values().next();
        assert_eq!(account.cash, expected.cash, "cash after {text}");
        assert_eq!(account.fees, expected.fees, "fees after {text}");
        let position = held.map_or(Amount::ZERO, |held| held.size);
        assert_eq!(position, expected.position, "position after {text}");
        let assets = account
            .cash
            .checked_add(held.map_or(Amount::ZERO, |held| held.cost));
        let earned = account.net_deposits.checked_add(account.realised);
        let earned = earned.and_then(|earned| earned.checked_sub(account.fees));
        let earned = earned.and_then(|earned| earned.checked_sub(account.funding));
        assert!(
            assets.is_some() && assets == earned,
            "{assets:?} is not {earned:?}: {text}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 10_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn cash_and_cost_are_what_was_paid_in_and_earned_whatever_fees_are_paid_in(
        trades in prop::collection::vec(
            (any::<bool>(), 0_u16..3000, 0_u32..20_000_000, -200_000_000_i32..200_000_000, any::<u8>()),
            1..12,
        ),
    ) {
        thread_local! {
            static TEMPLATE: (Book, spoolgate_rules::Rulebook) = {
                let mut world = World::new();
                for (id, side) in [("o-1", Side::Buy), ("o-2", Side::Sell)] {
                    world.apply(&endless(id, side).map(|order| Change::OrderPlaced(Box::new(order))));
                }
                (world.book, world.rules)
            };
        }
        TEMPLATE.with(|(book, rules)| the_identity_holds(book, rules, &trades));
    }
}

/// No venue takes a stop of less than its smallest order, by size or by value.
#[test]
fn no_stop_is_smaller_than_the_smallest_order() {
    // The smallest notional is 10 at a stop of 6700: 0.0015.
    let with = |min_size: &str| {
        let mut desk = coins(true, "0.0001", min_size);
        let instrument = desk.world.rules.instruments.get_mut(&btc()).unwrap();
        instrument.min_notional = a("10").try_into().unwrap();
        desk
    };
    let entry = |desk: &mut Desk, size: &str, thesis: u8| {
        desk.world.wait(1);
        let order = market_order("trend", "BTC-USD", "buy", size, "6700", thesis);
        desk.submit(&limit(order, &(6790 - desk.world.seq).to_string()));
        format!("o-{}", desk.world.seq)
    };
    let leaves = |desk: &Desk, id: &str| {
        let order = desk.world.book.orders.get(&oid(&format!("{id}-stop")));
        order.map_or(Amount::ZERO, |stop| stop.leaves())
    };
    for (min_size, least) in [("0.0001", "0.0015"), ("0.01", "0.01")] {
        let (least, lot) = (a(least), a("0.0001"));
        let less = least.checked_sub(lot).unwrap();
        let mut desk = with(min_size);
        // The first part is too small for a stop, and dust.
        let first = entry(&mut desk, "0.03", 0);
        desk.trade(&first, &less.to_string(), &less.to_string(), "6790");
        assert_eq!(leaves(&desk, &first), Amount::ZERO);
        assert!(desk.world.book.positions.values().all(Position::is_dust));
        // With the next lot it gets its stop.
        desk.trade(&first, "0.0001", &least.to_string(), "6790");
        assert_eq!(leaves(&desk, &first), least);
        let rest = a("0.03").checked_sub(least).unwrap();
        desk.trade(&first, &rest.to_string(), "0.03", "6790");
        // So it is with the first part of another entry, and the next takes it along.
        let second = entry(&mut desk, "0.03", 1);
        desk.trade(&second, &less.to_string(), &less.to_string(), "6790");
        assert_eq!(leaves(&desk, &second), Amount::ZERO);
        desk.trade(&second, "0.0001", &least.to_string(), "6790");
        assert_eq!(leaves(&desk, &second), least);
        // An exit leaves no piece that is too small: the next stop gives way instead.
        let held = a("0.03").checked_add(least).unwrap();
        let exit = a("0.03").checked_sub(less).unwrap();
        desk.submit(&sell(&exit.to_string()));
        let order = format!("o-{}", desk.world.seq);
        desk.trade(&order, &exit.to_string(), &exit.to_string(), "6790");
        let left = held.checked_sub(exit).unwrap();
        assert_eq!(desk.world.position(), left);
        let pieces = [leaves(&desk, &first), leaves(&desk, &second)];
        assert!(
            pieces
                .iter()
                .all(|piece| piece.is_zero() || *piece >= least),
            "{pieces:?}"
        );
        let covered = pieces[0].checked_add(pieces[1]).unwrap();
        let bare = left.checked_sub(covered).unwrap();
        assert!(!bare.is_negative() && bare < least, "{left} {pieces:?}");
    }
}
