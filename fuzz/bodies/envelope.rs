//! From a request file to an authenticated request. A request is authentic only if a signature that
//! is made anew here, with the libraries alone, says so; and its envelope has one form.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, SigningKey, Verifier};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use spoolgate_gate::prepare::{Keyring, Origin};
use spoolgate_gate::state::KeyRecord;
use spoolgate_gate::{Change, Delivery, State, prepare};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, VerifyKey, hex};
use spoolgate_wire::time::Time;

use super::input::Choices;

const SHARED: [u8; 32] = [5; 32];
const OWN: [u8; 32] = [6; 32];

/// Keys by id, as bodies know them: `bot` shares a key, `own` has its own.
pub(crate) struct Keys(BTreeMap<String, VerifyKey>);

impl Keyring for Keys {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        self.0.get(key_id).cloned()
    }
}

/// The secret of a principal of [`keys`].
pub(crate) fn sign_key(principal: &str) -> SignKey {
    match principal {
        "own" => SignKey::Ed25519(Box::new(SigningKey::from_bytes(&OWN))),
        _ => SignKey::Hmac(SHARED),
    }
}

/// A state and keyring in which these principals have a key each.
pub(crate) fn keys(principals: &[&str]) -> (State, Keys) {
    let mut state = State::default();
    let mut held = BTreeMap::new();
    for (n, name) in principals.iter().enumerate() {
        let key_id = format!("{n:016x}");
        let key = KeyRecord {
            key_id: key_id.clone(),
            principal: Principal::parse(name).unwrap(),
            algorithm: if *name == "own" {
                Algorithm::Ed25519
            } else {
                Algorithm::HmacSha256
            },
            added_at: Time::EPOCH,
            ends_at: None,
            revoked_at: None,
        };
        state.apply(&Change::KeyAdded(key)).unwrap();
        held.insert(key_id, sign_key(name).verify_key());
    }
    (state, Keys(held))
}

/// Signs whatever is an envelope.
pub(crate) fn signed(mut envelope: Envelope) -> Envelope {
    envelope.signature = sign_key(envelope.source.as_str()).sign(&envelope.signing_string());
    envelope
}

/// A first byte that says how to treat the rest: as a file, or as a file to be signed properly and
/// then damaged.
pub fn body(data: &[u8]) {
    let mut choices = Choices::of(data);
    match choices.byte() {
        mode @ 0..=31 => {
            let at = choices.short();
            let flip = choices.byte();
            let Ok(envelope) = Envelope::parse(choices.rest()) else {
                return;
            };
            let is_known = matches!(envelope.source.as_str(), "bot" | "own");
            let mut file = signed(envelope).to_json().into_bytes();
            if mode % 2 == 1 {
                let at = usize::from(at) % file.len();
                file[at] ^= flip;
            }
            check(&file, is_known && (mode % 2 == 0 || flip == 0));
        }
        _ => check(data, false),
    }
}

fn check(file: &[u8], is_signed: bool) {
    let (state, keyring) = keys(&["bot", "own"]);
    let delivery = Delivery {
        origin: Origin::Flat,
        file: "f.json".to_owned(),
        shown: "f.json".to_owned(),
        content: Ok(file.to_vec()),
    };
    let prepared = prepare(delivery, &state, &keyring, Time::EPOCH);
    assert_eq!(prepared.file_sha256, Some(hex(&Sha256::digest(file))));
    let _ = prepared.lane(&state);
    let parsed = Envelope::parse(file);
    match &prepared.request {
        Ok(authentic) => {
            let envelope = parsed.expect("authentic, and no envelope");
            assert_eq!(authentic.envelope, envelope);
            assert!(is_good(file, &envelope), "authentic, and nobody signed it");
            let id = if envelope.source.as_str() == "own" {
                1
            } else {
                0
            };
            assert_eq!(authentic.key_id, format!("{id:016x}"), "another's key");
            let again = envelope.to_json();
            assert_eq!(Envelope::parse(again.as_bytes()).as_ref(), Ok(&envelope));
            assert!(is_good(again.as_bytes(), &envelope));
            if let Err(refusal) = &authentic.body {
                check_message(&refusal.message);
            }
        }
        Err(unverified) => {
            check_message(&unverified.refusal.message);
            let known = parsed.is_ok_and(|envelope| is_good(file, &envelope));
            assert!(
                !known && !is_signed,
                "a good signature was refused: {}",
                unverified.refusal.message
            );
        }
    }
}

/// What a sender wrote must not steer the reader's terminal, or fill the ledger.
pub(crate) fn check_message(message: &str) {
    assert!(!message.contains(char::is_control), "{message:?}");
    assert!(
        message.chars().count() < 12_000,
        "{} characters",
        message.chars().count()
    );
}

/// Whether the file is signed, from its JSON alone.
fn is_good(file: &[u8], envelope: &Envelope) -> bool {
    // Values as text: a payload may hold numbers that this library has no room for.
    let Ok(fields) =
        serde_json::from_slice::<BTreeMap<String, Box<serde_json::value::RawValue>>>(file)
    else {
        return false;
    };
    let field = |name: &str| -> String {
        fields
            .get(name)
            .and_then(|value| serde_json::from_str(value.get()).ok())
            .unwrap_or_default()
    };
    let (payload, causality) = raw_members(file);
    let hash = |text: &str| hex(&Sha256::digest(text.as_bytes()));
    let mut message = format!(
        "{}|{}|{}|{}",
        field("id"),
        field("timestamp"),
        field("action"),
        hash(&payload)
    );
    if let Some(causality) = causality {
        message = format!("{message}|{}|-", hash(&causality));
    }
    assert_eq!(
        message,
        envelope.signing_string(),
        "two readers, two signing strings"
    );
    let signature = field("signature");
    match field("source").as_str() {
        "bot" => {
            let mut mac = Hmac::<Sha256>::new_from_slice(&SHARED).unwrap();
            mac.update(message.as_bytes());
            hex(&mac.finalize().into_bytes()) == signature
        }
        "own" => {
            let public = SigningKey::from_bytes(&OWN).verifying_key();
            let base64 = signature.strip_prefix("ed25519:").unwrap_or_default();
            let bytes = STANDARD.decode(base64).unwrap_or_default();
            Signature::from_slice(&bytes)
                .is_ok_and(|s| public.verify(message.as_bytes(), &s).is_ok())
        }
        _ => false,
    }
}

/// The texts of payload and causality without white space outside strings, cut out by a naive
/// reader.
fn raw_members(file: &[u8]) -> (String, Option<String>) {
    #[derive(serde::Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        payload: &'a serde_json::value::RawValue,
        #[serde(borrow)]
        causality: Option<&'a serde_json::value::RawValue>,
    }
    let Ok(outer) = serde_json::from_slice::<Outer<'_>>(file) else {
        return (String::new(), None);
    };
    (
        without_white_space(outer.payload.get()),
        outer.causality.map(|text| without_white_space(text.get())),
    )
}

fn without_white_space(text: &str) -> String {
    let mut out = String::new();
    let (mut in_string, mut after_backslash) = (false, false);
    for c in text.chars() {
        if in_string || !matches!(c, ' ' | '\t' | '\n' | '\r') {
            out.push(c);
        }
        if after_backslash {
            after_backslash = false;
        } else if in_string && c == '\\' {
            after_backslash = true;
        } else if c == '"' {
            in_string = !in_string;
        }
    }
    out
}
