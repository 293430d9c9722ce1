//! Events by hand, and against a second implementation that looks at the whole history at once.

use super::*;
use spoolgate_council::evidence::stats::draws::SplitMix64;
use spoolgate_gate::efficacy::effect::Verdict;
use spoolgate_trading::counterfactual::{Trade, Way};
use spoolgate_wire::ids::RuleId;

const DAY_MS: i64 = 86_400_000;

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn key(n: u64) -> Key {
    Key {
        strategy: StrategyName::parse(if n.is_multiple_of(2) { "trend" } else { "mean" }).unwrap(),
        symbol: Symbol::parse("BTC-USD").unwrap(),
        side: if n / 2 == 0 { Side::Buy } else { Side::Sell },
    }
}

fn closed(net: Amount) -> Progress {
    Progress::Closed(Trade {
        net,
        way: Way::Stop,
    })
}

/// Random choices of a history.
struct Dice(SplitMix64);

impl Dice {
    fn seeded(seed: u64) -> Dice {
        Dice(SplitMix64::seeded(seed))
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.draw() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// An entry of a history. Its place in the history is its line and its step.
#[derive(Clone, Debug)]
struct Sent {
    key: Key,
    sight: Sight,
    others: Others,
    was_accepted: bool,
    at: Time,
    risk: Option<Amount>,
    size: Amount,
    /// At which step its replay ends, and how; `None` if the rows end first.
    end: Option<(usize, Progress)>,
}

/// Runs a history through the tracker, which sees one step at a time.
fn tracked(history: &[Sent]) -> Figures {
    let mut tracker = Tracker::default();
    let mut followed: Vec<(usize, Part)> = Vec::new();
    for (step, sent) in history.iter().enumerate() {
        let is_due = |n: usize| history[n].end.filter(|(end, _)| *end <= step);
        for (n, part) in followed.extract_if(.., |(n, _)| is_due(*n).is_some()) {
            tracker.ended(&part, is_due(n).unwrap().1).unwrap();
        }
        let arrival = Arrival {
            seq: step as u64,
            key: &sent.key,
            at: sent.at,
            regime: "-",
            risk: sent.risk,
            size: sent.size,
            was_accepted: sent.was_accepted,
            has_room: true,
        };
        let is_held = |leg: &(Symbol, StrategyName)| {
            let mut before = history[..step].iter();
            before.any(|it| {
                it.was_accepted
                    && (&it.key.symbol, &it.key.strategy) == (&leg.0, &leg.1)
                    && it.end.is_none_or(|(end, _)| end > step)
            })
        };
        tracker.forget(is_held);
        match tracker.arrive(&arrival, sent.sight, sent.others) {
            Arrived::Followed(part) => followed.push((step, part)),
            Arrived::NotFollowed => panic!("there is room"),
            Arrived::Ignored => {}
        }
    }
    for (n, part) in followed {
        let end = history[n].end.map_or(Progress::Open, |(_, end)| end);
        tracker.ended(&part, end).unwrap();
    }
    let figures = tracker.finish().unwrap().remove("-");
    figures.unwrap_or_default()
}

/// The figures from the words of docs/rules.md, looking at the whole history for each entry.
fn naive(history: &[Sent]) -> Figures {
    let mut figures = Figures::default();
    let mut opened: Vec<usize> = Vec::new();
    let mut of_event: Vec<Option<usize>> = Vec::new();
    for (n, sent) in history.iter().enumerate() {
        let lasts = |event: usize| history[event].end.is_none_or(|(end, _)| end > n);
        let inside = opened
            .iter()
            .copied()
            .find(|event| history[*event].key == sent.key && lasts(*event));
        of_event.push(inside);
        if inside.is_some() {
            figures.events.repeats += 1;
        } else if (sent.sight, sent.others) == (Sight::Stops, Others::Nothing) {
            figures.events.opened += 1;
            opened.push(n);
        } else if (sent.sight, sent.others) == (Sight::Passes, Others::Nothing) {
            let end = sent.end.map_or(Progress::Open, |(_, end)| end);
            figures.let_through.count(end).unwrap();
        }
    }
    for event in opened {
        let instead = (0..history.len()).find(|n| {
            let sent = &history[*n];
            of_event[*n] == Some(event)
                && sent.sight == Sight::Passes
                && sent.size <= history[event].size
                && matches!(sent.others, Others::Nothing | Others::AlreadyOpen)
        });
        figures.events.instead += u64::from(instead.is_some());
        let blocked = history[event].end.map(|(_, end)| end);
        let other = instead.map(|n| history[n].end.map(|(_, end)| end));
        let (Some(blocked), None | Some(Some(_))) = (blocked, other) else {
            figures.events.open += 1;
            figures.blocked.open += 1;
            continue;
        };
        let other = other.flatten();
        let net = |end: Progress| match end {
            Progress::Closed(trade) => trade.net,
            _ => Amount::ZERO,
        };
        let filled = |end: &Progress| matches!(end, Progress::Closed(_));
        if filled(&blocked) {
            let other = other.map_or(Amount::ZERO, net);
            let Some(effect) = history[event]
                .risk
                .and_then(|risk| Effect::of(net(blocked), other, risk))
            else {
                figures.events.open += 1;
                figures.blocked.open += 1;
                continue;
            };
            figures.events.closed += 1;
            figures.days.add(history[event].at, effect);
        } else {
            figures.events.unfilled += 1;
        }
        figures.blocked.count(blocked).unwrap();
        if let Some(other) = other {
            figures.instead.count(other).unwrap();
        }
    }
    figures
}

/// A history of up to 60 entries over some days.
fn random(dice: &mut Dice) -> Vec<Sent> {
    let count = usize::try_from(dice.below(60)).unwrap();
    let mut at_ms = 0_i64;
    (0..count)
        .map(|step| {
            at_ms += i64::try_from(dice.below(9)).unwrap() * DAY_MS / 16;
            let others = match dice.below(8) {
                0 => Others::AlreadyOpen,
                1 => Others::Limits,
                2 => Others::Else,
                _ => Others::Nothing,
            };
            let sight = match dice.below(8) {
                0 => Sight::Outside,
                1 | 2 => Sight::Passes,
                _ => Sight::Stops,
            };
            let net = i64::try_from(dice.below(41)).unwrap() - 20;
            let progress = if dice.one_in(5) {
                Progress::NeverFilled
            } else {
                closed(Amount::from_i64(net))
            };
            let lasts = usize::try_from(dice.below(12)).unwrap() + 1;
            Sent {
                key: key(dice.below(4)),
                sight,
                others,
                was_accepted: others == Others::Nothing && dice.one_in(2),
                at: Time::from_ms(at_ms).unwrap(),
                risk: (!dice.one_in(12))
                    .then(|| Amount::from_i64(i64::try_from(dice.below(5)).unwrap())),
                size: Amount::from_i64(i64::try_from(dice.below(3)).unwrap()),
                end: (!dice.one_in(9)).then_some((step + lasts, progress)),
            }
        })
        .collect()
}

#[test]
fn random_histories_against_the_second_implementation() {
    let mut dice = Dice::seeded(26);
    let mut sums = Events::default();
    for round in 0..20_000 {
        let history = random(&mut dice);
        let (mut found, expect) = (tracked(&history), naive(&history));
        sums = sums.with(&found.events);
        // What is displaced depends on the account, and has a test of its own.
        found.events.displaced = 0;
        assert_eq!(found, expect, "round {round}: {history:#?}");
    }
    let Events {
        opened,
        closed,
        unfilled,
        open,
        repeats,
        instead,
        displaced,
    } = sums;
    let rarest = [opened, closed, unfilled, open, repeats, instead, displaced]
        .into_iter()
        .min();
    assert!(rarest.unwrap() > 1000, "{sums:?}");
}

/// Adds entries of the same keys after some that opened events.
fn with_retries(history: &[Sent], dice: &mut Dice) -> Vec<Sent> {
    let mut places: Vec<usize> = Vec::new();
    let mut entries: Vec<Sent> = Vec::new();
    for sent in history {
        places.push(entries.len());
        entries.push(sent.clone());
        let opens = (sent.sight, sent.others) == (Sight::Stops, Others::Nothing);
        for _ in 0..if opens { dice.below(4) } else { 0 } {
            let others = [
                Others::Nothing,
                Others::AlreadyOpen,
                Others::Limits,
                Others::Else,
            ];
            let retry = Sent {
                others: others[usize::try_from(dice.below(4)).unwrap()],
                was_accepted: false,
                // Where it would have led makes no difference.
                end: None,
                risk: Some(a("0.0001")),
                ..sent.clone()
            };
            entries.push(retry);
        }
    }
    places.push(entries.len());
    // The steps at which replays end are places of the old history.
    let place = |step: usize| places.get(step).copied().unwrap_or(entries.len() + step);
    let mut moved = entries.clone();
    for (n, sent) in moved.iter_mut().enumerate() {
        if places.contains(&n) {
            sent.end = sent.end.map(|(step, end)| (place(step), end));
        }
    }
    moved
}

#[test]
fn retries_sizes_and_tiny_stops_move_nothing() {
    let mut dice = Dice::seeded(27);
    let rule = RuleId::parse("no-big").unwrap();
    for _ in 0..2_000 {
        let history = random(&mut dice);
        let found = tracked(&history);
        let retried = tracked(&with_retries(&history, &mut dice));
        assert_eq!(retried.days, found.days);
        assert_eq!(retried.events.opened, found.events.opened);
        assert_eq!(retried.blocked, found.blocked);
        // Sizes: results and risks grow together.
        let sized: Vec<Sent> = history
            .iter()
            .map(|sent| {
                let by = Amount::from_i64(i64::try_from(dice.below(1000)).unwrap() + 1);
                let grown = |amount: Amount| amount.checked_mul(by).unwrap();
                let end = sent.end.map(|(step, end)| match end {
                    Progress::Closed(trade) => (step, closed(grown(trade.net))),
                    other => (step, other),
                });
                // What came instead is measured in R of the blocked order, so it keeps its size.
                let is_first = sent.sight == Sight::Stops;
                if is_first {
                    Sent {
                        end,
                        risk: sent.risk.map(grown),
                        ..sent.clone()
                    }
                } else {
                    sent.clone()
                }
            })
            .collect();
        if found.events.instead == 0 {
            assert_eq!(tracked(&sized).days, found.days);
        }
    }
    // Thirty events on twenty days that cancel out, and one with the tiniest stop among them.
    let mut entries: Vec<Sent> = (0..30_i64)
        .map(|n| Sent {
            key: key(0),
            sight: Sight::Stops,
            others: Others::Nothing,
            was_accepted: false,
            at: Time::from_ms(n % 20 * DAY_MS).unwrap(),
            risk: Some(Amount::ONE),
            size: Amount::ONE,
            end: Some((
                usize::try_from(n).unwrap() + 1,
                closed(Amount::from_i64(if n % 2 == 0 { 1 } else { -1 })),
            )),
        })
        .collect();
    let verdict = |entries: &[Sent]| tracked(entries).days.verdict(&rule, 30);
    assert_eq!(verdict(&entries), Verdict::Inconclusive);
    for net in ["-1000000", "1000000"] {
        entries[7].risk = Some(a("0.00000001"));
        entries[7].end = Some((8, closed(a(net))));
        assert_eq!(verdict(&entries), Verdict::Inconclusive);
        let worst = tracked(&entries).days.effect().unwrap();
        assert!(worst.abs() <= a("11"), "{worst}");
    }
}

/// An entry that an agent sends: of which key, whether it is large, and how its trade ends.
struct Request {
    key: Key,
    is_large: bool,
    net: i64,
    lasts: usize,
}

/// Plays requests in a world in which a rule stops large entries, in force or in shadow, and a key
/// takes one entry at a time.
fn played(requests: &[Request], is_shadow: bool) -> Figures {
    let mut history: Vec<Sent> = Vec::new();
    for (step, request) in requests.iter().enumerate() {
        let is_busy = history.iter().any(|sent| {
            sent.was_accepted
                && sent.key == request.key
                && sent.end.is_none_or(|(end, _)| end > step)
        });
        let is_refused = is_busy || (request.is_large && !is_shadow);
        history.push(Sent {
            key: request.key.clone(),
            sight: if request.is_large {
                Sight::Stops
            } else {
                Sight::Passes
            },
            others: if is_busy {
                Others::AlreadyOpen
            } else {
                Others::Nothing
            },
            was_accepted: !is_refused,
            at: Time::from_ms(i64::try_from(step).unwrap() * DAY_MS / 4).unwrap(),
            risk: Some(Amount::from_i64(2)),
            size: Amount::ONE,
            end: Some((step + request.lasts, closed(Amount::from_i64(request.net)))),
        });
    }
    tracked(&history)
}

#[test]
fn a_rule_has_the_same_figures_in_force_and_in_shadow() {
    let mut dice = Dice::seeded(28);
    let mut with_instead = 0;
    for _ in 0..20_000 {
        let requests: Vec<Request> = (0..dice.below(30))
            .map(|_| Request {
                key: key(dice.below(2)),
                is_large: !dice.one_in(4),
                net: i64::try_from(dice.below(9)).unwrap() - 4,
                lasts: usize::try_from(dice.below(8)).unwrap() + 1,
            })
            .collect();
        let (active, shadow) = (played(&requests, false), played(&requests, true));
        let is_told = active.events.displaced > 0 || shadow.events.displaced > 0;
        assert!(is_told || active == shadow, "{active:#?} {shadow:#?}");
        with_instead += u64::from(!is_told && active.events.instead > 0);
    }
    assert!(with_instead > 1000, "{with_instead}");
}

#[test]
fn thirty_two_identical_entries_are_one_event() {
    for is_shadow in [false, true] {
        let requests: Vec<Request> = (0..32)
            .map(|n| Request {
                key: key(0),
                is_large: true,
                net: -3,
                lasts: 40 - n,
            })
            .collect();
        let figures = played(&requests, is_shadow);
        assert_eq!(
            figures.events,
            Events {
                opened: 1,
                closed: 1,
                repeats: 31,
                ..Events::default()
            }
        );
        assert_eq!(figures.days.effect(), Some(a("1.5")));
    }
}

#[test]
fn an_entry_beyond_the_bound_is_not_followed() {
    let key = key(0);
    let arrival = |seq: u64, has_room: bool| Arrival {
        seq,
        key: &key,
        at: Time::EPOCH,
        regime: "-",
        risk: Some(Amount::ONE),
        size: Amount::ONE,
        was_accepted: false,
        has_room,
    };
    let mut tracker = Tracker::default();
    let stops = (Sight::Stops, Others::Nothing);
    let passes = (Sight::Passes, Others::Nothing);
    for (sight, others) in [stops, passes] {
        let told = tracker.arrive(&arrival(1, false), sight, others);
        assert_eq!(told, Arrived::NotFollowed);
    }
    let told = tracker.arrive(&arrival(2, true), stops.0, stops.1);
    assert_eq!(told, Arrived::Followed(Part::Blocked(2)));
    // An instead that nobody follows leaves the effect of its event unknown.
    let told = tracker.arrive(&arrival(3, false), passes.0, passes.1);
    assert_eq!(told, Arrived::NotFollowed);
    tracker
        .ended(&Part::Blocked(2), closed(Amount::ONE))
        .unwrap();
    let figures = tracker.finish().unwrap().remove("-").unwrap();
    assert_eq!(
        figures.events,
        Events {
            opened: 1,
            open: 1,
            repeats: 1,
            instead: 1,
            ..Events::default()
        }
    );
    assert_eq!(figures.days, Days::default());
}
