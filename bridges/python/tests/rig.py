"""A gate and a venue inside the test, for unit tests of the core."""
import base64
import datetime
import hashlib
import hmac
import json
import os
import shutil
import tempfile
from decimal import Decimal

from spoolgate_bridge import core
from spoolgate_bridge.exchange import Exchange
from spoolgate_bridge.mock_venue import MockVenue
from spoolgate_bridge.venue import Refused, Unavailable, stamp

# Whether a sample of the long tests is enough.
IS_SHORT = bool(os.environ.get("SPOOLGATE_SHORT"))
KEY = {"principal": "exchange", "key_id": "k1", "algorithm": "hmac-sha256", "secret": "11" * 32}


def after(seconds):
    return stamp(datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds))


class Gate:
    """The files of a home, and the answers of a gate that books what is consistent."""

    def __init__(self, folder):
        self.home = folder
        self.outbox = os.path.join(folder, "spool", "outbox", "exchange")
        for name in ("in", "out"):
            os.makedirs(os.path.join(folder, "spool", name), exist_ok=True)
        os.makedirs(self.outbox, exist_ok=True)
        self.reports, self.refused, self.snapshots, self.bytes = [], [], [], {}
        self.exec_ids, self.filled, self.line = set(), {}, 0
        self.codes = {}  # exec_id: the code to refuse it with
        self.refusals = []  # codes to refuse the next requests with, whatever they are
        self.key_code = None  # the code to refuse every request with
        self.is_answering = True
        self.is_busy = False  # with files of its own, at which no bridge is killed
        self.speak()

    def speak(self, epoch=1, seconds=30):
        self.write(".gate", {"at": after(0), "valid_until": after(seconds), "epoch": epoch})

    def write(self, name, content):
        hidden = os.path.join(self.outbox, ".tmp")
        with open(hidden, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.rename(hidden, os.path.join(self.outbox, name))

    def tell(self, order_id, version, verb="place", size="0.5", order_type="limit", price="100", trigger=None, side="buy",
             tif="gtc", reduces=None, valid_s=60, epoch=1, again=""):
        reduces = order_id != "o-1" if reduces is None else reduces
        self.line += 1
        digest = hashlib.sha256(f"home|{order_id}|{version}".encode()).digest()
        client_order_id = "s" + base64.b32encode(digest).decode().lower()[:17]
        self.write(f"{order_id}.{version}{again}.json", {
            "order_id": order_id, "version": version, "client_order_id": client_order_id, "instruction": verb,
            "symbol": "BTC-USD", "side": side, "order_type": order_type, "size": size, "price": price, "trigger": trigger,
            "time_in_force": tif, "reduce_only": reduces, "valid_until": None if valid_s is None else after(valid_s),
            "epoch": epoch, "line": str(self.line),
        })
        return client_order_id

    def answer(self):
        """Answers what lies in the inbox, in the order of the gate: by name is good enough here."""
        inbox = os.path.join(self.home, "spool", "in")
        for name in sorted(os.listdir(inbox)):
            if not self.is_answering or name.startswith("."):
                continue
            with open(os.path.join(inbox, name), "rb") as file:
                content = file.read()
            os.unlink(os.path.join(inbox, name))
            told = json.loads(content)
            code = self.refusals.pop(0) if self.refusals else self.key_code
            if code is None or code != "SIGNATURE_INVALID":
                self.check_signature(told, content)
            assert self.bytes.setdefault(told["id"], content) == content, "the same id with other bytes"
            take = {"venue.report": self.book, "venue.snapshot": self.take_snapshot, "market.update": self.take_market}
            code = code or take[told["action"]](told["payload"])
            answer = {"id": told["id"], "status": "success"}
            if code is not None:
                answer = {"id": told["id"], "status": "error", "error": {"code": code, "message": code}}
            if code == "SIGNATURE_INVALID":
                name = f"{name}.error.json"  # nobody knows yet whose id it is
            path = os.path.join(self.home, "spool", "out", name)
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.rename(path + ".tmp", path)

    @staticmethod
    def check_signature(told, content):
        payload = content.decode().split('"payload":', 1)[1].split(',"source":', 1)[0]
        message = f"{told['id']}|{told['timestamp']}|{told['action']}|{hashlib.sha256(payload.encode()).hexdigest()}"
        assert told["signature"] == hmac.new(bytes.fromhex(KEY["secret"]), message.encode(), "sha256").hexdigest()

    def book(self, report):
        order_id, exec_id = report["order_id"], report["exec_id"]
        if exec_id in self.exec_ids:
            return "REPORT_DUPLICATE"
        if exec_id in self.codes:
            self.refused.append(report)
            return self.codes[exec_id]
        filled = self.filled.get(order_id, Decimal(0)) + Decimal(report.get("last_qty", "0"))
        if filled != Decimal(report["cum_qty"]):
            self.refused.append(report)
            return "REPORT_OUT_OF_ORDER"
        self.exec_ids.add(exec_id)
        self.filled[order_id] = filled
        self.reports.append(report)
        return None

    def take_snapshot(self, snapshot):
        newest = self.reports[-1]["exec_id"] if self.reports else None
        if snapshot["after_exec"] != newest:
            return "SNAPSHOT_STALE"
        self.snapshots.append(snapshot)
        return None

    def take_market(self, payload):
        raise AssertionError("no feed was started")

    def told(self):
        """Returns the reports in short: (order, type, version or size, cum_qty)."""
        return [(r["order_id"], r["exec_type"], r.get("version", r.get("last_qty")), r["cum_qty"]) for r in self.reports]

    def alive(self):
        with open(os.path.join(self.outbox, ".alive"), encoding="utf-8") as file:
            return json.load(file)


class FakeVenue(MockVenue):
    """The exchange of the package, without a socket, and with faults.

    `faults` has lists of steps by operation. A step is None (as usual), "lost before" (the request never arrived), "lost
    after" (only the answer is lost), an exception to raise, or a function from the usual result to another.
    """

    poll_s = 0
    trades_s = 0

    def __init__(self, exchange):
        super().__init__("")
        self.exchange, self.faults, self.asked, self.always = exchange, {}, [], {}

    def ask(self, op, **members):
        self.asked.append((op, members))
        steps = self.faults.get(op, [])
        step = steps.pop(0) if steps else self.always.get(op)
        if step == "lost before":
            raise Unavailable("lost")
        if isinstance(step, Exception):
            raise step
        answer = json.loads(json.dumps(self.exchange.answer({"id": 1, "op": op, **members})))
        if step == "lost after":
            raise Unavailable("lost")
        if "error" in answer:
            raise Refused(answer["error"]["code"], answer["error"]["text"])
        return step(answer["ok"]) if step else answer["ok"]

    def placed(self):
        return [members for op, members in self.asked if op == "place"]


class Rig:
    """A gate, a venue at one price, and a bridge between them that is turned by hand."""

    def __init__(self, price="100", part=None, is_base_fee=False, balances=None):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # what is synced there costs nothing
        self.folder = tempfile.mkdtemp(prefix="spoolgate-bridge-", dir=memory)
        self.gate = Gate(os.path.join(self.folder, "home"))
        balances = balances or {"USD": Decimal(100000), "BTC": Decimal(10)}
        path = os.path.join(self.folder, "exchange.db")
        self.exchange = Exchange(path, [Decimal(price)], balances, part=part and Decimal(part), is_base_fee=is_base_fee)
        self.exchange.tick()
        self.venue = FakeVenue(self.exchange)
        self.bridge = None
        self.start()

    def start(self):
        """Starts the bridge, again if it ran."""
        if self.bridge is not None:
            self.bridge.journal.close()
        self.bridge = core.Bridge(self.gate.home, KEY, os.path.join(self.folder, "state"), self.venue)
        self.bridge.alive.write()
        self.bridge.outbox.finish(self.bridge.keep)

    def close(self):
        self.bridge.journal.close()
        self.exchange.db.close()
        shutil.rmtree(self.folder)

    def price(self, price):
        """The market moves."""
        self.exchange.prices = [Decimal(price)]
        self.exchange.tick()

    def turn(self, times=8):
        """Turns until nothing more can come, without the waits of a real bridge."""
        for _ in range(times):
            self.hurry()
            self.bridge.step()
            self.gate.answer()

    def hurry(self):
        bridge = self.bridge
        bridge.not_before = bridge.look_at = bridge.trades_at = 0.0
        bridge.retry_at.clear()
        drops = bridge.reports.spool.next_drop
        drops.update(dict.fromkeys(drops, 0.0))

    def open(self):
        return self.exchange.do_open_orders(None)
