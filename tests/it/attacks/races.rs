//! Senders that change files while the gate looks: real threads against the real disk.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use spoolgate_home::Home;
use spoolgate_home::batch::Outcome;
use spoolgate_wire::code::Code;

use crate::attacks::siege::{Siege, about};
use crate::kit::world::code_of;

/// A thread that repeats something until it is stopped.
struct Meanwhile {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Meanwhile {
    fn does(mut what: impl FnMut(u64) + Send + 'static) -> Meanwhile {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let mut times = 0;
            while !stopped.load(Ordering::SeqCst) {
                what(times);
                times += 1;
            }
            times
        });
        Meanwhile {
            stop,
            thread: Some(thread),
        }
    }

    fn ends(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Meanwhile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

/// Runs rounds until nothing of this spool is left, while the clock moves by itself.
fn until_gone(siege: &Siege, home: &mut Home, path: &PathBuf) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let began = Instant::now();
    while fs::symlink_metadata(path).is_ok() {
        assert!(
            began.elapsed() < Duration::from_secs(120),
            "{} is never decided",
            path.display()
        );
        outcomes.extend(home.round(false).unwrap().outcomes);
        siege.world.pass_ms(50);
    }
    outcomes
}

/// Swaps between look and open, and between open and claim: the decision is about the bytes that
/// were read from a real file, whatever has its name now.
#[test]
fn swapped_again_and_again() {
    let mut siege = Siege::new(111);
    let mut home = siege.world.open();
    let folder = siege.world.inbox("alpha-dir", b"");
    let (link, hard) = (folder.join(".link"), folder.join(".hard"));
    symlink(siege.secret(), &link).unwrap();
    fs::hard_link(siege.secret(), &hard).unwrap();
    let mut codes = std::collections::BTreeMap::<String, usize>::new();
    let mut exchanges = 0;
    for n in 0..60 {
        let draft = siege.world.draft("alpha-bot", "orders.list", "{}");
        let name = format!("{}.json", draft.id);
        let text = siege.world.sign(&draft);
        let evil = if n % 2 == 0 {
            link.clone()
        } else {
            hard.clone()
        };
        siege.world.drop_file("alpha-dir", &name, text);
        let path = folder.join(&name);
        let swapping = {
            let (path, evil) = (path.clone(), evil.clone());
            Meanwhile::does(move |_| {
                let _ = renameat_with(CWD, &path, CWD, &evil, RenameFlags::EXCHANGE);
            })
        };
        // The swapper must be running before the gate looks.
        std::thread::sleep(Duration::from_micros(300));
        let outcomes = until_gone(&siege, &mut home, &path);
        exchanges += swapping.ends();
        let code = code_of(about(&outcomes, &name));
        assert!(
            matches!(
                code,
                None | Some(Code::NotAFile | Code::LinkedFile | Code::MalformedJson)
            ),
            "{name}: {outcomes:?}"
        );
        *codes.entry(format!("{code:?}")).or_default() += 1;
        siege.one_each(&[("alpha-dir", name.as_bytes(), code)]);
        // Remove whatever is left under the hostile name, and create it again.
        let _ = fs::remove_file(&evil);
        if n % 2 == 0 {
            symlink(siege.secret(), &evil)
        } else {
            fs::hard_link(siege.secret(), &evil)
        }
        .unwrap();
    }
    println!("{exchanges} exchanges over 60 files: {codes:?}");
    assert!(codes.len() >= 2, "the swapper never hit: {codes:?}");
    fs::remove_file(link).unwrap();
    fs::remove_file(hard).unwrap();
    siege.stands(home);
}

/// A file that never stops growing is read only once, and at most to the cap.
#[test]
fn a_file_that_grows_while_it_is_read() {
    let mut siege = Siege::new(112);
    let mut home = siege.world.open();
    siege.world.drop_file("", "grows.json", "{");
    let path = siege.world.inbox("", b"grows.json");
    let growing = {
        let mut file = File::options().append(true).open(&path).unwrap();
        Meanwhile::does(move |n| {
            // It grows to 24 MB and then stops.
            if n < 2400 {
                file.write_all(&[b' '; 10_000]).unwrap();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    };
    let outcomes = until_gone(&siege, &mut home, &path);
    growing.ends();
    let code = code_of(about(&outcomes, "grows.json"));
    assert!(
        matches!(code, Some(Code::MalformedJson | Code::TooLarge)),
        "{code:?}"
    );
    siege.one_each(&[("", b"grows.json", code)]);
    siege.stands(home);
}

/// A file is cut and written again while it is read (a gate that mapped it would die of SIGBUS).
#[test]
fn a_file_that_is_truncated_while_it_is_read() {
    let mut siege = Siege::new(113);
    let mut home = siege.world.open();
    let mut sizes = std::collections::BTreeSet::new();
    for n in 0..20 {
        let name = format!("cut-{n}.json");
        let path = siege.world.inbox("", name.as_bytes());
        let file = File::create(&path).unwrap();
        let cutting = Meanwhile::does(move |n| {
            file.set_len(if n % 2 == 0 { 4_000_000 } else { 100 })
                .unwrap();
        });
        let outcomes = until_gone(&siege, &mut home, &path);
        cutting.ends();
        let outcome = about(&outcomes, &name);
        assert_eq!(code_of(outcome), Some(Code::MalformedJson));
        let kept = siege
            .world
            .root
            .join("spool")
            .join(outcome.decision.kept.as_ref().unwrap());
        sizes.insert(fs::metadata(&kept).unwrap().len());
        siege.one_each(&[("", name.as_bytes(), Some(Code::MalformedJson))]);
    }
    println!("sizes read: {sizes:?}");
    siege.stands(home);
}

/// An agent puts a link, a file or nothing in the place of its folder a thousand times a second.
#[test]
fn folders_swapped_again_and_again() {
    let mut siege = Siege::new(114);
    let mut home = siege.world.open();
    let own = siege.world.root.join("spool/in/alpha-dir");
    fs::create_dir(siege.outside.join("new")).unwrap();
    let bait = siege.world.draft("alpha-bot", "orders.list", "{}");
    let mut siege = {
        // The bait is among the files that must not change.
        fs::write(siege.outside.join("new/bait.json"), siege.world.sign(&bait)).unwrap();
        siege.look_again();
        siege
    };
    let folder = File::open(own.join("new")).unwrap();
    symlink(siege.outside.join("new"), own.join("link")).unwrap();
    fs::write(own.join("file"), "").unwrap();
    let swapping = {
        let own = own.clone();
        Meanwhile::does(move |n| {
            let other = if n % 4 < 2 {
                own.join("link")
            } else {
                own.join("file")
            };
            renameat_with(CWD, own.join("new"), CWD, other, RenameFlags::EXCHANGE).unwrap();
        })
    };
    let mut answered = 0;
    let mut sent = 0;
    for n in 0..60 {
        let draft = siege.world.draft("alpha-bot", "orders.list", "{}");
        let hidden = own.join(format!("{n}.tmp"));
        fs::write(&hidden, siege.world.sign(&draft)).unwrap();
        // Into the folder that is `new` from time to time; through its descriptor, so that the test
        // follows no link.
        renameat(CWD, &hidden, &folder, format!("{}.json", draft.id)).unwrap();
        sent += 1;
        let query = siege.query("beta-bot");
        let outcomes = siege.world.drain(&mut home);
        assert_eq!(
            code_of(about(&outcomes, &format!("{}.json", query.id))),
            None
        );
        answered += outcomes.len() - 1;
    }
    let swaps = swapping.ends();
    println!("{swaps} swaps, {sent} sent, {answered} answered meanwhile");
    // Repair: give the folder its own name again.
    while !fs::symlink_metadata(own.join("new")).unwrap().is_dir() {
        for other in ["link", "file"] {
            if fs::symlink_metadata(own.join(other)).unwrap().is_dir() {
                renameat_with(
                    CWD,
                    own.join("new"),
                    CWD,
                    own.join(other),
                    RenameFlags::EXCHANGE,
                )
                .unwrap();
            }
        }
    }
    answered += siege.world.drain(&mut home).len();
    assert_eq!(answered, sent, "every request is answered in the end");
    siege.stands(home);
}
