"""Builds the package with CMake: `pip install .` here, or `python3 -m build --no-isolation`.

Needs what scripts/setup.sh test installs; nothing is downloaded. A source distribution takes along what it needs of
the repository, in its folder `source`.

The wheel is for every Python 3, and for every Linux with a glibc at least as new as this machine's. It brings the
libraries that it needs under names of their own, so that another copy of gRPC in the process is not mixed with its.
"""
import os
import pathlib
import platform
import re
import shutil
import struct
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE / "source"
ROOT = BUNDLED if BUNDLED.is_dir() else HERE.parent.parent
NEEDED = ("CMakeLists.txt", "cmake", "client/CMakeLists.txt", "client/softmax_client", "client/c",
          "client/python/CMakeLists.txt", "client/python/softmax_client", "common", "kernels/operations.h")
OF_THE_SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so|ld-linux")
DYNAMIC_SYMBOLS, STRINGS, ALLOCATED = 11, 3, 2  # of ELF
UNIQUE, WEAK = 10, 2


def version():
    """That of the whole project stands in one place, CMakeLists.txt."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return text.split("project(softmax-server VERSION ", 1)[1].split()[0]


def own_name(name):
    return "smx" + name[3:]  # of the same length, so that nothing in a file moves


def set_apart(path, names):
    """Renames these libraries where the file names them, and makes the symbols that the loader would share among all
    copies of a library in a process those of this copy."""
    data = bytearray(path.read_bytes())
    headers, = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    for at in range(headers, headers + size * count, size):
        kind, flags = struct.unpack_from("<IQ", data, at + 4)
        begin, length = struct.unpack_from("<QQ", data, at + 24)
        if kind == DYNAMIC_SYMBOLS:
            for info in range(begin + 4, begin + length, 24):
                if data[info] >> 4 == UNIQUE:
                    data[info] = WEAK << 4 | data[info] & 15
        elif kind == STRINGS and flags & ALLOCATED:
            text = bytes(data[begin:begin + length])
            for name in names:
                text = text.replace(b"\0%s\0" % name.encode(), b"\0%s\0" % own_name(name).encode())
            data[begin:begin + length] = text
    path.write_bytes(data)


class FreshPackage(build_py):
    def run(self):
        shutil.rmtree(pathlib.Path(self.build_lib) / "softmax_client", ignore_errors=True)  # of an older version
        super().run()


class CMakeBuild(build_ext):
    def run(self):
        work = pathlib.Path(self.build_temp).resolve()
        work.mkdir(parents=True, exist_ok=True)
        ccache = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        try:
            subprocess.run(["cmake", "-S", str(ROOT), "-B", str(work), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                            "-DSOFTMAX_PYTHON_ONLY=ON", *ccache], check=True)
            subprocess.run(["cmake", "--build", str(work), "--target", "softmax_python"], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"softmax_client's library was not built: {error}. It needs CMake, Ninja, a C++20 "
                             "compiler and gRPC for C++, which scripts/setup.sh test installs") from error
        built = work / "client/python/softmax_client/lib/libsoftmax_client.so"
        to = (HERE if self.inplace else pathlib.Path(self.build_lib).resolve()) / "softmax_client/lib"
        to.mkdir(parents=True, exist_ok=True)
        told = subprocess.run(["ldd", str(built)], check=True, capture_output=True, text=True).stdout
        brought = {name: path for name, path in re.findall(r"(\S+) => (/\S+)", told) if not OF_THE_SYSTEM.match(name)}
        self.made = [to / built.name, *(to / own_name(name) for name in brought)]
        for path, target in zip((built, *brought.values()), self.made):
            subprocess.run(["strip", "--strip-unneeded", "-o", str(target), str(path)], check=True)
            set_apart(target, brought)

    def get_outputs(self):
        return [str(path) for path in self.made]


class Wheel(bdist_wheel):
    def get_tag(self):
        libc, libc_version = platform.libc_ver()
        if libc != "glibc":
            raise SystemExit("softmax_client needs a Linux with glibc; this one has another C library")
        return "py3", "none", f"manylinux_{libc_version.replace('.', '_')}_{platform.machine()}"


class SourceTree(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        ignored = shutil.ignore_patterns("__pycache__")
        for name in NEEDED:
            target = os.path.join(base_dir, "source", name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy2(ROOT / name, target)


setup(version=version(), ext_modules=[Extension("softmax_client.lib", [])],
      cmdclass={"build_py": FreshPackage, "build_ext": CMakeBuild, "bdist_wheel": Wheel, "sdist": SourceTree})
