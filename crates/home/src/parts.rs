//! The parts of an open home besides its core and its derived files. The receiver of a function
//! shows what it can touch.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use super::actions::Actions;
use super::core::Core;
use super::dead_man::DeadManWatch;
use super::external_policy::ExternalPolicy;
use super::notify::Notifications;
use super::open::OnEvent;
use super::role_commands::RoleCommands;
use super::rulebook::Watched;
use super::socket::Door;
use super::suspect::Trier;
use spoolgate_gate::record::{Event, Record};
use spoolgate_host::sandbox::Boxed;
use spoolgate_host::spool::name::ClaimName;
use spoolgate_host::spool::publish::Published as Put;
use spoolgate_host::spool::scan::Scanner;
use spoolgate_host::spool::watch::Waker;
use spoolgate_wire::ids::ProposalId;

/// Where requests come from, and the requests that are not finished.
#[derive(Default)]
pub(super) struct Intake {
    pub(super) scanner: Scanner,
    /// The socket for requests as frames; `None` if requests come only as files.
    pub(super) door: Option<Door>,
    /// Claims of an earlier process that are not decided yet.
    pub(super) left_behind: VecDeque<ClaimName>,
    /// Claims that wait until the disk has room, because they cannot be put back into their spool.
    pub(super) without_room: Vec<ClaimName>,
    /// Claims of commands that wait for the outcome of an outgoing action, by its request line.
    pub(super) unanswered: BTreeMap<u64, Vec<ClaimName>>,
    /// Why an entry of the spool could not be read.
    pub(super) failure: Option<std::io::Error>,
    /// Whether the last batch left due cases to the next one.
    pub(super) more_cases_due: bool,
}

/// What runs beside the gate, and what it may reach.
#[derive(Default)]
pub(super) struct Outside {
    /// Outgoing actions.
    pub(super) actions: Actions,
    /// Actions that an earlier gate left open and this one closes, in words.
    pub(super) left_open: Vec<String>,
    /// Roles that commands answer for; `None` if no commands run for roles.
    pub(super) role_commands: Option<RoleCommands>,
    /// Requests that wait for a command of admission; `None` if none ever did.
    pub(super) external_policy: Option<ExternalPolicy>,
    /// Notices to the receivers of `rules/notify.yaml`.
    pub(super) notifications: Notifications,
    /// What the sandbox leaves of the file system; `None` without a sandbox.
    pub(super) sandbox: Option<Boxed>,
    /// Ends the wait of a watcher.
    pub(super) waker: Option<Waker>,
    /// Tries requests over which the gate has died twice.
    pub(super) trier: Option<Trier>,
    /// The line up to which answers that are kept no longer are removed.
    pub(super) answers_removed_to: u64,
}

/// What the gate notices between batches, and who receives it.
#[derive(Default)]
pub(super) struct News {
    /// Lines that the next batch begins with.
    pub(super) events: Vec<Record>,
    /// Receives events for the operator.
    pub(super) on_event: Option<OnEvent>,
    /// Events that were reported before there was a receiver.
    pub(super) untold: Vec<Event>,
    /// What was last read from the rule files.
    pub(super) watched: Watched,
    /// How long agents have shown no sign of life.
    pub(super) dead_man: DeadManWatch,
    /// When bridges were last shown that the gate is there.
    pub(super) gate_shown_ms: Option<u64>,
    /// When approved files were last looked for.
    pub(super) approved_looked_ms: Option<u64>,
    /// Why approved files did not count, as it was reported: each reason is reported once.
    pub(super) approved_told: BTreeMap<ProposalId, String>,
}

impl News {
    /// Reports to the operator that something was in the way of an answer.
    pub(super) fn tell_put(&mut self, core: &Core, path: &Path, put: &Put) {
        let note = match put {
            // The level of the storage tells of that.
            Put::Done | Put::NoRoom => return,
            Put::MovedAside(aside) => {
                format!(
                    "a directory blocked `{}`; it is now `{}`",
                    path.display(),
                    aside.display()
                )
            }
            Put::Blocked(error) => format!(
                "the answer `{}` cannot be written ({error}); repair its folder, then have the \
                    client send the request again",
                path.display()
            ),
        };
        self.tell(core, note);
    }

    /// Reports a note to the operator.
    pub(super) fn tell(&mut self, core: &Core, note: String) {
        let event = Event {
            timestamp: core.ledger_now(),
            note,
            changes: Vec::new(),
            cage: None,
        };
        match &mut self.on_event {
            Some(hear) => hear(&event),
            None => self.untold.push(event),
        }
    }
}
