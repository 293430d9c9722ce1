//! Tests of what `council/roles.yaml` may and may not contain.

use super::*;

fn changed(from: &str, to: &str) -> Result<Roles, String> {
    assert!(SHIPPED.contains(from), "the shipped file has no `{from}`");
    Roles::read(PATH, &SHIPPED.replacen(from, to, 1)).map_err(|error| error.to_string())
}

#[test]
fn the_shipped_council_is_the_specified_one() {
    let roles = Roles::shipped().unwrap();
    let names = |change| {
        roles
            .required(change)
            .map(|role| role.name.as_str())
            .collect::<Vec<_>>()
    };
    let (qr, ro, ca) = ("Quant Researcher", "Risk Officer", "Code Auditor");
    let (rc, ie) = ("Realism Checker", "Integration Engineer");
    assert_eq!(names(ChangeType::DeclarePass), [qr, ro, ca, rc, ie]);
    assert_eq!(names(ChangeType::FreezeSpec), [qr, ro, ca]);
    assert_eq!(names(ChangeType::UpdateConfig), [ro, ca, ie]);
    assert_eq!(names(ChangeType::CodeRefactor), [ca, ie]);
    let vetoes = ChangeType::ALL.map(|change| roles.change(change).veto_roles.clone());
    assert_eq!(vetoes, [vec![qr, ro, rc], vec![ro], vec![ro], vec![ca]]);
    let artifacts = ChangeType::ALL.map(|change| roles.change(change).required_artifacts.clone());
    let [pass, spec, config, code] = artifacts;
    assert_eq!(pass, ["validation_report", "monte_carlo_stats"]);
    assert_eq!(
        (spec, config, code),
        (
            vec!["spec_content".into()],
            vec!["diff_content".into()],
            vec!["diff_content".into()]
        )
    );
    assert_eq!(
        roles.change(ChangeType::DeclarePass).required_metrics,
        ["total_return", "sharpe", "max_dd", "oos_win_rate"]
    );
    assert_eq!(
        roles.resolve(ro).unwrap().primary_axes,
        [Axis::Applicability, Axis::Assumptions]
    );
    assert_eq!(roles.resolve(rc).unwrap().concern_axis, Axis::Assumptions);
    let covered = |change| {
        Axis::ALL
            .into_iter()
            .filter(|axis| roles.covers(change, *axis))
            .count()
    };
    assert_eq!(ChangeType::ALL.map(covered), [6, 4, 4, 2]);
}

#[test]
fn a_role_is_found_under_every_spelling() {
    let roles = Roles::shipped().unwrap();
    for spelling in [
        "Risk Officer",
        "risk_officer",
        "RISK-OFFICER.",
        "ro",
        " r.o. ",
        "Risk\u{200b}Officer",
    ] {
        assert_eq!(
            roles.resolve(spelling).map(|role| role.name.as_str()),
            Some("Risk Officer"),
            "{spelling}"
        );
    }
    for spelling in ["", "…", "Risk Officers", "R\u{456}sk Officer", "Compliance"] {
        assert!(roles.resolve(spelling).is_none(), "{spelling}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn files_that_must_not_load() {
    let cases = [
        (
            "confidence_floor: 0.6",
            "confidence_flour: 0.6",
            "unknown field `confidence_flour`",
        ),
        (
            "confidence_floor: 0.6",
            "confidence_floor: 1.01",
            "confidence_floor` is `1.01`; use a fraction from 0 to 1",
        ),
        (
            "confidence_floor: 0.6",
            "confidence_floor: -0.1",
            "confidence_floor` is `-0.1`; use a fraction from 0 to 1",
        ),
        (
            "aliases: [CA, Auditor, Code Reviewer]",
            "aliases: [CA, r-o]",
            "two roles are called `r-o`",
        ),
        (
            "aliases: [QR, Quant, Quantitative Researcher]",
            "aliases: [risk officer]",
            "two roles are called `Risk Officer`",
        ),
        (
            "name: Code Auditor",
            "name: Risk Officer",
            "two roles are called `Risk Officer`",
        ),
        (
            "name: Code Auditor",
            "name: \"Code\\u202eAuditor\"",
            "is not the name of a role",
        ),
        (
            "name: Code Auditor",
            "name: \"--\"",
            "is not the name of a role",
        ),
        (
            "primary_axes: [code_correctness]",
            "primary_axes: []",
            "`primary_axes` is empty",
        ),
        (
            "primary_axes: [code_correctness]",
            "primary_axes: [beauty]",
            "unknown variant `beauty`",
        ),
        (
            "primary_axes: [code_correctness]",
            "primary_axes: [implications, implications]",
            "appears twice",
        ),
        (
            "computed: realism_checker",
            "computed: quant_researcher",
            "computed in the same way",
        ),
        (
            "computed: realism_checker",
            "computed: oracle",
            "unknown variant `oracle`",
        ),
        (
            "computed: realism_checker",
            "command: {program: \"\", time_limit_s: 1, output_bytes_max: 1}",
            "`program` is empty",
        ),
        (
            "computed: realism_checker",
            "command: {program: a, time_limit_s: 0, output_bytes_max: 1}",
            "time_limit_s` is `0`",
        ),
        (
            "computed: realism_checker",
            "command: {program: a, time_limit_s: 3601, output_bytes_max: 1}",
            "time_limit_s` is `3601`",
        ),
        (
            "computed: realism_checker",
            "command: {program: a, time_limit_s: 1, output_bytes_max: 1048577}",
            "`output_bytes_max`",
        ),
        (
            "computed: realism_checker",
            "command: {program: a, shell: true, time_limit_s: 1, output_bytes_max: 1}",
            "unknown field `shell`",
        ),
        ("start: 100", "start: 101", "start` is `101`"),
        (
            "start: 100",
            "start: 0",
            "start` is `0`; use a whole number from 1 to 100",
        ),
        ("start: 100", "start: 59", "unsure_below <= 59"),
        (
            "reject: {deduct: 30, cap: 40}",
            "reject: {deduct: 9, cap: 40}",
            "`unsure.deduct` must be at most `reject.deduct`",
        ),
        (
            "reject: {deduct: 30, cap: 40}",
            "reject: {deduct: 30, cap: 51}",
            "`reject.cap` must be at most `absent_cap`",
        ),
        (
            "absent_cap: 50",
            "absent_cap: 61",
            "`absent_cap` must be at most `unsure.cap`",
        ),
        (
            "failed_minor: 10",
            "failed_minor: 21",
            "`failed_minor` must be at most `failed_check`",
        ),
        (
            "{reject_below: 30, unsure_below: 60}",
            "{reject_below: 61, unsure_below: 60}",
            "reject_below <= unsure_below",
        ),
        ("chars_max: 400", "chars_max: 19", "chars_max` is `19`"),
        (
            "significant_below: 40",
            "significant_below: 61",
            "significant_below <= material_below",
        ),
        ("whole: [TODO", "whole: [\"...\"", "word without letters"),
        (
            "line_starts: [",
            "line_starts: [\"\", ",
            "`placeholders: line_starts`",
        ),
        ("  CODE_REFACTOR:", "  MERGE:", "unknown field `MERGE`"),
        ("  FREEZE_SPEC:", "  DECLARE_PASS:", "duplicate"),
        (
            "required_roles: [Code Auditor,",
            "required_roles: [Chair,",
            "names `Chair`, which is not in `roles`",
        ),
        (
            "required_roles: [Code Auditor,",
            "required_roles: [CA, Code Auditor,",
            "names `Code Auditor` twice",
        ),
        (
            "required_roles: [Code Auditor, Integration Engineer]",
            "required_roles: []",
            "nobody would have to approve",
        ),
        (
            "veto_roles: [Code Auditor]",
            "veto_roles: [Risk Officer]",
            "`Risk Officer`, which is not required",
        ),
        ("[spec_content]", "[spec]", "there is no artifact `spec`"),
        (
            "[spec_content]",
            "[spec_content, spec_content]",
            "`spec_content` appears twice",
        ),
        (
            "[spec_content]",
            "[spec_content]\n    floors: [{axis: implications, reject_below: 1, unsure_below: 2}]",
            "no required role",
        ),
        (
            "[spec_content]",
            "[spec_content]\n    floors: [{axis: overfitting, reject_below: 3, unsure_below: 2}]",
            "reject_below <= unsure_below",
        ),
        ("deadline_s: 86400", "deadline_s: 0", "deadline_s` is `0`"),
        (
            "deadline_s: 86400",
            "deadline_s: 7776001",
            "deadline_s` is `7776001`",
        ),
    ];
    for (from, to, expect) in cases {
        let error = changed(from, to).expect_err(to);
        assert!(
            error.starts_with(PATH) && error.contains(expect),
            "{to}: {error}"
        );
    }
    let missing = SHIPPED.split("  CODE_REFACTOR:").next().unwrap();
    let error = Roles::read(PATH, missing).unwrap_err().to_string();
    assert!(error.contains("missing field `CODE_REFACTOR`"), "{error}");
    assert!(
        changed("start: 100", "start: x")
            .unwrap_err()
            .starts_with("council/roles.yaml:"),
        "no line"
    );
}

#[test]
fn floors_and_confidence_of_their_own() {
    let own =
        "[spec_content]\n    floors: [{axis: overfitting, reject_below: 40, unsure_below: 70}]";
    let roles = changed("[spec_content]", own).unwrap();
    let floor = |change, axis| roles.floor(change, axis);
    assert_eq!(
        floor(ChangeType::FreezeSpec, Axis::Overfitting),
        Floor {
            reject_below: 40.try_into().unwrap(),
            unsure_below: 70.try_into().unwrap()
        }
    );
    assert_eq!(
        floor(ChangeType::FreezeSpec, Axis::Assumptions),
        roles.axis_floor
    );
    assert_eq!(
        floor(ChangeType::DeclarePass, Axis::Overfitting),
        roles.axis_floor
    );
    let roles = changed(
        "name: Code Auditor",
        "name: Code Auditor\n    confidence_floor: 0.85",
    )
    .unwrap();
    let of = |name| roles.confidence_floor(roles.resolve(name)).to_string();
    assert_eq!(
        (of("CA"), of("RO"), of("Compliance")),
        ("0.85".into(), "0.6".into(), "0.6".into())
    );
}

#[test]
fn texts_that_count_as_missing() {
    let placeholders = Roles::shipped().unwrap().placeholders;
    for text in [
        "",
        " \n",
        "---",
        "…",
        "\u{200b}",
        "TODO",
        "todo.",
        "N/A",
        "n/a",
        "null",
        "None",
        "{}",
        "[]",
        "\"NaN\"",
        "To be done",
        "[MISSING FILE: report.md]",
        "# Report\n\n  [Missing file: x]\n",
        "TODO: run it",
        "Sharpe 1.2\nTBD",
        "tbd - see below",
        "**TODO**: later",
        "> _tbd_",
        "## TODO",
        "\u{ff34}\u{ff2f}\u{ff24}\u{ff2f}",
        "\u{1d413}\u{1d40e}\u{1d403}\u{1d40e}: later",
        "T\u{41e}DO",
        "[\u{1d40c}issing file: x]",
    ] {
        assert!(placeholders.stand_for_nothing(text), "{text:?}");
    }
    for text in [
        "0",
        "-1",
        "é",
        "none of the tests failed",
        "null hypothesis rejected",
        "TODOs: none are left",
        "+ // TODO: later",
        "| n/a | 1.2 |",
        "missing values were dropped",
        "the file [MISSING] was found",
    ] {
        assert!(!placeholders.stand_for_nothing(text), "{text:?}");
    }
}
