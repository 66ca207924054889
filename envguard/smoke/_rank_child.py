# Runs inside the inspected interpreter, once a rank under torchrun: standard library and torch
# only, Python 3.8 syntax, no envguard import. Its answer is one JSON document in the scratch
# folder: what torch and its libraries print is mixed with that of the other ranks.
"""One rank of an all-reduce."""

import faulthandler
import importlib
import json
import os
import sys
import threading
import time
from typing import Any, Dict


def end_with_parent(parent: int) -> None:
    """End this process when the launcher is gone: nobody else would."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def describe(err: BaseException) -> Dict[str, str]:
    """What a rank raised."""
    return {"type": type(err).__name__, "message": str(err)[:8000]}


def reduce_once(backend: str) -> Dict[str, Any]:
    """Sum a tensor of ``rank + 1`` over all ranks."""
    torch: Any = importlib.import_module("torch")
    distributed: Any = importlib.import_module("torch.distributed")
    local = int(os.environ["LOCAL_RANK"])
    device = "cpu"
    if backend == "nccl":
        device = "cuda:%d" % local
        torch.cuda.set_device(local)
    distributed.init_process_group(backend)
    try:
        values = [float(distributed.get_rank() + 1)] * 1024
        tensor = torch.tensor(values, dtype=torch.float32, device=device)
        distributed.all_reduce(tensor)
        return {"sum": tensor.tolist()}
    except Exception as err:  # noqa: BLE001 - whatever it is, it is the result
        # The earliest is the root; those of the other ranks follow when this one closes.
        return {"error": describe(err), "at": time.time()}
    finally:
        distributed.destroy_process_group()


def main(scratch: str, backend: str, limit_s: float) -> None:
    """Entry point; see ``_parallel_child.run_launcher``."""
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0] or ".") == here:
        del sys.path[0]  # the files beside this one must not shadow anything
    stem = os.path.join(scratch, "rank-" + os.environ["RANK"])
    faults = os.open(stem + ".faults", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    faulthandler.enable(file=faults)
    faulthandler.dump_traceback_later(limit_s, file=faults, exit=True)
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    try:
        document = reduce_once(backend)
    except Exception as err:  # noqa: BLE001 - torch does not load, or the ranks did not meet
        document = {"error": describe(err), "at": time.time()}
    with open(stem + ".json", "w") as file:
        json.dump(document, file)
    faulthandler.cancel_dump_traceback_later()
    sys.exit(1 if "error" in document else 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
