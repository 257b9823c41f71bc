"""Removes the inputs of tasks from the texts that Dask logs when a task fails."""

import re

REMOVED = "[removed]"
# Dask's text for a task: its key, which is also in the line above, and its function's name. If
# there is no room for the arguments, dots replace them.
TASK = re.compile(
    r"<Task (?:'(?:[^'\\\n]|\\.){0,4096}'|\"(?:[^\"\\\n]|\\.){0,4096}\"|\([^()\n]{1,4096}\))"
    r" [A-Za-z_][\w.]{0,500}\("
)
NO_ARGUMENTS = re.compile(r"(?:\.\.\.)?(?:, \.\.\.)?\)>\s*\Z")


def without_arguments(task: str) -> str:
    """Returns Dask's text for a task without its arguments, or ``REMOVED`` if they are not
    recognized.
    """
    shown = TASK.match(task)
    if shown is None:
        return REMOVED
    if NO_ARGUMENTS.match(task, shown.end()):
        return task
    return shown.group() + REMOVED + ")>"
