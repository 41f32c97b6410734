"""Process groups without other processes: `torch.distributed` as one process of several GPUs has it, on any back end.

A collective is taken down, and gives what the process has itself. What it hands out to wait for (`Work`) tells which
operations are waited for.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any
from unittest.mock import patch

import torch

from ....simulator.refusal import UserError
from ..hooks import replace
from ..recorder import Recorder

C10D = "torch.distributed.distributed_c10d"
DDP = "torch.nn.parallel.distributed"
CALLS = (
    "allreduce", "allreduce_coalesced", "_allgather_base", "all_gather_single", "allgather", "allgather_coalesced",
    "allgather_into_tensor_coalesced", "_reduce_scatter_base", "reduce_scatter_single", "reduce_scatter",
    "reduce_scatter_tensor_coalesced", "alltoall", "alltoall_base", "all_to_all_single", "broadcast", "reduce",
    "gather", "scatter", "send", "recv", "barrier", "_end_coalescing",
)  # fmt: skip
"""Methods of a process group that hand out something to wait for, in torch 2.11 or 2.13."""


def hook_groups(stack: ExitStack, recorder: Recorder, gpus: int, rank: int) -> None:
    """Have process groups be of a number of GPUs, and communicate with no other process.

    Args:
        gpus: that the step runs on; 0: not given.
        rank: of the GPU whose step is recorded.

    Raises:
        UserError: this torch lacks a hook.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    variables = {"RANK": rank, "WORLD_SIZE": gpus, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": gpus, "MASTER_PORT": 29500}
    if gpus:
        texts = {name: str(value) for name, value in variables.items()} | {"MASTER_ADDR": "localhost"}
        stack.enter_context(patch.dict(os.environ, texts))

    def rendezvous(_: str, __: int = -1, world_size: int = -1, **___: Any) -> Iterator[tuple[Any, int, int]]:
        if not gpus:
            raise UserError("init_process_group: of how many GPUs? say --gpus 8, or gpus=8 from Python")
        if world_size not in (-1, gpus):
            raise UserError(f"init_process_group: world_size = {world_size}, but --gpus says {gpus}: let them be equal")
        yield FakeStore(), rank, gpus

    def made(size: int, group_rank: int, ranks: Any, _: Any, store: Any, name: str, *__: Any, **options: Any) -> Any:
        kept = {key: value for key, value in options.items() if key in ("timeout", "pg_tag", "group_desc")}
        return make(size, group_rank, ranks, torch.distributed.Backend("fake"), store, name, **kept)

    replace(stack, f"{C10D}:rendezvous", rendezvous)
    make: Any = replace(stack, f"{C10D}:_new_process_group_helper", made)
    stack.callback(_leave, torch.distributed.is_initialized())
    replace(stack, f"{DDP}:_verify_param_shape_across_processes", lambda *_, **__: None)
    _hook_works(stack, recorder)
    _hook_ddp(stack, recorder)
    # Memory is not given back before its stream is done with it, which nobody asks for here.
    replace(stack, "torch:Tensor.record_stream", lambda *_: None)
    replace(stack, "torch.accelerator:current_stream", lambda *_: recorder.order.current)
    resize: Any = None

    def resized(storage: Any, size: int) -> Any:
        resize(storage, size)
        recorder.storages.resize(storage, size)
        return storage

    resize = replace(stack, "torch:UntypedStorage.resize_", resized)


def _leave(was_there: bool) -> None:
    """End the groups of the recording."""
    if torch.distributed.is_initialized() and not was_there:
        torch.distributed.destroy_process_group()


def _hook_works(stack: ExitStack, recorder: Recorder) -> None:
    """Know which operations are waited for."""
    from torch._C._distributed_c10d import FakeWork, ProcessGroup, Work

    given: dict[int, tuple[Any, range, Any]] = {}

    def following(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            first = len(recorder.operations)
            work = call(*args, **options)
            if work is not None:  # it is kept, so that no other has its identity
                given[id(work)] = work, range(first, len(recorder.operations)), args[1:2]
            return work

        return run

    def wait(work: Any, *_: Any, **__: Any) -> bool:
        if id(work) in given:
            recorder.order.wait(given.pop(id(work))[1])
        return True

    def get_future(work: Any) -> Any:
        future: Any = torch.futures.Future()
        tensors = given[id(work)][2] if id(work) in given else ()
        future.set_result(tensors[0] if tensors else None)
        return future

    for name in CALLS:
        if call := getattr(ProcessGroup, name, None):
            stack.enter_context(patch.object(ProcessGroup, name, following(call)))
    for kind in (Work, FakeWork):
        stack.enter_context(patch.object(kind, "wait", wait))
        stack.enter_context(patch.object(kind, "get_future", get_future))


def _hook_ddp(stack: ExitStack, recorder: Recorder) -> None:
    """Have DistributedDataParallel reduce its buckets by a function here.

    Its own, in C++, takes the bucket from what a group of NCCL's answers. What it does is the same: gradients are
    divided as they are copied to their bucket.
    """

    def reduce(group: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        torch.distributed.all_reduce(buffer, group=group, async_op=True)
        future: Any = torch.futures.Future()
        future.set_result(buffer)
        return future

    def forward(module: Any, *args: Any, **options: Any) -> Any:
        with suppress(RuntimeError):  # the code has registered one
            torch.distributed._register_comm_hook(module.reducer, module.process_group, reduce)
        with recorder.paused():  # after its first backward pass, once
            module.reducer._rebuild_buckets()
        return run(module, *args, **options)

    run: Any = replace(stack, f"{DDP}:DistributedDataParallel.forward", forward)
    replace(stack, "torch.distributed:Logger.set_runtime_stats_and_log", lambda *_: None)  # there is nothing to time
