"""Signs of trouble that name no cause, and whether the run went on after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envguard.crash.case import Case
    from envguard.crash.log import Hit

# An exception that Python could not hand on is told with its traceback in the lines that follow.
_IGNORED_LINES = 40
# Steps after which a run is held to have gone on; ranks that have not noticed print fewer.
_STEPS = 10
_SIGNS = (
    "error-line",
    "nvrm-trouble",
    "hang-words",
    "crash-words",
    "worker-vanished",
    "traceback",
    "version-solving-failed",
    "no-solution-words",
)
_AT_WORK = ("phase:iteration", "phase:eval", "phase:save", "phase:teardown", "phase-save-done")
_OF_LAUNCHERS = (
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "ProcessRaisedException",
)


def went_on(case: Case, hit: Hit) -> bool:
    """Whether steps of training, or the end of the program, follow a line."""
    if case.exit_code == 0:
        return True
    end = case.log.last("came-to-its-end")
    if end is not None and end.order > hit.order:
        return True
    steps = ("life-signs", "phase:iteration")
    return sum(later.order > hit.order for later in case.log.all(*steps)) >= _STEPS


def worked_after(case: Case, hit: Hit) -> bool:
    """Whether the program trained, saved or ended well after a line that warned of something."""
    last = case.log.last(*_AT_WORK)
    return case.exit_code == 0 or (last is not None and last.order > hit.order)


def own_exceptions(case: Case) -> tuple[Hit, ...]:
    """Exceptions that ended the program: not a launcher's, not ignored, not survived."""
    ignored = [hit.order for hit in case.log.all("ignored-exception")]
    return tuple(
        hit
        for hit in case.log.all("python-exception")
        if not hit.groups["type"].endswith(_OF_LAUNCHERS)
        and not any(0 < hit.order - order <= _IGNORED_LINES for order in ignored)
        and not went_on(case, hit)
    )


def last_trouble(case: Case) -> Hit | None:
    """The latest line that says that something failed; None when nothing does, or it went on."""
    if case.exit_code == 0:
        return None
    ignored = [hit.order for hit in case.log.all("ignored-exception")]
    hits = [
        hit
        for hit in case.log.all(*_SIGNS)
        if not any(0 < hit.order - order <= _IGNORED_LINES for order in ignored)
    ]
    hits += [hit for hit in case.log.all("return-code-words", "torchrun-exitcode") if _failed(hit)]
    hits = [hit for hit in hits if not went_on(case, hit)]
    return max(hits, key=lambda hit: hit.order, default=None)


def _failed(hit: Hit) -> bool:
    return hit.number("code") not in {0, None}
