//! Random facts: beside thresholds, on lists and off them, unusual, absent and unknown.

use spoolgate_rules::rule::entries::Entry;
use spoolgate_rules::rule::field::{Kind, Missing};
use spoolgate_rules::rule::ruleset::missing;
use spoolgate_rules::rule::{Around, Entries, Fact, Reading, Truth, Value};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::{Principal, SetName, TaskName};
use spoolgate_wire::time::Time;

use crate::kit::dice::Dice;
use crate::rules_theorem::books::{Book, ENDINGS, amount, pick, texts};
use crate::rules_theorem::fields;

/// What a decision reads besides facts.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub now: Time,
    pub entries: Entries,
    pub task: Option<TaskName>,
}

impl World {
    pub(super) fn around(&self) -> Around<'_> {
        Around {
            now: self.now,
            entries: &self.entries,
            task: self.task.as_ref(),
        }
    }

    pub(super) fn throw(dice: &mut Dice, books: &[&Book]) -> World {
        let now = pick(dice, &ENDINGS) + pick(dice, &[-1, 0, 1]);
        let now = Time::from_ms(now).unwrap();
        let task = dice.one_in(2).then(|| TaskName::parse("a/task-1").unwrap());
        let mut entries = Entries::default();
        let names: Vec<SetName> = books
            .iter()
            .flat_map(|book| book.sets.keys().cloned())
            .collect();
        for _ in 0..dice.below(5) {
            if names.is_empty() {
                break;
            }
            let value = pick(
                dice,
                &[
                    "a",
                    "b",
                    "c",
                    "other",
                    "x",
                    "mon",
                    "a.example",
                    "c.example",
                    "x@a.example",
                ],
            );
            let entry = Entry {
                by: Principal::parse("somebody").unwrap(),
                until: dice
                    .one_in(3)
                    .then(|| Time::from_ms(pick(dice, &ENDINGS)).unwrap()),
                task: dice.one_in(3).then(|| TaskName::parse("a/task-1").unwrap()),
            };
            entries.insert(pick(dice, &names), value.to_owned(), entry, Time::EPOCH);
        }
        World { now, entries, task }
    }
}

const NUMBERS: [&str; 16] = [
    "-1.5", "-1", "-0.5", "0", "0.5", "1", "1.2", "1.5", "2", "2.2", "2.5", "2.7", "3", "999.9",
    "1000", "1000.1",
];

pub(super) fn value(dice: &mut Dice, kind: Kind) -> Value<'static> {
    let whole = |n: u64| Value::Number(Amount::from_i64(i64::try_from(n).unwrap()));
    let text = |text: &str| Value::Text(text.to_owned().into());
    match kind {
        Kind::Number(..) => {
            let within = NUMBERS.map(amount).into_iter();
            let within: Vec<Amount> = within.filter(|it| kind.ends().holds(*it)).collect();
            Value::Number(pick(dice, &within))
        }
        Kind::Whole(_, 4) => whole(dice.below(5)),
        Kind::Whole(..) => whole(dice.below(8)),
        Kind::TimeOfDay => whole(pick(
            dice,
            &[0, 1, 2, 539, 540, 541, 1319, 1320, 1321, 1438, 1439],
        )),
        Kind::Flag => Value::Flag(dice.one_in(2)),
        Kind::Word(known) => text(pick(dice, known)),
        Kind::Name(_) => text(pick(dice, &["a", "b", "c", "other", "xa", "x", "hello"])),
        Kind::Host => text(pick(
            dice,
            &[
                "a.example",
                "B.example",
                "https://c.example/x?y",
                "other.example",
                "no host",
                "-",
                "a.example:443",
            ],
        )),
        Kind::Address => text(pick(
            dice,
            &[
                "x@a.example",
                "Y@A.example",
                "x@b.example",
                "q@other.example",
                "X <x@a.example>",
                "nobody@",
                "a@b c",
            ],
        )),
        Kind::Text => match dice.below(4) {
            0 => text(pick(dice, texts(Kind::Text))),
            1 => text(pick(
                dice,
                &[
                    "a.example",
                    "x@a.example",
                    "B.example",
                    "",
                    "INVOICE",
                    "other",
                ],
            )),
            _ => {
                let words = [
                    "https://a.example/",
                    "www.b.example",
                    "http://c.example",
                    "hello",
                    "https://no_host/",
                ];
                let words: Vec<&str> = (0..dice.below(4)).map(|_| pick(dice, &words)).collect();
                text(&words.join(" "))
            }
        },
    }
}

/// Draws a fact that the reading may have.
pub(super) fn fact(dice: &mut Dice, reading: &Reading) -> Fact<'static> {
    let kind = reading.kind();
    if dice.one_in(14) {
        return Fact::Unknown("not known".into());
    }
    if reading.is_many() {
        return Fact::Many((0..dice.below(4)).map(|_| value(dice, kind)).collect());
    }
    if missing(reading) == Missing::Absent && dice.one_in(5) {
        return Fact::Absent;
    }
    Fact::Known(value(dice, kind))
}

/// Draws facts for every reading, usually such that one of the rules acts, or nearly.
pub(super) fn facts(
    dice: &mut Dice,
    books: &[&Book],
    readings: &[Reading],
    world: &World,
) -> Vec<Fact<'static>> {
    let mut facts: Vec<Fact> = readings.iter().map(|reading| fact(dice, reading)).collect();
    let rules: Vec<_> = books.iter().flat_map(|book| &book.rules).collect();
    if rules.is_empty() || dice.one_in(4) {
        fields::relate(readings, &mut facts);
        return facts;
    }
    let around = world.around();
    let rule = rules[usize::try_from(dice.below(rules.len() as u64)).unwrap()];
    for (at, reading) in readings.iter().enumerate() {
        let asked: Vec<_> = rule
            .when
            .iter()
            .filter(|(of, _)| of == reading)
            .map(|(_, test)| test)
            .collect();
        for _ in 0..16 {
            if asked
                .iter()
                .all(|test| test.of(&facts[at], &around) != Truth::False)
            {
                break;
            }
            facts[at] = fact(dice, reading);
        }
    }
    for _ in 0..dice.below(3) {
        let at = usize::try_from(dice.below(readings.len() as u64)).unwrap();
        facts[at] = fact(dice, &readings[at]);
    }
    fields::relate(readings, &mut facts);
    facts
}
