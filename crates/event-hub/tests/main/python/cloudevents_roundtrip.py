"""Publishes CloudEvents in every mode with the package `cloudevents`, and reads them back.

Arguments: the hub's HTTP address and a token. Ends with an error if anything differs.
"""

import http.client
import json
import sys
from datetime import datetime, timedelta, timezone
from urllib.parse import urlsplit

from cloudevents.core.bindings.http import HTTPMessage, from_structured, to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

HUB, TOKEN = sys.argv[1:]
FORMAT = JSONFormat()


def ask(path, headers=None, body=None):
    # Not urllib.request, which adds a Content-Type of its own.
    connection = http.client.HTTPConnection(urlsplit(HUB).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {TOKEN}", **(headers or {})}
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, (path, headers, text)
    return answer.headers["Content-Type"], text


def event(number, data, **more):
    attributes = {
        "specversion": "1.0",
        "id": f"A-{number}",
        "source": "/shop/€ and space",
        "type": "com.example.order",
        "time": datetime(2026, 4, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=2))),
        "subject": 'order "17" 100%',
        "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "comment": "naïve 😀 text",
        **more,
    }
    return CloudEvent(attributes, data)


EVENTS = [
    event(1, {"total": 12, "name": "ö"}, datacontenttype="application/json"),
    event(2, {"total": 1}, datacontenttype="application/vnd.shop+json", dataschema="https://example.com/s"),
    event(3, "plain text, € and \"quotes\"\nof two lines", datacontenttype="text/plain"),
    event(4, b"\x00\xff\xfe binary", datacontenttype="application/octet-stream"),
    event(5, None),
]


def check(expected, got):
    attributes, others = dict(expected.get_attributes()), dict(got.get_attributes())
    # The hub says where it has the event; JSON is the type that needs no word.
    for name in ["hubseq", "hubtopic", "hubid"]:
        assert others.pop(name), name
    if attributes.get("datacontenttype") == "application/json":
        others.setdefault("datacontenttype", "application/json")
    assert attributes == others, (attributes, others)
    assert expected.get_data() == got.get_data(), (expected.get_data(), got.get_data())


def exported(topic):
    kind, body = ask(f"/export?topic={topic}", {"Accept": "application/cloudevents+json"})
    assert kind == "application/x-ndjson", kind
    lines = body.decode().splitlines()
    message = lambda line: HTTPMessage({"content-type": "application/cloudevents+json"}, line.encode())
    events = [from_structured(message(line), FORMAT) for line in lines]
    kind, batch = ask(f"/export?topic={topic}&ndjson=0", {"Accept": "application/cloudevents+json"})
    assert kind == "application/cloudevents-batch+json", kind
    assert json.loads(batch) == [json.loads(line) for line in lines]
    return events


for mode, write in [("structured", to_structured), ("binary", to_binary)]:
    for one in EVENTS:
        message = write(one, FORMAT)
        _, answer = ask(f"/publish/ce.{mode}", message.headers, message.body)
        assert json.loads(answer)["durable"] == "fsync", answer
    got = exported(f"ce.{mode}")
    assert len(got) == len(EVENTS), got
    for expected, found in zip(EVENTS, got):
        check(expected, found)

batch = b"[" + b",".join(FORMAT.write(one) for one in EVENTS) + b"]"
_, answer = ask("/publish/ce.batch", {"Content-Type": "application/cloudevents-batch+json"}, batch)
assert [result["seq"] for result in json.loads(answer)["results"]] == [1, 2, 3, 4, 5], answer
for expected, found in zip(EVENTS, exported("ce.batch")):
    check(expected, found)

# An event that never was a CloudEvent is one for this package, too.
ask("/publish/plain?key=k", {"X-Tenant": "blue"}, b'{"n":1}')
[one] = exported("plain")
assert (one.get_type(), one.get_source(), one.get_subject()) == ("plain", "/event-hub/plain", "k")
assert one.get_data() == {"n": 1} and json.loads(one.get_extension("hubheaders")) == {"x-tenant": "blue"}
print("ok")
