"""Ends an engine and all that it has started if the program that uses it is killed.

Other engines than ours go on with a turn though their input has ended, and a command that they run may outlive them.
A shell waits for the end of a pipe that only this process holds. Then it notes what runs below the engine, sends the
engine SIGTERM, and after two seconds at most kills what is left, also what is below nobody and has the engine's mark in
its environment. `EngineProcess` starts one for each engine of another maker; where there is no /proc, it ends only the
engine and its process group.
"""

import subprocess

_SHELL = "/bin/sh"
_SCRIPT = """
started() { read -r stat < /proc/$1/stat && set -- ${stat##*)} && [ $1 != Z ] && echo "${20}"; }
below() { for child in $(cat /proc/$1/task/*/children); do echo $child; below $child; done; }
engine=$1
at=$(started $engine)
read -r word
if [ "$(started $engine)" = "$at" ]; then
    family="-$engine $(below $engine)"
    kill -s TERM $engine
    tries=20
    while [ $tries -gt 0 ] && [ "$(started $engine)" = "$at" ]; do sleep 0.1; tries=$((tries - 1)); done
fi
for file in $(grep -lsF "$2" /proc/[0-9]*/environ); do file=${file%/environ}; family="$family ${file#/proc/}"; done
for pid in $family; do family="$family $(below $pid)"; done
kill -s KILL -- $family
"""
"""`started` tells the engine from a later process with the same number; of one that only waits to be reaped it says
nothing."""


class Watcher:
    """Watches over the engine with this process id and mark, which leads a session of its own. Call `stop` at last."""

    def __init__(self, pid: int, mark: str) -> None:
        self._shell = subprocess.Popen(
            [_SHELL, "-c", _SCRIPT, "sh", str(pid), mark],
            cwd="/",
            env={"PATH": "/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """The engine has ended with everything below it."""
        self._shell.kill()  # before its input ends, which would have it do its work
        self._shell.communicate()
