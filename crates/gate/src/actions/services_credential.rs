//! `services.credential`.

use super::prelude::*;
use crate::services::{self, CredentialRecord};
use spoolgate_wire::ids::ServiceName;
use spoolgate_wire::services::SetCredential;
use spoolgate_wire::signing;

/// Sets or removes the credential of a service.
pub struct ServicesCredential;

/// The answer.
#[derive(Serialize, JsonSchema)]
pub enum Answer<'a> {
    /// The credential was set or removed.
    CredentialSet {
        /// The service.
        service: &'a ServiceName,
        /// The credential's name in the keyring; null if it was removed.
        credential_id: Option<&'a str>,
    },
}

impl Action for ServicesCredential {
    type Payload = SetCredential;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Sets or removes the credential of a service.";
    const ROW: Row = Row::new(
        ActionName::ServicesCredential,
        "SetCredential",
        "service, credential_id?",
        HUMAN,
    )
    .lane(Lane::Control);

    fn check(set: &SetCredential) -> Result<(), PayloadError> {
        let is_id = |id: &String| id.len() == 32 && signing::unhex(id).is_some();
        if !set.credential_id.as_ref().is_none_or(is_id) {
            let rule = "must be 32 lower-case hex digits";
            return Err(PayloadError::form("credential_id", rule));
        }
        Ok(())
    }

    fn needs(_: &Rulebook, _: &Authentic, set: &SetCredential, needs: &mut Needs) {
        needs.credential = set
            .credential_id
            .clone()
            .map(|id| (set.service.clone(), id));
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        set: &SetCredential,
    ) -> Result<Outcome, Refusal> {
        let name = &set.service;
        let credential = match &set.credential_id {
            None if !turn.state.credentials.contains_key(name) => {
                let what = format!("service `{name}` has no credential");
                return Err(Refusal::new(Code::NotFound, what));
            }
            None => None,
            Some(credential_id) => {
                let host = turn.service(name)?.host.clone();
                if !turn.lookups.key_is_held {
                    let what = format!(
                        "the keyring of this home does not hold credential {credential_id} of \
                            `{name}`"
                    );
                    return Err(Refusal::new(Code::NotFound, what));
                }
                let (set_at, set_by) = (turn.now, sender.envelope.source.clone());
                Some(CredentialRecord {
                    credential_id: credential_id.clone(),
                    host,
                    set_at,
                    set_by,
                })
            }
        };
        let credential_id = set.credential_id.as_deref();
        let change = services::Change::Credential {
            service: name.clone(),
            credential,
        };
        Ok(Outcome {
            data: data(&Answer::CredentialSet {
                service: name,
                credential_id,
            })?,
            changes: vec![Change::Services(change)],
            ..Outcome::default()
        })
    }
}
