//! Rego, by regorus: read and interpreted, compiled, or compiled for its virtual machine.

use std::sync::Arc;

use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::vm::RegoVM;
use regorus::{CompiledPolicy, Engine as Interpreter, Value};
use spoolgate_rules::rule::Program;
use spoolgate_rules::rule::field::Id;

use super::{Engine, fields};
use crate::order::Order;
use crate::request::{Layout, Plain};
use crate::{Result, export};

const RULE: &str = "data.orders.deny";

/// The three ways in which regorus evaluates.
pub enum Form {
    /// Modules, read.
    Read(Box<Interpreter>),
    /// A compiled policy, which the interpreter walks.
    Compiled(CompiledPolicy),
    /// Instructions of its virtual machine.
    Machine(Box<RegoVM>),
}

/// A policy in one of them.
pub struct Rego {
    form: Form,
    layout: Layout,
    fields: Vec<Id>,
    ids: Vec<String>,
}

/// Which form is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// [`Form::Read`]
    Read,
    /// [`Form::Compiled`]
    Compiled,
    /// [`Form::Machine`]
    Machine,
}

/// The input document.
///
/// # Errors
/// None is known.
pub fn input<'a>(layout: &Layout, plain: impl Fn(usize) -> Plain<'a>) -> Result<Value> {
    let mut document = Value::new_object();
    for (room, entries) in &layout.rooms {
        let mut values = Value::new_object();
        for (name, place) in entries {
            let value = match plain(*place) {
                Plain::Decimal(number) => Value::from(number.double),
                Plain::Whole(number) => Value::from(number),
                Plain::Text(text) => Value::from(text),
                Plain::Absent | Plain::Unknown => continue,
            };
            values
                .as_object_mut()?
                .insert(Value::from(name.as_str()), value);
        }
        document
            .as_object_mut()?
            .insert(Value::from(room.as_str()), values);
    }
    Ok(document)
}

impl Rego {
    /// Reads a module over fields of these names, and compiles it as wanted.
    ///
    /// # Errors
    /// What regorus says of it.
    pub fn parse(module: &str, layout: Layout, wanted: Wanted) -> Result<Rego> {
        let mut engine = Interpreter::new();
        engine.add_policy("orders.rego".to_owned(), module.to_owned())?;
        let rule: Arc<str> = Arc::from(RULE);
        let form = match wanted {
            Wanted::Read => Form::Read(Box::new(engine)),
            Wanted::Compiled => Form::Compiled(engine.compile_with_entrypoint(&rule)?),
            Wanted::Machine => {
                let compiled = engine.compile_with_entrypoint(&rule)?;
                let mut machine = RegoVM::new();
                machine.load_program(Compiler::compile_from_policy(&compiled, &[RULE])?);
                Form::Machine(Box::new(machine))
            }
        };
        Ok(Rego {
            form,
            layout,
            fields: Vec::new(),
            ids: Vec::new(),
        })
    }

    /// Exports, reads and compiles a program.
    ///
    /// # Errors
    /// A condition that is not exported, or not read.
    pub fn new(program: &Program, wanted: Wanted) -> Result<Rego> {
        let fields = fields(program)?;
        let layout = Layout::of(fields.iter().map(|(name, _)| *name));
        let rego = Rego::parse(&export::rego(program)?, layout, wanted)?;
        let ids = program
            .guards
            .iter()
            .map(|guard| guard.id.to_string())
            .collect();
        Ok(Rego {
            fields: fields.into_iter().map(|(_, id)| id).collect(),
            ids,
            ..rego
        })
    }

    /// An input of values in the order of the names.
    ///
    /// # Errors
    /// None is known.
    pub fn ask<'a>(&self, plain: impl Fn(usize) -> Plain<'a>) -> Result<Value> {
        input(&self.layout, plain)
    }

    /// The set of ids of rules that act.
    ///
    /// # Errors
    /// What regorus says.
    pub fn deny(&mut self, input: &Value) -> Result<Value> {
        Ok(match &mut self.form {
            Form::Read(engine) => {
                engine.set_input(input.clone());
                engine.eval_rule(RULE.to_owned())?
            }
            Form::Compiled(policy) => policy.eval_with_input(input.clone())?,
            Form::Machine(machine) => {
                machine.set_input(input.clone());
                machine.execute()?
            }
        })
    }
}

impl Engine for Rego {
    type Request<'a> = Value;

    fn request(&self, order: &Order) -> Result<Value> {
        self.ask(|place| order.plain(self.fields[place]))
    }

    fn is_refused(&mut self, input: &Value) -> Result<bool> {
        Ok(!self.deny(input)?.as_set()?.is_empty())
    }

    fn acting(&mut self, input: &Value) -> Result<u32> {
        let mut mask = 0;
        for id in self.deny(input)?.as_set()?.iter() {
            let id = id.as_string()?;
            let bit = self
                .ids
                .iter()
                .position(|known| **known == **id)
                .ok_or("an unknown rule")?;
            mask |= 1 << bit;
        }
        Ok(mask)
    }
}
