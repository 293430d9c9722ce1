"""A simulated spot exchange behind a Unix socket, to try a bridge with. It remembers everything over restarts.

One symbol, one account. The balance that an order may need is locked while it is open, as on spot. Orders fill at the
prices of a file, one line after the other; the last price stands until another line is appended.
"""
import argparse
import datetime
import json
import os
import selectors
import signal
import socket
import sqlite3
import sys
import time
from decimal import ROUND_UP, Decimal

from .mock_venue import price_of
from .venue import moment, now, plain, stamp

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (n INTEGER PRIMARY KEY, client_order_id TEXT UNIQUE, side TEXT, type TEXT, size TEXT,
  price TEXT, trigger TEXT, time_in_force TEXT, status TEXT, filled TEXT, at TEXT, triggered INTEGER);
CREATE TABLE IF NOT EXISTS trades (n INTEGER PRIMARY KEY, order_n INTEGER, size TEXT, price TEXT, fee TEXT,
  fee_currency TEXT, liquidity TEXT, at TEXT);
CREATE TABLE IF NOT EXISTS balances (currency TEXT PRIMARY KEY, total TEXT);
CREATE TABLE IF NOT EXISTS tape (only INTEGER PRIMARY KEY CHECK (only = 1), next INTEGER);
"""
EIGHT = Decimal("0.00000001")


class No(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Exchange:
    """The orders, trades and balances of one account."""

    def __init__(self, path, prices, balances, symbol="BTC-USD", part=None, fee=Decimal("0.001"), is_base_fee=False):
        self.prices, self.symbol, self.part, self.fee_rate, self.is_base_fee = prices, symbol, part, fee, is_base_fee
        self.base, _, self.quote = symbol.partition("-")
        self.timer_at = None
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.executescript(SCHEMA)
        self.db.execute("BEGIN IMMEDIATE")
        if self.db.execute("INSERT OR IGNORE INTO tape VALUES (1, 0)").rowcount:
            self.db.executemany("INSERT INTO balances VALUES (?, ?)", [(c, plain(t)) for c, t in balances.items()])
        self.db.execute("COMMIT")

    def price(self):
        at = self.db.execute("SELECT next FROM tape").fetchone()[0]
        return self.prices[min(max(at - 1, 0), len(self.prices) - 1)]

    def rows(self, query, *values):
        return self.db.execute(query, values).fetchall()

    # -- balances

    def total(self, currency):
        rows = self.rows("SELECT total FROM balances WHERE currency = ?", currency)
        return Decimal(rows[0]["total"]) if rows else Decimal(0)

    def add(self, currency, amount):
        self.db.execute("INSERT OR REPLACE INTO balances VALUES (?, ?)", [currency, plain(self.total(currency) + amount)])

    def needs(self, order):
        """Returns the currency that an order locks, and how much."""
        left = Decimal(order["size"]) - Decimal(order["filled"])
        if order["side"] == "sell":
            return self.base, left
        price = Decimal(order["price"] or order["trigger"] or self.price())
        return self.quote, left * price * (1 + (0 if self.is_base_fee else self.fee_rate))

    def available(self, currency):
        locks = [self.needs(order) for order in self.rows("SELECT * FROM orders WHERE status = 'open'")]
        return self.total(currency) - sum((amount for name, amount in locks if name == currency), Decimal(0))

    # -- requests

    def answer(self, told):
        """Returns the answer to a request."""
        try:
            op = getattr(self, "do_" + str(told["op"]), None)
            if op is None:
                raise No("rejected", f"there is no `{told['op']}`")
            self.db.execute("BEGIN IMMEDIATE")
            try:
                result = op(told)
            finally:
                self.db.execute("COMMIT")
            return {"id": told["id"], "ok": result}
        except No as error:
            return {"id": told["id"], "error": {"code": error.code, "text": str(error)}}

    def do_place(self, told):
        if told["symbol"] != self.symbol:
            raise No("rejected", f"`{told['symbol']}` is not traded here")
        if self.rows("SELECT 1 FROM orders WHERE client_order_id = ?", told["client_order_id"]):
            raise No("duplicate", f"client order id `{told['client_order_id']}` was used before")
        if not Decimal(told["size"]) > 0:
            raise No("rejected", "the size is not above 0")
        if told["type"] == "stop":
            trigger, price = Decimal(told["trigger"]), self.price()
            if price <= trigger if told["side"] == "sell" else price >= trigger:
                raise No("rejected", "the stop would trigger immediately")
        currency, amount = self.needs({**told, "filled": "0"})
        if amount > self.available(currency):
            raise No("insufficient", f"{plain(self.available(currency))} {currency} of {plain(amount)} available")
        n = self.db.execute(
            "INSERT INTO orders (client_order_id, side, type, size, price, trigger, time_in_force, status, filled, at,"
            " triggered) VALUES (?, ?, ?, ?, ?, ?, ?, 'open', '0', ?, 0)",
            [told["client_order_id"], told["side"], told["type"], plain(Decimal(told["size"])), told["price"]]
            + [told["trigger"], told["time_in_force"], now()],
        ).lastrowid
        return self.show(self.rows("SELECT * FROM orders WHERE n = ?", n)[0])

    def do_cancel(self, told):
        order = self.find(told)
        if order["status"] == "open":
            self.db.execute("UPDATE orders SET status = 'canceled' WHERE n = ?", [order["n"]])
        return self.do_order(told)

    def do_order(self, told):
        return self.show(self.find(told))

    def find(self, told):
        rows = self.rows("SELECT * FROM orders WHERE client_order_id = ?", told["client_order_id"])
        if not rows:
            raise No("not_found", f"there is no order `{told['client_order_id']}`")
        return rows[0]

    def do_open_orders(self, _):
        return [self.show(order) for order in self.rows("SELECT * FROM orders WHERE status = 'open'")]

    def do_trades(self, told):
        rows = self.rows("SELECT trades.*, client_order_id, side FROM trades JOIN orders ON orders.n = order_n ORDER BY trades.n")
        names = ("size", "price", "fee", "fee_currency", "liquidity", "at", "client_order_id", "side")
        return [
            {"trade_id": f"T{row['n']}", "venue_id": f"V{row['order_n']}", "symbol": self.symbol, **{k: row[k] for k in names}}
            for row in rows if moment(row["at"]) >= moment(told["since"])
        ]

    def do_balances(self, _):
        rows = self.rows("SELECT * FROM balances")
        return [
            {"currency": row["currency"], "total": row["total"], "available": plain(self.available(row["currency"]))}
            for row in rows
        ]

    def do_time(self, _):
        return {"time": now()}

    def do_timer(self, told):
        self.timer_at = time.monotonic() + told["seconds"] if told["seconds"] else None
        return {}

    def do_quote(self, _):
        # A spread of nothing: what the tape says is the bid and the ask.
        return {"symbol": self.symbol, "bid": plain(self.price()), "ask": plain(self.price()), "at": now()}

    def show(self, order):
        names = ("client_order_id", "side", "type", "size", "price", "trigger", "time_in_force", "status", "filled", "at")
        return {"venue_id": f"V{order['n']}", "symbol": self.symbol, **{name: order[name] for name in names}}

    # -- the market

    def tick(self):
        """The next price: what it reaches fills. Returns whether it was a new one."""
        self.db.execute("BEGIN IMMEDIATE")
        at = self.db.execute("SELECT next FROM tape").fetchone()[0]
        if at < len(self.prices):
            self.db.execute("UPDATE tape SET next = next + 1")
        price = self.prices[min(at, len(self.prices) - 1)]
        for order in self.rows("SELECT * FROM orders WHERE status = 'open' ORDER BY n"):
            self.fill(order, price)
        if self.timer_at is not None and time.monotonic() >= self.timer_at:
            self.timer_at = None
            self.db.execute("UPDATE orders SET status = 'canceled' WHERE status = 'open'")
        self.db.execute("COMMIT")
        return at < len(self.prices)

    def fill(self, order, price):
        buys, kind = order["side"] == "buy", order["type"]
        reached = True
        if kind == "limit":
            reached = price <= Decimal(order["price"]) if buys else price >= Decimal(order["price"])
        elif kind == "stop" and not order["triggered"]:
            reached = price >= Decimal(order["trigger"]) if buys else price <= Decimal(order["trigger"])
        left = Decimal(order["size"]) - Decimal(order["filled"])
        if reached:
            size = min(left, self.part) if self.part else left
            left -= size
            self.trade(order, size, price)
            self.db.execute(
                "UPDATE orders SET filled = ?, status = ?, triggered = 1 WHERE n = ?",
                [plain(Decimal(order["filled"]) + size), "open" if left else "closed", order["n"]],
            )
        if order["time_in_force"] == "ioc" and left > 0:
            self.db.execute("UPDATE orders SET status = 'expired' WHERE n = ?", [order["n"]])

    def trade(self, order, size, price):
        sign = 1 if order["side"] == "buy" else -1
        # As on many spot exchanges: the fee of a purchase is kept back from the coins that it brings.
        is_base = self.is_base_fee and sign > 0
        fee = ((size if is_base else size * price) * self.fee_rate).quantize(EIGHT, ROUND_UP)
        self.add(self.base, sign * size - (fee if is_base else 0))
        self.add(self.quote, -sign * size * price - (0 if is_base else fee))
        self.db.execute(
            "INSERT INTO trades (order_n, size, price, fee, fee_currency, liquidity, at) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [order["n"], plain(size), plain(price), plain(fee), self.base if is_base else self.quote]
            + ["maker" if order["type"] == "limit" else "taker", stamp(datetime.datetime.now(datetime.timezone.utc))],
        )


class Server:
    """Serves an exchange on a socket, one request after the other."""

    def __init__(self, exchange, path):
        self.exchange = exchange
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.buffers = {}

    def turn(self, wait_s):
        """Answers what has arrived, after waiting for it at most this long."""
        for key, _ in self.selector.select(wait_s):
            if key.fileobj is self.listener:
                connection, _ = self.listener.accept()
                self.buffers[connection] = b""
                self.selector.register(connection, selectors.EVENT_READ)
            else:
                self.read(key.fileobj)

    def read(self, connection):
        try:
            data = connection.recv(65536)
            *lines, self.buffers[connection] = (self.buffers[connection] + data).split(b"\n")
            for line in lines:
                answer = self.exchange.answer(json.loads(line))
                connection.sendall(json.dumps(answer).encode() + b"\n")
        except (OSError, ValueError, KeyError, TypeError, ArithmeticError) as error:
            print(f"a connection is closed: {error!r}", file=sys.stderr)
            data = b""
        if not data:
            self.selector.unregister(connection)
            del self.buffers[connection]
            connection.close()


class Tape:
    """A file with one price per line. Lines that are appended while the exchange runs are prices too."""

    def __init__(self, path):
        self.path, self.size = path, os.stat(path).st_size
        self.prices = self.read(is_whole=True)
        if not self.prices:
            raise ValueError(f"`{path}` holds no price")

    def read(self, is_whole):
        """Reads the prices. A last line without an end may still be being written, unless the file is whole."""
        with open(self.path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if is_whole or line.endswith("\n")]
        return [price_of(line) for line in lines if line]

    def follow(self):
        """Returns the prices, with those that were appended."""
        size = os.stat(self.path).st_size
        if size != self.size:
            self.prices, self.size = self.read(is_whole=False) or self.prices, size
        return self.prices


def balance_of(text):
    currency, _, amount = text.partition("=")
    if not currency or not amount:
        raise argparse.ArgumentTypeError(f"`{text}` is not like USD=5000")
    return currency, Decimal(amount)


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="spoolgate-mock-exchange", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="example: printf '%s\\n' 6790 6792 6700 6590 > prices\n"
        "         spoolgate-mock-exchange exchange.sock --prices prices --state exchange-state --part 0.01",
    )
    parser.add_argument("socket", metavar="SOCKET", help="Unix socket to serve")
    parser.add_argument("--prices", required=True, metavar="FILE", help="one price per line; append more at any time")
    parser.add_argument("--state", required=True, metavar="DIR", help="where the exchange keeps its books")
    parser.add_argument("--symbol", default="BTC-USD", help="what is traded (BTC-USD)")
    parser.add_argument("--every", type=Decimal, default=Decimal("0.5"), metavar="S", help="seconds between prices (0.5)")
    parser.add_argument("--part", type=Decimal, metavar="SIZE", help="an order fills at most this much at one price")
    parser.add_argument("--fee", type=Decimal, default=Decimal("0.001"), metavar="RATE", help="fraction of the value (0.001)")
    parser.add_argument("--base-fee", action="store_true", help="the fee of a purchase is kept back from the coins bought")
    parser.add_argument(
        "--balance", action="append", type=balance_of, metavar="CURRENCY=AMOUNT", help="what a new account holds (USD=5000)"
    )
    told = parser.parse_args(arguments)
    try:
        tape = Tape(told.prices)
        os.makedirs(told.state, exist_ok=True)
        exchange = Exchange(
            os.path.join(told.state, "exchange.db"), tape.prices, dict(told.balance or [("USD", Decimal(5000))]),
            told.symbol, told.part, told.fee, told.base_fee,
        )
        server = Server(exchange, told.socket)
    except (OSError, ValueError, sqlite3.Error) as error:
        print(f"spoolgate-mock-exchange: {error}", file=sys.stderr)
        return 2
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.append(True))
    next_tick = time.monotonic()
    every = told.every.as_integer_ratio()
    while not ended:
        if time.monotonic() >= next_tick:
            try:
                exchange.prices = tape.follow()
            except (OSError, ValueError) as error:
                print(f"spoolgate-mock-exchange: {error}; the prices read before go on", file=sys.stderr)
            exchange.tick()
            next_tick = time.monotonic() + every[0] / every[1]
        server.turn(max(min(next_tick - time.monotonic(), 0.05), 0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
