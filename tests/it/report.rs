//! `spoolgate report`: the figures of the demo's page are computed a second time from the ledger's
//! lines; pages of homes without content, with pruned segments, and with a changed ledger; hostile
//! texts in everything that others write; and where the page may be written.

mod demo;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::kit::closed::{archive_all, four_segments};
use crate::kit::desk::{Desk, failed, order};
use crate::kit::memory_disk::MemoryDisk;
use crate::kit::place::Place;
use crate::kit::{show, spoolgate};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use spoolgate_home::Home;
use spoolgate_home::pruning::UpTo;
use spoolgate_ledger::verify::{KeyReport, Problem};
use spoolgate_outgoing::OpenAction;
use spoolgate_replay::report::{
    By, Figures, LedgerFigures, Options, ProposalView, Refusal, collect,
};
use spoolgate_report::page;
use spoolgate_wire::gateway::ActionId;
use spoolgate_wire::ids::{Principal, RequestId, ServiceName};
use spoolgate_wire::time::Time;
use tempfile::TempDir;

/// The demo's home.
struct Demo {
    dir: TempDir,
    printed: Value,
}

impl Demo {
    fn new() -> Demo {
        let dir = crate::kit::folder();
        let home = dir.path().join("home");
        let done = spoolgate(
            Path::new("."),
            &["--format", "json", "demo", home.to_str().unwrap()],
        );
        assert!(done.status.success(), "{}", show(&done));
        Demo {
            printed: serde_json::from_slice(&done.stdout).unwrap(),
            dir,
        }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn report(&self, args: &[&str]) -> Output {
        spoolgate(&self.home(), &[&["report"], args].concat())
    }

    /// Writes the page and reads it.
    fn page(&self, args: &[&str]) -> String {
        let file = self.dir.path().join("page.html");
        let done = self.report(&[&["--html", file.to_str().unwrap()], args].concat());
        assert!(done.status.success(), "{}", show(&done));
        fs::read_to_string(file).unwrap()
    }

    fn figures(&self, args: &[&str]) -> Value {
        let done = self.report(&[&["--format", "json"], args].concat());
        assert!(done.status.success(), "{}", show(&done));
        serde_json::from_slice(&done.stdout).unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.home().join("audit/log-00000001.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// A tag of a page, with its attributes.
#[derive(Debug)]
struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
}

/// Parses a page as strictly as possible: every `<` begins a tag, and no tag is within another.
fn tags(page: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let name: String = rest
            .chars()
            .take_while(|c| !c.is_whitespace() && *c != '>')
            .collect();
        let mut inner = &rest[name.len()..];
        let mut attributes = Vec::new();
        loop {
            inner = inner.trim_start();
            if let Some(behind) = inner.strip_prefix('>') {
                rest = behind;
                break;
            }
            let key: String = inner
                .chars()
                .take_while(|c| !"=> \n".contains(*c))
                .collect();
            assert!(!key.is_empty(), "<{name} {}", &inner[..inner.len().min(80)]);
            inner = &inner[key.len()..];
            let mut value = String::new();
            if let Some(quoted) = inner.strip_prefix("=\"") {
                let end = quoted.find('"').unwrap();
                value = quoted[..end].to_owned();
                inner = &quoted[end + 1..];
            }
            assert!(!value.contains('<'), "{key}={value}");
            attributes.push((key, value));
        }
        tags.push(Tag { name, attributes });
    }
    tags
}

/// Everything that the page may consist of: anything else was not written by it.
const NAMES: &str = "!DOCTYPE html head meta title link style body a header p h1 h2 h3 h4 b nav \
    ul li main dl div dt dd span section article footer code bdi time table caption thead tbody \
    tr th td details summary svg desc g line path rect circle polygon text tspan figure \
    figcaption i br";
const ATTRIBUTES: &str = "lang data-made-by charset http-equiv content name rel href class id \
    role aria-label aria-hidden aria-labelledby tabindex scope data-name datetime style viewBox \
    preserveAspectRatio x y x1 y1 x2 y2 cx cy r dy d width height points text-anchor html";

/// Checks that every row of every table has a cell for each of its columns.
#[track_caller]
fn demand_full_rows(page: &str) {
    for table in page.split("<table").skip(1) {
        let (head, body) = table
            .split("</table>")
            .next()
            .unwrap()
            .split_once("</thead>")
            .unwrap();
        let columns = head.matches("<th ").count();
        for row in body.split("<tr").skip(1) {
            let cells = row.matches("<th ").count() + row.matches("<td").count();
            assert_eq!(
                cells,
                columns,
                "{}",
                head.chars().take(600).collect::<String>()
            );
        }
    }
}

/// Checks that a page contains only what it may, loads nothing, and closes its tags correctly.
#[track_caller]
fn demand_harmless(page: &str) {
    let (names, known): (BTreeSet<&str>, BTreeSet<&str>) = (
        NAMES.split_whitespace().collect(),
        ATTRIBUTES.split_whitespace().collect(),
    );
    let (mut open, mut ids) = (Vec::new(), BTreeSet::new());
    for tag in tags(page) {
        let name = tag.name.trim_start_matches('/');
        assert!(names.contains(name), "<{}> is not the page's own", tag.name);
        for (key, value) in &tag.attributes {
            assert!(
                known.contains(key.as_str()),
                "<{} {key}> is not the page's own",
                tag.name
            );
            match key.as_str() {
                "href" => assert!(value.starts_with('#') || value == "data:,", "{value}"),
                "id" => assert!(ids.insert(value.clone()), "id {value} twice"),
                "style" => assert!(
                    value
                        .split(';')
                        .all(|part| part.starts_with("left:") || part.starts_with("top:")),
                    "{value}"
                ),
                _ => {}
            }
        }
        match (tag.name.strip_prefix('/'), tag.name.as_str()) {
            (Some(closed), _) => {
                assert_eq!(open.pop().as_deref(), Some(closed), "what closes what")
            }
            (None, "!DOCTYPE" | "meta" | "link" | "br") => {}
            (None, _) => open.push(tag.name.clone()),
        }
    }
    assert_eq!(open, Vec::<String>::new());
    demand_full_rows(page);
    assert!(
        page.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    );
    assert!(
        !page.contains("@import") && !page.contains("url("),
        "the style loads something"
    );
    let seen = |c: char| c == '\n' || c == '\u{202f}' || spoolgate_wire::text::is_printable(c);
    let found = page.chars().find(|c| !seen(*c));
    assert_eq!(found, None, "a character that moves others is on the page");
}

#[test]
fn a_changed_ledger_gives_a_page_that_says_so_and_no_figure() {
    let demo = Demo::new();
    let log = demo.home().join("audit/log-00000001.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(
        &log,
        text.replacen("\"amount\":\"5000\"", "\"amount\":\"9000\"", 1),
    )
    .unwrap();
    let file = demo.dir.path().join("page.html");
    let done = demo.report(&["--html", file.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(5), "{}", show(&done));
    assert!(
        String::from_utf8_lossy(&done.stderr).contains("does not verify"),
        "{}",
        show(&done)
    );
    let page = fs::read_to_string(&file).unwrap();
    demand_harmless(&page);
    assert!(page.contains("The ledger does not verify") && page.contains("log-00000001.jsonl"));
    for figure in [
        "Equity",
        "verified</span>",
        "9000",
        "trend-v2-1-passes",
        "Drawdown",
    ] {
        assert!(!page.contains(figure), "{figure}");
    }
    let done = demo.report(&["--format", "json"]);
    assert_eq!(done.status.code(), Some(5));
    let figures: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        (&figures["told"], &figures["ledger"]["ok"]),
        (&Value::Null, &json!(false))
    );
}

#[test]
fn the_page_goes_only_where_nothing_else_is() {
    let demo = Demo::new();
    let beside = |name: &str| demo.dir.path().join(name);
    fs::write(beside("notes.html"), "my notes").unwrap();
    symlink("notes.html", beside("link.html")).unwrap();
    symlink(demo.home().join("audit"), beside("door")).unwrap();
    fs::create_dir(beside("folder.html")).unwrap();
    let home = demo.home();
    let cases = [
        (home.join("audit/page.html"), "belongs to the gate"),
        (home.join("spool/in/page.html"), "belongs to the gate"),
        (home.join("state/../rules/page.html"), "belongs to the gate"),
        (home.join("state/state.db"), "belongs to the gate"),
        (beside("door/page.html"), "belongs to the gate"),
        (beside("notes.html"), "is not a report"),
        (beside("link.html"), "is a link"),
        (beside("folder.html"), "not a regular file"),
        (beside("absent/page.html"), "absent"),
    ];
    for (path, expect) in cases {
        let done = demo.report(&["--html", path.to_str().unwrap()]);
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            !done.status.success() && told.contains(expect),
            "{}: {}",
            path.display(),
            show(&done)
        );
    }
    assert_eq!(
        fs::read_to_string(beside("notes.html")).unwrap(),
        "my notes"
    );
    assert!(!home.join("audit/page.html").exists());
    // An earlier report is replaced, and nothing is left beside it.
    demo.page(&[]);
    let again = demo.page(&["--title", "Again"]);
    assert!(again.contains("<h1>Again</h1>"));
    let left = fs::read_dir(demo.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert!(
        left.into_iter()
            .all(|name| !name.to_string_lossy().starts_with('.'))
    );
    for args in [
        &["--html", "x.html", "--format", "json"][..],
        &[],
        &[
            "--html",
            "x.html",
            "--since",
            "2018-04-06T00:00:00Z",
            "--until",
            "2018-04-05T00:00:00Z",
        ],
        &["--html", "x.html", "--since", "yesterday"],
    ] {
        let done = demo.report(args);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {}", show(&done));
    }
}

fn figures(place: &Place) -> Figures {
    collect(
        place.root.path(),
        &place.seams(),
        &Options::default(),
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn a_home_in_which_nothing_happened_has_a_page() {
    let figures = figures(&Place::new(7));
    let page = page(&figures, "Nothing");
    demand_harmless(&page);
    for text in [
        "The account held no money in this time.",
        "No request was decided in this time.",
        "No request was refused in this time.",
        "No case was opened in this time.",
        "Nothing is held, no proposal and no case is open, and no action is under way.",
        "No position is held and no order is open.",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn pruned_segments_are_reported() {
    let (place, _) = four_segments(3);
    let whole = figures(&place).told.unwrap();
    archive_all(place.disk.as_ref(), 0).unwrap();
    let copies = MemoryDisk::default();
    for (path, bytes) in place.disk.files_below("audit") {
        if path.to_string_lossy().ends_with(".zst") {
            copies.put(path.file_name().unwrap(), &bytes);
        }
    }
    Home::prune(
        place.root.path(),
        place.seams(),
        UpTo::Before(3),
        Some(&copies),
        false,
        &mut |_| {},
    )
    .unwrap();
    let figures = figures(&place);
    let told = figures.told.as_ref().unwrap();
    assert!(
        told.history.is_none() && told.pruned.len() == 2,
        "{:?}",
        told.pruned
    );
    assert!(told.decisions.total.all() < whole.decisions.total.all());
    let page = page(&figures, "Pruned");
    demand_harmless(&page);
    assert!(page.contains("the contents of 2 segments were pruned"));
    assert!(page.contains("The lines of 2 pruned segments are not in it."));
}

/// Returns a text that tries to control the browser, the terminal, or what the reader sees.
fn bait() -> String {
    let long = "A".repeat(100_000);
    format!(
        "<script>alert(1)</script>\"onload=\"x' ]]> --> &lt; </style></title><svg/onload=x> \
            \u{202e}desrever\u{2066}\u{200b}\0\u{1b}[31me\u{301}\u{302}\u{303}\u{304}\u{305}\n{long}"
    )
}

/// Makes a desk at which a rule holds buys, with a case before the council whose texts are bait.
fn busy() -> Desk {
    let desk = Desk::with_limits("cooldown_s: 0");
    let rule = "id: look-first\nstatus: active\napplies_to: {action: order.submit}\nwhen: [{field: \
        order.size, op: gt, value: 0.01}]\nthen: hold\nmessage: \"large\"\n";
    desk.edit("rules/core/look-first.yaml", |_| rule.to_owned());
    desk.edit("proposals/theses/second.md", |_| {
        "---\nslug: second\nstrategy: trend\nsymbol: BTC-USD\ndirection: long\nexpires: \
            2030-01-01T00:00:00Z\ninvalid_below: 1\n---\nA day.\n"
            .to_owned()
    });
    let mut home = desk.open();
    let buy = |size: &str| order("trend", "buy", size, None, "second");
    let small = order("trend", "buy", "0.01", None, "btc-range-long");
    desk.one(&mut home, "trend-bot", "small", "order.submit", &small);
    desk.bar(&mut home, "6810", "6790");
    let large = desk.one(
        &mut home,
        "trend-bot",
        "large",
        "order.submit",
        &buy("0.02"),
    );
    assert_eq!(failed(&large), ["look-first"]);
    desk.one(&mut home, "trend-bot", "huge", "order.submit", &buy("5"));
    let case = json!({
        "request_id": "cfg-1", "timestamp": "2026-03-02T12:00:00Z", "proposer": "Bot</title>",
            "change_type": "UPDATE_CONFIG",
        "context": {"summary": bait()}, "artifacts": {"diff_content": "-a\n+b"},
    });
    let opened = desk.one(
        &mut home,
        "research-bot",
        "case",
        "council.request",
        &case.to_string(),
    );
    assert!(opened.answer.error.is_none(), "{:?}", opened.answer.error);
    let halt = json!({"reason": "<b>look</b>\u{202e}"}).to_string();
    let halted = desk.one_as_owner(&mut home, "halt", "halt.set", &halt);
    assert!(halted.answer.error.is_none(), "{:?}", halted.answer.error);
    drop(home);
    desk
}

#[test]
fn waiting_requests_are_on_the_page() {
    let desk = busy();
    let figures = figures(&desk.place);
    let told = figures.told.as_ref().unwrap();
    assert_eq!(
        (told.holds.len(), told.open_cases.len(), told.closed.len()),
        (1, 1, 1)
    );
    let efficacy = &told.history.as_ref().unwrap().efficacy;
    let rule = efficacy
        .rules
        .iter()
        .find(|rule| rule.rule.as_str() == "look-first")
        .unwrap();
    assert_eq!(
        (rule.all.figures.tally.fired, rule.all.figures.tally.sole),
        (2, 1)
    );
    let page = page(&figures, "Busy");
    demand_harmless(&page);
    for text in [
        "Entries are closed",
        "look-first",
        "&lt;b&gt;look&lt;/b&gt;\\u{202e}",
        "Cut here: 100\u{202f}",
        "Waits for",
        "large</bdi>",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// Puts bait into every text of the figures that somebody else than this program can write, and
/// into more.
fn spoil(figures: &mut Figures) {
    let bait = bait();
    let ledger = &mut figures.ledger;
    (ledger.origin, ledger.log_key) = (bait.clone(), bait.clone());
    let printable = |c: &char| spoolgate_wire::text::is_printable(*c);
    ledger.root = bait.chars().take(64).filter(printable).collect();
    ledger.head = ledger.root.clone();
    ledger.checkpoint = Some(bait.clone());
    ledger.not_shown = vec![bait.clone()];
    ledger.keys = vec![
        KeyReport {
            from_line: 0,
            log_key: bait.clone(),
        },
        KeyReport {
            from_line: 9,
            log_key: bait.clone(),
        },
    ];
    ledger.problems = vec![Problem {
        file: bait.clone(),
        offset: 0,
        what: bait.clone(),
    }];
    let Some(told) = &mut figures.told else {
        return;
    };
    let LedgerFigures {
        strategies,
        decisions,
        holds,
        proposals,
        open_cases,
        cases,
        actions,
        portfolio,
        rulebook,
        ..
    } = told;
    told.closed = vec![bait.clone()];
    for strategy in strategies {
        (strategy.name, strategy.strategy_id) = (bait.clone(), format!("{bait}2"));
        (strategy.concern, strategy.degraded) = (Some(bait.clone()), vec![bait.clone()]);
    }
    decisions.refusals = [By::Check, By::Rule, By::Code]
        .map(|by| Refusal {
            by,
            name: bait.clone(),
            requests: 1,
            alone: 1,
        })
        .into_iter()
        .cycle()
        .take(30)
        .collect();
    holds.iter_mut().for_each(|hold| hold.action = bait.clone());
    proposals.push(ProposalView {
        id: "p-1".to_owned(),
        at: Time::EPOCH,
        by: bait.clone(),
        rule: bait.clone(),
        what: bait.clone(),
        direction: "loosening",
        summary: Some(bait.clone()),
    });
    actions.push(OpenAction {
        id: ActionId(1),
        request_id: RequestId::parse("r").unwrap(),
        source: Principal::parse("bot").unwrap(),
        action: bait.clone(),
        service: ServiceName::parse("bank").unwrap(),
        host: bait.clone(),
        adapter: bait.clone(),
        payload_hash: None,
        signature: None,
        spool: "flat".to_owned(),
        answer: "x".to_owned(),
        also: Vec::new(),
        payload_bytes: 0,
        signed_at: Time::EPOCH,
        begun_at: Time::EPOCH,
    });
    for case in open_cases.iter_mut().chain(cases) {
        (case.case, case.proposer, case.summary) = (bait.clone(), bait.clone(), Some(bait.clone()));
        case.waiting_for = vec![bait.clone()];
        if let Some(decided) = &mut case.decided {
            decided.reasoning = bait.clone();
            (decided.blocking, decided.next_steps) = (vec![bait.clone()], vec![bait.clone()]);
            for seat in &mut decided.seats {
                (seat.role, seat.notes) = (bait.clone(), vec![bait.clone()]);
            }
        }
    }
    for limit in &mut portfolio.limits {
        (limit.of, limit.closed) = (bait.clone(), Some(Cow::Owned(bait.clone())));
    }
    rulebook.fault = Some(bait);
}

#[test]
fn no_text_of_others_is_obeyed() {
    // The demo has a decided case, the desk has waiting requests.
    let demo = Demo::new();
    let seams = spoolgate_home::read::real_seams(&demo.home()).unwrap();
    let decided = collect(&demo.home(), &seams, &Options::default(), &mut |_| {}).unwrap();
    for mut figures in [decided, figures(&busy().place)] {
        spoil(&mut figures);
        let whole = page(&figures, &bait());
        demand_harmless(&whole);
        assert!(whole.len() < 3_000_000, "{} bytes", whole.len());
        assert!(
            whole
                .matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;onload=&quot;")
                .count()
                > 30
        );
        assert!(
            whole.contains("characters in all]") && whole.contains("\\u{202e}desrever\\u{2066}")
        );
        figures.told = None;
        demand_harmless(&page(&figures, &bait()));
    }
}
