//! Fields of every kind and every way to be missing.

use spoolgate_rules::rule::field::{Field, Id, Kind, Missing};
use spoolgate_rules::rule::ranges::End;
use spoolgate_rules::rule::registry::Registry;
use spoolgate_rules::rule::{Fact, Reading, Value};
use spoolgate_wire::amount::Amount;

const fn field(name: &'static str, kind: Kind, missing: Missing, is_many: bool) -> Field {
    // Nothing that compares or evaluates rules uses the id.
    Field {
        id: Id::OrderSide,
        name,
        kind,
        unit: "",
        meaning: "",
        is_many,
        missing,
        actions: &[],
    }
}

pub(super) static SIDE: Field = field("side", Kind::Word(&["buy", "sell"]), Missing::Never, false);
pub(super) static DAY: Field = field(
    "day",
    Kind::Word(&["mon", "tue", "wed"]),
    Missing::Unknown,
    false,
);
pub(super) static REGIME: Field = field(
    "regime",
    Kind::Name(Registry::Open),
    Missing::Unknown,
    false,
);
pub(super) static NAME: Field = field("name", Kind::Name(Registry::Open), Missing::Absent, false);
pub(super) static SIZE: Field = field(
    "size",
    Kind::Number(End::Without(Amount::ZERO), End::Open),
    Missing::Never,
    false,
);
pub(super) static PRICE: Field = field(
    "price",
    Kind::Number(End::With(Amount::ZERO), End::Without(Amount::ONE)),
    Missing::Absent,
    false,
);
pub(super) static SCORE: Field = field(
    "score",
    Kind::Number(End::Open, End::Open),
    Missing::Unknown,
    false,
);
pub(super) static FEW: Field = field("few", Kind::Whole(0, 4), Missing::Never, false);
pub(super) static LOTS: Field = field("lots", Kind::Whole(0, i64::MAX), Missing::Unknown, false);
pub(super) static CLOCK: Field = field("clock", Kind::TimeOfDay, Missing::Never, false);
pub(super) static FLAG: Field = field("flag", Kind::Flag, Missing::Never, false);
pub(super) static MAYBE: Field = field("maybe", Kind::Flag, Missing::Absent, false);
pub(super) static SUBJECT: Field = field("subject", Kind::Text, Missing::Absent, false);
pub(super) static HOST: Field = field("host", Kind::Host, Missing::Never, false);
pub(super) static FROM: Field = field("from", Kind::Address, Missing::Absent, false);
pub(super) static TO: Field = field("to", Kind::Address, Missing::Absent, true);
pub(super) static TAGS: Field = field("tags", Kind::Word(&["x", "y", "z"]), Missing::Never, true);
pub(super) static COUNTS: Field = field("counts", Kind::Whole(0, 4), Missing::Absent, true);
pub(super) static NOTES: Field = field("notes", Kind::Text, Missing::Absent, true);

/// Returns all readings.
pub(super) fn readings() -> Vec<Reading> {
    let fields = [
        &SIDE, &DAY, &REGIME, &NAME, &SIZE, &PRICE, &SCORE, &FEW, &LOTS, &CLOCK, &FLAG, &MAYBE,
        &SUBJECT, &HOST, &FROM, &TO, &TAGS, &COUNTS, &NOTES,
    ];
    let mut readings: Vec<Reading> = fields.into_iter().map(Reading::Field).collect();
    readings.push(Reading::FirstSeen(&NAME));
    readings.extend(COUNTS_OF_REQUESTS);
    readings.extend(SUMS.into_iter().skip(1));
    readings
}

const COUNTS_OF_REQUESTS: [Reading; 2] = [
    Reading::Count { window_s: 60 },
    Reading::Count { window_s: 3600 },
];
const SUMS: [Reading; 3] = [
    Reading::Field(&SIZE),
    Reading::Sum {
        of: &SIZE,
        window_s: 60,
    },
    Reading::Sum {
        of: &SIZE,
        window_s: 3600,
    },
];

/// Returns indexes of readings in an order in which, for any request, each is at most the next; a fact that
/// is not known is above every number.
fn chains(readings: &[Reading]) -> [Vec<usize>; 2] {
    let places = |chain: &[Reading]| {
        let at = |of: &Reading| readings.iter().position(|other| other == of);
        chain.iter().filter_map(at).collect()
    };
    [places(&COUNTS_OF_REQUESTS), places(&SUMS)]
}

fn height(fact: &Fact) -> (bool, Option<Amount>) {
    match fact {
        Fact::Known(Value::Number(number)) => (false, Some(*number)),
        _ => (true, None),
    }
}

/// Returns whether some request has these facts.
pub(super) fn is_possible(readings: &[Reading], facts: &[Fact]) -> bool {
    let heights = |chain: &Vec<usize>| {
        chain
            .iter()
            .map(|at| height(&facts[*at]))
            .collect::<Vec<_>>()
    };
    chains(readings)
        .iter()
        .all(|chain| heights(chain).is_sorted())
}

/// Sorts the facts such that some request has them.
pub(super) fn relate(readings: &[Reading], facts: &mut [Fact<'static>]) {
    for chain in chains(readings) {
        let mut sorted: Vec<Fact> = chain.iter().map(|at| facts[*at].clone()).collect();
        sorted.sort_by_key(height);
        for (at, fact) in chain.into_iter().zip(sorted) {
            facts[at] = fact;
        }
    }
}
