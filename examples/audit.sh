#!/bin/sh
# What an auditor does with nothing but a copy of the ledger and the log's public key, on a machine without spoolgate.
#
#   sh examples/audit.sh AUDIT_DIR VKEY [CHECKPOINT [RECEIPT...]]
#
# AUDIT_DIR is a copy of a home's `audit` folder. VKEY is the log's verifier key as its owner gave it when the log was made
# (`spoolgate init` prints it): not one out of the copy, which would vouch for itself. CHECKPOINT is one that you took
# earlier, RECEIPT what somebody was handed for a line (`audit prove`, `submit --proof`). Needs python3 and openssl, no spoolgate.
#
# Shows, one after the other, and ends at the first that fails with exit code 1:
#   1  every line names the one before it, every seal the root of all before it           (verify_ledger.py)
#   2  size and root, by a second program of twenty lines                                  (verify_chain.py)
#   3  the ledger's checkpoint, a size and root that step 1 has seen, is signed by VKEY    (openssl)
#   4  the earlier CHECKPOINT is signed by VKEY, and the root of its size lies on this log: nothing before it was rewritten
#   5  each RECEIPT is signed by VKEY, and its line stands in this ledger, byte for byte   (check_receipt.py)
# What it cannot show: a tail that was cut since the last checkpoint you hold. It reads plain segments whose batches are all
# whole; of a log that was torn by a crash, archived, pruned or rotated, and of disclosures and the signatures of seals, `spoolgate
# audit verify` tells.
set -eu

[ $# -ge 2 ] || { echo "usage: audit.sh AUDIT_DIR VKEY [CHECKPOINT [RECEIPT...]]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
audit=$1 vkey=$2
checkpoint=${3:-}
shift 2
[ $# -eq 0 ] || shift
[ -e "$audit/log-00000001.jsonl" ] || { echo "audit: there is no log-00000001.jsonl in $audit" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "audit: $1" >&2; exit 1; }

# The note's signature, checked against VKEY. Gives size and root, the second and third line of what is signed.
note() { # file
    python3 - "$1" "$vkey" "$work" <<'EOF'
import base64, hashlib, subprocess, sys
path, vkey, work = sys.argv[1:]
text = open(path, newline="", encoding="utf-8").read()
signed, signatures = text.rstrip("\n").rsplit("\n\n", 1)
name, key_id, key = vkey.split("+", 2)
key = base64.b64decode(key, validate=True)
origin, size, root = signed.split("\n")[:3]
if name != origin or hashlib.sha256(f"{name}\n".encode() + key).digest()[:4].hex() != key_id:
    sys.exit("is of another log, or VKEY is none")
ours = [base64.b64decode(line.split(" ")[2]) for line in signatures.split("\n") if line.startswith(f"\u2014 {name} ")]
ours = [data[4:] for data in ours if data[:4].hex() == key_id]
if not ours:
    sys.exit("has no signature of VKEY")
der = bytes.fromhex("302a300506032b6570032100") + key[1:]
for part, data in ("key", der), ("signed", (signed + "\n").encode()), ("signature", ours[0]):
    open(f"{work}/{part}", "wb").write(data)
verify = "openssl pkeyutl -verify -pubin -keyform DER -inkey key -rawin -in signed -sigfile signature"
if subprocess.run(verify.split(), cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
    sys.exit("has a signature that VKEY did not make")
print(size, root)
EOF
}

told=$(python3 "$here/verify_ledger.py" "$audit") || fail "the ledger is not consistent: $told"
echo "1 ledger      $told"

told=$(python3 "$here/verify_chain.py" "$audit"/log-*.jsonl) || fail "the second program disagrees: $told"
now=$(echo "$told" | sed -n '2,3p' | tr '\n' ' ')
echo "2 root        ${now% }"

told=$(note "$audit/checkpoint" 2>&1) || fail "the checkpoint $told"
# That it is the size and root of a seal was part of step 1; beside a running gate it may be one of the last few.
size=${told%% *}
echo "3 checkpoint  $size lines, signed by $vkey; $((${now%% *} - size)) after them are not signed for by it"

if [ -n "$checkpoint" ]; then
    told=$(note "$checkpoint" 2>&1) || fail "$checkpoint $told"
    # The ledger up to where that was taken: its lines and the seal that states their root.
    size=${told%% *}
    cat "$audit"/log-*.jsonl | sed -n "$((size + 1))p" > "$work/seal"
    hex=$(echo "${told#* }" | base64 -d | od -An -tx1 | tr -d ' \n')
    grep -q "\"kind\":\"seal\",\"size\":$size,\"root\":\"$hex\"" "$work/seal" ||
        fail "$checkpoint was taken of $size lines with another root: what was before it has been rewritten, or is missing"
    echo "4 earlier     $size lines then, and the same lines now"
fi

for receipt in "$@"; do
    python3 "$here/check_receipt.py" "$receipt" "$vkey" > "$work/line" 2> "$work/why" ||
        fail "$receipt proves nothing: $(tail -n 1 "$work/why")"
    # A receipt of another branch of this log would be sound by itself.
    cat "$audit"/log-*.jsonl | grep -qxF -f "$work/line" || fail "the line of $receipt is not in this ledger"
    echo "5 receipt     $receipt: $(cut -c-120 "$work/line")..."
done
