"""Writing of kits: the choice of CPUs, equal bytes, packages, and errors."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest

import tcopt
from models.kits import WARNINGS, Kit, KitError, needs_compiler, needs_cpp, random_feeds
from tcopt.backends.llvm.machine.host import obstacle, runnable_targets
from tcopt.runtime.kit import export
from tcopt.runtime.kit.cpu_features import Bit, required_bits
from tcopt.runtime.kit.descriptor import text
from tcopt.support.errors import BackendError, InputError, UnsupportedError
from tcopt.support.machines.cpu_target import CpuTarget
from tcopt.targets.cpu import MACHINES
from tcopt.tools import tcopt_compile

pytestmark = needs_compiler

_KIT = Path(export.__file__).parent
_EXAMPLES = Path(__file__).parents[3] / "examples"


def dense(columns: int = 48) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        dense (float[4, 64] x) => (float[4, {columns}] y) {{ p = MatMul(x, w) y = Relu(p) }}""")
    values = np.random.default_rng(3).standard_normal((64, columns)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(values, "w"))
    return model


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_two_exports_are_equal(tmp_path: Path):
    for name in ("a", "elsewhere/b"):
        model = tcopt.compile(dense(), cache=False)
        tcopt.export_kit(model, tmp_path / name, name="net")
    first, second = contents(tmp_path / "a"), contents(tmp_path / "elsewhere" / "b")
    assert first == second
    assert sorted(first) == [
        "include/net.h",
        "include/tcopt.h",
        "include/tcopt.hpp",
        "lib/cmake/net/netConfig.cmake",
        "lib/cmake/net/netConfigVersion.cmake",
        "lib/libnet.a",
        "lib/libnet.so",
        "lib/pkgconfig/net.pc",
    ]


@pytest.mark.parametrize("compiler", ["cc", pytest.param("c++", marks=needs_cpp)])
def test_sources_have_no_warnings(compiler: str, tmp_path: Path):
    result, include = str(tmp_path / "a.o"), f"-I{_KIT}/include"
    if compiler == "c++":
        source = tmp_path / "a.cpp"
        source.write_text('#include "tcopt.hpp"\n#include "tcopt.h"\n')
        command = [compiler, "-std=c++17", *WARNINGS, include, "-c", str(source), "-o", result]
        subprocess.run(command, check=True)
        return
    sources = sorted((_KIT / "c").glob("*.c"))
    for mode in ([], ["-DTCOPT_FREESTANDING", "-ffreestanding"]):
        command = [compiler, "-std=c11", *WARNINGS, "-O1", *mode, include, "-c", *sources]
        subprocess.run(command, cwd=tmp_path, check=True)


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
@pytest.mark.parametrize("freestanding", [False, True])
def test_symbols_and_size_of_the_runtime(freestanding: bool, tmp_path: Path):
    tcopt.export_kit(tcopt.compile(dense()), tmp_path, name="net", freestanding=freestanding)
    archive = str(tmp_path / "lib" / "libnet.a")
    subprocess.run(["ar", "x", archive], cwd=tmp_path, check=True)
    assert (tmp_path / "tcopt_runtime.o").stat().st_size < 100_000
    command = ["nm", "--format=posix", "--extern-only", archive]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split() for line in lines if not line.endswith(":")]
    defined = {name for name, kind, *_ in symbols if kind != "U"}
    assert all(name.startswith("tcopt_") for name in defined)
    if freestanding:
        needed = {name for name, kind, *_ in symbols if kind == "U"} - defined
        assert needed <= {"memcpy", "memset", "memmove", "_GLOBAL_OFFSET_TABLE_"}


_TWO = """
#include "first.h"
#include "second.h"
static tcopt_status load(const tcopt_descriptor *descriptor, int columns) {
  tcopt_model *model;
  tcopt_status status = tcopt_model_create(descriptor, 0, &model);
  if (status != TCOPT_OK || tcopt_output(model, 0)->shape[1].low != columns) return TCOPT_IO_ERROR;
  return status;
}
int main(void) {
  return load(tcopt_descriptor_first(), 48) || load(tcopt_descriptor_second(), 3);
}
"""


@pytest.mark.parametrize("suffix", ["a", "so"])
def test_two_models_in_a_program(suffix: str, tmp_path: Path):
    for name, columns in (("first", 48), ("second", 3)):
        tcopt.export_kit(tcopt.compile(dense(columns)), tmp_path, name=name)
    (tmp_path / "main.c").write_text(_TWO)
    libraries = [f"lib/libfirst.{suffix}", f"lib/libsecond.{suffix}", "-lm", "-lpthread"]
    command = ["cc", "-Iinclude", "main.c", *libraries, "-Wl,-rpath,$ORIGIN/lib", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)


def test_the_best_code_that_the_cpu_can_run_is_chosen(tmp_path: Path):
    names = [name for name in ("haswell", "x86-64", "cortex-a53") if name in runnable_targets()]
    if not names:
        pytest.skip("no named CPU runs here")
    better = tcopt.compile(dense(), target=f"cpu:{names[0]}")
    unknown = Bit("nothing", 0x7FFFFFFF, 0, 0, 0)
    levels = [tcopt.compile(dense(), target=f"cpu:{name}") for name in names]
    others = [name for name, cpu in MACHINES.items() if obstacle(cpu) and _is_like(cpu, names[0])]
    levels += [tcopt.compile(dense(), target=f"cpu:{name}") for name in others[:1]]
    Kit.of(levels, tmp_path).check(random_feeds(better))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "required_bits", lambda target: [*required_bits(target), unknown])
        lacking = Kit.of(better, tmp_path)
    if names[0] == "cortex-a53":
        return
    with pytest.raises(KitError) as caught:
        lacking.run(random_feeds(better))
    assert caught.value.status == "WRONG_CPU"


def _is_like(cpu: CpuTarget, name: str) -> bool:
    return cpu.machine == MACHINES[name].machine


@pytest.mark.parametrize("name", list(MACHINES))
def test_features_of_named_cpus_are_known(name: str):
    bits = required_bits(MACHINES[name])
    assert len({bit[1:] for bit in bits}) == len(bits)
    assert all(0 <= bit.part < 4 and 0 <= bit.bit < 32 for bit in bits)
    names = {bit.name for bit in bits}
    vectors = ("avx", "fma", "neon", "dotprod", "i8mm", "sve", "bf16")
    listed = {each[1:] for each in MACHINES[name].features.split(",")}
    assert {each for each in listed if each.startswith(vectors)} <= names


def test_a_feature_without_a_known_bit_is_refused():
    with pytest.raises(UnsupportedError):
        required_bits(CpuTarget("x86_64-unknown-linux-gnu", "next", "+avx2,+avx2048"))


def test_models_that_do_not_fit_are_refused(tmp_path: Path):
    model = tcopt.compile(dense())
    others = [tcopt.compile(dense(3)), tcopt.compile(dense())]
    for other in others:
        with pytest.raises(InputError):
            tcopt.export_kit([model, other], tmp_path)
    with pytest.raises(InputError):
        tcopt.export_kit([], tmp_path)
    with pytest.raises(InputError):
        tcopt.export_kit(model, tmp_path, weights="elsewhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError):
        tcopt.export_kit(model, tmp_path / "file")
    strings = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        f (string[3] x) => (string[3] y) { y = Identity(x) }""")
    lazy = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        f (float[n] x) => (float[n] y) { y = Relu(x) }""")
    for each in (strings, lazy):
        with pytest.raises(UnsupportedError):
            tcopt.export_kit(tcopt.compile(each), tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", "/nonexistent")
        with pytest.raises(BackendError):
            tcopt.export_kit(model, tmp_path)
    assert contents(tmp_path) == {"file": b""}


def test_names_are_escaped(tmp_path: Path):
    name = '"a\\b" */ ??/ é\n'
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        f (float[3] x) => (float[3] y) { y = Relu(x) }""")
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    compiled = tcopt.compile(model)
    kit = Kit.of(compiled, tmp_path)
    kit.check({name: np.array([1, -1, 2], np.float32)})
    assert text("a?\n1") == r'"a\077\0121"'


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(dense(), tmp_path / "a-b.onnx")
    arguments = [str(tmp_path / "a-b.onnx"), "-o", str(tmp_path / "kit"), "--kit"]
    assert tcopt_compile.main([*arguments, "--kit-weights", "file"]) == 0
    assert "a_b" in capsys.readouterr().out
    libraries = sorted(path.name for path in (tmp_path / "kit" / "lib").glob("*.*"))
    name = libraries[0].removesuffix(".weights")
    assert libraries == [f"{name}.weights", f"lib{name}.a", f"lib{name}.so"]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize(
    "example", ["c", pytest.param("cpp", marks=[needs_cpp, pytest.mark.nightly])]
)
def test_examples_with_cmake(example: str, tmp_path: Path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        squeezenet (float[1, 3, 224, 224] x) => (float[1, 3, 4, 4] y) {
          y = MaxPool<kernel_shape = [56, 56], strides = [56, 56]>(x)
        }""")
    tcopt.export_kit(tcopt.compile(model), tmp_path / "kit", name="squeezenet")
    folders = ["-S", str(_EXAMPLES / example), "-B", str(tmp_path / "build")]
    found = f"-DCMAKE_PREFIX_PATH={tmp_path / 'kit'}"
    subprocess.run(["cmake", *folders, found], check=True, capture_output=True)
    subprocess.run(["cmake", "--build", str(tmp_path / "build")], check=True, capture_output=True)
    subprocess.run([str(tmp_path / "build" / "classify")], check=True)


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_pkg_config(tmp_path: Path):
    tcopt.export_kit(tcopt.compile(dense()), tmp_path, name="net")
    command = ["pkg-config", "--cflags", "--libs", "net"]
    paths = {"PKG_CONFIG_PATH": str(tmp_path / "lib" / "pkgconfig"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=paths, capture_output=True, text=True, check=True)
    (tmp_path / "main.c").write_text(
        '#include "net.h"\nint main(void) { return tcopt_descriptor_net() == NULL; }'
    )
    build = ["cc", "main.c", *done.stdout.split(), f"-Wl,-rpath,{tmp_path}/lib", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    subprocess.run(["./main"], cwd=tmp_path, check=True)


def test_an_export_that_fails_leaves_all_files_as_they_were(tmp_path: Path):
    tcopt.export_kit(tcopt.compile(dense()), tmp_path, name="net")
    before = contents(tmp_path)
    smaller = tcopt.compile(dense(3))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(InputError):
            tcopt.export_kit(smaller, tmp_path, name="net")
    assert contents(tmp_path) == before
    tcopt.export_kit(smaller, tmp_path, name="net")
    after = contents(tmp_path)
    assert {name for name in before if after[name] != before[name]} == {
        "include/net.h",
        "lib/libnet.a",
        "lib/libnet.so",
    }


@pytest.mark.parametrize("file", ["libnet.so", "net.a"])
def test_a_single_library(file: str, tmp_path: Path):
    tcopt.compile(dense()).save(tmp_path / file)
    assert sorted(contents(tmp_path)) == sorted([file, "net.h", "tcopt.h"])
    if file.endswith(".so"):
        library = ctypes.CDLL(str(tmp_path / file))
        assert library.tcopt_api_version() == 1
        assert library.tcopt_descriptor_net is not None


def test_a_room_is_memory_of_an_input(tmp_path: Path):
    """A state that grows is in an array for its upper bound; its extent is given as a size."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        append (float[2, past, 3] x, float[2, 1, 3] new) => (float[2, total, 3] y)
        { y = Concat<axis = 1>(x, new) }""")
    compiled = tcopt.compile(model, dims={"past": (0, 8)}, donate={"x": "y"})
    tcopt.export_kit(compiled, tmp_path, name="append")
    header = (tmp_path / "include" / "append.h").read_text()
    assert "[2x9x3]" in header
    assert '"past": 0 to 8' in header
