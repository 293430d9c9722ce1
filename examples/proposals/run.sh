#!/bin/sh
# A rule from an agent's proposal to the gate's rulebook, by way of a git review and an approver's SSH signature.
#
#   sh examples/proposals/run.sh [DIR]      DIR: a new folder; absent: one for temporary files, kept
#
# Shows: `rule.propose` of an agent; the pending file that the gate writes; a branch for review; an approval by
# `ssh-keygen -Y sign`; what a runner checks before the merge; the gate applying what was merged, and nothing else (a signature
# of somebody who is no approver is tried first); and `rules review` over the rule file that came of it, which only tightens,
# and over a change that loosens it, which needs a signature of its own.
# Needs git, ssh-keygen and spoolgate on PATH. Exit code 0: the rule is in force and refuses.
set -eu

work=${1:-$(mktemp -d)}
mkdir -p "$work"
work=$(cd "$work" && pwd)
home=$work/home
gate() { spoolgate --home "$home" "$@"; }
say() { echo; echo "== $1"; }
fail() { echo "run.sh: $1" >&2; exit 1; }

# Nobody's own settings: no hooks, no signing of commits, no prompt.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export GIT_AUTHOR_NAME=reviewer GIT_AUTHOR_EMAIL=reviewer@example.com
export GIT_COMMITTER_NAME=reviewer GIT_COMMITTER_EMAIL=reviewer@example.com

say "a home, whose rules lie in a repository; alice may approve"
spoolgate init "$home" > /dev/null
gate keys add trend-bot --out "$work/bot.key" > /dev/null
gate account deposit 5000 --reason "opening balance" > /dev/null
for who in alice mallory; do ssh-keygen -q -t ed25519 -N "" -C "$who" -f "$work/$who"; done
echo "alice@example.com namespaces=\"spoolgate\" $(cat "$work/alice.pub")" > "$home/rules/approvers"
git init -q --bare -b main "$work/origin.git"
git clone -q "$work/origin.git" "$work/desk" 2> /dev/null
cd "$work/desk"
git checkout -q -B main
cp -r "$home/rules" .
mkdir proposals && cp -r "$home/proposals/theses" proposals/
git add . && git commit -q -m "rules of the gate" && git push -q origin main

say "an agent proposes a rule for everybody; that waits for people"
cat > "$work/proposal.json" <<'EOF'
{"Activate":{"rule":{"id":"no-large-entries","status":"active","applies_to":{"action":"order.submit"},
  "when":[{"field":"order.size","op":"gt","value":"0.02"}],"then":"reject","message":"{order.size} is more than 0.02 at once"},
 "evidence":{"summary":"larger entries slipped by more than they were worth","sample_size":18,"ledger_seqs":[]}}}
EOF
gate sign "$work/proposal.json" --as trend-bot --action rule.propose --key "$work/bot.key" > "$work/request.json"
gate handle "$work/request.json" > "$work/answer.json"
id=$(sed -n 's/.*"proposal_id":"\(p-[0-9]*\)".*/\1/p' "$work/answer.json")
[ -f "$home/proposals/pending/$id.yaml" ] || fail "there is no pending file: $(cat "$work/answer.json")"
cat "$home/proposals/pending/$id.yaml"

say "whoever runs the gate puts it up for review, on a branch"
git checkout -q -b "$id"
mkdir -p proposals/pending
cp "$home/proposals/pending/$id.yaml" proposals/pending/
git add . && git commit -q -m "$id: proposed by trend-bot" && git push -q origin "$id"

# What reaches the gate is what was merged: the approved folder of main, by whatever deploys it.
deploy() {
    git -C "$work/desk" checkout -q main && git -C "$work/desk" pull -q --ff-only origin main
    mkdir -p "$home/proposals/approved"
    cp "$work/desk/proposals/approved/"* "$home/proposals/approved/"
}

approve_as() { # key, message
    git clone -q -b "$id" "$work/origin.git" "$work/review-$1"
    cd "$work/review-$1"
    mkdir -p proposals/approved
    # The pending file's own bytes, under the namespace that keeps this signature from meaning anything elsewhere.
    ssh-keygen -q -Y sign -n spoolgate -f "$work/$1" "proposals/pending/$id.yaml"
    git mv "proposals/pending/$id.yaml" proposals/approved/
    mv "proposals/pending/$id.yaml.sig" proposals/approved/
    git add . && git commit -q -m "$id: $2"
}

say "mallory is no approver: the runner stops her, and so would the gate"
approve_as mallory "approved, says mallory"
if spoolgate proposals verify "proposals/approved/$id.yaml" --approvers "$home/rules/approvers"; then
    fail "a stranger's signature passed"
fi
mkdir -p "$home/proposals/approved"
cp proposals/approved/* "$home/proposals/approved/"
gate run --until-idle > "$work/run.log" 2>&1
[ ! -e "$home/rules/active/no-large-entries.yaml" ] || fail "the gate applied what a stranger signed"
rm "$home/proposals/approved/"*

say "alice reads it, signs it, and it is merged"
approve_as alice "approved"
# What a runner asks of the branch, with the approvers of main and the program of main.
git show "origin/main:rules/approvers" > "$work/approvers"
spoolgate proposals verify "proposals/approved/$id.yaml" --approvers "$work/approvers" || fail "alice's signature does not verify"
spoolgate rules review origin/main HEAD
git push -q origin "HEAD:$id"
cd "$work/desk"
git checkout -q main && git fetch -q origin && git merge -q --no-ff -m "Merge $id" "origin/$id" && git push -q origin main

say "the gate takes what was merged"
deploy
gate run --until-idle
[ -e "$home/rules/active/no-large-entries.yaml" ] || fail "the gate did not apply the merged proposal"
gate proposals list

say "the rule's file goes into the repository: it only tightens, so nobody has to sign again"
git checkout -q -b "$id-applied"
mkdir -p rules/active
cp "$home/rules/active/no-large-entries.yaml" rules/active/
git add . && git commit -q -m "$id: as the gate applied it"
spoolgate rules review main HEAD
git checkout -q main && git merge -q --ff-only "$id-applied" && git push -q origin main

say "a change that loosens it fails until an approver signs that very change"
git checkout -q -b looser
sed -i 's/0\.02/0.03/' rules/active/no-large-entries.yaml
git commit -q -a -m "larger entries"
code=0
spoolgate rules review main HEAD --statement "$work/change.json" || code=$?
[ "$code" -eq 3 ] || fail "a loosening passed unsigned"
ssh-keygen -q -Y sign -n spoolgate -f "$work/alice" "$work/change.json"
folder=proposals/approvals/$(sha256sum < "$work/change.json" | cut -c-64)
mkdir -p "$folder"
mv "$work/change.json" "$folder/statement.json"
mv "$work/change.json.sig" "$folder/alice.sig"
git add . && git commit -q -m "approval of alice"
spoolgate rules review main HEAD

say "an entry beyond the rule, as the gate decides it now"
echo '{"strategy":"trend","symbol":"BTC-USD","side":"buy","size":"0.025","order_type":"limit","price":"6760","stop_price":"6600",
 "thesis_slug":"btc-range-long","planned_entry":"6760","planned_stop":"6600"}' > "$work/order.json"
gate sign "$work/order.json" --as trend-bot --action order.submit --key "$work/bot.key" --id too-large > "$work/request.json"
code=0
gate handle "$work/request.json" > "$work/answer.json" || code=$?
[ "$code" -eq 1 ] && grep -q no-large-entries "$work/answer.json" || fail "the rule does not refuse it: $(cat "$work/answer.json")"
echo "refused by no-large-entries. To look around: spoolgate --home $home proposals show $id"
