#!/bin/bash
# Compile a driver for sm_90a, note what it launches, and keep the cubin: build.sh DRIVER SOURCES OUT
#
# SOURCES: folder of the projects' sources, as README.md lists them, with torch/include of a wheel of torch, cccl of
# nvidia-cuda-cccl, cublas of nvidia-cublas. OUT: DRIVER.cubin and DRIVER.ndjson; objects lie in OUT/DRIVER.
# LINK=1: what is compiled already is linked and run alone. Needs nvcc and g++, and no GPU.
set -e
n=$1 S=$(realpath "$2") here=$(cd "$(dirname "$0")" && pwd) F=-DFLASHATTENTION_DISABLE
mkdir -p "$3/$n" && cd "$3/$n"
case $n in
vllm*) I="-I$S/vllm/csrc" ;;
llmc) I="-I$S/llm.c -I$S/cublas" ;;
flashinfer) I="-I$S/flashinfer/include -I$S/cccl -I$S/cublas" ;;
bitsandbytes) I="-I$S/bitsandbytes/csrc -I$S/cublas" ;;
ggml) I="-I$S/ggml/include -I$S/ggml/src -I$S/ggml/src/ggml-cuda -I$S/cublas" ;;
flash_attn) I="-DNDEBUG -I$S/cutlass/include -I$S/flash-attention/csrc/flash_attn/src ${F}_DROPOUT ${F}_ALIBI ${F}_LOCAL ${F}_SOFTCAP ${F}_UNEVEN_K" ;;
cutlass*) I="-DNDEBUG -I$S/cutlass/include -I$S/cutlass/tools/util/include" ;;
mamba) I="-I$S/mamba/csrc/selective_scan" ;;
causal_conv1d) I="-I$S/causal-conv1d/csrc" ;;
apex) I="-D__CUDA_NO_HALF_OPERATORS__ -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_HALF2_OPERATORS__ -I$S/apex/csrc -I$S/apex/csrc/megatron" ;;
marlin) I="-I$S/marlin/marlin" ;;
awq) I="-I$S/llm-awq/awq/kernels/csrc" ;;
exllama) I="-I$S/exllamav2/exllamav2/exllamav2_ext" ;;
deepgemm) I="-I$S/DeepGEMM/deep_gemm/include -I$S/cutlass/include" ;;
esac
# parts of files: without explicit instantiations, and of many host functions the one that is called
for file in fwd update; do
  [ $n != causal_conv1d ] || sed 's/^template void causal_conv1d.*$//' "$S/causal-conv1d/csrc/causal_conv1d_$file.cu" > ${file}_alone.cuh
done
[ $n != vllm_cache ] || {
  C=$S/vllm/csrc/cache_kernels.cu
  sed -n 1,16p "$C" && echo 'namespace vllm {' && sed -n 267,355p "$C" && echo '}' && sed -n '622,672p' "$C" | sed '/^}/q'
} > cache_part.cuh
mkdir -p shim
for header in torch/{all,extension,cuda,python,types,torch}.h ATen/{ATen,Dispatch,AccumulateType,Tensor}.h ATen/cuda/{CUDAContext.h,Exceptions.h,DeviceUtils.cuh,Atomic.cuh} \
  c10/cuda/{CUDAGuard,CUDAException,CUDAStream,CUDAMathCompat}.h c10/util/Optional.h; do
  mkdir -p "shim/$(dirname $header)" && echo '#include <torch_shim.h>' > shim/$header
done
[ -n "$LINK" ] || nvcc -gencode arch=compute_90a,code=sm_90a -std=c++17 -O3 --expt-relaxed-constexpr --expt-extended-lambda -cudart none \
  --keep --keep-dir . -I. -I"$here" -Ishim -I"$S/torch/include" -w $I -c "$here/drivers/$n.cu" -o "$n.o"
g++ -O1 -std=c++17 -I"$(dirname "$(readlink -f "$(command -v nvcc)")")/../include" -I/usr/local/cuda/include -c "$here/runtime.cpp" -o runtime.o
# what else a project's host code calls of CUDA's libraries, and these launches do not reach
g++ -Wl,--no-demangle "$n.o" runtime.o -o "$n.exe" 2> link.log || {
  grep -o 'undefined reference to `[A-Za-z0-9_]*' link.log | sed 's/.*`//' | sort -u | sed 's/.*/extern "C" int &() { return 1; }/' > stubs.cpp
  g++ -c stubs.cpp -o stubs.o && g++ "$n.o" runtime.o stubs.o -o "$n.exe"
}
cp ./*.cubin "../$n.cubin"
python - "../$n.cubin" > parameters <<'P'
import sys
from pathlib import Path
from tilesight.kernels.compile.kernel_info import read_cubin

for name, info in read_cubin(Path(sys.argv[1]).read_bytes()).items():
    print(name, info.registers, info.smem_bytes, *(size for _, size in info.parameters))
P
LAUNCHED_PARAMETERS=parameters "./$n.exe" > "../$n.ndjson"
