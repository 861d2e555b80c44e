"""Make the studio's examples: ask a running server what the rooms show first, and keep its answers.

    regard studio --no-browser --port 8000 &
    python tools/studio_examples.py http://127.0.0.1:8000

The questions are those of regard/web/studio/defaults.js, which Node.js prints; a page without a server finds
their answers in regard/web/studio/examples.
"""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

STUDIO = Path(__file__).resolve().parent.parent / "regard/web/studio"
LARGEST = 600_000  # bytes of all examples


def questions() -> list[tuple[str, str, Any]]:
    """File, address and body of each question; a body of None is a GET."""
    script = f'import {{ questions }} from "{(STUDIO / "defaults.js").as_uri()}"; '
    script += "console.log(JSON.stringify(questions()));"
    node = ["node", "--input-type=module", "--eval", script]
    printed = subprocess.run(node, check=True, capture_output=True, text=True).stdout
    return [tuple(each) for each in json.loads(printed)]


def ask(server: str, path: str, body: Any) -> Any:
    """What the server answers."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/v1/{path}", data, headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def moved(rows: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """The example of each mechanism, its parameters as they stand at first."""
    return [
        (
            "mechanisms",
            "mechanism",
            {"name": row["key"], "parameters": {each["name"]: each["value"] for each in row["parameters"]}},
        )
        for row in rows
        if row["parameters"]
    ]


def main(server: str) -> None:
    """Write one file for each room."""
    files: dict[str, list[dict[str, Any]]] = {}
    waiting = questions()
    while waiting:
        name, path, body = waiting.pop(0)
        answer = ask(server, path, body)
        kept = {"path": path, "body": body, "answer": answer}
        files.setdefault(name, []).append({key: value for key, value in kept.items() if value is not None})
        if path == "mechanisms":
            waiting += moved(answer)
    total = 0
    for name, kept in files.items():
        text = json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n"
        total += len(text.encode())
        (STUDIO / "examples" / f"{name}.json").write_text(text, encoding="utf-8")
        print(f"{name}: {len(kept)} answers, {len(text.encode()):,} bytes")
    if total > LARGEST:
        raise SystemExit(f"all examples have {total:,} bytes; expected {LARGEST:,} at most.")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
