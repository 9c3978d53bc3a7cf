"""cse: equal computations are done once."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.passes import ModulePass
from xdsl.traits import IsolatedFromAbove, IsTerminator

from tcopt.passes.kernel.effects import Effects, effects_of

_Key = tuple[object, ...]


@dataclass(frozen=True)
class CommonSubexpressions(ModulePass):
    """Replaces an op by an equal one that runs before it.

    Ops without effects are looked for in the enclosing regions too. Reads of memory are
    replaced when nothing in between can have written.

    ```mlir
    %0 = arith.addi %i, %c4 : index
    %1 = arith.addi %i, %c4 : index
    %2 = arith.muli %0, %1 : index
    ```
    becomes
    ```mlir
    %0 = arith.addi %i, %c4 : index
    %2 = arith.muli %0, %0 : index
    ```
    """

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for block in op.body.blocks:
            _Walk().visit(block)


@dataclass
class _Walk:
    """The expressions available here, innermost region last, and a count of writes."""

    scopes: list[dict[_Key, Operation]] = field(default_factory=list[dict[_Key, Operation]])
    writes: int = 0
    memo: dict[Operation, Effects] = field(default_factory=dict[Operation, Effects])
    attributes: AttributeNumbers = field(default_factory=lambda: AttributeNumbers())

    def visit(self, block: Block) -> None:
        self.scopes.append({})
        for op in tuple(block.ops):
            if op.regions:
                self._visit_regions(op)
            elif not op.has_trait(IsTerminator):
                self._visit_op(op)
        self.scopes.pop()

    def _visit_regions(self, op: Operation) -> None:
        writes = effects_of(op, self.memo).writes
        isolated = op.has_trait(IsolatedFromAbove)
        outer, self.scopes = self.scopes, [] if isolated else self.scopes
        for region in op.regions:
            for block in region.blocks:
                # A later round of a loop sees what an earlier one wrote.
                self.writes += writes
                self.visit(block)
        self.scopes = outer
        self.writes += writes

    def _visit_op(self, op: Operation) -> None:
        effects = effects_of(op)
        if effects.writes:
            self.writes += 1
            return
        if effects.allocates or not op.results:
            return
        key = (
            op.name,
            tuple([id(operand) for operand in op.operands]),
            self.attributes.key(op.properties),
            self.attributes.key(op.attributes),
            tuple([self.attributes.number(result.type) for result in op.results]),
            self.writes if effects.reads else None,
        )
        for scope in reversed(self.scopes):
            earlier = scope.get(key)
            if earlier is not None:
                for old, new in zip(op.results, earlier.results, strict=True):
                    old.replace_all_uses_with(new)
                op.detach()
                op.erase()
                return
        self.scopes[-1][key] = op


@dataclass
class AttributeNumbers:
    """Numbers equal attributes alike. An object is hashed by value once only."""

    objects: dict[int, tuple[Attribute, int]] = field(
        default_factory=dict[int, tuple[Attribute, int]]
    )
    values: dict[Attribute, int] = field(default_factory=dict[Attribute, int])

    def number(self, attribute: Attribute) -> int:
        """The number of an attribute."""
        known = self.objects.get(id(attribute))
        if known is None:
            number = self.values.setdefault(attribute, len(self.values))
            known = self.objects[id(attribute)] = (attribute, number)
        return known[1]

    def key(self, named: dict[str, Attribute]) -> tuple[tuple[str, int], ...]:
        """A hashable form of an attribute dictionary."""
        if not named:
            return ()
        return tuple(sorted([(name, self.number(value)) for name, value in named.items()]))
