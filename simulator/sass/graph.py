"""Dominators and natural loops of a graph of blocks, given as a list of each block's successors; block 0 is the entry.

Source: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
"""

from collections.abc import Sequence

Successors = Sequence[Sequence[int]]


def find_dominators(successors: Successors) -> tuple[int, ...]:
    """Block -> the block that directly dominates it; itself for the entry, -1 where it cannot be reached."""
    order = _reverse_postorder(successors)
    rank = {block: place for place, block in enumerate(order)}
    above = predecessors(successors)
    dominators = [-1] * len(successors)
    dominators[0] = 0
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [source for source in above[block] if dominators[source] >= 0]
            meeting = known[0]
            for other in known[1:]:
                while meeting != other:
                    if rank[meeting] > rank[other]:
                        meeting = dominators[meeting]
                    else:
                        other = dominators[other]
            if dominators[block] != meeting:
                dominators[block] = meeting
                changed = True
    return tuple(dominators)


def find_post_dominators(successors: Successors) -> tuple[int, ...]:
    """Block -> the first other block that every way from it to an end leads through; -1 where there is none."""
    # The same graph with all edges turned round, and one entry, number 0, in front of all ends.
    ends = [block + 1 for block, targets in enumerate(successors) if not targets]
    turned = [ends, *([source + 1 for source in sources] for sources in predecessors(successors))]
    return tuple(block - 1 if block > 0 else -1 for block in find_dominators(turned)[1:])


def natural_loops(successors: Successors, dominators: Sequence[int]) -> dict[int, set[int]]:
    """Header -> blocks of its loop. Args: dominators: as `find_dominators` gives them."""
    above = predecessors(successors)
    bodies: dict[int, set[int]] = {}
    for tail, targets in enumerate(successors):
        for header in targets:
            if dominators[tail] >= 0 and stands_over(dominators, header, tail):
                bodies.setdefault(header, {header}).update(_reaching(above, dominators, tail, header))
    return bodies


def stands_over(dominators: Sequence[int], above: int, block: int) -> bool:
    """Whether a block dominates another one that can be reached, or is the same."""
    while block > 0 and block != above:
        block = dominators[block]
    return block == above


def predecessors(successors: Successors) -> list[list[int]]:
    """Block -> blocks that lead to it."""
    above: list[list[int]] = [[] for _ in successors]
    for block, targets in enumerate(successors):
        for target in targets:
            above[target].append(block)
    return above


def _reverse_postorder(successors: Successors) -> list[int]:
    """Blocks that can be reached, each before its successors but for loops."""
    seen, finished = {0}, []
    stack = [(0, iter(successors[0]))]
    while stack:
        block, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            finished.append(block)
            stack.pop()
    return finished[::-1]


def _reaching(above: list[list[int]], dominators: Sequence[int], tail: int, header: int) -> set[int]:
    """Blocks from which a loop's last block is reached without its header."""
    body, waiting = {header}, [tail]
    while waiting:
        block = waiting.pop()
        if block not in body and dominators[block] >= 0:
            body.add(block)
            waiting += above[block]
    return body
