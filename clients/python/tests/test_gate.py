"""The client against a real gate, which `cargo test --test it clients::` prepares and names in the environment."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
import unittest
from decimal import Decimal

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "src"))
from spoolgate import AsyncGate, Gate, Held, Refused, Unknown, tools  # noqa: E402

HOME = os.environ.get("SPOOLGATE_HOME")
PID = int(os.environ.get("SPOOLGATE_PID", "0"))
ORDER = {
    "strategy": "trend",
    "symbol": "BTC-USD",
    "side": "buy",
    "order_type": "limit",
    "price": 6760,
    "stop_price": "6600",
    "thesis_slug": "btc-range-long",
    "planned_entry": Decimal("6760.00"),
    "planned_stop": 6600,
}


def operator(*arguments):
    subprocess.run([os.environ["SPOOLGATE"], "--home", HOME, *arguments], check=True, stdout=subprocess.DEVNULL)


@unittest.skipUnless(HOME, "needs a gate: cargo test --test it clients::")
class RealGate(unittest.TestCase):
    def setUp(self):
        self.gate = Gate(HOME, key=os.environ["SPOOLGATE_KEY_FILE"])

    def test_orders(self):
        with self.assertRaises(Refused) as caught:
            self.gate.submit_order(size=Decimal("3.00"), **ORDER)
        no = caught.exception
        self.assertEqual((no.code, no.root.name, no.retry), ("CHECKS_FAILED", "max_order_value", "new_id"))
        self.assertTrue(0 < no.max_size < 1)

        request = self.gate.sign("order.submit", {**ORDER, "size": Decimal("0.010")}, id="-V1StGXR8")
        done = self.gate.send(request)
        self.assertEqual(self.gate.send(request.bytes), done)
        self.assertEqual([order["order_id"] for order in self.gate.orders()].count(done["order_id"]), 1)

        # A gate that stands still, then the same bytes: done once.
        os.kill(PID, signal.SIGSTOP)
        try:
            with self.assertRaises(Unknown) as caught:
                Gate(HOME, key=self.gate.key, wait=0.2).cancel_order(order_id=done["order_id"])
        finally:
            os.kill(PID, signal.SIGCONT)
        caught.exception._gate.wait = 60
        self.assertEqual(caught.exception.again(), caught.exception.again())
        self.assertEqual(self.gate.orders(), [])

    def test_a_hold(self):
        with self.assertRaises(Held) as caught:
            self.gate.submit_order(**{**ORDER, "size": Decimal("0.025"), "thesis_slug": "btc-dip-long"})
        held = caught.exception
        threading.Timer(0.2, operator, ("approvals", "deny", held.hold_id, "--reason", "no")).start()
        with self.assertRaises(Refused) as caught:
            held.wait(60)
        self.assertEqual(caught.exception.code, "APPROVAL_DENIED")

    def test_a_client_that_is_killed(self):
        """Wherever it dies, the bytes that it kept are answered later."""
        for _ in range(20):
            kept = self.gate.sign("portfolio.get", {}).bytes
            child = os.fork()
            if child == 0:
                try:
                    self.gate.send(kept)
                finally:
                    os._exit(0)
            time.sleep(random.random() * 0.01)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.assertIn("equity", self.gate.send(kept))

    def test_an_id_that_was_used(self):
        self.gate.ask("portfolio.get", {}, id="used")
        with self.assertRaises(Refused) as caught:
            self.gate.ask("orders.list", {}, id="used")
        self.assertEqual((caught.exception.code, caught.exception.retry), ("REQUEST_ID_CONFLICT", "new_id"))

    def test_a_malformed_payload(self):
        with self.assertRaises(Refused) as caught:
            self.gate.ask("market.get", '{ "n": 0.10 }')
        self.assertEqual(caught.exception.code, "MALFORMED_PAYLOAD")
        self.assertEqual({fault["pointer"] for fault in caught.exception.faults}, {"/payload/n", "/payload/symbol"})

    def test_an_own_spool_and_asyncio(self):
        async def run():
            gate = AsyncGate(HOME, key=os.environ["SPOOLGATE_AGENT_KEY_FILE"], agent="research-bot")
            both = await asyncio.gather(gate.portfolio(), gate.market_data(symbol="BTC-USD"))
            self.assertEqual(both[0]["equity"], "5000")

        asyncio.run(run())

    def test_an_own_key_and_tools(self):
        try:
            import cryptography  # noqa: F401
        except ImportError:
            print("SKIPPED: Ed25519 keys, because `cryptography` is not installed", file=sys.stderr)
            return
        gate = Gate(HOME, key=os.environ["SPOOLGATE_OWN_KEY_FILE"])
        call = {tool["name"]: tool["call"] for tool in tools(gate, ["trading"])}
        self.assertIn('"equity": "5000"', call["portfolio"]())
        self.assertIn("refused, NOT_FOUND", call["market_data"]({"symbol": "NONE"}))
        dry = call["check"]({"action": "order.submit", "payload": {**ORDER, "size": "3"}})
        self.assertTrue(dry.startswith("dry run: the answer would be error; nothing was done"), dry)

    def test_the_socket(self):
        gate = Gate(socket=os.environ["SPOOLGATE_SOCKET"], key=os.environ["SPOOLGATE_KEY_FILE"])
        request = gate.sign("portfolio.get", {})
        self.assertEqual(gate.send(request), gate.send(request))


if __name__ == "__main__":
    unittest.main()
