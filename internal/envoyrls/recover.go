package envoyrls

import (
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errPanicked is the answer to a request that panicked. The cause is in the log and not
// in the answer: clients must not see it.
var errPanicked = status.Error(codes.Internal, "the request met a mistake in this server, which is in its log")

// recoverPanic is deferred where a request is answered: a panic ends that request, and not
// the process with all other requests.
func (s *Server) recoverPanic(call string, err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	s.cfg.Log.Error("rls: request panicked; please report it", "call", call, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	*err = errPanicked
}
