# Runs inside the inspected interpreter, loaded by _child.py: standard library, torch and
# deepspeed only, Python 3.8 syntax, no envguard import.
"""The stages with DeepSpeed: a step, a save and a load under each ZeRO stage."""

import os
from typing import Any, Dict, List

from _device_child import Run  # type: ignore[import-not-found]  # _child.py registered it
from _parallel_child import (  # type: ignore[import-not-found]  # likewise
    find_distributed,
    start_group,
)
from _reference_child import (  # type: ignore[import-not-found]  # likewise
    Mlp,
    compare,
    need_finite,
)

RATE = 1e-2


class NothingLoadedError(Exception):
    """``load_checkpoint`` found nothing where ``save_checkpoint`` had just written."""


def stage_deepspeed(run: Run) -> Dict[str, Any]:
    """``import deepspeed``."""
    if not run.on_cuda:  # it would take the GPU that was not asked for
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # What it compiles goes where it is removed again.
    os.environ["TORCH_EXTENSIONS_DIR"] = os.path.join(run.scratch, "extensions")
    deepspeed = run.import_module("deepspeed")
    return {"deepspeed": str(deepspeed.__version__)}


def be_rank_zero(run: Run) -> None:
    """Start a process group of one, as a launcher would have; it stays for the next stage."""
    local = run.device[len("cuda:") :] if run.on_cuda else "0"
    # DeepSpeed reads these even when the group is there; with all of them it asks no MPI.
    os.environ.update(RANK="0", LOCAL_RANK=local, WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    if find_distributed(run).is_initialized():
        return
    distributed = start_group(run)
    run.closers.append(distributed.destroy_process_group)


def leave_out_shared_memory_op(deepspeed: Any) -> None:
    """On the CPU it would compile a C++ op for a minute that a group of one never calls."""
    table = getattr(getattr(deepspeed, "ops", None), "__compatible_ops__", None)
    if isinstance(table, dict):
        table["deepspeed_shm_comm"] = False


def make_model(run: Run) -> Any:
    """The network of ``Mlp`` as a module on the device."""
    nn, net = run.torch.nn, Mlp()
    layers = (nn.Linear(net.inputs, net.hidden), nn.Linear(net.hidden, net.outputs))
    model = nn.Sequential(layers[0], nn.Tanh(), layers[1])
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    values = (net.w1, net.b1, net.w2, net.b2)
    model.load_state_dict({name: run.tensor(value) for name, value in zip(names, values)})
    return model.to(run.device)


def loss_of(run: Run, engine: Any) -> Any:
    """The loss of the network that the engine holds."""
    net = Mlp()
    answer = engine(run.tensor(net.x))
    return run.torch.nn.functional.mse_loss(answer, run.tensor(net.y))


def train(run: Run, engine: Any) -> List[float]:
    """One step; the loss before it and after it."""
    before = loss_of(run, engine)
    engine.backward(before)
    engine.step()
    return [before.item(), loss_of(run, engine).item()]


def initialize(run: Run, zero: int) -> Any:
    """An engine with this ZeRO stage around a fresh model and AdamW of torch: no op to compile."""
    deepspeed = run.import_module("deepspeed")
    if not run.on_cuda:
        leave_out_shared_memory_op(deepspeed)
    model = make_model(run)
    optimizer = run.torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    config = {
        "train_micro_batch_size_per_gpu": Mlp.batch,
        "zero_optimization": {"stage": zero},
    }
    return deepspeed.initialize(
        model=model, optimizer=optimizer, config=config, dist_init_required=False
    )[0]


def zero_stage(run: Run, zero: int) -> Dict[str, Any]:
    """Initialize, one step, save, a second step, load: then all is as it was when saved."""
    run.part("initialize")
    be_rank_zero(run)
    engine = initialize(run, zero)
    run.part("step")
    tolerance = 5e-3 if run.on_cuda else 1e-4
    first, second = train(run, engine)
    compare("the loss", first, Mlp().gradients()["loss"], tolerance)
    compare("the loss after a step", second, Mlp().stepped(RATE).gradients()["loss"], tolerance)
    folder = os.path.join(run.scratch, run.stage)
    run.part("save")
    _, save_cost = run.memory.cost(lambda: engine.save_checkpoint(folder, tag="smoke"))
    run.part("second step")
    need_finite("the loss after two steps", train(run, engine)[1])
    run.part("load")
    found, load_cost = run.memory.cost(lambda: engine.load_checkpoint(folder, tag="smoke"))
    if found[0] is None:
        raise NothingLoadedError("load_checkpoint found no checkpoint in what it had saved")
    compare("the loss after the load", loss_of(run, engine).item(), second, tolerance)
    run.part("end")
    if hasattr(engine, "destroy"):
        engine.destroy()
    details = {"zero": zero, "loss": first, "file_bytes": size_of(folder)}
    details.update(save_rss_bytes=save_cost, load_rss_bytes=load_cost)
    return details


def size_of(folder: str) -> int:
    """All bytes of the files below a folder."""
    return sum(
        os.path.getsize(os.path.join(path, name))
        for path, _, names in os.walk(folder)
        for name in names
    )


def stage_zero_1(run: Run) -> Dict[str, Any]:
    """ZeRO-1: the optimizer's states are split."""
    return zero_stage(run, 1)


def stage_zero_2(run: Run) -> Dict[str, Any]:
    """ZeRO-2: the gradients as well."""
    return zero_stage(run, 2)


def stage_zero_3(run: Run) -> Dict[str, Any]:
    """ZeRO-3: the parameters as well."""
    return zero_stage(run, 3)
