//! Tests of `wire::json`.

use super::JsonErrorKind as Kind;
use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn fault(bytes: &[u8]) -> (Kind, usize) {
    let error = check_value(bytes).expect_err(&String::from_utf8_lossy(bytes));
    (error.kind, error.offset)
}

fn duplicate(key: &str) -> Kind {
    Kind::DuplicateKey(key.to_owned())
}

#[test]
fn good_documents_pass() {
    let deep = format!("{}1{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    for text in [
        "{}",
        " \t\r\n{ } \n",
        r#"{"a":{"a":[{"a":1},{"a":2}]},"b":"a"}"#,
        r#"{"":1,"\u0000":2," ":3}"#,
        "[]",
        "0",
        "-0",
        "-0.0e+00",
        "1e999",
        "123456789012345678901234567890.5E-7",
        r#""""#,
        r#""\ud83d\ude00\/\b\f\n\r\t""#,
        "\"\u{7f}\u{2028}é😀\"",
        "true",
        "false",
        "null ",
        "[[],{},[1,2]]",
        r#"{"a":1,"A":2,"á":3,"a ":4}"#,
        &deep,
    ] {
        assert_eq!(check_value(text.as_bytes()), Ok(text));
        let wrapped = format!("{{\"k\":[{text}]}}");
        if text != deep {
            assert_eq!(check_object(wrapped.as_bytes()), Ok(wrapped.as_str()));
        }
    }
}

#[test]
fn each_fault_has_its_kind_and_offset() {
    use Kind::*;
    let too_deep = "[".repeat(DEPTH_MAX + 1);
    let too_deep_mixed = "[{\"a\":".repeat(DEPTH_MAX / 2) + "{";
    let cases: &[(&[u8], Kind, usize)] = &[
        (b"", Empty, 0),
        (b" \n ", Empty, 3),
        (b"{\"a\":\"caf\xe9\"}", NotUtf8, 9),
        (b"\xff\xfe{\0}\0", NotUtf8, 0),
        (b"\"\xed\xa0\x80\"", NotUtf8, 1),
        (b"\"\xc0\xaf\"", NotUtf8, 1),
        (b"\xef\xbb\xbf{}", ByteOrderMark, 0),
        (b"{", Incomplete, 1),
        (b"{\"a", Incomplete, 3),
        (b"{\"a\"", Incomplete, 4),
        (b"{\"a\":", Incomplete, 5),
        (b"{\"a\":-", Incomplete, 6),
        (b"{\"a\":1.", Incomplete, 7),
        (b"{\"a\":1e+", Incomplete, 8),
        (b"{\"a\":nul", Incomplete, 8),
        (b"{\"a\":1,", Incomplete, 7),
        (b"[\"\\", Incomplete, 3),
        (b"[\"\\ud83d\\ude", Incomplete, 12),
        (b"[\"\xf0\x9f", Incomplete, 4),
        (b"[\xf0\x9f", UnexpectedByte(0xf0), 1),
        (b"[] \xf0\x9f", TrailingData, 3),
        (b"{}{}", TrailingData, 2),
        (b"{} ,", TrailingData, 3),
        (b"1 2", TrailingData, 2),
        (b"{}\0", TrailingData, 2),
        (too_deep.as_bytes(), TooDeep, DEPTH_MAX),
        (too_deep_mixed.as_bytes(), TooDeep, DEPTH_MAX / 2 * 6),
        (br#"{"a":1,"a":2}"#, duplicate("a"), 7),
        (br#"{"a":1, "\u0061":2}"#, duplicate("a"), 8),
        (br#"{"\ud83d\ude00":1,"b":{"x":0},"#, Incomplete, 30),
        (
            "{\"\\ud83d\\ude00\":1,\"😀\":2}".as_bytes(),
            duplicate("😀"),
            18,
        ),
        (br#"[{"x":{"/":1,"\/":1}}]"#, duplicate("/"), 13),
        (
            br#"{"\n\u202e":1,"\u000a\u202E":1}"#,
            duplicate("\\n\\u{202e}"),
            14,
        ),
        (br#"["\ud83d"]"#, LoneSurrogate, 2),
        (br#"["a\ude00"]"#, LoneSurrogate, 3),
        (br#"["\ud83d\n"]"#, LoneSurrogate, 2),
        (br#"["\ud83d\ud83d"]"#, LoneSurrogate, 2),
        (br#"{"\ud83d":1}"#, LoneSurrogate, 2),
        (br#"["\x41"]"#, BadEscape, 2),
        (br#"["\u12"]"#, BadEscape, 2),
        (br#"["\u+123"]"#, BadEscape, 2),
        (br#"["\ud83d\u00zz"]"#, BadEscape, 8),
        (b"[\"\\\n\"]", BadEscape, 2),
        (b"[\"a\nb\"]", ControlCharacter, 3),
        (b"[\"\0\"]", ControlCharacter, 2),
        (b"[01]", BadNumber, 1),
        (b"[-01]", BadNumber, 1),
        (b"[+1]", BadNumber, 1),
        (b"[.5]", BadNumber, 1),
        (b"[1.]", BadNumber, 1),
        (b"[1e]", BadNumber, 1),
        (b"[1.5.5]", BadNumber, 1),
        (b"[1_000]", BadNumber, 1),
        (b"[0x1f]", BadNumber, 1),
        (b"[-]", BadNumber, 1),
        (b"[-Infinity]", BadNumber, 1),
        (b"[NaN]", BadLiteral, 1),
        (b"[True]", BadLiteral, 1),
        (b"[truee]", BadLiteral, 1),
        (b"[nul]", BadLiteral, 1),
        (b"[1,]", UnexpectedByte(b']'), 3),
        (b"[,1]", UnexpectedByte(b','), 1),
        (b"[1 2]", UnexpectedByte(b'2'), 3),
        (b"[1}", UnexpectedByte(b'}'), 2),
        (b"{\"a\":1]", UnexpectedByte(b']'), 6),
        (b"{\"a\":1,}", UnexpectedByte(b'}'), 7),
        (b"{a:1}", UnexpectedByte(b'a'), 1),
        (b"{'a':1}", UnexpectedByte(b'\''), 1),
        (b"{\"a\" 1}", UnexpectedByte(b'1'), 5),
        (b"{\"a\":}", UnexpectedByte(b'}'), 5),
        (b"[1]//", TrailingData, 3),
        (b"{/**/}", UnexpectedByte(b'/'), 1),
        (b"{\x0c}", UnexpectedByte(0x0c), 1),
        (b"{\xc2\xa0}", UnexpectedByte(0xc2), 1),
        (b"]", UnexpectedByte(b']'), 0),
    ];
    for (bytes, kind, offset) in cases {
        assert_eq!(
            fault(bytes),
            (kind.clone(), *offset),
            "{}",
            String::from_utf8_lossy(bytes)
        );
    }
}

#[test]
fn only_objects_are_requests() {
    for (text, offset) in [
        ("[]", 0),
        ("  1", 2),
        ("\"{}\"", 0),
        ("null", 0),
        ("x", 0),
        ("}", 0),
    ] {
        let error = check_object(text.as_bytes()).unwrap_err();
        assert_eq!(
            (error.kind, error.offset),
            (Kind::NotAnObject, offset),
            "{text}"
        );
    }
    assert_eq!(check_object(b" ").unwrap_err().kind, Kind::Empty);
}

#[test]
fn messages_name_the_place() {
    let text = "{\n  \"size\": \"é\",\n \"é\": 1, \"size\": 2}";
    let error = check_object(text.as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "duplicate key `size` at line 3, column 10 (byte 28)"
    );
    let error = check_object(b"{\"a\": \x1b}").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unexpected byte 0x1b at line 1, column 7 (byte 6)"
    );
    let error = check_object(b"{;").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unexpected byte `;` at line 1, column 2 (byte 1)"
    );
}

#[test]
fn printed_keys_are_short_and_whole() {
    let long = "k".repeat(1_000_000);
    assert_eq!(
        fault(format!(r#"{{"{long}":1,"{long}":1}}"#).as_bytes()).0,
        duplicate(&"k".repeat(64))
    );
    let escapes = "k".to_owned() + &"\\n".repeat(60);
    let printed = "k".to_owned() + &"\\n".repeat(31);
    assert_eq!(
        fault(format!(r#"{{"{escapes}":1,"{escapes}":1}}"#).as_bytes()).0,
        duplicate(&printed)
    );
}

#[test]
fn duplicates_are_found_in_objects_of_every_size() {
    for keys in (1..40).chain([1_000]) {
        for twice in [0, keys / 2, keys - 1] {
            let mut text = String::from("{");
            for key in 0..keys {
                text += &format!("\"k{key}\":{{\"k0\":[]}},");
            }
            let good = format!("{}}}", text.trim_end_matches(','));
            assert_eq!(check_object(good.as_bytes()), Ok(good.as_str()));
            let offset = text.len();
            text += &format!("\"\\u006b{twice}\":1}}");
            assert_eq!(
                fault(text.as_bytes()),
                (duplicate(&format!("k{twice}")), offset)
            );
        }
    }
}

/// Keys of large objects are stored by their offsets: each must be recognised again, in every
/// spelling, and no other key may be taken for it.
#[test]
fn duplicates_among_thousands_of_keys_in_every_spelling() {
    let spellings = |n: usize| {
        [
            format!("k{n}"),
            format!("\\u006b{n}"),
            format!("\\u006B{n}"),
            format!("k\\u003{n}"),
        ]
    };
    for count in [17, 56, 57, 500, 5000] {
        let keys: Vec<String> = (0..count)
            .map(|n| format!("\"{}\":{n}", spellings(n)[n % 3]))
            .collect();
        let body = keys.join(",");
        assert!(
            check_object(format!("{{{body}}}").as_bytes()).is_ok(),
            "{count}"
        );
        for n in [0, 1, 9, 15, 16, count / 2, count - 1] {
            let of = if n < 10 { 0..4 } else { 0..3 };
            for spelling in &spellings(n)[of] {
                let text = format!("{{{body},\"{spelling}\":0,\"other\":1}}");
                let expect = (duplicate(&format!("k{n}")), body.len() + 2);
                assert_eq!(fault(text.as_bytes()), expect, "{spelling} of {count}");
            }
        }
    }
}

#[test]
fn runs_of_plain_bytes_end_where_they_end_byte_by_byte() {
    let slowly = |bytes: &[u8]| {
        bytes
            .iter()
            .position(|b| matches!(b, b'"' | b'\\' | 0..0x20))
            .unwrap_or(bytes.len())
    };
    for filler in [
        b' ', b'!', b'#', b'[', b']', b'z', 0x7f, 0x80, 0xa2, 0xdc, 0xff,
    ] {
        for length in 0..=18 {
            for (at, byte) in (0..length).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut bytes = vec![filler; length];
                bytes[at] = byte;
                assert_eq!(plain_run(&bytes), slowly(&bytes), "{bytes:?}");
                // The same with a second match after it.
                if let Some(last) = bytes.last_mut() {
                    *last = b'"';
                }
                assert_eq!(plain_run(&bytes), slowly(&bytes), "{bytes:?}");
            }
        }
    }
}

/// A quadratic reader would take minutes on each of these.
#[test]
fn hostile_documents_take_linear_time() {
    let many: Vec<String> = (0..500_000).map(|n| format!("\"{n}\":0")).collect();
    let same_start = "x".repeat(200_000);
    let long: Vec<String> = (10..40).map(|n| format!("\"{same_start}{n}\":0")).collect();
    let objects = vec!["{\"a\":{}}"; 200_000].join(",");
    for text in [
        format!("{{{}}}", many.join(",")),
        format!("{{{}}}", long.join(",")),
        format!("{{\"k\":[{objects}]}}"),
        format!("{{\"k\":\"{}\"}}", "\\u0041".repeat(500_000)),
        format!("{{\"{}\":1}}", "\\n".repeat(500_000)),
        format!("{}{{}}", "\n".repeat(2_000_000)),
    ] {
        assert!(check_object(text.as_bytes()).is_ok());
    }
    assert_eq!(fault("[".repeat(5_000_000).as_bytes()).0, Kind::TooDeep);
}

fn arb_space() -> BoxedStrategy<String> {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"].boxed()
}

fn arb_string() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => "[a-c]",
        1 => Just("\\u0061".to_owned()),
        1 => Just("\\ud83d\\ude00".to_owned()),
        1 => "\\\\[\"\\\\/bfnrt]",
        1 => "[é😀 ,:{}\u{2028}]",
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| format!("\"{}\"", parts.concat()))
}

/// The text of a JSON value with white space and escapes, and occasionally a duplicate key.
fn arb_text() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?",
        arb_string(),
    ];
    let value = scalar.prop_recursive(6, 40, 5, |inner| {
        let item = (arb_space(), inner.clone(), arb_space())
            .prop_map(|(a, b, c)| a + &b + &c)
            .boxed();
        let member = (arb_space(), arb_string(), arb_space(), item.clone())
            .prop_map(|(a, key, b, item)| format!("{a}{key}{b}:{item}"));
        prop_oneof![
            prop::collection::vec(item, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec(member, 0..5)
                .prop_map(|members| format!("{{{}}}", members.join(","))),
        ]
    });
    (arb_space(), value, arb_space()).prop_map(|(a, value, b)| a + &value + &b)
}

fn arb_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(".{0,3}", inner, 0..20)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Both readers must agree, except for what each alone refuses by design.
fn agree_with_serde_json(bytes: &[u8]) -> Result<(), TestCaseError> {
    match (check_value(bytes), serde_json::from_slice::<Value>(bytes)) {
        (Ok(_), Err(theirs)) => {
            prop_assert!(theirs.to_string().contains("out of range"), "{}", theirs)
        }
        (Err(ours), Ok(_)) => {
            prop_assert!(
                matches!(ours.kind, Kind::DuplicateKey(_) | Kind::TooDeep),
                "{}",
                ours
            )
        }
        (Ok(text), Ok(_)) => prop_assert_eq!(text.as_bytes(), bytes),
        (Err(ours), Err(_)) => prop_assert!(ours.offset <= bytes.len()),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn generated_texts_agree(text in arb_text()) {
        agree_with_serde_json(text.as_bytes())?;
    }

    #[test]
    fn mutated_texts_agree(
        text in arb_text(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..3, prop_oneof![
            3 => prop::sample::select(br#"{}[],:"\/-+.eE019utrdD8 "#.to_vec()),
            1 => any::<u8>(),
        ]), 1..4),
    ) {
        let mut bytes = text.into_bytes();
        for (place, kind, byte) in edits {
            let at = place.index(bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => bytes[at] = byte,
                _ if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.push(byte),
            }
        }
        agree_with_serde_json(&bytes)?;
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        agree_with_serde_json(&bytes)?;
    }

    #[test]
    fn every_prefix_of_an_object_is_incomplete(text in arb_text()) {
        let text = format!("{{\"k\":{text}}}");
        if check_object(text.as_bytes()).is_err() {
            return Ok(());
        }
        for cut in 0..text.len() {
            let error = check_object(&text.as_bytes()[..cut]).unwrap_err();
            let kind = if cut == 0 { Kind::Empty } else { Kind::Incomplete };
            prop_assert_eq!((error.kind, error.offset), (kind, cut));
        }
    }

    #[test]
    fn minify_keeps_the_meaning(text in arb_text()) {
        if check_value(text.as_bytes()).is_err() {
            return Ok(());
        }
        let small = minify(&text);
        prop_assert_eq!(minify(&small), small.clone());
        prop_assert!(matches!(minify(&small), Cow::Borrowed(_)));
        prop_assert!(check_value(small.as_bytes()).is_ok());
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(serde_json::from_str::<Value>(&small).unwrap(), value);
        }
    }

    #[test]
    fn minify_undoes_pretty_printing(value in arb_value()) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        let compact = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(check_value(pretty.as_bytes()), Ok(pretty.as_str()));
        prop_assert_eq!(minify(&pretty), compact.as_str());
        prop_assert_eq!(minify(&compact), compact.as_str());
    }
}

#[test]
fn minify_leaves_strings_alone() {
    for (text, small) in [
        (
            " { \"a b\" : \" \\\" \" , \"c\\\\\" : [ 1.50 , 1e5 ] }\n",
            r#"{"a b":" \" ","c\\":[1.50,1e5]}"#,
        ),
        ("\t\"\\\\\\\" \" ", r#""\\\" ""#),
        ("{}", "{}"),
        ("\" é 😀 \"\r\n", "\" é 😀 \""),
    ] {
        assert_eq!(minify(text), small);
    }
}

#[test]
fn hidden_characters_of_texts_and_names_go_and_numbers_stay_as_written() {
    let text = r#"{"a\u200b":["x\udb40\udc41y",1.50,"\"\\",{"n":-0e5}],"t":"@q\"\n"}"#;
    let text = &text.replace('@', "\u{202e}");
    let left = r#"{"a":["xy",1.50,"\"\\",{"n":-0e5}],"t":"q\"\n"}"#;
    assert_eq!(without_hidden(text), Some((left.to_owned(), 3)));
    for text in [left, r#"{"\u00e9":"\\u200b","e":"👨👩"}"#, "12.0", r#""""#] {
        assert_eq!(without_hidden(text), None, "{text}");
    }
    let (text, count) = without_hidden("{\"a\":1,\"a\u{feff}\":2}").unwrap();
    assert_eq!((fault(text.as_bytes()).0, count), (duplicate("a"), 1));
}
