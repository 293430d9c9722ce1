//! Which strategies of a home can enter now, and what keeps the others from it.

use serde::Serialize;

use crate::dry_run::{Asked, Trial};
use crate::error::HomeError;
use spoolgate_gate::openings::{LEGS_MAX, Opening, Standing, legs, probes, standing};

/// What would become of the smallest entry of each leg.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Openings {
    /// All of them together.
    pub entries: Entries,
    /// Each leg, up to [`LEGS_MAX`].
    pub openings: Vec<Opening>,
    /// Legs beyond that.
    pub left_out: usize,
}

spoolgate_wire::named! {
    /// Whether entries are open.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    pub enum Entries {
        /// No leg is closed.
        Open = "open",
        /// Some legs are closed.
        InPart = "open in part",
        /// Every leg is closed, or there is none.
        Closed = "closed",
    }
}

impl Openings {
    /// Decides the probes of every leg over this home. A leg stands as the best of its theses does.
    ///
    /// # Errors
    /// Returns [`HomeError`] if the home cannot be read.
    pub fn of(trial: &Trial) -> Result<Openings, HomeError> {
        let (state, rules) = (&trial.view.state, &trial.view.rulebook);
        let mut all = legs(rules);
        let mut openings = Vec::new();
        for leg in all.by_ref().take(LEGS_MAX) {
            let found = match probes(state, rules, &leg, trial.now) {
                Err(cause) => (Standing::Closed, Some(cause)),
                Ok(probes) => {
                    let mut best = None;
                    for probe in probes {
                        let tried = trial.decide(&Asked::Unsigned(probe))?;
                        let found = standing(&tried.decision);
                        let is_open = found.0 == Standing::Open;
                        if best.as_ref().is_none_or(|(best, _)| found.0 < *best) {
                            best = Some(found);
                        }
                        if is_open {
                            break;
                        }
                    }
                    best.unwrap_or((Standing::Closed, None))
                }
            };
            let (entries, cause) = found;
            openings.push(Opening {
                leg,
                entries,
                cause,
            });
        }
        let closed = openings.iter().filter(|it| it.entries == Standing::Closed);
        let entries = match closed.count() {
            count if count == openings.len() => Entries::Closed,
            0 => Entries::Open,
            _ => Entries::InPart,
        };
        Ok(Openings {
            entries,
            openings,
            left_out: all.count(),
        })
    }
}
