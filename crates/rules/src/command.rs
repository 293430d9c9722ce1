//! An external program that a rule file names. It answers for a council role, performs an outgoing
//! action, tells people what happens, or delivers a policy or a lineage.

use std::num::NonZeroU16;

use serde::{Deserialize, Serialize};

#[cfg(feature = "schema")]
use super::bounds::Bounded;
use super::bounds::{AtLeast, Count, OutOfBounds};

/// Folders of a home that no program may read or write: rules, requests, answers and evidence. The
/// last one holds the folders that programs get for their own files.
pub const FOLDERS_OF_THE_GATE: [&str; 8] = [
    "rules",
    "audit",
    "state",
    "spool",
    "proposals",
    "council",
    "deploy",
    "scratch",
];
/// Folders of the system that no rule may open as a whole.
const OF_THE_SYSTEM: [&str; 4] = ["/", "/proc", "/sys", "/dev"];
/// Most ports or paths of one program.
const ENTRIES_MAX: usize = 64;
/// Least memory that a program can be given, bytes.
const MEMORY_BYTES_MIN: u64 = 16 * 1024 * 1024;
/// Most memory that a program can be given, bytes.
const MEMORY_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;
/// Memory of a program whose rule does not say how much, bytes.
const MEMORY_BYTES: u64 = 1024 * 1024 * 1024;

/// Longest time that a program may run, seconds.
const TIME_S_MAX: u32 = 3600;
/// Largest output of a program, bytes.
const OUTPUT_BYTES_MAX: u32 = 1024 * 1024;

/// Why a program cannot be started as a rule file says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The program has no path, or a NUL would end a text early.
    #[error("`program` is empty, or it or its arguments hold a NUL")]
    Program,
    /// A limit is larger than it may be here.
    #[error("`{0}` {1}")]
    Limit(&'static str, #[source] OutOfBounds),
    /// A list is too long.
    #[error("`{0}` has more than {ENTRIES_MAX} entries")]
    TooMany(&'static str),
    /// Only the program of an adapter has a service.
    #[error("`network: service` is for adapters; list the ports, as in `network: [443]`")]
    NoService,
}

/// A file or folder of a rule file that a program may use. Links are followed only when the program
/// starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place(String);

impl Place {
    /// The path as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Place {
    type Error = PlaceError;

    fn try_from(path: String) -> Result<Place, PlaceError> {
        match fault_of_path(&path) {
            Some(fault) => Err(PlaceError { path, fault }),
            None => Ok(Place(path)),
        }
    }
}

impl From<Place> for String {
    fn from(place: Place) -> String {
        place.0
    }
}

/// A path that a program may not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {fault}")]
pub struct PlaceError {
    path: String,
    fault: PathFault,
}

/// Why a program may not have a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    /// It is empty or holds a NUL.
    #[error("is not a path")]
    NoPath,
    /// It has a `..`, so nobody can say where it leads.
    #[error("holds `..`; write the path without it")]
    Up,
    /// It is the home.
    #[error("is the home, which holds the folders of the gate; name a folder of your own in it")]
    Home,
    /// It is a folder of the gate, or below one.
    #[error("is in a folder of the gate; programs may not use those")]
    OfTheGate,
    /// It is too much.
    #[error("is a folder of the whole system; name what the program needs below it")]
    OfTheSystem,
}

/// Finds out why a program may not have a path of a rule file.
fn fault_of_path(path: &str) -> Option<PathFault> {
    if path.is_empty() || path.contains('\0') {
        return Some(PathFault::NoPath);
    }
    let parts: Vec<&str> = path
        .split('/')
        .filter(|part| !part.is_empty() && *part != ".")
        .collect();
    if parts.contains(&"..") {
        return Some(PathFault::Up);
    }
    if path.starts_with('/') {
        let plain = format!("/{}", parts.join("/"));
        return OF_THE_SYSTEM
            .contains(&plain.as_str())
            .then_some(PathFault::OfTheSystem);
    }
    match parts.first() {
        None => Some(PathFault::Home),
        Some(first) if FOLDERS_OF_THE_GATE.contains(first) => Some(PathFault::OfTheGate),
        Some(_) => None,
    }
}

/// A word for the ports of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NetworkWord {
    /// No network at all.
    None,
    /// The port of the service that the action goes to.
    Service,
}

/// The network that a program may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(
    untagged,
    expecting = "`none`, `service` or a list of ports from 1 to 65535"
)]
pub enum Network {
    /// A word for them.
    Word(NetworkWord),
    /// These ports, of any host.
    Ports(Vec<NonZeroU16>),
}

impl Default for Network {
    fn default() -> Network {
        Network::Word(NetworkWord::None)
    }
}

impl Network {
    fn is_none(&self) -> bool {
        *self == Network::default()
    }
}

/// Memory that a program may use, bytes.
pub type Memory = Count<MEMORY_BYTES_MIN, MEMORY_BYTES_MAX>;

fn is_usual(memory: &Memory) -> bool {
    *memory == Memory::usual::<MEMORY_BYTES>()
}

fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A program that the gate starts without a shell. It reads the request from its standard input and
/// writes its answer to its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRule {
    /// Path of the program.
    #[schemars(length(min = 1))]
    pub program: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// How long it may run, seconds.
    #[schemars(with = "Bounded<1, TIME_S_MAX>")]
    pub time_limit_s: AtLeast<1>,
    /// How much it may write to its standard output, bytes.
    #[schemars(with = "Bounded<1, { 8 * OUTPUT_BYTES_MAX }>")]
    pub output_bytes_max: AtLeast<1>,
    /// Files and folders that it may read and run besides; relative ones are below the home.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", length(max = ENTRIES_MAX))]
    pub read: Vec<Place>,
    /// Files and folders that it may also write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>", length(max = ENTRIES_MAX))]
    pub write: Vec<Place>,
    /// The ports that it may connect to: `none`, `service` (of adapters) or a list.
    #[serde(default, skip_serializing_if = "Network::is_none")]
    pub network: Network,
    /// How much memory it may use for data, bytes.
    #[serde(
        default = "Memory::usual::<MEMORY_BYTES>",
        skip_serializing_if = "is_usual"
    )]
    pub memory_bytes_max: Memory,
    /// Whether it may use Unix sockets, through which it reaches every service of this machine that
    /// listens on one.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unix_sockets: bool,
}

impl CommandRule {
    /// Returns the memory of a program whose rule does not say how much.
    pub fn usual_memory() -> Memory {
        Memory::usual::<MEMORY_BYTES>()
    }

    /// Checks that the program can be started and that its limits are in range.
    ///
    /// # Errors
    /// Returns [`CommandError`] for the first wrong member.
    pub fn check(&self) -> Result<(), CommandError> {
        if self.network == Network::Word(NetworkWord::Service) {
            return Err(CommandError::NoService);
        }
        self.check_within(TIME_S_MAX, OUTPUT_BYTES_MAX)
    }

    /// Like [`CommandRule::check`], with other upper bounds (seconds, bytes), for a program that has
    /// a service.
    ///
    /// # Errors
    /// Returns [`CommandError`] for the first wrong member.
    pub fn check_within(&self, time_s_max: u32, output_bytes_max: u32) -> Result<(), CommandError> {
        let whole = |text: &String| !text.contains('\0');
        if self.program.is_empty() || !whole(&self.program) || !self.args.iter().all(whole) {
            return Err(CommandError::Program);
        }
        for (key, paths) in [("read", &self.read), ("write", &self.write)] {
            if paths.len() > ENTRIES_MAX {
                return Err(CommandError::TooMany(key));
            }
        }
        if let Network::Ports(ports) = &self.network
            && ports.len() > ENTRIES_MAX
        {
            return Err(CommandError::TooMany("network"));
        }
        let limits = [
            ("time_limit_s", *self.time_limit_s, time_s_max),
            ("output_bytes_max", *self.output_bytes_max, output_bytes_max),
        ];
        match limits.into_iter().find(|(_, value, most)| value > most) {
            Some((key, value, most)) => {
                Err(CommandError::Limit(key, OutOfBounds::above(value, most)))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::notify::Notify;

    /// Reads a command with this as its last line, the sixth of the file.
    fn read(last: &str) -> Result<(), String> {
        let text = format!(
            "command:\n  program: sh\n  args: []\n  time_limit_s: 1\n  output_bytes_max: 1\n  {last}\n"
        );
        let read = Notify::read("rules/notify.yaml", &text);
        read.map(drop).map_err(|fault| fault.to_string())
    }

    #[test]
    fn each_bound_of_a_command() {
        let ports = |port: u32| format!("network: [{port}]");
        for (port, is_good) in [
            (0, false),
            (1, true),
            (2, true),
            (65_534, true),
            (65_535, true),
            (65_536, false),
        ] {
            assert_eq!(read(&ports(port)).is_ok(), is_good, "{port}");
        }
        let (least, most) = (super::MEMORY_BYTES_MIN, super::MEMORY_BYTES_MAX);
        for (bytes, is_good) in [
            (least - 1, false),
            (least, true),
            (least + 1, true),
            (most - 1, true),
            (most, true),
            (most + 1, false),
        ] {
            let read = read(&format!("memory_bytes_max: {bytes}"));
            assert_eq!(read.is_ok(), is_good, "{bytes}");
        }
        for (count, is_good) in [(63, true), (64, true), (65, false)] {
            let list = |entry: &str| vec![entry; count].join(", ");
            for text in [
                format!("network: [{}]", list("443")),
                format!("read: [{}]", list("data")),
                format!("write: [{}]", list("/srv/data")),
            ] {
                assert_eq!(read(&text).is_ok(), is_good, "{count} {text}");
            }
        }
    }

    #[test]
    fn a_path_that_no_program_may_use_is_told_with_its_line() {
        for path in [
            "rules",
            "./audit/x",
            "state/",
            "spool/in",
            "proposals",
            "council",
            "deploy",
            "scratch",
            ".",
            "a/../state",
            "''",
            "/",
            "//",
            "/proc",
            "/sys/",
            "/dev/.",
            "/srv/..",
        ] {
            for key in ["read", "write"] {
                let fault = read(&format!("{key}: [{path}]")).unwrap_err();
                assert!(
                    fault.starts_with("rules/notify.yaml:6: ")
                        && fault.contains(path.trim_matches('\'')),
                    "{path}: {fault}"
                );
            }
        }
        for path in [
            "mail",
            "rules2/x",
            "mail/rules",
            "/srv/rules",
            "/proc/cpuinfo",
            "/dev/shm",
        ] {
            assert_eq!(read(&format!("read: [{path}]")), Ok(()), "{path}");
        }
        for network in ["[0]", "[443, 65536]", "some", "[-1]"] {
            let fault = read(&format!("network: {network}")).unwrap_err();
            assert!(fault.starts_with("rules/notify.yaml:"), "{fault}");
        }
    }
}
