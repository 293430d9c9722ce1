//! Which requests are exempt from the quota of a spool: those that can only reduce risk, control
//! the gate, or come from a person. Evaluated before a file is claimed, on exactly what a batch
//! would decide; the decision itself comes later and does not depend on it.

use super::actions::{Body, Lane};
use super::halts::On;
use super::prepare::{Authentic, Prepared};
use super::rates;
use super::safer::{Safer, Waiting};
use super::state::State;
use super::storage::Level;
use spoolgate_rules::Rulebook;
use spoolgate_rules::principals::Role;
use spoolgate_trading::{cancel, tighten};
use spoolgate_wire::action_name::ActionName;
use spoolgate_wire::admin::SetHalt;
use spoolgate_wire::control::ControlAttempt;
use spoolgate_wire::orders::{CancelOrder, TightenStop};
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
    /// room or none, a halt, cancel or tighten of a program that would change nothing waits: it must
    /// not use up the room for lines. With little room, requests that are not served pass too, to be
    /// refused, as far as their sender's rate of messages goes; the rest waits, or refusals would
    /// take the room that is left. Protected messages have no such rate.
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
        if !level.is_normal() && changes_nothing(authentic, state, rules) {
            return match standing {
                Standing::Passes => Standing::Waits(None),
                waits => waits,
            };
        }
        let may_be_refused = level == Level::Low
            && request.lane(state) != Lane::Protected
            && rates::has_room(state, rules, &envelope.source, now);
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

/// Whether a halt, cancel or tighten would change nothing: it would be refused, or there is nothing
/// left to do. Never said of a person's.
fn changes_nothing(authentic: &Authentic, state: &State, rules: &Rulebook) -> bool {
    let source = &authentic.envelope.source;
    let (Ok(body), false) = (&authentic.body, rules.role(source) == Some(Role::Human)) else {
        return false;
    };
    let orders = &state.book.orders;
    if let Some(halt) = body.payload::<SetHalt>() {
        // A program halts nobody but itself and its strategies.
        let on = On::of(halt);
        let is_other = halt.principal.as_ref().is_some_and(|named| named != source)
            || on.as_ref().is_some_and(|on| !on.is_of(rules, source));
        let set = state.halts.of(Some(source), on.as_ref());
        is_other || set.is_some_and(|set| halt.keep_orders || !set.keep_orders)
    } else if let Some(cancel) = body.payload::<CancelOrder>() {
        let order = orders.get(&cancel.order_id);
        !order.is_some_and(cancel::is_open_to_programs)
    } else if let Some(it) = body.payload::<TightenStop>() {
        let stop = orders.get(&tighten::stop_of(it.order_id));
        !stop.is_some_and(|stop| tighten::is_tighter(stop, it.new_stop))
    } else {
        false
    }
}
