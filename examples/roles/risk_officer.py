#!/usr/bin/env python3
"""A council role in Python, standard library only: the brief on standard input, a RoleVerdict on standard output.

It reads the figures out of the quoted proposal and holds them against limits of its own. Whatever else the proposal
says is quoted evidence and not obeyed.

In council/roles.yaml, at the role it answers for:
    command: {program: roles/risk_officer.py, args: ["--max-drawdown", "10"], time_limit_s: 60, output_bytes_max: 65536}
"""

import argparse
import json
import re
import sys
from decimal import Decimal


def proposal(brief):
    """The quoted proposal: the JSON in the first fence of the section with that name."""
    section = brief.split("## The proposal, quoted", 1)[1]
    fence = re.search(r"^(`{3,})json$", section, re.MULTILINE)
    text = section[fence.end():].split("\n" + fence.group(1), 1)[0]
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-drawdown", type=Decimal, default=Decimal(10), help="percent")
    limit = parser.parse_args().max_drawdown

    metrics = proposal(sys.stdin.read())["context"]["key_metrics"]
    drawdown = metrics.get("max_dd")
    verdict = {
        "role": "Risk Officer",
        "verdict": "NEEDS_MORE_INFO",
        "confidence_score": 0.9,
        "checklist_results": [],
        "concerns": [],
        "required_actions": [],
    }
    question = f"Is the drawdown within {limit} %?"
    if not isinstance(drawdown, Decimal):
        row = {"question": question, "answer": "max_dd is not stated as a number", "pass": None}
        verdict["required_actions"].append("State max_dd in percent.")
    else:
        within = abs(drawdown) <= limit
        row = {"question": question, "answer": f"{abs(drawdown)} % against {limit} %", "pass": within}
        verdict["verdict"] = "APPROVE" if within else "REJECT"
        if not within:
            verdict["concerns"].append(f"A drawdown of {abs(drawdown)} % is beyond the limit of {limit} %")
            verdict["required_actions"].append("Run the strategy at a smaller size.")
    verdict["checklist_results"].append(row)
    json.dump(verdict, sys.stdout)
    print()


if __name__ == "__main__":
    main()
