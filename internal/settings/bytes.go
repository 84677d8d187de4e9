package settings

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bytes is a number of bytes. It reads "1048576", "1024KiB", "1MiB", "1GiB" and
// the powers of ten "kB", "MB" and "GB".
type Bytes int64

var byteUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"", 1},
}

var errBytes = errors.New("must be a whole number of bytes, KiB, MiB, GiB, kB, MB or GB, such as 512MiB")

// String is the number in the largest power of 1024 that divides it.
func (b Bytes) String() string {
	for _, unit := range slices.Backward(byteUnits[:3]) {
		if b != 0 && int64(b)%unit.bytes == 0 {
			return fmt.Sprint(int64(b)/unit.bytes, unit.suffix)
		}
	}
	return fmt.Sprint(int64(b))
}

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	for _, unit := range byteUnits {
		number, ok := strings.CutSuffix(string(text), unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > (1<<62)/unit.bytes {
			return errBytes
		}
		*b = Bytes(n * unit.bytes)
		return nil
	}
	return errBytes
}
