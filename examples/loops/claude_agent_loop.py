#!/usr/bin/env python3
"""A gate's tools in the Claude Agent SDK, and no others.

usage: python3 claude_agent_loop.py HOME KEYFILE TASK

Needs `pip install claude-agent-sdk ./clients/python` and the provider's key in the environment.
"""

import asyncio, sys

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool as sdk_tool
from spoolgate import AsyncGate, tools


def of(tool):
    async def handle(arguments):
        return {"content": [{"type": "text", "text": await tool["call"](arguments)}]}

    return sdk_tool(tool["name"], tool["description"], tool["input_schema"])(handle)


async def main(home, key, task):
    server = create_sdk_mcp_server("gate", tools=[of(tool) for tool in tools(AsyncGate(home, key=key), ["trading"])])
    options = ClaudeAgentOptions(mcp_servers={"gate": server}, allowed_tools=["mcp__gate"], tools=[])
    async for message in query(prompt=task, options=options):
        print(message)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
