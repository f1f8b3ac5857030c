"""How a prompt's canonical bytes become a chain of hashes.

A chain is cut at the end of every piece (a message, the tools) and every KB within one, counted from the
piece's beginning. So where the cuts fall depends only on what comes before them: two prompts with the same
beginning have the same chain up to there, and inside a piece that they share only in part, the last cut they
share is less than a KB before they part. Each link is xxh3-64 of its bytes, seeded by the link before; the
first seed comes from the deployment's secret, so nobody outside can aim at another's chain.
"""

from typing import Final

from xxhash import xxh3_64_intdigest, xxh3_128_digest

CUT_BYTES: Final = 1024


def session(name: bytes, key: int) -> int:
    """A session's name, hashed with the key of a chain; never 0."""
    return xxh3_64_intdigest(name, key) or 1


class Chain:
    """The chain of one prompt, as it is built."""

    __slots__ = ("_at", "_key", "ends", "hashes", "link")

    def __init__(self, head: bytes, key: bytes) -> None:
        """`head` sets the prompt apart but is no part of its text (model, salts): not counted in `ends`."""
        self._key: int = xxh3_64_intdigest(key)
        self.link: int = xxh3_64_intdigest(head, self._key)
        self.hashes: list[int] = []
        self.ends: list[int] = []
        self._at = 0

    def add(self, piece: bytes | memoryview) -> None:
        """The next piece of the prompt. Pieces must tell where they end by their bytes (see `canonical`)."""
        size, link, at = len(piece), self.link, self._at
        if size > CUT_BYTES:
            hashes, ends, cut = self.hashes, self.ends, 0
            last = (size - 1) // CUT_BYTES * CUT_BYTES
            for cut in range(CUT_BYTES, last + 1, CUT_BYTES):
                link = xxh3_64_intdigest(piece[cut - CUT_BYTES : cut], link)
                hashes.append(link)
                ends.append(at + cut)
            piece = piece[cut:]
        elif not size:
            return
        self.link = link = xxh3_64_intdigest(piece, link)
        self._at = at = at + size
        self.hashes.append(link)
        self.ends.append(at)

    def add_text(self, front: bytes, text: bytes) -> None:
        """What `add(front + text)` does, but a long text is not copied for it; `front` is below a cut."""
        size = len(front) + len(text)
        if size <= CUT_BYTES:
            self.add(front + text)
            return
        hashes, ends, at = self.hashes, self.ends, self._at
        cut = CUT_BYTES - len(front)
        link: int = xxh3_64_intdigest(front + text[:cut], self.link)
        hashes.append(link)
        ends.append(at + CUT_BYTES)
        last = len(text) - 1 - (size - 1) % CUT_BYTES  # where the last piece begins
        for start in range(cut, last, CUT_BYTES):
            link = xxh3_64_intdigest(text[start : start + CUT_BYTES], link)
            hashes.append(link)
        ends.extend(range(at + 2 * CUT_BYTES, at + size, CUT_BYTES))
        self.link = link = xxh3_64_intdigest(text[last:], link)
        self._at = at = at + size
        hashes.append(link)
        ends.append(at)

    def session(self, name: bytes) -> int:
        """What stands for a session that the client names; never 0."""
        return session(name, self._key)

    def digest(self, content: bytes | memoryview) -> bytes:
        """16 bytes that stand for `content`: an image, say, that is not text."""
        digest: bytes = xxh3_128_digest(content, self._key)
        return digest
