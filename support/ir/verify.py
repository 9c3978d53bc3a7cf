"""Verification of IR, op by op, with the location of the faulty op.

In addition to each op's own rules it checks SSA dominance, which xDSL does not: a value must be
defined before it is used, in the same or an enclosing region. The body of a `builtin.module` is a
graph region, as in MLIR, in which order does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.dominance import DominanceInfo
from xdsl.utils.exceptions import DiagnosticException

from tcopt.support.errors import VerificationError
from tcopt.support.ir.function_attributes import verify_function_attributes
from tcopt.support.locations import describe_location, nearest_location


def verify(root: Operation) -> None:
    """Check `root` and every nested op, then dominance.

    Raises:
        VerificationError: has the first faulty op and its location.
    """
    verify_ops(root)
    verify_dominance(root)


def verify_ops(root: Operation) -> None:
    """Run each op's own verifier, without xDSL's dump of the whole module.

    Raises:
        VerificationError: has the first faulty op.
    """
    for op in root.walk():
        try:
            op.verify(verify_nested_ops=False)
            if isinstance(op, FuncOp):
                verify_function_attributes(op)
        except (DiagnosticException, ValueError) as error:
            raise _error(op, _message(op, error)) from error
        except Exception:
            # Verifiers and messages inspect surrounding and nested ops, which may be the faulty
            # ones.
            _verify_definitions(root)
            _verify_others(root, op)
            raise
        for region in op.regions:
            _verify_blocks(op, region)


def _verify_definitions(root: Operation) -> None:
    """Check that each op has the operands, properties and regions of its definition."""
    for op in root.walk():
        if not isinstance(op, IRDLOperation):
            continue
        try:
            op.get_irdl_definition().verify(op)
        except DiagnosticException as error:
            raise _error(op, _message(op, error)) from error
        except Exception:
            # Traits inspect other ops as well, and messages print them.
            continue


def _verify_others(root: Operation, stumbled: Operation) -> None:
    """Check all ops but one; unexpected exceptions are ignored."""
    for op in root.walk():
        if op is stumbled:
            continue
        try:
            op.verify(verify_nested_ops=False)
        except (DiagnosticException, ValueError) as error:
            raise _error(op, _message(op, error)) from error
        except Exception:
            continue


def verify_dominance(root: Operation) -> None:
    """Check that every operand dominates its use.

    Raises:
        VerificationError: has the op that uses a value too early or out of scope.
    """
    for region in root.regions:
        _check_region(region, set())


def _verify_blocks(op: Operation, region: Region) -> None:
    """Check for empty blocks, which xDSL misses as it finds terminators from the last op."""
    from xdsl.traits import NoTerminator

    if op.has_trait(NoTerminator):
        return
    for block in region.blocks:
        if block.last_op is None and len(region.blocks) == 1 and op.name != "builtin.module":
            raise _error(op, "has an empty block where a terminator is expected")


def _check_region(region: Region, visible: set[SSAValue]) -> None:
    if len(region.blocks) == 1:
        _check_block(region.blocks[0], visible)
        return
    dominance = DominanceInfo(region)
    for block in region.blocks:
        dominators = [b for b in region.blocks if dominance.strictly_dominates(b, block)]
        if not dominators and block is not region.blocks[0]:
            # An unreachable block has no dominators, and is never executed.
            dominators = [b for b in region.blocks if b is not block]
        with_dominators = visible.union(*(_values_of(b) for b in dominators))
        _check_block(block, with_dominators)


def _check_block(block: Block, visible: set[SSAValue]) -> None:
    """Check the ops of `block`; `visible` is restored afterwards."""
    added: list[SSAValue] = list(block.args)
    if isinstance(block.parent_op(), ModuleOp):
        added.extend(_values_of(block))
    visible.update(added)
    for op in block.ops:
        for index, operand in enumerate(op.operands):
            if operand not in visible:
                raise _dominance_error(op, index, operand)
        for region in op.regions:
            if region.blocks:
                _check_region(region, visible)
        visible.update(op.results)
        added.extend(op.results)
    visible.difference_update(added)


def _values_of(block: Block) -> Iterable[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results


def _dominance_error(op: Operation, index: int, operand: SSAValue) -> VerificationError:
    name = f"%{operand.name_hint}" if operand.name_hint else f"operand {index}"
    owner = operand.owner
    if isinstance(owner, Operation):
        place = describe_location(owner.location)
        definition = f"'{owner.name}'" + (f" at {place}" if place else "")
    else:
        definition = "a block argument out of scope"
    return _error(op, f"{name} does not dominate this use: it is defined by {definition}")


def _error(op: Operation, message: str) -> VerificationError:
    where = describe_location(nearest_location(op))
    return VerificationError(message, op=op, where=where)


def _message(op: Operation, error: Exception) -> str:
    """Return xDSL's message on one line, without the op name, which is printed anyway."""
    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    text = text.removeprefix("Operation does not verify: ").removeprefix(f"Operation {op.name} ")
    return text or type(error).__name__
