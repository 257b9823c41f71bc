"""The client of a Galvo server, for notebooks, scripts and the ``galvo`` command.

Each kind of object has one module: ``cluster``, ``computation``, ``event``, ``exception``, ``log``,
``snapshot``, ``report``. ``listing`` holds the lists that clusters and accounts have in common,
``records`` the rows they return, and ``export`` the conversion to tables. All of them send their
requests through ``server``, the only holder of the token. Below it, ``transport`` implements HTTP.
``values`` converts arguments to JSON, and ``moments`` converts times. The scheduler needs none of
these modules.
"""
