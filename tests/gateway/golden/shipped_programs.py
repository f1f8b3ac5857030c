"""A right program for each golden request that asks for one, then programs that are nearly right."""


def _mutants(right: str, *changes: tuple[str, str]) -> tuple[str, ...]:
    """A program, then one for each change of it, which makes it wrong."""
    assert all(old in right for old, _ in changes)
    return right, *(right.replace(old, new) for old, new in changes)


PROGRAMS: list[tuple[str, ...]] = [
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
    _mutants(
        """
def flatten(nested):
    found = []
    for item in nested:
        found += flatten(item) if isinstance(item, list) else [item]
    return found
""",
        ("flatten(item)", "item"),
        ("[item]", "[]"),
    ),
    _mutants(
        """
def count_vowels(text):
    return sum(c in 'aeiou' for c in text.lower())
""",
        (".lower()", ""),
        ("text.lower()", "set(text.lower())"),
    ),
    _mutants(
        """
def chunked(items, n):
    return [items[at : at + n] for at in range(0, len(items), n)]
""",
        ("len(items)", "len(items) - n + 1"),
        ("len(items), n", "len(items)"),
    ),
    _mutants(
        """
def primes_below(n):
    return [k for k in range(2, n) if all(k % d for d in range(2, int(k**0.5) + 1))]
""",
        ("range(2, n)", "range(2, n + 1)"),
        (" + 1", ""),
        ("range(2, n)", "range(3, n)"),
    ),
    _mutants(
        """
def is_anagram(a, b):
    return sorted(''.join(a.lower().split())) == sorted(''.join(b.lower().split()))
""",
        ("sorted", "set"),
        (".lower()", ""),
        (".split()", ""),
    ),
    _mutants(
        """
def rotate(items, k):
    k = k % len(items) if items else 0
    return items[len(items) - k :] + items[: len(items) - k]
""",
        ("len(items) - k", "k"),
        ("k % len(items) if items else 0", "k"),
        (" if items else 0", ""),
    ),
    _mutants(
        """
def longest_rise(numbers):
    longest = run = 0
    for at, number in enumerate(numbers):
        run = run + 1 if at and number > numbers[at - 1] else 1
        longest = max(longest, run)
    return longest
""",
        (" > ", " >= "),
        ("return longest", "return run"),
        ("else 1", "else 0"),
    ),
    _mutants(
        """
def seconds_of(text):
    total, digits = 0, ''
    for c in text:
        if c.isdigit():
            digits += c
        else:
            total, digits = total + int(digits) * {'h': 3600, 'm': 60, 's': 1}[c], ''
    return total
""",
        ("total + int", "int"),
        ("'m': 60", "'m': 1"),
        ("[c], ''", "[c], digits"),
    ),
    _mutants(
        """
def find(numbers, x):
    begin, end = 0, len(numbers) - 1
    while begin <= end:
        middle = (begin + end) // 2
        if numbers[middle] == x:
            return middle
        begin, end = (middle + 1, end) if numbers[middle] < x else (begin, middle - 1)
    return -1
""",
        ("begin <= end", "begin < end"),
        ("return -1", "return begin"),
        ("return middle", "return middle + 1"),
    ),
    _mutants(
        """
from math import gcd
def common_divisor(numbers):
    return gcd(*numbers)
""",
        ("gcd(*numbers)", "min(numbers)"),
        ("gcd(*numbers)", "gcd(numbers[0], numbers[-1])"),
    ),
    _mutants(
        """
def inverted(mapping):
    found = {}
    for key in sorted(mapping):
        found.setdefault(mapping[key], []).append(key)
    return found
""",
        ("sorted(mapping)", "mapping"),
        ("found.setdefault(mapping[key], []).append(key)", "found[mapping[key]] = [key]"),
    ),
    _mutants(
        """
def moving_average(numbers, n):
    return [sum(numbers[at : at + n]) / n for at in range(len(numbers) - n + 1)]
""",
        (" - n + 1", ""),
        (" / n", " // n"),
        (" - n + 1", " - n"),
    ),
    _mutants(
        """
def is_date(year, month, day):
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = [31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return 1 <= month <= 12 and 1 <= day <= days[month - 1]
""",
        (" and (year % 100 != 0 or year % 400 == 0)", ""),
        (" or year % 400 == 0", ""),
        ("days[month - 1]", "31"),
        ("1 <= month <= 12", "month <= 12"),
    ),
    _mutants(
        """
def evaluate(tokens):
    held = []
    for token in tokens:
        if token in ('+', '-', '*'):
            right, left = held.pop(), held.pop()
            held.append(left + right if token == '+' else left - right if token == '-' else left * right)
        else:
            held.append(int(token))
    return held[0]
""",
        ("right, left =", "left, right ="),
        ("left * right", "left + right"),
    ),
]
