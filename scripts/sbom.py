#!/usr/bin/env python3
"""The bill of materials of a release, SPDX 2.3 as JSON: sbom.py VERSION COMMIT DIR, where DIR has its files.

Every file, and every Debian package whose libraries are linked into it, brought along by it or depended on.
"""
import datetime
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile

# Linked into the programs, or headers that are compiled into them.
BUILT_WITH = ("libgrpc++-dev", "libgrpc-dev", "libprotobuf-dev", "libabsl-dev", "libssl-dev", "libc-ares-dev",
              "libre2-dev", "zlib1g-dev", "libspdlog-dev", "libfmt-dev", "prometheus-cpp-dev", "libhwy-dev",
              "libcli11-dev", "nlohmann-json3-dev", "libc6", "libstdc++6")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def version_of(package):
    return output("dpkg-query", "-W", "-f", "${Version}", package)


def package_of(path):
    for name in (path, os.path.realpath(path), path.removeprefix("/usr")):
        found = output("dpkg-query", "-S", name)
        if found:
            return found.split(":")[0]
    return None


def depends_of(file):
    """Packages that a .deb depends on, or whose libraries are in a wheel."""
    if file.endswith(".deb"):
        told = output("dpkg-deb", "-f", file, "Depends")
        return {re.split(r"[ (|:]", part.strip())[0] for part in told.split(",") if part.strip()}
    if file.endswith(".whl"):
        with zipfile.ZipFile(file) as wheel:
            names = re.findall(r"softmax_client/lib/smx(\S+)", "\n".join(wheel.namelist()))  # setup.py's own_name()
        return {package_of(path) for name in names for path in glob.glob(f"/usr/lib/*/lib{name}")} - {None}
    return set(BUILT_WITH)


def identity(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def main():
    version, commit, folder = sys.argv[1:]
    distribution = output("sh", "-c", '. /etc/os-release && echo "$ID"') or "debian"
    packages, relations, parts = [], [], set(BUILT_WITH)
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        with open(path, "rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        packages.append({"SPDXID": identity(file), "name": file, "versionInfo": version, "packageFileName": file,
                         "downloadLocation": "NOASSERTION", "licenseConcluded": "Apache-2.0", "filesAnalyzed": False,
                         "licenseDeclared": "Apache-2.0", "copyrightText": "NOASSERTION", "sourceInfo": "git " + commit,
                         "checksums": [{"algorithm": "SHA256", "checksumValue": digest}]})
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", identity(file)))
        depends = depends_of(path)
        parts |= depends
        relations += [(identity(file), "DEPENDS_ON", identity(name)) for name in sorted(depends) if version_of(name)]
    for name in sorted(parts):
        found = version_of(name)
        if found:
            packages.append({"SPDXID": identity(name), "name": name, "versionInfo": found, "filesAnalyzed": False,
                             "downloadLocation": "NOASSERTION", "licenseConcluded": "NOASSERTION",
                             "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
                             "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                               "referenceLocator": f"pkg:deb/{distribution}/{name}@{found}"}]})
            if name in BUILT_WITH:
                relations.append((identity(name), "BUILD_DEPENDENCY_OF", packages[0]["SPDXID"]))
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(json.dumps({
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"softmax-server-{version}", "documentNamespace": f"urn:softmax-server:{version}:{commit}",
        "creationInfo": {"created": now, "creators": ["Tool: scripts/sbom.py"]}, "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
                          for a, kind, b in relations]}, indent=1))


if __name__ == "__main__":
    main()
