package consultest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

// KV is all that the key-value store has, as text: keys and values. Those that are the beginning
// of a gzip are unpacked.
func (a *Agent) KV() string {
	a.t.Helper()
	var entries []struct {
		Key   string
		Value []byte
	}
	if err := a.read("/v1/kv/?recurse=true", &entries); err != nil {
		a.t.Fatalf("%v", err)
	}
	text := new(strings.Builder)
	for _, e := range entries {
		fmt.Fprintf(text, "%s %s\n", e.Key, e.Value)
		if packed, err := gzip.NewReader(bytes.NewReader(e.Value)); err == nil {
			_, _ = io.Copy(text, packed) // ends in the middle where the value is the first chunk of several
		}
	}
	return text.String()
}
