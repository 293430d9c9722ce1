//! The writers into the spool: agents, a feed, the owner and commands of the gate's own user, with
//! requests of every kind. They have the wall clock and keys, and never read the gate's own files.

use std::path::PathBuf;

use spoolgate_gate::prepare::Origin;
use spoolgate_host::spool::scan::folder;
use spoolgate_trading::market_row::{Row, write_blob};
use spoolgate_wire::amount::Amount;
use spoolgate_wire::ids::Principal;
use spoolgate_wire::signing::{SignKey, sha256_hex};
use spoolgate_wire::time::Time;

use super::disk::SimDisk;
use crate::kit::dice::Dice;
use crate::kit::signed;

/// The keys of all principals.
pub(super) struct Keys {
    /// The first person.
    pub owner: SignKey,
    /// Trades through the flat spool.
    pub bot: SignKey,
    /// Sends requests through a spool of its own.
    pub solo: SignKey,
    /// The principals around the council, by name and role: a proposer and the roles.
    pub council: [(&'static str, &'static str, SignKey); 3],
    /// Decides what runs.
    pub hermes: SignKey,
    /// Requests outgoing actions.
    pub core: SignKey,
}

/// A file that was dropped.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The spool.
    pub origin: Origin,
    /// Its name.
    pub name: String,
    /// Its bytes when it is complete.
    pub bytes: Vec<u8>,
    /// Whether its sender synced it. A power cut may lose or damage a file that was not synced, and
    /// that is not the gate's fault.
    pub durable: bool,
    /// Whether the power was cut after it was dropped without a sync.
    pub may_be_lost: bool,
    /// Whether the power was cut before its claim could become durable.
    pub may_return: bool,
}

/// A file that is still being written in place.
struct Unfinished {
    number: u64,
    rest: Vec<u8>,
}

/// All agents.
pub(super) struct Agents {
    keys: Keys,
    dice: Dice,
    n: u64,
    signed: Vec<Vec<u8>>,
    unfinished: Vec<Unfinished>,
    /// Names and requests of cases that were requested.
    cases: Vec<(String, String)>,
    /// Trees that somebody tried to open, and requests for tasks in them.
    trees: Vec<(String, Vec<String>)>,
    /// Control decisions that were sent, by id.
    decisions: Vec<(String, String)>,
    /// Lines of accepted orders, for cancels; the simulation adds them.
    pub accepted: Vec<u64>,
    /// The files that were dropped.
    pub sent: Vec<Sent>,
}

/// Returns the bytes of a signed request.
pub(super) fn sign(
    key: &SignKey,
    source: &str,
    id: &str,
    action: &str,
    payload: &str,
    now: Time,
) -> Vec<u8> {
    signed(key, source, id, action, payload, now)
        .to_json()
        .into_bytes()
}

fn order(size: &str, thesis: &str) -> String {
    format!(
        r#"{{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"{size}","order_type":"limit","price":"6740","thesis_slug":"{thesis}","planned_entry":"6740","planned_stop":"6600","stop_price":"6600"}}"#
    )
}

fn amount(text: &str) -> Amount {
    Amount::parse_exact(text).unwrap()
}

impl Agents {
    /// Starts with nothing written.
    pub(super) fn new(keys: Keys, dice: Dice) -> Agents {
        Agents {
            keys,
            dice,
            n: 0,
            signed: Vec::new(),
            unfinished: Vec::new(),
            cases: Vec::new(),
            trees: Vec::new(),
            decisions: Vec::new(),
            accepted: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Drops a file by rename.
    pub(super) fn drop_file(
        &mut self,
        disk: &SimDisk,
        origin: Origin,
        name: &str,
        bytes: Vec<u8>,
        durable: bool,
    ) {
        disk.put(&folder(&origin).join(name), &bytes, durable);
        self.sent.push(Sent {
            origin,
            name: name.to_owned(),
            bytes,
            durable,
            may_be_lost: false,
            may_return: false,
        });
    }

    /// Imports a row of prices near 6,780, as the owner's command line does: rows first, durably.
    pub(super) fn import_prices(&mut self, disk: &SimDisk, now: Time) {
        self.n += 1;
        let minute = now.ms().div_euclid(60_000) * 60_000 - 60_000;
        // Sometimes low enough that buy limits and stops fill.
        let low = ["6775", "6735", "6735", "6590"][self.dice.up_to(3)];
        let rows = [
            Row::Bar {
                open_ms: minute,
                interval_ms: 60_000,
                open: amount("6780"),
                high: amount("6790"),
                low: amount(low),
                close: amount("6780"),
                volume: Some(amount("50")),
            },
            Row::Quote {
                time_ms: now.ms(),
                bid: amount("6779"),
                ask: amount("6781"),
                bid_size: Some(amount("5")),
                ask_size: Some(amount("5")),
            },
        ];
        let blob = write_blob(&rows);
        let digest = sha256_hex(blob.as_bytes());
        let path = PathBuf::from("audit/blobs").join(&digest);
        if !disk.holds(&path, blob.as_bytes()) {
            disk.put(&path, blob.as_bytes(), true);
        }
        let payload = format!(
            r#"{{"symbol":"BTC-USD","rows_sha256":"{digest}","row_count":2,"file_sha256":"{digest}","file_name":"prices.csv"}}"#
        );
        let id = format!("m{}", self.n);
        let bytes = sign(
            &self.keys.owner,
            "owner",
            &id,
            "market.import",
            &payload,
            now,
        );
        self.drop_file(disk, Origin::Local, &format!("{id}.json"), bytes, true);
    }

    /// A command of the gate's own user hands a file over.
    pub(super) fn command(&mut self, disk: &SimDisk, now: Time) {
        self.n += 1;
        let id = format!("c{}", self.n);
        if self.dice.one_in(4) {
            let bytes = self.outgoing(&id, now);
            return self.drop_file(disk, Origin::Local, &format!("{id}.json"), bytes, true);
        }
        let (action, payload) = match self.dice.below(8) {
            0 => ("halt.set", r#"{"reason":"a doubt"}"#),
            1..=3 => ("clock.accept", r#"{"reason":"looked at"}"#),
            _ => ("halt.clear", r#"{"scope":"all","reason":"looked at"}"#),
        };
        let bytes = sign(&self.keys.owner, "owner", &id, action, payload, now);
        self.drop_file(disk, Origin::Local, &format!("{id}.json"), bytes, true);
    }

    fn signed(&mut self, id: &str, action: &str, payload: &str, now: Time) -> Vec<u8> {
        let bytes = sign(&self.keys.bot, "trend-bot", id, action, payload, now);
        self.signed.push(bytes.clone());
        bytes
    }

    /// Puts one file into the flat spool or the agent's own.
    pub(super) fn one(&mut self, disk: &SimDisk, now: Time) {
        self.n += 1;
        let n = self.n;
        let id = format!("r{n}");
        let mut name = format!("{id}.json");
        let mut origin = Origin::Flat;
        let durable = !self.dice.one_in(8);
        let bytes = match self.dice.below(38) {
            0 => self.signed(&id, "portfolio.get", "{}", now),
            1 => self.signed(&id, "market.get", r#"{"symbol":"BTC-USD"}"#, now),
            2 => self.signed(
                &id,
                "fills.list",
                r#"{"since":"2020-01-01T00:00:00Z"}"#,
                now,
            ),
            3..=7 => {
                let order = order(&format!("0.0020{:04}", n % 10_000), "btc-range-long");
                self.signed(&id, "order.submit", &order, now)
            }
            8 => self.signed(&id, "order.submit", &order("3", "btc-range-long"), now),
            9 | 10 => {
                // Usually the newest one, which may still be open.
                let back = self.dice.up_to(2);
                let order = self
                    .accepted
                    .iter()
                    .rev()
                    .nth(back)
                    .copied()
                    .unwrap_or(999_999);
                self.signed(
                    &id,
                    "order.cancel",
                    &format!(r#"{{"order_id":"o-{order}"}}"#),
                    now,
                )
            }
            11 => self.signed(&id, "order.submit", r#"{"strategy":"trend"}"#, now),
            12 => sign(
                &SignKey::Hmac([9; 32]),
                "trend-bot",
                &id,
                "portfolio.get",
                "{}",
                now,
            ),
            13 => br#"{"no":"envelope"}"#.to_vec(),
            14 | 15 => {
                // The same request under another file name.
                let pick = self.dice.up_to(self.signed.len());
                self.signed
                    .get(pick)
                    .cloned()
                    .unwrap_or_else(|| b"{}".to_vec())
            }
            16 => {
                // The id of another request: an earlier one, a later one, or one that was never
                // used.
                name = format!("again-{id}.json");
                let taken = format!("r{}", self.dice.below(n) + 1);
                sign(
                    &self.keys.bot,
                    "trend-bot",
                    &taken,
                    "market.get",
                    r#"{"symbol":"BTC-USD"}"#,
                    now,
                )
            }
            17 => {
                name = format!("no request {n}");
                id.into_bytes()
            }
            18 => {
                // The answer is large and in a blob of its own.
                self.signed(&id, "orders.list", "{}", now)
            }
            19 => {
                let bytes = self.signed(&id, "portfolio.get", "{}", now);
                return self.write_in_place(disk, &name, bytes);
            }
            20..=25 => self.for_the_council(&id, now),
            26..=30 => self.task(&id, now),
            31..=33 => self.control_decision(now, &id),
            34..=36 => self.outgoing(&id, now),
            _ => {
                origin = Origin::Agent(Principal::parse("solo").unwrap());
                sign(&self.keys.solo, "solo", &id, "portfolio.get", "{}", now)
            }
        };
        self.drop_file(disk, origin, &name, bytes, durable);
    }

    /// Returns a request for an outgoing action.
    pub(super) fn outgoing(&mut self, id: &str, now: Time) -> Vec<u8> {
        let (action, payload) = match self.dice.below(3) {
            0 => (
                "email.send",
                r#"{"to":["ann@example.com"],"subject":"hello","body":"a word"}"#,
            ),
            1 => ("health.fetch", r#"{"dataType":"steps"}"#),
            _ => (
                "service.api_call",
                r#"{"service":"bank","endpoint":"/v1/balance","method":"GET"}"#,
            ),
        };
        let bytes = sign(&self.keys.core, "core", id, action, payload, now);
        self.signed.push(bytes.clone());
        bytes
    }

    /// Returns a request for a new case, or a verdict on one of the newest cases, usually a valid
    /// one.
    fn for_the_council(&mut self, id: &str, now: Time) -> Vec<u8> {
        let n = self.cases.len();
        if n == 0 || self.dice.one_in(4) {
            let case = format!("case-{n}");
            let payload = format!(
                r#"{{"request_id":"{case}","timestamp":"2026-03-02T12:00:00Z","proposer":"p","change_type":"CODE_REFACTOR","context":{{"summary":"change {n}"}},"artifacts":{{"diff_content":"+ {n}"}}}}"#
            );
            self.cases.push((case, payload.clone()));
            let (name, _, key) = &self.keys.council[0];
            return sign(key, name, id, "council.request", &payload, now);
        }
        // Usually the newest one, which may still be open.
        let back = self.dice.up_to(2);
        let (case, request) = self
            .cases
            .iter()
            .rev()
            .nth(back)
            .unwrap_or(&self.cases[n - 1])
            .clone();
        let sha256 = match self.dice.one_in(10) {
            true => "0".repeat(64),
            false => sha256_hex(request.as_bytes()),
        };
        // The proposer may not speak for any role.
        let pick = if self.dice.one_in(10) {
            0
        } else {
            1 + self.dice.up_to(1)
        };
        let (name, role, key) = &self.keys.council[pick];
        let stance = ["APPROVE", "APPROVE", "REJECT", "MAYBE"][self.dice.up_to(3)];
        let payload = format!(
            r#"{{"request_id":"{case}","request_sha256":"{sha256}","verdict":{{"role":"{role}","verdict":"{stance}","confidence_score":0.9,"checklist_results":[{{"question":"q","answer":"a","pass":true}}],"concerns":["{id}"]}}}}"#
        );
        sign(key, name, id, "council.verdict", &payload, now)
    }

    /// Returns a request to admit a task: a root, or a child of a root that may exist, with true
    /// and false claims.
    fn task(&mut self, id: &str, now: Time) -> Vec<u8> {
        let opens = self.trees.is_empty() || self.dice.one_in(5);
        let (root, parent) = if opens {
            let root = if self.dice.one_in(2) {
                id.to_owned()
            } else {
                format!("tree-{}", self.trees.len())
            };
            self.trees.push((root.clone(), vec![id.to_owned()]));
            (root, "null".to_owned())
        } else {
            let back = self.dice.up_to(2).min(self.trees.len() - 1);
            let index = self.trees.len() - 1 - back;
            let pick = self.dice.up_to(self.trees[index].1.len());
            let (root, asked) = &mut self.trees[index];
            // One past the last task means the tree's root.
            let parent = asked.get(pick).unwrap_or(root).clone();
            asked.push(id.to_owned());
            (root.clone(), format!("\"{parent}\""))
        };
        let claim = match self.dice.below(4) {
            0 => format!(r#","spawn_depth":{}"#, self.dice.below(4)),
            1 => format!(r#","recursion_budget_remaining":{}"#, self.dice.below(9)),
            _ => String::new(),
        };
        let capability = ["plan", "search", "read", "shell"][self.dice.up_to(3)];
        let action = [
            "admission.admit",
            "admission.admit",
            "admission.evaluate",
            "admission.check",
        ][self.dice.up_to(3)];
        let payload = format!(
            r#"{{"envelope":{{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"task","payload":{{"of":"{id}"}},"causality":{{"root_task_id":"{root}","parent_task_id":{parent},"capability_id":"{capability}"{claim}}}}}}}"#
        );
        let (name, _, key) = &self.keys.council[0];
        sign(key, name, id, action, &payload, now)
    }

    /// Returns a control decision: a new one, or an earlier one again, unchanged or with another
    /// reason.
    fn control_decision(&mut self, now: Time, id: &str) -> Vec<u8> {
        let n = self.decisions.len();
        let again = n > 0 && self.dice.one_in(3);
        let payload = if again {
            let (decision, payload) = self.decisions[self.dice.up_to(n - 1)].clone();
            if self.dice.one_in(3) {
                payload.replace("because", &format!("not {decision}"))
            } else {
                payload
            }
        } else {
            let what = [
                r#""pause""#,
                r#""resume""#,
                r#""resume""#,
                r#""switch","target_strategy_id":"trend","expected_active_strategy_id":"range""#,
                r#""switch","target_strategy_id":"range""#,
                r#""set_risk_mode","risk_mode":"reduced""#,
                r#""set_risk_mode","risk_mode":"exits_only""#,
                r#""set_risk_mode","risk_mode":"normal""#,
            ][self.dice.up_to(7)];
            let dry_run = self.dice.one_in(8);
            let payload = format!(
                r#"{{"decision_id":"dec-{n}","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":{what},"reason":"because","confidence":0.8,"dry_run":{dry_run}}}"#
            );
            self.decisions.push((format!("dec-{n}"), payload.clone()));
            payload
        };
        sign(
            &self.keys.hermes,
            "hermes",
            id,
            "control.apply",
            &payload,
            now,
        )
    }

    /// Writes part of a file at a place where the gate can see it.
    fn write_in_place(&mut self, disk: &SimDisk, name: &str, bytes: Vec<u8>) {
        let at = self.dice.up_to(bytes.len());
        self.drop_file(disk, Origin::Flat, name, bytes[..at].to_vec(), false);
        self.sent.last_mut().unwrap().bytes.clone_from(&bytes);
        let number = disk.number(&folder(&Origin::Flat).join(name)).unwrap();
        self.unfinished.push(Unfinished {
            number,
            rest: bytes[at..].to_vec(),
        });
    }

    /// Some writers complete their files.
    pub(super) fn write_on(&mut self, disk: &SimDisk) {
        for Unfinished { number, rest } in std::mem::take(&mut self.unfinished) {
            if self.dice.one_in(3) {
                self.unfinished.push(Unfinished { number, rest });
            } else if !self.dice.one_in(4) {
                disk.write_on(number, &rest);
            }
        }
    }

    /// The power is cut: writers die before they write the rest.
    pub(super) fn power_cut(&mut self) {
        self.unfinished.clear();
        for sent in &mut self.sent {
            sent.may_be_lost |= !sent.durable;
            sent.may_return = true;
        }
    }
}
