//! The texts that `spoolgate init` writes to deploy/: commands that separate agent and gate, a
//! systemd unit, and crontab lines. The operator reviews and installs them; nothing here changes
//! the machine.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use spoolgate_home::doctor::quoted;

/// The group of all users that may drop requests.
const DOOR: &str = "spoolgate-agents";

/// The paths and users of a gate's setup.
pub(super) struct Deploy {
    home: PathBuf,
    program: PathBuf,
    gate: String,
    agent: String,
}

/// Accepts a user name that is valid on every system.
pub(super) fn user_name(text: &str) -> Result<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let is_other = |byte: u8| is_letter(byte) || byte.is_ascii_digit() || byte == b'-';
    let (first, rest) = (text.bytes().next(), text.bytes().skip(1));
    if first.is_some_and(is_letter) && rest.clone().all(is_other) && text.len() <= 31 {
        return Ok(text.to_owned());
    }
    bail!(
        "a user name starts with a lower-case letter or `_`, followed by at most 30 lower-case \
            letters, digits, `_` and `-`"
    )
}

impl Deploy {
    /// Creates the setup for this home and this program, with absolute paths.
    pub(super) fn new(home: &Path, gate: &str, agent: &str) -> Result<Deploy> {
        let home = fs::canonicalize(home).with_context(|| format!("home `{}`", home.display()))?;
        let program = std::env::current_exe().context("path of this program")?;
        for path in [&home, &program] {
            let is_plain = path
                .to_str()
                .is_some_and(|text| !text.contains(char::is_control));
            if !is_plain {
                bail!(
                    "`{}` contains characters that systemd units and crontabs cannot contain",
                    path.display()
                );
            }
        }
        Ok(Deploy {
            home,
            program,
            gate: gate.to_owned(),
            agent: agent.to_owned(),
        })
    }

    /// Returns the commands that separate the two users, to be run as root. They can be run again
    /// safely.
    pub(super) fn commands(&self) -> Vec<String> {
        let (gate, agent) = (&self.gate, &self.agent);
        let home = quoted(&self.home);
        let of = |names: &[&str]| -> String {
            names
                .iter()
                .map(|name| quoted(&self.home.join(name)))
                .collect::<Vec<_>>()
                .join(" ")
        };
        let user = |name: &str, more: &str| {
            format!(
                "getent passwd {name} > /dev/null || useradd --system --user-group {more} {name}"
            )
        };
        vec![
            format!("getent group {DOOR} > /dev/null || groupadd --system {DOOR}"),
            user(
                gate,
                &format!("--no-create-home --home-dir {home} --shell /usr/sbin/nologin"),
            ),
            user(agent, "--create-home --shell /bin/sh"),
            // Membership lets the gate read what agents drop, whatever their umask leaves to the
            // group.
            format!("usermod --append --groups {DOOR} {gate}"),
            format!("usermod --append --groups {DOOR} {agent}"),
            format!("chown -hR {gate}:\"$(id -gn {gate})\" {home}"),
            format!("chmod -R go-w {home}"),
            format!("chmod 0755 {home} {}", of(&["rules", "spool", "spool/out"])),
            format!(
                "chmod 0700 {}",
                of(&[
                    "state",
                    "audit",
                    "spool/local",
                    "spool/work",
                    "spool/rejected",
                    "council/cases"
                ])
            ),
            format!("chmod 0600 {}", of(&["state/keyring.db"])),
            // The files of held requests; other files there are for reviewers of rules.
            format!(
                "find {} -name 'h-*.yaml' -exec chmod 0600 {{}} +",
                of(&["proposals/pending"])
            ),
            format!("chgrp {DOOR} {}", of(&["spool/in"])),
            // Agents can create files there, but not list them: another agent's file may be a vote.
            format!("chmod 3730 {}", of(&["spool/in"])),
            // Root may run this script again, so no other user may change it.
            format!("chown -hR 0:0 {}", of(&["deploy"])),
        ]
    }

    /// Writes the files that do not exist yet.
    pub(super) fn write(&self, home: &Path) -> Result<()> {
        let folder = home.join("deploy");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(&folder)
            .with_context(|| format!("folder `{}`", folder.display()))?;
        for (name, text) in [
            ("users.sh", self.script()),
            ("spoolgate.service", self.unit()),
            ("crontab", self.crontab()),
        ] {
            let path = folder.join(name);
            match OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o644)
                .open(&path)
            {
                Ok(mut file) => file
                    .write_all(text.as_bytes())
                    .with_context(|| format!("file `{}`", path.display()))?,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("file `{}`", path.display()));
                }
            }
        }
        Ok(())
    }

    fn script(&self) -> String {
        format!(
            "#!/bin/sh\n# Gives the gate a user of its own, and agents the right to drop requests \
                and nothing else. As root: read it, then\n#   sh {}\n\
                # So that agents can fill no disk but their own, give the spool a volume before:\n\
                #   mount /dev/<volume> /mnt && cp -a {spool}/. /mnt && umount /mnt && mount \
                /dev/<volume> {spool}\nset -eu\n{}\n",
            quoted(&self.home.join("deploy/users.sh")),
            self.commands().join("\n"),
            spool = quoted(&self.home.join("spool")),
        )
    }

    fn unit(&self) -> String {
        let (home, program) = (unit_word(&self.home), unit_word(&self.program));
        // systemd expands `$` only in lines that start a program.
        let (exec_home, exec_program) = (home.replace('$', "$$"), program.replace('$', "$$"));
        let gate = &self.gate;
        // `ProtectHome=yes` would hide a home in these folders from its own gate.
        let is_hidden = ["/home", "/root", "/run/user"]
            .iter()
            .any(|folder| self.home.starts_with(folder) || self.program.starts_with(folder));
        let protect_home = if is_hidden { "read-only" } else { "yes" };
        let private_tmp = if self.home.starts_with("/tmp") || self.home.starts_with("/var/tmp") {
            "no"
        } else {
            "yes"
        };
        format!(
            "# To install, as root: cp {} /etc/systemd/system/ && systemctl enable --now spoolgate\n\
            [Unit]\n\
            Description=spoolgate, the gate between agents and money, mail and rules\n\
            After=local-fs.target time-sync.target network.target\n\
            # Whatever ends the gate, exits wait for it: it is started again for ever, a second later.\n\
            StartLimitIntervalSec=0\n\
            \n\
            [Service]\n\
            Type=simple\n\
            User={gate}\n\
            UMask=0022\n\
            ExecStart={exec_program} --home {exec_home} watch --sandbox require\n\
            # After `spoolgate keys reseal --to /etc/spoolgate/keyring.key`, the key to the keyring:\n\
            #LoadCredential=spoolgate-keyring:/etc/spoolgate/keyring.key\n\
            ExecReload=/bin/kill -HUP $MAINPID\n\
            # The gate waits for outgoing actions; the longest may take 600 s.\n\
            TimeoutStopSec=660\n\
            KillMode=mixed\n\
            Restart=on-failure\n\
            RestartSec=1\n\
            # Usage, a ledger that does not verify, another gate: trying again cures none of \
            them.\n\
            RestartPreventExitStatus=2 5 7\n\
            LimitNOFILE=4096\n\
            # All of this also holds for programs of the rules. If one of them must write \
            elsewhere, add the folder to\n\
            # ReadWritePaths= here, and to ExecStart above with --allow-write.\n\
            ReadWritePaths={home}\n\
            ProtectSystem=strict\n\
            ProtectHome={protect_home}\n\
            PrivateTmp={private_tmp}\n\
            PrivateDevices=yes\n\
            ProtectProc=invisible\n\
            ProtectClock=yes\n\
            ProtectControlGroups=yes\n\
            ProtectHostname=yes\n\
            ProtectKernelLogs=yes\n\
            ProtectKernelModules=yes\n\
            ProtectKernelTunables=yes\n\
            NoNewPrivileges=yes\n\
            CapabilityBoundingSet=\n\
            AmbientCapabilities=\n\
            RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\n\
            RestrictNamespaces=yes\n\
            RestrictRealtime=yes\n\
            RestrictSUIDSGID=yes\n\
            LockPersonality=yes\n\
            RemoveIPC=yes\n\
            SystemCallArchitectures=native\n\
            \n\
            [Install]\n\
            WantedBy=multi-user.target\n\
            ",
            quoted(&self.home.join("deploy/spoolgate.service")),
        )
    }

    fn crontab(&self) -> String {
        let gate = &self.gate;
        // Cron reads every `%` as a line feed, even inside quotes.
        let word = |path: &Path| quoted(path).replace('%', r"\%");
        let (home, program) = (word(&self.home), word(&self.program));
        format!(
            "# Instead of the service, for homes that need no answer at once. To install, as \
                root: crontab -u {gate} {}\n\
                */5 * * * * {program} --home {home} run --until-idle\n\
                # Beside either: the whole ledger, every night.\n\
                17 3 * * * {program} --home {home} audit verify > /dev/null\n",
            quoted(&self.home.join("deploy/crontab")),
        )
    }
}

/// Quotes a path as a word in a systemd unit, and doubles the characters that systemd would expand.
fn unit_word(path: &Path) -> String {
    let text = path
        .to_string_lossy()
        .replace('\\', r"\\")
        .replace('"', "\\\"")
        .replace('%', "%%");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(home: &str) -> Deploy {
        Deploy {
            home: PathBuf::from(home),
            program: PathBuf::from("/usr/bin/spoolgate"),
            gate: "spoolgate".to_owned(),
            agent: "agent".to_owned(),
        }
    }

    #[test]
    fn paths_stay_single_words_everywhere() {
        let home = of("/srv/100% my \"gate's\" $(x)");
        assert!(
            home.unit()
                .contains(r#"--home "/srv/100%% my \"gate's\" $$(x)" watch"#),
            "{}",
            home.unit()
        );
        assert!(
            home.unit()
                .contains("ReadWritePaths=\"/srv/100%% my \\\"gate's\\\" $(x)\"\n"),
            "{}",
            home.unit()
        );
        assert!(
            home.crontab()
                .contains(r#"--home '/srv/100\% my "gate'\''s" $(x)' run"#),
            "{}",
            home.crontab()
        );
        let quoted = r#"'/srv/100% my "gate'\''s" $(x)/spool/in'"#;
        assert!(
            home.commands()
                .iter()
                .any(|command| command == &format!("chmod 3730 {quoted}"))
        );
    }

    #[test]
    fn names_of_users() {
        for (name, good) in [
            ("spoolgate", true),
            ("_gate-1", true),
            ("", false),
            ("1a", false),
            ("Ann", false),
            ("a b", false),
            ("-x", false),
            ("a;b", false),
        ] {
            assert_eq!(user_name(name).is_ok(), good, "{name}");
        }
        assert!(user_name(&"a".repeat(32)).is_err());
    }

    #[test]
    fn homes_are_not_hidden_from_their_own_gate() {
        assert!(
            of("/srv/gate")
                .unit()
                .contains("ProtectHome=yes\nPrivateTmp=yes\n")
        );
        assert!(
            of("/home/ann/gate")
                .unit()
                .contains("ProtectHome=read-only\n")
        );
        assert!(of("/tmp/gate").unit().contains("PrivateTmp=no\n"));
    }
}
