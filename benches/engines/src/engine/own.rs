//! Rules compiled by spoolgate.

use spoolgate_rules::rule::field::Id;
use spoolgate_rules::rule::{Around, Entries, Fact, Program, Then, Truth};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

use super::{Engine, fields};
use crate::Result;
use crate::order::Order;
use crate::request::Plain;

/// The compiled program, and what it reads.
pub struct Own {
    program: Program,
    fields: Vec<Id>,
    entries: Entries,
    now: Time,
}

/// A value as a fact.
pub fn fact(plain: Plain<'_>) -> Fact<'_> {
    match plain {
        Plain::Decimal(number) => Fact::number(number.amount),
        Plain::Whole(number) => Fact::number(Amount::from_i64(number)),
        Plain::Text(text) => Fact::text(text),
        Plain::Absent => Fact::Absent,
        Plain::Unknown => Fact::Unknown("no fresh data".into()),
    }
}

impl Own {
    /// Takes a compiled program.
    ///
    /// # Errors
    /// It reads more than fields.
    pub fn new(program: Program) -> Result<Own> {
        let fields = fields(&program)?.into_iter().map(|(_, id)| id).collect();
        Ok(Own {
            program,
            fields,
            entries: Entries::default(),
            now: Time::from_ms(0)?,
        })
    }

    fn around(&self) -> Around<'_> {
        Around {
            now: self.now,
            entries: &self.entries,
            task: None,
        }
    }

    /// What every rule comes to, as the check vector shows it: more than the others are asked for.
    pub fn findings(&self, facts: &[Fact]) -> usize {
        self.program
            .findings(facts, &self.around())
            .iter()
            .filter(|found| found.act().is_some())
            .count()
    }
}

impl Engine for Own {
    type Request<'a> = Vec<Fact<'a>>;

    fn request<'a>(&self, order: &'a Order) -> Result<Vec<Fact<'a>>> {
        Ok(self
            .fields
            .iter()
            .map(|id| fact(order.plain(*id)))
            .collect())
    }

    fn is_refused(&mut self, facts: &Vec<Fact<'_>>) -> Result<bool> {
        Ok(self.program.act(facts, &self.around()) == Some(Then::Reject))
    }

    fn acting(&mut self, facts: &Vec<Fact<'_>>) -> Result<u32> {
        let around = self.around();
        let truths = self
            .program
            .guards
            .iter()
            .map(|guard| guard.truth(facts, &around) != Truth::False);
        Ok(truths
            .enumerate()
            .fold(0, |mask, (bit, acts)| mask | (u32::from(acts) << bit)))
    }
}
