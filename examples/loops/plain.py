#!/usr/bin/env python3
"""A model and a gate in a plain loop: the model calls tools until it has an answer.

usage: python3 plain.py HOME KEYFILE TASK MODEL [ARGUMENT ...]

MODEL is a command. It gets {"messages":[..],"tools":[..]} as JSON on standard input, and writes {"call":{"name","arguments"}} or
{"text"}. The gate checks each call; what it refuses goes back to the model as text. Needs `pip install ./clients/python`.
"""

import json, subprocess, sys

from spoolgate import Gate, tools

TURNS_MAX = 10


def loop(model, gate, task, groups=("trading",)):
    offered = {tool["name"]: tool for tool in tools(gate, groups)}
    shown = [{name: tool[name] for name in ("name", "description", "input_schema")} for tool in offered.values()]
    messages = [{"role": "user", "text": task}]
    for _ in range(TURNS_MAX):
        said = model({"messages": messages, "tools": shown})
        if "call" not in said:
            return said["text"]
        name, arguments = said["call"]["name"], said["call"]["arguments"]
        result = offered[name]["call"](arguments) if name in offered else f"there is no tool {name}"
        messages += [{"role": "model", **said}, {"role": "tool", "name": name, "text": result}]
    return f"no answer within {TURNS_MAX} turns"


def command(arguments):
    return lambda asked: json.loads(
        subprocess.run(arguments, input=json.dumps(asked), capture_output=True, text=True, check=True).stdout
    )


if __name__ == "__main__":
    home, key, task, *model = sys.argv[1:]
    print(loop(command(model), Gate(home, key=key), task))
