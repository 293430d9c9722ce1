//! The one table of answer codes and exit codes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Exit codes of the program, as documented in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The request was carried out.
    Success = 0,
    /// The request was refused safely: by rules, checks or permissions.
    Refused = 1,
    /// The input could not be read as a request, or the command line was wrong.
    Malformed = 2,
    /// Held until a person approves.
    NeedsApproval = 3,
    /// Too many requests.
    RateLimited = 4,
    /// The ledger does not verify.
    LedgerCorrupt = 5,
    /// The disk failed; nothing was released.
    Storage = 6,
    /// Another gate holds the lock of this home.
    Busy = 7,
    /// `--wait` ran out of time; the request may still be decided.
    WaitTimeout = 8,
}

crate::named! {
    /// Whether and how the sender of a refused request may try again.
    #[derive(
        Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema,
    )]
    pub enum Retry {
        /// Repair the file, sign it, and send it under the same id.
        SameId = "same_id",
        /// Send a new request with a fresh id and timestamp, not before `retry_after_ms` have
        /// passed.
        NewId = "new_id",
        /// Send the same bytes again, not before `retry_after_ms` have passed.
        After = "after",
        /// Do not send it again until a person or the state has changed what refuses it, or, if it is
        /// unknown whether it was done, until somebody has looked.
        Never = "never",
    }
}

impl Retry {
    /// All of them, in the order of the docs.
    pub const ALL: [Retry; 4] = [Retry::SameId, Retry::NewId, Retry::After, Retry::Never];
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $exit:ident,
        $retry:ident, $remedy:literal;)*) => {
        /// Every code that an answer can carry in `error.code`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize,
            schemars::JsonSchema)]
        pub enum Code {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the table.
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// The stable name, `UPPER_SNAKE`.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }

            /// The exit code of a command that ends with this answer.
            pub fn exit(self) -> Exit {
                match self { $(Code::$variant => Exit::$exit),* }
            }

            /// Whether and how its sender may try again. A reason may say more.
            pub fn retry(self) -> Retry {
                match self { $(Code::$variant => Retry::$retry),* }
            }

            /// The meaning of the code.
            pub fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),*).trim_ascii()),* }
            }

            /// What the sender can do about it.
            pub fn remedy(self) -> &'static str {
                match self { $(Code::$variant => $remedy),* }
            }
        }
    };
}

codes! {
    /// The file name is not `[0-9A-Za-z][0-9A-Za-z._:-]*.json`.
    BadFileName = "BAD_FILE_NAME", Malformed, SameId,
        "name the file `<id>.json`: letters, digits and `._:-`, at most 133 bytes";
    /// A link, directory, FIFO, socket or device in place of a file.
    NotAFile = "NOT_A_FILE", Malformed, SameId,
        "write a regular file under a name ending in .tmp, then rename it";
    /// The file has more than one hard link.
    LinkedFile = "LINKED_FILE", Malformed, SameId, "write a file of its own instead of linking one";
    /// The gate may not read the file.
    Unreadable = "UNREADABLE", Malformed, SameId,
        "give the gate's user or group read permission before renaming the file in";
    /// Larger than the cap of its action, or than any request may be.
    TooLarge = "TOO_LARGE", Malformed, SameId, "send less: the caps are in docs/contracts.md";
    /// The connection ended, or ten seconds passed, inside a frame.
    FrameIncomplete = "FRAME_INCOMPLETE", Malformed, SameId,
        "send whole frames: four bytes of length, big end first, then as many bytes";
    /// Not one strict JSON object.
    MalformedJson = "MALFORMED_JSON", Malformed, SameId,
        "send one JSON object: UTF-8, no duplicate keys, at most 64 levels";
    /// JSON, but not an envelope.
    MalformedEnvelope = "MALFORMED_ENVELOPE", Malformed, SameId,
        "send exactly id, timestamp, action, payload, source, signature, and causality if any \
            (docs/contracts.md)";
    /// The signature does not verify, or the source has no key.
    SignatureInvalid = "SIGNATURE_INVALID", Refused, SameId,
        "sign the signing string of docs/contracts.md with a current key of the source";
    /// The action does not exist.
    UnknownAction = "UNKNOWN_ACTION", Malformed, SameId,
        "use an action of the table in docs/contracts.md";
    /// The payload does not fit the schema of its action.
    MalformedPayload = "MALFORMED_PAYLOAD", Malformed, SameId,
        "send exactly the fields of the action's schema";
    /// The principal may not do this.
    NotPermitted = "NOT_PERMITTED", Refused, Never,
        "a person may grant it in rules/principals.yaml";
    /// The change of the rulebook needs signatures of approvers.
    ApprovalRequired = "APPROVAL_REQUIRED", NeedsApproval, Never,
        "edit the rule files and let approvers sign the statement of `spoolgate rules review`";
    /// A signed statement of a change was used before.
    StatementUsed = "STATEMENT_USED", NeedsApproval, Never,
        "let approvers sign a new statement of `spoolgate rules review`";
    /// The source is not bound to the spool directory it used.
    WrongSpool = "WRONG_SPOOL", Refused, SameId,
        "drop the file into the source's own spool directory";
    /// The id was used before with other content.
    RequestIdConflict = "REQUEST_ID_CONFLICT", Refused, NewId, "use a fresh id";
    /// Too old, or too far ahead of the gate's clock.
    TimestampStale = "TIMESTAMP_STALE", Refused, NewId,
        "sign the request again with the current time and a fresh id";
    /// A check failed; the check vector is in `data`.
    ChecksFailed = "CHECKS_FAILED", Refused, NewId, "see data.Rejected.checks_failed and headroom";
    /// A rule refuses it; the check vector is in `data`.
    RuleRefused = "RULE_REFUSED", Refused, NewId,
        "see data.Rejected.checks_failed: the rules that refuse it, and what they say";
    /// A rule holds it until a person approves it; `data.Held` names the rule, the deadline and the
    /// hold.
    Held = "HELD", NeedsApproval, Never,
        "wait: its answer is replaced when a person runs `spoolgate approvals grant` or `deny`, \
            or time is up";
    /// A rule would hold it, but too many requests are held already.
    HoldsFull = "HOLDS_FULL", Refused, Never,
        "wait until a person has decided on held requests (`spoolgate approvals list`), then send \
            a new request";
    /// A person denied the held request.
    ApprovalDenied = "APPROVAL_DENIED", Refused, Never, "ask the person who denied it";
    /// No person approved the held request in time.
    ApprovalExpired = "APPROVAL_EXPIRED", Refused, NewId,
        "send a new request if it is still wanted";
    /// Admission was denied; the receipt is in `data`.
    AdmissionDenied = "ADMISSION_DENIED", Refused, NewId,
        "see data.receipt: reason, counters and policy (docs/admission.md)";
    /// The agent, or all agents together, sent too much within a minute.
    RateLimited = "RATE_LIMITED", RateLimited, After,
        "wait, then send the same file again: its id is not used up";
    /// Its destination is not an active service of the allowlist.
    NotAllowlisted = "NOT_ALLOWLISTED", Refused, Never,
        "a person may allow it: `spoolgate services add` (docs/gateway.md)";
    /// No adapter carries out this action.
    NoAdapter = "NO_ADAPTER", Refused, Never,
        "a person may name an adapter in rules/gateway.yaml (docs/gateway.md)";
    /// The maximum number of actions is open.
    ActionsFull = "ACTIONS_FULL", RateLimited, After,
        "wait, then send the same file again: its id is not used up";
    /// The adapter is a stub: nothing was done.
    StubAdapter = "STUB_ADAPTER", Refused, Never,
        "a person may put a real adapter in its place in rules/gateway.yaml";
    /// The adapter reports that it was not done.
    AdapterFailed = "ADAPTER_FAILED", Refused, NewId,
        "read what the adapter reports, then send a new request if it is still wanted";
    /// The adapter was not started: nothing was done.
    AdapterNotRun = "ADAPTER_NOT_RUN", Refused, NewId,
        "nothing was done; send a new request if it is still wanted";
    /// The adapter took too long; it is unknown whether it was done.
    AdapterTimedOut = "ADAPTER_TIMED_OUT", Refused, Never,
        "check at the service whether it was done, then send a new request if it was not";
    /// The adapter wrote too much or no valid answer; it is unknown whether it was done.
    AdapterOutput = "ADAPTER_OUTPUT", Refused, Never,
        "check at the service whether it was done, then send a new request if it was not";
    /// The adapter ended by a signal or with an error; it is unknown whether it was done.
    AdapterCrashed = "ADAPTER_CRASHED", Refused, Never,
        "check at the service whether it was done, then send a new request if it was not";
    /// The gate ended while the adapter ran; it is unknown whether it was done.
    UnknownOutcome = "UNKNOWN_OUTCOME", Refused, Never,
        "check at the service whether it was done, then send a new request if it was not; the \
            gate never repeats it by itself";
    /// The rule files cannot be read as a whole.
    RulebookInvalid = "RULEBOOK_INVALID", Refused, Never,
        "a person must correct the named file; exits are still decided";
    /// The requested object does not exist.
    NotFound = "NOT_FOUND", Refused, NewId, "list what exists, then send a request for that";
    /// The answer would be larger than an answer may be.
    ResultTooLarge = "RESULT_TOO_LARGE", Refused, NewId, "ask for a shorter span";
    /// Market rows that cannot be used.
    MarketRefused = "MARKET_REFUSED", Refused, NewId, "correct the market file or its options";
    /// A report on an order that is not open, or not at this bridge.
    ReportUnknown = "REPORT_UNKNOWN", Refused, Never,
        "compare the venue's orders with `spoolgate orders`; if it was a trade, entries in the \
            symbol are refused";
    /// A report whose `exec_id` was booked before.
    ReportDuplicate = "REPORT_DUPLICATE", Refused, Never,
        "the report is already booked: send nothing, or give a new report its own `exec_id`";
    /// A report whose `cum_qty` does not follow from those before it.
    ReportOutOfOrder = "REPORT_OUT_OF_ORDER", Refused, NewId,
        "send the missing reports, then this one under a fresh id; a person must clear the symbol";
    /// A report that contradicts the instructions.
    ReportImpossible = "REPORT_IMPOSSIBLE", Refused, Never,
        "compare the venue's orders with `spoolgate orders`; a person must clear the symbol";
    /// A snapshot of a venue that was not taken after the bridge's newest booked report, or in an
    /// earlier run of the bridge.
    SnapshotStale = "SNAPSHOT_STALE", Refused, NewId,
        "send the reports that are missing, then take another snapshot";
    /// The request contradicts the state it would change.
    StateConflict = "STATE_CONFLICT", Refused, NewId,
        "look at the current state, then decide again";
    /// A control decision was refused; `data.errors` lists the reasons.
    ControlRejected = "CONTROL_REJECTED", Refused, NewId,
        "see data.errors and data.validation (docs/control.md), then decide again under a new \
            decision_id";
    /// A control decision could not be completed; nothing changed.
    ControlFailed = "CONTROL_FAILED", Refused, NewId,
        "send the same decision again, with the same decision_id and a fresh id";
    /// A rule's id is invalid: a path, look-alike letters, upper case, or too long.
    RuleIdInvalid = "RULE_ID_INVALID", Refused, NewId,
        "name the rule with 1 to 64 of a-z, 0-9 and `-`";
    /// A rule with this id is in rules/core, which no proposal can change.
    RuleIdTaken = "RULE_ID_TAKEN", Refused, NewId,
        "propose under another id; a person changes rules/core by editing its files";
    /// The proposed rule is invalid: shape, operators, values or length.
    RuleMalformed = "RULE_MALFORMED", Refused, NewId,
        "see docs/rules.md and `spoolgate rules lint`";
    /// The proposed rule names a field, such as a limit of safety.yaml, that rules cannot read.
    RuleFieldUnknown = "RULE_FIELD_UNKNOWN", Refused, NewId,
        "`spoolgate rules fields` lists what rules can read";
    /// A regular expression that is invalid or would become too large.
    RulePatternRefused = "RULE_PATTERN_REFUSED", Refused, NewId,
        "write a shorter expression, without large repetitions";
    /// The maximum number of rules exists.
    RulesFull = "RULES_FULL", Refused, Never,
        "change an existing rule, or have a person retire one";
    /// The rule was retired; the message contains its lesson.
    RuleRetired = "RULE_RETIRED", Refused, Never,
        "read the lesson; a person may bring the rule back by editing its file";
    /// `old_value` is not the parameter's value.
    StaleValue = "STALE_VALUE", Refused, NewId, "read the rule's value, then propose again";
    /// None or several ordered conditions of the rule are on this field.
    ParameterAmbiguous = "PARAMETER_AMBIGUOUS", Refused, NewId,
        "propose the whole rule with Activate";
    /// The new value is not between the condition's `min` and `max`.
    ValueOutOfBounds = "VALUE_OUT_OF_BOUNDS", Refused, NewId,
        "stay within the bounds in the rule's file";
    /// As many proposals wait for people as may.
    ProposalsFull = "PROPOSALS_FULL", Refused, Never,
        "wait until a person has decided on some of them";
    /// The same change waits for people already.
    ProposalDuplicate = "PROPOSAL_DUPLICATE", Refused, Never,
        "wait until a person has decided on it";
    /// The proposal cites a council decision that does not approve this very proposal.
    CitationFalse = "CITATION_FALSE", Refused, NewId,
        "cite a case with outcome APPROVE whose `context.files_changed` holds `proposal:<payload \
            hash>`, or none";
    /// The rule or the direction is no longer what it was when people were asked.
    BaseMoved = "BASE_MOVED", Refused, NewId, "read the new pending file, then decide on it";
    /// What the answer needs stands in a ledger line whose content was pruned.
    Pruned = "PRUNED", Refused, Never,
        "what was decided stands; have the named segments restored, then send the same file again";
    /// The gate could not handle the request, or ended twice over it and a trial of it failed.
    Internal = "INTERNAL", Refused, Never, "report it: the bytes are kept in spool/rejected";
    /// The disk of the ledger has little room: only what makes things safer, and queries, are served.
    StorageLow = "STORAGE_LOW", RateLimited, After,
        "wait, then send the same file again: its id is not used up; the operator must free space";
    /// The disk refused; nothing was released.
    Storage = "STORAGE", Storage, After,
        "free space or repair the disk, then start again: pending requests are kept";
    /// The ledger does not verify.
    LedgerCorrupt = "LEDGER_CORRUPT", LedgerCorrupt, Never,
        "stop, keep a copy, run `spoolgate audit verify`";
    /// Another gate holds the lock.
    Busy = "BUSY", Busy, After, "wait for the running gate or stop it";
}

impl Code {
    /// Whether the same request should be sent again later: its id is not used up, and the status
    /// is `rate_limited`.
    pub fn is_for_later(self) -> bool {
        matches!(
            self,
            Code::RateLimited | Code::ActionsFull | Code::StorageLow
        )
    }

    /// Whether an answer with this code does not use up the request's id, because another answer
    /// belongs to that id, or because it is not known yet whose id it is.
    pub fn stands_aside(self) -> bool {
        matches!(
            self,
            Code::RequestIdConflict | Code::WrongSpool | Code::SignatureInvalid | Code::Pruned
        )
    }
}

/// The table in `docs/contracts.md`. The `meaning` of a code is its doc comment.
pub fn markdown() -> String {
    let mut table =
        String::from("| code | exit | retry | meaning | what to do |\n|---|---|---|---|---|\n");
    for code in Code::ALL {
        let row = format!(
            "| `{}` | {} | `{}` | {} | {} |\n",
            code.name(),
            code.exit() as u8,
            code.retry().as_str(),
            code.meaning(),
            code.remedy()
        );
        table.push_str(&row);
    }
    table
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_in_the_docs_is_this_one() {
        let docs = include_str!("../../../docs/contracts.md");
        assert!(
            docs.contains(&markdown()),
            "docs/contracts.md should hold:\n{}",
            markdown()
        );
    }

    #[test]
    fn names_are_upper_snake_and_distinct() {
        let mut seen = std::collections::BTreeSet::new();
        for code in Code::ALL {
            let name = code.name();
            assert!(
                name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
                "{name}"
            );
            assert!(seen.insert(name), "{name} twice");
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{name}\""));
            assert!(!code.remedy().is_empty());
        }
    }
}
