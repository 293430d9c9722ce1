//! Forged lines of special kinds: rotations and the first lines of segments.

use super::*;

#[test]
fn a_line_in_a_place_where_its_kind_cannot_be() {
    let old = || small().1.keys;
    sound(
        &Two::new().segment().seal().end(old()),
        "a file without a rotation",
    );
    sound(
        &Two::new()
            .segment()
            .rotate()
            .seal()
            .add("stop", &stop(1))
            .seal()
            .end(new_keys()),
        "a rotation",
    );
    let cases: Vec<(&str, usize, Two, LogKeys)> = vec![
        (
            "a line between a rotation and its seal",
            2,
            { Two::new().segment().rotate().add("stop", &stop(1)).seal() },
            new_keys(),
        ),
        (
            "an admin line there",
            2,
            {
                let body = "{\"timestamp\":\"2026-03-02T12:00:00.000Z\"}";
                Two::new().segment().rotate().add("admin", body).seal()
            },
            new_keys(),
        ),
        (
            "a rotation third",
            2,
            Two::new().segment().add("stop", &stop(1)).rotate().seal(),
            new_keys(),
        ),
        (
            "a rotation behind a seal",
            2,
            Two::new().segment().seal().rotate().seal(),
            new_keys(),
        ),
        (
            "two rotations",
            2,
            Two::new().segment().rotate().rotate().seal(),
            new_keys(),
        ),
        (
            "a rotation first",
            0,
            Two::new().rotate().seal(),
            new_keys(),
        ),
        (
            "another line first",
            0,
            Two::new().add("stop", &stop(1)).seal(),
            old(),
        ),
        ("a seal first", 0, Two::new().seal(), old()),
    ];
    for (what, line, two, keys) in cases {
        let forged = two.end(keys);
        let at = offset_of(forged.segment(2), line);
        for (strict, threads) in [(false, 1), (false, 3), (true, 1)] {
            let report = report(&forged, strict, false, threads);
            assert!(!report.ok, "{what}: verifies");
            if line > 0 && !strict {
                assert_eq!(
                    report.problems[0].offset, at as u64,
                    "{what}: {:?}",
                    report.problems
                );
            }
        }
        not_opened(&forged, what);
    }
}

/// Reading the records finds these; opening the file alone does not read the content of lines.
#[test]
fn the_line_that_begins_a_file_is_nowhere_else() {
    let lines = lines_of(small().1.segment(1));
    let genesis = Scribe::parts(&lines[0]).1;
    for (what, kind, body) in [
        ("a genesis line", "genesis", genesis),
        ("a segment line", "segment", Two::new().told()),
    ] {
        for number in [1_usize, 3] {
            let (_place, files, _) = small();
            let mut scribe = Scribe::new(&files.signer());
            scribe.copy(&lines[..number], &|_, _| {});
            scribe.add(kind, &body);
            let at = scribe.at;
            scribe.seal();
            let forged = files.with_segment(1, scribe.bytes).without_checkpoint();
            for threads in [1, 3] {
                let report = report(&forged, false, false, threads);
                assert!(
                    !report.ok && report.problems[0].offset == at as u64,
                    "{what}: {:?}",
                    report.problems
                );
            }
            assert!(!report(&forged, false, true, 1).ok, "{what}: by links");
        }
    }
}

/// A rotate line at the very end of a piece: the thread that checks the next line has not read it.
#[test]
fn a_line_after_a_rotation_that_ends_a_piece() {
    let padded = |what: &str, seal_at_once: bool| {
        let mut two = Two::new();
        let told = two.told();
        // White space is valid JSON, and where the spelling is not checked the line counts.
        let wide = told.replacen("\"rest\"", &format!("{}\"rest\"", " ".repeat(64_700)), 1);
        two.scribe.add("segment", &wide);
        two = two.rotate();
        assert!(
            two.scribe.at < PIECE_BYTES && two.scribe.bytes.len() >= PIECE_BYTES,
            "{what}: {}",
            two.scribe.at
        );
        if !seal_at_once {
            two = two.add("stop", &stop(1));
        }
        two.seal().add("stop", &stop(60_000)).seal().end(new_keys())
    };
    let good = padded("good", true);
    for threads in [1, 2, 3] {
        assert!(
            report(&good, false, false, threads).ok,
            "{:?}",
            report(&good, false, false, threads).problems
        );
    }
    let forged = padded("forged", false);
    let at = offset_of(forged.segment(2), 2);
    for threads in [1, 2, 3] {
        let report = report(&forged, false, false, threads);
        assert!(
            !report.ok && report.problems[0].offset == at as u64,
            "{threads}: {:?}",
            report.problems
        );
    }
    not_opened(&forged, "behind a rotation that ends a piece");
}

/// Every reader reads the lines about keys and files strictly.
#[test]
fn special_lines_that_are_not_strict_json() {
    type Spell = (&'static str, fn(&str) -> String);
    let spellings: [Spell; 4] = [
        ("a member twice", |body| {
            let at = body.rfind('}').unwrap();
            format!("{},\"x\":1,\"x\":1}}", &body[..at])
        }),
        ("a comma more", |body| {
            format!("{},}}", body.strip_suffix('}').unwrap())
        }),
        ("something that is no JSON", |body| {
            body.replacen("\":", "\" 7:", 1)
        }),
        ("a member nobody knows", |body| {
            format!("{},\"x\":1}}", body.strip_suffix('}').unwrap())
        }),
    ];
    for (what, spell) in spellings {
        let (_place, files, _) = small();
        let lines = lines_of(files.segment(1));
        let mut scribe = Scribe::new(&files.signer());
        scribe.add("genesis", &spell(&Scribe::parts(&lines[0]).1));
        scribe.copy(&lines[1..], &|_, _| {});
        refused(
            &files.with_segment(1, scribe.bytes).without_checkpoint(),
            (1, 0),
            &format!("genesis, {what}"),
        );

        let mut two = Two::new();
        let told = spell(&two.told());
        two.scribe.add("segment", &told);
        let forged = two.seal().end(small().1.keys);
        for threads in [1, 3] {
            let report = report(&forged, false, false, threads);
            assert!(
                !report.ok && report.problems[0].file == segment::file_name(2),
                "segment, {what}"
            );
        }
        not_opened(&forged, &format!("segment, {what}"));

        // Sealed with either key: a reader that does not recognise the rotation continues with the
        // old key.
        for by_new in [false, true] {
            let mut two = Two::new().segment();
            let rotation = spell(&two.rotation());
            two.scribe.add("rotate", &rotation);
            let at = two.scribe.at;
            let keys = if by_new {
                new_keys()
            } else {
                two.files.keys.clone()
            };
            two.scribe.seal_key = layout::log_signer(ORIGIN, &keys).unwrap().seal;
            refused(
                &two.seal().end(keys),
                (2, at),
                &format!("rotate, {what}, {by_new}"),
            );
        }
    }
}
