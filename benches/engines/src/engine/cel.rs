//! CEL: a program for each rule, or one expression for all.

use std::collections::HashMap;
use std::sync::Arc;

use ::cel::objects::{Key, Map};
use ::cel::{Context, Env, Program as Expression, Value};
use spoolgate_rules::rule::Program;
use spoolgate_rules::rule::field::Id;

use super::{Engine, fields};
use crate::order::Order;
use crate::request::{Layout, Plain};
use crate::{Result, export};

/// Expressions, and what they read.
pub struct Cel {
    env: Arc<Env>,
    expressions: Vec<Expression>,
    layout: Layout,
    fields: Vec<Id>,
}

impl Cel {
    /// Compiles expressions over fields of these names.
    ///
    /// # Errors
    /// What CEL says of one.
    pub fn parse<'t>(texts: impl IntoIterator<Item = &'t str>, layout: Layout) -> Result<Cel> {
        let env = Env::stdlib();
        let mut expressions = Vec::new();
        for text in texts {
            expressions.push(env.compile(text)?);
        }
        Ok(Cel {
            env: Arc::new(env),
            expressions,
            layout,
            fields: Vec::new(),
        })
    }

    /// Exports and compiles a program: an expression for each rule or, `in_one`, all of them joined
    /// by `||`, which stops at the first that acts and cannot say which others would.
    ///
    /// # Errors
    /// A condition that is not exported, or not read.
    pub fn new(program: &Program, in_one: bool) -> Result<Cel> {
        let fields = fields(program)?;
        let layout = Layout::of(fields.iter().map(|(name, _)| *name));
        let mut texts: Vec<String> = export::cel(program)?
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        if in_one {
            texts = vec![
                texts
                    .iter()
                    .map(|text| format!("({text})"))
                    .collect::<Vec<String>>()
                    .join(" || "),
            ];
        }
        let cel = Cel::parse(texts.iter().map(String::as_str), layout)?;
        Ok(Cel {
            fields: fields.into_iter().map(|(_, id)| id).collect(),
            ..cel
        })
    }

    /// A context with values in the order of the names.
    ///
    /// # Errors
    /// None is known.
    pub fn ask<'a>(&self, plain: impl Fn(usize) -> Plain<'a>) -> Result<Context<'static, 'static>> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        for (room, entries) in &self.layout.rooms {
            let values = entries.iter().filter_map(|(name, place)| {
                let value = match plain(*place) {
                    Plain::Decimal(number) => Value::Float(number.double),
                    Plain::Whole(number) => Value::Int(number),
                    Plain::Text(text) => Value::String(Arc::new(text.to_owned())),
                    Plain::Absent | Plain::Unknown => return None,
                };
                Some((Key::from(name.as_str()), value))
            });
            let map: HashMap<Key, Value> = values.collect();
            context.add_variable_from_value(room.as_str(), Value::Map(Map { map: Arc::new(map) }));
        }
        Ok(context)
    }

    /// What each expression says.
    ///
    /// # Errors
    /// What CEL says, or that the answer is neither yes nor no.
    pub fn answers(&self, context: &Context<'_, '_>) -> Result<u32> {
        let mut mask = 0;
        for (bit, expression) in self.expressions.iter().enumerate() {
            match expression.execute(context)? {
                Value::Bool(true) => mask |= 1 << bit,
                Value::Bool(false) => {}
                other => return Err(format!("`{other:?}` is neither yes nor no").into()),
            }
        }
        Ok(mask)
    }
}

impl Engine for Cel {
    type Request<'a> = Context<'static, 'static>;

    fn request(&self, order: &Order) -> Result<Context<'static, 'static>> {
        self.ask(|place| order.plain(self.fields[place]))
    }

    fn is_refused(&mut self, context: &Context<'static, 'static>) -> Result<bool> {
        Ok(self.answers(context)? != 0)
    }

    fn acting(&mut self, context: &Context<'static, 'static>) -> Result<u32> {
        self.answers(context)
    }
}
