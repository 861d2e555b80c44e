"""A Hub on this machine: enough of its HTTP interface to make repositories, send files and get them back.

with FakeHub() as hub:
    hub.address                      # for HF_ENDPOINT
    hub.files["somebody/model"]      # name -> bytes
    hub.asked                        # every request, "GET /api/models/…"
"""

import base64
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "a-token-for-tests"


class FakeHub:
    def __init__(self):
        self.files = {}
        self.asked = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": self}))
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.answer("GET")

    def do_HEAD(self):
        self.answer("HEAD")

    def do_POST(self):
        self.answer("POST")

    def answer(self, verb):
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{verb} {path}")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for pattern, method in ROUTES:
            if found := re.fullmatch(pattern, f"{verb} {path}"):
                method(self, *found.groups(), body=body)
                return
        self.reply({"error": "not found"}, status=404)

    def reply(self, content, *, status=200, **headers):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def allowed(self):
        if self.headers.get("Authorization") == f"Bearer {TOKEN}":
            return True
        self.reply({"error": "Invalid credentials"}, status=401)
        return False

    def create(self, *, body):
        if self.allowed():
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'somebody'}/{asked['name']}"
            self.hub.files.setdefault(name, {})
            self.reply({"url": f"{self.hub.address}/{name}", "name": name, "id": name})

    def validate(self, *, body):
        self.reply({"errors": [], "warnings": []})

    def preupload(self, name, *, body):
        files = json.loads(body)["files"]
        answers = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
        self.reply({"files": answers})

    def commit(self, name, *, body):
        if not self.allowed():
            return
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.hub.files[name][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        url = f"{self.hub.address}/{name}/commit/{COMMIT}"
        self.reply({"commitUrl": url, "commitOid": COMMIT, "success": True})

    def info(self, name, *, body):
        if name not in self.hub.files:
            self.reply({"error": "Repository not found"}, status=404, X_Error_Code="RepoNotFound")
            return
        siblings = [{"rfilename": file} for file in self.hub.files[name]]
        self.reply(
            {"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "private": False, "tags": []}
        )

    def tree(self, name, *, body):
        files = self.hub.files[name].items()
        listed = [
            {"type": "file", "path": file, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for file, data in files
        ]
        self.reply(listed)

    def resolve(self, name, file, *, body):
        data = self.hub.files.get(name, {}).get(file)
        if data is None:
            self.reply({"error": "Entry not found"}, status=404, X_Error_Code="EntryNotFound")
            return
        self.reply(data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', X_Repo_Commit=COMMIT)


NAME = r"([\w.-]+/[\w.-]+)"
ROUTES = [
    (r"POST /api/repos/create", _Handler.create),
    (r"POST /api/validate-yaml", _Handler.validate),
    (rf"POST /api/models/{NAME}/preupload/\w+", _Handler.preupload),
    (rf"POST /api/models/{NAME}/commit/\w+", _Handler.commit),
    (rf"GET /api/models/{NAME}/tree/\w+", _Handler.tree),
    (rf"GET /api/models/{NAME}(?:/revision/\w+)?", _Handler.info),
    (rf"(?:GET|HEAD) /{NAME}/resolve/\w+/(.+)", _Handler.resolve),
]
