//! `spoolgate rules review`: judges the change of a whole rulebook, between two commits or two
//! folders, and tells whose approval it needs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use spoolgate_git::{GitError, Repository};
use spoolgate_host::clock::{Clock, SystemClock};
use spoolgate_host::rule_folder;
use spoolgate_rules::lint::{is_rule, is_set};
use spoolgate_rules::proof::{STEPS_MAX, Witness};
use spoolgate_rules::review::statement::{
    self, APPROVALS, Found, Need, Place, STATEMENT, Statement, Weighed,
};
use spoolgate_rules::review::{self, Judgement, Move, Verdict, Way};
use spoolgate_rules::{Bundle, Rulebook};
use spoolgate_wire::code::{Code, Exit};

use super::folder::Folder;
use super::shown::{self, WitnessView};
use super::{facts, witness};
use crate::cli::output::Output;

/// Judge the change of a rulebook: does it only tighten, and who has to approve it?
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  spoolgate rules review origin/main HEAD\n  spoolgate rules review \
        origin/main HEAD --statement change.json\n  spoolgate rules review main-checkout . --witness \
        w.json; spoolgate handle --dry-run w.json\n  spoolgate --format json rules review old new | jq -r \
        .verdict\n\nEvery file of the rulebook is judged by the bytes that the commits hold. A \
        change that is not proved to tighten needs\nthe signatures that rules/approval.yaml of BASE \
        demands, by keys in rules/approvers of BASE.\n--statement writes what approvers sign, with \
        `ssh-keygen -Y sign -n spoolgate`; docs/rules.md says where it goes.\nExit codes: 0 the same, \
        tighter, or approved; 1 HEAD does not contain BASE; 2 something cannot be read: a rule \
        file,\na signature, a commit; 3 approvals are missing."
)]
pub(crate) struct Args {
    /// The rules in force: a commit, or a home, or a folder of rules.
    base: PathBuf,
    /// The changed rules, in the same form.
    head: PathBuf,
    /// The repository of the commits; default: the current folder.
    #[arg(long, value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// Where to write the statement that approvers sign.
    #[arg(long, value_name = "FILE")]
    statement: Option<PathBuf>,
    /// Where to write a request that the two sides treat differently, unsigned.
    #[arg(long, value_name = "FILE")]
    witness: Option<PathBuf>,
}

/// The review as JSON output.
#[derive(Serialize)]
struct ReviewView {
    verdict: Verdict,
    is_approved: bool,
    moves: Vec<Move>,
    rule_files: Vec<String>,
    loosens: Option<WitnessView>,
    tightens: Option<WitnessView>,
    #[serde(skip)]
    rules_verdict: Verdict,
    steps: u64,
    areas: Vec<Need>,
    statements: Vec<Weighed>,
}

/// One side of a change.
struct Side {
    book: Rulebook,
    /// Files besides the rulebook that may need approval, by path.
    others: BTreeMap<String, Vec<u8>>,
    /// Files below [`statement::APPROVALS`], by path.
    approvals: BTreeMap<String, Vec<u8>>,
}

/// Both sides, and what a statement says of the repository.
struct Change {
    old: Side,
    new: Side,
    roots: BTreeSet<String>,
    rules_base: Option<String>,
    /// SHA-256 of the statements of `new` that BASE, or a commit before it, has: they approved a
    /// change that was merged, and must not approve it again after a revert.
    used: BTreeSet<String>,
}

/// Runs the command.
pub(super) fn run(home: &Path, args: &Args, output: &Output) -> Result<Exit> {
    let change = if args.base.is_dir() && args.head.is_dir() {
        check_folders(args)?;
        of_folders(home, &args.base, &args.head)?
    } else {
        match of_commits(args)? {
            Some(change) => change,
            None => {
                let (base, head) = (args.base.display(), args.head.display());
                output.remark(&format!(
                    "`{head}` does not contain `{base}`: merge `{base}` first, or review the merge \
                        commit"
                ));
                return Ok(Exit::Refused);
            }
        }
    };
    let (old, new) = (&change.old.book, &change.new.book);
    let judgement = review::judge(old, new, STEPS_MAX);
    let others = statement::digests(&change.old.others, &change.new.others);
    let (own, statements, areas) = weighed(&change, &judgement, &others.into_keys().collect())?;
    let prices = shown::prices(home);
    let (before, after) = (&old.ruleset, &new.ruleset);
    let plainer = |found: &Option<Witness>| {
        let found = found.as_ref();
        found.map(|found| witness::plainer(new, before, after, found))
    };
    let (loosens, tightens) = (
        plainer(&judgement.rules.loosens),
        plainer(&judgement.rules.tightens),
    );
    let view_of = |witness: &Option<Witness>| {
        let witness = witness.as_ref();
        witness.map(|witness| shown::view(new, &prices, before, after, witness))
    };
    let view = ReviewView {
        verdict: judgement.verdict,
        is_approved: areas.iter().all(Need::is_met),
        moves: judgement.moves,
        rule_files: judgement.rule_files,
        loosens: view_of(&loosens),
        tightens: view_of(&tightens),
        rules_verdict: judgement.rules.direction.into(),
        steps: judgement.rules.steps,
        areas,
        statements,
    };
    // Nothing that is written or returned may depend on who reads the output.
    if let Some(path) = &args.witness {
        let witness = view.loosens.as_ref().or(view.tightens.as_ref());
        shown::write_witness(path, witness, output)?;
    }
    if let Some(path) = &args.statement {
        std::fs::write(path, own.to_text())
            .with_context(|| format!("--statement `{}`", path.display()))?;
    }
    let exit = output.decided(match view.is_approved {
        true => Exit::Success,
        false => Exit::NeedsApproval,
    });
    match output.is_json() {
        true => output.json(&view)?,
        false => print(&view, [&loosens, &tightens], output)?,
    }
    Ok(exit)
}

/// Returns what a statement of the change says, the statements beside the changed rules, and the
/// areas that need approvals, as far as the best of these statements has them.
fn weighed(
    change: &Change,
    judgement: &Judgement,
    others: &BTreeSet<String>,
) -> Result<(Statement, Vec<Weighed>, Vec<Need>)> {
    let (old, new) = (&change.old, &change.new);
    let mut files = statement::digests(&old.book.files.files, &new.book.files.files);
    files.extend(statement::digests(&old.others, &new.others));
    let mut own = Statement {
        roots: change.roots.clone(),
        rules_base: change.rules_base.clone(),
        from: old.book.hash.clone(),
        to: new.book.hash.clone(),
        verdict: judgement.verdict,
        areas: Vec::new(),
        files,
        nonce: spoolgate_client::random_name()?,
    };
    let none = statement::needs(&old.book.approval, judgement, others, &[]);
    own.areas = none.iter().map(|need| need.area.clone()).collect();
    let judged = statement::Change {
        old: &old.book,
        judgement,
        others,
        own: &own,
        place: Place::Repository,
    };
    let now = SystemClock::default().now();
    let found = statement::found(&new.approvals);
    let weigh = |found| {
        let mut weighed = judged.weigh(found, now);
        if change.used.contains(&weighed.folder) {
            let code = Code::StatementUsed;
            weighed.nonce = None;
            weighed.needs.clone_from(&none);
            weighed.faults = vec![format!("{code}: BASE or a commit before it has it")];
        }
        weighed
    };
    let statements: Vec<Weighed> = found.iter().map(weigh).collect();
    let met = |weighed: &&Weighed| weighed.needs.iter().filter(|need| need.is_met()).count();
    let best = statements
        .iter()
        .filter(|it| it.nonce.is_some())
        .max_by_key(met);
    let areas = best.map_or(none, |best| best.needs.clone());
    Ok((own, statements, areas))
}

/// Checks that neither folder could be meant as a commit: the author of the reviewed change chooses
/// which folders a checkout has.
fn check_folders(args: &Args) -> Result<()> {
    let Ok(mut repo) = Repository::open(&args.repo) else {
        return Ok(());
    };
    for side in [&args.base, &args.head] {
        let shown = side.display();
        let is_path = side.is_absolute() || side.starts_with(".") || side.starts_with("..");
        let is_commit = |error: GitError| !matches!(error, GitError::Revision(_));
        let name = side.to_str().filter(|_| !is_path);
        if name.is_some_and(|name| repo.resolve(name).map_or_else(is_commit, |_| true)) {
            bail!("`{shown}` is a folder and a commit; write `./{shown}` for the folder");
        }
    }
    Ok(())
}

/// Reads both commits; `None` if the second does not contain the first.
fn of_commits(args: &Args) -> Result<Option<Change>> {
    let mut repo = Repository::open(&args.repo).map_err(|error| {
        let commit = if args.base.is_dir() {
            &args.head
        } else {
            &args.base
        };
        let commit = commit.display();
        anyhow!("{error}; `{commit}` is no folder, so it is read as a commit")
    })?;
    let mut commit = |revision: &Path| {
        let text = revision.to_str().context("a revision is not UTF-8")?;
        anyhow::Ok(repo.resolve(text)?)
    };
    let (base, head) = (commit(&args.base)?, commit(&args.head)?);
    if !repo.is_ancestor(&base, &head)? {
        return Ok(None);
    }
    let judged: Vec<&str> = rule_folder::roots().collect();
    let bundle = rule_folder::bundle_of(&repo.files(&base, &judged)?)?;
    let old = Rulebook::compile(&bundle)?;
    let named: Vec<String> = old
        .approval
        .areas()
        .flat_map(|area| area.files.clone())
        .collect();
    let named: Vec<&str> = named
        .iter()
        .map(String::as_str)
        .filter(|it| !it.is_empty())
        .collect();
    let bundle = rule_folder::bundle_of(&repo.files(&head, &judged)?)?;
    let new = Rulebook::compile_to_apply(&bundle)?;
    let mut side = |commit, book: Rulebook| -> Result<Side> {
        let mut others = repo.files(commit, &named)?;
        others.retain(|path, _| !book.files.files.contains_key(path));
        let approvals = repo.files(commit, &[APPROVALS])?;
        Ok(Side {
            book,
            others,
            approvals,
        })
    };
    let (old, new) = (side(&base, old)?, side(&head, new)?);
    let roots = repo.roots(&head)?;
    let rules_base = repo.newest_change(&base, &judged)?;
    let found = statement::found(&new.approvals);
    let path = |found: &Found<'_>| format!("{APPROVALS}/{}/{STATEMENT}", found.folder);
    let paths: Vec<String> = found.iter().map(path).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let used = repo.ever_at(&base, &paths)?.into_iter();
    let used = used.filter_map(|path| path.rsplit('/').nth(1).map(str::to_owned));
    let used = used.collect();
    Ok(Some(Change {
        old,
        new,
        roots: roots.iter().map(ToString::to_string).collect(),
        rules_base: rules_base.map(|id| id.to_string()),
        used,
    }))
}

fn of_folders(home: &Path, old: &Path, new: &Path) -> Result<Change> {
    let read = |dir: &Path| -> Result<(Bundle, Folder)> {
        let folder = Folder::read(home, Some(&dir.to_owned()))?;
        folder.sound_rules()?;
        Ok((folder.bundle()?, folder))
    };
    let [mut old, mut new] = [read(old)?, read(new)?];
    // Policies that are meant to be copied have no limits; they are compared in equal homes.
    let limits = "rules/safety.yaml";
    if [&old, &new]
        .iter()
        .all(|(bundle, _)| !bundle.files.contains_key(limits))
    {
        let shipped = facts::shipped()?.files;
        let rest = shipped
            .files
            .iter()
            .filter(|(path, _)| !is_rule(path) && !is_set(path));
        for (path, text) in rest {
            if [&old, &new]
                .iter()
                .all(|(bundle, _)| !bundle.files.contains_key(path))
            {
                for (bundle, _) in [&mut old, &mut new] {
                    bundle.files.insert(path.clone(), text.clone());
                }
            }
        }
    }
    let old_book = Rulebook::compile(&old.0).map_err(|fault| old.1.shown(fault))?;
    let new_book = Rulebook::compile_to_apply(&new.0).map_err(|fault| new.1.shown(fault))?;
    let side = |book, folder: &Folder| -> Result<Side> {
        Ok(Side {
            book,
            others: BTreeMap::new(),
            approvals: folder.approvals()?,
        })
    };
    Ok(Change {
        old: side(old_book, &old.1)?,
        new: side(new_book, &new.1)?,
        roots: BTreeSet::new(),
        rules_base: None,
        used: BTreeSet::new(),
    })
}

fn print(
    view: &ReviewView,
    [loosens, tightens]: [&Option<Witness>; 2],
    output: &Output,
) -> Result<()> {
    let approved = match (view.areas.is_empty(), view.is_approved) {
        (true, _) => "",
        (false, true) => ", approved",
        (false, false) => ", not approved",
    };
    output.line(&format!("{}{approved}", view.verdict.as_str()))?;
    let way = |way: Way| match way {
        Way::Tighter => "tighter",
        Way::Open => "for people",
        Way::Looser => "looser",
    };
    let moves = view
        .moves
        .iter()
        .map(|it| vec![way(it.way).to_owned(), it.file.clone(), it.what.clone()]);
    let ruled = view
        .rule_files
        .iter()
        .map(|file| vec!["changed".to_owned(), file.clone(), String::new()]);
    let rows: Vec<Vec<String>> = moves.chain(ruled).collect();
    if !rows.is_empty() {
        output.line("")?;
        output.table(&["change", "file", "what"], &[], &rows)?;
    }
    let told = [
        ("looser", loosens, &view.loosens),
        ("tighter", tightens, &view.tightens),
    ];
    for (how, witness, view) in told {
        if let (Some(witness), Some(view)) = (witness, view) {
            shown::print_witness(how, witness, view, output)?;
        }
    }
    if view.rules_verdict == Verdict::Unproved {
        output.line(&format!(
            "\nof the rules nothing is proved after {} steps: a person has to decide",
            view.steps
        ))?;
    }
    if !view.areas.is_empty() {
        output.line("")?;
    }
    for need in &view.areas {
        let who: Vec<String> = need
            .have
            .iter()
            .map(|(who, key)| format!("{who}, key {key}"))
            .collect();
        let who = match who.as_slice() {
            [] => String::new(),
            who => format!(" ({})", who.join("; ")),
        };
        let (area, need, have) = (&need.area, need.need, need.have.len());
        output.line(&format!("area {area} needs {need}, has {have}{who}"))?;
    }
    for statement in &view.statements {
        for fault in &statement.faults {
            output.remark(&format!(
                "{APPROVALS}/{} does not count: {fault}",
                statement.folder
            ));
        }
    }
    Ok(())
}
