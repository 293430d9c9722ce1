//! A gate and its agents as separate users.

use super::*;

fn there_is(program: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {program}")])
        .output()
        .unwrap();
    if !found.status.success() {
        eprintln!("skipped: there is no {program} on this machine");
    }
    found.status.success()
}

#[test]
fn the_deployment_files_of_init_can_be_installed() {
    let dir = crate::kit::folder();
    let home = dir.path().join("a home of 100%");
    let made = Command::new(PROGRAM)
        .arg("init")
        .arg(&home)
        .args(["--agent-user", "bot"])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    let said = String::from_utf8(made.stdout).unwrap();
    let script = fs::read_to_string(home.join("deploy/users.sh")).unwrap();
    let commands: Vec<&str> = script
        .lines()
        .filter(|line| !line.starts_with('#') && *line != "set -eu")
        .collect();
    assert!(
        commands.len() > 8 && commands.iter().all(|command| said.contains(command)),
        "{said}\n{script}"
    );
    assert!(script.contains("--shell /bin/sh bot\n"), "{script}");
    let checked = Command::new("sh")
        .arg("-n")
        .arg(home.join("deploy/users.sh"))
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", show(&checked));
    let same = Command::new(PROGRAM)
        .arg("init")
        .arg(dir.path().join("b"))
        .args(["--agent-user", "spoolgate"])
        .output()
        .unwrap();
    assert_eq!(same.status.code(), Some(2), "{}", show(&same));
    if there_is("systemd-analyze") {
        let unit = home.join("deploy/spoolgate.service");
        let done = Command::new("systemd-analyze")
            .arg("verify")
            .arg(unit)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            done.status.success() && !said.contains("spoolgate.service"),
            "{}",
            show(&done)
        );
    }
}

fn as_user(name: &str, home: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("runuser");
    command
        .args(["-u", name, "--", PROGRAM, "--home"])
        .arg(home)
        .args(args);
    command.current_dir("/").output().unwrap()
}

/// Users, and their group unless it existed before, that are removed after their test.
struct Users {
    has_group: bool,
}

impl Users {
    fn new() -> Users {
        let groups = fs::read_to_string("/etc/group").unwrap();
        Users {
            has_group: groups
                .lines()
                .any(|line| line.starts_with("spoolgate-agents:")),
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        for name in ["sg-test-bot", "sg-test-gate"] {
            let _ = Command::new("userdel")
                .args(["--remove", "--force", name])
                .output();
        }
        if !self.has_group {
            let _ = Command::new("groupdel").arg("spoolgate-agents").output();
        }
    }
}

#[test]
#[ignore = "makes users on this machine"]
fn separate_users_can_submit_and_nothing_else() {
    if !geteuid().is_root() || !there_is("useradd") || !there_is("runuser") {
        eprintln!("skipped: only root can make users");
        return;
    }
    let _users = Users::new();
    let dir = crate::kit::folder();
    mode(dir.path().to_owned(), 0o755);
    let home = dir.path().join("the gate's home");
    let key = home_for_users(dir.path(), &home);

    let mut watch = Command::new("runuser");
    watch
        .args(["-u", "sg-test-gate", "--", PROGRAM, "--home"])
        .arg(&home);
    watch.args(["watch", "--sandbox", "auto"]).current_dir("/");
    let mut gate = Gate::of(watch);
    gate.until("watching");
    let script = format!(
        "umask 027; cd; h='{}'; p={PROGRAM}; echo '{{\"symbol\":\"BTC-USD\"}}' > asked\n\
         $p sign asked --as trend-bot --key {key} --action market.get > r.json && $p --home \"$h\" \
         submit r.json --wait 20",
        home.display().to_string().replace('\'', r"'\''")
    );
    let as_bot = |args: &[&str], path: &Path| {
        let mut command = Command::new("runuser");
        command
            .args(["-u", "sg-test-bot", "--"])
            .args(args)
            .arg(path);
        command.output().unwrap()
    };
    let asked = as_bot(&["sh", "-c", &script], Path::new("sh"));
    let answered = String::from_utf8_lossy(&asked.stdout).into_owned();
    assert!(answered.contains("auditRef"), "{}", show(&asked));
    for path in [
        "rules/safety.yaml",
        "rules/new.yaml",
        "audit/log-00000001.jsonl",
        "state/state.db",
        "spool/out/x",
        "deploy/users.sh",
    ] {
        let done = as_bot(&["sh", "-c", "echo x >> \"$1\"", "sh"], &home.join(path));
        assert!(!done.status.success(), "{path} was written");
    }
    let read = as_bot(&["cat"], &home.join("state/keyring.db"));
    assert!(!read.status.success(), "the keyring was read");
    // A verdict could be in it.
    let listed = as_bot(&["ls"], &home.join("spool/in"));
    assert!(!listed.status.success(), "the spool was listed");
    // runuser passes the signal on.
    gate.tell(Signal::TERM);
    gate.child.wait().unwrap();
    let verified = as_user("sg-test-gate", &home, &["audit", "verify"]);
    assert!(verified.status.success(), "{}", show(&verified));
}

/// Makes a home and its users with the script, as an operator does. Returns the key file of the
/// agent's user.
fn home_for_users(dir: &Path, home: &Path) -> String {
    let names = ["--gate-user", "sg-test-gate", "--agent-user", "sg-test-bot"];
    let made = Command::new(PROGRAM)
        .arg("init")
        .arg(home)
        .args(names)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", show(&made));
    fs::write(home.join("rules/notify.yaml"), TOLD).unwrap();
    for _ in 0..2 {
        let done = Command::new("sh")
            .arg(home.join("deploy/users.sh"))
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", show(&done));
    }
    let doctor = as_user(
        "sg-test-gate",
        home,
        &["doctor", "--agent-user", "sg-test-bot"],
    );
    assert!(doctor.status.success(), "{}", show(&doctor));
    assert!(
        !String::from_utf8_lossy(&doctor.stdout).contains("warning"),
        "{}",
        show(&doctor)
    );
    let key = dir.join("bot.key");
    let key = key.to_str().unwrap();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).unwrap();
    let added = as_user(
        "sg-test-gate",
        home,
        &["keys", "add", "trend-bot", "--out", key],
    );
    assert!(added.status.success(), "{}", show(&added));
    mode(dir.to_owned(), 0o755);
    let to_bot = Command::new("chown")
        .args(["sg-test-bot", key])
        .status()
        .unwrap();
    assert!(to_bot.success());
    key.to_owned()
}

/// `unix_user` of principals: users that the machine does not know, one user under two names, and
/// the gate's own user.
#[test]
fn users_that_the_rules_name_are_looked_up() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let rules = home.join("rules/principals.yaml");
    let principals = fs::read_to_string(&rules).unwrap();
    let gate = home.join("state").metadata().unwrap().uid().to_string();
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let known = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<&str>>())
        .find(|fields| fields[2] != gate)
        .unwrap();
    let (name, uid) = (known[0], known[2]);
    let same = format!("`{uid}` and `{name}` are one system user: only `{name}` counts");
    let unknown = "`user-0` names a system user that does not exist: `no-such-user`".to_owned();
    let own = format!("`{gate}` is the gate's own user, whom `unix_user` does not restrict");
    for (named, expect) in [
        (vec![name], None),
        // A number need not be known.
        (vec!["4000000000"], None),
        (vec![name, name], None),
        (vec!["no-such-user"], Some(unknown)),
        (vec![name, uid], Some(same)),
        (vec![gate.as_str()], Some(own)),
    ] {
        let rows: String = named
            .iter()
            .enumerate()
            .map(|(n, user)| {
                format!("  - {{name: user-{n}, role: agent, unix_user: \"{user}\"}}\n")
            })
            .collect();
        fs::write(&rules, format!("{principals}{rows}")).unwrap();
        let found = examine(&home, None);
        let told = found
            .iter()
            .filter(|found| found.place == "rules/principals.yaml");
        let told: Vec<_> = told
            .map(|found| (found.level, found.what, &*found.message))
            .collect();
        let expect = expect
            .as_deref()
            .map(|message| (Level::Warning, "user", message));
        assert_eq!(told, Vec::from_iter(expect), "{named:?}");
    }
}
