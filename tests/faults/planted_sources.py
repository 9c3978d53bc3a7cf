"""Faults in the compiler's source, each with a small program that exposes it."""

from __future__ import annotations

from faults import source_programs as programs
from faults.sources import SourceFault
from tcopt.backends.llvm.ops import arith as emit_arith
from tcopt.backends.llvm.ops import scf as emit_scf
from tcopt.backends.ptx.ops import gpu as emit_gpu
from tcopt.passes.graph.folding import fold_scale
from tcopt.passes.graph.layout import propagate_padding
from tcopt.passes.graph.motion import hoist_slices, sink_concat
from tcopt.passes.kernel.lowering import lower_loop_to_kernel
from tcopt.passes.kernel.memory import memory_layout, plan_memory
from tcopt.passes.kernel.registers import promote_registers
from tcopt.passes.loop.blocks import guards
from tcopt.passes.loop.buffers import compact_buffers
from tcopt.passes.loop.vectorize import lanes
from tcopt.passes.te import inlining, lower_graph_to_te, regroup
from tcopt.schedules.primitives import decompose_reduction, fuse, parallel, split

KERNEL = "apply-schedule,lower-blocks,lower-loop-to-kernel"
CUDA = (
    "set-target{gpu=sm_80},fuse-ops,lower-graph-to-te,te-inline,lower-te-to-loop,schedule,"
    "apply-schedule,compact-buffers,lower-blocks,insert-barriers,vectorize,unroll-loops,"
    "hoist-workspace,split-launches,lower-loop-to-kernel,promote-registers,plan-memory"
)

SOURCE_FAULTS = [
    SourceFault("weights are scaled along another axis", "graph", fold_scale,
                "ScaleWeights.scaled", "shape[linear.axis] =", "shape[1 - linear.axis] =",
                "pass 'fold-scale'", programs.SCALED, "fold-scale"),
    SourceFault("parts of a constant all start at 0", "graph", sink_concat, "_on_part",
                "= start, size", "= 0, size", "pass 'sink-concat'", programs.JOINED,
                "sink-concat"),
    SourceFault("a part starts at 0", "graph", hoist_slices, "_Parts._part",
                "[a - b for a, b", "[b for a, b", "pass 'hoist-slices'", programs.SLICED,
                "hoist-slices"),
    SourceFault("a border is on the other side", "graph", propagate_padding, "_pad",
                "low=border.low, high=border.high", "low=border.high, high=border.low",
                "pass 'propagate-padding'", programs.PADDED, "propagate-padding"),
    SourceFault("operators with other attributes share a function", "te", lower_graph_to_te,
                "_structure", "_sorted(op.properties)", "()", "pass 'lower-graph-to-te'",
                programs.LEAKY, "lower-graph-to-te"),
    SourceFault("a guard loses its upper bound", "te", inlining, "_Inliner._inside",
                "if lower_bound(extent - high) <= 0", "if False", "pass 'te-inline'",
                programs.GUARDED, "te-inline"),
    SourceFault("rows are merged without their offset", "te", regroup, "_Regrouping._read",
                "linear_sum(expr, ranges).constant * (inner - 1)", "0", "pass 'merge-axes'",
                programs.ROWS, "merge-axes"),
    SourceFault("a tile's offset is one short", "primitive", split, "split",
                "index * extent +", "index * (extent - 1) +", "'sched.split'", programs.SPLIT,
                KERNEL),
    SourceFault("tiles overlap where elements are updated", "primitive", split, "split",
                "index * extent +", "index * (extent - 1) +", "'sched.split'", programs.UPDATED,
                KERNEL),
    SourceFault("an inner index of a fused loop wraps early", "primitive", fuse, "fuse",
                "index % max(extents[position], 1)", "index % max(extents[position] - 1, 1)",
                "'sched.fuse'", programs.FUSED, KERNEL),
    SourceFault("the last start of a reduction is lost", "primitive", decompose_reduction,
                "decompose_reduction", "new_loop(old.trip_count,", "new_loop(old.trip_count - 1,",
                "'sched.decompose_reduction'", programs.DECOMPOSED, KERNEL),
    SourceFault("a reduction may be parallel", "primitive", parallel, "parallel",
                'check_independent(state, "parallel", loop)', "None", "'sched.parallel'",
                programs.RACE, KERNEL),
    SourceFault("a shared buffer counts as private", "loop", compact_buffers, "_is_private",
                "return all(", "return True or all(", "pass 'compact-buffers'", programs.SHIFTED,
                "compact-buffers"),
    SourceFault("a condition of one branch guards both", "loop", guards, "_invariant_conditions",
                " if c in present]", "]", "pass 'lower-blocks'", programs.TWO_GUARDS,
                "lower-blocks"),
    SourceFault("a store loses its mask", "loop", lanes, "LaneRewriter._store",
                "mask=self.mask)", "mask=None)", "pass 'vectorize'", programs.MASKED,
                "vectorize"),
    SourceFault("a parallel loop misses its end", "kernel", lower_loop_to_kernel,
                "FunctionLowering._parallel", "self._bound(each)",
                "writer.constant(each.trip_count - 1)", "pass 'lower-loop-to-kernel'",
                programs.TILED, KERNEL),
    SourceFault("a register is not updated by a loop", "kernel", promote_registers,
                "_Rewriter._replace", "values[slot] = result", "pass",
                "pass 'promote-registers'", programs.TOTAL,
                "lower-loop-to-kernel,promote-registers"),
    SourceFault("operands of an instruction are exchanged", "emitter", emit_arith, "_float_binary",
                "{left}, {right}", "{right}, {left}", "the LLVM emitter", programs.TILED, KERNEL),
    SourceFault("a loop runs once more", "emitter", emit_scf, "counted_loop",
                "icmp slt {type} {following}", "icmp sle {type} {following}",
                "the LLVM emitter", programs.TILED, KERNEL),
    SourceFault("machine code is wrong before the first pass", "emitter", emit_arith,
                "_float_binary", "{left}, {right}", "{right}, {left}", "the LLVM emitter",
                programs.HOST, "plan-memory"),
    SourceFault("threads have the numbers of their blocks", "emitter", emit_gpu, "emit_thread",
                '"tid"', '"ctaid"', "the PTX emitter", programs.DENSE, CUDA),
    SourceFault("a barrier is lost", "emitter", emit_gpu, "emit_barrier", "e.write(", "str(",
                "the PTX emitter", programs.DENSE, CUDA),
    SourceFault("two live buffers share memory", "memory plan", memory_layout, "Request.meets",
                "return ", "return False and ", "pass 'plan-memory'", programs.HOST, "plan-memory"),
    SourceFault("a buffer lives until its first use", "memory plan", plan_memory, "_lifetimes",
                "max(uses)", "min(uses)", "pass 'plan-memory'", programs.HOST, "plan-memory"),
]  # fmt: skip
