//! Tests of effects, intervals and verdicts, against figures of a second implementation.

use super::*;

fn a(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

fn rule(id: &str) -> RuleId {
    RuleId::parse(id).unwrap()
}

/// An effect of this many R.
fn effect(r: &str) -> Effect {
    Effect::of(Amount::ZERO, a(r), Amount::ONE).unwrap()
}

fn day(n: i64) -> Time {
    Time::from_ms(n * 86_400_000 + 3_600_000).unwrap()
}

/// One event per day, with these effects.
fn days(effects: &[&str]) -> Days {
    let mut days = Days::default();
    for (n, r) in (0..).zip(effects) {
        days.add(day(n), effect(r));
    }
    days
}

/// As many events on as many days as given, in turn, each with this effect.
fn spread(events: i64, over: i64, r: &str) -> Days {
    let mut days = Days::default();
    (0..events).for_each(|n| days.add(day(n % over), effect(r)));
    days
}

#[test]
fn an_effect_is_exact_within_ten_r() {
    let of = |blocked: &str, instead: &str, risk: &str| {
        Effect::of(a(blocked), a(instead), a(risk)).map(|effect| effect.0)
    };
    // A loss of 2 avoided at a risk of 2, and one of 1 taken instead.
    assert_eq!(of("-2", "0", "2"), Some(100_000_000));
    assert_eq!(of("-2", "-1", "2"), Some(50_000_000));
    assert_eq!(of("3", "0", "2"), Some(-150_000_000));
    // Rounded half to even: 1/3, and 0.5 and 1.5 of the last place.
    assert_eq!(of("-1", "0", "3"), Some(33_333_333));
    assert_eq!(of("-0.000000005", "0", "1"), Some(0));
    assert_eq!(of("-0.000000015", "0", "1"), Some(2));
    // At the limit, one unit to either side of it, and far beyond.
    assert_eq!(of("-9.99999999", "0", "1"), Some(999_999_999));
    assert_eq!(of("-10", "0", "1"), Some(1_000_000_000));
    assert_eq!(of("-10.00000001", "0", "1"), Some(1_000_000_000));
    assert_eq!(of("10.00000001", "0", "1"), Some(-1_000_000_000));
    assert_eq!(
        of("-79228162514264337593543950335", "0", "0.0000000001"),
        Some(1_000_000_000)
    );
    // Without a risk there is no R.
    assert_eq!(of("-1", "0", "0"), None);
    assert_eq!(
        of(
            "-79228162514264337593543950335",
            "79228162514264337593543950335",
            "1"
        ),
        None
    );
}

/// The numbers come from a program of its own in Python, written from the words of docs/rules.md:
/// `hashlib.sha256`, SplitMix64 with whole numbers masked to 64 bits, `decimal.Decimal` sums, and
/// `sorted(totals)[249]`, `sorted(totals)[9750]`.
#[test]
fn intervals_are_those_of_another_program() {
    let eight = days(&["0.5", "-1", "2.25", "-0.125", "1", "0.75", "-0.5", "3"]);
    let interval = |days: &Days, id: &str| days.interval(&rule(id));
    assert_eq!(interval(&eight, "no-big"), Some((a("-0.75"), a("13.125"))));
    assert_eq!(interval(&eight, "cap"), Some((a("-0.75"), a("13.25"))));
    assert_eq!(eight.effect(), Some(a("5.875")));
    let one = days(&["-1.3"]);
    assert_eq!(interval(&one, "no-big"), Some((a("-1.3"), a("-1.3"))));
    let mut forty = Days::default();
    for n in 0..40_i64 {
        let eighths = Amount::from_i64(n * n % 23 - 8);
        let effect = Effect::of(Amount::ZERO, eighths, Amount::from_i64(8)).unwrap();
        forty.add(day(n), effect);
    }
    assert_eq!(interval(&forty, "no-big"), Some((a("-8.25"), a("9.125"))));
    assert_eq!(forty.effect(), Some(a("0.375")));
    assert_eq!(Days::default().interval(&rule("no-big")), None);
    assert_eq!(Days::default().effect(), None);
}

#[test]
fn a_verdict_needs_thirty_events_on_twenty_days() {
    let of = |days: &Days, sample_min: u64| days.verdict(&rule("no-big"), sample_min);
    for (events, over, expect) in [
        (29, 20, Verdict::Inconclusive),
        (30, 20, Verdict::Validated),
        (31, 20, Verdict::Validated),
        (30, 19, Verdict::Inconclusive),
        (30, 21, Verdict::Validated),
        (1000, 3, Verdict::Inconclusive),
    ] {
        assert_eq!(of(&spread(events, over, "1"), SAMPLE_MIN), expect);
        let harmful = spread(events, over, "-1");
        let expect = match expect {
            Verdict::Validated => Verdict::Harmful,
            other => other,
        };
        assert_eq!(of(&harmful, SAMPLE_MIN), expect, "{events} on {over}");
    }
    // A hypothesis may demand another number of events, and the same number of days.
    assert_eq!(of(&spread(19, 19, "1"), 1), Verdict::Inconclusive);
    assert_eq!(of(&spread(20, 20, "1"), 1), Verdict::Validated);
    assert_eq!(of(&spread(40, 20, "1"), 41), Verdict::Inconclusive);
    // Totals of 0 are on neither side.
    assert_eq!(of(&spread(60, 30, "0"), SAMPLE_MIN), Verdict::Inconclusive);
    assert_eq!(of(&Days::default(), SAMPLE_MIN), Verdict::Inconclusive);
}

#[test]
fn a_rule_degrades_if_its_newer_half_costs() {
    let turned = |older: i64, newer: &str| {
        let mut days = Days::default();
        // Two events per day of the older half, so that 20 days are enough events.
        (0..older * 2).for_each(|n| days.add(day(n % older), effect("1")));
        (0..older).for_each(|n| days.add(day(older + n), effect(newer)));
        days.verdict(&rule("no-big"), SAMPLE_MIN)
    };
    assert_eq!(turned(20, "-0.00000001"), Verdict::Degrading);
    assert_eq!(turned(20, "0"), Verdict::Validated);
    assert_eq!(turned(20, "-10"), Verdict::Harmful);
    assert_eq!(turned(19, "-0.00000001"), Verdict::Validated);
    assert_eq!(turned(21, "-0.5"), Verdict::Degrading);
}

#[test]
fn one_event_does_not_make_a_verdict() {
    // 19 days without effect and one at the most that an event can have.
    let mut days = spread(40, 20, "0");
    days.add(day(3), effect("10"));
    assert_eq!(
        days.verdict(&rule("no-big"), SAMPLE_MIN),
        Verdict::Inconclusive
    );
    // However many events that one day has.
    (0..1000).for_each(|_| days.add(day(3), effect("10")));
    assert_eq!(
        days.verdict(&rule("no-big"), SAMPLE_MIN),
        Verdict::Inconclusive
    );
}

#[test]
fn days_add_up() {
    let mut one = days(&["1", "2"]);
    one.add_all(&days(&["0.5", "0", "-1"]));
    assert_eq!(one, {
        let mut all = days(&["1", "2", "-1"]);
        all.add(day(0), effect("0.5"));
        all.add(day(1), effect("0"));
        all
    });
    assert_eq!((one.count(), one.effect()), (3, Some(a("2.5"))));
}
