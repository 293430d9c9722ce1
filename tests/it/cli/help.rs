//! Help, man pages, the reference and completions.

use super::*;

/// Every subcommand, groups included.
const COMMANDS: [&str; 137] = [
    "",
    "actions",
    "actions open",
    "actions list",
    "approvals",
    "approvals list",
    "approvals show",
    "approvals grant",
    "approvals deny",
    "grants",
    "grants list",
    "grants add",
    "grants end",
    "bridge",
    "bridge test",
    "demo",
    "init",
    "keys",
    "keys add",
    "keys list",
    "keys rotate",
    "keys revoke",
    "keys reseal",
    "services",
    "services add",
    "services remove",
    "services deactivate",
    "services activate",
    "services list",
    "services credential",
    "services credential set",
    "services credential remove",
    "sign",
    "submit",
    "suspect",
    "handle",
    "run",
    "watch",
    "limits",
    "limits override",
    "limits list",
    "limits end",
    "market",
    "market import",
    "market show",
    "market funding",
    "market rate",
    "portfolio",
    "orders",
    "order",
    "order assume",
    "order cancel",
    "close",
    "position",
    "position adjust",
    "kill",
    "fills",
    "explain",
    "selftest",
    "audit",
    "audit archive",
    "audit prune",
    "audit verify",
    "audit tail",
    "audit query",
    "audit export",
    "audit show",
    "audit rotate",
    "audit accept-rollback",
    "audit prove",
    "audit check-proof",
    "audit checkpoint",
    "audit consistency",
    "audit replay",
    "audit redact",
    "audit disclose",
    "council",
    "council decide",
    "council brief",
    "council check",
    "council list",
    "council show",
    "council dissent",
    "council wait",
    "admit",
    "admit evaluate",
    "admit admit",
    "admit check",
    "admit health",
    "admit invalidate",
    "admit tree",
    "admit verify",
    "control",
    "control apply",
    "strategies",
    "strategies list",
    "strategies show",
    "theses",
    "theses list",
    "theses lint",
    "proposals",
    "proposals list",
    "proposals show",
    "proposals diff",
    "proposals approve",
    "proposals decline",
    "proposals revert",
    "proposals verify",
    "rules",
    "rules fields",
    "rules lint",
    "rules test",
    "rules explain",
    "rules review",
    "rules approval-reset",
    "notify",
    "notify test",
    "halt",
    "halt set",
    "halt clear",
    "heartbeat",
    "account",
    "account deposit",
    "account withdraw",
    "clock",
    "clock accept",
    "rebuild",
    "status",
    "doctor",
    "report",
    "schema",
    "completions",
    "man",
    "rules ask",
    "rules backtest",
    "rules cases",
    "rules efficacy",
];

#[test]
fn every_command_has_help_with_examples() {
    for name in COMMANDS {
        let words = name.split_whitespace();
        let help = Command::new(PROGRAM)
            .args(words.clone())
            .arg("--help")
            .output()
            .unwrap();
        assert!(help.status.success(), "{name}: {}", show(&help));
        assert!(
            out(&help).contains("Examples:"),
            "`{name} --help` has no examples"
        );
        // A command that is missing from the list above must be noticed.
        let listed = out(&help);
        let listed = listed
            .split("Commands:\n")
            .nth(1)
            .unwrap_or_default()
            .split("\n\n")
            .next()
            .unwrap();
        // A line that is indented further continues the line above.
        let names = listed.lines().filter(|line| !line.starts_with("   "));
        for sub in names.filter_map(|line| line.split_whitespace().next()) {
            let full = format!("{name} {sub}").trim().to_owned();
            let known = COMMANDS
                .iter()
                .any(|command| *command == full || command.starts_with(&format!("{full} ")));
            assert!(
                known || sub == "help",
                "`{full}` is not in the list of this test"
            );
        }
    }
}

#[test]
fn the_reference_of_the_command_line_is_the_help() {
    let made = Command::new(PROGRAM)
        .args(["man", "--markdown"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    let kept = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/docs/reference/cli.md"
    ))
    .unwrap();
    assert!(
        out(&made) == kept,
        "run `spoolgate man --markdown > docs/reference/cli.md`"
    );
}

#[test]
fn there_is_a_man_page_of_every_command_and_no_other() {
    let dir = crate::kit::folder();
    let made = Command::new(PROGRAM)
        .arg("man")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    let mut found: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.contains("help"))
        .collect();
    found.sort();
    let mut wanted: Vec<String> = COMMANDS
        .iter()
        .map(|name| format!("{}.1", format!("spoolgate {name}").trim().replace(' ', "-")))
        .collect();
    wanted.sort();
    assert_eq!(found, wanted);
    for name in found {
        let page = fs::read_to_string(dir.path().join(&name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
        // Commands stay lines of their own, and no part of them is left elsewhere.
        let examples = page
            .split(".SH EXAMPLES\n.nf\n")
            .nth(1)
            .and_then(|rest| rest.split(".fi\n").next());
        assert!(
            examples.is_some_and(|lines| lines.contains("spoolgate")),
            "{name}: {page}"
        );
        assert!(
            !page.contains("Examples:") && !page.contains(".SH EXTRA"),
            "{name}: {page}"
        );
    }
}

/// Whether completions are valid is for their shell to say, if it is installed.
#[test]
fn completions_are_read_by_their_shells_and_offer_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let made = Command::new(PROGRAM)
            .args(["completions", shell])
            .output()
            .unwrap();
        assert!(
            made.status.success() && out(&made).contains("accept-rollback"),
            "{shell}: {}",
            show(&made)
        );
        // If a folder is expected, files are not offered.
        let only_folders = match shell {
            "bash" => "compopt -o plusdirs",
            "zsh" => ":DIR:_files -/'",
            "fish" => "__fish_complete_directories",
            _ => continue,
        };
        assert!(out(&made).contains(only_folders), "{shell}");
    }
    let dir = crate::kit::folder();
    let file = dir.path().join("completions.bash");
    let made = Command::new(PROGRAM)
        .args(["completions", "bash"])
        .output()
        .unwrap();
    fs::write(&file, made.stdout).unwrap();
    let ask = format!(
        "source {}; COMP_WORDS=(spoolgate audit ver); COMP_CWORD=2; _spoolgate spoolgate ver \
            audit; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    let done = Command::new("bash").args(["-c", &ask]).output().unwrap();
    assert_eq!(out(&done).trim(), "verify", "{}", show(&done));
}
