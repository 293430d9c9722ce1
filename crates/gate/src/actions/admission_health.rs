//! `admission.health`.

use super::prelude::*;
use spoolgate_rules::admission::Policy;
use spoolgate_wire::admission::Domain;

/// Shows the policies that admission uses.
pub struct AdmissionHealth;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The answer to `admission.health`.
    AdmissionHealth {
        /// The gate's version.
        version: &'a str,
        /// The gate's instance: the name of its log.
        instance: &'a str,
        /// SHA-256 of the rulebook in force, hex.
        rulebook: &'a str,
        /// Why the rule files cannot be read; null if they can.
        rulebook_fault: Option<&'a str>,
        /// Every policy.
        policies: Vec<PolicyHealth<'a>>,
    },
}

/// One policy in the answer of `admission.health`.
#[derive(Serialize, JsonSchema)]
pub struct PolicyHealth<'a> {
    /// The domain that it applies to.
    #[serde(flatten)]
    domain: &'a Domain,
    /// Its own version; null if it has none.
    policy_version: Option<&'a str>,
    /// SHA-256 of the file's bytes, hex.
    policy_hash: &'a str,
    /// Tasks at this depth or deeper are denied.
    max_spawn_depth: u32,
    /// Why nothing can be admitted under it at present.
    error: Option<String>,
}

impl Action for AdmissionHealth {
    type Payload = Empty;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Reports whether admission can decide.";
    const ROW: Row = Row::new(
        ActionName::AdmissionHealth,
        "AdmissionHealth",
        "(none)",
        ANYBODY,
    )
    .query(
        "interrogate_health",
        "Admission: health",
        "Whether the policies of admission are available.",
    );

    /// A person sees every policy, other senders the policies of their own domains.
    fn execute(turn: &Turn<'_>, sender: &Authentic, _: &Empty) -> Result<Outcome, Refusal> {
        let source = &sender.envelope.source;
        let is_human = turn.rules.role(source) == Some(Role::Human);
        let own = turn
            .rules
            .principals
            .get(source)
            .and_then(|rule| rule.admission.as_ref());
        let sees =
            |domain: &Domain| is_human || own.is_some_and(|grant| grant.domains.contains(domain));
        let policies = turn
            .rules
            .admission
            .iter()
            .filter(|(domain, _)| sees(domain))
            .map(|(domain, policy)| PolicyHealth {
                domain,
                policy_version: policy.profile.policy_version.as_deref(),
                policy_hash: &policy.sha256,
                max_spawn_depth: policy.profile.max_spawn_depth.get(),
                error: fault(turn, domain, policy),
            });
        answer(&Answer::AdmissionHealth {
            version: &turn.state.program,
            instance: &turn.state.log,
            rulebook: &turn.rules.hash,
            rulebook_fault: turn.state.rulebook.fault.as_deref(),
            policies: policies.collect(),
        })
    }
}

fn fault(turn: &Turn<'_>, domain: &Domain, policy: &Policy) -> Option<String> {
    policy.profile.policy_command.as_ref()?;
    match turn.delivered(domain) {
        None => Some("no delivered policy is kept: the next request asks for one".to_owned()),
        Some(delivered) => delivered.fault.clone(),
    }
}
