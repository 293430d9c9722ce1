//! Tests of the keyring: encryption of its rows, its keys, and keyrings of earlier versions.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("state")).unwrap();
    home
}

fn service(name: &str) -> ServiceName {
    ServiceName::parse(name).unwrap()
}

/// Puts a keyring of version 1 into a home, as versions before 0.3.0 wrote it.
fn old(home: &Path) {
    let path = home.join(KEYRING_FILE);
    let database = Connection::open(&path).unwrap();
    database
        .execute_batch(
            "CREATE TABLE keys (key_id TEXT PRIMARY KEY, algorithm TEXT NOT NULL, material BLOB \
                NOT NULL) STRICT;
             CREATE TABLE log_keys (name TEXT PRIMARY KEY, seed BLOB NOT NULL) STRICT;
             CREATE TABLE credentials (credential_id TEXT PRIMARY KEY, service TEXT NOT NULL, \
                secret TEXT NOT NULL) STRICT;
             INSERT INTO credentials VALUES ('one', 'mail', 'secret of mail'),
                ('two', 'bank (asked for)', 'secret of bank');",
        )
        .unwrap();
    let key = VerifyKey::Hmac([5; 32]);
    database
        .execute(
            "INSERT INTO keys VALUES (?1, 'hmac-sha256', ?2)",
            params![key_id(&key), [5_u8; 32].as_slice()],
        )
        .unwrap();
    for (name, seed) in [("log", [6_u8; 32]), ("seal", [7; 32])] {
        database
            .execute(
                "INSERT INTO log_keys VALUES (?1, ?2)",
                params![name, seed.as_slice()],
            )
            .unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn holds_clear(home: &Path) -> bool {
    let bytes = fs::read(home.join(KEYRING_FILE)).unwrap();
    let secrets: [&[u8]; 5] = [
        &[5; 32],
        &[6; 32],
        &[7; 32],
        b"secret of mail",
        b"secret of bank",
    ];
    secrets
        .iter()
        .any(|secret| bytes.windows(secret.len()).any(|part| part == *secret))
}

fn check(keyring: &SqliteKeyring) {
    let (algorithm, key) = keyring
        .load(&key_id(&VerifyKey::Hmac([5; 32])))
        .unwrap()
        .unwrap();
    assert!(
        algorithm == Algorithm::HmacSha256 && matches!(key, VerifyKey::Hmac(k) if k == [5; 32])
    );
    let keys = keyring.log_keys().unwrap();
    assert_eq!((keys.log_seed, keys.seal_seed), ([6; 32], [7; 32]));
}

fn check_credentials(keyring: &SqliteKeyring) {
    for (name, id) in [("mail", "one"), ("bank", "two")] {
        let secret = keyring.credential(&service(name), id).unwrap().unwrap();
        assert_eq!(*secret, format!("secret of {name}"));
    }
}

#[test]
fn a_keyring_of_version_1_is_encrypted_when_it_is_opened() {
    let home = home();
    old(home.path());
    assert!(holds_clear(home.path()));
    check(&SqliteKeyring::open_read_only(home.path()).unwrap());
    assert!(holds_clear(home.path()), "to look at it changes nothing");
    // Another process holds the home: a gate of an older version would no longer find its keys.
    let held = crate::lock::try_lock(home.path()).unwrap();
    let error = SqliteKeyring::open(home.path(), false).unwrap_err();
    assert!(matches!(error, KeyringError::Held(_)), "{error}");
    assert!(holds_clear(home.path()));
    drop(held);
    let keyring = SqliteKeyring::open(home.path(), false).unwrap();
    assert!(!holds_clear(home.path()));
    check(&keyring);
    check_credentials(&keyring);
    keyring
        .keep_only_credential(&service("bank"), Some("two"), true)
        .unwrap();
    drop(keyring);
    let _held = crate::lock::try_lock(home.path()).unwrap();
    let keyring = SqliteKeyring::open(home.path(), false).unwrap();
    check(&keyring);
    check_credentials(&keyring);
    check(&SqliteKeyring::open_read_only(home.path()).unwrap());
    let mode = fs::metadata(home.path().join(KEY_FILE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn an_interrupted_upgrade_is_done_again() {
    let home = home();
    old(home.path());
    Key::read_or_make(&home.path().join(KEY_FILE)).unwrap();
    fs::write(home.path().join("state/keyring.key.new"), "half").unwrap();
    check(&SqliteKeyring::open(home.path(), false).unwrap());
    assert!(!holds_clear(home.path()));
}

#[test]
fn a_keyring_of_a_newer_version_is_left_alone() {
    let home = home();
    drop(SqliteKeyring::open(home.path(), true).unwrap());
    let database = Connection::open(home.path().join(KEYRING_FILE)).unwrap();
    database.pragma_update(None, "user_version", 3).unwrap();
    for opened in [
        SqliteKeyring::open(home.path(), false),
        SqliteKeyring::open_under_lock(home.path()),
        SqliteKeyring::open_read_only(home.path()),
    ] {
        assert!(matches!(opened, Err(KeyringError::Newer(_, 3))));
    }
}

#[test]
fn exchanged_rows_are_refused() {
    let home = home();
    let keyring = SqliteKeyring::open(home.path(), true).unwrap();
    let keys = [VerifyKey::Hmac([1; 32]), VerifyKey::Hmac([2; 32])];
    let ids = keys.each_ref().map(|key| keyring.insert(key).unwrap());
    let seeds = LogKeys {
        log_seed: [3; 32],
        seal_seed: [4; 32],
    };
    keyring.insert_log_keys(&seeds).unwrap();
    for (name, id) in [("mail", "one"), ("bank", "two")] {
        keyring
            .insert_credential(&service(name), id, "a secret")
            .unwrap();
    }
    let again = |change: &str| {
        let before = fs::read(home.path().join(KEYRING_FILE)).unwrap();
        keyring.database.execute_batch(change).unwrap();
        let found = SqliteKeyring::open(home.path(), false).unwrap();
        let results = (
            ids.each_ref().map(|id| found.load(id).is_err()),
            found.log_keys().is_err(),
            [("mail", "one"), ("bank", "two")]
                .map(|(name, id)| found.credential(&service(name), id).is_err()),
        );
        fs::write(home.path().join(KEYRING_FILE), before).unwrap();
        results
    };
    let (fine, none) = ([false, false], [true, true]);
    assert_eq!(again("SELECT 1;"), (fine, false, fine));
    let other = |table: &str, name: &str, secret: &str| {
        format!(
            "CREATE TABLE old AS SELECT * FROM {table}; UPDATE {table} SET {secret} = (SELECT \
                {secret} FROM old WHERE old.{name} != {table}.{name}); DROP TABLE old;"
        )
    };
    assert_eq!(
        again(&other("keys", "key_id", "material")),
        (none, false, fine)
    );
    assert_eq!(
        again(&other("log_keys", "name", "seed")),
        (fine, true, fine)
    );
    assert_eq!(
        again(&other("credentials", "credential_id", "secret")),
        (fine, false, none)
    );
    // The service or the algorithm alone is changed, or one bit.
    let (_, _, moved) =
        again("UPDATE credentials SET service = 'bank' WHERE credential_id = 'one'");
    assert_eq!(moved, [false, false], "no service names it");
    let found = again("UPDATE keys SET algorithm = 'ed25519'");
    assert_eq!(found, (none, false, fine));
    let found = again("UPDATE credentials SET secret = CAST(secret || x'00' AS BLOB)");
    assert_eq!(found, (fine, false, none));
}

#[test]
fn a_credential_stays_readable_when_it_comes_into_force() {
    let keyring = SqliteKeyring::in_memory().unwrap();
    let mail = service("mail");
    keyring.insert_credential(&mail, "one", "first").unwrap();
    keyring.insert_credential(&mail, "two", "second").unwrap();
    keyring
        .keep_only_credential(&mail, Some("two"), true)
        .unwrap();
    assert_eq!(keyring.credential(&mail, "one").unwrap(), None);
    assert_eq!(
        *keyring.credential(&mail, "two").unwrap().unwrap(),
        "second"
    );
}
