//! Rule files: schemas and readers refuse the same, and the files name their schema.

use super::*;

/// Returns the schema that the first line of a YAML file names.
fn header(path: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(path).unwrap();
    let named = text
        .lines()
        .next()?
        .strip_prefix("# yaml-language-server: $schema=")?;
    Some(path.parent().unwrap().join(named))
}

fn check_headers(root: &Path, folders: &[&str], least: usize) {
    let files = folders.iter().flat_map(|folder| below(&root.join(folder)));
    let yaml: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        .collect();
    assert!(
        yaml.len() >= least,
        "only {} YAML files below {}",
        yaml.len(),
        root.display()
    );
    for path in yaml {
        let named = header(&path)
            .unwrap_or_else(|| panic!("{} names no schema in its first line", path.display()));
        let schema: Value = serde_json::from_slice(
            &fs::read(&named)
                .unwrap_or_else(|_| panic!("{}: there is no {}", path.display(), named.display())),
        )
        .unwrap();
        let value: Value = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let judge = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> = judge
            .iter_errors(&value)
            .map(|error| error.to_string())
            .collect();
        assert!(faults.is_empty(), "{}: {faults:?}", path.display());
        let of = named.file_stem().unwrap().to_str().unwrap().to_owned();
        let file = path.file_stem().unwrap().to_str().unwrap();
        let is_own = !of.starts_with("rules.") || schemas::text(&format!("rules.{file}")).is_none();
        assert!(
            is_own || of == format!("rules.{file}"),
            "{} names the schema `{of}`",
            path.display()
        );
    }
}

#[test]
fn yaml_files_name_their_schema_and_are_valid_here_and_in_a_new_home() {
    check_headers(
        &root(""),
        &[
            "rules",
            "council",
            "examples/assistant/rules",
            "examples/proposals",
            "examples/notify",
        ],
        40,
    );
    let scratch = crate::kit::folder();
    let home = scratch.path().join("home");
    let done = program(&["init", home.to_str().unwrap()]);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    check_headers(&home, &["rules", "council"], 9);
    for (path, text) in theses() {
        let front = text.split("---\n").nth(1).unwrap();
        let value: Value = serde_yaml::from_str(front).unwrap();
        assert!(judge("proposals.thesis").is_valid(&value), "{path}");
    }
}

fn theses() -> Vec<(String, String)> {
    let files = below(&root("proposals/theses")).into_iter();
    files
        .map(|path| {
            (
                format!(
                    "proposals/theses/{}",
                    path.file_name().unwrap().to_str().unwrap()
                ),
                fs::read_to_string(path).unwrap(),
            )
        })
        .collect()
}

/// Returns the rule files of this repository, by their path in a home.
fn bundle() -> BTreeMap<String, String> {
    let mut files: BTreeMap<String, String> = theses().into_iter().collect();
    for folder in ["rules", "council"] {
        for path in below(&root(folder))
            .iter()
            .filter(|path| path.extension().is_some_and(|it| it == "yaml"))
        {
            let name = path
                .strip_prefix(root(""))
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            if !name.starts_with("rules/tests/") {
                files.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    files
}

/// Returns whether the gate accepts a rule file among the others.
fn file_reader(files: &BTreeMap<String, String>, path: &str, text: String) -> Result<(), String> {
    // Files with a reader of their own do not need the others, with which reading is much slower.
    let read = match path {
        _ if path.starts_with("rules/tests/") => {
            return golden::read(path, &text)
                .map(drop)
                .map_err(|faults| faults[0].to_string());
        }
        _ if path.starts_with("rules/sets/") => NamedSet::compile(path, &text).map(drop),
        _ if path.starts_with("rules/admission/") => Policy::read(path, &text).map(drop),
        approval::PATH => {
            let list = format!("a@x {KEY}");
            let signers = Signers::read(&list).unwrap();
            Approval::read(path, &text, Some(&signers)).map(drop)
        }
        "rules/rates.yaml" => Rates::read(path, &text).map(drop),
        "rules/notify.yaml" => Notify::read(path, &text).map(drop),
        "rules/retention.yaml" => Retention::read(path, &text).map(drop),
        "rules/gateway.yaml" => Gateway::read(path, &text).map(drop),
        "rules/services.yaml" => Services::read(path, &text).map(drop),
        "council/roles.yaml" => Roles::read(path, &text).map(drop),
        _ => return compiled(files, path, text),
    };
    read.map_err(|error| error.to_string())
}

fn compiled(files: &BTreeMap<String, String>, path: &str, text: String) -> Result<(), String> {
    let mut files = files.clone();
    files.insert(path.to_owned(), text);
    Rulebook::compile(&Bundle { files })
        .map(drop)
        .map_err(|error| error.to_string())
}

const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICyg3PYERNsWi/Gt8LS5dZTCrLn7cm55zAqgt/KY6HCM";

/// Rule files that the repository does not have, or not with every member.
const FILES: &[(&str, &str, &str)] = &[
    (
        "rules.rates",
        "rules/rates.yaml",
        "spool: {requests_per_minute: 5, bytes_per_minute: 6, flat: {requests_per_minute: 1, \
            bytes_per_minute: 2}, principals: []}",
    ),
    (
        "rules.approval",
        approval::PATH,
        "enforce: gate\ntouch: pin\nareas: [{name: a, files: [rules/core, rules/safety.yaml], \
            approvers: [a@x], need: 1}, {name: rest, files: [''], approvers: [a@x], need: 1}]",
    ),
    (
        "rules.notify",
        "rules/notify.yaml",
        "to: [{name: phone, on: [all], program: p, args: [a], time_limit_s: 5, output_bytes_max: 6, \
            read: [r], write: [w], memory_bytes_max: 1073741824, unix_sockets: \
            true}]\ncommand: {program: /bin/true, args: [a], time_limit_s: 5, output_bytes_max: 6}",
    ),
    (
        "rules.retention",
        "rules/retention.yaml",
        "outgoing_answers_s: 86400",
    ),
    (
        "rules.gateway",
        "rules/gateway.yaml",
        "adapters: [{actions: [email.send], adapter: exec, command: {program: p, time_limit_s: 1, \
            output_bytes_max: 1}, at_once: 2}]\nworkers: 3\nopen_max: 4\nrates: {per_hour: \
            {email.send: 3}, all_per_hour: 9}\nanomalies: {burst_max: 1, burst_window_s: 2, \
            payload_bytes_max: 3}",
    ),
    (
        "rules.services",
        "rules/services.yaml",
        "services: [{service: mail, host: smtp.example.com, port: 465, protocol: smtp, methods: \
            [GET], actions: [email.send], added_at: '2026-01-01T00:00:00Z', added_by: owner, \
            is_active: true}]",
    ),
    ("rules.safety", "rules/safety.yaml", ""),
    ("rules.principals", "rules/principals.yaml", ""),
    ("rules.instruments", "rules/instruments.yaml", ""),
    ("rules.strategy", "rules/strategies/trend.yaml", ""),
    ("rules.rule", "rules/core/worth-the-risk.yaml", ""),
    ("rules.rule", "rules/active/no-longs-into-funding.yaml", ""),
    ("rules.set", "rules/sets/majors.yaml", ""),
    ("rules.tests", "rules/tests/entries.yaml", ""),
    (
        "rules.admission",
        "rules/admission/research/agents/default.yaml",
        "",
    ),
    ("council.roles", "council/roles.yaml", ""),
];

/// Returns the value with its fractions as texts: JSON would write small ones with an exponent.
fn in_digits(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!(number.as_f64().unwrap().to_string()),
        Value::Array(items) => items.into_iter().map(in_digits).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(key, inner)| (key, in_digits(inner)))
            .collect(),
        other => other,
    }
}

/// The approximate number of changes that are tried for each file.
const TRIES: usize = 250;

/// Whether the only fault is that a bare YAML 7 or true is in the place of a text: the reader takes
/// its letters.
fn is_bare(judge: &Validator, value: &Value) -> bool {
    judge.iter_errors(value).all(|error| {
        let is_scalar = matches!(
            error.instance().as_ref(),
            Value::Number(_) | Value::Bool(_) | Value::Null
        );
        is_scalar
            && (error.to_string().contains("string") || error.to_string().contains("is not one of"))
    })
}

#[test]
fn rule_files_are_refused_by_their_reader_where_their_schema_refuses_them() {
    let files = bundle();
    assert_eq!(
        Rulebook::compile(&Bundle {
            files: files.clone()
        })
        .map(drop),
        Ok(())
    );
    let mut faults = BTreeSet::new();
    let mut refused = 0;
    for (name, path, text) in FILES {
        let shipped = fs::read_to_string(root(path)).unwrap_or_default();
        let value =
            in_digits(serde_yaml::from_str(if text.is_empty() { &shipped } else { text }).unwrap());
        let judge = judge(name);
        assert!(judge.is_valid(&value), "{path}");
        assert_eq!(
            file_reader(&files, path, value.to_string()),
            Ok(()),
            "{path}"
        );
        let all = mutants(&value);
        // Every file has as many tries: the step is odd, so that no kind of change is always
        // skipped.
        let step = (all.len() / TRIES) | 1;
        for mutant in all.into_iter().step_by(step) {
            let is_valid = judge.is_valid(&mutant);
            if !is_valid && is_bare(&judge, &mutant) {
                continue;
            }
            let read = file_reader(&files, path, mutant.to_string());
            if is_valid {
                if let Err(why) = read
                    && condition(name, &why).is_none()
                {
                    let end: String = why.chars().take(200).collect();
                    faults.insert(format!("{name}: valid, but {end}"));
                }
                continue;
            }
            refused += 1;
            if read.is_ok() {
                let why: Vec<String> = judge
                    .iter_errors(&mutant)
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                faults.insert(
                    format!("{path}: taken, but not valid: {why:?}")
                        .chars()
                        .take(400)
                        .collect::<String>(),
                );
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(refused > 1000, "only {refused} files were refused");
}
