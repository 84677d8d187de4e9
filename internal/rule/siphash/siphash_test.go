package siphash_test

import (
	"encoding/hex"
	"testing"

	"github.com/weirlimit/weir/internal/rule/siphash"
)

// TestVectors: vectors_sip128 of the reference implementation, with the key 00 01 .. 0f, of the texts 00 01 02 .. of
// each length from 0.
func TestVectors(t *testing.T) {
	var key [16]byte
	for i := range key {
		key[i] = byte(i)
	}
	var text []byte
	for n, want := range []string{
		"a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45", "8177228da4a45dc7fca38bdef60affe4",
		"9c70b60c5267a94e5f33b6b02985ed51", "f88164c12d9c8faf7d0f6e7c7bcd5579", "1368875980776f8854527a07690e9627",
		"14eeca338b208613485ea0308fd7a15e", "a1f1ebbed8dbc153c0b84aa61ff08239", "3b62a9ba6258f5610f83e264f31497b4",
	} {
		sum := siphash.Sum(&key, text)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
		text = append(text, byte(n))
	}
}
