"""From a greeting to a known user: how the password is proved.

Knows: SCRAM's order of messages, a policy's users. Must not know: sockets, the facade. Pure but
for the nonce. Whether a user, a database or a password is wrong must not show: an unknown user goes through the same
exchange against a made-up verifier and fails with the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from dpproxy.policy.model import Policy, User
from dpproxy.session.greeting import Greeting
from dpproxy.wire import backend as back
from dpproxy.wire.frontend import decode_sasl_initial, decode_sasl_response
from dpproxy.wire.protocol import Frame
from dpproxy.wire.scram import USUAL, ScramServer, Shape, Verifier, drawn, mock_verifier, parse_verifier


class Nobody:
    """Whoever does not exist, as alike to those who do as can be: in what their verifiers show, by dataset.

    `secret` is the same in every process and after every start, as a user's salt is. What a stranger sees of a verifier
    depends on the dataset and the name alone, as a real one does, which is of one user of one policy.
    """

    def __init__(self, secret: bytes, policies: Iterable[Policy]) -> None:
        self._secret = secret
        self._shapes = {policy.dataset: _shapes(policy) for policy in policies}
        self._choices = {name.encode(): (shapes, 1) for name, shapes in self._shapes.items()} or {b"": (USUAL, 1)}

    def verifier(self, database: str, user: str) -> Verifier:
        """A dataset that does not exist is as one of those that do."""
        name = database.encode("utf-8", "replace")
        other = drawn(self._choices, name, self._secret)
        shapes = self._shapes.get(database, other)
        return mock_verifier(name + b"\0" + user.encode("utf-8", "replace"), self._secret, shapes)


def _shapes(policy: Policy) -> Mapping[Shape, int]:
    read = [parse_verifier(user.password) for user in policy.users.values()]
    return Counter((verifier.iterations, len(verifier.salt)) for verifier in read) or USUAL


class Login:
    """A login is one SCRAM exchange. `start` is sent first; each answer goes to `answer` until `user` is set.

    `binding`: what the server's certificate binds a login to, under TLS.
    """

    def __init__(
        self,
        greeting: Greeting,
        policy: Policy | None,
        nobody: Nobody,
        binding: bytes | None = None,
    ) -> None:
        users: Mapping[str, User] = policy.users if policy else {}
        found = users.get(greeting.user)
        verifier = found.password if found else None
        mock = nobody.verifier(greeting.database, greeting.user)
        self._scram = ScramServer(verifier, user=greeting.user, mock=mock, channel_binding=binding)
        self._found = found
        self.proving = False  # the next message proves a password, or fails to
        self.user: User | None = None

    @property
    def start(self) -> bytes:
        return back.authentication_sasl(self._scram.mechanisms)

    def answer(self, frame: Frame) -> bytes:
        """Return the server's next message. Raises a fatal ProtocolError."""
        if not self.proving:
            self.proving = True
            initial = decode_sasl_initial(frame)
            return back.authentication_sasl_continue(self._scram.first(initial.mechanism, initial.data))
        final = self._scram.final(decode_sasl_response(frame).data)
        self.user = self._found
        return back.authentication_sasl_final(final) + back.authentication_ok()
