"""Statistical profiles of the workers' threads."""

import asyncio
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from .collector import Collector, Context
from .scrub import scrub
from .sections import Record
from .values import ADDRESS_LENGTH, NAME_LENGTH, cut, to_count, uuid7

USUAL_INTERVAL_SECONDS = 60.0
# Workers store their samples by cycle, one second by default. Unfinished cycles are left to the
# next window.
CYCLE_SECONDS = 2.0
LONGEST_WINDOW_SECONDS = 900.0  # workers keep at least 1000 seconds
WORKERS, WORKERS_AT_ONCE, PREFIXES = 20, 2, 16
# The timeout of one response of a worker, which may be blocked or gone.
RESPONSE_SECONDS = 5.0
# Less than the server accepts, because the report that carries a profile must stay small.
MOST_NODES, MOST_FRAMES = 10_000, 4_000
PRUNED_SHARE = 0.001
FUNCTION_LENGTH, LINE_LENGTH = 1024, 2000
MOST_FUNCTIONS, MOST_ROOTS = 100, 1_000  # the server's maxima

Tree = Mapping[str, Any]  # in the format of Dask's workers
# The prefix of the tasks and the id of the worker; None if samples of several are not separated.
PartKey = Tuple[Optional[str], Optional[str]]


class Profiles(Collector):
    """Reports a profile of some workers for each time window, if the settings enable it.

    A window contains the samples of those worker cycles that ended within it. Windows are adjacent,
    and no sample is in two of them. If there are many workers, they take turns. A worker that does
    not respond is left out, and without samples there is no profile. While profiles may not be
    sent, nothing is requested or counted as withheld.
    """

    def __init__(self, context: Context):
        super().__init__(context)
        self._since: Optional[float] = None
        self._collection: Optional["asyncio.Future[None]"] = None
        self._sampled_workers: Dict[str, None] = {}  # workers, least recently sampled first

    def read(self, now: float, closed_at: Optional[float] = None) -> None:
        until = now - CYCLE_SECONDS
        if not self._is_enabled() or self._since is None:
            self._since = now
        elif (
            closed_at is None and self._collection is None and until >= self._since + self._pause()
        ):
            since = max(self._since, until - LONGEST_WINDOW_SECONDS)
            self._since = until
            self._collection = asyncio.ensure_future(self._collect(since, until))
            self._collection.add_done_callback(self._on_collected)

    def export_state(self) -> Optional[float]:
        # A window in progress is lost, and no window begins before it ends.
        return self._since

    def import_state(self, inherited: float) -> None:
        self._since = float(inherited)

    def close(self) -> None:
        if self._collection is not None:
            self._collection.cancel()

    def _is_enabled(self) -> bool:
        # The settings in a pickle of an older release of the plugin lack profiles.
        setting = self.context.settings.get("send_profiles", False)
        return bool(setting) and self.context.sends("profiles")

    def _pause(self) -> float:
        return self.context.settings.get("profile_interval_seconds") or USUAL_INTERVAL_SECONDS

    def _on_collected(self, collection: "asyncio.Future[None]") -> None:
        self._collection = None
        # A window is lost, which cannot be repaired.
        if not collection.cancelled() and collection.exception() is not None:
            self.context.outboxes["profiles"].dropped += 1

    async def _collect(self, since: float, until: float) -> None:
        loop, profile = asyncio.get_running_loop(), Profile()
        slots, add_lock = asyncio.Semaphore(WORKERS_AT_ONCE), asyncio.Lock()
        addresses = self._choose()
        by_worker = self.context.settings.get("profile_by_worker", False)

        async def query(address: str) -> None:
            async with slots:
                # Responses are freed at once. Kept until all have arrived, they would be so many
                # objects that Python's garbage collector pauses the process.
                worker = self.context.worker_id(address) if by_worker else None
                for prefix, tree in await self._query_worker(address, since, until):
                    async with add_lock:
                        await loop.run_in_executor(None, profile.add, tree, prefix, worker)

        await asyncio.gather(*map(query, addresses), return_exceptions=True)
        # Prefixes can contain what the tasks are named after.
        content = self.context.sends("code"), self.context.sends("tasks")
        described = await loop.run_in_executor(None, profile.describe, *content)
        window = {"started_at": since, "stopped_at": until, "workers": len(addresses)}
        if described["samples"] and self._is_enabled():
            record = Record(uuid7(), settled=True)
            record.body = {"id": record.id, **window, **described}
            record.characters = 200 * len(described["frames"]) + 20 * len(described["nodes"])
            self.context.outboxes["profiles"].add(record)
            self.context.outboxes["profiles"].enforce_bounds()

    def _choose(self) -> List[str]:
        workers = self.context.scheduler.workers
        sampled = [address for address in self._sampled_workers if address in workers]
        # New workers come first: those sampled before follow all that never were.
        unsampled = [address for address in workers if address not in self._sampled_workers]
        chosen = (unsampled + sampled)[:WORKERS]
        self._sampled_workers = dict.fromkeys([*(a for a in sampled if a not in chosen), *chosen])
        return chosen

    async def _query_worker(
        self, address: str, since: float, until: float
    ) -> List[Tuple[Optional[str], Tree]]:
        """Returns the trees of one worker, which together contain each of its samples once, each
        with the prefix of its tasks. None if it has those of several.

        Dask returns all cycles that touch a window. Once the times of cycles are known, a window of
        exactly these can be requested. Samples of different kinds of tasks are requested one by
        one, unless there are many kinds, because ``totals_of_children`` estimates less for a tree
        with fewer branches.
        """
        worker = self.context.scheduler.rpc(address)
        cycles = await _await_response(worker.profile_metadata(start=since, stop=until))
        times = [at for at, samples in cycles["counts"] if samples]
        if not times:
            return []
        by_prefix: Dict[Any, List[float]] = {}
        for at, prefixes in cycles["keys"]:
            for prefix, samples in prefixes.items():
                if samples:
                    by_prefix.setdefault(prefix, []).append(at)

        async def tree(prefix: Any, times: List[float]) -> Tree:
            request = worker.profile(start=times[0], stop=times[-1], key=prefix)
            return await _await_response(request)

        if len(by_prefix) <= PREFIXES:
            trees = [await tree(prefix, times) for prefix, times in by_prefix.items()]
            # Without a later cycle of the same kind of tasks, Dask adds the present one.
            if sum(t["count"] for t in trees) == sum(samples for _, samples in cycles["counts"]):
                return list(zip(by_prefix, trees))
        return [(None, await tree(None, times))]


async def _await_response(request: Any) -> Any:
    return await asyncio.wait_for(request, RESPONSE_SECONDS)


class Profile:
    """The sum of trees with different samples. Its methods run in a thread.

    The number of *samples* is the number of threads that were computing when a worker sampled. The
    *total* of a node is the number of samples with its frame on the stack, below exactly the frames
    of its ancestors. Its *self* is the number of samples in which it was the innermost frame: its
    total without the totals of its children. So the totals of the outermost nodes, whose parent is
    -1, add up to the samples, and so do the selfs of all nodes.
    """

    def __init__(self) -> None:
        self._parts: Dict[PartKey, _Node] = {}

    def add(self, tree: Tree, prefix: Optional[str] = None, worker: Optional[str] = None) -> None:
        # A worker that counts innermost frames, as with the option "low-level", lacks no samples.
        complete = _counts_innermost(tree)
        stack = [(tree, self._parts.setdefault((prefix, worker), _Node()), tree["count"])]
        while stack:
            source, node, total = stack.pop()
            node.total += total
            children = source["children"]
            counts = [child["count"] for child in children.values()]
            totals = counts if complete else totals_of_children(source)
            for (identifier, child), child_total in zip(children.items(), totals):
                if child_total:
                    known_node = node.children.get(identifier)
                    if known_node is None:
                        known_node = node.children[identifier] = _Node(_frame(child["description"]))
                    stack.append((child, known_node, child_total))

    def describe(self, with_text: bool = True, with_functions: bool = True) -> Dict[str, Any]:
        prefixes = {prefix for prefix, _ in self._parts}
        # A part of a function's samples would look like all of them.
        by_function = with_functions and None not in prefixes and len(prefixes) <= MOST_FUNCTIONS
        trees = self._parts
        if not by_function:
            trees = {}
            for (_, worker), tree in self._parts.items():
                trees.setdefault((None, worker), _Node()).add(tree)
        root, parts = _Node(), {}
        for part, tree in trees.items():
            root.total += tree.total
            for identifier, child in tree.children.items():
                root.children[identifier, part] = child
                parts[child] = part
        nodes_with_parents = _list_nodes(root, 1)
        threshold = PRUNED_SHARE * root.total
        while (
            len(nodes_with_parents) > MOST_NODES
            or len({node.frame for node, _ in nodes_with_parents}) > MOST_FRAMES
        ):
            # A removed node becomes part of the self of its parent.
            nodes_with_parents = _list_nodes(root, threshold)
            threshold *= 2
        frames: Dict[Tuple[Any, ...], int] = {}
        nodes = [
            [parent - 1, frames.setdefault(node.frame, len(frames)), 0, node.total]
            for node, parent in nodes_with_parents[1:]
        ]
        functions: Dict[str, List[int]] = {}
        workers: Dict[str, List[int]] = {}
        for position, (node, parent) in enumerate(nodes_with_parents[1:]):
            if parent == 0:
                prefix, worker = parts[node]
                if prefix is not None:
                    functions.setdefault(cut(prefix, NAME_LENGTH), []).append(position)
                if worker is not None:
                    workers.setdefault(worker, []).append(position)
        child_totals = [0] * (len(nodes) + 1)  # the last one is for the root, whose position is -1
        for position in reversed(range(len(nodes))):
            parent, _, _, total = nodes[position]
            # A worker's response may be inconsistent. The sums hold regardless.
            nodes[position][3] = total = max(total, child_totals[position])
            nodes[position][2] = total - child_totals[position]
            child_totals[parent] += total
        return {
            "samples": child_totals[-1],
            "frames": [_describe_frame(frame, with_text) for frame in frames],
            "nodes": nodes,
            "functions": _describe_parts("prefix", functions),
            "by_worker": _describe_parts("worker", workers),
        }


def _describe_parts(name: str, roots: Mapping[str, List[int]]) -> List[Dict[str, Any]]:
    """Describes parts of a profile by their outermost nodes; none if one has too many of them."""
    if any(len(positions) > MOST_ROOTS for positions in roots.values()):
        return []
    return [{name: part, "roots": positions} for part, positions in roots.items()]


def totals_of_children(node: Tree) -> List[int]:
    """Returns the number of a node's samples that continued into each of its children.

    Dask's workers do not count a sample for its innermost frame. So the counts of children lack
    those samples, and every leaf has the count 0. The count of the node itself includes them all,
    so the total missing number is known. It belongs to the leaves, which exist for no other reason,
    in equal parts, because their distribution is unknown. If all children have children, it is
    distributed in proportion to their counts.
    """
    children = list(node["children"].values())
    counts = [child["count"] for child in children]
    missing = max(node["count"] - sum(counts), 0)
    if not missing or not children:
        return counts
    weights = [not child["children"] and not child["count"] for child in children]
    shares = _split_in_proportion(missing, weights if any(weights) else counts)
    return [*map(sum, zip(counts, shares))]


class _Node:
    __slots__ = ("children", "frame", "total")

    def __init__(self, frame: Tuple[Any, ...] = ()):
        self.frame = frame
        self.total = 0
        self.children: Dict[Any, "_Node"] = {}

    def add(self, other: "_Node") -> None:
        """Adds the samples of another node and of all below it."""
        stack = [(self, other)]
        while stack:
            node, added = stack.pop()
            node.total += added.total
            for identifier, child in added.children.items():
                known_node = node.children.get(identifier)
                if known_node is None:
                    known_node = node.children[identifier] = _Node(child.frame)
                stack.append((known_node, child))


def _counts_innermost(tree: Tree) -> bool:
    stack = [tree]
    while stack:
        node = stack.pop()
        if not node["children"] and node["count"]:
            return True
        stack.extend(node["children"].values())
    return False


def _list_nodes(root: _Node, min_samples: float) -> List[Tuple[_Node, int]]:
    """Lists nodes with at least ``min_samples`` and their parents' positions, parents first."""
    nodes_with_parents = [(root, -1)]
    for position, (node, _) in enumerate(nodes_with_parents):  # grows during the loop
        nodes_with_parents.extend(
            (c, position) for c in node.children.values() if c.total >= min_samples
        )
    return nodes_with_parents


def _split_in_proportion(number: int, weights: Sequence[int]) -> List[int]:
    """Splits the number into integers that are as close to these weights as possible."""
    total_weight = sum(weights) or 1
    shares = [number * weight // total_weight for weight in weights]
    by_remainder = sorted(
        range(len(weights)), key=lambda i: number * weights[i] % total_weight, reverse=True
    )
    for i in by_remainder[: number - sum(shares)]:
        shares[i] += 1
    return shares


def _frame(description: Mapping[str, Any]) -> Tuple[Any, ...]:
    return (
        description["filename"],
        description["name"],
        description["line_number"],
        description["line"],
    )


def _describe_frame(frame: Tuple[Any, ...], with_text: bool) -> Dict[str, Any]:
    file, function, line, text = frame
    text = scrub(cut(text or "", LINE_LENGTH).strip()) if with_text else ""
    return {
        "file": cut(file, ADDRESS_LENGTH),
        "function": cut(function, FUNCTION_LENGTH),
        "line": to_count(line or 0),
        "text": cut(text, LINE_LENGTH) or None,
    }
