package wire

import "testing"

func TestCommon(t *testing.T) {
	for _, c := range []struct {
		oldest, newest, ownOldest, ownNewest uint32
		want                                 uint32 // 0: none
	}{
		{1, 0, 1, 1, 1}, // one version alone
		{1, 1, 1, 1, 1},
		{1, 2, 1, 1, 1}, // rolled: the holder first
		{1, 0, 1, 2, 1}, // the granter first
		{1, 1, 1, 2, 1},
		{1, 2, 1, 2, 2},
		{1, 3, 2, 4, 3},
		{2, 5, 1, 3, 3},
		{2, 3, 1, 1, 0},
		{1, 1, 2, 3, 0},
		{2, 1, 1, 1, 0},
		{0, 0, 1, 1, 0},
		{0, 1, 1, 1, 0},
	} {
		got, ok := common(c.oldest, c.newest, c.ownOldest, c.ownNewest)
		if ok != (c.want != 0) || ok && got != c.want {
			t.Errorf("%d to %d and %d to %d: %d, %v; want %d", c.oldest, c.newest, c.ownOldest, c.ownNewest, got, ok, c.want)
		}
	}
	if version, ok := Common(ProtocolMin, ProtocolMax); !ok || version != Protocol || !Supported(version) || Supported(ProtocolMax+1) || Supported(ProtocolMin-1) {
		t.Error("this package does not support its own version")
	}
}
