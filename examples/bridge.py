#!/usr/bin/env python3
"""A bridge for instruments with `venue: outbox`, and a simulated exchange to try it with. Standard library only.

usage: python3 bridge.py HOME KEYFILE PRICES STATE [options]

HOME is the gate's home, KEYFILE what `spoolgate keys add NAME --out KEYFILE` wrote for the bridge (a shared key), PRICES
a file with one price a line, STATE a folder for the bridge's journal and for the exchange. Takes instructions from
HOME/spool/outbox/NAME, carries them out, and drops signed `venue.report` requests into HOME/spool/in.

options: --every S     seconds between two prices (0.5); the last price stands
         --part SIZE   an order fills at most this much at one price
         --fee RATE    fee of every trade, fraction of its value (0.001)
         --until-idle  end when nothing is left to do and the last price is reached

What a bridge to a real exchange needs from this: the class Bridge, with another Exchange behind it that passes
`order id.version` on as the client order id. The exchange must refuse one that it has seen, as exchanges do.
"""
import argparse, datetime, decimal, fcntl, hashlib, hmac, json, os, sqlite3, sys, time
from decimal import Decimal

ANSWER_WAIT_S = 2.0
# What repeating and crossing reports bring about; any other refusal means that the gate lacks a fact: a person looks.
EXPECTED = {"booked", "REPORT_DUPLICATE", "REPORT_UNKNOWN"}


def now():
    moment = datetime.datetime.now(datetime.timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(number):
    return format(number.normalize(), "f")


def database(path, tables):
    # A transaction is on disk when it is over: what is removed or sent afterwards must not be forgotten.
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    for table in tables:
        db.execute(f"CREATE TABLE IF NOT EXISTS {table}")
    return db


class Transaction:
    def __init__(self, db):
        self.db = db

    def __enter__(self):
        self.db.execute("BEGIN IMMEDIATE")
        return self.db

    def __exit__(self, kind, *_):
        self.db.execute("ROLLBACK" if kind else "COMMIT")


class Exchange:
    """A venue that remembers: orders, every client order id that it has seen, and what happened, in order."""

    def __init__(self, path, prices, part, fee):
        self.prices, self.part, self.fee = prices, part, fee
        self.db = database(
            path,
            [
                "requests (cl_ord_id TEXT PRIMARY KEY)",
                "orders (id TEXT PRIMARY KEY, symbol TEXT, side TEXT, type TEXT, size TEXT, price TEXT, trigger TEXT,"
                " tif TEXT, filled TEXT, open INTEGER, version INTEGER)",
                "events (n INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)",
                "tape (only INTEGER PRIMARY KEY CHECK (only = 1), next INTEGER)",
            ],
        )
        self.db.execute("INSERT OR IGNORE INTO tape VALUES (1, 0)")

    def ask(self, told):
        """Executes an instruction, each at most once. Gives whether it is new."""
        cl_ord_id = f"{told['order_id']}.{told['version']}"
        with Transaction(self.db) as db:
            if db.execute("SELECT 1 FROM requests WHERE cl_ord_id = ?", [cl_ord_id]).fetchone():
                return False
            db.execute("INSERT INTO requests VALUES (?)", [cl_ord_id])
            self.execute(told)
        return True

    def execute(self, told):
        order_id, verb, db = told["order_id"], told["instruction"], self.db
        order = db.execute("SELECT size, filled, open FROM orders WHERE id = ?", [order_id]).fetchone()
        if order is None:
            db.execute(
                "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, '0', ?, ?)",
                [order_id, told["symbol"], told["side"], told["order_type"], told["size"], told["price"]]
                + [told["trigger"], told["time_in_force"], verb != "cancel", told["version"]],
            )
            self.tell(order_id, "canceled" if verb == "cancel" else "new")
            return
        size, filled, is_open = Decimal(order[0]), Decimal(order[1]), order[2]
        wanted = Decimal(told["size"])
        if verb == "cancel":
            db.execute("UPDATE orders SET open = 0, version = ? WHERE id = ?", [told["version"], order_id])
            self.tell(order_id, "canceled")
        elif is_open or verb == "place" and filled < wanted:
            # One that is no longer in the market is placed anew, for what it has not filled.
            db.execute(
                "UPDATE orders SET size = ?, type = ?, price = ?, trigger = ?, tif = ?, open = ?, version = ? WHERE id = ?",
                [told["size"], told["order_type"], told["price"], told["trigger"], told["time_in_force"]]
                + [filled < wanted, told["version"], order_id],
            )
            self.tell(order_id, "replaced" if is_open else "new")
        elif size <= filled < wanted:
            # Also where it was made smaller than it had filled: the gate takes what is left for covered until it hears.
            db.execute("UPDATE orders SET version = ? WHERE id = ?", [told["version"], order_id])
            self.tell(order_id, "rejected", text="it had filled before")

    def tell(self, order_id, exec_type, **rest):
        filled, version = self.db.execute("SELECT filled, version FROM orders WHERE id = ?", [order_id]).fetchone()
        body = {"order_id": order_id, "exec_type": exec_type, "transact_time": now(), "cum_qty": filled, **rest}
        if exec_type != "trade":
            body["version"] = version
        self.db.execute("INSERT INTO events (body) VALUES (?)", [json.dumps(body)])

    def tick(self):
        """The next price: what it reaches fills. Gives whether there was a new one, or anything filled."""
        with Transaction(self.db) as db:
            at = db.execute("SELECT next FROM tape").fetchone()[0]
            price = self.prices[min(at, len(self.prices) - 1)]
            has_moved = at < len(self.prices)
            if has_moved:
                db.execute("UPDATE tape SET next = next + 1")
            rows = db.execute("SELECT id, side, type, size, price, trigger, tif, filled FROM orders WHERE open = 1")
            for order in rows.fetchall():
                has_moved = self.fill(price, *order) or has_moved
        return has_moved

    def fill(self, price, order_id, side, kind, size, limit, trigger, tif, filled):
        buys = side == "buy"
        if kind == "limit":
            reached = price <= Decimal(limit) if buys else price >= Decimal(limit)
        elif kind == "stop":
            # One that has begun to fill is at the market.
            reached = price >= Decimal(trigger) if buys else price <= Decimal(trigger)
            reached = reached or filled != "0"
        else:
            reached = True
        left = Decimal(size) - Decimal(filled)
        if reached:
            part = min(left, self.part) if self.part else left
            left -= part
            filled = plain(Decimal(filled) + part)
            self.db.execute("UPDATE orders SET filled = ?, open = ? WHERE id = ?", [filled, left > 0, order_id])
            fee = (price * part * self.fee).quantize(Decimal("0.00000001"), decimal.ROUND_UP)
            trade = {"last_qty": plain(part), "last_px": plain(price), "fee": plain(fee)}
            self.tell(order_id, "trade", liquidity="maker" if kind == "limit" else "taker", **trade)
        if tif == "ioc" and left > 0:
            self.db.execute("UPDATE orders SET open = 0 WHERE id = ?", [order_id])
            self.tell(order_id, "expired")
        return reached

    def events_after(self, n):
        return self.db.execute("SELECT n, body FROM events WHERE n > ? ORDER BY n", [n]).fetchall()


class Bridge:
    """Between the gate's files and an exchange. What it has taken, and what it has to say, is in its journal."""

    def __init__(self, home, key, state, exchange):
        self.key, self.exchange = key, exchange
        self.outbox = os.path.join(home, "spool", "outbox", key["principal"])
        self.inbox = os.path.join(home, "spool", "in")
        self.answers = os.path.join(home, "spool", "out")
        self.db = database(
            os.path.join(state, "journal.db"),
            [
                "instructions (order_id TEXT, version INTEGER, body TEXT, done INTEGER, PRIMARY KEY (order_id, version))",
                "reports (n INTEGER PRIMARY KEY, request_id TEXT, bytes BLOB, answer TEXT)",
            ],
        )
        self.sent = {}

    def take(self):
        """Journals instructions, then removes their files. One that comes again is known by order and version."""
        try:
            names = sorted(name for name in os.listdir(self.outbox) if name.endswith(".json") and name[0] != ".")
        except FileNotFoundError:
            return False
        told = []
        for name in names:
            with open(os.path.join(self.outbox, name), encoding="utf-8") as file:
                told.append(json.load(file))
        with Transaction(self.db) as db:
            for one in told:
                row = [one["order_id"], one["version"], json.dumps(one)]
                db.execute("INSERT OR IGNORE INTO instructions VALUES (?, ?, ?, 0)", row)
        for name in names:
            os.unlink(os.path.join(self.outbox, name))
        return bool(names)

    def carry_out(self):
        """The highest version of every order, unless that or a later one is done: each states the whole order."""
        due = self.db.execute(
            "SELECT order_id, version, body FROM instructions AS newest WHERE done = 0"
            " AND version = (SELECT max(version) FROM instructions WHERE order_id = newest.order_id)"
        ).fetchall()
        for order_id, version, body in due:
            # If we died after the exchange had it, it says so now: the client order id is the same.
            self.exchange.ask(json.loads(body))
            self.db.execute(
                "UPDATE instructions SET done = 1 WHERE order_id = ? AND version <= ?", [order_id, version]
            )
        return bool(due)

    def collect(self):
        """Signs what has happened, once: the same bytes are sent until they are answered."""
        last = self.db.execute("SELECT coalesce(max(n), 0) FROM reports").fetchone()[0]
        events = self.exchange.events_after(last)
        with Transaction(self.db) as db:
            for n, body in events:
                payload = json.dumps({"exec_id": f"X{n}", **json.loads(body)}, separators=(",", ":"))
                request_id = f"{self.key['principal']}-X{n}"
                row = [n, request_id, self.sign(request_id, payload)]
                db.execute("INSERT INTO reports VALUES (?, ?, ?, NULL)", row)
        return bool(events)

    def sign(self, request_id, payload):
        stamp, action = now(), "venue.report"
        message = f"{request_id}|{stamp}|{action}|{hashlib.sha256(payload.encode()).hexdigest()}"
        signature = hmac.new(bytes.fromhex(self.key["secret"]), message.encode(), "sha256").hexdigest()
        text = json.dumps
        return (
            f'{{"id":{text(request_id)},"timestamp":{text(stamp)},"action":{text(action)},"payload":{payload},'
            f'"source":{text(self.key["principal"])},"signature":{text(signature)}}}\n'
        ).encode()

    def send(self):
        """One report after the other: the next goes when this one is answered."""
        row = self.db.execute("SELECT n, request_id, bytes FROM reports WHERE answer IS NULL ORDER BY n").fetchone()
        if row is None:
            return False
        n, request_id, content = row
        try:
            with open(os.path.join(self.answers, f"{request_id}.json"), encoding="utf-8") as file:
                answer = json.load(file)
        except FileNotFoundError:
            if time.monotonic() - self.sent.get(n, -ANSWER_WAIT_S) >= ANSWER_WAIT_S:
                self.drop(request_id, content)
                self.sent[n] = time.monotonic()
            return True
        code = answer.get("error", {}).get("code") if answer["status"] == "error" else "booked"
        if code not in EXPECTED:
            print(f"{request_id}: {answer['error']['message']}", file=sys.stderr)
        self.db.execute("UPDATE reports SET answer = ? WHERE n = ?", [code, n])
        return True

    def drop(self, request_id, content):
        hidden = os.path.join(self.inbox, f".{request_id}.tmp")
        with open(hidden, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(hidden, os.path.join(self.inbox, f"{request_id}.json"))

    def step(self):
        return any([self.take(), self.carry_out(), self.collect(), self.send()])


def read_prices(path):
    with open(path, encoding="utf-8") as file:
        prices = [Decimal(line) for line in file if line.strip()]
    if not prices:
        raise ValueError(f"{path} holds no price")
    return prices


def main():
    parser = argparse.ArgumentParser(
        usage=__doc__.split("usage: ")[1].split("\n")[0],
        description=__doc__.split("\n\n", 2)[2],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name in ("home", "keyfile", "prices", "state"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=float, default=0.5, help=argparse.SUPPRESS)
    parser.add_argument("--part", type=Decimal, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--fee", type=Decimal, default=Decimal("0.001"), help=argparse.SUPPRESS)
    parser.add_argument("--until-idle", action="store_true", help=argparse.SUPPRESS)
    told = parser.parse_args()
    with open(told.keyfile, encoding="utf-8") as file:
        key = json.load(file)
    if key["algorithm"] != "hmac-sha256":
        raise ValueError(f"{told.keyfile} is an {key['algorithm']} key; this bridge signs with a shared one")
    os.makedirs(told.state, exist_ok=True)
    lock = open(os.path.join(told.state, "lock"), "w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    exchange = Exchange(os.path.join(told.state, "exchange.db"), read_prices(told.prices), told.part, told.fee)
    bridge = Bridge(told.home, key, told.state, exchange)
    next_tick = 0.0
    while True:
        is_busy = bridge.step()
        if time.monotonic() >= next_tick:
            next_tick = time.monotonic() + told.every
            is_busy = exchange.tick() or is_busy
            if told.until_idle and not is_busy:
                return
        elif not is_busy:
            time.sleep(min(0.02, told.every))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
    except (OSError, ValueError, KeyError, decimal.DecimalException) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
