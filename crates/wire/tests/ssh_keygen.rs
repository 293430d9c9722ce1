//! Compares the reader of SSH signatures with `ssh-keygen -Y verify`, over generated lists of
//! signers and signatures. `SPOOLGATE_WHOLE=1` compares 500 pairs instead of a sample.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests: a panic is a failure; this one runs ssh-keygen"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signer as _, SigningKey};
use sha2::{Digest, Sha256, Sha512};
use spoolgate_wire::sshsig::{SignatureError, SignerFault, Signers, Token};
use spoolgate_wire::time::Time;

const MESSAGE: &[u8] = b"max_drawdown: 0.05\n";
/// The time of all verifications, for this program and for ssh-keygen.
const NOW: [&str; 2] = ["2026-03-02T12:00:00Z", "20260302120000Z"];
const IDENTITIES: [&str; 3] = ["ann", "ben", "eve@x.example"];

/// Xorshift, so that a failure can be repeated by its number.
struct Random(u64);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % count
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// One of the usual values three times in four, otherwise one of the others.
    fn usually<'a>(&mut self, usual: &[&'a str], others: &[&'a str]) -> &'a str {
        let is_usual = self.below(4) > 0;
        self.of(if is_usual { usual } else { others })
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
    out.extend(text);
}

/// A private key, in software or in an imitated token.
struct Key {
    secret: SigningKey,
    application: Option<&'static str>,
}

/// How a signature is made.
#[derive(Clone, Debug)]
struct Form {
    namespace: &'static str,
    hash: &'static str,
    flags: u8,
    /// The flags that the file shows, if others than the token signed.
    shown_flags: Option<u8>,
    armor: Armor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armor {
    Plain,
    Crlf,
    BlankBefore,
    Bom,
    NoEnd,
    OneLine,
    Indented,
    /// ssh ignores what follows the last line; this program does not.
    JunkBehind,
    Damaged,
    TrailingByte,
}

impl Key {
    fn new(seed: u8, application: Option<&'static str>) -> Key {
        Key {
            secret: SigningKey::from_bytes(&[seed; 32]),
            application,
        }
    }

    fn key_type(&self) -> &'static str {
        match self.application {
            Some(_) => "sk-ssh-ed25519@openssh.com",
            None => "ssh-ed25519",
        }
    }

    fn blob(&self) -> Vec<u8> {
        let mut blob = Vec::new();
        push_text(&mut blob, self.key_type().as_bytes());
        push_text(&mut blob, self.secret.verifying_key().as_bytes());
        if let Some(application) = self.application {
            push_text(&mut blob, application.as_bytes());
        }
        blob
    }

    fn line(&self) -> String {
        format!("{} {}", self.key_type(), STANDARD.encode(self.blob()))
    }

    /// Signs as PROTOCOL.sshsig and PROTOCOL.u2f of OpenSSH say.
    fn sign(&self, message: &[u8], form: &Form) -> String {
        let hash = match form.hash {
            "sha256" => Sha256::digest(message).to_vec(),
            _ => Sha512::digest(message).to_vec(),
        };
        let mut signed = b"SSHSIG".to_vec();
        for field in [form.namespace.as_bytes(), b"", form.hash.as_bytes(), &hash] {
            push_text(&mut signed, field);
        }
        let counter = 7_u32.to_be_bytes();
        if let Some(application) = self.application {
            let inner = Sha256::digest(&signed);
            signed = Sha256::digest(application).to_vec();
            signed.push(form.flags);
            signed.extend(counter);
            signed.extend(inner);
        }
        let mut signature = Vec::new();
        push_text(&mut signature, self.key_type().as_bytes());
        push_text(&mut signature, &self.secret.sign(&signed).to_bytes());
        if self.application.is_some() {
            signature.push(form.shown_flags.unwrap_or(form.flags));
            signature.extend(counter);
        }
        let mut file = b"SSHSIG\0\0\0\x01".to_vec();
        for field in [
            self.blob().as_slice(),
            form.namespace.as_bytes(),
            b"",
            form.hash.as_bytes(),
            &signature,
        ] {
            push_text(&mut file, field);
        }
        armored(file, form.armor)
    }
}

fn armored(mut bytes: Vec<u8>, armor: Armor) -> String {
    match armor {
        Armor::Damaged => *bytes.iter_mut().rev().nth(20).unwrap() ^= 1,
        Armor::TrailingByte => bytes.push(0),
        _ => {}
    }
    let body = STANDARD.encode(bytes);
    let width = if armor == Armor::OneLine {
        body.len()
    } else {
        70
    };
    let lines: Vec<&str> = body
        .as_bytes()
        .chunks(width)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let between = if armor == Armor::Indented {
        " \n\t "
    } else {
        "\n"
    };
    let body = lines.join(between);
    let plain = format!("-----BEGIN SSH SIGNATURE-----\n{body}\n-----END SSH SIGNATURE-----\n");
    match armor {
        Armor::Plain | Armor::OneLine | Armor::Indented | Armor::Damaged | Armor::TrailingByte => {
            plain
        }
        Armor::Crlf => plain.replace('\n', "\r\n"),
        Armor::BlankBefore => format!("\n{plain}"),
        Armor::Bom => format!("\u{feff}{plain}"),
        Armor::NoEnd => plain.trim_end().trim_end_matches('-').to_owned(),
        Armor::JunkBehind => format!("{plain}x\n"),
    }
}

fn good() -> Form {
    Form {
        namespace: "spoolgate",
        hash: "sha512",
        flags: 1,
        shown_flags: None,
        armor: Armor::Plain,
    }
}

fn form(random: &mut Random) -> Form {
    const ARMOR: [Armor; 9] = [
        Armor::Crlf,
        Armor::BlankBefore,
        Armor::Bom,
        Armor::NoEnd,
        Armor::OneLine,
        Armor::Indented,
        Armor::JunkBehind,
        Armor::Damaged,
        Armor::TrailingByte,
    ];
    let namespaces: &[&'static str] = &["git", "spoolgat", ""];
    let hashes: &[&'static str] = &["sha1", "SHA512"];
    let flags = [0, 1, 4, 5][random.below(4)];
    let is_usual = |random: &mut Random| random.below(5) > 0;
    Form {
        namespace: if is_usual(random) {
            "spoolgate"
        } else {
            namespaces[random.below(namespaces.len())]
        },
        hash: if is_usual(random) {
            ["sha512", "sha256"][random.below(2)]
        } else {
            hashes[random.below(hashes.len())]
        },
        flags,
        shown_flags: (random.below(8) == 0).then_some(flags ^ 1),
        armor: if is_usual(random) {
            Armor::Plain
        } else {
            ARMOR[random.below(ARMOR.len())]
        },
    }
}

const OPTIONS: [&str; 10] = [
    "namespaces=\"spoolgate\"",
    "NameSpaces=\"git,spool*\"",
    "namespaces=\"*,!git\"",
    "valid-after=\"20260302120000Z\"",
    "valid-before=\"20260302120000Z\"",
    "valid-after=\"20260302\",valid-before=\"20260303\"",
    "valid-before=\"202701011200Z\",namespaces=\"spoolgate\"",
    "namespaces=\"a\\\"b,spoolgate\"",
    "namespaces=\"a b,spoolgate\"",
    "valid-after=\"20250101Z\"",
];

/// Options that ssh refuses, or that keep the key from counting.
const WRONG: [&str; 19] = [
    "namespaces=spoolgate",
    "namespaces=\"spoolgate\",",
    "namespaces=\"spoolgate",
    "namespaces=\"!spoolgate,*\"",
    "namespaces=\"\"",
    "namespaces=\" spoolgate\"",
    "namespaces=\"git\",namespaces=\"spoolgate\"",
    "namespaces=\"git\"valid-after=\"20250101Z\"",
    "namespaces",
    "cert-authority",
    "CERT-AUTHORITY,namespaces=\"spoolgate\"",
    "no-touch-required",
    "valid-after=20250101Z",
    "valid-after=\"20260302120001Z\"",
    "valid-before=\"20260302115959Z\"",
    "valid-before=\"20250101\",valid-after=\"20260101\"",
    "valid-before=\"20260101\",valid-after=\"20260101\"",
    "valid-after=\"19700101Z\"",
    "valid-after=\"2026\"",
];

/// Returns a line of a list, without its end.
fn line(random: &mut Random, identity: &str, key: &Key) -> String {
    let options = match random.below(5) {
        0 | 1 => "",
        2 | 3 => random.of(&OPTIONS),
        _ => random.of(&WRONG),
    };
    let blank = random.usually(&[" "], &["\t", "  "]);
    let lead = random.usually(&[""], &[" ", "\t"]);
    let key = match random.below(32) {
        0 => format!("{}=", key.line()),
        1 => key.line().replace(' ', "\t"),
        2 => key.line().replacen("ssh-ed25519", "ssh-rsa", 1),
        3 => format!("{}A", key.line()),
        4 => key.key_type().to_owned(),
        5 => key.line().replacen("ssh-", "shh-", 1),
        _ => key.line(),
    };
    let comment = random.usually(&["", " ann at work"], &[" \"x", "\t", " # x"]);
    let options = if options.is_empty() {
        String::new()
    } else {
        format!("{options}{blank}")
    };
    format!("{lead}{identity}{blank}{options}{key}{comment}")
}

/// Asks ssh-keygen whether the signature is by this identity of the list.
fn ssh_accepts(folder: &Path, list: &str, signature: &str, message: &[u8], who: &str) -> bool {
    let [of_list, of_signature, of_message] = ["list", "sig", "message"].map(|it| folder.join(it));
    fs::write(&of_list, list).unwrap();
    fs::write(&of_signature, signature).unwrap();
    fs::write(&of_message, message).unwrap();
    let done = Command::new("ssh-keygen")
        .env("TZ", "UTC")
        .args(["-Y", "verify", "-n", "spoolgate", "-I", who, "-O"])
        .arg(format!("verify-time={}", NOW[1]))
        .arg("-f")
        .arg(&of_list)
        .arg("-s")
        .arg(&of_signature)
        .stdin(Stdio::from(File::open(&of_message).unwrap()))
        .output()
        .unwrap();
    done.status.success()
}

fn has_ssh_keygen() -> bool {
    let found = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !found {
        eprintln!("skipped: there is no ssh-keygen");
    }
    found
}

fn keys() -> [Key; 5] {
    [
        Key::new(1, None),
        Key::new(2, None),
        Key::new(3, Some("ssh:")),
        Key::new(4, Some("ssh:work")),
        Key::new(5, None),
    ]
}

fn now() -> Time {
    Time::parse(NOW[0]).unwrap()
}

/// A generated list: for each line of a key its identity, itself, and the number of the key.
struct List {
    lines: Vec<(String, String, usize)>,
    text: String,
}

impl List {
    fn new(random: &mut Random, keys: &[Key]) -> List {
        let mut lines = Vec::new();
        for _ in 0..=random.below(3) {
            let key = random.below(keys.len());
            // A key usually has one identity, so that most lists are good.
            let own = IDENTITIES[key % 3];
            let others = [
                "ann",
                "ben",
                "ann,ben",
                "*",
                "!ann,*",
                "\"ann\"",
                "an?",
                "\u{a0}ann",
            ];
            let identity = if random.below(8) > 0 {
                own
            } else {
                random.of(&others)
            };
            let line = line(random, identity, &keys[key]);
            lines.push((identity.to_owned(), line, key));
        }
        let end = random.usually(&["\n"], &["\r\n"]);
        let first = random.usually(
            &["", "# keys\n\n"],
            &["\u{feff}", " \r\n", "\t# x\n", "ann\n"],
        );
        let mut text = first.to_owned();
        for (_, line, _) in &lines {
            text.push_str(line);
            text.push_str(end);
        }
        List { lines, text }
    }
}

/// Compares both programs about one list and one signature; returns whether it counts.
fn compare(folder: &Path, number: usize) -> bool {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ ((number as u64 + 1) << 20));
    random.below(2);
    let keys = keys();
    let List { lines, text: list } = List::new(&mut random, &keys);
    let form = form(&mut random);
    let signer = &keys[lines[random.below(lines.len())].2];
    let signature = signer.sign(MESSAGE, &form);
    let message = if random.below(8) == 0 {
        b"more\n"
    } else {
        MESSAGE
    };
    let about = format!("case {number}: {form:?}\n{list}{signature}");
    match Signers::read(&list) {
        Ok(signers) => {
            let proved = signers.verify(message, &signature, now());
            let mut is_counted = false;
            for who in IDENTITIES {
                let ours = proved.as_ref().is_ok_and(|signed| signed.identity == who);
                let theirs = ssh_accepts(folder, &list, &signature, message, who);
                let is_stricter = !ours && form.armor == Armor::JunkBehind;
                assert!(
                    ours == theirs || is_stricter,
                    "{who}: {proved:?} {theirs}, {about}"
                );
                is_counted |= ours;
            }
            assert_eq!(proved.is_ok(), is_counted, "{about}");
            is_counted
        }
        // Stricter than ssh, for which a key may have many identities.
        Err(error)
            if matches!(
                error.fault,
                SignerFault::Identity(_) | SignerFault::SharedKey(_)
            ) =>
        {
            false
        }
        // For ssh a bad line counts for nothing; here it spoils the list. Both find the same lines.
        Err(error) => {
            let bad = list.lines().nth(error.line - 1).unwrap();
            let found = lines
                .iter()
                .find(|(_, line, _)| line.trim_end() == bad.trim_end());
            if let Some((identity, _, key)) = found {
                let signature = keys[*key].sign(MESSAGE, &good());
                assert!(
                    !ssh_accepts(folder, bad, &signature, MESSAGE, identity),
                    "{error}, {about}"
                );
            }
            false
        }
    }
}

#[test]
fn both_programs_agree_about_lists_and_signatures() {
    if !has_ssh_keygen() {
        return;
    }
    let is_whole = std::env::var_os("SPOOLGATE_WHOLE").is_some();
    let folder = tempfile::tempdir().unwrap();
    let count = if is_whole { 500 } else { 60 };
    let counted = (0..count)
        .filter(|number| compare(folder.path(), *number))
        .count();
    assert!(
        counted * 10 > count,
        "only {counted} of {count} signatures count"
    );
    println!("{counted} of {count} signatures count");
}

#[test]
fn a_token_attests_presence_and_its_bytes_are_signed() {
    let key = Key::new(3, Some("ssh:"));
    let list = format!("ann {}\n", key.line());
    let signers = Signers::read(&list).unwrap();
    let has_ssh = has_ssh_keygen();
    let folder = tempfile::tempdir().unwrap();
    for flags in [0, 1, 4, 5, 0x41] {
        let form = Form { flags, ..good() };
        let signature = key.sign(MESSAGE, &form);
        let signed = signers.verify(MESSAGE, &signature, now()).unwrap();
        let expected = Token {
            is_present: flags & 1 != 0,
            is_verified: flags & 4 != 0,
        };
        assert_eq!(signed.token, Some(expected), "{flags}");
        assert!(!has_ssh || ssh_accepts(folder.path(), &list, &signature, MESSAGE, "ann"));
        let forged = Form {
            shown_flags: Some(flags ^ 1),
            ..form
        };
        let forged = signers.verify(MESSAGE, &key.sign(MESSAGE, &forged), now());
        assert_eq!(forged, Err(SignatureError::Message), "{flags}");
    }
    // The same point in software, or for another application, is another key.
    for other in [Key::new(3, None), Key::new(3, Some("ssh:other"))] {
        let done = signers.verify(MESSAGE, &other.sign(MESSAGE, &good()), now());
        assert!(matches!(done, Err(SignatureError::Unknown(_))), "{done:?}");
        // But it is the same secret, so it cannot be a second person's.
        let error = Signers::read(&format!("{list}ben {}\n", other.line())).unwrap_err();
        assert_eq!(error.line, 2);
        assert_eq!(error.fault, SignerFault::SharedKey("ann".to_owned()));
    }
}

#[test]
fn keys_of_other_types_are_skipped_and_named() {
    let key = Key::new(1, None);
    let list = format!(
        "eve ssh-rsa AAAA\nann {}\neve sk-ecdsa-sha2-nistp256@openssh.com AAAA c\n\
            eve namespaces=\"spoolgate\" ecdsa-sha2-nistp256 AAAA\n",
        key.line()
    );
    let signers = Signers::read(&list).unwrap();
    assert!(signers.identities().into_iter().eq(["ann"]));
    let skipped = signers.skipped().iter();
    let skipped: Vec<(usize, &str)> = skipped.map(|it| (it.line, it.key_type.as_str())).collect();
    assert_eq!(
        skipped,
        [
            (1, "ssh-rsa"),
            (3, "sk-ecdsa-sha2-nistp256@openssh.com"),
            (4, "ecdsa-sha2-nistp256")
        ]
    );
    let signed = signers.verify(MESSAGE, &key.sign(MESSAGE, &good()), now());
    assert_eq!(signed.unwrap().token, None);
}

/// Two lines of one identity are a person's two keys, or two times of one key.
#[test]
fn one_identity_may_have_many_lines() {
    let [a, b, ..] = keys();
    let list = format!(
        "ann {}\nann {}\nann valid-after=\"20990101\" {}\n",
        a.line(),
        b.line(),
        a.line()
    );
    let signers = Signers::read(&list).unwrap();
    assert_eq!(signers.identities().len(), 1);
    for key in [a, b] {
        let signed = signers.verify(MESSAGE, &key.sign(MESSAGE, &good()), now());
        assert_eq!(signed.unwrap().identity, "ann");
    }
}
