"""spoolgate-mcp driven by the official Python client of the newest protocol, in each way in which it connects. Run by .ci/mcp."""
import asyncio, sys

import jsonschema
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from homes import SERVER, Home, order

# How the client begins, and the resulting protocol version. `auto` asks for the newest and falls back to a handshake.
MODES = [("legacy", "2025-11-25"), ("auto", "2026-07-28"), ("2026-07-28", "2026-07-28")]


async def refused(awaitable, words):
    try:
        told = await awaitable
    except MCPError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"this was answered: {told}")


async def converse(home, mode, version):
    server = StdioServerParameters(command=SERVER, args=home.arguments("trend-bot", "--schemas"))
    async with Client(stdio_client(server), mode=mode) as client:
        assert client.protocol_version == version, client.protocol_version
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) >= 26 and "interrogate_cache_invalidate" in tools, sorted(tools)

        async def call(tool, **arguments):
            told = await client.call_tool(tool, arguments)
            jsonschema.Draft202012Validator(tools[tool].output_schema).validate(told.structured_content)
            return told

        held = (await call("portfolio")).structured_content
        assert held["data"]["Portfolio"]["cash"] == "5000", held
        # A refusal names a request that would pass, and that request passes.
        large = await call("submit_order", **order("0.3"))
        assert large.is_error and large.structured_content["refused"]["failed_checks"], large
        size = large.structured_content["refused"]["headroom"]["max_size"]
        small = await call("submit_order", request_id=f"newer-{mode}", **order(size))
        assert not small.is_error, small
        again = await call("submit_order", request_id=f"newer-{mode}", **order(size))
        assert again.structured_content == small.structured_content, again
        gone = await call("cancel_order", order_id=small.structured_content["data"]["Accepted"]["order_id"])
        assert gone.structured_content["status"] == "success", gone
        # Several calls at the same time.
        many = await asyncio.gather(*(call("market_data", symbol="BTC-USD") for _ in range(10)))
        assert {one.structured_content["status"] for one in many} == {"success"}, many
        await refused(client.call_tool("halt.clear", {}), "tool `halt.clear` does not exist")
        uris = {resource.uri for resource in (await client.list_resources()).resources}
        assert {"spoolgate:///rules/safety.yaml", "spoolgate:///audit/checkpoint"} <= uris, uris
        head = await client.read_resource("spoolgate:///audit/checkpoint")
        assert head.contents[0].text.count("\n") >= 3, head
        await refused(client.read_resource("spoolgate:///state/keyring.db"), "does not exist")


def main():
    with Home() as home:
        home.start()
        for mode, version in MODES:
            asyncio.run(asyncio.wait_for(converse(home, mode, version), 120))
            print(f"ok: the newer client, {mode}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
