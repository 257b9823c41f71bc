"""Clusters that several tests examine, and their clients."""

from conftest import settings_for
from processes import WORKLOADS, Client, DaskCluster, dask_environment

CODE = {"distributed.diagnostics.computations.nframes": 2}


class Study:
    """A cluster that runs the workloads of ``workloads/study_client.py``."""

    def __init__(
        self,
        processes,
        python,
        galvo,
        *,
        server=None,
        workers=1,
        threads=1,
        preload=True,
        **settings,
    ):
        self.galvo, self._processes = galvo, processes
        self.settings = settings_for(server or galvo.address, galvo.token)
        self.settings.update({name.replace("__", "."): v for name, v in settings.items()})
        self.dask = DaskCluster(
            processes,
            python,
            preloads=[WORKLOADS / "spans_witness.py", *(["galvo"] if preload else [])],
            settings=self.settings if preload else {},
            workers=0,
        )
        self.dask.workers += [self._start_worker(threads) for _ in range(workers)]
        self._client = None

    def _start_worker(self, threads):
        dask, directory = self.dask, self._processes.directory
        command = [dask.python, "-m", "distributed.cli.dask_worker"]
        command += ["--scheduler-file", dask.scheduler_file, "--nthreads", threads, "--no-nanny"]
        command += ["--memory-limit", "1GiB", "--no-dashboard"]
        return self._processes.start("worker", command, dask_environment(directory, {}))

    def begin(self):
        """Starts the client, possibly in parallel with others."""
        dask, directory = self.dask, self._processes.directory
        self._client = self._processes.start(
            "client",
            [dask.python, WORKLOADS / "study_client.py", dask.scheduler_file],
            dask_environment(directory, {**self.settings, **CODE}),
            kind=Client,
        )
        self._client.begin("wait_for_workers", count=len(dask.workers))
        return self

    def ready(self):
        self._client.answer()
        self.scheduler_id = self._client.call("dask_report")["scheduler_id"]
        return self

    def call(self, command, **arguments):
        return self._client.call(command, **arguments)

    def start(self, workload, **options):
        self._client.begin("study", workload=workload, **options)

    def outcome(self):
        return self._client.answer()

    def run(self, workload, **options):
        self.start(workload, **options)
        return self.outcome()

    def close(self):
        self.call("shutdown")
        assert self.dask.scheduler.wait(15) == 0
