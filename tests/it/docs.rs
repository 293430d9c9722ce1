//! The documentation does what it says: every block of commands in README.md and docs/ is run,
//! every command named in running text exists, every link leads somewhere, and the book's table of
//! contents names every page.
//!
//! Blocks marked `sh` run, page by page, in one shell in a scratch checkout; `# exit 1` at the end
//! of a line is the expected exit code of its command. `<!-- setup` begins commands that readers do
//! not need to see. `sh,ignore` is not run: the sentence before it says why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::kit::venue::MockVenue;
use rustix::process::{Pid, Signal, kill_process_group};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const PROGRAM: &str = env!("CARGO_BIN_EXE_spoolgate");
/// The allowed languages of a fence.
const LANGUAGES: [&str; 13] = [
    "sh",
    "sh,ignore",
    "text",
    "json",
    "yaml",
    "toml",
    "sql",
    "rust",
    "python",
    "ini",
    "http",
    "mermaid",
    "console",
];
/// A paragraph must contain one of these words to explain why its commands are not run.
const REASONS: [&str; 5] = [
    "not run",
    "minutes",
    "needs",
    "waits for",
    "tests of these pages do not",
];
/// Other programs that pages use; if one is missing, the test reports that its page is skipped.
const TOOLS: [&str; 5] = ["python3", "jq", "git", "ssh-keygen", "sqlite3"];

/// Returns README.md and every page of the book, by path below the root.
fn pages() -> BTreeMap<String, String> {
    fn collect(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "md") {
                found.push(path);
            }
        }
    }
    let root = Path::new(ROOT);
    let mut found = vec![root.join("README.md"), root.join("examples/README.md")];
    collect(&root.join("docs"), &mut found);
    let named = |path: PathBuf| {
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        fs::read_to_string(&path).ok().map(|text| (name, text))
    };
    found.into_iter().filter_map(named).collect()
}

/// A fenced block or a hidden set-up.
struct Block {
    /// The number of its first line of content.
    line: usize,
    language: String,
    text: String,
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((at, line)) = lines.next() {
        let (language, end) = match (line.trim_start().strip_prefix("```"), line) {
            (Some(language), _) => (language.trim().to_owned(), "```"),
            (None, "<!-- setup") => ("setup".to_owned(), "-->"),
            _ => continue,
        };
        let mut text = String::new();
        loop {
            let (_, line) = lines
                .next()
                .unwrap_or_else(|| panic!("{page}:{at}: the block has no end"));
            if line.trim_start().starts_with(end) {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        blocks.push(Block {
            line: at + 1,
            language,
            text,
        });
    }
    blocks
}

/// Returns the commands of a page as one script. `None` if it has none.
fn script(page: &str, text: &str) -> Option<String> {
    let mut script = String::from(
        "set -uo pipefail\n__at=start\ntrap 'jobs -p | xargs -r kill 2>/dev/null || true' \
            EXIT\ntrap 'echo \"$__at: \\`$BASH_COMMAND\\` ended with $?\" >&2' ERR\nset -eE\n\
            __expect() { if [ \"$1\" != \"$2\" ]; then echo \"$3: exit code $2, the page says \
            $1\" >&2; exit 99; fi; }\n",
    );
    let mut runs = false;
    for block in blocks(page, text) {
        if block.language != "sh" && block.language != "setup" {
            continue;
        }
        runs |= block.language == "sh";
        writeln!(script, "__at='{page}:{}'", block.line).unwrap();
        for (at, line) in (block.line..).zip(block.text.lines()) {
            match line.rsplit_once("# exit ") {
                Some((command, said)) => {
                    let code: String = said.chars().take_while(char::is_ascii_digit).collect();
                    assert!(!code.is_empty(), "{page}:{at}: `# exit` names no code");
                    writeln!(script, "{} && __rc=0 || __rc=$?", command.trim_end()).unwrap();
                    writeln!(script, "__expect {code} $__rc '{page}:{at}'").unwrap();
                }
                None => writeln!(script, "{line}").unwrap(),
            }
        }
    }
    runs.then_some(script)
}

/// Makes a checkout to run a page in: links to what pages read, and programs under the names that
/// pages call.
fn checkout(dir: &Path) {
    for name in [
        "examples",
        "rules",
        "council",
        "proposals",
        "bridges",
        "docs",
        "tests",
        "Cargo.toml",
        "README.md",
    ] {
        symlink(Path::new(ROOT).join(name), dir.join(name)).unwrap();
    }
    let bin = dir.join("target/release");
    fs::create_dir_all(&bin).unwrap();
    symlink(PROGRAM, bin.join("spoolgate")).unwrap();
    // This test was built by cargo already, so `cargo build` and `cargo test` do nothing, and
    // `cargo run` runs this program.
    let cargo = "#!/bin/sh\ncase \"$1\" in\n  run) while [ \"$1\" != -- ]; do shift; done; shift; \
        exec spoolgate \"$@\" ;;\n  build|test|install) exit 0 ;;\n  *) echo \"cargo $1\" >&2; \
        exit 98 ;;\nesac\n";
    fs::write(bin.join("cargo"), cargo).unwrap();
    fs::set_permissions(bin.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_there(tool: &str) -> bool {
    let found = Command::new("sh")
        .args(["-c", &format!("command -v {tool}")])
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

/// Returns what went wrong on a page. `None` if the page does what it says.
fn run(page: &str, script: &str) -> Option<String> {
    let missing = TOOLS.iter().find(|tool| {
        let used = script
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .any(|word| word == **tool);
        used && !is_there(tool)
    });
    if let Some(tool) = missing {
        eprintln!("{page}: skipped, there is no {tool} on this machine");
        return None;
    }
    let uses_bridge = script.contains("spoolgate_bridge");
    if let Some(why) = MockVenue::missing().filter(|_| uses_bridge) {
        eprintln!("{page}: skipped, {why}");
        return None;
    }
    let scratch = crate::kit::folder();
    let dir = scratch.path().join("spoolgate");
    fs::create_dir(&dir).unwrap();
    checkout(&dir);
    let file = scratch.path().join("page.sh");
    fs::write(&file, script).unwrap();
    let path = format!(
        "{}:{}",
        dir.join("target/release").display(),
        std::env::var("PATH").unwrap()
    );
    let child = Command::new("bash")
        .arg(&file)
        .current_dir(&dir)
        .env("PATH", path)
        .env("HOME", scratch.path())
        .env("SPOOLGATE_REPO", ROOT)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // A page that hangs fails.
    let (ended, wait) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let hangs = wait
            .recv_timeout(std::time::Duration::from_secs(240))
            .is_err();
        // Watchers that the page has left behind keep its output open.
        let _ = kill_process_group(group, Signal::KILL);
        hangs
    });
    let waiter = std::thread::spawn(move || child.wait_with_output().unwrap());
    let done = waiter.join().unwrap();
    let _ = ended.send(());
    let hung = watchdog.join().unwrap();
    let told = format!(
        "{}\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    let tail: Vec<&str> = told.lines().rev().take(30).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    (hung || !done.status.success())
        .then(|| format!("{page}: {}\n{}", done.status, tail.join("\n")))
}

#[test]
fn every_command_of_every_page_does_what_the_page_says() {
    let only = std::env::var("SPOOLGATE_PAGE").ok();
    let scripts: Vec<(String, String)> = pages()
        .into_iter()
        .filter(|(page, _)| only.as_ref().is_none_or(|only| page.contains(only)))
        .filter_map(|(page, text)| script(&page, &text).map(|script| (page, script)))
        .collect();
    assert!(
        only.is_some() || scripts.len() > 5,
        "only {} pages have commands",
        scripts.len()
    );
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mut failed = Vec::new();
            while let Some((page, script)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                failed.extend(run(page, script));
            }
            failed
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_fence_names_its_language_and_every_block_that_is_not_run_says_why() {
    let mut faults = Vec::new();
    for (page, text) in pages() {
        let lines: Vec<&str> = text.lines().collect();
        for block in blocks(&page, &text)
            .into_iter()
            .filter(|block| block.language != "setup")
        {
            if !LANGUAGES.contains(&block.language.as_str()) {
                faults.push(format!(
                    "{page}:{}: the fence says `{}`",
                    block.line - 1,
                    block.language
                ));
            }
            // The paragraph before the fence.
            let above = lines[..block.line.saturating_sub(2)].iter().rev();
            let above = above
                .skip_while(|line| line.trim().is_empty())
                .take_while(|line| !line.is_empty());
            let before: Vec<&str> = above.copied().collect();
            let is_told = before
                .iter()
                .any(|line| REASONS.iter().any(|reason| line.contains(reason)));
            if block.language == "sh,ignore" && !is_told {
                faults.push(format!(
                    "{page}:{}: nothing says why this is not run",
                    block.line - 1
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns what `--help` of a command prints.
fn help(words: &[String], known: &mut BTreeMap<Vec<String>, Option<String>>) -> Option<String> {
    let ask = |words: &[String]| {
        let done = Command::new(PROGRAM)
            .args(words)
            .arg("--help")
            .output()
            .unwrap();
        done.status
            .success()
            .then(|| String::from_utf8(done.stdout).unwrap())
    };
    known
        .entry(words.to_vec())
        .or_insert_with(|| ask(words))
        .clone()
}

/// Returns what is wrong with one command line in running text.
fn fault_of(line: &str, known: &mut BTreeMap<Vec<String>, Option<String>>) -> Option<String> {
    let root = help(&[], known).unwrap();
    let commands = |help: &str| -> BTreeSet<String> {
        let listed = help.split("Commands:\n").nth(1).unwrap_or_default();
        let names = listed.lines().take_while(|line| line.starts_with("  "));
        names
            .filter_map(|line| line.split_whitespace().next())
            .map(str::to_owned)
            .collect()
    };
    let mut path: Vec<String> = Vec::new();
    let mut text = root.clone();
    let mut flags = Vec::new();
    let mut words = line.split_whitespace().skip(1).peekable();
    while let Some(word) = words.next() {
        if let Some(flag) = word.strip_prefix("--") {
            if flag.is_empty() || flag == "help" || flag == "version" {
                continue;
            }
            flags.push(flag.split(['=', '[']).next().unwrap().to_owned());
            if path.is_empty() {
                words.next();
            }
            continue;
        }
        let names = commands(&text);
        if names.is_empty() {
            continue;
        }
        // `audit archive|prune` names two commands of a group.
        for name in word.split('|') {
            if !names.contains(name) {
                let is_command = name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                return is_command.then(|| format!("there is no command `{name}` in `{line}`"));
            }
        }
        path.push(word.split('|').next().unwrap().to_owned());
        text = help(&path, known)?;
    }
    let is_known = |flag: &String| {
        let wanted = format!("--{flag}");
        [&text, &root].iter().any(|help| {
            help.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
                .any(|word| word == wanted)
        })
    };
    flags
        .iter()
        .find(|flag| !is_known(flag))
        .map(|flag| format!("`--{flag}` is no option in `{line}`"))
}

/// Returns paragraphs of running text, each with the line in which it begins. Code and links may
/// continue on the next line, but not in the next paragraph.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    let mut paragraph = String::new();
    let mut begins = 1;
    for (at, line) in (1..).zip(text.lines().chain([""])) {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || in_fence || line.trim().is_empty() {
            found.push((begins, std::mem::take(&mut paragraph)));
            begins = at + 1;
            in_fence ^= is_fence;
        } else {
            paragraph.push_str(line);
            paragraph.push('\n');
        }
    }
    found
}

/// Returns the text between backticks in running text, with the line in which it begins.
fn code_spans(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (mut line, paragraph) in paragraphs(text) {
        for (place, piece) in paragraph.split('`').enumerate() {
            if place % 2 == 1 {
                found.push((line, piece.split_whitespace().collect::<Vec<_>>().join(" ")));
            }
            line += piece.matches('\n').count();
        }
    }
    found
}

#[test]
fn code_is_found_over_the_end_of_a_line() {
    let text = "one `a` and `spoolgate\n   x --y` here\n\n```sh\n`no`\n```\na lone ` here\n\n`b`\n";
    let expected = [(1, "a"), (1, "spoolgate x --y"), (7, "here"), (9, "b")];
    assert_eq!(
        code_spans(text),
        expected.map(|(at, code)| (at, code.to_owned()))
    );
}

/// Checks the files of this repository that pages name, and the test programs that they start.
#[test]
fn every_file_and_test_that_a_page_names_is_there() {
    let root = Path::new(ROOT);
    let mut faults = Vec::new();
    let mut looked_at = 0;
    for (page, text) in pages() {
        for (at, line) in (1..).zip(text.lines()) {
            // A command that names a package starts that package's own test program.
            let commands = line.split("--test ").skip(1);
            for command in commands.filter(|_| !line.contains("cargo test -p ")) {
                let mut words = command
                    .split(['`', '#'])
                    .next()
                    .unwrap_or_default()
                    .split_whitespace();
                if words.next() != Some("it") {
                    faults.push(format!(
                        "{page}:{at}: the test program is called `it`: {command}"
                    ));
                }
                for (subject, _) in words.filter_map(|word| word.split_once("::")) {
                    looked_at += 1;
                    if !root.join(format!("tests/it/{subject}.rs")).exists() {
                        faults.push(format!("{page}:{at}: there is no subject `{subject}`"));
                    }
                }
            }
            let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c)));
            let is_path = |word: &&str| {
                word.ends_with(".rs") && ["src/", "tests/"].iter().any(|part| word.contains(part))
            };
            for path in words.filter(is_path) {
                looked_at += 1;
                // The map of the source names files below `crates`.
                if !root.join(path).exists() && !root.join("crates").join(path).exists() {
                    faults.push(format!("{page}:{at}: there is no `{path}`"));
                }
            }
        }
    }
    assert!(looked_at > 60, "only {looked_at} names were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_command_that_is_named_in_running_text_exists() {
    let mut known = BTreeMap::new();
    let mut faults = Vec::new();
    let mut looked_at = 0;
    for (page, text) in pages() {
        for (at, piece) in code_spans(&text)
            .into_iter()
            .filter(|(_, code)| code.starts_with("spoolgate "))
        {
            looked_at += 1;
            let piece = piece.replace("\\|", "|");
            faults
                .extend(fault_of(&piece, &mut known).map(|fault| format!("{page}:{at}: {fault}")));
        }
    }
    assert!(looked_at > 40, "only {looked_at} commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (line, wrong) in [
        ("spoolgate audit verify --strict", false),
        ("spoolgate audit varify", true),
        ("spoolgate audit verify --strickt", true),
        ("spoolgate watch --socket PATH", false),
    ] {
        assert_eq!(fault_of(line, &mut known).is_some(), wrong, "{line}");
    }
}

/// Returns the anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let mut in_fence = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !in_fence) {
            found.insert(anchor(&heading.trim_start_matches('#').replace('`', "")));
        }
    }
    found
}

/// Targets of links in a text, code left out, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (begins, paragraph) in paragraphs(text) {
        let mut prose = String::new();
        for (place, piece) in paragraph.split('`').enumerate() {
            let kept = |c: &char| place % 2 == 0 || *c == '\n';
            prose.extend(piece.chars().filter(kept));
        }
        for (place, _) in prose.match_indices("](") {
            let (before, target) = prose.split_at(place + 2);
            let target = target.split(')').next().unwrap().to_owned();
            found.push((begins + before.matches('\n').count(), target));
        }
    }
    found
}

#[test]
fn links_are_found_beside_code_that_goes_over_the_end_of_a_line() {
    let text = "a [b](c.md), `d\ne` and [`f`](g.md#h)\n\n```text\n[i](j.md)\n```\n`[k](l.md)` \
        [m\nn](o.md)\n";
    let expected = [(1, "c.md"), (2, "g.md#h"), (8, "o.md")];
    assert_eq!(
        links(text),
        expected.map(|(at, target)| (at, target.to_owned()))
    );
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut faults = Vec::new();
    let mut followed = 0;
    for (page, text) in &pages {
        for (at, target) in links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, wanted) = target.split_once('#').unwrap_or((&target, ""));
            let folder = Path::new(ROOT).join(page).parent().unwrap().to_owned();
            let path = if file.is_empty() {
                Path::new(ROOT).join(page)
            } else {
                folder.join(file)
            };
            // The book holds docs/ and nothing else.
            let depth = page.matches('/').count();
            let leaves = page.starts_with("docs/") && target.matches("../").count() >= depth;
            if !path.exists() {
                faults.push(format!("{page}:{at}: there is no {target}"));
            } else if leaves {
                faults.push(format!(
                    "{page}:{at}: {target} is not in the book; name the path as code"
                ));
            } else if !wanted.is_empty()
                && !anchors(&fs::read_to_string(&path).unwrap()).contains(wanted)
            {
                faults.push(format!("{page}:{at}: no heading gives {target}"));
            }
        }
    }
    assert!(followed > 50, "only {followed} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_book_names_every_page_and_nothing_else() {
    let summary = fs::read_to_string(Path::new(ROOT).join("docs/SUMMARY.md")).unwrap();
    let named: BTreeSet<String> = links(&summary)
        .into_iter()
        .map(|(_, target)| format!("docs/{target}"))
        .collect();
    let there: BTreeSet<String> = pages()
        .into_keys()
        .filter(|page| page.starts_with("docs/") && page != "docs/SUMMARY.md")
        .collect();
    assert_eq!(named, there);
}
