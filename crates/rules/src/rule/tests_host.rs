//! Hosts, addresses and links as attackers write them.

use proptest::prelude::*;

use super::host::{address_of, domain_of, host_of, name_of};
use super::links::links_of;

#[test]
fn names() {
    for (text, expect) in [
        ("example.com", Some("example.com")),
        ("EXAMPLE.Com.", Some("example.com")),
        ("localhost", Some("localhost")),
        ("a_b.example.com", Some("a_b.example.com")),
        ("bücher.example", Some("xn--bcher-kva.example")),
        ("BÜCHER.example", Some("xn--bcher-kva.example")),
        ("xn--bcher-kva.example", Some("xn--bcher-kva.example")),
        ("XN--BCHER-KVA.example", Some("xn--bcher-kva.example")),
        ("bu\u{308}cher.example", Some("xn--bcher-kva.example")),
        ("例え.jp", Some("xn--r8jz45g.jp")),
        ("example。com", Some("example.com")),
        ("ｅｘａｍｐｌｅ.com", Some("example.com")),
        ("127.0.0.1", Some("127.0.0.1")),
        ("2130706433", Some("127.0.0.1")),
        ("0x7f000001", Some("127.0.0.1")),
        ("0x7f.1", Some("127.0.0.1")),
        ("017700000001", Some("127.0.0.1")),
        ("127.1", Some("127.0.0.1")),
        ("[::1]", Some("[::1]")),
        ("[0:0:0:0:0:0:0:1]", Some("[::1]")),
        ("[::ffff:127.0.0.1]", Some("127.0.0.1")),
        ("1.2.3.4.5", None),
        ("256.1.1.1", None),
        ("4294967296", None),
        ("1.2.3.08", None),
        ("0xg", Some("0xg")),
        ("[::1%eth0]", None),
        ("[::1", None),
        ("", None),
        (".", None),
        ("a..b", None),
        (".a.b", None),
        ("-a.b", None),
        ("a-.b", None),
        ("*.example.com", None),
        ("exa mple.com", None),
        ("example.com/", None),
        ("exam\u{200b}ple.com", None),
        ("exam\u{ad}ple.com", None),
        ("example\u{202e}.com", None),
        ("example.com\0", None),
        // Cyrillic letters among Latin ones, Cyrillic that reads as Latin, the same as punycode,
        // and letters that only resemble others.
        ("exаmple.com", None),
        ("аррӏе.com", None),
        ("xn--80ak6aa92e.com", None),
        ("gоogle.com", None),
        ("\u{261}oogle.com", None),
        ("pınterest.com", None),
        ("xn--a.com", None),
        ("good.com⁄evil.com", None),
        ("good.com%2eevil.com", None),
    ] {
        assert_eq!(name_of(text).as_deref(), expect, "{text:?}");
    }
    assert_eq!(name_of(&"a".repeat(64)), None);
    assert!(name_of(&"a".repeat(63)).is_some());
    let long = vec!["a".repeat(63); 4].join(".");
    assert_eq!(name_of(&long), None);
    assert!(name_of(&long[2..]).is_some_and(|name| name.len() == 253));
}

#[test]
fn hosts_of_urls() {
    for (text, expect) in [
        ("https://example.com", Some("example.com")),
        ("HTTPS://Example.COM:443/a?b#c", Some("example.com")),
        ("//example.com/a", Some("example.com")),
        ("example.com:8080/a", Some("example.com")),
        ("localhost:80", Some("localhost")),
        ("https://good.com@evil.com", Some("evil.com")),
        ("https://good.com:80@evil.com/", Some("evil.com")),
        ("https://evil.com#@good.com", Some("evil.com")),
        ("https://evil.com?@good.com", Some("evil.com")),
        ("ftp://user:pw@files.example:21/x", Some("files.example")),
        ("custom://evil.com/x", Some("evil.com")),
        ("https://a@b@evil.com", None),
        ("https://good.com\\@evil.com", None),
        ("https:\\\\evil.com", None),
        ("https:///evil.com", None),
        ("https:evil.com", None),
        ("https://evil.com:99999", None),
        ("https://evil.com:8o", None),
        ("https://%65vil.com", None),
        ("https://", None),
        ("https://good.com\n.evil.com", None),
        ("javascript:alert(1)", None),
        ("data:text/html,x", None),
        ("mailto:a@b.com", None),
        (" example.com", None),
    ] {
        assert_eq!(host_of(text).as_deref(), expect, "{text:?}");
    }
}

#[test]
fn addresses() {
    for (text, expect) in [
        ("a@b.com", Some("a@b.com")),
        ("First.Last+tag@Bank.COM", Some("first.last+tag@bank.com")),
        ("a@bücher.example", Some("a@xn--bcher-kva.example")),
        ("a@b.com.", Some("a@b.com")),
        ("\"good@bank.com\" <evil@x.com>", None),
        ("Good <a@b.com>", None),
        ("<a@b.com>", None),
        ("a@b.com, c@d.com", None),
        ("a@b.com,c@d.com", None),
        ("a@b.com;c@d.com", None),
        ("a@b.com c@d.com", None),
        ("a@b.com\nc@d.com", None),
        ("a@b.com(comment)", None),
        ("a(comment)@b.com", None),
        ("\"a b\"@b.com", None),
        ("a@b@c.com", None),
        ("a%evil.com@good.com", None),
        ("evil.com!a@good.com", None),
        ("mailto:a@b.com", None),
        ("a@[127.0.0.1]", None),
        ("a@127.0.0.1", None),
        ("а@b.com", None),
        ("a@bаnk.com", None),
        (".a@b.com", None),
        ("a.@b.com", None),
        ("a..b@c.com", None),
        ("@b.com", None),
        ("a@", None),
        ("a", None),
        ("", None),
        (" a@b.com", None),
        ("a@b.com\0", None),
        ("a@\u{200b}b.com", None),
        ("undisclosed-recipients:;", None),
    ] {
        assert_eq!(address_of(text).as_deref(), expect, "{text:?}");
        if !text.contains(':') {
            let domain = expect
                .and_then(|address| address.split_once('@'))
                .map(|(_, host)| host);
            assert_eq!(
                domain_of(text).as_deref().filter(|_| text.contains('@')),
                domain,
                "{text:?}"
            );
        }
    }
    assert_eq!(domain_of("https://a@b.com/c").as_deref(), Some("b.com"));
    assert_eq!(domain_of("b.com").as_deref(), Some("b.com"));
}

/// Texts with the hosts of their links; `?` is a host that cannot be determined.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn links() {
    for (text, expect) in [
        ("nothing here", ""),
        (
            "a price of 3.14, e.g. at 12:30, see main.rs and report.pdf",
            "",
        ),
        ("see https://good.com.", "good.com"),
        (
            "see https://good.com, or http://Evil.com!",
            "good.com evil.com",
        ),
        ("(https://good.com)", "good.com"),
        (
            "[x](https://good.com), [y](https://evil.com/a)",
            "good.com evil.com",
        ),
        ("[good.com](https://evil.com)", "good.com evil.com"),
        ("![](//evil.com/pixel?d=secret)", "evil.com"),
        (
            "<a href=\"https://evil.com\">https://good.com</a>",
            "evil.com good.com",
        ),
        ("<a href='//evil.com/x'>", "evil.com"),
        ("<a href=//evil.com>", "evil.com"),
        ("<img src=\"/\\evil.com/x\">", "evil.com"),
        ("<a href=\"\\\\evil.com/x\">", "evil.com"),
        ("<a href=\"//intranet\">", "intranet"),
        ("**https://good.com**", "good.com"),
        ("HTTP://EVIL.COM", "evil.com"),
        ("www.evil.com", "evil.com|www"),
        ("see WWW.Evil.com/x", "evil.com|www"),
        ("evil.com", "evil.com"),
        ("visit evil.com/login now", "evil.com"),
        ("visit evil.zip/login now", "evil.zip"),
        ("visit evil.zip:8080 now", "evil.zip"),
        ("bücher.example/x", "xn--bcher-kva.example|skip"),
        ("http:evil.com", "evil.com"),
        ("http:/evil.com", "evil.com"),
        ("http:\\\\evil.com", "evil.com"),
        ("https:////evil.com", "evil.com"),
        ("https://good.com@evil.com", "evil.com"),
        ("https://good.com:80@evil.com", "evil.com"),
        ("https://good.com\\@evil.com", "?"),
        ("https://good.com\\.evil.com", "?"),
        ("https://good.com,.evil.com/x", "?"),
        ("https://good.com;.evil.com", "?"),
        ("https://good.com&sol;.evil.com", "? good.com"),
        ("https://%65vil.com", "?"),
        ("https://evil.com:80", "evil.com"),
        ("https://evil.com.", "evil.com"),
        ("https://evil。com", "evil.com"),
        ("https：//evil.com", "evil.com"),
        ("ｗｗｗ.evil.com", "evil.com|www"),
        ("https://gо\u{200B}od.com", "?"),
        ("https://go\u{200b}od.com", "?"),
        ("https://аррӏе.com", "?"),
        ("https://2130706433/", "127.0.0.1"),
        ("https://0x7f.1/", "127.0.0.1"),
        ("https://[::1]:80/", "[::1]"),
        ("https://[::ffff:1.2.3.4]/", "1.2.3.4"),
        ("javascript:alert(1)", "?"),
        ("JaVa\tScRiPt:alert(1)", "?"),
        ("vbscript:x", "?"),
        ("data:text/html,<script>", "?"),
        ("the data: 5, and more", ""),
        ("file:///etc/passwd", "?"),
        ("\\\\evil.com\\share", "?"),
        ("ftp://evil.com/x", "evil.com"),
        ("intent://evil.com/x", "evil.com"),
        ("view-source:https://evil.com", "evil.com"),
        (
            "https://good.com/?next=https://evil.com",
            "good.com evil.com",
        ),
        ("mailto:x@evil.com", "evil.com"),
        ("mailto:x@evil.com,y@b.com", "?"),
        ("write to x@evil.com", ""),
        ("&#104;ttps://evil.com", "evil.com|twice"),
        ("https&#58;//evil.com", "evil.com|twice"),
        ("https&colon;&sol;&sol;evil.com", "evil.com|twice"),
        ("<a href=\"https://good.com\n.evil.com\">", "?"),
        ("<a href=\"https://\ngood.com\">", "good.com"),
        ("<a href=\"ht\ntps://evil.com\">", "evil.com"),
        ("https://good.com\nRegards", "good.com"),
        ("// a comment\n//TODO: more\na // b", ""),
        ("C:\\Users\\x", ""),
        ("https://a@b@evil.com", "?"),
        ("https://\u{202e}moc.live", "?"),
        ("http:\0//evil.com", "evil.com"),
        ("https://xn--80ak6aa92e.com", "?"),
        ("https://evil.com#@good.com", "evil.com"),
        ("https://", ""),
    ] {
        let found = links_of(text);
        let mut shown: Vec<&str> = found
            .iter()
            .map(|host| host.as_deref().unwrap_or("?"))
            .collect();
        shown.sort_unstable();
        shown.dedup();
        let (expect, how) = expect.split_once('|').unwrap_or((expect, ""));
        let mut wanted: Vec<String> = expect.split_whitespace().map(str::to_owned).collect();
        if how == "www" {
            wanted = vec![format!("www.{expect}")];
        }
        if how == "skip" {
            assert!(shown.is_empty() || shown == wanted, "{text:?}: {shown:?}");
            continue;
        }
        wanted.sort_unstable();
        assert_eq!(shown, wanted, "{text:?}");
    }
}

/// Ways to write a link to a host that is on no list.
const DISGUISES: [&str; 14] = [
    "https://evil.test/x",
    "HTTP://EVIL.TEST",
    "//evil.test/a",
    "www.evil.test",
    "https://good.com@evil.test",
    "https:evil.test",
    "http:/\\evil.test",
    "https&#58;//evil.test",
    "https://evil。test",
    "[a](https://evil.test)",
    "<a href=\"//evil.test\">",
    "https://evil.test:8443/",
    "https://good.com,.evil.test",
    "ｈttps://evil.test",
];

proptest! {
    #[test]
    fn never_panics_and_what_is_a_name_is_one_of_its_own_form(text in "\\PC{0,60}") {
        for found in [name_of(&text), host_of(&text), domain_of(&text)].into_iter().flatten() {
            let again = name_of(&found);
            prop_assert_eq!(again.as_deref(), Some(found.as_ref()));
            prop_assert!(found.is_ascii());
        }
        if let Some(address) = address_of(&text) {
            prop_assert_eq!(address_of(&address), Some(address));
        }
        for host in links_of(&text).into_iter().flatten() {
            let again = name_of(&host);
            prop_assert_eq!(again.as_deref(), Some(host.as_ref()));
        }
    }

    #[test]
    fn a_foreign_link_never_hides(
        before in "([a-z ,.(\\[<>\"'\n:/\\\\&;0-9éж。]|https://good\\.com ){0,12}",
        which in 0..DISGUISES.len(),
        after in "([ ,.)\\]<>\"'\n!?]|https://good\\.com){0,6}",
    ) {
        let text = format!("{before} {} {after}", DISGUISES[which]);
        let is_foreign = |host: &Option<_>| host.as_deref() != Some("good.com");
        prop_assert!(links_of(&text).iter().any(is_foreign), "{text:?}: {:?}", links_of(&text));
    }
}

#[test]
fn texts_made_to_be_slow_are_scanned_in_linear_time() {
    // A search that rescans the text for every letter would not finish 256 KiB in reasonable time.
    for part in [
        "://",
        "http:",
        "www.",
        "a.com/",
        "//a",
        "&#58;",
        "a.",
        "(https://",
        "javascript",
        "&",
        "mailto:a",
    ] {
        let text = part.repeat(256 * 1024 / part.len());
        links_of(&text);
    }
}
