//! Reads repositories that a real git made, some of them hostile.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests: a panic is a failure; these run git"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use spoolgate_git::{
    DEPTH_MAX, ENTRIES_MAX, Entry, FILE_BYTES_MAX, GitError, Mode, ObjectId, Repository,
};
use tempfile::TempDir;

/// A scratch repository.
struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// `None` if there is no git.
    fn new() -> Option<Scratch> {
        Scratch::with(&[])
    }

    fn with(init: &[&str]) -> Option<Scratch> {
        if Command::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: there is no git");
            return None;
        }
        let scratch = Scratch {
            folder: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(scratch.root()).unwrap();
        scratch.git(&[&["init", "-q", "-b", "main"], init].concat());
        Some(scratch)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("repo")
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_with(args, b"")
    }

    fn git_with(&self, args: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("git")
            .current_dir(self.root())
            .env("HOME", self.folder.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args([
                "-c",
                "commit.gpgsign=false",
                "-c",
                "protocol.file.allow=always",
            ])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let done = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{args:?}: {errors}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Commits everything, and returns the commit.
    fn commit(&self) -> ObjectId {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.head()
    }

    fn head(&self) -> ObjectId {
        id(&self.git(&["rev-parse", "HEAD"]))
    }

    /// Writes a tree as it is, and a commit of it.
    fn commit_of_tree(&self, tree: &[u8]) -> ObjectId {
        let args = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        let tree = self.git_with(&args, tree);
        id(&self.git(&["commit-tree", "-m", "made", &tree]))
    }

    fn blob(&self, data: &[u8]) -> ObjectId {
        id(&self.git_with(&["hash-object", "-w", "--stdin"], data))
    }

    fn open(&self) -> Repository {
        Repository::open(&self.root()).unwrap()
    }

    fn files(&self, commit: &ObjectId, paths: &[&str]) -> Result<BTreeMap<String, String>, String> {
        let files = self.open().files(commit, paths);
        let files = files.map_err(|error| error.to_string())?;
        let text = |data| String::from_utf8(data).unwrap();
        Ok(files
            .into_iter()
            .map(|(path, data)| (path, text(data)))
            .collect())
    }

    fn object_file(&self, id: &ObjectId) -> PathBuf {
        let name = id.to_string();
        let (folder, file) = name.split_at(2);
        self.root().join(".git/objects").join(folder).join(file)
    }
}

fn id(text: &str) -> ObjectId {
    ObjectId::parse(text).unwrap()
}

/// A tree's entry as git stores it.
fn entry(mode: &str, name: &[u8], id: &ObjectId) -> Vec<u8> {
    [mode.as_bytes(), b" ", name, b"\0", id.bytes()].concat()
}

fn names(files: &BTreeMap<String, String>) -> Vec<&str> {
    files.keys().map(String::as_str).collect()
}

#[test]
fn a_repository_is_found_from_each_kind_of_folder() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/core/cap.yaml", "5");
    it.write("rulesx/a", "no");
    it.write("council/roles.yaml", "roles");
    it.write("README", "no");
    let commit = it.commit();
    it.git(&["clone", "-q", "--bare", ".", "../bare"]);
    it.git(&["worktree", "add", "-q", "../linked"]);
    it.git(&["tag", "-a", "-m", "v", "v1"]);
    let up = it.folder.path();
    let paths = ["rules", "council/roles.yaml", "README/x", "absent"];
    for folder in [
        it.root(),
        it.root().join("rules/core"),
        it.root().join(".git"),
        up.join("bare"),
        up.join("linked"),
        up.join("linked/rules"),
    ] {
        let mut repository = Repository::open(&folder).unwrap();
        assert_eq!(repository.resolve("HEAD").unwrap(), commit, "{folder:?}");
        let files = repository.files(&commit, &paths).unwrap();
        let expected = [
            ("council/roles.yaml".to_owned(), b"roles".to_vec()),
            ("rules/core/cap.yaml".to_owned(), b"5".to_vec()),
        ];
        assert_eq!(files, BTreeMap::from(expected), "{folder:?}");
    }
    let mut repository = it.open();
    for revision in ["main", "v1", "HEAD^0", &commit.to_string()[..10]] {
        assert_eq!(repository.resolve(revision).unwrap(), commit, "{revision}");
    }
    for revision in ["", "absent", "HEAD:rules", "HEAD\nHEAD", "-h", "HEAD~1"] {
        let error = repository.resolve(revision).unwrap_err();
        assert!(
            matches!(error, GitError::Revision(_)),
            "{revision}: {error}"
        );
    }
    assert_eq!(repository.files(&commit, &[""]).unwrap().len(), 4);
    let error = Repository::open(up).err().unwrap();
    assert!(matches!(error, GitError::NoRepository(_)), "{error}");
    assert!(matches!(
        Repository::open(&up.join("x")),
        Err(GitError::Io { .. })
    ));
}

#[test]
fn a_repository_of_sha256_is_read_like_one_of_sha1() {
    let Some(it) = Scratch::with(&["--object-format=sha256"]) else {
        return;
    };
    it.write("rules/a", "1");
    let first = it.commit();
    it.write("rules/a", "2");
    let second = it.commit();
    assert!(matches!(second, ObjectId::Sha256(_)));
    assert_eq!(it.files(&second, &["rules"]).unwrap()["rules/a"], "2");
    let mut repository = it.open();
    assert!(repository.is_ancestor(&first, &second).unwrap());
    assert_eq!(repository.roots(&second).unwrap(), [first].into());
}

#[test]
fn attributes_replaced_objects_and_grafts_have_no_say() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/cap", "cap $Format:%s$ 5\n");
    it.write("rules/gone", "still here\n");
    it.write(
        ".gitattributes",
        "rules/cap export-subst filter=evil text eol=crlf\nrules/gone export-ignore\n",
    );
    it.write("rules/.gitattributes", "* ident\n");
    it.git(&["config", "filter.evil.smudge", "sed s/5/5000/"]);
    let first = it.commit();
    it.write("rules/gone", "changed\n");
    let second = it.commit();
    let expected = it.files(&first, &["rules"]).unwrap();
    assert_eq!(expected["rules/cap"], "cap $Format:%s$ 5\n");
    assert_eq!(expected["rules/gone"], "still here\n");
    let cap = it.git(&["rev-parse", "HEAD:rules/cap"]);
    let evil = it.blob(b"cap 5000\n").to_string();
    it.git(&["replace", &cap, &evil]);
    let orphan = it.git(&["commit-tree", "-m", "orphan", "HEAD^{tree}"]);
    it.git(&["replace", &second.to_string(), &orphan]);
    it.write(".git/info/grafts", &format!("{second}\n"));
    assert_eq!(it.files(&first, &["rules"]).unwrap(), expected);
    let mut repository = it.open();
    assert_eq!(repository.resolve("HEAD").unwrap(), second);
    assert!(repository.is_ancestor(&first, &second).unwrap());
    assert_eq!(repository.roots(&second).unwrap(), [first].into());
}

#[test]
fn a_rename_is_a_removal_and_an_addition() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/approvers", "ann");
    it.write("rules/safety.yaml", "x");
    let first = it.commit();
    it.write("rules/tests/x", "");
    it.git(&["mv", "rules/approvers", "rules/tests/approvers"]);
    let second = it.commit();
    let files = it.files(&first, &["rules"]).unwrap();
    assert_eq!(names(&files), ["rules/approvers", "rules/safety.yaml"]);
    let files = it.files(&second, &["rules"]).unwrap();
    assert_eq!(
        names(&files),
        [
            "rules/safety.yaml",
            "rules/tests/approvers",
            "rules/tests/x"
        ]
    );
}

#[test]
fn links_submodules_and_other_modes_are_refused_under_judged_paths() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/a", "1");
    let program = it.root().join("rules/a");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("a", it.root().join("link")).unwrap();
    let commit = it.commit();
    // Elsewhere, a link is no fault.
    assert_eq!(names(&it.files(&commit, &["rules"]).unwrap()), ["rules/a"]);
    let (blob, link) = (it.blob(b"1"), it.blob(b"/etc/passwd"));
    let entries = it.open().entries(&commit, &[""]).unwrap();
    assert_eq!(entries["rules/a"].mode, Mode::Executable);
    assert_eq!(entries["link"].mode, Mode::Link);
    let folder = |entries: &[u8]| {
        let args = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
        id(&it.git_with(&args, entries))
    };
    for (mode, id, said) in [
        ("120000", link, "`rules/x` is a symbolic link"),
        ("160000", commit, "`rules/x` is a submodule"),
        ("100664", blob, "`rules/x` has mode 100664"),
        ("100600", blob, "`rules/x` has mode 100600"),
        ("10644", blob, "`rules/x` has mode 10644"),
    ] {
        let below = folder(&entry(mode, b"x", &id));
        let commit = it.commit_of_tree(&entry("40000", b"rules", &below));
        let error = it.files(&commit, &["rules"]).unwrap_err();
        assert!(error.starts_with(said), "{error}");
        let entries = it.open().entries(&commit, &["rules"]).unwrap();
        assert_eq!(entries["rules/x"].id, id);
        // In the place of the folder itself.
        let commit = it.commit_of_tree(&entry(mode, b"rules", &id));
        for path in ["rules", "rules/core/deep"] {
            let read = it.files(&commit, &[path]);
            if path == "rules" || mode.starts_with('1') && !mode.starts_with("10") {
                assert!(read.unwrap_err().contains("`rules` "), "{mode} {path}");
                continue;
            }
            assert_eq!(read.unwrap(), BTreeMap::new(), "nothing is below a file");
        }
    }
}

#[test]
fn names_that_lead_elsewhere_and_trees_out_of_order_are_refused() {
    let Some(it) = Scratch::new() else { return };
    let blob = it.blob(b"1");
    let args = ["hash-object", "-t", "tree", "-w", "--literally", "--stdin"];
    let with = |entries: &[u8]| {
        let below = id(&it.git_with(&args, entries));
        it.commit_of_tree(&entry("40000", b"rules", &below))
    };
    for name in [
        &b".."[..],
        b".",
        b".git",
        b".GIT",
        b"a\\b",
        b"a/b",
        b"../x",
        b"a\nb",
        b"a\x7fb",
        b"caf\xe9",
    ] {
        let error = it.files(&with(&entry("100644", name, &blob)), &["rules"]);
        let error = error.unwrap_err();
        assert!(error.contains("is not a name that a rule file"), "{error}");
    }
    let good = with(&entry("100644", "..café..".as_bytes(), &blob));
    assert_eq!(
        names(&it.files(&good, &["rules"]).unwrap()),
        ["rules/..café.."]
    );
    let twice = [entry("100644", b"a", &blob), entry("100644", b"a", &blob)].concat();
    for bad in [&twice[..], b"100644 a", b"x"] {
        let error = it.files(&with(bad), &["rules"]).unwrap_err();
        assert!(error.contains("is not a well-formed tree"), "{error}");
    }
    // A path in one name is no way to hide a file from a look at its folder.
    let hidden = it.commit_of_tree(&entry("100644", b"rules/cap", &blob));
    let error = it.files(&hidden, &["rules"]).unwrap_err();
    assert!(error.contains("is not a name"), "{error}");
}

#[test]
fn a_shallow_clone_is_refused() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/a", "1");
    it.commit();
    it.write("rules/a", "2");
    it.commit();
    let url = format!("file://{}", it.root().display());
    it.git(&["clone", "-q", "--depth", "1", &url, "../shallow"]);
    let folder = it.folder.path().join("shallow");
    assert!(matches!(
        Repository::open(&folder),
        Err(GitError::Shallow(_))
    ));
    let linked = it.folder.path().join("linked");
    it.git(&["-C", "../shallow", "worktree", "add", "-q", "../linked"]);
    assert!(matches!(
        Repository::open(&linked),
        Err(GitError::Shallow(_))
    ));
    it.git(&["-C", "../shallow", "fetch", "-q", "--unshallow"]);
    assert!(Repository::open(&folder).is_ok() && Repository::open(&linked).is_ok());
}

#[test]
fn an_object_that_is_not_what_its_id_says_is_refused() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/a", "5");
    it.write("rules/b", "5000");
    let commit = it.commit();
    let (a, b) = (it.blob(b"5"), it.blob(b"5000"));
    let of_a = it.object_file(&a);
    let bytes = fs::read(&of_a).unwrap();
    let read = || it.open().files(&commit, &["rules"]);
    let put = |bytes: &[u8]| {
        let _ = fs::remove_file(&of_a);
        fs::write(&of_a, bytes).unwrap();
    };
    // Git itself does not notice this.
    put(&fs::read(it.object_file(&b)).unwrap());
    let error = read().unwrap_err();
    assert!(matches!(error, GitError::Corrupt(id) if id == a), "{error}");
    // Of another type.
    put(&fs::read(it.object_file(&commit)).unwrap());
    let error = read().unwrap_err();
    assert!(matches!(error, GitError::Corrupt(id) if id == a), "{error}");
    for bad in [&bytes[..bytes.len() / 2], b"", b"junk"] {
        put(bad);
        let error = read().unwrap_err();
        assert!(
            matches!(
                error,
                GitError::Ended(_) | GitError::Missing(_) | GitError::Corrupt(_)
            ),
            "{error}"
        );
    }
    fs::remove_file(&of_a).unwrap();
    let mut repository = it.open();
    let error = repository.files(&commit, &["rules"]).unwrap_err();
    assert!(matches!(error, GitError::Missing(id) if id == a), "{error}");
    // It goes on after an error.
    assert!(repository.files(&commit, &["rules/b"]).is_ok());
    put(&bytes);
    assert_eq!(repository.files(&commit, &["rules"]).unwrap().len(), 2);
}

#[test]
fn nothing_that_a_hostile_repository_names_is_run() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/a", "1");
    let first = it.commit();
    it.write("rules/a", "2");
    let second = it.commit();
    let (marker, script) = (it.folder.path().join("ran"), it.folder.path().join("evil"));
    fs::write(
        &script,
        format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", marker.display()),
    )
    .unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let evil = script.display().to_string();
    let config = format!(
        "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tfsmonitor = {evil}\n\t\
         sshCommand = {evil}\n\tpager = {evil}\n\teditor = {evil}\n\tgitProxy = {evil}\n\t\
         alternateRefsCommand = {evil}\n\taskPass = {evil}\n\thooksPath = {hooks}\n\t\
         attributesFile = /dev/null\n\tworktree = /\n\
         [alias]\n\tcat-file = !{evil}\n\
         [filter \"evil\"]\n\tsmudge = {evil}\n\tclean = {evil}\n\tprocess = {evil}\n\
         [diff \"evil\"]\n\ttextconv = {evil}\n\tcommand = {evil}\n\
         [credential]\n\thelper = !{evil}\n\
         [gpg]\n\tprogram = {evil}\n\
         [protocol]\n\tallow = always\n\
         [protocol \"ext\"]\n\tallow = always\n\
         [remote \"origin\"]\n\turl = ext::{evil}\n\tpromisor = true\n\t\
         partialclonefilter = blob:none\n\tuploadpack = {evil}\n\tvcs = evil\n\
         [extensions]\n\tpartialClone = origin\n",
        hooks = it.folder.path().join("hooks").display(),
    );
    for hook in [
        "reference-transaction",
        "post-checkout",
        "post-index-change",
    ] {
        let hooks = it.folder.path().join("hooks");
        fs::create_dir_all(&hooks).unwrap();
        fs::copy(&script, hooks.join(hook)).unwrap();
    }
    it.write(".git/config", &config);
    it.write(".git/info/attributes", "* filter=evil diff=evil\n");
    assert_eq!(it.files(&second, &["rules"]).unwrap()["rules/a"], "2");
    let mut repository = it.open();
    assert_eq!(repository.resolve("main").unwrap(), second);
    assert!(repository.is_ancestor(&first, &second).unwrap());
    assert_eq!(
        repository.newest_change(&second, &["rules"]).unwrap(),
        Some(second)
    );
    // A missing object of a partial clone is not fetched.
    let missing = repository.entries(&first, &["rules"]).unwrap()["rules/a"].id;
    fs::remove_file(it.object_file(&missing)).unwrap();
    let error = it.open().files(&first, &["rules"]).unwrap_err();
    assert!(
        matches!(error, GitError::Missing(id) if id == missing),
        "{error}"
    );
    // Neither is one that a branch names.
    it.write(".git/refs/heads/absent", &format!("{}\n", "ab".repeat(20)));
    assert!(it.open().resolve("absent").is_err());
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap());
}

#[test]
fn the_owner_of_the_folder_does_not_matter() {
    let Some(it) = Scratch::new() else { return };
    it.write("rules/a", "1");
    let commit = it.commit();
    if std::os::unix::fs::chown(it.root().join(".git"), Some(65534), None).is_err() {
        eprintln!("skipped: only root gives folders away");
        return;
    }
    std::os::unix::fs::chown(it.root(), Some(65534), None).unwrap();
    assert_eq!(it.files(&commit, &["rules"]).unwrap()["rules/a"], "1");
}

#[test]
fn the_history_is_walked_by_parents() {
    let Some(it) = Scratch::new() else { return };
    it.write("README", "1");
    let root = it.commit();
    let mut repository = it.open();
    assert_eq!(repository.newest_change(&root, &["rules"]).unwrap(), None);
    it.write("rules/a", "1");
    let added = it.commit();
    it.write("README", "2");
    let other = it.commit();
    it.git(&["checkout", "-q", "-b", "side", &added.to_string()]);
    it.write("rules/a", "2");
    let side = it.commit();
    it.git(&["checkout", "-q", "main"]);
    it.git(&["merge", "-q", "--no-ff", "-m", "merge", "side"]);
    let merge = it.head();
    it.write("README", "3");
    let last = it.commit();
    it.git(&["revert", "--no-edit", "-m", "1", &merge.to_string()]);
    let reverted = it.head();
    it.git(&["checkout", "-q", "--orphan", "other"]);
    it.write("rules/a", "9");
    let orphan = it.commit();
    it.git(&["checkout", "-q", "main"]);
    let unrelated = [
        "merge",
        "-q",
        "--allow-unrelated-histories",
        "-s",
        "ours",
        "-m",
        "m",
        "other",
    ];
    it.git(&unrelated);
    let joined = it.head();
    for (base, head, is) in [
        (root, root, true),
        (root, last, true),
        (side, last, true),
        (other, side, false),
        (side, other, false),
        (last, merge, false),
        (orphan, reverted, false),
        (orphan, joined, true),
    ] {
        assert_eq!(
            repository.is_ancestor(&base, &head).unwrap(),
            is,
            "{base} {head}"
        );
    }
    for (commit, paths, newest) in [
        (root, &[""][..], Some(root)),
        (other, &["rules"], Some(added)),
        (side, &["rules"], Some(side)),
        (merge, &["rules"], Some(merge)),
        (last, &["rules"], Some(merge)),
        (last, &["rules/a"], Some(merge)),
        (last, &["rules/b", "x"], None),
        (last, &["rules", "README"], Some(last)),
        (reverted, &["rules"], Some(reverted)),
        (joined, &["rules"], Some(reverted)),
        (orphan, &["rules"], Some(orphan)),
    ] {
        let found = repository.newest_change(&commit, paths).unwrap();
        assert_eq!(found, newest, "{commit} {paths:?}");
    }
    assert_eq!(repository.roots(&reverted).unwrap(), [root].into());
    assert_eq!(repository.roots(&joined).unwrap(), [root, orphan].into());
    // The contents of the revert are those of before, but it is another commit.
    let before = repository.files(&added, &["rules"]).unwrap();
    assert_eq!(repository.files(&reverted, &["rules"]).unwrap(), before);
    fs::remove_file(it.object_file(&root)).unwrap();
    let mut repository = it.open();
    let error = repository.is_ancestor(&orphan, &last).unwrap_err();
    assert!(
        matches!(error, GitError::Missing(id) if id == root),
        "{error}"
    );
    // It is not needed to find this one.
    assert!(repository.is_ancestor(&added, &last).unwrap());
}

#[test]
fn sizes_counts_and_depths_are_bounded() {
    let Some(it) = Scratch::new() else { return };
    let most = usize::try_from(FILE_BYTES_MAX).unwrap();
    let full = it.blob(&vec![0; most]);
    let over = it.blob(&vec![0; most + 1]);
    let one = it.blob(b"1");
    let files = |blobs: &[ObjectId]| {
        let name = |nth| format!("f{nth:05}").into_bytes();
        let blobs = blobs.iter().enumerate();
        let tree: Vec<u8> = blobs
            .flat_map(|(nth, blob)| entry("100644", &name(nth), blob))
            .collect();
        let commit = it.commit_of_tree(&tree);
        it.open().files(&commit, &[""]).map(|files| files.len())
    };
    assert_eq!(files(&[full; 8]).unwrap(), 8);
    let error = files(&[vec![full; 8], vec![one]].concat()).unwrap_err();
    assert!(matches!(error, GitError::AllTooLarge), "{error}");
    let error = files(&[one, over]).unwrap_err();
    assert!(matches!(error, GitError::FileTooLarge(path) if path == "f00001"));
    let listed = |count: usize| {
        let tree: Vec<u8> = (0..count)
            .flat_map(|nth| entry("100644", format!("f{nth:06}").as_bytes(), &one))
            .collect();
        let commit = it.commit_of_tree(&tree);
        it.open()
            .entries(&commit, &[""])
            .map(|entries| entries.len())
    };
    assert_eq!(listed(ENTRIES_MAX).unwrap(), ENTRIES_MAX);
    assert!(matches!(listed(ENTRIES_MAX + 1), Err(GitError::TooMany)));
    for (folders, is_good) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false)] {
        let mut tree = entry("100644", b"f", &one);
        for _ in 0..folders {
            let args = ["hash-object", "-t", "tree", "-w", "--stdin"];
            tree = entry("40000", b"d", &id(&it.git_with(&args, &tree)));
        }
        let commit = it.commit_of_tree(&tree);
        let read: Result<BTreeMap<String, Entry>, GitError> = it.open().entries(&commit, &["d"]);
        assert_eq!(read.is_ok(), is_good, "{folders}");
        assert!(is_good || matches!(read, Err(GitError::TooDeep(_))));
    }
    // A tree of trees of the same tree, which would have ten billion files.
    let args = ["hash-object", "-t", "tree", "-w", "--stdin"];
    let mut tree: Vec<u8> = entry("100644", b"f", &one);
    for _ in 0..10 {
        let below = id(&it.git_with(&args, &tree));
        tree = (0..10)
            .flat_map(|nth| entry("40000", format!("d{nth}").as_bytes(), &below))
            .collect();
    }
    let error = it
        .open()
        .entries(&it.commit_of_tree(&tree), &[""])
        .unwrap_err();
    assert!(matches!(error, GitError::TooMany), "{error}");
}

/// Git takes a tag before a branch of the same name; a review must not, whatever the name has in it.
#[test]
fn a_name_of_several_references_is_refused() {
    let Some(it) = Scratch::new() else { return };
    it.write("a", "1");
    it.commit();
    for name in ["release@2", "a/b", "plain"] {
        it.git(&["branch", name]);
        let mut repo = Repository::open(&it.root()).unwrap();
        for revision in [name.to_owned(), format!("{name}^0"), format!("{name}~0")] {
            assert!(repo.resolve(&revision).is_ok(), "{revision}");
        }
        it.git(&["tag", name]);
        for revision in [
            name.to_owned(),
            format!("{name}^0"),
            format!("{name}@{{0}}"),
        ] {
            let told = repo.resolve(&revision).unwrap_err();
            assert!(
                matches!(told, GitError::Ambiguous(..)),
                "{revision}: {told}"
            );
        }
        assert!(repo.resolve(&format!("refs/heads/{name}")).is_ok());
    }
}
