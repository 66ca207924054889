# Runs inside the inspected interpreter, which was started with -I -S: standard library only,
# Python 3.8 syntax, no envguard import.
"""Where this interpreter would look up imports, found without running what it would run.

``site`` runs lines of ``.pth`` files and imports ``sitecustomize`` and ``usercustomize``, and
PYTHONPATH puts modules before those of the standard library. Here all of that is text; the
interpreter's own ``site`` is only asked for the folders that its makers chose.

Source: https://docs.python.org/3/library/site.html
"""

from __future__ import annotations

import os
import re
import stat
import sys

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LIMIT = 1048576
_LINE_ENDS = re.compile("\r\n|\r|\n")  # of a text file; str.splitlines knows many more
_ADD_SITE = re.compile(r"import site; ?site\.addsitedir\((['\"])([^'\"\\]{1,4096})\1\)\s*")
# easy_install wrote these round the eggs that it put before site-packages.
_EGGS_BEGIN = "import sys; sys.__plen = len(sys.path)"
_EGGS_END = "import sys; new=sys.path[sys.__plen:]; del sys.path[sys.__plen:];"
_MODULE_ENDS = ("/__init__.py", ".py", ".pyc")


def find_path(environ: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Work out ``sys.path``, and give ``sys.prefix`` the value that ``site`` would give it.

    Args:
        environ: What -I made the interpreter leave out: PYTHONPATH, PYTHONHOME, PYTHONNOUSERSITE.

    Returns:
        The path, and the files whose code a start of this interpreter would run.
    """
    import site

    skips_hidden = hasattr(site, "stat") or sys.version_info >= (3, 13)  # needed for the mark
    _enter_home(environ.get("PYTHONHOME", ""))
    own = environ.get("PYTHONPATH", "")
    path = ImportPath([*(own.split(os.pathsep) if own else ()), *sys.path], skips_hidden)
    prefixes = [sys.base_prefix, sys.base_exec_prefix]
    uses_user = _may_use_user_site(environ)
    venv, is_open = _virtual_environment()
    if venv:
        sys.prefix = sys.exec_prefix = venv
        path.add_sites(site.getsitepackages([venv]))
        prefixes = [venv, *prefixes] if is_open else [venv]
        uses_user = uses_user and is_open
    if uses_user:
        path.add_sites([site.getusersitepackages()])
    path.add_sites(site.getsitepackages(prefixes))
    path.note_start_up("sitecustomize", environ)
    if uses_user:
        path.note_start_up("usercustomize", environ)
    return path.entries, path.code


def _enter_home(home: str) -> None:
    """Take on the prefixes that PYTHONHOME sets, with the standard library below them."""
    if not home:
        return
    prefix, _, other = home.partition(os.pathsep)
    exec_prefix = other or prefix
    library = _moved(os.path.dirname(os.__file__), sys.base_prefix, prefix)
    if not os.path.isfile(os.path.join(library, "os.py")):
        sys.exit("Python would not start: PYTHONHOME leads to " + library + ", which has no os.py")
    sys.path[:] = [
        _moved(entry, sys.base_exec_prefix, exec_prefix)
        if os.path.basename(entry) in ("lib-dynload", "DLLs")
        else _moved(entry, sys.base_prefix, prefix)
        for entry in sys.path
    ]
    sys.prefix = sys.base_prefix = prefix
    sys.exec_prefix = sys.base_exec_prefix = exec_prefix


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path.startswith(old) else path


def _may_use_user_site(environ: Mapping[str, str]) -> bool:
    """Neither forbidden nor a program that runs with the rights of somebody else."""
    if environ.get("PYTHONNOUSERSITE"):
        return False
    if hasattr(os, "getuid") and os.getuid() != os.geteuid():
        return False
    return not (hasattr(os, "getgid") and os.getgid() != os.getegid())


def _virtual_environment() -> tuple[str, bool]:
    """Its folder, empty without one, and whether it shows what its base has installed."""
    if not sys.executable:
        return "", True
    folder = os.path.dirname(os.path.abspath(sys.executable))
    for place in (folder, os.path.dirname(folder)):
        text = read_text(os.path.join(place, "pyvenv.cfg"))
        if text is not None:
            return os.path.dirname(folder), _is_open(text)
    return "", True


def _is_open(text: str) -> bool:
    answer = "true"
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == "include-system-site-packages":
            answer = value.strip().lower()
    return answer == "true"


def read_text(path: str, limit: int = _LIMIT) -> str | None:
    """The text of a regular file, at most ``limit`` bytes; None when it cannot be read.

    Bytes that are no UTF-8 come back as they were when the text is used as a path. A pipe or a
    device in the place of a file would never end.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return os.read(handle, limit).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(handle)


class ImportPath:
    """A path under construction, each folder once, and the code that was met on the way.

    Args:
        entries: What stands on it before ``site`` adds to it.
        skips_hidden: Whether this ``site`` passes over ``.pth`` files that begin with a dot.
    """

    def __init__(self, entries: Iterable[str], skips_hidden: bool) -> None:
        self.entries: list[str] = []
        self.code: list[str] = []
        self._skips_hidden = skips_hidden
        self._known: set[str] = set()
        self._sites: set[str] = set()
        self._eggs_from = 0
        self._eggs_to = 0
        for entry in entries:
            self._add(entry)

    def add_sites(self, folders: Iterable[str | None]) -> None:
        """Add the folders that exist, and what their ``.pth`` files name."""
        for folder in folders:
            if folder and os.path.isdir(folder):
                self._add_site(os.path.abspath(folder))

    def note_start_up(self, module: str, environ: Mapping[str, str]) -> None:
        """Look for a module that every start of the interpreter imports."""
        places = [entry + "/" + module + end for entry in self.entries for end in _MODULE_ENDS]
        found = next((place for place in places if os.path.isfile(place)), None)
        if found is None:
            return
        self.code.append(found)
        # EasyBuild's own, on clusters: https://docs.easybuild.io/api/easybuild/framework/
        if environ.get("EBPYTHONPREFIXES") and "EBPYTHONPREFIXES" in (read_text(found) or ""):
            inner = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])
            prefixes = environ["EBPYTHONPREFIXES"].split(os.pathsep)
            self.add_sites(os.path.join(prefix, inner) for prefix in prefixes if prefix)

    def _add(self, entry: str) -> None:
        try:
            entry = os.path.abspath(entry)
        except OSError:  # a relative entry, and the working directory is gone
            return
        key = os.path.normcase(entry)
        if key not in self._known:
            self._known.add(key)
            self.entries.append(entry)

    def _add_site(self, folder: str) -> None:
        self._add(folder)
        if folder in self._sites:
            return  # its files were read
        self._sites.add(folder)
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(".pth"))
        except OSError:
            return
        for name in names:
            if not (self._skips_hidden and name.startswith(".")):
                self._read_pth(folder, os.path.join(folder, name))

    def _read_pth(self, folder: str, file: str) -> None:
        text = read_text(file) or ""
        if sys.version_info >= (3, 13):
            text = text[1:] if text.startswith("\ufeff") else text
        for line in _LINE_ENDS.split(text):
            if line.startswith("#") or not line.strip():
                continue
            if line.startswith(("import ", "import\t")):
                self._note_line(line, file)
                continue
            place = os.path.join(folder, line.rstrip())
            try:
                exists = os.path.exists(place)
            except ValueError:  # a NUL: site stops reading such a file
                return
            if exists:
                self._add(place)

    def _note_line(self, line: str, file: str) -> None:
        """Do what a line of code is known to do to the path; of any other say where it stands."""
        added = _ADD_SITE.fullmatch(line)
        if added:
            self.add_sites([added.group(2)])
        elif line.startswith(_EGGS_BEGIN):
            self._eggs_from = len(self.entries)
        elif line.startswith(_EGGS_END):
            eggs = self.entries[self._eggs_from :]
            del self.entries[self._eggs_from :]
            self.entries[self._eggs_to : self._eggs_to] = eggs
            self._eggs_to += len(eggs)
        elif file not in self.code:
            self.code.append(file)
