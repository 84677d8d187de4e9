package live

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/wire"
)

// bounds are the bytes that texts of a report have at most, and the most of numbers whose bound is not most, by the names
// of their fields in quota.proto.
var bounds = map[protoreflect.Name]uint64{
	"holder": 16, "pop": wire.MaxPop, "name": wire.MaxPop, "region": 64, "version": wire.MaxVersion,
	"rules_version": wire.MaxVersion, "error": wire.MaxProblem, "redis": wire.MaxProblem,
	"rule": wire.MaxRuleName, "override": 64, "key": 128,
	"worker": 1<<64 - 1, "rules_revision": 1<<64 - 1,
	"reserve_per_mille": 1000, "remaining": uint64(wire.MaxUnits),
}

// most bounds every number of a report, so that what one holder makes up does not make that of a region illegal.
const most = 1<<53 - 1

// sum adds two numbers of reports.
func sum(a, b uint64) uint64 { return min(a+b, most) }

// check is an error if anything of a report is out of its bounds.
func check(m *quotapb.ReportRequest) error {
	if size := proto.Size(m); size > wire.MaxReport {
		return fmt.Errorf("report: it has %d bytes, at most %d", size, wire.MaxReport)
	}
	if f := beyond(m.ProtoReflect()); f != nil {
		return fmt.Errorf("%s: it is out of its bounds, which quota.proto has", f.FullName())
	}
	return nil
}

// beyond is the first field of a message that is out of its bounds; nil: there is none.
func beyond(m protoreflect.Message) (wrong protoreflect.FieldDescriptor) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		ok, bound := true, bounds[f.Name()]
		switch f.Kind() {
		case protoreflect.MessageKind:
			list := v.List()
			ok = list.Len() <= wire.MaxListed
			for i := 0; ok && wrong == nil && i < list.Len(); i++ {
				wrong = beyond(list.Get(i).Message())
			}
		case protoreflect.EnumKind:
			ok = f.Enum().Values().ByNumber(v.Enum()) != nil
		case protoreflect.StringKind:
			ok = uint64(len(v.String())) <= bound
		case protoreflect.BytesKind:
			ok = uint64(len(v.Bytes())) <= bound
		default:
			if bound == 0 {
				bound = most
			}
			ok = v.Uint() <= bound
		}
		if !ok {
			wrong = f
		}
		return wrong == nil
	})
	return wrong
}
