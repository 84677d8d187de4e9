package versions

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

const (
	// format is that of a version, and amended that of one with amendments: a program that knows none must not put the
	// rules in force without them. Readers reject others as a whole.
	format, amended = 2, 3
	// chunkSize is what fits into a value of Consul (512 KiB) as JSON, which has base64.
	chunkSize = 256 << 10
	// maxDocument bounds a document, in bytes: the transaction of a new version names all of
	// its chunks beside the manifest, the version and the amendments, and the gzip of a document may take one more.
	maxDocument = (consul.MaxChanges - 5) * chunkSize
	// maxWho and maxWhy bound the texts of a version, in bytes.
	maxWho, maxWhy = 200, 2000
)

// Version is a version of the rules.
type Version struct {
	Format int `json:"format"`
	// Revision names the version, and orders rules everywhere: the time of the version in microseconds since 1970,
	// and more than that of the version before, and of all rules that the programs have which
	// follow the store, unless these are [Ahead]. So it also grows where the store lost versions, or all of them.
	Revision uint64    `json:"revision"`
	When     time.Time `json:"when"`
	Who      string    `json:"who"`
	Why      string    `json:"why"`
	// RollbackTo is the revision of the version whose document this has again; 0: none.
	RollbackTo uint64 `json:"rollback_to,omitempty"`
	// Amends is what the version changes if its document is that of the version before, such as "override of login acme
	// removed"; empty: the document.
	Amends string `json:"amends,omitempty"`

	Text // of the document
	// Amendments are the text of the [amend.Document] beside it; nil: there is none.
	Amendments *Text `json:"amendments,omitempty"`
}

// Text names a text that the store keeps in chunks.
type Text struct {
	Size   int      `json:"size"`   // in bytes
	SHA256 string   `json:"sha256"` // in hexadecimal
	Chunks []string `json:"chunks"` // the SHA-256 of the parts of its gzip, in order
}

// Content is what a version names.
type Content struct {
	Document   []byte
	Amendments []byte // nil: there are none
}

// Parse reads the document as [Parse] does, and the amendments.
func (c *Content) Parse(name string) (*rulefile.Document, *amend.Document, error) {
	d, err := Parse(name, c.Document)
	if err != nil {
		return nil, nil, err
	}
	amendments, err := amend.Parse(c.Amendments)
	return d, amendments, err
}

// pieces is in how many chunks the gzip of so many bytes is at most. A manifest that names more must not fill the memory of
// whoever reads it.
func pieces(size int) int { return 1 + (size+chunkSize-1)/chunkSize }

// mostAhead is how far clocks may be apart. A revision that nothing bounds would be the last one: no later version is
// larger.
const mostAhead = time.Minute

// Ahead reports whether a revision is from the future: by more than a minute. Nobody puts such rules in force, or
// makes a version follow them.
func Ahead(revision uint64, now time.Time) bool {
	return revision > uint64(now.Add(mostAhead).UnixMicro())
}

// Due is the error of a version that is from the future; nil: it is not.
func (v *Version) Due(now time.Time) error {
	if !Ahead(v.Revision, now) {
		return nil
	}
	return fmt.Errorf("revision %d is of %s, more than %v ahead of this machine's clock: set the clock that is wrong, here or where the rules were applied; then apply the rules again, or roll back",
		v.Revision, time.UnixMicro(int64(v.Revision)).UTC().Format(time.RFC3339), mostAhead)
}

// Zero reports whether there is no version.
func (v *Version) Zero() bool { return v.Revision == 0 }

// ParseVersion reads a version as it is stored. The error is a [DamagedError] if it is not
// what a store writes.
func ParseVersion(key string, value []byte) (Version, error) {
	var v Version
	if err := json.Unmarshal(value, &v); err != nil {
		return Version{}, &DamagedError{fmt.Sprintf("%s is not what Weir writes: %v", key, err)}
	}
	switch {
	case v.Format > amended:
		return Version{}, fmt.Errorf("%s: format %d is of a newer release of Weir, this one reads format %d", key, v.Format, amended)
	case v.Size < 0 || v.Size > maxDocument || len(v.Chunks) > pieces(v.Size):
		return Version{}, &DamagedError{fmt.Sprintf("%s is not what Weir writes: a document of %d bytes in %d chunks", key, v.Size, len(v.Chunks))}
	case v.Format < format || v.Revision == 0 || v.Revision >= 1<<53 || len(v.Chunks) == 0:
		return Version{}, &DamagedError{key + " is not what Weir writes: format, revision or chunks are missing or out of range"}
	}
	if a := v.Amendments; a != nil && (a.Size <= 0 || a.Size > amend.MaxBytes || len(a.Chunks) == 0 || len(a.Chunks) > pieces(a.Size)) {
		return Version{}, &DamagedError{fmt.Sprintf("%s is not what Weir writes: amendments of %d bytes in %d chunks", key, a.Size, len(a.Chunks))}
	}
	return v, nil
}

// chunks are those of all texts of the version, each once.
func (v *Version) chunks() []string {
	all := slices.Clone(v.Chunks)
	if v.Amendments != nil {
		all = append(all, v.Amendments.Chunks...)
	}
	slices.Sort(all)
	return slices.Compact(all)
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

// newText names a text, and returns its chunks.
func newText(text []byte) (t Text, chunks [][]byte, err error) {
	t = Text{Size: len(text), SHA256: sum(text)}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return t, nil, err
	}
	for chunk := range slices.Chunk(packed.Bytes(), chunkSize) {
		chunks, t.Chunks = append(chunks, chunk), append(t.Chunks, sum(chunk))
	}
	return t, chunks, nil
}

// unpack is the reverse of newText.
func (t *Text) unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(t.Size)+1))
	return text, cmp.Or(err, t.check(text))
}

func (t *Text) check(text []byte) error {
	if len(text) != t.Size || sum(text) != t.SHA256 {
		return errors.New("it has another SHA-256 than its manifest")
	}
	return nil
}

// Check reports whether this is what the version names.
func (v *Version) Check(c Content) error {
	if err := v.Text.check(c.Document); err != nil {
		return fmt.Errorf("the document of revision %d: %w", v.Revision, err)
	}
	switch {
	case v.Amendments == nil && c.Amendments == nil:
		return nil
	case v.Amendments == nil || v.Amendments.check(c.Amendments) != nil:
		return fmt.Errorf("the amendments of revision %d are not those of its manifest", v.Revision)
	}
	return nil
}

// Change is who makes a version, and why.
type Change struct {
	Who, Why string
	// On is the number of the version that the change was made of; 0: whatever is in force.
	On uint64
	// First is set if there must be no version yet.
	First bool
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
