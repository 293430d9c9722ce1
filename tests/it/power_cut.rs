//! The power is cut while the program works: homes are on an ext4 image of their own, which loses
//! everything that its journal has not committed (`EXT4_IOC_SHUTDOWN`). Needs root, loop devices,
//! `mkfs.ext4` and Python.
//!
//! `cargo test` makes a few cuts. For more, or for the same again: `SPOOLGATE_CUTS=200
//! SPOOLGATE_SEED=1 cargo test --release --test it power_cut:: -- --nocapture`

mod image;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGBUS;

use crate::kit::prepared::{Base, copy, edit, flat};
use crate::kit::process::Running;
use crate::kit::spools::{Dropped, Ended, Settled, answers_in, check_now, check_settled};
use crate::kit::{Dice, PROGRAM, decisions, setting, show, succeed};
use image::{Cut, Disk};

/// A run that takes longer hangs.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The results of the cuts.
#[derive(Debug, Default)]
struct Tally {
    cuts: u64,
    /// Cuts during the recovery from another cut.
    in_recovery: u64,
    /// Cuts after which the program had work left.
    in_work: u64,
    /// Answers that clients had read before a cut.
    seen: usize,
    /// Answers that were empty or incomplete after a cut, and were completed.
    mended: u64,
    /// Answers of sealed lines that were gone after a cut, and were written again.
    missing: u64,
    /// Torn batches.
    torn: usize,
    /// Indexes that had to be rebuilt.
    indexes: u64,
    decisions: usize,
    /// How runs ended that met the cut.
    ends: BTreeMap<String, u64>,
}

fn start(home: &Path, beside: &Path, name: &str, args: &[&str]) -> Running {
    let out = File::options()
        .create(true)
        .append(true)
        .open(beside.join("stdout"))
        .unwrap();
    let err = File::create(beside.join(name)).unwrap();
    let mut command = Command::new(PROGRAM);
    command
        .arg("--home")
        .arg(home)
        .args(["--format", "json"])
        .args(args);
    command.stdin(Stdio::null()).stdout(out).stderr(err);
    Running::start(command)
}

/// Waits until the process ends by itself. `None` if it was still running after `limit` and was
/// killed.
fn end(running: &mut Running, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if let Some(status) = running.0.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    None
}

/// One home and its clients.
struct Trial<'a> {
    base: &'a Base,
    disk: Disk,
    /// Holds the output of the program.
    beside: PathBuf,
    options: &'static str,
    dice: Dice,
    dropped: Mutex<Vec<Dropped>>,
    /// Answers that clients have read.
    seen: Mutex<BTreeSet<Vec<u8>>>,
    seen_count: AtomicUsize,
    /// Key files that a command has reported.
    keys_told: Mutex<Vec<PathBuf>>,
}

/// What the program does when the power is cut.
#[derive(Clone, Copy, Debug)]
enum Work {
    Run,
    Watch,
    Commands,
}

impl Trial<'_> {
    fn home(&self) -> PathBuf {
        self.disk.path().join("home")
    }

    /// Drops files that are durable before anything begins.
    fn fill(&mut self, n: u64) {
        let home = self.home();
        let mut files = self.base.mixed(self.dice.roll());
        for i in 0..n {
            let (action, payload) = match self.dice.below(4) {
                0 => ("orders.list", "{}"),
                1 => ("market.get", r#"{"symbol":"BTC-USD"}"#),
                2 => ("no.such_action", "{}"),
                _ => ("portfolio.get", "{}"),
            };
            files.push(self.base.signed(&format!("q{i}"), action, payload));
        }
        files.iter().for_each(|file| file.drop_into(&home));
        self.dropped.lock().unwrap().extend(files);
        if self.dice.below(3) == 0 {
            // A rulebook that is new to the gate.
            let note = format!("# {}\n", self.dice.roll());
            edit(&home.join("rules/safety.yaml"), |text| {
                format!("{text}{note}")
            });
        }
        rustix::fs::syncfs(File::open(&home).unwrap()).unwrap();
    }

    /// A client that looks for answers and remembers what it could read.
    fn observe(&self, stop: &AtomicBool) {
        let out = self.home().join("spool/out");
        let folders = [out.clone(), out.join("own-bot")];
        let mut known = BTreeSet::new();
        while !stop.load(Ordering::Relaxed) {
            for folder in &folders {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    let path = entry.path();
                    if known.contains(&path) || entry.file_name().to_string_lossy().starts_with('.')
                    {
                        continue;
                    }
                    let Some(answer) = fs::read(&path)
                        .ok()
                        .and_then(|bytes| answers_in(&bytes).pop())
                    else {
                        continue;
                    };
                    known.insert(path);
                    self.seen.lock().unwrap().insert(answer);
                    self.seen_count.fetch_add(1, Ordering::Relaxed);
                }
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// A client that drops files while the gate works, each of them durable once it is in.
    fn drop_more(&self, stop: &AtomicBool, from: u64) {
        let folder = self.home().join("spool/in");
        for n in from.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut file = self.base.signed(&format!("late{n}"), "portfolio.get", "{}");
            file.is_durable = false;
            let hidden = folder.join(format!(".late{n}.json"));
            self.dropped.lock().unwrap().push(file.clone());
            let written = fs::write(&hidden, &file.sent.bytes)
                .and_then(|()| File::open(&hidden)?.sync_all())
                .and_then(|()| fs::rename(&hidden, folder.join(&file.sent.name)))
                .and_then(|()| File::open(&folder)?.sync_all());
            if written.is_err() {
                break;
            }
            self.dropped.lock().unwrap().last_mut().unwrap().is_durable = true;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Runs commands one after the other, until the disk is gone.
    fn give_commands(&self, stop: &AtomicBool, round: u64) -> Vec<String> {
        let mut ends = Vec::new();
        for n in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let request = self.beside.join("r.json");
            let name = format!("h{round}-{n}");
            fs::write(&request, self.base.request(&name, "portfolio.get", "{}")).unwrap();
            let (bars, key) = (
                self.beside.join("bars.csv"),
                self.disk.path().join(format!("{name}.key")),
            );
            let rows = format!(
                "timestamp,open,high,low,close,volume\n1700000000000,6780,6790,6730,{},2\n",
                6740 + n
            );
            fs::write(&bars, rows).unwrap();
            let args: Vec<&str> = match n % 6 {
                0 | 3 => vec!["handle", request.to_str().unwrap()],
                1 => vec![
                    "market",
                    "import",
                    bars.to_str().unwrap(),
                    "--symbol",
                    "BTC-USD",
                    "--interval",
                    "1m",
                    "--end-now",
                ],
                4 => vec!["submit", request.to_str().unwrap()],
                2 => vec!["keys", "add", "prices", "--out", key.to_str().unwrap()],
                _ => vec!["halt", "set", "--reason", "a doubt"],
            };
            let mut running = start(&self.home(), &self.beside, "stderr", &args);
            let status = end(&mut running, TIME_LIMIT);
            if args[0] == "submit" {
                let mut file = flat(&format!("{name}.json"), fs::read(&request).unwrap());
                file.is_durable = status.is_some_and(|status| status.success());
                self.dropped.lock().unwrap().push(file);
            }
            if status.is_some_and(|status| status.success()) && args[0] == "keys" {
                // The key file that the command reported exists.
                self.keys_told.lock().unwrap().push(key);
            } else if !status.is_some_and(|status| status.success()) {
                ends.push(self.ended(args[0], status));
            }
        }
        ends
    }

    /// Checks how a run that met the cut ended. It may notice the cut, or be killed; it must not
    /// panic, hang or report a damaged ledger because the disk is gone.
    fn ended(&self, what: &str, status: Option<ExitStatus>) -> String {
        let said = fs::read_to_string(self.beside.join("stderr")).unwrap();
        match status.map(|status| (status.code(), status.signal())) {
            None => format!("{what}: killed"),
            Some((Some(code), _)) if code == 0 || code == 6 => format!("{what}: exit {code}"),
            // SQLite maps a file beside the index: if the disk no longer gives a page of it, that
            // is a signal, not an error.
            Some((None, Some(SIGBUS))) => format!("{what}: SIGBUS"),
            other => panic!("{what} ended with {other:?} when its disk was gone: {said}"),
        }
    }
}

impl<'a> Trial<'a> {
    fn new(base: &'a Base, template: &Disk, folder: &Path, seed: u64) -> Trial<'a> {
        let mut dice = Dice::new(seed);
        // What may be lost depends on when the file system writes data, and when names.
        let all = [
            "data=ordered",
            "data=writeback",
            "noauto_da_alloc",
            "nodelalloc",
            "commit=1",
        ];
        let options = all[usize::try_from(dice.below(5)).unwrap()];
        let mut disk = template.copy_to(folder);
        disk.mount(options).unwrap();
        let trial = Trial {
            base,
            disk,
            beside: folder.to_owned(),
            options,
            dice,
            dropped: Mutex::new(base.dropped.clone()),
            seen: Mutex::default(),
            seen_count: AtomicUsize::new(0),
            keys_told: Mutex::default(),
        };
        // Its earlier answers were read long ago.
        File::create(trial.beside.join("stdout")).unwrap();
        trial
    }

    /// Cuts the power while `work` is done, and checks what is left.
    fn cut_during(&mut self, work: Work, round: u64, tally: &mut Tally) -> Result<(), String> {
        let cut = if self.dice.below(4) == 0 {
            Cut::NamesSurvive
        } else {
            Cut::Plain
        };
        let window = if matches!(work, Work::Commands) {
            250_000
        } else {
            90_000
        };
        let delay = Duration::from_micros(self.dice.below(window));
        let is_after_an_answer = self.dice.below(2) == 0;
        let answers = usize::try_from(self.dice.below(30)).unwrap() + 1;
        let little = Duration::from_micros(self.dice.below(3000));
        let switch = self.disk.switch(cut);
        let stop = AtomicBool::new(false);
        let was_seen = self.seen_count.load(Ordering::Relaxed);
        let this = &*self;
        let ends = std::thread::scope(|scope| {
            scope.spawn(|| this.observe(&stop));
            let args: &[&str] = if matches!(work, Work::Watch) {
                &["watch"]
            } else {
                &["run", "--until-idle"]
            };
            let commands = match work {
                Work::Commands => Some(scope.spawn(|| this.give_commands(&stop, round))),
                Work::Watch => {
                    scope.spawn(|| this.drop_more(&stop, round * 10_000));
                    None
                }
                Work::Run => None,
            };
            let mut running = commands
                .is_none()
                .then(|| start(&this.home(), &this.beside, "stderr", args));
            let began = Instant::now();
            if is_after_an_answer && commands.is_none() {
                let wanted = was_seen + answers;
                while this.seen_count.load(Ordering::Relaxed) < wanted
                    && began.elapsed() < delay * 2
                {
                    std::thread::sleep(Duration::from_micros(100));
                }
                std::thread::sleep(little);
            } else {
                std::thread::sleep(delay);
            }
            let in_work = running
                .as_mut()
                .is_none_or(|running| running.0.try_wait().unwrap().is_none());
            switch.cut();
            stop.store(true, Ordering::Relaxed);
            tally.in_work += u64::from(in_work);
            match (&mut running, commands) {
                (Some(running), _) => {
                    // An idle watcher need not notice.
                    let is_watch = matches!(work, Work::Watch);
                    let limit = if is_watch {
                        Duration::from_millis(300)
                    } else {
                        TIME_LIMIT
                    };
                    let status = end(running, limit);
                    assert!(
                        is_watch || status.is_some(),
                        "a run hangs when its disk is gone"
                    );
                    vec![this.ended(args[0], status)]
                }
                (None, commands) => commands
                    .map(|commands| commands.join().unwrap())
                    .unwrap_or_default(),
            }
        });
        for end in ends {
            *tally.ends.entry(end).or_default() += 1;
        }
        tally.cuts += 1;
        self.read_what_was_printed();
        self.disk.unmount();
        self.disk.mount(self.options).unwrap();
        self.look(tally)
    }

    fn read_what_was_printed(&self) {
        let printed = answers_in(&fs::read(self.beside.join("stdout")).unwrap());
        self.seen.lock().unwrap().extend(printed);
    }

    /// Checks what holds right after a cut.
    fn look(&self, tally: &mut Tally) -> Result<(), String> {
        let home = self.home();
        let seen: Vec<Vec<u8>> = self.seen.lock().unwrap().iter().cloned().collect();
        check_now(&home, &self.dropped.lock().unwrap(), &seen, Ended::PowerCut)?;
        let newest: BTreeMap<String, u64> = decisions(&home)?
            .into_iter()
            .map(|(seq, decision)| (decision.answer, seq))
            .collect();
        for answer in newest.keys().filter(|answer| !answer.starts_with("local/")) {
            match fs::read(home.join("spool").join(answer)) {
                Ok(bytes) if answers_in(&bytes).is_empty() => tally.mended += 1,
                Ok(_) => {}
                Err(_) => tally.missing += 1,
            }
        }
        for key in self.keys_told.lock().unwrap().iter() {
            let file =
                fs::read(key).map_err(|error| format!("key file {}: {error}", key.display()))?;
            let whole = serde_json::from_slice::<serde_json::Value>(&file).is_ok();
            if !whole {
                return Err(format!("key file {} is not whole", key.display()));
            }
        }
        Ok(())
    }

    /// Runs the program to clean up, and checks the invariants afterwards.
    fn settle(&self, tally: &mut Tally) -> Result<Settled, String> {
        let home = self.home();
        let done = Command::new(PROGRAM)
            .arg("--home")
            .arg(&home)
            .args(["--format", "json", "run", "--until-idle"])
            .output()
            .unwrap();
        if !done.status.success() {
            return Err(format!("the run after it: {}", show(&done)));
        }
        tally.indexes += u64::from(
            String::from_utf8_lossy(&done.stderr).contains("state.db was damaged, or named"),
        );
        self.seen.lock().unwrap().extend(answers_in(&done.stdout));
        let seen: Vec<Vec<u8>> = self.seen.lock().unwrap().iter().cloned().collect();
        let settled = check_settled(&home, &self.dropped.lock().unwrap(), &seen)?;
        tally.seen += seen.len();
        tally.torn += settled.torn;
        tally.decisions += settled.decisions;
        Ok(settled)
    }
}

/// Cuts once, and perhaps again during the recovery from the first cut, and checks everything after
/// each.
fn one(
    base: &Base,
    template: &Disk,
    folder: &Path,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut trial = Trial::new(base, template, folder, seed);
    let files = trial.dice.below(120);
    trial.fill(files);
    let work = match trial.dice.below(6) {
        0..3 => Work::Run,
        3..5 => Work::Watch,
        _ => Work::Commands,
    };
    let context = |trial: &Trial<'_>, why: String| format!("{work:?}, {}: {why}", trial.options);
    trial
        .cut_during(work, 0, tally)
        .map_err(|why| context(&trial, why))?;
    for round in 1..3 {
        if trial.dice.below(3) == 0 {
            trial
                .cut_during(Work::Run, round, tally)
                .map_err(|why| context(&trial, format!("again: {why}")))?;
            tally.in_recovery += 1;
        }
    }
    trial
        .settle(tally)
        .map_err(|why| context(&trial, format!("at the end: {why}")))?;
    Ok(())
}

#[test]
fn the_power_goes() {
    let cuts = setting("SPOOLGATE_CUTS", 10);
    let seed = setting("SPOOLGATE_SEED", 10);
    let shelf = crate::kit::folder();
    let mut template = match Disk::format(shelf.path()) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let base = Base::new();
    copy(&base.home(), &template.path().join("home"));
    template.unmount();
    let began = Instant::now();
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for n in 0.. {
        if tally.cuts >= cuts {
            break;
        }
        let folder = shelf.path().join(format!("cut{n}"));
        fs::create_dir(&folder).unwrap();
        if let Err(why) = one(&base, &template, &folder, seed + n, &mut tally) {
            println!("FAILED SPOOLGATE_SEED={}, {why}", seed + n);
            failures.push(format!("SPOOLGATE_SEED={}, {why}", seed + n));
        }
        fs::remove_dir_all(&folder).unwrap();
    }
    println!(
        "SPOOLGATE_SEED={seed}, {tally:#?}, {:.0} s",
        began.elapsed().as_secs_f32()
    );
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(tally.in_work * 3 >= tally.cuts, "too few cuts met any work");
}

// `init` reported that a home was made while its rule files were not on disk: after a power cut
// they were empty.
#[test]
fn a_new_home_survives_a_power_cut() {
    let shelf = crate::kit::folder();
    let mut disk = match Disk::format(shelf.path()) {
        Ok(disk) => disk,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    let home = disk.path().join("home");
    let switch = disk.switch(Cut::Plain);
    succeed(&home, &["init", home.to_str().unwrap()]);
    switch.cut();
    disk.unmount();
    disk.mount("defaults").unwrap();
    for file in [
        "rules/safety.yaml",
        "rules/principals.yaml",
        "proposals/theses/btc-dip-long.md",
    ] {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let (there, ours) = (
            fs::read_to_string(home.join(file)).unwrap(),
            fs::read_to_string(ours).unwrap(),
        );
        // The first line names the schema, which has another path in a home.
        let body = |text: &str| {
            text.lines()
                .filter(|line| !line.contains("$schema="))
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert!(
            body(&there) == body(&ours),
            "{file} is not what `init` wrote"
        );
    }
    succeed(&home, &["run", "--until-idle"]);
    succeed(&home, &["halt", "set", "--reason", "a doubt"]);
    succeed(&home, &["audit", "verify"]);
}
