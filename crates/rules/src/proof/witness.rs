//! Finds facts in the uncovered part of an area, with values that a person can understand.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::area::{Area, Crowd, Piece};
use super::cells::Cells;
use super::cover::{Cover, Exhausted};
use super::cuts::{Cut, Numbers, units};
use super::relate::Mail;
use super::space::{CrowdOf, Dimension, Space, Values, View};
use crate::rule::field::Kind;
use crate::rule::{Fact, Reading, Value, host};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::SetName;

/// Most cells of a dimension, and a quarter of the texts in total, that are tried for one fact.
const TRIES_MAX: usize = 64;

/// Facts, and the values that must have been approved before.
#[derive(Debug, Default)]
pub(super) struct Example {
    /// One fact for every reading.
    pub facts: Vec<Fact<'static>>,
    /// Approved values with their sets.
    pub approved: Vec<(SetName, String)>,
}

/// Returns an example from the piece. It may be outside the piece, because dependencies between
/// fields are not part of the calculation; the caller has to try it.
pub(super) fn example(
    space: &Space,
    piece: &Piece,
    cover: &mut Cover,
) -> Result<Example, Exhausted> {
    let mut example = Example::default();
    let related = space
        .relations
        .example(&space.dimensions, &space.universes, piece);
    let mut mail = mail(space, piece, cover, &mut example)?;
    for (at, reading) in space.readings.iter().enumerate() {
        if let Some(fact) = mail.remove(&at) {
            example.facts.push(fact);
            continue;
        }
        if let Some(number) = u32::try_from(at).ok().and_then(|at| related.get(&at)) {
            let fact = number.map_or_else(not_known, Fact::number);
            example.facts.push(fact);
            continue;
        }
        let links = links(space, piece, at, cover, &mut example)?;
        let choosing = Choosing {
            space,
            piece,
            at: space.elements_of(at),
            reading,
            links: &links,
        };
        let fact = match space.number_of(CrowdOf {
            reading: at,
            is_links: false,
        }) {
            Some(number) if reading.is_many() => {
                let crowd = piece.crowd(number);
                elements(&crowd, &choosing, cover, &mut example)?.map_or_else(not_known, Fact::Many)
            }
            _ if reading.is_many() => Fact::Many(Vec::new()),
            _ => choosing.fact(&mut example),
        };
        example.facts.push(fact);
    }
    Ok(example)
}

/// Returns hosts of links that the text must contain.
fn links(
    space: &Space,
    piece: &Piece,
    at: usize,
    cover: &mut Cover,
    example: &mut Example,
) -> Result<Vec<String>, Exhausted> {
    let Some(number) = space.number_of(CrowdOf {
        reading: at,
        is_links: true,
    }) else {
        return Ok(Vec::new());
    };
    let crowd = piece.crowd(number);
    let mut hosts = Vec::new();
    for wanted in &crowd.with {
        let Some(room) = cover.room(wanted, &crowd)? else {
            continue;
        };
        let link = space
            .derived_of(at)
            .find(|(other, _)| other.view == View::Link);
        let Some((dimension, number)) = link else {
            continue;
        };
        let cells = room.side(number).map(|cells| cells.as_ref().clone());
        let cells = cells.unwrap_or_else(|| Cells::span(0, dimension.count));
        hosts.extend(names(dimension, Kind::Host, &cells).into_iter().next());
        if let Some(host) = hosts.last() {
            approve(
                space,
                &room,
                at,
                |view| matches!(view, View::ApprovedLink(_)),
                host,
                example,
            );
        }
    }
    Ok(hosts)
}

/// Returns an element in an area; `None` if the crowd has no room for one.
fn element(
    wanted: &Area,
    crowd: &Crowd,
    choosing: &Choosing,
    cover: &mut Cover,
    example: &mut Example,
) -> Result<Option<Value<'static>>, Exhausted> {
    let Some(room) = cover.room(wanted, crowd)? else {
        return Ok(None);
    };
    let element = Choosing {
        piece: &room,
        ..*choosing
    };
    Ok(match element.fact(example) {
        Fact::Known(value) => Some(value),
        Fact::Many(_) | Fact::Absent | Fact::Unknown(_) => None,
    })
}

/// Returns an element in each area that the crowd asks for; `None` if that is not possible.
fn elements(
    crowd: &Crowd,
    choosing: &Choosing,
    cover: &mut Cover,
    example: &mut Example,
) -> Result<Option<Vec<Value<'static>>>, Exhausted> {
    let mut values = Vec::new();
    for wanted in &crowd.with {
        match element(wanted, crowd, choosing, cover, example)? {
            Some(value) if !values.contains(&value) => values.push(value),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    Ok(Some(values))
}

/// Returns the recipients of a mail, by reading, if a rule reads all of them together.
fn mail(
    space: &Space,
    piece: &Piece,
    cover: &mut Cover,
    example: &mut Example,
) -> Result<BTreeMap<usize, Fact<'static>>, Exhausted> {
    let mut facts = BTreeMap::new();
    let Some(mail) = space.relations.mail else {
        return Ok(facts);
    };
    let place = |crowd: u32| space.crowds.get(crowd as usize).map(|crowd| crowd.reading);
    let Some(at) = place(mail.recipients) else {
        return Ok(facts);
    };
    let Some(reading) = space.readings.get(at) else {
        return Ok(facts);
    };
    let choosing = Choosing {
        space,
        piece,
        at: space.elements_of(at),
        reading,
        links: &[],
    };
    let [to, cc, all] = mail.crowds(piece);
    let (known_to, known_cc) = (Mail::among(&to, &all), Mail::among(&cc, &all));
    let of_to = elements(&known_to, &choosing, cover, example)?;
    let of_cc = elements(&known_cc, &choosing, cover, example)?;
    let (to, cc, all) = match (of_to, of_cc) {
        (Some(mut of_to), Some(mut of_cc)) => {
            for wanted in &all.with {
                if let Some(value) = element(wanted, &known_to, &choosing, cover, example)? {
                    of_to.push(value);
                } else {
                    of_cc.extend(element(wanted, &known_cc, &choosing, cover, example)?);
                }
            }
            let all = of_to.iter().chain(&of_cc).cloned().collect();
            (Fact::Many(of_to), Fact::Many(of_cc), Fact::Many(all))
        }
        // It is not known who gets the mail.
        _ if to.may_be_unknown => {
            let of_cc = elements(&cc, &choosing, cover, example)?;
            (
                not_known(),
                of_cc.map_or_else(not_known, Fact::Many),
                not_known(),
            )
        }
        _ => {
            let of_to = elements(&to, &choosing, cover, example)?;
            (
                of_to.map_or_else(not_known, Fact::Many),
                not_known(),
                not_known(),
            )
        }
    };
    for (crowd, fact) in [(mail.to, to), (mail.cc, cc), (Some(mail.recipients), all)] {
        if let Some(at) = crowd.and_then(place) {
            facts.insert(at, fact);
        }
    }
    Ok(facts)
}

fn not_known() -> Fact<'static> {
    Fact::Unknown(Cow::Borrowed("it is not known"))
}

/// Records that a value must have been approved, if the piece requires it.
fn approve(
    space: &Space,
    piece: &Piece,
    at: usize,
    is_of: impl Fn(&View) -> bool,
    value: &str,
    example: &mut Example,
) {
    for (dimension, number) in space.derived_of(at) {
        let (View::Approved(set) | View::ApprovedDomain(set) | View::ApprovedLink(set)) =
            dimension.view
        else {
            continue;
        };
        let is_approved = piece.side(number).is_some_and(|cells| !cells.holds(0));
        let entry = (set.clone(), value.to_owned());
        if is_of(&dimension.view) && is_approved && !example.approved.contains(&entry) {
            example.approved.push(entry);
        }
    }
}

/// Chooses the value of one fact, or of one element.
#[derive(Clone, Copy)]
struct Choosing<'c, 'a> {
    space: &'c Space<'a>,
    piece: &'c Piece,
    at: usize,
    reading: &'c Reading,
    links: &'c [String],
}

impl Choosing<'_, '_> {
    fn cells(&self, number: u32) -> Cells {
        let all = self.space.universes.get(number as usize);
        self.piece
            .side(number)
            .map(|cells| cells.as_ref().clone())
            .or(all.cloned())
            .unwrap_or_default()
    }

    fn fact(&self, example: &mut Example) -> Fact<'static> {
        let Some(plain) = self.space.dimensions.get(self.at) else {
            return not_known();
        };
        let cells = self.cells(u32::try_from(self.at).unwrap_or(u32::MAX));
        let values = cells.intersection(&Cells::span(0, plain.count));
        let known = match &plain.values {
            Values::Numbers(numbers) => number(numbers, &values).map(Value::Number),
            Values::Flag | Values::Expression(_) => {
                values.each().next().map(|cell| Value::Flag(cell == 1))
            }
            Values::Texts { .. } => self.text(plain, &cells, example),
        };
        match known {
            Some(value) => Fact::Known(value),
            None if cells.holds(plain.absent()) => Fact::Absent,
            None => not_known(),
        }
    }

    fn approvals(&self, text: &str, example: &mut Example) {
        let folded = self.reading.kind().fold(text).map(Cow::into_owned);
        for (value, is_of_domain) in [
            (folded, false),
            (host::domain_of(text).map(|domain| domain.to_string()), true),
        ] {
            let is_of = |view: &View| match view {
                View::Approved(_) => !is_of_domain,
                View::ApprovedDomain(_) => is_of_domain,
                _ => false,
            };
            if let Some(value) = value {
                approve(self.space, self.piece, self.at, is_of, &value, example);
            }
        }
    }

    /// Returns the first text that fits every dimension of this reading. If there is none, returns
    /// the first one at all, unless the text may be absent or not known.
    fn text(
        &self,
        plain: &Dimension,
        cells: &Cells,
        example: &mut Example,
    ) -> Option<Value<'static>> {
        let texts = self.texts(plain, cells);
        let with_links: Vec<String> = texts
            .iter()
            .filter(|_| !self.links.is_empty())
            .map(|text| {
                let add = |text: String, host: &String| format!("{text} https://{host}/");
                self.links.iter().fold(text.clone(), add)
            })
            .collect();
        let all = || with_links.iter().chain(&texts);
        let may_be_missing = cells.holds(plain.absent())
            || cells.holds(plain.unknown())
                && self
                    .own()
                    .filter(|(dimension, _)| {
                        matches!(dimension.view, View::Domain | View::Expression(_))
                    })
                    .all(|(dimension, number)| self.cells(number).holds(dimension.unknown()));
        let suited = all().find(|text| self.suits(text, plain, cells));
        let text = suited.or_else(|| all().next().filter(|_| !may_be_missing))?;
        self.approvals(text, example);
        Some(Value::Text(Cow::Owned(text.clone())))
    }

    /// Returns texts that may fit.
    fn texts(&self, plain: &Dimension, cells: &Cells) -> Vec<String> {
        let kind = self.reading.kind();
        let mut texts = names(
            plain,
            kind,
            &cells.intersection(&Cells::span(0, plain.count)),
        );
        if matches!(kind, Kind::Text | Kind::Address | Kind::Host) {
            let loud: Vec<String> = texts.iter().map(|text| text.to_uppercase()).collect();
            texts.extend(loud);
        }
        if cells.holds(plain.odd()) {
            let odd = ["- -", "Somebody <a@b.example>"]
                .into_iter()
                .filter(|text| kind.fold(text).is_none());
            texts.extend(odd.map(str::to_owned));
        }
        for (dimension, number) in self.own() {
            if dimension.view == View::Domain {
                let hosts = names(dimension, Kind::Host, &self.cells(number));
                texts.extend(hosts.into_iter().map(|host| match kind {
                    Kind::Address => format!("someone@{host}"),
                    _ => host,
                }));
            }
        }
        let universes = &self.space.universes;
        let relations = &self.space.relations;
        for text in relations.examples(self.at, universes, self.piece) {
            match kind {
                Kind::Address => texts.extend([
                    format!("{text}@other.example"),
                    format!("{text}other.example"),
                    format!("someone{text}"),
                    format!("someone@{text}"),
                ]),
                Kind::Host => texts.push(format!("{text}.example")),
                _ => {}
            }
            texts.push(text.to_owned());
        }
        texts.truncate(4 * TRIES_MAX);
        texts
    }

    /// Returns the dimensions derived from this reading, with their numbers.
    fn own(&self) -> impl Iterator<Item = (&Dimension<'_>, u32)> {
        self.space.derived_of(self.at)
    }

    fn suits(&self, text: &str, plain: &Dimension, cells: &Cells) -> bool {
        let place = |dimension: &Dimension, text: Option<&str>| {
            text.map_or(Some(dimension.odd()), |text| dimension.cell_of(text))
        };
        let folded = self.reading.kind().fold(text);
        place(plain, folded.as_deref()).is_some_and(|cell| cells.holds(cell))
            && self.own().all(|(dimension, number)| {
                let cell = match (&dimension.view, &dimension.values) {
                    (View::Domain, _) => place(dimension, host::domain_of(text).as_deref()),
                    (View::Expression(_), Values::Expression(regex)) => {
                        Some(u32::from(regex.is_match(text)))
                    }
                    _ => return true,
                };
                cell.is_some_and(|cell| self.cells(number).holds(cell))
            })
    }
}

/// Returns texts in these cells; appends a new one if the cells include unnamed texts.
fn names(dimension: &Dimension, kind: Kind, cells: &Cells) -> Vec<String> {
    let Values::Texts { named, has_others } = &dimension.values else {
        return Vec::new();
    };
    let mut names = Vec::new();
    for cell in cells.each().take(TRIES_MAX) {
        names.extend(named.get(cell as usize).map(|name| (*name).to_owned()));
    }
    if *has_others && cells.holds(dimension.count.saturating_sub(1)) {
        let fresh = (1_u32..)
            .map(|n| fresh(kind, n))
            .take(named.len().saturating_add(1));
        names.extend(
            fresh
                .into_iter()
                .find(|text| named.binary_search(&text.as_str()).is_err()),
        );
    }
    names
}

fn fresh(kind: Kind, n: u32) -> String {
    let tail = if n == 1 {
        String::new()
    } else {
        format!("-{n}")
    };
    match kind {
        Kind::Host => format!("other{tail}.example"),
        Kind::Address => format!("someone@other{tail}.example"),
        _ => format!("other{tail}"),
    }
}

/// Returns a number in these cells, positive if possible.
fn number(numbers: &Numbers, cells: &Cells) -> Option<Amount> {
    let mut picks =
        cells
            .spans()
            .iter()
            .filter_map(|span| match (numbers.whole, numbers.ends(*span)) {
                (Some((least, most)), (low, high)) => Some(whole(least, most, low, high)),
                (None, (low, high)) => between(low, high)
                    .filter(|number| numbers.has(*number))
                    .or_else(|| {
                        let (low, high) = numbers.bounded_ends(*span);
                        between(low, high)
                    }),
            });
    let first = picks.next()?;
    Some(if first.is_positive() {
        first
    } else {
        picks.find(|pick| pick.is_positive()).unwrap_or(first)
    })
}

fn whole(least: i64, most: i64, low: Option<Cut>, high: Option<Cut>) -> Amount {
    match (low, high) {
        (Some(low), _) => low.at,
        (None, Some(high)) => high.at.checked_sub(Amount::ONE).unwrap_or(high.at),
        (None, None) => Amount::from_i64(least.max(1).min(most)),
    }
}

fn between(low: Option<Cut>, high: Option<Cut>) -> Option<Amount> {
    match (low, high) {
        (Some(low), _) if !low.is_behind => Some(low.at),
        (_, Some(high)) if high.is_behind => Some(high.at),
        (None, None) => Some(Amount::ONE),
        (Some(low), None) => low.at.checked_add(Amount::ONE),
        (None, Some(high)) if !high.at.is_positive() => high.at.checked_sub(Amount::ONE),
        (None, Some(high)) => units()
            .filter_map(|unit| high.at.checked_sub(unit))
            .find(|at| at.is_positive()),
        (Some(low), Some(high)) => units()
            .filter_map(|unit| low.at.checked_add(unit))
            .find(|at| low.at < *at && *at < high.at),
    }
}
