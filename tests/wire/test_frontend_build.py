"""What the proxy itself sends: byte for byte as the protocol's chapter lays it out. That it decodes to itself is in `test_frontend`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpproxy.wire import frontend_build as build

MESSAGES = [
    (build.startup("ann", "shop", {"search_path": "x"}), "00 00 00 2e 00 03 00 00|user\0ann\0database\0shop\0search_path\0x\0\0"),
    (build.startup("a", "b", {}, minor=2), "00 00 00 1b 00 03 00 02|user\0a\0database\0b\0\0"),
    (build.ssl_request(), "00 00 00 08 04 d2 16 2f|"),
    (build.cancel_request(258, b"\x01\x02\x03\x04"), "00 00 00 10 04 d2 16 2e 00 00 01 02 01 02 03 04|"),
    (build.password("pw"), "70 00 00 00 07|pw\0"),
    (build.sasl_initial("S", b"abc"), "70 00 00 00 0d 53 00 00 00 00 03|abc"),
    (build.sasl_response(b"abc"), "70 00 00 00 07|abc"),
    (build.query("é"), "51 00 00 00 07 c3 a9 00|"),
    (build.parse("n", "S", (25, 2**32 - 1)), "50 00 00 00 12 6e 00 53 00 00 02 00 00 00 19 ff ff ff ff|"),
    (
        build.bind("p", "s", (b"1", None, b""), (), (1,)),
        "42 00 00 00 1d 70 00 73 00 00 00 00 03 00 00 00 01 31 ff ff ff ff 00 00 00 00 00 01 00 01|",
    ),
    (build.describe("S", "n"), "44 00 00 00 07 53|n\0"),
    (build.execute("p", 7), "45 00 00 00 0a 70 00 00 00 00 07|"),
    (build.close("P", ""), "43 00 00 00 06 50 00|"),
    (build.copy_fail("x"), "66 00 00 00 06|x\0"),
    (build.flush(), "48 00 00 00 04|"),
    (build.sync(), "53 00 00 00 04|"),
    (build.terminate(), "58 00 00 00 04|"),
]


@pytest.mark.parametrize(("built", "layout"), MESSAGES, ids=lambda x: x if isinstance(x, str) else "")
def test_layouts(built: bytes, layout: str) -> None:
    """Bytes in hexadecimal, then text behind the bar."""
    numbers, _, text = layout.partition("|")
    assert built == bytes.fromhex(numbers) + text.encode()


@pytest.mark.parametrize(
    "make",
    [
        lambda text: build.query(text),
        lambda text: build.parse(text, ""),
        lambda text: build.parse("", text),
        lambda text: build.bind(text, "", ()),
        lambda text: build.bind("", text, ()),
        lambda text: build.describe("P", text),
        lambda text: build.password(text),
        lambda text: build.startup(text, "d", {}),
        lambda text: build.startup("u", "d", {"x": text}),
        lambda text: build.copy_fail(text),
    ],
)
def test_a_nul_shifts_nothing(make: Callable[[str], bytes]) -> None:
    assert make("plain")
    with pytest.raises(ValueError, match="NUL"):
        make("a\0b")
