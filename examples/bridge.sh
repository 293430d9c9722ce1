#!/bin/sh
# An instrument traded at a venue behind files: a gate, a bridge, and the bridge's simulated exchange, in a scratch home.
#
#   sh examples/bridge.sh [DIR]      DIR: a new folder; absent: one for temporary files, kept
#
# Shows: an entry that becomes an instruction in spool/outbox, fills that come back as signed `venue.report` requests, the
# protective stop that appears at the exchange with the first fill and sells when the price falls through it. bridge.py says
# what a bridge to a real exchange needs of it; docs/outbox.md has the files and every race.
# Needs python3 and spoolgate on PATH. Exit code 0: the entry filled in two parts, and its stop closed the position.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
spoolgate init "$work/home" > /dev/null
cd "$work/home"
# Who carries orders out and reports, and for which instrument.
sed -i 's/^  # - name: exchange .*/  - name: exchange/; s/^  #   role: bridge/    role: bridge/' rules/principals.yaml
sed -i 's/^    # venue: outbox.*/    venue: outbox/; s/^    # bridge: exchange.*/    bridge: exchange/' rules/instruments.yaml
spoolgate keys add trend-bot --out ../bot.key > /dev/null
spoolgate keys add exchange --out ../exchange.key > /dev/null
spoolgate account deposit 5000 --reason "opening balance" > /dev/null
for kind in trade quote; do
    spoolgate market import "$here/market/lean-coinbase-minute-btcusd_20180405_$kind.zip" --symbol BTC-USD --end-now > /dev/null
done

spoolgate watch > ../gate.log 2>&1 &
gate=$!
trap 'kill "$gate" 2> /dev/null || true; wait "$gate" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

cat > ../order.json <<'EOF'
{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.02","order_type":"limit","price":"6795","stop_price":"6600",
 "thesis_slug":"btc-range-long","planned_entry":"6795","planned_stop":"6600"}
EOF
spoolgate sign ../order.json --as trend-bot --action order.submit --key ../bot.key --id entry > ../request.json
spoolgate submit ../request.json --wait 60 > ../answer.json || { cat ../answer.json >&2; exit 1; }
echo "instructed: $(ls spool/outbox/exchange)"

# Prices of the exchange: two reach the entry, the last ones its stop. Fills of at most half of it each.
printf '%s\n' 6790 6792 6700 6590 6590 > ../prices
python3 "$here/bridge.py" . ../exchange.key ../prices ../exchange --every 0.3 --part 0.01 --until-idle

kill "$gate"
wait "$gate" || { echo "the gate ended with an error; see $work/gate.log" >&2; exit 1; }
trap - EXIT
spoolgate fills
# What the exchange says and what the gate holds: both flat.
spoolgate --format json portfolio > ../portfolio.json
grep -q '"positions":\[\]' ../portfolio.json || { echo "the position is still open" >&2; exit 1; }
[ "$(spoolgate --format json fills | wc -l)" -eq 4 ] || { echo "there are other fills than four" >&2; exit 1; }
echo "to look around: spoolgate --home $work/home explain entry"
