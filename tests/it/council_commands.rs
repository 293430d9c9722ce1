//! Roles that a program answers: whatever the program does, its case is decided, the gate
//! continues, and no process of it is left running.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kit::chamber::{Chamber, script};
use crate::kit::court::{edit_roles, opinion, request, verdict};
use crate::kit::process::{Running, until};
use crate::kit::{spoolgate, succeed};

/// Makes a home in which `bin/auditor` and `bin/engineer` answer for the two roles of
/// CODE_REFACTOR.
fn manned(time_limit_s: u32) -> Chamber {
    let chamber = Chamber::new();
    give_commands(&chamber, time_limit_s);
    chamber
}

fn give_commands(chamber: &Chamber, time_limit_s: u32) {
    crate::kit::uncaged(&chamber.home());
    edit_roles(&chamber.home(), |text| {
        let mut text = text.to_owned();
        for (role, program) in [
            ("Code Auditor", "bin/auditor"),
            ("Integration Engineer", "bin/engineer"),
        ] {
            let name = format!("  - name: {role}\n");
            let command = format!(
                "    command: {{program: {program}, time_limit_s: {time_limit_s}, \
                    output_bytes_max: 4096}}\n"
            );
            text = text.replace(&name, &format!("{name}{command}"));
        }
        text
    });
    answers(chamber, "engineer", "Integration Engineer", "APPROVE");
}

fn answer(role: &str, stance: &str) -> String {
    opinion(role, stance).to_string()
}

/// Writes a program that reads its brief and answers with this verdict.
fn answers(chamber: &Chamber, program: &str, role: &str, stance: &str) {
    let text = format!(
        "cat > /dev/null\ncat <<'END'\n{}\nEND",
        answer(role, stance)
    );
    script(&chamber.home().join("bin").join(program), &text);
}

/// The auditor runs the script of the case; the summary in its brief says which case it is.
fn auditor_by_case(chamber: &Chamber, scripts: &[(&str, String)]) {
    let home = chamber.home();
    let dispatch = "id=$(sed -n 's/.*\"summary\": \"\\([^ ]*\\) .*/\\1/p')\n. bin/cases/$id";
    script(&home.join("bin/auditor"), dispatch);
    for (case, text) in scripts {
        script(&home.join("bin/cases").join(case), text);
    }
}

fn open(chamber: &Chamber, case: &str) -> String {
    let asked = request(case, "CODE_REFACTOR");
    let asked = asked.replace("Strategy v2.1", &format!("{case} Strategy v2.1"));
    chamber.send(
        "research-bot",
        &format!("open-{case}"),
        "council.request",
        &asked,
    );
    asked
}

fn say(text: &str) -> String {
    format!("cat <<'END'\n{text}\nEND")
}

fn is_running(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    // A zombie has ended; only its name remains until its new parent removes it.
    fs::read_to_string(format!("/proc/{}/stat", pid.trim())).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z')
    })
}

/// What a program may do, whether it counts as a vote, and words of its line.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn behaviours() -> Vec<(&'static str, String, Option<&'static str>, &'static str)> {
    let own = |stance| say(&answer("Code Auditor", stance));
    let wrapped = verdict(
        "req_wrapped",
        &request("req_wrapped", "CODE_REFACTOR"),
        &opinion("Code Auditor", "APPROVE"),
    );
    vec![
        ("req_approves", own("APPROVE"), Some("APPROVE"), "answered"),
        ("req_rejects", own("REJECT"), Some("REJECT"), "answered"),
        (
            "req_alias",
            say(&answer("ca", "APPROVE")),
            Some("APPROVE"),
            "answered",
        ),
        (
            "req_maybe",
            own("MAYBE"),
            Some("NEEDS_MORE_INFO"),
            "answered",
        ),
        (
            "req_hangs",
            "trap '' TERM INT; sleep 300".to_owned(),
            None,
            "took longer than 2 s",
        ),
        (
            "req_floods",
            "yes".to_owned(),
            None,
            "wrote more than 4096 bytes",
        ),
        (
            "req_complains",
            "yes >&2".to_owned(),
            None,
            "took longer than 2 s",
        ),
        (
            "req_fails",
            format!("{}\necho no idea >&2; exit 3", own("APPROVE")),
            None,
            "exit code 3",
        ),
        ("req_dies", "kill -SEGV $$".to_owned(), None, "signal 11"),
        (
            "req_garbage",
            "echo I approve".to_owned(),
            None,
            "not a verdict",
        ),
        (
            "req_bytes",
            "head -c 3000 /dev/urandom".to_owned(),
            None,
            "not a verdict",
        ),
        (
            "req_other",
            say(&answer("Integration Engineer", "APPROVE")),
            None,
            "speaks for `Integration Engineer`",
        ),
        ("req_wrapped", say(&wrapped), None, "not a verdict"),
        (
            "req_twice",
            format!("{}\n{}", own("APPROVE"), own("APPROVE")),
            None,
            "not a verdict",
        ),
        ("req_nothing", "exit 0".to_owned(), None, "not a verdict"),
        (
            "req_terminal",
            r#"printf '{"\033[31m":1}'; printf '\033[2J' >&2"#.to_owned(),
            None,
            "not a verdict",
        ),
        (
            "req_long_key",
            r#"printf '{"%03900d":1}' 1"#.to_owned(),
            None,
            "not a verdict",
        ),
        (
            "req_child",
            format!("sleep 300 & echo $! > bin/child.pid\n{}", own("APPROVE")),
            Some("APPROVE"),
            "answered",
        ),
        (
            "req_daemon",
            format!("setsid sleep 20 > /dev/null 2>&1 & \n{}", own("APPROVE")),
            Some("APPROVE"),
            "answered",
        ),
        (
            "req_clean",
            format!(
                "env > bin/env.txt; ls -l /proc/self/fd > bin/fds.txt; pwd > bin/pwd.txt\n{}",
                own("APPROVE")
            ),
            Some("APPROVE"),
            "answered",
        ),
    ]
}

fn every_behaviour(chamber: &Chamber) {
    let home = chamber.home();
    for (case, _, vote, words) in behaviours() {
        let decision = chamber.wait_for_decision(case);
        let inputs = chamber.inputs();
        let of_case: Vec<_> = inputs
            .iter()
            .filter(|input| input.request_id.as_str() == case)
            .collect();
        assert_eq!(
            of_case.len(),
            2,
            "{case}: each role is heard once: {of_case:?}"
        );
        let input = of_case
            .iter()
            .find(|input| input.role == "Code Auditor")
            .unwrap();
        assert!(input.note.contains(words), "{case}: {}", input.note);
        assert!(
            !input.note.chars().any(char::is_control),
            "{case}: {:?}",
            input.note
        );
        assert_eq!(input.payload.is_some(), vote.is_some(), "{case}");
        let expected = match vote {
            Some("APPROVE") => "APPROVE",
            Some("REJECT") => "REJECT",
            _ => "NEEDS_MORE_INFO",
        };
        assert_eq!(decision["final_outcome"], expected, "{case}: {decision}");
        let seats = &chamber.shown(case)["record"]["deliberation"]["seats"];
        let seat = seats
            .as_array()
            .unwrap()
            .iter()
            .find(|seat| seat["role"] == "Code Auditor");
        assert_eq!(
            seat.map(|seat| seat["verdict"].as_str().unwrap()),
            vote,
            "{case}"
        );
        let told = chamber.told();
        let (_, ruling) = told.ruling(case);
        assert_eq!(
            ruling.verdict_lines.len(),
            1 + usize::from(vote.is_some()),
            "{case}"
        );
    }
    assert!(
        !is_running(&home.join("bin/child.pid")),
        "what a role started ends with it"
    );
    let env = fs::read_to_string(home.join("bin/env.txt")).unwrap();
    for line in env.lines() {
        let name = line.split('=').next().unwrap();
        assert!(
            ["PATH", "LANG", "PWD", "OLDPWD", "SHLVL", "_"].contains(&name),
            "it was handed {line}"
        );
    }
    // The test harness may have passed descriptors to the gate; none of the home's are passed on.
    let fds = fs::read_to_string(home.join("bin/fds.txt")).unwrap();
    let home = home.canonicalize().unwrap();
    let own = home.join("bin").to_str().unwrap().to_owned();
    let leaked = fds
        .lines()
        .find(|line| line.contains(home.to_str().unwrap()) && !line.contains(&own));
    assert_eq!(leaked, None, "a file of the gate");
    let pwd = fs::read_to_string(home.join("bin/pwd.txt")).unwrap();
    assert_eq!(PathBuf::from(pwd.trim()), home);
}

#[test]
fn whatever_a_program_does() {
    for watched in [false, true] {
        let chamber = manned(2);
        let scripts: Vec<(&str, String)> = behaviours()
            .into_iter()
            .map(|(case, text, ..)| (case, text))
            .collect();
        auditor_by_case(&chamber, &scripts);
        for (case, ..) in &scripts {
            open(&chamber, case);
        }
        let watcher = watched.then(|| Running::watch(&chamber.home()));
        if !watched {
            succeed(&chamber.home(), &["run", "--until-idle"]);
        }
        every_behaviour(&chamber);
        if let Some(watcher) = watcher {
            watcher.stop();
        }
        assert_eq!(chamber.told().rulings.len(), scripts.len());
        chamber.agrees("req_approves");
        chamber.agrees("req_long_key");
    }
}

#[test]
fn no_program_no_input_and_no_reader() {
    let chamber = manned(30);
    let home = chamber.home();
    // It never reads, and the brief is larger than a pipe's buffer.
    script(
        &home.join("bin/auditor"),
        &say(&answer("Code Auditor", "APPROVE")),
    );
    let large =
        request("req_1", "CODE_REFACTOR").replace("diff --git a b", &"+ a line\\n".repeat(50_000));
    chamber.send("research-bot", "open-1", "council.request", &large);
    succeed(&home, &["run", "--until-idle"]);
    assert_eq!(
        chamber.wait_for_decision("req_1")["final_outcome"],
        "APPROVE"
    );
    fs::remove_file(home.join("bin/auditor")).unwrap();
    open(&chamber, "req_2");
    succeed(&home, &["run", "--until-idle"]);
    assert_eq!(
        chamber.wait_for_decision("req_2")["final_outcome"],
        "NEEDS_MORE_INFO"
    );
    let note = chamber
        .inputs()
        .into_iter()
        .find(|input| input.request_id.as_str() == "req_2" && input.role == "Code Auditor")
        .unwrap()
        .note;
    assert!(note.contains("could not be run"), "{note}");
    // A one-shot command runs no programs; the next run does.
    answers(&chamber, "auditor", "Code Auditor", "APPROVE");
    let file = chamber.beside(
        "r.json",
        chamber.signed(
            "research-bot",
            "open-3",
            "council.request",
            &request("req_3", "CODE_REFACTOR"),
        ),
    );
    succeed(&home, &["handle", &file]);
    assert!(!chamber.decision_path("req_3").exists() && chamber.inputs().len() == 4);
    succeed(&home, &["run", "--until-idle"]);
    assert_eq!(
        chamber.wait_for_decision("req_3")["final_outcome"],
        "APPROVE"
    );
}

/// While programs run, the gate decides; at most two of them run at a time.
#[test]
fn the_gate_goes_on_and_programs_take_turns() {
    let chamber = manned(60);
    let home = chamber.home();
    let slow = format!(
        "cat > /dev/null; echo + >> bin/turns; sleep 0.4; echo - >> bin/turns\n{}",
        say(&answer("Code Auditor", "APPROVE"))
    );
    script(&home.join("bin/auditor"), &slow);
    script(
        &home.join("bin/engineer"),
        &slow.replace("Code Auditor", "Integration Engineer"),
    );
    for n in 0..5 {
        open(&chamber, &format!("req_{n}"));
    }
    let watcher = Running::watch(&home);
    until("a program runs", || home.join("bin/turns").exists());
    let query = chamber.scratch.query("meanwhile");
    query.drop_into(&home);
    until("the query's answer", || {
        home.join("spool/out/meanwhile.json").exists()
    });
    assert!(
        chamber.told().rulings.len() < 5,
        "the query waited for all of the programs"
    );
    for n in 0..5 {
        assert_eq!(
            chamber.wait_for_decision(&format!("req_{n}"))["final_outcome"],
            "APPROVE"
        );
    }
    watcher.stop();
    let turns = fs::read_to_string(home.join("bin/turns")).unwrap();
    let mut running = 0;
    let most = turns
        .lines()
        .map(|turn| {
            running += if turn == "+" { 1 } else { -1 };
            running
        })
        .max();
    assert_eq!((most, turns.lines().count()), (Some(2), 20));
}

/// Writes a program that hangs the first time it runs.
fn hangs_once(chamber: &Chamber) {
    let text = format!(
        "cat > /dev/null\nif [ ! -e bin/begun ]; then echo $$ > bin/pid; mv bin/pid bin/begun; \
            exec sleep 300; fi\n{}",
        say(&answer("Code Auditor", "APPROVE"))
    );
    script(&chamber.home().join("bin/auditor"), &text);
}

#[test]
fn a_stopped_or_killed_gate_asks_again() {
    for killed in [false, true] {
        let chamber = manned(600);
        let home = chamber.home();
        hangs_once(&chamber);
        open(&chamber, "req_1");
        let watcher = Running::watch(&home);
        let begun = home.join("bin/begun");
        until("the program runs", || begun.exists());
        if killed {
            watcher.kill();
            // No process is left that could end it.
            let pid = fs::read_to_string(&begun).unwrap();
            let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        } else {
            watcher.stop();
            assert!(!is_running(&begun), "the watcher left its program running");
            assert!(
                chamber
                    .inputs()
                    .iter()
                    .all(|input| input.role != "Code Auditor")
            );
        }
        assert!(!chamber.decision_path("req_1").exists());
        succeed(&home, &["run", "--until-idle"]);
        assert_eq!(
            chamber.wait_for_decision("req_1")["final_outcome"],
            "APPROVE"
        );
        chamber.agrees("req_1");
    }
}

/// Another signer of the role can be faster than the program, but cannot suppress its objection.
#[test]
fn a_key_does_not_silence_a_program() {
    let chamber = manned(600);
    let home = chamber.home();
    let text = format!(
        "cat > /dev/null; touch bin/begun; until [ -e bin/go ]; do sleep 0.05; done\n{}",
        say(&answer("Code Auditor", "REJECT"))
    );
    script(&home.join("bin/auditor"), &text);
    // The engineer keeps the case open.
    let waits = format!(
        "cat > /dev/null; until [ -e bin/end ]; do sleep 0.05; done\n{}",
        say(&answer("Integration Engineer", "APPROVE"))
    );
    script(&home.join("bin/engineer"), &waits);
    let asked = open(&chamber, "req_1");
    let watcher = Running::watch(&home);
    until("the program runs", || home.join("bin/begun").exists());
    chamber.send(
        "code-auditor",
        "vote",
        "council.verdict",
        &verdict("req_1", &asked, &opinion("Code Auditor", "APPROVE")),
    );
    until("the vote is taken", || {
        home.join("spool/out/vote.json").exists()
    });
    fs::write(home.join("bin/go"), "").unwrap();
    until("the program is heard", || !chamber.inputs().is_empty());
    fs::write(home.join("bin/end"), "").unwrap();
    assert_eq!(
        chamber.wait_for_decision("req_1")["final_outcome"],
        "REJECT"
    );
    watcher.stop();
    chamber.agrees("req_1");
}

/// A case ends at its deadline although a program is still running, and what the program says later
/// changes nothing.
#[test]
fn a_deadline_does_not_wait_for_a_program() {
    let chamber = manned(600);
    let home = chamber.home();
    let path = home.join("council/roles.yaml");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_at(text.find("  CODE_REFACTOR:").unwrap());
    fs::write(
        &path,
        format!(
            "{before}{}",
            after.replace("deadline_s: 86400", "deadline_s: 1")
        ),
    )
    .unwrap();
    let text = format!(
        "cat > /dev/null; until [ -e bin/go ]; do sleep 0.05; done\n{}",
        say(&answer("Code Auditor", "APPROVE"))
    );
    script(&home.join("bin/auditor"), &text);
    let watcher = Running::watching(&home);
    let begun = Instant::now();
    open(&chamber, "req_1");
    assert_eq!(
        chamber.wait_for_decision("req_1")["final_outcome"],
        "NEEDS_MORE_INFO"
    );
    assert!(
        begun.elapsed() > Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    let decision = fs::read(chamber.decision_path("req_1")).unwrap();
    fs::write(home.join("bin/go"), "").unwrap();
    until("both are heard", || chamber.inputs().len() == 2);
    watcher.stop();
    let late = chamber
        .inputs()
        .into_iter()
        .find(|input| input.role == "Code Auditor")
        .unwrap();
    assert!(
        late.payload.is_none() && late.changes.is_empty(),
        "{late:?}"
    );
    assert_eq!(fs::read(chamber.decision_path("req_1")).unwrap(), decision);
    chamber.agrees("req_1");
}

/// A role that gets its program while cases are open answers in those too.
#[test]
fn a_program_that_is_configured_later() {
    let chamber = Chamber::new();
    let home = chamber.home();
    let watcher = Running::watch(&home);
    open(&chamber, "req_1");
    until("the case is open", || {
        home.join("spool/out/open-req_1.json").exists()
    });
    answers(&chamber, "auditor", "Code Auditor", "APPROVE");
    give_commands(&chamber, 60);
    assert_eq!(
        chamber.wait_for_decision("req_1")["final_outcome"],
        "APPROVE"
    );
    watcher.stop();
    assert!(
        spoolgate(&home, &["council", "show", "req_1"])
            .status
            .success()
    );
}
