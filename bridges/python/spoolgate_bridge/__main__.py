"""The command `spoolgate-bridge`."""
import argparse
import errno
import sqlite3
import sys

from .core import Bridge
from .gate import KeyRefused, read_key, say
from .mock_venue import MockVenue
from .venue import CannotStart, RateLimited, Refused, Unavailable

EPILOG = """
examples:
  spoolgate-bridge --home my-home --key exchange.key --state exchange-state --venue ccxt:kraken --venue-key kraken.json
  spoolgate-bridge --home my-home --key exchange.key --state exchange-state --venue ccxt:binance --venue-key binance.json \\
      --symbol BTC-USD=BTC/USDT --sandbox
  spoolgate-bridge --home my-home --key exchange.key --state exchange-state --venue mock:exchange.sock

Stops: SIGTERM and SIGINT. Entries are taken out of the market then; stops and exits stay at the venue.
Exit codes: 0 ended in order, 1 gave up (start it again), 2 cannot start or the gate refuses the key (a person has to act).
"""
# What a person has to repair. Other errors of the system, such as a full disk, end by themselves.
LASTING = {errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EROFS, errno.ENAMETOOLONG}


def symbols_of(pairs):
    """Reads `BTC-USD=BTC/USDT` or `BTC-USD`, which means BTC/USD."""
    symbols = {}
    for pair in pairs:
        symbol, _, at_venue = pair.partition("=")
        base, dash, quote = symbol.partition("-")
        at_venue = at_venue or f"{base}/{quote}"
        if not base or not dash or not quote or at_venue.count("/") != 1:
            raise CannotStart(f"`--symbol {pair}` is not like BTC-USD=BTC/USDT")
        symbols[symbol] = at_venue
    return symbols


def venue_arguments(parser):
    parser.add_argument("--venue", required=True, help="mock:SOCKET, ccxt:binance, ccxt:kraken")
    parser.add_argument(
        "--symbol", action="append", default=[], metavar="BTC-USD[=BTC/USDT]",
        help="an instrument of the gate and its name at the venue (BTC/USD for BTC-USD); once for each",
    )
    parser.add_argument("--sandbox", action="store_true", help="the venue's test system, if it has one")
    parser.add_argument(
        "--experimental", action="store_true", help="allow a venue that is not maintained here; it gets no stops, see README.md"
    )


def venue_of(told, is_private):
    """Makes the venue that the arguments name."""
    kind, _, rest = told.venue.partition(":")
    if kind == "mock" and rest:
        return MockVenue(rest)
    if kind == "ccxt" and rest:
        from .ccxt_venue import CcxtVenue

        return CcxtVenue(
            rest, symbols_of(told.symbol), told.venue_key if is_private else None, is_sandbox=told.sandbox,
            is_experimental=told.experimental, is_private=is_private,
        )
    raise CannotStart(f"`--venue {told.venue}` is neither mock:SOCKET nor ccxt:NAME")


def is_lasting(error):
    """Whether a failure to start remains until a person changes something."""
    if isinstance(error, OSError):
        return error.errno in LASTING
    return not isinstance(error, (Unavailable, RateLimited, Refused, sqlite3.OperationalError))


def key_refused(file, key, error):
    """Returns what a person reads whose key the gate refuses."""
    name = key["principal"]
    return (
        f"the gate refuses key {key['key_id']} of `{name}` in `{file}`: {error}. Look for `{name}` in rules/principals.yaml and"
        f" in `spoolgate keys list`, make a key with `spoolgate keys add {name} --out FILE` if need be, and start again with it"
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="spoolgate-bridge", description="Carries out the orders of a spoolgate home at an exchange.",
        formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG,
    )
    parser.add_argument("--home", required=True, help="the gate's home")
    parser.add_argument("--key", required=True, help="the file that `spoolgate keys add NAME --out FILE` wrote for the bridge")
    parser.add_argument("--state", required=True, help="a folder for the bridge's journal; it must outlive restarts")
    parser.add_argument("--venue-key", metavar="FILE", help='the exchange\'s key, {"apiKey":"…","secret":"…"}, readable by you only')
    venue_arguments(parser)
    told = parser.parse_args(arguments)
    try:
        key = read_key(told.key)
        venue = venue_of(told, is_private=True)
        bridge = Bridge(told.home, key, told.state, venue)
        venue.start()
    except (Unavailable, RateLimited, Refused, CannotStart, OSError, ValueError, KeyError, TypeError, sqlite3.Error) as error:
        print(f"spoolgate-bridge: cannot start: {error}", file=sys.stderr)
        return 2 if is_lasting(error) else 1
    try:
        bridge.run()
    except KeyRefused as error:
        say(f"ended: {key_refused(told.key, key, error)}")
        return 2
    except Exception as error:  # whatever it is: what was done is in the journal, and the next run goes on from there
        say(f"gave up: {error!r}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
