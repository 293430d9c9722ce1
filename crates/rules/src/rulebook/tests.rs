//! Tests of how the files of a rulebook are read together.

use super::*;
use crate::instruments::{Imitate, Silent};
use spoolgate_wire::time::Time;

fn with_principal(line: &str) -> Result<Rulebook, String> {
    let principals = format!("principals:\n  - name: somebody\n    {line}\n");
    let safety = include_str!("../../../../rules/safety.yaml").to_owned();
    let files = [
        ("rules/safety.yaml".to_owned(), safety),
        ("rules/principals.yaml".to_owned(), principals),
    ];
    Rulebook::compile(&Bundle {
        files: files.into(),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn who_may_speak_for_a_council_role() {
    let book = with_principal("role: agent\n    council_roles: [r.o., Compliance]").unwrap();
    let rule = book.principals.values().next().unwrap();
    assert_eq!(rule.council_roles, ["Risk Officer", "Compliance"]);
    for (spelling, may) in [
        ("Risk Officer", true),
        ("RO", true),
        ("risk_officer", true),
        ("compliance!", true),
        ("Code Auditor", false),
        ("Risk Officers", false),
        ("", false),
        ("\u{200b}", false),
    ] {
        assert_eq!(
            book.roles.may_speak_for(rule, spelling),
            may,
            "{spelling:?}"
        );
    }
    for (line, expect) in [
        (
            "role: feed\n    council_roles: [RO]",
            "a feed speaks for no council role",
        ),
        (
            "role: bridge\n    council_roles: [RO]",
            "a bridge speaks for no council role",
        ),
        (
            "role: bridge\n    admission: {domains: [{tenant: t, surface: s, profile: p}]}",
            "a bridge has no tasks",
        ),
        (
            "role: feed\n    admission: {domains: [{tenant: t, surface: s, profile: p}]}",
            "a feed has no tasks",
        ),
        (
            "role: human\n    council_roles: [RO, Risk Officer]",
            "`Risk Officer` appears twice",
        ),
        (
            "role: human\n    council_roles: [Chair, chair]",
            "`chair` appears twice",
        ),
        (
            "role: human\n    council_roles: [\"--\"]",
            "is not the name of a role",
        ),
        (
            "role: human\n    council_roles: [\"a\\u202eb\"]",
            "is not the name of a role",
        ),
    ] {
        let error = with_principal(line).unwrap_err();
        assert!(
            error.starts_with("rules/principals.yaml: principal `somebody`:"),
            "{error}"
        );
        assert!(error.contains(expect), "{line}: {error}");
    }
    assert!(with_principal("role: feed\n    council_roles: []").is_ok());
}

#[test]
fn adapters_name_existing_services() {
    let compile = |service: &str| {
        let adapter =
            format!("adapters: [{{actions: [email.send], services: [{service}], adapter: stub}}]");
        let services = "services: [{service: mail, host: smtp.example.com, protocol: smtp, \
            added_at: 2026-01-01T00:00:00Z, added_by: owner, actions: [email.send], \
            is_active: false}]";
        let safety = include_str!("../../../../rules/safety.yaml").to_owned();
        let files = [
            ("safety", safety),
            ("gateway", adapter),
            ("services", services.to_owned()),
        ];
        let files = files.map(|(name, text)| (format!("rules/{name}.yaml"), text));
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .map_err(|error| error.to_string())
    };
    assert!(compile("mail").is_ok());
    let error = compile("post").unwrap_err();
    assert_eq!(
        error,
        "rules/gateway.yaml: `services` names `post`, which is not in rules/services.yaml"
    );
}

/// Compiles the shipped instrument and limits with more lines.
fn with_currencies(instrument: &str, safety: &str) -> Result<Rulebook, String> {
    let shipped = (
        include_str!("../../../../rules/instruments.yaml"),
        include_str!("../../../../rules/safety.yaml"),
    );
    let kept = shipped
        .1
        .lines()
        .filter(|line| !line.starts_with("currency:"));
    let files = [
        ("instruments", format!("{}{instrument}", shipped.0)),
        (
            "safety",
            format!("{}\n{safety}", kept.collect::<Vec<_>>().join("\n")),
        ),
    ];
    let files = files.map(|(name, text)| (format!("rules/{name}.yaml"), text));
    Rulebook::compile(&Bundle {
        files: files.into(),
    })
    .map_err(|error| error.to_string())
}

#[test]
fn every_price_is_in_the_currency_of_the_account() {
    for (instrument, safety, currency) in [
        ("", "", "USD"),
        ("    quote: USD\n", "", "USD"),
        ("    base: BTC\n    quote: USD\n", "currency: USD\n", "USD"),
        (
            "    base: USD\n    quote: USDT\n",
            "currency: USDT\n",
            "USDT",
        ),
        ("    base: BTC\n", "currency: EUR\n", "EUR"),
    ] {
        let book = with_currencies(instrument, safety).unwrap();
        assert_eq!(book.safety.currency.as_str(), currency);
    }
    for (instrument, safety, expect) in [
        (
            "    quote: USDT\n",
            "",
            "`quote` is USDT, and the account is in USD",
        ),
        (
            "    quote: USD\n",
            "currency: EUR\n",
            "`quote` is USD, and the account is in EUR",
        ),
        ("    quote: usd\n", "", "`quote` is usd"),
        (
            "    base: USD\n",
            "",
            "`base` is USD, the currency of the account",
        ),
        ("    quote:\n", "", "rules/instruments.yaml"),
        ("    base: \"\"\n", "", "is not a currency"),
        ("", "currency: US DOLLAR\n", "is not a currency"),
        ("", "currency:\n", "rules/safety.yaml"),
    ] {
        let error = with_currencies(instrument, safety).unwrap_err();
        assert!(error.contains(expect), "{instrument}{safety}: {error}");
    }
}

#[test]
fn who_may_be_the_bridge_of_an_instrument() {
    let compile = |instrument: &str, role: &str| {
        let instruments = format!(
            "{}{instrument}",
            include_str!("../../../../rules/instruments.yaml")
        );
        let principals = format!("principals:\n  - {{name: exchange, role: {role}}}\n");
        let safety = include_str!("../../../../rules/safety.yaml").to_owned();
        let files = [
            ("safety", safety),
            ("principals", principals),
            ("instruments", instruments),
        ];
        let files = files.map(|(name, text)| (format!("rules/{name}.yaml"), text));
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .map_err(|error| error.to_string())
    };
    let book = compile("    venue: outbox\n    bridge: exchange\n", "bridge").unwrap();
    assert_eq!(
        book.instruments.values().next().unwrap().venue,
        Venue::Outbox
    );
    let book = compile("    venue: paper\n", "bridge").unwrap();
    assert_eq!(
        book.instruments.values().next().unwrap().venue,
        Venue::Paper
    );
    for (instrument, role, expect) in [
        (
            "    venue: outbox\n",
            "bridge",
            "needs `bridge`, a principal of role bridge",
        ),
        (
            "    bridge: exchange\n",
            "bridge",
            "`bridge` belongs to `venue: outbox`",
        ),
        (
            "    venue: outbox\n    bridge: exchange\n",
            "feed",
            "not a principal with `role: bridge`",
        ),
        (
            "    venue: outbox\n    bridge: nobody\n",
            "bridge",
            "not a principal with `role: bridge`",
        ),
        (
            "    venue: outbox\n    bridge: null\n",
            "bridge",
            "rules/instruments.yaml",
        ),
        (
            "    venue: exchange\n",
            "bridge",
            "unknown variant `exchange`",
        ),
    ] {
        let error = compile(instrument, role).unwrap_err();
        assert!(
            error.starts_with("rules/instruments.yaml") && error.contains(expect),
            "{error}"
        );
    }
}

fn with_instrument(more: &str, principal: &str) -> Result<Rulebook, String> {
    let instruments = include_str!("../../../../rules/instruments.yaml");
    let files = [
        (
            "safety",
            include_str!("../../../../rules/safety.yaml").to_owned(),
        ),
        ("principals", format!("principals:\n  - {principal}\n")),
        ("instruments", format!("{instruments}{more}")),
    ];
    let files = files.map(|(name, text)| (format!("rules/{name}.yaml"), text));
    let files = files.into();
    Rulebook::compile(&Bundle { files }).map_err(|error| error.to_string())
}

#[test]
fn an_imitated_venue_has_defaults_and_no_bridge() {
    let agent = "{name: imitated, role: agent}";
    let imitate = |more: &str| {
        let book = with_instrument(&format!("    venue: imitated\n{more}"), agent).unwrap();
        let instrument = book.instruments.values().next().unwrap();
        assert_eq!(instrument.venue, Venue::Imitated);
        assert_eq!(instrument.bridge.as_ref().unwrap().as_str(), IMITATED);
        instrument.imitate.clone().unwrap_or_default()
    };
    let usual = imitate("");
    assert_eq!(
        (
            *usual.latency_s,
            usual.reserves,
            usual.base_fee,
            usual.reject_every
        ),
        (1, true, true, 0)
    );
    assert_eq!(usual.silent, []);
    assert_eq!(imitate("    imitate: {}\n"), usual);
    let all = "    imitate: {latency_s: 3600, reserves: false, base_fee: false, reject_every: 3,\n      \
        silent: [{from: 2026-02-21T12:00:00Z, until: 2026-02-21T12:00:10Z}]}\n";
    let set = imitate(all);
    assert_eq!(
        (*set.latency_s, set.reserves, set.base_fee),
        (3600, false, false)
    );
    assert_eq!((set.reject_every, set.silent.len()), (3, 1));
}

#[test]
fn an_imitated_venue_is_refused_where_it_is_not_whole() {
    let bridge = "{name: exchange, role: bridge}";
    let at = "    venue: imitated\n";
    for (more, expect) in [
        (
            "    imitate: {}\n".to_owned(),
            "`imitate` belongs to `venue: imitated`",
        ),
        (
            "    venue: outbox\n    bridge: exchange\n    imitate: {}\n".to_owned(),
            "`imitate` belongs to `venue: imitated`",
        ),
        (
            format!("{at}    bridge: exchange\n"),
            "`bridge` belongs to `venue: outbox`",
        ),
        (
            format!("{at}    imitate: {{latency: 1}}\n"),
            "unknown field `latency`",
        ),
        (format!("{at}    imitate: {{latency_s: 3601}}\n"), "3600"),
        (format!("{at}    imitate: null\n"), "rules/instruments.yaml"),
        (
            format!(
                "{at}    imitate: {{silent: [{{from: 2026-02-21T12:00:00Z, until: \
                    2026-02-21T12:00:00Z}}]}}\n"
            ),
            "`from` before `until`",
        ),
        (
            format!("{at}    imitate: {{silent: [{{from: 2026-02-21T12:00:00Z}}]}}\n"),
            "until",
        ),
    ] {
        let error = with_instrument(&more, bridge).unwrap_err();
        assert!(
            error.starts_with("rules/instruments.yaml") && error.contains(expect),
            "{error}"
        );
    }
    let error = with_instrument("", "{name: imitated, role: bridge}").unwrap_err();
    assert!(
        error.contains("no bridge may be named `imitated`"),
        "{error}"
    );
}

#[test]
fn an_instruction_reaches_the_imitated_exchange_after_its_latency_and_not_in_a_silence() {
    let at = |second: &str| Time::parse(&format!("2026-02-21T12:00:{second}Z")).unwrap();
    let silent = |from: &str, until: &str| Silent {
        from: at(from),
        until: at(until),
    };
    let imitate = Imitate {
        silent: vec![silent("20", "30"), silent("10", "20")],
        ..Imitate::default()
    };
    for (given, arrives) in [
        ("08.999", "09.999"),
        ("09", "30"),
        ("28.999", "30"),
        ("29", "30"),
        ("29.001", "30.001"),
    ] {
        assert_eq!(imitate.arrives(at(given)), at(arrives), "{given}");
    }
    for (time, is_silent) in [
        ("09.999", false),
        ("10", true),
        ("29.999", true),
        ("30", false),
    ] {
        assert_eq!(imitate.silence_at(at(time)).is_some(), is_silent, "{time}");
    }
}

#[test]
fn a_home_without_a_council_of_its_own_has_the_shipped_one() {
    let safety = include_str!("../../../../rules/safety.yaml").to_owned();
    let own = roles::SHIPPED.replacen("confidence_floor: 0.6", "confidence_floor: 0.7", 1);
    let mut files = BTreeMap::from([("rules/safety.yaml".to_owned(), safety)]);
    let floor = |files: &BTreeMap<String, String>| {
        Rulebook::compile(&Bundle {
            files: files.clone(),
        })
        .map(|book| book.roles.confidence_floor.to_string())
    };
    assert_eq!(floor(&files).unwrap(), "0.6");
    files.insert(roles::PATH.to_owned(), own);
    assert_eq!(floor(&files).unwrap(), "0.7");
    files.insert(roles::PATH.to_owned(), "roles: []".to_owned());
    assert_eq!(floor(&files).unwrap_err().file, roles::PATH);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_concern_has_one_active_strategy_and_controllers_name_existing_concerns() {
    const REST: &str = "instruments: []\ndirections: [long]\nstop_distance: {min: 0.001, max: \
        0.1}\naccount: acc\nmarket: m\n";
    let compile = |a: &str, b: &str, principal: &str, safety: &str| {
        let text = |name: &str, own: &str| match own.contains("account") {
            true => format!(
                "name: {name}\n{own}\n{}",
                REST.split("account").next().unwrap_or_default()
            ),
            false => format!("name: {name}\n{own}\n{REST}"),
        };
        let safety = format!(
            "{}\n{safety}\n",
            include_str!("../../../../rules/safety.yaml")
                .split("\nreduced_risk_factor")
                .next()
                .unwrap()
        );
        let principals = format!("principals:\n  - {{name: hermes, role: {principal}}}\n");
        let files = [
            ("rules/safety.yaml".to_owned(), safety),
            ("rules/principals.yaml".to_owned(), principals),
            ("rules/strategies/a.yaml".to_owned(), text("a", a)),
            ("rules/strategies/b.yaml".to_owned(), text("b", b)),
        ];
        Rulebook::compile(&Bundle {
            files: files.into(),
        })
        .map_err(|error| error.to_string())
    };
    let good = compile(
        "status: active",
        "status: standby",
        "agent, control: {concerns: [\"acc:m\"]}",
        "",
    )
    .unwrap();
    assert_eq!(good.safety.reduced_risk_factor.to_string(), "0.5");
    assert!(good.safety.control_confidence_min.is_zero());
    for (a, b, principal, safety, expect) in [
        (
            "status: active",
            "status: active",
            "agent",
            "",
            "`a` is active on `acc:m` too",
        ),
        (
            "status: active",
            "status: standby\nstrategy_id: a",
            "agent",
            "",
            "strategy_id `a` is that of `a` too",
        ),
        (
            "status: active\naccount: acc",
            "status: standby",
            "agent",
            "",
            "give both or none",
        ),
        (
            "status: active\nrisk_mode: lax",
            "status: standby",
            "agent",
            "",
            "unknown variant `lax`",
        ),
        (
            "status: active\ndegraded: ' '",
            "status: standby",
            "agent",
            "",
            "`degraded` gives a reason",
        ),
        (
            "status: idle",
            "status: standby",
            "agent",
            "",
            "unknown variant `idle`",
        ),
        (
            "status: active",
            "status: standby",
            "agent, control: {concerns: [\"acc:n\"]}",
            "",
            "concern `acc:n` is that of no",
        ),
        (
            "status: active",
            "status: standby",
            "feed, control: {concerns: [\"acc:m\"]}",
            "",
            "a feed decides on no concern",
        ),
        (
            "status: active",
            "status: standby",
            "agent, control: {concern: []}",
            "",
            "unknown field `concern`",
        ),
        (
            "status: active",
            "status: standby",
            "agent",
            "reduced_risk_factor: 0",
            "reduced_risk_factor` is `0`",
        ),
        (
            "status: active",
            "status: standby",
            "agent",
            "reduced_risk_factor: 1",
            "reduced_risk_factor` is `1`",
        ),
        (
            "status: active",
            "status: standby",
            "agent",
            "control_confidence_min: 1.1",
            "control_confidence_min` is `1.1`",
        ),
        (
            "status: active",
            "status: standby",
            "agent",
            "control_confidence_min: -0.1",
            "control_confidence_min` is `-0.1`",
        ),
    ] {
        let error = compile(a, b, principal, safety).map(|_| ()).unwrap_err();
        assert!(error.contains(expect), "{error} for {expect}");
    }
}

#[test]
fn exits_may_be_a_day_old_and_no_older() {
    let shipped = include_str!("../../../../rules/safety.yaml");
    for (age, refused) in [
        ("0", false),
        ("86400", false),
        ("86401", true),
        ("4294967295", true),
    ] {
        let text = shipped.replace("exit_age_max_s: 86400", &format!("exit_age_max_s: {age}"));
        let bundle = Bundle {
            files: BTreeMap::from([("rules/safety.yaml".to_owned(), text)]),
        };
        let result = Rulebook::compile(&bundle).map_err(|error| error.to_string());
        assert_eq!(result.is_err(), refused, "{age}: {result:?}");
        assert!(
            result
                .err()
                .is_none_or(|error| error.contains("`exit_age_max_s`")),
            "{age}"
        );
    }
}

#[test]
fn at_most_sixteen_users_may_use_the_socket() {
    let file = |count: usize| {
        let rows = (0..count).map(|n| {
            // Two principals of each user: users count once.
            format!(
                "  - {{name: a-{n}, role: agent, unix_user: bot-{n}}}\n  - {{name: b-{n}, role: agent, \
                 unix_user: bot-{n}}}\n"
            )
        });
        format!("principals:\n{}", rows.collect::<String>())
    };
    for (count, expect) in [(15, true), (16, true), (17, false)] {
        let read = super::read_principals("rules/principals.yaml", &file(count));
        assert_eq!(read.is_ok(), expect, "{count}: {read:?}");
    }
    let odd = "principals:\n  - {name: a, role: agent, unix_user: \"a b\"}\n";
    assert!(super::read_principals("rules/principals.yaml", odd).is_err());
}

/// A home of an older version has neither file in its bundle, and keeps its hash.
#[test]
fn approvers_are_part_of_the_rulebook() {
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICyg3PYERNsWi/Gt8LS5dZTCrLn7cm55zAqgt/KY6HCM";
    let compiled = |approvers: Option<String>| {
        let safety = include_str!("../../../../rules/safety.yaml").to_owned();
        let mut files = BTreeMap::from([("rules/safety.yaml".to_owned(), safety)]);
        files.extend(approvers.map(|text| ("rules/approvers".to_owned(), text)));
        Rulebook::compile(&Bundle { files })
    };
    let (none, ann) = (
        compiled(None).unwrap(),
        compiled(Some(format!("ann {key}"))).unwrap(),
    );
    assert_eq!(none.approvers, None);
    assert_ne!(none.hash, ann.hash);
    let area = ann.approval.area_of("rules/safety.yaml");
    assert!(area.approvers.iter().eq(["ann"]));
    let error = compiled(Some("\nann\n".to_owned())).unwrap_err();
    assert_eq!(error.to_string(), "rules/approvers:2: it ends too early");
}
