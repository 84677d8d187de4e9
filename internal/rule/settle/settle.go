// Package settle says which responses a rule with count counts, and what a request has cost by its response. It is pure.
package settle

import "slices"

// Count selects the responses that a rule counts: those with one of these statuses. A request needs its cost as any other,
// which is a reservation until its response settles it: if the response does not count, the units are available again. The
// zero value counts every request, whatever its response is.
type Count struct {
	// Status are statuses of HTTP, 200 to 599, and classes, 2 to 5, of which 5 is 5xx.
	Status []int
	// GRPCStatus are statuses of gRPC, 0 to 16.
	GRPCStatus []int
}

// ByResponse reports whether the response decides if a request counts.
func (c *Count) ByResponse() bool { return len(c.Status)+len(c.GRPCStatus) > 0 }

// Response is what decides whether a request counts. The zero value is that of a request without one, which does not count.
type Response struct {
	// Upstream is false if Envoy or one of its filters made the response, which never counts.
	Upstream   bool
	Status     int // of HTTP
	GRPCStatus int // NoGRPCStatus: it has none
	// Trailers is true if trailers may follow, which may have a GRPCStatus.
	Trailers bool
	// Cost returns what the response states as the cost; empty: nothing. Not known: it may do so until Ends. nil: nothing is
	// known.
	Cost func(*Actual) (text string, known bool)
	Ends bool // the stream has ended
}

// NoGRPCStatus is the GRPCStatus of a response that states none.
const NoGRPCStatus = -1

// Settle reports whether a response counts. It is not settled while its trailers may decide that.
func (c *Count) Settle(r *Response) (counts, settled bool) {
	if !c.ByResponse() {
		return true, true
	}
	counts = r.Upstream && (slices.Contains(c.Status, r.Status) || slices.Contains(c.Status, r.Status/100) || slices.Contains(c.GRPCStatus, r.GRPCStatus))
	undecided := r.Upstream && r.Trailers && r.GRPCStatus == NoGRPCStatus && len(c.GRPCStatus) > 0
	return counts, counts || !undecided
}

// Settle returns what a request has cost that took so many units. It is not settled while the response may state that. A
// response that states nothing, or no whole number, leaves it at the units taken: then missing is true.
func (a *Actual) Settle(r *Response, taken int64) (units int64, settled, missing bool) {
	if !a.Stated() {
		return taken, true, false
	}
	if r.Cost == nil {
		return taken, r.Ends, r.Ends
	}
	text, known := r.Cost(a)
	if units, ok := a.Units(text); known && ok {
		return units, true, false
	}
	return taken, known || r.Ends, known || r.Ends
}

// Classes are the words for classes of statuses, by their numbers in [Count].
var Classes = [...]string{2: "2xx", 3: "3xx", 4: "4xx", 5: "5xx"}
