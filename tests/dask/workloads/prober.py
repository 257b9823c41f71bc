"""The client of ``client.py``, which searches its scheduler for tokens as any user could."""

import sys

import client


def look(dask_scheduler):
    """Returns everything that looks like a token in a scheduler's process, by its place."""
    import gc
    import os
    import re

    import dask

    token = re.compile(r"(?<![A-Za-z0-9])[a-z0-9]{16}-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
    plugin = dask_scheduler.plugins["galvo"]
    broker = getattr(dask_scheduler, "_broker", None)
    configuration, environment = repr(dask.config.config), repr(dict(os.environ))
    serialized = re.findall(r"eyJ[A-Za-z0-9_-]{40,}={0,2}", configuration + environment)
    places = {
        "settings": repr(plugin._settings),
        "configuration": configuration,
        "environment": environment,
        "inheritance": repr(list(map(dask.config.deserialize, serialized))),
        "pickle": repr(plugin.__reduce__()),
        "sender": repr(vars(plugin._sender)),
        "events": repr(getattr(broker, "_topics", None) or getattr(dask_scheduler, "events", None)),
    }
    found = {name: sorted(set(token.findall(text))) for name, text in places.items()}
    anywhere = set()
    for held in gc.get_objects():
        if type(held) is dict:
            values = list(held.values())
        elif type(held) in (list, tuple):
            values = list(held)
        else:
            continue
        for value in values:
            # Longer ones are sources and documents.
            if type(value) is str and len(value) < 10_000:
                anywhere.update(token.findall(value))
    return {"scheduler": dask_scheduler.id, "found": found, "anywhere": sorted(anywhere)}


def look_around(dask_worker):
    """Returns the tokens that a worker or a nanny is configured with, and hands to its children."""
    import os
    import re

    import dask

    token = re.compile(r"(?<![A-Za-z0-9])[a-z0-9]{16}-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
    handed_on = [vars(dask_worker).get(name) for name in ("config", "env", "pre_spawn_env")]
    places = repr([dask.config.config, dict(os.environ), handed_on])
    # Configuration that was handed on to this process.
    for serialized in re.findall(r"eyJ[A-Za-z0-9_-]{40,}={0,2}", places):
        places += repr(dask.config.deserialize(serialized))
    return sorted(set(token.findall(places)))


class Prober(client.Commands):
    def register(self, **arguments):
        import galvo

        return galvo.register(self.client, **arguments).number

    def look(self):
        return self.client.run_on_scheduler(look)

    def look_around(self):
        """Returns the tokens that any worker, and any nanny, is configured with."""
        found = [self.client.run(look_around, nanny=nanny) for nanny in (False, True)]
        return [sorted({one for tokens in each.values() for one in tokens}) for each in found]


if __name__ == "__main__":
    client.Commands = Prober
    client.main(sys.argv[1])
