"""Tests of the transport of the plugin's source: pickled, served, executed, preloaded."""

import __future__

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cloudpickle
import dask
import distributed
import pytest
from fake_galvo import TOKEN

import galvo
from galvo.plugin import CoiledTelemetry, Preview, bundle, read_settings, telemetry

FOLDER = Path(galvo.plugin.__file__).parent
SOURCES = {file.stem: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.py")}
# The source as a server provides it: all files, before the one that builds a package from them.
SERVED = f"SOURCES = {json.dumps(SOURCES, ensure_ascii=False)}\n{SOURCES['bundle']}"


def execute(source, name):
    """Executes a source as coiled and Dask do a preload: with postponed annotations."""
    module = ModuleType(name)
    flags = __future__.annotations.compiler_flag
    exec(compile(source, name, "exec", flags), module.__dict__)
    assert name not in sys.modules and "__file__" not in module.__dict__
    return module


@pytest.fixture
def plugin():
    return CoiledTelemetry(read_settings("http://galvo.example", TOKEN, "ada"))


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps])
def test_a_copy_has_the_settings_and_is_made_from_the_text(plugin, dumps):
    copy = pickle.loads(dumps(plugin))
    assert copy._settings == plugin._settings
    assert type(copy) is not CoiledTelemetry and type(copy).__name__ == "CoiledTelemetry"
    assert (copy.name, copy.idempotent) == ("galvo", True)
    assert isinstance(copy, distributed.SchedulerPlugin)


def test_a_copy_can_be_copied_again(plugin):
    copy = pickle.loads(cloudpickle.dumps(pickle.loads(cloudpickle.dumps(plugin))))
    assert copy._settings == plugin._settings


def test_the_pickle_carries_text_and_no_bytecode(plugin):
    reconstructor, (expression, scope) = plugin.__reduce__()
    assert reconstructor is eval and isinstance(expression, str)
    assert {name: type(value) for name, value in scope.items()} == {
        "SOURCES": dict,
        "NAME": str,
        "MODULE": str,
        "CLASS": str,
        "ARGUMENTS": tuple,
    }
    assert scope["SOURCES"] == SOURCES
    (settings,) = scope["ARGUMENTS"]
    assert settings == plugin._settings
    assert {type(value) for value in settings.values()} <= {str, float, bool, list, type(None)}


def test_a_working_plugin_can_be_pickled_too(plugin):
    plugin._scheduler = SimpleNamespace(lock=open)
    plugin._timer = (x for x in ())  # cannot be pickled itself
    assert pickle.loads(cloudpickle.dumps(plugin))._scheduler is None


def test_a_pickle_opens_where_galvo_is_not_installed(plugin, tmp_path):
    (tmp_path / "pickle").write_bytes(cloudpickle.dumps(plugin))
    program = """
        import pickle, sys
        sys.modules["galvo"] = None  # importing it fails
        plugin = pickle.loads(open("pickle", "rb").read())
        print(plugin.name, plugin._settings["account"])
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert answer.stdout.split() == ["galvo", "ada"]


def test_the_served_text_knows_itself_and_its_server():
    module = execute(SERVED, "https://galvo.example/sub/api/v2/analytics/preload")
    with dask.config.set({"coiled.token": TOKEN, "coiled.server": "https://other.example"}):
        plugin = module.CoiledTelemetry()
    assert plugin._settings["server"] == "https://galvo.example/sub"
    assert module.PACKAGE.bundle.own_sources() == SOURCES
    copy = pickle.loads(cloudpickle.dumps(plugin))
    assert copy._settings == plugin._settings
    assert type(copy) is type(plugin) is module.CoiledTelemetry
    assert module.PACKAGE.bundle.origin() == module.__name__


def test_texts_of_other_servers_and_versions_live_side_by_side():
    names = ["https://a.example/api/v2/analytics/preload", "https://b.example"]
    one, other = (execute(SERVED, name) for name in names)
    changed = execute(SERVED.replace("galvo-plugin/", "changed/"), names[0])
    classes = {one.CoiledTelemetry, other.CoiledTelemetry, changed.CoiledTelemetry}
    assert len(classes) == 3 and CoiledTelemetry not in classes
    assert execute(SERVED, names[0]).CoiledTelemetry is one.CoiledTelemetry
    for module in (one, other, changed):
        package = module.CoiledTelemetry.__module__.rpartition(".")[0]
        assert re.match(r"_galvo_[0-9a-f]{16}\Z", package)
        assert sys.modules[package].CoiledTelemetry is module.CoiledTelemetry


def test_a_text_that_fails_leaves_nothing_behind():
    before = set(sys.modules)
    with pytest.raises(ZeroDivisionError):
        bundle.load({**SOURCES, "telemetry": SOURCES["telemetry"] + "\n1 / 0\n"}, "broken")
    assert {name for name in sys.modules if name.startswith("_galvo_")} <= before


def test_modules_are_executed_after_what_they_import():
    order = bundle.order(SOURCES, sorted(SOURCES))
    assert sorted(order) == sorted(SOURCES)
    for name in order:
        for needed in bundle.IMPORT.findall(SOURCES[name]):
            assert order.index(needed) < order.index(name)
    with pytest.raises(ImportError, match="a b a"):
        bundle.order({"a": "from .b import x\n", "b": "from .a import y\n"}, ["a"])


def test_the_modules_import_each_other_only_in_the_way_the_bundle_can_see():
    for name, source in SOURCES.items():
        relative = {
            node.module
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ImportFrom) and (node.level or "galvo" in node.module)
        }
        assert relative == set(bundle.IMPORT.findall(source)), name
        assert relative <= set(SOURCES), name


def test_a_part_takes_only_what_it_needs_along(plugin):
    assert set(bundle.own_sources("values")) == {"bundle", "values"}
    assert set(bundle.own_sources("sections")) == {"bundle", "sections"}
    reconstructor, (expression, scope) = bundle.reduce_to_source(
        "sections", "Record", "id", {"a": 1}
    )
    record = reconstructor(expression, scope)
    assert (record.id, record.body) == ("id", {"a": 1})
    assert not hasattr(sys.modules[type(record).__module__.partition(".")[0]], "telemetry")


def test_the_server_offers_all_modules():
    repository = Path(__file__).parents[2] / "api/src/http/rest/preload.rs"
    listed = re.search(r"modules!\[(.+?)\]", repository.read_text(encoding="utf-8"), re.DOTALL)
    assert re.findall(r'"(\w+)"', listed.group(1)) == sorted(SOURCES)


def test_an_error_in_the_texts_would_be_found_on_the_oldest_python():
    for name, source in SOURCES.items():
        compile(source, name, "exec", dont_inherit=True)
        ast.parse(source, feature_version=(3, 8))
        assert "from __future__" not in source


def coiled_analytics(monkeypatch):
    """Simulates the part of the coiled package that its register() uses."""
    module = ModuleType("coiled.analytics")

    def register_plugin(client, plugin, **kwargs):
        return client.register_plugin(plugin, **kwargs)

    module.register_plugin = register_plugin
    monkeypatch.setitem(sys.modules, "coiled.analytics", module)
    return module


class StrictClient:
    def register_plugin(self, plugin, name=None):
        return plugin, name


class LenientClient:
    def register_plugin(self, plugin, name=None, idempotent=None):
        return plugin, name, idempotent


def test_register_of_coiled_is_repaired_where_it_would_fail(monkeypatch):
    module = coiled_analytics(monkeypatch)
    with pytest.raises(TypeError):
        module.register_plugin(StrictClient(), "plugin", idempotent=True)
    monkeypatch.setattr(telemetry, "Client", StrictClient)
    for _ in range(2):
        CoiledTelemetry({})
        assert module.register_plugin(StrictClient(), "plugin", idempotent=True) == ("plugin", None)


def test_register_of_coiled_is_left_alone_where_it_works(monkeypatch):
    module = coiled_analytics(monkeypatch)
    before = module.register_plugin
    monkeypatch.setattr(telemetry, "Client", LenientClient)
    CoiledTelemetry({})
    assert module.register_plugin is before


def test_without_coiled_nothing_is_repaired(monkeypatch):
    monkeypatch.setitem(sys.modules, "coiled.analytics", None)
    CoiledTelemetry({})


def other_pythons():
    """Returns the interpreters of other versions that have Dask, named in the environment."""
    names = os.environ.get("GALVO_OTHER_PYTHONS", "").split(os.pathsep)
    return [name for name in names if name]


@pytest.mark.parametrize("python", other_pythons() or [sys.executable])
def test_a_pickle_opens_on_another_version_of_python(python, plugin, tmp_path):
    """The interpreters are named in GALVO_OTHER_PYTHONS; without it, this one is used."""
    preview = Preview({**plugin._settings, "account": "bob"})
    worker = bundle.reduce_to_source("sections", "Record", "id", {"a": 1})
    for name, value in (("plugin", plugin), ("preview", preview), ("part", ByPart(worker))):
        (tmp_path / name).write_bytes(cloudpickle.dumps(value, protocol=4))
    program = """
        import asyncio, pickle, sys
        sys.modules["galvo"] = None  # importing it fails
        plugin, preview, part = [
            pickle.loads(open(name, "rb").read()) for name in ("plugin", "preview", "part")
        ]
        from distributed import Scheduler

        async def main():
            async with Scheduler(port=0, dashboard_address=":0") as scheduler:
                report = __import__("json").loads(preview(scheduler))
                plugin._settings["disabled"] = True
                await plugin.start(scheduler)
                scheduler.add_plugin(plugin, name=plugin.name)
                again = pickle.loads(pickle.dumps(plugin))
                print(report["account"], again._settings["account"], part.body, plugin._ledger)

        asyncio.run(main())
    """
    answer = subprocess.run(
        [python, "-c", textwrap.dedent(program)],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )  # fmt: skip
    assert answer.stdout.split() == ["bob", "ada", "{'a':", "1}", "None"], answer.stderr


class ByPart:
    def __init__(self, reduced):
        self.reduced = reduced

    def __reduce__(self):
        return self.reduced


def test_every_module_is_needed_and_can_be_reached():
    assert sorted(bundle.order(SOURCES, ["__init__"])) == sorted(SOURCES)
