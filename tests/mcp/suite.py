"""spoolgate-mcp driven by the official Python client against real gates on scratch homes. Run by .ci/mcp."""
import asyncio, json, os, re, shutil, subprocess, sys, time, traceback
from decimal import ROUND_CEILING, Decimal

from jsonschema import Draft202012Validator
from mcp.shared.exceptions import McpError

import homes
from homes import OUTGOING, SERVER, CALLED, WRITTEN, Home, Lines, order

TOOLS = {
    "submit_order", "cancel_order", "tighten_stop", "portfolio", "orders", "fills", "market_data", "propose_rule",
    "apply_control_decision", "list_strategies", "get_strategy", "council_request", "council_verdict", "council_decision",
    "interrogate_health", "interrogate_evaluate", "interrogate_admit", "interrogate_check", "interrogate_cache_clear",
    "interrogate_cache_invalidate", "interrogate_settle", "submit_action", "check", "explain",
    "halt", "heartbeat", "rule_fields", "list_instruments", "list_theses", "list_cases", "list_proposals", "list_rules",
}
NEVER = ["approv", "deny", "decline", "revert", "override", "reload", "halt_", "keys", "service_", "grant", "account"]
SINCE = {"since": "2018-01-01T00:00:00Z"}


def known(tools):
    """Names of these tools, each with whether it is a query, but for queries that no test here knows."""
    return {name for name, is_query in tools if name in TOOLS or not is_query}


async def tools_are_these_and_no_others(home):
    async with home.session() as call:
        listed = (await call.session.list_tools()).tools
        assert known((tool.name, tool.annotations.readOnlyHint) for tool in listed) == TOOLS
        for tool in listed:
            assert tool.annotations.readOnlyHint or not any(word in tool.name for word in NEVER), tool.name
            assert re.fullmatch("[a-z_]{1,64}", tool.name), tool.name
            assert tool.outputSchema is None, tool.name
            Draft202012Validator.check_schema(tool.inputSchema)
            assert tool.inputSchema["type"] == "object", tool.name
        # Names with dots are called and not listed.
        health = await call.session.call_tool("interrogate.health", {})
        assert health.structuredContent["status"] == "success", health
        # No other name can be called.
        for name in ["halt.clear", "approval.grant", "submit_orders", "", "../explain"]:
            try:
                await call.session.call_tool(name, {})
            except McpError as error:
                assert "does not exist" in str(error), error
            else:
                raise AssertionError(f"`{name}` was called")
        for action in ["halt.clear", "approval.grant", "keys.add", "services.add", "order.submit"]:
            told = await call("submit_action", action=action, payload={})
            assert told["status"] == "not_sent" and "`action` must be one of" in told["refused"]["message"], told


async def the_contracts_names_are_listed_on_request(home):
    async with home.session("trend-bot", "--names", "contract", "--schemas", "--allow", "admission", "--allow", "orders") as call:
        listed = (await call.session.list_tools()).tools
        names = {tool.name for tool in listed}
        assert {"interrogate.check", "interrogate.cache_invalidate", "orders", "halt", "explain"} <= names, names
        assert "interrogate_check" not in names and "portfolio" not in names, names
        for tool in listed:
            Draft202012Validator.check_schema(tool.outputSchema)
        assert (await call("interrogate.health"))["status"] == "success"
        assert (await call.session.call_tool("interrogate_health", {})).structuredContent["status"] == "success"
        wrapped = await call.session.call_tool("halt", {"payload": {"strategy": "nope", "reason": "a look"}})
        assert "is not its own" in wrapped.structuredContent["refused"]["message"], wrapped


async def looking(home):
    async with home.session() as call:
        assert (await call("portfolio"))["data"]["Portfolio"]["cash"] == "5000"
        assert "Orders" in (await call("orders"))["data"]
        assert "Fills" in (await call("fills", **SINCE))["data"]
        assert "BTC-USD" in json.dumps(await call("market_data", symbol="BTC-USD"))
        told = await call("market_data", symbol="NO-SUCH")
        assert told["refused"]["code"] == "NOT_FOUND" and told.is_error
        assert "there are: `BTC-USD`" in told.text and "`list_instruments` lists all" in told.text, told.text
        told = await call("get_strategy", strategy_id="trnd")
        assert "there are: `trend`" in told.text and "`list_strategies` lists all" in told.text, told.text
        told = await call("submit_order", **order(0.01, thesis_slug="btc-rnge-long"))
        assert "there are: `btc-range-long`" in told.text, told.text
        strategies = (await call("list_strategies"))["data"]["Strategies"]
        assert {row["name"] for row in strategies} >= {"trend", "range"}
        assert (await call("get_strategy", strategy_id="trend"))["data"]["Strategy"]["status"] == "active"


async def a_model_corrects_itself(home):
    async with home.session() as call:
        size, sent = 0.3, []
        for attempt in range(4):
            told = await call("submit_order", **order(size))
            sent.append(told)
            if told["status"] == "success":
                break
            refused = told["refused"]
            assert refused["code"] == "CHECKS_FAILED" and refused["failed_checks"], told
            row = refused["failed_checks"][0]
            assert float(row["measured"]) > float(row["limit"]) and row["message"], row
            assert row["check"] in told.text and refused["headroom"]["max_size"] in told.text
            size = refused["headroom"]["max_size"]
        assert len(sent) == 2, sent
        accepted = sent[1]["data"]["Accepted"]
        # The decision, its reasons and remedies, and the present state of the order.
        why = await call("explain", request_id=sent[0]["request_id"])
        assert why["decision"] == "error" and why["refused"] == sent[0]["refused"], why
        assert any(f"at most {size}" in need for need in why["needs"]), why
        assert "max_order_value" in why.text and why["audit_ref"] == sent[0]["audit_ref"]
        so = await call("explain", request_id=sent[1]["request_id"])
        assert so["order"]["order_id"] == accepted["order_id"]
        assert {row["order_id"] for row in so["order"]["open"]} >= {accepted["order_id"]}
        assert "is working" in so.text, so.text
        id = accepted["order_id"]
        assert sent[1].said.startswith(f"accepted: {id} buy "), sent[1].said
        assert "BTC-USD limit 6760 is working, nothing filled yet" in sent[1].said, sent[1].said
        assert "stop 6600 armed for fills (line " in sent[1].said, sent[1].said
        stop = next(row["order_id"] for row in so["order"]["open"] if row["role"] == "protective")
        told = await call("tighten_stop", order_id=stop, new_stop="6610.50")
        assert told["status"] == "success" and told.said.startswith(f"tightened the stop of {stop} to 6610.5"), told.said
        again = await call("tighten_stop", order_id=stop, new_stop="6610.50")
        assert again.said.startswith("nothing to do: the stop is already at this price"), again.said
        loosened = await call("tighten_stop", order_id=stop, new_stop=6000)
        assert loosened["status"] == "error" and loosened["refused"]["failed_checks"], loosened
        cancelled = await call("cancel_order", order_id=id)
        assert cancelled["status"] == "success" and cancelled.said.startswith(f"cancelled {id}"), cancelled.said
        again = await call("cancel_order", order_id=id)
        assert again.said.startswith(f"nothing to do: {id} was cancelled before"), again.said
        gone = await call("explain", request_id=sent[1]["request_id"])
        assert f"order {id} was cancelled before" in gone.text, gone.text
        nothing = await call("explain", request_id="never-sent")
        assert nothing["status"] == "open" and "has no answer here" in nothing.text


async def checking_does_nothing(home):
    async with home.session() as call:
        large = await call("check", action="order.submit", payload=order(0.3))
        if large.get("refused", {}).get("code") == "UNKNOWN_ACTION":
            return "skipped: this gate does not know request.check"
        assert large["status"] == "success" and large["would_be"]["status"] == "error", large
        assert large["would_be"]["refused"]["headroom"]["max_size"] in large.text
        small = await call("check", action="order.submit", payload=order("0.01"))
        assert small["would_be"]["status"] == "success"
        assert small.said.startswith("dry run: would be accepted; nothing was reserved"), small.said
        assert large.said.startswith("dry run: would be refused: CHECKS_FAILED"), large.said
        wrong = await call("check", action="order.submit", payload=order(-1))
        assert wrong["refused"]["code"] == "MALFORMED_PAYLOAD", wrong
        assert (await call("orders"))["data"]["Orders"] == []
        other = await call("check", action="halt.clear", payload={})
        assert other["status"] == "not_sent"


async def the_same_id_is_done_once(home):
    async with home.session() as call:
        first = await call("submit_order", request_id="once", **order(0.01))
        again = await call("submit_order", request_id="once", **order(0.01))
        assert first["status"] == "success" and first["request_id"] == "once"
        assert (again["audit_ref"], again["data"]) == (first["audit_ref"], first["data"])
        other = await call("submit_order", request_id="once", **order(0.02))
        assert other["refused"]["code"] == "REQUEST_ID_CONFLICT", other
        assert sum(row["role"] == "entry" for row in (await call("orders"))["data"]["Orders"]) == 1
        # A refusal under the same id does not replace the accepted request.
        assert (await call("submit_order", request_id="once", **order(0.01)))["data"] == first["data"]
    # Another run of the program signs afresh. The gate refuses that; the earlier answer is shown beside the refusal.
    async with home.session() as call:
        anew = await call("submit_order", request_id="once", **order(0.01))
        assert (anew["status"], anew["refused"]["code"]) == ("error", "REQUEST_ID_CONFLICT"), anew
        assert anew["earlier"]["audit_ref"] == first["audit_ref"] and anew["earlier"]["status"] == "success", anew
        assert "it may be done already" in anew.text and "the result under this id" in anew.text, anew.text
        assert sum(row["role"] == "entry" for row in (await call("orders"))["data"]["Orders"]) == 1
        await call("cancel_order", order_id=first["data"]["Accepted"]["order_id"])


async def actions_that_leave_the_machine(home):
    mail = {"to": ["ann@example.com"], "subject": "hello", "body": "a word"}
    async with home.session() as call:
        told = await call("submit_action", action="email.send", payload=mail)
        assert told["status"] == "success" and told["data"]["payload"]["to"] == mail["to"], told
        wrong = await call("submit_action", action="email.send", payload={**mail, "bcc": ["x@example.com"]})
        assert wrong["refused"]["code"] == "MALFORMED_PAYLOAD" and wrong["status"] == "not_sent"
        stranger = await call("submit_action", action="service.api_call",
                              payload={"service": "nobody", "endpoint": "/x", "method": "GET"})
        assert stranger["refused"]["code"] == "NOT_ALLOWLISTED", stranger
        # Larger than what passes without approval: it is held, not refused.
        held = await call("submit_action", action="email.draft", payload={**mail, "body": "x" * 1_000_001})
        assert held["status"] == "requires_approval" and not held.is_error and "person" in held.text, held
        assert held["refused"]["code"] == "HELD"
        name, until = held["data"]["Held"]["hold_id"], held["data"]["Held"]["expires_at"]
        assert held.said.startswith(f"held as {name} by anomaly "), held.said
        assert f"until {until}: a person decides" in held.said, held.said
        # Rows that passed in silence are counted and not listed.
        assert all("reason" in row or not row["passed"] for row in held["data"]["Held"]["remarks"]), held


async def answers_are_valid_by_the_shipped_schemas(home):
    counts = home.judged()
    assert sum(counts.values()) > 40 and len(counts) > 15, counts


async def rates_say_when_to_come_again(home):
    async with home.session() as call:
        told = [await call("submit_action", action="health.fetch", payload={"dataType": "steps"}) for _ in range(4)]
        # The home allows three an hour.
        assert [one["status"] for one in told] == ["success"] * 3 + ["rate_limited"], told
        assert 0 < told[3]["retry_after_ms"] <= 3_601_000 and told[3].is_error, told
        assert str(told[3]["retry_after_ms"]) in told[3].text, told[3].text


async def controlling(home):
    decision = {"decision_id": "d-1", "concern_id": "paper:btc-usd", "account_id": "paper", "market_symbol": "btc-usd",
                "action": "pause", "expected_active_strategy_id": "trend", "reason": "a look", "confidence": 0.7}
    async with home.session() as call:
        dry = await call("apply_control_decision", **{**decision, "dry_run": True, "decision_id": "d-0"})
        assert dry["status"] == "success" and dry.said.startswith("dry run: would pause trend"), dry.said
        applied = await call("apply_control_decision", **decision)
        assert applied["data"]["status"] == "applied" and applied.said.startswith("paused trend"), applied.said
        refused = await call("submit_order", **order(0.01))
        assert any(row["check"] == "strategy_active" for row in refused["refused"]["failed_checks"]), refused
        wrong = await call("apply_control_decision", **{**decision, "decision_id": "d-2", "action": "keep"})
        assert wrong.is_error and wrong["data"]["errors"], wrong
        resumed = await call("apply_control_decision", **{
            **decision, "decision_id": "d-3", "action": "resume", "expected_active_strategy_id": None})
        assert resumed["data"]["status"] == "applied" and resumed.said.startswith("resumed trend"), resumed.said
        idle = await call("apply_control_decision", **{
            **decision, "decision_id": "d-4", "action": "resume", "expected_active_strategy_id": "trend"})
        assert idle["data"]["status"] == "noop" and idle.said.startswith("nothing to do: trend is active"), idle.said


async def proposing(home):
    evidence = {"summary": "sizes were too large", "sample_size": 3, "ledger_seqs": [1, 2]}
    rule = {"id": "small-orders", "status": "active",
            "applies_to": {"action": "order.submit", "principal": ["trend-bot"]},
            "when": [{"field": "order.size", "op": "gt", "value": "5"}], "then": "reject", "message": "{order.size}"}
    async with home.session() as call:
        told = await call("propose_rule", request_id="p-1", Activate={"rule": rule, "evidence": evidence})
        assert told["status"] == "success", told
        proposal = told["data"]["ProposalAcknowledged"]
        assert proposal["auto_approved"] and told.said.startswith("in force: small-orders"), told.said
        listed = (await call("list_proposals"))["data"]["Proposals"]
        assert [(row["proposal_id"], row["standing"]) for row in listed] == [(proposal["proposal_id"], "applied")], listed
        rules = {row["id"]: row for row in (await call("list_rules"))["data"]["Rules"]}
        assert rules["small-orders"]["when"] == rule["when"], rules
        waits = await call("propose_rule", Suspend={"rule_id": "small-orders", "reason": "too strict", "evidence": evidence})
        id = waits["data"]["ProposalAcknowledged"]["proposal_id"]
        assert waits.said.startswith(f"waits for people as {id}: it loosens"), waits.said
        unknown = await call("propose_rule", Suspend={"rule_id": "small-order", "reason": "x", "evidence": evidence})
        assert "there are: `small-orders`" in unknown.text and "`list_rules` lists all" in unknown.text, unknown.text
        wrong = await call("propose_rule", Activate={"rule": rule, "evidence": evidence}, Suspend={})
        assert wrong["refused"]["code"] == "MALFORMED_PAYLOAD", wrong


def task(id, parent=None):
    return {"tenant_id": "research", "surface_id": "agents", "policy_profile_id": "default", "payload_kind": "lease",
            "payload": {"capability": "search"},
            "causality": {"root_task_id": "t-1", "parent_task_id": parent, "spawn_depth": 0 if parent is None else 1,
                          "recursion_budget_remaining": 5, "caused_by_receipt_id": None, "capability_id": "search"}}


async def admitting(home):
    async with home.session() as call:
        assert (await call("interrogate_health"))["status"] == "success"
        for tool in ["check", "evaluate"]:
            told = await call(f"interrogate_{tool}", envelope=task("t-1"))
            assert (told["status"], told["data"]["decision"]) == ("success", "allow"), told
            says = "dry run: the task would be allowed" if tool == "check" else "ALLOW: the task has its place"
            assert told.said.startswith(says), told.said
        # The tree has a root. A second root is refused by a named check; a child of the first is admitted.
        twice = await call("interrogate_admit", envelope=task("t-1"))
        assert [row["check"] for row in twice["refused"]["failed_checks"]] == ["task_exists"], twice
        assert "task_exists" in twice.text and twice["data"]["receipt"]["decision"] == "deny"
        child = await call("interrogate_admit", request_id="t-2", envelope=task("t-1", parent="t-1"))
        assert (child["status"], child["data"]["receipt"]["parent_task_id"]) == ("success", "t-1"), child
        assert (await call("interrogate_cache_clear"))["status"] == "success"
        assert "status" in await call("interrogate_cache_invalidate", policy_profile_id="default")
        settled = await call("interrogate_settle", receipt_id="r-999", spent={"usd": "0", "tokens": 0})
        assert settled["refused"]["code"] == "NOT_PERMITTED", "a receipt that is not there"
        assert (await call("interrogate_evaluate", envelope={}))["refused"]["code"], "no envelope"


async def a_case_before_the_council(home):
    case = {"request_id": "cfg-7", "timestamp": "2026-01-05T09:00:00Z", "proposer": "ConfigBot",
            "change_type": "UPDATE_CONFIG", "context": {"summary": "Halve the order size limit."},
            "artifacts": {"diff_content": "-max_order_value: 1000\n+max_order_value: 500"}}
    async with home.session("research-bot") as call:
        opened = await call("council_request", idempotency_id="case-1", **case)
        assert opened["status"] == "success" and opened["request_id"] == "case-1", opened
        assert opened.said.startswith("cfg-7 is open until ") and "; nothing is decided; waiting for " in opened.said, opened.said
        still = await call("council_decision", request_id="cfg-7")
        assert still["status"] == "open" and "never brought this case" in still.text, still
        sha = opened["data"]["request_sha256"]
        own = (await call("list_cases"))["data"]["Cases"]
        assert [(row["case"], row["own"], row["outcome"]) for row in own] == [("cfg-7", True, None)], own
    async with home.session("risk-officer") as call:
        seat = (await call("list_cases"))["data"]["Cases"][0]
        assert seat["case"] == opened["data"]["alias"] and seat["seats"] == ["Risk Officer"], seat
        assert seat["request_sha256"] == sha and "Risk Officer" in seat["waits_for"] and not seat["own"], seat
        verdict = {"role": "Risk Officer", "verdict": "REJECT"}
        missing = await call("council_verdict", request_id="cfg-9", request_sha256=sha, verdict=verdict)
        assert missing["refused"]["code"] == "NOT_FOUND" and "`list_cases` lists" in missing.text, missing.text
    for name, role in [("risk-officer", "Risk Officer"), ("code-auditor", "Code Auditor"),
                       ("integration-engineer", "Integration Engineer")]:
        async with home.session(name) as call:
            verdict = {"role": role, "verdict": "APPROVE", "confidence_score": 0.9, "concerns": [], "required_actions": [],
                       "checklist_results": [{"question": "Is it what it says?", "answer": "Yes", "pass": True}]}
            told = await call("council_verdict", request_id="cfg-7", request_sha256=sha, verdict=verdict)
            assert told["status"] == "success" and told.said.startswith("your APPROVE is filed"), told.said
            assert ("no verdict is missing" in told.said) == (role == "Integration Engineer"), told.said
    async with home.session("research-bot") as call:
        for _ in range(200):
            decided = await call("council_decision", request_id="cfg-7")
            if decided["status"] == "success":
                break
            await asyncio.sleep(0.05)
        assert decided["data"] == json.loads((home.path / "spool/out/cfg-7.decision.json").read_text()), decided
        assert decided.said == f"case `cfg-7` is decided: {decided['data']['final_outcome']}", decided.said
        assert (await call("list_cases"))["data"]["Cases"][0]["outcome"] == decided["data"]["final_outcome"]
        other = await call("council_request", **{**case, "request_id": "cfg-8"})
    async with home.session("own-bot", "--agent", "own-bot") as call:
        told = await call("council_verdict", request_id=other["data"]["alias"], request_sha256=other["data"]["request_sha256"],
                          verdict={**verdict, "role": "Risk Officer", "checklist_results": []})
        assert told.said.startswith("your APPROVE counts as NEEDS_MORE_INFO: "), told.said
        assert "checklist" in told.said and "; waiting for " in told.said, told.said


async def resources(home):
    async with home.session() as call:
        listed = {str(item.uri) for item in (await call.session.list_resources()).resources}
        assert {"spoolgate:///rules/safety.yaml", "spoolgate:///audit/checkpoint"} <= listed
        assert not any("state" in uri or "log-" in uri for uri in listed)
        text = (await call.session.read_resource("spoolgate:///rules/safety.yaml")).contents[0].text
        assert text == (home.path / "rules/safety.yaml").read_text()
        types = {str(item.uri): item.mimeType for item in (await call.session.list_resources()).resources}
        for uri in types:
            assert (await call.session.read_resource(uri)).contents[0].mimeType == types[uri], uri
        head = (await call.session.read_resource("spoolgate:///audit/checkpoint")).contents[0].text
        assert head.count("\n") >= 3
        for uri in ["spoolgate:///state/keyring.db", "spoolgate:///rules/none.yaml", "file:///etc/passwd",
                    "spoolgate:///rules/%2e%2e/state/keyring.db"]:
            try:
                await call.session.read_resource(uri)
            except McpError as error:
                assert "spoolgate:///" in str(error) or "cannot be read" in str(error), error
            else:
                raise AssertionError(f"{uri} was read")


async def hostile_arguments(home):
    deep = "[" * 50_000 + "]" * 50_000
    with Lines(home) as lines:
        lines.handshake()
        good = json.dumps(order(0.01))[:-1]
        for arguments, code in [
            (f'{{"a":{deep}}}', "MALFORMED_JSON"),
            (f'{good},"size":0.02}}', "MALFORMED_JSON"),
            (json.dumps(order(0.01, strategy="a\x01b")), "MALFORMED_PAYLOAD"),
            ('{"strategy":"\\ud800"}', "MALFORMED_JSON"),
            ("[1]", "MALFORMED_JSON"), ('"text"', "MALFORMED_JSON"), ("7", "MALFORMED_JSON"),
            (f'{good},"override":true}}', "MALFORMED_PAYLOAD"),
            (json.dumps(order({"a": 1})), "MALFORMED_PAYLOAD"),
            (json.dumps(order("NaN")), "MALFORMED_PAYLOAD"),
            (json.dumps(order(0)).replace('"size": 0', '"size": 1e-2'), "MALFORMED_PAYLOAD"),
            (json.dumps(order(0)).replace('"size": 0', '"size": 0.1000000000000000055511151231257827'), "MALFORMED_PAYLOAD"),
            (json.dumps(order(0)).replace('"size": 0', '"size": 12345678901234567890'), "MALFORMED_PAYLOAD"),
            (json.dumps(order(0.01, thesis_slug="x" * 100_000)), "TOO_LARGE"),
            (json.dumps(order(0.01, thesis_slug="../../x")), "MALFORMED_PAYLOAD"),
            (json.dumps(order(0.01, request_id="../x")), "MALFORMED_JSON"),
            ("{}", "MALFORMED_PAYLOAD"), ("null", "MALFORMED_PAYLOAD"),
        ]:
            answer = json.loads(lines.call("submit_order", arguments))
            told = answer["result"]["structuredContent"]
            assert answer["result"]["isError"] and told["status"] == "not_sent", told
            assert told["refused"]["code"] == code, (arguments[:80], told)
        # Numbers in messages are not rounded either.
        exact = "0.1000000000000000055511151231257827"
        answer = lines.call("submit_order", json.dumps(order(0)).replace('"size": 0', f'"size": {exact}'))
        assert exact[:30] in answer, answer
        # Invalid JSON is answered under its id if the id comes before the fault.
        for arguments in ['{"size":NaN}', '{"strategy":"a\x01b"}', '{"size":01}', "{"]:
            wrong = json.loads(lines.call("submit_order", arguments, id=41))
            assert (wrong["error"]["code"], wrong["id"]) == (-32700, 41), wrong
        lines.say('{"jsonrpc":"2.0","id":42,"method":"tools/call","params":' + "x" * 100)
        assert json.loads(lines.hear())["error"]["code"] == -32700
        lines.say(b"\xff\xfe")
        assert json.loads(lines.hear())["error"]["code"] == -32700
        lines.say(b" " * ((24 << 20) + 1))
        assert "longer than" in lines.hear()
        # The server continues as before.
        told = json.loads(lines.call("portfolio", "{}"))["result"]["structuredContent"]
        assert told["status"] == "success"
        assert json.loads(lines.call("portfolio", '{"a":1}'))["result"]["structuredContent"]["status"] == "not_sent"


async def numbers_keep_their_digits_both_ways(home):
    exact = ["0.1000000000000000055511151231257827", "123456789012345678901234567890.5", "1e400", "0.10", "-0.0"]
    body = "[" + ",".join(exact) + "]"
    call = ('{"action":"service.api_call","payload":{"service":"bank","endpoint":"/x","method":"POST","body":{"n":'
            + body + "}}}")
    with Lines(home) as lines:
        lines.handshake()
        answer = lines.call("submit_action", call)
        assert '"status":"success"' in answer, answer
        assert f'"n":{body}' in answer, answer
        # Decimals of an order that no binary float can hold: the ledger has them unchanged.
        large = json.dumps(order(0.01)).replace('"price": 6760', '"price": 123456789012.1234567891')
        told = json.loads(lines.call("submit_order", large, id=2))["result"]["structuredContent"]
        assert told["refused"]["code"] == "CHECKS_FAILED", told
    assert b"123456789012.1234567891" in home.ledger()


async def both_handshakes(home):
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]:
        with Lines(home) as lines:
            answer = lines.handshake(version)
            assert answer["protocolVersion"] == version, answer
            assert answer["serverInfo"]["name"] == "spoolgate-mcp"
            tools = lines.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})["result"]["tools"]
            assert known((tool["name"], tool["annotations"]["readOnlyHint"]) for tool in tools) == TOOLS
            told = json.loads(lines.call("portfolio", "{}", id="a"))
            assert told["id"] == "a" and told["result"]["structuredContent"]["status"] == "success"
            assert "resultType" not in told["result"]
    with Lines(home) as lines:
        assert lines.handshake("1999-01-01")["protocolVersion"] in {"2025-11-25", "2025-06-18"}
    # The newest protocol has no handshake: each request names its version.
    name = "io.modelcontextprotocol"
    meta = {f"{name}/protocolVersion": "2026-07-28", f"{name}/clientInfo": {"name": "lines", "version": "1"},
            f"{name}/clientCapabilities": {}}
    with Lines(home) as lines:
        discovered = lines.ask({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}})
        assert "2026-07-28" in discovered["result"]["supportedVersions"], discovered
        tools = lines.ask({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta}})
        tools = tools["result"]["tools"]
        assert known((tool["name"], tool["annotations"]["readOnlyHint"]) for tool in tools) == TOOLS
        told = json.loads(lines.call("portfolio", "{}", id=3, meta=meta))
        assert told["result"]["structuredContent"]["status"] == "success", told
        assert told["result"]["resultType"] == "complete"
        refused = lines.call("portfolio", "{}", id=4, meta={**meta, f"{name}/protocolVersion": "2031-01-01"})
        assert "error" in json.loads(refused), refused


async def strays_end_nothing(home):
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "lines", "version": "1"}}
    with Lines(home) as lines:
        for stray in [{"method": "notifications/initialized"}, {"method": "notifications/cancelled", "params": {"requestId": 7}},
                      {"id": 1, "result": {}}, {"id": 1, "error": {"code": 1, "message": "x"}}]:
            lines.say({"jsonrpc": "2.0", **stray})
        wrong = lines.ask({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**begin, "protocolVersion": None}})
        assert wrong["error"]["code"] == -32602, wrong
        lines.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        lines.handshake()
        # A request with an invalid id gets an error, and so does one with wrong params.
        for id in [None, True, {}, 2**70]:
            assert lines.ask({"jsonrpc": "2.0", "id": id, "method": "ping"})["error"]["code"] == -32600, id
        assert lines.ask([{"jsonrpc": "2.0", "id": 3, "method": "ping"}])["error"]["code"] == -32600
        for method, code in [("resources/read", -32602), ("prompts/list", -32601), ("no/such", -32601)]:
            answer = lines.ask({"jsonrpc": "2.0", "id": 4, "method": method, "params": {"uri": 7}})
            assert (answer["error"]["code"], answer["id"]) == (code, 4) and method in answer["error"]["message"], answer
        assert lines.ask({"jsonrpc": "2.0", "id": 5, "method": "ping"})["result"] == {}


async def a_pipe_that_is_closed_has_its_answers(home):
    said = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "portfolio"}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "orders", "arguments": {}}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in said)
    done = subprocess.run([SERVER, *home.arguments("trend-bot")], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {0, 1, 2}


async def only_allowed_tools(home):
    async with home.session("trend-bot", "--allow", "portfolio", "--allow", "orders") as call:
        assert {tool.name for tool in (await call.session.list_tools()).tools} == {"portfolio", "orders"}
        assert (await call("portfolio"))["status"] == "success"
        try:
            await call.session.call_tool("submit_order", order(0.01))
        except McpError as error:
            assert "tool `submit_order` does not exist" in str(error)
        else:
            raise AssertionError("a tool was called that was not allowed")


async def an_agent_with_a_spool_of_its_own(home):
    async with home.session("own-bot", "--agent", "own-bot") as call:
        assert (await call("portfolio"))["status"] == "success"
        told = await call("submit_order", request_id="mine", **order(0.3, strategy="range"))
        assert told["refused"]["failed_checks"], told
        assert (home.path / "spool/out/own-bot/mine.json").is_file()
        assert (await call("explain", request_id="mine"))["decision"] == "error"
        # Another session only has the file.
    async with home.session("own-bot", "--agent", "own-bot") as call:
        assert (await call("explain", request_id="mine"))["refused"] == told["refused"]
    async with home.session("own-bot") as call:
        assert (await call("portfolio"))["refused"]["code"] == "WRONG_SPOOL"


async def wrong_beginnings(home):
    def fails(*arguments):
        done = subprocess.run([SERVER, *arguments], input="", capture_output=True, text=True, timeout=20)
        WRITTEN.append((done.stdout + done.stderr).encode())
        assert done.returncode == 2 and done.stdout == "", done
        return done.stderr

    key = home.keys["trend-bot"]
    base = ["--home", str(home.path), "--as", "trend-bot"]
    open_key = home.beside("open.key")
    open_key.write_text(key.read_text())
    open_key.chmod(0o640)
    assert "chmod 600" in fails(*base, "--key", str(open_key))
    broken = home.beside("broken.key")
    broken.write_text(json.dumps(json.loads(key.read_text())["secret"]))
    broken.chmod(0o600)
    assert "is not a key file" in fails(*base, "--key", str(broken))
    assert "not to `research-bot`" in fails("--home", str(home.path), "--as", "research-bot", "--key", str(key))
    assert "`approve` is neither a tool nor a group" in fails(*base, "--key", str(key), "--allow", "approve")
    assert "did you mean `trading`?" in fails(*base, "--key", str(key), "--allow", "tradin")
    assert "no spool of its own" in fails(*base, "--key", str(key), "--agent", "trend-bot")
    assert "does not exist" in fails("--home", "/nowhere", "--as", "trend-bot", "--key", str(key))
    assert "cannot be used with" in fails(*base, "--key", str(key), "--agent", "a", "--socket", "b")


async def nothing_else_of_the_home_is_opened(home):
    if shutil.which("strace") is None:
        return "skipped: there is no strace"
    trace = home.beside("trace")
    said = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    said += [{"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
             for n, (tool, arguments) in enumerate([("portfolio", {}), ("explain", {"request_id": "once"}),
                                                    ("council_decision", {"request_id": "cfg-7"})], 1)]
    text = "".join(json.dumps(line) + "\n" for line in said)
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=openat,openat2,open,link,linkat,rename,unlink", SERVER]
    done = subprocess.run([*command, *home.arguments("trend-bot")], input=text, capture_output=True, text=True, timeout=60)
    if "ptrace" in done.stderr:
        return "skipped: strace may not trace here"
    assert len(done.stdout.splitlines()) == 4, done
    paths = [part for line in trace.read_text().splitlines() for part in line.split('"')[1::2] if str(home.path) in part]
    assert paths and all(part.startswith(f"{home.path}/spool/") for part in paths), paths


async def without_a_gate(home):
    async with home.session("trend-bot", "--wait", "1") as call:
        begun = time.monotonic()
        lost = await call("submit_order", request_id="late", **order(0.01))
        assert 0.9 < time.monotonic() - begun < 20
        assert lost["status"] == "unknown" and lost["request_id"] == "late" and lost.is_error, lost
        assert "may still decide it" in lost.text and "same bytes" in lost.text
        waits = await call("explain", request_id="late")
        assert waits["status"] == "open" and "has no answer yet" in waits.text
        again = await call("submit_order", request_id="late", **order(0.01))
        assert again["status"] == "unknown"
        other = await call("submit_order", request_id="late", **order(0.02))
        assert (other["status"], other["refused"]["code"]) == ("not_sent", "REQUEST_ID_CONFLICT"), other
        waiting = {path.read_bytes() for path in (home.path / "spool/in").glob("late*.json")}
        assert len(waiting) == 1, "other bytes were sent under the same id"
        home.start()
        for _ in range(30):
            told = await call("submit_order", request_id="late", **order(0.01))
            if told["status"] != "unknown":
                break
        assert told["status"] == "success", told
        orders = (await call("orders"))["data"]["Orders"]
        assert [row["order_id"] for row in orders if row["role"] == "entry"] == [told["data"]["Accepted"]["order_id"]]


async def through_the_socket(home):
    path = str(home.beside("gate.sock"))
    async with home.session("trend-bot", "--socket", path, "--wait", "5") as call:
        none = await call("portfolio")
        assert none["status"] == "not_sent" and "no gate answers" in none.text, none
        home.start("--socket", path)
        for _ in range(200):
            if os.path.exists(path):
                break
            await asyncio.sleep(0.05)
        assert (await call("portfolio"))["status"] == "success"
        told = await call("submit_order", request_id="s-1", **order(0.3))
        assert told["refused"]["headroom"], told
        assert (await call("explain", request_id="s-1"))["refused"] == told["refused"]
        # Several calls at a time, although the gate serves one client at a time.
        many = await asyncio.gather(*(call("market_data", symbol="BTC-USD") for _ in range(5)))
        assert all(one["status"] == "success" for one in many), many
        # Another client has the only connection: the outcome is unknown, and sending the same bytes again reveals it.
        import socket
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(path)
            await asyncio.sleep(0.3)
            lost = await call("submit_order", request_id="s-2", **order(0.01))
            assert lost["status"] == "unknown", lost
        done = await call("submit_order", request_id="s-2", **order(0.01))
        assert done["status"] == "success", done


def parts(result):
    """The first line and the data of a result, from its only text: all that this model has."""
    words, _, data = result.content[0].text.partition("\n\n")
    return words.partition("\n")[0], json.loads(data, parse_float=Decimal) if data else None


async def a_model_begins_with_the_lists(home):
    """Nothing here is known beforehand: every name and number comes from a list or a text."""
    async with home.session() as call:
        session = call.session
        tools = {tool.name: tool.inputSchema for tool in (await session.list_tools()).tools}

        async def use(tool, **arguments):
            CALLED.add(tool)
            return parts(await session.call_tool(tool, arguments))

        _, instruments = await use("list_instruments")
        instrument = next(row for row in instruments["Instruments"] if row["strategies"] and not row["stale"])
        _, theses = await use("list_theses")
        thesis = next(row for row in theses["Theses"] if row["valid"] and row["symbol"] == instrument["symbol"])
        tick, lot, bid, ask = (Decimal(instrument[name]) for name in ("tick", "lot", "bid", "ask"))
        is_long = thesis["direction"] == "long"
        price = ask if is_long else bid
        distance = price * (Decimal(thesis["stop_min"]) + Decimal(thesis["stop_max"])) / 2
        stop = ((price - distance if is_long else price + distance) / tick).to_integral_value() * tick
        smallest = max(Decimal(instrument["min_size"]), Decimal(instrument["min_notional"]) / min(price, stop))
        size = (smallest / lot).to_integral_value(ROUND_CEILING) * lot
        offered = tools["submit_order"]["properties"]
        side = offered["side"]["enum"][0 if is_long else 1]
        order = {"strategy": thesis["strategy"], "symbol": instrument["symbol"], "side": side,
                 "size": str(size), "order_type": offered["order_type"]["enum"][0], "price": str(price), "stop_price": str(stop),
                 "thesis_slug": thesis["slug"], "planned_entry": str(price), "planned_stop": str(stop)}
        said, accepted = await use("submit_order", **order)
        assert "is working, nothing filled yet; stop" in said, said
        id = accepted["Accepted"]["order_id"]

        _, orders = await use("orders")
        protective = next(row for row in orders["Orders"] if row["order_id"].startswith(f"{id}-") and row["role"] == "protective")
        nearer = Decimal(protective["trigger"]) + (tick if is_long else -tick)
        said, _ = await use("tighten_stop", order_id=protective["order_id"], new_stop=str(nearer))
        assert said.startswith(f"tightened the stop of {protective['order_id']} to {nearer.normalize():f}"), said
        said, _ = await use("cancel_order", order_id=id)
        assert said.startswith(f"cancelled {id}"), said

        mail = next(name for name in tools["submit_action"]["properties"]["action"]["enum"] if name.endswith(".draft"))
        said, held = await use("submit_action", action=mail, payload={
            "to": ["ann@example.com"], "subject": "long", "body": "x" * 1_000_001})
        assert said.startswith(f"held as {held['Held']['hold_id']} by ") and "a person decides" in said, said

        action = tools["rule_fields"]["properties"]["action"]["enum"][0]
        _, fields = await use("rule_fields", action=action)
        field = next(row for row in fields["Fields"] if row["field"].endswith(".size"))
        schema = json.loads((await session.read_resource("spoolgate:///schemas/rules.rule")).contents[0].text)
        rule = {"id": "my-size", "status": schema["properties"]["status"]["enum"][0], "applies_to": {"action": action},
                "when": [{"field": field["field"], "op": "gt", "value": str(size * 10)}],
                "then": "reject", "message": "too large"}
        Draft202012Validator(schema).validate(rule)
        said, proposed = await use("propose_rule", Activate={"rule": rule, "evidence": {
            "summary": "small is enough", "sample_size": 0, "ledger_seqs": []}})
        id = proposed["ProposalAcknowledged"]["proposal_id"]
        assert said.startswith(f"waits for people as {id}: it tightens"), said
        _, listed = await use("list_proposals")
        assert {row["proposal_id"]: row["standing"] for row in listed["Proposals"]}[id] == "pending", listed


async def a_heartbeat_opens_entries_again(home):
    home.start()
    async with home.session() as call:
        assert (await call("submit_order", **order("0.01")))["status"] == "success"
        for _ in range(1200):
            if b'"kind":"dead_man"' in home.ledger():
                break
            await asyncio.sleep(0.05)
        entry = order("0.011", price=6761, planned_entry=6761)
        closed = await call("check", action="order.submit", payload=entry)
        assert "dead_man" in [row["check"] for row in closed["would_be"]["refused"]["failed_checks"]], closed
        assert "closed to entries" in (await call("portfolio")).said
        alive = await call("heartbeat")
        assert alive.said.startswith("alive: the dead man's switch no longer closes your entries"), alive.said
        again = await call("submit_order", **entry)
        assert again["status"] == "success", again
        halted = await call("halt", reason="that is enough")
        assert halted.said.startswith("halted: no entry of trend-bot is accepted until a person"), halted.said
        refused = await call("submit_order", **order("0.012", price=6762, planned_entry=6762))
        assert "manual_halt" in [row["check"] for row in refused["refused"]["failed_checks"]], refused
        foreign = await call("halt", strategy="nope", reason="not mine")
        assert foreign["refused"]["code"] == "NOT_PERMITTED", foreign


# Tests by home. Those that need a running gate share one, in this order.
SHARED = [
    tools_are_these_and_no_others, the_contracts_names_are_listed_on_request, looking, a_model_corrects_itself,
    checking_does_nothing, the_same_id_is_done_once, actions_that_leave_the_machine, controlling, proposing, admitting,
    a_case_before_the_council, resources, a_model_begins_with_the_lists, hostile_arguments,
    numbers_keep_their_digits_both_ways, both_handshakes, strays_end_nothing, a_pipe_that_is_closed_has_its_answers,
    only_allowed_tools, an_agent_with_a_spool_of_its_own, wrong_beginnings, nothing_else_of_the_home_is_opened,
    rates_say_when_to_come_again, answers_are_valid_by_the_shipped_schemas,
]
ALONE = [without_a_gate, through_the_socket]
# Tests in a home with a dead man's switch.
SILENT = [a_heartbeat_opens_entries_again]


def run(test, home, counts):
    begun = time.monotonic()
    try:
        said = asyncio.run(asyncio.wait_for(test(home), 120))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        traceback.print_exc()
        counts["failed"] += 1
        print(f"FAILED {test.__name__}", flush=True)
        return
    counts["skipped" if said else "passed"] += 1
    print(f"{said or 'ok'}: {test.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)


def main(names):
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    wanted = lambda tests: [test for test in tests if not names or test.__name__ in names]
    secrets = []
    if wanted(SHARED):
        with Home() as home:
            secrets += home.secrets()
            home.start()
            for test in wanted(SHARED):
                run(test, home, counts)
    for test in wanted(ALONE):
        with Home() as home:
            secrets += home.secrets()
            run(test, home, counts)
    for test in wanted(SILENT):
        with Home(safety="dead_man: {timeout_s: 5, action: close_new_only}\n") as home:
            secrets += home.secrets()
            run(test, home, counts)
    written = b"\n".join(WRITTEN)
    for secret in secrets:
        assert secret.encode() not in written, "a key stands in what was written"
    if not names:
        assert len(written) > 100_000, "too little was recorded to say anything of keys"
        missing = TOOLS - CALLED
        assert not missing, f"never called: {missing}"
    print(f"mcp: {counts['passed']} passed, {counts['skipped']} skipped, {counts['failed']} failed")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
