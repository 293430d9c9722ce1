//! What a cage adds to the start of a program, beside the bare start of the same program.

use std::time::{Duration, Instant};

use super::*;
use crate::kit::campaign;

/// Prints it, and asserts no time: that would say more about the machine.
#[test]
fn what_a_cage_adds_to_a_start_is_printed() {
    if !can_cage() {
        return;
    }
    let cell = Cell::new();
    let levels = [CageLevel::Off, CageLevel::Require].map(Bounds::at);
    let mut taken: [Vec<Duration>; 2] = Default::default();
    for _ in 0..campaign(10, 1000) {
        // By turns, so that what else runs on the machine meets both alike.
        for (bounds, taken) in levels.iter().zip(&mut taken) {
            let begun = Instant::now();
            let run = cell.run("true", &[], json!({}), bounds);
            taken.push(begun.elapsed());
            assert!(matches!(run.ended, Ended::Exited(0)), "{:?}", run.ended);
        }
    }
    let [bare, caged] = taken.map(|mut taken| {
        taken.sort_unstable();
        taken[taken.len() / 2]
    });
    let more = caged.saturating_sub(bare);
    println!(
        "the start of `true`, median: bare {bare:?}, in a cage {caged:?}, which adds {more:?}"
    );
}
