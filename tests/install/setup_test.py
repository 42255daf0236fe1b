#!/usr/bin/env python3
"""What scripts/setup.sh would install, by system, with a package manager that only writes down what it is asked for."""
import os
import shutil
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = '#!/bin/sh\necho "$0 $*" >>"$SETUP_TEST_ASKED"\n'


def setup(what, os_release):
    """Its output, and what the package manager was asked to install."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/scripts")
        os.makedirs(f"{folder}/bin")
        for name in ("setup.sh", "common.sh"):
            shutil.copy(f"{ROOT}/scripts/{name}", f"{folder}/scripts")
        for tool in ("apt-get", "dpkg-query", "sudo", "npm"):
            with open(f"{folder}/bin/{tool}", "w") as file:
                file.write('#!/bin/sh\nexec "$@"\n' if tool == "sudo" else TOOL)
            os.chmod(f"{folder}/bin/{tool}", 0o755)
        with open(f"{folder}/os-release", "w") as file:
            file.write(os_release)
        environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", OS_RELEASE=f"{folder}/os-release",
                           SETUP_TEST_ASKED=f"{folder}/asked")
        environment.pop("SOFTMAX_SKIP_INSTALL", None)
        result = subprocess.run(["bash", f"{folder}/scripts/setup.sh", what], env=environment, capture_output=True,
                                text=True, timeout=60)
        assert result.returncode == 0, result.stdout + result.stderr
        asked = ""
        if os.path.exists(f"{folder}/asked"):
            with open(f"{folder}/asked") as file:
                asked = "".join(line for line in file if " install " in line and "/apt-get " in line)
        return result.stdout, asked.split()


def main():
    for release, runtime, browser in (("debian 12", "libclang-rt-14-dev", True),
                                      ("debian 13", "libclang-rt-19-dev", True),
                                      ("ubuntu 24.04", "libclang-rt-18-dev", False)):
        name, version = release.split()
        out, asked = setup("all", f'ID={name}\nVERSION_ID="{version}"\nPRETTY_NAME="{release}"\n')
        assert f"setup: {release} has what is needed" in out, out
        assert [word for word in asked if word.startswith("libclang-rt")] == [runtime], (release, asked)
        assert ("chromium" in asked) == browser, (release, asked)
        assert {"g++", "libgrpc++-dev", "clang-format", "clang-tidy"} <= set(asked), (release, asked)
        out, asked = setup("build", f'ID={name}\nVERSION_ID="{version}"\n')
        assert "clang-format" not in asked and "g++" in asked, (release, asked)
    # Of another system nothing is known: it says what is needed, installs nothing and lets the caller go on.
    out, asked = setup("test", 'ID=gentoo\nPRETTY_NAME="Gentoo Linux"\n')
    assert asked == [], asked
    for words in ("Gentoo Linux", "nothing is installed", "libgrpc++-dev", "python3-numpy"):
        assert words in out, (words, out)
    assert "clang-tidy" not in out, out
    print("setup.sh asks for the packages of each system")


if __name__ == "__main__":
    main()
