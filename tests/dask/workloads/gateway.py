"""A preload with options, like Dask Gateway's."""

import click


@click.command()
@click.option("--dg-heartbeat-period", type=float)
async def dask_setup(scheduler, dg_heartbeat_period):
    print(f"the gateway beats every {dg_heartbeat_period:g} seconds", flush=True)
