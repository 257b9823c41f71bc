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


def remove_arguments(task: str) -> str:
    """Returns Dask's text for a task without its arguments, or ``REMOVED`` if the text has another
    form.
    """
    match = TASK.match(task)
    if match is None:
        return REMOVED
    if NO_ARGUMENTS.match(task, match.end()):
        return task
    return match.group() + REMOVED + ")>"
