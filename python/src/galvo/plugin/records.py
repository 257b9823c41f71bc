"""Reads log records without a handler on the loggers that they pass.

A handler on the root logger would keep Python from printing records without one, and
``logging.basicConfig`` from adding one. So the record factory reads the records or, if filters or
other factories may still change or reject them, a last filter of their logger does.
"""

import logging
import threading
from typing import Any, Iterator, List, Optional

ATTACHING = threading.Lock()


class RecordFactory:
    """The factory of log records, through which ``galvo_reader`` reads those that it ``follows``.

    A factory that ends below another one remains, with None as its reader, and passes records on.
    Other versions of the plugin look it up by this name.
    """

    def __init__(self, handler: Any):
        self.galvo_reader: Any = handler
        self._last_filters: List[LastFilter] = []
        with ATTACHING:
            self.previous: Any = logging.getLogRecordFactory()
            logging.setLogRecordFactory(self)

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self.previous(*args, **kwargs)
        handler = self.galvo_reader
        if handler is not None:
            try:
                logger = find_logger(args[0] if args else kwargs.get("name"))
                if logger is not None and handler.follows(logger, record):
                    self._read_or_filter(handler, logger, record)
            except Exception:  # such as too deep a recursion
                handler.unread += 1
        return record

    def end(self) -> None:
        with ATTACHING:
            self.galvo_reader = None
            factory: Any = logging.getLogRecordFactory()
            while getattr(factory, "galvo_reader", factory) is None:
                factory = factory.previous
                logging.setLogRecordFactory(factory)
            while self._last_filters:
                self._last_filters.pop().end()

    def _read_or_filter(
        self, handler: Any, logger: logging.Logger, record: logging.LogRecord
    ) -> None:
        last = last_filters(logger)
        if len(last) == len(logger.filters) and self._is_last():
            handler.read(record)
        elif not any(last_filter in self._last_filters for last_filter in last):
            last_filter = LastFilter(handler, logger)
            self._last_filters.append(last_filter)
            logger.filters.append(last_filter)

    def _is_last(self) -> bool:
        factory: Any = logging.getLogRecordFactory()
        while factory is not self and hasattr(factory, "galvo_reader"):
            factory = factory.previous
        return factory is self


class LastFilter:
    """The last filter of a logger, through which ``galvo_reader`` reads the records that pass."""

    def __init__(self, handler: Any, logger: logging.Logger):
        self.galvo_reader: Any = handler
        self._logger = logger

    def filter(self, record: logging.LogRecord) -> bool:
        handler = self.galvo_reader
        # If other filters follow, a successor was added after them.
        try:
            if handler is not None and self in last_filters(self._logger):
                handler.read(record)
        except Exception:
            pass
        return True

    def end(self) -> None:
        self.galvo_reader = None
        filters = self._logger.filters
        # Only the last one is removed: a thread that iterates over the filters would otherwise skip
        # one.
        while filters and getattr(filters[-1], "galvo_reader", self) is None:
            self._logger.removeFilter(filters[-1])


def last_filters(logger: logging.Logger) -> List[Any]:
    """Returns Galvo's filters after all other filters of this logger."""
    filters = list(logger.filters)
    while filters and hasattr(filters[-1], "galvo_reader"):
        filters.pop()
    return logger.filters[len(filters) :]


def find_logger(name: Any) -> Optional[logging.Logger]:
    logger = logging.Logger.manager.loggerDict.get(name, logging.root)
    return logger if isinstance(logger, logging.Logger) and logger.name == name else None


def ancestry(logger: Optional[logging.Logger]) -> Iterator[logging.Logger]:
    """Yields the logger, and those to which its records propagate."""
    while logger is not None:
        yield logger
        logger = logger.parent if logger.propagate else None
