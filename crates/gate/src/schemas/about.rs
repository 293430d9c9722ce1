//! Conditions that readers check although the schemas cannot express them, as a short list by name.

use super::Condition;

const fn condition(name: &'static str, text: &'static str) -> Condition {
    Condition { name, text }
}

/// Digits.
pub(crate) const DIGITS: Condition = condition(
    "digits",
    "An amount has at most 12 digits before the point and 10 behind it, and as a JSON number no \
        exponent.",
);
/// Whole numbers.
pub(crate) const WHOLE: Condition = condition(
    "whole",
    "A whole number is written in digits alone, without point and exponent.",
);
/// Lengths.
pub(crate) const BYTES: Condition = condition("bytes", "Lengths are counted in bytes of UTF-8.");
/// Scopes of halts.
pub(crate) const SCOPE: Condition = condition(
    "scope",
    "At most one of `principal`, `strategy`, `symbol` and `bridge` is given, and not both \
        `keep_orders` and `flatten`.",
);
/// Times.
pub(crate) const CALENDAR: Condition = condition(
    "calendar",
    "A time is an instant that the calendar has, up to 9999-12-30T22:00:00Z.",
);
/// Numbers of ledger lines in ids.
pub(crate) const LINE: Condition = condition("line", "The number in an id is a 64-bit one.");
/// Prices of order types.
pub(crate) const PRICE: Condition = condition(
    "price",
    "`price` is given exactly for `limit` orders, `stop_price` always for `stop` orders.",
);
/// What a control decision needs.
pub(crate) const CONTROL: Condition = condition(
    "control",
    "`switch` needs `target_strategy_id`, `set_risk_mode` needs `risk_mode`.",
);
/// Rows.
pub(crate) const ROWS: Condition = condition(
    "rows",
    "There is at least a bar, a quote or a regime, and at most 256 bars and quotes together.",
);
/// Members by type of report.
pub(crate) const REPORT: Condition = condition(
    "report",
    "`new` and `replaced` have `version`; `trade` has `last_qty`, `last_px`, `fee` and \
        `liquidity`; `rejected` has `text`; none has a member of another. `fee_value` comes with `fee_currency` and \
        has the sign of `fee`.",
);
/// Whose heartbeat it is.
pub(crate) const PERSON: Condition = condition(
    "person",
    "A person names in `principal` the agent that the heartbeat is for.",
);
/// Recipients.
pub(crate) const RECIPIENTS: Condition = condition(
    "recipients",
    "`to` and `cc` have together at most 200 addresses.",
);
/// Recipients of what is sent.
pub(crate) const RECIPIENT: Condition = condition(
    "recipient",
    "`to` and `cc` have together at least one address.",
);
/// Mail addresses.
pub(crate) const ADDRESS: Condition = condition(
    "address",
    "A mail address is bare, at most 254 bytes, and its host is a name with a dot that has one \
        reading.",
);
/// Text on one line.
pub(crate) const SEEN: Condition = condition(
    "seen",
    "Names and lines hold no control, direction or zero-width characters.",
);
/// Periods.
pub(crate) const PERIOD: Condition = condition("period", "The end is after the beginning.");
/// Endpoints.
pub(crate) const ENDPOINT: Condition = condition(
    "endpoint",
    "In `endpoint`, two hex digits follow each `%`. Its path has no empty, `.` or `..` segments, \
        and no percent-encoded slash, backslash, `%`, control character or ASCII character in a \
        longer form of UTF-8; its query has no percent-encoded NUL.",
);
/// Headers.
pub(crate) const HEADERS: Condition = condition(
    "headers",
    "Headers that frame or direct a call are the adapter's own (`Host`, `Content-Length`, \
        `X-Forwarded-...`), and no name appears twice but for case or `_`.",
);
/// Services.
pub(crate) const SERVICE: Condition = condition(
    "service",
    "`host` is one whole host name or address, and there is at least one of `methods` and \
        `actions`, each once.",
);
/// Causality.
const CAUSALITY: Condition = condition(
    "causality",
    "`causality` is at most 8192 bytes without white space, and an object as admission reads it.",
);
/// Signatures.
const SIGNATURE: Condition = condition(
    "signature",
    "The signature is good, and one of a current key of `source`.",
);
/// Payloads.
const PAYLOAD: Condition = condition(
    "payload",
    "What the description of the payload's own schema says. Keys stand once, nesting ends at 64, \
        and numbers are those of strict JSON.",
);
/// Files.
pub(crate) const FILE: Condition = condition(
    "file",
    "The name in the file is that of the file, and names in it are those of other files of the \
        home.",
);
/// Rosters.
pub(crate) const ROSTER: Condition = condition(
    "roster",
    "Roles and their aliases have different names, required roles and those with a veto are in \
        the roster, weights and floors are in the order in which a worse vote never helps, and \
        lines are printable.",
);
/// Thresholds of evidence.
pub(crate) const EVIDENCE: Condition = condition(
    "evidence",
    "In `evidence`, an amount in quotes has the same bounds as a number, each threshold that \
        rejects is at least as extreme as the one that warns, `pbo_blocks` is even, \
        `assumed_kurtosis` is at least 1 + `assumed_skew` squared, and `optional_inputs` names \
        inputs that docs/council-evidence.md lists.",
);
/// Programs.
pub(crate) const COMMAND: Condition = condition(
    "command",
    "A program of the gateway may take 600 s and print 8 MiB, any other 3600 s and 1 MiB; no text \
        of it holds a NUL.",
);
/// Keys that need each other.
pub(crate) const TOGETHER: Condition = condition(
    "together",
    "`max_repeats_in_ancestor_window` and `ancestor_window_size` need each other, \
        `cache_ttl_seconds` needs `policy_command`, and `policy_version` has at most 128 bytes.",
);
/// Adapters.
pub(crate) const ADAPTERS: Condition = condition(
    "adapters",
    "`exec` has a `command` and `stub` has none; no action has two adapters for the same service.",
);
/// Bridges.
pub(crate) const BRIDGE: Condition = condition(
    "bridge",
    "`bridge` is given exactly with `venue: outbox`; `group` says something.",
);
/// Entries of a list.
pub(crate) const ONCE: Condition = condition("once", "No two entries have the same name.");
/// Areas of files.
pub(crate) const AREAS: Condition = condition(
    "areas",
    "A path is relative to the home, without empty parts, `.` and `..`, and no earlier path covers \
        it; the last area has the path `\"\"`. Each approver has a key in `rules/approvers` and is \
        named once in an area. `need` is at most the number of approvers.",
);
/// Roles of principals.
pub(crate) const ROLE: Condition = condition(
    "role",
    "Only agents have `strategies`; feeds and bridges have no `actions`, `council_roles`, \
        `control` or `admission`. An entry of `council_roles` is printable and has a letter or a \
        digit, and no two mean the same role.",
);
/// What a rule means.
pub(crate) const MEANING: Condition = condition(
    "meaning",
    "The field is one of `spoolgate rules fields` and belongs to the action, the operator and \
        value fit it, keys stand where they mean something, and `message` is 1 to 500 bytes of \
        printable text.",
);
/// Windows.
pub(crate) const WINDOW: Condition = condition(
    "window",
    "A restricted window ends at another minute than it begins.",
);
/// Entries of sets.
pub(crate) const ENTRIES: Condition = condition(
    "entries",
    "A value is one of the set's kind, and none appears twice.",
);
/// Strategies.
pub(crate) const STRATEGY: Condition = condition(
    "strategy",
    "`account` and `market` are given together, `min` is at most `max`, and `degraded` has 1 to \
        500 bytes.",
);
/// Golden cases.
pub(crate) const CASES: Condition = condition(
    "cases",
    "It has `cases` or `matrix`, and a matrix says one outcome for each of its rows and columns. \
        No two cases have the same name, facts are named as conditions name them, and `expect: \
        accept` goes with `rules: []` and nothing else.",
);

/// What the schema of a request cannot say.
pub(crate) const REQUEST: &[Condition] = &[CALENDAR, CAUSALITY, SIGNATURE, PAYLOAD];
