"""lit configuration: `tcopt` and `filecheck` come from this project's environment."""

import os
import shutil
import sys

import lit.formats

config.name = "tcopt"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir", ".test"]  # noqa: F821
config.excludes = ["Inputs"]  # noqa: F821
config.test_source_root = os.path.dirname(os.path.abspath(__file__))  # noqa: F821

# The console scripts under test are in the folder of the interpreter that runs lit.
bin_folder = os.path.dirname(sys.executable)
config.environment["PATH"] = os.pathsep.join([bin_folder, os.environ["PATH"]])  # noqa: F821
config.environment["PYTHONPATH"] = os.path.join(  # noqa: F821
    os.path.dirname(config.test_source_root),  # noqa: F821
    "src",
)
config.environment["TCOPT_CACHE"] = "0"  # noqa: F821
if "TCOPT_CPU" in os.environ:
    config.environment["TCOPT_CPU"] = os.environ["TCOPT_CPU"]  # noqa: F821
config.environment["PYTHONWARNINGS"] = "ignore"  # noqa: F821

config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))  # noqa: F821
if os.environ.get("TCOPT_LIT_PROCESSES") != "1":
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(here)
    sys.path[:0] = [here, os.path.join(root, "tests"), os.path.join(root, "src")]
    import forked_tools

    forked_tools.install()
if shutil.which("mlir-opt-19"):
    config.available_features.add("mlir-opt")  # noqa: F821
if os.environ.get("TCOPT_LIT_QUICK") != "1":
    # Slow cases, which `make quick` skips.
    config.available_features.add("long")  # noqa: F821
