"""Arguments that several commands share."""

CLUSTER_HELP = (
    "its number, name, identifier or scheduler's identifier; the newest one if not given, which is"
    " -1 as well, and -2 is the one before"
)
