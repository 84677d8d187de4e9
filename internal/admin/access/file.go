package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/watch"
)

// maxCallers bounds each list of the file.
const maxCallers = 10_000

// Watch makes a list of a file, and the watcher that reads it again when it changes. The list is empty before the
// watcher's first Load.
func Watch(path string, log *slog.Logger, r *telemetry.Registry) (*List, *watch.Watcher) {
	l := new(List)
	l.table.Store(new(table))
	read := func() ([]rulefile.File, error) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o002 != 0 {
			return nil, fmt.Errorf("admin tokens: %s has the mode %04o, which lets every user of this machine change roles; run chmod o-w", path, info.Mode().Perm())
		}
		f, err := rulefile.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("admin tokens: %w", err)
		}
		return []rulefile.File{f}, nil
	}
	candidate := func(files []rulefile.File) (watch.Candidate, error) {
		t, err := parse(path, files[0].Data)
		if err != nil {
			return watch.Candidate{}, err
		}
		sum := sha256.Sum256(files[0].Data)
		return watch.Candidate{
			Version: hex.EncodeToString(sum[:6]),
			Apply:   func() error { l.table.Store(t); return nil },
			About:   []any{"tokens", len(t.tokens), "clients", len(t.clients)},
		}, nil
	}
	return l, watch.New(watch.Config{What: "admin_tokens", Path: path, Read: read, Parse: candidate, Log: log, Metrics: r})
}

// parse reads the file. The error has a line for each mistake.
func parse(path string, data []byte) (*table, error) {
	t := &table{tokens: map[[sha256.Size]byte]Caller{}, clients: map[string]Caller{}}
	err := rulefile.ReadDocument(path, data, "tokens: [] for nobody", func(doc strict.Value) {
		doc.Object("tokens", "clients")
		for _, v := range doc.Field("tokens").List(maxCallers, "a list, such as [{ name: ann, role: viewer, sha256: ... }], or let `weir admin token` write its items") {
			v.Object("name", "role", "sha256", "prefix", "until")
			t.token(v)
		}
		for _, v := range doc.Field("clients").List(maxCallers, "a list, such as [{ name: ann, role: viewer, san: ann@example.com }]") {
			v.Object("name", "role", "san", "prefix")
			t.client(v)
		}
	})
	return t, err
}

func (t *table) token(v strict.Value) {
	var sum [sha256.Size]byte
	const want = "the SHA-256 of the token, 64 hexadecimal digits, as `weir admin token` prints it"
	v.Field("sha256").Require(want)
	text, ok := v.Field("sha256").String(want)
	if ok {
		if n, err := hex.Decode(sum[:], []byte(text[:min(len(text), 2*len(sum))])); err != nil || n != len(sum) || len(text) != 2*len(sum) {
			v.Field("sha256").Fail("is no SHA-256; write " + want)
		} else if _, twice := t.tokens[sum]; twice {
			v.Field("sha256").Fail("is given twice; keep one")
		}
	}
	c := caller(v)
	if until := v.Field("until"); until.Present() {
		const want = "a time, such as 2027-01-31T00:00:00Z"
		text, ok := until.String(want)
		var err error
		if c.Until, err = time.Parse(time.RFC3339, text); ok && err != nil {
			until.Fail(strict.Quote(text) + " is no time; write " + want)
		}
	}
	t.tokens[sum] = c
}

func (t *table) client(v strict.Value) {
	const want = "a name in the client's certificate: a URI, DNS name, IP address or e-mail address"
	v.Field("san").Require(want)
	san, ok := v.Field("san").String(want)
	if _, twice := t.clients[san]; ok && (twice || san == "") {
		v.Field("san").Fail("is empty or given twice; write " + want)
	}
	t.clients[san] = caller(v)
}

// caller reads what tokens and clients have in common.
func caller(v strict.Value) (c Caller) {
	v.Field("name").Require("who it is, as the audit shall have it")
	c.Name, _ = v.Field("name").String("a name")
	if v.Field("name").Present() && !IsName(c.Name) {
		v.Field("name").Fail("must have 1 to " + fmt.Sprint(maxName) + " letters, digits and . _ - @ +")
	}
	v.Field("role").Require(strings.Join(roles, ", "))
	if i, ok := v.Field("role").Enum(roles...); ok {
		c.Role = Role(i + 1)
	}
	if v.Field("prefix").Present() {
		c.Prefix, _ = v.Field("prefix").String("how the names of rules begin")
		if c.Prefix == "" || !isPrefix(c.Prefix) {
			v.Field("prefix").Fail("must be how names of rules begin; leave it out for all rules")
		}
	}
	return c
}

// maxName bounds a name, in bytes.
const maxName = 64

// IsName reports whether a text may be who calls.
func IsName(s string) bool {
	return s != "" && len(s) <= maxName && !strings.ContainsFunc(s, func(r rune) bool { return !rule.IsNameRune(r) && !strings.ContainsRune("._-@+", r) })
}

// isPrefix reports whether names of rules may begin so.
func isPrefix(s string) bool {
	return len(s) <= rule.MaxName && !slices.ContainsFunc([]rune(s), func(r rune) bool { return !rule.IsNameRune(r) && r != '.' })
}
