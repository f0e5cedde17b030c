"""Requests without an answer, as errors of a model service: the kind, whether to try again, and what to check."""

from typing import get_args

import pytest

from polylect.http.errors import HttpError, HttpFault
from polylect.providers.error_kinds import without_answer


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("address", ("bad_request", False, "text: check --base-url and the API key")),
        ("proxy", ("bad_request", False, "text")),
        ("proxy_refused", ("network", False, "text")),
        ("certificate", ("network", False, "text")),
        ("connect", ("network", True, "text: check the network, HTTPS_PROXY and --base-url")),
        ("connect_timeout", ("timeout", True, "text: check the network and --base-url")),
        ("lost", ("network", True, "text")),
        ("silent", ("timeout", True, "text (stream_timeout)")),
        ("not_http", ("protocol", False, "text: check --base-url")),
        ("encoding", ("protocol", False, "text")),
    ],
)
def test_every_kind_says_what_to_check(kind: HttpFault, expected: tuple[str, bool, str]) -> None:
    error = without_answer(HttpError(kind, "text"))
    assert (error.kind, error.retryable, str(error)) == expected


def test_no_kind_is_without_a_row() -> None:
    assert all(without_answer(HttpError(kind, "text")) for kind in get_args(HttpFault))
