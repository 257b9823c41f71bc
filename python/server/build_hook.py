"""Puts the server's program into the wheel, as ``galvo-server``.

GALVO_SERVER_BIN names a program that is built already. Otherwise cargo builds one for release,
which takes many minutes.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

VARIABLE = "GALVO_SERVER_BIN"
# The libraries that every Linux system with glibc has, as the manylinux specification lists them.
LIBRARIES = re.compile(
    r"linux-vdso\.so\.1|ld-linux.*\.so\.\d|lib(c|m|dl|rt|pthread)\.so\.\d+|libgcc_s\.so\.1"
)


class ProgramHook(BuildHookInterface):
    """Adds the program, and the tag of the platforms that it runs on."""

    def initialize(self, version, build_data):
        built = os.environ.get(VARIABLE)
        program = Path(built).absolute() if built else self._build()
        if not program.is_file():
            raise FileNotFoundError(f"{VARIABLE} names no program: {program}")
        staged = Path(self.directory) / "galvo-server"
        staged.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(program, staged)
        # Most of a debug build is for debuggers.
        subprocess.run(["strip", "--strip-debug", staged], check=True)
        staged.chmod(0o755)
        self._staged = staged
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_of(staged)}"
        build_data["shared_scripts"][str(staged)] = "galvo-server"

    def finalize(self, version, build_data, artifact_path):
        self._staged.unlink()

    def _build(self):
        root = Path(self.root).parents[1]
        command = ["cargo", "build", "--locked", "--release", "--package=galvo", "--bin=galvo"]
        subprocess.run(command, cwd=root, check=True)
        return Path(os.environ.get("CARGO_TARGET_DIR", root / "target")) / "release" / "galvo"


def platform_of(program):
    """Returns the platform of a wheel with this program, such as ``manylinux_2_34_x86_64``."""
    here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    if not here.startswith("linux_"):
        return here
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    foreign = [name for name in libraries_of(output) if not LIBRARIES.fullmatch(name)]
    if foreign:
        raise ValueError(f"the program needs libraries that not every system has: {foreign}")
    # The versions of the symbols that it needs from glibc.
    needed = re.findall(rb"\0GLIBC_2\.(\d+)(?:\.\d+)?(?=\0)", program.read_bytes())
    if not needed:
        raise ValueError("the program is not linked with glibc")
    return f"manylinux_2_{max(map(int, needed))}_{here.removeprefix('linux_')}"


def libraries_of(output):
    """Returns the names of the libraries that ``ldd`` lists."""
    return [Path(line.split()[0]).name for line in output.splitlines() if line.strip()]
