"""The core through ccxt: Binance and Kraken imitated behind `fetch`, in the shapes of the recordings."""
import datetime
import json
import os
import unittest
import urllib.parse
from decimal import Decimal

import rig
from test_ccxt import SECRET, key_file
from test_core import Case
from spoolgate_bridge import ccxt_venue
from spoolgate_bridge.ccxt_venue import CcxtVenue
from spoolgate_bridge.venue import moment

RECORDINGS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recordings")


def milliseconds(text):
    return int(moment(text).timestamp() * 1000)


class Fake:
    """An exchange's REST interface over the simulated exchange. `lose` names the next request whose answer is lost."""

    def __init__(self, exchange, name):
        with open(os.path.join(RECORDINGS, f"{name}.json"), encoding="utf-8") as file:
            recorded = json.load(file)
        self.markets = next(s["answer"] for s in recorded["setup"] if s["request"]["url"].endswith(("exchangeInfo", "AssetPairs")))
        self.exchange, self.lose, self.asked = exchange, [], []

    def ask(self, op, **members):
        answer = self.exchange.answer({"id": 1, "op": op, "symbol": "BTC-USD", **members})
        return answer.get("ok"), answer.get("error")

    def fetch(self, url, method, body):
        parts = urllib.parse.urlsplit(url)
        params = dict(urllib.parse.parse_qsl(body or parts.query))
        what = f"{method} {parts.path.rsplit('/', 1)[-1]}"
        self.asked.append(what)
        status, answer = self.answer(what, params)
        if what in self.lose:
            self.lose.remove(what)
            raise ccxt_venue.ccxt.RequestTimeout(f"{method} {url}")
        return status, answer


class FakeBinance(Fake):
    STATUS = {"open": "NEW", "closed": "FILLED", "canceled": "CANCELED", "expired": "EXPIRED"}

    def show(self, order):
        return {
            "symbol": "BTCUSDT", "orderId": int(order["venue_id"][1:]), "clientOrderId": order["client_order_id"],
            "price": order["price"] or "0.00000000", "origQty": order["size"], "executedQty": order["filled"],
            "status": self.STATUS[order["status"]], "timeInForce": "GTC", "side": order["side"].upper(),
            "type": {"limit": "LIMIT", "market": "MARKET", "stop": "STOP_LOSS"}[order["type"]],
            "stopPrice": order["trigger"] or "0.00000000", "time": milliseconds(order["at"]),
        }

    def answer(self, what, params):
        if what == "GET exchangeInfo":
            return 200, self.markets
        if what == "GET time":
            return 200, {"serverTime": milliseconds(rig.after(0))}
        if what == "GET account":
            rows, _ = self.ask("balances")
            coins = {"USD": "USDT"}
            return 200, {"balances": [
                {"asset": coins.get(r["currency"], r["currency"]), "free": r["available"],
                 "locked": str(Decimal(r["total"]) - Decimal(r["available"]))} for r in rows
            ]}
        if what == "GET openOrders":
            return 200, [self.show(order) for order in self.ask("open_orders")[0]]
        if what == "GET myTrades":
            since = datetime.datetime.fromtimestamp(int(params["startTime"]) / 1000, datetime.timezone.utc)
            rows, _ = self.ask("trades", since=since.strftime("%Y-%m-%dT%H:%M:%SZ"))
            return 200, [{
                "symbol": "BTCUSDT", "id": int(t["trade_id"][1:]), "orderId": int(t["venue_id"][1:]), "price": t["price"],
                "qty": t["size"], "commission": t["fee"], "commissionAsset": {"USD": "USDT"}.get(t["fee_currency"], t["fee_currency"]),
                "time": milliseconds(t["at"]), "isBuyer": t["side"] == "buy", "isMaker": t["liquidity"] == "maker",
            } for t in rows]
        if what == "POST order":
            kind = {"LIMIT": "limit", "MARKET": "market", "STOP_LOSS": "stop"}[params["type"]]
            order, error = self.ask(
                "place", client_order_id=params["newClientOrderId"], side=params["side"].lower(), type=kind, size=params["quantity"],
                price=params.get("price"), trigger=params.get("stopPrice"), time_in_force=params.get("timeInForce", "GTC").lower(),
            )
            words = {
                "duplicate": "Duplicate order sent.", "insufficient": "Account has insufficient balance for requested action.",
                "rejected": "Stop price would trigger immediately.",
            }
            return (400, {"code": -2010, "msg": words[error["code"]]}) if error else (200, self.show(order))
        name = params["origClientOrderId"]
        order, error = self.ask("order", client_order_id=name)
        if what == "DELETE order":
            if error or order["status"] != "open":
                return 400, {"code": -2011, "msg": "Unknown order sent."}
            order, error = self.ask("cancel", client_order_id=name)
            return 200, {**self.show(order), "origClientOrderId": name, "clientOrderId": "cancel1"}
        return (400, {"code": -2013, "msg": "Order does not exist."}) if error else (200, self.show(order))


class FakeKraken(Fake):
    def show(self, order):
        kind = {"limit": "limit", "market": "market", "stop": "stop-loss"}[order["type"]]
        price = order["trigger"] or order["price"] or "0"
        return {
            "refid": None, "userref": None, "cl_ord_id": order["client_order_id"], "status": order["status"], "reason": None,
            "opentm": milliseconds(order["at"]) / 1000, "descr": {
                "pair": "XBTUSD", "type": order["side"], "ordertype": kind, "price": price, "price2": "0", "leverage": "none",
                "order": f"{order['side']} {order['size']} XBTUSD @ {kind.replace('-', ' ')} {price}", "close": "",
            },
            "vol": order["size"], "vol_exec": order["filled"], "cost": "0", "fee": "0", "price": "0.00000", "oflags": "fciq",
        }

    def answer(self, what, params):
        result, error = self.result(what.partition(" ")[2], params)
        words = {
            "insufficient": "EOrder:Insufficient funds", "rejected": "EOrder:Invalid price", "not_found": "EOrder:Unknown order",
            "duplicate": "EOrder:cl_ord_id is in use",
        }
        return 200, {"error": [words[error["code"]]]} if error else {"error": [], "result": result}

    def result(self, what, params):
        if what == "AssetPairs":
            return self.markets["result"], None
        if what == "Time":
            return {"unixtime": milliseconds(rig.after(0)) // 1000}, None
        if what == "CancelAllOrdersAfter":
            return {"triggerTime": "0"}, None
        if what == "BalanceEx":
            rows, _ = self.ask("balances")
            codes = {"USD": "ZUSD", "BTC": "XXBT"}
            return {codes[r["currency"]]: {
                "balance": r["total"], "hold_trade": str(Decimal(r["total"]) - Decimal(r["available"])),
            } for r in rows}, None
        if what in ("OpenOrders", "ClosedOrders"):
            is_open = what == "OpenOrders"
            rows = self.exchange.rows("SELECT * FROM orders WHERE (status = 'open') = ?", is_open)
            found = [self.exchange.show(row) for row in rows if params.get("cl_ord_id") in (None, row["client_order_id"])]
            return {"open" if is_open else "closed": {order["venue_id"]: self.show(order) for order in found}}, None
        if what == "QueryOrders":
            rows = self.exchange.rows("SELECT * FROM orders WHERE n = ?", int(params["txid"][1:]))
            return {params["txid"]: self.show(self.exchange.show(row)) for row in rows}, None
        if what == "TradesHistory":
            since = datetime.datetime.fromtimestamp(int(params["start"]), datetime.timezone.utc)
            rows, _ = self.ask("trades", since=since.strftime("%Y-%m-%dT%H:%M:%SZ"))
            page = rows[::-1][int(params["ofs"]):][:2]  # the newest first
            return {"count": len(rows), "trades": {t["trade_id"]: {
                "ordertxid": t["venue_id"], "pair": "XXBTZUSD", "time": milliseconds(t["at"]) / 1000, "type": t["side"],
                "price": t["price"], "fee": t["fee"], "vol": t["size"], "maker": t["liquidity"] == "maker",
            } for t in page}}, None
        if what == "AddOrder":
            kind = {"limit": "limit", "market": "market", "stop-loss": "stop"}[params["ordertype"]]
            order, error = self.ask(
                "place", client_order_id=params["cl_ord_id"], side=params["type"], type=kind, size=params["volume"],
                price=params.get("price") if kind == "limit" else None, trigger=params.get("price") if kind == "stop" else None,
                time_in_force=params.get("timeinforce", "GTC").lower(),
            )
            return error or {"txid": [order["venue_id"]], "descr": {"order": ""}}, error
        order, error = self.ask("order", client_order_id=params["cl_ord_id"])
        if error or order["status"] != "open":
            return None, {"code": "not_found"}
        self.ask("cancel", client_order_id=params["cl_ord_id"])
        return {"count": 1}, None


@unittest.skipIf(ccxt_venue.ccxt is None, "ccxt is not installed: pip install './bridges/python[ccxt]'")
class Through(Case):
    """The same stories at both."""

    VENUES = {"binance": (FakeBinance, "BTC/USDT", "POST order", "DELETE order"), "kraken": (FakeKraken, "BTC/USD", "POST AddOrder", "POST CancelOrder")}

    def each(self, **kinds):
        for name, (kind, symbol, place, cancel) in self.VENUES.items():
            with self.subTest(venue=name):
                r = self.rig(**kinds)
                venue = CcxtVenue(name, {"BTC-USD": symbol}, key_file(r.folder, apiKey="key", secret=SECRET))
                venue.poll_s = venue.trades_s = venue.settle_s = 0
                venue.exchange.enableRateLimit = False
                fake = kind(r.exchange, name)

                def fetch(url, method="GET", headers=None, body=None, exchange=venue.exchange, fake=fake):
                    status, answer = fake.fetch(url, method, body)
                    text = json.dumps(answer)
                    read = exchange.parse_json(text)
                    exchange.last_http_response = text
                    exchange.handle_errors(status, "", url, method, {}, text, read, headers, body)
                    return read

                venue.exchange.fetch = fetch
                venue.start()
                r.venue = venue
                r.start()
                fake.place, fake.cancel = place, cancel
                yield r, fake

    def test_an_entry_its_stop_and_an_exit(self):
        for r, fake in self.each(part="0.2", is_base_fee=True):
            r.gate.tell("o-1", 1, size="0.5", price="100")
            r.turn()
            for _ in range(3):
                r.price("100")
                r.turn()
            r.gate.tell("o-1-stop", 1, size="0.5", order_type="stop", price=None, trigger="90", side="sell")
            r.turn()
            r.gate.tell("o-1-stop", 2, "place", size="0.3", order_type="stop", price=None, trigger="95", side="sell")
            r.turn()
            r.gate.tell("o-2", 1, size="0.2", price=None, order_type="market", side="sell", reduces=True)
            r.turn()
            r.price("101")
            r.turn()
            r.price("94")
            r.price("94")
            r.turn(20)
            self.assertEqual(r.gate.refused, [])
            self.assertEqual(r.gate.filled, {"o-1": Decimal("0.5"), "o-2": Decimal("0.2"), "o-1-stop": Decimal("0.3")})
            self.assertEqual([x[1:3] for x in r.gate.told() if x[0] == "o-1-stop"][:2], [("new", 1), ("new", 2)])
            fees = {x.get("fee_currency") for x in r.gate.reports if x["exec_type"] == "trade"}
            self.assertEqual(fees, {None, "BTC"} if isinstance(fake, FakeBinance) else {None})
            newest = r.gate.snapshots[-1]
            self.assertEqual({b["currency"] for b in newest["balances"]}, {"USD", "BTC"})

    def test_lost_answers(self):
        for r, fake in self.each():
            r.gate.tell("o-1-stop", 1, order_type="stop", price=None, trigger="90", side="sell")
            fake.lose.append(fake.place)
            r.turn()
            self.assertEqual(fake.asked.count(fake.place), 1)
            self.assertEqual(r.gate.told(), [("o-1-stop", "new", 1, "0")])
            r.gate.tell("o-1-stop", 2, "cancel", valid_s=None)
            fake.lose.append(fake.cancel)
            r.turn()
            self.assertEqual(r.gate.told()[1:], [("o-1-stop", "canceled", 2, "0")])
            self.assertEqual(r.open(), [])

    def test_refusals(self):
        for r, _ in self.each(balances={"USD": Decimal(10), "BTC": Decimal("0.5")}):
            r.gate.tell("o-1", 1, size="0.5", price="100")
            r.gate.tell("o-1-stop", 1, size="0.5", order_type="stop", price=None, trigger="200", side="sell")
            r.turn()
            told = {x["order_id"]: x["text"] for x in r.gate.reports}
            self.assertTrue(told["o-1"].startswith("venue: insufficient: "), told)
            self.assertTrue(told["o-1-stop"].startswith("venue: rejected: "), told)

    def test_snapshots(self):
        for r, _ in self.each():
            r.gate.tell("o-1-stop", 1, size="0.5", order_type="stop", price=None, trigger="90", side="sell")
            r.turn()
            r.exchange.do_place({"symbol": "BTC-USD", "client_order_id": "by-hand", "side": "buy", "type": "limit", "size": "1",
                                 "price": "50", "trigger": None, "time_in_force": "gtc"})
            r.bridge.reports.snapshot_at = 0
            r.turn()
            newest = r.gate.snapshots[-1]
            self.assertEqual(newest["orders"], [{
                "order_id": "o-1-stop", "version": 1, "cum_qty": "0", "size": "0.5", "price": None, "trigger": "90",
            }])
            self.assertEqual([(f["symbol"], f["side"], f["size"]) for f in newest["foreign"]], [("BTC-USD", "buy", "1")])


if __name__ == "__main__":
    unittest.main()
