"""How the plugin travels: as the texts of its modules, executed where they arrive.

Pickled classes carry bytecode, which crashes a process with another version of Python, and the
package need not be installed where it is to run. So a pickle, and a Galvo server that offers the
plugin, carry ``SOURCES``, the texts of all modules by name, and execute the text of this module
with it. It depends on none of the others.
"""

import hashlib
import os
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, List, Mapping, Optional, Tuple

# Evaluated where the pickle is opened, with the names that ``by_source`` gives.
REBUILD = (
    "(lambda bundle: (exec(compile(SOURCES['bundle'], NAME, 'exec', 0, True), bundle),"
    " getattr(bundle['module'](MODULE), CLASS)(*ARGUMENTS))[1])"
    "({'__name__': NAME, 'SOURCES': SOURCES})"
)
# All imports between the modules are written like this.
IMPORT = re.compile(r"^from \.(\w+) import ", re.MULTILINE)


def by_source(name: str, of_class: str, *arguments: Any) -> Tuple[Any, ...]:
    """What ``__reduce__`` returns for an object of this class in the module of this name.

    It is made once more from the arguments, which must be plain values. The package itself, named
    ``__init__``, takes all modules along, and any other one only those that it needs.
    """
    scope = {
        "SOURCES": own_sources() if name == "__init__" else own_sources(name),
        "NAME": origin(),
        "MODULE": name,
        "CLASS": of_class,
        "ARGUMENTS": arguments,
    }
    return eval, (REBUILD, scope)


def own_sources(name: Optional[str] = None) -> Dict[str, str]:
    """The texts of all modules, or of those that the one of this name needs."""
    package = sys.modules[__package__]
    sources = getattr(package, "SOURCES", None)
    if sources is None:
        sources = {}
        folder = os.path.dirname(os.path.abspath(__file__))
        for file_name in sorted(os.listdir(folder)):
            if file_name.endswith(".py"):
                with open(os.path.join(folder, file_name), encoding="utf-8") as file:
                    sources[file_name[:-3]] = file.read()
    if name is None:
        return dict(sources)
    return {needed: sources[needed] for needed in order(sources, ["bundle", name])}


def origin() -> str:
    """The name of the module that this package was executed for; its own where it is installed."""
    return getattr(sys.modules[__package__], "ORIGIN", __package__)


def order(sources: Mapping[str, str], names: Any) -> List[str]:
    """These modules and those that they import, each after those that it imports."""
    ordered: Dict[str, None] = {}

    def visit(name: str, above: Tuple[str, ...]) -> None:
        if name in above:
            raise ImportError("modules import each other: " + " ".join([*above, name]))
        if name not in ordered:
            for needed in IMPORT.findall(sources[name]):
                visit(needed, (*above, name))
            ordered[name] = None

    for name in names:
        visit(name, ())
    return list(ordered)


def load(sources: Mapping[str, str], origin: str) -> ModuleType:
    """The package made of these texts. Its name tells them, so that others keep theirs."""
    digest = hashlib.sha256(repr((origin, sorted(sources.items()))).encode("utf-8", "replace"))
    package_name = "_galvo_" + digest.hexdigest()[:16]
    present = sys.modules.get(package_name)
    if present is not None and getattr(present, "COMPLETE", False):
        return present
    package = _empty_module(package_name, True)
    package.__dict__.update(SOURCES=dict(sources), ORIGIN=origin)
    made = {package_name: package}
    for name in sources:
        if name != "__init__":
            made[package_name + "." + name] = _empty_module(package_name + "." + name, False)
    sys.modules.update(made)
    try:
        for name in order(sources, sources):
            whole_name = package_name + ("" if name == "__init__" else "." + name)
            # Tracebacks show the names of files.
            file_name = "<galvo>/%s.py" % name
            code = compile(sources[name], file_name, "exec", 0, True)
            exec(code, made[whole_name].__dict__)
            if name != "__init__":
                setattr(package, name, made[whole_name])
    except BaseException:
        for whole_name in made:
            sys.modules.pop(whole_name, None)
        raise
    package.__dict__["COMPLETE"] = True
    return package


def _empty_module(name: str, is_package: bool) -> ModuleType:
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, is_package=is_package)
    module.__package__ = module.__spec__.parent
    if is_package:
        module.__path__ = []  # type: ignore[attr-defined]
    return module


if "SOURCES" in globals():  # this text came in a pickle or from a server
    PACKAGE = load(globals()["SOURCES"], __name__)

    def module(name: str) -> ModuleType:
        return PACKAGE if name == "__init__" else getattr(PACKAGE, name)

    # Dask and the coiled package look for these names in what a server offers.
    if hasattr(PACKAGE, "CoiledTelemetry"):
        CoiledTelemetry, dask_setup = PACKAGE.CoiledTelemetry, PACKAGE.dask_setup
