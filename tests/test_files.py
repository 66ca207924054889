"""Output files: whole or as before, never through another user's link, never on a device."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from envguard.cli.main import main
from envguard.files import write_atomically

pytestmark = pytest.mark.skipif(os.name != "posix", reason="links, FIFOs and devices of POSIX")
AS_ROOT = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root makes files of another user"
)
OTHER = 65534
EXPLAIN = ["explain", "GPU001", "--format", "json"]


def shared(folder: Path) -> Path:
    """A folder where everybody may write, as /tmp."""
    place = folder / "shared"
    place.mkdir()
    place.chmod(0o1777)
    return place


def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", "text")
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_the_mode_of_a_file_that_is_replaced_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    path.chmod(0o604)
    write_atomically(path, b"new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    write_atomically(tmp_path / ("n" * 255), "text")
    assert (tmp_path / ("n" * 255)).read_text() == "text"


@pytest.mark.parametrize("target", ["../b/file", "new", "{absolute}"])
def test_a_link_keeps_pointing_to_its_target(tmp_path: Path, target: str) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    link = tmp_path / "a" / "link"
    link.symlink_to(target.format(absolute=tmp_path / "b" / "file"))
    write_atomically(link, "text")
    assert link.is_symlink()
    assert link.read_text() == "text"


def test_links_on_the_way_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(tmp_path / "real", target_is_directory=True)
    monkeypatch.chdir(tmp_path / "real")
    write_atomically(Path("../one/./../one/file"), "text")
    assert (tmp_path / "real" / "file").read_text() == "text"


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(tmp_path / "a", "text")


def test_an_own_link_in_a_shared_folder_is_followed(tmp_path: Path) -> None:
    link = shared(tmp_path) / "link"
    link.symlink_to(tmp_path / "target")
    write_atomically(link, "text")
    assert (tmp_path / "target").read_text() == "text"


@AS_ROOT
@pytest.mark.parametrize("is_folder", [False, True])
@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_a_link_that_another_user_planted_is_not_followed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int, is_folder: bool
) -> None:
    place = shared(tmp_path)
    place.chmod(mode)
    (tmp_path / "home").mkdir()
    victim = tmp_path / "home" / "victim"
    victim.write_text("precious")
    link = place / "link"
    link.symlink_to(victim.parent if is_folder else victim)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    path = link / "victim" if is_folder else link
    assert main([*EXPLAIN, "-o", str(path)]) == 2
    assert "another user's link, where everybody may write" in capsys.readouterr().err
    assert victim.read_text() == "precious"
    assert sorted(tmp_path.rglob("*")) == sorted([place, link, victim.parent, victim])


@AS_ROOT
def test_the_mode_of_another_users_file_in_a_shared_folder_is_not_taken(tmp_path: Path) -> None:
    path = shared(tmp_path) / "planted"
    path.touch()
    path.chmod(0o666)
    os.chown(path, OTHER, OTHER)
    write_atomically(path, "text")
    assert path.stat().st_uid == os.geteuid()
    assert not path.stat().st_mode & stat.S_IWOTH


@AS_ROOT
def test_a_fifo_that_another_user_planted_is_not_written_to(tmp_path: Path) -> None:
    path = shared(tmp_path) / "planted"
    os.mkfifo(path)
    os.chown(path, OTHER, OTHER)
    with pytest.raises(OSError, match="another user's"):
        write_atomically(path, "text")


def test_a_fifo_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    writer = threading.Thread(target=write_atomically, args=(path, "text"))
    writer.start()
    assert path.read_text() == "text"
    writer.join()
    assert stat.S_ISFIFO(path.stat().st_mode)


@AS_ROOT
@pytest.mark.parametrize("kind", [stat.S_IFBLK, stat.S_IFCHR])
def test_a_device_is_not_written_to(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "device"
    try:
        os.mknod(path, kind | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container makes no devices")
    (tmp_path / "link").symlink_to("device")
    for name in ("device", "link"):
        with pytest.raises(OSError, match=r"is neither a file|is a device"):
            write_atomically(tmp_path / name, "text")


def test_folders_and_missing_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="is a directory"):
        write_atomically(tmp_path, "text")
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "none" / "file", "text")


@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
@pytest.mark.parametrize("redirect", ["| cat", ">> out; cat out"])
def test_streams_are_written_where_they_stand(tmp_path: Path, name: str, redirect: str) -> None:
    if not Path(name).exists():
        pytest.skip(f"no {name} here")
    (tmp_path / "out").write_text("before\n")
    words = f'"$0" -m envguard explain GPU001 -q -o {name} {redirect}'
    done = subprocess.run(
        ["/bin/sh", "-c", words, sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    assert done.stderr == ""
    head = "before\n" if ">>" in redirect else ""
    assert done.stdout.startswith(head)
    assert ("fix" in done.stdout) == (name != "/dev/null")
