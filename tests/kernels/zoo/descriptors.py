"""Small kernels that copy boxes of tensors by TMA: through descriptors of the host, and of their own."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy_boxes(X, Z, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    Z.store([i, j], X.load([i, j]) + 1)


@triton.jit
def shift_boxes(X, Z, by, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    Z.store([i, j], X.load([i - by, j - 8]))


@triton.jit
def transpose_heads(X, Z, N, H: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i, h, b = tl.program_id(0) * BN, tl.program_id(1), tl.program_id(2)
    x = X.load([b, i, h, 0]).reshape(1, 1, BN, D)
    Z.store([b, h, i, 0], x)


@triton.jit
def gemm_host(A, B, C, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(A.load([i, k]), B.load([j, k]).T, acc)
    C.store([i, j], acc.to(tl.float16))


@triton.jit
def gemm_device(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    a_boxes = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    b_boxes = tl.make_tensor_descriptor(B, [K, N], [N, 1], [BK, BN])
    c_boxes = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, BN])
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        acc = tl.dot(a_boxes.load([i, k * BK]), b_boxes.load([k * BK, j]), acc)
    c_boxes.store([i, j], acc.to(tl.float16))


@triton.jit
def rows_of_ragged(X, Z, STARTS, D: tl.constexpr, BM: tl.constexpr):
    """Each sequence has a descriptor of its own, which ends where it does."""
    begin, end = tl.load(STARTS + tl.program_id(1)), tl.load(STARTS + tl.program_id(1) + 1)
    i = tl.program_id(0) * BM
    if i < end - begin:
        x_boxes = tl.make_tensor_descriptor(X + begin * D, [end - begin, D], [D, 1], [BM, D])
        z_boxes = tl.make_tensor_descriptor(Z + begin * D, [end - begin, D], [D, 1], [BM, D])
        z_boxes.store([i, 0], x_boxes.load([i, 0]) * 2)


@triton.jit
def _grouped(t, mb, nb, GROUP: tl.constexpr):
    first = t // (GROUP * nb) * GROUP
    rows = tl.minimum(mb - first, GROUP)
    return first + t % (GROUP * nb) % rows, t % (GROUP * nb) // rows


@triton.jit
def gemm_persistent(
    A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, HALVES: tl.constexpr,
    FLATTEN: tl.constexpr,
):  # fmt: skip
    mb, nb = tl.cdiv(M, BM), tl.cdiv(N, BN)
    stored = tl.program_id(0)
    for t in tl.range(tl.program_id(0), mb * nb, tl.num_programs(0), flatten=FLATTEN):
        pm, pn = _grouped(t, mb, nb, GROUP)
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(tl.cdiv(K, BK)):
            acc = tl.dot(A.load([pm * BM, k * BK]), B.load([pn * BN, k * BK]).T, acc)
        pm, pn = _grouped(stored, mb, nb, GROUP)
        stored += tl.num_programs(0)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1)))
            C.store([pm * BM, pn * BN], left.to(tl.float16))
            C.store([pm * BM, pn * BN + BN // 2], right.to(tl.float16))
        else:
            C.store([pm * BM, pn * BN], acc.to(tl.float16))


@triton.jit
def gemm_persistent_device(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_boxes = tl.make_tensor_descriptor(A, [M, K], [K, 1], [BM, BK])
    b_boxes = tl.make_tensor_descriptor(B, [N, K], [K, 1], [BN, BK])
    c_boxes = tl.make_tensor_descriptor(C, [M, N], [N, 1], [BM, BN])
    nb = tl.cdiv(N, BN)
    for t in range(tl.program_id(0), tl.cdiv(M, BM) * nb, tl.num_programs(0)):
        i, j = t // nb * BM, t % nb * BN
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a_boxes.load([i, k]), b_boxes.load([j, k]).T, acc)
        c_boxes.store([i, j], acc.to(tl.float16))


@triton.jit
def add_rows(X, Z, rows, BM: tl.constexpr, BN: tl.constexpr):
    j = tl.program_id(0) * BN
    for i in range(tl.program_id(1) * BM, rows, BM * tl.num_programs(1)):
        Z.atomic_add([0, j], X.load([i, j]))


@triton.jit
def attention_boxes(Q, K, V, Z, N, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i, head = tl.program_id(0) * BM, tl.program_id(1)
    q = Q.load([head, i, 0]).reshape(BM, D)
    top, total = tl.full([BM], -1e30, tl.float32), tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for at in range(0, N, BN):
        s = tl.dot(q, K.load([head, at, 0]).reshape(BN, D).T) * scale
        s = tl.where(at + tl.arange(0, BN)[None, :] < N, s, -1e30)
        new = tl.maximum(top, tl.max(s, 1))
        p, alpha = tl.exp(s - new[:, None]), tl.exp(top - new)
        acc = tl.dot(p.to(tl.float16), V.load([head, at, 0]).reshape(BN, D), acc * alpha[:, None])
        total, top = total * alpha + tl.sum(p, 1), new
    Z.store([head, i, 0], (acc / total[:, None]).to(tl.float16).reshape(1, BM, D))


def _cases():
    def of(kernel, grid, *arguments, **options):
        """A case: arguments that are functions make tensors on the device, or descriptors; others are as they are."""

        def case(device):
            made = [argument(device) if callable(argument) else argument for argument in arguments]
            return lambda: kernel[grid](*made, **options)

        return case

    def half(*shape):
        return lambda device: torch.zeros(shape, device=device, dtype=torch.float16)

    def boxes(shape, block, dtype=torch.float16):
        return lambda device: TensorDescriptor.from_tensor(torch.zeros(shape, device=device, dtype=dtype), list(block))

    def whole(*values):
        return lambda device: torch.tensor(values, dtype=torch.int32)

    square = {"BM": 64, "BN": 64, "BK": 64}
    persistent = (boxes((200, 128), (64, 64)), boxes((192, 128), (64, 64)))
    return {
        "copy_boxes": of(copy_boxes, (4, 3), boxes((100, 160), (32, 64)), boxes((100, 160), (32, 64)), BM=32, BN=64),
        "shift_boxes": of(
            shift_boxes, (3, 2), boxes((80, 128), (32, 64)), boxes((80, 128), (32, 64)), 20, BM=32, BN=64
        ),
        "transpose_heads": of(
            transpose_heads, (2, 3, 2), boxes((2, 50, 3, 64), (1, 32, 1, 64)), boxes((2, 3, 50, 64), (1, 1, 32, 64)),
            50, H=3, BN=32, D=64,
        ),
        "gemm_host": of(
            gemm_host, (3, 2), boxes((192, 256), (64, 64)), boxes((128, 256), (64, 64)), boxes((192, 128), (64, 64)),
            256, num_stages=3, **square,
        ),
        "gemm_host_edges": of(
            gemm_host, (3, 2), boxes((150, 168), (64, 64)), boxes((104, 168), (64, 64)), boxes((150, 104), (64, 64)),
            168, **square,
        ),
        "gemm_host_wide": of(
            gemm_host, (2, 1), boxes((256, 128), (128, 64)), boxes((128, 128), (128, 64)),
            boxes((256, 128), (128, 128)), 128, BM=128, BN=128, BK=64,
        ),
        "gemm_device": of(
            gemm_device, (3, 2), half(150, 168), half(168, 104), half(150, 104), 150, 104, 168, **square
        ),
        "rows_of_ragged": of(
            rows_of_ragged, (3, 4), half(200, 64), half(200, 64), whole(0, 40, 40, 120, 200), D=64, BM=32
        ),
        "gemm_persistent_host": of(
            gemm_persistent, (5,), *persistent, boxes((200, 192), (64, 64)), 200, 192, 128,
            GROUP=2, HALVES=False, FLATTEN=False, **square,
        ),
        "gemm_persistent_flat": of(
            gemm_persistent, (5,), *persistent, boxes((200, 192), (64, 64)), 200, 192, 128,
            GROUP=2, HALVES=False, FLATTEN=True, **square,
        ),
        "gemm_persistent_halves": of(
            gemm_persistent, (5,), *persistent, boxes((200, 192), (64, 32)), 200, 192, 128,
            GROUP=2, HALVES=True, FLATTEN=True, **square,
        ),
        "gemm_persistent_device": of(
            gemm_persistent_device, (5,), half(200, 128), half(192, 128), half(200, 192), 200, 192, 128, **square
        ),
        "add_rows": of(
            add_rows, (5, 2), boxes((100, 160), (32, 32), torch.float32), boxes((32, 160), (32, 32), torch.float32),
            100, BM=32, BN=32,
        ),
        "attention_boxes": of(
            attention_boxes, (2, 3), boxes((3, 100, 64), (1, 64, 64)), boxes((3, 100, 64), (1, 32, 64)),
            boxes((3, 100, 64), (1, 32, 64)), boxes((3, 100, 64), (1, 64, 64)), 100, 0.1, BM=64, BN=32, D=64,
        ),
    }  # fmt: skip


CASES = _cases()
