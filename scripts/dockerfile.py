"""Reads ``docker/api.Dockerfile``: which program it puts into the image, and how the image runs.

It knows the instructions that the file uses, and fails for any other, so that an image that is made
without Docker cannot lack what the file says.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

DOCKERFILE = Path(__file__).resolve().parent.parent / "docker" / "api.Dockerfile"
PROGRAM = "/usr/local/bin/galvo"
BUILD = re.compile(
    r"RUN (--mount=\S+ )*cargo build --locked --release --package galvo --bin galvo"
    rf" && cp target/release/galvo {PROGRAM}"
)
# The image has the whole layout of `docker/root.sh`, which belongs to root.
LAYOUT = f"RUN docker/root.sh /image {PROGRAM}"
COPY = "COPY --from=build /image /"
UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


class UnknownInstructionError(ValueError):
    """An instruction without a meaning here."""


@dataclass
class Image:
    """The image of a Dockerfile."""

    # The field `config` of an image's configuration.
    config: dict = field(default_factory=dict)
    # Owners by path, "10001:10001" for "/var/lib/galvo", of a file and all below it.
    owners: dict[str, str] = field(default_factory=dict)


def read_image(arguments: dict[str, str], file: Path = DOCKERFILE) -> Image:
    """Returns the image with values of build arguments. Raises for an unknown instruction."""
    image, values = Image(), {}
    stage, has_layout, has_copy = 0, False, False
    for instruction in instructions(file):
        name_of_instruction, _, arguments_text = instruction.partition(" ")
        if name_of_instruction == "FROM":
            stage += 1
        if stage == 1:
            has_layout |= instruction == LAYOUT
            is_known = (
                (name_of_instruction == "FROM" and arguments_text.endswith(" AS build"))
                or name_of_instruction in ("WORKDIR", "COPY")
                or instruction == LAYOUT
                or BUILD.fullmatch(instruction)
            )
        elif instruction == COPY:
            has_copy = is_known = True
        elif name_of_instruction == "ARG":
            name, _, default = arguments_text.partition("=")
            values[name] = arguments.get(name, default)
            is_known = True
        else:
            is_known = instruction == "FROM scratch" or apply_instruction(
                image, name_of_instruction, arguments_text, values
            )
        if not is_known:
            raise UnknownInstructionError(f"{file.name}: unknown instruction: {instruction}")
    unused = arguments.keys() - values.keys()
    missing = {"User", "WorkingDir", "Entrypoint", "Healthcheck"} - image.config.keys()
    if unused or missing or not (has_layout and has_copy) or image.config["User"].startswith("0"):
        raise ValueError(
            f"{file.name} lacks {sorted(unused | missing)}, or copies no layout, or runs as root"
        )
    return image


def instructions(file: Path) -> list[str]:
    """Returns the instructions, each in one line."""
    lines = [line for line in file.read_text("utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [line for line in joined.splitlines() if line]


def apply_instruction(
    image: Image, name_of_instruction: str, arguments_text: str, values: dict[str, str]
) -> bool:
    """Changes the image as an instruction says. Returns false for an unknown one."""
    config = image.config
    if name_of_instruction in FIELDS:
        name, parse = FIELDS[name_of_instruction]
        config[name] = parse(arguments_text)
    elif name_of_instruction == "ENV":
        config.setdefault("Env", []).extend(shlex.split(arguments_text))
    elif name_of_instruction == "EXPOSE":
        config.setdefault("ExposedPorts", {})[f"{int(arguments_text)}/tcp"] = {}
    elif name_of_instruction == "LABEL":
        pairs = (pair.split("=", 1) for pair in shlex.split(arguments_text))
        labels = {name: Template(value).substitute(values) for name, value in pairs}
        config.setdefault("Labels", {}).update(labels)
    else:
        copy = re.fullmatch(r"--from=build --chown=(\d+:\d+) /image(/\S+) (/\S+)", arguments_text)
        if name_of_instruction != "COPY" or not copy or copy[2] != copy[3]:
            return False
        image.owners[copy[2]] = copy[1]
    return True


def health_check(text: str) -> dict:
    """Returns a health check with its times in nanoseconds, as engines expect them."""
    options, _, command = text.partition("CMD ")
    check = {"Test": ["CMD", *json.loads(command)]}
    names = {"interval": "Interval", "timeout": "Timeout", "start-period": "StartPeriod"}
    for option in options.split():
        name, number, unit = re.fullmatch(r"--([a-z-]+)=(\d+)(ms|s|m|h)", option).groups()
        check[names[name]] = int(number) * UNITS[unit]
    return check


# The field of an instruction that sets one, and the parser of its value.
FIELDS = {
    "USER": ("User", str),
    "WORKDIR": ("WorkingDir", str),
    "ENTRYPOINT": ("Entrypoint", json.loads),
    "CMD": ("Cmd", json.loads),
    "HEALTHCHECK": ("Healthcheck", health_check),
}
