//! A home with a council: proposers, a key for each role, and the contents of the ledger and of
//! folders afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use spoolgate_council::case::{self, Case};
use spoolgate_gate::Change;
use spoolgate_gate::council::rule_on;
use spoolgate_gate::record::{CaseDecision, Decision, Record};
use spoolgate_home::batch::Outcome;
use spoolgate_home::cases::{case_dir, file_name_of};
use spoolgate_home::{Home, read, sealed};
use spoolgate_ledger::line;
use spoolgate_ledger::verify::{self, Options};
use spoolgate_rules::roles::{self, Roles};
use spoolgate_wire::ids::RequestId;
use spoolgate_wire::signing::sha256_hex;

use super::place::{Keys, Place, drain};

/// Principal and role of each of the five seats.
pub(crate) const SEATS: [(&str, &str); 5] = [
    ("quant-researcher", "Quant Researcher"),
    ("risk-officer", "Risk Officer"),
    ("code-auditor", "Code Auditor"),
    ("realism-checker", "Realism Checker"),
    ("integration-engineer", "Integration Engineer"),
];

/// Returns the principal that may speak for a role.
pub(crate) fn speaker(role: &str) -> &'static str {
    SEATS.iter().find(|(_, name)| *name == role).unwrap().0
}

/// Returns the payload of a `council.request`.
pub(crate) fn request(id: &str, change: &str) -> String {
    json!({
        "request_id": id, "timestamp": "2026-03-02T11:59:00Z", "proposer": "QuantResearchAgent_v1",
        "change_type": change,
        "context": {
            "summary": "Strategy v2.1 has passed validation on new data.",
            "files_changed": ["notes/strategy_evaluation_checklist.md"],
            "key_metrics": {"total_return": 15.4, "sharpe": 1.2, "max_dd": -4.5,
                "oos_win_rate": 55.0},
        },
        "artifacts": {
            "spec_content": "# Spec\n\nBuy what rose over ninety days, sell what fell, size by risk, \
                stop at two ranges, and never hold more than three at once.",
            "diff_content": "diff --git a b\n-old\n+new\n",
            "validation_report": "| metric | value |\n|---|---|\n| sharpe | 1.2 |",
            "monte_carlo_stats": "{\"sharpe_p5\":0.4,\"sharpe_p95\":2.0}",
        },
    })
    .to_string()
}

/// Returns a role's verdict, with texts that name the role.
pub(crate) fn opinion(role: &str, stance: &str) -> Value {
    json!({
        "role": role, "verdict": stance, "confidence_score": 0.9,
        "checklist_results": [{"question": format!("{role} asks"), "answer": "yes", "pass": true}],
        "concerns": [format!("a worry of {role}")],
        "required_actions": [format!("{role} wants this done")],
    })
}

/// Returns the payload of a `council.verdict` on this request.
pub(crate) fn verdict(id: &str, request: &str, opinion: &Value) -> String {
    let sha256 = sha256_hex(request.as_bytes());
    json!({"request_id": id, "request_sha256": sha256, "verdict": opinion}).to_string()
}

/// Returns the case that a decision line opened.
pub(crate) fn opened(decision: &Decision) -> Option<&Case> {
    decision.changes.iter().find_map(|change| match change {
        Change::Council(case::Change::CaseOpened(case)) => Some(case),
        _ => None,
    })
}

/// Whether a decision line filed a verdict.
pub(crate) fn files_a_verdict(decision: &Decision) -> bool {
    let is_vote = |change: &Change| matches!(change, Change::Council(case::Change::VoteFiled(_)));
    decision.changes.iter().any(is_vote)
}

/// What the ledger says about cases, by line.
#[derive(Default)]
pub(crate) struct Told {
    pub decisions: BTreeMap<u64, Decision>,
    pub rulings: BTreeMap<u64, CaseDecision>,
}

impl Told {
    /// Folds the lines of segments.
    pub(crate) fn of(segments: impl IntoIterator<Item = Vec<u8>>) -> Told {
        let mut told = Told::default();
        for bytes in segments {
            let mut batch = Vec::new();
            for text in bytes.split_inclusive(|byte| *byte == b'\n') {
                let Some(Ok(line)) = text.strip_suffix(b"\n").map(line::parse) else {
                    break;
                };
                batch.push((line.seq, Record::parse(line.kind, &line.body()).unwrap()));
                if line.kind == "seal" {
                    for (seq, record) in batch.drain(..) {
                        match record {
                            Some(Record::Decision(decision)) => {
                                drop(told.decisions.insert(seq, *decision))
                            }
                            Some(Record::Council(ruling)) => {
                                drop(told.rulings.insert(seq, *ruling))
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
        told
    }

    /// Returns the only decision on a case, and its line.
    #[track_caller]
    pub(crate) fn ruling(&self, id: &str) -> (u64, &CaseDecision) {
        let of_case: Vec<_> = self
            .rulings
            .iter()
            .filter(|(_, line)| line.request_id.as_str() == id)
            .collect();
        let [(seq, line)] = of_case.as_slice() else {
            panic!("{} rulings on {id}", of_case.len())
        };
        (**seq, line)
    }

    /// Returns the folder of a case.
    #[track_caller]
    pub(crate) fn folder(&self, id: &str) -> PathBuf {
        let mut cases = self.decisions.values().filter_map(opened);
        case_dir(cases.find(|case| case.id.as_str() == id).unwrap().shown())
    }

    /// Returns the accepted verdicts of a case: line, file name below `verdicts`, payload.
    pub(crate) fn verdicts(&self, id: &str) -> Vec<(u64, String, String)> {
        let mut found = Vec::new();
        let roles = Roles::shipped().unwrap();
        for (seq, decision) in self
            .decisions
            .iter()
            .filter(|(_, decision)| files_a_verdict(decision))
        {
            let payload: Value = match &decision.payload {
                Some(text) => serde_json::from_str(text).unwrap(),
                None => continue,
            };
            if let Some(role) = payload["verdict"]["role"].as_str()
                && payload["request_id"] == *id
            {
                let name = format!(
                    "{seq}-{}.json",
                    file_name_of(&roles.resolve(role).unwrap().name)
                );
                found.push((*seq, name, decision.payload.clone().unwrap()));
            }
        }
        found
    }
}

/// Returns the bytes of the file that holds a decision.
pub(crate) fn decision_bytes(ruling: &CaseDecision) -> Vec<u8> {
    format!(
        "{}\n",
        ruling
            .decision
            .as_ref()
            .expect("a decision that fits its line")
            .get()
    )
    .into_bytes()
}

/// A home in memory with a council.
pub(crate) struct Court {
    pub place: Place,
    keys: Keys,
}

impl Court {
    /// Makes a home with keys for all principals of the shipped rules.
    pub(crate) fn new() -> Court {
        Court::under(|_| ())
    }

    /// Makes a home whose rule files were changed by `edit`.
    pub(crate) fn under(edit: impl Fn(&Path)) -> Court {
        Court::with(&[], edit)
    }

    /// The same with keys for these principals too.
    pub(crate) fn with(more: &[&'static str], edit: impl Fn(&Path)) -> Court {
        let place = Place::new(11);
        edit(place.root.path());
        let people = SEATS
            .iter()
            .map(|(name, _)| *name)
            .chain(["research-bot", "trend-bot"])
            .chain(more.iter().copied());
        let keys = place.ask_for_keys(people);
        let court = Court { place, keys };
        let mut home = court.place.settled();
        home.finish("the court is ready").unwrap();
        drop(home);
        court
    }

    /// Copies the home.
    pub(crate) fn fork(&self) -> Court {
        Court {
            place: self.place.fork(),
            keys: self.keys.clone(),
        }
    }

    pub(crate) fn open(&self) -> Home {
        self.place.open().unwrap()
    }

    /// Runs rounds until nothing is left to decide.
    pub(crate) fn drain(&self, home: &mut Home) -> Vec<Outcome> {
        drain(home).unwrap()
    }

    /// Drops a request of this principal into the spool.
    pub(crate) fn send(&self, source: &str, id: &str, action: &str, payload: &str) {
        self.send_in("spool/in", source, id, action, payload);
    }

    /// The same, into this folder.
    pub(crate) fn send_in(
        &self,
        folder: &str,
        source: &str,
        id: &str,
        action: &str,
        payload: &str,
    ) {
        let request = (source, id, action, payload);
        self.place.ask_in(folder, &self.keys[source], request);
    }

    /// Drops a request, has it decided, and returns the refusal.
    pub(crate) fn ask(
        &self,
        home: &mut Home,
        source: &str,
        id: &str,
        action: &str,
        payload: &str,
    ) -> Outcome {
        self.send(source, id, action, payload);
        let mut outcomes = self.drain(home);
        assert_eq!(outcomes.len(), 1, "{id}: {outcomes:?}");
        outcomes.remove(0)
    }

    /// Opens a case as `research-bot` and returns the payload that opened it.
    pub(crate) fn propose(&self, home: &mut Home, id: &str, change: &str) -> String {
        let payload = request(id, change);
        let done = self.ask(
            home,
            "research-bot",
            &format!("open-{id}"),
            "council.request",
            &payload,
        );
        assert!(done.answer.error.is_none(), "{:?}", done.answer.error);
        payload
    }

    /// Sends a role's verdict.
    pub(crate) fn vote(
        &self,
        home: &mut Home,
        id: &str,
        case: &str,
        asked: &str,
        role: &str,
        stance: &str,
    ) -> Outcome {
        let payload = verdict(case, asked, &opinion(role, stance));
        self.ask(home, speaker(role), id, "council.verdict", &payload)
    }

    /// Reads what the ledger says now.
    pub(crate) fn told(&self) -> Told {
        let files = self.place.disk.files_below("audit");
        let logs = files
            .into_iter()
            .filter(|(path, _)| path.extension().is_some_and(|end| end == "jsonl"));
        Told::of(logs.map(|(_, bytes)| bytes))
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.place.disk.get(path)
    }

    /// Lists the names below a case's folder, including hidden ones.
    pub(crate) fn case_files(&self, id: &str) -> Vec<String> {
        let dir = self.told().folder(id);
        let files = self.place.disk.files_below(dir.to_str().unwrap());
        files
            .iter()
            .map(|(path, _)| {
                path.strip_prefix(&dir)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
            .collect()
    }

    /// Returns the record of a decision, from its line or from the blob that the line names.
    pub(crate) fn record_bytes(&self, ruling: &CaseDecision) -> Vec<u8> {
        let mut bytes = match (&ruling.record, &ruling.record_blob) {
            (Some(record), None) => record.get().as_bytes().to_vec(),
            (None, Some(digest)) => self.file(Path::new("audit/blobs").join(digest)).unwrap(),
            _ => panic!("a record twice, or not at all"),
        };
        bytes.push(b'\n');
        bytes
    }

    /// Checks that every derived file has the content that its line implies, and that there is no
    /// other file.
    pub(crate) fn files_stand(&self, change_roles: &[&str]) -> Result<(), String> {
        let told = self.told();
        let mut rulings: BTreeMap<&str, &CaseDecision> = BTreeMap::new();
        for line in told.rulings.values() {
            if rulings.insert(line.request_id.as_str(), line).is_some() {
                return Err(format!("{} is decided twice", line.request_id));
            }
        }
        let expect = |path: PathBuf, bytes: &[u8]| match self.file(&path) {
            Some(there) if there == bytes => Ok(()),
            other => Err(format!(
                "{}: {:?}",
                path.display(),
                other.map(|b| String::from_utf8_lossy(&b).into_owned())
            )),
        };
        for opened in told
            .decisions
            .values()
            .filter(|decision| decision.opens_a_case())
        {
            let payload = sealed::payload(self.place.disk.as_ref(), opened)
                .unwrap()
                .unwrap();
            let asked: Value = serde_json::from_str(&payload).unwrap();
            let id = asked["request_id"].as_str().unwrap();
            let dir = told.folder(id);
            let mut expected = Vec::new();
            for role in change_roles {
                let name = format!("briefs/{}.md", file_name_of(role));
                let brief = self
                    .file(dir.join(&name))
                    .ok_or(format!("{id}: {name} is missing"))?;
                let brief = String::from_utf8(brief).unwrap();
                if !brief.contains(opened.payload_hash.as_ref().unwrap())
                    || !brief.ends_with("```\n")
                {
                    return Err(format!("{id}: {name} is not whole"));
                }
                expected.push(name);
            }
            // Until the decision, nothing else is to be seen.
            if let Some(ruling) = rulings.get(id) {
                expect(dir.join("request.json"), format!("{payload}\n").as_bytes())?;
                expected.push("request.json".to_owned());
                for (_, name, payload) in told.verdicts(id) {
                    expect(
                        dir.join("verdicts").join(&name),
                        format!("{payload}\n").as_bytes(),
                    )?;
                    expected.push(format!("verdicts/{name}"));
                }
                expect(
                    Path::new("spool").join(&ruling.answer),
                    &decision_bytes(ruling),
                )?;
                expect(dir.join("decision.json"), &decision_bytes(ruling))?;
                expect(dir.join("record.json"), &self.record_bytes(ruling))?;
                expected.extend(["decision.json".to_owned(), "record.json".to_owned()]);
            }
            expected.sort();
            let there = self.case_files(id);
            if there != expected {
                return Err(format!(
                    "{id}: {there:?} where there should be {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the ledger, a look without a lock, and a rebuilt index agree on a decided case.
    pub(crate) fn agrees(&self, id: &str) {
        let case = RequestId::parse(id).unwrap();
        let told = self.told();
        let (seq, ruling) = told.ruling(id);
        let view = read::read(self.place.root.path(), &self.place.seams()).unwrap();
        let docket = view.docket(&case).unwrap().unwrap();
        let closed = docket.closed.unwrap();
        assert_eq!((closed.line, closed.outcome), (seq, ruling.outcome));
        let lines: Vec<u64> = told.verdicts(id).iter().map(|(line, ..)| *line).collect();
        assert_eq!(
            ruling.verdict_lines, lines,
            "the lines that counted are those that were accepted"
        );
        let said = view.said(&docket).unwrap();
        let again = rule_on(
            &view.rulebook_of(&ruling.rulebook).unwrap(),
            &docket,
            &said,
            None,
        );
        assert_eq!(
            serde_json::to_string(&again.decision).unwrap(),
            ruling.decision.as_ref().unwrap().get()
        );
        let record = format!("{}\n", serde_json::to_string(&again.record).unwrap());
        assert_eq!(record.as_bytes(), self.record_bytes(ruling));
        let options = Options {
            strict: Some(spoolgate_gate::record::canonical),
            threads: 1,
            ..Options::default()
        };
        let report = verify::verify(
            self.place.disk.as_ref(),
            Path::new("audit"),
            &options,
            &|_| {},
        )
        .unwrap();
        assert!(
            report.ok && report.problems.is_empty(),
            "{:?}",
            report.problems
        );
        let (home, same) = Home::rebuild(self.place.root.path(), self.place.seams()).unwrap();
        assert!(same, "the index made again is another one");
        let index = home.store().dump().unwrap();
        drop(home);
        self.place.forget_state();
        assert!(
            self.open().store().dump().unwrap() == index,
            "without state.db it is another one"
        );
    }
}

/// Replaces text in the home's `council/roles.yaml`, for example to shorten deadlines or to name a
/// command.
pub(crate) fn edit_roles(root: &Path, how: impl Fn(&str) -> String) {
    let shipped = roles::SHIPPED;
    let edited = how(shipped);
    assert_ne!(shipped, edited);
    fs::create_dir_all(root.join("council")).unwrap();
    fs::write(root.join("council/roles.yaml"), edited).unwrap();
}
