package settle

import "testing"

// A response counts if it came from the upstream and has one of the statuses, and nothing is settled while trailers may
// decide that.
func TestCount(t *testing.T) {
	http, grpc, both := Count{Status: []int{5, 401, 403}}, Count{GRPCStatus: []int{0, 16}}, Count{Status: []int{401}, GRPCStatus: []int{16}}
	from := func(status, grpcStatus int) Response {
		return Response{Upstream: true, Status: status, GRPCStatus: grpcStatus}
	}
	more := func(r Response) Response { r.Trailers = true; return r }
	for _, test := range []struct {
		of              Count
		response        Response
		counts, settled bool
	}{
		{http, from(401, NoGRPCStatus), true, true},
		{http, from(402, NoGRPCStatus), false, true},
		{http, from(500, NoGRPCStatus), true, true},
		{http, from(599, NoGRPCStatus), true, true},
		{http, from(200, 16), false, true},
		{http, from(101, NoGRPCStatus), false, true},
		{http, more(from(200, NoGRPCStatus)), false, true},
		{http, Response{Status: 401, GRPCStatus: NoGRPCStatus}, false, true},
		{http, Response{}, false, true},
		{grpc, from(200, 16), true, true},
		{grpc, from(200, 0), true, true},
		{grpc, from(200, 7), false, true},
		{grpc, from(200, NoGRPCStatus), false, true},
		{grpc, more(from(200, NoGRPCStatus)), false, false},
		{grpc, more(from(200, 7)), false, true},
		{grpc, Response{Trailers: true, Status: 504, GRPCStatus: NoGRPCStatus}, false, true},
		{grpc, Response{}, false, true}, // status 0 is none here: no upstream answered
		{both, more(from(401, NoGRPCStatus)), true, true},
		{both, more(from(403, NoGRPCStatus)), false, false},
	} {
		counts, settled := test.of.Settle(&test.response)
		if counts != test.counts || settled != test.settled {
			t.Errorf("%v of %+v: counts %v, settled %v", test.of, test.response, counts, settled)
		}
	}
}
