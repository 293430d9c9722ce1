#!/usr/bin/env python3
"""A policy command of admission in Python, standard library only: a domain on standard input, a profile on standard output.

It reads profiles that somebody else keeps, one JSON file a domain: DIR/<tenant>/<surface>/<profile>.json. A domain without
a file ends with an error, and nothing is admitted there; a profile that could only be guessed must never be written.

In rules/admission/<tenant>/<surface>/<profile>.yaml:
    policy_command: {program: examples/admission/policy.py, args: ["/srv/policies"], time_limit_s: 10, output_bytes_max: 65536, read: ["/srv/policies"]}
    cache_ttl_seconds: 300
"""

import argparse
import json
import sys
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="where the profiles are")
    root = parser.parse_args().dir

    domain = json.load(sys.stdin)
    # The gate has checked that the names are plain ones, without a slash or a leading dot.
    path = root / domain["tenant_id"] / domain["surface_id"] / (domain["policy_profile_id"] + ".json")
    try:
        profile = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        sys.exit(f"{path.name}: {error}")
    json.dump(profile, sys.stdout)


if __name__ == "__main__":
    main()
