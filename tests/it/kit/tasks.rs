//! Admission at the level of prepare, look-ups, decide and fold, over an index in memory, without
//! files and clock.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use spoolgate_admission::Receipt;
use spoolgate_admission::lineage::{Admitted, Change as Lineage};
use spoolgate_gate::decide::needs;
use spoolgate_gate::prepare::{Keyring, Origin};
use spoolgate_gate::state::KeyRecord;
use spoolgate_gate::{
    Change, Decision, Delivery, Lookups, Prepared, Record, State, decide, prepare,
};
use spoolgate_home::index::fold::{Outstanding, fold};
use spoolgate_home::index::store::Store;
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::admin::Algorithm;
use spoolgate_wire::envelope::Envelope;
use spoolgate_wire::ids::{Principal, RequestId};
use spoolgate_wire::signing::{SignKey, VerifyKey, sha256_hex, unhex};
use spoolgate_wire::time::Time;

/// The time at which every gate begins.
pub(crate) const BEGIN: &str = "2026-03-02T12:00:00Z";

/// The keys of all principals that a rulebook names, derived from their names.
pub(crate) struct Keys(BTreeMap<String, VerifyKey>);

impl Keyring for Keys {
    fn verify_key(&self, key_id: &str) -> Option<VerifyKey> {
        self.0.get(key_id).cloned()
    }
}

fn key_of(principal: &str) -> SignKey {
    SignKey::Hmac(
        unhex(&sha256_hex(principal.as_bytes()))
            .unwrap()
            .try_into()
            .unwrap(),
    )
}

/// Returns the project's rule files except for principals and policies.
pub(crate) fn other_rules() -> BTreeMap<String, String> {
    let files = [
        (
            "rules/safety.yaml",
            include_str!("../../../rules/safety.yaml"),
        ),
        (
            "rules/instruments.yaml",
            include_str!("../../../rules/instruments.yaml"),
        ),
        (
            "rules/strategies/trend.yaml",
            include_str!("../../../rules/strategies/trend.yaml"),
        ),
        (
            "proposals/theses/btc-range-long.md",
            include_str!("../../../proposals/theses/btc-range-long.md"),
        ),
        (
            "proposals/theses/btc-dip-long.md",
            include_str!("../../../proposals/theses/btc-dip-long.md"),
        ),
    ];
    files
        .into_iter()
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect()
}

/// A gate without a home.
pub(crate) struct Gate {
    pub rules: Rulebook,
    pub state: State,
    pub store: Store,
    pub now: Time,
    /// The number of the next line.
    pub seq: u64,
    /// The receipts of all lines.
    pub receipts: Vec<Receipt>,
    /// Blobs by digest.
    pub blobs: BTreeMap<String, Vec<u8>>,
    keys: Keys,
    outstanding: Outstanding,
}

impl Gate {
    /// Makes a gate with these principals and policies, from `tenant/surface/profile` to text.
    pub(crate) fn new<'a>(
        principals: &str,
        policies: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Gate {
        let mut files = other_rules();
        files.insert("rules/principals.yaml".to_owned(), principals.to_owned());
        for (domain, text) in policies {
            files.insert(format!("rules/admission/{domain}.yaml"), text.to_owned());
        }
        let rules = Rulebook::compile(&Bundle { files }).unwrap_or_else(|error| panic!("{error}"));
        let now = Time::parse(BEGIN).unwrap();
        let mut state = State::default();
        let mut keys = BTreeMap::new();
        for name in rules.principals.keys() {
            let key_id = sha256_hex(name.as_str().as_bytes())[..16].to_owned();
            keys.insert(key_id.clone(), key_of(name.as_str()).verify_key());
            let algorithm = Algorithm::HmacSha256;
            let record = KeyRecord {
                key_id,
                principal: name.clone(),
                algorithm,
                added_at: now,
                ends_at: None,
                revoked_at: None,
            };
            state.apply(&Change::KeyAdded(record)).unwrap();
        }
        let store = Store::in_memory().unwrap();
        let (seq, receipts, blobs, outstanding) =
            (1, Vec::new(), BTreeMap::new(), Outstanding::new());
        Gate {
            rules,
            state,
            store,
            now,
            seq,
            receipts,
            blobs,
            keys: Keys(keys),
            outstanding,
        }
    }

    /// Prepares a signed request in the spool of its source.
    pub(crate) fn prepared(
        &self,
        from: &str,
        id: &str,
        action: &str,
        payload: &str,
        causality: Option<&str>,
    ) -> Prepared {
        let source = Principal::parse(from).unwrap();
        let bound = self
            .rules
            .principals
            .get(&source)
            .and_then(|rule| rule.spool.clone());
        let mut envelope = Envelope {
            id: RequestId::parse(id).unwrap(),
            timestamp_text: self.now.to_string(),
            timestamp: self.now,
            action: action.to_owned(),
            payload: payload.to_owned(),
            source,
            signature: String::new(),
            causality: causality.map(str::to_owned),
        };
        envelope.signature = key_of(from).sign(&envelope.signing_string());
        let (file, origin) = (
            format!("{id}.json"),
            bound.map_or(Origin::Flat, Origin::Agent),
        );
        let content = Ok(envelope.to_json().into_bytes());
        prepare(
            Delivery {
                origin,
                shown: file.clone(),
                file,
                content,
            },
            &self.state,
            &self.keys,
            self.now,
        )
    }

    /// Returns the look-ups that the host would make.
    pub(crate) fn look_up(&self, request: &Prepared) -> Lookups {
        let mut lookups = Lookups::default();
        let Ok(authentic) = &request.request else {
            return lookups;
        };
        let id = authentic.envelope.id.as_str();
        lookups.seen = self
            .store
            .seen(authentic.envelope.source.as_str(), id)
            .unwrap();
        lookups.seen_in_spool = self
            .store
            .seen_in_spool(&request.origin.label(), id)
            .unwrap();
        let needs = needs(request, &self.rules);
        if let Some(query) = &needs.lineage {
            lookups.lineage = self.store.lineage(query).unwrap();
        }
        if let Some(line) = needs.task {
            lookups.task = self.store.task_of_line(line).unwrap();
        }
        if let Some(id) = &needs.case {
            lookups.docket = self.store.docket(id).unwrap();
        }
        if let Some(order) = needs.closed_order {
            lookups.closed_order = self.store.closed_order(order).unwrap();
        }
        lookups.rows = needs
            .rows
            .and_then(|digest| self.blobs.get(&digest).cloned());
        lookups
    }

    /// Decides a request and folds its line.
    pub(crate) fn decide(&mut self, request: &Prepared) -> Decision {
        let lookups = self.look_up(request);
        let decided = decide(
            &self.state,
            &self.rules,
            request,
            &lookups,
            self.now,
            self.seq,
        );
        let decision = decided.decision;
        self.receipts.extend(decision.receipt.as_deref().cloned());
        for record in decided.market.into_iter().map(Record::Market) {
            self.fold(&record);
        }
        assert_eq!(decision.id, self.seq.to_string());
        self.fold(&Record::Decision(Box::new(decision.clone())));
        decision
    }

    fn fold(&mut self, record: &Record) {
        // The next start folds the lines of the ledger, so compare with what it would fold.
        let again = Record::parse(record.kind(), &record.body().unwrap())
            .unwrap()
            .unwrap();
        fold(
            &mut self.state,
            &self.store,
            &mut self.outstanding,
            self.seq,
            &again,
        )
        .unwrap();
        self.seq += 1;
    }

    /// Signs a request and decides it.
    pub(crate) fn ask(
        &mut self,
        from: &str,
        id: &str,
        action: &str,
        payload: &str,
        causality: Option<&str>,
    ) -> Decision {
        let request = self.prepared(from, id, action, payload, causality);
        self.decide(&request)
    }

    /// Admits a task of the usual domain with this body.
    pub(crate) fn admit(&mut self, from: &str, task: &Task) -> Decision {
        self.ask(
            from,
            &task.id,
            "admission.admit",
            &task.body().to_string(),
            None,
        )
    }
}

/// A short form of a task: `id`, `id<parent` or `id<parent:capability@tree`. By default the tree is
/// `T` and the capability `c`.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub id: String,
    pub root: String,
    pub parent: Option<String>,
    pub capability: String,
    pub depth: Option<Value>,
    pub budget: Option<Value>,
    pub cause: Option<Value>,
    pub domain: String,
    pub kind: String,
    pub payload: Value,
}

impl Task {
    pub(crate) fn parse(text: &str) -> Task {
        let (rest, root) = text.split_once('@').unwrap_or((text, "T"));
        let (rest, capability) = rest.split_once(':').unwrap_or((rest, "c"));
        let (id, parent) = match rest.split_once('<') {
            Some((id, parent)) => (id, Some(parent.to_owned())),
            None => (rest, None),
        };
        Task {
            id: id.to_owned(),
            root: root.to_owned(),
            parent,
            capability: capability.to_owned(),
            depth: None,
            budget: None,
            cause: None,
            domain: "t/s/p".to_owned(),
            kind: "task".to_owned(),
            payload: json!({}),
        }
    }

    pub(crate) fn causality(&self) -> Value {
        let mut object = Map::new();
        object.insert("root_task_id".to_owned(), json!(self.root));
        object.insert("parent_task_id".to_owned(), json!(self.parent));
        object.insert("capability_id".to_owned(), json!(self.capability));
        let claims = [
            ("spawn_depth", &self.depth),
            ("recursion_budget_remaining", &self.budget),
            ("caused_by_receipt_id", &self.cause),
        ];
        for (key, claim) in claims {
            object.extend(claim.clone().map(|claim| (key.to_owned(), claim)));
        }
        Value::Object(object)
    }

    pub(crate) fn body(&self) -> Value {
        let [tenant, surface, profile] = self.domain.split('/').collect::<Vec<_>>()[..] else {
            panic!("`{}` is no domain", self.domain)
        };
        json!({"envelope": {
            "tenant_id": tenant, "surface_id": surface, "policy_profile_id": profile,
            "payload_kind": self.kind, "payload": self.payload, "causality": self.causality(),
        }})
    }
}

/// Returns the task that a decision reserved.
pub(crate) fn reserved(decision: &Decision) -> Option<&Admitted> {
    let mut tasks = decision.changes.iter().filter_map(|change| match change {
        Change::Admission(Lineage::Admitted(task)) => Some(&**task),
        _ => None,
    });
    let task = tasks.next();
    assert!(tasks.next().is_none(), "a decision reserved two tasks");
    task
}

/// Checks what is true of every receipt, whatever was requested.
#[track_caller]
pub(crate) fn check_receipt(decision: &Decision) {
    let Some(receipt) = decision.receipt.as_deref() else {
        return;
    };
    let show = || serde_json::to_string(decision).unwrap();
    assert_eq!(
        receipt.receipt_id,
        format!("r-{}", decision.id),
        "{}",
        show()
    );
    assert_eq!(
        Some(receipt.request_id.as_str()),
        decision.request_id.as_deref()
    );
    assert_eq!(Some(&receipt.request_hash), decision.request_hash.as_ref());
    assert_eq!(receipt.evaluated_at, decision.timestamp);
    let value = serde_json::to_value(receipt).unwrap();
    let is_accepted = value["phase"] == "accepted";
    assert_eq!(
        value["decision"],
        if is_accepted { "allow" } else { "deny" },
        "{}",
        show()
    );
    assert_eq!(
        is_accepted,
        receipt.rejection_reason_code.is_none(),
        "{}",
        show()
    );
    assert_eq!(
        is_accepted,
        receipt.rejection_detail.is_none(),
        "{}",
        show()
    );
    assert!(is_accepted || receipt.forwarded_to.is_none(), "{}", show());
    if let Some(path) = &receipt.forwarded_to {
        let surface = receipt.surface_id.as_deref().unwrap();
        assert_eq!(
            *path,
            format!("forward/{surface}/{}.json", receipt.receipt_id)
        );
        assert!(!receipt.dry_run);
    }
    match reserved(decision) {
        None => assert!(
            receipt.dry_run || !is_accepted || receipt.root_task_id.is_none(),
            "{}",
            show()
        ),
        Some(task) => {
            assert!(is_accepted && !receipt.dry_run, "{}", show());
            let counters = &receipt.effective_counters;
            assert_eq!(Some(task.root.as_str()), receipt.root_task_id.as_deref());
            assert_eq!(
                (task.task.as_str(), task.at),
                (receipt.request_id.as_str(), decision.timestamp)
            );
            assert_eq!(
                Some(task.capability.as_str()),
                receipt.capability_id.as_deref()
            );
            assert_eq!(Some(task.tenant.as_str()), receipt.tenant_id.as_deref());
            assert_eq!(task.budget, counters.recursion_budget_remaining);
            let left = (counters.usd_left, counters.tokens_left);
            assert_eq!((task.left.usd, task.left.tokens), left);
            assert_eq!(Some(task.depth), counters.spawn_depth);
            assert_eq!(task.parent.is_none(), task.opened_by.is_some());
        }
    }
    let is_own = matches!(
        decision.request_type.as_deref(),
        Some("Admission" | "AdmissionCheck")
    );
    if is_own {
        let first = decision.checks.iter().find(|row| !row.passed);
        let reason = receipt.rejection_reason_code.map(|reason| reason.name());
        assert_eq!(first.map(|row| &*row.name), reason, "{}", show());
        let answer = decision.answer(None).unwrap();
        let data: Value = serde_json::from_str(answer.data.unwrap().get()).unwrap();
        assert_eq!(data["receipt"], value);
        assert_eq!(data["decision"], value["decision"]);
        assert_eq!(
            data["checks"].as_array().unwrap().len(),
            decision.checks.len()
        );
    }
}
