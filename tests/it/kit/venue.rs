//! A home in which BTC-USD is traded at a venue behind the bridge `exchange`, and ETH-USD on paper.

use std::fs;

use super::keys::add_key;
use spoolgate_wire::signing::SignKey;

use super::{Scratch, succeed};

/// Puts BTC-USD behind a bridge, and adds ETH-USD at the same prices. Returns the bridge's key,
/// which is also in `exchange.key` beside the home.
pub(crate) fn enable_outbox(scratch: &Scratch) -> SignKey {
    let home = scratch.home();
    let edit = |name: &str, change: &dyn Fn(&str) -> String| {
        let path = home.join(name);
        fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
    };
    edit("rules/principals.yaml", &|text| {
        text.replace(
            "principals:\n",
            "principals:\n  - {name: exchange, role: bridge}\n",
        )
    });
    edit("rules/instruments.yaml", &|text| {
        let (head, btc) = text.split_once("  - symbol").unwrap();
        let btc = format!("  - symbol{btc}");
        let eth = btc.replace("BTC-USD", "ETH-USD");
        format!("{head}{btc}    venue: outbox\n    bridge: exchange\n{eth}")
    });
    edit("rules/strategies/trend.yaml", &|text| {
        text.replace("instruments: [BTC-USD]", "instruments: [BTC-USD, ETH-USD]")
    });
    let thesis = fs::read_to_string(home.join("proposals/theses/btc-range-long.md")).unwrap();
    let thesis = thesis
        .replace("btc-range-long", "eth-range-long")
        .replace("BTC-USD", "ETH-USD");
    fs::write(home.join("proposals/theses/eth-range-long.md"), thesis).unwrap();
    for kind in ["quote", "trade"] {
        let file = format!(
            "{}/examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip",
            env!("CARGO_MANIFEST_DIR")
        );
        succeed(
            &home,
            &[
                "market",
                "import",
                &file,
                "--symbol",
                "ETH-USD",
                "--end-now",
            ],
        );
    }
    let key_file = scratch.beside("exchange.key");
    add_key(&home, "exchange", &key_file)
}
