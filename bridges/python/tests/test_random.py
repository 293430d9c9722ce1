"""Many short lives of a bridge with everything that can go wrong, drawn at random. `SEED=n` plays one of them."""
import os
import random
import unittest
from decimal import Decimal

import rig
from test_core import Case
from spoolgate_bridge.venue import RateLimited, Refused, Unavailable

LIVES = 25 if rig.IS_SHORT else 80
STEPS = 40


class Life:
    """A gate that instructs at random, and a venue that fails at random and forgets nothing."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.rig = rig.Rig(part=self.dice.choice([None, "0.1", "0.3"]), is_base_fee=self.dice.random() < 0.5)
        self.versions, self.newest, self.hidden = {}, {}, set()
        self.rig.venue.always = {"trades": self.show_trades}
        # Like Kraken: a name is refused only while an order of that name is open.
        place = self.rig.exchange.do_place

        def forgetful(told):
            self.rig.exchange.db.execute(
                "UPDATE orders SET client_order_id = client_order_id || '~' || n WHERE client_order_id = ? AND status <> 'open'",
                [told["client_order_id"]],
            )
            return place(told)

        self.rig.exchange.do_place = forgetful

    def show_trades(self, trades):
        """In any order, some twice, some only later."""
        shown = [trade for trade in trades if trade["trade_id"] not in self.hidden]
        self.dice.shuffle(shown)
        return shown + shown[:1]

    def fault(self):
        op = self.dice.choice(["place", "place", "cancel", "cancel", "order", "open_orders", "trades", "balances", "time", "timer"])
        faults = ["lost before", "lost after", RateLimited("429"), Unavailable("down")]
        if op == "cancel":
            faults.append(Refused("rejected", "not now"))
        if op == "open_orders":
            old = self.rig.open()
            faults.append(lambda ok: old)
        self.rig.venue.faults.setdefault(op, []).append(self.dice.choice(faults))

    def instruct(self):
        dice = self.dice
        order = f"o-{dice.randrange(1, 6)}"
        version = self.versions[order] = self.versions.get(order, 0) + dice.choice([1, 1, 1, 2])
        verb = "cancel" if dice.random() < 0.25 else "place" if dice.random() < 0.7 else "replace"
        kind = dice.choice(["limit", "market", "stop"])
        size = f"0.{dice.randrange(1, 9)}"
        side = "buy" if order in ("o-1", "o-2") else "sell"
        trigger = dice.choice(["90", "110"]) if kind == "stop" else None
        price = dice.choice(["99", "100", "101"]) if kind == "limit" else None
        self.rig.gate.tell(
            order, version, verb, size=size, order_type=kind, price=price, trigger=trigger, side=side,
            tif=dice.choice(["gtc", "gtc", "ioc"]), reduces=side == "sell", valid_s=None if verb == "cancel" else 600,
        )
        self.newest[order] = (version, verb, Decimal(size))

    def step(self):
        r, dice = self.rig, self.dice
        what = dice.random()
        if what < 0.35:
            self.instruct()
        elif what < 0.55:
            self.fault()
        elif what < 0.75:
            r.price(dice.choice(["89", "98", "99", "100", "101", "102", "111"]))
        elif what < 0.82:
            names = [trade["trade_id"] for trade in r.exchange.do_trades({"since": "2020-01-01T00:00:00Z"})]
            self.hidden = set(dice.sample(names, min(len(names), 2)))
        elif what < 0.9:
            r.start()
        else:
            r.bridge.reports.snapshot_at = 0
        r.turn(dice.randrange(1, 4))

    def settle(self):
        self.rig.venue.faults.clear()
        self.hidden.clear()
        self.rig.turn(40)
        self.rig.bridge.reports.snapshot_at = 0
        self.rig.turn(6)


class Random(Case):
    def test_lives(self):
        seeds = [int(os.environ["SEED"])] if "SEED" in os.environ else range(LIVES)
        for seed in seeds:
            with self.subTest(seed=seed):
                life = Life(seed)
                try:
                    for _ in range(STEPS):
                        life.step()
                    life.settle()
                    self.check(life)
                finally:
                    life.rig.close()

    def check(self, life):
        r = life.rig
        self.assertEqual(r.gate.refused, [])
        trades = r.exchange.do_trades({"since": "2020-01-01T00:00:00Z"})
        booked = sorted(x["exec_id"] for x in r.gate.reports if x["exec_type"] == "trade")
        self.assertEqual(booked, sorted(f"t-{trade['trade_id']}" for trade in trades))
        open_sizes = {}
        for order in r.open():
            row = r.bridge.journal.attempt(order["client_order_id"])
            open_sizes.setdefault(row["order_id"], []).append((row["version"], Decimal(order["size"]) - Decimal(order["filled"])))
        self.assertEqual({order for order, sizes in open_sizes.items() if len(sizes) > 1}, set(), "two orders for one")
        for order, (version, verb, size) in life.newest.items():
            last = [(x["exec_type"], x["version"]) for x in r.gate.reports if x["order_id"] == order and x["exec_type"] != "trade"][-1]
            filled = r.gate.filled.get(order, Decimal(0))
            if verb == "cancel":
                self.assertEqual((last, open_sizes.get(order)), (("canceled", version), None), order)
            elif order in open_sizes:
                self.assertEqual(open_sizes[order], [(version, size - filled)], order)
                self.assertIn(last, [("new", version), ("replaced", version)], order)
            else:
                ended = last[0] in ("rejected", "expired", "canceled") or filled >= size
                self.assertEqual((ended, last[1]), (True, version), order)
        self.assertEqual(r.gate.snapshots[-1]["after_exec"], r.gate.reports[-1]["exec_id"] if r.gate.reports else None)


if __name__ == "__main__":
    unittest.main()
