//! Cedar: a `permit` for all and a `forbid` for each rule.

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, Policy, PolicyId, PolicySet, Request,
    Response, RestrictedExpression,
};
use spoolgate_rules::rule::Program;
use spoolgate_rules::rule::field::Id;

use super::{Engine, fields};
use crate::order::Order;
use crate::request::{Exact, Layout, Plain};
use crate::{Result, export};

/// Policies, and what they are asked about.
pub struct Cedar {
    authorizer: Authorizer,
    policies: PolicySet,
    entities: Entities,
    names: [EntityUid; 3],
    layout: Layout,
    fields: Vec<Id>,
    ids: Vec<String>,
}

/// Cedar's form of a decimal: a point, and a digit behind it.
fn decimal(number: &Exact) -> RestrictedExpression {
    let mut text = number.amount.to_string();
    if !text.contains('.') {
        text.push_str(".0");
    }
    RestrictedExpression::new_decimal(text)
}

/// The context of a request.
///
/// # Errors
/// A number that Cedar cannot hold.
pub fn context<'a>(layout: &Layout, plain: impl Fn(usize) -> Plain<'a>) -> Result<Context> {
    let mut rooms = Vec::with_capacity(layout.rooms.len());
    for (room, entries) in &layout.rooms {
        let values = entries.iter().filter_map(|(name, place)| {
            let value = match plain(*place) {
                Plain::Decimal(number) => decimal(&number),
                Plain::Whole(number) => RestrictedExpression::new_long(number),
                Plain::Text(text) => RestrictedExpression::new_string(text.to_owned()),
                Plain::Absent | Plain::Unknown => return None,
            };
            Some((name.clone(), value))
        });
        rooms.push((room.clone(), RestrictedExpression::new_record(values)?));
    }
    Ok(Context::from_pairs(rooms)?)
}

impl Cedar {
    /// Parses policies, `(id, text)` each, over fields of these names.
    ///
    /// # Errors
    /// What Cedar says of a policy.
    pub fn parse(policies: &[(String, String)], layout: Layout) -> Result<Cedar> {
        let mut set = PolicySet::new();
        set.add(Policy::parse(
            Some(PolicyId::new("all")),
            "permit (principal, action, resource);",
        )?)?;
        for (id, text) in policies {
            set.add(Policy::parse(Some(PolicyId::new(id)), text)?)?;
        }
        Ok(Cedar {
            authorizer: Authorizer::new(),
            policies: set,
            entities: Entities::empty(),
            names: [
                "Principal::\"desk\"".parse()?,
                "Action::\"order.submit\"".parse()?,
                "Gate::\"orders\"".parse()?,
            ],
            layout,
            fields: Vec::new(),
            ids: policies.iter().map(|(id, _)| id.clone()).collect(),
        })
    }

    /// Exports and parses a program.
    ///
    /// # Errors
    /// A condition that is not exported, or not read.
    pub fn new(program: &Program) -> Result<Cedar> {
        let fields = fields(program)?;
        let layout = Layout::of(fields.iter().map(|(name, _)| *name));
        let cedar = Cedar::parse(&export::cedar(program)?, layout)?;
        Ok(Cedar {
            fields: fields.into_iter().map(|(_, id)| id).collect(),
            ..cedar
        })
    }

    /// A request of values in the order of the names.
    ///
    /// # Errors
    /// A number that Cedar cannot hold.
    pub fn ask<'a>(&self, plain: impl Fn(usize) -> Plain<'a>) -> Result<Request> {
        let [principal, action, resource] = self.names.clone();
        Ok(Request::new(
            principal,
            action,
            resource,
            context(&self.layout, plain)?,
            None,
        )?)
    }

    /// All that Cedar says.
    pub fn answer(&self, request: &Request) -> Response {
        self.authorizer
            .is_authorized(request, &self.policies, &self.entities)
    }
}

impl Engine for Cedar {
    type Request<'a> = Request;

    fn request(&self, order: &Order) -> Result<Request> {
        self.ask(|place| order.plain(self.fields[place]))
    }

    fn is_refused(&mut self, request: &Request) -> Result<bool> {
        Ok(self.answer(request).decision() == Decision::Deny)
    }

    fn acting(&mut self, request: &Request) -> Result<u32> {
        let answer = self.answer(request);
        if let Some(error) = answer.diagnostics().errors().next() {
            return Err(error.to_string().into());
        }
        // An accepted order has the `permit` as its reason.
        let bits = answer.diagnostics().reason().filter_map(|id| {
            let id: &str = id.as_ref();
            self.ids.iter().position(|known| known == id)
        });
        Ok(bits.fold(0, |mask, bit| mask | (1 << bit)))
    }
}
