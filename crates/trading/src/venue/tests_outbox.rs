//! Orders at a venue behind a bridge: the instructions to the bridge, the effects of its reports,
//! and every race between the two.

mod exits;
mod fees;
mod reports;
mod silence;
mod snapshots;

use super::outbox::{hand_over, owed};
use super::report::{Reporting, on_report};
use crate::book::{Book, Gap};
use crate::change::Change;
use crate::order::{OrderRole, Stated, Told};
use crate::risk;
use crate::testing::*;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{OrderId, Principal};
use spoolgate_wire::orders::SubmitOrder;
use spoolgate_wire::venue::VenueReport;

pub(super) struct Desk {
    pub(super) world: World,
    reports: u64,
}

impl Desk {
    /// Creates a world where BTC trades at a venue behind the bridge `exchange`, which keeps orders
    /// that reduce within the position, and ETH on paper.
    pub(super) fn new() -> Desk {
        Desk::at(true)
    }

    /// Creates such a world with a venue that does or does not keep orders that reduce within the
    /// position.
    pub(super) fn at(reduce_only: bool) -> Desk {
        let mut world = World::new();
        let btc = world.rules.instruments.get_mut(&btc()).unwrap();
        btc.venue = spoolgate_rules::instruments::Venue::Outbox;
        btc.bridge = Some(bridge("exchange"));
        btc.reduce_only = reduce_only;
        Desk { world, reports: 0 }
    }

    /// Creates a desk that holds this much with its stop at 6700, everything acknowledged: entry
    /// `o-1`, stop `o-1-stop`.
    fn holding(size: &str) -> Desk {
        Desk::holding_at(true, size)
    }

    /// The same with a venue that does or does not keep orders that reduce within the position.
    fn holding_at(reduce_only: bool, size: &str) -> Desk {
        let mut desk = Desk::at(reduce_only);
        desk.submit(&buy(size));
        desk.works("o-1", 1);
        desk.trade("o-1", size, size, "6800");
        desk.works("o-1-stop", 1);
        desk
    }

    /// Applies the changes of a line as the gate does.
    pub(super) fn line(&mut self, changes: Vec<Change>) -> Vec<String> {
        let changes = hand_over(
            &self.world.book,
            &self.world.rules.safety.bridges,
            changes,
            self.world.now,
        );
        self.world.apply(&changes);
        self.check();
        told(&changes)
    }

    fn check(&self) {
        assert_eq!(
            owed(
                &self.world.book,
                &self.world.rules.safety.bridges,
                self.world.now,
            ),
            [],
            "something is owed"
        );
        let account = &self.world.book.account;
        let costs = self.world.book.positions.values().map(|held| held.cost);
        let costs = costs.fold(Amount::ZERO, |sum, cost| sum.checked_add(cost).unwrap());
        let assets = account.cash.checked_add(costs).unwrap();
        let profit = account.realised.checked_sub(account.fees).unwrap();
        assert_eq!(assets, account.net_deposits.checked_add(profit).unwrap());
    }

    pub(super) fn submit(&mut self, order: &SubmitOrder) -> Vec<String> {
        let verdict = self.world.ask(order);
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        self.line(verdict.changes)
    }

    pub(super) fn cancel(&mut self, id: &str) -> Vec<String> {
        let before = self.world.book.clone();
        let verdict = self.world.cancel(oid(id));
        assert!(verdict.accepted, "{:#?}", failed(&verdict));
        self.world.book = before;
        self.line(verdict.changes)
    }

    pub(super) fn tighten(&mut self, id: &str, stop: &str) -> Result<Vec<String>, String> {
        let before = self.world.book.clone();
        let verdict = self.world.tighten(oid(id), stop);
        self.world.book = before;
        match failed(&verdict).first() {
            None => Ok(self.line(verdict.changes)),
            Some(row) => Err(row.reason.clone().unwrap().into_owned()),
        }
    }

    /// Books a report of `exchange`: returns the changes, or the code with the changes that apply
    /// nevertheless.
    pub(super) fn report(&mut self, id: &str, rest: &str) -> Result<Vec<String>, String> {
        self.reports += 1;
        let exec = format!("E{}", self.reports);
        self.report_by("exchange", id, &exec, None, rest)
    }

    fn report_by(
        &mut self,
        by: &str,
        id: &str,
        exec: &str,
        booked_in: Option<u64>,
        rest: &str,
    ) -> Result<Vec<String>, String> {
        let text = format!(
            r#"{{"order_id":"{id}","exec_id":"{exec}","transact_time":"2026-02-21T12:00:30Z",{rest}}}"#
        );
        let report: VenueReport = serde_json::from_str(&text).unwrap();
        self.world.seq += 1;
        let bridge = bridge(by);
        let by = Reporting {
            bridge: &bridge,
            booked_in,
            now: self.world.now,
            seq: self.world.seq,
        };
        match on_report(&self.world.book, &self.world.rules, &report, &by) {
            Ok(changes) => Ok(self.line(changes)),
            Err(refused) => {
                let done = self.line(refused.changes);
                Err([vec![refused.code.to_string()], done].concat().join("; "))
            }
        }
    }

    fn works(&mut self, id: &str, version: u32) -> Vec<String> {
        let filled = self.world.book.orders[&oid(id)].filled;
        self.report(
            id,
            &format!(r#""exec_type":"new","version":{version},"cum_qty":"{filled}""#),
        )
        .unwrap()
    }

    fn try_trade(
        &mut self,
        id: &str,
        size: &str,
        cum: &str,
        price: &str,
    ) -> Result<Vec<String>, String> {
        let rest = format!(
            r#""exec_type":"trade","last_qty":"{size}","last_px":"{price}","fee":"0.01","liquidity":"taker","cum_qty":"{cum}""#
        );
        self.report(id, &rest)
    }

    pub(super) fn trade(&mut self, id: &str, size: &str, cum: &str, price: &str) -> Vec<String> {
        self.try_trade(id, size, cum, price).unwrap()
    }

    fn ended(&mut self, id: &str, how: &str, cum: &str) -> Vec<String> {
        let text = if how == "rejected" {
            r#","text":"no such price""#
        } else {
            ""
        };
        let version = self.world.book.orders[&oid(id)]
            .at_venue
            .as_ref()
            .unwrap()
            .version;
        self.report(
            id,
            &format!(r#""exec_type":"{how}","cum_qty":"{cum}","version":{version}{text}"#),
        )
        .unwrap()
    }

    /// The open orders, as `id size/filled` with a mark for ending orders.
    pub(super) fn orders(&self) -> Vec<String> {
        let shown = |order: &crate::order::Order| {
            let ending = if order.ending().is_some() {
                " ending"
            } else {
                ""
            };
            format!(
                "{} {}/{}{ending}",
                order.order_id,
                order.size.normalized(),
                order.filled.normalized()
            )
        };
        self.world.book.orders.values().map(shown).collect()
    }

    fn unprotected(&self) -> Amount {
        unprotected(&self.world.book)
    }
}

fn bridge(name: &str) -> Principal {
    Principal::parse(name).unwrap()
}

pub(super) fn oid(text: &str) -> OrderId {
    OrderId::parse(text).unwrap()
}

/// The part of the BTC position that is covered neither by a stop nor by a market order that closes
/// it, if an order can close as much; nothing of a position that no order can close.
pub(super) fn unprotected(book: &Book) -> Amount {
    let held = book.positions.get(&(btc(), trend()));
    let Some(held) = held.filter(|held| !held.is_dust()) else {
        return Amount::ZERO;
    };
    let flattening = book.orders.values().filter(|order| {
        order.order_id.leg == spoolgate_wire::ids::Leg::Flatten
            && order.side == held.closing_side()
            && order.ending().is_none()
    });
    let covered = risk::stops_of(book, held)
        .chain(flattening)
        .map(|order| order.leaves());
    let left = covered.fold(held.whole(), |left, size| left.checked_sub(size).unwrap());
    let units = held.held_at.as_ref().and_then(|at| at.units.as_ref());
    let is_dust = units.is_some_and(|units| units.is_dust(left));
    if is_dust { Amount::ZERO } else { left }
}

/// The changes in words, without those that every trade has.
pub(super) fn told(changes: &[Change]) -> Vec<String> {
    let word = |change: &Change| match change {
        Change::Instructed(told) => {
            let verb = serde_json::to_string(&told.instruction)
                .unwrap()
                .replace('"', "");
            let at = told
                .price
                .or(told.trigger)
                .map_or(String::new(), |at| format!(" at {}", at.normalized()));
            let (id, version, side) = (told.order_id, told.version, told.side.as_str());
            Some(format!(
                "{verb} {id}.{version} {side} {}{at}",
                told.size.normalized()
            ))
        }
        Change::OrderEnding { order_id, end, .. } => {
            Some(format!("ending {order_id} {end:?}").to_lowercase())
        }
        Change::OrderClosed { order_id, end, .. } => {
            Some(format!("closed {order_id} {end:?}").to_lowercase())
        }
        Change::OrderRefused {
            order_id, reason, ..
        } => Some(format!("refused {order_id}: {reason}")),
        Change::OrderFilled(fill) => {
            let (id, side, size) = (fill.order_id, fill.side.as_str(), fill.size.normalized());
            Some(format!(
                "filled {id} {side} {size}@{}",
                fill.price.normalized()
            ))
        }
        Change::OrderTriggered { order_id } => Some(format!("triggered {order_id}")),
        Change::SymbolDoubted { symbol, .. } => Some(format!("doubted {symbol}")),
        _ => None,
    };
    changes.iter().filter_map(word).collect()
}

fn with_target(mut order: SubmitOrder, price: &str) -> SubmitOrder {
    order.target_price = Some(a(price));
    order
}

#[test]
fn a_trade_from_entry_to_stop_by_the_book() {
    let mut desk = Desk::new();
    assert_eq!(desk.submit(&buy("0.02")), ["place o-1.1 buy 0.02"]);
    assert_eq!(desk.works("o-1", 1), [""; 0]);
    assert_eq!(
        desk.trade("o-1", "0.01", "0.01", "6801"),
        [
            "filled o-1 buy 0.01@6801",
            "place o-1-stop.1 sell 0.01 at 6700"
        ]
    );
    assert_eq!(
        desk.trade("o-1", "0.01", "0.02", "6802"),
        [
            "filled o-1 buy 0.01@6802",
            "closed o-1 filled",
            "replace o-1-stop.2 sell 0.02 at 6700"
        ]
    );
    assert_eq!(desk.works("o-1-stop", 2), [""; 0]);
    assert_eq!(
        desk.tighten("o-1", "6750").unwrap(),
        ["replace o-1-stop.3 sell 0.02 at 6750"]
    );
    assert_eq!(desk.tighten("o-1", "6750").unwrap(), [""; 0]);
    assert_eq!(
        desk.trade("o-1-stop", "0.005", "0.005", "6749"),
        ["triggered o-1-stop", "filled o-1-stop sell 0.005@6749"]
    );
    assert_eq!(
        desk.trade("o-1-stop", "0.015", "0.02", "6748"),
        ["filled o-1-stop sell 0.015@6748", "closed o-1-stop filled"]
    );
    assert_eq!(
        (desk.orders(), desk.world.position()),
        (vec![], Amount::ZERO)
    );
    // The fees of four fills and the loss; the stop-out counts as on paper.
    assert_eq!(desk.world.book.account.fees, a("0.04"));
    assert!(desk.world.book.conduct[&trend()].stopped_out_at.is_some());
}

#[test]
fn market_rows_move_marks_and_fill_nothing() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6690", 1),
        "6790",
    ));
    let rows = desk.world.bar("6500", "6900", "6400", "6600");
    assert!(
        rows.iter()
            .all(|change| matches!(change, Change::MarketMoved { .. })),
        "{rows:?}"
    );
    assert_eq!(
        desk.world.book.markets[&btc()].last.as_ref().unwrap().price,
        a("6600")
    );
    assert_eq!(
        desk.orders(),
        ["o-1-stop 0.01/0", "o-5 0.01/0", "o-5-stop 0/0"]
    );
    // ETH trades on paper at the same time.
    let verdict = desk
        .world
        .ask(&market_order("trend", "ETH-USD", "buy", "1", "195", 0));
    assert!(verdict.accepted, "{:#?}", failed(&verdict));
    assert_eq!(desk.line(verdict.changes), [""; 0]);
    desk.world.wait(1000);
    assert_eq!(fills(&desk.world.quote("200", "200.2")).len(), 1);
}

#[test]
fn the_paper_venues_filters_are_not_those_of_a_real_one() {
    let mut desk = Desk::holding("0.01");
    desk.world
        .rules
        .instruments
        .get_mut(&btc())
        .unwrap()
        .percent_price = Some(a("0.1").try_into().unwrap());
    assert_eq!(
        desk.submit(&limit(sell("0.01"), "9000")),
        ["place o-5.1 sell 0.01 at 9000"]
    );
    let open = desk.orders();
    let before = desk.world.book.clone();
    let changes = desk.world.bar("6800", "6800", "6800", "6800");
    desk.world.book = before;
    desk.line(changes);
    assert_eq!(
        desk.orders(),
        open,
        "whether it takes an order is the venue's to say"
    );
}

#[test]
fn an_order_that_is_to_end_stays_reserved_until_the_venue_says_so() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    assert_eq!(
        desk.cancel("o-1"),
        [
            "ending o-1 cancelled",
            "closed o-1-stop retired",
            "cancel o-1.2 buy 0.02 at 6790"
        ]
    );
    assert_eq!(desk.orders(), ["o-1 0.02/0 ending"]);
    assert_eq!(desk.cancel("o-1"), [""; 0], "a second cancel is a no-op");
    let open = desk.world.row_of(&buy("0.01"), "max_open_orders");
    assert_eq!(open.value, Some(a("2")), "it still counts");
    assert_eq!(desk.ended("o-1", "canceled", "0"), ["closed o-1 cancelled"]);
    assert_eq!(desk.orders(), [""; 0]);
}

#[test]
fn a_fill_while_its_entry_ends_leaves_at_once_or_is_covered() {
    // Nothing had filled, so the stop is already gone.
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.cancel("o-1");
    let late = desk.trade("o-1", "0.01", "0.01", "6790");
    assert_eq!(
        late,
        ["filled o-1 buy 0.01@6790", "place o-3-flatten.1 sell 0.01"]
    );
    assert_eq!(desk.unprotected(), Amount::ZERO);
    assert_eq!(
        desk.trade("o-3-flatten", "0.01", "0.01", "6780"),
        [
            "filled o-3-flatten sell 0.01@6780",
            "closed o-3-flatten filled"
        ]
    );
    assert_eq!(
        desk.ended("o-1", "canceled", "0.01"),
        ["closed o-1 cancelled"]
    );
    assert_eq!(
        (desk.orders(), desk.world.position()),
        (vec![], Amount::ZERO)
    );
    // Part had filled, so the stop grows.
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.trade("o-1", "0.01", "0.01", "6790");
    desk.cancel("o-1");
    let late = desk.trade("o-1", "0.01", "0.02", "6790");
    assert_eq!(
        late,
        [
            "filled o-1 buy 0.01@6790",
            "closed o-1 filled",
            "replace o-1-stop.2 sell 0.02 at 6700"
        ]
    );
    assert_eq!(desk.orders(), ["o-1-stop 0.02/0"]);
}

#[test]
fn a_stop_at_work_does_not_grow_any_more() {
    let mut desk = Desk::new();
    desk.submit(&limit(buy("0.02"), "6790"));
    desk.trade("o-1", "0.01", "0.01", "6790");
    let stopped = desk.trade("o-1-stop", "0.004", "0.004", "6699");
    assert_eq!(
        stopped,
        [
            "triggered o-1-stop",
            "ending o-1 retired",
            "filled o-1-stop sell 0.004@6699",
            "cancel o-1.2 buy 0.02 at 6790"
        ]
    );
    let late = desk.trade("o-1", "0.005", "0.015", "6698");
    assert_eq!(
        late,
        [
            "filled o-1 buy 0.005@6698",
            "place o-4-flatten.1 sell 0.005"
        ]
    );
    assert_eq!(desk.unprotected(), Amount::ZERO);
    assert_eq!(desk.world.position(), a("0.011"));
}

#[test]
fn a_stop_that_is_lost_takes_its_position_to_the_market() {
    for how in ["canceled", "expired", "rejected"] {
        let mut desk = Desk::new();
        desk.submit(&with_target(limit(buy("0.02"), "6790"), "6900"));
        desk.trade("o-1", "0.01", "0.01", "6790");
        let lost = desk.ended("o-1-stop", how, "0");
        let gone = match how {
            "canceled" => "closed o-1-stop cancelled",
            "expired" => "closed o-1-stop expired",
            _ => "refused o-1-stop: no such price",
        };
        let expect = [
            gone,
            "ending o-1 retired",
            "ending o-1-target retired",
            "cancel o-1.2 buy 0.02 at 6790",
            "cancel o-1-target.2 sell 0.01 at 6900",
            "place o-3-flatten.1 sell 0.01",
        ];
        assert_eq!(lost, expect);
        assert_eq!(desk.unprotected(), Amount::ZERO);
        // While the target is still there, both may fill; the excess is bought back at once.
        desk.trade("o-3-flatten", "0.01", "0.01", "6780");
        let crossed = desk.trade("o-1-target", "0.004", "0.004", "6900");
        assert_eq!(
            crossed,
            [
                "filled o-1-target sell 0.004@6900",
                "place o-5-flatten.1 buy 0.004"
            ],
            "{how}"
        );
        assert_eq!(desk.world.position(), a("-0.004"));
        assert_eq!(desk.unprotected(), Amount::ZERO);
        desk.trade("o-5-flatten", "0.004", "0.004", "6900");
        desk.ended("o-1-target", "canceled", "0.004");
        desk.ended("o-1", "canceled", "0.01");
        assert_eq!(
            (desk.orders(), desk.world.position()),
            (vec![], Amount::ZERO)
        );
        assert_eq!(desk.world.book.doubted_symbols.len(), 0);
    }
}

#[test]
fn a_stop_of_old_size_may_still_fill_as_large() {
    let mut desk = Desk::holding("0.01");
    desk.submit(&sell("0.008"));
    desk.trade("o-5", "0.004", "0.004", "6790");
    assert_eq!(desk.orders(), ["o-1-stop 0.006/0", "o-5 0.008/0.004"]);
    let stop = |desk: &Desk| {
        desk.world.book.orders[&oid("o-1-stop")]
            .at_venue
            .clone()
            .unwrap()
    };
    assert_eq!(stop(&desk).most(), a("0.01"));
    desk.report(
        "o-1-stop",
        r#""exec_type":"replaced","version":1,"cum_qty":0"#,
    )
    .unwrap();
    assert_eq!(stop(&desk).most(), a("0.01"), "an older version");
    desk.report(
        "o-1-stop",
        r#""exec_type":"replaced","version":2,"cum_qty":0"#,
    )
    .unwrap();
    assert_eq!(stop(&desk).most(), a("0.006"));
    let error = desk
        .try_trade("o-1-stop", "0.007", "0.007", "6700")
        .unwrap_err();
    assert_eq!(error, "REPORT_IMPOSSIBLE; doubted BTC-USD");
    // An order that filled to its new size is over only when the venue can no longer be working the
    // old size.
    let mut desk = Desk::holding("0.01");
    desk.submit(&sell("0.008"));
    desk.trade("o-5", "0.004", "0.004", "6790");
    let whole = desk.trade("o-1-stop", "0.006", "0.006", "6700");
    assert_eq!(
        whole[2..4],
        ["ending o-1-stop filled", "ending o-5 retired"],
        "{whole:?}"
    );
    assert_eq!(
        desk.report(
            "o-1-stop",
            r#""exec_type":"replaced","version":2,"cum_qty":"0.006""#
        )
        .unwrap(),
        ["closed o-1-stop filled"]
    );
    assert_eq!(desk.orders(), ["o-5 0.008/0.004 ending"]);
}

#[test]
fn an_ending_stop_protects_nothing_and_cannot_be_tightened() {
    let mut desk = Desk::holding("0.01");
    let risk = |desk: &Desk| {
        let rules = &desk.world.rules;
        let held = &desk.world.book.positions[&(btc(), trend())];
        risk::of_position(
            &desk.world.book,
            held,
            a("6800"),
            &rules.instruments[&btc()],
            &rules.safety,
            desk.world.now,
        )
        .unwrap()
    };
    assert!(risk(&desk) < a("2"));
    let at = desk.world.now;
    let end = crate::order::OrderEnd::Retired;
    desk.line(vec![Change::OrderClosed {
        order_id: oid("o-1-stop"),
        end,
        at,
        why: None,
    }]);
    assert_eq!(desk.orders(), ["o-1-stop 0.01/0 ending"]);
    assert_eq!(risk(&desk), a("68"), "the whole notional");
    assert_eq!(
        desk.tighten("o-1", "6750").unwrap_err(),
        "the venue was already asked to end the stop"
    );
    // A stop that was asked to end is not lost when it goes.
    assert_eq!(
        desk.ended("o-1-stop", "canceled", "0"),
        ["closed o-1-stop retired"]
    );
}

#[test]
fn a_day_order_is_asked_to_end_once_its_day_is_over() {
    let mut desk = Desk::new();
    let mut day = limit(buy("0.02"), "6790");
    day.time_in_force = spoolgate_wire::orders::TimeInForce::Day;
    desk.submit(&day);
    desk.world.wait(13 * 3_600_000);
    let over = |desk: &Desk| super::end_day(&desk.world.book, desk.world.now);
    let changes = over(&desk);
    assert_eq!(
        desk.line(changes),
        [
            "ending o-1 expired",
            "closed o-1-stop retired",
            "cancel o-1.2 buy 0.02 at 6790"
        ]
    );
    let changes = over(&desk);
    assert_eq!(desk.line(changes), [""; 0]);
    assert_eq!(desk.ended("o-1", "canceled", "0"), ["closed o-1 expired"]);
}

#[test]
fn more_than_fits_a_line_is_done_in_the_next() {
    let mut desk = Desk::holding("0.05");
    desk.world.rules.instruments.get_mut(&btc()).unwrap().lot = a("0.0001").try_into().unwrap();
    desk.world
        .rules
        .instruments
        .get_mut(&btc())
        .unwrap()
        .min_size = a("0.0001").try_into().unwrap();
    for _ in 0..240 {
        desk.submit(&limit(sell("0.0002"), "6900"));
        // Earlier versions told the bridge of each at once.
        let orders = desk.world.book.orders.values_mut();
        for order in orders.filter(|order| order.is_untold()) {
            let (size, trigger) = (order.size, order.trigger);
            let venue = order.at_venue.as_mut().unwrap();
            venue.told = Some(Told { size, trigger });
            (venue.version, venue.sizes) = (1, vec![Stated(1, size, None)]);
        }
    }
    let stop = r#"{"order_id":"o-1-stop","exec_id":"E-9","transact_time":"2026-02-21T12:00:30Z","exec_type":"trade",
        "last_qty":"0.05","last_px":"6700","fee":0,"liquidity":"taker","cum_qty":"0.05"}"#;
    let report: VenueReport = serde_json::from_str(stop).unwrap();
    let bridge = bridge("exchange");
    let by = Reporting {
        bridge: &bridge,
        booked_in: None,
        now: desk.world.now,
        seq: 999,
    };
    let changes = on_report(&desk.world.book, &desk.world.rules, &report, &by).unwrap();
    let mut line = hand_over(
        &desk.world.book,
        &desk.world.rules.safety.bridges,
        changes,
        desk.world.now,
    );
    let mut lines = 0;
    while !line.is_empty() {
        assert!(serde_json::to_vec(&line).unwrap().len() < 50_000);
        desk.world.apply(&line);
        line = owed(
            &desk.world.book,
            &desk.world.rules.safety.bridges,
            desk.world.now,
        );
        lines += 1;
        assert!(lines < 20);
    }
    let cancelled = |order: &crate::order::Order| {
        order.ending().is_some()
            && order
                .at_venue
                .as_ref()
                .is_some_and(|venue| venue.told.is_none())
    };
    assert_eq!(desk.world.book.orders.len(), 240);
    assert!(desk.world.book.orders.values().all(cancelled), "{lines}");
    assert!(
        desk.world
            .book
            .orders
            .values()
            .all(|order| order.role == OrderRole::Exit)
    );
}
