"""From a greeting to a known user: how the password is proved.

Knows: SCRAM's order of messages, a policy's users. Must not know: sockets, the facade. Pure but
for the nonce. Whether a user, a database or a password is wrong must not show: an unknown user goes through the same
exchange against a made-up verifier and fails with the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dpproxy.policy.model import Policy, User
from dpproxy.session.facade_login import Greeting
from dpproxy.wire import backend as back
from dpproxy.wire.frontend import decode_sasl_initial, decode_sasl_response
from dpproxy.wire.protocol import Frame
from dpproxy.wire.scram import USUAL, ScramServer, Shape, Verifier, drawn, mock_verifier, offered, parse_verifier

Group = tuple[str, ...]
"""Datasets in which one name shows one salt, in the order they are served."""
Shown = tuple[int, bytes]
"""Iterations and salt: what a verifier shows to whoever asks."""
_ALONE: Final[Mapping[str, Group]] = {}


class Nobody:
    """Whoever does not exist, as alike to those who do as can be: in what their verifiers show, by dataset.

    `secret` is the same in every process and after every start, as a user's salt is. What a stranger sees of a verifier
    depends on the dataset and the name alone, as a real one does, which is of one user of one policy. Where policies share
    verifiers, known names show one salt in several datasets: each name that nobody has does so in the datasets of one known
    name, drawn by the name, so that either kind is as often seen to share. A dataset that does not exist is as one that does,
    and shares where that shares.
    """

    def __init__(self, secret: bytes, policies: Iterable[Policy]) -> None:
        self._secret = secret
        served = list(policies)
        groups = _groups(served)
        self._shapes = _shapes(served, groups)
        self._known = frozenset(groups)
        self._shown = {
            (name, place): shown for name, shows in groups.items() for shown, group in shows.items() for place in group
        }
        shared = Counter(tuple(sorted(shows.values())) for shows in groups.values()) or {(): 1}
        self._sharings = {
            repr(sharing).encode(): ({place: group for group in sharing for place in group}, number)
            for sharing, number in shared.items()
        }
        self._datasets = {policy.dataset.encode(): (policy.dataset, 1) for policy in served} or {b"": ("", 1)}

    def verifier(self, database: str, user: str) -> Verifier:
        """Return what stands for a user of a dataset where there is no such user, or no such dataset. The same is computed where
        there is one."""
        name = user.encode("utf-8", "replace")
        other = drawn(self._datasets, database.encode("utf-8", "replace"), self._secret)
        like = database if (database, None) in self._shapes else other
        sharing = drawn(self._sharings, name, self._secret)
        group = (_ALONE if user in self._known else sharing).get(like)
        place = group[0] if group else database
        shapes = self._shapes.get((like, group), USUAL)
        made = mock_verifier(place.encode("utf-8", "replace") + b"\0" + name, self._secret, shapes)
        iterations, salt = self._shown.get((user, like), (made.iterations, made.salt))
        return replace(made, iterations=iterations, salt=salt)


def _groups(policies: Sequence[Policy]) -> Mapping[str, Mapping[Shown, Group]]:
    """Return, by the names of users, what each shows in several datasets, and in which; nothing for one that does so in none."""
    found: dict[str, dict[Shown, list[str]]] = {}
    for policy in policies:
        for user in policy.users.values():
            read = parse_verifier(user.password)
            found.setdefault(user.name, {}).setdefault((read.iterations, read.salt), []).append(policy.dataset)
    return {name: {shown: tuple(where) for shown, where in shows.items() if len(where) > 1} for name, shows in found.items()}


def _shapes(
    policies: Sequence[Policy], groups: Mapping[str, Mapping[Shown, Group]]
) -> Mapping[tuple[str, Group | None], Mapping[Shape, int]]:
    """Return the shapes of verifiers by dataset and by the group they are shown in; with None for those of no group, or of all
    where there is none of these."""
    found: dict[tuple[str, Group | None], Counter[Shape]] = {}
    for policy in policies:
        every = Counter[Shape]()
        for user in policy.users.values():
            read = parse_verifier(user.password)
            group = groups[user.name].get((read.iterations, read.salt))
            shape = read.iterations, len(read.salt)
            every[shape] += 1
            found.setdefault((policy.dataset, group), Counter())[shape] += 1
        found.setdefault((policy.dataset, None), every)
    return {where: shapes or USUAL for where, shapes in found.items()}


class Login:
    """A login is one SCRAM exchange. `start` is sent first; each answer goes to `answer` until `user` is set. What stands for a
    user who does not exist is computed once there is a message to answer: a stranger who only connects shall cost little.

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
        self._found = users.get(greeting.user)
        self._greeting, self._nobody, self._binding = greeting, nobody, binding
        self._scram: ScramServer | None = None
        self.user: User | None = None

    @property
    def proving(self) -> bool:
        """Return whether the next message proves a password, or fails to."""
        return self._scram is not None

    @property
    def start(self) -> bytes:
        return back.authentication_sasl(offered(self._binding is not None))

    def answer(self, frame: Frame) -> bytes:
        """Return the server's next message. Raises a fatal ProtocolError."""
        if self._scram is None:
            asked, verifier = self._greeting, self._found.password if self._found else None
            mock = self._nobody.verifier(asked.database, asked.user)
            self._scram = ScramServer(verifier, user=asked.user, mock=mock, channel_binding=self._binding)
            initial = decode_sasl_initial(frame)
            return back.authentication_sasl_continue(self._scram.first(initial.mechanism, initial.data))
        final = self._scram.final(decode_sasl_response(frame).data)
        self.user = self._found
        return back.authentication_sasl_final(final) + back.authentication_ok()
