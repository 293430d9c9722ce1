//! The signing string is injective: two requests that differ in id, timestamp, action or payload never share one,
//! and it can be taken apart again.

use spoolgate::wire::envelope::Envelope;
use spoolgate::wire::signing::{SignKey, sha256_hex};

/// Two envelopes' worth of fields, each ended by a zero byte: id, timestamp, action, payload.
pub fn body(data: &[u8]) {
    let mut fields = data.split(|byte| *byte == 0);
    let first = read(&mut fields);
    let second = read(&mut fields);
    for envelope in [&first, &second].into_iter().flatten() {
        check_parts(envelope);
    }
    let (Some(first), Some(second)) = (first, second) else { return };
    let differ = parts(&first) != parts(&second);
    assert_eq!(first.signing_string() != second.signing_string(), differ, "{first:?} {second:?}");
    assert_eq!(first.request_hash() != second.request_hash(), differ);
    assert_eq!(first.payload_hash() != second.payload_hash(), first.payload != second.payload);
    let key = SignKey::Hmac([3; 32]);
    let signature = key.sign(&first.signing_string());
    assert!(key.verify_key().verifies(&first.signing_string(), &signature));
    assert_eq!(
        key.verify_key().verifies(&second.signing_string(), &signature),
        !differ,
        "signed another request"
    );
}

fn parts(envelope: &Envelope) -> [&str; 4] {
    [envelope.id.as_str(), &envelope.timestamp_text, &envelope.action, &envelope.payload]
}

fn read<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Option<Envelope> {
    let mut quoted = || {
        let text = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
        serde_json::to_string(&text).unwrap()
    };
    let (id, timestamp, action) = (quoted(), quoted(), quoted());
    let payload = String::from_utf8_lossy(fields.next().unwrap_or_default()).into_owned();
    let file = format!(
        "{{\"id\":{id},\"timestamp\":{timestamp},\"action\":{action},\"payload\":{payload},\"source\":\"bot\",\"signature\":\"ab\"}}"
    );
    Envelope::parse(file.as_bytes()).ok()
}

fn check_parts(envelope: &Envelope) {
    let text = envelope.signing_string();
    let [id, timestamp, action, hash] = text.split('|').collect::<Vec<_>>().try_into().expect("four parts");
    assert_eq!([id, timestamp, action], parts(envelope)[..3]);
    assert_eq!(hash, sha256_hex(envelope.payload.as_bytes()));
    assert!(text.is_ascii() && !text.contains(|c: char| c.is_control()), "{text:?}");
    assert_eq!(Envelope::parse(envelope.to_json().as_bytes()).as_ref(), Ok(envelope));
}
