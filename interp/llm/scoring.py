"""Reading a count from the model's next-token distribution, over all ways of saying it, exactly where it matters.

P(count) is the sum, over the token sequences that say the count, of the probability of the whole sequence; where more
tokens would make it another count (`1` of `10`), times the probability that the next token does not go on with a letter
or digit. Each node of the tree that has children needs one more run of the model. Most of them cannot matter, so nodes
are opened in order of their probability, and only until the most probable count is certain whatever the closed ones
hold, and they hold less than one percent. The prediction is exact; the probabilities are, to within that percent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxtyping import Bool, Float
from torch import Tensor

from counting_interp.interp.llm.numbers import Node

CLOSED_AT_MOST = 0.01

NextToken = Callable[[Sequence[Sequence[int]]], Float[Tensor, "batch vocab"]]


def read_counts(
    next_token: NextToken,
    prompts: Sequence[Sequence[int]],
    trees: Sequence[Node],
    counts: int,
    goes_on: Bool[Tensor, "vocab"] | None,
) -> list[tuple[float, ...]]:
    """Per prompt the probabilities of the counts, which add up to less than one, since a model may say other things.
    The prompts of each round go through the model together.

    Args:
        next_token: token sequences to the probabilities of their next token.
        trees: per prompt, the ways of saying a number behind it.
        counts: how many counts there are: 0..counts-1.
        goes_on: which tokens begin with a letter or digit; needed where a tree is ambiguous.
    """
    searches = [_Search(tree, counts, goes_on) for tree in trees]
    pending = list(range(len(prompts)))
    while pending:
        nodes = [searches[row].next_node() for row in pending]
        shares = next_token([[*prompts[row], *node.path] for row, node in zip(pending, nodes, strict=True)])
        for row, node, share in zip(pending, nodes, shares, strict=True):
            searches[row].open(node, share)
        pending = [row for row in pending if not searches[row].decided]
    return [tuple(search.said) for search in searches]


class _Search:
    """The state of one prompt: what has been said for certain, and the closed nodes with their probabilities."""

    def __init__(self, tree: Node, counts: int, goes_on: Bool[Tensor, "vocab"] | None) -> None:
        self.said = [0.0] * counts
        self.closed: list[tuple[float, Node]] = [(1.0, tree)]
        self.goes_on = goes_on

    @property
    def decided(self) -> bool:
        left = sum(share for share, _ in self.closed)
        best, second = sorted(self.said, reverse=True)[:2]
        return not self.closed or left < min(CLOSED_AT_MOST, best - second)

    def next_node(self) -> Node:
        return max(self.closed, key=lambda entry: entry[0])[1]

    def open(self, node: Node, shares: Float[Tensor, "vocab"]) -> None:
        """Count what the node says, and reach its children."""
        (reached,) = (share for share, other in self.closed if other is node)
        self.closed = [(share, other) for share, other in self.closed if other is not node]
        if node.count is not None:
            assert self.goes_on is not None, "a node that says a count and has children makes its tree ambiguous"
            self.said[node.count] += reached * (1 - float(shares[: len(self.goes_on)][self.goes_on].sum()))
        for share, child in zip(shares[list(node.children)].tolist(), node.children.values(), strict=True):
            share *= reached
            if child.children:
                self.closed.append((share, child))
            else:
                assert child.count is not None, "a leaf says a count"
                self.said[child.count] += share
