//! Files whose JSON, envelope or payload is malformed.

use super::*;

impl Cases<'_> {
    pub(super) fn malformed_json(&mut self) {
        let code = Code::MalformedJson;
        self.broken("twice", code, "duplicate key `id`", |text| {
            text.replacen('{', r#"{"id":"a","#, 1)
        });
        self.broken("escaped", code, "duplicate key `id`", |text| {
            text.replacen('{', r#"{"\u0069d":"a","#, 1)
        });
        self.broken("inner", code, "duplicate key `a`", |text| {
            text.replace(r#""payload":{}"#, r#""payload":{"a":1,"\u0061":2}"#)
        });
        let deep = |n: usize| format!(r#"{{"id":{}{}}}"#, "[".repeat(n), "]".repeat(n));
        self.raw("deep", code, "nested", deep(64).as_bytes());
        self.raw(
            "deeper",
            code,
            "nested",
            format!(r#"{{"id":{}"#, "[".repeat(60_000)).as_bytes(),
        );
        self.raw(
            "shallow",
            Code::MalformedEnvelope,
            "id",
            deep(63).as_bytes(),
        );
        self.raw("surrogate", code, "surrogate", br#"{"id":"\ud800"}"#);
        self.raw("surrogate2", code, "surrogate", br#"{"id":"\udc00\ud800"}"#);
        self.broken("bom", code, "byte order mark", |text| {
            format!("\u{feff}{text}")
        });
        self.raw("latin", code, "UTF-8", b"{\"id\":\"\xe9\"}");
        self.raw("nul", code, "control character", b"{\"id\":\"a\0b\"}");
        self.raw("nuls", code, "byte", &[0; 100]);
        self.broken("trailing", code, "after the document", |text| {
            format!("{text}{{}}")
        });
        self.broken("comma", code, "line 1", |text| text.replacen('}', ",}", 1));
        self.broken("array", code, "not an object", |text| format!("[{text}]"));
        self.raw("word", code, "not an object", b"null");
        self.raw("empty", code, "empty", b"");
        self.raw("blank", code, "empty", b" \n\t ");
        self.raw("brace", code, "too early", b"{");
        self.raw("number", code, "number", br#"{"id":01}"#);
        self.raw("infinite", code, "literal", br#"{"id":Infinity}"#);
        self.raw("comment", code, "line 1", br#"{/* */}"#);
        self.raw("escape", code, "escape", br#"{"id":"\x41"}"#);
    }

    pub(super) fn malformed_envelope(&mut self) {
        let code = Code::MalformedEnvelope;
        for field in [
            "id",
            "timestamp",
            "action",
            "payload",
            "source",
            "signature",
        ] {
            let key = format!(r#""{field}":"#);
            self.broken(&format!("no{field}"), code, field, |text| {
                text.replace(&key, &format!(r#""x{field}":"#))
            });
            self.broken(&format!("null{field}"), code, "", |text| {
                swap_value(text, field, "null")
            });
            self.broken(&format!("num{field}"), code, "", |text| {
                swap_value(text, field, "1e999")
            });
            self.broken(&format!("arr{field}"), code, "", |text| {
                swap_value(text, field, "[]")
            });
        }
        for (n, id) in [
            "../../x",
            "x.error",
            "x.decision",
            "",
            ".x",
            "a b",
            "a/b",
            "a|b",
            "\\u0000",
            "é",
            &"y".repeat(129),
        ]
        .iter()
        .enumerate()
        {
            self.broken(&format!("id{n}"), code, "request id", |text| {
                swap_value(text, "id", &format!("\"{id}\""))
            });
        }
        for (n, time) in [
            "2026-02-21 12:00:00Z",
            "2026-02-21T12:00:00+00:00",
            "2026-13-01T00:00:00Z",
            "now",
            "",
        ]
        .iter()
        .enumerate()
        {
            self.broken(&format!("time{n}"), code, "time", |text| {
                swap_value(text, "timestamp", &format!("\"{time}\""))
            });
        }
        self.broken("source", code, "principal", |text| {
            swap_value(text, "source", r#""../owner""#)
        });
        self.broken("act", code, "action", |text| {
            swap_value(text, "action", r#""order|submit""#)
        });
        self.broken("extra", code, "unknown field `/role`", |text| {
            text.replacen('{', r#"{"role":"human","#, 1)
        });
        let long = format!("\"{}\"", "a".repeat(50_000));
        self.broken("sig", code, "signature", |text| {
            swap_value(text, "signature", &long)
        });
        self.broken("key", code, "unknown field", |text| {
            text.replacen('{', &format!("{{\"{}\":1,", "k".repeat(50_000)), 1)
        });
    }

    pub(super) fn malformed_payload(&mut self) {
        let code = [Some(Code::MalformedPayload)];
        let entry = self.world.entry(self.agent, 1, "0.002").payload;
        let with = |from: &str, to: &str| {
            assert!(entry.contains(from), "{from} in {entry}");
            entry.replace(from, to)
        };
        for (n, (payload, field)) in [
            (with(r#""size":"0.002","#, ""), "size"),
            (with(r#""size":"0.002""#, r#""size":null"#), "/payload/size"),
            (
                with(r#""size":"0.002""#, r#""size":["0.002"]"#),
                "/payload/size",
            ),
            (
                with(r#""size":"0.002""#, r#""size":1e999"#),
                "/payload/size",
            ),
            (with(r#""size":"0.002""#, r#""size":1e-3"#), "/payload/size"),
            (
                with(r#""size":"0.002""#, r#""size":"+0.002""#),
                "/payload/size",
            ),
            (with(r#""size":"0.002""#, r#""size":"0""#), "size"),
            (with(r#""size":"0.002""#, r#""size":-1"#), "size"),
            (
                with(
                    r#""size":"0.002""#,
                    r#""size":9999999999999999999999999999999999"#,
                ),
                "/payload/size",
            ),
            (with(r#""side":"buy""#, r#""side":"BUY""#), "BUY"),
            (
                with(r#""side":"buy""#, r#""side":{"buy":null}"#),
                "expected one of",
            ),
            (
                with(
                    r#""order_type":"market""#,
                    r#""order_type":{"market":null}"#,
                ),
                "expected one of",
            ),
            (
                with(r#""stop_price":"6700""#, r#""stop_price":null"#),
                "/payload/stop_price",
            ),
            (
                with(r#""side":"buy""#, r#""side":"buy","override":true"#),
                "override",
            ),
            (with(r#""strategy":""#, r#""strategy":"../"#), "strategy"),
            (r#"{"order":{}}"#.to_owned(), "order"),
        ]
        .into_iter()
        .enumerate()
        {
            self.signed(&format!("bad{n}"), "order.submit", &payload, &code, field);
        }
        for (n, (action, payload, field)) in [
            ("portfolio.get", r#"{"all":true}"#, "all"),
            ("orders.list", r#"{"":null}"#, ""),
            ("fills.list", r#"{"since":"yesterday"}"#, "time"),
            ("market.get", r#"{"symbol":"BTC USD"}"#, "symbol"),
            ("halt.set", r#"{"reason":""}"#, "reason"),
            ("halt.set", r#"{"principal":null,"reason":"r"}"#, ""),
            (
                "order.cancel",
                r#"{"order_id":"o-01"}"#,
                "/payload/order_id",
            ),
            (
                "order.tighten_stop",
                r#"{"order_id":"o-1","new_stop":0}"#,
                "new_stop",
            ),
            (
                "keys.revoke",
                r#"{"key_id":"../../keyring","reason":"r"}"#,
                "key_id",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            self.signed(&format!("pay{n}"), action, payload, &code, field);
        }
        self.signed(
            "unknown",
            "rules.write",
            "{}",
            &[Some(Code::UnknownAction)],
            "rules.write",
        );
    }
}
