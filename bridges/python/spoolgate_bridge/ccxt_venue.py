"""Exchanges through ccxt, a library that speaks to many: `--venue ccxt:binance`, `--venue ccxt:kraken`.

Only what `VENUES` names is maintained. A stop must be a market stop at the venue itself, and what makes it one differs: for
a stop parameter that an exchange lacks, ccxt builds a plain market order, which would sell at once. So stops go by the
table, and every request for a stop is compared with the table before it leaves (`check_stop`).

ccxt computes prices with whatever `number` is; here that is `str`, and JSON numbers stay text, so no binary float touches
money.
"""
import json
import os
import re
import stat
from decimal import Decimal

from .venue import (
    CANCELED, CLOSED, EXPIRED, OPEN, REJECTED,
    CannotStart, Order, RateLimited, Refused, Trade, Unavailable, Venue, moment, plain,
)

try:
    import ccxt
except ImportError:
    ccxt = None

TIMEOUT_MS = 8000
# A place that the exchange receives later than this is refused by the exchange itself.
LATEST_S = 6
PAGE_MAX = 100
STATUSES = {"open": OPEN, "closed": CLOSED, "canceled": CANCELED, "expired": EXPIRED, "rejected": REJECTED}

VENUES = {
    "binance": {
        "stop": {"type": "STOP_LOSS"},  # what the request for a stop must contain
        "place": lambda exchange: {},  # recvWindow (an option below) bounds when it may arrive
        "options": {"defaultType": "spot", "fetchMarkets": {"types": ["spot"]}, "fetchMargins": False,
                    "recvWindow": LATEST_S * 1000},
        "has_sandbox": True,
        "settle_s": 10, "poll_s": 1, "trades_s": 10, "timer_s": 0,
    },
    "kraken": {
        "stop": {"ordertype": "stop-loss"},
        # The fee in the quote currency, as ccxt reads it; and no later than the deadline.
        "place": lambda exchange: {
            "oflags": "fciq", "deadline": exchange.iso8601(exchange.nonce() + LATEST_S * 1000)[:19] + "Z",
        },
        "options": {},
        "has_sandbox": False,
        # Kraken counts requests, TradesHistory twice: 15 at once, and one more every three seconds (a starter's account).
        # These waits stay below that. ccxt would sleep for up to 6 s before a request, and an exit would wait for it.
        "rate_limit_ms": 100,
        "settle_s": 12, "poll_s": 5, "trades_s": 60, "timer_s": 60,
    },
}
REFUSED = {
    "coinbase": "its only stops are stop-limit orders, which a gap passes without filling",
    "alpaca": "its only stops for coins are stop-limit orders, which a gap passes without filling",
}


def read_venue_key(path):
    """Reads the exchange's key. It comes from a file that nobody else can read, never from arguments or the environment."""
    if path is None:
        raise CannotStart("`--venue-key FILE` is missing: the file with the exchange's key")
    if os.stat(path).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CannotStart(f"others can read `{path}`: run `chmod 600 {path}`, and replace the key if others may have read it")
    with open(path, encoding="utf-8") as file:
        key = json.load(file)
    if set(key) != {"apiKey", "secret"} or not all(isinstance(value, str) and value for value in key.values()):
        raise CannotStart(f"`{path}` must hold the members apiKey and secret, and no others")
    return key


class CcxtVenue(Venue):
    """One spot account at an exchange that ccxt knows."""

    def __init__(self, name, symbols, key_file, is_sandbox=False, is_experimental=False, is_private=True):
        for refused, why in REFUSED.items():
            if name.startswith(refused):
                raise CannotStart(f"`ccxt:{name}` is not supported: {why}")
        if name not in VENUES and not is_experimental:
            raise CannotStart(f"`ccxt:{name}` is not maintained here; --experimental allows it, without stops at the venue")
        if ccxt is None:
            raise CannotStart("ccxt is not installed: run `pip install './bridges/python[ccxt]'` in a checkout of spoolgate")
        if name not in ccxt.exchanges:
            raise CannotStart(f"ccxt {ccxt.__version__} knows no exchange `{name}`")
        if not symbols:
            raise CannotStart("`--symbol BTC-USD` is missing: the instruments that are traded there")
        key = read_venue_key(key_file) if is_private else {}
        self.name, self.symbols, self.rules = name, symbols, VENUES.get(name, {})
        self.names = {at_venue: symbol for symbol, at_venue in symbols.items()}
        self.currencies = self.currencies_of(symbols)
        self.poll_s, self.trades_s = self.rules.get("poll_s", 5), self.rules.get("trades_s", 60)
        self.settle_s, self.timer_s = self.rules.get("settle_s", 60), self.rules.get("timer_s", 0)
        self.exchange = getattr(ccxt, name)({
            **key, "enableRateLimit": True, "timeout": TIMEOUT_MS,
            "options": {"adjustForTimeDifference": True, "fetchCurrencies": False, **self.rules.get("options", {})},
        })
        self.exchange.rateLimit = self.rules.get("rate_limit_ms", self.exchange.rateLimit)
        self.exchange.number = str
        self.exchange.on_json_response = lambda text: json.loads(text, parse_float=str)
        self.exchange.has["fetchCurrencies"] = False
        self.is_placing_stop = False
        self.sign, self.exchange.sign = self.exchange.sign, self.check_stop
        if is_sandbox:
            if not self.rules.get("has_sandbox", "test" in self.exchange.urls):
                raise CannotStart(
                    f"`ccxt:{name}` has no test system. Kraken's `validate` only checks an order, which then never works, so it"
                    " is not used here; try things out with `--venue mock:SOCKET`"
                )
            self.exchange.set_sandbox_mode(True)

    @staticmethod
    def currencies_of(symbols):
        """Maps the venue's currencies to the gate's: with BTC-USD=BTC/USDT, USDT is the gate's USD."""
        found = {}
        for symbol, at_venue in symbols.items():
            for ours, theirs in zip(symbol.split("-"), at_venue.split("/")):
                if found.setdefault(theirs, ours) != ours or [t for t, o in found.items() if o == ours] != [theirs]:
                    raise CannotStart(f"`--symbol` gives {ours} or {theirs} two meanings: use one quote currency for one of the gate")
        return found

    def start(self):
        """Loads the markets and checks that they can be traded as the gate needs it."""
        self.call(self.exchange.load_markets)
        for symbol, at_venue in self.symbols.items():
            market = self.exchange.markets.get(at_venue)
            if market is None or not market["spot"]:
                raise CannotStart(f"{self.name} has no spot market `{at_venue}` for {symbol}; name it with `--symbol {symbol}=BASE/QUOTE`")
            if self.name == "binance" and "STOP_LOSS" not in market["info"].get("orderTypes", []):
                raise CannotStart(f"{self.name} takes no STOP_LOSS orders for {at_venue}, so a position there would have no stop")

    # -- requests

    def place(self, request):
        at_venue, kind = self.at_venue(request.symbol), request.type
        params = {"clientOrderId": request.client_order_id, **(self.rules["place"](self.exchange) if self.rules else {})}
        if kind == "stop":
            if "stop" not in self.rules:
                raise Refused("rejected", f"{self.name} is experimental here and gets no stops")
            params["stopLossPrice"] = self.exact(self.exchange.price_to_precision, at_venue, request.trigger)
        if kind == "limit":
            params["timeInForce"] = request.time_in_force.upper()
        price = None if request.price is None or kind != "limit" else self.exact(
            self.exchange.price_to_precision, at_venue, request.price
        )
        size = self.exact(self.exchange.amount_to_precision, at_venue, request.size)
        self.is_placing_stop = kind == "stop"
        try:
            answer = self.call(
                self.exchange.create_order, at_venue, "limit" if kind == "limit" else "market", request.side, size, price, params
            )
        finally:
            self.is_placing_stop = False
        # Some answers hold little more than the id; how the order is comes with the next look.
        status, filled = STATUSES.get(answer.get("status"), OPEN), Decimal(answer.get("filled") or 0)
        return Order(
            request.client_order_id, str(answer["id"]), request.symbol, request.side, kind, request.size, request.price,
            request.trigger, status, filled,
        )

    def exact(self, to_precision, at_venue, amount):
        """Returns an amount as text if the venue takes it as it is: a rounded order is another order."""
        text = plain(amount)
        try:
            rounded = to_precision(at_venue, text)
        except ccxt.BaseError as error:
            raise Refused("rejected", str(error)) from error
        if Decimal(rounded) != amount:
            raise Refused("rejected", f"{self.name} takes {rounded} for {at_venue}, not {text}: set lot and tick in instruments.yaml")
        return rounded

    def check_stop(self, path, api="public", method="GET", params=None, **more):
        """Signs a request; one for a stop only if it is what the table says."""
        params = params or {}
        due = self.rules.get("stop", {})
        if self.is_placing_stop and method == "POST" and any(params.get(name) != value for name, value in due.items()):
            raise Refused("rejected", f"ccxt {ccxt.__version__} would place something else than a market stop: {path}")
        return self.sign(path, api, method, params, **more)

    def cancel(self, client_order_id, symbol, venue_id):
        try:
            self.call(self.exchange.cancel_order, venue_id or "", self.at_venue(symbol), {"clientOrderId": client_order_id})
        except Refused as error:
            if error.code != "not_found":
                raise
        # What an exchange answers to a cancel says too little, or names the cancel instead of the order.
        return self.order(client_order_id, symbol, venue_id)

    def order(self, client_order_id, symbol, venue_id):
        at_venue, by_name = self.at_venue(symbol), {"clientOrderId": client_order_id}
        try:
            if self.name != "kraken":
                told = self.call(self.exchange.fetch_order, venue_id or "", at_venue, by_name)
                return self.call(self.order_of, told, client_order_id)
            if venue_id is not None:
                return self.call(self.order_of, self.call(self.exchange.fetch_order, venue_id, at_venue), client_order_id)
            # Kraken finds an order by its name only in these lists; one that ends in between is in the second.
            found = self.call(self.exchange.fetch_open_orders, at_venue, None, None, by_name)
            found = found or self.call(self.exchange.fetch_closed_orders, at_venue, None, None, by_name)
            found = [order for order in found if order["clientOrderId"] == client_order_id]
            return self.call(self.order_of, found[0], client_order_id) if found else None
        except Refused as error:
            if error.code != "not_found":
                raise
            return None

    def order_of(self, told, client_order_id=None):
        trigger = told.get("triggerPrice") or told.get("stopLossPrice") or None
        kind = "stop" if trigger and Decimal(trigger) else told.get("type") or "market"
        price = Decimal(told["price"]) if kind == "limit" and told.get("price") else None
        return Order(
            client_order_id or told.get("clientOrderId") or None, str(told["id"]), self.symbol(told["symbol"]), told["side"],
            kind, Decimal(told["amount"]), price, Decimal(trigger) if kind == "stop" else None,
            STATUSES.get(told["status"], OPEN), Decimal(told.get("filled") or 0), str((told.get("info") or {}).get("reason") or ""),
        )

    def open_orders(self, is_whole_account):
        if self.name == "binance" and not is_whole_account:
            # All symbols at once cost Binance's limit as much as thirteen single ones.
            lists = [self.call(self.exchange.fetch_open_orders, at_venue) for at_venue in self.names]
        else:
            self.exchange.options["warnOnFetchOpenOrdersWithoutSymbol"] = False
            lists = [self.call(self.exchange.fetch_open_orders)]
        return [self.call(self.order_of, told) for orders in lists for told in orders]

    def trades(self, since):
        return [self.call(self.trade_of, told) for told in self.trades_since(int(moment(since).timestamp() * 1000))]

    def trades_since(self, since_ms):
        """Returns all trades since then: page after page."""
        if self.name == "kraken":
            return self.kraken_trades(since_ms)
        found = {}
        for at_venue in self.names:
            start = since_ms
            for _ in range(PAGE_MAX):
                page = self.call(self.exchange.fetch_my_trades, at_venue, start, 1000)
                found.update({(at_venue, told["id"]): told for told in page})
                if len(page) < 1000:
                    break
                start = max(told["timestamp"] for told in page)
        return list(found.values())

    def kraken_trades(self, since_ms):
        # Not fetch_my_trades: it hides how many there are. Taker trades that are consolidated grow under one id.
        found = {}
        for _ in range(PAGE_MAX):
            request = {"start": str(since_ms // 1000), "ofs": str(len(found)), "consolidate_taker": "false"}
            result = self.call(self.exchange.private_post_tradeshistory, request)["result"]
            found.update(result["trades"])
            if not result["trades"] or len(found) >= int(result.get("count", 0)):
                break
        rows = self.exchange.parse_trades([{**told, "id": name} for name, told in found.items()])
        return [told for told in rows if told["symbol"] in self.names]

    def trade_of(self, told):
        fee = told.get("fee") or {}
        if fee.get("cost") is None or fee.get("currency") is None:
            raise Unavailable(f"{self.name} does not state the fee of trade {told['id']} yet")
        symbol = self.symbol(told["symbol"])
        # Ids of Binance's trades are unique within one market only.
        trade_id = told["id"] if self.name == "kraken" else f"{symbol}/{told['id']}"
        return Trade(
            trade_id, None, str(told["order"]), symbol, Decimal(told["amount"]), Decimal(told["price"]), Decimal(fee["cost"]),
            self.currency(fee["currency"]), told.get("takerOrMaker") or "taker", self.exchange.iso8601(told["timestamp"]),
        )

    def balances(self):
        told = self.call(self.exchange.fetch_balance)
        rows = [(self.currency(code), Decimal(total or 0), Decimal(told["free"].get(code) or 0)) for code, total in told["total"].items()]
        # What the gate compares comes first: a snapshot has room for 100 rows, and a testnet gives away hundreds of coins.
        ours = set(self.currencies.values())
        return sorted((row for row in rows if row[1]), key=lambda row: (row[0] not in ours, row[0]))

    def time(self):
        self.call(self.exchange.load_time_difference)
        return self.exchange.iso8601(self.exchange.milliseconds() - self.exchange.options["timeDifference"])

    def timer(self, seconds):
        self.call(self.exchange.cancel_all_orders_after, seconds * 1000)

    def value(self, currency, quote, amount):
        theirs = [code for code, ours in self.currencies.items() if ours == quote]
        for code in theirs:
            if f"{currency}/{code}" in self.exchange.markets:
                last = self.call(self.exchange.fetch_ticker, f"{currency}/{code}").get("last")
                return None if last is None else amount * Decimal(last)
        return None

    def quote(self, symbol):
        """Returns (bid, ask, time)."""
        told = self.call(self.exchange.fetch_ticker, self.at_venue(symbol))
        if told.get("bid") is None or told.get("ask") is None:
            raise Unavailable(f"{self.name} has no bid and ask for {symbol}")
        at = told.get("timestamp")
        return Decimal(told["bid"]), Decimal(told["ask"]), self.exchange.iso8601(at) if at else self.time()

    # -- names and errors

    def at_venue(self, symbol):
        if symbol not in self.symbols:
            raise Refused("rejected", f"the bridge was started without `--symbol {symbol}`")
        return self.symbols[symbol]

    def symbol(self, at_venue):
        return self.names.get(at_venue) or str(at_venue).replace("/", "-")

    def currency(self, code):
        return self.currencies.get(code, code)

    def set_clock(self):
        """Learns the venue's time anew: requests are dated by it, and refused if they are off."""
        try:
            self.exchange.load_time_difference()
        except ccxt.BaseError:
            pass  # the next request that is refused for it tries again

    def call(self, method, *arguments):
        """Calls ccxt. Whatever does not say for certain that nothing was done counts as unanswered."""
        try:
            return method(*arguments)
        except ccxt.OrderNotFound as error:
            raise Refused("not_found", str(error)) from error
        except ccxt.RateLimitExceeded as error:
            raise RateLimited(str(error)) from error
        except ccxt.DDoSProtection as error:
            if re.search(r"\b(418|429)\b|rate limit|too many|lockout", str(error), re.IGNORECASE):
                raise RateLimited(str(error)) from error
            raise Unavailable(str(error)) from error
        except ccxt.InsufficientFunds as error:
            raise Refused("insufficient", str(error)) from error
        except ccxt.DuplicateOrderId as error:
            raise Refused("duplicate", str(error)) from error
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            raise Unavailable(f"an answer of {self.name} cannot be read: {error!r}") from error
        except ccxt.InvalidNonce as error:
            self.set_clock()
            raise Unavailable(str(error)) from error
        except ccxt.OperationFailed as error:  # timeouts, no network, maintenance, bad answers
            raise Unavailable(str(error)) from error
        except ccxt.ExchangeError as error:
            text = str(error)
            if "https://" in text:  # the request failed, and no answer of the exchange was read
                raise Unavailable(text) from error
            raise Refused("duplicate" if re.search(r"duplicate|cl_ord_id", text, re.IGNORECASE) else "rejected", text) from error
