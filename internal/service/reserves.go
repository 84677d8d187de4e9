package service

import (
	"errors"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/reserve"
)

// Reserves hears what regions state of their reserves. It is safe for concurrent use.
type Reserves interface {
	// Heard takes what a call of a region states, before it is decided; nil: nothing. The reply goes with the answer;
	// nil: there is none yet. An error refuses the whole call, for the region as if nobody had answered.
	Heard(region string, s *reserve.Statement) (*reserve.Reply, error)
}

// hear passes on what a call of a region states.
func (s *Service) hear(x *exchange) (err error) {
	x.response.Reserve = nil
	if s.reserves == nil || x.request.Region == "" {
		return nil
	}
	if x.response.Reserve, err = s.reserves.Heard(x.request.Region, x.request.Reserve); err != nil {
		return &reserveError{err}
	}
	return nil
}

// reserveError is a call of a region that is refused because of what it states, or because nothing can be decided.
type reserveError struct{ err error }

func (e *reserveError) Error() string { return e.err.Error() }
func (e *reserveError) Unwrap() error { return e.err }

func (e *reserveError) code() connect.Code {
	var impossible *reserve.StatementError
	switch {
	case errors.As(e.err, &impossible):
		return connect.CodeInvalidArgument
	case errors.Is(e.err, reserve.ErrOtherRecord), errors.Is(e.err, reserve.ErrTooManyRegions):
		return connect.CodeFailedPrecondition
	}
	return connect.CodeUnavailable
}
