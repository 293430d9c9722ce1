#!/usr/bin/env python3
"""Chain and root of a spoolgate ledger, with nothing but hashes: python3 verify_chain.py AUDIT_DIR/log-*.jsonl

Two dozen lines, to be read before they are run. Every line must begin with the leaf hash of the line before it, its number
and its batch's, and every seal with the number of lines before it and their RFC 6962 root; each file must end in a seal. What
a killed gate left behind the last seal of a file, unsealed, is told by the first line of the next file, and reported.
Prints size and root of the last seal, the second and third line of a checkpoint: compare with one kept elsewhere. Knows
no signatures or archives: verify_ledger.py reads more of them, `spoolgate audit verify` all."""
import base64, hashlib, io, json, sys
sha256 = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
head, seq, batch, edge, root, seal = bytes(32), 0, 0, [], b"", False  # edge: (leaves, root) of perfect subtrees
for name, later in zip(sys.argv[1:], sys.argv[2:] + [None]):
    data, segment = open(name, "rb").read(), json.loads(open(later, "rb").readline()) if later else {}
    end = segment.get("previous", {}).get("length", len(data))
    if rest := data[end:]:
        if sha256(rest).hex() != (segment.get("rest") or {}).get("sha256"):
            sys.exit(f"bad: {name}: the bytes from {end} on are not the rest that {later} names")
        print(f"torn: {name}: {len(rest)} bytes from byte {end} on were never sealed")
    for line in io.BytesIO(data[:end]):
        start = b'{"prev":"%s","seq":%d,"batch":%d,"kind":"' % (head.hex().encode(), seq, batch)
        if seal := line.startswith(start + b'seal",'):
            root = edge[-1][1] if edge else sha256()
            for _, left in edge[-2::-1]:
                root = sha256(b"\1", left, root)
            start += b'seal","size":%d,"root":"%s","sig":"' % (seq, root.hex().encode())
        if not line.startswith(start) or not line.endswith(b'"}\n' if seal else b'}\n'):
            sys.exit(f"bad: {name}: line {seq} is not over the lines before it")
        head, seq, batch = sha256(b"\0", line[:-1]), seq + 1, batch + seal
        edge.append((1, head))
        while len(edge) > 1 and edge[-2][0] == edge[-1][0]:
            edge[-2:] = [(2 * edge[-1][0], sha256(b"\1", edge[-2][1], edge[-1][1]))]
    if not seal:
        sys.exit(f"bad: {name}: does not end in a seal")
print(f"ok\n{seq - 1}\n{base64.b64encode(root).decode()}" if seal else __doc__)
