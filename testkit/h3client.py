"""A client of HTTP/3 that shares no code with the server: aioquic's, as a command.

It opens one connection, makes requests on it one after the other, and prints a line of JSON for each answer:

    {"status": 200, "headers": {"content-type": "application/json"}, "body": "…"}

A header that comes several times is told once, with commas between its values. Whatever goes wrong is told on stderr in
one sentence, and the command then ends with 1.

    python h3client.py --insecure --count 3 https://127.0.0.1:8443/api/v1/ip/demo
    python h3client.py --ca cert.pem --header 'authorization: Bearer KEY' https://localhost:8443/api/v1/ip
"""

import argparse
import asyncio
import ipaddress
import json
import logging
import socket
import ssl
import sys
from urllib.parse import urlsplit

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset
from aioquic.tls import CipherSuite

CIPHERS = {
    "TLS_AES_128_GCM_SHA256": CipherSuite.AES_128_GCM_SHA256,
    "TLS_AES_256_GCM_SHA384": CipherSuite.AES_256_GCM_SHA384,
    "TLS_CHACHA20_POLY1305_SHA256": CipherSuite.CHACHA20_POLY1305_SHA256,
}


class Failure(Exception):
    """Why there is no answer, in a sentence."""


class Client(QuicConnectionProtocol):
    """One connection, on which one request is under way at a time."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.stream_id = None
        self.answer = None
        self.headers = []
        self.body = b""
        self.ended = None

    async def begin(self, address):
        """Connects, or says why that is not possible."""
        self.connect(address)
        try:
            await self.wait_connected()
        except ConnectionError:
            raise Failure(self.ended or "the server cannot be reached") from None

    async def ask(self, method, authority, target, headers, body):
        """Sends a request and waits for the whole answer."""
        if self.ended:
            raise Failure(self.ended)
        self.stream_id = self._quic.get_next_available_stream_id()
        self.answer = asyncio.get_running_loop().create_future()
        self.headers, self.body = [], b""
        head = [(":method", method), (":scheme", "https"), (":authority", authority), (":path", target)]
        fields = [(name.lower().encode(), value.encode()) for name, value in head + headers]
        self.http.send_headers(self.stream_id, fields, end_stream=body is None)
        if body is not None:
            self.http.send_data(self.stream_id, body.encode(), end_stream=True)
        self.transmit()
        return await self.answer

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            reason = event.reason_phrase or "without a reason"
            self.ended = f"the connection was closed: {reason} (error {event.error_code:#x})"
            self._fail(self.ended)
        elif isinstance(event, StreamReset) and event.stream_id == self.stream_id:
            self._fail(f"the request was reset (error {event.error_code:#x})")
        for http_event in self.http.handle_event(event):
            if getattr(http_event, "stream_id", None) == self.stream_id:
                self._received(http_event)

    def _received(self, event):
        if isinstance(event, HeadersReceived):
            self.headers.extend(event.headers)
        elif isinstance(event, DataReceived):
            self.body += event.data
        else:
            return
        if event.stream_ended and not self.answer.done():
            self.answer.set_result(told(self.headers, self.body))

    def _fail(self, reason):
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(Failure(reason))


def told(headers, body):
    """An answer as it is printed."""
    fields = {}
    for name, value in headers:
        name, value = name.decode(), value.decode("latin-1")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return {"status": int(fields.pop(":status")), "headers": fields, "body": body.decode()}


def field(text):
    """A header as it is typed."""
    name, colon, value = text.partition(":")
    if not (name and colon):
        raise argparse.ArgumentTypeError("a header is written as `name: value`")
    return name.strip(), value.strip()


def arguments():
    parser = argparse.ArgumentParser(description="Makes requests of HTTP/3 on one connection.")
    parser.add_argument("url", help="https://HOST[:PORT]/PATH")
    parser.add_argument("--count", type=int, default=1, help="how many requests to make [1]")
    parser.add_argument("--method", default="GET", help="the method of each of them [GET]")
    parser.add_argument("--header", type=field, action="append", default=[], help="`name: value`; repeatable")
    parser.add_argument("--body", metavar="TEXT", help="what each of them carries [nothing]")
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument("--ca", metavar="FILE", help="trust the certificates of this file alone, PEM")
    trust.add_argument("--insecure", action="store_true", help="believe any certificate")
    parser.add_argument("--cipher", choices=sorted(CIPHERS), help="offer this suite alone")
    parser.add_argument("--local-ip", metavar="IP", help="the address to come from")
    parser.add_argument("--timeout", type=float, default=20, help="seconds for everything together [20]")
    return parser.parse_args()


async def run(options):
    url = urlsplit(options.url)
    if url.scheme != "https" or not url.hostname:
        raise Failure("the address must begin with https:// and name a host")
    target = (url.path or "/") + (f"?{url.query}" if url.query else "")
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name=url.hostname)
    if options.insecure:
        configuration.verify_mode = ssl.CERT_NONE
    if options.ca:
        configuration.load_verify_locations(cafile=options.ca)
    if options.cipher:
        configuration.cipher_suites = [CIPHERS[options.cipher]]
    loop = asyncio.get_running_loop()
    # Whoever chooses where to come from chooses the family as well.
    family = socket.AF_UNSPEC
    if options.local_ip:
        is_v4 = ipaddress.ip_address(options.local_ip).version == 4
        family = socket.AF_INET if is_v4 else socket.AF_INET6
    infos = await loop.getaddrinfo(url.hostname, url.port or 443, family=family, type=socket.SOCK_DGRAM)
    family, _, _, _, address = infos[0]
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.bind((options.local_ip or "", 0))
    udp.setblocking(False)
    quic = QuicConnection(configuration=configuration)
    transport, client = await loop.create_datagram_endpoint(lambda: Client(quic), sock=udp)
    try:
        await client.begin(address)
        for _ in range(options.count):
            answer = await client.ask(options.method, url.netloc, target, options.header, options.body)
            print(json.dumps(answer, ensure_ascii=False), flush=True)
    finally:
        client.close()
        transport.close()


async def in_time(options):
    await asyncio.wait_for(run(options), options.timeout)


def main():
    options = arguments()
    # The library tells the same again, less readably.
    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(in_time(options))
    except (asyncio.TimeoutError, TimeoutError):
        return "h3client: no answer in time"
    except (Failure, OSError, ValueError) as error:
        return f"h3client: {error}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
