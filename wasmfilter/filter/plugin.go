package filter

import (
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/response"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// tickEvery is the period of ticks in ms, while no request that has a verdict waits for one.
const tickEvery = 100

// plugin is one configuration of the filter in one VM.
type plugin struct {
	vm      *VM
	host    Host
	context uint32 // the host's number of it; a newer one has a larger one
	name    string // in the bootstrap; listeners with different configurations need different names
	cfg     rulebook.Config
	worker  *edge.Worker
	in      rule.Request
	inputs  *rule.Inputs       // of the rules that in is laid out for
	wanted  Wanted             // the headers that they look at
	known   properties         // of the request, beside its headers
	wall    limit.Micros       // the time of day at the last tick
	ticked  lease.Millis       // when the worker did what is due at a tick
	period  uint32             // of ticks, in ms; 0: not set yet
	missed  bool               // no rule applied to the last request
	current uint32             // stream that waits since a moment ago, while its callback runs; 0: none
	calls   map[uint32]uint64  // the host's id of a call in flight to the worker's
	last    response.Rejection // that maker and headers hold, for a flood gets it again; zero: it is none
	open    bool               // the request whose callback runs has no verdict yet
	stream  *stream            // of that request, once the rules that apply to it are known
	headers headerMap
	maker   response.Maker
	stats   stats
	serving serving
	logged  [complaints]string // the last of each kind, so that it is not repeated

	// Envoy configures plugins, on its main thread, before it has its clusters: that no
	// call can be made then is not an error.
	configuring bool
	// Envoy resets the call whose callback runs: see after.
	resetting bool
}

// newPlugin makes a plugin of a configuration. The last good one of its name takes the place of one with a mistake, and
// of one on which the filter has panicked before.
func newPlugin(m *VM, context uint32, text []byte, panicked bool) *plugin {
	p := &plugin{vm: m, host: m.host, context: context, name: strings.Clone(m.host.PluginName()), calls: map[uint32]uint64{}}
	cfg, mistake := rulebook.Config{}, "the filter panicked when it read it"
	if !panicked {
		var err error
		if cfg, err = rulebook.ReadConfig(text); err == nil {
			mistake = ""
			m.panics.configure(cfg.Labels)
		} else {
			mistake = err.Error()
		}
	}
	if mistake != "" {
		if good, ok := m.good[p.name]; ok {
			cfg = good
		}
		cfg.Error = "the plugin configuration, a JSON object, cannot be used: " + mistake
	}
	p.cfg = cfg
	p.wall = m.host.Wall()
	store := m.host.Store(identity(p.name, &cfg))
	p.worker = edge.New(cfg, store, m.host.Entropy(), m.host.Now(), p.wall)
	p.worker.Trace = p.host.Span
	p.maker.Headers, p.maker.TimeOfDay = cfg.Headers, p.worker.DecidedAt
	p.known.host = m.host
	p.in.Fetch, p.in.PoP = &p.known, &rule.PoP{Region: cfg.Region, Labels: cfg.Labels}
	p.stats.define(m.host)
	p.serving.read(store, cfg.Hash)
	if mistake == "" {
		m.good[p.name] = cfg
	}
	return p
}

// decide takes a stream through the rules.
func (p *plugin) decide(context uint32) (pause bool) {
	p.open, p.stream = true, nil
	p.vm.panics.arm(p.host)
	p.vm.panics.at("on_request_headers")
	p.serving.note(p.host)
	if !p.read() {
		return false
	}
	p.missed = !p.worker.Match(&p.in)
	if p.missed {
		p.open = false
		if by := p.worker.Exempt(); by != "" {
			p.missed = false // the next is likely exempt, too, which its path alone does not show
			p.reportExempt(by)
		}
		return false
	}
	now, s := p.host.Now(), p.vm.acquire(p)
	s.request.Stream = context
	p.stream = s
	switch p.worker.Decide(now, &s.request) {
	case edge.Deny:
		p.reject(&s.request)
		p.open, pause = false, true
		p.worker.End(now, &s.request)
		p.vm.release(s)
		p.after()
		return pause
	case edge.Wait:
		p.vm.streams.add(s)
		p.open, pause = false, true
		p.current = context
		p.after()
		p.current = 0
		pause = s.request.Outcome != edge.Admit
		p.pace(now)
		return pause
	}
	p.vm.panics.at("decided")
	p.report(&s.request)
	p.open = false
	if p.annotatesLater(&s.request) || s.request.Holds() {
		p.vm.streams.add(s)
	} else {
		p.vm.release(s)
	}
	p.after()
	return false
}

// fallBack decides a request on which the filter has panicked, by on_failure; s is nil if the rules that apply to it are not
// known, and before_rules decides. It calls nothing that may be the cause. True if the request is rejected.
func (p *plugin) fallBack(s *stream) (rejected bool) {
	defer p.vm.recovered("on_failure")
	p.open = false
	var r *edge.Request
	if s != nil {
		r = &s.request
	}
	status := p.worker.Panicked(r)
	if status != 0 {
		rejected = true
		p.respondPlainly(status)
	}
	if r != nil {
		p.worker.Abandon(p.host.Now(), r)
		if r.Outcome = edge.Admit; rejected {
			r.Outcome = edge.Deny
		}
	}
	return rejected
}

// read fetches what the rules look at: all headers in one call, unless they need
// nothing but one pseudo header, of which there is only one. The call for a single
// header returns the first of several of a name, and the others would be missed.
// Where the last request was one of no rule, the next is likely one, too: its path comes
// alone, and false means that no rule applies to it.
func (p *plugin) read() bool {
	inputs := p.worker.Inputs()
	if inputs == nil {
		return true
	}
	if inputs != p.inputs {
		p.inputs, p.wanted = inputs, wantedBy(inputs)
		p.known.lookFor(inputs, p.cfg.JWTPayload)
	}
	p.known.kept = p.known.kept[:0]
	p.reset()
	wanted := inputs.Headers
	if len(wanted) == 0 {
		return true
	}
	if len(wanted) == 1 && wanted[0][0] == ':' {
		p.readOne(wanted[0])
		return true
	}
	if p.missed && inputs.ByPath {
		if p.readOne(":path") && p.worker.Excludes(&p.in) {
			return false
		}
		p.reset()
	}
	p.host.AddHeaders(&p.in, &p.wanted)
	return true
}

// reset begins a request. The time of day at a tick is near enough for conditions that end.
func (p *plugin) reset() {
	p.in.Reset(p.inputs)
	p.in.Now = p.wall
}

// readOne fetches a pseudo header; false if the request has none.
func (p *plugin) readOne(name string) bool {
	value, ok := p.host.Header(name)
	if ok {
		p.in.Add(p.inputs, name, value)
	}
	return ok
}

// after does what the worker wants done: calls are made, and requests that waited
// are among those that are decided. A call that cannot be made may lead to others. While Envoy resets one, for an
// answer that is not as long as it promised, none is made: it would go out on the same
// connection, whose codec is not done with the old one, and frees that twice (1.40). The
// next callback makes it, a tick later at the latest.
func (p *plugin) after() {
	for !p.resetting && len(p.worker.Calls) > 0 {
		calls := p.worker.Calls
		p.worker.Calls = nil
		for i := range calls {
			p.dispatch(&calls[i])
		}
	}
	for i, r := range p.worker.Decided {
		if r == nil { // taken before a panic
			continue
		}
		p.worker.Decided[i] = nil
		if r.Stream == p.current {
			p.finish(r)
		} else if !p.host.Wake(r.Stream) {
			p.vm.decided = append(p.vm.decided, r.Stream)
		}
	}
	p.worker.Decided = p.worker.Decided[:0]
}

// finish lets a request that waited go on, or rejects it. The one whose callback
// runs goes on by what that returns. After a panic, on_failure decides.
func (p *plugin) finish(r *edge.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			p.vm.panicked("on_scheduled", cause)
			p.host.Effective(r.Stream)
			if s := p.vm.streams.find(r.Stream); s != nil && !p.fallBack(s) && r.Stream != p.current {
				p.host.Resume()
			}
		}
	}()
	p.stats.waited(p.host, r.Waited)
	p.host.Effective(r.Stream)
	p.vm.panics.at("on_scheduled")
	if r.Outcome == edge.Deny {
		p.reject(r)
		return
	}
	p.report(r)
	if r.Stream != p.current {
		p.host.Resume()
	}
}

// dispatch makes a call.
func (p *plugin) dispatch(c *uplink.Call) {
	if p.cfg.RegionCluster == "" { // its configuration cannot be read, which was logged
		p.worker.Failed(p.host.Now(), c.ID, uplink.CallFailed)
		return
	}
	if len(p.vm.plugins) > 1 { // the stream whose callback runs may belong to another
		p.host.Effective(p.context)
	}
	headers := callHeaders(&p.cfg, c)
	id, ok := p.host.Call(p.cfg.RegionCluster, headers, c.Body, c.Timeout)
	if ok {
		p.calls[id] = c.ID
	} else {
		p.failed(c.ID)
	}
}

// failed ends a call that could not be made.
func (p *plugin) failed(call uint64) {
	if !p.configuring {
		p.complain(aboutCalls, "no call can be made to the Envoy cluster "+p.cfg.RegionCluster+
			" (region_cluster): there is no such cluster, or it has no hosts, or its circuit breaker is open")
	}
	p.worker.Failed(p.host.Now(), call, uplink.CallFailed)
}

// notMade is answer for a call that the host could not make after all.
func (p *plugin) notMade(id uint32) {
	call, ok := p.calls[id]
	if !ok {
		return
	}
	delete(p.calls, id)
	p.failed(call)
	p.after()
	p.vm.finishSome()
	p.pace(p.host.Now())
}

// mostOfAnswer is how many bytes of an answer that rejects a call are logged: it
// contains what is wrong.
const mostOfAnswer = 300

// answer takes the answer to a call. Envoy answers 503 itself when the region
// cannot be reached, and 504 when it does not answer in time; it does
// not report that an answer ended before it was whole.
func (p *plugin) answer(id uint32, bodySize int) {
	call, ok := p.calls[id]
	if !ok {
		return
	}
	delete(p.calls, id)
	now := p.host.Now()
	defer p.worker.Failed(now, call, uplink.CallFailed) // nothing, unless a panic keeps it from ending otherwise
	p.vm.panics.at("on_http_call_response")
	status, body := p.host.Answer(bodySize)
	switch status {
	case "200":
		p.worker.Reply(now, call, body)
	case "504":
		p.worker.Failed(now, call, uplink.CallTimedOut)
	case "503":
		p.worker.Failed(now, call, uplink.CallFailed)
	case "":
		p.complain(aboutAnswers, "an answer of the Envoy cluster "+p.cfg.RegionCluster+" (region_cluster) ended before it was whole")
		p.resetting = true
		defer func() { p.resetting = false }()
		p.worker.Failed(now, call, uplink.CallFailed)
	default:
		remedy := "make sure that it leads to weir-regional"
		if status == "403" {
			remedy = "give this PoP a certificate for a name that the region allows (--tls-client-san)"
		}
		p.complain(aboutAnswers, "the Envoy cluster "+p.cfg.RegionCluster+" (region_cluster) answers a call with HTTP status "+status+
			" and "+strconv.Quote(string(body[:min(len(body), mostOfAnswer)]))+"; "+remedy)
		p.worker.Failed(now, call, uplink.CallFailed)
	}
	if e := p.worker.AnswerError; e != "" {
		p.complain(aboutAnswers, e)
		p.worker.AnswerError = ""
	}
	p.after()
	p.vm.finishSome()
	p.pace(now)
}

func (p *plugin) tick() {
	now := p.host.Now()
	if p.period == tickEvery || now >= p.ticked+tickEvery {
		p.upkeep(now)
	}
	p.vm.finishSome()
	p.pace(now)
}

// upkeep is what is due every tickEvery. After a panic, streams are finished all the same.
func (p *plugin) upkeep(now lease.Millis) {
	defer p.vm.recovered("on_tick")
	p.ticked, p.wall = now, p.host.Wall()
	p.vm.panics.at("on_tick")
	p.worker.Tick(now, p.wall)
	p.after()
	p.stats.flush(p, now)
	p.host.Collect()
	if e := p.worker.Rules().Error; e != "" {
		p.complain(aboutConfig, e)
	}
}

// complaint is what a complaint is about.
type complaint int

const (
	aboutConfig complaint = iota
	aboutCalls
	aboutAnswers
	complaints
)

// complain logs what an operator has to change, once.
func (p *plugin) complain(about complaint, message string) {
	p.worker.Problem(p.host.Now(), message)
	if message != p.logged[about] {
		p.logged[about] = message
		p.host.Log(LogError, "weir: "+message)
	}
}
