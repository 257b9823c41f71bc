"""Writes the software bill of materials of Galvo in CycloneDX: ``sbom.py FILE``. See ``sbom.sh``.

Crates are read from Cargo.lock; cargo provides the licence of each, and determines if it is part of
the program or used for tests only. npm packages are those in the lock files of the dashboard, the
scripts and the tests. For Python, the requirements of the package are listed instead of locked
versions: it uses the Dask of the scheduler.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import tomllib
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).resolve().parent.parent
# The scope of a component: part of the release, or used to build and test it.
PART, TOOL = "required", "excluded"
DASHBOARD = ROOT / "web/package-lock.json"
HASHES = {"sha512": "SHA-512", "sha256": "SHA-256", "sha384": "SHA-384", "sha1": "SHA-1"}


def licences(expression: str | None) -> dict:
    # Older crates have a slash instead of "OR".
    return {"licenses": [{"expression": expression.replace("/", " OR ")}]} if expression else {}


def licence_file(name: str | None) -> dict:
    """Returns the licence of a crate that names none but includes its text."""
    return {"licenses": [{"license": {"name": f"that of its file {name}"}}]} if name else {}


def crates() -> tuple[list[dict], list[dict]]:
    """Returns the components, and the dependencies of each."""
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode:  # missing crates have to be fetched
        result = subprocess.run(command[:-1], cwd=ROOT, capture_output=True, text=True, check=True)
    metadata = json.loads(result.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    (program,) = (id_ for id_, package in packages.items() if package["name"] == "galvo")

    # The crates linked into the program, without those that build or test it.
    shipped, pending = set(), [program]
    while pending:
        id_ = pending.pop()
        if id_ not in shipped:
            shipped.add(id_)
            for dependency in nodes[id_]["deps"]:
                if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                    pending.append(dependency["pkg"])

    package_by_version = {
        (package["name"], package["version"]): package for package in packages.values()
    }
    components = []
    for package in locked:
        name, version = package["name"], package["version"]
        metadata_package = package_by_version.get((name, version))
        component = {
            "type": "library",
            "bom-ref": reference("cargo", name, version),
            "name": name,
            "version": version,
            "scope": PART if metadata_package and metadata_package["id"] in shipped else TOOL,
            "purl": reference("cargo", name, version),
        }
        if "checksum" in package:
            component["hashes"] = [{"alg": "SHA-256", "content": package["checksum"]}]
        if metadata_package:
            component |= licences(metadata_package["license"]) or licence_file(
                metadata_package["license_file"]
            )
        components.append(component)
    refs = {
        id_: reference("cargo", package["name"], package["version"])
        for id_, package in packages.items()
    }
    dependencies = [
        {"ref": refs[id_], "dependsOn": sorted({refs[d["pkg"]] for d in node["deps"]})}
        for id_, node in nodes.items()
    ]
    return components, dependencies


def npm_packages() -> list[dict]:
    components = {}
    tools = sorted(ROOT.glob("scripts/*/package-lock.json"))
    tests = sorted(ROOT.glob("tests/*/package-lock.json"))
    # The dashboard's comes last: a package that tests use as well is a part of the program.
    for lock in [*tools, *tests, DASHBOARD]:
        packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
        for path, package in packages.items():
            if not path or package.get("link"):
                continue
            name = package.get("name") or path.rpartition("node_modules/")[2]
            is_part = lock == DASHBOARD and not (package.get("dev") or package.get("optional"))
            scope = PART if is_part else TOOL
            component = npm(name, package["version"], scope) | licences(package.get("license"))
            algorithm, _, digest = package.get("integrity", "").partition("-")
            if algorithm in HASHES:
                content = base64.b64decode(digest).hex()
                component["hashes"] = [{"alg": HASHES[algorithm], "content": content}]
            if is_part or component["bom-ref"] not in components:
                components[component["bom-ref"]] = component
    return list(components.values())


def npm(name: str, version: str, scope: str) -> dict:
    purl = reference("npm", name, version)
    return {
        "type": "library", "bom-ref": purl, "name": name, "version": version,
        "scope": scope, "purl": purl,
    }  # fmt: skip


def python_packages() -> list[dict]:
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    components = []
    for requirement in project["dependencies"]:
        name = re.match(r"[A-Za-z0-9._-]+", requirement).group()
        purl = f"pkg:pypi/{name.lower()}"
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "scope": PART,
                "purl": purl,
                "properties": [{"name": "galvo:requirement", "value": requirement}],
            }  # fmt: skip
        )
    return components


def reference(kind: str, name: str, version: str) -> str:
    return f"pkg:{kind}/{quote(name, safe='/')}@{quote(version, safe='')}"


def main(file: str) -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    version = workspace["package"]["version"]
    components, dependencies = crates()
    # The program is the subject of the document, and one of the crates.
    (program,) = (component for component in components if component["name"] == "galvo")
    others = [*components, *npm_packages(), *python_packages()]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**program, "type": "application", "version": version}},
        "components": sorted(
            (component for component in others if component is not program),
            key=lambda component: component["bom-ref"],
        ),
        "dependencies": sorted(dependencies, key=lambda component: component["ref"]),
    }
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    check(document, text)
    Path(file).write_text(text, encoding="utf-8")
    count = {kind: text.count(f'"purl": "pkg:{kind}/') for kind in ("cargo", "npm", "pypi")}
    print(", ".join(f"{number} of {kind}" for kind, number in count.items()), "in", file)


def check(document: dict, text: str) -> None:
    """Checks that the document is valid, and contains each locked crate once."""
    error = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if error:
        raise SystemExit(f"the SBOM is not valid: {error}")
    everything = [document["metadata"]["component"], *document["components"]]
    named = [
        component["purl"] for component in everything if component["purl"].startswith("pkg:cargo/")
    ]
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    locked = lock.count("\n[[package]]\n")
    if len(set(named)) != len(named) or len(named) != locked:
        raise SystemExit(f"the SBOM names {len(named)} crates, and Cargo.lock has {locked}")
    without_licence = [
        component["purl"]
        for component in everything
        if component["scope"] == PART and lacks_licence(component)
    ]
    if without_licence:
        raise SystemExit(f"of what is shipped some have no licence: {', '.join(without_licence)}")
    lost = {component["ref"] for component in document["dependencies"]} - {
        component["bom-ref"] for component in everything
    }
    if lost:
        raise SystemExit(f"what depends on something is not there: {', '.join(sorted(lost))}")


def lacks_licence(component: dict) -> bool:
    return "licenses" not in component and not component["purl"].startswith("pkg:pypi/")


if __name__ == "__main__":
    main(*sys.argv[1:])
