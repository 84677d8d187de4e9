// Package access reads the file of tokens and client certificates of the admin API, and decides what each caller may do.
//
//	access.go  roles and callers
//	file.go    the file, which is read again when it changes
package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Role is what somebody may do; each role includes those before it.
type Role uint8

// The roles. The zero value may do nothing.
const (
	Viewer   Role = iota + 1 // read
	Operator                 // also change what single keys get, for a time
	Admin                    // also change rules, and declare regions dead
)

// roles are the words for the roles, in their order.
var roles = []string{"viewer", "operator", "admin"}

// String is the word for a role.
func (r Role) String() string {
	if r == 0 || int(r) > len(roles) {
		return "nobody"
	}
	return roles[r-1]
}

// Caller is who calls.
type Caller struct {
	Name string // as the log and the audit have it
	Role Role
	// Prefix begins the names of the rules that the caller may change. Empty: all.
	Prefix string
	// Until is when the token ends; zero: never.
	Until time.Time
}

// May reports whether the caller may change a rule of this name.
func (c *Caller) May(rule string) bool { return strings.HasPrefix(rule, c.Prefix) }

// Over reports whether the token has ended.
func (c *Caller) Over(now time.Time) bool { return !c.Until.IsZero() && !now.Before(c.Until) }

// table is the content of a file.
type table struct {
	tokens  map[[sha256.Size]byte]Caller
	clients map[string]Caller // by the name in the certificate
}

// List is who may call. It is made by [Watch], and safe for concurrent use.
type List struct{ table atomic.Pointer[table] }

// Token returns whose a token is. A token that has ended is known, too.
func (l *List) Token(token string) (c Caller, ok bool) {
	c, ok = l.table.Load().tokens[sha256.Sum256([]byte(token))]
	return c, ok
}

// Client returns whose a certificate with these names is: that of the name which stands first in the certificate.
func (l *List) Client(names []string) (c Caller, ok bool) {
	clients := l.table.Load().clients
	i := slices.IndexFunc(names, func(name string) bool { _, ok := clients[name]; return ok })
	if i < 0 {
		return c, false
	}
	return clients[names[i]], true
}

// tokenPrefix begins each token, so that scanners of secrets find those that were published.
const tokenPrefix = "weir_"

// NewToken makes a token, and the SHA-256 that the file has of it.
func NewToken() (token, sum string) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	hash := sha256.Sum256([]byte(token))
	return token, hex.EncodeToString(hash[:])
}
