"""A web back end: POST a task to /turns, and read the turn as server-sent events.

uvicorn --app-dir examples web_stream:app
curl -N -d '{"task": "What does this project do?"}' http://127.0.0.1:8000/turns
"""

import json
import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from polylect.host import HostError, category, connect

ENGINE = os.environ.get("ENGINE", "polylect")


async def turns(request: Request) -> StreamingResponse:
    task = str((await request.json())["task"])
    return StreamingResponse(stream(task), media_type="text/event-stream")


async def stream(task: str) -> AsyncIterator[str]:
    """One engine for each turn: when the browser goes away the generator is closed, and the engine with it."""
    try:
        async with connect(ENGINE, approve=category("info", "edit")) as agent:
            async for event in agent.prompt(task):
                yield f"data: {event.to_json()}\n\n"
    except HostError as error:
        yield f"event: failed\ndata: {json.dumps(str(error))}\n\n"


app = Starlette(routes=[Route("/turns", turns, methods=["POST"])])
