#!/usr/bin/env python3
"""A gate's tools in an agent of the OpenAI Agents SDK.

usage: python3 openai_agents_loop.py HOME KEYFILE TASK

Needs `pip install openai-agents ./clients/python` and the provider's key in the environment.
"""

import sys

from agents import Agent, FunctionTool, Runner
from spoolgate import AsyncGate, tools


def of(tool):
    async def invoke(_, arguments):  # JSON text, of which every digit is kept
        return await tool["call"](arguments)

    schema = tool["input_schema"]
    return FunctionTool(tool["name"], tool["description"], schema, invoke, strict_json_schema=False)


if __name__ == "__main__":
    home, key, task = sys.argv[1:]
    agent = Agent(name="trader", tools=[of(tool) for tool in tools(AsyncGate(home, key=key), ["trading"])])
    print(Runner.run_sync(agent, task).final_output)
