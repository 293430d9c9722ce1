//! The whitelist of fields: everything that a rule may read, with type, unit and meaning.

use std::borrow::Cow;
use std::fmt;

/// What values of a field are and how they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A decimal number.
    Number,
    /// A whole number from the first to the second.
    Whole(i64, i64),
    /// Minutes since 00:00 UTC; `in` and `not_in` take windows such as `22:00-06:00`.
    TimeOfDay,
    /// A name or id, compared letter by letter; one of these, if any are listed.
    Word(&'static [&'static str]),
    /// A text, compared without regard to case.
    Text,
    /// A host name, or a URL whose host counts.
    Host,
    /// A mail address.
    Address,
    /// Yes or no.
    Flag,
}

/// Why a fact may be without value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// It never is.
    Never,
    /// The request may leave it out.
    Absent,
    /// It may not be known: its source is missing, old, or out of range.
    Unknown,
}

/// Names of fields in the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// `order.side`
    OrderSide,
    /// `order.symbol`
    OrderSymbol,
    /// `order.order_type`
    OrderOrderType,
    /// `order.size`
    OrderSize,
    /// `order.notional`
    OrderNotional,
    /// `order.price`
    OrderPrice,
    /// `order.planned_entry`
    OrderPlannedEntry,
    /// `order.planned_stop`
    OrderPlannedStop,
    /// `order.target_price`
    OrderTargetPrice,
    /// `market.price`
    MarketPrice,
    /// `market.spread_pct`
    MarketSpreadPct,
    /// `market.volume_ratio`
    MarketVolumeRatio,
    /// `market.volatility`
    MarketVolatility,
    /// `market.funding_rate`
    MarketFundingRate,
    /// `market.funding_rate_zscore`
    MarketFundingRateZscore,
    /// `market.regime`
    MarketRegime,
    /// `market.minutes_since_open`
    MarketMinutesSinceOpen,
    /// `strategy.name`
    StrategyName,
    /// `portfolio.equity`
    PortfolioEquity,
    /// `portfolio.open_positions`
    PortfolioOpenPositions,
    /// `time.of_day`
    TimeOfDay,
    /// `time.weekday`
    TimeWeekday,
    /// `request.source`
    RequestSource,
}

/// One field.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    /// Which one it is.
    pub id: Id,
    /// Its name, without the `[]` of arrays.
    pub name: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Unit, for people.
    pub unit: &'static str,
    /// Meaning, for people.
    pub meaning: &'static str,
    /// Whether it is an array: conditions on it name `field[]` and hold if they do for any element.
    pub is_many: bool,
    /// Why it may be without value.
    pub missing: Missing,
    /// Actions whose requests have it; none: all that rules apply to.
    pub actions: &'static [&'static str],
}

/// What a condition reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A field.
    Field(&'static Field),
    /// Whether the sender never had a request of this action accepted with this value of the field.
    FirstSeen(&'static Field),
    /// How many requests of this action the sender had accepted within the window before this one.
    Count {
        /// The window, seconds.
        window_s: u32,
    },
    /// The sum of a field over this request and those accepted within the window before it.
    Sum {
        /// The field.
        of: &'static Field,
        /// The window, seconds.
        window_s: u32,
    },
    /// How many different values a field has in this request and those accepted within the window before it.
    Distinct {
        /// The field.
        of: &'static Field,
        /// The window, seconds.
        window_s: u32,
    },
}

impl Reading {
    /// What its values are.
    pub fn kind(&self) -> Kind {
        match self {
            Reading::Field(field) => field.kind,
            Reading::FirstSeen(_) => Kind::Flag,
            Reading::Count { .. } | Reading::Distinct { .. } => Kind::Whole(0, i64::MAX),
            Reading::Sum { .. } => Kind::Number,
        }
    }

    /// Whether a condition on it holds for any element of an array.
    pub fn is_many(&self) -> bool {
        matches!(self, Reading::Field(field) if field.is_many)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Field(field) => f.write_str(field.name),
            Reading::FirstSeen(field) => write!(f, "first_seen({})", field.name),
            Reading::Count { window_s } => write!(f, "history.count({window_s}s)"),
            Reading::Sum { of, window_s } => write!(f, "history.sum({}, {window_s}s)", of.name),
            Reading::Distinct { of, window_s } => write!(f, "history.distinct({}, {window_s}s)", of.name),
        }
    }
}

impl Kind {
    /// The text as it is compared; none where it is not one of this kind, and comparing it would say nothing.
    pub fn fold<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Kind::Word(_) => Some(Cow::Borrowed(text)),
            Kind::Text if text.bytes().any(|byte| byte.is_ascii_uppercase() || !byte.is_ascii()) => {
                Some(Cow::Owned(text.to_lowercase()))
            }
            Kind::Text => Some(Cow::Borrowed(text)),
            Kind::Host => super::host::host_of(text).map(Cow::Owned),
            Kind::Address => super::host::address_of(text).map(Cow::Owned),
            Kind::Number | Kind::Whole(..) | Kind::TimeOfDay | Kind::Flag => None,
        }
    }

    /// Whether its values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(self, Kind::Number | Kind::Whole(..) | Kind::TimeOfDay)
    }
}

/// Actions whose requests rules apply to. For orders that is entries, for control decisions what does not only make
/// things safer.
pub const RULED_ACTIONS: &[&str] =
    &["order.submit", "council.request", "control.apply", "admission.evaluate", "admission.admit"];

const ORDER: &[&str] = &["order.submit"];

const fn of(
    actions: &'static [&'static str],
    id: Id,
    name: &'static str,
    kind: Kind,
    missing: Missing,
    unit: &'static str,
    meaning: &'static str,
) -> Field {
    Field { id, name, kind, unit, meaning, is_many: false, missing, actions }
}

use Kind::{Number, TimeOfDay, Whole, Word};
use Missing::{Absent, Never, Unknown};

/// Days of the week, as facts name them.
pub const WEEKDAYS: &[&str] = &["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const SIDES: &[&str] = &["buy", "sell"];
const ORDER_TYPES: &[&str] = &["limit", "market", "stop"];
const MANY: i64 = i64::MAX;

/// Every field.
pub static FIELDS: &[Field] = &[
    of(ORDER, Id::OrderSide, "order.side", Word(SIDES), Never, "", "side of the order"),
    of(ORDER, Id::OrderSymbol, "order.symbol", Word(&[]), Never, "", "instrument"),
    of(ORDER, Id::OrderOrderType, "order.order_type", Word(ORDER_TYPES), Never, "", "type of the order"),
    of(ORDER, Id::OrderSize, "order.size", Number, Never, "units", "size of the order"),
    of(
        ORDER,
        Id::OrderNotional,
        "order.notional",
        Number,
        Unknown,
        "account currency",
        "size x price x multiplier, as the limits count it",
    ),
    of(ORDER, Id::OrderPrice, "order.price", Number, Absent, "price", "limit price"),
    of(
        ORDER,
        Id::OrderPlannedEntry,
        "order.planned_entry",
        Number,
        Never,
        "price",
        "the price the agent plans to enter at: a claim",
    ),
    of(ORDER, Id::OrderPlannedStop, "order.planned_stop", Number, Never, "price", "the protective stop"),
    of(
        ORDER,
        Id::OrderTargetPrice,
        "order.target_price",
        Number,
        Absent,
        "price",
        "where the position is to be closed again",
    ),
    of(ORDER, Id::MarketPrice, "market.price", Number, Unknown, "price", "last trade, if fresh"),
    of(ORDER, Id::MarketSpreadPct, "market.spread_pct", Number, Unknown, "fraction", "(ask - bid) / middle"),
    of(
        ORDER,
        Id::MarketVolumeRatio,
        "market.volume_ratio",
        Number,
        Unknown,
        "ratio",
        "volume of the last bar over the mean of the 20 before it",
    ),
    of(
        ORDER,
        Id::MarketVolatility,
        "market.volatility",
        Number,
        Unknown,
        "fraction a bar",
        "realised volatility of the last 20 bars",
    ),
    of(
        ORDER,
        Id::MarketFundingRate,
        "market.funding_rate",
        Number,
        Unknown,
        "fraction",
        "last funding rate, if due within 16 hours",
    ),
    of(
        ORDER,
        Id::MarketFundingRateZscore,
        "market.funding_rate_zscore",
        Number,
        Unknown,
        "deviations",
        "how unusual it is among the 20 before it",
    ),
    of(
        ORDER,
        Id::MarketRegime,
        "market.regime",
        Word(&[]),
        Unknown,
        "",
        "what a feed calls the state of the market",
    ),
    of(
        ORDER,
        Id::MarketMinutesSinceOpen,
        "market.minutes_since_open",
        Whole(0, 1439),
        Never,
        "minutes",
        "since 00:00 UTC",
    ),
    of(ORDER, Id::StrategyName, "strategy.name", Word(&[]), Never, "", "strategy of the order"),
    of(
        ORDER,
        Id::PortfolioEquity,
        "portfolio.equity",
        Number,
        Unknown,
        "account currency",
        "cash and positions at their last fresh price",
    ),
    of(
        ORDER,
        Id::PortfolioOpenPositions,
        "portfolio.open_positions",
        Whole(0, MANY),
        Never,
        "",
        "open positions",
    ),
    of(&[], Id::TimeOfDay, "time.of_day", TimeOfDay, Never, "HH:MM UTC", "time of day of the decision"),
    of(
        &[],
        Id::TimeWeekday,
        "time.weekday",
        Word(WEEKDAYS),
        Never,
        "",
        "day of the week of the decision, UTC",
    ),
    of(&[], Id::RequestSource, "request.source", Word(&[]), Never, "", "who signed"),
];

/// The field of this name.
pub fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}
