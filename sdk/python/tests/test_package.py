"""The package as it is uploaded: it builds, its metadata is accepted, and what is in it works without the clone."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def _run(*words: str, cwd: Path, **environment: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=cwd, env={"PATH": "/usr/bin:/bin", **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_builds_and_is_accepted_and_can_be_imported(tmp_path: Path) -> None:
    # A build writes beside the sources.
    source, built, installed = tmp_path / "source", tmp_path / "dist", tmp_path / "installed"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", "dist", "tests")
    shutil.copytree(PACKAGE, source, ignore=ignored)
    _run("-m", "build", "--no-isolation", "--outdir", str(built), cwd=source)
    wheel = next(built.glob("*.whl"))
    archive = next(built.glob("*.tar.gz"))
    _run("-m", "twine", "check", "--strict", str(wheel), str(archive), cwd=tmp_path)

    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
        about = email.message_from_bytes(files.read(next(name for name in names if name.endswith("/METADATA"))))
        files.extractall(installed)
    assert {"event_hub_client/py.typed", "event_hub_client/outbox/django.py", "event_hub_client/sync.py"} <= names
    assert not [name for name in names if not name.startswith("event_hub_client")]
    assert {name.rsplit("/", 1)[1] for name in names if "/licenses/" in name} == {"LICENSE-APACHE", "LICENSE-MIT"}
    assert about["License-Expression"] == "MIT OR Apache-2.0"
    assert about["Requires-Python"] == ">=3.10"
    assert [needed for needed in about.get_all("Requires-Dist", []) if "extra" not in needed] == ["websockets>=15"]
    needed = "import event_hub_client, event_hub_client.sync, event_hub_client.outbox; print(event_hub_client.__version__)"
    assert _run("-c", needed, cwd=tmp_path, PYTHONPATH=str(installed)).strip() == about["Version"]


def test_nothing_happens_at_import_and_only_websockets_is_loaded(tmp_path: Path) -> None:
    loaded = """
import sys, threading
before = set(sys.modules)
import event_hub_client.sync, event_hub_client.outbox
names = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(sorted(names), threading.active_count())
"""
    printed = _run("-c", loaded, cwd=tmp_path, PYTHONPATH=str(PACKAGE / "src"))
    assert printed.strip() == "['event_hub_client', 'websockets'] 1"
