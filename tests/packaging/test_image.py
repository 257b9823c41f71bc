"""The container image of a release, read with the tools of registries and runtimes."""

import json
import os
import re
import subprocess
import sys
import tarfile

import pytest
from conftest import REPOSITORY, VERSION
from processes import clean_environment

sys.path.insert(0, str(REPOSITORY / "python" / "server"))
from build_hook import LIBRARIES

LABEL = "org.opencontainers.image."
# Debian's packages of skopeo leave the policy to another one.
SKOPEO = ["skopeo", "--insecure-policy"]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(format_):
    return run("git", "log", "-1", f"--format={format_}", cwd=REPOSITORY).strip()


@pytest.fixture(scope="session")
def image(release):
    """The archive of the image."""
    return release / f"galvo-{VERSION}-{os.uname().machine}-linux.oci.tar"


@pytest.fixture(scope="session")
def bundle(image, tmp_path_factory):
    """The image, unpacked for a runtime by umoci."""
    directory = tmp_path_factory.mktemp("image")
    layout = directory / "layout"
    run(*SKOPEO, "copy", f"oci-archive:{image}", f"oci:{layout}:{VERSION}")
    rootless = [] if os.geteuid() == 0 else ["--rootless"]
    run("umoci", "unpack", *rootless, "--image", f"{layout}:{VERSION}", directory / "bundle")
    return directory / "bundle"


def test_the_image_runs_as_its_dockerfile_says(image):
    config = json.loads(run("skopeo", "inspect", "--config", "--raw", f"oci-archive:{image}"))
    created = config["created"]
    labels = {
        f"{LABEL}title": "Galvo",
        f"{LABEL}description": "The open, self-hosted analytics server for Dask",
        f"{LABEL}version": VERSION,
        f"{LABEL}revision": commit("%H"),
        f"{LABEL}licenses": "Apache-2.0",
        f"{LABEL}created": created,
    }
    assert config["os"] == "linux"
    assert config["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    assert config["config"] == {
        "User": "10001:10001",
        "WorkingDir": "/var/lib/galvo",
        "Env": [
            "GALVO_LISTEN=0.0.0.0:8000",
            "GALVO_DATABASE_URL=sqlite:///var/lib/galvo/galvo.db?mode=rwc",
        ],
        "ExposedPorts": {"8000/tcp": {}},
        "Entrypoint": ["/usr/local/bin/galvo"],
        "Cmd": ["serve"],
        "Healthcheck": {
            "Test": ["CMD", "/usr/local/bin/galvo", "ready"],
            "Interval": 10_000_000_000,
            "Timeout": 5_000_000_000,
            "StartPeriod": 60_000_000_000,
        },
        "Labels": labels,
    }
    # The time of the commit, in UTC.
    assert (
        created
        == run(*("date", "--utc", "--date", f"@{commit('%ct')}", "+%Y-%m-%dT%H:%M:%SZ")).strip()
    )
    manifest = json.loads(run("skopeo", "inspect", "--raw", f"oci-archive:{image}"))
    assert manifest["annotations"] == labels


def test_an_older_engine_loads_the_same_image(image, tmp_path):
    """By the file that ``docker save`` writes beside the layout."""
    reference = f"docker-archive:{image}:galvo:{VERSION}"
    older = run("skopeo", "inspect", "--config", "--raw", reference)
    assert older == run("skopeo", "inspect", "--config", "--raw", f"oci-archive:{image}")
    # It reads the layer and checks its digest.
    run(*SKOPEO, "copy", reference, f"dir:{tmp_path}")
    with tarfile.open(image) as archive:
        (entry,) = json.load(archive.extractfile("index.json"))["manifests"]
        (saved,) = json.load(archive.extractfile("manifest.json"))
    assert saved["RepoTags"] == [f"galvo:{VERSION}"]
    assert entry["annotations"] == {
        f"{LABEL}ref.name": VERSION,
        "io.containerd.image.name": f"docker.io/library/galvo:{VERSION}",
    }


def test_the_image_has_the_program_its_libraries_and_nothing_of_the_machine(image, tmp_path):
    run(*SKOPEO, "copy", f"oci-archive:{image}", f"dir:{tmp_path}")
    (layer,) = json.loads((tmp_path / "manifest.json").read_bytes())["layers"]
    with tarfile.open(tmp_path / layer["digest"].removeprefix("sha256:"), "r:gz") as archive:
        entries = {entry.name: entry for entry in archive.getmembers()}
        texts = {
            name: archive.extractfile(entry).read().decode()
            for name, entry in entries.items()
            if name.startswith("etc/") and entry.isfile()
        }
    assert texts == {
        "etc/passwd": "galvo:x:10001:10001::/var/lib/galvo:/nonexistent\n",
        "etc/group": "galvo:x:10001:\n",
        "etc/nsswitch.conf": "hosts: files dns\n",
    }
    files = {name for name, entry in entries.items() if not entry.isdir()}
    libraries = files - set(texts) - {"usr/local/bin/galvo"}
    assert len(libraries) >= 3
    place = re.compile(r"(usr/)?lib(64)?/([a-z0-9_]+-linux-gnu/)?([^/]+)")
    for name in libraries:
        assert LIBRARIES.fullmatch(place.fullmatch(name)[4]), name
    assert all(entry.isfile() or entry.isdir() for entry in entries.values())
    assert list(entries) == sorted(entries, key=lambda name: name.split("/"))
    # Times and owners are those of the release, and none of a user of this machine.
    assert {entry.mtime for entry in entries.values()} == {int(commit("%ct"))}
    assert {(entry.uname, entry.gname) for entry in entries.values()} == {("", "")}
    owned = {name: (one.uid, one.gid) for name, one in entries.items() if one.uid or one.gid}
    assert owned == {"var/lib/galvo": (10001, 10001)}
    modes = {name: f"{entry.mode & 0o7777:o}" for name, entry in entries.items()}
    assert {name: mode for name, mode in modes.items() if name not in libraries} == {
        **{name: "644" for name in texts},
        **{name: "755" for name, entry in entries.items() if entry.isdir()},
        "usr/local/bin/galvo": "755",
        "tmp": "1777",
        "var/lib/galvo": "700",
    }


def test_the_program_runs_in_the_image(bundle, release):
    root = bundle / "rootfs"
    if os.geteuid() == 0:
        assert (root / "var" / "lib" / "galvo").stat().st_uid == 10001

    def galvo(*arguments):
        # As root of the image alone: it has the image's files and no others.
        inside = ["unshare", "--map-root-user", f"--root={root}", "/usr/local/bin/galvo"]
        return run(*inside, *arguments, env=clean_environment())

    assert galvo("--version") == f"galvo {VERSION}\n"
    assert galvo("schema") == (release / f"galvo-{VERSION}.graphql").read_text(encoding="utf-8")
    process = json.loads((bundle / "config.json").read_bytes())["process"]
    assert process["args"] == ["/usr/local/bin/galvo", "serve"]
    assert (process["cwd"], process["user"]["uid"]) == ("/var/lib/galvo", 10001)
