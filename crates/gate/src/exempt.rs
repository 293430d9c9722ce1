//! Which requests are exempt from the quota of a spool: those that can only reduce risk, control
//! the gate, or come from a person. Evaluated before a file is claimed, on exactly what a batch
//! would decide; the decision itself comes later and does not depend on it.

use super::actions::{Body, Lane};
use super::prepare::{Authentic, Prepared};
use super::rates;
use super::safer::{Safer, Waiting};
use super::state::State;
use super::storage::Level;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::SetHalt;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::time::Time;
use spoolgate_wire::venue::VenueReport;

/// Whether a request passes a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is not held back.
    Passes,
    /// It waits. A request that may become exempt when the book changes is kept for that.
    Waits(Option<Box<Waiting>>),
}

impl Standing {
    /// The standing of a prepared request in the present state, at this level of the gate's disk.
    ///
    /// On a full disk only exits, cancels, tightens and halts pass, whoever sends them. With little
    /// room or none, a halt of an agent that is in force already waits: what changes nothing must not
    /// use up the room for lines. With little room, requests that are not served pass too, to be
    /// refused, as far as their sender's rate of messages goes; the rest waits, or refusals would
    /// take the room that is left.
    pub fn of(
        request: &Prepared,
        state: &State,
        rules: &Rulebook,
        level: Level,
        now: Time,
    ) -> Standing {
        let standing = Standing::regardless(request, state, rules, level);
        let Ok(authentic @ Authentic { envelope, .. }) = &request.request else {
            return standing;
        };
        if !level.is_normal() && is_halt_in_force(authentic, state, rules) {
            return Standing::Waits(None);
        }
        let may_be_refused =
            level == Level::Low && rates::has_room(state, rules, &envelope.source, now);
        match standing {
            Standing::Waits(_) if may_be_refused => Standing::Passes,
            other => other,
        }
    }

    /// The standing without regard to the sender's rate.
    fn regardless(request: &Prepared, state: &State, rules: &Rulebook, level: Level) -> Standing {
        let is_disk_full = level == Level::Reserve;
        let Ok(Authentic { envelope, body, .. }) = &request.request else {
            return Standing::Waits(None);
        };
        let source = &envelope.source;
        let Some(rule) = rules.principals.get(source) else {
            return Standing::Waits(None);
        };
        if !request
            .origin
            .is_for(rule.spool.as_ref(), rule.unix_user.as_ref())
        {
            return Standing::Waits(None);
        }
        if rule.role == Role::Human && !is_disk_full {
            return Standing::Passes;
        }
        let Ok(body) = body else {
            return Standing::Waits(None);
        };
        if !body.rule.senders.contains(&rule.role) {
            return Standing::Waits(None);
        }
        let is_brake = |body: &Body| {
            matches!(
                body.rule.name,
                ActionName::OrderSubmit
                    | ActionName::OrderCancel
                    | ActionName::OrderTightenStop
                    | ActionName::PositionClose
                    | ActionName::HaltSet
            )
        };
        match Safer::of(source, rule, body, state, rules) {
            Safer::Yes if !is_disk_full || is_brake(body) => return Standing::Passes,
            Safer::Yes => return Standing::Waits(None),
            Safer::Once(waiting) => return Standing::Waits(Some(Box::new(waiting))),
            Safer::No if is_disk_full => return Standing::Waits(None),
            Safer::No => {}
        }
        // A control decision that makes nothing safer waits. Venue reports cannot wait: what they
        // report has happened.
        let passes = body.payload::<ControlAttempt>().is_none()
            && (body.rule.lane == Lane::Control || body.payload::<VenueReport>().is_some());
        if passes {
            Standing::Passes
        } else {
            Standing::Waits(None)
        }
    }
}

/// Whether this is a halt of an agent that is in force already.
fn is_halt_in_force(authentic: &Authentic, state: &State, rules: &Rulebook) -> bool {
    let source = &authentic.envelope.source;
    let halt = authentic.body.as_ref().ok();
    let halt = halt.and_then(|body| body.payload::<SetHalt>());
    rules.role(source) == Some(Role::Agent)
        && halt.is_some_and(|halt| state.is_halted(Some(halt.principal.as_ref().unwrap_or(source))))
}
