"""Long texts are looked through as short ones are: for the same words, with the same result, in whatever case and place."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dpproxy.session.concern import TOGETHER, WordSearch
from dpproxy.session.memo import Memo

WORDS = (b"people", b"a.b(c|d*", b"two words", "gr\u00f6\u00dfe".encode(), b"[x]", b"\\d", b'say ""so""')


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("form", [bytes.lower, bytes.upper])
def test_a_word_is_what_a_search_by_python_takes_for_it(word: bytes, form: object) -> None:
    written = form(word)  # type: ignore[operator]
    for text in (written, b"x" * 999 + written + b"y", b"\0\xff" + written, b"(" + written + b")\n"):
        assert WordSearch(WORDS).found(text)
        assert WordSearch(WORDS).found(memoryview(text))
        assert Memo().mentions(text, WORDS)
    for text in (written[:-1] + b"#", b"1", b"aXb(c|d*", b"\xff" * 50, b"", b"twowords"):
        assert WordSearch(WORDS).found(text) is Memo().mentions(text, WORDS)


def test_however_many_words_there_are_each_is_looked_for() -> None:
    words = [b"table_%d_" % i for i in range(3 * TOGETHER + 1)]
    search = WordSearch(words)
    assert all(search.found(b"SELECT 1 FROM " + word.upper()) for word in words)
    assert not search.found(b"SELECT 1 FROM table_x_")


def test_a_text_is_searched_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    found = WordSearch.found

    def noted(self: WordSearch, text: bytes | memoryview) -> bool:
        threads.append(threading.current_thread())
        return found(self, text)

    monkeypatch.setattr(WordSearch, "found", noted)
    memo = Memo()
    search = memo.search(WORDS)
    assert asyncio.run(search.within(memoryview(b"a PEOPLE b")))
    assert memo.search(WORDS) is search
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
