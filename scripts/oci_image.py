"""Makes the container image of ``docker/api.Dockerfile`` without an engine, and without root.

``oci_image.py PROGRAM FILE``: FILE becomes an archive of the OCI image layout with the result of
the first build stage, PROGRAM. It is also an archive as ``docker save`` writes it, because older
engines load only those. The same program gives the same archive. The environment has the commit,
REVISION, and the time of all files, SOURCE_DATE_EPOCH.

``oci_image.py --settings LAYOUT``: prints how the image of an unpacked archive runs, as variables
of Bash: the file of its layer, and the user, directory, environment, entry point, arguments and
health check.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shlex
import subprocess
import sys
import tarfile
import tempfile
from datetime import datetime, timezone
from pathlib import Path

import dockerfile

ROOT = Path(__file__).resolve().parent.parent
# The names of processors in images, by those of the kernel.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
TYPES = "application/vnd.oci.image."
PREFIX = "org.opencontainers.image."


def write_archive(program: Path, file: Path) -> None:
    """Writes the archive. Its parts depend on the program and the environment alone."""
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    created = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    image = dockerfile.read_image({"REVISION": os.environ["REVISION"]})
    labels = image.config["Labels"]
    labels[f"{PREFIX}created"] = created
    version = labels[f"{PREFIX}version"]
    machine = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    with tempfile.TemporaryDirectory() as directory:
        root, layer, layout = (Path(directory, name) for name in ("root", "layer.tar", "layout"))
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        subprocess.run([ROOT / "docker" / "root.sh", root, program], check=True)
        pack(root, layer, seconds, image.owners)
        # The program, since other libraries compress differently.
        compressed = subprocess.run(["gzip", "-nc", layer], stdout=subprocess.PIPE, check=True)
        layers = [add_blob(blobs, "layer.v1.tar+gzip", compressed.stdout)]
        config = add_blob(
            blobs,
            "config.v1+json",
            encode(
                {
                    "created": created,
                    **machine,
                    "config": image.config,
                    "rootfs": {"type": "layers", "diff_ids": [digest(layer.read_bytes())]},
                    "history": [{"created": created, "created_by": dockerfile.COPY}],
                }
            ),
        )
        manifest = {"config": config, "layers": layers, "annotations": labels}
        entry = {
            **add_blob(blobs, *encode_document("manifest.v1+json", manifest)),
            "platform": machine,
            # By the second name, engines on containerd call the image `galvo`.
            "annotations": {
                f"{PREFIX}ref.name": version,
                "io.containerd.image.name": f"docker.io/library/galvo:{version}",
            },
        }
        saved = {
            "Config": path_of(config["digest"]),
            "RepoTags": [f"galvo:{version}"],
            "Layers": [path_of(layer_blob["digest"]) for layer_blob in layers],
        }
        _, index = encode_document("index.v1+json", {"manifests": [entry]})
        (layout / "oci-layout").write_bytes(encode({"imageLayoutVersion": "1.0.0"}))
        (layout / "index.json").write_bytes(index)
        (layout / "manifest.json").write_bytes(encode([saved]))
        pack(layout, file, seconds, {})


def encode(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def encode_document(kind: str, content: dict) -> tuple[str, bytes]:
    """Returns the kind and the text of a document that names its own type."""
    return kind, encode({"schemaVersion": 2, "mediaType": TYPES + kind, **content})


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def path_of(blob: str) -> str:
    return f"blobs/{blob.replace(':', '/')}"


def add_blob(directory: Path, kind: str, content: bytes) -> dict:
    """Writes a blob and returns its descriptor."""
    name = digest(content)
    (directory / name.removeprefix("sha256:")).write_bytes(content)
    return {"mediaType": TYPES + kind, "digest": name, "size": len(content)}


def pack(directory: Path, file: Path, seconds: int, owners: dict[str, str]) -> None:
    """Archives a directory in the order of names: with one time, and owners by number."""
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(directory.rglob("*"), key=lambda path: path.parts):
            name = path.relative_to(directory).as_posix()
            entry = archive.gettarinfo(path, name)
            entry.mtime, entry.uname, entry.gname = seconds, "", ""
            entry.uid, entry.gid = owner_of(f"/{name}", owners)
            with path.open("rb") if path.is_file() else io.BytesIO() as content:
                archive.addfile(entry, content)


def owner_of(name: str, owners: dict[str, str]) -> tuple[int, int]:
    for path, owner in owners.items():
        if name == path or name.startswith(f"{path}/"):
            user, group = owner.split(":")
            return int(user), int(group)
    return 0, 0


def settings(layout: Path) -> str:
    """Returns the settings of the only image of a layout."""

    def blob(descriptor: dict) -> Path:
        return layout / path_of(descriptor["digest"])

    (entry,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    manifest = json.loads(blob(entry).read_bytes())
    (layer,) = manifest["layers"]
    config = json.loads(blob(manifest["config"]).read_bytes())["config"]
    values = {
        "layer": os.fspath(blob(layer)),
        "user": config["User"],
        "directory": config["WorkingDir"],
        "environment": config["Env"],
        "entrypoint": config["Entrypoint"],
        "arguments": config["Cmd"],
        "health": config["Healthcheck"]["Test"][1:],
    }
    return "\n".join(
        f"{name}={shlex.quote(value) if isinstance(value, str) else f'({shlex.join(value)})'}"
        for name, value in values.items()
    )


if __name__ == "__main__":
    os.umask(0o022)
    if sys.argv[1] == "--settings":
        print(settings(Path(sys.argv[2])))
    else:
        write_archive(Path(sys.argv[1]), Path(sys.argv[2]))
