"""Transports the plugin as the source of its modules, which is executed at the destination.

Pickled classes contain bytecode, which crashes a process with another version of Python, and the
package need not be installed there. So a pickle, and a Galvo server that serves the plugin, carry
``SOURCES``, the source of all modules by name, and execute the source of this module with it. This
module imports none of the others.
"""

import hashlib
import os
import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Dict, List, Mapping, Optional, Tuple

# Evaluated where the pickle is loaded, with the names that ``reduce_to_source`` provides.
REBUILD = (
    "(lambda bundle: (exec(compile(SOURCES['bundle'], NAME, 'exec', 0, True), bundle),"
    " getattr(bundle['module'](MODULE), CLASS)(*ARGUMENTS))[1])"
    "({'__name__': NAME, 'SOURCES': SOURCES})"
)
# Comment lines need not travel to each worker. Blank lines remain, so that line numbers are
# preserved.
COMMENT = re.compile(r"^[ \t]*#[^\n]*$", re.MULTILINE)
# All imports between the modules have this form.
IMPORT = re.compile(r"^from \.(\w+) import ", re.MULTILINE)


def reduce_to_source(name: str, class_name: str, *arguments: Any) -> Tuple[Any, ...]:
    """Returns the ``__reduce__`` value for an object of this class in the module of this name.

    The object is rebuilt from the arguments, which must be plain values. The package itself, named
    ``__init__``, includes all modules. Any other module includes only those that it imports.
    """
    scope = {
        "SOURCES": own_sources() if name == "__init__" else own_sources(name),
        "NAME": origin(),
        "MODULE": name,
        "CLASS": class_name,
        "ARGUMENTS": arguments,
    }
    return eval, (REBUILD, scope)


def own_sources(name: Optional[str] = None) -> Dict[str, str]:
    """Returns the source of all modules, or of those that the named module imports."""
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
    needed = order(sources, ["bundle", name])
    return {module_name: COMMENT.sub("", sources[module_name]) for module_name in needed}


def origin() -> str:
    """Returns the module name under which this package was executed; its own name if installed."""
    return getattr(sys.modules[__package__], "ORIGIN", __package__)


def order(sources: Mapping[str, str], names: Any) -> List[str]:
    """Returns these modules and those that they import, each after the modules that it imports."""
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
    """Builds the package from these sources.

    Its name contains their hash, so versions can coexist.
    """
    digest = hashlib.sha256(repr((origin, sorted(sources.items()))).encode("utf-8", "replace"))
    package_name = "_galvo_" + digest.hexdigest()[:16]
    existing = sys.modules.get(package_name)
    if existing is not None and getattr(existing, "COMPLETE", False):
        return existing
    package = _empty_module(package_name, True)
    package.__dict__.update(SOURCES=dict(sources), ORIGIN=origin)
    modules = {package_name: package}
    for name in sources:
        if name != "__init__":
            modules[package_name + "." + name] = _empty_module(package_name + "." + name, False)
    sys.modules.update(modules)
    try:
        for name in order(sources, sources):
            full_name = package_name + ("" if name == "__init__" else "." + name)
            # Tracebacks show these file names.
            file_name = "<galvo>/%s.py" % name
            code = compile(sources[name], file_name, "exec", 0, True)
            exec(code, modules[full_name].__dict__)
            if name != "__init__":
                setattr(package, name, modules[full_name])
    except BaseException:
        for full_name in modules:
            sys.modules.pop(full_name, None)
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


if "SOURCES" in globals():  # this source came in a pickle or from a server
    PACKAGE = load(globals()["SOURCES"], __name__)

    def module(name: str) -> ModuleType:
        return PACKAGE if name == "__init__" else getattr(PACKAGE, name)

    # Dask and the coiled package look up these names in a served preload module.
    if hasattr(PACKAGE, "CoiledTelemetry"):
        CoiledTelemetry, dask_setup = PACKAGE.CoiledTelemetry, PACKAGE.dask_setup
