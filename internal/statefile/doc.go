// Package statefile keeps records in a file that is replaced as a whole: a reader gets the complete records of one writer, or an
// error.
//
// The file is a gzip stream without compression, whose checksum covers all of it:
//
//	"weirstat", header, records; the header and each record behind its length (uvarint)
//
// The header is JSON, so that `head -c` shows who wrote the file. A new file is written beside the old one, synced and renamed
// over it, and the directory is synced. So neither a crash nor a full disk leaves half a file under the name.
package statefile

import "time"

// layout is the number of the layout of files that this package writes, and of the
// records in them. A file with another number is not read.
const layout = 4

const magic = "weirstat"

// Header describes a file.
type Header struct {
	Layout int `json:"layout"`
	// Holders is how many holders the store had.
	Holders int `json:"holders"`
	// Saved is when the file was written, Host and PID by which process.
	Saved time.Time `json:"saved"`
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
}
