"""Where modules of libraries are found, and what they import that no case needs: the same for all cases of one."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from launching import absent, folder_of, library
from triton.language.extra import libdevice as tldevice


def liger(name: str) -> Any:
    """A module of liger_kernel.ops."""
    return library(f"liger_kernel.ops.{name}", "liger_kernel", "liger_kernel.ops", "liger_kernel.ops.experimental")


def flash_attn(name: str) -> Any:
    """A module of flash_attn.ops.triton."""
    return library(f"flash_attn.ops.triton.{name}", "flash_attn", "flash_attn.ops", "flash_attn.ops.triton")


def xformers(name: str) -> Any:
    """A module of xformers.ops._triton."""
    return library(f"xformers.ops._triton.{name}", "xformers", "xformers.ops", "xformers.ops._triton")


def fla(path: str) -> Any:
    """A module of fla; its norms are known by their earlier names, too, as its `__init__` has it."""
    bare = ("fla", "fla.ops", "fla.modules")
    for name in ("l2norm", "layernorm"):
        sys.modules[f"fla.modules.{name}"] = library(f"fla.modules.norm.{name}", *bare)
    return library(f"fla.{path}", *bare)


def mamba(name: str) -> Any:
    """A module of mamba_ssm.ops.triton."""
    return library(
        f"mamba_ssm.ops.triton.{name}", "mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton", "mamba_ssm.utils"
    )


def unsloth(name: str) -> Any:
    """A module of unsloth.kernels."""
    absent(*{"unsloth.kernels.fp8", "unsloth.kernels.nvfp4"} - {f"unsloth.kernels.{name}"})
    absent("transformers", "transformers.models")
    absent("bitsandbytes", "bitsandbytes.functional", "bitsandbytes.functional.lib", "transformers.models.llama")
    absent("transformers.models.llama.modeling_llama", LlamaRMSNorm=object)
    absent("unsloth_zoo.patching_utils", "unsloth_zoo.loss_utils", "unsloth_zoo.temporary_patches")
    absent("unsloth_zoo.temporary_patches.common", torch_compile=_as_is)
    found = library(f"unsloth.kernels.{name}", "unsloth", "unsloth.kernels", "unsloth_zoo")
    vars(sys.modules["unsloth"])["DEVICE_TYPE"] = "cuda"
    return found


def bitsandbytes(name: str) -> Any:
    """A module of bitsandbytes.backends.triton."""
    return library(
        f"bitsandbytes.backends.triton.{name}", "bitsandbytes", "bitsandbytes.backends", "bitsandbytes.backends.triton"
    )


def lmdeploy(name: str) -> Any:
    """A module of lmdeploy.pytorch.kernels.cuda."""
    policies = SimpleNamespace(NONE=0, INT4=4, INT8=8, FP8=16, FP8_E5M2=17, TURBO_QUANT=42)
    absent("lmdeploy.pytorch.backends.rejection_sampling", PLACEHOLDER_TOKEN_ID=-1)
    absent("lmdeploy.utils", get_logger=lambda *_: None)
    absent("lmdeploy.messages", QuantPolicy=policies)
    root = "lmdeploy.pytorch.kernels"
    return library(f"{root}.cuda.{name}", "lmdeploy", "lmdeploy.pytorch", root, f"{root}.cuda")


def sglang(path: str) -> Any:
    """A module of sglang.srt.layers, which is told that it runs on an NVIDIA GPU."""
    absent(
        "sglang.srt.utils",
        get_device_name=lambda: "none",
        ceil_align=lambda x, y: -(-x // y) * y,
        is_cuda=lambda: True,
    )
    absent("sglang.srt.utils.custom_op", register_custom_op=_as_is)
    absent("sglang.srt.utils.patch_torch", register_fake_if_exists=_as_is)
    absent("sglang.srt.utils.common", "sglang.srt.layers.deep_gemm_wrapper", "sglang.srt.batch_invariant_ops")
    absent("sglang.srt.layers.moe.topk")
    absent("sglang.jit_kernel", "sglang.jit_kernel.per_tensor_quant_fp8", "sgl_kernel")
    absent("sglang.jit_kernel.per_token_group_quant_8bit")
    root = "sglang.srt.layers"
    parts = ("attention", "attention.triton_ops", "quantization", "moe", "moe.fused_moe_triton")
    return library(f"{root}.{path}", "sglang", "sglang.srt", root, *(f"{root}.{part}" for part in parts))


def sglang_kernels(path: str) -> Any:
    """A module of sglang.kernels.ops, where later versions keep their kernels."""
    absent("sglang.srt.utils", is_hip=_no, is_cuda=_yes, is_npu=_no, is_xpu=_no, is_cpu=_no, is_musa=_no)
    absent("sglang.srt.utils.custom_op", register_custom_op=_as_is)
    absent("sglang.srt.environ", envs=_Settings())
    absent("sglang.srt.utils.patch_torch", register_fake_if_exists=_as_is)
    absent("sglang.kernels.kernel_api_logging", debug_kernel_api=_as_is)
    absent("sglang.kernels.jit.utils", is_arch_support_pdl=_no, cache_once=_as_is)
    absent("sglang.kernels.spec", KernelBackend=_Off())
    absent("sglang.kernels.registry", "sglang.kernels.selector", "sglang.kernels.fused_op")
    absent("sglang.srt.runtime_context")
    return _bare(f"sglang.kernels.ops.{path}")


def vllm(path: str) -> Any:
    """A module of vllm, which is told that it runs on an NVIDIA GPU of 132 SMs."""
    sys.modules.setdefault("vllm.envs", _Switches("vllm.envs"))
    absent("vllm.logger", init_logger=lambda *_: _Off())
    absent("vllm.utils.torch_utils", "vllm.utils.nccl", "vllm.sampling_params")
    absent("vllm.triton_utils", tl=tl, triton=triton, tldevice=tldevice, HAS_TRITON=True, use_tensor_descriptor=_no)
    absent("vllm.v1.attention.backends.utils", NULL_BLOCK_ID=0, PAD_SLOT_ID=-1)
    absent("vllm.platforms.interface", DeviceCapability=object)
    absent("vllm.triton_utils.allocation", "vllm.utils.gpu_sync_debug", "vllm.config", "vllm.v1.outputs")
    here = _Off(is_cuda=_yes, is_cuda_alike=_yes, get_device_capability=_none, fp8_dtype=lambda: torch.float8_e4m3fn)
    absent("vllm.platforms", current_platform=here)
    absent("vllm.utils.platform_utils", num_compute_units=lambda *_: 132)
    absent("vllm.utils.mem_utils", get_max_shared_memory_bytes=lambda *_: 232448)
    return _bare(f"vllm.{path}")


def vllm_omni(path: str) -> Any:
    """A module of vllm_omni, which takes Triton and a log from vllm."""
    absent("vllm.logger", init_logger=lambda *_: _Off())
    absent("vllm.triton_utils", tl=tl, triton=triton, tldevice=tldevice, HAS_TRITON=True, use_tensor_descriptor=_no)
    return _bare(f"vllm_omni.{path}")


def triton_kernels(path: str) -> Any:
    """A module of triton_kernels, of the copy that vllm brings."""
    library("vllm")
    package = ModuleType("triton_kernels")
    package.__path__ = [folder_of("vllm.third_party.triton_kernels")]
    sys.modules.setdefault("triton_kernels", package)
    return library(f"triton_kernels.{path}", "triton_kernels")


def flag_gems(path: str) -> Any:
    """A module of flag_gems, whose own autotuner and launcher are Triton's here."""
    lead = lambda _: nullcontext()  # noqa: E731
    absent("flag_gems.runtime", torch_device_fn=SimpleNamespace(device=lead), device=_Off(name="cuda"))
    tune = lambda configs, key, **_: triton.autotune(configs=configs, key=key)  # noqa: E731
    absent("flag_gems.utils", libentry=lambda: lambda kernel: kernel, libtuner=tune, tl_extra_shim=tldevice)
    sys.modules["flag_gems.utils"].__path__ = [folder_of("flag_gems.utils")]
    absent("flag_gems.utils.triton_lang_helper", use_tl_extra=lambda function: function)
    library("flag_gems.utils.triton_lang_extension", "flag_gems")
    return _bare(f"flag_gems.{path}")


def plain(path: str) -> Any:
    """A module of a library of which no package's `__init__` is wanted."""
    return _bare(path)


def fskernels(name: str) -> Any:
    """A module of fskernels.triton."""
    absent("transformers", "transformers.models", "transformers.models.qwen3")
    absent("transformers.models.qwen3.modeling_qwen3")
    return library(f"fskernels.triton.{name}", "fskernels", "fskernels.triton")


def torchao(name: str) -> Any:
    """A module of torchao.kernel."""
    absent("torchao.kernel.autotuner")
    return library(f"torchao.kernel.{name}", "torchao", "torchao.kernel")


def deepspeed(path: str) -> Any:
    """A module of deepspeed, which is told that it has Triton."""
    absent("deepspeed.ops.triton_ops._triton", _TRITON_AVAILABLE=True, triton=triton, tl=tl)
    absent("deepspeed.utils", "deepspeed.utils.torch")
    return _bare(f"deepspeed.{path}")


def transformer_engine(name: str) -> Any:
    """A module of transformer_engine.pytorch.triton."""
    absent("transformer_engine.pytorch.cpp_extensions", "transformer_engine.pytorch.cpp_extensions.gemm")
    roots = ("transformer_engine", "transformer_engine.common", "transformer_engine.pytorch")
    return library(f"transformer_engine.pytorch.triton.{name}", *roots, "transformer_engine.pytorch.triton")


def modelopt(path: str) -> Any:
    """A module of modelopt.torch.kernels."""
    absent("modelopt.torch.quantization.utils.numeric_utils", E4M3_MAX=448.0)
    for name in ("sparsity.attention.skip_softmax_helpers", "quantization.attention.bmm2_qdq"):
        _bare(f"modelopt.torch.kernels.{name}")
    return _bare(f"modelopt.torch.kernels.{path}")


def ring_attention(name: str) -> Any:
    """A module of ring_attention_pytorch, which asks for the version of Triton by the name of its nightly builds."""
    with patch("importlib.metadata.version", lambda _: triton.__version__):
        return _bare(f"ring_attention_pytorch.{name}")


def tokenspeed(path: str, **above: Any) -> Any:
    """A module of tokenspeed_kernel.ops, whose Triton is the one of all others. Args: above: what its package holds."""
    absent("tokenspeed_kernel._triton", tl=tl, triton=triton, libdevice=tldevice)
    absent("tokenspeed_kernel.registry", register_kernel=_as_is, Priority=_Off())
    absent("tokenspeed_kernel.signature", "tokenspeed_kernel.platform", "tokenspeed_kernel.selection")
    absent("tokenspeed_kernel.profiling", "tokenspeed_kernel.ops.tuning")
    root = f"tokenspeed_kernel.ops.{path}".rpartition(".")[0]
    parts = root.split(".")
    vars(library(root, *(".".join(parts[:size]) for size in range(1, len(parts) + 1)))).update(above)
    return _bare(f"tokenspeed_kernel.ops.{path}")


def gptqmodel(path: str) -> Any:
    """A module of gptqmodel."""
    library("gptqmodel.utils.env", "gptqmodel", "gptqmodel.utils")
    absent("gptqmodel.utils.logger", "gptqmodel.utils.torch", HAS_XPU=False)
    return _bare(f"gptqmodel.{path}")


def verl(path: str) -> Any:
    """A module of verl.utils, which is told that it runs on an H100 or H200."""
    absent("verl.utils.device", get_device_capability=lambda *_: (9, 0), get_device_name=lambda: "cuda")
    sys.modules["verl.utils.device"].is_cuda_available = True
    return _bare(f"verl.utils.{path}")


def minference(path: str) -> Any:
    """A module of minference."""
    absent("minference.cuda", "transformers", "transformers.models", "transformers.utils")
    absent("transformers.utils.import_utils", "transformers.models.llama", "transformers.models.llama.modeling_llama")
    vars(sys.modules["transformers.models.llama.modeling_llama"]).setdefault("Cache", object)
    return _bare(f"minference.{path}")


def nemo(path: str) -> Any:
    """A module of nemo.collections.asr.parts."""
    absent("nemo.core.utils.optional_libs", "nemo.utils")
    return _bare(f"nemo.collections.asr.parts.{path}")


def miniworld(path: str) -> Any:
    """A module of miniworld_engine."""
    absent("jaxtyping", Float=_Shaped, Bool=_Shaped, Int=_Shaped)
    return _bare(f"miniworld_engine.{path}")


def axolotl(path: str) -> Any:
    """A module of axolotl, without what it takes from bitsandbytes."""
    absent("axolotl.kernels.quantize")
    return _bare(f"axolotl.{path}")


def protenix(path: str) -> Any:
    """A module of protenix, whose autotuner keeps no file here."""
    absent("protenix.model.tri_attention.autotune_helpers", **dict.fromkeys(_TRIANGLE_CONFIGS, ()))
    absent("protenix.model.tri_attention.autotune", autotune=lambda **_: lambda kernel: SimpleNamespace(fn=kernel))
    return _bare(f"protenix.{path}")


def megatron(path: str) -> Any:
    """A module of megatron.core, of whose helpers none is wanted."""
    absent("megatron.core.utils", null_decorator=_as_is)
    return _bare(f"megatron.core.{path}")


def tridec(path: str) -> Any:
    """A module of tridec, without the graphs that scipy makes."""
    absent("scipy", "scipy.sparse", "tridec.tanner")
    return _bare(f"tridec.{path}")


def triton_sigmoid(name: str) -> Any:
    """A module of triton_sigmoid, which is told that it runs on an H100 or H200."""
    with patch.object(torch.cuda, "get_device_capability", lambda *_: (9, 0)):
        return _bare(f"triton_sigmoid.{name}")


_TRIANGLE_CONFIGS = tuple(f"_attention_bwd_{name}_configs" for name in ("preprocess", "dkdv", "dq", "dbias2"))


class _Shaped:
    """A type of tensors of some shape."""

    def __class_getitem__(cls, shape: object) -> type:
        return cls


class _Off:
    """Something of which all is off, unless given, and whose functions say no."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _no


class _Settings:
    """Settings of an environment: none is set, which `get` of each says."""

    def __getattr__(self, name: str) -> _Off:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Off(get=_no)


class _Switches(ModuleType):
    """A module of switches that are all off."""

    def __getattr__(self, name: str) -> bool:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


def _no(*_: Any, **__: Any) -> bool:
    return False


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _none(*_: Any, **__: Any) -> None:
    return None


def _bare(path: str) -> Any:
    """Import a module without the `__init__` of any package above it."""
    parts = path.split(".")
    return library(path, *(".".join(parts[:size]) for size in range(1, len(parts))))


def _as_is(*functions: Any, **_: Any) -> Any:
    """A decorator, with arguments or without, that changes nothing."""
    return functions[0] if functions and callable(functions[0]) else lambda function: function
