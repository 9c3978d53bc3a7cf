"""Kernel-level loops that each keep one resource of a core busy.

The code is compiled like any other kernel, so the rates are those that generated code can reach.
"""

from __future__ import annotations

from collections.abc import Sequence

BUFFER = "a"
"""Name of the only argument of every kernel, a buffer of 32-bit integers."""


def dependent_integers(steps: int) -> str:
    """Return a kernel with `2 * steps` integer operations that take a cycle each, in one chain."""
    step = "%x{0} = arith.addi %y{0}, %p : i64\n%y{1} = arith.xori %x{0}, %q : i64"
    copies = [step.format(n, n + 1) for n in range(_COPIES)]
    return _kernel(
        "%n0 = memref.load %a[%c0] : memref<1024xi32>\n"
        "%p = arith.extsi %n0 : i32 to i64\n"
        "%n1 = memref.load %a[%c1] : memref<1024xi32>\n"
        "%q = arith.extsi %n1 : i32 to i64",
        steps // _COPIES,
        [("%y0", "%p", f"%y{_COPIES}", "i64")],
        "\n".join(copies),
    )


def multiply_adds(steps: int, chains: int, lanes: int, integers: int = 0) -> str:
    """Return a kernel with independent chains of vector multiply-adds, and of integer operations.

    Args:
        steps: multiply-adds of a chain.
        chains: number of chains.
        lanes: elements of a vector.
        integers: chains with two integer operations for each multiply-add.
    """
    vector = f"vector<{lanes}xf32>"
    before = (
        f"%v = vector.load %a[%c0] : memref<1024xi32>, vector<{lanes}xi32>\n"
        f"%f = arith.bitcast %v : vector<{lanes}xi32> to {vector}\n"
        "%n0 = memref.load %a[%c1] : memref<1024xi32>\n"
        "%p = arith.extsi %n0 : i32 to i64"
    )
    carried = [(f"%s{n}.0", "%f", f"%s{n}.{_COPIES}", vector) for n in range(chains)]
    carried += [(f"%y{n}.0", "%p", f"%y{n}.{_COPIES}", "i64") for n in range(integers)]
    body: list[str] = []
    for copy in range(_COPIES):
        after = copy + 1
        body += [
            f"%s{n}.{after} = vector.fma %f, %f, %s{n}.{copy} : {vector}" for n in range(chains)
        ]
        for n in range(integers):
            body.append(f"%x{n}.{copy} = arith.addi %y{n}.{copy}, %p : i64")
            body.append(f"%y{n}.{after} = arith.xori %x{n}.{copy}, %p : i64")
    return _kernel(before, steps // _COPIES, carried, "\n".join(body))


def reads(size: int, passes: int, lanes: int) -> str:
    """Return a kernel that loads `size` elements as vectors, several times."""
    vector, step, last = f"vector<{lanes}xi32>", lanes * _READS, _READS // _CHAINS
    types = ", ".join([vector] * _CHAINS)
    first = ", ".join(f"%k{n}.0 = %s{n}.0" for n in range(_CHAINS))
    body = [
        f"%r:{_CHAINS} = scf.for %j = %c0 to %size step %step iter_args({first}) -> ({types}) {{"
    ]
    for n in range(_READS):
        chain, copy = n % _CHAINS, n // _CHAINS
        body.append(f"%o{n} = arith.constant {n * lanes} : index")
        body.append(f"%i{n} = arith.addi %j, %o{n} : index")
        body.append(f"%l{n} = vector.load %a[%i{n}] : memref<{size}xi32>, {vector}")
        body.append(f"%k{chain}.{copy + 1} = arith.xori %k{chain}.{copy}, %l{n} : {vector}")
    body.append(f"scf.yield {', '.join(f'%k{n}.{last}' for n in range(_CHAINS))} : {types}")
    body.append("}")
    carried = [(f"%s{n}.0", "%v", f"%r#{n}", vector) for n in range(_CHAINS)]
    before = (
        f"%v = vector.load %a[%c0] : memref<{size}xi32>, {vector}\n"
        f"%size = arith.constant {size} : index\n%step = arith.constant {step} : index"
    )
    return _kernel(before, passes, carried, "\n".join(body), size)


def parallel_regions(count: int, iterations: int) -> str:
    """Return a kernel with parallel regions, each of whose iterations is a single store."""
    body = f"""%m = arith.constant {iterations} : index
"scf.parallel"(%c0, %m, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
^bb0(%j: index):
  memref.store %n, %a[%j] : memref<1024xi32>
  scf.reduce
}}) {{grain = 1 : index}} : (index, index, index) -> ()"""
    return _kernel("%n = arith.constant 1 : i32", count, [], body)


_COPIES = 8
"""Unrolled copies of the steps of chains."""

_READS = 16
"""Unrolled loads of vectors."""

_CHAINS = 4
"""Accumulators of loaded vectors."""


def _kernel(
    before: str,
    iterations: int,
    carried: Sequence[tuple[str, str, str, str]],
    body: str,
    size: int = 1024,
) -> str:
    """Return a module with a loop.

    Args:
        carried: for each loop-carried value its name, the first value, the next one and its type.
    """
    buffer, types = f"memref<{size}xi32>", ", ".join(type_ for *_, type_ in carried)
    args = results = last = ""
    if carried:
        args = f" iter_args({', '.join(f'{name} = {first}' for name, first, *_ in carried)})"
        args += f" -> ({types})"
        results = f"%z:{len(carried)} = "
        last = f"scf.yield {', '.join(each for _, _, each, _ in carried)} : {types}"
    stores: list[str] = []
    for n, (*_, type_) in enumerate(carried):
        if type_ == "i64":
            stores.append(f"%z{n} = arith.trunci %z#{n} : i64 to i32")
            stores.append(f"memref.store %z{n}, %a[%c0] : {buffer}")
            continue
        whole = type_.replace("f32", "i32")
        stores.append(f"%z{n} = arith.bitcast %z#{n} : {type_} to {whole}")
        stores.append(f"vector.store %z{n}, %a[%c0] : {buffer}, {whole}")
    end = "\n".join(stores)
    return f"""
func.func @main(%{BUFFER}: {buffer}) {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%count = arith.constant {iterations} : index
{before}
{results}scf.for %i = %c0 to %count step %c1{args} {{
{body}
{last}
}}
{end}
func.return
}}
"""
