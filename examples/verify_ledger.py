#!/usr/bin/env python3
"""Check a spoolgate ledger with nothing but the Python standard library: python3 verify_ledger.py AUDIT_DIR

Reads AUDIT_DIR/log-*.jsonl (unpack archived segments first) and AUDIT_DIR/checkpoint if it is there. Checks that every
line names the leaf hash of the line before it, that line and batch numbers follow on, that every seal holds the RFC
6962 root of all lines before it, that each later file continues the one before it and accounts for a torn rest there,
that every file's lines end in a seal, and that the checkpoint is the size and root of a seal.

Does NOT check signatures, as the standard library has no Ed25519, nor the JSON of lines that are neither seal nor
segment. It shows that a ledger is consistent, not who wrote it: one that was rewritten as a whole, or cut at a seal, or
that has another signature in its last line, passes. Compare the printed head with one noted earlier.
"""
import base64, functools, hashlib, json, pathlib, sys

def sha256(*parts): return hashlib.sha256(b"".join(parts)).digest()
def check(good, why):
    if not good: raise ValueError(why)

path, number, told = pathlib.Path(sys.argv[1] if len(sys.argv) == 2 else sys.exit(__doc__)), 0, []
checkpoint, files = path / "checkpoint", sorted(path.glob("log-????????.jsonl"))
# edge: roots of the perfect subtrees at the tree's right edge, largest first. seals: size -> root, as in checkpoints.
head, edge, seals, seq, batch = bytes(32), [], {}, 0, 0
try:
    check(files, "no log files")
    for path, later in zip(files, files[1:] + [None]):
        data, number, kind = path.read_bytes(), 0, None
        # How much of a file is lines, and what is torn rest, is told by the first line of the next file.
        segment = json.loads(later.read_bytes().split(b"\n")[0]) if later else {"previous": {"length": len(data)}}
        valid, rest = data[:segment["previous"]["length"]], data[segment["previous"]["length"]:]
        for number, line in enumerate(valid.split(b"\n")[:-1], 1):
            start = b'{"prev":"%s","seq":%d,"batch":%d,"kind":"' % (head.hex().encode(), seq, batch)
            check(line.startswith(start), "wrong prev, seq or batch")
            kind = line[len(start):].split(b'"')[0]
            check((kind == b"segment") == (number == 1 and path != files[0]), "segment line missing or out of place")
            if kind == b"seal":
                root = functools.reduce(lambda right, left: sha256(b"\1", left, right), reversed(edge or [sha256()]))
                seal = start + b'seal","size":%d,"root":"%s","sig":"' % (seq, root.hex().encode())
                check(line.startswith(seal), "wrong size or root in seal")
                seals[b"%d" % seq], batch = base64.b64encode(root), batch + 1
            head, node, seq = sha256(b"\0", line), sha256(b"\0", line), seq + 1
            for _ in range((seq & -seq).bit_length() - 1):  # one merge for each bit carried in counting up to seq
                node = sha256(b"\1", edge.pop(), node)
            edge.append(node)
        check(kind == b"seal" and valid.endswith(b"\n"), "lines do not end in a seal")
        ends = {"file": path.name, "length": len(valid), "lines": number, "head": head.hex()}
        torn = {"offset": len(valid), "length": len(rest), "sha256": sha256(rest).hex()} if rest else None
        check(not later or (segment["previous"], segment["rest"]) == (ends, torn), "not what the next file says of it")
        told += [f"torn: {path.name}: {len(rest)} bytes from byte {len(valid)} on were never sealed"] if rest else []
    if checkpoint.exists():
        path, number = checkpoint, 2
        size, root = (checkpoint.read_bytes().split(b"\n") + 3 * [b""])[1:3]
        check(seals.get(size) == root, "size and root are not those of a seal")
    print(f"ok: {seq} lines, {batch} batches, head {head.hex()}", *told, sep="\n")
except Exception as error:
    sys.exit(print(f"bad: {path.name}:{number}: {error}") or 1)
