//! Signed requests as agents send them.

use anyhow::{Context, Result, bail};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::{SignKey, unhex};

/// The agent of the homes here.
pub(crate) const AGENT: &str = "trend-bot";

/// What becomes of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A resting entry.
    Accepted,
    /// Refused for its notional; the gate looks for the largest size that passes.
    TooLarge,
    /// Refused for its stop.
    StopTooFar,
    /// Refused for its thesis.
    NoThesis,
}

/// One order in so many is accepted, until every thesis below [`THESES_TAKEN`] carries its entry:
/// the gate takes one open entry a thesis, so no account has a backlog full of acceptable ones.
const ACCEPTED_EVERY: usize = 400;
/// Theses that a backlog may use up.
const THESES_TAKEN: usize = 50;
/// Theses of the homes here; the last one is never entered.
pub(crate) const THESES: usize = 64;
/// Prices of orders, a cent apart.
const PRICES: usize = 25_000;

/// The mix in words, for the report.
pub(crate) const MIX: &str = "one in 400 is an accepted resting entry (the gate takes one open \
    entry a thesis); of the rest a third each is refused by max_order_value, with a search for \
    the largest size that passes, by stop_distance, and by thesis_valid";

/// Name of a thesis.
pub(crate) fn thesis(n: usize) -> String {
    format!("bench-{n}")
}

impl Fate {
    /// That of the n-th order.
    pub(crate) fn of(n: usize) -> Fate {
        match n {
            n if n.is_multiple_of(ACCEPTED_EVERY) && n / ACCEPTED_EVERY < THESES_TAKEN => {
                Fate::Accepted
            }
            n => match n % 3 {
                0 => Fate::TooLarge,
                1 => Fate::StopTooFar,
                _ => Fate::NoThesis,
            },
        }
    }

    /// Accepted ones among the first `n`.
    pub(crate) fn accepted(n: usize) -> usize {
        (0..n).filter(|n| Fate::of(*n) == Fate::Accepted).count()
    }

    /// A payload that comes to it. No two entries are the same, or they would be duplicates.
    fn payload(self, n: usize) -> String {
        let cents = 650_000 + n % PRICES;
        let price = format!("{}.{:02}", cents / 100, cents % 100);
        let free = thesis(THESES - 1);
        let (size, stop, thesis) = match self {
            Fate::Accepted => ("0.002", "6400", thesis(n / ACCEPTED_EVERY)),
            Fate::TooLarge => ("0.5", "6400", free),
            Fate::StopTooFar => ("0.002", "5000", free),
            Fate::NoThesis => ("0.002", "6400", "nobody-wrote-it".to_owned()),
        };
        format!(
            r#"{{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"{size}","order_type":"limit","price":"{price}","stop_price":"{stop}","thesis_slug":"{thesis}","planned_entry":"{price}","planned_stop":"{stop}"}}"#
        )
    }
}

/// A request as a file.
pub(crate) struct Sent {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Signs as the agent.
pub(crate) struct Agent {
    key: SignKey,
    source: Principal,
    clock: SystemClock,
}

impl Agent {
    /// With the key in a key file.
    pub(crate) fn from_key_file(text: &[u8]) -> Result<Agent> {
        Agent::of(AGENT, text)
    }

    /// Another one with the key in a key file.
    pub(crate) fn of(name: &str, text: &[u8]) -> Result<Agent> {
        let file: serde_json::Value = serde_json::from_slice(text)?;
        let secret = file
            .get("secret")
            .and_then(|secret| secret.as_str())
            .and_then(unhex);
        let secret: Option<[u8; 32]> = secret.and_then(|bytes| bytes.try_into().ok());
        let key = SignKey::Hmac(secret.context("a key file without a secret")?);
        Ok(Agent {
            key,
            source: Principal::parse(name)?,
            clock: SystemClock::default(),
        })
    }

    /// The key it signs with.
    pub(crate) fn key(&self) -> &SignKey {
        &self.key
    }

    /// A signed envelope.
    pub(crate) fn envelope(&self, id: &str, action: &str, payload: String) -> Result<Envelope> {
        let timestamp = self.clock.now();
        let mut envelope = Envelope {
            id: RequestId::parse(id)?,
            timestamp_text: timestamp.to_string(),
            timestamp,
            action: action.to_owned(),
            payload,
            source: self.source.clone(),
            signature: String::new(),
            causality: None,
        };
        envelope.signature = self.key.sign(&envelope.signing_string());
        Ok(envelope)
    }

    /// A request as a file.
    pub(crate) fn sent(&self, id: &str, action: &str, payload: String) -> Result<Sent> {
        let bytes = self.envelope(id, action, payload)?.to_json().into_bytes();
        if bytes.len() > 4096 {
            bail!(
                "a request of {} bytes is none that agents send",
                bytes.len()
            );
        }
        Ok(Sent {
            name: format!("{id}.json"),
            bytes,
        })
    }

    /// An order that opens an entry of this thesis.
    pub(crate) fn entry(&self, id: &str, thesis: usize) -> Result<Sent> {
        self.order(id, thesis * ACCEPTED_EVERY, Fate::Accepted)
    }

    /// An order with this fate.
    pub(crate) fn order(&self, id: &str, n: usize, fate: Fate) -> Result<Sent> {
        self.sent(id, "order.submit", fate.payload(n))
    }

    /// The first `n` orders of the mix.
    pub(crate) fn backlog(&self, prefix: &str, n: usize) -> Result<Vec<Sent>> {
        (0..n)
            .map(|n| self.order(&format!("{prefix}{n:07}"), n, Fate::of(n)))
            .collect()
    }

    /// The smallest request there is: a look at a market.
    pub(crate) fn look(&self, id: &str) -> Result<Sent> {
        self.sent(id, "market.get", r#"{"symbol":"BTC-USD"}"#.to_owned())
    }
}
