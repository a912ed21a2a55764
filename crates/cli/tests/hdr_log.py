"""Reads an HDR interval log as HdrHistogram's log readers do, with nothing of theirs: prints each interval's
start, length and maximum as they stand there, and then its places and counts. A histogram is base64 of a
cookie, a length and zlib's form of: a cookie, a length, an offset, digits, least and greatest value, a ratio,
and counts as ZigZag LEB128 numbers of which those below 0 are runs of zeros."""
import base64
import re
import struct
import sys
import zlib


def numbers(data):
    """ZigZag LEB128; a ninth byte has eight bits."""
    at = 0
    while at < len(data):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte if shift == 56 else byte & 0x7F) << shift
            shift += 7
            if byte < 0x80 or shift == 63:
                break
        yield value >> 1 ^ -(value & 1)


def places(histogram):
    data = base64.b64decode(histogram, validate=True)
    cookie, length = struct.unpack(">II", data[:8])
    assert cookie == 0x1C849304 | 0x10, f"cookie {cookie:#x}"
    assert length == len(data) - 8, f"{length} bytes, {len(data)} with the head"
    inner = zlib.decompress(data[8:])
    cookie, length, offset, digits, least, greatest, ratio = struct.unpack(">IIIIQQd", inner[:40])
    assert cookie == 0x1C849303 | 0x10, f"cookie {cookie:#x}"
    assert (offset, digits, least, ratio) == (0, 3, 1, 1.0), (offset, digits, least, ratio)
    assert length == len(inner) - 40, f"{length} bytes, {len(inner)} with the head"
    at, found = 0, {}
    for number in numbers(inner[40:]):
        if number < 0:
            at -= number
        else:
            if number:
                found[at] = number
            at += 1
    return found


lines = sys.stdin.read().splitlines()
head = [line for line in lines if line.startswith("#")]
assert "#[Histogram log format version 1.3]" in head, head
for name in ("StartTime", "BaseTime"):
    assert any(re.match(rf"#\[{name}: \d+\.\d+ \(seconds since epoch\)", line) for line in head), (name, head)
legend = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
# Some readers take nothing but intervals for what comes behind the legend.
assert lines[len(head)] == legend, lines[: len(head) + 1]
for line in lines[len(head) + 1 :]:
    start, length, most, histogram = re.fullmatch(r"([\d.]+),([\d.]+),([\d.]+),(\S+)", line).groups()
    print(start, length, most, *(f"{place}:{count}" for place, count in sorted(places(histogram).items())))
