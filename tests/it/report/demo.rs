//! The page of the demo, compared with its lines.

use super::*;

fn decimal(value: &Value) -> Decimal {
    value
        .as_str()
        .unwrap()
        .parse::<Decimal>()
        .unwrap()
        .normalize()
}

#[test]
fn the_page_of_the_demo_says_what_its_lines_say() {
    let demo = Demo::new();
    let figures = demo.figures(&[]);
    let (told, page) = (
        &figures["told"],
        demo.page(&["--title", "A day & <its> page"]),
    );
    demand_harmless(&page);
    assert!(page.contains("<h1>A day &amp; &lt;its&gt; page</h1>"));
    let mode = fs::metadata(demo.dir.path().join("page.html"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let lines = demo.lines();
    decisions_are_those_of_the_lines(&demo, told, &lines);
    equity_is_that_of_the_lines(told, &lines);
    the_account_is_as_printed(&demo, told, &page);
    ledger_and_council_are_shown(&demo, &figures, &page);
    drawings_are_named(&page);
    a_part_counts_its_own_lines(&demo, told);
}

/// Counts decisions and refusals from the lines alone.
fn decisions_are_those_of_the_lines(demo: &Demo, told: &Value, lines: &[Value]) {
    let (mut fates, mut failed) = (BTreeMap::<&str, u64>::new(), BTreeMap::<String, u64>::new());
    for line in lines {
        if line["kind"] != "decision" || !line["metadata"]["replay_of"].is_null() {
            continue;
        }
        let status = line["status"].as_str().unwrap();
        if line["lane"] == "feed" && status == "success" {
            continue;
        }
        *fates.entry(status).or_default() += 1;
        if status == "rejected" {
            let rows = line["checks"].as_array().into_iter().flatten();
            let mut names: BTreeSet<String> = rows
                .filter(|row| row["passed"] == false && row["follows_from"].is_null())
                .map(|row| row["name"].as_str().unwrap().to_owned())
                .collect();
            if names.is_empty() {
                names.insert(line["metadata"]["code"].as_str().unwrap().to_owned());
            }
            names
                .into_iter()
                .for_each(|name| *failed.entry(name).or_default() += 1);
        }
    }
    let total = &told["decisions"]["total"];
    assert_eq!(
        (&total["accepted"], &total["refused"]),
        (&json!(fates["success"]), &json!(fates["rejected"]))
    );
    assert_eq!(total["held"], 0);
    let told_failed: BTreeMap<String, u64> = told["decisions"]["refusals"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap().to_owned(),
                row["requests"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(told_failed, failed);
    let queried = spoolgate(
        &demo.home(),
        &[
            "--format",
            "json",
            "audit",
            "query",
            "--verdict",
            "rejected",
            "--kind",
            "decision",
        ],
    );
    let queried = String::from_utf8(queried.stdout).unwrap().lines().count() as u64;
    assert_eq!(total["refused"], json!(queried));
    let hours = told["decisions"]["stretches"].as_array().unwrap();
    let of_hours: u64 = hours
        .iter()
        .map(|hour| hour["refused"].as_u64().unwrap())
        .sum();
    assert_eq!(
        (told["decisions"]["stretch_ms"].as_u64(), of_hours),
        (Some(3_600_000), fates["rejected"])
    );
}

/// Computes the equity after every line: deposits, fills, and the bid of the last quote.
fn equity_is_that_of_the_lines(told: &Value, lines: &[Value]) {
    let by_line = equity_by_line(lines);
    let points = told["history"]["points"].as_array().unwrap();
    assert!(points.len() > 100, "{}", points.len());
    for point in points {
        let expect = by_line[&point["line"].as_u64().unwrap()];
        assert_eq!(
            decimal(&point["equity"]),
            expect.normalize(),
            "line {}",
            point["line"]
        );
    }
    let is_funding = |line: &&Value| line["changes"].to_string().contains("AccountAdjusted");
    let funded = lines.iter().find(is_funding).unwrap()["seq"]
        .as_u64()
        .unwrap();
    let lowest = by_line
        .range(funded..)
        .map(|(_, equity)| *equity)
        .min()
        .unwrap();
    assert!(
        points
            .iter()
            .any(|point| decimal(&point["equity"]) == lowest.normalize()),
        "the lowest is shown"
    );
}

/// Compares the account with what the demo prints at its last moment.
fn the_account_is_as_printed(demo: &Demo, told: &Value, page: &str) {
    let portfolio = &demo.printed["portfolio"];
    for name in [
        "equity",
        "cash",
        "realised",
        "fees",
        "day_pnl",
        "peak_equity",
        "exposure",
        "open_risk",
    ] {
        let value = decimal(&portfolio[name]);
        assert_eq!(decimal(&told["portfolio"][name]), value, "{name}");
        assert!(
            page.contains(&format!("{value}</dd>")) || page.contains(&format!("+{value}</dd>")),
            "{name}"
        );
    }
    let position = &portfolio["positions"][0]["stops"][0];
    assert!(page.contains(&format!(
        "at {} ({})",
        position["trigger"].as_str().unwrap(),
        position["order_id"].as_str().unwrap()
    )));
    let points = told["history"]["points"].as_array().unwrap();
    let last = decimal(&points.last().unwrap()["equity"]);
    assert_eq!(last, decimal(&portfolio["equity"]));
}

fn ledger_and_council_are_shown(demo: &Demo, figures: &Value, page: &str) {
    let told = &figures["told"];
    for text in [
        figures["ledger"]["root"].as_str().unwrap(),
        figures["ledger"]["head"].as_str().unwrap(),
    ] {
        assert!(page.contains(text));
    }
    assert_eq!(figures["ledger"]["root"], demo.printed["ledger"]["root"]);
    assert_eq!(told["cases"][0]["decided"]["axes"][4]["score"], json!(2.0));
    for text in [
        "2.0, rejects",
        "4.0, too low",
        "Risk Officer</bdi>, <bdi>Code Auditor</bdi>, <bdi>Integration Engineer",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let anchors = [
        "waiting",
        "account",
        "positions",
        "decisions",
        "rules",
        "council",
        "strategies",
        "ledger",
    ];
    anchors
        .iter()
        .for_each(|id| assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}"));
}

/// Every drawing that is not just an ornament has a name, and its numbers are beside it.
fn drawings_are_named(page: &str) {
    let drawings: Vec<Tag> = tags(page)
        .into_iter()
        .filter(|tag| tag.name == "svg")
        .collect();
    let has = |tag: &Tag, key: &str| tag.attributes.iter().any(|(name, _)| name == key);
    assert!(
        drawings
            .iter()
            .all(|tag| has(tag, "aria-hidden") != has(tag, "aria-labelledby"))
    );
    let named = drawings
        .iter()
        .filter(|tag| has(tag, "aria-labelledby"))
        .count();
    assert_eq!(named, 6, "equity, drawdown, three lanes, a radar");
    assert_eq!(page.matches("<title id=").count(), named);
    assert!(page.matches("<details class=\"numbers\">").count() >= 5);
}

/// A part of the day counts its own lines, and shows the present state as before.
fn a_part_counts_its_own_lines(demo: &Demo, told: &Value) {
    let total = &told["decisions"]["total"];
    let points = told["history"]["points"].as_array().unwrap();
    let part = demo.figures(&[
        "--since",
        "2018-04-05T09:00:00Z",
        "--until",
        "2018-04-05T22:20:00Z",
    ]);
    let wanted = |point: &&Value| {
        ("2018-04-05T09:00:00.000Z".."2018-04-05T22:20:00.000Z")
            .contains(&point["time"].as_str().unwrap())
    };
    let expect: Vec<&Value> = points.iter().filter(wanted).collect();
    assert_eq!(
        part["told"]["history"]["points"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>(),
        expect
    );
    assert_eq!(part["told"]["portfolio"], told["portfolio"]);
    assert!(part["told"]["decisions"]["total"]["refused"].as_u64() < total["refused"].as_u64());
}

/// Returns the equity after every line, folded by hand: deposits, fills, and the newest quote.
fn equity_by_line(lines: &[Value]) -> BTreeMap<u64, Decimal> {
    let (mut cash, mut bid, mut ask) = (Decimal::ZERO, Decimal::ZERO, Decimal::ZERO);
    let mut sizes: BTreeMap<&str, Decimal> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for line in lines {
        for change in line["changes"].as_array().into_iter().flatten() {
            let book = &change["Book"];
            if let Some(moved) = book["AccountAdjusted"].as_object() {
                cash += decimal(&moved["amount"]);
            }
            if let Some(fill) = book["OrderFilled"].as_object() {
                let sign = if fill["side"] == "buy" {
                    Decimal::ONE
                } else {
                    -Decimal::ONE
                };
                let filled = decimal(&fill["size"]) * sign;
                cash -= filled * decimal(&fill["price"]) + decimal(&fill["fee"]);
                *sizes.entry(fill["strategy"].as_str().unwrap()).or_default() += filled;
            }
            if let Some(quote) = book["MarketMoved"]["quote"].as_object() {
                (bid, ask) = (decimal(&quote["bid"]), decimal(&quote["ask"]));
            }
        }
        // The price at which a position would be closed: longs at the bid, shorts at the ask.
        let worth = sizes
            .values()
            .map(|size| *size * if *size > Decimal::ZERO { bid } else { ask });
        found.insert(line["seq"].as_u64().unwrap(), cash + worth.sum::<Decimal>());
    }
    found
}
