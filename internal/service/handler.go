package service

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// Handler serves the QuotaService: Connect, gRPC and gRPC-Web by connect-go. What
// filters send, Acquire by plain POST of application/proto, is served by the small
// codec instead, into memory that is used again: with the protobuf runtime a call
// costs several times as much.
type Handler struct {
	service *Service
	connect http.Handler
	errors  *connect.ErrorWriter
	seconds telemetry.Histogram
	// authorize is as in [Handler.Authorize]; nil: all calls are allowed.
	authorize func(*tls.ConnectionState, string) error
	inFlight  *membudget.InFlight[sourceName]
	calls     sync.Pool // of *call
}

// NewHandler makes the handler of a service. Latencies go to r; nil: nowhere.
func NewHandler(s *Service, r *telemetry.Registry) *Handler {
	r = cmp.Or(r, telemetry.NewRegistry(""))
	h := &Handler{
		service:  s,
		errors:   connect.NewErrorWriter(),
		inFlight: membudget.NewInFlight[sourceName](s.config.MaxCallBytes),
		calls:    sync.Pool{New: func() any { return new(call) }},
		seconds:  r.Histogram("weir_acquire_seconds", "Time to answer a call of Acquire, from its headers to its reply.", telemetry.Doubling(16e-6, 16)),
	}
	_, h.connect = quotav1connect.NewQuotaServiceHandler(rpc{h, s}, connect.WithReadMaxBytes(wire.MaxMessage),
		connect.WithCodec(codec{}), connect.WithCompression("gzip", nil, nil)) // a message is as large as what is read of it
	return h
}

// Authorize makes the handler reject calls of Acquire for which allowed returns an error. It
// gets the connection of a call, nil without TLS, and the region that the call states. It must
// be called before the first call is served.
func (h *Handler) Authorize(allowed func(caller *tls.ConnectionState, region string) error) {
	h.authorize = allowed
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	begin, acquire := time.Now(), r.URL.Path == quotav1connect.QuotaServiceAcquireProcedure
	c := h.calls.Get().(*call)
	*c = call{ReadCloser: r.Body, origin: origin{r.RemoteAddr, r.TLS}, in: h.inFlight, json: strings.Contains(r.Header.Get("Content-Type"), "json")}
	c.name, r.Body = c.source(), c
	defer func() {
		r.Body = c.ReadCloser
		c.end()
		h.calls.Put(c)
	}()
	switch {
	case !c.take(streamBytes):
		h.service.rejectCall(errTooManyCalls, r.RemoteAddr)
		_ = h.errors.Write(w, r, coded(errTooManyCalls)) // the caller has gone
	case acquire && isPlain(r):
		h.acquire(w, r, c)
	default:
		h.connect.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
		if c.rejected {
			h.service.rejectCall(errTooManyCalls, r.RemoteAddr)
		}
	}
	if acquire {
		h.seconds.Observe(time.Since(begin).Seconds())
	}
}

// allowed rejects a call that may not state this region. Who rejected it logs that.
func (h *Handler) allowed(caller *tls.ConnectionState, region string) error {
	if h.authorize == nil {
		return nil
	}
	if err := h.authorize(caller, region); err != nil {
		return &rejection{fmt.Errorf("certificate: %w", err), connect.CodePermissionDenied, false}
	}
	return nil
}

const contentProto = "application/proto"

var contentTypeProto = []string{contentProto}

// isPlain reports whether a request is in the one form that needs no runtime.
func isPlain(r *http.Request) bool {
	return r.Method == http.MethodPost && r.Header.Get("Content-Type") == contentProto &&
		r.Header.Get("Content-Encoding") == ""
}

func (h *Handler) acquire(w http.ResponseWriter, r *http.Request, c *call) {
	x := h.service.calls.Get().(*exchange)
	defer h.service.release(x)
	if err := h.answer(r, c, x); err != nil {
		h.service.rejectCall(err, r.RemoteAddr)
		_ = h.errors.Write(w, r, coded(err)) // the caller has gone
		return
	}
	w.Header()["Content-Type"] = contentTypeProto
	_, _ = w.Write(x.out)
}

// answer decodes, asks and encodes.
func (h *Handler) answer(r *http.Request, c *call, x *exchange) (err error) {
	patience := engine.DefaultPatience
	if text := r.Header.Get("Connect-Timeout-Ms"); text != "" {
		ms, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return wrong("Connect-Timeout-Ms", "%q, must be a number of milliseconds of at most 10 digits", text)
		}
		patience = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := inTime(r.Context(), patience)
	defer cancel()
	if x.in, err = readBody(r, x.in[:0]); err != nil {
		return err
	}
	return h.exchange(ctx, x, c.origin, r.Header)
}

// exchange answers the encoded call in x.in with x.out.
func (h *Handler) exchange(ctx context.Context, x *exchange, from origin, header http.Header) error {
	if err := x.request.Decode(x.in); err != nil {
		return &rejection{err, connect.CodeInvalidArgument, true}
	}
	if err := h.allowed(from.secure, x.request.Region); err != nil {
		return err
	}
	x.origin, x.parent, x.retried = from, parent(header), retried(header)
	if err := h.service.acquire(ctx, x); err != nil {
		return err
	}
	x.out = x.response.Append(x.out[:0])
	return nil
}

// parent is the traceparent header of a call; empty: it has none.
func parent(h http.Header) string {
	if values := h["Traceparent"]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// retried reports whether an Envoy states that it sends a call again: another process may have
// applied it. The first attempt has number 1.
func retried(h http.Header) bool {
	n := h.Get("X-Envoy-Attempt-Count")
	return n != "" && n != "1"
}

// readBody reads a request's body, of at most wire.MaxMessage bytes, behind dst.
func readBody(r *http.Request, dst []byte) ([]byte, error) {
	if r.ContentLength > wire.MaxMessage {
		return dst, tooLong(r.ContentLength)
	}
	dst = slices.Grow(dst, int(min(max(r.ContentLength+1, 512), streamBytes/2))) // what is stated may never come
	for {
		n, err := r.Body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case err == io.EOF:
			return dst, nil
		case errors.Is(err, errTooManyCalls):
			return dst, errTooManyCalls
		case err != nil:
			return dst, &rejection{fmt.Errorf("body: not received whole: %w", err), connect.CodeCanceled, false}
		case len(dst) > wire.MaxMessage:
			return dst, tooLong(int64(len(dst)))
		case len(dst) == cap(dst):
			dst = slices.Grow(dst, len(dst))
		}
	}
}

func tooLong(n int64) error {
	return wrong("body", "%d bytes or more, at most %d: ask in several calls", n, wire.MaxMessage)
}

// coded gives an error of a call its code on the wire.
func coded(err error) error {
	var r *rejection
	if errors.As(err, &r) {
		return connect.NewError(r.code, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

// rpc is the service in the form that connect-go calls.
type rpc struct {
	handler *Handler
	service *Service
}

var errNoRules = errors.New("rules: none are loaded yet; ask again when the region is ready")

// answerTo sends an answer, or the error, which is counted.
func answerTo[A any](p rpc, r connect.AnyRequest, answer *A, err error) (*connect.Response[A], error) {
	if err != nil {
		p.service.rejectCall(err, r.Peer().Addr)
		return nil, coded(err)
	}
	return connect.NewResponse(answer), nil
}

// Acquire answers a call in any other encoding. It goes through the one codec, too: a field that is new is new there
// alone.
func (p rpc) Acquire(ctx context.Context, r *connect.Request[quotav1.AcquireRequest]) (*connect.Response[quotav1.AcquireResponse], error) {
	x := p.service.calls.Get().(*exchange)
	defer p.service.release(x)
	ctx, cancel := inTime(ctx, patience(ctx))
	defer cancel()
	var err error
	if x.in, err = (proto.MarshalOptions{}).MarshalAppend(x.in[:0], r.Msg); err == nil {
		err = p.handler.exchange(ctx, x, ctx.Value(callKey{}).(*call).origin, r.Header())
	}
	answer := new(quotav1.AcquireResponse)
	if err == nil {
		err = proto.Unmarshal(x.out, answer)
	}
	return answerTo(p, r, answer, err)
}

// Slot answers a call of a request for its slots.
func (p rpc) Slot(ctx context.Context, r *connect.Request[quotav1.SlotRequest]) (*connect.Response[quotav1.SlotResponse], error) {
	ctx, cancel := inTime(ctx, patience(ctx))
	defer cancel()
	ctx, span := p.service.serve(ctx, quotav1connect.QuotaServiceSlotProcedure, parent(r.Header()), nil)
	defer span.End()
	answer, err := p.service.slot(ctx, r.Msg)
	if err != nil {
		telemetry.Fail(span, err)
	}
	return answerTo(p, r, answer, err)
}

// Rules sends the compiled rules, unless the holder has them.
func (p rpc) Rules(ctx context.Context, r *connect.Request[quotav1.RulesRequest]) (*connect.Response[quotav1.RulesResponse], error) {
	protocol, ok := wire.Common(r.Msg.GetProtocol(), r.Msg.GetProtocolMax())
	if !ok {
		return nil, coded(otherProtocol(r.Msg.GetProtocol(), r.Msg.GetProtocolMax()))
	}
	rules := p.service.rules.Load()
	if rules.version == "" {
		return nil, connect.NewError(connect.CodeUnavailable, errNoRules)
	}
	out := &quotav1.RulesResponse{Protocol: protocol, RulesVersion: rules.version, RulesRevision: rules.revision, WatchMs: p.service.watchMs()}
	if rules.version != r.Msg.GetHaveVersion() {
		if !ctx.Value(callKey{}).(*call).take(int64(len(rules.encoded))) {
			return nil, coded(errTooManyCalls)
		}
		out.Rules = rules.encoded
	}
	if rules.secret != nil && r.Msg.GetHaveSecret() != rules.fingerprint {
		out.Secret = rules.secret[:]
	}
	return connect.NewResponse(out), nil
}
