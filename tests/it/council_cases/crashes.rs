//! A gate is killed at every call of the disk while a case opens, gets verdicts and is decided; and
//! files of cases are removed, emptied or replaced.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use spoolgate_home::Seams;

use crate::kit::campaign;
use crate::kit::court::{Court, SEATS, decision_bytes, opinion, request, speaker, verdict};
use crate::kit::place::drain;

const ROLES: [&str; 3] = ["Risk Officer", "Code Auditor", "Integration Engineer"];

/// Drops everything for one case into the spool at once; one of the verdicts comes through the
/// spool of commands.
fn drop_all(court: &Court) -> String {
    let asked = request("req_1", "UPDATE_CONFIG");
    court.send("research-bot", "a-open", "council.request", &asked);
    for (n, role) in ROLES.iter().enumerate() {
        let says = if n == 1 { "REJECT" } else { "APPROVE" };
        let payload = verdict("req_1", &asked, &opinion(role, says));
        court.send(
            speaker(role),
            &format!("b-{n}"),
            "council.verdict",
            &payload,
        );
        if n == 0 {
            court.send(
                speaker(role),
                &format!("b-{n}-worse"),
                "council.verdict",
                &verdict("req_1", &asked, &opinion(role, "NEEDS_MORE_INFO")),
            );
        }
    }
    asked
}

fn live(court: &Court, seams: Seams, one_by_one: bool) {
    let mut home = court.place.open_with(seams).unwrap();
    if one_by_one {
        home.limit_batches(1);
    }
    drain(&mut home).unwrap();
    home.finish("all is done").unwrap();
}

#[test]
fn killed_at_every_call_of_the_disk() {
    let base = Court::new();
    drop_all(&base);
    for one_by_one in [false, true] {
        let whole = base.fork();
        let (seams, fuse) = whole.place.mortal(i64::MAX, false);
        live(&whole, seams, one_by_one);
        let calls = i64::MAX - fuse.left();
        let expected = decision_bytes(whole.told().ruling("req_1").1);
        whole.files_stand(&ROLES).unwrap();
        whole.agrees("req_1");
        assert!(calls > 40, "{calls}");
        // One by one there are many more calls, most of them alike.
        let step = if one_by_one {
            campaign(11, 3)
        } else {
            campaign(3, 1)
        };
        for at in (1..=calls).step_by(step) {
            for after in [false, true] {
                let what =
                    format!("call {at} of {calls}, after: {after}, one by one: {one_by_one}");
                let court = base.fork();
                let (seams, _) = court.place.mortal(at, after);
                let died = catch_unwind(AssertUnwindSafe(|| live(&court, seams, one_by_one)));
                assert!(died.is_err(), "{what}: it lived");
                let mut home = court.open();
                let begun = court.told();
                court
                    .files_stand(&ROLES)
                    .unwrap_or_else(|why| panic!("{what}, right after the start: {why}"));
                assert!(begun.rulings.len() <= 1, "{what}");
                drain(&mut home).unwrap();
                home.finish("mended").unwrap();
                drop(home);
                let told = court.told();
                court
                    .files_stand(&ROLES)
                    .unwrap_or_else(|why| panic!("{what}: {why}"));
                let (_, ruling) = told.ruling("req_1");
                // The kill decides which of the files is left behind and so comes last: the
                // correction may then meet a decided case, the other verdicts never do.
                let votes = told.verdicts("req_1").len();
                assert!(
                    votes == 4 || (votes == 3 && one_by_one),
                    "{what}: {votes} votes"
                );
                assert_eq!(ruling.verdict_lines.len(), votes, "{what}");
                if votes == 4 {
                    assert_eq!(decision_bytes(ruling), expected, "{what}");
                }
                assert_eq!(
                    told.decisions.values().filter(|d| d.opens_a_case()).count(),
                    1,
                    "{what}"
                );
                for (seq, ..) in begun.verdicts("req_1") {
                    assert!(told.decisions.contains_key(&seq), "{what}: a vote is lost");
                }
                if at % 16 == 1 {
                    court.agrees("req_1");
                }
            }
        }
    }
}

/// As long as answers are not marked as durable, a start repairs whatever a power cut did to the
/// files of a case, even if a command sent the case.
#[test]
fn files_that_a_power_cut_took() {
    for by_command in [false, true] {
        let court = Court::new();
        drop_all(&court);
        if by_command {
            let files = court.place.disk.files_below("spool/in");
            for (path, bytes) in files {
                court.place.disk.drop_file(&path);
                court.place.disk.put(
                    Path::new("spool/local/in").join(path.file_name().unwrap()),
                    &bytes,
                );
            }
        }
        let mut home = court.open();
        drain(&mut home).unwrap();
        drop(home);
        court.files_stand(&ROLES).unwrap();
        let folder = court.told().folder("req_1");
        let files = court.place.disk.files_below(folder.to_str().unwrap());
        assert_eq!(files.len(), 1 + 3 + 4 + 2);
        let out = Path::new("spool/out/req_1.decision.json").to_owned();
        for (path, bytes) in files
            .iter()
            .chain([&(out.clone(), court.file(&out).unwrap())])
        {
            for broken in [
                None,
                Some(Vec::new()),
                Some(bytes[..bytes.len() / 2].to_vec()),
                Some(vec![b'x'; bytes.len()]),
            ] {
                match &broken {
                    None => court.place.disk.drop_file(path),
                    Some(broken) => court.place.disk.put(path, broken),
                }
                drop(court.open());
                court
                    .files_stand(&ROLES)
                    .unwrap_or_else(|why| panic!("{by_command} {broken:?}: {why}"));
            }
        }
        let mut home = court.open();
        home.mark_published().unwrap();
        drop(home);
        // From then on, their readers must keep them.
        let request = folder.join("request.json");
        court.place.disk.drop_file(&request);
        drop(court.open());
        assert!(court.file(&request).is_none());
        assert_eq!(SEATS.len(), 5);
    }
}
