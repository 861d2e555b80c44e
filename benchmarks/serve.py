"""How much load a server of the shipped translator handles, and how evenly.

    python benchmarks/serve.py --record

One client that sends the next request as soon as it is answered; then 64 at once, until 10,000 requests are
answered. Every answer must be the translation of the sentence that was sent, the same as for one client. The
memory of the server is read while it works; at the end it is told to stop while requests wait, and must
answer all of them. In a second server the thread of the model is killed while it computes 64 requests: the
thread that takes its place must answer all of them. The clients share the machine with the server. Two idle
cores take less than five minutes.
"""

import asyncio
import ctypes
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from common import ROOT, arguments, keep

from regard.serve.app import create_app
from regard.serve.server import make_server, open_socket
from regard.serve.settings import Settings

MODEL, CLIENTS = "en-fr", 64
WANTED = 5.0  # throughput of all clients relative to that of one
PEOPLE = ("She", "He", "My brother", "The teacher", "Our neighbour", "The old man", "Tom", "Mary")
ACTIONS = (
    "is eating a green apple.",
    "has lost the keys.",
    "lives in a small house.",
    "wants to drink some water.",
    "is waiting for the train.",
    "did not come to the party.",
    "bought a new car yesterday.",
    "never speaks about the war.",
)
SENTENCES = tuple(f"{who} {what}" for who in PEOPLE for what in ACTIONS)


class Client:
    """One connection, kept open."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> "Client":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def translate(self, text: str) -> tuple[int, dict]:
        """The status and the answer."""
        body = json.dumps({"model": MODEL, "text": text}).encode()
        head = f"POST /v1/translate HTTP/1.1\r\nHost: localhost:{self.port}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()
        answer = await self.reader.readuntil(b"\r\n\r\n")
        lines = answer.decode().lower().split("\r\n")
        [length] = [int(line.split(":")[1]) for line in lines if line.startswith("content-length")]
        return int(lines[0].split()[1]), json.loads(await self.reader.readexactly(length))


def start() -> tuple[subprocess.Popen[str], int]:
    """A server on a free port, and the port."""
    command = [sys.executable, "-m", "regard", "serve", MODEL, "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    port = json.loads(process.stderr.readline())["port"]
    # read the rest of its log, or the pipe would fill
    threading.Thread(target=process.stderr.read, daemon=True).start()
    return process, port


def memory(process: subprocess.Popen[str]) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def alone(port: int, count: int) -> tuple[list[float], dict[str, str]]:
    """Seconds of each request of one client, and the translations."""
    client, seconds, found = await Client(port).open(), [], {}
    for n in range(count + 8):
        text, began = SENTENCES[n % len(SENTENCES)], time.perf_counter()
        status, answer = await client.translate(text)
        if status != 200:
            raise SystemExit(f"one client: status {status}: {answer}")
        if n >= 8:  # the first ones load the model and warm up
            seconds.append(time.perf_counter() - began)
        found[text] = answer["results"][0]["text"]
    client.writer.close()
    return seconds, found


async def together(port: int, count: int, process: subprocess.Popen[str]) -> dict:
    """What 64 clients saw: seconds of each request, translations, errors, and memory over time."""
    seconds: list[float] = []
    texts: dict[str, set[str]] = {}
    errors, wrong, levels, left = 0, 0, [], count

    async def ask(number: int) -> None:
        nonlocal errors, wrong, left
        client = await Client(port).open()
        place = number * 7
        while left > 0:
            left -= 1
            text, began = SENTENCES[place % len(SENTENCES)], time.perf_counter()
            place += 1
            status, answer = await client.translate(text)
            seconds.append(time.perf_counter() - began)
            if status != 200:
                errors += 1
                continue
            result = answer["results"][0]
            wrong += "".join(result["source_words"]) != text
            texts.setdefault(text, set()).add(result["text"])
            if len(seconds) % max(count // 20, 1) == 0:
                levels.append(round(memory(process), 1))
        client.writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(CLIENTS)))
    total = time.perf_counter() - began
    return {
        "seconds": seconds,
        "total": total,
        "errors": errors,
        "wrong": wrong,
        "texts": texts,
        "levels": levels,
    }


async def stopped(port: int, process: subprocess.Popen[str]) -> tuple[int, int]:
    """How many of 64 requests that wait at SIGTERM are answered, and the status of the process."""
    clients = [await Client(port).open() for _ in range(CLIENTS)]
    asked = [
        asyncio.create_task(client.translate(text)) for client, text in zip(clients, SENTENCES, strict=True)
    ]
    await asyncio.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    answered = sum(not isinstance(each, BaseException) and each[0] == 200 for each in answers)
    return answered, await asyncio.to_thread(process.wait, 60)


async def killed() -> dict[str, int]:
    """Kill the thread of the model while it computes 64 requests; how they were answered, and one more."""
    settings = Settings(port=0)
    app = create_app(settings, [MODEL])
    opened = open_socket(settings)
    server, port = make_server(app, settings), opened.getsockname()[1]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    await alone(port, 1)
    clients = [await Client(port).open() for _ in range(CLIENTS)]
    asked = [
        asyncio.create_task(client.translate(text)) for client, text in zip(clients, SENTENCES, strict=True)
    ]
    queue = app.state.models.find(MODEL, "translate").worker
    for waits in (True, False):  # until they wait, then until they are computed
        while bool(queue.waiting) != waits:
            await asyncio.sleep(0.001)
    [worker] = [each for each in threading.enumerate() if each.name == f"{MODEL}-1"]
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(worker.ident or 0), ctypes.py_object(SystemExit)
    )
    statuses = [status for status, _ in await asyncio.gather(*asked)]
    await alone(port, 1)  # a new request is answered
    server.should_exit = True
    await asyncio.to_thread(thread.join, 60)
    text = app.state.models.metrics.text()
    [line] = [line for line in text.splitlines() if line.startswith("regard_workers_replaced_total{")]
    lost = statuses.count(500)
    return {
        "threads replaced after one was killed": int(line.split()[-1]),
        "requests lost with it": lost,
        "others that were not answered": CLIENTS - lost - statuses.count(200),
    }


async def measure(count: int, single: int) -> dict:
    """Everything, with one server."""
    process, port = start()
    try:
        one, first = await alone(port, single)
        many = await together(port, count, process)
        answered, status = await stopped(port, process)
    finally:
        process.kill()
    ordered = sorted(many["seconds"])
    differing = [text for text, found in many["texts"].items() if found != {first.get(text, *found)}]
    levels = many["levels"]
    half = levels[len(levels) // 2 :] or [0.0]
    return {
        "model": MODEL,
        "clients": CLIENTS,
        "requests": len(ordered),
        "requests/s, one client": round(1 / statistics.mean(one), 2),
        "p50 ms, one client": round(1000 * statistics.median(one), 1),
        "p99 ms, one client": round(1000 * sorted(one)[int(0.99 * len(one))], 1),
        f"requests/s, {CLIENTS} clients": round(len(ordered) / many["total"], 2),
        f"p50 ms, {CLIENTS} clients": round(1000 * ordered[len(ordered) // 2], 1),
        f"p99 ms, {CLIENTS} clients": round(1000 * ordered[int(0.99 * len(ordered))], 1),
        "ratio": round(len(ordered) / many["total"] * statistics.mean(one), 2),
        "wanted": WANTED,
        "errors": many["errors"],
        "answers to another sentence": many["wrong"],
        "sentences translated otherwise than alone": len(differing),
        "memory MB, highest of the first half": max(levels[: len(levels) // 2] or [0.0]),
        "memory MB, highest of the second half": max(half),
        "answered of 64 that waited at SIGTERM": answered,
        "exit status": status,
        **await killed(),
        "load of the machine": round(os.getloadavg()[2], 2),
    }


def main() -> None:
    """Measure and, if requested, record."""
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--single", type=int, default=64, help="requests of the one client")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    began = time.perf_counter()
    found = asyncio.run(measure(given.requests, given.single))
    print(json.dumps(found, indent=1))
    if given.record:
        print(
            keep(
                "serve",
                f"throughput of {CLIENTS} clients of a server against one client at a time",
                found["ratio"],
                seconds=time.perf_counter() - began,
                details=found,
            )
        )


if __name__ == "__main__":
    main()
