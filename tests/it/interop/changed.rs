//! Requests that were changed after they were signed.

use super::*;

const CAUSALITY: &str = r#"{"root_task_id":"t é","n":[0.10,null]}"#;

#[test]
fn every_changed_byte_is_refused() {
    for (own, causality) in [
        (false, None),
        (true, None),
        (false, Some(CAUSALITY)),
        (true, Some(CAUSALITY)),
    ] {
        let (gate, text) = signed(own, causality);
        let mut refused: BTreeMap<&str, u32> = BTreeMap::new();
        // By default every byte becomes one in five of the other values.
        let (step, mut changed) = (campaign(5, 1), 0);
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            let old = bytes[at];
            for new in
                (0..=255_u8).filter(|new| *new != old && usize::from(*new) % step == at % step)
            {
                changed += 1;
                bytes[at] = new;
                *refused.entry(gate.refused(&bytes).name()).or_default() += 1;
            }
            bytes[at] = old;
            bytes.insert(at, old);
            gate.refused(&bytes);
            bytes.drain(at..at + 2);
            gate.refused(&bytes);
        }
        // Each kind of refusal occurs, so the changes get as far as they can.
        let kinds: Vec<&str> = refused.keys().copied().collect();
        assert_eq!(
            kinds,
            ["MALFORMED_ENVELOPE", "MALFORMED_JSON", "SIGNATURE_INVALID"]
        );
        assert_eq!(refused.values().sum::<u32>(), changed);
        assert!(changed as usize >= text.len() * (256 / step - 1));
    }
}

#[test]
fn every_field_of_another_request_is_refused() {
    let (gate, text) = signed(false, Some(CAUSALITY));
    for (from, to) in [
        (r#""r1:a.b_c-9""#, r#""r1:a.b_c-8""#),
        (r#""2026-02-20T14:42:00Z""#, r#""2026-02-20T14:42:00.0Z""#),
        (r#""order.submit""#, r#""order.cancel""#),
        // Equal in meaning, different in spelling.
        ("[0.10,-1e3", "[0.1,-1e3"),
        ("-1e3", "-1E3"),
        (r"\u00e9", "é"),
        (r"\u00e9", r"\u00E9"),
        (
            r#""n":[0.10,-1e3,true,null],"":"\u00e9 \" é""#,
            r#""":"\u00e9 \" é","n":[0.10,-1e3,true,null]"#,
        ),
        (r#""trend-bot""#, r#""owner""#),
        (r#""t é""#, r#""t \u00e9""#),
        ("[0.10,null]", "[0.1,null]"),
        (CAUSALITY, r#"{"n":[0.10,null],"root_task_id":"t é"}"#),
        (CAUSALITY, "{}"),
        (&format!(r#","causality":{CAUSALITY}"#), ""),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert_eq!(
            gate.refused(changed.as_bytes()),
            Code::SignatureInvalid,
            "{to}"
        );
    }
    // Only the meaning of the envelope itself is signed: not the order of its fields, nor the
    // spelling of the action.
    for (from, to) in [
        (r#""order.submit""#, r#""\u006frder.submit""#),
        (r#""source""#, r#""s\u006furce""#),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        gate.authentic(&changed);
    }
}

/// Whether `at` is between two tokens, found without the gate's reader.
fn is_between_tokens(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let (mut in_string, mut escaped) = (false, false);
    for byte in &bytes[..at] {
        (in_string, escaped) = match (in_string, escaped, byte) {
            (true, true, _) => (true, false),
            (true, false, b'\\') => (true, true),
            (inside, false, b'"') => (!inside, false),
            (inside, _, _) => (inside, false),
        };
    }
    let of_word = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
    };
    let in_word = at > 0 && of_word(bytes.get(at - 1)) && of_word(bytes.get(at));
    !in_string && !in_word
}

#[test]
fn white_space_is_allowed_between_tokens_and_nowhere_else() {
    // Tokens: 50, and 16 more.
    for (own, causality, places) in [
        (false, None, 51),
        (true, None, 51),
        (true, Some(CAUSALITY), 67),
    ] {
        let (gate, text) = signed(own, causality);
        let hash = gate.authentic(&text).request_hash;
        let mut everywhere = String::new();
        let mut allowed = 0;
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let between = is_between_tokens(&text, at);
            for space in [" ", "\t", "\r", "\n", " \r\n\t"] {
                let (before, after) = text.split_at(at);
                let spaced = format!("{before}{space}{after}");
                if between {
                    assert_eq!(gate.authentic(&spaced).request_hash, hash, "{spaced}");
                } else {
                    gate.refused(spaced.as_bytes());
                }
            }
            if between {
                everywhere += " \r\n\t";
                allowed += 1;
            }
            everywhere.extend(text[at..].chars().next());
        }
        assert_eq!(gate.authentic(&everywhere).request_hash, hash);
        assert_eq!(allowed, places);
        // JSON does not count these as white space.
        for space in ["\u{b}", "\u{c}", "\0", "\u{a0}", "\u{feff}", "\u{2028}"] {
            gate.refused(format!("{text}{space}").as_bytes());
            gate.refused(format!("{space}{text}").as_bytes());
        }
    }
}

#[test]
fn a_changed_request_is_refused_by_the_program_and_uses_nothing_up() {
    let desk = Desk::new();
    for (number, example) in examples().enumerate() {
        let id = format!("halt-{number}");
        let line = example.sign(
            &desk,
            "halt.set",
            r#"{"reason":"a test of changes"}"#,
            &[&id],
        );
        let value: Value = serde_json::from_str(&line).unwrap();
        let middle = |text: &str| line.find(text).unwrap() + text.len() / 2;
        let mut places: Vec<usize> = ["id", "timestamp", "action", "source", "signature"]
            .iter()
            .map(|field| middle(value[field].as_str().unwrap()))
            .collect();
        places.extend(["a test of changes", "\"reason\"", "\"payload\"", "{", "},"].map(middle));
        for at in places {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).unwrap();
            let (exit, answer) = desk.handle(&changed);
            assert!(
                [1, 2].contains(&exit) && answer["status"] == "error",
                "{changed}: {answer}"
            );
        }
        let (exit, answer) = desk.handle(&line);
        assert_eq!(
            (exit, &answer["status"], &answer["requestId"]),
            (0, &"success".into(), &id.into())
        );
    }
}
