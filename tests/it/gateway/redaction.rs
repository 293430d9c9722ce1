//! A redacted result: its answer goes from every place that it was given at, also if the gate is
//! killed meanwhile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::sealed::{SECRET, asked, check_sound, holding, lines_of};
use crate::kit::gateway_home::{ECHO, GatewayHome, settle};
use spoolgate_home::redact::Plan;
use spoolgate_wire::ids::RequestId;

/// The places of the answer: of the request, of a copy that came while the action was open, of one
/// that came later, and of one that came through a spool that its sender was given later.
const PLACES: [&str; 4] = [
    "spool/out/one.json",
    "spool/local/out/meanwhile.json",
    "spool/local/out/later.json",
    "spool/out/core/one.json",
];

/// Makes a home with a mail whose result holds the secret and was given out at all places. Returns
/// the line of its request.
fn answered() -> (GatewayHome, u64) {
    let home = GatewayHome::new(ECHO);
    let mut gate = home.open();
    let payload = format!(r#"{{"to":["ann@example.com"],"subject":"s","body":"{SECRET}"}}"#);
    let bytes = home.envelope("one", "email.send", &payload).to_json();
    let put = |path: &str| home.place.disk.put(path, bytes.as_bytes());
    put("spool/in/one.json");
    put("spool/local/in/meanwhile.json");
    settle(&mut gate);
    put("spool/local/in/later.json");
    settle(&mut gate);
    drop(gate);
    home.edit("rules/principals.yaml", |text| {
        text.replace("  - name: core\n", "  - name: core\n    spool: core\n")
    });
    let mut gate = home.open();
    put("spool/in/core/new/one.json");
    settle(&mut gate);
    // A gate that ends would take away what no command fetched.
    gate.mark_published().unwrap();
    drop(gate);
    for place in PLACES {
        let answer = home.place.disk.get(place).expect(place);
        assert!(String::from_utf8(answer).unwrap().contains(SECRET));
    }
    let (line, _) = lines_of(&home, "one").remove(0);
    (home, line)
}

#[test]
fn every_copy_of_the_answer_goes() {
    let (home, line) = answered();
    let mut gate = home.open();
    assert_eq!(home.responses().len(), 1);
    let secret = [SECRET.to_owned()];
    assert_eq!(holding(&home, &secret).len(), PLACES.len());
    let done = gate.redact(&asked(line, &[])).unwrap();
    assert!(matches!(done, Plan::Delete(_)));
    drop(gate);
    assert_eq!(holding(&home, &secret), Vec::<String>::new());
    assert!(
        PLACES
            .iter()
            .all(|place| home.place.disk.get(place).is_none())
    );
    check_sound(&home);
}

#[test]
fn every_request_that_was_repaired_under_its_id_goes() {
    let home = GatewayHome::new(ECHO);
    let mut gate = home.open();
    for (n, subject) in ["1", "2", r#""s""#].into_iter().enumerate() {
        let payload =
            format!(r#"{{"to":["ann@example.com"],"subject":{subject},"body":"{SECRET} {n}"}}"#);
        let bytes = home.envelope("one", "email.send", &payload).to_json();
        let path = format!("spool/in/one.{n}.json");
        home.place.disk.put(path, bytes.as_bytes());
        settle(&mut gate);
    }
    let lines: Vec<u64> = lines_of(&home, "one")
        .iter()
        .map(|(line, _)| *line)
        .collect();
    assert_eq!(lines.len(), 3);
    let id = RequestId::parse("one").unwrap();
    assert_eq!(gate.lines_of_id(&id).unwrap(), lines);
    for line in &lines {
        assert_eq!(gate.lines_of_request(*line).unwrap(), lines, "{line}");
    }
    let secret = [SECRET.to_owned()];
    assert!(!holding(&home, &secret).is_empty());
    let done = gate.redact(&asked(lines[0], &[])).unwrap();
    assert!(matches!(done, Plan::Delete(_)));
    drop(gate);
    assert_eq!(holding(&home, &secret), Vec::<String>::new());
    check_sound(&home);
}

#[test]
fn a_killed_redaction_is_finished_by_the_next_start() {
    let (base, line) = answered();
    let secret = [SECRET.to_owned()];
    let fork = || GatewayHome {
        place: base.place.fork(),
        core: base.core.clone(),
    };
    let redact = |home: &GatewayHome, calls: i64, after: bool| {
        let (seams, fuse) = home.place.mortal(i64::MAX, after);
        let mut gate = home.place.open_with(seams).unwrap();
        fuse.set(calls);
        gate.redact(&asked(line, &[])).unwrap();
        fuse.set(i64::MAX)
    };
    let calls = i64::MAX - redact(&fork(), i64::MAX, false);
    // Each answer and each disclosure is removed by a call of its own.
    assert!(calls > 10, "{calls}");
    let (mut finished, mut never) = (0, 0);
    for at in 1..=calls {
        for after in [false, true] {
            let what = format!("call {at} of {calls}, after: {after}");
            let home = fork();
            let died = catch_unwind(AssertUnwindSafe(|| redact(&home, at, after)));
            assert!(died.is_err(), "{what}: it lived");
            drop(home.open());
            let is_told = home.lines().iter().any(|(_, kind, _)| kind == "redact");
            let left = holding(&home, &secret);
            if is_told {
                finished += 1;
                assert_eq!(left, Vec::<String>::new(), "{what}");
            } else {
                never += 1;
                assert_eq!(left.len(), PLACES.len(), "{what}: {left:?}");
            }
            check_sound(&home);
        }
    }
    assert!(finished > 10 && never > 0, "{finished} {never}");
}
