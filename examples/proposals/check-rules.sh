#!/bin/sh
# Fails when a change of rules needs an approval and has none.
#
#   check-rules.sh BASE [HEAD]          check the change from commit BASE to commit HEAD (absent: HEAD)
#   check-rules.sh --print BASE [HEAD]  print what an approver signs
#
# A change that only tightens passes by itself. Any other, and any change of files that no proof is about
# (safety.yaml, principals.yaml, approvers, ...), needs a signature of a key in rules/approvers *of BASE*
# over what --print prints:
#
#   check-rules.sh --print main > change.txt
#   ssh-keygen -Y sign -n spoolgate -f ~/.ssh/id_ed25519 change.txt
#   mkdir -p proposals/approvals
#   mv change.txt.sig "proposals/approvals/$(sha256sum < change.txt | cut -c-64).sig"
#
# SPOOLGATE names the program (absent: spoolgate). Needs git, tar and sha256sum.
# Exit codes: 0 nothing to approve, or approved; 1 not approved; 2 it cannot be told.
set -eu

program=${SPOOLGATE:-spoolgate}
fail() { echo "check-rules: $1" >&2; exit "$2"; }

print=no
if [ "${1:-}" = --print ]; then print=yes; shift; fi
[ $# -ge 1 ] || fail "usage: check-rules.sh [--print] BASE [HEAD]" 2
base=$(git merge-base "$1" "${2:-HEAD}") || fail "no common commit of $1 and ${2:-HEAD}" 2
head=$(git rev-parse --verify "${2:-HEAD}^{commit}") || fail "no commit ${2:-HEAD}" 2

# Both sides with the digests of all contents: neither can change without the signature falling away.
statement() {
    echo "spoolgate rules change"
    echo "from"
    git ls-tree -r --full-tree "$base" -- rules
    echo "to"
    git ls-tree -r --full-tree "$head" -- rules
}

if [ "$print" = yes ]; then statement; exit 0; fi
if git diff --quiet "$base" "$head" -- rules; then echo "no change of rules"; exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/old" "$work/new"
git archive "$base" rules | tar -x -C "$work/old"
git archive "$head" rules | tar -x -C "$work/new"

code=0
"$program" --format json rules diff "$work/old" "$work/new" > "$work/diff.json" || code=$?
[ "$code" -le 1 ] || fail "the rules of one side cannot be read" 2

# Of what rules and sets do not hold there is no proof.
unproved=$(git diff --name-only "$base" "$head" -- rules |
    grep -v -E '^rules/(core|active|sets)/[a-z0-9-]+\.yaml$|^rules/tests/' || true)
if [ "$code" -eq 0 ] && [ -z "$unproved" ]; then echo "the change only tightens"; exit 0; fi

if [ "$code" -ne 0 ]; then cat "$work/diff.json"; echo; fi
if [ -n "$unproved" ]; then echo "not compared:"; echo "$unproved"; fi

statement > "$work/change.txt"
digest=$(sha256sum < "$work/change.txt" | cut -c-64)
signature=proposals/approvals/$digest.sig
# The base's list: a change cannot bring its own approver.
git show "$base:rules/approvers" > "$work/approvers" 2> /dev/null ||
    fail "the change needs an approval, and there is no rules/approvers to approve it" 1
git show "$head:$signature" > "$work/change.txt.sig" 2> /dev/null ||
    fail "the change needs an approval: $signature is not there" 1
"$program" proposals verify "$work/change.txt" --approvers "$work/approvers" ||
    fail "the change needs an approval, and $signature is none" 1
echo "the change is approved"
