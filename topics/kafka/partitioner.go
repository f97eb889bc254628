package kafka

import "encoding/binary"

// PartitionFor returns the partition of a key among n, as Java's default
// partitioner computes it (murmur2). A nil key is in partition 0.
func PartitionFor(key []byte, n int) int32 {
	if key == nil || n <= 1 {
		return 0
	}
	return int32(murmur2(key)&0x7fffffff) % int32(n)
}

// murmur2 is the hash of org.apache.kafka.common.utils.Utils: Austin Appleby's
// MurmurHash2 with Kafka's seed.
func murmur2(data []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := binary.LittleEndian.Uint32(data) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	if len(data) > 0 {
		for i, b := range data {
			h ^= uint32(b) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
