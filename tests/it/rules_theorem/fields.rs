//! Fields of every kind and every way to be missing.

use spoolgate_rules::rule::field::{self, Field, Id, Kind, Missing};
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
    readings.extend(mail());
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

/// Returns the arrays of recipients of a mail: `to`, `cc`, and all of them.
pub(super) fn mail() -> [Reading; 3] {
    ["payload.to", "payload.cc", "payload.recipients"]
        .map(|name| Reading::Field(field::find(name).unwrap()))
}

/// Returns the places of the arrays of recipients.
fn places(readings: &[Reading]) -> [Option<usize>; 3] {
    mail().map(|of| readings.iter().position(|other| *other == of))
}

/// Returns the elements of an array; `None` if they are not known.
fn elements<'f>(fact: &'f Fact<'static>) -> Option<&'f [Value<'static>]> {
    match fact {
        Fact::Many(values) => Some(values),
        Fact::Absent => Some(&[]),
        Fact::Known(_) | Fact::Unknown(_) => None,
    }
}

/// Returns whether all recipients are those of `to` and `cc`, as far as these are among the facts.
fn is_a_mail(readings: &[Reading], facts: &[Fact<'static>]) -> bool {
    let [to, cc, Some(all)] = places(readings) else {
        return true;
    };
    let parts: Vec<_> = [to, cc]
        .into_iter()
        .flatten()
        .map(|at| elements(&facts[at]))
        .collect();
    match elements(&facts[all]) {
        None => parts.len() < 2 || parts.contains(&None),
        Some(all) => {
            let known = parts.iter().flatten().flat_map(|part| part.iter());
            !parts.contains(&None)
                && known.clone().all(|value| all.contains(value))
                && (parts.len() < 2 || all.iter().all(|value| known.clone().any(|it| it == value)))
        }
    }
}

/// Returns whether some request has these facts.
pub(super) fn is_possible(readings: &[Reading], facts: &[Fact<'static>]) -> bool {
    let heights = |chain: &Vec<usize>| {
        chain
            .iter()
            .map(|at| height(&facts[*at]))
            .collect::<Vec<_>>()
    };
    is_a_mail(readings, facts)
        && chains(readings)
            .iter()
            .all(|chain| heights(chain).is_sorted())
}

/// Changes the facts such that some request has them.
pub(super) fn relate(readings: &[Reading], facts: &mut [Fact<'static>]) {
    for chain in chains(readings) {
        let mut sorted: Vec<Fact> = chain.iter().map(|at| facts[*at].clone()).collect();
        sorted.sort_by_key(height);
        for (at, fact) in chain.into_iter().zip(sorted) {
            facts[at] = fact;
        }
    }
    let [to, cc, Some(all)] = places(readings) else {
        return;
    };
    let parts: Vec<usize> = [to, cc].into_iter().flatten().collect();
    let of = |at: &usize| elements(&facts[*at]).map(<[Value]>::to_vec);
    let own = if parts.len() < 2 {
        of(&all)
    } else {
        Some(Vec::new())
    };
    let joined = parts
        .iter()
        .map(of)
        .chain([own])
        .collect::<Option<Vec<_>>>();
    facts[all] = joined.map_or(Fact::Unknown("not known".into()), |joined| {
        Fact::Many(joined.concat())
    });
}
