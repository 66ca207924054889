"""Looks at the pages of indexes beside uv, and ends uv where one would keep it for ever."""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Self

from packaging.utils import canonicalize_name

from envguard.errors import EnvguardError, NetworkError
from envguard.lock.project import asked_for
from envguard.lock.uv import MemoryLimitError, RunningUv, default_index
from envguard.redaction import clean_text
from envguard.web.failures import HarmfulPageError, StatusError, UnclearError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from envguard.lock.project import Problem
    from envguard.web.client import Web
    from envguard.web.lock_limits import LockLimits


GRACE_S = 1.5
_WORKERS = 4
_ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
_SAYS_WHEN = frozenset({429, 503})
_TORCH = canonicalize_name("torch")


class IndexWatch:
    """A look at the pages that a problem names; used as a context around a run of uv.

    Args:
        problem: What uv resolves.
        variables: The environment that it runs in.
        limits: What the lock may take.
    """

    def __init__(self, problem: Problem, variables: Mapping[str, str], limits: LockLimits) -> None:
        self.started = RunningUv()
        self._variables, self._limits = variables, limits
        self._is_offline = problem.is_offline
        pages = () if problem.is_offline else dict.fromkeys(_pages(problem, variables))
        self._pages = tuple(page for page in pages if page not in limits.looked_at)
        self._trouble: HarmfulPageError | None = None
        self._is_over = False
        self._timer = threading.Timer(GRACE_S, self._look)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        """Begin to wait for the moment to look."""
        if self._pages:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, _: TracebackType | None
    ) -> None:
        """Give it up."""
        self._is_over = True
        self._timer.cancel()

    def explain(self, err: EnvguardError) -> EnvguardError:
        """What a failure of uv comes from: what was seen on a page, else the failure itself."""
        if self._trouble is not None:
            return self._trouble
        again: tuple[str, ...] = ()
        if isinstance(err, MemoryLimitError):
            again = self._pages
        elif isinstance(err, UnclearError):
            again = (err.url,)
        elif isinstance(err, StatusError) and err.status in _SAYS_WHEN:
            again = (err.url,)  # the header that says when to come back is in no error of uv
        return next(self._troubles(again), err) if not self._is_offline else err

    def _troubles(self, pages: tuple[str, ...]) -> Iterator[NetworkError]:
        web = self._web()
        for page in pages:
            try:
                web.look(page, accept=_ACCEPT)
            except (HarmfulPageError, StatusError) as err:
                yield err
            except NetworkError:
                continue  # uv's own words say more

    def _look(self) -> None:
        """Look at all pages, a few at a time."""
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for page in self._pages:
            waiting.put(page)
        for _ in range(min(_WORKERS, len(self._pages))):
            threading.Thread(target=self._work, args=(waiting,), daemon=True).start()

    def _work(self, waiting: queue.SimpleQueue[str]) -> None:
        web = self._web()
        with contextlib.suppress(queue.Empty):
            while not self._is_over:
                self._look_at(waiting.get_nowait(), web)

    def _look_at(self, page: str, web: Web) -> None:
        try:
            try:
                web.look(page, accept=_ACCEPT)
            except HarmfulPageError as err:
                if not err.is_silence:
                    raise
                web.look(page, accept=_ACCEPT)  # a server may be slow once
            self._limits.looked_at.add(page)
        except HarmfulPageError as err:
            if not self._is_over:
                self._trouble = err
                self.started.end()
        except NetworkError:
            return  # uv comes upon it too, tries again, and says what it is

    def _web(self) -> Web:
        from envguard.web.client import Timeouts, Web  # loads requests

        stated = self._variables.get("UV_HTTP_TIMEOUT", "")
        usual, whole_s = Timeouts(), self._limits.time_s
        patience_s = float(stated) if stated.isdecimal() and int(stated) else usual.read_s
        timeouts = Timeouts(
            connect_s=min(usual.connect_s, whole_s / 6),
            read_s=min(patience_s, whole_s / 6),
            page_s=min(max(usual.page_s, patience_s), whole_s / 2),
        )
        authorities = self._variables.get("SSL_CERT_FILE", "")
        return Web(timeouts=timeouts, limits=self._limits, authorities=authorities)


def _pages(problem: Problem, variables: Mapping[str, str]) -> Iterator[str]:
    """The pages that uv will surely ask for, as far as their addresses are known."""
    asked = sorted(asked_for(problem) | {_TORCH})
    rest = problem.default_index or default_index(variables)
    if problem.is_flat:
        yield problem.torch_index
    for name in asked:
        index = problem.torch_index if name in problem.family else rest
        is_flat = problem.is_flat and index == problem.torch_index
        if index and index.startswith(("http://", "https://")) and not is_flat:
            yield f"{index.rstrip('/')}/{name}/"


def indexes_of(problem: Problem, variables: Mapping[str, str]) -> str:
    """The indexes of a problem, for messages."""
    rest = problem.default_index or default_index(variables) or "the configured index"
    return " and ".join(dict.fromkeys(map(clean_text, (problem.torch_index, rest))))
