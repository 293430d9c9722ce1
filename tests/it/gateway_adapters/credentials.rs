//! Credentials of services.

use std::convert::Infallible;

use super::*;
use spoolgate_wire::sealed::Disclosure;

const SECRET: &str = "pa$$\"w/örd\\7%41";

/// Runs one task with a credential and this script. Returns the line, with its contents by digest.
/// The script has the credential in `$secret`, as JSON, and in the file `secret`, as it is.
fn with_credential(secret: &str, script: &str) -> (String, Response) {
    let dir = crate::kit::folder();
    fs::write(dir.path().join("secret"), secret).unwrap();
    let rules = rules("sh", &["-c", script], 20, OUTPUT_BYTES_MAX, json!({}));
    let rules = spoolgate_rules::gateway::Gateway::read("rules/gateway.yaml", &rules).unwrap();
    let services = Services::read("rules/services.yaml", SERVICES).unwrap();
    let (id, source) = (
        RequestId::parse("one").unwrap(),
        Principal::parse("core").unwrap(),
    );
    let credential = Credential(secret.to_owned());
    let task = Task {
        request_id: &id,
        source: &source,
        action: FETCH,
        payload: "{}",
        service: &services.services[0],
        credential: Some(&credential),
        home: dir.path(),
        cage: spoolgate_rules::safety::CageLevel::Off,
    };
    let ran = Own.execute(&rules.adapters[0], &task, &AtomicBool::new(false));
    let now = Time::parse("2026-03-02T12:00:00Z").unwrap();
    let open = OpenAction {
        id: ActionId(7),
        request_id: id.clone(),
        source: source.clone(),
        action: FETCH.to_owned(),
        service: services.services[0].service.clone(),
        host: services.services[0].host.clone(),
        adapter: "exec".to_owned(),
        payload_hash: None,
        signature: None,
        spool: ".".to_owned(),
        answer: "out/one.json".to_owned(),
        also: Vec::new(),
        payload_bytes: 2,
        signed_at: now,
        begun_at: now,
    };
    let mut salt = || Ok::<_, Infallible>([7; 16]);
    let (mut line, blobs) = respond(&open, &ran, "rulebook", now, 8, &mut salt).unwrap();
    // Disclosures are base64, so what is searched is what they disclose.
    let mut values = Vec::new();
    for (field, (_, text)) in line.sealed.clone().iter().zip(&blobs) {
        let text = std::str::from_utf8(text).unwrap();
        let opened = Disclosure::open(text, &field.sd).unwrap();
        line.reveal(&field.field, Some(&opened.value));
        values.push(opened.value);
    }
    assert_eq!(
        (values.len(), line.sealed.len()),
        (blobs.len(), blobs.len())
    );
    let everything = format!(
        "{ran:?} {task:?} {line:?} {values:?} {}",
        serde_json::to_string(&line).unwrap()
    );
    (everything, line)
}

/// Returns Python code that has the credential as `secret` and writes JSON.
fn python(body: &str) -> String {
    format!(
        "exec python3 -c '\nimport base64, json, sys, urllib.parse\ntask = \
            json.load(sys.stdin)\nsecret = task[\"credential\"]\n{body}\n'"
    )
}

#[test]
fn a_credential_goes_in_and_never_comes_out() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let used = python(
        r#"print(json.dumps({"success": secret == open("secret").read(), "data": len(secret)}))"#,
    );
    let (_, line) = with_credential(SECRET, &used);
    assert_eq!(
        (line.status, line.data.as_ref().map(|data| data.get())),
        (Status::Success, Some("15")),
        "{line:?}"
    );
    let b64 = r#"base64.b64encode(("user:" + secret).encode()).decode()"#;
    let leaks = [
        r#"print(json.dumps({"success": True, "data": secret}))"#.to_owned(),
        r#"print(json.dumps({"success": True, "data": {"a": [{"headers": "Bearer " + secret}]}}, ensure_ascii=False))"#.to_owned(),
        r#"print(json.dumps({"success": True, "data": {"x" + secret: 1}}))"#.to_owned(),
        r#"print(json.dumps({"success": True, "data": json.dumps({"auth": secret})}))"#.to_owned(),
        r#"print(json.dumps({"success": False, "error": {"code": "AUTH", "message": "refused " + secret}}))"#.to_owned(),
        r#"print(json.dumps({"success": False, "error": {"code": secret, "message": "m"}}))"#.to_owned(),
        r#"print(json.dumps({"success": True, secret: 1}))"#.to_owned(),
        r#"print("{\"success\":true," + json.dumps(secret) + ":1," + json.dumps(secret) + ":2}")"#.to_owned(),
        r#"print(secret)"#.to_owned(),
        r#"print("x" * 20000 + secret)"#.to_owned(),
        format!(r#"print(json.dumps({{"success": True, "data": {b64}}}))"#),
        format!(r#"print(json.dumps({{"success": True, "data": "x" * 10000 + {b64}}}))"#),
        r#"print(json.dumps({"success": True, "data": base64.urlsafe_b64encode(secret.encode()).decode().rstrip("=")}))"#.to_owned(),
        r#"print(json.dumps({"success": True, "data": secret.encode().hex().upper()}))"#.to_owned(),
        r#"print(json.dumps({"success": True, "data": "https://x.example/?k=" + urllib.parse.quote(secret, safe="")}))"#.to_owned(),
        r#"sys.stderr.write("login failed for " + secret); sys.exit(1)"#.to_owned(),
        r#"sys.stderr.write("login failed for " + secret); print(json.dumps({"success": True}))"#.to_owned(),
        r#"raise ValueError(secret)"#.to_owned(),
        r#"sys.stderr.write("-" * 290 + secret + "-" * 5000); sys.exit(1)"#.to_owned(),
    ];
    let forms = [
        SECRET.to_owned(),
        "w/\\u00f6rd".to_owned(),
        "w/örd".to_owned(),
        "cGEkJ".to_owned(),
        "70612424".to_owned(),
        "pa%24%24".to_owned(),
        "pa$$".to_owned(),
        "BhJCQ".to_owned(),
    ];
    for leak in leaks {
        let (everything, line) = with_credential(SECRET, &python(&leak));
        assert_eq!(said(&line).0, "ADAPTER_OUTPUT", "{leak}: {line:?}");
        let note = "its output or its complaint held the credential of the service: nothing of \
            them is kept, and whether it was done is not known";
        assert_eq!(line.note, note);
        assert!(line.data.is_none() && line.data_blob.is_none(), "{leak}");
        for form in &forms {
            assert!(
                !everything.contains(form.as_str()),
                "{leak}: {form} in {everything}"
            );
        }
    }
}

#[test]
fn short_and_long_credentials() {
    let echo = "cat >/dev/null; printf '{\"success\":true,\"data\":\"%s\"}' \"$(cat secret)\"";
    assert_eq!(said(&with_credential("pin4", echo).1).0, "ADAPTER_OUTPUT");
    let hex = r#"cat >/dev/null; echo '{"success":true,"data":"70696e34"}'"#;
    assert_eq!(
        said(&with_credential("pin4", hex).1).0,
        "",
        "of short ones only themselves are looked for"
    );
    // Part of a long credential could be all that is kept of a complaint.
    let long: String = ('a'..='z').cycle().take(4000).collect();
    let (everything, line) = with_credential(&long, "head -c 3000 secret >&2; exit 1");
    assert_eq!(
        (said(&line).0.as_str(), line.note.as_str()),
        ("ADAPTER_CRASHED", "`sh` ended with exit code 1")
    );
    assert!(!everything.contains("abcdef"), "{everything}");
}

/// Escaped, a credential of 480 bytes needs more than the 2 KiB that are kept of a complaint.
#[test]
fn a_complaint_that_is_cut_in_a_credential_is_not_kept() {
    let long = "0123456789abcdef".repeat(30);
    for secret in [long.clone(), format!("someone@example.com:{long}")] {
        for form in ["\\\\u%04x", "&#x%02x;", "&#%d;\u{200b}"] {
            let script = python(&format!(
                r#"s = secret.split(":")[-1]; sys.stderr.write("".join("{form}" % ord(c) for c in s)); sys.exit(3)"#
            ));
            let (everything, line) = with_credential(&secret, &script);
            assert_eq!(said(&line).0, "ADAPTER_OUTPUT", "{form}: {line:?}");
            for start in ["u0030", "x30;", "#48;"] {
                assert!(!everything.contains(start), "{form}: {everything}");
            }
        }
    }
}

#[test]
fn a_credential_is_in_no_argument_and_no_environment() {
    let look = r#"cat >/dev/null; if grep -q -a -e 'örd' /proc/$$/cmdline /proc/$$/environ; then echo no; else echo '{"success":true}'; fi"#;
    // The script itself names a part of it, which would otherwise be found in the script.
    let look = look.replace("örd", "[ö]rd");
    let (_, line) = with_credential(SECRET, &look);
    assert_eq!(said(&line).0, "", "{line:?}");
}
