package service

import (
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
)

// decode reads a call that came in another encoding than application/proto. The generated
// message goes through the one codec: a field that is new is new there alone.
func (x *exchange) decode(m *quotapb.AcquireRequest) (err error) {
	if x.in, err = (proto.MarshalOptions{}).MarshalAppend(x.in[:0], m); err != nil {
		return err
	}
	return x.request.Decode(x.in)
}

// message is the answer in the generated form.
func (x *exchange) message() (*quotapb.AcquireResponse, error) {
	x.out = x.response.Append(x.out[:0])
	m := new(quotapb.AcquireResponse)
	return m, proto.Unmarshal(x.out, m)
}
