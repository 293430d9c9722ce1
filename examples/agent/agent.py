#!/usr/bin/env python3
"""An agent that trades one day through files. It needs the client of clients/python and its own key, nothing else.

usage: python3 agent.py HOME KEYFILE [--every S | --paced]

Run by run.sh beside it, over a recorded day. Beside a gate with live prices: `agent.py HOME KEYFILE --every 60`, until it
is interrupted: then it sells what it holds.

The strategy is a channel breakout, to be seen at a glance and not to earn money by:

    enter   long at the market when the price is above all of the last CHANNEL looks; the stop is their lowest
    size    so that the stop costs RISK of the equity. That is far more than the limits allow, as a naive agent's would be:
            the refusal says how much would pass (`headroom`), and that is what is asked for next
    trail   the stop goes up to the lowest of the last TRAIL looks whenever that is higher: only ever tighter
    leave   when the position has gained TARGET of its price, and at the end of the day

It asks the gate what it holds (`portfolio.get`) instead of remembering: fills and stop-outs happen while it looks away.
Exit code 0: it ended flat; 1: it could not; 2: no gate, no key, or an answer that it does not understand.
"""
import argparse, os, sys, time
from decimal import ROUND_DOWN, Decimal

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python/src"))
from spoolgate import Gate, GateError, Refused

SYMBOL, STRATEGY = "BTC-USD", "trend"
# Theses that people wrote (proposals/theses): one trade stands on one at a time.
THESIS = "btc-range-long"
CHANNEL, TRAIL = 18, 9
RISK = Decimal("0.02")
TICK, LOT = Decimal("0.01"), Decimal("0.0001")
STOP_MIN = Decimal("0.004")  # of the price: a nearer stop is hit by noise
TARGET = Decimal("0.005")  # of the price paid
TRIES_MAX = 3


def down(number, unit):
    return (number / unit).to_integral_value(ROUND_DOWN) * unit


class Agent:
    def __init__(self, gate, say):
        self.gate, self.say = gate, say
        self.looks = []

    def look(self, label):
        """One look at the market, and at most one thing done about it."""
        data = self.gate.market_data(symbol=SYMBOL)
        if data["stale"] or data["bid"] is None or data["ask"] is None:
            self.say(f"{label}  no fresh price; waiting")
            return
        bid, ask = Decimal(data["bid"]), Decimal(data["ask"])
        middle, before = (bid + ask) / 2, self.looks[-CHANNEL:]
        self.looks = [*before, middle]
        position, equity = self.holding()
        if len(before) < CHANNEL:
            return
        if position is None:
            if middle > max(before):
                self.enter(label, ask, min(before), equity)
        elif position["direction"] == "long":
            if bid >= Decimal(position["average_price"]) * (1 + TARGET):
                self.leave(label, position, bid)
            else:
                self.trail(label, position, min(before[-TRAIL:]), bid)

    def holding(self):
        """The position of this strategy, if it has one, and the equity, None while that is unknown."""
        portfolio = self.gate.portfolio()
        mine = [p for p in portfolio["positions"] if (p["strategy"], p["symbol"]) == (STRATEGY, SYMBOL)]
        equity = Decimal(portfolio["equity"]) if portfolio["equity"] is not None else None
        return (mine[0] if mine else None), equity

    def enter(self, label, ask, lowest, equity):
        if equity is None:
            return
        stop = down(min(lowest, ask * (1 - STOP_MIN)), TICK)
        size = down(equity * RISK / (ask - stop), LOT)
        for _ in range(TRIES_MAX):
            order = {
                "strategy": STRATEGY, "symbol": SYMBOL, "side": "buy", "size": size, "order_type": "market",
                "stop_price": stop, "thesis_slug": THESIS, "planned_entry": ask, "planned_stop": stop,
            }
            try:
                done = self.gate.submit_order(**order)
                self.say(f"{label}  buy {size} at {ask}, stop {stop}: {done['order_id']}")
                return
            except Refused as refused:
                smaller = self.corrected(label, size, refused)
                if smaller is None:
                    return
                size = smaller

    def corrected(self, label, size, refused):
        """A size that would pass, out of the refusal; None where no size helps."""
        rejected = refused.data.get("Rejected")
        if rejected is None:
            # Not a matter of limits: signature, rights, a rule or a held request. Trying again would not change it.
            self.say(f"{label}  buy {size} refused: {refused}")
            return None
        failed = ", ".join(row["check_name"] for row in rejected["checks_failed"])
        most = down(refused.max_size or Decimal(0), LOT)
        if not 0 < most < size:
            self.say(f"{label}  buy {size} refused by {failed}: no size would pass now")
            return None
        self.say(f"{label}  buy {size} refused by {failed}: {most} would pass ({rejected['headroom']['binding_check']})")
        return most

    def trail(self, label, position, level, bid):
        stop = position["stops"][0] if position["stops"] else None
        level = down(level, TICK)
        # It must not trigger at once, and equal or lower is no tightening.
        if stop is None or not Decimal(stop["trigger"]) < level < bid:
            return
        try:
            self.gate.tighten_stop(order_id=stop["order_id"], new_stop=level)
            self.say(f"{label}  stop {stop['order_id']} up from {stop['trigger']} to {level}")
        except Refused as refused:
            self.say(f"{label}  tighten refused: {refused}")

    def leave(self, label, position, bid):
        """Sells all that is held. Whether it filled is for the next look to see."""
        order = {
            "strategy": STRATEGY, "symbol": SYMBOL, "side": "sell", "size": position["size"], "order_type": "market",
            "thesis_slug": THESIS, "planned_entry": bid, "planned_stop": bid,
        }
        try:
            done = self.gate.submit_order(**order)
            self.say(f"{label}  sell {position['size']} at about {bid}: {done['order_id']}")
        except Refused as refused:
            # `reduce_only`: an exit of ours works already, or the stop was quicker.
            self.say(f"{label}  exit refused: {refused}")

    def close(self, label):
        position, _ = self.holding()
        if position is not None:
            self.leave(label, position, Decimal(position["mark"] or position["average_price"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home")
    parser.add_argument("keyfile")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--every", type=float, default=60.0, metavar="S", help="seconds between two looks")
    pace.add_argument("--paced", action="store_true", help="a look per line of standard input, answered by a line")
    told = parser.parse_args()
    agent = Agent(Gate(told.home, key=told.keyfile), lambda text: print(text, file=sys.stderr))
    if told.paced:
        for line in sys.stdin:
            agent.look(line.strip())
            print("seen", flush=True)
        agent.close("the end")
        print("closing", flush=True)
        # The exit fills on the next quotes: whoever paces has a moment to deliver them.
        until = time.monotonic() + 30
        while agent.holding()[0] is not None and time.monotonic() < until:
            time.sleep(0.02)
    else:
        try:
            while True:
                agent.look(time.strftime("%H:%M", time.gmtime()))
                time.sleep(told.every)
        except KeyboardInterrupt:
            agent.close("stopped")
            return 0
    return 0 if agent.holding()[0] is None else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, TypeError, GateError) as error:
        print(f"agent: {error}", file=sys.stderr)
        sys.exit(2)
