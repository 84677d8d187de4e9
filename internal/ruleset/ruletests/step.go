package ruletests

import (
	"regexp"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

const repeatForm = "5x, each when the one before is decided, or every 100ms for 10s: 1 to 1000000 requests"

var repeats = regexp.MustCompile(`^(?:([0-9]{1,7})x|every (\S+) for (\S+))$`)

// step reads a step, whose request is base but for what it states itself.
func (t *testReader) step(v strict.Value, base request.Request) {
	fields := stepFields
	if v.Field("fault").Present() {
		fields = faultFields
	}
	if !v.Object(fields...) {
		return
	}
	s := step{line: v.Node().Pos.Line, at: read.Duration(v.Field("at"), "31s"), count: 1, request: base}
	if s.at >= 0 && s.at < t.end {
		v.Field("at").Fail("goes back: the steps before last until " + rule.FormatPeriod(t.end) + "; write a later time, or leave it out")
	}
	t.end = max(t.end, s.at)
	if v.Field("fault").Present() {
		s.count, s.fault = 0, t.fault(v.Field("fault"))
		t.steps = append(t.steps, s)
		return
	}
	var pops []string
	for _, p := range t.pops {
		pops = append(pops, p.name)
	}
	s.pop, _ = v.Field("pop").OneOf("add it to pops, or ", pops)
	readRequest(v.Field("request"), &s.request)
	if s.request.Path == "" && v.Field("request").Ok() {
		v.FailName("request", "has no url; write "+requestForm+", here or for the whole test")
	}
	s.repeat(v.Field("repeat"))
	if s.lasts = max(0, read.Duration(v.Field("lasts"), "10s")); s.lasts > limit.Day {
		v.Field("lasts").Fail("is longer than 1d; write a shorter time")
	}
	s.response = readResponse(v.Field("response"))
	before, length := t.requests, limit.Micros(s.count-1)*s.every
	t.requests, t.end = t.requests+s.count, t.end+length
	switch {
	case before <= maxRequests && t.requests > maxRequests:
		v.Fail("is the request " + strconv.Itoa(t.requests) + " of the test; write at most " + strconv.Itoa(maxRequests) + " in all its steps")
	case t.end > maxTime && t.end-max(length, s.at) <= maxTime:
		v.Fail("goes on after " + rule.FormatPeriod(maxTime) + "; write earlier times")
	}
	expectReader{t, &s.expect}.read(v.Field("expect"))
	t.steps = append(t.steps, s)
}

const responseForms = "the status of the response, such as 401, or { status: 200, grpc_status: 16, cost: 1200 }"

// readResponse reads the response of the upstream; nil: there is none.
func readResponse(v strict.Value) *settle.Response {
	stated := ""
	r := &settle.Response{Upstream: true, Status: 200, GRPCStatus: settle.NoGRPCStatus, Ends: true}
	r.Cost = func(*settle.Actual) (string, bool) { return stated, true }
	status, grpc := v, v.Field("grpc_status")
	switch {
	case !v.Present():
		return nil
	case v.Kind() == strict.Object && v.Object(responseFields...):
		status = v.Field("status")
	case !v.Is(strict.Int, responseForms):
		return r
	}
	if status.Present() {
		n, _ := status.Int(check.CountedStatusRange.Low, check.CountedStatusRange.High)
		r.Status = int(n)
	}
	if grpc.Present() {
		n, _ := grpc.Int(check.CountedGRPCStatusRange.Low, check.CountedGRPCStatusRange.High)
		r.GRPCStatus = int(n)
	}
	if cost := v.Field("cost"); cost.Present() {
		n, _ := cost.Int(0, limit.MaxCount)
		stated = strconv.FormatInt(n, 10)
	}
	return r
}

// repeat reads how many requests come, and when.
func (s *step) repeat(v strict.Value) {
	if !v.Is(strict.String, repeatForm) {
		return
	}
	if m := repeats.FindStringSubmatch(v.Node().Text); m != nil {
		s.count, _ = strconv.Atoi(m[1])
		length, _ := rule.ParsePeriod(m[3])
		if every, _ := rule.ParsePeriod(m[2]); every > 0 && every <= length && (length-1)/every < maxRequests {
			s.count, s.every = int((length-1)/every)+1, every
		}
	} else {
		s.count = 0
	}
	if s.count < 1 || s.count > maxRequests {
		v.Fail(strict.Quote(v.Node().Text) + " is no way to repeat; write " + repeatForm)
		s.count = 1
	}
}

// fault reads what does not answer from a step on, or answers again.
func (t *testReader) fault(v strict.Value) (f fault) {
	var names []string
	var faults []fault
	for _, word := range []string{"down", "up"} {
		down := word == "down"
		for _, region := range t.regions {
			names = append(names, "region "+region+" "+word, "aggregator "+word+" for "+region)
			faults = append(faults, fault{false, region, down}, fault{true, region, down})
		}
		names, faults = append(names, "aggregator "+word), append(faults, fault{true, "", down})
	}
	if i, ok := v.OneOf("add a PoP of its region to pops, or ", names); ok {
		f = faults[i]
	}
	if f.aggregator && t.set != nil && (!t.divided || len(t.regions) < 2) {
		v.Fail("the test has no aggregator: that takes a rule with scope: global, and two regions; write region NAME down")
	}
	return f
}
