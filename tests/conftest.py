"""What all tests share: examples that are the same in every run, and no clock that fails a slow machine.

`pytest --hypothesis-profile search` looks for examples that nobody has seen yet.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("polylect", settings.get_profile("search"), derandomize=True)
settings.load_profile("polylect")
