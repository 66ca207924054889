from __future__ import annotations

import hashlib
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from packaging.version import Version

from envguard.errors import NetworkError
from envguard.facts.published import Published
from envguard.web.registry import (
    Registry,
    parse_pip_report,
    parse_pip_versions,
    parse_pylock_addresses,
    parse_pylock_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METADATA = """\
Metadata-Version: 2.1
Name: demo-wheel
Version: 1.2.0
Requires-Python: >=3.8
Requires-Dist: torch ==2.8.0
Requires-Dist: numpy
Requires-Dist: deepspeed >=0.14 ; extra == 'deepspeed'
Provides-Extra: deepspeed
"""


def write_wheel(folder: Path) -> Path:
    """The smallest wheel that pip and uv accept."""
    path = folder / "demo_wheel-1.2.0-py3-none-any.whl"
    info = "demo_wheel-1.2.0.dist-info"
    files = {
        "demo_wheel.py": "",
        f"{info}/METADATA": METADATA,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A registry on this machine that holds one release."""
    folder = tmp_path / "simple" / "demo-wheel"
    folder.mkdir(parents=True)
    wheel = write_wheel(folder)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (folder / "index.html").write_text(
        f'<a href="{wheel.name}#sha256={digest}" data-requires-python="&gt;=3.8">{wheel.name}</a>'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/simple"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_versions_of_a_package_are_listed(index: str) -> None:
    assert Registry(index).versions("demo-wheel") == (Version("1.2.0"),)


def test_a_release_is_read_with_its_metadata_and_files(index: str) -> None:
    published = Registry(index).release("demo-wheel", Version("1.2.0"), "3.12")
    assert published == Published(
        name="demo-wheel",
        version=Version("1.2.0"),
        requires_python=">=3.8",
        requires=("torch ==2.8.0", "numpy", "deepspeed >=0.14 ; extra == 'deepspeed'"),
        wheels=("demo_wheel-1.2.0-py3-none-any.whl",),
    )


def test_a_release_that_is_not_there_is_an_error_of_the_network(index: str) -> None:
    with pytest.raises(NetworkError, match="pip install failed: ERROR: No matching distribution"):
        Registry(index).metadata("demo-wheel", Version("9.9"), "3.12")


def test_a_registry_that_does_not_answer_is_an_error_of_the_network() -> None:
    with pytest.raises(NetworkError, match="pip index failed"):
        Registry("http://127.0.0.1:9/simple").versions("demo-wheel")


ENTRY = {
    "metadata": {"version": "1.0", "requires_python": ">=3.9", "requires_dist": ["torch>=2"]},
    "is_yanked": True,
}


def test_the_words_of_pip_on_versions_are_read() -> None:
    text = (
        "demo (1.10)\nAvailable versions: 1.10, 1.9rc1, 1.0, odd-one\n"
        "  INSTALLED: 1.0\n  LATEST:    1.10\n"
    )
    assert parse_pip_versions(text, "demo") == (Version("1.10"), Version("1.9rc1"), Version("1.0"))


@pytest.mark.parametrize("text", ["", "demo (1.10)\n", '{"versions": ["1.0"]}'])
def test_other_words_on_versions_are_refused(text: str) -> None:
    with pytest.raises(NetworkError, match="pip's answer on the versions of demo has an unknown"):
        parse_pip_versions(text, "demo")


def test_a_pip_that_does_not_say_what_was_withdrawn_leaves_it_open() -> None:
    entry = {"metadata": ENTRY["metadata"]}
    assert parse_pip_report({"version": "1", "install": [entry]}, "demo").is_yanked is None


def test_a_report_of_pip_is_read() -> None:
    published = parse_pip_report({"version": "1", "install": [ENTRY]}, "Demo_Wheel")
    assert published.name == "demo-wheel"
    assert published.requires == ("torch>=2",)
    assert published.is_yanked


@pytest.mark.parametrize(
    "report",
    [{}, {"install": []}, {"install": [{}]}, {"install": [{"metadata": {"version": "x y"}}]}, []],
)
def test_another_report_is_refused(report: object) -> None:
    with pytest.raises(NetworkError, match="pip's report on demo has an unknown form"):
        parse_pip_report(report, "demo")


PUBLISHED = Published("demo", Version("1.0"), "", ())


def test_files_of_a_lock_are_read() -> None:
    wheels = [
        {"name": "demo-1.0-cp312-cp312-win_amd64.whl", "upload-time": "2026-03-02T10:00:00Z"},
        {"url": "https://index.example/demo-1.0-cp311-cp311-any.whl", "upload-time": "2026-03-01"},
    ]
    sdist = {"name": "demo-1.0.tar.gz", "upload-time": "2026-02-27T09:00:00Z"}
    package = {"name": "demo", "wheels": wheels, "sdist": sdist}
    published = parse_pylock_files({"packages": [package]}, PUBLISHED)
    assert published.wheels == (
        "demo-1.0-cp311-cp311-any.whl",
        "demo-1.0-cp312-cp312-win_amd64.whl",
    )
    assert published.released == "2026-02-27"


def test_a_release_without_wheels_lists_none() -> None:
    published = parse_pylock_files({"packages": [{"name": "demo"}]}, PUBLISHED)
    assert (published.wheels, published.released) == ((), "")


@pytest.mark.parametrize("document", [{}, {"packages": []}, {"packages": [{"wheels": [{}]}]}])
def test_another_lock_is_refused(document: object) -> None:
    with pytest.raises(NetworkError, match="the lock of demo has an unknown form"):
        parse_pylock_files(document, PUBLISHED)


def test_the_addresses_of_wheels_are_read_from_a_lock(index: str) -> None:
    addresses = Registry(index).addresses("demo-wheel", Version("1.2.0"), "3.12")
    assert addresses == (f"{index}/demo-wheel/demo_wheel-1.2.0-py3-none-any.whl",)


def test_a_lock_of_files_gives_paths() -> None:
    wheels = [{"path": "files/demo-1.0-py3-none-any.whl"}, {"url": "https://index.example/b.whl"}]
    document = {"packages": [{"name": "demo", "wheels": wheels}]}
    assert parse_pylock_addresses(document, "demo") == (
        "files/demo-1.0-py3-none-any.whl",
        "https://index.example/b.whl",
    )
    with pytest.raises(NetworkError, match="the lock of demo has an unknown form"):
        parse_pylock_addresses({"packages": []}, "demo")
