"""Every request of the ccxt venues, byte by byte, against recordings. No network.

The answers in `recordings/` have the shapes that the exchanges document; the requests are what ccxt sends, checked by a
person when they were recorded. `UPDATE_RECORDINGS=1 python3 -m unittest test_ccxt` writes the requests anew: read the
difference before you commit it. Without ccxt these tests are skipped, and say so.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from decimal import Decimal

from spoolgate_bridge import ccxt_venue
from spoolgate_bridge.ccxt_venue import CcxtVenue
from spoolgate_bridge.venue import CannotStart, RateLimited, Refused, Request, Unavailable

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recordings")
IS_UPDATE = bool(os.environ.get("UPDATE_RECORDINGS"))
NAME = "sabcdefghijklmnopq"
NOW_MS = 1700000000000
SECRET = "a3JhdHplbmtlcmF0emVu"  # of nothing


def key_file(folder, mode=0o600, **key):
    path = os.path.join(folder, "key.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(key or {"apiKey": "key", "secret": SECRET}, file)
    os.chmod(path, mode)
    return path


@unittest.skipIf(ccxt_venue.ccxt is None, "ccxt is not installed: pip install './bridges/python[ccxt]'")
class Recorded(unittest.TestCase):
    name = None
    symbols = {}

    @classmethod
    def setUpClass(cls):
        if cls.name is None:
            raise unittest.SkipTest("the base of the others")
        with open(os.path.join(FOLDER, f"{cls.name}.json"), encoding="utf-8") as file:
            cls.recorded = json.load(file)
        cls.played = set()

    @classmethod
    def tearDownClass(cls):
        unused = set(cls.recorded["cases"]) - cls.played
        assert not unused, f"no test plays {unused}"
        if IS_UPDATE:
            with open(os.path.join(FOLDER, f"{cls.name}.json"), "w", encoding="utf-8") as file:
                json.dump(cls.recorded, file, indent=1)
                file.write("\n")

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.venue = CcxtVenue(self.name, self.symbols, key_file(self.folder.name))
        exchange = self.venue.exchange
        exchange.enableRateLimit = False
        exchange.milliseconds = lambda: NOW_MS
        exchange.fetch = self.fetch
        self.play("setup", self.recorded["setup"])
        self.venue.start()
        self.assertEqual(self.left, [])

    def play(self, case, left=None):
        if left is None:
            self.played.add(case)
            left = self.recorded["cases"][case]
        self.case, self.left = case, list(left)
        self.venue.exchange.options["lastNonce"] = 0

    def done(self):
        self.assertEqual(self.left, [], f"{self.case}: not asked for")

    def fetch(self, url, method="GET", headers=None, body=None):
        self.assertTrue(self.left, f"{self.case}: {method} {url} {body}")
        step = self.left.pop(0)
        request = {"method": method, "url": url, "body": body}
        if IS_UPDATE:
            step["request"] = request
        self.assertEqual(step["request"], request, self.case)
        exchange, text, status = self.venue.exchange, json.dumps(step["answer"]), step.get("status", 200)
        answer = exchange.parse_json(text)
        exchange.last_http_response = text
        exchange.handle_errors(status, "", url, method, {}, text, answer, headers, body)
        if status >= 400:
            exchange.handle_http_status_code(status, "", url, method, text)
        return answer

    def request(self, type="limit", side="buy", size="0.02", price="6795", trigger=None, tif="gtc"):
        return Request(
            NAME, "BTC-USD", side, type, Decimal(size), price and Decimal(price), trigger and Decimal(trigger), tif
        )

    def check_no_float(self, value):
        for member in vars(value).values() if hasattr(value, "__dict__") else value:
            self.assertNotIsInstance(member, type(0.5), value)

    # -- what is the same at every venue

    def test_time(self):
        self.play("time")
        self.assertEqual(self.venue.time(), "2023-11-14T22:13:23.000Z")
        self.done()

    def test_place_market(self):
        self.play("place market")
        order = self.venue.place(self.request("market", price=None))
        self.assertEqual((order.client_order_id, order.type, order.size), (NAME, "market", Decimal("0.02")))
        self.check_no_float(order)
        self.done()

    def test_place_limit(self):
        self.play("place limit")
        self.assertEqual(self.venue.place(self.request()).status, "open")
        self.done()

    def test_place_limit_ioc(self):
        self.play("place limit ioc")
        self.venue.place(self.request(side="sell", tif="ioc"))
        self.done()

    def test_place_stop(self):
        self.play("place stop")
        order = self.venue.place(self.request("stop", "sell", price=None, trigger="6600"))
        self.assertEqual((order.type, order.status), ("stop", "open"))
        self.done()

    def test_a_stop_that_is_none_does_not_leave(self):
        self.play("place stop", [])
        sign = self.venue.sign
        changed = {name: "MARKET" for name in self.venue.rules["stop"]}
        real = self.venue.check_stop
        self.venue.exchange.sign = lambda path, api, method, params, **more: real(path, api, method, {**params, **changed})
        with self.assertRaisesRegex(Refused, "something else than a market stop"):
            self.venue.place(self.request("stop", "sell", price=None, trigger="6600"))
        self.assertIsNotNone(sign)

    def test_amounts_that_the_venue_would_round_are_refused(self):
        self.play("place limit", [])
        for wrong in ({"size": "0.0200000001"}, {"price": "6795.001"}):
            with self.assertRaisesRegex(Refused, "set lot and tick"):
                self.venue.place(self.request(**wrong))

    def test_an_unknown_symbol_is_refused(self):
        self.play("place limit", [])
        request = self.request()
        request.symbol = "ETH-USD"
        with self.assertRaisesRegex(Refused, "--symbol ETH-USD"):
            self.venue.place(request)

    def test_errors(self):
        for case, error, code in (
            ("insufficient", Refused, "insufficient"), ("refused", Refused, "rejected"), ("rate limit", RateLimited, None),
            ("maintenance", Unavailable, None), ("unavailable", Unavailable, None), ("bad nonce", Unavailable, None),
        ):
            self.play(case)
            with self.assertRaises(error, msg=case) as raised:
                self.venue.place(self.request())
            self.assertEqual(getattr(raised.exception, "code", None), code, case)
            self.done()

    def test_what_ccxt_raises_without_an_answer(self):
        ccxt = ccxt_venue.ccxt
        for error, due in (
            (ccxt.RequestTimeout("kraken POST https://x"), Unavailable), (ccxt.NetworkError("reset"), Unavailable),
            (ccxt.ExchangeError("kraken POST https://x"), Unavailable), (ccxt.OnMaintenance("soon"), Unavailable),
            (ccxt.DDoSProtection("522 https://x"), Unavailable), (ccxt.DDoSProtection("429 Too Many"), RateLimited),
            (ccxt.OrderNotFound("none"), Refused), (ccxt.AuthenticationError("key"), Refused),
        ):
            def fail(error=error):
                raise error

            with self.assertRaises(due, msg=repr(error)):
                self.venue.call(fail)

    def test_cancel(self):
        self.play("cancel")
        order = self.venue.cancel(NAME, "BTC-USD", {"kraken": "OB5VMB-B4U2U-DK2WRW", "binance": "29"}[self.name])
        self.assertEqual((order.client_order_id, order.status, order.filled), (NAME, "canceled", Decimal("0.005")))
        self.done()

    def test_cancel_of_nothing(self):
        self.play("cancel of nothing")
        self.assertIsNone(self.venue.cancel(NAME, "BTC-USD", None))
        self.done()

    def test_order_by_name(self):
        self.play("order by name")
        order = self.venue.order(NAME, "BTC-USD", None)
        self.assertEqual((order.status, order.filled, order.type, order.price), ("closed", Decimal("0.02"), "market", None))
        self.done()

    def test_open_orders(self):
        self.play("open orders")
        stop, foreign = sorted(self.venue.open_orders(False), key=lambda order: order.client_order_id != NAME)
        self.assertEqual((stop.client_order_id, stop.type, stop.trigger, stop.price), (NAME, "stop", Decimal(6600), None))
        self.assertEqual((foreign.symbol, foreign.side, foreign.size - foreign.filled), ("BTC-USD", "buy", Decimal("0.06")))
        for order in (stop, foreign):
            self.check_no_float(order)
        self.done()

    def test_balance(self):
        self.play("balance")
        rows = dict((code, (total, available)) for code, total, available in self.venue.balances())
        self.assertEqual(rows["USD"], (Decimal("4830.225"), Decimal("4728.3")))
        self.assertEqual(sorted(rows), ["BTC", "USD"])
        for row in rows.values():
            self.check_no_float(row)
        self.done()

    def test_what_the_gate_compares_comes_before_hundreds_of_other_coins(self):
        total = {f"A{n:03}": "1" for n in range(400)} | dict.fromkeys(self.venue.currencies, "1")
        self.venue.exchange.fetch_balance = lambda: {"total": total, "free": total}
        rows = self.venue.balances()
        self.assertEqual(([row[0] for row in rows[:2]], len(rows)), (["BTC", "USD"], 402))

    def test_quote(self):
        self.play("quote")
        self.assertEqual(self.venue.quote("BTC-USD")[:2], (Decimal("6791"), Decimal("6791.1")))
        self.done()

    def test_number_is_text(self):
        self.assertIs(self.venue.exchange.number, str)
        self.assertEqual(self.venue.exchange.parse_json('{"a": 0.1}'), {"a": "0.1"})


class Kraken(Recorded):
    name, symbols = "kraken", {"BTC-USD": "BTC/USD"}

    def test_a_stop_is_a_market_stop(self):
        body = self.recorded["cases"]["place stop"][0]["request"]["body"]
        self.assertIn("ordertype=stop-loss&", body)
        self.assertIn("price=6600", body)
        self.assertIn(f"cl_ord_id={NAME}", body)

    def test_trades_page_after_page(self):
        self.play("trades")
        taker, maker = self.venue.trades("2023-11-14T22:12:20.000Z")
        self.assertEqual((maker.trade_id, maker.venue_id), ("THVRQM-33VKH-UCI7BS", "OB5VMB-B4U2U-DK2WRW"))
        self.assertEqual((maker.size, maker.price, maker.fee, maker.fee_currency), tuple(map(Decimal, ("0.005", "6795", "0.08494"))) + ("USD",))
        self.assertEqual((maker.liquidity, taker.liquidity, taker.at), ("maker", "taker", "2023-11-14T22:13:21.500Z"))
        self.check_no_float(maker)
        self.done()

    def test_timer(self):
        self.play("timer")
        self.venue.timer(60)
        self.done()

    def test_there_is_no_sandbox(self):
        with self.assertRaisesRegex(CannotStart, "no test system"):
            CcxtVenue("kraken", self.symbols, key_file(self.folder.name), is_sandbox=True)


class Binance(Recorded):
    name, symbols = "binance", {"BTC-USD": "BTC/USDT"}

    def test_a_stop_is_a_market_stop(self):
        body = self.recorded["cases"]["place stop"][0]["request"]["body"]
        self.assertIn("type=STOP_LOSS&", body)
        self.assertIn("stopPrice=6600", body)
        self.assertIn(f"newClientOrderId={NAME}", body)

    def test_trades_and_a_fee_in_another_coin(self):
        self.play("trades")
        base, other = self.venue.trades("2023-11-14T22:12:20.000Z")
        self.assertEqual((base.trade_id, base.venue_id, base.fee_currency), ("BTC-USD/56", "28", "BTC"))
        self.assertEqual((other.fee_currency, other.liquidity, other.at), ("BNB", "maker", "2023-11-14T22:13:25.880Z"))
        self.done()
        self.play("value")
        self.assertEqual(self.venue.value("BNB", "USD", other.fee), Decimal("0.00012345") * Decimal("600.1"))
        self.assertIsNone(self.venue.value("DOGE", "USD", Decimal(1)))
        self.done()

    def test_a_duplicate(self):
        self.play("duplicate")
        with self.assertRaises(Refused) as raised:
            self.venue.place(self.request())
        self.assertEqual(raised.exception.code, "duplicate")

    def test_a_symbol_without_market_stops_cannot_start(self):
        self.venue.exchange.markets["BTC/USDT"]["info"]["orderTypes"].remove("STOP_LOSS")
        with self.assertRaisesRegex(CannotStart, "STOP_LOSS"):
            self.venue.start()

    def test_sandbox_is_the_testnet(self):
        venue = CcxtVenue("binance", self.symbols, key_file(self.folder.name), is_sandbox=True)
        self.assertEqual(venue.exchange.urls["api"]["private"], "https://testnet.binance.vision/api/v3")


class Starting(unittest.TestCase):
    """What cannot start needs no ccxt to say so."""

    def run_bridge(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            key = os.path.join(folder, "key")
            with open(key, "w", encoding="utf-8") as file:
                json.dump({"principal": "exchange", "key_id": "1", "algorithm": "hmac-sha256", "secret": "00"}, file)
            os.makedirs(os.path.join(folder, "spool", "in"))
            command = [sys.executable, "-m", "spoolgate_bridge", "--home", folder, "--key", key, "--state", folder, *arguments]
            path = os.path.join(os.path.dirname(FOLDER), os.pardir)
            return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)

    def test_venues_without_market_stops_exit_2(self):
        for name in ("coinbase", "coinbaseadvanced", "alpaca"):
            ended = self.run_bridge("--venue", f"ccxt:{name}", "--symbol", "BTC-USD", "--experimental")
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn("stop-limit", ended.stderr)

    def test_venues_that_are_not_maintained_exit_2(self):
        ended = self.run_bridge("--venue", "ccxt:okx", "--symbol", "BTC-USD")
        self.assertEqual((ended.returncode, "--experimental" in ended.stderr), (2, True))

    def test_nonsense_exits_2(self):
        for venue in ("mock:", "ccxt:", "fix:x"):
            self.assertEqual(self.run_bridge("--venue", venue).returncode, 2)

    @unittest.skipIf(ccxt_venue.ccxt is None, "ccxt is not installed")
    def test_a_key_that_others_can_read_exits_2(self):
        with tempfile.TemporaryDirectory() as folder:
            ended = self.run_bridge("--venue", "ccxt:kraken", "--symbol", "BTC-USD", "--venue-key", key_file(folder, 0o640))
            self.assertEqual((ended.returncode, "chmod 600" in ended.stderr), (2, True))

    @unittest.skipIf(ccxt_venue.ccxt is None, "ccxt is not installed")
    def test_one_currency_with_two_meanings(self):
        with self.assertRaisesRegex(CannotStart, "two meanings"):
            CcxtVenue.currencies_of({"BTC-USD": "BTC/USDT", "ETH-USD": "ETH/USDC"})
        self.assertEqual(CcxtVenue.currencies_of({"BTC-USD": "BTC/USDT"}), {"BTC": "BTC", "USDT": "USD"})

    @unittest.skipIf(ccxt_venue.ccxt is None, "ccxt is not installed")
    def test_an_experimental_venue_gets_no_stop(self):
        with tempfile.TemporaryDirectory() as folder:
            venue = CcxtVenue("okx", {"BTC-USD": "BTC/USD"}, key_file(folder), is_experimental=True)
            with self.assertRaisesRegex(Refused, "no stops"):
                venue.place(Request(NAME, "BTC-USD", "sell", "stop", Decimal(1), None, Decimal(1), "gtc"))


if __name__ == "__main__":
    unittest.main()
