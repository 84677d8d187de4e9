// Package dashboard is the page on which people operate an installation. It is served by regions and aggregators beside the
// admin API, and uses that alone. What is in dist is built from src by `make dashboard`, and committed, so that only who
// changes the page needs npm.
package dashboard

//go:generate sh -c "go build -C ../tools -o ../.tools/ ./dashboard && cd .. && .tools/dashboard"

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed dist
var built embed.FS

// policy lets the page load nothing from elsewhere, run no script but its own, and be in no other page.
const policy = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'; img-src 'self' data:"

// file is a file of the page.
type file struct {
	plain, packed []byte // the latter by gzip
	kind, tag     string
}

// Handler serves the page below /, for GET and HEAD. It has no secrets: what it shows comes from the API, which guards itself.
func Handler() http.Handler {
	files := map[string]*file{}
	err := fs.WalkDir(built, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := built.ReadFile(name)
		files[strings.TrimPrefix(name, "dist")] = newFile(name, text)
		return err
	})
	if err != nil {
		panic("dashboard: " + err.Error()) // the program was built so
	}
	files["/"] = files["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := files[r.URL.Path]
		switch {
		case f == nil:
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		default:
			f.serve(w, r)
		}
	})
}

func newFile(name string, text []byte) *file {
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	_, _ = w.Write(text) // into memory
	_ = w.Close()
	sum := sha256.Sum256(text)
	return &file{text, packed.Bytes(), mime.TypeByExtension(path.Ext(name)), strconv.Quote(hex.EncodeToString(sum[:8]))}
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")   // who opens it cannot lead it anywhere,
	h.Set("Cross-Origin-Resource-Policy", "same-origin") // nor find out that it is there
	h.Set("Cache-Control", "no-cache")                   // asked for again each time, and mostly not sent
	h.Set("Vary", "Accept-Encoding")
	text, tag := f.plain, f.tag
	packed := strings.Contains(r.Header.Get("Accept-Encoding"), "gzip")
	if packed {
		text, tag = f.packed, strings.TrimSuffix(f.tag, `"`)+`-gzip"` // other bytes have another tag
	}
	h.Set("ETag", tag)
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", f.kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
