"""Builds the package with CMake: `pip install .` here, or `python3 -m build --no-isolation`.

Needs what scripts/setup.sh test installs; nothing is downloaded. A source distribution takes along what it needs of
the repository, in its folder `source`.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
BUNDLED = HERE / "source"
ROOT = BUNDLED if BUNDLED.is_dir() else HERE.parent.parent
NEEDED = ("CMakeLists.txt", "cmake", "client/CMakeLists.txt", "client/softmax_client", "client/python/CMakeLists.txt",
          "client/python/native", "client/python/softmax_client", "common", "kernels/operations.h")
SHARED = re.compile(r"lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+|ssl|crypto|z)\.so|ld-linux")


def version():
    """That of the whole project stands in one place, CMakeLists.txt."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return text.split("project(softmax-server VERSION ", 1)[1].split()[0]


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        target = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        work = pathlib.Path(self.build_temp).resolve()
        work.mkdir(parents=True, exist_ok=True)
        ccache = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(work), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                        "-DSOFTMAX_PYTHON_ONLY=ON", f"-DSOFTMAX_PYTHON={sys.executable}", *ccache], check=True)
        subprocess.run(["cmake", "--build", str(work), "--target", "softmax_python"], check=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        built = next((work / "client/python/softmax_client").glob("_native*.so"))
        subprocess.run(["strip", "--strip-unneeded", "-o", str(target), str(built)], check=True)
        # With the libraries it needs, but for those that other modules of the process must share.
        told = subprocess.run(["ldd", str(built)], check=True, capture_output=True, text=True).stdout
        (target.parent / "lib").mkdir(exist_ok=True)
        for name, path in re.findall(r"(\S+) => (/\S+)", told):
            if not SHARED.match(name):
                shutil.copy2(path, target.parent / "lib" / name)



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


setup(version=version(), ext_modules=[Extension("softmax_client._native", [])],
      cmdclass={"build_ext": CMakeBuild, "sdist": SourceTree})
