// Package statefile keeps records in a file that is replaced as a whole: what is read
// is what one writer once finished, or an error.
//
//	"weirstat"  layout uint32  length uint32  header  crc32c uint32
//	blocks:     length uint32  crc32c uint32  records, each behind its length (uvarint)
//	end:        0 uint32       crc32c uint32  number of records uint64
//
// Numbers are little-endian; a checksum is over all bytes since the last one. The header
// is JSON, so that `head -c` shows whose file it is. A new file is written beside the old
// one, synced and renamed over it, and the directory is synced; so neither a crash nor a
// full disk leaves half a file under the name.
package statefile

import (
	"hash/crc32"
	"time"
)

// Layout is the number of the layout of files that this package writes, and of the
// records that its users put into them. A file of a larger one is not read.
const Layout = 1

const (
	magic = "weirstat"
	// blockSize is from how many bytes on a block is written.
	blockSize = 64 << 10
	// maxBlock bounds the bytes of a block that is read, so that a damaged length does
	// not take all memory: a record of the longest log there may be fits.
	maxBlock = 1 << 30
	// maxHeader bounds the header.
	maxHeader = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header says whose records a file has.
type Header struct {
	// Epoch is that of the store whose counters these are, and Former those of its
	// lives before, newest first.
	Epoch  uint64   `json:"epoch,string"`
	Former []uint64 `json:"former,omitempty"`
	// Orderly says that nothing happened after the file was written.
	Orderly bool `json:"orderly"`
	// Holders is how many holders the store had.
	Holders int `json:"holders"`
	// Saved is when it was written, Host and PID by whom.
	Saved time.Time `json:"saved"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
}
