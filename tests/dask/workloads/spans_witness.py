"""A scheduler preload that returns Dask's own data about spans and fine metrics.

Values of a span that include its descendants are Dask's own properties.
"""

import json


def cells(metrics):
    return [[list(key), value] for key, value in metrics.items() if isinstance(key, tuple)]


def number_of_tasks(groups):
    return sum(map(len, groups))


def own(span):
    durations = {}
    for group in span.groups:
        for action, seconds in group.all_durations.items():
            durations[action] = durations.get(action, 0) + seconds
    return {
        "tasks": number_of_tasks(span.groups),
        "durations": durations,
        "bytes": sum(group.nbytes_total for group in span.groups),
        "metrics": cells(span._cumulative_worker_metrics),
    }


def inclusive(span):
    return {
        "tasks": number_of_tasks(span.traverse_groups()),
        "durations": dict(span.all_durations),
        "bytes": span.nbytes_total,
        "metrics": cells(span.cumulative_worker_metrics),
    }


def collections(span):
    """Returns the collections in order; the first release with spans has none."""
    metadata = getattr(span, "metadata", None) or {"collections": []}
    return list(dict.fromkeys(kind["type"] for kind in metadata["collections"]))


def describe(span):
    return {
        "path": list(span.name),
        "parent": span.parent and span.parent.id,
        "children": [child.id for child in span.children],
        "enqueued": span.enqueued,
        "start": span.start,
        "stop": span.stop,
        "done": span.done,
        "collections": collections(span),
        "own": own(span),
        "inclusive": inclusive(span),
        "thread_seconds": span.active_cpu_seconds,
    }


def dask_setup(scheduler):
    async def spans(tags):
        extension = scheduler.extensions["spans"]
        merged = extension.merge_all()
        return json.dumps(
            {
                "spans": {id_: describe(span) for id_, span in extension.spans.items()},
                "roots": [span.id for span in extension.root_spans],
                "with_tag": {
                    tag: [span.id for span in extension.spans_search_by_tag[tag]] for tag in tags
                },
                "outermost": [span.id for span in extension.find_by_tags(*tags)],
                "metrics": cells(scheduler.cumulative_worker_metrics),
                "merged": cells(merged.cumulative_worker_metrics),
                "merged_thread_seconds": merged.active_cpu_seconds,
            }
        )

    async def metrics():
        return {
            "metrics": cells(scheduler.cumulative_worker_metrics),
            # Each worker has sent all measurements up to this time.
            "complete_until": min(ws.metrics["time"] for ws in scheduler.workers.values()),
        }

    async def plugins():
        return sorted(scheduler.plugins), sorted(scheduler.worker_plugins)

    scheduler.handlers["dask_spans"] = spans
    scheduler.handlers["dask_metrics"] = metrics
    scheduler.handlers["dask_plugins"] = plugins
