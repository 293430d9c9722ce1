//! `rules efficacy`: a small case computed by hand, and a real day against a replay that does not
//! use the venue.

use std::fs;
use std::path::Path;

use crate::kit::desk::{Desk, failed};
use crate::kit::place::{Place, drain};
use crate::kit::prices::kept;
use rust_decimal::Decimal;
use serde_json::{Value, json};
use spoolgate_gate::efficacy::Against;
use spoolgate_gate::efficacy::effect::Verdict;
use spoolgate_gate::fired::{Fate, Tally};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_host::clock::Clock;
use spoolgate_market::{Options as Reading, Row, import};
use spoolgate_replay::efficacy::{Events, Options, Report, RuleReport, efficacy};
use spoolgate_rules::rule::RuleStatus;
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::RuleId;
use spoolgate_wire::time::Time;

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn thesis(root: &Path, slug: &str) {
    let text = format!(
        "---\nslug: {slug}\nstrategy: trend\nsymbol: BTC-USD\ndirection: long\nexpires: \
            2030-01-01T00:00:00Z\n\
            invalid_below: 1\n---\nA day.\n"
    );
    fs::write(root.join(format!("proposals/theses/{slug}.md")), text).unwrap();
}

fn rule(root: &Path, id: &str, status: &str, when: &str, more: &str) {
    fs::create_dir_all(root.join("rules/core")).unwrap();
    let text = format!(
        "id: {id}\nstatus: {status}\napplies_to: {{action: order.submit}}\nwhen: [{when}]\nthen: \
            reject\nmessage: no\n{more}"
    );
    fs::write(root.join(format!("rules/core/{id}.yaml")), text).unwrap();
}

fn options(time_stop_minutes: u32) -> Options {
    Options {
        rule: None,
        from: None,
        to: None,
        time_stop_minutes,
    }
}

fn study(place: &Place, options: &Options) -> Report {
    efficacy(place.root.path(), &place.seams(), options, &mut |_| {}).unwrap()
}

fn of<'a>(report: &'a Report, id: &str) -> &'a RuleReport {
    report
        .rules
        .iter()
        .find(|rule| rule.rule.as_str() == id)
        .unwrap()
}

/// Sends one minute of trades, and a quote at its end.
fn minute(desk: &Desk, home: &mut Home, [open, high, low, close]: [&str; 4]) {
    let open_ms = desk.place.clock.now().ms();
    desk.place.pass_s(60);
    let rows = json!({
        "symbol": "BTC-USD",
        "bars": [{"open_time": Time::from_ms(open_ms).unwrap(), "interval_s": 60, "open": open,
            "high": high,
                  "low": low, "close": close}],
        "quotes": [{"time": desk.place.clock.now(), "bid": close,
            "ask": a(close).checked_add(a("0.01")).unwrap()}],
    });
    let outcome = desk.one_as_owner(
        home,
        &format!("rows-{open_ms}"),
        "market.update",
        &rows.to_string(),
    );
    assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
}

fn buy(
    desk: &Desk,
    home: &mut Home,
    id: &str,
    size: &str,
    [at, stop]: [&str; 2],
    target: Option<&str>,
) -> Outcome {
    let mut order = json!({
        "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size,
            "order_type": "market",
        "stop_price": stop, "thesis_slug": format!("by-hand-{id}"), "planned_entry": at,
            "planned_stop": stop,
    });
    if let Some(target) = target {
        order["target_price"] = json!(target);
    }
    desk.one(home, "trend-bot", id, "order.submit", &order.to_string())
}

/// Makes a home in which rules block five small buys and one large one, with the prices that
/// follow.
fn blocked_by_hand() -> Desk {
    let desk = Desk::with_limits("cooldown_s: 0");
    for folder in ["rules/core", "rules/active"] {
        let folder = desk.place.root.path().join(folder);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
    }
    let root = desk.place.root.path();
    "abcdefgh"
        .chars()
        .for_each(|name| thesis(root, &format!("by-hand-{name}")));
    let hypothesis = "hypothesis: {metric: win_rate, population: all, baseline_value: 0.9, \
        baseline_sample: 9, review_after_n: 4}\n";
    rule(
        root,
        "no-big",
        "active",
        "{field: order.size, op: gt, value: 0.004}",
        hypothesis,
    );
    rule(
        root,
        "no-medium",
        "shadow",
        "{field: order.size, op: eq, value: 0.004}",
        "",
    );
    let mut home = desk.open();
    // The costs of the venue: 0.0001 of half spread and 0.0005 of slippage at the market, rounded
    // up to 0.01 for buys and down for sells; a fee of 0.002 for orders that take and 0.001 for
    // orders that rest.
    let regime = json!({"symbol": "BTC-USD", "bars": [], "quotes": [], "regime": "calm"});
    let given = desk.one_as_owner(&mut home, "regime", "market.update", &regime.to_string());
    assert!(given.answer.error.is_none(), "{:?}", given.answer.error);
    // At 6800: two pass (g; h only in shadow), one is blocked.
    for (id, size) in [("g", "0.003"), ("h", "0.004")] {
        let taken = buy(&desk, &mut home, id, size, ["6800", "6600"], None);
        assert_eq!(failed(&taken), Vec::<String>::new());
    }
    let blocked = buy(&desk, &mut home, "a", "0.01", ["6800", "6600"], None);
    assert_eq!(failed(&blocked), ["no-big"]);
    // a: buys 0.01 at 6800 x 1.0001 x 1.0005 = 6804.08034, so 6804.09, with a fee of 0.1360818.
    minute(&desk, &mut home, ["6800", "6810", "6790", "6805"]);
    // Its stop at 6600 is reached inside the bar: 6600 x 0.9995 = 6596.70, with a fee of 0.131934.
    // (6596.70 - 6804.09) x 0.01 = -2.0739; less fees: -2.3419158. g has 0.3 of it, -0.70257474, h
    // 0.4, -0.93676632.
    minute(&desk, &mut home, ["6700", "6720", "6590", "6610"]);
    assert_eq!(
        failed(&buy(
            &desk,
            &mut home,
            "b",
            "0.01",
            ["6610", "6500"],
            Some("6700")
        )),
        ["no-big"]
    );
    // b: buys at 6610 x 1.0001 x 1.0005 = 6613.9663305, so 6613.97, with a fee of 0.1322794.
    minute(&desk, &mut home, ["6610", "6650", "6605", "6640"]);
    // Its target of 6700 is passed: at 6700, with a fee of 0.067. 0.8603 less fees: 0.6610206.
    minute(&desk, &mut home, ["6650", "6710", "6640", "6705"]);
    assert_eq!(
        failed(&buy(
            &desk,
            &mut home,
            "c",
            "0.01",
            ["6705", "6650"],
            Some("6900")
        )),
        ["no-big"]
    );
    // c: buys at 6705 x 1.0001 x 1.0005 = 6709.02333525, so 6709.03, with a fee of 0.1341806.
    minute(&desk, &mut home, ["6705", "6710", "6700", "6705"]);
    // Its stop of 6650 is gapped through: at the open, 6600 x 0.9999 x 0.9995 = 6596.04033, so
    // 6596.04, with a fee of 0.1319208. (6596.04 - 6709.03) x 0.01 = -1.1299; less fees: -1.3960014.
    minute(&desk, &mut home, ["6600", "6610", "6590", "6600"]);
    desk.one_as_owner(
        &mut home,
        "wild",
        "market.update",
        &regime.to_string().replace("calm", "wild"),
    );
    assert_eq!(
        failed(&buy(&desk, &mut home, "d", "0.01", ["6600", "6500"], None)),
        ["no-big"]
    );
    // f is too large for other checks as well.
    let joint = buy(&desk, &mut home, "f", "0.5", ["6600", "6500"], None);
    assert!(failed(&joint).len() > 1 && failed(&joint).contains(&"no-big".to_owned()));
    // d: buys at 6600 x 1.0001 x 1.0005 = 6603.96033, so 6603.97, with a fee of 0.1320794.
    minute(&desk, &mut home, ["6600", "6620", "6590", "6610"]);
    // An hour after that bar it is sold: 6650 x 0.9999 x 0.9995 = 6646.0103325, so 6646.01, with a
    // fee of 0.1329202. 0.4204 less fees: 0.1554004. f is 50 times as large: 7.77002.
    desk.place.pass_s(3600);
    minute(&desk, &mut home, ["6650", "6660", "6640", "6650"]);
    assert_eq!(
        failed(&buy(&desk, &mut home, "e", "0.01", ["6650", "6500"], None)),
        ["no-big"]
    );
    drop(home);
    desk
}

#[test]
fn a_small_case_by_hand() {
    let desk = blocked_by_hand();
    let report = study(&desk.place, &options(60));
    assert_eq!(
        (report.lost_entries, report.lost_rows, report.rules.len()),
        (0, 0, 2)
    );
    let big = of(&report, "no-big");
    let figures = &big.all.figures;
    // a, b, c, d, e alone, f not.
    assert_eq!(
        figures.tally,
        Tally {
            fired: 6,
            sole: 5,
            joint: 1,
            ..Tally::default()
        }
    );
    let blocked = figures.blocked;
    assert_eq!((blocked.closed, blocked.winners, blocked.losers), (4, 2, 2));
    assert_eq!(
        (blocked.open, blocked.never_filled),
        (1, 0),
        "e has met no bar"
    );
    // b and d won 0.6610206 + 0.1554004, a and c lost 2.3419158 + 1.3960014.
    assert_eq!((blocked.won, blocked.lost), (a("0.816421"), a("3.7379172")));
    assert_eq!(big.all.savings, Some(a("2.9214962")));
    // f comes while the event of d is open.
    assert_eq!(
        figures.events,
        Events {
            opened: 5,
            closed: 4,
            open: 1,
            repeats: 1,
            ..Events::default()
        }
    );
    // R is the risk down to the stop: with the ask 6800.01, the worst entry 6800.01 x 1.001 =
    // 6806.81001, the fees 0.002 x (6806.81001 + 6600) and the slippage 0.002 x 6600 of the stop,
    // (206.81001 + 26.81362002 + 13.2) x 0.01 = 2.4682363002 for a. In the same way 1.5585325002
    // for b, 1.0173844002 for c and 1.4582323002 for d. In R, 0.94882155 were saved by blocking a,
    // 0.42413014 missed with b, 1.37214744 saved with c and 0.10656766 missed with d.
    assert_eq!(big.all.effect, Some(a("1.79027119")));
    // There is one day, so every draw gives the same total.
    let total = a("1.79027119");
    assert_eq!(big.all.day_count, 1);
    assert_eq!(big.all.effect_interval, Some((total, total)));
    // g and h.
    assert_eq!(
        (figures.let_through.closed, figures.let_through.lost),
        (2, a("1.63934106"))
    );
    // (0.816421 - 3.7379172 - 1.63934106) / 6, and -1.63934106 / 2.
    assert_eq!(big.all.expectancy_before, Some(a("-0.76013954")));
    assert_eq!(big.all.expectancy_after, Some(a("-0.81967053")));
    // Two of four: 0.5 -/+ 1.959964 x sqrt(0.0625 + 3.841459 / 64) / (1 + 3.841459 / 4) = 0.349960.
    assert_eq!(big.all.blocked_winners, Some(a("0.5")));
    let (low, high) = big.all.interval.unwrap();
    assert!(
        (low - 0.15004).abs() < 1e-5 && (high - 0.84996).abs() < 1e-5,
        "{low} {high}"
    );
    // The break-even share: 3.7379172 / (3.7379172 + 0.816421).
    assert_eq!(big.all.break_even, Some(a("0.82073773")));
    // Enough events, but on one day.
    assert_eq!(
        (big.verdict, big.sample_min, big.status),
        (Verdict::Inconclusive, 4, Some(RuleStatus::Active))
    );
    // None of two won; 1.96^2 / (2 + 1.96^2) = 0.657620 is below 0.9.
    let tested = big.hypothesis.as_ref().unwrap();
    assert_eq!(
        (tested.value, tested.sample, tested.against),
        (Some(a("0")), 2, Against::Below)
    );
    assert!((tested.interval.unwrap().1 - 0.65762).abs() < 1e-5);
    // By regime: d, e and f came in the wild one.
    let wild = &big.regimes["wild"];
    assert_eq!(
        wild.figures.tally,
        Tally {
            fired: 3,
            sole: 2,
            joint: 1,
            ..Tally::default()
        }
    );
    assert_eq!(
        (wild.figures.blocked.won, wild.figures.blocked.closed),
        (a("0.1554004"), 1)
    );
    assert_eq!(big.regimes["calm"].savings, Some(a("3.0768966")));
    assert_eq!(big.regimes["calm"].effect, Some(a("1.89683885")));
    assert_eq!(wild.effect, Some(a("-0.10656766")));
}

#[test]
fn rules_in_shadow_longer_stops_and_parts_of_a_day_by_hand() {
    let desk = blocked_by_hand();
    let report = study(&desk.place, &options(60));
    // In shadow, the report has the same figures for what would have happened.
    let medium = of(&report, "no-medium");
    assert_eq!(
        medium.all.figures.tally,
        Tally {
            fired: 1,
            shadow_sole: 1,
            ..Tally::default()
        }
    );
    assert_eq!(
        (medium.all.figures.blocked.lost, medium.all.savings),
        (a("0.93676632"), Some(a("0.93676632")))
    );
    assert_eq!(medium.all.figures.let_through.lost, a("0.70257474"));
    // The same as a, at 0.4 of its size and of its risk. a was a repeat of it.
    assert_eq!(medium.all.effect, Some(a("0.94882155")));
    assert_eq!(medium.all.figures.events.repeats, 1);
    assert_eq!(
        (medium.verdict, medium.sample_min),
        (Verdict::Inconclusive, 30)
    );

    // Without the hour d stays open until the rows end; one rule alone; nothing after its time.
    let day = Options {
        rule: Some(RuleId::parse("no-big").unwrap()),
        ..options(1440)
    };
    let longer = study(&desk.place, &day);
    assert_eq!(longer.rules.len(), 1);
    // Then f and e come while its event is open.
    let figures = &longer.rules[0].all.figures;
    assert_eq!((figures.blocked.open, figures.events.repeats), (1, 2));
    let later = study(
        &desk.place,
        &Options {
            from: Some(desk.place.clock.now()),
            ..options(60)
        },
    );
    assert_eq!(of(&later, "no-big").all.figures.tally.sole, 1, "only e");
}

/// The bars of a real day.
fn bars(kind: &str) -> Vec<Row> {
    let name = format!("lean-coinbase-minute-btcusd_20180405_{kind}.zip");
    let bytes = fs::read(format!(
        "{}/tests/fixtures/market/{name}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    import(&name, &bytes, &Reading::default()).unwrap().rows
}

fn d(text: &str) -> Decimal {
    text.parse().unwrap()
}

/// A buy at the market that was refused.
struct Blocked {
    failed: Vec<String>,
    sent_ms: i64,
    size: Decimal,
    stop: Decimal,
    target: Decimal,
}

/// Computes the result of a blocked buy, bar by bar, from the words of docs/trading.md alone.
/// Returns it with the time at which the last bar was known; `None` if it is still open when the bars
/// end.
fn naive(
    bars: &[[Decimal; 4]],
    times: &[i64],
    blocked: &Blocked,
    hold_ms: i64,
) -> Option<(Decimal, i64)> {
    let &Blocked {
        sent_ms,
        size,
        stop,
        target,
        ..
    } = blocked;
    let cent = d("0.01");
    let up = |price: Decimal| (price / cent).ceil() * cent;
    let down = |price: Decimal| (price / cent).floor() * cent;
    let at_market = |open: Decimal| down(open * d("0.9999") * d("0.9995"));
    let first = times.iter().position(|open_ms| *open_ms >= sent_ms)?;
    let paid = up(bars[first][0] * d("1.0001") * d("1.0005"));
    let due = times[first] + 60_000 + hold_ms;
    for n in first..bars.len() {
        let [open, high, low, _] = bars[n];
        let (price, rate) = if (n > first && times[n] >= due) || open <= stop {
            (at_market(open), d("0.002"))
        } else if low <= stop {
            (down(stop * d("0.9995")), d("0.002"))
        } else if n > first && open >= target {
            (at_market(open).max(target), d("0.002"))
        } else if n > first && high > target {
            (target, d("0.001"))
        } else {
            continue;
        };
        let fees = (paid * size * d("0.002"))
            .round_dp_with_strategy(8, rust_decimal::RoundingStrategy::AwayFromZero)
            + (price * size * rate)
                .round_dp_with_strategy(8, rust_decimal::RoundingStrategy::AwayFromZero);
        return Some(((price - paid) * size - fees, times[n] + 60_000));
    }
    None
}

/// Sends an entry every six minutes of a day, each of which a rule blocks. Returns the entries, and
/// how many of the trades have ended.
fn send_for_a_day(place: &Place, trades: &[Row]) -> (Vec<Blocked>, usize) {
    let keys = place.ask_for_keys(["prices", "trend-bot"]);
    place.ask_for_funds();
    let mut home = place.settled();
    let quotes = bars("quote");
    let start = place.clock.now().ms();
    let (mut waiting, mut sent) = ([trades, quotes.as_slice()], Vec::new());
    let mut blocks = 0;
    for n in 1..=230_i64 {
        // Every six minutes: the rows known by then, then an entry.
        place.clock.set(Time::from_ms(start + n * 360_000).unwrap());
        let now = place.clock.now();
        for rows in &mut waiting {
            let (known, rest) =
                rows.split_at(rows.partition_point(|row| row.known_ms() <= now.ms()));
            *rows = rest;
            if known.is_empty() {
                continue;
            }
            blocks += 1;
            let payload = kept(&home, "BTC-USD", known);
            place.ask(
                &keys["prices"],
                "prices",
                &format!("rows-{blocks}"),
                "market.import",
                &payload,
            );
            let told = drain(&mut home).unwrap();
            assert!(told[0].answer.error.is_none(), "{:?}", told[0].answer.error);
        }
        let market = home.state().book.markets.values().next().unwrap();
        let ask = market.quote.as_ref().unwrap().ask.decimal();
        let far = Decimal::new(n % 4 + 2, 3);
        let cents = |price: Decimal| price.round_dp(2);
        let (stop, target) = (
            cents(ask * (Decimal::ONE - far)),
            cents(ask * (Decimal::ONE + far)),
        );
        let size = d("0.002") + Decimal::new(n % 7, 3);
        let order = json!({
            "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size.to_string(),
                "order_type": "market",
            "stop_price": stop.to_string(), "thesis_slug": "day", "planned_entry": ask.to_string(),
            "planned_stop": stop.to_string(), "target_price": target.to_string(),
        });
        place.ask(
            &keys["trend-bot"],
            "trend-bot",
            &format!("buy-{n}"),
            "order.submit",
            &order.to_string(),
        );
        let told = drain(&mut home).unwrap().pop().unwrap();
        assert_eq!(Fate::of(&told.decision), Fate::Refused);
        let failed = failed(&told);
        sent.push(Blocked {
            failed,
            sent_ms: now.ms(),
            size,
            stop,
            target,
        });
    }
    drop(home);
    let known = trades.len() - waiting[0].len();
    (sent, known)
}

#[test]
fn a_real_day_against_a_replay_that_knows_nothing_of_the_venue() {
    let place = Place::at(505, "2018-04-05T00:00:00Z", |root| {
        // Real bars are sometimes thin; how much of them an order may take is tested with the
        // venue.
        let path = root.join("rules/instruments.yaml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("volume_share: 0.10", "volume_share: 1")).unwrap();
        thesis(root, "day");
        let when = "{field: order.size, op: gt, value: 0.001}";
        rule(root, "no-big", "active", when, "");
    });
    let trades = bars("trade");
    let (sent, known) = send_for_a_day(&place, &trades);
    // What the ledger has of the day.
    let (times, prices): (Vec<i64>, Vec<[Decimal; 4]>) = trades[..known]
        .iter()
        .map(|row| match row {
            Row::Bar {
                open_ms,
                open,
                high,
                low,
                close,
                ..
            } => (
                *open_ms,
                [open, high, low, close].map(|amount| amount.decimal()),
            ),
            Row::Quote { .. } => panic!("no bar"),
        })
        .unzip();
    for hold in [30_u32, 240] {
        let report = study(&place, &options(hold));
        let rule = of(&report, "no-big");
        let (mut won, mut lost) = (Decimal::ZERO, Decimal::ZERO);
        let mut expect = Events::default();
        // When the bar was known that ended the trade of the last event.
        let mut ended_ms = Some(i64::MIN);
        for blocked in &sent {
            assert!(blocked.failed.contains(&"no-big".to_owned()));
            if ended_ms.is_none_or(|ended_ms| blocked.sent_ms < ended_ms) {
                expect.repeats += 1;
                continue;
            }
            if blocked.failed.len() > 1 {
                continue;
            }
            expect.opened += 1;
            let end = naive(&prices, &times, blocked, i64::from(hold) * 60_000);
            ended_ms = end.map(|(_, ended_ms)| ended_ms);
            match end {
                None => expect.open += 1,
                Some((net, _)) => {
                    expect.closed += 1;
                    if net > Decimal::ZERO {
                        won += net
                    } else {
                        lost -= net
                    }
                }
            }
        }
        let (found, figures) = (&rule.all, &rule.all.figures);
        assert_eq!(figures.events, expect, "{hold}");
        let blocked = figures.blocked;
        assert_eq!(
            (blocked.won.decimal(), blocked.lost.decimal()),
            (won, lost),
            "{hold}"
        );
        assert!(
            blocked.closed > 10 && figures.events.repeats > 100,
            "{figures:?}"
        );
        // A day is no sample, however many events it has.
        assert_eq!((found.day_count, rule.verdict), (1, Verdict::Inconclusive));
    }
}

/// Thirty-two identical orders, each a second after the last, which the rule stops at 0.005; then
/// prices move until all trades have ended. Returns the report.
fn retried(side: &str, status: &str) -> RuleReport {
    let desk = Desk::with_limits("cooldown_s: 0");
    let root = desk.place.root.path();
    for folder in ["rules/core", "rules/active"] {
        let folder = root.join(folder);
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
    }
    let is_buy = side == "buy";
    let (direction, stop) = if is_buy {
        ("long", "6600")
    } else {
        ("short", "7000")
    };
    let level = if is_buy {
        "invalid_below: 1"
    } else {
        "invalid_above: 99999"
    };
    let text = format!(
        "---\nslug: again\nstrategy: trend\nsymbol: BTC-USD\ndirection: {direction}\nexpires: \
            2030-01-01T00:00:00Z\n{level}\n---\nA minute.\n"
    );
    fs::write(root.join("proposals/theses/again.md"), text).unwrap();
    let when = "{field: order.size, op: gt, value: 0.005}";
    rule(root, "no-big", status, when, "");
    let mut home = desk.open();
    for n in 0..32 {
        desk.place.pass_s(1);
        let order = json!({
            "strategy": "trend", "symbol": "BTC-USD", "side": side, "size": "0.01",
                "order_type": "market", "stop_price": stop, "thesis_slug": "again",
            "planned_entry": "6800", "planned_stop": stop,
        });
        let id = format!("again-{n}");
        desk.one(
            &mut home,
            "trend-bot",
            &id,
            "order.submit",
            &order.to_string(),
        );
    }
    minute(&desk, &mut home, ["6800", "6810", "6790", "6800"]);
    minute(&desk, &mut home, ["6700", "6720", "6590", "6590"]);
    // A day later the time stop has closed what no stop has.
    desk.place.pass_s(86_400);
    minute(&desk, &mut home, ["6590", "6600", "6580", "6590"]);
    drop(home);
    of(&study(&desk.place, &options(1440)), "no-big").clone()
}

#[test]
fn retries_of_one_entry_are_one_event_in_force_and_in_shadow() {
    for side in ["buy", "sell"] {
        let (active, shadow) = (retried(side, "active"), retried(side, "shadow"));
        let (of_active, of_shadow) = (&active.all.figures, &shadow.all.figures);
        assert_eq!(
            of_active.events,
            Events {
                opened: 1,
                closed: 1,
                repeats: 31,
                ..Events::default()
            },
            "{side}"
        );
        assert_eq!(of_active.tally.fired, 32);
        assert_eq!(of_shadow.tally.shadow_sole, 1);
        assert_eq!(of_shadow.tally.shadow_joint, 31);
        // The tallies count requests; everything else is the same.
        let events = |report: &RuleReport| {
            let all = report.all.clone();
            (
                all.figures.events,
                all.figures.blocked,
                all.figures.let_through,
                all.figures.days,
                all.effect,
                all.savings,
                report.verdict,
            )
        };
        assert_eq!(events(&active), events(&shadow), "{side}");
        assert_eq!(active.verdict, Verdict::Inconclusive);
        let saved = active.all.effect.unwrap();
        assert_eq!(saved.is_positive(), side == "buy", "{side} {saved}");
    }
}

#[test]
fn a_smaller_order_instead_by_hand() {
    for status in ["active", "shadow"] {
        let desk = Desk::with_limits("cooldown_s: 0");
        let root = desk.place.root.path();
        for folder in ["rules/core", "rules/active"] {
            let folder = root.join(folder);
            fs::remove_dir_all(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
        }
        thesis(root, "by-hand-a");
        let when = "{field: order.size, op: gt, value: 0.004}";
        rule(root, "no-big", status, when, "");
        let mut home = desk.open();
        let send = |home: &mut Home, id: &str, size: &str| {
            let order = json!({
                "strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size,
                    "order_type": "market", "stop_price": "6600", "thesis_slug": "by-hand-a",
                "planned_entry": "6800", "planned_stop": "6600",
            });
            failed(&desk.one(home, "trend-bot", id, "order.submit", &order.to_string()))
        };
        let is_shadow = status == "shadow";
        let carried = || vec!["thesis_valid".to_owned()];
        let first = send(&mut home, "a", "0.01");
        assert_eq!(first.is_empty(), is_shadow, "{first:?}");
        // In shadow the first order is open, so its thesis is taken; else this one is accepted.
        let second = send(&mut home, "b", "0.003");
        assert_eq!(second, if is_shadow { carried() } else { Vec::new() });
        // A third order counts nothing.
        assert_eq!(send(&mut home, "c", "0.002"), carried());
        minute(&desk, &mut home, ["6800", "6810", "6790", "6805"]);
        minute(&desk, &mut home, ["6700", "6720", "6590", "6610"]);
        drop(home);
        let report = study(&desk.place, &options(60));
        let found = of(&report, "no-big");
        assert_eq!(
            found.all.figures.events,
            Events {
                opened: 1,
                closed: 1,
                repeats: 2,
                instead: 1,
                ..Events::default()
            },
            "{status}"
        );
        // As in the case above, the whole order loses 2.3419158 and 0.3 of it 0.70257474: 1.63934106
        // are saved, at a risk of the whole order of 2.4682363002.
        assert_eq!(found.all.figures.blocked.lost, a("2.3419158"));
        assert_eq!(found.all.figures.instead.lost, a("0.70257474"));
        assert_eq!(found.all.savings, Some(a("1.63934106")), "{status}");
        assert_eq!(found.all.effect, Some(a("0.66417509")), "{status}");
        assert_eq!(found.all.figures.let_through.closed, 0);
        assert_eq!(report.not_followed, 0);
    }
}

#[test]
fn a_feed_that_lags_brings_no_profit_from_before_the_decision() {
    let desk = blocked_by_hand();
    thesis(desk.place.root.path(), "by-hand-late");
    let mut home = desk.open();
    let open_ms = desk.place.clock.now().ms();
    // Half a minute into a bar that reaches the target, an entry is blocked.
    desk.place.pass_s(30);
    let from = desk.place.clock.now();
    let late = buy(
        &desk,
        &mut home,
        "late",
        "0.01",
        ["6650", "6500"],
        Some("6900"),
    );
    assert_eq!(failed(&late), ["no-big"]);
    desk.place.pass_s(30);
    let bar = json!({"open_time": Time::from_ms(open_ms).unwrap(), "interval_s": 60, "open": "6650",
        "high": "6950", "low": "6640", "close": "6650"});
    let rows = json!({"symbol": "BTC-USD", "bars": [bar], "quotes": []}).to_string();
    let outcome = desk.one_as_owner(&mut home, "rows-late", "market.update", &rows);
    assert!(outcome.answer.error.is_none(), "{:?}", outcome.answer.error);
    minute(&desk, &mut home, ["6650", "6655", "6490", "6500"]);
    drop(home);
    let report = study(
        &desk.place,
        &Options {
            from: Some(from),
            ..options(60)
        },
    );
    let blocked = of(&report, "no-big").all.figures.blocked;
    assert_eq!((blocked.closed, blocked.losers), (1, 1), "{blocked:?}");
}

#[test]
fn the_command_prints_text_and_json() {
    let folder = crate::kit::folder();
    let home = folder.path().join("home");
    let demo = std::process::Command::new(crate::kit::PROGRAM)
        .arg("demo")
        .arg(&home)
        .output()
        .unwrap();
    assert!(demo.status.success());
    let told = crate::kit::succeed(&home, &["--format", "json", "rules", "efficacy"]);
    let report: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(report["time_stop_minutes"], 1440);
    // The demo has a rule in force and one on trial.
    let events = |rule: &Value| {
        (
            rule["rule"].clone(),
            rule["status"].clone(),
            rule["events"]["opened"].clone(),
        )
    };
    let rules = report["rules"].as_array().unwrap();
    assert_eq!(
        rules.iter().map(events).collect::<Vec<_>>(),
        [
            ("limit-entries-only".into(), "shadow".into(), 2.into()),
            ("pause-after-stop-out".into(), "active".into(), 1.into()),
        ],
        "{told}"
    );
    let table = crate::kit::succeed(&home, &["rules", "efficacy", "--time-stop-minutes", "5"]);
    assert!(table.contains("WINNERS"), "{table}");
    let wrong = crate::kit::spoolgate(&home, &["rules", "efficacy", "--rule", "Not An Id"]);
    assert_eq!(wrong.status.code(), Some(2));
}
