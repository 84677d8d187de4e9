package rulestore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// format is that of a version. Readers refuse others as a whole.
	format = 1
	// chunkSize is what fits into a value of Consul (512 KiB) as JSON, which has base64.
	chunkSize = 256 << 10
	// maxWho and maxWhy bound the texts of a version, in bytes.
	maxWho, maxWhy = 200, 2000
)

// Version is a version of the rules.
type Version struct {
	Format int `json:"format"`
	// Number counts the versions of a store from 1, for people.
	Number uint64 `json:"number"`
	// Revision orders rules everywhere: the time of the version in microseconds since 1970,
	// and more than that of the version before. So it also grows where the store lost
	// versions, or all of them, and Number begins again.
	Revision uint64    `json:"revision"`
	When     time.Time `json:"when"`
	Who      string    `json:"who"`
	Why      string    `json:"why"`
	// RollbackTo is the number of the version whose document this has again; 0: none.
	RollbackTo uint64 `json:"rollback_to,omitempty"`

	Size   int      `json:"size"`   // of the document, in bytes
	SHA256 string   `json:"sha256"` // likewise, in hexadecimal
	Chunks []string `json:"chunks"` // the SHA-256 of its parts, in order
}

// Zero reports whether there is no version.
func (v *Version) Zero() bool { return v.Number == 0 }

// ParseVersion reads a version as it is stored. The error is a [DamagedError] if it is not
// what a store writes.
func ParseVersion(key string, value []byte) (Version, error) {
	var v Version
	if err := json.Unmarshal(value, &v); err != nil {
		return Version{}, &DamagedError{fmt.Sprintf("%s is not what `weir apply` writes: %v", key, err)}
	}
	switch {
	case v.Format > format:
		return Version{}, fmt.Errorf("%s: format %d is of a newer release of Weir, this one reads format %d", key, v.Format, format)
	case v.Format != format || v.Number == 0 || v.Revision == 0 || v.Revision >= 1<<53 || len(v.Chunks) == 0:
		return Version{}, &DamagedError{key + " is not what `weir apply` writes: format, number, revision or chunks are missing or out of range"}
	}
	return v, nil
}

// Encode returns the version as it is stored.
func (v *Version) Encode() []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // of texts, numbers and a time of this age
	}
	return text
}

// sum is the SHA-256 of data in hexadecimal.
func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

// split cuts a document into chunks; an empty one into one.
func split(document []byte) [][]byte {
	if len(document) == 0 {
		return [][]byte{nil}
	}
	return slices.Collect(slices.Chunk(document, chunkSize))
}

// describe fills in what follows from the document.
func (v *Version) describe(document []byte) {
	v.Size, v.SHA256, v.Chunks = len(document), sum(document), nil
	for _, chunk := range split(document) {
		v.Chunks = append(v.Chunks, sum(chunk))
	}
}

// Check reports whether a document is that of the version.
func (v *Version) Check(document []byte) error {
	if len(document) != v.Size || sum(document) != v.SHA256 {
		return fmt.Errorf("the document of version %d has another SHA-256 than its manifest", v.Number)
	}
	return nil
}

// Change is who makes a version, and why.
type Change struct {
	Who, Why string
	// On is the number of the version that the change was made of; 0: whatever is in force.
	On uint64
}

func (c *Change) check() error {
	switch {
	case strings.TrimSpace(c.Who) == "":
		return errors.New("the author is missing; name one")
	case strings.TrimSpace(c.Why) == "":
		return errors.New("the reason is missing; give one")
	case len(c.Who) > maxWho:
		return fmt.Errorf("the author has %d bytes, at most %d", len(c.Who), maxWho)
	case len(c.Why) > maxWhy:
		return fmt.Errorf("the reason has %d bytes, at most %d", len(c.Why), maxWhy)
	}
	return nil
}
