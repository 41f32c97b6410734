"""Prices of torch's operations beside what GPUs took: `python validate/lab/torch_prices.py [--all]`.

Data: `torch-operations-h100-2026-11-27` (284 single operations on one H100, behind a flushed L2 and repeated) and
`torch-functions-h200-2026-11-25` (nine functions on one H200). A line holds a name, the operations as torch's
dispatcher sees them (`Operation.to_dict`), and the kernels of the profiler, [name, us]; an operation that is not
written down has none. Numbers were read off the even lines of the first ("fitted") where a kind of operation has any,
else off odd ones (sums and RMS norms of rows, top-k, pooling); and whoever chose the forms of the prices saw all lines.
So the others are no blind test.
"""

import argparse
import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Literal

from tilesight.simulator.device.device import Device, load_device
from tilesight.simulator.operations.cost_model import KernelCostModel
from tilesight.simulator.operations.operation import Operand, Operation
from tilesight.simulator.operations.price import price
from tilesight.simulator.operations.priced import KernelEstimate

DATA = Path(__file__).parents[1] / "data"
OPERATIONS, FUNCTIONS = "torch-operations-h100-2026-11-27", "torch-functions-h200-2026-11-25"
MACHINE_CODE = "torch-machine-code-h100-2026-11-27"
"""What `torch_machine_code.py` wrote."""
FLUSH_BYTES = 256 << 20
Temperature = Literal["cold", "warm"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Operations, and their kernels as (name, us), by temperature of L2; `fitted`: an even line."""

    name: str
    operations: tuple[Operation, ...]
    kernels: dict[str, list[tuple[str, float]]]
    fitted: bool

    def measured_s(self, temperature: Temperature) -> float:
        """All of its kernels [s]."""
        return 1e-6 * sum(us for _, us in self.kernels[temperature])


def rows(name: str) -> Iterator[dict[str, Any]]:
    """Lines of a file. Args: name: without `.ndjson.xz`."""
    with lzma.open(DATA / f"{name}.ndjson.xz", "rt") as lines:
        yield from map(json.loads, lines)


def cases(name: str) -> Iterator[Case]:
    """Those of a file whose operations are written down. Args: name: without `.ndjson.xz`."""
    for number, row in enumerate(rows(name)):
        if row["operations"]:
            yield Case(
                name=row["name"],
                operations=tuple(map(Operation.from_dict, row["operations"])),
                kernels={key: row[key] for key in ("cold", "warm") if key in row},
                fitted=number % 2 == 0,
            )


def second_run(case: Case, device: Device, temperature: Temperature) -> list[KernelEstimate]:
    """Kernels of a case that has run before, L2 overwritten since then or not."""
    gpu = KernelCostModel(device)
    _run(case.operations, gpu)
    if temperature == "cold":
        zeros = Operand(storage=-1, storage_bytes=FLUSH_BYTES, shape=(FLUSH_BYTES,), strides=(1,), dtype="uint8")
        _run((Operation(kind="torch", name="zero_", inputs=(zeros,), outputs=(zeros,)),), gpu)
    return _run(case.operations, gpu)


def _run(operations: tuple[Operation, ...], gpu: KernelCostModel) -> list[KernelEstimate]:
    return [kernel for operation in operations for kernel in price(operation, gpu)]


def main() -> None:
    """Print errors: of each case with `--all`, else of each half."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="a line for each case")
    is_long = parser.parse_args().all
    print("| data | L2 | half | cases | mean | median | worst | as many kernels |\n|---|---|---|---|---|---|---|---|")
    for file, name in ((OPERATIONS, "h100"), (FUNCTIONS, "h200")):
        device = load_device(name)
        recorded = list(cases(file))
        for temperature in ("cold", "warm"):
            for fitted in (True, False):
                errors, counts, worst = [], 0, ("", 0.0)
                for case in recorded:
                    if temperature not in case.kernels or case.fitted != fitted:
                        continue
                    kernels = second_run(case, device, temperature)
                    if any(kernel.source == "refused" for kernel in kernels):
                        continue
                    predicted, measured = sum(kernel.time_s for kernel in kernels), case.measured_s(temperature)
                    error = predicted / measured - 1.0
                    errors.append(abs(error))
                    counts += len(kernels) == len(case.kernels[temperature])
                    worst = max(worst, (case.name, error), key=lambda pair: abs(pair[1]))
                    if is_long:
                        print(f"{case.name}: {1e6 * measured:.1f} us, {1e6 * predicted:.1f} predicted, {error:+.1%}")
                if errors:
                    half = "fitted" if fitted else "others"
                    middle = f"{mean(errors):.1%} | {median(errors):.1%} | {worst[0]} {worst[1]:+.0%}"
                    print(f"| {name} | {temperature} | {half} | {len(errors)} | {middle} | {counts} |")


if __name__ == "__main__":
    main()
