package read

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// headers reads off, or the forms of headers: a list, or one alone.
func headers(v strict.Value) (h rule.Headers) {
	if v.Kind() == strict.String {
		i, _ := v.Enum(append([]string{"off"}, rule.HeaderWords[:]...)...)
		return [...]rule.Headers{rule.HeadersOff, 1, 2, 4}[i]
	}
	const want = "off, or a list such as [draft, x-unix]"
	items := v.List(len(rule.HeaderWords), want)
	if v.Kind() == strict.List && len(items) == 0 {
		v.Fail("is empty; write " + want)
	}
	for _, item := range items {
		if i, ok := item.Enum(rule.HeaderWords[:]...); ok {
			h |= 1 << i
		}
	}
	return h
}

// rejectionForm reads what a rejected request gets.
func rejectionForm(v strict.Value) (f rejection.Form) {
	if !v.Object(rejectionFields...) {
		return f
	}
	f.Status = int(integer(v.Field("status"), check.RejectionStatusRange))
	f.GRPCStatus = int(integer(v.Field("grpc_status"), check.GRPCStatusRange))
	f.Body, _ = v.Field("body").String("a text in quotes")
	f.ContentType, _ = v.Field("content_type").String(check.ContentTypeForms)
	return f
}

const (
	countForms  = "the responses that count, such as { status: [401, 403] }"
	statusForms = "a list of statuses and classes, such as [401, 403, 5xx]"
	statusForm  = "a status from 200 to 599, such as 401, or a class: 2xx, 3xx, 4xx or 5xx"
	grpcForms   = "a list of statuses of gRPC, such as [7, 16]"
)

// count reads which responses count.
func count(v strict.Value) (c settle.Count) {
	if !v.Is(strict.Object, countForms) || !v.Object(countFields...) {
		return c
	}
	for _, item := range statuses(v.Field("status"), statusForms) {
		class, in := 0, check.CountedStatusRange
		if item.Kind() == strict.String {
			class = slices.Index(settle.Classes[:], item.Node().Text)
		}
		switch n, _ := strconv.Atoi(item.Node().Text); {
		case class > 0:
			c.Status = append(c.Status, class)
		case item.Kind() == strict.Int && in.Low <= int64(n) && int64(n) <= in.High:
			c.Status = append(c.Status, n)
		default:
			item.Fail(strict.Quote(item.Node().Text) + " is no status of a response; write " + statusForm)
		}
	}
	for _, item := range statuses(v.Field("grpc_status"), grpcForms) {
		if n := integer(item, check.CountedGRPCStatusRange); item.Ok() {
			c.GRPCStatus = append(c.GRPCStatus, int(n))
		}
	}
	if v.Ok() && !c.ByResponse() {
		v.Fail("has no status; write " + countForms + ", or leave it out")
	}
	return c
}

const (
	estimateForms = "a number of units, or { header: x-max-tokens, default: 500, max: 8000 }"
	actualForms   = "where the response states the cost: { header: x-tokens-used }, { trailer: x-tokens-used }, { metadata: { namespace: io.envoy.ai_gateway, key: llm_total_token } } or { body: usage.total_tokens }"
)

// settled reads a cost that the response settles.
func (d *reader) settled(v strict.Value) (c rule.Cost) {
	if !v.Object(settledFields...) {
		return c
	}
	estimate, actual := v.Field("estimate"), v.Field("actual")
	if estimate.Require(estimateForms) {
		c = d.stated(estimate, estimateForms)
	}
	if actual.Require(actualForms) && actual.Is(strict.Object, actualForms) && actual.Object(settle.Words[:]...) {
		c.Actual = source(actual)
	}
	if most := v.Field("max"); most.Require("the most that a response may state") {
		c.Actual.Max = integer(most, check.CostRange)
	}
	c.Actual.MaxStream = period(v.Field("max_stream"), "10m")
	return c
}

// source reads where a response states the cost.
func source(v strict.Value) (a settle.Actual) {
	stated := 0
	for from, word := range settle.Words {
		name := v.Field(word)
		if !name.Present() {
			continue
		}
		stated++
		if a.From = settle.From(from); a.From == settle.FromMetadata {
			a.Name = metadata(name).Name
		} else {
			a.Name, _ = name.String("a name")
		}
	}
	if stated != 1 && v.Ok() {
		v.Fail("has " + strconv.Itoa(stated) + " sources; write one of header, trailer, metadata and body")
	}
	return a
}

// statuses reads a list that is not empty.
func statuses(v strict.Value, want string) []strict.Value {
	items := v.List(rule.MaxAlternatives, want)
	if v.Kind() == strict.List && len(items) == 0 && v.Ok() {
		v.Fail("is empty; write " + want + ", or leave it out")
	}
	return items
}
