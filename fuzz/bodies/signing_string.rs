//! The signing string is injective: two requests that differ in id, timestamp, action, payload or
//! causality never share one, and it can be taken apart again.

use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::signing::{SignKey, sha256_hex};

/// Two envelopes' worth of fields, each ended by a zero byte: id, timestamp, action, payload of one
/// and the other, then the causality of one and the other, empty for none.
pub fn body(data: &[u8]) {
    let mut fields = data
        .split(|byte| *byte == 0)
        .map(|field| String::from_utf8_lossy(field).into_owned());
    let mut four = || std::array::from_fn(|_| fields.next().unwrap_or_default());
    let (first, second): ([String; 4], [String; 4]) = (four(), four());
    let first = read(first, &fields.next().unwrap_or_default());
    let second = read(second, &fields.next().unwrap_or_default());
    for envelope in [&first, &second].into_iter().flatten() {
        check_parts(envelope);
    }
    let (Some(first), Some(second)) = (first, second) else {
        return;
    };
    let differ = parts(&first) != parts(&second);
    assert_eq!(
        first.signing_string() != second.signing_string(),
        differ,
        "{first:?} {second:?}"
    );
    assert_eq!(first.request_hash() != second.request_hash(), differ);
    assert_eq!(
        first.payload_hash() != second.payload_hash(),
        first.payload != second.payload
    );
    check_causality_is_told(&first, &second);
    let key = SignKey::Hmac([3; 32]);
    let signature = key.sign(&first.signing_string());
    assert!(
        key.verify_key()
            .verifies(&first.signing_string(), &signature)
    );
    assert_eq!(
        key.verify_key()
            .verifies(&second.signing_string(), &signature),
        !differ,
        "signed another request"
    );
}

/// The same request with every pair of causalities at hand: equal strings only of equal pairs.
fn check_causality_is_told(first: &Envelope, second: &Envelope) {
    let kinds = [
        None,
        first.causality.clone(),
        second.causality.clone(),
        Some(first.payload.clone()),
    ];
    let made = kinds.map(|causality| Envelope {
        causality,
        ..first.clone()
    });
    for one in &made {
        for other in &made {
            let same = one.causality == other.causality;
            assert_eq!(
                one.signing_string() == other.signing_string(),
                same,
                "{one:?} {other:?}"
            );
        }
    }
}

fn parts(envelope: &Envelope) -> ([&str; 4], Option<&str>) {
    let signed = [
        envelope.id.as_str(),
        &envelope.timestamp_text,
        &envelope.action,
        &envelope.payload,
    ];
    (signed, envelope.causality.as_deref())
}

fn read([id, timestamp, action, payload]: [String; 4], causality: &str) -> Option<Envelope> {
    let [id, timestamp, action] =
        [id, timestamp, action].map(|text| serde_json::to_string(&text).unwrap());
    let member = if causality.is_empty() {
        String::new()
    } else {
        format!(",\"causality\":{causality}")
    };
    let file = format!(
        "{{\"id\":{id},\"timestamp\":{timestamp},\"action\":{action},\"payload\":{payload},\"source\":\"bot\",\"signature\":\"ab\"{member}}}"
    );
    Envelope::parse(file.as_bytes()).ok()
}

fn check_parts(envelope: &Envelope) {
    let text = envelope.signing_string();
    let parts_of_text: Vec<&str> = text.split('|').collect();
    let payload_hash = sha256_hex(envelope.payload.as_bytes());
    let mut expect = parts(envelope).0;
    expect[3] = &payload_hash;
    assert_eq!(parts_of_text[..4], expect);
    match &envelope.causality {
        None => assert_eq!(parts_of_text.len(), 4),
        Some(causality) => assert_eq!(
            parts_of_text[4..],
            [&*sha256_hex(causality.as_bytes()), "-"]
        ),
    }
    assert!(
        text.is_ascii() && !text.contains(|c: char| c.is_control()),
        "{text:?}"
    );
    assert_eq!(
        Envelope::parse(envelope.to_json().as_bytes()).as_ref(),
        Ok(envelope)
    );
}
