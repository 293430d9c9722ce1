#!/usr/bin/env python3
"""Chain and root of a spoolgate ledger, with nothing but hashes: python3 verify_chain.py AUDIT_DIR/log-*.jsonl

Twenty lines, to be read before they are run. Every line must begin with the leaf hash of the line before it, its number
and its batch's, and every seal with how many lines stand before it and their RFC 6962 root; each file must end in a seal.
Prints size and root of the last seal, the second and third line of a checkpoint: compare with one kept elsewhere. Knows
no signatures, torn rests or archives: verify_ledger.py reads more of them, `spoolgate audit verify` all."""
import base64, hashlib, sys
sha256 = lambda *parts: hashlib.sha256(b"".join(parts)).digest()
head, seq, batch, edge, root, seal = bytes(32), 0, 0, [], b"", False  # edge: (leaves, root) of perfect subtrees
for name in sys.argv[1:]:
    for line in open(name, "rb"):
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
