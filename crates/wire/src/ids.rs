//! Names that come from outside: request ids, principals, strategies, symbols, theses, order ids.
//! Each kind has a type of its own, so that no name is used as a path or a key unchecked.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::parsed;
use super::signing::sha256_hex;

/// Why a text is not a name of its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {} {what}: {rule}", article(.what))]
#[non_exhaustive]
pub struct NameError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

fn article(what: &str) -> &'static str {
    if what.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $pattern:literal,
        $valid:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the text against the pattern of this kind of name.
            ///
            /// # Errors
            /// [`NameError`] naming the pattern.
            pub fn parse(text: &str) -> Result<$name, NameError> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) {
                    Ok($name(text.to_owned()))
                } else {
                    let text = text.escape_debug().to_string().chars().take(80).collect();
                    Err(NameError { text, what: $what, rule: $rule })
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        crate::text_schema!($name, name_schema($what, $rule, $pattern));

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                parsed(deserializer, $name::parse)
            }
        }
    )*};
}

impl Capability {
    /// Returns whether both name the same capability. ASCII case makes no difference, so that a
    /// list cannot be passed by another spelling.
    pub fn is(&self, other: &Capability) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Currency {
    /// The currency of an account that names none.
    pub fn usd() -> Currency {
        Currency("USD".to_owned())
    }
}

impl AreaName {
    /// The area of a home that names no areas.
    pub fn rest() -> AreaName {
        AreaName("rest".to_owned())
    }
}

names! {
    /// The id of a request. Never ends in `.error` or `.decision`: the gate uses such names for
    /// answers.
    RequestId, "request id",
        "1 to 128 of letters, digits and `._:-`, starting with a letter, a digit, `-` or `_`, not \
            ending in .error or .decision",
        r"^[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}$",
        |t| t.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            && t.len() <= 128 && t.bytes().all(id_byte)
            && !t.ends_with(".error") && !t.ends_with(".decision");
    /// A principal.
    Principal, "principal", "1 to 64 of a-z, 0-9, `_` and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9_-]{0,63}$",
        |t| starts_alphanumeric(t) && t.len() <= 64
            && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
                || b == b'_');
    /// A user of the operating system, by name or number.
    UnixUser, "system user", "1 to 32 of letters, digits and `._-`, starting with a letter, a digit \
        or `_`",
        r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,31}$",
        |t| t.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && t.len() <= 32
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    /// A service of the allowlist.
    ServiceName, "service", "1 to 64 of a-z, 0-9, `.`, `_` and `-`, starting with a letter or \
        digit",
        r"^[a-z0-9][a-z0-9._-]{0,63}$",
        |t| starts_alphanumeric(t) && t.len() <= 64
            && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()
                || matches!(b, b'-' | b'_' | b'.'));
    /// A family of models.
    FamilyName, "family", "1 to 64 of a-z, 0-9, `.` and `-`", r"^[a-z0-9.-]{1,64}$",
        |t| !t.is_empty() && t.len() <= 64
            && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()
                || matches!(b, b'-' | b'.'));
    /// A strategy.
    StrategyName, "strategy", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// A thesis.
    ThesisSlug, "thesis slug", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// A rule; its file has the same name.
    RuleId, "rule id", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// A receiver of notices in `rules/notify.yaml`.
    ReceiverName, "receiver", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// An area of files in `rules/approval.yaml`.
    AreaName, "area", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// A set of values that rules refer to; its file has the same name.
    SetName, "set name", "1 to 64 of a-z, 0-9 and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9-]{0,63}$", slug;
    /// A tenant, surface or policy profile of admission: exactly one component of a path.
    DomainPart, "tenant, surface or profile",
        "1 to 64 of letters, digits and `._-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        |t| starts_alphanumeric(t) && t.len() <= 64
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    /// A tree of tasks: its tenant and the id of its root, such as `research/task-001`. Several
    /// tenants may have roots with the same id.
    TaskName, "task", "a tenant and the id of a root, as `research/task-001`",
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}/[A-Za-z0-9_-][A-Za-z0-9._:-]{0,127}$",
        |t| t.split_once('/').is_some_and(|(tenant, root)| {
            DomainPart::parse(tenant).is_ok() && RequestId::parse(root).is_ok()
        });
    /// A capability that a task names.
    Capability, "capability", "1 to 128 of letters, digits and `._:-`, starting with a letter or \
        digit",
        r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$",
        |t| starts_alphanumeric(t) && t.len() <= 128 && t.bytes().all(id_byte);
    /// A currency or coin as its exchange names it, such as `USD` or `BTC`.
    Currency, "currency", "1 to 16 of letters, digits and `._-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._-]{0,15}$",
        |t| starts_alphanumeric(t) && t.len() <= 16
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    /// A traded instrument, such as `BTC-USD`.
    Symbol, "symbol", "1 to 32 of letters, digits and `._/-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,31}$",
        |t| starts_alphanumeric(t) && t.len() <= 32
            && t.bytes().all(|b| b.is_ascii_alphanumeric()
                || matches!(b, b'.' | b'_' | b'/' | b'-'));
    /// A feed's name for the state of a market, such as `trend-up`.
    Regime, "regime", "1 to 32 of a-z, 0-9, `_` and `-`, starting with a letter or digit",
        r"^[a-z0-9][a-z0-9_-]{0,31}$",
        |t| starts_alphanumeric(t) && t.len() <= 32
            && t.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
                || b == b'_');
    /// The id that a venue gives to a report (FIX ExecID).
    ExecId, "exec id", "1 to 128 of letters, digits and `._:/+=-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._:/+=-]{0,127}$",
        |t| starts_alphanumeric(t) && t.len() <= 128
            && t.bytes().all(|b| id_byte(b) || matches!(b, b'/' | b'+' | b'='));
    /// The id of a control decision, or the id of a strategy that controllers use (a uuid will do).
    ControlId, "control id",
        "1 to 128 of letters, digits and `._:-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$",
        |t| starts_alphanumeric(t) && t.len() <= 128 && t.bytes().all(id_byte);
    /// An account or a market of a concern, such as `paper` or `btc-usd`.
    ConcernPart, "account or market",
        "1 to 64 of letters, digits and `._/-`, starting with a letter or digit",
        r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$",
        |t| starts_alphanumeric(t) && t.len() <= 64 && t.bytes().all(part_byte);
    /// A concern, `account:market`; only its characters are checked here.
    ConcernId, "concern", "1 to 129 of letters, digits and `._:/-`, starting with a letter or \
        digit",
        r"^[A-Za-z0-9][A-Za-z0-9._:/-]{0,128}$",
        |t| starts_alphanumeric(t) && t.len() <= 129
            && t.bytes().all(|b| part_byte(b) || b == b':');
}

/// The schema of a name. A pattern could exclude the gate's own endings of request ids only with
/// look-ahead, which not every validator supports, so `not` does that.
#[cfg(feature = "schema")]
fn name_schema(what: &str, rule: &str, pattern: &str) -> schemars::Schema {
    let mut schema = schemars::json_schema!({
        "type": "string",
        "description": format!("A {what}: {rule}."),
        "pattern": pattern,
    });
    if matches!(what, "request id" | "task") {
        schema.insert(
            "not".to_owned(),
            serde_json::json!({"type": "string", "pattern": r"\.(error|decision)$"}),
        );
    }
    schema
}

impl RequestId {
    /// The id as the beginning of a file name. No file name begins with `-`, which commands take for
    /// an option: ids that begin with `-` or `_` get a `+` before them, which no id can have.
    ///
    /// ```
    /// use spoolgate_wire::ids::RequestId;
    ///
    /// assert_eq!(RequestId::parse("r-1")?.file_stem(), "r-1");
    /// assert_eq!(RequestId::parse("-V1StGXR8")?.file_stem(), "+-V1StGXR8");
    /// # Ok::<(), spoolgate_wire::ids::NameError>(())
    /// ```
    pub fn file_stem(&self) -> Cow<'_, str> {
        if self.0.starts_with(['-', '_']) {
            format!("+{}", self.0).into()
        } else {
            self.0.as_str().into()
        }
    }
}

/// What an alias begins with.
const ALIAS_PREFIX: &str = "c-";
/// How many hexadecimal digits follow it.
const ALIAS_DIGITS: usize = 16;

impl RequestId {
    /// The name by which the judges of a council case know it: `c-` and the first 16 hexadecimal
    /// digits of the SHA-256 of `alias` and the hash of the request. It tells nothing about the
    /// request or its sender.
    pub fn alias_of(request_sha256: &str) -> RequestId {
        let digest = sha256_hex(format!("alias{request_sha256}").as_bytes());
        let digits = digest.get(..ALIAS_DIGITS).unwrap_or(&digest);
        RequestId(format!("{ALIAS_PREFIX}{digits}"))
    }

    /// Whether it has the form of an alias. The id of no case has.
    ///
    /// ```
    /// use spoolgate_wire::ids::RequestId;
    ///
    /// assert!(RequestId::alias_of("5f").is_alias());
    /// assert!(!RequestId::parse("c-0123456789abcde")?.is_alias());
    /// # Ok::<(), spoolgate_wire::ids::NameError>(())
    /// ```
    pub fn is_alias(&self) -> bool {
        self.0.strip_prefix(ALIAS_PREFIX).is_some_and(|digits| {
            digits.len() == ALIAS_DIGITS
                && digits
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        })
    }
}

impl TaskName {
    /// The tree of a tenant with this root.
    pub fn of(tenant: &DomainPart, root: &RequestId) -> TaskName {
        TaskName(format!("{tenant}/{root}"))
    }
}

impl ConcernId {
    /// The concern of an account and a market.
    pub fn of(account: &ConcernPart, market: &ConcernPart) -> ConcernId {
        ConcernId(format!("{account}:{market}"))
    }
}

fn part_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'/' | b'-')
}

fn starts_alphanumeric(text: &str) -> bool {
    text.bytes()
        .next()
        .is_some_and(|byte| byte.is_ascii_alphanumeric())
}

fn slug(text: &str) -> bool {
    starts_alphanumeric(text)
        && text.len() <= 64
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Whether `byte` is allowed in a request id.
pub fn id_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-')
}

/// Distinguishes the orders that one line accepted; they are listed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leg {
    /// The order of the request.
    Order,
    /// The protective stop placed with it.
    Stop,
    /// The target placed with it.
    Target,
    /// The exit at the market that the gate sends if a venue refuses the protective stop, or leaves
    /// a position without one.
    Flatten,
}

impl Leg {
    const ALL: [Leg; 4] = [Leg::Order, Leg::Stop, Leg::Target, Leg::Flatten];

    fn suffix(self) -> &'static str {
        match self {
            Leg::Order => "",
            Leg::Stop => "-stop",
            Leg::Target => "-target",
            Leg::Flatten => "-flatten",
        }
    }
}

/// The id of an order: `o-<seq of its decision line>`, with `-stop`, `-target` or `-flatten` for
/// orders that the gate placed with or after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId {
    /// The ledger line that accepted the order.
    pub seq: u64,
    /// Which of the line's orders this is.
    pub leg: Leg,
}

impl OrderId {
    /// The order accepted at ledger line `seq`.
    pub fn of_line(seq: u64) -> OrderId {
        OrderId {
            seq,
            leg: Leg::Order,
        }
    }

    /// The order that this one was placed with.
    pub fn entry(self) -> OrderId {
        OrderId {
            seq: self.seq,
            leg: Leg::Order,
        }
    }

    /// The protective stop placed with this order.
    pub fn stop(self) -> OrderId {
        OrderId {
            seq: self.seq,
            leg: Leg::Stop,
        }
    }

    /// The target placed with this order.
    pub fn target(self) -> OrderId {
        OrderId {
            seq: self.seq,
            leg: Leg::Target,
        }
    }

    /// The exit that reverses this order because its protective stop was refused; at a real venue,
    /// the exit that a report in this line made necessary.
    pub fn flatten(self) -> OrderId {
        OrderId {
            seq: self.seq,
            leg: Leg::Flatten,
        }
    }

    /// Reads `o-<seq>`, `o-<seq>-stop`, `o-<seq>-target` or `o-<seq>-flatten`.
    ///
    /// # Errors
    /// Returns [`NameError`] for anything else, including leading zeros.
    pub fn parse(text: &str) -> Result<OrderId, NameError> {
        let fail = || NameError {
            text: text.escape_debug().to_string().chars().take(80).collect(),
            what: "order id",
            rule: "`o-<number>`, `o-<number>-stop`, `-target` or `-flatten`",
        };
        let body = text.strip_prefix("o-").ok_or_else(fail)?;
        let digits_end = body.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, suffix) = body.split_at_checked(digits_end).ok_or_else(fail)?;
        let leg = Leg::ALL
            .into_iter()
            .find(|leg| leg.suffix() == suffix)
            .ok_or_else(fail)?;
        let plain = digits == "0" || !digits.starts_with('0');
        let seq = digits.parse().ok().filter(|_| plain).ok_or_else(fail)?;
        Ok(OrderId { seq, leg })
    }
}

crate::text_schema!(
    OrderId,
    schemars::json_schema!({"type": "string",
        "pattern": "^o-(0|[1-9][0-9]{0,19})(-stop|-target|-flatten)?$"})
);

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o-{}{}", self.seq, self.leg.suffix())
    }
}

impl Serialize for OrderId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OrderId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrderId, D::Error> {
        parsed(deserializer, OrderId::parse)
    }
}

/// The id of a proposal: `p-<seq of its decision line>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(pub u64);

impl ProposalId {
    /// Reads `p-<seq>`.
    ///
    /// # Errors
    /// Returns [`NameError`] for anything else, including leading zeros.
    pub fn parse(text: &str) -> Result<ProposalId, NameError> {
        let digits = text
            .strip_prefix("p-")
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let plain = digits.filter(|digits| *digits == "0" || !digits.starts_with('0'));
        plain
            .and_then(|digits| digits.parse().ok())
            .map(ProposalId)
            .ok_or_else(|| NameError {
                text: text.escape_debug().to_string().chars().take(80).collect(),
                what: "proposal id",
                rule: "`p-<number>`",
            })
    }
}

crate::text_schema!(ProposalId, super::schema::numbered("p"));

impl fmt::Display for ProposalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p-{}", self.0)
    }
}

impl Serialize for ProposalId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProposalId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProposalId, D::Error> {
        parsed(deserializer, ProposalId::parse)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_ids_at_their_limits() {
        let long = |n: usize| "a".repeat(n);
        for (text, ok) in [
            ("a".to_owned(), true),
            (long(128), true),
            (long(129), false),
            (String::new(), false),
            ("a.b_c:d-9".to_owned(), true),
            (".a".to_owned(), false),
            ("-a".to_owned(), true),
            ("_a".to_owned(), true),
            ("+a".to_owned(), false),
            (":a".to_owned(), false),
            ("a/b".to_owned(), false),
            ("..".to_owned(), false),
            ("a b".to_owned(), false),
            ("a\n".to_owned(), false),
            ("a|b".to_owned(), false),
            ("é".to_owned(), false),
            ("x.error".to_owned(), false),
            ("x.decision".to_owned(), false),
            ("x.errors".to_owned(), true),
        ] {
            assert_eq!(RequestId::parse(&text).is_ok(), ok, "{text}");
        }
    }

    #[test]
    fn order_ids_round_trip_and_refuse_look_alikes() {
        for text in [
            "o-0",
            "o-12",
            "o-12-stop",
            "o-12-target",
            "o-12-flatten",
            "o-18446744073709551615",
        ] {
            assert_eq!(OrderId::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "12",
            "o-",
            "o-stop",
            "o-012",
            "o-+1",
            "o--1",
            "o-1-STOP",
            "o-1-stop-stop",
            "o-1-target-stop",
            "o-1-",
            "o-18446744073709551616",
        ] {
            assert!(OrderId::parse(text).is_err(), "{text}");
        }
        assert!(OrderId::of_line(7) < OrderId::of_line(7).stop());
    }
}
