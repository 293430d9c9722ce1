//! The dimensions that rules act in. Every fact, and every value derived from a fact, is a
//! dimension whose values are cut wherever a condition can tell two of them apart.
//!
//! Values derived from a text (its domain, whether an expression matches it, whether it was
//! approved) are dimensions of their own, and `relate` knows how some of them depend on the text.
//! Otherwise they are treated as independent. This admits combinations that cannot occur, so fewer
//! true statements can be proved, but never a false one.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use regex::Regex;

use super::area::{Area, Ask, Sides};
use super::cells::Cells;
use super::cover::{Exhausted, Steps, Tie};
use super::cuts::Numbers;
use super::relate::{self, Mail, Relations};
use super::texts::Text;
use crate::rule::field::{Id, Kind, LAST_MINUTE, Missing};
use crate::rule::ruleset::missing;
use crate::rule::set::{Grows, Provenance};
use crate::rule::{Guard, Members, NamedSet, Reading, Test};
use spoolgate_wire::ids::SetName;
use spoolgate_wire::time::Time;

/// The aspect of a fact, or of one of its elements, that a dimension is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum View<'a> {
    /// Its value.
    Plain,
    /// Its domain.
    Domain,
    /// The host of a link in it.
    Link,
    /// Whether this expression matches it.
    Expression(&'a str),
    /// Whether its value was approved into this set.
    Approved(&'a SetName),
    /// Whether its domain was approved into this set.
    ApprovedDomain(&'a SetName),
    /// Whether the link's host was approved into this set.
    ApprovedLink(&'a SetName),
}

/// The values of a dimension.
#[derive(Clone, Debug)]
pub(super) enum Values<'a> {
    /// Numbers.
    Numbers(Numbers),
    /// One cell for each named text, and one for all other texts if there are any.
    Texts {
        /// The names, sorted.
        named: Vec<&'a str>,
        /// Whether there are other texts.
        has_others: bool,
    },
    /// False and true.
    Flag,
    /// False and true: whether this expression matches.
    Expression(&'a Regex),
}

/// A dimension: cells with values, then three cells without a value.
#[derive(Clone, Debug)]
pub(super) struct Dimension<'a> {
    /// Index of the reading.
    pub reading: usize,
    /// The aspect of the reading.
    pub view: View<'a>,
    /// Its values.
    pub values: Values<'a>,
    /// Number of cells with values.
    pub count: u32,
}

/// Identifies a crowd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CrowdOf {
    /// Index of the reading.
    pub reading: usize,
    /// Whether its elements are links in the text, not elements of the array.
    pub is_links: bool,
}

/// The dimensions that some rules of one action use.
#[derive(Debug, Default)]
pub(super) struct Space<'a> {
    /// The readings.
    pub readings: Vec<Reading>,
    /// For each reading, the one whose dimensions its elements share: the arrays of recipients of
    /// a mail have the same elements.
    pub elements: Vec<usize>,
    /// The dimensions. Those of the readings themselves come first.
    pub dimensions: Vec<Dimension<'a>>,
    /// All cells of each dimension.
    pub universes: Vec<Cells>,
    /// The tie of each dimension, if it can be yes only where another one has a value.
    pub ties: Vec<Option<Tie>>,
    /// The crowds.
    pub crowds: Vec<CrowdOf>,
    /// Which facts are never above others.
    pub relations: Relations<'a>,
    derived: BTreeMap<(usize, View<'a>), u32>,
    mentioned: BTreeSet<(u32, usize, bool)>,
    /// Whether some condition has a form that the proof cannot compute with.
    pub is_opaque: bool,
}

/// Cells of set members at one instant, cached because many conditions use the same set.
type Resolved = BTreeMap<(u32, usize, bool), Rc<Cells>>;

/// Converts rules to areas at one instant.
pub(super) struct Resolver<'s, 'a> {
    space: &'s Space<'a>,
    now: Time,
    resolved: Resolved,
}

impl<'a> Dimension<'a> {
    /// Returns the cell of a text that is there but cannot be compared, such as one with
    /// look-alike letters.
    pub(super) fn odd(&self) -> u32 {
        self.count
    }

    /// Returns the cell of a field that the request leaves out.
    pub(super) fn absent(&self) -> u32 {
        self.count.saturating_add(1)
    }

    /// Returns the cell of an unknown value.
    pub(super) fn unknown(&self) -> u32 {
        self.count.saturating_add(2)
    }

    /// Returns the cell of a folded text.
    pub(super) fn cell_of(&self, text: &str) -> Option<u32> {
        let Values::Texts { named, has_others } = &self.values else {
            return None;
        };
        match named.binary_search(&text) {
            Ok(at) => u32::try_from(at).ok(),
            Err(_) => has_others.then(|| self.count.saturating_sub(1)),
        }
    }

    fn named(&self, text: &str) -> Option<u32> {
        let Values::Texts { named, .. } = &self.values else {
            return None;
        };
        named
            .binary_search(&text)
            .ok()
            .and_then(|at| u32::try_from(at).ok())
    }

    /// Completes the list of values; returns all cells that exist.
    fn seal(&mut self, reading: &Reading) -> Cells {
        let is_element = self.view == View::Link || reading.is_many();
        let is_plain = self.view == View::Plain;
        let (count, has_odd) = match &mut self.values {
            Values::Numbers(numbers) => (numbers.seal(), false),
            Values::Texts { named, has_others } => {
                named.sort_unstable();
                named.dedup();
                // Every name and every text can be compared.
                let is_comparable =
                    is_plain && matches!(reading.kind(), Kind::Name(_) | Kind::Text);
                (
                    u32::try_from(named.len()).unwrap_or(u32::MAX - 4) + u32::from(*has_others),
                    *has_others && !is_comparable,
                )
            }
            Values::Flag | Values::Expression(_) => (2, false),
        };
        self.count = count;
        let is_approval = matches!(
            self.view,
            View::Approved(_) | View::ApprovedDomain(_) | View::ApprovedLink(_)
        );
        let mut cells = vec![(0, count)];
        let mut special = |at: u32| cells.push((at, at.saturating_add(1)));
        if has_odd {
            special(self.odd());
        }
        if is_plain && !is_element && missing(reading) == Missing::Absent {
            special(self.absent());
        }
        if !is_element && !is_approval {
            special(self.unknown());
        }
        Cells::of(cells)
    }
}

impl<'a> Space<'a> {
    /// Creates a space over these readings of an action, without cuts.
    pub(super) fn over(readings: Vec<Reading>, action: &str) -> Space<'a> {
        let mut space = Space::default();
        for (at, reading) in readings.iter().enumerate() {
            space.dimensions.push(Dimension {
                reading: at,
                view: View::Plain,
                values: values_of(reading, action),
                count: 0,
            });
        }
        space.relations = Relations::of(&readings);
        let first = readings.iter().position(relate::is_of_mail);
        let shared = |(at, reading)| first.filter(|_| relate::is_of_mail(reading)).unwrap_or(at);
        space.elements = readings.iter().enumerate().map(shared).collect();
        for (reading, _) in readings
            .iter()
            .enumerate()
            .filter(|(_, of)| relate::is_of_mail(of))
        {
            space.crowd(CrowdOf {
                reading,
                is_links: false,
            });
        }
        space.readings = readings;
        space
    }

    /// Adds the cuts, dimensions and crowds that a rule needs; `slots` maps its facts to readings.
    pub(super) fn mention(
        &mut self,
        guard: &'a Guard,
        slots: &[usize],
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        for condition in &guard.conditions {
            steps.take(1)?;
            if let Some(reading) = slots.get(condition.slot) {
                self.mention_test(*reading, &condition.test, steps)?;
            }
        }
        Ok(())
    }

    fn mention_test(
        &mut self,
        reading: usize,
        test: &'a Test,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        let is_many = self.readings.get(reading).is_some_and(Reading::is_many);
        if is_many {
            self.crowd(CrowdOf {
                reading,
                is_links: false,
            });
        }
        let crowd = reading;
        let reading = self.elements_of(reading);
        let plain = u32::try_from(reading).unwrap_or(u32::MAX);
        match test {
            Test::Number(ranges) => {
                if let Some(Dimension {
                    values: Values::Numbers(numbers),
                    ..
                }) = self.dimensions.get_mut(reading)
                {
                    steps.take(searches(2 * ranges.parts().len() as u64, numbers.len()))?;
                    numbers.mention(ranges);
                } else {
                    self.is_opaque = true;
                }
            }
            Test::Member { of, is_in, .. } => {
                self.mention_members(reading, plain, View::Approved, of, *is_in, steps)?
            }
            Test::Domain { of, is_in } => {
                let domain = self.dimension(reading, View::Domain, TEXTS);
                self.mention_members(reading, domain, View::ApprovedDomain, of, *is_in, steps)?;
            }
            Test::LinksNotIn(of) => {
                self.crowd(CrowdOf {
                    reading: crowd,
                    is_links: true,
                });
                let link = self.dimension(reading, View::Link, TEXTS);
                self.mention_members(reading, link, View::ApprovedLink, of, false, steps)?;
            }
            Test::Matches { pattern, .. } => {
                self.dimension(
                    reading,
                    View::Expression(pattern.0.as_str()),
                    Values::Expression(&pattern.0),
                );
            }
            Test::Flag(_) | Test::Absent | Test::Present => {}
        }
        Ok(())
    }

    fn mention_members(
        &mut self,
        reading: usize,
        dimension: u32,
        approved: fn(&'a SetName) -> View<'a>,
        of: &'a Members,
        is_in: bool,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        if let Members::Named { set, seen_too } = of {
            if set.grows != Grows::Never {
                // Whether a value is in a growing set is not known, so a condition that needs it to
                // be in cannot be computed.
                self.is_opaque |= is_in;
                self.dimension(reading, approved(&set.name), Values::Flag);
            }
            if !self.mentioned.insert(key(dimension, set, *seen_too)) {
                return Ok(());
            }
        }
        let Some(Dimension {
            values: Values::Texts { named, has_others },
            ..
        }) = self.dimensions.get_mut(dimension as usize)
        else {
            self.is_opaque = true;
            return Ok(());
        };
        // If there are no other texts, every value is named already.
        if *has_others {
            // The names are sorted later, which counts too.
            steps.take(searches(
                weight(of),
                named.len().saturating_add(weight(of) as usize),
            ))?;
            match of {
                Members::Listed(listed) => named.extend(listed.iter().map(String::as_str)),
                Members::Named { set, .. } => named.extend(set.values.keys().map(String::as_str)),
            }
        }
        Ok(())
    }

    fn dimension(&mut self, reading: usize, view: View<'a>, values: Values<'a>) -> u32 {
        let next = u32::try_from(self.dimensions.len()).unwrap_or(u32::MAX);
        *self.derived.entry((reading, view)).or_insert_with(|| {
            self.dimensions.push(Dimension {
                reading,
                view,
                values,
                count: 0,
            });
            next
        })
    }

    fn crowd(&mut self, crowd: CrowdOf) {
        if !self.crowds.contains(&crowd) {
            self.crowds.push(crowd);
        }
    }

    /// Completes the space after all rules were mentioned.
    pub(super) fn seal(&mut self) {
        self.universes.clear();
        for dimension in &mut self.dimensions {
            if let Some(reading) = self.readings.get(dimension.reading) {
                self.universes.push(dimension.seal(reading));
            }
        }
        let tie = |dimension: &Dimension<'a>| {
            let to = match dimension.view {
                View::Approved(_) => u32::try_from(dimension.reading).ok(),
                View::ApprovedDomain(_) => self.derived(dimension.reading, View::Domain),
                View::ApprovedLink(_) => self.derived(dimension.reading, View::Link),
                _ => None,
            }?;
            self.dimensions.get(to as usize).map(|other| Tie {
                to,
                count: other.count,
            })
        };
        self.ties = self.dimensions.iter().map(tie).collect();
        for (at, reading) in self.readings.iter().enumerate() {
            if let (Some(plain), Ok(number)) = (self.dimensions.get(at), u32::try_from(at)) {
                let text = Text::of(reading.kind(), (plain, number), self.derived_of(at));
                self.relations.texts.extend(text);
            }
        }
        self.relations.mail = Mail::of(self);
    }

    /// Returns the reading whose dimensions the elements of a reading have.
    pub(super) fn elements_of(&self, reading: usize) -> usize {
        self.elements.get(reading).copied().unwrap_or(reading)
    }

    fn derived(&self, reading: usize, view: View<'a>) -> Option<u32> {
        self.derived.get(&(reading, view)).copied()
    }
}

/// Texts without names yet.
const TEXTS: Values<'static> = Values::Texts {
    named: Vec::new(),
    has_others: true,
};

fn values_of<'a>(reading: &Reading, action: &str) -> Values<'a> {
    match reading.kind() {
        Kind::Word(known) if matches!(reading, Reading::Field(field) if field.id == Id::RequestAction) => {
            Values::Texts {
                named: known
                    .iter()
                    .copied()
                    .filter(|name| *name == action)
                    .collect(),
                has_others: false,
            }
        }
        Kind::Number(low, high) => Values::Numbers(Numbers::between(low, high)),
        Kind::Whole(least, most) => Values::Numbers(Numbers::whole(least, most)),
        Kind::TimeOfDay => Values::Numbers(Numbers::whole(0, LAST_MINUTE)),
        Kind::Word(known) => Values::Texts {
            named: known.to_vec(),
            has_others: false,
        },
        Kind::Name(_) | Kind::Text | Kind::Host | Kind::Address => TEXTS,
        Kind::Flag => Values::Flag,
    }
}

fn key(dimension: u32, set: &Arc<NamedSet>, seen_too: bool) -> (u32, usize, bool) {
    (dimension, Arc::as_ptr(set).addr(), seen_too)
}

fn weight(of: &Members) -> u64 {
    match of {
        Members::Listed(listed) => listed.len() as u64,
        Members::Named { set, .. } => set.values.len() as u64,
    }
}

/// Returns how many texts or ranges a condition lists itself, which is the work of comparing it.
pub(super) fn texts(test: &Test) -> u64 {
    match test {
        Test::Member {
            of: of @ Members::Listed(_),
            ..
        }
        | Test::Domain {
            of: of @ Members::Listed(_),
            ..
        }
        | Test::LinksNotIn(of @ Members::Listed(_)) => weight(of),
        Test::Number(ranges) => ranges.parts().len() as u64,
        _ => 0,
    }
}

/// Returns the steps of `of` binary searches among `among` values.
fn searches(of: u64, among: usize) -> u64 {
    of.saturating_mul(u64::from(among.max(2).ilog2()).saturating_add(1))
}

/// An area under construction.
#[derive(Default)]
struct Making {
    sides: BTreeMap<u32, Rc<Cells>>,
    asks: Vec<(u32, Ask)>,
}

impl Making {
    fn narrow(&mut self, dimension: u32, cells: Rc<Cells>) {
        self.sides
            .entry(dimension)
            .and_modify(|have| *have = Rc::new(have.intersection(&cells)))
            .or_insert(cells);
    }
}

impl<'s, 'a> Resolver<'s, 'a> {
    /// Creates a resolver for one instant.
    pub(super) fn at(space: &'s Space<'a>, now: Time) -> Resolver<'s, 'a> {
        Resolver {
            space,
            now,
            resolved: BTreeMap::new(),
        }
    }

    /// Returns the area that a rule acts on.
    pub(super) fn area(
        &mut self,
        guard: &'a Guard,
        slots: &[usize],
        steps: &mut Steps,
    ) -> Result<Area, Exhausted> {
        let mut making = Making::default();
        for condition in &guard.conditions {
            steps.take(1)?;
            if let Some(reading) = slots.get(condition.slot) {
                self.condition(&mut making, *reading, &condition.test, steps)?;
            }
        }
        Ok(Area {
            sides: self.sides(making.sides),
            asks: making.asks,
        })
    }

    /// Returns the sides that exclude some cell.
    fn sides(&self, sides: BTreeMap<u32, Rc<Cells>>) -> Sides {
        let universes = &self.space.universes;
        sides
            .into_iter()
            .filter(|(number, cells)| universes.get(*number as usize) != Some(cells.as_ref()))
            .collect()
    }

    fn condition(
        &mut self,
        making: &mut Making,
        reading: usize,
        test: &'a Test,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        let space = self.space;
        let is_many = space.readings.get(reading).is_some_and(Reading::is_many);
        let elements = CrowdOf {
            reading,
            is_links: false,
        };
        match test {
            Test::LinksNotIn(of) => {
                let mut link = Making::default();
                let element = space.elements_of(reading);
                if let Some(dimension) = space.derived(element, View::Link) {
                    self.members(
                        &mut link,
                        element,
                        dimension,
                        View::ApprovedLink,
                        of,
                        false,
                        steps,
                    )?;
                }
                self.ask(
                    making,
                    CrowdOf {
                        reading,
                        is_links: true,
                    },
                    link,
                );
                // A text that is not there has no links.
                if is_many {
                    self.ask(making, elements, Making::default());
                } else {
                    self.there(making, reading);
                }
            }
            Test::Absent if is_many => making
                .asks
                .extend(space.number_of(elements).map(|number| (number, Ask::Empty))),
            Test::Present if is_many => self.ask(making, elements, Making::default()),
            _ if is_many => {
                let mut element = Making::default();
                self.single(&mut element, space.elements_of(reading), test, steps)?;
                self.ask(making, elements, element);
            }
            _ => self.single(making, reading, test, steps)?,
        }
        Ok(())
    }

    fn ask(&self, making: &mut Making, crowd: CrowdOf, element: Making) {
        let area = Area {
            sides: self.sides(element.sides),
            asks: Vec::new(),
        };
        making.asks.extend(
            self.space
                .number_of(crowd)
                .map(|number| (number, Ask::Some(Rc::new(area)))),
        );
    }

    /// Adds a condition on a single value.
    fn single(
        &mut self,
        making: &mut Making,
        reading: usize,
        test: &'a Test,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        let space = self.space;
        let Some(plain) = space.dimensions.get(reading) else {
            return Ok(());
        };
        let number = u32::try_from(reading).unwrap_or(u32::MAX);
        let unknown = Cells::one(plain.unknown());
        match test {
            Test::Number(ranges) => {
                if let Values::Numbers(numbers) = &plain.values {
                    steps.take(searches(2 * ranges.parts().len() as u64, numbers.len()))?;
                    let cells = numbers.cells(ranges).union(&unknown);
                    making.narrow(number, self.known(number, cells));
                }
            }
            Test::Flag(wanted) => {
                let cells = Cells::one(u32::from(*wanted)).union(&unknown);
                making.narrow(number, self.known(number, cells));
            }
            Test::Member { of, is_in, .. } => {
                self.members(making, reading, number, View::Approved, of, *is_in, steps)?;
            }
            Test::Domain { of, is_in } => {
                if let Some(domain) = space.derived(reading, View::Domain) {
                    self.members(
                        making,
                        reading,
                        domain,
                        View::ApprovedDomain,
                        of,
                        *is_in,
                        steps,
                    )?;
                }
                self.there(making, reading);
            }
            Test::Matches { pattern, wanted } => {
                if let Some(at) = space.derived(reading, View::Expression(pattern.0.as_str())) {
                    // There are two values and no odd text; the unknown cell comes after them.
                    let unknown = space
                        .dimensions
                        .get(at as usize)
                        .map_or(2, Dimension::unknown);
                    let cells = Cells::one(u32::from(*wanted)).union(&Cells::one(unknown));
                    making.narrow(at, self.known(at, cells));
                }
                self.there(making, reading);
            }
            Test::Absent => {
                let cells = Cells::one(plain.absent()).union(&unknown);
                making.narrow(number, self.known(number, cells));
            }
            Test::Present => self.there(making, reading),
            Test::LinksNotIn(_) => {}
        }
        Ok(())
    }

    /// Adds the condition that the request has the field.
    fn there(&self, making: &mut Making, reading: usize) {
        let number = u32::try_from(reading).unwrap_or(u32::MAX);
        if let (Some(plain), Some(all)) = (
            self.space.dimensions.get(reading),
            self.space.universes.get(reading),
        ) {
            making.narrow(number, Rc::new(all.minus(&Cells::one(plain.absent()))));
        }
    }

    /// Returns those of the cells that exist.
    fn known(&self, dimension: u32, cells: Cells) -> Rc<Cells> {
        let all = self.space.universes.get(dimension as usize);
        Rc::new(all.map_or_else(Cells::none, |all| all.intersection(&cells)))
    }

    #[expect(clippy::too_many_arguments, reason = "one condition, as it is written")]
    fn members(
        &mut self,
        making: &mut Making,
        reading: usize,
        dimension: u32,
        approved: fn(&'a SetName) -> View<'a>,
        of: &'a Members,
        is_in: bool,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        let space = self.space;
        let (Some(place), Some(all)) = (
            space.dimensions.get(dimension as usize),
            space.universes.get(dimension as usize),
        ) else {
            return Ok(());
        };
        let among = self.among(dimension, place, of, steps)?;
        // A text that cannot be compared, or is not known, is neither in nor out, so it satisfies
        // both conditions.
        let neither = Cells::one(place.odd()).union(&Cells::one(place.unknown()));
        let values = if is_in {
            among.as_ref().clone()
        } else {
            Cells::span(0, place.count).minus(&among)
        };
        steps.take(values.weight())?;
        making.narrow(dimension, Rc::new(values.union(&neither).intersection(all)));
        if let Members::Named { set, .. } = of
            && let Some(at) = space.derived(reading, approved(&set.name))
            && set.grows != Grows::Never
        {
            making.narrow(at, Rc::new(Cells::one(0)));
        }
        Ok(())
    }

    /// Returns the cells of the members.
    fn among(
        &mut self,
        dimension: u32,
        place: &Dimension<'a>,
        of: &'a Members,
        steps: &mut Steps,
    ) -> Result<Rc<Cells>, Exhausted> {
        let spans = |at: u32| (at, at.saturating_add(1));
        let work = searches(weight(of), place.count as usize);
        let (set, seen_too) = match of {
            Members::Listed(listed) => {
                steps.take(work)?;
                let cells = listed
                    .iter()
                    .filter_map(|text| place.named(text))
                    .map(spans);
                return Ok(Rc::new(Cells::of(cells.collect())));
            }
            Members::Named { set, seen_too } => (set, *seen_too),
        };
        if let Some(cells) = self.resolved.get(&key(dimension, set, seen_too)) {
            return Ok(Rc::clone(cells));
        }
        steps.take(work.saturating_mul(2))?;
        let counting = set
            .values
            .keys()
            .filter(|value| set.holds(value, self.now, seen_too));
        let cells = Rc::new(Cells::of(
            counting
                .filter_map(|text| place.named(text))
                .map(spans)
                .collect(),
        ));
        self.resolved
            .insert(key(dimension, set, seen_too), Rc::clone(&cells));
        Ok(cells)
    }
}

impl<'a> Space<'a> {
    /// Returns the dimensions derived from a reading, with their numbers.
    pub(super) fn derived_of(&self, reading: usize) -> impl Iterator<Item = (&Dimension<'a>, u32)> {
        let own = self
            .derived
            .range((reading, View::Plain)..(reading.saturating_add(1), View::Plain));
        own.filter_map(|(_, at)| {
            self.dimensions
                .get(*at as usize)
                .map(|dimension| (dimension, *at))
        })
    }

    /// Returns the number of a crowd.
    pub(super) fn number_of(&self, crowd: CrowdOf) -> Option<u32> {
        self.crowds
            .iter()
            .position(|other| *other == crowd)
            .and_then(|at| u32::try_from(at).ok())
    }
}

/// Returns every instant at which an entry of a set that one of these rules uses expires.
pub(super) fn endings<'a>(
    guards: impl Iterator<Item = &'a Guard>,
    steps: &mut Steps,
) -> Result<BTreeSet<Time>, Exhausted> {
    let (mut endings, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for condition in guards.flat_map(|guard| &guard.conditions) {
        let (Test::Member { of, .. } | Test::Domain { of, .. } | Test::LinksNotIn(of)) =
            &condition.test
        else {
            continue;
        };
        let Members::Named { set, seen_too } = of else {
            continue;
        };
        if !seen.insert(key(0, set, *seen_too)) {
            continue;
        }
        steps.take(searches(weight(of), endings.len().saturating_add(1)))?;
        let counting = set
            .values
            .values()
            .filter(|(of, _)| *seen_too || *of != Provenance::Seen);
        endings.extend(counting.filter_map(|(_, until)| *until));
    }
    Ok(endings)
}
