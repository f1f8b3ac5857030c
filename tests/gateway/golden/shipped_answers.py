"""A right answer to each golden request that comes with Shadowlane, and one that is nearly right."""

from math import ceil, lcm

Answers = list[tuple[str, str]]


def _book() -> int:
    """On which day 312 pages are read."""
    day = pages = 0
    while pages < 312:
        pages += 30 if day % 7 in (5, 6) else 18
        day += 1
    return day


# Worked out as the texts tell; wrong is what is off by one.
_SUMS = [
    14 * 6 + 14 * 3,
    3 * 24 - 2 * 17,
    180 - 180 // 3 + 25,
    (950 - 500) // 35 + 1,
    200 - 4 * 13 - 9 * 8,
    12 * 19,
    20 * 30 // 5,
    _book(),
    (138 // 3) + 2,
    60 * 0.85 * 0.9,
    10 * 56,
    sum(n % 3 == 0 or n % 5 == 0 for n in range(1, 101)),
    36 * 5 + 52 * 2,
    6 * 350 / 100,
    ceil((200 - 40) / 15),
    300 / 4 * 10,
    120 / (120 / 8 - 120 / 12),
    30 - (18 + 15 - 7),
    40 * 18 + 6 * 18 * 1.5,
    (14 + 22 + 9 + 31 + 24) / 5,
    (53 - 7) / 2,
    24 * 18 / 6,
    15 / 20 * 60 + 15 / 30 * 60,
    100 // 8,
    180 - 47 - 68,
    (300 - 240) / 240 * 100,
    87 / 4 * 2,
    (14 * 60 + 15) - (9 * 60 + 47),
    3 + 1,
    2**6 / 10,
    14 * 10 - 12 * 8,
    174 / 3 * 2,
    3000 / (65 - 40),
    1000 % 37,
    lcm(12, 18),
    300 / (70 + 80),
    30 - 2,
    25 - 15 - 4,
]

_WORDS: Answers = [
    ("Earth", "Mars"),
    ("Na", "NA"),
    ("MCMLXXXVII", "MCMXXCVII"),
    ("yawetag", "yaweteg"),
    ("apple fig medlar pear quince", "apple fig pear medlar quince"),
    ("mice", "mouses"),
    ("Oak", "Iron"),
    ("45", "46"),
    ("No.", "Yes."),
    ("Cem", "Ben"),
    ("The Atlantic.", "Pacific"),
    ("Fe", "FE"),
    ("6", "8"),
    ("44", "64"),
    ("11010", "11001"),
    ("47", "2F"),
    ("bought", "buyed"),
    ("window", "lamp"),
    ("3", "2"),
    ("0.9", "0.11"),
    ("Ida", "Tom"),
    ("Saturday.", "Sunday"),
    ("Tokyo", "Kyoto"),
    ("CO2", "O2"),
    ("Water", "wash"),
    ("solar", "s o l a r"),
    ("Yes", "No"),
    ("42", "40"),
    ("ships green seven", "seven green ships"),
    ("Jupiter", "Saturn"),
    ("no", "yes"),
    ("14", "16"),
    ("Children", "childs"),
]

_FORMS: Answers = [
    ("14:30", "2:30"),
    ("2024-03-03", "03.03.2024"),
    ("11,17,29", "11,17,17"),
    ("[id=7f3a; ok]", "[id=7f3a, ok]"),
    ("lane-lane-lane-lane", "lane-lane-lane"),
    ("YELLOW", "Yellow"),
    ("17:45", "5:45"),
    ("4;3;2;1", "4; 3; 2; 1"),
    ("1,234,567.50", "1.234.567,50"),
    ("Router!", "ROUTER!"),
    ("r", "R"),
    ("0007", "007"),
    ("cache_hit_rate", "Cache_Hit_Rate"),
    ("maxOutputTokens", "MaxOutputTokens"),
    ("<p>hello</p>", "<b>hello</b>"),
    ("10.20.255.1", "10.20.256.1"),
    ("L A N E", "LANE"),
    ("75%", "0.75"),
    ("left\nright", "left right"),
]

_JSON: Answers = [
    ('{"name":"Ada Byrne","age":36}', '{"name":"Ada Byrne","age":"36"}'),
    ('{"city":"Oslo","country":"Norway"}', '{"city":"Bergen","country":"Norway"}'),
    ("[1,4,9,16,25]", "[0,1,4,9,16]"),
    ('{"total":5.0,"items":["bread","milk"]}', '{"total":5,"items":["eggs","wine"]}'),
    ('{"sentiment":"negative"}', '{"sentiment":"positive"}'),
    (
        '{"level":"ERROR","code":504,"message":"upstream timed out"}',
        '{"level":"ERROR","code":"504","message":"upstream timed out"}',
    ),
    ('{"min": 3, "max": 15}', '{"min": 3, "max": 9}'),
    ('{"from": "Lyon", "to": "Turin", "km": 314}', '{"from": "Turin", "to": "Lyon", "km": 314}'),
    ('{"cat": 3, "horse": 5, "bee": 3}', '{"cat": 3, "horse": 5, "bee": "3"}'),
    ('["e", "u", "a", "i", "o"]', '["a", "e", "i", "o", "u"]'),
    ('{"exists": false}', '{"exists": true}'),
    ('["cup", "lamp", "chair"]', '["lamp", "cup", "chair"]'),
    ('{"name": "Mira", "phone": null}', '{"name": "Mira", "phone": ""}'),
    ('{"order": {"id": 7710, "paid": true}}', '{"order": {"id": "7710", "paid": true}}'),
    ('[{"id": 1, "city": "Rome"}, {"id": 2, "city": "Bonn"}]', '[{"id": 1, "city": "Rome"}]'),
    ('{"label": "login"}', '{"label": "billing"}'),
]

_CODE: Answers = [
    (
        """
def largest_gap(numbers):
    ordered = sorted(numbers)
    return max((b - a for a, b in zip(ordered, ordered[1:])), default=0)
""",
        """
def largest_gap(numbers):
    return max(numbers, default=0) - min(numbers, default=0)
""",
    ),
    (
        """
from itertools import groupby
def run_lengths(text):
    return [(c, len(list(run))) for c, run in groupby(text)]
""",
        """
def run_lengths(text):
    return [(c, text.count(c)) for c in sorted(set(text))] + [('', 0)]
""",
    ),
    (
        """
def merge(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
""",
        """
def merge(spans):
    return sorted(spans)
""",
    ),
    (
        """
def is_balanced(text):
    open = []
    for c in text:
        if c in "([{":
            open.append(c)
        elif c in ")]}" and (not open or "([{".index(open.pop()) != ")]}".index(c)):
            return False
    return not open
""",
        """
def is_balanced(text):
    for begin, end in ("()", "[]", "{}"):
        open = 0
        for c in text:
            open += (c == begin) - (c == end)
            if open < 0:
                return False
        if open:
            return False
    return True
""",
    ),
    (
        """
def to_base(n, base):
    digits = ""
    while n:
        n, digit = divmod(n, base)
        digits = "0123456789abcdef"[digit] + digits
    return digits or "0"
""",
        """
def to_base(n, base):
    return format(n, 'x')
""",
    ),
    (
        """
from statistics import median as median_of
""",
        """
def median_of(numbers):
    return sorted(numbers)[len(numbers) // 2]
""",
    ),
    (
        """
def is_palindrome(text):
    kept = [c.lower() for c in text if c.isalnum()]
    return kept == kept[::-1]
""",
        """
def is_palindrome(text):
    kept = [c for c in text.lower() if c not in ' ,:']
    return kept == kept[::-1]
""",
    ),
    (
        """
def fizz_buzz(n):
    return ['Fizz' * (k % 3 == 0) + 'Buzz' * (k % 5 == 0) or str(k) for k in range(1, n + 1)]
""",
        """
def fizz_buzz(n):
    return ['Fizz' if k % 3 == 0 else 'Buzz' if k % 5 == 0 else str(k) for k in range(1, n + 1)]
""",
    ),
    (
        """
def transpose(rows):
    return [list(column) for column in zip(*rows)]
""",
        """
def transpose(rows):
    return [list(reversed(row)) for row in rows]
""",
    ),
    (
        """
def to_roman(n):
    pairs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (400, 'CD'), (100, 'C'), (90, 'XC'), (50, 'L'),
             (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
    found = ''
    for value, sign in pairs:
        found += sign * (n // value)
        n %= value
    return found
""",
        """
def to_roman(n):
    pairs = [(1000, 'M'), (900, 'CM'), (500, 'D'), (100, 'C'), (90, 'XC'), (50, 'L'),
             (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')]
    found = ''
    for value, sign in pairs:
        found += sign * (n // value)
        n %= value
    return found
""",
    ),
    (
        """
def top_words(text, n):
    words = text.lower().split()
    return sorted(set(words), key=lambda word: (-words.count(word), word))[:n]
""",
        """
def top_words(text, n):
    return sorted(set(text.split()))[:n]
""",
    ),
    (
        """
def digit_sum(n):
    return sum(int(digit) for digit in str(abs(n)))
""",
        """
def digit_sum(n):
    return sum(int(digit) for digit in str(n))
""",
    ),
    (
        """
def second_largest(numbers):
    values = sorted(set(numbers))
    return values[-2] if len(values) > 1 else None
""",
        """
def second_largest(numbers):
    return sorted(numbers)[-2]
""",
    ),
    (
        """
def caesar(text, k):
    def moved(c):
        first = 'a' if 'a' <= c <= 'z' else 'A' if 'A' <= c <= 'Z' else None
        return c if first is None else chr((ord(c) - ord(first) + k) % 26 + ord(first))
    return ''.join(map(moved, text))
""",
        """
def caesar(text, k):
    return ''.join(chr(ord(c) + k) for c in text)
""",
    ),
]

_KINDS = {
    "sum": [(f"That makes it.\n#### {number:g}", f"#### {number + 1:g}") for number in _SUMS],
    "word": _WORDS,
    "form": _FORMS,
    "json": _JSON,
    "code": _CODE,
}

ANSWERS = {
    f"shipped/{kind}-{number}": both
    for kind, answers in _KINDS.items()
    for number, both in enumerate(answers, start=1)
}
