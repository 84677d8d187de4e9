package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/browser"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// shown are the pictures of docs/dashboard.md, and what each shows when it is complete.
var shown = []struct{ name, page, text string }{
	{"overview", "/#/", "would deny"},
	{"rule", "/#/rule/login", "Limit this key"},
	{"find", "/#/find/login", "Keys by their rates"},
	{"edit", "/#/edit", "No mistakes."},
	{"fleet", "/#/fleet", "Leases"},
}

// outline are the ways and headings of a page, which do not change with what it counts.
const outline = `[...document.querySelectorAll("nav a, h1, h2")].filter(e => !e.closest("[aria-labelledby=needs-you]"))
	.map(e => e.innerText.trim().replace(/ \(\d+\)/, "")).join(" | ")`

// The pictures of docs/dashboard.md are those of today's pages: with -update they are taken anew, of a minute of traffic, and else
// the headings of each page are as they were then.
func TestPictures(t *testing.T) {
	s := start(t, rules)
	var now struct{ Document string }
	tag := s.answer("/v1/rules", &now)
	s.call(http.MethodPut, "/v1/rules", fmt.Sprintf(`{"document":%q,"why":"logins: ten a second, and a limit per minute on trial"}`, pictured), "If-Match", tag)
	s.becomes("/login", "ann", http.StatusOK)
	s.traffic("/login", "ann", "bob", "carol", "dave", "eve")
	s.traffic("/v1/orders", "ann", "shop-17", "shop-18")
	const width, height = 1280, 860
	s.Size(width, height, false)
	s.Open("/")
	s.See("Rules that refuse most")
	if golden.Writes() {
		time.Sleep(time.Minute) // a chart begins with the page
	}
	headings, names := "", []string{}
	for _, p := range shown {
		s.Open(p.page)
		s.See(p.text)
		if golden.Writes() {
			time.Sleep(10 * time.Second) // what is shown is of the last seconds
		}
		headings += p.name + ": " + browser.Eval[string](s.Browser, outline) + "\n"
		file := filepath.Join(proc.Root(t), "docs", "dashboard-"+p.name+".png")
		taken := s.Picture()
		if golden.Writes() {
			if err := os.WriteFile(file, smaller(t, taken), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		now, was := size(t, taken), size(t, golden.Content(t, file))
		if now != was || now != image.Pt(width, height) {
			t.Errorf("%s has %v, a picture of today %v", file, was, now)
		}
		names = append(names, filepath.Base(file))
	}
	golden.Same(t, "testdata/pictures.txt", headings)
	var used []string
	for _, m := range regexp.MustCompile(`!\[[^\]]{20,}\]\((.*?\.png)\)`).FindAllStringSubmatch(string(golden.Content(t, filepath.Join(proc.Root(t), "docs/dashboard.md"))), -1) {
		used = append(used, m[1])
	}
	if !slices.Equal(used, names) {
		t.Errorf("docs/dashboard.md shows %v, with a text for who cannot see them; want %v", used, names)
	}
	s.well("pictures")
}

func size(t *testing.T, picture []byte) image.Point {
	t.Helper()
	c, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	return image.Pt(c.Width, c.Height)
}

// smaller is a picture in its 256 most frequent colours, which is a third of the bytes.
func smaller(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	count, at := map[color.Color]int{}, from.Bounds()
	for y := range at.Dy() {
		for x := range at.Dx() {
			count[from.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	to := image.NewPaletted(at, colours[:min(len(colours), 256)])
	index := map[color.Color]uint8{}
	for _, c := range colours {
		index[c] = uint8(to.Palette.Index(c))
	}
	for y := range at.Dy() {
		for x := range at.Dx() {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// pictured are rules with something to see: one that refuses, one that would, and one with room.
const pictured = `rules:
  - name: login                       # attempts of one user
    match: { path: /login }
    key: [{ header: x-user, else: client_ip }]
    limit: 10/1s
    algorithm: fixed_window
    on_failure: local
  - name: login-per-minute            # on trial: what would it refuse?
    mode: shadow
    match: { path: /login }
    key: [{ header: x-user }]
    limit: 300/1m
  - name: api
    match: { path: { prefix: /v1/ } }
    key: [{ header: x-user, else: client_ip }]
    limit: 2000/1m
tests:
  - name: ten a second
    request: { url: /login, headers: { x-user: ann } }
    steps:
      - { repeat: 10x, expect: { allowed: login } }
      - { expect: { denied: login } }
`
