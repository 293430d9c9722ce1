//! What gets lost on the way to other engines, case by case: one rule each, and a request that must
//! be refused.

use cedar_policy::Decision;
use spoolgate_rules::rule::{Around, Entries, Fact, Then};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::time::Time;

use crate::engine::cedar::Cedar;
use crate::engine::cel::Cel;
use crate::engine::rego::{Rego, Wanted};
use crate::request::{Exact, Layout, Plain};
use crate::{Result, rules};

/// What an engine says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It refuses.
    Refuses,
    /// It lets pass.
    Allows,
    /// It lets pass, having skipped a policy that could not be evaluated.
    AllowsSkipping,
    /// The engine cannot tell; the caller has to decide.
    Fails,
    /// The request cannot be put into its form.
    NoRequest,
    /// The rule is not accepted in the first place.
    NoRule,
    /// Its language has no words for the rule.
    NoWords,
}

impl Answer {
    /// For people.
    pub fn text(&self) -> &'static str {
        match self {
            Answer::Refuses => "refuses",
            Answer::Allows => "ALLOWS",
            Answer::AllowsSkipping => "ALLOWS: the policy fails and is skipped",
            Answer::Fails => "error; the caller decides",
            Answer::NoRequest => "no request can be made",
            Answer::NoRule => "refuses the rule file",
            Answer::NoWords => "cannot be written",
        }
    }
}

/// A rule in four languages, and one request.
pub struct Case {
    /// What goes wrong.
    pub name: &'static str,
    /// The condition of our rule.
    ours: &'static str,
    /// The fact that it reads.
    fact: Fact<'static>,
    /// Conditions in the other languages; empty if a language cannot express it.
    cedar: Option<&'static str>,
    rego: &'static str,
    cel: &'static str,
    /// What the others are given: names and values.
    given: Vec<(&'static str, Plain<'static>)>,
}

/// What everybody says of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// Ours.
    pub ours: Answer,
    /// Cedar's.
    pub cedar: Answer,
    /// Rego's, all three forms of regorus.
    pub rego: Answer,
    /// CEL's.
    pub cel: Answer,
}

fn number(text: &str) -> Plain<'static> {
    Plain::Decimal(Exact::read(text))
}

fn amount(text: &str) -> Amount {
    Exact::read(text).amount
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let product = amount("5000000000").checked_mul(amount("5000000000"));
    let too_large =
        amount("999999999999.9999999999").checked_mul(amount("999999999999.9999999999"));
    let no_product = "size x price is more than an amount can hold";
    vec![
        Case {
            name: "missing fact: no fresh quote, so no spread",
            ours: "{field: market.spread, op: gt, value: 0.0025}",
            fact: Fact::Unknown("no fresh quote".into()),
            cedar: Some("context.market.spread.greaterThan(decimal(\"0.0025\"))"),
            rego: "input.market.spread > 0.0025",
            cel: "market.spread > 0.0025",
            given: vec![
                ("market.spread", Plain::Unknown),
                ("market.price", number("100")),
            ],
        },
        Case {
            name: "misspelt field: `spred_pct` in the rule, a spread of 0.9 in the request",
            ours: "{field: market.spred_pct, op: gt, value: 0.0025}",
            fact: Fact::number(amount("0.9")),
            cedar: Some("context.market.spred_pct.greaterThan(decimal(\"0.0025\"))"),
            rego: "input.market.spred_pct > 0.0025",
            cel: "market.spred_pct > 0.0025",
            given: vec![("market.spread", number("0.9"))],
        },
        Case {
            name: "0.1 + 0.7 against a budget: at least 0.8 is refused",
            ours: "{field: history.sum, of: order.size, window_s: 86400, op: gte, value: 0.8}",
            fact: Fact::number_or_unknown(amount("0.1").checked_add(amount("0.7")), "no sum"),
            cedar: None,
            rego: "input.order.before + input.order.size >= 0.8",
            cel: "order.before + order.size >= 0.8",
            given: vec![
                ("order.before", number("0.1")),
                ("order.size", number("0.7")),
            ],
        },
        Case {
            name: "22 digits: 123456789012.0000000001 is above 123456789012",
            ours: "{field: order.notional, op: gt, value: 123456789012}",
            fact: Fact::number(amount("123456789012.0000000001")),
            cedar: Some("context.order.notional.greaterThan(decimal(\"123456789012.0\"))"),
            rego: "input.order.notional > 123456789012",
            cel: "order.notional > 123456789012.0",
            given: vec![("order.notional", number("123456789012.0000000001"))],
        },
        Case {
            name: "five decimals in the rule: a spread of 0.01 is above 0.00255",
            ours: "{field: market.spread, op: gt, value: 0.00255}",
            fact: Fact::number(amount("0.01")),
            cedar: Some("context.market.spread.greaterThan(decimal(\"0.00255\"))"),
            rego: "input.market.spread > 0.00255",
            cel: "market.spread > 0.00255",
            given: vec![("market.spread", number("0.01"))],
        },
        Case {
            name: "five decimals in the request: a spread of 0.00255 is above 0.0025",
            ours: "{field: market.spread, op: gt, value: 0.0025}",
            fact: Fact::number(amount("0.00255")),
            cedar: Some("context.market.spread.greaterThan(decimal(\"0.0025\"))"),
            rego: "input.market.spread > 0.0025",
            cel: "market.spread > 0.0025",
            given: vec![("market.spread", number("0.00255"))],
        },
        Case {
            name: "overflow: 5,000,000,000 units at 5,000,000,000 against 50,000, whole numbers",
            ours: "{field: order.notional, op: gt, value: 50000}",
            fact: Fact::number_or_unknown(product, no_product),
            cedar: Some("context.order.size * context.order.price > 50000"),
            rego: "input.order.size * input.order.price > 50000",
            cel: "order.size * order.price > 50000",
            given: vec![
                ("order.size", Plain::Whole(5_000_000_000)),
                ("order.price", Plain::Whole(5_000_000_000)),
            ],
        },
        Case {
            name: "a product that no amount holds: 999999999999.9999999999 squared",
            ours: "{field: order.notional, op: gt, value: 50000}",
            fact: Fact::number_or_unknown(too_large, no_product),
            cedar: None,
            rego: "input.order.size * input.order.price > 50000",
            cel: "order.size * order.price > 50000.0",
            given: vec![
                ("order.size", number("999999999999.9999999999")),
                ("order.price", number("999999999999.9999999999")),
            ],
        },
    ]
}

impl Case {
    fn ours(&self) -> Result<Answer> {
        let text = format!(
            "id: one\nstatus: active\napplies_to: {{action: {}}}\nwhen:\n  - {}\nthen: \
                reject\nmessage: \"no\"\n",
            rules::ACTION,
            self.ours
        );
        let Ok(program) = rules::program(&[("rules/core/one.yaml", text.as_str())]) else {
            return Ok(Answer::NoRule);
        };
        let entries = Entries::default();
        let around = Around {
            now: Time::from_ms(0)?,
            entries: &entries,
            task: None,
        };
        let act = program.act(std::slice::from_ref(&self.fact), &around);
        Ok(if act == Some(Then::Reject) {
            Answer::Refuses
        } else {
            Answer::Allows
        })
    }

    fn layout(&self) -> Layout {
        Layout::of(self.given.iter().map(|(name, _)| *name))
    }

    fn cedar(&self) -> Result<Answer> {
        let Some(condition) = self.cedar else {
            return Ok(Answer::NoWords);
        };
        let policy = format!("forbid (principal, action, resource) when {{ {condition} }};");
        let cedar = Cedar::parse(&[("one".to_owned(), policy)], self.layout())?;
        let Ok(request) = cedar.ask(|place| self.given[place].1) else {
            return Ok(Answer::NoRequest);
        };
        let answer = cedar.answer(&request);
        let has_failed = answer.diagnostics().errors().next().is_some();
        Ok(match answer.decision() {
            Decision::Deny => Answer::Refuses,
            Decision::Allow if has_failed => Answer::AllowsSkipping,
            Decision::Allow => Answer::Allows,
        })
    }

    fn rego(&self, wanted: Wanted) -> Result<Answer> {
        let module = format!(
            "package orders\n\nimport rego.v1\n\ndeny contains \"one\" if {{\n\t{}\n}}\n",
            self.rego
        );
        let mut rego = Rego::parse(&module, self.layout(), wanted)?;
        let Ok(input) = rego.ask(|place| self.given[place].1) else {
            return Ok(Answer::NoRequest);
        };
        let Ok(denied) = rego.deny(&input) else {
            return Ok(Answer::Fails);
        };
        let is_empty = denied.as_set().map_or(true, |set| set.is_empty());
        Ok(if is_empty {
            Answer::Allows
        } else {
            Answer::Refuses
        })
    }

    fn cel(&self) -> Result<Answer> {
        let cel = Cel::parse([self.cel], self.layout())?;
        let Ok(context) = cel.ask(|place| self.given[place].1) else {
            return Ok(Answer::NoRequest);
        };
        Ok(match cel.answers(&context) {
            Ok(0) => Answer::Allows,
            Ok(_) => Answer::Refuses,
            Err(_) => Answer::Fails,
        })
    }

    /// Asks everybody.
    ///
    /// # Errors
    /// A policy that was to be read is not, or forms of regorus differ.
    pub fn answers(&self) -> Result<Answers> {
        let rego = self.rego(Wanted::Read)?;
        for wanted in [Wanted::Compiled, Wanted::Machine] {
            let other = self.rego(wanted)?;
            if other != rego {
                return Err(format!(
                    "regorus as {wanted:?} says {other:?}, as read {rego:?}"
                )
                .into());
            }
        }
        Ok(Answers {
            ours: self.ours()?,
            cedar: self.cedar()?,
            rego,
            cel: self.cel()?,
        })
    }
}
