"""Programs of hostile agents, for a Python in a sandbox. Agents wait for `/tmp/go`: a test sees them calm first.

What they do is only ever done from inside a sandbox pod of a test's own namespace.
"""

_WAITS = """
import os, sys, time
while not os.path.exists("/tmp/go"):
    time.sleep(0.05)
"""

FORKS_WITHOUT_END = _WAITS + """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        pass
"""  # fmt: skip

FILLS_ITS_DISK = _WAITS + """
block = b"x" * (1 << 20)
try:
    with open(sys.argv[1], "wb", 0) as file:
        for _ in range(int(sys.argv[2])):
            file.write(block)
except OSError:
    pass
while True:
    time.sleep(60)
"""  # fmt: skip

WILL_NOT_BE_STOPPED = """
import os, signal
try:
    os.kill(1, signal.SIGSTOP)
except OSError:
    pass
signal.signal(signal.SIGTERM, signal.SIG_IGN)
"""
"""Under gVisor an agent can stop init, which has its uid: then it still runs while its workspace is archived."""

SWAPS_FILES = _WAITS + WILL_NOT_BE_STOPPED + """
import itertools, random, shutil
os.chdir("/workspace/race")
SECRETS = ["/run/sandhold/token/token", "/run/sandhold/keeper/marker.json", "/etc/passwd", "/proc/self/environ",
           "../stable/01", "/run/sandhold/token", "/run/sandhold/keeper", "/", "..", "/dev/zero"]
def away(name):
    try:
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name, ignore_errors=True)
        else:
            os.unlink(name)
    except OSError:
        pass
def opened(name, *flags):
    # Neither held up by a FIFO nor led anywhere by a link.
    how = sum([os.O_WRONLY, os.O_CREAT, os.O_NONBLOCK, os.O_NOFOLLOW, *flags])
    return os.fdopen(os.open(name, how, 0o644), "wb", 0)
def content(name):
    with opened(name, os.O_TRUNC) as file:
        file.write(b"A" * random.choice([0, 1, 4096, 1 << 20]))
def folder(name):
    os.mkdir(name); content(name + "/inner")
def sparse(name):
    with opened(name) as file:
        file.truncate(1 << 23); file.seek(random.randrange(1 << 23)); file.write(b"A")
def grows(name):
    with opened(name, os.O_APPEND) as file:
        file.write(b"A" * 65536)
        file.truncate(random.choice([0, 1 << 20]))
ACTS = [content, folder, sparse, grows, os.mkfifo, lambda n: os.symlink(random.choice(SECRETS), n),
        lambda n: os.link("/workspace/bait", n), lambda n: os.rename(n, f"n{random.randrange(40):02}"),
        lambda n: os.path.islink(n) or os.chmod(n, random.choice([0, 0o400, 0o777]))]
for _ in itertools.count():
    name = f"n{random.randrange(40):02}"
    if random.random() < 0.7:
        away(name)
    try:
        random.choice(ACTS)(name)
    except OSError:
        pass
"""  # fmt: skip
"""Files, folders, links of both kinds, FIFOs and holes take each other's place under forty names."""

LEGAL_BYTES = b"A\x00"
"""All that a regular file of the race may hold."""

SPEAKS_AS_KEEPER = """
import base64, json, socket, ssl, struct, sys
host, port, pod_uid = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
claims = {"aud": ["sandhold-mover"], "sub": "system:serviceaccount:x:y", "kubernetes.io": {"pod": {"uid": pod_uid}}}
forged = f"{part({'alg': 'none'})}.{part(claims)}."
signed = f"{part({'alg': 'RS256', 'kid': 'x'})}.{part(claims)}.{'A' * 342}"
def frame(value):
    payload = json.dumps(value).encode()
    return struct.pack(">Ic", len(payload), b"J") + payload
def read(stream):
    head = stream.read(5)
    return json.loads(stream.read(struct.unpack(">I", head[:4])[0])) if len(head) == 5 else {"type": "hung up"}
for token in ("", "x", forged, signed, "x" * 6000):
    for purpose in ("control", "archive", "restore"):
        hello = {"type": "hello", "version": 1, "purpose": purpose, "token": token, "grant": "x.y"}
        try:
            with socket.create_connection((host, port), 10) as plain:
                with context.wrap_socket(plain, server_hostname="sandhold-mover") as peer:
                    peer.settimeout(15)
                    peer.sendall(frame(hello))
                    print(json.dumps(read(peer.makefile("rb"))))
        except OSError as error:
            print(json.dumps({"type": "broken", "message": str(error)}))
"""
"""Prints what the mover answers to each hello, one JSON object a line."""

FLOODS = """
import asyncio, os, ssl, struct, sys, time
host, port, end = sys.argv[1], int(sys.argv[2]), time.monotonic() + float(sys.argv[3])
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
made = 0
async def attack(number):
    global made
    while time.monotonic() < end and not os.path.exists("/tmp/enough"):
        try:
            tls = context if number % 4 else None
            opening = asyncio.open_connection(host, port, ssl=tls, server_hostname="x" if tls else None)
            reader, writer = await asyncio.wait_for(opening, 5)
            made += 1
            if number % 4 == 1:
                writer.write(struct.pack(">Ic", 0x7FFFFFFF, b"J") + os.urandom(65536))
            elif number % 4 == 2:
                writer.write(struct.pack(">Ic", 8000, b"J"))
            else:
                writer.write(os.urandom(4096))
            try:
                await asyncio.wait_for(reader.read(), 1 if number % 4 == 3 else 5)
            finally:
                writer.close()
        except (OSError, asyncio.TimeoutError):
            await asyncio.sleep(0.01)
async def main():
    await asyncio.gather(*(attack(number) for number in range(120)))
asyncio.run(main())
print(made)
"""
"""Connections by the hundred: garbage, huge frames, half a hello, silence; until `/tmp/enough` is there."""
