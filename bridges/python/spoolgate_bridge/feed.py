"""The command `spoolgate-feed`: polls quotes of an exchange and gives them to a gate as signed `market.update` requests.

The feed needs no key of the exchange, only that of a principal of role `feed`. Run it as a process of its own, so that
neither stops when the other does.
"""
import argparse
import secrets
import signal
import sys
import time
from decimal import Decimal

from .__main__ import key_refused, venue_arguments, venue_of
from .gate import KeyRefused, Spool, compact, envelope, outcome, read_key, say
from .venue import CannotStart, RateLimited, Refused, Unavailable, now, plain

ANSWER_WAIT_S = 10.0
BACKOFF_MAX_S = 60.0
EPILOG = """
examples:
  spoolgate-feed --home my-home --key prices.key --venue ccxt:kraken --symbol BTC-USD
  spoolgate-feed --home my-home --key prices.key --venue ccxt:binance --symbol BTC-USD=BTC/USDT --every 2
  spoolgate-feed --home my-home --key prices.key --venue mock:exchange.sock --symbol BTC-USD

Exit codes: 0 ended in order (SIGTERM, SIGINT), 1 gave up (start it again), 2 cannot start or the gate refuses the key (a person
has to act).
"""


class Feed:
    """Quotes of some symbols, from a venue to a gate."""

    def __init__(self, key, spool, venue, symbols):
        self.key, self.spool, self.venue, self.symbols = key, spool, venue, symbols
        self.run_id, self.count = secrets.token_hex(4), 0
        self.last = {}  # symbol: the time of its newest quote

    def turn(self):
        """Asks for a quote of every symbol and delivers what is new. Returns how many were."""
        delivered = 0
        for symbol in self.symbols:
            bid, ask, at = self.venue.quote(symbol)
            if at == self.last.get(symbol):
                continue  # old news would make an old price look fresh
            self.last[symbol] = at
            self.deliver(symbol, {"time": at, "bid": plain(bid), "ask": plain(ask)})
            delivered += 1
        return delivered

    def deliver(self, symbol, row):
        # A row may not be known later than now; the venue's clock may be ahead of this machine's.
        row["time"] = min(row["time"], now())
        self.count += 1
        request_id = f"{self.key['principal']}-{self.run_id}-{self.count}"
        content = envelope(self.key, request_id, "market.update", compact({"symbol": symbol, "quotes": [row]}))
        deadline = time.monotonic() + ANSWER_WAIT_S
        while time.monotonic() < deadline:
            answer = self.spool.exchange(request_id, content)
            if answer is not None:
                code, message = outcome(answer)
                if code != "booked":
                    say(f"the gate refuses a quote of {symbol}: {code}: {message}")
                return
            time.sleep(0.01)
        self.spool.withdraw(request_id)
        say(f"no answer from the gate in {int(ANSWER_WAIT_S)} s; does `spoolgate watch` run over this home?")


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="spoolgate-feed", description="Gives quotes of an exchange to a spoolgate home.",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
    )
    parser.add_argument("--home", required=True, help="the gate's home")
    parser.add_argument("--key", required=True, help="the file that `spoolgate keys add NAME --out FILE` wrote for the feed")
    parser.add_argument("--every", type=Decimal, default=Decimal(5), metavar="S", help="seconds between two quotes (5)")
    venue_arguments(parser)
    told = parser.parse_args(arguments)
    ended = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.append(True))
    try:
        if not told.symbol:
            raise CannotStart("`--symbol BTC-USD` is missing")
        if told.every <= 0:
            raise CannotStart("`--every` is not above 0")
        key = read_key(told.key)
        venue = venue_of(told, is_private=False)
        feed = Feed(key, Spool(told.home, key), venue, [pair.partition("=")[0] for pair in told.symbol])
        venue.start()
    except (Unavailable, RateLimited, Refused) as error:
        say(f"gave up: the venue does not answer: {error}")
        return 1
    except (CannotStart, OSError, ValueError, KeyError, TypeError) as error:
        print(f"spoolgate-feed: cannot start: {error}", file=sys.stderr)
        return 2
    every_ms = int(told.every * 1000)
    wait_ms = every_ms
    while not ended:
        try:
            feed.turn()
            wait_ms = every_ms
        except (Unavailable, RateLimited, Refused) as error:
            say(f"no quote: {error}")
            wait_ms = min(wait_ms * 2, int(BACKOFF_MAX_S) * 1000)
        except KeyRefused as error:
            say(f"ended: {key_refused(told.key, key, error)}")
            return 2
        except (OSError, ValueError) as error:
            say(f"gave up: {error!r}")
            return 1
        deadline = time.monotonic() + wait_ms / 1000
        while not ended and time.monotonic() < deadline:
            time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
