//! Equity over time in bounded memory: for any number of lines, the kept points include the lowest
//! and highest values and the deepest drawdown of every period.

use std::collections::BTreeMap;

use serde::Serialize;

use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

/// Maximum number of periods; each keeps at most four points.
const STRETCHES_MAX: usize = 120;
/// Up to this many points, all are kept.
const POINTS_MAX: u64 = 480;
/// Initial length of a period, milliseconds.
const WIDTH_MIN_MS: i64 = 1000;

/// What the account was worth after one ledger line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Time of the line.
    pub time: Time,
    /// Number of the line.
    pub line: u64,
    /// Cash and positions at the last known marks.
    pub equity: Amount,
    /// Deposits minus withdrawals up to this line.
    pub net_deposits: Amount,
    /// Highest equity net of later deposits and withdrawals, as the gate keeps it: updated after
    /// every market row.
    pub peak: Option<Amount>,
    /// Peak minus equity, never below 0; `None` without a peak.
    pub drawdown: Option<Amount>,
}

impl Point {
    fn place(&self) -> (Time, u64) {
        (self.time, self.line)
    }
}

/// The points that are kept of a period.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    lowest: Point,
    highest: Point,
    deepest: Point,
    last: Point,
}

impl Stretch {
    fn of(point: Point) -> Stretch {
        Stretch {
            lowest: point,
            highest: point,
            deepest: point,
            last: point,
        }
    }

    fn points(&self) -> [Point; 4] {
        [self.lowest, self.highest, self.deepest, self.last]
    }

    /// Merges two periods; of equal points, the earlier is kept.
    fn with(self, other: Stretch) -> Stretch {
        let earlier =
            |a: Point, b: Point, b_is_better: bool, are_equal: bool| match (b_is_better, are_equal)
            {
                (true, _) => b,
                (false, true) if b.place() < a.place() => b,
                _ => a,
            };
        let pick = |a: Point, b: Point, key: fn(&Point) -> Option<Amount>| {
            earlier(a, b, key(&b) > key(&a), key(&b) == key(&a))
        };
        Stretch {
            lowest: earlier(
                self.lowest,
                other.lowest,
                other.lowest.equity < self.lowest.equity,
                other.lowest.equity == self.lowest.equity,
            ),
            highest: pick(self.highest, other.highest, |point| Some(point.equity)),
            deepest: pick(self.deepest, other.deepest, |point| point.drawdown),
            last: if other.last.place() > self.last.place() {
                other.last
            } else {
                self.last
            },
        }
    }
}

/// A series that is thinned as points are added.
#[derive(Debug)]
pub struct Thinned {
    width_ms: i64,
    stretches: BTreeMap<i64, Stretch>,
    first: Option<Point>,
    count: u64,
}

impl Default for Thinned {
    fn default() -> Thinned {
        Thinned {
            width_ms: WIDTH_MIN_MS,
            stretches: BTreeMap::new(),
            first: None,
            count: 0,
        }
    }
}

impl Thinned {
    /// Adds a point.
    pub fn push(&mut self, point: Point) {
        self.count = self.count.saturating_add(1);
        self.first.get_or_insert(point);
        self.put(
            point.time.ms().div_euclid(self.width_ms),
            Stretch::of(point),
        );
        while self.count > POINTS_MAX && self.stretches.len() > STRETCHES_MAX {
            self.width_ms = self.width_ms.saturating_mul(2);
            for (place, stretch) in std::mem::take(&mut self.stretches) {
                self.put(place.div_euclid(2), stretch);
            }
        }
    }

    fn put(&mut self, place: i64, stretch: Stretch) {
        let merged = self
            .stretches
            .get(&place)
            .map_or(stretch, |there| there.with(stretch));
        self.stretches.insert(place, merged);
    }

    /// Returns how many points were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the kept points in order of time.
    pub fn points(&self) -> Vec<Point> {
        let kept = self
            .stretches
            .values()
            .flat_map(Stretch::points)
            .chain(self.first);
        // Keyed by place, so that a point that is both lowest and last is returned once.
        let by_place: BTreeMap<(Time, u64), Point> =
            kept.map(|point| (point.place(), point)).collect();
        by_place.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ms: i64, line: u64, equity: i64, drawdown: i64) -> Point {
        Point {
            time: Time::from_ms(ms).unwrap(),
            line,
            equity: Amount::from_i64(equity),
            net_deposits: Amount::ZERO,
            peak: Some(Amount::from_i64(equity + drawdown)),
            drawdown: Some(Amount::from_i64(drawdown)),
        }
    }

    #[test]
    fn thinning_keeps_every_extreme() {
        let mut series = Thinned::default();
        // A dip, a spike and a drawdown without either, each of one line, in half a million lines
        // of about a month.
        for line in 0..500_000_u64 {
            let ms = i64::try_from(line).unwrap() * 5_000;
            let (equity, drawdown) = match line {
                123_457 => (-7, 900),
                311_111 => (9_999, 3),
                400_001 => (5_000, 2_500),
                _ => (5_000 + i64::try_from(line % 97).unwrap(), 10),
            };
            series.push(point(ms, line, equity, drawdown));
        }
        let kept = series.points();
        assert!(kept.len() <= 481, "{}", kept.len());
        assert_eq!(series.count(), 500_000);
        for line in [0, 123_457, 311_111, 400_001, 499_999] {
            assert!(
                kept.iter().any(|point| point.line == line),
                "line {line} was thinned away"
            );
        }
        assert!(kept.is_sorted_by_key(Point::place));
    }

    #[test]
    fn few_points_are_all_kept() {
        let mut series = Thinned::default();
        assert_eq!(series.points(), []);
        for line in 0..480 {
            series.push(point(i64::try_from(line).unwrap() * 60_000, line, 1, 0));
        }
        let lines: Vec<u64> = series.points().iter().map(|point| point.line).collect();
        assert_eq!(lines, (0..480).collect::<Vec<_>>());
        series.push(point(480 * 60_000, 480, 1, 0));
        assert!(series.points().len() < 480);
    }

    #[test]
    fn the_far_ends_of_the_calendar_fit() {
        let mut series = Thinned::default();
        for year in 0..=9999 {
            let time = Time::parse(&format!("{year:04}-12-01T23:59:59.999Z")).unwrap();
            series.push(point(time.ms(), year, i64::try_from(year).unwrap(), 0));
        }
        let kept = series.points();
        assert!(kept.len() <= 481, "{}", kept.len());
        assert_eq!(kept.last().unwrap().line, 9999);
    }
}
