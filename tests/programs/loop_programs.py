"""Loop programs shared by the tests of the lowering, and helpers to run them."""

# ruff: noqa: E501 (lines of IR)
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from tcopt.dialects import loop
from tcopt.support.data.dtypes import numpy_dtype
from tcopt.support.ir.verify import verify
from tcopt.support.registries.registry import all_dialects, all_passes
from tcopt.tools.execution.loop_executor import run_func

Array = NDArray[Any]

LOOP_PASSES = ("compact-buffers", "lower-blocks", "vectorize", "unroll-loops")

MATMUL = """
loop.func @mm(%x: memref<5x7xf32>, %w: memref<7x9xf32>, %y: memref<5x9xf32>) {
  %acc = loop.alloc register : memref<5x9xf32>
  %zero = arith.constant 0.0 : f32
  loop.for %i = 0 to 5 parallel {
    loop.for %jo = 0 to 3 {
      loop.for %ko = 0 to 4 {
        loop.for %ki = 0 to 2 unrolled {
          loop.for %ji = 0 to 4 vectorized {
            loop.block "mm" (%vi: spatial 5 = %i, %vj: spatial 9 = %jo * 4 + %ji, %vk: reduce 7 = %ko * 2 + %ki) {
              loop.init { loop.store %zero, %acc[%vi, %vj] : memref<5x9xf32> }
              %l = loop.load %x[%vi, %vk] : memref<5x7xf32>
              %r = loop.load %w[%vk, %vj] : memref<7x9xf32>
              %m = arith.mulf %l, %r fastmath<contract> : f32
              %a = loop.load %acc[%vi, %vj] : memref<5x9xf32>
              %s = arith.addf %a, %m fastmath<reassoc,contract> : f32
              loop.store %s, %acc[%vi, %vj] : memref<5x9xf32>
            }
          }
        }
      }
      loop.for %ji = 0 to 4 vectorized {
        loop.block "relu" (%vi: spatial 5 = %i, %vj: spatial 9 = %jo * 4 + %ji) {
          %c0 = arith.constant 0.0 : f32
          %a = loop.load %acc[%vi, %vj] : memref<5x9xf32>
          %s = arith.maximumf %a, %c0 : f32
          loop.store %s, %y[%vi, %vj] : memref<5x9xf32>
        }
      }
    }
  }
}
"""

PADDED_CONV = """
loop.func @conv(%x: memref<3x10x11xf32>, %w: memref<4x3x3x3xf32>, %y: memref<4x10x11xf32>) {
  %twice = loop.alloc global : memref<3x10x11xf32>
  %acc = loop.alloc register : memref<4x10x11xf32>
  %zero = arith.constant 0.0 : f32
  loop.for %t = 0 to 4 parallel {
    loop.for %c = 0 to 3 {
      loop.for %h = 0 to 5 {
        loop.for %j = 0 to 11 vectorized {
          loop.block "twice" (%vc: spatial 3 = %c, %vh: spatial 10 = %t * 3 + %h - 1, %vj: spatial 11 = %j) {
            %a = loop.load %x[%vc, %vh, %vj] : memref<3x10x11xf32>
            %b = arith.addf %a, %a : f32
            loop.store %b, %twice[%vc, %vh, %vj] : memref<3x10x11xf32>
          }
        }
      }
    }
    loop.for %o = 0 to 4 {
      loop.for %hi = 0 to 3 unrolled {
        loop.for %c = 0 to 3 {
          loop.for %kh = 0 to 3 {
            loop.for %kw = 0 to 3 unrolled {
              loop.for %j = 0 to 11 vectorized {
                loop.block "conv" (%vo: spatial 4 = %o, %vh: spatial 10 = %t * 3 + %hi, %vj: spatial 11 = %j, %rc: reduce 3 = %c, %rh: reduce 3 = %kh, %rw: reduce 3 = %kw) {
                  loop.init { loop.store %zero, %acc[%vo, %vh, %vj] : memref<4x10x11xf32> }
                  %l = loop.load %twice[%rc, %vh + %rh - 1, %vj + %rw - 1] else 0.5 : memref<3x10x11xf32>
                  %r = loop.load %w[%vo, %rc, %rh, %rw] : memref<4x3x3x3xf32>
                  %m = arith.mulf %l, %r fastmath<contract> : f32
                  %a = loop.load %acc[%vo, %vh, %vj] : memref<4x10x11xf32>
                  %s = arith.addf %a, %m fastmath<reassoc,contract> : f32
                  loop.store %s, %acc[%vo, %vh, %vj] : memref<4x10x11xf32>
                }
              }
            }
          }
        }
        loop.for %j = 0 to 11 vectorized {
          loop.block "out" (%vo: spatial 4 = %o, %vh: spatial 10 = %t * 3 + %hi, %vj: spatial 11 = %j) {
            %a = loop.load %acc[%vo, %vh, %vj] : memref<4x10x11xf32>
            loop.store %a, %y[%vo, %vh, %vj] : memref<4x10x11xf32>
          }
        }
      }
    }
  }
}
"""

SOFTMAX = """
loop.func @softmax(%x: memref<6x13xf32>, %y: memref<6x13xf32>) {
  %max = loop.alloc global : memref<6xf32>
  %exp = loop.alloc global : memref<6x13xf32>
  %sum = loop.alloc global : memref<6xf32>
  loop.for %i = 0 to 6 parallel {
    loop.for %k = 0 to 13 {
      loop.block "max" (%vi: spatial 6 = %i, %vk: reduce 13 = %k) {
        loop.init {
          %low = arith.constant 0xff800000 : f32
          loop.store %low, %max[%vi] : memref<6xf32>
        }
        %a = loop.load %max[%vi] : memref<6xf32>
        %b = loop.load %x[%vi, %vk] : memref<6x13xf32>
        %c = arith.maximumf %a, %b : f32
        loop.store %c, %max[%vi] : memref<6xf32>
      }
    }
    loop.for %ko = 0 to 2 {
      loop.for %ki = 0 to 8 vectorized {
        loop.block "exp" (%vi: spatial 6 = %i, %vk: spatial 13 = %ko * 8 + %ki) {
          %a = loop.load %x[%vi, %vk] : memref<6x13xf32>
          %b = loop.load %max[%vi] : memref<6xf32>
          %c = arith.subf %a, %b : f32
          %d = math.exp %c : f32
          loop.store %d, %exp[%vi, %vk] : memref<6x13xf32>
        }
      }
    }
    loop.for %k = 0 to 13 vectorized {
      loop.block "sum" (%vi: spatial 6 = %i, %vk: reduce 13 = %k) {
        loop.init {
          %zero = arith.constant 0.0 : f32
          loop.store %zero, %sum[%vi] : memref<6xf32>
        }
        %a = loop.load %sum[%vi] : memref<6xf32>
        %b = loop.load %exp[%vi, %vk] : memref<6x13xf32>
        %c = arith.addf %a, %b : f32
        loop.store %c, %sum[%vi] : memref<6xf32>
      }
    }
    loop.for %ko = 0 to 4 unrolled {
      loop.for %ki = 0 to 4 vectorized {
        loop.block "div" (%vi: spatial 6 = %i, %vk: spatial 13 = %ko * 4 + %ki) {
          %a = loop.load %exp[%vi, %vk] : memref<6x13xf32>
          %b = loop.load %sum[%vi] : memref<6xf32>
          %c = arith.divf %a, %b : f32
          loop.store %c, %y[%vi, %vk] : memref<6x13xf32>
        }
      }
    }
  }
}
"""

STRIDED = """
loop.func @strided(%x: memref<4x40xf32>, %t: memref<9x4xf32>, %y: memref<4x12xf32>, %z: memref<9x4xf32>) {
  loop.for %i = 0 to 4 {
    loop.for %s = 0 to 4 unrolled {
      loop.for %j = 0 to 9 vectorized {
        loop.block "pool" (%vi: spatial 4 = %i, %vs: spatial 4 = %s, %vj: spatial 9 = %j) {
          %a = loop.load %x[%vi, %vj * 2 + %vs] : memref<4x40xf32>
          %b = loop.load %x[%vi, %vj * 3 + %vs] : memref<4x40xf32>
          %c = loop.load %x[%vi, %vj * 4 + %vs] : memref<4x40xf32>
          %d = loop.load %x[%vi, 39 - %vj * 2] : memref<4x40xf32>
          %e = loop.load %t[%vj, %vi] : memref<9x4xf32>
          %f = arith.maximumf %a, %b : f32
          %g = arith.minimumf %c, %d : f32
          %h = arith.addf %f, %g : f32
          %k = arith.addf %h, %e : f32
          loop.store %k, %y[%vi, %vj + %vs] : memref<4x12xf32>
          loop.store %h, %z[%vj, %vi] : memref<9x4xf32>
        }
      }
    }
  }
}
"""

FUSED_INDEX = """
loop.func @fused(%x: memref<6x10xf32>, %n: memref<6x10xi32>, %y: memref<6x10xf32>, %p: memref<60xi32>) {
  loop.for %fo = 0 to 8 parallel {
    loop.for %fi = 0 to 8 vectorized {
      loop.block "copy" (%vi: spatial 6 = (%fo * 8 + %fi) floordiv 10, %vj: spatial 10 = (%fo * 8 + %fi) mod 10) {
        %a = loop.load %x[%vi, %vj] : memref<6x10xf32>
        %b = loop.load %n[%vi, %vj] : memref<6x10xi32>
        %i = arith.index_cast %vj : index to i32
        %c = arith.addi %b, %i : i32
        %d = arith.sitofp %c : i32 to f32
        %e = arith.cmpf ogt, %a, %d : f32
        %f = arith.select %e, %a, %d : f32
        loop.store %f, %y[%vi, %vj] : memref<6x10xf32>
        loop.store %c, %p[%vi * 10 + %vj] : memref<60xi32>
      }
    }
  }
}
"""

INTEGERS = """
loop.func @integers(%x: memref<3x24xi8>, %s: memref<24xf32>, %f: memref<24xi1>, %y: memref<3x24xi32>, %b: memref<3x24xi1>, %h: memref<3x24xf16>) {
  loop.for %i = 0 to 3 {
    loop.for %j = 0 to 24 vectorized {
      loop.block "quantize" (%vi: spatial 3 = %i, %vj: spatial 24 = %j) {
        %limit = arith.constant 7 : i32
        %a = loop.load %x[%vi, %vj] : memref<3x24xi8>
        %c = arith.extsi %a : i8 to i32
        %d = arith.muli %c, %c : i32
        %place = loop.index [%vj * 3 + %vi]
        %p = arith.index_cast %place : index to i32
        %e = arith.subi %d, %p : i32
        %t = arith.cmpi sgt, %e, %limit : i32
        %u = loop.load %f[%vj] : memref<24xi1>
        %v = arith.andi %t, %u : i1
        %w = arith.select %v, %e, %limit : i32
        loop.store %w, %y[%vi, %vj] : memref<3x24xi32>
        loop.store %v, %b[%vi, %vj] : memref<3x24xi1>
        %k = loop.load %s[%vj] : memref<24xf32>
        %m = arith.truncf %k : f32 to f16
        loop.store %m, %h[%vi, %vj] : memref<3x24xf16>
      }
    }
  }
}
"""

GATHER = """
loop.func @gather(%table: memref<10x20xf32>, %ids: memref<7xi32>, %y: memref<7x20xf32>) {
  loop.for %i = 0 to 7 {
    loop.for %jo = 0 to 2 {
      loop.for %ji = 0 to 16 vectorized {
        loop.block "gather" (%vi: spatial 7 = %i, %vj: spatial 20 = %jo * 16 + %ji) {
          %id = loop.load %ids[%vi] : memref<7xi32>
          %three = arith.constant 3 : i32
          %small = arith.andi %id, %three : i32
          %row = arith.index_cast %small : i32 to index
          %a = loop.load %table[%row + 2, %vj] : memref<10x20xf32>
          loop.store %a, %y[%vi, %vj] : memref<7x20xf32>
        }
      }
    }
  }
}
"""

PREFIX_SUM = """
loop.func @prefix(%x: memref<12xf32>, %y: memref<12xf32>) {
  %state = loop.alloc local : memref<13xf32>
  loop.block "start" () {
    %zero = arith.constant 0.0 : f32
    loop.store %zero, %state[0] : memref<13xf32>
  }
  loop.for %i = 0 to 12 {
    loop.block "step" (%vi: spatial 12 = %i) {
      %a = loop.load %state[%vi] : memref<13xf32>
      %b = loop.load %x[%vi] : memref<12xf32>
      %c = arith.addf %a, %b : f32
      loop.store %c, %state[%vi + 1] : memref<13xf32>
      loop.store %c, %y[%vi] : memref<12xf32>
    }
  }
}
"""

TAILS = """
loop.func @tails(%x: memref<10x30xf32>, %w: memref<30x21xf32>, %y: memref<10x21xf32>) {
  %acc = loop.alloc register : memref<10x21xf32>
  %zero = arith.constant 0.0 : f32
  loop.for %io = 0 to 3 parallel {
    loop.for %jo = 0 to 3 parallel {
      loop.for %ii = 0 to 4 unrolled {
        loop.for %ji = 0 to 8 vectorized {
          loop.block "init" (%vi: spatial 10 = %io * 4 + %ii, %vj: spatial 21 = %jo * 8 + %ji) {
            loop.store %zero, %acc[%vi, %vj] : memref<10x21xf32>
          }
        }
      }
      loop.for %ko = 0 to 8 {
        loop.for %ki = 0 to 4 unrolled {
          loop.for %ii = 0 to 4 unrolled {
            loop.for %ji = 0 to 8 vectorized {
              loop.block "mm" (%vi: spatial 10 = %io * 4 + %ii, %vj: spatial 21 = %jo * 8 + %ji, %vk: reduce 30 = %ko * 4 + %ki) {
                %l = loop.load %x[%vi, %vk] : memref<10x30xf32>
                %r = loop.load %w[%vk, %vj] : memref<30x21xf32>
                %m = arith.mulf %l, %r fastmath<contract> : f32
                %a = loop.load %acc[%vi, %vj] : memref<10x21xf32>
                %s = arith.addf %a, %m fastmath<reassoc,contract> : f32
                loop.store %s, %acc[%vi, %vj] : memref<10x21xf32>
              }
            }
          }
        }
      }
      loop.for %ii = 0 to 4 unrolled {
        loop.for %ji = 0 to 8 vectorized {
          loop.block "out" (%vi: spatial 10 = %io * 4 + %ii, %vj: spatial 21 = %jo * 8 + %ji) {
            %a = loop.load %acc[%vi, %vj] : memref<10x21xf32>
            loop.store %a, %y[%vi, %vj] : memref<10x21xf32>
          }
        }
      }
    }
  }
}
"""

PROGRAMS = {
    "matmul": MATMUL,
    "padded_conv": PADDED_CONV,
    "softmax": SOFTMAX,
    "strided": STRIDED,
    "fused_index": FUSED_INDEX,
    "integers": INTEGERS,
    "gather": GATHER,
    "prefix_sum": PREFIX_SUM,
    "tails": TAILS,
}


def context() -> Context:
    """Return a context with every dialect of the project."""
    result = Context()
    for name, factory in all_dialects().items():
        result.register_dialect(name, factory)
    return result


def parse(text: str) -> ModuleOp:
    """Return a verified module."""
    module = Parser(context(), text).parse_module()
    verify(module)
    return module


def function_of(module: ModuleOp) -> loop.FuncOp:
    """Return the only loop function of a module."""
    return next(op for op in module.ops if isinstance(op, loop.FuncOp))


def apply(module: ModuleOp, *passes: str, **options: object) -> ModuleOp:
    """Apply passes by name, verifying after each; options apply to the last one."""
    for name in passes:
        pass_class = all_passes()[name]()
        arguments = options if name == passes[-1] else {}
        pass_class(**arguments).apply(context(), module)
        verify(module)
    return module


def random_arguments(function: loop.FuncOp, seed: int = 0) -> list[Array]:
    """Return one array for each argument."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for argument in function.body.block.args:
        type_: Any = argument.type
        values = rng.standard_normal(type_.get_shape()) * 3
        dtype = numpy_dtype(type_.get_element_type())
        arrays.append(values > 0 if dtype == np.bool_ else values.astype(dtype))
    return arrays


def results(module: ModuleOp, seed: int = 0, **options: Any) -> list[Array]:
    """Return all arguments of the module's only function after running it."""
    function = function_of(module)
    return run_func(function, random_arguments(function, seed), **options)


def assert_same(expected: Sequence[Array], actual: Sequence[Array]) -> None:
    """Assert equal integers and close floats."""
    for a, b in zip(expected, actual, strict=True):
        np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=2e-5, atol=2e-5)
