#!/bin/sh
# An instrument traded at a venue behind files: a gate, the bridge of bridges/python, and a simulated exchange, in a scratch
# home.
#
#   sh examples/bridge.sh [DIR]      DIR: a new folder; absent: one for temporary files, kept
#
# Shows: an entry that becomes an instruction in spool/outbox, fills that come back as signed `venue.report` requests, the
# protective stop that appears at the exchange with the first fill and sells when the price falls through it.
# docs/howto/venue.md explains the steps, docs/outbox.md the files and every race.
# Needs python3 (3.10 or newer) and spoolgate on PATH. Exit code 0: the entry filled in two parts, and its stop closed the
# position.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
export PYTHONPATH="$here/../bridges/python${PYTHONPATH:+:$PYTHONPATH}"
work=${1:-$(mktemp -d)}
mkdir -p "$work"
spoolgate init "$work/home" > /dev/null
cd "$work/home"
# Who carries orders out and reports, and for which instrument; and what the exchange calls its coin and its money.
sed -i 's/^  # - name: exchange .*/  - name: exchange/; s/^  #   role: bridge/    role: bridge/' rules/principals.yaml
sed -i 's/^    # base: BTC.*/    base: BTC/; s/^    # quote: USD.*/    quote: USD/; s/^    # venue: outbox.*/    venue: outbox/
    s/^    # bridge: exchange.*/    bridge: exchange/' rules/instruments.yaml
spoolgate keys add trend-bot --out ../bot.key > /dev/null
spoolgate keys add exchange --out ../exchange.key > /dev/null
spoolgate account deposit 5000 --reason "opening balance" > /dev/null
for kind in trade quote; do
    spoolgate market import "$here/market/lean-coinbase-minute-btcusd_20180405_$kind.zip" --symbol BTC-USD --end-now > /dev/null
done

# Ends what was started, the gate last: it books what the bridge has to report at its end.
running=
end() {
    for process in $running; do
        kill "$process" 2> /dev/null || true
        wait "$process" || { echo "a process ended with $?; see the logs in $work" >&2; return 1; }
    done
    running=
}
trap 'end || true' EXIT
trap 'exit 130' INT TERM

# wait_for WHAT COMMAND: waits until the command succeeds.
wait_for() {
    left=600
    until eval "$2"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { echo "waited too long until $1; see the logs in $work" >&2; exit 1; }
        sleep 0.2
    done
}

spoolgate watch > ../gate.log 2>&1 &
running=$!
echo 6800 > ../prices
python3 -m spoolgate_bridge.exchange ../exchange.sock --prices ../prices --state ../exchange-books --every 0.1 --part 0.01 \
    --balance USD=5000 2> ../exchange.log &
running="$! $running"
python3 -m spoolgate_bridge --home . --key ../exchange.key --state ../exchange-state --venue mock:../exchange.sock \
    2> ../bridge.log &
running="$! $running"
# The gate takes no entries until the bridge has told it what the account holds.
wait_for "the gate and the exchange agree" 'spoolgate --format json status | grep -q "\"reconciled_at\":\""'

cat > ../order.json <<'EOF'
{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.02","order_type":"limit","price":"6795","stop_price":"6600",
 "thesis_slug":"btc-range-long","planned_entry":"6795","planned_stop":"6600"}
EOF
spoolgate sign ../order.json --as trend-bot --action order.submit --key ../bot.key --id entry > ../request.json
spoolgate submit ../request.json --wait 60 > ../answer.json || { cat ../answer.json >&2; exit 1; }

# The exchange's price reaches the entry, which fills in parts of 0.01. Its stop follows.
echo 6790 >> ../prices
wait_for "the exchange works a stop for both fills" 'spoolgate --format json orders | grep stop\",\"source | grep -q "\"works\":{[^}]*\"size\":\"0.02\""'
spoolgate orders

# The price falls through the stop.
echo 6590 >> ../prices
wait_for "the stop has sold" '[ "$(spoolgate --format json fills | wc -l)" -eq 4 ]'
end
trap - EXIT
spoolgate fills
# What the exchange says and what the gate holds: both flat.
spoolgate --format json portfolio > ../portfolio.json
grep -q '"positions":\[\]' ../portfolio.json || { echo "the position is still open" >&2; exit 1; }
echo "to look around: spoolgate --home $work/home explain entry"
