"""``envguard matrix update`` and ``verify --packages`` against servers on this machine."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from envguard.cli.main import main
from envguard.cli.tables import _digest
from envguard.matrix.store import read_table
from scripts.pack_matrix import main as pack
from tests.web.test_registry import write_wheel

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads(files("envguard.render").joinpath("matrix.schema.json").read_text())
Capture = pytest.CaptureFixture[str]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log, and notes what was asked for."""

    asked: list[str]

    def log_message(self, *args: object) -> None:
        self.asked.append(self.path)


class Served:
    """A folder that a server shows.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        handler = type("Noting", (Quiet,), {"asked": self.asked})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("ENVGUARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("ENVGUARD_MATRIX_URL", raising=False)
    (tmp_path / "served").mkdir()
    place = Served(tmp_path / "served")
    thread = threading.Thread(target=place.server.serve_forever, daemon=True)
    thread.start()
    yield place
    place.server.shutdown()
    place.server.server_close()
    thread.join()


def tables(tmp_path: Path, version: str) -> Path:
    """A copy of the shipped tables with another date."""
    folder = tmp_path / f"tables-{version}"
    shutil.copytree(ROOT / "compat_matrix", folder, ignore=shutil.ignore_patterns("*.py*"))
    manifest = folder / "manifest.toml"
    manifest.write_text(manifest.read_text().replace("2026.11.30", version))
    return folder


@pytest.fixture
def newer(tmp_path: Path, served: Served) -> Path:
    """Tables of a later date, packed into the served folder."""
    folder = tables(tmp_path, "2027.01.31")
    assert pack([str(served.folder), "--matrix", str(folder)]) == 0
    return folder


def updated(capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(["matrix", "update", *words]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def refused(capsys: Capture, *words: str, code: int = 2) -> str:
    capsys.readouterr()
    assert main(["matrix", "update", *words]) == code
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def kept(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "cache" / "matrix"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def test_newer_tables_are_fetched_checked_and_kept(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    text = updated(capsys, "--from", f"{served.url}/release.json")
    (folder,) = kept(tmp_path)
    archive = served.folder / "envguard-matrix-2027.01.31.zip"
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    assert text == (
        f"tables of 2027.01.31 were fetched from {served.url}/{archive.name}\n"
        f"sha256 {digest}\n"
        f"they are used where they are named: --matrix {folder}\n"
    )
    assert folder.name == f"2027.01.31-{digest[:12]}"
    for name in ("manifest.toml", "torch.toml", "packages/vllm.toml"):
        assert read_table(folder, name) == read_table(newer, name)
    assert not list(folder.rglob("*.toml")), "tables that nobody edits are kept decoded"


def test_fetched_tables_are_used_where_they_are_named_only(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    updated(capsys, "--from", f"{served.url}/release.json")
    (folder,) = kept(tmp_path)
    assert main(["matrix", "show"]) == 0
    assert capsys.readouterr().out.startswith("tables of 2026.11.30;")
    assert main(["matrix", "show", "--matrix", str(folder)]) == 0
    assert capsys.readouterr().out.startswith("tables of 2027.01.31;")


def test_the_address_comes_from_the_environment_too(
    capsys: Capture, served: Served, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVGUARD_MATRIX_URL", f"{served.url}/release.json")
    assert updated(capsys).startswith("tables of 2027.01.31 were fetched")


def test_what_is_kept_already_is_not_fetched_again(
    capsys: Capture, served: Served, newer: Path
) -> None:
    first = updated(capsys, "--from", f"{served.url}/release.json")
    del served.asked[:]
    again = updated(capsys, "--from", f"{served.url}/release.json")
    assert again.startswith(
        "tables of 2027.01.31 were fetched before: the copy in the cache was used\n"
    )
    assert again.splitlines()[1:] == first.splitlines()[1:]
    assert served.asked == ["/release.json"]
    answer = updated(capsys, "--from", f"{served.url}/release.json", "--format", "json")
    assert json.loads(answer)["from_cache"] is True


def test_a_hash_that_the_user_states_must_be_that_of_the_archive(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    address = ("--from", f"{served.url}/release.json")
    digest = hashlib.sha256(
        (served.folder / "envguard-matrix-2027.01.31.zip").read_bytes()
    ).hexdigest()
    assert f"--sha256 names {'0' * 64}" in refused(capsys, *address, "--sha256", "0" * 64)
    assert "is no sha256" in refused(capsys, *address, "--sha256", "abc")
    assert kept(tmp_path) == []
    assert "were fetched from" in updated(capsys, *address, "--sha256", f"sha256:{digest.upper()}")


def changed_signals(folder: Path, regex: str) -> None:
    """Tables of which one pattern is another one."""
    path = folder / "causes" / "host_memory.toml"
    text = path.read_text(encoding="utf-8")
    opening = "regex = '''"
    start = text.index(opening, text.index('id = "cgroup-v2-oomkill"')) + len(opening)
    end = text.index("'''\n", start)
    path.write_text(text[:start] + regex + text[end:], encoding="utf-8")


EXPONENTIAL = "oom_kill (?:a|a[b-z]?|ab?)*(?P<n>[1-9])"


def test_a_release_with_a_pattern_that_can_be_made_to_hang_is_refused(
    capsys: Capture, tmp_path: Path, served: Served
) -> None:
    folder = tables(tmp_path, "2027.01.31")
    changed_signals(folder, EXPONENTIAL)
    assert pack([str(served.folder), "--matrix", str(folder)]) == 0
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "causes/host_memory.toml: signature[" in said
    assert "regex (cgroup-v2-oomkill): 'oom_kill (?:a|a[b-z]?|ab?)*" in said
    assert "s for a megabyte" in said
    assert kept(tmp_path) == []


def test_verify_names_a_pattern_of_a_users_tables_that_can_be_made_to_hang(
    capsys: Capture, tmp_path: Path
) -> None:
    folder = tables(tmp_path, "2027.01.31")
    changed_signals(folder, EXPONENTIAL)
    assert main(["matrix", "verify", "--matrix", str(folder)]) == 1
    assert "(cgroup-v2-oomkill): 'oom_kill" in capsys.readouterr().out


def test_a_users_tables_are_tried_once(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENVGUARD_CACHE_DIR", str(tmp_path / "cache"))
    folder = tables(tmp_path, "2027.01.31")
    show = ["matrix", "show", "--matrix", str(folder)]
    assert main(show) == 0
    (mark,) = (tmp_path / "cache" / "tried").iterdir()
    # tables that stand marked as tried are not tried again, others are
    changed_signals(folder, EXPONENTIAL)
    assert main(show) == 2
    assert "(cgroup-v2-oomkill): 'oom_kill" in capsys.readouterr().err
    assert list((tmp_path / "cache" / "tried").iterdir()) == [mark]
    forged = mark.with_name(_digest(folder))
    forged.touch(mode=0o600)
    assert main(show) == 0
    forged.parent.chmod(0o777)  # anybody could have left the mark
    assert main(show) == 2


def test_a_version_that_is_none_is_named_with_its_place(capsys: Capture, tmp_path: Path) -> None:
    folder = tables(tmp_path, "2027.01.31")
    path = folder / "packages" / "xformers.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub('\nversion = "[^"]*"', '\nversion = "1e5"', text, count=1))
    assert main(["matrix", "verify", "--matrix", str(folder)]) == 1
    assert "'1e5'" in capsys.readouterr().out


def test_tables_that_are_not_newer_are_left_where_they_are(
    capsys: Capture, tmp_path: Path, served: Served
) -> None:
    assert pack([str(served.folder), "--matrix", str(ROOT / "compat_matrix")]) == 0
    text = updated(capsys, "--from", f"{served.url}/release.json")
    assert text == "nothing newer: 2026.11.30 is offered, 2026.11.30 is in use\n"
    assert served.asked == ["/release.json"]
    assert kept(tmp_path) == []


def test_newer_means_newer_than_the_tables_in_use(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    later = tables(tmp_path, "2027.06.30")
    words = ("--from", f"{served.url}/release.json", "--matrix", str(later))
    assert updated(capsys, *words).startswith("nothing newer: 2027.01.31 is offered, 2027.06.30")


def test_an_update_as_a_document(capsys: Capture, served: Served, newer: Path) -> None:
    found = json.loads(updated(capsys, "--from", f"{served.url}/release.json", "--format", "json"))
    jsonschema.validate(found, SCHEMA)
    assert found["found"] == "2027.01.31"
    assert Path(found["folder"]).is_dir()


def change(served: Served, **fields: Any) -> None:
    path = served.folder / "release.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_an_archive_with_another_hash_is_not_kept(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    change(served, sha256="0" * 64)
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "is not what its document says" in said
    assert kept(tmp_path) == []


def test_an_archive_that_is_longer_than_stated_is_not_read(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    change(served, size=1000)
    said = refused(capsys, "--from", f"{served.url}/release.json", code=3)
    assert "larger than 1000 bytes" in said
    assert kept(tmp_path) == []


def repack(served: Served, folder: Path) -> None:
    """Pack tables although they break a promise."""
    path = served.folder / "broken.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for table in folder.rglob("*.toml"):
            archive.write(table, table.relative_to(folder).as_posix())
    raw = path.read_bytes()
    change(served, archive=path.name, sha256=hashlib.sha256(raw).hexdigest(), size=len(raw))


def test_tables_that_break_a_promise_are_not_kept(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    drivers = newer / "drivers.toml"
    drivers.write_text(drivers.read_text().replace('linux = "570.26"', 'linux = "170.26"'))
    repack(served, newer)
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "problems: drivers.toml: toolkit_driver[" in said
    assert kept(tmp_path) == []


def test_tables_of_a_newer_schema_are_not_kept(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    (newer / "manifest.toml").write_text('schema_version = 9\ndata_version = "2027.01.31"\n')
    repack(served, newer)
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "schema_version: 9 is not the one this envguard reads" in said
    assert kept(tmp_path) == []


def test_tables_of_another_date_than_stated_are_not_kept(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    change(served, data_version="2027.02.28")
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "its tables are of 2027.01.31, not of 2027.02.28" in said
    assert kept(tmp_path) == []


def test_a_cache_that_cannot_be_written_is_an_error_of_the_user(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    said = refused(capsys, "--from", f"{served.url}/release.json")
    assert "cannot be written: " in said


def test_without_an_address_nothing_is_asked(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENVGUARD_MATRIX_URL", raising=False)
    assert refused(capsys) == (
        "envguard: error: matrix update: no address is known\n"
        "  hint: name one with --from URL, or with ENVGUARD_MATRIX_URL\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--from", "http://data.example/release.json"), "only https addresses are asked"),
        (("--from", "release.json"), "only https addresses are asked"),
        (("--from", "https://data.example/release.json", "--offline"), "--offline forbids it"),
        (("torch", "--from", "https://data.example/release.json"), "takes no name"),
    ],
)
def test_wrong_usage_is_said(capsys: Capture, words: tuple[str, ...], said: str) -> None:
    assert said in refused(capsys, *words)


def test_a_server_without_the_document_could_not_tell(capsys: Capture, served: Served) -> None:
    said = refused(capsys, "--from", f"{served.url}/release.json", code=3)
    assert "there is no such page: 404 Not Found" in said


def test_a_page_that_is_no_document_is_refused(capsys: Capture, served: Served) -> None:
    (served.folder / "release.json").write_text("<html>sign in</html>")
    assert "not a release document" in refused(capsys, "--from", f"{served.url}/release.json")


def test_tables_that_break_a_promise_are_not_packed(
    capsys: Capture, tmp_path: Path, served: Served, newer: Path
) -> None:
    (newer / "uv.toml").unlink()
    assert pack([str(tmp_path / "out"), "--matrix", str(newer)]) == 1
    assert "uv.toml: cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.fixture
def demo(tmp_path: Path, served: Served) -> Path:
    """Tables with a row about a package that the served registry holds in another form."""
    page = served.folder / "simple" / "demo-wheel"
    page.mkdir(parents=True)
    wheel = write_wheel(page)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (page / "index.html").write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>')
    folder = tables(tmp_path, "2026.11.30")
    (folder / "packages" / "demo-wheel.toml").write_text(
        'name = "demo-wheel"\nreleases = "all"\n'
        'release = [{ version = "1.2.0", python = ">=3.8", requires = { torch = "==2.7.0" }, '
        'source = "wheel", confidence = "metadata" }]\n'
        '[sources]\nwheel = { url = "a wheel", checked = "2026-11-29" }\n'
    )
    return folder


def test_drift_from_the_registry_fails(capsys: Capture, served: Served, demo: Path) -> None:
    words = ["matrix", "verify", "demo-wheel", "--packages", "--matrix", str(demo)]
    assert main([*words, "--index-url", f"{served.url}/simple"]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out == (
        "drift: packages/demo-wheel.toml: 1.2.0: requires.torch: '==2.7.0', found '==2.8.0'\n"
    )
    assert main([*words, "--index-url", f"{served.url}/simple", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, SCHEMA)
    assert found["problems"] == []
    assert len(found["drift"]) == 1


def test_rows_that_agree_with_the_registry_hold(
    capsys: Capture, served: Served, demo: Path
) -> None:
    path = demo / "packages" / "demo-wheel.toml"
    path.write_text(path.read_text().replace("==2.7.0", "==2.8.0"))
    words = ["matrix", "verify", "demo-wheel", "--packages", "--matrix", str(demo)]
    assert main([*words, "--index-url", f"{served.url}/simple"]) == 0
    assert capsys.readouterr().out == (
        "the tables of 2026.11.30 hold what they promise and agree with the registry\n"
    )
