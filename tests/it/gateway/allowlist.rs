//! The allowlist of outgoing actions: what its file may contain, which service an action goes to,
//! every reason for which it goes nowhere, and that nothing runs then.

use crate::kit::gateway_home::{GOOD, GatewayHome, NOTED, SERVICES, exec, gateway};
use serde_json::{Value, json};
use spoolgate_gate::record::Status;
use spoolgate_outgoing::allowlist::destination;
use spoolgate_rules::gateway::ACTIONS;
use spoolgate_rules::services::{PATH, Services};
use spoolgate_wire::code::Code;
use spoolgate_wire::gateway::{GatewayCall, Method, ServiceApiCall};

/// Returns an entry with these members changed; null removes a member.
fn entry(changes: &Value) -> Value {
    let mut entry = json!({
        "service": "bank", "host": "api.bank.example", "protocol": "https", "methods": ["GET"],
        "added_at": "2026-01-01T00:00:00Z", "added_by": "owner", "is_active": true,
    });
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(entry.as_object_mut().unwrap().remove(key)),
            value => entry[key] = value.clone(),
        }
    }
    entry
}

fn read(entries: &[Value]) -> Result<Services, String> {
    let text = json!({"services": entries}).to_string();
    Services::read(PATH, &text).map_err(|error| error.to_string())
}

#[test]
fn entries_that_could_mean_more_than_they_say_are_refused() {
    let cases = [
        (json!({"host": "*.google.com"}), "is a wildcard"),
        (json!({"host": "*"}), "is a wildcard"),
        (json!({"host": ".google.com"}), "is a wildcard"),
        (json!({"host": "api.*.com"}), "is a wildcard"),
        (json!({"host": "https://bank.example"}), "a host alone"),
        (json!({"host": "bank.example/v1"}), "a host alone"),
        (json!({"host": "bank.example:443"}), "a host alone"),
        (json!({"host": "me@bank.example"}), "a host alone"),
        (json!({"host": "bank.example?x"}), "a host alone"),
        (json!({"host": "::1"}), "stands in brackets"),
        (json!({"host": ""}), "not one whole host name"),
        (json!({"host": "bank..example"}), "not one whole host name"),
        (json!({"host": "bank example"}), "not one whole host name"),
        (
            json!({"host": "b\u{430}nk.example"}),
            "not one whole host name",
        ),
        (
            json!({"host": "2130706433"}),
            "is the address 127.0.0.1 in another form",
        ),
        (
            json!({"host": "0x7f.1"}),
            "is the address 127.0.0.1 in another form",
        ),
        (
            json!({"host": "[::ffff:127.0.0.1]"}),
            "is the address 127.0.0.1 in another form",
        ),
        (json!({"host": "0.0.0.0"}), "the address of no single host"),
        (json!({"host": "[::]"}), "the address of no single host"),
        (
            json!({"host": "255.255.255.255"}),
            "the address of no single host",
        ),
        (
            json!({"host": "224.0.0.1"}),
            "the address of no single host",
        ),
        (json!({"port": 0}), "`port` is 0"),
        (json!({"port": 65536}), "65536"),
        (json!({"protocol": ""}), "`protocol` is 1 to 16"),
        (json!({"protocol": "HTTPS"}), "`protocol` is 1 to 16"),
        (json!({"protocol": "https://"}), "`protocol` is 1 to 16"),
        (
            json!({"methods": ["GET", "GET"]}),
            "method GET appears twice",
        ),
        (json!({"methods": ["get"]}), "get"),
        (json!({"methods": []}), "neither methods nor actions"),
        (json!({"methods": null}), "neither methods nor actions"),
        (
            json!({"actions": ["email.send", "email.send"]}),
            "`email.send` appears twice",
        ),
        (json!({"actions": ["service.api_call"]}), "is none of"),
        (json!({"actions": ["order.submit"]}), "is none of"),
        (json!({"added_by": null}), "added_by"),
        (json!({"added_at": null}), "added_at"),
        (json!({"is_active": null}), "is_active"),
        (json!({"domain": "bank.example"}), "domain"),
        (json!({"service": ""}), "service"),
        (json!({"service": "Bank"}), "service"),
    ];
    for (changes, expect) in cases {
        let told = read(&[entry(&changes)]).unwrap_err();
        assert!(
            told.starts_with("rules/services.yaml") && told.contains(expect),
            "{changes}: {told}"
        );
    }
    // Hosts that only look unusual.
    for (host, folded) in [
        ("API.Bank.Example", "api.bank.example"),
        ("api.bank.example.", "api.bank.example"),
        ("b\u{fc}cher.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
        ("localhost", "localhost"),
    ] {
        assert_eq!(
            read(&[entry(&json!({"host": host}))]).unwrap().services[0].host,
            folded,
            "{host}"
        );
    }
}

#[test]
fn entries_that_contradict_each_other_are_refused() {
    let other = |changes: Value| {
        let mut entry = entry(&json!({"service": "other", "host": "other.example"}));
        changes
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(key, value)| entry[key] = value.clone());
        entry
    };
    let mail = json!({"actions": ["email.send"]});
    let cases = [
        (
            json!({}),
            json!({"service": "bank"}),
            "service `bank` appears twice",
        ),
        (
            json!({}),
            json!({"host": "API.bank.example."}),
            "services `bank` and `other` are active with the same host",
        ),
        (
            json!({}),
            json!({"service": "api.bank.example"}),
            "the name of service `api.bank.example` is the host of",
        ),
        (
            mail.clone(),
            mail.clone(),
            "`email.send` goes to two active services, `bank` and `other`",
        ),
    ];
    for (one, changes, expect) in cases {
        let told = read(&[entry(&one), other(changes)]).unwrap_err();
        assert!(told.contains(expect), "{told}");
    }
    let fits = |changes: Value| read(&[entry(&mail), other(changes)]).map(drop);
    assert_eq!(
        fits(json!({"host": "api.bank.example", "port": 8443})),
        Ok(())
    );
    assert_eq!(
        fits(json!({"host": "api.bank.example", "is_active": false})),
        Ok(())
    );
    assert_eq!(
        fits(json!({"actions": ["email.send"], "is_active": false})),
        Ok(())
    );
    assert_eq!(
        Services::read(PATH, "services: []\n").unwrap(),
        Services::default()
    );
    assert!(Services::read(PATH, "services: []\ndefault: allow\n").is_err());
}

const NONE: &str = "rules/services.yaml has no such service";

#[test]
fn a_call_goes_to_a_whole_name_or_a_whole_host_or_nowhere() {
    let services = read(&[
        entry(&json!({"host": "bank.example"})),
        entry(&json!({"service": "old", "host": "old.example", "is_active": false})),
        entry(
            &json!({"service": "books", "host": "b\u{fc}cher.example", "methods": ["GET", "POST"]}),
        ),
        entry(&json!({"service": "one", "host": "two.example", "port": 1})),
        entry(&json!({"service": "two", "host": "two.example", "port": 2})),
        entry(&json!({"service": "gone", "host": "books.example", "is_active": false})),
        entry(&json!({"service": "back", "host": "books.example"})),
    ])
    .unwrap();
    let goes = |service: &str, method: &str| {
        let method = Method::ALL
            .into_iter()
            .find(|known| known.as_str() == method)
            .unwrap();
        let (service, endpoint) = (service.to_owned(), "/v1".to_owned());
        let call = GatewayCall::Call(ServiceApiCall {
            service,
            endpoint,
            method,
            headers: None,
            body: None,
        });
        destination(&services, "service.api_call", &call)
            .map(|service| service.service.to_string())
            .map_err(|why| why.to_string())
    };
    for (named, expect) in [
        ("bank", "bank"),
        ("bank.example", "bank"),
        ("BANK.Example", "bank"),
        ("bank.example.", "bank"),
        ("b\u{fc}cher.example", "books"),
        ("xn--bcher-kva.example", "books"),
        ("XN--BCHER-KVA.example", "books"),
        ("one", "one"),
        ("books.example", "back"),
    ] {
        assert_eq!(goes(named, "GET").as_deref(), Ok(expect), "{named}");
    }
    for stranger in [
        "",
        "Bank",
        "bank ",
        "evil-bank.example",
        "evilbank.example",
        "bank.example.evil.com",
        "api.bank.example",
        "bank.example..",
        ".bank.example",
        "*.example",
        "example",
        "b\u{430}nk.example",
        "xn--bnk-6cd.example",
        "bank\u{3002}example\u{200b}",
        "bank.example/",
        "bank.example:443",
        "https://bank.example",
        "me@bank.example",
        "buecher.example",
    ] {
        assert_eq!(goes(stranger, "GET").unwrap_err(), NONE, "{stranger:?}");
    }
    for (named, method, expect) in [
        ("old", "GET", "service `old` is not active"),
        ("old.example", "GET", "service `old` is not active"),
        ("gone", "GET", "service `gone` is not active"),
        ("bank", "POST", "service `bank` may not be called with POST"),
        (
            "bank.example",
            "DELETE",
            "service `bank` may not be called with DELETE",
        ),
        (
            "two.example",
            "GET",
            "services `one` and `two` have this host with different ports; name one of them in the \
                call",
        ),
    ] {
        assert_eq!(goes(named, method).unwrap_err(), expect, "{named} {method}");
    }
}

/// Sends requests under an allowlist, one after the other. Returns the reason of each refusal, and
/// `None` for a success. Checks that no adapter ran for a refused request.
fn through_the_gate(services: &str, requests: &[(&str, &str)]) -> Vec<Option<String>> {
    let home = GatewayHome::with(services, &gateway(&[exec(&ACTIONS, NOTED, 10)]));
    let mut gate = home.open();
    let mut reasons = Vec::new();
    for (n, (action, payload)) in requests.iter().enumerate() {
        home.place.pass_s(10);
        let (id, before) = (format!("r{n}"), home.ran().len());
        let answer = home.one(&mut gate, &id, action, payload);
        let line = home.decision(&id).unwrap();
        match &answer.error {
            None => {
                assert_eq!(home.ran().len(), before + 1, "{action}");
                reasons.push(None);
            }
            Some(error) => {
                assert_eq!(
                    (error.code, home.ran().len()),
                    (Code::NotAllowlisted, before),
                    "{action}: {error:?}"
                );
                assert_eq!(
                    (line.status, line.metadata.code),
                    (Status::Rejected, Some(Code::NotAllowlisted))
                );
                let row = line
                    .checks
                    .iter()
                    .find(|row| &*row.name == "allowlist")
                    .unwrap();
                assert!(!row.passed);
                let reason = row.reason.clone().unwrap().to_string();
                let told = line.metadata.message.clone().unwrap();
                assert!(
                    told.contains(&reason) && error.message.contains(&reason),
                    "{told}"
                );
                reasons.push(Some(reason));
            }
        }
    }
    let (refused, ran) = (reasons.iter().flatten().count(), home.ran().len());
    assert_eq!(
        (refused + ran, home.responses().len()),
        (requests.len(), ran)
    );
    reasons
}

fn call(service: &str, method: &str) -> String {
    json!({"service": service, "endpoint": "/v1", "method": method}).to_string()
}

#[test]
fn a_request_to_an_allowlisted_domain_passes() {
    let (name, host) = (call("bank", "GET"), call("api.bank.example", "POST"));
    let mut requests: Vec<(&str, &str)> = GOOD.to_vec();
    requests.extend([
        ("service.api_call", name.as_str()),
        ("service.api_call", &host),
    ]);
    assert_eq!(through_the_gate(SERVICES, &requests), vec![None; 11]);
}

#[test]
fn a_request_to_a_domain_that_is_not_allowlisted_is_rejected() {
    let (stranger, suffix) = (
        call("evil-bank.example", "GET"),
        call("api.bank.example.evil.com", "GET"),
    );
    let requests = [
        ("service.api_call", stranger.as_str()),
        ("service.api_call", &suffix),
    ];
    assert_eq!(
        through_the_gate(SERVICES, &requests),
        vec![Some(NONE.to_owned()); 2]
    );
    // Without an entry nothing is allowed.
    let reasons = through_the_gate("services: []\n", &GOOD);
    for ((action, _), reason) in GOOD.iter().zip(reasons) {
        let expect = match *action {
            "service.api_call" => NONE.to_owned(),
            action => {
                format!("no active service of rules/services.yaml has `{action}` among its actions")
            }
        };
        assert_eq!(reason, Some(expect));
    }
}

#[test]
fn a_deactivated_service_is_treated_as_not_allowed() {
    let inactive = SERVICES.replace("is_active: true", "is_active: false");
    let reasons = through_the_gate(&inactive, &[GOOD[1], GOOD[8]]);
    let mail = "no active service of rules/services.yaml has `email.send` among its actions";
    let expect = [mail, "service `bank` is not active"];
    assert_eq!(reasons, expect.map(|reason| Some(reason.to_owned())));
}

#[test]
fn a_method_that_is_not_listed_is_rejected() {
    let services = SERVICES.replace("[GET, POST, PUT, DELETE, PATCH]", "[GET]");
    let (get, delete) = (call("bank", "GET"), call("bank", "DELETE"));
    let reasons = through_the_gate(
        &services,
        &[("service.api_call", &get), ("service.api_call", &delete)],
    );
    assert_eq!(
        reasons,
        [
            None,
            Some("service `bank` may not be called with DELETE".to_owned())
        ]
    );
}
