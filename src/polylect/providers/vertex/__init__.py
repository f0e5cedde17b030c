"""Claude models on Google Vertex AI.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

import os

from polylect import plug
from polylect.providers.check import OR_SCRIPTED, ClaudeDescription, first_set, in_home

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylect.providers.vertex.provider import Vertex, open_provider

__all__ = ["PROVIDER", "Vertex", "open_provider"]


class Description(ClaudeDescription):
    name = "vertex"
    key_variables = ("VERTEX_ACCESS_TOKEN",)
    region_variables = ("VERTEX_REGION", "CLOUD_ML_REGION")
    credentials = (
        ("VERTEX_PROJECT_ID", "VERTEX_ACCESS_TOKEN"),
        ("VERTEX_PROJECT_ID", "GOOGLE_APPLICATION_CREDENTIALS"),
    )

    def missing_credentials(self, env: "Mapping[str, str]", project: str, profile: str) -> str | None:
        named = env.get("GOOGLE_APPLICATION_CREDENTIALS")
        path = named or in_home(env, ".config/gcloud/application_default_credentials.json")
        if not os.path.exists(path):
            problem = (
                f"GOOGLE_APPLICATION_CREDENTIALS names {path}, which is not there"
                if named
                else "GOOGLE_APPLICATION_CREDENTIALS is not set"
            )
            return f"{problem}: set it to a service account's JSON file, {OR_SCRIPTED}"
        missing = self.missing_project(env, project)
        return missing if missing and not _names_project(path) else None

    def missing_project(self, env: "Mapping[str, str]", project: str) -> str | None:
        if project or first_set(env, ("VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")):
            return None
        return "no Google project: set VERTEX_PROJECT_ID"


def _names_project(path: str) -> bool:
    """Whether a file of credentials names a project. One that cannot be read is judged when it is used."""
    import json  # only where no variable names the project

    try:
        with open(path, "rb") as file:
            credentials = json.load(file)
    except (OSError, ValueError):
        return True
    return not isinstance(credentials, dict) or any(credentials.get(n) for n in ("project_id", "quota_project_id"))


PROVIDER = Description()
__getattr__ = plug.lazy_names(__name__)
