package versions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

const (
	// format is that of a version. Readers refuse others as a whole.
	format = 1
	// chunkSize is what fits into a value of Consul (512 KiB) as JSON, which has base64.
	chunkSize = 256 << 10
	// maxDocument bounds a document, in bytes: the transaction of a new version names all of
	// its chunks beside the manifest and the version, and key limits may begin one more.
	maxDocument = (consul.MaxChanges - 4) * chunkSize
	// maxWho and maxWhy bound the texts of a version, in bytes.
	maxWho, maxWhy = 200, 2000
)

// Version is a version of the rules.
type Version struct {
	Format int `json:"format"`
	// Revision names the version, and orders rules everywhere: the time of the version in microseconds since 1970,
	// and more than that of the version before, and of all rules that the programs have which
	// follow the store. So it also grows where the store lost versions, or all of them, and after one from a clock
	// that was ahead.
	Revision uint64    `json:"revision"`
	When     time.Time `json:"when"`
	Who      string    `json:"who"`
	Why      string    `json:"why"`
	// RollbackTo is the revision of the version whose document this has again; 0: none.
	RollbackTo uint64 `json:"rollback_to,omitempty"`

	Size   int      `json:"size"`   // of the document, in bytes
	SHA256 string   `json:"sha256"` // likewise, in hexadecimal
	Chunks []string `json:"chunks"` // the SHA-256 of its parts, in order, without KeyLimits
	// KeyLimits are the parts with limits of single keys; nil: there are none. They are
	// apart, so that a customer's new limit leaves the chunks of the rules as they are.
	KeyLimits *KeyLimits `json:"key_limits,omitempty"`
}

// KeyLimits are parts of a document that are in chunks of their own.
type KeyLimits struct {
	Runs   []rulefile.Run `json:"runs"`   // where they are in the document, in order
	Chunks []string       `json:"chunks"` // the SHA-256 of the parts of all runs, one after the other
}

// within reports whether the runs are parts of a document of that size, in order.
func (k *KeyLimits) within(size int) bool {
	if k == nil {
		return true
	}
	at := 0
	for _, r := range k.Runs {
		if r.At < at || r.Size < 0 || r.Size > size-r.At {
			return false
		}
		at = r.At + r.Size
	}
	return true
}

// size is how many bytes the key limits of a document have.
func (k *KeyLimits) size() (n int) {
	if k != nil {
		for _, r := range k.Runs {
			n += r.Size
		}
	}
	return n
}

// pieces is in how many chunks so many bytes are.
func pieces(size int) int { return max(1, (size+chunkSize-1)/chunkSize) }

// whole reports whether the version names as many chunks as its document has. A manifest that
// names one again and again must not fill the memory of whoever reads it.
func (v *Version) whole() bool {
	keys := v.KeyLimits.size()
	return len(v.Chunks) == pieces(v.Size-keys) && (v.KeyLimits == nil || len(v.KeyLimits.Chunks) == pieces(keys))
}

// Zero reports whether there is no version.
func (v *Version) Zero() bool { return v.Revision == 0 }

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
	case !v.KeyLimits.within(v.Size):
		return Version{}, &DamagedError{key + " is not what `weir apply` writes: the runs of key_limits are not parts of the document, in order"}
	case v.Size < 0 || v.Size > maxDocument || !v.whole():
		return Version{}, &DamagedError{fmt.Sprintf("%s is not what `weir apply` writes: a document of %d bytes in %d chunks", key, v.Size, len(v.chunks()))}
	case v.Format < format || v.Revision == 0 || v.Revision >= 1<<53 || len(v.Chunks) == 0:
		return Version{}, &DamagedError{key + " is not what `weir apply` writes: format, revision or chunks are missing or out of range"}
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
func (v *Version) describe(d *rulefile.Document) {
	v.Format, v.Size, v.SHA256, v.KeyLimits = format, len(d.Text), sum(d.Text), nil
	if len(d.KeyLimits) > 0 {
		v.KeyLimits = &KeyLimits{Runs: d.KeyLimits}
	}
	rules, keys := v.divide(d.Text)
	v.Chunks = sums(rules)
	if v.KeyLimits != nil {
		v.KeyLimits.Chunks = sums(keys)
	}
}

func sums(text []byte) (all []string) {
	for _, chunk := range split(text) {
		all = append(all, sum(chunk))
	}
	return all
}

// chunks are the SHA-256 of all parts of the version.
func (v *Version) chunks() []string {
	if v.KeyLimits == nil {
		return slices.Clone(v.Chunks)
	}
	return slices.Concat(v.Chunks, v.KeyLimits.Chunks)
}

// divide takes the limits of single keys out of a document of the version.
func (v *Version) divide(document []byte) (rules, keys []byte) {
	if v.KeyLimits == nil {
		return document, nil
	}
	at := 0
	for _, r := range v.KeyLimits.Runs {
		rules, keys = append(rules, document[at:r.At]...), append(keys, document[r.At:r.At+r.Size]...)
		at = r.At + r.Size
	}
	return append(rules, document[at:]...), keys
}

// join is the reverse of divide; nil if the runs do not fit the parts. Whether it is the
// document, only its SHA-256 shows.
func (v *Version) join(rules, keys []byte) (document []byte) {
	if v.KeyLimits == nil {
		return rules
	}
	for _, r := range v.KeyLimits.Runs {
		before := r.At - len(document)
		if before < 0 || before > len(rules) || r.Size < 0 || r.Size > len(keys) {
			return nil
		}
		document = append(append(document, rules[:before]...), keys[:r.Size]...)
		rules, keys = rules[before:], keys[r.Size:]
	}
	return append(append(document, rules...), keys...)
}

// Check reports whether a document is that of the version.
func (v *Version) Check(document []byte) error {
	if len(document) != v.Size || sum(document) != v.SHA256 {
		return fmt.Errorf("the document of revision %d has another SHA-256 than its manifest", v.Revision)
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
