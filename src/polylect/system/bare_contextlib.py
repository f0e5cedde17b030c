"""`suppress` and `contextmanager` as in `contextlib`, for programs that start on a bare interpreter.

Importing `contextlib` takes 3 ms there, because `collections` and `functools` come with it. The guardian and the worker
pay for every import with the time of the first call, so what they import uses this module.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import contextmanager, suppress
else:

    class suppress:  # noqa: N801  (named as in contextlib)
        def __init__(self, *errors):
            self._errors = errors

        def __enter__(self):
            return None

        def __exit__(self, kind, error, traceback):
            return kind is not None and issubclass(kind, self._errors)

    class _GeneratorContext:
        def __init__(self, generator):
            self._generator = generator

        def __enter__(self):
            return next(self._generator)

        def __exit__(self, kind, error, traceback):
            if kind is None:
                next(self._generator, None)
                return False
            try:
                self._generator.throw(error)
            except BaseException as raised:
                if raised is error:
                    return False
                raise
            raise RuntimeError("the generator did not stop after an error")

    def contextmanager(function):
        def make(*args, **options):
            return _GeneratorContext(function(*args, **options))

        return make


__all__ = ("contextmanager", "suppress")
