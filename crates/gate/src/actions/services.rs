//! `services.add`, `services.remove`, `services.deactivate` and `services.activate`: how a person
//! changes the allowlist.

#[cfg(feature = "schema")]
use serde_json::{Value, json};

use super::prelude::*;
use crate::services::{Asked, Changed as Answer, check_added};
#[cfg(feature = "schema")]
use spoolgate_rules::services::BY_ACTION;
use spoolgate_rules::services::PATH;
use spoolgate_wire::services::{AddService, NameService};

/// Adds a service to the allowlist.
pub struct ServicesAdd;

/// Removes a service from the allowlist.
pub struct ServicesRemove;

/// Deactivates a service for the time being.
pub struct ServicesDeactivate;

/// Activates a service again.
pub struct ServicesActivate;

impl Action for ServicesAdd {
    type Payload = AddService;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Adds a service to the allowlist.";
    const CONDITIONS: &'static [Condition] = &[SERVICE, WHOLE];
    const ROW: Row = Row::new(
        ActionName::ServicesAdd,
        "AddService",
        "service, host, port?, protocol, methods?, actions?",
        HUMAN,
    )
    .lane(Lane::Control);

    /// Lists the actions that an entry can name; they are defined with the rule files.
    #[cfg(feature = "schema")]
    fn schema() -> Schema {
        let mut schema = schemas::read::<AddService>();
        if let Some(actions) = schema
            .pointer_mut("/properties/actions")
            .and_then(Value::as_object_mut)
        {
            actions.insert(
                "items".to_owned(),
                json!({"type": "string", "enum": BY_ACTION}),
            );
            actions.insert("uniqueItems".to_owned(), json!(true));
        }
        schema
    }

    fn check(add: &AddService) -> Result<(), PayloadError> {
        check_added(add)
    }

    fn needs(_: &Rulebook, _: &Authentic, _: &AddService, needs: &mut Needs) {
        needs.rule_file = Some(PATH.to_owned());
    }

    fn execute(turn: &Turn<'_>, sender: &Authentic, add: &AddService) -> Result<Outcome, Refusal> {
        turn.edit_services(&sender.envelope.source, &Asked::Add(add))
    }
}

impl Action for ServicesRemove {
    type Payload = NameService;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Removes a service from the allowlist.";
    const ROW: Row =
        Row::new(ActionName::ServicesRemove, "NameService", "service", HUMAN).lane(Lane::Control);

    fn needs(_: &Rulebook, _: &Authentic, _: &NameService, needs: &mut Needs) {
        needs.rule_file = Some(PATH.to_owned());
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        named: &NameService,
    ) -> Result<Outcome, Refusal> {
        turn.edit_services(&sender.envelope.source, &Asked::Remove(&named.service))
    }
}

impl Action for ServicesDeactivate {
    type Payload = NameService;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Deactivates a service without removing it from the allowlist.";
    const ROW: Row = Row::new(
        ActionName::ServicesDeactivate,
        "NameService",
        "service",
        HUMAN,
    )
    .lane(Lane::Control);

    fn needs(_: &Rulebook, _: &Authentic, _: &NameService, needs: &mut Needs) {
        needs.rule_file = Some(PATH.to_owned());
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        named: &NameService,
    ) -> Result<Outcome, Refusal> {
        turn.edit_services(
            &sender.envelope.source,
            &Asked::Allow(&named.service, false),
        )
    }
}

impl Action for ServicesActivate {
    type Payload = NameService;
    type Answer = Answer<'static>;
    const ABOUT: &'static str = "Activates a service again.";
    const ROW: Row = Row::new(
        ActionName::ServicesActivate,
        "NameService",
        "service",
        HUMAN,
    )
    .lane(Lane::Control);

    fn needs(_: &Rulebook, _: &Authentic, _: &NameService, needs: &mut Needs) {
        needs.rule_file = Some(PATH.to_owned());
    }

    fn execute(
        turn: &Turn<'_>,
        sender: &Authentic,
        named: &NameService,
    ) -> Result<Outcome, Refusal> {
        turn.edit_services(&sender.envelope.source, &Asked::Allow(&named.service, true))
    }
}
