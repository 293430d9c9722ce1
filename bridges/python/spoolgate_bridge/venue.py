"""What the core asks of an exchange: implement `Venue` to add one.

Amounts are `decimal.Decimal`, never binary floats. Times are RFC 3339 text in UTC, by the venue's clock. Symbols and
currencies are the gate's (`BTC-USD`, `USD`); a venue translates them. The client order id is the only thing by which an
order is recognised after a crash, so every venue must pass it on and must find an order by it.
"""
import abc
import datetime
import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import Optional

OPEN, CLOSED, CANCELED, EXPIRED, REJECTED = "open", "closed", "canceled", "expired", "rejected"
DECIMALS = 10  # behind the point: what the gate reads


class CannotStart(Exception):
    """The venue cannot be used as configured. The bridge ends with exit code 2 and this text."""


class Refused(Exception):
    """The venue has answered no: nothing was done. `code`: duplicate, insufficient, rejected or not_found."""

    def __init__(self, code, text):
        self.code = code
        super().__init__(text)


class RateLimited(Exception):
    """The venue asks for fewer requests. Nothing was done."""


class Unavailable(Exception):
    """No answer, or none that says what happened: the request may have worked or not."""


@dataclass
class Request:
    """An order to place. `size` is what this order shall fill."""

    client_order_id: str
    symbol: str
    side: str  # buy, sell
    type: str  # limit, market, stop (a stop becomes a market order at its trigger)
    size: Decimal
    price: Optional[Decimal]
    trigger: Optional[Decimal]
    time_in_force: str  # gtc, ioc


@dataclass
class Order:
    """An order as the venue has it. `client_order_id` is None for an order that another program placed."""

    client_order_id: Optional[str]
    venue_id: str
    symbol: str
    side: str
    type: str
    size: Decimal
    price: Optional[Decimal]
    trigger: Optional[Decimal]
    status: str  # open, closed (filled), canceled, expired, rejected
    filled: Decimal
    text: str = ""  # why, if it was rejected


@dataclass
class Trade:
    """A fill. `trade_id` is unique at the venue over all symbols. One of the two order ids is enough."""

    trade_id: str
    client_order_id: Optional[str]
    venue_id: str
    symbol: str
    size: Decimal
    price: Decimal
    fee: Decimal
    fee_currency: str
    liquidity: str  # maker, taker
    at: str
    fee_value: Optional[Decimal] = None  # in the symbol's quote; needed if the fee is in neither base nor quote


class Venue(abc.ABC):
    """An exchange. Every method may raise `RateLimited`, `Unavailable` or `Refused`, and returns within 10 seconds."""

    poll_s = 0.25  # seconds between two looks at the open orders while some work
    trades_s = 0.5  # seconds between two looks at the trades if no order shows a fill
    # A request without an answer takes effect within so many seconds, or never. Until then an order that is not found
    # may still arrive, and nothing is sent again.
    settle_s = 0
    timer_s = 0  # seconds of the cancel-on-disconnect timer; 0: the venue has none

    def start(self) -> None:
        """Connects and checks what has to be so. May raise `CannotStart`."""

    @abc.abstractmethod
    def place(self, request: Request) -> Order:
        """Places an order under its client order id, which the venue must not accept twice while it is open."""

    @abc.abstractmethod
    def cancel(self, client_order_id: str, symbol: str, venue_id: Optional[str]) -> Optional[Order]:
        """Cancels an order and returns how it is then; None if the venue has no such open order."""

    @abc.abstractmethod
    def order(self, client_order_id: str, symbol: str, venue_id: Optional[str]) -> Optional[Order]:
        """Returns an order, open or over; None if the venue does not know it."""

    @abc.abstractmethod
    def open_orders(self, is_whole_account: bool) -> list:
        """Returns the open `Order`s of the configured symbols, or all of the account, also those of others."""

    @abc.abstractmethod
    def trades(self, since: str) -> list:
        """Returns every `Trade` of the account from this moment on, oldest first. More is harmless, less is not."""

    @abc.abstractmethod
    def balances(self) -> list:
        """Returns (currency, total, available) of every currency that is not 0."""

    @abc.abstractmethod
    def time(self) -> str:
        """Returns the time of the venue's clock. Used to see whether the venue answers."""

    def positions(self) -> list:
        """Returns (symbol, signed size) of every open position. Spot has none."""
        return []

    def timer(self, seconds: int) -> None:
        """Has the venue cancel ALL orders unless it is called again within so many seconds; 0 disarms."""

    def value(self, currency: str, quote: str, amount: Decimal) -> Optional[Decimal]:
        """Returns what this amount is worth in `quote` at this moment; None if the venue has no such market."""
        return None


def plain(number: Decimal) -> str:
    """Returns an amount as the gate reads it: digits, no exponent, at most ten decimals."""
    text = format(number.normalize(), "f")
    if len(text.partition(".")[2]) > DECIMALS:
        raise ValueError(f"{text} has more than {DECIMALS} decimals")
    return "0" if text == "-0" else text


def plain_or_none(number: Optional[Decimal]) -> Optional[str]:
    return None if number is None else plain(number)


def rounded_up(number: Decimal) -> Decimal:
    """Returns a fee with no more decimals than the gate reads, never less than it was."""
    return rounded(number, ROUND_CEILING)


def rounded_down(number: Decimal) -> Decimal:
    """Returns a balance with no more decimals than the gate reads, never more than it was."""
    return rounded(number, ROUND_FLOOR)


def rounded(number: Decimal, how: str) -> Decimal:
    with localcontext() as context:
        context.prec = 60  # enough for every coin; `quantize` refuses what does not fit
        smallest = Decimal(1).scaleb(-DECIMALS)
        return number if number == number.quantize(smallest) else number.quantize(smallest, how)


def decimal_or_none(text) -> Optional[Decimal]:
    return None if text is None else Decimal(text)


def stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    return stamp(datetime.datetime.now(datetime.timezone.utc))


def moment(text: str) -> datetime.datetime:
    """Reads an RFC 3339 time in UTC. `fromisoformat` of Python 3.10 reads neither `Z` nor nanoseconds."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)", text)
    if match is None:
        raise ValueError(f"`{text}` is not a time in UTC like 2026-01-02T03:04:05Z")
    whole = datetime.datetime.fromisoformat(match[1]).replace(tzinfo=datetime.timezone.utc)
    return whole + datetime.timedelta(microseconds=int((match[2] or "0")[:6].ljust(6, "0")))
