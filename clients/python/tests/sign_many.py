"""Signs each line of standard input, a JSON object {payload, causality?}, twice: as text, and as values. For tests.

usage: python3 sign_many.py KEYFILE
"""

import json, os, sys
from decimal import Decimal

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "src"))
from spoolgate import Key, sign

key = Key(sys.argv[1])
for line in sys.stdin.buffer:
    row = json.loads(line)
    values = json.loads(row["payload"], parse_float=Decimal)
    for payload in (row["payload"], values):
        sys.stdout.buffer.write(sign(key, "order.submit", payload, causality=row.get("causality")).bytes + b"\n")
