#!/usr/bin/env python3
"""Play a recorded day of quotes into a gate, as fast as an agent keeps up, with the client of clients/python.

usage: python3 feed.py HOME KEYFILE QUOTES.zip [--minutes N] -- AGENT...

HOME is the gate's home, KEYFILE that of a principal of role `feed`, QUOTES.zip Lean quote bars (examples/market). AGENT is
the command of an agent that acts once per line of its standard input and answers each with a line (agent.py --paced).

Old prices would be stale, and waiting for new ones takes a day. So each span of N minutes (10) of the record is
delivered as if it had just happened: its quotes, in order, dated by the milliseconds before now, in one signed
`market.update`. A day takes seconds; what took a minute then takes a millisecond. Of the record the prices and sizes are
kept, and their order; the times are not. The feed holds the feed's key and the agent its own: neither can do the other's
part.
"""
import argparse, csv, datetime, io, os, subprocess, sys, time, zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python/src"))
from spoolgate import Gate, GateError

ROWS_MAX = 256  # of one market.update


def read_quotes(path):
    """(minute of the day, bid, ask, bid size, ask size): what closes each quote bar, as text so that no digit is lost."""
    with zipfile.ZipFile(path) as archive:
        text = archive.read(archive.namelist()[0]).decode("utf-8")
    for row in csv.reader(io.StringIO(text)):
        if len(row) != 11:
            raise ValueError(f"{path}: a row has {len(row)} columns, Lean quote bars have 11")
        yield int(row[0]) // 60_000, row[4], row[9], short(row[5]), short(row[10])


def short(size):
    # The wire takes ten decimals; what is offered beyond that is left out, never rounded up.
    whole, _, fraction = size.partition(".")
    return f"{whole}.{fraction[:10]}" if fraction else whole


def spans(quotes, minutes):
    span, number = [], None
    for quote in quotes:
        if quote[0] // minutes != number and span:
            yield span
            span = []
        number = quote[0] // minutes
        span.append(quote)
    if span:
        yield span


def deliver(gate, symbol, span):
    # All of it happens behind what was asked before: an order fills on what came after it, on a slow machine as on a
    # quick one.
    time.sleep((len(span) + 1) / 1000)
    now = datetime.datetime.now(datetime.timezone.utc)
    rows = []
    for back, (_, bid, ask, bid_size, ask_size) in zip(range(len(span) - 1, -1, -1), span):
        stamp = (now - datetime.timedelta(milliseconds=back)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rows.append({"time": stamp, "bid": bid, "ask": ask, "bid_size": bid_size, "ask_size": ask_size})
    gate.update_market(symbol=symbol, quotes=rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home")
    parser.add_argument("keyfile")
    parser.add_argument("quotes")
    parser.add_argument("--symbol", default="BTC-USD")
    parser.add_argument("--minutes", type=int, default=10, choices=range(1, ROWS_MAX + 1), metavar="N")
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    own, command = arguments[:at], arguments[at + 1 :]
    told = parser.parse_args(own)
    if not command:
        parser.error("name the agent's command behind --")
    gate = Gate(told.home, key=told.keyfile)
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    try:
        for span in spans(read_quotes(told.quotes), told.minutes):
            deliver(gate, told.symbol, span)
            minute = span[-1][0]
            agent.stdin.write(f"{minute // 60:02d}:{minute % 60:02d}\n")
            if not agent.stdout.readline():
                break
        agent.stdin.close()
        # Its last orders need a market to fill on.
        if agent.stdout.readline():
            deliver(gate, told.symbol, span)
        return agent.wait(timeout=120)
    finally:
        agent.kill()
        agent.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, subprocess.TimeoutExpired, GateError) as error:
        print(f"feed: {error}", file=sys.stderr)
        sys.exit(2)
