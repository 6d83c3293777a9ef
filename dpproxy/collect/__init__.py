"""The device's half of reports: randomisation, ledger, queue, posting. The standard library and `local` alone."""

from dpproxy.collect.api import Account, Device, Sent
from dpproxy.collect.ledger import DeviceError, Refusal, StateBusy, StateDamaged, StateFull, StateLost
from dpproxy.collect.questions import FileRefused, OutsideSpace

__all__ = [
    "Account",
    "Device",
    "DeviceError",
    "FileRefused",
    "OutsideSpace",
    "Refusal",
    "Sent",
    "StateBusy",
    "StateDamaged",
    "StateFull",
    "StateLost",
]
