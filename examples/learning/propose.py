#!/usr/bin/env python3
"""Proposes changes of an agent's own rules from what these rules were worth, with the client of clients/python.

usage: spoolgate --home HOME --format json rules efficacy | python3 propose.py HOME KEYFILE RULE.json... [--events N]

Run by run.sh beside it. The figures come from the operator's pipeline: computing them replays the ledger from its first
line, and no request of an agent does that. RULE.json are the rules that this agent has proposed, as it proposed them; the
figures of other rules are passed over. The agent proposes:

    a rule on trial in shadow that saved      to bring it into force: a tightening, which the gate proves and applies by itself
    a rule in force, or on trial, that cost   to suspend it: that waits for an approver

A verdict is enough: VALIDATED, HARMFUL or DEGRADING. With --events N, the sign of the effect is, if at least N events have
closed; the summary of the evidence then says that there was no verdict. The gate judges a proposal by the rules and not by
its figures, so wrong figures loosen nothing.
Exit code 0: everything was proposed, or there was nothing to propose; 1: a proposal was refused; 2: no gate, key or figures.
"""
import argparse, json, os, sys
from decimal import Decimal

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../clients/python/src"))
from spoolgate import Gate, GateError, Refused


def judged(figures, least):
    """Whether the rule saved (True) or cost (False), and how that is known; None if the figures do not say."""
    verdict = figures["verdict"]
    if verdict == "VALIDATED":
        return True, verdict
    if verdict in ("HARMFUL", "DEGRADING"):
        return False, verdict
    effect = Decimal(figures["effect"] or 0)
    if least is None or figures["events"]["closed"] < least or effect == 0:
        return None
    return effect > 0, "no verdict yet"


def proposal(rule, figures, least):
    """The payload of `rule.propose` for one rule; None if it may stay as it is."""
    found = judged(figures, least)
    if found is None:
        return None
    saved, how = found
    events = figures["events"]
    evidence = {
        "summary": f"effect {figures['effect']} R over {events['closed']} closed events on {figures['day_count']} days, {how}",
        "sample_size": events["closed"],
        "ledger_seqs": [],
    }
    if saved and figures["status"] == "shadow":
        return {"Activate": {"rule": {**rule, "status": "active"}, "evidence": evidence}}
    if not saved and figures["status"] in ("active", "shadow"):
        return {"Suspend": {"rule_id": rule["id"], "reason": "it cost more than it saved", "evidence": evidence}}
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home")
    parser.add_argument("keyfile")
    parser.add_argument("rules", nargs="+", metavar="RULE.json")
    parser.add_argument("--events", type=int, metavar="N")
    told = parser.parse_args()
    gate = Gate(told.home, key=told.keyfile)
    figures = {rule["rule"]: rule for rule in json.load(sys.stdin)["rules"]}
    refused = False
    for path in told.rules:
        with open(path, encoding="utf-8") as file:
            rule = json.load(file, parse_float=Decimal)
        payload = proposal(rule, figures[rule["id"]], told.events) if rule["id"] in figures else None
        if payload is None:
            print(f"{rule['id']}: stays as it is")
            continue
        kind = next(iter(payload))
        try:
            done = gate.ask("rule.propose", payload)
            became = "applied by its proof" if done["auto_approved"] else "waits for an approver"
            print(f"{rule['id']}: {kind}, {payload[kind]['evidence']['summary']}: {done['proposal_id']} {became}")
        except Refused as fault:
            print(f"{rule['id']}: {kind} refused: {fault}")
            refused = True
    return 1 if refused else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, TypeError, GateError) as error:
        print(f"propose: {error}", file=sys.stderr)
        sys.exit(2)
