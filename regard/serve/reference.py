"""/docs: the OpenAPI schema as one plain page, without scripts or external resources."""

from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; background: Canvas }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem }
h2 { font-size: 1rem; margin: 2rem 0 .3rem }
code, h2 { font-family: ui-monospace, monospace }
table { border-collapse: collapse; width: 100% }
a { color: LinkText }
td, th { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #8884; vertical-align: top }
"""


def reference_page(schema: dict[str, Any]) -> str:
    """Every route with its description and request fields."""
    parts = ["<h1>regard</h1><p>Schema: <a href='/openapi.json'>/openapi.json</a>.</p>"]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(f"<h2>{method.upper()} {escape(path)}</h2>")
            parts.append(f"<p>{escape(operation.get('description', ''))}</p>")
            rows = [
                _row(each["name"], each["schema"], bool(each.get("required")))
                for each in operation.get("parameters", [])
            ] + _body(operation, schema)
            if rows:
                parts.append(f"<table><tr><th>field<th>type<th>meaning</tr>{''.join(rows)}</table>")
    head = "<meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
    head += (
        "<link rel='icon' href='data:,'><title>regard: API</title><link rel='stylesheet' href='/docs.css'>"
    )
    body = f"<main>{''.join(parts)}</main>"
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{body}</body></html>"


def _body(operation: dict[str, Any], schema: dict[str, Any]) -> list[str]:
    content = operation.get("requestBody", {}).get("content", {})
    for kind in content.values():
        name = kind["schema"]["$ref"].rpartition("/")[2]
        own = schema["components"]["schemas"][name]
        needed = own.get("required", [])
        return [_row(field, about, field in needed) for field, about in own["properties"].items()]
    return []


def _row(name: str, about: dict[str, Any], needed: bool) -> str:
    marked = escape(name) + ("" if needed else " (optional)")
    return f"<tr><td><code>{marked}</code><td>{_type(about)}<td>{escape(about.get('description', ''))}</tr>"


def _type(about: dict[str, Any]) -> str:
    if "anyOf" in about:
        return " or ".join(_type(each) for each in about["anyOf"] if each.get("type") != "null")
    if "$ref" in about:
        return escape(about["$ref"].rpartition("/")[2].lower())
    if "enum" in about:
        return escape(", ".join(map(str, about["enum"])))
    kind = about.get("type", "anything")
    if kind == "array":
        most = f" (at most {about['maxItems']})" if "maxItems" in about else ""
        return f"list{most} of {_type(about['items'])}"
    low, high = about.get("minimum"), about.get("maximum")
    limits = f", {low:,g} to {high:,g}" if low is not None and high is not None else ""
    return (
        escape(kind)
        + limits
        + (f" (at most {about['maxLength']:,} characters)" if "maxLength" in about else "")
    )
