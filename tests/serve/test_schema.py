"""Requests drawn from the OpenAPI schema: no answer that the schema does not know, and no fault of ours."""

import hypothesis
import pytest

schemathesis = pytest.importorskip("schemathesis")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EACH = 6  # requests for each address
KINDS = {
    "/v1/translate": "demo-rnnsearch",
    "/v1/align": "demo-rnnsearch",
    "/v1/attention": "demo-rnnsearch",
    "/v1/point": "sort",
    "/v1/run": "ntm-copy",
    "/v1/ask": "stories",
    "/v1/caption": "shapes-captions-hard",
    "/v1/classify": "snail-omniglot",
    "/v1/sample": "sagan-shapes",
    "/v1/entail": "entailment",
    "/v1/score": "lstmn",
}


def operations():
    from regard.serve.settings import Settings
    from regard.serve.start import build

    paths = build(Settings(), []).openapi()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@pytest.mark.parametrize(("method", "path"), operations())
def test_requests_of_the_schema_are_answered_as_the_schema_says(client, method, path):
    operation = schemathesis.openapi.from_dict(client.app.openapi())[path][method]

    @hypothesis.given(case=operation.as_strategy())
    @hypothesis.settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def asked(case):
        if isinstance(case.body, dict) and path in KINDS and "model" in case.body:
            case.body["model"] = KINDS[path]  # a name drawn at random is never a model
        wanted = case.as_transport_kwargs(base_url="http://localhost:8000")
        asked = {name: wanted[name] for name in ("method", "url", "params", "json") if name in wanted}
        case.validate_response(client.request(**asked), checks=CHECKS)

    asked()
