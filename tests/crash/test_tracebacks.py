"""What ended a traceback, whatever its class is called and whatever stands before its lines."""

from __future__ import annotations

import io

import pytest

from envguard.crash.scan import scan_stream
from tests.crash.logs import MATRIX

FRAMES = '  File "a.py", line 9, in <module>\n    main()\n'


def endings(text: str) -> list[str]:
    log = scan_stream(io.BytesIO(text.encode()), MATRIX, "x.log")
    return [hit.text for hit in log.matches.get("python-exception", ())]


@pytest.mark.parametrize(
    "last",
    [
        "StopIteration",
        "Exception: dataset is empty",
        "KeyboardInterrupt",
        "_queue.Empty",
        "mypkg.Boom: nothing left",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config",
        "huggingface_hub.errors.GatedRepo: 403",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory",
    ],
)
@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "    ",
        "> ",
        "[rank3]: ",
        "(pid=4101) ",
        "(WorkerDict pid=91, ip=10.0.0.3) ",
        "ERROR 05-01 10:11:12 [core.py:398] ",
        "2025-05-01 10:00:00,123 - trainer - ERROR - ",
    ],
)
def test_any_class_ends_a_traceback_behind_any_prefix(prefix: str, last: str) -> None:
    text = f"Traceback (most recent call last):\n{FRAMES}{last}\n"
    lines = "".join(f"{prefix}{line}\n" for line in text.splitlines())
    assert [ending.endswith(last) for ending in endings(f"start\n{lines}end\n")] == [True]


def test_a_traceback_that_lost_its_indentation() -> None:
    text = 'Traceback (most recent call last):\nFile "a.py", line 9, in <module>\nmain()\nBoom: x\n'
    assert endings(text) == ["Boom: x"]


def test_a_traceback_of_a_notebook_and_one_in_a_box() -> None:
    notebook = (
        "StopIteration                             Traceback (most recent call last)\n"
        "Cell In[3], line 12\n     10 x = 1\n---> 12 next(it)\n\nStopIteration: \n"
    )
    box = (
        "╭──── Traceback (most recent call last) ────╮\n"
        "│ /a.py:12 in main                          │\n"
        "╰───────────────────────────────────────────╯\nEmpty\n"
    )
    assert endings(notebook) == ["StopIteration:"]
    assert endings(box) == ["Empty"]


def test_an_exception_group_and_what_it_holds() -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "a.py", line 1, in <module>\n'
        "  |     main()\n"
        "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "a.py", line 2, in f\n'
        "    |     g()\n"
        "    | Boom: 3\n"
        "    +------------------------------------\n"
    )
    assert [text.lstrip("| ") for text in endings(text)][-1] == "Boom: 3"


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):\n",
        f"Traceback (most recent call last):\n{FRAMES}",
        f"Traceback (most recent call last):\n{FRAMES}[launch.py:3] Killing subprocess 4\n",
        'Traceback (most recent call last)\n  File "',
    ],
)
def test_a_traceback_that_is_cut_names_nothing(text: str) -> None:
    assert endings(text) == []


def test_very_many_tracebacks_are_read_in_bounded_time_and_the_last_one_is_kept() -> None:
    one = f"Traceback (most recent call last):\n{FRAMES}Boom: 1\n"
    log = scan_stream(io.BytesIO((one * 5000 + one.replace("1", "2")).encode()), MATRIX, "x")
    assert log.matches["python-exception"][-1].text == "Boom: 2"
