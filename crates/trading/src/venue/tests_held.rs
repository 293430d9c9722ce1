//! Rows that open implausibly far from the last price: held, believed or dropped.

use super::{Step, count_new};
use crate::absent::close_at_market;
use crate::book::{Book, Market};
use crate::change::Change;
use crate::market_row::Row;
use crate::order::Order;
use crate::testing::*;
use spoolgate_rules::instruments::{MarketSource, Venue};
use spoolgate_wire::ids::{OrderId, Symbol};
use spoolgate_wire::time::Time;
use std::collections::BTreeMap;

/// A bar that ends `end_s` seconds after noon, with one price.
fn bar_at(end_s: i64, length_s: i64, price: &str) -> Row {
    bar_from(end_s, length_s, price, price)
}

fn bar_from(end_s: i64, length_s: i64, open: &str, close: &str) -> Row {
    let (open, close) = (a(open), a(close));
    Row::Bar {
        open_ms: noon() + (end_s - length_s) * 1000,
        interval_ms: length_s * 1000,
        open,
        high: open.max(close),
        low: open.min(close),
        close,
        volume: None,
    }
}

fn quote_at(s: i64, bid: &str, ask: &str) -> Row {
    Row::Quote {
        time_ms: noon() + s * 1000,
        bid: a(bid),
        ask: a(ask),
        bid_size: None,
        ask_size: None,
    }
}

fn noon() -> i64 {
    Time::parse(NOON).unwrap().ms()
}

/// What happened to rows, in order.
fn told(changes: &[Change]) -> Vec<&'static str> {
    let told = |change: &Change| match change {
        Change::RowHeld { .. } => Some("held"),
        Change::RowDropped { .. } => Some("dropped"),
        Change::SymbolHalted { .. } => Some("halted"),
        Change::MarketMoved { .. } => Some("moved"),
        Change::OrderFilled(_) => Some("filled"),
        Change::ThesisRefuted { .. } => Some("refuted"),
        Change::PeakRaised { .. } => Some("peak"),
        Change::DrawdownLatched { .. } => Some("latched"),
        _ => None,
    };
    changes.iter().filter_map(told).collect()
}

fn changes(steps: Vec<Step>) -> Vec<Change> {
    steps.into_iter().flat_map(|step| step.changes).collect()
}

/// Takes the rows in one import, which must do what they do one by one, with a restart after each.
fn take(world: &mut World, symbol: &Symbol, rows: &[Row]) -> Vec<&'static str> {
    let mut book = world.book.clone();
    for row in rows {
        for step in
            super::on_rows(&book, &world.rules, symbol, &[*row], None, world.now, 0).unwrap()
        {
            step.changes
                .iter()
                .for_each(|change| book.apply(change).unwrap());
        }
        let kept = serde_json::to_string(&book).unwrap();
        book = serde_json::from_str(&kept).unwrap();
    }
    let done = changes(world.rows(symbol, rows));
    assert_eq!(world.book, book, "{rows:?}");
    told(&done)
}

fn held(world: &World, symbol: &Symbol) -> Option<Row> {
    world.book.markets[symbol]
        .held
        .as_ref()
        .map(|held| held.row)
}

/// A world whose ETH has quotes for everything; `trend` holds 0.1 ETH bought at 200.2, with a stop
/// at 197 and theses that end at 100 and at 90000. The newest quote is of noon and 61 seconds.
fn holding_eth() -> World {
    let mut world = World::new();
    world.accepted(&market_order("trend", "ETH-USD", "buy", "0.1", "197", 0));
    world.wait(1000);
    world.quote("200", "200.2");
    assert_eq!(world.book.positions.len(), 1);
    world.wait(3_600_000);
    world
}

/// What a wild row must leave alone.
fn unmoved(book: &Book) -> (Book, BTreeMap<OrderId, Order>) {
    let mut book = book.clone();
    let orders = book.orders.clone();
    let market = |market: &Market| Market {
        held: None,
        last: None,
        quote: None,
        bars: Default::default(),
        ..market.clone()
    };
    book.markets = book
        .markets
        .iter()
        .map(|(symbol, known)| (symbol.clone(), market(known)))
        .collect();
    (book, orders)
}

/// At the limit, one unit below it and one above, upwards and downwards: the default of 0.10, that
/// of bars of an hour, and a value of the file.
#[test]
fn a_row_is_held_if_it_opens_further_than_the_limit() {
    let hour = 3600;
    for (max_gap, bar_s, open, is_held) in [
        (None, 60, "7479.9", false),
        (None, 60, "7480", false),
        (None, 60, "7480.1", true),
        (None, 60, "6120.1", false),
        (None, 60, "6120", false),
        (None, 60, "6119.9", true),
        (None, hour - 1, "7480.1", true),
        (None, hour, "7480.1", false),
        (None, hour, "8500", false),
        (None, hour, "8500.1", true),
        (None, hour, "5100", false),
        (None, hour, "5099.9", true),
        (Some("0.01"), hour, "6868", false),
        (Some("0.01"), hour, "6868.1", true),
        (Some("0.01"), 60, "6732", false),
        (Some("0.01"), 60, "6731.9", true),
        (Some("1000000"), 60, "999999999", false),
        (Some("1000000"), 60, "0.1", false),
    ] {
        let mut world = World::new();
        let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
        instrument.bar_s = bar_s.try_into().unwrap();
        if let Some(max) = max_gap {
            world.gap_of(&btc(), max);
        }
        world.rules.theses.clear();
        let row = bar_at(120, 60, open);
        world.wait(60_000);
        let seen = take(&mut world, &btc(), &[row]);
        let context = format!("{max_gap:?} {bar_s} {open}");
        assert_eq!(held(&world, &btc()), is_held.then_some(row), "{context}");
        assert_eq!(
            seen,
            if is_held { ["held"] } else { ["moved"] },
            "{context}"
        );
        assert!(world.book.halted_symbols.is_empty(), "{context}");
    }
    for (bid, ask, is_held) in [
        ("200", "220.22", false),
        ("200", "220.23", true),
        ("180", "200.2", false),
        ("179.99", "200.2", true),
    ] {
        let mut world = World::new();
        world.wait(60_000);
        take(&mut world, &eth(), &[quote_at(61, bid, ask)]);
        assert_eq!(held(&world, &eth()).is_some(), is_held, "{bid} {ask}");
    }
}

/// A row shorter than an hour is held; a longer one is used, and its gap halts at once.
#[test]
fn rows_of_an_hour_and_more_are_never_held() {
    for (length_ms, is_held) in [(3_599_999, true), (3_600_000, false), (86_400_000, false)] {
        let mut world = World::holding("0.01");
        world.wait(2 * 86_400_000);
        let row = Row::Bar {
            open_ms: world.now.ms() - length_ms,
            interval_ms: length_ms,
            open: a("6000"),
            high: a("6000"),
            low: a("6000"),
            close: a("6000"),
            volume: None,
        };
        let seen = take(&mut world, &btc(), &[row]);
        if is_held {
            assert_eq!(seen, ["held"]);
        } else {
            assert_eq!(seen, ["halted", "filled", "moved"]);
        }
        assert_eq!(world.book.positions.is_empty(), !is_held, "{length_ms}");
    }
}

/// The next row agrees at the limit and one unit within it, and not one unit beyond, whether it is
/// of the same kind or of the other; a bar must be near both ends of a held bar. What is plausible
/// after the price before does not agree with another price, however near that is.
#[test]
fn the_next_row_settles_the_held_one() {
    let wild_bar = bar_at(120, 60, "10000");
    let wild_quote = quote_at(61, "300", "310");
    let low_quote = quote_at(61, "100", "102");
    for (symbol, wild, next, agrees) in [
        (btc(), wild_bar, bar_at(180, 60, "10999.9"), true),
        (btc(), wild_bar, bar_at(180, 60, "11000"), true),
        (btc(), wild_bar, bar_at(180, 60, "11000.1"), false),
        (btc(), wild_bar, bar_at(180, 60, "9000"), true),
        (btc(), wild_bar, bar_at(180, 60, "8999.9"), false),
        (btc(), wild_bar, quote_at(62, "9000", "11000"), true),
        (btc(), wild_bar, quote_at(62, "8999.9", "11000"), false),
        (btc(), wild_bar, quote_at(62, "9000", "11000.1"), false),
        // Within 10% of 7481 and, but for the last one, of 6800.
        (
            btc(),
            bar_at(120, 60, "7481"),
            bar_at(180, 60, "6800"),
            false,
        ),
        (
            btc(),
            bar_at(120, 60, "7481"),
            bar_at(180, 60, "7480"),
            false,
        ),
        (
            btc(),
            bar_at(120, 60, "7481"),
            bar_at(180, 60, "7480.1"),
            true,
        ),
        (
            btc(),
            bar_at(120, 60, "7481"),
            quote_at(62, "7000", "7480"),
            false,
        ),
        (
            btc(),
            bar_at(120, 60, "7481"),
            quote_at(62, "7000", "7480.1"),
            true,
        ),
        // A first print that was wrong: the close says nothing for it.
        (
            btc(),
            bar_from(120, 60, "1", "6800"),
            bar_at(180, 60, "6800"),
            false,
        ),
        // A last print that was wrong.
        (
            btc(),
            bar_from(120, 60, "8000", "9"),
            bar_at(180, 60, "8000"),
            false,
        ),
        (
            btc(),
            bar_from(120, 60, "8000", "8700"),
            bar_at(180, 60, "8600"),
            true,
        ),
        (eth(), wild_quote, quote_at(62, "270", "341"), true),
        (eth(), wild_quote, quote_at(62, "269.99", "310"), false),
        (eth(), wild_quote, quote_at(62, "300", "341.01"), false),
        (eth(), wild_quote, bar_at(61, 60, "330"), true),
        (eth(), wild_quote, bar_at(61, 60, "330.01"), false),
        (eth(), wild_quote, bar_at(61, 60, "279"), true),
        (eth(), wild_quote, bar_at(61, 60, "278.99"), false),
        (eth(), low_quote, quote_at(62, "110", "112.2"), true),
        (eth(), low_quote, quote_at(62, "110.01", "112.2"), false),
        (eth(), low_quote, quote_at(62, "90", "91.8"), true),
        (eth(), low_quote, quote_at(62, "90", "91.79"), false),
    ] {
        let mut world = World::new();
        world.rules.theses.clear();
        world.wait(3_600_000);
        // ETH has a bar too, so that its bars can gap.
        world.rows(&eth(), &[bar_at(0, 60, "200")]);
        let seen = take(&mut world, &symbol, &[wild, next]);
        let context = format!("{wild:?} {next:?}");
        let is_halted = world.book.halted_symbols.contains_key(&symbol);
        assert_eq!(is_halted, agrees, "{context}: {seen:?}");
        if agrees {
            assert_eq!(seen, ["held", "halted", "moved"], "{context}");
            assert_eq!(held(&world, &symbol), None, "{context}");
            let gap = &world.book.halted_symbols[&symbol];
            assert_eq!(gap.time.ms(), wild.known_ms(), "{context}");
        } else {
            assert_eq!(seen[..2], ["held", "dropped"], "{context}");
        }
    }
}

/// A wild quote first, in the middle, last, twice with another between: nothing but the market
/// remembers it. Two that agree are believed.
#[test]
fn one_wild_row_moves_nothing_and_two_that_agree_are_believed() {
    let high = |s: i64| quote_at(s, "999999", "1000000");
    let low = |s: i64| quote_at(s, "1", "1.01");
    let sane = |s: i64| quote_at(s, "200", "200.2");
    for rows in [
        vec![high(71)],
        vec![low(71)],
        vec![high(71), sane(72)],
        vec![low(71), sane(72)],
        vec![sane(71), high(72), sane(73)],
        vec![sane(71), low(72), sane(73)],
        vec![high(71), sane(72), high(73), sane(74)],
        vec![low(71), sane(72), low(73)],
        vec![high(71), low(72), high(73), low(74), sane(75)],
    ] {
        let mut world = holding_eth();
        let before = unmoved(&world.book);
        take(&mut world, &eth(), &rows);
        assert_eq!(unmoved(&world.book), before, "{rows:?}");
        let is_last_wild = rows.last() != Some(&sane(70 + i64::try_from(rows.len()).unwrap()));
        assert_eq!(held(&world, &eth()).is_some(), is_last_wild, "{rows:?}");
        let quote = world.book.markets[&eth()].quote.clone().unwrap();
        assert_eq!((quote.bid, quote.ask), (a("200"), a("200.2")), "{rows:?}");
    }
    let mut world = holding_eth();
    let mut seen = take(&mut world, &eth(), &[low(71), low(72)]);
    seen.dedup();
    assert_eq!(seen, ["held", "halted", "filled", "refuted", "moved"]);
    assert!(world.book.positions.is_empty(), "the stop has left");
}

/// The same rows on bars, among them the first rows of a symbol: a wild first row is believed,
/// because there is nothing to compare it with, and the market after it is believed again when two
/// rows agree.
#[test]
fn bars_are_held_like_quotes() {
    let wild = |n: i64| bar_at(60 * n + 120, 60, "1");
    let sane = |n: i64| bar_at(60 * n + 120, 60, "6800");
    for rows in [
        vec![wild(1)],
        vec![wild(1), sane(2)],
        vec![sane(1), wild(2), sane(3)],
        vec![wild(1), sane(2), wild(3), sane(4)],
    ] {
        let mut world = World::holding("0.01");
        world.wait(3_600_000);
        let before = unmoved(&world.book);
        take(&mut world, &btc(), &rows);
        assert_eq!(unmoved(&world.book), before, "{rows:?}");
        assert_eq!(
            world.book.markets[&btc()].last.as_ref().unwrap().price,
            a("6800")
        );
    }
    let mut world = World::holding("0.01");
    world.wait(3_600_000);
    let seen = take(&mut world, &btc(), &[wild(1), wild(2)]);
    assert_eq!(seen[..3], ["held", "halted", "filled"]);
    let mut world = World::new();
    world.book.markets.clear();
    world.rules.theses.clear();
    world.wait(3_600_000);
    let seen = take(&mut world, &btc(), &[wild(1), sane(2), sane(3)]);
    assert_eq!(seen[..2], ["moved", "held"]);
    assert_eq!(
        world.book.markets[&btc()].last.as_ref().unwrap().price,
        a("6800")
    );
    assert!(world.book.halted_symbols.contains_key(&btc()));
}

/// While a row is held, entries of its symbol fail `market_data` and exits pass; nothing of the
/// symbol fills on it, and what was sent meanwhile does not fill on it later either. Other symbols
/// go on.
#[test]
fn a_held_row_closes_entries_and_no_exit() {
    let mut world = World::holding("0.01");
    let resting = world.accepted(&limit(
        market_order("trend", "BTC-USD", "buy", "0.01", "6600", 1),
        "6790",
    ));
    let wild = world.flat("6000");
    assert_eq!(told(&wild), ["held"]);
    let entry = market_order("mean", "BTC-USD", "buy", "0.01", "6700", 2);
    let row = world.row_of(&entry, "market_data");
    assert!(!row.passed);
    assert_eq!(
        row.reason.unwrap(),
        "the newest bar opens at 6000, implausibly far from 6800; it is held until the next row \
            agrees with it or not"
    );
    assert_eq!(world.refused(&entry), ["market_data"]);
    let other = market_order("mean", "ETH-USD", "buy", "0.1", "197", 0);
    world.quote("200", "200.2");
    assert!(world.row_of(&other, "market_data").passed);
    let exit = world.accepted(&limit(sell("0.004"), "6900"));
    // The held bar fills the stop, now that the next one agrees with it.
    let told = fills(&world.flat("6000"));
    assert_eq!(told, ["o-1-stop sell 0.01@5991 0.05991"]);
    assert!(world.book.orders.contains_key(&resting), "entries wait");
    assert!(
        !world.book.orders.contains_key(&exit),
        "nothing is left to reduce"
    );
    assert!(world.refused(&entry).contains(&"symbol_halt".to_owned()));
    assert!(world.row_of(&entry, "market_data").passed);
    world.apply(&[Change::SymbolCleared { symbol: btc() }]);
    assert_eq!(
        fills(&world.flat("6000"))[0],
        "o-2 buy 0.01@6009.1 0.060091"
    );
}

/// An exit that was sent while a row was held fills on the next row, not on the held one.
#[test]
fn an_exit_sent_meanwhile_waits_for_the_next_row() {
    for (next, expect) in [
        ("6800", "o-2 sell 0.004@6789.8 0.0271592"),
        ("7600", "o-2 sell 0.004@7588.6 0.0303544"),
    ] {
        let mut world = World::holding("0.01");
        world.flat("7500");
        world.accepted(&sell("0.004"));
        assert_eq!(fills(&world.flat(next)), [expect]);
    }
}

/// A held row is no fresh data: marks, ages and the dead man's view of prices stay as they were.
#[test]
fn a_held_row_does_not_make_old_data_fresh() {
    let mut world = holding_eth();
    world.wait(-3_600_000);
    world.wait(119_000);
    let quote = quote_at(60 + 120, "300", "300.2");
    take(&mut world, &eth(), &[quote]);
    assert!(world.book.equity(&world.rules, world.now).is_some());
    world.wait(2_000);
    assert_eq!(world.book.equity(&world.rules, world.now), None);
    // It does not become fresh by being dropped.
    let symbol = eth();
    world.apply(&[Change::RowDropped { symbol }]);
    let order = market_order("mean", "ETH-USD", "buy", "0.1", "197", 0);
    let row = world.row_of(&order, "market_data");
    assert_eq!(row.value, Some(a("121000")));
    assert!(!row.passed);
}

/// The same row once more, or an older one, does not agree with it; one that was dropped because of
/// a row of the other kind may come again and is held again.
#[test]
fn a_row_does_not_agree_with_itself() {
    let mut world = holding_eth();
    let wild = quote_at(71, "300", "310");
    assert_eq!(take(&mut world, &eth(), &[wild]), ["held"]);
    let older = quote_at(70, "300", "310");
    for rows in [[wild, wild], [older, wild]] {
        assert_eq!(
            count_new(&world.book, &world.rules, &eth(), &rows, world.now),
            0
        );
        assert!(take(&mut world, &eth(), &rows).is_empty());
    }
    assert_eq!(
        take(&mut world, &eth(), &[bar_at(61, 60, "200")]),
        ["dropped", "moved"]
    );
    assert_eq!(take(&mut world, &eth(), &[wild]), ["held"]);
    assert_eq!(
        take(&mut world, &eth(), &[quote_at(72, "300", "310")])[0],
        "halted"
    );
}

/// A clock that was set back: a held row from the time before does not make newer rows old.
#[test]
fn a_held_row_of_a_clock_that_was_set_back_does_not_stop_the_market() {
    let mut world = holding_eth();
    let wild = quote_at(3600, "300", "310");
    assert_eq!(take(&mut world, &eth(), &[wild]), ["held"]);
    world.now = Time::from_ms(noon() + 120_000).unwrap();
    let seen = take(&mut world, &eth(), &[quote_at(119, "200", "200.2")]);
    assert_eq!(seen, ["dropped", "moved"]);
    // Rows that the book has used stay old.
    world.now = Time::from_ms(noon() + 3_700_000).unwrap();
    take(&mut world, &eth(), &[wild]);
    world.now = Time::from_ms(noon() + 120_000).unwrap();
    assert!(take(&mut world, &eth(), &[quote_at(119, "200", "200.2")]).is_empty());
    assert_eq!(held(&world, &eth()), Some(wild));
}

/// Rows halt a symbol whichever of its rows fill orders.
#[test]
fn quotes_halt_a_symbol_that_fills_from_bars() {
    for fills_from in [MarketSource::Bars, MarketSource::Quotes] {
        let mut world = World::new();
        world.rules.instruments.get_mut(&eth()).unwrap().fills_from = fills_from;
        world.wait(60_000);
        take(
            &mut world,
            &eth(),
            &[quote_at(61, "300", "310"), quote_at(62, "300", "310")],
        );
        assert!(
            world.book.halted_symbols.contains_key(&eth()),
            "{fills_from:?}"
        );
    }
}

/// The peak does not rise while a gap that nobody has looked at is in the price of a position; it
/// rises again once a person has, and meanwhile if the position is gone or in another symbol.
#[test]
fn a_gap_raises_no_peak_until_a_person_has_looked() {
    let peak = |world: &World| world.book.account.peak_equity.unwrap();
    let mut world = World::holding("0.01");
    let before = peak(&world);
    world.flat("8000");
    assert_eq!(told(&world.flat("8000")), ["halted", "moved"]);
    assert_eq!(told(&world.flat("8100")), ["moved"]);
    assert_eq!(peak(&world), before);
    world.apply(&[Change::SymbolCleared { symbol: btc() }]);
    assert_eq!(told(&world.flat("8100")), ["moved", "peak"]);
    assert!(peak(&world) > before);
    let mut world = World::holding("0.01");
    let before = peak(&world);
    world.wait(1000);
    world.rows(
        &eth(),
        &[quote_at(200, "300", "310"), quote_at(201, "300", "310")],
    );
    assert!(world.book.halted_symbols.contains_key(&eth()));
    world.flat("6900");
    assert!(peak(&world) > before, "the position is in another symbol");
}

/// Two rows that agree latch the drawdown as any rows do.
#[test]
fn a_gap_that_is_believed_latches_the_drawdown() {
    let mut world = World::holding("0.1");
    world.book.orders.clear();
    world.rules.safety.max_drawdown = a("0.01").try_into().unwrap();
    world.flat("6000");
    assert!(world.book.account.drawdown_since.is_none());
    world.flat("6000");
    assert!(world.book.account.drawdown_since.is_some());
}

/// Books and markets without a held row are written as they were before there were any.
#[test]
fn books_of_before_open_and_are_written_the_same() {
    let world = World::holding("0.01");
    let text = serde_json::to_string(&world.book).unwrap();
    assert!(
        !text.contains("held\":{") && !text.contains("\"held\":null"),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Book>(&text).unwrap(), world.book);
}

/// Many rows, wild and plausible, of both kinds and both symbols: one import does what single rows
/// do, and what the lines say gives the book again.
#[test]
fn any_rows_at_once_do_what_they_do_one_by_one() {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |most: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % most
    };
    let mut seen = BTreeMap::<&str, u32>::new();
    for _ in 0..300 {
        let (symbol, price) = if draw(2) == 0 {
            (btc(), 6800)
        } else {
            (eth(), 200)
        };
        let mut world = World::holding("0.01");
        world.wait(86_400_000);
        let mut level = price;
        let rows: Vec<Row> = (0..draw(40))
            .map(|n| {
                level = match draw(8) {
                    0 => price * 2,
                    1 => price / 3,
                    2 => price * 9 / 10,
                    _ => level,
                };
                let (at, price) = (300 + 60 * i64::try_from(n).unwrap(), level.to_string());
                match draw(3) {
                    0 => bar_from(at, 60, &price, &(level + draw(level / 5)).to_string()),
                    1 if draw(9) == 0 => bar_at(at, 3600, &price),
                    _ => quote_at(at, &price, &(level + draw(level / 8)).to_string()),
                }
            })
            .collect();
        for what in take(&mut world, &symbol, &rows) {
            *seen.entry(what).or_default() += 1;
        }
    }
    for what in [
        "held", "dropped", "halted", "moved", "filled", "refuted", "peak",
    ] {
        assert!(
            seen.get(what).is_some_and(|count| *count > 10),
            "{what}: {seen:?}"
        );
    }
}

/// However many rows are held, each step fits its line, and the steps cover all rows.
#[test]
fn steps_with_many_held_rows_fit_their_lines() {
    let mut world = World::holding("0.01");
    world.wait(86_400_000);
    let price = |n: i64| if n % 2 == 0 { "1" } else { "6800" };
    let rows: Vec<Row> = (0..999)
        .map(|n| bar_at(300 + 60 * n, 60, price(n)))
        .collect();
    let steps = world.rows(&btc(), &rows);
    assert!(steps.len() > 2, "{}", steps.len());
    assert_eq!(steps.iter().map(|step| step.row_count).sum::<usize>(), 999);
    let seen = told(&changes(steps));
    let count = |what| seen.iter().filter(|seen| **seen == what).count();
    assert_eq!((count("held"), count("dropped")), (500, 499));
    assert_eq!(held(&world, &btc()), Some(rows[998]));
}

/// The dead man's exit is placed while a row is held, and leaves at the price of the row after it.
#[test]
fn the_exit_of_an_absent_agent_leaves_after_the_held_row() {
    for (next, expect) in [("6800", "6789.8"), ("7400", "7388.9")] {
        let mut world = World::holding("0.01");
        world.flat("7500");
        let position = world.book.positions.values().next().unwrap().clone();
        let agent = world.source.clone();
        let exit = close_at_market(&world.book, &position, &agent, 9, world.now);
        world.apply(&[exit.unwrap()]);
        let again = close_at_market(&world.book, &position, &agent, 10, world.now);
        assert_eq!(again, None, "one exit is under way");
        let told = fills(&world.flat(next));
        assert!(
            told[0].starts_with(&format!("o-9-flatten sell 0.01@{expect} ")),
            "{told:?}"
        );
        assert!(world.book.positions.is_empty());
    }
}

/// Rows of an instrument at a real venue fill nothing; they are held all the same, because they
/// value its positions.
#[test]
fn rows_at_a_real_venue_are_held_too() {
    let mut world = World::holding("0.01");
    let instrument = world.rules.instruments.get_mut(&btc()).unwrap();
    instrument.venue = Venue::Outbox;
    instrument.bridge = Some(world.source.clone());
    let before = unmoved(&world.book);
    for (price, expect) in [("1", "held"), ("6800", "dropped"), ("13000", "held")] {
        assert_eq!(told(&world.flat(price))[0], expect);
        assert_eq!(unmoved(&world.book), before);
    }
    assert_eq!(told(&world.flat("13000")), ["halted", "moved"]);
}
