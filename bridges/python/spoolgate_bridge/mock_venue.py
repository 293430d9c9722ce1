"""An exchange behind a Unix socket, for tests and for trying things out: `--venue mock:SOCKET`.

One JSON object per line, one answer per request, in order. `exchange.py` serves such a socket, and so does the suite of
`spoolgate bridge test`.
"""
import json
import socket
from decimal import Decimal, InvalidOperation

from .venue import Order, RateLimited, Refused, Trade, Unavailable, Venue, decimal_or_none, plain, plain_or_none

TIMEOUT_S = 10


def order_of(told):
    return Order(
        told["client_order_id"], told["venue_id"], told["symbol"], told["side"], told["type"], Decimal(told["size"]),
        decimal_or_none(told["price"]), decimal_or_none(told["trigger"]), told["status"], Decimal(told["filled"]),
        told.get("text", ""),
    )


class MockVenue(Venue):
    """The client's side of the socket."""

    timer_s = 30

    def __init__(self, path):
        self.path, self.file, self.count = path, None, 0

    def place(self, request):
        return order_of(self.ask(
            "place", client_order_id=request.client_order_id, symbol=request.symbol, side=request.side, type=request.type,
            size=plain(request.size), price=plain_or_none(request.price),
            trigger=plain_or_none(request.trigger), time_in_force=request.time_in_force,
        ))

    def cancel(self, client_order_id, symbol, venue_id):
        return self.unless_unknown("cancel", client_order_id)

    def order(self, client_order_id, symbol, venue_id):
        return self.unless_unknown("order", client_order_id)

    def unless_unknown(self, op, client_order_id):
        try:
            return order_of(self.ask(op, client_order_id=client_order_id))
        except Refused as error:
            if error.code != "not_found":
                raise
            return None

    def open_orders(self, is_whole_account):
        return [order_of(told) for told in self.ask("open_orders")]

    def trades(self, since):
        return [
            Trade(
                told["trade_id"], told["client_order_id"], told["venue_id"], told["symbol"], Decimal(told["size"]),
                Decimal(told["price"]), Decimal(told["fee"]), told["fee_currency"], told["liquidity"], told["at"],
            )
            for told in self.ask("trades", since=since)
        ]

    def balances(self):
        return [(b["currency"], Decimal(b["total"]), Decimal(b["available"])) for b in self.ask("balances")]

    def time(self):
        return self.ask("time")["time"]

    def timer(self, seconds):
        self.ask("timer", seconds=seconds)

    def quote(self, symbol):
        """Returns (bid, ask, time). Only the exchange of this package has it."""
        told = self.ask("quote", symbol=symbol)
        return Decimal(told["bid"]), Decimal(told["ask"]), told["at"]

    def ask(self, op, **members):
        self.count += 1
        try:
            if self.file is None:
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(TIMEOUT_S)
                connection.connect(self.path)
                self.file = connection.makefile("rwb")
                connection.close()  # the file keeps it open
            self.file.write(json.dumps({"id": self.count, "op": op, **members}).encode() + b"\n")
            self.file.flush()
            line = self.file.readline()
            if not line.endswith(b"\n"):
                raise ConnectionError("the exchange has closed the connection")
            answer = json.loads(line, parse_float=Decimal)
            if answer.get("id") != self.count:
                raise ConnectionError(f"the exchange answered request {answer.get('id')} instead of {self.count}")
        except (OSError, ValueError) as error:
            self.close()
            raise Unavailable(f"{op}: {error}") from error
        if "error" not in answer:
            return answer["ok"]
        code, text = answer["error"]["code"], answer["error"].get("text", "")
        if code == "rate_limited":
            raise RateLimited(text)
        if code == "unavailable":
            raise Unavailable(text)
        raise Refused(code, text)

    def close(self):
        file, self.file = self.file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                pass  # it was to flush what cannot be sent


def price_of(text):
    """Reads a price of a file of prices."""
    try:
        price = Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"`{text}` is not a price") from error
    if not price.is_finite() or price <= 0:
        raise ValueError(f"`{text}` is not a price")
    return price
