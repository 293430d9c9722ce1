//! Faults of rule files and kill switches.

use super::*;

#[test]
fn an_unknown_field_of_a_rule_that_never_fires() {
    let (desk, mut home) = Desk::new();
    let council = desk.path("council");
    fs::create_dir_all(&council).unwrap();
    let roles = concat!(env!("CARGO_MANIFEST_DIR"), "/council/roles.yaml");
    fs::copy(roles, council.join("roles.yaml")).unwrap();
    let at_end = |text: &str| format!("{}\nno_such_rule: 1\n", text.trim_end());
    for file in [
        "rules/safety.yaml",
        "rules/principals.yaml",
        "rules/instruments.yaml",
        "rules/strategies/trend.yaml",
        "rules/strategies/range.yaml",
        "rules/admission/research/agents/default.yaml",
        "council/roles.yaml",
    ] {
        unknown(&desk, &mut home, file, at_end);
    }
    unknown(
        &desk,
        &mut home,
        "proposals/theses/btc-dip-long.md",
        |text| text.replace("slug:", "no_such_rule: 1\nslug:"),
    );
    // Also inside lists and nested members.
    unknown(&desk, &mut home, "rules/instruments.yaml", |text| {
        text.replace("    bar_s: 60", "    bar_s: 60\n    no_such_rule: 1")
    });
    unknown(&desk, &mut home, "rules/strategies/trend.yaml", |text| {
        text.replace("{min:", "{no_such_rule: 1, min:")
    });
}

/// Checks that the file is refused with name and key, that entries are refused, and that everything
/// is as before after a repair.
fn unknown(desk: &Desk, home: &mut Home, file: &str, change: impl FnOnce(&str) -> String) {
    let good = fs::read_to_string(desk.path(file)).unwrap();
    desk.edit(home, file, change);
    let fault = home.state().rulebook.fault.clone().unwrap_or_default();
    assert!(
        fault.contains(file) && fault.contains("no_such_rule"),
        "{file}: {fault}"
    );
    desk.flat(home, "6800");
    assert_eq!(
        code(&desk.ask(home, "order.submit", &another())),
        Some(Code::RulebookInvalid),
        "{file}"
    );
    desk.edit(home, file, |_| good);
    assert_eq!(home.state().rulebook.fault, None);
}

#[test]
fn an_unparsable_rule_file_that_is_skipped() {
    let (desk, mut home) = Desk::new();
    desk.hold(&mut home, "buy", "0.02", "6600");
    // The file of a strategy that has nothing to do with the orders.
    let file = "rules/strategies/range.yaml";
    let good = fs::read_to_string(desk.path(file)).unwrap();
    desk.edit(&mut home, file, |text| format!("{text}instruments: ["));
    desk.flat(&mut home, "6800");
    let outcome = desk.ask(&mut home, "order.submit", &another());
    assert_eq!(code(&outcome), Some(Code::RulebookInvalid));
    assert!(
        outcome
            .answer
            .error
            .as_ref()
            .unwrap()
            .message
            .contains("rules/strategies/range.yaml:")
    );
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.01")));
    // Nor after a restart; once repaired, it continues.
    let mut home = desk.restart(home);
    assert_eq!(
        code(&desk.ask(&mut home, "order.submit", &another())),
        Some(Code::RulebookInvalid)
    );
    accepted(&desk.ask(&mut home, "order.submit", &exit("sell", "0.01")));
    desk.edit(&mut home, file, |_| good);
    desk.flat(&mut home, "6800");
    accepted(&desk.ask(&mut home, "order.submit", &another()));
}

#[test]
fn a_typo_in_a_limit_s_name_that_is_accepted() {
    let (desk, mut home) = Desk::new();
    let limits = fs::read_to_string(desk.path("rules/safety.yaml")).unwrap();
    let names: Vec<String> = limits
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(':').map(|(name, _)| name.to_owned()))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    for name in names {
        let typo = format!("{}_", &name[..name.len() - 1]);
        desk.edit(&mut home, "rules/safety.yaml", |text| {
            text.lines()
                .map(|line| {
                    line.strip_prefix(&format!("{name}:"))
                        .map_or(line.to_owned(), |rest| format!("{typo}:{rest}"))
                })
                .collect::<Vec<_>>()
                .join("\n")
        });
        let fault = home.state().rulebook.fault.clone().unwrap_or_default();
        assert!(
            fault.contains("rules/safety.yaml") && fault.contains(&typo),
            "{typo}: {fault}"
        );
        desk.edit(&mut home, "rules/safety.yaml", |_| limits.clone());
        assert_eq!(home.state().rulebook.fault, None, "{name}");
    }
}

#[test]
fn a_kill_switch_set_with_the_wrong_sign() {
    let (desk, mut home) = Desk::new();
    let limits = fs::read_to_string(desk.path("rules/safety.yaml")).unwrap();
    for (line, wrong) in [
        ("max_daily_loss: 250", "max_daily_loss: -250"),
        ("max_daily_loss: 250", "max_daily_loss: 0"),
        ("max_weekly_loss: 500", "max_weekly_loss: -500"),
        ("max_drawdown: 0.15", "max_drawdown: -0.15"),
        ("max_drawdown: 0.15", "max_drawdown: 15"),
        ("max_single_trade_risk: 0.02", "max_single_trade_risk: 2"),
        ("max_portfolio_risk: 0.06", "max_portfolio_risk: -0.06"),
        ("max_losing_trades: 3", "max_losing_trades: -3"),
        ("max_losing_trades: 3", "max_losing_trades: 0"),
        ("max_executions: 50", "max_executions: 0"),
        ("cooldown_s: 300", "cooldown_s: -300"),
        ("max_open_positions: 10", "max_open_positions: -10"),
        ("max_order_value: 1000", "max_order_value: -1000"),
    ] {
        desk.edit(&mut home, "rules/safety.yaml", |text| {
            text.replace(line, wrong)
        });
        let fault = home.state().rulebook.fault.clone().unwrap_or_default();
        let name = line.split(':').next().unwrap();
        assert!(
            fault.contains("rules/safety.yaml") && fault.contains(name),
            "{wrong}: {fault}"
        );
        desk.edit(&mut home, "rules/safety.yaml", |_| limits.clone());
    }
    // `halt.set` has no member that clears a halt: a payload with one is invalid.
    accepted(&desk.ask(&mut home, "halt.set", DRILL));
    for payload in [
        r#"{"reason":"x","on":false}"#,
        r#"{"reason":"x","halted":"no"}"#,
        r#"{"reason":"x","value":-1}"#,
    ] {
        assert_eq!(
            code(&desk.ask(&mut home, "halt.set", payload)),
            Some(Code::MalformedPayload),
            "{payload}"
        );
    }
    desk.flat(&mut home, "6800");
    refused(
        &desk.ask(&mut home, "order.submit", &another()),
        "manual_halt",
    );
    let clear = json!({"scope": {"principal": "trend-bot"}, "reason": "mine"}).to_string();
    assert_eq!(
        code(&desk.ask(&mut home, "halt.clear", &clear)),
        Some(Code::NotPermitted)
    );
}

#[test]
fn a_kill_switch_that_cannot_be_read() {
    type Make = fn(&std::path::Path);
    let makes: [Make; 4] = [
        |path| fs::write(path, "halt: false\n").unwrap(),
        |path| {
            fs::write(path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        },
        |path| fs::create_dir(path).unwrap(),
        |path| symlink("nowhere/at/all", path).unwrap(),
    ];
    let scratch = Scratch::with_prices();
    let home = scratch.home();
    let halt = home.join("rules/HALT");
    for (nth, make) in makes.into_iter().enumerate() {
        make(&halt);
        let file = scratch.beside(&format!("r{nth}.json"));
        fs::write(
            &file,
            scratch.request(&format!("r{nth}"), "order.submit", &another()),
        )
        .unwrap();
        let done = crate::kit::spoolgate(&home, &["handle", file.to_str().unwrap()]);
        let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
        let failed = answer["data"]["Rejected"]["checks_failed"].to_string();
        assert!(failed.contains("rules/HALT exists"), "{nth}: {answer}");
        match halt.is_dir() {
            true => fs::remove_dir(&halt).unwrap(),
            false => fs::remove_file(&halt).unwrap(),
        }
        succeed(&home, &["run", "--until-idle"]);
        let told = succeed(&home, &["portfolio"]);
        assert!(!told.contains("manual_halt"), "{nth}: {told}");
    }
}

/// Returns a rule that refuses every order, with this status and id.
fn rule_text(id: &str, status: &str) -> String {
    format!(
        "id: {id}\nstatus: {status}\napplies_to: {{action: order.submit}}\nwhen: []\nthen: \
            reject\nmessage: nothing goes\n"
    )
}

#[test]
fn a_suspended_rule_that_still_fires() {
    let (desk, mut home) = Desk::new();
    let file = "rules/active/nothing-goes.yaml";
    fs::create_dir_all(desk.path("rules/active")).unwrap();
    fs::write(desk.path(file), "").unwrap();
    desk.edit(&mut home, file, |_| rule_text("nothing-goes", "active"));
    desk.flat(&mut home, "6800");
    assert_eq!(
        failed(&desk.ask(&mut home, "order.submit", &another())),
        ["nothing-goes"]
    );
    desk.edit(&mut home, file, |text| {
        text.replace("status: active", "status: suspended")
    });
    desk.flat(&mut home, "6800");
    let outcome = desk.ask(&mut home, "order.submit", &another());
    accepted(&outcome);
    assert!(
        outcome
            .decision
            .checks
            .iter()
            .all(|row| row.name != "nothing-goes")
    );
    // Nor after a restart.
    let mut home = desk.restart(home);
    desk.flat(&mut home, "6800");
    let outcome = desk.ask(&mut home, "order.submit", &another());
    assert!(
        outcome
            .decision
            .checks
            .iter()
            .all(|row| row.name != "nothing-goes")
    );
}

#[test]
fn an_id_used_as_a_path() {
    let (desk, mut home) = Desk::new();
    for name in [
        "../../rules/safety",
        "/etc/passwd",
        "a/b",
        "..",
        ".",
        "a\\u0000b",
        "",
    ] {
        for field in ["strategy", "thesis_slug", "symbol"] {
            let mut order: Value = serde_json::from_str(&another()).unwrap();
            order[field] = serde_json::from_str(&format!("\"{name}\"")).unwrap();
            let code = code(&desk.ask(&mut home, "order.submit", &order.to_string()));
            // Many write a pair as `BTC/USD`, so a slash alone may be valid in a symbol: the symbol
            // is refused as unknown.
            let is_refused = matches!(
                code,
                Some(Code::MalformedPayload | Code::MalformedJson | Code::ChecksFailed)
            );
            assert!(is_refused, "{field} {name}: {code:?}");
            assert!(
                field == "symbol" || code != Some(Code::ChecksFailed),
                "{field} {name}"
            );
        }
        for action in ["order.cancel", "order.tighten_stop"] {
            let payload = format!(r#"{{"order_id":"{name}","new_stop":"1"}}"#);
            let code = code(&desk.ask(&mut home, action, &payload)).unwrap();
            assert!(
                matches!(code, Code::MalformedPayload | Code::MalformedJson),
                "{action} {name}: {code}"
            );
        }
    }
    // A rule must have the name of its file; files of proposals are in `proposals`.
    let file = desk.path("rules/active/nothing-goes.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for id in [
        "../safety",
        "nothing-goes/../../safety",
        "other",
        "Nothing-Goes",
        "n\u{043e}thing-goes",
    ] {
        fs::write(&file, "").unwrap();
        desk.edit(&mut home, "rules/active/nothing-goes.yaml", |_| {
            rule_text(id, "active")
        });
        let fault = home.state().rulebook.fault.clone().unwrap_or_default();
        assert!(
            fault.contains("rules/active/nothing-goes.yaml"),
            "{id}: {fault}"
        );
    }
    fs::remove_file(&file).unwrap();
    // A rule file must contain what its name says; otherwise the whole rulebook is refused.
    desk.edit(&mut home, "rules/strategies/range.yaml", |text| {
        text.replace("name: range", "name: trend")
    });
    assert!(
        home.state()
            .rulebook
            .fault
            .as_ref()
            .unwrap()
            .contains("rules/strategies/range.yaml")
    );
    desk.edit(&mut home, "rules/strategies/range.yaml", |text| {
        text.replace("name: trend", "name: ../safety")
    });
    assert!(
        home.state()
            .rulebook
            .fault
            .as_ref()
            .unwrap()
            .contains("rules/strategies/range.yaml")
    );
}
