"""A client of `pilotfish serve` for the end-to-end tests, with the standard library only."""

import http.client
import json
import re
import socket
import threading

QUICKLY = 60  # seconds


class Connection(http.client.HTTPConnection):
    """To host:port or unix:/path."""

    def __init__(self, address, timeout=QUICKLY):
        super().__init__("localhost" if address.startswith("unix:") else address, timeout=timeout)
        self.path = address[5:] if address.startswith("unix:") else None

    def connect(self):
        if self.path is None:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Client:
    def __init__(self, address, key=None):
        self.address = address
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def request(self, method, path, body=None, headers=None):
        connection = Connection(self.address)
        try:
            connection.request(method, path, body, {**self.headers, **(headers or {})})
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, value, **options):
        body = value if isinstance(value, (bytes, str)) else json.dumps(value)
        return self.request("POST", path, body, **options)

    def open_stream(self, path, value):
        """The connection and its response, whose events come."""
        connection = Connection(self.address)
        connection.request("POST", path, json.dumps({**value, "stream": True}), self.headers)
        return connection, connection.getresponse()

    def stream(self, path, value):
        """All the events of a stream: documents, and the last word as text."""
        connection, response = self.open_stream(path, value)
        try:
            if response.status != 200:
                raise AssertionError(f"{response.status}: {response.read()!r}")
            text = response.read().decode()
        finally:
            connection.close()
        events = [re.sub("^(event: .*\n)?data: ", "", part) for part in text.split("\n\n") if part]
        return [event if event == "[DONE]" else json.loads(event) for event in events]


def at_once(calls):
    """The results of the calls, each made by a thread of its own."""
    results = [None] * len(calls)

    def run(i):
        try:
            results[i] = calls[i]()
        except Exception as error:  # the caller sees it among the results
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def send_raw(address, data, timeout=QUICKLY):
    """Everything that comes back for these bytes, until the connection is closed or nothing comes for a while."""
    connection = Connection(address, timeout)
    connection.connect()
    answer = b""
    with connection.sock as s:
        try:
            s.sendall(data)
            while part := s.recv(1 << 16):
                answer += part
        except (ConnectionError, TimeoutError):
            pass
        return answer
