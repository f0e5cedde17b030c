"""The engines that one program is to drive alike, each pointed at the same model on loopback.

aionrs and wayland-core are no packages: the scripted peers (`peers/`) stand for them.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from interop import omp_peers
from interop.acp_agents import AGENTS
from interop.acp_agents import Agent as AcpAgent
from interop.claude_model import Block, Model, use
from peers.programs import MODULES, path_with
from polylect import plug
from polylect.app.serving.in_process import InProcessLink
from polylect.embed import run_engine
from polylect.host import Agent, connect
from polylect.host.engine_registry import ENGINES as KNOWN

MODEL = "claude-sonnet-4-5"
READY_WITHIN = 60.0
_ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "IS_SANDBOX": "1",
    "PATH": os.environ["PATH"],
    "PI_OFFLINE": "1",
}


class Reference:
    """Our engine in this process: what it says goes over no wire, so it is the vocabulary itself."""

    def call(self, id: str, command: str, description: str) -> Block:
        return use(id, "Bash", command=command, description=description)

    def connect(self, model: Model, place: Path, *, resume: str = "") -> Agent:
        (place / "work").mkdir(exist_ok=True)
        about: dict[str, Any] = {"workspace": place / "work", "sessions": place / "sessions", "resume": resume}
        about |= {"api_key": "none", "base_url": model.url, "model": MODEL, "env": {"PATH": os.environ["PATH"]}}
        return connect(lambda: InProcessLink(lambda on_event: run_engine(on_event, "anthropic", **about)))

    async def session(self, agent: Agent) -> str:
        return agent.session


class Engine(NamedTuple):
    """A program: its name among those that are known, and its wire's version if that is not the usual one."""

    name: str
    version: str = ""
    flags: tuple[str, ...] = ()

    def call(self, id: str, command: str, description: str) -> Block:
        """The model wants a command to be run, in the words of this engine's tool."""
        tool = "bash" if self._omp else "ExecCommand" if self.name == "aionrs" else "Bash"
        return use(id, tool, **{"cmd" if self.name == "aionrs" else "command": command, "description": description})

    @property
    def _omp(self) -> bool:
        return self.name in ("omp", "pi")

    def connect(self, model: Model, place: Path, *, resume: str = "") -> Agent:
        (place / "work").mkdir(exist_ok=True)
        around: dict[str, Any] = {"cwd": str(place / "work"), "ready_within": READY_WITHIN, "version": self.version}
        if self._omp:
            return self._connect_omp(model, place, resume, around)
        env = {**_ENVIRONMENT, "ANTHROPIC_BASE_URL": model.url, "HOME": str(place)}
        if self.name == "claude":
            binary = Path(os.environ["POLYLECT_INTEROP_CLAUDE"]) / "claude_agent_sdk" / "_bundled"
            env |= {"CLAUDE_CONFIG_DIR": str(place / "claude"), "PATH": f"{binary}{os.pathsep}{env['PATH']}"}
            return connect("claude", env=env, model=MODEL, resume=resume, **around)
        if self.name in MODULES:
            env |= {"PATH": path_with(self.name, place / "bin")}
            service = {"provider": "anthropic", "base_url": model.url, "model": MODEL}
            return connect(self.name, env=env, resume=resume, **service, **around)
        env |= {"POLYLECT_HOME": str(place / "state"), "PYTHONPATH": os.pathsep.join(sys.path)}
        args = ("--protocol", self.version) if self.version and self.name != "polylect-acp" else ()
        return connect(self.name, env=env, args=args, provider="anthropic", model=MODEL, resume=resume, **around)

    def _connect_omp(self, model: Model, place: Path, resume: str, around: dict[str, Any]) -> Agent:
        """Its launcher is made by a script of its package, so it is started as it lies there."""
        peer = omp_peers.peer(self.version)
        around = {**around, "version": peer.version}
        if not (place / "agent").exists():
            omp_peers.configure(peer, model.url, place)
        env = {**_ENVIRONMENT, "HOME": str(place), "PI_CODING_AGENT_DIR": str(place / "agent")}
        argv = [*peer.argv, "--mode", "rpc", "--model", "mock/one", *self.flags]
        argv += ["--session", resume] if resume else []
        return connect(argv, dialect="omp", env=env, **around)

    async def session(self, agent: Agent) -> str:
        """By what it can be resumed; omp and pi want the file."""
        return (await agent.state()).file if self._omp else agent.session

    @property
    def unsaid(self) -> tuple[str, ...]:
        """What its wire cannot say, as the dialect itself lists it."""
        known = KNOWN[self.name]
        version = omp_peers.peer(self.version).version if self._omp else self.version or known.version
        version = version or plug.load("dialects", known.dialect).DIALECT.versions[0]
        listed: tuple[str, ...] = import_module(f"polylect.dialects.{known.dialect}.unsaid").UNSAID[version]
        return listed


ENGINES: dict[str, Engine | AcpAgent] = {
    "polylect": Engine("polylect"),
    "polylect json-stream": Engine("polylect-jsonstream"),
    "polylect json-stream 0.1.0": Engine("polylect-jsonstream", "0.1.0"),
    "polylect omp": Engine("polylect-omp"),
    "polylect omp 13": Engine("polylect-omp", "13"),
    "polylect pi": Engine("polylect-omp", "pi"),
    "polylect claude": Engine("polylect-claude"),
    "polylect acp": Engine("polylect-acp"),
    "polylect acp 2": Engine("polylect-acp", "2"),
    "claude": Engine("claude"),
    "omp 13": Engine("omp", "13"),
    "omp 18": Engine("omp", "18"),
    "omp 18.3": Engine("omp", "18.3"),
    "omp 18.3, asking": Engine("omp", "18.3", ("--approval-mode", "always-ask")),
    "omp 18, asking": Engine("omp", "18", ("--approval-mode", "always-ask")),
    "pi": Engine("pi", "pi"),
    "pi 0.87": Engine("pi", "pi 0.87"),
    "pi 1.5": Engine("pi", "pi 1.5"),
    "aionrs": Engine("aionrs"),
    "wayland-core": Engine("wayland-core"),
    **AGENTS,
}
