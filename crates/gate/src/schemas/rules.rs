//! Schemas of rule files.

use schemars::Schema;

use super::about::{CALENDAR, DIGITS, FILE, WHOLE};
use super::{Body, Condition, about, read};
use spoolgate_rules::admission::Profile;
use spoolgate_rules::gateway::Gateway;
use spoolgate_rules::golden::CaseFile;
use spoolgate_rules::instruments::InstrumentsFile;
use spoolgate_rules::notify::Notify;
use spoolgate_rules::principals::PrincipalsFile;
use spoolgate_rules::rates::RatesFile;
use spoolgate_rules::roles::RolesFile;
use spoolgate_rules::rule::file::RuleFile;
use spoolgate_rules::rule::set::SetFile;
use spoolgate_rules::safety::Safety;
use spoolgate_rules::services::ServicesFile;
use spoolgate_rules::strategies::Strategy;
use spoolgate_rules::theses::Thesis;

/// Names of the schemas of rule files.
pub(super) const NAMES: [&str; 14] = [
    "council.roles",
    "proposals.thesis",
    "rules.admission",
    "rules.gateway",
    "rules.instruments",
    "rules.notify",
    "rules.principals",
    "rules.rates",
    "rules.rule",
    "rules.safety",
    "rules.services",
    "rules.set",
    "rules.strategy",
    "rules.tests",
];

type Row = (Schema, &'static str, &'static [Condition]);

/// The rule file of this name.
pub(super) fn body(name: &str) -> Option<Body> {
    let (schema, about, conditions): Row = match name {
        "council.roles" => (
            read::<RolesFile>(),
            "`council/roles.yaml`: who is heard on what change, and what follows from the votes.",
            &[
                about::ROSTER,
                about::EVIDENCE,
                about::COMMAND,
                DIGITS,
                WHOLE,
            ],
        ),
        "proposals.thesis" => (
            read::<Thesis>(),
            "The front matter of `proposals/theses/<slug>.md`: which trades a thesis carries, and \
                what refutes it.",
            &[FILE, DIGITS, CALENDAR],
        ),
        "rules.admission" => (
            read::<Profile>(),
            "`rules/admission/<tenant>/<surface>/<profile>.yaml`: what may be admitted where.",
            &[about::TOGETHER, about::COMMAND, WHOLE],
        ),
        "rules.gateway" => (
            read::<Gateway>(),
            "`rules/gateway.yaml`: what does outgoing actions, how many there may be, and what is \
                out of the ordinary.",
            &[about::ADAPTERS, about::COMMAND, FILE, WHOLE],
        ),
        "rules.instruments" => (
            read::<InstrumentsFile>(),
            "`rules/instruments.yaml`: what may be traded, its exchange filters and its fees.",
            &[about::BRIDGE, about::ONCE, DIGITS, WHOLE, FILE],
        ),
        "rules.notify" => (
            read::<Notify>(),
            "`rules/notify.yaml`: who is told that a proposal waits.",
            &[about::COMMAND, WHOLE],
        ),
        "rules.principals" => (
            read::<PrincipalsFile>(),
            "`rules/principals.yaml`: who may sign, as what, and for which strategies.",
            &[about::ROLE, about::ONCE, FILE, WHOLE],
        ),
        "rules.rates" => (
            read::<RatesFile>(),
            "`rules/rates.yaml`: how much each spool may hand in.",
            &[about::ONCE, FILE, WHOLE],
        ),
        "rules.rule" => (
            read::<RuleFile>(),
            "`rules/core/<id>.yaml` or `rules/active/<id>.yaml`: a rule. `spoolgate rules fields` \
                lists the fields, `spoolgate rules lint` says what a rule means.",
            &[about::MEANING, FILE, DIGITS, WHOLE, CALENDAR],
        ),
        "rules.safety" => (
            read::<Safety>(),
            "`rules/safety.yaml`: the limits that no agent and no rule can change. Fractions are \
                of the capital base or of a price (0.05 is 5%), money is in the account's \
                currency.",
            &[about::WINDOW, DIGITS, WHOLE, FILE],
        ),
        "rules.services" => (
            read::<ServicesFile>(),
            "`rules/services.yaml`: the allowlist. Empty, or absent, nothing leaves the machine.",
            &[about::SERVICE, about::ONCE, CALENDAR, WHOLE],
        ),
        "rules.set" => (
            read::<SetFile>(),
            "`rules/sets/<name>.yaml`: a list of values that rules refer to.",
            &[about::ENTRIES, FILE, CALENDAR],
        ),
        "rules.strategy" => (
            read::<Strategy>(),
            "`rules/strategies/<name>.yaml`: what a strategy may trade and how far its stops may \
                lie.",
            &[about::STRATEGY, about::WINDOW, FILE, DIGITS],
        ),
        "rules.tests" => (
            read::<CaseFile>(),
            "`rules/tests/<name>.yaml`: facts, and what the rules must make of them.",
            &[about::CASES, DIGITS, CALENDAR],
        ),
        _ => return None,
    };
    Some(Body {
        schema,
        about: about.to_owned(),
        conditions: conditions.to_vec(),
    })
}
