# Runs inside the inspected interpreter, loaded by _child.py: standard library and torch only,
# Python 3.8 syntax, no envguard import.
"""The stages: one function each, and one entry in ``STAGES`` at the end.

A stage gets the ``Run``, returns a dict of details or None, and fails by raising.
"""

import math
import os
from typing import Any, Dict, List

from _deepspeed_child import (  # type: ignore[import-not-found]  # _child.py registered it
    stage_deepspeed,
    stage_zero_1,
    stage_zero_2,
    stage_zero_3,
)
from _device_child import (  # type: ignore[import-not-found]  # _child.py registered it
    Run,
    SkipError,
    stage_cuda_init,
    stage_import,
)
from _parallel_child import (  # type: ignore[import-not-found]  # _child.py registered it
    stage_all_reduce,
    stage_distributed,
)
from _reference_child import (  # type: ignore[import-not-found]  # _child.py registered it
    Mlp,
    WrongError,
    attend,
    compare,
    convolve,
    flatten,
    grid,
    need_finite,
    ternary,
    times,
)


def stage_context(run: Run) -> Dict[str, Any]:
    """Create the context on the device and run one kernel in it."""
    value = run.torch.ones((1,), device=run.device).tolist()
    compare("a one", value, [1.0], 0.0)
    return {"device": run.device}


def stage_allocation(run: Run) -> Dict[str, Any]:
    """Allocate 64 MiB on a GPU (16 MiB on the CPU), fill it and read it back."""
    count = (16 if run.on_cuda else 4) * 1024 * 1024
    block = run.torch.full((count,), 1.0, dtype=run.torch.float32, device=run.device)
    compare("the sum of a block of ones", block.sum().item(), float(count), 0.0)
    details = {"bytes": 4 * count}
    if run.on_cuda and hasattr(run.torch.cuda, "mem_get_info"):
        free, total = run.torch.cuda.mem_get_info(run.device)
        details.update(free_bytes=free, total_bytes=total)
    return details


def make_params(run: Run, dtype: str) -> List[Any]:
    """The network's parameters as torch leaves."""
    net = Mlp()
    return [run.tensor(values, dtype, grad=True) for values in (net.w1, net.b1, net.w2, net.b2)]


def forward(run: Run, params: List[Any], dtype: str) -> Any:
    """The network's loss, computed by torch."""
    net, functional = Mlp(), run.torch.nn.functional
    hidden = run.torch.tanh(functional.linear(run.tensor(net.x, dtype), params[0], params[1]))
    answer = functional.linear(hidden, params[2], params[3])
    return functional.mse_loss(answer, run.tensor(net.y, dtype))


def stage_forward(run: Run) -> Dict[str, Any]:
    """Forward pass and loss of a small network."""
    run.params = make_params(run, "float32")
    run.loss = forward(run, run.params, "float32")
    need_finite("the loss", run.loss.item())
    return {"loss": run.loss.item()}


def stage_backward(run: Run) -> Dict[str, Any]:
    """Backward pass; every parameter gets a finite gradient."""
    run.loss.backward()
    for param in run.params:
        if param.grad is None:
            raise WrongError("a parameter has no gradient after backward()")
        need_finite("a gradient", param.grad.tolist())
    return {"parameters": sum(len(flatten(param.tolist())) for param in run.params)}


def stage_optimizer_step(run: Run) -> Dict[str, Any]:
    """One step of AdamW moves every tensor of parameters."""
    before = [param.tolist() for param in run.params]
    run.torch.optim.AdamW(run.params, lr=1e-3).step()
    for old, param in zip(before, run.params):
        need_finite("an updated parameter", param.tolist())
        if param.tolist() == old:
            raise WrongError("AdamW left a parameter as it was")
    return {"optimizer": "AdamW"}


def train_step(run: Run, dtype: str, tolerance: float) -> Dict[str, Any]:
    """One SGD step in a dtype; loss, gradients and update agree with plain Python."""
    expected, params, rate = Mlp().gradients(), make_params(run, dtype), 2.0
    before = [flatten(param.tolist()) for param in params]
    loss = forward(run, params, dtype)
    loss.backward()
    run.torch.optim.SGD(params, lr=rate).step()
    worst = compare("the loss", loss.item(), expected["loss"], tolerance)
    for name, old, param in zip(("w1", "b1", "w2", "b2"), before, params):
        gradient = flatten(expected[name])
        worst = max(
            worst, compare("the gradient of " + name, param.grad.tolist(), gradient, tolerance)
        )
        moved = [w - rate * g for w, g in zip(old, gradient)]
        worst = max(worst, compare("updated " + name, param.tolist(), moved, tolerance))
    return {"dtype": dtype, "loss": loss.item(), "deviation": worst, "tolerance": tolerance}


def stage_reference(run: Run) -> Dict[str, Any]:
    """The whole step in float32 against the same arithmetic in plain Python."""
    # On a GPU the environment may ask for TF32 (NVIDIA_TF32_OVERRIDE): 10 bits of mantissa.
    return train_step(run, "float32", 5e-3 if run.on_cuda else 1e-4)


def low_precision_step(run: Run, dtype: str, tolerance: float) -> Dict[str, Any]:
    """The step in a 16-bit type; a CPU build that lacks a kernel for it is no failure."""
    try:
        return train_step(run, dtype, tolerance)
    except RuntimeError as err:
        if run.on_cuda or "not implemented for" not in str(err):
            raise
        raise SkipError("this torch has no CPU kernel: %s" % err) from err


def has_bfloat16(run: Run) -> bool:
    """Whether the device computes in bfloat16: every CPU (slowly), and GPUs from Ampere on."""
    return not run.on_cuda or run.torch.cuda.get_device_capability(run.device) >= (8, 0)


def stage_bfloat16(run: Run) -> Dict[str, Any]:
    """The whole step in bfloat16."""
    if not has_bfloat16(run):
        raise SkipError("the GPU has no bfloat16 units (compute capability below 8.0)")
    return low_precision_step(run, "bfloat16", 5e-2)


def stage_float16(run: Run) -> Dict[str, Any]:
    """The whole step in float16."""
    return low_precision_step(run, "float16", 1e-2)


def stage_matmul(run: Run) -> Dict[str, Any]:
    """Matrix product of small whole numbers, exact in every dtype (cuBLAS on a GPU)."""
    size = 128 if run.on_cuda else 64
    left, right = grid(size, size, ternary), grid(size, size, lambda r, c: ternary(c + 1, r))
    spots = [(k * 37 % size, k * 59 % size) for k in range(48)]
    columns = list(zip(*right))
    expected = [float(sum(map(times, left[r], columns[c]))) for r, c in spots]
    dtypes = ["float32"] + ["float16"] * run.on_cuda
    dtypes += ["bfloat16"] * (run.on_cuda and has_bfloat16(run))
    for dtype in dtypes:
        found = (run.tensor(left, dtype) @ run.tensor(right, dtype)).tolist()
        compare("a %s matrix product" % dtype, [found[r][c] for r, c in spots], expected, 0.0)
    return {"size": size, "dtypes": dtypes}


def stage_convolution(run: Run) -> Dict[str, Any]:
    """A 3 x 3 convolution of small whole numbers (cuDNN on a GPU)."""
    channels, size = 4, 12
    image = [grid(size, size, lambda r, c, k=k: ternary(r + k, c)) for k in range(channels)]
    kernel = [
        [grid(3, 3, lambda r, c, j=j, k=k: ternary(r + j, c + k)) for k in range(channels)]
        for j in range(channels)
    ]
    found = run.torch.nn.functional.conv2d(run.tensor([image]), run.tensor(kernel)).tolist()[0]
    spots = [(k % channels, k * 7 % (size - 2), k * 3 % (size - 2)) for k in range(32)]
    expected = [convolve(image, kernel[j], r, c) for j, r, c in spots]
    # Libraries may choose an algorithm that divides (Winograd, FFT), on a GPU in TF32 too.
    tolerance = 5e-3 if run.on_cuda else 1e-4
    compare("a convolution", [found[j][r][c] for j, r, c in spots], expected, tolerance)
    cudnn = run.torch.backends.cudnn.version() if run.on_cuda else None
    return {"channels": channels, "size": size, "cudnn": cudnn}


def stage_attention(run: Run) -> Dict[str, Any]:
    """Scaled dot-product attention against a softmax in plain Python."""
    functional = run.torch.nn.functional
    if not hasattr(functional, "scaled_dot_product_attention"):
        raise SkipError("torch %s has no scaled_dot_product_attention" % run.torch.__version__)
    query, key, value = (
        grid(16, 32, lambda r, c, s=s: ((r * 7 + c * 3 + s) % 11 - 5) / 8) for s in (0, 4, 9)
    )
    expected = attend(query, key, value)
    kinds = {"float32": 5e-3, "float16": 1e-2} if run.on_cuda else {"float32": 1e-4}
    worst = 0.0
    for dtype, tolerance in kinds.items():
        tensors = [run.tensor([[part]], dtype) for part in (query, key, value)]
        found = functional.scaled_dot_product_attention(*tensors).tolist()[0][0]
        worst = max(worst, compare("attention in " + dtype, found, expected, tolerance))
    return {"dtypes": list(kinds), "deviation": worst}


def stage_checkpoint(run: Run) -> Dict[str, Any]:
    """``torch.save`` and ``torch.load`` of 32 MiB: equal afterwards, and what it costs the host."""
    path = os.path.join(run.scratch, "checkpoint.pt")
    count = 8 * 1024 * 1024
    block = run.torch.full((count,), 0.5, dtype=run.torch.float32, device=run.device)
    state = {"block": block, "step": 7}
    run.part("save")
    _, save_cost = run.memory.cost(lambda: run.torch.save(state, path))
    size = os.path.getsize(path)
    run.part("load")
    loaded, load_cost = run.memory.cost(lambda: run.torch.load(path, map_location=run.device))
    if loaded["step"] != 7 or not run.torch.equal(loaded["block"], block):
        raise WrongError("a checkpoint differs after torch.save and torch.load")
    os.remove(path)
    return {
        "file_bytes": size,
        "state_bytes": 4 * count,
        "save_rss_bytes": save_cost,
        "load_rss_bytes": load_cost,
    }


def stage_compile(run: Run) -> Dict[str, Any]:
    """``torch.compile`` of a small function: needs a C++ compiler, on a GPU triton as well."""
    torch = run.torch
    if not hasattr(torch, "compile"):
        raise SkipError("torch %s has no compile" % torch.__version__)
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):  # leave nothing behind
        os.environ[variable] = os.path.join(run.scratch, variable.lower())
    compiled = torch.compile(lambda source: torch.tanh(source) * 2.0 + 1.0)
    values = [k / 8 for k in range(-32, 32)]
    expected = [math.tanh(value) * 2.0 + 1.0 for value in values]
    apart = compare("a compiled function", compiled(run.tensor(values)).tolist(), expected, 1e-4)
    return {"deviation": apart}


STAGES = {
    "import": stage_import,
    "cuda-init": stage_cuda_init,
    "context": stage_context,
    "allocation": stage_allocation,
    "forward": stage_forward,
    "backward": stage_backward,
    "optimizer-step": stage_optimizer_step,
    "reference": stage_reference,
    "bfloat16": stage_bfloat16,
    "float16": stage_float16,
    "matmul": stage_matmul,
    "convolution": stage_convolution,
    "attention": stage_attention,
    "checkpoint": stage_checkpoint,
    "compile": stage_compile,
    "distributed": stage_distributed,
    "all-reduce": stage_all_reduce,
    "deepspeed": stage_deepspeed,
    "zero-1": stage_zero_1,
    "zero-2": stage_zero_2,
    "zero-3": stage_zero_3,
}
