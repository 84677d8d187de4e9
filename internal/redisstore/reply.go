package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// verdict is what a reply says about an errand.
type verdict uint8

const (
	done     verdict = iota // the script ran
	noScript                // it is not loaded, and did not run
	moved                   // another node serves the key for good
	ask                     // another node serves this key for now
	stale                   // the node is no master, or not ready: look where the masters are
	full                    // there is no memory
	refused                 // anything else that the server says
	unheard                 // no reply: it may have run or not
)

// errNoReply is for a command without a reply or an error.
var errNoReply = errors.New("no reply")

// verdictOf reads the error of a command, and the address that it names, if any, as
// the server writes it: see fullAddress.
func verdictOf(err error) (v verdict, addr string) {
	if err == nil {
		return done, ""
	}
	if !isReply(err) {
		return unheard, ""
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

// isReply reports whether the server said so.
func isReply(err error) bool {
	var e redis.Error
	return errors.As(err, &e)
}

func loading(err error) bool { return strings.HasPrefix(err.Error(), "LOADING ") }

// outcomeOf is what an error tells about a node.
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

// reasonOf is why an ask is Unavailable after an error of the network.
func reasonOf(err error) Reason {
	if outcomeOf(err) == timedOut {
		return Timeout
	}
	return Network
}
