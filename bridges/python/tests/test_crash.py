"""A bridge that is killed at any point doubles nothing and loses nothing.

`Points` cuts the bridge off at every point in turn: before and after each request to the exchange, each statement of the
journal and each step on files. `Processes` kills the real process with SIGKILL.
"""
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from decimal import Decimal

import rig
from test_core import Case

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)


class Killed(BaseException):
    """Nothing in the bridge catches it, as nothing catches SIGKILL."""


class Countdown:
    """Kills at the n-th point."""

    def __init__(self, n):
        self.left = n

    def __call__(self):
        self.left -= 1
        if self.left == 0:
            raise Killed()


def armed(r, point):
    """Makes every effect of a bridge a point to be killed at. Returns a function that undoes that."""
    journal, venue = r.bridge.journal, r.venue
    real_ask, real_run = venue.ask, journal.run
    files = {name: getattr(os, name) for name in ("rename", "unlink", "fsync")}
    bridge_folders = r.gate.home

    def ask(op, **members):
        point()
        if op == "place":
            # Like Kraken: a name is refused only while an order of that name is open.
            r.exchange.db.execute(
                "UPDATE orders SET client_order_id = client_order_id || '~' || n WHERE client_order_id = ? AND status <> 'open'",
                [members["client_order_id"]],
            )
        answer = real_ask(op, **members)
        point()
        return answer

    def run(query, *values):
        point()
        real_run(query, *values)
        point()

    def step(name):
        def call(*arguments, **more):
            is_ours = name == "fsync" or str(arguments[0]).startswith(bridge_folders)
            if is_ours and not r.gate.is_busy:
                point()
            result = files[name](*arguments, **more)
            if is_ours and not r.gate.is_busy:
                point()
            return result

        return call

    venue.ask, journal.run = ask, run
    for name in files:
        setattr(os, name, step(name))

    def undo():
        venue.ask, journal.run = real_ask, real_run
        for name, real in files.items():
            setattr(os, name, real)

    return undo


class Points(Case):
    def story(self, r):
        """Steps of a gate and a market: an entry that fills in parts, its stop, a tightening, an exit, a cancel; then an
        entry that works when the gate falls silent."""
        yield lambda: r.gate.tell("o-1", 1, size="0.3", price="100")
        yield lambda: r.price("100")
        yield lambda: r.gate.tell("o-1-stop", 1, size="0.2", order_type="stop", price=None, trigger="90", side="sell")
        yield lambda: r.price("100")
        yield lambda: r.gate.tell("o-1-stop", 2, "place", size="0.3", order_type="stop", price=None, trigger="95", side="sell")
        yield lambda: r.gate.tell("o-1", 2, "cancel", size="0.3", valid_s=None)
        yield lambda: r.gate.tell("o-1-stop", 3, "place", size="0.1", order_type="stop", price=None, trigger="95", side="sell")
        yield lambda: r.gate.tell("o-2", 1, size="0.2", price=None, order_type="market", side="sell", reduces=True)
        yield lambda: r.price("96")
        yield lambda: r.gate.tell("o-1-stop", 4, "cancel", size="0.1", valid_s=None)
        yield lambda: r.gate.tell("o-3", 1, price="80", reduces=False)
        yield lambda: r.gate.speak(seconds=-1)
        yield lambda: r.gate.speak()

    def play(self, n):
        """Plays the story and kills the bridge at point n. Returns whether it came to that."""
        r = rig.Rig(part="0.2")
        point = Countdown(n)
        undo = armed(r, point)
        try:
            for step in self.story(r):
                r.gate.is_busy = True
                step()
                r.gate.is_busy = False
                for _ in range(3):
                    try:
                        r.hurry()
                        r.bridge.step()
                    except Killed:
                        undo()
                        r.exchange.tick()  # the market goes on without it
                        r.start()
                        undo = armed(r, point)
                    r.gate.is_busy = True
                    r.gate.answer()
                    r.gate.is_busy = False
            undo()
            r.turn()
            self.check(r, n)
            return point.left <= 0
        finally:
            undo()
            r.close()

    def check(self, r, n):
        trades = r.exchange.do_trades({"since": "2020-01-01T00:00:00Z"})
        booked = sorted(x["exec_id"] for x in r.gate.reports if x["exec_type"] == "trade")
        self.assertEqual(booked, sorted(f"t-{trade['trade_id']}" for trade in trades), f"point {n}")
        self.assertEqual(r.gate.refused, [], f"point {n}")
        sums = {"buy": Decimal(0), "sell": Decimal(0)}
        for trade in trades:
            sums[trade["side"]] += Decimal(trade["size"])
        self.assertEqual((sums["buy"], sums["sell"]), (Decimal("0.3"), Decimal("0.2")), f"point {n}")
        self.assertEqual(r.open(), [], f"point {n}")
        names = [row["client_order_id"] for row in r.exchange.rows("SELECT client_order_id FROM orders")]
        self.assertEqual(len(names), 6, f"point {n}")
        self.assertEqual(os.listdir(os.path.join(r.gate.outbox, "taken")), [], f"point {n}")
        # What the gate has to hear: every order has its last word.
        last = {x["order_id"]: (x["exec_type"], x.get("version")) for x in r.gate.reports if x["exec_type"] != "trade"}
        self.assertEqual(
            last, {"o-1": ("canceled", 2), "o-1-stop": ("canceled", 4), "o-2": ("new", 1), "o-3": ("canceled", 1)}, f"point {n}"
        )

    def test_every_point(self):
        n, step = 1, 7 if rig.IS_SHORT else 1
        while self.play(n):
            n += step
        self.assertGreater(n, 300)


class Processes(unittest.TestCase):
    """SIGKILL at random moments of the real process, with the exchange behind its socket."""

    def test_sigkill(self):
        seed = int(os.environ.get("SEED", random.randrange(1 << 30)))
        dice = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder, self.subTest(seed=seed):
            self.kill_often(folder, dice)

    def start(self, *arguments):
        return subprocess.Popen(
            [sys.executable, "-m", *arguments], env={**os.environ, "PYTHONPATH": PACKAGE}, stderr=subprocess.DEVNULL
        )

    def kill_often(self, folder, dice):
        gate = rig.Gate(os.path.join(folder, "home"))
        key, prices, socket = (os.path.join(folder, name) for name in ("key", "prices", "socket"))
        with open(key, "w", encoding="utf-8") as file:
            rig.json.dump(rig.KEY, file)
        with open(prices, "w", encoding="utf-8") as file:
            file.write("100\n")
        exchange = self.start(
            "spoolgate_bridge.exchange", socket, "--prices", prices, "--state", folder, "--every", "0.02",
            "--part", "0.1", "--balance", "USD=100000", "--balance", "BTC=100",
        )
        command = ["spoolgate_bridge", "--home", gate.home, "--key", key, "--state", os.path.join(folder, "state")]
        bridge, told, version, kills = None, 0, {}, 0
        try:
            ends_at = time.monotonic() + (5 if rig.IS_SHORT else 12)
            next_kill = 0
            while time.monotonic() < ends_at:
                gate.speak()
                if bridge is None or time.monotonic() >= next_kill:
                    if bridge is not None:
                        bridge.kill()
                        bridge.wait()
                        kills += 1
                    bridge = self.start(*command, "--venue", f"mock:{socket}")
                    # A start takes most of this; the rest is somewhere in its work.
                    next_kill = time.monotonic() + 0.2 + dice.random() * 0.5
                if told < 40 and dice.random() < 0.3:
                    order = f"o-{10 + told}"
                    reduces = dice.random() < 0.5
                    gate.tell(order, 1, size="0.2", price="100", side="sell" if reduces else "buy", reduces=reduces)
                    version[order] = 1
                    told += 1
                elif version and dice.random() < 0.1:
                    order = dice.choice(sorted(version))
                    version[order] += 1
                    verb = dice.choice(["place", "cancel"])
                    gate.tell(order, version[order], verb, size="0.3", price="100", reduces=True, valid_s=None if verb == "cancel" else 60)
                gate.answer()
                time.sleep(0.01)
            self.settle(gate, exchange, bridge, folder)
            self.assertGreater(kills, 3 if rig.IS_SHORT else 10)
        finally:
            for process in (bridge, exchange):
                if process is not None and process.poll() is None:
                    process.kill()
                    process.wait()

    def settle(self, gate, exchange, bridge, folder):
        """Lets the last bridge finish and compares what was traded with what was told."""
        db = sqlite3.connect(os.path.join(folder, "exchange.db"))
        journal = sqlite3.connect(os.path.join(folder, "state", "journal.db"))
        # Every order reaches its price, so in the end nothing works, nothing is due and nothing is untold.
        untold = (
            "SELECT 1 FROM attempts WHERE state IN ('sending', 'working', 'disowned') OR booked <> filled UNION ALL"
            " SELECT 1 FROM instructions WHERE done = 0 UNION ALL SELECT 1 FROM pending UNION ALL"
            " SELECT 1 FROM reports WHERE answer IS NULL"
        )
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            gate.speak()
            gate.answer()
            if not [name for name in os.listdir(gate.outbox) if name.startswith("o-")] and not journal.execute(untold).fetchone():
                break
            time.sleep(0.02)
        journal.close()
        bridge.send_signal(signal.SIGTERM)
        ended_at = time.monotonic() + 20
        while bridge.poll() is None and time.monotonic() < ended_at:
            gate.answer()
            time.sleep(0.02)
        self.assertEqual(bridge.poll(), 0)
        exchange.terminate()
        self.assertEqual(exchange.wait(20), 0)
        self.assertEqual(self.booked(gate), self.traded(db))
        self.assertGreater(len(self.booked(gate)), 5 if rig.IS_SHORT else 20)
        self.assertEqual(gate.refused, [])
        db.close()

    @staticmethod
    def booked(gate):
        return sorted(x["exec_id"] for x in gate.reports if x["exec_type"] == "trade")

    @staticmethod
    def traded(db):
        return sorted(f"t-T{n}" for n, in db.execute("SELECT n FROM trades"))


if __name__ == "__main__":
    unittest.main()
