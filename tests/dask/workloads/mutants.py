"""Imports randomly damaged files, and prints the outcome of each.

Run with a directory of artefacts, the number of mutants of each, and a seed.
"""

import gzip
import json
import random
import re
import sys
from pathlib import Path

import galvo
import msgpack

JUNK = [
    None, True, -1, 0, 2**63, 1e300, -1e300, float("nan"), float("inf"), "", "x" * 5000, "\ud800",
    "\0", b"\xff", [], {}, [[[]]], {"a": {"b": []}}, ["x"] * 50, {"1": 1}, 1795351717.5, "None",
]  # fmt: skip


def places(value, found, depth=0):
    """Collects all places in nested data, each as the container and the key in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        found.append((value, key))
        if isinstance(item, (dict, list)) and depth < 12:
            places(item, found, depth + 1)
    return found


def mutate(value, chance):
    everywhere = places(value, [])
    for _ in range(chance.choice([1, 3, 30, 300])):
        container, key = chance.choice(everywhere)
        if isinstance(container, dict) and chance.random() < 0.2:
            container.pop(key, None)
        else:
            container[key] = chance.choice(JUNK)


def mutants_of_dump(directory, chance):
    with gzip.open(directory / "dump.msgpack.gz") as file:
        packed = file.read()
    while True:
        dump = msgpack.unpackb(packed, strict_map_key=False)
        # Most of a dump is never read.
        dump["workers"] = {k: {"logs": v["logs"]} for k, v in dump["workers"].items()}
        mutate(dump, chance)
        path = directory / "mutant.dump"
        path.write_bytes(msgpack.packb(dump, unicode_errors="surrogatepass"))
        yield path


def mutants_of_page(directory, chance):
    page = (directory / "report.html").read_text(encoding="utf-8")
    found = re.search(r'(<script type="application/json"[^>]*>\s*)(.*?)(\s*</script>)', page, re.S)
    while True:
        document = json.loads(found.group(2))
        mutate(document, chance)
        path = directory / "mutant.html"
        text = json.dumps(document, default=str).replace("\0", "")
        path.write_text(page[: found.end(1)] + text + page[found.start(3) :], encoding="utf-8")
        yield path


def main(directory, number, seed):
    outcomes = {"imported": 0, "refused": [], "wrong": []}
    for mutants in (mutants_of_dump, mutants_of_page):
        files = mutants(directory, random.Random(seed))
        for n in range(number):
            path = next(files)
            try:
                galvo.import_file(path, f"mutant {n}")
                outcomes["imported"] += 1
            except galvo.NotImportable as error:
                outcomes["refused"].append(str(error))
            except Exception as error:
                path.rename(directory / f"wrong-{n}{path.suffix}")
                outcomes["wrong"].append(f"{path.name} {n}: {type(error).__name__}: {error}")
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
