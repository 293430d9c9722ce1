#!/bin/sh
# An agent learns from its rules: it has proposed one on trial, reads what it would have saved, and proposes what follows.
#
#   sh examples/learning/run.sh [DIR]      DIR: a new folder for home and key; absent: one for temporary files, kept
#
# Shows: the demo's day, in which an agent's rule is on trial in shadow; what `rules efficacy` says of it; and what the agent
# makes of that. One day is no evidence, so the gate's verdict is INCONCLUSIVE: with --events 1 the agent goes by the sign of
# the effect, as no agent with more than a day should.
# Needs python3 and spoolgate on PATH. Exit code 0: the figures were read, and the agent's proposals were taken.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=${1:-$(mktemp -d)}
home=$work/home
mkdir -p "$work"
gate() { spoolgate --home "$home" "$@"; }

spoolgate demo "$home" > "$work/day.txt"
gate keys add trend-bot --out "$work/bot.key" > /dev/null
gate rules efficacy --time-stop-minutes 240

spoolgate --home "$home" watch > "$work/gate.log" 2>&1 &
watcher=$!
trap 'kill "$watcher" 2> /dev/null || true; wait "$watcher" 2> /dev/null || true' EXIT
trap 'exit 130' INT TERM

echo
echo "by the verdict:"
gate --format json rules efficacy --time-stop-minutes 240 > "$work/figures.json"
python3 "$here/propose.py" "$home" "$work/bot.key" "$here/limit-entries-only.json" < "$work/figures.json"
echo "by the sign of one day:"
python3 "$here/propose.py" "$home" "$work/bot.key" "$here/limit-entries-only.json" --events 1 < "$work/figures.json"

kill "$watcher"
wait "$watcher" || { echo "the gate ended with an error; see $work/gate.log" >&2; exit 1; }
trap - EXIT
echo
gate proposals list
echo "to look around: spoolgate --home $home proposals show ID"
