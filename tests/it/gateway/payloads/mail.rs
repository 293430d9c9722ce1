//! Addresses and lines of mail.

use super::*;

/// An address is bare, and the same for every reader.
#[test]
fn addresses_are_bare() {
    let good = [
        ("ann@example.com", "ann@example.com"),
        ("Ann.B+c@Example.COM", "Ann.B+c@example.com"),
        ("o'neil@example.com", "o'neil@example.com"),
        ("ann@example.com.", "ann@example.com"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("_@a.b", "_@a.b"),
    ];
    let bad = [
        VALUE,
        "",
        "@",
        "ann",
        "ann@",
        "@example.com",
        "ann@localhost",
        "Ann <ann@example.com>",
        "<ann@example.com>",
        "ann@example.com, bob@example.com",
        "ann@example.com;bob@example.com",
        "ann@example.com bob@example.com",
        "\"ann\"@example.com",
        "ann(hi)@example.com",
        "mailto:ann@example.com",
        "ann@evil.example@example.com",
        "ann%evil.example@example.com",
        "evil.example!ann@example.com",
        "ann@[10.0.0.1]",
        "ann@10.0.0.1",
        "ann@exa mple.com",
        "ann@example.com\r\nBcc: eve@evil.example",
        "ann@example.com\n",
        "ann\u{0}@example.com",
        " ann@example.com",
        "ann@example.com\u{202e}",
        "ann@ex\u{200b}ample.com",
        "ann@examp\u{430}le.com",
        "\u{430}nn@example.com",
        "-oQ/tmp@example.com",
        "|sh@example.com",
        "/etc/passwd@example.com",
        ".ann@example.com",
        "ann.@example.com",
        "a..n@example.com",
        "ann@-example.com",
        "ann@example..com",
        "team:ann@example.com",
    ];
    each_field(|schema, name, kind, _| {
        if kind != Addresses {
            return;
        }
        for (address, given) in good {
            let call = read(schema, name, &json!([address]).to_string()).unwrap();
            let given_as: Value = serde_json::from_str(&call.to_json().unwrap()).unwrap();
            assert_eq!(given_as[name], json!([given]), "{}", schema.action);
        }
        for address in bad {
            let why = read(
                schema,
                name,
                &json!(["ann@example.com", address]).to_string(),
            )
            .unwrap_err();
            let wanted =
                format!("`{name}`, number 2: it must be one bare mail address, as ann@example.com");
            assert_eq!(why, wanted, "{} {address:?}", schema.action);
        }
        let local = |bytes: usize| format!("{}@example.com", "a".repeat(bytes));
        assert!(read(schema, name, &json!([local(64)]).to_string()).is_ok());
        assert!(read(schema, name, &json!([local(65)]).to_string()).is_err());
    });
}

fn people(count: usize) -> Vec<String> {
    (0..count)
        .map(|nth| format!("p{nth}@example.com"))
        .collect()
}

#[test]
fn a_mail_that_is_sent_has_a_recipient_and_not_too_many() {
    for action in ["email.send", "email.draft"] {
        let mail = |to: usize, cc: Option<usize>| {
            let mut mail = json!({"to": people(to), "subject": "s", "body": "b"});
            if let Some(cc) = cc {
                mail["cc"] = json!(people(cc));
            }
            GatewayCall::read(action, &mail.to_string())
                .map(|_| ())
                .map_err(|error| error.to_string())
        };
        assert_eq!(mail(PEOPLE_MAX - 1, None), Ok(()));
        assert_eq!(mail(PEOPLE_MAX, Some(0)), Ok(()));
        assert_eq!(mail(0, Some(PEOPLE_MAX)), Ok(()));
        assert_eq!(
            mail(PEOPLE_MAX + 1, None),
            Err("`to` has 201 addresses; at most 200 are accepted".to_owned())
        );
        assert_eq!(
            mail(100, Some(101)),
            Err("`to` and `cc` have 201 addresses together; at most 200 are accepted".to_owned())
        );
        for (to, cc) in [(0, None), (0, Some(0))] {
            let expected = match action {
                "email.draft" => Ok(()),
                _ => {
                    Err("`to` and `cc` are empty: a mail that is sent needs a recipient".to_owned())
                }
            };
            assert_eq!(mail(to, cc), expected, "{action}");
        }
    }
    for (count, is_good) in [
        (PEOPLE_MAX - 1, true),
        (PEOPLE_MAX, true),
        (PEOPLE_MAX + 1, false),
    ] {
        let found = read(
            schema("calendar.create"),
            "attendees",
            &json!(people(count)).to_string(),
        );
        assert_eq!(found.is_ok(), is_good);
    }
}

#[test]
fn one_line_is_one_line_and_names_are_seen() {
    each_field(|schema, name, kind, _| {
        let wanted = match kind {
            Line => format!("`{name}` must be one line without control or direction characters"),
            Name => {
                format!(
                    "`{name}` must not begin or end with a space, nor hold invisible characters"
                )
            }
            _ => return,
        };
        for hidden in HIDDEN {
            for text in [
                format!("a{hidden}Bcc: {VALUE}"),
                format!("{hidden}a"),
                format!("a{hidden}"),
            ] {
                let why = read(schema, name, &quoted(&text)).unwrap_err();
                assert_eq!(why, wanted, "{} {text:?}", schema.action);
            }
        }
        for text in ["Grüße aus 東京 👩\u{200d}", "a  b"] {
            // In a line, a joiner is visible through what it joins; a name does not need it.
            let is_good = kind == Line || !text.contains('\u{200d}');
            assert_eq!(
                read(schema, name, &quoted(text)).is_ok(),
                is_good,
                "{} {text}",
                schema.action
            );
        }
        if kind == Name {
            for text in [" a", "a ", " "] {
                assert_eq!(read(schema, name, &quoted(text)).unwrap_err(), wanted);
            }
            let empty = format!("`{name}` has 0 bytes; it must have 1 to {NAME_BYTES_MAX}");
            assert_eq!(read(schema, name, "\"\"").unwrap_err(), empty);
        }
    });
}
