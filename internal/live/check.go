package live

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/wire"
)

// maxText bounds each text of a report, in bytes.
const maxText = wire.MaxProblem

// registers is the field that is longer than a text.
var registers = (*quotav1.TrialKeys)(nil).ProtoReflect().Descriptor().Fields().ByName("registers").FullName()

// most bounds sums of reports, so that what one holder makes up does not overflow those of all.
const most = 1<<53 - 1

// sum adds two numbers of reports.
func sum(a, b uint64) uint64 { return min(min(a, most)+min(b, most), most) }

// check is an error if a report, or one of its texts, is too long, or a number stands for nothing.
func check(m *quotav1.ReportRequest) error {
	if size := proto.Size(m); size > wire.MaxReport {
		return fmt.Errorf("report: it has %d bytes, at most %d", size, wire.MaxReport)
	}
	if f := beyond(m.ProtoReflect()); f != nil {
		return fmt.Errorf("%s: out of the bounds in quota.proto", f.FullName())
	}
	return nil
}

// beyond is the first field of a message that is out of its bounds; nil: there is none.
func beyond(m protoreflect.Message) (wrong protoreflect.FieldDescriptor) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		ok := true
		switch f.Kind() {
		case protoreflect.MessageKind:
			for i := 0; wrong == nil && i < v.List().Len(); i++ {
				wrong = beyond(v.List().Get(i).Message())
			}
		case protoreflect.EnumKind:
			ok = f.Enum().Values().ByNumber(v.Enum()) != nil
		case protoreflect.StringKind:
			ok = len(v.String()) <= maxText
		case protoreflect.BytesKind:
			ok = len(v.Bytes()) <= maxText || f.FullName() == registers && len(v.Bytes()) == distinct.Registers
		}
		if !ok {
			wrong = f
		}
		return wrong == nil
	})
	return wrong
}
