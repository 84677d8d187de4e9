package filter

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/rule"
)

// The properties of a stream that rules can need, and of its response, as paths: names, each but the last with a zero byte behind it.
// Envoy 1.40 answers metadata without its type: a string as it is, a number as a double of 8 bytes, a boolean as one
// byte, lists and structs as a count, sizes and values. Without the property it answers status 1, for null status 3.
// The name of a route is empty if it has none.
const (
	PeerAddress  = "source\x00address"
	RouteName    = "xds\x00route_name"
	URISAN       = "connection\x00uri_san_peer_certificate"
	DNSSAN       = "connection\x00dns_san_peer_certificate"
	CodeDetails  = "response\x00code_details"
	MetadataOf   = "metadata\x00filter_metadata\x00" // and a namespace, and a key in it; of a claim names within that
	jwtAuthnData = MetadataOf + "envoy.filters.http.jwt_authn\x00"
)

// properties fetches what rules need of the stream that is being decided. It is a [rule.Fetcher].
type properties struct {
	host  Host
	paths []metadataPath // of metadata, in the order of rule.Inputs
	kept  []byte         // what was fetched for this stream: the host has one place for all answers
}

// metadataPath is where metadata may be: a claim in the claims that its dots lead through or, if it has dots, under that
// very name, as issuers name claims by URLs. Other metadata has one path.
type metadataPath struct{ nested, whole string }

// lookFor has Metadata fetch those of these inputs. payload is the name under which jwt_authn leaves claims.
func (f *properties) lookFor(in *rule.Inputs, payload string) {
	f.paths = f.paths[:0]
	for _, s := range in.Metadata {
		if s.From == rule.FromMetadata {
			path := pathOf(s.Name)
			f.paths = append(f.paths, metadataPath{path, path})
			continue
		}
		whole := jwtAuthnData + payload + "\x00" + s.Name
		nested := []byte(whole)
		for i := len(whole) - len(s.Name); i < len(whole); i++ {
			if nested[i] == '.' {
				nested[i] = 0
			}
		}
		f.paths = append(f.paths, metadataPath{string(nested), whole})
	}
}

// fetch returns a property, valid until the stream is decided.
func (f *properties) fetch(path string) (value string, ok bool) {
	value, ok = f.host.Property(path)
	start := len(f.kept)
	f.kept = append(f.kept, value...)
	return text(f.kept[start:]), ok
}

// Peer returns the address of the client.
func (f *properties) Peer() string {
	peer, _ := f.fetch(PeerAddress)
	return peer
}

// Route returns the name of the route; empty if it has none.
func (f *properties) Route() string {
	name, _ := f.fetch(RouteName)
	return name
}

// SAN returns the first URI in the client's certificate, else its first DNS name; empty if it has neither.
func (f *properties) SAN() string {
	name, _ := f.fetch(URISAN)
	if name == "" {
		name, _ = f.fetch(DNSSAN)
	}
	return name
}

// pathOf is where metadata is that is called NAMESPACE:KEY.
func pathOf(name string) string {
	namespace, key, _ := strings.Cut(name, ":")
	return MetadataOf + namespace + "\x00" + key
}

// Metadata returns the metadata i of the inputs.
func (f *properties) Metadata(i int) rule.Value {
	raw, ok := f.fetch(f.paths[i].nested)
	if !ok && f.paths[i].whole != f.paths[i].nested {
		raw, ok = f.fetch(f.paths[i].whole)
	}
	if !ok {
		return rule.Value{}
	}
	return f.read(raw)
}

// maxWhole is how far whole numbers can be told from texts: the bytes of a larger one may be a text, those of
// a smaller one have zeros or end in the middle of a rune.
const maxWhole = 1 << 51

// read reads metadata as Envoy serialises it, which has no mark of its type: a string as it is, a number as
// the 8 bytes of a double, a boolean as one byte, and lists and structs with their length in the first four. All
// but strings have control characters or are no UTF-8. A string with control characters, a list,
// a struct, and a number that is not whole or not below maxWhole are absent.
func (f *properties) read(raw string) rule.Value {
	if isText(raw) {
		return rule.Value{Text: raw, Present: true}
	}
	start := len(f.kept)
	switch {
	case raw == "\x00" || raw == "\x01":
		f.kept = strconv.AppendBool(f.kept, raw == "\x01")
	case len(raw) == 8:
		n := math.Float64frombits(binary.LittleEndian.Uint64([]byte(raw)))
		if !(-maxWhole < n && n < maxWhole) || n != float64(int64(n)) {
			return rule.Value{Unreadable: true}
		}
		f.kept = strconv.AppendInt(f.kept, int64(n), 10)
	default:
		return rule.Value{Unreadable: true}
	}
	return rule.Value{Text: text(f.kept[start:]), Present: true}
}

func isText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' {
			return false
		}
	}
	return utf8.ValidString(s)
}
