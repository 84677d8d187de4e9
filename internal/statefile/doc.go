// Package statefile keeps records in a file that is replaced as a whole: a reader gets
// exactly what one writer finished, or an error.
//
//	"weirstat"  layout uint32  length uint32  header  crc32c uint32
//	blocks:     length uint32  crc32c uint32  records, each behind its length (uvarint)
//	end:        0 uint32       crc32c uint32  number of records uint64
//
// Numbers are little-endian; a checksum is over all bytes since the last one. The header
// is JSON, so that `head -c` shows who wrote the file. A new file is written beside the
// old one, synced and renamed over it, and the directory is synced. So neither a crash nor
// a full disk leaves half a file under the name.
package statefile

import (
	"hash/crc32"
	"time"
)

// layout is the number of the layout of files that this package writes, and of the
// records in them. A file with a larger number is not read.
const layout = 1

const (
	magic = "weirstat"
	// blockSize is the size at which a block is written, in bytes.
	blockSize = 64 << 10
	// maxBlock bounds the size of a block that is read, in bytes, so that a damaged length
	// does not take all memory. A record of the longest possible log fits.
	maxBlock = 1 << 30
	// maxHeader bounds the header.
	maxHeader = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header describes a file.
type Header struct {
	// Holders is how many holders the store had.
	Holders int `json:"holders"`
	// Saved is when the file was written, Host and PID by which process.
	Saved time.Time `json:"saved"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
}
