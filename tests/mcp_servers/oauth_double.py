"""An MCP server that wants a login, and the authorization server that grants it: Starlette on loopback.

Both are one program with two addresses: the MCP server at /mcp, the issuer at /as.
"""

import base64
import hashlib
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

_INFO = {"name": "far", "version": "1"}


@dataclass
class OAuthDouble:
    """Knobs, and what was seen."""

    url: str = ""
    expires_in: int | None = 3600
    """How long an access token lasts."""
    refuse_renewal: int = 0
    """The status with which renewals are refused."""
    refuse_login: bool = False
    wrong_issuer: bool = False
    wrong_state: bool = False
    scopes: str = "tools"
    metadata: dict[str, Any] = field(default_factory=dict)
    """Fields that replace those that the authorization server publishes."""
    devices_pending: int = 1
    """How often a device is told to wait."""
    seen: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    """Those of requests at the authorization server."""
    valid: set[str] = field(default_factory=set)
    """Access tokens that the MCP server accepts."""
    renewals: set[str] = field(default_factory=set)
    """Tokens for renewal that were not used yet."""
    registered: dict[str, dict[str, Any]] = field(default_factory=dict)
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)
    _counter: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def mcp(self) -> str:
        return f"{self.url}/mcp"

    async def serve_mcp(self, request: Request) -> Response:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.valid:
            place = f"{self.url}/.well-known/oauth-protected-resource/mcp"
            challenge = f'Bearer resource_metadata="{place}", scope="{self.scopes}"'
            return JSONResponse({"error": "invalid_token"}, 401, {"www-authenticate": challenge})
        if request.method != "POST":
            return Response(status_code=405)
        message = await request.json()
        if message["method"] == "prompts/list":
            challenge = 'Bearer error="insufficient_scope", scope="prompts read"'
            return Response(status_code=403, headers={"www-authenticate": challenge})
        if "id" not in message:
            return Response(status_code=202)
        results: dict[str, dict[str, Any]] = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": _INFO},
            "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
        }
        result = results.get(message["method"], {"token": token})
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def resource(self, request: Request) -> Response:
        return JSONResponse({"resource": self.mcp, "authorization_servers": [f"{self.url}/as"]})

    async def server(self, request: Request) -> Response:
        issuer = f"{self.url}/{'other' if self.wrong_issuer else 'as'}"
        document = {
            "issuer": issuer,
            "authorization_endpoint": f"{self.url}/as/authorize",
            "token_endpoint": f"{self.url}/as/token",
            "registration_endpoint": f"{self.url}/as/register",
            "revocation_endpoint": f"{self.url}/as/revoke",
            "device_authorization_endpoint": f"{self.url}/as/device",
            "code_challenge_methods_supported": ["S256"],
            "response_types_supported": ["code"],
        } | self.metadata
        return JSONResponse({name: value for name, value in document.items() if value is not None})

    async def register(self, request: Request) -> Response:
        client = await request.json() | {"client_id": f"client-{next(self._counter)}"}
        self.registered[client["client_id"]] = client
        return JSONResponse(client, 201)

    async def authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        assert query["code_challenge_method"] == "S256"
        assert query["resource"] == self.mcp
        assert query["redirect_uri"] in self.registered.get(query["client_id"], {}).get("redirect_uris", [])
        code = f"code-{next(self._counter)}"
        self._codes[code] = query
        answer = {"error": "access_denied", "error_description": "no"} if self.refuse_login else {"code": code}
        state = "wrong" if self.wrong_state else query["state"]
        return RedirectResponse(f"{query['redirect_uri']}?{urlencode(answer | {'state': state})}")

    async def token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        self.forms.append(form)
        self.headers.append(dict(request.headers))
        match form["grant_type"]:
            case "authorization_code":
                requested = self._codes.pop(form["code"])
                digest = hashlib.sha256(form["code_verifier"].encode()).digest()
                assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == requested["code_challenge"]
                assert form["redirect_uri"] == requested["redirect_uri"]
            case "refresh_token" if self.refuse_renewal:
                return JSONResponse({"error": "invalid_grant"}, self.refuse_renewal)
            case "refresh_token":
                if form["refresh_token"] not in self.renewals:  # each works once
                    return JSONResponse({"error": "invalid_grant"}, 400)
                self.renewals.discard(form["refresh_token"])
            case _ if self.devices_pending:
                self.devices_pending -= 1
                return JSONResponse({"error": "authorization_pending"}, 400)
        return self._grant()

    def _grant(self) -> Response:
        number = next(self._counter)
        self.valid = {f"access-{number}"}
        self.renewals.add(f"renewal-{number}")
        expiry = {} if self.expires_in is None else {"expires_in": self.expires_in}
        granted = {"access_token": f"access-{number}", "token_type": "bearer", "refresh_token": f"renewal-{number}"}
        return JSONResponse(granted | expiry)

    async def device(self, request: Request) -> Response:
        place = f"{self.url}/as/enter"
        started = {"device_code": "d", "user_code": "WDJB-MJHT", "verification_uri": place, "interval": 0}
        return JSONResponse(started | {"expires_in": 600})

    async def revoke(self, request: Request) -> Response:
        self.forms.append({name: values[0] for name, values in parse_qs((await request.body()).decode()).items()})
        return Response()

    def app(self) -> Starlette:
        routes = [
            Route("/mcp", self.serve_mcp, methods=["GET", "POST", "DELETE"]),
            Route("/.well-known/oauth-protected-resource/mcp", self.resource),
            Route("/.well-known/oauth-authorization-server/as", self.server),
            Route("/as/register", self.register, methods=["POST"]),
            Route("/as/authorize", self.authorize),
            Route("/as/token", self.token, methods=["POST"]),
            Route("/as/device", self.device, methods=["POST"]),
            Route("/as/revoke", self.revoke, methods=["POST"]),
        ]
        return Starlette(routes=[_noted(route, self.seen) for route in routes])


def _noted(route: Route, seen: list[str]) -> Route:
    endpoint = route.endpoint

    async def noted(request: Request) -> Response:
        seen.append(f"{request.method} {urlsplit(str(request.url)).path}")
        answer: Response = await endpoint(request)
        return answer

    return Route(route.path, noted, methods=sorted(route.methods or ()))


@contextmanager
def oauth_double(**knobs: Any) -> Iterator[OAuthDouble]:
    """Both servers, at work in a thread."""
    double = OAuthDouble(**knobs)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        double.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = uvicorn.Server(uvicorn.Config(double.app(), log_level="critical", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield double
        finally:
            server.should_exit = True
            thread.join()
