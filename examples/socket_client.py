#!/usr/bin/env python3
"""Ask a gate over its Unix socket (`spoolgate watch --socket PATH`) with nothing but the Python standard library.

usage: python3 socket_client.py --socket PATH --key FILE [--as NAME] --action A [PAYLOAD|-]

FILE is what `spoolgate keys add NAME --out FILE` wrote, for a shared key (hmac-sha256). PAYLOAD is a JSON object as
text, or - for standard input; {} if it is not given. Prints the answer, one JSON object. Exit code 0: an answer came,
whatever it says; 2: none did.

A frame is a length (4 bytes, big endian), then so many bytes; requests and answers alike. One client at a time: others
are closed at once. As a module:

    with Client("/run/gate.sock") as gate:
        print(gate.ask(signed(key, "portfolio.get", "{}")))
"""
import argparse, datetime, hashlib, hmac, json, re, secrets, socket, struct, sys

ANSWER_BYTES_MAX = 64 << 20


def minified(text):
    # White space between tokens goes, all else stays as it was written: json.dumps(json.loads(text)) would change
    # numbers.
    json.loads(text)
    return re.sub(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', r"\1", text)


def signed(key, action, payload, name=None, request_id=None):
    """The envelope, as bytes; `key` is the content of a key file."""
    if key["algorithm"] != "hmac-sha256":
        raise ValueError(f"a key of {key['algorithm']} cannot be used here; take a shared one (hmac-sha256)")
    payload = minified(payload)
    request_id = request_id or secrets.token_hex(16)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = f"{request_id}|{now}|{action}|{hashlib.sha256(payload.encode()).hexdigest()}"
    signature = hmac.new(bytes.fromhex(key["secret"]), message.encode(), "sha256").hexdigest()
    text = json.dumps
    return (
        f'{{"id":{text(request_id)},"timestamp":{text(now)},"action":{text(action)},"payload":{payload},'
        f'"source":{text(name or key["principal"])},"signature":{text(signature)}}}'
    ).encode()


class Client:
    """A connection. Several requests may be sent before the first answer is read."""

    def __init__(self, path, timeout=60):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, request):
        self.socket.sendall(struct.pack(">I", len(request)) + request)

    def receive(self):
        (length,) = struct.unpack(">I", self._exactly(4))
        if length > ANSWER_BYTES_MAX:
            raise ValueError(f"the gate announces an answer of {length} bytes; is this a gate's socket?")
        return self._exactly(length)

    def ask(self, request):
        """The answer to one request, as bytes."""
        self.send(request)
        return self.receive()

    def _exactly(self, length):
        got = bytearray()
        while len(got) < length:
            more = self.socket.recv(min(length - len(got), 1 << 16))
            if not more:
                raise ConnectionError("the gate closed the connection; is another client connected?")
            got += more
        return bytes(got)


def main():
    parser = argparse.ArgumentParser(description="Ask a gate over its Unix socket.")
    parser.add_argument("--socket", required=True, metavar="PATH")
    parser.add_argument("--key", required=True, metavar="FILE")
    parser.add_argument("--as", dest="name", metavar="NAME", help="the principal; the key file's if not given")
    parser.add_argument("--action", required=True)
    parser.add_argument("payload", nargs="?", default="{}", help="a JSON object, or - for standard input")
    given = parser.parse_args()
    with open(given.key, encoding="utf-8") as file:
        key = json.load(file)
    payload = sys.stdin.buffer.read().decode("utf-8") if given.payload == "-" else given.payload
    request = signed(key, given.action, payload, given.name)
    with Client(given.socket) as gate:
        sys.stdout.write(gate.ask(request).decode("utf-8").rstrip("\n") + "\n")


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
