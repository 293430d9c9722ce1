"""Checks a receipt without spoolgate: python3 check_receipt.py FILE VKEY. Hashes here, the signature by openssl."""
import base64, hashlib, json, subprocess, sys, tempfile

def strict(read, write):
    def one_spelling(text):
        assert write(read(text)) == text, "another spelling"
        return read(text)
    return one_spelling

b64 = strict(lambda text: base64.b64decode(text, validate=True), lambda data: base64.b64encode(data).decode())
number = strict(int, str)
sha256 = lambda data: hashlib.sha256(data).digest()

def hashes(text, vkey):
    proof, note = text.split("\n\n", 1)
    header, extra, index, *path = proof.split("\n")
    assert header == "c2sp.org/tlog-proof@v1" and extra.startswith("extra ") and index.startswith("index ")
    signed, signatures = note[:-1].rsplit("\n\n", 1)
    (origin, size, root), (name, key_id, key) = signed.split("\n"), vkey.split("+", 2)
    assert origin == name and sha256(f"{name}\n".encode() + b64(key))[:4].hex() == key_id, "another log"
    line, at, last = b64(extra[6:]), number(index[6:]), number(size) - 1
    assert json.loads(line)["seq"] == at <= last and note.endswith("\n")
    node = sha256(b"\0" + line)
    for sibling in map(b64, path):
        assert last > 0, "path too long"
        if at & 1 or at == last:
            node = sha256(b"\1" + sibling + node)
            while at and not at & 1:
                at, last = at >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + sibling)
        at, last = at >> 1, last >> 1
    assert last == 0 and node == b64(root), "the path does not lead to the root"
    ours = [b64(text[len(name) + 3:]) for text in signatures.split("\n") if text.startswith(f"\u2014 {name} ")]
    return signed + "\n", [data[4:] for data in ours if data[:4].hex() == key_id], b64(key)[1:], line

def signature(signed, signatures, key):
    with tempfile.TemporaryDirectory() as folder:
        der = bytes.fromhex("302a300506032b6570032100") + key
        for name, data in ("key", der), ("signed", signed.encode()), ("signature", signatures[0]):
            open(f"{folder}/{name}", "wb").write(data)
        verify = "openssl pkeyutl -verify -pubin -keyform DER -inkey key -rawin -in signed -sigfile signature"
        subprocess.run(verify.split(), cwd=folder, check=True, stdout=subprocess.DEVNULL)

if __name__ == "__main__":
    *heads, line = hashes(open(sys.argv[1], newline="", encoding="utf-8").read(), sys.argv[2])
    signature(*heads)
    print(line.decode())
