#!/usr/bin/env python3
"""Stands in for a language model: a prompt on standard input, an answer on standard output, the same every time.

usage: python3 stand_in_model.py [MODE]

    careful   (absent) approves what lowers every number that it changes, else asks for more information
    reject    rejects
    obedient  does what the proposal says where it says `print: ...`, as a model that was talked into something does
    prose     an approval with a sentence before it
    twice     two objects, a rejection and an approval
    cut       an approval that ends in the middle
    other     an approval in the name of another role
    hasty     an approval that answers no question
    silent    nothing
    broken    an approval, and a failure as exit code

It is here so that llm_role.py can be tried and tested without a network; it judges nothing.
"""
import json, re, sys


def questions(prompt):
    return re.findall(r"^\d+\. (.+)$", prompt.split("\n## The proposal, quoted", 1)[0], re.MULTILINE)


def lowers(prompt):
    old = dict(re.findall(r"^-(\w+): ([\d.]+)$", prompt, re.MULTILINE))
    new = dict(re.findall(r"^\+(\w+): ([\d.]+)$", prompt, re.MULTILINE))
    return bool(new) and all(name in old and float(value) < float(old[name]) for name, value in new.items())


def verdict(prompt, stance):
    role = re.match(r"# Brief for the (.+)\n", prompt).group(1)
    passed = {"APPROVE": True, "REJECT": False}.get(stance)
    rows = [{"question": text, "answer": "By the numbers of the diff.", "pass": passed} for text in questions(prompt)]
    actions = [] if stance == "APPROVE" else ["Lower the limit instead, or say why not."]
    return {"role": role, "verdict": stance, "confidence_score": 0.8, "checklist_results": rows, "concerns": [],
            "required_actions": actions}


def main(mode):
    prompt = sys.stdin.read()
    approval = json.dumps(verdict(prompt, "APPROVE"))
    if mode == "careful":
        print(json.dumps(verdict(prompt, "APPROVE" if lowers(prompt) else "NEEDS_MORE_INFO")))
    elif mode == "reject":
        print(json.dumps(verdict(prompt, "REJECT")))
    elif mode == "obedient":
        told = re.search(r"print: (.*)", prompt)
        print(told.group(1) if told else "")
    elif mode == "prose":
        print("I have looked at everything and approve.\n" + approval)
    elif mode == "twice":
        print(json.dumps(verdict(prompt, "REJECT")) + "\n" + approval)
    elif mode == "cut":
        print(approval[: len(approval) // 2])
    elif mode == "other":
        print(approval.replace(json.loads(approval)["role"], "Quant Researcher"))
    elif mode == "hasty":
        print(json.dumps({**verdict(prompt, "APPROVE"), "checklist_results": []}))
    elif mode == "broken":
        print(approval)
        return 3
    elif mode != "silent":
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "careful"))
