#!/usr/bin/env bash
# Makes the fixtures in tests/compat/v1: homes, proofs and answers as version 0.1.0 wrote them. It ran once, with a release
# build of revision 112c9eb. What it made is never made again (see ../README.md): the script documents how each file came
# into being, and is where the script of a v2 begins.
#
#   SPOOLGATE=/path/to/spoolgate tests/compat/v1/make.sh OUT
#
# OUT is a new folder. stand.c gives each command its own time and randomness, so two runs differ only in what real time
# decides: which of two role commands answers first, for how many milliseconds an agent was silent, and the hashes that
# depend on these. Needs bash, cc, ssh-keygen, GNU tar, zstd. Takes half a minute.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir "$1"
out=$(cd "$1" && pwd)
spoolgate=$(realpath "$SPOOLGATE")
export LC_ALL=C TZ=UTC NO_COLOR=1
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc -shared -fPIC -O1 -o "$work/stand.so" "$here/stand.c" -ldl

# --- the clock -------------------------------------------------------------------------------------------------------

now=1767603600 # Monday, 2026-01-05T09:00:00Z
when() { date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ; }
at() { now=$((now + $1)); }
stand() { COMPAT_NOW=$now LD_PRELOAD=$work/stand.so "$@"; }

# --- commands and requests -------------------------------------------------------------------------------------------

fail() { echo "line ${BASH_LINENO[1]}: $*" >&2; cat "$work/said" >&2; exit 1; }
# gate ARGS: runs a command that must succeed. ends CODE ARGS: runs one that must end with this exit code. One second passes
# before each.
gate() { at 1; stand "$spoolgate" "$@" > "$work/said" 2>&1 || fail "$*: exit $?"; }
ends() {
  local expected=$1 code=0; shift; at 1
  stand "$spoolgate" "$@" > "$work/said" 2>&1 || code=$?
  [ "$code" = "$expected" ] || fail "$*: exit $code instead of $expected"
}
idle() { gate run --until-idle; }
# beside ARGS: starts a gate in the background, as `at 1; beside run --until-idle &`. $! is the gate itself.
beside() { COMPAT_NOW=$now LD_PRELOAD=$work/stand.so exec "$spoolgate" "$@" > "$work/said" 2>&1; }
# member NAME FILE: prints the first value of this member.
member() { grep -o "\"$1\":\"\{0,1\}[^\",}]*" "$2" | head -n 1 | sed "s/^\"$1\":\"\{0,1\}//"; }
status() { [ "$(member status "spool/out/$1.json")" = "$2" ] || fail "$1 is not $2: $(cat "spool/out/$1.json")"; }
code() { grep -q "\"code\":\"$2\"" "spool/out/$1.json" || fail "$1 is not $2: $(cat "spool/out/$1.json")"; }

# signed ID WHO ACTION PAYLOAD: signs a request into $work/requests.
signed() {
  at 1
  printf '%s' "$4" | stand "$spoolgate" sign - --as "$2" --action "$3" --key "$2.key" --id "$1" > "$work/requests/$1.json"
}
# drop: also puts it into the spool. ask: also has it decided.
drop() { signed "$@"; cp "$work/requests/$1.json" spool/in/; }
ask() { drop "$@"; idle; }
# asks CODE ID WHO ACTION PAYLOAD: has it decided by `handle`, which must end with this code. Leaves no file in spool/out.
asks() { local expected=$1; shift; signed "$@"; ends "$expected" handle "$work/requests/$1.json"; }

# market SYMBOL PRICE: sends the next whole minute as a bar and a quote, when that minute is over.
market() {
  local open=$(((now + 59) / 60 * 60))
  now=$((open + 60))
  asks 0 "m-$1-$now" prices market.update "$(printf '{"symbol":"%s","bars":[{"open_time":"%s","interval_s":60,"open":%s,"high":%s,"low":%s,"close":%s,"volume":100}],"quotes":[{"time":"%s","bid":%s,"ask":%s}],"regime":"calm"}' \
    "$1" "$(when $open)" "$2" "$2" "$2" "$2" "$(when $now)" "$2" "$2")"
}
# buy SYMBOL SIZE PRICE STOP THESIS [MEMBERS]: prints a limit order.
buy() { printf '{"strategy":"trend","symbol":"%s","side":"buy","size":%s,"order_type":"limit","price":%s,"stop_price":%s,"thesis_slug":"%s","planned_entry":%s,"planned_stop":%s%s}' "$1" "$2" "$3" "$4" "$5" "$3" "$4" "${6-}"; }
order_of() { member order_id "spool/out/$1.json"; }
# report ORDER TYPE CUM_QTY [MEMBERS]: prints a report of the bridge. venue: sends it.
report() {
  printf '{"order_id":"%s","exec_type":"%s","exec_id":"x-%s","transact_time":"%s","cum_qty":"%s"%s}' \
    "$1" "$2" "$now" "$(when $now)" "$3" "${4:+,$4}"
}
venue() { asks 0 "report-$now" exchange venue.report "$(report "$@")"; }

# pack HOME NAME: writes NAME.tar.zst, without deploy/, which names absolute paths.
pack() {
  rm -rf "$1/deploy"
  tar --format=ustar --sort=name --mtime=@315532800 --owner=0 --group=0 --numeric-owner -C "$1" -c . \
    | zstd -q -19 --long=24 -o "$out/$2.tar.zst"
}
verkey() { stand "$spoolgate" --format json audit verify | sed 's/.*"log_key":"\([^"]*\)","keys".*/\1/'; }

# --- the home of the demo --------------------------------------------------------------------------------------------

(cd "$work" && stand "$spoolgate" demo demo > /dev/null)
pack "$work/demo" demo

# --- a home with what the demo lacks ---------------------------------------------------------------------------------

mkdir "$work/requests"
cd "$work"
stand "$spoolgate" init full --origin spoolgate.invalid/compat-v1 > /dev/null
cd full
rm -r schemas deploy

sed -i 's/^max_single_position: 0.05 /max_single_position: 0.50 /; s/^quote_age_floor_s: 120 /quote_age_floor_s: 3600 /' rules/safety.yaml
# The rule files, complete before the first command.
sed -i 's/^  # - name: exchange .*/  - name: exchange/; s/^  #   role: bridge/    role: bridge/' rules/principals.yaml
sed -i 's/^    strategies: \[trend, range\]/&\n    actions: [email.send, email.fetch, email.draft, calendar.create, service.api_call]/' rules/principals.yaml
sed -i '/- name: realism-checker/,/council_roles/d' rules/principals.yaml
sed -i 's/      domains: .*/      domains: [{tenant: research, surface: agents, profile: default}, {tenant: research, surface: agents, profile: remote}]/' rules/principals.yaml
cat >> rules/instruments.yaml <<'Y'
    max_gap: 0.10
  - symbol: ETH-USD
    venue: outbox
    bridge: exchange
    multiplier: 1
    tick: 0.01
    lot: 0.001
    min_size: 0.001
    max_size: 100
    min_notional: 10
    min_stop_ticks: 5
    quotes_from: quotes
    fills_from: bars
    half_spread: 0.0001
    slippage: 0.0005
    maker_fee: 0.001
    taker_fee: 0.002
    volume_share: 0.10
    bar_s: 60
Y
sed -i 's/^instruments: .*/instruments: [BTC-USD, ETH-USD]/' rules/strategies/trend.yaml
# Each entry has its own thesis.
thesis() { printf -- '---\nslug: %s\nstrategy: trend\nsymbol: %s\ndirection: long\nexpires: 2030-01-01T00:00:00Z\ninvalid_below: %s\n---\n# Long\n\nA test.\n' "$@" > "proposals/theses/$1.md"; }
rm proposals/theses/*
for slug in btc-1 btc-2 btc-3 btc-4 btc-5 btc-6 btc-7 btc-8 btc-9; do thesis $slug BTC-USD 6000; done
for slug in eth-1 eth-2 eth-3; do thesis $slug ETH-USD 100; done
mkdir -p rules/core rules/sets rules/tests rules/active
cat > rules/core/large-entries.yaml <<'Y'
id: large-entries
status: active
applies_to: {action: order.submit}
when:
  - {field: order.size, op: gt, value: 0.015}
  - {field: order.symbol, op: eq, value: BTC-USD}
then: hold
message: "{order.size} is a lot"
Y
cat > rules/core/known-recipients.yaml <<'Y'
id: known-recipients
status: active
applies_to: {action: email.send}
when:
  - {field: "payload.recipients[]", op: domain_not_in, value: hosts}
then: hold
message: "{payload.recipients[]} is new"
Y
printf 'name: hosts\nkind: host\ngrows: on_approval\nentries:\n  - {value: example.com, provenance: user_established}\n' > rules/sets/hosts.yaml
program() { printf 'program: sh, args: ["-c", %s], time_limit_s: 60, output_bytes_max: 65536' "$1"; }
cat > rules/gateway.yaml <<Y
adapters:
  - {actions: [email.send], adapter: stub}
  - actions: [service.api_call]
    adapter: exec
    command: {$(program "'cat > /dev/null; echo \"{\\\"success\\\":true,\\\"data\\\":{\\\"balance\\\":\\\"12.50\\\"}}\"'")}
  - actions: [calendar.create]
    adapter: exec
    command: {$(program "'cat > /dev/null; echo \"{\\\"success\\\":false,\\\"error\\\":{\\\"code\\\":\\\"FULL\\\",\\\"message\\\":\\\"the calendar is full\\\"}}\"'")}
  - actions: [email.draft]
    adapter: exec
    command: {$(program "'cat > /dev/null; sleep 2; echo \"{\\\"success\\\":true}\"'")}
  - actions: [email.fetch]
    adapter: exec
    command: {$(program "'cat > /dev/null; sleep 20'")}
rates:
  per_hour: {service.api_call: 2}
Y
mkdir -p rules/admission/research/agents
cat > rules/admission/research/agents/remote.yaml <<Y
policy_version: "1"
max_spawn_depth: 3
recursion_budget: 5
policy_command: {$(program "'cat > /dev/null; echo \"max_spawn_depth: 2\"'")}
lineage_command: {$(program "'cat > /dev/null; echo \"{\\\"current_depth\\\":0}\"'")}
Y
verdict() { printf '{"role":"%s","verdict":"APPROVE","confidence_score":0.9,"checklist_results":[{"question":"q","answer":"Yes","pass":true}],"concerns":[],"required_actions":[]}' "$1"; }
printf '#!/bin/sh\ncat > /dev/null\ncat << "V"\n%s\nV\n' "$(verdict "Risk Officer")" > council/risk.sh
chmod +x council/risk.sh
sed -i 's|^  - name: Risk Officer$|&\n    command: {program: council/risk.sh, args: [], time_limit_s: 60, output_bytes_max: 65536}|' council/roles.yaml
sed -i "s|^  - name: Code Auditor\$|&\n    command: {$(program '"exit 3"')}|" council/roles.yaml
sed -i '/^  DECLARE_PASS:/,/required_artifacts/ s/required_roles: .*/required_roles: [Realism Checker]/; /^  DECLARE_PASS:/,/required_artifacts/ s/veto_roles: .*/veto_roles: []/' council/roles.yaml
sed -i '/^  UPDATE_CONFIG:/,/required_artifacts/ s/required_roles: .*/required_roles: [Risk Officer, Code Auditor]/' council/roles.yaml

for who in trend-bot prices exchange research-bot hermes; do gate keys add $who --out $who.key; done
for who in risk-officer code-auditor quant-researcher; do gate keys add $who --ed25519 --out $who.key; done
gate account deposit 5000 --reason "opening balance"
idle

# The paper venue: an entry that fills, a funding charge, its stop tightened and triggered, a refusal, a check, a query.
market BTC-USD 6750
ask entry-1 trend-bot order.submit "$(buy BTC-USD 0.01 6760 6600 btc-1)"
status entry-1 success
market BTC-USD 6750
gate market rate --symbol BTC-USD 0.0001
first=$(order_of entry-1)
ask tighten-1 trend-bot order.tighten_stop "{\"order_id\":\"$first-stop\",\"new_stop\":6700}"
status tighten-1 success
ask refused-1 trend-bot order.submit "$(buy BTC-USD 1 6760 6600 btc-8)"
code refused-1 CHECKS_FAILED
market BTC-USD 6699
market BTC-USD 6705
at 400
market BTC-USD 6750
ask check-1 trend-bot request.check "{\"action\":\"order.submit\",\"payload\":$(buy BTC-USD 0.011 6760 6600 btc-8)}"
ask query-1 trend-bot portfolio.get '{}'
# An order that the venue refuses, because the filters changed after the gate accepted it.
ask filtered-1 trend-bot order.submit "$(buy BTC-USD 0.012 6760 6600 btc-2)"
sed -i '0,/min_size: 0.001/ s//min_size: 0.05/' rules/instruments.yaml
market BTC-USD 6750
sed -i '0,/min_size: 0.05/ s//min_size: 0.001/' rules/instruments.yaml
market BTC-USD 6751
# A position with a target, and a working entry that is cancelled.
ask entry-2 trend-bot order.submit "$(buy BTC-USD 0.01 6760 6600 btc-3 ',"target_price":7000')"
market BTC-USD 6752
ask entry-3 trend-bot order.submit "$(buy BTC-USD 0.002 6700 6600 btc-4)"
ask cancelled-1 trend-bot order.cancel "{\"order_id\":\"$(order_of entry-3)\"}"
status cancelled-1 success

# Held requests: one granted, one denied, one left open.
for name in held-granted:btc-5 held-denied:btc-6; do
  about=${name#*:} name=${name%:*}
  at 40
  market BTC-USD 6752
  ask $name trend-bot order.submit "$(buy BTC-USD 0.016 6700 6600 $about)"
  code $name HELD
  cp "spool/out/$name.json" "$work/$name.json"
  hold=$(member hold_id spool/out/$name.json)
  case $name in
    held-granted) gate approvals grant "$hold" --reason "looked at it"; status $name success ;;
    held-denied) gate approvals deny "$hold" --reason "not today"; code $name APPROVAL_DENIED ;;
  esac
done
at 40
market BTC-USD 6752
ask held-open trend-bot order.submit "$(buy BTC-USD 0.017 6700 6600 btc-9)"
code held-open HELD

# A venue behind a bridge.
market ETH-USD 400
ask eth-1 trend-bot order.submit "$(buy ETH-USD 0.3 400 390 eth-1)"
eth=$(order_of eth-1)
venue "$eth" new 0 '"version":1'
venue "$eth" trade 0.1 '"last_qty":"0.1","last_px":"399.5","fee":"0.01","liquidity":"maker"'
venue "$eth-stop" new 0 '"version":1'
venue "$eth" trade 0.3 '"last_qty":"0.2","last_px":"399.6","fee":"0.02","liquidity":"taker"'
venue "$eth-stop" replaced 0 '"version":2'
at 40
market ETH-USD 400
ask eth-2 trend-bot order.submit "$(buy ETH-USD 0.05 395 390 eth-2)"
two=$(order_of eth-2)
venue "$two" new 0 '"version":1'
ask eth-cancel trend-bot order.cancel "{\"order_id\":\"$two\"}"
status eth-cancel success
venue "$two" canceled 0
ask report-bad exchange venue.report "$(report "$eth-stop" trade 9 '"last_qty":"9","last_px":"390","fee":"0","liquidity":"taker"')"
code report-bad REPORT_IMPOSSIBLE
gate halt clear --symbol ETH-USD --reason "looked at the venue"
at 40
market ETH-USD 400
ask eth-3 trend-bot order.submit "$(buy ETH-USD 0.06 396 390 eth-3)"
status eth-3 success

# Proposals: applied at once, reverted, approved, declined.
activate() { printf '{"Activate":{"rule":{"id":"%s","status":"active","applies_to":{"action":"order.submit"%s},"when":[{"field":"order.order_type","op":"eq","value":"market"}],"then":"reject","message":"m"},"evidence":{"summary":"s","sample_size":4,"ledger_seqs":[]}}}' "$1" "${2-}"; }
proposal_of() { member proposal_id "spool/out/$1.json"; }
ask prop-own trend-bot rule.propose "$(activate own-markets ',"strategy":["trend"]')"
gate proposals revert "$(proposal_of prop-own)" --reason "one more look"
ask prop-kept trend-bot rule.propose "$(activate kept-markets ',"strategy":["trend"]')"
ask prop-yes trend-bot rule.propose "$(activate no-markets)"
gate proposals approve "$(proposal_of prop-yes)"
ask prop-no trend-bot rule.propose "$(activate no-markets-either)"
gate proposals decline "$(proposal_of prop-no)" --reason "one is enough"

# Services, and outgoing actions: successful, failed, rate limited, refused, held, redacted, answered through two doors.
gate services add bank api.bank.example --method GET
gate services add mail smtp.example.org --protocol smtp --action email.send,email.fetch,email.draft
gate services add calendar cal.example.org --action calendar.create
gate services deactivate calendar
gate services activate calendar
(umask 077; echo not-a-secret > token.txt)
gate services credential set bank --from token.txt
rm token.txt
call='{"service":"bank","endpoint":"/balance","method":"GET"}'
for n in 1 2; do ask call-$n trend-bot service.api_call "$call"; status call-$n success; done
ask call-3 trend-bot service.api_call "$call"
status call-3 rate_limited
ask call-4 trend-bot service.api_call '{"service":"elsewhere","endpoint":"/","method":"GET"}'
code call-4 NOT_ALLOWLISTED
ask meeting trend-bot calendar.create '{"title":"t","startTime":"2026-01-06T10:00:00Z","endTime":"2026-01-06T11:00:00Z"}'
code meeting ADAPTER_FAILED
mail() { printf '{"to":["%s"],"subject":"a subject","body":"%s"}' "$1" "$2"; }
ask mail-1 trend-bot email.send "$(mail ann@example.com 'a word that is redacted')"
code mail-1 STUB_ADAPTER
ask mail-2 trend-bot email.send "$(mail bob@example.net 'to somebody new')"
code mail-2 HELD
mail_hold=$(member hold_id spool/out/mail-2.json)
gate approvals grant "$mail_hold" --remember --reason "known"
gate grants add --set hosts --value example.org --task research/task-001 --until "$(when $((now + 3600)) | sed 's/..:..Z$/00:00Z/')"
gate grants end --set hosts --value example.org --task research/task-001
gate audit redact mail-1 --field /body --reason "somebody asked for it" --yes
drop draft trend-bot email.draft "$(mail ann@example.com 'a draft')"
at 1
beside run --until-idle &
runs=$!
sleep 1
gate handle "$work/requests/draft.json" # a copy that waits for the same answer
wait "$runs" || fail "run: exit $?"
status draft success

# Admission: a tree of tasks, a refusal, and a domain whose policy and lineage come from commands.
task() { printf '{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"%s","payload_kind":"work_order","payload":{"goal":"g"},"causality":{"root_task_id":"%s","parent_task_id":%s,"capability_id":"%s"}}}' "$@"; }
ask task-root research-bot admission.admit "$(task default task-root null plan)"
ask task-child research-bot admission.admit "$(task default task-root '"task-root"' write)"
ask task-shell research-bot admission.admit "$(task default task-root '"task-root"' shell)"
code task-shell ADMISSION_DENIED
ask far-root research-bot admission.admit "$(task remote far-root null plan)"
ask far-child research-bot admission.admit "$(task remote far-root '"far-root"' write)"
gate admit invalidate

# The council: roles that commands answer, more cases than one batch decides, and an open case with a verdict.
change() { printf '{"request_id":"%s","timestamp":"2026-01-05T09:00:00Z","proposer":"ConfigBot","change_type":"%s","context":{"summary":"s"},"artifacts":{"diff_content":"-a\\n+b"}}' "$1" "$2"; }
ask case-1 research-bot council.request "$(change req-1 UPDATE_CONFIG)"
for n in 1 2 3 4 5 6 7 8 9; do drop full-$n research-bot council.request "$(change full-$n DECLARE_PASS)"; done
idle
gate audit redact full-9 --reason "the author asked for it" --yes
ask case-2 research-bot council.request "$(change req-2 FREEZE_SPEC)"
sha=$(stand "$spoolgate" --format json council show req-2 | sed 's/.*"request_sha256":"\([^"]*\)".*/\1/')
ask verdict-1 code-auditor council.verdict "{\"request_id\":\"req-2\",\"request_sha256\":\"$sha\",\"verdict\":$(verdict "Code Auditor")}"
status verdict-1 success

# Control decisions.
control() { printf '{"decision_id":"%s","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"%s","expected_active_strategy_id":"%s","reason":"r","confidence":0.7}' "$@"; }
ask pause hermes control.apply "$(control dec-1 pause trend)"
ask pause-again hermes control.apply "$(control dec-2 pause range)"
code pause-again CONTROL_REJECTED
ask resume hermes control.apply "$(control dec-3 resume trend | sed 's/"expected_active_strategy_id":"trend"/"expected_active_strategy_id":null,"target_strategy_id":"trend"/')"
status resume success

# Halts by a person, by an agent and by the file. Keys rotated and revoked.
gate halt set --reason "exchange trouble"
gate halt clear --reason "exchange is back"
ask halt-self trend-bot halt.set '{"reason":"I lost track"}'
gate halt clear --principal trend-bot --reason "seen"
touch rules/HALT
idle
rm rules/HALT
idle
gate keys rotate hermes --out hermes-new.key --overlap-s 0
gate keys add risk-officer --out risk-officer-2.key
gate keys revoke "$(stand "$spoolgate" --format json keys list | grep '"risk-officer"' | tail -n 1 | sed 's/.*"key_id":"\([^"]*\)".*/\1/')" --reason "lost"

# Files that are not requests, and requests that are refused before any check.
signed forged trend-bot portfolio.get '{}'
sed 's/"signature":"../"signature":"00/' "$work/requests/forged.json" > spool/in/forged.json
cp spool/in/forged.json "$work/requests/forged.json"
printf '{"id":"half"' > spool/in/half.json
cp spool/in/half.json "$work/requests/half.json"
idle
ask forbidden trend-bot account.adjust '{"amount":"1","reason":"r"}'
code forbidden NOT_PERMITTED
ask malformed trend-bot order.cancel '{"no":"such"}'
ask unknown trend-bot orders.list '{"a":1}'

# A faulty rule file, a clock step, a quota, the dead man's switch.
cp rules/safety.yaml "$work/safety.yaml"
echo 'nothing_like_it: 1' >> rules/safety.yaml
idle
ask faulted trend-bot order.submit "$(buy BTC-USD 0.001 6700 6600 btc-8)"
cp "$work/safety.yaml" rules/safety.yaml
idle
at -3600
idle
gate clock accept --reason "a test of the clock"
idle
at 3600
printf 'spool:\n  requests_per_minute: 2\n  bytes_per_minute: 1000000\n' > rules/rates.yaml
idle
for n in 1 2 3; do drop over-$n trend-bot portfolio.get '{}'; done
idle
idle
rm rules/rates.yaml
idle
for timeout in 3600 1; do # the first only counts, the second trips
  sed -i '/^dead_man/d' rules/safety.yaml
  echo "dead_man: {timeout_s: $timeout, action: close_new_only}" >> rules/safety.yaml
  at 1
  beside watch --sandbox off &
  watches=$!
  sleep 4
  kill "$watches"
  wait "$watches" || fail "watch: exit $?"
done
gate heartbeat trend-bot
cp "$work/safety.yaml" rules/safety.yaml
idle

# A strategy closed for executing too often, and a latched drawdown.
sed -i 's/^max_executions: 50 /max_executions: 5 /' rules/safety.yaml
at 400
market BTC-USD 6752
ask entry-4 trend-bot order.submit "$(buy BTC-USD 0.003 6760 6600 btc-7)"
status entry-4 success
market BTC-USD 6753
gate halt clear --strategy trend --reason reviewed
sed -i 's/^max_drawdown: 0.15 /max_drawdown: 0.00001 /' rules/safety.yaml
market BTC-USD 6740
gate halt clear --drawdown --reason reviewed
cp "$work/safety.yaml" rules/safety.yaml
idle

# Receipts, a rotation of the log's keys, a torn batch, an accepted rollback.
mkdir "$out/proofs"
stand "$spoolgate" audit checkpoint > "$out/proofs/before.checkpoint"
verkey > "$out/proofs/before.vkey"
gate audit prove entry-1 --out "$out/proofs/entry-1.tlog-proof"
gate audit prove 0 --out "$out/proofs/genesis.tlog-proof"
gate audit rotate --reason "an administrator left"
idle
last=$(ls audit/log-*.jsonl | tail -n 1)
printf '{"prev":"0123' >> "$last"
idle
cp -r audit "$work/audit-before"
gate account deposit 2 --reason "given up by a rollback"
rm -r audit
cp -r "$work/audit-before" audit
ends 5 run --until-idle
gate audit accept-rollback --head state --reason "the disk was lost"
idle

# After the rotation: a proposal approved by an SSH signature, one left open, a new day, a market gap that refutes theses.
(cd "$work" && stand ssh-keygen -q -t ed25519 -N "" -C approver -f approver)
echo "approver@example.com namespaces=\"spoolgate\" $(cat "$work/approver.pub")" > rules/approvers
ask prop-signed trend-bot rule.propose "$(activate signed-markets)"
signed_one=$(proposal_of prop-signed)
ssh-keygen -q -Y sign -n spoolgate -f "$work/approver" "proposals/pending/$signed_one.yaml"
mv "proposals/pending/$signed_one.yaml" "proposals/pending/$signed_one.yaml.sig" proposals/approved/
idle
ask prop-open trend-bot rule.propose "$(activate no-markets-at-all)"
at 57600
market BTC-USD 6750
market BTC-USD 5900
gate halt clear --symbol BTC-USD --reason "the gap was real"

# Proofs that span the rotation.
stand "$spoolgate" audit checkpoint > "$out/proofs/after.checkpoint"
verkey > "$out/proofs/after.vkey"
gate audit prove prop-signed --out "$out/proofs/prop-signed.tlog-proof"
gate audit consistency "$out/proofs/before.checkpoint" --out "$out/proofs/before-after.consistency"

# The first segment is archived, and pruned in a copy of the home.
gate audit archive --keep 1
mkdir "$work/vault"
cp audit/*.zst "$work/vault/"
cp -r "$work/full" "$work/pruned"
( # Nothing is pruned that an open hold, case or proposal needs, so these end first.
  cd "$work/pruned"
  gate proposals decline "$(proposal_of prop-open)" --reason "enough"
  at 172800
  idle
  gate audit prune --before 2 --copied-to "$work/vault" --yes
  gate account deposit 3 --reason "and on"
  # A run puts the whole index into state.db. A command may leave part of it in state.db-wal, which a copy of the home loses
  # because it is bound to the inode of state.db; without the pruned segment that could not be made again.
  idle
)

# Lines behind the last `published` line, so that the next start has to make their files again. Then the gate is killed while
# an outgoing action runs.
at 400
market ETH-USD 400
asks 0 last-order trend-bot order.submit "$(buy ETH-USD 0.07 396 390 eth-2)"
asks 3 last-hold trend-bot email.send "$(mail eve@example.info 'to somebody new')"
asks 0 last-proposal trend-bot rule.propose "$(activate no-markets-at-last)"
asks 0 last-case research-bot council.request "$(change req-3 FREEZE_SPEC)"
asks 0 last-task research-bot admission.admit "$(task default last-root null plan)"
drop fetch trend-bot email.fetch '{}'
at 1
beside run --until-idle &
runs=$!
for _ in $(seq 100); do grep -q '"kind":"request".*"request_id":"fetch"' audit/log-*.jsonl && break; sleep 0.1; done
sleep 1
kill -9 "$runs"
wait "$runs" 2> /dev/null || true

# One request per shape of answer, with its answer.
mkdir "$out/answers"
for id in entry-1 refused-1 tighten-1 cancelled-1 check-1 query-1 held-open held-granted held-denied report-bad prop-own prop-open \
  call-1 call-3 call-4 meeting mail-1 mail-2 draft task-child task-shell case-1 full-1 verdict-1 pause pause-again halt-self \
  faulted forbidden malformed forged half; do
  answer=spool/out/$id.json
  [ -e "$answer" ] || answer=$answer.error.json
  cp "$work/requests/$id.json" "$out/answers/$id.request.json"
  cp "$answer" "$out/answers/$id.answer.json"
done

pack "$work/pruned" pruned
pack "$work/full" full
