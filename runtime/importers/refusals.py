"""What a model needs and the importer lacks, collected over the whole model, so that one look tells all of it."""

from runtime.errors import UnsupportedError
from runtime.importers.onnx_node import OnnxNode


class Refusals:
    """Collects the nodes that cannot be imported, by operator, with the first node and reason of each."""

    def __init__(self) -> None:
        self._first: dict[str, UnsupportedError] = {}
        self._counts: dict[str, int] = {}
        self._lacking: set[str] = set()

    def lacks(self, tensor: str) -> bool:
        """Whether a tensor is unknown because a node that leads to it was refused."""
        return tensor in self._lacking

    def add(self, node: OnnxNode, error: UnsupportedError) -> None:
        """Remembers a node that is refused."""
        self._first.setdefault(node.op, error)
        self._counts[node.op] = self._counts.get(node.op, 0) + 1
        self._lacking.update(node.outputs)

    def skip(self, node: OnnxNode, is_known: bool) -> None:
        """Passes over a node behind a refused one; its operator may be another that is lacking."""
        self._lacking.update(node.outputs)
        if not is_known:
            self.add(node, UnsupportedError(f"{node}: operator {node.op} is not supported"))

    def check(self) -> None:
        """Raises UnsupportedError that lists every operator: how many nodes, and the first of them with its reason."""
        if len(self._first) == 1 and sum(self._counts.values()) == 1:
            raise next(iter(self._first.values()))
        if self._first:
            listed = [f"{self._counts[op]} {op}, first {error}" for op, error in self._first.items()]
            raise UnsupportedError(f"the model needs what is not supported: {'; '.join(listed)}")
