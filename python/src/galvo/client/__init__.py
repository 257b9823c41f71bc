"""What users ask a Galvo server from Python, in notebooks, scripts and the ``galvo`` command.

One noun has one file: ``cluster``, ``computation``, ``event``, ``exception``, ``log``,
``snapshot``, ``report``. ``listing`` knows the lists that clusters and accounts have in common,
``records`` what becomes of them, and ``export`` how they become tables. All of them ask a
``server``, which alone knows the token; below it ``transport`` knows HTTP. What users give becomes
JSON in ``values``, and times in ``moments``. Nothing here is needed on a scheduler.
"""
