package settings

import "testing"

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{"0": 0, "17": 17, "1kB": 1000, "2KiB": 2048, "3 MiB": 3 << 20, "4GB": 4e9, "5MB": 5e6, "1GiB": 1 << 30} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s: %d, %v; want %d", text, b, err, want)
		}
	}
	for b, want := range map[Bytes]string{0: "0", 17: "17", 1000: "1000", 3 << 10: "3KiB", 64 << 20: "64MiB", 1 << 50: "1048576GiB"} {
		if got := b.String(); got != want {
			t.Errorf("%d: %s, want %s", int64(b), got, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5GiB", "1TB", "99999999999GiB", "0x10"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, b)
		}
	}
}
