//! Facts as cases and questions give them: by name, with a value that the field can have.

use super::name_of;
use crate::hours::Minute;
use crate::nearest::did_you_mean;
use crate::rule::field::{self, Kind, Missing};
use crate::rule::file::{Operand, Scalar};
use crate::rule::ruleset::missing;
use crate::rule::{Fact, Field, Program, Reading, Value};
use spoolgate_wire::amount::{Amount, AmountError};

/// Why a fact cannot be given, or not this value of it.
#[derive(Debug, thiserror::Error)]
pub enum FactError {
    /// The name is none that a rule reads or that a request of the action has.
    #[error("no rule reads it and requests of `{action}` have no such field{near}")]
    NoField {
        /// The action.
        action: String,
        /// The nearest name, or where names are listed, as the end of the message.
        near: String,
    },
    /// It always has a value.
    #[error("requests cannot leave it out")]
    NeverAbsent,
    /// It has a value, or the request leaves it out.
    #[error("it is always known")]
    AlwaysKnown,
    /// It is one value.
    #[error("it is an array: write a list")]
    Array,
    /// It is a list.
    #[error("it is not an array: write one value")]
    NotArray,
    /// It is no time of day.
    #[error("a time of day is written as \"21:55\"")]
    TimeOfDay,
    /// It is no decimal number.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// It is no number.
    #[error("it must be a number")]
    Number,
    /// It is a number that the field cannot have.
    #[error("it must be a {0}")]
    Whole(Kind),
    /// It is no flag.
    #[error("it must be true or false")]
    Flag,
    /// It is none of the words that the field can have.
    #[error("`{}` is not one of {}{}", .0, .1.join(", "), did_you_mean(.0, .1.iter().copied(), ""))]
    Word(String, &'static [&'static str]),
    /// It is no text.
    #[error("it is a text: put it in quotes")]
    Text,
}

/// Returns the reading of this name: one that a rule uses, or a field that requests of the action
/// have.
///
/// # Errors
/// Returns [`FactError::NoField`] with the nearest name.
pub fn known(program: &Program, action: &str, name: &str) -> Result<Reading, FactError> {
    let mut read = program.readings.iter();
    if let Some(reading) = read.find(|reading| name_of(reading) == name) {
        return Ok(*reading);
    }
    let field = field::find(name.strip_suffix("[]").unwrap_or(name))
        .filter(|field| field.is_many == name.ends_with("[]") && field.is_of(action));
    field.map(Reading::Field).ok_or_else(|| {
        let fields = field::FIELDS.iter();
        let fields = fields.filter(|field| field.is_of(action) && field.renamed().is_none());
        let names: Vec<String> = fields
            .map(Field::written)
            .chain(program.readings.iter().map(name_of))
            .collect();
        let names = names.iter().map(String::as_str);
        FactError::NoField {
            action: action.to_owned(),
            near: did_you_mean(name, names, "; `spoolgate rules fields` lists them"),
        }
    })
}

/// Checks that the fact of a reading may be absent, or unknown, as this one is.
///
/// # Errors
/// Returns [`FactError`] if it may not.
pub fn may_be(reading: &Reading, fact: &Fact<'_>) -> Result<(), FactError> {
    match (fact, missing(reading)) {
        (Fact::Absent, Missing::Absent) | (Fact::Unknown(_), Missing::Unknown) => Ok(()),
        (Fact::Absent, _) => Err(FactError::NeverAbsent),
        _ => Err(FactError::AlwaysKnown),
    }
}

/// Parses the fact of a reading.
///
/// # Errors
/// Returns [`FactError`] if the reading cannot have the value.
pub fn parse(reading: &Reading, value: &Operand) -> Result<Fact<'static>, FactError> {
    let kind = reading.kind();
    match (value, reading.is_many()) {
        (Operand::One(value), false) => one(kind, value).map(Fact::Known),
        (Operand::Many(values), true) => values
            .iter()
            .map(|value| one(kind, value))
            .collect::<Result<_, _>>()
            .map(Fact::Many),
        (Operand::One(_), true) => Err(FactError::Array),
        (Operand::Many(_), false) => Err(FactError::NotArray),
    }
}

fn one(kind: Kind, value: &Scalar) -> Result<Value<'static>, FactError> {
    match (kind, value) {
        (Kind::TimeOfDay, Scalar::Text(text)) => {
            let minute = Minute::parse(text).ok_or(FactError::TimeOfDay)?;
            Ok(Value::Number(Amount::from_i64(i64::from(minute.minutes()))))
        }
        (Kind::TimeOfDay, _) => Err(FactError::TimeOfDay),
        (Kind::Number(..) | Kind::Whole(..), value) => {
            let number = match value {
                Scalar::Number(number) => *number,
                Scalar::Text(text) => Amount::parse_wire(text)?,
                Scalar::Flag(_) => return Err(FactError::Number),
            };
            let is_whole = number.is_multiple_of(Amount::ONE) == Some(true);
            if !kind.ends().holds(number) || (matches!(kind, Kind::Whole(..)) && !is_whole) {
                return Err(FactError::Whole(kind));
            }
            Ok(Value::Number(number))
        }
        (Kind::Flag, Scalar::Flag(flag)) => Ok(Value::Flag(*flag)),
        (Kind::Flag, _) => Err(FactError::Flag),
        (Kind::Word(known), Scalar::Text(text)) => {
            if !known.contains(&text.as_str()) {
                return Err(FactError::Word(text.clone(), known));
            }
            Ok(Value::Text(text.clone().into()))
        }
        (_, Scalar::Text(text)) => Ok(Value::Text(text.clone().into())),
        (_, _) => Err(FactError::Text),
    }
}
