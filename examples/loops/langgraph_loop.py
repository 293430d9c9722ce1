#!/usr/bin/env python3
"""A gate's tools in a LangGraph agent.

usage: python3 langgraph_loop.py HOME KEYFILE MODEL TASK    (MODEL as `init_chat_model` takes it)

Needs `pip install langgraph langchain ./clients/python` and the key of the model's provider in the environment.
"""

import sys

from langchain_core.tools import StructuredTool
from spoolgate import Gate, tools


def of(tool):
    call = lambda **arguments: tool["call"](arguments)
    return StructuredTool(
        name=tool["name"], description=tool["description"], args_schema=tool["input_schema"], func=call
    )


if __name__ == "__main__":
    from langchain.agents import create_agent

    home, key, model, task = sys.argv[1:]
    agent = create_agent(model, [of(tool) for tool in tools(Gate(home, key=key), ["trading"])])
    print(agent.invoke({"messages": [("user", task)]})["messages"][-1].content)
