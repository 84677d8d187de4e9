package descriptor

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// metadata makes a value as yaml/v2 decodes it what [Rule.Metadata] promises; false: it cannot
// be, or has more than maxDepth levels.
func metadata(value any, depth int) (_ any, ok bool) {
	ok = depth <= maxDepth
	switch value := value.(type) {
	case int:
		return float64(value), ok
	case int64:
		return float64(value), ok
	case uint64:
		return float64(value), ok
	case float64:
		return value, ok && !math.IsInf(value, 0) && !math.IsNaN(value)
	case string:
		return value, ok && utf8.ValidString(value)
	case []any:
		for i := 0; ok && i < len(value); i++ {
			value[i], ok = metadata(value[i], depth+1)
		}
		return value, ok
	case map[any]any:
		fields := make(map[string]any, len(value))
		for name, below := range value {
			if fields[fmt.Sprint(name)], ok = metadata(below, depth+1); !ok {
				break
			}
		}
		return fields, ok
	}
	return value, ok // null or a boolean
}
