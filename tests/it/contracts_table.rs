//! The table "Additions and deviations" of docs/contracts.md names every member that the program
//! adds to the shapes of the five contracts, leaves out, or makes optional, and no other. The
//! shapes here are those of the contracts; what the program has is read from its JSON Schemas, and
//! from the ledger of its demo where there is no schema.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The place of the program's form of a shape.
enum Place {
    /// In the schemas of these names, below this path: members, and `[]` for the elements of a
    /// list.
    Schemas(&'static [&'static str], &'static str),
    /// In the council's decision in the demo, or in this member of it.
    Decision(&'static str),
    /// In ledger lines about orders, below this path. docs/ledger.md lists further members of a
    /// line itself.
    Ledger(&'static str),
}
use Place::{Decision, Ledger, Schemas};

/// A shape as its contract has it.
struct Shape {
    contract: char,
    name: &'static str,
    place: Place,
    members: &'static str,
    optional: &'static str,
}

const fn shape(contract: char, name: &'static str, place: Place, members: &'static str) -> Shape {
    Shape {
        contract,
        name,
        place,
        members,
        optional: "",
    }
}

impl Shape {
    const fn optional(mut self, optional: &'static str) -> Shape {
        self.optional = optional;
        self
    }
}

/// The schemas of all answers to the requests of contract 1.
const ORDER_ANSWERS: &[&str] = &[
    "order.submit.answer",
    "order.cancel.answer",
    "order.tighten_stop.answer",
    "portfolio.get.answer",
    "orders.list.answer",
    "fills.list.answer",
    "market.get.answer",
    "rule.propose.answer",
];
const ORDERS: &[&str] = &[
    "order.submit.answer",
    "order.cancel.answer",
    "order.tighten_stop.answer",
];
const ADMISSION: &[&str] = &["admission.evaluate", "admission.admit", "admission.check"];
const MAIL: &[&str] = &["email.send", "email.draft"];
const EVENT: &[&str] = &["calendar.create", "calendar.update"];

const SHAPES: &[Shape] = &[
    shape('1', "GetPortfolio", Schemas(&["portfolio.get"], ""), ""),
    shape('1', "GetOpenOrders", Schemas(&["orders.list"], ""), ""),
    shape('1', "GetFillHistory", Schemas(&["fills.list"], ""), "since"),
    shape('1', "GetMarketData", Schemas(&["market.get"], ""), "symbol"),
    shape(
        '1',
        "SubmitOrder",
        Schemas(&["order.submit"], ""),
        "strategy symbol side size order_type price stop_price thesis_slug planned_entry \
            planned_stop",
    )
    .optional("price stop_price"),
    shape(
        '1',
        "CancelOrder",
        Schemas(&["order.cancel"], ""),
        "order_id",
    ),
    shape(
        '1',
        "TightenStop",
        Schemas(&["order.tighten_stop"], ""),
        "order_id new_stop",
    ),
    shape(
        '1',
        "RuleProposal",
        Schemas(&["rule.propose"], ""),
        "Activate Suspend ModifyParameter",
    )
    .optional("Activate Suspend ModifyParameter"),
    shape(
        '1',
        "Activate",
        Schemas(&["rule.propose"], "Activate"),
        "rule evidence",
    ),
    shape(
        '1',
        "Suspend",
        Schemas(&["rule.propose"], "Suspend"),
        "rule_id reason evidence",
    ),
    shape(
        '1',
        "ModifyParameter",
        Schemas(&["rule.propose"], "ModifyParameter"),
        "rule_id parameter old_value new_value evidence is_tightening",
    ),
    shape(
        '1',
        "GateResponse",
        Schemas(ORDER_ANSWERS, ""),
        "Accepted Rejected Portfolio Orders Fills MarketData ProposalAcknowledged",
    )
    .optional("Accepted Rejected Portfolio Orders Fills MarketData ProposalAcknowledged"),
    shape(
        '1',
        "Accepted",
        Schemas(ORDERS, "Accepted"),
        "order_id checks_passed",
    ),
    shape(
        '1',
        "Rejected",
        Schemas(ORDERS, "Rejected"),
        "checks_failed",
    ),
    shape(
        '1',
        "ProposalAcknowledged",
        Schemas(&["rule.propose.answer"], "ProposalAcknowledged"),
        "proposal_id auto_approved",
    ),
    shape(
        '1',
        "CheckResult",
        Schemas(ORDERS, "Accepted checks_passed []"),
        "check_name passed value limit source",
    ),
    shape(
        '1',
        "AuditLine",
        Ledger(""),
        "timestamp request_type strategy symbol side size checks decision order_id",
    )
    .optional("order_id"),
    shape(
        '1',
        "AuditCheck",
        Ledger("checks"),
        "name passed value limit",
    ),
    shape(
        '2',
        "CouncilRequest",
        Schemas(&["council.request"], ""),
        "request_id timestamp proposer change_type context artifacts",
    ),
    shape(
        '2',
        "Context",
        Schemas(&["council.request"], "context"),
        "summary files_changed key_metrics",
    ),
    shape(
        '2',
        "Artifacts",
        Schemas(&["council.request"], "artifacts"),
        "spec_content diff_content validation_report monte_carlo_stats",
    ),
    shape(
        '2',
        "RoleVerdict",
        Schemas(&["council.verdict"], "verdict"),
        "role verdict confidence_score checklist_results concerns required_actions",
    ),
    shape(
        '2',
        "ChecklistResult",
        Schemas(&["council.verdict"], "verdict checklist_results []"),
        "question answer pass",
    ),
    shape(
        '2',
        "CouncilDecision",
        Decision(""),
        "request_id final_outcome axis_scores summary_reasoning blocking_issues next_steps",
    ),
    shape(
        '2',
        "AxisScores",
        Decision("axis_scores"),
        "assumptions applicability code_correctness realistic_newness overfitting implications",
    ),
    shape(
        '3',
        "ControlDecision",
        Schemas(&["control.apply"], ""),
        "decision_id concern_id account_id market_symbol action target_strategy_id \
         expected_active_strategy_id risk_mode reason confidence dry_run override requested_at",
    )
    .optional(
        "target_strategy_id expected_active_strategy_id risk_mode dry_run override requested_at",
    ),
    shape(
        '3',
        "ControlResponse",
        Schemas(&["control.apply.answer"], ""),
        "ok status decision_id concern_id action from_strategy_id to_strategy_id risk_mode \
            dry_run validation warnings errors result applied_at",
    ),
    shape(
        '3',
        "ControlValidation",
        Schemas(&["control.apply.answer"], "validation"),
        "concern_match account_match market_match expected_active_match target_exists \
            target_runnable",
    )
    .optional(
        "concern_match account_match market_match expected_active_match target_exists \
        target_runnable",
    ),
    shape(
        '3',
        "ControlResult",
        Schemas(&["control.apply.answer"], "result"),
        "mode_change reconciled",
    ),
    shape(
        '4',
        "AdmissionBody",
        Schemas(ADMISSION, ""),
        "envelope forward",
    ),
    shape(
        '4',
        "AdmissionEnvelope",
        Schemas(ADMISSION, "envelope"),
        "tenant_id surface_id policy_profile_id payload_kind payload causality",
    ),
    shape(
        '4',
        "Causality",
        Schemas(ADMISSION, "envelope causality"),
        "root_task_id parent_task_id caused_by_receipt_id spawn_depth capability_id \
            recursion_budget_remaining",
    )
    .optional("recursion_budget_remaining"),
    shape(
        '5',
        "ActionRequest",
        Schemas(&["request"], ""),
        "id timestamp action payload source signature",
    ),
    shape(
        '5',
        "ActionResponse",
        Schemas(&["answer"], ""),
        "requestId timestamp status data error auditRef",
    )
    .optional("data error"),
    shape(
        '5',
        "ActionError",
        Schemas(&["answer"], "error"),
        "code message",
    ),
    shape(
        '5',
        "EmailSend",
        Schemas(MAIL, ""),
        "to cc subject body replyToMessageId",
    )
    .optional("cc replyToMessageId"),
    shape(
        '5',
        "EmailFetch",
        Schemas(&["email.fetch"], ""),
        "folder limit since",
    )
    .optional("folder limit since"),
    shape(
        '5',
        "CalendarFetch",
        Schemas(&["calendar.fetch"], ""),
        "calendarId startDate endDate",
    )
    .optional("calendarId"),
    shape(
        '5',
        "CalendarCreate",
        Schemas(EVENT, ""),
        "calendarId title startTime endTime description attendees",
    )
    .optional("calendarId description attendees"),
    shape(
        '5',
        "FetchTransactions",
        Schemas(&["finance.fetch_transactions"], ""),
        "accountId limit",
    )
    .optional("accountId limit"),
    shape(
        '5',
        "HealthFetch",
        Schemas(&["health.fetch"], ""),
        "dataType startDate",
    )
    .optional("startDate"),
    shape(
        '5',
        "ServiceApiCall",
        Schemas(&["service.api_call"], ""),
        "service endpoint method headers body",
    )
    .optional("headers body"),
    shape(
        '5',
        "AllowedService",
        Schemas(&["rules.services"], "services []"),
        "id service_name domain port protocol added_at added_by is_active",
    )
    .optional("port"),
    shape(
        '5',
        "AuditEntry",
        Ledger(""),
        "id requestId timestamp action direction status payloadHash signature metadata",
    )
    .optional("metadata"),
];

type Names = BTreeSet<String>;

fn words(text: &str) -> Names {
    text.split_whitespace().map(str::to_owned).collect()
}

/// The differences between a shape of the program and that of its contract.
#[derive(Debug, Default, PartialEq)]
struct Differences {
    added: Names,
    left_out: Names,
    made_optional: Names,
}

/// Collects the objects that a schema describes, each alternative by itself.
fn objects<'a>(schema: &'a Value, found: &mut Vec<&'a Value>) {
    if schema.get("properties").is_some() {
        found.push(schema);
    }
    for alternatives in ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| schema.get(word)?.as_array())
    {
        alternatives
            .iter()
            .for_each(|alternative| objects(alternative, found));
    }
}

/// Returns the objects at a path below a schema.
fn at<'a>(schema: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut places = vec![schema];
    for step in path.split_whitespace() {
        places = match step {
            "[]" => places
                .iter()
                .filter_map(|place| place.get("items"))
                .collect(),
            member => {
                let mut found = Vec::new();
                places.iter().for_each(|place| objects(place, &mut found));
                found
                    .iter()
                    .filter_map(|object| object["properties"].get(member))
                    .collect()
            }
        };
    }
    let mut found = Vec::new();
    places.iter().for_each(|place| objects(place, &mut found));
    found
}

/// Returns all members, and those that are always there.
fn in_schemas(shape: &Shape, names: &[&str], path: &str, folder: &Path) -> (Names, Names) {
    let members = words(shape.members);
    let (mut all, mut always) = (Names::new(), None::<Names>);
    for name in names {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let schema: Value = serde_json::from_str(&text).unwrap();
        for object in at(&schema, path) {
            let here: Names = object["properties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            // An answer has alternatives for every contract; those without any member of this shape
            // belong to others.
            if names.len() == 1 && !members.is_empty() && here.is_disjoint(&members) {
                continue;
            }
            let required = object
                .get("required")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default();
            let required: Names = required
                .iter()
                .map(|name| name.as_str().unwrap().to_owned())
                .collect();
            always = Some(always.map_or(required.clone(), |always| &always & &required));
            all.extend(here);
        }
    }
    (all, always.unwrap_or_default())
}

/// Returns the same for ledger lines.
fn in_ledger(lines: &[Value], path: &str) -> (Names, Names) {
    let (mut all, mut always) = (Names::new(), None::<Names>);
    for line in lines {
        let rows = if path.is_empty() {
            vec![line]
        } else {
            line[path].as_array().unwrap().iter().collect()
        };
        for row in rows {
            let here: Names = row.as_object().unwrap().keys().cloned().collect();
            always = Some(always.map_or(here.clone(), |always| &always & &here));
            all.extend(here);
        }
    }
    (all, always.unwrap_or_default())
}

fn differences(shape: &Shape, schemas: &Path, lines: &[Value]) -> Differences {
    let (all, always) = match shape.place {
        Schemas(names, path) => in_schemas(shape, names, path, schemas),
        Decision(member) => {
            let decision = decided_case(schemas);
            let shown = decision.get(member).unwrap_or(&decision);
            let names: Names = shown.as_object().unwrap().keys().cloned().collect();
            (names.clone(), names)
        }
        Ledger(path) => in_ledger(lines, path),
    };
    let (members, optional) = (words(shape.members), words(shape.optional));
    let is_listed_elsewhere = matches!(shape.place, Ledger(""));
    Differences {
        added: if is_listed_elsewhere {
            Names::new()
        } else {
            &all - &members
        },
        left_out: &members - &all,
        made_optional: &(&(&members & &all) - &always) - &optional,
    }
}

/// Returns the council's decision in the demo beside the schemas.
fn decided_case(schemas: &Path) -> Value {
    let path = schemas.with_file_name("home/spool/out/trend-v2-1-passes.decision.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Reads what the table says about each shape.
fn told(page: &str) -> BTreeMap<String, Differences> {
    let (_, section) = page
        .split_once("\n## Additions and deviations\n")
        .expect("no such section");
    let section = section.split("\n## ").next().unwrap();
    let mut told: BTreeMap<String, Differences> = BTreeMap::new();
    for line in section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
    {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [place, _, does, why] = cells[..] else {
            panic!("not four columns: {line}")
        };
        assert!(
            !why.is_empty() && place.starts_with(|c| ('1'..='5').contains(&c)),
            "{line}"
        );
        for sentence in does
            .split_inclusive(". ")
            .map(|sentence| sentence.trim().trim_end_matches('.'))
        {
            let parts = [
                ("Adds ", " to "),
                ("Leaves out ", " of "),
                ("Makes ", " optional in "),
            ];
            let Some((verb, rest, joint)) = parts
                .iter()
                .find_map(|(verb, joint)| Some((*verb, sentence.strip_prefix(verb)?, joint)))
            else {
                continue;
            };
            let (members, name) = rest
                .rsplit_once(joint)
                .unwrap_or_else(|| panic!("{sentence}"));
            let name = name.trim_matches('`');
            let shape = SHAPES.iter().find(|shape| shape.name == name);
            let shape =
                shape.unwrap_or_else(|| panic!("`{name}` is no shape of a contract: {sentence}"));
            assert!(
                place.starts_with(shape.contract),
                "`{name}` is of contract {}: {line}",
                shape.contract
            );
            let members = members.split('`').skip(1).step_by(2).map(str::to_owned);
            let told = told.entry(name.to_owned()).or_default();
            match verb {
                "Adds " => told.added.extend(members),
                "Leaves out " => told.left_out.extend(members),
                _ => told.made_optional.extend(members),
            }
        }
    }
    told
}

/// Returns where the table and the program disagree.
fn disagreements(page: &str, schemas: &Path, lines: &[Value]) -> Vec<String> {
    let mut told = told(page);
    let mut faults = Vec::new();
    for shape in SHAPES {
        let told = told.remove(shape.name).unwrap_or_default();
        let found = differences(shape, schemas, lines);
        if told != found {
            faults.push(format!(
                "{}: the table says {told:?}, the program has {found:?}",
                shape.name
            ));
        }
    }
    faults
}

fn spoolgate(args: &[&str]) {
    let done = Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .args(args)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Returns the lines of decisions on orders in the demo's ledger.
fn decided_orders(home: &Path) -> Vec<Value> {
    let text = fs::read_to_string(home.join("audit/log-00000001.jsonl")).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines
        .filter(|line| line["action"] == "order.submit" && line.get("decision").is_some())
        .collect()
}

#[test]
fn the_table_names_every_addition_and_deviation_of_members_and_no_other() {
    let scratch = crate::kit::folder();
    let (schemas, home) = (scratch.path().join("schemas"), scratch.path().join("home"));
    spoolgate(&["schema", "--all", "--out", schemas.to_str().unwrap()]);
    spoolgate(&["demo", home.to_str().unwrap()]);
    let lines = decided_orders(&home);
    assert!(lines.len() > 5, "the demo has only {} orders", lines.len());
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/contracts.md"));
    let faults = disagreements(page, &schemas, &lines);
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    // A member that the table forgets, and one that it invents, are found.
    for (from, to) in [
        (
            "Adds `target_price` and `time_in_force`",
            "Adds `target_price`",
        ),
        ("Adds `causality` to", "Adds `causality` and `nonce` to"),
        ("Leaves out `domain`, `id`", "Leaves out `domain`"),
        ("Makes `artifacts` optional in `CouncilRequest`. ", ""),
    ] {
        assert!(page.contains(from), "{from}");
        assert_eq!(
            disagreements(&page.replace(from, to), &schemas, &lines).len(),
            1,
            "{from}"
        );
    }

    // Numbers are texts in every row of every vector, and a profile has no default depth.
    for row in lines
        .iter()
        .flat_map(|line| line["checks"].as_array().unwrap())
    {
        let is_text = |member: &str| row[member].is_string() || row[member].is_null();
        assert!(is_text("value") && is_text("limit"), "{row}");
    }
    let profile = fs::read_to_string(schemas.join("rules.admission.json")).unwrap();
    let profile: Value = serde_json::from_str(&profile).unwrap();
    assert!(
        profile["required"]
            .as_array()
            .unwrap()
            .contains(&Value::from("max_spawn_depth"))
    );
}
