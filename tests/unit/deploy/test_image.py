"""The Dockerfile: its build steps done in a clean directory, its health check run, and what the final image must be.

No Docker engine is needed, and none is asked: what only an engine can show is not shown here.
"""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from dockerfile_parse import DockerfileParser

from kstreams_worker.config import Settings
from kstreams_worker.devbroker.jars import jars_directory

ROOT = Path(__file__).parents[3]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
PACKAGES = ("kstreams_worker", "assignor", "state")

Instruction = tuple[str, str]


def stages() -> dict[str, list[Instruction]]:
    """The instructions of each stage, by its name, FROM first."""
    with DOCKERFILE.open("rb") as file:
        structure = DockerfileParser(fileobj=file).structure
    found: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    for item in structure:
        if item["instruction"] == "FROM":
            current = found.setdefault(item["value"].rpartition(" ")[2], [])
        if item["instruction"] != "COMMENT":
            current.append((item["instruction"], item["value"]))
    return found


def final(instruction: str) -> list[str]:
    """The values of an instruction in the image of the workers, inherited ones first."""
    made = stages()
    return [value for stage in ("base", "runtime") for name, value in made[stage] if name == instruction]


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for value in final("ENV") for pair in shlex.split(value))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in the place of the image's root, in which the steps of the stage `build` were done."""
    root = tmp_path_factory.mktemp("image")
    # Dependencies are not fetched again: the environment of this test has them, and the build needs nothing else of it.
    variables = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": ""}
    here = root
    for instruction, value in stages()["build"][1:]:
        match instruction:
            case "WORKDIR":
                here = root / value.lstrip("/")
                here.mkdir(parents=True)
            case "COPY":
                *sources, target = shlex.split(value)
                for source in sources:
                    copy(ROOT / source, here / target / Path(source).name if target == "./" else here / target)
            case "RUN":
                command = re.sub(r"--mount=\S+\s+", "", value)
                command = re.sub(r"/(opt|wheels)\b", lambda match: str(root / match[1]), command)
                if " install " in command:
                    command = f"PIP_NO_DEPS=1 PIP_NO_INDEX=1 {command}"
                subprocess.run(command, shell=True, cwd=here, env=variables, check=True)
            case _:
                raise AssertionError(f"this test does not know how to do {instruction} {value}")
    (packages,) = (root / "opt/venv/lib").glob("python*/site-packages")
    # All places of packages: an environment may be made of several, and a .pth file found by way of another is not read.
    places = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(places))
    return root


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def run(image: Path, *command: str, cwd: Path) -> str:
    """Run a command of the image's virtual environment; returns what it prints."""
    program, *arguments = command
    return subprocess.run(
        [image / "opt/venv/bin" / program, *arguments],
        cwd=cwd,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]},
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def test_the_command_runs_from_what_the_build_stage_installed(image: Path, tmp_path: Path) -> None:
    """With a topology in the current directory, as an application's image has it."""
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples/orders.py", tmp_path / "examples/orders.py")
    assert run(image, "kstreams-worker", "version", cwd=tmp_path).startswith("kstreams-worker 0.")
    assert "Usage: kstreams-worker" in run(image, *final_command(), cwd=tmp_path)
    assert "Sub-topology: 1" in run(image, "kstreams-worker", "topology", "examples.orders:topology", cwd=tmp_path)


def final_command() -> list[str]:
    (entrypoint,), (command,) = final("ENTRYPOINT"), final("CMD")
    return [*json.loads(entrypoint), *json.loads(command)]


def test_the_wheel_has_every_file_of_the_packages(image: Path, tmp_path: Path) -> None:
    """Python or not: log configurations, type markers. And the poms, which are kept elsewhere."""
    print_place = "import kstreams_worker, pathlib; print(pathlib.Path(kstreams_worker.__file__).parents[1])"
    installed = Path(run(image, "python", "-c", print_place, cwd=tmp_path).strip())
    assert installed.is_relative_to(image)
    expected = {
        path.relative_to(ROOT)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {path for path in expected if not (installed / path).is_file()} == set()

    print_jars = "from kstreams_worker.devbroker.jars import jars_directory as d; print(d('broker'), d('spark'))"
    found = run(image, "python", "-c", print_jars, cwd=tmp_path).split()
    assert found == [str(jars_directory("broker")), str(jars_directory("spark"))]


def test_no_installer_is_left_in_the_virtual_environment(image: Path) -> None:
    assert not list((image / "opt/venv/bin").glob("pip*"))


def test_the_final_image_runs_the_command_as_process_1_and_not_as_root() -> None:
    assert final("USER") == ["10001:10001"]
    assert final_command()[0] == "kstreams-worker", "exec form: a shell would not pass signals on"
    assert not [value for _, value in stages()["runtime"] if "pip" in value or "apt-get" in value]


def test_the_environment_of_the_image_is_made_of_settings(tmp_path: Path) -> None:
    """And the state goes to the volume, and the pages are served where a probe can reach them."""
    settings = Settings.load(
        env={**environment(), "KSTREAMS_APPLICATION_ID": "orders", "KSTREAMS_BOOTSTRAP_SERVERS": "kafka:9092"}
    )
    assert [str(settings.state_dir)] == final("VOLUME")
    assert settings.http_host == "0.0.0.0"
    assert [str(settings.http_port)] == final("EXPOSE")


@pytest.mark.parametrize(("status", "exit_code"), [(200, 0), (503, 1)])
def test_the_health_check_asks_for_the_page_live(status: int, exit_code: int) -> None:
    asked = []

    class Pages(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    (check,) = final("HEALTHCHECK")
    program, *arguments = json.loads(check.partition("CMD ")[2])
    assert program == "python"
    with http.server.HTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.handle_request).start()
        answer = subprocess.run(
            [sys.executable, *arguments], env={"KSTREAMS_HTTP_PORT": str(server.server_port)}, check=False
        )
    assert asked == ["/live"]
    assert answer.returncode == exit_code


def test_the_build_is_given_what_it_copies_and_little_else() -> None:
    """.dockerignore lets through what the stages copy from the repository."""
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source
        for stage in stages().values()
        for instruction, value in stage
        if instruction == "COPY" and "--from" not in value
        for source in shlex.split(value)[:-1]
    }
    assert {source for source in copied if not any(Path(source).is_relative_to(path) for path in allowed)} == set()
    assert allowed <= copied


@pytest.mark.parametrize("path", ["deploy/Dockerfile", "examples/Dockerfile"])
def test_a_linter_has_nothing_to_say(path: str) -> None:
    linter = Path(sys.executable).parent / "hadolint"
    checked = subprocess.run([linter, "--no-color", ROOT / path], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")
