package rls

import (
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errPanicked is the answer to a request that panicked. What was wrong is in the
// log: it is none of the client's business.
var errPanicked = status.Error(codes.Internal, "the request met a mistake in this server, which is in its log")

// recoverPanic is deferred by what answers one request: a panic is the end of that request
// and not of the process, of which all others would have to wait for the next one.
func (s *Server) recoverPanic(call string, err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	s.cfg.Log.Error("rls: a request panicked; please report this", "call", call, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	*err = errPanicked
}
