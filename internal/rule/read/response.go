package read

import (
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/rejection"
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
