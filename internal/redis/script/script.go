// Package script decides on a limit inside Redis: one Lua script per algorithm, and the codecs of its input and output.
//
// A script mirrors [granter.Counter.Acquire], for Concurrency [granter.Slots], with the counter in a string value in place
// of Go's memory. The two agree to the last unit on any trace; the tests of this package compare both on a real server.
//
// An ask is one EVALSHA with one key ([AppendKey]) and one packed argument ([AppendArgs]). If the limit blocks, the second
// key and the second argument are for that ([AppendBlockKey], [AppendBlockArgs]). The last key is that of a debt with a name,
// if the ask reports one ([AppendDebtKey]). It has one packed reply ([Parse]). All numbers are integers below 2^53, which a
// double holds exactly, packed by their size in bytes, lowest byte first; none is ever turned into text.
//
// Every key has a time to live: until its whole limit is available and nothing is leased, and a second more. A bucket lives
// up to a quarter and four seconds longer, because its time to live is not set with every write. The version of the values'
// layout is part of the key, so that two layouts count side by side. A value begins with this version too. A value of
// another layout is never overwritten: an ask for it is answered [ErrForeign]. An ask for nothing of an unknown key makes
// no key.
//
// A server without memory (maxmemory-policy noeviction, see docs/redis.md) answers "full" for new keys; existing counters go on.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// Script is one script, as it is loaded into a server. It never changes.
type Script struct {
	Name   string // of its algorithm
	SHA    string // of Source, as EVALSHA wants it: 40 hexadecimal digits
	Source string
}

// All returns the scripts, to be loaded into every server.
func All() []*Script { return scripts[:] }

// For returns the script that decides on a limit.
func For(l *limit.Limit) *Script { return scripts[l.Spec().Algorithm] }

// sources has a file for each algorithm and for each piece that several of them share. A
// line `--@ NAME` stands for the piece of that name.
//
//go:embed lua/*.lua
var sources embed.FS

var scripts = [...]*Script{
	limit.TokenBucket:   assemble("token_bucket", limit.TokenBucket, bucketArgs),
	limit.FixedWindow:   assemble("fixed_window", limit.FixedWindow, fixedArgs),
	limit.SlidingWindow: assemble("sliding_window", limit.SlidingWindow, slidingArgs),
	limit.SlidingLog:    assemble("sliding_log", limit.SlidingLog, logArgs),
	limit.Concurrency:   assemble("concurrency", limit.Concurrency, slotArgs),
}

// layout is the version of the values' layout, 1 to 15; whoever changes the layout
// raises it. The first byte of a value holds it and the algorithm, so that no script takes
// another's value for its own.
const layout = 1

func version(a limit.Algorithm) byte { return layout<<4 | byte(a) }

// assemble puts a script together: constants, the arguments as local variables,
// the clock, and the file of its algorithm.
func assemble(name string, a limit.Algorithm, args fields) *Script {
	var b strings.Builder
	b.WriteString("-- weir " + name + "\n")
	for _, c := range [...]struct{ name, value string }{
		{"VERSION", strconv.Itoa(int(version(a)))},
		{"BLOCK", "'" + blockArgs.format() + "'"},
		{"REPLY", "'" + replyFields.format() + "'"},
		{"FULL", `'\` + strconv.Itoa(full) + "'"},
		{"FOREIGN", `'\` + strconv.Itoa(foreign) + "'"},
		{"STALE", `'\` + strconv.Itoa(stale) + "'"},
		{"NEVER", strconv.FormatInt(int64(limit.Never), 10)},
		{"MEMORY", strconv.FormatInt(int64(granter.LeaseMemory), 10)},
		{"HOLDINGS", strconv.Itoa(limit.MaxHoldings)},
		{"DAY", strconv.FormatInt(int64(limit.Day), 10)},
	} {
		b.WriteString("local " + c.name + " = " + c.value + "\n")
	}
	b.WriteString("local " + args.names() + " = struct.unpack('" + args.format() + "', ARGV[1])\n")
	b.WriteString(read("clock"))
	b.WriteString(read(name))
	source := b.String()
	sum := sha1.Sum([]byte(source))
	return &Script{Name: name, SHA: hex.EncodeToString(sum[:]), Source: source}
}

var piece = regexp.MustCompile(`(?m)^ *--@ (\w+)\n`)

// read returns a file with the pieces that it names. They are put in as text, because making
// a function costs time on each call.
func read(name string) string {
	text, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err)
	}
	return piece.ReplaceAllStringFunc(string(text), func(line string) string {
		return read(piece.FindStringSubmatch(line)[1])
	})
}
