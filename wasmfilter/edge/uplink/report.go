package uplink

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// reportTimeout is how long a report may take.
const reportTimeout lease.Millis = 1000

// Watch is what the region's answers say of somebody who watches the running system.
type Watch struct {
	Until lease.Millis // he does until then; past: nobody does any more; 0: nobody did
	Tap   *wire.Tap    // he wants to see these decisions; nil: none. What it points to does not change
}

// watched takes from an answer for how many milliseconds somebody watches. That it knows of
// nobody ends no watch: other replicas may.
func (u *Uplink) watched(now lease.Millis, ms uint32) {
	if ms > 0 {
		u.Watch.Until = max(u.Watch.Until, now+lease.Millis(min(ms, wire.LongestWatch)))
	}
}

// SendReport sends a report, beside all lanes and their breakers; none may be in flight.
func (u *Uplink) SendReport(m *wire.ReportRequest) {
	u.report = u.port.call(Call{Path: ReportPath, Body: m.Encode(), Timeout: reportTimeout})
}

// Reporting reports whether a report is in flight.
func (u *Uplink) Reporting() bool { return u.report != 0 }

// reported takes the end of a call; false if it was not a report. One that failed, or whose answer
// cannot be read, is dropped: body is nil then.
func (u *Uplink) reported(now lease.Millis, id uint64, body []byte) bool {
	if id == 0 || id != u.report {
		return false
	}
	u.report = 0
	var m wire.ReportResponse
	u.Lost = body == nil || m.Decode(body) != nil || !wire.Supported(m.Protocol)
	if u.Lost {
		return true
	}
	u.Watch = Watch{Until: now, Tap: m.Tap}
	u.watched(now, m.WatchMs)
	if t := m.Tap; t != nil {
		t.Key = append([]byte(nil), t.Key...)
	}
	return true
}
