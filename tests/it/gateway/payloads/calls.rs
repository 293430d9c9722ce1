//! Endpoints, methods and headers of calls to a service.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn endpoints_stay_below_their_host() {
    const BEGINS: &str = "must be a path that begins with `/`: the host is in rules/services.yaml";
    const PATH: &str = "must be a path of characters that RFC 3986 permits; percent-encode others";
    const QUERY: &str =
        "must have a query of characters that RFC 3986 permits; percent-encode others";
    const ENCODED: &str =
        "must not hold an encoded slash, backslash, `%` or control character in its path";
    const DOTS: &str = "must not hold `.` or `..` as a segment, encoded or not";
    const OVERLONG: &str = "must not hold an ASCII character in a longer form of UTF-8 in its path";
    const TWO: &str = "must not hold `//` in its path";
    const PERCENT: &str = "has a `%` that two hex digits do not follow";
    let call = schema("service.api_call");
    for endpoint in [
        "/",
        "/v1",
        "/v1/",
        "/v1/a.b/..c/c../...",
        "/a%20b",
        "/a;v=1/b",
        "/@evil.example",
        "/a:b@c",
        "/?",
        "/?a=/../b",
        "/v1?next=https://x.example/%2F..%5C&f[a]=b",
        "/~a/!$&'()*+,;=",
        "/%E2%82%AC",
        "/%e9t%c3%a9/%f0%9f%98%80",
        "/a%3Bv=1/..a%3b",
        "/v1?a=%c0%ae",
    ] {
        assert!(
            read(call, "endpoint", &quoted(endpoint)).is_ok(),
            "{endpoint}"
        );
    }
    for (endpoint, why) in [
        ("", BEGINS),
        ("v1", BEGINS),
        ("hunter2", BEGINS),
        ("https://evil.example/", BEGINS),
        ("HTTP://evil.example", BEGINS),
        ("file:///etc/passwd", BEGINS),
        ("javascript:alert(1)", BEGINS),
        ("?a=b", BEGINS),
        ("@evil.example/", BEGINS),
        (":8080/", BEGINS),
        (".evil.example/", BEGINS),
        (" /v1", BEGINS),
        ("\\evil.example", BEGINS),
        ("//evil.example/v1", TWO),
        ("///evil.example", TWO),
        ("/v1//admin", TWO),
        ("/v1/hunter2//", TWO),
        ("/\\evil.example", PATH),
        ("/v1\\..\\admin", PATH),
        ("/v1 hunter2", PATH),
        ("/v1\t", PATH),
        ("/v1\r\nHost: evil.example", PATH),
        ("/v1\u{0}", PATH),
        ("/v1#hunter2", PATH),
        ("/v1?a#b", QUERY),
        ("/v1?a b", QUERY),
        ("/v1?a\r\nX: y", QUERY),
        ("/v1?\\", QUERY),
        ("/bücher", PATH),
        ("/v1\u{ff0f}admin", PATH),
        ("/v1/\u{2024}\u{2024}/admin", PATH),
        ("/<script>", PATH),
        ("/v1/../admin", DOTS),
        ("/..", DOTS),
        ("/.", DOTS),
        ("/./v1", DOTS),
        ("/v1/%2e%2e/admin", DOTS),
        ("/v1/.%2E", DOTS),
        ("/%2e", DOTS),
        ("/v1/..;a=b/admin", DOTS),
        ("/v1/%2e.;/admin", DOTS),
        ("/;/v1", DOTS),
        ("/v1/..%3Ba=b/admin", DOTS),
        ("/v1/%2e%2e%3b/admin", DOTS),
        ("/%3b/v1", DOTS),
        ("/v1%2fadmin", ENCODED),
        ("/v1%5Cadmin", ENCODED),
        ("/v1/%252e%252e/admin", ENCODED),
        ("/v1%0d%0aHost:x", ENCODED),
        ("/v1%7f", ENCODED),
        ("/v1/%c0%ae%c0%ae/admin", OVERLONG),
        ("/v1%C1%9Cadmin", OVERLONG),
        ("/v1%e0%80%afadmin", OVERLONG),
        ("/v1%f0%80%80%af", OVERLONG),
        ("/v1%00", "must not hold an encoded NUL"),
        ("/v1?a=%00", "must not hold an encoded NUL"),
        ("/v1%", PERCENT),
        ("/v1%2", PERCENT),
        ("/v1%zz", PERCENT),
        ("/v1?%+1", PERCENT),
    ] {
        assert_eq!(
            read(call, "endpoint", &quoted(endpoint)).unwrap_err(),
            format!("`endpoint` {why}"),
            "{endpoint:?}"
        );
    }
}

#[test]
fn methods_are_the_five() {
    let call = schema("service.api_call");
    for method in ["GET", "POST", "PUT", "DELETE", "PATCH"] {
        assert!(read(call, "method", &quoted(method)).is_ok());
    }
    for method in [
        "", "get", "Get", " GET", "GET ", "HEAD", "OPTIONS", "TRACE", "CONNECT", "GET /x", VALUE,
    ] {
        let why = read(call, "method", &quoted(method)).unwrap_err();
        assert_eq!(
            why, "`method` must be GET, POST, PUT, DELETE or PATCH",
            "{method}"
        );
    }
}

#[test]
fn headers_neither_move_a_call_nor_make_it_another() {
    let many = |count: usize| {
        (0..count)
            .map(|nth| (format!("X-{nth}"), json!("")))
            .collect::<Map<_, _>>()
            .into()
    };
    assert_eq!(headers(json!({})), Ok(()));
    assert_eq!(headers(many(HEADERS_MAX - 1)), Ok(()));
    assert_eq!(headers(many(HEADERS_MAX)), Ok(()));
    assert_eq!(
        headers(many(HEADERS_MAX + 1)),
        Err("`headers` has 65 members; at most 64 are accepted".to_owned())
    );
    assert_eq!(
        headers(json!({"Accept": "a/b; q=0.5", "X_y!#$%&'*+.^`|~-": ""})),
        Ok(())
    );
    for name in [
        "Host",
        "host",
        "HOST",
        "Connection",
        "Content-Length",
        "content_length",
        "Transfer-Encoding",
        "Upgrade",
        "TE",
        "Trailer",
        "Expect",
        "Keep-Alive",
        "HTTP2-Settings",
        "Proxy-Authorization",
        "proxy_connection",
        "Forwarded",
        "X-Forwarded-Host",
        "X_Forwarded_For",
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Host",
        "Via",
        "X-Real-IP",
    ] {
        let why = format!(
            "`headers` must not have `{name}`: the adapter decides where a call goes and how"
        );
        assert_eq!(headers(json!({ name: VALUE })), Err(why));
    }
    let no_token = "`headers` has a name that is not a token of RFC 9110 of 1 to 256 bytes";
    for name in [
        "",
        " ",
        "X A",
        "X:",
        ":path",
        ":authority",
        "X\r\nHost",
        "X\u{0}",
        "X(",
        "X/Y",
        "\"X\"",
        "Ä",
        "X-hunter2=",
        &"x".repeat(257),
    ] {
        assert_eq!(
            headers(json!({ name: "v" })),
            Err(no_token.to_owned()),
            "{name:?}"
        );
    }
    assert_eq!(headers(json!({ "x".repeat(256): "v" })), Ok(()));
}

#[test]
fn a_header_comes_once_with_a_text_that_can_be_seen() {
    for (one, other) in [("X-A", "x-a"), ("X-A", "X_A"), ("accept", "ACCEPT")] {
        let why = headers(json!({one: "1", other: "2"})).unwrap_err();
        assert!(
            why.starts_with(
                "`headers` has \
                `"
            ) && why.ends_with(
                "` twice: case and `_` do not \
                count"
            ),
            "{why}"
        );
    }
    for value in [
        json!(null),
        json!(7),
        json!(["a"]),
        json!({"a": "b"}),
        json!(true),
    ] {
        assert_eq!(
            headers(json!({ "X-A": value })),
            Err("header `X-A` must be a text".to_owned())
        );
    }
    let visible = "header `X-A` must be visible ASCII and spaces, without spaces at its ends";
    for value in HIDDEN
        .map(|hidden| format!("a{hidden}b"))
        .iter()
        .map(String::as_str)
        .chain([" a", "a ", "é", "\u{ff1a}"])
    {
        assert_eq!(
            headers(json!({ "X-A": value })),
            Err(visible.to_owned()),
            "{value:?}"
        );
    }
}
