"""Docker, by its command: the containers of one test run, found by the run's name and label."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import Any

LABEL = "laneshift-itest"


class EngineError(Exception):
    """A docker command failed; the message is what it said."""


def docker(*arguments: str, limit_s: float = 120, check: bool = True) -> str:
    """What ``docker ARGUMENTS`` prints. Errors: EngineError if it fails and ``check``."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=limit_s, check=False
    )
    if check and done.returncode != 0:
        raise EngineError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def missing() -> str | None:
    """Why no container can be started here, or None if one can."""
    if shutil.which("docker") is None:
        return "there is no docker command: make itest installs it"
    if not docker("info", "--format", "{{.ServerVersion}}", check=False):
        return "no Docker engine answers: make itest starts one"
    return None


class Engine:
    """Containers and volumes named ``<run>-<name>`` on one network, all removed by :meth:`close`.

    ``image`` is what every container runs, ``volumes`` (container path -> host path or name of a
    volume) what every container sees.
    """

    def __init__(self, run: str, image: str, volumes: dict[str, str]) -> None:
        self.run_name = run
        self._image = image
        self._volumes = volumes
        self._labels = ["--label", f"{LABEL}={run}"]
        docker("network", "create", *self._labels, run)

    def name(self, name: str) -> str:
        """The host name of a container, which is its name in Docker."""
        return f"{self.run_name}-{name}"

    def start(
        self,
        name: str,
        *command: str,
        env: dict[str, str] | None = None,
        volumes: dict[str, str] | None = None,
    ) -> str:
        """Start ``command`` in a new container and return its host name."""
        full = self.name(name)
        mounted = {**self._volumes, **(volumes or {})}
        docker(
            *("run", "--detach", "--name", full, "--hostname", full, "--network", self.run_name),
            *(*self._labels, "--cap-add=NET_ADMIN"),
            *(f"--volume={source}:{path}" for path, source in mounted.items()),
            *(f"--env={key}={value}" for key, value in (env or {}).items()),
            *(self._image, *command),
        )
        return full

    def disk(self, name: str, path: str, megabytes: int) -> None:
        """Give every container from now on a disk of its own size at ``path``."""
        options = ("--opt=type=tmpfs", "--opt=device=tmpfs", f"--opt=o=size={megabytes}m")
        docker("volume", "create", *self._labels, *options, self.name(name))
        self._volumes[path] = self.name(name)

    def inside(self, name: str, *command: str) -> str:
        """What ``command`` prints, run in a running container."""
        return docker("exec", self.name(name), *command)

    def kill(self, name: str) -> None:
        """``kill -9`` of everything in a container, which is removed."""
        docker("kill", "--signal=KILL", self.name(name))
        docker("rm", "--force", self.name(name))

    def remove(self, name: str) -> None:
        """Remove a container, whatever it does; none is no error."""
        docker("rm", "--force", self.name(name))

    def address(self, name: str) -> str:
        """A container's IP address, which the host reaches, too."""
        networks = self._inspect(name)["NetworkSettings"]["Networks"]
        return str(networks[self.run_name]["IPAddress"])

    def exit_code(self, name: str) -> int | None:
        """What a container's command returned, or None if it runs."""
        state = self._inspect(name)["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def log(self, name: str) -> str:
        """Everything that a container has printed."""
        done = subprocess.run(
            ["docker", "logs", self.name(name)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        return done.stdout.decode(errors="replace")

    def close(self) -> None:
        """Remove all that this run has made."""
        remove_run(self.run_name)

    def _inspect(self, name: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(docker("inspect", self.name(name)))
        return found[0]


def remove_run(run: str) -> None:
    """Remove the containers, volumes and networks of a run."""
    chosen = f"label={LABEL}={run}"
    for container in docker("ps", "--all", "--quiet", "--filter", chosen).split():
        docker("rm", "--force", "--volumes", container)
    for kind in ("volume", "network"):
        for found in docker(kind, "ls", "--quiet", "--filter", chosen).split():
            docker(kind, "rm", found)


def remove_leftovers() -> None:
    """Remove what runs that were killed have left: a run's name ends with its process id."""
    form = '{{.Label "' + LABEL + '"}}'
    listed = docker("ps", "--all", "--filter", f"label={LABEL}", "--format", form)
    listed += "\n" + docker("network", "ls", "--filter", f"label={LABEL}", "--format", form)
    for run in set(listed.split()):
        pid = int(run.rsplit("-", 1)[1])
        if not os.path.exists(f"/proc/{pid}"):
            remove_run(run)
