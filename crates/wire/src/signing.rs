//! Signatures of requests with HMAC-SHA256 and Ed25519: the signing string, signing and verifying.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

type HmacSha256 = Hmac<Sha256>;

/// Prefix of Ed25519 signatures in the envelope's `signature`.
pub const ED25519_PREFIX: &str = "ed25519:";

/// Renders bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| {
        char::from(if nibble < 10 {
            b'0' + nibble
        } else {
            b'a' + (nibble - 10)
        })
    };
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in bytes {
        text.push(digit(byte >> 4));
        text.push(digit(byte & 15));
    }
    text
}

/// Reads lower-case hex of any even length. `None` for upper case, odd length and anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
        b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
        _ => None,
    };
    let mut pairs = text.as_bytes().chunks_exact(2);
    let bytes = pairs
        .by_ref()
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect::<Option<Vec<u8>>>()?;
    pairs.remainder().is_empty().then_some(bytes)
}

/// SHA-256 as lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns `id|timestamp|action|hex(sha256(payload))`, followed by `|hex(sha256(causality))|-` if
/// there is causality; the `-` means that there is no `seen`. Payload and causality are the text as
/// sent without insignificant white space. No part can contain `|`, so no two requests share a
/// string.
pub fn signing_string(
    id: &str,
    timestamp: &str,
    action: &str,
    payload: &str,
    causality: Option<&str>,
) -> String {
    let causality_hash = causality.map(|causality| sha256_hex(causality.as_bytes()));
    signing_string_of(
        id,
        timestamp,
        action,
        &sha256_hex(payload.as_bytes()),
        causality_hash.as_deref(),
    )
}

/// As [`signing_string`], from the hashes of payload and causality.
pub fn signing_string_of(
    id: &str,
    timestamp: &str,
    action: &str,
    payload_hash: &str,
    causality_hash: Option<&str>,
) -> String {
    match causality_hash {
        None => format!("{id}|{timestamp}|{action}|{payload_hash}"),
        Some(causality_hash) => {
            format!("{id}|{timestamp}|{action}|{payload_hash}|{causality_hash}|-")
        }
    }
}

/// The key that verifies signatures.
#[derive(Clone)]
pub enum VerifyKey {
    /// A key shared with the agent, 32 bytes. The gate could forge its signatures.
    Hmac([u8; 32]),
    /// The agent's own public key. The gate cannot forge its signatures.
    Ed25519(Box<VerifyingKey>),
}

impl std::fmt::Debug for VerifyKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The bytes of a shared key are a secret.
        f.write_str(match self {
            VerifyKey::Hmac(_) => "Hmac(..)",
            VerifyKey::Ed25519(_) => "Ed25519(..)",
        })
    }
}

impl VerifyKey {
    /// Whether `signature` is a signature of this key over `message`. HMACs are compared in
    /// constant time. Ed25519 is verified strictly (no small-order keys, no malleable encodings),
    /// because all verifiers must agree.
    pub fn verifies(&self, message: &str, signature: &str) -> bool {
        self.verifies_bytes(message.as_bytes(), signature)
    }

    /// As [`VerifyKey::verifies`], for a message that need not be text, as in published test
    /// vectors.
    pub fn verifies_bytes(&self, message: &[u8], signature: &str) -> bool {
        match (self, signature.strip_prefix(ED25519_PREFIX)) {
            (VerifyKey::Hmac(key), None) => {
                let Some(bytes) = unhex(signature).filter(|bytes| bytes.len() == 32) else {
                    return false;
                };
                let Ok(mut mac) = HmacSha256::new_from_slice(key) else {
                    return false;
                };
                mac.update(message);
                mac.verify_slice(&bytes).is_ok()
            }
            (VerifyKey::Ed25519(key), Some(text)) => {
                let Ok(bytes) = STANDARD.decode(text) else {
                    return false;
                };
                let Ok(signature) = Signature::from_slice(&bytes) else {
                    return false;
                };
                key.verify_strict(message, &signature).is_ok()
            }
            _ => false,
        }
    }
}

/// The secret of a principal, which makes signatures.
#[derive(Clone)]
pub enum SignKey {
    /// A shared key.
    Hmac([u8; 32]),
    /// The principal's own key, from its 32-byte seed.
    Ed25519(Box<SigningKey>),
}

impl std::fmt::Debug for SignKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SignKey(..)")
    }
}

impl SignKey {
    /// Makes the signature in the form that an envelope has.
    ///
    /// ```
    /// use spoolgate_wire::signing::{SignKey, signing_string};
    ///
    /// let key = SignKey::Hmac([7; 32]);
    /// let message = signing_string("r-1", "2026-03-02T12:00:00Z", "orders.list", "{}", None);
    /// assert!(key.verify_key().verifies(&message, &key.sign(&message)));
    /// ```
    pub fn sign(&self, message: &str) -> String {
        match self {
            SignKey::Hmac(key) => match HmacSha256::new_from_slice(key) {
                Ok(mut mac) => {
                    mac.update(message.as_bytes());
                    hex(&mac.finalize().into_bytes())
                }
                // HMAC accepts keys of any length, so this does not happen; an empty signature
                // never verifies.
                Err(_) => String::new(),
            },
            SignKey::Ed25519(key) => {
                format!(
                    "{ED25519_PREFIX}{}",
                    STANDARD.encode(key.sign(message.as_bytes()).to_bytes())
                )
            }
        }
    }

    /// The key that verifies what this one signs.
    pub fn verify_key(&self) -> VerifyKey {
        match self {
            SignKey::Hmac(key) => VerifyKey::Hmac(*key),
            SignKey::Ed25519(key) => VerifyKey::Ed25519(Box::new(key.verifying_key())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_only_what_it_writes() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&all)).unwrap(), all);
        for text in ["0", "0g", "AB", "0x00", " 00", "é0"] {
            assert!(unhex(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_signature_verifies_only_its_own_message_key_and_form() {
        let hmac = SignKey::Hmac([7; 32]);
        let own = SignKey::Ed25519(Box::new(SigningKey::from_bytes(&[9; 32])));
        let message = signing_string("r1", "2026-02-20T14:42:00Z", "order.submit", "{}", None);
        for key in [&hmac, &own] {
            let signature = key.sign(&message);
            assert!(key.verify_key().verifies(&message, &signature));
            assert!(
                !key.verify_key()
                    .verifies(&message.replace("r1", "r2"), &signature)
            );
            assert!(
                !SignKey::Hmac([8; 32])
                    .verify_key()
                    .verifies(&message, &signature)
            );
            assert!(
                !key.verify_key()
                    .verifies(&message, &signature.to_uppercase())
            );
            assert!(!key.verify_key().verifies(&message, ""));
            assert!(
                !key.verify_key()
                    .verifies(&message, &format!("{signature} "))
            );
        }
        assert!(!hmac.verify_key().verifies(&message, &own.sign(&message)));
        assert!(!own.verify_key().verifies(&message, &hmac.sign(&message)));
    }

    /// The hash is the SHA-256 of `{}`, as `printf '{}' | sha256sum` prints it.
    #[test]
    fn causality_adds_two_parts_and_its_absence_none() {
        let hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        let string =
            |causality| signing_string("r1", "2026-02-20T14:42:00Z", "a.b", "{}", causality);
        assert_eq!(string(None), format!("r1|2026-02-20T14:42:00Z|a.b|{hash}"));
        assert_eq!(
            string(Some("{}")),
            format!("r1|2026-02-20T14:42:00Z|a.b|{hash}|{hash}|-")
        );
    }

    #[test]
    fn secrets_do_not_print() {
        let shown = format!(
            "{:?} {:?}",
            SignKey::Hmac([7; 32]),
            SignKey::Hmac([7; 32]).verify_key()
        );
        assert_eq!(shown, "SignKey(..) Hmac(..)");
    }
}
