//! The files of a home that have a schema.

#[cfg(feature = "schema")]
use schemars::Schema;

use super::Condition;
use super::about::{self, CALENDAR, DIGITS, FILE, WHOLE};
use spoolgate_rules::admission::Profile;
use spoolgate_rules::approval::ApprovalFile;
use spoolgate_rules::gateway::Gateway;
use spoolgate_rules::golden::CaseFile;
use spoolgate_rules::instruments::InstrumentsFile;
use spoolgate_rules::notify::NotifyFile;
use spoolgate_rules::principals::PrincipalsFile;
use spoolgate_rules::rates::RatesFile;
use spoolgate_rules::retention::Retention;
use spoolgate_rules::roles::RolesFile;
use spoolgate_rules::rule::file::RuleFile;
use spoolgate_rules::rule::set::SetFile;
use spoolgate_rules::safety::Safety;
use spoolgate_rules::services::ServicesFile;
use spoolgate_rules::strategies::Strategy;
use spoolgate_rules::theses::Thesis;
use spoolgate_wire::schema::HasSchema;

/// A file of a home that has a schema.
pub struct HomeFile {
    /// Name of the schema.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// What the reader refuses although the schema allows it.
    pub conditions: &'static [Condition],
    #[cfg(feature = "schema")]
    pub(super) schema: fn() -> Schema,
}

/// A file that is read as a `T`.
#[cfg_attr(
    not(feature = "schema"),
    expect(
        clippy::extra_unused_type_parameters,
        reason = "only a schema needs it"
    )
)]
const fn file<T: HasSchema>(
    name: &'static str,
    about: &'static str,
    conditions: &'static [Condition],
) -> HomeFile {
    HomeFile {
        name,
        about,
        conditions,
        #[cfg(feature = "schema")]
        schema: super::read::<T>,
    }
}

/// Every file that has a schema.
pub static FILES: [HomeFile; 16] = [
    file::<RolesFile>(
        "council.roles",
        "`council/roles.yaml`: who is heard on what change, and what follows from the votes.",
        &[
            about::ROSTER,
            about::EVIDENCE,
            about::COMMAND,
            DIGITS,
            WHOLE,
        ],
    ),
    file::<Thesis>(
        "proposals.thesis",
        "The front matter of `proposals/theses/<slug>.md`: which trades a thesis carries, and \
                what refutes it. `spoolgate theses lint` also reports what no entry could use: \
                levels that are not above 0 or are on the wrong side, an end before the \
                beginning, a thesis that has expired.",
        &[FILE, DIGITS, CALENDAR],
    ),
    file::<Profile>(
        "rules.admission",
        "`rules/admission/<tenant>/<surface>/<profile>.yaml`: what may be admitted where.",
        &[about::TOGETHER, about::COMMAND, WHOLE],
    ),
    file::<ApprovalFile>(
        "rules.approval",
        "`rules/approval.yaml`: whose signatures a change of rules needs.",
        &[about::AREAS, about::ONCE, WHOLE],
    ),
    file::<Gateway>(
        "rules.gateway",
        "`rules/gateway.yaml`: what does outgoing actions, how many there may be, and what is \
                out of the ordinary.",
        &[about::ADAPTERS, about::COMMAND, FILE, WHOLE],
    ),
    file::<InstrumentsFile>(
        "rules.instruments",
        "`rules/instruments.yaml`: what may be traded, its exchange filters and its fees.",
        &[about::BRIDGE, about::ONCE, DIGITS, WHOLE, FILE],
    ),
    file::<NotifyFile>(
        "rules.notify",
        "`rules/notify.yaml`: the programs that tell people what happens.",
        &[about::COMMAND, WHOLE],
    ),
    file::<PrincipalsFile>(
        "rules.principals",
        "`rules/principals.yaml`: who may sign, as what, and for which strategies.",
        &[about::ROLE, about::ONCE, FILE, WHOLE],
    ),
    file::<RatesFile>(
        "rules.rates",
        "`rules/rates.yaml`: how much each spool may hand in.",
        &[about::ONCE, FILE, WHOLE],
    ),
    file::<Retention>(
        "rules.retention",
        "`rules/retention.yaml`: how long files stay that others have had time to read.",
        &[],
    ),
    file::<RuleFile>(
        "rules.rule",
        "`rules/core/<id>.yaml` or `rules/active/<id>.yaml`: a rule. `spoolgate rules fields` \
                lists the fields, \
             `spoolgate rules lint` says what a rule means.",
        &[about::MEANING, FILE, DIGITS, WHOLE, CALENDAR],
    ),
    file::<Safety>(
        "rules.safety",
        "`rules/safety.yaml`: the limits that no agent and no rule can change. Fractions are \
                of the capital base or \
             of a price (0.05 is 5%), money is in the account's currency.",
        &[about::WINDOW, DIGITS, WHOLE, FILE],
    ),
    file::<ServicesFile>(
        "rules.services",
        "`rules/services.yaml`: the allowlist. Empty, or absent, nothing leaves the machine.",
        &[about::SERVICE, about::ONCE, CALENDAR, WHOLE],
    ),
    file::<SetFile>(
        "rules.set",
        "`rules/sets/<name>.yaml`: a list of values that rules refer to.",
        &[about::ENTRIES, FILE, CALENDAR],
    ),
    file::<Strategy>(
        "rules.strategy",
        "`rules/strategies/<name>.yaml`: what a strategy may trade and how far its stops may \
                lie.",
        &[about::STRATEGY, about::WINDOW, FILE, DIGITS],
    ),
    file::<CaseFile>(
        "rules.tests",
        "`rules/tests/<name>.yaml`: facts, and what the rules must make of them.",
        &[about::CASES, DIGITS, CALENDAR],
    ),
];
