"""Scratch homes with a running gate, and clients of spoolgate-mcp: the official SDK's, and one that writes lines itself."""
import contextlib, json, os, pathlib, signal, subprocess, tempfile

from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["SPOOLGATE_BIN"])
GATE, SERVER = str(BIN / "spoolgate"), str(BIN / "spoolgate-mcp")
OUTGOING = ("email.fetch email.send email.draft calendar.fetch calendar.create calendar.update "
            "finance.fetch_transactions health.fetch service.api_call").split()
# The adapter answers with its whole task, so a test sees what reached it.
ECHO = """printf '{"success":true,"data":'; cat; printf '}'"""
# The output of all servers; at the end it is searched for keys.
WRITTEN = []

SERVICES = """services:
  - {service: mail, host: smtp.example.com, port: 465, protocol: smtp, actions: [email.fetch, email.send, email.draft, calendar.fetch, calendar.create, calendar.update, finance.fetch_transactions, health.fetch], added_at: "2026-01-01T00:00:00Z", added_by: owner, is_active: true}
  - {service: bank, host: api.bank.example, protocol: https, methods: [GET, POST], added_at: "2026-01-01T00:00:00Z", added_by: owner, is_active: true}
"""


class Home:
    """A home with prices that end now, where trend-bot may do what agents can, and own-bot has a spool of its own."""

    def __init__(self, prices=True, safety=""):
        self.folder = tempfile.TemporaryDirectory(prefix="spoolgate-mcp-")
        self.path = pathlib.Path(self.folder.name) / "home"
        self.gate = None
        self.run("init", str(self.path))
        rules = self.path / "rules"
        (rules / "gateway.yaml").write_text(json.dumps({"rates": {"per_hour": {"health.fetch": 3}}, "adapters": [{
            "actions": OUTGOING, "adapter": "exec",
            "command": {"program": "sh", "args": ["-c", ECHO], "time_limit_s": 20, "output_bytes_max": 65536}}]}))
        (rules / "services.yaml").write_text(SERVICES)
        with open(rules / "safety.yaml", "a") as file:
            file.write(safety)
        principals = (rules / "principals.yaml").read_text()
        mine = ("  - name: trend-bot\n    actions: [" + ", ".join(OUTGOING) + "]\n"
                "    admission: {domains: [{tenant: research, surface: agents, profile: default}], roots_per_hour: 20}\n"
                '    control: {concerns: ["paper:btc-usd"], override: false}\n')
        own = "  - name: own-bot\n    role: agent\n    spool: own-bot\n    strategies: [range]\n    council_roles: [Risk Officer]\n"
        assert "  - name: trend-bot\n" in principals
        (rules / "principals.yaml").write_text(principals.replace("  - name: trend-bot\n", mine, 1) + own)
        self.keys = {}
        for name in ["trend-bot", "own-bot", "research-bot", "risk-officer", "code-auditor", "integration-engineer"]:
            key = self.beside(f"{name}.key")
            self.run("keys", "add", name, "--out", str(key))
            self.keys[name] = key
        self.run("account", "deposit", "5000", "--reason", "opening balance")
        if prices:
            for kind in ["trade", "quote"]:
                file = ROOT / f"examples/market/lean-coinbase-minute-btcusd_20180405_{kind}.zip"
                self.run("market", "import", str(file), "--symbol", "BTC-USD", "--end-now")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.folder.cleanup()

    def beside(self, name):
        return pathlib.Path(self.folder.name) / name

    def run(self, *args):
        done = subprocess.run([GATE, "--home", str(self.path), *args], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        return done.stdout

    def start(self, *args):
        log = open(self.beside("gate.log"), "ab")
        self.gate = subprocess.Popen([GATE, "--home", str(self.path), "watch", *args], stdout=log, stderr=log)
        log.close()
        return self

    def stop(self):
        if self.gate is not None:
            self.gate.send_signal(signal.SIGTERM)
            try:
                self.gate.wait(30)
            except subprocess.TimeoutExpired:
                self.gate.kill()
                self.gate.wait()
            self.gate = None

    def secrets(self):
        return [json.loads(key.read_text())["secret"] for key in self.keys.values()]

    def ledger(self):
        return b"".join(path.read_bytes() for path in sorted((self.path / "audit").glob("log-*.jsonl")))

    def judged(self):
        """How many answers in the spool were valid by the schemas that are shipped, by action; one that is not is an error."""
        schemas = {}

        def check(name, value):
            if name not in schemas:
                schemas[name] = Draft202012Validator(json.loads((ROOT / f"examples/schemas/{name}.json").read_text()))
            faults = [f"{fault.json_path}: {fault.message}" for fault in schemas[name].iter_errors(value)]
            assert not faults, (name, value, faults)

        lines = [json.loads(line) for line in self.ledger().splitlines()]
        actions = {line["id"]: line["action"] for line in lines if "action" in line and "id" in line}
        counts = {}
        for path in (self.path / "spool/out").rglob("*.json"):
            answer = json.loads(path.read_text())
            if "auditRef" in answer:
                check("answer", answer)
                action = actions.get(answer["auditRef"])
                if action is not None and "data" in answer:
                    check(f"{action}.answer", answer["data"])
                    counts[action] = counts.get(action, 0) + 1
        return counts

    def arguments(self, name, *more):
        wait = [] if "--wait" in more else ["--wait", "30"]
        return ["--home", str(self.path), "--as", name, "--key", str(self.keys[name]), *wait, *more]

    @contextlib.asynccontextmanager
    async def session(self, name="trend-bot", *more):
        """A session of the official client, with everything that it is told recorded."""
        errors = open(self.beside("server.err"), "ab+")
        server = StdioServerParameters(command=SERVER, args=self.arguments(name, *more))
        try:
            async with stdio_client(server, errlog=errors) as (read, write), ClientSession(read, write) as session:
                await session.initialize()
                # The client checks results against the schemas of this list.
                listed = (await session.list_tools()).tools
                yield Caller(session, {tool.name: Draft202012Validator(tool.inputSchema) for tool in listed})
        finally:
            errors.seek(0)
            WRITTEN.append(errors.read())
            errors.close()


class Caller:
    """Calls tools and takes the results apart; every result is checked against the schemas."""

    def __init__(self, session, schemas):
        self.session, self.schemas = session, schemas

    async def __call__(self, tool, /, **arguments):
        CALLED.add(tool)
        result = await self.session.call_tool(tool, arguments)
        told = result.structuredContent
        WRITTEN.append(json.dumps(told).encode())
        assert isinstance(told, dict), result
        # A client without structured content reads words and the same data, in one text.
        assert len(result.content) == 1, result
        text = result.content[0].text
        words, _, data = text.partition("\n\n")
        assert "carried out" not in words, text
        assert not result.isError or len(text.encode()) <= 1500, text
        if data:
            assert json.loads(data) == told.get("data", told.get("would_be", {}).get("data")), text
        else:
            assert "data" not in told or result.isError, text
        if told["status"] == "success":
            # The schema permits whatever the gate accepts.
            self.schemas[tool].validate(arguments)
        assert result.isError == (told["status"] not in ("success", "requires_approval", "open")), told
        return Told(told, text, result.isError)


class Told(dict):
    """The structure of a result, with its text; `said` is the first line of that."""

    def __init__(self, told, text, is_error):
        super().__init__(told)
        self.text, self.is_error = text, is_error
        self.said = text.partition("\n")[0]


CALLED = set()


class Lines:
    """A client that writes the lines it likes."""

    def __init__(self, home, *more, name="trend-bot"):
        self.process = subprocess.Popen(
            [SERVER, *home.arguments(name, *more)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        WRITTEN.extend([self.process.stdout.read(), self.process.stderr.read()])
        self.process.stdout.close()
        self.process.stderr.close()
        self.process.wait(60)

    def say(self, line):
        line = line if isinstance(line, (str, bytes)) else json.dumps(line)
        self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")
        self.process.stdin.flush()

    def hear(self):
        line = self.process.stdout.readline()
        WRITTEN.append(line)
        assert line, "the server ended"
        return line.decode()

    def ask(self, line):
        self.say(line)
        return json.loads(self.hear())

    def handshake(self, version="2025-06-18"):
        answer = self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"}}})
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool, arguments, id=1, meta=None):
        """A call whose arguments are text; the answer is a line."""
        more = "" if meta is None else f',"_meta":{json.dumps(meta)}'
        self.say(f'{{"jsonrpc":"2.0","id":{json.dumps(id)},"method":"tools/call",'
                 f'"params":{{"name":"{tool}","arguments":{arguments}{more}}}}}')
        return self.hear()


def order(size, **more):
    return {"strategy": "trend", "symbol": "BTC-USD", "side": "buy", "size": size, "order_type": "limit", "price": 6760,
            "stop_price": 6600, "thesis_slug": "btc-range-long", "planned_entry": 6760, "planned_stop": 6600, **more}
