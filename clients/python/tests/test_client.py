"""The client against a gate that is played here, on a good day and on all others."""

import asyncio
import contextlib
import errno
import json
import logging
import os
import pickle
import socket
import stat
import struct
import sys
import tempfile
import threading
import time
import traceback
import unittest
from decimal import Decimal
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "src"))
from spoolgate import (
    AsyncGate,
    Gate,
    Held,
    Key,
    KeyFileError,
    NotSent,
    RateLimited,
    Refused,
    Unknown,
    sign,
    tools,
)  # noqa: E402
from spoolgate._spool import Sent  # noqa: E402
from spoolgate._wire import to_json  # noqa: E402

SECRET = "0123456789abcdef" * 4
KEY_FILE = {"principal": "trend-bot", "key_id": "k", "algorithm": "hmac-sha256", "secret": SECRET}
REFUSAL = {"status": "error", "error": {"code": "NOT_PERMITTED", "message": "no"}, "data": {"retry": "never"}}
CONFLICT = {"status": "error", "error": {"code": "REQUEST_ID_CONFLICT", "message": "used"}, "data": {"retry": "new_id"}}


def done(value=1):
    return {"status": "success", "data": {"value": value}}


def later(retry="after", wait_ms=20):
    code = {"code": "RATE_LIMITED", "message": "too much"}
    return {"status": "rate_limited", "error": code, "data": {"retry": retry, "retry_after_ms": wait_ms}}


HELD = {
    "status": "requires_approval",
    "error": {"code": "HELD", "message": "held"},
    "data": {"Held": {"hold_id": "h-1", "expires_at": "x"}},
}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        for name in ("in/trend-bot/tmp", "in/trend-bot/new", "out/trend-bot"):
            os.makedirs(os.path.join(self.home, "spool", name))
        self.key = self.key_file(json.dumps(KEY_FILE))

    def key_file(self, text, mode=0o600):
        path = os.path.join(self.home, f"key-{time.monotonic_ns()}")
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def path(self, *names):
        return os.path.join(self.home, "spool", *names)

    def gate(self, **more):
        return Gate(self.home, **{"key": self.key, "wait": 5, **more})

    def answer(self, name, whole, folder="out"):
        """Publishes as a gate does: a hidden file, then renamed."""
        hidden = self.path(folder, f".{name}.tmp")
        with open(hidden, "w", encoding="utf-8") as file:
            id = "" if name.endswith(".error.json") else name[: -len(".json")].lstrip("+")
            file.write(whole if isinstance(whole, str) else json.dumps({"requestId": id, "auditRef": "1", **whole}))
        os.rename(hidden, self.path(folder, name))

    @contextlib.contextmanager
    def playing(self, play, folder="in"):
        """Calls ``play(name, bytes)`` for every file that is handed in, after taking it."""
        self.taken, ends = [], threading.Event()

        def run():
            while not ends.is_set():
                for name in sorted(os.listdir(self.path(folder))):
                    path = self.path(folder, name)
                    if name.startswith(".") or not name.endswith(".json") or os.stat(path).st_nlink != 1:
                        continue
                    with open(path, "rb") as file:
                        data = file.read()
                    self.taken.append((name, data, stat.S_IMODE(os.stat(path).st_mode)))
                    os.rename(path, os.path.join(self.home, "taken"))
                    play(name, data)
                time.sleep(0.001)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()


class OnAGoodDay(Case):
    def test_a_request_is_handed_in_whole_and_answered(self):
        with self.playing(lambda name, _: self.answer(name, done())):
            self.assertEqual(self.gate().ask("x", {"n": Decimal("0.10")}, id="r-1"), {"value": 1})
        ((name, data, mode),) = self.taken
        self.assertEqual(name, "r-1.json")
        self.assertIn(b'"payload":{"n":0.10}', data)
        self.assertTrue(mode & stat.S_IRGRP)
        self.assertEqual(os.listdir(self.path("in")), ["trend-bot"])

    def test_an_own_spool(self):
        with self.playing(lambda name, _: self.answer(name, done(), "out/trend-bot"), "in/trend-bot/new"):
            self.assertEqual(self.gate(agent="trend-bot").ask("x", {}, id="-r"), {"value": 1})
        self.assertEqual(self.taken[0][0], "+-r.json")
        self.assertEqual(os.listdir(self.path("in/trend-bot/tmp")), [])

    def test_a_mask_that_closes_everything(self):
        old = os.umask(0o077)
        try:
            with self.playing(lambda name, _: self.answer(name, done())):
                self.gate().ask("x", {})
        finally:
            os.umask(old)
        self.assertEqual(self.taken[0][2], 0o640)

    def test_methods_and_bodies(self):
        accepted = {"status": "success", "data": {"Accepted": {"order_id": "o-1", "checks_passed": []}}}
        with self.playing(lambda name, _: self.answer(name, accepted)):
            self.assertEqual(self.gate().cancel_order(order_id="o-1")["order_id"], "o-1")
        self.assertIn(b'"action":"order.cancel","payload":{"order_id":"o-1"}', self.taken[0][1])

    def test_asyncio(self):
        async def run():
            gate = AsyncGate(self.home, key=self.key, wait=5)
            both = await asyncio.gather(gate.ask("x", {}), gate.market_data(symbol="S"))
            self.assertEqual(both, [{"value": 1}, {"value": 1}])
            call = {tool["name"]: tool["call"] for tool in tools(gate)}["portfolio"]
            self.assertIn('{"value": 1}', await call())

        with self.playing(lambda name, _: self.answer(name, done())):
            asyncio.run(run())

    def test_causality(self):
        with self.playing(lambda name, _: self.answer(name, done())):
            self.gate().portfolio(causality={"root_task_id": "t"})
        self.assertTrue(self.taken[0][1].endswith(b',"causality":{"root_task_id":"t"}}'))


class Refusals(Case):
    def test_a_refusal_is_an_exception(self):
        with self.playing(lambda name, _: self.answer(name, REFUSAL)), self.assertRaises(Refused) as caught:
            self.gate().ask("x", {})
        self.assertEqual((caught.exception.code, caught.exception.retry), ("NOT_PERMITTED", "never"))

    def test_held_then_done(self):
        def play(name, _):
            self.answer(name, HELD)
            threading.Timer(0.2, self.answer, (name, done())).start()

        with self.playing(play):
            with self.assertRaises(Held) as caught:
                self.gate().ask("x", {})
            self.assertEqual(caught.exception.hold_id, "h-1")
            self.assertEqual(caught.exception.wait(5), {"value": 1})
        self.answer(f"{caught.exception.request.id}.json", HELD)
        with self.assertRaises(Held):
            caught.exception.wait(0.05)

    def test_rate_limited_sends_the_same_bytes(self):
        answers = iter([later(), done()])
        with self.playing(lambda name, _: self.answer(name, next(answers))):
            with self.assertRaises(RateLimited) as caught:
                self.gate().ask("x", {}, id="r")
            self.assertEqual(caught.exception.again(), {"value": 1})
        self.assertEqual(self.taken[0][1], self.taken[1][1])

    def test_rate_limited_for_too_long_signs_anew(self):
        for retry, at in (("new_id", None), ("after", "2020-01-01T00:00:00Z")):
            answers = iter([later(retry), done()])
            gate = self.gate()
            tricky = '{"b":0.10,"source":"x","payload":{"signature":"\\""}}'
            with self.playing(lambda name, _: self.answer(name, next(answers))):
                with self.assertRaises(RateLimited) as caught:
                    gate.send(sign(gate.key, "x", tricky, "r-" + retry, tricky, at).bytes)
                self.assertEqual(caught.exception.again(), {"value": 1})
            first, second = (json.loads(data) for _, data, _ in self.taken)
            self.assertNotEqual(first["id"], second["id"])
            self.assertNotEqual(first["timestamp"], second["timestamp"])
            self.assertEqual(self.taken[1][1].decode().count(tricky), 2)
            # Again after silence: what was signed anew is the request from now on.
            with self.playing(lambda name, _: self.answer(name, done())):
                self.assertEqual(caught.exception.again(), {"value": 1})
            self.assertEqual(json.loads(self.taken[0][1]), second)

    def test_tools_say_it_in_words(self):
        rows = [
            {
                "check_name": "max_position",
                "passed": False,
                "value": "3",
                "limit": "1",
                "unit": "usd",
                "reason": "too large",
            }
        ]
        body = {
            "Rejected": {
                "checks_failed": rows,
                "checks_passed": [{"check_name": "quiet"}],
                "headroom": {"max_size": "0.5"},
            }
        }
        no = {"status": "error", "error": {"code": "CHECKS_FAILED", "message": "m"}, "data": body}
        call = {tool["name"]: tool["call"] for tool in tools(self.gate(), ["trading"])}["submit_order"]
        with self.playing(lambda name, _: self.answer(name, no)):
            said = call('{"size": 0.10}')
        self.assertTrue(
            said.startswith("refused, max_position: too large (3 usd, limit 1); a size of at most 0.5 would pass\n\n{")
        )
        self.assertNotIn("quiet", said)
        self.assertIn(b'{"size":0.10}', self.taken[0][1])
        self.assertIn("binary float", call({"size": 0.1}))
        self.assertEqual(len(self.taken), 1)
        with self.assertRaises(ValueError):
            tools(self.gate(), ["tradign"])


class Silence(Case):
    def test_no_gate(self):
        gate = self.gate(wait=0.05)
        with self.assertRaises(Unknown) as caught:
            gate.ask("x", {}, id="r")
        with open(self.path("in/r.json"), "rb") as file:
            waiting = file.read()
        self.assertEqual(waiting, caught.exception.request.bytes)
        gate.wait = 5
        with self.playing(lambda name, _: self.answer("r.json", done())):
            self.assertEqual(caught.exception.again(), {"value": 1})
        self.assertTrue(all(data == waiting for _, data, _ in self.taken))

    def test_kept_bytes_are_sent_by_another_process(self):
        kept = self.gate().sign("x", {"n": 1}).bytes
        with self.playing(lambda name, _: self.answer(name, done())):
            self.assertEqual(self.gate().send(kept), {"value": 1})
        self.assertEqual(self.taken[0][1], kept)

    def test_an_answer_is_read_when_it_is_whole(self):
        def play(name, _):
            another = json.dumps({"requestId": name.upper(), **done(666)})  # as where a file system ignores case
            for part in ("", "{", json.dumps(done())[:-1], "\0\0\0", "{}", '{"status":"maybe"}', another):
                self.answer(name, part)
                time.sleep(0.03)
            self.answer(name, done())

        with self.playing(play):
            self.assertEqual(self.gate().ask("x", {}), {"value": 1})

    def test_a_link_or_a_pipe_in_the_place_of_an_answer_is_no_answer(self):
        self.answer("other.json", done(666))

        def play(name, _):
            os.symlink("other.json", self.path("out", name))
            time.sleep(0.1)
            os.unlink(self.path("out", name))
            os.mkfifo(self.path("out", name))
            time.sleep(0.1)
            self.answer(name, done())

        with self.playing(play):
            self.assertEqual(self.gate().ask("x", {}), {"value": 1})


class OthersInTheSpool(Case):
    def test_an_answer_from_before_is_not_taken(self):
        self.answer("r.json", done("old"))
        self.answer("r.json.error.json", CONFLICT)
        with self.playing(lambda name, _: self.answer(name, done("new"))):
            self.assertEqual(self.gate().ask("x", {}, id="r"), {"value": "new"})

    def test_a_gate_that_answers_between_two_looks(self):
        """The file waits when the client looks at it, and is taken and answered before the client looks at anything else."""
        for is_before in (True, False):

            def waits(sent, real=Sent.waits, is_before=is_before):
                found = None if is_before else real(sent)
                if os.path.exists(self.path("in", sent.name)):
                    os.rename(self.path("in", sent.name), os.path.join(self.home, "taken"))
                    self.answer(sent.name, done())
                return real(sent) if found is None else found

            with mock.patch.object(Sent, "waits", waits):
                self.assertEqual(self.gate(wait=1).ask("x", {}), {"value": 1})

    def test_a_waiting_file_of_the_same_name_is_not_replaced(self):
        with open(self.path("in/r.json"), "x") as file:
            file.write("another's")
        with self.assertRaises(Unknown):
            self.gate(wait=0.05).ask("x", {}, id="r")
        with open(self.path("in/r.json")) as file:
            self.assertEqual(file.read(), "another's")
        self.assertTrue(os.path.exists(self.path("in/r.1.json")))

    def test_an_answer_while_the_file_waits_is_anothers(self):
        threading.Timer(0.1, self.answer, ("r.json", done("another's"))).start()
        with self.assertRaises(Unknown):
            self.gate(wait=0.5).ask("x", {}, id="r")

    @mock.patch("spoolgate._spool.CONTESTED_S", 60)
    def test_the_same_id_by_two_senders(self):
        def play(name, _):
            self.answer("r.json", done("another's"))
            time.sleep(0.05)
            self.answer(f"{name}.error.json", CONFLICT)

        with open(self.path("in/r.json"), "x") as file:
            file.write("{}")
        os.link(self.path("in/r.json"), os.path.join(self.home, "stays"))
        with self.playing(lambda name, data: play(name, data) if name == "r.1.json" else None):
            with self.assertRaises(Refused) as caught:
                self.gate().ask("x", {}, id="r")
        self.assertEqual(caught.exception.code, "REQUEST_ID_CONFLICT")

    @mock.patch("spoolgate._spool.CONTESTED_S", 60)
    def test_a_refusal_that_another_provoked_under_the_same_name(self):
        def play(name, _):
            self.answer(
                f"{name}.error.json", {"status": "error", "error": {"code": "SIGNATURE_INVALID", "message": "m"}}
            )
            time.sleep(0.2)
            self.answer(name, done())

        with self.playing(play):
            self.assertEqual(self.gate().ask("x", {}, id="r"), {"value": 1})

    def test_a_refusal_of_this_file(self):
        with self.playing(lambda name, _: self.answer(f"{name}.error.json", REFUSAL)), self.assertRaises(Refused):
            self.gate().ask("x", {})

    def test_folders_behind_links_are_not_used(self):
        os.mkdir(os.path.join(self.home, "trap"))
        os.rename(self.path("in/trend-bot/new"), self.path("in/trend-bot/was"))
        os.symlink(os.path.join(self.home, "trap"), self.path("in/trend-bot/new"))
        with self.assertRaises(NotSent) as caught:
            self.gate(agent="trend-bot").ask("x", {})
        self.assertIn("new", str(caught.exception))
        self.assertEqual(os.listdir(os.path.join(self.home, "trap")) + os.listdir(self.path("in/trend-bot/tmp")), [])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_a_strangers_folder_is_not_used(self):
        for name in ("", "in", "out"):
            os.chown(self.path(name), 1234, 0)
        os.chown(self.path("in/trend-bot"), 4321, 0)
        with self.assertRaises(NotSent) as caught:
            self.gate(agent="trend-bot").ask("x", {})
        self.assertIn("user 4321", str(caught.exception))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_an_agents_user_that_cannot_read_the_spool(self):
        """The owners and modes that deploy/users.sh gives the flat spool."""
        os.chmod(self.home, 0o755)
        for name, mode in (("", 0o755), ("in", 0o3730), ("out", 0o755)):
            os.chown(self.path(name), 1234, 4321)
            os.chmod(self.path(name), mode)
        os.chown(self.key, 2345, 2345)
        reads, writes = os.pipe()
        with self.playing(lambda name, _: self.answer(name, done())):
            child = os.fork()
            if child == 0:
                try:
                    os.setgroups([4321])
                    os.setgid(2345)
                    os.setuid(2345)
                    os.umask(0o077)
                    os.write(writes, repr(self.gate().ask("x", {})).encode())
                except BaseException as error:
                    os.write(writes, repr(error).encode())
                finally:
                    os._exit(0)
            os.waitpid(child, 0)
        os.close(writes)
        with open(reads, "rb") as said:
            self.assertEqual(said.read(), b"{'value': 1}")
        self.assertEqual(self.taken[0][2], 0o640)


class FailingDisks(Case):
    def test_nothing_is_left_where_nothing_was_sent(self):
        for call in ("fsync", "link", "fchmod"):
            with mock.patch(f"os.{call}", side_effect=OSError(errno.ENOSPC, "full")), self.assertRaises(NotSent):
                self.gate().ask("x", {})
            self.assertEqual(os.listdir(self.path("in")), ["trend-bot"], call)

    def test_no_spool(self):
        with self.assertRaises(NotSent):
            Gate(os.path.join(self.home, "nowhere"), key=self.key).ask("x", {})
        with self.assertRaises(NotSent):
            self.gate(agent="nobody").ask("x", {})

    def test_what_fails_after_the_link_is_no_failure_to_send(self):
        real, count = os.fsync, []

        def only_the_first(fd):
            count.append(fd)
            return real(fd) if len(count) == 1 else (_ for _ in ()).throw(OSError(errno.EIO, "io"))

        with mock.patch("os.fsync", side_effect=only_the_first), self.assertRaises(Unknown):
            self.gate(wait=0.05).ask("x", {})
        self.assertEqual(len(count), 2)
        with mock.patch("os.unlink", side_effect=OSError(errno.EIO, "io")), self.assertRaises(Unknown):
            self.gate(wait=0.05).ask("x", {})


class Sockets(Case):
    @contextlib.contextmanager
    def listening(self, *plays):
        """A socket that meets each connection with the next play."""
        path, self.got = os.path.join(self.home, "gate.sock"), []
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()

            def run():
                for play in plays:
                    with server.accept()[0] as client:
                        play(client)

            thread = threading.Thread(target=run)
            thread.start()
            yield Gate(socket=path, key=self.key, wait=5)
            thread.join()

    def read(self, client):
        (length,) = struct.unpack(">I", client.recv(4, socket.MSG_WAITALL))
        self.got.append(client.recv(length, socket.MSG_WAITALL))
        return json.loads(self.got[-1])

    def write(self, client, whole, cut=None):
        data = json.dumps(whole).encode()
        client.sendall((struct.pack(">I", len(data)) + data)[:cut])

    def test_an_answer(self):
        def play(client):
            id = self.read(client)["id"]
            self.write(client, {"requestId": "another", **done(2)})
            self.write(client, {"requestId": id, **done()})

        with self.listening(play) as gate:
            self.assertEqual(gate.ask("x", {"s": "y" * 300_000}), {"value": 1})

    def test_the_same_bytes_until_there_is_an_answer(self):
        closed = lambda client: None  # noqa: E731
        half = lambda client: self.write(client, {"requestId": self.read(client)["id"], **done()}, 20)  # noqa: E731
        whole = lambda client: self.write(client, {"requestId": self.read(client)["id"], **done()})  # noqa: E731
        with self.listening(closed, half, whole) as gate:
            self.assertEqual(gate.ask("x", {}), {"value": 1})
        self.assertEqual(self.got[0], self.got[1])

    def test_no_gate(self):
        with self.assertRaises(NotSent):
            Gate(socket=os.path.join(self.home, "none"), key=self.key).ask("x", {})

    def test_silence(self):
        with self.listening(lambda client: (self.read(client), client.recv(1))) as gate:
            gate.wait = 0.2
            with self.assertRaises(Unknown):
                gate.ask("x", {})


class Keys(Case):
    def test_the_secret_is_nowhere(self):
        gate = self.gate()
        for text in (repr(gate), repr(gate.key), str(gate.key), repr(vars(gate))):
            self.assertNotIn(SECRET, text)
            self.assertNotIn(repr(bytes.fromhex(SECRET)), text)
        for action in (pickle.dumps, json.dumps):
            with self.assertRaises(TypeError):
                action(gate.key)

    def test_key_files_that_cannot_be_used(self):
        of = lambda **changed: json.dumps({**KEY_FILE, **changed})  # noqa: E731
        for text in (
            "",
            "x" + SECRET,
            SECRET,
            "[]",
            of(secret=SECRET.upper()),
            of(secret=SECRET[:-1]),
            of(secret=SECRET + "\n"),
            of(secret=1),
            of(more="x"),
            of(algorithm="none"),
            of() + SECRET,
            of()[:-1] + f',"secret":"{SECRET}"}}',
            of() + " " * 4096,
            "[" * 3000,
        ):
            path = self.key_file(text)
            logged = []
            handler = logging.Handler()
            handler.emit = lambda record: logged.append(record.getMessage())  # noqa: B023
            logging.getLogger().addHandler(handler)
            try:
                Key(path)
                self.fail(text[:40])
            except KeyFileError as error:
                said = "".join(traceback.format_exception(type(error), error, error.__traceback__))
                self.assertNotIn(SECRET[:32], said.replace(path, ""))
                self.assertIsNone(error.__context__ and getattr(error.__context__, "doc", None))
            finally:
                logging.getLogger().removeHandler(handler)
            self.assertEqual(logged, [])

    def test_key_files_that_others_may_open(self):
        for mode in (0o640, 0o604, 0o620, 0o601, 0o660, 0o644):
            with self.assertRaises(KeyFileError) as caught:
                Key(self.key_file(json.dumps(KEY_FILE), mode))
            self.assertIn(f"{mode:04o}", str(caught.exception))
        Key(self.key_file(json.dumps(KEY_FILE), 0o400))

    def test_no_key_file(self):
        with self.assertRaises(FileNotFoundError):
            Key(os.path.join(self.home, "none"))
        with self.assertRaises((KeyFileError, OSError)):
            Key(self.home)
        os.mkfifo(os.path.join(self.home, "pipe"), 0o600)
        with self.assertRaises(KeyFileError):
            Key(os.path.join(self.home, "pipe"))


class Payloads(Case):
    def test_binary_floats_are_not_signed(self):
        for value in (0.1, 1.0, float("nan"), float("inf")):
            for payload in ({"n": value}, {"l": [{"n": value}]}):
                with self.assertRaises(TypeError):
                    self.gate().ask("x", payload)
        self.assertEqual(os.listdir(self.path("in")), ["trend-bot"])

    def test_numbers(self):
        for value, text in (
            (Decimal("0.10"), "0.10"),
            (Decimal("1E+3"), "1000"),
            (Decimal("-0"), "-0"),
            (Decimal("1E-10"), "0.0000000001"),
            (10**30, "1" + "0" * 30),
            (True, "true"),
            (None, "null"),
            (-5, "-5"),
        ):
            self.assertEqual(to_json(value), text)
        for value in (Decimal("NaN"), Decimal("Infinity"), Decimal("-sNaN")):
            with self.assertRaises(ValueError):
                to_json(value)

    def test_what_is_no_payload(self):
        deep = {}
        for _ in range(70):
            deep = {"a": deep}
        for payload, kind in (
            ("[]", ValueError),
            ("{", ValueError),
            ('{"a":1,"a":2}', ValueError),
            ('{"a":NaN}', ValueError),
            (b"\xff", ValueError),
            ({"s": "\ud83d"}, ValueError),
            ('{"s":"\ud83d"}', ValueError),
            ({1: 2}, TypeError),
            ({"a": {1}}, TypeError),
            ({"a": b"x"}, TypeError),
            (deep, ValueError),
            ('{"a":' * 63 + "{}" + "}" * 63, ValueError),
            ('{"a":' * 5000 + "1" + "}" * 5000, ValueError),
        ):
            with self.assertRaises(kind):
                self.gate().sign("x", payload)
        for more in (
            {"id": "a/b"},
            {"id": "x.error"},
            {"id": "x\n"},
            {"id": ""},
            {"causality": []},
            {"causality": {"a": "x" * 8200}},
        ):
            with self.assertRaises((ValueError, TypeError)):
                self.gate().sign("x", {}, **more)
        for action in ("", "X", "a b", "a|b", "a\n"):
            with self.assertRaises(ValueError):
                self.gate().sign(action, {})


if __name__ == "__main__":
    unittest.main()
