"""Which partition a key belongs to: murmur2, as Kafka's Java producer hashes keys.

The runtime leaves this to the producer's own `murmur2_random`; here it serves the test driver, and tools that ask which
task holds a key.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit hash, signed, as Kafka's Java client computes it."""
    length = len(data)
    digest = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        digest = digest * _MULTIPLIER & _MASK ^ word
    if whole < length:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    digest = (digest ^ digest >> 13) * _MULTIPLIER & _MASK
    digest ^= digest >> 15
    return digest - (1 << 32) if digest & 0x80000000 else digest


def partition_of(key: bytes, partition_count: int) -> int:
    """The partition of a key that is not null."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
