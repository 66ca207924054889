# Runs inside an interpreter that has torch, transformers and deepspeed; imports nothing of envguard.
"""One rank of a training job on the CPU that writes its own memory peaks phase by phase, as JSON."""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import threading
import time
from pathlib import Path


def anonymous_bytes() -> int:
    """Anonymous and shared memory of this process; file pages are reclaimable and left out."""
    total = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            total += int(line.split()[1]) * 1024
    return total


class Recorder:
    """Samples memory in a thread; ``phases`` holds what each phase began with, peaked at and left."""

    def __init__(self):
        self.phases = {}
        self.peak = 0
        self.is_running = True
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self._sample, daemon=True)
        self.thread.start()

    def _sample(self):
        while self.is_running:
            with self.lock:
                self.peak = max(self.peak, anonymous_bytes())
            time.sleep(0.002)

    def measure(self, name, work):
        gc.collect()
        with self.lock:
            start = self.peak = anonymous_bytes()
        result = work()
        peak = max(self.peak, anonymous_bytes())
        gc.collect()
        self.phases[name] = {"start": start, "peak": peak, "end": anonymous_bytes()}
        return result


def make_model(shape, dtype):
    import torch
    from transformers import AutoModelForCausalLM, LlamaConfig

    config = LlamaConfig(**shape, tie_word_embeddings=False, use_cache=False)
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    finally:
        torch.set_default_dtype(before)


def batch(options):
    import torch

    return torch.randint(0, options.shape["vocab_size"], (options.micro_batch, options.seq_len))


def warm_up():
    """Everything that only costs memory once: imports, the process group, a model of nothing."""
    import torch
    import torch._dynamo  # deepspeed's zero.Init patches torch.Tensor, which this import refuses

    torch.distributed.all_reduce(torch.ones(8))
    tiny = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 32,
    }
    tokens = torch.zeros(1, 8, dtype=torch.long)
    model = make_model(tiny, torch.bfloat16)
    model(input_ids=tokens, labels=tokens).loss.backward()


def deepspeed_config(options):
    stage = int(options.strategy.removeprefix("zero"))
    return {
        "train_micro_batch_size_per_gpu": options.micro_batch,
        "gradient_accumulation_steps": 1,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": options.bucket,
            "allgather_bucket_size": options.bucket,
            "stage3_prefetch_bucket_size": options.bucket,
            "stage3_max_live_parameters": options.live,
            "stage3_max_reuse_distance": options.live,
            "stage3_param_persistence_threshold": 10000,
            "stage3_gather_16bit_weights_on_model_save": True,
            "overlap_comm": False,
        },
        "steps_per_print": 10**9,
    }


def run_deepspeed(options, recorder):
    import deepspeed
    import torch
    from deepspeed.checkpoint.utils import clone_tensors_for_torch_save

    config = deepspeed_config(options)
    deepspeed.init_distributed("gloo")
    recorder.measure("warm-up", warm_up)

    def load():
        if options.strategy != "zero3":
            return make_model(options.shape, torch.bfloat16)
        with deepspeed.zero.Init(config_dict_or_path=config):
            return make_model(options.shape, torch.bfloat16)

    model = recorder.measure("load", load)
    engine = recorder.measure(
        "init",
        lambda: deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=config
        )[0],
    )

    def step():
        for _ in range(2):
            tokens = batch(options)
            engine.backward(engine(input_ids=tokens, labels=tokens).loss)
            engine.step()

    recorder.measure("step", step)
    folder = Path(options.folder)

    def trainer_weights():
        if options.strategy == "zero3":
            state = engine._zero3_consolidated_16bit_state_dict()
        else:
            state = clone_tensors_for_torch_save(engine.module.state_dict())
        if options.rank == 0:
            torch.save(state, folder / "weights.bin")

    recorder.measure("save-trainer", trainer_weights)
    recorder.measure("save-sharded", lambda: engine.save_checkpoint(str(folder), tag="one"))
    recorder.measure("save-16bit", lambda: engine.save_16bit_model(str(folder), "model.bin"))
    recorder.measure("resume", lambda: engine.load_checkpoint(str(folder), tag="one"))


def run_fsdp(options, recorder):
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_optimizer_state_dict,
        get_state_dict,
        set_state_dict,
    )
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("gloo")
    recorder.measure("warm-up", warm_up)
    model = recorder.measure("load", lambda: make_model(options.shape, torch.float32))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    reshard = options.strategy == "fsdp-full"

    def shard():
        for layer in model.model.layers:
            fully_shard(layer, mp_policy=policy, reshard_after_forward=reshard)
        fully_shard(model, mp_policy=policy, reshard_after_forward=reshard)
        return torch.optim.AdamW(model.parameters(), lr=1e-4)

    optimizer = recorder.measure("init", shard)

    def step():
        for _ in range(2):
            tokens = batch(options)
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    recorder.measure("step", step)
    full = StateDictOptions(full_state_dict=True, cpu_offload=True)
    folder = str(Path(options.folder) / "dcp")

    def trainer():
        weights = get_model_state_dict(model, options=full)
        del weights
        states = get_optimizer_state_dict(model, optimizer, options=full)
        del states

    def sharded():
        weights, states = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)

    def asynchronous():
        weights, states = get_state_dict(model, optimizer)
        dcp.async_save(
            {"model": weights, "optimizer": states}, checkpoint_id=folder + "2"
        ).result()

    def resume():
        weights, states = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": states}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )

    recorder.measure("save-trainer", trainer)
    recorder.measure("save-sharded", sharded)
    recorder.measure("save-dcp-async", asynchronous)
    recorder.measure("resume", resume)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--strategy", required=True)
    parser.add_argument("--shape", type=json.loads, required=True)
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--seq-len", type=int, default=64)
    parser.add_argument("--bucket", type=int, default=5_000_000)
    parser.add_argument("--live", type=int, default=10_000_000)
    parser.add_argument("--folder", required=True)
    options = parser.parse_args()
    options.rank = int(os.environ["RANK"])
    import torch

    torch.set_num_threads(1)
    recorder = Recorder()
    try:
        (run_fsdp if options.strategy.startswith("fsdp") else run_deepspeed)(options, recorder)
    finally:
        recorder.is_running = False
        out = Path(options.folder) / f"rank{options.rank}.json"
        out.write_text(json.dumps(recorder.phases))
    torch.distributed.barrier()
    if options.rank == 0:
        for name in ("one", "dcp", "dcp2"):
            shutil.rmtree(Path(options.folder) / name, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main()
