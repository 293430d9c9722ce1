//! Charts that are readable at any width: an SVG stretched to fill its box, with labels beside it
//! as text that is not stretched. Coordinates are integers, in ten-thousandths of the width or
//! height.

use maud::{Markup, html};
use rust_decimal::Decimal;

use super::text::decimal;
use spoolgate_wire::time::{DAY_MS, Time};

/// The whole width or height.
pub(crate) const FULL: i64 = 10_000;
/// Maximum number of grid lines.
const TICKS_MAX: usize = 12;
/// Milliseconds.
const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
/// Steps of a time axis: below one day, then in days. Longer steps are weeks, doubled repeatedly.
const TIME_STEPS: [i64; 18] = [
    SECOND,
    5 * SECOND,
    15 * SECOND,
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    14 * DAY_MS,
    28 * DAY_MS,
    56 * DAY_MS,
];

/// The value axis: its lowest and highest value, and the step between grid lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    low: Decimal,
    high: Decimal,
    step: Decimal,
}

impl Range {
    /// Returns the smallest range that holds all values and starts and ends on a grid line. `None`
    /// if there are no values or the arithmetic overflows.
    pub(crate) fn of(values: impl IntoIterator<Item = Decimal>) -> Option<Range> {
        let (mut low, mut high) = (None, None);
        for value in values {
            low = Some(low.map_or(value, |low: Decimal| low.min(value)));
            high = Some(high.map_or(value, |high: Decimal| high.max(value)));
        }
        let (mut low, mut high) = (low?, high?);
        if low == high {
            let pad = low
                .abs()
                .checked_div(Decimal::ONE_HUNDRED)
                .filter(|pad| !pad.is_zero());
            let pad = pad.unwrap_or(Decimal::ONE);
            (low, high) = (low.checked_sub(pad)?, high.checked_add(pad)?);
        }
        let step = nice(high.checked_sub(low)?.checked_div(Decimal::from(4))?)?;
        let floor = low.checked_div(step)?.floor().checked_mul(step)?;
        let ceiling = high.checked_div(step)?.ceil().checked_mul(step)?;
        Some(Range {
            low: floor,
            high: ceiling,
            step,
        })
    }

    /// Returns the position of a value, measured down from the top.
    pub(crate) fn below_top(&self, value: Decimal) -> i64 {
        let part = || {
            let span = self.high.checked_sub(self.low)?;
            let down = self.high.checked_sub(value)?;
            let place = down
                .checked_div(span)?
                .checked_mul(Decimal::from(FULL))?
                .round();
            i64::try_from(place).ok()
        };
        part().unwrap_or(FULL).clamp(0, FULL)
    }

    /// Returns the values of the grid lines, from the bottom up.
    pub(crate) fn ticks(&self) -> Vec<Decimal> {
        let mut ticks = Vec::new();
        let mut value = self.low;
        while value <= self.high && ticks.len() < TICKS_MAX {
            ticks.push(value);
            match value.checked_add(self.step) {
                Some(next) if next > value => value = next,
                _ => break,
            }
        }
        ticks
    }
}

/// Returns the smallest 1, 2 or 5 times a power of ten that is at least `least`.
fn nice(least: Decimal) -> Option<Decimal> {
    if least <= Decimal::ZERO {
        return None;
    }
    let mut unit = Decimal::ONE;
    while unit > least {
        unit = unit
            .checked_div(Decimal::TEN)
            .filter(|unit| !unit.is_zero())?;
    }
    while unit.checked_mul(Decimal::TEN)? <= least {
        unit = unit.checked_mul(Decimal::TEN)?;
    }
    [1, 2, 5, 10].into_iter().find_map(|times| {
        unit.checked_mul(Decimal::from(times))
            .filter(|step| *step >= least)
    })
}

/// The time axis: the first and the last instant of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: Time,
    end: Time,
}

impl Span {
    /// Creates the span between two instants; if they are less than a minute apart, it lasts a
    /// minute.
    pub(crate) fn new(start: Time, end: Time) -> Span {
        let end = if end.since_ms(start) < MINUTE {
            start.plus_ms(MINUTE)
        } else {
            end
        };
        Span { start, end }
    }

    /// Returns the position of an instant, measured from the left.
    pub(crate) fn along(&self, time: Time) -> i64 {
        let (into, whole) = (
            time.since_ms(self.start),
            self.end.since_ms(self.start).max(1),
        );
        let place = i128::from(into).saturating_mul(i128::from(FULL)) / i128::from(whole);
        i64::try_from(place).unwrap_or(FULL).clamp(0, FULL)
    }

    /// Returns the instants to label, few enough to fit side by side on a phone.
    pub(crate) fn ticks(&self) -> Vec<Time> {
        let span = self.end.since_ms(self.start);
        let mut step = TIME_STEPS
            .into_iter()
            .find(|step| span / step <= 4)
            .unwrap_or(56 * DAY_MS);
        while span / step > 4 {
            step = step.saturating_mul(2);
        }
        // Steps of whole weeks start on a Monday.
        let anchor = if step >= 7 * DAY_MS {
            Time::EPOCH.week_start().ms()
        } else {
            0
        };
        let first = self
            .start
            .ms()
            .saturating_sub(anchor)
            .saturating_add(step.saturating_sub(1));
        let first = first
            .div_euclid(step)
            .saturating_mul(step)
            .saturating_add(anchor);
        let all = (0..6).filter_map(|index| {
            Time::from_ms(first.saturating_add(step.saturating_mul(index))).ok()
        });
        all.filter(|time| *time <= self.end).collect()
    }
}

/// Formats a position as a CSS percentage.
pub(crate) fn css(place: i64) -> String {
    format!("{}.{:02}%", place / 100, place % 100)
}

/// Renders the labels of a time axis: the clock, plus the date on the first label and at midnight.
pub(crate) fn time_axis(span: &Span) -> Markup {
    let ticks = span.ticks();
    let whole_days = ticks.iter().all(|time| time.ms().rem_euclid(DAY_MS) == 0);
    html! {
        div class="xs" aria-hidden="true" {
            @for (index, time) in ticks.iter().enumerate() {
                @let place = span.along(*time);
                @let edge = if place > 9200 { "end" } else if place < 800 { "start" } else { "" };
                span class=(edge) style=(format!("left:{}", css(place))) {
                    (time_label(*time, whole_days, index == 0))
                }
            }
        }
    }
}

fn time_label(time: Time, whole_days: bool, is_first: bool) -> Markup {
    let text = time.to_string();
    let (date, clock) = (
        text.get(..10).unwrap_or_default(),
        text.get(11..16).unwrap_or_default(),
    );
    let clock = if time.ms().rem_euclid(MINUTE) == 0 {
        clock
    } else {
        text.get(11..19).unwrap_or(clock)
    };
    let is_midnight = time.ms().rem_euclid(DAY_MS) == 0;
    html! {
        @if whole_days { (date) } @else {
            (clock)
            @if is_first || is_midnight { br; (date) }
        }
    }
}

/// Renders the labels of a value axis.
pub(crate) fn value_axis(range: &Range) -> Markup {
    html! {
        div class="ys" aria-hidden="true" {
            // Invisible and stacked on each other: the widest label sets the width of the column.
            @for tick in range.ticks() { i { (decimal(tick)) } }
            @for tick in range.ticks() {
                span style=(format!("top:{}", css(range.below_top(tick)))) { (decimal(tick)) }
            }
        }
    }
}

/// Renders the grid lines behind a chart.
pub(crate) fn grid(range: &Range, span: &Span) -> Markup {
    html! {
        g class="grid" {
            @for tick in range.ticks() {
                @let y = range.below_top(tick);
                line x1="0" y1=(y) x2=(FULL) y2=(y) {}
            }
            @for time in span.ticks() {
                @let x = span.along(time);
                line x1=(x) y1="0" x2=(x) y2=(FULL) {}
            }
        }
    }
}

/// Wraps a drawing in an SVG that fills its box; `id` must be unique on the page.
pub(crate) fn svg(id: &str, title: &str, description: &str, inner: &Markup) -> Markup {
    html! {
        svg role="img" aria-labelledby=(format!("{id}-t {id}-d"))
            viewBox=(format!("0 0 {FULL} {FULL}")) preserveAspectRatio="none" {
            title id=(format!("{id}-t")) { (title) }
            desc id=(format!("{id}-d")) { (description) }
            (inner)
        }
    }
}

/// Returns the path of a step line, because no change is known to have happened between two ledger
/// lines.
pub(crate) fn steps(points: impl IntoIterator<Item = (i64, i64)>) -> String {
    let mut path = String::new();
    let mut last: Option<(i64, i64)> = None;
    for (x, y) in points {
        match last {
            None => path.push_str(&format!("M{x} {y}")),
            Some((before, _)) if before == x => path.push_str(&format!("V{y}")),
            Some((_, level)) if level == y => path.push_str(&format!("H{x}")),
            Some(_) => path.push_str(&format!("H{x}V{y}")),
        }
        last = Some((x, y));
    }
    path
}

/// Renders a bar in a table cell: `part` of [`FULL`], with anything beyond cut off. The row states
/// the same in figures.
pub(crate) fn cell_bar(class: &str, part: i64) -> Markup {
    let part = part.clamp(0, FULL);
    html! {
        svg class=(format!("cell {class}")) viewBox=(format!("0 0 {FULL} 10"))
            preserveAspectRatio="none" aria-hidden="true" {
            rect class="rail" x="0" y="0" width=(FULL) height="10" {}
            rect class="fill" x="0" y="0" width=(part) height="10" {}
        }
    }
}

/// Returns `part` of `whole` in ten-thousandths. A part above zero gets at least a visible bar.
pub(crate) fn share(part: u64, whole: u64) -> i64 {
    let share = u128::from(part)
        .saturating_mul(10_000)
        .checked_div(u128::from(whole))
        .unwrap_or(0);
    let share = i64::try_from(share).unwrap_or(FULL).min(FULL);
    if part > 0 { share.max(60) } else { 0 }
}

/// Renders a legend. Each entry is the class of its stroke or block in the chart, and its meaning.
pub(crate) fn legend(entries: &[(&str, &str)]) -> Markup {
    html! {
        ul class="legend" {
            @for (class, name) in entries {
                li {
                    svg class="key" viewBox="0 0 24 12" aria-hidden="true" { (key_of(class)) }
                    (name)
                }
            }
        }
    }
}

/// Renders the stroke or block of a legend entry.
fn key_of(class: &str) -> Markup {
    html! {
        @match class {
            "equity" => path class="equity" d="M0 8H8V4H24" {},
            "deposits" => path class="deposits" d="M0 6H24" {},
            "floor-reject" => path class="floor reject" d="M0 6H24" {},
            "floor-unsure" => path class="floor unsure" d="M0 6H24" {},
            _ => path class="score" d="M2 10L12 2L22 10Z" {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let cases = [
            (
                vec!["4995.15", "5002.6873544"],
                "4994 4996 4998 5000 5002 5004",
            ),
            (vec!["0", "1"], "0 0.5 1"),
            (vec!["0", "5.96"], "0 2 4 6"),
            (vec!["-3", "7"], "-5 0 5 10"),
            (vec!["5000"], "4950 5000 5050"),
            (vec!["0"], "-1 -0.5 0 0.5 1"),
            (
                vec!["0.00000001", "0.00000009"],
                "0 0.00000002 0.00000004 0.00000006 0.00000008 0.0000001",
            ),
        ];
        for (values, expect) in cases {
            let range = Range::of(values.iter().map(|value| of(value))).unwrap();
            let ticks: Vec<String> = range
                .ticks()
                .iter()
                .map(|tick| tick.normalize().to_string())
                .collect();
            assert_eq!(ticks.join(" "), expect, "{values:?}");
            assert_eq!(range.below_top(range.high), 0);
            assert_eq!(range.below_top(range.low), FULL);
            for value in &values {
                assert!((range.low..=range.high).contains(&of(value)), "{value}");
            }
        }
        assert_eq!(Range::of([]), None);
        // Ranges that overflow a decimal give no chart, and no panic.
        assert_eq!(Range::of([Decimal::MIN, Decimal::MAX]), None);
        assert!(Range::of([Decimal::MAX]).is_none());
        assert!(
            Range::of([of("0.0000000000000000000000000001"), Decimal::ZERO])
                .is_none_or(|range| { range.ticks().len() <= TICKS_MAX })
        );
    }

    #[test]
    fn time_ticks_are_few_and_inside() {
        let cases = [
            (
                "2018-04-05T00:02:00Z",
                "2018-04-05T23:50:00Z",
                "2018-04-05T06:00:00.000Z",
                3,
            ),
            (
                "2026-03-02T00:00:00Z",
                "2026-03-02T00:00:00Z",
                "2026-03-02T00:00:00.000Z",
                5,
            ),
            (
                "2026-03-02T00:00:00Z",
                "2026-03-30T00:00:00Z",
                "2026-03-02T00:00:00.000Z",
                5,
            ),
            (
                "2016-03-02T00:00:00Z",
                "2026-03-30T00:00:00Z",
                "2017-03-06T00:00:00.000Z",
                0,
            ),
            ("0000-01-01T00:00:00Z", "9999-12-01T00:00:00Z", "", 0),
        ];
        for (start, end, first, count) in cases {
            let span = Span::new(Time::parse(start).unwrap(), Time::parse(end).unwrap());
            let ticks = span.ticks();
            assert!((1..=5).contains(&ticks.len()), "{start} {end}: {ticks:?}");
            if count > 0 {
                assert_eq!(
                    (ticks[0].to_string().as_str(), ticks.len()),
                    (first, count),
                    "{ticks:?}"
                );
            }
            for tick in ticks {
                assert!((0..=FULL).contains(&span.along(tick)));
            }
        }
    }

    #[test]
    fn a_line_stays_until_its_next_point() {
        assert_eq!(steps([]), "");
        assert_eq!(steps([(0, 5), (10, 5), (20, 7), (20, 3)]), "M0 5H10H20V7V3");
    }

    #[test]
    fn every_share_above_zero_is_visible() {
        assert_eq!(share(0, 10), 0);
        assert_eq!(share(1, 1_000_000), 60);
        assert_eq!(share(5, 10), 5000);
        assert_eq!(share(11, 10), FULL);
        assert_eq!(share(u64::MAX, u64::MAX), FULL);
        assert_eq!(share(3, 0), 60);
    }
}
