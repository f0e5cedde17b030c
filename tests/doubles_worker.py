"""The worker of tests that are about something else: its operations run in the test's own process, one at a time."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from polylect.tools.worker.checkpoint_files import read_state, restore_file
from polylect.tools.worker.program import perform
from polylect.vocab.ports import FileState


class DirectWorker:
    """A `Worker` without a process, which reaches everything."""

    def hides(self, path: str, roots: Sequence[str]) -> bool:
        return False

    def lets_change(self, path: str, roots: Sequence[str]) -> bool:
        return True

    def prepare(self) -> None:
        pass

    async def detect_sandbox(self) -> None:
        pass

    def reaches(self, path: str) -> bool:
        return True

    async def request(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        data: bytes = b"",
        file: int = -1,
        timeout: float = 30.0,
        roots: Sequence[str] = (),
    ) -> tuple[dict[str, Any], bytes]:
        value, payload = perform(operation, json.loads(json.dumps(arguments)), data, [file] if file >= 0 else [])
        answer: dict[str, Any] = json.loads(json.dumps(value))
        return answer, payload

    async def file_state(self, path: str) -> FileState | None:
        state = read_state(path)
        return FileState(*state) if state else None

    async def restore(self, path: str, state: FileState | None) -> None:
        restore_file(path, (state.data, state.mode) if state else None)

    async def count_changes(self, old: bytes, new: bytes) -> tuple[int, int]:
        value, _ = await self.request("count_changes", {"size": len(old)}, data=old + new)
        return value["come"], value["go"]

    async def close(self) -> None:
        pass
