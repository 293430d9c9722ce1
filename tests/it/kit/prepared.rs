//! A home with principals of all kinds, prices that do not become stale, and files of every kind
//! for it; a test may copy it as often as it wants.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::keys::add_key;
use spoolgate_gate::prepare::Origin;
use spoolgate_wire::signing::SignKey;

use super::spools::Dropped;
use super::{Dice, Scratch, Sent, decisions, sign, succeed};

/// Copies a folder with all its contents.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
}

const ORDER: &str = r#""strategy":"trend","symbol":"BTC-USD","side":"buy","order_type":"limit","price":"6740","planned_entry":"6740","planned_stop":"6600","stop_price":"6600""#;

/// Returns the payload of an entry that rests below the market.
pub(crate) fn order(size: &str, thesis: &str) -> String {
    format!(r#"{{{ORDER},"size":"{size}","thesis_slug":"{thesis}"}}"#)
}

/// A home with prices, an account, an agent in the flat spool and one with a spool of its own.
/// Prices and requests do not become stale while its copies are used.
pub(crate) struct Base {
    scratch: Scratch,
    own_key: SignKey,
    /// Files that were dropped into it and decided already.
    pub dropped: Vec<Dropped>,
}

impl Base {
    /// Makes the home.
    pub(crate) fn new() -> Base {
        let scratch = Scratch::with_prices();
        let home = scratch.home();
        edit(&home.join("rules/safety.yaml"), |text| {
            text.replace("quote_age_floor_s: 120 ", "quote_age_floor_s: 500000 ")
                .replace("request_age_max_s: 300 ", "request_age_max_s: 80000 ")
                // Some copies are on small disks of their own.
                .replace(
                    "reserve_bytes: 16777216, floor_bytes: 268435456",
                    "reserve_bytes: 4194304, floor_bytes: 0",
                )
        });
        edit(&home.join("rules/principals.yaml"), |text| {
            format!(
                "{text}  - name: own-bot\n    role: agent\n    strategies: [trend]\n    spool: \
                    own-bot\n"
            )
        });
        let key_file = scratch.beside("own.key");
        let own_key = add_key(&home, "own-bot", &key_file);
        let mut base = Base {
            scratch,
            own_key,
            dropped: Vec::new(),
        };
        // These are decided before the copies are made: replays and cancels need them.
        let earlier =
            base.scratch
                .request("earlier", "order.submit", &order("0.002", "btc-dip-long"));
        base.dropped.push(flat("earlier.json", earlier));
        base.dropped[0].drop_into(&home);
        succeed(&home, &["run", "--until-idle"]);
        let decided = decisions(&home).unwrap();
        let first = decided
            .values()
            .find(|d| d.request_id.as_deref() == Some("earlier"))
            .unwrap();
        assert!(
            first.order_id.is_some(),
            "the order that others build on was refused: {first:?}"
        );
        base
    }

    /// Returns the home's folder.
    pub(crate) fn home(&self) -> PathBuf {
        self.scratch.home()
    }

    /// Returns a request of the agent in the flat spool.
    pub(crate) fn signed(&self, id: &str, action: &str, payload: &str) -> Dropped {
        flat(
            &format!("{id}.json"),
            self.scratch.request(id, action, payload),
        )
    }

    /// Returns the bytes of a request of the agent.
    pub(crate) fn request(&self, id: &str, action: &str, payload: &str) -> Vec<u8> {
        self.scratch.request(id, action, payload)
    }

    /// Returns files of every kind for which the gate does not have to wait. `seed` chooses their
    /// order and extra files.
    pub(crate) fn mixed(&self, seed: u64) -> Vec<Dropped> {
        let mut dice = Dice::new(seed);
        let mut at = || format!("{:02}", dice.below(100));
        let forged = sign(
            &SignKey::Hmac([7; 32]),
            "trend-bot",
            "forged",
            "portfolio.get",
            "{}",
        );
        let own = |id: &str, action: &str, payload: &str| Dropped {
            spool: Origin::from_label("agent-own-bot").unwrap(),
            sent: Sent::new(
                &format!("{id}.json"),
                sign(&self.own_key, "own-bot", id, action, payload),
            ),
            is_durable: true,
        };
        let mut files = vec![
            self.signed(
                &format!("{}-accepted", at()),
                "order.submit",
                &order("0.0021", "btc-range-long"),
            ),
            self.signed(
                &format!("{}-refused", at()),
                "order.submit",
                &order("0.0022", "no-such-thesis"),
            ),
            flat(
                &format!("{}-malformed.json", at()),
                br#"{"no":"envelope"}"#.to_vec(),
            ),
            flat("no request", b"anything".to_vec()),
            flat(
                &format!("{}-replay.json", at()),
                self.dropped[0].sent.bytes.clone(),
            ),
            flat(&format!("{}-forged.json", at()), forged),
            own(
                &format!("{}-own", at()),
                "order.submit",
                &order("0.0023", "btc-range-long"),
            ),
        ];
        let mut extras = vec![
            self.signed(&format!("{}-look", at()), "portfolio.get", "{}"),
            self.signed(&format!("{}-unknown", at()), "no.such_action", "{}"),
            self.signed(
                &format!("{}-cancel", at()),
                "order.cancel",
                &self.cancel_earlier(),
            ),
            self.signed(
                &format!("{}-halt", at()),
                "halt.set",
                r#"{"reason":"a doubt"}"#,
            ),
            flat(
                &format!("{}-conflict.json", at()),
                self.scratch
                    .request("earlier", "market.get", r#"{"symbol":"ETH-USD"}"#),
            ),
            own(&format!("{}-own-look", at()), "orders.list", "{}"),
        ];
        for _ in 0..if seed == 0 { 0 } else { 4 } {
            let pick = usize::try_from(dice.below(extras.len() as u64)).unwrap();
            files.push(extras.swap_remove(pick));
        }
        files
    }

    fn cancel_earlier(&self) -> String {
        let decided = decisions(&self.home()).unwrap();
        let order = decided.values().find_map(|d| d.order_id.as_ref()).unwrap();
        format!(r#"{{"order_id":"{order}"}}"#)
    }
}

/// Makes a file for the flat spool.
pub(crate) fn flat(name: &str, bytes: Vec<u8>) -> Dropped {
    Dropped {
        spool: Origin::Flat,
        sent: Sent::new(name, bytes),
        is_durable: true,
    }
}

/// Changes a rule file.
pub(crate) fn edit(path: &Path, how: impl Fn(String) -> String) {
    let before = fs::read_to_string(path).unwrap();
    let after = how(before.clone());
    assert_ne!(before, after, "{}", path.display());
    fs::write(path, after).unwrap();
    // Only the owner may write rules.
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
}
