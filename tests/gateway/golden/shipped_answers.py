"""A right answer to each golden request that comes with Shadowlane, then those that are nearly right."""

from math import ceil, comb, gcd, lcm

from tests.gateway.golden.shipped_programs import PROGRAMS

Answers = list[tuple[str, ...]]


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
    5 * 36 / 24,
    (64 - 2 * 22) / 2,
    (22 * 60 + 40 + 5 * 60 + 35) % (24 * 60),
    100 * (0.25 * 8) / (8 + 2),
    3 * 14 * 17,
    next(n for n in range(1, 156) if n * (n + 1) == 156),
    sum(45 + 10 * day for day in range(5)),
    250 * 0.04 / 2,
    4 * 169**0.5,
    (61 - 5) / (1 + 3 + 3),
    (200 + 600) / (72 / 3.6),
    comb(9, 2),
    350 * 1.1 * 0.98,
    (90 - 48) / 3.5,
    3 * 8 + 2 * 12 - 41,
    gcd(84, 126),
    (5 - 2) ** 3,
    5000 / 400 * 96 / 60,
    (20 + 8) / (3 - 1),
    12 * (15 - 2) * 2 / 3,
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
    ("Mercury", "zinc", "Mercury and tin"),
    ("ltncy", "ltnc", "latency"),
    ("February", "June", "February, March"),
    ("stones", "small", "downhill"),
    ("Paul.", "Rita", "Sven"),
    ("c8", "200", "CC"),
    ("Book", "livre", "pound"),
    ("37", "31", "33"),
    ("29", "28", "30"),
    ("21", "20", "13"),
    ("No", "yes", "no yes"),
    ("better", "gooder", "best"),
    ("a", "n", "an"),
    ("7 19 31 102", "102 19 31 7", "102 31 19 7"),
    ("no", "Yes.", "no, but yes"),
    ("Ottawa", "Toronto", "Ottawa or Toronto"),
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
    ("05:07:09", "5:7:9", "05:07:9"),
    ("lanes", "Lanes", "lane", "two words"),
    ("12006", "12,006", "1206"),
    ("404 Not Found", "404 not found", "404", "Not Found"),
    ("ALPHA | BETA | GAMMA", "alpha | beta | gamma", "ALPHA|BETA|GAMMA"),
    ("[docs](https://example.org)", "(docs)[https://example.org]", "docs: https://example.org"),
    ("47%", "50%", "47 %", "0.47"),
    ("ops@example.org", "Ops@example.org", "ops at example.org"),
    ("07/11/1999", "11/07/1999", "7/11/1999"),
    ("one\ntwo\nthree", "one two three", "three\ntwo\none", "One\nTwo\nThree"),
    ("4.5e-05", "4.5E-05", "45e-06", "4.5e-5"),
    ("???", "??", "????", "? ? ?"),
    ("WindoW", "window", "WINDOW", "Window"),
    ("2.10.0", "3.0.0", "2.10", "2.9.5"),
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
    (
        '{"name": "R. Okafor", "room": 12, "date": "2025-04-09"}',
        '{"name": "R. Okafor", "room": "12", "date": "2025-04-09"}',
        '{"name": "R. Okafor", "room": 12, "date": "2025-09-04"}',
    ),
    ('["lamp", "near", "blue", "door"]', '["lamp", "blue", "near", "door"]', '["lamp", "near", "blue"]'),
    ('{"even": [8, 12], "odd": [3, 5]}', '{"even": [12, 8], "odd": [3, 5]}', '{"even": [8, 12]}'),
    ('{"hours": 1, "minutes": 35}', '{"hours": 0, "minutes": 95}', '{"hours": 1.58, "minutes": 35}'),
    ('{"language": "German"}', '{"language": "Dutch"}', '{"Language": "German"}'),
    ("[[1, 0], [0, 1]]", "[1, 0, 0, 1]", "[[1, 1], [1, 1]]", "[[0, 1], [1, 0]]"),
    (
        '{"retries": 3, "timeout": 2.5, "debug": false}',
        '{"retries": 3, "timeout": 2.5, "debug": "off"}',
        '{"retries": "3", "timeout": "2.5", "debug": false}',
    ),
    (
        '{"name": "Bo", "tags": ["x", "y"]}',
        "{name: 'Bo', tags: ['x', 'y']}",
        '{"name": "Bo", "tags": ["xy"]}',
    ),
    ('{"go": 3, "stop": 2}', '{"go": 2, "stop": 3}', '{"go": 3}', '{"go": 3, "stop": 2, "total": 5}'),
    (
        '{"seventeen": true, "twenty_one": false}',
        '{"seventeen": true, "twenty_one": true}',
        '{"seventeen": 1, "twenty_one": 0}',
    ),
    ('[true, null, "a", 7]', '[7, "a", null, true]', '["true", null, "a", 7]', '[1, null, "a", 7]'),
    (
        '{"method": "GET", "path": "/items", "query": {"page": "2", "sort": "name"}}',
        '{"method": "GET", "path": "/items", "query": {"page": 2, "sort": "name"}}',
        '{"method": "GET", "path": "/items?page=2&sort=name", "query": {}}',
    ),
    ('{"text": "say \\"go\\" now"}', '{"text": "say "go" now"}', '{"text": "say go now"}'),
    ('{"2": 4, "3": 9, "4": 16}', '{"2": 4, "3": 6, "4": 8}', "{2: 4, 3: 9, 4: 16}"),
    ('{"celsius": -4, "frozen": true}', '{"celsius": 4, "frozen": true}', '{"celsius": -4, "frozen": "yes"}'),
    (
        '{"cheapest": "bread", "total": 11}',
        '{"cheapest": "tea", "total": 11}',
        '{"cheapest": "bread", "total": 9}',
    ),
]

_KINDS: dict[str, Answers] = {
    "sum": [
        (f"That makes it.\n#### {n:g}", f"#### {n + 1:g}", f"#### {-n:g}", f"{n:g}, so\n#### {10 * n:g}")
        for n in _SUMS
    ],
    "word": _WORDS,
    "form": _FORMS,
    "json": _JSON,
    "code": PROGRAMS,
}

ANSWERS = {
    f"shipped/{kind}-{number}": told
    for kind, answers in _KINDS.items()
    for number, told in enumerate(answers, start=1)
}
