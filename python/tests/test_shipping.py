"""How the plugin's text travels: pickled, served, executed, preloaded."""

import __future__

import pickle
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
from galvo.plugin import CoiledTelemetry, read_settings

SOURCE = Path(galvo.plugin.__file__).read_text(encoding="utf-8")
# What a server offers: the text once more in front of itself.
SERVED = f"SOURCE = {SOURCE!r}\n{SOURCE}"


def execute(source, name):
    """What coiled and Dask do with a preload: under the caller's postponed annotations."""
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
        "SOURCE": str,
        "NAME": str,
        "SETTINGS": dict,
    }
    assert scope["SOURCE"] == SOURCE
    assert {type(value) for value in scope["SETTINGS"].values()} <= {str, float, bool, type(None)}


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
    assert module.own_source() == SOURCE
    copy = pickle.loads(cloudpickle.dumps(plugin))
    assert copy._settings == plugin._settings
    assert type(copy).__module__ == "https://galvo.example/sub/api/v2/analytics/preload"


def test_an_error_in_the_text_would_be_found_on_the_oldest_python():
    compile(SOURCE, "plugin", "exec", dont_inherit=True)
    import ast

    ast.parse(SOURCE, feature_version=(3, 8))
    assert "from __future__" not in SOURCE


def coiled_analytics(monkeypatch):
    """The coiled package as far as its register() is concerned."""
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
    monkeypatch.setattr(galvo.plugin, "Client", StrictClient)
    for _ in range(2):
        CoiledTelemetry({})
        assert module.register_plugin(StrictClient(), "plugin", idempotent=True) == ("plugin", None)


def test_register_of_coiled_is_left_alone_where_it_works(monkeypatch):
    module = coiled_analytics(monkeypatch)
    before = module.register_plugin
    monkeypatch.setattr(galvo.plugin, "Client", LenientClient)
    CoiledTelemetry({})
    assert module.register_plugin is before


def test_without_coiled_nothing_is_repaired(monkeypatch):
    monkeypatch.setitem(sys.modules, "coiled.analytics", None)
    CoiledTelemetry({})
