"""Attention to sequences that several GPUs share: what one of them launches, in each way to share them.

ring    keys and values go round, and each GPU attends to those that are there
gather  each GPU gathers all keys and values first
heads   GPUs exchange parts of the sequences for heads, and exchange the result back; few queries are there already,
        and each GPU keeps the cache of its heads
keys    of few queries, which all GPUs have: each attends to its part of the cache; what they make is gathered, merged

Under a causal mask GPU r of P holds chunks r and 2 P - 1 - r of 2 P (zigzag), so that all have as much to do. Copies
into the order of keys and the sums of a ring are kernels of their own, that move each byte once. Collectives, and what
they cost beside attention, are those of `families.collectives` and `streams`; the host is ahead.

Source: Liu, Zaharia, Abbeel, Ring Attention (2023): ring; Llama 3 (2024), section 3.3.2: gather; Jacobs et al.,
DeepSpeed Ulysses (2023): heads; Dao et al., Flash-Decoding (2023): keys.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..arguments import shown
from ..device.device import Device
from ..dtypes import DTYPES
from ..problems.attention import AttentionProblem
from .cost_model import KernelCostModel
from .families.collectives import KINDS, RANKS, plain_name, sent_bytes
from .gaps import StreamTimeline, paces, queued
from .operation import Operand, Operation, contiguous
from .price import price
from .priced import KernelEstimate
from .stated import is_collective, moved_bytes
from .streams import enqueued

TORCH_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp8": "float8_e4m3fn", "i8": "int8"}
Attend = Callable[[AttentionProblem], KernelEstimate]
"""A part of attention on one GPU -> what it takes."""
UNSHARED = ("lengths", "page", "window", "mask", "dropout", "sinks")
"""Fields that ask for what is not shared here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceStep:
    """What one GPU does.

    Args:
        gpus: that share; rank: which of them it is; operations: in order; kernels: of each.
        timeline: when they run, where the host is ahead.
    """

    gpus: int
    rank: int
    operations: tuple[Operation, ...]
    kernels: tuple[tuple[KernelEstimate, ...], ...]
    timeline: StreamTimeline

    @property
    def link_bytes(self) -> float:
        """That the GPU sends to others [B]."""
        return sum(
            sent_bytes(KINDS[name], int(operation.arguments[RANKS]), moved_bytes(operation))
            for operation in self.operations
            if is_collective(operation) and (name := plain_name(operation)) != "recv"
        )

    @property
    def hbm_bytes(self) -> float:
        """From and to its HBM [B]."""
        return sum(kernel.hbm_read_bytes + kernel.hbm_write_bytes for some in self.kernels for kernel in some)

    @property
    def l2_bytes(self) -> float:
        """Asked of its L2 [B]."""
        return sum(kernel.l2_bytes for some in self.kernels for kernel in some)

    @property
    def reason(self) -> str:
        """Why it has no time; empty: it has."""
        return next((kernel.reason for some in self.kernels for kernel in some if kernel.reason), "")

    @property
    def peak_bytes(self) -> int:
        """Most memory that tensors take at a time, from the first operation that has one to the last [B].

        Those that no operation makes are there all the time.
        """
        uses = [{it.storage: it for it in (*work.inputs, *work.outputs)} for work in self.operations]
        made = {it.storage for work in self.operations for it in work.outputs}
        first, last = dict[int, int](), dict[int, int]()
        for number, used in enumerate(uses):
            for storage in used:
                first.setdefault(storage, number if storage in made else 0)
                last[storage] = number if storage in made else len(uses)
        sizes = {storage: it.storage_bytes for used in uses for storage, it in used.items()}
        return max(
            sum(size for storage, size in sizes.items() if first[storage] <= number <= last[storage])
            + sum(kernel.scratch_bytes for kernel in kernels)
            for number, kernels in enumerate(self.kernels)
        )


def ways(problem: AttentionProblem) -> tuple[str, ...]:
    """Names of the ways to share it. Raises: ValueError: none takes such a problem; the text names the field."""
    for name in UNSHARED:
        if (value := getattr(problem, name)) != problem.ASKS_NOTHING[name]:
            why = "sequences that GPUs share are of one length, and causal or without a mask"
            raise ValueError(f"{name} = {shown(value)}: must be left out: {why}")
    return ("keys", "heads") if problem.seqlen_q < problem.seqlen_k else ("ring", "gather", "heads")


def why_not(problem: AttentionProblem, way: str, gpus: int) -> str:
    """Why GPUs cannot share a problem in a way; empty: they can."""
    heads, kv_heads = problem.heads, problem.kv_heads
    if way == "heads" and (heads % gpus or (kv_heads % gpus and gpus % kv_heads)):
        grouped = f" of {kv_heads} KV heads" if kv_heads != heads else ""
        return f"{heads} heads{grouped} are not shared evenly by {gpus} GPUs"
    return ""


def check_shares(problem: AttentionProblem, gpus: int) -> None:
    """Raises: ValueError: keys are not shared evenly; the text names `seqlens`."""
    parts = 2 * gpus if problem.causal and problem.seqlen_q == problem.seqlen_k else gpus
    if problem.seqlen_k % parts:
        chunks = f"{parts} chunks, two a GPU" if parts > gpus else f"{gpus} GPUs"
        raise ValueError(f"seqlens = {problem.seqlen_k}: must be a multiple of {parts}, to be shared by {chunks}")


def sequence_step(
    problem: AttentionProblem, way: str, gpus: int, rank: int, device: Device, attend: Attend
) -> SequenceStep:
    """What a GPU does. Args: problem: all of it; way: of `ways`; attend: what a part of attention takes."""
    step = _Step(problem, gpus, rank, device, attend)
    _WAYS[way](step)
    every = enqueued(step.operations, step.kernels)
    return SequenceStep(
        gpus=gpus,
        rank=rank,
        operations=tuple(step.operations),
        kernels=tuple(step.kernels),
        timeline=queued(every, host_s=0.0, gap_s=device.launch_graph_s, beside=paces(device)),
    )


class _Step:
    """Operations of a GPU as they are enqueued."""

    def __init__(self, problem: AttentionProblem, gpus: int, rank: int, device: Device, attend: Attend) -> None:
        self.problem, self.gpus, self.rank, self.attend = problem, gpus, rank, attend
        self.gpu, self.operations = KernelCostModel(device), list[Operation]()
        self.kernels = list[tuple[KernelEstimate, ...]]()
        self.storage, self.last, self.awaited = 0, -1, set[int]()
        self.dtype, self.made_dtype = TORCH_DTYPES[problem.dtype], TORCH_DTYPES[problem.output_dtype]
        self.kv_dtype = TORCH_DTYPES[problem.kv_dtype or problem.dtype]

    def tensor(self, *shape: int, dtype: str) -> Operand:
        """A tensor of its own."""
        self.storage += 1
        return contiguous(self.storage, shape, dtype)

    def queries(self, tokens: int, heads: int, dtype: str = "") -> Operand:
        """Q of a number of tokens and heads, or O where a type is named."""
        dim = self.problem.value_dim if dtype else self.problem.head_dim
        return self.tensor(self.problem.batch, heads, tokens, dim, dtype=dtype or self.dtype)

    def cache(self, tokens: int, heads: int) -> Operand:
        """K and V."""
        width = self.problem.head_dim + self.problem.value_dim
        return self.tensor(self.problem.batch, heads, tokens, width, dtype=self.kv_dtype)

    def run(self, kernels: tuple[KernelEstimate, ...], operation: Operation) -> None:
        """Enqueue an operation behind the one before and what is waited for."""
        waits = tuple(sorted(self.awaited))
        self.awaited, self.last = set(), len(self.operations)
        self.operations.append(replace(operation, waits=waits))
        self.kernels.append(kernels)

    def moved(self, name: str, reads: Sequence[Operand], writes: Sequence[Operand]) -> None:
        """A kernel that takes what its bytes do."""
        of = Operation(kind="torch", name=name, inputs=tuple(reads), outputs=tuple(writes))
        self.run((self.gpu.kernel(name, reads, writes),), of)

    def collective(self, name: str, sent: Operand, got: Operand | None = None, stream: str = "") -> None:
        """A collective of all, or, on a stream of its own, a transfer that nothing waits for yet."""
        operation = Operation(
            kind="torch",
            name=f"c10d::{name}",
            inputs=(sent,),
            outputs=(got,) if got else (),
            arguments={RANKS: self.gpus},
        )
        if stream:
            before = self.awaited | ({self.last} if self.last >= 0 else set())
            self.operations.append(replace(operation, stream=stream, waits=tuple(sorted(before))))
            self.kernels.append(price(operation, self.gpu))
        else:
            self.run(price(operation, self.gpu), operation)

    def attended(self, q: Operand, kv: Operand, keys: int = 0, rows: int = 0, causal: bool = False) -> list[Operand]:
        """O and the log of the sum of exponentials of each row. Args: keys, rows: of them; 0: all."""
        rows, keys, heads = rows or q.shape[2], keys or kv.shape[2], q.shape[1]
        part = self.problem.but(
            heads=heads, kv_heads=kv.shape[1], seqlen_q=rows, seqlen_k=keys, causal=causal and self.problem.causal
        )
        made = [
            self.queries(rows, heads, self.made_dtype),
            self.tensor(self.problem.batch, heads, rows, dtype="float32"),
        ]
        reads = (_rows(q, rows), _rows(kv, keys))
        self.gpu.kernel("attention", reads, made)  # L2 is touched
        of = Operation(kind="triton", name="attention", inputs=reads, outputs=tuple(made))
        self.run((self.attend(part),), of)
        return made


def _rows(operand: Operand, rows: int) -> Operand:
    """As many of the tokens, in the same storage."""
    return replace(operand, shape=(*operand.shape[:2], rows, *operand.shape[3:]))


def _alone(step: _Step) -> None:
    problem = step.problem
    q, kv = step.queries(problem.seqlen_q, problem.heads), step.cache(problem.seqlen_k, problem.kv_heads)
    step.attended(q, kv, causal=True)


def _ring(step: _Step) -> None:
    problem, gpus = step.problem, step.gpus
    tokens = problem.seqlen_k // gpus
    q, kv = step.queries(tokens, problem.heads), step.cache(tokens, problem.kv_heads)
    total: list[Operand] = []
    for number in range(gpus):
        waits, coming = set[int](), step.cache(tokens, problem.kv_heads)
        if number + 1 < gpus:
            step.collective("send", kv, stream="NCCL, send")
            step.collective("recv", coming, coming, stream="NCCL, recv")
            waits = {len(step.operations) - 2, len(step.operations) - 1}
        half = tokens // 2 if problem.causal and number else 0
        early = number <= step.rank  # of a GPU before this one its first chunk counts, of one after its second sees all
        made = step.attended(q, kv, keys=half if early else 0, rows=0 if early else half, causal=number == 0)
        if number == 0:
            total = made
        else:
            is_last = number + 1 == gpus
            rows = tokens if is_last or number == 1 else made[0].shape[2]
            dtype = step.made_dtype if is_last else "float32"
            kept = total if number > 1 and not is_last else [step.queries(tokens, problem.heads, dtype), total[1]]
            read = [_rows(total[0], rows), _rows(total[1], rows)]
            step.moved("merge", [*read, *made], [_rows(kept[0], rows), _rows(kept[1], rows)])
            total = kept
        step.awaited |= waits
        kv = coming


def _gather(step: _Step) -> None:
    problem, gpus = step.problem, step.gpus
    tokens = problem.seqlen_k // gpus
    q, kv = step.queries(tokens, problem.heads), step.cache(tokens, problem.kv_heads)
    parts = step.tensor(gpus, *kv.shape, dtype=kv.dtype)
    step.collective("_allgather_base_", kv, parts)
    every = step.cache(problem.seqlen_k, problem.kv_heads)
    step.moved("in_order", [parts], [every])
    if not problem.causal:
        step.attended(q, every)
        return
    half = tokens // 2
    for place in (step.rank, 2 * gpus - 1 - step.rank):
        step.attended(q, every, keys=(place + 1) * half, rows=half, causal=True)


def _heads(step: _Step) -> None:
    problem, gpus = step.problem, step.gpus
    tokens, heads, kv_heads = problem.seqlen_k // gpus, problem.heads // gpus, max(problem.kv_heads // gpus, 1)
    q, kv = step.queries(tokens, problem.heads), step.cache(tokens, problem.kv_heads)
    widths = (heads * problem.head_dim * DTYPES[problem.dtype].size_bytes, kv.item_bytes * kv_heads * kv.shape[3])
    sent, got = (step.tensor(gpus, problem.batch * tokens, sum(widths), dtype="uint8") for _ in range(2))
    step.moved("by_head", [q, kv], [sent])
    step.collective("alltoall_base_", sent, got)
    every = [step.queries(problem.seqlen_k, heads), step.cache(problem.seqlen_k, kv_heads)]
    step.moved("in_order", [got], every)
    o, _ = step.attended(every[0], every[1], causal=True)
    back = [step.tensor(gpus, problem.batch, heads, tokens, o.shape[3], dtype=o.dtype) for _ in range(2)]
    step.moved("by_token", [o], [back[0]])
    step.collective("alltoall_base_", back[0], back[1])
    step.moved("by_head", [back[1]], [step.queries(tokens, problem.heads, step.made_dtype)])


def _keys(step: _Step) -> None:
    problem, gpus = step.problem, step.gpus
    q = step.queries(problem.seqlen_q, problem.heads)
    o, sums = step.attended(q, step.cache(problem.seqlen_k // gpus, problem.kv_heads), causal=True)
    every = step.tensor(gpus, o.bytes + sums.bytes, dtype="uint8")
    step.collective("_allgather_base_", o, every)
    step.moved("merge", [every], [step.queries(problem.seqlen_q, problem.heads, step.made_dtype)])


def _cached_heads(step: _Step) -> None:
    problem, gpus = step.problem, step.gpus
    q = step.queries(problem.seqlen_q, problem.heads // gpus)
    o, _ = step.attended(q, step.cache(problem.seqlen_k, max(problem.kv_heads // gpus, 1)), causal=True)
    step.collective("_allgather_base_", o, step.queries(problem.seqlen_q, problem.heads, step.made_dtype))


_WAYS: Mapping[str, Callable[[_Step], None]] = {
    "alone": _alone,
    "ring": _ring,
    "gather": _gather,
    "heads": lambda step: (_heads if step.problem.seqlen_q == step.problem.seqlen_k else _cached_heads)(step),
    "keys": _keys,
}
