//! The signers of verdicts, and the seats that lack a signer of their own.

use std::collections::{BTreeMap, BTreeSet};

use spoolgate_wire::council::RoleVerdict;

/// Who signed a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speaker {
    /// Its operator if that is declared, otherwise its name.
    pub signer: String,
    /// Its family of models, or the person; `None` if none is declared.
    pub family: Option<String>,
}

/// A verdict with the one who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The verdict.
    pub verdict: RoleVerdict,
    /// Who signed it.
    pub by: Speaker,
}

impl Filed {
    /// Reads verdicts whose signers are not known as if each role had a signer and a family of its
    /// own.
    pub fn apart(verdicts: impl IntoIterator<Item = RoleVerdict>) -> Vec<Filed> {
        let filed = |verdict: RoleVerdict| {
            let signer = format!("role:{}", verdict.role);
            let by = Speaker {
                family: Some(signer.clone()),
                signer,
            };
            Filed { verdict, by }
        };
        verdicts.into_iter().map(filed).collect()
    }
}

/// Returns the places of the seats that have too few signers between them: the sets of candidates
/// among which no system of distinct representatives exists (Hall's theorem). Empty if every seat can
/// have a candidate of its own.
pub fn short_of<T: Ord>(seats: &[BTreeSet<T>]) -> BTreeSet<usize> {
    let taken = matched(seats);
    let seated: BTreeSet<usize> = taken.values().copied().collect();
    let mut short: BTreeSet<usize> = (0..seats.len())
        .filter(|seat| !seated.contains(seat))
        .collect();
    // A seat that holds a candidate of a short seat could give way to it, so it is short as well.
    let mut queue: Vec<usize> = short.iter().copied().collect();
    while let Some(seat) = queue.pop() {
        let rivals = seats.get(seat).into_iter().flatten();
        for rival in rivals.filter_map(|candidate| taken.get(candidate)) {
            if short.insert(*rival) {
                queue.push(*rival);
            }
        }
    }
    short
}

/// Returns how many seats can have a candidate of their own.
pub(super) fn most_apart<T: Ord>(seats: &[BTreeSet<T>]) -> usize {
    matched(seats).len()
}

/// Returns a largest matching as the seat of each candidate, by augmenting paths.
fn matched<T: Ord>(seats: &[BTreeSet<T>]) -> BTreeMap<&T, usize> {
    let mut taken = BTreeMap::new();
    for seat in 0..seats.len() {
        place(seats, seat, &mut taken, &mut BTreeSet::new());
    }
    taken
}

/// Finds a candidate for a seat; others move if that makes room. It calls itself once a seat at most.
fn place<'a, T: Ord>(
    seats: &'a [BTreeSet<T>],
    seat: usize,
    taken: &mut BTreeMap<&'a T, usize>,
    tried: &mut BTreeSet<&'a T>,
) -> bool {
    for candidate in seats.get(seat).into_iter().flatten() {
        if !tried.insert(candidate) {
            continue;
        }
        let holder = taken.get(candidate).copied();
        if holder.is_none_or(|holder| place(seats, holder, taken, tried)) {
            taken.insert(candidate, seat);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(seats: &[&str]) -> Vec<BTreeSet<String>> {
        let letters = |seat: &&str| seat.chars().map(String::from).collect();
        seats.iter().map(letters).collect()
    }

    fn short(seats: &[BTreeSet<String>]) -> Vec<usize> {
        short_of(seats).into_iter().collect()
    }

    #[test]
    fn seats_that_share_too_few_signers_are_named() {
        let cases: [(&[&str], &[usize]); 8] = [
            (&[], &[]),
            (&["a"], &[]),
            (&["a", "a"], &[0, 1]),
            (&["a", "b"], &[]),
            (&["ab", "a"], &[]),
            (&["ab", "a", "b"], &[0, 1, 2]),
            (&["a", "a", "bc", "c"], &[0, 1]),
            (&["ab", "bc", "ca", "d"], &[]),
        ];
        for (seats, expected) in cases {
            assert_eq!(short(&sets(seats)), expected, "{seats:?}");
        }
    }

    /// Returns whether all seats can have distinct candidates, by trying every choice.
    fn can_all_sit(seats: &[BTreeSet<String>], used: &mut BTreeSet<String>) -> bool {
        let Some((first, others)) = seats.split_first() else {
            return true;
        };
        first.iter().any(|candidate| {
            if !used.insert(candidate.clone()) {
                return false;
            }
            let fits = can_all_sit(others, used);
            used.remove(candidate);
            fits
        })
    }

    #[test]
    fn every_family_of_up_to_four_seats_and_four_signers_is_judged_as_by_trying() {
        for seats in 0..=4_u32 {
            for pattern in 0..16_u32.pow(seats) {
                let set = |seat: u32| {
                    let bits = pattern / 16_u32.pow(seat) % 16;
                    (0..4)
                        .filter(|signer| bits & (1 << signer) != 0)
                        .map(|signer| signer.to_string())
                        .collect()
                };
                let sets: Vec<BTreeSet<String>> = (0..seats).map(set).collect();
                let short = short(&sets);
                let fits = can_all_sit(&sets, &mut BTreeSet::new());
                assert_eq!(short.is_empty(), fits, "{sets:?}");
                // The named seats have fewer signers than seats, and the others are served.
                if !fits {
                    let of_short: BTreeSet<&String> =
                        short.iter().flat_map(|seat| &sets[*seat]).collect();
                    assert!(of_short.len() < short.len(), "{sets:?} {short:?}");
                    let others: Vec<_> = (0..sets.len())
                        .filter(|seat| !short.contains(seat))
                        .map(|seat| sets[seat].clone())
                        .collect();
                    assert!(can_all_sit(&others, &mut BTreeSet::new()), "{sets:?}");
                }
            }
        }
    }
}
