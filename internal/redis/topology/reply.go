package topology

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Kind classifies the reply to a command.
type Kind uint8

// The kinds.
const (
	Done     Kind = iota // the command ran
	NoScript             // the script is not loaded, and did not run
	Moved                // another node serves the key for good; the command did not run
	Ask                  // another node serves this key for now; the command did not run
	Stale                // the node is no master, or not ready: look up the masters
	Full                 // there is no memory
	Rejected             // any other error of the server
	NoReply              // no reply: it may have run or not
)

// Reply is what a reply means.
type Reply struct {
	Kind Kind
	Addr string // that Moved and Ask name, as the server writes it: see [Node.Follow]
}

// ReplyOf reads the error of a command.
func ReplyOf(err error) Reply {
	if err == nil {
		return Reply{}
	}
	if !isReply(err) {
		return Reply{Kind: NoReply}
	}
	word, rest, _ := strings.Cut(err.Error(), " ")
	_, addr, _ := strings.Cut(rest, " ")
	switch word {
	case "MOVED":
		return Reply{Moved, addr}
	case "ASK":
		return Reply{Ask, addr}
	}
	// Proxies, and scripts of Redis 6, write other words before the word of the error.
	for word := range strings.FieldsSeq(err.Error()) {
		switch strings.Trim(word, "-:") {
		case "NOSCRIPT":
			return Reply{Kind: NoScript}
		case "LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN":
			return Reply{Kind: Stale}
		case "OOM":
			return Reply{Kind: Full}
		}
	}
	return Reply{Kind: Rejected}
}

// isReply reports whether the error is a reply of the server.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

// standby reports whether a server that answers serves nothing: it loads its data, or is a replica.
func standby(err error) bool {
	return strings.Contains(err.Error(), "LOADING ") || strings.Contains(err.Error(), "READONLY ")
}

func forbidden(err error) bool { return strings.Contains(err.Error(), "NOPERM ") }

// TimedOut reports whether the error is that no reply came in time.
func TimedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
