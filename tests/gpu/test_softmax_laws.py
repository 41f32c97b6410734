"""Every kernel of the project keeps the laws of online softmax, compiled, on a GPU: a thousand inputs for each law.

All kernels and element types that are asked for (`-k`) run side by side, each in a process of its own: as many as
`WORKERS`, or, with xdist, as it has workers. `-rP` shows their tables.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tilesight.kernels.launch.availability import missing_gpu
from tilesight.softmax_laws import kernels
from tilesight.softmax_laws.run.report import to_text
from tilesight.softmax_laws.run.runner import Checked, Job, run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(missing_gpu() is not None, reason=str(missing_gpu()))]
EXAMPLES = int(os.environ.get("TILESIGHT_SOFTMAX_EXAMPLES", "1000"))
DTYPES = ("fp16", "bf16", "fp32")
NAMES = kernels.names() or ("kernels",)
WORKERS = 24
"""All at once: a process waits for the compiler, then for the GPU."""
HAS_WORKERS = "PYTEST_XDIST_WORKER" in os.environ
"""Whether this is one of several processes of tests. Each of them would begin what all others run, too."""
Jobs = dict[tuple[str, str], tuple[Job, "Future[Checked] | None"]]


@pytest.fixture(scope="module")
def jobs(request: pytest.FixtureRequest) -> Iterator[Jobs]:
    """The chosen kernels under all laws, under way unless each test is to run its own."""
    # Other files' tests may be chosen with these, some without parameters.
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = {(case.get("name"), case.get("dtype")) for case in chosen}
    patch = pytest.MonkeyPatch()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        patch.setenv(name, "1")
    with ThreadPoolExecutor(WORKERS) as threads:
        begun: Jobs = {}
        for name in sorted(NAMES, key=("unfused", "naive", "flash1").__contains__, reverse=True):
            for dtype in (dtype for dtype in DTYPES if (name, dtype) in asked):
                target = f"{kernels.__name__}:{name}"
                job = Job(target=target, given={"dtype": dtype}, examples=EXAMPLES, timeout_s=120.0)
                begun[name, dtype] = job, None if HAS_WORKERS else threads.submit(run, job)
        yield begun
    patch.undo()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_a_compiled_kernel_keeps_all_laws(name: str, dtype: str, jobs: Jobs) -> None:
    """A kernel that breaks one computes something else than softmax on this GPU."""
    job, future = jobs[name, dtype]
    checked = run(job) if future is None else future.result()
    text = to_text(checked, job, 120)
    print(text)
    assert [result.law for result in checked.results if result.outcome == "failed"] == [], text
    passed = [result for result in checked.results if result.outcome == "passed"]
    assert len(passed) >= 9
    assert min(result.examples for result in passed) >= EXAMPLES, text
