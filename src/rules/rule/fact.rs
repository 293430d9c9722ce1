//! Facts: what a rule may read of one request, each known, absent or unknown.

use std::borrow::Cow;

use serde::Serialize;

use crate::wire::amount::Amount;

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value<'a> {
    /// A number, a whole number, or a time of day in minutes since 00:00 UTC.
    Number(Amount),
    /// A name or a text, as it was sent.
    Text(Cow<'a, str>),
    /// Yes or no.
    Flag(bool),
}

/// What is known of one field of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// Its value.
    Known(Value<'a>),
    /// The elements of an array, possibly none.
    Many(Vec<Value<'a>>),
    /// The request leaves it out, as its schema allows; conditions on it do not hold, but for `absent`.
    Absent,
    /// It cannot be known now: a market without fresh data, a sum that cannot be computed. Why, for people.
    Unknown(Cow<'static, str>),
}

impl<'a> Fact<'a> {
    /// A known number.
    pub fn number(number: Amount) -> Fact<'a> {
        Fact::Known(Value::Number(number))
    }

    /// A known text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Fact<'a> {
        Fact::Known(Value::Text(text.into()))
    }

    /// A known yes or no.
    pub fn flag(flag: bool) -> Fact<'a> {
        Fact::Known(Value::Flag(flag))
    }

    /// A number that may be missing; `why` says what is missing then.
    pub fn number_or_unknown(number: Option<Amount>, why: &'static str) -> Fact<'a> {
        number.map_or(Fact::Unknown(Cow::Borrowed(why)), Fact::number)
    }

    /// A number that the request may leave out.
    pub fn number_or_absent(number: Option<Amount>) -> Fact<'a> {
        number.map_or(Fact::Absent, Fact::number)
    }
}

impl Value<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Number(number) => Value::Number(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Flag(flag) => Value::Flag(flag),
        }
    }
}

impl Fact<'_> {
    /// The same, borrowing nothing.
    pub fn into_owned(self) -> Fact<'static> {
        match self {
            Fact::Known(value) => Fact::Known(value.into_owned()),
            Fact::Many(values) => Fact::Many(values.into_iter().map(Value::into_owned).collect()),
            Fact::Absent => Fact::Absent,
            Fact::Unknown(why) => Fact::Unknown(why),
        }
    }
}
