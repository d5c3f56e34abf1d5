"""What hostile.py does to an input that is right."""
import gzip
import io
import re
import zipfile

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_-]*")
EXTREMES = [b"0", b"-1", b"1", b"5e-324", b"1e-300", b"1e308", b"1e999", b"-1e308", b"nan", b".nan", b"inf", b"-inf",
            b".inf", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"18446744073709551615",
            b"4294967295", b"4294967296", b"2147483648", b"1e18", b"1e-12", b"1e12", b"0.1", b"1e6", b"65536", b"007",
            b"0x10", b"1_000", b"null", b"true", b"\"\"", b"[]", b"{}", b"~", b"*a", b"&a 1", b"!!int 3"]
CONTROLS = [b"\x00", b"\x1b[31m", b"\x1b]0;x\x07", b"\r", b"\x08", b"\x7f", b"\xc2\x9b31m", b"\t", b"\x0c", b"\xe2\x80\xae",
            b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xef\xbb\xbf"]
UNITS = [b"s", b"us", b"GB", b"GB/s", b"B", b"TFLOP/s", b"h", b"TiB"]


def place(random, data):
    return random.randrange(len(data) + 1)


def flipped(random, data):
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        if out:
            out[random.randrange(len(out))] ^= 1 << random.randrange(8)
    return bytes(out)


def truncated(random, data):
    return data[:place(random, data)]


def repeated(random, data):
    a, b = sorted((place(random, data), place(random, data)))
    b = min(b, a + 4096)
    return data[:b] + data[a:b] * random.choice((1, 1, 2, 30)) + data[b:]


def without_part(random, data):
    a, b = sorted((place(random, data), place(random, data)))
    return data[:a] + data[min(b, a + 64):]


def renumbered(random, data):
    found = list(NUMBER.finditer(data))
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if not found:
            return data
        at = found.pop(random.randrange(len(found)))
        data = data[:at.start()] + random.choice(EXTREMES) + data[at.end():]
        found = [f for f in found if f.end() <= at.start()]
    return data


def renamed(random, data):
    found = list(WORD.finditer(data))
    if not found:
        return data
    at, other = random.choice(found), random.choice(found)
    new = other.group() if random.random() < 0.7 else at.group() + random.choice((b"x", b"\xc3\xa4", b" "))
    return data[:at.start()] + new + data[at.end():]


def nested(random, data):
    at, depth = place(random, data), random.choice((10, 63, 64, 65, 1000, 100000))
    opening, closing = random.choice(((b"[", b"]"), (b"{a: ", b"}"), (b'{"a":', b"}"), (b"- ", b""), (b"(", b")")))
    return data[:at] + opening * depth + random.choice((b"1", b"")) + closing * random.choice((depth, 0)) + data[at:]


def with_controls(random, data):
    at = place(random, data)
    return data[:at] + random.choice(CONTROLS) * random.choice((1, 1, 3)) + data[at:]


def lengthened(random, data):
    at = place(random, data)
    return data[:at] + random.choice((b"a", b"9", b" ", b"a: ", b"\xc3\xa4", b"1,")) * random.choice((100, 5000, 300000)) + data[at:]


def lines_moved(random, data):
    lines = data.split(b"\n")
    for _ in range(random.choice((1, 2, 4))):
        lines.insert(random.randrange(len(lines)), lines.pop(random.randrange(len(lines))))
    return b"\n".join(lines)


def spliced(random, data, others):
    other = random.choice(others) if others else data
    return data[:place(random, data)] + other[place(random, other):][:1 << 20]


PLAIN = [flipped, truncated, repeated, without_part, renumbered, renumbered, renumbered, renumbered, renamed, renamed,
         nested, with_controls, lengthened, lines_moved]


def changed(random, data, others):
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        chosen = random.choice(PLAIN + [None])
        data = spliced(random, data, others) if chosen is None else chosen(random, data)
    return data[:4 << 20]


def rezipped(random, data, others):
    """The archive with one member changed, and checksums that are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        names = old.namelist()
        hostile = random.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, changed(random, content, others) if name == hostile else content)
    return out.getvalue()


def mutated(random, name, data, others):
    if random.random() < 0.6:
        if data[:2] == b"\x1f\x8b":
            return gzip.compress(changed(random, gzip.decompress(data), others), 1)
        if data[:2] == b"PK":
            return rezipped(random, data, others)
    return changed(random, data, others)


def hostile_value(random, value):
    """A value of the command line: no 0 byte can stand there."""
    data = value.encode()
    if random.random() < 0.3:
        data = random.choice(EXTREMES) + random.choice((b"", b" ")) + random.choice(UNITS + [b""] * 4)
        if "=" in value and random.random() < 0.9:
            data = value.split("=")[0].encode() + b"=" + data
    else:
        data = changed(random, data, [])
    return data.replace(b"\x00", b"")[:100000]
