#!/bin/sh
# The gate in a shell pipeline: spoolgate signs and decides, jq reads and writes, nothing else is needed.
#
#   sh examples/pipeline.sh [DIR]      DIR: a new folder for home and key; absent: one for temporary files, kept
#
# Shows: a query through a pipe; an order made by jq out of its answer; a refusal whose headroom makes the next order; exit
# codes told apart; and the ledger as JSON lines. Needs jq and spoolgate on PATH. Exit code 0: the smaller order was taken.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
mkdir -p "$work"
spoolgate init "$work/home" > /dev/null
cd "$work/home"
spoolgate keys add trend-bot --out ../bot.key > /dev/null
spoolgate account deposit 5000 --reason "opening balance" > /dev/null
for kind in trade quote; do
    spoolgate market import "$here/market/lean-coinbase-minute-btcusd_20180405_$kind.zip" --symbol BTC-USD --end-now > /dev/null
done

# A payload on standard input, the answer on standard output. The exit code says what became of it (README.md): 0 done,
# 1 refused, 2 malformed, 3 held for a person, 4 too much within a minute, and more. Signed first, into a file: in a pipe
# the exit code of `sign` would be lost.
ask() { # action
    spoolgate sign - --as trend-bot --action "$1" --key ../bot.key > ../request.json &&
        spoolgate handle ../request.json
}

# Where the market is, and a buy at the ask with a stop 2 % below, on the tick.
echo '{"symbol":"BTC-USD"}' | ask market.get > ../market.json
# jq counts in binary floats: prices are rounded to the tick as a last step, and amounts travel as text.
jq '.data.MarketData | (.ask | tonumber) as $ask | {strategy: "trend", symbol, side: "buy", size: "0.1", order_type: "limit",
    price: .ask, stop_price: ($ask * 98 | floor / 100 | tostring), thesis_slug: "btc-range-long", planned_entry: .ask,
    planned_stop: ($ask * 98 | floor / 100 | tostring)}' ../market.json > ../order.json

code=0
ask order.submit < ../order.json > ../answer.json || code=$?
if [ "$code" -eq 1 ] && most=$(jq -er '.data.Rejected.headroom.max_size' ../answer.json); then
    jq -r '.data.Rejected.checks_failed[] | "refused by \(.check_name): \(.value) against \(.limit) \(.unit)"' ../answer.json
    echo "what would pass: $most"
    # Never more than was wanted, and nothing where nothing would pass.
    jq -e --arg most "$most" 'select(($most | tonumber) > 0) | .size = $most' ../order.json > ../smaller.json ||
        { echo "no size would pass now" >&2; exit 1; }
    code=0
    ask order.submit < ../smaller.json > ../answer.json || code=$?
fi
if [ "$code" -ne 0 ]; then
    jq -r '"\(.error.code): \(.error.message)"' ../answer.json >&2
    exit "$code"
fi
echo "accepted as $(jq -r .data.Accepted.order_id ../answer.json) in ledger line $(jq -r .auditRef ../answer.json)"

# The ledger in the same pipe: every decision on an order, by size and outcome.
spoolgate audit export --format jsonl --action order.submit |
    jq -r 'select(.kind == "decision") | "line \(.seq): \(.side) \(.size) \(.decision // .status)"'
echo "to look around: spoolgate --home $work/home orders"
