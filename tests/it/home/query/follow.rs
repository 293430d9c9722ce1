//! Readers that follow a growing ledger.

use super::*;

// A process that follows a ledger.

struct Followed {
    child: Child,
    lines: Receiver<String>,
}

impl Followed {
    fn over(home: &Path, args: &[&str]) -> Followed {
        let mut child = command(home, &["--format", "json", "audit", "tail", "-f"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        Followed { child, lines }
    }

    /// Returns the request of the next line.
    fn next(&self) -> Option<String> {
        let line = self.lines.recv_timeout(Duration::from_secs(30)).ok()?;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        Some(
            line["request_id"]
                .as_str()
                .unwrap_or(line["kind"].as_str().unwrap())
                .to_owned(),
        )
    }

    fn end(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        self.child.wait().unwrap().code()
    }
}

#[test]
fn new_lines_are_followed_over_a_killed_gate_and_a_new_segment() {
    let scratch = Scratch::new();
    let home = scratch.home();
    let ask = |id: &str| {
        let file = scratch.beside("r.json");
        fs::write(&file, scratch.query(id).bytes).unwrap();
        succeed(&home, &["handle", file.to_str().unwrap()]);
    };
    ask("before");
    let followed = Followed::over(&home, &["-n", "1", "--kind", "decision"]);
    assert_eq!(followed.next().as_deref(), Some("before"));
    ask("one");
    assert_eq!(followed.next().as_deref(), Some("one"));
    // A gate was killed inside its batch: a whole line of it, and the start of another.
    let log = home.join("audit/log-00000001.jsonl");
    let bytes = fs::read(&log).unwrap();
    let last = bytes.split(|byte| *byte == b'\n').rev().nth(1).unwrap();
    let seal = line::parse(last).unwrap();
    let mut hand = Hand {
        seq: seal.seq + 1,
        batch: seal.batch + 1,
        head: leaf_hash(last),
    };
    let mut torn = hand.line("decision", &hostile_decision("never-sealed").1);
    torn.extend_from_slice(b"{\"prev\":\"12");
    fs::OpenOptions::new()
        .append(true)
        .open(&log)
        .unwrap()
        .write_all(&torn)
        .unwrap();
    std::thread::sleep(Duration::from_millis(600));
    ask("two");
    ask("three");
    assert!(
        home.join("audit/log-00000002.jsonl").exists(),
        "the next gate begins a new segment"
    );
    assert_eq!(followed.next().as_deref(), Some("two"));
    assert_eq!(followed.next().as_deref(), Some("three"));
    assert_eq!(followed.end(), Some(0));
}

#[test]
fn tail_waits_for_a_ledger_and_ends_when_its_reader_leaves() {
    let dir = crate::kit::folder();
    let home = dir.path().join("later");
    let followed = Followed::over(&home, &[]);
    std::thread::sleep(Duration::from_millis(400));
    let done = Command::new(PROGRAM)
        .arg("init")
        .arg(&home)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", show(&done));
    assert_eq!(followed.next().as_deref(), Some("genesis"));
    assert_eq!(followed.end(), Some(0));
    // The lines are found even if the first segment is archived.
    for args in [
        &["audit", "rotate", "--reason", "r"][..],
        &["audit", "archive"],
    ] {
        let done = command(&home, args).output().unwrap();
        assert!(done.status.success(), "{}", show(&done));
    }
    let followed = Followed::over(&home, &[]);
    assert_eq!(followed.next().as_deref(), Some("genesis"));
    assert_eq!(followed.end(), Some(0));

    let mut child = command(&home, &["audit", "tail", "-f"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut heading = String::new();
    out.read_line(&mut heading).unwrap();
    assert!(heading.contains("OUTCOME"), "{heading}");
    drop(out);
    let started = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it goes on for nobody"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(code, Some(0));
}

#[test]
fn a_file_is_followed_when_it_is_removed_and_another_ledger_is_noticed() {
    let mut hand = Hand::new();
    let first = hand.batch(&[note("a")]);
    let dir = folder(&[(1, first.clone())]);
    let books = || Books::of_folder(Arc::new(RealDisk::open(dir.path()).unwrap()), Path::new(""));
    let end = books().end().unwrap();
    let mut follower = Follower::new(books(), end).unwrap();
    let mut seen: Vec<u64> = Vec::new();
    let mut poll = |follower: &mut Follower| {
        let mut visit = |line: &spoolgate_ledger::batches::Line| -> Result<(), HomeError> {
            seen.extend((line.kind != "seal").then_some(line.seq));
            Ok(())
        };
        let remarks = follower.poll(&mut visit).map_err(|error| error.to_string());
        (remarks, std::mem::take(&mut seen))
    };
    let nothing: (Result<Vec<String>, String>, Vec<u64>) = (Ok(Vec::new()), Vec::new());
    assert_eq!(poll(&mut follower), nothing);
    let log = dir.path().join("log-00000001.jsonl");
    let second = hand.batch(&[note("b"), note("c")]);
    let append = |bytes: &[u8]| {
        fs::OpenOptions::new()
            .append(true)
            .open(&log)
            .unwrap()
            .write_all(bytes)
            .unwrap()
    };
    // In small parts, as a reader may see it.
    for part in second[..second.len() - 1].chunks(37) {
        append(part);
        assert_eq!(poll(&mut follower), nothing);
    }
    append(b"\n");
    assert_eq!(poll(&mut follower), (Ok(Vec::new()), vec![2, 3]));
    // Archived: the plain file is removed when there is a next one. What was still appended is read
    // through the open file.
    let third = hand.batch(&[note("d")]);
    append(&third);
    let length = first.len() + second.len() + third.len();
    fs::remove_file(&log).unwrap();
    let body = serde_json::json!({
        "previous": {"file": "log-00000001.jsonl", "length": length, "lines": 7, "head": "00"},
            "rest": null,
    });
    let next = hand.batch(&[("segment", body.to_string()), note("e")]);
    fs::write(dir.path().join("log-00000002.jsonl"), &next).unwrap();
    assert_eq!(poll(&mut follower), (Ok(Vec::new()), vec![5, 7, 8]));
    // Another file replaces it.
    fs::write(dir.path().join("other"), &first).unwrap();
    fs::rename(
        dir.path().join("other"),
        dir.path().join("log-00000002.jsonl"),
    )
    .unwrap();
    let (told, _) = poll(&mut follower);
    assert!(told.unwrap_err().contains("no longer the followed file"));
}

#[test]
fn a_long_reader_neither_stops_the_gate_nor_leaves_the_file_beside_the_index_large() {
    let desk = Desk::with_limits("");
    let mut home = desk.open();
    let path = desk.place.root.path().join("state/state.db");
    let beside = || fs::metadata(format!("{}-wal", path.display())).map_or(0, |file| file.len());
    let ask = |home: &mut spoolgate_home::Home, name: &str| {
        for n in 0..150 {
            desk.ask(
                "hermes",
                &format!("{name}-{n}"),
                "market.get",
                r#"{"symbol":"BTC-USD"}"#,
            );
            assert_eq!(drain(home).unwrap().len(), 1);
        }
    };
    ask(&mut home, "alone");
    let alone = beside();
    let reader = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let count = |reader: &Connection| -> i64 {
        reader
            .query_row("SELECT count(*) FROM decisions", [], |row| row.get(0))
            .unwrap()
    };
    reader.execute_batch("BEGIN").unwrap();
    let before = count(&reader);
    ask(&mut home, "beside");
    let with_reader = beside();
    assert_eq!(
        count(&reader),
        before,
        "a reader sees what was there when it began"
    );
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(count(&reader), before + 150);
    ask(&mut home, "after");
    ask(&mut home, "later");
    let later = beside();
    println!(
        "file beside the index after 150 batches: {alone} bytes alone, {with_reader} beside a \
            reader, {later} 300 batches after it"
    );
    // Each batch adds a bounded amount, and the space is reused after the reader has closed.
    assert!(with_reader < alone + 150 * 100_000, "{alone} {with_reader}");
    assert!(
        later <= with_reader.max(alone) + 4_200_000,
        "{with_reader} {later}"
    );
}
