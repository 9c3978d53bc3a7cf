"""Texts of a kit that are not code: the model's header, the CMake package, the pkg-config file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcopt.backends.identifiers import comment
from tcopt.runtime.kit.descriptor import symbol_of
from tcopt.runtime.program import Program
from tcopt.runtime.specs import TensorSpec, memory_of
from tcopt.support.arithmetic.size_terms import Symbol


def header_text(name: str, programs: Sequence[Program]) -> str:
    """Return the header of a model, which lists its inputs and outputs."""
    first = programs[0]
    guard = f"TCOPT_MODEL_{name.upper()}_H"
    lines = [
        *_listed("Inputs", map(memory_of, first.inputs)),
        *_listed("Outputs", map(memory_of, first.outputs)),
        *(f" *   size {comment(_size(symbol))}" for symbol in (*first.sizes, *first.defined)),
    ]
    levels = ", ".join(program.target.cpu for program in programs)
    return f"""/* The model {name}, for the CPUs {comment(levels)}.
 *
{chr(10).join(lines)}
 */
#ifndef {guard}
#define {guard}

#include "tcopt.h"

#ifdef __cplusplus
extern "C" {{
#endif

TCOPT_API const tcopt_descriptor *{symbol_of(name)}(void);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _listed(title: str, specs: Iterable[TensorSpec]) -> list[str]:
    return [f" * {title}:", *(f" *   {n}: {comment(str(s))}" for n, s in enumerate(specs))]


def _size(symbol: Symbol) -> str:
    steps = f" in steps of {symbol.multiple}" if symbol.multiple > 1 else ""
    return f'"{symbol.name}": {symbol.low} to {symbol.high}{steps}'


def cmake_text(name: str, libraries: Sequence[str], *, shared: bool) -> str:
    """Return `NAMEConfig.cmake`, which defines the targets `NAME::static` and `NAME::shared`.

    Args:
        libraries: names of system libraries that the static library needs.
        shared: whether there is a shared library.
    """
    targets = _cmake_target(
        name, "static", f"lib{name}.a", f'INTERFACE_LINK_LIBRARIES "{";".join(libraries)}"'
    )
    if shared:
        targets += _cmake_target(name, "shared", f"lib{name}.so", f'IMPORTED_SONAME "lib{name}.so"')
    return f"""# find_package({name}) defines the library targets of this model.
get_filename_component(_{name}_root "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
set({name}_WEIGHTS "${{_{name}_root}}/lib/{name}.weights")
{targets}unset(_{name}_root)
"""


def _cmake_target(name: str, kind: str, file: str, property_: str) -> str:
    target = f"{name}::{kind}"
    return f"""if(NOT TARGET {target})
  add_library({target} {kind.upper()} IMPORTED)
  set_target_properties({target} PROPERTIES
    IMPORTED_LOCATION "${{_{name}_root}}/lib/{file}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_{name}_root}}/include"
    {property_})
endif()
"""


def cmake_version_text(version: str) -> str:
    """Return `NAMEConfigVersion.cmake`, which accepts requests for this version or older ones."""
    return f"""set(PACKAGE_VERSION "{version}")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
"""


def pkg_config_text(name: str, version: str, libraries: Sequence[str]) -> str:
    """Return `NAME.pc`, whose paths follow the folder that it is in."""
    private = " ".join(f"-l{library}" for library in libraries)
    return f"""prefix=${{pcfiledir}}/../..
libdir=${{prefix}}/lib
includedir=${{prefix}}/include
weights=${{libdir}}/{name}.weights

Name: {name}
Description: The model {name}, compiled by tcopt
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -l{name}
Libs.private: {private}
"""
