"""Every tool has one name that all vendors accept, and rules can tell servers apart."""

import re

from hypothesis import given
from hypothesis import strategies as st

from polylect.mcp.names import long_name, name_for


def test_a_tool_keeps_its_name_where_it_can() -> None:
    assert name_for("shop", "buy", {"Read"}) == "buy"
    assert name_for("shop", "Read", {"Read"}) == "mcp__shop__Read"
    assert name_for("shop", "buy.it", {"Read"}) == "mcp__shop__buy_it"
    assert name_for("shop", "Read", {"Read", "mcp__shop__Read"}) == "mcp__shop__Read_2"


def test_no_server_can_pass_for_another() -> None:
    assert long_name("a__b", "c") == "mcp__a_b__c"
    assert long_name("a_", "c") == "mcp__a__c"
    assert long_name("my server!", "c") == "mcp__my_server__c"
    assert long_name("", "c") == "mcp__server__c"


@given(st.lists(st.tuples(st.text(max_size=80), st.text(max_size=90)), max_size=12))
def test_names_are_plain_short_and_different(tools: list[tuple[str, str]]) -> None:
    taken = {"Read", "Bash"}
    for server, tool in tools:
        name = name_for(server, tool, taken)
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)
        assert name not in taken
        taken.add(name)
