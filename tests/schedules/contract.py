"""The contract of a schedule, clause by clause: each function raises AssertionError where the launches break it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from support.sectors import sector_bytes, tolerated_bytes
from tilesight.simulator.launch.program import Launch, Loop, Step, Tensor
from tilesight.simulator.launch.walk import Access, accesses, begin_alike, steps, tally, tally_items
from tilesight.simulator.problems.attention import AttentionProblem
from tilesight.simulator.problems.problem import Problem
from tilesight.simulator.schedules.config import Config
from tilesight.simulator.schedules.tiles import strip_tiles

Launches = tuple[Launch, ...]


def items_of(launch: Launch) -> Iterator[list[Access]]:
    """The accesses of each item of a launch, in program order."""
    for item in range(launch.program.item_count):
        yield list(accesses(launch.program, item))


def tensors_of(launches: Launches) -> dict[str, Tensor]:
    """All tensors of a pipeline by name."""
    return {tensor.name: tensor for launch in launches for tensor in launch.program.tensors}


def area(access: Access) -> tuple[int, slice, slice]:
    """The accessed elements, as an index into an array (slabs, rows, cols)."""
    return access.slab, slice(access.row, access.row + access.rows), slice(access.col, access.col + access.cols)


def counts(launches: Launches, kind: str) -> dict[str, np.ndarray]:
    """How often each element of each tensor is loaded or stored, over all launches."""
    total = {
        name: np.zeros((tensor.slabs, tensor.rows, tensor.cols), np.int32)
        for name, tensor in tensors_of(launches).items()
    }
    for launch in launches:
        for item in items_of(launch):
            for access in item:
                if access.kind == kind:
                    total[access.tensor][area(access)] += 1
    return total


def tally_equals_the_sum_of_accesses(launches: Launches) -> None:
    for launch in launches:
        moved: dict[tuple[str, str], list[Access]] = defaultdict(list)
        boxes = {
            tile.tensor: tile.rows
            for step, _ in steps(launch.program.body)
            for tile in step.loads
            if tile.path == "tma"
        }
        for item in items_of(launch):
            for access in item:
                rows = boxes.get(access.tensor, access.rows) if access.kind == "load" else access.rows
                moved[access.kind, access.tensor].append(replace(access, rows=rows))
        totals = tally(launch.program)
        for kind, by_tensor in (("load", totals.load_bytes), ("store", totals.store_bytes)):
            for name, count in by_tensor.items():
                tensor, those = launch.program.tensor(name), moved[kind, name]
                expected, off = sum(sector_bytes(tensor, access) for access in those), tolerated_bytes(tensor, those)
                assert abs(count - expected) <= off, f"{launch.name}: {kind} {name}: {count} != {expected}"


def accesses_stay_inside(launches: Launches) -> None:
    for launch in launches:
        for item in items_of(launch):
            for access in item:
                tensor = launch.program.tensor(access.tensor)
                assert 0 <= access.slab < tensor.slabs, f"{launch.name}: {access}"
                assert 0 <= access.row < access.row + access.rows <= tensor.rows, f"{launch.name}: {access}"
                assert 0 <= access.col < access.col + access.cols <= tensor.cols, f"{launch.name}: {access}"


def every_element_is_written(launches: Launches, rewritten: frozenset[str] = frozenset()) -> None:
    """Outputs and scratch exactly once (those named `rewritten` once or more), inputs never."""
    tensors = tensors_of(launches)
    for name, count in counts(launches, "store").items():
        role = tensors[name].role
        if role == "input":
            assert not count.any(), f"input {name} is written"
        elif name in rewritten:
            assert count.min() >= 1, f"{role} {name}: an element is never written"
        else:
            assert count.min() == count.max() == 1, f"{role} {name}: written {count.min()} to {count.max()} times"


def every_input_is_read(launches: Launches) -> None:
    tensors = tensors_of(launches)
    for name, count in counts(launches, "load").items():
        if tensors[name].role == "input":
            assert count.min() >= 1, f"input {name}: an element is never read"


def nothing_is_read_before_it_is_written(launches: Launches) -> None:
    """What is no input was written by an earlier launch, or earlier by the same item."""
    tensors = tensors_of(launches)
    written = {
        name: np.zeros((tensor.slabs, tensor.rows, tensor.cols), bool)
        for name, tensor in tensors.items()
        if tensor.role != "input"
    }
    for launch in launches:
        stored: list[Access] = []
        for item in items_of(launch):
            stores: list[Access] = []
            for access in item:
                if access.kind == "store":
                    stores.append(access)
                elif access.tensor in written:
                    known = written[access.tensor][area(access)].all() or any(_holds(store, access) for store in stores)
                    assert known, f"{launch.name}: {access} before it is written"
            stored += stores
        for access in stored:
            written[access.tensor][area(access)] = True


def _holds(store: Access, load: Access) -> bool:
    return (
        (store.tensor, store.slab) == (load.tensor, load.slab)
        and store.row <= load.row
        and load.row + load.rows <= store.row + store.rows
        and store.col <= load.col
        and load.col + load.cols <= store.col + store.cols
    )


def every_query_meets_the_keys_it_sees(launches: Launches, problem: AttentionProblem) -> None:
    """Some item touches Q[i] and K[j], and some item O[i] and V[j], for each score (i, j) that is not masked."""
    m, n = problem.seqlen_q, problem.seqlen_k
    visible = np.tri(m, n, n - m, dtype=bool) if problem.causal else np.ones((m, n), bool)
    if problem.window:
        visible &= ~np.tri(m, n, n - m - problem.window, dtype=bool)
    for rows, columns in (("Q", "K"), ("O", "V")):
        met = np.zeros((problem.batch * problem.heads, m, n), bool)
        for launch in launches:
            for item in items_of(launch):
                left, right = ([access for access in item if access.tensor == name] for name in (rows, columns))
                for slab in {access.slab for access in left}:
                    query, key = np.zeros(m, bool), np.zeros(n, bool)
                    for access in left:
                        if access.slab == slab:
                            query[access.row : access.row + access.rows] = True
                    for access in right:
                        if access.slab == slab // problem.head_group:
                            key[access.row : access.row + access.rows] = True
                    met[slab] |= np.outer(query, key)
        assert (met | ~visible).all(), f"{rows} never meets some {columns} that it sees"


def every_row_is_written_by_whom_it_was_read(launches: Launches) -> None:
    """An item that stores a part of a row of Y has loaded the whole row of X before."""
    for launch in launches:
        width = launch.program.tensor("X").cols
        for item in items_of(launch):
            seen: dict[tuple[int, int], set[int]] = {}
            for access in item:
                for row in range(access.row, access.row + access.rows):
                    columns = seen.setdefault((access.slab, row), set())
                    if access.kind == "load":
                        columns.update(range(access.col, access.col + access.cols))
                    assert access.kind == "load" or len(columns) == width, f"{launch.name}: {access} from part of a row"


def nothing_needed_is_left_out(launches: Launches, problem: AttentionProblem, solved: type[Problem]) -> None:
    """What each output element depends on was read by whom it is computed."""
    if solved is AttentionProblem:
        every_query_meets_the_keys_it_sees(launches, problem)
    else:
        every_row_is_written_by_whom_it_was_read(launches)


def no_step_loads_a_tile_twice(launches: Launches) -> None:
    for launch in launches:
        for step, _ in steps(launch.program.body):
            for tiles in (step.loads, step.stores):
                places = [replace(tile, path="plain") for tile in tiles]
                assert len(places) == len(set(places)), f"{launch.name}: step {step.name} names a tile twice"


def items_repeat_with_the_period(launches: Launches) -> None:
    for launch in launches:
        program = launch.program
        first = [tally_items(program, item, item + 1) for item in range(program.period_items)]
        alike = begin_alike(program)
        for item in range(program.period_items, program.item_count):
            expected, seen = first[item % program.period_items], tally_items(program, item, item + 1)
            same = seen == expected if alike else seen.executions == expected.executions
            assert same, f"{launch.name}: item {item} breaks the period"


def names_are_unique(launches: Launches) -> None:
    """Launches of a pipeline, steps and tensors of a launch; a tensor of one name is the same in all launches."""
    known = tensors_of(launches)
    names = [launch.name for launch in launches]
    assert len(names) == len(set(names))
    for launch in launches:
        step_names = [step.name for step, _ in steps(launch.program.body)]
        assert len(step_names) == len(set(step_names))
        tensors = [tensor.name for tensor in launch.program.tensors]
        assert len(tensors) == len(set(tensors))
        used = {tile.tensor for step, _ in steps(launch.program.body) for tile in (*step.loads, *step.stores)}
        assert used == set(tensors), f"{launch.name}: declares {sorted(tensors)}, uses {sorted(used)}"
        assert all(tensor == known[tensor.name] for tensor in launch.program.tensors)


def executed_flop(launches: Launches) -> int:
    """Operations of all tile products, padding and masked parts included [FLOP]."""
    total = 0
    for launch in launches:
        executions = tally(launch.program).executions
        for step, _ in steps(launch.program.body):
            total += executions[step.name] * sum(product.flop for product in step.work.matmuls)
    return total


def fingerprint(launches: Launches) -> list[object]:
    """All that a launch says, comparable: the function `items` by its values."""
    seen: list[object] = []
    for launch in launches:
        program = launch.program
        table = program.items(np.arange(program.item_count, dtype=np.int64))
        seen.append(replace(launch, program=replace(program, items=len), constants=dict(launch.constants)))  # type: ignore[arg-type]
        seen.append(table.tolist())
    return seen


def edit_steps(launch: Launch, edit: Callable[[Step], Step]) -> Launch:
    """The same launch with each step of its body edited."""

    def edited(body: tuple[Step | Loop, ...]) -> tuple[Step | Loop, ...]:
        return tuple(replace(node, body=edited(node.body)) if isinstance(node, Loop) else edit(node) for node in body)

    return replace(launch, program=replace(launch.program, body=edited(launch.program.body)))


TABLE = re.compile(
    r"(?:^(\w+):\n\n)?^\| tensor \| times read \| times written \|\n\|---\|---\|---\|\n((?:\|.*\|\n)+)", re.M
)


def tables(docstring: str) -> dict[str, dict[str, tuple[str, str]]]:
    """The tally tables of a schedule's docstring: launch (empty where there is one) -> tensor -> (read, written)."""
    by_launch: dict[str, dict[str, tuple[str, str]]] = {}
    for match in TABLE.finditer(docstring):
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in match[2].splitlines()]
        by_launch[match[1] or ""] = {tensor: (read, written) for tensor, read, written in rows}
    return by_launch


def tally_matches_the_tables(launches: Launches, docstring: str, problem: AttentionProblem, config: Config) -> None:
    """Bytes of each tensor are its size times what the table says; for problems that the tiles cover exactly."""
    written_down = tables(docstring)
    names = [launch.name if len(launches) > 1 else "" for launch in launches]
    assert list(written_down) == names, f"tables of {list(written_down)}, launches {names}"
    known = {
        "q_tiles": -(-problem.seqlen_q // config.block_m),
        "k_tiles": -(-problem.seqlen_k // config.block_n),
        "strips": -(-problem.seqlen_k // config.block_n) // strip_tiles(problem, config.block_m, config.block_n),
        "group": problem.head_group,
        "slabs": problem.batch * problem.heads,
        "sweeps": 1 if problem.seqlen_k <= 16384 else 2,
        "passes": {"naive": 2, "safe": 3, "online": 2}.get(config.named().get("softmax_variant")),
    }
    for name, launch in zip(names, launches, strict=True):
        totals = tally(launch.program)
        assert set(written_down[name]) == {tensor.name for tensor in launch.program.tensors}
        for tensor_name, (read, written) in written_down[name].items():
            tensor = launch.program.tensor(tensor_name)
            size = tensor.slabs * tensor.rows * tensor.row_bytes
            for times, moved in ((read, totals.load_bytes), (written, totals.store_bytes)):
                expected = eval(times, {"__builtins__": {}}, known) * size
                assert moved.get(tensor_name, 0) == expected, f"{launch.name}: {tensor_name}: not {times} times"
