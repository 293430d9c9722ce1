//! Files with hostile names, and entries that are not files.

use super::*;

impl Cases<'_> {
    pub(super) fn evil_names(&mut self) {
        let bad = End::Kept(Code::BadFileName);
        let round = self.round;
        let names: Vec<Vec<u8>> = [
            format!("a\nb{round}.json"),
            format!("-rf{round}.json"),
            "z".repeat(250 - round) + ".json",
            format!("é{round}.json"),
            format!("\u{202e}nosj.{round}"),
            format!("a b{round}.json"),
            format!("r{round}.JSON"),
            format!("no-ending-{round}"),
            format!("=0123456789abcd{round:02}"),
            format!("\x1b[31m{round}.json"),
            format!("a~{round}.json"),
            format!("{}.json", "n".repeat(129 + round)),
        ]
        .map(String::into_bytes)
        .into_iter()
        .chain([format!("\u{ff}{round}.json").into_bytes().split_off(1)])
        .collect();
        for name in names {
            let draft = self.draft("never", "orders.list", "{}");
            let bytes = self.world.sign(&draft);
            self.add(&name, bytes.as_bytes(), bad.clone(), "not a file name");
        }
        for name in [
            format!(".{round}.json"),
            format!("..{round}json"),
            format!("r{round}.json.tmp"),
        ] {
            self.add(name.as_bytes(), b"{}", End::Ignored, "");
        }
    }

    pub(super) fn no_files(&mut self) {
        let end = End::Kept(Code::NotAFile);
        let secret = self.outside.join("secret.txt");
        for (what, target) in [
            ("link", secret.clone()),
            ("dangling", self.outside.join("nothing")),
            ("linkdir", self.outside.clone()),
            ("loop", PathBuf::from(format!("{}.json", self.name("loop")))),
            ("keyring", self.world.root.join("state/keyring.db")),
        ] {
            let name = format!("{}.json", self.name(what));
            symlink(target, self.world.inbox(self.spool, name.as_bytes())).unwrap();
            self.note(name.as_bytes(), None, end.clone(), "link");
        }
        let name = format!("{}.json", self.name("hard"));
        fs::hard_link(&secret, self.world.inbox(self.spool, name.as_bytes())).unwrap();
        self.note(
            name.as_bytes(),
            None,
            End::Kept(Code::LinkedFile),
            "hard links",
        );
        let name = format!("{}.json", self.name("fifo"));
        let path = self.world.inbox(self.spool, name.as_bytes());
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        self.note(name.as_bytes(), None, end.clone(), "FIFO");
        let name = format!("{}.json", self.name("sock"));
        // Paths of sockets must be short, so it is bound elsewhere and moved.
        let short = self.outside.join("s");
        let _socket = UnixListener::bind(&short).unwrap();
        fs::rename(&short, self.world.inbox(self.spool, name.as_bytes())).unwrap();
        self.note(name.as_bytes(), None, end.clone(), "socket");
        let name = format!("{}.json", self.name("dir"));
        let path = self.world.inbox(self.spool, name.as_bytes());
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inside.json"), "{}").unwrap();
        self.note(name.as_bytes(), None, end, "directory");
        if rustix::process::geteuid().is_root() {
            println!("skipped for root: a file the gate may not read");
        } else {
            use std::os::unix::fs::PermissionsExt;
            self.raw("closed", Code::Unreadable, "read", b"{}");
            let name = format!("{}.json", self.name("closed"));
            let path = self.world.inbox(self.spool, name.as_bytes());
            fs::set_permissions(path, fs::Permissions::from_mode(0o0)).unwrap();
            self.cases.last_mut().unwrap().bytes = None;
        }
    }
}
