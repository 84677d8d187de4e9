package twin

import (
	"slices"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// line is a difference that docs/ratelimit-service.md lists.
type line struct {
	name string // in bold there
	// turn makes of an answer of envoyproxy/ratelimit what Weir has to answer by this line.
	turn func(*exchange)
}

// lines apply one after the other.
var lines = []line{
	{"Quota mode", quotaOfToday},
	{"Limits in requests", keepRule},
	{"Charged rejections", chargeTwice},
	{"Checks", check},
	{costsNothing, chargeNothing},
	{"Other descriptors", remember},
	{"Dynamic metadata", nameRules},
}

// costsNothing is the line by which an answer may be another one a moment later.
const costsNothing = "Rejected requests"

// expect turns the answer into what Weir has to answer and returns the lines that had a part in it.
func (x *exchange) expect() (explained []string) {
	x.conclude()
	for _, l := range lines {
		before := proto.Clone(x.response)
		back := x.back()
		l.turn(x)
		x.conclude()
		if !slices.Equal(back, x.back()) || !proto.Equal(before, x.response) {
			explained = append(explained, l.name)
		}
	}
	return explained
}

// quotaOfToday is for envoyproxy/ratelimit before its #1059 and #1112: what is over a
// quota is no reason to reject there, not even if all quotas are.
func quotaOfToday(x *exchange) {
	fields := x.response.DynamicMetadata.GetFields()
	for _, at := range fields["quotaModeViolations"].GetListValue().GetValues() {
		st := x.response.Statuses[int(at.GetNumberValue())]
		st.Code, st.DurationUntilReset = overLimit, x.untilReset(st.CurrentLimit)
	}
	delete(fields, "quotaModeViolations")
	delete(fields, "quotaModeEnabled")
}

// keepRule leaves a rule its name, its mode and what it replaces. There a limit in
// a request is a rule of its own, that has none of these, on the same counter.
func keepRule(x *exchange) {
	any := func(ok func(*part) bool) bool {
		return slices.ContainsFunc(x.parts, func(p part) bool { return ok(&p) })
	}
	if !any(func(p *part) bool { return p.Limit != nil && p.charged }) {
		return
	}
	x.kept = true
	for i := range x.parts {
		p, st := &x.parts[i], x.response.Statuses[i]
		if p.rule == nil || !p.charged {
			continue
		}
		if any(func(other *part) bool { return other.rule != nil && other.rule.replaces(p.rule.RateLimit.Name) }) {
			x.response.Statuses[i] = &rlspb.RateLimitResponse_DescriptorStatus{Code: ok}
			p.charged, p.back = false, p.hits
			continue
		}
		st.CurrentLimit = proto.CloneOf(st.CurrentLimit)
		st.CurrentLimit.Name = p.rule.RateLimit.Name
		if p.rule.ShadowMode {
			st.Code = ok
		}
	}
}

// chargeNothing keeps what is charged, or not.
func chargeNothing(x *exchange) {
	denied := x.response.OverallCode == overLimit && !x.mode.chargesRejected()
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !x.mode.chargesRejected() && (denied || x.over(i)) {
			p.back = p.hits
		}
		if denied && p.charged && !x.over(i) {
			st.LimitRemaining = uint32(uint64(st.CurrentLimit.RequestsPerUnit) - x.first(p.key))
		}
	}
}

// check is over when nothing is left, unless the request itself charged its counter before. There it is only when more
// than the limit was used, which is never so where what is denied costs nothing.
func check(x *exchange) {
	if x.mode.chargesRejected() {
		return // chargeTwice has them
	}
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !p.charged || p.hits > 0 {
			continue
		}
		most, used := uint64(st.CurrentLimit.RequestsPerUnit), p.after
		p.spent = used == most && used == x.first(p.key)
		st.Code, st.LimitRemaining = ok, uint32(most-min(used, most))
		if x.over(i) && (p.rule == nil || !p.rule.ShadowMode) {
			st.Code = overLimit
		}
	}
}

// remember believes a replica about what else was left when it rejected a request
// without asking its store: more than there is, for it has not seen all.
func remember(x *exchange) {
	if x.mode.store == "memory" || x.mode.chargesRejected() || x.response.OverallCode != overLimit {
		return
	}
	all := x.mode.flags != "exact" // then it remembers all that it holds, or nothing
	for i, st := range x.response.Statuses {
		if i >= len(x.weir.response.GetStatuses()) || !x.parts[i].charged {
			continue
		}
		ours := x.weir.response.Statuses[i]
		left, most := ours.LimitRemaining, st.CurrentLimit.RequestsPerUnit
		if ours.Code == ok && left > st.LimitRemaining && left <= most && (left == most || !all) {
			st.Code, st.LimitRemaining = ok, left
		}
	}
}

// first is what a counter had before the request.
func (x *exchange) first(key string) uint64 {
	for i := range x.parts {
		if x.parts[i].key == key {
			return x.parts[i].counted
		}
	}
	return 0
}

func nameRules(x *exchange) {
	theirs := x.response.DynamicMetadata.GetFields()["descriptors"].GetListValue().GetValues()
	ours := x.weir.response.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues()
	for i := range min(len(theirs), len(ours)) {
		if name := ours[i].GetStructValue().GetFields()["rule"]; name != nil {
			theirs[i].GetStructValue().Fields["rule"] = structpb.NewStringValue(name.GetStringValue())
		}
	}
}

// chargeTwice is what a counter has where what is denied is charged: descriptors one after the other, beyond a limit at most the
// limit once more. There it goes on for ever, which a larger limit in a request shows.
func chargeTwice(x *exchange) {
	if !x.mode.chargesRejected() {
		return
	}
	used, granted := map[*counter]uint64{}, map[*counter]bool{} // the last charge of the request
	for i, st := range x.response.Statuses {
		p := &x.parts[i]
		if !p.charged {
			continue
		}
		limit := uint64(st.CurrentLimit.RequestsPerUnit)
		if _, met := used[p.counter]; !met {
			used[p.counter] = p.counted
		}
		before := used[p.counter]
		p.after, p.spent = before+p.hits, p.hits == 0 && before >= limit && !granted[p.counter]
		now := p.after
		st.Code, st.LimitRemaining = ok, uint32(limit-min(limit, p.after))
		if x.over(i) {
			now = charged(before, p.hits, limit)
			if p.rule == nil || !p.rule.ShadowMode {
				st.Code = overLimit
			}
		}
		if p.hits > 0 {
			granted[p.counter] = !x.over(i)
		}
		p.back, used[p.counter] = p.after-now, now
	}
}

// charged is what a counter has after a request that was denied by a limit.
func charged(before, hits, limit uint64) uint64 { return max(before, min(before+hits, 2*limit)) }
