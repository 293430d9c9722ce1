//! What can be wrong with a condition. The messages are part of refusals, and so of ledger lines.

use spoolgate_wire::amount::AmountError;
use spoolgate_wire::ids::{NameError, SetName};

use super::field;
use super::ruleset::{PATTERN_BYTES_MAX, WINDOW_S_MAX};
use crate::nearest::did_you_mean;

/// Why a regular expression cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// It is too long.
    #[error("the expression is longer than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
    /// It is too large once compiled.
    #[error("the expression compiles to more than {} KiB{hint}", .bytes_max / 1024)]
    TooLarge {
        /// The limit, bytes.
        bytes_max: usize,
        /// What would fit, as the end of the message.
        hint: String,
    },
    /// It is not valid.
    #[error(transparent)]
    Invalid(regex::Error),
}

/// Why a condition cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConditionError {
    #[error(
        "there is no such field{}",
        did_you_mean(.0, field::known(), "; `spoolgate rules fields` lists them")
    )]
    NoField(String),
    #[error("it is an array: write `{0}[]`")]
    Array(&'static str),
    #[error("it is no array: write `{0}`")]
    NotArray(&'static str),
    #[error("requests of `{action}` have no `{field}`")]
    OtherAction { action: String, field: &'static str },
    /// A key does not have the form that the operator or the field needs.
    #[error("`{0}` is {1}")]
    Is(&'static str, &'static str),
    #[error("`window_s` is 1 to {WINDOW_S_MAX}")]
    WindowLength,
    #[error("`history.count` takes no `of`")]
    CountOf,
    #[error("`window_s` and `of` belong to history.*")]
    NotHistory,
    #[error("`first_seen` is for names, texts, hosts and addresses")]
    NeverFirst,
    #[error("this operator takes no `value`")]
    NoValue,
    #[error("this field has no domain")]
    NoDomain,
    #[error("links are looked for in texts only")]
    NoLinks,
    #[error("only texts are matched")]
    NotMatched,
    #[error("the operator does not fit a number")]
    NumberOperator,
    #[error("the operator does not fit the field, or the value does not")]
    Unfit,
    #[error("`provenance` belongs to conditions over a named set")]
    NoSet,
    #[error("`provenance` may only be `seen`; the others always count")]
    NotSeen,
    #[error(transparent)]
    SetName(#[from] NameError),
    #[error("there is no rules/sets/{0}.yaml{1}")]
    UnknownSet(SetName, String),
    #[error("set `{0}` is of another kind than the field")]
    SetKind(SetName),
    #[error("set `{0}` grows on approval; rules may only refuse what is not in it")]
    SetGrows(SetName),
    #[error("the list is of texts: put numbers in quotes")]
    NotTexts,
    #[error("the list is empty")]
    EmptyList,
    #[error(
        "`{text}` is none of {}{}",
        .known.join(", "),
        did_you_mean(text, .known.iter().copied(), "")
    )]
    UnknownWord {
        text: String,
        known: &'static [&'static str],
    },
    #[error("`{0}` cannot be compared with this field")]
    NotComparable(String),
    #[error("`{0}` appears twice")]
    Twice(String),
    #[error(transparent)]
    Pattern(#[from] PatternError),
    #[error(transparent)]
    Amount(#[from] AmountError),
    #[error("a time of day is written as {0}")]
    TimeOfDay(&'static str),
    #[error("`{0}`: write `0{0}`")]
    OneDigit(String),
    #[error("a window is written as 22:00-06:00")]
    Window,
    #[error("a window that ends as it begins is none, or the whole day: nobody could say which")]
    AmbiguousWindow,
    #[error("`min` and `max` belong to gt, gte, lt and lte")]
    NoThreshold,
}
