"""The published vectors (tests/vectors/wire), which the gate and every client agree on."""

import json
import os
import sys
import tempfile
import unittest
from decimal import Decimal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "src"))
from spoolgate import Gate, Held, Key, RateLimited, Refused, Request, sign  # noqa: E402
from spoolgate._spool import Answer  # noqa: E402
from spoolgate._wire import frame, read_answer  # noqa: E402

with open(os.path.join(HERE, *[os.pardir] * 3, "tests/vectors/wire/v1.json"), encoding="utf-8") as file:
    VECTORS = json.load(file)


def without_ed25519():
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return "SKIPPED: Ed25519 keys, because `cryptography` is not installed"
    return None


class Vectors(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.keys = {}
        for entry in VECTORS["keys"]:
            if entry["algorithm"] == "ed25519" and without_ed25519():
                print(without_ed25519(), file=sys.stderr)
                continue
            path = os.path.join(self.folder.name, entry["name"])
            with open(path, "x", encoding="utf-8") as file:
                file.write(entry["key_file"])
            os.chmod(path, 0o600)
            self.keys[entry["name"]] = Key(path)
            self.assertEqual(self.keys[entry["name"]].principal, entry["principal"])

    def test_requests(self):
        signed = 0
        for vector in VECTORS["requests"]:
            if vector["key"] not in self.keys:
                continue
            with self.subTest(vector["name"]):
                sent = json.loads(vector["sent"])
                made = sign(
                    self.keys[vector["key"]],
                    sent["action"],
                    vector["payload"],
                    sent["id"],
                    vector.get("causality"),
                    sent["timestamp"],
                )
                self.assertEqual(made.payload, vector["payload_min"])
                self.assertEqual(made.causality, vector.get("causality_min"))
                self.assertEqual(made.signing_string, vector["signing_string"])
                self.assertEqual(made.signature, vector["signature"])
                self.assertEqual(made.file_name, vector["file_name"])
                whole = vector["sent"].replace(vector["payload"], vector["payload_min"], 1)
                if "causality" in vector:
                    whole = whole.replace(vector["causality"], vector["causality_min"])
                self.assertEqual(made.bytes.decode(), whole)
                self.assertEqual(Request.parse(made.bytes), made)
                self.assertEqual(Request.parse(vector["sent"].encode())._replace(bytes=made.bytes), made)
                signed += 1
        self.assertGreater(signed, 30)

    def test_the_shortest_example(self):
        sys.path.insert(0, os.path.join(HERE, *[os.pardir] * 3, "examples"))
        from sign_request import minified

        for vector in VECTORS["requests"]:
            self.assertEqual(minified(vector["payload"]), vector["payload_min"])

    def test_frames(self):
        for vector in VECTORS["frames"]:
            self.assertEqual(frame(vector["message"].encode()).hex(), vector["hex"])

    def test_answers(self):
        gate = Gate(self.folder.name, key=self.keys["shared"])
        request = gate.sign("order.submit", {})
        for vector in VECTORS["answers"]:
            with self.subTest(vector["name"]):
                read = read_answer(vector["bytes"].encode())
                if vector["outcome"] == "none":
                    self.assertIsNone(read)
                    continue
                self.assertEqual(read[0], vector["outcome"])
                if vector["outcome"] == "done":
                    body = gate._outcome(Answer(*read), request)
                    if "order_id" in vector:
                        self.assertEqual(body["order_id"], vector["order_id"])
                    continue
                kind = {"refused": Refused, "held": Held, "rate_limited": RateLimited}[vector["outcome"]]
                with self.assertRaises(kind) as caught:
                    gate._outcome(Answer(*read), request)
                no = caught.exception
                self.assertIs(type(no), kind)
                self.assertEqual(no.root.name, vector["root"])
                self.assertEqual(no.max_size, Decimal(vector["max_size"]) if "max_size" in vector else None)
                self.assertEqual(no.retry, vector["retry"])
                self.assertEqual(getattr(no, "hold_id", "") or None, vector.get("hold_id"))

    def test_numbers_of_answers_keep_their_digits(self):
        (vector,) = [vector for vector in VECTORS["answers"] if vector["name"] == "large-numbers"]
        _, whole = read_answer(vector["bytes"].encode())
        self.assertEqual(whole["data"]["n"], [9007199254740993, Decimal("0.10"), Decimal("1e400")])


if __name__ == "__main__":
    unittest.main()
