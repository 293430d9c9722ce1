//! What is in the home: locks, requests left behind, ledger, keys, rules and their programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::opening::{self, Opened};
use super::{Level, Looking, is_open, quoted};
use crate::closed::silent_venues;
use crate::index::Store;
use crate::index::store::STATE_FILE;
use crate::outbox::OUTBOX_DIR;
use crate::read::record_in;
use crate::sandbox::programs;
use crate::status::holder;
use spoolgate_gate::record::{Cage, Record};
use spoolgate_host::cage::{self, Bounds, Outcome, Tried};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::command;
use spoolgate_host::doctor::{self as machine, STICKY, User};
use spoolgate_host::keyring::{KEYRING_FILE, KeyringError, SqliteKeyring, key_file};
use spoolgate_host::lock::LOCK_FILE;
use spoolgate_host::real_disk::RealDisk;
use spoolgate_host::rule_folder;
use spoolgate_host::sandbox::files_of;
use spoolgate_ledger::segment;
use spoolgate_rules::Rulebook;
use spoolgate_rules::approval;
use spoolgate_rules::command::CommandRule;
use spoolgate_rules::lint::council;
use spoolgate_rules::lint::meaning::Warning;
use spoolgate_rules::notify::{self, Kind};
use spoolgate_rules::safety::CageLevel;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::ids::UnixUser;

/// Clock steps that the gate itself ignores, milliseconds.
const CLOCK_SLACK_MS: i64 = 2000;

/// How many leases without causality are read at most, newest first.
const LEASES_READ: u32 = 256;

/// How often the kill switch is to be drilled, days.
const DRILL_DAYS: i64 = 90;

impl Looking {
    /// Reports who holds the lock.
    pub(super) fn holder(&mut self) {
        let path = self.home.join(LOCK_FILE);
        match machine::holders(&path).as_slice() {
            [] => self.ok("lock", &path, "no gate seems to be running over this home"),
            [(pid, name)] if name.starts_with("spoolgate") => {
                self.ok("lock", &path, &format!("a gate is running: process {pid}"));
            }
            holders => {
                let names: Vec<String> = holders
                    .iter()
                    .map(|(pid, name)| format!("{name} ({pid})"))
                    .collect();
                let remedy = holders.first().map(|(pid, _)| format!("ps -fp {pid}"));
                self.warn(
                    "lock",
                    &path,
                    &format!("is held by {}, which is not a gate", names.join(", ")),
                    remedy,
                );
            }
        }
    }

    /// Reports what earlier runs left behind.
    pub(super) fn left_behind(&mut self) {
        let home = self.home.clone();
        let runs = !machine::holders(&home.join(LOCK_FILE)).is_empty();
        let sockets = machine::below(&home, 2).filter(|path| {
            let pid = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix(".s"));
            let pid = pid
                .and_then(|rest| rest.split_once('.'))
                .and_then(|(pid, _)| u32::from_str_radix(pid, 16).ok());
            pid.is_some_and(|pid| machine::process_name(pid).is_none())
        });
        for path in sockets.collect::<Vec<_>>() {
            let remedy = Some(format!("rm {}", quoted(&path)));
            self.note("leftover", &path, "a socket left by a killed gate", remedy);
        }
        let work = home.join("spool/work");
        let claims = machine::names(&work).map_or(0, |claims| claims.len());
        if claims > 0 && !runs {
            let message = format!(
                "{claims} requests were begun and not finished; the next start decides them"
            );
            self.note(
                "leftover",
                &work,
                &message,
                Some(self.command("run --until-idle")),
            );
        }
    }

    /// Checks what only the ledger, the index, the keyring and the rules can tell.
    pub(super) fn contents(&mut self) {
        let home = self.home.clone();
        self.log_keys(&home);
        let index = home.join(STATE_FILE);
        // Reading an index that no process has open would create files beside it.
        let runs = !machine::holders(&home.join(LOCK_FILE)).is_empty();
        let opened = if runs {
            Store::open_read_only(&home)
        } else {
            Store::open_untouched(&home)
        };
        let fault = match &opened {
            Ok(store) => store.snapshot().err().map(|why| why.to_string()),
            Err(why) => Some(why.to_string()),
        };
        if let Some(why) = fault.filter(|_| machine::owned(&index).is_ok()) {
            let message = format!("cannot be read; it is only a cache of the ledger: {why}");
            self.warn("state", &index, &message, Some(self.command("rebuild")));
        }
        match rule_folder::load(&home).and_then(|bundle| Rulebook::compile_to_apply(&bundle)) {
            Ok(book) => {
                self.unix_users(&book);
                self.programs(&book);
                self.receivers(&book);
                for Warning { at, .. } in council::warnings(&book) {
                    self.warn("council", Path::new(&at.file), &at.message, None);
                }
                for Warning { at, .. } in book.approvers.iter().flat_map(approval::warnings) {
                    let line = at.line.unwrap_or_default();
                    let message = format!("line {line}: {}", at.message);
                    self.warn("approvers", Path::new(&at.file), &message, None);
                }
                if let Ok(store) = &opened {
                    self.free_leases(&book, store);
                }
            }
            Err(fault) => {
                let remedy = Some(self.command("rules lint"));
                self.error(
                    "rules",
                    Path::new("rules"),
                    &format!("cannot be used, so entries are closed: {fault}"),
                    remedy,
                );
            }
        }
        match opening::look(&home, opened.ok(), runs) {
            Ok(opened) => {
                self.ok("ledger", Path::new("audit"), "a gate can start from it");
                self.clock(&opened);
                self.version(opened.state.program.as_str());
                self.credentials(&opened);
                self.drilled(&opened);
                self.bridges(&opened);
                if let Some(refused) = &opened.state.rulebook.refused {
                    let remedy = "undo the change, or let approvers sign the statement of `rules \
                        review`";
                    let place = Path::new("rules");
                    self.warn("rules", place, &refused.in_words(), Some(remedy.to_owned()));
                }
            }
            Err(error) if machine::names(&home.join(segment::AUDIT_DIR)).is_err() => {
                let remedy = Some(format!(
                    "sudo -u {} {}",
                    self.owner(),
                    self.command("doctor")
                ));
                self.note(
                    "unseen",
                    Path::new("audit"),
                    &format!("the ledger cannot be read: {error}"),
                    remedy,
                );
            }
            // A linked `audit` folder is already reported as a link.
            Err(_)
                if machine::owned(&home.join(segment::AUDIT_DIR))
                    .is_ok_and(|it| it.kind.is_symlink()) => {}
            Err(error) => {
                let why = error.to_string();
                // `audit verify` knows nothing of the heads that the home remembers.
                let remedy = if why.contains("accept-rollback") {
                    let audit = quoted(&home.join(segment::AUDIT_DIR));
                    format!(
                        "restore the newest copy of {audit}, or: {}",
                        self.command("audit accept-rollback --help")
                    )
                } else {
                    self.command("audit verify")
                };
                let message = format!("no gate starts from it: {why}");
                self.error("ledger", Path::new("audit"), &message, Some(remedy));
            }
        }
    }

    fn log_keys(&mut self, home: &Path) {
        let path = home.join(KEYRING_FILE);
        match SqliteKeyring::open_read_only(home).and_then(|keyring| keyring.log_keys()) {
            Ok(_) => {
                self.ok("log-keys", &path, "has the log's keys");
                self.keyring_key(home);
            }
            Err(KeyringError::File { source, .. })
                if source.kind() == ErrorKind::PermissionDenied =>
            {
                let remedy = Some(format!(
                    "sudo -u {} {}",
                    self.owner(),
                    self.command("doctor")
                ));
                self.note("unseen", &path, "the keyring cannot be read", remedy);
            }
            Err(KeyringError::Key { path, what }) => {
                let remedy = Some(self.command("--help"));
                self.error("log-keys", &path, &what, remedy);
            }
            Err(error) => {
                let remedy = Some(format!("restore {} from a copy", quoted(&path)));
                self.error("log-keys", &path, &error.to_string(), remedy);
            }
        }
    }

    /// Checks that the programs of the rules can be started in their cage, by trying to leave one.
    fn cage(&mut self, book: &Rulebook) {
        let (kernel, level) = (Path::new("kernel"), book.safety.cage);
        let named = programs(book);
        let set = "or set `cage: auto` in rules/safety.yaml, if programs may run with less";
        if level == CageLevel::Off {
            if !named.is_empty() {
                let message = "`cage: off`: programs of the rules can do everything that the gate \
                    can";
                let remedy = Some("set `cage: require` in rules/safety.yaml".to_owned());
                self.warn("cage", kernel, message, remedy);
            }
            return;
        }
        match command::try_ways_out(&self.home, &Bounds::at(level)) {
            Ok((Some(cage), tried)) => {
                let (level, message) = ways_out(&cage, &tried);
                let remedy = (level > Level::Note).then(|| "boot Linux 6.12 or newer".to_owned());
                self.say(level, "cage", kernel, &message, remedy);
            }
            // Only without a cage.
            Ok((None, _)) => {}
            Err(error) if named.is_empty() => {
                self.note("cage", kernel, &error.to_string(), Some(set.to_owned()));
            }
            Err(error) => self.error("cage", kernel, &error.to_string(), Some(set.to_owned())),
        }
        for (by, spec) in named.iter().filter(|(_, spec)| spec.unix_sockets) {
            let message = format!(
                "`{}` of {by} may use Unix sockets: it reaches every service of this machine that \
                    listens on one",
                spec.program
            );
            self.warn("cage", Path::new(by), &message, None);
        }
        self.withheld(&named);
    }

    /// Names what the rules name and what cages do not open.
    fn withheld(&mut self, named: &[(String, &CommandRule)]) {
        let home = self.home.clone();
        for (by, spec) in named {
            for (_, why) in cage::refused_paths(&home, spec) {
                let remedy = Some(format!("change {by}"));
                self.error("cage", Path::new(by), &why, remedy);
            }
            for path in cage::withheld(&home, spec) {
                let message = format!(
                    "an argument of `{}` names `{}`, which its cage does not open",
                    spec.program,
                    path.display()
                );
                let remedy = if cage::is_closed(&home, &path) {
                    format!("move it out of the gate's folders, and change {by}")
                } else {
                    format!("name it in `read:` or `write:` of the command in {by}")
                };
                self.warn("cage", Path::new(by), &message, Some(remedy));
            }
        }
    }

    /// Says where the key to the keyring is, if a copy of the home has it.
    fn keyring_key(&mut self, home: &Path) {
        let key = key_file(home);
        let is_inside = |path: &Path| machine::real(path).map(|path| path.to_path_buf());
        let inside = is_inside(&key).zip(is_inside(home));
        if inside.is_some_and(|(key, home)| key.starts_with(home)) {
            self.note(
                "keyring-key",
                &key,
                "a copy of this home has the key to its keyring",
                Some(self.command("keys reseal --to FILE")),
            );
        }
    }

    /// Checks that this machine knows the system users that may use the socket, each by one name.
    fn unix_users(&mut self, book: &Rulebook) {
        let mut known: BTreeMap<u32, &UnixUser> = BTreeMap::new();
        for rule in book.principals.values() {
            let Some(user) = &rule.unix_user else {
                continue;
            };
            let uid = machine::user(user.as_str()).map(|known| known.uid);
            let uid = uid.or_else(|| user.as_str().parse().ok());
            let other = uid.map(|uid| *known.entry(uid).or_insert(user));
            if let Some(uid) = uid {
                self.reaches_socket(user, uid);
            }
            let message = match other {
                None => format!(
                    "`{}` names a system user that does not exist: `{user}`",
                    rule.name
                ),
                Some(other) if other != user => {
                    format!("`{user}` and `{other}` are one system user: only `{other}` counts")
                }
                Some(_) if uid == self.gate => {
                    format!("`{user}` is the gate's own user, whom `unix_user` does not restrict")
                }
                Some(_) => continue,
            };
            let remedy = Some("change unix_user in rules/principals.yaml".to_owned());
            self.warn("user", Path::new("rules/principals.yaml"), &message, remedy);
        }
    }

    /// Checks that a user that the rules name can connect to the socket of the watcher that runs.
    fn reaches_socket(&mut self, user: &UnixUser, uid: u32) {
        let disk = RealDisk::open(&self.home).ok();
        let holder = disk.and_then(|disk| holder(&self.home, &disk).ok().flatten());
        let socket = holder.and_then(|holder| holder.watcher?.socket);
        let Some(socket) = socket else { return };
        let user = machine::user(user.as_str()).unwrap_or_else(|| User {
            name: user.to_string(),
            uid,
            gids: BTreeSet::new(),
        });
        if user.can(&socket, 2) {
            return;
        }
        let message = format!(
            "`{}`, whom rules/principals.yaml names, cannot connect to this socket of the gate: it \
                needs mode 0666, which the gate sets every second or reports why it cannot, in a \
                folder that this user can enter",
            user.name
        );
        let remedy = Some(format!("namei -l {}", quoted(&socket)));
        self.warn("socket", &socket, &message, remedy);
    }

    /// Warns until somebody is told that entries are closed.
    fn receivers(&mut self, book: &Rulebook) {
        let path = self.home.join(notify::PATH);
        let is_told = |kind| book.notify.to.iter().any(|it| it.hears(kind));
        let untold: Vec<&str> = [Kind::Halt, Kind::LossStop]
            .into_iter()
            .filter(|kind| !is_told(*kind))
            .map(Kind::as_str)
            .collect();
        if untold.is_empty() {
            let count = book.notify.to.len();
            let receivers = if count == 1 { "receiver" } else { "receivers" };
            self.ok("notify", &path, &format!("{count} {receivers}"));
            return;
        }
        let message = format!("nobody is told of {}", untold.join(", "));
        let remedy = format!(
            "name a receiver in {}, then {}",
            notify::PATH,
            self.command("notify test")
        );
        self.warn("notify", &path, &message, Some(remedy));
    }

    /// Checks that the programs of the rules exist and can be run, and that nobody else can change them.
    fn programs(&mut self, book: &Rulebook) {
        let home = self.home.clone();
        self.cage(book);
        for (by, spec) in programs(book) {
            let Some(program) = command::find(&home, &spec.program) else {
                let message = format!("`{}`, which {by} names, does not exist", spec.program);
                let remedy = Some(format!("install it, or change {by}"));
                self.warn("program", Path::new(&spec.program), &message, remedy);
                continue;
            };
            if machine::owned(&program).is_ok_and(|found| found.mode & 0o111 == 0) {
                let message = format!("`{}`, which {by} names, cannot be run", spec.program);
                let remedy = Some(format!("chmod +x {}", quoted(&program)));
                self.warn("program", &program, &message, remedy);
                continue;
            }
            for path in files_of(&home, &spec.program, &spec.args) {
                let on_the_way = path.ancestors().take_while(|path| *path != home);
                let open = on_the_way.filter_map(|path| Some((path, machine::owned(path).ok()?)));
                let others = open.filter(|(at, found)| {
                    let is_shared = *at != path && found.mode & STICKY != 0;
                    is_open(found) && !is_shared
                });
                let others: Vec<PathBuf> = others.map(|(path, _)| path.to_owned()).collect();
                for at in others {
                    let remedy = Some(format!("chmod go-w {}", quoted(&at)));
                    let message = format!(
                        "other users can change `{}`, which the gate runs for {by}",
                        path.display()
                    );
                    self.error("program", &at, &message, remedy);
                }
                let agent = self
                    .agent
                    .as_ref()
                    .filter(|agent| agent.uid != 0 && Some(agent.uid) != self.gate);
                if agent.is_some_and(|agent| agent.can(&path, 2) || agent.can_move(&path).is_some())
                {
                    let remedy = Some(format!("chown root {0} && chmod go-w {0}", quoted(&path)));
                    let message =
                        format!("the agent can change this program, which the gate runs for {by}");
                    self.error("program", &path, &message, remedy);
                }
            }
        }
    }

    /// Reports the admission profiles whose leases came without causality and are denied now, as far
    /// as the newest of these leases tell. What an index that cannot be read would tell is said once
    /// it can.
    fn free_leases(&mut self, book: &Rulebook, store: &Store) {
        let Ok(disk) = RealDisk::open(&self.home) else {
            return;
        };
        let mut last: BTreeMap<String, u64> = BTreeMap::new();
        for seq in store.free_leases(LEASES_READ).unwrap_or_default() {
            // A line that was pruned tells nothing.
            let Ok(Some(Record::Decision(decision))) = record_in(&disk, store, seq) else {
                continue;
            };
            let receipt = decision.receipt.as_deref();
            let domain = receipt.and_then(|receipt| {
                let tenant = receipt.tenant_id.as_deref()?;
                let surface = receipt.surface_id.as_deref()?;
                Some([tenant, surface, receipt.policy_profile_id.as_deref()?].join("/"))
            });
            if let Some(domain) = domain {
                last.entry(domain).or_insert(seq);
            }
        }
        for (domain, policy) in &book.admission {
            let line = last.get(&domain.to_string());
            if let Some(line) = line.filter(|_| policy.profile.leases_per_hour.is_none()) {
                let path = PathBuf::from(format!("rules/admission/{domain}.yaml"));
                let message = format!(
                    "leases without causality were admitted, the last in line {line}, and are \
                        denied now; write `leases_per_hour` if they are wanted"
                );
                let remedy = Some(self.command(&format!("explain {line}")));
                self.warn("lease", &path, &message, remedy);
            }
        }
    }

    fn clock(&mut self, opened: &Opened) {
        let place = Path::new("clock");
        let accept = self.command("clock accept --reason \"looked at it\"");
        if let Some(why) = opened.state.clock_fault() {
            return self.warn("clock", place, &why, Some(accept));
        }
        let (Some(last), now) = (opened.state.clock.last, SystemClock::default().now()) else {
            return;
        };
        if last.since_ms(now) > CLOCK_SLACK_MS {
            let message = format!(
                "the ledger's last line was written at {last}, and the machine's clock shows \
                    {now}: entries will be closed; set the clock if it is wrong, accept it if it \
                    is right"
            );
            self.warn("clock", place, &message, Some(accept));
        } else {
            self.ok(
                "clock",
                place,
                &format!("{now}; the ledger's last line was written at {last}"),
            );
        }
    }

    pub(super) fn version(&mut self, theirs: &str) {
        let ours = spoolgate_wire::VERSION;
        if theirs.is_empty() || theirs == ours {
            self.ok("version", Path::new("audit"), ours);
        } else {
            let message =
                format!("version {theirs} wrote the newest lines; this is version {ours}");
            self.note(
                "version",
                Path::new("audit"),
                &message,
                Some("spoolgate --version".to_owned()),
            );
        }
    }

    /// Asks for a drill of the kill switch where there is money that it would protect.
    fn drilled(&mut self, opened: &Opened) {
        let (book, now) = (&opened.state.book, SystemClock::default().now());
        if book.account.net_deposits.is_zero() && book.orders.is_empty() {
            return;
        }
        let place = Path::new("audit");
        let message = match opened.state.drilled_at {
            Some(at) if now.since_ms(at) < DRILL_DAYS.saturating_mul(86_400_000) => {
                return self.ok(
                    "drill",
                    place,
                    &format!("the kill switch was drilled at {at}"),
                );
            }
            Some(at) => {
                format!("the kill switch was last drilled at {at}, over {DRILL_DAYS} days ago")
            }
            None => "the kill switch was never drilled".to_owned(),
        };
        let remedy = self.command("kill --drill --reason \"quarterly drill\"");
        self.note("drill", place, &message, Some(remedy));
    }

    /// Reports what keeps entries from venues. Where no gate runs, that is as it was when one did.
    fn bridges(&mut self, opened: &Opened) {
        let now = SystemClock::default().now();
        for why in silent_venues(&opened.state, &opened.rulebook, now) {
            let remedy = Some(self.command("status"));
            self.note("bridge", Path::new(OUTBOX_DIR), &why, remedy);
        }
    }

    fn credentials(&mut self, opened: &Opened) {
        let place = Path::new("rules/services.yaml");
        for (name, record) in &opened.state.credentials {
            let service = opened
                .rulebook
                .services
                .services
                .iter()
                .find(|service| service.service == *name);
            let remove = Some(self.command(&format!("services credential remove {name}")));
            match service {
                None => self.warn(
                    "credential",
                    place,
                    &format!("a credential of `{name}`, which is not a service"),
                    remove,
                ),
                Some(service) if service.host != record.host => {
                    let message = format!(
                        "the credential of `{name}` is for `{}`, the service is at `{}`",
                        record.host, service.host
                    );
                    let remedy =
                        self.command(&format!("services credential set {name} --from FILE"));
                    self.warn("credential", place, &message, Some(remedy));
                }
                Some(_) => {}
            }
        }
        let calls = |action: &str, name| {
            opened
                .rulebook
                .gateway
                .adapter(action, name)
                .is_some_and(|adapter| adapter.command.is_some())
        };
        for service in opened
            .rulebook
            .services
            .services
            .iter()
            .filter(|service| service.is_active)
        {
            let name = &service.service;
            let is_served = calls(ActionName::ServiceApiCall.as_str(), name.as_str())
                || service
                    .actions
                    .iter()
                    .any(|action| calls(action, name.as_str()));
            if is_served && !opened.state.credentials.contains_key(name) {
                let message = format!(
                    "`{name}` has an adapter but no credential; that is right only if it needs none"
                );
                let remedy = self.command(&format!("services credential set {name} --from FILE"));
                self.note("credential", place, &message, Some(remedy));
            }
        }
    }
}

/// How bad it is that some ways out of a cage are open, and what to say.
fn ways_out(cage: &Cage, tried: &[Tried]) -> (Level, String) {
    let mut level = Level::Ok;
    let mut message = format!(
        "Landlock {}, {}seccomp: {} of {} ways out are closed",
        cage.landlock,
        if cage.calls { "" } else { "no " },
        tried
            .iter()
            .filter(|way| way.outcome == Outcome::Closed)
            .count(),
        tried.len(),
    );
    for way in tried {
        let (found, text) = match &way.outcome {
            Outcome::Closed => continue,
            Outcome::Unclear(error) => (Level::Note, format!("could not be tried ({error})")),
            Outcome::Open if way.can_be_closed(cage) => (
                Level::Error,
                "is open, although this kernel has what closes it".to_owned(),
            ),
            Outcome::Open => (Level::Warning, format!("is open ({})", way.closed_by())),
        };
        level = level.max(found);
        message += &format!("; {} {text}", way.name);
    }
    (level, message)
}
