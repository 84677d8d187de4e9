package topology

import "strings"

// slots is the number of hash slots of a cluster.
const slots = 16384

// SlotOf returns the hash slot of a key: CRC16 (XMODEM) of what is between its first
// '{' and the next '}', or of all of it where there is nothing between them (Redis
// Cluster Specification, "Key distribution model").
func SlotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % slots
}

// crcTable is CRC-16 of every byte, polynomial 0x1021.
var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		t[i] = crc
	}
	return t
}()
