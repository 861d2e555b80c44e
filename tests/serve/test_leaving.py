"""A client that leaves while its answer is computed: the decoder stops."""

import http.client
import json
import threading

from regard.models.rnnsearch import RNNsearch

LONG = "The boy who often wears an old green coat reads a French novel at home."


def test_a_client_that_leaves_stops_the_decoder(server, monkeypatch):
    steps, third, gone = [], threading.Event(), threading.Event()
    step = RNNsearch.step

    def slow(self, tokens, state):
        steps.append(len(tokens))
        if len(steps) == 3:
            third.set()
            assert gone.wait(20)
        return step(self, tokens, state)

    monkeypatch.setattr(RNNsearch, "step", slow)
    with server(["demo-rnnsearch"]) as port:
        body = json.dumps({"model": "demo-rnnsearch", "text": LONG})
        leaving = http.client.HTTPConnection("127.0.0.1", port)
        leaving.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        assert third.wait(20)
        leaving.close()
        other = http.client.HTTPConnection("127.0.0.1", port)
        while 'route="/v1/translate",status="499"' not in metrics(other):
            pass
        metrics(other)  # the server has been through its loop once more, and knows
        gone.set()
        while "regard_cancelled_batches_total{" not in metrics(other):
            pass
        assert len(steps) == 3  # the whole sentence takes more than ten
        other.request("POST", "/v1/translate", body, {"Content-Type": "application/json"})
        answer = json.loads(other.getresponse().read())
        assert len(answer["results"][0]["target_words"]) > 10
        other.close()


def metrics(connection):
    connection.request("GET", "/metrics")
    return connection.getresponse().read().decode()
