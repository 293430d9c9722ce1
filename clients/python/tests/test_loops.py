"""examples/loops: the plain loop with a model that is played, and the tools of each framework with the real package where it
is installed, else with a stand-in that has the same call."""

import asyncio
import importlib
import json
import os
import sys
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "src"), os.path.join(HERE, *[os.pardir] * 3, "examples/loops")]
from spoolgate import AsyncGate, tools  # noqa: E402
from test_client import REFUSAL, Case, done  # noqa: E402


class Recorded:
    """Takes what the real class takes, and keeps it."""

    def __init__(self, *given, **named):
        self.given, self.named = given, named


def stand_ins():
    """Modules in the place of packages, of which the loops use so much."""
    core = types.ModuleType("langchain_core.tools")
    core.StructuredTool = type(
        "StructuredTool", (Recorded,), {"invoke": lambda self, given: self.named["func"](**given)}
    )
    agents = types.ModuleType("agents")
    agents.FunctionTool = type(
        "FunctionTool", (Recorded,), {"on_invoke_tool": lambda self, *given: self.given[3](*given)}
    )
    agents.Agent = agents.Runner = Recorded
    sdk = types.ModuleType("claude_agent_sdk")
    sdk.ClaudeAgentOptions = sdk.create_sdk_mcp_server = sdk.query = Recorded
    sdk.tool = lambda name, description, schema: lambda handler: types.SimpleNamespace(
        name=name, input_schema=schema, handler=handler
    )
    parent = types.ModuleType("langchain_core")
    return {
        "langchain_core": {"langchain_core": parent, "langchain_core.tools": core},
        "agents": {"agents": agents},
        "claude_agent_sdk": {"claude_agent_sdk": sdk},
    }


class Loops(Case):
    def loaded(self, module, package):
        """The example, with the real package if it is installed."""
        missing = {}
        try:
            importlib.import_module(package)
        except ImportError:
            print(f"SKIPPED: the real `{package}`, which is not installed", file=sys.stderr)
            missing = stand_ins()[package]
        with mock.patch.dict(sys.modules, missing):
            sys.modules.pop(module, None)
            return importlib.import_module(module)

    def tool(self, gate, name):
        return next(tool for tool in tools(gate, ["trading"]) if tool["name"] == name)

    def test_the_plain_loop(self):
        said = iter(
            [
                {"call": {"name": "cancel_order", "arguments": '{"order_id":"o-1"}'}},
                {"call": {"name": "buy_everything", "arguments": {}}},
                {"text": "done"},
            ]
        )
        asked = []

        def model(given):
            asked.append(json.dumps(given))
            return next(said)

        with self.playing(lambda name, _: self.answer(name, REFUSAL)):
            self.assertEqual(importlib.import_module("plain").loop(model, self.gate(), "task"), "done")
        self.assertIn("refused, NOT_PERMITTED: no", asked[1])
        self.assertIn("there is no tool buy_everything", asked[2])
        self.assertEqual(len(self.taken), 1)

    def test_langgraph(self):
        loop = self.loaded("langgraph_loop", "langchain_core")
        with self.playing(lambda name, _: self.answer(name, done())):
            said = loop.of(self.tool(self.gate(), "market_data")).invoke({"symbol": "S"})
        self.assertIn('{"value": 1}', said)
        self.assertIn(b'"payload":{"symbol":"S"}', self.taken[0][1])

    def test_openai_agents(self):
        loop = self.loaded("openai_agents_loop", "agents")
        made = loop.of(self.tool(AsyncGate(self.home, key=self.key), "submit_order"))
        with self.playing(lambda name, _: self.answer(name, done())):
            said = asyncio.run(made.on_invoke_tool(mock.MagicMock(), '{"size":0.10}'))
        self.assertIn('{"value": 1}', said)
        self.assertIn(b'"payload":{"size":0.10}', self.taken[0][1])

    def test_claude_agent(self):
        loop = self.loaded("claude_agent_loop", "claude_agent_sdk")
        made = loop.of(self.tool(AsyncGate(self.home, key=self.key), "market_data"))
        with self.playing(lambda name, _: self.answer(name, done())):
            said = asyncio.run(made.handler({"symbol": "S"}))
        self.assertIn('{"value": 1}', said["content"][0]["text"])
        self.assertIn(b'"payload":{"symbol":"S"}', self.taken[0][1])


del Case  # its subclass is enough: unittest would run it once more

if __name__ == "__main__":
    unittest.main()
