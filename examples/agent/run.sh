#!/bin/sh
# A Python agent trades a recorded day (BTC-USD, 5 April 2018) through files, in some seconds, in a scratch home.
#
#   sh examples/agent/run.sh [DIR]      DIR: a new folder for home and keys; absent: one for temporary files, kept
#
# Shows: a home with three principals that cannot do each other's part; market data that comes as signed requests; an agent
# that reads its refusals and corrects itself, tightens its stop and leaves; and what the ledger says of it all.
# Needs python3 and spoolgate on PATH. Exit code 0: the day was traded, the agent ended flat and the ledger verifies.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
home=$work/home
mkdir -p "$work"

spoolgate init "$home" > /dev/null
for who in trend-bot prices; do spoolgate --home "$home" keys add "$who" --out "$work/$who.key" > /dev/null; done
spoolgate --home "$home" account deposit 5000 --reason "opening balance" > /dev/null
# The day is played as quotes, a minute of it in a millisecond: orders fill on them, and what safety.yaml says per minute
# or per cooldown would last for hours of the day. The limits on money stay as shipped.
sed -i 's/^\( *fills_from:\).*/\1 quotes/' "$home/rules/instruments.yaml"
sed -i -e 's/^cooldown_s:.*/cooldown_s: 0/' -e 's/^duplicate_window_s:.*/duplicate_window_s: 0/' \
    -e 's/^max_messages_per_minute:.*/max_messages_per_minute: 100000/' \
    -e 's/^max_messages_per_minute_all:.*/max_messages_per_minute_all: 100000/' "$home/rules/safety.yaml"

spoolgate --home "$home" watch > "$work/gate.log" 2>&1 &
gate=$!
trap 'kill "$gate" 2> /dev/null || true; wait "$gate" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

python3 "$here/feed.py" "$home" "$work/prices.key" "$here/../market/lean-coinbase-minute-btcusd_20180405_quote.zip" \
    -- python3 "$here/agent.py" "$home" "$work/trend-bot.key" --paced

kill "$gate"
wait "$gate" || { echo "the gate ended with an error; see $work/gate.log" >&2; exit 1; }
trap - EXIT
echo "what filled:"
spoolgate --home "$home" fills
echo
spoolgate --home "$home" audit verify
echo "to look around: spoolgate --home $home portfolio"
