//! Homes prepared once, and commands that run over copies of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::kit::prepared::{Base, copy, flat, order};
use crate::kit::spools::Dropped;
use crate::kit::{PROGRAM, command, names, segments, show};
use crate::syscalls::strace::Point;

/// A home with files, and a command over it.
pub(super) struct Script {
    /// The name, for messages.
    pub name: String,
    dir: TempDir,
    /// The arguments.
    pub args: Vec<String>,
    /// What was dropped into its spools since it was made.
    pub dropped: Vec<Dropped>,
    /// Whether a person would simply repeat it after a failure: a command, not a run.
    pub is_repeated: bool,
    /// The file, from the folder of the run, that a watcher is stopped after, by SIGTERM. `None` if
    /// the command ends by itself.
    pub stop_after: Option<&'static str>,
}

impl Script {
    fn new(base: &Base, name: String, args: &[&str]) -> Script {
        let dir = crate::kit::folder();
        copy(&base.home(), &dir.path().join("home"));
        let args = ["--home", "home", "--format", "json"].iter().chain(args);
        let args = args.map(|arg| (*arg).to_owned()).collect();
        Script {
            name,
            dir,
            args,
            dropped: base.dropped.clone(),
            is_repeated: false,
            stop_after: None,
        }
    }

    /// A command over a copy of the folder `golden`, which has a home.
    pub(super) fn over(golden: &Path, args: &[&str]) -> Script {
        let dir = crate::kit::folder();
        copy(&golden.join("home"), &dir.path().join("home"));
        let all = ["--home", "home", "--format", "json"].iter().chain(args);
        Script {
            name: args.join(" "),
            dir,
            args: all.map(|arg| (*arg).to_owned()).collect(),
            dropped: Vec::new(),
            is_repeated: false,
            stop_after: None,
        }
    }

    /// A run over mixed files.
    pub(super) fn run(base: &Base, seed: u64) -> Script {
        let mut script = Script::new(
            base,
            format!("run over files {seed}"),
            &["run", "--until-idle"],
        );
        script.drop_in(base.mixed(seed));
        script
    }

    /// One request decided at once.
    pub(super) fn handle(base: &Base) -> Script {
        let mut script = Script::new(base, "handle".to_owned(), &["handle", "r.json"]);
        let request = base.request(
            "handled",
            "order.submit",
            &order("0.0024", "btc-range-long"),
        );
        fs::write(script.dir.path().join("r.json"), request).unwrap();
        script.is_repeated = true;
        script
    }

    /// A run over a home whose last run died while it published a batch: half of the answers are
    /// there, and the claims are decided.
    pub(super) fn run_after_publishing(base: &Base, seed: u64) -> Script {
        let mut script = Script::run(base, seed);
        script.name = format!("run after a run over files {seed} died publishing");
        // The renames of the answers come first, the rename of the checkpoint last.
        script.die_at(&Point::kill("renameat", 5));
        let begun = names(&script.home().join("spool/work")).len();
        let there = names(&script.home().join("spool/out")).len();
        assert!(begun > 5 && there > 2, "{begun} claims, {there} answers");
        script
    }

    /// A run over a home whose last runs died in a batch: a torn tail, claims in their first and
    /// second attempt, one of which does not parse, and a new file.
    pub(super) fn run_after_a_torn_batch(base: &Base, seed: u64) -> Script {
        let mut script = Script::run(base, seed);
        script.name = format!("run after a run over files {seed} left a torn batch");
        script.drop_in(vec![base.signed("zz-left", "portfolio.get", "{}")]);
        script.die_at(&Point::kill("fdatasync", 1));
        let home = script.home();
        let log = segments(&home).pop().unwrap();
        let file = fs::OpenOptions::new().write(true).open(&log).unwrap();
        file.set_len(fs::metadata(&log).unwrap().len() - 150)
            .unwrap();
        let work = home.join("spool/work");
        let claims = names(&work);
        assert!(claims.len() > 7, "{claims:?}");
        for claim in claims
            .iter()
            .filter(|name| name.to_string_lossy().ends_with("zz-left.json"))
        {
            let again = claim.to_string_lossy().replacen("1~", "2~", 1);
            fs::rename(work.join(claim), work.join(again)).unwrap();
        }
        let torn = flat("torn.json", br#"{"id":"torn","#.to_vec());
        let number = claims
            .first()
            .unwrap()
            .to_string_lossy()
            .split('~')
            .nth(1)
            .unwrap()
            .to_owned();
        fs::write(
            work.join(format!("1~{number}~flat~torn.json")),
            &torn.sent.bytes,
        )
        .unwrap();
        script.dropped.push(torn);
        fs::write(home.join("audit/.log-00000002.jsonl.tmp"), "{\"prev\":\"").unwrap();
        script.drop_in(vec![base.signed("zz-new", "orders.list", "{}")]);
        script
    }

    /// A one-shot that first has to clean up after such a run.
    pub(super) fn handle_after_a_torn_batch(base: &Base, seed: u64) -> Script {
        let mut script = Script::run_after_a_torn_batch(base, seed);
        script.name = "handle after a torn batch".to_owned();
        script.args.truncate(4);
        script.args.extend(["handle", "r.json"].map(str::to_owned));
        let request = base.request("handled", "orders.list", "{}");
        fs::write(script.dir.path().join("r.json"), request).unwrap();
        script.is_repeated = true;
        script
    }

    /// Market data, which goes through a blob.
    pub(super) fn import(base: &Base) -> Script {
        let args = [
            "market",
            "import",
            "bars.csv",
            "--symbol",
            "BTC-USD",
            "--interval",
            "1m",
            "--end-now",
        ];
        let mut script = Script::new(base, "market import".to_owned(), &args);
        let mut bars = "timestamp,open,high,low,close,volume\n".to_owned();
        for minute in 0..5 {
            bars.push_str(&format!(
                "{},6780,6790,6730,6785,2\n",
                1_700_000_000_000_u64 + minute * 60_000
            ));
        }
        fs::write(script.dir.path().join("bars.csv"), bars).unwrap();
        script.is_repeated = true;
        script
    }

    /// The agent's side. What is submitted again is another file.
    pub(super) fn submit(base: &Base) -> Script {
        let mut script = Script::new(base, "submit".to_owned(), &["submit", "r.json"]);
        let request = base.request("submitted", "portfolio.get", "{}");
        fs::write(script.dir.path().join("r.json"), &request).unwrap();
        for name in ["submitted.json", "submitted.1.json"] {
            let mut file = flat(name, request.clone());
            // A file that was not reported as submitted need not be there.
            file.is_durable = false;
            script.dropped.push(file);
        }
        script.is_repeated = true;
        script
    }

    /// A command of a person.
    pub(super) fn halt(base: &Base) -> Script {
        let mut script = Script::new(
            base,
            "halt set".to_owned(),
            &["halt", "set", "--reason", "a doubt"],
        );
        script.is_repeated = true;
        script
    }

    /// A key, which goes into the keyring and a file before it goes into the ledger.
    pub(super) fn keys_add(base: &Base) -> Script {
        let mut script = Script::new(
            base,
            "keys add".to_owned(),
            &["keys", "add", "prices", "--out", "p.key"],
        );
        script.is_repeated = true;
        script
    }

    /// A rebuild of the index.
    pub(super) fn rebuild(base: &Base) -> Script {
        let mut script = Script::new(base, "rebuild".to_owned(), &["rebuild"]);
        script.is_repeated = true;
        script
    }

    pub(super) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn drop_in(&mut self, files: Vec<Dropped>) {
        files.iter().for_each(|file| file.drop_into(&self.home()));
        self.dropped.extend(files);
    }

    /// Runs it here, to be killed.
    fn die_at(&self, point: &Point) {
        let done = Command::new("strace")
            .args(point.to_args())
            .args(["-o", "/dev/null", PROGRAM])
            .args(&self.args)
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(!done.status.success(), "{}", show(&done));
    }

    /// Copies home and files for one run.
    pub(super) fn copy_to(&self, to: &Path) {
        if to.exists() {
            fs::remove_dir_all(to).unwrap();
        }
        copy(self.dir.path(), to);
    }
}

/// Returns the command that cleans up the home in `dir` after whatever happened there.
pub(super) fn recover(dir: &Path) -> Command {
    let mut command = command(
        &dir.join("home"),
        &["--format", "json", "run", "--until-idle"],
    );
    command.current_dir(dir);
    command
}
