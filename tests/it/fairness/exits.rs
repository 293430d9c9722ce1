//! What passes through a spool that is over its quota, and what does not: the whole gate on a real
//! disk.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};

use spoolgate_gate::actions::Lane;
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;

use crate::kit::world::{Draft, World, code_of, message_of};

/// The flat spool has room for everything that the tests themselves do; agents have ten requests
/// per minute.
const RATES: &str = "spool:
  requests_per_minute: 10
  bytes_per_minute: 1000000
  flat: {requests_per_minute: 100000, bytes_per_minute: 1000000000}
";

fn with_rates(world: &World, rates: &str) -> Home {
    fs::write(world.root.join("rules/rates.yaml"), rates).unwrap();
    let mut home = world.open();
    world.settle(&mut home);
    assert!(home.rulebook().rates.is_some());
    home
}

/// Drops this number of harmless requests of `source`, with names that sort before all others.
fn flood(world: &mut World, source: &str, count: usize) {
    for _ in 0..count {
        let mut draft = world.draft(source, "orders.list", "{}");
        draft.id = format!("a-{}", draft.id);
        world.send(&draft);
    }
}

fn named(mut draft: Draft, id: &str) -> Draft {
    draft.id = id.to_owned();
    draft
}

fn ids(outcomes: &[Outcome]) -> Vec<&str> {
    let mut ids: Vec<&str> = outcomes
        .iter()
        .filter_map(|o| o.decision.request_id.as_deref())
        .collect();
    ids.sort_unstable();
    ids
}

fn waiting(world: &World, spool: &str) -> Vec<String> {
    let entries = fs::read_dir(world.inbox(spool, b"")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// An alpha-bot with a position, a resting entry, and a spool over its quota in which nothing that
/// waits may pass.
fn flooded(world: &mut World, home: &mut Home) -> (String, String) {
    let position = world.position(home, "alpha-bot", 0, "0.02");
    let draft = world.resting("alpha-bot", 1, "0.002");
    let resting = world.decide(home, &draft);
    assert_eq!(code_of(&resting), None, "{}", message_of(&resting));
    world.pass_ms(60_000);
    world.market(home, "6800");
    flood(world, "alpha-bot", 300);
    assert_eq!(world.drain(home).len(), 10);
    assert_eq!(waiting(world, "alpha-dir").len(), 290);
    (position, resting.decision.order_id.unwrap().to_string())
}

fn cancel(world: &mut World, order: &str) -> Draft {
    world.draft(
        "alpha-bot",
        "order.cancel",
        &format!(r#"{{"order_id":"{order}"}}"#),
    )
}

fn tighten(world: &mut World, order: &str, stop: &str) -> Draft {
    let payload = format!(r#"{{"order_id":"{order}","new_stop":"{stop}"}}"#);
    world.draft("alpha-bot", "order.tighten_stop", &payload)
}

#[test]
fn requests_that_make_things_safer_pass_a_reported_quota() {
    let mut world = World::new(71);
    let mut home = with_rates(&world, RATES);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    home.tell_events(Box::new(move |event| {
        hears.lock().unwrap().push(event.note.clone())
    }));
    let (position, resting) = flooded(&mut world, &mut home);
    let said = heard.lock().unwrap().clone();
    assert!(
        said.len() == 1 && said[0].contains("`spool/in/alpha-dir/new` is over its quota"),
        "{said:?}"
    );

    let drafts = [
        named(world.exit("alpha-bot", "0.001"), "zz-exit"),
        named(cancel(&mut world, &resting), "zz-cancel"),
        named(tighten(&mut world, &position, "6750"), "zz-tighten"),
        named(
            world.draft("alpha-bot", "halt.set", r#"{"reason":"flooded"}"#),
            "zz-halt",
        ),
        named(world.draft("beta-bot", "orders.list", "{}"), "zz-other"),
    ];
    drafts.iter().for_each(|draft| world.send(draft));
    let outcomes = world.drain(&mut home);
    assert_eq!(
        ids(&outcomes),
        ["zz-cancel", "zz-exit", "zz-halt", "zz-other", "zz-tighten"]
    );
    for outcome in &outcomes {
        assert_eq!(code_of(outcome), None, "{}", message_of(outcome));
    }
    let left = waiting(&world, "alpha-dir");
    assert_eq!(left.len(), 290, "nothing else was claimed");
    let answered = |name: &String| world.answer_path("alpha-dir", name).exists();
    assert!(
        !left.iter().any(answered),
        "and nothing that waits is answered"
    );

    // What passed was charged: four of the minute's ten requests.
    world.pass_ms(60_000);
    assert_eq!(world.drain(&mut home).len(), 6);
    for _ in 0..30 {
        world.pass_ms(60_000);
        world.drain(&mut home);
    }
    assert!(waiting(&world, "alpha-dir").is_empty());
    let notes: Vec<String> = world
        .ledger()
        .iter()
        .filter(|line| line["kind"] == "quota")
        .map(|line| line["note"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[1].contains("`spool/in/alpha-dir/new` is within its quota again"),
        "{notes:?}"
    );
    let mut heard = heard.lock().unwrap().clone();
    heard.retain(|note| !note.starts_with("entries are pulled"));
    assert_eq!(heard, notes);
    drop(home);
    let done = Command::new(env!("CARGO_BIN_EXE_spoolgate"))
        .arg("--home")
        .arg(&world.root)
        .args(["audit", "verify"])
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn no_other_request_passes_a_quota() {
    let mut world = World::new(72);
    let mut home = with_rates(&world, RATES);
    let (position, resting) = flooded(&mut world, &mut home);
    world.position(&mut home, "beta-bot", 0, "0.008");
    let draft = world.resting("beta-bot", 1, "0.002");
    let others = world
        .decide(&mut home, &draft)
        .decision
        .order_id
        .unwrap()
        .to_string();
    // This one was answered before, and is sent again.
    let first = named(cancel(&mut world, &resting), "zz-cancel");
    assert_eq!(code_of(&world.decide(&mut home, &first)), None);

    let halt = named(
        world.draft("alpha-bot", "halt.set", r#"{"reason":"r"}"#),
        "zz-halt",
    );
    assert_eq!(code_of(&world.decide(&mut home, &halt)), None);

    let beta_exit = world.exit("beta-bot", "0.001").payload;
    let mut drafts = vec![
        named(world.entry("alpha-bot", 2, "0.003"), "zz-entry"),
        named(world.exit("alpha-bot", "0.5"), "zz-flip"),
        named(
            world.draft("alpha-bot", "order.submit", &beta_exit),
            "zz-others-exit",
        ),
        named(cancel(&mut world, &others), "zz-others-order"),
        named(cancel(&mut world, "o-999999"), "zz-no-order"),
        named(tighten(&mut world, &resting, "6750"), "zz-closed-order"),
        named(
            world.draft("alpha-bot", "halt.clear", r#"{"scope":"all","reason":"r"}"#),
            "zz-clear",
        ),
        named(world.draft("alpha-bot", "no.such", "{}"), "zz-no-action"),
    ];
    drafts.iter().for_each(|draft| world.send(draft));
    let mut drop_file = |name: &str, text: String| {
        world.drop_file("alpha-dir", name, text);
        drafts.push(Draft {
            id: name.strip_suffix(".json").unwrap().to_owned(),
            ..first.clone()
        });
    };
    let exit = world.sign(&Draft {
        id: "zz-forged".to_owned(),
        ..first.clone()
    });
    drop_file(
        "zz-forged.json",
        exit.replacen("\"signature\":\"", "\"signature\":\"0", 1),
    );
    drop_file("zz-again.json", world.sign(&first));
    drop_file("zz-halted.json", world.sign(&halt));
    let good = Draft {
        id: "zz-large".to_owned(),
        payload: format!(r#"{{"order_id":"{position}"}}"#),
        ..first.clone()
    };
    drop_file("zz-large.json", world.sign(&good) + &" ".repeat(64 * 1024));
    drop_file("zz-half.json", world.sign(&good).split_at(100).0.to_owned());
    // A request of another principal in this spool.
    let owners = Draft {
        source: "owner".to_owned(),
        id: "zz-owner".to_owned(),
        ..first.clone()
    };
    drop_file("zz-owner.json", world.sign(&owners));

    let outcomes = world.drain(&mut home);
    assert_eq!(ids(&outcomes), Vec::<&str>::new());
    let left = waiting(&world, "alpha-dir");
    assert_eq!(left.len(), 290 + drafts.len());
    for draft in &drafts {
        assert!(left.contains(&format!("{}.json", draft.id)), "{}", draft.id);
    }
}

#[test]
fn people_come_through_the_flat_spool() {
    let mut world = World::new(73);
    let mut home = with_rates(
        &world,
        "spool: {requests_per_minute: 20, bytes_per_minute: 1000000}\n",
    );
    flood(&mut world, "trend-bot", 100);
    assert_eq!(world.drain(&mut home).len(), 20);
    let drafts = [
        named(world.draft("owner", "portfolio.get", "{}"), "zz-look"),
        named(
            world.draft("owner", "halt.set", r#"{"reason":"r"}"#),
            "zz-halt",
        ),
        named(world.draft("owner", "no.such", "{}"), "zz-wrong"),
        named(world.draft("trend-bot", "portfolio.get", "{}"), "zz-bot"),
        named(
            world.draft("other-bot", "halt.set", r#"{"reason":"r"}"#),
            "zz-stop",
        ),
    ];
    drafts.iter().for_each(|draft| world.send(draft));
    assert_eq!(
        ids(&world.drain(&mut home)),
        ["zz-halt", "zz-look", "zz-stop", "zz-wrong"]
    );
}

/// An order that opens a position when it is first looked at, and reduces one as soon as there is a
/// position.
#[test]
fn an_order_that_begins_to_reduce_passes_the_quota() {
    static EXIT_READS: AtomicU64 = AtomicU64::new(0);
    let mut world = World::with_disk(
        74,
        Box::new(|verb, path, _, is_after| {
            if verb == "read" && !is_after && path.to_string_lossy().contains("zz-exit") {
                EXIT_READS.fetch_add(1, SeqCst);
            }
            None
        }),
    );
    let mut home = with_rates(&world, RATES);
    let entry = world.entry("alpha-bot", 0, "0.02");
    assert_eq!(code_of(&world.decide(&mut home, &entry)), None);
    flood(&mut world, "alpha-bot", 50);
    world.drain(&mut home);
    let exit = named(world.exit("alpha-bot", "0.001"), "zz-exit");
    world.send(&exit);
    for _ in 0..5 {
        assert!(world.drain(&mut home).is_empty());
    }
    assert_eq!(
        EXIT_READS.load(SeqCst),
        1,
        "it is remembered, and not read again"
    );
    let prices = world.import_draft(&home, "6800");
    world.send(&prices);
    let outcomes = world.drain(&mut home);
    let exit = outcomes
        .iter()
        .find(|o| o.decision.request_id.as_deref() == Some("zz-exit"))
        .unwrap();
    assert_eq!((code_of(exit), exit.decision.lane), (None, Lane::Protected));
}

/// A file that replaces one that passes, between the look and the claim.
#[test]
fn a_file_swapped_in_does_not_come_through() {
    let root: Arc<OnceLock<PathBuf>> = Arc::default();
    let seen = Arc::clone(&root);
    let mut world = World::with_disk(
        75,
        Box::new(move |verb, path, _, is_after| {
            if verb == "rename_new" && !is_after && path.ends_with("alpha-dir/new/zz-exit.json") {
                let new = seen.get().unwrap().join("spool/in/alpha-dir");
                let _ = fs::rename(new.join("tmp/other.json"), new.join("new/zz-exit.json"));
            }
            None
        }),
    );
    root.set(world.root.clone()).unwrap();
    let mut home = with_rates(&world, RATES);
    flooded(&mut world, &mut home);
    let other = world.draft("alpha-bot", "orders.list", "{}");
    fs::write(
        world.root.join("spool/in/alpha-dir/tmp/other.json"),
        world.sign(&other),
    )
    .unwrap();
    let exit = named(world.exit("alpha-bot", "0.001"), "zz-exit");
    world.send(&exit);
    assert_eq!(ids(&world.drain(&mut home)), Vec::<&str>::new());
    assert!(waiting(&world, "alpha-dir").contains(&"zz-exit.json".to_owned()));
    assert_eq!(
        fs::read_dir(world.root.join("spool/work")).unwrap().count(),
        0
    );
}

/// Rules that set a quota while files wait, and rules that lift it.
#[test]
fn quotas_change_with_the_rulebook() {
    let mut world = World::new(76);
    let mut home = with_rates(&world, RATES);
    flood(&mut world, "alpha-bot", 60);
    assert_eq!(world.drain(&mut home).len(), 10);
    let path = world.root.join("rules/rates.yaml");
    let own =
        "  principals: [{name: alpha-bot, requests_per_minute: 40, bytes_per_minute: 1000000}]\n";
    fs::write(&path, format!("{RATES}{own}")).unwrap();
    world.settle(&mut home);
    let more = world.drain(&mut home).len();
    // What was used stays used, and settling took some seconds.
    assert!((30..34).contains(&more), "{more}");
    fs::write(&path, format!("{RATES}  typo: 1\n")).unwrap();
    world.settle(&mut home);
    let entry = world.entry("trend-bot", 0, "0.002");
    world.send(&entry);
    let outcomes = world.drain(&mut home);
    let refused = outcomes
        .iter()
        .find(|o| o.decision.request_id.as_ref() == Some(&entry.id))
        .unwrap();
    assert!(
        message_of(refused).contains("rules/rates.yaml:"),
        "{}",
        message_of(refused)
    );
    fs::remove_file(&path).unwrap();
    world.settle(&mut home);
    world.drain(&mut home);
    assert!(waiting(&world, "alpha-dir").is_empty(), "no file, no quota");
}
