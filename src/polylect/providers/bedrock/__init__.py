"""Claude models on Amazon Bedrock.

`PROVIDER` describes it before it is opened, and is read before `ready`; everything else is imported from `provider.py`
when it is asked for.
"""

import os

from polylect import plug
from polylect.providers.check import OR_SCRIPTED, ClaudeDescription, in_home, model_offer

TYPE_CHECKING = False  # typing itself would cost 5 ms
if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylect.providers.bedrock.provider import Bedrock, open_provider

__all__ = ["PROVIDER", "Bedrock", "open_provider"]


class Description(ClaudeDescription):
    name = "bedrock"
    key_variables = ("AWS_BEARER_TOKEN_BEDROCK",)
    region_variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
    credentials = (("AWS_BEARER_TOKEN_BEDROCK",), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))

    def may_serve(self, model: str) -> bool:
        return "anthropic." in model or model.startswith("claude") or model_offer(model) is None

    def missing_credentials(self, env: "Mapping[str, str]", project: str, profile: str) -> str | None:
        if env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY") and not profile:
            return None
        path = env.get("AWS_SHARED_CREDENTIALS_FILE") or in_home(env, ".aws/credentials")
        if os.path.exists(path) or os.path.exists(env.get("AWS_CONFIG_FILE") or in_home(env, ".aws/config")):
            return None
        return (
            "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            f"or have a profile in {path}, {OR_SCRIPTED}"
        )


PROVIDER = Description()
__getattr__ = plug.lazy_names(__name__)
