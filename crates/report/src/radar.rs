//! A radar chart of the six axes of a council decision, in integer arithmetic.

use maud::{Markup, html};

use spoolgate_replay::report::AxisRow;
use spoolgate_wire::council::Tenths;

/// Directions of the six axes, clockwise from the top, in thousandths: sines and cosines of 60
/// degrees.
const DIRECTIONS: [(i64, i64); 6] = [
    (0, -1000),
    (866, -500),
    (866, 500),
    (0, 1000),
    (-866, 500),
    (-866, -500),
];
/// Radius of a score of 10.0.
const RADIUS: i64 = 84;
/// Scores at which a ring is drawn, in tenths.
const RINGS: [u8; 4] = [25, 50, 75, 100];

/// Returns the coordinates of a score on the axis with this index.
fn place(index: usize, tenths: u8) -> (i64, i64) {
    let (x, y) = DIRECTIONS.get(index).copied().unwrap_or_default();
    let along = |direction: i64| (direction * RADIUS * i64::from(tenths)) / 100_000;
    (along(x), along(y))
}

/// Returns the points of a polygon with one score per axis.
fn outline(scores: impl Iterator<Item = u8>) -> String {
    let corners: Vec<String> = scores
        .enumerate()
        .map(|(index, tenths)| {
            let (x, y) = place(index, tenths);
            format!("{x},{y}")
        })
        .collect();
    corners.join(" ")
}

/// Returns how an axis fell short, or `None` if it did not.
pub(crate) fn short_of(row: &AxisRow) -> Option<&'static str> {
    let score = row.score.tenths();
    match (row.reject_below, row.unsure_below) {
        _ if !row.assessed => Some("not assessed"),
        (Some(reject), _) if score < reject => Some("rejects"),
        (_, Some(unsure)) if score < unsure => Some("too low"),
        _ => None,
    }
}

/// Renders the radar of a case; `id` must be unique on the page.
pub(crate) fn radar(id: &str, case: &str, axes: &[AxisRow]) -> Markup {
    let all = |of: fn(&AxisRow) -> Option<u8>| axes.iter().map(of).collect::<Option<Vec<u8>>>();
    // The floors do not apply to an axis that was not assessed.
    let reject = all(|row| {
        row.reject_below
            .map(|floor| if row.assessed { floor } else { 0 })
    });
    let unsure = all(|row| {
        row.unsure_below
            .map(|floor| if row.assessed { floor } else { 0 })
    });
    let described: Vec<String> = axes
        .iter()
        .map(|row| format!("{} {}", row.axis.as_str().replace('_', " "), row.score))
        .collect();
    html! {
        svg class="radar" role="img" aria-labelledby=(format!("{id}-t {id}-d"))
            viewBox="-206 -126 412 252" {
            title id=(format!("{id}-t")) { "Scores of case " (case) }
            desc id=(format!("{id}-d")) { (described.join(", ")) ", each of 10.0." }
            @for ring in RINGS {
                polygon class="ring" points=(outline(std::iter::repeat_n(ring, 6))) {}
            }
            @for index in 0..6 {
                @let (x, y) = place(index, 100);
                line class="spoke" x1="0" y1="0" x2=(x) y2=(y) {}
            }
            @if let Some(unsure) = unsure {
                polygon class="floor unsure" points=(outline(unsure.into_iter())) {}
            }
            @if let Some(reject) = reject {
                polygon class="floor reject" points=(outline(reject.into_iter())) {}
            }
            polygon class="score" points=(outline(axes.iter().map(|row| row.score.tenths()))) {}
            @for (index, row) in axes.iter().enumerate() {
                (corner(index, row))
            }
        }
    }
}

/// Draws the mark of one score and its label: a square if the score falls short, otherwise a dot.
fn corner(index: usize, row: &AxisRow) -> Markup {
    let (x, y) = place(index, row.score.tenths());
    let (label_x, label_y) = place(index, 100);
    let (dx, dy, anchor) = match index {
        0 => (0, -24, "middle"),
        3 => (0, 16, "middle"),
        1 | 2 => (10, -2, "start"),
        _ => (-10, -2, "end"),
    };
    let (label_x, label_y) = (label_x + dx, label_y + dy);
    let fell_short = short_of(row);
    html! {
        @if fell_short.is_some() {
            rect class="mark short" x=(x - 4) y=(y - 4) width="8" height="8" {}
        } @else {
            circle class="mark" cx=(x) cy=(y) r="3" {}
        }
        text x=(label_x) y=(label_y) text-anchor=(anchor) {
            tspan class="axis" { (row.axis.number()) " " (row.axis.as_str().replace('_', " ")) }
            tspan class="value" x=(label_x) dy="14" {
                (row.score)
                @if let Some(how) = fell_short { ", " (how) }
            }
        }
    }
}

/// Formats a floor as a score.
pub(crate) fn floor(tenths: Option<u8>) -> String {
    tenths.map_or_else(
        || "unknown".to_owned(),
        |tenths| Tenths::new(tenths).to_string(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use spoolgate_wire::council::Axis;

    #[test]
    fn scores_stand_where_they_should() {
        assert_eq!(place(0, 100), (0, -84));
        assert_eq!(place(3, 50), (0, 42));
        assert_eq!(place(1, 100), (72, -42));
        assert_eq!(place(5, 0), (0, 0));
        assert_eq!(
            outline([0, 0, 0, 100, 0, 0].into_iter()),
            "0,0 0,0 0,0 0,84 0,0 0,0"
        );
    }

    #[test]
    fn an_axis_that_falls_short_says_so() {
        let row = |score, assessed| AxisRow {
            axis: Axis::Overfitting,
            score: Tenths::new(score),
            reject_below: Some(30),
            unsure_below: Some(60),
            assessed,
        };
        let cases = [
            (29, true, Some("rejects")),
            (30, true, Some("too low")),
            (60, true, None),
            (90, false, Some("not assessed")),
        ];
        for (score, assessed, expect) in cases {
            assert_eq!(short_of(&row(score, assessed)), expect, "{score}");
        }
    }
}
