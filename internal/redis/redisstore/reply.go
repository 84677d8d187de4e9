package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replyKind classifies the reply to an ask.
type replyKind uint8

const (
	done     replyKind = iota // the script ran
	noScript                  // it is not loaded, and did not run
	moved                     // another node serves the key for good
	ask                       // another node serves this key for now
	stale                     // the node is no master, or not ready: look up the masters
	full                      // there is no memory
	refused                   // any other error of the server
	noReply                   // no reply: it may have run or not
)

// errNoReply is for a command without a reply or an error.
var errNoReply = errors.New("no reply")

// replyKindOf reads the error of a command. addr is the address that the error names, if
// any, as the server writes it: see fullAddress.
func replyKindOf(err error) (v replyKind, addr string) {
	if err == nil {
		return done, ""
	}
	if !isReply(err) {
		return noReply, ""
	}
	text := err.Error()
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "NOSCRIPT":
		return noScript, ""
	case "MOVED", "ASK":
		_, addr, _ = strings.Cut(rest, " ")
		if word == "ASK" {
			return ask, addr
		}
		return moved, addr
	case "LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN":
		return stale, ""
	case "OOM":
		return full, ""
	}
	return refused, ""
}

// isReply reports whether the error is a reply of the server.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

func loading(err error) bool { return strings.HasPrefix(err.Error(), "LOADING ") }

// outcomeOf returns what an error means for the breaker of a node.
func outcomeOf(err error) outcome {
	var timeout net.Error
	switch {
	case err == nil:
		return answered
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return timedOut
	}
	return failed
}

// reasonOf returns why an ask is Unavailable after a network error.
func reasonOf(err error) Reason {
	if outcomeOf(err) == timedOut {
		return Timeout
	}
	return Network
}
