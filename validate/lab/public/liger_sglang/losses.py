"""Cases of losses: rows as long as a vocabulary."""

from launching import Body, case, library
from libraries import flash_attn, liger, unsloth
from made import backward, bf16, fp32, given, seeded


@case("liger.cross_entropy", "loss")
def liger_cross_entropy(device: str) -> Body:
    op = liger("cross_entropy").LigerCrossEntropyFunction
    x, y = bf16(device, 4096, 128256, grad=True), given(device, seeded(128256, 4096))
    return lambda: op.apply(x, y, None, -100, 0.0, 0.0, "mean", None, False)


@case("liger.kl_div", "loss")
def liger_kl_div(device: str) -> Body:
    op = liger("kl_div").LigerKLDivLossFunction
    x, y = fp32(device, 4096, 32000, grad=True), fp32(device, 4096, 32000)
    return lambda: op.apply(x, y, "batchmean", True, 1e-10)


@case("liger.jsd", "loss")
def liger_jsd(device: str) -> Body:
    op = liger("jsd").LigerJSDFunction
    x, y = fp32(device, 4096, 32000, grad=True), fp32(device, 4096, 32000)
    return lambda: op.apply(x, y, None, 0.5, -100)


@case("liger.tvd", "loss")
def liger_tvd(device: str) -> Body:
    op = liger("tvd").LigerTVDLossFunction
    x, y = bf16(device, 4096, 32000, grad=True), bf16(device, 4096, 32000)
    return lambda: op.apply(x, y, None, "batchmean", -100)


@case("flash_attn.cross_entropy", "loss")
def flash_attn_cross_entropy(device: str) -> Body:
    op = flash_attn("cross_entropy")
    x, y = bf16(device, 8192, 50304, grad=True), given(device, seeded(50304, 8192))

    def run() -> object:
        losses, _ = op.cross_entropy_loss(x, y)
        return backward(losses, x)

    return run


@case("unsloth.cross_entropy", "loss")
def unsloth_cross_entropy(device: str) -> Body:
    op = unsloth("cross_entropy_loss").Fast_CrossEntropyLoss
    x, y = bf16(device, 2048, 151936, grad=True), given(device, seeded(151936, 2048))
    return lambda: backward(op.apply(x, y, 0, 0), x)


@case("trl.logprob_entropy", "loss")
def trl_logprob_entropy(device: str) -> Body:
    op = library("trl.kernels.logprob_entropy", "trl", "trl.kernels")
    x, i = bf16(device, 4, 1024, 128256, grad=True), given(device, seeded(128256, 4, 1024))
    return lambda: op.selective_log_softmax_and_entropy(x, i, 0.7)


@case("crossentropy_triton", "loss")
def crossentropy_triton(device: str) -> Body:
    op = library("crossentropy_triton.crossentropy_tl")
    x, y = bf16(device, 8192, 32000), given(device, seeded(32000, 8192))
    return lambda: op.cross_entropy_forward(x, y)
