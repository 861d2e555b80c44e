"""Requests drawn from the OpenAPI schema: no answer that the schema does not know, and no fault of ours."""

import pytest

EACH = 6  # requests for each address
POSTS = {  # and a model that answers them: a name drawn at random is never one
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
    "/v1/mechanism": None,
    "/v1/trace": "nobody",  # tests/serve/test_folders.py asks models that there are
}
GETS = (
    *(
        "/v1/models",
        "/v1/caption/example",
        "/v1/mechanisms",
        "/v1/mechanisms/{id}/file",
        "/v1/runs",
        "/v1/runs/{id}",
    ),
    *("/v1/runs/{id}/events", "/v1/comparisons", "/v1/comparisons/{id}", "/v1/folders"),
    *("/healthz", "/readyz", "/metrics"),
)


def test_every_address_is_asked_below(client):
    found = {(path, method) for path, methods in client.app.openapi()["paths"].items() for method in methods}
    assert found == {(path, "post") for path in POSTS} | {(path, "get") for path in GETS}


@pytest.mark.parametrize("path", [*POSTS, *GETS])
def test_requests_of_the_schema_are_answered_as_the_schema_says(client, path):
    hypothesis = pytest.importorskip("hypothesis")
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    method = "POST" if path in POSTS else "GET"
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
        if isinstance(case.body, dict) and "model" in case.body:
            case.body["model"] = POSTS[path]
        drawn = case.as_transport_kwargs(base_url="http://localhost:8000")
        given = {name: drawn[name] for name in ("method", "url", "params", "json") if name in drawn}
        case.validate_response(client.request(**given), checks=wanted)

    asked()
