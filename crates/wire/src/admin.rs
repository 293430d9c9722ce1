//! Payloads of people and feeds: halts, the account, keys, the clock, market rows.

use serde::Deserialize;

use super::amount::{self, Amount};
use super::ids::{Principal, StrategyName, Symbol};
use super::time::Time;

/// Longest reason in a request, in bytes.
pub const REASON_BYTES_MAX: usize = 500;

/// `halt.set`: stops entries. An agent halts itself or a strategy of its own; a person halts everybody,
/// or one principal, strategy, symbol or bridge.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetHalt {
    /// The principal whose entries stop. If absent: the agent itself or, for a person, everybody.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Principal")]
    pub principal: Option<Principal>,
    /// The strategy whose entries stop.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "StrategyName")]
    pub strategy: Option<StrategyName>,
    /// The symbol whose entries stop.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Symbol")]
    pub symbol: Option<Symbol>,
    /// The bridge whose entries stop.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Principal")]
    pub bridge: Option<Principal>,
    /// Whether entries that work already stay; otherwise they are pulled.
    #[serde(default)]
    pub keep_orders: bool,
    /// Whether the positions that the halt covers are closed at the market; people only.
    #[serde(default)]
    pub flatten: bool,
    /// Whether nothing is halted, and the answer only says what the halt would end; people only.
    #[serde(default)]
    pub drill: bool,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

impl SetHalt {
    /// Names of the scopes that it names.
    pub fn scopes(&self) -> Vec<&'static str> {
        let named = [
            ("principal", self.principal.is_some()),
            ("strategy", self.strategy.is_some()),
            ("symbol", self.symbol.is_some()),
            ("bridge", self.bridge.is_some()),
        ];
        let named = named.into_iter().filter(|(_, is_named)| *is_named);
        named.map(|(name, _)| name).collect()
    }
}

/// `halt.clear`: clears a halt, by a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClearHalt {
    /// The halt to clear.
    #[serde(deserialize_with = "scope")]
    #[schemars(with = "HaltScope")]
    pub scope: HaltScope,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

/// Scope of a halt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HaltScope {
    /// Everybody's entries.
    All,
    /// The latched drawdown limit.
    Drawdown,
    /// One principal's entries: `{"principal":"bot"}`.
    Principal(Principal),
    /// The blocks of one strategy for repetition, consecutive losses and executions:
    /// `{"strategy":"trend"}`.
    Strategy(StrategyName),
    /// Entries in one symbol, after an implausible gap: `{"symbol":"BTC-USD"}`.
    Symbol(Symbol),
    /// Entries through one bridge: `{"bridge":"exchange"}`.
    Bridge(Principal),
}

crate::text_schema!(
    HaltScope,
    schemars::json_schema!({"oneOf": [
        {"type": "string", "enum": ["all", "drawdown"]},
        scope_schema("principal", "Whose entries.", schemars::schema_for!(Principal)),
        scope_schema("strategy", "The strategy.", schemars::schema_for!(StrategyName)),
        scope_schema("symbol", "The symbol.", schemars::schema_for!(Symbol)),
        scope_schema("bridge", "The bridge.", schemars::schema_for!(Principal)),
    ]})
);

#[cfg(feature = "schema")]
fn scope_schema(name: &str, description: &str, mut of: schemars::Schema) -> serde_json::Value {
    of.remove("$schema");
    of.remove("title");
    of.insert("description".to_owned(), description.into());
    serde_json::json!({
        "type": "object", "properties": {name: of}, "required": [name],
        "additionalProperties": false,
    })
}

/// `heartbeat`: an agent reports that it is alive, or a person reports it for an agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The agent; if absent, the sender. Required if a person sends it.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Principal")]
    pub principal: Option<Principal>,
}

/// `account.adjust`: a deposit (above 0) or withdrawal (below 0), never profit or loss.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustAccount {
    /// Signed amount, account currency.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount")]
    pub amount: Amount,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

/// `clock.accept`: a person has checked the clock step, and entries may continue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptClock {
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

/// Algorithm of a key.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// A key that the gate and the agent share.
    HmacSha256,
    /// The agent's own key; the gate has only the public half.
    Ed25519,
}

/// `keys.add`, `keys.rotate`: the secret itself is in the keyring and never in a request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddKey {
    /// The principal that the key belongs to.
    pub principal: Principal,
    /// Id of the key: the first 16 hex digits of its hash.
    #[schemars(schema_with = "crate::schema::hex::<16>")]
    pub key_id: String,
    /// Algorithm of the key.
    #[serde(deserialize_with = "super::word")]
    pub algorithm: Algorithm,
    /// For a rotation: when the principal's other keys expire.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Time")]
    pub others_end: Option<Time>,
}

/// `keys.revoke`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeKey {
    /// Id of the key.
    #[schemars(schema_with = "crate::schema::hex::<16>")]
    pub key_id: String,
    /// The reason.
    #[schemars(schema_with = "crate::schema::said::<REASON_BYTES_MAX>")]
    pub reason: String,
}

/// `market.import`: imports rows that a command has put into `audit/blobs` under their digest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportMarket {
    /// Instrument.
    pub symbol: Symbol,
    /// SHA-256 of the rows' canonical text, hex.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub rows_sha256: String,
    /// Number of rows.
    pub row_count: u32,
    /// SHA-256 of the file they were read from, hex.
    #[schemars(schema_with = "crate::schema::hex::<64>")]
    pub file_sha256: String,
    /// Name of that file, for display.
    #[schemars(schema_with = "crate::schema::short::<255>")]
    pub file_name: String,
}

/// `funding.update`: sets the funding rate of one symbol at one time.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateFunding {
    /// Instrument.
    pub symbol: Symbol,
    /// Fraction of the value of positions, between -1 and 1; longs pay if it is above 0.
    #[serde(deserialize_with = "amount::wire::required")]
    #[schemars(schema_with = "crate::schema::amount_within_1")]
    pub rate: Amount,
    /// When it is due: 00:00, 08:00 or 16:00 UTC.
    pub time: Time,
}

/// Reads an optional field that must not be null.
pub(crate) fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// Reads a scope in the documented form. Serde would also accept the words as keys, as in
/// `{"all":null}`.
fn scope<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<HaltScope, D::Error> {
    struct Scope;
    impl<'de> serde::de::Visitor<'de> for Scope {
        type Value = HaltScope;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(
                "`\"all\"`, `\"drawdown\"`, `{\"principal\":\"<name>\"}`, \
                    `{\"strategy\":\"<name>\"}`, `{\"symbol\":\"<symbol>\"}` or \
                    `{\"bridge\":\"<name>\"}`",
            )
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<HaltScope, E> {
            match text {
                "all" => Ok(HaltScope::All),
                "drawdown" => Ok(HaltScope::Drawdown),
                other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
            }
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<HaltScope, A::Error> {
            let named = Named::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
            let Named {
                principal,
                strategy,
                symbol,
                bridge,
            } = named;
            match (principal, strategy, symbol, bridge) {
                (Some(principal), None, None, None) => Ok(HaltScope::Principal(principal)),
                (None, Some(strategy), None, None) => Ok(HaltScope::Strategy(strategy)),
                (None, None, Some(symbol), None) => Ok(HaltScope::Symbol(symbol)),
                (None, None, None, Some(bridge)) => Ok(HaltScope::Bridge(bridge)),
                _ => Err(serde::de::Error::custom(
                    "name one of `principal`, `strategy`, `symbol` and `bridge`",
                )),
            }
        }
    }
    deserializer.deserialize_any(Scope)
}

/// The scope of a single principal, strategy, symbol or bridge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    #[serde(default, deserialize_with = "present")]
    principal: Option<Principal>,
    #[serde(default, deserialize_with = "present")]
    strategy: Option<StrategyName>,
    #[serde(default, deserialize_with = "present")]
    symbol: Option<Symbol>,
    #[serde(default, deserialize_with = "present")]
    bridge: Option<Principal>,
}

/// Whether `text` is 64 lower-case hex digits.
pub fn is_digest(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_strings_and_nothing_else() {
        let clear = |scope: &str| {
            serde_json::from_str::<ClearHalt>(&format!(r#"{{"scope":{scope},"reason":"r"}}"#))
                .map(|c| c.scope)
        };
        assert_eq!(clear(r#""all""#).unwrap(), HaltScope::All);
        assert_eq!(clear(r#""drawdown""#).unwrap(), HaltScope::Drawdown);
        let bot = Principal::parse("bot").unwrap();
        assert_eq!(
            clear(r#"{"principal":"bot"}"#).unwrap(),
            HaltScope::Principal(bot)
        );
        let trend = StrategyName::parse("trend").unwrap();
        assert_eq!(
            clear(r#"{"strategy":"trend"}"#).unwrap(),
            HaltScope::Strategy(trend)
        );
        let btc = Symbol::parse("BTC-USD").unwrap();
        assert_eq!(
            clear(r#"{"symbol":"BTC-USD"}"#).unwrap(),
            HaltScope::Symbol(btc)
        );
        for scope in [
            r#"{"strategy":null}"#,
            r#"{"principal":"bot","strategy":"trend"}"#,
            r#"{"symbol":"BTC-USD","strategy":"trend"}"#,
            r#"{"symbol":null}"#,
            r#"{"bridge":null}"#,
            r#"{"bridge":"exchange","strategy":"trend"}"#,
            r#"{"symbol":"BTC-USD","principal":"bot"}"#,
            r#"{"all":null}"#,
            r#"{"drawdown":null}"#,
            r#"{"principal":null}"#,
            r#"{"principal":"bot","all":null}"#,
            r#"{}"#,
            r#"["principal","bot"]"#,
            r#""principal""#,
            "null",
        ] {
            assert!(clear(scope).is_err(), "{scope}");
        }
        let key = r#"{"principal":"bot","key_id":"0123456789abcdef","algorithm":"ed25519"}"#;
        assert!(serde_json::from_str::<AddKey>(key).is_ok());
        assert!(
            serde_json::from_str::<AddKey>(&key.replace(r#""ed25519""#, r#"{"ed25519":null}"#))
                .is_err()
        );
    }
}
