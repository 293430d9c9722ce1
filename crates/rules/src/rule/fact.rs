//! Facts: what a rule may read about one request. Each fact is known, absent or unknown.

use std::borrow::Cow;

use serde::Serialize;

use spoolgate_wire::amount::Amount;

/// The value of a fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value<'a> {
    /// A number, a whole number, or a time of day in minutes since 00:00 UTC.
    Number(Amount),
    /// A name or a text, as sent.
    Text(Cow<'a, str>),
    /// True or false.
    Flag(bool),
}

/// What is known about one field of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact<'a> {
    /// Its value.
    Known(Value<'a>),
    /// The elements of an array, possibly none.
    Many(Vec<Value<'a>>),
    /// The request leaves the field out, as its schema allows. Only the condition
    /// `absent` holds for it.
    Absent,
    /// The value is not known now, for example because market data are stale. The text says why.
    Unknown(Cow<'static, str>),
}

impl<'a> Fact<'a> {
    /// Creates a known number.
    pub fn number(number: Amount) -> Fact<'a> {
        Fact::Known(Value::Number(number))
    }

    /// Creates a known text.
    pub fn text(text: impl Into<Cow<'a, str>>) -> Fact<'a> {
        Fact::Known(Value::Text(text.into()))
    }

    /// Creates a known flag.
    pub fn flag(flag: bool) -> Fact<'a> {
        Fact::Known(Value::Flag(flag))
    }

    /// Creates a known number, or an unknown fact with the reason `why` if `number` is `None`.
    pub fn number_or_unknown(number: Option<Amount>, why: &'static str) -> Fact<'a> {
        number.map_or(Fact::Unknown(Cow::Borrowed(why)), Fact::number)
    }

    /// Creates a known number, or an absent fact if `number` is `None`.
    pub fn number_or_absent(number: Option<Amount>) -> Fact<'a> {
        number.map_or(Fact::Absent, Fact::number)
    }
}

impl Value<'_> {
    /// Returns the value without borrows.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Number(number) => Value::Number(number),
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Flag(flag) => Value::Flag(flag),
        }
    }
}

impl Fact<'_> {
    /// Returns the fact without borrows.
    pub fn into_owned(self) -> Fact<'static> {
        match self {
            Fact::Known(value) => Fact::Known(value.into_owned()),
            Fact::Many(values) => Fact::Many(values.into_iter().map(Value::into_owned).collect()),
            Fact::Absent => Fact::Absent,
            Fact::Unknown(why) => Fact::Unknown(why),
        }
    }
}
