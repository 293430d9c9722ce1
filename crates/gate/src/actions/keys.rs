//! `keys.add`, `keys.rotate` and `keys.revoke`: the keys that principals sign with.

#[cfg(feature = "schema")]
use serde_json::{Value, json};

use super::prelude::*;
use crate::state::KeyRecord;
use spoolgate_wire::admin::{AddKey, RevokeKey};
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing;
use spoolgate_wire::time::Time;

/// Puts a key in force.
pub struct KeysAdd;

/// Puts a key in force and ends the others of its principal.
pub struct KeysRotate;

/// Ends a key.
pub struct KeysRevoke;

/// The answer of `keys.add` and `keys.rotate`.
#[derive(Serialize, JsonSchema)]
pub enum Added<'a> {
    /// The answer to `keys.add` and `keys.rotate`.
    KeyAdded {
        /// The key.
        key_id: &'a str,
        /// The principal that signs with it.
        principal: &'a Principal,
    },
}

/// The answer of `keys.revoke`.
#[derive(Serialize, JsonSchema)]
pub enum Revoked<'a> {
    /// The answer to `keys.revoke`.
    KeyRevoked {
        /// The key.
        key_id: &'a str,
        /// When it ended.
        at: Time,
    },
}

impl Action for KeysAdd {
    type Payload = AddKey;
    type Answer = Added<'static>;
    const ABOUT: &'static str = "Adds a key.";
    const ROW: Row = Row::new(
        ActionName::KeysAdd,
        "AddKey",
        "principal, key_id, algorithm",
        HUMAN,
    )
    .lane(Lane::Control);

    /// Removes `others_end`, which only a rotation takes: adding a key does not end others.
    #[cfg(feature = "schema")]
    fn schema() -> Schema {
        let mut schema = schemas::read::<AddKey>();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove("others_end");
        }
        schema
    }

    fn check(add: &AddKey) -> Result<(), PayloadError> {
        check_key_id(&add.key_id)?;
        match add.others_end {
            Some(_) => Err(PayloadError::form(
                "others_end",
                "is only for `keys.rotate`; leave it \
                out",
            )),
            None => Ok(()),
        }
    }

    fn needs(_: &Rulebook, _: &Authentic, add: &AddKey, needs: &mut Needs) {
        needs.key = Some(add.key_id.clone());
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, add: &AddKey) -> Result<Outcome, Refusal> {
        add_key(turn, add)
    }
}

impl Action for KeysRotate {
    type Payload = AddKey;
    type Answer = Added<'static>;
    const ABOUT: &'static str = "Adds a key and ends the other keys of its principal.";
    const CONDITIONS: &'static [Condition] = &[CALENDAR];
    const ROW: Row = Row::new(
        ActionName::KeysRotate,
        "RotateKey",
        "principal, key_id, algorithm, others_end",
        HUMAN,
    )
    .lane(Lane::Control);

    #[cfg(feature = "schema")]
    fn schema() -> Schema {
        let mut schema = schemas::read::<AddKey>();
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.push(json!("others_end"));
        }
        schema
    }

    fn check(add: &AddKey) -> Result<(), PayloadError> {
        check_key_id(&add.key_id)?;
        match add.others_end {
            Some(_) => Ok(()),
            None => Err(PayloadError::Missing {
                field: "others_end",
            }),
        }
    }

    fn needs(_: &Rulebook, _: &Authentic, add: &AddKey, needs: &mut Needs) {
        needs.key = Some(add.key_id.clone());
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, add: &AddKey) -> Result<Outcome, Refusal> {
        add_key(turn, add)
    }
}

impl Action for KeysRevoke {
    type Payload = RevokeKey;
    type Answer = Revoked<'static>;
    const ABOUT: &'static str = "Revokes a key.";
    const CONDITIONS: &'static [Condition] = &[BYTES];
    const ROW: Row =
        Row::new(ActionName::KeysRevoke, "RevokeKey", "key_id, reason", HUMAN).lane(Lane::Control);

    fn check(revoke: &RevokeKey) -> Result<(), PayloadError> {
        check_reason(&revoke.reason)?;
        check_key_id(&revoke.key_id)
    }

    fn execute(turn: &Turn<'_>, _: &Authentic, revoke: &RevokeKey) -> Result<Outcome, Refusal> {
        let keys = &turn.state.keys;
        let key = keys.get(&revoke.key_id).ok_or_else(|| {
            Refusal::new(
                Code::NotFound,
                format!("key {} does not exist", revoke.key_id),
            )
        })?;
        if !key.is_active(turn.now) {
            let what = format!("key {} has already ended", revoke.key_id);
            return Err(Refusal::new(Code::StateConflict, what));
        }
        // Revoking the last key of the last person would leave nobody who can clear halts or add
        // keys.
        let is_human = |name: &Principal| turn.rules.role(name) == Some(Role::Human);
        let another = keys.values().any(|other| {
            // A key that ends by rotation does not count.
            let lasts = other.ends_at.is_none() && other.revoked_at.is_none();
            other.key_id != key.key_id && lasts && is_human(&other.principal)
        });
        if is_human(&key.principal) && !another {
            let what = "this is the last key of a person; add another one first";
            return Err(Refusal::new(Code::StateConflict, what));
        }
        let changes = vec![Change::KeyRevoked {
            key_id: revoke.key_id.clone(),
            at: turn.now,
        }];
        let data = data(&Revoked::KeyRevoked {
            key_id: &revoke.key_id,
            at: turn.now,
        })?;
        Ok(Outcome {
            data,
            changes,
            ..Outcome::default()
        })
    }
}

fn check_key_id(key_id: &str) -> Result<(), PayloadError> {
    if key_id.len() == 16 && signing::unhex(key_id).is_some() {
        return Ok(());
    }
    Err(PayloadError::form(
        "key_id",
        "must be 16 lower-case hex digits",
    ))
}

fn add_key(turn: &Turn<'_>, add: &AddKey) -> Result<Outcome, Refusal> {
    if !turn.rules.principals.contains_key(&add.principal) {
        if let Some(fault) = &turn.state.rulebook.fault {
            let what = format!(
                "`{}` is not among the principals of the last valid rules, and the rule files \
                    cannot be read: {fault}",
                add.principal
            );
            return Err(Refusal::new(Code::RulebookInvalid, what));
        }
        let what = format!(
            "`{}` is not in rules/principals.yaml; a person adds it there first",
            add.principal
        );
        return Err(Refusal::new(Code::NotFound, what));
    }
    if turn.state.keys.contains_key(&add.key_id) {
        return Err(Refusal::new(
            Code::StateConflict,
            format!("key {} was added before", add.key_id),
        ));
    }
    if !turn.lookups.key_is_held {
        let what = format!("the keyring of this home does not hold key {}", add.key_id);
        return Err(Refusal::new(Code::NotFound, what));
    }
    let mut changes: Vec<Change> = Vec::new();
    if let Some(at) = add.others_end {
        let others = turn.state.active_keys(&add.principal, turn.now);
        changes.extend(others.map(|key_id| Change::KeyEnds {
            key_id: key_id.to_owned(),
            at,
        }));
    }
    changes.push(Change::KeyAdded(KeyRecord {
        key_id: add.key_id.clone(),
        principal: add.principal.clone(),
        algorithm: add.algorithm,
        added_at: turn.now,
        ends_at: None,
        revoked_at: None,
    }));
    let data = data(&Added::KeyAdded {
        key_id: &add.key_id,
        principal: &add.principal,
    })?;
    Ok(Outcome {
        data,
        changes,
        ..Outcome::default()
    })
}
