"""The tree that is archived: a gigabyte of what agents leave behind, the same bytes wherever it is made.

The script runs inside the pods, so it needs a Python and its standard library alone.
"""

SCRIPT = '''
import os, random, sys

root, what = sys.argv[1], sys.argv[2]
SMALL, MEDIUM, LARGE = 20000, 240, 4
WORDS = [bytes(random.Random(n).choices(b"abcdefghijklmnopqrstuvwxyz", k=2 + n % 9)) for n in range(4000)]


def text(rng, size):
    """Compresses about as well as source code does."""
    parts, length = [], 0
    while length < size:
        line = b" ".join(rng.choices(WORDS, k=12))
        parts.append(line)
        length += len(line) + 1
    return b"\\n".join(parts)[:size]


BLOCK = text(random.Random(1), 4 << 20)


def log(number):
    """A mebibyte of lines that stand elsewhere too, in another order."""
    rng = random.Random(number)
    places = (rng.randrange(0, len(BLOCK) - 4096) for _ in range(256))
    return b"".join(BLOCK[at : at + 4096] for at in places)


def put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def make(salt, numbers):
    """Files of three kinds: many small texts (sources), logs, and few large ones that do not compress (weights)."""
    for number in numbers:
        rng = random.Random(salt * 1000003 + number)
        at = rng.randrange(0, 1 << 19)
        size = int(rng.lognormvariate(8.4, 1.0)) % 262144
        put(f"{root}/src/{number % 400}/file-{number}.py", b"# %d\\n" % rng.getrandbits(40) + BLOCK[at : at + size])


if what == "make":
    make(1, range(SMALL))
    for number in range(MEDIUM):
        put(f"{root}/logs/{number}.log", log(7000 + number))
    for number in range(LARGE):
        rng = random.Random(9000 + number)
        put(f"{root}/models/{number}.bin", b"".join(rng.randbytes(1 << 20) for _ in range(160)))
else:  # change: one file of a hundred, and a hundredth of the large ones
    make(2, range(0, SMALL, 100))
    for number in range(0, MEDIUM, 100):
        put(f"{root}/logs/{number}.log", log(8000 + number))
    with open(f"{root}/models/0.bin", "r+b") as file:
        file.seek(40 << 20)
        file.write(random.Random(5).randbytes(6 << 20))
count = size = 0
for folder, _, names in os.walk(root):
    for name in names:
        count += 1
        size += os.path.getsize(os.path.join(folder, name))
os.sync()
print(count, size)
'''
