"""The files of a release: complete, reproducible, and each of use where it is unpacked."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

import pytest
import yaml
from conftest import REPOSITORY, VERSION, blocks, lay_out
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from manifests import render, value_sets
from processes import clean_environment

ARCHIVE = f"galvo-{VERSION}-{os.uname().machine}-linux"
WORKFLOW = REPOSITORY / ".github" / "workflows" / "release.yml"


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_release_has_all_files_and_their_checksums(release):
    names = {path.name for path in release.iterdir()} - {"SHA256SUMS"}
    others = {name for name in names if not name.endswith(".whl")}
    assert others == {
        f"{ARCHIVE}.tar.gz",
        f"{ARCHIVE}.oci.tar",
        f"galvo-{VERSION}.tgz",
        f"galvo-{VERSION}.graphql",
        f"galvo-{VERSION}.openapi.json",
        f"galvo-{VERSION}.cdx.json",
        f"galvo-{VERSION}-changes.md",
        f"galvo-{VERSION}-schema-changes.md",
        f"galvo-{VERSION}-openapi-changes.md",
    }
    lines = (release / "SHA256SUMS").read_text().splitlines()
    assert lines == [
        f"{hashlib.sha256((release / name).read_bytes()).hexdigest()}  {name}"
        for name in sorted(names)
    ]
    # Each is documented.
    page = (REPOSITORY / "docs" / "releases.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(galvo\S+)` \|", page, re.MULTILINE)
    generic = {
        name.replace(VERSION, "VERSION").replace(os.uname().machine, "MACHINE") for name in names
    }
    generic = {re.sub(r"manylinux_2_\d+", "manylinux_2_N", name) for name in generic}
    assert sorted(documented) == sorted(generic)


def test_a_release_has_the_version_of_the_sources(tmp_path, galvo_bin):
    done = lay_out("9.9.9", tmp_path / "dist", galvo_bin)
    assert done.returncode == 1
    assert f"error: Cargo.toml has the version {VERSION}, and not 9.9.9" in done.stderr
    assert not (tmp_path / "dist").exists()


@pytest.fixture
def sources(tmp_path):
    """The sources in another directory, with the tools of this one."""
    directory = tmp_path / "sources"
    list_files = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in run(*list_files, cwd=REPOSITORY).rstrip("\0").split("\0"):
        if (REPOSITORY / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, directory / name)
    for name in (".git", ".venv", "scripts/api-changes/node_modules"):
        (directory / name).symlink_to(REPOSITORY / name)
    return directory


@pytest.mark.parametrize("name", ["schema.graphql", "openapi.json"])
def test_the_descriptions_of_the_apis_are_those_of_the_program(name, sources, tmp_path, galvo_bin):
    with open(sources / name, "a", encoding="utf-8") as file:
        file.write("\n")
    done = lay_out(VERSION, tmp_path / "dist", galvo_bin, sources)
    assert done.returncode == 1
    assert f"error: {name} is not that of the program: " in done.stderr


def test_the_same_sources_and_program_give_the_same_files(release, sources, tmp_path, galvo_bin):
    """In another directory, for another user's habits, and with a changelog for the version."""
    changelog = (sources / "CHANGELOG.md").read_text(encoding="utf-8")
    (sources / "CHANGELOG.md").write_text(
        changelog.replace(
            "## [Unreleased]\n",
            "## [Unreleased]\n\nLater.\n\n"
            f"## [{VERSION}] - 2026-01-02\n\n\n### Fixed\n\n- Something.\n\n\n- More.\n\n\n"
            "## [0.0.1]\n",
        ),
        encoding="utf-8",
    )
    # Other modes than those of the repository, and other files by default.
    run("chmod", "-R", "go-rwx", sources / "docs", sources / "docker", sources / "LICENSE")
    program = tmp_path / "program"
    shutil.copy(galvo_bin, program)
    again = tmp_path / "dist"
    variables = {"TZ": "Asia/Tokyo", "LC_ALL": "C", "LD_LIBRARY_PATH": str(tmp_path)}
    done = lay_out(VERSION, again, program, sources, umask=0o077, **variables)
    assert done.returncode == 0, done.stderr
    changes = f"galvo-{VERSION}-changes.md"
    sums = [
        [
            line
            for line in (one / "SHA256SUMS").read_text().splitlines()
            if changes not in line.split()
        ]
        for one in (release, again)
    ]
    assert sums[0] == sums[1]
    assert len(sums[0]) == 10
    # The section of the version; until it has one, that of what is not released.
    assert (again / changes).read_text(
        encoding="utf-8"
    ) == "### Fixed\n\n- Something.\n\n\n- More.\n"
    section = changelog.split("## [Unreleased]\n")[1].split("\n## ")[0]
    assert (release / changes).read_text(encoding="utf-8") == section.strip() + "\n"


def test_the_program_runs_where_its_archive_is_unpacked(release, tmp_path, galvo_bin):
    run("tar", "--extract", "--gzip", "--file", release / f"{ARCHIVE}.tar.gz", cwd=tmp_path)
    (unpacked,) = tmp_path.iterdir()
    assert unpacked.name == ARCHIVE
    files = {
        path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()
    }
    units = {path.name for path in (REPOSITORY / "docker" / "systemd").iterdir()}
    assert files == {
        *("galvo", "LICENSE", "linux.md", "running.md"),
        *(f"docker/systemd/{name}" for name in units),
    }
    for name in files - {"galvo"}:
        source = (
            REPOSITORY / name if "/" in name or name == "LICENSE" else REPOSITORY / "docs" / name
        )
        assert (unpacked / name).read_bytes() == source.read_bytes()
    # The documented step, on the root directory of another system.
    assert "\nsudo ./galvo service install\n" in f"\n{blocks('linux.md', 'sh')[0]}"
    root = tmp_path / "root"
    root.mkdir()
    install = ["service", "install", "--no-start", f"--root={root}"]
    run(unpacked / "galvo", *install, env=clean_environment(), cwd=tmp_path)
    installed = root / "etc" / "systemd" / "system" / "galvo.service"
    unit = unpacked / "docker" / "systemd" / "galvo.service"
    assert installed.read_bytes() == unit.read_bytes()
    for program in (unpacked / "galvo", galvo_bin):
        version = run(program, "--version", env=clean_environment(), cwd=tmp_path)
        assert version == f"galvo {VERSION}\n"
    schema = run(unpacked / "galvo", "schema", env=clean_environment(), cwd=tmp_path)
    assert schema == (release / f"galvo-{VERSION}.graphql").read_text(encoding="utf-8")
    with tarfile.open(release / f"{ARCHIVE}.tar.gz") as archive:
        owners = {(one.uid, one.gid, one.uname, one.gname) for one in archive.getmembers()}
    assert owners == {(0, 0, "", "")}


def test_the_chart_is_installed_from_its_archive(release):
    for values in value_sets().values():
        assert render(values, source=release / f"galvo-{VERSION}.tgz") == render(values)
    with tarfile.open(release / f"galvo-{VERSION}.tgz") as archive:
        chart = yaml.safe_load(archive.extractfile("galvo/Chart.yaml").read())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_the_bill_of_materials_is_valid(release):
    text = (release / f"galvo-{VERSION}.cdx.json").read_text(encoding="utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert json.loads(text)["metadata"]["component"]["version"] == VERSION
    assert str(REPOSITORY) not in text


def test_the_workflow_is_valid_and_publishes_every_file():
    command = [sys.executable, "-m", "check_jsonschema"]
    run(*command, "--builtin-schema", "vendor.github-workflows", WORKFLOW)
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    uses = re.findall(r"uses: (\S+)", text)
    assert uses and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in uses)
    steps = workflow["jobs"]["release"]["steps"]
    # Texts of others reach commands as variables alone.
    assert not [step["run"] for step in steps if "${{" in step.get("run", "")]
    # Without the history there would be no previous release to compare with.
    assert steps[0]["with"]["fetch-depth"] == 0
    words = steps[-1]["run"].replace("\\\n", " ").split()
    assert words[:3] == ["gh", "release", "create"]
    assert words[-1] == "dist/*"
    assert words[words.index("--notes-file") + 1] == '"dist/galvo-${TAG#v}-changes.md"'
