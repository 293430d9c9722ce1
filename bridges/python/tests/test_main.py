"""The commands, as processes."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import rig

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.processes = folder.name, []
        self.gate = rig.Gate(os.path.join(folder.name, "home"))
        self.socket, self.key = os.path.join(folder.name, "socket"), os.path.join(folder.name, "key")
        self.write_key(rig.KEY)
        self.addCleanup(self.end)

    def write_key(self, key):
        with open(self.key, "w", encoding="utf-8") as file:
            json.dump(key, file)

    def end(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stderr.close()

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], env={**os.environ, "PYTHONPATH": PACKAGE}, stderr=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        return process

    def exchange(self, *prices, every="0.05"):
        path = os.path.join(self.folder, "prices")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(f"{price}\n" for price in prices))
        return self.start(
            "spoolgate_bridge.exchange", self.socket, "--prices", path, "--state", self.folder, "--every", every,
            "--balance", "USD=100000", "--balance", "BTC=10",
        )

    def bridge(self, home=None):
        state = os.path.join(self.folder, "state")
        return self.start(
            "spoolgate_bridge", "--home", home or self.gate.home, "--key", self.key, "--state", state,
            "--venue", f"mock:{self.socket}",
        )

    def wait(self, done, why):
        deadline = time.monotonic() + 30
        while not done():
            self.assertLess(time.monotonic(), deadline, why)
            self.gate.speak()
            self.gate.answer()
            time.sleep(0.02)

    def kinds(self):
        return [(x["order_id"], x["exec_type"]) for x in self.gate.reports]

    def test_sigterm_takes_out_entries_and_leaves_stops(self):
        self.exchange("100")
        bridge = self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        self.gate.tell("o-1", 1, price="90")
        self.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        self.wait(lambda: len(self.gate.reports) == 2, "both work")
        bridge.send_signal(signal.SIGTERM)
        self.wait(lambda: bridge.poll() is not None, "it ends")
        self.assertEqual(bridge.returncode, 0)
        self.assertEqual(self.kinds()[2:], [("o-1", "canceled")])
        self.assertEqual(self.gate.alive()["venue"], "down")
        run = self.gate.alive()["run"]
        count = len(self.gate.snapshots)
        self.bridge()
        self.wait(lambda: len(self.gate.snapshots) > count, "a snapshot of the next run")
        newest = self.gate.snapshots[-1]
        self.assertEqual([order["order_id"] for order in newest["orders"]], ["o-1-stop"])
        self.assertNotEqual(newest["run"], run)

    def test_sigterm_without_an_exchange_ends_too(self):
        bridge = self.bridge()
        self.wait(lambda: os.path.exists(os.path.join(self.gate.outbox, ".alive")), ".alive")
        bridge.send_signal(signal.SIGTERM)
        self.wait(lambda: bridge.poll() is not None, "it ends")
        self.assertEqual(bridge.returncode, 0)

    def test_an_exchange_that_does_not_answer_does_not_make_the_bridge_look_dead(self):
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(self.socket)
        listener.listen()
        self.bridge()
        self.wait(lambda: os.path.exists(os.path.join(self.gate.outbox, ".alive")), ".alive")
        first = self.gate.alive()
        self.wait(lambda: self.gate.alive()["at"] != first["at"], "another one")
        second = self.gate.alive()
        self.assertEqual((second["run"], second["venue"]), (first["run"], "down"))

    def test_a_key_that_the_gate_refuses_ends_bridge_and_feed_with_2(self):
        self.exchange("100")
        bridge = self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        self.gate.tell("o-1", 1, price="90")
        self.wait(lambda: ("o-1", "new") in self.kinds(), "the entry works")
        self.gate.key_code = "SIGNATURE_INVALID"
        self.gate.tell("o-2", 1, price="91", reduces=False)
        self.wait(lambda: bridge.poll() is not None, "it ends")
        said = bridge.stderr.read()
        self.assertEqual(bridge.returncode, 2, said)
        self.assertIn(f"key k1 of `exchange` in `{self.key}`: SIGNATURE_INVALID", said)
        feed = self.start(
            "spoolgate_bridge.feed", "--home", self.gate.home, "--key", self.key, "--venue", f"mock:{self.socket}",
            "--symbol", "BTC-USD", "--every", "0.05",
        )
        self.wait(lambda: feed.poll() is not None, "the feed ends")
        self.assertEqual(feed.returncode, 2)
        self.assertIn("spoolgate keys add exchange", feed.stderr.read())
        # The next run, with a key that counts, tells what was left, and that the entries were taken out.
        self.gate.key_code = None
        self.bridge()
        self.wait(lambda: {("o-1", "canceled"), ("o-2", "canceled")} <= set(self.kinds()), "nothing is lost")

    def test_sigterm_while_the_exchange_does_not_answer_ends_when_the_call_is_over(self):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.socket)
        listener.listen()
        bridge = self.bridge()
        connection, _ = listener.accept()
        self.assertTrue(connection.recv(1))  # a request is under way
        bridge.send_signal(signal.SIGTERM)
        listener.close()
        os.unlink(self.socket)
        connection.close()
        self.wait(lambda: bridge.poll() is not None, "it ends")
        self.assertEqual(bridge.returncode, 0)

    def test_a_second_bridge_of_the_same_state_exits_2(self):
        self.exchange("100")
        self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        second = self.bridge()
        self.assertEqual(second.wait(30), 2)
        self.assertIn("another bridge works with", second.stderr.read())

    def test_what_cannot_start_exits_2(self):
        self.assertEqual(self.bridge(home=self.folder).wait(30), 2)
        self.write_key({**rig.KEY, "algorithm": "ed25519"})
        self.assertEqual(self.bridge().wait(30), 2)
        os.unlink(self.key)
        self.assertEqual(self.bridge().wait(30), 2)

    def test_a_bridge_that_cannot_write_gives_up_with_1(self):
        self.exchange("100")
        bridge = self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        os.rename(self.gate.outbox, self.gate.outbox + ".gone")
        self.assertEqual(bridge.wait(30), 1)
        self.assertIn("gave up", bridge.stderr.read())

    def test_the_exchange_refuses_prices_that_are_none(self):
        self.assertEqual(self.exchange("100", "x").wait(30), 2)
        self.assertEqual(self.exchange().wait(30), 2)

    def test_a_whole_trade(self):
        self.exchange("100")
        self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        self.gate.tell("o-1", 1, price="100")
        self.wait(lambda: ("o-1", "trade") in self.kinds(), "the entry fills")
        self.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="80", side="sell")
        self.wait(lambda: ("o-1-stop", "new") in self.kinds(), "the stop works")
        self.gate.tell("o-1-stop", 2, "cancel", valid_s=None)
        self.wait(lambda: ("o-1-stop", "canceled") in self.kinds(), "the stop makes room")
        self.gate.tell("o-2", 1, price=None, order_type="market", side="sell", reduces=True)
        self.wait(lambda: ("o-2", "trade") in self.kinds(), "the exit fills")
        self.assertEqual(self.gate.refused, [])

    def test_prices_that_are_appended_fill_and_broken_ones_do_not(self):
        self.exchange("100")
        self.bridge()
        self.wait(lambda: self.gate.snapshots, "a snapshot")
        self.gate.tell("o-1", 1, price="90")
        self.wait(lambda: ("o-1", "new") in self.kinds(), "the entry works")
        self.append("x\n")
        self.gate.tell("o-2", 1, price="100")
        self.wait(lambda: ("o-2", "trade") in self.kinds(), "the exchange goes on")
        with open(os.path.join(self.folder, "prices"), "w", encoding="utf-8") as file:
            file.write("100\n")
        # Half a line is no price yet: 9 would fill the entry too, and at another price.
        self.append("9")
        self.append("0\n")
        self.wait(lambda: ("o-1", "trade") in self.kinds(), "the entry fills")
        prices = [x["last_px"] for x in self.gate.reports if x["exec_type"] == "trade" and x["order_id"] == "o-1"]
        self.assertEqual(set(prices), {"90"})

    def append(self, text):
        with open(os.path.join(self.folder, "prices"), "a", encoding="utf-8") as file:
            file.write(text)

    def test_a_feed_of_the_exchange(self):
        self.exchange("100")
        seen = []
        self.gate.take_market = lambda payload: seen.append(payload)
        self.wait(lambda: os.path.exists(self.socket), "the exchange listens")
        feed = self.start(
            "spoolgate_bridge.feed", "--home", self.gate.home, "--key", self.key, "--venue", f"mock:{self.socket}",
            "--symbol", "BTC-USD", "--every", "0.05",
        )
        self.wait(lambda: len(seen) > 2, "quotes")
        self.assertEqual((seen[0]["symbol"], seen[0]["quotes"][0]["bid"]), ("BTC-USD", "100"))
        feed.send_signal(signal.SIGTERM)
        self.assertEqual(feed.wait(30), 0)


if __name__ == "__main__":
    unittest.main()
