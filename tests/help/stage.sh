# The home that the examples of every --help are run in, and beside it `names`: what stands in it for their names.
set -euo pipefail
quiet() { "$@" > ../out 2>&1 || { cat ../out; echo "failed: $*"; exit 1; }; }
any() { "$@" > ../out 2>&1 || true; }
quiet spoolgate init .
name() { printf '%s\t%s\n' "$1" "$2" >> ../names; }
ln -s "$SPOOLGATE_REPO/examples" examples
# What is prepared shall not be stale when a slow machine comes to it.
sed -i 's/^quote_age_floor_s: 120/quote_age_floor_s: 3600/; s/^request_age_max_s: [0-9]*/request_age_max_s: 3600/' rules/safety.yaml
# Principals, rules, adapters and services that examples speak of.
sed -i 's/name: trend-bot/&\n    actions: [email.send]/' rules/principals.yaml
mkdir -p rules/core rules/sets rules/tests rules/active
cat > rules/core/no-entries-high-funding.yaml <<'Y'
id: no-entries-high-funding
status: active
applies_to: {action: order.submit}
when:
  - {field: order.size, op: gt, value: 0.015}
  - {field: order.order_type, op: eq, value: limit}
then: hold
message: "{order.size} is a lot"
Y
cat > rules/tests/size.yaml <<'Y'
cases:
  - name: a lot
    action: order.submit
    facts: {order.order_type: limit, order.size: 0.06}
    expect: hold
    rules: [no-entries-high-funding]
  - {name: little, action: order.submit, facts: {order.order_type: limit, order.size: 0.01}, expect: accept, rules: []}
  - {name: at the market, action: order.submit, facts: {order.order_type: market, order.size: 0.06, strategy.name: range}, expect: accept, rules: []}
Y
printf 'name: hosts\nkind: host\ngrows: on_approval\nentries: []\n' > rules/sets/hosts.yaml
printf 'name: payees\nkind: word\ngrows: on_approval\nentries: []\n' > rules/sets/payees.yaml
printf 'adapters:\n  - {actions: [email.send], adapter: stub}\n' > rules/gateway.yaml
echo 'to: [{name: phone, on: [halt], program: cat, time_limit_s: 20, output_bytes_max: 4096}]' > rules/notify.yaml
for who in trend-bot research-bot hermes prices risk-officer; do
  file=$who.key; [ $who = trend-bot ] && file=bot.key
  quiet spoolgate keys add $who --out $file
done
quiet spoolgate account deposit 5000 --reason "opening balance"
quiet spoolgate run --until-idle
quiet spoolgate services add bank api.bank.example --method GET
quiet spoolgate services add smtp smtp.example.org --protocol smtp --action email.send
(umask 077; echo secret > token.txt)
M=examples/market/lean-coinbase-minute-btcusd_20180405
for part in trade quote; do quiet spoolgate market import ${M}_$part.zip --symbol BTC-USD --end-now; done
printf 'time,open,high,low,close,volume\n2018-04-01T00:00:00Z,1,2,1,2,3\n' > bars.csv
due=$(date -u -d @$(($(date +%s) / 28800 * 28800)) +%Y-%m-%dT%H:%M:%SZ)
printf 'time,rate\n%s,0.0001\n' "$due" > rates.csv
# Requests.
order() {
  printf '{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":%s,"order_type":"limit","price":6760,"stop_price":6600,"thesis_slug":"%s","planned_entry":6760,"planned_stop":6600}' "$1" "$2"
}
order 0.01 btc-range-long > order.json
sign() { spoolgate sign "$1" --as "$2" --action "$3" --key "$4" --id "$5"; }
sign order.json trend-bot order.submit bot.key first > first.json
quiet spoolgate handle first.json
order 0.011 btc-dip-long > order.json
order 0.012 btc-dip-long > other.json
sign other.json trend-bot order.submit bot.key r1 > r1.json
echo '{}' > empty.json
sign empty.json trend-bot portfolio.get bot.key r2 > r2.json
sign empty.json trend-bot portfolio.get bot.key my-request-id > my.json
quiet spoolgate handle my.json
order 0.016 btc-dip-long > large.json
sign large.json trend-bot order.submit bot.key held > held.json
any spoolgate handle held.json
cat > mail.json <<'J'
{"to":["anna@example.com"],"subject":"s","body":"the password"}
J
sign mail.json trend-bot email.send bot.key req-1 > req-1.json
any spoolgate handle req-1.json
cat > task.json <<'J'
{"envelope":{"tenant_id":"research","surface_id":"agents","policy_profile_id":"default","payload_kind":"work_order","payload":{"goal":"g"},"causality":{"root_task_id":"root","parent_task_id":null,"capability_id":"plan"}}}
J
quiet spoolgate admit admit task.json --as research-bot --id root
sed -i 's/"root"/"task-001"/' task.json
# The council.
cat > change.json <<'J'
{"request_id":"req_1","timestamp":"2026-01-05T09:00:00Z","proposer":"ConfigBot","change_type":"UPDATE_CONFIG","context":{"summary":"s"},"artifacts":{"diff_content":"-a\n+b"}}
J
sign change.json research-bot council.request research-bot.key case-1 > case.json
quiet spoolgate handle case.json
# Control.
cat > pause.json <<'J'
{"decision_id":"dec-1","concern_id":"paper:btc-usd","account_id":"paper","market_symbol":"btc-usd","action":"pause","expected_active_strategy_id":"trend","reason":"r","confidence":0.7}
J
sed 's/dec-1/dec-2/; s/"pause"/"switch","target_strategy_id":"range"/' pause.json > switch.json
sed 's/dec-1/dec-3/' pause.json > resume.json
# Proposals.
cat > propose.json <<'J'
{"Activate":{"rule":{"id":"limit-only","status":"active","applies_to":{"action":"order.submit"},"when":[{"field":"order.order_type","op":"eq","value":"market"}],"then":"reject","message":"m"},"evidence":{"summary":"s","sample_size":4,"ledger_seqs":[]}}}
J
sign propose.json trend-bot rule.propose bot.key prop-1 > prop-1.json
any spoolgate handle prop-1.json
sed 's/limit-only/applied/; s/"action":"order.submit"/&,"strategy":["trend"]/' propose.json > apply.json
sign apply.json trend-bot rule.propose bot.key prop-2 > prop-2.json
quiet spoolgate handle prop-2.json
quiet spoolgate services credential set bank --from token.txt
# Copies and notes that auditors hold.
spoolgate audit checkpoint > yesterday.checkpoint
cp yesterday.checkpoint today.checkpoint
quiet spoolgate account deposit 1 --reason "the log grows"
for dir in my-checkout main-checkout old new draft; do
  mkdir $dir && cp -r rules proposals council $dir
done
sed -i 's/0.015/0.05/' my-checkout/rules/core/no-entries-high-funding.yaml new/rules/core/no-entries-high-funding.yaml
sed -i 's/0.015/0.012/' main-checkout/rules/core/no-entries-high-funding.yaml
any spoolgate rules review main-checkout my-checkout --witness witness.json
vkey=$(spoolgate --format json audit verify | sed 's/.*"log_key":"\([^"]*\)".*/\1/')
line=$(spoolgate --format json audit query --request req-1 | head -n 1 | sed 's/.*"seq":\([0-9]*\),.*/\1/')
spoolgate audit prove "$line" --out "$line.tlog-proof" > ../out 2>&1
spoolgate audit consistency yesterday.checkpoint --out day.consistency > ../out 2>&1
cp -r audit ../evidence
mkdir -p ../vault ../.local/share/bash-completion/completions verdicts
echo archived > ../vault/log-00000001.jsonl.zst
name log-00000007.jsonl log-00000001.jsonl
cp change.json request.json
verdict() {
  printf '{"role":"%s","verdict":"APPROVE","confidence_score":0.9,"checklist_results":[{"question":"q","answer":"Yes","pass":true}],"concerns":[],"required_actions":[]}' "$1"
}
verdict "Risk Officer" > risk.json
verdict "Code Auditor" > audit.json
cp risk.json verdicts/risk.json; cp audit.json verdicts/audit.json; cp risk.json verdict-1.json
any spoolgate grants add --set hosts --value example.org --task research/task-001 --until "$(date -u -d '+2 hours' +%Y-%m-%dT%H:00:00Z)"
hold=$(spoolgate approvals list | awk 'NR == 2 {print $1}')
proposal=$(spoolgate proposals list --pending | awk 'NR == 2 {print $1}')
receipt=$(basename spool/forward/agents/r-*.json)
cp "spool/forward/agents/$receipt" .
mkdir -p spool/forward/api && cp "spool/forward/agents/$receipt" spool/forward/api/
key=$(spoolgate --format json keys list | grep research-bot | head -n 1 | sed 's/.*"key_id":"\([^"]*\)".*/\1/')
sha=$(spoolgate --format json council show req_1 | sed 's/.*"request_sha256":"\([^"]*\)".*/\1/')
name /tmp/my-demo ../demo
name h-42 "$hold"
name "proposals revert p-42" "proposals revert $(spoolgate proposals list | awk '/applied/ {print $1; exit}')"
name p-42 "$proposal"
name r-42.json "$receipt"
name o-42-stop "$(spoolgate orders | awk '$1 ~ /-stop$/ {print $1; exit}')"
name o-12 "$(spoolgate orders | awk '$1 ~ /-stop$/ {sub("-stop", "", $1); print $1; exit}')"
name 42 "$line"
name 0123456789abcdef "$key"
name 3b6a27bc... 3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29
name 5fa1... "$sha"
name "example.org/log+1a2b3c4d+AZ..." "$vkey"
name /evidence/audit ../evidence
name /mnt/vault ../vault
name "spoolgate init /srv/gate" "spoolgate init @HOME-new"
name /var/mail/gate ../vault
name "--home /srv/gate" "--home @HOME"
name "--home my-home" "--home @HOME"
name "spoolgate init my-home" "spoolgate init @HOME-new"
name "--agent-user bot" "--agent-user nobody"
name 2026-01-05T08:00:00Z "$due"
name "--timeout 3600" "--timeout 1"
name "keys add trend-bot --out bot.key" "keys add trend-bot --out another.key"
name "--ed25519 --out bot.key" "--ed25519 --out another.key"
name 2026-03-02T18:00:00Z "$(date -u -d '+2 hours' +%Y-%m-%dT%H:00:00Z)"
rm -f ../out
