"""A mailbox at a real SMTP server, aiosmtpd's, as a command.

It listens on a free port of loopback and prints lines of JSON: first where it listens, then a line for each mail.

    {"port": 41234}
    {"mail": {"from": "…", "to": ["…"], "headers": [["Subject", "…"], …], "text": "…", "secure": false, "user": null}}

On its input it takes `take`, `refuse` (for good, 550) or `defer` (until later, 451), each answered with `{"mode": "…"}`; whoever
is turned away so is told as `{"turned_away": "ADDRESS"}`. It ends when its input does.

    python mailbox.py
    python mailbox.py --tls starttls --certificate cert.pem --key key.pem --user ipse --password secret
"""

import argparse
import asyncio
import email
import email.policy
import json
import logging
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult

ANSWERS = {
    "take": None,
    "refuse": "550 5.7.1 This mailbox takes no mail of yours",
    "defer": "451 4.3.2 This mailbox is full, come back later",
}


def say(line):
    print(json.dumps(line), flush=True)


class Mailbox:
    """What is done with a mail."""

    def __init__(self):
        self.mode = "take"

    async def handle_RCPT(self, server, session, envelope, address, options):
        answer = ANSWERS[self.mode]
        if answer:
            say({"turned_away": address})
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        body = message.get_body(("plain",))
        mail = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "headers": [[name, str(value)] for name, value in message.items()],
            "text": body.get_content() if body else "",
            "secure": session.ssl is not None or server.transport.get_extra_info("ssl_object") is not None,
            "user": session.auth_data,
        }
        say({"mail": mail})
        return "250 OK"


def arguments():
    parser = argparse.ArgumentParser(description="Takes mail and prints it.")
    parser.add_argument("--tls", choices=["starttls", "implicit"], help="insist on TLS, and how it begins")
    parser.add_argument("--certificate", metavar="FILE", help="what to show then, PEM")
    parser.add_argument("--key", metavar="FILE", help="the key of it, PEM")
    parser.add_argument("--user", help="insist on this user")
    parser.add_argument("--password", help="with this password")
    return parser.parse_args()


async def run(options):
    mailbox = Mailbox()

    def authenticate(server, session, envelope, mechanism, given):
        wanted = (options.user.encode(), options.password.encode())
        good = (getattr(given, "login", None), getattr(given, "password", None)) == wanted
        return AuthResult(success=good, handled=False, auth_data=options.user if good else None)

    context = None
    if options.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.certificate, options.key)

    def connection():
        return SMTP(
            mailbox,
            hostname="localhost",
            enable_SMTPUTF8=True,
            tls_context=context if options.tls == "starttls" else None,
            require_starttls=options.tls == "starttls",
            authenticator=authenticate if options.user else None,
            auth_required=bool(options.user),
            auth_require_tls=options.tls == "starttls",
        )

    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        connection, "127.0.0.1", 0, ssl=context if options.tls == "implicit" else None
    )
    say({"port": server.sockets[0].getsockname()[1]})
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async for line in lines:
        mailbox.mode = line.decode().strip()
        say({"mode": mailbox.mode})


def main():
    # A client that goes away in the middle is the business of its test.
    logging.disable(logging.CRITICAL)
    # The library does not see that TLS was there before it, nor that this is a test.
    warnings.simplefilter("ignore")
    asyncio.run(run(arguments()))


if __name__ == "__main__":
    main()
