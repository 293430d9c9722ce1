//! `rules/notify.yaml`: the programs that tell people what happens in a home.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::bounds::AtLeast;
#[cfg(feature = "schema")]
use super::bounds::Bounded;
use super::command::{CommandError, CommandRule, Memory, Network, Place};
use super::rulebook::RulebookError;
use super::yaml;
use spoolgate_wire::ids::{NameError, ReceiverName};

/// Path below the home.
pub const PATH: &str = "rules/notify.yaml";

/// The file as a new home gets it.
pub const SHIPPED: &str = include_str!("../../../examples/notify/notify.yaml");

/// Most receivers of a home.
const RECEIVERS_MAX: usize = 16;

/// Name of the receiver that the older form of the file, `command`, describes.
const OF_COMMAND: &str = "command";

spoolgate_wire::named! {
    /// What a notice is about.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize,
        schemars::JsonSchema)]
    pub enum Kind {
        /// Every kind.
        All = "all",
        /// A request is held and waits for an approver.
        Hold = "hold",
        /// A hold ended because nobody decided in time.
        HoldExpired = "hold_expired",
        /// A proposal waits for an approver.
        Proposal = "proposal",
        /// A council case was opened or decided.
        Case = "case",
        /// Entries are halted, of everybody or of one principal.
        Halt = "halt",
        /// A halt ended.
        HaltCleared = "halt_cleared",
        /// An agent has been silent for too long.
        DeadMan = "dead_man",
        /// The loss of the day or week, or the drawdown, has closed entries.
        LossStop = "loss_stop",
        /// A symbol takes no entries: a gap, or a doubt about the venue.
        SymbolClosed = "symbol_closed",
        /// A bridge to a venue is silent, or gives signs of life again.
        Bridge = "bridge",
        /// A strategy takes no entries until a person clears it.
        EntriesClosed = "entries_closed",
        /// The rule files cannot be used.
        RulesFault = "rules_fault",
        /// The machine's clock stepped, or a person accepted it.
        Clock = "clock",
        /// A spool is over its quota, or no longer.
        Quota = "quota",
        /// It is unknown how an outgoing action ended.
        ActionUnknown = "action_unknown",
        /// An outgoing action goes to a service for the first time.
        FirstUse = "first_use",
        /// A key was added, revoked or rotated.
        Key = "key",
        /// Working entries were withdrawn.
        Pull = "pull",
        /// An accepted entry comes to `warn_at` of a limit.
        LimitNear = "limit_near",
        /// A person overrode a limit, or an override ended.
        LimitOverridden = "limit_overridden",
        /// The watcher started.
        Start = "start",
        /// The watcher or a run ended in order.
        Stop = "stop",
        /// The disk of the ledger has little room, or enough again.
        StorageLow = "storage_low",
        /// A notice did not reach a receiver.
        NotTold = "not_told",
    }
}

/// A program that is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver {
    /// Its name.
    pub name: ReceiverName,
    /// What it is told of.
    pub on: Vec<Kind>,
    /// The program.
    pub command: CommandRule,
    /// Whether it reads the text of a pending proposal instead of a notice, as `command` does.
    pub reads_proposals: bool,
}

impl Receiver {
    /// Whether it is told of this kind.
    pub fn hears(&self, kind: Kind) -> bool {
        self.on.contains(&kind) || self.on.contains(&Kind::All)
    }
}

/// A receiver as the file writes it: a name, kinds, and the members of a command.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct InFile {
    /// Its name, which no other receiver has.
    name: ReceiverName,
    /// The kinds that it is told of, or `all`.
    #[schemars(length(min = 1))]
    on: Vec<Kind>,
    /// Path of the program.
    #[schemars(length(min = 1))]
    program: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// How long it may run, seconds.
    #[schemars(with = "Bounded<1, 3600>")]
    time_limit_s: AtLeast<1>,
    /// How much it may write to its standard output, bytes.
    #[schemars(with = "Bounded<1, 1048576>")]
    output_bytes_max: AtLeast<1>,
    /// Files and folders that it may read and run besides; relative ones are below the home.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 64))]
    read: Vec<Place>,
    /// Files and folders that it may also write.
    #[serde(default)]
    #[schemars(with = "Vec<String>", length(max = 64))]
    write: Vec<Place>,
    /// The ports that it may connect to: `none` or a list.
    #[serde(default)]
    network: Network,
    /// How much memory it may use for data, bytes.
    #[serde(default = "CommandRule::usual_memory")]
    memory_bytes_max: Memory,
    /// Whether it may use Unix sockets, through which it reaches every service of this machine that
    /// listens on one.
    #[serde(default)]
    unix_sockets: bool,
}

impl From<InFile> for Receiver {
    fn from(read: InFile) -> Receiver {
        Receiver {
            name: read.name,
            on: read.on,
            command: CommandRule {
                program: read.program,
                args: read.args,
                time_limit_s: read.time_limit_s,
                output_bytes_max: read.output_bytes_max,
                read: read.read,
                write: read.write,
                network: read.network,
                memory_bytes_max: read.memory_bytes_max,
                unix_sockets: read.unix_sockets,
            },
            reads_proposals: false,
        }
    }
}

/// The file. `command` is its older form.
#[derive(Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifyFile {
    /// Who is told.
    #[serde(default)]
    #[schemars(length(max = RECEIVERS_MAX))]
    to: Vec<InFile>,
    /// The older form: a program that is told of proposals, with the text of the pending file as
    /// its standard input.
    #[serde(default, deserialize_with = "yaml::present")]
    #[schemars(with = "CommandRule")]
    command: Option<CommandRule>,
}

/// What is wrong with the receivers.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("`to` has {0} receivers; it may have {RECEIVERS_MAX}")]
    TooMany(usize),
    #[error("receiver `{0}`: `on` names no kind; write `all`, or the kinds that it is told of")]
    NoKind(ReceiverName),
    #[error("two receivers are named `{0}`; `command` is the name of the older form")]
    Twice(ReceiverName),
    #[error("receiver `{0}`: {1}")]
    Command(ReceiverName, CommandError),
    #[error("`command`: {0}")]
    OfCommand(CommandError),
    #[error(transparent)]
    Name(#[from] NameError),
}

/// Who is told what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notify {
    /// The receivers, in the order of the file.
    pub to: Vec<Receiver>,
}

impl Notify {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns [`RulebookError`] if the YAML, a name or a command is not valid.
    pub fn read(path: &str, text: &str) -> Result<Notify, RulebookError> {
        let file: NotifyFile = yaml::read(path, text)?;
        Notify::of(file).map_err(|fault| RulebookError::new(path, None, fault.to_string()))
    }

    fn of(file: NotifyFile) -> Result<Notify, Fault> {
        if file.to.len() > RECEIVERS_MAX {
            return Err(Fault::TooMany(file.to.len()));
        }
        let mut to: Vec<Receiver> = file.to.into_iter().map(Receiver::from).collect();
        if let Some(command) = file.command {
            command.check().map_err(Fault::OfCommand)?;
            to.push(Receiver {
                name: ReceiverName::parse(OF_COMMAND)?,
                on: vec![Kind::Proposal],
                command,
                reads_proposals: true,
            });
        }
        let mut names = BTreeSet::new();
        for receiver in &to {
            let name = &receiver.name;
            if receiver.on.is_empty() {
                return Err(Fault::NoKind(name.clone()));
            }
            if !names.insert(name) {
                return Err(Fault::Twice(name.clone()));
            }
            let fail = |error| Fault::Command(name.clone(), error);
            receiver.command.check().map_err(fail)?;
        }
        Ok(Notify { to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "program: p, time_limit_s: 1, output_bytes_max: 1}";

    fn read(text: &str) -> Result<Notify, String> {
        Notify::read(PATH, text).map_err(|fault| fault.to_string())
    }

    fn with(count: usize) -> String {
        let one = |number| format!("  - {{name: r{number}, on: [all], {END}\n");
        format!("to:\n{}", (0..count).map(one).collect::<String>())
    }

    #[test]
    fn the_shipped_file_tells_nobody() {
        assert_eq!(read(SHIPPED), Ok(Notify::default()));
        // Its examples are valid once they are no longer comments.
        let live: Vec<&str> = SHIPPED
            .lines()
            .filter_map(|line| line.strip_prefix("#   "))
            .collect();
        let live = format!("to:\n  {}\n", live.join("\n  "));
        let notify = read(&live).unwrap();
        assert_eq!(notify.to.len(), 3, "{live}");
        assert!(notify.to.iter().all(|it| it.hears(Kind::Halt)), "{live}");
    }

    #[test]
    fn a_receiver_hears_what_it_names() {
        let text = format!("to:\n  - {{name: phone, on: [halt, hold], {END}\n");
        let notify = read(&text).unwrap();
        let [phone] = notify.to.as_slice() else {
            panic!("{notify:?}")
        };
        assert!(phone.hears(Kind::Halt) && phone.hears(Kind::Hold));
        assert!(!phone.hears(Kind::HaltCleared) && !phone.reads_proposals);
        let all = read(&with(1)).unwrap();
        assert!(all.to[0].hears(Kind::HaltCleared));
    }

    #[test]
    fn the_older_form_is_told_of_proposals() {
        let notify = read(&format!("command: {{{END}")).unwrap();
        let [one] = notify.to.as_slice() else {
            panic!("{notify:?}")
        };
        assert!(one.reads_proposals && one.hears(Kind::Proposal) && !one.hears(Kind::Halt));
    }

    #[test]
    fn names_counts_and_kinds_are_checked() {
        for (count, is_good) in [(0, true), (1, true), (15, true), (16, true), (17, false)] {
            assert_eq!(read(&with(count)).is_ok(), is_good, "{count}");
        }
        let fault = read(&with(17)).unwrap_err();
        assert!(fault.contains("17 receivers"), "{fault}");
        let fault = read(&format!("to:\n  - {{name: a, on: [], {END}")).unwrap_err();
        assert!(fault.contains("names no kind"), "{fault}");
        let fault = read(&format!(
            "to:\n- name: a\n  on: [halt, war]\n  {}",
            END.replace(", ", "\n  ").trim_end_matches('}')
        ))
        .unwrap_err();
        assert!(
            fault.starts_with("rules/notify.yaml:") && fault.contains("war"),
            "{fault}"
        );
        for kind in ["all", "hold", "loss_stop", "not_told"] {
            assert!(fault.contains(kind), "{fault}");
        }
        let twice =
            format!("to:\n  - {{name: a, on: [all], {END}\n  - {{name: a, on: [all], {END}\n");
        assert!(
            read(&twice)
                .unwrap_err()
                .contains("two receivers are named `a`")
        );
        let twice = format!("to:\n  - {{name: command, on: [all], {END}\ncommand: {{{END}\n");
        assert!(read(&twice).unwrap_err().contains("two receivers"));
        for text in [
            "desk_url: x",
            "to:\n  - {name: a, on: [all], program: p, time_limit_s: 1}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_kind_is_named_as_it_is_read() {
        for name in ["all", "hold_expired", "limit_near", "not_told"] {
            let kind: Kind = serde_json::from_value(name.into()).unwrap();
            assert_eq!(kind.as_str(), name);
        }
    }
}
