#!/usr/bin/env python3
"""Sign a request with nothing but the Python standard library.

usage: python3 sign_request.py KEYFILE ACTION PAYLOAD.json|- [ID [CAUSALITY.json]]

KEYFILE is what `spoolgate keys add NAME --out KEYFILE` wrote, for a shared key (hmac-sha256): the standard library has
no Ed25519, sign_request.mjs has. PAYLOAD is a file with a JSON object, or - for standard input; ID is a random one if
it is not given. CAUSALITY is a file with a JSON object, signed along: which task asks and what caused it. Prints the
signed envelope; drop it into spool/in as <id>.json (write <id>.tmp, then rename it), or:

    echo '{}' | python3 sign_request.py bot.key portfolio.get - | spoolgate handle -
"""
import datetime, hashlib, hmac, json, re, secrets, sys


def minified(text):
    # White space between tokens goes, all else stays as it was written. json.dumps(json.loads(text)) would turn 0.10
    # into 0.1 and lose digits of long numbers: good for a signature, but no longer the order that somebody wrote.
    json.loads(text)
    return re.sub(r'("[^"\\]*(?:\\.[^"\\]*)*")|[ \t\r\n]+', r"\1", text)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def sign(key, action, payload, request_id, causality=None):
    payload = minified(payload)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = f"{request_id}|{now}|{action}|{sha256(payload)}"
    member = ""
    if causality is not None:
        causality = minified(causality)
        message += f"|{sha256(causality)}|-"
        member = f',"causality":{causality}'
    signature = hmac.new(bytes.fromhex(key["secret"]), message.encode(), "sha256").hexdigest()
    text = json.dumps
    return (
        f'{{"id":{text(request_id)},"timestamp":{text(now)},"action":{text(action)},"payload":{payload},'
        f'"source":{text(key["principal"])},"signature":{text(signature)}{member}}}\n'
    )


def main(arguments):
    if len(arguments) not in (3, 4, 5):
        raise ValueError(__doc__.split("\n\n")[1])
    key_file, action, payload_file = arguments[:3]
    request_id = arguments[3] if len(arguments) > 3 else secrets.token_hex(16)
    with open(key_file, encoding="utf-8") as file:
        key = json.load(file)
    if key["algorithm"] != "hmac-sha256":
        raise ValueError(f"{key_file} is an {key['algorithm']} key; sign_request.mjs can use it")
    if payload_file == "-":
        payload = sys.stdin.buffer.read()
    else:
        with open(payload_file, "rb") as file:
            payload = file.read()
    causality = None
    if len(arguments) > 4:
        with open(arguments[4], "rb") as file:
            causality = file.read().decode("utf-8")
    envelope = sign(key, action, payload.decode("utf-8"), request_id, causality)
    sys.stdout.buffer.write(envelope.encode())


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(error, file=sys.stderr)
        sys.exit(2)
